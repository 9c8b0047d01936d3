// Where the options of `holdfast serve` come from, and what is said of wrong ones.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { needs } from '../support/parts.mjs';
import { binary, runToEnd, scratchDir, Server } from '../support/server.mjs';

function configFile(t, ...lines) {
	const path = join(scratchDir(t), 'holdfast.conf');
	writeFileSync(path, lines.join('\n'));
	return path;
}

/** What check-config prints: [option, value, source] for each line. */
async function check(args, env = {}) {
	const { code, stdout, stderr } = await runToEnd(['check-config', ...args], { env });
	assert.equal(code, 0, stderr);
	return stdout.trim().split('\n').map((line) => /^(\S+) +(.*?) {2,}(\S+)$/.exec(line)?.slice(1) ?? assert.fail(line));
}

const of = (rows, name) => rows.filter((row) => row[0] === name).map((row) => row.slice(1));

test('an option wins over the environment, and that over the file', async (t) => {
	const path = configFile(t, '# a comment', '', 'data = /from/file', 'durability=write', '  keep-days =  3  ', 'url = https://file.example');
	const rows = await check(['--config', path, '--data', '/from/option'], { HOLDFAST_DATA: '/from/env', HOLDFAST_DURABILITY: 'fsync' });
	assert.deepEqual(of(rows, 'data'), [['/from/option', 'option']]);
	assert.deepEqual(of(rows, 'durability'), [['fsync', 'HOLDFAST_DURABILITY']]);
	assert.deepEqual(of(rows, 'keep-days'), [['3', `${path}:5`]]);
	assert.deepEqual(of(rows, 'url'), [['https://file.example', `${path}:6`]]);
	assert.deepEqual(of(rows, 'auth'), [['on', 'default']]);
});

test('the file may be named by the environment', async (t) => {
	const path = configFile(t, 'log-level = debug');
	const rows = await check([], { HOLDFAST_CONFIG: path });
	assert.deepEqual(of(rows, 'log-level'), [['debug', `${path}:1`]]);
});

test('a server runs with what the file says', async (t) => {
	const path = configFile(t, 'limit = title_size=20', 'limit = load_max=2,page_size=64K', 'allow-host = one.example', 'allow-host = two.example');
	const server = await Server.start(t, { args: ['--config', path], env: { HOLDFAST_LIMIT: 'load_max=3' } });
	const { id } = await server.createSession();
	assert.equal((await server.request('POST', '/api/sessions', { json: { title: 'x'.repeat(21) } })).status, 413);
	assert.equal((await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=3`)).status, 200, 'limits add up, and the environment wins');
	assert.equal((await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=4`)).status, 400);
	for (const [host, status] of [['one.example', 200], ['two.example', 200], ['three.example', 403]]) {
		assert.equal((await server.rawRequest('GET', '/api/sessions', { host })).status, status, host);
	}
});

test('values of the environment that may be repeated have blanks or commas between them', async () => {
	const rows = await check([], { HOLDFAST_LISTEN: '127.0.0.1:1 127.0.0.1:2,127.0.0.1:3', HOLDFAST_LIMIT: 'hold_ms=1 block_size=1K' });
	assert.deepEqual(of(rows, 'listen'), [['127.0.0.1:1 127.0.0.1:2,127.0.0.1:3', 'HOLDFAST_LISTEN']]);
	const { code, stderr } = await runToEnd(['check-config'], { env: { HOLDFAST_LISTEN: '127.0.0.1:1 nonsense' } });
	assert.equal(code, 2);
	assert.match(stderr, /--listen "nonsense"/);
});

test('an option without an argument is on or off in the file and the environment', needs('agents'), async (t) => {
	for (const [word, works] of [['on', true], ['1', true], ['off', true], ['0', true], ['maybe', false]]) {
		const path = configFile(t, `sandbox = ${word}`);
		const { code, stderr } = await runToEnd(['check-config', '--config', path]);
		assert.equal(code, works ? 0 : 2, word);
		assert.match(stderr, works ? /^$/ : /--sandbox "maybe": expected on or off/);
	}
	assert.deepEqual(of(await check(['--sandbox']), 'sandbox'), [['on', 'option']]);
	assert.deepEqual(of(await check([]), 'sandbox'), [['off', 'default']]);
	const { code, stderr } = await runToEnd(['check-config', '--sandbox-sockets'], { env: { HOLDFAST_SANDBOX: 'off' } });
	assert.equal(code, 2);
	assert.match(stderr, /need --sandbox/);
});

test('no secret of an agent is printed', needs('agents'), async (t) => {
	const path = configFile(t, 'agent-env = FILE_KEY=secret-1');
	const { stdout } = await runToEnd(['check-config', '--config', path, '--agent-env', 'OPTION_KEY=secret-2'], { env: { HOLDFAST_AGENT_ENV: 'ENV_KEY=secret-3,HOME' } });
	assert.match(stdout, /OPTION_KEY=\.\.\..*option/);
	assert.match(stdout, /ENV_KEY=\.\.\., HOME.*HOLDFAST_AGENT_ENV/);
	assert.match(stdout, /FILE_KEY=\.\.\..*holdfast\.conf:1/);
	assert.doesNotMatch(stdout, /secret-/);
});

