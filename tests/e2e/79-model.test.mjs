// The short form of tests/model: some stories, always the same ones, held against the model of the log. `scripts/test model` tells new
// ones, for as long as one likes.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { binary } from '../support/server.mjs';

const RUN = fileURLToPath(new URL('../model/run.mjs', import.meta.url));

test('twenty seconds of stories, and no promise is broken', async () => {
	const child = spawn(process.execPath, [RUN, '--binary', binary(), '--seed', '7000', '--seconds', '20'], { stdio: ['ignore', 'pipe', 'pipe'] });
	let output = '';
	child.stdout.on('data', (d) => (output += d));
	child.stderr.on('data', (d) => (output += d));
	const [code] = await once(child, 'close');
	assert.equal(code, 0, output);
});
