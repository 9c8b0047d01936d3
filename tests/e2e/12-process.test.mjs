// The program itself: its options, its lock, its end, and whom it lets in.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { needs } from '../support/parts.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server, binary, runToEnd, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { defer, eventually, within } from '../support/wait.mjs';

test('--help and --version answer on stdout and end with 0', needs('agents'), async () => {
	for (const args of [['--help'], ['serve', '--help']]) {
		const { code, stdout } = await runToEnd(args);
		assert.equal(code, 0);
		for (const option of ['--listen', '--data', '--agent', '--cwd', '--web', '--highlight', '--durability', '--log-level']) {
			assert.ok(args.length === 1 || stdout.includes(option), option);
		}
		assert.match(stdout, /serve/);
	}
	const { code, stdout } = await runToEnd(['--version']);
	assert.equal(code, 0);
	assert.match(stdout, /^holdfast \d+\.\d+\.\d+/);
});

test('wrong arguments end with an error and a word about it', async (t) => {
	const data = join(scratchDir(t), 'data');
	for (const args of [
		[], ['fly'], ['serve', '--nonsense'], ['serve', '--data', data, '--listen'], ['serve', '--data', data, '--listen', 'nowhere'],
		['serve', '--data', data, '--listen', '127.0.0.1:99999'], ['serve', '--data', data, '--durability', 'perhaps'],
		['serve', '--data', data, '--highlight', join(data, 'nowhere')],
		['serve', '--data', data, '--listen', '127.0.0.1:0', '--agent', ''], ['serve', '--data', data, '--listen', '127.0.0.1:0', '--agent=  '],
	]) {
		const { code, stderr } = await runToEnd(args);
		assert.ok(code > 0, `${args.join(' ')} ended with ${code}`);
		assert.notEqual(stderr.trim(), '', args.join(' '));
	}
});

test('options are taken from the environment too', async (t) => {
	const dir = scratchDir(t);
	const web = join(dir, 'page');
	mkdirSync(web);
	writeFileSync(join(web, 'index.html'), '<p>from the environment</p>\n');
	const server = await Server.start(t, { env: { HOLDFAST_WEB: web } });
	const { status, headers, body } = await server.request('GET', '/');
	assert.equal(status, 200);
	assert.match(headers.get('content-type'), /^text\/html/);
	assert.equal(body, '<p>from the environment</p>\n');
});

test('a second server on the same data directory is refused', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const second = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', server.dataDir]);
	assert.ok(second.code > 0, `it ended with ${second.code}`);
	assert.match(second.stderr, /lock|in use|already/i);
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).status, 200, 'the first goes on');
	await server.kill9();
	await server.restart();
});

test('a second server on the same port is refused', async (t) => {
	const server = await Server.start(t);
	const listen = new URL(server.url).host;
	const second = await runToEnd(['serve', '--listen', listen, '--data', join(scratchDir(t), 'data')]);
	assert.ok(second.code > 0, `it ended with ${second.code}`);
	assert.notEqual(second.stderr.trim(), '');
});

test('a file in the place of a folder of the data directory is told by its own error', async (t) => {
	const dataDir = scratchDir(t);
	mkdirSync(join(dataDir, 'journal'));
	writeFileSync(join(dataDir, 'sessions'), '');
	const { code, stderr } = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', dataDir]);
	assert.ok(code > 0, `it ended with ${code}`);
	assert.match(stderr, /cannot make the folders of .*: Not a directory/);
});

test('SIGTERM ends the server with 0, and tells every client to come back', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'drain_retry_ms=700'] });
	const { id } = await server.createSession();
	const sockets = [
		await Observer.connect(t, server, id),
		await Producer.connect(t, server, id),
		new TestSocket(t, server.ws('/api/events'), check.feed),
	];
	await sockets[0].loadAll();
	await sockets[2].waitFor('sessions');
	await server.stop();
	for (const socket of sockets) {
		assert.equal((await socket.waitClosed()).code, 1001);
		assert.deepEqual(socket.frames.at(-1), { type: 'draining', data: { retry_after_ms: 700 } });
	}
});

