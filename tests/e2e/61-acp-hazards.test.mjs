// What real agents do that a client may not expect (the corpus's README counts them), through the real server.
// Where recordings show a thing they are played as a whole (27-recordings); here each thing is alone.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, replayAgent, scratchDir } from '../support/server.mjs';

const S = '20261120_1';
const update = (u) => ({ method: 'session/update', params: { sessionId: S, update: u } });
const say = (text) => update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
const call = (sessionUpdate, toolCallId, more = {}) => update({ sessionUpdate, toolCallId, ...more });
const options = [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }];
const ask = (id, toolCall) => ({ id, method: 'session/request_permission', params: { sessionId: S, toolCall, options } });
const done = (id) => ({ id, result: { stopReason: 'end_turn' } });

/** A server whose agent plays turns of lines (messages, or raw text); `early` comes before the session's answer. */
async function start(t, turns, { early = [], args = [] } = {}) {
	const dir = scratchDir(t);
	const file = join(dir, 'agent.jsonl');
	const lines = [['c2a', { id: 1, method: 'initialize' }], ['a2c', { id: 1, result: { protocolVersion: 1 } }],
		['c2a', { id: 2, method: 'session/new' }], ...early.map((m) => ['a2c', m]), ['a2c', { id: 2, result: { sessionId: S } }]];
	turns.forEach((turn, i) => {
		lines.push(['c2a', { id: 3 + i, method: 'session/prompt', params: { sessionId: S } }]);
		for (const line of turn) {
			lines.push(['a2c', line]);
			if (line.id !== undefined && line.method) {
				lines.push(['c2a', { id: line.id, result: {} }]);
			}
		}
	});
	writeFileSync(file, lines.map(([dir2, m]) => JSON.stringify({ t: 0, dir: dir2, proc: 1, line: typeof m === 'string' ? m : JSON.stringify({ jsonrpc: '2.0', ...m }) })).join('\n'));
	const server = await Server.start(t, { agent: `exec ${replayAgent()} --speed 0 ${file}`, args });
	const open = async () => {
		const { id } = await server.createSession();
		const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
		await observer.loadAll();
		return { id, observer };
	};
	return { server, open, ...await open() };
}

/** Prompts, answers what is asked, and waits for the turn's end; gives the events from the prompt on. */
async function turn(observer, { asks = 0 } = {}) {
	const { seq } = await observer.prompt('go on');
	let after = seq;
	for (let i = 0; i < asks; i++) {
		const event = await observer.waitForEvent('permission_request', { after });
		after = event.seq;
		await observer.send('permission_answer', { request_id: event.data.request_id, option_id: 'yes' });
	}
	const end = await observer.waitForEvent('turn_end', { after: seq });
	return observer.events().slice(seq - 1, end.seq);
}

const inShort = (events) => events.map(({ type, data }) => [type, data.tool_call_id ?? data.markdown ?? data.status ?? null].filter((x) => x !== null).join(' '));

function assertLogged({ server, id, observer }) {
	const events = observer.events();
	assert.deepEqual(events.map((e) => e.seq), events.map((_, i) => i + 1));
	assert.deepEqual(readLog(server, id).slice(0, events.length), events);
}

test('3: updates before the session is named, after a turn, and of an old call in the next turn', async (t) => {
	const info = (title) => update({ sessionUpdate: 'session_info_update', title });
	const run = await start(t, [
		[call('tool_call', 'c1', { title: 'Long' }), done(3), info('After the turn')],
		[say('Next.'), call('tool_call_update', 'c1', { status: 'completed' }), done(4)],
	], { early: [update({ sessionUpdate: 'usage_update', used: 0, size: 9 }), update({ sessionUpdate: 'available_commands_update', availableCommands: [] })] });
	assert.deepEqual(inShort(await turn(run.observer)).slice(0, 6), ['user_prompt', 'agent_started', 'usage', 'x-acp-available_commands_update', 'tool_call c1', 'turn_end']);
	const late = await run.observer.waitForEvent('x-acp-session_info_update');
	assert.deepEqual([late.data, late.turn], [{ title: 'After the turn' }, undefined]);
	assert.deepEqual(inShort(await turn(run.observer)), ['user_prompt', 'agent_message Next.', 'tool_call_update c1', 'turn_end']);
	assertLogged(run);
});

