/** The client's cache in IndexedDB: a tab that was killed shows its transcript at once; and all that may be wrong with it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IDBFactory, IDBKeyRange } from 'fake-indexeddb';

import { EventCache } from '../../web/client/cache.js';
import { FakeServer } from './fake_server.mjs';
import { observe, range, seqs } from './observe.mjs';

/** Lets what IndexedDB has under way come to its end. */
async function settle(server) {
	for (let i = 0; i < 50; i += 1) {
		await new Promise((resolve) => setImmediate(resolve));
		server?.pump();
	}
}

/** A tab with a cache; `die()` is how the system ends it: nothing is written any more, nobody is told. */
function openTab(server, indexedDB, options = {}) {
	const tab = observe(server, { cache: true, indexedDB, IDBKeyRange, ...options });
	tab.cached = [];
	tab.client.on('events', ({ events, cached }) => cached && tab.cached.push(...seqs(events)));
	return tab;
}

/** Delivers what is under way, and lets the client write it. */
async function write(server) {
	server.pump();
	server.advance(250);
	await settle(server);
}

/** A tab that has become live, and has written what it holds. */
async function openLive(server, indexedDB, options) {
	const tab = openTab(server, indexedDB, options);
	await settle(server);
	await write(server);
	assert.equal(tab.client.status.status, 'live');
	return tab;
}

function cacheOf(indexedDB, options = {}) {
	const timers = { setTimeout: () => 0, clearTimeout: () => {}, now: () => 1 };
	return new EventCache({ indexedDB, IDBKeyRange, timers, page: null }, options.key ?? 'open html ws://test/api/sessions/s/ws', options);
}

async function read(indexedDB, options) {
	const cache = cacheOf(indexedDB, options);
	const found = await cache.read();
	await cache.close();
	return found;
}

test('a new tab shows what the killed one had before it has a connection, then loads only what is new', async () => {
	const server = new FakeServer().fill(80);
	const indexedDB = new IDBFactory();
	await openLive(server, indexedDB);
	server.emit({}, {});
	await write(server);
	server.fill(5);
	server.reachable = false;
	const { client, view, cached } = openTab(server, indexedDB);
	await settle(server);
	assert.deepEqual(cached, range(31, 82));
	assert.deepEqual(seqs(client.events), range(31, 82));
	assert.equal(client.hasOlder, true);
	assert.equal(client.status.status, 'retrying');
	server.reachable = true;
	server.advance(2_000);
	const { after_seq, epoch } = server.sent('load_events').at(-1);
	assert.deepEqual([after_seq, epoch], [82, server.epoch]);
	assert.deepEqual(seqs(view.events), range(31, 87));
	assert.deepEqual(view.resets, []);
	assert.throws(() => (client.events[0].data.html = ''), TypeError, 'frozen like all others');
	client.loadOlder(50);
	server.pump();
	assert.deepEqual(seqs(client.events), range(1, 87));
});

test('a connection that is faster than the cache waits for it', async () => {
	const server = new FakeServer().fill(10);
	const indexedDB = new IDBFactory();
	await openLive(server, indexedDB);
	const { client } = openTab(server, indexedDB);
	client.prompt('x');
	server.pump();
	assert.equal(server.sent('prompt').length, 0);
	assert.equal(server.sent('load_events').length, 1, 'that of the first tab');
	await settle(server);
	assert.equal(server.sent('load_events').at(-1).after_seq, 10);
	assert.equal(server.sent('prompt').length, 1);
});

for (const [what, change, reason] of [
	['of another history', (server) => Object.assign(server, { epoch: 'other', log: server.log.slice(0, 4) }), 'epoch'],
	['ahead of the server', (server) => (server.log.length = 4), 'ahead'],
]) {
	test(`a cache ${what} is dropped by the server's reset, also from the disk`, async () => {
		const server = new FakeServer().fill(10);
		const indexedDB = new IDBFactory();
		await openLive(server, indexedDB);
		change(server);
		const { view } = await openLive(server, indexedDB);
		assert.deepEqual(view.order, ['events', 'reset', 'events']);
		assert.deepEqual(view.resets, [reason]);
		assert.deepEqual(seqs(view.events), range(1, 4));
		const found = await read(indexedDB);
		assert.equal(found.epoch, server.epoch);
		assert.deepEqual(seqs(found.events), range(1, 4));
	});
}

test('a cache too far behind is shown, and then replaced by the newest page', async () => {
	const server = new FakeServer().fill(10);
	const indexedDB = new IDBFactory();
	await openLive(server, indexedDB);
	server.fill(2_001);
	const { view, cached } = await openLive(server, indexedDB);
	assert.deepEqual(cached, range(1, 10));
	assert.deepEqual(view.resets, ['behind']);
	assert.deepEqual(seqs(view.events), range(1_962, 2_011));
	assert.deepEqual(seqs((await read(indexedDB)).events), range(1_962, 2_011));
});

