// Raw streams at /v1/stream/: what is acknowledged is there after kill -9 and a restart, once; who may do what; limits; forks of forks; and npm
// @durable-streams/client, unchanged. What the protocol says of each request is the conformance kit's affair (tests/doors/10-durable-streams.test.mjs).

import assert from 'node:assert/strict';
import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DurableStream, IdempotentProducer } from '@durable-streams/client';
import { followStream } from '../support/durable_streams.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { BYTES, JSON_TYPE, TEXT, ask, offsetOf, producer, readAll } from '../support/raw_streams.mjs';
import { Server } from '../support/server.mjs';
import { EventParser } from '../support/sse.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { defer, eventually, patience } from '../support/wait.mjs';

const start = (t, options = {}) => Server.start(t, { ...options, args: ['--limit', 'poll_ms=1000', ...options.args ?? []] });

async function put(server, name, { type = TEXT, ...more } = {}) {
	const answer = await ask(server, 'PUT', name, { type, ...more });
	assert.equal(answer.status, 201, answer.body);
	return answer;
}

async function post(server, name, body, { type = TEXT, ...more } = {}) {
	const answer = await ask(server, 'POST', name, { type, body, ...more });
	assert.ok(answer.status === 204 || answer.status === 200, `${answer.status} ${answer.body}`);
	return answer;
}

const files = (server) => readdirSync(join(server.dataDir, 'streams/data'));
const segments = (server) => readdirSync(join(server.dataDir, 'streams/journal')).sort();

test('bytes, text and JSON are there after a restart, with their types, times, closure and producers', async (t) => {
	const server = await start(t);
	const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
	await put(server, 'a/b/bytes', { type: BYTES, body: bytes });
	await post(server, 'a/b/bytes', bytes, { type: BYTES });
	await put(server, 'json', { type: JSON_TYPE, headers: { 'stream-ttl': '3600' } });
	await post(server, 'json', '[{"a":1}, [2], "\\u00fc\\n"]', { type: JSON_TYPE });
	await post(server, 'json', '{"b": 1e400}', { type: JSON_TYPE, headers: { 'stream-seq': '05' } });
	await put(server, 'over', { headers: { 'stream-expires-at': '2199-01-01T00:00:00.5+01:00' } });
	await post(server, 'over', 'x', { headers: { ...producer('p', 3, 0), 'stream-closed': 'true' } });
	await server.kill9();
	await server.restart();
	assert.deepEqual(await readAll(server, 'a/b/bytes'), Buffer.concat([bytes, bytes]));
	assert.equal(String(await readAll(server, 'json')), '[{"a":1},[2],"ü\\n",{"b":1e400}]');
	const json = await ask(server, 'HEAD', 'json');
	assert.deepEqual([json.headers['content-type'], json.headers['stream-ttl']], [JSON_TYPE, '3600']);
	assert.equal((await ask(server, 'POST', 'json', { type: JSON_TYPE, body: '1', headers: { 'stream-seq': '05' } })).status, 409);
	const over = await ask(server, 'HEAD', 'over');
	assert.deepEqual([over.headers['stream-closed'], over.headers['stream-expires-at']], ['true', '2199-01-01T00:00:00.5+01:00']);
	assert.equal((await ask(server, 'POST', 'over', { type: TEXT, body: 'x', headers: { ...producer('p', 3, 0), 'stream-closed': 'true' } })).status, 204, 'the append that closed it, sent again');
	const late = await ask(server, 'POST', 'over', { type: TEXT, body: 'y' });
	assert.deepEqual([late.status, late.headers['stream-closed'], JSON.parse(late.body).error.code], [409, 'true', 'stream_closed']);
});

test('a stream of lines whose name ends as the path of events does', async (t) => {
	const server = await start(t);
	for (const name of ['events', 'app/events', 'api/sessions/s/events']) {
		await put(server, name, { type: 'application/x-ndjson' });
		await post(server, name, '{"a":1}\n', { type: 'application/x-ndjson' });
		assert.equal(String(await readAll(server, name)), '{"a":1}\n', name);
	}
});

