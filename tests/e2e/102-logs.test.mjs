// The server's own log, and how much is kept of sessions.

import assert from 'node:assert/strict';
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { skipWithout } from '../support/parts.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, binary, runToEnd, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

/** A server that logs to us alone; `lines()` are the objects that it has written so far. */
async function startJson(t, args = [], env = {}) {
	skipWithout(t, ['--cwd']);
	const dir = scratchDir(t);
	const child = spawn(binary(), ['serve', '--listen', '127.0.0.1:0', '--data', join(dir, 'data'), '--cwd', dir, '--auth', 'off', '--log-format', 'json', ...args], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...env } });
	const ended = once(child, 'exit');
	let text = '';
	child.stderr.setEncoding('utf8').on('data', (more) => (text += more));
	defer(t, async () => {
		child.kill('SIGTERM');
		assert.deepEqual(await ended, [0, null], text);
	});
	const lines = () => text.split('\n').slice(0, -1).map((line) => JSON.parse(line));
	await eventually(() => lines().some(({ msg }) => msg.startsWith('listening on ')), 'it to listen');
	const url = lines().find(({ msg }) => msg.startsWith('listening on ')).msg.slice('listening on '.length);
	return { child, lines, url, dir };
}

test('with --log-format json every line is an object, with the time, the level and the session', async (t) => {
	const { lines, url } = await startJson(t, ['--log-level', 'debug', '--agent', 'echo "a \\"quote\\" \\\\ and more" >&2; printf "\\033[31mred\\n" >&2; exit 3']);
	const answer = await fetch(`${url}/api/sessions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"id":"loud"}' });
	assert.equal(answer.status, 201);
	const socket = new (await import('ws')).default(`${url.replace('http', 'ws')}/api/sessions/loud/ws`);
	defer(t, () => socket.terminate());
	await once(socket, 'open');
	socket.send(JSON.stringify({ type: 'prompt', data: { message: 'a secret word', prompt_id: 'p1' } }));
	await eventually(() => lines().some(({ msg }) => msg.includes('a "quote" \\ and more')), 'what the agent says');
	await eventually(() => lines().some(({ msg }) => msg.endsWith('agent: red')), 'without its colours');
	for (const { ts, level, msg, session, ...rest } of lines()) {
		assert.match(ts, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
		assert.ok(Math.abs(Date.parse(ts) - Date.now()) < 600_000, ts);
		assert.ok(['error', 'warning', 'info', 'debug'].includes(level), level);
		assert.equal(session, /^session (\w+): /.exec(msg)?.[1]);
		assert.ok(Object.keys(rest).every((key) => key === 'left_out'), JSON.stringify(rest));
		assert.ok(!msg.includes('secret word'));
	}
	assert.ok(lines().some(({ session }) => session === 'loud'));
});

/** Says what came with the prompt besides it. */
const META_AGENT = `require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method, params } = JSON.parse(line);
	const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
	if (method === 'session/prompt') {
		const text = JSON.stringify(params._meta ?? null);
		say({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } } } });
	}
	say({ id, result: { initialize: { protocolVersion: 1 }, 'session/new': { sessionId: 's' } }[method] ?? { stopReason: 'end_turn' } });
});`;

test('the traceparent of a request goes to the agent with its prompt, and into the lines of the log', async (t) => {
	const agent = join(scratchDir(t), 'agent.cjs');
	writeFileSync(agent, META_AGENT);
	const trace = (n) => `00-${'4bf92f3577b34da6a3ce929d0e0e473'}${n}-00f067aa0ba902b7-01`;
	const { lines, url } = await startJson(t, ['--log-level', 'debug', '--agent', `${process.execPath} ${agent}`]);
	const json = { 'content-type': 'application/json' };
	assert.equal((await fetch(`${url}/api/sessions`, { method: 'POST', headers: { ...json, traceparent: trace(1) }, body: '{"id":"traced"}' })).status, 201);
	assert.equal((await fetch(`${url}/api/sessions/none`, { headers: { traceparent: `${trace(2)}, ${trace(3)}` } })).status, 404);
	const socket = new (await import('ws')).default(`${url.replace('http', 'ws')}/api/sessions/traced/ws?format=markdown`, { headers: { traceparent: trace(4) } });
	const frames = [];
	socket.on('message', (bytes) => frames.push(JSON.parse(bytes)));
	defer(t, () => socket.terminate());
	await once(socket, 'open');
	socket.send(JSON.stringify({ type: 'load_events', data: {} }));
	const said = () => frames.filter(({ type }) => type === 'events').flatMap(({ data }) => data.events).filter(({ type }) => type === 'agent_message').map(({ data }) => data.markdown.trim());
	socket.send(JSON.stringify({ type: 'prompt', data: { message: 'x', prompt_id: 'p1' } }));
	await eventually(() => said().length === 1, 'the agent');
	const chat = { id: 'c', messages: [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: 'y' }] }], trigger: 'submit-message' };
	const answer = await fetch(`${url}/api/ai/traced`, { method: 'POST', headers: { ...json, traceparent: trace(5) }, body: JSON.stringify(chat) });
	assert.equal(answer.status, 200);
	await answer.text();
	await eventually(() => said().length === 2);
	const plain = await fetch(`${url}/api/ai/traced`, { method: 'POST', headers: json, body: JSON.stringify({ ...chat, messages: [{ ...chat.messages[0], id: 'm2' }] }) });
	await plain.text();
	await eventually(() => said().length === 3);
	assert.deepEqual(said().map((text) => JSON.parse(text)), [{ traceparent: trace(4) }, { traceparent: trace(5) }, null]);

	const logged = (front) => lines().filter(({ msg }) => msg.startsWith(front)).map(({ traceparent }) => traceparent);
	assert.deepEqual(logged('request POST /api/sessions: 201'), [trace(1)]);
	assert.deepEqual(logged('request GET /api/: 404'), [undefined]);
	assert.deepEqual(logged('request GET /api/sessions/: 101'), [trace(4)]);
	assert.deepEqual(logged('request POST /api/ai/: 200'), [trace(5), undefined]);
	assert.deepEqual(logged('session traced: the agent gets a prompt'), [trace(4), trace(5)]);
});

test('SIGHUP reads the level again from the file, and keeps it if the file is wrong', async (t) => {
	const file = join(scratchDir(t), 'holdfast.conf');
	writeFileSync(file, 'log-level = error\n');
	const { child, lines } = await startJson(t, ['--config', file]);
	const says = () => lines().filter(({ msg }) => msg.startsWith('SIGHUP')).length;
	const errors = () => lines().filter(({ level }) => level === 'error').length;
	const quiet = lines().length;
	writeFileSync(file, 'log-level = debug\n');
	child.kill('SIGHUP');
	await eventually(() => says() === 1, 'it to be read');
	writeFileSync(file, 'log-level = loud\n');
	child.kill('SIGHUP');
	await eventually(() => errors() === 1, 'the mistake to be told');
	assert.match(lines().find(({ level }) => level === 'error').msg, /loud/);
	writeFileSync(file, 'log-level = debug\nbogus = 1\n'); // a leak here is for the run with AddressSanitizer
	child.kill('SIGHUP');
	await eventually(() => errors() === 2, 'that mistake to be told');
	assert.equal(says(), 1, 'nothing was taken from the file');
	rmSync(file);
	child.kill('SIGHUP');
	await eventually(() => errors() === 3, 'that there is no file to be told');
	assert.equal(says(), 1, 'and nothing else');
	writeFileSync(file, '# as it is by default\n');
	child.kill('SIGHUP');
	await eventually(() => says() === 2);
	assert.ok(lines().length > quiet);
	for (const [name, ...args] of [['--log-format', 'xml'], ['--keep-bytes', 'much']]) {
		const { code, stderr } = await runToEnd(['check-config', name, ...args]);
		assert.equal(code, 2);
		assert.match(stderr, new RegExp(name));
	}
});

test('--keep-bytes: of each session its newest events stay, and one at least', async (t) => {
	const server = await Server.start(t, { args: ['--keep-bytes', '4K', '--limit', 'prune_ms=20', '--limit', 'prune_size=1'] });
	for (const id of ['long', 'short', 'large']) {
		await server.createSession({ id });
	}
	const page = async (id) => (await server.request('GET', `/api/sessions/${id}/events?limit=1000&format=markdown`)).body;
	for (let i = 0; i < 60; i++) {
		await post(server, 'long', [{ type: 'x-step', data: { i, text: 'x'.repeat(100) } }]);
	}
	await post(server, 'short', [{ type: 'x-step', data: {} }, { type: 'x-step', data: {} }]);
	await post(server, 'large', [{ type: 'x-step', data: {} }, { type: 'x-step', data: { text: 'x'.repeat(8000) } }]);
	for (const id of ['long', 'large']) {
		await post(server, id, [input.end()]);
	}
	// Of the file itself, up to as much again stays until it is worth writing anew.
	const kept = async () => {
		const { events } = await page('long');
		const lines = readFileSync(join(server.dataDir, 'sessions/long/events.jsonl'), 'utf8').split('\n').slice(0, -1);
		return lines.filter((line) => JSON.parse(line).seq >= events[0].seq).join('\n').length + 1;
	};
	await eventually(async () => (await kept()) <= 4096, 'old events to go');
	assert.ok((await kept()) > 3500, `${await kept()} bytes are left`);
	await eventually(() => statSync(join(server.dataDir, 'sessions/long/events.jsonl')).size <= 2 * 4096, 'the file to be shortened');
	const { events, max_seq: max, first_kept_seq: first } = await page('long');
	assert.equal(events.at(-1).seq, max);
	assert.equal(events[0].seq, first ?? events[0].seq);
	assert.deepEqual(events.map((e) => e.seq), events.map((e, i) => events[0].seq + i));
	assert.equal((await page('short')).events.length, 2);
	await eventually(async () => (await page('large')).events.length < 3, 'the first to go');
	assert.equal((await page('large')).events.at(-1).seq, (await page('large')).max_seq);
	await server.stop();
	const { code, stdout } = await runToEnd(['verify', server.dataDir]);
	assert.equal(code, 0, stdout);
});
