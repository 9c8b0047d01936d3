/** The client library: tokens, logins, and what becomes of a client that the server does not let in. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IDBFactory, IDBKeyRange } from 'fake-indexeddb';

import {
	HoldfastClient,
	HoldfastError,
	HoldfastFeed,
	checkLogin,
	createSession,
	currentLogin,
	forgetLogin,
	isLoginWith,
	listSessions,
	login,
	logout,
} from '../../web/client/holdfast-client.js';
import { FakeServer } from './fake_server.mjs';
import { observe, range, seqs } from './observe.mjs';

const HOUR = 3_600_000;
const NEVER = { role: 'admin', expires_at: null };

/** Lets promises settle, and delivers what they lead to. */
async function settle(server) {
	for (let i = 0; i < 10; i += 1) {
		await new Promise((done) => setImmediate(done));
		server.pump();
	}
}

function locked(accepts, count = 3) {
	const server = new FakeServer().fill(count);
	server.accepts = new Map(Object.entries(accepts));
	return server;
}

/** A localStorage. */
function makeStorage(login = null) {
	const items = new Map(login ? [['holdfast-login', JSON.stringify(login)]] : []);
	return {
		getItem: (key) => items.get(key) ?? null,
		setItem: (key, value) => void items.set(key, value),
		removeItem: (key) => void items.delete(key),
		items,
	};
}

const ANN = { login: 'half', role: 'controller', sub: 'ann', expires_at: null };

test('the first frame has the token, once; the subprotocol is offered; the tap sees no token', async () => {
	const server = locked({ secret: { role: 'observer', expires_at: null } });
	const seen = [];
	const { client } = observe(server, { getToken: () => 'secret', inspect: (way, text) => seen.push(text) });
	assert.equal(server.sockets.length, 0, 'the token comes first');
	await settle(server);
	assert.equal(client.status.status, 'live');
	assert.equal(client.state.role, 'observer');
	assert.deepEqual(server.socket.protocols, ['holdfast.v1']);
	assert.deepEqual(server.received[0], { type: 'token', data: { token: 'secret' } });
	assert.equal(server.sent('token').length, 1);
	assert.ok(!seen.join().includes('secret'));
	assert.ok(!server.socket.url.includes('secret'));
	assert.ok(seen.includes('{"type":"token","data":{}}'));
});

test('getToken is asked for each connection, and may take its time', async () => {
	const server = locked({ t1: NEVER, t2: NEVER });
	let asked = 0;
	const { client, view } = observe(server, { getToken: async () => `t${(asked += 1)}` });
	await settle(server);
	server.socket.break();
	server.advance(1_000);
	await settle(server);
	assert.deepEqual(
		server.sent('token').map(({ token }) => token),
		['t1', 't2'],
	);
	assert.equal(client.status.status, 'live');
	assert.deepEqual(seqs(view.events), range(1, 3));
	assert.deepEqual(view.errors, []);
});

test('a getToken that fails, or never answers, is asked again later', async () => {
	const server = locked({ t: NEVER });
	const answers = [Promise.reject(new Error('offline')), new Promise(() => {}), '', 't'];
	const { client, view } = observe(server, { getToken: () => answers.shift() });
	await settle(server);
	assert.equal(client.status.status, 'retrying');
	assert.match(client.status.reason, /no token: Error: offline/);
	server.advance(2_000);
	await settle(server);
	assert.equal(client.status.status, 'connecting');
	server.advance(25_000);
	await settle(server);
	server.advance(10_000);
	await settle(server);
	assert.equal(client.status.status, 'live');
	assert.equal(server.sockets.length, 1);
	assert.ok(!view.statuses.includes('unauthorized'));
});

test('a client that is closed while it waits for its token opens no socket', async () => {
	const server = locked({ t: NEVER });
	let give;
	const { client } = observe(server, { getToken: () => new Promise((resolve) => (give = resolve)) });
	await settle(server);
	client.close();
	give('t');
	await settle(server);
	assert.equal(server.sockets.length, 0);
	assert.equal(server.timers.pending, 0);
});

test('a token is renewed on the living socket before it ends', async () => {
	const server = locked({});
	let number = 0;
	const getToken = () => {
		const token = `t${(number += 1)}`;
		server.accepts.set(token, { role: 'controller', expires_at: server.timers.now() + HOUR });
		return token;
	};
	const { client, view } = observe(server, { getToken });
	await settle(server);
	for (let minutes = 0; minutes < 180; minutes += 1) {
		server.advance(60_000);
		await settle(server);
	}
	assert.equal(server.sockets.length, 1);
	assert.deepEqual(
		server.sent('token').map(({ token }) => token),
		['t1', 't2', 't3', 't4'],
	);
	assert.equal(client.status.status, 'live');
	assert.deepEqual(view.errors, []);
});

