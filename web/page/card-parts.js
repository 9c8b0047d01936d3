/** Parts shared by the cards. */
import { h, icon, lookUp, visible } from './dom.js';

/** @typedef {import('../client/holdfast-client.js').Item} Item */
/** @typedef {import('../client/holdfast-client.js').HoldfastEvent} HoldfastEvent */

/** @param {HoldfastEvent} event */
export const hooks = ({ seq, type }) => ({ 'data-seq': seq, 'data-type': type });

/** Where the marks of an item are. @type {WeakMap<Item, HTMLElement>} */
const markPlaces = new WeakMap();

/**
 * Events that changed an item instead of adding one leave a mark, so that each can be found. A command's output can be thousands of them:
 * marks that are on the page stay there, get the new ones, and something stands in for them until settleMarks().
 * @param {Item} item @returns {HTMLElement[]}
 */
export function marks(item) {
	const { events } = item;
	if (events.length < 2) {
		return [];
	}
	const known = markPlaces.get(item);
	const place = known?.isConnected ? known : h('span', { class: 'marks', hidden: true });
	place.append(...events.slice(1 + place.childElementCount).map((event) => h('i', { hidden: true, ...hooks(event) })));
	markPlaces.set(item, place);
	return [place === known ? h('span', { class: 'marks', hidden: true, 'data-stays': true }) : place];
}

/** After each morph() of an item's element: puts its marks in place of the stand-in. @param {HTMLElement} element @param {Item} item */
export function settleMarks(element, item) {
	const place = markPlaces.get(item);
	const now = place && /** @type {HTMLElement | null} */ (element.querySelector(':scope > .marks'));
	if (now?.dataset.stays !== undefined) {
		now.replaceWith(place ?? '');
	} else if (now) {
		markPlaces.set(item, now);
	}
}

export function chevron() {
	const arrow = icon('chevron');
	arrow.classList.add('chevron');
	return arrow;
}

/** @param {any} value */
export function rawText(value) {
	return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

const TERMINAL_CODES = /\u001b\[[0-9;?]*[ -/]*[@-~]/g;

/** A program's output without its terminal colours. @param {string} text */
export function output(text) {
	return h('pre', { class: 'output', tabindex: '0' }, visible(text.replace(TERMINAL_CODES, '')));
}

const FOLDED = { lines: 12, chars: 2_000 };
const LONG = { lines: 24, chars: 4_000 }; // hiding only a few lines is not worth a button

/**
 * The beginning of a long text, and what a button for the rest says; null: it is not long.
 * @param {string} text @returns {{start: string, words: string} | null}
 */
export function fold(text) {
	const lines = text.trimEnd().split('\n');
	if (lines.length <= LONG.lines && text.length <= LONG.chars) {
		return null;
	}
	const start = lines.slice(0, FOLDED.lines).join('\n').slice(0, FOLDED.chars);
	const left = lines.length - start.split('\n').length;
	return { start, words: left > 0 ? `Show ${left} more ${left === 1 ? 'line' : 'lines'}` : 'Show all of it' };
}

/** @param {string} words */
export function moreButton(words) {
	return h('button', { type: 'button', class: 'more', 'data-action': 'more' }, words);
}

/** The same as output(), with the first lines of what is long. @param {string} text @param {boolean} [isWhole] */
export function foldedOutput(text, isWhole = false) {
	const folded = isWhole ? null : fold(text.replace(TERMINAL_CODES, ''));
	const element = output(folded ? folded.start : text);
	element.classList.toggle('whole', isWhole || folded !== null);
	return folded ? h('div', { class: 'folded' }, element, moreButton(folded.words)) : element;
}

/** An agent's title: text in backticks becomes code. @param {unknown} text */
export function titleParts(text) {
	return visible(text)
		.split(/`([^`\n]+)`/)
		.map((part, i) => (i % 2 === 1 ? h('code', {}, part) : part));
}

const STATUS_WORDS = {
	pending: 'Pending',
	in_progress: 'Running',
	completed: 'Done',
	failed: 'Failed',
	cancelled: 'Cancelled',
	unfinished: 'Not finished',
};

/** @param {string} status @param {string} [words] */
export function statusChip(status, words = lookUp(STATUS_WORDS, status, status)) {
	return h('span', { class: 'chip', 'data-status': status }, visible(words));
}

/** @param {number} added @param {number} removed */
export function changeCount(added, removed) {
	return h(
		'span',
		{ class: 'diff-count' },
		added > 0 && h('span', { class: 'added' }, `+${added}`),
		removed > 0 && h('span', { class: 'removed' }, `−${removed}`),
	);
}

/** @param {import('./diff.js').DiffLine} line */
export function diffLine({ kind, text, oldLine, newLine }) {
	const name = { add: 'ins', del: 'del', same: 'span', skip: 'span' }[kind];
	return h(
		name,
		{ class: `line ${kind}`, 'data-old': oldLine ?? '', 'data-new': newLine ?? '' },
		visible(`${text}\n`),
	);
}
