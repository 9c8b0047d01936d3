// A node that is told to stop hands each session over as soon as its agent is gone, whatever the agents of others do.

import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startNodes } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { demoAgent, scratchDir } from '../support/server.mjs';
import { eventually, patience } from '../support/wait.mjs';

const postgres = Postgres.start({ after });

/** Appends a note through a node as soon as that takes it; gives its seq. */
async function insist(node, id) {
	for (;;) {
		const { status, body } = await node.request('POST', `/api/sessions/${id}/events`, { json: [input.note({ by: 'b' })] });
		if (status === 200) {
			return body.acks[0].seq;
		}
		assert.equal(status, 503, JSON.stringify(body));
		await sleep(20);
	}
}

/** SIGTERM; once the node has noticed, gives the promise of its end. */
async function beginStop(node) {
	const ended = node.stop();
	await eventually(() => /stopping \(SIGTERM\)/.test(node.stderr), 'the node to begin to stop');
	return { ended };
}

test('sessions without an agent go at once, and the others when their agent has ended', async (t) => {
	const dir = scratchDir(t);
	const stay = join(dir, 'stay');
	writeFileSync(stay, '');
	const agent = `trap '' TERM; ${demoAgent()}; while [ -e ${stay} ]; do sleep 0.02; done`;
	const limits = ['--limit', 'agent_stop_ms=60000,agent_hand_over_ms=60000,drain_ms=600000,node_lease_ms=600000'];
	const [a, b] = await startNodes(t, postgres, 2, { agent, args: limits });
	const seqs = {};
	for (const id of ['with', 'without']) {
		await a.createSession({ id });
		if (id === 'with') {
			const observer = await Observer.connect(t, a, id);
			await observer.loadAll();
			await observer.prompt('hello');
			await observer.waitForEvent('turn_end');
		}
		seqs[id] = (await post(a, id, [input.note({ by: 'a' })])).max_seq;
	}
	const { ended } = await beginStop(a);
	assert.equal(await insist(b, 'without'), seqs.without + 1);
	const refused = await b.request('POST', '/api/sessions/with/events', { json: [input.note({})] });
	assert.deepEqual([refused.status, refused.body.error.code], [503, 'shutting_down'], 'its agent is there');
	rmSync(stay);
	assert.ok(await insist(b, 'with') > seqs.with);
	await ended;
});

test('an agent that does not end by itself is killed soon, and its session goes then', async (t) => {
	const pids = join(scratchDir(t), 'pids');
	const agent = `trap '' TERM; echo $$ >> ${pids}; ${demoAgent()}; while :; do sleep 0.05; done`;
	const limits = ['--limit', 'agent_stop_ms=60000,drain_ms=600000,node_lease_ms=600000'];
	const [a, b] = await startNodes(t, postgres, 2, { agent, args: limits });
	await a.createSession({ id: 'stubborn' });
	const observer = await Observer.connect(t, a, 'stubborn');
	await observer.loadAll();
	await observer.prompt('hello');
	const { seq } = await observer.waitForEvent('turn_end');
	const { ended } = await beginStop(a);
	assert.ok(await insist(b, 'stubborn') > seq);
	const [pid] = readFileSync(pids, 'utf8').trim().split('\n').map(Number);
	assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' }, 'it is gone before another may have the session');
	await ended;
});

test('nodes whose database is down stop, whatever waits for it', async (t) => {
	const own = Postgres.start(t);
	const limits = ['--limit', `journal_retry_ms=1,stop_wait_ms=${1000 * patience},node_lease_ms=${2000 * patience}`];
	const nodes = await startNodes(t, own, 2, { args: limits });
	const [a] = nodes;
	await a.createSession({ id: 's' });
	own.kill9();
	const refused = a.request('POST', '/api/sessions/s/events', { json: [input.note({})] }).catch(() => ({ status: 0 }));
	await eventually(() => /the database cannot be used/.test(a.stderr), 'the node to say so');
	await Promise.all(nodes.map((node) => node.stop()));
	assert.notEqual((await refused).status, 200);
});
