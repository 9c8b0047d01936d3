// Prompts that wait for their turn: listed, edited and removed by anyone, in an order that outlives everything.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { check } from '../support/schema.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const MIB = 1 << 20;
const CASES = fileURLToPath(new URL('../unit/acp_agent_cases.sh', import.meta.url));

async function connectLive(t, server, id, clientId, held = undefined) {
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown', client_id: clientId }, ...held });
	await observer.loadAll();
	return observer;
}

/** A session whose first turn runs until it is cancelled, with these prompts behind it: p-1, p-2, … */
async function start(t, messages, options = {}) {
	const server = await Server.start(t, { agent: demoAgent('--rate 0'), ...options });
	const { id } = await server.createSession();
	const observer = await connectLive(t, server, id, 'ann');
	await observer.prompt('hang', 'p-0');
	for (const [i, message] of messages.entries()) {
		assert.equal((await observer.prompt(message, `p-${i + 1}`)).seq, null);
	}
	return { server, id, observer };
}

/** The answer to a request: the next frame of this type, or the next error, that is about its prompt. */
async function ask(observer, type, data, answer) {
	const from = observer.frames.length;
	await observer.send(type, data);
	const isIt = (frame) => (frame.type === answer && (answer === 'prompts' || frame.data.prompt_id === data.prompt_id)) ||
		(frame.type === 'error' && frame.data.request === type && frame.data.prompt_id === data.prompt_id);
	return observer.waitFor(isIt, { from });
}

const list = async (observer, data = {}) => (await ask(observer, 'list_prompts', data, 'prompts')).data;
const edit = (observer, promptId, message) => ask(observer, 'edit_prompt', { prompt_id: promptId, message }, 'prompt_edited');
const remove = (observer, promptId) => ask(observer, 'remove_prompt', { prompt_id: promptId }, 'prompt_removed');

const texts = ({ prompts }) => prompts.map(({ prompt_id, message }) => `${prompt_id} ${message}`);
const shown = (observer) => observer.frames.filter((f) => f.type === 'state').at(-1)?.data.queue ?? [];

/** Waits until this is the queue that it was told last. */
function waitForQueue(observer, want) {
	const isIt = () => JSON.stringify(texts({ prompts: shown(observer) })) === JSON.stringify(want);
	return observer.waitUntil(isIt, `the queue ${want.join(', ')}`);
}

/** What was asked and how it ended, of every turn: `p-1 list ann`. */
const asked = (events) => events.filter((e) => e.type === 'user_prompt')
	.map(({ data }) => [data.prompt_id, data.message, data.client_id, ...(data.edited ? ['edited'] : [])].join(' '));

function waitForTurns(observer, count) {
	return observer.waitUntil(() => observer.events().filter((e) => e.type === 'turn_end').length === count, `${count} turns`);
}

test('everyone sees the queue, and anyone may change it', async (t) => {
	const { server, id, observer } = await start(t, ['list', 'table', 'plan']);
	const other = await connectLive(t, server, id, 'bob');
	await waitForQueue(other, ['p-1 list', 'p-2 table', 'p-3 plan']);
	assert.deepEqual(shown(other)[0], { prompt_id: 'p-1', client_id: 'ann', message: 'list' });
	assert.deepEqual((await edit(other, 'p-2', 'fence')).data, { prompt_id: 'p-2' });
	await waitForQueue(observer, ['p-1 list', 'p-2 fence', 'p-3 plan']);
	assert.deepEqual((await remove(other, 'p-1')).data, { prompt_id: 'p-1', duplicate: false });
	assert.deepEqual((await remove(observer, 'p-1')).data, { prompt_id: 'p-1', duplicate: true });
	await waitForQueue(observer, ['p-2 fence', 'p-3 plan']);
	const all = await list(observer);
	assert.deepEqual(all.prompts, [
		{ prompt_id: 'p-2', client_id: 'ann', message: 'fence', edited: true }, { prompt_id: 'p-3', client_id: 'ann', message: 'plan' },
	]);
	const { status, body } = await server.request('GET', `/api/sessions/${id}/queue`);
	assert.equal(status, 200);
	assert.deepEqual(body, all);
	assert.equal(check.rest('queue')(body), null);
	const late = await connectLive(t, server, id, 'late');
	await waitForQueue(late, ['p-2 fence', 'p-3 plan']);
	await other.send('cancel');
	await waitForTurns(late, 3);
	assert.deepEqual(asked(readLog(server, id)), ['p-0 hang ann', 'p-2 fence ann edited', 'p-3 plan ann']);
	await waitForQueue(late, []);
});

