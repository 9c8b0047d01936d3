// TLS as the server itself speaks it: which versions and suites, which certificates, what happens to those who speak something else,
// and a certificate that is changed while everybody goes on.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, existsSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import tls from 'node:tls';
import { noteCa } from '../support/auth.mjs';
import { Observer } from '../support/observer.mjs';
import { inDirectory } from '../support/parts.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server, binary, runToEnd, scratchDir } from '../support/server.mjs';
import { makeCert, openssl, withTls } from '../support/tls.mjs';
import { defer, eventually, within } from '../support/wait.mjs';

/** What `openssl s_client` says of a handshake with these options. */
function shake(server, ...options) {
	const { host } = new URL(server.url);
	const { status, stdout, stderr } = spawnSync('openssl', ['s_client', '-connect', host, ...options], { input: '', encoding: 'utf8', timeout: 20_000 });
	const [, protocol, cipher] = /^New, (\S+), Cipher is (\S+)$/m.exec(stdout) ?? [];
	return { status, protocol, cipher, all: stdout + stderr };
}

/** Weak ones are refused by the client's own library unless it is told otherwise. */
const WEAK = '@SECLEVEL=0';

test('TLS 1.2 and 1.3, forward-secret authenticated ciphers, HTTP/1.1, nothing else', async (t) => {
	for (const type of ['ec', 'rsa']) {
		await t.test(type, async (t) => {
			const server = await Server.start(t, withTls(makeCert(t, { type })));
			const good = (...options) => {
				const { status, protocol, cipher, all } = shake(server, ...options);
				assert.equal(status, 0, `${options.join(' ')}: ${all}`);
				return [protocol, cipher];
			};
			const bad = (...options) => {
				const { status, all } = shake(server, ...options);
				assert.notEqual(status, 0, `${options.join(' ')}: ${all}`);
				assert.match(all, /alert|unexpected eof|no protocols|no ciphers|wrong version|unsupported/i, options.join(' '));
			};
			assert.equal(good()[0], 'TLSv1.3');
			for (const suite of ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256']) {
				assert.deepEqual(good('-tls1_3', '-ciphersuites', suite), ['TLSv1.3', suite]);
			}
			bad('-tls1_3', '-ciphersuites', 'TLS_AES_128_CCM_SHA256');
			const own = type === 'ec' ? 'ECDHE-ECDSA' : 'ECDHE-RSA';
			const taken = ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].map((cipher) => `${own}-${cipher}`);
			for (const cipher of taken) {
				assert.deepEqual(good('-tls1_2', '-cipher', cipher), ['TLSv1.2', cipher]);
			}
			const all = openssl('ciphers', '-tls1_2', '-s', `ALL:eNULL:${WEAK}`).trim().split(':').filter((cipher) => !/^TLS_/.test(cipher));
			assert.ok(all.length > 50, all.join(' '));
			for (const cipher of all.filter((name) => !taken.includes(name))) {
				bad('-tls1_2', '-cipher', `${cipher}:${WEAK}`);
			}
			for (const version of ['-tls1', '-tls1_1']) {
				bad(version, '-cipher', `ALL:${WEAK}`);
			}
			for (const group of ['X25519', 'P-256', 'P-384']) {
				good('-groups', group);
			}
			for (const group of ['ffdhe2048', 'ffdhe8192', 'P-521', 'X448']) {
				bad('-tls1_3', '-groups', group);
			}
			assert.match(shake(server, '-alpn', 'h2,http/1.1').all, /ALPN protocol: http\/1\.1/);
			bad('-alpn', 'h2');
			// Nothing of a connection is kept for the next one, and no handshake begins inside another.
			const kept = join(scratchDir(t), 'session');
			shake(server, '-tls1_2', '-sess_out', kept);
			assert.ok(!existsSync(kept) || /^New, /m.test(shake(server, '-tls1_2', '-sess_in', kept).all));
			assert.doesNotMatch(shake(server, '-tls1_3').all, /New Session Ticket/);
			assert.match(shake(server, '-tls1_2').all, /Compression: NONE/);
		});
	}
});

