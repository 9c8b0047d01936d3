// The stories of a permission request: however it ends, it ends once, with one answer, which the agent hears once
// and everyone sees alike. The agent writes down every line that it gets.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { post } from '../support/producer.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const ROUNDS = 40;

// Does what its prompt says, a JSON array of steps:
//   ["ask", id, command]  asks; the tool call is "<id>-call"        ["hear", id]  waits for the answer and says it
//   ["withdraw", id]      takes the question back                   ["call", id, status]  a tool_call_update
//   ["exit"]              ends                                      ["sleep"]  waits for session/cancel
const AGENT = `
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const journal = process.argv[2];
const answers = new Map();
let cancelled = false;
let wake = () => {};
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
const update = (update) => say({ method: 'session/update', params: { sessionId: 's', update } });
const until = async (probe) => {
	while (!probe()) {
		await new Promise((resolve) => (wake = resolve));
	}
};
const options = [
	{ optionId: 'once', name: 'Allow', kind: 'allow_once' }, { optionId: 'always', name: 'Always', kind: 'allow_always' },
	{ optionId: 'no', name: 'Reject', kind: 'reject_once' },
];
const steps = {
	ask: (id, command) => say({ id, method: 'session/request_permission', params: {
		sessionId: 's', toolCall: { toolCallId: id + '-call', title: 'Run it', kind: 'execute', status: 'pending', rawInput: { command } }, options,
	} }),
	hear: async (id) => {
		await until(() => answers.has(id));
		update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: id + ' heard ' + answers.get(id) + '\\n\\n' } });
	},
	withdraw: (id) => say({ method: '$/cancel_request', params: { requestId: id } }),
	call: (id, status) => update({ sessionUpdate: 'tool_call_update', toolCallId: id + '-call', status }),
	exit: () => process.exit(3),
	sleep: () => until(() => cancelled),
};
async function play(id, text) {
	cancelled = false;
	for (const [name, ...args] of JSON.parse(text)) {
		await steps[name](...args);
	}
	say({ id, result: { stopReason: cancelled ? 'cancelled' : 'end_turn' } });
}
createInterface({ input: process.stdin }).on('line', (line) => {
	appendFileSync(journal, process.pid + ' ' + line + '\\n');
	const { id, method, params, result } = JSON.parse(line);
	if (method === 'initialize') {
		say({ id, result: { protocolVersion: 1 } });
	} else if (method === 'session/new') {
		say({ id, result: { sessionId: 's' } });
	} else if (method === 'session/prompt') {
		play(id, params.prompt[0].text);
	} else if (method === 'session/cancel') {
		cancelled = true;
	} else if (result?.outcome) {
		answers.set(id, result.outcome.optionId ?? result.outcome.outcome);
	}
	wake();
});
`;

class Story {
	static async start(t) {
		const story = new Story();
		const dir = scratchDir(t);
		writeFileSync(join(dir, 'agent.mjs'), AGENT);
		story.t = t;
		story.journal = join(dir, 'heard');
		story.server = await Server.start(t, {
			agent: `exec '${process.execPath}' '${join(dir, 'agent.mjs')}' '${story.journal}'`, args: ['--limit', 'agent_stop_ms=200'],
		});
		story.id = (await story.server.createSession()).id;
		story.observers = [];
		return story;
	}

	/** One that stays; what it has seen is held against the log in the end. */
	async watch(name, options = {}) {
		const observer = await Observer.connect(this.t, this.server, this.id, { query: { format: 'markdown', client_id: name }, ...options });
		await observer.loadAll();
		this.observers.push(observer);
		return observer;
	}

	/** It goes; the story ends without it. */
	async leave(observer) {
		this.observers = this.observers.filter((o) => o !== observer);
		await observer.close();
	}

	async kill9() {
		await this.server.kill9();
		this.observers = [];
		await this.server.restart();
	}

	/** The lines that agents got, with the pid of each. */
	heard() {
		const lines = existsSync(this.journal) ? readFileSync(this.journal, 'utf8').trim().split('\n') : [];
		return lines.map((line) => ({ pid: Number(line.split(' ')[0]), ...JSON.parse(line.slice(line.indexOf(' ') + 1)) }));
	}

