// What observers at one place share is the same for each as if it were alone: chats of the AI SDK that come at any time, over both transports, with tokens that hide something and without.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openChat, textOf } from '../support/ai_chat.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';

const CHATS = 24;

function open(t, server, i, headers) {
	const chat = openChat(t, server, 's', { kind: i % 2 ? 'http' : 'websocket', ...(headers && { headers }) });
	chat.resumeStream();
	return chat;
}

test('chats that resume one turn, each at another moment, all get the same message, and those that hide tools none of these', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 600') });
	await server.createSession({ id: 's' });
	const hidden = bearer(ownToken(server, 'observer', ['*'], { holdfast: { role: 'observer', sessions: ['*'], hide: ['tools'] } }));
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown', deltas: 'text' } });
	await observer.loadAll();
	await observer.prompt('thoughts tools list markdown tools list');
	await observer.waitForEvent(({ type }) => type === 'user_prompt');
	const chats = [];
	const blind = [];
	for (let i = 0; i < CHATS; i++) {
		chats.push(open(t, server, i));
		if (i % 4 === 0) {
			blind.push(open(t, server, i / 4, hidden));
		}
		const seen = observer.frames.length;
		await observer.waitUntil(() => observer.frames.length > seen + 2 || observer.events().some(({ type }) => type === 'turn_end'), 'more of the answer');
	}
	await observer.waitForEvent('turn_end');
	for (const chat of [...chats, ...blind]) {
		await chat.until(() => ['ready', 'error'].includes(chat.status) && chat.messages.length > 0);
		assert.deepEqual(chat.errors, []);
	}
	const [{ parts: expected }] = chats[0].messages;
	const tools = observer.events().filter(({ type }) => type === 'tool_call').length;
	assert.equal(expected.filter(({ type }) => type === 'dynamic-tool').length, tools);
	assert.ok(tools > 1);
	const text = observer.events().filter(({ type }) => type === 'agent_message').map(({ data }) => data.markdown).join('');
	for (const chat of chats) {
		assert.deepEqual(chat.messages[0].parts, expected);
	}
	for (const chat of blind) {
		assert.equal(textOf(chat.messages[0]), text);
		assert.ok(chat.messages[0].parts.every(({ type }) => type !== 'dynamic-tool'));
	}
});