test('a clock that is wrong does not make it ask all the time', async () => {
	const server = locked({});
	let asked = 0;
	server.accepts.set('t', { role: 'admin', expires_at: server.timers.now() - HOUR });
	const { client } = observe(server, {
		getToken: () => {
			asked += 1;
			return 't';
		},
	});
	await settle(server);
	for (let i = 0; i < 60; i += 1) {
		server.advance(1_000);
		await settle(server);
	}
	assert.ok(asked <= 7, `asked ${asked} times in a minute`);
	assert.equal(client.status.status, 'live');
});

test('a token that never ends is not renewed, nor one far away before its time', async () => {
	for (const expires_at of [null, 1_000_000 + 300 * 24 * HOUR]) {
		const server = locked({ t: { role: 'admin', expires_at } });
		observe(server, { getToken: () => 't' });
		await settle(server);
		server.advance(HOUR);
		await settle(server);
		assert.equal(server.sent('token').length, 1);
	}
});

test('token_expired: asked once more, and it goes on', async () => {
	const server = locked({ t1: NEVER, t2: NEVER });
	let asked = 0;
	const { client, view } = observe(server, { getToken: () => `t${(asked += 1)}` });
	await settle(server);
	server.socket.refuse('token_expired');
	server.pump();
	await settle(server);
	assert.equal(client.status.status, 'live');
	assert.equal(asked, 2);
	assert.deepEqual(view.errors, [], 'the status says it');
	server.record({});
	server.socket.refuse('token_expired');
	server.accepts.set('t3', NEVER);
	server.pump();
	await settle(server);
	assert.equal(client.status.status, 'live', 'once more each time that it was live');
});

test('wrong again: it stops, says so, and connect() tries anew from its position', async () => {
	const server = locked({ good: NEVER });
	let token = 'good';
	const { client, view } = observe(server, { getToken: () => token });
	await settle(server);
	token = 'wrong';
	server.socket.break();
	server.advance(1_000);
	await settle(server);
	const { length } = server.sockets;
	assert.equal(length, 3);
	assert.deepEqual(client.status, { status: 'unauthorized', reason: 'unauthorized' });
	server.advance(10 * HOUR);
	await settle(server);
	server.page.dispatchEvent(new Event('online'));
	await settle(server);
	assert.equal(server.sockets.length, length, 'no endless attempts');
	assert.equal(server.timers.pending, 0);
	assert.deepEqual(seqs(client.events), range(1, 3), 'what is held stays');

	server.record({});
	token = 'good';
	client.connect();
	await settle(server);
	assert.equal(client.status.status, 'live');
	assert.deepEqual(seqs(view.events), range(1, 4));
	assert.deepEqual(view.resets, []);
});

test('token_revoked: stopped at once', async () => {
	const server = locked({ t: NEVER });
	let asked = 0;
	const { client } = observe(server, {
		getToken: () => {
			asked += 1;
			return 't';
		},
	});
	await settle(server);
	server.socket.refuse('token_revoked');
	server.pump();
	await settle(server);
	assert.deepEqual(client.status, { status: 'unauthorized', reason: 'token_revoked' });
	assert.equal(asked, 1);
});

test('a close without its frame is enough', async () => {
	for (const [code, reason] of [[4401, 'unauthorized'], [4403, 'token_revoked']]) {
		const server = new FakeServer();
		const { client } = observe(server);
		server.pump();
		server.socket.break(code);
		server.pump();
		assert.deepEqual(client.status, { status: 'unauthorized', reason });
		client.close();
		assert.equal(client.status.status, 'closed');
	}
});

test('what waits for an answer is refused; prompts are kept for the next connection', async () => {
	const server = locked({ t: NEVER });
	let token = 't';
	const { client } = observe(server, { getToken: () => token });
	await settle(server);
	token = 'wrong';
	const refused = assert.rejects(client.listPrompts(), { code: 'closed' });
	server.socket.refuse('token_expired');
	server.pump();
	client.prompt('go on', { promptId: 'p1' });
	await settle(server);
	assert.equal(client.status.status, 'unauthorized');
	await refused;
	token = 't';
	client.connect();
	await settle(server);
	assert.deepEqual(server.sent('prompt'), [{ message: 'go on', prompt_id: 'p1' }]);
});

