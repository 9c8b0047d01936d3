// Bodies that come in pieces and need not end, sessions that are made by their first events, and producers that do
// not listen.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { authOf } from '../support/auth.mjs';
import { Server } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { ownToken } from '../support/tokens.mjs';
import { defer, within } from '../support/wait.mjs';

const appendedBody = check.rest('appended');
const errorBody = check.rest('error');
const line = (event) => `${JSON.stringify(event)}\n`;
const NDJSON = 'application/x-ndjson';

/** A POST whose body is written piece by piece; `answer` resolves with {status, headers, body}. */
function open(t, server, path, headers = {}) {
	const { hostname, port } = new URL(server.url);
	const request = http.request({ method: 'POST', hostname, port, path, headers: { 'content-type': NDJSON, ...authOf(server.url), ...headers } });
	defer(t, () => request.destroy());
	const answer = new Promise((resolve, reject) => {
		request.on('error', reject);
		request.on('response', async (response) => {
			let text = '';
			for await (const part of response) {
				text += part;
			}
			resolve({ status: response.statusCode, headers: response.headers, body: JSON.parse(text) });
		});
	});
	answer.catch(() => {});
	request.answer = () => within(answer, 20_000, () => `the answer to POST ${path}`);
	return request;
}

async function start(t, options) {
	const server = await Server.start(t, options);
	const { id, epoch } = await server.createSession();
	return { server, id, epoch, path: `/api/sessions/${id}/events` };
}

const maxSeq = async (server, id) => (await server.request('GET', `/api/sessions/${id}`)).body.max_seq;

test('lines are stored and shown while the body goes on', async (t) => {
	const { server, id, epoch, path } = await start(t);
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	const body = open(t, server, path);
	for (let n = 1; n <= 20; n++) {
		const text = line(input.note({ n, text: 'Grüße' }));
		const cut = Math.floor((text.length * n) / 20);
		body.write(text.slice(0, cut));
		body.write(text.slice(cut));
		assert.equal((await observer.waitForSeq(n)).at(-1).data.n, n);
	}
	body.write(JSON.stringify(input.note({ n: 21 })));
	body.end(); // the last line needs no newline
	const answer = await body.answer();
	assert.equal(answer.status, 200, JSON.stringify(answer.body));
	assertValid(appendedBody(answer.body));
	assert.deepEqual(answer.body, { epoch, max_seq: 21, acks: Array.from({ length: 21 }, (_, n) => ({ seq: n + 1, duplicate: false })) });
});

test('the first wrong line ends the stream, what is before it stays', async (t) => {
	const { server, id, path } = await start(t);
	for (const [framing, headers] of [['chunked', {}], ['with a length', { 'content-length': '1000' }]]) {
		const before = await maxSeq(server, id);
		const body = open(t, server, path, headers);
		body.write(`${line(input.note({ n: 1 }))}\n${line(input.note({ n: 2 }))}{"type":"x-note"}\n${line(input.note({ n: 4 }))}`);
		const answer = await body.answer();
		assert.equal(answer.status, 400);
		assertValid(errorBody(answer.body));
		assert.equal(answer.body.error.code, 'bad_request');
		assert.match(answer.body.error.message, /^line 4: /, framing);
		assert.deepEqual([answer.body.error.index, answer.body.error.stored], [2, 2]);
		assert.equal(await maxSeq(server, id), before + 2, framing);
	}
});

test('a long body of lines is taken in one request, and answered with its count', async (t) => {
	const { server, id, epoch, path } = await start(t);
	const count = 12_000;
	const lines = Array.from({ length: count }, (_, n) => line(input.note({ n, pad: 'x'.repeat(800) }))).join('');
	assert.ok(lines.length > 8 << 20, 'more than a JSON body may have');
	const answer = await server.request('POST', path, { body: lines, headers: { 'content-type': NDJSON } });
	assert.deepEqual(answer.body, { epoch, max_seq: count, count, last_seq: count });
	assertValid(appendedBody(answer.body));
	const { body } = await server.request('GET', `${path}?limit=1`);
	assert.equal(body.events[0].data.n, count - 1);
	const whole = await server.request('POST', path, { body: line(input.note({})).repeat(10_000), headers: { 'content-type': NDJSON } });
	assert.equal(whole.body.acks.length, 10_000, 'up to 10,000 each has its ack');
	assert.equal(await maxSeq(server, id), count + 10_000);
});

