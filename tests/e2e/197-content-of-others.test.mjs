// What others have written is never a document of the server's origin in a browser; and what a page of another origin can send without asking is not taken.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { test } from 'node:test';
import { mustUpload } from '../support/blobs.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { authOf } from '../support/auth.mjs';

const HTML = '<form method=post action=/api/sessions/s/events><input name=x></form><script>1</script>';
const ORIGIN = 'https://app.example.org';

/** The head of an answer, which may be a stream. */
async function headOf(server, path, headers = {}) {
	const { hostname, port } = new URL(server.url);
	const request = http.get({ hostname, port, path, agent: false, headers: { ...authOf(server.url), ...headers } });
	request.on('error', () => {});
	const [response] = await once(request, 'response');
	response.on('error', () => {});
	request.destroy();
	return { status: response.statusCode, headers: response.headers };
}

test('every answer with bytes of others has a sandbox and nosniff, and no player needs those that are attachments', async (t) => {
	const server = await Server.start(t, { agent: demoAgent() });
	await server.createSession({ id: 's', title: HTML });
	await post(server, 's', [input.text(HTML), input.tool(HTML), input.end()]);
	const { blob } = await mustUpload(server, 's', Buffer.from(HTML));
	for (const [name, type] of [['html', 'text/html'], ['svg', 'image/svg+xml'], ['xml', 'application/xhtml+xml']]) {
		assert.equal((await server.request('PUT', `/v1/stream/${name}`, { body: HTML, headers: { 'content-type': type } })).status, 201);
	}
	const stream = { accept: 'text/event-stream' };
	const query = encodeURIComponent(HTML);
	for (const [path, headers, isAttached] of [
		['/v1/stream/html', {}, true], ['/v1/stream/svg?offset=-1', {}, true], ['/v1/stream/xml', {}, true], ['/v1/stream/html?live=sse&offset=-1', {}, false],
		['/v1/stream/none', {}, false], ['/ds/sessions/s?offset=-1', {}, true], ['/ds/sessions/s?live=sse&offset=-1', {}, false],
		['/api/sessions', {}, true], ['/api/sessions/s', {}, false], ['/api/sessions/s/events', {}, true], ['/api/sessions/s/events?format=markdown', { 'accept-encoding': 'gzip' }, true],
		['/api/sessions/s/events', stream, false], ['/api/events', stream, false], ['/api/sessions/s/queue', {}, true],
		['/api/search?q=form', {}, true], ['/api/sessions/s/search?q=form', {}, true], [`/api/sessions/s/blobs/${blob}`, {}, null],
		[`/api/sessions?${query}`, {}, false], [`/api/sessions/${query}`, {}, false], [`/api/sessions/s/blobs/${query}`, {}, false], ['/api/ai/s/stream', {}, false],
	]) {
		const { status, headers: told } = await headOf(server, path, headers);
		const about = `${path} ${status} ${JSON.stringify(told)}`;
		assert.match(told['content-security-policy'], /default-src 'none'; frame-ancestors 'none'; sandbox/, about);
		assert.equal(told['x-content-type-options'], 'nosniff', about);
		if (status < 300 && isAttached !== null) {
			assert.equal(told['content-disposition'], isAttached ? 'attachment' : undefined, about);
		}
	}
});

test('from a page of another origin, and from a form, no body is taken that needs no preflight', async (t) => {
	const server = await Server.start(t, { agent: demoAgent(), args: ['--allow-origin', ORIGIN] });
	await server.createSession({ id: 's' });
	const own = { origin: server.url, 'sec-fetch-site': 'same-origin' };
	const form = { ...own, 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
	const foreign = { origin: ORIGIN, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' };
	/* fetch() of Node says sec-fetch-mode by itself. */
	const ask = async (path, headers, method = 'POST', json = { type: 'x-note', data: {} }) => {
		const { status, body } = await server.rawRequest(method, path, headers, JSON.stringify(json));
		return { status, body: JSON.parse(body) };
	};
	for (const type of ['text/plain', 'text/plain;charset=UTF-8', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=application/json', '', 'application/jsonx']) {
		for (const headers of [foreign, form]) {
			for (const [path, json] of [['/api/sessions/s/events'], ['/api/sessions', { id: 'theirs' }], ['/api/sessions/s/snapshot', { messages: [] }], ['/api/ai/s', { messages: [] }], ['/api/search', {}]]) {
				const { status, body } = await ask(path, { ...headers, 'content-type': type }, 'POST', json);
				assert.deepEqual([status, body.error?.code], [415, 'unsupported_media_type'], `${path} ${type} ${JSON.stringify(headers)} ${JSON.stringify(body)}`);
			}
		}
		assert.equal((await ask('/api/sessions/s', { ...foreign, 'content-type': type }, 'PATCH', { title: 'theirs' })).status, 415);
	}
	const { body: session } = await server.request('GET', '/api/sessions/s');
	assert.deepEqual([session.max_seq, session.title], [0, '']);
	// JSON is taken, and from programs and pages of our own whatever they say.
	for (const [headers, status] of [[{ ...foreign, 'content-type': 'application/json; charset=utf-8' }, 200], [{ 'content-type': 'text/plain' }, 200], [{ ...own, 'content-type': 'text/plain' }, 200]]) {
		assert.equal((await ask('/api/sessions/s/events', headers)).status, status, JSON.stringify(headers));
	}
	const lines = await server.request('POST', '/api/sessions/s/events', { body: '{"type":"x-note","data":{}}\n', headers: { ...foreign, 'content-type': 'application/x-ndjson' } });
	assert.equal(lines.status, 200);
});
