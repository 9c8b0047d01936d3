// Recorded streams of producers, played with their own timing. Timers may cut what pauses, so not the exact
// blocks are asserted but what holds whatever they do.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertWhole } from '../support/blocks.mjs';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer } from '../support/producer.mjs';
import { Server } from '../support/server.mjs';
import { corpusFiles, makeRecording, randomNumbers } from '../support/recording.mjs';

/** The lines of a recorded stream: [{t, event}]. */
function readStream(text) {
	return text.trim().split('\n').map((line) => {
		const { t, ...event } = JSON.parse(line);
		return { t, event };
	});
}

const textOf = (events, type) => events.filter((e) => e.type === type).map((e) => e.data.text).join('');

const recorded = corpusFiles('streams', '.jsonl').map(([name, text]) => [name, readStream(text)]);

/** One of our own: a list, a table and a fence with tools inside, and pauses longer than the timers'. */
const OWN = [
	[0, 'agent_thought_chunk', 'First'], [30, 'agent_thought_chunk', ' a list.'], [60, 'agent_message_chunk', 'Points:\n\n- on'],
	[90, 'agent_message_chunk', 'e\n- **tw'], [120, 'tool_call', 't1'], [150, 'agent_message_chunk', 'o**\n'], [180, 'tool_call_update', 't1'],
	[900, 'agent_message_chunk', '- three\n\n'], [1300, 'agent_message_chunk', '| a | b |\n|---|--'], [1330, 'agent_message_chunk', '-|\n| 1 | 2'],
	[1360, 'tool_call', 't2'], [1390, 'agent_message_chunk', ' |\n| 3 | 4 |\n'], [1420, 'agent_message_chunk', '\n```js\nlet x;\n'],
	[1450, 'tool_call_update', 't2'], [1480, 'agent_message_chunk', 'x = `1`;\n'], [4000, 'agent_message_chunk', 'x++;\n```\nDo'],
	[4030, 'agent_message_chunk', 'ne: **all'], [4500, 'agent_message_chunk', ' of it**.\n'], [4900, 'agent_message_chunk', 'Bye.'], [4930, 'turn_end', null],
].map(([t, type, what]) => ({ t, event: { type, data: dataOf(type, what) } }));

function dataOf(type, what) {
	if (type === 'turn_end') {
		return {};
	}
	return type.startsWith('tool') ? { tool_call_id: what, title: what, status: type === 'tool_call' ? 'in_progress' : 'completed' } : { text: what };
}

/** Plays a stream: each input no earlier than its time, divided by the speed, says, in its order. Gives the acks. */
async function play(producer, stream, speed = 1) {
	const begin = Date.now();
	const refs = [];
	for (const { t, event } of stream) {
		const wait = begin + t / speed - Date.now();
		if (wait > 0) {
			await new Promise((resolve) => setTimeout(resolve, wait));
		}
		refs.push(await producer.push(event));
	}
	const answers = await Promise.all(refs.map((ref) => producer.acked(ref)));
	return { acks: answers.map((a) => a.acks[0]), last: answers.at(-1).acks[0].seq };
}

/** What holds for every log, whatever the timers did. */
function assertInvariants(stream, log, acks) {
	const inputs = stream.map((s) => s.event);
	const messages = log.filter((e) => e.type === 'agent_message');
	assert.equal(messages.map((e) => e.data.markdown).join(''), textOf(inputs, 'agent_message_chunk'));
	assert.equal(textOf(log, 'agent_thought'), textOf(inputs, 'agent_thought_chunk'));
	const others = (events) => events.filter((e) => !/_chunk$|^agent_(message|thought)$/.test(e.type));
	assert.deepEqual(others(log).map((e) => e.type), others(inputs).map((e) => e.type));
	inputs.forEach((event, i) => {
		if (acks[i].seq === null) {
			assert.match(event.data.text, /^\s*$/, 'only blanks may have no event when they come');
			return;
		}
		const { type, data } = log[acks[i].seq - 1];
		if (event.type.endsWith('_chunk')) {
			assert.equal(type, event.type.replace('_chunk', ''));
		} else if (event.type !== 'turn_end') {
			const { total, ...report } = data; // of usage: the sum is told, too
			assert.equal(type === 'usage', total !== undefined);
			assert.deepEqual({ type, data: report }, event, 'each input has the number that it was acknowledged with');
		}
	});
	for (const [i, event] of log.entries()) {
		if (event.data.continues !== undefined) {
			const before = log.slice(0, i).filter((e) => e.type === 'agent_message').at(-1);
			assert.equal(event.data.continues, before.seq, 'it goes on what came last');
		}
	}
	assertWhole(log);
}

