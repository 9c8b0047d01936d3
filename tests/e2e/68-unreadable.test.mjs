// What the disk does not give back at once: sessions that cannot be read when the server starts, and appends of which
// nobody knows whether they are on disk.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import WebSocket from 'ws';
import { HoldfastClient } from '../../web/client/holdfast-client.js';
import { FaultyDisk, hasFaultyDisk } from '../support/faulty_disk.mjs';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { check, assertValid } from '../support/schema.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const can = hasFaultyDisk();
if (!can) {
	console.log('the tests in C are not built here: no disk fails');
	test('no disk can fail here', () => assert.equal(hasFaultyDisk(), false));
}

async function start(t, args = []) {
	const disk = new FaultyDisk(scratchDir(t));
	const server = await Server.start(t, { env: disk.env, args: ['--limit', 'journal_retry_ms=20', ...args] });
	return { disk, server };
}

const path = (id, rest = '') => `/api/sessions/${id}${rest}`;

/** Asserts that a request is refused with storage_failed; gives the error. */
async function refused(server, method, url, options) {
	const { status, body } = await server.request(method, url, options);
	assert.equal(status, 503, JSON.stringify(body));
	assertValid(check.rest('error')(body));
	assert.equal(body.error.code, 'storage_failed');
	return body.error;
}

/** The socket is told that it cannot be read now, and to come back. */
async function isSentAway(socket) {
	await socket.waitUntil(() => socket.closed, 'the socket to be closed');
	assert.deepEqual(socket.frames.map((f) => [f.type, f.data.code]), [['error', 'storage_failed']]);
	assert.equal(socket.closed.code, 1011);
}

can && test('a session that cannot be read at the start is not gone, and comes back by itself', async (t) => {
	// So that old segments of the journal go, unless something needs them.
	const { disk, server } = await start(t, ['--limit', 'segment_size=64K', '--limit', 'hold_ms=60s']);
	const { epoch } = await server.createSession({ id: 'lost' });
	await post(server, 'lost', [input.text('Before.\n\n- open\n- list'), input.tool('held')]);
	await server.createSession({ id: 'fine' });
	await server.kill9();
	disk.hide('lost/');
	await server.up();
	const statuses = [];
	const client = new HoldfastClient({ base: server.url, sessionId: 'lost', format: 'markdown', WebSocket, getToken: () => server.token });
	t.after(() => client.close());
	client.on('status', ({ status }) => statuses.push(status));
	client.connect();
	await refused(server, 'GET', path('lost'));
	await refused(server, 'GET', path('lost', '/events'));
	await refused(server, 'DELETE', path('lost'));
	await refused(server, 'POST', path('lost', '/events?create=1'), { json: input.note({}) });
	assert.equal((await server.request('POST', '/api/sessions', { json: { id: 'lost' } })).body.error.code, 'session_exists');
	await isSentAway(await Observer.connect(t, server, 'lost'));
	await isSentAway(await Producer.connect(t, server, 'lost', { query: { create: '1' } }));
	for (let i = 0; i < 6; i++) {
		await post(server, 'fine', [input.note({ text: 'x'.repeat(40000) }), input.end()]);
	}
	disk.hide('');
	await eventually(async () => (await server.request('GET', path('lost'))).status === 200, 'the session to come back');
	const observer = await Observer.connect(t, server, 'lost', { query: { format: 'markdown', deltas: 'text' } });
	await observer.loadAll();
	assert.equal(observer.hello.epoch, epoch);
	assert.deepEqual(observer.events().map((e) => e.type), ['agent_message']);
	await post(server, 'lost', [input.text(' goes on\n')]);
	for (let i = 0; i < 6; i++) {
		await post(server, 'fine', [input.note({ text: 'x'.repeat(40000) }), input.end()]);
	}
	await server.kill9();
	await server.up();
	await post(server, 'lost', [input.end()]);
	const { body } = await server.request('GET', path('lost', '/events?after_seq=0&format=markdown'));
	assert.deepEqual(body.events.map((e) => e.type), ['agent_message', 'agent_message', 'tool_call', 'turn_end']);
	assert.equal(body.events[1].data.markdown, '- open\n- list goes on\n');
	assert.deepEqual(body.events, readLog(server, 'lost'));
	assert.ok(!statuses.includes('gone'), statuses.join(' '));
});

