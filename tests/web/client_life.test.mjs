/** The client library: how it is opened, kept small, listened to and closed, and how it bears bad servers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { HoldfastClient, HoldfastFeed } from '../../web/client/holdfast-client.js';
import { FakeServer } from './fake_server.mjs';
import { observe, range, seqs } from './observe.mjs';

test('dropOlder forgets all but the newest, and loadOlder brings them back', () => {
	const server = new FakeServer().fill(50);
	const { client, view } = observe(server);
	server.pump();
	const trimmed = [];
	client.on('trimmed', ({ count }) => trimmed.push(count));
	assert.equal(client.hasOlder, false);
	assert.equal(client.dropOlder(10), 40);
	assert.equal(client.dropOlder(10), 0);
	assert.deepEqual(trimmed, [40]);
	assert.deepEqual(seqs(client.events), range(41, 50));
	assert.equal(client.hasOlder, true);
	assert.deepEqual(client.position, { epoch: server.epoch, seq: 50 });
	assert.equal(client.loadOlder(100), true);
	server.pump();
	assert.deepEqual(seqs(client.events), range(1, 50));
	assert.equal(client.hasOlder, false);
	assert.equal(view.resets.length, 0);
});

test('at least one event is kept: the position is in it', () => {
	const server = new FakeServer().fill(5);
	const { client } = observe(server);
	server.pump();
	assert.equal(client.dropOlder(0), 4);
	assert.equal(client.position.seq, 5);
});

test('an older page that was under way when older events were dropped is not put in front', () => {
	const server = new FakeServer().fill(100);
	const { client } = observe(server);
	server.pump();
	client.loadOlder(10);
	client.dropOlder(5);
	server.pump();
	assert.deepEqual(seqs(client.events), range(96, 100));
	assert.equal(client.hasOlder, true);
	assert.equal(client.loadOlder(10), true);
});

test('maxEvents bounds what is held, but not while somebody looks at older ones', () => {
	const server = new FakeServer().fill(40);
	const { client } = observe(server, { maxEvents: 40 });
	server.pump();
	for (let i = 0; i < 100; i += 1) {
		server.emit({});
		server.pump();
		assert.ok(client.events.length <= 40 && client.events.length >= 35, `${client.events.length} held`);
		assert.equal(client.position.seq, 41 + i);
	}
	client.loadOlder(50);
	server.pump();
	const { length } = client.events;
	assert.ok(length > 40);
	server.emit({});
	server.pump();
	assert.equal(client.events.length, length + 1);
	client.dropOlder(40);
	server.emit({});
	server.pump();
	assert.deepEqual(seqs(client.events), range(108, 142));
});

test('further behind than catchUpMax it starts over, and says so first', () => {
	const server = new FakeServer().fill(10);
	const { client, view } = observe(server, { catchUpMax: 100 });
	server.pump();
	server.socket.break();
	server.fill(100);
	server.advance(1_000);
	assert.deepEqual(view.resets, []);
	assert.deepEqual(seqs(view.events), range(1, 110));
	server.socket.break();
	server.fill(101);
	view.order = [];
	server.advance(1_000);
	assert.deepEqual(view.order, ['reset', 'events']);
	assert.deepEqual(view.resets, ['behind']);
	assert.deepEqual(seqs(view.events), range(162, 211));
	assert.equal(client.hasOlder, true);
});

test('an iterator gives what is held, then what comes, and ends with the client', async () => {
	const server = new FakeServer().fill(3);
	const { client } = observe(server);
	server.pump();
	const iterator = client[Symbol.asyncIterator]();
	const next = async () => (await iterator.next()).value;
	assert.deepEqual([(await next()).seq, (await next()).seq, (await next()).seq], [1, 2, 3]);
	const [fourth, fifth] = [next(), next()];
	server.emit({}, {});
	server.pump();
	assert.deepEqual([(await fourth).seq, (await fifth).seq], [4, 5]);
	server.emit({});
	server.pump();
	const waiting = iterator.next();
	client.close();
	assert.equal((await waiting).value.seq, 6, 'what had come before the end is given out');
	assert.deepEqual(await iterator.next(), { value: undefined, done: true });
});

test('an iterator tells of a reset before anything of the new history, and drops the rest of the old', async () => {
	const server = new FakeServer().fill(5);
	const { client } = observe(server);
	server.pump();
	const got = [];
	const loop = (async () => {
		for await (const event of client) {
			got.push(event.type === 'reset' ? event.reason : event.seq);
			if (event.seq === 2) {
				// while the loop is busy with this one
				Object.assign(server, { epoch: `other${got.length}`, log: [] });
				server.fill(2);
				server.advance(10_000);
			}
			if (got.length === 6) {
				break;
			}
		}
	})();
	await loop;
	assert.deepEqual(got, [1, 2, 'epoch', 1, 2, 'epoch']);
	assert.equal(client.status.status, 'live', 'leaving the loop does not close the client');
});

test('an iterator of a session that is gone gives what is held and ends', async () => {
	const server = new FakeServer().fill(2);
	const { client } = observe(server);
	server.pump();
	server.socket.queue('session_gone', { session_id: 's', reason: 'deleted' });
	server.pump();
	const got = [];
	for await (const { seq } of client) {
		got.push(seq);
	}
	assert.deepEqual(got, [1, 2]);
});

const TYPES = ['status', 'events', 'reset', 'state', 'open', 'activity', 'prompts', 'older', 'trimmed'];

for (const type of ['status', 'events', 'reset', 'state', 'open']) {
	test(`a client that is closed when it says ${type} says nothing more`, () => {
		for (let nth = 1; nth < 9; nth += 1) {
			const server = new FakeServer().fill(30);
			server.pageMax = 10;
			server.open = { seq: 31, type: 'agent_message', text: 'a' };
			const client = new HoldfastClient({ sessionId: 's', deltas: 'text', ...server.surroundings });
			let count = 0;
			const after = [];
			client.on(type, () => {
				count += 1;
				if (count === nth) {
					client.close();
				}
			});
			TYPES.forEach((other) => client.on(other, (detail) => count >= nth && after.push(other === 'status' ? detail.status : other)));
			client.connect();
			server.pump();
			server.socket?.break();
			server.fill(30);
			server.advance(2_000);
			Object.assign(server, { epoch: 'other', log: server.log.slice(0, 2) });
			server.advance(10_000);
			if (count < nth) {
				break;
			}
			const own = type === 'status' ? after.indexOf('closed') + 2 : after.indexOf(type) + 1; // what it said itself
			assert.deepEqual(after.slice(own).filter((what) => what !== 'closed'), [], `${type} number ${nth}`);
			assert.equal(client.status.status, 'closed');
			assert.equal(server.timers.pending, 0, `${type} number ${nth}`);
			assert.ok(server.sockets.every(({ readyState }) => readyState > 1), `${type} number ${nth}`);
			assert.equal(server.page.listeners, 0);
		}
	});
}

test('close and connect go on from the same position', () => {
	const server = new FakeServer().fill(5);
	const { client, view } = observe(server);
	server.pump();
	client.close();
	server.fill(2);
	client.connect();
	server.pump();
	assert.equal(server.sent('load_events').at(-1).after_seq, 5);
	assert.deepEqual(seqs(view.events), range(1, 7));
	assert.deepEqual(view.resets, []);
});

test('a session made anew under its name while nothing of it was held is a reset all the same', () => {
	const server = new FakeServer();
	const { client, view } = observe(server);
	server.pump();
	client.prompt('waits in the old one');
	server.pump();
	assert.equal(client.prompts[0].state, 'queued');
	server.socket.break();
	server.epoch = 'anew';
	server.advance(1_000);
	assert.deepEqual(view.resets, ['epoch']);
	assert.deepEqual(client.prompts, [], 'what the old one had confirmed is gone with it');
});

test('a queued prompt whose event is before the newest page is asked about until the server says where', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	const { id } = client.prompt('early');
	server.pump();
	server.socket.break();
	server.record({ type: 'user_prompt', data: { prompt_id: id } });
	server.fill(80);
	server.timers.advance(1_000);
	while (client.status.status !== 'live') {
		server.socket.step();
	}
	server.socket.break(); // before the answer
	server.advance(1_000);
	assert.deepEqual(server.sent('prompt').map(({ prompt_id }) => prompt_id), [id, id]);
	server.socket.queue('prompt_received', { prompt_id: id, seq: 1, duplicate: true });
	server.pump();
	assert.deepEqual(client.prompts, []);
});

test('pages get smaller on a network that never brings a whole one, and larger again', () => {
	const server = new FakeServer().fill(2);
	const { client } = observe(server);
	server.pump();
	for (let i = 0; i < 6; i += 1) {
		server.socket.break();
		server.timers.advance(30_000);
		server.socket.step(); // open
		server.socket.deliver(); // connected; the page does not come
	}
	const limits = () => server.sent('load_events').map(({ limit }) => limit).slice(1);
	server.pump();
	server.socket.break();
	server.advance(1_000);
	assert.equal(client.status.status, 'live');
	assert.deepEqual(limits().slice(-2), [1, 2]);
	for (let i = 0; i < 10; i += 1) {
		server.socket.break();
		server.advance(1_000);
	}
	assert.equal(limits().at(-1), 500);
});

test('on a network too slow to answer in time it becomes more patient', () => {
	const server = new FakeServer().fill(1);
	server.silent = true;
	const { client } = observe(server);
	server.pump();
	const waits = [];
	for (let i = 0; i < 6; i += 1) {
		const from = server.timers.now();
		while (client.status.status !== 'retrying') {
			server.advance(1_000);
		}
		waits.push(Math.floor((server.timers.now() - from) / 1_000));
		while (client.status.status === 'retrying') {
			server.advance(1);
		}
	}
	assert.deepEqual(waits, [20, 40, 80, 160, 160, 160]);
	server.silent = false;
	server.advance(200_000);
	assert.equal(client.status.status, 'live');
	server.silent = true;
	server.advance(40_000);
	assert.notEqual(client.status.status, 'live', 'it is as watchful as before');
});

test('frames that waited in the machine do not prove that the network is there', () => {
	const server = new FakeServer().fill(1);
	const { client } = observe(server);
	server.pump();
	server.emit({});
	server.silent = true;
	server.page.dispatchEvent(new Event('pageshow'));
	server.socket.deliver(); // it had come before the sleep
	assert.deepEqual(client.position.seq, 2);
	server.silent = false;
	server.advance(3_000);
	assert.equal(server.sockets.length, 2);
	assert.equal(client.status.status, 'live');
});

test('a socket that still takes what it was given is slow, not dead', () => {
	const server = new FakeServer().fill(1);
	const { client } = observe(server);
	server.pump();
	server.silent = true;
	server.socket.bufferedAmount = 600_000;
	for (let left = 500_000; left > 0; left -= 100_000) {
		server.advance(10_000);
		assert.equal(client.status.status, 'live');
		server.socket.bufferedAmount = left;
	}
	assert.equal(server.sockets.length, 1);
	server.advance(40_000);
	assert.equal(server.sockets.length, 2, 'and then it stands still');
});

test('nor does the answer to a keepalive of before', () => {
	const server = new FakeServer().fill(1);
	const { client } = observe(server);
	server.pump();
	server.timers.advance(10_000); // a keepalive goes out
	server.socket.step(); // and is answered, before the sleep
	server.timers.sleep(5);
	server.silent = true;
	server.page.dispatchEvent(new Event('pageshow'));
	server.socket.deliver();
	server.silent = false;
	server.advance(3_000);
	assert.equal(server.sockets.length, 2);
	assert.equal(client.status.status, 'live');
});

/** A client whose connection died without a word while its page was asleep, and is asked now. */
function wakeOnDeadSocket(prepare = () => {}) {
	const server = new FakeServer().fill(1);
	const { client, view } = observe(server);
	server.pump();
	const [old] = server.sockets;
	prepare(server);
	server.silent = true;
	server.page.dispatchEvent(new Event('focus'));
	return { server, client, view, old };
}

