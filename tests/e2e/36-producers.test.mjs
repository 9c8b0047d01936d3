// What producers were seen to break, and must not: text that is merged twice, and an end that comes before the text.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import WebSocket from 'ws';
import { observe } from '../web/observe.mjs';
import { readLog, assertSameText } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input } from '../support/producer.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { Server } from '../support/server.mjs';
import { Waiters, patience } from '../support/wait.mjs';

/** The text of a turn's messages (`format=markdown`), or of one message. */
const textOf = (events) => events.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown).join('');

/** A client of web/, which finds the server also when it is on another port. */
function pageOf(t, server, sessionId) {
	class Socket extends WebSocket {
		constructor(url, protocols) {
			const { pathname, search } = new URL(url);
			super(server.ws(pathname + search), protocols, { perMessageDeflate: false });
		}
	}
	const { client, view } = observe({ surroundings: {} },
		{ base: 'http://page.test', sessionId, WebSocket: Socket, format: 'markdown', deltas: 'text', getToken: () => server.token });
	const waiters = new Waiters();
	for (const name of ['events', 'open', 'reset', 'status']) {
		client.on(name, () => waiters.wake());
	}
	t.after(() => client.close());
	const shows = (text) => waiters.until(
		() => textOf(view.events) + (view.open.find((b) => b.type === 'agent_message')?.text ?? '') === text,
		20_000, () => `a page to read ${JSON.stringify(text)}; it has ${JSON.stringify([view.events, view.open])}`);
	const gets = (type) => waiters.until(() => view.events.some((e) => e.type === type), 20_000, () => `a page to get ${type}`);
	return { view, shows, gets };
}

/** Everything that an observer was told of the text, events and what came before them. */
function readText(observer) {
	const deltas = new Map();
	for (const { type, data } of observer.frames) {
		if (type === 'events_loaded' && data.open?.type === 'agent_message') {
			deltas.set(data.open.seq, data.open.text);
		} else if (type === 'delta' && data.type === 'agent_message') {
			const had = deltas.get(data.seq) ?? '';
			assert.equal(data.offset, Buffer.byteLength(had), `a delta of seq ${data.seq} has a hole, or comes twice`);
			deltas.set(data.seq, had + data.text);
		}
	}
	for (const event of observer.events()) {
		const before = deltas.get(event.seq);
		assert.ok(before === undefined || event.type !== 'agent_message' || event.data.markdown.startsWith(before.trimEnd()),
			`what was shown of seq ${event.seq} is not how it begins: ${JSON.stringify([before, event.data])}`);
		deltas.delete(event.seq);
	}
	return textOf(observer.events()) + [...deltas.values()].join('');
}

const watch = { query: { format: 'markdown', deltas: 'text' } };

test('"Looking" and " at this" read "Looking at this" by every way', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'idle_flush_ms=3600000'] });
	const { id } = await server.createSession();
	const path = `/api/sessions/${id}/events?format=markdown`;
	let live = await Observer.connect(t, server, id, watch);
	await live.load();
	const html = await Observer.connect(t, server, id, { query: { deltas: 'html' } });
	await html.load();
	const page = pageOf(t, server, id);
	const first = await Producer.connect(t, server, id);
	await first.append(input.text('Looking', 'm-1'));
	await live.waitUntil(() => readText(live) === 'Looking', 'the first piece, live');
	await page.shows('Looking');

	// Killed while the text is open: the journal alone has it.
	await server.kill9();
	await server.restart();
	live = await Observer.connect(t, server, id, watch);
	const { open } = await live.load();
	assert.equal(open.text, 'Looking');
	await page.shows('Looking');
	const again = await Producer.connect(t, server, id);
	const { acks } = await again.append(input.text(' at this', 'm-1'));
	assert.deepEqual(acks, [{ seq: 1, duplicate: false }]);
	await live.waitUntil(() => readText(live) === 'Looking at this', 'both pieces, live');
	await page.shows('Looking at this');

	await server.kill9();
	await server.restart();
	const late = await Observer.connect(t, server, id, watch);
	assert.equal((await late.load()).open.text, 'Looking at this');
	assert.deepEqual((await server.request('GET', path)).body.events, [], 'what is open is no event');
	const last = await Producer.connect(t, server, id);
	await last.append(input.textComplete());
	await late.waitForEvent('turn_end');
	assert.equal(readText(late), 'Looking at this');
	await page.gets('turn_end');
	assert.deepEqual(page.view.events.map((e) => [e.type, e.data.markdown]),
		[['agent_message', 'Looking at this'], ['turn_end', undefined]]);
	assert.deepEqual(page.view.resets, []);

	// Who goes on from the position in front, who comes new, REST, the log; and all the same after one more start.
	for (let starts = 0; starts < 2; starts++) {
		const caught = await Observer.connect(t, server, id, watch);
		await caught.load({ after_seq: 0, epoch: caught.epoch });
		const newest = await Observer.connect(t, server, id, watch);
		await newest.load();
		const { events } = (await server.request('GET', path)).body;
		for (const seen of [caught.events(), newest.events(), events, readLog(server, id)]) {
			assert.deepEqual(seen.map((e) => [e.type, e.data.markdown]),
				[['agent_message', 'Looking at this'], ['turn_end', undefined]]);
		}
		await server.stop();
		await server.restart();
	}
});

const TEXT = 'Looking at **this**: é 文字 🙂\n\n- one\n- `two`\n\nDone.';

