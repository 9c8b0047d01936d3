// Producers that hand over what they have handed over: the whole state, an agent that is resumed from its start, a
// request whose answer was lost, a run that is over.

import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server } from '../support/server.mjs';

const pause = () => new Promise((resolve) => setTimeout(resolve, 5));

/** Asks again and again until the answer is true. */
async function until(probe, what) {
	for (const end = Date.now() + 20_000; Date.now() < end; await pause()) {
		if (await probe()) {
			return;
		}
	}
	throw new Error(`waited 20 s for ${what}`);
}

/** Waits until the session has left the server's memory: its log is closed then. */
function evicted(server, id) {
	const isOpen = () => readdirSync(`/proc/${server.pid}/fd`).some((fd) => {
		try {
			return readlinkSync(`/proc/${server.pid}/fd/${fd}`).endsWith(`/${id}/events.jsonl`);
		} catch {
			return false; // closed meanwhile
		}
	});
	return until(() => !isOpen(), `the session ${id} to leave memory`);
}

/** A refusal over HTTP: {status, code, message}. */
async function refusedPost(server, id, events) {
	const { status, body } = await server.request('POST', `/api/sessions/${id}/events`, { json: events });
	assert.notEqual(status, 200, 'it was taken');
	return { status, ...body.error };
}

// --- replay ---

const assistant = (block) => ({ role: 'assistant', content: [block] });

/** 69 messages, each of which is one event: a turn of 35, and one of 34. */
function makeConversation() {
	const messages = [];
	const add = (message) => messages.push({ message_id: `m-${messages.length}`, ...message });
	const call = (n) => [assistant({ type: 'tool_use', id: `call_${n}`, name: 'run', input: { n } }),
		{ role: 'user', content: [{ type: 'tool_result', tool_use_id: `call_${n}`, content: `result ${n}` }] }];
	for (const [turn, count] of [[1, 35], [2, 34]]) {
		add({ role: 'user', content: `Prompt ${turn}` });
		const from = messages.length - 1;
		for (let n = 0; messages.length - from < count; n++) {
			[assistant({ type: 'thinking', thinking: `Thought ${turn}.${n}` }),
				...(turn === 1 ? [assistant({ type: 'text', text: `Text ${turn}.${n}` })] : []),
				...call(`${turn}_${n}`)].slice(0, count - (messages.length - from)).forEach(add);
		}
	}
	return messages;
}

/** What a message is as input events, sent while it came in: text in two pieces. */
function liveEvents({ message_id, role, content }) {
	const as = (type, data) => ({ type, message_id, data });
	if (typeof content === 'string') {
		assert.equal(role, 'user');
		return [as('user_prompt', { message: content })];
	}
	const [block] = content;
	const halves = (text) => [text.slice(0, 4), text.slice(4)];
	switch (block.type) {
		case 'thinking':
			return halves(block.thinking).map((text) => as('agent_thought_chunk', { text }));
		case 'text':
			return halves(block.text).map((text) => as('agent_message_chunk', { text }));
		case 'tool_use':
			return [as('tool_call', { tool_call_id: block.id, title: block.name, status: 'pending' })];
		default:
			return [as('tool_call_update', { tool_call_id: block.tool_use_id, status: 'completed' })];
	}
}

const conversation = makeConversation();

/** Asserts that a log is that conversation, each message once. */
function assertConversation(events) {
	assert.deepEqual(events.map((e) => e.seq), Array.from({ length: 69 }, (_, i) => i + 1));
	assert.deepEqual(events.map((e) => e.message_id), conversation.map((m) => m.message_id));
	const ids = (type) => events.filter((e) => e.type === type).map((e) => e.data.tool_call_id);
	for (const type of ['tool_call', 'tool_call_update']) {
		assert.equal(new Set(ids(type)).size, ids(type).length, `a ${type} is there twice`);
	}
	const texts = (blockType, member) => conversation.flatMap((m) => (Array.isArray(m.content) ? m.content : []))
		.filter((b) => b.type === blockType).map((b) => b[member]);
	assert.deepEqual(events.filter((e) => e.type === 'agent_thought').map((e) => e.data.text), texts('thinking', 'thinking'));
	assert.deepEqual(events.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown), texts('text', 'text'));
}

