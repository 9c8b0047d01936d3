// Descriptors that a server closes twice (close_watch.c). With HOLDFAST_TEST_CLOSES each server of a test is watched.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const isOn = () => Boolean(process.env.HOLDFAST_TEST_CLOSES);

/** The environment of a server of this binary whose second closes are noted in a file, or just `env`. */
export function watchCloses(env, binary, path) {
	if (!isOn()) {
		return env;
	}
	const library = join(dirname(binary), 'tests/support/libholdfast-close-watch.so');
	assert.ok(existsSync(library), `${library} is not built; without it, nothing is watched`);
	return {
		...env,
		HOLDFAST_CLOSE_WATCH: path,
		LD_PRELOAD: [env.LD_PRELOAD, library].filter(Boolean).join(':'),
		ASAN_OPTIONS: [env.ASAN_OPTIONS, 'verify_asan_link_order=0'].filter(Boolean).join(':'),
	};
}

/** A line for each number that our programs closed and that was not open: the program, the number, who called. Agents are others' programs. */
export function secondCloses(path) {
	return isOn() && existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter((line) => /^holdfast\S* /.test(line)) : [];
}
