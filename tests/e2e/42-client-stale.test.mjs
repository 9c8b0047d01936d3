// The client library while the server's history becomes another one behind its back: it ends with the server's.

import assert from 'node:assert/strict';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import WebSocket from 'ws';
import { HoldfastClient } from '../../web/holdfast-client.js';
import { HostileProxy } from '../support/hostile_proxy.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { Waiters, defer } from '../support/wait.mjs';

const SPEED = 50;
const fastTimers = {
	setTimeout: (fn, ms) => setTimeout(fn, ms / SPEED),
	clearTimeout: (id) => clearTimeout(id),
	now: () => Math.round(performance.now() * SPEED),
};

/** Events with something of their own in each, so that two histories differ at every number. */
const notes = (from, count, name) => Array.from({ length: count }, (_, i) => input.note({ name, n: from + i }));

/** A server with 20 events in a session, and a client that has them all. */
async function start(t) {
	const server = await Server.start(t);
	const { id } = await server.createSession({ id: 'same' });
	await post(server, id, notes(1, 20, 'old'));
	const proxy = new HostileProxy(() => server.url, () => 0, 0, null);
	const client = new HoldfastClient({ sessionId: id, base: await proxy.listen(), WebSocket, timers: fastTimers });
	defer(t, () => proxy.close());
	defer(t, () => client.close());
	const waiters = new Waiters();
	const order = [];
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

test('the data directory is an older copy: what the client had beyond it is dropped', async (t) => {
	const { server, id, client, order, until, reach } = await start(t);
	await server.stop();
	const copy = join(scratchDir(t), 'copy');
	cpSync(server.dataDir, copy, { recursive: true });
	await server.restart();
	await post(server, id, notes(21, 10, 'lost'));
	await reach(30);
	await server.stop();
	await until(() => client.status.status === 'retrying', 'the loss');
	rmSync(server.dataDir, { recursive: true });
	cpSync(copy, server.dataDir, { recursive: true });
	order.length = 0;
	await server.restart();
	await reach(20);
	assert.deepEqual(order, ['ahead', 'events']);
	await post(server, id, notes(21, 3, 'after'));
	await reach(23);
	await assertSameAsLog(server, id, client);
});

test('the session is another one under the same name, with more events or fewer', async (t) => {
	for (const count of [5, 40]) {
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
