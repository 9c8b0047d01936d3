// Every recording of a real agent, played with its own timing, only faster, through the real server. Its timers
// may cut what pauses; but for that, lists, tables and fences are whole, and every word is there. In each format, who
// watched all the time, who lost the connection 20 times, who comes later and who comes after a crash see the same.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { expectedOf, recordedAgents } from '../support/acp_recording.mjs';
import { assertWhole } from '../support/blocks.mjs';
import { watchWithBreaks } from '../support/breaks.mjs';
import { assertSameText, logText, readLog, withoutText } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { partOf } from '../support/part.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { landlock } from '../support/sandbox.mjs';
import { Server, replayAgent, runToEnd, scratchDir } from '../support/server.mjs';

const SPEED = 10;
const AT_ONCE = 8;
const BREAKS = 20; // of each connection that breaks
const SEED = 20;
const FORMATS = {
	markdown: { format: 'markdown', deltas: 'text' },
	html: { format: 'html', deltas: 'html' },
	both: { format: 'both' },
};
const TURNING = ['user_prompt', 'permission_request', 'turn_end'];
const LONG_MS = 60_000; // a recorded silence, or the time that the server gives an agent after a cancel

/** A server whose next agent plays what `choose` was given last, in the sandbox where there is one. */
async function startServer(t) {
	const dir = scratchDir(t);
	const cwd = join(dir, 'cwd');
	const script = join(cwd, 'agent.sh');
	mkdirSync(cwd);
	const read = [dirname(replayAgent()), ...new Set(recordings.map(({ path }) => dirname(path)))];
	const sandbox = (await landlock(t)) ? ['--sandbox', ...read.flatMap((path) => ['--sandbox-read', path])] : [];
	const server = await Server.start(t, { dataDir: join(dir, 'data'), cwd, agent: `. ${script}`, args: sandbox });
	const choose = ({ path, proc }) => writeFileSync(script, `exec ${replayAgent()} --speed ${SPEED} --proc ${proc} '${path}'\n`);
	return { server, choose };
}

