// Agents that go on with their session after a restart: what they tell of their history adds nothing, what the log
// lacks is added once, and a session that cannot be had any more is replaced by a new one.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { expectedOf, recordedAgents } from '../support/acp_recording.mjs';
import { assertSameText, readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, replayAgent, runToEnd, scratchDir } from '../support/server.mjs';

const TURNING = ['permission_request', 'turn_end'];
const STATE = /^x-acp-(modes|models|current_mode_update|config_option_update|available_commands_update|session_info_update)$/;

const joined = (events, type) => events.filter((e) => e.type === type).map((e) => e.data.markdown ?? e.data.text).join('');
const promptsOf = ({ entries }) => entries.filter((e) => e.by === 'client' && e.message.method === 'session/prompt')
	.map((e) => e.message.params.prompt.map((block) => block.text ?? '').join(''));
const asks = ({ entries }, method) => entries.some((e) => e.by === 'client' && e.message.method === method);

/** The recordings that have a session/load in a process of its own: [{name, path, processes}]. */
function recordedLoads() {
	const names = new Map();
	for (const agent of recordedAgents()) {
		names.set(agent.path, [...names.get(agent.path) ?? [], agent]);
	}
	return [...names].filter(([path]) => /-(load|kill-midturn)\.jsonl$/.test(path))
		.map(([path, processes]) => ({ name: path.slice(path.lastIndexOf('/') + 1, -'.jsonl'.length), path, processes }));
}

/** A server whose next agent plays what `choose` was given last. */
async function startServer(t) {
	const dir = scratchDir(t);
	const script = join(dir, 'agent.sh');
	const server = await Server.start(t, { agent: `. ${script}` });
	const choose = (path, proc) => writeFileSync(script, `exec ${replayAgent()} --speed 50 --proc ${proc} '${path}'\n`);
	return { dir, server, choose };
}

async function connect(t, server, id) {
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	return observer;
}

/** Prompts, allows what is asked, and gives the turn's events. */
async function takeTurn(observer, message) {
	// After a restart agent_stopped may still be on its way.
	const { seq: first } = await observer.prompt(message);
	let event = { seq: first };
	do {
		event = await observer.waitForEvent((e) => TURNING.includes(e.type), { after: event.seq, ms: 60_000 });
		if (event.type === 'permission_request') {
			const option = event.data.options.find((o) => o.kind.startsWith('allow'));
			await observer.send('permission_answer', { request_id: event.data.request_id, option_id: option.option_id });
		}
	} while (event.type !== 'turn_end');
	return observer.events().filter((e) => e.seq >= first && e.seq <= event.seq);
}

/** The recording without the capability to resume, so that it is loaded; `keep` says which lines of it stay. */
function copyRecording(dir, path, keep = () => true) {
	const copy = join(dir, `recording-${Math.random()}.jsonl`);
	const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean).filter((text) => keep(JSON.parse(text)));
	const resume = String.raw`\"resume\":{}`;
	writeFileSync(copy, lines.map((text) => `${text.replace(`${resume},`, '').replace(`,${resume}`, '').replace(resume, '')}\n`).join(''));
	return copy;
}

/** Everything that a new life of the agent has put between the prompt and its own answer. */
function betweenPromptAndAnswer(events, expected) {
	const started = events.findIndex((e) => e.type === 'agent_started');
	assert.deepEqual(events.slice(0, started + 1).map((e) => e.type), ['user_prompt', 'agent_started']);
	assertSameText(joined(events, 'agent_message'), expected.text);
	assert.equal(joined(events, 'agent_thought'), expected.thoughts);
	return { started: events[started], rest: events.slice(started + 1) };
}

/** Whether a process of a recording is a life of its own that goes on with the session. */
const goesOn = (recorded) => recorded.proc > 1 && (asks(recorded, 'session/resume') || (recorded.proc === 2 && asks(recorded, 'session/load')));

/** Plays one recorded process, prompt by prompt; gives the events of its turns. */
async function playLife(observer, recorded) {
	const turns = [];
	const expected = expectedOf(recorded).turns;
	for (const prompt of promptsOf(recorded).slice(0, expected.length)) {
		turns.push(await takeTurn(observer, prompt));
	}
	return { turns, expected };
}

async function restart(t, server, id) {
	await server.kill9();
	await server.restart();
	return connect(t, server, id);
}

const loads = recordedLoads();
assert.ok(loads.length > 0);

for (const { name, path, processes } of loads) {
	test(`${name}: what the agent tells of its history adds nothing`, async (t) => {
		const { dir, server, choose } = await startServer(t);
		const copy = copyRecording(dir, path);
		const { id } = await server.createSession();
		let observer = await connect(t, server, id);
		for (const recorded of [processes[0], ...processes.filter(goesOn)]) {
			choose(asks(recorded, 'session/resume') ? path : copy, recorded.proc);
			const { turns, expected } = await playLife(observer, recorded);
			if (recorded.proc > 1) {
				const { started, rest } = betweenPromptAndAnswer(turns[0], expected[0]);
				assert.equal(started.data.resumed, true, JSON.stringify(started));
				const types = rest.map((e) => e.type).filter((type) => !STATE.test(type));
				assert.ok(!types.includes('usage') || types.indexOf('usage') > types.indexOf('agent_message'), 'usage is that of the turn');
				assert.ok(types.every((type) => ['agent_message', 'agent_thought', 'usage', 'turn_end', 'x-acp-meta'].includes(type)), `${types}`);
			}
			assert.deepEqual(readLog(server, id).filter((e) => e.data.recovered), []);
			observer = await restart(t, server, id);
		}
		assert.ok(processes.some(goesOn));
		const verify = await runToEnd(['verify', server.store]);
		assert.equal(verify.code, 0, verify.stdout);
	});
}

for (const { name, path, processes } of loads.filter((load) => load.name.endsWith('-load'))) {
	test(`${name}: a message that the log lacks is added, and just that, and once`, async (t) => {
		const { dir, server, choose } = await startServer(t);
		const last = promptsOf(processes[0]).length;
		let prompts = 0; // of the first process, so far: nothing of the last turn's text was ever heard
		const missing = copyRecording(dir, path, ({ proc, dir: by, line }) => {
			prompts += proc === 1 && by === 'c2a' && line?.includes('"session/prompt"') ? 1 : 0;
			return !(proc === 1 && prompts === last && by === 'a2c' && line?.includes('agent_message_chunk'));
		});
		const { id } = await server.createSession();
		let observer = await connect(t, server, id);
		choose(missing, 1);
		const { turns } = await playLife(observer, processes[0]);
		assert.equal(joined(turns.at(-1), 'agent_message'), '');
		for (const life of [1, 2]) {
			observer = await restart(t, server, id);
			choose(missing, 2);
			await playLife(observer, processes.find(goesOn));
			const recovered = readLog(server, id).filter((e) => e.data.recovered);
			assertSameText(joined(recovered, 'agent_message'), expectedOf(processes[0]).turns.at(-1).text);
			assert.deepEqual(recovered.filter((e) => e.type !== 'agent_message'), [], `life ${life}`);
		}
		const fresh = await connect(t, server, id);
		assert.deepEqual(fresh.events(), readLog(server, id));
	});
}
