// A client of server-sent events that knows WHATWG HTML, section 9.2.6, and proto/protocol.md: it takes a stream apart byte by byte, holds each event against
// its schema, and checks that the numbers have no gap.

import assert from 'node:assert/strict';
import http from 'node:http';
import https from 'node:https';
import { createGunzip } from 'node:zlib';
import { trustOf, withAuth } from './auth.mjs';
import { check } from './schema.mjs';
import { Waiters, defer } from './wait.mjs';

const DEFAULT_MS = 20_000;
const OWN = ['reset', 'live', 'ended'];
const OF_FEED = ['sessions', 'session_created', 'session_changed', 'session_deleted', 'draining'];
const OF_SOCKET = ['connected', 'state', 'delta', 'preview', 'activity', 'session_gone', 'draining'];

/** The stream's text, taken apart: `take` gets {id, type, data} of each event, and what else a block may be. */
export class EventParser {
	#decoder = new TextDecoder('utf-8', { fatal: true });
	#line = '';
	#sawReturn = false;
	#event = { type: '', data: [] };
	/** What a browser would send as Last-Event-ID. */
	lastId = '';
	retry = null;
	comments = 0;

	constructor(take) {
		this.take = take;
	}

	push(bytes) {
		for (const c of this.#decoder.decode(bytes, { stream: true })) {
			if (this.#sawReturn && c === '\n') {
				this.#sawReturn = false;
			} else if (c === '\n' || c === '\r') {
				this.#sawReturn = c === '\r';
				this.#takeLine(this.#line);
				this.#line = '';
			} else {
				this.#sawReturn = false;
				this.#line += c;
			}
		}
	}

	#takeLine(line) {
		if (line === '') {
			const { type, data, id } = this.#event;
			this.lastId = id ?? this.lastId;
			if (data.length > 0) {
				this.take({ type: type || 'message', data: data.join('\n'), id });
			}
			this.#event = { type: '', data: [] };
			return;
		}
		const at = line.indexOf(':');
		const [name, value] = at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, '')];
		if (name === '') {
			this.comments += 1;
		} else if (name === 'data') {
			this.#event.data.push(value);
		} else if (name === 'event') {
			this.#event.type = value;
		} else if (name === 'id') {
			this.#event.id = value;
		} else if (name === 'retry') {
			assert.match(value, /^[0-9]+$/);
			this.retry = Number(value);
		} else {
			assert.fail(`a field that no event has: ${line}`);
		}
	}
}

export class EventStream {
	#waiters = new Waiters();
	#parser;
	#response = null;
	#isFeed;
	/** Every event so far that is not of the session, and each of those: {type, data, id}, data parsed. */
	all = [];
	/** The session's events. */
	events = [];
	fault = null;
	ended = false;
	/** {status, headers, body} if it is no stream. */
	refusal = null;
	bytes = 0;

