// A disk on which every call takes 200 ms: the thread that serves all clients makes none of those calls. The list of the
// calls, with the thread of each, is what is asserted; no test here measures time.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FaultyDisk, hasFaultyDisk } from '../support/faulty_disk.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const can = hasFaultyDisk();
if (!can) {
	console.log('the tests in C are not built here: no disk is slow');
	test('no disk can be slow here', () => assert.equal(hasFaultyDisk(), false));
}

const notes = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => ({ ...input.note({ n: from + i }), key: `k-${from + i}` }));

async function start(t, args) {
	const disk = new FaultyDisk(scratchDir(t));
	const server = await Server.start(t, { env: disk.env, agent: demoAgent('--rate 0'), args });
	return { disk, server, sessions: join(server.dataDir, 'sessions') };
}

const watch = async (t, server, id) => {
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	return observer;
};

/** What was done by whom, since the disk is slow; ends that. */
function expectNoneOnTheLoop(disk, server, wanted) {
	disk.slowDown('');
	const { calls } = disk;
	const onLoop = calls.filter((c) => c.thread === server.pid);
	assert.deepEqual(onLoop, [], 'calls about files by the thread of the loop');
	for (const [call, path] of wanted) {
		assert.ok(calls.some((c) => c.call === call && c.path.includes(path)), `no ${call} of ${path} was seen`);
	}
}

can && test('sessions are made, fed, prompted, evicted, woken, pruned and deleted', async (t) => {
	const { disk, server, sessions } = await start(t, ['--keep-events', '20',
		'--limit', 'evict_ms=1000,prune_ms=3000,prune_size=1,hot_tail_size=1024']);
	const observers = [];
	for (const id of ['old', 'gone', 'pruned', 'watched']) {
		await server.createSession({ id });
		observers.push(await watch(t, server, id)); // from now on it does not rest, however slow the machine is
		await post(server, id, [...notes(1, 15), input.text('Hello.'), input.end()]);
	}
	const watched = observers.pop();
	disk.slowDown(server.dataDir);
	observers.forEach((observer) => observer.close()); // until now they have kept their sessions in memory

	await server.createSession({ id: 'made' });
	const made = await watch(t, server, 'made');
	await post(server, 'made', [...notes(1, 3), input.text('Hello.'), input.end()]);
	await made.waitForEvent('turn_end');
	assert.ok(existsSync(join(sessions, 'made/events.jsonl')));
	const { seq } = await made.prompt('list');
	await made.waitForEvent('turn_end', { after: seq, ms: 60_000 });

	// `old` and `gone` have left memory by now, or do so soon: they come back with their names, and from the file.
	await eventually(() => disk.calls.some((c) => c.call === 'close' && c.path.includes('old/events.jsonl')), 'a session to rest');
	const old = await watch(t, server, 'old');
	assert.equal(old.events()[0].seq, 1);
	const { acks } = await post(server, 'old', notes(15, 16));
	assert.deepEqual(acks.map((a) => a.duplicate), [true, false]);
	await watched.load({ after_seq: 0 });

	assert.equal((await server.request('DELETE', '/api/sessions/gone')).status, 204);
	await eventually(() => !existsSync(join(sessions, 'gone')), 'the folder to be gone');
	await server.createSession({ id: 'gone' });

	await post(server, 'pruned', [...notes(16, 40), input.text('Hello.'), input.end()]);
	await eventually(async () => (await server.request('GET', '/api/sessions/pruned')).body.first_seq > 1, 'events to be pruned', 60_000);
	await eventually(() => disk.calls.some((c) => c.call === 'rename' && c.path.includes('pruned/events.jsonl.new')), 'the log to be replaced', 60_000);
	await post(server, 'pruned', notes(41, 42));

	expectNoneOnTheLoop(disk, server, [
		['mkdir', '/made'], ['write', '/made/events.jsonl'], ['write', '/made/keys.jsonl'], ['write', '/made/events.index'],
		['fdatasync', '/made/events.jsonl'], ['rename', '/made/metadata.json.new'], ['write', '/journal/'], ['fdatasync', '/journal/'],
		['pread', '/old/events.jsonl'], ['read', '/old/keys.jsonl'], ['rename', '/sessions/gone'], ['unlink', '/trash/gone'],
		['write', '/pruned/events.jsonl'],
	]);
	await server.stop();
});

