// One server at several addresses, of which one is the socket of a file: what its permissions let in, and what becomes of the file.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import WebSocket from 'ws';
import { Observer } from '../support/observer.mjs';
import { inDirectory } from '../support/parts.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';
import { defer, within } from '../support/wait.mjs';

/** A request by the socket; gives {status, body}. */
function ask(path, method, url, { headers = {}, json } = {}) {
	const request = http.request({ socketPath: path, method, path: url, headers: { host: 'localhost', ...(json && { 'content-type': 'application/json' }), ...headers } });
	const answer = new Promise((resolve, reject) => {
		request.on('error', reject);
		request.on('response', (response) => {
			let text = '';
			response.on('data', (d) => (text += d));
			response.on('end', () => resolve({ status: response.statusCode, body: text && JSON.parse(text) }));
		});
	});
	request.end(json && JSON.stringify(json));
	return within(answer, 20_000, () => `${method} ${url}`);
}

async function startWithSocket(t, { more = [], ...options } = {}) {
	const path = join(scratchDir(t), 'holdfast.sock');
	const server = await Server.start(t, { listen: [`unix:${path}`, ...more], ...options });
	return { server, path };
}

test('a server listens at all its addresses, says so, and each of them serves the same sessions', async (t) => {
	const { server, path } = await startWithSocket(t, { more: ['127.0.0.1:0', '127.0.0.1:0', '[::1]:0'] });
	assert.deepEqual(server.urls.map((url) => url.replace(/:\d+$/, '')), [`unix:${path}`, 'http://127.0.0.1', 'http://127.0.0.1', 'http://[::1]']);
	await ask(path, 'POST', '/api/sessions', { json: { id: 'one' } });
	const observers = [];
	for (const url of server.urls.slice(1)) {
		const at = { ws: (p) => url.replace('http', 'ws') + p };
		observers.push(await Observer.connect(t, at, 'one', { headers: { authorization: `Bearer ${server.token}` } }));
	}
	await Promise.all(observers.map((observer) => observer.load({ after_seq: 0, follow: true })));
	const { max_seq } = await post(server, 'one', [input.text('hello\n\n'), input.end()]);
	const [first, ...rest] = await Promise.all(observers.map((observer) => observer.waitForSeq(max_seq)));
	rest.forEach((events) => assert.deepEqual(events, first));
});

test('one address that cannot be had ends the start, and nothing of the others stays', async (t) => {
	const dir = scratchDir(t);
	const path = join(dir, 'sock');
	const serve = (...addresses) => runToEnd(['serve', '--data', join(dir, 'data'), ...inDirectory(dir), ...addresses.flatMap((a) => ['--listen', a])]);
	const { code, stderr } = await serve(`unix:${path}`, '127.0.0.1:0', '192.0.2.1:0');
	assert.equal(code, 1, stderr);
	assert.match(stderr, /192\.0\.2\.1/);
	assert.doesNotMatch(stderr, /listening on/);
	assert.equal(existsSync(path), false);
	for (const wrong of ['unix:', 'unix', '127.0.0.1', 'unix:/' + 'x'.repeat(120), `unix:${join(dir, 'no', 'such', 'dir')}`]) {
		const told = await serve(wrong);
		assert.notEqual(told.code, 0, wrong);
		assert.match(told.stderr, /unix|HOST:PORT/, wrong);
	}
	assert.equal((await serve(...Array.from({ length: 17 }, () => '127.0.0.1:0'))).code, 2);
	const listen = [`unix:${path}`, '127.0.0.1:0', '0.0.0.0:0'].flatMap((address) => ['--listen', address]);
	const off = await runToEnd(['serve', '--data', join(dir, 'data'), ...inDirectory(dir), ...listen, '--auth', 'off', '--tls', 'off']);
	assert.equal(off.code, 1);
	assert.match(off.stderr, /--auth off is for loopback and unix sockets only/);
});

