// Web Push: what reaches a push service, what a refusal does, where nothing is sent, and when a subscription ends.

import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readMetrics } from '../support/metrics.mjs';
import { input, post } from '../support/producer.mjs';
import { PushService, Subscription, readProof } from '../support/push_service.mjs';
import { Server, runToEnd } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';

const SOON = ['--limit', 'push_delay_ms=0,push_retry_ms=1'];
const ask = (id) => ({ type: 'permission_request', data: { request_id: id, tool_call: { tool_call_id: id }, options: [{ option_id: 'a', name: 'A' }] } });
const resolve = (id) => ({ type: 'permission_resolved', data: { request_id: id, outcome: 'selected', option_id: 'a' } });

/** Logs in as a browser does; gives the headers of the login. */
async function logIn(server, token = server.token) {
	const { status, headers, body } = await server.request('POST', '/api/login', { json: { token }, headers: { origin: server.url, authorization: undefined } });
	assert.equal(status, 200);
	return { authorization: undefined, cookie: headers.get('set-cookie').split(';')[0], 'holdfast-login': body.login };
}

const call = (server, method, headers, json) => server.request(method, '/api/push', { headers, json });

async function subscribe(server, service, headers) {
	const subscription = service.subscribe();
	const answer = await call(server, 'POST', headers, subscription.json);
	assert.equal(answer.status, 204, JSON.stringify(answer.body));
	return subscription;
}

/** A server, a push service, and a login that has subscribed; and a session. */
async function start(t, { args = [], token, ...options } = {}) {
	const service = await PushService.start(t);
	const server = await Server.start(t, { args: [...service.args(), ...SOON, ...args], ...options });
	await server.createSession({ id: 'one' });
	const login = await logIn(server, token?.(server));
	const subscription = await subscribe(server, service, login);
	return { server, service, login, subscription };
}

const counted = async (server, result) => (await readMetrics(server))(`push_messages_total{result="${result}"}`);
const untilCounted = (server, result, count) => eventually(async () => (await counted(server, result)) >= count, `${count} messages to be ${result}`);

test('a session that waits, and one that ends its turn, are told of: the id and the kind, and nothing else', async (t) => {
	const { server, service, subscription, login } = await start(t, { args: ['--url', 'https://holdfast.example.org'] });
	await post(server, 'one', [input.text('A secret text.\n\n'), ask('q')]);
	assert.deepEqual(await service.messages(1), [{ session: 'one', kind: 'waiting', question: 'q' }]);
	await post(server, 'one', [resolve('q'), input.end()]);
	assert.deepEqual((await service.messages(2))[1], { session: 'one', kind: 'idle' });
	const [first, second] = service.requests;
	assert.equal(first.method, 'POST');
	assert.equal(first.headers['content-encoding'], 'aes128gcm');
	assert.equal(first.headers.host, `localhost:${service.port}`);
	assert.ok(Number(first.headers.ttl) > 0);
	assert.deepEqual([first.headers.urgency, second.headers.urgency], ['high', 'normal']);
	assert.match(first.headers.topic, /^[\w-]{32}$/);
	assert.equal(first.headers.topic, second.headers.topic, 'the newer replaces the older at the push service');
	const { claims, key } = readProof(first.headers.authorization);
	assert.equal(claims.aud, service.origin);
	assert.equal(claims.sub, 'https://holdfast.example.org');
	assert.ok(claims.exp * 1000 > Date.now() && claims.exp * 1000 < Date.now() + 24 * 3600 * 1000);
	assert.deepEqual((await call(server, 'GET', login)).body, { key, subscribed: true });
	assert.equal(statSync(join(server.dataDir, 'push-key')).mode & 0o777, 0o600);
	assert.ok(!server.stderr.includes(subscription.endpoint) && !server.stderr.includes('/push/'), 'no endpoint in the log');
	await untilCounted(server, 'sent', 2); // the service has them before the server has its answers
	assert.equal(await counted(server, 'sent'), 2);
});

