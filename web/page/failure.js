/** Why an agent has stopped, and what to do about it. */
import { chevron, hooks, output, titleParts } from './card-parts.js';
import { h, icon, visible } from './dom.js';
import { may } from './rights.js';

/** The agent's last output, behind "Details". @param {string} stderr */
export function failure(stderr) {
	return h(
		'details',
		{ class: 'failure', 'data-testid': 'failure' },
		h('summary', {}, 'Details', chevron()),
		output(stderr),
	);
}

const QUIET = ['idle', 'stopped', 'server_stopped', 'server_restart']; // nobody's fault

/** Whether failureCard() makes a card of an event. @param {any} event */
export function isFailure({ data: { reason, message, detail = message, stderr, cancelled } }) {
	return !QUIET.includes(reason) && !cancelled && Boolean(detail || stderr);
}

/** @param {any} event of the turn whose prompt it is */
export function againButton(event) {
	const isOffered = may('prompt') && event.turn !== undefined;
	return isOffered && h('button', { type: 'button', class: 'button small again', 'data-action': 'again', 'data-turn': event.turn, 'data-testid': 'again' }, 'Send the prompt again');
}

/** Of an agent that has stopped, or of a turn that it wants a login for. @param {any} event @param {string | null} loggingIn the way to log in that was asked for @returns {HTMLElement | null} null: a line is enough */
export function failureCard(event, loggingIn) {
	const { reason, message, detail = message, stderr, login } = event.data;
	if (!isFailure(event)) {
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
			login && loginPart(login, loggingIn),
			typeof stderr === 'string' && stderr !== '' && failure(stderr),
			againButton(event),
		),
	);
}

/** @param {any[]} ways @param {string | null} loggingIn */
function loginPart(ways, loggingIn) {
	const [here, there] = [ways.filter(isForHere), ways.filter((way) => !isForHere(way))];
	return h(
		'div',
		{ class: 'login-ways', 'data-testid': 'login-ways' },
		here.length > 0 && h('p', { dir: 'auto' }, 'Log in here. A web page that this opens is on the server’s machine. Then send the prompt again.'),
		here.length > 0 && h('ul', {}, ...here.map((way) => wayPart(way, loggingIn))),
		(there.length > 0 || ways.length === 0) && h('p', { dir: 'auto' }, `${here.length > 0 ? 'Or log in' : 'Log in'} with the agent's own program, as the user that runs the server${there.length > 0 ? ', in one of these ways' : ''}. Then send the prompt again.`),
		there.length > 0 && h('ul', {}, ...there.map((way) => wayPart(way, loggingIn))),
	);
}

/** Whether the page can start this login; the others need somebody at the server, even if only their words say so. @param {any} way */
function isForHere({ method_id: id, type = 'agent', description }) {
	return typeof id === 'string' && type === 'agent' && !/\bterminal\b/i.test(String(description ?? '')) && may('prompt');
}

/** @param {any} way @param {string | null} loggingIn */
function wayPart(way, loggingIn) {
	const { method_id: id, name, description, args = [], vars = [] } = way;
	const code = (/** @type {string[]} */ all) => all.flatMap((one, i) => [i > 0 && ', ', h('code', {}, visible(one))]);
	return h(
		'li',
		{ dir: 'auto' },
		h('b', {}, ...titleParts(name)),
		description && h('div', { class: 'muted' }, ...titleParts(description)),
		args.length > 0 && h('div', {}, 'In a terminal: the agent’s command with ', h('code', {}, visible(args.join(' ')))),
		vars.length > 0 && h('div', {}, 'Start the server with ', ...code(vars.map((/** @type {string} */ one) => `--agent-env ${one}`)), ', and with the value in its environment'),
		isForHere(way) && loginButton(id, name, loggingIn),
	);
}

/** @param {string} id @param {unknown} name @param {string | null} loggingIn */
function loginButton(id, name, loggingIn) {
	const button = h(
		'button',
		{ type: 'button', class: 'button small log-in', 'data-action': 'log-in', 'data-method': id, 'data-testid': 'log-in', 'aria-label': `Log in: ${visible(String(name))}` },
		loggingIn === id ? 'Logging in…' : 'Log in',
	);
	button.disabled = loggingIn !== null;
	return button;
}