test('everything that was acknowledged is there after kill -9, once and in order, however often the server dies', async (t) => {
	const server = await start(t);
	const names = ['one', 'two', 'three'];
	for (const name of names) {
		await put(server, name);
	}
	const sent = new Map(names.map((name) => [name, 0]));
	let ends = false;
	/** Sends numbers, each until it is acknowledged; with a producer's headers none is there twice. */
	async function write(name) {
		for (let n = 0; !ends || n === 0; n++) {
			for (;;) {
				const status = await ask(server, 'POST', name, { type: TEXT, body: `${n}\n`, headers: producer('w', 0, n) }).then((answer) => answer.status, () => 0);
				if (status === 200 || status === 204) {
					break;
				}
				assert.ok(status === 0 || status === 503, `${name} ${n}: ${status}`);
				await new Promise(setImmediate);
			}
			sent.set(name, n + 1);
		}
	}
	const writers = names.map(write);
	for (let round = 0; round < 4; round++) {
		const before = new Map(sent);
		await eventually(() => names.every((name) => sent.get(name) >= before.get(name) + 20), 'each writer gets on');
		await server.kill9();
		await server.restart();
	}
	ends = true;
	await Promise.all(writers);
	for (const name of names) {
		assert.equal(String(await readAll(server, name)), Array.from({ length: sent.get(name) }, (_, n) => `${n}\n`).join(''), name);
	}
});

test('a segment of the journal ends when it is large, and goes when the files have it; a file goes with its stream', async (t) => {
	const server = await start(t);
	const piece = Buffer.alloc(1 << 20, 'x');
	await put(server, 'large', { type: BYTES });
	const [first] = segments(server);
	for (let n = 0; n < 20; n++) {
		await post(server, 'large', piece, { type: BYTES });
	}
	await eventually(() => segments(server).length === 1 && segments(server)[0] !== first, 'one segment is left, a later one');
	const [left] = segments(server);
	assert.ok(statSync(join(server.dataDir, 'streams/journal', left)).size < 8 << 20);
	await server.kill9();
	await server.restart();
	assert.ok((await readAll(server, 'large')).equals(Buffer.alloc(20 << 20, 'x')));
	assert.equal(files(server).length, 1);
	assert.equal((await ask(server, 'DELETE', 'large')).status, 204);
	assert.deepEqual([(await ask(server, 'GET', 'large')).status, files(server).length], [404, 0]);
});

test('a chain of forks reads as one stream, also when those in front of it are deleted, and over a restart', async (t) => {
	const server = await start(t);
	await put(server, 'f0', { body: '0' });
	let whole = '0';
	for (let n = 1; n <= 64; n++) {
		await put(server, `f${n}`, { body: String(n), headers: { 'stream-forked-from': `/v1/stream/f${n - 1}` } });
		whole += n;
	}
	const tooDeep = await ask(server, 'PUT', 'f65', { type: TEXT, headers: { 'stream-forked-from': '/v1/stream/f64' } });
	assert.deepEqual([tooDeep.status, JSON.parse(tooDeep.body).error.code], [429, 'too_many_streams']);
	for (let n = 0; n < 64; n++) {
		assert.equal((await ask(server, 'DELETE', `f${n}`)).status, 204);
		assert.equal((await ask(server, 'GET', `f${n}`)).status, 410);
	}
	await server.kill9();
	await server.restart();
	assert.equal(String(await readAll(server, 'f64')), whole);
	assert.equal(String(await readAll(server, 'f64', { offset: offsetOf(5) })), whole.slice(5));
	assert.equal((await ask(server, 'PUT', 'f3', { type: TEXT })).status, 409, 'its name is kept for its forks');
	assert.equal((await ask(server, 'DELETE', 'f64')).status, 204);
	assert.deepEqual([(await ask(server, 'GET', 'f3')).status, files(server).length], [404, 0], 'all of them go with the last');
});