	/** `path`: from the root. Resolves when the head of the answer is here. */
	static async open(t, server, path, { headers = {}, gzip = false, lastId } = {}) {
		const stream = new EventStream(path.startsWith('/api/events'));
		const all = { accept: 'text/event-stream', ...(gzip && { 'accept-encoding': 'gzip' }), ...(lastId !== undefined && { 'last-event-id': lastId }), ...headers };
		const where = server.url.startsWith('unix:') ? { socketPath: server.url.slice('unix:'.length) } : {};
		const url = server.url.startsWith('unix:') ? `http://localhost${path}` : server.url + path;
		const request = (url.startsWith('https:') ? https : http).get(url, { ...where, ...trustOf(server.url), agent: false, headers: server.url.startsWith('unix:') ? Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined)) : withAuth(server.url, all) });
		stream.abort = () => request.destroy();
		defer(t, () => {
			request.destroy();
			if (stream.fault) {
				throw stream.fault;
			}
		});
		request.on('error', () => stream.#end());
		request.on('response', (response) => stream.#begin(response, gzip));
		await stream.until(() => stream.head || stream.refusal || stream.ended, 'the head of the answer');
		return stream;
	}

	/** The stream of a session: `query` goes into the URL. */
	static session(t, server, id, { query = {}, ...options } = {}) {
		const search = new URLSearchParams(query).toString();
		return EventStream.open(t, server, `/api/sessions/${id}/events${search && `?${search}`}`, options);
	}

	constructor(isFeed) {
		this.#isFeed = isFeed;
		this.#parser = new EventParser((event) => this.#take(event));
	}

	#begin(response, gzip) {
		this.#response = response;
		response.on('error', () => this.#end());
		response.on('aborted', () => this.#end());
		if (response.statusCode !== 200) {
			let body = '';
			response.setEncoding('utf8').on('data', (text) => (body += text)).on('end', () => {
				this.refusal = { status: response.statusCode, headers: response.headers, body: JSON.parse(body) };
				this.#waiters.wake();
			});
			return;
		}
		this.head = response.headers;
		try {
			assert.equal(response.headers['content-type'], 'text/event-stream');
			assert.equal(response.headers['cache-control'], 'no-store');
			assert.equal(response.headers['content-encoding'], gzip ? 'gzip' : undefined);
		} catch (error) {
			this.fault = error;
		}
		response.on('data', (bytes) => (this.bytes += bytes.length));
		const text = gzip ? response.pipe(createGunzip()) : response;
		text.on('error', (error) => { // of gzip: it was cut off
			this.cut = error;
			this.#end();
		});
		text.on('data', (bytes) => {
			try {
				this.#parser.push(bytes);
			} catch (error) {
				this.fault ??= error;
			}
			this.#waiters.wake();
		});
		text.on('end', () => this.#end());
		this.#waiters.wake();
	}

	#end() {
		this.ended = true;
		this.#waiters.wake();
	}

	#take({ type, data: text, id }) {
		const data = JSON.parse(text);
		const wrong = OWN.includes(type) ? check.stream({ type, data })
			: (this.#isFeed ? OF_FEED : OF_SOCKET).includes(type) ? (this.#isFeed ? check.feed : check.server)({ type, data })
				: check.event(data);
		assert.equal(wrong, null);
		const isOfSession = ![...OWN, ...OF_FEED, ...OF_SOCKET].includes(type);
		assert.equal(id !== undefined, isOfSession, `the id of ${type}`);
		if (type === 'reset') {
			this.events = [];
		}
		if (isOfSession) {
			assert.equal(type, data.type);
			assert.match(id, /^[0-9a-f]{16}-[0-9]+$/);
			assert.equal(Number(id.slice(17)), data.seq);
			assert.equal(data.seq, (this.events.at(-1)?.seq ?? data.seq - 1) + 1, 'no gap, no repetition');
			this.events.push(data);
		}
		if (type === 'live') {
			assert.equal(this.events.at(-1)?.seq ?? data.max_seq, data.max_seq, 'live has all there is');
		}
		this.all.push({ type, data, id });
	}

	get lastId() {
		return this.#parser.lastId;
	}

	get retry() {
		return this.#parser.retry;
	}

	get comments() {
		return this.#parser.comments;
	}

	/** Reads nothing more, or again. */
	pause() {
		this.#response.pause();
	}

	resume() {
		this.#response.resume();
	}

	until(probe, what, ms = DEFAULT_MS) {
		return this.#waiters.until(() => {
			if (this.fault) {
				throw this.fault;
			}
			return probe();
		}, ms, () => `${what}; it has ${this.all.length} events, the last ${JSON.stringify(this.all.at(-1))?.slice(0, 300)}${this.ended ? ', and has ended' : ''}`);
	}

	/** The first event of a type, of those from `from` on. */
	waitFor(type, { from = 0, ms } = {}) {
		const match = typeof type === 'function' ? type : (event) => event.type === type;
		return this.until(() => this.all.slice(from).find(match), `an event ${type}`, ms);
	}

	/** All of the session's events up to this one. */
	async waitForSeq(seq, ms) {
		await this.until(() => (this.events.at(-1)?.seq ?? 0) >= seq, `seq ${seq}`, ms);
		return this.events;
	}

	waitEnd(ms) {
		return this.until(() => this.ended, 'the end', ms);
	}
}
