// Raw streams whose journal or files a disk has changed: each stream is whole, or refused as damaged; never wrong, never gone. readyz,
// metrics and verify say how many, repair sets them aside, and the others go on. Known: the newest batch cannot be told from a torn one.

import assert from 'node:assert/strict';
import { closeSync, cpSync, existsSync, openSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readMetrics } from '../support/metrics.mjs';
import { partOf } from '../support/part.mjs';
import { BYTES, TEXT, ask, readAll } from '../support/raw_streams.mjs';
import { check, assertValid } from '../support/schema.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

const MAGIC = Buffer.from('HFRB');
const bytesOf = (size, seed) => Buffer.from(Array.from({ length: size }, (_, i) => (i * 31 + seed * 7) & 255));

/** A data directory of a server that was killed, with one segment; the bytes of each stream, and without those of the last batch. */
async function make(t) {
	const server = await Server.start(t);
	const want = { a: [], b: [Buffer.from('small')], c: [Buffer.from('closed')], f: [] };
	await ask(server, 'PUT', 'a', { type: BYTES });
	for (let n = 0; n < 12; n++) {
		want.a.push(bytesOf(700 + 90 * n, n));
		await ask(server, 'POST', 'a', { type: BYTES, body: want.a.at(-1) });
		n === 3 && await ask(server, 'PUT', 'b', { type: TEXT, body: 'small' });
		n === 5 && await ask(server, 'PUT', 'c', { type: TEXT, body: 'closed' });
		n === 6 && await ask(server, 'POST', 'c', { type: TEXT, headers: { 'stream-closed': 'true' } });
	}
	const tail = Buffer.from(' and more');
	want.b.push(tail);
	await ask(server, 'POST', 'b', { type: TEXT, body: tail });
	delete want.f;
	await server.kill9();
	const [segment] = readdirSync(join(server.dataDir, 'streams/journal'));
	const whole = Object.fromEntries(Object.entries(want).map(([name, list]) => [name, Buffer.concat(list)]));
	return { dir: server.dataDir, segment: `streams/journal/${segment}`, whole, torn: { ...whole, b: Buffer.from('small') } };
}

function batchesOf(bytes) {
	const found = [];
	for (let at = 8; bytes.subarray(at, at + 4).equals(MAGIC);) {
		const length = 28 + Number(bytes.readBigUInt64LE(at + 4));
		found.push({ at, length });
		at += length;
	}
	return found;
}

function flip(path, at, bit = 4) {
	const byte = readFileSync(path)[at];
	const fd = openSync(path, 'r+');
	writeSync(fd, Buffer.from([byte ^ bit]), 0, 1, at);
	closeSync(fd);
}

/** Asks for each stream; gives the names of those that are refused. Any other has its bytes. */
async function look(server, made, may = made.whole) {
	const refused = [];
	for (const [name, bytes] of Object.entries(made.whole)) {
		const { status, body, headers } = await ask(server, 'GET', name, { query: { offset: '-1' } });
		if (status === 200) {
			const found = await readAll(server, name);
			assert.ok(found.equals(bytes) || found.equals(may[name]), `${name}: wrong bytes`);
			name === 'c' && assert.equal(headers['stream-closed'], 'true', 'it stays closed');
			continue;
		}
		assert.equal(status, 500, `${name}: ${status} ${body}`);
		assertValid(check.rest('error')(JSON.parse(body)));
		assert.equal(JSON.parse(body).error.code, 'stream_damaged');
		for (const [method, options] of [['HEAD', {}], ['PUT', { type: TEXT }], ['POST', { type: name === 'a' ? BYTES : TEXT, body: 'x' }]]) {
			assert.equal((await ask(server, method, name, options)).status, 500, `${method} ${name}`);
		}
		refused.push(name);
	}
	const ready = await server.request('GET', '/readyz');
	assertValid(check.rest('readiness')(ready.body));
	const count = ready.body.damaged_streams ?? 0; // of a stream that is lost nobody knows whether it was one
	assert.ok(count <= refused.length && (count > 0) === (refused.length > 0), JSON.stringify([ready.body, refused]));
	assert.equal((await readMetrics(server))('streams_damaged'), count);
	return refused;
}

