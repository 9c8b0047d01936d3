// Agents and servers that are killed at any moment, again and again, while each agent goes on with its session: no word
// that the agent keeps is missing from the log, and none stands in it twice.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { partOf } from '../support/part.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

const AGENT = fileURLToPath(new URL('../support/remembering_agent.mjs', import.meta.url));
const ROUNDS = Number(process.env.HOLDFAST_RESUME_ROUNDS ?? 8);
const SEEDS = process.env.HOLDFAST_RESUME_SEEDS?.split(' ').map(Number) ?? partOf([1, 2, 3, 4, 5, 6, 7]);
const SAYING = ['agent_message', 'agent_thought', 'tool_call', 'turn_end'];
const SOON = ['--limit', 'agent_stop_ms=300', '--limit', 'agent_resumable_idle_ms=400'];

async function connect(t, server, id) {
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	return observer;
}

/** Gives the turn's prompt as it is logged. It waits in the queue while the agent speaks by itself, and has no seq until then. */
async function promptTo(observer, message) {
	const { prompt_id } = await observer.prompt(message);
	return observer.waitForEvent((e) => e.type === 'user_prompt' && e.data.prompt_id === prompt_id, { after: 0, ms: 60_000 });
}

/** The processes that run the agent of this directory, without the shell and the guard before it. */
function agentsOf(dir) {
	return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((pid) => {
		try {
			const [program, script, where] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
			return program.endsWith('node') && script === AGENT && where === dir;
		} catch {
			return false; // gone meanwhile
		}
	}).map(Number);
}

function killAgents(dir) {
	for (const pid of agentsOf(dir)) {
		try {
			process.kill(pid, 'SIGKILL');
		} catch {
			// It has just ended by itself.
		}
	}
}

/** Kills whoever is due while a turn runs, or none; gives what it was. */
async function disturb(server, dir, random, observer, after) {
	if (random(4) > 0) {
		await observer.waitForEvent((e) => SAYING.includes(e.type), { after, ms: 60_000 });
	}
	await new Promise((resolve) => setTimeout(resolve, random(60)));
	const how = ['agent', 'agent', 'server', 'nobody'][random(4)];
	if (how === 'server') {
		await server.kill9();
		await server.restart();
	} else if (how === 'agent') {
		killAgents(dir);
	}
	return how;
}

const wordsOf = (text) => text.match(/w\d+\.\d+/g) ?? [];

/** All that the agent has written down of its sessions. */
function remembered(dir) {
	const sessions = readdirSync(dir).filter((name) => name.endsWith('.jsonl'));
	return sessions.map((name) => readFileSync(join(dir, name), 'utf8').split('\n').filter(Boolean).map(JSON.parse));
}

for (const seed of SEEDS) {
	test(`seed ${seed}: killed ${ROUNDS} times, an agent ${seed % 2 ? 'without' : 'with'} names for its messages repeats nothing and loses nothing`, async (t) => {
		const dir = scratchDir(t);
		const random = randomNumbers(seed);
		const server = await Server.start(t, { agent: `exec ${process.execPath} ${AGENT} ${dir} ${seed}`, args: SOON });
		const { id } = await server.createSession();
		for (let round = 0; round < ROUNDS; round++) {
			let observer = await connect(t, server, id);
			const { seq } = await promptTo(observer, random(2) === 0 ? 'Go on' : `Question ${round} of many`);
			if (await disturb(server, dir, random, observer, seq) === 'server') {
				observer = await connect(t, server, id);
			}
			await observer.waitForEvent('turn_end', { after: seq, ms: 60_000 });
			observer.close();
		}
		// One turn in peace: what was missed is told now. The first may still hear of the last kill.
		const observer = await connect(t, server, id);
		const lastTurn = async () => {
			const { seq } = await promptTo(observer, 'The last question');
			return (await observer.waitForEvent('turn_end', { after: seq, ms: 60_000 })).data;
		};
		writeFileSync(join(dir, 'at-once'), '');
		killAgents(dir); // one may still be telling what the log lacks
		const ends = [await lastTurn(), await lastTurn()];
		assert.equal(ends[1].stop_reason, 'end_turn', JSON.stringify(ends));
		const log = readLog(server, id);
		await observer.waitForEvent((e) => e.seq === log.at(-1).seq, { after: 0 }); // an idle agent may have been stopped meanwhile
		assert.deepEqual(observer.events().slice(0, log.length), log);
		const starts = log.filter((e) => e.type === 'agent_started');
		assert.equal(new Set(starts.map((e) => e.data.agent_session_id)).size, 1, 'one session from the first to the last');
		assert.deepEqual(starts.filter((e, i) => (e.data.resumed ?? false) !== (i > 0)), []);
		const said = log.flatMap((e) => wordsOf(e.data.markdown ?? (e.type === 'agent_thought' ? e.data.text : '')));
		assert.equal(new Set(said).size, said.length, `said twice: ${said.filter((w, i) => said.indexOf(w) !== i)}`);
		const [kept] = remembered(dir);
		const missing = kept.flatMap((entry) => wordsOf(entry.text ?? '')).filter((word) => !said.includes(word));
		assert.deepEqual(missing, []);
		const calls = log.filter((e) => e.type === 'tool_call').map((e) => e.data.tool_call_id);
		assert.equal(new Set(calls).size, calls.length);
		assert.deepEqual(kept.flatMap((entry) => entry.toolCallId ?? []).filter((call) => !calls.includes(call)), []);
		const prompts = log.filter((e) => e.type === 'user_prompt');
		assert.equal(prompts.length, ROUNDS + 2, 'no prompt of ours came back');
		t.diagnostic(`${starts.length} starts, ${log.length} events, ${log.filter((e) => e.data.recovered).length} recovered`);
		await server.stop();
		const verify = await runToEnd(['verify', server.store]);
		assert.equal(verify.code, 0, verify.stdout);
	});
}
