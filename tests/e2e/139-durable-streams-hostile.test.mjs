// Hostile requests at /v1/stream/: each is refused with a code and words, nothing is stored, and the server goes on; a snippet of the docs works.

import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { BYTES, JSON_TYPE, TEXT, ask, offsetOf, producer, readAll } from '../support/raw_streams.mjs';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { bearer } from '../support/tokens.mjs';

async function refuses(server, method, path, headers, body, status, code) {
	const answer = await server.rawRequest(method, path, { ...bearer(server.token), ...headers }, body);
	const text = `${method} ${path.slice(0, 80)} ${JSON.stringify(headers).slice(0, 120)}: ${answer.status} ${String(answer.body).slice(0, 200)}`;
	assert.equal(answer.status, status, text);
	if (method !== 'HEAD') {
		const { error } = typeof answer.body === 'object' && !Buffer.isBuffer(answer.body) ? answer.body : JSON.parse(String(answer.body));
		assert.equal(error.code, code, text);
		assert.ok(error.message.length > 10, text);
	}
}

test('names that are none, and paths that lead elsewhere', async (t) => {
	const server = await Server.start(t);
	const bad = [['', 400], ['a//b', 400], ['a/', 400], ['a%5cb', 400], ['a%01', 400], ['a%7f', 400], ['%ff', 400], ['x'.repeat(513), 400]];
	for (const [name, status] of bad) {
		await refuses(server, 'PUT', `/v1/stream/${name}`, { 'content-type': TEXT }, 'x', status, 'bad_request');
	}
	for (const name of ['..', 'a/../b', 'a/%2e%2e/b', '%2e', 'a%2fb']) {
		await refuses(server, 'PUT', `/v1/stream/${name}`, { 'content-type': TEXT }, 'x', 404, 'not_found');
	}
	for (const name of ['a%00', '%zz']) {
		const { status } = await server.rawRequest('PUT', `/v1/stream/${name}`, bearer(server.token), 'x');
		assert.equal(status, 400, name);
	}
	await refuses(server, 'PATCH', '/v1/stream/a', {}, 'x', 405, 'method_not_allowed');
	await refuses(server, 'PUT', '/v1/stream', {}, 'x', 400, 'bad_request');
	assert.equal((await ask(server, 'PUT', 'ü/x y/100%25', { type: TEXT, body: 'x' })).status, 201, 'and one that is');
	assert.equal(String(await readAll(server, 'ü/x y/100%25')), 'x');
});

test('headers that make no sense', async (t) => {
	const server = await Server.start(t);
	const at = '/v1/stream/s';
	const put = (headers, status = 400, code = 'bad_request') => refuses(server, 'PUT', at, { 'content-type': TEXT, ...headers }, '', status, code);
	for (const ttl of ['', '-1', '1.5', '1e3', '+1', '01', '0x1', '9'.repeat(40), '99999999999999999999', '9007199254740992', 'x']) {
		await put({ 'stream-ttl': ttl });
	}
	for (const time of ['', 'now', '2026', '2026-13-01T00:00:00Z', '2026-02-30T00:00:00Z', '2026-01-01T24:00:00Z', '2026-01-01T00:00:00', '2026-01-01T00:00:00+25:00', `2026-01-01T00:00:00.${'9'.repeat(300)}Z`]) {
		await put({ 'stream-expires-at': time });
	}
	for (const [source, status, code] of [['/v1/stream/none', 404, 'not_found'], ['none', 400, 'bad_request'], ['/api/sessions/x', 400, 'bad_request'], ['/v1/stream/../s', 400, 'bad_request'], ['/v1/stream/%00', 400, 'bad_request'], ['', 400, 'bad_request']]) {
		await put({ 'stream-forked-from': source }, status, code);
	}
	assert.equal((await ask(server, 'PUT', 's', { type: JSON_TYPE, body: '[1,22,3]' })).status, 201);
	const fork = (headers) => refuses(server, 'PUT', '/v1/stream/f', { 'stream-forked-from': at, ...headers }, '', 400, 'bad_request');
	for (const offset of ['-1', 'now', offsetOf(1), offsetOf(4), offsetOf(8), offsetOf(9007199254740991), 'x', '1_2', `${'9'.repeat(16)}_${'0'.repeat(16)}`]) {
		await fork({ 'stream-fork-offset': offset });
	}
	for (const sub of ['-1', '4', '9007199254740991', '99999999999999999999', '01', '']) {
		await fork({ 'stream-fork-offset': offsetOf(0), 'stream-fork-sub-offset': sub });
	}
	const post = (headers, status = 400, code = 'bad_request') => refuses(server, 'POST', at, { 'content-type': JSON_TYPE, ...headers }, '1', status, code);
	for (const [id, epoch, seq] of [['', '0', '0'], ['p', '-1', '0'], ['p', '0', '1x'], ['p', '9007199254740992', '0'], ['x'.repeat(201), '0', '0'], ['p', '', '0']]) {
		await post(producer(id, epoch, seq));
	}
	await post({ 'producer-id': 'p' });
	await post({ 'stream-seq': 's'.repeat(201) });
	await post({ 'content-type': TEXT }, 409, 'stream_conflict');
	await post({ 'x-large': 'x'.repeat(20_000) }, 431, 'bad_request');
	for (const query of ['offset=', 'offset=x', `offset=${offsetOf(1)}0`, 'offset=-1&offset=-1', 'live=sse', 'live=long-poll', 'offset=-1&live=x', 'offset=%zz', `offset=${'1'.repeat(3000)}`]) {
		await refuses(server, 'GET', `${at}?${query}`, {}, undefined, 400, 'bad_request');
	}
	for (const offset of [offsetOf(1), offsetOf(9), offsetOf(9007199254740991)]) {
		await refuses(server, 'GET', `${at}?offset=${offset}`, {}, undefined, 410, 'gone');
	}
	assert.equal(String(await readAll(server, 's')), '[1,22,3]', 'nothing of it was stored');
});

