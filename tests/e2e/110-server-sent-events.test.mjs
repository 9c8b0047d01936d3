// Server-sent events: the events of a session and the feed for whoever has only HTTP. What the WebSocket's observers get, in the same order, with the same
// numbers, rights and limits; and a position that resumes after anything.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { readMetrics } from '../support/metrics.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { EventParser, EventStream } from '../support/sse.mjs';
import { bearer, claims, makeToken, ownToken, secretOf } from '../support/tokens.mjs';
import { defer, eventually, within } from '../support/wait.mjs';

const STREAM = { accept: 'text/event-stream' };
const notes = (count, from = 0) => Array.from({ length: count }, (_, n) => input.note({ n: from + n }));

async function start(t, options) {
	const server = await Server.start(t, options);
	await server.createSession({ id: 's' });
	return server;
}

async function allOf(server, format = 'html') {
	const { body } = await server.request('GET', `/api/sessions/s/events?after_seq=0&limit=5000&format=${format}`);
	return body.events;
}

const typesOf = (stream) => stream.all.map(({ type }) => type);

test('a stream is what a page has: connected, the newest events, state, live, and then what comes', async (t) => {
	const server = await start(t);
	await post(server, 's', notes(60));
	const stream = await EventStream.session(t, server, 's');
	await stream.waitFor('live');
	assert.equal(stream.head['x-accel-buffering'], 'no');
	assert.deepEqual(typesOf(stream), ['connected', ...Array(50).fill('x-note'), 'state', 'live']);
	assert.equal(stream.events[0].seq, 11);
	assert.ok(stream.retry >= 500 && stream.retry < 1500, String(stream.retry));
	const { max_seq: last } = await post(server, 's', [input.text('# One\n\nTwo **three**'), input.end()]);
	await stream.waitForSeq(last);
	assert.deepEqual(stream.events, (await allOf(server)).slice(10), 'byte for byte what a page has');
	await server.request('DELETE', '/api/sessions/s');
	assert.deepEqual((await stream.waitFor('session_gone')).data, { session_id: 's', reason: 'deleted' });
	await stream.waitEnd();
});

test('where a stream begins: limit, after, Last-Event-ID, and what does not fit', async (t) => {
	const server = await start(t, { args: ['--keep-events', '20', '--limit', 'prune_ms=10', '--limit', 'prune_size=1'] });
	const { epoch } = await post(server, 's', notes(100));
	const seqs = async (query, lastId) => {
		const stream = await EventStream.session(t, server, 's', { query, lastId });
		await stream.waitFor('live');
		stream.abort();
		const reset = stream.all.find(({ type }) => type === 'reset')?.data.reason;
		return [reset, stream.events[0]?.seq, stream.events.length, stream.lastId];
	};
	await eventually(async () => (await server.request('GET', '/api/sessions/s')).body.first_seq === 81);
	const id = (seq) => `${epoch}-${seq}`;
	for (const [query, lastId, ...wanted] of [
		[{}, undefined, undefined, 81, 20, id(100)],
		[{ limit: 3 }, undefined, undefined, 98, 3, id(100)],
		[{ limit: 0 }, undefined, undefined, undefined, 0, id(100)],
		[{ after: 98 }, undefined, undefined, 99, 2, id(100)],
		[{ after: id(97) }, undefined, undefined, 98, 3, id(100)],
		[{ after: id(97) }, id(99), undefined, 100, 1, id(100)],
		[{ after: 97 }, '', undefined, 98, 3, id(100)],
		[{ after: id(97), lastEventId: id(99) }, undefined, undefined, 100, 1, id(100)], // event-source-polyfill
		[{ lastEventId: id(97) }, id(99), undefined, 100, 1, id(100)],
		[{ after: 97, lastEventId: '' }, undefined, undefined, 98, 3, id(100)],
		[{ after: 100 }, undefined, undefined, undefined, 0, ''],
		[{}, id(80), undefined, 81, 20, id(100)],
		[{}, id(79), 'pruned', 81, 20, id(100)],
		[{ after: 0, limit: 5 }, undefined, 'pruned', 96, 5, id(100)],
		[{}, id(101), 'ahead', 81, 20, id(100)],
		[{ limit: 0 }, id(101), 'ahead', undefined, 0, id(100)],
		[{}, `0000000000000001-90`, 'epoch', 81, 20, id(100)],
	]) {
		assert.deepEqual(await seqs(query, lastId), wanted, JSON.stringify([query, lastId]));
	}
});

