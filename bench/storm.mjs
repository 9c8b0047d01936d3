#!/usr/bin/env node
// A storm: what the honest clients of a server wait while a tenth of all are hostile, against what they wait without those, in one run.
// bench/storm.mjs [--build DIR] [--clients N] [--rate N] [--seconds S] [--rounds N]; DIR has a server and a load tool with optimisation.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const { values } = parseArgs({ options: {
	build: { type: 'string', default: join(root, 'build-bench') }, clients: { type: 'string', default: '2000' },
	rate: { type: 'string', default: '20' }, seconds: { type: 'string', default: '5' }, rounds: { type: 'string', default: '3' },
} });
const hostileCount = Math.floor(Number(values.clients) / 10);
const dir = mkdtempSync(join(values.build, 'storm.'));

const server = spawn(join(values.build, 'holdfast'), ['serve', '--listen', '127.0.0.1:0', '--data', join(dir, 'data'), '--log-level', 'error'],
	{ stdio: ['ignore', 'ignore', 'pipe'] });
let said = '';
server.stderr.on('data', (text) => (said += text));
process.on('exit', () => {
	server.kill();
	rmSync(dir, { recursive: true, force: true });
});
while (!/listening on (\S+)/.test(said)) {
	await new Promise((resolve) => setTimeout(resolve, 20));
}
const url = /listening on (\S+)/.exec(said)[1];
const token = readFileSync(join(dir, 'data', 'access-token'), 'utf8').trim();
const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };

/** The session that the hostile ones load: 20 MiB. */
async function fill() {
	await fetch(`${url}/api/sessions`, { method: 'POST', headers, body: '{"id":"storm"}' });
	const events = JSON.stringify(Array.from({ length: 500 }, (_, n) => ({ type: 'x-note', data: { n, text: 'x'.repeat(4000) } })));
	for (let n = 0; n < 10; n++) {
		const answer = await fetch(`${url}/api/sessions/storm/events`, { method: 'POST', headers, body: events });
		assert.equal(answer.status, 200, await answer.text());
	}
}

/** One run of the load tool, which checks that everybody gets everything; gives its figures by name. */
async function measure() {
	const args = ['latency', '--observers', String(Number(values.clients) - hostileCount), '--rate', values.rate, '--seconds', values.seconds,
		'--port', new URL(url).port, '--pid', String(server.pid)];
	const { stdout } = await promisify(execFile)(join(values.build, 'bench/holdfast-bench'), args, { env: { ...process.env, HOLDFAST_TOKEN: token } });
	return Object.fromEntries([...stdout.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]));
}

const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))[1]) / 1024;
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
const ratios = [];
await fill();
for (let round = 0; round < Number(values.rounds); round++) {
	const calm = await measure();
	const calmRss = rss();
	const storm = spawn(process.execPath, [join(root, 'tests/support/hostile_clients.mjs'), url, token, 'storm', String(hostileCount)], { stdio: ['pipe', 'inherit', 'inherit'] });
	await new Promise((resolve) => setTimeout(resolve, 2000));
	const stormy = await measure();
	const stormyRss = rss();
	storm.stdin.end();
	await new Promise((resolve) => storm.once('exit', resolve));
	ratios.push(stormy.latency_p99 / calm.latency_p99);
	console.log(`calm: p50 ${calm.latency_p50} p99 ${calm.latency_p99} us, ${calmRss.toFixed(0)} MiB, server ${calm.cpu_percent} %, others ${calm.other_cpu_percent} %; ` +
		`storm of ${hostileCount}: p50 ${stormy.latency_p50} p99 ${stormy.latency_p99} us, ${stormyRss.toFixed(0)} MiB, server ${stormy.cpu_percent} %, others ${stormy.other_cpu_percent} %; p99 ratio ${ratios.at(-1).toFixed(2)}`);
}
console.log(`clients=${values.clients} hostile=${hostileCount} rate=${values.rate} p99_ratio=${median(ratios).toFixed(2)}`);
process.exit(0);
