/** Line diff for the tool cards. Pure; bounded, since both texts come from an agent. */
import { lookUp } from './dom.js';

const CELLS_MAX = 400_000;
const CONTEXT = 3;

/**
 * @typedef {object} DiffLine
 * @property {'same' | 'add' | 'del' | 'skip'} kind
 * @property {string} text
 * @property {number} [oldLine]
 * @property {number} [newLine]
 */

/** @param {unknown} text */
function linesOf(text) {
	if (typeof text !== 'string' || text === '') {
		return [];
	}
	const lines = text.split('\n');
	if (lines.at(-1) === '') {
		lines.pop(); // the end of the last line, not a line
	}
	return lines;
}

/**
 * Lengths of the longest common subsequences of all pairs of tails.
 * @param {string[]} a @param {string[]} b
 */
function commonTails(a, b) {
	const width = b.length + 1;
	const table = new Uint32Array((a.length + 1) * width);
	for (let i = a.length - 1; i >= 0; i -= 1) {
		for (let j = b.length - 1; j >= 0; j -= 1) {
			table[i * width + j] =
				a[i] === b[j]
					? table[(i + 1) * width + j + 1] + 1
					: Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
		}
	}
	return (/** @type {number} */ i, /** @type {number} */ j) => table[i * width + j];
}

/** @param {string[]} a @param {string[]} b @returns {('same' | 'add' | 'del')[]} */
function stepsBetween(a, b) {
	if (a.length * b.length > CELLS_MAX) {
		return [
			...a.map(() => /** @type {const} */ ('del')),
			...b.map(() => /** @type {const} */ ('add')),
		];
	}
	const common = commonTails(a, b);
	/** @type {('same' | 'add' | 'del')[]} */
	const steps = [];
	for (let i = 0, j = 0; i < a.length || j < b.length;) {
		if (i < a.length && j < b.length && a[i] === b[j]) {
			steps.push('same');
			i += 1;
			j += 1;
		} else if (j === b.length || (i < a.length && common(i + 1, j) >= common(i, j + 1))) {
			steps.push('del');
			i += 1;
		} else {
			steps.push('add');
			j += 1;
		}
	}
	return steps;
}

/** Replaces lines far from every change with one `skip` line. @param {DiffLine[]} lines */
function fold(lines) {
	const near = new Uint8Array(lines.length);
	lines.forEach(({ kind }, i) => {
		if (kind !== 'same') {
			near.fill(1, Math.max(0, i - CONTEXT), i + CONTEXT + 1);
		}
	});
	/** @type {DiffLine[]} */
	const folded = [];
	for (let i = 0; i < lines.length;) {
		let end = i;
		while (end < lines.length && !near[end]) {
			end += 1;
		}
		if (end - i > 1) {
			folded.push({ kind: 'skip', text: `${end - i} unchanged lines` });
			i = end;
		} else {
			folded.push(lines[i]);
			i += 1;
		}
	}
	return folded;
}

/**
 * @param {string | null | undefined} oldText absent for a new file
 * @param {string | null | undefined} newText
 * @returns {{lines: DiffLine[], added: number, removed: number}}
 */
export function diffLines(oldText, newText) {
	const a = linesOf(oldText);
	const b = linesOf(newText);
	let head = 0;
	while (head < a.length && head < b.length && a[head] === b[head]) {
		head += 1;
	}
	let tail = 0;
	while (
		tail < a.length - head &&
		tail < b.length - head &&
		a.at(-1 - tail) === b.at(-1 - tail)
	) {
		tail += 1;
	}
	const same = /** @type {'same'} */ ('same');
	const steps = [
		...Array(head).fill(same),
		...stepsBetween(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
		...Array(tail).fill(same),
	];
	let oldLine = 0;
	let newLine = 0;
	const lines = steps.map((kind) => {
		oldLine += kind === 'add' ? 0 : 1;
		newLine += kind === 'del' ? 0 : 1;
		return {
			kind,
			text: kind === 'del' ? a[oldLine - 1] : b[newLine - 1],
			...(kind !== 'add' && { oldLine }),
			...(kind !== 'del' && { newLine }),
		};
	});
	const count = (/** @type {string} */ kind) => steps.filter((step) => step === kind).length;
	return { lines: fold(lines), added: count('add'), removed: count('del') };
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;
const KINDS = { '+': 'add', '-': 'del', ' ': 'same' };

/**
 * The lines of hunks of a unified diff, as diffLines() gives them.
 * @param {string} text @returns {{lines: DiffLine[], added: number, removed: number}}
 */
export function hunkLines(text) {
	/** @type {DiffLine[]} */
	const lines = [];
	let [oldLine, newLine] = [1, 1];
	for (const line of linesOf(text)) {
		const hunk = HUNK.exec(line);
		const kind = /** @type {DiffLine['kind'] | undefined} */ (lookUp(KINDS, line[0], undefined));
		if (hunk) {
			[oldLine, newLine] = [Number(hunk[1]), Number(hunk[2])];
			if (lines.length > 0) {
				lines.push({ kind: 'skip', text: '…' });
			}
		} else if (kind) {
			lines.push({
				kind,
				text: line.slice(1),
				...(kind !== 'add' && { oldLine: oldLine++ }),
				...(kind !== 'del' && { newLine: newLine++ }),
			});
		}
	}
	const count = (/** @type {string} */ wanted) => lines.filter(({ kind }) => kind === wanted).length;
	return { lines, added: count('add'), removed: count('del') };
}
