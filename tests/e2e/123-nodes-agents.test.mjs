// Several nodes on one PostgreSQL: a session's agent is at one of them at a time, whatever becomes of the server that has it.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startNodes as startOn } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { demoAgent, scratchDir } from '../support/server.mjs';
import { defer, eventually, patience } from '../support/wait.mjs';

const postgres = Postgres.start({ after });

/** So long is a lease: a machine that is slow renews it late. */
const lease = (ms) => Math.ceil(ms * patience);

/** A command line of an agent that notes its pid in `pids`, and in `beside` which of those that were noted before are there. */
function notingAgent(pids, beside) {
	return `for pid in $(cat ${pids} 2>/dev/null); do [ -e /proc/$pid ] && echo $pid >> ${beside}; done; echo $$ >> ${pids}; exec ${demoAgent()}`;
}

/** Prompts at a node until a turn has ended there. */
async function insist(t, node, id) {
	for (;;) {
		try {
			const observer = await Observer.connect(t, node, id);
			await observer.loadAll();
			const seen = observer.events().length;
			await observer.prompt('hello');
			await observer.waitForEvent((e) => e.type === 'turn_end' && e.seq > seen);
			return;
		} catch (error) {
			assert.match(error.message, /closed \((1001|1011)|WebSocket is not open/); // or it was just closing
			await sleep(50);
		}
	}
}

test('the agent of a node that stands still is gone before the next owner starts its own', async (t) => {
	const dir = scratchDir(t);
	const pids = join(dir, 'pids');
	const beside = join(dir, 'beside');
	const pidsOf = () => readFileSync(pids, 'utf8').trim().split('\n').map(Number);
	const [a, b] = await startOn(t, postgres, 2, { agent: notingAgent(pids, beside), args: ['--limit', `node_lease_ms=${lease(3000)},node_silence_ms=${300 * patience}`] });
	await a.createSession({ id: 's' });
	await insist(t, a, 's');
	const [first] = pidsOf();
	await eventually(async () => existsSync(`/proc/${first}`), 'its agent to be there');
	const { pid } = a;
	process.kill(pid, 'SIGSTOP');
	defer(t, () => process.kill(pid, 'SIGCONT'));
	await insist(t, b, 's');
	assert.equal(pidsOf().length, 2);
	assert.ok(!existsSync(`/proc/${first}`), 'the agent of the one that stands still is there');
	assert.ok(!existsSync(beside), 'an agent was started beside another');
	process.kill(pid, 'SIGCONT');
	await insist(t, a, 's'); // through the other one
	assert.equal(pidsOf().length, 2);
});

test('an agent lives on while its node renews its lease', async (t) => {
	const dir = scratchDir(t);
	const pids = join(dir, 'pids');
	const leaseMs = lease(2500);
	const [a] = await startOn(t, postgres, 1, { agent: notingAgent(pids, join(dir, 'beside')), args: ['--limit', `node_lease_ms=${leaseMs}`] });
	await a.createSession({ id: 's' });
	await insist(t, a, 's');
	const until = Date.now() + 3 * leaseMs;
	await eventually(() => Date.now() > until, 'three leases to be over');
	await insist(t, a, 's');
	assert.equal(readFileSync(pids, 'utf8').trim().split('\n').length, 1);
});
