// Several nodes on one PostgreSQL: the list and the feed have the sessions of all of them, at every node.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startNodes as startOn } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { check } from '../support/schema.mjs';
import { demoAgent } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { eventually, patience } from '../support/wait.mjs';

const postgres = Postgres.start({ after });
const startNodes = (t, count, options) => startOn(t, postgres, count, options);

const listOf = async (node, headers) => (await node.request('GET', '/api/sessions', { headers })).body.sessions;
const idsOf = async (node, headers) => (await listOf(node, headers)).map(({ id }) => id).sort();
const untilListed = (node, ids, headers) => eventually(async () => JSON.stringify(await idsOf(node, headers)) === JSON.stringify(ids), `${ids} to be listed`);

async function feedOf(t, node, headers = bearer(node.token)) {
	const feed = new TestSocket(t, node.ws('/api/events'), check.feed, { headers });
	await feed.waitFor('sessions');
	return feed;
}

test('each node lists the sessions of all, as they are at their owners', async (t) => {
	const [a, b, c] = await startNodes(t, 3);
	await a.createSession({ id: 'a1', title: 'one' });
	await b.createSession({ id: 'b1' });
	for (const node of [a, b, c]) {
		await untilListed(node, ['a1', 'b1']);
	}
	await post(c, 'a1', [input.note({ n: 1 }), input.note({ n: 2 })]);
	await a.request('PATCH', '/api/sessions/a1', { json: { title: 'two', pinned: true } });
	const { body: own } = await a.request('GET', '/api/sessions/a1');
	assert.equal(own.max_seq, 2);
	await eventually(async () => {
		const found = (await listOf(c)).find(({ id }) => id === 'a1');
		return JSON.stringify(found) === JSON.stringify(own);
	}, 'the list elsewhere to have it as its owner does');
	assert.equal((await c.request('DELETE', '/api/sessions/a1')).status, 204);
	for (const node of [a, b, c]) {
		await untilListed(node, ['b1']);
	}
	await b.createSession({ id: 'a1' });
	await untilListed(a, ['a1', 'b1']);
});

test('pages of the list go over the sessions of all nodes, and a token shows its own', async (t) => {
	const nodes = await startNodes(t, 2);
	for (let n = 0; n < 12; n++) {
		await nodes[n % 2].createSession({ id: `${n % 3 ? 'x' : 'y'}-${String(n).padStart(2, '0')}` });
	}
	const all = Array.from({ length: 12 }, (_, n) => `${n % 3 ? 'x' : 'y'}-${String(n).padStart(2, '0')}`).sort();
	for (const node of nodes) {
		await untilListed(node, all);
		const found = [];
		for (let cursor = ''; cursor !== null;) {
			const { body } = await node.request('GET', `/api/sessions?limit=5${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
			found.push(...body.sessions.map(({ id }) => id));
			cursor = body.next;
		}
		assert.deepEqual(found.sort(), all);
		assert.deepEqual(await idsOf(node, bearer(ownToken(node, 'observer', ['y-*']))), all.filter((id) => id.startsWith('y')));
	}
});

test('the feed of a node tells what becomes of the sessions of another', async (t) => {
	const [a, b] = await startNodes(t, 2, { agent: demoAgent() });
	const feed = await feedOf(t, b);
	const narrow = await feedOf(t, b, bearer(ownToken(b, 'observer', ['s'], { holdfast: { role: 'observer', sessions: ['s'], hide: ['tools'] } })));
	await a.createSession({ id: 's' });
	await a.createSession({ id: 'other' });
	await feed.waitFor(({ type, data }) => type === 'session_created' && data.session.id === 's');
	await feed.waitFor(({ type, data }) => type === 'session_created' && data.session.id === 'other');
	const observer = await Observer.connect(t, a, 's');
	await observer.loadAll();
	await observer.send('prompt', { message: '/permission', prompt_id: 'p' });
	await feed.waitFor(({ type, data }) => type === 'session_changed' && data.session.status === 'waiting');
	await narrow.waitFor(({ type, data }) => type === 'session_changed' && data.session.status === 'running');
	assert.ok(narrow.frames.slice(1).every(({ data }) => data.session.id === 's' && data.session.status !== 'waiting' && data.session.cwd === undefined));
	assert.equal((await b.request('DELETE', '/api/sessions/other')).status, 204);
	await feed.waitFor(({ type, data }) => type === 'session_deleted' && data.session_id === 'other');
	assert.ok(!narrow.frames.some(({ type }) => type === 'session_deleted'));
	const later = await feedOf(t, b);
	assert.deepEqual(later.frames[0].data.sessions.map(({ id, status }) => [id, status]), [['s', 'waiting']]);
});

test('the sessions of a node that has died stay listed, and go on elsewhere', async (t) => {
	const [a, b] = await startNodes(t, 2, { args: ['--limit', `node_lease_ms=${1000 * patience},node_silence_ms=${300 * patience}`] });
	await a.createSession({ id: 's', title: 'kept' });
	await untilListed(b, ['s']);
	const feed = await feedOf(t, b);
	await a.kill9();
	await eventually(async () => {
		assert.deepEqual((await listOf(b)).map(({ id, title }) => [id, title]), [['s', 'kept']]);
		return (await b.request('POST', '/api/sessions/s/events', { json: [input.note({ n: 1 })] })).status === 200;
	}, 'the other node to have it');
	await a.restart();
	await untilListed(a, ['s']);
	await eventually(async () => (await listOf(a))[0].max_seq >= 1, 'it to be told of as it is');
	assert.ok(!feed.frames.some(({ type }) => type === 'session_deleted'));
});
