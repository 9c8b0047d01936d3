// The files of --web over raw requests: what is in the directory is served, by whatever way it is asked for; what is beside it, hidden,
// linked from elsewhere or no file is not; and only to a Host and with a method that may.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { runCases } from '../support/standing.mjs';

const SECRET = 'a secret of this machine';
const PAGE = '<!doctype html><p>page</p>\n';
const SCRIPT = 'export const one = 1;\n';

/** A directory with what is served, and around and in it what is not. */
function makeWeb(t) {
	const dir = scratchDir(t);
	const web = join(dir, 'web');
	for (const made of ['sub', '.git', 'empty', 'sub/index.html.d']) {
		mkdirSync(join(web, made), { recursive: true });
	}
	mkdirSync(join(dir, 'website'));
	for (const [name, text] of Object.entries({
		'web/index.html': PAGE, 'web/app.js': SCRIPT, 'web/sub/style.css': 'p {}\n', 'web/a b.txt': 'blank\n', 'web/sub/..odd.txt': 'odd\n', 'web/ü.txt': 'umlaut\n', 'web/nothing.txt': '', 'web/%2e.txt': 'percent\n',
		'secret.txt': SECRET, 'website/secret.txt': SECRET, 'web/.env': SECRET, 'web/.git/config': SECRET, 'web/sub/.hidden.js': SECRET,
	})) {
		writeFileSync(join(dir, name), text);
	}
	symlinkSync('../secret.txt', join(web, 'link.txt'));
	symlinkSync(join(dir, 'website'), join(web, 'linked'));
	symlinkSync('/etc', join(web, 'sub', 'etc'));
	symlinkSync('.env', join(web, 'visible.txt'));
	symlinkSync('loop', join(web, 'loop'));
	execFileSync('mkfifo', [join(web, 'pipe')]);
	return web;
}

async function start(t) {
	return Server.start(t, { args: ['--web', makeWeb(t)] });
}

async function ask(t, server, target, fields = {}, method = 'GET') {
	const socket = await RawSocket.connect(t, server);
	await socket.send(head(method, target, { Connection: 'close', ...fields }));
	const answer = await socket.answer({ bodyless: method === 'HEAD' });
	assert.equal(await socket.waitEnd(), '');
	return answer;
}

const SERVED = [
	['/', PAGE, /^text\/html/], ['/index.html', PAGE, /^text\/html/], ['/app.js', SCRIPT, /^(text|application)\/javascript/], ['/sub/style.css', 'p {}\n', /^text\/css/],
	['/app.js?v=1', SCRIPT, /javascript/], ['/?session=demo-1', PAGE, /html/], ['/%61pp.js', SCRIPT, /javascript/], ['/app%2Ejs', SCRIPT, /javascript/], ['/a%20b.txt', 'blank\n', /^text\/plain/],
	['/%C3%BC.txt', 'umlaut\n', /^text\/plain/], ['/nothing.txt', '', /^text\/plain/], ['/%252e.txt', 'percent\n', /^text\/plain/],
];

test('what is in the directory', async (t) => {
	await runCases(t, await start(t), SERVED.map(([name, body, type]) => ({ name, body, type })), async (sub, server, { name, body, type }) => {
		const answer = await ask(sub, server, name);
		assert.equal(answer.status, 200);
		assert.equal(answer.body, body);
		assert.match(answer.headers['content-type'], type);
		assert.equal(answer.headers['x-content-type-options'], 'nosniff');
		assert.match(answer.headers['content-security-policy'], /default-src 'none'/);
		const short = await ask(sub, server, name, {}, 'HEAD');
		assert.deepEqual([short.status, short.body], [200, '']);
		for (const field of ['content-type', 'content-length', 'etag', 'content-security-policy']) {
			assert.equal(short.headers[field], answer.headers[field], field);
		}
	});
});

const NOT_SERVED = [
	'/../secret.txt', '/sub/../../secret.txt', '/sub/../../../../../../../../etc/passwd', '/%2e%2e/secret.txt', '/%2E%2E/secret.txt', '/.%2e/secret.txt', '/..%2fsecret.txt', '/..%2Fsecret.txt', '/%2e%2e%2fsecret.txt', '/sub%2f..%2f..%2fsecret.txt',
	'/..%5csecret.txt', '/..\\secret.txt', '/%252e%252e/secret.txt', '/%c0%ae%c0%ae/secret.txt', '/%e0%80%ae./secret.txt', '/..;/secret.txt', '/../website/secret.txt', '/../web/../secret.txt', '//../secret.txt', '/sub/..//../secret.txt',
	'/./../secret.txt', '/...//secret.txt', '//etc/passwd', '/%2fetc/passwd', '/etc/passwd', '/sub/etc/passwd', '/sub/etc/hostname', '/link.txt', '/linked/secret.txt', '/visible.txt', '/loop', '/pipe', '/.env', '/%2eenv', '/.git/config', '/sub/.hidden.js',
	'/sub/%2ehidden.js', '/sub', '/sub/', '/empty/', '/sub/index.html.d', '/app.js/', '/app.js/.', '/app.js%00', '/app.js%00.html', '/%00', '/app%0a.js', '/app.js%', '/app.js%2', '/app.js%zz', '/%ff', '/APP.JS', '/sub%2fstyle.css',
	`/${'a/'.repeat(500)}x`, `/${'../'.repeat(500)}etc/passwd`, `/${'x'.repeat(300)}`, '/api/../app.js/../../secret.txt', '/healthz/../../secret.txt', '/javascript/highlight.js/../../../secret.txt', '/javascript/highlight.js/..%2f..%2fsecret.txt',
];