for (const [name, stream] of [['of our own', OWN], ...recorded]) {
	test(`a stream with its own timing: ${name}`, async (t) => {
		const server = await Server.start(t);
		const { id } = await server.createSession();
		const live = await Observer.connect(t, server, id, { query: { format: 'markdown', deltas: 'text' } });
		await live.loadAll();
		const { acks, last } = await play(await Producer.connect(t, server, id), stream);
		const events = await live.waitForSeq(last);
		assert.equal(events.at(-1).type, 'turn_end');
		const log = readLog(server, id);
		assert.deepEqual(events, log);
		assertInvariants(stream, log, acks);
		assert.deepEqual(await (await Observer.connect(t, server, id, { query: { format: 'markdown' } })).loadAll(), log);
		// The same without pauses: no timer has anything to cut.
		const { id: fast } = await server.createSession();
		const { acks: at, max_seq: end } = await (await Producer.connect(t, server, fast)).append(...stream.map((s) => s.event));
		const whole = readLog(server, fast);
		assert.equal(whole.length, end);
		assertInvariants(stream, whole, at);
		assert.ok(whole.every((e) => e.data.continues === undefined));
	});
}

/** A text as a model says it: a token every 30 ms, with tool calls anywhere, each done a second later. */
function spoken(text, seed) {
	const random = randomNumbers(seed);
	const inputs = [];
	const characters = [...text];
	for (let t = 0, n = 0; characters.length > 0; t += 30) {
		inputs.push({ t, event: { type: 'agent_message_chunk', data: { text: characters.splice(0, 1 + random(6)).join('') } } });
		if (random(8) === 0) {
			const name = `call-${n++}`;
			inputs.push({ t, event: { type: 'tool_call', data: dataOf('tool_call', name) } });
			inputs.push({ t: t + 1000, event: { type: 'tool_call_update', data: dataOf('tool_call_update', name) } });
		}
	}
	const end = { t: Math.max(...inputs.map((i) => i.t)), event: { type: 'turn_end', data: {} } };
	return [...inputs.sort((a, b) => a.t - b.t), end];
}

const texts = corpusFiles('markdown', '.md').map(([name, text], i) => [name, spoken(text, i + 1)]);

// What comes faster than it was recorded leaves the timers less to cut; at no speed is a word lost or a block broken.
for (const speed of [4, 20, 100]) {
	test(`streams and texts, ${speed} times as fast, side by side: ${recorded.length + texts.length + 1}`, async (t) => {
		const server = await Server.start(t);
		const cuts = await Promise.all([['of our own', OWN], ...recorded, ...texts].map(async ([, stream]) => {
			const { id } = await server.createSession();
			const live = await Observer.connect(t, server, id, { query: { format: 'markdown', deltas: 'text' } });
			await live.loadAll();
			const { acks, last } = await play(await Producer.connect(t, server, id), stream, speed);
			const log = readLog(server, id);
			assert.equal(log.length, last);
			assert.deepEqual(await live.waitForSeq(last), log);
			assertInvariants(stream, log, acks);
			assert.deepEqual(await (await Observer.connect(t, server, id, { query: { format: 'markdown' } })).loadAll(), log);
			return log.filter((e) => e.data.continues !== undefined).length;
		}));
		t.diagnostic(`timers have cut ${cuts.reduce((a, b) => a + b)} blocks`);
	});
}

test('texts of every kind of block are the same however they are cut', async (t) => {
	const server = await Server.start(t);
	const { appends, texts } = makeRecording({ seed: 3, turns: 12 });
	const { id } = await server.createSession();
	const producer = await Producer.connect(t, server, id);
	const { acks } = await producer.append(...appends.flat());
	const log = readLog(server, id);
	const turns = texts.map((text, n) => log.filter((e) => e.type === 'agent_message' && e.turn === n + 1).map((e) => e.data.markdown).join(''));
	assert.deepEqual(turns, texts);
	assert.equal(log.length, acks.at(-1).seq);
});
