/**
 * The Holdfast client: watches a session, and takes part in it, over a connection that may break at
 * any byte. ES module, no dependencies. Runs in a browser, and in Node with a WebSocket constructor
 * passed in (`new HoldfastClient({ base, sessionId, WebSocket })`).
 *
 * The whole of its recovery rests on one value: the position, computed from the events it holds.
 * Nothing else is remembered about where it stands, so nothing can disagree with what it shows.
 */
import {
	Connection,
	Emitter,
	HoldfastError,
	randomId,
	socketUrl,
	surroundings,
} from './holdfast-connection.js';

export { HoldfastError } from './holdfast-connection.js';
export { HoldfastFeed, createSession, deleteSession, listSessions } from './holdfast-feed.js';

/** @typedef {import('./holdfast-connection.js').StatusDetail} StatusDetail */
/** @typedef {import('./holdfast-connection.js').Surroundings} Surroundings */

const BEHIND_MS = 1_000; // max_seq may run ahead of events that are on their way
const NEWEST_LIMIT = 50;
const CATCH_UP_LIMIT = 500;
const CLOSE_GONE = 4404;
const CLOSE_TOO_LARGE = 1009;

/**
 * @typedef {object} HoldfastEvent One numbered event; deeply frozen.
 * @property {number} seq
 * @property {string} type
 * @property {number} ts milliseconds since 1970
 * @property {number} [turn]
 * @property {string} [message_id]
 * @property {Record<string, any>} data
 *
 * @typedef {object} OpenBlock The provisional content of an event that is not there yet.
 * @property {number} seq
 * @property {string} type
 * @property {string} [html] with `deltas: 'html'`
 * @property {string} [text] with `deltas: 'text'`
 *
 * @typedef {object} PendingPrompt
 * @property {string} prompt_id
 * @property {string} message
 * @property {'sending' | 'queued' | 'received'} state received: has a seq, its event is on the way
 * @property {number | null} seq
 */

/** @template T @param {T} value @returns {T} */
function deepFreeze(value) {
	if (value !== null && typeof value === 'object' && !Object.isFrozen(value)) {
		Object.freeze(value);
		Object.values(value).forEach(deepFreeze);
	}
	return value;
}

/**
 * One session. Events it dispatches (`on(type, listener)` hands over the detail):
 * - `events` {events}: appended, in order, each once · `older` {events, hasOlder}: put in front
 * - `reset` {reason}: everything held is void; what follows comes as `events`
 * - `open` {blocks}: the provisional blocks behind the last event, all of them, usually one; said
 *   when one grows or is void, not when its event takes its place
 * - `activity` {held}: inputs that wait for an open block to end · `state`: the session's state
 * - `prompts` {prompts}: prompts whose event is not there yet · `status`: see StatusDetail
 * - `error` {error}: a HoldfastError; the connection goes on unless `status` says otherwise
 */