test('what passes by the socket of a file needs no token; what a browser or a proxy passes on does', async (t) => {
	const { server, path } = await startWithSocket(t);
	assert.equal(lstatSync(path).mode & 0o777, 0o600);
	assert.ok(lstatSync(path).isSocket());
	assert.equal((await ask(path, 'POST', '/api/sessions', { json: { id: 'one' } })).status, 201);
	assert.equal((await ask(path, 'GET', '/api/login')).body.role, 'admin');
	const passedOn = { 'x-forwarded-for': '192.0.2.1', 'x-forwarded-proto': 'https', 'x-real-ip': '192.0.2.1', forwarded: 'for=192.0.2.1', via: '1.1 x', origin: 'http://localhost', 'sec-fetch-site': 'same-origin', 'x-forwarded-host': 'x' };
	for (const [name, value] of Object.entries(passedOn)) {
		const headers = { [name]: value };
		assert.equal((await ask(path, 'GET', '/api/sessions', { headers })).status, 401, name);
		assert.equal((await ask(path, 'GET', '/api/sessions', { headers: { ...headers, authorization: `Bearer ${server.token}` } })).status, 200, name);
	}
	// A token that is sent counts, and a wrong one is wrong.
	const headers = { authorization: `Bearer ${ownToken(server, 'observer', ['two'])}` };
	assert.equal((await ask(path, 'GET', '/api/sessions/one', { headers })).status, 404);
	assert.equal((await ask(path, 'GET', '/api/sessions', { headers: { authorization: 'Bearer x' } })).status, 401);
	// Names that somebody points at this machine are none of its own here either.
	assert.equal((await ask(path, 'GET', '/api/sessions', { headers: { host: 'evil.example' } })).status, 403);
});

test('a socket that a proxy uses is no login, also if the proxy says nothing of itself', async (t) => {
	const { server, path } = await startWithSocket(t, { args: ['--trust-proxy', 'unix'] });
	assert.equal((await ask(path, 'GET', '/api/sessions')).status, 401);
	const headers = { authorization: `Bearer ${server.token}` };
	assert.equal((await ask(path, 'GET', '/api/sessions', { headers })).status, 200);
	const { code, stderr } = await runToEnd(['token', 'revoke', 'nobody', '--data', server.dataDir]);
	assert.equal(code, 0, stderr);
});

test('observers and producers by the socket of a file', async (t) => {
	const { path } = await startWithSocket(t);
	await ask(path, 'POST', '/api/sessions', { json: { id: 'one' } });
	const at = { ws: (url) => `ws+unix:${path}:${url}`, request: (method, url, options) => ask(path, method, url, options) };
	const observer = await Observer.connect(t, at, 'one', { query: { format: 'markdown' }, headers: { host: 'localhost' } });
	assert.equal(observer.hello.role, 'admin');
	await observer.load({ after_seq: 0, follow: true });
	const producer = await Producer.connect(t, at, 'one', { headers: { host: 'localhost' } });
	// Larger than what the kernel keeps for a socket: it chokes, and loses nothing.
	const text = `${'x'.repeat(200_000)}\n\n`;
	observer.pause();
	for (let i = 0; i < 20; i++) {
		await producer.append(input.text(text));
	}
	const { max_seq: last } = await producer.append(input.end());
	observer.resume();
	const events = await observer.waitForSeq(last);
	assert.equal(events.map((e) => e.data.markdown ?? '').join(''), text.repeat(20));
	await within(new Promise((resolve, reject) => {
		const socket = new WebSocket(`ws+unix:${path}:/api/events`, { headers: { host: 'localhost' } });
		defer(t, () => socket.terminate());
		socket.on('message', resolve).on('error', reject);
	}), 20_000, () => 'the feed');
});

test('the file of a server that was killed is replaced; that of a living one, and what is no socket, are refused', async (t) => {
	const { server, path } = await startWithSocket(t);
	const dir = scratchDir(t);
	const other = (at = path) => runToEnd(['serve', '--listen', `unix:${at}`, '--data', join(dir, 'data'), ...inDirectory(dir)]);
	const refused = await other();
	assert.equal(refused.code, 1);
	assert.match(refused.stderr, /another server listens there/);
	assert.equal((await ask(path, 'GET', '/api/sessions')).status, 200, 'the living one still has it');
	await server.kill9();
	assert.ok(existsSync(path));
	await server.restart();
	assert.equal((await ask(path, 'GET', '/api/sessions')).status, 200);
	await server.stop();
	assert.equal(existsSync(path), false, 'a stop removes it');

	const file = join(dir, 'file');
	writeFileSync(file, 'precious');
	mkdirSync(join(dir, 'folder'));
	symlinkSync(file, join(dir, 'link'));
	symlinkSync(join(dir, 'nothing'), join(dir, 'dangling'));
	for (const name of ['file', 'folder', 'link', 'dangling']) {
		const { code, stderr } = await other(join(dir, name));
		assert.equal(code, 1, name);
		assert.match(stderr, /not a socket|in use/, name);
	}
	assert.equal(readFileSync(file, 'utf8'), 'precious');
});

