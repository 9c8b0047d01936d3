// Agents that overdo it, or fail: thousands of files that cannot be kept in one event; and what takes a place among `agents`.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { Server, scratchDir } from '../support/server.mjs';

/** An agent whose turn is these statements of JavaScript: `say`, `update` and `id`, the prompt's, are theirs. */
function writeAgent(t, turn) {
	const file = join(scratchDir(t), 'agent.mjs');
	writeFileSync(file, `import { createInterface } from 'node:readline';
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
const update = (sessionUpdate, rest) => say({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate, ...rest } } });
createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method } = JSON.parse(line);
	if (method === 'initialize') {
		say({ id, result: { protocolVersion: 1 } });
	} else if (method === 'session/new') {
		say({ id, result: { sessionId: 's' } });
	} else if (method === 'session/prompt') {
		${turn}
	}
});
`);
	return `exec ${process.execPath} ${file}`;
}

test('thousands of files in one event, none of which fits, are all left out', async (t) => {
	const COUNT = 3500;
	const agent = writeAgent(t, `
		const content = Array.from({ length: ${COUNT} }, (_, i) => ({ type: 'content', content: { type: 'resource', resource: { uri: 'file:///' + i, text: String(i).padEnd(4200, 'x') } } }));
		update('tool_call', { toolCallId: 'c', title: 'Many', content });
		say({ id, result: { stopReason: 'end_turn' } });`);
	// A small stack, because a function that calls itself for each file would need a large one.
	const server = await Server.start(t, { agent, args: ['--limit', 'blob_size=1K'], prefix: ['/bin/sh', '-c', 'ulimit -s 512; exec "$0" "$@"'] });
	await server.createSession({ id: 'one' });
	const observer = await Observer.connect(t, server, 'one', { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.prompt('go');
	await observer.waitForEvent('turn_end');
	const call = observer.events().find((e) => e.type === 'tool_call');
	assert.equal(call.data.content.length, COUNT);
	assert.ok(call.data.content.every(({ content }) => content.omitted === 'too_large' && content.blob === undefined));
});

/** A server that runs one agent at once, and two sessions. */
async function startTwo(t, turn) {
	const server = await Server.start(t, { agent: writeAgent(t, turn), args: ['--limit', 'agents=1'] });
	return Promise.all(['one', 'two'].map(async (id) => {
		await server.createSession({ id });
		const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
		await observer.loadAll();
		return observer;
	}));
}

test('settings that wait for an agent that does not run take no place from those that do', async (t) => {
	const [one, two] = await startTwo(t, "say({ id, result: { stopReason: 'end_turn' } });");
	await one.send('set_mode', { mode_id: 'code' });
	await one.refused('cancel', {}); // what was sent before has been taken
	await two.prompt('go');
	assert.equal((await two.waitForEvent('turn_end')).data.stop_reason, 'end_turn');
});

test('an agent that has failed takes no place from those that run', async (t) => {
	const [one, two] = await startTwo(t, "JSON.parse(line).params.prompt[0].text === 'fail' ? process.exit(3) : say({ id, result: { stopReason: 'end_turn' } });");
	await one.prompt('fail');
	await one.waitForEvent('agent_stopped');
	await two.prompt('go');
	assert.equal((await two.waitForEvent('turn_end')).data.stop_reason, 'end_turn');
});

test('a turn that an agent begins by a question before its session, without a prompt, ends', async (t) => {
	const file = join(scratchDir(t), 'agent.mjs');
	writeFileSync(file, `import { createInterface } from 'node:readline';
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method } = JSON.parse(line);
	if (method === 'initialize') {
		say({ id: 'q', method: 'session/request_permission', params: { sessionId: 's', toolCall: { toolCallId: 'c', title: 'Early' }, options: [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }] } });
		say({ id, result: { protocolVersion: 1, authMethods: [{ id: 'm', name: 'M' }] } });
	} else if (method === 'session/new') {
		say({ id, result: { sessionId: 's' } });
	} else if (method) {
		say({ id, result: method === 'session/prompt' ? { stopReason: 'end_turn' } : {} });
	}
});
`);
	const server = await Server.start(t, { agent: `exec ${process.execPath} ${file}` });
	await server.createSession({ id: 'one' });
	const observer = await Observer.connect(t, server, 'one', { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.send('authenticate', { method_id: 'm' });
	const { data } = await observer.waitForEvent('permission_request');
	await observer.waitForEvent('agent_started');
	await observer.send('permission_answer', { request_id: data.request_id, option_id: 'yes' });
	await observer.waitForEvent('turn_end');
	const { seq } = await observer.prompt('go');
	await observer.waitForEvent('turn_end', { after: seq });
});
