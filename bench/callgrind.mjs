// The instructions that the server spends on an append and its deliveries, by valgrind's callgrind: one producer, one event in
// flight, and observers that see each. The difference between two lives of other lengths leaves out the start and the end.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import WebSocket from '../tests/node_modules/ws/wrapper.mjs';

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

async function open(url, type, headers) {
	const socket = new WebSocket(url, { perMessageDeflate: false, headers });
	await frameOf(socket, type);
	return socket;
}

/**
 * The instructions of a profile: all of them, and those for which `isOwn` says so, of the file in which they are and, for the inclusive
 * cost of a call, the function that is called.
 */
function sumUp(profile, isOwn) {
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
			own += isOwn(file, isCall ? called : undefined) ? cost : 0;
			isCall = false;
		}
	}
	return { all, own };
}

/** A life of the server, with or without tokens, in which so many events are appended, one by one, and seen by all observers: its profile. */
async function live(build, { observers, events, auth }) {
	const data = mkdtempSync(join(tmpdir(), 'holdfast-callgrind-'));
	const out = join(data, 'callgrind.out');
	const limits = ['address_connections', 'session_connections', 'half_open'].flatMap((name) => ['--limit', `${name}=10000`]);
	const options = ['--listen', '127.0.0.1:0', '--data', join(data, 'data'), '--cwd', data, ...(auth ? [] : ['--auth', 'off']), '--seccomp', 'off', '--durability', 'write', ...limits];
	const server = spawn('valgrind', ['--tool=callgrind', '--compress-strings=no', '--compress-pos=no', `--callgrind-out-file=${out}`, join(build, 'holdfast'), 'serve', ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
	const closed = once(server, 'close');
	let told = '';
	server.stderr.on('data', (text) => (told += text));
	while (!/listening on (http:\S+)/.test(told)) {
		await Promise.race([once(server.stderr, 'data'), closed.then(() => Promise.reject(new Error(told)))]);
	}
	const base = new URL(/listening on (http:\S+)/.exec(told)[1]).origin;
	const headers = auth ? { authorization: `Bearer ${execFileSync(join(build, 'holdfast'), ['token', 'create', '--data', join(data, 'data'), '--role', 'admin', '--session', '*'], { encoding: 'utf8' }).trim()}` } : {};
	await fetch(`${base}/api/sessions`, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify({ id: 's' }) });
	const ws = `${base.replace('http', 'ws')}/api/sessions/s`;
	let seen = 0;
	let wake = () => {};
	for (let i = 0; i < observers; i++) {
		const socket = await open(`${ws}/ws?format=markdown`, 'connected', headers);
		socket.send('{"type":"load_events","data":{"after_seq":0,"follow":true}}');
		await frameOf(socket, 'events_loaded');
		socket.on('message', (text) => {
			seen += text.subarray(0, 16).toString() === '{"type":"events"';
			wake();
		});
	}
	const producer = await open(`${ws}/produce`, 'connected', headers);
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
	const profile = readFileSync(out, 'utf8');
	rmSync(data, { recursive: true });
	return profile;
}

/** What one event costs, {all, own} as of sumUp(): of lives with `events` and with twice as many. */
export async function costOfEvent(build, { observers, events, auth = false }, isOwn) {
	const short = sumUp(await live(build, { observers, events, auth }), isOwn);
	const long = sumUp(await live(build, { observers, events: 2 * events, auth }), isOwn);
	return { all: (long.all - short.all) / events, own: (long.own - short.own) / events };
}
