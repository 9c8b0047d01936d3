// The list of sessions comes in pages, over HTTP and on the feed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HoldfastFeed, listSessions } from '../../web/client/holdfast-client.js';
import WebSocket from 'ws';
import { input, post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';

const PER_PAGE = 4;
const options = { args: ['--limit', `list_max=${PER_PAGE}`] };
const isList = check.rest('sessions');

/** A server with `count` sessions: {server, ids}. */
async function startServer(t, count, more = {}) {
	const server = await Server.start(t, { ...options, ...more });
	const ids = [];
	for (let n = 0; n < count; n++) {
		ids.push((await server.createSession({ id: `s${n}` })).id);
	}
	return { server, ids };
}

async function getPage(server, query = {}) {
	const { status, body } = await server.request('GET', `/api/sessions?${new URLSearchParams(query)}`);
	assert.equal(status, 200, JSON.stringify(body));
	assertValid(isList(body));
	return body;
}

/** Every page; `between` is called after each but the last one. */
async function getPages(server, limit, between = () => {}) {
	const pages = [await getPage(server, limit ? { limit } : {})];
	while (pages.at(-1).next !== null) {
		await between(pages.length);
		pages.push(await getPage(server, { cursor: pages.at(-1).next, ...(limit ? { limit } : {}) }));
	}
	return pages.map((page) => page.sessions);
}

const idsOf = (sessions) => sessions.map(({ id }) => id);

/** Whether the newest change comes first. */
function assertNewestFirst(sessions) {
	for (const [i, { updated_at }] of sessions.entries()) {
		assert.ok(i === 0 || updated_at <= sessions[i - 1].updated_at);
	}
}

test('all sessions are on the pages, each once while nothing changes, the newest change first', async (t) => {
	const { server, ids } = await startServer(t, 11);
	await post(server, 's3', input.note({}));
	for (const limit of [undefined, 1, 2, 3, PER_PAGE]) {
		const pages = await getPages(server, limit);
		const all = pages.flat();
		assert.equal(all[0].id, 's3');
		assert.deepEqual(pages.slice(0, -1).map((p) => p.length), pages.slice(0, -1).map(() => limit ?? PER_PAGE));
		assert.deepEqual([...new Set(idsOf(all))].sort(), [...ids].sort());
		const newest = all.findIndex(({ id }, i) => idsOf(all).indexOf(id) < i); // the same millisecond
		assertNewestFirst(newest < 0 ? all : all.slice(0, newest));
	}
});

test('a session that moves to the front between two pages is not missed', async (t) => {
	const { server, ids } = await startServer(t, 10);
	const [last] = (await getPages(server, 3)).at(-1).slice(-1);
	const pages = await getPages(server, 3, async (n) => {
		if (n <= 2) {
			await post(server, last.id, input.note({ n }));
		}
	});
	const all = pages.flat();
	assert.deepEqual([...new Set(idsOf(all))].sort(), [...ids].sort());
	assert.equal(all.findLast(({ id }) => id === last.id).max_seq, 2, 'the last page that has it has it as it is');
});

test('sessions that are made or deleted between two pages', async (t) => {
	const { server, ids } = await startServer(t, 10);
	let deleted;
	const pages = await getPages(server, 3, async (n) => {
		if (n === 1) {
			deleted = ids[0]; // the oldest, so on none of the pages yet
			await server.request('DELETE', `/api/sessions/${deleted}`);
			await server.createSession({ id: 'new' });
		}
	});
	const got = new Set(idsOf(pages.flat()));
	assert.ok(!got.has(deleted));
	assert.deepEqual([...got].sort(), [...ids.filter((id) => id !== deleted), 'new'].sort());
});

test('the one that the cursor is behind may go', async (t) => {
	const { server, ids } = await startServer(t, 6);
	const pages = await getPages(server, 2, async () => {
		const gone = ids.pop(); // the newest, on the page that was got last, then the next
		await server.request('DELETE', `/api/sessions/${gone}`);
		await server.request('DELETE', `/api/sessions/${ids.pop()}`);
	});
	assert.deepEqual(idsOf(pages.flat()), ['s5', 's4', 's3', 's2', 's1', 's0']);
});

test('a query that makes no sense is refused', async (t) => {
	const { server } = await startServer(t, PER_PAGE + 1);
	const { next } = await getPage(server);
	for (const query of ['limit=0', `limit=${PER_PAGE + 1}`, 'limit=-1', 'limit=1e1', 'limit=', 'limit=x', 'limit=99999999999999999999',
		'cursor=', 'cursor=x', `cursor=${next}x`, `cursor=x${next}`, `cursor=${next.slice(1).replaceAll('~', '')}`,
		`cursor=${'9'.repeat(100)}`, `cursor=1~${'a'.repeat(200)}~1~b~0`, 'cursor=1~a~1~b~2', 'cursor=~a~1~b~0', 'after=1']) {
		const { status, body } = await server.request('GET', `/api/sessions?${query}`);
		assert.equal(status, 400, query);
		assert.equal(body.error.code, 'bad_request');
	}
});

test('a page is cut by its size, too', async (t) => {
	const { server } = await startServer(t, 0, { args: ['--limit', 'page_size=4K'] });
	const title = 'x'.repeat(1000);
	for (let n = 0; n < 12; n++) {
		await server.createSession({ id: `s${n}`, title });
	}
	const pages = await getPages(server);
	assert.ok(pages.length >= 3);
	assert.equal(new Set(idsOf(pages.flat())).size, 12);
	const feed = new TestSocket(t, server.ws('/api/events'), check.feed);
	await feed.waitFor((f) => f.type === 'sessions' && !f.data.more);
	assert.ok(feed.frames.length >= 3);
	assert.equal(feed.frames.flatMap((f) => f.data.sessions).length, 12);
});

test('the feed begins with pages, each session on one of them', async (t) => {
	const { server, ids } = await startServer(t, 2 * PER_PAGE + 1);
	const feed = new TestSocket(t, server.ws('/api/events'), check.feed);
	await feed.waitFor((f) => f.type === 'sessions' && !f.data.more);
	assert.deepEqual(feed.frames.map((f) => [f.data.sessions.length, f.data.more]), [[PER_PAGE, true], [PER_PAGE, true], [1, false]]);
	assert.deepEqual(feed.frames.flatMap((f) => idsOf(f.data.sessions)).sort(), [...ids].sort());
	await post(server, 's1', input.note({}));
	await feed.waitFor((f) => f.type === 'session_changed' && f.data.session.id === 's1');
});

test('the feed of what changes while its pages are on their way ends at the truth', async (t) => {
	const { server } = await startServer(t, 100);
	const feeds = Array.from({ length: 5 }, () => new TestSocket(t, server.ws('/api/events'), check.feed));
	await Promise.all(Array.from({ length: 10 }, async (_, n) => {
		await server.request('DELETE', `/api/sessions/s${n}`);
		await server.createSession({ id: `a${n}` });
		await post(server, `s${10 + n}`, input.note({}));
	}));
	await post(server, 'a0', input.note({}));
	const truth = (await getPages(server)).flat();
	const expected = new Map(truth.map((s) => [s.id, s]));
	for (const feed of feeds) {
		await feed.waitFor((f) => f.data.session?.id === 'a0' && f.data.session.max_seq === 1);
		const known = new Map();
		let pages = [];
		for (const { type, data } of feed.frames) {
			if (type === 'sessions') {
				pages = [...pages, ...data.sessions];
				data.sessions.forEach((s) => known.set(s.id, s));
			} else if (type === 'session_deleted') {
				known.delete(data.session_id);
			} else {
				known.set(data.session.id, data.session);
			}
		}
		assert.deepEqual([...known.keys()].sort(), [...expected.keys()].sort());
		assert.deepEqual(known.get('a0'), expected.get('a0'));
	}
});

test('the client library gets all pages', async (t) => {
	const { server, ids } = await startServer(t, 3 * PER_PAGE);
	const listed = await listSessions({ base: server.url, getToken: () => server.token });
	assert.deepEqual(idsOf(listed).sort(), [...ids].sort());
	assertNewestFirst(listed);
	const feed = new HoldfastFeed({ base: server.url, WebSocket, getToken: () => server.token });
	t.after(() => feed.close());
	const lists = [];
	await new Promise((resolve) => {
		feed.on('sessions', ({ sessions }) => {
			lists.push(sessions);
			resolve();
		});
		feed.connect();
	});
	assert.deepEqual(lists.map((list) => idsOf(list).sort()), [[...ids].sort()], 'told when it is whole');
});
