// What a terminal program puts around a message, and ids in other spellings: nothing of it may lose a message, wherever lines of JSON-RPC come
// in. What is no message all the same is told of, and nobody waits for ever.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { scriptedAgent } from '../support/scripted_agent.mjs';
import { Server, binary, demoAgent, replayAgent, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { Waiters, defer } from '../support/wait.mjs';

/** What may stand in front of a message or behind it. */
const NOISE = [
	'', ' \t ', '\ufeff', '\x1b]0;repo: ready\x07', '\x1b]2;{"id":1,"result":[\x1b\\', '\x1b]8;;http://x\x1b\\', '\x9d0;title\x07', '\x9d0;title\x9c', '\x1b[?2004h', '\x1b[0;31m\x1b[K', '\x9b1m',
	'\x1b[200~', '\x1b[201~', '\x1bPq#0\x1b\\', '\x90q\x9c', '\x1b_Ga=T;AA\x1b\\', '\x1b^private\x1b\\', '\x1bXstring\x1b\\', '\x1bktitle\x1b\\', '\x1bPtmux;\x1b\x1b]0;t\x07\x1b\\',
	'\x1bc', '\x1b7\x1b8', '\x1b(B', '\x1b#8', '\x1b=', '\x85', '\r', '\x07', '\b', '\x11\x13', '\0', '\x0e\x0f', '\x7f', '\x1b]0;cut off\x18', '\x1b[3\x1b[m', '\x1b',
];
const AROUND = NOISE.flatMap((noise, i) => [[noise, ''], ['', noise], [noise, NOISE[(i * 7 + 3) % NOISE.length]]]);

async function session(t, server, id) {
	await server.createSession({ id });
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	return observer;
}

async function turn(observer, text = 'go') {
	const { seq } = await observer.prompt(text);
	const end = await observer.waitForEvent('turn_end', { after: seq });
	return observer.events().slice(seq - 1, end.seq);
}

const said = (events) => events.filter(({ type }) => type === 'agent_message').map(({ data }) => data.markdown).join('');

test('each kind of noise in front of each kind of an agent\'s message, and behind it', async (t) => {
	const agent = scriptedAgent(t, `
		const around = ${JSON.stringify(AROUND)};
		let at = 0;
		say = (message) => { const [before, after] = around[at++ % around.length]; raw(before + line(message) + after + '\\n'); };
		on['session/prompt'] = async ({ id }) => {
			for (let i = 0; i < around.length; i++) {
				text('Sentence ' + i + '.\\n\\n');
			}
			const { result } = await ask(9, 'session/request_permission', { toolCall: { toolCallId: 'c' }, options: [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }] });
			text('Answered ' + result.outcome.optionId + '.\\n\\n');
			at += 1;
			answer(id, { stopReason: 'end_turn' });
		};`);
	const server = await Server.start(t, { agent });
	// The messages of each session's start and end have other noise around them.
	for (let i = 0; i < AROUND.length; i += 9) {
		const observer = await session(t, server, `s${i}`);
		const { seq } = await observer.prompt('go');
		const { data } = await observer.waitForEvent('permission_request', { after: seq });
		await observer.send('permission_answer', { request_id: data.request_id, option_id: 'yes' });
		await observer.waitForEvent('turn_end', { after: seq });
		const events = observer.events();
		assert.equal(said(events), `${AROUND.map((_, k) => `Sentence ${k}.\n\n`).join('')}Answered yes.\n\n`);
		assert.deepEqual(events.filter(({ type }) => type.startsWith('x-acp-')), []);
		observer.close();
	}
	assert.doesNotMatch(server.stderr, /the agent sent/);
});

test('a line that is no message is logged once, its bytes visible; observers hear of it, and the turn ends', async (t) => {
	const server = await Server.start(t, { agent: scriptedAgent(t, `
		on.initialize = ({ id }) => { raw('Loaded \\x1b[1mcached\\x1b[m\\n'); answer(id, { protocolVersion: 1 }); };
		on['session/prompt'] = ({ id }) => {
			raw('plain words\\n');
			raw('words\\x07' + line({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'lost' } } } }) + '\\n');
			text('Kept.');
			raw('sending ' + line({ id, result: { stopReason: 'end_turn' } }) + '\\n');
			answer(id, { stopReason: 'end_turn' });
		};`) });
	const observer = await session(t, server, 's');
	const events = await turn(observer);
	assert.deepEqual(events.map(({ type }) => type), ['user_prompt', 'agent_started', 'x-acp-line_unread', 'agent_message', 'x-acp-line_unread', 'turn_end']);
	assert.equal(events[2].data.method, 'session/update');
	assert.match(events[2].data.message, /cannot be read/);
	assert.equal(events[5].data.stop_reason, 'end_turn');
	const logged = (words) => server.stderr.split('\n').filter((line) => line.includes(words));
	assert.match(logged('cached').join('\n'), /^holdfast: warning: session s: the agent sent a line that is not JSON-RPC: Loaded \\x1b\[1mcached\\x1b\[m$/, 'once');
	assert.match(logged('plain words').join('\n'), /^[^\n]*: plain words$/);
	assert.match(logged('lost').join('\n'), /^[^\n]*: words\\x07\{"jsonrpc"[^\n]*$/);
});

test('an answer that cannot be read ends the turn with an error, and the next prompt runs', async (t) => {
	const server = await Server.start(t, { agent: scriptedAgent(t, `
		let prompts = 0;
		on['session/prompt'] = ({ id }) => {
			text('Done.');
			raw((prompts++ ? '' : 'bye ') + line({ id, result: { stopReason: 'end_turn' } }) + '\\n');
		};`) });
	const observer = await session(t, server, 's');
	const { data } = (await turn(observer)).at(-1);
	assert.equal(data.stop_reason, 'error');
	assert.match(data.message, /silent since it sent a line that cannot be read/);
	assert.equal((await turn(observer)).at(-1).data.stop_reason, 'end_turn');
});

test('who begins a tool call behind a line that cannot be read has not answered with it: the turn goes on', async (t) => {
	const server = await Server.start(t, { agent: scriptedAgent(t, `
		on['session/prompt'] = ({ id }) => {
			const call = (more) => update({ toolCallId: 'c', ...more });
			raw('the model says {"stopReason":"tool_use"}\\n');
			call({ sessionUpdate: 'tool_call', title: 'Build', status: 'in_progress' });
			setTimeout(() => {
				call({ sessionUpdate: 'tool_call_update', status: 'completed' });
				text('Done.');
				answer(id, { stopReason: 'end_turn' });
			}, 13_000); // silent for longer than such an answer is waited for
		};`) });
	const observer = await session(t, server, 's');
	const events = await turn(observer);
	assert.deepEqual(events.filter(({ type }) => !type.startsWith('x-')).map(({ type }) => type), ['user_prompt', 'agent_started', 'tool_call', 'tool_call_update', 'agent_message', 'turn_end']);
	assert.equal(events.at(-1).data.stop_reason, 'end_turn');
});

test('answers whose id is another spelling of the same number', async (t) => {
	const server = await Server.start(t, { agent: scriptedAgent(t, `
		const spellings = [(n) => '"' + n + '"', (n) => n + '.0', (n) => n + 'e0', (n) => n * 10 + 'E-1', (n) => '"' + n + '.0"', (n) => n];
		let at = 0;
		answer = (id, result) => raw('{"jsonrpc":"2.0","result":' + JSON.stringify(result) + ',"id":' + spellings[at++ % spellings.length](id) + '}\\n');
		on['session/new'] = ({ id }) => answer(id, { sessionId: 's', modes: { currentModeId: 'a', availableModes: [{ id: 'a', name: 'A' }, { id: 'b', name: 'B' }] } });
		on['session/set_mode'] = ({ id }) => answer(id, {});`) });
	const observer = await session(t, server, 's');
	for (let i = 0; i < 12; i++) {
		assert.equal((await turn(observer)).at(-1).data.stop_reason, 'end_turn');
	}
	const after = observer.events().length;
	await observer.send('set_mode', { mode_id: 'b' });
	assert.equal((await observer.waitForEvent('x-acp-current_mode_update', { after })).data.current_mode_id, 'b');
});

test('editors: noise around what comes at /acp, ids in other spellings', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 30') });
	await server.createSession({ id: 's' });
	const socket = new TestSocket(t, server.ws('/acp'), () => null);
	let n = 0;
	const request = async (text) => {
		const from = socket.frames.length;
		await socket.sendRaw(text);
		return socket.waitFor(({ method }) => !method, { from });
	};
	for (const [before, after] of AROUND) {
		const { id, result } = await request(`${before}{"jsonrpc":"2.0","id":${++n},"method":"initialize","params":{"protocolVersion":1}}${after}`);
		assert.equal(id, n);
		assert.equal(result.protocolVersion, 1);
	}
	assert.equal((await request('{"jsonrpc":"2.0","id":7.0,"method":"session/load","params":{"sessionId":"s","cwd":"/","mcpServers":[]}}')).id, 7);
	const from = socket.frames.length;
	await socket.sendRaw('{"jsonrpc":"2.0","id":8e0,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"long 50"}]}}');
	await socket.waitFor(({ method }) => method === 'session/update', { from });
	await socket.sendRaw('{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"8"}}');
	const { id, result } = await socket.waitFor(({ method }) => !method, { from });
	assert.deepEqual([id, result], [8, { stopReason: 'cancelled' }]);
});

test('holdfast attach: noise around what comes on its stdin', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const child = spawn(binary(), ['attach', '--url', server.url], { env: { ...process.env, HOLDFAST_TOKEN: server.token ?? '' }, stdio: ['pipe', 'pipe', 'inherit'] });
	defer(t, () => child.kill('SIGKILL'));
	const waiters = new Waiters();
	const answers = new Map();
	createInterface({ input: child.stdout }).on('line', (line) => {
		const message = JSON.parse(line);
		answers.set(message.id, message);
		waiters.wake();
	});
	AROUND.forEach(([before, after], i) => {
		child.stdin.write(`${before}${JSON.stringify({ jsonrpc: '2.0', id: i, method: i ? 'session/list' : 'initialize', params: { protocolVersion: 1 } })}${after}\n${before}\n`);
	});
	// What is no message is answered, too, without an id: only the answers to the requests count.
	await waiters.until(() => AROUND.every((_, i) => answers.has(i)), 20_000, () => `all answers: ${[...answers.keys()]}`);
	AROUND.forEach((_, i) => assert.ok(answers.get(i)?.result, `${i}: ${JSON.stringify(answers.get(i) ?? answers.get(null))}`));
	child.stdin.end();
	assert.equal((await once(child, 'exit'))[0], 0);
});

test('a recording of a noisy agent plays, also to a client with other ids, and noise in front of that one\'s messages is nothing', async (t) => {
	const file = join(scratchDir(t), 'recording.jsonl');
	const lines = [
		['c2a', { id: 1, method: 'initialize' }], ['a2c', { id: 1, result: { protocolVersion: 1 } }], ['c2a', { id: 2, method: 'session/new' }], ['a2c', { id: '2', result: { sessionId: 's' } }],
		['c2a', { id: 3, method: 'session/prompt', params: { sessionId: 's' } }], ['a2c', { id: 3, result: { stopReason: 'end_turn' } }],
	];
	writeFileSync(file, lines.map(([dir, m]) => JSON.stringify({ t: 0, proc: 1, dir, line: `\x1b]0;${dir}\x07${JSON.stringify({ jsonrpc: '2.0', ...m })}\x1b[K` })).join('\n'));
	const child = spawn(replayAgent(), ['--speed', '0', file], { stdio: ['pipe', 'pipe', 'inherit'] });
	defer(t, () => child.kill('SIGKILL'));
	const out = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
	const expected = { a: '"id":"a"', 2: '"id":"2"', c: '"id":"c"' };
	for (const [id, [, message]] of [['a', lines[0]], ['2', lines[2]], ['c', lines[4]]]) {
		child.stdin.write(`\ufeff\x1b[m${JSON.stringify({ jsonrpc: '2.0', ...message, id })}\x07\n`);
		const { value } = await out.next();
		assert.ok(value.startsWith('\x1b]0;a2c\x07{') && value.endsWith('}\x1b[K') && value.includes(expected[id]), JSON.stringify(value));
	}
	child.stdin.end();
	await once(child, 'exit');
});