test('a stream whose file is missing on disk cannot be read or forked, and the server goes on', async (t) => {
	const server = await start(t, { allowErrors: true });
	await put(server, 's', { type: JSON_TYPE, body: '[1,2]' });
	await put(server, 'intact', { body: 'x' });
	const offset = (await ask(server, 'HEAD', 's')).headers['stream-next-offset'];
	const [name] = files(server).filter((file) => statSync(join(server.dataDir, 'streams/data', file)).size > 1);
	rmSync(join(server.dataDir, 'streams/data', name));
	for (const [method, path, headers] of [['GET', 's', {}], ['PUT', 'fork', { 'stream-forked-from': '/v1/stream/s', 'stream-fork-offset': offset }]]) {
		const answer = await ask(server, method, path, { headers });
		assert.deepEqual([answer.status, JSON.parse(answer.body).error.code], [503, 'storage_failed'], method);
	}
	assert.equal((await ask(server, 'HEAD', 'fork')).status, 404);
	assert.equal(String(await readAll(server, 'intact')), 'x');
});

test('who may do what: observers and controllers read, producers append, an admin deletes; a token for some sessions has no stream', async (t) => {
	const server = await start(t);
	await put(server, 's', { body: 'x' });
	const status = async (method, name, role, sessions) => (await ask(server, method, name, { type: TEXT, token: role && ownToken(server, role, sessions), ...(method === 'POST' || method === 'PUT' ? { body: 'y' } : {}) })).status;
	for (const [role, read, write, remove] of [[null, 401, 401, 401], ['observer', 200, 403, 403], ['controller', 200, 403, 403], ['producer', 200, 204, 403], ['admin', 200, 204, 204]]) {
		assert.deepEqual([await status('GET', 's', role), await status('HEAD', 's', role), await status('POST', 's', role), await status('PUT', `of-${role}`, role), await status('DELETE', 's', role)],
			[read, read, write, write === 204 ? 201 : write, remove], String(role));
	}
	for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'DELETE']) {
		assert.equal(await status(method, 'of-admin', 'admin', ['of-admin']), 403, method);
	}
});

test("pages of every origin get in with --allow-origin '*', here and nowhere else, with a token and never with cookies", async (t) => {
	const origin = 'https://page.example.org';
	const server = await start(t, { args: ['--allow-origin', '*'] });
	const closed = await start(t);
	const preflight = { origin, 'access-control-request-method': 'PUT', 'access-control-request-headers': 'authorization,stream-ttl,if-none-match' };
	const asked = await ask(server, 'OPTIONS', 's', { headers: preflight, token: null });
	assert.deepEqual([asked.status, asked.headers['access-control-allow-origin'], asked.headers['access-control-allow-credentials']], [204, '*', undefined]);
	assert.match(asked.headers['access-control-allow-methods'], /PUT.*DELETE/);
	for (const name of ['authorization', 'stream-ttl', 'if-none-match', 'producer-id', 'stream-fork-sub-offset']) {
		assert.ok(asked.headers['access-control-allow-headers'].toLowerCase().includes(name), name);
	}
	const made = await ask(server, 'PUT', 's', { type: TEXT, headers: { origin } });
	assert.deepEqual([made.status, made.headers['access-control-allow-origin'], made.headers['cross-origin-resource-policy'], made.headers['access-control-allow-credentials']], [201, '*', 'cross-origin', undefined]);
	assert.equal((await ask(server, 'GET', 's', { headers: { origin }, token: null })).status, 401);
	for (const [at, path] of [[server, '/api/sessions'], [server, '/ds/sessions/s'], [server, '/v1/streams/s'], [closed, '/v1/stream/s']]) {
		const { status, headers } = await at.rawRequest('GET', path, { ...bearer(at.token), origin });
		assert.deepEqual([status, headers['access-control-allow-origin']], [403, undefined], path);
	}
	assert.equal((await closed.rawRequest('GET', '/v1/stream/s', bearer(closed.token))).headers['cross-origin-resource-policy'], 'same-origin');
});