test('a second question is told of, and an answer that leaves none is: to whom it was said that the session waits', async (t) => {
	const { server, service } = await start(t);
	await post(server, 'one', [input.text('x\n\n'), ask('q1')]);
	await service.messages(1);
	await post(server, 'one', ask('q2'));
	await service.messages(2);
	const quiet = await subscribe(server, service, await logIn(server)); // it was told nothing
	await post(server, 'one', resolve('q2')); // the first is open still: no news
	await untilCounted(server, 'sent', 2);
	await post(server, 'one', resolve('q1'));
	await service.messages(3);
	const { body } = await server.request('GET', '/api/sessions/one');
	assert.deepEqual([body.status, body.questions, body.waiting_for], ['running', undefined, undefined]);
	await post(server, 'one', ask('q3'));
	const messages = await service.messages(5);
	assert.deepEqual(messages.slice(0, 3), [{ session: 'one', kind: 'waiting', question: 'q1' }, { session: 'one', kind: 'waiting', question: 'q2' }, { session: 'one', kind: 'over' }]);
	assert.deepEqual(messages.slice(3), [{ session: 'one', kind: 'waiting', question: 'q3' }, { session: 'one', kind: 'waiting', question: 'q3' }]);
	assert.equal(service.requests.filter(({ subscription }) => subscription === quiet).length, 1);
	assert.equal((await server.request('DELETE', '/api/sessions/one')).status, 204);
	assert.deepEqual((await service.messages(7)).slice(5), [{ session: 'one', kind: 'over' }, { session: 'one', kind: 'over' }], 'a deleted session waits for nobody');
});

test('how many questions are open, and the newest, is told to those who may see them', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'one' });
	await post(server, 'one', [input.text('x\n\n'), ask('q1'), ask('q2')]);
	const seenBy = async (hide) => {
		const headers = { authorization: `Bearer ${ownToken(server, 'observer', ['*'], { holdfast: { role: 'observer', sessions: ['*'], hide } })}` };
		const { body } = await server.request('GET', '/api/sessions/one', { headers });
		return [body.status, body.questions, body.waiting_for];
	};
	assert.deepEqual(await seenBy(['thoughts']), ['waiting', 2, 'q2']);
	assert.deepEqual(await seenBy(['tools']), ['running', undefined, undefined]);
	await post(server, 'one', ask('q3'));
	await post(server, 'one', resolve('q2')); // neither the newest nor the last that is open
	assert.deepEqual(await seenBy(['thoughts']), ['waiting', 2, 'q3']);
	await post(server, 'one', resolve('q3'));
	assert.deepEqual(await seenBy(['thoughts']), ['waiting', 1, 'q1']);
	await server.kill9();
	await server.restart();
	assert.deepEqual(await seenBy(['thoughts']), ['waiting', 1, 'q1'], 'also after a crash');
});

test('a question whose id is long is told of without it', async (t) => {
	const { server, service } = await start(t);
	await post(server, 'one', [input.text('x\n\n'), ask('q'.repeat(5000))]);
	assert.deepEqual(await service.messages(1), [{ session: 'one', kind: 'waiting' }]);
	const { body } = await server.request('GET', '/api/sessions/one');
	assert.deepEqual([body.status, body.questions, body.waiting_for], ['waiting', 1, undefined]);
});

test('only those who may see it: patterns and hide', async (t) => {
	const service = await PushService.start(t);
	const server = await Server.start(t, { args: [...service.args(), ...SOON] });
	await Promise.all(['team-a', 'other'].map((id) => server.createSession({ id })));
	const of = async (sessions, hide) => subscribe(server, service, await logIn(server, ownToken(server, 'observer', sessions, { holdfast: { role: 'observer', sessions, ...(hide && { hide }) } })));
	const [team, blind] = [await of(['team-*']), await of(['*'], ['tools'])];
	await post(server, 'other', [input.text('x\n\n'), ask('q')]);
	await post(server, 'team-a', [input.text('x\n\n'), ask('q')]);
	await post(server, 'team-a', [resolve('q'), input.end()]);
	await service.messages(3);
	const to = (subscription) => service.requests.filter((request) => request.subscription === subscription).map(({ message }) => message);
	assert.deepEqual(to(blind), [{ session: 'team-a', kind: 'idle' }], 'tools are hidden: nobody says that it waits');
	assert.deepEqual(to(team), [{ session: 'team-a', kind: 'waiting', question: 'q' }, { session: 'team-a', kind: 'idle' }]);
});

