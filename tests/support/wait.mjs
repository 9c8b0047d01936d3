// Waiting for something that must happen, with a limit that says what did not; and undoing what a test did.

import { cpus, loadavg } from 'node:os';

const undoing = new WeakMap();

/* With so many processes for each processor things take twice as long as usual. A run of the suite makes up to six. */
const BUSY = 6;

/** How many times as long things take on this machine, as busy as it is now: in halves, so that what it is multiplied with stays whole. */
export function slowness() {
	return Math.max(1, Math.ceil(4 * loadavg()[0] / cpus().length / BUSY) / 2);
}

/* How many times as long is waited. HOLDFAST_TEST_PATIENCE says it where it is known better, such as for servers under valgrind. */
export const patience = Number(process.env.HOLDFAST_TEST_PATIENCE ?? slowness());

/**
 * Calls `undo` when the test `t` is over, the last one first (t.after() goes the other way, and would take
 * the data directory from under a server that still runs). All are called; the first error fails the test.
 */
export function defer(t, undo) {
	let stack = undoing.get(t);
	if (!stack) {
		stack = [];
		undoing.set(t, stack);
		t.after(() => unwind(stack));
	}
	stack.push(undo);
}

async function unwind(stack) {
	const errors = [];
	while (stack.length > 0) {
		try {
			await stack.pop()();
		} catch (error) {
			errors.push(error);
		}
	}
	if (errors.length > 0) {
		throw errors[0];
	}
}

/**
 * `promise`, or after `ms` an error that says what was waited for.
 * @template T @param {Promise<T>} promise @param {number} ms @param {() => string} what
 * @returns {Promise<T>}
 */
export async function within(promise, ms, what) {
	let timer;
	const late = new Promise((_, reject) => {
		timer = setTimeout(() => reject(new Error(`waited ${ms * patience} ms for ${what()}`)), ms * patience);
	});
	try {
		return await Promise.race([promise, late]);
	} finally {
		clearTimeout(timer);
	}
}

/** Asks again and again until the answer is yes, which it gives: for what nobody tells of, such as what is on a disk. */
export async function eventually(isSo, what = String(isSo), ms = 20_000) {
	const end = Date.now() + ms * patience;
	let answer;
	while (!(answer = await isSo())) {
		if (Date.now() > end) {
			throw new Error(`not within ${ms * patience} ms: ${typeof what === 'function' ? what() : what}`);
		}
		await new Promise((done) => setTimeout(done, 20));
	}
	return answer;
}

/** Wakes whoever waits for a condition each time that something has changed. */
export class Waiters {
	#waiting = new Set();

	/** Settles with the first truthy answer of `probe`, asked now and after every wake(). */
	until(probe, ms, what) {
		let entry;
		const promise = new Promise((resolve, reject) => {
			entry = () => {
				try {
					const found = probe();
					if (found) {
						this.#waiting.delete(entry);
						resolve(found);
					}
				} catch (error) {
					this.#waiting.delete(entry);
					reject(error);
				}
			};
			this.#waiting.add(entry);
			entry();
		});
		return within(promise, ms, what).finally(() => this.#waiting.delete(entry));
	}

	wake() {
		for (const entry of [...this.#waiting]) {
			entry();
		}
	}
}