test('an iterator throws when the server lets nobody in', async () => {
	const server = locked({ t: NEVER }, 1);
	const { client } = observe(server, { getToken: () => 't' });
	await settle(server);
	const seen = [];
	const reading = (async () => {
		for await (const event of client) {
			seen.push(event.seq);
		}
	})();
	await settle(server);
	server.socket.refuse('token_revoked');
	server.pump();
	await assert.rejects(reading, (error) => error instanceof HoldfastError && error.code === 'token_revoked');
	assert.deepEqual(seen, [1]);
});

test('a spare socket says who it is, too', async () => {
	const server = locked({ t: NEVER });
	const { client } = observe(server, { getToken: () => 't' });
	await settle(server);
	server.silent = true;
	server.socket.silent = true;
	client.retryNow();
	server.timers.advance(500);
	await new Promise((done) => setImmediate(done));
	assert.equal(server.sockets.length, 2);
	server.sockets[0].deliver = () => false; // the first one is dead
	server.silent = false;
	await settle(server);
	assert.equal(client.status.status, 'live');
	assert.equal(server.sent('token').length, 2);
});

test('the feed: the same', async () => {
	const server = locked({ good: NEVER });
	let token = 'wrong';
	const statuses = [];
	const feed = new HoldfastFeed({ ...server.surroundings, getToken: () => token });
	feed.on('status', ({ status, reason }) => statuses.push(reason ? `${status} ${reason}` : status));
	feed.connect();
	await settle(server);
	assert.deepEqual(statuses.slice(-1), ['unauthorized unauthorized']);
	assert.equal(server.sockets.length, 2);
	token = 'good';
	feed.connect();
	await settle(server);
	server.socket.queue('sessions', { sessions: [], more: false });
	server.pump();
	assert.equal(feed.status.status, 'live');
});

test('the feed renews its token, too, and takes the list anew', async () => {
	const server = locked({});
	let number = 0;
	const getToken = () => {
		const token = `t${(number += 1)}`;
		server.accepts.set(token, { role: 'controller', expires_at: server.timers.now() + HOUR });
		return token;
	};
	const feed = new HoldfastFeed({ ...server.surroundings, getToken });
	feed.connect();
	await settle(server);
	const session = (id) => ({ id, updated_at: 1 });
	server.socket.queue('sessions', { sessions: [session('a')], more: true, expires_at: server.timers.now() + HOUR });
	server.pump();
	for (let minutes = 0; minutes < 60; minutes += 1) {
		server.advance(60_000);
		await settle(server);
	}
	assert.deepEqual(server.sent('token').map(({ token }) => token), ['t1', 't2']);
	server.socket.queue('sessions', { sessions: [session('b')], more: false, expires_at: server.timers.now() + HOUR });
	server.pump();
	assert.deepEqual(feed.sessions.map(({ id }) => id), ['b'], 'what came of the list before is void');
	assert.equal(server.sockets.length, 1);
});

test('a token that hides something else: what is held is dropped and loaded again', async () => {
	const server = locked({ all: NEVER, some: { ...NEVER, hide: ['tools'] } });
	let token = 'all';
	const { client, view } = observe(server, { getToken: () => token });
	await settle(server);
	assert.deepEqual(seqs(client.events), range(1, 3));
	assert.deepEqual(client.state.hide, []);
	token = 'some';
	client.dropConnection();
	await settle(server);
	server.advance(5_000);
	await settle(server);
	assert.deepEqual(client.state.hide, ['tools']);
	assert.deepEqual(view.resets, ['access']);
	assert.deepEqual(seqs(client.events), range(1, 3));
	client.dropConnection();
	await settle(server);
	server.advance(5_000);
	await settle(server);
	assert.deepEqual(view.resets, ['access'], 'once');
});

test('with --auth off a login is none', async () => {
	const storage = makeStorage();
	const fetch = async () => ({ ok: true, status: 200, json: async () => ({ login: null, role: 'admin', sub: '', expires_at: null }) });
	const made = await login('yesterday', { base: 'http://test/', fetch, storage });
	assert.deepEqual([made.login, made.role], [null, 'admin']);
	assert.equal(storage.items.size, 0);
});

test('requests over HTTP say who asks; a token that has ended is asked for once more', async () => {
	const calls = [];
	const fetch = async (url, { method = 'GET', headers, body }) => {
		calls.push({ method, path: new URL(url).pathname, headers, body });
		const isRight = headers.authorization === 'Bearer t2';
		const answer = isRight ? { sessions: [], next: null, id: 's' } : { error: { code: 'token_expired', message: 'ended' } };
		return { ok: isRight, status: isRight ? 200 : 401, json: async () => answer };
	};
	let asked = 0;
	const where = { base: 'http://test', fetch, getToken: () => `t${(asked += 1)}` };
	assert.deepEqual(await listSessions(where), []);
	assert.deepEqual(
		calls.map(({ headers }) => headers.authorization),
		['Bearer t1', 'Bearer t2'],
	);
	await assert.rejects(createSession({ id: 's' }, { ...where, getToken: () => 't9' }), { code: 'token_expired', detail: { status: 401 } });
	assert.equal(calls.at(-1).headers['content-type'], 'application/json');
});