test('410 and 404 end the subscription, also after a restart', async (t) => {
	for (const status of [410, 404]) {
		const { server, service, login } = await start(t);
		service.answer = () => ({ status });
		await post(server, 'one', [input.text('x\n\n'), ask('q')]);
		await untilCounted(server, 'gone', 1);
		assert.equal((await call(server, 'GET', login)).body.subscribed, false);
		await server.stop();
		await server.restart();
		const again = { ...login, cookie: login.cookie.replace(/^holdfast_\d+/, `holdfast_${new URL(server.url).port}`) };
		assert.equal((await call(server, 'GET', again)).body.subscribed, false);
		assert.equal(service.requests.length, 1);
	}
});

test('429, 500 and a connection that breaks are tried again; other refusals are not', async (t) => {
	const { server, service } = await start(t);
	const answers = [{ status: 429, headers: { 'retry-after': '1' } }, { status: 500 }, { status: 503, headers: { 'retry-after': 'Thu, 01 Jan 1970 00:00:00 GMT' } }, { status: 201 }];
	const times = [];
	service.answer = () => {
		times.push(Date.now());
		return answers[times.length - 1];
	};
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	await untilCounted(server, 'sent', 1);
	assert.equal(service.requests.length, 4);
	assert.ok(times[1] - times[0] >= 990, 'not before Retry-After says');
	assert.equal(await counted(server, 'retried'), 3);
	for (const { message } of service.requests) {
		assert.deepEqual(message, { session: 'one', kind: 'waiting', question: 'q' });
	}
	service.answer = () => ({ status: 400 });
	await post(server, 'one', [resolve('q'), input.end()]);
	await untilCounted(server, 'failed', 1);
	assert.equal(service.requests.length, 5);
	assert.match(server.stderr, /a push message to localhost failed: answer 400/);
	service.answer = () => ({ status: 500 });
	await post(server, 'one', input.text('y\n\n'));
	await post(server, 'one', input.end());
	await untilCounted(server, 'failed', 2);
	assert.equal(service.requests.length, 5 + 6, 'six attempts');
});

test('a redirect is not followed', async (t) => {
	const { server, service } = await start(t);
	service.answer = () => ({ status: 307, headers: { location: `${service.origin}/elsewhere` } });
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	await untilCounted(server, 'failed', 1);
	assert.deepEqual(service.requests.map(({ path }) => path.startsWith('/push/')), [true]);
});

test('a push service that never answers holds nothing up, not even the end of the server', async (t) => {
	const { server, service } = await start(t, { args: ['--limit', 'push_ms=600000'] });
	service.answer = () => null;
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	await service.messages(1);
	const { status } = await server.request('GET', '/api/sessions');
	assert.equal(status, 200);
	await server.stop(); // asserts that it ends with 0
	assert.ok(!server.stderr.includes('does not answer'), server.stderr);
});

test('a push service that is too slow is tried again', async (t) => {
	const { server, service } = await start(t, { args: ['--limit', 'push_ms=300'] });
	service.answer = (request, count) => (count === 1 ? null : { status: 201 });
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	await untilCounted(server, 'sent', 1);
	assert.ok(await counted(server, 'retried') >= 1); // on a busy machine the second try may be too slow, too
});

test('an answered question is not told of any more', async (t) => {
	const { server, service } = await start(t, { args: ['--limit', 'push_delay_ms=600000'] });
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	await eventually(async () => (await readMetrics(server))('push_queue') === 1, 'a message that waits');
	await post(server, 'one', resolve('q'));
	await untilCounted(server, 'dropped', 1);
	assert.equal((await readMetrics(server))('push_queue'), 0);
	assert.equal(service.requests.length, 0);
});

test('the queue is bounded: what is due first is dropped', async (t) => {
	const { server } = await start(t, { args: ['--limit', 'push_delay_ms=600000,push_queue=2'] });
	for (const id of ['two', 'three']) {
		await server.createSession({ id });
	}
	for (const id of ['one', 'two', 'three']) {
		await post(server, id, [input.text('x\n\n'), ask('q')]);
	}
	await untilCounted(server, 'dropped', 1);
	assert.equal((await readMetrics(server))('push_queue'), 2);
});