test('it is bounded: events, characters, sessions', async () => {
	const server = new FakeServer();
	const indexedDB = new IDBFactory();
	await openLive(server, indexedDB, { cache: { maxEvents: 20 } });
	for (let i = 0; i < 5; i += 1) {
		server.emit(...Array.from({ length: 13 }, () => ({})));
		await write(server);
		const { events } = await read(indexedDB);
		assert.deepEqual(seqs(events), range(Math.max(1, 13 * (i + 1) - 19), 13 * (i + 1)));
	}
	const large = cacheOf(indexedDB, { key: 'large', maxChars: 1_000 });
	const event = (seq) => ({ seq, type: 'x-large', ts: 1, data: { text: 'x'.repeat(300) } });
	for (let seq = 1; seq <= 9; seq += 1) {
		large.add('e', [event(seq)]);
		await large.flush();
	}
	const { events } = await large.read();
	assert.deepEqual(seqs(events), [8, 9]);
	assert.ok(JSON.stringify(events).length < 1_000);
	large.add('e', [{ ...event(10), data: { text: 'x'.repeat(2_000) } }]);
	await large.flush();
	assert.equal(await large.read(), null, 'one that is too large alone is not kept at all');

	for (let i = 0; i < 6; i += 1) {
		const cache = new EventCache({ indexedDB, IDBKeyRange, timers: { ...server.timers, now: () => i }, page: null }, `k${i}`, { maxSessions: 3, name: 'few' });
		cache.add('e', [event(1)]);
		await cache.flush();
	}
	const left = await Promise.all(range(0, 5).map((i) => read(indexedDB, { key: `k${i}`, name: 'few' })));
	assert.deepEqual(left.map(Boolean), [false, false, false, true, true, true]);
});

test('two tabs write the same session without a hole or a double', async () => {
	const server = new FakeServer().fill(3);
	const indexedDB = new IDBFactory();
	const one = await openLive(server, indexedDB);
	await openLive(server, indexedDB);
	server.emit({}, {});
	await write(server);
	assert.deepEqual(seqs((await read(indexedDB)).events), range(1, 5));
	one.client.close();
	server.emit({});
	await write(server);
	assert.deepEqual(seqs((await read(indexedDB)).events), range(1, 6));
	one.client.connect(); // what it missed is on disk already
	server.pump();
	server.emit({});
	await write(server);
	assert.deepEqual(seqs((await read(indexedDB)).events), range(1, 7));
});

test('a tab that lags behind another takes nothing back', async () => {
	const indexedDB = new IDBFactory();
	const event = (seq) => ({ seq, type: 'x-a', ts: 1, data: {} });
	const [fast, slow] = [cacheOf(indexedDB), cacheOf(indexedDB)];
	fast.add('e', range(1, 7).map(event));
	await fast.flush();
	slow.add('e', range(2, 5).map(event));
	await slow.flush();
	fast.add('e', [event(8)]);
	await fast.flush();
	assert.deepEqual(seqs((await slow.read()).events), range(1, 8));
});

test('sessions, servers and formats do not mix', async () => {
	const server = new FakeServer().fill(3);
	const indexedDB = new IDBFactory();
	await openLive(server, indexedDB);
	for (const other of [{ sessionId: 't' }, { format: 'markdown' }, { base: 'http://elsewhere/' }]) {
		const { cached } = await openLive(server, indexedDB, other);
		assert.deepEqual(cached, [], JSON.stringify(other));
	}
	assert.deepEqual((await openLive(server, indexedDB)).cached, [1, 2, 3]);
});

test('a session that is gone leaves nothing in the cache', async () => {
	const server = new FakeServer().fill(3);
	const indexedDB = new IDBFactory();
	await openLive(server, indexedDB);
	assert.ok(await read(indexedDB));
	server.sockets.forEach((socket) => socket.queue('session_gone', { session_id: 's', reason: 'deleted' }));
	server.pump();
	await settle(server);
	assert.equal(await read(indexedDB), null);
});

test('a page that is hidden or goes away writes at once', async () => {
	for (const [target, type] of [['page', 'pagehide'], ['document', 'freeze'], ['document', 'visibilitychange']]) {
		const server = new FakeServer().fill(3);
		const indexedDB = new IDBFactory();
		openTab(server, indexedDB);
		await settle(server);
		assert.equal(await read(indexedDB), null);
		(target === 'page' ? server.page : server.page.document).dispatchEvent(new Event(type));
		await settle();
		assert.deepEqual(seqs((await read(indexedDB)).events), [1, 2, 3], type);
	}
});

/** Writes rows as no client would. */
async function spoil(indexedDB, change) {
	const open = indexedDB.open('holdfast', 1);
	const db = await new Promise((resolve) => (open.onsuccess = () => resolve(open.result)));
	const transaction = db.transaction(['sessions', 'events'], 'readwrite');
	change(transaction.objectStore('sessions'), transaction.objectStore('events'));
	await new Promise((resolve) => (transaction.oncomplete = resolve));
	db.close();
}

