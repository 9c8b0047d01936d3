// What is promised to clients holds over TLS as it does without: other files of this folder, run once more against servers that
// speak TLS (HOLDFAST_TEST_TLS).

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { partOf } from '../support/part.mjs';
import { makeCert } from '../support/tls.mjs';
import { defer, within } from '../support/wait.mjs';

const FILES = ['20-contract', '21-cut-points', '70-ws-handshake', '71-ws-conformance', '72-http-conformance', '73-http-files', '74-slow-clients'];
const HERE = fileURLToPath(new URL('.', import.meta.url));

for (const name of partOf(FILES)) {
	test(`${name}, over TLS`, async (t) => {
		const dir = join(makeCert(t).cert, '..');
		const { NODE_TEST_CONTEXT, ...env } = process.env; // else node thinks that it was started by this test
		const child = spawn(process.execPath, ['--test', '--test-reporter=tap', join(HERE, `${name}.test.mjs`)], { env: { ...env, HOLDFAST_TEST_TLS: dir }, stdio: ['ignore', 'pipe', 'pipe'] });
		defer(t, () => child.kill('SIGKILL'));
		let out = '';
		child.stdout.on('data', (d) => (out += d));
		child.stderr.on('data', (d) => (out += d));
		const [code] = await within(once(child, 'close'), 900_000, () => `${name} to end\n${out.slice(-4000)}`);
		const [, passed] = /^# pass (\d+)$/m.exec(out) ?? [];
		assert.equal(code, 0, out.split('\n').filter((line) => /^\s*not ok|error:/.test(line)).slice(0, 40).join('\n') || out.slice(-4000));
		assert.ok(Number(passed) > 0, out.slice(-4000));
	});
}
