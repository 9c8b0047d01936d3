/**
 * The Holdfast client: observes a session, and takes part in it, over a connection that may break at
 * any byte. ES module, no dependencies. Runs in browsers, in workers, and in Node (before version 22
 * with a WebSocket constructor passed in).
 *
 * Recovery depends on one value: the position, computed from the events held. No other state records
 * the progress, so none can disagree with the events shown.
 */
import { AgentState } from './agent.js';
import { Emitter, HoldfastError, deepFreeze, randomId, socketUrl, surroundings } from './base.js';
import { Connection } from './connection.js';
import { completeFiles } from './files.js';
import { History } from './history.js';
import { iterate } from './iterator.js';
import { Participant } from './participant.js';
import { SessionState } from './state.js';
import { TranscriptSnapshots, openElicitations, openPermissions } from './transcript.js';

// This file is the library's only entry: HoldfastClient below, and these. holdfast-client.d.ts declares them.
export { HoldfastError } from './base.js';
export { HoldfastFeed, createSession, deleteSession, labelSession, listAgents, listDirectories, listSessions, search } from './feed.js';
export { fetchBlob, uploadBlob } from './blobs.js';
export { completeFiles } from './files.js';
export { getPush, setPush } from './push.js';
export { TranscriptModel, toolState } from './transcript.js';
export { checkLogin, currentLogin, forgetLogin, isLoginWith, login, logout } from './login.js';

/** @typedef {import('./connection.js').StatusDetail} StatusDetail */
/** @typedef {import('./base.js').Surroundings} Surroundings */
/** @typedef {import('./base.js').ClientOptions} ClientOptions */
/** @typedef {import('./log.js').HoldfastEvent} HoldfastEvent */
/** @typedef {import('./outbox.js').PendingPrompt} PendingPrompt */
/** @typedef {import('./provisional.js').OpenBlock} OpenBlock */

const CLOSE_GONE = 4404;
const CLOSE_TOO_LARGE = 1009;

/**
 * One session. Events it dispatches (`on(type, listener)` hands over the detail):
 * - `events` {events, cached?}: appended, in order, each once · `older` {events, hasOlder}: put in
 *   front · `trimmed` {count}: this many of the oldest are no longer held
 * - `reset` {reason}: everything held is void; the new history follows as `events`
 * - `open` {blocks}: all provisional blocks after the last event, usually one; dispatched when one grows
 *   or is void, not when its event takes its place
 * - `agent` {agent}: the agent's modes, options or commands have changed
 * - `activity` {held}: inputs that wait for an open block to end · `state`: the session's state
 * - `prompts` {prompts}: our prompts that have no event yet · `queue` {queue}: the queued prompts of all
 * - `presence` {presence}: who is here, once watchPresence() was called
 * - `status`: see StatusDetail
 * - `error` {error}: a HoldfastError; the connection continues unless `status` says otherwise
 */
export class HoldfastClient extends Emitter {
	#participant;
	#agent;
	/** @type {History} */
	#history;
	#connected = false;
	#place;
	#state = new SessionState();
	/** @type {StatusDetail} */
	#status = { status: 'closed' };
	#connection;
	#transcripts = new TranscriptSnapshots();
	/** What was sent about us, to be sent on each connection. @type {{name?: string | null, watch?: boolean}} */
	#about = {};
	/** @type {any} */
	#presence = null;
	/** @type {any} `value` was computed from the transcript `of` */
	#permissions = { of: null, value: Object.freeze([]) };
	/** @type {any} */
	#elicitations = { of: null, value: Object.freeze([]) };
	/** @type {any} */
	#stats = null;

