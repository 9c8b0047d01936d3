// What the sockets refuse: each with its code, in words, and without a change (proto/protocol.md#error-codes).

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { check, protoDir } from '../support/schema.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';

const FRAME_MAX = 1 << 20;
const PRODUCER_FRAME_MAX = 8 << 20;

function golden(folder) {
	return readdirSync(`${protoDir}golden/${folder}`).map((file) =>
		[`${folder}/${file}`, readFileSync(`${protoDir}golden/${folder}/${file}`, 'utf8')]);
}

async function start(t, options) {
	const server = await Server.start(t, options);
	const { id } = await server.createSession();
	return { server, id };
}

test('a session that does not exist is gone, for observers and producers', async (t) => {
	const { server } = await start(t);
	for (const role of [Observer, Producer]) {
		const socket = await role.connect(t, server, 'nobody');
		assert.deepEqual(socket.frames, [{ type: 'session_gone', data: { session_id: 'nobody', reason: 'not_found' } }]);
		assert.equal((await socket.waitClosed()).code, 4404);
	}
});

test('a session that is deleted is gone for all who are connected', async (t) => {
	const { server, id } = await start(t);
	const loading = await Observer.connect(t, server, id);
	const live = await Observer.connect(t, server, id);
	await live.loadAll();
	const sockets = [loading, live, await Producer.connect(t, server, id)];
	await server.request('DELETE', `/api/sessions/${id}`);
	for (const socket of sockets) {
		assert.equal((await socket.waitClosed()).code, 4404);
		assert.deepEqual(socket.frames.at(-1), { type: 'session_gone', data: { session_id: id, reason: 'deleted' } });
	}
});

test('a wrong query is refused and the socket closed', async (t) => {
	const { server, id } = await start(t);
	for (const query of [
		{ format: 'pdf' }, { format: '' }, { deltas: 'yes' }, { client_id: 'a b' }, { client_id: 'x'.repeat(65) }, { client_id: '' },
	]) {
		const observer = await Observer.connect(t, server, id, { query });
		assert.equal(observer.frames[0].type, 'error', JSON.stringify(query));
		assert.equal(observer.frames[0].data.code, 'bad_request');
		assert.equal((await observer.waitClosed()).code, 1008);
		assert.equal(observer.frames.length, 1);
	}
	const observer = await Observer.connect(t, server, id, { query: { client_id: 'me_-9', format: 'both', deltas: 'html' } });
	assert.equal(observer.hello.client_id, 'me_-9');
});

test('every frame that the schema refuses is refused by an observer socket, which goes on', async (t) => {
	const { server, id } = await start(t);
	const observer = await Observer.connect(t, server, id);
	for (const [name, json] of golden('invalid/client')) {
		const from = observer.frames.length;
		await observer.sendRaw(json);
		const frame = await observer.waitFor(() => true, { from });
		assert.equal(frame.type, 'error', `${name}: ${JSON.stringify(frame)}`);
		assert.equal(frame.data.code, /unknown_type|type_of_the_server/.test(name) ? 'unknown_type' : 'bad_request', name);
		const { type } = JSON.parse(json);
		if (typeof type === 'string') {
			assert.equal(frame.data.request, type, name);
		}
	}
	await observer.loadAll();
});

test('no frame that the schema allows is refused for its shape', async (t) => {
	const { server, id } = await start(t);
	for (const [name, json] of golden('client')) {
		const observer = await Observer.connect(t, server, id);
		await observer.sendRaw(json);
		await observer.sendRaw('{"type": "the-next", "data": {}}'); // some are not answered, or not at once
		const { data } = await observer.waitFor(() => true, { from: 1 });
		assert.ok(data.request === 'the-next' || !['bad_request', 'unknown_type', 'bad_json'].includes(data.code), `${name}: ${data.message}`);
	}
});