/** The text in random pieces, each with at least one character. */
function cutUp(random, text) {
	const pieces = [];
	const chars = [...text];
	while (chars.length > 0) {
		pieces.push(chars.splice(0, 1 + random(random(4) === 0 ? chars.length : 6)).join(''));
	}
	return pieces;
}

test('10,000 random chunkings of a text read as the text', { timeout: 300_000 * patience }, async (t) => {
	const server = await Server.start(t);
	const random = randomNumbers(5);
	const sessions = 20;
	const turns = 500;
	await Promise.all(Array.from({ length: sessions }, async (_, n) => {
		const { id } = await server.createSession();
		const observer = await Observer.connect(t, server, id, watch);
		await observer.loadAll();
		const producer = await Producer.connect(t, server, id);
		let ref;
		for (let turn = 0; turn < turns; turn++) {
			// Some pieces in one append, some alone, some on their way to the disk while the next come.
			const pieces = [...cutUp(random, TEXT).map((text) => input.text(text)), input.textComplete()];
			while (pieces.length > 0) {
				ref = await producer.push(...pieces.splice(0, 1 + random(pieces.length)));
			}
			if (turn % 50 === n % 50) {
				await producer.acked(ref);
			}
		}
		const { max_seq: end } = await producer.acked(ref);
		const live = await observer.waitForSeq(end, 120_000);
		const log = readLog(server, id);
		assert.deepEqual(live, log);
		readText(observer);
		for (let turn = 1; turn <= turns; turn++) {
			const of = log.filter((e) => e.turn === turn);
			assertSameText(textOf(of), TEXT);
			assert.equal(of.filter((e) => e.type === 'turn_end').length, 1);
		}
	}));
});

/** One turn for the race: the text, and straight behind it all that may end a turn. */
function raceTurn(n, keyed) {
	const ends = [[input.textComplete()], [input.sessionIdle()], [input.textComplete(), input.sessionIdle()],
		[input.sessionIdle(), input.textComplete(), input.end()]][n % 4];
	const events = [input.text(`Turn ${n}: `), input.text('the last delta'), ...ends];
	return keyed ? events.map((event, i) => ({ ...event, key: `t${n}:e${i}` })) : events;
}

/** Asserts that no frame told of an end before the text of its turn, or of more than one. */
function assertOrder(observer) {
	let text = new Map();
	let ended = 0;
	for (const { type, data } of observer.frames) {
		if (type === 'delta') {
			assert.ok(!ended || data.seq > ended, 'text of a turn behind its end');
			continue;
		}
		for (const event of (type === 'events' ? data.events : [])) {
			if (event.type === 'agent_message') {
				text.set(event.turn, (text.get(event.turn) ?? '') + event.data.markdown);
			} else {
				assert.equal(event.type, 'turn_end');
				assert.equal(text.get(event.turn), `Turn ${event.turn - 1}: the last delta`, 'the end comes before the text');
				ended = event.seq;
			}
		}
		assert.ok(type !== 'events' || data.is_prompting || data.events.at(-1).type === 'turn_end',
			'the state runs ahead of the events');
	}
}

for (const { name, batch, keyed } of [
	{ name: 'in one append', batch: true, keyed: false },
	{ name: 'each input alone', batch: false, keyed: false },
	{ name: 'in one append, with keys', batch: true, keyed: true },
	{ name: 'each input alone, with keys', batch: false, keyed: true },
]) {
	test(`the end never comes before the last delta: 2,500 times, ${name}`, { timeout: 300_000 * patience }, async (t) => {
		const server = await Server.start(t);
		const turns = 250;
		await Promise.all(Array.from({ length: 10 }, async () => {
			const { id } = await server.createSession();
			const observers = await Promise.all(['text', undefined].map((deltas) =>
				Observer.connect(t, server, id, { query: { format: 'markdown', ...(deltas && { deltas }) } })));
			await Promise.all(observers.map((o) => o.loadAll()));
			const producer = await Producer.connect(t, server, id);
			let ref;
			for (let turn = 0; turn < turns; turn++) {
				for (const events of batch ? [raceTurn(turn, keyed)] : raceTurn(turn, keyed).map((event) => [event])) {
					ref = await producer.push(...events);
				}
			}
			const { max_seq: end } = await producer.acked(ref);
			assert.equal(end, 2 * turns);
			for (const observer of observers) {
				const events = await observer.waitForSeq(end, 120_000);
				assert.equal(events.filter((e) => e.type === 'turn_end').length, turns);
				assertOrder(observer);
			}
			assert.deepEqual(readLog(server, id), observers[0].events());
			const refs = producer.frames.slice(1);
			assert.ok(refs.every((f) => f.type === 'appended'));
		}));
	});
}

test('a run that begins or ends in the middle of a turn loses no blank of its text', async (t) => {
	const server = await Server.start(t);
	const say = (text, run) => ({ type: 'agent_message_chunk', data: { text }, ...(run && { run_id: run }) });
	for (const between of [[{ type: 'run_start', data: { run_id: 'r' } }], [{ type: 'run_start', data: { run_id: 'r' } }, { type: 'run_end', data: { run_id: 'r' } }]]) {
		const { id } = await server.createSession();
		const run = between.length === 1 ? 'r' : undefined;
		const { status, body } = await server.request('POST', `/api/sessions/${id}/events`,
			{ json: [say('one\n\n    '), ...between, say('two\n', run), { type: 'turn_end', data: {}, ...(run && { run_id: run }) }] });
		assert.equal(status, 200, JSON.stringify(body));
		assert.equal(textOf(readLog(server, id)), 'one\n\n    two\n');
	}
});
