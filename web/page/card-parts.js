/** Parts shared by the cards. */
import { h, icon, lookUp, visible } from './dom.js';

/** @typedef {import('./transcript-model.js').Item} Item */
/** @typedef {import('../client/holdfast-client.js').HoldfastEvent} HoldfastEvent */

/** @param {HoldfastEvent} event */
export const hooks = ({ seq, type }) => ({ 'data-seq': seq, 'data-type': type });

/** Events that changed an item instead of adding one leave a mark, so that each can be found. */
export function marks(/** @type {Item} */ { events }) {
	return events.slice(1).map((event) => h('i', { hidden: true, ...hooks(event) }));
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

/** What a program has said, without the colours it had on its terminal. @param {string} text */
export function output(text) {
	return h('pre', { class: 'output', tabindex: '0' }, visible(text.replace(TERMINAL_CODES, '')));
}

const STATUS_WORDS = {
	pending: 'Pending',
	in_progress: 'Running',
	completed: 'Done',
	failed: 'Failed',
	cancelled: 'Cancelled',
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
