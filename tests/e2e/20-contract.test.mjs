// The main promises of proto/protocol.md, each by its name.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog, withoutText } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server, demoAgent } from '../support/server.mjs';

const MARKDOWN = { format: 'markdown' };

async function start(t, options) {
	const server = await Server.start(t, options);
	const { id } = await server.createSession();
	return { server, id };
}

async function connectLive(t, server, id, query = MARKDOWN) {
	const observer = await Observer.connect(t, server, id, { query });
	await observer.loadAll();
	return observer;
}

/** A log of `count` numbered notes. */
async function postNotes(server, id, count) {
	const { max_seq: last } = await post(server, id, Array.from({ length: count }, (_, n) => input.note({ n })));
	return last;
}

/** [seq, type, text or tool id] of each event, to compare with what was meant. */
function inShort(events) {
	return events.map(({ seq, type, data }) =>
		[seq, type, data.markdown ?? data.text ?? data.tool_call_id ?? data.stop_reason ?? null]);
}

const seqs = (acks) => acks.map((ack) => ack.seq);

test('out_of_order_seq_preserved', async (t) => {
	const { server, id } = await start(t);
	const live = await connectLive(t, server, id);
	// The tool is received before the list is complete, so its number is known before the list's event is.
	const { acks, max_seq: last } = await post(server, id, [
		input.text('Look:\n\n- one\n'), input.tool('t1'), input.text('- two\n'), input.toolDone('t1'),
		input.text('- three\n'), input.text('\nAfter it.\n'), input.end(),
	]);
	assert.deepEqual(seqs(acks), [1, 3, 2, 4, 2, 2, 6]);
	assert.equal(last, 6);
	const events = await live.waitForSeq(6);
	assert.deepEqual(inShort(events), [
		[1, 'agent_message', 'Look:\n\n'], [2, 'agent_message', '- one\n- two\n- three\n\n'],
		[3, 'tool_call', 't1'], [4, 'tool_call_update', 't1'],
		[5, 'agent_message', 'After it.\n'], [6, 'turn_end', 'end_turn'],
	]);
	assert.deepEqual(readLog(server, id), events);
	assert.deepEqual(await (await Observer.connect(t, server, id, { query: MARKDOWN })).loadAll(), events, 'the replay');
});

test('coalescing_preserves_first_seq', async (t) => {
	const { server, id } = await start(t);
	const live = await connectLive(t, server, id);
	const chunks = [...'One paragraph, letter by letter, ünd 👋 it is öne event.'].map((c) => input.text(c));
	const thoughts = [...'Hm, hm.'].map(input.thought);
	const { acks } = await post(server, id, [
		input.tool('t1'), ...chunks, input.tool('t2'), ...thoughts, input.text('End. '), input.text('Of it.'), input.end(),
	]);
	assert.deepEqual(seqs(acks), [1, ...chunks.map(() => 2), 3, ...thoughts.map(() => 4), 5, 5, 6]);
	const events = await live.waitForSeq(6);
	assert.deepEqual(inShort(events), [
		[1, 'tool_call', 't1'], [2, 'agent_message', 'One paragraph, letter by letter, ünd 👋 it is öne event.'],
		[3, 'tool_call', 't2'], [4, 'agent_thought', 'Hm, hm.'], [5, 'agent_message', 'End. Of it.'], [6, 'turn_end', 'end_turn'],
	]);
	// One chunk with several blocks is acknowledged with the first of them, the next input comes after the last.
	const more = await post(server, id, [input.text('A.\n\nB.\n\n```\nC\n```\nD'), input.tool('t3')]);
	assert.deepEqual(seqs(more.acks), [7, 11]);
	assert.deepEqual(inShort(await live.waitForSeq(11)).slice(6, 10).map((e) => e[2].trim()), ['A.', 'B.', '```\nC\n```', 'D']);
	assert.deepEqual(readLog(server, id), live.events());
});

