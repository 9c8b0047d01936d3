// Which parts the program under test was built without.

import { spawnSync } from 'node:child_process';
import { binary } from './binary.mjs';

/** What the program says; '' if there is none yet. */
function said(...args) {
	try {
		return spawnSync(binary(), args, { encoding: 'utf8' }).stdout ?? '';
	} catch {
		return '';
	}
}

/** Of --version, whose second line is there only if a part is left out. */
const [, told = ''] = /^without: (.*)$/m.exec(said('--version')) ?? [];

/** {name: build option} of the parts that are left out. */
export const leftOut = Object.fromEntries([...told.matchAll(/(\w+) \(([^)]+)\)/g)].map(([, name, option]) => [name, option]));

const isWhole = Object.keys(leftOut).length === 0;
const options = isWhole ? '' : said('serve', '--help');

/** The runner knows this sentence: such a test has not failed. */
const WITHOUT = 'this program was built without';

/** Options of a test that cannot run without these parts. */
export function needs(...names) {
	const lacking = names.filter((name) => name in leftOut);
	return { skip: lacking.length > 0 && `${WITHOUT} ${lacking.join(', ')}` };
}

/** The option that gives agents their directory, for a server that a test starts by itself. */
export const inDirectory = (dir) => ('agents' in leftOut ? [] : ['--cwd', dir]);

/** Ends a test as skipped if the program lacks an option that is among these arguments of serve. */
export function skipWithout(t, args) {
	const lacking = isWhole ? [] : args.map((arg) => /^--[a-z-]+/.exec(arg)?.[0]).filter((flag) => flag && !new RegExp(`^  ${flag}( |$)`, 'm').test(options));
	if (lacking.length > 0) {
		t.skip(`${WITHOUT} ${lacking.join(', ')}`);
		throw new Error(`${WITHOUT} ${lacking.join(', ')}`);
	}
}