test('an address that is not of the internet is not connected to', async (t) => {
	const service = await PushService.start(t);
	const server = await Server.start(t, { args: [...service.args([]), ...SOON] });
	await server.createSession({ id: 'one' });
	await subscribe(server, service, await logIn(server));
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	await untilCounted(server, 'failed', 1);
	assert.equal(service.sockets.size, 0);
	assert.match(server.stderr, /a push message to localhost failed: the host has no address in the internet/);
	assert.equal(await counted(server, 'retried'), 0);
});

test('a certificate that is not trusted, or for another name', async (t) => {
	const service = await PushService.start(t);
	const other = await PushService.start(t, { name: 'push.example.org' });
	for (const args of [['--push-host', `localhost:${service.port}`], ['--push-host', `localhost:${other.port}`, '--push-ca', other.cert]]) {
		const server = await Server.start(t, { args: [...args, '--push-address', '127.0.0.1', '--push-address', '::1', ...SOON] });
		await server.createSession({ id: 'one' });
		const endpoint = `https://${args[1]}/push/x`;
		assert.equal((await call(server, 'POST', await logIn(server), new Subscription(endpoint).json)).status, 204);
		await post(server, 'one', [input.text('x\n\n'), ask('q')]);
		await untilCounted(server, 'failed', 1);
		assert.equal(await counted(server, 'sent'), 0);
	}
	assert.deepEqual([service.requests.length, other.requests.length], [0, 0]);
});

test('a certificate that the system trusts needs no --push-ca', async (t) => {
	const service = await PushService.start(t);
	const server = await Server.start(t, { args: ['--push-host', `localhost:${service.port}`, '--push-address', '127.0.0.1', '--push-address', '::1', ...SOON], env: { SSL_CERT_FILE: service.cert } });
	await server.createSession({ id: 'one' });
	await subscribe(server, service, await logIn(server));
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	await untilCounted(server, 'sent', 1);
});

test('what is refused as a subscription', async (t) => {
	const { server, service, login, subscription: { json } } = await start(t);
	const bad = (body) => call(server, 'POST', login, body);
	const at = (endpoint) => ({ ...json, endpoint });
	const here = `localhost:${service.port}`;
	for (const body of [
		{}, null, [], { ...json, more: 1 }, { ...json, keys: { ...json.keys, more: '' } }, { endpoint: json.endpoint }, { ...json, keys: [] },
		{ ...json, keys: { ...json.keys, auth: 'AAAA' } }, { ...json, keys: { ...json.keys, p256dh: Buffer.alloc(65, 4).toString('base64url') } },
		at(1), at(''), at(`http://${here}/x`), at('https://push.example.org/x'), at('https://fcm.googleapis.com/x'), at('https://localhost/x'),
		at(`https://user@${here}/x`), at(`https://${here}.example.org/x`), at(`https://evil.example.org#${here}/x`), at(`https://${here}/x#y`), at(`https://${here}`),
		at(`https://127.0.0.1:${service.port}/x`), at(`https://${here}/x y`), at(`https://${here}/x\r\nHost: evil`), at(`https://${here}/${'x'.repeat(1100)}`), at(`https://LOCALHOST:${service.port}/x`),
		at(`https://${here}0/x`), at(`https://${here}:1/x`), at('https://localhost:/x'), at(`https://x\\@${here}/x`), at('https:///x'),
	]) {
		const answer = await bad(body);
		assert.equal(answer.status, 400, JSON.stringify(body));
		assert.equal(answer.body.error.code, 'bad_request');
	}
	assert.equal((await call(server, 'PUT', login, json)).status, 405);
	assert.equal((await call(server, 'POST', {}, json)).body.error.code, 'bad_request', 'a token is no login');
	assert.equal((await call(server, 'GET', {})).body.subscribed, false);
	assert.equal((await call(server, 'POST', { authorization: undefined }, json)).status, 401);
	assert.equal((await call(server, 'GET', login)).body.subscribed, true, 'all of that has changed nothing');
});

