// What scripts/test runs: every test has a wing, every file of the tree has one too or is known to have no test, and a change runs what
// it touches. Each landing moves tests/green.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { scratchDir } from '../support/server.mjs';
import { LONG, WINGS, filesOf, touchedBy, wingOf, wingsOf } from '../support/wings.mjs';
import { filesIn, root } from './files.mjs';

const tests = filesOf(['web', 'e2e', 'browser', 'style']);
const sources = filesIn(['src', 'include', 'proto', 'web', 'clients', 'examples', 'dist', 'docs', 'scripts', 'bench', 'tests/support', 'tests/nodes'], ['']);

test('each test is in one wing', () => {
	const wrong = tests.filter((file) => !file.startsWith('style/') && wingOf(file).length !== 1);
	assert.deepEqual(wrong.map((file) => `${file}: ${wingOf(file)}`), []);
	for (const [wing, { tests: all, smoke }] of Object.entries(WINGS)) {
		const dead = [...all, ...smoke].filter((front) => !tests.some((file) => file.startsWith(front)));
		assert.deepEqual(dead, [], `${wing}: no test is called so`);
		assert.ok(smoke.length > 0 && smoke.every((front) => all.some((of) => front.startsWith(of))), `${wing}: its smoke part is a part of it`);
	}
});

test('each file of the tree is in a wing, or is known to have no test', () => {
	assert.ok(sources.length > 700, 'they were found');
	assert.deepEqual(sources.filter((path) => !wingsOf(path, sources)), []);
});

test('a change runs the tests of its wing, and a part of each if core or server changes', () => {
	const touched = (...changed) => touchedBy(changed, tests, sources);
	const ofWing = (wing) => tests.filter((file) => wingOf(file).includes(wing));
	const style = tests.filter((file) => file.startsWith('style/'));
	for (const path of ['src/nodes/ws_tap.c', 'src/nodes/node_socket.c', 'src/engines/postgres/pg_take.c']) {
		assert.deepEqual(touched(path), { wings: ['nodes'], files: [...ofWing('nodes'), ...style] }, path);
	}
	assert.deepEqual(touched('src/agents/acp/acp_agent.h').wings, ['agents'], 'a header is where its file is');
	assert.deepEqual(touched('web/page/app.js'), { wings: ['page'], files: tests.filter((file) => [...ofWing('page'), ...style].includes(file)) });
	assert.deepEqual(touched('bench/README.md').files, style);
	for (const path of ['src/core/store/embedded/journal.c', 'src/server/connection/conn.c', 'tests/support/server.mjs', 'a/file/of/a/folder/that/is/new.c']) {
		const { wings, files } = touched(path);
		assert.ok(wings.length === 1 && files.length < tests.length / 2, path);
		ofWing(wings[0]).forEach((file) => assert.ok(files.includes(file), `${path}: ${file}`));
		Object.keys(WINGS).forEach((wing) => assert.ok(files.some((file) => wingOf(file).includes(wing)), `${path}: nothing of ${wing}`));
	}
	// What lies in the server for another wing runs that wing's tests, too.
	for (const [path, file] of [['src/notify/push/http_push.c', '91-push'], ['src/core/access/subscriptions.c', '91-push'], ['src/server/routes/http_search.c', '59-search'], ['src/server/routes/http_blob.c', '92-blobs'], ['src/server/http/http_queue.c', '43-queue'],
		['src/server/routes/http_complete.c', '97-files'], ['src/server/connection/conn_wait.c', '54-in-doubt'], ['src/server/routes/append.c', '36-producers'], ['src/doors/durable_streams/raw_wire.c', '115-durable-streams-write'], ['src/nodes/mirror.c', '133-node-mirrors'], ['src/core/json/json_lines.c', '205-framing']]) {
		assert.ok(touched(path).files.includes(`e2e/${file}.test.mjs`), `${path}: ${file}`);
	}
	assert.deepEqual(touched('tests/e2e/91-push.test.mjs').files, ['e2e/91-push.test.mjs', ...style]);
	assert.ok(touched('tests/support/raw_streams.mjs').files.includes('e2e/192-damaged-streams.test.mjs'), 'whoever imports it');
	assert.ok(touched('tests/support/nodes.mjs').files.includes('e2e/122-nodes.test.mjs'));
});