/** Starts on a damaged copy: twice, then after a repair. Gives what was refused. */
async function live(t, made, damage, { all = false, may } = {}) {
	const dataDir = join(scratchDir(t), 'data');
	cpSync(made.dir, dataDir, { recursive: true });
	damage(join(dataDir, made.segment), dataDir);
	const server = await Server.start(t, { dataDir, cwd: scratchDir(t), args: ['--limit', 'journal_retry_ms=20'] });
	const refused = await look(server, made, may);
	const code = (await ask(server, 'PUT', 'new', { type: TEXT, body: 'fresh' })).status;
	// A name that is not known may be that of a lost stream, if a creation may be lost.
	assert.ok(code === 201 ? !all : code === 500 && refused.length > 0, `${code}: others go on`);
	if (!all && !refused.includes('b')) {
		assert.equal((await ask(server, 'POST', 'b', { type: TEXT, body: '' })).status, 400);
	}
	refused.length && assert.match(server.stderr, /streams\/(journal|data)/);
	await server.stop();
	assert.equal((await runToEnd(['verify', dataDir])).code, refused.length ? 1 : 0);
	await server.restart();
	assert.deepEqual(await look(server, made, may), refused, 'a start forgets nothing');
	let rest = refused;
	if (code === 201 && refused.length) {
		assert.equal((await ask(server, 'DELETE', refused[0])).status, 204);
		assert.equal((await ask(server, 'GET', refused[0], { query: { offset: '-1' } })).status, 404);
		rest = refused.slice(1);
	}
	await server.stop();
	const repaired = await runToEnd(['repair', dataDir]);
	assert.equal(repaired.code, rest.length ? 1 : 0, repaired.stdout + repaired.stderr);
	const verified = await runToEnd(['verify', dataDir]);
	assert.equal(verified.code, 0, verified.stdout + verified.stderr);
	await server.restart();
	for (const name of Object.keys(made.whole)) {
		const { status } = await ask(server, 'GET', name, { query: { offset: '-1' } });
		assert.equal(status, refused.includes(name) ? 404 : 200, name);
	}
	await server.stop();
	return refused;
}

test('a bit anywhere in the journal hits the streams of its batch, and no other', { timeout: 1_800_000 }, async (t) => {
	const made = await make(t);
	const batches = batchesOf(readFileSync(join(made.dir, made.segment)));
	assert.equal(batches.length, 18);
	const cases = [];
	for (const [i, { at, length }] of batches.entries()) {
		for (const offset of [0, 5, 13, 21, 28, 29, 33, 34, 45, length >> 1, length - 1]) {
			offset < length && cases.push({ i, at: at + offset, offset });
		}
	}
	for (const { i, at, offset } of partOf(cases)) {
		const isFirst = i === 0;
		const isLast = i === batches.length - 1;
		const what = `batch ${i}, byte ${offset}`;
		const refused = await live(t, made, (path) => flip(path, at), { all: isFirst && offset >= 28, may: isLast ? made.torn : undefined }).catch((error) => {
			error.message = `${what}: ${error.message}`;
			throw error;
		});
		if (!isFirst && !isLast && offset < 28) {
			assert.deepEqual(refused, [], `${what}: a wrong header loses nothing`);
		}
		if (i > 1 && i < 5 && offset === batches[i].length >> 1) {
			assert.deepEqual(refused, ['a'], what);
		}
	}
});

test('bytes of a client that look like a batch are none, where a write of them was cut off', async (t) => {
	/** Runs a server on three streams' worth of requests, and kills it. */
	const life = async (...requests) => {
		const server = await Server.start(t);
		for (const request of [['PUT', 'victim', { type: TEXT, body: 'secret' }], ['PUT', 'taker', { type: TEXT, body: 'x' }], ...requests]) {
			assert.ok((await ask(server, ...request)).status < 300, request.join(' '));
		}
		await server.kill9();
		const [segment] = readdirSync(join(server.dataDir, 'streams/journal'));
		const path = join(server.dataDir, 'streams/journal', segment);
		return { server, path, batches: batchesOf(readFileSync(path)) };
	};
	// What deletes the other stream, as the batch behind the one that it will be in.
	const taught = await life(['POST', 'taker', { type: TEXT, body: 'y' }], ['DELETE', 'victim']);
	const { at, length } = taught.batches.at(-1);
	const forged = readFileSync(taught.path).subarray(at, at + length);
	const { server, path, batches } = await life(['POST', 'taker', { type: TEXT, body: Buffer.concat([Buffer.alloc(100, 'a'), forged, Buffer.alloc(1000, 'b')]) }]);
	truncateSync(path, batches.at(-1).at + batches.at(-1).length - 500);
	await server.up();
	for (const [name, bytes] of [['victim', 'secret'], ['taker', 'x']]) {
		assert.equal((await readAll(server, name)).toString(), bytes);
	}
	assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready' });
	assert.equal((await ask(server, 'POST', 'taker', { type: TEXT, body: 'y' })).status, 204);
});

test('what is kept of a damaged journal replaces nothing that was kept before', async (t) => {
	const made = await make(t);
	const server = new Server({ dataDir: made.dir, cwd: scratchDir(t), agent: null, listen: ['127.0.0.1:0'] });
	t.after(() => server.stop());
	const kept = [];
	for (let n = 0; n < 2; n++) {
		const path = join(made.dir, 'streams/journal', readdirSync(join(made.dir, 'streams/journal')).at(-1));
		// The first time nothing is known any more, and numbers begin anew; then a creation is lost.
		flip(path, batchesOf(readFileSync(path))[n].at + 29);
		kept.push(readFileSync(path), readFileSync(join(made.dir, 'streams/data/0000000000000001')));
		await server.up();
		await server.stop();
		assert.equal((await runToEnd(['repair', made.dir])).code, 1);
		await server.up();
		for (const body of ['one', 'two', 'three']) {
			await ask(server, 'PUT', `anew-${body}`, { type: TEXT, body });
			await ask(server, 'POST', `anew-${body}`, { type: TEXT, body: body.repeat(100) });
		}
		await server.kill9();
	}
	const aside = join(made.dir, 'streams/set-aside');
	const found = readdirSync(aside).map((name) => readFileSync(join(aside, name)));
	for (const [i, bytes] of kept.entries()) {
		assert.ok(found.some((other) => other.equals(bytes)), `${i} of ${readdirSync(aside)}`);
	}
});

