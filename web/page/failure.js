/** Why an agent has stopped, and what to do about it. */
import { chevron, hooks, output, titleParts } from './card-parts.js';
import { h, icon, visible } from './dom.js';
import { may } from './rights.js';

/** What the agent has written last, behind "Details". @param {string} stderr */
export function failure(stderr) {
	return h(
		'details',
		{ class: 'failure', 'data-testid': 'failure' },
		h('summary', {}, 'Details', chevron()),
		output(stderr),
	);
}

const QUIET = ['idle', 'stopped', 'server_stopped', 'server_restart']; // nobody's fault

/** @param {any} event @returns {HTMLElement | null} null: a line is enough */
export function failureCard(event) {
	const { reason, detail, stderr, login, cancelled } = event.data;
	if (QUIET.includes(reason) || cancelled || (!detail && !stderr)) {
		return null;
	}
	const words = login ? String(detail ?? '').split('. If this is about a login')[0] : detail;
	return h(
		'div',
		{ class: 'item card agent-failure', ...hooks(event), 'data-reason': reason },
		h(
			'div',
			{ class: 'card-head' },
			icon('alert'),
			h('span', { class: 'card-title' }, login ? 'The agent wants a login' : 'The agent has stopped'),
			!login && h('span', { class: 'failure-reason muted' }, visible(String(reason).replaceAll('_', ' '))),
		),
		h(
			'div',
			{ class: 'card-body' },
			words && h('p', { class: 'failure-words', dir: 'auto' }, ...titleParts(words)),
			login && loginPart(login),
			typeof stderr === 'string' && stderr !== '' && failure(stderr),
			may('prompt') && event.turn !== undefined && h('button', { type: 'button', class: 'button small again', 'data-action': 'again', 'data-turn': event.turn, 'data-testid': 'again' }, 'Send the prompt again'),
		),
	);
}

/** @param {any[]} ways */
function loginPart(ways) {
	return h(
		'div',
		{ class: 'login-ways', 'data-testid': 'login-ways' },
		h('p', { dir: 'auto' }, `Log in with the agent's own program, as the user that runs the server${ways.length > 0 ? ', in one of these ways' : ''}. Then send the prompt again.`),
		ways.length > 0 && h('ul', {}, ...ways.map(wayPart)),
	);
}

/** @param {any} way */
function wayPart({ name, description, args = [], vars = [] }) {
	const code = (/** @type {string[]} */ all) => all.flatMap((one, i) => [i > 0 && ', ', h('code', {}, visible(one))]);
	return h(
		'li',
		{ dir: 'auto' },
		h('b', {}, ...titleParts(name)),
		description && h('div', { class: 'muted' }, ...titleParts(description)),
		args.length > 0 && h('div', {}, 'In a terminal: the agent’s command with ', h('code', {}, visible(args.join(' ')))),
		vars.length > 0 && h('div', {}, 'Start the server with ', ...code(vars.map((/** @type {string} */ one) => `--agent-env ${one}`)), ', and with the value in its environment'),
	);
}