test('when core and server have both changed, the longest files take turns; each has its turn, and whoever changes one runs it', () => {
	const both = ['src/core/store/store.c', 'src/server/connection/conn.c'];
	const long = LONG.flat();
	const isLong = (file) => long.some((front) => file.startsWith(front));
	assert.deepEqual(long.filter((front) => tests.filter((file) => file.startsWith(front)).length !== 1), [], 'each names one file');
	const turns = LONG.map((_, turn) => touchedBy(both, tests, sources, turn).files);
	const expected = tests.filter((file) => isLong(file) && ['core', 'server'].includes(wingOf(file)[0]));
	assert.deepEqual(turns.flatMap((files) => files.filter(isLong)).sort(), expected.sort());
	for (const files of turns) {
		assert.ok(files.some(isLong), 'each turn has one of them');
		assert.deepEqual(files.filter((file) => !isLong(file)), turns[0].filter((file) => !isLong(file)), 'the others run each time');
	}
	assert.ok(touchedBy([...both, `tests/${expected[0]}`], tests, sources, 1).files.includes(expected[0]));
	assert.ok(touchedBy([...both, `tests/${expected[0]}`], tests, sources, 2).files.includes(expected[0]));
});

test('where nobody knows what has changed, everything runs', () => {
	const { stdout } = spawnSync(process.execPath, [join(root, 'tests/support/run.mjs'), '--since', 'nonsense', '--list'], { encoding: 'utf8' });
	assert.deepEqual(stdout.trim().split('\n').slice(1).sort(), [...tests].sort());
});

test('a landing moves tests/green by its last commit, and CI sees whether it did', (t) => {
	const dir = scratchDir(t);
	mkdirSync(join(dir, 'scripts'));
	mkdirSync(join(dir, 'tests'));
	['green', 'lib.sh'].forEach((name) => cpSync(join(root, 'scripts', name), join(dir, 'scripts', name)));
	const env = { ...process.env, GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b', GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' };
	const run = (program, ...words) => spawnSync(program, words, { cwd: dir, env, encoding: 'utf8' });
	const git = (...words) => run('git', ...words).stdout.trim();
	const green = (...words) => run(join(dir, 'scripts/green'), ...words);
	const commit = (text) => {
		writeFileSync(join(dir, 'file'), text);
		git('add', '.');
		git('commit', '-qm', text);
		return git('rev-parse', 'HEAD');
	};
	const says = (words, status, pattern) => {
		const done = green(...words);
		assert.equal(done.status, status, done.stderr);
		assert.match(done.stderr, pattern);
	};
	git('init', '-q');
	const first = commit('1');
	says(['--check'], 0, /there is no commit before this one/);
	commit('2');
	says([], 1, /has never been moved: name the commit/);
	says([first], 0, /part 1 of 48 is next/);
	assert.equal(readFileSync(join(dir, 'tests/green'), 'utf8'), `${first} 1\n`);
	says(['--check'], 0, /^$/);
	says([], 1, /the last commit has moved tests.green already/);
	const landed = git('rev-parse', 'HEAD');
	commit('3');
	says(['--check'], 1, /the last commit has not moved/);
	says([], 0, /part 2 of 48 is next/);
	assert.equal(readFileSync(join(dir, 'tests/green'), 'utf8'), `${landed} 2\n`);
	says(['--check'], 0, /^$/);
	for (const [text, pattern] of [[`${landed} 4`, /names part 4, and not the one behind 2/], [`${landed} x`, /names part 0/], [`${'1'.repeat(40)} 3`, /which is no commit before/]]) {
		writeFileSync(join(dir, 'tests/green'), `${text}\n`);
		commit(text);
		says(['--check'], 1, pattern);
		git('reset', '-q', '--hard', 'HEAD~1');
	}
	writeFileSync(join(dir, 'file'), 'not committed');
	says([], 1, /not committed/);
});
