// Whether a list, a table or a fence was interrupted: found out from the text of a turn, line by line, and
// knowing nothing of how the server finds blocks. Good for texts as models write them, not for every corner
// of CommonMark.

import assert from 'node:assert/strict';

const FENCE = /^\s*(?:>\s?|[-*+]\s+|\d{1,9}[.)]\s+)*(`{3,}|~{3,})(.*)$/;
const ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
const INTERRUPTING = /^ {0,3}(?:[-*+]|0{0,8}1[.)])\s+\S/; // the items that may follow a paragraph's line
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const DELIMITERS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const HEADING = /^ {0,3}#{1,6}(?:\s|$)/;
/** The beginning of a line that may still become anything. */
const UNDECIDED = /^(?:[\s*+>_`~#|:-]|\d{1,9}[.)]?)*$/;
const QUOTE = /^ {0,3}>/;

/**
 * The block that each line is in: {start, end, kind, id, isBlank}, `end` behind its newline. Lines with the
 * same id are in one block; the kinds are list, table, fence and other.
 */
function linesOf(text) {
	const lines = [];
	let at = 0;
	let block = { id: 0, kind: 'other' };
	let fence = null; // {char, length, block}: an open one, by itself or in a list
	let before = '';
	const begin = (kind) => (block = { id: block.id + 1, kind });
	for (const line of text.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
		const words = line.replace(/\r?\n$/, '');
		const isBlank = words.trim() === '';
		if (fence) {
			const close = /^\s*(`{3,}|~{3,})\s*$/.exec(words);
			if (close && close[1][0] === fence.char && close[1].length >= fence.length) {
				fence.isClosed = true;
			}
		} else if (!isBlank) {
			const afterBlank = before.trim() === '';
			const opener = FENCE.exec(words);
			const isIndented = /^(?: {2,}|\t)/.test(words);
			const inList = block.kind === 'list' && (isIndented || (!afterBlank && !opener && !HEADING.test(words) && !QUOTE.test(words)));
			if (RULE.test(words) || HEADING.test(words)) {
				begin('other');
			} else if (ITEM.test(words) && (block.kind !== 'other' || afterBlank || INTERRUPTING.test(words))) {
				const marker = /[-*+.)]/.exec(words)[0];
				if (block.kind !== 'list' || (!isIndented && block.marker !== marker)) {
					begin('list');
					block.marker = marker;
				}
			} else if (inList) {
				// goes on
			} else if (opener) {
				begin('fence');
			} else if (DELIMITERS.test(words) && words.includes('-') && before.includes('|') && words.includes('|') && block.kind === 'other') {
				begin('table');
				lines.at(-1).kind = 'table';
				lines.at(-1).id = block.id;
			} else if (block.kind === 'table' ? afterBlank || QUOTE.test(words) : block.kind !== 'other' || afterBlank || QUOTE.test(words)) {
				begin('other');
			}
			if (opener && !(opener[1][0] === '`' && opener[2].includes('`'))) {
				fence = { char: opener[1][0], length: opener[1].length, isClosed: false };
			}
		}
		lines.push({ start: at, end: at + line.length, kind: fence ? (block.kind === 'other' ? 'fence' : block.kind) : block.kind, id: block.id, isBlank, inFence: fence !== null });
		if (fence?.isClosed) {
			fence = null;
			if (block.kind === 'fence') {
				begin('other');
			}
		}
		at += line.length;
		before = words;
	}
	return lines;
}

/**
 * What is cut in two at `offset` of the text: 'list', 'table', 'fence', or null. A list that has just seen a
 * blank line may end where it is (docs/blocks.md#where-a-block-ends), even if it happens to go on; a table's header is a
 * paragraph up to the end of the row below it; and a line with nothing but a marker is no block yet.
 */
export function interruptedAt(text, offset) {
	const lines = linesOf(text);
	const lineStart = text.lastIndexOf('\n', offset - 1) + 1;
	const at = UNDECIDED.test(text.slice(lineStart, offset)) ? lineStart : offset;
	const last = lines.findIndex((line) => line.end >= at && at > line.start);
	if (last < 0 || at >= text.trimEnd().length) {
		return null;
	}
	const line = lines[last];
	const isHeader = line.kind === 'table' && lines[last - 2]?.id !== line.id && (lines[last - 1]?.id !== line.id || at < line.end);
	if (line.kind === 'other' || isHeader) {
		return null;
	}
	const next = lines.slice(last + 1).find((l) => !l.isBlank);
	const goesOn = at < line.end || (next?.id === line.id && (line.inFence || !line.isBlank));
	return goesOn ? line.kind : null;
}

/** The messages of a turn as texts of their own: another message_id begins another text. */
function runsOf(events) {
	const runs = [];
	for (const event of events) {
		const last = runs.at(-1);
		if (last === undefined || (event.type === 'agent_message' && last.id !== undefined && event.message_id !== undefined && event.message_id !== last.id)) {
			runs.push({ id: event.message_id, events: [event] });
		} else {
			last.events.push(event);
			last.id ??= event.type === 'agent_message' ? event.message_id : undefined;
		}
	}
	return runs.map((run) => run.events);
}

function interruptionsOfRun(events) {
	const text = events.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown).join('');
	const found = [];
	let begin = 0; // of what is one text for a reader: behind a place where nothing was open, a new one begins
	let offset = 0;
	let between = false;
	for (const { type, data } of events) {
		if (type !== 'agent_message') {
			between = true;
			continue;
		}
		if (between && offset > 0) {
			const kind = interruptedAt(text.slice(begin), offset - begin);
			found.push({ kind, cut: data.continues !== undefined, before: text.slice(begin, offset), after: text.slice(offset) });
			begin = kind === null && data.continues === undefined ? offset : begin;
		}
		between = false;
		offset += data.markdown.length;
	}
	return found;
}

/**
 * Every place in a turn's events where something stands between two messages: [{kind, cut, before, after}],
 * `kind` as interruptedAt() says, `cut` if the message after it says that it continues what was before.
 */
export function interruptions(events) {
	return runsOf(events).flatMap(interruptionsOfRun);
}

/** Asserts that no list, table or fence of a turn was interrupted, unless it was cut and says so; gives how many were. */
export function assertWhole(events) {
	const all = interruptions(events).filter(({ kind }) => kind !== null);
	for (const { kind, cut, before, after } of all) {
		assert.ok(cut, `a ${kind} was interrupted: ${JSON.stringify(before.slice(-200))} | ${JSON.stringify(after.slice(0, 200))}`);
	}
	return all.length;
}
