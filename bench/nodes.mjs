#!/usr/bin/env node
// Three nodes on a PostgreSQL with a synchronous standby: how long a take-over lasts, and what a crowd that watches at all of them costs.
//
//   node bench/nodes.mjs [--build DIR] [--dir DIR] [--rounds N] [--lease MS] [--sessions N] [--observers N] [--seconds S] [CASE ...]
//
//   crash    kill -9 of the owner, until the first append is acknowledged at another node
//   stop     SIGTERM of the owner, the same; half of its sessions have an agent in the middle of a turn
//   stubborn the same with an agent that does not end by itself
//   crowd    observers of one session at three nodes: deliveries a second, latencies, and what leaves the owner
//   room     memory for a session, and for an observer at the owner and at another node
//
// DIR (default build-bench) has a server and a load tool with optimisation; --dir has to be on a real disk. What is shown is checked: each event once,
// in order, as it was sent.

import assert from 'node:assert/strict';
import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import WebSocket from '../tests/node_modules/ws/wrapper.mjs';
import { pause, startCluster } from './cluster.mjs';

const RETRY_MS = 5;

const now = () => performance.now();
const { values, positionals } = parseArgs({ allowPositionals: true, options: {
	build: { type: 'string', default: 'build-bench' }, dir: { type: 'string', default: tmpdir() }, rounds: { type: 'string', default: '10' },
	lease: { type: 'string', default: '10000' }, sessions: { type: 'string', default: '12' }, observers: { type: 'string', default: '10000' }, seconds: { type: 'string', default: '5' },
} });
const { rounds, lease, sessions, observers, seconds } = Object.fromEntries(['rounds', 'lease', 'sessions', 'observers', 'seconds'].map((name) => [name, Number(values[name])]));
const build = resolve(values.build);

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)];

function say(what, list) {
	const sorted = [...list].sort((a, b) => a - b);
	const figures = [['p50', 0.5], ['p90', 0.9], ['p99', 0.99], ['max', 1]].map(([name, q]) => `${name}=${quantile(sorted, q).toFixed(0)}`);
	console.log(`${what}: n=${sorted.length} ${figures.join(' ')} ms`);
}

/* --- take-over --- */

/** Appends notes to a session at a node, one after the other, each again until it is acknowledged; all of them are counted. */
class Producer {
	#agent = new http.Agent({ keepAlive: true });
	#isOver = false;
	n = 0;
	/* [when it was first sent, when it was acknowledged], of each. */
	times = [];

	constructor(node, id) {
		this.node = node;
		this.id = id;
		this.done = this.#run();
	}

	#send(body) {
		return new Promise((resolve) => {
			const request = http.request({ host: '127.0.0.1', port: this.node.port, method: 'POST', path: `/api/sessions/${this.id}/events`, agent: this.#agent, headers: { 'content-type': 'application/json', 'content-length': body.length } }, (response) => {
				let text = '';
				response.on('data', (bytes) => (text += bytes)).on('end', () => resolve([response.statusCode, text])).on('error', () => resolve([0, '']));
			});
			request.on('error', () => resolve([0, '']));
			request.end(body);
		});
	}

	async #run() {
		while (!this.#isOver) {
			const body = JSON.stringify([{ type: 'x-note', data: { n: this.n }, key: `k${this.n}` }]);
			const first = now();
			for (;;) {
				const sent = now();
				const [status, text] = await this.#send(body);
				if (status === 200) {
					this.times.push([first, sent, now()]);
					break;
				}
				assert.ok(status === 503 || status === 0, `${status} ${text}`);
				await pause(RETRY_MS);
			}
			this.n += 1;
			await pause(10);
		}
		this.#agent.destroy();
	}

	/** The first that was sent after a time and acknowledged: when. */
	firstAfter(time) {
		return this.times.find(([, sent]) => sent > time)?.[2];
	}

	async stop() {
		this.#isOver = true;
		await this.done;
	}
}