async function serve(t, ...args) {
	const dir = scratchDir(t);
	return runToEnd(['serve', '--data', join(dir, 'data'), ...inDirectory(dir), ...args]);
}

test('what is no certificate with its key, or is not used, ends the start', async (t) => {
	const [one, other] = [makeCert(t), makeCert(t)];
	const dir = scratchDir(t);
	const file = (name, text) => {
		writeFileSync(join(dir, name), text);
		return join(dir, name);
	};
	const locked = join(dir, 'locked.pem');
	openssl('pkey', '-in', one.key, '-aes128', '-passout', 'pass:secret', '-out', locked);
	const weak = makeCert(t, { type: 'rsa', bits: 1024 });
	const https = ['--listen', 'https://127.0.0.1:0'];
	for (const [code, words, ...args] of [
		[2, /go together/, ...https, '--tls-cert', one.cert],
		[2, /go together/, ...https, '--tls-key', one.key],
		[1, /none\.pem cannot be read: No such file/, ...https, '--tls-cert', join(dir, 'none.pem'), '--tls-key', one.key],
		[1, /none\.pem cannot be read: No such file/, ...https, '--tls-cert', one.cert, '--tls-key', join(dir, 'none.pem')],
		[1, /is not the key of the certificate/, ...https, '--tls-cert', one.cert, '--tls-key', other.key],
		[1, /the certificate cannot be used/, ...https, '--tls-cert', file('empty', ''), '--tls-key', one.key],
		[1, /the certificate cannot be used/, ...https, '--tls-cert', one.key, '--tls-key', one.key],
		[1, /the key .* cannot be used/, ...https, '--tls-cert', one.cert, '--tls-key', one.cert],
		[1, /the key .*without a pass phrase.* cannot be used/, ...https, '--tls-cert', one.cert, '--tls-key', locked],
		[1, /too small/, ...https, '--tls-cert', weak.cert, '--tls-key', weak.key],
		[1, /the certificate/, ...https, '--tls-cert', dir, '--tls-key', one.key],
		[1, /needs --tls-cert/, ...https],
		[1, /no address speaks TLS/, '--listen', '127.0.0.1:0', '--tls-cert', one.cert, '--tls-key', one.key],
		[1, /no address speaks TLS/, '--listen', '0.0.0.0:0', '--tls', 'off', '--tls-cert', one.cert, '--tls-key', one.key],
		[1, /needs TLS/, '--listen', '0.0.0.0:0'],
		[1, /needs TLS/, '--listen', '127.0.0.1:0', '--listen', '[::]:0'],
		[1, /for everyone to read/, '--listen', 'http://0.0.0.0:0', '--tls-cert', one.cert, '--tls-key', one.key],
		[2, /on\|off/, '--tls', 'maybe'],
		[2, /HOST:PORT/, '--listen', 'https://'],
		[2, /HOST:PORT/, '--listen', 'ftp://127.0.0.1:0'],
	]) {
		const told = await serve(t, ...args);
		assert.equal(told.code, code, `${args.join(' ')}: ${told.stderr}`);
		assert.match(told.stderr, words, args.join(' '));
		assert.doesNotMatch(told.stderr, /listening on/);
	}
});

test('an expired certificate is told of, and used', async (t) => {
	const server = await Server.start(t, withTls(makeCert(t, { dates: ['20200101000000Z', '20200102000000Z'] })));
	assert.match(server.stderr, /the certificate has expired/);
	assert.equal(shake(server).status, 0);
});