test('turn 2 hands over all 69 messages of which turn 1 has appended 35: 69 events', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.load();
	let producer = await Producer.connect(t, server, id);
	for (const message of conversation.slice(0, 35)) {
		await producer.append(...liveEvents(message));
	}
	const taken = await producer.handOver(conversation);
	assert.deepEqual([taken.known, taken.added, taken.max_seq], [35, 34, 69]);
	assert.deepEqual(taken.acks, Array.from({ length: 34 }, (_, i) => ({ seq: 36 + i, duplicate: false })));
	assertConversation(await observer.waitForSeq(69));

	// A third time, from a producer that was started again, and after a crash.
	for (const wayOn of ['the same connection', 'another one', 'kill -9']) {
		if (wayOn === 'kill -9') {
			await server.kill9();
			await server.restart();
		}
		producer = wayOn === 'the same connection' ? producer : await Producer.connect(t, server, id);
		for (const options of [{}, { skip_first: 35 }, { skip_first: 69 }]) {
			const again = await producer.handOver(conversation, options);
			assert.deepEqual([again.known, again.added, again.acks, again.max_seq], [69, 0, [], 69], wayOn);
		}
	}
	assertConversation(readLog(server, id));
});

test('a snapshot with skip_first needs no content for what it skips, and must fit', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const producer = await Producer.connect(t, server, id);
	const first = await producer.handOver(conversation.slice(0, 35));
	assert.deepEqual([first.known, first.added], [0, 35]);

	const swapped = [conversation[1], conversation[0], ...conversation.slice(2)];
	for (const [messages, skip, index] of [
		[swapped, 35, 0],
		[[...conversation.slice(0, 6), { ...conversation[6], message_id: 'other' }, ...conversation.slice(7)], 35, 6],
		[conversation.slice(1), 34, 0],
		[conversation, 36, 35],
	]) {
		const error = await producer.refused('append_snapshot', { messages, skip_first: skip });
		assert.deepEqual([error.code, error.index], ['history_mismatch', index], error.message);
	}
	const wrong = await producer.refused('append_snapshot', { messages: conversation, skip_first: 70 });
	assert.equal(wrong.code, 'bad_request');
	const twice = await producer.refused('append_snapshot', { messages: [...conversation, conversation[3]] });
	assert.deepEqual([twice.code, twice.index], ['duplicate_message_id', 69]);

	const bare = conversation.map((m, i) => (i < 35 ? { message_id: m.message_id } : m));
	const second = await producer.handOver(bare, { skip_first: 35 });
	assert.deepEqual([second.known, second.added, second.max_seq], [35, 34, 69]);
	assertConversation(readLog(server, id));
});

test('two producers that hand the same state over at once add it once', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const producers = await Promise.all([1, 2, 3].map(() => Producer.connect(t, server, id)));
	const results = await Promise.all(producers.map((p) => p.handOver(conversation)));
	assert.equal(results.reduce((sum, r) => sum + r.added, 0), 69);
	assert.ok(results.every((r) => r.max_seq === 69), 'acknowledged before it was shown');
	assertConversation(readLog(server, id));
});

// --- resume ---

const CHECKPOINTS = [0, 1].flatMap((n) => [0, 1, 2].map((i) => ({ ...input.note({ n, i }), key: `cp${n}:e${i}` })));
const sixEntries = CHECKPOINTS.map(({ data }) => data);

/** Asserts that a log has the six entries, once, and nothing else. */
function assertSix(server, id) {
	assert.deepEqual(readLog(server, id).map((e) => e.data), sixEntries);
}

