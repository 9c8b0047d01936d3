// An event of a stream is there for whoever reads HTTP's chunks to their end, before the next event is made: at every door that sends chunks, compressed or
// not, at the session's node and at another, and with clients of other people.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import net from 'node:net';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { constants, createGunzip } from 'node:zlib';
import { startNodes } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { Waiters, defer } from '../support/wait.mjs';

const EVENTS = 8;
const ENCODINGS = ['identity', 'gzip'];
const postgres = Postgres.start({ after });
const program = fileURLToPath(new URL('../support/sse_clients.py', import.meta.url));
const CLIENTS = ['requests', 'requests in pieces', 'urllib3', 'httpx', 'aiohttp'];
// The system's Python has Debian's packages; another one may be first in PATH.
const python = ['/usr/bin/python3', 'python3'].find((one) => spawnSync(one, ['-c', 'import aiohttp, httpx, requests, urllib3']).status === 0);

// Not in Debian: pip install --target DIR sseclient-py, and PYTHONPATH=DIR.
if (python && spawnSync(python, ['-c', 'import sseclient']).status === 0) {
	CLIENTS.push('sseclient-py');
}

/** Reads an answer's chunks (RFC 9112, section 7.1), each to its end: until its CRLF is here, none of its bytes is delivered. */
class ChunkReader {
	#waiters = new Waiters();
	#bytes = Buffer.alloc(0);
	#unpacked = createGunzip({ flush: constants.Z_SYNC_FLUSH });
	#isPacked;
	head = null;
	text = '';

