/**
 * Keeps one WebSocket alive: opens it, notices when it is dead, and opens it again. It knows frames, but
 * not their meaning.
 */
import { PROTOCOLS } from './access.js';
import { listenTo } from './base.js';

const KEEPALIVE_MS = 10_000;
const MISSED_MAX = 2;
const PROBE_MS = 3_000; // how long the answer may take after the page wakes up
const SPARE_MS = 400; // after this without an answer, a second socket is opened besides
const ANSWER_MS = 20_000; // how long `connected` or the answer to load_events may take
const RETRY_MIN_MS = 1_000;
const RETRY_MAX_MS = 30_000;
const MOVED_MS = 500; // spreads out the clients of a session that has moved to another node
const PATIENCE_MAX = 8;
const RENEW_BEFORE_MS = 60_000; // how long before its end a token is renewed; a short one later
const RENEW_MIN_MS = 10_000; // the shortest time between renewals, even if the clocks differ
const RENEW_MAX_MS = 24 * 3600_000; // timers cannot wait for months
/** Close codes by which the server refuses the token, and the reasons. @type {Record<number, string>} */
const REFUSALS = { 4401: 'unauthorized', 4403: 'token_revoked' };
const REFUSAL_CODES = ['unauthorized', 'token_expired', 'token_revoked', 'too_many_tokens'];

/**
 * @typedef {import('./base.js').Surroundings} Surroundings
 *
 * @typedef {'closed' | 'connecting' | 'loading' | 'live' | 'retrying' | 'offline' | 'gone' |
 *   'unauthorized'} Status
 *
 * @typedef {object} StatusDetail
 * @property {Status} status
 * @property {number} [delayMs] retrying, offline: the whole wait
 * @property {number} [retryAt] retrying, offline: when, in the timers' own milliseconds
 * @property {string} [reason] why the connection was lost, the session is gone, or the server refuses the token
 *
 * @typedef {import('./access.js').Credentials} Credentials
 */

/** Closes a socket and ignores its later events. */
function discard(/** @type {WebSocket | null} */ socket) {
	if (socket) {
		socket.onopen = socket.onmessage = socket.onclose = null;
		socket.onerror = () => {}; // closing a socket that is still connecting reports an error
		socket.close();
	}
}

export class Connection {
	#around;
	#url;
	#owner;
	/** @type {WebSocket | null} */
	#socket = null;
	/** @type {WebSocket | null} besides a socket that may be dead; the first of the two to answer is kept */
	#spare = null;
	#attempt = 0;
	#missed = 0;
	#unsent = 0; // bytes that the socket had not taken at the last beat
	#started = false;
	/** Whether the page was frozen: the connection has probably died in the meantime. */
	#isSuspect = false;
	#heardAt = 0;
	#beatAt = 0;
	/** @type {number | null} the client_time whose answer ends the probe */
	#probedAt = null;
	/** A factor for timeouts, so that a slow network does not look dead again and again. */
	#patience = 1;
	#isProved = false;
	/** @type {Map<string, any>} one timer a purpose */
	#timers = new Map();
	#unlisten = () => {};
	/** Changes when everything under way becomes void. */
	#life = {};
	/** The credentials that each socket has still to send. @type {WeakMap<WebSocket, Credentials>} */
	#unsaid = new WeakMap();
	/** @type {Credentials | null} those of the newest socket */
	#credentials = null;
	/** @type {string | null} the error code that the server sent before closing the socket */
	#refusal = null;
	#drainMs = 0; // the server is stopping: how long to wait before connecting again
	#askedAgain = false;
	/** Figures for an inspector. */
	figures = { connects: 0, losses: 0, framesIn: 0, framesOut: 0, roundTripMs: 0 };

	/**
	 * @param {ReturnType<typeof import('./base.js').surroundings>} around
	 * @param {string} url
	 * @param {{frame: (type: string, data: any) => void, status: (detail: StatusDetail) => void,
	 *   lost: (code: number) => void, keepalive: () => object}} owner its status `unauthorized` is the end: there
	 *   are no more attempts until start()
	 */
	constructor(around, url, owner) {
		this.#around = around;
		this.#url = url;
		this.#owner = owner;
	}

	start() {
		if (!this.#started) {
			this.#started = true;
			this.#askedAgain = false;
			this.#attempt = 0;
			this.#listen();
			this.#open();
		}
	}

	stop() {
		this.#started = false;
		this.#unlisten();
		this.#detach();
	}

