// The formats on disk, from one program to the next: data directories that programs of earlier formats left are opened and
// served as they were, and what a later program wrote is refused by name and left as it is.

import assert from 'node:assert/strict';
import { cpSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DUE, allFixtures, checkKeys, checkNames, checkSession, fixtures, take } from '../support/fixtures.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

assert.ok(allFixtures.length > 3);
for (const name of allFixtures) {
	test(`${name}: what an earlier program left is served as that program served it`, async (t) => {
		const { dir, known } = take(t, name);
		const verified = await runToEnd(['verify', dir]);
		assert.equal(verified.code, 0, verified.stdout + verified.stderr);
		const server = await Server.start(t, { dataDir: dir, args: DUE });
		assert.doesNotMatch(server.stderr, /error|set aside/i);
		for (const when of ['at once', 'after a restart']) {
			for (const [id, was] of Object.entries(known.sessions)) {
				await checkSession(t, server, id, was, when);
			}
			for (const id of known.gone) {
				assert.equal((await server.request('GET', `/api/sessions/${id}`)).status, 404);
			}
			await checkKeys(server, known.keys);
			if (when === 'at once') {
				await server.stop();
				await server.restart();
			}
		}
		await checkNames(t, server);
		await server.stop();
		const clean = await runToEnd(['verify', dir]);
		assert.equal(clean.code, 0, clean.stdout + clean.stderr);
	});
}

/** All files below a directory, as name -> bytes in hex. */
function readTree(dir) {
	const names = readdirSync(dir, { recursive: true }).sort().map((name) => join(dir, name));
	return names.map((name) => [name, statSync(name).isFile() ? readFileSync(name, 'hex') : null]);
}

test('what a later program left is refused by name, and left as it is', async (t) => {
	const dir = join(scratchDir(t), 'data');
	cpSync(join(fixtures, 'data-later'), dir, { recursive: true });
	const before = readTree(dir);
	for (const args of [['serve', '--listen', '127.0.0.1:0', '--data', dir], ['new-epoch', dir]]) {
		const { code, stderr } = await runToEnd(args);
		assert.notEqual(code, 0);
		assert.match(stderr, /journal\/[0-9a-f]{16}\.journal cannot be read: its snapshot of session \w+ has version 255/);
		assert.match(stderr, /this program \(holdfast [0-9.]+\) reads .*: install a newer holdfast/);
		assert.deepEqual(readTree(dir), before);
	}
	const { code, stdout } = await runToEnd(['verify', dir]);
	assert.equal(code, 1);
	assert.match(stdout, /^journal\/[0-9a-f]{16}\.journal: byte \d+: its snapshot of session \w+ has version 255.* install a newer holdfast$/m);
});
