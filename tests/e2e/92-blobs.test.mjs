// Images and files of a session (proto/protocol.md#images-and-files): they are there once they are whole and on disk, they are what
// their bytes say, and nobody gets more room, or more of the disk, than the limits give.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { download, mustUpload, png, sha256, upload } from '../support/blobs.mjs';
import { FaultyDisk, hasFaultyDisk } from '../support/faulty_disk.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { Server, canMount, runToEnd, scratchDir } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';
import { eventually, patience } from '../support/wait.mjs';

const PATH = '/api/sessions/one/blobs';
const codeOf = (answer) => (typeof answer.body === 'string' ? JSON.parse(answer.body) : answer.body)?.error?.code;
const auth = (server) => ({ Authorization: `Bearer ${server.token}` });
const bearer = (token) => ({ authorization: `Bearer ${token}` });
const bytesOf = (size, seed = 1) => Buffer.from(Array.from({ length: size }, (_, i) => (i * 7 + seed * 131 + (i >> 8)) & 255));
const blobsOf = (server, id = 'one') => (existsSync(join(server.dataDir, 'sessions', id, 'blobs')) ? readdirSync(join(server.dataDir, 'sessions', id, 'blobs')) : []);
const uploadsOf = (server) => (existsSync(join(server.dataDir, 'uploads')) ? readdirSync(join(server.dataDir, 'uploads')) : []);

async function start(t, args = []) {
	const server = await Server.start(t, { args });
	await server.createSession({ id: 'one' });
	return server;
}

test('what was sent comes back, and the same bytes are the same blob', async (t) => {
	const server = await start(t);
	const image = png();
	const first = await mustUpload(server, 'one', image, { headers: { 'content-type': 'text/html' } });
	assert.equal(first.mime_type, 'image/png');
	assert.deepEqual(await mustUpload(server, 'one', image), first);
	assert.deepEqual(blobsOf(server), [first.blob]);
	const large = bytesOf(3_000_001);
	const { blob, mime_type: type } = await mustUpload(server, 'one', large);
	assert.equal(type, 'application/octet-stream');
	for (const [name, bytes] of [[first.blob, image], [blob, large]]) {
		const answer = await download(server, 'one', name);
		assert.equal(answer.status, 200);
		assert.ok(answer.bytes.equals(bytes));
		assert.equal(answer.headers.get('content-length'), String(bytes.length));
	}
	const asked = await download(server, 'one', blob, { method: 'HEAD' });
	assert.deepEqual([asked.status, asked.headers.get('content-length'), asked.bytes.length], [200, '3000001', 0]);
	assert.deepEqual(uploadsOf(server), []);
	// A session has only its own.
	await server.createSession({ id: 'two' });
	assert.equal((await download(server, 'two', blob)).status, 404);
});

test('a browser cannot be made to run one', async (t) => {
	const server = await start(t);
	const cases = [
		['<html><script>alert(1)</script></html>', 'text/plain; charset=utf-8', 'inline'],
		['<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>', 'text/plain; charset=utf-8', 'inline'],
		['Grüße, ≠ 1\n', 'text/plain; charset=utf-8', 'inline'],
		[Buffer.from('%PDF-1.7\n'), 'application/pdf', 'attachment'],
		[Buffer.from([0, 1, 2, 3]), 'application/octet-stream', 'attachment'],
		[Buffer.from([0xc3]), 'text/plain; charset=utf-8', 'inline'],
		[Buffer.from([0xff, 0xfe, 65]), 'application/octet-stream', 'attachment'],
		[Buffer.from('RIFF\x01\x00\x00\x00WAVEfmt '), 'audio/wav', 'inline'],
		[Buffer.from([0xff, 0xd8, 0xff, 0xe0]), 'image/jpeg', 'inline'],
		[Buffer.from('GIF89a'), 'image/gif', 'inline'],
		[Buffer.from('RIFF\x01\x00\x00\x00WEBPVP8 '), 'image/webp', 'inline'],
	];
	for (const [content, type, disposition] of cases) {
		const bytes = Buffer.from(content);
		const made = await mustUpload(server, 'one', bytes, { headers: { 'content-type': 'image/svg+xml' } });
		const { headers } = await download(server, 'one', made.blob);
		assert.deepEqual([made.mime_type, headers.get('content-type'), headers.get('content-disposition')], [type, type, disposition], bytes.toString('latin1'));
		assert.equal(headers.get('x-content-type-options'), 'nosniff');
		assert.match(headers.get('content-security-policy'), /(^|; )sandbox(;|$)/);
		assert.match(headers.get('content-security-policy'), /default-src 'none'/);
		assert.equal(headers.get('cache-control'), 'no-store');
	}
});

