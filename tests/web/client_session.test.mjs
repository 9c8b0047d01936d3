/** The client library: taking part, growing text, and the list of sessions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { HoldfastFeed } from '../../web/client/holdfast-client.js';
import { FakeServer } from './fake_server.mjs';
import { observe, seqs } from './observe.mjs';

test('a prompt is sent again with the same id until it is confirmed, and then no more', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	const { id } = client.prompt('hello');
	assert.deepEqual(client.prompts, [
		{ prompt_id: id, message: 'hello', state: 'sending', seq: null },
	]);
	server.socket.step(); // connected, on its way
	server.socket.deliver();
	server.socket.break(); // the prompt was sent into a connection that broke
	server.advance(1000);
	assert.deepEqual(server.sent('prompt'), [{ message: 'hello', prompt_id: id }]);
	assert.equal(client.prompts[0].state, 'queued');
	server.socket.break();
	server.advance(1000);
	assert.equal(server.sent('prompt').length, 1);
	server.emit({
		type: 'user_prompt',
		data: { message: 'hello', prompt_id: id, client_id: client.clientId },
	});
	server.pump();
	assert.deepEqual(client.prompts, []);
});

test('a confirmation that is lost costs one more frame, not one more run', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	const { id } = client.prompt('once');
	server.socket.step(); // the server has it, its answer is in flight
	server.socket.break();
	server.advance(1000);
	assert.deepEqual(
		server.sent('prompt').map(({ prompt_id }) => prompt_id),
		[id, id],
	);
	assert.equal(server.prompts.size, 1);
	assert.equal(client.prompts[0].state, 'queued');
});

test('a confirmed prompt stays pending until its event is held', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	const { id } = client.prompt('x');
	server.socket.queue('prompt_received', { prompt_id: id, seq: 1, duplicate: false });
	server.socket.deliver();
	assert.equal(client.prompts[0].state, 'received');
	server.record({ type: 'user_prompt', data: { prompt_id: id } });
	server.toAll('events', { events: server.log, max_seq: 1, is_prompting: true });
	server.socket.deliver();
	assert.deepEqual(client.prompts, []);
	assert.equal(client.state.is_prompting, true);
});

test('a refused prompt is given back and not sent again', () => {
	const server = new FakeServer();
	const { client, view } = observe(server);
	server.pump();
	client.prompt('too much');
	server.socket.queue('error', {
		code: 'queue_full',
		message: 'The queue is full.',
		request: 'prompt',
	});
	server.socket.deliver();
	assert.deepEqual(client.prompts, []);
	assert.equal(view.errors[0].code, 'queue_full');
	assert.equal(view.errors[0].detail.prompt.message, 'too much');
});

test('a prompt that is too large does not break one connection after another', () => {
	const server = new FakeServer();
	const { client, view } = observe(server);
	server.pump();
	client.prompt('small');
	client.prompt('a very large one');
	server.socket.break(1009);
	assert.deepEqual(
		client.prompts.map(({ message }) => message),
		['small'],
	);
	assert.equal(view.errors[0].code, 'too_large');
	assert.equal(client.status.status, 'retrying');
});

test('an answer to a permission request is sent again until it is in the log', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	client.answerPermission('r1', 'allow');
	server.socket.break();
	server.advance(1000);
	assert.deepEqual(server.sent('permission_answer'), [{ request_id: 'r1', option_id: 'allow' }]);
	server.emit({
		type: 'permission_resolved',
		data: { request_id: 'r1', outcome: 'selected', option_id: 'allow' },
	});
	server.pump();
	server.socket.break();
	server.advance(1000);
	assert.equal(server.sent('permission_answer').length, 1);
});

test('an answer to an elicitation is sent again until the log shows one, or it is refused', () => {
	const server = new FakeServer();
	const { client, view } = observe(server);
	const content = { name: 'Ann' };
	client.answerElicitation('e1', 'accept', content);
	content.name = 'changed later';
	server.pump();
	const e1 = { request_id: 'e1', action: 'accept', content: { name: 'Ann' } };
	assert.deepEqual(server.sent('elicitation_answer'), [e1], 'with the first connection');
	server.socket.break();
	server.advance(1_000);
	server.pump();
	assert.deepEqual(server.sent('elicitation_answer'), [e1, e1]);
	refuseStorage(server, { request: 'elicitation_answer', request_id: 'e1' });
	assert.equal(view.errors[0].detail.retrying, true);
	server.advance(2_000);
	assert.equal(server.sent('elicitation_answer').length, 3);
	server.emit({ type: 'elicitation_resolved', data: { request_id: 'e1', action: 'accept' } });
	server.pump();
	client.answerElicitation('e2', 'decline');
	server.pump();
	server.socket.queue('error', { code: 'bad_request', message: 'x', request: 'elicitation_answer', request_id: 'e2' });
	server.pump();
	server.socket.break();
	server.advance(1_000);
	server.pump();
	assert.deepEqual(server.sent('elicitation_answer').slice(3), [{ request_id: 'e2', action: 'decline' }]);
});

/** The server refuses an answer or a prompt, because it cannot write to its disk. */
function refuseStorage(server, data) {
	server.socket.queue('error', { code: 'storage_failed', message: 'The disk is full.', ...data });
	server.socket.deliver();
}

