/** The demo page: one session at a time, beside the list of all. Wires the parts, holds no protocol. */
import { HoldfastClient, HoldfastFeed, createSession, deleteSession } from './holdfast-client.js';
import { randomId } from './holdfast-connection.js';
import { Composer } from './composer.js';
import { $, h, handleCopies, icon, lookUp } from './dom.js';
import { SessionList, sessionTitle } from './sessions.js';
import { Transcript } from './transcript.js';

const TITLE_MAX = 60;
const TOAST_MS = 7_000;

const EXAMPLES = [
	['list', 'A long list'],
	['table', 'A table'],
	['code', 'Some code'],
	['permission', 'Ask for permission'],
	['long', 'A long answer'],
];

const STATUS_WORDS = {
	closed: 'Not connected',
	connecting: 'Connecting',
	loading: 'Catching up',
	live: 'Live',
	retrying: 'Reconnecting',
	offline: 'Offline',
	gone: 'Deleted',
};

/** @type {HoldfastClient | null} */
let client = null;
/** @type {{seq: number, type: string, data: any}[]} */
let held = [];
/** @type {any} the newest figure that came as an event, for servers that say none in `state` */
let lastUsage = null;
let countdown = 0;
/** @type {{id: string | null, title: string}} what the list last said about the session on the page */
let heading = { id: null, title: '' };

const feed = new HoldfastFeed();
const sessions = new SessionList($('#sessions'), $('#no-sessions'), confirmDelete);
const transcript = new Transcript(
	{ scroller: $('#scroller'), list: $('#transcript'), tail: $('#tail'), jump: $('#jump') },
	{ wantOlder: () => client?.loadOlder() && showLoadingOlder(true), answer: answerPermission },
);
const composer = new Composer($('#composer'), {
	send: (message) => sendPrompt(message),
	stop: () => client?.cancel(),
});

/** One for each tab, so that after a reload what was answered here is still answered by "you". */
function tabId() {
	const key = 'holdfast-client-id';
	try {
		const id = sessionStorage.getItem(key) ?? randomId();
		sessionStorage.setItem(key, id);
		return id;
	} catch {
		return randomId(); // some browsers refuse to keep anything
	}
}