test('a player gets the part that it asks for', async (t) => {
	const server = await start(t);
	const bytes = bytesOf(600_000);
	const { blob } = await mustUpload(server, 'one', bytes);
	for (const [range, from, to] of [['bytes=0-0', 0, 0], ['bytes=10-', 10, 599_999], ['bytes=300000-599999', 300_000, 599_999], ['bytes=5-99999999', 5, 599_999], ['bytes=-7', 599_993, 599_999], ['bytes=-9999999', 0, 599_999]]) {
		const answer = await download(server, 'one', blob, { headers: { range } });
		assert.deepEqual([answer.status, answer.headers.get('content-range')], [206, `bytes ${from}-${to}/600000`], range);
		assert.ok(answer.bytes.equals(bytes.subarray(from, to + 1)), range);
	}
	for (const range of ['bytes=600000-', 'bytes=9-2', 'bytes=-0', 'bytes=999999999999-']) {
		const answer = await download(server, 'one', blob, { headers: { range } });
		assert.deepEqual([answer.status, answer.headers.get('content-range')], [416, 'bytes */600000'], range);
	}
	for (const range of ['bytes=0-1,4-5', 'lines=1-2', 'bytes=', 'bytes=x-y', 'bytes=-']) {
		const answer = await download(server, 'one', blob, { headers: { range } });
		assert.deepEqual([answer.status, answer.bytes.length], [200, 600_000], range);
	}
	for (const range of ['bytes=0-0', 'bytes=600000-']) { // ranges are of GET alone (RFC 9110, section 14.2)
		const answer = await download(server, 'one', blob, { method: 'HEAD', headers: { range } });
		assert.deepEqual([answer.status, answer.headers.get('content-range'), answer.headers.get('content-length')], [200, null, '600000'], range);
	}
});

