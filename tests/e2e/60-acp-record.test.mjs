// holdfast acp-record between a client and an agent: what it writes down is what was said, and plays again.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, binary, demoAgent, replayAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { defer, eventually, within } from '../support/wait.mjs';

const read = (file) => readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));

/** Runs the recorder on its own, with `input` for its stdin; gives {code, signal, stdout, stderr}. */
async function record(t, args, input, { cwd, end = true } = {}) {
	const child = spawn(binary(), ['acp-record', ...args], { cwd, stdio: ['pipe', 'pipe', 'pipe'] });
	defer(t, () => child.kill('SIGKILL'));
	const out = { stdout: '', stderr: '' };
	child.stdout.setEncoding('utf8').on('data', (d) => (out.stdout += d));
	child.stderr.setEncoding('utf8').on('data', (d) => (out.stderr += d));
	child.stdin.on('error', () => {});
	child.stdin.write(input);
	if (end) {
		child.stdin.end();
	}
	const [code, signal] = await within(new Promise((resolve) => child.on('close', (...how) => resolve(how))), 20_000, () => `its end\n${out.stderr}`);
	return { code, signal, ...out };
}

test('each line goes through as it is and is written down with its time and direction', async (t) => {
	const file = join(scratchDir(t), 'talk.jsonl');
	const odd = ['{"id":1}', '', 'no JSON "\\ \u2028 é', '\x01\x02', 'x'.repeat(300_000), 'last, without an end'];
	const { code, stdout, stderr } = await record(t, ['--out', file, '--', 'cat'], odd.join('\n'));
	assert.deepEqual([code, stderr, stdout], [0, '', odd.join('\n')]);
	const entries = read(file);
	assert.deepEqual(entries[0], { t: entries[0].t, dir: 'ctl', proc: 1, event: 'spawn' });
	assert.deepEqual(entries.at(-1), { t: entries.at(-1).t, dir: 'ctl', proc: 1, event: 'exit', code: 0 });
	for (const dir of ['c2a', 'a2c']) {
		assert.deepEqual(entries.filter((e) => e.dir === dir).map((e) => e.line), odd);
	}
	assert.ok(entries.every((e, i) => e.proc === 1 && e.t >= 0 && (i === 0 || e.t >= entries[i - 1].t)));
});

test('what is no UTF-8 is passed on as it is, and written as U+FFFD', async (t) => {
	const file = join(scratchDir(t), 'talk.jsonl');
	const { stdout } = await record(t, [`--out=${file}`, '--', 'sh', '-c', 'cat | od -An -tx1'], Buffer.from('a\xff\xe9é\n', 'latin1'));
	assert.equal(stdout.trim(), '61 ff e9 e9 0a');
	assert.equal(read(file).find((e) => e.dir === 'c2a').line, 'a\ufffd\ufffd\ufffd');
});

test('it ends as its agent does, and with its client', async (t) => {
	const dir = scratchDir(t);
	const file = join(dir, 'talk.jsonl');
	const ends = [];
	// An agent that ends by itself, or is killed, while the client is still there; its last words are heard.
	for (const script of ['printf "one\\ntwo"; exit 7', 'echo one; kill -TERM $$', 'echo one; sleep 5 2>&- & exit 0']) {
		const { code, stdout } = await record(t, ['--out', file, '--', 'sh', '-c', script], '', { end: false });
		ends.push([code, stdout]);
	}
	assert.deepEqual(ends, [[7, 'one\ntwo'], [143, 'one\n'], [0, 'one\n']]);
	assert.deepEqual(read(file).filter((e) => e.event === 'exit').map(({ proc, code, signal }) => [proc, code, signal]),
		[[1, 7, undefined], [2, null, 'SIGTERM'], [3, 0, undefined]]);
	const missing = await record(t, ['--out', file, '--', '/no/such/agent'], '');
	assert.equal(missing.code, 127);
	assert.match(missing.stderr, /\/no\/such\/agent: No such file/);
});

