// A program without the parts that a build can leave out: it is built, it has no library and no object of theirs, and it says what it lacks.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { root } from './files.mjs';

const dir = join(root, 'build-without');
/** {build option: what it leaves out, the folders of src/ that are then in no archive, the libraries that are not linked}. */
const OPTIONS = {
	'-Dpostgres=false': { parts: ['postgres'], wings: ['engines', 'nodes'], libraries: ['libpq'] },
	'-Dagents=false': { parts: ['agents'], wings: ['agents'], libraries: [] },
	'-Ddoors=': { parts: ['acp', 'ai', 'durable_streams'], wings: ['doors'], libraries: [] },
	'-Dnotify=false': { parts: ['notify'], wings: ['notify'], libraries: [] },
};

function run(command, args, env = {}) {
	const done = spawnSync(command, args, { cwd: root, encoding: 'utf8', env: { ...process.env, ...env }, maxBuffer: 1 << 26 });
	assert.equal(done.error, undefined, `${command} cannot be run: ${done.error}`);
	assert.equal(done.status, 0, `${command} ${args.join(' ')}\n${done.stdout.slice(-4000)}${done.stderr.slice(-4000)}`);
	return done.stdout;
}

const program = join(dir, 'holdfast');
const all = Object.values(OPTIONS);

test('each option of the build that leaves a part out is tried here', () => {
	const options = [...readFileSync(join(root, 'meson_options.txt'), 'utf8').matchAll(/^option\('(\w+)'/gm)].map(([, name]) => name);
	const tried = Object.keys(OPTIONS).map((option) => /^-D(\w+)=/.exec(option)[1]);
	assert.deepEqual(options.filter((name) => !['tests', 'fuzz'].includes(name)), tried);
	const script = readFileSync(join(root, 'scripts/without'), 'utf8').split(/\s+/);
	assert.deepEqual(Object.keys(OPTIONS).filter((option) => !script.includes(option)), []);
});

test('a program without them is built, and has nothing of theirs', () => {
	run(join(root, 'scripts/without'), []);
	const told = /^without: (.*)$/m.exec(run(program, ['--version']))?.[1] ?? '';
	assert.deepEqual([...told.matchAll(/(\w+) \(/g)].map(([, name]) => name).sort(), all.flatMap(({ parts }) => parts).sort());
	const needed = run('readelf', ['-d', program]);
	assert.match(needed, /NEEDED.*libwebsockets/);
	assert.deepEqual(all.flatMap(({ libraries }) => libraries).filter((name) => needed.includes(`[${name}.`)), []);
	const commands = run('ninja', ['-C', dir, '-t', 'commands', 'holdfast']);
	assert.match(commands, /\/src\/core\//);
	assert.deepEqual(all.flatMap(({ wings }) => wings).filter((wing) => commands.includes(`/src/${wing}/`)), []);
});

test('it refuses by name what it lacks, and serves all the same', () => {
	const told = run(process.execPath, ['--test', '--test-reporter=tap', join(root, 'tests/e2e/240-parts.test.mjs')], { HOLDFAST_BIN: program, NODE_TEST_CONTEXT: undefined });
	assert.match(told, /^# pass 3$/m);
});
