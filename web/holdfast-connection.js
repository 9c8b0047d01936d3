/**
 * What HoldfastClient and HoldfastFeed share: one WebSocket that is kept going, and words for errors.
 */

const KEEPALIVE_MS = 10_000;
const MISSED_MAX = 2;
const PROBE_MS = 3_000; // how long a connection may stay silent after the page has woken up
const ANSWER_MS = 20_000; // how long `connected` or the answer to load_events may take
const RETRY_MIN_MS = 1_000;
const RETRY_MAX_MS = 30_000;

/**
 * @typedef {'closed' | 'connecting' | 'loading' | 'live' | 'retrying' | 'offline' | 'gone'} Status
 *
 * @typedef {object} StatusDetail
 * @property {Status} status
 * @property {number} [delayMs] retrying, offline: the whole wait
 * @property {number} [retryAt] retrying, offline: when, in the timers' own milliseconds
 * @property {string} [reason] why the connection was lost, or why the session is gone
 *
 * @typedef {object} Surroundings What a test replaces; the defaults are the real ones.
 * @property {typeof WebSocket} [WebSocket]
 * @property {string | URL} [base] the server's address; in a browser, the page's own by default
 * @property {{setTimeout: Function, clearTimeout: Function, now: () => number}} [timers]
 * @property {() => number} [random]
 * @property {any} [page] the `window` whose online, pageshow and visibilitychange wake the client
 */

/** An error that the server has put into words. */
export class HoldfastError extends Error {
	/** @param {string} code @param {string} message @param {Record<string, any>} [detail] */
	constructor(code, message, detail = {}) {
		super(message);
		this.name = 'HoldfastError';
		this.code = code;
		this.detail = detail;
	}
}

const realTimers = {
	setTimeout: (/** @type {() => void} */ fn, /** @type {number} */ ms) => setTimeout(fn, ms),
	clearTimeout: (/** @type {any} */ id) => clearTimeout(id),
	now: () => Date.now(),
};

/** @param {Surroundings} options */
export function surroundings(options) {
	const base = options.base ?? globalThis.location?.href;
	if (!base) {
		throw new TypeError('outside a browser, `base` must say where the server is');
	}
	return {
		WebSocket: options.WebSocket ?? globalThis.WebSocket,
		base,
		timers: options.timers ?? realTimers,
		random: options.random ?? Math.random,
		page: options.page ?? globalThis.window ?? null,
	};
}

/** @param {string | URL} base @param {string} path @param {Record<string, string | undefined>} query */
export function socketUrl(base, path, query = {}) {
	const url = new URL(path, base);
	url.protocol = url.protocol === 'https:' || url.protocol === 'wss:' ? 'wss:' : 'ws:';
	url.hash = '';
	for (const [name, value] of Object.entries(query)) {
		if (value !== undefined) {
			url.searchParams.set(name, value);
		}
	}
	return url.href;
}

