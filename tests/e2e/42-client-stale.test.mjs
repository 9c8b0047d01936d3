// The client library while the server's history becomes another one behind its back: it ends with the server's.

import assert from 'node:assert/strict';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import WebSocket from 'ws';
import { HoldfastClient } from '../../web/client/holdfast-client.js';
import { HostileProxy } from '../support/hostile_proxy.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { Waiters, defer, eventually } from '../support/wait.mjs';

const SPEED = 50;
const fastTimers = {
	setTimeout: (fn, ms) => setTimeout(fn, ms / SPEED),
	clearTimeout: (id) => clearTimeout(id),
	now: () => Math.round(performance.now() * SPEED),
};

/** Events with something of their own in each, so that two histories differ at every number. */
const notes = (from, count, name) => Array.from({ length: count }, (_, i) => input.note({ name, n: from + i }));

/** A server with 20 events in a session, and a client that has them all. */
async function start(t, options) {
	const server = await Server.start(t, options);
	const { id } = await server.createSession({ id: 'same' });
	await post(server, id, notes(1, 20, 'old'));
	const proxy = new HostileProxy(() => server.url, () => 0, 0, null);
	const client = new HoldfastClient({ sessionId: id, base: await proxy.listen(), WebSocket, timers: fastTimers, getToken: () => server.token });
	defer(t, () => proxy.close());
	defer(t, () => client.close());
	const waiters = new Waiters();
	const order = [];
	client.on('older', () => waiters.wake());
	for (const type of ['events', 'reset']) {
		client.on(type, ({ reason }) => order.push(reason ?? type));
	}
	client.on('status', () => waiters.wake());
	client.on('events', () => waiters.wake());
	client.connect();
	const until = (probe, what) => waiters.until(probe, 20_000, () => `${what}; ${JSON.stringify([client.status, client.position])}`);
	const reach = (seq) => until(() => client.position.seq === seq && client.status.status === 'live', `event ${seq}`);
	await reach(20);
	return { server, id, client, order, until, reach };
}

async function assertSameAsLog(server, id, client) {
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000`);
	assert.deepEqual(client.events, body.events);
	assert.equal(client.position.epoch, body.epoch);
}

/** The server's data become a copy of what they were after 20 events; 10 more have been shown meanwhile. */
async function restore({ server, id, client, order, until, reach }, { copy, isTold, more }) {
	await server.stop();
	cpSync(server.dataDir, copy, { recursive: true });
	await server.restart();
	await post(server, id, notes(21, 10, 'lost'));
	await reach(30);
	if (more > 10) {
		client.close(); // so that it does not see the events come
	}
	await server.stop();
	await until(() => client.status.status === (more > 10 ? 'closed' : 'retrying'), 'the loss');
	rmSync(server.dataDir, { recursive: true });
	cpSync(copy, server.dataDir, { recursive: true });
	if (isTold) {
		const { code, stderr } = await runToEnd(['new-epoch', server.dataDir]);
		assert.equal(code, 0, stderr);
	}
	order.length = 0;
	await server.restart();
	if (more > 0) {
		await post(server, id, notes(21, more, 'after'));
	}
	client.connect();
}

for (const { isTold, more } of [
	{ isTold: false, more: 0 },
	{ isTold: false, more: 3 },
	{ isTold: true, more: 0 },
	{ isTold: true, more: 3 },
	{ isTold: true, more: 10 },
	{ isTold: true, more: 40 },
]) {
	const how = `${isTold ? 'with' : 'without'} new-epoch, ${more} events later`;
	test(`the data directory is an older copy, ${how}: what the client had beyond it is dropped`, async (t) => {
		const all = await start(t);
		const { server, id, client, order, reach } = all;
		await restore(all, { copy: join(scratchDir(t), 'copy'), isTold, more });
		await reach(20 + more);
		assert.equal(order[0], isTold ? 'epoch' : 'ahead');
		assert.equal(order.filter((type) => type !== 'events').length, 1, 'one reset');
		await post(server, id, notes(21 + more, 3, 'then'));
		await reach(23 + more);
		client.loadOlder();
		await all.until(() => !client.hasOlder || (client.loadOlder(), false), 'the rest');
		await assertSameAsLog(server, id, client);
	});
}

test('the session is another one under the same name, with more events or fewer', async (t) => {
	for (const count of [5, 20, 40]) {
		const { server, id, client, order, reach } = await start(t);
		client.close(); // while there is no such session it would be told that it is gone
		await server.stop();
		rmSync(server.dataDir, { recursive: true });
		await server.restart();
		await server.createSession({ id });
		await post(server, id, notes(1, count, 'new'));
		order.length = 0;
		client.connect();
		await reach(count);
		assert.deepEqual(order, ['epoch', 'events']);
		await assertSameAsLog(server, id, client);
	}
});

test('what the client missed is not kept any more: it starts over with what is, and loads older down to there', async (t) => {
	const kept = 600;
	const args = ['--keep-events', String(kept), '--limit', 'prune_ms=10', '--limit', 'prune_size=1'];
	const { server, id, client, order, until, reach } = await start(t, { args });
	client.close();
	await post(server, id, notes(21, 1180, 'more'));
	const first = 1200 - kept + 1;
	await eventually(async () => (await server.request('GET', `/api/sessions/${id}`)).body.first_seq === first);
	order.length = 0;
	client.connect();
	await reach(1200);
	assert.deepEqual(order, ['pruned', 'events']);
	assert.equal(client.hasOlder, true);
	client.loadOlder();
	await until(() => !client.hasOlder || (client.loadOlder(), false), 'the beginning');
	assert.equal(client.events[0].seq, first);
	assert.equal(client.loadOlder(), false);
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=${first - 1}&limit=5000`);
	assert.deepEqual(client.events, body.events);
});
