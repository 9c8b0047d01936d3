// One session on the worst network: a client watches it, and takes part in it, while connection after
// connection fails. At the end it must hold the log, and have said everything exactly once.

import assert from 'node:assert/strict';
import { IDBFactory, IDBKeyRange } from 'fake-indexeddb';
import WebSocket from 'ws';
import { HoldfastClient } from '../../web/client/holdfast-client.js';
import { HostileProxy } from './hostile_proxy.mjs';
import { input } from './producer.mjs';
import { makeRecording, randomNumbers } from './recording.mjs';
import { Waiters } from './wait.mjs';

const SPEED = 40; // the client's clock, on a machine that is not busy: a wait of 1 s takes 25 ms
const ROUND_TRIPS = 1000; // and no faster than that a request is answered so often in a second of it
const LIMIT_MS = 240_000;
const PROMPTS = ['hello', 'list', 'table', 'permission', 'plan', 'code'];

/**
 * How fast the clients' clock runs. It follows the machine: where an answer takes long because the machine is busy, a client
 * whose patience ran out sooner than any answer can come would never get one.
 */
class Pace {
	#speed = SPEED;
	#real = performance.now();
	#fast = 0;
	#answerMs = 0;
	#isAsking = false;

	now() {
		const real = performance.now();
		this.#fast += (real - this.#real) * this.#speed;
		this.#real = real;
		return this.#fast;
	}

	toReal(ms) {
		return ms / this.#speed;
	}

	/** Asks the server now and then how long an answer takes, as long as `isWanted()`. */
	async follow(server, isWanted) {
		if (this.#isAsking) {
			return;
		}
		this.#isAsking = true;
		while (isWanted()) {
			const start = performance.now();
			const isAnswer = await server.request('GET', '/healthz').then(() => true, () => false);
			if (isAnswer) {
				const took = performance.now() - start;
				this.#answerMs = took > this.#answerMs ? took : this.#answerMs * 0.8 + took * 0.2;
				this.now();
				this.#speed = Math.min(SPEED, Math.max(1, ROUND_TRIPS / this.#answerMs));
			}
			await new Promise((resolve) => setTimeout(resolve, 50));
		}
		this.#isAsking = false;
	}
}

const pace = new Pace();
let underWay = 0; // runs

/** The client's clock, faster than ours. A killed tab's timers do nothing any more. */
class FastTimers {
	isDead = false;
	setTimeout = (fn, ms) => setTimeout(() => this.isDead || fn(), pace.toReal(ms));
	clearTimeout = (id) => clearTimeout(id);
	now = () => Math.round(pace.now());
}

/** What a page would show, built from what the client says; keeps what must never happen. */
class View {
	events = [];
	faults = [];
	resets = [];

	constructor(client, mayBeLate) {
		client.on('events', ({ events }) => events.forEach((event) => this.#append(event)));
		client.on('older', ({ events }) => {
			this.#expect(events.at(-1)?.seq === this.events[0].seq - 1, 'an older page that does not fit');
			this.events.unshift(...events);
		});
		client.on('trimmed', ({ count }) => this.events.splice(0, count));
		client.on('reset', ({ reason }) => {
			this.resets.push(reason);
			this.events = [];
		});
		client.on('open', ({ blocks }) => {
			const last = client.position.seq;
			this.#expect(blocks.every(({ seq }) => seq > last), 'an open block that is closed');
		});
		client.on('error', ({ error }) => {
			// A question that died with its agent is answered by the server: our answer may come too late for it.
			this.#expect(mayBeLate && error.code === 'already_resolved', `${error.code}: ${error.message}`);
		});
	}

	#append(event) {
		const last = this.events.at(-1)?.seq;
		this.#expect(last === undefined || event.seq === last + 1, `event ${event.seq} after ${last}`);
		this.events.push(event);
	}

	#expect(isSo, what) {
		if (!isSo) {
			this.faults.push(what);
		}
	}
}

/** Whoever kills the server under several runs: hears of every prompt, to choose its moments. */
export class Killer {
	#heard = 0;
	#enough = 0;
	#who = new Set();
	#waiters = new Waiters();
	isDone = false;

	/** Whether it waits for prompts: then even a run that has said all of its own says more. */
	get isWaiting() {
		return this.#heard < this.#enough;
	}

	hear(who) {
		this.#heard += 1;
		this.#who.add(who);
		this.#waiters.wake();
	}

	/** Waits until so many runs have said something: their sessions are there. */
	waitForAll(count) {
		return this.#waiters.until(() => this.#who.size >= count, LIMIT_MS, () => `${count} runs, ${this.#who.size} so far`);
	}

