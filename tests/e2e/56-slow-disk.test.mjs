// A disk that takes its time with one session: those who watch and feed the others do not notice, and what waits is
// done in its order when the disk answers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FaultyDisk, hasFaultyDisk } from '../support/faulty_disk.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server, scratchDir } from '../support/server.mjs';

const can = hasFaultyDisk();
if (!can) {
	console.log('the tests in C are not built here: no disk is slow');
	test('no disk can be slow here', () => assert.equal(hasFaultyDisk(), false));
}

const keyed = (n) => ({ ...input.note({ n }), key: `k-${n}` });

/** A server that has come back, with the sessions `slow` and `fine`, whose names are on disk alone. */
async function start(t) {
	const disk = new FaultyDisk(scratchDir(t));
	const server = await Server.start(t, { env: disk.env });
	for (const id of ['slow', 'fine']) {
		await server.createSession({ id });
		await post(server, id, [keyed(1), { ...input.text('Hello.'), message_id: 'm-1' }, input.end()]);
	}
	await server.stop();
	await server.up(); // of those whose inputs the journal has, the names are read with the start
	await server.stop();
	disk.slowOpen('slow/keys.jsonl');
	await server.up();
	return { disk, server };
}

/** Whether the session `fine` is served, from an append to those who watch it. */
async function isFine(server, observer, n) {
	const { acks } = await post(server, 'fine', [keyed(n)]);
	assert.equal(acks[0].duplicate, false);
	await observer.waitFor((f) => f.type === 'events' && f.data.events.some((e) => e.seq === acks[0].seq));
}

can && test('appends wait for the names of their session, and nobody else does', async (t) => {
	const { disk, server } = await start(t);
	const fine = await Observer.connect(t, server, 'fine', { query: { format: 'markdown' } });
	await fine.loadAll();
	const slow = await Observer.connect(t, server, 'slow', { query: { format: 'markdown' } });
	await slow.loadAll();
	assert.equal(slow.events().length, 3);
	const producer = await Producer.connect(t, server, 'slow');
	const first = await producer.push(keyed(1), keyed(2));
	const second = await producer.push(keyed(2), keyed(3));
	await disk.isSlow();
	const posted = post(server, 'slow', [keyed(1)]);
	const lines = server.request('POST', '/api/sessions/slow/events', {
		body: `${JSON.stringify(keyed(1))}\n`,
		headers: { 'content-type': 'application/x-ndjson' },
	});
	await isFine(server, fine, 2);
	const { body } = await server.request('GET', '/api/sessions/slow/events?after_seq=0');
	assert.equal(body.events.length, 3);
	await isFine(server, fine, 3);
	assert.equal(producer.frames.filter((f) => f.type === 'appended').length, 0);
	disk.slowOpen('');
	assert.deepEqual((await producer.acked(first)).acks, [{ seq: 1, duplicate: true }, { seq: 4, duplicate: false }]);
	assert.deepEqual((await producer.acked(second)).acks, [{ seq: 4, duplicate: true }, { seq: 5, duplicate: false }]);
	assert.deepEqual((await posted).acks, [{ seq: 1, duplicate: true }]);
	assert.deepEqual((await lines).body.acks, [{ seq: 1, duplicate: true }]);
	const { known } = await producer.handOver([{ role: 'assistant', message_id: 'm-1', content: 'Hello.' }]);
	assert.equal(known, 1);
});

can && test('a session that is deleted while an append waits for its names takes nothing', async (t) => {
	const { disk, server } = await start(t);
	const producer = await Producer.connect(t, server, 'slow');
	await producer.push(keyed(2));
	await disk.isSlow();
	const posted = server.request('POST', '/api/sessions/slow/events', { json: [keyed(2)] });
	assert.equal((await server.request('DELETE', '/api/sessions/slow')).status, 204);
	assert.equal((await posted).status, 404);
	await producer.waitUntil(() => producer.closed, 'the socket to be closed');
	assert.equal(producer.closed.code, 4404);
	disk.slowOpen('');
});
