// Who gets in: every endpoint and every frame, for every role, with right tokens and with wrong ones of every kind.

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { check } from '../support/schema.mjs';
import { Server, demoAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { claims, makeToken, ownToken, secretOf } from '../support/tokens.mjs';

const ROLES = ['observer', 'controller', 'producer', 'admin'];
const message = { type: 'agent_message_chunk', data: { text: 'x' } };

/** Method, path, body, the roles that may, and whether it is about a session. */
const ENDPOINTS = [
	['GET', '/api/sessions', undefined, ROLES, false],
	['GET', '/api/login', undefined, ROLES, false],
	['POST', '/api/sessions', { id: 'team-new' }, ['controller', 'producer', 'admin'], false],
	['GET', '/api/sessions/team-one', undefined, ROLES, true],
	['GET', '/api/sessions/team-one/events', undefined, ROLES, true],
	['GET', '/api/sessions/team-one/queue', undefined, ROLES, true],
	['POST', '/api/sessions/team-one/events', [message], ['producer', 'admin'], true],
	['POST', '/api/sessions/team-made/events?create=1', [message], ['producer', 'admin'], true],
	['POST', '/api/sessions/team-one/snapshot', { messages: [] }, ['producer', 'admin'], true],
	['POST', '/api/tokens/revoke', { jti: 'nobody' }, ['admin'], false],
	['GET', '/metrics', undefined, ['admin'], false],
	['DELETE', '/api/sessions/team-two', undefined, ['admin'], true],
];

const application = generateKeyPairSync('rsa', { modulusLength: 2048, publicKeyEncoding: { type: 'spki', format: 'pem' }, privateKeyEncoding: { type: 'pkcs8', format: 'pem' } });

async function start(t, options = {}) {
	const file = join(scratchDir(t), 'key.pem');
	writeFileSync(file, application.publicKey);
	const server = await Server.start(t, { args: ['--auth-public-key', file], ...options });
	for (const id of ['team-one', 'team-two']) {
		await server.createSession({ id });
	}
	return server;
}

const bearer = (token) => ({ authorization: `Bearer ${token}` });

/** How a token may be wrong: a name, the token for a role, and the code of the refusal. */
function wrongTokens(server, role) {
	const secret = secretOf(server);
	const now = Math.floor(Date.now() / 1000);
	const good = claims(role, ['team-*']);
	return {
		'expired': [makeToken({ ...good, exp: now - 1 }, secret), 'token_expired'],
		'not yet valid': [makeToken({ ...good, nbf: now + 30 }, secret), 'unauthorized'],
		'wrong signature': [makeToken(good, 'x'.repeat(43)), 'unauthorized'],
		'alg none': [makeToken(good, null, { alg: 'none' }), 'unauthorized'],
		'HS256 with the public key': [makeToken(good, application.publicKey), 'unauthorized'],
		'RS256 in the header, HS256 in truth': [makeToken(good, secret, { header: { alg: 'RS256' } }), 'unauthorized'],
		'a kid that is a path': [makeToken(good, '', { header: { kid: '/dev/null' } }), 'unauthorized'],
		'a key in the header': [makeToken(good, 'k'.repeat(32), { header: { jwk: { kty: 'oct', k: 'a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s' } } }), 'unauthorized'],
		'no exp': [makeToken({ ...good, exp: undefined }, secret), 'unauthorized'],
		'no role': [makeToken({ ...good, holdfast: { sessions: ['*'] } }, secret), 'unauthorized'],
		'no token at all': ['x', 'unauthorized'],
	};
}

const ask = (server, [method, path, json], headers) => server.request(method, path, { json, headers });

test('each endpoint lets in the roles of its row, and nobody with a wrong token', async (t) => {
	for (const role of ROLES) {
		await t.test(role, async (t) => {
			const server = await start(t, { args: [...(await keyArgs(t)), '--limit', 'wrong_tokens=100000'] });
			for (const endpoint of ENDPOINTS) {
				const [method, path, , roles, isOfSession] = endpoint;
				const name = `${role}: ${method} ${path}`;
				await Promise.all(Object.entries(wrongTokens(server, role)).map(async ([what, [token, code]]) => {
					const { status, body, headers } = await ask(server, endpoint, bearer(token));
					assert.deepEqual([status, body.error.code], [401, code], `${name}, ${what}`);
					assert.match(headers.get('www-authenticate'), /^Bearer/);
				}));
				const none = await ask(server, endpoint, { authorization: undefined });
				assert.deepEqual([none.status, none.body.error.code], [401, 'unauthorized'], name);
				const elsewhere = await ask(server, endpoint, bearer(ownToken(server, role, ['else-*', 'team'])));
				if (isOfSession) {
					assert.deepEqual([elsewhere.status, elsewhere.body.error.code], [404, 'not_found'], `${name}, of other sessions`);
				} else if (method === 'GET' && path === '/api/sessions') {
					assert.deepEqual(elsewhere.body.sessions, []);
				} else if (path === '/api/sessions') {
					assert.deepEqual([elsewhere.status, elsewhere.body.error.code], [403, 'forbidden'], name);
				}
				const tokens = { own: ownToken(server, role, ['team-*']), application: makeToken(claims(role, ['team-*']), application.privateKey, { alg: 'RS256' }) };
				for (const [whose, token] of Object.entries(tokens)) {
					const { status, body } = await ask(server, endpoint, bearer(token));
					if (roles.includes(role)) {
						const again = method === 'DELETE' || path === '/api/sessions' ? [404, 409] : [];
						assert.ok(status < 300 || (whose === 'application' && again.includes(status)), `${name}, ${whose}: ${status} ${JSON.stringify(body)}`);
					} else {
						assert.deepEqual([status, body.error.code], [403, 'forbidden'], `${name}, ${whose}`);
					}
				}
			}
		});
	}
});

async function keyArgs(t) {
	const file = join(scratchDir(t), 'key.pem');
	writeFileSync(file, application.publicKey);
	return ['--auth-public-key', file];
}

test('two tokens in one request are none', async (t) => {
	const server = await start(t);
	const { cookie, login } = await logIn(server, server.token);
	const both = { ...bearer(server.token), cookie, 'holdfast-login': login };
	assert.equal((await server.request('GET', '/api/sessions', { headers: both })).status, 401);
	const twice = await server.rawRequest('GET', '/api/sessions', { authorization: [`Bearer ${server.token}`, `Bearer ${server.token}`] });
	assert.ok([400, 401].includes(twice.status), String(twice.status));
	for (const value of [`Basic ${server.token}`, server.token, 'Bearer', `Bearer ${server.token}, Bearer x`]) {
		assert.equal((await server.request('GET', '/api/sessions', { headers: { authorization: value } })).status, 401, value);
	}
	assert.equal((await server.request('GET', `/api/sessions?token=${server.token}`, { headers: { authorization: undefined } })).status, 401);
});

/** Frames of the observer's socket, and who may send them. */
const FRAMES = [
	['load_events', {}, ROLES],
	['keepalive', {}, ROLES],
	['list_prompts', {}, ROLES],
	['prompt', { message: 'hello', prompt_id: 'p1' }, ['controller', 'admin']],
	['edit_prompt', { message: 'hello', prompt_id: 'p2' }, ['controller', 'admin']],
	['remove_prompt', { prompt_id: 'p2' }, ['controller', 'admin']],
	['cancel', {}, ['controller', 'admin']],
	['permission_answer', { request_id: 'r', option_id: 'o' }, ['controller', 'admin']],
	['set_mode', { mode_id: 'm' }, ['controller', 'admin']],
	['set_config_option', { config_id: 'c', value: 'v' }, ['controller', 'admin']],
];

test('each frame of the observer\'s socket is for the roles of its row; the socket stays', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 0') });
	for (const role of ROLES) {
		const token = ownToken(server, role, ['team-*']);
		const observer = await Observer.connect(t, server, 'team-one', { headers: bearer(token) });
		assert.equal(observer.hello.role, role);
		assert.ok(observer.hello.expires_at > Date.now());
		for (const [type, data, roles] of FRAMES) {
			const from = observer.frames.length;
			await observer.send(type, data);
			await observer.send('keepalive', { client_time: from });
			await observer.waitFor((frame) => frame.type === 'keepalive_ack' && frame.data.client_time === from, { from });
			const refused = observer.frames.slice(from).find((frame) => frame.type === 'error' && frame.data.code === 'forbidden');
			assert.equal(refused === undefined, roles.includes(role), `${role}: ${type}`);
			assert.equal(refused?.data.request ?? type, type);
		}
		await observer.close();
	}
});

