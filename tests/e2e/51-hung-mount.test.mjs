// A directory that never answers, as a dead NFS server's: agents that read there stop nobody else.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, canHang, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const hangs = canHang();
if (!hangs) {
	console.log('FUSE cannot be mounted here: a hung mount is not tested');
	test('no mount can hang here', () => assert.equal(canHang(), false));
}

const readingAgent = `${process.execPath} ${fileURLToPath(new URL('../support/reading_agent.mjs', import.meta.url))}`;

hangs && test('file reads that never end stop no append, and SIGTERM ends the server', async (t) => {
	const cwd = scratchDir(t);
	const hungDir = join(cwd, 'hung');
	mkdirSync(hungDir);
	const args = ['--limit', 'agent_stop_ms=500', '--limit', 'stop_wait_ms=500'];
	const server = await Server.start(t, { agent: readingAgent, cwd, hungDir, args });
	// One more than libuv has threads.
	for (let i = 0; i < 5; i++) {
		const { id } = await server.createSession();
		const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
		await observer.loadAll();
		await observer.prompt('hung/file');
		await observer.waitForEvent('agent_message');
	}
	const { id } = await server.createSession();
	for (let seq = 1; seq <= 10; seq++) {
		const { acks } = await post(server, id, [input.note({ seq })]);
		assert.equal(acks[0].seq, seq);
	}
	await server.stop();
});

/** Starts a server with a directory that hangs and a file beside it; `prompt` has a new session's agent read one. */
async function start(t, args = []) {
	const cwd = scratchDir(t);
	const hungDir = join(cwd, 'hung');
	mkdirSync(hungDir);
	writeFileSync(join(cwd, 'file'), 'here\n');
	const server = await Server.start(t, { agent: readingAgent, cwd, hungDir, args: ['--limit', 'agent_stop_ms=500,stop_wait_ms=500', ...args] });
	const open = async () => {
		const { id } = await server.createSession();
		const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
		await observer.loadAll();
		return observer;
	};
	const prompt = async (observer, path) => {
		const { seq } = await observer.prompt(path);
		return { seq, end: async () => (await observer.waitForEvent('turn_end', { after: seq })).data.stop_reason };
	};
	return { server, dir: cwd, open, prompt };
}

hangs && test('while files of some agents do not answer, others read theirs', async (t) => {
	const { open, prompt } = await start(t);
	for (let i = 0; i < 5; i++) {
		const observer = await open();
		const { seq } = await prompt(observer, 'hung/file');
		await observer.waitForEvent('agent_message', { after: seq });
	}
	const observer = await open();
	const { seq, end } = await prompt(observer, 'file');
	assert.equal(await end(), 'end_turn');
	assert.equal((await observer.waitForEvent('file_read', { after: seq })).data.size, 5);
});

hangs && test('a file that does not answer is given up in time, and its agent goes on', async (t) => {
	const { server, open, prompt } = await start(t, ['--limit', 'agent_file_ms=200']);
	const observer = await open();
	for (let i = 0; i < 3; i++) {
		assert.equal(await (await prompt(observer, 'hung/file')).end(), 'refusal');
	}
	// The process that was killed may need a moment to be gone; until then there is no other.
	for (let reason; reason !== 'end_turn';) {
		reason = await (await prompt(observer, 'file')).end();
	}
	assert.match(server.stderr, /a file request of the agent timed out/);
});

hangs && test('an agent and a command whose directory does not answer stop nobody else', async (t) => {
	const cwd = scratchDir(t);
	const hungDir = join(cwd, 'hung');
	mkdirSync(hungDir);
	const request = (method, params) => JSON.stringify({ id: 7, method: `terminal/${method}`, params });
	writeFileSync(join(cwd, 'requests'), [request('create', { command: 'true', cwd: hungDir }), ''].join('\n'));
	const CASES = fileURLToPath(new URL('../unit/acp_agent_cases.sh', import.meta.url));
	const args = ['--limit', 'agent_stop_ms=500,stop_wait_ms=500'];
	const server = await Server.start(t, { agent: `exec /bin/sh ${CASES} terminal`, cwd, hungDir, args });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.prompt('go');
	await observer.waitForEvent('x-acp-terminal');
	await post(server, (await server.createSession()).id, [input.note({ seq: 1 })]);
	await server.stop();
});

hangs && test('directories that are being looked for when the server is told to stop: it stops, and those who wait are let go', async (t) => {
	const { server, dir } = await start(t);
	const cutOff = Array.from({ length: 3 }, () => server.request('GET', `/api/directories?path=${encodeURIComponent(join(dir, 'hung', 'x'))}`).then(() => 'answered', () => 'cut off'));
	// The first of them is at work for ever, the others wait for it.
	const connections = async () => Number(/^holdfast_connections (\d+)$/m.exec((await server.request('GET', '/metrics')).body)?.[1]);
	await eventually(async () => (await connections()) >= 4, 'the requests to be there');
	await server.stop();
	assert.deepEqual(await Promise.all(cutOff), ['cut off', 'cut off', 'cut off']);
});
