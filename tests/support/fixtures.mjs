// Data directories that programs of earlier formats left (tests/fixtures), and whether a server shows them as those programs did.

import assert from 'node:assert/strict';
import { cpSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Observer } from './observer.mjs';
import { Producer, post } from './producer.mjs';
import { scratchDir } from './server.mjs';
import { eventually } from './wait.mjs';

export const fixtures = fileURLToPath(new URL('../fixtures/', import.meta.url));

/** Of each format: what a program left when it was killed, and when it was stopped. */
export const allFixtures = readdirSync(fixtures).filter((name) => /^data-v\d+$/.test(name)).sort().flatMap((name) => [`${name}/killed`, `${name}/stopped`]);

/** A copy of a fixture, and what the program that made it served. */
export function take(t, name) {
	const dir = join(scratchDir(t), 'data');
	cpSync(join(fixtures, name), dir, { recursive: true });
	return { dir, known: JSON.parse(readFileSync(join(fixtures, `${name}.json`), 'utf8')) };
}

function postText(server, id, body) {
	return server.request('POST', `/api/sessions/${id}/events`, { body, headers: { 'content-type': 'application/json' } });
}

/** Everything that was open is long due when it is read again: it goes out at once. */
export const DUE = ['soft_flush_ms', 'idle_flush_ms', 'idle_block_flush_ms', 'hold_ms', 'hold_fence_ms', 'thought_flush_ms']
	.flatMap((name) => ['--limit', `${name}=1`]);

/** What goes out of a session of the fixture that has something open. */
const OPEN = { open: ['agent_message', 'tool_call', 'plan'], thinking: ['agent_thought'], running: ['agent_message'], split: ['agent_message'] };

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

export async function checkSession(t, server, id, was, when) {
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
export async function checkKeys(server, keys) {
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
export async function checkNames(t, server) {
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

/** All of it: sessions, keys and names. It changes the directory: once for each. */
export async function checkAll(t, server, known) {
	for (const [id, was] of Object.entries(known.sessions)) {
		await checkSession(t, server, id, was, 'at once');
	}
	for (const id of known.gone) {
		assert.equal((await server.request('GET', `/api/sessions/${id}`)).status, 404);
	}
	await checkKeys(server, known.keys);
	await checkNames(t, server);
}
