// What the metrics cost where it counts: of the instructions that the server spends on appends and their deliveries, those that count
// them, by valgrind's callgrind. That is the code of src/metrics, what of include/holdfast/metrics.h the compiler put into other
// functions, and the looks at the clock that are there for histograms. One producer, one event in flight; the difference between two
// runs of other lengths leaves out the start and the end.
//
//   meson setup build-bench --buildtype=release -Ddebug=true -Dtests=false && ninja -C build-bench holdfast
//   node bench/metrics.mjs [--build build-bench] [--observers 1,100] [--events 1000]
//
// Prints a line for each number of observers.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import WebSocket from '../tests/node_modules/ws/wrapper.mjs';

const { values } = parseArgs({ options: { build: { type: 'string', default: 'build-bench' }, observers: { type: 'string', default: '1,100' }, events: { type: 'string', default: '1000' } } });
const EVENTS = Number(values.events);
const dir = mkdtempSync(join(tmpdir(), 'holdfast-metrics-'));

/** The next frame of a type. */
function frameOf(socket, type) {
	return new Promise((resolve) => socket.on('message', function look(text) {
		const frame = JSON.parse(text);
		if (frame.type === type) {
			socket.off('message', look);
			resolve(frame);
		}
	}));
}

async function open(url, type) {
	const socket = new WebSocket(url, { perMessageDeflate: false });
	await frameOf(socket, type);
	return socket;
}

/* Files whose looks at the clock are for histograms. */
const TIMED = /\/(net\/conn|relay\/relay|store\/journal|store\/log_write)\.c$/;
const OURS = /\/(src\/metrics\/[a-z_]+\.c|include\/holdfast\/metrics\.h)$/;

/** The instructions of a profile: all of them, and those of the metrics. */
function sumUp(profile) {
	let file = '';
	let called = '';
	let isCall = false;
	let all = 0;
	let own = 0;
	for (const line of profile.split('\n')) {
		const [, key, name] = /^(fl|fi|fe|cfn)=(.*)$/.exec(line) ?? [];
		if (key === 'cfn') {
			called = name;
		} else if (key) {
			file = name;
		} else if (line.startsWith('calls=')) {
			isCall = true;
		} else if (/^\d+ \d+$/.test(line)) {
			const cost = Number(line.split(' ')[1]);
			all += isCall ? 0 : cost;
			own += isCall ? (called === 'uv_hrtime' && TIMED.test(file) ? cost : 0) : OURS.test(file) ? cost : 0;
			isCall = false;
		}
	}
	return { all, own };
}

/** A life of the server, in which so many events are appended, one by one, and seen by all observers. */
async function live(observers, events) {
	const data = mkdtempSync(join(dir, 'data-'));
	const out = join(dir, 'callgrind.out');
	const limits = ['address_connections', 'session_connections', 'half_open'].flatMap((name) => ['--limit', `${name}=10000`]);
	const server = spawn('valgrind', ['--tool=callgrind', '--compress-strings=no', '--compress-pos=no', `--callgrind-out-file=${out}`, join(values.build, 'holdfast'), 'serve', '--listen', '127.0.0.1:0', '--data', data, '--cwd', dir, '--auth', 'off', '--seccomp', 'off', '--durability', 'write', ...limits], { stdio: ['ignore', 'ignore', 'pipe'] });
	const closed = once(server, 'close');
	let told = '';
	server.stderr.on('data', (text) => (told += text));
	while (!/listening on (http:\S+)/.test(told)) {
		await Promise.race([once(server.stderr, 'data'), closed.then(() => Promise.reject(new Error(told)))]);
	}
	const base = /listening on (http:\S+)/.exec(told)[1];
	await fetch(`${base}/api/sessions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ id: 's' }) });
	const ws = `${base.replace('http', 'ws')}/api/sessions/s`;
	let seen = 0;
	let wake = () => {};
	for (let i = 0; i < observers; i++) {
		const socket = await open(`${ws}/ws?format=markdown`, 'connected');
		socket.send('{"type":"load_events","data":{"after_seq":0,"follow":true}}');
		await frameOf(socket, 'events_loaded');
		socket.on('message', (text) => {
			seen += text.subarray(0, 16).toString() === '{"type":"events"';
			wake();
		});
	}
	const producer = await open(`${ws}/produce`, 'connected');
	for (let n = 1; n <= events; n++) {
		const answer = frameOf(producer, 'appended');
		producer.send(JSON.stringify({ type: 'append', data: { ref: `r${n}`, events: [{ type: 'x-note', data: { n, text: 'x'.repeat(100) } }] } }));
		await answer;
		while (seen < n * observers) {
			await new Promise((resolve) => (wake = resolve));
		}
	}
	server.kill('SIGTERM');
	await closed;
	rmSync(data, { recursive: true });
	return sumUp(readFileSync(out, 'utf8'));
}

try {
	for (const observers of values.observers.split(',').map(Number)) {
		const short = await live(observers, EVENTS);
		const long = await live(observers, 2 * EVENTS);
		const [all, own] = ['all', 'own'].map((what) => (long[what] - short[what]) / EVENTS);
		console.log(`observers=${observers} instructions_per_event=${Math.round(all)} metrics=${Math.round(own)} percent=${(100 * own / all).toFixed(2)} ratio=${(all / (all - own)).toFixed(4)}`);
	}
} finally {
	rmSync(dir, { recursive: true, force: true });
}