test('it ends with its agent, though a child of the agent writes on, and with a signal, though its client does not read', async (t) => {
	const file = join(scratchDir(t), 'talk.jsonl');
	const { code } = await record(t, ['--out', file, '--', 'sh', '-c', 'yes 2>&- & exit 3'], '', { end: false });
	assert.equal(code, 3);
	const child = spawn(binary(), ['acp-record', '--out', file, '--', 'sh', '-c', 'head -c 900000 /dev/zero; echo done >&2; exit 0'], { stdio: ['pipe', 'pipe', 'pipe'] });
	defer(t, () => child.kill('SIGKILL'));
	const ended = new Promise((resolve) => child.on('exit', (...how) => resolve(how)));
	await new Promise((resolve) => child.stderr.once('data', resolve));
	await eventually(() => readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8') === '', 'its agent to end');
	child.kill('SIGTERM');
	assert.deepEqual(await within(ended, 20_000, () => 'its end'), [0, null]);
	assert.deepEqual(read(file).at(-1), { t: read(file).at(-1).t, dir: 'ctl', proc: 2, event: 'exit', code: 0 });
});

test('a line that is too long is passed on, and is not recorded', async (t) => {
	const file = join(scratchDir(t), 'talk.jsonl');
	const { code, stdout, stderr } = await record(t, ['--out', file, '--', 'sh', '-c', 'echo one; head -c 68000000 /dev/zero | tr "\\0" x; echo; echo two'], '');
	assert.equal(code, 0);
	assert.equal(stdout.length, 'one\n\ntwo\n'.length + 68_000_000);
	assert.match(stderr, /talk\.jsonl: a line is longer than 64 MiB; the recording is not complete/);
	assert.deepEqual(read(file).filter(({ dir }) => dir === 'a2c').map(({ line }) => line), ['one', 'two']);
});

test('without --out the file has a name of its own; what it cannot do it says', async (t) => {
	const dir = scratchDir(t);
	const { stderr } = await record(t, ['--', 'true'], '', { cwd: dir });
	const [name] = readdirSync(dir);
	assert.match(name, /^acp-\d{8}-\d{6}-\d+\.jsonl$/);
	assert.ok(stderr.includes(name), stderr);
	for (const [args, words] of [[[], /command is missing/], [['--'], /command is missing/], [['cat'], /unexpected argument cat/], [['--fly', '--', 'cat'], /unknown option --fly/], [['--out', join(dir, 'no/dir'), '--', 'cat'], /No such file/]]) {
		const done = await runToEnd(['acp-record', ...args]);
		assert.equal(done.code, 2, args.join(' '));
		assert.match(done.stderr, words);
	}
	assert.match((await runToEnd(['acp-record', '--help'])).stdout, /^Usage: holdfast acp-record /);
	assert.match((await runToEnd(['--help'])).stdout, /^ {2}acp-record /m);
});

/** Runs the same two turns, one of which asks, and gives the log without what differs by nature. */
async function talk(t, agent) {
	const cwd = scratchDir(t);
	writeFileSync(join(cwd, 'README.md'), '# To be read\n');
	const server = await Server.start(t, { agent, cwd });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	for (const prompt of ['list', 'permission']) {
		const { seq } = await observer.prompt(prompt);
		if (prompt === 'permission') {
			const { data } = await observer.waitForEvent('permission_request', { after: seq });
			await observer.send('permission_answer', { request_id: data.request_id, option_id: data.options[0].option_id });
		}
		await observer.waitForEvent('turn_end', { after: seq });
	}
	await server.stop();
	return readLog(server, id).filter(({ type }) => !['agent_started', 'agent_stopped', 'file_read', 'file_write', 'usage'].includes(type))
		.map(({ type, data }) => [type, data.markdown ?? data.text ?? data.tool_call_id ?? data.stop_reason ?? null]);
}

test('a recorded agent plays again through the server', async (t) => {
	const file = join(scratchDir(t), 'talk.jsonl');
	const said = await talk(t, `exec ${binary()} acp-record --out ${file} -- ${demoAgent('--rate 0')}`);
	assert.ok(said.filter(([type]) => type === 'turn_end').length === 2 && said.length > 8, JSON.stringify(said));
	assert.deepEqual(await talk(t, `exec ${replayAgent()} --speed 0 ${file}`), said);
});
