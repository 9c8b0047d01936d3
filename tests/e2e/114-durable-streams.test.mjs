// The door for clients of Durable Streams: npm @durable-streams/client, unchanged, reads sessions in every way that it has, over kills and restarts; and
// what the protocol says of each answer.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { DurableStream, stream } from '@durable-streams/client';
import { followStream } from '../support/durable_streams.mjs';
import { readLog } from '../support/log.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { input, post } from '../support/producer.mjs';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { EventParser } from '../support/sse.mjs';
import { bearer, claims, makeToken, ownToken, secretOf } from '../support/tokens.mjs';
import { Waiters, defer, eventually, within } from '../support/wait.mjs';

const LIVE = ['sse', 'long-poll'];
const MODES = [...LIVE, false];

async function start(t, { args = [], ...options } = {}) {
	const server = await Server.start(t, { args: ['--limit', 'poll_ms=1000', ...args], ...options });
	await server.createSession({ id: 's' });
	return server;
}

const notes = (count, from = 0) => Array.from({ length: count }, (_, n) => input.note({ n: from + n }));
const offsetOf = (epoch, seq) => `${epoch}_${String(seq).padStart(16, '0')}`;

async function freePort() {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address();
	await new Promise((resolve) => server.close(resolve));
	return port;
}

/** An answer: {status, headers, body}; `query` goes into the address. */
function ask(server, query, { method = 'GET', id = 's', headers = {} } = {}) {
	return server.request(method, `/ds/sessions/${id}?${new URLSearchParams(query)}`, { headers });
}

async function logOf(server, more = '') {
	const { body } = await server.request('GET', `/api/sessions/s/events?after_seq=0&limit=5000${more}`);
	return body.events;
}

/** Follows with the client until the test ends; {items, offset, until()}. */
async function follow(t, server, { offset = '-1', live, headers = bearer(server.token), ...more }) {
	const abort = new AbortController();
	const waiters = new Waiters();
	const seen = { items: [], offset, errors: [] };
	const onError = (error) => void seen.errors.push(error);
	await followStream({
		offset, signal: abort.signal, onError,
		open: (from) => stream({
			url: `${server.url}/ds/sessions/s`, headers, json: true, offset: from, live, signal: abort.signal, ...more,
			backoffOptions: { initialDelay: 20, maxDelay: 200, multiplier: 2 }, onError,
		}),
		subscribe: (response, note) => response.subscribeJson(async ({ items, offset: next }) => {
			seen.items.push(...items);
			note(seen.offset = next);
			waiters.wake();
		}),
	});
	seen.until = (count) => waiters.until(() => seen.items.length >= count, 30_000, () => `${count} events, of which there are ${seen.items.length}; ${seen.errors}`);
	seen.stop = () => abort.abort();
	defer(t, seen.stop);
	return seen;
}

for (const live of LIVE) {
	test(`live=${live}: the client reads all pages of a log, and behind an offset exactly the rest`, async (t) => {
		const server = await start(t, { args: ['--limit', 'page_size=4K'] });
		const { max_seq: last, epoch } = await post(server, 's', notes(500));
		const all = await follow(t, server, { live });
		await all.until(last);
		const events = readLog(server, 's');
		assert.deepEqual(all.items, events);
		assert.equal(all.offset, offsetOf(epoch, last));
		const rest = await follow(t, server, { live, offset: offsetOf(epoch, last - 7) });
		await rest.until(7);
		assert.deepEqual(rest.items, events.slice(-7));
	});
}

test('live=false: the client reads page by page, until it has all there is', async (t) => {
	const server = await start(t, { args: ['--limit', 'page_size=4K'] });
	await post(server, 's', notes(500));
	const seen = [];
	let pages = 0;
	for (let offset = '-1', done = false; !done; pages++) {
		const page = await stream({ url: `${server.url}/ds/sessions/s`, headers: bearer(server.token), json: true, live: false, offset });
		seen.push(...await page.json());
		({ offset, upToDate: done } = page);
	}
	assert.deepEqual(seen, readLog(server, 's'));
	assert.ok(pages > 3);
});

for (const live of LIVE) {
	test(`live=${live}: each event comes as it is written; killed and restarted, the client misses nothing`, async (t) => {
		const server = await start(t, { listen: [`127.0.0.1:${await freePort()}`] });
		const now = await follow(t, server, { live, offset: 'now' });
		const all = await follow(t, server, { live });
		for (let n = 0; n < 5; n++) {
			const { max_seq: last } = await post(server, 's', notes(1, n));
			await Promise.all([all.until(last), now.until(last)]);
		}
		await server.kill9();
		await server.restart();
		const { max_seq: last } = await post(server, 's', notes(20, 5));
		await Promise.all([all.until(last), now.until(last)]);
		const events = await logOf(server);
		assert.deepEqual([all.items, now.items], [events, events]);
	});
}

