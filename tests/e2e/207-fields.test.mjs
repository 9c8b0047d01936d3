// Fields of requests, as their RFCs have them: tables of what is sent, and what comes of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { mustUpload } from '../support/blobs.mjs';
import { input, post } from '../support/producer.mjs';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { Server } from '../support/server.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { patience } from '../support/wait.mjs';

async function start(t, args = []) {
	const server = await Server.start(t, { args });
	await server.createSession({ id: 's' });
	await post(server, 's', [input.text(`${'Some words that are long enough to be compressed. '.repeat(60)}\n\n`), input.end()]);
	return server;
}

/** Only the head of the answer: a stream of events has no end. */
async function headOf(server, path, headers) {
	const stop = new AbortController();
	const late = setTimeout(() => stop.abort(), 30_000 * patience);
	const answer = await fetch(server.url + path, { headers: { authorization: `Bearer ${server.token}`, ...headers }, signal: stop.signal });
	clearTimeout(late);
	stop.abort();
	return answer;
}

test('Accept: a stream of events where it is wanted at least as much as JSON (RFC 9110, section 12.5.1)', async (t) => {
	const server = await start(t);
	const table = [
		['text/event-stream', true], ['text/event-stream;q=1', true], ['text/event-stream; q=0.5', true], ['TEXT/Event-Stream ; charset=utf-8 ; Q=0.001', true],
		['application/json, text/event-stream', true], ['text/event-stream, */*', true], ['text/event-stream, */*;q=0.1', true], ['application/json;q=0.5, text/event-stream;q=0.8', true],
		['text/event-stream;q=0', false], ['text/event-stream;q=0.000', false], ['text/event-stream;q=0.5, application/json', false], ['text/event-stream;q=0.5, */*', false], ['text/event-stream;q=0.9, application/*;q=0.95', false],
		['text/event-stream;q=0.9, application/*;q=0.95, application/json;q=0.1', true], ['*/*', false], ['text/*', false], ['application/json', false], ['text/event-streams', false], ['', false],
		['text/event-stream;q=x', true], ['text/event-stream;q=2', true],
	];
	for (const [accept, wanted] of table) {
		const answer = await headOf(server, '/api/sessions/s/events', { accept });
		assert.equal((answer.headers.get('content-type') ?? '').startsWith('text/event-stream'), wanted, accept);
	}
});

test('Accept-Encoding: gzip where it is taken, and not less than nothing (section 12.5.3)', async (t) => {
	const server = await start(t);
	const table = [
		['gzip', true], ['gzip, deflate, br', true], ['gzip;q=1.0, identity; q=0.5, *;q=0', true], ['br;q=1, gzip;q=0.1', true], ['*', true], ['*;q=0.5', true], ['x-gzip', true], ['GZIP;Q=0.3', true], ['identity;q=0, *', true],
		['gzip;q=0', false], ['gzip; q=0.0', false], ['gzip;q=0, *', false], ['*;q=0', false], ['identity', false], ['identity, gzip;q=0.5', false], ['deflate, br', false], ['', false], ['gzipped', false], ['gzip;q=0.001', true],
	];
	for (const path of ['/api/sessions/s/events', '/ds/sessions/s?offset=-1']) {
		for (const [encoding, wanted] of table) {
			const { headers } = await server.rawRequest('GET', path, { 'accept-encoding': encoding });
			assert.equal(headers['content-encoding'], wanted ? 'gzip' : undefined, `${path}: ${encoding}`);
		}
	}
});

test('Range: one range of bytes, with numbers of any length (section 14)', async (t) => {
	const server = await start(t);
	const bytes = Buffer.from(Array.from({ length: 100 }, (_, i) => 33 + i % 90));
	const { blob } = await mustUpload(server, 's', bytes);
	const huge = '9'.repeat(30);
	const table = [
		['bytes=0-9', 206, '0-9'], ['BYTES=90-', 206, '90-99'], ['bytes=-10', 206, '90-99'], ['bytes=0-99', 206, '0-99'], ['bytes=99-99', 206, '99-99'], ['bytes=50-100', 206, '50-99'],
		[`bytes=0-${huge}`, 206, '0-99'], [`bytes=-${huge}`, 206, '0-99'], ['bytes=0-18446744073709551616', 206, '0-99'], ['bytes=-18446744073709551617', 206, '0-99'], [`bytes=${'0'.repeat(30)}5-6`, 206, '5-6'],
		['bytes=100-', 416], [`bytes=${huge}-`, 416], [`bytes=${huge}-5`, 416], ['bytes=18446744073709551616-18446744073709551617', 416], ['bytes=-0', 416], ['bytes=5-4', 416],
		['bytes=', 200], ['bytes=-', 200], ['bytes=a-b', 200], ['bytes=0-9,20-29', 200], ['bytes=0 -9', 200], ['lines=0-9', 200], ['bytes=0x1-', 200], ['bytes=+1-', 200],
	];
	for (const [range, status, part] of table) {
		const answer = await server.rawRequest('GET', `/api/sessions/s/blobs/${blob}`, { range });
		assert.equal(answer.status, status, range);
		if (status === 206) {
			const [from, to] = part.split('-').map(Number);
			assert.equal(answer.headers['content-range'], `bytes ${part}/100`, range);
			assert.equal(answer.body, bytes.subarray(from, to + 1).toString(), range);
		}
	}
	for (const validator of ['"x"', 'Sat, 28 Nov 2026 00:00:00 GMT']) {
		assert.equal((await server.rawRequest('GET', `/api/sessions/s/blobs/${blob}`, { range: 'bytes=0-9', 'if-range': validator })).status, 200, 'there is no validator that fits');
	}
});

