// The commands where things go wrong: a server that answers nonsense, output that cannot be written, input that cannot be read, numbers of any size.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { binary, demoAgent, scratchDir, Server } from '../support/server.mjs';
import { defer, within } from '../support/wait.mjs';

/** Runs a command to its end. `stdin` is text or a descriptor, `stdout` a descriptor; without it stdout is given back. */
async function run(t, args, { stdin = '', stdout = 'pipe', env = {} } = {}) {
	const child = spawn(binary(), args, { env: { ...process.env, ...env }, stdio: [typeof stdin === 'number' ? stdin : 'pipe', stdout, 'pipe'] });
	defer(t, () => child.kill('SIGKILL'));
	const said = { stdout: '', stderr: '' };
	child.stdout?.setEncoding('utf8').on('data', (data) => (said.stdout += data));
	child.stderr.setEncoding('utf8').on('data', (data) => (said.stderr += data));
	child.stdin?.on('error', () => {});
	child.stdin?.end(stdin);
	const [code, signal] = await within(once(child, 'close'), 20_000, () => `the end of ${args.join(' ')}\n${said.stdout}${said.stderr}`);
	return { code, signal, ...said };
}

/** A server whose answers `answer` makes. */
async function fake(t, answer) {
	const server = createServer(answer);
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	defer(t, () => server.close());
	return ['--url', `http://127.0.0.1:${server.address().port}`];
}

const json = (body, status = 200) => (request, response) => request.resume().on('end', () => {
	const text = JSON.stringify(body);
	response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }).end(text);
});

const env = { HOLDFAST_TOKEN: 'x' };

test('an event with numbers that fit no integer or double does not stop who follows, and is printed as it is', async (t) => {
	const server = await Server.start(t);
	const lines = ['{"type":"x-a","data":{"n":1.50}}', '{"type":"x-a","data":{"n":123456789012345678901234567890}}', '{"type":"x-a","data":{"n":1e400}}'];
	const at = ['--data', server.dataDir];
	assert.equal((await run(t, ['append', 's', '--create', ...at], { stdin: lines.join('\n') })).code, 0);
	const { code, stdout } = await run(t, ['tail', 's', '--after', '0', ...at]);
	assert.equal(code, 0);
	assert.deepEqual(stdout.trim().split('\n').map((line) => /"data":(.*)\}$/.exec(line)[1]), ['{"n":1.50}', '{"n":123456789012345678901234567890}', '{"n":1e400}']);
});

test('a server that answers nonsense is told of, and ends the command', async (t) => {
	for (const sessions of [[{}], [{ id: null }], [{ id: '\u001b[31m' }], [1], {}, undefined]) {
		const { code, signal, stderr } = await run(t, ['sessions', ...await fake(t, json({ sessions }))], { env });
		assert.deepEqual([code, signal], [2, null], JSON.stringify(sessions));
		assert.match(stderr, /the answer of the server is not a list of sessions/);
	}
	const listed = await run(t, ['sessions', ...await fake(t, json({ sessions: [{ id: 's', status: '\u001b[31m', title: '\u001b]0;x\u0007' }, { id: 't' }] }))], { env });
	assert.equal(listed.code, 0, listed.stderr);
	assert.doesNotMatch(listed.stdout, /[\u001b\u0007]|null/);
	for (const body of [{}, [], { acks: [] }, { acks: 1 }]) {
		const { code, signal, stderr } = await run(t, ['append', 's', ...await fake(t, json(body))], { stdin: '{}\n', env });
		assert.deepEqual([code, signal], [2, null]);
		assert.match(stderr, /the server does not say whether line 1 is appended/);
	}
	for (const status of [301, 302, 500]) {
		const { code, stderr } = await run(t, ['append', 's', ...await fake(t, json({}, status))], { stdin: '{}\n', env });
		assert.equal(code, 2);
		assert.match(stderr, new RegExp(`${status}`));
	}
});

test('output that cannot be written makes a command fail', async (t) => {
	const server = await Server.start(t);
	const at = ['--data', server.dataDir];
	await run(t, ['append', 's', '--create', ...at], { stdin: '{"type":"x-a","data":{}}' });
	const long = Array.from({ length: 200 }, (_, n) => JSON.stringify({ type: 'agent_message_chunk', data: { text: `${'word '.repeat(200)}${n}\n\n` } })).join('\n');
	await run(t, ['append', 'long', '--create', ...at], { stdin: long }); // more than a buffer: what fails is not the last write
	const full = openSync('/dev/full', 'w');
	for (const args of [['export', server.dataDir, 's'], ['export', server.dataDir, 's', '--format', 'markdown'], ['export', server.dataDir, 'long'], ['export', server.dataDir, 'long', '--format', 'markdown'], ['tail', 'long', ...at], ['--help'], ['serve', '--help'], ['check-config', '--data', server.dataDir], ['tail', 's', ...at], ['sessions', ...at], ['sessions', '--json', ...at], ['append', 's', ...at], ['verify', server.dataDir], ['url', ...at], ['limits'],
		['token', 'create', '--role', 'observer', '--session', 's', ...at], ['token', 'list', ...at], ['tail', 's', '--follow', ...at]]) {
		const { code, stderr } = await run(t, args, { stdin: '{"type":"x-a","data":{}}', stdout: full });
		assert.equal(code, 2, args.join(' '));
		assert.match(stderr, /(stdout cannot be written|session \w+ cannot be exported): No space left on device/, args.join(' '));
	}
	closeSync(full);
});

test('input that cannot be read, or that is no text, is not sent', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const at = ['--data', server.dataDir];
	const dir = `${scratchDir(t)}/dir`;
	mkdirSync(dir);
	await run(t, ['append', 's', '--create', ...at], { stdin: '{"type":"x-a","data":{}}' });
	const input = openSync(dir, 'r');
	for (const [args, words] of [[['append', 's'], /stdin cannot be read: Is a directory/], [['prompt', 's', '-'], /the message cannot be read: Is a directory/]]) {
		const { code, stderr } = await run(t, [...args, ...at], { stdin: input });
		assert.equal(code, 2, args.join(' '));
		assert.match(stderr, words);
	}
	closeSync(input);
	const cut = await run(t, ['prompt', 's', '-', ...at], { stdin: 'list\0 of what is deleted' });
	assert.equal(cut.code, 2, cut.stdout);
	assert.match(cut.stderr, /the message contains a NUL character/);
	const { body } = await server.request('GET', '/api/sessions/s');
	assert.equal(body.max_seq, 1, 'nothing was sent');
});
