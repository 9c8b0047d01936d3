// While the disk has not said yes, nothing is certain: whoever asks waits for his answer, and what is told stays so.
// The sync of the journal is held; then it goes through, or fails.

import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FaultyDisk, hasFaultyDisk } from '../support/faulty_disk.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input } from '../support/producer.mjs';
import { check } from '../support/schema.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { eventually, within } from '../support/wait.mjs';

const can = hasFaultyDisk();
if (!can) {
	console.log('the tests in C are not built here: no disk fails');
	test('no disk can fail here', () => assert.equal(hasFaultyDisk(), false));
}

const RETRY = ['--limit', 'journal_retry_ms=20'];

async function start(t, { agent = null } = {}) {
	const dir = scratchDir(t);
	const disk = new FaultyDisk(dir);
	const server = await Server.start(t, { agent, env: disk.env, args: RETRY });
	const { id } = await server.createSession();
	return { t, server, disk, id };
}

const watch = async ({ t, server, id }, name) => {
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown', ...name && { client_id: name } } });
	await observer.loadAll();
	return observer;
};

/** Requests that have come in before this are in a batch when it is over. */
async function goRound(server) {
	await server.request('GET', '/healthz');
	await server.request('GET', '/healthz');
}

/** Until the store takes something again. */
async function mend({ server, disk, id }) {
	disk.pass();
	await eventually(async () => (await server.request('POST', `/api/sessions/${id}/events`, { json: input.note({ is: 'mended' }) })).status === 200,
		'the store to take events');
}

/** Puts something on its way to the disk, and has it held there. */
async function hold({ server, disk, id }) {
	disk.hold();
	const answer = server.request('POST', `/api/sessions/${id}/events`, { json: input.note({ is: 'held' }) });
	answer.catch(() => {});
	await disk.isHolding();
	return answer;
}

const ask = (id) => ({ type: 'permission_request', data: {
	request_id: id, tool_call: { tool_call_id: `${id}-call`, title: 'Run it' }, options: [{ option_id: 'once', name: 'Allow' }, { option_id: 'no', name: 'No' }],
} });
/** The socket is closed behind the refusal; gives another one. */
async function reconnect(t, producer, ...where) {
	await producer.waitClosed();
	assert.deepEqual(producer.closed, { code: 1013, reason: 'storage_failed' });
	return Producer.connect(t, ...where);
}

const answerOf = (id, option = 'once') => ['permission_answer', { request_id: id, option_id: option }];

