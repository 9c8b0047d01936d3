// The producers in examples/ put a file into a session once and whole, whatever is lost on the way.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { LossyProxy, fate } from '../support/lossy_proxy.mjs';
import { Server } from '../support/server.mjs';
import { defer, within } from '../support/wait.mjs';

const examples = fileURLToPath(new URL('../../examples/', import.meta.url));
const markdown = readFileSync(`${examples}answer.md`, 'utf8');
const tools = [...markdown.matchAll(/^<!-- tool: (.+) -->\n/gm)].map((m) => m[1]);
const text = markdown.replace(/^<!-- tool: .+ -->\n/gm, '');

const programs = [
	// One sends an event at a time, the other all that has gathered: it has few requests to die in.
	{ name: 'stream.py', command: ['python3', `${examples}stream.py`], dieIn: 40 },
	{ name: 'stream.mjs', command: [process.execPath, `${examples}stream.mjs`], dieIn: 1 },
];

/** Whether the server takes keys and create=1. */
async function takesKeys(server) {
	const answer = await server.request('POST', '/api/sessions/probe/events?create=1', {
		json: { type: 'agent_message_chunk', key: 'k', data: { text: 'x' } },
	});
	return answer.status === 200;
}

async function startServer(t) {
	const server = await Server.start(t);
	if (!(await takesKeys(server))) {
		t.skip('this server takes no keys yet');
		return null;
	}
	return server;
}

function run(t, server, program, url, ...options) {
	const [command, ...args] = [...program.command, 'demo', `${examples}answer.md`, '--server', url, '--pace', '0', ...options];
	const child = spawn(command, args, { env: { ...process.env, HOLDFAST_TOKEN: server.token }, stdio: ['ignore', 'pipe', 'pipe'] });
	defer(t, () => child.kill('SIGKILL'));
	child.output = '';
	child.stdout.on('data', (d) => (child.output += d));
	child.stderr.on('data', (d) => (child.output += d));
	child.done = within(once(child, 'close'), 60_000, () => `${program.name} to end; so far ${child.output}`);
	return child;
}

async function assertOnceAndWhole(server) {
	const { body } = await server.request('GET', '/api/sessions/demo/events?after_seq=0&limit=5000&format=markdown');
	const data = (type) => body.events.filter((event) => event.type === type).map((event) => event.data);
	assert.equal(data('agent_message').map(({ markdown: part }) => part).join('').trimEnd(), text.trimEnd());
	assert.deepEqual(data('tool_call').map(({ title }) => title), tools);
	assert.equal(data('tool_call_update').length, tools.length);
	assert.equal(data('user_prompt').length, 1);
	assert.deepEqual(data('turn_end'), [{ stop_reason: 'end_turn' }]);
}

for (const program of programs) {
	test(`${program.name}: requests and answers are lost`, async (t) => {
		const server = await startServer(t);
		if (!server) {
			return;
		}
		const kinds = [fate.LOST_ANSWER, fate.LOST_REQUEST, fate.BUSY];
		const proxy = await LossyProxy.start(t, server.url, (n) => (n <= 6 || n % 20 === 0 ? kinds[n % 3] : undefined));
		const child = run(t, server, program, proxy.url);
		assert.deepEqual(await child.done, [0, null], child.output);
		assert.match(child.output, /trying again/);
		assert.match(child.output, /the whole of .+ its end has seq \d+\n$/);
		await assertOnceAndWhole(server);
	});

	test(`${program.name}: killed before it has its answer, and started again with the same --run`, async (t) => {
		const server = await startServer(t);
		if (!server) {
			return;
		}
		let child;
		// The request that kills it has been stored; its answer finds nobody.
		const proxy = await LossyProxy.start(t, server.url, (n) => {
			if (n === program.dieIn) {
				child.kill('SIGKILL');
				return fate.LOST_ANSWER;
			}
		});
		child = run(t, server, program, proxy.url, '--run', 'same');
		assert.deepEqual(await child.done, [null, 'SIGKILL']);
		child = run(t, server, program, proxy.url, '--run', 'same');
		assert.deepEqual(await child.done, [0, null], child.output);
		await assertOnceAndWhole(server);
	});

	test(`${program.name}: a refusal ends it, with the server's words`, async (t) => {
		const server = await Server.start(t);
		const child = run(t, server, program, server.url, '--run', 'x'.repeat(10_000));
		const [code] = await child.done;
		assert.equal(code, 1);
		assert.match(child.output, /"error"/);
		assert.doesNotMatch(child.output, /trying again/);
	});
}

test('the curl line of examples/README.md adds its events once', async (t) => {
	const server = await startServer(t);
	if (!server) {
		return;
	}
	const [, line] = /^```sh\n(curl[\s\S]+?)^```$/m.exec(readFileSync(`${examples}README.md`, 'utf8'));
	const answers = [];
	for (const attempt of ['first', 'second']) {
		const curl = spawn('bash', ['-c', line.replace('http://127.0.0.1:8080', server.url)], { env: { ...process.env, HOLDFAST_TOKEN: server.token }, stdio: ['ignore', 'pipe', 'inherit'] });
		defer(t, () => curl.kill('SIGKILL'));
		let output = '';
		curl.stdout.on('data', (d) => (output += d));
		assert.deepEqual(await within(once(curl, 'close'), 20_000, () => `the ${attempt} curl to end`), [0, null]);
		answers.push(JSON.parse(output).acks);
	}
	assert.deepEqual(answers, [false, true].map((duplicate) => [{ seq: 1, duplicate }, { seq: 2, duplicate }]));
});
