/**
 * The newest events of some sessions, kept in IndexedDB, so that a page that was killed shows its
 * transcript before it has a connection. It is never authoritative: the client works without it, and the
 * server's answer replaces it.
 */
import { listenTo } from './base.js';

/** @typedef {import('./log.js').HoldfastEvent} HoldfastEvent */

/**
 * @typedef {object} CacheOptions
 * @property {string} [name] of the database
 * @property {number} [maxEvents] of one session
 * @property {number} [maxChars] of one session, as JSON
 * @property {number} [maxSessions] beyond this, those not used for longest are dropped
 */

/**
 * @typedef {object} Pending
 * @property {boolean} isNew
 * @property {string | null} epoch
 * @property {HoldfastEvent[]} events
 * @property {readonly HoldfastEvent[]} [agent] those with the agent's state, if it has changed
 */

const DEFAULTS = { name: 'holdfast', maxEvents: 1_000, maxChars: 4_000_000, maxSessions: 20 };
const FLUSH_MS = 250;
const FAILURES_MAX = 3;

/** @param {any} request @returns {Promise<any>} */
export function settled(request) {
	return new Promise((resolve, reject) => {
		request.onsuccess = () => resolve(request.result);
		request.onerror = () => reject(request.error);
	});
}

/** @param {any} transaction @returns {Promise<void>} */
export function completed(transaction) {
	return new Promise((resolve, reject) => {
		transaction.oncomplete = () => resolve();
		transaction.onabort = () => reject(transaction.error ?? new Error('aborted'));
		transaction.onerror = () => {}; // an abort follows
	});
}

/** @param {any} factory @param {string} name @returns {Promise<any>} */
export function openDatabase(factory, name) {
	const request = factory.open(name, 1);
	request.onupgradeneeded = () => {
		request.result.createObjectStore('sessions', { keyPath: 'key' });
		request.result.createObjectStore('events', { keyPath: ['key', 'seq'] });
	};
	return settled(request);
}

/** The key under which the events with the agent's state are kept; no session has one like it. @param {string} key */
function agentKey(key) {
	return `${key} agent`;
}

/** All caches that this page has open. @type {Set<EventCache | import('./list-cache.js').ListCache>} */
export const inUse = new Set();

/**
 * Deletes everything that is kept for somebody, and stops the open caches from writing more of it.
 * Never rejects. @param {string} identity @param {{indexedDB?: any, IDBKeyRange?: any, cache?: any}} [options]
 */
export async function wipeCache(identity, options = {}) {
	const prefix = `${identity} `;
	try {
		await Promise.all([...inUse].map((cache) => cache.isOf(prefix) && cache.forget()));
		const indexedDB = options.indexedDB ?? globalThis.indexedDB;
		const ranges = options.IDBKeyRange ?? globalThis.IDBKeyRange;
		const database = await openDatabase(indexedDB, options.cache?.name ?? DEFAULTS.name);
		const transaction = database.transaction(['sessions', 'events'], 'readwrite');
		const end = `${prefix}\uffff`;
		transaction.objectStore('sessions').delete(ranges.bound(prefix, end));
		transaction.objectStore('events').delete(ranges.bound([prefix], [end]));
		await completed(transaction);
		database.close();
	} catch {
		// without IndexedDB there is nothing to delete
	}
}

/** One session's place in the cache. Nothing here ever throws or rejects: see `failure`. */
export class EventCache {
	#around;
	#key;
	#limits;
	/** @type {Promise<any> | null} */
	#database = null;
	/** @type {Pending | null} not written yet */
	#pending = null;
	/** @type {Promise<void>} one write at a time */
	#writing = Promise.resolve();
	#timer = null;
	#failures = 0;
	#isForgotten = false;
	#unlisten;
	/** What the token hides: cached events that were shown under other rules are not continued. */
	hide = '[]';
	/** @type {Error | null} why IndexedDB is not used, or could not be for a moment */
	failure = null;