test('no input event that the schema allows is refused, and observers get it as the schema says', async (t) => {
	const { server, id } = await start(t);
	const producer = await Producer.connect(t, server, id);
	const observer = await Observer.connect(t, server, id, { query: { format: 'both' } });
	await observer.loadAll();
	let last = 0;
	const take = async (to, name, event) => {
		const ref = await to.push(event);
		const frame = await to.waitFor((f) => f.data.ref === ref);
		assert.equal(frame.type, 'appended', `${name}: ${frame.data.message}`);
		return frame.data.acks[0].seq;
	};
	for (const [name, json] of golden('input')) {
		const event = JSON.parse(json);
		const run = event.run_id ?? event.data.run_id;
		if (!run) {
			last = (await take(producer, name, event)) ?? last;
			continue;
		}
		/* A run is begun once in a session, and only one that is under way may be named. */
		const other = await Producer.connect(t, server, (await server.createSession()).id);
		if (event.type !== 'run_start') {
			await take(other, name, { type: 'run_start', data: { run_id: run } });
		}
		await take(other, name, event);
	}
	await observer.waitForSeq(last);
	const { data } = observer.events().find((e) => e.data.tool_call_id === 'call_9');
	assert.deepEqual(data, JSON.parse(Object.fromEntries(golden('input'))['input/tool_call.more_members.json']).data);
});

test('what the producer schema refuses is refused, and spends no number', async (t) => {
	const { server, id } = await start(t);
	const producer = await Producer.connect(t, server, id);
	for (const [name, json] of golden('invalid/from-producer')) {
		const from = producer.frames.length;
		await producer.sendRaw(json);
		const frame = await producer.waitFor(() => true, { from });
		assert.equal(frame.type, 'error', name);
		assert.equal(frame.data.code, name.includes('unknown_type') ? 'unknown_type' : 'bad_request', name);
	}
	for (const [name, json] of golden('invalid/input')) {
		const ref = await producer.push(JSON.parse(json));
		const { type, data } = await producer.waitFor((f) => f.data.ref === ref);
		assert.equal(type, 'error', name);
		const code = /unknown_type|whole_message|x_bare/.test(name) ? 'unknown_type' : /\/key\./.test(name) ? 'bad_key' : 'bad_request';
		assert.equal(data.code, code, name);
	}
	const ref = await producer.push(input.note({}), { type: 'x-note' });
	const { data } = await producer.waitFor((f) => f.data.ref === ref);
	assert.equal(data.code, 'bad_request');
	assert.equal(data.index, 1);
	assert.deepEqual((await producer.append(input.note({}))).acks, [{ seq: 1, duplicate: false }]);
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.max_seq, 1);
});

test('what is no JSON and no UTF-8 is refused', async (t) => {
	const { server, id } = await start(t);
	for (const role of [Observer, Producer]) {
		const socket = await role.connect(t, server, id);
		for (const text of ['', '{', '{"type": "keepalive", "data": {}} x', 'null x', '{"type": "keepalive", "type": "cancel"}', '['.repeat(100_000)]) {
			const from = socket.frames.length;
			await socket.sendRaw(text);
			assert.equal((await socket.waitFor('error', { from })).data.code, 'bad_json', text.slice(0, 80));
		}
		await socket.sendRaw(Buffer.from('{"type": "prompt", "data": {"message": "\xff"}}', 'latin1'), { binary: false });
		// The library that carries the frames may have noticed first.
		await socket.waitUntil(() => socket.closed?.code === 1007 || socket.frames.some((f) => f.data.code === 'bad_utf8'), 'a refusal');
	}
});

test('a frame over the limit is refused and the socket closed', async (t) => {
	const { server, id } = await start(t);
	for (const [role, max] of [[Observer, FRAME_MAX], [Producer, PRODUCER_FRAME_MAX]]) {
		const socket = await role.connect(t, server, id);
		const frame = (fill) => JSON.stringify({ type: 'keepalive', data: { client_time: 1 } }).padEnd(fill, ' ');
		await socket.sendRaw(frame(max));
		await socket.waitFor('keepalive_ack');
		await socket.sendRaw(frame(max + 1));
		assert.equal((await socket.waitClosed()).code, 1009);
		assert.equal(socket.frames.at(-1).data.code, 'too_large');
	}
});

test('without an agent there is nothing to prompt, to cancel or to answer', async (t) => {
	const { server, id } = await start(t);
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	const code = async (type, data) => (await observer.refused(type, data)).code;
	assert.equal(await code('prompt', { message: 'Hello', prompt_id: 'p-1' }), 'no_agent');
	assert.equal(await code('cancel', {}), 'not_prompting');
	assert.equal(await code('permission_answer', { request_id: 'perm-9', option_id: 'allow' }), 'unknown_request');
	assert.deepEqual(observer.events(), []);
});

