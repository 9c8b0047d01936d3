// The client library alone, against the server, on the worst network that TCP allows (hostile_proxy.mjs). Every
// run has a seed and must end with exactly the log. HOLDFAST_PROXY_RUNS: how many; HOLDFAST_PROXY_SEED: from which.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Killer, hostileRun } from '../support/hostile_run.mjs';
import { partOf } from '../support/part.mjs';
import { Server, demoAgent, unsynced } from '../support/server.mjs';

const RUNS = Number(process.env.HOLDFAST_PROXY_RUNS ?? 1_000);
const FIRST_SEED = Number(process.env.HOLDFAST_PROXY_SEED ?? 1);
const AT_ONCE = 64;
const SEEDS = partOf(Array.from({ length: RUNS }, (_, i) => FIRST_SEED + i));

test(`${SEEDS.length} runs on a hostile network end equal to the log`, async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0'), args: unsynced });
	const seeds = [...SEEDS];
	const events = {};
	const failures = [];
	let connects = 0;
	const work = async () => {
		for (let seed = seeds.shift(); seed !== undefined && failures.length < 5; seed = seeds.shift()) {
			const done = await hostileRun(server, seed);
			connects += done.connects;
			if (done.failure) {
				failures.push(done.failure);
			}
			for (const [name] of done.story.map((event) => event.split(' '))) {
				events[name] = (events[name] ?? 0) + 1;
			}
		}
	};
	await Promise.all(Array.from({ length: AT_ONCE }, work));
	t.diagnostic(`${SEEDS.length} runs, ${connects} connections: ${JSON.stringify(events)}`);
	assert.deepEqual(failures, []);
	assert.ok(connects >= SEEDS.length * 2, 'the network was bad');
});

test('the same while the server is killed and started again', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 2000') });
	const killer = new Killer();
	const seeds = Array.from({ length: 24 }, (_, i) => FIRST_SEED + i);
	const runs = seeds.map((seed) => hostileRun(server, seed, killer));
	try {
		await killer.waitForAll(seeds.length);
		for (let i = 0; i < 6; i += 1) {
			await killer.wait(15);
			await server.kill9();
			await server.restart();
		}
	} finally {
		killer.isDone = true;
	}
	const done = await Promise.all(runs);
	assert.deepEqual(done.map(({ failure }) => failure).filter(Boolean), []);
	t.diagnostic(`${done.reduce((sum, { connects }) => sum + connects, 0)} connections, 6 kills`);
});