test('what is wrong is refused, and nothing of it stays', async (t) => {
	const server = await start(t, ['--limit', `receive_ms=${1500 * patience}`]);
	const sent = async (text) => {
		const socket = await RawSocket.connect(t, server);
		await socket.send(text);
		return socket;
	};
	const refused = async (socket, status, code) => {
		const answer = await socket.answer();
		assert.deepEqual([answer.status, codeOf(answer)], [status, code]);
	};
	await refused(await sent(head('POST', PATH, { ...auth(server), 'Content-Length': 0 })), 400, 'bad_request');
	await refused(await sent(head('POST', PATH, auth(server))), 400, 'bad_request');
	await refused(await sent(`${head('POST', PATH, { ...auth(server), 'Transfer-Encoding': 'chunked' })}0\r\n\r\n`), 400, 'bad_request');
	await refused(await sent(`${head('POST', PATH, { ...auth(server), 'Transfer-Encoding': 'chunked' })}5\r\nhello\r\nzz\r\n`), 400, 'bad_request');
	await refused(await sent(head('POST', PATH, { ...auth(server), 'Content-Length': '1x' })), 400, 'bad_request');
	await refused(await sent(head('POST', PATH, { 'Content-Length': 5 })), 401, 'unauthorized');
	await refused(await sent(head('POST', '/api/sessions/none/blobs', { ...auth(server), 'Content-Length': 5 })), 404, 'not_found');
	await refused(await sent(`${head('POST', PATH, { ...auth(server), 'Content-Length': 10 })}12345`), 408, 'timeout');
	for (const path of [`${PATH}/..`, `${PATH}/../../../access-token`, `${PATH}/%2e%2e%2fevents.jsonl`, `${PATH}/`, `${PATH}/${'A'.repeat(64)}`, `${PATH}/${'a'.repeat(63)}`, `${PATH}/${'a'.repeat(65)}`, `${PATH}/${'a'.repeat(64)}/x`, `${PATH}/${'a'.repeat(64)}.tools`, `${PATH}/${'a'.repeat(64)}`]) {
		await refused(await sent(head('GET', path, auth(server))), 404, 'not_found');
	}
	for (const [method, path] of [['GET', PATH], ['DELETE', PATH], ['POST', `${PATH}/${'a'.repeat(64)}`], ['PUT', PATH]]) {
		const { status } = await server.rawRequest(method, path, auth(server));
		assert.ok([405, 501].includes(status), `${method} ${path}: ${status}`);
	}
	// Cut off in the middle, and slow but whole.
	const cut = await sent(Buffer.concat([Buffer.from(head('POST', PATH, { ...auth(server), 'Content-Length': 2_000_000 })), bytesOf(900_000)]));
	await eventually(() => uploadsOf(server).length > 0, 'the first piece to be written');
	cut.drop();
	const slow = await sent(head('POST', PATH, { ...auth(server), 'Transfer-Encoding': 'chunked' }));
	for (const byte of 'bytes') {
		await slow.send(`1\r\n${byte}\r\n`);
	}
	await slow.send('0\r\n\r\n');
	assert.deepEqual(JSON.parse((await slow.answer()).body), { blob: sha256('bytes'), size: 5, mime_type: 'text/plain; charset=utf-8' });
	await eventually(() => uploadsOf(server).length === 0, 'what was cut off to be taken away');
	assert.deepEqual(blobsOf(server), [sha256('bytes')]);
	// The connection goes on after an answer, and a client may ask before it sends.
	const twice = await sent(`${head('POST', PATH, { ...auth(server), 'Content-Length': 1 })}a${head('POST', PATH, { ...auth(server), 'Content-Length': 1, Expect: '100-continue' })}`);
	assert.equal((await twice.answer()).status, 201);
	assert.equal((await twice.answer()).status, 100);
	await twice.send('b');
	assert.equal(JSON.parse((await twice.answer()).body).blob, sha256('b'));
});

test('who may watch gets them, who may do more sends them', async (t) => {
	const server = await start(t);
	const { blob } = await mustUpload(server, 'one', png());
	for (const [role, status] of [['observer', 403], ['controller', 201], ['producer', 201], ['admin', 201]]) {
		const headers = bearer(ownToken(server, role, ['one']));
		assert.equal((await upload(server, 'one', Buffer.from(role), { headers })).status, status, role);
		assert.equal((await download(server, 'one', blob, { headers })).status, 200, role);
	}
	const elsewhere = bearer(ownToken(server, 'controller', ['two']));
	assert.equal((await upload(server, 'one', Buffer.from('x'), { headers: elsewhere })).status, 404);
	assert.equal((await download(server, 'one', blob, { headers: elsewhere })).status, 404);
});

