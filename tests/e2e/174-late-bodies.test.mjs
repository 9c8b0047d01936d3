// A token that ends after a request's head and before the last byte of its body: nothing is done in its name.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { needs } from '../support/parts.mjs';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { Server } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';

const JSON_TYPE = 'application/json';
const WRITES = [
	['POST', '/api/sessions', JSON_TYPE, '{"id":"two"}'],
	['PATCH', '/api/sessions/one', JSON_TYPE, '{"title":"late"}'],
	['POST', '/api/sessions/one/events', JSON_TYPE, '{"type":"turn_end","data":{}}'],
	['POST', '/api/sessions/one/blobs', 'text/plain', 'the words of a file'],
	['PUT', '/v1/stream/raw', 'text/plain', 'the words of a stream'],
];

/** Sends all but the last byte, calls `end` once the server has begun with the body, and sends the rest. */
async function sendAround(t, server, token, [method, path, type, body], end) {
	const socket = await RawSocket.connect(t, server);
	const fields = { authorization: `Bearer ${token}`, 'content-type': type, 'content-length': body.length, expect: '100-continue' };
	await socket.send(head(method, path, fields));
	assert.equal((await socket.answer()).status, 100, path);
	await socket.send(body.slice(0, -1));
	await end();
	await socket.send(body.slice(-1));
	return socket.answer();
}

async function nothingIsDone(server) {
	const { body: { sessions } } = await server.request('GET', '/api/sessions');
	assert.deepEqual(sessions.map(({ id, title, max_seq }) => [id, title, max_seq]), [['one', '', 0]]);
	assert.equal((await server.request('GET', '/v1/stream/raw')).status, 404);
}

test('a token that is revoked while the body arrives', needs('durable_streams'), async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'one' });
	for (const [n, write] of WRITES.entries()) {
		const token = ownToken(server, 'admin', ['*'], { jti: `t${n}` });
		const { status, body } = await sendAround(t, server, token, write, async () => {
			assert.equal((await server.request('POST', '/api/tokens/revoke', { json: { jti: `t${n}` } })).status, 204);
		});
		assert.deepEqual([status, JSON.parse(body).error?.code], [401, 'token_revoked'], write[1]);
	}
	await nothingIsDone(server);
});

test('a token that expires while the body arrives', needs('durable_streams'), async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'one' });
	await Promise.all(WRITES.map(async (write) => {
		const exp = Math.floor(Date.now() / 1000) + 3;
		const { status, body } = await sendAround(t, server, ownToken(server, 'admin', ['*'], { exp }), write, () => eventually(() => Date.now() > exp * 1000, 'the token to end'));
		assert.deepEqual([status, JSON.parse(body).error?.code], [401, 'token_expired'], write[1]);
	}));
	await nothingIsDone(server);
});

test('a token that lasts, and a body that comes in two parts', needs('durable_streams'), async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'one' });
	const statuses = [];
	for (const write of WRITES) {
		statuses.push((await sendAround(t, server, server.token, write, async () => {})).status);
	}
	assert.deepEqual(statuses, [201, 200, 200, 201, 201]);
});