test('which addresses speak TLS: those that other machines reach, and those that say https://', async (t) => {
	const pair = makeCert(t);
	const mixed = await Server.start(t, withTls(pair, { listen: ['127.0.0.1:0', 'https://[::1]:0', '0.0.0.0:0', 'http://127.0.0.1:0'] }));
	assert.deepEqual(mixed.urls.map((url) => url.replace(/:\d+$/, '')), ['http://127.0.0.1', 'https://[::1]', 'https://0.0.0.0', 'http://127.0.0.1']);
	const off = await Server.start(t, withTls(pair, { listen: ['0.0.0.0:0', 'https://127.0.0.1:0'], args: ['--tls', 'off'] }));
	assert.deepEqual(off.urls.map((url) => url.replace(/:\d+$/, '')), ['http://0.0.0.0', 'https://127.0.0.1']);
	const plain = await Server.start(t, { listen: ['http://0.0.0.0:0'], args: ['--tls', 'off'] });
	assert.match(plain.url, /^http:\/\/0\.0\.0\.0:/);
});

/** A plain connection to the address that speaks TLS: sends bytes, and gives what came back until the end. */
async function talk(t, server, bytes, { everyMs = 0, end = false } = {}) {
	const { hostname, port } = new URL(server.url);
	const socket = net.connect({ host: hostname, port, allowHalfOpen: true });
	defer(t, () => socket.destroy());
	const parts = [];
	socket.on('data', (d) => parts.push(d)).on('error', () => {});
	await once(socket, 'connect');
	const closed = once(socket, 'close').catch(() => {});
	const ended = Promise.race([once(socket, 'end').catch(() => {}), closed]);
	if (everyMs) {
		for (const byte of bytes) {
			socket.write(Buffer.from([byte]));
			await new Promise((resolve) => setTimeout(resolve, everyMs));
			if (socket.destroyed) {
				break;
			}
		}
	} else {
		socket.write(bytes);
	}
	if (end) {
		socket.end();
	}
	await within(ended, 20_000, () => 'the server to end the connection');
	return Buffer.concat(parts);
}

/** A TLS client whose bytes a test passes on: gives its first flight. */
async function clientHello() {
	const server = net.createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const client = tls.connect({ port: server.address().port, host: '127.0.0.1', rejectUnauthorized: false });
	client.on('error', () => {});
	const [socket] = await once(server, 'connection');
	const [bytes] = await once(socket, 'data');
	client.destroy();
	socket.destroy();
	server.close();
	return bytes;
}