	get agentPid() {
		return this.heard().at(-1).pid;
	}

	/** The answers that agents heard, as `q1 once`. */
	answers() {
		return this.heard().filter((m) => m.result).map(({ id, result }) => `${id} ${result.outcome.optionId ?? result.outcome.outcome}`);
	}

	/**
	 * Every request was asked once and resolved once, what the agent heard is what the log says, and everyone has
	 * the same log. `deaf`: calls whose agent did not live to hear.
	 */
	async end({ deaf = [] } = {}) {
		const fresh = await this.watch('fresh');
		const log = readLog(this.server, this.id);
		const last = log.at(-1).seq;
		for (const observer of this.observers) {
			assert.deepEqual(await observer.waitForSeq(last), log);
		}
		assert.equal(fresh.last, last);
		const of = (type) => log.filter((e) => e.type === type);
		const asked = of('permission_request').map((e) => e.data.request_id);
		const resolved = of('permission_resolved');
		assert.equal(new Set(asked).size, asked.length, 'a request_id came twice');
		assert.deepEqual(resolved.map((e) => e.data.request_id).sort(), [...asked].sort());
		const said = of('permission_request').map(({ data }) => {
			const { data: answer } = resolved.find((e) => e.data.request_id === data.request_id);
			return `${data.tool_call.tool_call_id.replace('-call', '')} ${answer.option_id ?? answer.outcome}`;
		}).filter((line) => !deaf.includes(line.split(' ')[0]));
		assert.deepEqual(this.answers().sort(), said.sort());
		assert.deepEqual(await this.server.request('GET', `/api/sessions/${this.id}`).then(({ body }) => body.status), 'idle');
		return log;
	}
}

const play = (observer, steps) => observer.prompt(JSON.stringify(steps));
const isAskedBy = (id) => (e) => e.type === 'permission_request' && e.data.tool_call.tool_call_id === `${id}-call`;
const asked = (observer, id) => observer.waitForEvent(isAskedBy(id));
const answer = (observer, { data }, option) => observer.send('permission_answer', { request_id: data.request_id, option_id: option });
const resolved = (observer, { data }) => observer.waitForEvent((e) => e.type === 'permission_resolved' && e.data.request_id === data.request_id);
const turnEnd = (observer, { seq }) => observer.waitForEvent('turn_end', { after: seq });

test('nobody watches: the request waits, and who comes later answers', async (t) => {
	const story = await Story.start(t);
	const first = await story.watch('first');
	await play(first, [['ask', 'q1', 'make'], ['hear', 'q1']]);
	await story.leave(first);
	await eventually(async () => (await story.server.request('GET', `/api/sessions/${story.id}`)).body.status === 'waiting');
	const later = await story.watch('later');
	const question = await asked(later, 'q1');
	assert.deepEqual(story.answers(), []);
	await answer(later, question, 'once');
	await turnEnd(later, question);
	assert.equal((await resolved(later, question)).data.by, 'later');
	await story.end();
});

test('two answer at once: one is taken, and the other hears whose', async (t) => {
	const story = await Story.start(t);
	const [a, b] = [await story.watch('a'), await story.watch('b')];
	const ids = Array.from({ length: ROUNDS }, (_, i) => `q${i}`);
	await play(a, ids.flatMap((id) => [['ask', id, id], ['hear', id]]));
	for (const id of ids) {
		const question = await asked(a, id);
		await asked(b, id);
		await Promise.all([answer(a, question, 'once'), answer(b, question, 'no')]);
		const { data, seq } = await resolved(a, question);
		assert.equal(data.option_id, data.by === 'a' ? 'once' : 'no');
		const late = await (data.by === 'a' ? b : a).waitFor((f) => f.type === 'error' && f.data.request_id === data.request_id);
		assert.deepEqual([late.data.code, late.data.by, late.data.seq], ['already_resolved', data.by, seq]);
	}
	await a.waitForEvent('turn_end');
	assert.equal(a.frames.concat(b.frames).filter((f) => f.type === 'error').length, ROUNDS);
	await story.end();
});

