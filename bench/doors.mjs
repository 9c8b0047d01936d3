// What an observer costs at each door: processor time of the server for a delivery, beside that of a WebSocket in the same run.
//
//   node bench/doors.mjs PROGRAM [OBSERVERS] [ROUNDS] [APPENDS] [DOOR ...]
//
// All observers of a door follow one session while a producer appends paragraphs, 16 an append. Doors take turns, in each round in another order. The
// observers read raw bytes and look for the last paragraph only, in a process of their own. Set TOOLS=1 for a tool call in each append.

import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const BATCH = 16;
const get = (path, more = '') => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${more}\r\n`;
const upgrade = (path) => get(path, 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n');

/** A masked text frame, with a mask of zeros. */
function frame(value) {
	const text = Buffer.from(JSON.stringify(value));
	const head = text.length < 126 ? Buffer.from([0x81, 0x80 | text.length]) : Buffer.from([0x81, 0xfe, text.length >> 8, text.length & 255]);
	return Buffer.concat([head, Buffer.alloc(4), text]);
}

/** What is sent, one after the other, each when what is in front of it has come. */
const DOORS = {
	websocket: (id) => [[null, upgrade(`/api/sessions/${id}/ws?format=markdown`)], ['"connected"', frame({ type: 'load_events', data: { after_seq: 0, follow: true } })], ['events_loaded']],
	sse: (id) => [[null, get(`/api/sessions/${id}/events?format=markdown&after=0`, 'Accept: text/event-stream\r\n')], ['event: live']],
	'durable streams': (id) => [[null, get(`/ds/sessions/${id}?offset=-1&live=sse`)], ['upToDate']],
	'ai sdk, http': (id) => [[null, get(`/api/ai/${id}/stream`)], ['"start"']],
	'ai sdk, websocket': (id, i) => [[null, upgrade(`/api/ai/${id}`)], ['101 Switching', frame({ type: 'resume', requestId: `request-${i}`, chatId: id })], ['"start"']],
	acp: (id) => [[null, upgrade('/acp')], ['101 Switching', frame({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: 1, clientCapabilities: {} } })],
		['"id":1', frame({ jsonrpc: '2.0', id: 2, method: 'session/load', params: { sessionId: id, cwd: '/', mcpServers: [] } })], ['"id":2']],
};

/* --- the observers' process --- */

function observe({ port, count, door, id, marker }) {
	const sockets = [];
	let [ready, done] = [0, 0];
	for (let i = 0; i < count; i++) {
		const steps = DOORS[door](id, i);
		let [at, tail, isDone] = [0, '', false];
		const socket = net.connect(port, '127.0.0.1', () => socket.write(steps[at++][1]));
		socket.on('error', () => process.exit(1)).on('close', () => process.exit(1));
		socket.on('data', (bytes) => {
			tail += bytes.latin1Slice();
			while (at < steps.length && tail.includes(steps[at][0])) {
				tail = '';
				const [, next] = steps[at++];
				if (next) {
					socket.write(next);
				}
				if (at === steps.length && ++ready === count) {
					process.send('ready');
				}
			}
			if (!isDone && tail.includes(marker) && (isDone = true) && ++done === count) {
				process.send('done');
			}
			tail = tail.slice(at < steps.length ? 0 : -64);
		});
		sockets.push(socket);
	}
}

/* --- the run --- */

/** Processor time of all threads, in ns. */
function busyNs(pid) {
	return readdirSync(`/proc/${pid}/task`).reduce((sum, task) => sum + Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]), 0);
}

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

async function main([program, observers = 200, rounds = 5, appends = 150, ...doors]) {
	const dir = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
	const server = spawn(program, ['serve', '--auth', 'off', '--listen', '127.0.0.1:0', '--data', join(dir, 'data'), '--durability', 'write'], { stdio: ['ignore', 'ignore', 'pipe'] });
	let said = '';
	server.stderr.setEncoding('utf8').on('data', (text) => (said += text));
	while (!/listening on (\S+)/.test(said)) {
		await Promise.race([once(server.stderr, 'data'), once(server, 'exit').then(() => { throw new Error(said); })]);
	}
	const [, base] = /listening on (\S+)/.exec(said);
	const post = async (path, json) => {
		const answer = await fetch(base + path, { method: 'POST', body: JSON.stringify(json), headers: { 'content-type': 'application/json' } });
		if (!answer.ok) {
			throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
		}
	};
	const wanted = doors.length ? doors : Object.keys(DOORS);
	const times = new Map(wanted.map((door) => [door, []]));
	try {
		for (let round = 0; round < rounds; round++) {
			for (const door of wanted.map((_, i) => wanted[(i + round) % wanted.length])) {
				times.get(door).push(await measure({ door, id: `s-${round}-${wanted.indexOf(door)}`, observers: Number(observers), appends: Number(appends), base, post, pid: server.pid }));
			}
		}
		report(times);
	} finally {
		server.kill('SIGKILL');
		rmSync(dir, { recursive: true, force: true });
	}
}

async function measure({ door, id, observers, appends, base, post, pid }) {
	const marker = `the end of ${id}`;
	const paragraph = (n, i) => `Paragraph ${n} of append ${i}, of about as many letters as an agent's have.\n\n`;
	const path = `/api/sessions/${id}/events`;
	await post('/api/sessions', { id });
	await post(path, [{ type: 'agent_message_chunk', data: { text: 'It begins.\n\n' } }]);
	const child = fork(fileURLToPath(import.meta.url));
	child.send({ port: Number(new URL(base).port), count: observers, door, id, marker });
	const told = async (word) => {
		const [message] = await Promise.race([once(child, 'message'), once(child, 'exit').then(() => { throw new Error(`the observers of ${door} have ended`); })]);
		if (message !== word) {
			throw new Error(`${door}: ${message} instead of ${word}`);
		}
	};
	await told('ready');
	const before = busyNs(pid);
	const done = told('done');
	for (let i = 0; i < appends; i++) {
		const texts = Array.from({ length: BATCH }, (_, n) => ({ type: 'agent_message_chunk', data: { text: paragraph(n, i) } }));
		const tool = process.env.TOOLS ? [{ type: 'tool_call', data: { tool_call_id: `t-${i}`, title: `Call ${i}`, kind: 'read', status: 'completed' } }] : [];
		await post(path, [...texts, ...tool]);
	}
	await post(path, [{ type: 'agent_message_chunk', data: { text: `${marker}\n\n` } }]);
	await done;
	const spent = busyNs(pid) - before;
	child.removeAllListeners('exit');
	child.kill('SIGKILL');
	return spent / (observers * (appends * BATCH + 1));
}

function report(times) {
	const of = median(times.get('websocket') ?? [NaN]);
	for (const [door, values] of times) {
		const ns = median(values);
		console.log(`${door.padEnd(18)} ${ns.toFixed(0).padStart(6)} ns  ${(ns / of).toFixed(2)}  (${values.map((value) => value.toFixed(0)).join(', ')})`);
	}
}

if (process.send) {
	process.once('message', observe);
} else {
	await main(process.argv.slice(2));
}
