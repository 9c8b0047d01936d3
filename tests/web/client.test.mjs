/** The client library against a server in memory: loading, loss at any point, resets, the end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FakeServer } from './fake_server.mjs';
import { observe, range, seqs } from './observe.mjs';

test('the first load brings the newest page, then events come live', () => {
	const server = new FakeServer().fill(120);
	const { client, view } = observe(server);
	server.pump();
	assert.deepEqual(server.sent('load_events'), [{ limit: 50 }]);
	assert.deepEqual(seqs(view.events), range(71, 120));
	assert.equal(client.hasOlder, true);
	server.emit({}, {});
	server.pump();
	assert.deepEqual(client.position, { epoch: server.epoch, seq: 122 });
	assert.deepEqual(view.statuses, ['connecting', 'loading', 'live']);
});

test('the address asks for html and says who we are', () => {
	const server = new FakeServer();
	const { client } = observe(server, { sessionId: 'a.b', deltas: 'html' });
	const url = new URL(server.socket.url);
	assert.equal(url.protocol, 'ws:');
	assert.equal(url.pathname, '/api/sessions/a.b/ws');
	assert.deepEqual(Object.fromEntries(url.searchParams), {
		format: 'html',
		deltas: 'html',
		client_id: client.clientId,
	});
});

test('events are deeply frozen', () => {
	const server = new FakeServer();
	const { view } = observe(server);
	server.pump();
	server.emit({ type: 'plan', data: { entries: [{ content: 'a' }] } });
	server.pump();
	assert.throws(() => {
		view.events[0].data.entries[0].content = 'b';
	}, TypeError);
});

test('after a loss it asks for what follows its last event, and gets it page after page', () => {
	const server = new FakeServer().fill(10);
	server.pageMax = 7;
	const { client, view } = observe(server);
	server.pump();
	server.socket.break();
	server.fill(20);
	assert.equal(client.status.status, 'retrying');
	assert.equal(client.status.delayMs, 1000);
	server.advance(1000);
	assert.deepEqual(server.sent('load_events').at(-1), {
		after_seq: 10,
		epoch: server.epoch,
		follow: true,
		limit: 500,
	});
	assert.deepEqual(seqs(view.events), range(4, 30));
	assert.equal(client.status.status, 'live');
});

test('a loss at any point of any frame loses and repeats nothing', () => {
	for (let cut = 0; cut < 60; cut += 1) {
		const server = new FakeServer().fill(3);
		server.pageMax = 4;
		const { client, view } = observe(server);
		let steps = 0;
		for (let i = 0; i < 30; i += 1) {
			server.emit({}, {});
			server.socket.step();
			steps += 1;
			if (steps % (cut + 2) === 0) {
				server.socket.break();
				server.timers.advance(1000);
			}
		}
		server.pump();
		server.advance(60_000);
		assert.deepEqual(
			seqs(view.events),
			range(view.events[0].seq, 63),
			`cut after ${cut + 2} steps`,
		);
		assert.deepEqual(seqs(client.events), seqs(view.events));
	}
});

test('frames that come twice or overlap add nothing', () => {
	const server = new FakeServer().fill(2);
	const { view } = observe(server);
	server.pump();
	const [third] = server.emit({});
	server.toAll('events', { events: [server.log[1], third], max_seq: 3, is_prompting: false });
	const fourth = server.record({});
	server.toAll('events', { events: [third, fourth], max_seq: 4, is_prompting: false });
	server.pump();
	assert.deepEqual(seqs(view.events), [1, 2, 3, 4]);
	assert.equal(server.sent('load_events').length, 1);
});

test('a gap in live events is filled by loading, and nothing behind it is taken before', () => {
	const server = new FakeServer().fill(2);
	const { view } = observe(server);
	server.pump();
	server.fill(3);
	server.emit({});
	server.socket.deliver();
	assert.deepEqual(seqs(view.events), [1, 2]);
	server.pump();
	assert.equal(server.sent('load_events').at(-1).after_seq, 2);
	assert.deepEqual(seqs(view.events), range(1, 6));
});

test('a max_seq that stays ahead of what is held is a gap too', () => {
	const server = new FakeServer().fill(2);
	const { view } = observe(server);
	server.pump();
	server.fill(1);
	server.advance(10_000); // a keepalive and its answer
	assert.deepEqual(seqs(view.events), [1, 2]);
	server.advance(1_000);
	assert.deepEqual(seqs(view.events), [1, 2, 3]);
});

test('a max_seq ahead of events that are on their way asks for nothing', () => {
	const server = new FakeServer();
	const { view } = observe(server);
	server.pump();
	server.fill(4);
	for (const event of server.log) {
		server.toAll('events', { events: [event], max_seq: 4, is_prompting: false });
	}
	server.pump();
	server.advance(5_000);
	assert.deepEqual(seqs(view.events), [1, 2, 3, 4]);
	assert.equal(server.sent('load_events').length, 1);
});

test('another epoch: the reset comes before the new events, and the old ones are gone', () => {
	const server = new FakeServer().fill(5);
	const { client, view } = observe(server);
	server.pump();
	server.socket.break();
	Object.assign(server, { epoch: 'restored', log: [] });
	server.fill(9);
	view.order = [];
	server.advance(1000);
	assert.deepEqual(server.sent('load_events').at(-1).after_seq, 5);
	assert.deepEqual(view.order, ['reset', 'events']);
	assert.deepEqual(view.resets, ['epoch']);
	assert.deepEqual(seqs(view.events), range(1, 9));
	assert.deepEqual(client.position, { epoch: 'restored', seq: 9 });
});

test('a client that is ahead of the server starts over', () => {
	const server = new FakeServer().fill(5);
	const { client, view } = observe(server);
	server.pump();
	server.socket.break();
	server.log.length = 3;
	server.advance(1000);
	assert.deepEqual(view.resets, ['ahead']);
	assert.deepEqual(seqs(view.events), [1, 2, 3]);
	assert.equal(client.position.seq, 3);
});

test('another epoch in a keepalive answer leads to a reset', () => {
	const server = new FakeServer().fill(5);
	const { view } = observe(server);
	server.pump();
	Object.assign(server, { epoch: 'other', log: server.log.slice(0, 2) });
	server.advance(10_000);
	assert.deepEqual(view.resets, ['epoch']);
	assert.deepEqual(seqs(view.events), [1, 2]);
});

test('an empty session: the first event may only be the first', () => {
	const server = new FakeServer();
	const { client, view } = observe(server);
	server.pump();
	assert.equal(client.status.status, 'live');
	assert.deepEqual(client.position, { epoch: server.epoch, seq: 0 });
	server.record({});
	server.emit({});
	server.pump();
	assert.deepEqual(seqs(view.events), [1, 2]);
});

test('older pages are put in front until there are none', () => {
	const server = new FakeServer().fill(120);
	const { client, view } = observe(server);
	server.pump();
	assert.equal(client.loadOlder(40), true);
	assert.equal(client.loadOlder(40), false, 'one at a time');
	server.emit({});
	server.pump();
	assert.deepEqual(server.sent('load_events').at(-1), {
		before_seq: 71,
		epoch: server.epoch,
		limit: 40,
	});
	assert.deepEqual(seqs(view.events), range(31, 121));
	client.loadOlder(40);
	server.pump();
	assert.deepEqual(seqs(client.events), range(1, 121));
	assert.equal(client.hasOlder, false);
	assert.equal(client.loadOlder(), false);
});

test('an older page that arrives after a reset is not put in front of another history', () => {
	const server = new FakeServer().fill(120);
	const { client, view } = observe(server);
	server.pump();
	// Its numbers will fit in front of the new events; only its epoch does not.
	const old = {
		events: server.log.slice(20, 30),
		has_more: true,
		epoch: server.epoch,
		prepend: true,
		max_seq: 120,
	};
	server.pageMax = 50;
	client.loadOlder(10);
	Object.assign(server, { epoch: 'other', log: [] });
	server.fill(80);
	server.advance(10_000);
	assert.deepEqual(view.resets, ['epoch']);
	server.socket.queue('events_loaded', old);
	server.pump();
	assert.deepEqual(seqs(view.events), range(31, 80));
});

test('waits grow from 1 s to 30 s with jitter, and start again once live', () => {
	const server = new FakeServer().fill(1);
	const { client } = observe(server, { random: () => 1 });
	server.pump();
	server.reachable = false;
	const waits = [];
	server.socket.break();
	for (let i = 0; i < 7; i += 1) {
		waits.push(client.status.delayMs);
		server.advance(client.status.delayMs);
	}
	assert.deepEqual(waits, [2000, 4000, 8000, 16000, 30000, 30000, 30000]);
	server.reachable = true;
	server.advance(30_000);
	assert.equal(client.status.status, 'live');
	server.socket.break();
	assert.equal(client.status.delayMs, 2000);
});

test('a session that has gone to another node is asked for within half a second, and then as ever', () => {
	const server = new FakeServer().fill(1);
	const { client } = observe(server, { random: () => 1 });
	server.pump();
	server.socket.break(1001);
	assert.equal(client.status.delayMs, 500);
	server.reachable = false;
	server.advance(500);
	assert.equal(client.status.delayMs, 4000);
	server.reachable = true;
	server.advance(4000);
	assert.equal(client.status.status, 'live');
});

test('a session that goes on before anything of it has come is not asked for at once', () => {
	const server = new FakeServer();
	const { client } = observe(server, { random: () => 0 });
	server.socket.break(1001);
	assert.equal(client.status.delayMs, 1000);
});

test('a server that stops is left alone for as long as it says', () => {
	const server = new FakeServer().fill(1);
	const { client } = observe(server, { random: () => 1 });
	server.pump();
	server.socket.queue('draining', { retry_after_ms: 700 });
	server.pump();
	server.socket.break(1001);
	assert.equal(client.status.delayMs, 1400);
});

test('the shortest wait is 1 s', () => {
	const server = new FakeServer();
	server.reachable = false;
	const { client } = observe(server, { random: () => 0 });
	server.pump();
	for (let i = 0; i < 5; i += 1) {
		assert.equal(client.status.delayMs, 1000);
		server.advance(1000);
	}
});

const onDocument = new Set(['visibilitychange', 'resume', 'freeze']);

for (const wake of ['online', 'pageshow', 'focus', 'visibilitychange', 'resume']) {
	test(`${wake} connects at once`, () => {
		const server = new FakeServer().fill(1);
		const { client } = observe(server);
		server.pump();
		server.socket.break();
		const target = onDocument.has(wake) ? server.page.document : server.page;
		target.dispatchEvent(new Event(wake));
		server.pump();
		assert.equal(client.status.status, 'live');
		assert.equal(server.sockets.length, 2);
	});

	test(`${wake} makes sure of an old connection`, () => {
		const server = new FakeServer().fill(1);
		const { client } = observe(server);
		server.pump();
		server.silent = true;
		const target = onDocument.has(wake) ? server.page.document : server.page;
		target.dispatchEvent(new Event(wake));
		server.timers.advance(2_999);
		assert.equal(client.status.status, 'live');
		server.silent = false;
		server.advance(1);
		assert.equal(client.status.status, 'live', 'at once, somebody is waiting');
		assert.equal(server.sockets.length, 2);
	});
}

test('a page that is hidden wakes nothing', () => {
	const server = new FakeServer().fill(1);
	observe(server);
	server.pump();
	server.socket.break();
	server.page.document.visibilityState = 'hidden';
	server.page.document.dispatchEvent(new Event('visibilitychange'));
	assert.equal(server.sockets.length, 1);
});

test('keepalives say what was seen; two unanswered ones mean that the connection is dead', () => {
	const server = new FakeServer().fill(4);
	const { client } = observe(server);
	server.pump();
	server.advance(10_000);
	assert.equal(server.sent('keepalive')[0].last_seen_seq, 4);
	server.silent = true;
	server.advance(29_999);
	assert.equal(client.status.status, 'live');
	server.advance(1);
	assert.equal(client.status.status, 'retrying');
	server.silent = false;
	server.advance(1_000);
	assert.equal(client.status.status, 'live');
});

test('a connection that never says anything is given up', () => {
	const server = new FakeServer();
	server.silent = true;
	const { client } = observe(server);
	server.pump();
	server.advance(20_000);
	assert.equal(client.status.status, 'retrying');
});

test('without a network the status is offline, and it tries all the same', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	server.page.navigator.onLine = false;
	server.socket.break();
	assert.equal(client.status.status, 'offline');
	server.advance(1000);
	assert.equal(client.status.status, 'live');
});

test('dropConnection breaks the socket and comes back by the usual way', () => {
	const server = new FakeServer().fill(2);
	const { client, view } = observe(server);
	server.pump();
	client.dropConnection();
	assert.equal(client.status.status, 'live', 'nothing is told beforehand');
	server.pump();
	assert.equal(client.status.status, 'retrying');
	server.fill(1);
	server.advance(1000);
	assert.deepEqual(seqs(view.events), [1, 2, 3]);
});

test('session_gone is the end', () => {
	const server = new FakeServer().fill(2);
	const { client, view } = observe(server);
	server.pump();
	server.socket.queue('session_gone', { session_id: 's', reason: 'deleted' });
	server.pump();
	assert.deepEqual(client.status, { status: 'gone', reason: 'deleted' });
	server.page.dispatchEvent(new Event('online'));
	server.advance(120_000);
	assert.equal(server.sockets.length, 1);
	assert.equal(server.timers.pending, 0);
	assert.deepEqual(seqs(view.events), [1, 2], 'what was seen stays');
});

test('close code 4404 is the end too', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	server.socket.break(4404);
	assert.equal(client.status.status, 'gone');
	assert.equal(server.timers.pending, 0);
});

test('close leaves nothing behind', () => {
	const server = new FakeServer().fill(1);
	const { client } = observe(server);
	server.pump();
	client.close();
	assert.equal(client.status.status, 'closed');
	assert.equal(server.timers.pending, 0);
	assert.equal(server.page.listeners, 0);
	server.page.dispatchEvent(new Event('online'));
	server.pump();
	assert.equal(server.sockets.length, 1);
});

test('frames that are none close the connection, unknown ones do not', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	server.socket.queue('from_the_future', {});
	server.pump();
	assert.equal(client.status.status, 'live');
	server.socket.onmessage({ data: '{"type": 3}' });
	assert.equal(client.status.status, 'retrying');
	server.advance(1000);
	server.socket.onmessage({ data: '{' });
	assert.equal(client.status.status, 'retrying');
});
