// What passes by itself does not end a stream of server-sent events for good: the server says it in a stream, and the recipes of the docs outlast a proxy's 502.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { EventSource } from 'eventsource';
import { authOf } from '../support/auth.mjs';
import { FaultyDisk, hasFaultyDisk } from '../support/faulty_disk.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { EventParser } from '../support/sse.mjs';
import { defer, eventually } from '../support/wait.mjs';

const docs = readFileSync(fileURLToPath(new URL('../../docs/server-sent-events.md', import.meta.url)), 'utf8');
const recipe = (language, about) => [...docs.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].find(([, name, code]) => name === language && code.includes(about))[2];
const python = ['/usr/bin/python3', 'python3'].find((one) => spawnSync(one, ['-c', '']).status === 0);
const STREAM = { accept: 'text/event-stream' };

/** A whole answer, taken apart: {status, type, events, retry}. */
async function askStream(server, path, headers = {}) {
	const { status, headers: told, body } = await server.rawRequest('GET', path, { ...STREAM, ...headers });
	const events = [];
	const parser = new EventParser((event) => events.push(event));
	parser.push(Buffer.from(body));
	return { status, type: told['content-type'], events, retry: parser.retry, body };
}

function assertEnded({ status, type, events, retry, body }, code) {
	assert.deepEqual([status, type], [200, 'text/event-stream'], body);
	assert.deepEqual(events.map((event) => [event.type, JSON.parse(event.data).code]), [['ended', code]], body);
	assert.ok(retry >= 1000 && retry < 2000, String(retry));
}

test('too many connections of an address: a stream says so and is asked for again; who asks for JSON gets 503', async (t) => {
	const server = await Server.start(t, { args: ['--trust-proxy', '127.0.0.1', '--limit', 'address_connections=2'] });
	await server.createSession({ id: 's' });
	const from = { 'x-forwarded-for': '192.0.2.7' };
	const { hostname, port } = new URL(server.url);
	const held = [];
	for (let n = 0; n < 2; n++) {
		const request = http.get({ hostname, port, path: '/api/events', agent: false, headers: { ...authOf(server.url), ...STREAM, ...from } }).on('error', () => {});
		held.push(request);
		defer(t, () => request.destroy());
		const [response] = await once(request, 'response');
		response.on('error', () => {}).resume();
	}
	for (const path of ['/api/events', '/api/sessions/s/events']) {
		assertEnded(await askStream(server, path, from), 'too_many_connections');
	}
	assert.equal((await server.rawRequest('GET', '/api/sessions/s/events', from)).status, 503);
	assert.equal((await askStream(server, '/api/sessions', from)).status, 503, 'of what is no stream');
	const source = new EventSource(`${server.url}/api/sessions/s/events?after=0`, { fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, ...authOf(server.url), ...from } }) });
	defer(t, () => source.close());
	const seen = [];
	for (const type of ['ended', 'live']) {
		source.addEventListener(type, () => seen.push(type));
	}
	await eventually(() => seen.includes('ended'), 'it to be told');
	assert.notEqual(source.readyState, source.CLOSED);
	held[0].destroy();
	await eventually(() => seen.includes('live'), () => `it to come in; ${seen}`, 30_000);
	// What it cannot mend by coming back is a status.
	assert.equal((await askStream(server, '/api/sessions/none/events')).status, 404);
	assert.equal((await askStream(server, '/api/sessions/s/events', { authorization: 'Bearer x' })).status, 401);
});

test('a session that cannot be read', { skip: hasFaultyDisk() ? false : 'the tests in C are not built here: no disk fails' }, async (t) => {
	const disk = new FaultyDisk(scratchDir(t));
	const server = await Server.start(t, { env: disk.env });
	await server.createSession({ id: 'lost' });
	await post(server, 'lost', input.note({ n: 1 }));
	await server.kill9();
	disk.hide('lost/');
	await server.restart();
	assert.equal((await server.request('GET', '/api/sessions/lost/events')).status, 503);
	assertEnded(await askStream(server, '/api/sessions/lost/events'), 'storage_failed');
	disk.hide('');
});