/** All acks of an append, which must have been told of these seqs. */
function assertAcks(acks, firstIsNew) {
	assert.deepEqual(acks, acks.map((_, i) => ({ seq: i + 1, duplicate: i < firstIsNew })));
}

test('an agent that suspends and replays from its start 10 times leaves 6 entries', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	await observer.load();
	let done = 0;
	for (let round = 1; round <= 10; round++) {
		const producer = await Producer.connect(t, server, id);
		const upTo = Math.max(1, Math.ceil((CHECKPOINTS.length * round) / 10));
		for (const [i, event] of CHECKPOINTS.slice(0, upTo).entries()) {
			const { acks } = await producer.append(event);
			assert.deepEqual(acks, [{ seq: i + 1, duplicate: i < done }]);
		}
		done = upTo;
		await producer.close();
	}
	assert.equal(observer.last, 6);
	assertSix(server, id);
});

test('the same after kill -9 between any two appends', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	for (let killedAt = 0; killedAt <= CHECKPOINTS.length; killedAt++) {
		const producer = await Producer.connect(t, server, id);
		for (const [i, event] of CHECKPOINTS.slice(0, killedAt).entries()) {
			const { acks } = await producer.append(event);
			assert.deepEqual(acks, [{ seq: i + 1, duplicate: i < killedAt - 1 }]);
		}
		await server.kill9();
		await server.restart();
	}
	const { acks } = await post(server, id, CHECKPOINTS);
	assertAcks(acks, 6);
	assertSix(server, id);
});

test('an append whose acknowledgement was lost is found by the retry on another connection', async (t) => {
	const server = await Server.start(t);
	for (let round = 0; round < 50; round++) {
		const { id } = await server.createSession();
		const [first, second] = await Promise.all([1, 2].map(() => Producer.connect(t, server, id)));
		// The retry comes while the first may be on its way to the disk, and when the connection is gone.
		await first.push(...CHECKPOINTS);
		if (round % 2) {
			first.drop();
		}
		const { acks } = await second.append(...CHECKPOINTS);
		assert.deepEqual(acks.map((a) => a.seq), [1, 2, 3, 4, 5, 6]);
		const third = await post(server, id, CHECKPOINTS.slice(3));
		assert.deepEqual(third.acks, [4, 5, 6].map((seq) => ({ seq, duplicate: true })));
		assertSix(server, id);
		await second.close();
	}
});

test('keys are known when their events have been pruned', async (t) => {
	const server = await Server.start(t, { args: ['--keep-events', '2', '--limit', 'prune_ms=20'] });
	const { id } = await server.createSession();
	await post(server, id, CHECKPOINTS);
	await post(server, id, [input.text('The end.'), input.end()]);
	const firstSeq = async () => (await server.request('GET', `/api/sessions/${id}`)).body.first_seq;
	await until(async () => (await firstSeq()) > 6, 'the six entries to be pruned');
	for (let starts = 0; starts < 2; starts++) {
		assertAcks((await post(server, id, CHECKPOINTS)).acks, 6);
		const conflict = await refusedPost(server, id, { ...CHECKPOINTS[0], data: { other: true } });
		assert.equal(conflict.code, 'key_conflict');
		await server.kill9();
		await server.restart();
	}
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.max_seq, 8);
});

test('keys, messages and the run are known when the session has left memory', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'evict_ms=1'] });
	const { id } = await server.createSession();
	await post(server, id, CHECKPOINTS);
	await post(server, id, [input.runStart('a'), { ...input.note({ of: 'a' }), run_id: 'a' }, input.runStart('b')]);
	await evicted(server, id);
	assertAcks((await post(server, id, CHECKPOINTS)).acks, 6);
	await evicted(server, id);
	assert.equal((await refusedPost(server, id, { ...input.note({}), run_id: 'a' })).code, 'stale_run');
	await evicted(server, id);
	assert.equal((await refusedPost(server, id, input.note({}))).code, 'run_active');
	await evicted(server, id);
	await post(server, id, input.runEnd('b'));
	await evicted(server, id);
	assert.equal((await post(server, id, input.note({ last: true }))).acks[0].seq, 8);
});