test('an answer that the server could not store is said again until it is in the log', () => {
	const server = new FakeServer();
	const { client, view } = observe(server);
	server.pump();
	client.answerPermission('r1', 'allow');
	client.answerPermission('r2', 'no');
	server.pump();
	refuseStorage(server, { request: 'permission_answer', request_id: 'r1' });
	refuseStorage(server, { request: 'permission_answer', request_id: 'r1' });
	assert.deepEqual(view.errors.map(({ code, detail }) => [code, detail.request_id, detail.retrying]), [['storage_failed', 'r1', true]]);
	server.emit({ type: 'permission_resolved', data: { request_id: 'r2', outcome: 'selected', option_id: 'no' } });
	server.pump();
	server.advance(2_000);
	const r1 = { request_id: 'r1', option_id: 'allow' };
	assert.deepEqual(server.sent('permission_answer'), [r1, { request_id: 'r2', option_id: 'no' }, r1]);
	refuseStorage(server, { request: 'permission_answer', request_id: 'r1' });
	assert.equal(view.errors.length, 1, 'it is told once');
	server.socket.break();
	server.advance(1_000);
	assert.equal(server.sent('permission_answer').length, 4, 'with the next connection at once');
	server.emit({ type: 'permission_resolved', data: { request_id: 'r1', outcome: 'selected', option_id: 'allow' } });
	server.pump();
	server.advance(4_000);
	assert.equal(server.sent('permission_answer').length, 4);
});

test('who is asked to choose again while an answer is on its way says the new one', () => {
	const server = new FakeServer();
	const { client, view } = observe(server);
	server.pump();
	client.answerPermission('r1', 'allow');
	server.pump();
	refuseStorage(server, { request: 'permission_answer' }); // an older server: of which, it does not say
	client.answerPermission('r1', 'no');
	server.pump();
	refuseStorage(server, { request: 'permission_answer', request_id: 'r1' });
	server.advance(2_000);
	assert.deepEqual(server.sent('permission_answer').map(({ option_id }) => option_id), ['allow', 'no', 'no']);
	assert.equal(view.errors.length, 2, 'each answer of the user has its error');
});

test('a prompt of which nobody knows whether it is stored is sent again under its id', () => {
	const server = new FakeServer();
	const { client, view } = observe(server);
	server.pump();
	client.prompt('go', { promptId: 'p1' });
	refuseStorage(server, { request: 'prompt', prompt_id: 'p1', outcome: 'unknown' });
	assert.deepEqual(view.errors.map(({ code, detail }) => [code, detail.retrying, detail.prompt]), [['storage_failed', true, undefined]]);
	assert.equal(client.prompts.length, 1);
	server.advance(2_000);
	assert.deepEqual(server.sent('prompt').map(({ prompt_id }) => prompt_id), ['p1', 'p1']);
});

test('nothing is said again once the client is closed', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	client.answerPermission('r1', 'allow');
	server.pump();
	refuseStorage(server, { request: 'permission_answer', request_id: 'r1' });
	client.close();
	server.advance(10_000);
	assert.equal(server.received.filter(({ type }) => type === 'permission_answer').length, 1);
});

test('an answer that came too late is not sent again', () => {
	const server = new FakeServer();
	const { client, view } = observe(server);
	server.pump();
	client.answerPermission('r1', 'allow');
	server.pump();
	server.socket.queue('error', {
		code: 'already_resolved',
		message: 'x',
		request: 'permission_answer',
		request_id: 'r1',
	});
	server.pump();
	server.socket.break();
	server.advance(1000);
	assert.equal(server.sent('permission_answer').length, 1);
	assert.equal(view.errors[0].code, 'already_resolved');
});

test('cancel is never kept for a later turn', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	assert.equal(client.cancel(), true);
	server.pump();
	server.socket.break();
	assert.equal(client.cancel(), false);
	server.advance(1000);
	assert.equal(server.sent('cancel').length, 1);
});

test('cancel names the turn that is seen', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	server.emit({ type: 'user_prompt', turn: 3, data: { message: 'one' } });
	server.pump();
	client.cancel();
	server.emit({ type: 'turn_end', turn: 3, data: { stop_reason: 'end_turn' } });
	server.pump();
	client.cancel();
	server.pump();
	assert.deepEqual(server.sent('cancel'), [{ turn: 3 }, {}]);
});

test('nothing is sent before the server has said who it is', () => {
	const server = new FakeServer();
	const { client } = observe(server);
	server.pump();
	server.socket.break();
	server.timers.advance(1000);
	server.socket.step(); // the socket is open, `connected` is in flight
	assert.equal(server.socket.readyState, 1);
	assert.equal(client.cancel(), false);
	client.answerPermission('r1', 'allow');
	client.prompt('x');
	server.pump();
	assert.deepEqual(
		server.received.slice(1).map(({ type }) => type),
		['load_events', 'prompt', 'permission_answer'],
	);
});

