// An observer that knows the protocol and nothing more: it keeps what it is sent and checks each promise
// of proto/protocol.md, as the frames come in.

import assert from 'node:assert/strict';
import { check } from './schema.mjs';
import { TestSocket } from './socket.mjs';

export class Observer extends TestSocket {
	#events = [];
	#epoch = null;
	#live = false;
	#loadingForward = false;
	#reloading = false; // a load was asked for while live: what is on its way may come twice
	#pages = [];
	/** How often it was reset, by reason, in order. */
	resets = [];

	/**
	 * Connects; resolves when `connected` is here. `query` goes into the URL. `held`: the events of an
	 * earlier connection, to go on from; `epoch` belongs to them.
	 */
	static async connect(t, server, sessionId, { query = {}, held = [], epoch = null, ...options } = {}) {
		const search = new URLSearchParams(query).toString();
		const path = `/api/sessions/${encodeURIComponent(sessionId)}/ws${search && `?${search}`}`;
		const observer = new Observer(t, server.ws(path), check.server, options);
		observer.#events = [...held];
		observer.#epoch = epoch;
		await observer.waitUntil(() => observer.frames.length > 0, 'the first frame');
		return observer;
	}

	/** What `connected` said. */
	get hello() {
		assert.equal(this.frames[0]?.type, 'connected');
		return this.frames[0].data;
	}

	get epoch() {
		return this.#epoch ?? this.hello.epoch;
	}

	/** The seq of the newest event; 0 if there is none. */
	get last() {
		return this.#events.at(-1)?.seq ?? 0;
	}

	get isLive() {
		return this.#live;
	}

	/** The events so far. Asserts that their numbers have no gap (and start at 1, or at `first`). */
	events({ first } = {}) {
		const start = first ?? this.#events[0]?.seq ?? 1;
		assert.deepEqual(this.#events.map((e) => e.seq), this.#events.map((_, i) => start + i));
		return this.#events;
	}

	onFrame({ type, data }) {
		if (this.frames.length === 1) {
			assert.ok(['connected', 'session_gone', 'error'].includes(type), `the first frame is ${type}`);
		} else if (type === 'events_loaded') {
			this.#page(data);
		} else if (type === 'events') {
			assert.ok(this.#live || this.#reloading, 'live events before a load has reached the end');
			assert.ok(data.events.at(-1).seq <= data.max_seq, 'an event above max_seq');
			data.events.forEach((event) => this.#take(event));
		} else if (type === 'delta' || type === 'preview') {
			assert.ok(this.#live || this.#reloading, `${type} before a load has reached the end`);
			assert.ok(data.seq > this.last, `${type} for seq ${data.seq}, which is closed`);
		}
	}

	#page(page) {
		const seqs = page.events.map((e) => e.seq);
		assert.deepEqual(seqs, seqs.map((_, i) => page.first_seq + i), 'a page has a gap');
		assert.equal(page.last_seq, seqs.at(-1) ?? 0);
		assert.equal(page.first_seq, seqs[0] ?? 0);
		assert.ok(page.last_seq <= page.max_seq, 'a page goes beyond max_seq');
		if (page.prepend) {
			this.#prepend(page.events);
		} else {
			if (page.reset) {
				this.resets.push(page.reset.reason);
				this.#events = [];
			}
			this.#epoch = page.epoch;
			page.events.filter((e) => !this.#reloading || e.seq > this.last).forEach((e) => this.#take(e));
			this.#live = page.reset !== undefined || !this.#loadingForward || !page.has_more;
			this.#reloading &&= !this.#live;
		}
		this.#pages.push(page);
	}

	#prepend(events) {
		const first = this.#events[0]?.seq;
		assert.ok(first === undefined || events.length === 0 || events.at(-1).seq === first - 1,
			'the page does not end where the events begin');
		this.#events = [...events, ...this.#events];
	}

	#take(event) {
		// The server never sends a client the same event twice on its own, nor leaves one out.
		assert.ok(this.#events.length === 0 || event.seq === this.last + 1,
			`event ${event.seq} after ${this.last}`);
		this.#events.push(event);
	}

	/** Sends load_events and resolves with the data of the page that answers it. */
	async load(data = {}) {
		const seen = this.#pages.length;
		if (data.before_seq === undefined) {
			this.#loadingForward = data.after_seq !== undefined;
			this.#reloading ||= this.#live;
			this.#live = false;
		}
		await this.send('load_events', data);
		return this.waitUntil(() => this.#pages[seen], `the answer to load_events ${JSON.stringify(data)}`);
	}

	/** Loads what it does not have, page after page, until it is live; resolves with the events. */
	async loadAll({ limit = 500, follow = true } = {}) {
		let page = await this.load(this.#position({ limit, follow }));
		while (!follow && !this.#live) {
			page = await this.load(this.#position({ limit, follow }));
		}
		await this.waitUntil(() => this.#live, `the last page (after ${page.last_seq})`);
		return this.events();
	}

	#position(rest) {
		return { after_seq: this.last, ...(this.#epoch && { epoch: this.#epoch }), ...rest };
	}

	/** Waits for the first event for which `match` is true: a type, or a function of the event. */
	waitForEvent(match, { after = 0, ms } = {}) {
		const wanted = typeof match === 'string' ? (e) => e.type === match : match;
		return this.waitUntil(() => this.#events.find((e) => e.seq > after && wanted(e)), `an event ${match}`, ms);
	}

	/** Waits until it has the event with this seq; resolves with all events. */
	async waitForSeq(seq, ms) {
		await this.waitUntil(() => this.last >= seq, `seq ${seq} (has ${this.last})`, ms);
		return this.events();
	}

	/** Sends a prompt; resolves with prompt_received. */
	prompt(message, promptId = `p-${Math.random().toString(36).slice(2)}`) {
		return this.promptWith({ message, prompt_id: promptId });
	}

	/** The same with all members of the frame's data. */
	async promptWith(data) {
		const from = this.frames.length;
		await this.send('prompt', data);
		const frame = await this.waitFor((f) => f.type === 'prompt_received' && f.data.prompt_id === data.prompt_id, { from });
		return frame.data;
	}

	/** Sends a frame that must be refused; resolves with the data of the error. */
	async refused(type, data) {
		const from = this.frames.length;
		await this.send(type, data);
		return (await this.waitFor('error', { from })).data;
	}
}