test('an observer that was gone comes back to the question, and to the answer', async (t) => {
	const story = await Story.start(t);
	const [a, b] = [await story.watch('a'), await story.watch('b')];
	await play(a, [['ask', 'q1', 'one'], ['ask', 'q2', 'two'], ['hear', 'q1'], ['hear', 'q2']]);
	const [one, two] = [await asked(a, 'q1'), await asked(a, 'q2')];
	await story.leave(a);
	await answer(b, one, 'no');
	await resolved(b, one);
	const back = await story.watch('a', { held: a.events(), epoch: a.epoch });
	assert.equal((await resolved(back, one)).data.by, 'b');
	assert.equal((await back.refused('permission_answer', { request_id: one.data.request_id, option_id: 'once' })).code, 'already_resolved');
	await answer(back, two, 'once');
	await turnEnd(b, two);
	await story.end();
});

test('the server is killed while the request waits: it ends with the agent, for good', async (t) => {
	const story = await Story.start(t);
	const before = await story.watch('a');
	await play(before, [['ask', 'q1', 'make'], ['hear', 'q1']]);
	const question = await asked(before, 'q1');
	for (let i = 0; i < 2; i++) {
		await story.kill9();
		const back = await story.watch('a', { held: before.events(), epoch: before.epoch });
		assert.deepEqual((await resolved(back, question)).data, { request_id: question.data.request_id, outcome: 'cancelled' });
		const late = await back.refused('permission_answer', { request_id: question.data.request_id, option_id: 'once' });
		assert.deepEqual([late.code, late.by], ['already_resolved', undefined]);
	}
	// Nobody had answered: it is asked anew.
	const back = story.observers[0];
	await play(back, [['ask', 'q2', 'make'], ['hear', 'q2']]);
	const again = await asked(back, 'q2');
	assert.deepEqual(story.answers(), []);
	await answer(back, again, 'no');
	await turnEnd(back, again);
	await story.end({ deaf: ['q1'] });
});

test('the agent is killed while the request waits', async (t) => {
	const story = await Story.start(t);
	const [a, b] = [await story.watch('a'), await story.watch('b')];
	await play(a, [['ask', 'q1', 'make'], ['ask', 'q2', 'test'], ['sleep']]);
	const [one, two] = [await asked(b, 'q1'), await asked(b, 'q2')];
	process.kill(story.agentPid, 'SIGKILL');
	for (const question of [one, two]) {
		assert.equal((await resolved(a, question)).data.outcome, 'cancelled');
		assert.equal((await b.refused('permission_answer', { request_id: question.data.request_id, option_id: 'once' })).code, 'already_resolved');
	}
	await turnEnd(a, two);
	await story.end({ deaf: ['q1', 'q2'] });
});

test('cancelled while the request waits: the agent hears so, and so does who answers too late', async (t) => {
	const story = await Story.start(t);
	const [a, b] = [await story.watch('a'), await story.watch('b')];
	await play(a, [['ask', 'q1', 'make'], ['ask', 'q2', 'test'], ['hear', 'q1'], ['hear', 'q2'], ['sleep']]);
	const [one, two] = [await asked(b, 'q1'), await asked(b, 'q2')];
	await a.send('cancel');
	assert.equal((await turnEnd(b, two)).data.stop_reason, 'cancelled');
	assert.equal((await b.refused('permission_answer', { request_id: one.data.request_id, option_id: 'once' })).code, 'already_resolved');
	assert.deepEqual(story.answers(), ['q1 cancelled', 'q2 cancelled']);
	await story.end();
});

test('an answer and a cancel at once: the agent hears what the log says', async (t) => {
	const story = await Story.start(t);
	const [a, b] = [await story.watch('a'), await story.watch('b')];
	const outcomes = new Set();
	for (let i = 0; i < ROUNDS; i++) {
		await play(a, [['ask', `q${i}`, 'make'], ['hear', `q${i}`], ['sleep']]);
		const question = await asked(a, `q${i}`);
		await asked(b, `q${i}`);
		// In turns: the one first, the other first, and both in one packet, so that the answer is not on disk yet.
		const both = [() => answer(a, question, 'once'), () => (i % 3 === 2 ? a : b).send('cancel')];
		await Promise.all((i % 3 === 1 ? both.reverse() : both).map((send) => send()));
		outcomes.add((await resolved(a, question)).data.outcome);
		await turnEnd(a, question);
	}
	assert.deepEqual([...outcomes].sort(), ['cancelled', 'selected']);
	await story.end();
});