test('0.4 s after waking up without an answer it asks on a second socket, and nobody is told before that answers', () => {
	const { server, client, old } = wakeOnDeadSocket();
	server.timers.advance(399);
	assert.equal(server.sockets.length, 1);
	server.timers.advance(1);
	assert.equal(server.sockets.length, 2);
	assert.equal(old.readyState, 1, 'it may still answer');
	assert.equal(client.status.status, 'live');
	server.pump(); // what was asked on the first is lost
	server.silent = false;
	server.record();
	server.socket.break();
	assert.equal(client.status.status, 'live', 'the second is not the connection yet');
	server.advance(2_600);
	assert.equal(server.sockets.length, 3);
	assert.equal(client.status.status, 'live');
	assert.deepEqual(seqs(client.events), [1, 2]);
});

test('the second socket takes the place of the first when it answers, with what came meanwhile', () => {
	const { server, client, old } = wakeOnDeadSocket();
	server.pump();
	server.silent = false;
	server.record();
	const statuses = [];
	client.on('status', ({ status }) => statuses.push(status));
	server.advance(400);
	assert.equal(server.sockets.length, 2);
	assert.deepEqual(statuses, ['retrying', 'connecting', 'loading', 'live']);
	assert.deepEqual(seqs(client.events), [1, 2]);
	assert.equal(old.readyState, 3, 'closed');
	server.advance(60_000);
	assert.equal(server.sockets.length, 2, 'and has keepalives of its own');
	assert.ok(server.sent('keepalive').some(({ last_seen_seq }) => last_seen_seq === 2));
	assert.equal(client.stats.connects, 2);
	assert.equal(client.stats.losses, 1);
});