const KEY = 'open html ws://test/api/sessions/s/ws';
for (const [what, change] of [
	['a hole', (_, events) => events.delete([KEY, 5])],
	['text that is no JSON', (_, events) => events.put({ key: KEY, seq: 5, text: '{' })],
	['an event that is none', (_, events) => events.put({ key: KEY, seq: 5, text: '{"seq": 5}' })],
	['an event under another number', (_, events) => events.put({ key: KEY, seq: 5, text: '{"seq": 6, "type": "x-a", "data": {}}' })],
	['one event too few', (_, events) => events.delete([KEY, 10])],
	['no epoch', (sessions) => sessions.put({ key: KEY, last: 10, first: 1, chars: 1, used: 1 })],
]) {
	test(`a cache with ${what} counts as none, and is made anew`, async () => {
		const server = new FakeServer().fill(10);
		const indexedDB = new IDBFactory();
		await openLive(server, indexedDB);
		await spoil(indexedDB, change);
		const { view, cached } = await openLive(server, indexedDB);
		assert.deepEqual(cached, []);
		assert.deepEqual(seqs(view.events), range(1, 10));
		assert.deepEqual(view.resets, []);
		assert.deepEqual(seqs((await read(indexedDB)).events), range(1, 10));
	});
}

const fail = (error) => () => {
	throw error;
};
for (const [what, indexedDB] of [
	['is forbidden', { open: fail(new Error('SecurityError')) }],
	['fails', {
		open() {
			const request = { error: new Error('no space') };
			queueMicrotask(() => request.onerror());
			return request;
		},
	}],
	['opens, and fails at every transaction', {
		open() {
			const request = { result: { transaction: fail(new Error('InvalidStateError')) } };
			queueMicrotask(() => request.onsuccess());
			return request;
		},
	}],
	['never answers', { open: () => ({}) }],
]) {
	test(`an IndexedDB that ${what} stops nothing`, async () => {
		const server = new FakeServer().fill(3);
		const { client, view } = openTab(server, indexedDB);
		client.prompt('x');
		await settle(server);
		server.advance(500); // as long as it waits for one that does not answer
		await settle(server);
		assert.equal(client.status.status, 'live');
		assert.deepEqual(seqs(view.events), [1, 2, 3]);
		assert.equal(server.sent('prompt').length, 1);
		assert.equal(typeof client.stats.cacheFailure, 'string');
		for (let i = 0; i < 5; i += 1) {
			server.emit({});
			server.advance(1_000);
			await settle(server);
		}
		assert.deepEqual(seqs(view.events), range(1, 8));
		client.close();
		await settle(server);
		assert.equal(server.timers.pending, 0);
	});
}

test('a database that opens late is shown as long as there is no connection, and not any more when the server has answered', async () => {
	for (const isDown of [true, false]) {
		const server = new FakeServer().fill(3);
		const indexedDB = new IDBFactory();
		await openLive(server, indexedDB);
		const waiting = [];
		const late = { open: (...args) => {
			const request = {};
			waiting.push(() => Object.assign(indexedDB.open(...args), { onsuccess: ({ target }) => Object.assign(request, { result: target.result }).onsuccess() }));
			return request;
		} };
		server.reachable = !isDown;
		const { client, cached } = openTab(server, late);
		await settle(server);
		server.advance(600);
		await settle(server);
		waiting.forEach((open) => open());
		await settle(server);
		assert.deepEqual(cached, isDown ? [1, 2, 3] : [], isDown ? 'there is no server' : 'the server was first');
		assert.deepEqual(seqs(client.events), [1, 2, 3]);
		client.close();
	}
});

test('a browser that throws at the mention of IndexedDB, or has none, is one without a cache', (t) => {
	t.after(() => delete globalThis.indexedDB);
	for (const get of [fail(new Error('SecurityError')), () => undefined]) {
		Object.defineProperty(globalThis, 'indexedDB', { get, configurable: true });
		const server = new FakeServer().fill(1);
		const { client } = observe(server, { cache: true });
		server.pump();
		assert.equal(client.status.status, 'live');
	}
});

test('a client that is closed before the cache has answered says nothing more', async () => {
	const server = new FakeServer().fill(3);
	const indexedDB = new IDBFactory();
	await openLive(server, indexedDB);
	const { client, view } = openTab(server, indexedDB);
	client.close();
	await settle(server);
	assert.deepEqual(view.events, []);
	assert.equal(client.status.status, 'closed');
	client.connect();
	await settle(server);
	assert.deepEqual(seqs(view.events), [1, 2, 3]);
});

test('a connection to the database that the browser has cut is opened again', async () => {
	const server = new FakeServer().fill(3);
	const indexedDB = new IDBFactory();
	const databases = [];
	const open = indexedDB.open.bind(indexedDB);
	indexedDB.open = (...args) => {
		const request = open(...args);
		request.addEventListener('success', () => databases.push(request.result));
		return request;
	};
	await openLive(server, indexedDB);
	databases.at(-1).close(); // as Safari does in the background
	server.emit({});
	await write(server);
	server.emit({});
	await write(server);
	const found = await read(indexedDB);
	assert.equal(found.events.at(-1).seq, 5);
});