	/** @param {Surroundings & ClientOptions} options */
	constructor(options) {
		super();
		const around = surroundings(options);
		this.#place = options;
		const format = options.format ?? 'html';
		this.sessionId = options.sessionId;
		this.clientId = options.clientId ?? randomId();
		const path = `/api/sessions/${encodeURIComponent(options.sessionId)}/ws`;
		const url = socketUrl(around.base, path, {
			format,
			deltas: options.deltas,
			client_id: this.clientId,
		});
		this.#participant = new Participant(this.clientId, {
			say: (type, data) => this.#connected && this.#connection.send(type, data),
			send: (type, data) => this.#connected && !this.#history.isReading && this.#connection.send(type, data),
			timers: around.timers,
			isOver: () => this.#isOver,
			changed: () => this.emit('prompts', { prompts: this.prompts }),
		});
		this.#agent = new AgentState(around, this.sessionId, () => this.#handleAgent());
		this.#connection = new Connection(around, url, {
			frame: (type, data) => this.#frame(type, data),
			status: (detail) =>
				detail.status === 'unauthorized' ? this.#end(detail) : this.#setStatus(detail),
			lost: (code) => this.#handleLost(code),
			keepalive: () => ({ last_seen_seq: this.position.seq }),
		});
		this.#history = new History(around, options, `${format} ${socketUrl(around.base, path)}`, {
			connection: this.#connection,
			participant: this.#participant,
			agent: this.#agent,
			isConnected: () => this.#connected,
			isOver: () => this.#isOver,
			emit: (type, detail) => this.emit(type, detail),
			setState: (data) => this.#setState(data),
			setStatus: (status) => this.#setStatus({ status }),
		});
	}

	/** The epoch and seq of the last event held. */
	get position() {
		return this.#history.position;
	}

	/** @returns {readonly HoldfastEvent[]} */
	get events() {
		return this.#history.events;
	}

	get hasOlder() {
		return this.#history.hasOlder;
	}

	/** The events held as the page shows them: tools with their updates, turns, the plan. */
	get transcript() {
		return this.#transcripts.of(this.events);
	}

	/** The permission requests that wait for an answer. */
	get permissions() {
		return (this.#permissions = this.#openOf(this.#permissions, openPermissions)).value;
	}

	/** The forms and addresses that the agent asks for, and that wait for an answer. */
	get elicitations() {
		return (this.#elicitations = this.#openOf(this.#elicitations, openElicitations)).value;
	}

	/** The same list as long as the same questions are open. @param {any} known @param {(transcript: any) => any[]} find */
	#openOf(known, find) {
		const { transcript } = this;
		if (known.of === transcript) {
			return known;
		}
		const value = find(transcript);
		const isSame = value.map(({ seq }) => seq).join() === known.value.map((/** @type {any} */ { seq }) => seq).join();
		return { of: transcript, value: isSame ? known.value : Object.freeze(value) };
	}

	/** @returns {readonly OpenBlock[]} */
	get open() {
		return this.#history.open;
	}

	/** @returns {readonly PendingPrompt[]} */
	get prompts() {
		return this.#participant.prompts;
	}

	/** The agent's state: modes, current_mode, models, config_options, commands, info. */
	get agent() {
		return this.#agent.value;
	}

	/** The queued prompts of all clients; the first 100. */
	get queue() {
		return this.#state.queue;
	}

	get state() {
		return this.#state.all;
	}

	get status() {
		return this.#status;
	}

	/** Figures about the connection, for monitoring. */
	get stats() {
		const now = Object.freeze({ ...this.#connection.figures, ...this.#history.figures });
		if (JSON.stringify(now) !== JSON.stringify(this.#stats)) {
			this.#stats = now;
		}
		return this.#stats;
	}

	connect() {
		if (this.#status.status === 'closed' || this.#status.status === 'unauthorized') {
			this.#history.readCache();
			this.#connection.start();
		}
		return this;
	}

	close() {
		this.#end({ status: 'closed' });
	}

	/**
	 * When everything there is has been loaded and the client is live. Rejects if it is closed, the session is
	 * gone, or the server does not accept the token.
	 * @returns {Promise<this>}
	 */
	ready() {
		return new Promise((resolve, reject) => {
			/** @param {StatusDetail} detail @param {boolean} [isNews] */
			const look = ({ status, reason }, isNews) => {
				if (status === 'live') {
					resolve(this);
				} else if (status === 'gone' || status === 'unauthorized' || (status === 'closed' && isNews)) {
					const words = `The session is not there to be watched: ${reason ?? status}.`;
					reject(new HoldfastError(reason ?? status, words, { status }));
				} else {
					this.once('status', (detail) => look(detail, true));
				}
			};
			look(this.#status);
		});
	}

	/** Retries at once if it is waiting, otherwise checks that the connection is alive. */
	retryNow() {
		this.#connection.wake();
	}

	/** For demonstrations: breaks the socket as a network would. */
	dropConnection() {
		this.#connection.drop();
	}

	/**
	 * Sends a prompt, now or as soon as there is a connection, again after each reconnect until the
	 * server has confirmed it, always with the same id, so that it runs once.
	 * `content`: images and files (uploadBlob()) and links that go with it.
	 * @param {string} message @param {{promptId?: string, content?: object[]}} [options]
	 * @returns {import('./receipts.js').PromptPromise} kept when the server has it on disk; `id` is the prompt_id
	 */
	prompt(message, { promptId = randomId(), content } = {}) {
		return this.#participant.prompt(promptId, message, content);
	}

	/** Changes the message of a queued prompt. Rejects with `not_queued` if it has started (`detail.seq`). */
	editPrompt(/** @type {string} */ promptId, /** @type {string} */ message) {
		return this.#participant.editPrompt(promptId, message);
	}

	/** Removes a prompt from the queue, for good. */
	removePrompt(/** @type {string} */ promptId) {
		return this.#participant.removePrompt(promptId);
	}

	/** The complete messages of all queued prompts, or of one. */
	listPrompts(/** @type {{promptId?: string}} */ options = {}) {
		return this.#participant.listPrompts(options.promptId);
	}

	/**
	 * Stops the turn of the newest event or, if that is over, the current one. Never stored for later: false
	 * if not connected.
	 */
	cancel() {
		return this.#participant.cancel(this.#history.last);
	}

	/**
	 * Asks the agent to switch modes; the result comes as `agent`, or as `error`. Never
	 * stored for later: false if not connected.
	 */
	setMode(/** @type {string} */ modeId) {
		return this.#participant.setMode(modeId);
	}

	/** The same with its model. */
	setModel(/** @type {string} */ modelId) {
		return this.#participant.setModel(modelId);
	}

	/** The same with one of its `config_options`. @param {string} configId @param {string | boolean} value */
	setConfigOption(configId, value) {
		return this.#participant.setConfigOption(configId, value);
	}

	/**
	 * Logs in to the agent in one of the ways of `agent_stopped`'s `login`; the result comes as an event
	 * `x-acp-authenticated`, or as `error`. Never stored for later: false if not connected.
	 */
	authenticate(/** @type {string} */ methodId) {
		return this.#participant.authenticate(methodId);
	}

	/**
	 * Answers a permission request; again after a reconnect, and while the server cannot store it (`error` says
	 * so once, with `retrying` in its detail), until an answer shows in the log.
	 */
	answerPermission(/** @type {string} */ requestId, /** @type {string} */ optionId) {
		this.#participant.answerPermission(requestId, optionId);
	}

	/**
	 * Answers a form or an address that the agent asks for: `action` is accept, decline or cancel; `content` is what the form asks for, and
	 * goes to the agent alone. Sent again as an answer to a permission request is, from this client's memory: a reload forgets it.
	 * @param {string} requestId @param {string} action @param {object} [content]
	 */
	answerElicitation(requestId, action, content) {
		this.#participant.answerElicitation(requestId, action, content);
	}

	/** Sets this client's name, for everybody in the session; null: none. Sent again on each connection. @param {string | null} name */
	setName(name) {
		this.#tellPresence({ name });
	}

	/** Whether to receive who is here, as `presence`. */
	watchPresence(/** @type {boolean} */ watch = true) {
		this.#setPresence(watch ? this.#presence : null);
		this.#tellPresence({ watch });
	}

	/** Who is here; null: not known. */
	get presence() {
		return this.#presence;
	}

	#tellPresence(/** @type {{name?: string | null, watch?: boolean}} */ news) {
		const had = this.#about;
		this.#about = { ...had, ...news };
		if (this.#connected && JSON.stringify(had) !== JSON.stringify(this.#about)) {
			this.#connection.send('presence', news);
		}
	}

	#setPresence(/** @type {any} */ presence) {
		if (presence !== this.#presence) {
			this.#presence = deepFreeze(presence);
			this.emit('presence', { presence });
		}
	}

	/**
	 * Finds files of the session's directory that match `prefix`, the best ones first.
	 * @param {string} [prefix] @param {{limit?: number, signal?: AbortSignal}} [options]
	 */
	completeFiles(prefix, options) {
		return completeFiles(this.sessionId, prefix, options, this.#place);
	}

	/** Asks for the page before the first event held. True if a request went out. */
	loadOlder(/** @type {number | undefined} */ limit = undefined) {
		return this.#history.loadOlder(limit);
	}

	/** Forgets all but the newest events; loadOlder() brings the others back. Returns how many were dropped. */
	dropOlder(/** @type {number} */ keepCount) {
		return this.#history.dropOlder(keepCount);
	}

	/** The events held, then those that come; see iterator.js. */
	[Symbol.asyncIterator]() {
		return iterate(this);
	}

	#frame(/** @type {string} */ type, /** @type {any} */ data) {
		switch (type) {
			case 'connected':
				this.#handleConnected(data);
				break;
			case 'events_loaded':
				this.#history.takePage(data);
				break;
			case 'events':
				this.#history.takeLive(data);
				break;
			case 'delta':
				this.#history.takeDelta(data);
				break;
			case 'preview':
				this.#history.takeOpen({ seq: data.seq, type: data.type, html: data.html });
				break;
			case 'activity':
				this.#history.takeActivity(data);
				break;
			case 'state':
				this.#setState(data);
				this.#askForMissing();
				break;
			case 'keepalive_ack':
				this.#history.takeAck(data);
				break;
			case 'token_renewed':
				this.#handleRenewed(data);
				break;
			case 'presence':
				this.#setPresence(this.#about.watch ? data : null);
				break;
			case 'prompt_received':
				this.#participant.received(data, this.position.seq);
				break;
			case 'session_gone':
				this.#end({ status: 'gone', reason: data.reason });
				break;
			case 'error':
				this.#handleError(data);
				break;
			default: // a newer server may say more than we know
				this.#participant.answered(type, data);
		}
	}

	#handleConnected(/** @type {any} */ data) {
		this.#connected = true;
		if (this.#about.name || this.#about.watch) {
			this.#connection.send('presence', this.#about); // before prompts, which have the name
		}
		this.#history.greet(data);
		this.#agent.tell(data);
		this.#setState({ ...data, hide: data.hide ?? [] });
		this.#history.begin();
	}

	/** The token of this connection was renewed. */
	#handleRenewed(/** @type {any} */ data) {
		this.#history.takeHide(data);
		this.#setState({ role: data.role, hide: data.hide ?? [] });
		this.#history.refresh();
	}

	get #isOver() {
		return ['closed', 'gone', 'unauthorized'].includes(this.#status.status);
	}

	#handleAgent() {
		this.#history.keepAgent();
		this.emit('agent', { agent: this.agent });
	}

	/** Prompts that left the queue have started or were removed: asks the server which. */
	#askForMissing() {
		if (this.#connected && !this.#history.isLoading && this.#state.hasWholeQueue) {
			this.#participant.doubt(this.queue);
		}
	}

	#handleError(/** @type {any} */ data) {
		if (data.request === 'load_events') {
			this.#history.refuse();
		}
		this.#emitError(this.#participant.refuse(data));
	}

	#emitError(/** @type {import('./base.js').HoldfastError | null} */ error) {
		if (error) {
			this.emit('error', { error });
		}
	}

	#handleLost(/** @type {number} */ code) {
		const wasConnected = this.#connected;
		this.#connected = false;
		this.#setPresence(null);
		this.#history.pause();
		if (code === CLOSE_GONE) {
			this.#end({ status: 'gone', reason: 'not_found' });
		} else if (code === CLOSE_TOO_LARGE && wasConnected) {
			this.#emitError(this.#participant.refuseLongest());
		}
	}

	#end(/** @type {StatusDetail} */ detail) {
		this.#connection.stop();
		this.#participant.end();
		this.#connected = false;
		this.#setPresence(null);
		this.#history.stop();
		if (this.#status.status !== 'gone') {
			this.#history.endCache(detail.reason);
			this.#setStatus(detail);
		}
	}

	#setStatus(/** @type {StatusDetail} */ detail) {
		this.#status = Object.freeze(detail);
		this.emit('status', this.#status);
	}

	#setState(/** @type {any} */ data) {
		const changed = this.#state.take(data);
		if (changed.length > 0) {
			this.emit('state', this.state);
		}
		if (changed.includes('queue')) {
			this.emit('queue', { queue: this.queue });
		}
	}
}