test('what does not wait cannot be changed, and a removed prompt stays known', async (t) => {
	const { server, id, observer } = await start(t, ['list', 'table']);
	const refusal = async (promise) => {
		const { type, data } = await promise;
		return [type, data.code, data.prompt_id, data.seq];
	};
	assert.deepEqual(await refusal(edit(observer, 'p-0', 'x')), ['error', 'not_queued', 'p-0', 1]);
	assert.deepEqual(await refusal(remove(observer, 'p-0')), ['error', 'not_queued', 'p-0', 1]);
	assert.deepEqual(await refusal(ask(observer, 'list_prompts', { prompt_id: 'p-0' }, 'prompts')), ['error', 'not_queued', 'p-0', 1]);
	assert.deepEqual(await refusal(remove(observer, 'p-9')), ['error', 'not_queued', 'p-9', undefined]);
	assert.equal((await remove(observer, 'p-1')).type, 'prompt_removed');
	assert.deepEqual(await refusal(edit(observer, 'p-1', 'x')), ['error', 'not_queued', 'p-1', undefined]);
	assert.deepEqual(await observer.prompt('list', 'p-1'), { prompt_id: 'p-1', seq: null, duplicate: true, removed: true });
	assert.deepEqual(texts(await list(observer)), ['p-2 table']);
	const rest = async (query) => {
		const { status, body } = await server.request('GET', `/api/sessions/${id}/queue?${query}`);
		return [status, body.error?.code ?? texts(body).join(), body.error?.seq];
	};
	assert.deepEqual(await rest('prompt_id=p-2'), [200, 'p-2 table', undefined]);
	assert.deepEqual(await rest('prompt_id=p-0'), [404, 'not_queued', 1]);
	assert.deepEqual(await rest('prompt_id=p-1'), [404, 'not_queued', undefined]);
	assert.deepEqual(await rest('prompt_id=a%20b'), [400, 'bad_request', undefined]);
	assert.deepEqual(await rest(`prompt_id=${'x'.repeat(300)}`), [400, 'bad_request', undefined]);
	assert.deepEqual(await rest('limit=3'), [400, 'bad_request', undefined]);
	assert.equal((await server.request('POST', `/api/sessions/${id}/queue`, { json: {} })).status, 405);
	assert.equal((await server.request('GET', '/api/sessions/nobody/queue')).status, 404);
});

test('long messages are cut in the state, and whole in a list that is bounded', async (t) => {
	const long = 'ä'.repeat(200_000); // 400 kB
	const { observer } = await start(t, [long, long, long, 'list']);
	await observer.waitUntil(() => shown(observer).length === 4, 'the queue');
	const cut = { message: 'ä'.repeat(150), truncated: true, client_id: 'ann' };
	assert.deepEqual(shown(observer).map(({ message }) => message.length), [150, 150, 150, 4]);
	assert.deepEqual(shown(observer)[0], { ...cut, prompt_id: 'p-1' });
	const { prompts } = await list(observer);
	assert.deepEqual(prompts.map(({ message }) => message.length), [200_000, 200_000, 150, 4]);
	assert.ok(Buffer.byteLength(JSON.stringify(prompts)) < 1.5 * MIB);
	assert.deepEqual(await list(observer, { prompt_id: 'p-3' }), { prompts: [{ prompt_id: 'p-3', client_id: 'ann', message: long }] });
	assert.equal((await edit(observer, 'p-1', 'x'.repeat(600 << 10))).data.code, 'too_large');
	assert.equal((await list(observer, { prompt_id: 'p-1' })).prompts[0].edited, undefined);
});

test('who asks for lists and reads none of them costs a bounded memory', async (t) => {
	const { server, id } = await start(t, ['ä'.repeat(200_000), 'ö'.repeat(200_000)], { args: ['--limit', 'outbox_size=2M'] });
	const greedy = await connectLive(t, server, id, 'greedy');
	greedy.pause();
	for (let n = 0; n < 100; n++) {
		await greedy.send('list_prompts', {});
	}
	const healthy = await connectLive(t, server, id, 'healthy');
	assert.equal((await list(healthy)).prompts.length, 2); // behind what the greedy one has asked for
	greedy.resume();
	assert.equal((await greedy.waitClosed()).code, 1008);
	assert.ok(greedy.frames.filter((f) => f.type === 'prompts').length < 60, 'most answers were never made');
});

test('cancel ends the turn and not the queue', async (t) => {
	const { server, id, observer } = await start(t, ['hang', 'list', 'hang', 'plan']);
	const other = await connectLive(t, server, id, 'bob');
	for (const [turn, left] of [['p-1', ['p-2 list', 'p-3 hang', 'p-4 plan']], ['p-3', ['p-4 plan']]]) {
		await other.send('cancel');
		await other.waitForEvent((e) => e.data.prompt_id === turn);
		await waitForQueue(other, left);
	}
	await other.send('cancel');
	await waitForTurns(observer, 5);
	const ends = readLog(server, id).filter((e) => e.type === 'turn_end').map((e) => e.data.stop_reason);
	assert.deepEqual(ends, ['cancelled', 'cancelled', 'end_turn', 'cancelled', 'end_turn']);
	assert.equal((await other.refused('cancel', {})).code, 'not_prompting');
});

