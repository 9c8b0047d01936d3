// Six of the faults that `scripts/test nodes` does to three nodes and their database.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { defer, patience } from '../support/wait.mjs';

test('a node is killed, paused and stopped, the primary dies, lines are cut: what was acknowledged or shown is there once, at every node', async (t) => {
	const words = ['--faults', '6', '--each', '--sessions', '6', '--seed', '11', '--lease', String(2500 * patience), '--pace', '100'];
	const child = spawn(process.execPath, [fileURLToPath(new URL('../nodes/run.mjs', import.meta.url)), ...words], { stdio: ['pipe', 'pipe', 'pipe'] });
	defer(t, () => child.stdin.end()); // it ends with us, and what it has started with it
	let out = '';
	child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
	child.stderr.setEncoding('utf8').on('data', (text) => (out += text));
	const [code] = await once(child, 'close');
	assert.equal(code, 0, out);
	for (const what of [/node \d killed/, /node \d stood still/, /node \d stopped/, /primary killed, standby promoted/, /line into node \d cut/, /line from node \d to the database cut/]) {
		assert.match(out, what);
	}
	assert.match(out, /^at the end: \d+ events acknowledged/m);
	assert.match(out, /\n12 passed, 0 failed\n$/);
});