test('each limit has its code and is counted; room that is given back is there again', async (t) => {
	const server = await start(t, ['--limit', 'blob_size=8K', '--limit', 'session_blobs=16K', '--limit', 'blobs=24K']);
	const reached = async (limit) => (await readMetrics(server))(`limit_reached_total{limit="${limit}"}`);
	const expectFull = async (id, bytes, status, code, limit) => {
		const answer = await upload(server, id, bytes);
		assert.deepEqual([answer.status, codeOf(answer)], [status, code]);
		assert.ok(await reached(limit) > 0, limit);
	};
	await expectFull('one', bytesOf(8193), 413, 'too_large', 'blob_size');
	const socket = await RawSocket.connect(t, server);
	await socket.send(`${head('POST', PATH, { ...auth(server), 'Transfer-Encoding': 'chunked' })}2001\r\n${'x'.repeat(8193)}\r\n0\r\n\r\n`);
	assert.equal((await socket.answer()).status, 413);
	for (let n = 0; n < 4; n++) { // small ones count as 4 KiB
		await mustUpload(server, 'one', Buffer.from(`small ${n}`));
	}
	await expectFull('one', Buffer.from('one more'), 507, 'blobs_full', 'session_blobs');
	await server.createSession({ id: 'two' });
	await mustUpload(server, 'two', bytesOf(8192));
	await expectFull('two', Buffer.from('one more'), 507, 'blobs_full', 'blobs');
	assert.deepEqual(uploadsOf(server), []);
	// It is the same after a restart, and a deleted session gives its room back.
	await server.stop();
	await server.restart();
	await eventually(async () => (await upload(server, 'two', Buffer.from('one more'))).status === 507, 'what there is to be measured');
	assert.equal((await server.request('DELETE', '/api/sessions/one')).status, 204);
	await eventually(() => !existsSync(join(server.dataDir, 'sessions/one')), 'the folder to be gone');
	await mustUpload(server, 'two', Buffer.from('one more'));
	await eventually(() => readdirSync(join(server.dataDir, 'trash')).length === 0, 'the trash to be empty');
});

test('they go with the last event that speaks of them, and give their room back', async (t) => {
	const server = await start(t, ['--keep-events', '4', '--limit', 'prune_ms=20', '--limit', 'prune_size=1', '--limit', 'clock_trust_ms=0', '--limit', 'session_blobs=12K']);
	const say = (data) => server.request('POST', '/api/sessions/one/events', { json: { type: 'x-note', data } });
	const [gone, kept, young] = await Promise.all(['gone', 'kept', 'young'].map((text) => mustUpload(server, 'one', Buffer.from(text))));
	assert.equal((await upload(server, 'one', Buffer.from('one more'))).status, 507);
	const old = new Date(Date.now() - 3 * 86_400_000);
	for (const { blob } of [gone, kept]) {
		utimesSync(join(server.dataDir, 'sessions/one/blobs', blob), old, old);
	}
	await say({ content: { type: 'image', blob: gone.blob } });
	await say({ content: { type: 'image', blob: kept.blob } });
	await eventually(async () => {
		await say({ again: { deep: [{ blob: kept.blob }] } });
		return !blobsOf(server).includes(gone.blob);
	}, 'the first one to go');
	assert.deepEqual(blobsOf(server).sort(), [kept.blob, young.blob].sort());
	assert.equal((await download(server, 'one', gone.blob)).status, 404);
	assert.equal((await download(server, 'one', kept.blob)).status, 200);
	// Its room is there again, and so is the blob when it is sent again.
	await eventually(async () => (await upload(server, 'one', Buffer.from('gone'))).status === 201, 'its room');
	assert.equal((await upload(server, 'one', Buffer.from('one more'))).status, 507);
	for (let n = 0; n < 30; n++) {
		await say({ n });
	}
	assert.ok(blobsOf(server).includes(gone.blob), 'it is young again');
	await server.stop();
	const { code, stdout } = await runToEnd(['verify', server.dataDir]);
	assert.equal(code, 0, stdout);
});

