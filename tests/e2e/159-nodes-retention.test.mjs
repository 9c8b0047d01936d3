// Retention with sessions in PostgreSQL: the owner of a session prunes it, and every node shows the same of it.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { readMetrics } from '../support/metrics.mjs';
import { startNodes } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { runToEnd } from '../support/server.mjs';
import { EventStream } from '../support/sse.mjs';
import { eventually } from '../support/wait.mjs';

const postgres = Postgres.start({ after });
const notes = (count, from = 0) => Array.from({ length: count }, (_, n) => input.note({ n: n + from }));
const firstSeq = async (node) => (await node.request('GET', '/api/sessions/s')).body.first_seq;
const rows = (database) => Number(postgres.ask(database, 'SELECT count(*) FROM holdfast_event'));
const events = async (node, query) => (await node.request('GET', `/api/sessions/s/events?format=markdown&${query}`)).body;

async function expectClean(database) {
	const done = await runToEnd(['verify', postgres.url(database)], { timeoutMs: 60_000 });
	assert.equal(done.code, 0, done.stdout + done.stderr);
}

test('who watches at another node goes on by positions that are there, and hears of those that are not', async (t) => {
	const [a, b] = await startNodes(t, postgres, 2, { database: 'watched', args: ['--keep-events', '50', '--limit', 'prune_ms=20,hot_tail_size=1024'] });
	await a.createSession({ id: 's' });
	const watchers = await Promise.all([a, b].map(async (node) => {
		const observer = await Observer.connect(t, node, 's');
		await observer.loadAll();
		return observer;
	}));
	const stream = await EventStream.session(t, b, 's');
	await stream.waitFor('live');
	for (let n = 0; n < 300; n += 30) {
		await post(a, 's', notes(30, n));
		await Promise.all([...watchers, stream].map((one) => one.waitForSeq(n + 30))); // nobody is overtaken
	}
	watchers.forEach((observer) => assert.deepEqual([observer.events().length, observer.resets], [300, []]));
	for (const node of [a, b]) {
		await eventually(async () => (await firstSeq(node)) === 251, 'the rest to be pruned');
		assert.deepEqual((await events(node, 'after_seq=250&limit=2')).events.map(({ seq }) => seq), [251, 252]);
		assert.equal((await events(node, 'after_seq=100')).reset.reason, 'pruned');
	}
	assert.equal(rows('watched'), 50);
	// At the mirror: a position that is gone, one that is not, and a page in front of what is there.
	assert.equal((await readMetrics(b))('node_sockets'), 1);
	for (const observer of watchers) {
		const gone = await observer.load({ after_seq: 249 });
		assert.equal(gone.reset.reason, 'pruned');
		assert.equal((await observer.load({ after_seq: 250, limit: 3 })).events[0].seq, 251);
		assert.deepEqual((await observer.load({ before_seq: 251 })).events, []);
	}
	const late = await EventStream.session(t, b, 's', { lastId: stream.lastId.replace(/\d+$/, '20') });
	await late.waitFor('reset');
	await expectClean('watched');
});

test('the owner is killed while it prunes: the next one goes on', async (t) => {
	const limits = 'prune_ms=20,node_lease_ms=5000';
	const [a, b] = await startNodes(t, postgres, 2, { database: 'killed', args: ['--limit', limits] });
	await a.createSession({ id: 's' });
	for (let n = 0; n < 9000; n += 1000) {
		await post(a, 's', notes(1000, n));
	}
	await a.stop();
	const [c] = await startNodes(t, postgres, 1, { database: 'killed', args: ['--keep-events', '100', '--limit', limits] });
	await b.stop(); // c has it now
	await eventually(() => rows('killed') < 9000, 'the first step');
	await c.kill9();
	await expectClean('killed');
	const left = rows('killed');
	const [d] = await startNodes(t, postgres, 1, { database: 'killed', args: ['--keep-bytes', '2K', '--limit', limits] });
	await eventually(async () => (await d.request('GET', '/api/sessions/s')).status === 200 && (await firstSeq(d)) > 8950, 'the next owner to prune it', 30_000);
	await eventually(() => rows('killed') < left, 'its rows to go');
	const { events: kept, max_seq: maxSeq } = await events(d, 'limit=100');
	assert.equal(maxSeq, 9000);
	assert.deepEqual(kept.map(({ data }) => data.n), Array.from({ length: kept.length }, (_, n) => 9000 - kept.length + n));
	await expectClean('killed');
});
