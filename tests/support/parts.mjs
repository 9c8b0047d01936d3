// Which parts the program under test was built without.

import { spawnSync } from 'node:child_process';
import { binary } from './server.mjs';

/** Of --version, whose second line is there only if a part is left out. */
const [, told = ''] = /^without: (.*)$/m.exec(spawnSync(binary(), ['--version'], { encoding: 'utf8' }).stdout) ?? [];

/** {name: build option} of the parts that are left out. */
export const leftOut = Object.fromEntries([...told.matchAll(/(\w+) \(([^)]+)\)/g)].map(([, name, option]) => [name, option]));

/** Options of a test that cannot run without these parts. */
export function needs(...names) {
	const lacking = names.filter((name) => name in leftOut);
	return { skip: lacking.length > 0 && `this program was built without ${lacking.join(', ')}` };
}
