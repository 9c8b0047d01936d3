// What docs/server-sent-events.md tells people to type works, and so do clients of streams that others have written.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { EventSource } from 'eventsource';
import { input, post } from '../support/producer.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { EventParser } from '../support/sse.mjs';
import { defer, eventually, within } from '../support/wait.mjs';

const docs = readFileSync(fileURLToPath(new URL('../../docs/server-sent-events.md', import.meta.url)), 'utf8');
const python = ['/usr/bin/python3', 'python3'].find((one) => spawnSync(one, ['-c', '']).status === 0);

/** The block of code of a language that mentions something. */
function recipe(language, about) {
	const found = [...docs.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].filter(([, name, code]) => name === language && code.includes(about));
	assert.equal(found.length, 1, `one ${language} block about ${about}`);
	return found[0][2];
}

async function start(t) {
	const server = await Server.start(t);
	await server.createSession({ id: 'hello' });
	await post(server, 'hello', [input.text('Hello, **world**.'), input.end()]);
	return server;
}

/** Runs a program; `lines` are those of its output so far. */
function run(t, server, command, args) {
	const child = spawn(command, args, { env: { ...process.env, HOLDFAST_TOKEN: server.token }, stdio: ['ignore', 'pipe', 'inherit'] });
	defer(t, () => child.kill('SIGKILL'));
	child.output = '';
	child.stdout.setEncoding('utf8').on('data', (text) => (child.output += text));
	return child;
}

test('the curl command shows the session', async (t) => {
	const server = await start(t);
	const curl = run(t, server, 'bash', ['-c', `exec ${recipe('sh', 'curl').replace('http://127.0.0.1:8080', server.url)}`]);
	await eventually(() => curl.output.includes('event: live'), curl.output);
	const seen = [];
	new EventParser(({ type }) => seen.push(type)).push(Buffer.from(curl.output));
	assert.deepEqual(seen.slice(0, 5), ['connected', 'agent_message', 'turn_end', 'state', 'live']);
});

/** Starts the server again, on the port where it was: whoever follows it knows no other. */
async function killAndRestart(server, port) {
	await server.kill9();
	await server.restart();
	assert.equal(new URL(server.url).port, port);
}

/** Follows with a program that prints `type seq` for each event of the session, while the server is killed and starts again. */
async function assertFollows(t, makeProgram) {
	const port = await freePort();
	const server = await Server.start(t, { listen: [`127.0.0.1:${port}`] });
	await server.createSession({ id: 'hello' });
	const { max_seq: first } = await post(server, 'hello', [input.text('Hello, **world**.'), input.end()]);
	const child = makeProgram(server);
	const seen = () => child.output.split('\n').filter((line) => /^(agent_message|turn_end|x-note) /.test(line));
	await eventually(() => seen().length === first, () => child.output);
	for (let round = 0; round < 3; round++) {
		await killAndRestart(server, String(port));
		await post(server, 'hello', [input.note({ round })]);
	}
	await eventually(() => seen().length >= first + 3, 'all of it');
	assert.deepEqual(seen(), ['agent_message 1', 'turn_end 2', 'x-note 3', 'x-note 4', 'x-note 5']);
	return { server, child };
}

async function freePort() {
	const { createServer } = await import('node:net');
	const server = createServer().listen(0, '127.0.0.1');
	await new Promise((resolve) => server.once('listening', resolve));
	const { port } = server.address();
	await new Promise((resolve) => server.close(resolve));
	return port;
}

test('the Python function follows a session, also when the server is killed', async (t) => {
	await assertFollows(t, (server) => {
		const file = join(scratchDir(t), 'follow.py');
		writeFileSync(file, `${recipe('python', 'def follow')}
import os, sys
for type, data in follow(sys.argv[1], os.environ["HOLDFAST_TOKEN"]):
    print(type, data.get("seq"), flush=True)
`);
		return run(t, server, python, [file, `${server.url}/api/sessions/hello/events`]);
	});
});

test('the Python function ends when it is refused', async (t) => {
	const server = await start(t);
	const file = join(scratchDir(t), 'follow.py');
	writeFileSync(file, `${recipe('python', 'def follow')}
import sys
try:
    for each in follow(sys.argv[1], "wrong"):
        print(each)
except urllib.error.HTTPError as error:
    print(error.code)
`);
	const child = run(t, server, python, [file, `${server.url}/api/sessions/hello/events`]);
	await within(new Promise((resolve) => child.once('close', resolve)), 20_000, () => 'it to end');
	assert.equal(child.output, '401\n');
});

test('the function with fetch() follows a session, also when the server is killed', async (t) => {
	await assertFollows(t, (server) => {
		const dir = scratchDir(t);
		writeFileSync(join(dir, 'follow.mjs'), recipe('js', 'function* follow'));
		writeFileSync(join(dir, 'main.mjs'), `import { follow } from ${JSON.stringify(pathToFileURL(join(dir, 'follow.mjs')))};
for await (const { type, data } of follow(process.argv[2], () => process.env.HOLDFAST_TOKEN)) {
	console.log(type, data.seq);
}`);
		return run(t, server, process.execPath, [join(dir, 'main.mjs'), `${server.url}/api/sessions/hello/events`]);
	});
});

test('npm eventsource follows a session, also when the server is killed', async (t) => {
	const child = { output: '' };
	await assertFollows(t, (server) => {
		const source = new EventSource(`${server.url}/api/sessions/hello/events?after=0`, {
			fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, authorization: `Bearer ${server.token}` } }),
		});
		defer(t, () => source.close());
		for (const type of ['agent_message', 'turn_end', 'x-note']) {
			source.addEventListener(type, ({ data, lastEventId }) => {
				const { seq } = JSON.parse(data);
				assert.ok(lastEventId.endsWith(`-${seq}`));
				child.output += `${type} ${seq}\n`;
			});
		}
		return child;
	});
});