/** An agent that does not end when it is asked to, but when there is a file `enough`. */
const STUBBORN = `trap '' TERM; until [ -e enough ]; do sleep 0.2; done`;

test('a server that stops is not ready, and says so until it has ended', async (t) => {
	const dir = scratchDir(t);
	const server = await Server.start(t, { args: ['--agent', STUBBORN, '--cwd', dir, '--limit', 'agent_stop_ms=60000', '--drain-timeout', '60s'] });
	const { id } = await server.createSession();
	assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready' });
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	observer.send('prompt', { message: 'stay', prompt_id: 'p-1' });
	await observer.waitFor('prompt_received');
	const ended = server.stop();
	await observer.waitFor('draining');
	const { status, body } = await server.request('GET', '/readyz');
	assert.equal(status, 503);
	assert.equal(body.error.code, 'not_ready');
	assert.equal((await server.request('GET', '/healthz')).status, 200);
	assert.equal((await server.request('GET', '/api/sessions')).body.error.code, 'shutting_down');
	writeFileSync(join(dir, 'enough'), '');
	await ended;
});

test('SIGHUP ends no server, even if there is nothing that it could read again, and it says so', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	for (let n = 1; n <= 3; n++) {
		process.kill(server.pid, 'SIGHUP');
		await eventually(() => server.stderr.split('SIGHUP: there is nothing to reload').length === n + 1, 'it to be said');
	}
	const { acks } = await post(server, id, input.note({ after: 'SIGHUP' }));
	await observer.waitForSeq(acks[0].seq);
	assert.equal(observer.closed, null);
});