test('a socket that somebody else has put in its place stays when the server stops', async (t) => {
	const { server, path } = await startWithSocket(t);
	rmSync(path);
	const mine = net.createServer().listen(path);
	defer(t, () => mine.close());
	await within(new Promise((resolve) => mine.once('listening', resolve)), 5_000, () => 'our own socket');
	await server.stop();
	assert.ok(existsSync(path));
});

const isRoot = process.getuid() === 0;
(isRoot ? test : test.skip)('nobody else may open it', async (t) => {
	const { path } = await startWithSocket(t);
	chmodSync(join(path, '..'), 0o755);
	const script = 'require("net").connect(process.argv[1]).on("error", (e) => console.log(e.code)).on("connect", () => { console.log("connected"); process.exit(); })';
	const { stdout } = spawnSync('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', process.execPath, '-e', script, path], { encoding: 'utf8' });
	assert.equal(stdout.trim(), 'EACCES');
});

test('the commands reach a server at whatever it listens on', async (t) => {
	const run = async (server, ...args) => {
		const { code, stdout, stderr } = await runToEnd([...args, '--data', server.dataDir]);
		assert.equal(code, 0, stderr);
		return stdout.trim();
	};
	const { server, path } = await startWithSocket(t);
	const nowhere = await runToEnd(['url', '--data', server.dataDir]);
	assert.equal(nowhere.code, 2);
	assert.match(nowhere.stderr, /--url/);
	const file = join(scratchDir(t), 'recording.jsonl');
	writeFileSync(file, `${JSON.stringify({ t: 0, type: 'agent_message_chunk', data: { text: 'hello' } })}\n`);
	for (const where of [['--url', `unix:${path}`], []]) {
		const id = await run(server, 'replay', file, ...where, '--create', '--speed', 'max');
		assert.equal((await ask(path, 'GET', `/api/sessions/${id}`)).status, 200);
	}
	const token = await run(server, 'token', 'create', '--role', 'observer', '--session', '*', '--sub', 'ann');
	const [jti] = (await run(server, 'token', 'list')).split(/\s/);
	await run(server, 'token', 'revoke', jti);
	assert.equal((await ask(path, 'GET', '/api/login', { headers: { authorization: `Bearer ${token}` } })).body.error.code, 'token_revoked');
	assert.equal((await runToEnd(['replay', file, '--create', '--data', scratchDir(t)])).code, 2);

	const named = await Server.start(t, { listen: ['0.0.0.0:0'], args: ['--tls', 'off', '--url', 'https://holdfast.example.org'] });
	assert.equal(await run(named, 'url'), `https://holdfast.example.org/#token=${named.token}`);
	assert.match(await run(named, 'token', 'create', '--role', 'observer', '--session', '*', '--link'), /^https:\/\/holdfast\.example\.org\/#token=/);
	const [jti2] = (await run(named, 'token', 'list')).split(/\s/);
	await run(named, 'token', 'revoke', jti2);
	const wild = await Server.start(t, { listen: ['0.0.0.0:0'], args: ['--tls', 'off'] });
	assert.equal(await run(wild, 'url'), `${wild.url.replace('0.0.0.0', '127.0.0.1')}/#token=${wild.token}`);
	for (const wrong of ['holdfast.example.org', 'ftp://x', 'https://', 'https://x/path', 'https://a b', 'https://x/#']) {
		const { code, stderr } = await runToEnd(['serve', '--url', wrong, '--data', scratchDir(t)]);
		assert.equal(code, 2, stderr);
	}
});