test('a token that hides something hides it here; a revoked one reads no further', async (t) => {
	const server = await start(t);
	await post(server, 's', [input.thought('secret'), input.text('open'), input.end()]);
	const { holdfast, ...rest } = claims('observer', ['s']);
	const jti = 'to-go';
	const headers = bearer(makeToken({ ...rest, jti, holdfast: { ...holdfast, hide: ['thoughts'] } }, secretOf(server)));
	const readers = await Promise.all(MODES.map((live) => follow(t, server, { live, headers })));
	for (const reader of readers) {
		await reader.until(3);
		assert.ok(!JSON.stringify(reader.items).includes('secret'));
		assert.deepEqual(reader.items.map(({ redacted }) => redacted), [true, undefined, undefined]);
	}
	assert.equal((await server.request('POST', '/api/tokens/revoke', { json: { jti } })).status, 204);
	await eventually(() => readers.slice(0, 2).every(({ errors }) => errors.length > 0), 'they are refused');
	await post(server, 's', notes(1));
	assert.ok(readers.every(({ items }) => items.length === 3));
	assert.equal((await ask(server, { offset: '-1' }, { headers })).status, 401);
});

test('headers: next offset, up to date, ETag and 304, HEAD, what may be cached, and compression', async (t) => {
	const server = await start(t, { args: ['--limit', 'page_size=4K'] });
	const { max_seq: last, epoch } = await post(server, 's', notes(200));
	const first = await ask(server, { offset: '-1' });
	assert.equal(first.status, 200);
	assert.equal(first.headers.get('content-type'), 'application/json');
	assert.equal(first.headers.get('cache-control'), 'private, no-cache');
	assert.equal(first.headers.get('x-content-type-options'), 'nosniff');
	assert.equal(first.headers.get('stream-up-to-date'), null, 'there are more pages');
	assert.equal(first.headers.get('stream-next-offset'), offsetOf(epoch, first.body.at(-1).seq));
	assert.deepEqual((await ask(server, {})).body, first.body, 'without an offset it is the beginning');

	const tail = await ask(server, { offset: offsetOf(epoch, last - 2) });
	assert.equal(tail.headers.get('stream-up-to-date'), 'true');
	const etag = tail.headers.get('etag');
	const again = await server.rawRequest('GET', `/ds/sessions/s?offset=${offsetOf(epoch, last - 2)}`, { ...bearer(server.token), 'if-none-match': etag });
	assert.deepEqual([again.status, again.body], [304, '']);
	assert.equal(again.headers['stream-next-offset'], offsetOf(epoch, last));
	const { max_seq: later } = await post(server, 's', notes(1));
	const grown = await ask(server, { offset: offsetOf(epoch, last - 2) }, { headers: { 'if-none-match': etag } });
	assert.deepEqual([grown.status, grown.body.length, grown.headers.get('etag') === etag], [200, 3, false]);

	for (const offset of ['now', offsetOf(epoch, later)]) {
		const empty = await ask(server, { offset });
		assert.deepEqual([empty.status, empty.body, empty.headers.get('stream-up-to-date')], [200, [], 'true']);
		assert.equal(empty.headers.get('stream-next-offset'), offsetOf(epoch, later));
	}
	const found = await DurableStream.head({ url: `${server.url}/ds/sessions/s`, headers: bearer(server.token) });
	assert.deepEqual([found.exists, found.contentType, found.offset], [true, 'application/json', offsetOf(epoch, later)]);
	const packed = await server.rawRequest('GET', '/ds/sessions/s?offset=-1', { ...bearer(server.token), 'accept-encoding': 'gzip' });
	assert.equal(packed.headers['content-encoding'], 'gzip');
});