test('a wrong file is refused with the line and what to do', async (t) => {
	for (const [lines, why] of [
		[['# one', 'lisen = 127.0.0.1:1'], /holdfast\.conf:2: unknown option lisen \(did you mean listen\?\)/],
		[['colour = blue'], /holdfast\.conf:1: unknown option colour; holdfast serve --help/],
		[['data = a', 'data = b'], /holdfast\.conf:2: this option may be given only once: data/],
		[['data'], /holdfast\.conf:1: expected NAME = VALUE: data/],
		[['data = ' + 'x'.repeat(9000)], /holdfast\.conf:1: this is not a configuration file/],
		[['durability = perhaps'], /--durability "perhaps"/],
		[['listen = nonsense'], /--listen "nonsense"/],
	]) {
		for (const command of ['serve', 'check-config']) {
			const { code, stderr } = await runToEnd([command, '--config', configFile(t, ...lines)]);
			assert.equal(code, 2, stderr);
			assert.match(stderr, why);
		}
	}
	const { code, stderr } = await runToEnd(['serve', '--config', '/no/such/file']);
	assert.equal(code, 2);
	assert.match(stderr, /--config: cannot read \/no\/such\/file: No such file/);
});

test('help and the version come the ways that people ask for them', async () => {
	const help = await runToEnd(['--help']);
	for (const args of [['help'], ['-h']]) {
		assert.deepEqual(await runToEnd(args), help);
	}
	const serve = await runToEnd(['serve', '--help']);
	assert.match(serve.stdout, /^Usage: holdfast serve/);
	assert.deepEqual(await runToEnd(['help', 'serve']), serve);
	assert.deepEqual(await runToEnd(['-V']), await runToEnd(['--version']));
	assert.match((await runToEnd(['check-config', '--help'])).stdout, /^Usage: holdfast check-config/);
});

test('a slip of the finger is told with what was meant', needs('agents'), async () => {
	for (const [args, words] of [
		[['sevre'], /unknown command sevre \(did you mean serve\?\)/], [['verfy', 'x'], /did you mean verify\?/], [['quux'], /unknown command quux; see holdfast --help/],
		[['--bogus'], /unknown option --bogus; see/], [['serve', '--lisen', 'x'], /unknown option --lisen \(did you mean --listen\?\)/],
		[['serve', '--lisen=x'], /did you mean --listen\?/], [['serve', '--bogus'], /unknown option --bogus; usage/], [['serve', '--sandbox=on'], /--sandbox takes no value/],
		[['help', 'sevre'], /did you mean serve\?/], [['agent-gard'], /unknown command agent-gard; see/],
	]) {
		const { code, stderr, stdout } = await runToEnd(args);
		assert.equal(code, 2, args.join(' '));
		assert.match(stderr, words);
		assert.equal(stdout, '');
	}
});

/** What `scripts/run` starts, in a checkout that is built: the value of each option. */
function startedByScript(t, args, env = {}) {
	const dir = scratchDir(t);
	const program = (path, script) => writeFileSync(join(dir, path), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
	['scripts', 'build', 'bin'].forEach((name) => mkdirSync(join(dir, name)));
	['run', 'lib.sh'].forEach((name) => copyFileSync(fileURLToPath(new URL(`../../scripts/${name}`, import.meta.url)), join(dir, 'scripts', name)));
	program('bin/dpkg-query', 'printf installed');
	['meson', 'ninja'].forEach((name) => program(`bin/${name}`, 'exit 0'));
	program('build/holdfast', `if [ "$1" = check-config ]; then exec '${binary()}' "$@"; fi; printf '%s\\n' "$@"`);
	const { status, stdout, stderr } = spawnSync(join(dir, 'scripts/run'), args, { encoding: 'utf8', env: { PATH: `${join(dir, 'bin')}:${process.env.PATH}`, ...env } });
	const words = stdout.trim().split('\n').slice(1);
	return { status, stderr, dir, options: Object.fromEntries(words.flatMap((word, i) => (word.startsWith('--') ? [[word.slice(2), words[i + 1]]] : []))) };
}

test('scripts/run starts the demo agent, unless it is told of another one: as an option, in the environment or in a file', needs('agents'), (t) => {
	const agents = join(scratchDir(t), 'agents.json');
	writeFileSync(agents, '{"agents": [{"name": "one", "command": "one"}]}');
	const { dir, options } = startedByScript(t, []);
	assert.match(options.agent, /holdfast-demo-agent$/);
	assert.deepEqual([options.data, options.cwd], [join(dir, 'data'), join(dir, 'data/workspace')]);
	assert.match(options.listen, /^127\.0\.0\.1:/);

	const agentOf = (args, env) => {
		const started = startedByScript(t, args, env);
		assert.equal(started.status, 0, started.stderr);
		return started.options.agent;
	};
	assert.equal(agentOf(['--agent', 'mine acp']), 'mine acp');
	assert.equal(agentOf(['--agent', 'mine', '--', '--agent', 'theirs']), 'theirs', 'what is behind -- wins');
	assert.equal(agentOf([], { HOLDFAST_AGENT: 'mine' }), undefined);
	assert.equal(agentOf(['--', '--agents', agents]), undefined);
	assert.equal(agentOf(['--', `--agents=${agents}`]), undefined);
	assert.equal(agentOf([], { HOLDFAST_AGENTS: agents }), undefined);
	assert.equal(agentOf(['--', '--config', configFile(t, `agents = ${agents}`)]), undefined);
	assert.equal(agentOf([], { HOLDFAST_CONFIG: configFile(t, 'agent = mine') }), undefined);
	const config = configFile(t, 'data = /elsewhere', `cwd = ${dir}`, 'listen = 127.0.0.1:1');
	const { options: left } = startedByScript(t, ['--', '--config', config]);
	assert.deepEqual([left.data, left.cwd, left.listen], [undefined, undefined, undefined], 'the file wins over what the script would add');
	const both = startedByScript(t, ['--agent', 'mine', '--', '--agents', agents]);
	assert.equal(both.status, 2);
	assert.match(both.stderr, /--agent and --agents exclude each other/);
});
