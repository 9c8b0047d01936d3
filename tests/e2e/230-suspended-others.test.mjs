// A server that was stopped for longer than its limits (see 176), and those who are no clients: the receivers of its own requests, the disk,
// the helper for files, agents; and those whose bytes come in pieces.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sha256 } from '../support/blobs.mjs';
import { Editor } from '../support/editor.mjs';
import { FaultyDisk, hasFaultyDisk } from '../support/faulty_disk.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { PushService } from '../support/push_service.mjs';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { scriptedAgent } from '../support/scripted_agent.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { SHORT, limits, suspend } from '../support/suspend.mjs';
import { bearer } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';
import { Receiver } from '../support/webhook_receiver.mjs';

const FIRST = 'HTTP/1.1 204 No Content\r\n';
const REST = 'Content-Length: 0\r\n\r\n';

/** Answers requests in two pieces: the second one when the server has read the first, after it went on. */
function inPieces() {
	const sockets = [];
	return {
		answer: (socket) => sockets.push(socket),
		asked: (count) => eventually(() => sockets.length === count, `${count} requests`),
		begin: () => sockets.at(-1).write(FIRST),
		end: () => sockets.at(-1).write(REST),
		count: () => sockets.length,
	};
}

for (const kind of ['webhook', 'push message']) {
	test(`who answers a ${kind} slowly, and meanwhile the server is stopped, has as much time as ever`, async (t) => {
		const pieces = inPieces();
		const receiver = kind === 'webhook' ? await Receiver.start(t) : await PushService.start(t);
		const name = kind === 'webhook' ? 'webhook' : 'push';
		const server = await Server.start(t, { args: [...receiver.args(), ...limits([`${name}_ms`]), '--limit', `${name}_retry_ms=1`, '--limit', 'push_delay_ms=0'] });
		if (kind === 'webhook') {
			receiver.answer = () => (socket) => pieces.answer(socket);
		} else {
			receiver.take = (request) => pieces.answer(request.socket);
			const { headers, body } = await server.request('POST', '/api/login', { json: { token: server.token }, headers: { origin: server.url, authorization: undefined } });
			const login = { authorization: undefined, cookie: headers.get('set-cookie').split(';')[0], 'holdfast-login': body.login };
			assert.equal((await server.request('POST', '/api/push', { headers: login, json: receiver.subscribe().json })).status, 204);
		}
		await server.createSession({ id: 's' });
		await post(server, 's', [input.text('x\n\n'), { type: 'permission_request', data: { request_id: 'q', tool_call: { tool_call_id: 'q' }, options: [{ option_id: 'a', name: 'A' }] } }]);
		await pieces.asked(1);
		await suspend(server.pid, () => pieces.begin(), 2 * SHORT);
		await sleep(SHORT / 6); // in which it reads the first piece
		pieces.end();
		const counted = async (result) => (await readMetrics(server))(`${name}_messages_total{result="${result}"}`);
		await eventually(async () => (await counted('sent')) + (await counted('failed')) + pieces.count() > 1, 'the end of the request');
		assert.deepEqual([await counted('sent'), await counted('failed'), pieces.count()], [1, 0, 1]);
	});
}

test('the half of an upload that comes meanwhile, and an editor that has prompted meanwhile, are read', async (t) => {
	const server = await Server.start(t, { args: limits(['receive_ms', 'ping_ms', 'pong_ms']), agent: scriptedAgent(t, `
		on['session/prompt'] = async ({ id, params }) => {
			const { result } = await ask(70, 'session/request_permission', { sessionId: 's', toolCall: { toolCallId: 'c', title: 'x' }, options: [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }] });
			text(result.outcome.optionId);
			answer(id, { stopReason: 'end_turn' });
		};`) });
	await server.createSession({ id: 's' });
	const bytes = Buffer.alloc(100_000, 'a');
	const upload = await RawSocket.connect(t, server);
	await upload.send(head('POST', '/api/sessions/s/blobs', { ...bearer(server.token), 'Content-Type': 'text/plain', 'Content-Length': bytes.length }));
	await upload.send(bytes.subarray(0, 50_000));
	const editor = await Editor.open(t, server);
	const { sessionId } = await editor.request('session/new', { cwd: scratchDir(t), mcpServers: [] });
	let prompted;
	await suspend(server.pid, async () => {
		prompted = editor.request('session/prompt', { sessionId, prompt: [{ type: 'text', text: 'hello' }] });
		await upload.send(bytes.subarray(50_000));
	});
	const { status, body } = await upload.answer();
	assert.equal(status, 201, body);
	assert.equal(JSON.parse(body).blob, sha256(bytes));
	await eventually(() => editor.questions.length === 1, 'the question');
	await suspend(server.pid, () => editor.questions[0].answer({ outcome: { outcome: 'selected', optionId: 'yes' } }));
	assert.equal((await prompted).stopReason, 'end_turn');
	assert.ok(editor.updates.some(({ update }) => update.content?.text === 'yes'));
	await sleep(1.5 * SHORT); // all sweeps have judged
	assert.equal(editor.closed, false);
});