test('a poll ends with what is new or, in time, with nothing; its cursor never goes back', async (t) => {
	const server = await start(t);
	const { epoch } = await post(server, 's', notes(1));
	const none = await ask(server, { offset: 'now', live: 'long-poll' });
	assert.equal(none.status, 204);
	assert.equal(none.headers.get('stream-up-to-date'), 'true');
	const cursor = none.headers.get('stream-cursor');
	assert.match(cursor, /^[0-9]+$/);
	const query = { offset: none.headers.get('stream-next-offset'), live: 'long-poll', cursor };
	const waits = ask(server, query);
	await eventually(async () => (await readMetrics(server))('observers{transport="durable-streams"}') === 1);
	await post(server, 's', notes(1, 1));
	const one = await waits;
	assert.deepEqual([one.status, one.body.map(({ seq }) => seq), one.headers.get('stream-next-offset')], [200, [2], offsetOf(epoch, 2)]);
	assert.ok(BigInt(one.headers.get('stream-cursor')) > BigInt(cursor), 'the same address is not asked for twice');
	for (const odd of ['x', '-1', '9'.repeat(30), '']) {
		assert.ok([200, 204].includes((await ask(server, { ...query, cursor: odd })).status), odd);
	}
	await eventually(async () => (await readMetrics(server))('observers{transport="durable-streams"}') === 0, 'nobody is left');
});

test('who waits is told when the session is deleted, and when the server stops', async (t) => {
	const server = await start(t, { args: ['--limit', 'poll_ms=60000'] });
	const count = async () => (await readMetrics(server))('observers{transport="durable-streams"}');
	const waits = ask(server, { offset: 'now', live: 'long-poll' });
	const streams = await follow(t, server, { live: 'sse' });
	await eventually(async () => (await count()) === 2);
	await server.request('DELETE', '/api/sessions/s');
	assert.deepEqual([(await waits).status, (await waits).body.error.code], [404, 'not_found']);
	await eventually(() => streams.errors.length > 0, 'the stream ends, and the next request is refused');
	await server.createSession({ id: 's' });
	const stops = ask(server, { offset: 'now', live: 'long-poll' });
	await eventually(async () => (await count()) === 1);
	await server.stop();
	assert.deepEqual([(await stops).status, (await stops).body.error.code], [503, 'shutting_down']);
	await server.restart();
});

test('a poll whose client has gone is over, and so is one behind which the next request comes', async (t) => {
	const server = await start(t, { args: ['--limit', 'poll_ms=600000'] });
	const count = async () => (await readMetrics(server))('observers{transport="durable-streams"}');
	const abort = new AbortController();
	const gone = fetch(`${server.url}/ds/sessions/s?offset=now&live=long-poll`, { headers: bearer(server.token), signal: abort.signal });
	gone.catch(() => {});
	await eventually(async () => (await count()) === 1);
	abort.abort();
	await eventually(async () => (await count()) === 0);
	const socket = await RawSocket.connect(t, server);
	await socket.send(head('GET', '/ds/sessions/s?offset=now&live=long-poll', bearer(server.token)));
	await eventually(async () => (await count()) === 1);
	await socket.send(head('GET', '/healthz'));
	assert.deepEqual([(await socket.answer()).status, (await socket.answer()).status], [204, 200]);
});

test('an offset of another epoch, one that is ahead, and one that was pruned are 410; -1 is the first event that is kept', async (t) => {
	const server = await start(t, { args: ['--keep-events', '20', '--limit', 'prune_ms=10', '--limit', 'prune_size=1'] });
	const { epoch } = await post(server, 's', notes(100));
	await eventually(async () => (await server.request('GET', '/api/sessions/s')).body.first_seq === 81);
	for (const live of ['', ...LIVE]) {
		for (const [offset, status] of [[offsetOf('0123456789abcdef', 90), 410], [offsetOf(epoch, 101), 410], [offsetOf(epoch, 79), 410]]) {
			const { status: got, body } = await ask(server, { offset, ...(live && { live }) });
			assert.deepEqual([got, body.error.code], [status, 'gone'], `${offset} ${live}`);
		}
	}
	assert.equal((await ask(server, { offset: offsetOf(epoch, 80) })).body[0].seq, 81);
	assert.equal((await ask(server, { offset: '-1' })).body[0].seq, 81);
});

