/** The client library: prompts that wait, and changing them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FakeServer } from './fake_server.mjs';
import { observe } from './observe.mjs';

const waiting = (promptId, message = promptId, rest = {}) => ({ prompt_id: promptId, message, client_id: 'me', ...rest });

function tellQueue(server, ...queue) {
	server.toAll('state', { is_prompting: true, is_running: true, queue_length: queue.length, queue, usage: null, status: 'running' });
	server.pump();
}

/** A client that is live, and its server. */
function start() {
	const server = new FakeServer();
	const { client, view } = observe(server);
	const told = [];
	client.on('queue', ({ queue }) => told.push(queue.map(({ prompt_id, message }) => `${prompt_id} ${message}`)));
	server.pump();
	return { server, client, view, told };
}

/** How a promise ends, once it has: its value, or the code of its error. */
function outcome(promise) {
	const seen = { ended: null };
	promise.then(
		(value) => (seen.ended = { value }),
		(error) => (seen.ended = { code: error.code, detail: error.detail }),
	);
	return seen;
}

const settled = () => new Promise((done) => setImmediate(done));

test('the queue is what the server tells, said when it changes', () => {
	const { server, client, told } = start();
	tellQueue(server, waiting('a'), waiting('b'));
	tellQueue(server, waiting('a'), waiting('b'));
	tellQueue(server, waiting('a'), waiting('b', 'other', { edited: true }));
	assert.deepEqual(told, [['a a', 'b b'], ['a a', 'b other']]);
	assert.deepEqual(client.queue[1], { prompt_id: 'b', message: 'other', client_id: 'me', edited: true });
	assert.throws(() => (client.queue[0].message = 'changed by somebody'), TypeError);
	assert.equal(client.queue[0].message, 'a');
	tellQueue(server);
	assert.deepEqual(client.queue, []);
});

test('edits, removals and lists end with the answer that is theirs', async () => {
	const { server, client } = start();
	const edits = [outcome(client.editPrompt('a', '1')), outcome(client.editPrompt('b', '2')), outcome(client.editPrompt('a', '3'))];
	const removal = outcome(client.removePrompt('b'));
	const lists = [outcome(client.listPrompts()), outcome(client.listPrompts({ promptId: 'a' }))];
	server.pump();
	assert.deepEqual(server.sent('edit_prompt'), [
		{ prompt_id: 'a', message: '1' }, { prompt_id: 'b', message: '2' }, { prompt_id: 'a', message: '3' },
	]);
	assert.deepEqual(server.sent('list_prompts'), [{}, { prompt_id: 'a' }]);
	server.toAll('prompt_edited', { prompt_id: 'b' });
	server.toAll('prompt_edited', { prompt_id: 'a' });
	server.toAll('prompt_removed', { prompt_id: 'b', duplicate: true });
	server.toAll('prompts', { prompts: [waiting('a')] });
	server.pump();
	await settled();
	assert.deepEqual(edits.map(({ ended }) => ended !== null), [true, true, false]);
	assert.deepEqual(removal.ended.value, { duplicate: true });
	assert.deepEqual(lists[0].ended.value, [waiting('a')]);
	assert.equal(lists[1].ended, null);
});

test('a refusal goes to who asked, with its code, and is no error of the connection', async () => {
	const { server, client, view } = start();
	const first = outcome(client.editPrompt('a', 'x'));
	const second = outcome(client.removePrompt('a'));
	server.pump();
	const refusal = { code: 'not_queued', message: 'it has begun', prompt_id: 'a', seq: 7 };
	server.toAll('error', { ...refusal, request: 'remove_prompt' });
	server.pump();
	await settled();
	assert.equal(first.ended, null);
	assert.equal(second.ended.code, 'not_queued');
	assert.equal(second.ended.detail.seq, 7);
	assert.deepEqual(view.errors, []);
	server.toAll('error', { ...refusal, request: 'remove_prompt' }); // one that nobody waits for
	server.pump();
	assert.deepEqual(view.errors.map(({ code }) => code), ['not_queued']);
});

