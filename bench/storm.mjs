#!/usr/bin/env node
// A storm: what the honest clients of a server wait while a tenth of all are hostile, against what they wait while those are hostile to another
// server on the same machine (so that it is as busy), in one run.
// bench/storm.mjs [--build DIR] [--clients N] [--rate N] [--seconds S] [--rounds N]; DIR has a server and a load tool with optimisation.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

const SESSION = 'storm'; // what the hostile ones load: 20 MiB
const root = fileURLToPath(new URL('..', import.meta.url));
const { values } = parseArgs({ options: {
	build: { type: 'string', default: join(root, 'build-bench') }, clients: { type: 'string', default: '2000' },
	rate: { type: 'string', default: '20' }, seconds: { type: 'string', default: '5' }, rounds: { type: 'string', default: '3' },
} });
const hostileCount = Math.floor(Number(values.clients) / 10);
const dir = mkdtempSync(join(values.build, 'storm.'));
const servers = [];
process.on('exit', () => {
	servers.forEach((server) => server.kill());
	rmSync(dir, { recursive: true, force: true });
});

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A server of its own, with a session to load; gives {url, token, pid}. */
async function start(name) {
	const data = join(dir, name);
	const server = spawn(join(values.build, 'holdfast'), ['serve', '--listen', '127.0.0.1:0', '--data', data, '--log-level', 'error'], { stdio: ['ignore', 'ignore', 'pipe'] });
	servers.push(server);
	let said = '';
	server.stderr.on('data', (text) => (said += text));
	while (!/listening on (\S+)/.test(said)) {
		await pause(20);
	}
	const url = /listening on (\S+)/.exec(said)[1];
	const token = readFileSync(join(data, 'access-token'), 'utf8').trim();
	const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
	const events = JSON.stringify(Array.from({ length: 500 }, (_, n) => ({ type: 'x-note', data: { n, text: 'x'.repeat(4000) } })));
	for (let n = 0; n < 10; n++) {
		const answer = await fetch(`${url}/api/sessions/${SESSION}/events?create=1`, { method: 'POST', headers, body: events });
		assert.equal(answer.status, 200, await answer.text());
	}
	return { url, token, pid: server.pid };
}

/** One run of the load tool, which checks that everybody gets everything, while the storm is at `target`; gives its figures by name. */
async function measure(server, target) {
	const storm = spawn(process.execPath, [join(root, 'tests/support/hostile_clients.mjs'), target.url, target.token, SESSION, String(hostileCount)], { stdio: ['pipe', 'inherit', 'inherit'] });
	await pause(2000);
	const args = ['latency', '--observers', String(Number(values.clients) - hostileCount), '--rate', values.rate, '--seconds', values.seconds,
		'--port', new URL(server.url).port, '--pid', String(server.pid)];
	const { stdout } = await promisify(execFile)(join(values.build, 'bench/holdfast-bench'), args, { env: { ...process.env, HOLDFAST_TOKEN: server.token } });
	const memory = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))[1]) / 1024;
	storm.stdin.end();
	await new Promise((resolve) => storm.once('exit', resolve));
	return { ...Object.fromEntries([...stdout.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value])), memory };
}

const say = (f) => `p50 ${f.latency_p50} p99 ${f.latency_p99} us, ${f.memory.toFixed(0)} MiB, server ${f.cpu_percent} %, others ${f.other_cpu_percent} % of a CPU`;
const server = await start('data');
const other = await start('other');
const ratios = [];
for (let round = 0; round < Number(values.rounds); round++) {
	const calm = await measure(server, other);
	const stormy = await measure(server, server);
	ratios.push(stormy.latency_p99 / calm.latency_p99);
	console.log(`${hostileCount} hostile to another server: ${say(calm)}\n${hostileCount} hostile to this one: ${say(stormy)}; p99 ratio ${ratios.at(-1).toFixed(2)}`);
}
ratios.sort((a, b) => a - b);
console.log(`clients=${values.clients} hostile=${hostileCount} rate=${values.rate} p99_ratio=${ratios[ratios.length >> 1].toFixed(2)}`);
process.exit(0);
