// A disk that fails at the worst moment: nothing is lost, nothing comes twice, and nothing is stuck for ever.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { download, sha256 } from '../support/blobs.mjs';
import { FaultyDisk, hasFaultyDisk } from '../support/faulty_disk.mjs';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const can = hasFaultyDisk();
if (!can) {
	console.log('the tests in C are not built here: no disk fails');
	test('no disk can fail here', () => assert.equal(hasFaultyDisk(), false));
}

// Does what its prompt says, a JSON array of steps, after each of which it waits for its turn in the file `go`:
//   ["say", text…]  says all of them in one piece      ["end"]  ends the turn, and says what follows outside of it
const AGENT = `
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const go = process.argv[2];
const line = (message) => JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n';
const update = (text) => line({ method: 'session/update', params: { sessionId: 's', update: {
	sessionUpdate: 'tool_call', toolCallId: text, title: text, kind: 'other', status: 'completed',
	content: text === 'file' ? [{ type: 'content', content: { type: 'resource', resource: { uri: 'file:///f', text: 'x'.repeat(9000) } } }] : [] } } });
const steps = () => existsSync(go) ? Number(readFileSync(go, 'utf8')) : 0;
let done = 0;
async function play(id, prompt) {
	let ended = false;
	for (const [name, ...texts] of JSON.parse(prompt)) {
		while (steps() <= done) {
			await new Promise((resolve) => setTimeout(resolve, 5));
		}
		done++;
		const end = name === 'end' ? line({ id, result: { stopReason: 'end_turn' } }) : '';
		process.stdout.write(texts.map(update).join('') + end, () => writeFileSync(go + '.said', String(done)));
		ended ||= name === 'end';
	}
	if (!ended) {
		process.stdout.write(line({ id, result: { stopReason: 'end_turn' } }));
	}
}
createInterface({ input: process.stdin }).on('line', (text) => {
	const { id, method, params } = JSON.parse(text);
	if (method === 'initialize') {
		process.stdout.write(line({ id, result: { protocolVersion: 1 } }));
	} else if (method === 'session/new') {
		process.stdout.write(line({ id, result: { sessionId: 's' } }));
	} else if (method === 'session/prompt') {
		play(id, params.prompt[0].text);
	}
});
`;

async function start(t) {
	const dir = scratchDir(t);
	const disk = new FaultyDisk(dir);
	const go = join(dir, 'go');
	writeFileSync(join(dir, 'agent.mjs'), AGENT);
	const server = await Server.start(t, {
		agent: `exec '${process.execPath}' '${join(dir, 'agent.mjs')}' '${go}'`, env: disk.env,
		args: ['--limit', 'journal_retry_ms=20', '--limit', 'agent_stop_ms=200'],
	});
	const { id } = await server.createSession();
	let steps = 0;
	const said = (count) => eventually(() => existsSync(`${go}.said`) && Number(readFileSync(`${go}.said`, 'utf8')) >= count, `step ${count} of the agent`);
	return { server, disk, id, said, step: () => writeFileSync(go, String(++steps)) };
}

async function watch(t, server, id) {
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown', client_id: 'anna' } });
	await observer.loadAll();
	return observer;
}

/** What the log says, as `user_prompt a b turn_end`: of a tool call its name. */
const storyOf = (events) => events.filter((e) => e.type !== 'agent_started').map((e) => e.data.tool_call_id ?? e.type).join(' ');

const hasFailed = (server, times = 1) => eventually(() => server.stderr.split('cannot be written').length > times, 'the disk to fail');

/** What came in before this has been read when it is over: the loop has gone round. */
async function goRound(server) {
	await server.request('GET', '/healthz');
	await server.request('GET', '/healthz');
}

can && test('what an agent says in several batches is stored once, whichever fails', async (t) => {
	const { server, disk, id, step, said } = await start(t);
	const observer = await watch(t, server, id);
	await observer.prompt(JSON.stringify([['say', 'a'], ['say', 'b', 'c'], ['end', 'd']]), 'p-1');
	await observer.prompt(JSON.stringify([['say', 'e'], ['end', 'f']]), 'p-2');
	step();
	await observer.waitForEvent((e) => e.data.tool_call_id === 'a');
	disk.hold();
	step();
	await disk.isHolding(); // b and c are on their way
	step();
	await said(3);
	await goRound(server); // d and the end of the turn are in the batch behind them
	disk.failAfter(1);
	await hasFailed(server);
	disk.pass();
	step();
	step();
	await observer.waitUntil(() => observer.events().filter((e) => e.type === 'turn_end').length === 2, 'two turns');
	assert.equal(storyOf(observer.events()), 'user_prompt a b c d turn_end user_prompt e f turn_end');
	assert.deepEqual(observer.events(), readLog(server, id));
});

can && test('a turn that begins by a file, outside of a prompt, when the disk works again, ends', async (t) => {
	const { server, disk, id, step, said } = await start(t);
	const observer = await watch(t, server, id);
	const { seq } = await observer.prompt(JSON.stringify([['end'], ['say', 'file']]), 'p-1');
	step();
	await observer.waitForEvent('turn_end', { after: seq });
	disk.slow('upload');
	step();
	await said(2);
	await disk.isSlow(); // the file is on its way
	disk.fail();
	await assert.rejects(post(server, id, [input.note({ n: 1 })]));
	await hasFailed(server, 0);
	disk.slow('');
	await eventually(async () => (await download(server, id, sha256(Buffer.alloc(9000, 'x')))).status === 200, 'the file');
	await goRound(server);
	disk.pass();
	await observer.waitForEvent('tool_call');
	await observer.waitUntil(() => observer.events().filter((e) => e.type === 'turn_end').length === 2, 'the end of its turn');
});

can && test('an agent that died with the server is ended, though the first write after it fails', async (t) => {
	const { server, disk, id, step } = await start(t);
	const observer = await watch(t, server, id);
	await observer.prompt(JSON.stringify([['say', 'a'], ['say', 'never']]), 'p-1');
	step();
	await observer.waitForEvent('tool_call');
	await observer.prompt(JSON.stringify([['end', 'b']]), 'p-2');
	await server.kill9();
	// The start itself needs the disk some times; what comes next is the end of the agent.
	for (let count = 0; ; count++) {
		disk.failFrom(count);
		try {
			await server.up();
			break;
		} catch (error) {
			assert.ok(count < 20, error);
		}
	}
	await hasFailed(server);
	const after = await watch(t, server, id);
	assert.equal(storyOf(after.events()), 'user_prompt a');
	disk.pass();
	await after.waitForEvent('agent_stopped');
	step();
	await after.waitUntil(() => after.events().filter((e) => e.type === 'turn_end').length === 2, 'the prompt that waited');
	assert.equal(storyOf(after.events()), 'user_prompt a agent_stopped turn_end user_prompt b turn_end');
	assert.equal(after.events().find((e) => e.type === 'agent_stopped').data.reason, 'server_restart');
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.status, 'idle');
});
