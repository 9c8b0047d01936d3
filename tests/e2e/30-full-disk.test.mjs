// A disk that is really full: what cannot be stored is refused and never shown, reads go on, and once there is room
// everything goes on by itself.

import assert from 'node:assert/strict';
import { closeSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server, canMount, demoAgent } from '../support/server.mjs';
import { eventually, within } from '../support/wait.mjs';

// Where nobody may mount a file system in a namespace of his own there is no disk that can be filled.
const mounts = canMount();
if (!mounts) {
	console.log('unshare --mount is refused here: the full disk is not tested');
	test('no disk can be filled here', () => assert.equal(canMount(), false));
}

const textOf = (events) => events.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown).join('');

/** Leaves no free byte on the server's disk; gives what frees them again. */
function fill(server) {
	const path = join(server.seenDir, 'ballast');
	const fd = openSync(path, 'w');
	const zeros = Buffer.alloc(4096);
	try {
		while (writeSync(fd, zeros) === zeros.length);
	} catch (error) {
		assert.equal(error.code, 'ENOSPC');
	}
	closeSync(fd);
	assert.equal(statfsSync(server.seenDir).bavail, 0);
	return () => rmSync(path);
}

/** Appends until it is refused: pages that are begun have room left, and so has the journal. */
async function appendUntilRefused(producer, taken) {
	for (;;) {
		const ref = await producer.push(input.note({ text: 'x'.repeat(600) }));
		const frame = await producer.waitFor((f) => f.data.ref === ref);
		if (frame.type !== 'appended') {
			return frame.data;
		}
		taken.push(frame.data.acks[0].seq);
	}
}

/** Asks again and again until it is done. */
function requestUntilDone(server, method, path, options) {
	const attempt = async () => {
		for (;;) {
			const answer = await server.request(method, path, options);
			if (answer.status < 300) {
				return answer.body;
			}
			assert.equal(answer.body.error?.code, 'storage_failed', JSON.stringify(answer.body));
			await new Promise((resolve) => setTimeout(resolve, 50));
		}
	};
	return within(attempt(), 20_000, () => `${method} ${path} to be taken\n${server.stderr.slice(-2000)}`);
}

function appendUntilTaken(server, id, event) {
	return requestUntilDone(server, 'POST', `/api/sessions/${id}/events`, { json: event });
}

/** A data directory that a server has left: `feed` has put something in. */
async function leaveData(t, feed) {
	const server = await Server.start(t);
	await feed(server);
	await server.stop();
	return server.dataDir;
}