test('a cancel that names a turn ends that one or none', async (t) => {
	const { observer } = await start(t, ['hang']);
	const first = observer.events().find((e) => e.data.prompt_id === 'p-0').turn;
	assert.equal((await observer.refused('cancel', { turn: first + 1 })).code, 'not_prompting');
	await observer.send('cancel', { turn: first });
	await observer.waitForEvent((e) => e.data.prompt_id === 'p-1');
	// It was pressed for the turn before, and comes late.
	assert.equal((await observer.refused('cancel', { turn: first })).code, 'not_prompting');
	assert.equal((await observer.refused('cancel', { turn: 0 })).code, 'bad_request');
	await observer.send('cancel', { turn: first + 1 });
	await waitForTurns(observer, 2);
});

test('a cancel right behind the prompt ends its turn, wherever the prompt is by then', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	for (let i = 0; i < 8; i++) {
		const { id } = await server.createSession();
		const observer = await connectLive(t, server, id, 'ann');
		observer.send('prompt', { message: 'hang', prompt_id: 'p-0' });
		observer.send('cancel');
		const { data } = await observer.waitForEvent('turn_end');
		assert.equal(data.stop_reason, 'cancelled');
	}
});

test('an agent that ends after each turn answers each prompt in its own turn, or not at all', async (t) => {
	const server = await Server.start(t, { agent: `exec sh ${CASES} once`, args: ['--limit', 'agent_stop_ms=300'] });
	const { id } = await server.createSession();
	const observer = await connectLive(t, server, id, 'ann');
	for (let i = 0; i < 12; i++) {
		await observer.prompt(`number ${i}`, `p-${i}`);
	}
	await waitForTurns(observer, 12);
	const log = readLog(server, id);
	const numberOf = (text) => /number \d+/.exec(text)[0];
	for (let turn = 1; turn <= 12; turn++) {
		const events = log.filter((e) => e.turn === turn);
		const end = events.find((e) => e.type === 'turn_end').data.stop_reason;
		const answers = events.filter((e) => e.type === 'agent_message').map((e) => numberOf(e.data.markdown));
		assert.equal(events[0].data.message, `number ${turn - 1}`);
		// It may have been given a prompt that it did not live to read; one it was not given waits for its next start.
		assert.ok(['end_turn', 'agent_stopped'].includes(end), end);
		assert.deepEqual(answers, end === 'end_turn' ? [`number ${turn - 1}`] : []);
	}
});

test('who queued prompts may leave: they run all the same', async (t) => {
	const { server, id, observer } = await start(t, ['list', 'hang', 'plan']);
	await observer.drop();
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.is_prompting, true, 'the turn goes on');
	const { body } = await server.request('GET', `/api/sessions/${id}/queue`);
	assert.deepEqual(texts(body), ['p-1 list', 'p-2 hang', 'p-3 plan']);
	const other = await connectLive(t, server, id, 'bob');
	await other.send('cancel');
	await other.waitForEvent((e) => e.data.prompt_id === 'p-2');
	await other.drop();
	const back = await connectLive(t, server, id, 'ann');
	await waitForQueue(back, ['p-3 plan']);
	assert.deepEqual(await back.prompt('plan', 'p-3'), { prompt_id: 'p-3', seq: null, duplicate: true });
	await back.send('cancel');
	await waitForTurns(back, 4);
	assert.deepEqual(asked(back.events()), ['p-0 hang ann', 'p-1 list ann', 'p-2 hang ann', 'p-3 plan ann']);
});

test('a kill takes nothing from the queue, and brings nothing back', async (t) => {
	const { server, id, observer } = await start(t, ['hang', 'list', 'table', 'plan']);
	assert.equal((await edit(observer, 'p-3', 'fence')).type, 'prompt_edited');
	assert.equal((await remove(observer, 'p-2')).type, 'prompt_removed');
	await server.kill9();
	await server.restart();
	// The turn that ran ended with the server; the next prompt runs.
	const back = await connectLive(t, server, id, 'ann');
	await back.waitForEvent((e) => e.data.prompt_id === 'p-1');
	await waitForQueue(back, ['p-3 fence', 'p-4 plan']);
	assert.deepEqual(await back.prompt('list', 'p-2'), { prompt_id: 'p-2', seq: null, duplicate: true, removed: true });
	assert.deepEqual((await remove(back, 'p-2')).data, { prompt_id: 'p-2', duplicate: true });
	await server.stop();
	await server.restart();
	const again = await connectLive(t, server, id, 'ann');
	await waitForTurns(again, 4);
	assert.deepEqual(await again.prompt('list', 'p-2'), { prompt_id: 'p-2', seq: null, duplicate: true, removed: true });
	assert.deepEqual(asked(readLog(server, id)), ['p-0 hang ann', 'p-1 hang ann', 'p-3 fence ann edited', 'p-4 plan ann']);
});

