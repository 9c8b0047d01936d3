// A session as AG-UI events: each is valid by the schemas of npm @ag-ui/core, in an order that its rules allow, and says what the log says; broken connections and new clients resume.

import assert from 'node:assert/strict';
import { readFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { EventSchemas } from '@ag-ui/core/schemas';
import WebSocket from 'ws';
import { AgUiFold, agUiEvents } from '../../web/client/ag-ui/index.js';
import { HoldfastClient } from '../../web/client/holdfast-client.js';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { defer, eventually, patience } from '../support/wait.mjs';

const library = fileURLToPath(new URL('../../web/client', import.meta.url));
const docs = readFileSync(fileURLToPath(new URL('../../docs/ag-ui.md', import.meta.url)), 'utf8');

/** What an AG-UI client keeps: checks each event, and its place among the others. */
class Consumer {
	runs = [];
	events = [];
	#open = new Map();

	take = (event) => {
		EventSchemas.parse(event);
		this.events.push(event);
		const run = this.runs.at(-1);
		if (event.type === 'RUN_STARTED') {
			assert.ok(!run || run.end, 'one run at a time');
			this.runs.push({ id: event.runId, threadId: event.threadId, messages: new Map(), tools: new Map(), custom: [], state: null, end: null });
			return;
		}
		assert.ok(run && !run.end, `${event.type} is in a run`);
		this.#takeInRun(run, event);
	};

	#begin(key) {
		assert.ok(!this.#open.has(key), `${key} begins once`);
		this.#open.set(key, true);
	}

	#end(key) {
		assert.ok(this.#open.delete(key), `${key} was begun`);
	}

	#takeInRun(run, event) {
		const { type, messageId, toolCallId } = event;
		if (type === 'TEXT_MESSAGE_START' || type === 'REASONING_MESSAGE_START') {
			this.#begin(messageId);
			run.messages.set(messageId, { role: event.role, text: '' });
		} else if (type.endsWith('MESSAGE_CONTENT')) {
			assert.ok(this.#open.has(messageId));
			assert.ok(event.delta.length > 0);
			run.messages.get(messageId).text += event.delta;
		} else if (type === 'TEXT_MESSAGE_END' || type === 'REASONING_MESSAGE_END') {
			this.#end(messageId);
		} else if (type === 'TOOL_CALL_START') {
			this.#begin(toolCallId);
			run.tools.set(toolCallId, { name: event.toolCallName, args: '', result: null });
		} else if (type === 'TOOL_CALL_ARGS') {
			assert.ok(this.#open.has(toolCallId));
			run.tools.get(toolCallId).args += event.delta;
		} else if (type === 'TOOL_CALL_END') {
			this.#end(toolCallId);
		} else if (type === 'TOOL_CALL_RESULT') {
			run.tools.get(toolCallId).result = event.content;
		} else if (type === 'STATE_SNAPSHOT') {
			run.state = structuredClone(event.snapshot);
		} else if (type === 'STATE_DELTA') {
			event.delta.forEach((operation) => patch(run.state, operation));
		} else if (type === 'CUSTOM') {
			run.custom.push(event.name);
		} else if (type === 'RUN_FINISHED' || type === 'RUN_ERROR') {
			assert.equal(this.#open.size, 0, 'all is closed');
			run.end = event;
		}
	}
}

function patch(state, { op, path, value }) {
	const names = path.split('/').slice(1).map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
	const holder = names.slice(0, -1).reduce((at, name) => at[name], state);
	if (op === 'remove') {
		assert.ok(delete holder[names.at(-1)]);
	} else {
		holder[names.at(-1)] = value;
	}
}

const textOf = (run, role) => [...run.messages.values()].filter((message) => message.role === role).map(({ text }) => text).join('');
const sameRun = ({ messages, tools, ...run }) => ({ ...run, end: { ...run.end, timestamp: 0 }, messages: [...messages], tools: [...tools] });

function open(t, server, options = {}) {
	const client = new HoldfastClient({ base: server.url, getToken: () => server.token, sessionId: 's', format: 'markdown', WebSocket, ...options }).connect();
	defer(t, () => client.close());
	return client;
}

/** Follows until the client is closed. */
function follow(t, client, options) {
	const consumer = new Consumer();
	consumer.over = (async () => {
		for await (const event of agUiEvents(client, options)) {
			consumer.take(event);
		}
	})();
	consumer.over.catch((error) => (consumer.failed = error));
	consumer.until = (count) => eventually(() => {
		if (consumer.failed) {
			throw consumer.failed;
		}
		return consumer.runs.filter(({ end }) => end).length >= count;
	}, () => `${count} runs; the last events: ${JSON.stringify(consumer.events.slice(-3))}`);
	return consumer;
}

async function logOf(server) {
	const { body } = await server.request('GET', '/api/sessions/s/events?after_seq=0&limit=5000&format=markdown');
	return body;
}

test('a turn with thoughts, tools, text and a plan is a run that says the same, live and growing, and to one who comes later', async (t) => {
	const server = await Server.start(t, { agent: demoAgent(`--rate ${Math.ceil(600 / patience)}`) });
	await server.createSession({ id: 's' });
	const growing = open(t, server, { deltas: 'text' });
	const plain = open(t, server);
	const [live, whole] = [follow(t, growing), follow(t, plain)];
	await plain.prompt('thoughts tools markdown plan list');
	await Promise.all([live.until(1), whole.until(1)]);
	const { events, epoch } = await logOf(server);
	const late = follow(t, open(t, server));
	await late.until(1);
	for (const consumer of [live, whole, late]) {
		const [run] = consumer.runs;
		assert.equal(run.id, `${epoch}-turn-1`);
		assert.equal(run.threadId, 's');
		assert.deepEqual(run.end.result, { stop_reason: 'end_turn' });
		assert.equal(textOf(run, 'user'), events.find(({ type }) => type === 'user_prompt').data.message);
		assert.equal(textOf(run, 'assistant'), events.filter(({ type }) => type === 'agent_message').map(({ data }) => data.markdown).join(''));
		assert.equal(textOf(run, 'reasoning'), events.filter(({ type }) => type === 'agent_thought').map(({ data }) => data.text).join(''));
		const calls = events.filter(({ type }) => type === 'tool_call').map(({ data }) => data.tool_call_id);
		assert.ok(calls.length > 0);
		assert.deepEqual([...run.tools.keys()], [...new Set(calls)]);
		assert.ok([...run.tools.values()].every(({ args, result }) => JSON.parse(args) && result !== null));
		assert.deepEqual(run.state.plan, events.findLast(({ type }) => type === 'plan')?.data ?? null);
	}
	assert.deepEqual(sameRun(live.runs[0]), sameRun(late.runs[0]));
	assert.ok(live.events.length > whole.events.length, 'text came as it grew');
});

test('connections that break in the middle of a run are nothing to notice; a new client goes on after the run that one has', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 300') });
	await server.createSession({ id: 's' });
	const sockets = [];
	class Noted extends WebSocket {
		constructor(...args) {
			super(...args);
			sockets.push(this);
		}
	}
	const client = open(t, server, { deltas: 'text', WebSocket: Noted });
	const consumer = follow(t, client);
	await client.prompt('markdown list');
	for (let i = 0; i < 3; i++) {
		const seen = consumer.events.length;
		await eventually(() => consumer.events.length > seen + 3 || consumer.runs[0]?.end);
		sockets.at(-1).terminate();
	}
	await consumer.until(1);
	await client.prompt('list');
	await consumer.until(2);
	const { events } = await logOf(server);
	consumer.runs.forEach((run, i) => assert.equal(textOf(run, 'assistant'), events.filter(({ type, turn }) => type === 'agent_message' && turn === i + 1).map(({ data }) => data.markdown).join('')));
	const next = follow(t, open(t, server), { afterRun: consumer.runs[0].id });
	await next.until(1);
	assert.deepEqual(next.runs.map(sameRun), [sameRun(consumer.runs[1])]);
	const all = follow(t, open(t, server, { limit: 5 }), { afterRun: 'turn-of-another-history-turn-2' });
	await all.until(1);
	client.close();
	await consumer.over;
});

test('questions are state until they are answered; an agent that dies is an error; what is outside of turns is state', async (t) => {
	const server = await Server.start(t, { agent: demoAgent() });
	await server.createSession({ id: 's' });
	const client = open(t, server);
	const consumer = follow(t, client);
	await client.prompt('permission');
	await eventually(() => client.permissions.length === 1 && consumer.runs[0]?.custom.includes('permission_request'));
	const [question] = client.permissions;
	assert.deepEqual(Object.keys(consumer.runs[0].state.permissions), [question.request_id]);
	client.answerPermission(question.request_id, question.options[0].option_id);
	await consumer.until(1);
	assert.deepEqual(consumer.runs[0].state.permissions, {});
	await client.prompt('crash');
	await consumer.until(2);
	assert.equal(consumer.runs[1].end.type, 'RUN_ERROR');
	assert.equal(consumer.runs[1].end.code, 'agent_stopped');
});

test('tools that never end, turns without an end, other types and hostile names are told so that the rules hold', () => {
	const consumer = new Consumer();
	const fold = new AgUiFold({ threadId: 's', epoch: 'e' });
	let seq = 0;
	const event = (turn, type, data) => fold.take({ seq: ++seq, ts: 1000 + seq, type, data, ...(turn && { turn }) }).forEach(consumer.take);
	event(0, 'usage', { used: 1 });
	event(0, 'x-note', {});
	event(1, 'tool_call', { tool_call_id: 't', title: 'T' });
	event(1, 'x-note', { a: 1 });
	event(1, 'permission_request', { request_id: 'a/b~c', options: [] });
	event(1, 'tool_call_update', { tool_call_id: 'u', status: 'failed', content: [{ content: { text: 'no' } }] });
	fold.takeOpen({ seq: 7, type: 'agent_message', text: 'Hel' }).forEach(consumer.take);
	fold.takeOpen({ seq: 7, type: 'agent_message', text: 'Hello' }).forEach(consumer.take);
	event(1, 'agent_message', { markdown: 'Hello!' });
	event(2, 'agent_message', { markdown: 'Another' });
	event(2, 'turn_end', { stop_reason: 'cancelled' });
	event(3, 'agent_thought', { text: '' });
	fold.reset('epoch', 'f').forEach(consumer.take);
	event(1, 'agent_message', { markdown: 'New' });
	event(1, 'turn_end', { stop_reason: 'error', message: 'broken' });
	assert.deepEqual(consumer.runs.map(({ id, end }) => [id, end.type, end.result?.stop_reason ?? end.code]), [
		['e-turn-1', 'RUN_FINISHED', 'unknown'], ['e-turn-2', 'RUN_FINISHED', 'cancelled'], ['e-turn-3', 'RUN_ERROR', 'reset_epoch'], ['f-turn-1', 'RUN_ERROR', 'error'],
	]);
	const [run] = consumer.runs;
	assert.deepEqual(run.state, { plan: null, usage: { used: 1 }, permissions: { 'a/b~c': { request_id: 'a/b~c', options: [] } } });
	assert.equal(textOf(run, 'assistant'), 'Hello!');
	assert.deepEqual(run.custom, ['x-note', 'permission_request']);
	assert.deepEqual([...run.tools].map(([id, { result }]) => [id, result]), [['t', null], ['u', 'no']]);
});

test('the code of the docs follows a session, with the package as it is installed', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 's' });
	await post(server, 's', [input.text('Hello.\n\n'), input.end()]);
	const dir = scratchDir(t);
	mkdirSync(join(dir, 'node_modules'));
	symlinkSync(library, join(dir, 'node_modules/holdfast-client'));
	writeFileSync(join(dir, 'follow.mjs'), /^```js\n([\s\S]*?)^```$/m.exec(docs)[1]);
	const { follow: run } = await import(pathToFileURL(join(dir, 'follow.mjs')));
	const consumer = new Consumer();
	const sockets = [];
	class Noted extends WebSocket {
		constructor(...args) {
			super(...args);
			sockets.push(this);
		}
	}
	const over = run({ base: server.url, getToken: () => server.token, WebSocket: Noted }, 's', consumer.take);
	await eventually(() => consumer.runs.length === 1 && consumer.runs[0].end);
	await server.request('DELETE', '/api/sessions/s');
	await over;
	assert.equal(textOf(consumer.runs[0], 'assistant'), 'Hello.\n\n');
});
