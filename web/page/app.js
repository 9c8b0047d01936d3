/** The page: one session at a time, next to the list of all. Connects the parts; knows nothing of the protocol. */
import { HoldfastClient, HoldfastFeed, createSession } from '../client/holdfast-client.js';
import { isSessionId, selectedId } from './address.js';
import { AgentSettings } from './agent-settings.js';
import { Attention, registerWorker } from './attention.js';
import { CommandMenu } from './command-menu.js';
import { Attachments } from './attachments.js';
import { Composer } from './composer.js';
import { ConnectionBar } from './connection-bar.js';
import { Drafts } from './drafts.js';
import { $, drawIcons, h, lookUp } from './dom.js';
import { showEmpty } from './empty.js';
import { FileMenu } from './file-menu.js';
import { Find } from './find.js';
import { Gate } from './gate.js';
import { handleKeys } from './keys.js';
import { InspectorSwitch } from './inspector-switch.js';
import { openMedia } from './media.js';
import { NewSession } from './new-session.js';
import { People } from './people.js';
import { Places } from './places.js';
import { PushSwitch } from './push.js';
import { PromptQueue } from './queue.js';
import { handleReading } from './reading.js';
import { hiddenWords, may, nameMe, setRole } from './rights.js';
import { SessionChanges } from './session-changes.js';
import { SessionList, sessionTitle } from './sessions.js';
import { handleSidebar, showSidebar, showWaiting, toast, watchScrollbar } from './shell.js';
import { Silence } from './silence.js';
import { keepTabId, tabId } from './tab.js';
import { Tap } from './tap.js';
import { Transcript } from './transcript.js';
import { showUsage } from './usage.js';
import { errorText, hintText, lostText, spokenText } from './words.js';

const TITLE_MAX = 60;
const OLDER_PAGE = 200;
const EVENTS_MAX = 5_000; // held in memory, unless the reader has asked for older ones
const EVENTS_AT_END = 1_000; // held once the reader is back at the end
const SPOKEN_AT_ONCE = 10; // more than this is catching up, and is not read aloud

/** @type {HoldfastClient | null} */
let client = null;
/** @type {{seq: number, type: string, data: any}[]} */
let held = [];
/** @type {any} the newest total in an event: shown while there is no connection */
let lastUsage = null;
/** @type {{id: string | null, title: string}} the selected session, as the list last described it */
let heading = { id: null, title: '' };
let isBadId = false;
/** Only this browser's copy is shown: the server has not been reached yet. */
let isCopy = false;

const feed = new HoldfastFeed({ cache: true });
const changes = new SessionChanges(
	{ toasts: $('#toasts'), dialog: $('#rename') },
	{ tell: toast, changed: () => showGoing() },
);
const sessions = new SessionList(
	{ list: $('#sessions'), empty: $('#no-sessions'), filter: $('#session-filter'), order: $('#session-order') },
	{
		take: (action, session) => changes.take(action, session),
		isGoing: (id) => changes.isGoing(id),
	},
);
const transcript = new Transcript(
	{ scroller: $('#scroller'), list: $('#transcript'), tail: $('#tail'), jump: $('#jump') },
	{
		wantOlder: () => client?.loadOlder(OLDER_PAGE) && showLoadingOlder(true),
		answer: answerPermission,
		elicit: (id, action, content) => {
			transcript.setAnswering(id, action);
			client?.answerElicitation(id, action, content);
		},
	},
);
/** @type {Attachments} */
const attachments = new Attachments($('#composer'), $('#attachments'), {
	changed: () => composer?.allowSend(),
	say: (words) => toast(words),
	events: () => client?.events ?? [],
});
const composer = new Composer($('#composer'), {
	send: (message) => sendPrompt(message),
	stop: () => client?.cancel(),
	attached: () => attachments.names,
});
const drafts = new Drafts($('#prompt'));
new CommandMenu($('#composer'), () => client?.agent.commands ?? []);
const files = new FileMenu($('#composer'), () => client?.sessionId ?? newSession.place);
const settings = new AgentSettings($('#agent-settings'), {
	setMode: (id) => client?.setMode(id),
	setModel: (id) => client?.setModel(id),
	setConfigOption: (id, value) => client?.setConfigOption(id, value),
});
const newSession = new NewSession($('#new-session-choice'), {
	changed: () => {
		updateHeading();
		update();
	},
	done: () => composer.focus(),
});
const queue = new PromptQueue($('#queue'), {
	whole: (promptId) => aboutQueue((from) => wholeMessage(from, promptId)),
	edit: (promptId, message) => aboutQueue((from) => from.editPrompt(promptId, message)),
	remove: (promptId) => aboutQueue(async (from) => void (await from.removePrompt(promptId))),
	orphaned: (message) => {
		composer.restore(message);
		toast('This prompt is no longer in the queue. Your text is in the prompt box if that was empty.');
	},
	leave: () => composer.focus(),
});
const connectionBar = new ConnectionBar(
	{
		pill: $('#connection'),
		banner: $('#banner'),
		drop: $('#drop'),
		announcement: $('#connection-announcement'),
	},
	{ retry: () => client?.retryNow(), drop: () => client?.dropConnection() },
);
const attention = new Attention(showQuestion);
const people = new People({ button: $('#people'), panel: $('#people-panel') }, () => [transcript.showNames(), update()]);
const tap = new Tap();
const inspector = new InspectorSwitch({ pane: $('#inspector'), button: $('#inspect') }, tap, { facts, drop: () => client?.dropConnection(), tell: toast });
const places = new Places(transcript);
const silence = new Silence(update);
const find = new Find({ client: () => client, sessions: () => feed.sessions, transcript, route: () => route(), tell: (message) => toast(message) });