test('reconnect_during_agent_streaming', async (t) => {
	const { server, id } = await start(t, { agent: demoAgent('--rate 200') });
	const whole = await connectLive(t, server, id);
	await whole.prompt('list thought table permission fence long=150');
	const breaks = [];
	let held = [];
	let epoch = null;
	const isOver = () => held.at(-1)?.type === 'turn_end';
	while (!isOver()) {
		const observer = await Observer.connect(t, server, id, { query: { ...MARKDOWN, deltas: 'text' }, held, epoch });
		await observer.loadAll();
		assert.deepEqual(observer.resets, []);
		if (observer.events().length === held.length) {
			const pending = held.at(-1)?.type === 'permission_request' ? held.at(-1).data : null;
			if (pending) {
				await observer.send('permission_answer', { request_id: pending.request_id, option_id: pending.options[0].option_id });
			}
			await observer.waitForSeq(held.length + 1);
		}
		observer.drop();
		breaks.push(observer.hello.is_prompting);
		({ epoch } = observer);
		held = observer.events().slice();
	}
	await whole.waitForEvent('turn_end');
	assert.ok(breaks.filter(Boolean).length >= 3, `it was interrupted ${breaks.length} times, with a turn on: ${breaks.filter(Boolean).length}`);
	assert.deepEqual(held, whole.events().slice(0, held.length));
	assert.deepEqual(readLog(server, id), whole.events());
});

test('stale_seq_sync', async (t) => {
	const { server, id } = await start(t);
	const last = await postNotes(server, id, 60);
	const log = readLog(server, id);
	for (const [limit, follow] of [[500, true], [7, true], [7, false], [1, false]]) {
		for (const k of [0, 1, 7, 58, 59, 60]) {
			const stale = await Observer.connect(t, server, id, { held: log.slice(0, k) });
			assert.equal(stale.hello.max_seq, last);
			await stale.send('keepalive', { client_time: 1, last_seen_seq: k });
			assert.equal((await stale.waitFor('keepalive_ack')).data.max_seq, last, 'it shows that something is missing');
			assert.deepEqual(await stale.loadAll({ limit, follow }), log, `after ${k}, ${limit} a page`);
			const pages = stale.frames.filter((f) => f.type === 'events_loaded');
			assert.equal(pages.length, Math.max(1, Math.ceil((60 - k) / limit)));
			assert.ok(pages.every((p, i) => p.data.has_more === i < pages.length - 1), 'has_more on all pages but the last');
			stale.drop();
		}
	}
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=58&limit=50`);
	assertValid(check.rest('events')(body));
	assert.deepEqual(body.events, log.slice(58));
});

test('multiple_clients_see_same_events', async (t) => {
	const { server, id } = await start(t);
	const queries = [MARKDOWN, MARKDOWN, { format: 'html' }, { format: 'both', deltas: 'text' }, { format: 'html', deltas: 'html' }];
	const early = await Promise.all(queries.map((query) => connectLive(t, server, id, query)));
	const producer = await Producer.connect(t, server, id);
	const late = [];
	let last = 0;
	for (let n = 1; n <= 30; n++) {
		await producer.push(input.text(`Paragraph **${n}**, whi`), input.tool(`t${n}`));
		({ max_seq: last } = await producer.append(input.text('ch goes on.\n\n- a\n- b\n\nEnd.'), input.plan(`step ${n}`), input.end()));
		if (n % 6 === 0) {
			late.push(await connectLive(t, server, id, queries[n / 6 - 1]));
		}
	}
	const log = readLog(server, id);
	assert.equal(last, log.length);
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000&format=both`);
	assert.deepEqual(withoutText(body.events), withoutText(log));
	for (const [i, observer] of [...early, ...late].entries()) {
		const events = await observer.waitForSeq(last);
		const { format } = queries[i % queries.length];
		assert.deepEqual(events, body.events.map((event) => onlyFormat(event, format)), `observer ${i}, ${format}`);
	}
	assert.deepEqual(early[0].events(), log);
});

