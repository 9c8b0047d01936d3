// What a peer has sent behind a refusal does not overtake what was refused: a disk that fails for a moment changes the order of nothing.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { FaultyDisk, hasFaultyDisk } from '../support/faulty_disk.mjs';
import { readLog } from '../support/log.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { startNodes } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { Producer, input } from '../support/producer.mjs';
import { RawSocket } from '../support/raw_socket.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { authOf } from '../support/auth.mjs';
import { defer, eventually, within } from '../support/wait.mjs';

const ROUNDS = 200;
const NODE_ROUNDS = 20;
const IN_ROUND = 8;
const can = hasFaultyDisk();
const options = { skip: can ? false : 'the tests in C are not built here: no disk fails' };

async function start(t, more = {}) {
	const disk = new FaultyDisk(scratchDir(t));
	const server = await Server.start(t, { env: disk.env, args: ['--limit', 'journal_retry_ms=5'], ...more });
	await server.createSession({ id: 's' });
	return { server, disk };
}

const note = (n) => ({ ...input.note({ n }), key: `k${n}` });
const numbersOf = (events) => events.filter(({ type }) => type === 'x-note').map(({ data }) => data.n);
const count = (n) => Array.from({ length: n }, (_, i) => i);

/** A producer that waits for no answer: what is refused it sends again, everything from there on, in order. */
class Pipeline {
	#waiting = []; // events that are not confirmed, the oldest first
	#socket = null;
	refused = 0;
	closes = [];

	constructor(t, server, query = '') {
		this.url = server.ws(`/api/sessions/s/produce${query}`);
		defer(t, () => {
			this.isOver = true;
			this.#socket?.terminate();
		});
		this.#connect();
	}

