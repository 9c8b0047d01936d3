// Several nodes on one PostgreSQL: a search in all sessions has those of all nodes, in the order in which one node would have them.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startNodes as startOn } from '../support/nodes.mjs';
import { Postgres } from '../support/postgres.mjs';
import { post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { eventually, patience } from '../support/wait.mjs';

const postgres = Postgres.start({ after });
const startNodes = (t, count, options) => startOn(t, postgres, count, options);
const shape = check.rest('search');
const log = (text) => ({ type: 'x-log', data: { text } });

async function find(node, query, headers = {}) {
	const { status, body } = await node.request('GET', `/api/search?${new URLSearchParams(query)}`, { headers });
	assert.equal(status, 200, JSON.stringify(body));
	assertValid(shape(body));
	return body;
}

const places = ({ hits }) => hits.map(({ session_id, seq }) => `${session_id} ${seq}`);
const newest = (id) => [7, 6, 5, 4, 3].map((seq) => `${id} ${seq}`);

/** Makes a session with seven events to find, at that node. */
async function fill(node, id, word = 'needle') {
	await node.createSession({ id });
	await post(node, id, Array.from({ length: 7 }, (_, n) => log(`${word} ${n} of ${id}`)));
}

/** What is listed of others is up to a second old. */
const untilFound = (node, q, wanted, headers) => eventually(async () => JSON.stringify(places(await find(node, { q }, headers))) === JSON.stringify(wanted), `${wanted} to be found`);

test('each node finds what there is in the sessions of all, the newest change first, page by page from any of them', async (t) => {
	const nodes = await startNodes(t, 3);
	const [a, b, c] = nodes;
	await fill(a, 'team-a');
	await fill(b, 'other');
	await fill(c, 'team-b');
	await post(b, 'team-a', [{ type: 'tool_call', data: { tool_call_id: 'c', title: 'secret', status: 'pending' } }]);
	const as = (node, rights) => bearer(ownToken(node, 'observer', [], { holdfast: { role: 'observer', ...rights } }));
	for (const node of nodes) {
		await untilFound(node, 'NEEDLE', ['team-a', 'team-b', 'other'].flatMap(newest));
		assert.deepEqual(places(await find(node, { q: 'needle' }, as(node, { sessions: ['team-*'] }))), ['team-a', 'team-b'].flatMap(newest));
		assert.deepEqual(places(await find(node, { q: 'secret' })), ['team-a 8']);
		assert.deepEqual(places(await find(node, { q: 'secret' }, as(node, { sessions: ['*'], hide: ['tools'] }))), []);
	}
	assert.deepEqual((await find(c, { q: 'needle 3' })).hits, (await find(a, { q: 'needle 3' })).hits);
	// A cursor of one node is good at the next one.
	const found = [];
	let asked = 0;
	for (let cursor = {}; cursor; asked++) {
		const page = await find(nodes[asked % 3], { q: 'needle', limit: 2, ...cursor });
		found.push(...places(page));
		cursor = page.next && { cursor: page.next };
	}
	assert.deepEqual(found.sort(), ['team-a', 'team-b', 'other'].flatMap((id) => [1, 2, 3, 4, 5, 6, 7].map((seq) => `${id} ${seq}`)).sort());
	assert.equal((await b.request('DELETE', '/api/sessions/team-a')).status, 204);
	for (const node of nodes) {
		await untilFound(node, 'needle', ['team-b', 'other'].flatMap(newest));
	}
});

test('what a dead node had is found, and what cannot be read in time is named', async (t) => {
	const database = 'unread';
	const [a, b] = await startNodes(t, 2, { database, args: ['--limit', `search_wait_ms=${300 * patience}`] });
	await fill(a, 'far');
	await fill(a, 'further');
	await fill(b, 'near');
	await untilFound(b, 'needle', ['near', 'further', 'far'].flatMap(newest));
	await a.kill9();
	assert.deepEqual(places(await find(b, { q: 'needle' })), ['near', 'further', 'far'].flatMap(newest));
	// The database is there, and does not answer: what is in memory here is found.
	const unlock = await postgres.hold(t, database, 'LOCK TABLE holdfast_event');
	const first = await find(b, { q: 'needle' });
	assert.deepEqual([places(first), first.unread], [newest('near'), ['further']]);
	const second = await find(b, { q: 'needle', cursor: first.next });
	assert.deepEqual([places(second), second.unread], [[], ['far']]);
	await unlock();
	const again = await find(b, { q: 'needle', cursor: first.next });
	assert.deepEqual([places(again), again.unread, again.next], [newest('far'), undefined, null]);
	await a.restart(); // it has to end well
});