test('previews grow the open block until its event takes its place', () => {
	const server = new FakeServer().fill(1);
	server.open = { seq: 2, type: 'agent_message', html: '<p>a</p>' };
	const { client, view } = observe(server, { deltas: 'html' });
	server.pump();
	assert.deepEqual(view.open, [{ seq: 2, type: 'agent_message', html: '<p>a</p>' }]);
	server.toAll('preview', { seq: 2, type: 'agent_message', html: '<p>ab</p>' });
	server.toAll('preview', { seq: 3, type: 'agent_message', html: '<p>c</p>' });
	server.pump();
	assert.deepEqual(seqs(view.open), [2, 3]);
	server.emit({ data: { html: '<p>ab</p>' } });
	server.toAll('preview', { seq: 2, type: 'agent_message', html: '<p>late</p>' });
	server.pump();
	assert.deepEqual(seqs(client.open), [3]);
});

test('deltas are joined by their offset in bytes, and repeated ones add nothing', () => {
	const server = new FakeServer();
	server.open = { seq: 1, type: 'agent_message', text: 'né' };
	const { view } = observe(server, { deltas: 'text' });
	server.pump();
	server.toAll('delta', { seq: 1, type: 'agent_message', offset: 3, text: 'e ✓' });
	server.toAll('delta', { seq: 1, type: 'agent_message', offset: 1, text: 'ée ✓!' });
	server.toAll('delta', { seq: 1, type: 'agent_message', offset: 50, text: 'lost' });
	server.pump();
	assert.equal(view.open[0].text, 'née ✓!');
});

test('an open block that is gone after a reconnect is said to be gone', () => {
	const server = new FakeServer().fill(1);
	server.open = { seq: 2, type: 'agent_message', html: '<p>a</p>' };
	const { view } = observe(server, { deltas: 'html' });
	server.pump();
	server.socket.break();
	assert.equal(view.open.length, 1, 'it stays on the page while we are away');
	server.open = null;
	server.advance(1000);
	assert.deepEqual(view.open, []);
});

test('activity lasts until the event with its seq', () => {
	const server = new FakeServer().fill(1);
	const { view } = observe(server);
	server.pump();
	server.toAll('activity', { seq: 3, type: 'tool_call', data: { title: 'x' } });
	server.pump();
	assert.deepEqual(view.activity, [3]);
	server.emit({}, { type: 'tool_call' });
	server.pump();
	assert.deepEqual(view.activity, []);
});

test('the feed keeps the list of sessions, newest update first', () => {
	const server = new FakeServer();
	server.answer = () => {};
	const feed = new HoldfastFeed(server.surroundings);
	let list = [];
	feed.on('sessions', ({ sessions }) => {
		list = sessions.map(({ id }) => id);
	});
	feed.connect();
	assert.equal(new URL(server.socket.url).pathname, '/api/events');
	server.socket.step();
	server.socket.queue('sessions', {
		sessions: [
			{ id: 'a', updated_at: 1 },
			{ id: 'b', updated_at: 2 },
		],
		more: false,
	});
	server.pump();
	assert.deepEqual(list, ['b', 'a']);
	server.socket.queue('session_created', { session: { id: 'c', updated_at: 3 } });
	server.socket.queue('session_changed', { session: { id: 'a', updated_at: 4 } });
	server.socket.queue('session_deleted', { session_id: 'b' });
	server.pump();
	assert.deepEqual(list, ['a', 'c']);
	server.socket.break();
	assert.equal(feed.status.status, 'retrying');
	server.advance(1000);
	server.socket.queue('sessions', { sessions: [{ id: 'z', updated_at: 1 }], more: false });
	server.pump();
	assert.deepEqual(list, ['z'], 'a new list replaces the old one');
	feed.close();
	assert.equal(server.timers.pending, 0);
});

test('a list in pages replaces the old one when it is whole', () => {
	const server = new FakeServer();
	server.answer = () => {};
	const feed = new HoldfastFeed(server.surroundings);
	const lists = [];
	feed.on('sessions', ({ sessions }) => lists.push(sessions.map(({ id, updated_at }) => `${id}${updated_at}`)));
	feed.connect();
	server.socket.step();
	const page = (sessions, more) =>
		server.socket.queue('sessions', {
			sessions: sessions.map((id) => ({ id, updated_at: 1 })),
			more,
		});
	page(['a', 'b', 'c'], true);
	server.socket.queue('session_deleted', { session_id: 'a' });
	server.socket.queue('session_changed', { session: { id: 'b', updated_at: 2 } });
	server.socket.queue('session_created', { session: { id: 'x', updated_at: 3 } });
	server.pump();
	assert.deepEqual(lists, []);
	assert.notEqual(feed.status.status, 'live');
	page(['d', 'x'], false);
	server.pump();
	assert.deepEqual(lists, [['b2', 'c1', 'd1', 'x1']]);
	assert.equal(feed.status.status, 'live');

	page(['d'], true);
	server.socket.break();
	server.advance(1000);
	page(['e'], false);
	server.pump();
	assert.deepEqual(lists.at(-1), ['e1'], 'half a list went with its connection');
	feed.close();
});
