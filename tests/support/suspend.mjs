// A server that is stopped (SIGSTOP; a machine that sleeps, a virtual one that is paused) for longer than its limits.

import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually, patience } from './wait.mjs';

/** Every limit of time (ms). */
export const SHORT = 3000 * patience;
/** How long a server is stopped (ms). */
export const STOP = 3 * SHORT;

/** Options that make these limits short. */
export const limits = (names) => ['--limit', names.map((name) => `${name}=${SHORT}`).join(',')];

/** Stops a process for so long, and what `meanwhile` sends arrives in that time. */
export async function suspend(pid, meanwhile = () => {}, ms = STOP) {
	process.kill(pid, 'SIGSTOP');
	await eventually(() => spawnSync('ps', ['-o', 'state=', '-p', String(pid)], { encoding: 'utf8' }).stdout.startsWith('T'), 'it to stop');
	await meanwhile();
	await sleep(ms);
	process.kill(pid, 'SIGCONT');
}
