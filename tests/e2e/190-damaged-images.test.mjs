// An image or file whose bytes are not those of its name is given to nobody, whoever asks in whatever way; sent again, it is whole.

import assert from 'node:assert/strict';
import { closeSync, copyFileSync, existsSync, linkSync, openSync, readFileSync, readdirSync, renameSync, rmSync, statSync, truncateSync, utimesSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { download, mustUpload, png } from '../support/blobs.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { startNodes } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { check, assertValid } from '../support/schema.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const inDatabase = Boolean(process.env.HOLDFAST_TEST_STORE);
const agent = `exec ${process.execPath} ${fileURLToPath(new URL('../support/content_agent.mjs', import.meta.url))} image embeddedContext`;
const bytesOf = (size, seed) => Buffer.from(Array.from({ length: size }, (_, i) => (i * 31 + seed * 7 + (i >> 7)) & 255));
const pathOf = (server, blob, id = 'one') => join(server.dataDir, 'sessions', id, 'blobs', blob);

async function run(code, ...args) {
	const done = await runToEnd(args, { timeoutMs: 120_000 });
	assert.equal(done.signal ?? done.code, code, `holdfast ${args.join(' ')}\n${done.stdout}${done.stderr}`);
	return done;
}

/** Turns one bit over, in place. */
function flip(path, at) {
	const byte = readFileSync(path)[at];
	const fd = openSync(path, 'r+');
	writeSync(fd, Buffer.from([byte ^ 4]), 0, 1, at);
	closeSync(fd);
}

async function isWhole(server, blob, bytes, id = 'one') {
	const answer = await download(server, id, blob);
	assert.equal(answer.status, 200, answer.bytes.toString('latin1', 0, 200));
	assert.ok(answer.bytes.equals(bytes));
}

/** Waits until the file system's clock is so far that a file that was changed before is remembered (FRESH_NS of blob_check.c). */
async function growsOld(path) {
	const now = join(path, '../now');
	await eventually(() => {
		writeFileSync(now, '');
		return statSync(now, { bigint: true }).ctimeNs - statSync(path, { bigint: true }).ctimeNs > 20_000_000n;
	}, 'the clock of the file system to move');
	rmSync(now);
}

/** However it is asked for, the refusal comes, and no byte. */
async function isRefused(server, blob, id = 'one') {
	for (const headers of [{}, { range: 'bytes=0-9' }, { range: 'bytes=-1' }, { 'if-none-match': '*' }, { 'if-modified-since': new Date().toUTCString() }]) {
		const answer = await download(server, id, blob, { headers });
		assert.equal(answer.status, 500, JSON.stringify(headers));
		assertValid(check.rest('error')(answer.body));
		assert.equal(answer.body.error.code, 'blob_damaged');
		assert.match(answer.body.error.message, /send it to the session again/);
	}
	const asked = await download(server, id, blob, { method: 'HEAD' });
	assert.deepEqual([asked.status, asked.bytes.length], [500, 0]);
}

!inDatabase && test('a file of another image that was linked to the name is refused, although its bytes are known', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'one' });
	const [bytes, other] = [bytesOf(5000, 1), bytesOf(5000, 2)];
	const [first, second] = [(await mustUpload(server, 'one', bytes)).blob, (await mustUpload(server, 'one', other)).blob];
	utimesSync(pathOf(server, first), new Date(0), new Date(0)); // and so not changed just now
	await growsOld(pathOf(server, first));
	await isWhole(server, first, bytes);
	renameSync(pathOf(server, second), `${pathOf(server, second)}.gone`);
	linkSync(pathOf(server, first), pathOf(server, second));
	await growsOld(pathOf(server, first));
	await isWhole(server, first, bytes);
	await isRefused(server, second);
});