test('the events of the agent’s state are asked for with the token', async () => {
	const server = locked({ t: NEVER }, 0);
	server.record({ type: 'x-acp-modes', data: { current_mode_id: 'a', available_modes: [{ id: 'a' }] } });
	server.fill(100);
	const { client } = observe(server, { getToken: () => 't' });
	await settle(server);
	assert.equal(client.agent.current_mode, 'a');
	assert.deepEqual(server.headers, [{ authorization: 'Bearer t' }]);
});

/* The login of a page. */

test('a page’s login: its half is the first frame, and a header', async () => {
	const server = locked({ half: NEVER }, 0);
	server.record({ type: 'x-acp-modes', data: { current_mode_id: 'a', available_modes: [{ id: 'a' }] } });
	server.fill(100);
	const { client } = observe(server, { storage: makeStorage(ANN) });
	assert.equal(server.sockets.length, 1, 'at once');
	await settle(server);
	assert.equal(client.status.status, 'live');
	assert.deepEqual(server.received[0], { type: 'token', data: { login: 'half' } });
	assert.deepEqual(server.headers, [{ 'holdfast-login': 'half' }]);
});

test('a login that is refused is tried once, unless there is another by then', async () => {
	const server = locked({ other: NEVER });
	const storage = makeStorage(ANN);
	const { client } = observe(server, { storage });
	server.pump();
	assert.deepEqual([client.status.status, server.sockets.length], ['unauthorized', 1]);
	client.connect();
	storage.setItem('holdfast-login', JSON.stringify({ ...ANN, login: 'other' }));
	server.pump();
	assert.equal(client.status.status, 'live');
	storage.removeItem('holdfast-login');
	server.socket.refuse('token_expired');
	server.pump();
	assert.deepEqual([client.status.status, server.sockets.length], ['unauthorized', 3], 'not without a login');
});

/** What POST, GET and DELETE /api/login answer. */
function loginServer(token = 'secret') {
	const calls = [];
	const answer = (status, body = null) => ({ ok: status < 400, status, json: async () => body });
	const fetch = async (url, { method = 'GET', headers = {}, body } = {}) => {
		calls.push({ method, headers, body });
		const said = method === 'POST' ? JSON.parse(body).token : headers.authorization?.slice('Bearer '.length);
		const isRight = said === token || (method !== 'POST' && headers['holdfast-login'] === 'half');
		if (!isRight) {
			return answer(401, { error: { code: 'unauthorized', message: 'no' } });
		}
		return method === 'DELETE' ? answer(204) : answer(200, method === 'POST' ? ANN : { ...ANN, login: undefined });
	};
	return { calls, options: { base: 'http://test/', fetch, storage: makeStorage() } };
}