test('a network that is only slow keeps its connection: the answer closes the second socket', () => {
	const { server, client, view, old } = wakeOnDeadSocket();
	server.timers.advance(400);
	const [, spare] = server.sockets;
	server.silent = false;
	old.step(); // the keepalive arrives
	old.step(); // and so does its answer
	server.advance(60_000);
	assert.equal(spare.readyState, 3);
	assert.equal(old.readyState, 1);
	assert.equal(server.sockets.length, 2);
	assert.equal(client.status.status, 'live');
	assert.equal(client.stats.losses, 0);
	assert.equal(view.resets.length, 0);
});

test('if the first socket is closed meanwhile, the second goes on at once', () => {
	const { server, client, old } = wakeOnDeadSocket();
	server.timers.advance(400);
	server.silent = false;
	old.break();
	server.pump();
	assert.equal(server.sockets.length, 2);
	assert.equal(client.status.status, 'live');
});

test('closed while it waits for either answer, it leaves no socket behind', () => {
	const { server, client } = wakeOnDeadSocket();
	server.timers.advance(400);
	client.close();
	server.silent = false;
	server.pump();
	assert.deepEqual(server.sockets.map(({ readyState }) => readyState), [3, 3]);
	assert.equal(server.timers.pending, 0);
	assert.equal(client.status.status, 'closed');
});

