// Where the programs under test are.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The directory with the binaries: that of HOLDFAST_BIN, else build-test/, else build/. */
export function binary(name = 'holdfast') {
	const given = process.env.HOLDFAST_BIN;
	if (given) {
		return name === 'holdfast' ? given : join(given, '..', name);
	}
	const found = ['build-test', 'build'].map((dir) => join(root, dir, name)).find(existsSync);
	if (!found) {
		throw new Error(`${name} is not built: run scripts/test, or set HOLDFAST_BIN`);
	}
	return found;
}
