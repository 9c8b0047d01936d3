// The command line as people expect it: help and version under each of their names, slips that are understood, exit codes that are
// told, columns that stand below each other.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Server, binary, runToEnd, scratchDir } from '../support/server.mjs';

async function run(code, ...args) {
	const done = await runToEnd(args);
	assert.equal(done.signal ?? done.code, code, `holdfast ${args.join(' ')}\n${done.stdout}${done.stderr}`);
	return done;
}

const help = await run(0, '--help');
const commands = [...help.stdout.matchAll(/^ {2}([a-z-]+) /gm)].map(([, name]) => name);

test('help and version answer to all of their names', async () => {
	assert.ok(commands.length > 15);
	for (const args of [['-h'], ['help'], ['help', 'help']]) {
		assert.equal((await run(0, ...args)).stdout, help.stdout);
	}
	assert.match((await run(0, '--version')).stdout, /^holdfast \d+\.\d+\.\d+\n$/);
	assert.equal((await run(0, '-V')).stdout, (await run(0, '--version')).stdout);
	for (const command of commands) {
		const { stdout } = await run(0, command, '--help');
		assert.match(stdout, new RegExp(`^Usage: holdfast ${command}[ \n]`));
		assert.equal((await run(0, command, '-h')).stdout, stdout);
		assert.equal((await run(0, 'help', command)).stdout, stdout);
		assert.ok(stdout.split('\n').every((line) => line.length <= 125), `${command}: its lines fit`);
	}
	assert.match((await run(2)).stderr, /a command is missing; see holdfast --help/);
});

test('what is not known is named, with what may have been meant', async () => {
	for (const [args, told] of [
		[['bogus'], 'unknown command bogus; see holdfast --help'],
		[['help', 'bogus'], 'unknown command bogus; see holdfast --help'],
		[['serv'], 'unknown command serv (did you mean serve?); see holdfast --help'],
		[['--bogus'], 'unknown option --bogus; see holdfast --help'],
		[['--versoin'], 'unknown option --versoin (did you mean --version?); see holdfast --help'],
		[['serve', '--listn', 'x'], 'unknown option --listn (did you mean --listen?); usage: holdfast serve [OPTIONS]'],
		[['upgrade', '--dryrun', 'x'], 'unknown option --dryrun (did you mean --dry-run?); usage: holdfast upgrade DIR [--dry-run]'],
		[['serve', '--listen'], '--listen needs a value; usage: holdfast serve [OPTIONS]'],
		[['upgrade', '--dry-run=1', 'x'], '--dry-run takes no value; usage: holdfast upgrade DIR [--dry-run]'],
	]) {
		const { stdout, stderr } = await run(2, ...args);
		assert.deepEqual([stdout, stderr], ['', `holdfast: error: ${told}\n`]);
	}
	for (const command of commands) {
		assert.match((await run(2, command, '--bogus')).stderr, /unknown option --bogus; usage: /, command);
	}
});

test('each command tells its exit codes, and so does the manual page', async () => {
	for (const command of commands.filter((name) => name !== 'limits')) {
		assert.match((await run(0, command, '--help')).stdout, /^Exit codes: (\d|that of the agent)/m, command);
	}
	const stdout = readFileSync(join(dirname(binary()), 'holdfast.1'), 'utf8');
	assert.match(stdout, /^\.SH "EXIT STATUS"$/m);
	assert.equal([...stdout.matchAll(/^Exit codes: /gm)].length, commands.length - 1);
});

test('columns stand below each other, however long a name is', async (t) => {
	const { stdout } = await run(0, 'limits');
	const [heading, ...rows] = stdout.trimEnd().split('\n');
	for (const name of ['DEFAULT', 'RANGE', 'CODE', 'MEANING']) {
		const at = heading.indexOf(name);
		assert.deepEqual(rows.filter((row) => row.slice(at - 2, at) !== '  ' || row[at] === ' '), [], name);
	}
	const server = await Server.start(t);
	for (const id of ['a', 'x'.repeat(100), 'middle']) {
		await server.createSession({ id, title: 'T' });
	}
	const list = (await run(0, 'sessions', '--data', server.dataDir)).stdout.trimEnd().split('\n');
	assert.equal(list.length, 3);
	assert.deepEqual(list.map((line) => line.indexOf(' idle')), [101, 101, 101]);
	const none = await runToEnd(['sessions', '--data', scratchDir(t)]);
	assert.equal(none.code, 2);
});
