// Six of the restarts that `scripts/test nodes --rolling 200` does to three nodes, under producers, agents and readers of every door.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { defer } from '../support/wait.mjs';

test('nodes are restarted one after the other: nobody who reads hears that a living session is deleted or not found, and nothing is lost', async (t) => {
	const words = ['--rolling', '6', '--sessions', '6', '--seed', '12', '--pace', '200'];
	const child = spawn(process.execPath, [fileURLToPath(new URL('../nodes/run.mjs', import.meta.url)), ...words], { stdio: ['pipe', 'pipe', 'pipe'] });
	defer(t, () => child.stdin.end()); // it ends with us, and what it has started with it
	let out = '';
	child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
	child.stderr.setEncoding('utf8').on('data', (text) => (out += text));
	const [code] = await once(child, 'close');
	assert.equal(code, 0, out);
	const read = /^read: (.*)$/m.exec(out)[1];
	for (const door of ['REST', 'server-sent events', 'Durable Streams', 'AI SDK', '/acp', 'the feed', 'prompts']) {
		assert.match(read, new RegExp(`(^|, )${door} [1-9]`), 'each door has been read at');
	}
	assert.match(out, /\n12 passed, 0 failed\n$/);
});