const SOCKETS = ['/api/sessions/team-one/ws', '/api/sessions/team-one/produce', '/api/events'];
const anything = () => null;

test('a socket is opened by a token in the head, in a subprotocol or in the first frame, and by no wrong one', async (t) => {
	const server = await start(t, { args: [...(await keyArgs(t)), '--limit', 'wrong_tokens=100000'] });
	const good = ownToken(server, 'admin', ['team-*']);
	const origin = { origin: server.url, authorization: undefined };
	const connect = (path, options) => new TestSocket(t, server.ws(path), anything, options);
	for (const path of SOCKETS) {
		await connect(path, { headers: bearer(good) }).waitFor(() => true);
		await connect(path, { headers: { authorization: undefined }, protocols: ['holdfast.v1', `bearer.${good}`] }).waitFor(() => true);
		const patient = connect(path, { headers: { authorization: undefined }, protocols: ['holdfast.v1'] });
		await patient.send('token', { token: good });
		await patient.waitFor(() => true);

		// A program is told with the status, a browser with an error and a close.
		const program = connect(path, { headers: { authorization: undefined } });
		assert.equal((await program.waitRefused()).status, 401);
		await Promise.all(Object.entries(wrongTokens(server, 'admin')).map(async ([what, [token, code]]) => {
			assert.equal((await connect(path, { headers: bearer(token) }).waitRefused()).status, 401, what);
			const socket = connect(path, { headers: { origin: server.url, authorization: undefined } });
			await socket.send('token', { token });
			assert.deepEqual(await socket.waitClosed(), { code: 4401, reason: code }, what);
			assert.deepEqual(socket.frames.map(({ type, data }) => [type, data.code]), [['error', code]], what);
		}));
		for (const first of [['keepalive', {}], ['load_events', {}], ['token', {}], ['token', { token: good, login: 'x' }], ['token', { login: 'x' }]]) {
			const socket = connect(path, { headers: { origin: server.url, authorization: undefined } });
			await socket.send(...first);
			assert.deepEqual(await socket.waitClosed(), { code: 4401, reason: 'unauthorized' }, JSON.stringify(first));
			assert.deepEqual(socket.frames.map(({ data }) => data.code), ['unauthorized']);
		}
	}
	const silent = connect(SOCKETS[0], { headers: { origin: server.url, authorization: undefined } });
	assert.deepEqual(await silent.waitClosed(), { code: 4401, reason: 'unauthorized' });
	const foreign = connect(SOCKETS[0], { headers: bearer(ownToken(server, 'admin', ['else'])) });
	assert.deepEqual(await foreign.waitClosed(), { code: 4404, reason: 'no such session' });
	assert.equal(foreign.frames[0].data.reason, 'unknown');
	const watcher = connect(SOCKETS[1], { headers: bearer(ownToken(server, 'controller', ['team-*'])) });
	assert.equal((await watcher.waitClosed()).code, 1008);
	assert.equal(watcher.frames[0].data.code, 'forbidden');
	assert.ok(origin);
});

