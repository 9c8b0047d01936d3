// The feed of sessions: GET /api/events.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { check } from '../support/schema.mjs';
import { Server } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';

const CHANGED_EVERY_MS = 250;

/** Connects; resolves with the socket when `sessions`, which must be the first frame, is here. */
async function connect(t, server, options) {
	const feed = new TestSocket(t, server.ws('/api/events'), check.feed, options);
	await feed.waitUntil(() => feed.frames.length > 0, 'the first frame');
	assert.equal(feed.frames[0].type, 'sessions');
	assert.equal(feed.frames[0].data.more, false);
	return feed;
}

const ids = (feed) => feed.frames[0].data.sessions.map((s) => s.id).sort();

test('the feed starts with all sessions and tells of each that is made or deleted', async (t) => {
	const server = await Server.start(t);
	const first = await server.createSession({ id: 'first' });
	const feeds = [await connect(t, server), await connect(t, server)];
	assert.deepEqual(feeds.map((f) => f.frames[0].data.sessions), [[first], [first]]);

	const second = await server.createSession({ id: 'second', title: 'The second' });
	await server.request('DELETE', '/api/sessions/first');
	for (const feed of feeds) {
		await feed.waitFor('session_deleted');
		assert.deepEqual(feed.frames.slice(1), [
			{ type: 'session_created', data: { session: second } },
			{ type: 'session_deleted', data: { session_id: 'first' } },
		]);
	}
	assert.deepEqual(ids(await connect(t, server)), ['second'], 'a late one starts from what is');
});

test('a change is told, the last one always', async (t) => {
	const server = await Server.start(t);
	const { id, updated_at: created } = await server.createSession();
	const feed = await connect(t, server);
	const started = Date.now();
	for (let n = 0; n < 100; n++) {
		await post(server, id, input.note({ n }));
	}
	const last = await feed.waitFor((f) => f.type === 'session_changed' && f.data.session.max_seq === 100);
	const elapsed = Date.now() - started;
	assert.equal(last.data.session.id, id);
	assert.ok(last.data.session.updated_at >= created);
	const changes = feed.frames.filter((f) => f.type === 'session_changed');
	const seqs = changes.map((f) => f.data.session.max_seq);
	assert.deepEqual(seqs, [...seqs].sort((a, b) => a - b));
	// However slow this machine is, there may be no more than the time has room for.
	assert.ok(changes.length <= elapsed / CHANGED_EVERY_MS + 2, `${changes.length} in ${elapsed} ms`);
});

test('a deleted session is not told of as changed afterwards', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const feed = await connect(t, server);
	await post(server, id, input.note({}));
	await post(server, id, input.note({}));
	await server.request('DELETE', `/api/sessions/${id}`);
	await feed.waitFor('session_deleted');
	const { id: next } = await server.createSession();
	await post(server, next, input.note({}));
	// The change of the next session comes after any that were still due for the first.
	await feed.waitFor((f) => f.type === 'session_changed' && f.data.session.id === next);
	const from = feed.frames.findIndex((f) => f.type === 'session_deleted');
	assert.ok(feed.frames.slice(from + 1).every((f) => f.data.session?.id !== id));
});

test('the feed answers keepalives and refuses what it does not know', async (t) => {
	const server = await Server.start(t);
	const feed = await connect(t, server);
	await feed.send('keepalive', { client_time: 17.5 });
	assert.equal((await feed.waitFor('keepalive_ack')).data.client_time, 17.5);
	for (const [code, payload] of [
		['unknown_type', '{"type": "load_events", "data": {}}'],
		['bad_json', '{"type": '],
		['bad_request', '{"type": "keepalive"}'],
		['bad_request', '{"type": "keepalive", "data": {"client_time": "now"}}'],
	]) {
		const from = feed.frames.length;
		await feed.sendRaw(payload);
		assert.equal((await feed.waitFor('error', { from })).data.code, code, payload);
	}
});

test('the feed of a restarted server tells the same sessions', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'a' });
	await server.createSession({ id: 'b' });
	await post(server, 'a', input.note({}));
	const before = await connect(t, server);
	const listed = (feed) => feed.frames[0].data.sessions.sort((a, b) => (a.id < b.id ? -1 : 1)); // in any order
	const sessions = listed(before);
	await server.stop();
	assert.equal((await before.waitClosed()).code, 1001);
	await server.restart();
	assert.deepEqual(listed(await connect(t, server)), sessions);
});

test('pages of the list come in turns, as all pages, and then the list is whole', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'pages_ms=1', '--limit', 'list_max=1'] });
	const made = [];
	for (let n = 0; n < 200; n += 1) {
		made.push((await server.createSession({ id: `s${n}` })).id);
	}
	const feeds = Array.from({ length: 16 }, () => new TestSocket(t, server.ws('/api/events'), check.feed));
	for (const feed of feeds) {
		await feed.waitUntil(() => feed.frames.some(({ data }) => data.more === false), 'the end of the list');
		assert.deepEqual(feed.frames.flatMap(({ data }) => data.sessions.map(({ id }) => id)), [...made].sort());
	}
	assert.ok((await readMetrics(server))('limit_reached_total{limit="pages_ms"}') > 0);
});
