// Several nodes on one PostgreSQL: what lets people in at one of them does at every other, and what keeps them out, too.

import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { NODE_TIMES, nodeAddress, startNodes as startOn } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { PushService } from '../support/push_service.mjs';
import { check } from '../support/schema.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';

const postgres = Postgres.start({ after });
const startNodes = (t, count, options) => startOn(t, postgres, count, options);
const secretsOf = ({ dataDir }, ...names) => ['access-token', 'token-secret', ...names].map((name) => readFileSync(join(dataDir, name), 'utf8'));

/** The headers of a login as a browser sends them to a node: through a balancer, all of them would have one port, which the cookie's name has. */
function at(node, headers) {
	return headers.cookie ? { ...headers, cookie: headers.cookie.replace(/_\d+/, `_${new URL(node.url).port}`) } : headers;
}

/** Logs in as a browser does; gives the headers of the login. */
async function logIn(node, token = node.token) {
	const { status, headers, body } = await node.request('POST', '/api/login', { json: { token }, headers: { origin: node.url, authorization: undefined } });
	assert.equal(status, 200);
	return { authorization: undefined, cookie: headers.get('set-cookie').split(';')[0], 'holdfast-login': body.login };
}

const statusOf = async (node, headers) => (await node.request('GET', '/api/login', { headers: at(node, headers) })).status;
const until = (node, headers, status, what) => eventually(async () => (await statusOf(node, headers)) === status, what);

test('all nodes have the secrets of the first one, and so the same tokens', async (t) => {
	const [a, b] = await startNodes(t, 2);
	assert.deepEqual(secretsOf(b), secretsOf(a));
	assert.equal(b.token, a.token);
	const token = ownToken(a, 'observer', ['s']);
	await a.createSession({ id: 's' });
	for (const node of [a, b]) {
		assert.equal((await node.request('GET', '/api/sessions/s', { headers: bearer(token) })).status, 200);
	}
	await b.stop();
	writeFileSync(join(b.dataDir, 'access-token'), `${'x'.repeat(43)}\n`);
	await b.restart();
	assert.deepEqual(secretsOf(b), secretsOf(a));
	assert.equal(await statusOf(b, bearer('x'.repeat(43))), 401);
});

test('a login made at one node counts at the others, until it ends at one of them', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const login = await logIn(a);
	await until(b, login, 200, 'the other node to know the login');
	const page = new TestSocket(t, a.ws('/api/sessions/s/ws'), check.server, { headers: { authorization: undefined, origin: a.url, cookie: login.cookie } });
	await page.send('token', { login: login['holdfast-login'] });
	await page.waitFor('connected');
	assert.equal((await b.request('DELETE', '/api/login', { headers: at(b, login) })).status, 204);
	assert.equal(await statusOf(b, login), 401);
	assert.deepEqual(await page.waitClosed(), { code: 4403, reason: 'token_revoked' });
	assert.equal(await statusOf(a, login), 401);
	await a.kill9();
	await a.restart();
	assert.equal(await statusOf(a, login), 401);
	const next = await logIn(b);
	await b.kill9();
	await until(a, next, 200, 'the login of one that is dead to be known');
});

test('a token that is revoked at one node is revoked at all of them', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const token = ownToken(a, 'controller', ['s'], { jti: 'gone', sub: 'ann' });
	const socket = await Observer.connect(t, b, 's', { headers: bearer(token) });
	const began = Date.now();
	assert.equal((await a.request('POST', '/api/tokens/revoke', { json: { jti: 'gone' } })).status, 204);
	assert.deepEqual(await socket.waitClosed(), { code: 4403, reason: 'token_revoked' });
	t.diagnostic(`${Date.now() - began} ms`);
	assert.equal(await statusOf(b, bearer(token)), 401);
	const other = ownToken(a, 'controller', ['s'], { jti: 'also', sub: 'bob' });
	assert.equal(await statusOf(a, bearer(other)), 200);
	const { code, stderr } = await runToEnd(['token', 'revoke', '--sub', 'bob', '--data', b.dataDir]); // its server does it
	assert.equal(code, 0, stderr);
	await until(a, bearer(other), 401, 'it to be revoked');
	await Promise.all([a, b].map((node) => node.stop()));
	for (const node of [a, b]) {
		await node.restart();
		assert.equal(await statusOf(node, bearer(token)), 401);
		assert.equal(await statusOf(node, bearer(other)), 401);
	}
});

