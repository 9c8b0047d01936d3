// The client library in other runtimes than the tests': on a good network and on the worst, with each one's own WebSocket
// where it has one. Pinned in this folder's package-lock.json; too large to be installed for every run (scripts/test runtimes).
// And the Python client as a package, in an environment where nothing else is installed.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { HostileProxy } from '../support/hostile_proxy.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { defer, within } from '../support/wait.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const program = at('program.mjs');
const node = (version) => ({ name: `Node ${version}`, command: [at(`node_modules/node${version}/bin/node`)], version: new RegExp(`^v${version}\\.`), hasSocket: version >= 22 });
const RUNTIMES = [
	node(18),
	node(20),
	node(22),
	{ name: 'Deno', command: [at('node_modules/deno/deno'), 'run', '--no-prompt', '--cached-only', '--allow-net', '--allow-env', '--allow-read'], version: /^2\./, hasSocket: true },
	{ name: 'Bun', command: [at('node_modules/bun/bin/bun'), 'run', '--no-install'], version: /^1\./, hasSocket: true },
];

async function run(t, { name, command: [file, ...args] }, server, sockets = server.url) {
	const child = spawn(file, [...args, program, server.url, name, sockets], { env: { PATH: process.env.PATH, HOME: scratchDir(t), HOLDFAST_TOKEN: server.token }, stdio: ['ignore', 'pipe', 'pipe'] });
	defer(t, () => child.kill('SIGKILL'));
	let [output, errors] = ['', ''];
	child.stdout.on('data', (d) => (output += d));
	child.stderr.on('data', (d) => (errors += d));
	const [code] = await within(once(child, 'close'), 400_000, () => `${name} to end; ${output} ${errors}`);
	assert.equal(code, 0, `${name}: ${output} ${errors}`);
	return JSON.parse(output.trim().split('\n').at(-1));
}

async function check(server, { name, version, hasSocket }, told) {
	const { body } = await server.request('GET', `/api/sessions/${told.id}/events?after_seq=0&limit=5000`);
	const log = body.events.map(({ seq }) => seq);
	// Who comes late, because the first connection broke, begins with the newest page.
	assert.deepEqual(told.seen, log.slice(-told.seen.length), `${name}: each event, once, in order`);
	assert.deepEqual(told.iterated, told.seen);
	assert.equal(body.events.find(({ type }) => type === 'user_prompt').data.name, name);
	assert.ok(told.grown > 0, `${name} saw text that grows`);
	assert.ok(told.connects > 1, `${name} has connected again`);
	assert.match(told.version, version);
	assert.equal(told.isOwn, hasSocket, `whether ${name} has a WebSocket of its own`);
}

for (const runtime of RUNTIMES) {
	test(`${runtime.name}: prompts, answers, the queue, files, search, the feed; a broken connection`, async (t) => {
		const cwd = scratchDir(t);
		writeFileSync(join(cwd, 'main.c'), '');
		const server = await Server.start(t, { cwd, agent: demoAgent('--rate 2000') });
		const told = await run(t, runtime, server);
		await check(server, runtime, told);
		assert.deepEqual(told.errors, [], 'nothing was refused');
	});

	test(`${runtime.name}: the same on a hostile network`, async (t) => {
		const cwd = scratchDir(t);
		writeFileSync(join(cwd, 'main.c'), '');
		const server = await Server.start(t, { cwd, agent: demoAgent('--rate 2000') });
		// Requests over HTTP are not repeated by the library: they go the good way.
		const proxy = new HostileProxy(() => server.url, randomNumbers(104729), 5, { frame: 1, part: 1 });
		defer(t, () => proxy.close());
		const told = await run(t, runtime, server, await proxy.listen());
		await check(server, runtime, told);
	});
}

test('Python: the package is installed in an empty environment, and its README says what it does', async (t) => {
	const dir = scratchDir(t);
	const source = at('../../clients/python');
	cpSync(source, join(dir, 'source'), { recursive: true }); // pip writes beside it
	const must = (file, args) => {
		const { status, stdout, stderr } = spawnSync(file, args, { cwd: dir, encoding: 'utf8', env: { PATH: process.env.PATH, HOME: process.env.HOME } });
		assert.equal(status, 0, `${file} ${args.join(' ')}: ${stdout}${stderr}`);
		return stdout;
	};
	must('/usr/bin/python3', ['-m', 'venv', 'env']);
	must('env/bin/pip', ['install', '--quiet', '--disable-pip-version-check', './source']);
	assert.match(must('env/bin/pip', ['list', '--disable-pip-version-check']), /^holdfast-client +0\.1\.0$/m);
	const server = await Server.start(t);
	const readme = readFileSync(join(source, 'README.md'), 'utf8');
	const [watch, , feed] = [...readme.matchAll(/^```python\n([\s\S]*?)^```$/gm)].map(([, code]) => code.replace('http://127.0.0.1:8080', server.url));
	for (const [name, script, words] of [['feed.py', feed, /^$/], ['watch.py', watch, /^1 agent_message Hello, \*\*world\*\*\.\n/]]) {
		writeFileSync(join(dir, name), script);
		const child = spawn('env/bin/python', ['-I', name], { cwd: dir, env: { HOLDFAST_TOKEN: server.token }, stdio: ['ignore', 'pipe', 'pipe'] });
		let [output, errors] = ['', ''];
		child.stdout.on('data', (d) => (output += d));
		child.stderr.on('data', (d) => (errors += d));
		const [code] = await within(once(child, 'close'), 60_000, () => `${name} to end; ${errors}`);
		assert.equal(code, 0, errors);
		assert.match(output, words);
	}
});
