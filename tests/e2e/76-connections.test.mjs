// Many connections, and what each of them may cost: the cap and the room it leaves, the memory of what is unfinished, peers that are
// silent or gone, and requests behind which the client says no more.

import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CLOSE, PING, PONG, RawSocket, TEXT, frame, head } from '../support/raw_socket.mjs';
import { SOCKETS, keepalive, open } from '../support/raw_ws.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const EVENTS = '/api/sessions/one/events';
const NOTE = '{"type":"x-note","data":{}}';
const HEALTH = head('GET', '/healthz');
const JSON_TYPE = { 'Content-Type': 'application/json' };
const LINES_TYPE = { 'Content-Type': 'application/x-ndjson' };

const limits = (...pairs) => pairs.flatMap((pair) => ['--limit', pair]);

async function start(t, ...pairs) {
	const server = await Server.start(t, { auth: false, args: limits(...pairs) });
	await server.createSession({ id: 'one' });
	return server;
}

/** Takes frames until one has this opcode; its payload. */
async function nextOf(socket, opcode) {
	for (;;) {
		const got = await socket.frame();
		if (got.opcode === opcode) {
			return got.payload;
		}
	}
}

const ackOf = async (socket) => JSON.parse(await nextOf(socket, TEXT)).data.client_time;

/** Sends a request and gives the status of its answer, or 0 if the connection ended without one. */
async function ask(socket, request = HEALTH) {
	await socket.send(request);
	return socket.answer().then(({ status }) => status, () => 0);
}

test('the cap: the next one is told, the others live, and one that closes makes room', async (t) => {
	const server = await start(t, 'connections=10');
	const living = [];
	// The one over which the session was made is still open, or not.
	for (let n = 0; n < 10; n++) {
		const socket = await RawSocket.connect(t, server);
		if (await ask(socket) !== 200) {
			break;
		}
		living.push(socket);
	}
	assert.ok(living.length >= 8, `${living.length}`);
	for (let n = living.length; n < 10; n++) {
		living.push(await RawSocket.connect(t, server));
	}
	const turnedAway = await RawSocket.connect(t, server);
	const { status, headers, body } = await turnedAway.answer();
	assert.equal(status, 503);
	assert.equal(headers.connection, 'close');
	assert.equal(JSON.parse(body).error.code, 'too_many_connections');
	assert.equal(await turnedAway.waitEnd(), '');
	for (const socket of living.slice(0, 5)) {
		assert.equal(await ask(socket), 200);
	}
	living[0].finish();
	await living[0].waitEnd();
	await eventually(async () => {
		const socket = await RawSocket.connect(t, server);
		return await ask(socket) === 200;
	}, 'room for another connection');
});

test('one that is turned away is told so, also if its request was there before', async (t) => {
	const server = await start(t, 'connections=4');
	await Promise.all(Array.from({ length: 4 }, () => RawSocket.connect(t, server)));
	await Promise.all(Array.from({ length: 40 }, async () => {
		const socket = await RawSocket.connect(t, server);
		await socket.send(HEALTH);
		assert.equal((await socket.answer()).status, 503);
	}));
});

test('below the limit of open files there is room for the store', async (t) => {
	const low = await Server.start(t, { auth: false, prefix: ['prlimit', '--nofile=300:300'] });
	await low.createSession({ id: 'one' });
	const socket = await open(t, low, SOCKETS[0].path);
	const others = await Promise.all(Array.from({ length: 400 }, () => RawSocket.connect(t, low)));
	await eventually(() => others.filter((s) => s.ended).length >= 200, 'half of them to be turned away');
	for (let n = 0; n < 20; n++) {
		await socket.send(frame(TEXT, keepalive(n)));
		assert.equal(await ackOf(socket), n);
	}
	const alive = others.filter((s) => !s.ended);
	const writer = alive[0];
	for (let n = 0; n < 30; n++) {
		const made = JSON.stringify({ id: `s${n}` });
		await writer.send(head('POST', '/api/sessions', { ...JSON_TYPE, 'Content-Length': made.length }) + made);
		assert.equal((await writer.answer()).status, 201);
		await writer.send(head('POST', `/api/sessions/s${n}/events`, { ...JSON_TYPE, 'Content-Length': NOTE.length }) + NOTE);
		assert.equal((await writer.answer()).status, 200);
	}
	assert.ok(low.stderr.split('\n').length < 30, low.stderr);
	others.forEach((s) => s.drop());
	await eventually(async () => (await ask(await RawSocket.connect(t, low))) === 200, 'room again');
});