test('who speaks something else is told or dropped, and the others notice nothing', async (t) => {
	const server = await Server.start(t, withTls(makeCert(t), { args: ['--limit', 'head_ms=1500'] }));
	await server.createSession({ id: 'one' });
	const observer = await Observer.connect(t, server, 'one');
	await observer.load({ after_seq: 0, follow: true });
	for (const method of ['GET', 'POST', 'HEAD', 'PUT']) {
		const answer = String(await talk(t, server, `${method} / HTTP/1.1\r\nHost: x\r\n\r\n`));
		const [head, body] = answer.split('\r\n\r\n');
		assert.match(head, /^HTTP\/1\.1 400 Bad Request\r\n/, method);
		assert.match(head, /^date: (Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r$/m, method);
		assert.match(JSON.parse(body).error.message, /TLS/);
		assert.equal(Number(/content-length: (\d+)/.exec(head)[1]), body.length);
	}
	const hello = await clientHello();
	const alert = (bytes) => assert.ok(bytes.length === 0 || (bytes[0] === 21 && bytes.length === 7), `an alert, if anything: ${bytes.toString('hex').slice(0, 40)}`);
	alert(await talk(t, server, Buffer.alloc(1000, 0xff)));
	alert(await talk(t, server, Buffer.concat([Buffer.from([22, 3, 1, 0x40, 1]), Buffer.alloc(0x4001)])));
	const twisted = Buffer.from(hello);
	twisted[9] ^= 0xff; // the version that it asks for
	twisted[5] = 2; // no client says this
	alert(await talk(t, server, twisted));
	// Half a handshake, nothing at all, and a byte now and then all have to be done in time.
	const slow = [
		talk(t, server, Buffer.alloc(0)),
		talk(t, server, hello.subarray(0, 3)),
		talk(t, server, hello.subarray(0, 100)),
		talk(t, server, hello, { everyMs: 100 }),
		talk(t, server, hello),
		talk(t, server, hello.subarray(0, 100), { end: true }),
	];
	await Promise.all(slow);
	const { max_seq } = await post(server, 'one', [input.text('hello\n\n'), input.end()]);
	await observer.waitForSeq(max_seq);
});

test('one that there is no room for is told with an alert', async (t) => {
	const pair = makeCert(t);
	const server = await Server.start(t, withTls(pair, { args: ['--limit', 'connections=1'] }));
	const { hostname, port } = new URL(server.url);
	const first = tls.connect({ host: hostname, port, ca: pair.ca, servername: 'localhost' });
	defer(t, () => first.destroy());
	await once(first, 'secureConnect');
	assert.deepEqual([...await talk(t, server, Buffer.alloc(0))], [21, 3, 3, 0, 2, 2, 80]);
	const second = tls.connect({ host: hostname, port, ca: pair.ca, servername: 'localhost' });
	const [error] = await within(once(second, 'error'), 20_000, () => 'the alert');
	assert.match(error.message, /internal error/);
});

test('a handshake and a request a byte at a time', async (t) => {
	const pair = makeCert(t);
	const server = await Server.start(t, withTls(pair));
	const { hostname, port } = new URL(server.url);
	// Everything that the client sends passes here in pieces of one byte.
	const slow = net.createServer((client) => {
		const there = net.connect({ host: hostname, port });
		there.setNoDelay(true);
		there.pipe(client);
		client.on('data', (bytes) => {
			for (const byte of bytes) {
				there.write(Buffer.from([byte]));
			}
		});
		client.on('error', () => there.destroy()).on('close', () => there.destroy());
		there.on('error', () => client.destroy());
	}).listen(0, '127.0.0.1');
	await once(slow, 'listening');
	defer(t, () => slow.close());
	const socket = tls.connect({ host: '127.0.0.1', port: slow.address().port, ca: pair.ca, servername: 'localhost' });
	defer(t, () => socket.destroy());
	await within(once(socket, 'secureConnect'), 20_000, () => 'the handshake');
	socket.write(`GET /api/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.token}\r\nConnection: close\r\n\r\n`);
	let text = '';
	socket.on('data', (d) => (text += d));
	await within(once(socket, 'end'), 20_000, () => 'the answer');
	assert.match(text, /^HTTP\/1\.1 200 OK\r\n/);
});

test('a client that ends its side after its request gets the answer; pipelined requests all do', async (t) => {
	const pair = makeCert(t);
	const server = await Server.start(t, withTls(pair));
	const { hostname, port } = new URL(server.url);
	const request = `GET /api/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.token}\r\n\r\n`;
	// Behind the handshake, what the client sends is kept here until it has ended its side: then it goes out in one piece, close_notify
	// included. A FIN does not follow.
	let held = null;
	const relay = net.createServer({ allowHalfOpen: true }, (client) => {
		const there = net.connect({ host: hostname, port, allowHalfOpen: true });
		there.pipe(client);
		client.on('data', (bytes) => (held ? held.push(bytes) : there.write(bytes)));
		client.on('end', () => there.write(Buffer.concat(held)));
		client.on('error', () => there.destroy()).on('close', () => there.destroy());
		there.on('error', () => client.destroy());
	}).listen(0, '127.0.0.1');
	await once(relay, 'listening');
	defer(t, () => relay.close());
	const run = async (bytes) => {
		held = null;
		const socket = tls.connect({ host: '127.0.0.1', port: relay.address().port, ca: pair.ca, servername: 'localhost', allowHalfOpen: true });
		defer(t, () => socket.destroy());
		await once(socket, 'secureConnect');
		let text = '';
		socket.on('data', (d) => (text += d));
		held = [];
		socket.end(bytes);
		await within(once(socket, 'end'), 20_000, () => 'the end');
		return text;
	};
	assert.match(await run(request), /^HTTP\/1\.1 200 OK\r\n/);
	assert.equal((await run(request.repeat(20))).match(/HTTP\/1\.1 200 OK/g).length, 20);
	assert.equal(await run(''), '');
	assert.equal(await run('GET /api/sess'), '', 'half a head');
});

test('a page of many records comes whole to one who reads slowly, and a slow observer chokes and loses nothing', async (t) => {
	const pair = makeCert(t);
	const server = await Server.start(t, withTls(pair));
	await server.createSession({ id: 'one' });
	const observer = await Observer.connect(t, server, 'one', { query: { format: 'markdown' } });
	await observer.load({ after_seq: 0, follow: true });
	observer.pause();
	const producer = await Producer.connect(t, server, 'one');
	const text = `${'x'.repeat(60_000)}\n\n`;
	for (let i = 0; i < 200; i++) {
		await producer.append(input.text(text));
	}
	const { max_seq } = await producer.append(input.end());
	observer.resume();
	const events = await observer.waitForSeq(max_seq, 60_000);
	const joined = events.map((e) => e.data.markdown ?? '').join('');
	assert.ok(joined.trimEnd() === text.repeat(200).trimEnd(), `${joined.length} of ${200 * text.length}`);
	const { body } = await server.request('GET', '/api/sessions/one/events?after_seq=0&limit=10&format=markdown');
	assert.equal(body.events.length, 10);
});

test('SIGHUP changes the certificate for new connections; living ones and what they are sent do not notice', async (t) => {
	const [one, two] = [makeCert(t), makeCert(t, { type: 'rsa' })];
	const server = await Server.start(t, withTls(one));
	await server.createSession({ id: 'one' });
	const fingerprint = () => new Promise((resolve, reject) => {
		const { hostname, port } = new URL(server.url);
		const socket = tls.connect({ host: hostname, port, rejectUnauthorized: false }, () => {
			resolve(socket.getPeerX509Certificate().fingerprint256);
			socket.destroy();
		}).on('error', reject);
	});
	const reload = async (words) => {
		const since = server.stderr.length;
		process.kill(server.pid, 'SIGHUP');
		await eventually(() => words.test(server.stderr.slice(since)), `the server to say ${words}\n${server.stderr.slice(since)}`);
	};
	const first = await fingerprint();
	const observers = [];
	for (let i = 0; i < 8; i++) {
		observers.push(await Observer.connect(t, server, 'one'));
		await observers[i].load({ after_seq: 0, follow: true });
	}
	const producer = await Producer.connect(t, server, 'one');
	let isOver = false;
	let last = 0;
	const load = (async () => {
		for (let i = 0; !isOver; i++) {
			({ max_seq: last } = await producer.append(input.text(`paragraph ${i}\n\n`)));
		}
	})();
	const keep = { cert: join(scratchDir(t), 'cert'), key: join(scratchDir(t), 'key') };
	copyFileSync(one.cert, keep.cert);
	copyFileSync(one.key, keep.key);
	for (let round = 0; round < 5; round++) {
		const from = round % 2 ? keep : two;
		copyFileSync(from.cert, one.cert);
		copyFileSync(from.key, one.key);
		await reload(/new connections now use the certificate/);
		assert.equal(await fingerprint() === first, round % 2 === 1, `round ${round}`);
	}
	// What cannot be used changes nothing.
	const before = await fingerprint();
	writeFileSync(one.cert, 'nonsense');
	await reload(/the old certificate stays in use: .*the certificate cannot be used/);
	copyFileSync(keep.cert, one.cert);
	await reload(/the old certificate stays in use: .*is not the key/);
	assert.equal(await fingerprint(), before);
	// Many at once are one or two.
	copyFileSync(keep.key, one.key);
	for (let i = 0; i < 50; i++) {
		process.kill(server.pid, 'SIGHUP');
	}
	await eventually(async () => (await fingerprint()) === first, 'the first certificate again');
	isOver = true;
	await load;
	const { max_seq } = await producer.append(input.end());
	assert.ok(max_seq > last && last > 5);
	const [all, ...others] = await Promise.all(observers.map((observer) => observer.waitForSeq(max_seq)));
	others.forEach((events) => assert.deepEqual(events, all));
	assert.ok(observers.every((observer) => observer.closed === null));
});

test('the page logs in with a Secure cookie over TLS; the plain address of the same server gives another', async (t) => {
	const server = await Server.start(t, withTls(makeCert(t)));
	const login = (origin) => server.rawRequest('POST', '/api/login', { authorization: undefined, origin, 'content-type': 'application/json' }, JSON.stringify({ token: server.token }));
	const { status, headers } = await login(server.url);
	assert.equal(status, 200);
	assert.match(headers['set-cookie'][0], /; Secure$/);
	assert.equal((await login(server.url.replace('https', 'http'))).status, 403);
});

test('the commands reach a server that speaks TLS only', async (t) => {
	const pair = makeCert(t);
	const server = await Server.start(t, withTls(pair, { listen: ['0.0.0.0:0'] }));
	const run = async (args, env) => {
		const { code, stdout, stderr } = await runToEnd(args, { env });
		return { code, out: stdout.trim(), stderr };
	};
	const data = ['--data', server.dataDir];
	const local = server.url.replace('0.0.0.0', '127.0.0.1');
	assert.equal((await run(['url', ...data])).out, `${local}/#token=${server.token}`);
	const token = (await run(['token', 'create', '--role', 'observer', '--session', '*', ...data])).out;
	const [jti] = (await run(['token', 'list', ...data])).out.split(/\s/);
	const revoked = await run(['token', 'revoke', jti, ...data]);
	assert.equal(revoked.code, 0, revoked.stderr);
	server.url = local;
	noteCa(local, pair.ca);
	const answer = await server.request('GET', '/api/login', { headers: { authorization: `Bearer ${token}` } });
	assert.equal(answer.body.error.code, 'token_revoked');
	const file = join(scratchDir(t), 'recording.jsonl');
	writeFileSync(file, `${JSON.stringify({ t: 0, type: 'agent_message_chunk', data: { text: 'hello' } })}\n`);
	const replay = ['replay', file, '--create', '--speed', 'max'];
	const env = { HOLDFAST_TOKEN: server.token };
	assert.equal((await run([...replay, ...data])).code, 0, 'the server of a data directory needs no certificate of an authority');
	assert.equal((await run([...replay, '--url', local], { ...env, SSL_CERT_FILE: pair.cert })).code, 0);
	// To others a token is sent only if their certificate is good and for their name.
	const stranger = await run([...replay, '--url', local], env);
	assert.equal(stranger.code, 2);
	assert.match(stranger.stderr, /certificate/);
	const elsewhere = makeCert(t, { names: ['DNS:elsewhere.example'] });
	const other = await Server.start(t, withTls(elsewhere));
	const wrong = await run([...replay, '--url', other.url], { HOLDFAST_TOKEN: other.token, SSL_CERT_FILE: elsewhere.cert });
	assert.equal(wrong.code, 2);
	assert.match(wrong.stderr, /certificate/);
	const plain = await Server.start(t);
	assert.equal((await run([...replay, '--url', plain.url.replace('http', 'https')], env)).code, 2);
});

test('a key that nobody may read', { skip: process.getuid() !== 0 && 'needs root, to be somebody else' }, async (t) => {
	const pair = makeCert(t);
	const dir = scratchDir(t);
	chmodSync(dir, 0o777);
	chmodSync(join(pair.cert, '..'), 0o755);
	chmodSync(pair.key, 0o600);
	const args = ['--reuid=65534', '--regid=65534', '--clear-groups', binary(), 'serve', '--listen', 'https://127.0.0.1:0', '--data', join(dir, 'data'), ...inDirectory(dir), '--tls-cert', pair.cert, '--tls-key', pair.key];
	const { status, stderr } = spawnSync('setpriv', args, { encoding: 'utf8', timeout: 20_000 });
	assert.equal(status, 1, stderr);
	assert.match(stderr, /key\.pem cannot be read: Permission denied/);
});
