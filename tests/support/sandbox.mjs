// Whether this kernel can confine agents (--sandbox).

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { runToEnd, scratchDir } from './server.mjs';

/** The version of the kernel's Landlock, as the server says; 0: it has none, and is asserted to say so. */
export async function landlock(t) {
	const dir = scratchDir(t);
	mkdirSync(join(dir, 'cwd'));
	const { code, stderr } = await runToEnd(['serve', '--listen', '256.0.0.1:0', '--data', join(dir, 'data'), '--cwd', join(dir, 'cwd'), '--sandbox']);
	assert.notEqual(code, 0);
	const version = /agents are in a sandbox \(Landlock (\d+)\)/.exec(stderr)?.[1];
	if (!version) {
		assert.match(stderr, /--sandbox needs Landlock, which this kernel does not have/);
		t.diagnostic('this kernel has no Landlock: only the refusal was tested');
	}
	return Number(version ?? 0);
}
