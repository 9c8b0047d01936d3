// What proto/protocol.md says under "Questions of people who write a client" is so.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import WebSocket from 'ws';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { check } from '../support/schema.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { within } from '../support/wait.mjs';

const MIB = 1024 * 1024;

test('a frame is larger than 1 MiB only if a single event is, which comes whole', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const producer = await Producer.connect(t, server, id);
	const large = 'x'.repeat(1.5 * MIB - 100);
	const small = Array.from({ length: 30 }, () => input.note({ text: 'y'.repeat(100_000) }));
	await producer.acked(await producer.push(...small, input.note({ text: large })));
	const socket = new WebSocket(server.ws(`/api/sessions/${id}/ws`), { headers: { authorization: `Bearer ${server.token}` } });
	t.after(() => socket.terminate());
	const events = [];
	const sizes = [];
	const whole = new Promise((resolve) => {
		socket.on('message', (bytes) => {
			const { type, data } = JSON.parse(bytes);
			if (type === 'events_loaded') {
				events.push(...data.events);
				sizes.push({ size: bytes.length, count: data.events.length });
				if (!data.has_more) {
					resolve();
				}
			}
		});
	});
	await within(once(socket, 'open'), 20_000, () => 'the socket to open');
	socket.send(JSON.stringify({ type: 'load_events', data: { after_seq: 0, limit: 5000, follow: true } }));
	await within(whole, 30_000, () => 'the last page');
	assert.equal(events.length, 31);
	assert.equal(events.at(-1).data.text, large);
	assert.ok(sizes.length >= 4, JSON.stringify(sizes));
	for (const { size, count } of sizes) {
		assert.ok(size < 1.2 * MIB || count === 1, `${count} events in ${size} bytes`);
	}
	assert.ok(sizes.at(-1).size > 1.4 * MIB);
});

test('a ping is answered, before a load too, but says nothing of events', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const socket = new WebSocket(server.ws(`/api/sessions/${id}/ws`), { headers: { authorization: `Bearer ${server.token}` } });
	t.after(() => socket.terminate());
	const frames = [];
	socket.on('message', (bytes) => frames.push(JSON.parse(bytes).type));
	await within(once(socket, 'message'), 20_000, () => 'connected');
	socket.ping('are you there');
	const [payload] = await within(once(socket, 'pong'), 20_000, () => 'the pong');
	assert.equal(String(payload), 'are you there');
	assert.deepEqual(frames, ['connected']);
});

test('a prompt, its queue and keepalive need no load; events and state do', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const { id } = await server.createSession();
	const early = await Observer.connect(t, server, id);
	const taken = await early.prompt('hello', 'p-early');
	assert.equal(taken.seq, 1);
	await early.send('keepalive', { client_time: 7 });
	await early.waitFor((frame) => frame.type === 'keepalive_ack' && frame.data.client_time === 7);
	const other = await Observer.connect(t, server, id);
	await other.loadAll();
	await other.waitForEvent('turn_end');
	await early.send('list_prompts', {});
	await early.waitFor((frame) => frame.type === 'prompts');
	assert.deepEqual(early.frames.map(({ type }) => type), ['connected', 'prompt_received', 'keepalive_ack', 'prompts']);
	assert.deepEqual(await early.loadAll(), other.events());
});

test('a load while live: a page, then live again with a new state, and nothing is lost', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	await post(server, id, Array.from({ length: 10 }, (_, i) => input.note({ i })));
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	const isState = ({ type }) => type === 'state';
	await observer.waitFor(isState);
	const from = observer.frames.length;
	const page = await observer.load({ after_seq: 4, epoch: observer.epoch });
	assert.deepEqual(page.events.map(({ seq }) => seq), [5, 6, 7, 8, 9, 10]);
	await observer.waitFor(isState, { from });
	await post(server, id, input.note({ i: 10 }));
	await observer.waitForSeq(11);
	// Without `follow` it stays out of the live events until the end was asked for.
	const part = await observer.load({ after_seq: 0, epoch: observer.epoch, limit: 3 });
	assert.equal(part.has_more, true);
	const before = observer.frames.length;
	await post(server, id, input.note({ i: 11 }));
	await observer.send('keepalive', {});
	await observer.waitFor(({ type }) => type === 'keepalive_ack', { from: before });
	assert.deepEqual(observer.frames.slice(before).map(({ type }) => type), ['keepalive_ack']);
	await observer.loadAll();
	await observer.waitForSeq(12);
});

test('loads at once: one of each direction is answered, another of the same direction replaces', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	await post(server, id, Array.from({ length: 50 }, (_, i) => input.note({ i, text: 'z'.repeat(50_000) })));
	const observer = new TestSocket(t, server.ws(`/api/sessions/${id}/ws`), check.server);
	const pages = () => observer.frames.filter(({ type }) => type === 'events_loaded').map(({ data }) => data);
	await observer.sendTogether(['load_events', { after_seq: 0, limit: 1, follow: true }], ['load_events', { before_seq: 5, limit: 2 }]);
	await observer.waitUntil(() => pages().some(({ prepend, has_more }) => !prepend && !has_more), 'the last page');
	const [forward, back] = [false, true].map((prepend) => pages().filter((page) => page.prepend === prepend));
	assert.deepEqual(back.map(({ first_seq, last_seq }) => [first_seq, last_seq]), [[3, 4]]);
	assert.deepEqual(forward.flatMap(({ events }) => events.map(({ seq }) => seq)), Array.from({ length: 50 }, (_, i) => i + 1));
	const from = pages().length;
	// Together, or a fast server may have sent all of the first load before it reads of the second.
	await observer.sendTogether(['load_events', { after_seq: 0, limit: 1, follow: true }], ['load_events', { after_seq: 40, limit: 1, follow: true }]);
	await observer.waitUntil(() => pages().slice(from).some(({ has_more }) => !has_more), 'the last page again');
	const seqs = pages().slice(from).flatMap(({ events }) => events.map(({ seq }) => seq));
	assert.deepEqual(seqs.slice(-10), Array.from({ length: 10 }, (_, i) => i + 41));
	assert.ok(seqs.length < 50, 'the first of the two did not go on');
});

test('frames that are repeated: what counts once, and what counts each time', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	await observer.prompt('hello', 'p-1');
	await observer.waitForEvent('turn_end');
	const { duplicate } = await observer.prompt('hello', 'p-1');
	assert.equal(duplicate, true);
	// A cancel names no id: repeated, it stops whichever turn runs by then.
	await observer.prompt('permission', 'p-2');
	await observer.send('cancel', {});
	await observer.waitForEvent(({ type, turn }) => type === 'turn_end' && turn === 2);
	await observer.prompt('permission', 'p-3');
	await observer.send('cancel', {});
	const { data: end } = await observer.waitForEvent(({ type, turn }) => type === 'turn_end' && turn === 3);
	assert.equal(end.stop_reason, 'cancelled');
	// One that names the turn stops no other.
	await observer.prompt('permission', 'p-4');
	await observer.send('cancel', { turn: 3 });
	await observer.waitFor((frame) => frame.type === 'error' && frame.data.code === 'not_prompting');
	// An event without a key counts each time; with a key, once.
	const { id: fed } = await server.createSession();
	const keyed = { ...input.note({ n: 1 }), key: 'k' };
	await post(server, fed, [input.note({ n: 0 }), keyed]);
	const again = await post(server, fed, [input.note({ n: 0 }), keyed]);
	assert.deepEqual(again.acks, [{ seq: 3, duplicate: false }, { seq: 2, duplicate: true }]);
	await observer.send('cancel', {});
});