test('a fork of a damaged stream is refused and repaired with it', async (t) => {
	for (const isDeleted of [false, true]) {
		const server = await Server.start(t);
		await ask(server, 'PUT', 'source', { type: TEXT, body: 'base' });
		await ask(server, 'PUT', 'fork', { type: TEXT, headers: { 'stream-forked-from': '/v1/stream/source' } });
		await ask(server, 'PUT', 'other', { type: TEXT, body: 'free' });
		await ask(server, 'POST', 'source', { type: TEXT, body: 'more' });
		await ask(server, 'POST', 'other', { type: TEXT, body: ' and whole' });
		await server.kill9();
		const [segment] = readdirSync(join(server.dataDir, 'streams/journal'));
		const path = join(server.dataDir, 'streams/journal', segment);
		const { at, length } = batchesOf(readFileSync(path)).at(-2);
		flip(path, at + length - 2);
		await server.up();
		for (const name of ['source', 'fork']) {
			assert.equal((await ask(server, 'GET', name, { query: { offset: '-1' } })).status, 500, name);
		}
		assert.ok(!isDeleted || (await ask(server, 'DELETE', 'source')).status === 204);
		await server.stop();
		assert.equal((await runToEnd(['repair', server.dataDir])).code, 1);
		const verified = await runToEnd(['verify', server.dataDir]);
		assert.equal(verified.code, 0, verified.stdout);
		await server.restart();
		for (const name of ['source', 'fork']) {
			assert.equal((await ask(server, 'PUT', name, { type: TEXT, body: 'anew' })).status, 201, name);
		}
		assert.equal((await readAll(server, 'other')).toString(), 'free and whole');
		assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready' });
	}
});

test('a journal that is gone or has another beginning deletes nothing; a doubled batch, and a missing one, are noticed', async (t) => {
	const made = await make(t);
	const names = Object.keys(made.whole);
	const bytes = readFileSync(join(made.dir, made.segment));
	const batches = batchesOf(bytes);
	const slice = ({ at, length }) => bytes.subarray(at, at + length);
	assert.deepEqual(await live(t, made, (path) => rmSync(path), { all: true }), names);
	assert.deepEqual(await live(t, made, (path) => truncateSync(path, 0), { all: true }), names);
	assert.deepEqual(await live(t, made, (path) => truncateSync(path, 20), { all: true }), names);
	assert.deepEqual(await live(t, made, (path) => flip(path, 2), { all: true }), names);
	const join3 = (...parts) => Buffer.concat(parts);
	const [, , third, fourth] = batches;
	assert.deepEqual(await live(t, made, (path) => writeFileSync(path, join3(bytes.subarray(0, fourth.at), slice(third), bytes.subarray(fourth.at)))), [], 'a double changes nothing');
	const missing = await live(t, made, (path) => writeFileSync(path, join3(bytes.subarray(0, third.at), bytes.subarray(fourth.at))));
	assert.ok(missing.includes('a'));
});

test('while a damaged journal is read again and again, readyz and metrics go on saying how many streams it hits', async (t) => {
	const made = await make(t);
	rmSync(join(made.dir, made.segment));
	for (let n = 0; n < 2000; n++) { // so that it takes a while to read them
		writeFileSync(join(made.dir, 'streams/data', `f${String(n).padStart(15, '0')}`), '');
	}
	const files = readdirSync(join(made.dir, 'streams/data')).length;
	const server = await Server.start(t, { dataDir: made.dir, cwd: scratchDir(t), args: ['--limit', 'journal_retry_ms=1'] });
	for (let n = 0; n < 100; n++) {
		assert.equal((await server.request('GET', '/readyz')).body.damaged_streams, files);
	}
	for (let n = 0; n < 20; n++) {
		assert.equal((await readMetrics(server))('streams_damaged'), files);
	}
});

test('a file of a stream that is cut or gone is refused alone', async (t) => {
	const made = await make(t);
	for (const damage of [(path) => truncateSync(path, 100), (path) => rmSync(path)]) {
		// Its journal has what a start would append again: a start in between makes the file all that there is of it.
		const dataDir = join(scratchDir(t), 'data');
		cpSync(made.dir, dataDir, { recursive: true });
		const server = await Server.start(t, { dataDir, cwd: scratchDir(t) });
		await server.stop();
		const [segment] = readdirSync(join(dataDir, 'streams/journal'));
		const settled = { ...made, dir: dataDir, segment: `streams/journal/${segment}` };
		assert.deepEqual(await live(t, settled, (path, dir) => damage(join(dir, 'streams/data/0000000000000001'))), ['a']);
		assert.ok(existsSync(join(dataDir, 'streams/data/0000000000000001')));
	}
});
