/**
 * The basis of all other files: the environment, errors, and events with a detail.
 */
import { Access } from './access.js';

/**
 * @typedef {object} Surroundings The environment. Tests replace it; the defaults are the real one.
 * @property {typeof WebSocket} [WebSocket]
 * @property {string | URL} [base] the server's address; in a browser, the page's own by default
 * @property {{setTimeout: Function, clearTimeout: Function, now: () => number}} [timers]
 * @property {typeof fetch} [fetch]
 * @property {() => number} [random]
 * @property {any} [page] the `window`, or the `self` of a worker, whose events wake the client
 * @property {(direction: 'in' | 'out', text: string) => void} [inspect] sees every frame, but no token
 * @property {() => string | Promise<string>} [getToken] asked for each connection, and before a token ends
 * @property {string} [login] the page's half of its login, in a worker
 * @property {any} [storage] localStorage
 */

/**
 * @typedef {object} ClientOptions
 * @property {string} sessionId
 * @property {'html' | 'markdown' | 'both'} [format]
 * @property {'text' | 'html'} [deltas]
 * @property {string} [clientId]
 * @property {number} [maxEvents] how many to hold in memory
 * @property {number} [catchUpMax] further behind, it starts over with the newest page
 * @property {boolean | import('./cache.js').CacheOptions} [cache] keep the newest events in IndexedDB
 * @property {string} [identity] whose the token is: the cache is for nobody else
 * @property {any} [indexedDB]
 * @property {any} [IDBKeyRange]
 */

/** An error reported by the server. */
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

/** The page's window, or a worker's own global scope; Node has neither. */
function ownPage() {
	const scope = /** @type {any} */ (globalThis);
	return scope.window ?? (typeof scope.addEventListener === 'function' ? scope : null);
}

/** @param {Surroundings} options */
export function surroundings(options) {
	const base = options.base ?? globalThis.location?.href;
	if (!base) {
		throw new TypeError('outside a browser, `base` must be the address of the server');
	}
	const Socket = options.WebSocket ?? globalThis.WebSocket;
	if (!Socket) {
		throw new TypeError('no WebSocket in this environment: pass a constructor, such as that of `ws`');
	}
	return {
		WebSocket: Socket,
		base,
		timers: options.timers ?? realTimers,
		fetch: options.fetch ?? globalThis.fetch?.bind(globalThis) ?? null,
		random: options.random ?? Math.random,
		page: options.page ?? ownPage(),
		inspect: options.inspect ?? null,
		access: new Access(options),
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

/**
 * 32 unique hex digits; not a secret. Works on plain http pages, where
 * crypto.randomUUID does not exist, and in Node 18, where crypto is behind a flag.
 */
export function randomId() {
	const bytes = new Uint8Array(16);
	if (globalThis.crypto?.getRandomValues) {
		globalThis.crypto.getRandomValues(bytes);
	} else {
		bytes.forEach((_, i) => (bytes[i] = Math.random() * 256));
	}
	return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @template T @param {T} value @returns {T} */
export function deepFreeze(value) {
	if (value !== null && typeof value === 'object' && !Object.isFrozen(value)) {
		Object.freeze(value);
		Object.values(value).forEach(deepFreeze);
	}
	return value;
}

/** CustomEvent, which Node 18 does not have. */
class DetailEvent extends Event {
	/** @param {string} type @param {any} detail */
	constructor(type, detail) {
		super(type);
		this.detail = detail;
	}
}

/**
 * An EventTarget for events with a detail. What it shows by getters is frozen, and the same object until it changes: React's
 * useSyncExternalStore takes `subscribe` and a getter as they are.
 */
export class Emitter extends EventTarget {
	/** @type {Set<() => void>} */
	#subscribers = new Set();

	/**
	 * Calls the listener after every event, whatever its type. Returns a function that removes it.
	 * @param {() => void} listener @returns {() => void}
	 */
	subscribe = (listener) => {
		const own = () => listener(); // the same listener may subscribe twice
		this.#subscribers.add(own);
		return () => void this.#subscribers.delete(own);
	};

	/**
	 * Like addEventListener, but hands over the detail, and returns a function that removes the listener.
	 * @param {string} type @param {(detail: any) => void} listener @returns {() => void}
	 */
	on(type, listener) {
		const handle = (/** @type {Event} */ event) =>
			listener(/** @type {DetailEvent} */ (event).detail);
		this.addEventListener(type, handle);
		return () => this.removeEventListener(type, handle);
	}

	/**
	 * The same, for the next event of the type only.
	 * @param {string} type @param {(detail: any) => void} listener @returns {() => void}
	 */
	once(type, listener) {
		const stop = this.on(type, (detail) => {
			stop();
			listener(detail);
		});
		return stop;
	}

	/** @protected @param {string} type @param {any} detail */
	emit(type, detail) {
		this.dispatchEvent(new DetailEvent(type, detail));
		[...this.#subscribers].forEach((tell) => tell());
	}
}

/**
 * Listens to a page, or to nothing if there is none, until stop().
 * @param {any} page
 * @param {Record<string, () => void>} onPage @param {Record<string, () => void>} onDocument
 * @returns {() => void} stop
 */
export function listenTo(page, onPage, onDocument) {
	/** @type {(() => void)[]} */
	const ends = [];
	for (const [target, listeners] of [
		[page, onPage],
		[page?.document, onDocument],
	]) {
		for (const [type, listener] of target?.addEventListener ? Object.entries(listeners) : []) {
			target.addEventListener(type, listener);
			ends.push(() => target.removeEventListener(type, listener));
		}
	}
	return () => ends.splice(0).forEach((end) => end());
}
