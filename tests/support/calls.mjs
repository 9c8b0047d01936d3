// Who calls whom among the object files of a build, as the linker sees it: calls through tables of functions are not seen.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

import { filesIn, root } from '../style/files.mjs';

/** The folder of the build that is tested. */
function buildOf() {
	return process.env.HOLDFAST_BIN ? dirname(process.env.HOLDFAST_BIN) : join(root, 'build');
}

/** The objects of the files below some folders of src, by the names of these: 'journal.c'. No two files are called the same there. */
function objectsOf(folders) {
	const libraries = readdirSync(buildOf()).filter((name) => /^libholdfast-.*\.a\.p$/.test(name));
	const sources = filesIn(folders.map((folder) => join('src', folder)), ['.c']);
	const found = sources.map((file) => [basename(file), libraries.map((name) => join(buildOf(), name, `${file.replaceAll('/', '_')}.o`)).find(existsSync)]);
	return new Map(found.filter(([, path]) => path));
}

/** Reads what each object has and lacks: `lacks` maps a file to the files that it needs, and these to the symbols. */
export function readCalls(...folders) {
	const objects = objectsOf(folders);
	if (!objects.size) {
		throw new Error(`${buildOf()} has no objects of ${folders.join(', ')}: build holdfast first`);
	}
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