test('after a freeze the second socket is opened at once', () => {
	const { server, client } = wakeOnDeadSocket(({ page }) => page.document.dispatchEvent(new Event('freeze')));
	server.timers.advance(0);
	assert.equal(server.sockets.length, 2);
	assert.equal(client.status.status, 'live');
});

test('without a page to tell of it, a clock that jumped is a sleep', () => {
	const server = new FakeServer().fill(1);
	const { client } = observe(server, { page: {} });
	server.pump();
	server.timers.sleep(60_000);
	server.silent = true;
	server.timers.advance(0); // the keepalive that was due during the sleep
	server.silent = false;
	server.advance(400);
	assert.equal(server.sockets.length, 2);
	assert.equal(client.status.status, 'live');
});

test('waking up while a connection hangs in its beginning opens another beside it', () => {
	const server = new FakeServer().fill(1);
	server.silent = true;
	const { client } = observe(server);
	server.pump();
	server.page.dispatchEvent(new Event('online'));
	server.page.dispatchEvent(new Event('focus'));
	server.pump();
	server.silent = false;
	server.advance(400);
	assert.equal(server.sockets.length, 2);
	assert.equal(client.status.status, 'live');
});

for (const [what, type, data] of [
	['events that are no array', 'events', { events: 3, max_seq: 3 }],
	['an event without a number', 'events', { events: [{ type: 'plan', data: {} }], max_seq: 3 }],
	['an event with a number that is none', 'events', { events: [{ seq: '2', type: 'plan', data: {} }], max_seq: 3 }],
	['a page without events', 'events_loaded', { epoch: 'x', reset: { reason: 'epoch' } }],
]) {
	test(`${what}: the connection is given up, the client is not`, () => {
		const server = new FakeServer().fill(1);
		const { client } = observe(server);
		server.pump();
		server.socket.queue(type, data);
		server.pump();
		assert.equal(client.status.status, 'retrying');
		assert.match(client.status.reason, /^an invalid frame: /);
		server.advance(1_000);
		assert.equal(client.status.status, 'live');
		assert.equal(client.position.seq, 1);
	});
}