	constructor(t, server, path, encoding) {
		const { hostname, port } = new URL(server.url);
		const socket = net.connect({ host: hostname, port });
		defer(t, () => socket.destroy());
		this.#isPacked = encoding === 'gzip';
		this.#unpacked.setEncoding('utf8').on('data', (text) => this.#deliver(text));
		socket.on('error', () => {}).on('data', (bytes) => this.#take(bytes));
		socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${server.token}\r\naccept: text/event-stream\r\naccept-encoding: ${encoding}\r\n\r\n`);
	}

	#deliver(text) {
		this.text += text;
		this.#waiters.wake();
	}

	#take(bytes) {
		this.#bytes = Buffer.concat([this.#bytes, bytes]);
		const end = this.head === null ? this.#bytes.indexOf('\r\n\r\n') : -1;
		if (end >= 0) {
			this.head = this.#bytes.toString('utf8', 0, end);
			this.#bytes = this.#bytes.subarray(end + 4);
		}
		for (let line; this.head !== null && (line = this.#bytes.indexOf('\r\n')) >= 0; ) {
			const size = Number.parseInt(this.#bytes.toString('latin1', 0, line), 16);
			const next = line + 2 + size + 2;
			if (this.#bytes.length < next) {
				break;
			}
			const chunk = this.#bytes.subarray(line + 2, next - 2);
			assert.equal(this.#bytes.toString('latin1', next - 2, next), '\r\n');
			this.#bytes = this.#bytes.subarray(next);
			if (this.#isPacked) {
				this.#unpacked.write(chunk);
			} else {
				this.#deliver(chunk.toString());
			}
		}
	}

	until(what) {
		return this.#waiters.until(() => this.text.includes(what), 10_000, () => `"${what}" to be delivered; ${this.head?.split('\r\n')[0]}, the last that was: ${this.text.slice(-300)}`);
	}

	/** Waits for the beginning of the answer, which must be what was asked for. */
	async opened(encoding) {
		await this.#waiters.until(() => this.head !== null, 10_000, () => 'the head of the answer');
		assert.match(this.head, /^HTTP\/1\.1 200 /);
		assert.match(this.head, /transfer-encoding: chunked/);
		assert.equal(/content-encoding: gzip/.test(this.head), encoding === 'gzip');
	}
}

const addNote = (server, what) => post(server, 's', input.note({ what }));

/** What is asked for, and what makes an event there that says `what`. */
const DOORS = {
	'events of a session': ['/api/sessions/s/events', addNote],
	'events of a session, in markdown, with deltas': ['/api/sessions/s/events?format=markdown&deltas=text', addNote],
	'the feed': ['/api/events', async (server, what) => assert.equal((await server.request('PATCH', '/api/sessions/s', { json: { title: what } })).status, 200)],
	'a session for clients of Durable Streams': ['/ds/sessions/s?live=sse&offset=-1', addNote],
	'a chat of the AI SDK': ['/api/ai/s/stream', (server, what) => post(server, 's', input.text(`${what}\n\n`))],
};
const append = async (server, name, body, type) => assert.equal((await server.request('POST', `/v1/stream/${name}`, { body, headers: { 'content-type': type } })).status, 204);
const RAW_DOORS = {
	'a raw stream of text': ['/v1/stream/text?live=sse&offset=-1', (server, what) => append(server, 'text', `${what}\n`, 'text/plain')],
	'a raw stream of JSON': ['/v1/stream/json?live=sse&offset=-1', (server, what) => append(server, 'json', JSON.stringify({ what }), 'application/json')],
};

/** A session whose turn goes on until its question is answered. */
async function begin(t, server) {
	await server.createSession({ id: 's' });
	const observer = await Observer.connect(t, server, 's');
	await observer.loadAll();
	await observer.send('prompt', { prompt_id: 'p', message: 'permission' });
	await observer.waitFor((frame) => frame.type === 'state' && frame.data.status === 'waiting');
}

async function assertEachIsThere(t, from, at, doors) {
	for (const [name, [path, make]] of Object.entries(doors)) {
		for (const encoding of ENCODINGS) {
			await t.test(`${name}, ${encoding}`, async (t) => {
				const reader = new ChunkReader(t, from, path, encoding);
				await reader.opened(encoding);
				for (let n = 0; n < EVENTS; n++) {
					const what = `event-${encoding}-${n}-`;
					await make(at, what);
					await reader.until(what);
				}
			});
		}
	}
}

test('who reads chunks to their end has each event before the next one is made', async (t) => {
	const server = await Server.start(t, { agent: demoAgent(), args: ['--limit', 'comment_ms=600000'] });
	await begin(t, server);
	for (const [name, type] of [['text', 'text/plain'], ['json', 'application/json']]) {
		assert.equal((await server.request('PUT', `/v1/stream/${name}`, { headers: { 'content-type': type } })).status, 201);
	}
	await assertEachIsThere(t, server, server, { ...DOORS, ...RAW_DOORS });
});

test('… and at a node that does not have the session', async (t) => {
	const [a, b] = await startNodes(t, postgres, 2, { agent: demoAgent(), args: ['--limit', 'comment_ms=600000'] });
	await begin(t, a);
	await assertEachIsThere(t, b, a, DOORS);
});

for (const client of CLIENTS) {
	for (const encoding of ENCODINGS) {
		test(`Python's ${client}, ${encoding}: each event is delivered before the next one is made`, { skip: python ? false : 'there is no python3 with these packages' }, async (t) => {
			const server = await Server.start(t, { args: ['--limit', 'comment_ms=600000'] });
			await server.createSession({ id: 's' });
			const child = spawn(python, [program, client, `${server.url}/api/sessions/s/events?after=0`, server.token, encoding], { stdio: ['ignore', 'pipe', 'inherit'] });
			defer(t, () => child.kill('SIGKILL'));
			const waiters = new Waiters();
			let output = '';
			child.stdout.setEncoding('utf8').on('data', (text) => {
				output += text;
				waiters.wake();
			});
			for (let n = 0; n < EVENTS; n++) {
				await addNote(server, `event-${n}-`);
				await waiters.until(() => output.includes(`event-${n}-`), 20_000, () => `event ${n} to be delivered; the last that was: ${output.slice(-300)}`);
			}
		});
	}
}
