/** The list of sessions, live and on request. */
import { Emitter, socketUrl, surroundings } from './base.js';
import { Connection } from './connection.js';
import { placeOf, request } from './http.js';

/** @typedef {import('./connection.js').StatusDetail} StatusDetail */
/** @typedef {import('./base.js').Surroundings} Surroundings */

/** @param {Map<string, any>} sessions */
function newestFirst(sessions) {
	return [...sessions.values()].sort(
		(a, b) => b.updated_at - a.updated_at || (a.id < b.id ? -1 : 1),
	);
}

/**
 * The list of sessions, live. Dispatches `sessions` {sessions} (all of them, newest update first) and
 * `status`, as HoldfastClient does.
 */
export class HoldfastFeed extends Emitter {
	/** @type {Map<string, any>} */
	#sessions = new Map();
	/** @type {Map<string, any> | null} The pages of a new list, until it is whole. */
	#coming = null;
	#connection;

	/** @param {Surroundings} [options] */
	constructor(options = {}) {
		super();
		const around = surroundings(options);
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

	/** @returns {any[]} */
	get sessions() {
		return newestFirst(this.#sessions);
	}

	connect() {
		this.#connection.start();
	}

	close() {
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
			this.#connection.proved();
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
			this.emit('sessions', { sessions: this.sessions });
		}
	}

	#setStatus(/** @type {StatusDetail} */ detail) {
		this.status = detail;
		this.emit('status', detail);
	}
}

/** @typedef {string | URL | import('./http.js').PlaceOptions} Where the server's address, or that and more */

/** @param {{id?: string, title?: string}} [session] @param {Where} [where] @returns {Promise<any>} */
export function createSession(session = {}, where) {
	return request(placeOf(where), 'POST', '/api/sessions', session);
}

/** @param {string} id @param {Where} [where] @returns {Promise<void>} */
export function deleteSession(id, where) {
	return request(placeOf(where), 'DELETE', `/api/sessions/${encodeURIComponent(id)}`);
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
