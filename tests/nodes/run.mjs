// Three nodes, a database with a synchronous standby, and faults: nodes are killed, paused and stopped, the primary is killed and its
// standby promoted, lines are cut. Producers with keys and observers at all nodes go on meanwhile. Whatever was acknowledged or shown
// to anybody is there once, with its number, at every node; who checks that knows the protocol alone.
//
// With --rolling, nodes are stopped and started again, one after the other, while readers of every door and agents go on (readers.mjs).
//
//   node tests/nodes/run.mjs [--faults 200] [--rolling 200] [--sessions 60] [--seed N] [--only kill,pause,…]

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Random } from '../model/rig.mjs';
import { demoAgent } from '../support/server.mjs';
import { eventually, patience } from '../support/wait.mjs';
import { Feeder, SocketFeeder, Watcher, ask } from './clients.mjs';
import { FAULTS } from './faults.mjs';
import { Ledger } from './ledger.mjs';
import { ChatReader, DsReader, EditorReader, FeedReader, PageReader, Prompter, SseReader } from './readers.mjs';
import { World } from './world.mjs';

const { values } = parseArgs({ options: {
	faults: { type: 'string', default: '200' }, sessions: { type: 'string', default: '60' }, seed: { type: 'string' }, lease: { type: 'string' }, pace: { type: 'string', default: '400' },
	only: { type: 'string' }, rolling: { type: 'string' }, each: { type: 'boolean', default: false }, inside: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h', default: false },
} });
if (values.help) {
	console.log(`Usage: scripts/test nodes [--faults 200 | --rolling 200] [--sessions 60] [--seed N] [--only KIND,…] [--each] [--lease MS] [--pace 400]

Three nodes on a PostgreSQL with a synchronous standby live through random faults, while producers and observers go on at all nodes; then all
that anybody was told is compared. KIND is one of: ${Object.keys(FAULTS).join(', ')}; with --each the kinds come in turn. --lease is that of the
nodes (2000, with --rolling 10000), --pace how long a producer waits between appends, both in ms. With --rolling, so many times a node is stopped and started again, one
after the other, under readers of every door and with agents at work; a reader that hears "deleted" or "not found" of a session has found a
fault. The exit status is 1 if something was not as it should be.`);
	process.exit(0);
}
if (!values.inside) { // Node 18 has some globals behind flags
	const flags = Number(process.versions.node.split('.')[0]) < 20 ? ['--experimental-global-webcrypto', '--experimental-global-customevent'] : [];
	const { status } = spawnSync(process.execPath, [...flags, fileURLToPath(import.meta.url), '--inside', ...process.argv.slice(2)], { stdio: 'inherit' });
	process.exit(status ?? 1);
}
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const undo = [];
const t = { after: (f) => undo.unshift(f) };
let passed = 0;

/** Makes a session, at any node; one that was made although the answer was lost is there. */
async function makeSession(world, id) {
	const made = async () => {
		const answer = await ask(world.random.pick(world.nodes), 'POST', '/api/sessions', { id });
		assert.ok(answer === null || [201, 409, 503].includes(answer.status), JSON.stringify(answer));
		return answer !== null && answer.status !== 503;
	};
	await eventually(made, `${id} to be made`);
	return new Ledger(id);
}

/** An agent that takes its time to end, so that its node drains for a while. */
const slowToLeave = () => `trap '' TERM; ${demoAgent()}; sleep 0.0$((RANDOM % 9))`;


class Run {
	feeders = [];
	watchers = [];
	readers = [];
	#faulty = null; // what a client has found

	constructor() {
		this.world = new World(t, new Random(seed + 1), { leaseMs: Number(values.lease ?? (values.rolling ? 10_000 : 2000)), pace: Number(values.pace), agent: values.rolling ? slowToLeave() : null });
		this.random = new Random(seed);
		this.left = [];
	}