test('3: text and a question after the turn make a turn that ends, and the next prompt does not wait for ever', async (t) => {
	const run = await start(t, [[say('Now.'), done(3), say('Late.\n\n'), ask(0, { toolCallId: 'c' }), say('Later.\n\n')], [say('Next.'), done(4)]]);
	assert.deepEqual(inShort(await turn(run.observer)), ['user_prompt', 'agent_started', 'agent_message Now.', 'turn_end']);
	const { data, seq } = await run.observer.waitForEvent('permission_request');
	await run.observer.send('permission_answer', { request_id: data.request_id, option_id: 'yes' });
	await run.observer.waitForEvent('turn_end', { after: seq });
	const late = run.observer.events().slice(4);
	assert.deepEqual(inShort(late), ['agent_message Late.\n\n', 'permission_request', 'permission_resolved', 'agent_message Later.\n\n', 'turn_end']);
	assert.ok(late.every((e) => e.turn === 2));
	assert.deepEqual(inShort(await turn(run.observer)), ['user_prompt', 'agent_message Next.', 'turn_end']);
	assertLogged(run);
});

test('3: a question after the turn can be cancelled, and what waits behind it runs', async (t) => {
	const run = await start(t, [[done(3), ask(0, { toolCallId: 'c' })], [say('Next.'), done(4)]]);
	await turn(run.observer);
	const { seq } = await run.observer.waitForEvent('permission_request');
	assert.equal((await run.observer.prompt('waits')).seq, null);
	await run.observer.send('cancel');
	assert.equal((await run.observer.waitForEvent('permission_resolved')).data.outcome, 'cancelled');
	await run.observer.waitForEvent((e) => e.type === 'agent_message' && e.data.markdown === 'Next.', { after: seq });
	assertLogged(run);
});

test('4: a call that comes in any order is known by its id, and each of its mentions is there', async (t) => {
	const run = await start(t, [[
		call('tool_call_update', 'cline', { status: 'pending' }), call('tool_call_update', 'cline', { status: 'in_progress' }), call('tool_call', 'cline', { title: 'Late', status: 'pending' }),
		ask(0, { toolCallId: 'gemini', title: 'Never a tool_call', rawInput: { a: 1 } }), call('tool_call_update', 'gemini', { status: 'completed' }),
		call('tool_call', 'claude', { title: 'Twice', rawInput: {} }), call('tool_call', 'claude', { title: 'Twice', rawInput: { path: '/p' } }),
		call('tool_call', 'goose'), done(3),
	]]);
	const events = await turn(run.observer, { asks: 1 });
	assert.deepEqual(inShort(events), ['user_prompt', 'agent_started', 'tool_call_update cline', 'tool_call_update cline', 'tool_call cline',
		'permission_request', 'permission_resolved', 'tool_call_update gemini', 'tool_call claude', 'tool_call claude', 'tool_call goose', 'turn_end']);
	assert.deepEqual(events[5].data.tool_call, { tool_call_id: 'gemini', title: 'Never a tool_call', raw_input: { a: 1 } });
	assert.deepEqual(events.slice(8, 10).map((e) => e.data.raw_input), [{}, { path: '/p' }]);
	assert.equal(typeof events[10].data.title, 'string');
	assertLogged(run);
});

