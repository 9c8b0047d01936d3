// At the limit of open files: agents are refused in words, the store has what it needs, new connections wait and the living go on.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

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

test('at the limit of open files new connections wait, the living go on, and the server does not spin', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'hot_tail_size=1K'] });
	const { id } = await server.createSession();
	await post(server, id, Array.from({ length: 200 }, (_, n) => input.note({ n, text: 'x'.repeat(500) })));
	const producer = await Producer.connect(t, server, id);
	const living = await Promise.all(Array.from({ length: 10 }, () => Observer.connect(t, server, id)));
	await Promise.all(living.map((observer) => observer.load({ limit: 10 })));
	await readMetrics(server); // over a connection that stays open
	const most = countOpen(server) + 4;
	assert.equal(spawnSync('prlimit', ['--pid', String(server.pid), `--nofile=${most}:4096`]).status, 0);
	const waiting = await Promise.all(Array.from({ length: 40 }, () => RawSocket.connect(t, server)));
	await Promise.all(waiting.map((socket) => socket.send(head('GET', '/healthz'))));
	await eventually(() => server.stderr.includes('cannot accept a connection'), 'accepting to pause');

	const before = await readMetrics(server);
	for (let n = 0; n < 20; n++) {
		await producer.append(input.note({ n }));
	}
	await Promise.all(living.map((observer) => observer.waitForSeq(220)));
	// Pages that have to be read come, or are refused in words; nobody is dropped for it.
	for (const observer of living.slice(0, 5)) {
		await observer.send('load_events', { before_seq: 100, limit: 50 });
		await observer.waitFor((f) => (f.type === 'events_loaded' && f.data.prepend) || (f.type === 'error' && f.data.code === 'storage_failed'));
	}
	await new Promise((resolve) => setTimeout(resolve, 1000));
	const after = await readMetrics(server);
	const turns = after('loop_lag_seconds_count') - before('loop_lag_seconds_count');
	assert.ok(turns < 5000, `${turns} turns of the loop: it spins`);
	assert.ok(living.every((observer) => observer.closed === null));
	assert.ok(server.stderr.split('\n').length < 30, server.stderr);

	assert.equal(spawnSync('prlimit', ['--pid', String(server.pid), '--nofile=4096:4096']).status, 0);
	for (const socket of waiting) {
		assert.equal((await socket.answer()).status, 200); // they have waited, and are served
	}
});