can && test('a refused append that may come back is told as one, and its key makes a retry safe', async (t) => {
	const { disk, server } = await start(t);
	const { id } = await server.createSession();
	const producer = await Producer.connect(t, server, id);
	await producer.append(input.note({ n: 1 }));
	disk.stick();
	const event = { ...input.note({ n: 2 }), key: 'k-2' };
	const { code, outcome } = await producer.refused('append', { events: [event] });
	assert.deepEqual({ code, outcome }, { code: 'storage_failed', outcome: 'unknown' });
	// Of what is not even tried it is known.
	assert.equal((await refused(server, 'POST', path(id, '/events'), { json: input.note({ n: 3 }) })).outcome, undefined);
	await server.kill9();
	disk.pass();
	await server.up();
	const { body } = await server.request('GET', path(id, '/events?after_seq=0'));
	// It depends on whether the journal has got around to cancelling it.
	const came = body.events.length === 2;
	assert.deepEqual(body.events.map((e) => e.data.n), came ? [1, 2] : [1]);
	const { acks } = await post(server, id, [event]);
	assert.deepEqual(acks, [{ seq: 2, duplicate: came }]);
	// And over HTTP, where nothing dies: it is cancelled, and then taken.
	disk.stick();
	const other = { ...input.note({ n: 3 }), key: 'k-3' };
	assert.equal((await refused(server, 'POST', path(id, '/events'), { json: other })).outcome, 'unknown');
	disk.pass();
	await eventually(async () => (await server.request('POST', path(id, '/events'), { json: other })).status === 200, 'the retry to be taken');
	assert.deepEqual((await post(server, id, [other])).acks, [{ seq: 3, duplicate: true }]);
	// A deletion, too.
	disk.stick();
	assert.equal((await refused(server, 'DELETE', path(id))).outcome, 'unknown');
	disk.pass();
});

can && test('what is pruned while a read waits for the index is told as pruned', async (t) => {
	const dataDir = join(scratchDir(t), 'data');
	const first = await Server.start(t, { dataDir });
	const { id } = await first.createSession();
	await post(first, id, Array.from({ length: 100 }, (_, n) => input.note({ n: n + 1, text: 'x'.repeat(100) })));
	await first.stop();
	const disk = new FaultyDisk(scratchDir(t));
	disk.slow('events.jsonl.new');
	const args = ['--keep-events', '5', '--limit', 'prune_ms=10', '--limit', 'prune_size=1', '--limit', 'hot_tail_size=1K'];
	const server = await Server.start(t, { dataDir, env: disk.env, args });
	await disk.isSlow();
	// The index that is there does not fit, and cannot be made again while the log is being replaced.
	const at = join(dataDir, 'sessions', id, 'events.index');
	writeFileSync(at, Buffer.alloc(readFileSync(at).length));
	const ask = (query) => server.request('GET', path(id, `/events?${query}`));
	const waiting = [ask('after_seq=0&limit=10'), ask('before_seq=11&limit=10'), ask('before_seq=100&limit=50'), ask('limit=50')];
	for (let i = 0; i < 5; i++) {
		await server.request('GET', '/healthz');
	}
	assert.equal((await server.request('GET', path(id))).body.first_seq, 1);
	disk.slow('');
	const told = (await Promise.all(waiting)).map(({ status, body }) => [status, body.reset?.reason, body.has_more, body.events?.map((e) => e.seq)]);
	assert.deepEqual(told, [
		[200, 'pruned', false, [96, 97, 98, 99, 100]],
		[200, undefined, false, []],
		[200, undefined, false, [96, 97, 98, 99]],
		[200, undefined, false, [96, 97, 98, 99, 100]],
	]);
});
