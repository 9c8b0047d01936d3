// Tokens, logins and identities: what they show of the sessions, when they end, how a browser gets in, and whose an act is.

import assert from 'node:assert/strict';
import { chmodSync, lstatSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { inDirectory } from '../support/parts.mjs';
import { check } from '../support/schema.mjs';
import { Server, demoAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { bearer, ownToken, secretOf } from '../support/tokens.mjs';

async function start(t, options = {}) {
	const server = await Server.start(t, options);
	for (const id of ['team-one', 'team-two']) {
		await server.createSession({ id });
	}
	return server;
}

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

test('an admin of some sessions takes back only the own token, and reads the metrics, which tell of none', async (t) => {
	const server = await start(t);
	const token = ownToken(server, 'admin', ['team-*'], { jti: 'mine', sub: 'ann' });
	const revoke = (json) => server.request('POST', '/api/tokens/revoke', { json, headers: bearer(token) });
	const other = ownToken(server, 'admin', ['*'], { jti: 'other', sub: 'ann' });
	for (const json of [{ jti: 'other' }, { jti: 'nobody' }, { sub: 'ann', before: Date.now() + 60_000 }, { sub: 'bob', before: 1 }]) {
		const { status, body } = await revoke(json);
		assert.deepEqual([status, body.error.code], [403, 'forbidden'], JSON.stringify(json));
	}
	assert.equal((await server.request('GET', '/api/login', { headers: bearer(other) })).status, 200);
	const metrics = await server.request('GET', '/metrics', { headers: bearer(token) });
	assert.equal(metrics.status, 200);
	assert.doesNotMatch(metrics.body, /team/);
	assert.equal((await revoke({ jti: 'mine' })).status, 204);
	assert.equal((await revoke({ jti: 'mine' })).body.error.code, 'token_revoked');
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

test('a login that makes room for a newer one ends, and its sockets too', async (t) => {
	const server = await start(t, { args: ['--limit', 'client_requests=100000'] });
	const { cookie, login } = await logIn(server, server.token);
	const socket = new TestSocket(t, server.ws('/api/events'), check.feed, { headers: { authorization: undefined, origin: server.url, cookie } });
	await socket.send('token', { login });
	await socket.waitFor('sessions');
	for (let i = 0; i < 256; i += 1) {
		assert.equal(socket.closed, null);
		await logIn(server, server.token);
	}
	assert.deepEqual(await socket.waitClosed(), { code: 4403, reason: 'token_revoked' });
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
	const { code, stderr } = await runToEnd(['serve', '--listen', '0.0.0.0:0', '--data', join(dir, 'data'), ...inDirectory(dir), '--auth', 'off', '--tls', 'off']);
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
	// One that an application has issued is not known here, and can be revoked all the same.
	for (const [one, isKnown] of [[jti, true], ['of-an-application', false]]) {
		const { code, stderr } = await runToEnd(['token', 'revoke', one, '--data', server.dataDir]);
		assert.deepEqual([code, /warning: token create has issued no token with the JTI of-an-application /.test(stderr), stderr === ''], [0, !isKnown, isKnown], stderr);
	}
	const modeOfUrl = () => lstatSync(join(server.dataDir, 'url')).mode & 0o777;
	assert.equal(modeOfUrl(), 0o600);
	const other = await run('token', 'create', '--role', 'observer', '--session', '*', '--sub', 'bob');
	await server.stop();
	await run('token', 'revoke', '--sub', 'bob');
	chmodSync(join(server.dataDir, 'url'), 0o644);
	await server.restart();
	assert.equal(modeOfUrl(), 0o600, 'another mode that it had before');
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

test('a page of the list, and its cursor, has nothing of sessions that the token is not for', async (t) => {
	const server = await start(t);
	for (let i = 0; i < 30; i += 1) {
		await server.createSession({ id: `${i % 10 === 0 ? 'seen' : 'secret'}-${i}` });
	}
	const headers = bearer(ownToken(server, 'observer', ['seen-*']));
	let path = '/api/sessions?limit=1';
	const seen = [];
	while (path) {
		const { body } = await server.request('GET', path, { headers });
		assert.doesNotMatch(JSON.stringify(body), /secret|team/);
		assert.equal(body.sessions.length, 1);
		seen.push(body.sessions[0].id);
		path = body.next && `/api/sessions?limit=1&cursor=${encodeURIComponent(body.next)}`;
	}
	assert.deepEqual(seen, ['seen-20', 'seen-10', 'seen-0']);
	const limited = await Server.start(t, { args: ['--limit', 'list_max=2'] });
	for (const id of ['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'c1', 'c2']) {
		await limited.createSession({ id });
	}
	const feed = new TestSocket(t, limited.ws('/api/events'), check.feed, { headers: bearer(ownToken(limited, 'observer', ['b*'])) });
	await feed.waitFor('sessions');
	assert.deepEqual(feed.frames.map(({ data }) => [data.sessions.map(({ id }) => id), data.more]), [[['b1'], false]], 'no pages of nothing');
	await feed.send('token', { token: ownToken(limited, 'observer', ['c*']) });
	await feed.waitUntil(() => feed.frames.filter(({ type }) => type === 'sessions').length === 2, 'the list after the renewal');
	assert.deepEqual(feed.frames.slice(1).map(({ type, data }) => [type, data.sessions?.map(({ id }) => id)]), [['token_renewed', undefined], ['sessions', ['c1', 'c2']]]);
});

test('a producer does not say that somebody else asked or answered', async (t) => {
	const server = await start(t);
	const post = async (sub, role, given) => (await server.request('POST', '/api/sessions/team-one/events', { json: [{ type: 'user_prompt', data: { message: 'x', sub: given } }], headers: bearer(ownToken(server, role, ['team-*'], { sub })) })).body;
	assert.equal((await post('robot', 'producer', 'ann')).error.code, 'forbidden');
	assert.equal((await post('robot', 'producer', 1)).error.code, 'forbidden');
	assert.equal((await post('robot', 'producer', 'robot')).acks.length, 1);
	assert.equal((await post('boss', 'admin', 'ann')).acks.length, 1);
});

/** The cookies that an answer sets; getSetCookie() is not in Debian 12's Node. */
const setCookies = (headers) => headers.get('set-cookie').split(/, (?=holdfast_)/);

test('the login of a share link has a cookie of its own, and a browser has eight of them', async (t) => {
	const server = await start(t);
	const { cookie, login } = await logIn(server, server.token);
	const shareOf = async (cookies) => {
		const token = ownToken(server, 'observer', ['team-one']);
		const { status, headers, body } = await server.request('POST', '/api/login', { json: { token, share: true }, headers: { origin: server.url, authorization: undefined, cookie: cookies.join('; ') } });
		assert.equal(status, 200);
		return { set: setCookies(headers), half: body.login };
	};
	const first = await shareOf([cookie]);
	assert.equal(first.set.length, 1);
	assert.match(first.set[0], /^holdfast_\d+_[0-9a-f]{8}=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/$/);
	const jar = [cookie, first.set[0].split(';')[0]];
	const get = async (half, cookies = jar) => (await server.request('GET', '/api/login', { headers: { authorization: undefined, cookie: cookies.join('; '), 'holdfast-login': half } })).body.role;
	assert.deepEqual([await get(login), await get(first.half)], ['admin', 'observer'], 'each half has its cookie');
	assert.equal(await get(first.half, [cookie]), undefined);
	assert.equal(await get(login, [jar[1]]), undefined);
	const socket = new TestSocket(t, server.ws('/api/sessions/team-one/ws'), check.server, { headers: { authorization: undefined, origin: server.url, cookie: jar.join('; ') } });
	await socket.send('token', { login: first.half });
	assert.equal((await socket.waitFor('connected')).data.role, 'observer');
	for (let i = 1; i < 8; i += 1) {
		const { set } = await shareOf(jar);
		assert.equal(set.length, 1);
		jar.push(set[0].split(';')[0]);
	}
	const { set } = await shareOf(jar);
	assert.equal(set.length, 2);
	assert.equal(set[1], `${first.set[0].split('=')[0]}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0`);
	const out = await server.request('DELETE', '/api/login', { headers: { authorization: undefined, origin: server.url, cookie: jar.join('; '), 'holdfast-login': first.half } });
	assert.deepEqual([out.status, setCookies(out.headers)[0].split('=')[0]], [204, first.set[0].split('=')[0]]);
	assert.deepEqual(await socket.waitClosed(), { code: 4403, reason: 'token_revoked' });
	assert.equal(await get(login), 'admin');
});