export class HoldfastClient extends Emitter {
	/**
	 * The events held and the epoch they belong to: one thing, replaced as one.
	 * @type {{epoch: string | null, events: HoldfastEvent[]}}
	 */
	#held = { epoch: null, events: [] };
	#hasOlder = false;
	#loadingOlder = false;
	/** @type {'newest' | 'after' | null} the load in progress; null: live, or not connected */
	#loading = null;
	#connected = false;
	/** @type {Map<number, OpenBlock>} */
	#open = new Map();
	/** @type {Map<number, {seq: number, type: string, data: any}>} */
	#activity = new Map();
	/** @type {PendingPrompt[]} */
	#prompts = [];
	/** @type {Map<string, string>} request_id to option_id: answers not yet confirmed */
	#answers = new Map();
	/** @type {Record<string, any>} */
	#state = {
		is_prompting: false,
		is_running: false,
		queue_length: 0,
		usage: null,
		status: 'idle',
		role: null,
	};
	/** @type {StatusDetail} */
	#status = { status: 'closed' };
	#behindTimer = null;
	#timers;
	#connection;

	/**
	 * @param {Surroundings & {sessionId: string, format?: 'html' | 'markdown' | 'both',
	 *   deltas?: 'text' | 'html', clientId?: string}} options
	 */
	constructor(options) {
		super();
		const around = surroundings(options);
		this.sessionId = options.sessionId;
		this.clientId = options.clientId ?? randomId();
		this.#timers = around.timers;
		const url = socketUrl(
			around.base,
			`/api/sessions/${encodeURIComponent(options.sessionId)}/ws`,
			{
				format: options.format ?? 'html',
				deltas: options.deltas,
				client_id: this.clientId,
			},
		);
		this.#connection = new Connection(around, url, {
			frame: (type, data) => this.#frame(type, data),
			status: (detail) => this.#setStatus(detail),
			lost: (code) => this.#handleLost(code),
			keepalive: () => ({ last_seen_seq: this.position.seq }),
		});
	}

	/** Where this client stands: what the last event it holds says, and nothing else. */
	get position() {
		return { epoch: this.#held.epoch, seq: this.#held.events.at(-1)?.seq ?? 0 };
	}

	/** @returns {readonly HoldfastEvent[]} */
	get events() {
		return this.#held.events;
	}

	get hasOlder() {
		return this.#hasOlder;
	}

	/** @returns {OpenBlock[]} */
	get open() {
		return [...this.#open.values()].sort((a, b) => a.seq - b.seq);
	}

	/** @returns {PendingPrompt[]} */
	get prompts() {
		return this.#prompts.map((prompt) => ({ ...prompt }));
	}

	get state() {
		return { ...this.#state };
	}

	get status() {
		return this.#status;
	}

	connect() {
		if (this.#status.status === 'closed') {
			this.#connection.start();
		}
	}

	close() {
		this.#end({ status: 'closed' });
	}

	/** Retries at once if it waits, else makes sure that the connection is alive. */
	retryNow() {
		this.#connection.wake();
	}

	/** For demonstrations: the socket breaks, and nothing here is told beforehand. */
	dropConnection() {
		this.#connection.drop();
	}

	/**
	 * Sends a prompt, now or as soon as there is a connection, again after each reconnect until the
	 * server has confirmed it, always with the same id, so that it runs once.
	 * @param {string} message @returns {string} the prompt_id
	 */
	prompt(message) {
		/** @type {PendingPrompt} */
		const prompt = { prompt_id: randomId(), message, state: 'sending', seq: null };
		this.#prompts.push(prompt);
		this.#sendPrompt(prompt);
		this.emit('prompts', { prompts: this.prompts });
		return prompt.prompt_id;
	}

	/** Stops the turn. Never kept for later, when another turn may be running: false if not connected. */
	cancel() {
		return this.#connected && this.#connection.send('cancel', {});
	}

	/** Answers a permission request, again after a reconnect until the answer shows in the log. */
	answerPermission(/** @type {string} */ requestId, /** @type {string} */ optionId) {
		this.#answers.set(requestId, optionId);
		this.#sendAnswer(requestId, optionId);
	}

	/** Asks for the page before the first event held. True if a request went out. */
	loadOlder(limit = NEWEST_LIMIT) {
		const first = this.#held.events[0];
		if (!first || !this.#hasOlder || this.#loadingOlder || this.#loading || !this.#connected) {
			return false;
		}
		this.#loadingOlder = this.#connection.send('load_events', {
			before_seq: first.seq,
			epoch: this.#held.epoch,
			limit,
		});
		return this.#loadingOlder;
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
				this.#handleDelta(data);
				break;
			case 'preview':
				this.#setOpen({ seq: data.seq, type: data.type, html: data.html });
				break;
			case 'activity':
				this.#handleActivity(data);
				break;
			case 'state':
				this.#setState(data);
				break;
			case 'keepalive_ack':
				this.#handleAck(data);
				break;
			case 'prompt_received':
				this.#handlePromptReceived(data);
				break;
			case 'session_gone':
				this.#end({ status: 'gone', reason: data.reason });
				break;
			case 'error':
				this.#handleError(data);
				break;
			default:
				break; // a newer server may say more than we know
		}
	}

	#handleConnected(/** @type {any} */ data) {
		this.#connected = true;
		this.#setState(data);
		this.#load();
		this.#prompts
			.filter(({ state }) => state === 'sending')
			.forEach((prompt) => this.#sendPrompt(prompt));
		this.#answers.forEach((optionId, requestId) => this.#sendAnswer(requestId, optionId));
	}

	/** Asks for what is missing: all that follows our position, or the newest page if we hold nothing. */
	#load() {
		const { epoch, seq } = this.position;
		this.#loading = seq > 0 ? 'after' : 'newest';
		this.#stopBehindTimer();
		this.#setStatus({ status: 'loading' });
		this.#connection.expectAnswer('load_events');
		this.#connection.send(
			'load_events',
			seq > 0
				? { after_seq: seq, epoch, follow: true, limit: CATCH_UP_LIMIT }
				: { limit: NEWEST_LIMIT },
		);
	}

	#handleLoaded(/** @type {any} */ page) {
		if (page.prepend && !page.reset) {
			this.#takeOlder(page);
			return;
		}
		this.#connection.answered();
		const fresh = Boolean(page.reset) || this.#loading === 'newest';
		if (fresh) {
			// Before the events: none of the new history may ever stand behind some of the old one.
			this.#drop(page.reset?.reason, page.epoch);
			this.#hasOlder = page.has_more;
		} else if (page.epoch !== this.#held.epoch) {
			this.#connection.abandon('a page of another epoch without a reset');
			return;
		}
		this.#setState(page);
		if (!this.#append(page.events, fresh)) {
			this.#connection.abandon('a page with a gap');
			return;
		}
		if (!fresh && page.has_more) {
			this.#connection.expectAnswer('the next page');
			return;
		}
		this.#loading = null;
		this.#connection.proved();
		this.#replaceOpen(page);
		this.#setStatus({ status: 'live' });
	}

	#takeOlder(/** @type {any} */ page) {
		this.#loadingOlder = false;
		const first = this.#held.events[0]?.seq;
		const fits =
			page.epoch === this.#held.epoch &&
			page.events.every(
				(/** @type {HoldfastEvent} */ event, /** @type {number} */ i) =>
					event.seq === first - page.events.length + i,
			);
		if (first === undefined || !fits) {
			return; // asked for before a reset
		}
		page.events.forEach(deepFreeze);
		this.#held.events.unshift(...page.events);
		this.#hasOlder = page.has_more;
		this.emit('older', { events: page.events, hasOlder: this.#hasOlder });
	}

	#handleEvents(/** @type {any} */ data) {
		if (this.#loading === 'newest') {
			return; // the page that is on its way decides where we start
		}
		this.#setState(data);
		if (!this.#append(data.events, false) && !this.#loading) {
			this.#load();
			return;
		}
		this.#checkBehind(data.max_seq);
	}

	#handleAck(/** @type {any} */ data) {
		this.#setState(data);
		if (this.#loading || !this.#connected) {
			return;
		}
		if (data.epoch !== this.#held.epoch) {
			this.#load(); // the server will answer with a reset
			return;
		}
		this.#checkBehind(data.max_seq);
	}

	/**
	 * Takes the events that follow on what is held and skips those it has. False: there is a gap, and
	 * nothing behind the gap was taken.
	 * @param {HoldfastEvent[]} events
	 * @param {boolean} anyStart the first one may have any seq, since nothing is held
	 */
	#append(events, anyStart) {
		const taken = [];
		let last = this.position.seq;
		let whole = true;
		for (const event of events) {
			if (event.seq === last + 1 || (anyStart && last === 0)) {
				taken.push(deepFreeze(event));
				last = event.seq;
			} else if (event.seq > last) {
				whole = false;
				break;
			}
		}
		if (taken.length > 0) {
			this.#held.events.push(...taken);
			this.#forgetUpTo(last, taken);
			this.emit('events', { events: taken });
			this.#settlePrompts();
		}
		return whole;
	}

	/** What was provisional about these events is over. */
	#forgetUpTo(/** @type {number} */ last, /** @type {HoldfastEvent[]} */ taken) {
		const waiting = this.#activity.size;
		for (const map of [this.#open, this.#activity]) {
			[...map.keys()].filter((seq) => seq <= last).forEach((seq) => map.delete(seq));
		}
		if (this.#activity.size !== waiting) {
			this.#emitActivity();
		}
		for (const event of taken) {
			if (event.type === 'permission_resolved') {
				this.#answers.delete(event.data.request_id);
			} else if (event.type === 'user_prompt') {
				this.#prompts = this.#prompts.filter(
					({ prompt_id }) => prompt_id !== event.data.prompt_id,
				);
				this.emit('prompts', { prompts: this.prompts });
			}
		}
	}

	/** Behind max_seq is a gap, unless the events are in the frames behind this one. */
	#checkBehind(/** @type {number} */ maxSeq) {
		const seen = this.position.seq;
		this.#stopBehindTimer();
		if (maxSeq > seen && !this.#loading) {
			this.#behindTimer = this.#timers.setTimeout(() => this.#load(), BEHIND_MS);
		}
	}

	#stopBehindTimer() {
		this.#timers.clearTimeout(this.#behindTimer);
		this.#behindTimer = null;
	}

	/** @param {string | undefined} reason @param {string} epoch */
	#drop(reason, epoch) {
		this.#held = { epoch, events: [] };
		this.#hasOlder = false;
		this.#loadingOlder = false;
		this.#open.clear();
		if (reason) {
			this.#activity.clear();
			this.#answers.clear();
			this.#prompts = this.#prompts.filter(({ state }) => state === 'sending');
			this.emit('reset', { reason });
			this.#emitActivity();
			this.emit('prompts', { prompts: this.prompts });
		}
	}

	#handleDelta(/** @type {any} */ delta) {
		const block = this.#open.get(delta.seq) ?? { seq: delta.seq, type: delta.type, text: '' };
		const have = new TextEncoder().encode(block.text ?? '');
		const add = new TextEncoder().encode(delta.text);
		if (delta.offset > have.length) {
			return; // its beginning is not here: the event will bring the whole
		}
		const rest = new TextDecoder().decode(add.subarray(have.length - delta.offset));
		this.#setOpen({ ...block, text: block.text + rest });
	}

	#setOpen(/** @type {OpenBlock} */ block) {
		if (block.seq > this.position.seq && this.#connected && !this.#loading) {
			this.#open.set(block.seq, block);
			this.emit('open', { blocks: this.open });
		}
	}

	/**
	 * A block that has just been closed is neither in the page nor open until it is on disk. While the
	 * turn goes on its event is on the way, so what was shown of it stays.
	 */
	#replaceOpen(/** @type {any} */ { open, is_prompting }) {
		const before = this.#open.size;
		const closing = [...this.#open.values()].filter(({ seq }) => seq > this.position.seq);
		const blocks = [...(is_prompting ? closing : []), ...(open ? [open] : [])];
		this.#open = new Map(blocks.map((block) => [block.seq, block]));
		if (before > 0 || blocks.length > 0) {
			this.emit('open', { blocks: this.open });
		}
	}

	#handleActivity(/** @type {any} */ notice) {
		if (notice.seq > this.position.seq) {
			this.#activity.set(notice.seq, notice);
			this.#emitActivity();
		}
	}

	#emitActivity() {
		this.emit('activity', { held: [...this.#activity.values()].sort((a, b) => a.seq - b.seq) });
	}

	#sendPrompt(/** @type {PendingPrompt} */ { prompt_id, message }) {
		if (this.#connected) {
			this.#connection.send('prompt', { message, prompt_id });
		}
	}

	#sendAnswer(/** @type {string} */ requestId, /** @type {string} */ optionId) {
		if (this.#connected) {
			this.#connection.send('permission_answer', {
				request_id: requestId,
				option_id: optionId,
			});
		}
	}

	#handlePromptReceived(/** @type {any} */ data) {
		const prompt = this.#prompts.find(({ prompt_id }) => prompt_id === data.prompt_id);
		if (prompt) {
			prompt.seq = data.seq ?? null;
			prompt.state = prompt.seq === null ? 'queued' : 'received';
			this.emit('prompts', { prompts: this.prompts });
			this.#settlePrompts();
		}
	}

	/** A prompt is shown as pending until its event is held: never both, and never neither. */
	#settlePrompts() {
		const { seq } = this.position;
		const left = this.#prompts.filter((prompt) => prompt.seq === null || prompt.seq > seq);
		if (left.length !== this.#prompts.length) {
			this.#prompts = left;
			this.emit('prompts', { prompts: this.prompts });
		}
	}

	#handleError(/** @type {any} */ data) {
		if (data.request === 'prompt' && data.code !== 'shutting_down') {
			this.#refusePrompt(data.prompt_id, data.code, data.message);
			return;
		}
		if (data.request === 'permission_answer') {
			this.#answers.delete(data.request_id);
		}
		if (data.request === 'load_events' && this.#loadingOlder) {
			this.#loadingOlder = false;
		}
		this.emit('error', { error: new HoldfastError(data.code, data.message, data) });
	}

	/** A refused prompt must not be sent again by itself: its text goes back to the user. */
	#refusePrompt(
		/** @type {string | undefined} */ promptId,
		/** @type {string} */ code,
		/** @type {string} */ message,
	) {
		const index = this.#prompts.findIndex(({ prompt_id, state }) =>
			promptId ? prompt_id === promptId : state === 'sending',
		);
		const [prompt] = index >= 0 ? this.#prompts.splice(index, 1) : [null];
		this.emit('prompts', { prompts: this.prompts });
		this.emit('error', {
			error: new HoldfastError(code, message, { request: 'prompt', prompt }),
		});
	}

	#handleLost(/** @type {number} */ code) {
		const wasConnected = this.#connected;
		this.#connected = false;
		this.#loading = null;
		this.#loadingOlder = false;
		this.#stopBehindTimer();
		if (code === CLOSE_GONE) {
			this.#end({ status: 'gone', reason: 'unknown' });
		} else if (code === CLOSE_TOO_LARGE && wasConnected) {
			const sent = this.#prompts.filter(({ state }) => state === 'sending');
			const longest = sent.sort((a, b) => b.message.length - a.message.length)[0];
			this.#refusePrompt(
				longest?.prompt_id,
				'too_large',
				'The message is too long for the server.',
			);
		}
	}

	#end(/** @type {StatusDetail} */ detail) {
		this.#connection.stop();
		this.#stopBehindTimer();
		this.#connected = false;
		this.#loading = null;
		if (this.#status.status !== 'gone') {
			this.#setStatus(detail);
		}
	}

	#setStatus(/** @type {StatusDetail} */ detail) {
		this.#status = Object.freeze(detail);
		this.emit('status', this.#status);
	}

	#setState(/** @type {any} */ data) {
		const next = { ...this.#state };
		for (const name of Object.keys(next)) {
			if (data[name] !== undefined) {
				next[name] = data[name];
			}
		}
		if (JSON.stringify(next) !== JSON.stringify(this.#state)) {
			this.#state = next;
			this.emit('state', this.state);
		}
	}
}
