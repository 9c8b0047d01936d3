// A server that stops does nothing that only a living one may, and says "deleted" and "not found" of nothing that was not deleted, or not looked for.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startNodes } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { eventually, patience } from '../support/wait.mjs';

const postgres = Postgres.start({ after });

/** An agent that ends when `let()` is called, so that its node drains until then. */
function stayingAgent(t) {
	const file = join(scratchDir(t), 'stay');
	writeFileSync(file, '');
	return { agent: `trap '' TERM; ${demoAgent()}; while [ -e ${file} ]; do sleep 0.02; done`, let: () => rmSync(file, { force: true }) };
}
const PATIENT = ['--limit', 'agent_stop_ms=60000,agent_hand_over_ms=60000,drain_ms=600000,hot_tail_size=1K'];

/** SIGTERM; once the server has noticed, gives the promise of its end. */
async function beginStop(server) {
	const ended = server.stop();
	await eventually(() => /stopping \(SIGTERM\)/.test(server.stderr), 'the server to begin to stop');
	return { ended };
}

/** A session whose agent ends late. */
async function keepBusy(t, server) {
	await server.createSession({ id: 'busy' });
	const observer = await Observer.connect(t, server, 'busy');
	await observer.loadAll();
	await observer.prompt('hello');
	await observer.waitForEvent('turn_end');
}

const notes = (count) => Array.from({ length: count }, (_, n) => input.note({ n, pad: 'x'.repeat(100) }));
const waitingFor = (database, table) => Number(postgres.ask(database, `SELECT count(DISTINCT l.pid) FROM pg_locks AS l WHERE NOT l.granted AND l.relation = '${table}'::regclass`));

/** Neither "not found" nor "deleted", but when to come again. */
function assertSentAway(what, { status, headers, body }) {
	assert.deepEqual([what, status, headers.get('retry-after')], [what, 503, '1'], JSON.stringify(body));
	assert.match(body.error.code, /^(shutting_down|owner_unreachable)$/, what);
}

test('who reads a session while its node hands it over is told to come again, at every door', async (t) => {
	const { agent, let: letGo } = stayingAgent(t);
	const [a, b] = await startNodes(t, postgres, 2, { database: 'reading', agent, args: PATIENT });
	await keepBusy(t, a);
	await a.createSession({ id: 's' });
	for (let n = 0; n < 10; n += 1) {
		await post(a, 's', notes(50));
	}
	const bytes = Buffer.alloc(5000, 7);
	const { body: uploaded } = await a.request('POST', '/api/sessions/s/blobs', { body: bytes, headers: { 'content-type': 'application/octet-stream' } });
	assert.equal(uploaded.blob, createHash('sha256').update(bytes).digest('hex'));
	const release = await postgres.hold(t, 'reading', 'LOCK TABLE holdfast_event, holdfast_blob IN ACCESS EXCLUSIVE MODE');
	const doors = {
		'a page': ['GET', '/api/sessions/s/events?after_seq=100&limit=10'],
		'an older page': ['GET', '/api/sessions/s/events?before_seq=100&limit=10'],
		'a page of Durable Streams': ['GET', '/ds/sessions/s?offset=-1'],
		'a long poll of Durable Streams': ['GET', '/ds/sessions/s?offset=-1&live=long-poll'],
		search: ['GET', '/api/sessions/s/search?q=nowhere'],
		'an image': ['GET', `/api/sessions/s/blobs/${uploaded.blob}`],
		'an upload': ['POST', '/api/sessions/s/blobs', { body: Buffer.alloc(6000, 8), headers: { 'content-type': 'application/octet-stream' } }],
	};
	const answers = Object.entries(doors).map(async ([what, args]) => [what, await a.request(...args)]);
	await eventually(() => waitingFor('reading', 'holdfast_event') >= 2, 'reads to be under way');
	const { ended } = await beginStop(a);
	await release();
	for (const [what, answer] of await Promise.all(answers)) {
		if (answer.status !== 200 && answer.status !== 201) { // its read was quicker
			assertSentAway(what, answer);
		}
	}
	const again = await eventually(async () => {
		const answer = await b.request(...doors['a page']);
		return answer.status === 200 && answer.body;
	}, 'the other node to have it');
	assert.deepEqual(again.events.map(({ seq }) => seq), Array.from({ length: 10 }, (_, n) => 101 + n));
	letGo();
	await ended;
});

test('requests that wait for names, or arrive whole only after SIGTERM, are told to come again', async (t) => {
	const { agent, let: letGo } = stayingAgent(t);
	const [c, a] = await startNodes(t, postgres, 2, { database: 'names', agent, args: PATIENT });
	await c.createSession({ id: 's' });
	await post(c, 's', [{ ...input.note({}), key: 'k' }]);
	await c.stop();
	await keepBusy(t, a);
	await eventually(async () => (await a.request('GET', '/api/sessions/s')).status === 200, 'it to be here');
	const release = await postgres.hold(t, 'names', 'LOCK TABLE holdfast_name IN ACCESS EXCLUSIVE MODE');
	const doors = {
		'an append': ['POST', '/api/sessions/s/events', { json: [{ ...input.note({}), key: 'k' }] }],
		'the queue': ['GET', '/api/sessions/s/queue'],
	};
	const answers = Object.entries(doors).map(async ([what, args]) => [what, await a.request(...args)]);
	await eventually(() => waitingFor('names', 'holdfast_name') >= 1, 'the names to be read');
	const { ended } = await beginStop(a);
	await release();
	for (const [what, answer] of await Promise.all(answers)) {
		assertSentAway(what, answer);
	}
	letGo();
	await ended;
});

test('a node that was told to stop takes no session over, and ends well', async (t) => {
	const lease = ['--limit', `node_lease_ms=${2000 * patience}`];
	const [a] = await startNodes(t, postgres, 1, { database: 'taking', agent: demoAgent(), args: lease });
	const [b] = await startNodes(t, postgres, 1, { database: 'taking', args: lease });
	await a.createSession({ id: 's' });
	const observer = await Observer.connect(t, a, 's');
	await observer.loadAll();
	await observer.prompt('permission');
	await observer.waitForEvent('permission_request');
	const release = await postgres.hold(t, 'taking', 'LOCK TABLE holdfast_record IN ACCESS EXCLUSIVE MODE');
	await a.kill9();
	await eventually(() => waitingFor('taking', 'holdfast_record') >= 1, 'the session to be taken over');
	const { ended } = await beginStop(b);
	await release();
	await ended;
	assert.doesNotMatch(b.stderr, /took over/);
	const [d] = await startNodes(t, postgres, 1, { database: 'taking' });
	const page = await eventually(async () => {
		const { status, body } = await d.request('GET', '/api/sessions/s/events?after_seq=0&format=markdown');
		return status === 200 && body.events.some(({ type }) => type === 'agent_stopped') && body;
	}, 'the next node to have it');
	assert.equal(page.events.filter(({ type }) => type === 'agent_stopped').length, 1);
});

test('an agent that outlives the time of a stop ends while the rooms are taken down', async (t) => {
	const agent = `trap '' TERM; ${demoAgent()}; while :; do sleep 0.02; done`;
	const server = await Server.start(t, { agent, args: ['--limit', 'drain_ms=100,agent_stop_ms=500'] });
	await keepBusy(t, server);
	await server.stop();
});