can && test('who needs nothing of the disk waits for nothing', async (t) => {
	const { disk, server } = await start(t, []);
	for (const id of ['fed', 'watched']) {
		await server.createSession({ id });
		await post(server, id, [...notes(1, 15), input.text('Hello.'), input.end()]);
	}
	const watched = await watch(t, server, 'watched');
	disk.slowDown(server.dataDir);
	disk.hold();
	const done = [];
	const appended = post(server, 'fed', notes(16, 17)).then(() => done.push('append'));
	const created = server.createSession({ id: 'made' }).then(() => done.push('create'));
	await disk.isHolding();
	const page = await watched.load({ after_seq: 3 });
	assert.equal(page.events.length, 14);
	const late = await watch(t, server, 'watched');
	assert.equal(late.events().length, 17);
	assert.equal((await server.request('GET', '/api/sessions/fed')).body.max_seq, 17);
	assert.equal((await server.request('GET', '/api/sessions')).status, 200);
	assert.deepEqual(done, []);
	disk.pass();
	await Promise.all([appended, created]);
	expectNoneOnTheLoop(disk, server, [['mkdir', '/made'], ['write', '/fed/events.jsonl']]);
	await server.stop();
});

can && test('a write fails, and the sessions are what the disk has of them', async (t) => {
	const { disk, server } = await start(t, ['--limit', 'journal_retry_ms=300']);
	for (const id of ['fed', 'open']) {
		await server.createSession({ id });
		await post(server, id, notes(1, 3));
	}
	await post(server, 'open', [input.text('An open paragraph')]);
	const fed = await watch(t, server, 'fed');
	disk.slowDown(server.dataDir);
	disk.fail();
	const answers = await Promise.all(['fed', 'open'].map((id) =>
		server.request('POST', `/api/sessions/${id}/events`, { json: notes(4, 4) })));
	answers.forEach(({ status, body }) => assert.equal(status, 503, JSON.stringify(body)));
	assert.equal((await server.request('GET', '/api/sessions/fed')).body.max_seq, 3);
	disk.pass();
	await eventually(async () => (await server.request('POST', '/api/sessions/fed/events', { json: notes(4, 4) })).status === 200, 'an append to be taken', 60_000);
	await fed.waitForSeq(4);
	const { acks } = await post(server, 'open', notes(4, 4));
	assert.equal(acks[0].duplicate, false);
	expectNoneOnTheLoop(disk, server, [['read', '/journal/']]);
	await server.stop();
});

can && test('sessions that could not be read come back, each once', async (t) => {
	const { disk, server } = await start(t, ['--limit', 'journal_retry_ms=100,idle_flush_ms=600000']);
	const ids = ['lost', 'lost-too', 'lost-as-well'];
	for (const id of ids) {
		await server.createSession({ id });
		await post(server, id, [...notes(1, 3), input.text('An open paragraph')]);
	}
	await server.kill9();
	disk.hide('lost');
	await server.up();
	disk.slowDown(server.dataDir);
	assert.equal((await server.request('GET', '/api/sessions/lost')).status, 503);
	disk.hide('');
	for (const id of ids) {
		await eventually(async () => (await server.request('GET', `/api/sessions/${id}`)).status === 200, `${id} to come back`, 60_000);
		const { acks } = await post(server, id, [input.text(' goes on.'), input.end()]);
		assert.equal(acks[0].seq, 4);
	}
	const { body } = await server.request('GET', '/api/sessions');
	assert.deepEqual(body.sessions.map((s) => s.id).sort(), [...ids].sort());
	expectNoneOnTheLoop(disk, server, [['read', '/lost/metadata.json'], ['read', '/journal/'], ['write', '/lost/events.jsonl']]);
	await server.stop();
});