test('withdrawn by the agent, also at the moment of the answer', async (t) => {
	const story = await Story.start(t);
	const [a, b] = [await story.watch('a'), await story.watch('b')];
	await play(a, [['ask', 'q', 'make'], ['withdraw', 'q'], ['hear', 'q'], ['withdraw', 'q']]);
	const question = await asked(a, 'q');
	assert.deepEqual((await resolved(b, question)).data, { request_id: question.data.request_id, outcome: 'cancelled' });
	assert.equal((await b.refused('permission_answer', { request_id: question.data.request_id, option_id: 'once' })).code, 'already_resolved');
	await turnEnd(a, question);
	for (let i = 0; i < ROUNDS; i++) {
		const [go, race] = [`go${i}`, `race${i}`];
		await play(a, [['ask', go, 'go'], ['ask', race, 'make'], ['hear', go], ['withdraw', race], ['hear', race]]);
		await Promise.all([asked(a, race), asked(b, race)]);
		await answer(a, await asked(a, go), 'once');
		// Nobody waits: from some moment on the question is withdrawn.
		for (let j = 0; j < i % 4; j++) {
			await new Promise(setImmediate);
		}
		await answer(b, await asked(b, race), 'once');
		await turnEnd(a, await asked(a, race));
	}
	await story.end();
});

test('what a producer answers reaches the agent, and so does the end of the turn', async (t) => {
	const story = await Story.start(t);
	const a = await story.watch('a');
	await play(a, [['ask', 'q1', 'make'], ['hear', 'q1'], ['ask', 'q2', 'left open']]);
	const { data } = await asked(a, 'q1');
	await post(story.server, story.id, { type: 'permission_resolved', data: { request_id: data.request_id, outcome: 'selected', option_id: 'always' } });
	await turnEnd(a, await asked(a, 'q2'));
	await eventually(() => story.answers().length === 2);
	assert.deepEqual(story.answers(), ['q1 always', 'q2 cancelled']);
	await story.end();
});

test('asked again after the agent was started again: answered as before, once', async (t) => {
	const story = await Story.start(t);
	const [a, b] = [await story.watch('a'), await story.watch('b')];
	await play(a, [['ask', 'q1', 'make'], ['ask', 'q2', 'test'], ['ask', 'q3', 'done'], ['hear', 'q1'], ['hear', 'q2'], ['hear', 'q3'],
		['call', 'q3', 'completed'], ['exit']]);
	const [one, two, three] = [await asked(a, 'q1'), await asked(a, 'q2'), await asked(a, 'q3')];
	await answer(a, one, 'once');
	await answer(b, two, 'no');
	await answer(b, three, 'once');
	const first = await turnEnd(a, three);
	assert.equal(first.data.stop_reason, 'agent_stopped');
	await play(a, [['ask', 'q4', 'test'], ['hear', 'q4'], ['ask', 'q5', 'make'], ['hear', 'q5'], ['ask', 'q6', 'done'], ['ask', 'q7', 'make'],
		['hear', 'q6'], ['hear', 'q7']]);
	for (const [id, option, by, source] of [['q4', 'no', 'b', two], ['q5', 'once', 'a', one]]) {
		const question = await asked(b, id);
		const { seq } = await resolved(a, source);
		const bound = await resolved(b, question);
		assert.deepEqual(bound.data, { request_id: question.data.request_id, outcome: 'selected', option_id: option, by, bound_to: seq });
		assert.equal(bound.seq, question.seq + 1);
		const late = await b.refused('permission_answer', { request_id: question.data.request_id, option_id: 'always' });
		assert.deepEqual([late.code, late.by, late.seq], ['already_resolved', by, bound.seq]);
	}
	// What was done, and what was said once, is a question again.
	await answer(a, await asked(a, 'q6'), 'no');
	await answer(a, await asked(a, 'q7'), 'no');
	await turnEnd(a, await asked(a, 'q7'));
	assert.deepEqual(story.answers().slice(3), ['q4 no', 'q5 once', 'q6 no', 'q7 no']);
	await story.end();
});