test('a JSON body may come in chunks, on every address', async (t) => {
	const { server, id, path } = await start(t);
	const body = open(t, server, path, { 'content-type': 'application/json' });
	body.write('[{"type":"x-note",');
	body.end('"data":{}}]');
	assert.equal((await body.answer()).status, 200);
	const create = open(t, server, '/api/sessions', { 'content-type': 'application/json' });
	create.end('{"id":"chunked"}');
	assert.equal((await create.answer()).status, 201);
	const large = open(t, server, '/api/sessions', { 'content-type': 'application/json' });
	large.on('error', () => {}); // it may be cut off once it has been told
	large.end(Buffer.alloc((8 << 20) + 1, ' '));
	const answer = await large.answer();
	assert.deepEqual([answer.status, answer.body.error.code], [413, 'too_large']);
	assert.equal(await maxSeq(server, id), 1);
});

/** Sends bytes as they are and gives what came back when the server has closed. */
async function raw(t, server, bytes) {
	const { hostname, port } = new URL(server.url);
	const socket = net.connect({ host: hostname, port: Number(port) });
	defer(t, () => socket.destroy());
	let text = '';
	socket.setEncoding('latin1');
	socket.on('data', (d) => (text += d));
	socket.on('error', () => {});
	socket.write(bytes);
	await within(once(socket, 'close'), 20_000, () => `the server to close after ${bytes}; so far ${text}`);
	return text;
}

