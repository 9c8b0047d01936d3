// Every recording of a real agent, played with its own timing, only faster, through the real server. Its timers
// may cut what pauses; but for that, lists, tables and fences are whole, and every word is there.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { expectedOf, recordedAgents } from '../support/acp_recording.mjs';
import { assertWhole } from '../support/blocks.mjs';
import { assertSameText, readLog, withoutText } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { corpusDir } from '../support/recording.mjs';
import { Server, replayAgent, scratchDir } from '../support/server.mjs';

const SPEED = 20;
const AT_ONCE = 8;
const TURNING = ['user_prompt', 'permission_request', 'turn_end', 'agent_stopped'];
const LONG_MS = 60_000; // a recorded silence, or the time that the server gives an agent after a cancel

/** A server whose next agent plays what `choose` was given last. */
async function startServer(t) {
	const dir = scratchDir(t);
	const script = join(dir, 'agent.sh');
	const server = await Server.start(t, { agent: `. ${script}` });
	const choose = ({ path, proc }) => writeFileSync(script, `exec ${replayAgent()} --speed ${SPEED} --proc ${proc} '${path}'\n`);
	return { server, choose };
}

/** The events of each turn, with what ends it; what comes after the last one is in the last element. */
function splitTurns(log) {
	const turns = [[]];
	for (const event of log) {
		turns.at(-1).push(event);
		const ends = event.type === 'turn_end' || (event.type === 'agent_stopped' && turns.at(-1).some((e) => e.type === 'user_prompt'));
		if (ends) {
			turns.push([]);
		}
	}
	return turns;
}

const joined = (events, type) => events.filter((e) => e.type === type).map((e) => e.data.markdown ?? e.data.text).join('');

function assertTurn(events, expected) {
	assertSameText(joined(events, 'agent_message'), expected.text);
	assert.equal(joined(events, 'agent_thought'), expected.thoughts);
	const calls = events.filter((e) => ['tool_call', 'tool_call_update', 'plan', 'permission_request'].includes(e.type));
	assert.deepEqual(calls.map(({ type, data }) => [type, data.tool_call_id ?? data.tool_call?.tool_call_id ?? null, data.status ?? null]), expected.calls);
	const { type, data } = events.at(-1);
	assert.deepEqual([type, data.stop_reason], expected.end === 'stopped' ? ['agent_stopped', undefined] : ['turn_end', expected.hangs ? 'cancelled' : expected.end]);
	assertWhole(events);
}

/** Each event that continues another one goes on what was said last. Gives how many there are. */
function countCuts(log) {
	const messages = log.filter((e) => e.type === 'agent_message');
	const cut = messages.filter((e) => e.data.continues !== undefined);
	cut.forEach((event) => assert.equal(event.data.continues, messages[messages.indexOf(event) - 1].seq));
	return cut.length;
}

/** Answers a question as somebody who allows everything; the agent may have withdrawn it meanwhile. */
async function allow(observer, { data: { request_id, options } }) {
	if (!observer.events().some((e) => e.type === 'permission_resolved' && e.data.request_id === request_id)) {
		await observer.send('permission_answer', { request_id, option_id: options.find((o) => o.kind.startsWith('allow')).option_id });
	}
}

/** Takes part until all turns are over: allows what is asked, and cancels the turn that would never end. */
async function takePart(observer, turns) {
	let seq = 0;
	for (const turn of turns) {
		const asks = turn.calls.some(([type]) => type === 'permission_request');
		for (let type = null; type !== 'turn_end' && type !== 'agent_stopped';) {
			const event = await observer.waitForEvent((e) => TURNING.includes(e.type), { after: seq, ms: LONG_MS });
			({ seq, type } = event);
			if (turn.hangs && type === (asks ? 'permission_request' : 'user_prompt')) {
				await observer.send('cancel');
			} else if (type === 'permission_request') {
				await allow(observer, event);
			}
		}
	}
}

async function playOne(t, { server, choose }, recorded, begun) {
	const expected = expectedOf(recorded);
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown', deltas: 'text' } });
	const html = await Observer.connect(t, server, id, { query: { deltas: 'html' } });
	await observer.loadAll();
	await html.loadAll();
	choose(recorded);
	for (const i of expected.turns.keys()) {
		await observer.prompt(`Prompt ${i + 1}`);
	}
	await observer.waitForEvent('agent_started');
	begun();
	await takePart(observer, expected.turns);
	return { id, observer, html, expected };
}

/** Holds the log against what was recorded, and each observer against the log; gives the log as it is now. */
async function check(t, server, { id, observer, html, expected }) {
	const log = readLog(server, id); // a late update of the agent may still make it longer
	const sofar = (events) => events.slice(0, log.length);
	assert.deepEqual(sofar(await observer.waitForSeq(log.length)), log);
	assert.deepEqual(sofar(withoutText(await html.waitForSeq(log.length))), withoutText(log));
	const again = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	assert.deepEqual(sofar(await again.loadAll({ limit: 20 })), log);
	const turns = splitTurns(log);
	expected.turns.forEach((turn, i) => assertTurn(turns[i], turn));
	assertSameText(joined(turns.slice(expected.turns.length).flat(), 'agent_message'), expected.late);
	return { log, cuts: countCuts(log), messages: log.filter((e) => e.type === 'agent_message').length };
}

const recordings = recordedAgents();
if (recordings.length === 0) {
	console.log(`no corpus at ${corpusDir} (HOLDFAST_CORPUS names another place): no recordings are played`);
}

test(`the recordings of real agents: ${recordings.length} processes, ${SPEED} times as fast`, { concurrency: AT_ONCE }, async (t) => {
	const setup = await startServer(t);
	const queue = [...recordings];
	let starting = Promise.resolve();
	const sum = { cuts: 0, messages: 0 };
	const logs = new Map();
	const work = async () => {
		for (let recorded = queue.shift(); recorded; recorded = queue.shift()) {
			// One after the other, up to where the agent has been started: the command is the same for all.
			const before = starting;
			let begun;
			starting = new Promise((resolve) => (begun = resolve));
			await before;
			await t.test(recorded.name, async (t2) => {
				const played = await playOne(t2, setup, recorded, begun).finally(begun);
				const { log, cuts, messages } = await check(t2, setup.server, played);
				logs.set(played.id, log);
				sum.cuts += cuts;
				sum.messages += messages;
			});
		}
	};
	await Promise.all(Array.from({ length: AT_ONCE }, work));
	t.diagnostic(`${sum.messages} messages, of which timers have cut ${sum.cuts}`);
	await setup.server.stop();
	await setup.server.restart();
	for (const [id, log] of logs) {
		assert.deepEqual(readLog(setup.server, id).slice(0, log.length), log);
	}
});
