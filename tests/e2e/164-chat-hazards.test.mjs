// Chats of the AI SDK, by hand: a session that is deleted under an idle chat, or under one whose request waits; a stop for an answer that is still being loaded.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { servedLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';

const user = (id, text) => ({ type: 'send', requestId: `r-${id}`, id: 'c', trigger: 'submit-message', headers: {}, body: {}, messages: [{ id, role: 'user', parts: [{ type: 'text', text }] }] });
const resume = (requestId) => ({ type: 'resume', requestId, id: 'c', headers: {}, body: {} });

async function start(t, options = {}) {
	const server = await Server.start(t, { agent: demoAgent('--rate 100'), ...options });
	await server.createSession({ id: 's' });
	return server;
}

const open = (t, server) => new TestSocket(t, server.ws('/api/ai/s'), () => null);

test('a chat that is idle when its session is deleted is told by a close, as one that comes later', async (t) => {
	const server = await start(t);
	const chat = open(t, server);
	await chat.sendRaw(JSON.stringify(resume('a')));
	await chat.waitFor(({ requestId }) => requestId === 'a');
	assert.equal((await server.request('DELETE', '/api/sessions/s')).status, 204);
	await chat.waitClosed();
	assert.equal(chat.closed.code, 4404);
	const late = open(t, server);
	await late.waitClosed();
	assert.equal(late.closed.code, 4404);
});

test('a stop for an answer that is still being loaded does not stop the turn of another prompt', async (t) => {
	const server = await start(t);
	const before = open(t, server);
	await before.sendRaw(JSON.stringify(user('old', 'list')));
	await before.waitFor(({ type }) => type === 'end');
	await server.stop();
	await server.restart(); // the old turn is on disk only
	const observer = await Observer.connect(t, server, 's');
	await observer.loadAll();
	await observer.send('prompt', { message: 'markdown list', prompt_id: 'new' });
	await observer.waitForEvent((event) => event.type === 'user_prompt' && event.data.prompt_id === 'new');
	const chat = open(t, server);
	await chat.sendRaw(JSON.stringify(resume('names'))); // it is open
	await chat.waitFor(({ type }) => type === 'start');
	await chat.sendRawTogether([user('old', 'list'), { type: 'abort', requestId: 'r-old' }].map((frame) => JSON.stringify(frame)));
	const { data } = await observer.waitForEvent((event) => event.type === 'turn_end' && event.turn === 2);
	assert.equal(data.stop_reason, 'end_turn');
	assert.equal((await servedLog(server)).filter(({ type }) => type === 'user_prompt').length, 2);
});

test('a cancel under the requestId of an answer is refused: no answer ends twice', async (t) => {
	const server = await start(t);
	const chat = open(t, server);
	await chat.sendRaw(JSON.stringify(user('m', 'long 500')));
	await chat.waitFor(({ chunk }) => chunk?.type === 'text-delta');
	const cancel = (requestId) => JSON.stringify({ ...user('m', 'long 500'), type: 'cancel', requestId });
	await chat.sendRaw(cancel('r-m'));
	await chat.waitFor(({ type, errorText }) => type === 'error' && /in use/.test(errorText));
	await chat.sendRaw(cancel('another'));
	await chat.waitFor(({ type, requestId }) => type === 'end' && requestId === 'r-m');
	assert.equal(chat.frames.filter(({ type, requestId }) => type === 'end' && requestId === 'r-m').length, 1);
});
