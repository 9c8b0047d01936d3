/** What the cards have in common. */
import { h, icon, visible } from './dom.js';

/** @typedef {import('./transcript-model.js').Item} Item */
/** @typedef {import('./holdfast-client.js').HoldfastEvent} HoldfastEvent */

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
