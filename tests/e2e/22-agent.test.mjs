// The demo agent through the relay: whole turns, and an agent, or a server, that dies in the middle of one.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { readLog, withoutText } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';

async function connectLive(t, server, id, query = {}) {
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown', ...query } });
	await observer.loadAll();
	return observer;
}

async function start(t, options = {}) {
	const server = await Server.start(t, { agent: demoAgent('--rate 0'), ...options });
	const { id } = await server.createSession();
	return { server, id, observer: await connectLive(t, server, id) };
}

/** Answers the next permission request after `seq` with the first option of this kind. */
async function answerNext(observer, seq, kind) {
	const { data, seq: asked } = await observer.waitForEvent('permission_request', { after: seq });
	const option = data.options.find((o) => o.kind === kind);
	await observer.send('permission_answer', { request_id: data.request_id, option_id: option.option_id });
	return { asked, option };
}

const types = (events) => events.map((e) => e.type);
const count = (events, type) => types(events).filter((other) => other === type).length;
const markdownOf = (events) => events.filter((e) => e.type === 'agent_message').map((e) => e.data.markdown).join('');

/** The command lines of the processes that run the agent `marker`, or the shell before it. */
function processesWith(marker) {
	return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
		try {
			const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
			// The server has it among its arguments, too.
			return line.includes(marker) && !line.includes(' --data ') ? [line] : [];
		} catch {
			return []; // gone meanwhile
		}
	});
}

/** A demo agent that can be told from all others on this machine: its command line has a path of its own. */
function markedAgent(t) {
	const marker = join(scratchDir(t), 'agent');
	// The shell runs the agent by that name, and is replaced by it.
	return { marker, agent: `ln -sf ${demoAgent()} ${marker} && exec ${marker} --rate 0` };
}

/** Waits until only `left` processes run the agent; the end of one has no event that a test could wait for. */
async function waitUntilGone(marker, left = 0) {
	for (const end = Date.now() + 20_000; processesWith(marker).length > left;) {
		assert.ok(Date.now() < end, `still there: ${processesWith(marker)}`);
		await new Promise((resolve) => setTimeout(resolve, 20));
	}
	assert.equal(processesWith(marker).length, left);
}

test('the tour arrives whole, in every format, and is the log', async (t) => {
	const cwd = scratchDir(t);
	writeFileSync(join(cwd, 'README.md'), '# To be read\n');
	const { server, id, observer } = await start(t, { cwd });
	const others = await Promise.all([{ format: 'html' }, { format: 'both', deltas: 'text' }, { deltas: 'html' }]
		.map((query) => connectLive(t, server, id, query)));
	await observer.prompt('tour rate=0');
	await answerNext(others[0], 0, 'allow_once');
	const end = await observer.waitForEvent('turn_end');
	assert.equal(end.data.stop_reason, 'end_turn');
	const events = observer.events();
	const log = readLog(server, id);
	assert.deepEqual(events, log.slice(0, events.length));
	for (const type of ['user_prompt', 'agent_started', 'agent_thought', 'plan', 'tool_call', 'tool_call_update',
		'file_read', 'file_write', 'permission_request', 'permission_resolved', 'usage', 'turn_end']) {
		assert.ok(count(events, type) > 0, `no ${type} in the tour`);
	}
	for (const other of others) {
		assert.deepEqual(withoutText(await other.waitForSeq(observer.last)), withoutText(events));
	}
	assert.ok(events.every((e) => e.turn === 1 || e.type === 'agent_started'), 'all in one turn');
	assert.equal(markdownOf(events.filter((e) => e.data.continues)), '', 'without pauses nothing is cut');
	for (const { data } of events.filter((e) => e.type === 'file_write' || e.type === 'file_read')) {
		assert.equal(statSync(join(cwd, basename(data.path))).size, data.size, data.path);
	}
	// The same prompt again: the same events, under their own numbers, and the agent is not started again.
	const { seq: second } = await observer.prompt('tour rate=0');
	await answerNext(observer, second, 'allow_once');
	await observer.waitForEvent('turn_end', { after: second });
	assert.equal(count(observer.events(), 'agent_started'), 1);
	const texts = [1, 2].map((turn) => markdownOf(observer.events().filter((e) => e.turn === turn)));
	assert.ok(texts[0].length > 4000);
	assert.equal(texts[1], texts[0]);
});