function route() {
	const id = selectedId();
	attention.see(id);
	if (document.body.classList.contains('locked')) {
		return;
	}
	showSidebar(false);
	if (isBadId || (client?.sessionId ?? null) !== id) {
		openSession(id);
	}
	sessions.select(id);
	updateHeading();
	find.follow();
}

/** @param {string | null} id */
function openSession(id) {
	places.leave();
	attachments.leave();
	client?.close();
	drafts.open(id);
	openMedia(id);
	isBadId = id !== null && !isSessionId(id);
	client =
		id !== null && !isBadId
			? new HoldfastClient({
					sessionId: id,
					deltas: 'html',
					clientId: tabId(),
					WebSocket: tap.WebSocket,
					maxEvents: EVENTS_MAX,
					cache: true,
				})
			: null;
	held = [];
	lastUsage = null;
	isCopy = false;
	transcript.clear(client?.clientId ?? '');
	queue.clear(client?.clientId ?? '');
	$('#spoken').replaceChildren();
	inspector.reset();
	connectionBar.reset();
	people.open(client);
	places.open(client);
	if (client) {
		keepTabId(client.clientId);
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
	/** Ignores a session once another one is selected. */
	const on = (/** @type {any} */ type, /** @type {(detail: any) => void} */ fn) =>
		from.on(type, (detail) => {
			if (client === from) {
				fn(detail);
				update();
			}
		});
	on('events', ({ events, cached }) => {
		isCopy = cached === true;
		if (events.some((/** @type {any} */ { type }) => /^(x-acp-authenticated|agent_stopped)$/.test(type))) {
			transcript.setLoggingIn(null);
		}
		transcript.append(events);
		void places.follow();
		showConnection();
		lastUsage =
			events.findLast((/** @type {any} */ { type }) => type === 'usage')?.data.total ??
			lastUsage;
		speak(events);
	});
	on('older', () => {
		transcript.replace(from.events);
		showLoadingOlder(false);
	});
	on('trimmed', () => {
		transcript.replace(from.events);
		showLoadingOlder(false);
	});
	on('reset', ({ reason }) => {
		transcript.clear(from.clientId);
		$('#spoken').replaceChildren();
		lastUsage = null;
		const words = {
			epoch: 'The session has another history now',
			ahead: 'The server has an older history',
			pruned: 'The events that you missed are no longer kept',
			behind: 'Too many events were missed',
			access: 'Your access has changed',
		};
		toast(`${lookUp(words, reason, 'The connection was reset')}: the transcript was reloaded.`);
	});
	on('open', ({ blocks }) => transcript.setOpen(blocks));
	on('activity', (detail) => {
		held = detail.held;
	});
	on('state', ({ role, hide }) => {
		if (setRole(role, hide)) {
			showRights();
		}
	});
	on('agent', () => {});
	on('prompts', () => {});
	on('status', ({ status, reason }) => {
		if (status === 'unauthorized') {
			lock(reason);
		}
		isCopy &&= status !== 'live';
		if (status !== 'live') {
			transcript.setLoggingIn(null); // its result is unknown
		}
		$('#transcript').setAttribute('aria-busy', String(status === 'loading'));
		showConnection();
		showLoadingOlder(false);
		void places.follow();
		find.follow();
	});
	on('error', ({ error }) => handleError(error));
}

/** @param {string} [reason] */
function lock(reason) {
	attention.clear();
	void gate.lock(reason);
}

/** Where a notification leads. @param {string} id */
function showQuestion(id) {
	location.hash = `#/s/${encodeURIComponent(id)}`;
	route();
	places.forget();
	transcript.scrollToEnd();
}

/** @param {any} error */
function handleError(error) {
	const { request, prompt, request_id, retrying } = error.detail;
	if (prompt) {
		composer.restore(prompt.message);
	}
	if (/^(permission|elicitation)_answer$/.test(request ?? '') && request_id && !retrying) {
		transcript.setAnswering(request_id, null);
	}
	if (/^set_(mode|model|config_option)$/.test(request ?? '')) {
		settings.restore();
	}
	if (request === 'authenticate') {
		transcript.setLoggingIn(null);
	}
	if (error.code !== 'not_prompting') {
		toast(errorText(error));
	}
}

/** Reads new events aloud. The transcript is not a live region, because scrolling changes it too. @param {any[]} events */
function speak(events) {
	if (client?.status.status !== 'live' || events.length > SPOKEN_AT_ONCE) {
		return;
	}
	const words = events.map(spokenText).filter(Boolean);
	if (words.length > 0) {
		$('#spoken').replaceChildren(...words.map((text) => h('p', {}, text)));
	}
}

/** @param {string} message @param {string} [title] of the session, if this is its first prompt */
async function sendPrompt(message, title = message.split('\n')[0]) {
	places.forget();
	transcript.scrollToEnd();
	const links = files.linksIn(message);
	if (client) {
		promptHere(message, links);
		return;
	}
	try {
		const session = await createSession({
			title: title.length > TITLE_MAX ? `${title.slice(0, TITLE_MAX - 1)}…` : title,
			...newSession.choice,
		});
		newSession.keep();
		drafts.adopt(session.id);
		location.hash = `#/s/${encodeURIComponent(session.id)}`;
		route(); // at once, so that the prompt goes to this session
		promptHere(message, links);
	} catch (error) {
		composer.restore(message);
		toast(`The session could not be created. ${error instanceof Error ? error.message : ''}`);
		newSession.refuse(/** @type {any} */ (error).code);
	}
}

/** @param {string} message @param {any[]} links files that it names */
async function promptHere(message, links) {
	const from = /** @type {HoldfastClient} */ (client);
	if (!(await attachments.prompt(from, message, links))) {
		client === from ? composer.restore(message) : drafts.leave(from.sessionId, message);
	}
	attention.offer();
}

/** @param {HoldfastClient} from @param {string} promptId */
async function wholeMessage(from, promptId) {
	const [{ message }] = await from.listPrompts({ promptId });
	return message;
}

/** Shows errors as a toast. @template T @param {(from: HoldfastClient) => Promise<T>} ask @returns {Promise<T>} */
async function aboutQueue(ask) {
	const from = /** @type {HoldfastClient} */ (client);
	try {
		return await ask(from);
	} catch (error) {
		if (client === from) {
			toast(errorText(/** @type {any} */ (error)));
		}
		throw error;
	}
}

/** @param {string} requestId @param {string} optionId */
function answerPermission(requestId, optionId) {
	transcript.setAnswering(requestId, optionId);
	client?.answerPermission(requestId, optionId);
}

/** A session that is being deleted is shown no more. */
function showGoing() {
	sessions.render();
	if (client && changes.isGoing(client.sessionId)) {
		location.hash = '#/';
	}
}

/** Updates everything that depends on more than one event type. */
function update() {
	const status = isBadId ? 'gone' : (client?.status.status ?? 'closed');
	const {
		is_prompting: prompting = false,
		status: doing = 'idle',
		usage = null,
	} = client?.state ?? {};
	const gone = status === 'gone';
	const live = status === 'live';
	const waiting = gone ? [] : (client?.queue ?? []);
	const prompts = (client?.prompts ?? []).filter(
		({ prompt_id }) => !waiting.some((one) => one.prompt_id === prompt_id),
	);
	queue.show(waiting, client?.state.queue_length ?? 0);
	transcript.setTail({
		lost: live || gone ? '' : lostText(client?.position.seq ?? 0),
		hint: live && transcript.isGrowing ? hintText(held, transcript.openKind) : '',
		working: silence.say(
			live ? silentWords(prompting, doing) : null,
			`${client?.sessionId} ${client?.position.seq} ${held.length}`,
		),
		prompts,
	});
	const { agent, lack } = newSession.about(client ? (sessions.find(client.sessionId) ?? {}) : null);
	newSession.show(!client && !isBadId && may('prompt'));
	composer.update({
		placeholder: gone ? 'This session is gone' : lack || 'Ask the agent',
		disabled: gone || !may('prompt') || lack !== '',
		showStop: prompting && !gone && may('prompt'),
		canStop: live,
	});
	settings.show(gone ? null : (client?.agent ?? null), live && may('prompt'));
	$('#jump span').textContent = doing === 'waiting' ? 'A question is waiting for you' : 'Latest';
	$('#jump').classList.toggle('asks', doing === 'waiting');
	showUsage(
		{ text: $('#usage'), meter: $('#meter'), detail: $('#usage-detail') },
		usage ?? lastUsage,
	);
	$('#export').hidden = transcript.isEmpty || gone;
	const isNew = !client || (live && prompts.length + waiting.length === 0);
	const what = transcript.isEmpty && gone ? 'gone' : transcript.isEmpty && isNew ? 'new' : '';
	showEmpty($('#empty'), what, sendPrompt, { maySend: may('prompt'), isDemo: agent?.is_demo === true, hasNone: newSession.hasNone });
}

/** The words shown while the agent is silent; empty: nobody waits. @param {boolean} prompting @param {string} doing */
function silentWords(prompting, doing) {
	const waits = !transcript.isGrowing && doing !== 'waiting' && (prompting || transcript.loggingIn !== null);
	return waits ? workingWords() : '';
}

/** What a silent agent is doing. Its process is started for the session's first prompt, which can take a while. */
function workingWords() {
	if (transcript.loggingIn !== null) {
		return 'Logging in to the agent';
	}
	const last = client?.events.at(-1)?.type ?? '';
	const starts = !client?.state.is_running && ['user_prompt', 'x-acp-start_delayed', 'agent_stopped'].includes(last);
	return starts ? `Starting ${newSession.nameOf(sessions.find(client?.sessionId ?? null) ?? {})}…` : 'Working';
}

/** A block as prompts contain it; the server adds the size. @param {any} block */
function withoutSize({ size, ...block }) {
	return block;
}

/** Offers what the login allows. */
function showRights() {
	$('#new-session').hidden = !may('prompt');
	$('#composer').hidden = !may('prompt');
	const watching = may('prompt') ? '' : `You are watching. ${nameMe()} cannot send prompts.`;
	$('#watching').textContent = [watching, hiddenWords()].filter(Boolean).join(' ');
	$('#watching').hidden = $('#watching').textContent === '';
	document.body.classList.toggle('watches', !may('prompt'));
	sessions.select(selectedId());
	update();
}

function updateHeading() {
	const id = selectedId();
	const session = sessions.find(id);
	heading = session ? { id, title: session.title } : heading; // a deleted session keeps its name
	const title = id
		? sessionTitle(heading.id === id ? heading : { id, title: '' })
		: may('prompt')
			? 'New session'
			: 'Sessions';
	$('#title').textContent = title;
	$('#title').title = title;
	newSession.showPlace($('#place'), session);
	const waits = session?.status === 'waiting' ? 'Waiting for you: ' : '';
	showWaiting(attention.count - (waits ? 1 : 0));
	const count = attention.count > 0 ? `(${attention.count}) ` : '';
	document.title = count + (id ? `${waits}${title} · Holdfast` : 'Holdfast');
}

function showConnection() {
	const bad = isBadId ? /** @type {const} */ ({ status: 'gone', reason: 'not_found' }) : null;
	connectionBar.show(bad ?? client?.status ?? null, client?.position.seq ?? 0, isCopy ? client?.events.at(-1)?.ts : undefined);
}

/** The client's figures, for the inspector. */
function facts() {
	const { items, mounted } = transcript.size;
	return {
		status: client?.status.status ?? 'closed',
		epoch: client?.position.epoch ?? 'none',
		seq: String(client?.position.seq ?? 0),
		reconnects: String(Math.max(0, (client?.stats.connects ?? 0) - 1)),
		held: String(client?.events.length ?? 0),
		on_page: `${items}, ${mounted}`,
	};
}

/** The line above the first item. @param {boolean} loading */
function showLoadingOlder(loading) {
	const live = client?.status.status === 'live' ? client : null;
	const hasOlder = live !== null && live.hasOlder;
	const isPruned = live !== null && !hasOlder && live.events[0]?.seq > 1;
	$('#older').hidden = !loading && !isPruned;
	$('#older').textContent = loading
		? 'Loading earlier events'
		: 'Earlier events are no longer kept';
	transcript.setHasOlder(!loading && hasOlder);
}

function start() {
	drawIcons();
	registerWorker();
	$('#rename [data-action="cancel"]').addEventListener('click', () => $('#rename').close('cancel'));
	handleSidebar();
	handleKeys({ showSidebar });
	handleReading({
		client: () => client,
		title: () => $('#title').textContent,
		tell: toast,
		showAll: () => transcript.mountAll(),
	});
	watchScrollbar();
	$('#transcript').addEventListener('click', (/** @type {any} */ { target }) => {
		const method = target.closest('[data-action="log-in"]')?.dataset.method;
		if (method !== undefined && client?.authenticate(method)) {
			transcript.setLoggingIn(method);
			update();
		}
		const button = target.closest('[data-action="again"]');
		const prompt = button && client?.events.find(({ type, turn }) => type === 'user_prompt' && turn === Number(button.dataset.turn));
		if (prompt) {
			places.forget();
			transcript.scrollToEnd();
			void client?.prompt(prompt.data.message, { content: prompt.data.content?.map(withoutSize) });
		}
	});
	$('#jump').addEventListener('click', () => client?.dropOlder(EVENTS_AT_END));
	$('.skip-link').addEventListener('click', (/** @type {Event} */ event) => {
		event.preventDefault(); // the address names the session
		composer.focus();
	});
	feed.on('sessions', (detail) => {
		sessions.show(detail.sessions);
		if (!detail.kept) {
			attention.show(detail.sessions);
		}
		updateHeading();
	});
	feed.on('status', ({ status, reason }) => {
		if (status === 'unauthorized') {
			lock(reason);
		}
		if (status === 'live' && may('prompt')) {
			void newSession.load(); // a server that was started again may have other agents
		}
		$('#feed-status').textContent =
			status === 'live' || status === 'connecting'
				? ''
				: feed.isKept
					? 'The server cannot be reached. This is the list that this browser keeps.'
					: 'The list is not being updated at the moment.';
	});
	window.addEventListener('hashchange', route);
	document.addEventListener('visibilitychange', () => attention.see(selectedId()));
}

const push = new PushSwitch(toast);
const gate = new Gate({
	start: () => {
		openSession(selectedId());
		showRights();
		route();
		feed.connect();
		changes.resume();
		void push.show();
	},
	resume: () => {
		route();
		[client, feed].forEach((one) => {
			one?.close();
			one?.connect();
		});
	},
	isLive: () => feed.status.status === 'live',
	tell: toast,
});
start();