test('If-None-Match: lists, weak tags and * (section 13.1.2)', async (t) => {
	const server = await start(t, ['--web', fileURLToPath(new URL('../../web', import.meta.url))]);
	await server.rawRequest('PUT', '/v1/stream/x', { 'content-type': 'text/plain' }, 'bytes');
	for (const path of ['/ds/sessions/s?offset=-1', '/v1/stream/x?offset=-1', '/']) {
		const { etag } = (await server.rawRequest('GET', path)).headers;
		assert.match(etag, /^"[^"]+"$/);
		const table = [
			[etag, 304], [`W/${etag}`, 304], [`"a", ${etag}`, 304], [`${'"0123456789", '.repeat(60)}W/${etag}`, 304], ['*', 304], ['"other"', 200], [etag.slice(0, -2), 200], [`"x${etag.slice(1)}`, 200], ['', 200],
		];
		for (const [tags, status] of table) {
			assert.equal((await server.rawRequest('GET', path, { 'if-none-match': tags })).status, status, `${path}: ${tags}`);
		}
	}
});

test('chunk sizes with blanks behind them (RFC 9112, section 7.1.1)', async (t) => {
	const server = await start(t);
	const event = JSON.stringify(input.end());
	const size = event.length.toString(16);
	for (const [line, status] of [[size, 200], [`${size} `, 200], [`${size}\t ;a=b`, 200], [`${size} ; a = "b"`, 200], [`${size} 0`, 400], [`${size} x`, 400], [` ${size}`, 400]]) {
		const socket = await RawSocket.connect(t, server);
		await socket.send(head('POST', '/api/sessions/s/events', { authorization: `Bearer ${server.token}`, 'content-type': 'application/json', 'transfer-encoding': 'chunked' }));
		await socket.send(`${line}\r\n${event}\r\n0\r\n\r\n`);
		assert.equal((await socket.answer()).status, status, JSON.stringify(line));
	}
});

test('a token has one spelling (RFC 4648, section 3.5; RFC 7515, section 2)', async (t) => {
	const server = await start(t, ['--limit', 'wrong_tokens=1000000']);
	const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
	const see = async (token) => (await server.request('GET', '/api/sessions/s', { headers: bearer(token) })).status;
	for (let length = 1; length < 5; length++) { // so that each part ends in each way
		const token = ownToken(server, 'observer', ['*'], { jti: 'x'.repeat(length) });
		assert.equal(await see(token), 200);
		const parts = token.split('.');
		for (let i = 0; i < 3; i++) {
			const spare = [0, 0, 4, 2][parts[i].length % 4];
			const last = digits.indexOf(parts[i].at(-1));
			for (let bits = 1; bits < 1 << spare; bits++) {
				const other = parts.with(i, parts[i].slice(0, -1) + digits[last | bits]).join('.');
				assert.deepEqual(Buffer.from(other.split('.')[i], 'base64url'), Buffer.from(parts[i], 'base64url'), 'the same bytes');
				assert.equal(await see(other), 401, `part ${i}, bits ${bits}`);
			}
			for (const more of ['=', '==', 'A']) {
				assert.equal(await see(parts.with(i, parts[i] + more).join('.')), 401, `part ${i} and ${more}`);
			}
		}
	}
});

test('Date: each answer says when it was given (RFC 9110, section 6.6.1)', async (t) => {
	const server = await start(t);
	const asked = [['GET', '/'], ['GET', '/healthz'], ['GET', '/api/sessions'], ['HEAD', '/api/sessions'], ['GET', '/nothing'], ['DELETE', '/api/sessions/none'], ['OPTIONS', '/api/sessions'], ['GET', '/ds/sessions/s?offset=-1']];
	for (const [method, path] of asked) {
		const { headers, status } = await server.rawRequest(method, path, {});
		const date = headers.date;
		assert.equal(date && new Date(date).toUTCString(), date, `${method} ${path}: ${status} ${date}`);
	}
	const { headers } = await headOf(server, '/api/sessions/s/events', { accept: 'text/event-stream' });
	assert.equal(new Date(headers.get('date')).toUTCString(), headers.get('date'));
});

test('names that Durable Streams reserves are no streams', async (t) => {
	const server = await start(t);
	for (const [name, status] of [['__ds', 400], ['__ds/subscriptions/a', 400], ['a/__ds', 400], ['a/__ds/b', 400], ['%5F_ds/x', 400], ['__dsx', 201], ['x__ds', 201], ['__DS', 201]]) {
		for (const method of ['PUT', 'HEAD', 'DELETE']) {
			const answer = await server.rawRequest(method, `/v1/stream/${name}`, method === 'PUT' ? { 'content-type': 'text/plain' } : {});
			assert.equal(answer.status, status === 400 ? 400 : { PUT: 201, HEAD: 200, DELETE: 204 }[method], `${method} ${name}`);
		}
	}
});
