// scripts/nodes: what it starts works through the balancer, goes on when a node is killed, and leaves nothing behind.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { binary } from '../support/server.mjs';
import { bearer } from '../support/tokens.mjs';
import { defer, eventually, patience } from '../support/wait.mjs';

const SCRIPT = fileURLToPath(new URL('../../scripts/nodes', import.meta.url));

async function freePort() {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address();
	server.close();
	await once(server, 'close');
	return port;
}

test('three nodes, a database with a synchronous standby, and a balancer', async (t) => {
	const port = await freePort();
	const child = spawn(SCRIPT, ['--port', String(port), '--build', dirname(binary()), '--', '--limit', `node_lease_ms=${2000 * patience}`], { stdio: ['ignore', 'inherit', 'pipe'] });
	let said = '';
	child.stderr.on('data', (text) => (said += text));
	const ended = once(child, 'exit');
	defer(t, async () => {
		child.kill('SIGTERM');
		await ended;
	});
	await eventually(() => said.includes('Ctrl-C stops all of it') || child.exitCode !== null, 'it to be ready', 60_000);
	assert.equal(child.exitCode, null, said);
	const dir = /its log: (.*)\/node1\.log/.exec(said)[1];
	const token = readFileSync(`${dir}/node1/access-token`, 'utf8').trim();
	const ask = async (method, path, json) => {
		const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers: { ...bearer(token), 'content-type': 'application/json', connection: 'close' }, body: json && JSON.stringify(json) });
		return { status: answer.status, body: await answer.json() };
	};
	assert.equal((await ask('POST', '/api/sessions', { id: 's' })).status, 201);
	let acknowledged = 0;
	const append = async (n) => {
		const answer = await ask('POST', '/api/sessions/s/events', [{ type: 'x-note', data: { n }, key: `k${n}` }]).catch(() => ({}));
		acknowledged = answer.status === 200 ? answer.body.acks[0].seq : acknowledged;
		return acknowledged === n;
	};
	for (let n = 1; n <= 6; n++) { // each at another node
		await eventually(() => append(n), `input ${n} to be taken`);
	}
	const doctor = spawn(binary(), ['doctor', '--store', /doctor --store '(.*)'/.exec(said)[1]], { stdio: ['ignore', 'pipe', 'inherit'] });
	let report = '';
	doctor.stdout.on('data', (text) => (report += text));
	const [code] = await once(doctor, 'close');
	assert.equal(code, 0, report);
	assert.match(report, /1 synchronous standbys of 1/);
	process.kill(Number(/node 1 is process (\d+)/.exec(said)[1]), 'SIGKILL');
	for (let n = 7; n <= 9; n++) {
		await eventually(() => append(n), `input ${n} to be taken`);
	}
	const { body } = await ask('GET', '/api/sessions/s/events');
	assert.deepEqual(body.events.map(({ data }) => data.n), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
	child.kill('SIGTERM');
	await ended;
	assert.ok(!existsSync(dir));
});
