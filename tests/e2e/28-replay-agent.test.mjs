// holdfast-replay-agent alone, over its stdin and stdout: what it makes of a recording, and of a client that does
// not do what the recorded one did. And the check for interrupted blocks that the recordings are held against.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { interruptedAt } from '../support/blocks.mjs';
import { replayAgent, scratchDir } from '../support/server.mjs';
import { Waiters, defer } from '../support/wait.mjs';

const FAR = 1e8; // ms of a recording: more than a test will wait
const update = (text, sessionId = 's1') => ({ method: 'session/update', params: { sessionId, update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } } } });
const ask = (id, method, sessionId = 's1') => ({ id, method, params: { sessionId } });
const OPENING = [
	['c2a', { id: 1, method: 'initialize', params: {} }], ['a2c', { id: 1, result: { protocolVersion: 1 } }],
	['c2a', { id: 2, method: 'session/new', params: {} }], ['a2c', update('early')], ['a2c', { id: 2, result: { sessionId: 's1' } }],
];
const PROMPT = ['c2a', ask(3, 'session/prompt')];
const DONE = ['a2c', { id: 3, result: { stopReason: 'end_turn' } }];

/** The lines of a file: each is [dir, message or raw line or event, t?, proc?]. */
function fileOf(lines) {
	return lines.map(([dir, what, t = 0, proc = 1]) => JSON.stringify({
		t, dir, proc, ...(dir === 'ctl' ? what : { line: typeof what === 'string' ? what : JSON.stringify({ jsonrpc: '2.0', ...what }) }),
	})).join('\n');
}

class Agent {
	#waiters = new Waiters();
	#text = '';
	stderr = '';
	ended = null;