test('limits: streams, their size, their producers, and the disk', async (t) => {
	const server = await start(t, { args: ['--limit', 'streams=2', '--limit', 'stream_size=2K', '--limit', 'stream_producers=2'] });
	await put(server, 'a');
	await put(server, 'b', { body: 'x'.repeat(2048) });
	const refused = async (...args) => {
		const { status, body } = await ask(server, ...args);
		return [status, JSON.parse(body).error.code];
	};
	assert.deepEqual(await refused('PUT', 'c', { type: TEXT }), [429, 'too_many_streams']);
	assert.deepEqual(await refused('POST', 'b', { type: TEXT, body: 'x' }), [413, 'stream_full']);
	await post(server, 'a', '1', { headers: producer('p1', 0, 0) });
	await post(server, 'a', '2', { headers: producer('p2', 0, 0) });
	assert.deepEqual(await refused('POST', 'a', { type: TEXT, body: '3', headers: producer('p3', 0, 0) }), [413, 'stream_full']);
	await post(server, 'a', '4', { headers: producer('p1', 0, 1) });
	assert.equal((await ask(server, 'DELETE', 'b')).status, 204);
	await put(server, 'c');
	assert.equal(String(await readAll(server, 'a')), '124');
	const small = await start(t, { args: ['--limit', 'max_disk=1M'] });
	await put(small, 'a', { type: BYTES });
	const statuses = [];
	await eventually(async () => {
		const { status } = await ask(small, 'POST', 'a', { type: BYTES, body: Buffer.alloc(64 << 10) });
		statuses.push(status);
		return status === 507;
	}, 'the disk is full');
	assert.equal(statuses[0], 204);
	assert.equal((await ask(small, 'GET', 'a')).status, 200);
	assert.equal((await ask(small, 'DELETE', 'a')).status, 204);
	await eventually(async () => (await ask(small, 'PUT', 'b', { type: BYTES, body: 'x' })).status === 201, 'there is room again');
});

test('all streams that have expired make room for others at the same time', async (t) => {
	const server = await start(t, { args: ['--limit', 'streams=3'] });
	const headers = { 'stream-expires-at': new Date(Date.now() + 2000 * patience).toISOString() };
	await put(server, 'a', { headers });
	await put(server, 'b', { headers });
	await put(server, 'fork-of-a', { headers: { ...headers, 'stream-forked-from': '/v1/stream/a' } });
	const made = async (name) => (await ask(server, 'PUT', name, { type: TEXT })).status === 201;
	await eventually(() => made('c'), 'there is room again');
	assert.deepEqual([await made('d'), await made('e'), await made('f')], [true, true, false]);
});

test('the npm client writes and follows: JSON by SSE and bytes by long-poll, over a kill of the server', async (t) => {
	const server = await start(t, { listen: [`127.0.0.1:${await freePort()}`] });
	const headers = bearer(server.token);
	for (const [live, contentType] of [['sse', JSON_TYPE], ['long-poll', BYTES]]) {
		const url = `${server.url}/v1/stream/client-${live}`;
		const backoffOptions = { initialDelay: 20, maxDelay: 200, multiplier: 2 };
		const handle = await DurableStream.create({ url, headers, contentType, backoffOptions });
		const writer = new IdempotentProducer(handle, 'w', { lingerMs: 1, maxInFlight: 1 });
		const abort = new AbortController();
		defer(t, () => abort.abort());
		let seen = '';
		const take = (text, note, offset) => {
			seen += text;
			note(offset);
		};
		await followStream({
			signal: abort.signal,
			open: (offset) => handle.stream({ offset, live, signal: abort.signal }),
			subscribe: (response, note) => contentType === JSON_TYPE
				? response.subscribeJson(async ({ items, offset }) => take(items.map(({ n }) => `${n},`).join(''), note, offset))
				: response.subscribeBytes(async ({ data, offset }) => take(Buffer.from(data), note, offset)),
		});
		let told = '';
		for (let n = 0; n < 60; n++) {
			writer.append(contentType === JSON_TYPE ? JSON.stringify({ n }) : `${n},`);
			told += `${n},`;
			if (n === 30) {
				await writer.flush();
				await server.kill9();
				await server.restart();
			}
		}
		await writer.flush();
		await eventually(() => seen === told, 'all of it, once');
		await writer.close();
		await eventually(async () => (await ask(server, 'HEAD', `client-${live}`)).headers['stream-closed'] === 'true');
	}
});

