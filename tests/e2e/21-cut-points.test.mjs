// A session that is being produced, and every place at which a connection to it, or the server, can end.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logText, readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input } from '../support/producer.mjs';
import { Server } from '../support/server.mjs';
import { makeRecording, randomNumbers, textsOf } from '../support/recording.mjs';

const LONG_MS = 120_000;

async function start(t) {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	return { server, id };
}

/** Produces a recording; others wait for places in it, and hold it up until they are done there. */
class Production {
	shown = 0;
	#producer;
	#gates = new Map(); // seq -> promises that must settle before anything after it is produced
	#waiting = [];

	constructor(producer) {
		this.#producer = producer;
	}

	/** Nothing more is appended once `seq` is shown until `promise` has settled. */
	holdAt(seq, promise) {
		this.#gates.set(seq, [...(this.#gates.get(seq) ?? []), promise]);
	}

	/** Waits until the event `seq` is shown. */
	reached(seq) {
		return new Promise((resolve) => (this.shown >= seq ? resolve() : this.#waiting.push({ seq, resolve })));
	}

	async append(events) {
		const { max_seq: shown } = await this.#producer.append(...events);
		for (let seq = this.shown + 1; seq <= shown; seq++) {
			await Promise.all(this.#gates.get(seq) ?? []);
		}
		this.shown = shown;
		this.#waiting.filter((w) => w.seq <= shown).forEach((w) => w.resolve());
		this.#waiting = this.#waiting.filter((w) => w.seq > shown);
	}
}

/** deepEqual, but a difference is told in one event and not in hundreds. */
function assertSame(events, wanted, what) {
	events.forEach((event, i) => assert.deepEqual(event, wanted[i], `${what}: event ${i + 1}`));
	assert.equal(events.length, wanted.length, what);
}

/** The events that everyone must end with, in this format. */
async function logIn(server, id, format, count) {
	const events = [];
	while (events.length < count) {
		const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=${events.length}&limit=5000&format=${format}`);
		assert.equal(body.first_seq, events.length + 1);
		events.push(...body.events);
	}
	return events;
}

test('an observer that was cut after any event and comes back ends with exactly the log', async (t) => {
	const { server, id } = await start(t);
	const { appends, texts } = makeRecording({ turns: 20 });
	const production = new Production(await Producer.connect(t, server, id));
	const random = randomNumbers(7);
	const total = await countEvents(t, appends);
	assert.ok(total >= 200, `the recording has ${total} events`);

	/** One that has seen k events, goes away for a while, and comes back while production goes on. */
	const cutAfter = async (k, joined, cut) => {
		const query = { format: ['markdown', 'html', 'both'][k % 3], ...[{}, { deltas: 'text' }, { deltas: 'html' }][random(3)] };
		const [away, limit] = [random(25), [500, 1 + random(60)][random(2)]];
		const first = await Observer.connect(t, server, id, { query });
		const { epoch } = first.hello;
		await first.loadAll();
		joined();
		await first.waitForSeq(k, LONG_MS);
		const held = first.events().slice(0, k);
		first.drop();
		cut();
		await production.reached(Math.min(k + away, total));
		const back = await Observer.connect(t, server, id, { query, held, epoch });
		await back.loadAll({ limit, follow: random(4) > 0 });
		assert.deepEqual(back.resets, []);
		return { back, k, format: query.format };
	};
	const clients = [];
	const joins = [];
	for (let k = 0; k <= total; k++) {
		let cut;
		production.holdAt(k, new Promise((resolve) => (cut = resolve)));
		joins.push(new Promise((resolve, reject) => {
			const client = cutAfter(k, resolve, cut);
			client.catch((error) => { reject(error); cut(); }); // production does not wait for one that has failed
			clients.push(client);
		}));
	}
	await Promise.all(joins);
	for (const events of appends) {
		await production.append(events);
	}
	// The last ones come back, too, while something is appended.
	let backs = null;
	let failed = false;
	const all = Promise.all(clients).then((list) => (backs = list));
	all.catch(() => (failed = true));
	while (!backs && !failed) {
		await production.append([input.note({ after: 'the recording' })]);
	}
	await all;
	const { body } = await server.request('GET', `/api/sessions/${id}`);
	const log = readLog(server, id);
	assert.equal(log.length, body.max_seq);
	assert.deepEqual(textsOf(log), texts);
	const wanted = { markdown: log };
	for (const format of ['html', 'both']) {
		wanted[format] = await logIn(server, id, format, log.length);
	}
	for (const { back, k, format } of backs) {
		assertSame(await back.waitForSeq(log.length, LONG_MS), wanted[format], `cut after ${k}, ${format}`);
		back.drop();
	}
});

/** How many events the recording makes when no timer comes between: the least that it makes. */
async function countEvents(t, appends) {
	const { server, id } = await start(t);
	const producer = await Producer.connect(t, server, id);
	const { max_seq: total } = await producer.append(...appends.flat());
	await producer.close();
	return total;
}

/** The complete lines of the log's file. */
function linesOf(server, id) {
	return logText(server, id).split('\n').slice(0, -1);
}

/** The text of the event that is open, as this observer has been told. */
function openText(observer) {
	const deltas = observer.frames.filter((f) => f.type === 'delta' && f.data.seq > observer.last).map((f) => f.data);
	const page = observer.frames.filter((f) => f.type === 'events_loaded' && f.data.open?.seq > observer.last).at(-1);
	const seq = deltas.at(-1)?.seq ?? page?.data.open.seq ?? 0;
	const begun = page?.data.open.seq === seq ? page.data.open.text : '';
	return { seq, text: begun + deltas.filter((d) => d.seq === seq).map((d) => d.text).join('') };
}

test('a server that is killed at any place goes on with everything that was acknowledged or shown', async (t) => {
	const { server, id } = await start(t);
	const { appends, texts } = makeRecording({ seed: 2 });
	const query = { format: 'markdown', deltas: 'text' };
	const kills = new Set(Array.from({ length: 12 }, (_, n) => Math.floor(((n + 0.5) * appends.length) / 12)));
	const sent = []; // {event, seq}: what was acknowledged
	let producer = await Producer.connect(t, server, id);
	let observer = await Observer.connect(t, server, id, { query });
	const { epoch } = observer;
	await observer.loadAll();
	const remember = (events, { acks }) => events.forEach((event, i) => sent.push({ event, seq: acks[i].seq }));

	const killAndReturn = async (place) => {
		// In flight when it dies: there or not, but never half, and sent again only if it was not acknowledged.
		const last = [input.note({ place })];
		const ref = await producer.push(...last);
		await server.kill9();
		await Promise.all([producer, observer].map((socket) => socket.waitClosed()));
		const acked = producer.frames.find((f) => f.data.ref === ref);
		const shown = observer.events().slice();
		const open = openText(observer);
		const lines = linesOf(server, id);
		await server.restart();

		assert.deepEqual(linesOf(server, id).slice(0, lines.length), lines, 'the same bytes');
		observer = await Observer.connect(t, server, id, { query, held: shown, epoch });
		assert.equal(observer.hello.epoch, epoch);
		const page = await observer.load({ after_seq: shown.length, epoch, limit: 5000 });
		assert.equal(page.reset, undefined);
		assertSame(readLog(server, id).slice(0, shown.length), shown, 'what was shown');
		if (open.seq) {
			// Under its seq, with its text: still open, or closed by a timer since.
			const closed = page.events.find((e) => e.seq === open.seq);
			assert.ok(closed || page.open?.seq === open.seq, `seq ${open.seq} was open: ${JSON.stringify(page)}`);
			const text = closed ? closed.data.markdown ?? closed.data.text : page.open.text;
			assert.ok(text.startsWith(open.text), `${JSON.stringify(text)} was ${JSON.stringify(open.text)}`);
		}
		producer = await Producer.connect(t, server, id);
		assert.equal(producer.frames[0].data.epoch, epoch);
		if (acked) {
			remember(last, acked.data);
		} else {
			remember(last, await producer.append(...last));
		}
	};
	for (const [i, events] of appends.entries()) {
		remember(events, await producer.append(...events));
		if (kills.has(i)) {
			await killAndReturn(i);
		}
	}
	const last = sent.at(-1).seq;
	const log = readLog(server, id);
	assert.equal(log.length, last);
	assertSame(await observer.waitForSeq(last), log, 'the observer');
	assert.deepEqual(textsOf(log), texts);
	for (const { event, seq } of sent) {
		const { type, data } = log[seq - 1];
		if (event.type.endsWith('_chunk')) {
			assert.equal(type, event.type.replace('_chunk', ''), `seq ${seq}`);
		} else {
			assert.deepEqual({ type, data }, event, `seq ${seq} is what was acknowledged with it`);
		}
	}
	// Nothing came twice, but for what was in flight unacknowledged and therefore sent again.
	const others = log.filter((e) => e.type !== 'agent_message' && e.type !== 'agent_thought' && e.data.place === undefined);
	assert.deepEqual(others.map((e) => e.data), sent.map((s) => s.event)
		.filter((e) => !e.type.endsWith('_chunk') && e.data.place === undefined).map((e) => e.data));
	for (const place of kills) {
		const count = log.filter((e) => e.data.place === place).length;
		assert.ok(count === 1 || count === 2, `the input in flight at ${place} is there ${count} times`);
	}
});

// Each: what was acknowledged before the kill, what follows it. `timed`: a timer may cut it meanwhile.
const STATES = {
	'in a paragraph': { before: [input.text('Some **bo')], rest: 'ld** text.' },
	'in a character\'s neighbourhood': { before: [input.text('grüße 👋🏽')], rest: '👋 中文' },
	'in a heading': { before: [input.text('## Head')], rest: 'ing' },
	'in a list': { before: [input.text('- one\n- tw')], rest: 'o\n- three' },
	'in a nested list': { before: [input.text('1. one\n   - in'), input.text('ner\n')], rest: '   - more\n2. two' },
	'in a table': { before: [input.text('| a | b |\n|---|---|\n'), input.text('| 1 ')], rest: '| 2 |\n| 3 | 4 |' },
	'in a fence': { before: [input.text('```c\nint a;\n')], rest: '\nint b;\n```' },
	'in a quote': { before: [input.text('> quo')], rest: 'ted\n> more' },
	'with another block before': { before: [input.text('Before.\n\n```\n1\n')], rest: '2\n```' },
	'in a list with a tool held': { before: [input.text('- one\n'), input.tool('t1'), input.thought('hm')], rest: '- two', timed: true },
	'in a table with a tool held': { before: [input.text('| a |\n|---|\n'), input.tool('t1')], rest: '| 1 |', timed: true },
	'in a fence with a tool held': { before: [input.text('```\nmake\n'), input.tool('t1'), input.toolDone('t1')], rest: 'done\n```', timed: true },
	'after a list, closable': { before: [input.text('- one\n\n')], rest: '- two', timed: true },
	'in a thought': { before: [input.tool('t0'), input.thought('So let')], rest: 'Then.', timed: true },
	'in blank lines': { before: [input.text('\n\n')], rest: 'At last.' },
	'after the end of a turn': { before: [input.text('One.'), input.end()], rest: 'Two.' },
	'before anything': { before: [], rest: 'First.' },
};

test('sessions in every state are killed at once, and each goes on where it was', async (t) => {
	// What is open without anything behind it would be cut after a silence, and the machine may be slow.
	const server = await Server.start(t, { args: ['--limit', 'idle_flush_ms=3600s,idle_block_flush_ms=3600s'] });
	const sessions = [];
	for (const [name, state] of Object.entries(STATES)) {
		const { id, epoch } = await server.createSession({ title: name });
		const producer = await Producer.connect(t, server, id);
		const { acks } = state.before.length > 0 ? await producer.append(...state.before) : { acks: [] };
		sessions.push({ name, id, epoch, ...state, acks });
	}
	for (let round = 0; round < 2; round++) {
		await server.kill9();
		await server.restart();
	}
	for (const { name, id, epoch, before, rest, timed, acks } of sessions) {
		const observer = await Observer.connect(t, server, id, { query: { format: 'markdown', deltas: 'text' } });
		assert.equal(observer.hello.epoch, epoch);
		const page = await observer.load({ after_seq: 0 });
		const text = before.filter((e) => e.type === 'agent_message_chunk').map((e) => e.data.text).join('');
		if (!timed) {
			const told = page.events.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown).join('') + (page.open?.text ?? '');
			assert.ok(text.startsWith(told), name);
			// What is certain of it is shown: at least the lines that are complete.
			assert.ok(told.length >= text.lastIndexOf('\n') || told.trim() === text.trim(), `${name}: ${JSON.stringify(page)}`);
		} else if (before.at(-1).type.startsWith('tool')) {
			// What was held comes back held, and is not stuck although nothing more comes.
			await observer.waitForSeq(acks.at(-1).seq);
		}
		const producer = await Producer.connect(t, server, id);
		const { max_seq: last } = await producer.append(input.text(rest), input.tool('after'), input.end());
		const events = await observer.waitForSeq(last);
		const messages = events.filter((e) => e.type === 'agent_message');
		assert.equal(messages.map((e) => e.data.markdown).join(''), text + rest, name);
		assert.deepEqual(readLog(server, id), events);
		before.forEach((event, i) => {
			if (!event.type.endsWith('_chunk')) {
				assert.deepEqual(events[acks[i].seq - 1].data, event.data, `${name}: what was held has its number`);
			}
		});
		if (!timed) {
			assert.ok(messages.every((e) => e.data.continues === undefined), `${name}: nothing was cut`);
		}
	}
});