!inDatabase && test('one bit anywhere in an image, and nobody gets it until it is sent again', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'one' });
	const sizes = [1, 9, 4096, 262_144, 262_145, 600_000];
	const all = [];
	for (const [seed, size] of sizes.entries()) {
		const bytes = bytesOf(size, seed);
		const { blob } = await mustUpload(server, 'one', bytes);
		await isWhole(server, blob, bytes);
		all.push({ bytes, blob });
	}
	for (const { bytes, blob } of all) {
		for (const at of new Set([0, bytes.length >> 1, bytes.length - 1])) {
			flip(pathOf(server, blob), at);
			await isRefused(server, blob);
			flip(pathOf(server, blob), at); // as it was
			await isWhole(server, blob, bytes);
		}
		flip(pathOf(server, blob), 0);
	}
	const metrics = await readMetrics(server);
	assert.ok(metrics('blobs_damaged_total') >= 6 * all.length);
	assert.ok(metrics('refusals_total{code="blob_damaged"}') >= 5 * all.length);
	const other = await mustUpload(server, 'one', png());
	await isWhole(server, other.blob, png());
	assert.match(server.stderr, /session one: the image or file [0-9a-f]{64} is damaged/);
	const { stdout } = await run(1, 'verify', server.dataDir);
	for (const { bytes, blob } of all) {
		assert.match(stdout, new RegExp(`sessions/one/blobs/${blob}: its contents do not match the hash in its name`));
		await mustUpload(server, 'one', bytes);
		await isWhole(server, blob, bytes);
	}
	await run(0, 'verify', server.dataDir);
});

!inDatabase && test('cut, longer, empty, another one, changed behind its times: all is noticed, also after a start', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'one' });
	const bytes = bytesOf(100_000, 3);
	const { blob } = await mustUpload(server, 'one', bytes);
	const other = await mustUpload(server, 'one', bytesOf(100_000, 4));
	const path = pathOf(server, blob);
	const keep = join(scratchDir(t), 'keep');
	copyFileSync(path, keep);
	const damages = [
		() => truncateSync(path, 99_999), () => truncateSync(path, 0), () => truncateSync(path, 100_001), () => copyFileSync(pathOf(server, other.blob), path),
		() => { // in place, with the size and the time that it had
			const { atime, mtime } = statSync(path);
			flip(path, 77_777);
			utimesSync(path, atime, mtime);
		},
		() => { // another file in its place, the same way
			const { atime, mtime } = statSync(path);
			writeFileSync(`${keep}.other`, bytesOf(100_000, 5));
			utimesSync(`${keep}.other`, atime, mtime);
			renameSync(`${keep}.other`, path);
		},
	];
	for (const damage of damages) {
		await isWhole(server, blob, bytes);
		damage();
		await isRefused(server, blob);
		await isRefused(server, blob);
		await server.stop();
		await server.restart();
		await isRefused(server, blob);
		copyFileSync(keep, path);
	}
	await isWhole(server, blob, bytes);
	await isWhole(server, other.blob, bytesOf(100_000, 4));
});

!inDatabase && test('no agent gets a damaged one: its prompt is refused, or ends in words', async (t) => {
	const server = await Server.start(t, { agent });
	await server.createSession({ id: 'one' });
	const observer = await Observer.connect(t, server, 'one', { query: { format: 'markdown' } });
	await observer.loadAll();
	const { blob } = await mustUpload(server, 'one', png());
	const content = [{ type: 'image', blob }];
	const { seq } = await observer.prompt('wait');
	await observer.promptWith({ message: 'x', prompt_id: 'p-1', content });
	flip(pathOf(server, blob), 40);
	const error = await observer.refused('prompt', { message: 'x', prompt_id: 'p-2', content });
	assert.equal(error.code, 'blob_damaged');
	await observer.send('cancel');
	const prompt = await observer.waitForEvent((e) => e.type === 'user_prompt' && e.data.prompt_id === 'p-1', { after: seq });
	const end = await observer.waitForEvent('turn_end', { after: prompt.seq });
	assert.equal(end.data.stop_reason, 'error');
	assert.match(end.data.message, /an image or file of the prompt is damaged/);
	await mustUpload(server, 'one', png());
	await observer.promptWith({ message: 'x', prompt_id: 'p-2', content });
});

