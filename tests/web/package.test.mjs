// The library as it would be published: its files, its types, and the example that people see first.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as library from '../../web/client/holdfast-client.js';
import { makeProject } from '../support/package.mjs';

const client = fileURLToPath(new URL('../../web/client/', import.meta.url));
const tests = fileURLToPath(new URL('../', import.meta.url));

test('the package has the library, its types and its words, and nothing of the page', (t) => {
	const { dir, files } = makeProject(t);
	const { exports } = JSON.parse(readFileSync(join(client, 'package.json'), 'utf8'));
	assert.ok(Object.values(exports['.']).every((path) => files.includes(path.slice(2))));
	assert.ok(files.includes('README.md'));
	assert.deepEqual(files.filter((path) => !/^([a-z-]+\.js|(react|ag-ui)\/index\.(js|d\.ts)|(holdfast-client|sessions)\.d\.ts|README\.md|package\.json)$/.test(path)), []);
	const all = readdirSync(client).flatMap((name) => (['react', 'ag-ui'].includes(name) ? readdirSync(join(client, name)).map((file) => `${name}/${file}`) : [name]));
	assert.deepEqual([...files].sort(), all.sort());
	writeFileSync(join(dir, 'use.mjs'), "import * as all from 'holdfast-client';\nconsole.log(Object.keys(all).sort().join());\n");
	const names = execFileSync(process.execPath, [join(dir, 'use.mjs')], { encoding: 'utf8' });
	assert.equal(names.trim(), Object.keys(library).sort().join());
});

test('the page uses the library by its entry alone', () => {
	const page = fileURLToPath(new URL('../../web/page/', import.meta.url));
	const modules = readdirSync(page).filter((name) => name.endsWith('.js'));
	const imported = modules.flatMap((name) => readFileSync(join(page, name), 'utf8').match(/(?<=['"])[^'"]*client\/[^'"]*(?=['"])/g) ?? []);
	assert.deepEqual([...new Set(imported)], ['../client/holdfast-client.js']);
});

const STRICT = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext', '--lib', 'es2023,dom,dom.iterable'];

/** What a strict compiler has to say of these files. */
function compile(dir, ...args) {
	const tsc = join(tests, 'node_modules/typescript/bin/tsc');
	const { stdout, status } = spawnSync(process.execPath, [tsc, ...STRICT, ...args], { encoding: 'utf8', cwd: dir });
	return { status, stdout };
}

test('a strict TypeScript program uses all of it', (t) => {
	const { dir } = makeProject(t);
	writeFileSync(join(dir, 'package.json'), '{"type": "module"}');
	writeFileSync(join(dir, 'sample.ts'), readFileSync(join(tests, 'web/types/sample.ts')));
	assert.deepEqual(compile(dir, 'sample.ts'), { status: 0, stdout: '' });
	writeFileSync(join(dir, 'wrong.ts'), "import { HoldfastClient } from 'holdfast-client';\nnew HoldfastClient({ sessionId: 1 });\n");
	assert.match(compile(dir, 'wrong.ts').stdout, /wrong\.ts\(2,22\).*'number' is not assignable to type 'string'/);
});

test('the types in the comments of the library itself are right', () => {
	const files = [...readdirSync(client).filter((name) => name.endsWith('.js')), 'ag-ui/index.js'];
	assert.ok(files.length > 5);
	assert.deepEqual(compile(client, '--allowJs', '--checkJs', ...files), { status: 0, stdout: '' });
});

/** The public members of a class, also those of an instance. */
function membersOf(object) {
	const own = [...Object.getOwnPropertyNames(object), ...Object.getOwnPropertyNames(Object.getPrototypeOf(object))];
	return own.filter((name) => name !== 'constructor' && name !== 'emit');
}

test('the declarations name what there is, and the sample uses it', () => {
	const declared = ['holdfast-client.d.ts', 'sessions.d.ts'].map((name) => readFileSync(join(client, name), 'utf8')).join('');
	const sample = readFileSync(join(tests, 'web/types/sample.ts'), 'utf8');
	const bodyOf = (name) => new RegExp(`^export (?:class|function) ${name}\\b[^]*?^\\}?(?=\\n|$)`, 'm').exec(declared)?.[0] ?? '';
	const options = { base: 'http://localhost', sessionId: 's', WebSocket: class {} };
	const instances = { HoldfastClient: new library.HoldfastClient(options), HoldfastFeed: new library.HoldfastFeed(options) };
	for (const name of Object.keys(library)) {
		assert.notEqual(bodyOf(name), '', `${name} is declared`);
		assert.match(sample, new RegExp(`\\b${name}\\b`));
	}
	for (const [name, instance] of Object.entries(instances)) {
		const members = bodyOf(name).match(/(?<=^\t(?:readonly )?)\w+(?=[:(<])/gm).filter((member) => !['constructor', 'on', 'once'].includes(member));
		assert.deepEqual(members.sort(), membersOf(instance).sort(), name);
		members.forEach((member) => assert.match(sample, new RegExp(`\\.${member}\\b|\\b${member}\\b.* = client\\.`), `${name}.${member} in the sample`));
	}
	const sources = ['holdfast-client.js', 'history.js'].map((name) => readFileSync(join(client, name), 'utf8')).join('');
	const emitted = sources.matchAll(/\bemit\('(\w+)'/g);
	const events = /interface ClientEvents \{([^]*?)^\}/m.exec(declared)[1].match(/(?<=^\t)\w+(?=:)/gm);
	assert.deepEqual([...new Set([...emitted].map(([, name]) => name))].sort(), events.sort());
});