test('a key with other content is a conflict, and nothing of that append is taken', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const event = { ...input.text('Looking', 'm-1'), key: 'k' };
	const others = [
		{ ...event, data: { text: 'Looking ' } },
		{ ...event, message_id: 'm-2' },
		{ ...event, type: 'agent_thought_chunk' },
		{ ...input.note({ text: 'Looking' }), key: 'k' },
		{ ...input.textComplete(), key: 'k' },
	];
	// Against one in front of it in the same append, one on its way to the disk, one that is there.
	for (const other of others) {
		const { status, code } = await refusedPost(server, id, [event, other]);
		assert.deepEqual([status, code], [409, 'key_conflict']);
	}
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.max_seq, 0);
	const producer = await Producer.connect(t, server, id);
	const ref = await producer.push(event, event, input.note({}));
	for (const other of others) {
		const { code, index } = await producer.refused('append', { events: [input.note({ lost: true }), other] });
		assert.deepEqual([code, index], ['key_conflict', 1]);
	}
	const { acks } = await producer.acked(ref);
	assert.deepEqual(acks, [{ seq: 1, duplicate: false }, { seq: 1, duplicate: true }, { seq: 2, duplicate: false }]);
	// The order of members is none of the content.
	const same = { key: 'k', data: { b: 1, a: { d: [], c: null } }, type: 'x-note' };
	const [first] = (await producer.append({ ...same, key: 'k2' })).acks;
	const [again] = (await producer.append({ type: 'x-note', key: 'k2', data: { a: { c: null, d: [] }, b: 1 } })).acks;
	assert.deepEqual([again.seq, again.duplicate], [first.seq, true]);
	assert.deepEqual(readLog(server, id).map((e) => e.type), ['agent_message', 'x-note', 'x-note']);
});

test('the same key five times in one append is one event', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const event = { ...input.note({ n: 1 }), key: 'é文🙂'.repeat(20) };
	const { acks } = await post(server, id, [event, event, input.note({ n: 2 }), event, event]);
	assert.deepEqual(acks.map((a) => [a.seq, a.duplicate]), [[1, false], [1, true], [2, false], [1, true], [1, true]]);
	const conflict = await refusedPost(server, id, { ...event, data: {} });
	assert.equal(conflict.code, 'key_conflict');
	const bad = await refusedPost(server, id, { ...event, key: 'k'.repeat(10_240) });
	assert.deepEqual([bad.status, bad.code], [400, 'bad_key']);
	assert.equal(readLog(server, id).length, 2);
});

// --- runs ---

const of = (runId, data) => ({ ...input.note({ of: runId, ...data }), run_id: runId });

test('what comes late of run A, when run B has started, is refused and never shown', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'segment_size=4K'] });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { deltas: 'text' } });
	await observer.load();
	const late = await Producer.connect(t, server, id);
	const started = await late.append(input.runStart('a'), { ...input.text('Run A '), run_id: 'a' });
	assert.deepEqual(started.acks, [{ seq: null, duplicate: false }, { seq: 1, duplicate: false }]);
	const next = await Producer.connect(t, server, id);
	await next.append(input.runStart('b'), of('b', { n: 1 }));
	for (let starts = 0; starts < 3; starts++) {
		const producer = starts ? await Producer.connect(t, server, id) : late;
		for (const events of [[of('a', {})], [{ ...input.text('late'), run_id: 'a' }], [of('b', { n: 2 }), of('a', {})],
			[input.runStart('a')]]) {
			const { code, index } = await producer.refused('append', { events });
			assert.deepEqual([code, index], ['stale_run', events.length - 1]);
		}
		const snapshot = await producer.refused('append_snapshot',
			{ run_id: 'a', messages: [{ message_id: 'late', role: 'user', content: 'late' }] });
		assert.deepEqual([snapshot.code, snapshot.index], ['stale_run', undefined]);
		for (const events of [[input.note({})], [of('c', {})], [input.runEnd('c')]]) {
			const { code } = await producer.refused('append', { events });
			assert.equal(code, events[0].run_id || events[0].type === 'run_end' ? 'unknown_run' : 'run_active');
		}
		const mixed = await producer.refused('append', { events: [{ ...input.runStart('c'), run_id: 'b' }] });
		assert.equal(mixed.code, 'bad_request');
		// The end of a run that is over is no news; it ends nothing.
		assert.deepEqual((await producer.append(input.runEnd('a'))).acks, [{ seq: null, duplicate: true }]);
		await (starts === 1 ? server.stop() : server.kill9());
		await server.restart();
	}
	const events = readLog(server, id);
	assert.deepEqual(events.map((e) => [e.type, e.data.markdown ?? e.data.of]), [['agent_message', 'Run A '], ['x-note', 'b']]);
	assert.ok(observer.frames.every((f) => !JSON.stringify(f).includes('late')), 'a late event was shown');
});

