// What others wrote, on a terminal and in the server's log: no command and no line of the log prints a control character, a byte that is not UTF-8, or a
// character that is invisible or changes the order of those around it, and JSON keeps its values.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, binary, scratchDir } from '../support/server.mjs';
import { defer, eventually, within } from '../support/wait.mjs';

const ranges = [[0, 0x1f], [0x7f, 0x9f], [0xad, 0xad], [0x34f, 0x34f], [0x61c, 0x61c], [0x115f, 0x1160], [0x17b4, 0x17b5], [0x180e, 0x180e], [0x200b, 0x200b], [0x200e, 0x200f],
	[0x2028, 0x202e], [0x2060, 0x206f], [0x3164, 0x3164], [0xfeff, 0xfeff], [0xffa0, 0xffa0], [0xfff0, 0xfffb], [0xe0000, 0xe0fff]];
const isUnsafe = (code) => ranges.some(([from, to]) => code >= from && code <= to);
const codes = ranges.flatMap(([from, to]) => (to < 0x100 ? Array.from({ length: to - from + 1 }, (_, i) => from + i) : [from, to]));
/** All of them, and behind them a mark that is shown; no escape sequence takes that with it. */
const EVIL = `<\u001b[2J\u001b]0;owned\u0007${codes.filter((code) => ![0, 0x0a, 0x1b].includes(code)).map((code) => String.fromCodePoint(code)).join('')}\u009b31mark\u202e>`;

/** The output has the mark as often as `count` says, and nothing of what it must not have. */
function assertSafe(bytes, what, { count = 1, lines = true } = {}) {
	const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(bytes));
	const found = [...text].filter((c) => isUnsafe(c.codePointAt(0)) && !(lines && c === '\n'));
	assert.deepEqual(found.map((c) => c.codePointAt(0).toString(16)), [], `${what}:\n${JSON.stringify(text)}`);
	assert.ok(text.split('31mark').length > count, `${what} shows it ${count} times: ${JSON.stringify(text)}`);
	return text;
}