	async begin() {
		await this.world.start();
		this.ledgers = [];
		for (let n = 0; n < Number(values.sessions); n++) {
			this.ledgers.push(await makeSession(this.world, `s${n}`));
		}
		for (const [n, ledger] of this.ledgers.entries()) {
			this.feeders.push(new Feeder(this.world, ledger, `${ledger.id}-h`));
			if (n % 3 === 0) {
				this.feeders.push(new SocketFeeder(this.world, ledger, `${ledger.id}-s`));
			}
			this.watchers.push(new Watcher(this.world, ledger), new Watcher(this.world, ledger, { format: n % 4 === 0 ? 'html' : 'markdown' }));
		}
		await this.#beginReaders();
		this.living = this.#clients().map((client) => client.run().catch((error) => {
			this.#faulty ??= error;
			this.world.isOver = true;
		}).finally(() => (client.hasEnded = true)));
	}

	#clients() {
		return [...this.feeders, ...this.watchers, ...this.readers];
	}

	/** Sessions of their own have agents; each door of these, and of some that are fed, has a reader. */
	async #beginReaders() {
		if (!values.rolling) {
			return;
		}
		for (let n = 0; n < 3; n++) {
			const ledger = await makeSession(this.world, `p${n}`);
			this.readers.push(new Prompter(this.world, ledger), new ChatReader(this.world, ledger), new EditorReader(this.world, ledger), new Watcher(this.world, ledger));
		}
		for (const ledger of this.ledgers.slice(0, 6)) {
			const bytes = Buffer.from(`an image of ${ledger.id}`);
			const { body } = await this.world.nodes[0].request('POST', `/api/sessions/${ledger.id}/blobs`, { body: bytes, headers: { 'content-type': 'application/octet-stream' } });
			assert.match(body.blob, /^[0-9a-f]{64}$/);
			ledger.blob = body.blob;
			this.readers.push(...[PageReader, PageReader, SseReader, DsReader, ChatReader, EditorReader].map((Reader) => new Reader(this.world, ledger)));
		}
		this.readers.push(new FeedReader(this.world, this.ledgers[0]));
	}

	assertNoFault() {
		if (this.#faulty) {
			throw this.#faulty;
		}
		this.world.assertAlive();
	}

	/** Every producer has something acknowledged that it sent after now. */
	async goesOn() {
		const before = new Map(this.feeders.map((feeder) => [feeder, feeder.done]));
		const stuck = () => this.feeders.filter((feeder) => feeder.done < before.get(feeder) + 2);
		const what = () => `sessions to go on: ${stuck().map(({ name }) => name).join(' ')}\n${this.lastWords()}`;
		await eventually(() => {
			this.assertNoFault();
			return stuck().length === 0;
		}, what, 45_000);
	}

	nextKind() {
		const kinds = values.only ? values.only.split(',') : Object.keys(FAULTS);
		if (!values.each) {
			return this.random.weighted(kinds.map((kind) => [FAULTS[kind][0], kind]));
		}
		this.left = this.left.length ? this.left : kinds;
		const [kind, ...rest] = this.left;
		this.left = rest;
		return kind;
	}

	/** Some come while another one is not over, but the primary is never killed without a standby. */
	nextFaults(most) {
		const kinds = [this.nextKind()];
		while (kinds.length < most && kinds.length < 3 && this.random.oneIn(4)) {
			const kind = this.nextKind();
			kinds.push(...(kind === 'failover' && kinds.includes(kind) ? [] : [kind]));
		}
		return kinds;
	}

	async fault(kinds) {
		this.now = kinds;
		const told = await Promise.all(kinds.map((kind) => FAULTS[kind][1](this.world, this.random)));
		this.world.nodes.forEach((node) => (node.isBusy = false));
		return told.join('; ');
	}

	async live() {
		await this.begin();
		await this.goesOn();
		await (values.rolling ? this.roll(Number(values.rolling)) : this.suffer(Number(values.faults)));
		await this.end();
	}

	/** One node after the other is stopped and started again. */
	async roll(count) {
		const began = Date.now();
		for (; passed < count; passed += 1) {
			const node = this.world.nodes[passed % this.world.nodes.length];
			this.now = [`the restart of ${node.name}`];
			await this.world.down(node, () => node.stop(), 0);
			this.assertNoFault();
			if (passed % 3 === 2) {
				await this.goesOn();
				console.log(`${passed + 1}/${count} restarts, ${Math.round((Date.now() - began) / 1000)} s; ${this.world.appended} events`);
			}
		}
		const rounds = new Map();
		this.readers.forEach(({ constructor: { door, name }, rounds: count }) => rounds.set(door ?? name, (rounds.get(door ?? name) ?? 0) + count));
		console.log(`read: ${[...rounds].map(([door, count]) => `${door} ${count}`).join(', ')}`);
	}

	async suffer(count) {
		while (passed < count) {
			const began = Date.now();
			const kinds = this.nextFaults(count - passed);
			const told = await this.fault(kinds);
			const healed = Date.now();
			await this.goesOn();
			passed += kinds.length;
			console.log(`${passed}/${count} ${told}: ${healed - began} ms, all go on after ${Date.now() - healed} ms; ${this.world.appended} events`);
		}
	}

	async end() {
		this.world.isOver = true;
		await Promise.race([Promise.all(this.living), new Promise((_, reject) => setTimeout(() => reject(new Error(`clients do not end: ${this.#clients().filter(({ hasEnded }) => !hasEnded).map((client) => `${client.constructor.name} of ${client.ledger.id}`).join(', ')}`)), 60_000 * patience))]);
		this.assertNoFault();
		for (const ledger of this.ledgers) {
			await this.check(ledger);
			passed += 1;
		}
		console.log(`at the end: ${this.world.appended} events acknowledged, ${this.watchers.reduce((sum, { rounds }) => sum + rounds, 0)} times watched, ${this.feeders.reduce((sum, { retries }) => sum + retries, 0)} requests sent again`);
	}

	/** All nodes have the same log of a session, and it is what everybody was told. */
	async check(ledger) {
		const last = new Feeder(this.world, ledger, `${ledger.id}-end`);
		await last.append([{ type: 'turn_end', data: { stop_reason: 'end_turn' }, key: `${ledger.id}-end:0` }, { type: 'x-note', data: { key: `${ledger.id}-end:1` }, key: `${ledger.id}-end:1` }]);
		for (const node of this.world.nodes) {
			const watcher = new Watcher(this.world, ledger, { keep: true });
			await watcher.watchAll(node, ledger.most);
			ledger.check(watcher.events);
		}
	}

	lastWords() {
		return `(${this.now ? `with: ${this.now.join(', ')}` : 'no fault yet'})\n` + this.world.nodes.map(({ name, stderr }) => `--- ${name}\n${stderr.split('\n').slice(-15).join('\n')}`).join('\n');
	}
}

console.log(`seed ${seed}`);
const began = Date.now();
const run = new Run();
let failed = 0;
try {
	await run.live();
	for (const node of run.world.nodes) {
		await node.stop();
	}
} catch (error) {
	failed = 1;
	console.log(`${error.stack}\n${run.lastWords()}`);
	run.world.isOver = true;
}
for (const f of undo) {
	try {
		await f();
	} catch (error) {
		console.log(error.stack);
		failed = 1;
	}
}
console.log(`refused: ${[...run.world.refusals].sort(([, a], [, b]) => b - a).map(([why, count]) => `${why} ${count}`).join(', ')}`);
console.log(`seed ${seed}, ${Math.round((Date.now() - began) / 1000)} s`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed);
