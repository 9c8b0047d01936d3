// The client library as npm packs it, in a project of somebody else.

import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { scratchDir } from './server.mjs';

const client = fileURLToPath(new URL('../../web/client/', import.meta.url));
const tests = fileURLToPath(new URL('../', import.meta.url));

/**
 * A project that has the packed library among its modules, and nothing else of this checkout but `ws`; gives
 * {dir, files}, the files being those of the package.
 */
export function makeProject(t) {
	const dir = scratchDir(t);
	const [{ filename, files }] = JSON.parse(
		execFileSync('npm', ['pack', '--json', '--offline', '--pack-destination', dir, client], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
	);
	const modules = join(dir, 'node_modules');
	mkdirSync(join(modules, 'holdfast-client'), { recursive: true });
	execFileSync('tar', ['-xzf', join(dir, filename), '--strip-components=1', '-C', join(modules, 'holdfast-client')]);
	symlinkSync(join(tests, 'node_modules/ws'), join(modules, 'ws'));
	return { dir, files: files.map(({ path }) => path) };
}