	#connect() {
		const socket = new WebSocket(this.url, { headers: authOf(this.url) });
		let answers = 0; // so many of what was sent on this socket are answered
		this.#socket = socket;
		socket.on('open', () => this.#waiting.forEach((event) => this.#send(event)));
		socket.on('message', (text) => {
			const { type, data } = JSON.parse(text);
			if (type === 'appended') {
				this.#waiting = this.#waiting.filter(({ key }) => key !== data.ref);
			} else if (type === 'error') {
				assert.equal(data.code, 'storage_failed', text);
				this.refused += 1;
				answers += 1;
				if (answers === 1) { // a server that goes on after it is asked again when all are answered
					this.again = setTimeout(() => this.#socket === socket && socket.readyState === WebSocket.OPEN && socket.close(), 300);
				}
			}
		});
		socket.on('error', () => {});
		socket.on('close', (code) => {
			clearTimeout(this.again);
			this.closes.push(code);
			if (!this.isOver) {
				setTimeout(() => this.#connect(), 5);
			}
		});
	}

	#send(event) {
		this.#socket.send(JSON.stringify({ type: 'append', data: { ref: event.key, events: [event] } }));
	}

	push(event) {
		this.#waiting.push(event);
		if (this.#socket.readyState === WebSocket.OPEN) {
			this.#send(event);
		}
	}

	flushed() {
		return eventually(() => this.#waiting.length === 0, () => `${this.#waiting.length} to be stored`, 60_000);
	}
}

/** Rounds of pipelined appends, in the middle of which `fail` and `pass` are called. */
async function rounds(pipeline, count, { fail, pass }, seed) {
	const random = randomNumbers(seed);
	let n = 0;
	for (let round = 0; round < count; round++) {
		const [first, last] = [random(IN_ROUND), random(IN_ROUND)];
		for (let i = 0; i < IN_ROUND; i++, n++) {
			await (i === first && fail());
			pipeline.push(note(n));
			await sleep(random(4));
			await (i === Math.max(first, last) && pass());
		}
		await pipeline.flushed();
	}
	return n;
}

test(`${ROUNDS} rounds of pipelined appends on a disk that fails for a moment: none is stored in another order`, options, async (t) => {
	const { server, disk } = await start(t);
	const pipeline = new Pipeline(t, server);
	const sent = await rounds(pipeline, ROUNDS, { fail: () => disk.fail(), pass: () => disk.pass() }, 7);
	assert.deepEqual(numbersOf(readLog(server, 's')), count(sent));
	assert.ok(pipeline.refused > ROUNDS / 4, `${pipeline.refused} were refused`);
	assert.ok(pipeline.closes.includes(1013));
});

test('… whose first event makes the session', options, async (t) => {
	const { server, disk } = await start(t);
	await server.request('DELETE', '/api/sessions/s');
	disk.fail();
	const pipeline = new Pipeline(t, server, '?create=1');
	for (let n = 0; n < 50; n++) {
		pipeline.push(note(n));
		await sleep(2);
		if (n % 10 === 5) {
			disk.pass();
		}
		if (n === 3 || n === 8) {
			disk.fail();
		}
	}
	disk.pass();
	await pipeline.flushed();
	assert.deepEqual(numbersOf(readLog(server, 's')), count(50));
});

test('… at a node that does not have the session: its owner refuses for a moment, and keeps the session', async (t) => {
	const postgres = Postgres.start(t);
	const database = 'refusing';
	const [a, b] = await startNodes(t, postgres, 2, { database, args: ['--limit', 'journal_retry_ms=5'] });
	await a.createSession({ id: 's' });
	const ask = (sql) => postgres.ask(database, sql);
	// What is written into sessions is refused, and leases are renewed.
	ask(`CREATE TABLE refusing (is_on boolean); INSERT INTO refusing VALUES (false);
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF (SELECT is_on FROM refusing) THEN RAISE EXCEPTION 'refused by the test'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON holdfast_record FOR EACH ROW EXECUTE FUNCTION refuse()`);
	const set = (value) => ask(`UPDATE refusing SET is_on = ${value}`);
	const owner = () => ask("SELECT owner, fence FROM holdfast_session WHERE id = 's'");
	const before = owner();
	const pipeline = new Pipeline(t, b);
	const sent = await rounds(pipeline, NODE_ROUNDS, { fail: () => set(true), pass: () => set(false) }, 11);
	assert.equal(owner(), before, 'it has the session all the time');
	const { body } = await a.request('GET', '/api/sessions/s/events?after_seq=0&limit=5000&format=markdown');
	assert.deepEqual(numbersOf(body.events), count(sent));
	assert.ok(pipeline.refused > NODE_ROUNDS / 4, `${pipeline.refused} were refused`);
	assert.ok(pipeline.closes.includes(1013));
});

/** Two appends at once over HTTP; only the first may be answered. Returns its code. */
async function onlyTheFirstIsAnswered(t, server) {
	const socket = await RawSocket.connect(t, server);
	const ask = (n) => {
		const body = JSON.stringify(note(n));
		return `POST /api/sessions/s/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${server.token}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
	};
	await socket.send(ask(1001) + ask(1002));
	const answer = await socket.answer();
	assert.equal(await socket.waitEnd(), '', 'the request behind it is not answered');
	assert.equal(answer.status, 503);
	assert.equal(answer.headers.connection, 'close');
	return JSON.parse(answer.body).error.code;
}

test('over HTTP, at a node that does not have the session, the connection is closed behind a refusal of its owner, and where there is none', async (t) => {
	const postgres = Postgres.start(t);
	const database = 'closing';
	const [a, b] = await startNodes(t, postgres, 2, { database });
	await a.createSession({ id: 's' });
	postgres.ask(database, 'ALTER TABLE holdfast_record ADD CONSTRAINT refused CHECK (false) NOT VALID');
	assert.equal(await onlyTheFirstIsAnswered(t, b), 'storage_failed');
	postgres.ask(database, 'ALTER TABLE holdfast_record DROP CONSTRAINT refused');
	await a.kill9();
	assert.equal(await onlyTheFirstIsAnswered(t, b), 'owner_unreachable');
});

test('what stands behind the refused append on the socket is refused with its code, and the socket is closed with 1013', options, async (t) => {
	const { server, disk } = await start(t);
	const producer = await Producer.connect(t, server, 's');
	await producer.append(note(0));
	disk.fail();
	await producer.sendTogether(...[1, 2, 3].map((n) => ['append', { ref: n, events: [note(n)] }]), ['append_snapshot', { ref: 4, messages: [{ message_id: 'm', role: 'user', text: 'x' }] }]);
	await producer.waitClosed();
	const errors = producer.frames.filter(({ type }) => type === 'error').map(({ data }) => [data.ref, data.code]);
	assert.deepEqual(errors, [1, 2, 3, 4].map((ref) => [ref, 'storage_failed']));
	assert.deepEqual(producer.closed, { code: 1013, reason: 'storage_failed' });
	disk.pass();
	await eventually(async () => (await server.request('GET', '/readyz')).status === 200, 'the disk to work again');
	await (await Producer.connect(t, server, 's')).append(note(1), note(2), note(3));
	assert.deepEqual(numbersOf(readLog(server, 's')), count(4));
});

test('a full disk refuses what is behind the first refusal, too', async (t) => {
	const server = await Server.start(t, { args: ['--max-disk', '6M'] });
	await server.createSession({ id: 's' });
	const producer = await Producer.connect(t, server, 's');
	// The server measures its disk from time to time: until then it takes more.
	for (let sent = 0; !producer.closed; sent += 50) {
		await producer.sendTogether(...count(50).map((n) => ['append', { ref: sent + n, events: [input.note({ n, text: 'x'.repeat(50_000) })] }])).catch(() => {});
		await producer.waitUntil(() => producer.closed || producer.frames.length > sent + 50, 'the answers');
	}
	const answers = producer.frames.filter(({ type }) => type === 'appended' || type === 'error');
	const first = answers.findIndex(({ type }) => type === 'error');
	assert.ok(first > 0);
	assert.ok(answers.slice(first).every(({ data }) => data.code === 'disk_full'));
	assert.deepEqual(producer.closed, { code: 1013, reason: 'disk_full' });
});

test('of a body of lines nothing behind the first refusal is stored, and of its connection no other request', options, async (t) => {
	const { server, disk } = await start(t);
	const random = randomNumbers(3);
	let refused = 0;
	let mayFail = true;
	for (let sent = 0, total = 10; total <= 300; ) {
		const { hostname, port } = new URL(server.url);
		const request = http.request({ hostname, port, method: 'POST', path: '/api/sessions/s/events', headers: { ...authOf(server.url), 'content-type': 'application/x-ndjson' } });
		const answered = once(request, 'response');
		const [first, last] = [sent, sent + 1 + random(total - sent)];
		for (let n = sent; n < total; n++) {
			await (mayFail && n === first + 1 && disk.fail());
			request.write(`${JSON.stringify(note(n))}\n`);
			await sleep(random(3));
			await (n === last && disk.pass());
		}
		disk.pass();
		request.end();
		const [response] = await answered;
		const { error } = JSON.parse(Buffer.concat(await response.toArray()));
		assert.ok(!error || error.code === 'storage_failed', JSON.stringify(error));
		refused += error ? 1 : 0;
		sent += error ? error.stored : total - sent;
		assert.deepEqual(numbersOf(readLog(server, 's')), count(sent));
		mayFail = !error;
		total += error ? 0 : 10;
	}
	assert.ok(refused > 0);
	const socket = await RawSocket.connect(t, server);
	const ask = (n) => {
		const body = JSON.stringify(note(n));
		return `POST /api/sessions/s/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${server.token}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
	};
	const had = readLog(server, 's').length;
	disk.fail();
	await socket.send(ask('A') + ask('B'));
	const { status } = await socket.answer();
	disk.pass();
	assert.equal(status, 503);
	await socket.waitEnd();
	assert.equal(readLog(server, 's').length, had, 'the request behind the refused one is not taken');
});

for (const [name, open] of Object.entries({
	observer: async (t, server) => {
		const observer = await Observer.connect(t, server, 's');
		await observer.loadAll();
		return { socket: observer, prompt: (n) => JSON.stringify({ type: 'prompt', data: { prompt_id: `p${n}`, message: 'x' } }), isRefused: ({ type, data }) => type === 'error' && data.code === 'storage_failed' };
	},
	'chat of the AI SDK': async (t, server) => {
		const socket = new TestSocket(t, server.ws('/api/ai/s'), () => null);
		const prompt = (n) => JSON.stringify({ type: 'send', requestId: `r${n}`, chatId: 'c', trigger: 'submit-message', messages: [{ id: `m${n}`, role: 'user', parts: [{ type: 'text', text: 'x' }] }] });
		return { socket, prompt, isRefused: ({ type }) => type === 'error' };
	},
	editor: async (t, server) => {
		const socket = new TestSocket(t, server.ws('/acp'), () => null);
		const ask = (id, method, params) => JSON.stringify({ jsonrpc: '2.0', id, method, params });
		await socket.sendRaw(ask(1, 'initialize', { protocolVersion: 1, clientCapabilities: {} }));
		await socket.sendRaw(ask(2, 'session/load', { sessionId: 's', cwd: '/', mcpServers: [] }));
		await socket.waitFor((frame) => frame.id === 2);
		return { socket, prompt: (n) => ask(10 + n, 'session/prompt', { sessionId: 's', prompt: [{ type: 'text', text: 'x' }] }), isRefused: ({ id, error }) => id > 10 && error };
	},
})) {
	test(`prompts of an ${name} that come behind a refused one are refused as it is, and the socket is closed with 1013`, options, async (t) => {
		const { server, disk } = await start(t, { agent: demoAgent() });
		const { socket, prompt, isRefused } = await open(t, server);
		disk.fail();
		await socket.sendRawTogether([1, 2, 3].map(prompt));
		await within(socket.waitClosed(), 20_000, () => JSON.stringify(socket.frames.slice(-5)));
		assert.equal(socket.closed.code, 1013);
		assert.equal(socket.frames.filter(isRefused).length, 3, JSON.stringify(socket.frames.slice(-5)));
		disk.pass();
	});
}

test('so are appends behind one that found no room for its session', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'sessions=1'] });
	await server.createSession({ id: 'other' });
	const producer = await Producer.connect(t, server, 's', { query: { create: '1' } });
	await Promise.all(['A', 'B'].map((n) => producer.push(note(n))));
	await producer.waitClosed();
	assert.equal(producer.closed.code, 1013);
	assert.ok(producer.frames.slice(1).every(({ data }) => data.code === 'too_many_sessions'), JSON.stringify(producer.frames));
	assert.equal((await server.request('GET', '/api/sessions/s')).status, 404);
});

