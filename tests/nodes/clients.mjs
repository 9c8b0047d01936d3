// Who feeds and watches sessions while their nodes die: they know the protocol, and come back until they have what they want.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { withAuth } from '../support/auth.mjs';
import { input } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { TestSocket } from '../support/socket.mjs';

const appendedBody = check.rest('appended');
const eventsBody = check.rest('events');
/* How long a request may take before it is sent again elsewhere. */
const PATIENCE_MS = 3000;

/** A request; null: there was no answer, and nobody knows what became of it. */
export async function ask(node, method, path, json) {
	try {
		const answer = await fetch(node.url + path, {
			method, headers: withAuth(node.url, json ? { 'content-type': 'application/json' } : {}), body: json && JSON.stringify(json), signal: AbortSignal.timeout(PATIENCE_MS),
		});
		return { status: answer.status, body: JSON.parse((await answer.text()) || 'null') };
	} catch (error) {
		assert.ok(error instanceof TypeError || error.name === 'TimeoutError' || error.name === 'SyntaxError', error.stack);
		return null;
	}
}

/** A socket that nobody has to close at the end. */
class Socket extends TestSocket {
	constructor(url, schema) {
		super({ after() {} }, url, schema);
	}

	/** What its server said that is against the protocol is said now. */
	end() {
		this.finish();
	}
}

/** Codes that say: come back. */
const COME_BACK = new Set([1000, 1001, 1006, 1011, 1013]);

/** After an error: it is the end of the connection, with a code on which clients come back, or else it is thrown. */
async function assertComesBack(socket, where, error) {
	const isGone = error && (/is not open/.test(error.message) || ['ECONNRESET', 'EPIPE'].includes(error.code)); // while it was written to
	if (socket.fault || (error && !socket.closed && !isGone)) {
		throw socket.fault ?? error;
	}
	await socket.waitClosed();
	assertSocketComesBack(where, socket.closed, socket.refusal?.status, socket.frames);
}

export function assertSocketComesBack(where, { code, reason }, status, frames = []) {
	assert.ok(COME_BACK.has(code) && [undefined, 503].includes(status), `${where} closed with ${code} ${reason}, status ${status}: ${frames.slice(-2).map((frame) => JSON.stringify(frame)).join(' ')}`);
}

export class Client {
	constructor(world, ledger) {
		this.world = world;
		this.ledger = ledger;
		this.random = world.random;
	}

	get path() {
		return `/api/sessions/${this.ledger.id}`;
	}

	/** Any node that has an address by now. */
	node() {
		return this.random.pick(this.world.nodes.filter(({ url }) => url));
	}

	say(node) {
		return `${this.ledger.id} at ${node.name}`;
	}
}

/** Appends until it is told to stop, each event again until it is acknowledged. */
export class Feeder extends Client {
	#made = 0;
	/** How many appends have been acknowledged. */
	done = 0;
	retries = 0;

	/** `name`: in front of its keys. */
	constructor(world, ledger, name) {
		super(world, ledger);
		this.name = name;
	}

	#next() {
		const key = `${this.name}:${this.#made}`;
		this.#made += 1;
		switch (this.random.below(6)) {
			case 0: return { ...input.end(), key };
			case 1: return { ...input.text(`${key} ends a paragraph\n\n`), key };
			case 2: return { ...input.text(`${key} and `), key };
			default: return { ...input.note({ key }), key };
		}
	}

	batch() {
		return Array.from({ length: 1 + this.random.below(3) }, () => this.#next());
	}

	taken(events, { epoch, max_seq: most, acks }, where) {
		assert.equal(acks.length, events.length, where);
		this.ledger.inEpoch(epoch);
		this.ledger.promise(most);
		events.forEach((event, at) => this.ledger.acknowledge(event, acks[at], where));
		this.done += 1;
		this.world.appended += events.length;
	}

	/** Over HTTP, one append after the other. */
	async run() {
		while (!this.world.isOver) {
			await this.append(this.batch());
			await sleep(this.world.pace * (0.5 + this.random.next()));
		}
	}

	async append(events) {
		for (;;) {
			const node = this.node();
			const answer = await ask(node, 'POST', `${this.path}/events`, events);
			if (answer?.status === 200) {
				assertValid(appendedBody(answer.body));
				this.taken(events, answer.body, this.say(node));
				return;
			}
			assert.ok(answer === null || answer.status === 503, `${this.say(node)}: ${JSON.stringify(answer)}`);
			this.world.refused(answer?.body?.error?.code ?? 'no answer');
			this.retries += 1;
			await sleep(50 + this.random.below(100));
		}
	}
}

/** The same over the socket for producers, with several appends on their way. */
export class SocketFeeder extends Feeder {
	#waiting = new Map(); // by ref: events that are not acknowledged
	#refs = 0;

	async run() {
		while (!this.world.isOver || this.#waiting.size > 0) {
			const node = this.node();
			const socket = new Socket(node.ws(`${this.path}/produce`), check.toProducer);
			try {
				await this.#feed(socket, node);
			} catch (error) {
				await assertComesBack(socket, this.say(node), error);
				this.world.refused(`produce ${socket.refusal?.status ?? socket.closed.code}`);
			}
			socket.end();
			await sleep(50 + this.random.below(100));
		}
	}

