// Runs test files, a few at a time, each in a process of its own; sums up with what meson runs meanwhile.
//
//   node tests/support/run.mjs [--jobs N] [--most N] [--times] [--keep-times FILE] [--since COMMIT] [--list] [--c-log] [--add PASSED,FAILED] [--second-try N] [--without PROGRAM] [web] [e2e] [browser] [style] [runtimes] [package] [doors] [part of a file's name ...]
//
// With --c-log the name of meson's log and its exit code come over stdin, when meson is done. --only-c runs no files.
// --add PASSED,FAILED is counted too.
// --jobs files run at a time, and up to --most while the processors have nothing better to do: many tests only wait. What runs
// with a low priority, as the programs of C, is nothing better.
// --times tells in the end how long each file took, and the processor time that it and what it started and waited for used.
// --keep-times FILE: how long each file took is kept there, for the order of the next run.
// --since COMMIT: only the files that what has changed since then touches (wings.mjs); all, if nobody knows. --list only tells the files.
// With --second-try, if at most N files failed, each of them runs once more, alone. One that passes then counts as passed; what
// it said at first is printed all the same, and the line before the last names it: its failure has a cause to be found.
// --without PROGRAM: the e2e tests of core and server run a second time, with this program, which was built without all that can be left out.
//
// The last line is `N passed, N failed`. A file that ends badly, runs into the time limit, holds no test or skips one has failed.

import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { NODE_FLAGS } from './node_flags.mjs';
import { slowness } from './wait.mjs';
import { WHOLE, filesOf, touchedBy, wingOf } from './wings.mjs';

const SUITES = ['browser', 'e2e', 'web', 'style', 'runtimes', 'package', 'doors'];
/* Only if they are named. */
const NAMED = ['runtimes', 'package', 'doors'];
/*
 * The longest files begin first, so that none of them runs alone in the end. How long each took in the last run is in the
 * file of --keep-times; of those that are not there, these are the longest.
 */
const LONGEST = ['e2e/80-', 'style/10-', 'browser/28-', 'e2e/81-', 'e2e/57-', 'e2e/112-', 'browser/42-', 'browser/18-', 'browser/30-',
	'browser/15-', 'e2e/83-', 'e2e/122-', 'browser/16-', 'e2e/130-', 'e2e/133-', 'browser/12-', 'browser/11-', 'browser/29-', 'browser/39-',
	'browser/21-', 'e2e/45-', 'browser/41-', 'e2e/123-', 'e2e/120-', 'browser/43-', 'browser/36-', 'browser/27-', 'e2e/87-', 'e2e/40-', 'e2e/31-'];
/* Of the processors, in the last LOOK_MS: with more, another file begins. */
const IDLE_SHARE = 0.15;
const LOOK_MS = 500;
/* Between two files that begin because of it: what one has begun is to be seen in the next look. */
const SETTLE_LOOKS = 2;
/* Ten minutes; the longest series take more than an hour if scripts/test all asks for the whole of them. */
const FILE_LIMIT_MS = (process.env.HOLDFAST_PART === '1/1' ? 90 : 10) * 60_000 * Number(process.env.HOLDFAST_TEST_PATIENCE ?? 1);
/* What a file may take to say what it was at, when it has to end. */
const LAST_WORDS_MS = 5_000;
const tests = fileURLToPath(new URL('../', import.meta.url));

/** {file: seconds} of the last run. */
function lastTimes(path) {
	return path && existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {};
}

function keepTimes(path, results) {
	if (path) {
		const times = Object.fromEntries(results.map(({ file, seconds }) => [file, Number(seconds)]));
		writeFileSync(path, JSON.stringify({ ...lastTimes(path), ...times }, null, '\t'));
	}
}