/** The session that the address names: `#/s/<id>`; null for a new one. */
function selectedId() {
	const match = location.hash.match(/^#\/s\/([^/?]+)/);
	try {
		return match ? decodeURIComponent(match[1]) : null;
	} catch {
		return null;
	}
}

function route() {
	const id = selectedId();
	showSidebar(false);
	if (client?.sessionId !== id) {
		openSession(id);
	}
	sessions.select(id);
	updateHeading();
}

/** @param {string | null} id */
function openSession(id) {
	client?.close();
	client = id ? new HoldfastClient({ sessionId: id, deltas: 'html', clientId: tabId() }) : null;
	held = [];
	lastUsage = null;
	transcript.clear(client?.clientId ?? '');
	if (client) {
		listen(client);
		client.connect();
	}
	update();
	showConnection();
	if (matchMedia('(hover: hover)').matches) {
		composer.focus(); // on a phone this would open the keyboard
	}
}

/** @param {HoldfastClient} from */
function listen(from) {
	/** Nothing that a session said may reach the page after another one was chosen. */
	const on = (/** @type {string} */ type, /** @type {(detail: any) => void} */ fn) =>
		from.on(type, (detail) => {
			if (client === from) {
				fn(detail);
				update();
			}
		});
	on('events', ({ events }) => {
		transcript.append(events);
		lastUsage =
			events.findLast((/** @type {any} */ { type }) => type === 'usage')?.data ?? lastUsage;
	});
	on('older', () => {
		transcript.prepend(from.events);
		showLoadingOlder(false);
	});
	on('reset', ({ reason }) => {
		transcript.clear(from.clientId);
		lastUsage = null;
		const words = {
			epoch: 'This is another history now',
			ahead: 'The server has an older history',
			pruned: 'The beginning has been removed',
		};
		toast(`${lookUp(words, reason, 'Loaded anew')}: the transcript was loaded again.`);
	});
	on('open', ({ blocks }) => transcript.setOpen(blocks));
	on('activity', (detail) => {
		held = detail.held;
	});
	on('state', () => {});
	on('prompts', () => {});
	on('status', ({ status }) => {
		$('#transcript').setAttribute('aria-busy', String(status === 'loading'));
		showConnection();
		showLoadingOlder(false);
		transcript.setHasOlder(status === 'live' && from.hasOlder);
	});
	on('error', ({ error }) => handleError(error));
}

/** @param {any} error */
function handleError(error) {
	const { request, prompt, request_id } = error.detail;
	if (prompt) {
		composer.restore(prompt.message);
	}
	if (request === 'permission_answer' && request_id) {
		transcript.setAnswering(request_id, null);
	}
	if (error.code !== 'not_prompting') {
		toast(error.message);
	}
}

/** @param {string} message @param {string} [title] of the session, if this is its first prompt */
async function sendPrompt(message, title = message.split('\n')[0]) {
	transcript.scrollToEnd();
	if (client) {
		promptHere(message);
		return;
	}
	try {
		const session = await createSession({
			title: title.length > TITLE_MAX ? `${title.slice(0, TITLE_MAX - 1)}…` : title,
		});
		location.hash = `#/s/${encodeURIComponent(session.id)}`;
		route(); // now, so that the prompt goes to this session whatever comes next
		promptHere(message);
	} catch (error) {
		composer.restore(message);
		toast(`The session could not be made. ${error instanceof Error ? error.message : ''}`);
	}
}

/** @param {string} message */
function promptHere(message) {
	client?.prompt(message);
}

/** @param {string} requestId @param {string} optionId */
function answerPermission(requestId, optionId) {
	transcript.setAnswering(requestId, optionId);
	client?.answerPermission(requestId, optionId);
}

/** @param {any} session */
function confirmDelete(session) {
	const dialog = $('#confirm-delete');
	$('#confirm-name').textContent = sessionTitle(session);
	dialog.returnValue = 'cancel';
	dialog.onclose = async () => {
		if (dialog.returnValue !== 'delete') {
			return;
		}
		try {
			await deleteSession(session.id);
			if (client?.sessionId === session.id) {
				location.hash = '#/';
			}
		} catch (error) {
			toast(
				`The session could not be deleted. ${error instanceof Error ? error.message : ''}`,
			);
		}
	};
	dialog.showModal();
}

/** Brings all that depends on several things at once up to date. */
function update() {
	const status = client?.status.status ?? 'closed';
	const {
		is_prompting: prompting = false,
		status: doing = 'idle',
		usage = null,
	} = client?.state ?? {};
	const gone = status === 'gone';
	const live = status === 'live';
	const prompts = client?.prompts ?? [];
	transcript.setTail({
		lost: live || gone ? '' : lostText(),
		hint: live ? hintText() : '',
		working: live && prompting && !transcript.isGrowing && doing !== 'waiting',
		prompts,
	});
	composer.update({
		placeholder: gone ? 'This session is gone' : 'Ask the agent',
		disabled: gone,
		showStop: prompting && !gone,
		canStop: live,
	});
	$('#usage').textContent = usageText(usage ?? lastUsage);
	showEmpty(
		!client ||
			(live && transcript.isEmpty && prompts.length === 0) ||
			(gone && transcript.isEmpty),
		gone,
	);
}

function lostText() {
	const seq = client?.position.seq ?? 0;
	return seq > 0 ? `The connection is lost. Once it is back, it goes on after event ${seq}.` : '';
}

function hintText() {
	const what = transcript.openKind;
	/** What becomes of one tool call is one thing. @type {Map<any, any>} */
	const waiting = new Map();
	for (const notice of held) {
		const key = notice.data?.tool_call_id ?? notice.seq;
		waiting.set(key, waiting.get(key) ?? notice);
	}
	if (waiting.size === 0 || !transcript.isGrowing) {
		return '';
	}
	if (waiting.size > 1) {
		return `${waiting.size} things are waiting for the ${what} to end`;
	}
	const [{ type, data }] = waiting.values();
	const names = {
		tool_call: 'A tool call',
		tool_call_update: 'A tool update',
		plan: 'A plan',
		agent_thought: 'A thought',
		file_read: 'Reading a file',
		file_write: 'Writing a file',
	};
	const detail = data?.title ?? data?.path;
	return `${lookUp(names, type, 'Something')} is waiting for the ${what} to end${detail ? `: ${detail}` : ''}`;
}

/** @param {any} usage */
function usageText(usage) {
	const short = (/** @type {number} */ n) =>
		Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 }).format(n);
	const parts = [];
	if (Number.isFinite(usage?.used)) {
		parts.push(
			Number.isFinite(usage.size)
				? `${short(usage.used)} of ${short(usage.size)} tokens`
				: `${short(usage.used)} tokens`,
		);
	} else if (Number.isFinite(usage?.input_tokens) || Number.isFinite(usage?.output_tokens)) {
		parts.push(
			`${short(usage.input_tokens ?? 0)} tokens in, ${short(usage.output_tokens ?? 0)} out`,
		);
	}
	if (Number.isFinite(usage?.cost?.amount)) {
		parts.push(`${usage.cost.amount.toFixed(2)} ${usage.cost.currency ?? ''}`.trim());
	}
	return parts.join(' · ');
}

