// The wall clock is set under the real server, or while it is down: nothing waits for it, no ts goes back, and nothing
// is pruned that is young.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';
import { WallClock } from '../support/wall_clock.mjs';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const MINUTE = 60_000;

async function events(server, id) {
	const { status, body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=100&format=markdown`);
	assert.equal(status, 200, JSON.stringify(body));
	return body;
}

async function newestTs(server, id) {
	return (await events(server, id)).events.at(-1).ts;
}

test('set back by an hour while the server is down: what was open and held goes out', async (t) => {
	const clock = new WallClock(t);
	const server = await Server.start(t, { env: clock.env, args: ['--limit', 'hold_ms=3000'] });
	const { id } = await server.createSession();
	await post(server, id, [input.text('- one\n- two\n'), input.tool('t')]);
	await server.kill9();
	clock.set(-HOUR);
	await server.restart();
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	await observer.waitForSeq(2);
	const ts = (await events(server, id)).events.map((event) => event.ts);
	await post(server, id, input.note({}));
	assert.ok((await newestTs(server, id)) >= Math.max(...ts), 'no ts goes back');
});

test('set while the server runs: ts and server_time follow, timers do not care', async (t) => {
	const clock = new WallClock(t);
	const server = await Server.start(t, { env: clock.env, args: ['--limit', 'hold_ms=200'] });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	let seq = 0;
	let last = 0;
	for (const shift of [8 * HOUR, 2 * HOUR, -3 * DAY, DAY]) {
		clock.set(shift);
		await post(server, id, [input.text('- one\n- two\n'), input.tool(`t${shift}`)]);
		await observer.waitForSeq(seq += 2);
		const ts = await newestTs(server, id);
		assert.ok(ts >= last, `${ts} comes after ${last}`);
		assert.ok(Math.abs(ts - Math.max(last, clock.now())) < MINUTE, `${ts} at ${clock.now()}`);
		last = ts;
		await observer.send('keepalive', { client_time: shift, last_seen_seq: seq });
		const ack = await observer.waitFor((f) => f.type === 'keepalive_ack' && f.data.client_time === shift);
		assert.ok(Math.abs(ack.data.server_time - clock.now()) < MINUTE, `${ack.data.server_time} at ${clock.now()}`);
	}
});

for (const whileDown of [true, false]) {
	test(`40 days behind, then set right ${whileDown ? 'while the server is down' : 'under it'}: --keep-days 30 prunes nothing young`, async (t) => {
		const clock = new WallClock(t);
		clock.set(-40 * DAY);
		const args = ['--keep-days', '30', '--keep-events', '5', '--limit', 'prune_ms=50', '--limit', 'clock_trust_ms=0'];
		const server = await Server.start(t, { env: clock.env, args });
		const { id: young } = await server.createSession();
		const { id: many } = await server.createSession();
		const note = (n) => Array.from({ length: n }, () => input.note({}));
		await post(server, young, note(3));
		assert.ok(Math.abs(await newestTs(server, young) - clock.now()) < MINUTE);
		if (!whileDown) {
			clock.set(0);
			await post(server, many, note(1));
		}
		await server.kill9();
		clock.set(0);
		await server.restart();
		// By the other one it is seen that the server has looked: three times.
		for (let round = 0; round < 3; round++) {
			await post(server, many, note(10));
			await eventually(async () => (await events(server, many)).events.length === 5);
		}
		assert.equal((await events(server, young)).events.length, 3);
	});
}