/** The helpers for files that a server has: children of its spawner, or of a guard. */
function helpersOf(pid) {
	const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((name) => {
		try {
			const parent = Number(/\) \S (?<parent>\d+)/.exec(readFileSync(`/proc/${name}/stat`, 'utf8')).groups.parent);
			return [{ pid: Number(name), parent, command: readFileSync(`/proc/${name}/cmdline`, 'utf8') }];
		} catch {
			return []; // it has ended
		}
	});
	const below = (parent) => all.filter((one) => one.parent === parent).flatMap((one) => [one, ...below(one.pid)]);
	return below(pid).filter(({ command }) => command.includes('agent-files'));
}

test('an agent that waits for a file gets it, though the server was stopped when the helper answered', async (t) => {
	const server = await Server.start(t, { args: limits(['agent_file_ms']), agent: scriptedAgent(t, `
		on['session/prompt'] = async ({ id }) => {
			for (const no of [1, 2]) {
				text('Reading.\\n\\n');
				const { result, error } = await ask(70 + no, 'fs/read_text_file', { sessionId: 's', path: process.cwd() + '/a.txt' });
				text((result?.content ?? error.message) + '.\\n\\n');
			}
			answer(id, { stopReason: 'end_turn' });
		};`) });
	await server.createSession({ id: 's' });
	writeFileSync(join(server.dataDir, '..', 'a.txt'), 'what it says');
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
	await observer.loadAll();
	const { seq } = await observer.prompt('go');
	const said = () => observer.events().filter(({ type }) => type === 'agent_message').map(({ data }) => data.markdown.trim());
	await observer.waitForEvent(({ data }) => data.markdown?.includes('what it says'));
	const [helper] = helpersOf(server.pid);
	assert.ok(helper, 'the helper runs');
	await observer.waitForEvent('turn_end', { after: seq });
	process.kill(helper.pid, 'SIGSTOP');
	t.after(() => {
		try {
			process.kill(helper.pid, 'SIGCONT');
		} catch {
			// it has ended
		}
	});
	const { seq: second } = await observer.prompt('again');
	await observer.waitForEvent(({ data }) => data.markdown?.includes('Reading'), { after: second });
	await server.request('GET', '/healthz'); // it has read the agent's request
	await suspend(server.pid, () => process.kill(helper.pid, 'SIGCONT'), 2 * SHORT);
	await observer.waitForEvent('turn_end', { after: second });
	assert.deepEqual(said().filter((text) => text !== 'Reading.'), Array(4).fill('what it says.'));
});

test('a list that goes on meanwhile is not cut: what continues it is read first', async (t) => {
	const server = await Server.start(t, { args: limits(['idle_flush_ms', 'idle_block_flush_ms', 'hold_ms']) });
	await server.createSession({ id: 's' });
	const producer = await Producer.connect(t, server, 's');
	await producer.append(input.text('- one\n'));
	let acked;
	await suspend(server.pid, () => {
		acked = producer.append(input.text('- two\n'), input.end());
	}, 2 * SHORT);
	await acked;
	const { body } = await server.request('GET', '/api/sessions/s/events?format=markdown');
	assert.deepEqual(body.events.map(({ type, data }) => data.markdown ?? type), ['- one\n- two\n', 'turn_end']);
});

const can = hasFaultyDisk();
if (!can) {
	console.log('the tests in C are not built here: no disk is slow');
}

can && test('a search whose disk was read meanwhile names no session as unread', async (t) => {
	const disk = new FaultyDisk(scratchDir(t));
	const args = [...limits(['search_wait_ms']), '--limit', 'hot_tail_size=1024'];
	const server = await Server.start(t, { env: disk.env, args });
	await server.createSession({ id: 's' });
	await post(server, 's', [input.text('A needle.\n\n'), ...Array.from({ length: 50 }, () => input.text(`${'hay '.repeat(100)}\n\n`)), input.end()]);
	disk.slowOpen('events.jsonl');
	const found = server.request('GET', '/api/search?q=needle');
	await disk.isSlow();
	await suspend(server.pid, () => disk.slowOpen(''), 2 * SHORT);
	const { status, body } = await found;
	assert.equal(status, 200, JSON.stringify(body));
	assert.deepEqual([body.hits.length, body.unread ?? []], [1, []], JSON.stringify(body));
});
