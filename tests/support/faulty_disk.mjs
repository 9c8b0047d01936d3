// A disk under the real server whose syncs fail or hang when a test says so (see sync_fault.c).

import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { binary } from './server.mjs';
import { eventually } from './wait.mjs';

const library = () => join(dirname(binary()), 'tests/support/libholdfast-sync-fault.so');

/** Whether the library is built, as it is beside the tests in C. */
export function hasFaultyDisk() {
	return existsSync(library());
}

export class FaultyDisk {
	#control;

	/** @param {string} dir a directory for its files, which is not the server's */
	constructor(dir) {
		this.#control = join(dir, 'sync-fault');
	}

	/** For the server's environment. */
	get env() {
		return {
			LD_PRELOAD: library(),
			HOLDFAST_SYNC_FAULT: this.#control,
			ASAN_OPTIONS: 'detect_leaks=1:abort_on_error=0:halt_on_error=1:verify_asan_link_order=0',
		};
	}

	/** How many syncs of the journal have gone through since the process began, and whether one is held. */
	get seen() {
		const path = `${this.#control}.seen`;
		const [passed, held] = (existsSync(path) ? readFileSync(path, 'utf8') : '0').split(' ');
		return { passed: Number(passed), held: held !== undefined };
	}

	pass() {
		this.#say('pass');
	}

	fail() {
		this.#say('fail');
	}

	/** They fail, and what was written cannot be taken back. */
	stick() {
		this.#say('stuck');
	}

	/** Files with this in their paths cannot be opened; '' ends that. */
	hide(text) {
		writeFileSync(`${this.#control}.unreadable`, text);
	}

	/** Syncs of files with this in their paths, which are not the journal's, wait; '' ends that. */
	slow(text) {
		writeFileSync(`${this.#control}.slow`, text);
	}

	/** What opens files with this in their paths waits; '' ends that. */
	slowOpen(text) {
		writeFileSync(`${this.#control}.slow_open`, text);
	}

	/** Until one waits. */
	async isSlow() {
		await eventually(() => existsSync(`${this.#control}.slow.held`), 'a call to wait');
	}

	/** Every call about a file below this directory takes 200 ms, and is noted; '' ends that. */
	slowDown(dir) {
		writeFileSync(`${this.#control}.all_slow`, dir);
	}

	/** What was noted: {thread, call, path} of each. */
	get calls() {
		const path = `${this.#control}.calls`;
		const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
		return lines.map((line) => {
			const [thread, call, ...rest] = line.split(' ');
			return { thread: Number(thread), call, path: rest.join(' ') };
		});
	}

	/** So many more go through, and then they fail. */
	failAfter(count) {
		this.#say(String(this.seen.passed + count));
	}

	/** The same, counted from the start of a process that has not begun. */
	failFrom(count) {
		this.#say(String(count));
	}

	/** The next sync waits. What it is of, and what comes behind it, is on no disk until then. */
	hold() {
		this.#say('hold');
	}

	/** Until one waits. */
	async isHolding() {
		await eventually(() => this.seen.held, 'a sync to be held');
	}

	#say(word) {
		writeFileSync(`${this.#control}.word`, word);
		renameSync(`${this.#control}.word`, this.#control);
	}
}