test('unfinished bodies and messages have a budget over all, which is given back', async (t) => {
	const server = await start(t, 'receive_size=1M');
	const half = 'x'.repeat(900_000);
	const small = await open(t, server, SOCKETS[0].path);
	const bodies = await Promise.all([JSON_TYPE, JSON_TYPE, LINES_TYPE, LINES_TYPE].map(async (type) => {
		const socket = await RawSocket.connect(t, server);
		await socket.send(head('POST', EVENTS, { ...type, 'Content-Length': 1_000_000 }) + half);
		return socket;
	}));
	const sockets = await Promise.all(SOCKETS.map(async ({ path }) => {
		const socket = await open(t, server, path);
		await socket.send(frame(TEXT, half, { fin: false }));
		return socket;
	}));
	// Of each kind: what is over the budget is refused in words.
	const refused = await Promise.all(bodies.map((socket) => Promise.race([
		socket.answer().then(({ status, body }) => `${status} ${JSON.parse(body).error.code}`),
		eventually(() => false, 'an answer', 3000).catch(() => 'open'),
	])));
	assert.ok(refused.every((r) => ['open', '503 server_busy'].includes(r)), `${refused}`);
	assert.ok(refused.filter((r) => r === '503 server_busy').length >= 3, `${refused}`);
	const closes = await Promise.all(sockets.map((socket) => Promise.race([
		(async () => {
			const error = JSON.parse(await nextOf(socket, TEXT));
			return `${error.data.code} ${(await nextOf(socket, CLOSE)).readUInt16BE()}`;
		})(),
		eventually(() => false, 'a close', 3000).catch(() => 'open'),
	])));
	assert.ok(closes.every((r) => ['open', 'server_busy 1013'].includes(r)), `${closes}`);
	assert.ok(closes.filter((r) => r === 'open').length + refused.filter((r) => r === 'open').length <= 1);
	await small.send(frame(TEXT, keepalive(7)));
	assert.equal(await ackOf(small), 7);
	assert.equal((await server.request('POST', EVENTS, { json: JSON.parse(NOTE) })).status, 200);
	[...bodies, ...sockets].forEach((socket) => socket.drop());
	const text = JSON.stringify({ type: 'x-note', data: { text: 'x'.repeat(700_000) } });
	await eventually(async () => (await server.request('POST', EVENTS, { body: text, headers: JSON_TYPE })).status === 200, 'room for a large body');
});

test('a silent socket is pinged and closed; one that answers, or says anything, lives', async (t) => {
	const server = await start(t, 'ping_ms=200', 'pong_ms=2500');
	await Promise.all(SOCKETS.map(async ({ path }) => {
		const silent = await open(t, server, path);
		const ponging = await open(t, server, path);
		const talking = await open(t, server, path);
		let pings = 0;
		let stop = false;
		const pong = (async () => {
			while (!stop) {
				await nextOf(ponging, PING);
				await ponging.send(frame(PONG, ''));
				pings++;
			}
		})();
		pong.catch(() => {});
		let talks = 0;
		const talk = (async () => {
			while (!stop) {
				await nextOf(talking, PING);
				await talking.send(frame(TEXT, keepalive(++talks)));
			}
		})();
		talk.catch(() => {});
		await nextOf(silent, PING);
		await silent.waitEnd();
		await eventually(() => pings >= 4 && talks >= 4, 'more pings');
		stop = true;
		assert.ok(!ponging.ended && !talking.ended);
	}));
});

test('a producer whose segments never end with a message goes on', async (t) => {
	const server = await start(t, 'receive_ms=2500');
	const socket = await open(t, server, SOCKETS[1].path);
	const other = await RawSocket.connect(t, server); // when its time has passed, that of the first message has too
	await other.send(head('POST', EVENTS, { ...JSON_TYPE, 'Content-Length': 9 }));
	const again = other.waitEnd();
	await socket.send(frame(TEXT, keepalive(0)).subarray(0, 9));
	for (let n = 0, more = 0; more < 25; n++) {
		more += other.ended ? 1 : 0;
		await socket.send(Buffer.concat([frame(TEXT, keepalive(n)).subarray(9), frame(TEXT, keepalive(n + 1)).subarray(0, 9)]));
		assert.equal(await ackOf(socket), n);
		await new Promise((resolve) => setTimeout(resolve, 50));
	}
	await again;
});

/** name, the request, the status of its answer. */
const LAST_REQUESTS = [
	['a GET', HEALTH, 200],
	['the last GET', head('GET', '/healthz', { Connection: 'close' }), 200],
	['a GET of HTTP/1.0', head('GET', '/healthz', {}, 'HTTP/1.0'), 200],
	['events, which wait for the disk', head('POST', EVENTS, { ...JSON_TYPE, 'Content-Length': NOTE.length }) + NOTE, 200],
	['the last events', head('POST', EVENTS, { ...JSON_TYPE, Connection: 'close', 'Content-Length': NOTE.length }) + NOTE, 200],
	['the last lines', head('POST', EVENTS, { ...LINES_TYPE, Connection: 'close', 'Content-Length': NOTE.length }) + NOTE, 200],
	['a file', head('GET', '/'), 200],
	['the last file', head('GET', '/', { Connection: 'close' }), 200],
];