test('a removed prompt is known when the session has left memory, and when its events are pruned', async (t) => {
	const limits = ['evict_ms=1', 'keep_events=1', 'prune_ms=10', 'agent_idle_ms=1'].flatMap((limit) => ['--limit', limit]);
	const { server, id, observer } = await start(t, ['list', 'plan'], { args: limits });
	await remove(observer, 'p-1');
	await observer.send('cancel');
	await waitForTurns(observer, 2);
	await observer.drop();
	const firstSeq = async () => (await server.request('GET', `/api/sessions/${id}`)).body.first_seq;
	await eventually(async () => (await firstSeq()) > 3, 'the prompts to be pruned');
	for (let round = 0; round < 2; round++) {
		const back = await Observer.connect(t, server, id);
		assert.deepEqual(await back.prompt('list', 'p-1'), { prompt_id: 'p-1', seq: null, duplicate: true, removed: true });
		assert.equal((await remove(back, 'p-2')).data.code, 'not_queued');
		await back.drop();
		await server.stop();
		await server.restart();
	}
});

test('of two editors the later one counts, and both see the same', async (t) => {
	const { server, id, observer } = await start(t, ['list', 'table']);
	const other = await connectLive(t, server, id, 'bob');
	for (let round = 0; round < 10; round++) {
		const answers = await Promise.all([
			edit(observer, 'p-1', `ann ${round}`), edit(other, 'p-1', `bob ${round}`), edit(other, 'p-2', `both ${round}`),
		]);
		assert.deepEqual(answers.map(({ type }) => type), ['prompt_edited', 'prompt_edited', 'prompt_edited']);
		const { prompts } = await list(observer);
		assert.match(prompts[0].message, new RegExp(`^(ann|bob) ${round}$`));
		assert.deepEqual(prompts.map((p) => p.prompt_id), ['p-1', 'p-2']);
		await Promise.all([observer, other].map((o) => waitForQueue(o, texts({ prompts }))));
	}
	const both = await Promise.all([remove(observer, 'p-1'), remove(other, 'p-1'), edit(other, 'p-2', 'plan')]);
	assert.deepEqual(both.slice(0, 2).map(({ data }) => data.duplicate).sort(), [false, true]);
	await observer.send('cancel');
	await waitForTurns(other, 2);
	assert.deepEqual(asked(other.events()), ['p-0 hang ann', 'p-2 plan ann edited']);
});

test('a change that races with the end of the turn is made or refused, and never half', async (t) => {
	const { server, id, observer } = await start(t, []);
	const editor = await connectLive(t, server, id, 'bob');
	const remover = await connectLive(t, server, id, 'eve');
	const seen = new Set();
	for (let round = 0; round < 30; round++) {
		await observer.prompt('hang', `e-${round}`);
		await observer.prompt('hang', `r-${round}`);
		// Both turns that run end meanwhile: the one before, and that of e-….
		const [edited] = await Promise.all([edit(editor, `e-${round}`, 'hang still'), observer.send('cancel')]);
		const begun = await observer.waitForEvent((e) => e.data.prompt_id === `e-${round}`);
		assert.equal(begun.data.message, edited.type === 'prompt_edited' ? 'hang still' : 'hang');
		assert.equal(begun.data.edited, edited.type === 'prompt_edited' ? true : undefined);
		assert.equal(edited.data.seq, edited.type === 'error' ? begun.seq : undefined);
		const [removed] = await Promise.all([remove(remover, `r-${round}`), observer.send('cancel')]);
		seen.add(edited.type).add(removed.type);
		if (removed.type === 'error') {
			const ran = await observer.waitForEvent((e) => e.data.prompt_id === `r-${round}`);
			assert.deepEqual([removed.data.code, removed.data.seq], ['not_queued', ran.seq]);
		} else {
			await observer.waitForEvent('turn_end', { after: begun.seq });
			await observer.prompt('hang', `n-${round}`);
		}
	}
	const log = readLog(server, id);
	const ids = log.filter((e) => e.type === 'user_prompt').map((e) => e.data.prompt_id);
	assert.equal(new Set(ids).size, ids.length, 'a prompt ran twice');
	assert.deepEqual(observer.events(), log.slice(0, observer.last));
	assert.ok(seen.has('prompt_edited') || seen.has('prompt_removed'), 'nothing was ever in time');
});
