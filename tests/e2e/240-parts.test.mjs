// The parts that a build can leave out: the table names what the program has, and what is left out is refused by its name.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { leftOut } from '../support/parts.mjs';
import { runToEnd, scratchDir, Server } from '../support/server.mjs';

const read = (path) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8');

/** The rows of the table in the source: {name, option, commands, options, paths}. */
const parts = read('src/server/relay/parts.c').split(/\.name = /).slice(1).map((row) => {
	const words = (field) => [...(new RegExp(`\\.${field} =((?:\\s*"[^"]*")*)`).exec(row)?.[1] ?? '').matchAll(/"([^"]*)"/g)].map(([, text]) => text).join('').split(' ').filter(Boolean);
	return {
		name: /"(\w+)"/.exec(row)[1], option: words('build_option')[0], commands: words('commands'), options: words('options'),
		paths: [...row.matchAll(/LEFT_OUT\("([^"]+)"\)/g)].map(([, path]) => path),
	};
});
const here = parts.filter(({ name }) => !(name in leftOut));
const gone = parts.filter(({ name }) => name in leftOut);
const sentence = (what, part) => `${what}: this program was built without ${part.name}; build it with ${part.option}`;

test('the table names what the program has', async () => {
	assert.deepEqual(parts.map(({ name }) => name), ['agents', 'postgres', 'acp', 'ai', 'durable_streams', 'notify']);
	const { stdout: help } = await runToEnd(['--help']);
	const { stdout: options } = await runToEnd(['serve', '--help']);
	const routes = read('proto/doors.json');
	for (const [rows, isThere] of [[here, true], [gone, false]]) {
		for (const part of rows) {
			assert.deepEqual(part.commands.filter((name) => new RegExp(`^  ${name} `, 'm').test(help) !== isThere), [], part.name);
			assert.deepEqual(part.options.filter((name) => new RegExp(`^  --${name}( |$)`, 'm').test(options) !== isThere), [], part.name);
		}
	}
	for (const path of parts.flatMap((part) => part.paths)) {
		assert.ok(routes.includes(path.replace(/[{*].*/, '')), path);
	}
	const variables = [...options.matchAll(/^ {2}--(\S+).*\n[^]*?^ {6}(HOLDFAST_\w+), default/gm)].map(([, name, variable]) => [name, variable]);
	assert.ok(variables.length > 20);
	assert.deepEqual(variables.filter(([name, variable]) => variable !== `HOLDFAST_${name.toUpperCase().replaceAll('-', '_')}`), [], 'a variable is named as its option');
});

/* Of a program that has all parts there is nothing to test here: style 29 runs this file with one that has none. */
const testLack = gone.length > 0 ? test : () => {};

testLack('commands and options of a part that is left out are refused, wherever they are', async (t) => {
	for (const part of gone) {
		for (const name of part.commands) {
			const { code, stdout, stderr } = await runToEnd([name, '--help']);
			assert.deepEqual([code, stdout, stderr], [2, '', `holdfast: error: ${sentence(name, part)}\n`]);
		}
		for (const name of part.options) {
			const variable = `HOLDFAST_${name.toUpperCase().replaceAll('-', '_')}`;
			const file = join(scratchDir(t), 'holdfast.conf');
			writeFileSync(file, `\n${name} = on\n`);
			for (const [args, env, told] of [
				[[`--${name}`, 'x'], {}, sentence(`--${name}`, part)], [[], { [variable]: 'x' }, sentence(variable, part)],
				[['--config', file], {}, `${file}:2: ${sentence(name, part)}`],
			]) {
				const { code, stderr } = await runToEnd(['check-config', ...args], { env });
				assert.deepEqual([code, stderr], [2, `holdfast: error: ${told}\n`]);
			}
		}
	}
});

testLack('an address of a part that is left out answers 501, with the build option', async (t) => {
	const server = await Server.start(t);
	for (const part of gone) {
		for (const pattern of part.paths) {
			const path = pattern.replace(/[{*].*/, '');
			const { status, body } = await server.request('GET', `${path}${path === pattern ? '' : 'x'}`);
			assert.deepEqual([status, body.error], [501, { code: 'not_implemented', message: sentence(path, part) }]);
		}
	}
});