test('a client that ends its side behind its request gets the answer', async (t) => {
	const web = join(scratchDir(t), 'web');
	mkdirSync(web);
	writeFileSync(join(web, 'index.html'), 'x'.repeat(900_000));
	const server = await Server.start(t, { auth: false, args: ['--web', web] });
	await server.createSession({ id: 'one' });
	for (const [name, request, wanted] of LAST_REQUESTS) {
		const socket = await RawSocket.connect(t, server);
		await socket.send(request);
		socket.finish();
		const { status } = await socket.answer().catch((e) => assert.fail(`${name}: ${e.message}`));
		assert.equal(status, wanted, name);
		await socket.waitEnd();
	}
	const two = await RawSocket.connect(t, server);
	await two.send(LAST_REQUESTS[3][1] + LAST_REQUESTS[4][1]);
	two.finish();
	assert.deepEqual([(await two.answer()).status, (await two.answer()).status], [200, 200]);
});

test('a request that announces a body nobody wants is served once', async (t) => {
	const web = join(scratchDir(t), 'web');
	mkdirSync(web);
	writeFileSync(join(web, 'index.html'), 'x'.repeat(900_000));
	const server = await Server.start(t, { auth: false, args: ['--web', web] });
	for (let n = 0; n < 20; n++) {
		await server.createSession({ id: 'one' });
		await server.request('POST', EVENTS, { json: JSON.parse(NOTE) });
		for (const [method, target, wanted] of [['GET', '/', 200], ['GET', EVENTS, 200], ['DELETE', '/api/sessions/one', 204]]) {
			const fields = { Expect: '100-continue', 'Content-Length': 9 };
			const socket = await RawSocket.connect(t, server);
			await socket.send(head(method, target, fields) + 'x'.repeat(n % 2 ? 9 : 5));
			const answer = await socket.answer();
			assert.equal(answer.status, wanted, `${method} ${target}`);
			await socket.send(n % 2 ? head('GET', '/healthz', { Connection: 'close' }) : 'xxxx');
			assert.match(await socket.waitEnd(), /^(HTTP\/1\.1 200 OK\r\n((?!HTTP\/1)[^])*)?$/);
		}
	}
});

test('a peer that reads nothing does not keep the server from stopping', async (t) => {
	const server = await start(t);
	const text = JSON.stringify({ type: 'x-note', data: { text: 'x'.repeat(1_000_000) } });
	for (let n = 0; n < 12; n++) {
		assert.equal((await server.request('POST', EVENTS, { body: text, headers: JSON_TYPE })).status, 200);
	}
	const observer = await open(t, server, SOCKETS[0].path);
	observer.pause();
	await observer.send(frame(TEXT, JSON.stringify({ type: 'load_events', data: { after_seq: 0, limit: 5000 } })));
	const reader = await RawSocket.connect(t, server);
	reader.pause();
	for (let n = 0; n < 12; n++) {
		await reader.send(head('GET', `${EVENTS}?after_seq=0&limit=5000`));
	}
	assert.equal((await server.request('GET', '/healthz')).status, 200);
	await server.stop();
});

test('no link is followed and nothing hidden served, below the highlighter too', async (t) => {
	const dir = scratchDir(t);
	const [web, code] = ['web', 'code'].map((name) => join(dir, name));
	for (const made of [web, join(code, 'sub'), join(code, '.git')]) {
		mkdirSync(made, { recursive: true });
	}
	for (const name of ['secret.txt', 'web/index.html', 'code/a.js', 'code/sub/b.js', 'code/.env', 'code/.git/config', 'code/sub/.c.js']) {
		writeFileSync(join(dir, name), name);
	}
	symlinkSync('../secret.txt', join(code, 'link.txt'));
	symlinkSync('a.js', join(code, 'inner.js'));
	symlinkSync('sub', join(code, 'linked'));
	symlinkSync('.git', join(code, 'git'));
	const server = await Server.start(t, { auth: false, args: ['--web', web, '--highlight', code] });
	const get = async (path) => (await server.rawRequest('GET', `/javascript/highlight.js/${path}`)).status;
	for (const path of ['a.js', 'sub/b.js']) {
		assert.equal(await get(path), 200, path);
	}
	for (const path of ['link.txt', 'inner.js', 'linked/b.js', 'git/config', '.env', '.git/config', 'sub/.c.js', 'sub', '', 'sub/', '../web/index.html', '..%2fsecret.txt', '%2eenv', './a.js', '/a.js']) {
		assert.equal(await get(path), 404, path);
	}
});