test('a subscription as browsers write it, with its expirationTime, and as pages do that encode the keys themselves', async (t) => {
	const { server, service, login, subscription: { json } } = await start(t);
	const keys = Object.fromEntries(Object.entries(json.keys).map(([name, key]) => [name, Buffer.from(key, 'base64url').toString('base64')]));
	for (const body of [{ endpoint: json.endpoint, expirationTime: null, keys: json.keys }, { ...json, expirationTime: 1.8e12 }, { ...json, keys }]) {
		assert.equal((await call(server, 'POST', login, body)).status, 204, JSON.stringify(body));
	}
	assert.equal((await call(server, 'POST', login, { ...json, expirationTime: 'soon' })).status, 400);
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	assert.deepEqual(await service.messages(1), [{ session: 'one', kind: 'waiting', question: 'q' }], 'encrypted for these keys');
});

test('a subscription ends with the person, the login and its token; another login takes it over', async (t) => {
	const service = await PushService.start(t);
	const server = await Server.start(t, { args: [...service.args(), ...SOON] });
	const total = async () => (await readMetrics(server))('push_subscriptions');
	const [a, b] = [await logIn(server), await logIn(server)];
	const { json } = await subscribe(server, service, a);
	assert.equal((await call(server, 'POST', b, json)).status, 204);
	assert.equal(await total(), 1, 'one browser is told once');
	assert.equal((await call(server, 'GET', a)).body.subscribed, false);
	assert.equal((await call(server, 'DELETE', b)).status, 204);
	assert.equal(await total(), 0);
	await subscribe(server, service, b);
	assert.equal((await server.request('DELETE', '/api/login', { headers: { ...b, origin: server.url } })).status, 204);
	await eventually(async () => (await total()) === 0, 'logging out to end it');
	await subscribe(server, service, await logIn(server, ownToken(server, 'observer', ['*'], { jti: 'lost' })));
	assert.equal(await total(), 1);
	assert.equal((await runToEnd(['token', 'revoke', 'lost', '--data', server.dataDir])).code, 0);
	await eventually(async () => (await total()) === 0, 'the revocation to end it');
	const exp = Math.floor(Date.now() / 1000) + 2;
	await server.createSession({ id: 'one' });
	await subscribe(server, service, await logIn(server, ownToken(server, 'observer', ['*'], { exp })));
	await eventually(() => Date.now() > exp * 1000, 'the token to end');
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	await eventually(async () => (await total()) === 0, 'the end of the token to end it');
	assert.equal(service.requests.length, 0);
});

test('a restart keeps the key and the subscription', async (t) => {
	const { server, service, login } = await start(t);
	const { body: { key } } = await call(server, 'GET', login);
	await server.kill9();
	await server.restart();
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	assert.deepEqual(await service.messages(1), [{ session: 'one', kind: 'waiting', question: 'q' }]);
	assert.equal(readProof(service.requests[0].headers.authorization).key, key);
	assert.match(readFileSync(join(server.dataDir, 'access.jsonl'), 'utf8'), /"push":/);
});

test('--push-host off, and --auth off', async (t) => {
	for (const options of [{ args: ['--push-host', 'off'] }, { auth: false }]) {
		const server = await Server.start(t, options);
		const { body } = await server.request('GET', '/api/push');
		assert.deepEqual(body, { key: null, subscribed: false });
		assert.equal((await server.request('POST', '/api/push', { json: new Subscription('https://fcm.googleapis.com/x').json })).body.error.code, 'bad_request');
	}
	for (const args of [['--push-host', 'https://push.example.org'], ['--push-address', 'localhost'], ['--push-ca', '/nowhere']]) {
		const { code, stderr } = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', join((await Server.start(t)).dataDir, 'other'), ...args]);
		assert.notEqual(code, 0, stderr);
		assert.match(stderr, /--push-/);
	}
});

test('what is told later arrives later, however long the first one takes', async (t) => {
	const { server, service } = await start(t);
	const slow = new Promise((resolveSlow) => (service.release = resolveSlow));
	service.hold = (count) => (count === 1 ? slow : null);
	await post(server, 'one', [input.text('x\n\n'), ask('q')]);
	await service.messages(1);
	await post(server, 'one', [resolve('q'), input.end()]);
	await eventually(async () => (await readMetrics(server))('push_queue') === 1, 'the second one to wait for the first');
	service.release();
	assert.deepEqual((await service.messages(2)).map(({ kind }) => kind), ['waiting', 'idle']);
});
