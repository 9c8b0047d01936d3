// What README.md and docs/operating.md tell people to type works.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL, fileURLToPath } from 'node:url';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { defer, within } from '../support/wait.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const operating = readFileSync(join(root, 'docs/operating.md'), 'utf8');

/** The code blocks of a language that mention something. */
function block(language, about) {
	const found = [...readme.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
		.filter(([, lang, code]) => lang === language && code.includes(about));
	assert.equal(found.length, 1, `one ${language} block about ${about}`);
	return found[0][2];
}

function run(t, server, command, args) {
	const child = spawn(command, args, { env: { ...process.env, HOLDFAST_TOKEN: server.token }, stdio: ['ignore', 'pipe', 'inherit'] });
	defer(t, () => child.kill('SIGKILL'));
	child.output = '';
	child.stdout.on('data', (d) => (child.output += d));
	return child;
}

async function feedWithCurl(t, server) {
	const script = block('sh', 'curl').replaceAll('http://127.0.0.1:8080', server.url).replaceAll('curl -s', 'curl -fsS');
	const curl = run(t, server, 'bash', ['-e', '-c', script]);
	const [code] = await within(once(curl, 'close'), 30_000, () => 'the curl commands to end');
	assert.equal(code, 0, curl.output);
	return curl.output;
}

test('the curl commands make a session, feed it and read it', async (t) => {
	const server = await Server.start(t);
	assert.match(await feedWithCurl(t, server), /<strong>world<\/strong>/);
});

test('the client example shows what was fed', async (t) => {
	const server = await Server.start(t);
	await feedWithCurl(t, server);
	const code = block('js', 'HoldfastClient')
		.replaceAll('http://127.0.0.1:8080', server.url)
		.replaceAll("'./", `'${pathToFileURL(root)}`);
	const file = join(scratchDir(t), 'watch.mjs');
	writeFileSync(file, code);
	const watch = run(t, server, process.execPath, [...process.execArgv, file, 'hello']);
	const shown = new Promise((resolve, reject) => {
		watch.stdout.on('data', () => /^2 turn_end/m.test(watch.output) && resolve());
		watch.on('close', (c) => reject(new Error(`it ended with ${c}`)));
	});
	await within(shown, 20_000, () => `the example to show the end of the turn; so far ${watch.output}`);
	assert.match(watch.output, /^1 agent_message Hello, \*\*world\*\*\.$/m);
});

test('the options in docs/operating.md are those of --help', async () => {
	const { stdout } = await runToEnd(['serve', '--help']);
	const names = (text, pattern) => [...new Set([...text.matchAll(pattern)].map((m) => m[1]))].sort();
	const table = operating.slice(operating.indexOf('## Options'), operating.indexOf('Nobody gets in'));
	assert.deepEqual(names(table, /^\| `(--[a-z-]+)/gm), names(stdout, /^\s+(--[a-z-]+)/gm).filter((n) => n !== '--help'));
});