test('what is beside it, hidden or no file', async (t) => {
	await runCases(t, await start(t), NOT_SERVED.map((name) => ({ name: name.slice(0, 80), target: name })), async (sub, server, { target }) => {
		for (const method of ['GET', 'HEAD']) {
			const { status, body } = await ask(sub, server, target, {}, method);
			assert.ok([400, 403, 404, 414].includes(status), `${method}: ${status}`);
			assert.doesNotMatch(body, /secret of this|root:|one = 1/);
		}
	});
});

test('only to a good Host', async (t) => {
	const server = await start(t);
	for (const target of ['/', '/app.js', '/sub/style.css', '/nothing-there', '/../secret.txt', '/javascript/highlight.js/highlight.min.js']) {
		for (const host of ['evil.example', 'localhost:evil.example', '[::1]evil', `evil.example:${new URL(server.url).port}`]) {
			for (const method of ['GET', 'HEAD']) {
				const { status, body } = await ask(t, server, target, { Host: host }, method);
				assert.ok(status === 403 || (status === 400 && target.includes('..')), `${method} ${target} at ${host}: ${status}`);
				assert.doesNotMatch(body, /page|one = 1/);
			}
		}
		assert.equal((await ask(t, server, target, { Host: undefined })).status, 400);
	}
});

test('only with GET and HEAD', async (t) => {
	const server = await start(t);
	for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
		const { status } = await ask(t, server, '/app.js', { 'Content-Length': 0 }, method);
		assert.ok([404, 405].includes(status), `${method}: ${status}`);
	}
});

test('a file that the client has is not sent again', async (t) => {
	const server = await start(t);
	const first = await ask(t, server, '/app.js');
	const { etag } = first.headers;
	assert.ok(etag, 'there is an ETag');
	for (const value of [etag, `W/${etag}`.replace('W/W/', 'W/'), `"other", ${etag}`, '*']) {
		for (const method of ['GET', 'HEAD']) {
			const { status, body, headers } = await ask(t, server, '/app.js', { 'If-None-Match': value }, method);
			assert.deepEqual([status, body], [304, ''], `${method} ${value}`);
			assert.equal(headers.etag, etag);
		}
	}
	for (const value of ['"other"', '', etag.slice(0, -2), `"${'x'.repeat(3000)}"`]) {
		const { status, body } = await ask(t, server, '/app.js', { 'If-None-Match': value });
		assert.deepEqual([status, body], [200, SCRIPT], value);
	}
	assert.match(etag, /^(W\/)?"[\x21\x23-\x7e]*"$/, 'an ETag is quoted (RFC 9110, 8.8.3)');
});

test('ranges are not for us: the whole file comes', async (t) => {
	const server = await start(t);
	for (const range of ['bytes=0-3', 'bytes=5-', 'bytes=-1', 'bytes=0-1,3-4', 'bytes=999999-', 'bytes=x', `bytes=${'0-0,'.repeat(500)}0-0`]) {
		const { status, body, headers } = await ask(t, server, '/app.js', { Range: range });
		assert.deepEqual([status, body], [200, SCRIPT], range);
		assert.equal(headers['content-range'], undefined);
	}
});

test('files behind each other on one connection, also while the client does not read', async (t) => {
	const server = await start(t);
	const socket = await RawSocket.connect(t, server);
	socket.pause();
	await socket.send(Array.from({ length: 200 }, (_, n) => head('GET', n % 2 ? '/app.js' : '/')).join(''));
	socket.resume();
	for (let n = 0; n < 200; n++) {
		const { status, body } = await socket.answer();
		assert.deepEqual([status, body], [200, n % 2 ? SCRIPT : PAGE], `${n}`);
	}
	await socket.send(head('GET', '/nothing-there') + head('GET', '/app.js', { Connection: 'close' }));
	assert.equal((await socket.answer()).status, 404);
	assert.equal((await socket.answer()).body, SCRIPT);
	await socket.waitEnd();
});

test('a large file, whole, and to a client that leaves in its middle', async (t) => {
	const web = makeWeb(t);
	const large = 'x'.repeat(6 << 20);
	writeFileSync(join(web, 'large.txt'), large);
	const server = await Server.start(t, { args: ['--web', web] });
	for (const how of ['finish', 'drop']) {
		const leaving = await RawSocket.connect(t, server);
		leaving.pause();
		await leaving.send(head('GET', '/large.txt'));
		leaving[how]();
	}
	const { status, body } = await ask(t, server, '/large.txt');
	assert.equal(status, 200);
	assert.ok(body === large, `${body.length} octets`);
});
