// A wall clock that a test sets under a running server, by libfaketime (Debian: libfaketime). The clocks that nobody sets
// stay the machine's own, unless time is to pass: then they go on with it.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { binary, scratchDir } from './server.mjs';

function findLibrary() {
	for (const dir of readdirSync('/usr/lib').map((name) => join('/usr/lib', name, 'faketime'))) {
		const path = join(dir, 'libfaketimeMT.so.1');
		if (existsSync(path)) {
			return path;
		}
	}
	throw new Error('libfaketime is not installed');
}

/** The libraries of sanitizers in the server: they want to be the first of all. */
export function sanitizers() {
	return execFileSync('ldd', [binary()], { encoding: 'utf8' }).match(/\/\S*lib[a-z]*san\S*\.so\S*/g) ?? [];
}

export class WallClock {
	#path;
	#isWhole;
	shiftMs = 0;

	/** One that is right. `isWhole`: with it go all clocks, as when time passes. */
	constructor(t, { isWhole = false } = {}) {
		this.#isWhole = isWhole;
		this.#path = join(scratchDir(t), 'shift');
		this.set(0);
	}

	/** For a server that goes by it. */
	get env() {
		return {
			LD_PRELOAD: [...sanitizers(), findLibrary()].join(':'),
			FAKETIME_TIMESTAMP_FILE: this.#path,
			FAKETIME_NO_CACHE: '1',
			...(!this.#isWhole && { FAKETIME_DONT_FAKE_MONOTONIC: '1' }),
			NO_FAKE_STAT: '1',
			// A sanitizer that asks for the time while libfaketime reads its file would wait for ever.
			ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=0:halt_on_error=1:allocator_release_to_os_interval_ms=-1',
			TSAN_OPTIONS: [process.env.TSAN_OPTIONS, 'allocator_release_to_os_interval_ms=-1'].filter(Boolean).join(':'),
		};
	}

	/** So much, in ms, ahead of what is right; below 0: behind. */
	set(shiftMs) {
		this.shiftMs = shiftMs;
		const fresh = `${this.#path}.new`;
		writeFileSync(fresh, `${shiftMs < 0 ? '-' : '+'}${Math.abs(shiftMs) / 1000}\n`);
		renameSync(fresh, this.#path);
	}

	now() {
		return Date.now() + this.shiftMs;
	}
}
