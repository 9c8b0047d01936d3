/** The list of sessions, live and on request. */
import { Emitter, deepFreeze, socketUrl, surroundings } from './base.js';
import { Connection } from './connection.js';
import { makeCache, wipeCache } from './cache.js';
import { placeOf, request } from './http.js';
import { ListCache } from './list-cache.js';

/** @typedef {import('./connection.js').StatusDetail} StatusDetail */
/** @typedef {import('./base.js').Surroundings} Surroundings */

/** @param {Map<string, any>} sessions */
function newestFirst(sessions) {
	return [...sessions.values()].sort(
		(a, b) => b.updated_at - a.updated_at || (a.id < b.id ? -1 : 1),
	);
}

/**
 * The list of sessions, live. Dispatches `sessions` {sessions, kept} (all of them, newest update first) and
 * `status`, as HoldfastClient does. With `cache`, what this browser keeps comes first: `kept` is true, and no status is known.
 */
export class HoldfastFeed extends Emitter {
	/** @type {Map<string, any>} */
	#sessions = new Map();
	/** @type {Map<string, any> | null} the pages of a new list, until it is complete */
	#coming = null;
	#connection;
	#options;
	/** @type {ListCache | null} */
	#cache = null;
	/** Whether the list has come from the server. */
	#isTold = false;
	/** The array last returned; null: the list has changed since. @type {readonly any[] | null} */
	#snapshot = Object.freeze([]);

	/** @param {Surroundings & {cache?: boolean | import('./cache.js').CacheOptions, identity?: string, indexedDB?: any}} [options] */
	constructor(options = {}) {
		super();
		const around = surroundings(options);
		this.#options = { ...options, ...around };
		/** @type {StatusDetail} */
		this.status = { status: 'closed' };
		this.#connection = new Connection(around, socketUrl(around.base, '/api/events'), {
			frame: (type, data) => this.#frame(type, data),
			status: (detail) => this.#setStatus(detail),
			lost: () => {
				this.#coming = null;
			},
			keepalive: () => ({}),
		});
	}

	/** Whether the list is from this browser's cache: the server has not been reached yet. */
	get isKept() {
		return !this.#isTold && this.#sessions.size > 0;
	}

	/** Frozen, and the same until it changes. @returns {readonly any[]} */
	get sessions() {
		this.#snapshot ??= deepFreeze(newestFirst(this.#sessions));
		return this.#snapshot;
	}

	connect() {
		if (this.#options.cache && !this.#cache) {
			this.#cache = makeCache(this.#options, new URL(this.#options.base).origin, ListCache); // its owner is known by now
			void this.#showKept();
		}
		this.#connection.start();
	}

	async #showKept() {
		const kept = await this.#cache?.read();
		if (kept && !this.#isTold && this.#cache) {
			this.#sessions = new Map(kept.map((session) => [session.id, { ...session, status: 'idle', is_prompting: false }]));
			this.#snapshot = null;
			this.emit('sessions', { sessions: this.sessions, kept: true });
		}
	}

	close() {
		void this.#cache?.close();
		this.#cache = null;
		this.#connection.stop();
		this.#setStatus({ status: 'closed' });
	}

	#frame(/** @type {string} */ type, /** @type {any} */ data) {
		if (type === 'token_renewed') {
			this.#coming = null; // the list follows again
			return;
		}
		if (type === 'sessions') {
			this.#coming ??= new Map();
			for (const session of data.sessions) {
				this.#coming.set(session.id, session);
			}
			this.#connection.answered();
			if (data.more) {
				return;
			}
			this.#sessions = this.#coming;
			this.#coming = null;
			this.#snapshot = null;
			this.#connection.proved();
			this.#isTold = true;
			this.#setStatus({ status: 'live' });
		} else if (type === 'session_created' || type === 'session_changed') {
			this.#sessions.set(data.session.id, data.session);
			this.#coming?.set(data.session.id, data.session);
		} else if (type === 'session_deleted') {
			this.#sessions.delete(data.session_id);
			this.#coming?.delete(data.session_id);
		} else {
			return;
		}
		if (!this.#coming) {
			this.#snapshot = null;
			this.emit('sessions', { sessions: this.sessions, kept: !this.#isTold });
			this.#cache?.keep(this.sessions);
		}
	}

	#setStatus(/** @type {StatusDetail} */ detail) {
		const identity = this.#cache && this.#options.access.identity(this.#options.identity);
		if (identity && detail.status === 'unauthorized' && detail.reason === 'token_revoked') {
			void wipeCache(identity, this.#options);
		}
		this.status = Object.freeze(detail);
		this.emit('status', detail);
	}
}

/** @typedef {string | URL | import('./http.js').PlaceOptions} Where the server's address, or that and more */

/** @param {{id?: string, title?: string, agent?: string, cwd?: string}} [session] @param {Where} [where] @returns {Promise<any>} */
export function createSession(session = {}, where) {
	return request(placeOf(where), 'POST', '/api/sessions', session);
}

/** The agents that a session can have, the default first. @param {Where} [where] @returns {Promise<any[]>} */
export async function listAgents(where) {
	return (await request(placeOf(where), 'GET', '/api/agents')).agents;
}

/**
 * Directories that a session of this agent can have and whose path begins with `path`.
 * @param {{agent?: string, path?: string}} [query] @param {Where} [where] @returns {Promise<any>}
 */
export function listDirectories(query = {}, where) {
	return request(placeOf(where), 'GET', `/api/directories?${new URLSearchParams(query)}`);
}

/**
 * Renames (`title: null`: the agent's own again), archives or pins a session, or the reverse.
 * @param {string} id @param {{title?: string | null, archived?: boolean, pinned?: boolean}} labels @param {Where} [where] @returns {Promise<any>}
 */
export function labelSession(id, labels, where) {
	return request(placeOf(where), 'PATCH', `/api/sessions/${encodeURIComponent(id)}`, labels);
}

/** @param {string} id @param {Where} [where] @returns {Promise<void>} */
export function deleteSession(id, where) {
	return request(placeOf(where), 'DELETE', `/api/sessions/${encodeURIComponent(id)}`);
}

/**
 * Searches a session's whole log, or those of all sessions, newest first. Yields the hits of each answer as it comes.
 * @param {string} text @param {{sessionId?: string, limit?: number, signal?: AbortSignal}} [options] @param {Where} [where]
 * @returns {AsyncGenerator<any[], void>}
 */
export async function* search(text, { sessionId, limit, signal } = {}, where) {
	const path = sessionId === undefined ? '/api/search' : `/api/sessions/${encodeURIComponent(sessionId)}/search`;
	let cursor = null;
	do {
		const query = new URLSearchParams({ q: text, ...(limit && { limit: String(limit) }), ...(cursor && { cursor }) });
		const page = await request(placeOf(where), 'GET', `${path}?${query}`, undefined, signal);
		yield page.hits;
		cursor = page.next;
	} while (cursor);
}

/**
 * All sessions, newest update first.
 * @param {Where} [where] @returns {Promise<any[]>}
 */
export async function listSessions(where) {
	const place = placeOf(where);
	const sessions = new Map();
	let path = '/api/sessions';
	for (;;) {
		const page = await request(place, 'GET', path);
		// A session on a later page again has changed in the meantime.
		page.sessions.forEach((/** @type {any} */ session) => sessions.set(session.id, session));
		if (!page.next) {
			return newestFirst(sessions);
		}
		path = `/api/sessions?cursor=${encodeURIComponent(page.next)}`;
	}
}
