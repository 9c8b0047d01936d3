// Other test files, run once more with another environment.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NODE_FLAGS } from './node_flags.mjs';
import { defer, within } from './wait.mjs';

const E2E = fileURLToPath(new URL('../e2e/', import.meta.url));

/** Runs an e2e file in a process of its own; fails with what failed there. */
export async function rerun(t, name, more) {
	const { NODE_TEST_CONTEXT, ...env } = process.env; // else node thinks that it was started by this test
	const child = spawn(process.execPath, [...NODE_FLAGS, '--test-reporter=tap', join(E2E, `${name}.test.mjs`)], { env: { ...env, ...more }, stdio: ['ignore', 'pipe', 'pipe'] });
	defer(t, () => child.kill('SIGKILL'));
	process.once('SIGTERM', () => { // the runner's time limit
		console.error(`${name} said so far:\n${out.slice(-4000)}`);
		child.kill('SIGKILL');
		process.exit(1);
	});
	let out = '';
	child.stdout.on('data', (d) => (out += d));
	child.stderr.on('data', (d) => (out += d));
	const [code] = await within(once(child, 'close'), process.env.HOLDFAST_PART === '1/1' ? 3_600_000 : 900_000, () => `${name} to end\n${out.slice(-4000)}`);
	const [, passed] = /^# pass (\d+)$/m.exec(out) ?? [];
	assert.equal(code, 0, out.split('\n').filter((line) => /^\s*not ok|error:/.test(line)).slice(0, 40).join('\n') || out.slice(-4000));
	assert.ok(Number(passed) > 0, out.slice(-4000));
}