/** In front of the server: while `status` is set, it answers that by itself. */
async function startProxy(t, server) {
	const proxy = { status: 0, refused: 0, sockets: new Set() };
	const { hostname, port } = new URL(server.url);
	const front = http.createServer((request, response) => {
		if (proxy.status) {
			proxy.refused += 1;
			response.writeHead(proxy.status, { 'content-type': 'text/html' }).end('<h1>Bad Gateway</h1>');
			return;
		}
		const up = http.request({ hostname, port, method: request.method, path: request.url, headers: { ...request.headers, host: 'localhost' }, agent: false }, (answer) => {
			response.writeHead(answer.statusCode, answer.headers);
			answer.pipe(response);
			answer.on('error', () => response.destroy());
		});
		up.on('error', () => response.destroy());
		response.on('close', () => up.destroy());
		request.pipe(up);
	});
	front.on('connection', (socket) => proxy.sockets.add(socket));
	front.listen(0, '127.0.0.1');
	await once(front, 'listening');
	proxy.fail = (status) => {
		proxy.status = status;
		proxy.refused = 0;
		proxy.sockets.forEach((socket) => socket.destroy());
		proxy.sockets.clear();
	};
	defer(t, () => {
		proxy.fail(502);
		front.close();
	});
	proxy.url = `http://127.0.0.1:${front.address().port}`;
	return proxy;
}

const FOLLOWERS = {
	'the Python function': (dir) => {
		writeFileSync(join(dir, 'follow.py'), `${recipe('python', 'def follow')}
import os, sys
for type, data in follow(sys.argv[1], os.environ["HOLDFAST_TOKEN"]):
    print(type, data.get("data", {}).get("n"), flush=True)
`);
		return [python, join(dir, 'follow.py')];
	},
	'the function with fetch()': (dir) => {
		writeFileSync(join(dir, 'follow.mjs'), recipe('js', 'function* follow'));
		writeFileSync(join(dir, 'main.mjs'), `import { follow } from ${JSON.stringify(pathToFileURL(join(dir, 'follow.mjs')))};
for await (const { type, data } of follow(process.argv[2], () => process.env.HOLDFAST_TOKEN)) {
	console.log(type, data.data?.n);
}`);
		return [process.execPath, join(dir, 'main.mjs')];
	},
};

for (const [name, write] of Object.entries(FOLLOWERS)) {
	test(`${name} goes on after what a proxy says while the server is away`, async (t) => {
		const server = await Server.start(t);
		await server.createSession({ id: 'hello' });
		const proxy = await startProxy(t, server);
		const child = spawn(...(([command, file]) => [command, [file, `${proxy.url}/api/sessions/hello/events?after=0`]])(write(scratchDir(t))), { env: { ...process.env, HOLDFAST_TOKEN: server.token }, stdio: ['ignore', 'pipe', 'inherit'] });
		defer(t, () => child.kill('SIGKILL'));
		let output = '';
		child.stdout.setEncoding('utf8').on('data', (text) => (output += text));
		let n = 0;
		for (const status of [502, 503, 504, 429]) {
			await post(server, 'hello', input.note({ n: ++n }));
			await eventually(() => output.includes(`x-note ${n}\n`), () => `note ${n}; ${output}`, 30_000);
			proxy.fail(status);
			await post(server, 'hello', input.note({ n: ++n }));
			await eventually(() => proxy.refused > 0, () => `it to be refused with ${status}`, 30_000);
			proxy.status = 0;
			await eventually(() => output.includes(`x-note ${n}\n`), () => `note ${n} after ${status}; ${output}`, 30_000);
		}
		assert.deepEqual(output.match(/x-note \d+/g), Array.from({ length: n }, (_, i) => `x-note ${i + 1}`));
		assert.equal(child.exitCode, null);
	});
}