/** Runs a command to its end, or until `until` says that it has said enough. */
async function run(t, args, { stdin = '', env = {}, until = null } = {}) {
	const child = spawn(binary(), args, { cwd: scratchDir(t), env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
	defer(t, () => child.kill('SIGKILL'));
	const said = { stdout: [], stderr: [] };
	const all = (name) => Buffer.concat(said[name]);
	for (const name of ['stdout', 'stderr']) {
		child[name].on('data', (bytes) => said[name].push(bytes));
	}
	child.stdin.on('error', () => {});
	child.stdin.end(stdin);
	const closed = once(child, 'close');
	if (until) {
		await eventually(() => until(all('stdout').toString()), () => `${args.join(' ')}: ${all('stdout')}${all('stderr')}`);
		child.kill('SIGTERM');
	}
	await within(closed, 20_000, () => `the end of ${args.join(' ')}\n${all('stdout')}${all('stderr')}`);
	return { stdout: all('stdout'), stderr: all('stderr') };
}

/** Events of all kinds whose every text is hostile, behind each other in one turn. */
const events = [
	{ type: 'user_prompt', data: { message: EVIL, prompt_id: 'p1', name: undefined } },
	input.text(`# ${EVIL}\n\n- ${EVIL} \`${EVIL}\`\n\n\`\`\`${EVIL}\n${EVIL}\n\`\`\`\n\n| ${EVIL} |\n|---|\n| ${EVIL} |\n\n[a](http://x.example/${EVIL})\n\n`),
	{ type: 'agent_thought_chunk', data: { text: `${EVIL}\n\n` } },
	{ type: 'tool_call', data: { tool_call_id: EVIL, title: EVIL, kind: 'read', status: 'pending' } },
	{ type: 'tool_call_update', data: { tool_call_id: EVIL, status: 'completed', content: [{ type: 'content', content: { type: 'text', text: `${EVIL}\n${EVIL}` } }] } },
	{ type: 'plan', data: { entries: [{ content: EVIL, priority: 'high', status: 'pending' }] } },
	{ type: 'permission_request', data: { request_id: 'q', tool_call: { tool_call_id: 'y', title: EVIL }, options: [{ option_id: 'o', name: EVIL, kind: 'allow_once' }] } },
	{ type: 'permission_resolved', data: { request_id: 'q', outcome: 'selected', option_id: 'o', by: EVIL } },
	{ type: 'file_read', data: { path: EVIL, size: 1 } },
	{ type: 'agent_started', data: { title: EVIL, version: EVIL } },
	{ type: 'agent_stopped', data: { reason: 'crashed', detail: EVIL } },
	{ type: 'x-custom', data: { [EVIL]: EVIL } },
	{ type: 'turn_end', data: { stop_reason: 'error', message: EVIL } },
];

/** A server with a session of all that; gives the events as it serves them, too. */
async function begin(t, options = {}) {
	const server = await Server.start(t, options);
	await server.createSession({ id: 's', title: EVIL });
	await post(server, 's', events.filter(({ type }) => !type.startsWith('agent_st')));
	return { server, at: ['--data', server.dataDir], served: async () => (await server.request('GET', '/api/sessions/s/events?after_seq=0&format=markdown')).body.events };
}

test('commands that print JSON escape what a terminal must not get, and keep each value', async (t) => {
	const { server, at, served } = await begin(t);
	const parse = (text) => text.trim().split('\n').map((line) => JSON.parse(line));
	const expected = await served();
	assert.deepEqual(parse(assertSafe((await run(t, ['tail', 's', '--after', '0', ...at])).stdout, 'tail', { count: 15 })), expected);
	assert.deepEqual(parse(assertSafe((await run(t, ['tail', 's', '--after', '0', '--follow', ...at], { until: (text) => text.split('\n').length > expected.length })).stdout, 'tail --follow')), expected);
	assert.equal(parse(assertSafe((await run(t, ['sessions', '--json', ...at])).stdout, 'sessions --json'))[0].title, EVIL);
	await server.stop();
	assert.deepEqual(parse(assertSafe((await run(t, ['export', server.dataDir, 's'])).stdout, 'export', { count: 15 })).map(({ data }) => data), expected.map(({ data }) => data));
});

test('commands that show a session leave it out: lists, transcripts, plain text, and what a turn says', async (t) => {
	const { server, at } = await begin(t);
	assertSafe((await run(t, ['sessions', ...at])).stdout, 'sessions');
	const watch = ['watch', 's', '--plain', '--after', '0', ...at];
	assertSafe((await run(t, watch, { until: (text) => text.includes('end of the turn') })).stdout, 'watch --plain', { count: 10 });
	await server.stop();
	const transcript = assertSafe((await run(t, ['export', server.dataDir, 's', '--format', 'markdown'])).stdout.toString().replaceAll('\t', ' '), 'export --format markdown', { count: 15 });
	assert.match(transcript, /\ufffd/, 'a control character leaves a trace');
});

test('answers of a server, and what append prints of them', async (t) => {
	const answer = { status: 200, body: {} };
	const server = createServer((request, response) => request.resume().on('end', () => response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body))));
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	defer(t, () => server.close());
	const at = ['--url', `http://127.0.0.1:${server.address().port}`];
	const env = { HOLDFAST_TOKEN: 'x' };
	answer.body = { acks: [{ seq: 1, key: EVIL }] };
	const { stdout } = await run(t, ['append', 's', ...at], { stdin: '{}\n', env });
	assert.deepEqual(JSON.parse(assertSafe(stdout, 'append')), answer.body.acks[0]);
	answer.body = { sessions: [{ id: 's', status: EVIL, title: EVIL }] };
	assertSafe((await run(t, ['sessions', ...at], { env })).stdout, 'sessions', { count: 2 });
	Object.assign(answer, { status: 400, body: { error: { code: EVIL, message: EVIL } } });
	for (const args of [['append', 's'], ['sessions'], ['prompt', 's', 'x', '--create'], ['watch', 's'], ['tail', 's'], ['attach']]) {
		const { stdout: out, stderr } = await run(t, [...args, ...at], { stdin: '{}\n', env });
		assertSafe(Buffer.concat([out, stderr]), args.join(' '), { count: ['watch', 'tail', 'attach'].includes(args[0]) ? 0 : 1 });
	}
});

test('names and values that are given to a command come back made safe', async (t) => {
	const dir = scratchDir(t);
	const name = EVIL;
	const place = join(dir, name);
	mkdirSync(place);
	let shown = 0;
	for (const args of [[EVIL], [`--${EVIL}`], ['verify', EVIL], ['export', EVIL, EVIL], ['repair', EVIL], ['upgrade', EVIL], ['new-epoch', EVIL], ['backup', EVIL, EVIL],
		['restore', EVIL, EVIL], ['migrate', EVIL, EVIL], ['doctor', '--store', EVIL], ['replay', EVIL, '--url', 'http://127.0.0.1:1', '--session', 's'], ['tail', EVIL], ['watch', EVIL],
		['prompt', EVIL, 'x'], ['append', EVIL], ['url', '--data', EVIL], ['token', EVIL], ['token', 'list', '--data', EVIL], ['serve', `--${EVIL}`], ['serve', '--listen', EVIL],
		['check-config', '--config', EVIL], ['attach', '--url', EVIL], ['limits', EVIL], ['acp-record', EVIL], ['export', place, 's', '--format', EVIL]]) {
		const { stdout, stderr } = await run(t, args);
		const text = assertSafe(Buffer.concat([stdout, stderr]), args.map((word) => JSON.stringify(word.slice(0, 20))).join(' '), { count: 0 });
		shown += /31mark>/.test(text);
	}
	assert.ok(shown > 20, `${shown} commands said what they were given`);
	writeFileSync(join(dir, 'conf'), `${EVIL.replaceAll('\r', '')}\n`);
	assertSafe((await run(t, ['check-config', '--config', join(dir, 'conf')])).stderr, 'a line of the configuration');
	writeFileSync(join(dir, 'conf'), `agent = ${EVIL.replaceAll('\r', '')}\n`);
	assertSafe((await run(t, ['check-config', '--config', join(dir, 'conf')])).stdout, 'check-config');
	assertSafe((await run(t, ['check-config'], { env: { HOLDFAST_AGENT: EVIL } })).stdout, 'check-config of the environment');
});