test('a byte order mark in text counts for its three bytes', () => {
	const server = new FakeServer();
	const { view } = observe(server, { deltas: 'text' });
	server.pump();
	server.toAll('delta', { seq: 1, type: 'agent_message', offset: 0, text: '\uFEFFa' });
	server.toAll('delta', { seq: 1, type: 'agent_message', offset: 4, text: 'b' });
	server.pump();
	assert.equal(view.open[0].text, '\uFEFFab');
});

test('a max_seq that stays ahead is noticed among frames that bring nothing', () => {
	const server = new FakeServer().fill(2);
	const { client } = observe(server);
	server.pump();
	server.fill(1);
	for (let i = 0; i < 4; i += 1) {
		server.toAll('events', { events: [server.log[0]], max_seq: 3, is_prompting: false });
		server.advance(400);
	}
	assert.equal(client.position.seq, 3);
});

test('a page that ends behind its own max_seq is a gap that is looked after', () => {
	const server = new FakeServer().fill(2);
	const { client } = observe(server);
	while (client.status.status !== 'loading') {
		server.socket.step();
	}
	server.socket.step(); // the page is made
	server.fill(1); // and this is never sent
	server.pump();
	server.socket.queue('events_loaded', {
		events: [], has_more: false, first_seq: 0, last_seq: 0, max_seq: 3, total_count: 3, epoch: server.epoch, prepend: false, is_prompting: false,
	});
	server.pump();
	server.advance(1_000);
	assert.equal(client.position.seq, 3);
});

test('an answer that we gave ourselves on an earlier connection is no error', () => {
	const server = new FakeServer();
	const { client, view } = observe(server, { clientId: 'me' });
	server.pump();
	client.answerPermission('r1', 'allow');
	const refusal = { code: 'already_resolved', message: 'x', request: 'permission_answer', request_id: 'r1' };
	server.socket.queue('error', { ...refusal, by: 'me' });
	server.pump();
	assert.deepEqual(view.errors, []);
	server.socket.queue('error', { ...refusal, by: 'you' });
	server.pump();
	assert.equal(view.errors.length, 1);
	server.socket.break();
	server.advance(1_000);
	assert.equal(server.sent('permission_answer').length, 1);
});

test('a prompt under an id of the caller is sent once, however often it is asked for', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	assert.equal(client.prompt('x', { promptId: 'mine' }).id, 'mine');
	client.prompt('x', { promptId: 'mine' });
	assert.equal(client.prompts.length, 1);
	server.pump();
	assert.equal(server.sent('prompt').length, 1);
});

test('inspect sees every frame, and stats count', () => {
	const server = new FakeServer().fill(1);
	const frames = [];
	const inspect = (direction, text) => frames.push(`${direction} ${JSON.parse(text).type}`);
	const { client } = observe(server, { inspect });
	server.pump();
	assert.deepEqual(frames, ['in connected', 'out load_events', 'in events_loaded']);
	server.fill(3);
	server.socket.queue('keepalive_ack', { client_time: server.timers.now() - 40, max_seq: 4, epoch: server.epoch });
	server.pump();
	const { connects, losses, framesIn, framesOut, roundTripMs, maxSeq, lag, cacheFailure } = client.stats;
	assert.deepEqual([connects, losses, framesIn, framesOut], [1, 0, 3, 1]);
	assert.deepEqual([roundTripMs, maxSeq, lag, cacheFailure], [40, 4, 3, null]);
	server.socket.break();
	assert.equal(client.stats.losses, 1);
});

test('without a WebSocket, or without an address, the words say what to do', () => {
	const { WebSocket } = globalThis;
	delete globalThis.WebSocket;
	try {
		assert.throws(() => new HoldfastFeed({ base: 'http://x' }), /no WebSocket in this environment: pass/);
		assert.throws(() => new HoldfastClient({ sessionId: 's', WebSocket: class {} }), /base/);
	} finally {
		globalThis.WebSocket = WebSocket;
	}
});
