// At the limit of open files: agents are refused in words, and the store has what it needs.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent } from '../support/server.mjs';

const MOST = 200;
const countOpen = ({ pid }) => readdirSync(`/proc/${pid}/fd`).length;

test('connections that take all descriptors but a few stop agents and not the store', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	assert.equal(spawnSync('prlimit', ['--pid', String(server.pid), `--nofile=${MOST}:${MOST}`]).status, 0);
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	const sockets = [];
	while (countOpen(server) < MOST * 0.8) {
		sockets.push(await Observer.connect(t, server, id));
	}
	const first = await observer.prompt('hello');
	const { data } = await observer.waitForEvent('agent_stopped', { after: first.seq });
	assert.deepEqual([data.reason, data.detail], ['spawn_failed', 'too many open files']);
	const ids = [];
	for (let i = 0; i < 100; i++) {
		ids.push((await server.createSession()).id);
		await post(server, ids[i], [input.text(`text ${i}\n\n`), input.end()]);
	}
	for (const [i, other] of ids.entries()) {
		await post(server, other, [input.text('more\n\n'), input.end()]);
		assert.deepEqual(readLog(server, other).filter((e) => e.type === 'agent_message').map((e) => e.data.markdown), [`text ${i}\n\n`, 'more\n\n']);
	}
	assert.ok(countOpen(server) < MOST);
	sockets.forEach((socket) => socket.close());
	for (let seq = first.seq, type = ''; type !== 'agent_started';) {
		({ seq } = await observer.prompt('hello'));
		({ type } = await observer.waitForEvent((e) => ['agent_started', 'agent_stopped'].includes(e.type), { after: seq }));
	}
});