test('a producer that comes back goes on with its run, and two that name it may share it', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const first = await Producer.connect(t, server, id);
	await first.append(input.runStart('a'), of('a', { n: 1 }));
	first.drop();
	const second = await Producer.connect(t, server, id);
	const { acks } = await second.append(input.runStart('a'), of('a', { n: 2 }));
	assert.deepEqual(acks, [{ seq: null, duplicate: true }, { seq: 2, duplicate: false }]);
	const third = await Producer.connect(t, server, id);
	await Promise.all([second.append(of('a', { n: 3 })), third.append(of('a', { n: 3 }))]);
	const handed = await third.handOver([{ message_id: 'u', role: 'user', content: 'Hi' }], { run_id: 'a' });
	assert.equal(handed.added, 1);
	const without = await third.refused('append_snapshot', { messages: [{ message_id: 'v', role: 'user', content: 'Hi' }] });
	assert.deepEqual([without.code, without.index], ['run_active', undefined]);

	// From its end on everybody may append again, but not in its name.
	assert.deepEqual((await third.append(input.runEnd('a'))).acks, [{ seq: null, duplicate: false }]);
	assert.deepEqual((await second.append(input.runEnd('a'))).acks, [{ seq: null, duplicate: true }]);
	await second.append(input.note({ n: 4 }));
	assert.equal((await second.refused('append', { events: [of('a', {})] })).code, 'stale_run');
	assert.equal((await second.refused('append', { events: [input.runStart('a')] })).code, 'stale_run');
	// All in one append: the fence moves with it.
	const all = [input.note({}), input.runStart('b'), of('b'), input.runStart('c'), of('c'), input.runEnd('c'), input.note({})];
	assert.deepEqual((await second.append(...all)).acks.map((a) => a.seq), [7, null, 8, null, 9, null, 10]);
	const broken = [input.note({}), input.runStart('d'), input.note({})];
	assert.equal((await second.refused('append', { events: broken })).code, 'run_active');
	await second.append(input.note({ last: true }));
	assert.equal(readLog(server, id).length, 11);
});

test('a run that is under way is so after kill -9, and its events with keys are known when it is stale', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const event = { ...of('a', { n: 1 }), key: 'a:1' };
	await post(server, id, [input.runStart('a'), event]);
	await server.kill9();
	await server.restart();
	assert.equal((await refusedPost(server, id, input.note({}))).status, 409);
	assert.deepEqual((await post(server, id, [event, of('a', { n: 2 })])).acks,
		[{ seq: 1, duplicate: true }, { seq: 2, duplicate: false }]);
	await post(server, id, input.runStart('b'));
	assert.deepEqual((await post(server, id, event)).acks, [{ seq: 1, duplicate: true }]);
	assert.equal((await refusedPost(server, id, { ...event, key: 'a:2' })).code, 'stale_run');
	assert.equal(readLog(server, id).length, 2);
});