test('a second answer to a permission request is told who came first', async (t) => {
	const { server, id } = await start(t, { agent: demoAgent('--rate 0') });
	const [first, second] = [
		await Observer.connect(t, server, id, { query: { client_id: 'first' } }),
		await Observer.connect(t, server, id, { query: { client_id: 'second' } }),
	];
	await first.loadAll();
	await second.loadAll();
	await first.prompt('permission');
	const { data: question } = await first.waitForEvent('permission_request');
	assert.equal((await first.refused('permission_answer', { request_id: question.request_id, option_id: 'no such' })).code, 'bad_request');
	const answer = { request_id: question.request_id, option_id: question.options[0].option_id };
	await first.send('permission_answer', answer);
	const resolved = await second.waitForEvent('permission_resolved');
	assert.deepEqual(resolved.data, { ...answer, outcome: 'selected', by: 'first' });
	const late = await second.refused('permission_answer', answer);
	assert.equal(late.code, 'already_resolved');
	assert.deepEqual([late.by, late.seq, late.request_id], ['first', resolved.seq, answer.request_id]);
	await first.waitForEvent('turn_end');
});

test('a prompt is taken once, and a full queue says so', async (t) => {
	const { server, id } = await start(t, { agent: demoAgent('--rate 0') });
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	const { seq } = await observer.prompt('hang', 'p-0');
	assert.equal(seq, 1);
	assert.deepEqual(await observer.prompt('hang', 'p-0'), { prompt_id: 'p-0', seq: 1, duplicate: true });
	for (let n = 1; n <= 100; n++) {
		assert.deepEqual(await observer.prompt('list', `p-${n}`), { prompt_id: `p-${n}`, seq: null, duplicate: false });
	}
	const full = await observer.refused('prompt', { message: 'list', prompt_id: 'p-101' });
	assert.deepEqual([full.code, full.prompt_id], ['queue_full', 'p-101']);
	assert.deepEqual(await observer.prompt('list', 'p-7'), { prompt_id: 'p-7', seq: null, duplicate: true });
	await server.request('DELETE', `/api/sessions/${id}`);
});

test('an append to a session that is deleted meanwhile is refused', async (t) => {
	const { server, id } = await start(t);
	await post(server, id, input.note({}));
	await server.request('DELETE', `/api/sessions/${id}`);
	const { status, body } = await server.request('POST', `/api/sessions/${id}/events`, { json: input.note({}) });
	assert.equal(status, 404);
	assert.equal(check.rest('error')(body), null);
});

test('a session that is deleted while all write to it is gone for all, and nobody is left waiting', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	for (let round = 0; round < 20; round++) {
		const { id } = await server.createSession();
		const producer = await Producer.connect(t, server, id);
		const observer = await Observer.connect(t, server, id, { query: { deltas: round % 2 ? 'text' : 'html' } });
		await observer.loadAll();
		const write = async (n) => {
			await producer.push(input.text(`Some text ${n}\n\n- an item\n`), input.note({ n }));
			await observer.send('prompt', { message: 'tour', prompt_id: `p-${n}` });
			return server.request('POST', `/api/sessions/${id}/events`, { json: input.note({ n }) });
		};
		const before = [write(1), write(2), write(3)];
		await before[round % 3];
		const [{ status }, ...posts] = await Promise.all([server.request('DELETE', `/api/sessions/${id}`), ...before, write(4)]);
		assert.equal(status, 204);
		posts.forEach((post) => assert.ok([200, 404].includes(post.status), `${post.status} ${JSON.stringify(post.body)}`));
		for (const socket of [producer, observer]) {
			assert.equal((await socket.waitClosed()).code, 4404);
			assert.equal(socket.frames.at(-1).type, 'session_gone');
		}
	}
});

test('binary frames are refused', async (t) => {
	const { server, id } = await start(t);
	const socket = new TestSocket(t, server.ws(`/api/sessions/${id}/ws`), check.server);
	await socket.waitFor('connected');
	await socket.sendRaw(Buffer.from('{"type": "keepalive", "data": {}}'));
	assert.equal((await socket.waitFor('error')).data.code, 'bad_request');
});