test('bodies that are no JSON, too large, deep, long arrays, or slow', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'body_size=2M', '--limit', 'receive_ms=500'] });
	assert.equal((await ask(server, 'PUT', 's', { type: JSON_TYPE })).status, 201);
	for (const body of ['[', '[1,]', '{"a":1,"a":2}', '"\\u0000"', '\u00ff\u0000', '['.repeat(100_000), '[]', ' ', '"\\ud800"']) {
		await refuses(server, 'POST', '/v1/stream/s', { 'content-type': JSON_TYPE }, body, 400, 'bad_request');
	}
	await refuses(server, 'POST', '/v1/stream/s', { 'content-type': JSON_TYPE }, `"${'x'.repeat(2 << 20)}"`, 413, 'too_large');
	const many = `[${'0,'.repeat(900_000)}0]`;
	assert.equal((await ask(server, 'POST', 's', { type: JSON_TYPE, body: many })).status, 204);
	let count = 0;
	for (let offset = '-1'; ;) {
		const page = await ask(server, 'GET', 's', { query: { offset } });
		count += JSON.parse(page.body).length;
		offset = page.headers['stream-next-offset'];
		if (page.headers['stream-up-to-date']) {
			break;
		}
	}
	assert.equal(count, 900_001);
	const socket = await RawSocket.connect(t, server);
	await socket.send(head('POST', '/v1/stream/s', { ...bearer(server.token), 'content-type': JSON_TYPE, 'content-length': '10' }));
	await socket.send('[1');
	assert.equal((await socket.answer()).status, 408);
	assert.equal((await ask(server, 'PUT', 'b', { type: BYTES, body: Buffer.from([0, 255]) })).status, 201, 'the server goes on');
});

test('the code of the docs keeps messages, each once', async (t) => {
	const server = await Server.start(t);
	const docs = readFileSync(fileURLToPath(new URL('../../docs/durable-streams.md', import.meta.url)), 'utf8');
	const code = [...docs.matchAll(/^```js\n([\s\S]*?)^```$/mg)].map(([, text]) => text).find((text) => text.includes('/v1/stream/'));
	const dir = scratchDir(t);
	writeFileSync(join(dir, 'keep.mjs'), code.replace('http://127.0.0.1:8080', server.url));
	symlinkSync(fileURLToPath(new URL('../node_modules', import.meta.url)), join(dir, 'node_modules'));
	const { keep } = await import(pathToFileURL(join(dir, 'keep.mjs')));
	assert.deepEqual(await keep('notes/today', server.token, [{ n: 1 }, { n: 2 }, { n: 3 }]), [{ n: 1 }, { n: 2 }, { n: 3 }]);
	assert.equal((await ask(server, 'HEAD', 'notes/today')).headers['stream-closed'], 'true');
});