test('what has no answer is asked again, behind the prompts that it is about', async () => {
	const { server, client } = start();
	server.socket.break();
	const { id } = client.prompt('one');
	const edit = outcome(client.editPrompt(id, 'two'));
	server.advance(1_000);
	server.socket.break();
	server.advance(1_000);
	const order = server.received.filter(({ type }) => /prompt/.test(type)).map(({ type }) => type);
	assert.deepEqual(order, ['prompt', 'edit_prompt', 'edit_prompt']);
	server.toAll('error', { code: 'shutting_down', message: 'later', request: 'edit_prompt', prompt_id: id });
	server.pump();
	server.socket.break();
	server.advance(1_000);
	assert.equal(server.sent('edit_prompt').length, 3);
	server.toAll('prompt_edited', { prompt_id: id });
	server.pump();
	server.socket.break();
	server.advance(1_000);
	await settled();
	assert.deepEqual(edit.ended, { value: undefined });
	assert.equal(server.sent('edit_prompt').length, 3);
});

test('nobody waits for an answer that cannot come', async () => {
	const { server, client } = start();
	const before = outcome(client.listPrompts());
	server.pump();
	client.close();
	await settled();
	assert.equal(before.ended?.code, 'closed');
	const after = outcome(client.removePrompt('a'));
	await settled();
	assert.equal(after.ended?.code, 'closed');
	assert.equal(server.sent('remove_prompt').length, 0);
});

test('an edit that is too large does not break one connection after another', async () => {
	const { server, client } = start();
	const long = outcome(client.editPrompt('a', 'x'.repeat(2_000_000)));
	const short = outcome(client.editPrompt('b', 'x'));
	server.pump();
	server.socket.break(1009);
	server.advance(1_000);
	await settled();
	assert.equal(long.ended.code, 'too_large');
	assert.equal(short.ended, null);
	assert.deepEqual(server.sent('edit_prompt').slice(2), [{ prompt_id: 'b', message: 'x' }]);
});

test('a prompt that was removed is not waited for, whoever removed it', async () => {
	const { server, client } = start();
	const [mine, theirs, begun] = ['one', 'two', 'three'].map((message) => client.prompt(message).id);
	server.pump();
	tellQueue(server, waiting(mine), waiting(theirs), waiting(begun));
	assert.equal(server.sent('prompt').length, 3);
	const removal = outcome(client.removePrompt(mine));
	server.pump();
	server.toAll('prompt_removed', { prompt_id: mine, duplicate: false });
	server.pump();
	await settled();
	assert.deepEqual(removal.ended.value, { duplicate: false });
	assert.deepEqual(client.prompts.map(({ prompt_id }) => prompt_id), [theirs, begun]);
	// It was not we who took these out: the server says what has become of them.
	const nothing = { is_prompting: true, is_running: true, queue_length: 0, queue: [], usage: null };
	server.toAll('state', { ...nothing, status: 'running' });
	server.toAll('state', { ...nothing, status: 'waiting' });
	server.pump();
	assert.deepEqual(server.sent('prompt').slice(3).map(({ prompt_id }) => prompt_id), [theirs, begun], 'asked once');
	server.toAll('prompt_received', { prompt_id: theirs, seq: null, duplicate: true, removed: true });
	server.toAll('prompt_received', { prompt_id: begun, seq: 1, duplicate: true });
	server.pump();
	assert.deepEqual(client.prompts.map(({ prompt_id, state }) => [prompt_id, state]), [[begun, 'received']]);
	server.emit({ type: 'user_prompt', data: { prompt_id: begun } });
	server.pump();
	assert.deepEqual(client.prompts, []);
	server.socket.break();
	server.advance(1_000);
	assert.equal(server.sent('prompt').length, 5, 'never sent again');
});

test('a queue of which the state tells a part says nothing about the rest', () => {
	const { server, client } = start();
	client.prompt('the last of many');
	server.pump();
	server.toAll('state', { is_prompting: true, is_running: true, queue_length: 2, queue: [waiting('a')], usage: null, status: 'running' });
	server.pump();
	assert.equal(server.sent('prompt').length, 1);
});

test('images and files go with their prompt, also when it is sent again', async () => {
	const { server, client } = start();
	const content = [{ type: 'image', blob: 'a'.repeat(64) }];
	client.prompt('Look', { promptId: 'p-1', content });
	client.prompt('No more', { promptId: 'p-2' });
	content[0].blob = 'changed by somebody';
	const sent = [{ message: 'Look', prompt_id: 'p-1', content: [{ type: 'image', blob: 'a'.repeat(64) }] }, { message: 'No more', prompt_id: 'p-2' }];
	server.pump();
	assert.deepEqual(server.sent('prompt').slice(0, 2), sent);
	assert.deepEqual(client.prompts[0].content, sent[0].content);
});