/** Runs a program in a terminal of its own, which is closed when the program has said the words; prints how it ended. */
const IN_TERMINAL = `
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
	os.execv(sys.argv[2], sys.argv[2:])
said = b''
while sys.argv[1].encode() not in said:
	said += os.read(terminal, 4096)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;

test('a server whose terminal is closed stops as it does after SIGTERM', needs('agents'), async (t) => {
	const dir = scratchDir(t);
	const child = spawn('python3', ['-c', IN_TERMINAL, 'listening on', binary(), 'serve', '--listen', '127.0.0.1:0', '--data', join(dir, 'data'), '--cwd', dir], { stdio: ['ignore', 'pipe', 'inherit'] });
	defer(t, () => child.kill('SIGKILL'));
	const told = await within(child.stdout.setEncoding('utf8').toArray(), 30_000, () => 'the server to end');
	assert.equal(told.join(''), '0\n');
	const again = await Server.start(t, { dataDir: join(dir, 'data') });
	assert.equal((await again.request('GET', '/readyz')).status, 200, 'and gives its directory back');
});

function assertForbidden({ status, body }, code, what) {
	assert.equal(status, 403, `${what}: ${status} ${body}`);
	const parsed = JSON.parse(body);
	assertValid(check.rest('error')(parsed));
	assert.equal(parsed.error.code, code, what);
}

const foreign = ['http://evil.example', 'https://127.0.0.1.evil.example', 'null', 'http://127.0.0.1:1', 'http://localhost.evil.example'];

test('pages of other sites may change nothing and watch nothing', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'mine' });
	for (const origin of foreign) {
		assertForbidden(await server.rawRequest('POST', '/api/sessions', { origin, 'content-type': 'text/plain' }, '{}'), 'forbidden_origin', origin);
		assertForbidden(await server.rawRequest('DELETE', '/api/sessions/mine', { origin }), 'forbidden_origin', origin);
		assertForbidden(await server.rawRequest('POST', '/api/sessions/mine/events', { origin }, '{"type":"x-a","data":{}}'), 'forbidden_origin', origin);
		for (const path of ['/api/sessions/mine/ws', '/api/sessions/mine/produce', '/api/events']) {
			const socket = new TestSocket(t, server.ws(path), () => null, { headers: { origin } });
			assertForbidden(await socket.waitRefused(), 'forbidden_origin', `${path} from ${origin}`);
		}
	}
	const { body } = await server.request('GET', '/api/sessions');
	assert.deepEqual(body.sessions.map((s) => [s.id, s.max_seq]), [['mine', 0]]);
	const own = new TestSocket(t, server.ws('/api/events'), check.feed, { headers: { origin: server.url } });
	await own.waitFor('sessions');
	assert.equal((await server.rawRequest('DELETE', '/api/sessions/mine', { origin: server.url })).status, 204);
});

test('on loopback, only loopback names are answered', async (t) => {
	const server = await Server.start(t);
	const { port } = new URL(server.url);
	for (const host of ['evil.example', `evil.example:${port}`, `127.0.0.1.evil.example:${port}`, `localhost.evil.example:${port}`]) {
		for (const path of ['/api/sessions', '/healthz', '/']) {
			assertForbidden(await server.rawRequest('GET', path, { host }), 'forbidden_host', `${path} at ${host}`);
		}
		const socket = new TestSocket(t, server.ws('/api/events'), () => null, { headers: { host } });
		assertForbidden(await socket.waitRefused(), 'forbidden_host', `upgrade at ${host}`);
	}
	for (const host of [`localhost:${port}`, `LOCALHOST:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`, 'localhost']) {
		assert.equal((await server.rawRequest('GET', '/api/sessions', { host })).status, 200, host);
	}
});

test('the page is served, and nothing beside it', async (t) => {
	const dir = scratchDir(t);
	const web = join(dir, 'web');
	mkdirSync(join(web, 'sub'), { recursive: true });
	writeFileSync(join(dir, 'secret.txt'), 'secret\n');
	writeFileSync(join(web, 'index.html'), '<p>page</p>\n');
	writeFileSync(join(web, 'app.js'), 'export {};\n');
	writeFileSync(join(web, 'sub', 'style.css'), 'p {}\n');
	const server = await Server.start(t, { args: ['--web', web] });
	for (const [path, type, file] of [
		['/', /^text\/html/, 'index.html'], ['/app.js', /^(text|application)\/javascript/, 'app.js'], ['/sub/style.css', /^text\/css/, 'sub/style.css'],
	]) {
		const { status, headers, body } = await server.rawRequest('GET', path);
		assert.equal(status, 200, path);
		assert.match(headers['content-type'], type);
		assert.equal(body, readFileSync(join(web, file), 'utf8'));
	}
	for (const path of ['/nothing.js', '/../secret.txt', '/sub/../../secret.txt', '/%2e%2e/secret.txt', '/..%2fsecret.txt', '/sub']) {
		const { status, body } = await server.rawRequest('GET', path);
		assert.ok([400, 403, 404].includes(status), `${path}: ${status}`);
		assert.doesNotMatch(body, /secret\n/);
	}
});

test('highlight.js is served beside the page from where --highlight says, and nothing else from there', async (t) => {
	const dir = scratchDir(t);
	const web = join(dir, 'web');
	const library = join(dir, 'highlight.js');
	mkdirSync(web);
	mkdirSync(library);
	writeFileSync(join(web, 'index.html'), '<p>page</p>\n');
	writeFileSync(join(library, 'highlight.min.js'), 'self.hljs = {};\n');
	writeFileSync(join(dir, 'secret.js'), 'secret\n');
	const server = await Server.start(t, { args: ['--web', web, '--highlight', library] });
	const { status, headers, body } = await server.request('GET', '/javascript/highlight.js/highlight.min.js');
	assert.deepEqual([status, body], [200, 'self.hljs = {};\n']);
	assert.match(headers.get('content-type'), /javascript/);
	assert.match(headers.get('content-security-policy'), /default-src 'none'/);
	for (const path of ['/javascript/secret.js', '/javascript/highlight.js/../secret.js', '/javascript/highlight.js/%2e%2e/secret.js']) {
		const { status: refused, body: text } = await server.rawRequest('GET', path);
		assert.ok(refused >= 400 && !text.includes('secret\n'), `${path}: ${refused}`);
	}
	const without = await Server.start(t, { args: ['--web', web, '--highlight', ''] });
	assert.equal((await without.request('GET', '/javascript/highlight.js/highlight.min.js')).status, 404);
});
