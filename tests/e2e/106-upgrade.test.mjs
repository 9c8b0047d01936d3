// holdfast upgrade: data directories of every earlier format, and what is left of one in the middle, become the newest, with the
// same content. (tests/crash/test_upgrade.c cuts the power at each of its changes.)

import assert from 'node:assert/strict';
import { closeSync, cpSync, openSync, readFileSync, readSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DUE, allFixtures, checkAll, fixtures, take } from '../support/fixtures.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

const NEWEST = { journal: 'HFJRNL3\n', snapshot: 6, folder: /^\{"format":2,/ };

async function run(code, ...args) {
	const done = await runToEnd(args);
	assert.equal(done.signal ?? done.code, code, `holdfast ${args.join(' ')}\n${done.stdout}${done.stderr}`);
	return done;
}

/** All files below a directory, as name -> bytes in hex. */
function readTree(dir) {
	const names = readdirSync(dir, { recursive: true }).sort().filter((name) => name !== 'lock').map((name) => join(dir, name));
	return names.map((name) => [name, statSync(name).isFile() ? readFileSync(name, 'hex') : null]);
}

function beginningOf(path) {
	const bytes = Buffer.alloc(256);
	const fd = openSync(path);
	readSync(fd, bytes, 0, bytes.length, 0);
	closeSync(fd);
	return bytes;
}

/** A segment of the newest format begins with snapshots of all sessions that are not idle, if there are any. */
function isNewestSegment(bytes) {
	const record = bytes.subarray(48 + 32);
	const isSnapshot = record.readUInt16LE(12) === 6;
	return bytes.toString('latin1', 0, 8) === NEWEST.journal && (!isSnapshot || record[32 + record.readUInt16LE(14)] === NEWEST.snapshot);
}

/** What of the directory is of earlier formats, by a look of the test's own. */
function outdatedIn(dir) {
	const segments = readdirSync(join(dir, 'journal')).map((name) => `journal/${name}`).filter((name) => !isNewestSegment(beginningOf(join(dir, name))));
	const folders = readdirSync(join(dir, 'sessions')).map((name) => `sessions/${name}`).filter((name) => !NEWEST.folder.test(beginningOf(join(dir, name, 'metadata.json')).toString('latin1')));
	return [...segments, ...folders];
}

const linesOf = (dir) => Object.fromEntries(readdirSync(join(dir, 'sessions')).map((id) => [id, readFileSync(join(dir, 'sessions', id, 'events.jsonl'), 'utf8')]));

async function upgradeAndCheck(t, dir, known) {
	const before = readTree(dir);
	const outdated = outdatedIn(dir);
	const lines = linesOf(dir);
	const dry = await run(outdated.length ? 1 : 0, 'upgrade', dir, '--dry-run');
	assert.deepEqual(dry.stdout.split('\n').slice(0, -1).map((line) => line.split(': ')[0]), outdated.length ? outdated : ['everything is in the newest formats']);
	assert.deepEqual(readTree(dir), before, 'nothing was changed');
	const { stdout } = await run(0, 'upgrade', dir);
	const counts = ['journal/', 'sessions/'].map((kind) => outdated.filter((name) => name.startsWith(kind)).length);
	const told = /^(\d+) journal segments? and (\d+) sessions? were in earlier formats; everything is in the newest now\n$/.exec(stdout);
	assert.deepEqual(told ? told.slice(1).map(Number) : stdout, outdated.length ? counts : 'everything is in the newest formats\n');
	assert.deepEqual(outdatedIn(dir), []);
	for (const [id, text] of Object.entries(lines)) {
		assert.ok(linesOf(dir)[id].startsWith(text), `the log of ${id} is as it was, but for what the journal had`);
	}
	await run(0, 'verify', dir);
	await run(0, 'upgrade', dir);
	const server = await Server.start(t, { dataDir: dir, args: DUE });
	assert.doesNotMatch(server.stderr, /error|set aside/i);
	await checkAll(t, server, known);
	await server.stop();
	await run(0, 'verify', dir);
	assert.deepEqual(outdatedIn(dir), []);
}

for (const name of allFixtures) {
	test(`${name}: it is upgraded, checked, and served as the program of its day did`, async (t) => {
		const { dir, known } = take(t, name);
		assert.ok(outdatedIn(dir).length > 0);
		await upgradeAndCheck(t, dir, known);
	});
}

test('a directory that this program has begun to write is upgraded to its end', async (t) => {
	const { dir, known } = take(t, 'data-v1/stopped');
	const server = await Server.start(t, { dataDir: dir });
	await server.stop();
	const outdated = outdatedIn(dir);
	assert.ok(outdated.length > 0, 'sessions that nobody has used');
	assert.ok(outdated.every((name) => name.startsWith('sessions/')), 'the journal is new already');
	await upgradeAndCheck(t, dir, known);
});

test('an upgrade that was cut off between two sessions goes on', async (t) => {
	const { dir, known } = take(t, 'data-v1/killed');
	const done = join(scratchDir(t), 'done');
	cpSync(dir, done, { recursive: true });
	await run(0, 'upgrade', done);
	const half = join(scratchDir(t), 'half');
	cpSync(done, half, { recursive: true });
	for (const id of readdirSync(join(dir, 'sessions')).slice(0, 6)) { // as they were, with what a crash leaves beside them
		const folder = join(half, 'sessions', id);
		if (readFileSync(join(done, 'sessions', id, 'events.jsonl'), 'hex') === readFileSync(join(dir, 'sessions', id, 'events.jsonl'), 'hex')) {
			cpSync(join(dir, 'sessions', id, 'metadata.json'), join(folder, 'metadata.json'));
		}
		writeFileSync(join(folder, 'metadata.json.new'), '{"format":2,"id":');
	}
	assert.ok(outdatedIn(half).length > 0);
	await upgradeAndCheck(t, half, known);
});

test('it does not touch a directory that a server uses, but tells of it', async (t) => {
	const { dir } = take(t, 'data-v1/killed');
	const server = await Server.start(t, { dataDir: dir });
	assert.match((await run(2, 'upgrade', dir)).stderr, /a server is using .*: stop it first/);
	await run(1, 'upgrade', dir, '--dry-run');
	assert.ok(outdatedIn(dir).length > 0);
	await server.stop();
	await run(0, 'upgrade', dir);
	assert.deepEqual(outdatedIn(dir), []);
});

test('what a later program wrote is refused, and left as it is', async (t) => {
	const later = join(scratchDir(t), 'later');
	cpSync(join(fixtures, 'data-later'), later, { recursive: true });
	const before = readTree(later);
	for (const args of [[], ['--dry-run']]) {
		const { stderr, stdout } = await run(2, 'upgrade', later, ...args);
		assert.match(stderr, /journal\/[0-9a-f]{16}\.journal is in a later format: install a newer holdfast/);
		assert.doesNotMatch(stdout, /newest formats/);
		assert.deepEqual(readTree(later), before);
	}
	assert.match((await run(2, 'upgrade', join(later, 'none'))).stderr, /cannot read the data directory/);
});