for (const fails of [false, true]) {
	const how = fails ? 'fails' : 'goes through';
	const end = (stage) => (fails ? stage.disk.fail() : stage.disk.pass());

	can && test(`a deletion that ${how}: the session is there until it is certain`, async (t) => {
		const stage = await start(t);
		const { server, id } = stage;
		let producer = await Producer.connect(t, server, id);
		await producer.append(input.note({ n: 1 }));
		const feed = new TestSocket(t, server.ws('/api/events'), check.feed);
		await feed.waitFor('sessions');
		const observer = await watch(stage);
		stage.disk.hold();
		const deleted = server.request('DELETE', `/api/sessions/${id}`);
		await stage.disk.isHolding();
		// Reads go on as before.
		assert.equal((await server.request('GET', `/api/sessions/${id}`)).status, 200);
		assert.equal((await server.request('GET', `/api/sessions/${id}/events`)).body.events.length, 1);
		assert.deepEqual((await server.request('GET', '/api/sessions')).body.sessions.map((s) => s.id), [id]);
		const late = await watch(stage);
		assert.equal(late.last, 1);
		// What would change it waits for the end of the matter.
		const again = server.request('DELETE', `/api/sessions/${id}`);
		const posted = server.request('POST', `/api/sessions/${id}/events`, { json: input.note({ n: 2 }) });
		const lines = server.request('POST', `/api/sessions/${id}/events`, {
			body: `${JSON.stringify(input.note({ n: 3 }))}\n`, headers: { 'content-type': 'application/x-ndjson' },
		});
		const created = server.request('POST', `/api/sessions/${id}/events?create=1`, { json: input.note({ n: 4 }) });
		await producer.push(input.note({ n: 5 }));
		await goRound(server);
		assert.deepEqual([...observer.frames, ...late.frames, ...producer.frames, ...feed.frames].filter((f) => /gone|deleted|error/.test(f.type)), []);
		end(stage);
		const statuses = (await Promise.all([deleted, again, posted, lines, created])).map((a) => a.status);
		if (fails) {
			assert.deepEqual(statuses, [503, 503, 503, 503, 503]);
			assert.equal((await deleted).body.error.outcome, 'unknown');
			assert.equal((await posted).body.error.outcome, undefined);
			assert.equal((await producer.waitFor('error')).data.code, 'storage_failed');
			await mend(stage);
			producer = await reconnect(t, producer, server, id);
			await producer.append(input.note({ n: 6 }));
			await observer.waitForSeq(3);
			await late.waitForSeq(3);
			assert.equal((await server.request('GET', `/api/sessions/${id}`)).status, 200);
			assert.equal(feed.frames.some((f) => f.type === 'session_deleted'), false);
		} else {
			assert.deepEqual(statuses, [204, 204, 404, 404, 404]);
			for (const socket of [observer, late, producer]) {
				assert.equal((await socket.waitFor('session_gone')).data.reason, 'deleted');
			}
			await feed.waitFor('session_deleted');
			assert.equal((await server.request('GET', `/api/sessions/${id}`)).status, 404);
		}
	});

	can && test(`a session whose making ${how}: nobody sees it before`, async (t) => {
		const stage = await start(t);
		const { server, disk } = stage;
		const feed = new TestSocket(t, server.ws('/api/events'), check.feed);
		await feed.waitFor('sessions');
		disk.hold();
		const made = server.request('POST', '/api/sessions', { json: { id: 'new' } });
		await disk.isHolding();
		assert.equal((await server.request('GET', '/api/sessions/new')).status, 404);
		assert.equal((await server.request('GET', '/api/sessions')).body.sessions.length, 1);
		// Who comes early is not told that it is gone, which would be final.
		for (const early of [await Observer.connect(t, server, 'new'), await Producer.connect(t, server, 'new')]) {
			await early.waitUntil(() => early.closed, 'the socket to be closed');
			assert.deepEqual(early.frames.map((f) => [f.type, f.data.code]), [['error', 'storage_failed']]);
			assert.equal(early.closed.code, 1011);
		}
		const again = server.request('POST', '/api/sessions', { json: { id: 'new' } });
		let producer = await Producer.connect(t, server, 'new', { query: { create: '1' } });
		assert.equal(producer.frames[0].data.epoch, null);
		await producer.push(input.note({ n: 1 }));
		await goRound(server);
		end(stage);
		if (fails) {
			assert.deepEqual([(await made).status, (await again).status], [503, 503]);
			assert.equal((await producer.waitFor('error')).data.code, 'storage_failed');
			await mend(stage);
			producer = await reconnect(t, producer, server, 'new', { query: { create: '1' } });
			await producer.append(input.note({ n: 1 }));
			assert.equal(producer.closed, null);
		} else {
			assert.deepEqual([(await made).status, (await again).status], [201, 409]);
			await producer.waitFor('appended');
		}
		assert.equal((await server.request('GET', '/api/sessions/new')).body.max_seq, 1);
		await feed.waitFor((f) => f.type === 'session_created' && f.data.session.id === 'new');
		assert.equal(feed.frames.filter((f) => f.type === 'session_created').length, 1);
		assert.equal(feed.frames.some((f) => f.type === 'session_deleted'), false);
	});

	can && test(`an answer whose sync ${how}: both who gave one hear the truth`, async (t) => {
		const stage = await start(t);
		const { server, id } = stage;
		const anna = await watch(stage, 'anna');
		const bert = await watch(stage, 'bert');
		const producer = await Producer.connect(t, server, id);
		await producer.append(ask('q1'));
		await anna.waitForSeq(1);
		stage.disk.hold();
		await anna.send(...answerOf('q1'));
		await stage.disk.isHolding();
		await bert.send(...answerOf('q1', 'no'));
		await producer.push({ type: 'permission_resolved', data: { request_id: 'q1', outcome: 'cancelled' } });
		await goRound(server);
		assert.deepEqual([...anna.frames, ...bert.frames, ...producer.frames].filter((f) => f.type === 'error'), []);
		end(stage);
		const told = (await bert.waitFor('error')).data;
		assert.equal(told.request_id, 'q1');
		assert.equal(told.request, 'permission_answer');
		if (fails) {
			const first = (await anna.waitFor('error')).data;
			for (const { code, request, request_id } of [told, first]) {
				assert.deepEqual({ code, request, request_id }, { code: 'storage_failed', request: 'permission_answer', request_id: 'q1' });
			}
			// What the failed sync was of may have got there, as the disk does not say; what came behind it has not.
			assert.deepEqual([first.outcome, told.outcome], ['unknown', undefined]);
			assert.equal((await producer.waitFor('error')).data.code, 'storage_failed');
			await mend(stage);
			assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.status, 'waiting');
			await anna.send(...answerOf('q1', 'no'));
		} else {
			assert.deepEqual([told.code, told.by, told.seq], ['already_resolved', 'anna', 2]);
			assert.equal((await producer.waitFor('error')).data.code, 'already_resolved');
		}
		const resolved = await bert.waitForEvent('permission_resolved');
		assert.deepEqual([resolved.data.by, resolved.data.option_id], ['anna', fails ? 'no' : 'once']);
	});

	can && test(`a run whose start ${how}: events of the one before it are refused once it is there`, async (t) => {
		const stage = await start(t);
		const { server, id } = stage;
		let first = await Producer.connect(t, server, id);
		const second = await Producer.connect(t, server, id);
		await first.append(input.runStart('a'));
		stage.disk.hold();
		await second.push(input.runStart('b'));
		await stage.disk.isHolding();
		await first.push({ ...input.note({ late: true }), run_id: 'a' });
		const posted = server.request('POST', `/api/sessions/${id}/events`, { json: { ...input.note({ late: true }), run_id: 'a' } });
		const lines = server.request('POST', `/api/sessions/${id}/events`, {
			body: JSON.stringify({ ...input.note({ late: true }), run_id: 'a' }), headers: { 'content-type': 'application/x-ndjson' },
		});
		await goRound(server);
		assert.equal(first.frames.some((f) => f.type === 'error'), false);
		end(stage);
		const code = fails ? 'storage_failed' : 'stale_run';
		assert.equal((await first.waitFor('error')).data.code, code);
		assert.equal((await posted).body.error.code, code);
		assert.equal((await lines).body.error.code, code);
		if (fails) {
			stage.disk.pass();
			await eventually(async () => {
				first = first.closed ? await Producer.connect(t, server, id) : await reconnect(t, first, server, id);
				const ref = await first.push({ ...input.note({ on: true }), run_id: 'a' });
				return (await first.waitFor((f) => f.data.ref === ref)).type === 'appended';
			}, 'the first run to go on');
		}
	});

	can && test(`a tool call held behind a list, whose sync ${how}: its notice comes when it is stored`, async (t) => {
		const stage = await start(t);
		const { server, id } = stage;
		const observer = await watch(stage);
		let producer = await Producer.connect(t, server, id);
		await producer.append(input.text('- one\n- two'));
		await observer.waitFor('state');
		stage.disk.hold();
		await producer.push(input.tool('call_1'));
		await stage.disk.isHolding();
		await goRound(server);
		assert.deepEqual(observer.frames.filter((f) => f.type === 'activity'), []);
		end(stage);
		if (fails) {
			await producer.waitFor('error');
			await mend(stage);
			producer = await reconnect(t, producer, server, id);
			await producer.append(input.end());
			await observer.waitForEvent('turn_end');
			assert.equal(observer.events().some((e) => e.type === 'tool_call'), false);
			assert.equal(observer.frames.some((f) => f.type === 'activity' && f.data.type === 'tool_call'), false);
		} else {
			const { data } = await observer.waitFor('activity');
			assert.deepEqual([data.seq, data.data.tool_call_id], [2, 'call_1']);
		}
	});

	can && test(`requests about prompts, whose sync ${how}: each has its answer, and says which it is of`, async (t) => {
		const stage = await start(t, { agent: demoAgent('--rate 0') });
		const { server, id } = stage;
		const observer = await watch(stage, 'anna');
		await observer.prompt('long rate=1', 'running');
		for (const promptId of ['w1', 'w2', 'w3']) {
			await observer.prompt('one', promptId);
		}
		await observer.waitForEvent('agent_started');
		stage.disk.hold();
		await observer.send('remove_prompt', { prompt_id: 'w1' });
		await stage.disk.isHolding();
		const from = observer.frames.length;
		await observer.send('prompt', { message: 'one', prompt_id: 'w4' });
		await observer.send('edit_prompt', { prompt_id: 'w2', message: 'two' });
		await observer.send('remove_prompt', { prompt_id: 'w3' });
		await observer.send('edit_prompt', { prompt_id: 'w1', message: 'two' });
		await observer.send('list_prompts', { prompt_id: 'w4' });
		await goRound(server);
		assert.deepEqual(observer.frames.slice(from).filter((f) => f.type === 'error' || f.type.startsWith('prompt')), []);
		end(stage);
		const answers = await observer.waitUntil(() => {
			const found = observer.frames.slice(from).filter((f) => f.type === 'error' || f.type.startsWith('prompt'));
			return found.length === 6 && found;
		}, 'six answers');
		const told = answers.map(({ type, data }) => `${data.prompt_id} ${data.code ?? type}`);
		assert.deepEqual(told.sort(), fails
			? ['w1 storage_failed', 'w1 storage_failed', 'w2 storage_failed', 'w3 storage_failed', 'w4 storage_failed', 'w4 storage_failed']
			: ['w1 not_queued', 'w1 prompt_removed', 'w2 prompt_edited', 'w3 prompt_removed', 'w4 not_queued', 'w4 prompt_received']);
		stage.disk.pass();
		if (fails) {
			const { body } = await server.request('GET', `/api/sessions/${id}/queue`);
			assert.deepEqual(body.prompts.map((p) => `${p.prompt_id} ${p.message}`), ['w1 one', 'w2 one', 'w3 one']);
		}
	});
}