test('what a data directory has from before goes to the database, once', async (t) => {
	const dataDir = join(scratchDir(t), 'data');
	const alone = await Server.start(t, { dataDir });
	const login = await logIn(alone);
	const ended = await logIn(alone);
	await alone.request('DELETE', '/api/login', { headers: ended });
	await alone.request('POST', '/api/tokens/revoke', { json: { jti: 'early' } });
	await alone.stop();
	const { stdout } = await runToEnd(['token', 'create', '--role', 'observer', '--session', 's', '--data', dataDir]);
	const args = ['--store', postgres.address('moved'), '--node-listen', nodeAddress(), ...NODE_TIMES];
	const a = await Server.start(t, { dataDir, args });
	const [b] = await startNodes(t, 1, { database: 'moved' });
	for (const node of [a, b]) {
		assert.equal(await statusOf(node, login), 200);
		assert.equal(await statusOf(node, ended), 401);
		assert.equal(await statusOf(node, bearer(stdout.trim())), 200);
		assert.equal(await statusOf(node, bearer(ownToken(a, 'observer', ['s'], { jti: 'early' }))), 401);
	}
	const list = await runToEnd(['token', 'list', '--data', dataDir]);
	assert.match(list.stdout, /observer/);
	const count = () => postgres.ask('moved', 'SELECT count(*) FROM holdfast_access');
	const before = count();
	await a.stop();
	await a.restart();
	assert.equal(count(), before);
	// A command writes into the file while its server is away.
	await a.stop();
	assert.equal((await runToEnd(['token', 'revoke', 'late', '--data', dataDir])).code, 0);
	appendFileSync(join(dataDir, 'access.jsonl'), '{"revoked":{"jti":"tor');
	await a.restart();
	await until(b, bearer(ownToken(a, 'observer', ['s'], { jti: 'late' })), 401, 'the other one to know');
});

test('a browser that has subscribed at one node is told of a session at another', async (t) => {
	const service = await PushService.start(t);
	const [a, b] = await startNodes(t, 2, { args: [...service.args(), '--limit', 'push_delay_ms=0,push_retry_ms=1'] });
	assert.deepEqual(secretsOf(b, 'push-key'), secretsOf(a, 'push-key'));
	const login = await logIn(a);
	const subscription = service.subscribe();
	assert.equal((await a.request('POST', '/api/push', { headers: login, json: subscription.json })).status, 204);
	await until(b, login, 200, 'the other node to know the login');
	await eventually(async () => (await b.request('GET', '/api/push', { headers: at(b, login) })).body.subscribed === true, 'and its subscription');
	await b.createSession({ id: 's' });
	await post(b, 's', [{ type: 'permission_request', data: { request_id: 'q', tool_call: { tool_call_id: 'q' }, options: [{ option_id: 'a', name: 'A' }] } }, input.note({ n: 1 })]);
	assert.deepEqual(await service.messages(1), [{ session: 's', kind: 'waiting', question: 'q' }]);
});

test('a login is refused while the database is down, and what is known counts', async (t) => {
	const own = Postgres.start(t);
	const database = 'down';
	const dataDir = join(scratchDir(t), 'data');
	mkdirSync(dataDir, { mode: 0o700 });
	const server = await Server.start(t, { dataDir, args: ['--store', own.address(database)] });
	const login = await logIn(server);
	own.kill9();
	const { status, body } = await server.request('POST', '/api/login', { json: { token: server.token }, headers: { origin: server.url, authorization: undefined } });
	assert.deepEqual([status, body.error.code], [503, 'storage_failed']);
	assert.equal(await statusOf(server, login), 200);
	own.up();
	await eventually(async () => (await server.request('POST', '/api/login', { json: { token: server.token }, headers: { origin: server.url, authorization: undefined } })).status === 200, 'it to work again');
});
