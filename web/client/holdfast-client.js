/**
 * The Holdfast client: observes a session, and takes part in it, over a connection that may break at
 * any byte. ES module, no dependencies. Runs in browsers, in workers, and in Node (before version 22
 * with a WebSocket constructor passed in).
 *
 * Recovery depends on one value: the position, computed from the events held. No other state records
 * the progress, so none can disagree with the events shown.
 */
import { AgentState } from './agent.js';
import { Emitter, randomId, socketUrl, surroundings } from './base.js';
import { makeCache } from './cache.js';
import { Connection } from './connection.js';
import { Gap } from './gap.js';
import { iterate } from './iterator.js';
import { EventLog } from './log.js';
import { Participant } from './participant.js';
import { Provisional } from './provisional.js';
import { SessionState } from './state.js';

// This file is the library's only entry: HoldfastClient below, and these. holdfast-client.d.ts declares them.
export { HoldfastError } from './base.js';
export { HoldfastFeed, createSession, deleteSession, listSessions } from './feed.js';
export { checkLogin, currentLogin, forgetLogin, isLoginWith, login, logout } from './login.js';

/** @typedef {import('./connection.js').StatusDetail} StatusDetail */
/** @typedef {import('./base.js').Surroundings} Surroundings */
/** @typedef {import('./base.js').ClientOptions} ClientOptions */
/** @typedef {import('./log.js').HoldfastEvent} HoldfastEvent */
/** @typedef {import('./outbox.js').PendingPrompt} PendingPrompt */
/** @typedef {import('./provisional.js').OpenBlock} OpenBlock */

const NEWEST_LIMIT = 50;
const CATCH_UP_LIMIT = 500;
const CACHE_BEHIND_MAX = 2_000; // further behind than this, the cache is no help
const CLOSE_GONE = 4404;
const CLOSE_TOO_LARGE = 1009;

/**
 * One session. Events it dispatches (`on(type, listener)` hands over the detail):
 * - `events` {events, cached?}: appended, in order, each once · `older` {events, hasOlder}: put in
 *   front · `trimmed` {count}: this many of the oldest are no longer held
 * - `reset` {reason}: everything held is void; the new history follows as `events`
 * - `open` {blocks}: the provisional blocks behind the last event, all of them, usually one; said
 *   when one grows or is void, not when its event takes its place
 * - `agent` {agent}: the agent's modes, options or commands have changed
 * - `activity` {held}: inputs that wait for an open block to end · `state`: the session's state
 * - `prompts` {prompts}: our prompts whose event is not there yet · `queue` {queue}: everybody's that wait
 * - `status`: see StatusDetail
 * - `error` {error}: a HoldfastError; the connection continues unless `status` says otherwise
 */
export class HoldfastClient extends Emitter {
	#log = new EventLog();
	#provisional = new Provisional();
	#participant;
	#agent;
	#hasOlder = false;
	#loadingOlder = false;
	/** Older events were asked for: none are dropped until dropOlder() says that they may be. */
	#keepsOlder = false;
	#maxEvents;
	#catchUpMax;
	/** @type {import('./cache.js').EventCache | null} */
	#cache;
	/** Whether the cache may still answer. */
	#isReading = false;
	#isLocked;
	/** @type {'newest' | 'after' | null} the load in progress; null: live, or not connected */
	#loading = null;
	/** What the token hides from us, as JSON; null: not known yet. @type {string | null} */
	#hide = null;
	/** The events held were shown under other rules. */
	#isOutdated = false;
	/** How much to ask for at once; less after a connection that broke before it had brought a page. */
	#pageLimit = CATCH_UP_LIMIT;
	#connected = false;
	#maxSeq = 0;
	#state = new SessionState();
	/** @type {StatusDetail} */
	#status = { status: 'closed' };
	#gap;
	#connection;

	/** @param {Surroundings & ClientOptions} options */
	constructor(options) {
		super();
		const around = surroundings(options);
		const format = options.format ?? 'html';
		this.sessionId = options.sessionId;
		this.clientId = options.clientId ?? randomId();
		this.#gap = new Gap(around.timers, () => this.position.seq, () => this.#load());
		this.#maxEvents = options.maxEvents ?? Infinity;
		this.#catchUpMax = options.catchUpMax ?? (options.cache ? CACHE_BEHIND_MAX : Infinity);
		const path = `/api/sessions/${encodeURIComponent(options.sessionId)}/ws`;
		const url = socketUrl(around.base, path, {
			format,
			deltas: options.deltas,
			client_id: this.clientId,
		});
		const key = `${format} ${socketUrl(around.base, path)}`;
		this.#cache = options.cache ? makeCache({ ...options, ...around }, key) : null;
		if (this.#cache) {
			this.#cache.hide = JSON.stringify(around.access.hidden);
		}
		this.#isLocked = () => around.access.hasEnded(around.timers.now());
		this.#participant = new Participant(this.clientId, {
			say: (type, data) => this.#connected && this.#connection.send(type, data),
			send: (type, data) => this.#connected && !this.#isReading && this.#connection.send(type, data),
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
	}