test('the list and the feed show the sessions of the token and no others', async (t) => {
	const server = await start(t);
	await Promise.all(['a-1', 'b-1', 'a-2', 'b-2'].map((id) => server.createSession({ id })));
	const headers = bearer(ownToken(server, 'controller', ['a-*']));
	const { body } = await server.request('GET', '/api/sessions', { headers });
	assert.deepEqual(body.sessions.map(({ id }) => id).sort(), ['a-1', 'a-2']);
	const feed = new TestSocket(t, server.ws('/api/events'), check.feed, { headers });
	const { data } = await feed.waitFor('sessions');
	assert.deepEqual(data.sessions.map(({ id }) => id).sort(), ['a-1', 'a-2']);
	await server.createSession({ id: 'b-3' });
	await server.request('DELETE', '/api/sessions/b-1');
	await server.request('DELETE', '/api/sessions/a-1');
	await server.createSession({ id: 'a-3' });
	await feed.waitFor(({ type, data: { session } }) => type === 'session_created' && session.id === 'a-3');
	assert.deepEqual(feed.frames.slice(1).map(({ type, data: told }) => [type, told.session_id ?? told.session.id]), [['session_deleted', 'a-1'], ['session_created', 'a-3']]);
	const made = await server.request('POST', '/api/sessions', { json: {}, headers });
	assert.equal(made.status, 201);
	assert.match(made.body.id, /^a-.{16}$/);
});