/** 32 hex digits; works on plain http pages too, where crypto.randomUUID does not exist. */
export function randomId() {
	const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
	return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** An EventTarget for events with a detail. */
export class Emitter extends EventTarget {
	/**
	 * Like addEventListener, but hands over the detail, and returns the function that ends it.
	 * @param {string} type @param {(detail: any) => void} listener @returns {() => void}
	 */
	on(type, listener) {
		const handle = (/** @type {Event} */ event) =>
			listener(/** @type {CustomEvent} */ (event).detail);
		this.addEventListener(type, handle);
		return () => this.removeEventListener(type, handle);
	}

	/** @protected @param {string} type @param {any} detail */
	emit(type, detail) {
		this.dispatchEvent(new CustomEvent(type, { detail }));
	}
}

/**
 * Keeps one WebSocket going: opens it, notices that it is dead, opens the next one. Knows frames, but
 * not what they mean.
 */
export class Connection {
	#around;
	#url;
	#owner;
	/** @type {WebSocket | null} */
	#socket = null;
	#attempt = 0;
	#missed = 0;
	#started = false;
	/** @type {Map<string, any>} one timer a purpose */
	#timers = new Map();
	/** @type {(() => void)[]} */
	#unlisten = [];

	/**
	 * @param {ReturnType<typeof surroundings>} around
	 * @param {string} url
	 * @param {{frame: (type: string, data: any) => void, status: (detail: StatusDetail) => void,
	 *   lost: (code: number) => void, keepalive: () => object}} owner
	 */
	constructor(around, url, owner) {
		this.#around = around;
		this.#url = url;
		this.#owner = owner;
	}

	start() {
		if (!this.#started) {
			this.#started = true;
			this.#listen();
			this.#open();
		}
	}

	stop() {
		this.#started = false;
		this.#unlisten.forEach((unlisten) => unlisten());
		this.#unlisten = [];
		this.#detach();
	}

	/** True if the frame was handed to an open socket, which does not mean that it arrived. */
	send(/** @type {string} */ type, /** @type {object} */ data) {
		if (this.#socket?.readyState !== 1) {
			return false;
		}
		this.#socket.send(JSON.stringify({ type, data }));
		return true;
	}

	/** Breaks the socket as a network would: nothing else is told, the usual recovery follows. */
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
		this.#arm('answer', ANSWER_MS, () => this.abandon(`no answer: ${what}`));
	}

	answered() {
		this.#disarm('answer');
	}

	/** The connection has proved useful: the next loss starts again at the shortest wait. */
	proved() {
		this.#attempt = 0;
	}

	/** Connects at once if a retry is pending; makes sure of the connection if there is one. */
	wake() {
		if (this.#timers.has('retry')) {
			this.#open();
		} else if (this.send('keepalive', this.#keepalive())) {
			this.#arm('probe', PROBE_MS, () => this.abandon('no answer after waking up'));
		}
	}

	#open() {
		this.#disarm('retry');
		this.#owner.status({ status: 'connecting' });
		let socket;
		try {
			socket = new this.#around.WebSocket(this.#url);
		} catch (error) {
			this.#lost(0, String(error));
			return;
		}
		this.#socket = socket;
		this.#missed = 0;
		this.expectAnswer('connect');
		socket.onopen = () => this.#arm('keepalive', KEEPALIVE_MS, () => this.#beat());
		socket.onmessage = (event) => this.#receive(event.data);
		socket.onerror = () => {}; // a close always follows
		socket.onclose = (event) => {
			this.#detach();
			this.#lost(event.code, event.reason || `closed (${event.code})`);
		};
	}

	#receive(/** @type {any} */ bytes) {
		this.#missed = 0;
		this.#disarm('probe');
		let frame;
		try {
			frame = JSON.parse(bytes);
		} catch {
			frame = null;
		}
		if (typeof frame?.type !== 'string' || typeof frame.data !== 'object' || !frame.data) {
			this.abandon('a frame that is not one');
			return;
		}
		this.#owner.frame(frame.type, frame.data);
	}

	#keepalive() {
		return { client_time: this.#around.timers.now(), ...this.#owner.keepalive() };
	}

	#beat() {
		if (this.#missed >= MISSED_MAX) {
			this.abandon('keepalives unanswered');
			return;
		}
		this.#missed += 1;
		this.send('keepalive', this.#keepalive());
		this.#arm('keepalive', KEEPALIVE_MS, () => this.#beat());
	}

	#lost(/** @type {number} */ code, /** @type {string} */ reason) {
		this.#owner.lost(code);
		if (!this.#started) {
			return;
		}
		const range =
			Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** (this.#attempt + 1)) - RETRY_MIN_MS;
		const delayMs = Math.round(RETRY_MIN_MS + this.#around.random() * range);
		this.#attempt += 1;
		this.#arm('retry', delayMs, () => this.#open());
		// Offline is only a word for the user: a server on this machine can be reached all the same.
		const status = this.#around.page?.navigator?.onLine === false ? 'offline' : 'retrying';
		this.#owner.status({
			status,
			delayMs,
			retryAt: this.#around.timers.now() + delayMs,
			reason,
		});
	}

	#detach() {
		[...this.#timers.keys()].forEach((name) => this.#disarm(name));
		const socket = this.#socket;
		this.#socket = null;
		if (socket) {
			socket.onopen = socket.onmessage = socket.onclose = null;
			socket.onerror = () => {}; // closing a socket that is still connecting reports an error
			socket.close();
		}
	}

	#listen() {
		const page = this.#around.page;
		if (!page?.addEventListener) {
			return;
		}
		const listen = (
			/** @type {any} */ target,
			/** @type {string} */ type,
			/** @type {() => void} */ fn,
		) => {
			target.addEventListener(type, fn);
			this.#unlisten.push(() => target.removeEventListener(type, fn));
		};
		listen(page, 'online', () => this.wake());
		listen(page, 'offline', () => this.wake());
		listen(page, 'pageshow', () => this.wake());
		listen(page.document, 'visibilitychange', () => {
			if (page.document.visibilityState === 'visible') {
				this.wake();
			}
		});
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