test('what makes no sense is refused before the stream begins', async (t) => {
	const server = await start(t);
	const bad = [
		...['after=x', 'after=-1', 'after=', 'after=1x', 'after=00000000000000000', 'after=9007199254740992', 'after=0123456789abcdeF-1', 'after=0123456789abcdef-', 'after=1&after=2',
			'lastEventId=x', 'lastEventId=1&lastEventId=2', 'lasteventid=1', 'limit=-1', 'limit=5001', 'limit=x', 'limit=', 'format=xml', 'deltas=all', 'x=1', 'after_seq=1', 'token=x', 'after=%00', 'after=%0a1'].map((query) => [query, {}]),
		...['x', '1\t2', 'é', '0123456789abcdef-1-', '0123456789abcdef 1', `${'1'.repeat(200)}`, '18446744073709551616'].map((id) => ['', { 'last-event-id': id }]),
		['', { 'last-event-id': ['0', '1'] }],
	];
	for (const [query, headers] of bad) {
		const { status, body } = await server.rawRequest('GET', `/api/sessions/s/events?${query}`, { ...STREAM, ...headers });
		assert.deepEqual([status, JSON.parse(body).error.code], [400, 'bad_request'], `${query} ${JSON.stringify(headers)}`);
	}
	const raw = await RawSocket.connect(t, server);
	await raw.send(head('GET', '/api/sessions/s/events', { ...STREAM, ...bearer(server.token), 'Content-Length': 2 }) + '{}');
	assert.equal((await raw.answer()).status, 400, 'no body');
	for (const path of ['/api/events?after=1', '/api/events?x']) {
		assert.equal((await server.rawRequest('GET', path, STREAM)).status, 400, path);
	}
	assert.equal((await server.rawRequest('GET', '/api/events')).status, 426, 'without Accept it is a WebSocket');
	assert.equal((await server.rawRequest('GET', '/api/sessions/none/events', STREAM)).status, 404);
	assert.equal((await server.rawRequest('GET', '/api/sessions/s/events', { accept: 'application/json' })).headers['content-type'], 'application/json');
	const two = await EventStream.session(t, server, 's', { headers: { accept: 'application/json, text/event-stream' } });
	await two.waitFor('live');
});

test('deltas: what grows is told as it grows, and what is open at the beginning as one', async (t) => {
	const server = await start(t);
	const early = await EventStream.session(t, server, 's', { query: { deltas: 'text', format: 'markdown' } });
	await early.waitFor('live');
	await post(server, 's', input.text('One, '));
	await early.waitFor('delta');
	const late = await EventStream.session(t, server, 's', { query: { deltas: 'text', format: 'markdown' } });
	const html = await EventStream.session(t, server, 's', { query: { deltas: 'html' } });
	await Promise.all([late.waitFor('live'), html.waitFor('live')]);
	await post(server, 's', [input.text('two, '), input.text('three.')]);
	await early.waitFor(({ type, data }) => type === 'delta' && data.text.endsWith('three.'));
	await html.waitFor(({ type, data }) => type === 'preview' && data.html.includes('three.'));
	await post(server, 's', [input.end()]);
	for (const stream of [early, late]) {
		await stream.waitForSeq(2);
		const text = stream.all.filter(({ type, data }) => type === 'delta' && data.seq === 1).map(({ data }) => data.text).join('');
		assert.equal(text, 'One, two, three.');
		assert.equal(stream.events[0].data.markdown, text);
	}
	const none = await EventStream.session(t, server, 's');
	await none.waitFor('live');
	assert.ok(!typesOf(none).includes('delta'));
});