test('a token that ends, is renewed or is revoked, on living sockets', async (t) => {
	const server = await start(t);
	const now = Math.floor(Date.now() / 1000);
	const soon = ownToken(server, 'controller', ['team-*'], { exp: now + 3, jti: 'soon', sub: 'ann' });
	const ends = await Observer.connect(t, server, 'team-one', { headers: bearer(soon) });
	const renewed = await Observer.connect(t, server, 'team-one', { headers: bearer(soon) });
	const other = await Observer.connect(t, server, 'team-one', { headers: bearer(ownToken(server, 'observer', ['team-*'], { sub: 'bob' })) });
	await renewed.send('token', { token: ownToken(server, 'controller', ['team-*'], { sub: 'ann', jti: 'later' }) });
	assert.ok((await renewed.waitFor('token_renewed')).data.expires_at > (now + 30) * 1000);
	await other.send('token', { token: ownToken(server, 'admin', ['*'], { sub: 'ann' }) });
	assert.deepEqual(await other.waitClosed(), { code: 4401, reason: 'unauthorized' }, 'another sub');
	assert.deepEqual(await ends.waitClosed(), { code: 4401, reason: 'token_expired' });
	assert.equal(renewed.closed, null);
	const { code } = await runToEnd(['token', 'revoke', 'later', '--data', server.dataDir]);
	assert.equal(code, 0);
	assert.deepEqual(await renewed.waitClosed(), { code: 4403, reason: 'token_revoked' });
});

/** Logs in as a page does. */
async function logIn(server, token) {
	const { status, headers, body } = await server.request('POST', '/api/login', { json: { token }, headers: { origin: server.url, authorization: undefined } });
	assert.equal(status, 200, JSON.stringify(body));
	const setCookie = headers.get('set-cookie');
	assert.match(setCookie, /^holdfast_\d+=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=\d+$/);
	return { cookie: setCookie.split(';')[0], login: body.login, body };
}

test('a browser logs in, stays so over a restart, and logs out', async (t) => {
	const server = await start(t);
	const { cookie, login, body } = await logIn(server, server.token);
	assert.deepEqual([body.role, body.sub, body.expires_at], ['admin', '', null]);
	const asPage = { authorization: undefined, cookie, 'holdfast-login': login };
	const get = async (headers) => (await server.request('GET', '/api/sessions', { headers })).status;
	assert.equal(await get(asPage), 200);
	assert.equal(await get({ authorization: undefined, cookie }), 401, 'the cookie alone');
	assert.equal(await get({ authorization: undefined, 'holdfast-login': login }), 401, 'the other half alone');
	assert.equal(await get({ authorization: undefined, cookie: `${cookie}; ${cookie}`, 'holdfast-login': login }), 401, 'two cookies');
	const page = (options) => new TestSocket(t, server.ws('/api/sessions/team-one/ws'), check.server, options);
	const socket = page({ headers: { authorization: undefined, origin: server.url, cookie } });
	await socket.send('token', { login });
	assert.equal((await socket.waitFor('connected')).data.role, 'admin');
	const withoutCookie = page({ headers: { authorization: undefined, origin: server.url } });
	await withoutCookie.send('token', { login });
	assert.equal((await withoutCookie.waitClosed()).code, 4401);
	const out = await server.request('DELETE', '/api/login', { headers: { ...asPage, origin: server.url } });
	assert.equal(out.status, 204);
	assert.match(out.headers.get('set-cookie'), /Max-Age=0/);
	assert.deepEqual(await socket.waitClosed(), { code: 4403, reason: 'token_revoked' });
	assert.equal(await get(asPage), 401);

	const second = await logIn(server, ownToken(server, 'observer', ['team-*']));
	await server.kill9();
	await server.restart();
	// The cookie has the port in its name, and this server another one: as a browser would not send it.
	const moved = { authorization: undefined, cookie: second.cookie.replace(/_\d+=/, `_${new URL(server.url).port}=`), 'holdfast-login': second.login };
	assert.equal(await get(moved), 200);
});