test('and a prompt of a chat that gets no more answers at once: its socket is closed with 1013', async (t) => {
	const server = await Server.start(t, { agent: demoAgent() });
	await server.createSession({ id: 's' });
	const chat = new TestSocket(t, server.ws('/api/ai/s'), () => null);
	const prompt = (n) => JSON.stringify({ type: 'send', requestId: `r${n}`, chatId: 'c', trigger: 'submit-message', messages: [{ id: `m${n}`, role: 'user', parts: [{ type: 'text', text: 'long 500' }] }] });
	await chat.sendRawTogether(count(10).map(prompt));
	await within(chat.waitClosed(), 20_000, () => JSON.stringify(chat.frames.slice(-5)));
	assert.deepEqual([chat.closed.code, chat.closed.reason], [1013, 'server_busy']);
	assert.deepEqual(chat.frames.filter(({ type }) => type === 'error').map(({ requestId }) => requestId), ['r8', 'r9']);
});

test('over HTTP the connection is closed behind server_busy, too', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'receive_size=1M'] });
	await server.createSession({ id: 's' });
	const head = (length) => `POST /api/sessions/s/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${server.token}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
	const ask = (n, size) => {
		const body = JSON.stringify(input.note({ n, pad: 'x'.repeat(size) }));
		return head(body.length) + body;
	};
	const large = await RawSocket.connect(t, server); // takes up nearly all the room
	await large.send(head(1_000_000) + ' '.repeat(990_000));
	await eventually(async () => (await readMetrics(server))('receiving_bytes') > 900_000, 'the large body to be received');
	const socket = await RawSocket.connect(t, server);
	await socket.send(ask('A', 200_000) + ask('B', 0));
	const { status } = await socket.answer();
	assert.equal(status, 503);
	await socket.waitEnd();
	assert.equal(readLog(server, 's').length, 0, 'the request behind the refused one is not taken');
});