test('a turn that was cancelled carries nothing over, also if its agent dies of it', async (t) => {
	const story = await Story.start(t);
	const a = await story.watch('a');
	await play(a, [['ask', 'q1', 'make'], ['hear', 'q1'], ['sleep'], ['exit']]);
	const one = await asked(a, 'q1');
	await answer(a, one, 'once');
	await a.waitForEvent('agent_message');
	await play(a, [['ask', 'q2', 'make'], ['hear', 'q2']]);
	await a.send('cancel');
	assert.equal((await turnEnd(a, one)).data.stop_reason, 'cancelled');
	const two = await asked(a, 'q2');
	await answer(a, two, 'no');
	assert.equal((await turnEnd(a, two)).data.stop_reason, 'end_turn');
	assert.equal((await resolved(a, two)).data.bound_to, undefined);
	await story.end();
});

test('the answer is on disk and the server is killed before the agent heard: it hears it when it asks again', async (t) => {
	const story = await Story.start(t);
	const a = await story.watch('a');
	await play(a, [['ask', 'q1', 'make'], ['hear', 'q1']]);
	const question = await asked(a, 'q1');
	process.kill(story.agentPid, 'SIGSTOP');
	await answer(a, question, 'once');
	const { seq } = await resolved(a, question);
	await story.kill9();
	const back = await story.watch('a', { held: a.events(), epoch: a.epoch });
	await turnEnd(back, question);
	assert.deepEqual(story.answers(), []);
	// Once more, with nothing asked: the answer is the journal's to keep.
	await story.kill9();
	const again = await story.watch('a', { held: back.events(), epoch: back.epoch });
	await play(again, [['ask', 'q2', 'make'], ['hear', 'q2']]);
	const second = await asked(again, 'q2');
	assert.equal((await resolved(again, second)).data.bound_to, seq);
	await turnEnd(again, second);
	assert.deepEqual(story.answers(), ['q2 once']);
	await story.end({ deaf: ['q1'] });
});

/** Requests `from` to `to` of a producer, each of which waits for an answer. */
const asking = (from, to) => Array.from({ length: to - from }, (_, i) => ({
	type: 'permission_request', data: { request_id: `q${from + i}`, tool_call: { tool_call_id: 'c', title: 'Run it' }, options: [{ option_id: 'yes', name: 'Yes' }] },
}));
const resolving = (n) => ({ type: 'permission_resolved', data: { request_id: `q${n}`, outcome: 'cancelled' } });

test('no more requests wait in a session than open_permissions, whoever asks', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const path = `/api/sessions/${id}/events`;
	const refused = async (events) => {
		const { status, body } = await server.request('POST', path, { json: events });
		assert.deepEqual([status, body.error?.code], [429, 'permissions_full'], JSON.stringify(body).slice(0, 300));
	};
	await refused(asking(0, 10_000));
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.max_seq, 0, 'nothing of it was added');
	await post(server, id, asking(0, 64));
	await refused(asking(64, 65));
	await post(server, id, [resolving(7), ...asking(64, 65)]);
	await refused([resolving(8), ...asking(65, 67)]);
	// The end of the turn closes them all; each turn may have as many again.
	await post(server, id, [{ type: 'turn_end', data: {} }, ...asking(100, 164), { type: 'turn_end', data: {} }, ...asking(200, 264)]);
	await refused(asking(300, 301));
	await server.kill9();
	await server.restart();
	await refused(asking(300, 301));
});

test('twenty thousand requests that wait, where the limit allows them, are closed with their turn', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'open_permissions=20000'] });
	const { id } = await server.createSession();
	for (let from = 0; from < 20_000; from += 10_000) {
		await post(server, id, asking(from, from + 10_000));
	}
	await post(server, id, resolving(19_999));
	const { max_seq: last } = await post(server, id, { type: 'turn_end', data: {} });
	assert.equal(last, 20_000 + 20_000 + 1);
	assert.deepEqual(readLog(server, id).slice(20_001, 20_003).map((e) => e.data.request_id), ['q0', 'q1']);
});