test('logging in is for pages of the server itself', async (t) => {
	const server = await start(t);
	const post = (headers, json = { token: server.token }) => server.request('POST', '/api/login', { json, headers: { authorization: undefined, ...headers } });
	assert.equal((await post({})).body.error.code, 'forbidden_origin');
	assert.equal((await post({ origin: 'http://evil.example' })).body.error.code, 'forbidden_origin');
	assert.equal((await post({ origin: server.url }, { token: 'x' })).body.error.code, 'unauthorized');
	assert.equal((await post({ origin: server.url }, { token: server.token, more: 1 })).body.error.code, 'bad_request');
	assert.equal((await post({ origin: server.url }, [])).body.error.code, 'bad_request');
});

test('wrong tokens are answered late and told to wait; right ones pass', async (t) => {
	const server = await start(t);
	const get = (token) => server.request('GET', '/api/sessions', { headers: bearer(token) });
	for (let i = 0; i < 10; i += 1) {
		assert.equal((await get(`wrong-${i}`)).status, 401);
	}
	const { status, headers, body } = await get('wrong-again');
	assert.deepEqual([status, headers.get('retry-after'), body.error.code], [429, '60', 'too_many_tokens']);
	assert.equal((await get(server.token)).status, 200);
	assert.equal((await server.request('GET', '/api/sessions', { headers: { authorization: undefined } })).status, 401, 'no token is not a wrong one');
});

test('--auth off is for loopback only, and then everybody is let in', async (t) => {
	const server = await Server.start(t, { auth: false });
	assert.equal((await server.request('GET', '/api/sessions')).status, 200);
	assert.equal((await server.request('GET', '/api/login')).body.role, 'admin');
	const dir = scratchDir(t);
	const { code, stderr } = await runToEnd(['serve', '--listen', '0.0.0.0:0', '--data', join(dir, 'data'), '--cwd', dir, '--auth', 'off', '--tls', 'off']);
	assert.equal(code, 1);
	assert.match(stderr, /--auth off is for loopback and unix sockets only/);
});