test('5: lines of more than a megabyte are ordinary; one of more than agent_line_size is told of', async (t) => {
	const big = 'é\\"\n'.repeat(325_000); // 1.3 million characters, 2.3 MB as JSON
	const commands = Array.from({ length: 5000 }, (_, i) => ({ name: `command-${i}`, description: 'x'.repeat(80) }));
	const list = update({ sessionUpdate: 'available_commands_update', availableCommands: commands });
	const run = await start(t, [[
		list, say('One.'), list, call('tool_call', 'c1', { title: 'Write', rawInput: { content: big } }),
		ask('u-u-i-d', { toolCallId: 'c1', content: [{ type: 'diff', path: '/p', oldText: null, newText: big }] }),
		call('tool_call_update', 'c1', { rawOutput: 'x'.repeat(17 * 1024 * 1024) }), say('Two.'), done(3),
	]]);
	const events = await turn(run.observer, { asks: 1 });
	assert.deepEqual(inShort(events), ['user_prompt', 'agent_started', 'x-acp-available_commands_update', 'agent_message One.', 'tool_call c1',
		'permission_request', 'permission_resolved', 'x-acp-line_too_long', 'agent_message Two.', 'turn_end']);
	assert.equal(events[2].data.available_commands.length, 5000);
	assert.equal(events[4].data.raw_input.content, big);
	assert.deepEqual(events[5].data.tool_call.content, [{ type: 'diff', path: '/p', old_text: null, new_text: big }]);
	assert.match(events[7].data.message, /more than 16777216 bytes \(the limit agent_line_size\)/);
	assertLogged(run);
});

test('5: JSON that nests 64 levels deep is taken; deeper, its sender hears why not', async (t) => {
	const nested = (levels) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
	const raw = (message, levels) => JSON.stringify({ jsonrpc: '2.0', ...message }).replace('"@"', nested(levels));
	const deep = (levels) => raw(call('tool_call', 'c1', { title: 'Deep', rawInput: '@' }), levels - 3);
	const run = await start(t, [[deep(64), deep(65), deep(1500), raw(ask('q', { toolCallId: 'c1', rawInput: '@' }), 1500), say('Two.'), done(3)]]);
	const events = await turn(run.observer);
	assert.deepEqual(inShort(events), ['user_prompt', 'agent_started', 'tool_call c1', 'x-acp-line_too_long', 'x-acp-line_too_long', 'x-acp-line_too_long', 'agent_message Two.', 'turn_end']);
	assert.match(events[3].data.message, /nests deeper than 64 levels/);
	assertLogged(run);
});