test('the feed: the list, and what becomes of it', async (t) => {
	const server = await start(t, { args: ['--limit', 'list_max=2'] });
	for (const id of ['a', 'b', 'c']) {
		await server.createSession({ id });
	}
	const feed = await EventStream.open(t, server, '/api/events', { gzip: true });
	await feed.waitFor(({ type, data }) => type === 'sessions' && !data.more);
	assert.deepEqual(feed.all.flatMap(({ data }) => data.sessions.map(({ id }) => id)).sort(), ['a', 'b', 'c', 's']);
	await post(server, 'b', notes(1));
	await feed.waitFor(({ type, data }) => type === 'session_changed' && data.session.id === 'b' && data.session.max_seq === 1);
	await server.createSession({ id: 'd' });
	await feed.waitFor(({ type, data }) => type === 'session_created' && data.session.id === 'd');
	await server.request('DELETE', '/api/sessions/d');
	await feed.waitFor(({ type, data }) => type === 'session_deleted' && data.session_id === 'd');
});

test('compressed, all observers share what is packed once, and each stream is one whole gzip file', async (t) => {
	const server = await start(t);
	await post(server, 's', notes(5));
	const first = await EventStream.session(t, server, 's', { gzip: true, query: { after: 0, format: 'markdown' } });
	await first.waitFor('live');
	const random = Array.from({ length: 90_000 }, (_, n) => String.fromCharCode(33 + (n * 7919 + (n * n) % 977) % 90)).join('').replaceAll(/["\\]/g, 'x');
	await post(server, 's', [input.note({ random }), ...notes(400)]);
	const raw = await RawSocket.connect(t, server);
	await raw.send(head('GET', '/api/sessions/s/events?after=0&format=markdown', { ...STREAM, ...bearer(server.token), 'Accept-Encoding': 'gzip' }));
	const late = await EventStream.session(t, server, 's', { query: { after: 0, format: 'markdown' } });
	const { max_seq: last } = await post(server, 's', [input.text('x'.repeat(3000)), input.end()]);
	await Promise.all([first.waitForSeq(last), late.waitForSeq(last)]);
	assert.deepEqual(first.events, late.events);
	await server.stop();
	const { bytes: body, headers } = await raw.answer(); // in chunks, which tell its end from a break
	assert.equal(headers['transfer-encoding'], 'chunked');
	const seen = [];
	new EventParser(({ id, data }) => id && seen.push(JSON.parse(data))).push(gunzipSync(body)); // its sum and size are checked
	assert.deepEqual(seen, late.events);
	await first.waitEnd();
	assert.equal(first.cut, undefined);
	assert.ok(body.length < late.bytes / 2, `${body.length} of ${late.bytes}`);
	await server.restart();
});

/** A line of TCP that is cut after so many bytes of what the server says, each time the next number; then no more. */
class Cutter {
	#listener = net.createServer((client) => this.#accept(client));
	cuts = [];

	static async start(t, server) {
		const cutter = new Cutter();
		cutter.port = () => new URL(server.url).port;
		cutter.#listener.listen(0, '127.0.0.1');
		await once(cutter.#listener, 'listening');
		defer(t, () => cutter.#listener.close());
		cutter.url = `http://127.0.0.1:${cutter.#listener.address().port}`;
		return cutter;
	}

	#accept(client) {
		const upstream = net.connect(this.port(), '127.0.0.1');
		let left = this.cuts.shift() ?? Infinity;
		const end = () => {
			client.destroy();
			upstream.destroy();
		};
		client.on('data', (d) => upstream.write(d)).on('error', end).on('close', end);
		upstream.on('data', (d) => {
			client.write(d.subarray(0, left));
			left -= d.length;
			if (left <= 0) {
				client.end();
				upstream.destroy();
			}
		}).on('error', end).on('close', end);
	}
}

test('cut at any byte, a stream goes on where its last whole event was', async (t) => {
	const server = await start(t);
	const { max_seq: last } = await post(server, 's', [...notes(12), input.text('Ein schöner 👋 Satz.\n\n- 1\u2028\n'), input.tool('t'), input.end()]);
	const all = await allOf(server);
	const whole = await EventStream.session(t, server, 's', { query: { after: 0 } });
	await whole.waitFor('live');
	const cutter = await Cutter.start(t, server);
	const at = { url: cutter.url };
	for (const gzip of [false, true]) {
		for (let byte = 1; byte < whole.bytes + 500; byte += gzip ? 97 : 41) {
			cutter.cuts = [byte];
			const seen = [];
			let lastId;
			for (let attempt = 0; seen.length < last; attempt++) {
				assert.ok(attempt < 3, `byte ${byte}: ${seen.length} events`);
				const stream = await EventStream.session(t, at, 's', { gzip, lastId, query: lastId ? {} : { after: 0 }, headers: bearer(server.token) });
				await stream.until(() => stream.ended || stream.all.some(({ type }) => type === 'live'), 'the end or live');
				seen.push(...stream.events);
				lastId = stream.lastId || undefined;
				stream.abort();
			}
			assert.deepEqual(seen, all, `cut after ${byte} bytes, gzip ${gzip}`);
		}
	}
});

test('killed and started again in the middle of an answer, a stream resumes exactly', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 400') });
	const seen = [];
	let lastId;
	for (let round = 0; round < 4; round++) {
		const asker = await Observer.connect(t, server, 's');
		await asker.loadAll();
		const stream = await EventStream.session(t, server, 's', { gzip: round % 2 === 1, lastId, query: { after: 0, deltas: 'text' } });
		await asker.prompt('long 20');
		await stream.until(() => stream.events.filter(({ type }) => type === 'agent_message').length > 3, 'a few events');
		await server.kill9();
		await stream.waitEnd();
		seen.push(...stream.events);
		assert.deepEqual(stream.all.filter(({ type }) => type === 'reset'), [], 'the position stays good');
		lastId = stream.lastId;
		await server.restart();
	}
	const stream = await EventStream.session(t, server, 's', { lastId, query: { after: 0 } });
	await stream.waitFor('live');
	const { max_seq: last } = (await server.request('GET', '/api/sessions/s')).body;
	seen.push(...await stream.waitForSeq(last));
	assert.deepEqual(seen.slice(0, last), (await allOf(server)).slice(0, last));
});

/** More than the kernel keeps for a client that does not read. */
async function postMuch(server) {
	const note = { text: 'n'.repeat(40_000) };
	for (let i = 0; i < 60; i++) {
		await post(server, 's', Array.from({ length: 5 }, () => input.note(note)));
	}
	return 300;
}

test('who does not read for a while costs nobody anything, and misses nothing', async (t) => {
	const server = await start(t);
	const slow = await EventStream.session(t, server, 's', { query: { after: 0, deltas: 'text', format: 'markdown' } });
	const fast = await EventStream.session(t, server, 's', { query: { format: 'markdown' } });
	await Promise.all([slow.waitFor('live'), fast.waitFor('live')]);
	slow.pause();
	const last = await postMuch(server);
	await fast.waitForSeq(last);
	assert.ok(slow.events.length < last);
	slow.resume();
	await slow.waitForSeq(last);
	assert.deepEqual(slow.events.map(({ seq }) => seq), fast.events.map(({ seq }) => seq));
});

test('who takes nothing for long is cut off', async (t) => {
	const server = await start(t, { args: ['--limit', 'comment_ms=100', '--limit', 'ping_ms=500', '--limit', 'pong_ms=500'] });
	await postMuch(server);
	const observers = async () => (await readMetrics(server))('observers{transport="sse"}');
	const stuck = await RawSocket.connect(t, server);
	await stuck.send(head('GET', '/api/sessions/s/events?after=0&format=markdown', { ...STREAM, ...bearer(server.token) }));
	stuck.pause();
	await eventually(async () => (await readMetrics(server))('loads_total{kind="after"}') === 1);
	await eventually(async () => (await observers()) === 0, 'it is cut off');
});

test('a comment after silence, and streams that are taken stay', async (t) => {
	const server = await start(t, { args: ['--limit', 'comment_ms=100', '--limit', 'ping_ms=300', '--limit', 'pong_ms=300'] });
	const streams = await Promise.all([false, true].map((gzip) => EventStream.session(t, server, 's', { gzip })));
	const feed = await EventStream.open(t, server, '/api/events');
	await Promise.all([...streams, feed].map((stream) => stream.until(() => stream.comments >= 4, 'four comments')));
	assert.ok([...streams, feed].every(({ ended }) => !ended));
});

test('a server that stops says when to come back, and so it does to who comes meanwhile', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 5'), args: ['--limit', 'drain_retry_ms=7000', '--limit', 'drain_ms=4000'] });
	const asker = await Observer.connect(t, server, 's');
	await asker.loadAll();
	await asker.prompt('long');
	const streams = [await EventStream.session(t, server, 's'), await EventStream.open(t, server, '/api/events')];
	await streams[0].waitFor('live');
	await server.stop();
	for (const stream of streams) {
		await stream.waitEnd();
		assert.deepEqual(stream.all.at(-1), { type: 'draining', data: { retry_after_ms: 7000 }, id: undefined });
		assert.ok(stream.retry >= 7000 && stream.retry < 7500);
	}
});

test('tokens that end, end their streams: expired, revoked, and logins that are logged out', async (t) => {
	const server = await start(t);
	const watch = (claim) => EventStream.session(t, server, 's', { headers: bearer(makeToken(claim, secretOf(server))) });
	const short = await watch(claims('observer', ['s'], { exp: Math.floor(Date.now() / 1000) + 2 }));
	const revoked = await watch({ ...claims('observer', ['s']), jti: 'gone' });
	const feed = await EventStream.open(t, server, '/api/events', { headers: bearer(makeToken({ ...claims('observer', ['s']), jti: 'gone' }, secretOf(server))) });
	const stays = await watch(claims('observer', ['s']));
	await Promise.all([short, revoked, stays].map((stream) => stream.waitFor('live')));
	assert.equal((await server.request('POST', '/api/tokens/revoke', { json: { jti: 'gone' } })).status, 204);
	for (const [stream, code] of [[revoked, 'token_revoked'], [feed, 'token_revoked'], [short, 'token_expired']]) {
		assert.equal((await stream.waitFor('ended')).data.code, code);
		await stream.waitEnd();
	}
	const { max_seq } = await post(server, 's', notes(1));
	await stays.waitForSeq(max_seq);
	const origin = { origin: server.url, authorization: undefined };
	const { headers, body } = await server.request('POST', '/api/login', { json: { token: server.token }, headers: origin });
	const login = { authorization: undefined, cookie: headers.get('set-cookie').split(';')[0], 'holdfast-login': body.login };
	const own = await EventStream.session(t, server, 's', { headers: login });
	await own.waitFor('live');
	assert.equal((await EventStream.session(t, server, 's', { headers: { ...login, 'holdfast-login': undefined } })).refusal.status, 401, 'a cookie alone opens nothing');
	assert.equal((await server.rawRequest('DELETE', '/api/login', { ...login, origin: server.url })).status, 204);
	assert.equal((await own.waitFor('ended')).data.code, 'token_revoked');
});

test('pages of other sites open no stream; those of --allow-origin do, with a token', async (t) => {
	const server = await start(t, { args: ['--allow-origin', 'https://app.example.org'] });
	const open = (headers) => EventStream.session(t, server, 's', { headers });
	for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' }, { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }]) {
		assert.equal((await open(headers)).refusal.body.error.code, 'forbidden_origin', JSON.stringify(headers));
	}
	assert.equal((await open({ host: 'evil.example' })).refusal.body.error.code, 'forbidden_host');
	const stream = await open({ origin: 'https://app.example.org', 'sec-fetch-site': 'cross-site' });
	await stream.waitFor('live');
	assert.equal(stream.head['access-control-allow-origin'], 'https://app.example.org');
	const asked = await server.request('OPTIONS', '/api/sessions/s/events', { headers: { authorization: undefined, origin: 'https://app.example.org', 'access-control-request-method': 'GET' } });
	assert.match(asked.headers.get('access-control-allow-headers'), /Last-Event-ID/);
});