/** The files that are longest first. */
function longestFirst(files, times) {
	const rank = (file) => LONGEST.findIndex((long) => file.startsWith(long));
	// Of those without a time the long ones come before, and the others after, all that have one.
	const weight = (file) => times[file] ?? (rank(file) < 0 ? 0 : 10_000 - rank(file));
	return [...files].sort((a, b) => weight(b) - weight(a));
}

/** The lines that git answers with; undefined if it does not. */
function git(...words) {
	const { status, stdout } = spawnSync('git', ['-C', tests, ...words], { encoding: 'utf8' });
	return status === 0 ? stdout.split('\n').filter(Boolean) : undefined;
}

/** Those of the files that are touched by what has changed since a commit, or is not committed yet. */
function touchedSince(commit, files) {
	const changed = git('diff', '--name-only', '--no-renames', commit, '--', ':/');
	const sources = git('ls-files', '--full-name', ':/');
	const added = git('ls-files', '--full-name', '--others', '--exclude-standard', ':/');
	if (!changed || !sources || !added) {
		console.log(`All ${files.length} files run: nobody knows what has changed since ${commit}.`);
		return files;
	}
	const touched = touchedBy([...changed, ...added], files, sources, Number((process.env.HOLDFAST_PART ?? '1').split('/')[0]));
	console.log(`${touched.files.length} of ${files.length} files run: what has changed since ${commit.slice(0, 8)} touches ${touched.wings.join(', ') || 'no wing'}. .ci/run runs all.`);
	return touched.files;
}

function select(words, times, since) {
	const suites = words.filter((w) => SUITES.includes(w));
	const parts = words.filter((w) => !SUITES.includes(w));
	const suitesHere = SUITES.filter((suite) => (suites.length === 0 && !NAMED.includes(suite)) || suites.includes(suite))
		.filter((suite) => existsSync(join(tests, suite)));
	const files = filesOf(suitesHere)
		.filter((file) => parts.length === 0 || parts.some((part) => file.split('/')[1].includes(part)));
	return longestFirst(since ? touchedSince(since, files) : files, times);
}

/* Behind the name of a file that runs with the program that lacks what can be left out. */
const WITHOUT = ' (without)';

/** Those that have to pass with that program. */
function ofEveryProgram(files) {
	return files.filter((file) => file.startsWith('e2e/') && !WHOLE.some((front) => file.startsWith(front)) && wingOf(file).some((wing) => ['core', 'server'].includes(wing)));
}

/** Runs one file; gives {passed, failed, output}. */
async function runFile(file, { scratch, shared, times, without }) {
	const tap = join(scratch, `${file.replaceAll('/', '-')}.tap`);
	const cpu = `${tap}.cpu`;
	const child = spawn(process.execPath, [
		...NODE_FLAGS,
		...(times ? ['--import', join(tests, 'support/cpu_time.mjs')] : []),
		'--test-reporter=spec', '--test-reporter-destination=stdout',
		'--test-reporter=tap', `--test-reporter-destination=${tap}`,
		join(tests, file.replace(WITHOUT, '')),
	], { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...(file.endsWith(WITHOUT) && { HOLDFAST_BIN: without }), HOLDFAST_TEST_SHARED: shared, ...(times && { HOLDFAST_TEST_CPU_TIME: cpu }) } });
	let output = '';
	child.stdout.on('data', (d) => (output += d));
	child.stderr.on('data', (d) => (output += d));
	const begun = Date.now();
	let limit;
	const look = () => {
		const taken = Date.now() - begun;
		if (taken < FILE_LIMIT_MS * slowness()) {
			limit = setTimeout(look, FILE_LIMIT_MS / 10);
			return;
		}
		output += `\nstill running after ${Math.round(taken / 60_000)} minutes: ended\n`;
		child.kill('SIGTERM');
		limit = setTimeout(() => child.kill('SIGKILL'), LAST_WORDS_MS);
	};
	look();
	const code = await new Promise((resolve) => child.on('close', (c, signal) => resolve(signal ?? c)));
	clearTimeout(limit);
	return { ...judge(existsSync(tap) ? readFileSync(tap, 'utf8') : '', code), output, cpu: existsSync(cpu) ? Number(readFileSync(cpu, 'utf8')) : NaN };
}