/** The events of each turn, with what ends it; what comes after the last one is in the last element. */
function splitTurns(log) {
	const turns = [[]];
	for (const event of log) {
		turns.at(-1).push(event);
		if (event.type === 'turn_end') {
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
	const end = expected.end === 'stopped' ? 'agent_stopped' : expected.end;
	assert.equal(events.at(-1).data.stop_reason, expected.hangs ? 'cancelled' : end);
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
		for (let type = null; type !== 'turn_end';) {
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

/** The connections of one play: in each format one that holds, and one that breaks again and again. */
async function watch(t, server, id, { seed, lines, over }) {
	const watching = {};
	for (const [i, [format, query]] of Object.entries(FORMATS).entries()) {
		const live = await Observer.connect(t, server, id, { query });
		await live.loadAll();
		const pace = Math.ceil(query.deltas ? lines / BREAKS / 3 : 1); // so that the breaks are all over the play
		const broken = watchWithBreaks(t, server, id, { query, breaks: BREAKS, random: randomNumbers(seed + i), pace, over });
		broken.catch(() => {}); // it is waited for when all is played
		watching[format] = { live, broken };
	}
	return watching;
}

async function playOne(t, { server, choose }, recorded, { seed, begun }) {
	const expected = expectedOf(recorded);
	const { id } = await server.createSession();
	let end;
	const watching = await watch(t, server, id, { seed, lines: recorded.entries.length, over: new Promise((resolve) => (end = resolve)) });
	const observer = watching.markdown.live;
	choose(recorded);
	for (const i of expected.turns.keys()) {
		await observer.prompt(`Prompt ${i + 1}`);
	}
	await observer.waitForEvent('agent_started');
	begun();
	await takePart(observer, expected.turns).finally(end);
	return { id, watching, expected };
}

/** What each format shows is one and the same transcript. */
function assertOneTranscript({ markdown, html, both }) {
	assert.deepEqual(withoutText(html), withoutText(markdown));
	const joined = markdown.map((event, i) => (event.type === 'agent_message' ? { ...event, data: { ...event.data, ...html[i].data } } : event));
	assert.deepEqual(both, joined);
}

/** Loads everything, by pages, in each format; each is what the log has at least. */
async function loadAgain(t, server, id, log) {
	const loaded = {};
	for (const [format, query] of Object.entries(FORMATS)) {
		const observer = await Observer.connect(t, server, id, { query });
		loaded[format] = (await observer.loadAll({ limit: 20 })).slice(0, log.length);
	}
	assert.deepEqual(loaded.markdown, log);
	assertOneTranscript(loaded);
	return loaded;
}

/** Holds the log against what was recorded, and each observer against the log. */
async function check(t, server, { id, watching, expected }) {
	const broken = [];
	for (const format of Object.keys(FORMATS)) {
		broken.push(await watching[format].broken);
	}
	const log = readLog(server, id); // a late update of the agent may still make it longer
	const loaded = await loadAgain(t, server, id, log);
	for (const [i, format] of Object.keys(FORMATS).entries()) {
		for (const observer of [watching[format].live, broken[i].observer]) {
			assert.deepEqual((await observer.waitForSeq(log.length)).slice(0, log.length), loaded[format]);
		}
	}
	const turns = splitTurns(log);
	expected.turns.forEach((turn, i) => assertTurn(turns[i], turn));
	assertSameText(joined(turns.slice(expected.turns.length).flat(), 'agent_message'), expected.late);
	return { log, loaded, epoch: watching.markdown.live.epoch, live: broken.reduce((sum, b) => sum + b.live, 0) };
}

/** The bytes of a session's log. */
const logBytes = (server, id) => Buffer.from(logText(server, id));

/** After a crash: the log is the same byte for byte, and so is what each observer gets, and goes on with. Gives what follows. */
async function checkAfterCrash(t, server, id, { loaded, epoch }, before) {
	assert.ok(logBytes(server, id).subarray(0, before.length).equals(before), 'the log is not what it was');
	const log = readLog(server, id);
	const again = await loadAgain(t, server, id, log);
	for (const [format, query] of Object.entries(FORMATS)) {
		const held = loaded[format];
		assert.deepEqual(again[format].slice(0, held.length), held);
		const back = await Observer.connect(t, server, id, { query, held, epoch });
		assert.deepEqual((await back.loadAll()).slice(0, log.length), again[format]);
		assert.deepEqual(back.resets, []);
	}
	return log.slice(before.toString().split('\n').length - 1);
}

/** Kills the server, starts it again, and holds it against what it was before; its files are in order. */
async function crash(t, server, checked) {
	await server.kill9();
	const before = new Map([...checked.keys()].map((id) => [id, logBytes(server, id)]));
	await server.restart();
	const added = [];
	for (const [id, was] of checked) {
		added.push(...await checkAfterCrash(t, server, id, was, before.get(id)));
	}
	assert.ok(added.every(({ type, data }) => type === 'agent_stopped' && data.reason === 'server_restart'));
	await server.stop();
	const { code, stdout } = await runToEnd(['verify', server.store]);
	assert.match(stdout, /: clean\n$/);
	assert.equal(code, 0);
}

const recordings = process.env.HOLDFAST_TEST_STORE ? partOf(recordedAgents()) : recordedAgents(); // with files, all of them

test(`the recordings of real agents: ${recordings.length} processes, ${SPEED} times as fast`, { concurrency: AT_ONCE }, async (t) => {
	const setup = await startServer(t);
	const queue = [...recordings.entries()];
	let starting = Promise.resolve();
	const checked = new Map();
	const work = async () => {
		for (let next = queue.shift(); next; next = queue.shift()) {
			const [n, recorded] = next;
			// One after the other, up to where the agent has been started: the command is the same for all.
			const before = starting;
			let begun;
			starting = new Promise((resolve) => (begun = resolve));
			await before;
			await t.test(recorded.name, async (t2) => {
				const played = await playOne(t2, setup, recorded, { seed: SEED * n, begun }).finally(begun);
				checked.set(played.id, await check(t2, setup.server, played));
			});
		}
	};
	await Promise.all(Array.from({ length: AT_ONCE }, work));
	const live = [...checked.values()].reduce((sum, c) => sum + c.live, 0);
	const breaks = checked.size * BREAKS * Object.keys(FORMATS).length;
	t.diagnostic(`${breaks} broken connections, ${live} of them while the agent spoke`);
	assert.ok(live > breaks / 10);
	const logs = [...checked.values()].map((c) => c.log);
	const messages = logs.flat().filter((e) => e.type === 'agent_message').length;
	t.diagnostic(`${messages} messages, of which timers have cut ${logs.reduce((sum, log) => sum + countCuts(log), 0)}`);
	await t.test('after kill -9 and a restart', (t2) => crash(t2, setup.server, checked));
});