test('login, currentLogin, logout: the token is not kept, its sum is', async () => {
	const { calls, options } = loginServer();
	assert.equal(currentLogin(options), null);
	const told = { ...ANN, hide: [], share: false };
	assert.deepEqual(await login('secret', options), told);
	assert.deepEqual(calls[0], { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"token":"secret"}' });
	assert.deepEqual(currentLogin(options), told);
	assert.ok(!JSON.stringify([...options.storage.items]).includes('secret'));
	assert.equal(await isLoginWith('secret', options), true);
	assert.equal(await isLoginWith('other', options), false);
	assert.equal((await checkLogin(options)).sub, 'ann');
	assert.equal((await checkLogin({ ...options, token: 'secret' })).sub, 'ann');
	assert.deepEqual(calls.at(-1).headers, { authorization: 'Bearer secret' }, 'one token, not two');
	await logout(options);
	assert.deepEqual([calls.at(-1).method, calls.at(-1).headers], ['DELETE', { 'holdfast-login': 'half' }]);
	assert.equal(currentLogin(options), null);
	await assert.rejects(login('wrong', options), { code: 'unauthorized' });
	assert.equal(currentLogin(options), null);
});

test('logout forgets the login even if the server cannot be reached', async () => {
	const { options } = loginServer();
	await login('secret', options);
	await logout({ ...options, fetch: () => Promise.reject(new TypeError('offline')) });
	assert.equal(currentLogin(options), null);
});

test('what is in the storage may be anything', () => {
	for (const text of ['{', '1', 'null', '{"login": 1}', '[]']) {
		const storage = makeStorage();
		storage.setItem('holdfast-login', text);
		assert.equal(currentLogin({ base: 'http://test/', storage }), null, text);
	}
	const storage = { getItem: () => assert.fail('forbidden'), setItem: () => {}, removeItem: () => {} };
	assert.equal(currentLogin({ base: 'http://test/', storage }), null);
});

/* The cache. */

/** A tab that is live and has written what it holds; gives what it had from the cache. */
async function openTab(server, indexedDB, options) {
	const cached = [];
	const client = new HoldfastClient({ sessionId: 's', ...server.surroundings, cache: true, indexedDB, IDBKeyRange, ...options });
	client.on('events', ({ events, cached: isCached }) => isCached && cached.push(...seqs(events)));
	client.connect();
	await settle(server);
	server.advance(300);
	await settle(server);
	return { client, cached };
}

const as = (sub, more) => ({ storage: makeStorage({ ...ANN, sub, ...more }) });

test('the cache is for one identity: nobody else sees it', async () => {
	const server = locked({ half: NEVER, t: NEVER });
	const indexedDB = new IDBFactory();
	await openTab(server, indexedDB, as('ann'));
	assert.deepEqual((await openTab(server, indexedDB, as('ann'))).cached, [1, 2, 3]);
	for (const other of [as('bob'), as(''), as('ann b'), { getToken: () => 't', identity: 'carl' }]) {
		assert.deepEqual((await openTab(server, indexedDB, other)).cached, []);
	}
	assert.deepEqual((await openTab(server, indexedDB, { getToken: () => 't', identity: 'ann' })).cached, [1, 2, 3]);
	assert.throws(() => new HoldfastClient({ sessionId: 's', ...server.surroundings, cache: true, indexedDB, IDBKeyRange, getToken: () => 't' }), /identity/);
});

test('a login that has ended does not open the cache; the next one of the same does', async () => {
	const server = locked({ half: NEVER });
	const indexedDB = new IDBFactory();
	await openTab(server, indexedDB, as('ann'));
	server.reachable = false;
	assert.deepEqual((await openTab(server, indexedDB, as('ann', { expires_at: server.timers.now() - 1 }))).cached, []);
	assert.deepEqual((await openTab(server, indexedDB, as('ann', { expires_at: server.timers.now() + HOUR }))).cached, [1, 2, 3]);
});

test('revocation wipes what is kept for this identity, and only that', async () => {
	const server = locked({ half: NEVER });
	const indexedDB = new IDBFactory();
	await openTab(server, indexedDB, as('bob'));
	const { client } = await openTab(server, indexedDB, as('ann'));
	server.emit({}); // not written yet
	server.pump();
	server.socket.refuse('token_revoked');
	server.pump();
	await settle(server);
	server.advance(1_000);
	await settle(server);
	assert.equal(client.status.reason, 'token_revoked');
	assert.deepEqual((await openTab(server, indexedDB, as('bob'))).cached, [1, 2, 3, 4]);
	assert.deepEqual((await openTab(server, indexedDB, as('ann'))).cached, []);
});

test('logout wipes it, also what a living client was about to write; the end of a token does not', async () => {
	const server = locked({ half: NEVER });
	const { options } = loginServer();
	const indexedDB = new IDBFactory();
	await login('secret', options);
	const { client } = await openTab(server, indexedDB, { storage: options.storage });
	server.socket.refuse('token_expired');
	server.pump();
	await settle(server);
	await forgetLogin({ ...options, indexedDB, IDBKeyRange, keepCache: true });
	assert.equal(client.status.status, 'unauthorized');
	assert.deepEqual((await openTab(server, indexedDB, as('ann'))).cached, [1, 2, 3]);

	await login('secret', options);
	await openTab(server, indexedDB, { storage: options.storage });
	server.emit({});
	server.pump();
	await logout({ ...options, indexedDB, IDBKeyRange });
	server.advance(1_000);
	await settle(server);
	assert.deepEqual((await openTab(server, indexedDB, as('ann'))).cached, []);
});

test('a session that is not found keeps its cache; a deleted one does not', async () => {
	for (const [reason, left] of [['not_found', [1, 2, 3]], ['deleted', []]]) {
		const server = locked({ half: NEVER });
		const indexedDB = new IDBFactory();
		const { client } = await openTab(server, indexedDB, as('ann'));
		server.socket.queue('session_gone', { session_id: 's', reason });
		server.pump();
		await settle(server);
		assert.deepEqual(client.status, { status: 'gone', reason });
		assert.deepEqual((await openTab(server, indexedDB, as('ann'))).cached, left, reason);
	}
});