function judge(tap, code) {
	const count = (name) => Number(new RegExp(`^# ${name} (\\d+)$`, 'm').exec(tap)?.[1] ?? 0);
	const passed = count('pass');
	const lines = tap.match(/^ *(not )?ok \d+ .*$/gm) ?? [];
	// Of a program that was built without a part, what needs it is skipped, and that is right (parts.mjs).
	const lacks = (line) => line.includes('# SKIP this program was built without ');
	const without = lines.filter(lacks).length;
	// Such a test that is a part of another one fails that one, too: each that has failed by itself is counted.
	const parents = tap.match(/^ *failureType: 'subtestsFailed'$/gm)?.length ?? 0;
	const bad = without > 0 ? lines.filter((line) => /^ *not ok/.test(line) && !lacks(line)).length - parents : count('fail') + count('cancelled');
	let failed = bad + count('skipped') - without + count('todo');
	if (failed === 0 && (without > 0 ? code !== 0 && code !== 1 : code !== 0 || passed === 0)) {
		failed = 1;
	}
	return { passed, failed, without, code };
}

/** What a program says of itself besides cmocka's own lines: how much it has tried. */
function printCounts(name, output) {
	for (const line of output.split('\n').filter((l) => /\b\d+ (texts|places|examples)\b/.test(l))) {
		console.log(`${name}: ${line}`);
	}
}

/** What meson has run, in cases, when it has ended: each line of its log is one program, of cmocka or a fuzz target. */
async function cResults() {
	let told = '';
	for await (const text of process.stdin) {
		told += text;
	}
	const [log, status] = told.split('\n');
	const sum = { passed: 0, failed: 0 };
	for (const line of (existsSync(log) ? readFileSync(log, 'utf8') : '').trim().split('\n').filter(Boolean)) {
		const program = JSON.parse(line);
		const output = `${program.stdout ?? ''}\n${program.stderr ?? ''}`;
		const passed = output.match(/^\[ {7}OK \] /gm)?.length ?? 0;
		const failed = new Set(output.match(/^\[ {2}FAILED {2}\] \w+$/gm)).size;
		const good = program.result === 'OK';
		sum.passed += passed > 0 || !good ? passed : 1;
		sum.failed += failed > 0 || good ? failed : 1;
		printCounts(program.name, program.stdout ?? '');
	}
	if (sum.failed === 0 && (status !== '0' || sum.passed === 0)) {
		sum.failed = 1; // it ended before its time
	}
	return sum;
}

function say(file, { passed, failed, without, code, seconds, output }) {
	console.log(failed === 0 ? `ok     ${file}: ${passed} passed${without > 0 ? `, ${without} need a part that is left out` : ''} in ${seconds} s`
		: `FAILED ${file}: ${passed} passed, ${failed} failed (ended with ${code}) in ${seconds} s\n${output}`);
}

/** A function that gives the share of the processors that nobody wanted since it was called last, but for programs with a low priority. */
function watchIdle() {
	const look = () => cpus().map(({ times }) => times).reduce(([free, all], { user, nice, sys, idle, irq }) =>
		[free + idle + nice, all + user + nice + sys + idle + irq], [0, 0]);
	let last = look();
	return () => {
		const now = look();
		const share = (now[0] - last[0]) / (now[1] - last[1]);
		last = now;
		return share;
	};
}