test('the answer of an observer reaches the agent', async (t) => {
	const { observer } = await start(t);
	const results = {};
	for (const kind of ['allow_once', 'reject_once']) {
		const { seq } = await observer.prompt('permission');
		const { asked, option } = await answerNext(observer, seq, kind);
		const end = await observer.waitForEvent('turn_end', { after: seq });
		const rest = observer.events().slice(asked, end.seq);
		assert.deepEqual([rest[0].type, rest[0].data.option_id], ['permission_resolved', option.option_id]);
		results[kind] = { text: markdownOf(rest), written: count(rest, 'file_write'), stop: end.data.stop_reason };
	}
	assert.equal(results.allow_once.written, 1);
	assert.equal(results.reject_once.written, 0);
	assert.notEqual(results.allow_once.text, results.reject_once.text);
	assert.equal(results.reject_once.stop, 'end_turn');
});

for (const [word, detail] of [['crash', '3'], ['exit', '0']]) {
	test(`an agent that dies (${word}) ends its turn, and the next prompt starts it again`, async (t) => {
		const { server, id, observer } = await start(t);
		for (let round = 0; round < 2; round++) {
			const { seq } = await observer.prompt(word);
			const stopped = await observer.waitForEvent('agent_stopped', { after: seq });
			const end = await observer.waitForEvent('turn_end', { after: seq });
			assert.equal(stopped.data.reason, 'exit');
			assert.match(stopped.data.detail ?? detail, new RegExp(`\\b${detail}\\b`));
			assert.equal(end.seq, stopped.seq + 1);
			assert.notEqual(end.data.stop_reason, 'end_turn');
			const turn = observer.events().slice(seq - 1, end.seq);
			assert.deepEqual(types(turn).slice(0, 2), ['user_prompt', 'agent_started']);
			assert.match(markdownOf(turn), { crash: /in the middle of a sen$/, exit: /without answering your prom$/ }[word]);
			await observer.waitFor((f) => f.type === 'state' && !f.data.is_running && !f.data.is_prompting, { from: 4 });
		}
		const { seq } = await observer.prompt('hello');
		assert.equal((await observer.waitForEvent('turn_end', { after: seq })).data.stop_reason, 'end_turn');
		assert.equal(count(observer.events(), 'agent_started'), 3);
		assert.deepEqual(readLog(server, id), observer.events());
	});
}

test('noise on the agent\'s stdout is skipped, and told where diagnostics go', async (t) => {
	const { server, id, observer } = await start(t);
	await observer.prompt('noise list');
	const end = await observer.waitForEvent('turn_end');
	assert.equal(end.data.stop_reason, 'end_turn');
	assert.match(markdownOf(observer.events()), /the client did not mind\./);
	assert.equal(count(observer.events(), 'agent_stopped'), 0);
	assert.deepEqual(readLog(server, id), observer.events());
	assert.match(server.stderr, /warning: .*\n/);
});

test('an agent that cannot be started ends the turn', async (t) => {
	const { observer } = await start(t, { agent: '/nonexistent/agent --acp' });
	for (let round = 0; round < 2; round++) {
		const { seq } = await observer.prompt('hello');
		const end = await observer.waitForEvent('turn_end', { after: seq });
		assert.deepEqual(types(observer.events().slice(seq - 1, end.seq)), ['user_prompt', 'agent_stopped', 'turn_end']);
	}
});

test('the session tells what a failed agent wrote to its stderr last, without secrets', async (t) => {
	const script = 'for i in $(seq 30); do echo "line $i" >&2; done; printf "\\033[31mbad key $MY_KEY" >&2; exit 4';
	const { server, id, observer } = await start(t, { agent: script, args: ['--agent-env', 'MY_KEY=sk-very-secret'] });
	await observer.prompt('hello');
	const { data } = await observer.waitForEvent('agent_stopped');
	const lines = data.stderr.split('\n');
	assert.deepEqual(lines.slice(0, -1), Array.from({ length: 12 }, (_, i) => `line ${i + 19}`));
	assert.match(lines.at(-1), /bad key \*\*\*$/);
	assert.doesNotMatch(JSON.stringify(readLog(server, id)), /sk-very|\\u001b/);
});

test('a command that does not exist is called that', async (t) => {
	const { observer } = await start(t, { agent: 'no-such-agent --acp' });
	await observer.prompt('hello');
	const { data } = await observer.waitForEvent('agent_stopped');
	assert.match(data.detail, /^exit status 127; its command cannot be run: is it installed/);
	assert.match(data.stderr, /no-such-agent.*not found/);
});