	/**
	 * @param {{indexedDB: any, IDBKeyRange: any, timers: any, page: any}} around
	 * @param {string} key identifies whose it is, the session, its server and its format
	 * @param {CacheOptions} [options]
	 */
	constructor(around, key, options = {}) {
		this.#around = around;
		this.#key = key;
		this.#limits = { ...DEFAULTS, ...options };
		inUse.add(this);
		const flush = () => void this.flush();
		this.#unlisten = listenTo(
			around.page,
			{ pagehide: flush },
			{ freeze: flush, visibilitychange: flush },
		);
	}

	/**
	 * The cached events of this session; null if there are none, or they are damaged. Some browsers never answer.
	 * @returns {Promise<{epoch: string, events: HoldfastEvent[], agent: HoldfastEvent[]} | null>}
	 */
	read() {
		return this.#attempt(() => this.#read());
	}

	/** The client does not wait any longer for the cached events. */
	giveUp() {
		this.failure ??= new Error('IndexedDB did not answer in time');
	}

	/** Another history, or none: the next write drops the cached one. */
	reset(/** @type {string | null} */ epoch) {
		this.#pending = { isNew: true, epoch, events: [] };
		this.#schedule();
	}

	/** Appends these events. */
	add(/** @type {string | null} */ epoch, /** @type {HoldfastEvent[]} */ events) {
		this.#pending ??= { isNew: false, epoch, events: [] };
		this.#pending.events = [...this.#pending.events, ...events].slice(-this.#limits.maxEvents);
		this.#schedule();
	}

	/** Replaces the events that hold the agent's state. */
	keepAgent(/** @type {string | null} */ epoch, /** @type {readonly HoldfastEvent[]} */ events) {
		this.#pending ??= { isNew: false, epoch, events: [] };
		this.#pending.agent = events;
		this.#schedule();
	}

	/** Writes everything that is pending. */
	flush() {
		this.#around.timers.clearTimeout(this.#timer);
		this.#timer = null;
		this.#writing = this.#writing.then(async () => {
			const pending = this.#pending;
			this.#pending = null;
			if (pending && !this.#isForgotten) {
				await this.#attempt(() => this.#write(pending));
			}
		});
		return this.#writing;
	}

	/** Whether the cache belongs to the owner whose keys begin with `prefix`. */
	isOf(/** @type {string} */ prefix) {
		return this.#key.startsWith(prefix);
	}

	/** Stops writing. */
	forget() {
		this.#isForgotten = true;
		this.#pending = null;
		return this.#writing;
	}

	/** The client has ended. @param {string} [reason] */
	async end(reason) {
		if (reason === 'deleted') {
			this.reset(null);
		} else if (reason === 'token_revoked') {
			const cache = { name: this.#limits.name };
			await wipeCache(this.#key.split(' ')[0], { ...this.#around, cache });
		}
		await this.close();
	}

	async close() {
		this.#unlisten();
		inUse.delete(this);
		await this.flush();
		const database = this.#database;
		this.#database = null;
		await database?.then((db) => db.close()).catch(() => {});
	}

	#schedule() {
		this.#timer ??= this.#around.timers.setTimeout(() => void this.flush(), FLUSH_MS);
	}

	/** @template T @param {() => Promise<T>} fn @returns {Promise<T | null>} */
	async #attempt(fn) {
		if (this.#failures >= FAILURES_MAX) {
			return null;
		}
		try {
			const result = await fn();
			this.#failures = 0;
			this.failure = null;
			return result;
		} catch (error) {
			// Browsers cut connections to the database in the background: the next try opens another.
			this.#failures += 1;
			this.failure = error instanceof Error ? error : new Error(String(error));
			this.#database = null;
			return null;
		}
	}

	/** All events of a session, or those up to a seq. */
	#rangeOf(/** @type {string} */ key, last = Infinity) {
		return this.#around.IDBKeyRange.bound([key, -Infinity], [key, last]);
	}

	/** @param {any} transaction @param {string} key */
	#dropSession(transaction, key) {
		transaction.objectStore('events').delete(this.#rangeOf(key));
		transaction.objectStore('events').delete(this.#rangeOf(agentKey(key)));
		transaction.objectStore('sessions').delete(key);
	}

	#open() {
		this.#database ??= openDatabase(this.#around.indexedDB, this.#limits.name).then((db) => {
			db.onversionchange = () => {
				db.close(); // another tab wants to delete or change it
				this.#database = null;
			};
			return db;
		});
		return this.#database;
	}

	/** @param {'readonly' | 'readwrite'} mode */
	async #begin(mode) {
		const db = await this.#open();
		return db.transaction(['sessions', 'events'], mode);
	}

	async #read() {
		const transaction = await this.#begin('readonly');
		const all = transaction.objectStore('events');
		const [session, rows, agentRows] = await Promise.all([
			settled(transaction.objectStore('sessions').get(this.#key)),
			settled(all.getAll(this.#rangeOf(this.#key))),
			settled(all.getAll(this.#rangeOf(agentKey(this.#key)))),
		]);
		if (!session) {
			return null;
		}
		const parsed = (/** @type {any} */ row) => JSON.parse(row.text);
		const events = rows.map(parsed);
		const agent = agentRows.map(parsed);
		const isWhole =
			typeof session.epoch === 'string' &&
			(session.hide ?? '[]') === this.hide &&
			events.length > 0 &&
			events.every(
				(/** @type {any} */ event, /** @type {number} */ i) =>
					event.seq === session.last - events.length + 1 + i &&
					typeof event.type === 'string' &&
					typeof event.data === 'object',
			);
		return isWhole ? { epoch: session.epoch, events, agent } : null;
	}

	/** @param {Pending} pending */
	async #write({ isNew, epoch, events, agent }) {
		const transaction = await this.#begin('readwrite');
		const done = completed(transaction);
		done.catch(() => {}); // handled below, unless something before it fails
		const sessions = transaction.objectStore('sessions');
		const rows = transaction.objectStore('events');
		let session = await settled(sessions.get(this.#key));
		const goesOn =
			session &&
			!isNew &&
			session.epoch === epoch &&
			(session.hide ?? '[]') === this.hide &&
			(events[0]?.seq ?? 0) <= session.last + 1;
		if (!goesOn) {
			this.#dropSession(transaction, this.#key);
			const first = events[0]?.seq ?? 1;
			session = { key: this.#key, epoch, hide: this.hide, first, last: first - 1, chars: 0 };
		}
		// Another tab may have written some of these already.
		for (const event of events.filter(({ seq }) => seq > session.last)) {
			const text = JSON.stringify(event);
			rows.put({ key: this.#key, seq: event.seq, text });
			session.chars += text.length;
			session.last = event.seq;
		}
		if (session.last >= session.first) {
			await this.#shorten(rows, session);
			this.#putAgent(rows, agent);
			sessions.put({ ...session, used: this.#around.timers.now() });
		}
		await this.#evict(transaction);
		await done;
	}

	/** @param {any} rows @param {readonly HoldfastEvent[]} [agent] */
	#putAgent(rows, agent) {
		const key = agentKey(this.#key);
		if (agent) {
			rows.delete(this.#rangeOf(key));
			agent.forEach((event) => rows.put({ key, seq: event.seq, text: JSON.stringify(event) }));
		}
	}

	/** Drops the oldest events beyond the limits. @param {any} rows @param {any} session */
	async #shorten(rows, session) {
		const { maxEvents, maxChars } = this.#limits;
		let { first } = session;
		while (
			session.last - first + 1 > maxEvents ||
			(session.chars > maxChars && first <= session.last)
		) {
			const row = await settled(rows.get([this.#key, first]));
			session.chars -= row?.text.length ?? 0;
			first += 1;
		}
		if (first > session.first) {
			rows.delete(this.#rangeOf(this.#key, first - 1));
			session.first = first;
		}
	}

	/** Drops whole sessions, those not used for longest. @param {any} transaction */
	async #evict(transaction) {
		const all = await settled(transaction.objectStore('sessions').getAll());
		all.sort((/** @type {any} */ a, /** @type {any} */ b) => b.used - a.used)
			.slice(this.#limits.maxSessions)
			.forEach((/** @type {any} */ { key }) => this.#dropSession(transaction, key));
	}
}

/** Null where there is no IndexedDB; browsers that forbid it may throw when it is accessed. */
export function makeCache(/** @type {any} */ options, /** @type {string} */ key, /** @type {any} */ Kind = EventCache) {
	const identity = options.access.identity(options.identity);
	if (identity === null) {
		return null;
	}
	const whose = `${identity} ${key}`;
	try {
		const indexedDB = options.indexedDB ?? globalThis.indexedDB;
		const IDBKeyRange = options.IDBKeyRange ?? globalThis.IDBKeyRange;
		const limits = { ...DEFAULTS, ...(options.cache === true ? {} : options.cache) };
		return indexedDB ? new Kind({ ...options, indexedDB, IDBKeyRange }, whose, limits) : null;
	} catch {
		return null;
	}
}