	/** Until the connection ends, everything has come, or one answer takes too long: then another node is tried. */
	async #feed(socket, node) {
		const where = this.say(node);
		const answered = (ref) => socket.frames.find(({ data }) => data.ref === ref);
		await within(socket, () => socket.frames.length > 0, where);
		for (const [ref, events] of this.#waiting) {
			await socket.send('append', { ref, events });
		}
		const limit = 10 + this.random.below(40);
		for (let sent = 0; this.#waiting.size > 0 || (sent < limit && !this.world.isOver);) {
			if (sent < limit && !this.world.isOver && this.#waiting.size < 4) {
				this.#refs += 1;
				const ref = `r-${this.#refs}`;
				this.#waiting.set(ref, this.batch());
				await socket.send('append', { ref, events: this.#waiting.get(ref) });
				sent += 1;
			}
			const [[ref, events]] = this.#waiting;
			if (!(await within(socket, () => answered(ref), where))) {
				this.world.refused('produce is silent');
				return;
			}
			const { type, data } = answered(ref);
			if (type === 'error') {
				assert.ok(['storage_failed', 'owner_unreachable', 'server_busy'].includes(data.code), `${where}: ${JSON.stringify(data)}`);
				this.world.refused(`produce ${data.code}`);
				return;
			}
			this.taken(events, data, where);
			this.#waiting.delete(ref);
			await sleep(this.world.pace * this.random.next());
		}
	}
}

/** Waits for a frame, as long as a client does that has other nodes to ask; false: it did not come. */
async function within(socket, isSo, where) {
	const late = new Error('late');
	let timer;
	const end = new Promise((_, reject) => (timer = setTimeout(() => reject(late), PATIENCE_MS)));
	try {
		await Promise.race([socket.waitUntil(isSo, where, 600_000), end]);
		return true;
	} catch (error) {
		if (error !== late) {
			throw error;
		}
		return false;
	} finally {
		clearTimeout(timer);
	}
}

/** Frames of an observer, each checked against what everybody else was told, and not kept. */
class Watch extends Socket {
	isLive = false;
	hello = null;

	constructor(url, watcher, where) {
		super(url, check.server);
		this.watcher = watcher;
		this.where = where;
	}

	onFrame({ type, data }) {
		const { ledger } = this.watcher;
		if (type === 'connected') {
			this.hello = data;
			ledger.inEpoch(data.epoch);
			assert.ok(data.max_seq >= this.watcher.last, `${this.where} has ${data.max_seq} events, and ${this.watcher.last} were shown`);
			ledger.promise(data.max_seq);
		} else if (type === 'events_loaded') {
			assert.equal(data.reset, undefined, `${this.where}: ${JSON.stringify(data.reset)} after ${this.watcher.last}`);
			ledger.inEpoch(data.epoch);
			ledger.promise(data.max_seq);
			this.watcher.take(data.events, this.where);
			this.isLive ||= !data.has_more;
		} else if (type === 'events') {
			assert.ok(this.isLive, `${this.where}: live before a load has reached the end`);
			this.watcher.take(data.events, this.where);
			ledger.promise(data.max_seq);
		} else if (type === 'delta') {
			assert.ok(data.seq > this.watcher.last, `${this.where}: text of ${data.seq}, which is closed`);
		} else {
			assert.notEqual(type, 'session_gone', this.where);
		}
		if (this.frames.length > 20) {
			this.frames.splice(0, 10);
		}
	}
}

/** Watches at one node after the other, and goes on where it was. */
export class Watcher extends Client {
	/** Its position: the seq of the newest event that it has. */
	last = 0;
	events = null;
	rounds = 0;

	constructor(world, ledger, { format = 'markdown', keep = false } = {}) {
		super(world, ledger);
		this.format = format;
		this.events = keep ? [] : null;
	}

	take(events, where) {
		for (const event of events) {
			assert.equal(event.seq, this.last + 1, `${where}: event ${event.seq} after ${this.last}`);
			this.ledger.show(this.format, event, where);
			this.last = event.seq;
			this.events?.push(event);
		}
	}

	async run() {
		while (!this.world.isOver) {
			if (this.random.oneIn(10)) {
				this.last = 0; // a new one, who has nothing
			}
			const stay = 500 + this.random.below(8000);
			const end = Date.now() + stay;
			await this.watch(this.node(), (socket) => Date.now() > end || this.world.isOver || socket.closed);
			await sleep(50 + this.random.below(this.random.oneIn(5) ? 3000 : 200));
		}
	}

	/** Once, until it has enough, or the node has. Returns whether it was live in the end. */
	async watch(node, hasEnough) {
		this.rounds += 1;
		const query = new URLSearchParams({ format: this.format, ...(this.random.oneIn(3) && { deltas: 'text' }) });
		const socket = new Watch(node.ws(`${this.path}/ws?${query}`), this, this.say(node));
		try {
			if (await within(socket, () => socket.hello, 'connected')) {
				await socket.send('load_events', { after_seq: this.last, epoch: this.ledger.epoch, limit: 500, follow: true });
				while (!hasEnough(socket) && !socket.fault) {
					await sleep(50);
				}
			} else {
				this.world.refused('watch is silent');
			}
			if (socket.closed) {
				throw new Error('closed');
			}
		} catch (error) {
			await assertComesBack(socket, this.say(node), error);
			this.world.refused(`watch ${socket.refusal?.status ?? socket.closed.code}`);
		}
		socket.end();
		return socket.isLive;
	}

	/** At the end: until it has `count` events, at this node. */
	async watchAll(node, count) {
		const end = Date.now() + 60_000;
		while (this.last < count) {
			assert.ok(Date.now() < end, `${this.say(node)}: ${this.last} of ${count} events have come`);
			await this.watch(node, (socket) => socket.closed || (socket.isLive && this.last >= count) || Date.now() > end);
		}
		const answer = await ask(node, 'GET', `${this.path}/events?after_seq=${Math.max(0, count - 100)}&limit=1000&format=markdown`);
		assert.equal(answer?.status, 200, this.say(node));
		assertValid(eventsBody(answer.body));
		answer.body.events.forEach((event) => this.ledger.show('markdown', event, this.say(node)));
		assert.equal(answer.body.max_seq, count, this.say(node));
	}
}