/** @param {boolean} show @param {boolean} gone */
function showEmpty(show, gone) {
	const empty = $('#empty');
	if (empty.hidden === !show && empty.dataset.gone === String(gone)) {
		return;
	}
	empty.hidden = !show;
	empty.dataset.gone = String(gone);
	if (gone) {
		empty.replaceChildren(
			h('h2', {}, 'This session does not exist'),
			h('p', {}, 'It was deleted, or never was.'),
			h('a', { class: 'button primary', href: '#/' }, 'New session'),
		);
		return;
	}
	empty.replaceChildren(
		h('img', { src: 'icon.svg', alt: '', width: '44', height: '44' }),
		h('h2', {}, 'What should the agent do?'),
		h(
			'p',
			{},
			'Every line is kept on the server. Drop the connection, close the page, come back on your phone: it goes on exactly where you were.',
		),
		h(
			'button',
			{
				type: 'button',
				class: 'button primary',
				'data-testid': 'tour',
				onclick: () => sendPrompt('tour', 'A short tour'),
			},
			'Start the tour',
		),
		h(
			'div',
			{ class: 'examples', role: 'group', 'aria-label': 'Examples' },
			...EXAMPLES.map(([prompt, words]) =>
				h(
					'button',
					{
						type: 'button',
						class: 'example',
						'data-prompt': prompt,
						onclick: () => sendPrompt(prompt, words),
					},
					words,
				),
			),
		),
	);
}

function updateHeading() {
	const id = selectedId();
	const session = sessions.find(id);
	heading = session ? { id, title: session.title } : heading; // a deleted session keeps its name on the page
	const title = id
		? sessionTitle(heading.id === id ? heading : { id, title: '' })
		: 'New session';
	$('#title').textContent = title;
	const waits = session?.status === 'waiting' ? 'Waiting for you: ' : '';
	document.title = id ? `${waits}${title} · Holdfast` : 'Holdfast';
}

function showConnection() {
	const pill = $('#connection');
	pill.hidden = $('#drop').hidden = !client;
	clearInterval(countdown);
	if (!client) {
		return;
	}
	const { status, retryAt, reason } = client.status;
	const word = status === 'gone' && reason === 'unknown' ? 'Not found' : STATUS_WORDS[status];
	const say = () => {
		const seconds = Math.max(0, Math.ceil(((retryAt ?? 0) - Date.now()) / 1000));
		const words = {
			retrying: `Reconnecting in ${seconds} s`,
			offline: `Offline, retrying in ${seconds} s`,
		};
		pill.querySelector('.pill-text').textContent = lookUp(words, status, word);
	};
	pill.dataset.status = status;
	pill.title = status === 'live' ? 'Check the connection' : 'Connect now';
	$('#drop').disabled = status !== 'live';
	say();
	if (retryAt) {
		countdown = window.setInterval(say, 250);
	}
	// Said once a change, not with every second of the countdown.
	if (status === 'live' || status === 'retrying' || status === 'offline' || status === 'gone') {
		$('#connection-announcement').textContent = `Connection: ${word}`;
	}
}

/** @param {boolean} loading */
function showLoadingOlder(loading) {
	$('#older').hidden = !loading;
	transcript.setHasOlder(!loading && client?.status.status === 'live' && client.hasOlder);
}

/** @param {string} message */
function toast(message) {
	const element = h('div', { class: 'toast' }, icon('alert'), h('span', {}, message));
	$('#toasts').replaceChildren(element);
	setTimeout(() => element.remove(), TOAST_MS);
}

/** @param {boolean} show only matters where the sidebar is a drawer */
function showSidebar(show) {
	const narrow = matchMedia('(max-width: 760px)').matches;
	document.body.classList.toggle('sidebar-open', show && narrow);
	$('#sidebar').inert = narrow && !show;
	$('main').inert = narrow && show;
	$('[data-action="open-sidebar"]').setAttribute('aria-expanded', String(show && narrow));
}

function start() {
	document
		.querySelectorAll('[data-icon]')
		.forEach((element) =>
			element.prepend(icon(/** @type {HTMLElement} */ (element).dataset.icon ?? '')),
		);
	handleCopies(document.body);
	$('.skip-link').addEventListener('click', (/** @type {Event} */ event) => {
		event.preventDefault(); // the address names the session
		composer.focus();
	});
	$('#drop').addEventListener('click', () => client?.dropConnection());
	$('#connection').addEventListener('click', () => client?.retryNow());
	$('[data-action="open-sidebar"]').addEventListener('click', () => showSidebar(true));
	document
		.querySelectorAll('[data-action="close-sidebar"]')
		.forEach((element) => element.addEventListener('click', () => showSidebar(false)));
	document.addEventListener('keydown', (event) => event.key === 'Escape' && showSidebar(false));
	matchMedia('(max-width: 760px)').addEventListener('change', () => showSidebar(false));
	$('#sidebar').addEventListener(
		'click',
		(/** @type {any} */ event) => event.target.closest('a') && showSidebar(false),
	);
	new ResizeObserver(([{ target }]) => {
		const { offsetWidth, clientWidth } = /** @type {HTMLElement} */ (target);
		const sides = 2; // scrollbar-gutter keeps the room on both
		document.documentElement.style.setProperty(
			'--scrollbar',
			`${(offsetWidth - clientWidth) / sides}px`,
		);
	}).observe($('#scroller'));
	feed.on('sessions', (detail) => {
		sessions.show(detail.sessions);
		updateHeading();
	});
	feed.on('status', ({ status }) => {
		$('#feed-status').textContent =
			status === 'live' || status === 'connecting'
				? ''
				: 'The list is not live at the moment.';
	});
	window.addEventListener('hashchange', route);
	openSession(selectedId());
	route();
	feed.connect();
}

start();