	/** Starts it with a recording: lines as above, or the text of the file. */
	constructor(t, recording, args = []) {
		const file = join(scratchDir(t), 'recording.jsonl');
		writeFileSync(file, typeof recording === 'string' ? recording : fileOf(recording));
		this.child = spawn(replayAgent(), [...args, file], { stdio: ['pipe', 'pipe', 'pipe'] });
		this.child.stdin.on('error', () => {}); // it may exit before it has read everything
		this.child.stdout.setEncoding('utf8').on('data', (d) => this.#hear((this.#text += d)));
		this.child.stderr.setEncoding('utf8').on('data', (d) => this.#hear((this.stderr += d)));
		this.child.on('close', (code, signal) => this.#hear((this.ended = signal ?? code)));
		defer(t, () => this.child.kill('SIGKILL'));
	}

	#hear() {
		this.#waiters.wake();
	}

	/** The whole lines so far. */
	get lines() {
		return this.#text.split('\n').slice(0, -1);
	}

	send(...messages) {
		messages.forEach((m) => this.child.stdin.write(`${typeof m === 'string' ? m : JSON.stringify({ jsonrpc: '2.0', ...m })}\n`));
	}

	/** Waits for line `n`, counted from 0; gives it parsed. */
	async line(n) {
		await this.#waiters.until(() => this.lines.length > n, 20_000, () => `line ${n} of ${JSON.stringify(this.lines)}`);
		return JSON.parse(this.lines[n]);
	}

	/** Waits until these words are on stderr. */
	complaint(words) {
		return this.#waiters.until(() => this.stderr.includes(words), 20_000, () => `${words} in ${this.stderr}`);
	}

	/** Sends a request and waits for its answer. */
	async ask(request) {
		this.send(request);
		const answer = (line) => line.includes(`"id":${JSON.stringify(request.id)}`) && !line.includes('"method"');
		return JSON.parse(await this.#waiters.until(() => this.lines.find(answer), 20_000, () => `the answer to ${JSON.stringify(request)}`));
	}

	/** Initializes and opens the session; the lines so far are 3. */
	async open() {
		assert.deepEqual((await this.ask({ id: 1, method: 'initialize', params: {} })).result, { protocolVersion: 1 });
		assert.deepEqual((await this.ask({ id: 2, method: 'session/new', params: {} })).result, { sessionId: 's1' });
		return this;
	}

	/** Closes its stdin, or not, and waits for its end. */
	async end({ close = true } = {}) {
		if (close) {
			this.child.stdin.end();
		}
		await this.#waiters.until(() => this.ended !== null, 20_000, () => 'its end');
		return this.ended;
	}
}

const textOf = (lines) => lines.map((line) => JSON.parse(line).params?.update?.content.text ?? '').join('');

test('it answers with the recorded answers and this client\'s ids, and says the rest as it was said', async (t) => {
	const odd = ['{"jsonrpc":"2.0","method":"session/upd', '', '{"jsonrpc": "2.0", "id": null, "error": {"code": -32700}}', '{"a":"\\ud83d \\u0000 \u2028 \\/"}'];
	const agent = new Agent(t, [...OPENING, ['c2a', ''], ['c2a', '{not json'], PROMPT, ...odd.map((line) => ['a2c', line]), ['a2c', update('Hi')], DONE]);
	assert.deepEqual(await agent.ask({ id: 'first', method: 'initialize', params: {} }), { jsonrpc: '2.0', id: 'first', result: { protocolVersion: 1 } });
	assert.equal((await agent.ask({ id: 0, method: 'session/new', params: { cwd: '/' } })).result.sessionId, 's1');
	assert.deepEqual(await agent.line(1), { jsonrpc: '2.0', ...update('early') }, 'what it said before the answer comes before it');
	assert.deepEqual(await agent.ask(ask('2', 'session/prompt')), { jsonrpc: '2.0', id: '2', result: { stopReason: 'end_turn' } });
	assert.deepEqual(agent.lines.slice(3, -2), odd);
	assert.equal(await agent.end(), 0);
	assert.equal(agent.stderr, '');
});

test('what the recorded client did not wait for comes with its own timing, or without', async (t) => {
	const lines = [...OPENING, PROMPT, ['a2c', update('now')], ['a2c', update('later'), FAR], ['a2c', DONE[1], FAR]];
	const slow = await new Agent(t, lines).open();
	slow.send(ask(3, 'session/prompt'));
	await slow.line(3);
	// Something else that it answers in between shows that the rest is still to come.
	assert.equal((await slow.ask({ id: 9, method: 'nonsense' })).error.code, -32601);
	assert.equal(slow.lines.length, 5);
	for (const speed of ['0', '1000000']) {
		const fast = await new Agent(t, lines, ['--speed', speed]).open();
		assert.equal((await fast.ask(ask(3, 'session/prompt'))).result.stopReason, 'end_turn');
		assert.equal(textOf(fast.lines), 'earlynowlater');
	}
});

test('where the recorded agent asked, it waits for the answer, whatever it is, but not for ever', async (t) => {
	const lines = [...OPENING, PROMPT, ['a2c', ask(0, 'session/request_permission')], ['c2a', { id: 0, result: {} }], ['a2c', update('after')], DONE];
	for (const answer of [{ id: 0, result: { outcome: {} } }, { id: 0, error: { code: -32601, message: 'no' } }]) {
		const agent = await new Agent(t, lines).open();
		agent.send(ask(3, 'session/prompt'));
		assert.deepEqual((await agent.line(3)).method, 'session/request_permission');
		agent.send({ id: 7, result: {} }); // not what it waits for
		assert.equal((await agent.ask({ id: 9, method: 'nonsense' })).error.code, -32601);
		assert.equal(agent.lines.length, 5);
		agent.send(answer);
		assert.equal((await agent.line(6)).result.stopReason, 'end_turn');
	}
	const hasty = await new Agent(t, lines, ['--wait', '0']).open();
	assert.equal((await hasty.ask(ask(3, 'session/prompt'))).result.stopReason, 'end_turn');
});

test('what the recording does not have is refused, and what this client does not ask is passed over', async (t) => {
	const agent = new Agent(t, [
		...OPENING, ['c2a', ask(5, 'session/list', undefined)], ['a2c', { id: 5, result: {} }], ['c2a', ask(6, 'session/prompt', 'none')], ['a2c', { id: 6, error: {} }],
		['c2a', { id: 7, method: 'session/new', params: {} }], ['a2c', update('other', 's2')], ['a2c', { id: 7, result: { sessionId: 's2' } }],
		['c2a', ask(8, 'session/load')], ['a2c', update('history')], ['a2c', { id: 8, result: {} }], ['a2c', update('more history')],
		PROMPT, ['a2c', update('Hi')], ['a2c', update('other', 's2')], ['a2c', ask('u', 'fs/read_text_file', 's2')], ['c2a', { id: 'u', result: {} }], DONE,
	]);
	await agent.open();
	assert.equal((await agent.ask(ask(3, 'session/prompt'))).result.stopReason, 'end_turn');
	assert.equal(textOf(agent.lines), 'earlyHi');
	for (const method of ['session/prompt', 'session/load', 'terminal/create']) {
		const { error } = await agent.ask(ask(`no ${method}`, method, 's3'));
		assert.equal(error.code, -32601);
		await agent.complaint(`has no (more) ${method}`);
	}
	agent.send('{torn');
	assert.equal((await agent.line(agent.lines.length)).error.code, -32700);
});

test('of several processes it plays one, and session/new opens what that one had loaded', async (t) => {
	const second = [
		['c2a', { id: 1, method: 'initialize', params: {} }, 0, 2], ['a2c', { id: 1, result: { protocolVersion: 1 } }, 0, 2],
		['c2a', ask(2, 'session/load'), 0, 2], ['a2c', update('history'), 0, 2], ['a2c', { id: 2, result: {} }, 0, 2],
		[...PROMPT, 0, 2], ['a2c', update('two'), 0, 2], [...DONE, 0, 2],
	];
	const lines = [...OPENING.slice(0, 2), ...second, ...[...OPENING, PROMPT, ['a2c', update('three')], DONE].map(([dir, what]) => [dir, what, 0, 3])];
	for (const [args, text] of [[[], 'two'], [['--proc', '2'], 'two'], [['--proc', '3'], 'earlythree']]) {
		const agent = await new Agent(t, lines, args).open();
		assert.equal((await agent.ask(ask(4, 'session/prompt'))).result.stopReason, 'end_turn');
		assert.equal(textOf(agent.lines), text);
	}
	const first = await new Agent(t, lines, ['--proc', '1']);
	assert.equal((await first.ask(OPENING[0][1])).result.protocolVersion, 1);
});

test('commands are left out, but where they are asked for', async (t) => {
	const lines = [...OPENING, PROMPT, ['a2c', ask('u', 'terminal/create')], ['c2a', { id: 'u', result: { terminalId: 't' } }], ['a2c', update('after')],
		['a2c', ask(1, 'terminal/release')], ['c2a', { id: 1, result: {} }], DONE];
	const careful = await new Agent(t, lines).open();
	assert.equal((await careful.ask(ask(3, 'session/prompt'))).result.stopReason, 'end_turn');
	assert.equal(careful.lines.filter((line) => line.includes('terminal/')).length, 0);
	assert.equal(textOf(careful.lines), 'earlyafter');
	const bold = await new Agent(t, lines, ['--commands']).open();
	bold.send(ask(3, 'session/prompt'));
	assert.equal((await bold.line(3)).method, 'terminal/create');
	bold.send({ id: 'u', result: { terminalId: 'mine' } });
	assert.equal((await bold.line(5)).method, 'terminal/release');
	bold.send({ id: 1, result: {} });
	assert.equal((await bold.line(6)).result.stopReason, 'end_turn');
});

test('two prompts at once, played to a client that sends one after the other', async (t) => {
	const agent = new Agent(t, [
		...OPENING, PROMPT, ['a2c', update('1')], ['c2a', ask(4, 'session/prompt')], ['c2a', ask(5, 'session/prompt')], ['a2c', update('2')],
		['a2c', { id: 4, result: { stopReason: 'refusal' } }], ['a2c', update('3')], DONE, ['c2a', ask(6, 'session/prompt')], ['a2c', { id: 6, result: { stopReason: 'max_tokens' } }],
	]);
	await agent.open();
	assert.equal((await agent.ask(ask('a', 'session/prompt'))).result.stopReason, 'end_turn');
	assert.equal(textOf(agent.lines), 'early123');
	assert.equal((await agent.ask(ask('b', 'session/prompt'))).result.stopReason, 'refusal', 'its answer was there before it');
	assert.equal((await agent.ask(ask('c', 'session/prompt'))).result.stopReason, 'max_tokens', 'the prompt without an answer is passed over');
});

test('a cancel goes to where the recorded one came, or ends the turn at once', async (t) => {
	const cancel = { method: 'session/cancel', params: { sessionId: 's1' } };
	const next = [['c2a', ask(4, 'session/prompt')], ['a2c', update('next')], ['a2c', { id: 4, result: { stopReason: 'end_turn' } }]];
	const pause = ['a2c', update('never'), FAR];
	for (const [middle, text, reason] of [
		[[pause, ['c2a', cancel, FAR], ['a2c', update('stopping'), FAR]], 'stopping', 'refusal'],
		[[pause], '', 'cancelled'],
	]) {
		const agent = await new Agent(t, [...OPENING, PROMPT, ['a2c', update('Hi')], ...middle, ['a2c', { id: 3, result: { stopReason: 'refusal' } }, FAR], ...next]).open();
		agent.send({ method: 'session/cancel', params: { sessionId: 's1' } }); // nothing to cancel yet
		agent.send(ask('a', 'session/prompt'));
		await agent.line(3);
		agent.send({ method: 'session/cancel', params: { sessionId: 'other' } }, cancel);
		const answer = (line) => line.includes('"id":"a"');
		while (!agent.lines.some(answer)) {
			await agent.line(agent.lines.length);
		}
		assert.equal(JSON.parse(agent.lines.find(answer)).result.stopReason, reason);
		assert.equal((await agent.ask(ask('b', 'session/prompt'))).result.stopReason, 'end_turn');
		assert.equal(textOf(agent.lines), `earlyHi${text}next`);
	}
});

test('it ends in mid-turn as the recorded agent did, and not when all was done', async (t) => {
	for (const [exit, ended] of [[{ code: 7 }, 7], [{ code: null, signal: 'SIGKILL' }, 'SIGKILL'], [{ code: null, signal: 'SIGTERM' }, 'SIGTERM'], [{ code: 0 }, 0]]) {
		const agent = await new Agent(t, [...OPENING, PROMPT, ['a2c', update('x'.repeat(300_000))], ['ctl', { event: 'exit', ...exit }]]).open();
		agent.send(ask('a', 'session/prompt'));
		assert.equal(await agent.end({ close: false }), ended);
		assert.equal(textOf(agent.lines).length, 'early'.length + 300_000, 'all that it said before has gone out');
	}
	const hung = await new Agent(t, [...OPENING, PROMPT, ['a2c', update('Hi')], ['ctl', { event: 'exit', code: 3 }, FAR]]).open();
	hung.send(ask('a', 'session/prompt'), { method: 'session/cancel', params: { sessionId: 's1' } });
	assert.equal((await hung.ask({ id: 9, method: 'nonsense' })).error.code, -32601);
	assert.ok(!hung.lines.some((line) => line.includes('"id":"a"')), 'what was never answered stays so');
	const done = await new Agent(t, [...OPENING, PROMPT, DONE, ['ctl', { event: 'exit', code: 7 }]]).open();
	assert.equal((await done.ask(ask('a', 'session/prompt'))).result.stopReason, 'end_turn');
	assert.equal(await done.end(), 0);
});

test('invalid lines of the file are left out, and counted', async (t) => {
	const whole = fileOf([...OPENING, PROMPT, ['a2c', update('Hi')], DONE]);
	const bad = ['', 'null', '{"t":1}', '{"t":"1","dir":"a2c","proc":1,"line":"x"}', '{"t":1,"dir":"up","proc":1,"line":"x"}', '{"t":1,"dir":"a2c","proc":0,"line":"x"}', '{"t":1,"dir":"a2c","proc":1}', '{"t":1,"dir":"ctl","proc":1}'];
	const agent = await new Agent(t, `${bad.join('\n')}\n${whole}\n{"t":1,"dir":"a2c","proc":1,"li`, ['--speed', '0']).open();
	assert.equal((await agent.ask(ask(3, 'session/prompt'))).result.stopReason, 'end_turn');
	assert.equal(textOf(agent.lines), 'earlyHi');
	await agent.complaint(`: ${bad.length + 1} invalid lines were skipped`);
});

test('what it cannot play it says, and how it is called', async (t) => {
	const good = fileOf([...OPENING, PROMPT, DONE]);
	for (const [args, recording, code, words] of [
		[['--help'], good, 0, /^$/], [['--version'], good, 0, /^$/], [[], '', 1, /no recording$/m], [[], 'nonsense', 1, /no recording$/m],
		[['--proc', '2'], good, 1, /no recording of this process/], [['missing.jsonl'], good, 2, /unexpected argument: /], [['--speed', '-1'], good, 2, /--speed takes a number/],
		[['--speed', 'nan'], good, 2, /--speed takes a number/], [['--speed', '1x'], good, 2, /--speed takes a number/], [['--proc', '1.5'], good, 2, /--proc takes a whole number/],
		[['--wait', ''], good, 2, /--wait takes a number/], [['--fly'], good, 2, /fly/],
	]) {
		const agent = new Agent(t, recording, args);
		assert.equal(await agent.end({ close: false }), code, args.join(' '));
		assert.match(agent.stderr, words);
		assert.equal(agent.lines.length > 0, code === 0);
	}
	const agent = new Agent(t, good);
	await agent.end();
	for (const [args, words] of [[[], /a recording is missing/], [['/nowhere/at/all'], /No such file/], [[scratchDir(t)], /Is a directory|Input\/output/]]) {
		const child = spawn(replayAgent(), args, { stdio: ['pipe', 'pipe', 'pipe'] });
		let stderr = '';
		child.stderr.setEncoding('utf8').on('data', (d) => (stderr += d));
		const code = await new Promise((resolve) => child.on('close', resolve));
		assert.ok(code > 0);
		assert.match(stderr, words);
	}
});

test('a block that is interrupted is told from one that is not', () => {
	for (const [before, after, kind] of [
		['- a\n', '- b\n', 'list'], ['- a', 'a\n', 'list'], ['1. a\n2. b', 'c\n3. d\n', 'list'], ['- a\n', 'lazy\n', 'list'], ['- a\n  ```\n  x\n\n', '  y\n  ```\n', 'list'],
		['- a\n\n', '- b\n', null], ['- a\n', '# h\n', null], ['- a\n', '\npara\n', null], ['- a\n', '***\nx', null], ['para\n', '- list\n', null],
		['| a | b |\n|---|---|\n', '| 1 | 2 |\n', 'table'], ['| a | b |\n', '|---|---|\n| 1 | 2|\n', null], ['| a | b |\n|--', '-|---|\n| 1 | 2|\n', null], ['x\n\n   ', '```\n   a\n   ```\n', null], ['```\n  ', '  a\n```\n', 'fence'], ['x\n\n- ', 'a\n- b\n', null], ['- a\n- ', 'b\n', 'list'],
		['a | b\n---|---\n1 | 2\n', '3 | 4\n', 'table'],
		['| a | b |\n|---|---|\n| 1 | 2 |\n', '\nx', null], ['```js\na\n\n', 'b\n```\n', 'fence'], ['~~~\n```\n', 'x\n~~~\n', 'fence'], ['x\n\n```\na', 'b\n```\ny', 'fence'],
		['```js\na\n```\n', 'b\n', null], ['para ', 'graph\n', null], ['para\n', '# h\n', null], ['# h\n', 'para\n', null],
	]) {
		assert.equal(interruptedAt(before + after, before.length), kind, JSON.stringify([before, after]));
	}
});
