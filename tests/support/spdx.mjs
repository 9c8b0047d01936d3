// Lists of what a program is linked with (scripts/sbom): they are valid SPDX, as the tools of SPDX say, and name each library.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { repository } from './debian.mjs';
import { scratchDir } from './server.mjs';

/** Runs a program that has to end with 0; gives what it says. */
function must(program, ...args) {
	const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
	assert.equal(status, 0, `${program} ${args.join(' ')}: ${stdout}${stderr}`);
	return stdout;
}

/** The validator, which pip installs once into build-package/. */
function validator() {
	const env = join(repository, 'build-package/spdx');
	const program = join(env, 'bin/pyspdxtools');
	if (!existsSync(program)) {
		must('/usr/bin/python3', '-m', 'venv', '--clear', env);
		must(join(env, 'bin/pip'), 'install', '--quiet', '--disable-pip-version-check', '--require-hashes', '--only-binary', ':all:',
			'-r', join(repository, 'tests/package/requirements.txt'));
	}
	return program;
}

/** Asserts that a text is a valid list that names these libraries (paths or file names); gives its packages: Map of name to {version, libraries}. */
export function assertLists(t, text, libraries) {
	const file = join(scratchDir(t), 'holdfast.spdx.json');
	writeFileSync(file, text);
	must(validator(), '--infile', file);
	const list = JSON.parse(text);
	assert.equal(list.spdxVersion, 'SPDX-2.3');
	const packages = new Map(list.packages.map(({ name, versionInfo, comment }) => [name, { version: versionInfo, libraries: comment?.replace('libraries: ', '').split(' ') ?? [] }]));
	const linked = list.relationships.filter(({ relationshipType }) => relationshipType === 'DYNAMIC_LINK').map(({ relatedSpdxElement }) => relatedSpdxElement);
	assert.equal(linked.length, packages.size - 1, 'holdfast is linked with all of them');
	const named = new Set([...packages.values()].flatMap((entry) => entry.libraries));
	assert.ok(libraries.length > 20, 'the libraries were found');
	assert.deepEqual(libraries.map((path) => basename(path)).filter((name) => !named.has(name)), []);
	return packages;
}

/** The paths in what `ldd` says; all libraries are found. */
export function librariesIn(said) {
	assert.doesNotMatch(said, /not found/);
	return [...said.matchAll(/^\s(?:\S+ => )?(\/\S+) \(0x/gm)].map(([, path]) => path);
}
