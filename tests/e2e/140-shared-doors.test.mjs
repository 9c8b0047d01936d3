// What observers at one place share is the same for each as if it were alone: chats of the AI SDK over both transports, editors, readers of Durable Streams, that come at any time, with tokens that hide something and without.

import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import { openChat, textOf } from '../support/ai_chat.mjs';
import { authOf } from '../support/auth.mjs';
import { Editor } from '../support/editor.mjs';
import { markdownOf, servedLog } from '../support/log.mjs';
import { input, post } from '../support/producer.mjs';
import { Server } from '../support/server.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { defer, eventually } from '../support/wait.mjs';

const STEPS = 10;

/** What a turn does in its step `i`. */
const step = (i) => [
	input.thought(`Thought ${i}. `), input.text(`Text ${i} begins`), input.text(` and ends.\n\n`),
	...(i % 2 ? [{ type: 'tool_call', data: { tool_call_id: `t-${i}`, title: `Call ${i}`, kind: 'read', raw_input: { i } } }] : []),
	...(i % 2 === 0 && i ? [{ type: 'tool_call_update', data: { tool_call_id: `t-${i - 1}`, status: 'completed', raw_output: `${i}` } }] : []),
	input.text(`Text ${i} grows`),
];

async function start(t) {
	const server = await Server.start(t);
	await server.createSession({ id: 's' });
	await post(server, 's', step(0));
	return server;
}

async function openEditor(t, server, options) {
	const editor = await Editor.open(t, server, options);
	await editor.load('s');
	return editor;
}

/** Reads a stream of Durable Streams; `items` are what it has brought. */
async function openStream(t, server) {
	const response = await new Promise((resolve, reject) => {
		const request = http.get(`${server.url}/ds/sessions/s?offset=-1&live=sse&format=markdown`, { headers: authOf(server.url) }, resolve).on('error', reject);
		defer(t, () => request.destroy());
	});
	assert.equal(response.statusCode, 200);
	let text = '';
	response.setEncoding('utf8').on('data', (more) => (text += more)).on('error', () => {});
	const of = (kind) => [...text.matchAll(new RegExp(`^event: ${kind}\\ndata: (.*)\\n\\n`, 'gm'))].map(([, data]) => JSON.parse(data));
	return { items: () => of('data').flat(), last: () => of('control').at(-1) };
}

test('chats that resume one turn, each at another moment, get the same message, and those that hide tools none of these', async (t) => {
	const server = await start(t);
	const hidden = bearer(ownToken(server, 'observer', ['*'], { holdfast: { role: 'observer', sessions: ['*'], hide: ['tools'] } }));
	const chats = [];
	const blind = [];
	const open = async (list, i, options) => {
		const chat = openChat(t, server, 's', { kind: i % 2 ? 'http' : 'websocket', ...options });
		chat.resumeStream();
		await chat.until(() => chat.messages.length > 0);
		list.push(chat);
	};
	for (let i = 1; i < STEPS; i++) {
		await Promise.all([open(chats, 0), open(chats, 1), open(blind, i, { headers: hidden })]);
		await post(server, 's', step(i));
	}
	await post(server, 's', input.end());
	for (const chat of [...chats, ...blind]) {
		await chat.until(() => ['ready', 'error'].includes(chat.status));
		assert.deepEqual(chat.errors, []);
	}
	const events = await servedLog(server);
	const [{ parts: expected }] = chats[0].messages;
	assert.equal(expected.filter(({ type }) => type === 'dynamic-tool').length, STEPS / 2);
	for (const chat of chats) {
		assert.equal(textOf(chat.messages[0]), markdownOf(events));
		assert.deepEqual(chat.messages[0].parts, expected);
	}
	for (const chat of blind) {
		assert.equal(textOf(chat.messages[0]), markdownOf(events));
		assert.ok(chat.messages[0].parts.every(({ type }) => type !== 'dynamic-tool'));
	}
});

test('editors and readers of streams that look on get all of it, each once; a question in between is asked of each', async (t) => {
	const server = await start(t);
	const [editors, streams] = [[], []];
	for (let i = 1; i < STEPS; i++) {
		editors.push(await openEditor(t, server, i % 3 ? {} : { capabilities: {} }));
		streams.push(await openStream(t, server));
		await post(server, 's', step(i));
	}
	await post(server, 's', { type: 'permission_request', data: { request_id: 'q', tool_call: { tool_call_id: 't-1' }, options: [{ option_id: 'a', name: 'A', kind: 'allow_once' }] } });
	await Promise.all(editors.map((editor) => editor.question()));
	await post(server, 's', { type: 'permission_resolved', data: { request_id: 'q', outcome: 'selected', option_id: 'a' } });
	await post(server, 's', [...step(STEPS), input.text('\n\nThe end.\n\n'), input.end()]);
	const events = await servedLog(server);
	for (const editor of editors) {
		await editor.until(() => editor.said('s') === markdownOf(events), 'all of the text').catch(() => assert.equal(editor.said('s'), markdownOf(events)));
		assert.equal(editor.of('s', 'tool_call').length, STEPS / 2);
		editor.assertGood();
	}
	for (const stream of streams) {
		await eventually(() => stream.items().length >= events.length, () => `${events.length} events; there are ${stream.items().length}`);
		assert.deepEqual(stream.items(), events);
		await eventually(() => stream.last().upToDate);
		assert.ok(stream.last().streamNextOffset.endsWith(String(events.at(-1).seq).padStart(16, '0')));
	}
});
