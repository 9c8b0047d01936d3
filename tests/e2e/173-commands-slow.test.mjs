// The commands on lines that stop in the middle, with readers that are slow, and with answers that will be better later.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttp } from 'node:http';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { Server, binary } from '../support/server.mjs';
import { makeCert, withTls } from '../support/tls.mjs';
import { Waiters, defer } from '../support/wait.mjs';

/** A command that runs, with the lines it has written. `front`: a program that runs it. */
function start(t, args, { env = {}, front = [], isRead = true } = {}) {
	const [file, ...rest] = [...front, binary(), ...args];
	const child = spawn(file, rest, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
	const waiters = new Waiters();
	const going = { child, lines: [], stderr: '', code: undefined };
	let part = '';
	going.read = () => child.stdout.setEncoding('utf8').on('data', (data) => {
		const lines = (part + data).split('\n');
		part = lines.pop();
		going.lines.push(...lines);
		waiters.wake();
	});
	if (isRead) {
		going.read();
	}
	child.stderr.setEncoding('utf8').on('data', (data) => {
		going.stderr += data;
		waiters.wake();
	});
	child.stdin.on('error', () => {});
	child.on('exit', (code) => {
		going.code = code;
		waiters.wake();
	});
	going.until = (probe) => waiters.until(probe, 20_000, () => `${probe}: ${JSON.stringify(going.lines.slice(-3)).slice(0, 600)} ${going.stderr}`);
	going.say = (message) => child.stdin.write(`${typeof message === 'string' ? message : JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
	going.ask = (id, method, params) => {
		going.say({ id, method, params });
		return going.until(() => going.lines.map((line) => JSON.parse(line)).find((message) => message.id === id && !message.method));
	};
	defer(t, () => child.kill('SIGKILL'));
	return going;
}

/** A line to a TLS server, which can stop in the middle of what the server says. */
async function stoppable(t, server) {
	const line = { isStopped: false, url: null };
	const sockets = [];
	line.holds = new Promise((resolve) => (line.noteHeld = resolve));
	const listener = createServer((socket) => {
		const upstream = connect(Number(new URL(server.url).port), '127.0.0.1');
		sockets.push(socket, upstream);
		sockets.forEach((one) => one.on('error', () => {}));
		socket.pipe(upstream);
		upstream.on('data', (data) => {
			const length = line.isStopped ? data.length >> 1 : data.length;
			socket.write(data.subarray(0, length));
			if (line.isStopped) {
				upstream.pause();
				line.noteHeld();
				line.goOn = () => {
					line.isStopped = false;
					socket.write(data.subarray(length));
					upstream.resume();
				};
			}
		});
	});
	listener.listen(0, '127.0.0.1');
	await once(listener, 'listening');
	defer(t, () => {
		listener.close();
		sockets.forEach((socket) => socket.destroy());
	});
	line.url = `https://127.0.0.1:${listener.address().port}`;
	return line;
}

test('attach hears its editor while a part of a TLS record is all that has come', async (t) => {
	const pair = makeCert(t);
	const server = await Server.start(t, withTls(pair));
	await server.createSession({ id: 's' });
	const line = await stoppable(t, server);
	const attach = start(t, ['attach', '--url', line.url], { env: { HOLDFAST_TOKEN: server.token, SSL_CERT_FILE: pair.cert } });
	await attach.ask(1, 'initialize', { protocolVersion: 1, clientCapabilities: {} });
	await attach.ask(2, 'session/load', { sessionId: 's', cwd: '/', mcpServers: [] });
	line.isStopped = true;
	await post(server, 's', [input.text('What is said in the meantime.\n\n')]);
	await line.holds;
	await server.request('GET', '/healthz');
	attach.say('no json');
	await attach.until(() => attach.lines.some((text) => text.includes('-32700')));
	assert.ok(!attach.lines.some((text) => text.includes('in the meantime')));
	line.goOn();
	await attach.until(() => attach.lines.some((text) => text.includes('in the meantime')));
});

test('attach waits for an editor that is slow, also when stdout does not block', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 's' });
	await post(server, 's', Array.from({ length: 400 }, (_, i) => input.text(`Paragraph ${i} ${'of many words '.repeat(400)}\n\n`)).concat(input.end()));
	const script = 'import fcntl, os, sys; fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_NONBLOCK); os.execv(sys.argv[1], sys.argv[1:])';
	const attach = start(t, ['attach', '--url', server.url], { env: { HOLDFAST_TOKEN: server.token }, front: ['python3', '-c', script], isRead: false });
	attach.say({ id: 1, method: 'initialize', params: { protocolVersion: 1, clientCapabilities: {} } });
	attach.say({ id: 2, method: 'session/load', params: { sessionId: 's', cwd: '/', mcpServers: [] } });
	await once(attach.child.stdout, 'readable');
	await server.request('GET', '/healthz');
	attach.read();
	await attach.until(() => attach.lines.some((text) => JSON.parse(text).id === 2) || attach.code !== undefined);
	assert.equal(attach.code, undefined, attach.stderr);
	assert.ok(attach.lines.some((text) => text.includes('Paragraph 399 ')));
});

test('a request that took too long is asked again, by whoever follows', async (t) => {
	const proxy = createHttp();
	let asked = 0;
	proxy.on('upgrade', (request, socket) => {
		asked++;
		socket.end(`HTTP/1.1 ${asked === 1 ? '408 Request Timeout' : '403 Forbidden'}\r\nContent-Length: 0\r\n\r\n`);
	});
	proxy.listen(0, '127.0.0.1');
	await once(proxy, 'listening');
	defer(t, () => proxy.close());
	const tail = start(t, ['tail', 's', '--url', `http://127.0.0.1:${proxy.address().port}`], { env: { HOLDFAST_TOKEN: 'x' } });
	await tail.until(() => tail.code !== undefined);
	assert.equal(tail.code, 2);
	assert.equal(asked, 2, tail.stderr);
	assert.match(tail.stderr, /status 408; trying again[^]*status 403/);
});
