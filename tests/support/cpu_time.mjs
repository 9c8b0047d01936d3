// Loaded into a test file by `run.mjs --times`: writes the processor time (seconds) that it, and the children that it waited for, used.

import { readFileSync, writeFileSync } from 'node:fs';

const TICKS_A_SECOND = 100; // USER_HZ of Linux

process.on('exit', () => {
	// After the name in brackets: utime, stime, cutime and cstime are the fields 14 to 17 (proc(5)).
	const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1).split(' ');
	const ticks = fields.slice(11, 15).map(Number).reduce((a, b) => a + b);
	writeFileSync(process.env.HOLDFAST_TEST_CPU_TIME, String(ticks / TICKS_A_SECOND));
});
