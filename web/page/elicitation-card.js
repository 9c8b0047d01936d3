/** A request of the agent: a form, or an address to go to; once answered, how and by whom. All of it comes from the agent, and is set as text. */
import { hooks, marks } from './card-parts.js';
import { h, icon, visible } from './dom.js';
import { extras } from './lazy.js';
import { isUs, may, nameOf } from './rights.js';

/** @typedef {import('../client/holdfast-client.js').Item} Item */
/** @typedef {import('./cards.js').CardContext} CardContext */

/** The code of the forms, once loaded. @type {((data: any, context: CardContext) => HTMLElement) | null} */
let renderForm = null;
/** Why it could not be loaded; empty: no failure so far. */
let problem = '';

const DONE = { accept: 'answered', decline: 'declined', cancel: 'withdrawn' };

/** @param {Item} item @param {CardContext} context */
export function renderElicitation(item, context) {
	const asked = item.events.find(({ type }) => type === 'elicitation_request');
	const resolved = item.events.find(({ type }) => type === 'elicitation_resolved');
	const first = asked ?? item.events[0];
	const attributes = { ...hooks(first), 'data-request-id': first.data.request_id, role: 'group', 'aria-label': 'Question of the agent' };
	if (resolved || !asked) {
		context.typed.delete(first.data.request_id);
		return h('div', { class: 'item line-item permission', ...attributes, 'data-resolved': resolved?.data.action },
			icon(resolved?.data.action === 'accept' ? 'check' : 'close'),
			h('span', { dir: 'auto' }, visible(asked?.data.message ?? 'A question'), ': ', ...doneWords(resolved?.data ?? {}, context)),
			...marks(item));
	}
	return h('div', { class: 'item card permission', ...attributes },
		h('div', { class: 'card-head' }, icon('alert'), h('span', { class: 'card-title' }, 'The agent asks')),
		h('div', { class: 'card-body' },
			h('p', { class: 'permission-what' }, h('span', { dir: 'auto' }, visible(asked.data.message))),
			may('prompt') ? formOf(asked.data, context) : h('p', { class: 'muted', 'data-testid': 'permission-waits' }, h('bdi', {}, 'It waits for an answer.'))),
		...marks(item));
}

/** @param {any} data @param {CardContext} context @returns {(Node | string)[]} */
function doneWords({ action, by = '', sub, name }, { clientId }) {
	const words = DONE[/** @type {keyof typeof DONE} */ (action)] ?? String(action);
	return [h('b', {}, words), by && ' by ', by && h('span', { title: by }, isUs(by, sub, clientId) ? 'you' : visible(nameOf(by, sub, name)))].filter(Boolean);
}

/** The form's code is loaded with the first question, since few visits meet one. @param {any} data @param {CardContext} context */
function formOf(data, context) {
	if (renderForm) {
		return renderForm(data, context);
	}
	const redraw = () => context.redraw(data.request_id);
	if (problem) {
		const again = () => {
			problem = '';
			redraw();
		};
		return h('div', { class: 'permission-options', role: 'alert' }, h('bdi', {}, problem), h('button', { type: 'button', class: 'button', onclick: again }, 'Try again'));
	}
	extras().then(({ elicitationForm }) => (renderForm = elicitationForm), ({ message }) => (problem = message)).then(redraw);
	return h('p', { class: 'muted' }, h('bdi', {}, 'The form is being loaded.'));
}