/** An event that has both texts, as it is for those who asked for one. */
function onlyFormat(event, format) {
	if (event.type !== 'agent_message' || format === 'both') {
		return event;
	}
	const { html, markdown, context, ...data } = event.data;
	return { ...event, data: format === 'html' ? { html, ...data } : { markdown, ...(context && { context }), ...data } };
}

test('events_buffered_mid_block', async (t) => {
	const { server, id } = await start(t);
	const live = await connectLive(t, server, id);
	const producer = await Producer.connect(t, server, id);
	// The fence is open: its event exists for nobody, whichever way he asks.
	const { acks, max_seq: shown } = await producer.append(input.tool('t0'), input.text('```sh\nmake\n'));
	assert.deepEqual([seqs(acks), shown], [[1, 2], 1]);
	await live.waitForSeq(1);
	const late = await Observer.connect(t, server, id, { query: MARKDOWN });
	assert.equal(late.hello.max_seq, 1);
	assert.equal((await late.load({ after_seq: 0, epoch: late.epoch })).max_seq, 1);
	await late.send('keepalive', { last_seen_seq: 1 });
	assert.equal((await late.waitFor('keepalive_ack')).data.max_seq, 1, 'no gap is announced for what is not shown');
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.max_seq, 1);
	assert.equal((await server.request('GET', `/api/sessions/${id}/events?after_seq=0`)).body.events.length, 1);
	// What comes meanwhile waits for its end, and then all is there, in order.
	const rest = await producer.append(input.tool('t1'), input.text('make test\n'), input.plan('a'), input.text('```\nDone.'), input.end());
	assert.deepEqual([seqs(rest.acks), rest.max_seq], [[3, 2, 4, 2, 6], 6]);
	for (const observer of [live, late]) {
		assert.deepEqual(inShort(await observer.waitForSeq(6)), [
			[1, 'tool_call', 't0'], [2, 'agent_message', '```sh\nmake\nmake test\n```\n'], [3, 'tool_call', 't1'],
			[4, 'plan', null], [5, 'agent_message', 'Done.'], [6, 'turn_end', 'end_turn'],
		]);
		const kinds = observer.frames.map((f) => f.type === 'activity' ? `activity ${f.data.seq}` : f.type);
		assert.ok(kinds.indexOf('activity 3') < kinds.lastIndexOf('events'), 'the notice comes before the event');
		assert.ok(kinds.includes('activity 4'));
	}
	assert.deepEqual(readLog(server, id), live.events());
});

test('registration_race_sends_missed_events', async (t) => {
	const { server, id } = await start(t);
	// More than is kept in memory, so that loads from the beginning read the disk while events are appended.
	const filler = 'x'.repeat(700);
	for (let n = 0; n < 3; n++) {
		await post(server, id, Array.from({ length: 500 }, () => input.note({ filler })));
	}
	const producer = await Producer.connect(t, server, id);
	let joining = true;
	const production = (async () => {
		let appended;
		for (let n = 0; joining; n++) {
			appended = await producer.append(input.note({ n }), input.note({ n, filler }));
		}
		return appended.max_seq;
	})();
	// A page that is read from disk and reaches the head is where an event can get lost: `back` asks for such.
	const positions = [{ after_seq: 0, limit: 97, follow: true }, { back: 700, limit: 5000, follow: true },
		{ back: 700, limit: 5000, follow: false }, { limit: 900 }, {}];
	const observers = [];
	for (let round = 0; round < 6; round++) {
		observers.push(...await Promise.all(positions.map(async ({ back, ...position }) => {
			const observer = await Observer.connect(t, server, id, { query: MARKDOWN });
			if (back) {
				position.after_seq = observer.hello.max_seq - back;
			}
			const { max_seq: head } = await observer.load(position);
			while (position.follow === false && !observer.isLive) {
				await observer.load({ ...position, after_seq: observer.last });
			}
			await observer.waitUntil(() => observer.isLive, 'the last page');
			await observer.waitForSeq(head + 20, 60_000); // some of what was appended behind its back, some live
			const pages = observer.frames.filter((f) => f.type === 'events_loaded');
			assert.ok(position.follow === undefined || pages.every((p, i) => p.data.has_more === i < pages.length - 1), 'has_more on all pages but the last');
			return observer;
		})));
	}
	joining = false;
	const last = await production;
	const log = readLog(server, id);
	assert.equal(log.length, last);
	for (const observer of observers) {
		const events = await observer.waitForSeq(last, 60_000);
		assert.deepEqual(events, log.slice(events[0].seq - 1));
		assert.deepEqual(observer.resets, []);
	}
});

