// A turn that an agent begins by itself, after its answer: its tool, its command and its question hold it, however silent the agent is; the
// next prompt, a cancel and the limit self_turn_ms end it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { scriptedAgent } from '../support/scripted_agent.mjs';
import { Server } from '../support/server.mjs';

/** Starts an agent that answers the first prompt at once and then does this by itself; the next prompts get "Next." Gives an observer of it. */
async function start(t, code, args = []) {
	const server = await Server.start(t, { args, agent: scriptedAgent(t, `
		const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
		const tool = (status, id = 'c') => update({ sessionUpdate: status ? 'tool_call_update' : 'tool_call', toolCallId: id, title: 'Build', ...(status && { status }) });
		const question = () => ask(50, 'session/request_permission', { toolCall: { toolCallId: 'c' }, options: [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }] });
		const rest = async () => { ${code} };
		let prompts = 0;
		on['session/prompt'] = ({ id }) => {
			if (prompts++) {
				text('Next.');
			}
			answer(id, { stopReason: 'end_turn' });
			if (prompts === 1) {
				rest();
			}
		};`) });
	await server.createSession({ id: 's' });
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
	await observer.loadAll();
	const { seq } = await observer.prompt('go');
	await observer.waitForEvent('turn_end', { after: seq });
	return { server, observer };
}

const says = (text) => ({ type, data }) => type === 'agent_message' && data.markdown.trim() === text;

/** The types of the events after the first turn's end, without those of the command itself. */
async function story({ server, observer }, until) {
	await until;
	const events = observer.events();
	assert.deepEqual(readLog(server, 's').slice(0, events.length), events);
	return events.slice(events.findIndex(({ type }) => type === 'turn_end') + 1).map(({ type }) => type).filter((type) => !type.startsWith('x-acp-'));
}

/** What comes to its end with the text "Over." is one turn. */
async function assertOneTurn(t, code, expected) {
	const run = await start(t, code);
	const { seq } = await run.observer.waitForEvent(says('Over.'));
	assert.deepEqual(await story(run, run.observer.waitForEvent('turn_end', { after: seq })), [...expected, 'agent_message', 'turn_end']);
}

test('a tool that runs in silence for longer than the quiet period', (t) =>
	assertOneTurn(t, "tool(); await sleep(2500); tool('completed'); text('Over.');", ['tool_call', 'tool_call_update']));

test('several tools, one of which fails, and one that is named by an update alone', (t) =>
	assertOneTurn(t, "tool(null, 'a'); tool('in_progress', 'b'); await sleep(1500); tool('failed', 'a'); await sleep(1500); tool('completed', 'b'); text('Over.');",
		['tool_call', 'tool_call_update', 'tool_call_update', 'tool_call_update']));

test('a command that is waited for', (t) => assertOneTurn(t, `
	text('Building.\\n\\n');
	const { result } = await ask(7, 'terminal/create', { command: 'sleep 2.5' });
	await ask(8, 'terminal/wait_for_exit', { terminalId: result.terminalId });
	text('Over.');`, ['agent_message']));

test('a command in the background does not hold it', async (t) => {
	const run = await start(t, "await ask(7, 'terminal/create', { command: 'sleep 600' }); text('Over.');");
	const { seq } = await run.observer.waitForEvent(says('Over.'));
	await run.observer.waitForEvent('turn_end', { after: seq });
});

test('nor does a tool whose id is too long to be remembered', async (t) => {
	const run = await start(t, "tool(null, 'x'.repeat(300));");
	const { seq } = await run.observer.waitForEvent('tool_call');
	assert.deepEqual(await story(run, run.observer.waitForEvent('turn_end', { after: seq })), ['tool_call', 'turn_end']);
});

test('the next prompt does not wait for a tool that never ends', async (t) => {
	const run = await start(t, 'tool();');
	await run.observer.waitForEvent('tool_call');
	await run.observer.prompt('again');
	const { seq } = await run.observer.waitForEvent(says('Next.'));
	assert.deepEqual(await story(run, run.observer.waitForEvent('turn_end', { after: seq })), ['tool_call', 'turn_end', 'user_prompt', 'agent_message', 'turn_end']);
});

test('a cancel ends it, although the tool never does', async (t) => {
	const run = await start(t, 'tool();');
	const { seq } = await run.observer.waitForEvent('tool_call');
	await run.observer.send('cancel');
	await run.observer.waitForEvent('turn_end', { after: seq });
});

test('without a sign of the agent it ends after self_turn_ms, and signs put that off', async (t) => {
	const run = await start(t, "tool(); for (let i = 0; i < 4; i++) { await sleep(1200); tool('in_progress'); }", ['--limit', 'self_turn_ms=2500']);
	await run.observer.waitForEvent('tool_call');
	const { seq } = await run.observer.waitForEvent('tool_call');
	assert.deepEqual(await story(run, run.observer.waitForEvent('turn_end', { after: seq })),
		['tool_call', 'tool_call_update', 'tool_call_update', 'tool_call_update', 'tool_call_update', 'turn_end']);
});

test('a question holds it, too, but no longer than that: then it is cancelled, and the agent hears of it', async (t) => {
	const run = await start(t, "const { result } = await question(); text(result.outcome.outcome + '.');", ['--limit', 'self_turn_ms=1500']);
	const { seq } = await run.observer.waitForEvent(says('cancelled.'));
	assert.deepEqual(await story(run, run.observer.waitForEvent('turn_end', { after: seq })), ['permission_request', 'permission_resolved', 'turn_end', 'agent_message', 'turn_end']);
});

test('an agent that exits in the middle of it ends it', async (t) => {
	const run = await start(t, 'tool(); await sleep(300); process.exit(0);');
	const { seq } = await run.observer.waitForEvent('agent_stopped');
	assert.deepEqual(await story(run, run.observer.waitForEvent('turn_end', { after: seq })), ['tool_call', 'agent_stopped', 'turn_end']);
});