test('the commands make, list and revoke tokens, with a server and without one', async (t) => {
	const server = await start(t);
	const run = async (...args) => {
		const { code, stdout, stderr } = await runToEnd([...args, '--data', server.dataDir]);
		assert.equal(code, 0, stderr);
		return stdout.trim();
	};
	assert.equal(await run('url'), `${server.url}/#token=${server.token}`);
	const token = await run('token', 'create', '--role', 'observer', '--session', 'team-*', '--sub', 'ann', '--expires', '1h');
	const { body } = await server.request('GET', '/api/login', { headers: bearer(token) });
	assert.deepEqual([body.role, body.sub], ['observer', 'ann']);
	const [jti] = (await run('token', 'list')).split(/\s/);
	assert.match(await run('token', 'create', '--role', 'admin', '--session', '*', '--link'), /^http:\/\/\S+\/#token=\S+$/);
	await run('token', 'revoke', jti);
	assert.equal((await server.request('GET', '/api/login', { headers: bearer(token) })).body.error.code, 'token_revoked');
	assert.match((await run('token', 'list')).split('\n')[0], / revoked$/);
	const other = await run('token', 'create', '--role', 'observer', '--session', '*', '--sub', 'bob');
	await server.stop();
	await run('token', 'revoke', '--sub', 'bob');
	await server.restart();
	assert.equal((await server.request('GET', '/api/login', { headers: bearer(other) })).body.error.code, 'token_revoked');
	for (const wrong of [['token'], ['token', 'create'], ['token', 'create', '--role', 'root', '--session', '*'], ['token', 'create', '--role', 'admin', '--session', 'a*b'], ['token', 'revoke'], ['token', 'make']]) {
		assert.equal((await runToEnd([...wrong, '--data', server.dataDir])).code, 2, wrong.join(' '));
	}
});

test('no secret is in what the server says, nor in its files', async (t) => {
	const server = await start(t);
	const { cookie, login } = await logIn(server, server.token);
	await server.request('GET', '/api/sessions', { headers: bearer('wrong-token-that-nobody-logs') });
	await server.stop();
	for (const secret of [server.token, secretOf(server), cookie.split('=')[1], login, 'wrong-token-that-nobody-logs']) {
		assert.ok(!server.stderr.includes(secret));
	}
});

test('what somebody did has their sub, and nobody changes another\'s prompt', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 30') });
	const connect = (sub, role) => Observer.connect(t, server, 'team-one', {
		headers: bearer(ownToken(server, role, ['team-*'], { sub })), query: { client_id: 'same', format: 'markdown' },
	});
	const ann = await connect('ann', 'controller');
	const bob = await connect('bob', 'controller');
	const admin = await connect('root', 'admin');
	await ann.loadAll();
	const { seq } = await ann.prompt('long');
	assert.deepEqual((await ann.waitForEvent('user_prompt')).data.sub, 'ann');
	await ann.send('prompt', { message: 'list', prompt_id: 'q1' });
	await ann.send('prompt', { message: 'list', prompt_id: 'q2' });
	const { data } = await ann.waitFor((frame) => frame.type === 'state' && frame.data.queue_length === 2);
	assert.deepEqual(data.queue.map(({ sub }) => sub), ['ann', 'ann']);
	for (const [type, more] of [['edit_prompt', { message: 'table' }], ['remove_prompt', {}]]) {
		await bob.send(type, { prompt_id: 'q1', ...more });
		const refused = await bob.waitFor((frame) => frame.type === 'error' && frame.data.request === type);
		assert.deepEqual([refused.data.code, refused.data.prompt_id], ['forbidden', 'q1']);
	}
	await ann.send('edit_prompt', { prompt_id: 'q1', message: 'table' });
	await ann.waitFor('prompt_edited');
	await admin.send('remove_prompt', { prompt_id: 'q2' });
	await admin.waitFor('prompt_removed');
	await bob.send('cancel');
	await ann.waitForEvent('turn_end', { after: seq });
	const begun = await ann.waitForEvent('user_prompt', { after: seq });
	assert.deepEqual([begun.data.message, begun.data.sub, begun.data.edited], ['table', 'ann', true]);
	await bob.send('cancel');
	await ann.waitForEvent('turn_end', { after: begun.seq });
	await bob.prompt('permission');
	const question = await ann.waitForEvent('permission_request');
	await bob.send('permission_answer', { request_id: question.data.request_id, option_id: question.data.options[0].option_id });
	const answer = await ann.waitForEvent('permission_resolved');
	assert.deepEqual([answer.data.by, answer.data.sub], ['same', 'bob']);
});

test('another site can make a browser open the page, and ask for nothing else', async (t) => {
	for (const auth of [true, false]) {
		const server = await Server.start(t, { auth, args: ['--web', fileURLToPath(new URL('../../web', import.meta.url))] });
		const status = async (path, headers) => (await server.rawRequest('GET', path, headers)).status;
		for (const site of ['cross-site', 'same-site']) {
			const link = { 'sec-fetch-site': site, 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
			assert.equal(await status('/', link), 200);
			assert.equal(await status('/api/sessions', link), 403);
			for (const [mode, dest] of [['no-cors', 'script'], ['no-cors', 'image'], ['cors', 'empty'], ['navigate', 'iframe'], ['websocket', 'websocket']]) {
				const headers = { 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': dest };
				for (const path of ['/', '/page/app.js', '/api/sessions', '/api/login', '/healthz', '/api/sessions/x/events']) {
					assert.equal(await status(path, headers), 403, `${site} ${mode} ${dest} ${path}`);
				}
			}
		}
		assert.equal(await status('/api/sessions', { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' }), 200);
		assert.equal(await status('/', { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }), 200);
		const page = await server.rawRequest('GET', '/');
		const api = await server.rawRequest('GET', '/api/sessions');
		for (const { headers } of [page, api]) {
			assert.equal(headers['x-content-type-options'], 'nosniff');
			assert.equal(headers['referrer-policy'], 'no-referrer');
			assert.equal(headers['cross-origin-resource-policy'], 'same-origin');
			assert.match(headers['content-security-policy'], /default-src 'none'.*frame-ancestors 'none'/);
			assert.doesNotMatch(headers['content-security-policy'], /unsafe/);
		}
		assert.equal(page.headers['cross-origin-opener-policy'], 'same-origin');
		assert.match(page.headers['permissions-policy'], /camera=\(\)/);
		assert.equal(api.headers['cache-control'], 'no-store');
	}
});