	/** True if the frame was handed to an open socket, which does not mean that it arrived. */
	send(/** @type {string} */ type, /** @type {object} */ data) {
		if (this.#socket?.readyState !== 1) {
			return false;
		}
		this.#say(this.#socket, type, data);
		return true;
	}

	/** Breaks the socket as a network would; the usual recovery follows. */
	drop() {
		this.#socket?.close();
	}

	/** Gives the connection up now, without waiting for a close that may take minutes. */
	abandon(/** @type {string} */ reason) {
		this.#detach();
		this.#lost(0, reason);
	}

	/** The server must answer within ANSWER_MS, until answered() is called. */
	expectAnswer(/** @type {string} */ what) {
		if (this.#socket) {
			this.#arm('answer', ANSWER_MS * this.#patience, () =>
				this.#giveUp(`no answer: ${what}`),
			);
		}
	}

	answered() {
		this.#disarm('answer');
	}

	/** The connection works: after the next loss, the waits begin with the shortest again. */
	proved() {
		this.#attempt = 0;
		this.#patience = 1;
		this.#askedAgain = false;
		this.#isProved = true;
	}

	/** Connects at once if a retry is pending; otherwise checks that the connection is alive. */
	wake() {
		if (this.#timers.has('retry')) {
			this.#open();
		} else if (this.#socket && !this.#timers.has('probe')) {
			const now = this.#around.timers.now();
			this.#probedAt = now;
			this.send('keepalive', this.#keepalive(now));
			this.#arm('probe', PROBE_MS * this.#patience, () =>
				this.#replace(0, 'no answer after waking up'),
			);
			this.#arm('spare', this.#isSuspect ? 0 : SPARE_MS, () => this.#openSpare());
			this.#isSuspect = false;
		}
	}

	#open() {
		this.#disarm('retry');
		this.figures.connects += 1;
		this.#owner.status({ status: 'connecting' });
		if (!this.#started || this.#socket) {
			return; // a listener has closed this connection, and perhaps started it again
		}
		// The application may have to fetch its token, and may get no answer.
		this.#arm('answer', ANSWER_MS, () => this.#giveUp('no token'));
		this.#identify(
			(credentials) => {
				this.#disarm('answer');
				try {
					this.#attach(this.#dial(credentials));
				} catch (error) {
					this.#lost(0, String(error));
				}
			},
			(error) => this.abandon(`no token: ${error}`),
		);
	}

	/**
	 * Gets the credentials: at once, unless the application is asked for them.
	 * @param {(credentials: Credentials | null) => void} then @param {(error: unknown) => void} failed
	 */
	#identify(then, failed) {
		const known = this.#around.access.get();
		if (!(known instanceof Promise)) {
			then(known);
			return;
		}
		const life = this.#life;
		const unlessVoid =
			(/** @type {(value: any) => void} */ fn) => (/** @type {any} */ value) =>
				life === this.#life && fn(value);
		known.then(unlessVoid(then), unlessVoid(failed));
	}

	/** @param {Credentials | null} credentials @returns {WebSocket} */
	#dial(credentials) {
		const socket = new this.#around.WebSocket(this.#url, PROTOCOLS);
		this.#credentials = credentials;
		if (credentials) {
			this.#unsaid.set(socket, credentials);
		}
		return socket;
	}

	/** Sends the credentials as the first frame, since browsers cannot set headers. */
	#greet(/** @type {WebSocket} */ socket) {
		const data = this.#unsaid.get(socket);
		if (data) {
			this.#unsaid.delete(socket);
			this.#say(socket, 'token', data);
		}
	}

	/** @param {WebSocket} socket @param {string} type @param {object} data */
	#say(socket, type, data) {
		const text = JSON.stringify({ type, data });
		this.figures.framesOut += 1;
		this.#around.inspect?.('out', type === 'token' ? '{"type":"token","data":{}}' : text);
		socket.send(text);
	}

	/** Makes a socket the connection. */
	#attach(/** @type {WebSocket} */ socket) {
		this.#socket = socket;
		this.#missed = this.#unsent = 0;
		this.#isProved = false;
		this.#isSuspect = false;
		this.#heardAt = this.#around.timers.now();
		this.#refusal = null;
		this.expectAnswer('connect');
		socket.onopen = () => {
			this.#greet(socket);
			this.#planBeat();
		};
		socket.onmessage = (event) => this.#receive(event.data);
		socket.onerror = () => {}; // a close always follows
		socket.onclose = ({ code, reason }) =>
			REFUSALS[code]
				? this.#refused(code, this.#refusal ?? REFUSALS[code])
				: this.#replace(code, reason || `closed (${code})`);
		if (socket.readyState === 1) {
			this.#planBeat();
		}
	}

	/**
	 * A slow network and a dead one look the same for a while. So the socket is kept, and a second one is
	 * opened: the first of the two to answer becomes the connection.
	 */
	#openSpare() {
		this.#identify(
			(credentials) => {
				try {
					this.#watchSpare(this.#dial(credentials));
				} catch {
					// the probe continues
				}
			},
			() => {},
		);
	}

	#watchSpare(/** @type {WebSocket} */ socket) {
		if (!this.#timers.has('probe')) {
			discard(socket); // the answer came while the application was asked
			return;
		}
		this.#spare = socket;
		socket.onopen = () => this.#greet(socket);
		socket.onerror = () => {};
		socket.onclose = () => {
			this.#spare = null;
		};
		socket.onmessage = (event) => {
			this.#replace(0, 'another socket was the first to answer');
			if (this.#socket === socket) {
				this.#receive(event.data);
			}
		};
	}

	#receive(/** @type {any} */ text) {
		this.#missed = 0;
		this.#heardAt = this.#around.timers.now();
		this.figures.framesIn += 1;
		this.#around.inspect?.('in', text);
		try {
			const { type, data } = JSON.parse(text);
			if (typeof type !== 'string' || typeof data !== 'object' || !data) {
				throw new TypeError('not a frame');
			}
			if (type === 'draining') {
				this.#drainMs = Number(data.retry_after_ms) || 0; // a close follows
				return;
			}
			if (type === 'keepalive_ack') {
				this.#heard(data.client_time);
			} else if (type === 'connected') {
				this.#endProbe(); // the answer to a request sent after waking up
			}
			if (type === 'error' && REFUSAL_CODES.includes(data.code)) {
				this.#refusal = data.code; // a close follows
				return;
			}
			if (['connected', 'sessions', 'token_renewed'].includes(type)) {
				this.#planRenewal(data.expires_at);
			}
			this.#owner.frame(type, data);
		} catch (error) {
			this.abandon(`an invalid frame: ${error}`);
		}
	}

	/**
	 * Only an answer to a frame sent after waking up ends the probe: frames that arrived before the
	 * network died may have been buffered until now.
	 */
	#heard(/** @type {unknown} */ clientTime) {
		if (typeof clientTime === 'number') {
			this.figures.roundTripMs = Math.max(0, this.#heardAt - clientTime);
			if (this.#probedAt !== null && clientTime >= this.#probedAt) {
				this.#endProbe();
			}
		}
	}

	#endProbe() {
		this.#probedAt = null;
		this.#disarm('probe');
		this.#disarm('spare');
		if (this.#spare?.readyState === 0) {
			// Browsers write a warning if a socket is closed before it is open.
			const spare = this.#spare;
			spare.onmessage = spare.onclose = null;
			spare.onopen = () => spare.close();
		} else {
			discard(this.#spare);
		}
		this.#spare = null;
	}

	#keepalive(now = this.#around.timers.now()) {
		return { client_time: now, ...this.#owner.keepalive() };
	}

	#planBeat() {
		this.#beatAt = this.#around.timers.now() + KEEPALIVE_MS;
		this.#arm('keepalive', KEEPALIVE_MS, () => this.#beat());
	}

	#beat() {
		const left = this.#socket?.bufferedAmount ?? 0;
		if (left < this.#unsent) {
			this.#missed = 0; // it still accepts data, perhaps a long prompt: slow, not dead
		}
		this.#unsent = left;
		if (this.#missed >= MISSED_MAX * this.#patience) {
			this.#giveUp('keepalives unanswered');
			return;
		}
		// The machine has slept. Pages get an event for that, workers and Node do not.
		const hasSlept = this.#around.timers.now() - this.#beatAt > KEEPALIVE_MS;
		this.#missed += 1;
		this.#planBeat();
		if (hasSlept) {
			this.wake();
		} else {
			this.send('keepalive', this.#keepalive());
		}
	}

	/** Silence: the connection is dead, or too slow for the pages requested. */
	#giveUp(/** @type {string} */ reason) {
		if (!this.#isProved) {
			this.#patience = Math.min(PATIENCE_MAX, this.#patience * 2);
		}
		this.abandon(reason);
	}

	/**
	 * The connection is lost. If a second socket is being opened, that one takes over. If no close
	 * was received, it retries at once, because the user is looking at the page.
	 * @param {number} code 0: no close was received @param {string} reason
	 */
	#replace(code, reason) {
		const spare = this.#spare;
		this.#spare = null;
		this.#detach();
		this.#lost(code, reason, spare || code === 0 ? 0 : undefined);
		if (!spare) {
			return;
		}
		if (!this.#timers.has('retry')) {
			discard(spare); // a listener has closed this connection, or opened another
			return;
		}
		this.#disarm('retry');
		this.figures.connects += 1;
		this.#attach(spare);
		this.#owner.status({ status: 'connecting' });
	}

	/** The wait before the next attempt, by the attempts so far or as the server has asked. */
	#nextDelay(/** @type {number} */ code) {
		const drainMs = code === 1001 ? this.#drainMs : 0;
		const random = this.#around.random();
		if (code === 1001 && !drainMs && this.#isProved) {
			return Math.round(MOVED_MS * random); // the session is at another node, or soon
		}
		const longest = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** (this.#attempt + 1));
		return Math.round(
			drainMs * (1 + random) || RETRY_MIN_MS + random * (longest - RETRY_MIN_MS),
		);
	}

	/** @param {number} code @param {string} reason @param {number} [waitMs] by default that of #nextDelay() */
	#lost(code, reason, waitMs) {
		this.figures.losses += 1;
		this.#owner.lost(code);
		if (!this.#started || this.#socket) {
			return;
		}
		const delayMs = waitMs ?? this.#nextDelay(code);
		this.#drainMs = 0;
		this.#attempt = Math.min(this.#attempt + 1, 10);
		this.#arm('retry', delayMs, () => this.#open());
		// `offline` is only for display: a server on this machine can still be reached.
		const status = this.#around.page?.navigator?.onLine === false ? 'offline' : 'retrying';
		this.#owner.status({
			status,
			delayMs,
			retryAt: this.#around.timers.now() + delayMs,
			reason,
		});
	}

	/**
	 * The server refuses the credentials. The application is asked once for another token.
	 * @param {number} code @param {string} reason
	 */
	#refused(code, reason) {
		const isRevoked = REFUSALS[code] === 'token_revoked';
		const again =
			!this.#askedAgain &&
			this.#around.access.isWorthAnother(this.#credentials, isRevoked);
		this.#detach();
		this.figures.losses += 1;
		this.#owner.lost(code);
		if (!this.#started || this.#socket) {
			return;
		}
		if (again) {
			this.#askedAgain = true;
			this.#open();
			return;
		}
		this.stop();
		this.#owner.status({ status: 'unauthorized', reason });
	}

	#planRenewal(/** @type {number | null | undefined} */ expiresAt) {
		this.#disarm('renew');
		if (typeof expiresAt !== 'number' || !this.#around.access.canRenew) {
			return;
		}
		const left = expiresAt - this.#around.timers.now();
		const wait = Math.max(RENEW_MIN_MS, left - Math.min(RENEW_BEFORE_MS, left / 4));
		this.#arm('renew', Math.min(wait, RENEW_MAX_MS), () => {
			this.#planRenewal(expiresAt); // unless the answer says otherwise
			this.#identify(
				(credentials) => {
					this.#credentials = credentials;
					this.send('token', credentials ?? {});
				},
				() => {},
			);
		});
	}

	#detach() {
		this.#life = {};
		[...this.#timers.keys()].forEach((name) => this.#disarm(name));
		this.#probedAt = null;
		discard(this.#spare);
		discard(this.#socket);
		this.#spare = this.#socket = null;
	}

	#listen() {
		const wake = () => this.wake();
		const { page } = this.#around;
		this.#unlisten = listenTo(
			page,
			{ online: wake, offline: wake, pageshow: wake, focus: wake },
			{
				resume: wake,
				freeze: () => {
					this.#isSuspect = true;
				},
				visibilitychange: () => {
					if (page.document.visibilityState === 'visible') {
						wake();
					}
				},
			},
		);
	}

	#arm(/** @type {string} */ name, /** @type {number} */ ms, /** @type {() => void} */ fn) {
		this.#disarm(name);
		this.#timers.set(
			name,
			this.#around.timers.setTimeout(() => {
				this.#timers.delete(name);
				fn();
			}, ms),
		);
	}

	#disarm(/** @type {string} */ name) {
		this.#around.timers.clearTimeout(this.#timers.get(name));
		this.#timers.delete(name);
	}
}