mounts && test('a full disk refuses appends, shows nothing of them, and heals by itself', async (t) => {
	const server = await Server.start(t, { diskSize: '4m', args: ['--limit', 'journal_ahead=16K'] });
	const { id } = await server.createSession();
	const { id: other } = await server.createSession();
	await post(server, other, [input.text('- open\n- list'), input.tool('held')]);
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown', deltas: 'text' } });
	await observer.loadAll();
	const taken = [];
	for (let round = 0; round < 3; round++) {
		const producer = await Producer.connect(t, server, id);
		await producer.append(input.note({ round }));
		taken.push(taken.length + 1);
		const empty = fill(server);
		const { code, message } = await appendUntilRefused(producer, taken);
		assert.equal(code, 'storage_failed');
		assert.notEqual(message, '');
		// More of the same is refused too; what is there can be read; another session is as it was.
		const again = await server.request('POST', `/api/sessions/${other}/events`, { json: input.text(' more') });
		assert.equal(again.status, 503, JSON.stringify(again.body));
		const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000`);
		assert.deepEqual(body.events.map((e) => e.seq), taken);
		assert.equal(observer.last, taken.length, 'nobody was shown what was refused');
		empty();
		const { acks } = await appendUntilTaken(server, id, input.note({ after: round }));
		taken.push(acks[0].seq);
		assert.equal(acks[0].seq, taken.length, 'the number that was taken back is given again');
	}
	await appendUntilTaken(server, other, input.text(' goes on\n'));
	await post(server, other, input.end());
	const events = await observer.waitForSeq(taken.length);
	assert.deepEqual(events.map((e) => e.seq), taken);
	const whole = (await server.request('GET', `/api/sessions/${other}/events?after_seq=0&format=markdown`)).body.events;
	// The tool did not wait for ever: a timer cut the list, once that could be stored.
	assert.deepEqual(whole.map((e) => e.type), ['agent_message', 'tool_call', 'agent_message', 'turn_end']);
	assert.equal(textOf(whole), '- open\n- list goes on\n');
	assert.match(server.stderr, /cannot be written: No space left on device/);
	assert.match(server.stderr, /can be written again/);
});

mounts && test('what an agent says while the disk is full is not lost', async (t) => {
	const server = await Server.start(t, { diskSize: '4m', agent: demoAgent() });
	const { id: quiet } = await server.createSession();
	const calm = await Observer.connect(t, server, quiet, { query: { format: 'markdown' } });
	await calm.loadAll();
	await calm.prompt('long rate=0');
	await calm.waitForEvent('turn_end');
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.prompt('long rate=2000');
	await observer.waitForEvent('agent_message');
	const empty = fill(server);
	await within((async () => {
		while (!/cannot be written/.test(server.stderr)) {
			await new Promise((resolve) => setTimeout(resolve, 20));
		}
	})(), 20_000, () => 'the disk to be full');
	empty();
	await observer.waitForEvent('turn_end');
	assert.equal(textOf(observer.events()), textOf(calm.events()));
	assert.deepEqual(observer.events().map((e) => e.seq), observer.events().map((e, i) => i + 1));
	const log = () => readLog({ dataDir: server.seenDir }, id);
	await eventually(() => log().length === observer.events().length, 'the file to have what the journal had on the full disk');
	assert.deepEqual(observer.events(), log());
});

mounts && test('a refused DELETE of a session that nobody has written to since the start stops nothing', async (t) => {
	const diskFrom = await leaveData(t, async (before) => {
		for (const id of ['gone', 'stays']) {
			await before.createSession({ id });
			await post(before, id, [input.text('Hello.'), input.end()]);
		}
	});
	const server = await Server.start(t, { diskSize: '4m', diskFrom, args: ['--limit', 'journal_ahead=16K'] });
	const empty = fill(server);
	const refused = await server.request('DELETE', '/api/sessions/gone');
	assert.equal(refused.status, 503, JSON.stringify(refused.body));
	assert.equal((await server.request('GET', '/api/sessions/gone/events')).status, 200);
	empty();
	await appendUntilTaken(server, 'stays', input.note({ after: 1 }));
	await requestUntilDone(server, 'DELETE', '/api/sessions/gone');
	assert.equal((await server.request('GET', '/api/sessions/gone')).status, 404);
});

mounts && test('a server starts on a full disk, serves what is there, and heals by itself', async (t) => {
	const diskFrom = await leaveData(t, async (before) => {
		await before.createSession({ id: 'open' });
		await post(before, 'open', [input.text('Before.\n\n- open\n- list'), input.tool('held')]);
		await before.createSession({ id: 'idle' });
		await post(before, 'idle', [input.text('Hello.'), input.end()]);
	});
	const server = await Server.start(t, { diskSize: '4m', diskFrom, diskIsFull: true, args: ['--limit', 'journal_ahead=16K'] });
	assert.equal(statfsSync(server.seenDir).bavail, 0);
	for (const id of ['open', 'idle']) {
		const read = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&format=markdown`);
		assert.equal(read.status, 200, JSON.stringify(read.body));
		assert.ok(read.body.events.length > 0);
		const refused = await server.request('POST', `/api/sessions/${id}/events`, { json: input.note({ a: 1 }) });
		assert.equal(refused.status, 503, JSON.stringify(refused.body));
	}
	assert.match(server.stderr, /cannot be written: No space left on device/);
	rmSync(join(server.seenDir, 'ballast'));
	await appendUntilTaken(server, 'open', input.text(' goes on\n'));
	await post(server, 'open', input.end());
	const { body } = await server.request('GET', '/api/sessions/open/events?after_seq=0&format=markdown');
	assert.deepEqual(body.events.map((e) => e.seq), body.events.map((e, i) => i + 1));
	assert.ok(textOf(body.events).startsWith('Before.\n\n- open\n- list'), textOf(body.events));
	assert.match(server.stderr, /can be written again/);
});