can && test('while nothing can be stored, every refusal says what it is of', async (t) => {
	const stage = await start(t, { agent: demoAgent('--rate 0') });
	const { server, id, disk } = stage;
	let observer = await watch(stage, 'anna');
	let producer = await Producer.connect(t, server, id);
	await observer.prompt('long rate=1', 'running');
	await observer.prompt('one', 'w1');
	await producer.append(ask('q1'));
	disk.fail();
	await producer.push(input.note({ is: 'refused' }));
	assert.equal((await producer.waitFor('error')).data.code, 'storage_failed');
	for (const [type, data, names] of [
		['permission_answer', { request_id: 'q1', option_id: 'once' }, { request_id: 'q1' }],
		['permission_answer', { request_id: 'q1', option_id: 'never' }, { request_id: 'q1', code: 'bad_request' }],
		['permission_answer', { request_id: 'q9', option_id: 'once' }, { request_id: 'q9', code: 'unknown_request' }],
		['prompt', { prompt_id: 'w2', message: 'one' }, { prompt_id: 'w2' }],
		['edit_prompt', { prompt_id: 'w1', message: 'two' }, { prompt_id: 'w1' }],
		['remove_prompt', { prompt_id: 'w1' }, { prompt_id: 'w1' }],
	]) {
		let told;
		await eventually(async () => {
			if (observer.closed) {
				observer = await watch(stage, 'anna');
			}
			const { message, ...rest } = await observer.refused(type, data);
			assert.notEqual(message, '');
			told = rest;
			// Until the session is taken back to what is on disk, nothing but that can be told.
			return !names.code || told.code !== 'storage_failed';
		});
		assert.deepEqual(told, { code: 'storage_failed', request: type, ...names });
		await (type.endsWith('prompt') && observer.waitClosed());
	}
	observer = await watch(stage, 'anna');
	producer = await reconnect(t, producer, server, id);
	const ref = await producer.push(input.note({ is: 'refused' }));
	assert.equal((await producer.waitFor((f) => f.data.ref === ref)).data.code, 'storage_failed');
	await mend(stage);
	await observer.send(...answerOf('q1'));
	await observer.waitForEvent('permission_resolved');
});

can && test('a server that is stopped while it waits for its disk ends well, though the disk comes back meanwhile', async (t) => {
	const stage = await start(t, { agent: demoAgent('--rate 0') });
	const { server, disk } = stage;
	const observer = await watch(stage);
	await observer.prompt('long rate=1', 'running');
	await observer.waitForEvent('agent_started');
	await observer.prompt('one', 'waiting');
	disk.fail();
	await observer.refused('remove_prompt', { prompt_id: 'waiting' });
	const stopped = server.stop(); // the store is tried again every 20 ms, while sockets and agents are told
	await eventually(() => /stopping/.test(server.stderr), 'the server to stop');
	disk.pass();
	await stopped; // which says that it ended with 0
});