	/** Waits until so many more prompts have been sent. */
	wait(count) {
		this.#enough = this.#heard + count;
		return this.#waiters.until(() => !this.isWaiting, LIMIT_MS, () => `${this.#enough} prompts, ${this.#heard} so far`);
	}
}

class HostileRun {
	#server;
	#killer;
	#random;
	#id;
	#client;
	#view;
	#timers;
	#options;
	#cacheFactory;
	#waiters = new Waiters();
	#promptIds = [];
	#isTalking = false;
	#answered = new Set();
	#happened = 0; // how often the network did something
	connects = 0;

	/** `killer`: a Killer; until it is done there are prompts, and no other requests. */
	constructor(server, seed, killer = null) {
		this.#server = server;
		this.#killer = killer;
		const random = randomNumbers(seed * 7919 + 17);
		random(2); // the first one says little about a seed
		this.#random = random;
		this.hasPrompts = killer !== null || seed % 2 === 1;
		const firstPlace = { frame: (seed >> 1) % 15, part: Math.floor(seed / 30) % 4 };
		this.proxy = new HostileProxy(() => server.url, random, 2 + random(6), firstPlace);
		this.proxy.onEvent = (name) => this.#handleNetwork(name);
		this.#cacheFactory = random(4) === 0 ? new IDBFactory() : null;
		this.#options = {
			format: ['html', 'markdown', 'both'][random(3)],
			deltas: [undefined, 'text', 'html'][random(3)],
			maxEvents: [undefined, 20][random(2)],
		};
	}

	async run() {
		const { id } = await this.#server.createSession();
		this.#id = id;
		this.base = await this.proxy.listen();
		try {
			this.#open();
			await (this.hasPrompts ? this.#prompt() : this.#produce());
			await this.#reachLog();
			await this.#loadAll();
			this.#compare(await this.#readLog());
		} finally {
			this.connects += this.#client.stats.connects;
			this.#client.close();
			this.proxy.close();
			await this.#server.request('DELETE', `/api/sessions/${id}`);
		}
	}

	#open() {
		this.#timers = new FastTimers();
		this.#client = new HoldfastClient({
			sessionId: this.#id,
			getToken: () => this.#server.token,
			identity: 'tab',
			clientId: 'tab',
			base: this.base,
			WebSocket,
			timers: this.#timers,
			random: () => this.#random(1000) / 1000,
			cache: this.#cacheFactory !== null,
			indexedDB: this.#cacheFactory,
			IDBKeyRange,
			...this.#options,
		});
		this.#view = new View(this.#client, this.#killer !== null);
		for (const type of ['events', 'older', 'prompts', 'status']) {
			this.#client.on(type, () => this.#waiters.wake());
		}
		this.#client.on('events', ({ events }) => this.#answer(events));
		this.#client.connect();
	}

	/** The tab dies without a word, and is opened again. */
	#killTab() {
		if (this.#client.prompts.length > 0) {
			return; // what was not confirmed dies with its tab
		}
		this.#noteFaults();
		this.connects += this.#client.stats.connects;
		this.#answered.clear(); // a page that does not know what its predecessor said
		this.#timers.isDead = true;
		this.#client.close();
		this.#open();
	}

	#noteFaults() {
		assert.deepEqual(this.#view.faults, []);
		assert.deepEqual(this.#view.resets, []);
	}

	#answer(events) {
		for (const { type, data } of events) {
			if (type === 'permission_request' && !this.#answered.has(data.request_id)) {
				this.#answered.add(data.request_id);
				this.#client.answerPermission(data.request_id, data.options[0].option_id);
			}
		}
	}

	#handleNetwork(name) {
		this.#happened += 1;
		const isStill = ['stalled', 'deaf', 'mute', 'hung'].includes(name);
		if (isStill && this.#isTalking && this.#promptIds.length < 8) {
			this.#say(); // into a dead socket
		}
		const act = this.#random(isStill ? 6 : 24);
		if (act === 0) {
			this.#client.retryNow();
		} else if (act === 1) {
			this.#client.dropConnection();
		} else if (act === 2) {
			this.#client.close();
			this.#client.connect();
		}
		this.#waiters.wake();
	}

	#say() {
		this.#killer?.hear(this);
		this.#promptIds.push(this.#client.prompt(PROMPTS[this.#random(PROMPTS.length)]).id);
	}

	/** Until the network does something, or for a moment. */
	async #pause() {
		const before = this.#happened;
		const moment = new Promise((resolve) => setTimeout(resolve, this.#random(25), true));
		let isOver = false;
		void moment.then(() => {
			isOver = true;
			this.#waiters.wake();
		});
		await this.#until(() => isOver || this.#happened > before, 'a moment');
		if (this.#cacheFactory && this.#random(4) === 0) {
			this.#killTab();
		}
	}

	async #prompt() {
		this.#isTalking = true;
		for (let i = 0; i < 2 || (i < 7 && !this.proxy.isGood); i += 1) {
			this.#say();
			await this.#pause();
		}
		while (this.#killer && !this.#killer.isDone) {
			await this.#pause();
			if (this.#random(8) === 0 && (this.#killer.isWaiting || this.#promptIds.length < 20)) {
				this.#say();
			}
		}
		this.#isTalking = false;
	}

	async #produce() {
		const { appends } = makeRecording({ seed: this.#random(1e6), turns: 1 });
		for (let i = 0; appends.length > 0 || (i < 40 && !this.proxy.isGood); i += 1) {
			const events = appends.splice(0, 1 + this.#random(15)).flat();
			await this.#post(events.length > 0 ? events : [input.note({ i })]);
			await this.#pause();
		}
		await this.#post([input.end()]);
	}

	async #post(events) {
		const path = `/api/sessions/${this.#id}/events`;
		const { status, body } = await this.#server.request('POST', path, { json: events });
		assert.equal(status, 200, JSON.stringify(body));
	}

	/** Waits until the client has what the log has when nothing is under way any more. */
	async #reachLog() {
		await this.#until(() => this.#client.prompts.length === 0, 'every prompt to be shown');
		for (let isDone = false; !isDone;) {
			const { body } = await this.#server.request('GET', `/api/sessions/${this.#id}`);
			const isIdle = body.status === 'idle' && !body.is_prompting;
			const reached = () => this.#client.position.seq >= body.max_seq && this.#client.status.status === 'live';
			await this.#until(reached, `event ${body.max_seq} (has ${this.#client.position.seq})`);
			isDone = isIdle || (await this.#until(() => this.#turnsLeft() === 0, 'the turns to end'), false);
		}
	}

	#turnsLeft() {
		const ends = this.#view.events.filter(({ type }) => type === 'turn_end' || type === 'agent_stopped');
		const starts = this.#view.events.filter(({ type }) => type === 'user_prompt');
		return starts.filter(({ seq }) => !ends.some((end) => end.seq > seq)).length;
	}

	async #loadAll() {
		this.proxy.heal();
		while (this.#client.hasOlder) {
			this.#client.loadOlder(30);
			const first = this.#client.events[0].seq;
			const older = () => this.#client.events[0].seq < first || !this.#client.hasOlder;
			const waiting = this.#until(older, `what is before ${first}`);
			// The connection that was asked may be one that does not work.
			const again = this.#client.on('status', ({ status }) => status === 'live' && this.#client.loadOlder(30));
			await waiting;
			again();
		}
		await this.#until(() => this.#client.status.status === 'live', 'being live');
	}

	async #readLog() {
		const path = `/api/sessions/${this.#id}/events?after_seq=0&limit=5000&format=${this.#options.format}`;
		const { body } = await this.#server.request('GET', path);
		assert.equal(body.has_more, false);
		return body.events;
	}

	#compare(log) {
		this.#noteFaults();
		assert.deepEqual(this.#client.events.map(({ seq }) => seq), log.map((_, i) => i + 1));
		assert.deepEqual(this.#client.events, log);
		assert.deepEqual(this.#view.events, log);
		assert.deepEqual(this.#client.open, []);
		const prompts = log.filter(({ type }) => type === 'user_prompt').map(({ data }) => data.prompt_id);
		assert.deepEqual(prompts, this.#promptIds, 'the prompts, in order, each once');
	}

	#until(probe, what) {
		return this.#waiters.until(probe, LIMIT_MS, () => `${what}; ${JSON.stringify(this.#client.status)}`);
	}
}

/** Runs a seed; resolves with {connects, story, failure}: null, or what went wrong, with the seed. */
export async function hostileRun(server, seed, killer) {
	const run = new HostileRun(server, seed, killer);
	underWay += 1;
	void pace.follow(server, () => underWay > 0);
	const failure = await run.run().then(
		() => null,
		(error) => `seed ${seed}: ${error.stack}\nthe network: ${run.proxy.story.join(', ')}`,
	);
	underWay -= 1;
	return { connects: run.connects, story: run.proxy.story, failure };
}
