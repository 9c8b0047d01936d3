// Prompts, answers, cancelling, and the end of a session (proto/protocol.md#taking-part-prompts-cancel-permissions).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server, demoAgent } from '../support/server.mjs';

async function start(t, options) {
	const server = await Server.start(t, options);
	const { id } = await server.createSession();
	return { server, id };
}

async function connectLive(t, server, id, query = {}) {
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown', ...query } });
	await observer.loadAll();
	return observer;
}

const permissionRequest = (requestId) => ({
	type: 'permission_request',
	data: {
		request_id: requestId, tool_call: { tool_call_id: 't1', title: 'Delete it' },
		options: [{ option_id: 'yes', name: 'Yes', kind: 'allow_once' }, { option_id: 'no', name: 'No', kind: 'reject_once' }],
	},
});

const types = (events) => events.map((e) => e.type);

test('a prompt is run once, whoever sends it again and when', async (t) => {
	const { server, id } = await start(t, { agent: demoAgent('--rate 0') });
	const first = await connectLive(t, server, id, { client_id: 'first' });
	const second = await connectLive(t, server, id, { client_id: 'second' });
	const third = await connectLive(t, server, id);
	const answers = await Promise.all([first, second, third].map((o) => o.prompt('list', 'p-1')));
	assert.equal(answers.filter((a) => !a.duplicate).length, 1);
	assert.ok(answers.every((a) => a.seq === 1), JSON.stringify(answers));
	await first.waitForEvent('turn_end');
	assert.deepEqual(await second.prompt('another text', 'p-1'), { prompt_id: 'p-1', seq: 1, duplicate: true });
	// A client that did not get the answer finds its prompt, and may send it again all the same.
	let newest = ['p-1', 1];
	for (const end of [() => server.stop(), () => server.kill9()]) {
		await end();
		await server.restart();
		const back = await connectLive(t, server, id);
		assert.deepEqual([back.hello.last_user_prompt_id, back.hello.last_user_prompt_seq], newest);
		assert.deepEqual(await back.prompt('list', 'p-1'), { prompt_id: 'p-1', seq: 1, duplicate: true });
		const promptId = `p-${back.last}`;
		const { seq } = await back.prompt('hello', promptId);
		newest = [promptId, seq];
		await back.waitForEvent('turn_end', { after: seq });
	}
	const prompts = readLog(server, id).filter((e) => e.type === 'user_prompt');
	assert.deepEqual(prompts.map((e) => [e.data.message, e.turn]), [['list', 1], ['hello', 2], ['hello', 3]]);
});

test('prompts of several clients wait for each other, in order', async (t) => {
	const { server, id } = await start(t, { agent: demoAgent('--rate 0') });
	const observers = await Promise.all(['a', 'b', 'c'].map((name) => connectLive(t, server, id, { client_id: name })));
	assert.equal((await observers[0].prompt('hang', 'p-0')).seq, 1);
	for (const [i, observer] of observers.entries()) {
		assert.deepEqual(await observer.prompt('hello', `p-${i + 1}`), { prompt_id: `p-${i + 1}`, seq: null, duplicate: false });
	}
	await observers[2].waitFor((f) => f.type === 'state' && f.data.queue_length === 3);
	await observers[1].send('cancel');
	await observers[2].waitUntil(() => observers[2].events().filter((e) => e.type === 'turn_end').length === 4, 'four turns');
	await observers[2].waitFor((f) => f.type === 'state' && f.data.status === 'idle' && f.data.queue_length === 0, { from: 5 });
	const log = readLog(server, id);
	const turns = log.filter((e) => e.type === 'user_prompt' || e.type === 'turn_end')
		.map((e) => [e.turn, e.data.prompt_id ?? e.data.stop_reason, e.data.client_id]);
	assert.deepEqual(turns, [
		[1, 'p-0', 'a'], [1, 'cancelled', undefined], [2, 'p-1', 'a'], [2, 'end_turn', undefined],
		[3, 'p-2', 'b'], [3, 'end_turn', undefined], [4, 'p-3', 'c'], [4, 'end_turn', undefined],
	]);
	assert.deepEqual(observers[0].events(), log.slice(0, observers[0].last));
});

test('of two answers to one permission request the first wins, and the other hears of it', async (t) => {
	const { server, id } = await start(t);
	const observers = await Promise.all(['a', 'b', 'c', 'd'].map((name) => connectLive(t, server, id, { client_id: name })));
	for (const requestId of ['perm-1', 'perm-2', 'perm-3']) {
		const { max_seq: asked } = await post(server, id, permissionRequest(requestId));
		await Promise.all(observers.map((o) => o.waitForSeq(asked)));
		await Promise.all(observers.map((o, i) => o.send('permission_answer', { request_id: requestId, option_id: i % 2 ? 'yes' : 'no' })));
		const resolved = await observers[0].waitForEvent('permission_resolved', { after: asked });
		const winner = 'abcd'.indexOf(resolved.data.by);
		assert.deepEqual(resolved.data, { request_id: requestId, outcome: 'selected', option_id: winner % 2 ? 'yes' : 'no', by: 'abcd'[winner] });
		for (const [i, observer] of observers.entries()) {
			if (i !== winner) {
				const { data } = await observer.waitFor((f) => f.type === 'error' && f.data.request_id === requestId);
				assert.deepEqual([data.code, data.request, data.by, data.seq],
					['already_resolved', 'permission_answer', resolved.data.by, resolved.seq]);
			}
			await observer.waitForSeq(resolved.seq);
		}
	}
	await observers[0].waitFor((f) => f.type === 'state' && f.data.status === 'waiting');
	const asked = ['permission_request', 'permission_resolved'];
	assert.deepEqual(types(readLog(server, id)), [...asked, ...asked, ...asked]);
	assert.ok(observers.every((o) => o.frames.filter((f) => f.type === 'error').length <= 3), 'nobody lost twice');
});

