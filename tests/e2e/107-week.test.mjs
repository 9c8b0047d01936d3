// A few days of the week that `scripts/test week` lives with a server.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { canMount } from '../support/server.mjs';
import { defer } from '../support/wait.mjs';

test('days pass: data of an earlier format is upgraded, pruned, backed up and restored, a disk is full and not, and nothing is lost or grows', async (t) => {
	const child = spawn(process.execPath, [fileURLToPath(new URL('../week/run.mjs', import.meta.url)), '--days', '3', '--steps', '6'], { stdio: ['ignore', 'pipe', 'pipe'] });
	defer(t, () => child.kill('SIGKILL'));
	let out = '';
	child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
	child.stderr.setEncoding('utf8').on('data', (text) => (out += text));
	const [code] = await once(child, 'close');
	assert.equal(code, 0, out);
	assert.match(out, canMount() ? /^ok: 3 days, \d+ events, 3 backups, 1 kill, 1 times a full disk; verify: .*: clean$/m : /^ok: 3 days, \d+ events, 3 backups, 1 kill, 0 times/m);
});