test('a body that could be read in two ways is refused, and the connection ends', async (t) => {
	const { server, id, path } = await start(t);
	const chunk = `${GOOD.length.toString(16)}\r\n${GOOD}\r\n0\r\n\r\n`;
	for (const [what, headers, body, method = 'POST'] of [
		['both', 'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', chunk],
		['another coding', 'Transfer-Encoding: gzip, chunked\r\n', chunk],
		['a coding that is none', 'Transfer-Encoding: xchunked\r\n', chunk],
		['a length that is none', 'Content-Length: 1x\r\n', chunk],
		['a negative length', 'Content-Length: -1\r\n', chunk],
		['two lengths', 'Content-Length: 2\r\nContent-Length: 5\r\n', chunk],
		['a body of GET', 'Transfer-Encoding: chunked\r\n', chunk, 'GET'],
		['a size that is none', 'Transfer-Encoding: chunked\r\n', `x${chunk}`],
		['a size without CR', 'Transfer-Encoding: chunked\r\n', chunk.replace('\r', '')],
		['a chunk that is too short', 'Transfer-Encoding: chunked\r\n', chunk.replace('\r\n0', '!\r\n0')],
	]) {
		// The second request must not be answered: nobody can say where it begins.
		const text = await raw(t, server, `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.token}\r\nContent-Type: application/json\r\n${headers}\r\n${body}`
			+ 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
		assert.match(text, /^HTTP\/1\.1 400 [^]*"code":"bad_request"/, what);
		assert.equal(text.split('HTTP/1.1').length, 2, `${what}: ${text}`);
	}
	assert.equal(await maxSeq(server, id), 0);
});

const GOOD = JSON.stringify(input.note({}));

test('Expect: 100-continue is answered before the body, or refused without it', async (t) => {
	const { server, id, path } = await start(t);
	for (const type of ['application/json', NDJSON]) {
		const body = open(t, server, path, { 'content-type': type, 'content-length': String(GOOD.length), expect: '100-continue' });
		await within(once(body, 'continue'), 20_000, () => '100 Continue');
		body.end(GOOD);
		assert.equal((await body.answer()).status, 200);
	}
	assert.equal(await maxSeq(server, id), 2);
	for (const [type, address, status] of [[NDJSON, '/api/sessions/nobody/events', 404], ['application/json', path, 413]]) {
		const length = status === 413 ? (8 << 20) + 1 : 10;
		const body = open(t, server, address, { 'content-type': type, 'content-length': String(length), expect: '100-continue' });
		body.on('continue', () => assert.fail('it was told to send what is refused'));
		body.flushHeaders();
		const answer = await body.answer();
		assert.equal(answer.status, status);
		assert.equal(answer.headers.connection, 'close');
	}
});

test('a stream whose session is deleted, and one at the end of the server, are told so', async (t) => {
	const { server, id, path } = await start(t);
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	const gone = open(t, server, path);
	gone.write(line(input.note({})));
	await observer.waitForSeq(1);
	await server.request('DELETE', `/api/sessions/${id}`);
	const answer = await gone.answer();
	assert.deepEqual([answer.status, answer.body.error.code], [404, 'not_found']);

	const { id: other } = await server.createSession();
	const watch = await Observer.connect(t, server, other);
	await watch.loadAll();
	const last = open(t, server, `/api/sessions/${other}/events`);
	last.write(line(input.note({})));
	await watch.waitForSeq(1);
	await server.stop();
	const { status, body } = await last.answer();
	assert.deepEqual([status, body.error.code, body.error.stored], [503, 'shutting_down', 1]);
	await server.restart();
	assert.equal(await maxSeq(server, other), 1);
});

test('create=1 makes the session with its first events, once', async (t) => {
	const server = await Server.start(t);
	const feed = new TestSocket(t, server.ws('/api/events'), check.feed);
	await feed.waitFor('sessions');
	const post1 = (id, query, event) => server.request('POST', `/api/sessions/${id}/events?${query}`, { json: event });
	const race = await Promise.all(Array.from({ length: 20 }, (_, n) => post1('made', 'create=1&title=Gr%C3%BC%C3%9Fe%20%26%20mehr', input.note({ n }))));
	assert.deepEqual(race.map(({ status }) => status), race.map(() => 200));
	assert.equal(new Set(race.map(({ body }) => body.epoch)).size, 1);
	assert.deepEqual(race.map(({ body }) => body.acks[0].seq).sort((a, b) => a - b), race.map((_, n) => n + 1));
	await feed.waitFor('session_created');
	const { body } = await server.request('GET', '/api/sessions/made');
	assert.equal(body.title, 'Grüße & mehr');
	await post1('made', 'create=1&title=Another', input.note({}));
	assert.equal((await server.request('GET', '/api/sessions/made')).body.title, 'Grüße & mehr', 'it has its title');
	await server.kill9();
	await server.restart();
	assert.equal(await maxSeq(server, 'made'), 21);
	assert.equal(feed.frames.filter((f) => f.type === 'session_created').length, 1);
});

test('what is refused makes no session', async (t) => {
	const server = await Server.start(t);
	for (const [path, event, status, code] of [
		['new/events', input.note({}), 404, 'not_found'],
		['new/events?create=1', { type: 'x-note' }, 400, 'bad_request'],
		['new/events?create=1', [input.note({}), { type: 'x' }], 400, 'unknown_type'],
		['new/events?create=1', { type: 'permission_resolved', data: { request_id: 'p', outcome: 'cancelled' } }, 409, 'unknown_request'],
		['new/events?create=yes', input.note({}), 400, 'bad_request'],
		['new/events?create=', input.note({}), 400, 'bad_request'],
		['new/events?title=x', input.note({}), 400, 'bad_request'],
		['new/events?creat=1', input.note({}), 400, 'bad_request'],
		[`new/events?creat=${'x'.repeat(1000)}`, input.note({}), 400, 'bad_request'],
		[`new/events?create=1&title=${'x'.repeat(1025)}`, input.note({}), 400, 'bad_request'],
		['new/events?create=1&title=%ff', input.note({}), 400, 'bad_request'],
		['.new/events?create=1', input.note({}), 400, 'bad_session_id'],
		[`${'x'.repeat(129)}/events?create=1`, input.note({}), 400, 'bad_session_id'],
	]) {
		const answer = await server.request('POST', `/api/sessions/${path}`, { json: event });
		assert.deepEqual([answer.status, answer.body.error?.code], [status, code], `${path.slice(0, 60)}: ${JSON.stringify(answer.body)}`);
		const lines = [event].flat().map(line).join('');
		const streamed = await server.request('POST', `/api/sessions/${path.replace('new', 'other')}`, { body: lines, headers: { 'content-type': NDJSON } });
		assert.equal(streamed.status, status);
		// Of lines, those before the wrong one are stored, in the session that they made.
		if (Array.isArray(event)) {
			assert.deepEqual([streamed.body.error.stored, await maxSeq(server, 'other')], [1, 1]);
			await server.request('DELETE', '/api/sessions/other');
		}
	}
	assert.deepEqual((await server.request('GET', '/api/sessions')).body.sessions, []);
	await server.kill9();
	await server.restart();
	assert.deepEqual((await server.request('GET', '/api/sessions')).body.sessions, []);
});

test('a produce socket may make its session, with its first append', async (t) => {
	const server = await Server.start(t);
	const [first, second] = [0, 1].map(() => Producer.connect(t, server, 'new', { query: { create: '1', title: 'New' } }));
	const producers = [await first, await second];
	for (const { frames } of producers) {
		assert.deepEqual(frames[0], { type: 'connected', data: { protocol: 1, session_id: 'new', epoch: null, max_seq: 0 } });
	}
	const refused = await producers[0].push({ type: 'x-note' });
	assert.equal((await producers[0].waitFor((f) => f.data.ref === refused)).data.code, 'bad_request');
	assert.equal((await server.request('GET', '/api/sessions/new')).status, 404);
	const answers = await Promise.all(producers.map((producer, n) => producer.append(input.note({ n }))));
	assert.equal(answers[0].epoch, answers[1].epoch);
	assert.deepEqual(answers.flatMap(({ acks }) => acks.map(({ seq }) => seq)).sort(), [1, 2]);
	assert.equal((await server.request('GET', '/api/sessions/new')).body.title, 'New');
	const third = await Producer.connect(t, server, 'new', { query: { create: '1' } });
	assert.equal(third.frames[0].data.epoch, answers[0].epoch);
	const wrong = await Producer.connect(t, server, 'other', { query: { create: 'maybe' } });
	assert.equal(wrong.frames[0].data.code, 'bad_request');
	assert.equal((await wrong.waitClosed()).code, 1008);
	// Once deleted it is gone: who wants it again connects again.
	await server.request('DELETE', '/api/sessions/new');
	assert.equal((await third.waitClosed()).code, 4404);
	assert.equal((await server.request('GET', '/api/sessions/new')).status, 404);
});

/** A frame of a client as it is on the wire, masked with zeros. */
function frame(text) {
	const payload = Buffer.from(text);
	const head = payload.length < 126 ? [0x81, 0x80 | payload.length] : [0x81, 0xfe, payload.length >> 8, payload.length & 255];
	return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), payload]);
}