test('client_ahead_of_server_is_reset', async (t) => {
	const { server, id } = await start(t);
	await postNotes(server, id, 8);
	const log = readLog(server, id);
	const invented = Array.from({ length: 9 }, (_, i) => ({ ...log[0], seq: i + 1, data: { invented: true } }));
	for (const limit of [50, 3]) {
		const ahead = await Observer.connect(t, server, id, { held: invented });
		const page = await ahead.load({ after_seq: invented.length, epoch: ahead.hello.epoch, limit, follow: true });
		assert.deepEqual(page.reset, { reason: 'ahead' });
		assert.deepEqual(page.events, log.slice(-limit), 'the newest page');
		assert.equal(page.has_more, limit < log.length);
		assert.deepEqual(ahead.events(), log.slice(-limit), 'nothing of what it had is left');
		const { max_seq: next } = await post(server, id, input.note({ live: true }));
		await ahead.waitForSeq(next);
		await ahead.load({ before_seq: ahead.events()[0].seq, limit: 50 });
		log.push(readLog(server, id).at(-1));
		assert.deepEqual(ahead.events(), log);
		invented.push({ ...invented[0], seq: invented.length + 1 });
		ahead.drop();
	}
	const exact = await Observer.connect(t, server, id, { held: log });
	assert.equal((await exact.load({ after_seq: log.length, epoch: exact.hello.epoch })).reset, undefined, 'the end itself is not ahead');
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=${log.length + 1}`);
	assert.deepEqual([body.reset, body.events], [{ reason: 'ahead' }, log]);
});

test('epoch_mismatch_is_reset', async (t) => {
	const { server, id } = await start(t);
	await postNotes(server, id, 5);
	const before = await connectLive(t, server, id);
	const { epoch: oldEpoch } = before;
	const held = before.events().slice();
	await server.request('DELETE', `/api/sessions/${id}`);
	await before.waitClosed();
	await server.createSession({ id });
	await post(server, id, Array.from({ length: 9 }, () => input.note({ second: true })));
	const log = readLog(server, id);
	// The old position fits the new log by its number, and is not served as if it fitted.
	for (const position of [{ after_seq: 5, limit: 4, follow: true }, { after_seq: 0 }, { after_seq: 99 }, { before_seq: 4 }, {}]) {
		const back = await Observer.connect(t, server, id, { query: MARKDOWN, held, epoch: oldEpoch });
		assert.notEqual(back.hello.epoch, oldEpoch);
		const page = await back.load({ ...position, epoch: oldEpoch });
		assert.deepEqual([page.reset, page.prepend], [{ reason: 'epoch' }, false], JSON.stringify(position));
		assert.equal(page.epoch, back.hello.epoch);
		assert.deepEqual(back.events(), log.slice(-(position.limit ?? 50)));
		await post(server, id, input.note({ more: true }));
		log.push(readLog(server, id).at(-1));
		await back.waitForSeq(log.length);
		back.drop();
	}
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=5&epoch=${oldEpoch}`);
	assert.deepEqual([body.reset, body.events], [{ reason: 'epoch' }, log]);
});