test('they outlive kill -9 and eviction, and go with their session', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'evict_ms=1'] });
	for (let n = 0; n < 5; n++) {
		await server.createSession({ id: `s-${n}` });
		const { blob } = await mustUpload(server, `s-${n}`, bytesOf(300_000, n)); // the folder is as new as the session
		await server.kill9();
		await server.up();
		assert.ok((await download(server, `s-${n}`, blob)).bytes.equals(bytesOf(300_000, n)));
	}
	assert.equal((await server.request('DELETE', '/api/sessions/s-1')).status, 204);
	await server.createSession({ id: 's-1' });
	assert.equal((await download(server, 's-1', sha256(bytesOf(300_000, 1)))).status, 404);
	await server.stop();
	const { code, stdout } = await runToEnd(['verify', server.dataDir]);
	assert.equal(code, 0, stdout);
	assert.match(stdout, / 4 blobs, /);
});

test('verify finds one whose bytes have changed', async (t) => {
	const server = await start(t);
	const { blob } = await mustUpload(server, 'one', png());
	const path = join(server.dataDir, 'sessions/one/blobs', blob);
	await server.stop();
	const bytes = readFileSync(path);
	bytes[20] ^= 1;
	writeFileSync(path, bytes);
	writeFileSync(join(server.dataDir, 'sessions/one/blobs/notes.txt'), 'x');
	const { code, stdout } = await runToEnd(['verify', server.dataDir]);
	assert.equal(code, 1);
	assert.match(stdout, new RegExp(`^sessions/one/blobs/${blob}: its contents do not match the hash in its name`, 'm'));
	assert.match(stdout, /^sessions\/one\/blobs\/notes\.txt: its name is not that of an image or file/m);
});

test('what was being written when the server died is taken away', async (t) => {
	const server = await start(t);
	const socket = await RawSocket.connect(t, server);
	await socket.send(Buffer.concat([Buffer.from(head('POST', PATH, { ...auth(server), 'Content-Length': 2_000_000 })), bytesOf(900_000)]));
	await eventually(() => uploadsOf(server).length > 0, 'the first piece to be written');
	await server.kill9();
	assert.equal(uploadsOf(server).length, 1);
	await server.up();
	assert.deepEqual(uploadsOf(server), []);
	assert.deepEqual(blobsOf(server), []);
});

if (hasFaultyDisk()) {
	test('a disk that is slow, or refuses: nobody else waits, and the client is told', async (t) => {
		const disk = new FaultyDisk(scratchDir(t));
		const server = await Server.start(t, { env: disk.env });
		await server.createSession({ id: 'one' });
		const { blob } = await mustUpload(server, 'one', png());
		disk.slowDown(server.dataDir);
		const large = bytesOf(1_000_000);
		await mustUpload(server, 'one', large);
		assert.ok((await download(server, 'one', sha256(large))).bytes.equals(large));
		const socket = await RawSocket.connect(t, server);
		await socket.send(head('GET', `${PATH}/${sha256(large)}`, auth(server)));
		socket.drop();
		assert.equal((await download(server, 'one', blob)).status, 200);
		disk.slowDown('');
		const { calls } = disk;
		assert.deepEqual(calls.filter((c) => c.thread === server.pid), [], 'calls about files by the thread of the loop');
		for (const [call, path] of [['write', '/uploads/'], ['fdatasync', '/uploads/'], ['rename', '/uploads/'], ['fsync', '/one/blobs'], ['pread', '/one/blobs/']]) {
			assert.ok(calls.some((c) => c.call === call && c.path.includes(path)), `no ${call} of ${path} was seen`);
		}
		await server.stop();
	});
}

if (canMount()) {
	test('a disk without room: nothing of it stays, and what fits is taken', async (t) => {
		const server = await Server.start(t, { diskSize: '6M' });
		await server.createSession({ id: 'one' });
		const answer = await upload(server, 'one', bytesOf(8 << 20));
		assert.deepEqual([answer.status, codeOf(answer)], [503, 'storage_failed']);
		await eventually(async () => (await upload(server, 'one', bytesOf(1 << 20))).status === 201, 'room again');
		assert.ok((await download(server, 'one', sha256(bytesOf(1 << 20)))).bytes.equals(bytesOf(1 << 20)));
	});
}
