// The server as a service: what it tells systemd, its unit, and its alert rules.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseMetrics } from '../support/metrics.mjs';
import { Server, binary, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

const dist = fileURLToPath(new URL('../../dist', import.meta.url));

/** A socket as systemd has it; `told` are the datagrams so far. Node has no such sockets. */
async function startManager(t, path) {
	const script = `import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("here", flush=True)
while True: print(s.recv(4096).decode(), flush=True)`;
	const child = spawn('python3', ['-c', script, path], { stdio: ['ignore', 'pipe', 'inherit'] });
	defer(t, () => child.kill());
	let text = '';
	child.stdout.setEncoding('utf8').on('data', (more) => (text += more));
	const told = () => text.split('\n').slice(1, -1);
	await eventually(() => text.startsWith('here\n'), 'the manager');
	return told;
}

test('systemd is told when the server is ready, that it lives, and when it stops', async (t) => {
	const path = join(scratchDir(t), 'notify');
	const told = await startManager(t, path);
	const server = await Server.start(t, { env: { NOTIFY_SOCKET: path, WATCHDOG_USEC: '40000' } });
	await eventually(() => told().filter((line) => line === 'WATCHDOG=1').length >= 3, 'the watchdog to be told');
	assert.equal(told()[0] === 'READY=1' || told().includes('READY=1'), true);
	await server.createSession({ id: 'one' });
	await server.stop();
	await eventually(() => told().includes('STOPPING=1'), 'the stop to be told');
	assert.equal(told().filter((line) => line === 'READY=1').length, 1);
	assert.deepEqual(told().filter((line) => !['READY=1', 'WATCHDOG=1', 'STOPPING=1'].includes(line)), []);
});

test('a loop that stands still is not told to be alive', async (t) => {
	const path = join(scratchDir(t), 'notify');
	const told = await startManager(t, path);
	const server = await Server.start(t, { env: { NOTIFY_SOCKET: path, WATCHDOG_USEC: '40000' } });
	await eventually(() => told().includes('WATCHDOG=1'));
	process.kill(server.pid, 'SIGSTOP');
	await eventually(() => /^State:\s+T/m.test(readFileSync(`/proc/${server.pid}/status`, 'utf8')), 'it to stand still');
	const count = told().length;
	await once(spawn('sleep', ['0.5']), 'exit');
	assert.ok(told().length <= count + 1, 'what was on its way, and no more');
	process.kill(server.pid, 'SIGCONT');
	await eventually(() => told().length > count + 3, 'it to go on');
});

test('a socket that is not there does not keep the server from starting', async (t) => {
	const server = await Server.start(t, { env: { NOTIFY_SOCKET: '/nowhere/notify' } });
	assert.match(server.stderr, /NOTIFY_SOCKET \/nowhere\/notify cannot be used/);
});

test('the rules name metrics that there are, and promtool takes them', async (t) => {
	const file = join(dist, 'prometheus/holdfast.rules.yml');
	const rules = readFileSync(file, 'utf8');
	const server = await Server.start(t);
	const { body } = await server.request('GET', '/metrics');
	const names = new Set([...rules.matchAll(/\b(?:holdfast|process)_[a-z_]+/g)].map(([name]) => name));
	assert.ok(names.size >= 8);
	assert.deepEqual([...names].filter((name) => !new RegExp(`^${name}[{ ]`, 'm').test(body) && !new RegExp(`^# TYPE ${name} `, 'm').test(body)), []);
	const promtool = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' });
	if (promtool.error) {
		console.log('promtool is not installed here (Debian: prometheus): it does not check the rules');
	} else {
		assert.equal(promtool.status, 0, promtool.stdout + promtool.stderr);
		assert.match(promtool.stdout, /SUCCESS: \d+ rules found/);
	}
});

test('the dashboard names metrics that there are, and every group of metrics is on it', async (t) => {
	const dashboard = JSON.parse(readFileSync(join(dist, 'grafana/holdfast.json'), 'utf8'));
	const panels = dashboard.panels.filter(({ type }) => type !== 'row');
	const expressions = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
	assert.ok(expressions.length > 30);
	const server = await Server.start(t);
	const { types } = parseMetrics((await server.request('GET', '/metrics')).body);
	const named = new Set(expressions.flatMap((expr) => [...expr.matchAll(/\b(?:holdfast|process)_[a-z_]+/g)].map(([name]) => name.replace(/_bucket$/, ''))));
	assert.deepEqual([...named].filter((name) => !types.has(name)), []);
	const buckets = expressions.flatMap((expr) => [...expr.matchAll(/\b(\w+)_bucket\b/g)].map(([, name]) => name));
	assert.deepEqual(buckets.filter((name) => types.get(name) !== 'histogram'), []);
	assert.deepEqual([...types.keys()].filter((name) => types.get(name) === 'histogram' && !named.has(name)), ['holdfast_sync_records'], 'of these the unit is no time');
	assert.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length);
});

test('the unit is one that systemd takes, and is hardened', () => {
	const unit = join(dirname(binary()), 'dist/holdfast.service');
	const text = readFileSync(unit, 'utf8');
	for (const line of ['Type=notify', 'WatchdogSec=2min', 'NoNewPrivileges=yes', 'ProtectSystem=strict', 'User=holdfast', 'CapabilityBoundingSet=']) {
		assert.ok(text.split('\n').includes(line), line);
	}
	const security = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=50', unit], { encoding: 'utf8' });
	if (security.error) {
		console.log('systemd is not installed here: it does not judge the unit');
	} else {
		assert.equal(security.status, 0, security.stdout.slice(-600) + security.stderr);
	}
});
