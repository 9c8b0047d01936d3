#!/usr/bin/env node
// Whether time tells a session that one may not see from one that is not there: both are asked for in turns, over one connection,
// and so is a third id, which is not there either, for what the machine makes of two that are the same.
// bench/not_found.mjs [--build DIR] [--rounds N]

import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const { values } = parseArgs({ options: { build: { type: 'string', default: join(root, 'build-bench') }, rounds: { type: 'string', default: '20000' } } });
const dir = mkdtempSync(join(values.build, 'not-found.'));
const server = spawn(join(values.build, 'holdfast'), ['serve', '--listen', '127.0.0.1:0', '--data', dir, '--cwd', dir, '--limit', 'client_requests=100000000'], { stdio: ['ignore', 'ignore', 'pipe'] });
process.on('exit', () => {
	server.kill();
	rmSync(dir, { recursive: true, force: true });
});

const base = await new Promise((resolve) => {
	let text = '';
	server.stderr.on('data', (d) => {
		text += d;
		const found = /listening on (\S+)/.exec(text);
		if (found) {
			resolve(new URL(found[1]));
		}
	});
});
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const ask = (method, path, token, json) => new Promise((resolve, reject) => {
	const body = json && JSON.stringify(json);
	const request = http.request({ agent, method, path, hostname: base.hostname, port: base.port, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'content-length': body?.length ?? 0 } });
	const begun = process.hrtime.bigint();
	request.on('error', reject);
	request.on('response', (response) => response.resume().on('end', () => resolve({ status: response.statusCode, ns: Number(process.hrtime.bigint() - begun) })));
	request.end(body);
});

const part = (object) => Buffer.from(JSON.stringify(object)).toString('base64url');
const text = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ sub: 'x', exp: Math.floor(Date.now() / 1000) + 86400, holdfast: { role: 'admin', sessions: ['else-*'] } })}`;
const token = `${text}.${createHmac('sha256', readFileSync(join(dir, 'token-secret'), 'utf8').trim()).update(text).digest('base64url')}`;
const opener = readFileSync(join(dir, 'access-token'), 'utf8').trim();
await ask('POST', '/api/sessions', opener, { id: 'team-there' });
await ask('POST', '/api/sessions/team-there/events', opener, Array.from({ length: 1000 }, (_, n) => ({ type: 'x-note', data: { n } })));

const ids = { 'not for the token': 'team-there', 'not there': 'team-seven', 'not there either': 'team-eight' };
const doors = { 'GET session': ['GET', ''], 'GET events': ['GET', '/events'], 'POST events': ['POST', '/events', [{ type: 'x-note', data: {} }]], 'DELETE session': ['DELETE', ''] };
const of = (sorted, share) => (sorted[Math.floor(sorted.length * share)] / 1000).toFixed(1);
console.log('door            session            median us  p10 us  p90 us');
for (const [door, [method, rest, json]] of Object.entries(doors)) {
	const taken = Object.fromEntries(Object.keys(ids).map((name) => [name, []]));
	for (let round = 0; round < Number(values.rounds); round++) {
		const names = Object.keys(ids);
		for (let i = 0; i < names.length; i++) { // who comes first changes
			const name = names[(i + round) % names.length];
			const { status, ns } = await ask(method, `/api/sessions/${ids[name]}${rest}`, token, json);
			if (status !== 404) {
				throw new Error(`${door} ${name}: ${status}`);
			}
			taken[name].push(ns);
		}
	}
	for (const [name, all] of Object.entries(taken)) {
		all.sort((a, b) => a - b);
		console.log(`${door.padEnd(15)} ${name.padEnd(17)} ${of(all, 0.5).padStart(10)} ${of(all, 0.1).padStart(7)} ${of(all, 0.9).padStart(7)}`);
	}
}
process.exit(0);
