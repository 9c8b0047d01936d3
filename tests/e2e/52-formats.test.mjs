// The formats on disk, from one program to the next: data directories that programs of earlier formats left are opened and
// served as they were, and what a later program wrote is refused by name and left as it is.

import assert from 'node:assert/strict';
import { cpSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { Producer, post } from '../support/producer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const fixtures = fileURLToPath(new URL('../fixtures/', import.meta.url));

/** A copy of a fixture, and what the program that made it served. */
function take(t, name) {
	const dir = join(scratchDir(t), 'data');
	cpSync(join(fixtures, name), dir, { recursive: true });
	return { dir, known: JSON.parse(readFileSync(join(fixtures, `${name}.json`), 'utf8')) };
}

function postText(server, id, body) {
	return server.request('POST', `/api/sessions/${id}/events`, { body, headers: { 'content-type': 'application/json' } });
}

/** Everything that was open is long due when it is read again: it goes out at once. */
const DUE = ['soft_flush_ms', 'idle_flush_ms', 'idle_block_flush_ms', 'hold_ms', 'hold_fence_ms', 'thought_flush_ms']
	.flatMap((name) => ['--limit', `${name}=1`]);

/** What goes out of a session of the fixture that has something open. */
const OPEN = { open: ['agent_message', 'tool_call', 'plan'], thinking: ['agent_thought'], running: ['agent_message'] };

async function look(t, server, id, { session: { first_seq: first, max_seq: max } }) {
	const path = `/api/sessions/${id}`;
	const due = max + (OPEN[id]?.length ?? 0);
	await eventually(async () => (await server.request('GET', path)).body.max_seq >= due, `${id} to have event ${due}`);
	const { body } = await server.request('GET', `${path}/events?format=markdown&limit=5000&after_seq=${first - 1}`);
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.load({ limit: 1 });
	const { data } = await observer.waitFor('state');
	observer.finish();
	const seen = { session: (await server.request('GET', path)).body, events: body.events, usage: data.usage, status: data.status };
	return JSON.parse(JSON.stringify(seen)); // as the fixture came: without -0
}

async function checkSession(t, server, id, was, when) {
	const is = await look(t, server, id, was);
	const count = was.events.length;
	const lasting = ({ id: name, title, epoch, first_seq: first, created_at: at }) => ({ name, title, epoch, first, at });
	assert.deepEqual(lasting(is.session), lasting(was.session), when);
	assert.deepEqual(is.events.slice(0, count), was.events, `${id} ${when}`);
	assert.deepEqual(is.usage, was.usage, `${id} ${when}`);
	if (was.open) {
		const { markdown, text = markdown } = is.events[count].data;
		assert.deepEqual([is.events[count].seq, text], [was.open.seq, was.open.text], `${id} ${when}`);
	}
	if (id !== 'queue') { // its agent is gone, and the turn ended
		assert.deepEqual(is.events.slice(count).map((event) => event.type), OPEN[id] ?? [], `${id} ${when}`);
		assert.equal(is.status, was.status, `${id} ${when}`);
	}
}

/** Every key is known, however its data is written; with other data it is refused. */
async function checkKeys(server, keys) {
	assert.ok(keys.length > 60);
	for (const { id, seq, texts } of keys) {
		for (const text of texts) {
			const { status, body } = await postText(server, id, text);
			assert.equal(status, 200, `${text}: ${JSON.stringify(body)}`);
			assert.deepEqual(body.acks, [{ seq, duplicate: true }], text);
		}
		const { key } = JSON.parse(texts[0]);
		const { status, body } = await postText(server, id, JSON.stringify({ type: 'x-note', key, data: { other: 1 } }));
		assert.equal(status, 409, key);
		assert.equal(body.error.code, 'key_conflict');
	}
}

/** What inputs named is still known: message ids, tool calls, prompts, permission requests. */
async function checkNames(t, server) {
	const producer = await Producer.connect(t, server, 'idle');
	const block = (message) => ({ role: 'assistant', ...message });
	const handed = await producer.handOver([
		block({ message_id: 'm-1', content: '# A heading\n\nA paragraph.\n\n' }),
		block({ message_id: 'm-x', content: [{ type: 'tool_use', id: 'call_1', name: 'run', input: {} }] }),
		block({ message_id: 'm-2', content: 'More.\n\n' }),
	]);
	assert.equal(handed.known, 2);
	const { body: { events } } = await server.request('GET', '/api/sessions/idle/events');
	assert.equal(events.filter((event) => event.type === 'tool_call').length, 1);
	const resolved = (id) => ({ type: 'permission_resolved', data: { request_id: id, outcome: 'selected', option_id: 'yes', by: 'c-2' } });
	const { status, body } = await server.request('POST', '/api/sessions/asking/events', { json: resolved('q-1') });
	assert.deepEqual([status, body.error?.code], [409, 'already_resolved']);
	const { max_seq: max } = await post(server, 'asking', resolved('q-2'));
	assert.equal(max, 5);
}

for (const name of ['data-v1/killed', 'data-v1/stopped']) {
	test(`${name}: what an earlier program left is served as that program served it`, async (t) => {
		const { dir, known } = take(t, name);
		const verified = await runToEnd(['verify', dir]);
		assert.equal(verified.code, 0, verified.stdout + verified.stderr);
		const server = await Server.start(t, { dataDir: dir, args: DUE });
		assert.doesNotMatch(server.stderr, /error|set aside/i);
		for (const when of ['at once', 'after a restart']) {
			for (const [id, was] of Object.entries(known.sessions)) {
				await checkSession(t, server, id, was, when);
			}
			for (const id of known.gone) {
				assert.equal((await server.request('GET', `/api/sessions/${id}`)).status, 404);
			}
			await checkKeys(server, known.keys);
			if (when === 'at once') {
				await server.stop();
				await server.restart();
			}
		}
		await checkNames(t, server);
		await server.stop();
		const clean = await runToEnd(['verify', dir]);
		assert.equal(clean.code, 0, clean.stdout + clean.stderr);
	});
}

/** All files below a directory, as name -> bytes in hex. */
function readTree(dir) {
	const names = readdirSync(dir, { recursive: true }).sort().map((name) => join(dir, name));
	return names.map((name) => [name, statSync(name).isFile() ? readFileSync(name, 'hex') : null]);
}

test('what a later program left is refused by name, and left as it is', async (t) => {
	const dir = join(scratchDir(t), 'data');
	cpSync(join(fixtures, 'data-later'), dir, { recursive: true });
	const before = readTree(dir);
	for (const args of [['serve', '--listen', '127.0.0.1:0', '--data', dir], ['new-epoch', dir]]) {
		const { code, stderr } = await runToEnd(args);
		assert.notEqual(code, 0);
		assert.match(stderr, /journal\/[0-9a-f]{16}\.journal cannot be read: session \w+ has a snapshot there of version 255/);
		assert.match(stderr, /this program \(holdfast [0-9.]+\) reads .*: a newer holdfast is needed/);
		assert.deepEqual(readTree(dir), before);
	}
	const { code, stdout } = await runToEnd(['verify', dir]);
	assert.equal(code, 1);
	assert.match(stdout, /^journal\/[0-9a-f]{16}\.journal: byte \d+: session \w+ has a snapshot there of version 255.* a newer holdfast is needed$/m);
});
