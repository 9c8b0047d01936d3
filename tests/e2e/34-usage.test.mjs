// Usage, as three kinds of adapters report it: whatever repeats, comes late or is 0 in between, every observer is told the
// true total, also when it comes back in the middle, and after kill -9.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server } from '../support/server.mjs';

const usage = (mode, input_tokens, output_tokens, message_id) =>
	({ type: 'usage', data: { mode, input_tokens, output_tokens }, ...(message_id && { message_id }) });
const call = (...figures) => usage('delta', ...figures);
const sum = (...figures) => usage('cumulative', ...figures);
const ofMessage = (id, ...figures) => usage('cumulative_in_message', ...figures, id);

// Each report, and the total that is true after it.
const habits = {
	'per call': [
		[call(1200, 85), [1200, 85]],
		[call(900, 40), [2100, 125]],
		[call(0, 0), [2100, 125]],
		[call(900, 40), [3000, 165]],
		[call(1500, 120), [4500, 285]],
	],
	'cumulative within a message, and repeated': [
		[ofMessage('m-1', 1200, 1), [1200, 1]],
		[ofMessage('m-1', 1200, 85), [1200, 85]],
		[ofMessage('m-1', 1200, 85), [1200, 85]],
		[ofMessage('m-2', 900, 10), [2100, 95]],
		[ofMessage('m-1', 1200, 85), [2100, 95]],
		[ofMessage('m-2', 900, 40), [2100, 125]],
		[ofMessage('m-2', 0, 0), [2100, 125]],
		[ofMessage('m-2', 900, 40), [2100, 125]],
	],
	'a cumulative total, late and out of order, with a zero in between': [
		[sum(1200, 85), [1200, 85]],
		[sum(2700, 165), [2700, 165]],
		[sum(2100, 125), [2700, 165]],
		[sum(0, 0), [2700, 165]],
		[sum(2700, 165), [2700, 165]],
		[sum(3600, 245), [3600, 245]],
		[sum(2700, 165), [3600, 245]],
	],
};

const totalOf = ([input_tokens, output_tokens]) => ({ input_tokens, output_tokens });
const stateUsage = (observer) => observer.frames.findLast(({ type }) => type === 'state')?.data.usage;

/** The observer has been told this total, and nothing else since. */
async function seesTotal(observer, total, lastSeq) {
	await observer.waitForSeq(lastSeq);
	await observer.waitUntil(() => JSON.stringify(stateUsage(observer)) === JSON.stringify(total),
		() => `the total ${JSON.stringify(total)}, it is ${JSON.stringify(stateUsage(observer))}`);
}

/** What an observer that comes now is told: by the state, and by the newest event. */
async function comesBack(t, server, id, held, total) {
	const observer = await Observer.connect(t, server, id, { held: held.events(), epoch: held.epoch });
	await observer.loadAll();
	await seesTotal(observer, total, 0);
	assert.deepEqual(observer.events().findLast(({ type }) => type === 'usage').data.total, total);
	assert.deepEqual(observer.resets, []);
	return observer;
}

for (const [name, reports] of Object.entries(habits)) {
	test(`the true total, reports ${name}`, async (t) => {
		const server = await Server.start(t);
		const { id } = await server.createSession();
		const watching = await Observer.connect(t, server, id);
		await watching.loadAll();
		let reconnecting = await Observer.connect(t, server, id);
		await reconnecting.loadAll();
		let seq = 0;
		let before = null;
		for (const [report, figures] of reports) {
			const total = totalOf(figures);
			const changes = JSON.stringify(total) !== JSON.stringify(before);
			const { acks } = await post(server, id, report);
			assert.deepEqual(acks, [{ seq: changes ? ++seq : null, duplicate: false }]);
			await seesTotal(watching, total, seq);
			reconnecting.close();
			reconnecting = await comesBack(t, server, id, reconnecting, total);
			if (changes) {
				assert.deepEqual(watching.events().at(-1).data, { ...report.data, total });
			}
			before = total;
		}
		assert.equal(watching.events().length, seq);
		// A client that was there all the time has been told each total once, and never a lower one.
		const told = watching.frames.filter(({ type }) => type === 'state').map(({ data }) => data.usage?.input_tokens ?? 0);
		assert.deepEqual(told, [...told].sort((a, b) => a - b));
	});

	test(`the true total after kill -9 and after a stop, reports ${name}`, async (t) => {
		const server = await Server.start(t);
		const { id } = await server.createSession();
		let observer = await Observer.connect(t, server, id);
		await observer.loadAll();
		for (const [i, [report, figures]] of reports.entries()) {
			await post(server, id, i % 3 === 2 ? [report, input.end()] : report);
			// The second start finds nothing in the journal.
			for (const end of [i % 2 ? 'stop' : 'kill9', i % 3 ? 'kill9' : 'stop']) {
				await server[end]();
				await server.restart();
				observer = await comesBack(t, server, id, observer, totalOf(figures));
			}
		}
		const { last } = observer;
		const { acks } = await post(server, id, input.note({}));
		assert.equal(acks[0].seq, last + 1, 'what changed nothing took no number');
	});
}

test('a report is held while a list is open, and one that changes nothing leaves the text alone', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const producer = await Producer.connect(t, server, id);
	const { acks } = await producer.append(
		input.text('- one\n'), sum(5, 1), sum(5, 1), input.tool('t1'), input.text('- two\n\nAfter it.'), input.end());
	assert.deepEqual(acks.map(({ seq }) => seq), [1, 2, null, 3, 1, 5]);
	const { body } = await server.request('GET', `/api/sessions/${id}/events?format=markdown`);
	assert.deepEqual(body.events.map(({ type }) => type), ['agent_message', 'usage', 'tool_call', 'agent_message', 'turn_end']);
	assert.equal(body.events[0].data.markdown, '- one\n- two\n\n');
});

test('bad reports are refused with a code, and nothing is stored', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	for (const [data, words] of [
		[{ input_tokens: 5 }, /usage needs a "mode"/],
		[{ mode: 'sum', input_tokens: 5 }, /the mode of usage must be "delta", "cumulative" or/],
		[{ mode: 'delta', input_tokens: -5 }, /"input_tokens": it must be a number from 0/],
		[{ mode: 'cumulative_in_message', input_tokens: 5 }, /needs the "message_id"/],
		[{ mode: 'delta', total: { input_tokens: 5 } }, /"total" of usage is set by the server/],
	]) {
		const { status, body } = await server.request('POST', `/api/sessions/${id}/events`, { json: [call(1, 1), { type: 'usage', data }] });
		assert.equal(status, 400);
		assert.equal(body.error.code, 'bad_request');
		assert.match(body.error.message, words);
	}
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	await seesTotal(observer, null, 0);
	assert.equal(observer.last, 0);
});
