// What a machine can see of the style: the second compiler, the formatter, leftovers.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { filesIn, root } from './files.mjs';

/** Whoever compiles with a cache has the second compiler use it, too. */
const CACHE = process.env.CC?.startsWith('ccache ');

function run(command, args, env = {}) {
	const done = spawnSync(command, args, { cwd: root, encoding: 'utf8', env: { ...process.env, ...env }, maxBuffer: 1 << 26 });
	assert.equal(done.error, undefined, `${command} cannot be run: ${done.error}`);
	return done;
}

test('clang-format has nothing to change', () => {
	const files = filesIn(['include', 'src', 'tests', 'bench'], ['.c', '.h']);
	assert.ok(files.length > 100, 'the C files were found');
	const { status, stderr } = run('clang-format', ['--dry-run', '--Werror', ...files]);
	const where = [...new Set(stderr.match(/^\S+?:\d+/gm))].slice(0, 10);
	assert.equal(status, 0, `run clang-format -i on these: ${where.join(', ')}`);
});

test('clang builds everything without a warning', () => {
	const dir = join(root, 'build-clang');
	const setup = run('meson', ['setup', dir, ...(readdirSync(root).includes('build-clang') ? ['--reconfigure'] : []), '-Dwerror=true', '-Dtests=true', '-Doptimization=0', '-Ddebug=false'], { CC: CACHE ? 'ccache clang' : 'clang' });
	assert.equal(setup.status, 0, setup.stdout + setup.stderr);
	const build = run('ninja', ['-C', dir]);
	assert.equal(build.status, 0, build.stdout.slice(-4000));
});

test('each number of a test file is used once', () => {
	for (const suite of ['e2e', 'browser', 'style']) {
		const numbers = readdirSync(join(root, 'tests', suite)).filter((name) => name.endsWith('.test.mjs')).map((name) => /^(\d\d\d?)-/.exec(name)?.[1] ?? name);
		assert.deepEqual(numbers.filter((n, i) => numbers.indexOf(n) < i || n.length > 3), [], suite);
	}
});

/** What came to Node after version 18, which Debian 12 has: functions, and names that modules export. */
const NEWER = [/\.(toSorted|toReversed|toSpliced|isWellFormed|toWellFormed|getSetCookie)\(/, /\b(Array\.fromAsync|Promise\.(withResolvers|try)|(Object|Map)\.groupBy|AbortSignal\.any|process\.loadEnvFile)\b/,
	/import\.meta\.(dirname|filename)\b/, /^import .*\b(crc32|zstd\w*|getCallSites?|styleText|stripTypeScriptTypes|glob|globSync|matchesGlob|parseEnv)\b.* from 'node:/m];

test('what runs in Node runs in that of Debian 12', () => {
	const files = filesIn(['tests/e2e', 'tests/style', 'tests/support', 'tests/nodes', 'bench', 'scripts', 'examples', 'clients', 'web/client'], ['.js', '.mjs']);
	assert.ok(files.length > 200, 'they were found');
	const newer = files.filter((file) => !file.endsWith('10-style.test.mjs')).flatMap((file) => {
		const text = readFileSync(join(root, file), 'utf8');
		return NEWER.filter((one) => one.test(text)).map((one) => `${file}: ${one}`);
	});
	assert.deepEqual(newer, []);
});

test('nothing is left over in the code', () => {
	const files = filesIn(['include', 'src', 'web', 'tests', 'bench', 'scripts'], ['.c', '.h', '.js', '.mjs', '.css', '.html', '.sh', 'run', 'test', 'fuzz']);
	const left = files.filter((file) => !file.startsWith(join('tests', 'style')) && /\b(TODO|FIXME|XXX|HACK)\b/.test(readFileSync(join(root, file), 'utf8')));
	assert.deepEqual(left, []);
});

test('text of others reaches stdout and stderr through diag() and diag_print() alone', () => {
	// Help and tables of our own; pages and transcripts, made safe by terminal_text_add() and sheet_text(); protocols and recordings for programs; processes that have no log.
	const others = ['main.c', 'core/base/diag.c', 'core/base/diag_clean.c', 'core/base/options.c', 'core/base/limits.c', 'server/relay/relay_qr.c', 'cli/view_terminal.c', 'cli/export.c', 'cli/progress.c',
		'cli/acp_record.c', 'admin/verify.c', 'agents/process/agent_guard.c', 'agents/process/spawner_process.c'].map((file) => join('src', file));
	assert.deepEqual(others.filter((file) => !existsSync(join(root, file))), []);
	const writes = /\b(?:v?printf|diag_print_(?:text|bytes)|puts|fputs|perror|v?dprintf)\([^;]*;|\b(?:vf|f)(?:printf|write)\((?=[^;]*std(?:out|err))[^;]*;/g;
	const shows = (call) => !/^(?:printf|diag_print_text)/.test(call) || /%[^%\w]*[\d*]*s/.test(call);
	const found = filesIn(['src'], ['.c']).filter((file) => !others.includes(file))
		.flatMap((file) => (readFileSync(join(root, file), 'utf8').match(writes) ?? []).filter(shows).map((call) => `${file}: ${call}`));
	assert.deepEqual(found, []);
});

test('nobody reads a frame that the server has made, and observers know no encoder by its name', () => {
	const sources = filesIn(['include', 'src'], ['.c', '.h']).map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }));
	const reads = sources.filter(({ text }) => /\bjson_\w+\(\s*frame_text\(/.test(text));
	assert.deepEqual(reads.map(({ file }) => file), []);
	const named = sources.filter(({ file, text }) => file.startsWith('src/core/observer/') && /\w_encoder\b|#include "(?:[a-z_]+\/)*(sse|ds|mirror|ai_turn|editor_view)\.h/.test(text));
	assert.deepEqual(named.map(({ file }) => file), []);
});

test('each file has fewer than 600 lines', () => {
	const files = [...filesIn(['include', 'src', 'bench'], ['.c', '.h']), ...filesIn(['tests'], ['.c', '.h', '.mjs']), ...filesIn(['web'], ['.js', '.ts', '.css', '.html'])];
	assert.ok(files.length > 400, 'they were found');
	const long = files.map((file) => `${file}: ${readFileSync(join(root, file), 'utf8').split('\n').length - 1}`).filter((line) => Number(line.split(': ').at(-1)) > 599);
	assert.deepEqual(long, []);
});

/** The functions of a C file that are too long: each begins with a brace at the beginning of a line. */
function longFunctions(file, most) {
	const lines = readFileSync(join(root, file), 'utf8').split('\n');
	return lines.flatMap((line, i) => (line === '{' && lines.indexOf('}', i) - i - 1 >= most ? [`${file}:${i + 1}`] : []));
}

test('each function of the server has fewer than 70 lines', () => {
	const files = filesIn(['include', 'src', 'bench'], ['.c', '.h']); // those of tests may begin with a table
	assert.deepEqual(files.flatMap((file) => longFunctions(file, 70)), []);
});

test('scripts/test refuses a name that no test has, before it installs or builds anything', () => {
	for (const words of [['bogus'], ['unit', '12-process'], ['e2e', '12-process', 'bogus']]) {
		const { status, stdout, stderr } = run(join(root, 'scripts/test'), words, { PATH: '/usr/bin:/bin' });
		assert.equal(status, 1, words.join(' '));
		assert.match(stderr, /^test: there is no test "(bogus|12-process)" in [a-z0-9 ]+ \(see --help\)\n$/);
		assert.equal(stdout, '0 passed, 1 failed\n');
	}
});