test('a producer that never reads its answers is not read from; nothing piles up, nobody else waits', async (t) => {
	const { server, id } = await start(t);
	const { hostname, port } = new URL(server.url);
	const socket = net.connect({ host: hostname, port: Number(port) });
	defer(t, () => socket.destroy());
	let text = '';
	socket.setEncoding('latin1');
	const upgraded = new Promise((resolve) => socket.on('data', (d) => ((text += d), text.includes('"connected"') && resolve())));
	socket.write(`GET /api/sessions/${id}/produce HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`
		+ 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n');
	await within(upgraded, 20_000, () => `the upgrade; so far ${text}`);
	socket.pause();
	const count = 150_000;
	const keepalive = (n) => JSON.stringify({ type: 'keepalive', data: { client_time: n } }).padEnd(200, ' ');
	// One write at a time, so that it is known how many the system has taken.
	let written = 0;
	const write = () => {
		if (written < count) {
			const batch = Array.from({ length: 250 }, (_, i) => frame(keepalive(written + i + 1)));
			socket.write(Buffer.concat(batch), () => ((written += 250), write()));
		}
	};
	write();
	// Over many round trips of another producer, in which the server could have read, it read nothing.
	const other = await Producer.connect(t, server, id);
	for (let before = -1; before < written; ) {
		before = written;
		for (let n = 0; n < 200; n++) {
			await other.append(input.note({ n }));
		}
	}
	assert.ok(written < count, 'the server has taken everything and keeps the answers');
	// Once it reads again, each is answered in order.
	let next = 1;
	text = '';
	const all = new Promise((resolve, reject) => socket.on('data', () => {
		let end = 0;
		for (const match of text.matchAll(/"client_time":(\d+),/g)) {
			end = match.index + match[0].length;
			if (Number(match[1]) !== next++) {
				reject(new Error(`${match[1]} came where ${next - 1} should`));
			}
		}
		text = text.slice(end);
		if (next > count) {
			resolve();
		}
	}));
	socket.resume();
	await within(all, 60_000, () => `the answers; so far ${next - 1}`);
});

test('a stream whose token ends or is revoked is answered as any other request, with what is stored', async (t) => {
	const { server, id, path } = await start(t);
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	const exp = Math.floor(Date.now() / 1000) + 3;
	const streams = [['token_expired', { exp, jti: 'ends' }], ['token_revoked', { jti: 'gone' }]].map(([code, claims]) => {
		const body = open(t, server, path, { authorization: `Bearer ${ownToken(server, 'producer', [id], claims)}` });
		body.write(line(input.note({ code })));
		return [code, body];
	});
	await observer.waitForSeq(2);
	assert.equal((await server.request('POST', '/api/tokens/revoke', { json: { jti: 'gone' } })).status, 204);
	for (const [code, body] of streams) {
		const { status, headers, body: answer } = await body.answer();
		assert.deepEqual([status, headers['www-authenticate'], answer.error.code, answer.error.stored], [401, 'Bearer', code, 1]);
		assert.equal(errorBody(answer), null);
	}
});