test('readers of a stream that is deleted, and at a server that stops, are told; each has what came before', async (t) => {
	const server = await start(t);
	await put(server, 's', { body: 'one' });
	const count = async () => (await readMetrics(server))('observers{transport="durable-streams"}');
	const events = [];
	const parser = new EventParser((event) => events.push(event));
	const stream = await fetch(`${server.url}/v1/stream/s?offset=-1&live=sse`, { headers: bearer(server.token) });
	const over = (async () => {
		for await (const bytes of stream.body) {
			parser.push(bytes);
		}
	})();
	const poll = ask(server, 'GET', 's', { query: { offset: offsetOf(3), live: 'long-poll' } });
	await eventually(() => events.length === 2);
	assert.equal(await count(), 1);
	assert.equal((await ask(server, 'DELETE', 's')).status, 204);
	assert.equal((await poll).status, 404);
	await over;
	assert.deepEqual(events.map(({ type }) => type), ['data', 'control']);
	await put(server, 's', { body: 'two' });
	const waits = ask(server, 'GET', 's', { query: { offset: 'now', live: 'long-poll' } });
	await ask(server, 'GET', 's');
	await server.stop();
	assert.equal((await waits).status, 503);
	await server.restart();
	assert.equal(String(await readAll(server, 's')), 'two');
});

async function freePort() {
	const { createServer } = await import('node:net');
	const server = createServer().listen(0, '127.0.0.1');
	await new Promise((resolve) => server.once('listening', resolve));
	const { port } = server.address();
	await new Promise((resolve) => server.close(resolve));
	return port;
}

test('events of text have whole characters, wherever an append has cut it: both halves meet', async (t) => {
	const server = await start(t);
	const text = 'é€😀 and the end\n';
	/** Follows the stream until it ends, from an offset, and gives what a browser would have. */
	async function follow(name, offset, controls = []) {
		let text = '';
		const parser = new EventParser(({ type, data }) => (type === 'data' ? (text += data) : controls.push(JSON.parse(data))));
		const stream = await fetch(`${server.url}/v1/stream/${name}?offset=${offset}&live=sse`, { headers: bearer(server.token) });
		for await (const bytes of stream.body) {
			parser.push(bytes); // which refuses what is not UTF-8
		}
		return text;
	}
	await put(server, 's');
	const controls = [];
	const live = follow('s', '-1', controls);
	const reached = (at) => eventually(() => controls.at(-1)?.streamNextOffset === offsetOf(at) && controls.at(-1).upToDate, `the position ${at}`);
	await reached(0);
	const late = [];
	for (const [n, byte] of Buffer.from(text).entries()) {
		await post(server, 's', Buffer.from([byte]));
		late.push(follow('s', offsetOf([0, 2, 5, 9].findLast((at) => at <= n)))); // begins in front of a character, and may find its beginning only
		const whole = Buffer.byteLength(Buffer.from(text).subarray(0, n + 1).toString().replaceAll('\ufffd', ''));
		await reached(whole);
	}
	await ask(server, 'POST', 's', { headers: { 'stream-closed': 'true' } });
	assert.equal(await live, text);
	for (const rest of await Promise.all(late)) {
		assert.ok(text.endsWith(rest) && rest.length > 0, rest);
	}
	await put(server, 'half', { body: Buffer.from([0x61, 0xf0, 0x9f]) });
	const cut = [];
	const open = await fetch(`${server.url}/v1/stream/half?offset=-1&live=sse`, { headers: bearer(server.token) });
	const reader = (async () => {
		for await (const bytes of open.body) {
			cut.push(bytes);
		}
	})();
	await eventually(() => Buffer.concat(cut).includes('control'));
	assert.ok(Buffer.concat(cut).includes(`data:a\n\nevent: control\ndata:{"streamNextOffset":"${offsetOf(1)}"`));
	await ask(server, 'POST', 'half', { headers: { 'stream-closed': 'true' } });
	await reader;
	assert.ok(Buffer.concat(cut).includes(Buffer.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xf0, 0x9f])), 'at the end nothing is kept back');
	assert.ok(Buffer.concat(cut).includes(`"streamNextOffset":"${offsetOf(3)}","streamClosed":true`));
});