test('server-sent events: after each data comes a control; a log without events begins with one', async (t) => {
	const server = await start(t);
	const seen = [];
	const waiters = new Waiters();
	const abort = new AbortController();
	defer(t, () => abort.abort());
	const { body, headers } = await fetch(`${server.url}/ds/sessions/s?offset=-1&live=sse`, { headers: bearer(server.token), signal: abort.signal });
	assert.equal(headers.get('content-type'), 'text/event-stream');
	const parser = new EventParser(({ type, data }) => seen.push([type, JSON.parse(data)]));
	const ended = (async () => {
		for await (const bytes of body) {
			parser.push(bytes);
			waiters.wake();
		}
	})().catch(() => {});
	const until = (count) => waiters.until(() => seen.length >= count, 20_000, () => JSON.stringify(seen));
	await until(1);
	const { epoch } = await post(server, 's', notes(2));
	await until(3);
	assert.deepEqual(seen.map(([type]) => type), ['control', 'data', 'control']);
	assert.deepEqual(seen[1][1], await logOf(server));
	assert.deepEqual([seen[0], seen[2]].map(([, { streamNextOffset: next, upToDate }]) => [next, upToDate]), [[offsetOf(epoch, 0), true], [offsetOf(epoch, 2), true]]);
	assert.ok(seen.every(([type, data]) => type === 'data' || /^[0-9]+$/.test(data.streamCursor)));
	await server.stop();
	await within(ended, 20_000, () => 'the end of the stream');
	assert.equal(seen.length, 3, `what other clients are told of the end is not of this protocol: ${JSON.stringify(seen[3])}`);
});

test('hostile requests are refused, each with words', async (t) => {
	const server = await start(t);
	const { epoch } = await post(server, 's', notes(1));
	const good = offsetOf(epoch, 1);
	const bad = ['offset=', 'offset=0', 'offset=-2', 'offset=NOW', 'offset=-1&offset=-1', `offset=${good}0`, `offset=${good.slice(1)}`, `offset=${good.toUpperCase()}x`, `offset=${epoch}_9999999999999999`, `offset=${epoch}-0000000000000001`,
		`offset=${epoch}_000000000000000%00`, `offset=${'g'.repeat(16)}_0000000000000001`, 'live=sse', 'live=long-poll', 'offset=-1&live=', 'offset=-1&live=websocket', 'offset=-1&x=1', 'offset=-1&format=pdf', 'offset=%zz', `offset=${'1'.repeat(3000)}`];
	for (const query of bad) {
		const { status, body } = await server.request('GET', `/ds/sessions/s?${query}`);
		assert.deepEqual([status, body.error?.code], [400, 'bad_request'], query);
		assert.ok(body.error.message.length > 10);
	}
	for (const [method, path, status] of [['PUT', '/ds/sessions/s', 405], ['POST', '/ds/sessions/s', 405], ['DELETE', '/ds/sessions/s', 405], ['GET', '/ds/sessions/none', 404], ['GET', '/ds/sessions/', 404], ['GET', '/ds/', 404], ['GET', '/ds/sessions/s/x', 404],
		['GET', '/ds/sessions/..', 404], ['GET', '/ds/sessions/%2e%2e%2fs', 404], ['HEAD', '/ds/sessions/s?offset=x', 400]]) {
		assert.equal((await server.rawRequest(method, path, {})).status, status, `${method} ${path}`);
	}
	assert.equal((await server.rawRequest('GET', '/ds/sessions/s?offset=-1&live=sse', { 'content-length': '2' }, 'hi')).status, 400);
	assert.equal((await ask(server, { offset: '-1' }, { headers: bearer(ownToken(server, 'admin', ['other'])) })).status, 404);
});

test('the code of the docs follows a session', async (t) => {
	const server = await start(t);
	const docs = readFileSync(fileURLToPath(new URL('../../docs/durable-streams.md', import.meta.url)), 'utf8');
	const dir = scratchDir(t);
	writeFileSync(join(dir, 'follow.mjs'), /^```js\n([\s\S]*?)^```$/m.exec(docs)[1].replace('http://127.0.0.1:8080', server.url));
	symlinkSync(fileURLToPath(new URL('../node_modules', import.meta.url)), join(dir, 'node_modules'));
	const { follow: followAsTold } = await import(pathToFileURL(join(dir, 'follow.mjs')));
	const abort = new AbortController();
	defer(t, () => abort.abort());
	const seen = [];
	let next;
	const options = { take: (event, offset) => { seen.push(event); next = offset; }, signal: abort.signal };
	(await followAsTold('s', server.token, options)).closed.catch(() => {});
	await post(server, 's', [input.text('Hello **you**'), input.end()]);
	await eventually(() => seen.length === 2, 'both events');
	assert.deepEqual(seen, await logOf(server, '&format=markdown'));
	(await followAsTold('s', server.token, { ...options, offset: next, live: 'long-poll' })).closed.catch(() => {});
	const { max_seq: last } = await post(server, 's', notes(1));
	await eventually(() => seen.filter(({ seq }) => seq === last).length === 2, 'it goes on');
});
