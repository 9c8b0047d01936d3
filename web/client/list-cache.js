/**
 * Keeps the last list of sessions in IndexedDB with the events (cache.js), for a page that is opened while the server is
 * down. It is deleted together with them.
 */
import { completed, inUse, openDatabase, settled } from './cache.js';

const SESSIONS_MAX = 200; // the newest
const FLUSH_MS = 1_000;

/** Nothing here ever throws or rejects. */
export class ListCache {
	#around;
	#key;
	#name;
	#timer = null;
	/** @type {readonly any[] | null} not written yet */
	#pending = null;
	/** @type {Promise<void>} one write at a time */
	#writing = Promise.resolve();
	#isForgotten = false;

	/**
	 * @param {{indexedDB: any, timers: any}} around
	 * @param {string} key identifies whose it is, and its server
	 * @param {{name: string}} options of the database
	 */
	constructor(around, key, { name }) {
		this.#around = around;
		this.#key = `${key} list`;
		this.#name = name;
		inUse.add(this);
	}

	/** The sessions that are kept; null: none. @returns {Promise<any[] | null>} */
	async read() {
		try {
			const database = await openDatabase(this.#around.indexedDB, this.#name);
			const kept = await settled(database.transaction('sessions').objectStore('sessions').get(this.#key));
			database.close();
			const sessions = JSON.parse(kept?.list ?? 'null');
			return Array.isArray(sessions) && sessions.every(({ id }) => typeof id === 'string') ? sessions : null;
		} catch {
			return null;
		}
	}

	/** Keeps the newest of these, in a moment. @param {readonly any[]} sessions the newest first */
	keep(sessions) {
		this.#pending = sessions;
		this.#timer ??= this.#around.timers.setTimeout(() => void this.flush(), FLUSH_MS);
	}

	/** Writes what is pending. */
	flush() {
		this.#around.timers.clearTimeout(this.#timer);
		this.#timer = null;
		this.#writing = this.#writing.then(() => this.#write()).catch(() => {});
		return this.#writing;
	}

	async #write() {
		const sessions = this.#pending;
		this.#pending = null;
		if (!sessions || this.#isForgotten) {
			return;
		}
		const database = await openDatabase(this.#around.indexedDB, this.#name);
		const transaction = database.transaction('sessions', 'readwrite');
		const list = JSON.stringify(sessions.slice(0, SESSIONS_MAX));
		transaction.objectStore('sessions').put({ key: this.#key, list, used: this.#around.timers.now() });
		await completed(transaction);
		database.close();
	}

	/** Whether the cache belongs to the owner whose keys begin with `prefix`. */
	isOf(/** @type {string} */ prefix) {
		return this.#key.startsWith(prefix);
	}

	/** Stops writing. */
	forget() {
		this.#isForgotten = true;
		return this.#writing;
	}

	async close() {
		inUse.delete(this);
		await this.flush();
	}
}
