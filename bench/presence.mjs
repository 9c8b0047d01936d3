// What presence costs a session that many watch: the server's processor time while names change, when nobody asks who is here,
// when one does, and when all do.
//
//   node bench/presence.mjs --build build-bench [--observers 10000] [--seconds 10]
//
// build-bench is a release build. Prints a line for each case, and the server's memory.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import WebSocket from '../tests/node_modules/ws/wrapper.mjs';

const { values } = parseArgs({ options: { build: { type: 'string', default: 'build-bench' }, observers: { type: 'string', default: '10000' }, seconds: { type: 'string', default: '10' } } });
const COUNT = Number(values.observers);
const SECONDS = Number(values.seconds);
const dir = mkdtempSync(join(tmpdir(), 'holdfast-presence-'));
const limits = ['address_connections', 'session_connections', 'connections', 'half_open'].flatMap((name) => ['--limit', `${name}=${2 * COUNT}`]);
const server = spawn(join(values.build, 'holdfast'), ['serve', '--listen', '127.0.0.1:0', '--data', join(dir, 'data'), '--cwd', dir, '--auth', 'off', ...limits], { stdio: ['ignore', 'ignore', 'pipe'] });
let told = '';
server.stderr.on('data', (text) => (told += text));
while (!/listening on (http:\S+)/.test(told)) {
	await once(server.stderr, 'data');
}
const base = /listening on (http:\S+)/.exec(told)[1];
await fetch(`${base}/api/sessions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ id: 's' }) });

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
let frames = 0;
let bytes = 0;
const sockets = [];
const say = (socket, data) => socket.send(JSON.stringify({ type: 'presence', data }));
for (let i = 0; i < COUNT; i += 200) {
	await Promise.all(Array.from({ length: Math.min(200, COUNT - i) }, async (_, n) => {
		const socket = new WebSocket(`${base.replace('http', 'ws')}/api/sessions/s/ws?client_id=c-${i + n}`, { perMessageDeflate: false });
		sockets.push(socket);
		socket.on('message', (text) => {
			if (text.subarray(0, 18).toString() === '{"type":"presence"') {
				frames += 1;
				bytes += text.length;
			}
		});
		await once(socket, 'message');
	}));
}

/** Milliseconds of processor time that the server has had, and its memory in MiB. */
function cost() {
	const [, user, system] = /^\d+ \(.*\) (?:\S+ ){11}(\d+) (\d+)/.exec(readFileSync(`/proc/${server.pid}/stat`, 'utf8'));
	const [, kib] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'));
	return { ms: (Number(user) + Number(system)) * 10, mib: Math.round(kib / 1024) };
}

async function measure(what, changes) {
	const before = { ...cost(), frames, bytes, at: Date.now() };
	let n = 0;
	while (Date.now() < before.at + SECONDS * 1000) {
		if (changes) {
			say(sockets[n % 50], { name: `name ${n}` });
			n += 1;
		}
		await sleep(10);
	}
	const now = cost();
	const seconds = (Date.now() - before.at) / 1000;
	const per = (value) => Math.round(value / seconds);
	console.log(`${what}: ${per(n)} names/s, ${((now.ms - before.ms) / seconds / 10).toFixed(1)} % of a processor, ${per(frames - before.frames)} frames/s, ${per((bytes - before.bytes) / 1024)} KiB/s, ${now.mib} MiB`);
}

console.log(`${COUNT} observers of one session`);
await measure('nothing happens');
await measure('nobody asks', true);
say(sockets[0], { watch: true });
await measure('one asks', true);
sockets.forEach((socket) => say(socket, { watch: true }));
await sleep(3000);
await measure('all ask', true);
await measure('all ask, nothing changes');
server.kill();
await once(server, 'close');
rmSync(dir, { recursive: true, force: true });
process.exit(0);