test('6: ids last, null, equal to ours and of two types; what no text can hold is replaced', async (t) => {
	const hurt = 'nul \\u0000 lone \\ud83d end';
	const said = 'nul \ufffd lone \ufffd end';
	const run = await start(t, [[
		'{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}', '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}', '',
		// The id of our own prompt: a question of the agent's all the same.
		{ method: 'session/request_permission', params: { sessionId: S, toolCall: { toolCallId: 'a' }, options }, id: 3 },
		{ method: 'session/request_permission', params: { sessionId: S, toolCall: { toolCallId: 'b' }, options }, id: '3' },
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"${S}","update":{"sessionUpdate":"tool_call","toolCallId":"${hurt}","title":"${hurt}","rawInput":{"${hurt}":"${hurt}"}}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"${S}","update":{"sessionUpdate":"plan","entries":[{"content":"${hurt}","priority":"high","status":"pending"}]}}}`,
		say('a\u2028b\u2029c'), done(3),
	]]);
	const events = await turn(run.observer, { asks: 2 });
	assert.deepEqual(inShort(events), ['user_prompt', 'agent_started', 'permission_request', 'permission_resolved', 'permission_request', 'permission_resolved',
		`tool_call ${said}`, 'plan', 'agent_message a\u2028b\u2029c', 'turn_end']);
	assert.deepEqual(events[6].data, { tool_call_id: said, title: said, raw_input: { [said]: said } });
	assert.equal(events[7].data.entries[0].content, said);
	assertLogged(run);
});

test('7: notifications and kinds of an extension are kept, its requests refused', async (t) => {
	const run = await start(t, [[
		{ method: '_auth/status_update', params: { ok: true } }, { id: 0, method: 'craft/drainMidTurnQueue', params: {} },
		update({ sessionUpdate: 'state_update', state: { a: [1] }, _meta: { b: 2 } }),
		update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: '' }, _meta: { usage: 3 } }),
		update({ sessionUpdate: 'agent_message_chunk', content: { type: 'resource_link', uri: 'file:///x', name: 'x', mimeType: 'text/plain' } }),
		done(3),
	]]);
	const events = await turn(run.observer);
	assert.deepEqual(events.slice(2).map(({ type, data }) => [type, data]), [
		['x-acp-notification', { method: '_auth/status_update', params: { ok: true } }],
		['x-acp-state_update', { state: { a: [1] }, _meta: { b: 2 } }],
		['x-acp-content', { content: { type: 'resource_link', uri: 'file:///x', name: 'x', mime_type: 'text/plain' } }],
		['x-acp-meta', { of: 'agent_message_chunk', _meta: { usage: 3 } }],
		['turn_end', { stop_reason: 'end_turn' }],
	]);
	assertLogged(run);
});

test('9: an error that asks for a login says what to do, and the next prompt is tried again', async (t) => {
	const run = await start(t, [[{ id: 3, error: { code: -32000, message: 'Authentication required' } }], [say('In.'), done(4)]]);
	const events = await turn(run.observer);
	assert.match(events.at(-1).data.message, /^Authentication required\. .*log in with the agent's own program/);
	assert.deepEqual(events.at(-1).data.login, []);
	assert.deepEqual(inShort(await turn(run.observer)), ['user_prompt', 'agent_message In.', 'turn_end']);
	assertLogged(run);
});

test('10: an agent that wants a login before it begins says which ways there are', async (t) => {
	const methods = [
		{ id: 'a', name: 'Log in', description: 'Run `agent login`', type: 'terminal', args: ['login', 7, ''] },
		{ id: 'b', name: 'A key', type: 'env_var', vars: [{ name: 'AGENT_KEY', secret: true }, { label: 'no name' }] },
		{ id: 'c' }, 7, { id: 'd', name: 'x'.repeat(2000) }, ...Array.from({ length: 20 }, (_, i) => ({ id: `m${i}`, name: `Way ${i}` })),
	];
	const program = `const say = (m) => console.log(JSON.stringify({ jsonrpc: "2.0", ...m }));
		require("readline").createInterface({ input: process.stdin }).on("line", (line) => { const { id, method } = JSON.parse(line);
		say(method === "initialize" ? { id, result: { protocolVersion: 1, authMethods: JSON.parse(process.env.METHODS) } } : { id, error: { code: -32000, message: "Authentication required" } }); })`;
	const file = join(scratchDir(t), 'agent.cjs');
	writeFileSync(file, program);
	const server = await Server.start(t, { agent: `exec ${process.execPath} ${file}`, args: ['--agent-env', `METHODS=${JSON.stringify(methods)}`] });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	await observer.prompt('hello');
	const { data } = await observer.waitForEvent('agent_stopped');
	assert.equal(data.reason, 'protocol');
	assert.match(data.detail, /^session\/new: Authentication required/);
	assert.deepEqual(data.login.slice(0, 2), [
		{ method_id: 'a', name: 'Log in', description: 'Run `agent login`', type: 'terminal', args: ['login'] },
		{ method_id: 'b', name: 'A key', type: 'env_var', vars: ['AGENT_KEY'] },
	]);
	assert.deepEqual(data.login.slice(2).map(({ name }) => name.length), [500, 5, 5, 5], 'eight are looked at, and long texts are cut');
});

test('11: two agents that call their sessions alike are not mixed up', async (t) => {
	const run = await start(t, [[say('Once.'), ask(0, { toolCallId: 'c' }), done(3)]]);
	const other = await run.open();
	const both = await Promise.all([turn(run.observer, { asks: 1 }), turn(other.observer, { asks: 1 })]);
	for (const events of both) {
		assert.deepEqual(inShort(events), ['user_prompt', 'agent_started', 'agent_message Once.', 'permission_request', 'permission_resolved', 'turn_end']);
	}
	assert.deepEqual(both.map((events) => events[1].data.agent_session_id), [S, S]);
	assertLogged(run);
	assertLogged({ ...run, ...other });
});