test('limits: connections of a session are counted like sockets, and who is too many comes back later', async (t) => {
	const server = await start(t, { args: ['--limit', 'session_connections=2'] });
	const socket = await Observer.connect(t, server, 's');
	const one = await EventStream.session(t, server, 's');
	await one.waitFor('live');
	const more = await EventStream.session(t, server, 's');
	assert.equal((await more.waitFor('ended')).data.code, 'too_many_connections');
	await more.waitEnd();
	assert.ok(more.retry > 0);
	await socket.close();
	await eventually(async () => {
		const again = await EventStream.session(t, server, 's');
		await again.until(() => again.ended || again.all.some(({ type }) => type === 'live'), 'either');
		again.abort();
		return !again.ended;
	});
});

test('bytes that come behind the request are nobody\'s, and a connection that is half closed may read on', async (t) => {
	const server = await start(t);
	const raw = await RawSocket.connect(t, server);
	await raw.send(head('GET', '/api/sessions/s/events', { ...STREAM, ...bearer(server.token) }) + head('GET', '/healthz') + 'x'.repeat(100_000));
	await eventually(async () => (await readMetrics(server))('observers{transport="sse"}') === 1);
	await post(server, 's', notes(1));
	const text = await raw.read((bytes) => bytes.includes('x-note') && { value: bytes.toString(), used: bytes.length }, 'the note');
	assert.ok(!text.includes('"version"'));
});