test('a server that is killed in the middle of a turn says so, leaves no agent behind, and keeps the queue', async (t) => {
	const { marker, agent } = markedAgent(t);
	const { server, id, observer } = await start(t, { agent });
	await observer.prompt('list long=1000000 rate=500', 'p-1');
	assert.equal((await observer.prompt('hello', 'p-2')).seq, null);
	assert.equal((await observer.prompt('table', 'p-3')).seq, null);
	await observer.waitForEvent((e) => e.type === 'agent_message' && e.seq > 5);
	assert.equal(processesWith(marker).length, 1, 'the marker finds the agent');
	await server.kill9();
	const shown = observer.events().slice();
	await waitUntilGone(marker);
	await server.restart();
	const back = await Observer.connect(t, server, id, { query: { format: 'markdown' }, held: shown, epoch: observer.epoch });
	await back.loadAll();
	await back.waitUntil(() => count(back.events(), 'turn_end') === 3, 'the three turns');
	const events = back.events();
	const stopped = events.find((e) => e.type === 'agent_stopped');
	assert.equal(stopped.data.reason, 'server_restart');
	const prompts = events.filter((e) => ['user_prompt', 'turn_end', 'agent_started', 'agent_stopped'].includes(e.type))
		.map((e) => [e.type, e.turn, e.data.prompt_id ?? e.data.stop_reason]);
	assert.deepEqual(prompts.filter(([type]) => type === 'user_prompt'), [['user_prompt', 1, 'p-1'], ['user_prompt', 2, 'p-2'], ['user_prompt', 3, 'p-3']]);
	assert.deepEqual(prompts.filter(([type]) => type === 'turn_end').slice(1), [['turn_end', 2, 'end_turn'], ['turn_end', 3, 'end_turn']]);
	assert.equal(prompts.filter(([type]) => type === 'agent_started').length, 2);
	assert.equal(events[stopped.seq].type, 'turn_end');
	assert.equal(events[stopped.seq].turn, 1);
	assert.deepEqual(readLog(server, id), events);
	assert.deepEqual(await back.prompt('hello', 'p-3'), { prompt_id: 'p-3', seq: events.find((e) => e.data.prompt_id === 'p-3').seq, duplicate: true });
	await server.stop();
	await waitUntilGone(marker);
});

test('a server that is stopped in the middle of a turn ends its agents and says so', async (t) => {
	const { marker, agent } = markedAgent(t);
	const { server, id, observer } = await start(t, { agent });
	await observer.prompt('hang');
	await observer.waitForEvent('agent_started');
	await server.stop();
	assert.equal((await observer.waitClosed()).code, 1001);
	await waitUntilGone(marker);
	await server.restart();
	const back = await Observer.connect(t, server, id, { query: { format: 'markdown' }, held: observer.events().slice(), epoch: observer.epoch });
	const events = await back.loadAll();
	assert.equal(back.hello.is_prompting, false);
	assert.deepEqual(types(events).slice(-2), ['agent_stopped', 'turn_end']);
	assert.deepEqual(readLog(server, id), events);
});

test('a permission request that is open when the server is killed is closed with its turn', async (t) => {
	const { server, id, observer } = await start(t);
	await observer.prompt('permission');
	const asked = await observer.waitForEvent('permission_request');
	await server.kill9();
	await server.restart();
	const back = await Observer.connect(t, server, id, { query: { format: 'markdown' }, held: observer.events().slice(), epoch: observer.epoch });
	await back.loadAll();
	await back.waitForEvent('turn_end');
	assert.deepEqual(types(back.events()).slice(asked.seq), ['agent_stopped', 'permission_resolved', 'turn_end']);
	assert.deepEqual(back.events()[asked.seq + 1].data, { request_id: asked.data.request_id, outcome: 'cancelled' });
	const { seq } = await back.prompt('hello');
	assert.equal((await back.waitForEvent('turn_end', { after: seq })).data.stop_reason, 'end_turn');
});

test('sessions have agents of their own', async (t) => {
	const { marker, agent } = markedAgent(t);
	const { server, observer } = await start(t, { agent });
	const others = await Promise.all([1, 2].map(async () => connectLive(t, server, (await server.createSession()).id)));
	for (const one of [observer, ...others]) {
		await one.prompt('hang');
		await one.waitForEvent('agent_started');
	}
	assert.equal(processesWith(marker).length, 3);
	const { session_id: gone } = others[1].hello;
	await server.request('DELETE', `/api/sessions/${gone}`);
	await others[1].waitClosed();
	await others[0].send('cancel');
	assert.equal((await others[0].waitForEvent('turn_end')).data.stop_reason, 'cancelled');
	const { body } = await server.request('GET', '/api/sessions');
	assert.deepEqual(body.sessions.map((s) => s.is_prompting).sort(), [false, true]);
	await waitUntilGone(marker, 2);
});
