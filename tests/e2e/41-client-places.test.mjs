// The client library where people use it: as a package in their project, and in a worker.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { HostileProxy } from '../support/hostile_proxy.mjs';
import { makeProject } from '../support/package.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { Waiters, defer, within } from '../support/wait.mjs';

test("the example of the package's README runs", async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const { dir } = makeProject(t);
	const readme = readFileSync(new URL('../../web/client/README.md', import.meta.url), 'utf8');
	const [, code] = /^```js\n([\s\S]*?)^```$/m.exec(readme);
	assert.equal(code.split('\n').filter(Boolean).length, 10);
	assert.ok(code.includes('http://127.0.0.1:8080'));
	writeFileSync(join(dir, 'example.mjs'), code.replace('http://127.0.0.1:8080', server.url));
	const child = spawn(process.execPath, [join(dir, 'example.mjs')], { env: { ...process.env, HOLDFAST_TOKEN: server.token }, stdio: ['ignore', 'pipe', 'inherit'] });
	defer(t, () => child.kill('SIGKILL'));
	let output = '';
	child.stdout.on('data', (text) => (output += text));
	const [code0] = await within(once(child, 'close'), 30_000, () => `the example to end; so far ${output}`);
	assert.equal(code0, 0);
	assert.match(output, /^1 user_prompt[^]*^\d+ agent_message [^]*^\d+ turn_end \n$/m);
});

test('in a worker it needs no page, and goes on at once when the device is online again', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	await post(server, id, [input.text('One.\n\n'), input.end()]);
	const proxy = new HostileProxy(() => server.url, () => 0, 0, null);
	defer(t, () => proxy.close());
	const seen = { seqs: [], statuses: [] };
	const waiters = new Waiters();
	const workerData = { base: await proxy.listen(), sessionId: id, token: server.token };
	const worker = new Worker(new URL('../support/client_worker.mjs', import.meta.url), { workerData });
	defer(t, () => worker.terminate());
	worker.on('error', (error) => (seen.error = error));
	worker.on('message', ({ seqs, status }) => {
		seen.seqs.push(...(seqs ?? []));
		seen.statuses.push(...(status ? [status] : []));
		waiters.wake();
	});
	const until = (probe, what) => waiters.until(probe, 20_000, () => `${what}; ${JSON.stringify(seen)}`);
	await until(() => seen.statuses.at(-1) === 'live', 'being live');
	proxy.break();
	await until(() => seen.statuses.at(-1) === 'retrying', 'the loss');
	await post(server, id, [input.text('Two.\n\n'), input.end()]);
	worker.postMessage('online');
	await until(() => seen.seqs.length === 4 && seen.statuses.at(-1) === 'live', 'the rest');
	assert.deepEqual(seen.seqs, [1, 2, 3, 4]);
	assert.deepEqual(seen.statuses, ['connecting', 'loading', 'live', 'retrying', 'connecting', 'loading', 'live']);
});