	/** The epoch and seq of the last event held. */
	get position() {
		return this.#log.position;
	}

	/** @returns {readonly HoldfastEvent[]} */
	get events() {
		return this.#log.events;
	}

	get hasOlder() {
		return this.#hasOlder;
	}

	/** @returns {OpenBlock[]} */
	get open() {
		return this.#provisional.blocks;
	}

	/** @returns {PendingPrompt[]} */
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
		const lag = Math.max(0, this.#maxSeq - this.position.seq);
		const cacheFailure = this.#cache?.failure?.message ?? null;
		return { ...this.#connection.figures, maxSeq: this.#maxSeq, lag, cacheFailure };
	}

	connect() {
		if (this.#status.status === 'closed' || this.#status.status === 'unauthorized') {
			this.#readCache();
			this.#connection.start();
		}
		return this;
	}

	close() {
		this.#end({ status: 'closed' });
	}

	/** Retries at once if it waits, else makes sure that the connection is alive. */
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
	 * @param {string} message @param {{promptId?: string}} [options] @returns {string} the prompt_id
	 */
	prompt(message, { promptId = randomId() } = {}) {
		this.#participant.prompt(promptId, message);
		return promptId;
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
		return this.#participant.cancel(this.events.at(-1));
	}

	/**
	 * Asks the agent to switch modes; the result comes as `agent`, or as `error`. Never
	 * stored for later: false if not connected.
	 */
	setMode(/** @type {string} */ modeId) {
		return this.#participant.setMode(modeId);
	}

	/** The same with one of its `config_options`. @param {string} configId @param {string | boolean} value */
	setConfigOption(configId, value) {
		return this.#participant.setConfigOption(configId, value);
	}

	/**
	 * Answers a permission request; again after a reconnect, and while the server cannot store it (`error` says
	 * so once, with `retrying` in its detail), until an answer shows in the log.
	 */
	answerPermission(/** @type {string} */ requestId, /** @type {string} */ optionId) {
		this.#participant.answerPermission(requestId, optionId);
	}

	/** Asks for the page before the first event held. True if a request went out. */
	loadOlder(limit = NEWEST_LIMIT) {
		const first = this.events[0];
		if (!first || !this.#hasOlder || this.#loadingOlder || this.#loading || !this.#connected) {
			return false;
		}
		this.#loadingOlder = this.#connection.send('load_events', {
			before_seq: first.seq,
			epoch: this.position.epoch,
			limit,
		});
		return this.#loadingOlder;
	}

	/** Forgets all but the newest events; loadOlder() brings the others back. Returns how many were dropped. */
	dropOlder(/** @type {number} */ keepCount) {
		this.#keepsOlder = false;
		const count = this.#log.trim(keepCount);
		if (count > 0) {
			this.#hasOlder = true;
			this.emit('trimmed', { count });
		}
		return count;
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
				this.#handleLoaded(data);
				break;
			case 'events':
				this.#handleEvents(data);
				break;
			case 'delta':
				this.#setOpen(this.#provisional.grown(data));
				break;
			case 'preview':
				this.#setOpen({ seq: data.seq, type: data.type, html: data.html });
				break;
			case 'activity':
				this.#handleActivity(data);
				break;
			case 'state':
				this.#setState(data);
				this.#askForMissing();
				break;
			case 'keepalive_ack':
				this.#handleAck(data);
				break;
			case 'token_renewed':
				this.#handleRenewed(data);
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
		this.#maxSeq = data.max_seq;
		this.#agent.tell(data);
		this.#takeHide(data);
		this.#setState({ ...data, hide: data.hide ?? [] });
		if (this.#connected && !this.#isReading) {
			this.#begin();
		}
	}

	/** What the token hides may have changed since the events came. */
	#takeHide(/** @type {{hide?: string[]}} */ { hide = [] }) {
		const now = JSON.stringify(hide);
		this.#isOutdated ||= this.#hide !== null && this.#hide !== now && this.position.seq > 0;
		this.#hide = now;
		if (this.#cache) {
			this.#cache.hide = now;
		}
	}

	/** The token of this connection was renewed. */
	#handleRenewed(/** @type {any} */ data) {
		this.#takeHide(data);
		this.#setState({ role: data.role, hide: data.hide ?? [] });
		if (this.#isOutdated && this.#connected && !this.#isReading) {
			this.#load();
		}
	}

	/** Begins a connection: loads missing events, and sends everything unconfirmed. */
	#begin() {
		this.#load();
		this.#participant.begin();
	}

	/** Requests everything after the position, or the newest page if that is too far back. */
	#load() {
		const { epoch, seq } = this.position;
		const follows = seq > 0 && !this.#isOutdated && !(this.#maxSeq - seq > this.#catchUpMax);
		this.#loading = follows ? 'after' : 'newest';
		this.#loadingOlder = false;
		this.#gap.stop();
		this.#connection.expectAnswer('load_events');
		this.#connection.send(
			'load_events',
			follows
				? { after_seq: seq, epoch, follow: true, limit: this.#pageLimit }
				: { limit: Math.min(NEWEST_LIMIT, this.#pageLimit) },
		);
		this.#setStatus({ status: 'loading' });
	}

	#handleLoaded(/** @type {any} */ page) {
		if (page.prepend && !page.reset) {
			this.#takeOlder(page);
			return;
		}
		this.#connection.answered();
		const fresh = Boolean(page.reset) || this.#loading === 'newest';
		if (fresh) {
			// Before the events: the new history must never follow events of the old one.
			this.#startOver(page);
		} else if (page.epoch !== this.position.epoch) {
			this.#connection.abandon('a page of another epoch without a reset');
			return;
		}
		this.#maxSeq = page.max_seq;
		this.#setState(page);
		if (!this.#connected) {
			return; // or of the reset
		}
		if (!this.#append(page.events, fresh)) {
			this.#connection.abandon('a page with a gap');
			return;
		}
		this.#pageLimit = Math.min(CATCH_UP_LIMIT, this.#pageLimit * 2);
		if (!this.#connected) {
			return;
		}
		if (!fresh && page.has_more) {
			this.#connection.expectAnswer('the next page');
			return;
		}
		this.#loading = null;
		this.#agent.fill();
		this.#connection.proved();
		if (this.#provisional.replace(page)) {
			this.emit('open', { blocks: this.open });
		}
		this.#checkBehind(page.max_seq);
		if (this.#connected) {
			this.#setStatus({ status: 'live' });
		}
	}

	#takeOlder(/** @type {any} */ page) {
		this.#loadingOlder = false;
		const events = this.#log.prepend(page.epoch, page.events);
		if (events) {
			this.#keepsOlder = true;
			this.#hasOlder = page.has_more;
			this.emit('older', { events, hasOlder: this.#hasOlder });
		}
	}

	#handleEvents(/** @type {any} */ data) {
		if (this.#loading === 'newest') {
			return; // the requested page decides where to start
		}
		this.#setState(data);
		if (!this.#connected) {
			return; // closed by a listener to `state`
		}
		if (!this.#append(data.events, false) && !this.#loading) {
			this.#load();
			return;
		}
		this.#checkBehind(data.max_seq);
	}

	#handleAck(/** @type {any} */ data) {
		this.#setState(data);
		if (this.#loading || !this.#connected || this.#isReading) {
			return;
		}
		if (data.epoch !== this.position.epoch) {
			this.#load(); // the server will answer with a reset
			return;
		}
		this.#checkBehind(data.max_seq);
	}

	/** False: there is a gap, and nothing behind the gap was taken. */
	#append(/** @type {HoldfastEvent[]} */ events, /** @type {boolean} */ anyStart) {
		const { taken, whole } = this.#log.take(events, anyStart);
		if (taken.length > 0) {
			this.#connection.proved();
			this.#cache?.add(this.position.epoch, taken);
			this.#announce({ events: taken });
		}
		return whole;
	}

	/** Announces events that are now held, and ends their provisional versions. */
	#announce(/** @type {{events: HoldfastEvent[], cached?: true}} */ detail) {
		const { seq } = this.position;
		if (this.#provisional.endUpTo(seq)) {
			this.#emitActivity();
		}
		this.#participant.settle(detail.events);
		this.emit('events', detail);
		this.#agent.take(this.position.epoch, detail.events);
		this.#participant.settleUpTo(seq);
		if (this.events.length > this.#maxEvents && !this.#keepsOlder) {
			this.dropOlder(Math.ceil(this.#maxEvents * 0.875)); // not one by one from now on
		}
	}

	/** Behind max_seq is a gap, unless the events are in the frames behind this one. */
	#checkBehind(/** @type {number} */ maxSeq) {
		this.#maxSeq = maxSeq;
		if (this.#loading || !this.#connected) {
			this.#gap.stop();
		} else {
			this.#gap.check(maxSeq);
		}
	}

	/** Drops everything held; this page starts anew. It is a reset if there was anything before. */
	#startOver(/** @type {any} */ page) {
		const { epoch, seq } = this.position;
		const isOther = epoch !== null && epoch !== page.epoch;
		const why = this.#isOutdated ? 'access' : 'behind';
		const reason = page.reset?.reason ?? (isOther ? 'epoch' : seq > 0 ? why : null);
		this.#isOutdated = false;
		this.#log.reset(page.epoch);
		this.#cache?.reset(page.epoch);
		this.#cache?.keepAgent(page.epoch, this.#agent.events);
		this.#hasOlder = page.has_more;
		this.#loadingOlder = this.#keepsOlder = false;
		if (reason) {
			this.#provisional.clear();
			if (reason === 'epoch' || reason === 'ahead') {
				this.#participant.reset();
				this.#agent.doubt();
			}
			this.emit('reset', { reason });
			if (this.#connected) {
				this.#emitActivity();
			}
		}
		if (page.events[0]?.seq > 1) {
			// Their events may be before this page. The server knows them by their ids and says where.
			this.#participant.doubt();
		}
	}

	get #isOver() {
		return ['closed', 'gone', 'unauthorized'].includes(this.#status.status);
	}

	#readCache() {
		if (!this.#cache || this.position.epoch !== null || this.#isLocked()) {
			return;
		}
		this.#isReading = true;
		this.#cache.read().then((found) => {
			this.#isReading = false;
			this.#hide ??= found && this.#cache ? this.#cache.hide : null;
			if (found && this.position.epoch === null && !this.#isOver) {
				this.#log.reset(found.epoch);
				this.#agent.restore(found.epoch, found.agent);
				const { taken } = this.#log.take(found.events, true);
				this.#hasOlder = taken[0]?.seq > 1;
				this.#announce({ events: taken, cached: true });
			}
			if (this.#connected) {
				this.#begin();
			}
		});
	}

	#setOpen(/** @type {OpenBlock | null} */ block) {
		if (block && block.seq > this.position.seq && this.#connected && !this.#loading) {
			this.#provisional.setBlock(block);
			this.emit('open', { blocks: this.open });
		}
	}

	#handleActivity(/** @type {any} */ notice) {
		if (notice.seq > this.position.seq) {
			this.#provisional.addActivity(notice);
			this.#emitActivity();
		}
	}

	#handleAgent() {
		const { epoch } = this.position;
		if (epoch === this.#agent.epoch && !this.#isOver) {
			this.#cache?.keepAgent(epoch, this.#agent.events);
		}
		this.emit('agent', { agent: this.agent });
	}

	#emitActivity() {
		this.emit('activity', { held: this.#provisional.held });
	}

	/** Prompts that left the queue have started or were removed: asks the server which. */
	#askForMissing() {
		if (this.#connected && !this.#loading && this.#state.hasWholeQueue) {
			this.#participant.doubt(this.queue);
		}
	}

	#handleError(/** @type {any} */ data) {
		if (data.request === 'load_events') {
			this.#loadingOlder = false;
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
		if (this.#loading) {
			this.#pageLimit = Math.ceil(this.#pageLimit / 4);
		}
		this.#connected = false;
		this.#loading = null;
		this.#loadingOlder = false;
		this.#gap.stop();
		if (code === CLOSE_GONE) {
			this.#end({ status: 'gone', reason: 'unknown' });
		} else if (code === CLOSE_TOO_LARGE && wasConnected) {
			this.#emitError(this.#participant.refuseLongest());
		}
	}

	#end(/** @type {StatusDetail} */ detail) {
		this.#connection.stop();
		this.#participant.end();
		this.#gap.stop();
		this.#connected = false;
		this.#loading = null;
		this.#loadingOlder = false;
		if (this.#status.status !== 'gone') {
			void this.#cache?.end(detail.reason);
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
