// holdfast sessions, tail, watch, prompt and append: the protocol used from a terminal.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { Server, binary, demoAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

async function run(code, ...args) {
	const done = await runToEnd(args);
	assert.equal(done.signal ?? done.code, code, `holdfast ${args.join(' ')}\n${done.stdout}${done.stderr}`);
	return done;
}

/** A command that goes on; `out` and `err` are what it has printed so far. */
function begin(t, args, text) {
	const child = spawn(binary(), args, { stdio: [text === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'] });
	const going = { child, out: '', err: '', ended: once(child, 'exit') };
	child.stdout.setEncoding('utf8').on('data', (more) => (going.out += more));
	child.stderr.setEncoding('utf8').on('data', (more) => (going.err += more));
	child.stdin?.end(text);
	defer(t, () => child.kill('SIGKILL'));
	return going;
}

const objects = (text) => text.split('\n').slice(0, -1).map((line) => JSON.parse(line));
const page = async (server, id) => (await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000&format=markdown`)).body.events;

test('sessions lists them, by --data, --url with a token, or HOLDFAST_TOKEN', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'one', title: 'First \u001b[31mred' });
	await server.createSession({ id: 'two' });
	const { stdout } = await run(0, 'sessions', '--data', server.dataDir);
	assert.match(stdout, /^two +idle +0 {2}\d{4}-\d\d-\d\d \d\d:\d\d\none +idle +0 {2}\S+ \S+ {2}First red\n$/);
	const file = join(scratchDir(t), 'token');
	writeFileSync(file, `${server.token}\n`);
	const own = server.url.startsWith('http:') ? ['--url', server.url] : ['--data', server.dataDir];
	const json = objects((await run(0, 'sessions', ...own, '--token-file', file, '--json')).stdout);
	assert.deepEqual(json.map(({ id }) => id), ['two', 'one']);
	const by = await runToEnd(['sessions', ...own], { env: { HOLDFAST_TOKEN: server.token } });
	assert.deepEqual([by.code, by.stdout], [0, stdout]);
	const wrong = await runToEnd(['sessions', ...own], { env: { HOLDFAST_TOKEN: 'wrong' } });
	assert.equal(wrong.code, 2);
	assert.match(wrong.stderr, /unauthorized/);
	assert.match((await run(2, 'sessions', '--data', join(server.dataDir, 'none'))).stderr, /no server runs with/);
	assert.match((await run(2, 'sessions', '--url', 'ftp://x')).stderr, /is not the address of a server/);
});

test('an answer that breaks off, or has no end in sight, is told as such, with the address', async (t) => {
	const path = join(scratchDir(t), 'sock');
	const cut = net.createServer((socket) => socket.on('error', () => {}).once('data', () => {
		socket.write('HTTP/1.1 200 OK\r\n\r\n{"sessions":[', () => setTimeout(() => socket.resetAndDestroy(), 50));
	})).listen(0, '127.0.0.1');
	const silent = net.createServer((socket) => socket.on('error', () => {}).once('data', () => socket.end())).listen(path);
	await Promise.all([once(cut, 'listening'), once(silent, 'listening')]);
	defer(t, () => [cut, silent].forEach((server) => server.close()));
	const { port } = cut.address();
	assert.match((await run(2, 'sessions', '--url', `http://127.0.0.1:${port}`)).stderr, new RegExp(`no answer from 127.0.0.1 port ${port}: Connection reset`));
	assert.match((await run(2, 'sessions', '--url', `unix:${path}`)).stderr, new RegExp(`no answer from unix:${path}: `));
});

test('append takes lines as they come, and tail prints what the server has', async (t) => {
	const server = await Server.start(t);
	const at = ['--data', server.dataDir];
	const lines = ['k1', 'k2'].map((key, n) => JSON.stringify({ type: 'x-step', data: { n }, key }));
	assert.equal((await begin(t, ['append', 'new', ...at], `${lines[0]}\n`).ended)[0], 2, 'there is no such session');
	for (const duplicate of [false, true]) {
		const appending = begin(t, ['append', 'new', '--create', ...at], `${lines.join('\n')}\n\n`);
		assert.deepEqual(await appending.ended, [0, null], appending.err);
		assert.deepEqual(objects(appending.out), [{ seq: 1, duplicate }, { seq: 2, duplicate }]);
	}
	const bad = begin(t, ['append', 'new', ...at], '{"type":"x-step","data":{}}\n{"type":"nothing","data":{}}\n{"type":"x-step","data":{}}\n');
	assert.equal((await bad.ended)[0], 2);
	assert.match(bad.err, /unknown_type[^]*line 2 is not appended; those before it are/);
	const events = await page(server, 'new');
	assert.equal(events.length, 3);
	assert.deepEqual(objects((await run(0, 'tail', 'new', ...at)).stdout), events);
	assert.deepEqual(objects((await run(0, 'tail', 'new', '--last', '1', ...at)).stdout), events.slice(2));
	assert.deepEqual(objects((await run(0, 'tail', 'new', '--after', '1', ...at)).stdout), events.slice(1));
	assert.match((await run(2, 'tail', 'missing', ...at)).stderr, /the session is gone, or is not for this token|status 404/);
	assert.match((await run(2, 'tail', 'a/b', ...at)).stderr, /"a\/b" is not a valid session id/);
	assert.match((await run(2, 'tail', 'new', '--last', 'x', ...at)).stderr, /--last/);
});

test('tail --follow goes on over a restart of the server: every event once, in order', async (t) => {
	const probe = net.createServer().listen(0, '127.0.0.1');
	await once(probe, 'listening');
	const { port } = probe.address();
	probe.close();
	await once(probe, 'close');
	const server = await Server.start(t, { listen: [`127.0.0.1:${port}`] });
	await server.createSession({ id: 's' });
	for (let i = 0; i < 700; i++) {
		i % 100 === 0 && (await post(server, 's', Array.from({ length: 100 }, (_, k) => ({ type: 'x-n', data: { n: i + k } }))));
	}
	const tail = begin(t, ['tail', 's', '--after', '0', '--follow', '--url', server.url, '--data', server.dataDir, '--token-file', join(server.dataDir, 'access-token')]);
	await eventually(() => objects(tail.out).length === 700, 'all pages');
	await post(server, 's', [{ type: 'x-n', data: { n: 700 } }]);
	await eventually(() => objects(tail.out).length === 701, 'a live one');
	await server.kill9();
	await server.restart();
	await post(server, 's', [{ type: 'x-n', data: { n: 701 } }]);
	await eventually(() => objects(tail.out).length === 702, 'the one after the restart');
	assert.deepEqual(objects(tail.out).map((e) => e.seq), Array.from({ length: 702 }, (_, i) => i + 1));
	assert.match(tail.err, /trying again in 1 s/);
	// A session that begins anew, and one that goes.
	await server.request('DELETE', '/api/sessions/s');
	assert.deepEqual(await tail.ended, [2, null]);
	assert.match(tail.err, /the session is gone/);
});

test('prompt shows its turn until it ends, and watch shows everybody\'s', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 400') });
	await server.createSession({ id: 'talk' });
	const at = ['--data', server.dataDir];
	const watch = begin(t, ['watch', 'talk', ...at]);
	await eventually(async () => (await server.request('GET', '/metrics')).body.includes('holdfast_observers{transport="websocket"} 1'), 'it to watch');
	const { stdout } = await run(0, 'prompt', 'talk', 'nested code', ...at);
	const events = await page(server, 'talk');
	assert.match(stdout, /^> nested code\n/);
	assert.match(stdout, /\n-- end of the turn: end_turn\n$/);
	const said = events.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown.split('\n')[0]);
	assert.ok(said.length > 0);
	for (const line of said) {
		assert.ok(stdout.includes(line), line);
		assert.ok(watch.out.includes(line) || (await eventually(() => watch.out.includes(line)), true), line);
	}
	await eventually(() => watch.out.includes('-- end of the turn'), 'watch to show the end');
	// The same id again is the same prompt.
	const first = await run(0, 'prompt', 'talk', 'once', '--id', 'p-once', ...at);
	assert.match(first.stdout, /> once/);
	assert.equal((await page(server, 'talk')).filter((e) => e.data.prompt_id === 'p-once').length, 1);
	const piped = begin(t, ['prompt', 'talk', '-', ...at], 'two\nlines \u001b]0;x\u0007here');
	assert.equal((await piped.ended)[0], 0, piped.err);
	assert.match(piped.out, /^> two\n> lines here\n/);
	watch.child.kill('SIGINT');
	assert.deepEqual(await watch.ended, [null, 'SIGINT']);
});

test('prompt --create makes the session, and uses one that is there', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	for (const message of ['hello', 'hello']) {
		assert.match((await run(0, 'prompt', 'fresh', message, '--create', '--data', server.dataDir)).stdout, /^> hello$/m);
	}
	assert.equal((await page(server, 'fresh')).filter(({ type }) => type === 'user_prompt').length, 2);
	assert.match((await run(2, 'prompt', 'bad id', 'hello', '--create', '--data', server.dataDir)).stderr, /bad id/);
});

test('a prompt that is refused is told, with the exit code', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'mute' });
	const { stderr } = await run(2, 'prompt', 'mute', 'Hello', '--data', server.dataDir);
	assert.match(stderr, /\(no_agent\)/);
	await post(server, 'mute', [input.text('x'), input.end()]);
});
