// Finding the files of the repository.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../', import.meta.url));

/** Files below the folders with one of the endings; what npm and meson put there is left out. */
export function filesIn(folders, endings) {
	return folders.flatMap((folder) =>
		readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
			const path = join(folder, entry.name);
			if (entry.isDirectory()) {
				return entry.name === 'node_modules' ? [] : filesIn([path], endings);
			}
			return endings.some((ending) => entry.name.endsWith(ending)) ? [path] : [];
		}),
	);
}