/** Watches a session at a node, and comes back at once when it is sent away. */
class Watcher {
	#isOver = false;
	#last = 0;
	#epoch = null;
	isAnswered = true; // an agent has begun to
	seen = []; // n of each note
	times = [];

	constructor(node, id) {
		this.node = node;
		this.id = id;
		this.#connect();
	}

	/** So that an agent is in the middle of a turn. */
	prompt(message) {
		this.isAnswered = false;
		const data = { message, prompt_id: this.id };
		const send = () => this.ws.send(JSON.stringify({ type: 'prompt', data }));
		return this.ws.readyState === WebSocket.OPEN ? send() : this.ws.on('open', send);
	}

	#connect() {
		this.ws = new WebSocket(`${this.node.url.replace('http', 'ws')}/api/sessions/${this.id}/ws?format=markdown`, { perMessageDeflate: false });
		this.ws.on('error', () => {});
		this.ws.on('close', () => this.#isOver || setTimeout(() => this.#connect(), RETRY_MS));
		this.ws.on('message', (text) => this.#take(JSON.parse(text)));
	}

	#take({ type, data }) {
		if (type === 'error' && data.code !== 'storage_failed') { // that passes; a close follows
			throw new Error(JSON.stringify(data));
		}
		if (type === 'connected') {
			assert.ok(this.#epoch === null || this.#epoch === data.epoch, 'the epoch is another one');
			this.#epoch = data.epoch;
			this.ws.send(JSON.stringify({ type: 'load_events', data: { after_seq: this.#last, epoch: data.epoch, follow: true } }));
		} else if (type === 'events' || type === 'events_loaded') {
			for (const event of data.events) {
				assert.equal(event.seq, this.#last + 1, `${this.id}: an event is missing or came twice`);
				this.#last = event.seq;
				if (event.type === 'x-note') {
					this.seen.push(event.data.n);
					this.times.push(now());
				}
				this.isAnswered ||= event.type === 'agent_message';
			}
		}
	}

	/** The longest time without an event between two times. */
	longestPause(from, to) {
		const times = [from, ...this.times.filter((time) => time > from && time < to), to];
		return Math.max(...times.slice(1).map((time, at) => time - times[at]));
	}

	stop() {
		this.#isOver = true;
		this.ws.terminate();
	}
}

async function until(isIt, what, ms) {
	for (const end = now() + ms; !isIt(); await pause(5)) {
		assert.ok(now() < end, `${what} did not come in ${ms} ms`);
	}
}

/** The owner of new sessions is ended with a signal; gives what each of them had to wait for it. */
async function takeOver(nodes, round, signal, hasAgents) {
	const owner = nodes[round % 3];
	const others = nodes.filter((node) => node !== owner);
	const ids = Array.from({ length: sessions }, (_, i) => `r${round}-${i}`);
	for (const id of ids) {
		await owner.request('POST', '/api/sessions', { id });
	}
	const producers = ids.map((id, i) => new Producer(others[i % 2], id));
	const watchers = ids.map((id, i) => new Watcher(others[(i + 1) % 2], id));
	if (hasAgents) {
		watchers.filter((_, i) => i % 2).forEach((watcher) => watcher.prompt('long=100000 rate=20'));
	}
	await until(() => watchers.every((watcher) => watcher.times.length > 3 && watcher.isAnswered), 'the first events', 20_000);
	await pause(200 + Math.random() * (lease / 10));
	const { ended } = owner;
	const time = now();
	owner.kill(signal);
	await until(() => producers.every((producer) => producer.firstAfter(time)), 'an append', lease + 20_000);
	const waits = producers.map((producer) => producer.firstAfter(time) - time);
	await pause(300);
	await Promise.all(producers.map((producer) => producer.stop()));
	await until(() => watchers.every(({ seen }, i) => seen.length >= producers[i].n), 'the last events', 20_000);
	watchers.forEach(({ seen }, i) => assert.deepEqual(seen, Array.from({ length: producers[i].n }, (_, n) => n), 'notes are missing or came twice'));
	const pauses = watchers.map((watcher, i) => watcher.longestPause(time - 50, producers[i].times.at(-1)[2]));
	watchers.forEach((watcher) => watcher.stop());
	await Promise.all(ids.map((id) => others[0].request('DELETE', `/api/sessions/${id}`)));
	await ended;
	await owner.start();
	return { waits, pauses };
}

/** A run of a case of take-over, in a cluster of its own. */
async function takeOvers(name, signal, args) {
	const hasAgents = args.includes('--agent');
	const kinds = hasAgents ? ['sessions without an agent', 'sessions with one at work'] : ['sessions'];
	await withCluster(['--limit', `node_lease_ms=${lease}`, ...args], async ({ nodes }) => {
		const all = kinds.map(() => ({ waits: [], pauses: [] }));
		for (let round = 0; round < rounds; round++) {
			const one = await takeOver(nodes, round, signal, hasAgents);
			for (const what of ['waits', 'pauses']) {
				one[what].forEach((ms, i) => all[i % kinds.length][what].push(ms));
			}
		}
		kinds.forEach((kind, at) => {
			say(`${name}, lease ${lease} ms, ${kind}: until the first append is acknowledged at another node`, all[at].waits);
			say(`${name}, lease ${lease} ms, ${kind}: without events, for an observer at another node that comes back at once`, all[at].pauses);
		});
	});
}

async function withCluster(args, work) {
	const dir = mkdtempSync(join(values.dir, 'holdfast-nodes-'));
	const { stop, ...cluster } = await startCluster(join(build, 'holdfast'), dir, args).catch((error) => {
		rmSync(dir, { recursive: true });
		throw error;
	});
	process.once('exit', stop);
	try {
		await work({ ...cluster, dir });
	} finally {
		process.off('exit', stop);
		stop();
		rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
	}
}

/* --- a crowd --- */

/** One run of the load tool, which checks what each observer gets; gives its figures by name. */
async function load([owner, ...others], mode, ...more) {
	const args = [mode, '--port', owner.port, '--pid', owner.pid, '--observers', observers, '--seconds', seconds,
		...others.flatMap(({ port, pid }) => ['--elsewhere', port, '--pid', pid]), ...more];
	const { stdout } = await promisify(execFile)(join(build, 'bench/holdfast-bench'), args.map(String));
	return Object.fromEntries([...stdout.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]));
}

/** What is not shared out is what a figure is for: at the owner, each event counts once for each observer there and for each other node. */
async function crowd() {
	await withCluster([], async ({ nodes }) => {
		const owner = nodes[0];
		for (const [mode, ...more] of [['latency', '--rate', 5], ['latency'], ['throughput']]) {
			for (const those of [nodes, [owner]]) {
				const before = await owner.metric('holdfast_events_delivered_total');
				const figures = await load(those, mode, ...more);
				const left = await owner.metric('holdfast_events_delivered_total') - before;
				const here = Math.ceil(observers / those.length);
				const name = `${those.length} nodes, ${observers} observers, ${mode} ${more.join(' ')}`;
				if (those.length > 1) {
					assert.equal(left, figures.published * (here + 2), 'an event did not leave the owner once for each node');
				}
				const times = (what) => ['p50', 'p99', 'max'].map((q) => (figures[`${what}_${q}`] / 1000).toFixed(1)).join(' / ');
				const latencies = ['latency', 'elsewhere', 'ack'].filter((what) => figures[`${what}_p50`]).map((what) => `${what} ${times(what)} ms`);
				console.log(`${name}: ${figures.deliveries_per_s} deliveries/s, ${figures.events} events; ${latencies.join('; ')}; cpu owner ${figures.cpu_percent} %, others ${figures.elsewhere_cpu_percent ?? 0} %, disturbed by ${figures.other_cpu_percent} %`);
			}
		}
	});
}

/* --- room --- */

/** Opens WebSockets that follow a session, in a process of its own, and keeps them. */
function follow({ port, id, count }) {
	const handshake = `GET /api/sessions/${id}/ws?format=markdown HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`;
	const load = Buffer.from('{"type":"load_events","data":{"after_seq":0,"follow":true}}');
	const frame = Buffer.concat([Buffer.from([0x81, 0x80 | load.length, 0, 0, 0, 0]), load]);
	let [opened, live] = [0, 0];
	const open = () => {
		opened += 1;
		let [tail, isAsked, isLive] = ['', false, false];
		const socket = net.connect(port, '127.0.0.1', () => socket.write(handshake));
		socket.on('close', () => process.exit(1)).on('data', (bytes) => {
			tail = isLive ? '' : tail + bytes.latin1Slice();
			if (!isAsked && tail.includes('"connected"')) {
				isAsked = true;
				socket.write(frame);
			} else if (isAsked && !isLive && tail.includes('"events_loaded"')) {
				isLive = true;
				if (++live === count) {
					process.send('ready');
				} else if (opened < count) {
					open();
				}
			}
		});
	};
	Array.from({ length: Math.min(count, 32) }, open);
}

async function followed(node, id, count) {
	const child = fork(fileURLToPath(import.meta.url), ['follow']);
	child.send({ port: node.port, id, count });
	const [message] = await Promise.race([once(child, 'message'), once(child, 'exit').then(() => ['gone'])]);
	assert.equal(message, 'ready', 'observers have ended');
	return child;
}

const rssKb = ({ pid }) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);

async function room() {
	const [SESSIONS, EVENTS, OBSERVERS] = [2000, 20, 3000];
	await withCluster([], async ({ nodes: [owner, other] }) => {
		const events = Array.from({ length: EVENTS }, (_, n) => ({ type: 'x-note', data: { n, text: 'x'.repeat(200) } }));
		const make = (id) => owner.request('POST', `/api/sessions/${id}/events?create=1`, events);
		await make('first');
		const children = [await followed(owner, 'first', 1), await followed(other, 'first', 1)];
		let before = [owner, other].map(rssKb);
		const report = (what, count) => {
			const now = [owner, other].map(rssKb);
			const each = now.map((kb, at) => ((kb - before[at]) / count).toFixed(2));
			console.log(`${what}: ${each[0]} KiB at the owner, ${each[1]} KiB at the other node`);
			before = now;
		};
		for (let i = 0; i < SESSIONS; i += 20) {
			await Promise.all(Array.from({ length: 20 }, (_, k) => make(`s${i + k}`)));
		}
		report(`a session with ${EVENTS} events of 260 bytes, just used (${SESSIONS})`, SESSIONS);
		children.push(await followed(owner, 'first', OBSERVERS));
		report(`an observer at the owner (${OBSERVERS})`, OBSERVERS);
		children.push(await followed(other, 'first', OBSERVERS));
		report(`an observer at the other node (${OBSERVERS})`, OBSERVERS);
		children.forEach((child) => child.kill('SIGKILL'));
	});
}

/* --- the run --- */

const demo = join(build, 'holdfast-demo-agent');
const CASES = {
	crash: () => takeOvers('crash', 'SIGKILL', []),
	stop: () => takeOvers('stop', 'SIGTERM', ['--agent', demo]),
	stubborn: () => takeOvers('stubborn', 'SIGTERM', ['--agent', `trap '' TERM; ${demo}; sleep 10`]),
	crowd,
	room,
};

if (process.send && positionals[0] === 'follow') {
	process.once('message', follow);
} else {
	await main();
}

async function main() {
	for (const name of positionals.length ? positionals : Object.keys(CASES)) {
		console.log(`# ${name}, load ${loadavg()[0].toFixed(1)}`);
		await CASES[name]();
	}
	process.exit(0);
}
