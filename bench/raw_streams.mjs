// Durable appends to raw streams of Durable Streams: this server beside the protocol's reference server, both on disk before they answer.
//
//   npm install --prefix FOLDER @durable-streams/server@0.3.7
//   node bench/raw_streams.mjs PROGRAM FOLDER [SECONDS] [ROUNDS]
//
// An appender is a connection that posts 200 bytes and waits for the answer. The servers take turns, in each round in the other order. Medians of
// the rounds: appends in a second, and microseconds until the answer, p50 and p99; and what the bare disk does: append 200 bytes, fdatasync.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import net from 'node:net';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const BODY = 'x'.repeat(200);
const CASES = { '1 appender': { appenders: 1, streams: 1 }, '32 appenders of one stream': { appenders: 32, streams: 1 }, '32 appenders of a stream each': { appenders: 32, streams: 32 } };
const [program, folder, seconds = 2, rounds = 3] = process.argv.slice(2);
const dir = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));

const REFERENCE = `
	const { DurableStreamTestServer } = await import(process.argv[2]);
	const server = new DurableStreamTestServer({ port: 0, host: '127.0.0.1', dataDir: process.argv[3] });
	console.log('listening on ' + await server.start());`;

/** A server that listens. */
async function start(name, command, args) {
	const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
	let said = '';
	child.stdout.on('data', (text) => (said += text));
	child.stderr.on('data', (text) => (said += text));
	while (!/listening on (http\S+)/.test(said)) {
		await Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data'), once(child, 'exit').then(() => { throw new Error(said); })]);
	}
	return { name, child, url: new URL(/listening on (http\S+)/.exec(said)[1]), results: new Map() };
}

/** One connection that appends until the time is over; adds to `times` what each append took, in ms. */
function append({ port }, stream, until, times) {
	const request = `POST /v1/stream/${stream} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
	const socket = net.connect(Number(port), '127.0.0.1').setNoDelay();
	return new Promise((done, fail) => {
		let [head, since] = ['', 0];
		const next = () => {
			since = performance.now();
			socket.write(request);
		};
		socket.on('connect', next).on('error', fail).on('close', () => fail(new Error('the server closed the connection')));
		socket.on('data', (bytes) => {
			head += bytes.latin1Slice();
			if (!head.endsWith('\r\n\r\n')) {
				return;
			}
			if (!head.startsWith('HTTP/1.1 204')) {
				fail(new Error(`${stream}: ${head}`));
			}
			head = '';
			const now = performance.now();
			times.push(now - since);
			if (now < until) {
				next();
			} else {
				done();
				socket.destroy();
			}
		});
	});
}

async function measure({ url }, { appenders, streams }, prefix) {
	const each = async (method, status) => {
		for (let i = 0; i < streams; i++) {
			const answer = await fetch(new URL(`/v1/stream/${prefix}-${i}`, url), { method, headers: { 'content-type': 'text/plain' } });
			if (answer.status !== status) {
				throw new Error(`${method}: ${answer.status} ${await answer.text()}`);
			}
		}
	};
	await each('PUT', 201);
	const times = [];
	const since = performance.now();
	const until = since + 1000 * Number(seconds);
	await Promise.all(Array.from({ length: appenders }, (_, i) => append(url, `${prefix}-${i % streams}`, until, times)));
	const rate = times.length / (performance.now() - since) * 1000;
	await each('DELETE', 204);
	times.sort((a, b) => a - b);
	return { rate, p50: times[times.length >> 1] * 1000, p99: times[Math.floor(times.length * 0.99)] * 1000 };
}

/** Appends that are synced in a second, by one thread. */
function bareDisk() {
	const fd = openSync(join(dir, 'bare'), 'a');
	let count = 0;
	for (const until = performance.now() + 1000; performance.now() < until; count++) {
		writeSync(fd, BODY);
		fdatasyncSync(fd);
	}
	closeSync(fd);
	return count;
}

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

const servers = [];
try {
	servers.push(await start('holdfast', program, ['serve', '--auth', 'off', '--listen', '127.0.0.1:0', '--data', join(dir, 'data'), '--limit', 'client_requests=100000000']));
	writeFileSync(join(dir, 'reference.mjs'), REFERENCE);
	const module = pathToFileURL(resolve(folder, 'node_modules/@durable-streams/server/dist/index.js')).href;
	servers.push(await start('reference', process.execPath, [join(dir, 'reference.mjs'), module, join(dir, 'reference')]));
	const disk = [];
	for (let round = 0; round < Number(rounds); round++) {
		disk.push(bareDisk());
		for (const [name, what] of Object.entries(CASES)) {
			for (const server of round % 2 ? [...servers].reverse() : servers) {
				const found = await measure(server, what, `${round}-${what.appenders}-${what.streams}`);
				server.results.set(name, [...server.results.get(name) ?? [], found]);
			}
		}
	}
	for (const name of Object.keys(CASES)) {
		for (const { name: server, results } of servers) {
			const [rate, p50, p99] = ['rate', 'p50', 'p99'].map((key) => median(results.get(name).map((found) => found[key])).toFixed(0));
			const all = results.get(name).map((found) => found.rate.toFixed(0)).join(', ');
			console.log(`${name.padEnd(30)} ${server.padEnd(10)} ${rate.padStart(7)} appends/s  p50 ${p50.padStart(7)} us  p99 ${p99.padStart(7)} us  (${all})`);
		}
	}
	console.log(`the bare disk: ${median(disk)} appends and syncs/s (${disk.join(', ')}); load ${loadavg().map((load) => load.toFixed(1)).join(' ')}`);
} finally {
	servers.forEach(({ child }) => child.kill('SIGKILL'));
	rmSync(dir, { recursive: true, force: true });
}
