// Editors, by hand: what comes in one piece with a prompt, before anything of it is told.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';

let ids = 0;
const request = (method, params) => ({ jsonrpc: '2.0', id: ++ids, method, params });
const prompt = (text, promptId) => request('session/prompt', { sessionId: 's', prompt: [{ type: 'text', text }], ...(promptId && { _meta: { holdfast: { prompt_id: promptId } } }) });
const takeBack = (id) => ({ jsonrpc: '2.0', method: '$/cancel_request', params: { requestId: id } });

async function start(t) {
	const server = await Server.start(t, { agent: demoAgent('--rate 100') });
	await server.createSession({ id: 's' });
	return server;
}

async function open(t, server, options) {
	const editor = new TestSocket(t, server.ws('/acp'), () => null, options);
	for (const message of [request('initialize', { protocolVersion: 1, clientCapabilities: {} }), request('session/resume', { sessionId: 's', cwd: '/' })]) {
		await editor.sendRaw(JSON.stringify(message));
		assert.ok((await editor.waitFor(({ id }) => id === message.id)).result);
	}
	return editor;
}

const together = (editor, ...messages) => editor.sendRawTogether(messages.map((message) => JSON.stringify(message)));

test('a cancel, or a request that is taken back, that comes with its prompt stops it', async (t) => {
	const server = await start(t);
	const editor = await open(t, server);
	const cancelled = prompt('markdown list');
	await together(editor, cancelled, { jsonrpc: '2.0', method: 'session/cancel', params: { sessionId: 's' } });
	assert.deepEqual((await editor.waitFor(({ id }) => id === cancelled.id)).result, { stopReason: 'cancelled' });
	const takenBack = prompt('markdown list');
	await together(editor, takenBack, takeBack(takenBack.id));
	assert.deepEqual((await editor.waitFor(({ id }) => id === takenBack.id)).result, { stopReason: 'cancelled' });
});

test('a request that is taken back while its answer is being loaded stops no other prompt', async (t) => {
	const server = await start(t);
	const before = await open(t, server);
	const old = prompt('list', 'old');
	await before.sendRaw(JSON.stringify(old));
	await before.waitFor(({ id }) => id === old.id);
	await server.stop();
	await server.restart(); // the old turn is on disk only
	const observer = await Observer.connect(t, server, 's');
	await observer.loadAll();
	const editor = await open(t, server);
	const running = prompt('markdown list', 'new');
	await editor.sendRaw(JSON.stringify(running));
	await editor.waitFor(({ params }) => params?.update?.sessionUpdate === 'agent_message_chunk');
	const again = prompt('list', 'old');
	await together(editor, again, takeBack(again.id));
	const { data } = await observer.waitForEvent((event) => event.type === 'turn_end' && event.turn === 2);
	assert.equal(data.stop_reason, 'end_turn');
	assert.deepEqual((await editor.waitFor(({ id }) => id === running.id)).result, { stopReason: 'end_turn' });
});

test('a prompt of somebody else, sent again and taken back, stays in the queue', async (t) => {
	const server = await start(t);
	const as = (sub) => ({ headers: bearer(ownToken(server, 'controller', ['s'], { sub })) });
	const ann = await Observer.connect(t, server, 's', as('ann'));
	await ann.loadAll();
	await ann.send('prompt', { message: 'markdown list', prompt_id: 'first' });
	await ann.send('prompt', { message: 'list', prompt_id: 'second' });
	await ann.waitFor(({ type, data }) => type === 'prompt_received' && data.prompt_id === 'second');
	const bob = await open(t, server, as('bob'));
	const again = prompt('list', 'second');
	await together(bob, again, takeBack(again.id), request('session/list', {}));
	await bob.waitFor(({ id, result }) => id === ids && result);
	const removed = await Observer.connect(t, server, 's', as('bob'));
	await removed.loadAll();
	await removed.send('remove_prompt', { prompt_id: 'second' });
	assert.equal((await removed.waitFor('error')).data.code, 'forbidden');
	await ann.waitForEvent((event) => event.type === 'user_prompt' && event.data.prompt_id === 'second');
	assert.deepEqual((await bob.waitFor(({ id }) => id === again.id)).result, { stopReason: 'end_turn' });
});

test('a prompt of somebody else that is not on disk yet cannot be removed either', async (t) => {
	const server = await start(t);
	const as = (sub) => ({ headers: bearer(ownToken(server, 'controller', ['s'], { sub })) });
	const [ann, bob] = await Promise.all(['ann', 'bob'].map((sub) => Observer.connect(t, server, 's', as(sub))));
	await ann.loadAll();
	await ann.send('prompt', { message: 'long 300', prompt_id: 'first' });
	await ann.waitForEvent((event) => event.type === 'user_prompt');
	for (let i = 0; i < 20; i++) {
		await Promise.all([ann.send('prompt', { message: 'list', prompt_id: `p-${i}` }), bob.send('remove_prompt', { prompt_id: `p-${i}` })]);
		await ann.waitFor(({ type, data }) => type === 'prompt_received' && data.prompt_id === `p-${i}`);
	}
	await bob.waitUntil(() => bob.frames.filter(({ type }) => type === 'error').length === 20, 'all refusals');
	assert.deepEqual(bob.frames.filter(({ type }) => type === 'prompt_removed'), []);
});