!inDatabase && test('backup, restore and repair say it, and an earlier backup that rotted harms no later one', async (t) => {
	const server = await Server.start(t);
	const dir = scratchDir(t);
	const target = join(dir, 'backups');
	const newest = () => join(target, readdirSync(target).sort().at(-1));
	await server.createSession({ id: 'one' });
	await post(server, 'one', [input.note({ n: 1 })]);
	const bytes = bytesOf(30_000, 1);
	const { blob } = await mustUpload(server, 'one', bytes);
	await run(0, 'backup', server.dataDir, target);
	flip(join(newest(), 'sessions/one/blobs', blob), 5);
	await run(0, 'backup', server.dataDir, target);
	assert.ok(readFileSync(join(newest(), 'sessions/one/blobs', blob)).equals(bytes), 'it was copied anew');
	flip(pathOf(server, blob), 5);
	await run(0, 'backup', server.dataDir, target); // a whole copy of it is in the one before
	const fresh = await run(1, 'backup', server.dataDir, join(dir, 'first'));
	assert.match(fresh.stdout, /its contents do not match the hash in its name/);
	const restored = join(dir, 'restored');
	await run(1, 'restore', join(dir, 'first'), restored);
	const again = await Server.start(t, { dataDir: restored, cwd: scratchDir(t) });
	await isRefused(again, blob);
	await again.stop();
	await server.stop();
	const repaired = await run(1, 'repair', server.dataDir);
	assert.match(repaired.stdout, new RegExp(`^session one: the image or file ${blob} is damaged, and was moved to set-aside/one\\.${blob}\\.1$`, 'm'));
	assert.doesNotMatch(repaired.stdout, /nothing is damaged/);
	assert.ok(existsSync(join(server.dataDir, `set-aside/one.${blob}.1`)));
	await run(0, 'verify', server.dataDir);
	assert.match((await run(0, 'repair', server.dataDir)).stdout, /nothing is damaged/);
	await server.up();
	assert.equal((await download(server, 'one', blob)).status, 404);
	await mustUpload(server, 'one', bytes);
	await isWhole(server, blob, bytes);
});

const postgres = inDatabase ? null : Postgres.start({ after });

postgres && test('in a database it is the same, at the node that has the session and at the others', async (t) => {
	const [a, b] = await startNodes(t, postgres, 2, { database: 'images' });
	await a.createSession({ id: 'one' });
	const bytes = bytesOf(300_000, 6);
	const { blob } = await mustUpload(a, 'one', bytes);
	const other = await mustUpload(a, 'one', png());
	const rot = () => postgres.ask('images', `UPDATE holdfast_blob SET bytes = set_byte(bytes, 1234, get_byte(bytes, 1234) # 4) WHERE name = '${blob}'`);
	for (const node of [a, b]) {
		await isWhole(node, blob, bytes);
	}
	rot();
	for (const node of [a, b]) {
		await isRefused(node, blob);
		await isWhole(node, other.blob, png());
	}
	assert.match((await run(1, 'verify', postgres.url('images'))).stdout, new RegExp(`blob ${blob}: its contents do not match`));
	await mustUpload(b, 'one', bytes); // it heals
	for (const node of [a, b]) {
		await isWhole(node, blob, bytes);
	}
	assert.ok((await readMetrics(a))('blobs_damaged_total') > 0);
	await run(0, 'verify', postgres.url('images'));
	const place = () => postgres.ask('images', `SELECT pg_relation_filepath('holdfast_blob'), sum(length(bytes)) FROM holdfast_blob`);
	const before = place();
	await mustUpload(a, 'one', bytes); // and what is whole is not written again
	assert.equal(place(), before);
	await Promise.all([a.stop(), b.stop()]);
	rot();
	assert.match((await run(1, 'migrate', postgres.url('images'), join(scratchDir(t), 'files'))).stderr, /damaged|repair/);
});
