// Who calls whom among the object files of a build, as the linker sees it: calls through tables of functions are not seen.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

import { filesIn, root } from '../style/files.mjs';

/** The folder of the build that is tested. */
function buildOf() {
	return process.env.HOLDFAST_BIN ? dirname(process.env.HOLDFAST_BIN) : join(root, 'build');
}

/** The objects of the files below some folders of src, by the names of these. */
function objectsOf(folders, nameOf) {
	const libraries = readdirSync(buildOf()).filter((name) => /^libholdfast-.*\.a\.p$/.test(name));
	const sources = filesIn(folders.map((folder) => join('src', folder)), ['.c']);
	const found = sources.map((file) => [nameOf(file), libraries.map((name) => join(buildOf(), name, `${file.replaceAll('/', '_')}.o`)).find(existsSync)]);
	const missing = found.filter(([, path]) => !path).map(([file]) => file);
	if (missing.length > 0 || new Set(found.map(([file]) => file)).size < found.length) {
		throw new Error(`${buildOf()} has no object of ${missing.join(', ') || 'a file whose name another has'}: build holdfast first`);
	}
	return new Map(found);
}

/**
 * Reads what each object below some folders of src has and lacks: maps a file to the files that it needs, and these to the symbols.
 * `nameOf` makes the name of a file of its path: 'journal.c' of 'src/core/store/embedded/journal.c'. No two may have the same.
 */
export function readCalls(folders, nameOf = (file) => basename(file)) {
	const objects = objectsOf(folders, nameOf);
	const files = new Map([...objects].map(([file, path]) => [path, file]));
	const text = execFileSync('nm', ['-A', ...objects.values()], { encoding: 'utf8', maxBuffer: 1 << 26 });
	const symbols = [...text.matchAll(/^(.+?):\S*\s+([A-Za-z]) (\S+)$/gm)].map(([, path, kind, name]) => ({ file: files.get(path), kind, name }));
	const owners = new Map(symbols.filter(({ kind }) => 'TDBRVW'.includes(kind)).map(({ name, file }) => [name, file]));
	const calls = new Map([...objects.keys()].map((file) => [file, new Map()]));
	for (const { file, kind, name } of symbols) {
		const owner = owners.get(name);
		if (kind === 'U' && owner && owner !== file) {
			calls.get(file).set(owner, [...(calls.get(file).get(owner) ?? []), name]);
		}
	}
	return calls;
}

/** Groups of files each of which reaches all others of its group by calls, the largest first. */
export function circlesOf(calls) {
	const reach = new Map([...calls.keys()].map((file) => {
		const seen = new Set();
		for (const todo = [file]; todo.length; ) {
			for (const next of calls.get(todo.pop()).keys()) {
				if (!seen.has(next)) {
					seen.add(next);
					todo.push(next);
				}
			}
		}
		return [file, seen];
	}));
	const circles = new Map();
	for (const [file, seen] of reach) {
		const circle = [file, ...seen].filter((other, i, all) => all.indexOf(other) === i && (other === file || reach.get(other).has(file))).sort();
		circles.set(circle.join(' '), circle);
	}
	return [...circles.values()].filter((circle) => circle.length > 1).sort((a, b) => b.length - a.length);
}