/** The results of the files, some at a time, in the order in which they end. */
async function runFiles(files, { jobs, most, ...rest }) {
	const queue = [...files];
	const results = [];
	const running = new Set();
	const work = async (file) => {
		const since = performance.now();
		const result = await runFile(file, rest);
		result.seconds = ((performance.now() - since) / 1000).toFixed(1);
		say(file, result);
		results.push({ file, ...result });
	};
	const begin = (limit) => {
		if (queue.length > 0 && running.size < limit) {
			const one = work(queue.shift()).finally(() => running.delete(one));
			running.add(one);
			return true;
		}
		return false;
	};
	const idleShare = watchIdle();
	let settling = SETTLE_LOOKS;
	const timer = setInterval(() => {
		const share = idleShare();
		settling -= 1;
		if (settling <= 0 && share > IDLE_SHARE && begin(most)) {
			settling = SETTLE_LOOKS;
		}
	}, LOOK_MS);
	while (queue.length > 0 || running.size > 0) {
		while (begin(jobs));
		await Promise.race(running);
	}
	clearInterval(timer);
	return results;
}

/** The longest first. */
function printTimes(results) {
	for (const { file, seconds, cpu } of [...results].sort((a, b) => b.seconds - a.seconds)) {
		console.log(`${seconds.padStart(7)} s, processors ${cpu.toFixed(1).padStart(6)} s: ${file}`);
	}
}

/** Gives the files that failed their second try; returns the results that count. */
async function tryAgain(results, most, how) {
	const failed = results.filter((r) => r.failed > 0).map((r) => r.file);
	if (failed.length === 0 || failed.length > most) {
		return results;
	}
	const again = await runFiles(failed, { ...how, jobs: 1, most: 1 });
	const unsteady = again.filter((r) => r.failed === 0).map((r) => r.file);
	if (unsteady.length > 0) {
		console.log(`UNSTEADY, failed at first, and passed alone at the second try: ${unsteady.join(' ')}`);
	}
	return [...results.filter((r) => r.failed === 0), ...again];
}

async function main() {
	const { values, positionals } = parseArgs({
		allowPositionals: true,
		options: {
			jobs: { type: 'string', default: '2' }, 'c-log': { type: 'boolean' }, 'only-c': { type: 'boolean' }, add: { type: 'string' },
			'second-try': { type: 'string', default: '0' }, most: { type: 'string', default: '0' }, times: { type: 'boolean' }, 'keep-times': { type: 'string' },
			since: { type: 'string' }, list: { type: 'boolean' }, without: { type: 'string' },
		},
	});
	const sum = { passed: 0, failed: 0 };
	const add = ({ passed, failed }) => {
		sum.passed += passed;
		sum.failed += failed;
	};
	const scratch = mkdtempSync(join(tmpdir(), 'holdfast-tap-'));
	// What files share is also for a user that has fewer rights (postgres.sh).
	const shared = mkdtempSync(join(tmpdir(), 'holdfast-shared-'));
	chmodSync(shared, 0o711);
	process.once('exit', () => [scratch, shared].forEach((dir) => rmSync(dir, { recursive: true, force: true })));
	['SIGINT', 'SIGTERM'].forEach((signal) => process.once(signal, () => process.exit(1)));
	const files = values['only-c'] ? [] : select(positionals, lastTimes(values['keep-times']), values.since);
	if (values.list) {
		console.log(files.join('\n'));
		return;
	}
	if (values.without) {
		files.push(...ofEveryProgram(files).map((file) => `${file}${WITHOUT}`));
	}
	const how = { jobs: Number(values.jobs), most: Number(values.most), scratch, shared, times: values.times, without: values.without };
	const results = await runFiles(files, how);
	// What meson runs beside them has ended when something runs alone.
	const ofC = values['c-log'] ? await cResults() : undefined;
	(await tryAgain(results, Number(values['second-try']), how)).forEach(add);
	if (values.times) {
		printTimes(results);
	}
	keepTimes(values['keep-times'], results);
	if (ofC) {
		add(ofC);
	}
	if (values.add) {
		const [passed, failed] = values.add.split(',').map(Number);
		add({ passed, failed });
	}
	console.log(`${sum.passed} passed, ${sum.failed} failed`);
	process.exitCode = sum.failed > 0 || sum.passed === 0 ? 1 : 0;
}

await main();