test('who answered is known after a kill, and what is pending still waits', async (t) => {
	const { server, id } = await start(t);
	const before = await connectLive(t, server, id, { client_id: 'early' });
	await post(server, id, [permissionRequest('perm-1'), permissionRequest('perm-2')]);
	await before.send('permission_answer', { request_id: 'perm-1', option_id: 'no' });
	const resolved = await before.waitForEvent('permission_resolved');
	await server.kill9();
	await server.restart();
	const after = await connectLive(t, server, id, { client_id: 'late' });
	assert.deepEqual(after.events(), before.events());
	assert.equal((await after.waitFor('state')).data.status, 'waiting');
	const late = await after.refused('permission_answer', { request_id: 'perm-1', option_id: 'yes' });
	assert.deepEqual([late.code, late.by, late.seq], ['already_resolved', 'early', resolved.seq]);
	await after.send('permission_answer', { request_id: 'perm-2', option_id: 'yes' });
	assert.equal((await after.waitForEvent('permission_resolved', { after: resolved.seq })).data.by, 'late');
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.status, 'running');
});

test('a turn that ends takes its open permission requests along', async (t) => {
	const { server, id } = await start(t);
	const observer = await connectLive(t, server, id);
	const { max_seq: last } = await post(server, id, [permissionRequest('perm-1'), permissionRequest('perm-2'), input.end()]);
	const events = await observer.waitForSeq(last);
	assert.deepEqual(events.map((e) => [e.type, e.data.request_id, e.data.outcome]), [
		['permission_request', 'perm-1', undefined], ['permission_request', 'perm-2', undefined],
		['permission_resolved', 'perm-1', 'cancelled'], ['permission_resolved', 'perm-2', 'cancelled'], ['turn_end', undefined, undefined],
	]);
	const late = await observer.refused('permission_answer', { request_id: 'perm-1', option_id: 'yes' });
	assert.deepEqual([late.code, late.seq], ['already_resolved', 3]);
});

test('cancel ends the turn, and with it the question that waits', async (t) => {
	const { server, id } = await start(t, { agent: demoAgent('--rate 0') });
	const observer = await connectLive(t, server, id);
	const other = await connectLive(t, server, id);
	await observer.prompt('list permission table');
	const question = await other.waitForEvent('permission_request');
	await other.send('cancel');
	const end = await observer.waitForEvent('turn_end');
	assert.equal(end.data.stop_reason, 'cancelled');
	const resolved = observer.events().find((e) => e.type === 'permission_resolved');
	assert.deepEqual(resolved.data, { request_id: question.data.request_id, outcome: 'cancelled' });
	assert.ok(resolved.seq < end.seq);
	assert.equal((await other.refused('cancel', {})).code, 'not_prompting');
	// Text that streams is cut off, and the next turn is a whole one.
	const { seq } = await observer.prompt('long=100000 rate=2000');
	await observer.waitForEvent('agent_message', { after: seq });
	await observer.send('cancel');
	assert.equal((await observer.waitForEvent('turn_end', { after: seq })).data.stop_reason, 'cancelled');
	const again = await observer.prompt('hello');
	assert.equal((await observer.waitForEvent('turn_end', { after: again.seq })).data.stop_reason, 'end_turn');
	assert.deepEqual(readLog(server, id), observer.events());
	assert.deepEqual((await other.waitForSeq(observer.last)), observer.events());
});

test('a deleted session is gone for everyone, and stays so', async (t) => {
	const { server, id } = await start(t, { agent: demoAgent('--rate 0') });
	const busy = await connectLive(t, server, id, { deltas: 'text' });
	await busy.prompt('long=100000 rate=1000');
	await busy.waitForEvent('agent_message');
	const sockets = [busy, await connectLive(t, server, id), await Observer.connect(t, server, id), await Producer.connect(t, server, id)];
	assert.equal((await server.request('DELETE', `/api/sessions/${id}`)).status, 204);
	for (const socket of sockets) {
		assert.equal((await socket.waitClosed()).code, 4404);
		assert.deepEqual(socket.frames.at(-1), { type: 'session_gone', data: { session_id: id, reason: 'deleted' } });
	}
	for (let round = 0; round < 2; round++) {
		for (const role of [Observer, Producer]) {
			const back = await role.connect(t, server, id);
			assert.deepEqual(back.frames, [{ type: 'session_gone', data: { session_id: id, reason: 'not_found' } }]);
			assert.equal((await back.waitClosed()).code, 4404);
		}
		await server.kill9();
		await server.restart();
	}
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).status, 404);
});