test('a token\'s sub, and names of files in a data directory', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 's' });
	await post(server, 's', [input.text('x\n\n'), input.end()]);
	const sub = '\u009b2J\u009d\u202e\u2066\u061c\u{e0041}31mark>';
	await run(t, ['token', 'create', '--role', 'observer', '--session', 's', '--sub', sub, '--data', server.dataDir]);
	assertSafe((await run(t, ['token', 'list', '--data', server.dataDir])).stdout, 'token list');
	await server.stop();
	const name = EVIL.slice(0, 80);
	mkdirSync(join(server.dataDir, 'sessions', name));
	writeFileSync(join(server.dataDir, 'sessions', name, name), 'x');
	renameSync(join(server.dataDir, 'sessions', 's', 'events.jsonl'), join(server.dataDir, 'sessions', 's', name));
	writeFileSync(join(server.dataDir, 'journal', name), 'x');
	writeFileSync(join(server.dataDir, name), 'x');
	for (const args of [['verify', server.dataDir], ['repair', server.dataDir], ['upgrade', server.dataDir, '--dry-run'], ['new-epoch', server.dataDir]]) {
		const copy = join(scratchDir(t), 'data');
		cpSync(server.dataDir, copy, { recursive: true });
		const { stdout, stderr } = await run(t, args.map((word) => (word === server.dataDir ? copy : word)));
		assertSafe(Buffer.concat([stdout, stderr]), args[0], { count: 0 });
	}
});

/** An agent that writes bytes of all kinds to stderr and between its messages, and calls itself, its tools and its errors so. */
const agent = (t) => {
	const file = join(scratchDir(t), 'agent.mjs');
	writeFileSync(file, `import { createInterface } from 'node:readline';
const EVIL = ${JSON.stringify(EVIL)};
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
const update = (sessionUpdate, rest) => say({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate, ...rest } } });
process.stderr.write(Buffer.concat([Buffer.from('\\x9b31m\\xff\\xc2', 'latin1'), Buffer.from(EVIL + ' from stderr\\n')]));
process.stdout.write(EVIL.replaceAll('\\n', '') + ' from stdout\\n');
createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method } = JSON.parse(line);
	if (method === 'initialize') {
		say({ id, result: { protocolVersion: 1, agentInfo: { name: EVIL, title: EVIL, version: EVIL } } });
	} else if (method === 'session/new') {
		say({ id, result: { sessionId: 's' } });
	} else if (method === 'session/prompt') {
		say({ method: EVIL, params: {} });
		say({ id: EVIL, method: EVIL, params: {} });
		say({ id: 1e6, result: EVIL });
		update(EVIL, {});
		update('agent_message_chunk', { content: { type: 'text', text: EVIL } });
		say({ id, error: { code: 1, message: EVIL, data: EVIL } });
		process.stderr.write(EVIL + '\\n', () => process.exit(3));
	}
});
`);
	return `exec ${process.execPath} ${file}`;
};

test('the server\'s log: what agents, clients and producers say', async (t) => {
	const server = await Server.start(t, { agent: agent(t), args: ['--log-level', 'debug'] });
	await server.createSession({ id: 's', title: EVIL });
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.prompt('go');
	await observer.waitForEvent('turn_end');
	await fetch(`${server.url}/api/sessions/${encodeURIComponent(EVIL)}`, { headers: { 'user-agent': 'a\xff\x9b', traceparent: '00-\x9b' } });
	await eventually(() => /from stderr/.test(server.stderr) && /from stdout/.test(server.stderr), () => server.stderr);
	await server.stop();
	assert.doesNotMatch(server.stderr, /\ufffd/, 'it is UTF-8');
	assertSafe(Buffer.from(server.stderr), 'the log', { count: 3 });
});