test('curl follows a session, and so does HTTP/1.0', async (t) => {
	const server = await start(t);
	const { max_seq: last } = await post(server, 's', notes(3));
	for (const more of [[], ['--compressed'], ['--http1.0']]) {
		const curl = spawn('curl', ['-sSN', ...more, '-H', 'Accept: text/event-stream', '-H', `Authorization: Bearer ${server.token}`, `${server.url}/api/sessions/s/events?after=1`], { stdio: ['ignore', 'pipe', 'inherit'] });
		defer(t, () => curl.kill('SIGKILL'));
		const ids = [];
		const parser = new EventParser(({ id }) => id && ids.push(Number(id.slice(17))));
		const done = new Promise((resolve) => curl.stdout.on('data', (d) => {
			parser.push(d);
			if (ids.at(-1) === last) {
				resolve();
			}
		}));
		await within(done, 20_000, () => `curl ${more} to see ${last}, after ${ids}`);
		assert.deepEqual(ids, [2, 3]);
		curl.kill('SIGKILL');
	}
});

test('a token that hides sees the same ids, and none of the words', async (t) => {
	const server = await start(t);
	const { holdfast, ...rest } = claims('observer', ['s']);
	const hiding = await EventStream.session(t, server, 's', { query: { deltas: 'text' }, headers: bearer(makeToken({ ...rest, holdfast: { ...holdfast, hide: ['thoughts', 'tools'] } }, secretOf(server))) });
	const plain = await EventStream.session(t, server, 's', { query: { deltas: 'text' }, headers: bearer(ownToken(server, 'observer', ['s'])) });
	await Promise.all([hiding.waitFor('live'), plain.waitFor('live')]);
	const { max_seq: last } = await post(server, 's', [input.thought('secret-thought'), input.tool('secret-tool'), input.text('said'), input.end()]);
	await Promise.all([hiding.waitForSeq(last), plain.waitForSeq(last)]);
	assert.match(JSON.stringify(plain.all), /secret-thought[^]*secret-tool/);
	assert.doesNotMatch(JSON.stringify(hiding.all), /secret/);
	assert.deepEqual(hiding.all.filter(({ id }) => id).map(({ id, type }) => [id, type]), plain.all.filter(({ id }) => id).map(({ id, type }) => [id, type]));
});
