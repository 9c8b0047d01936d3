// tests/model/nodes.pml, the protocol of nodes that share a database, in all orders of its steps: it holds, and no rule of it can be left out.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { partOf } from '../support/part.mjs';
import { root } from './files.mjs';

const run = promisify(execFile);
const model = join(root, 'tests/model/nodes.pml');

/** Tries everything; gives how many states there are, and the assertion that does not hold, or null. */
async function explore(defines, optimization) {
	const dir = await mkdtemp(join(tmpdir(), 'holdfast-spin-'));
	try {
		await run('spin', [...defines.map((define) => `-D${define}`), '-a', model], { cwd: dir });
		await run('gcc', [optimization, '-w', '-DSAFETY', '-DNOREDUCE', '-DMEMLIM=2500', '-o', 'pan', 'pan.c'], { cwd: dir });
		const { stdout } = await run('./pan', ['-m20000', '-w20'], { cwd: dir, maxBuffer: 1 << 24 });
		assert.doesNotMatch(stdout, /search depth too small|out of memory|VECTORSZ|aborting/, 'all of it was searched');
		const broken = /^pan:\d+: (.*) \(at depth/m.exec(stdout)?.[1] ?? null;
		assert.match(stdout, broken ? /errors: 1/ : /errors: 0/);
		return { states: Number(/^\s*(\S+) states, stored/m.exec(stdout)[1]), broken };
	} finally {
		await rm(dir, { recursive: true });
	}
}

const bounded = ['LEASE=2', 'CRASHES=0', 'PROMOTIONS=0'];
const scenes = {
	answers: { name: 'answers are lost, statements go on without their connection, waits end in a warning', defines: ['FAULTS=1', 'INPUTS=1', 'TAKES=2', ...bounded] },
	standby: { name: 'and the standby is promoted at any time', defines: ['FAULTS=1', 'INPUTS=1', 'TAKES=1', 'LEASE=2', 'CRASHES=0'] },
	crashes: { name: 'a node crashes at any step', defines: ['FAULTS=0', 'INPUTS=2', 'TAKES=2', 'LEASE=2', 'PROMOTIONS=0'] },
	made: { name: 'two nodes make the same session', defines: ['MAKES', 'FAULTS=1', 'INPUTS=1', 'TAKES=1', ...bounded] },
	warned: { name: 'one fault follows another', defines: ['FAULTS=3', 'INPUTS=2', 'LIVES=1', 'TAKES=0', 'LEASE=2', 'CRASHES=0'] },
	stops: { name: 'a node is told to stop, and hands over', defines: ['STOPS', 'FAULTS=1', 'INPUTS=1', 'TAKES=1', ...bounded] },
	leases: { name: 'renewals of the lease are late, or lost', defines: ['SLOW_RENEWALS', 'FAULTS=1', 'INPUTS=0', 'LIVES=1', 'TAKES=1', 'CRASHES=0', 'PROMOTIONS=0'] },
};
const { answers, standby, crashes, made, warned, leases, stops } = scenes;

const alone = { defines: ['FAULTS=1', 'INPUTS=2', 'LIVES=1', 'TAKES=0', ...bounded] };

/* What is left out, where, and what it is. */
const mutants = [
	['WITHOUT_FENCE', answers, 'a paused owner wakes, and its append has no fence'],
	['WITHOUT_FENCE WITHOUT_LAST_RECORD ONLY_THE_DATA', crashes, 'appends have neither a fence nor the number of the last record: what was told is lost'],
	['TAKEN_WITHOUT_A_RAISE', answers, 'a take does not raise the fence'],
	['SETTLED_WITHOUT_A_RAISE', answers, 'the answer of a commit is lost, and the last record is read without raising the fence'],
	['SETTLED_WITHOUT_A_RAISE WITHOUT_ZOMBIES', answers, 'a commit waits for a dead standby, its connection is lost, and it becomes visible after the look'],
	['SETTLED_WITHOUT_A_RAISE WITHOUT_LATE_COMMITS', answers, 'the backend of a connection that is lost has not begun yet when the last record is read'],
	['WITHOUT_FENCE WITHOUT_LAST_RECORD WITHOUT_LATE_COMMITS ONLY_THE_DATA', alone, 'the same, and appends have neither a fence nor the number of the last record: an input is there twice'],
	['SETTLED_WITHOUT_A_RAISE ONLY_THE_DATA', warned, 'the same: what was told is lost with the old database'],
	['WARNINGS_ARE_IGNORED', standby, 'a warning counts as an answer'],
	['SETTLED_BY_A_WARNING', warned, 'what was settled by a commit with a warning is told'],
	['UNSURE_TAKES_ARE_FORGOTTEN', answers, 'a take whose answer was lost is not taken again'],
	['FENCED_BY_ITSELF_IS_FORGOTTEN', made, 'a node does not look again at a session that it was in doubt about'],
	['NEW_OWNERS_HAVE_NO_LEASE', answers, 'a take believes its snapshot of the leases about an owner that came later'],
	['TAKEN_WITHOUT_A_LEASE', answers, 'a node takes before it has a lease'],
	['MADE_WITHOUT_A_LEASE', made, 'a node makes a session before it has a lease'],
	['ADOPTED_TOO_LATE', answers, 'a node adopts what it took when its deadline has passed'],
	['WITHOUT_FENCE', stops, 'an owner that is stopping is taken over, and its last append has no fence'],
	['STOPS_BEFORE_ITS_AGENT', stops, 'a node that stops gives its session up before its agent is gone'],
	['STOPS_BEFORE_ITS_WRITER', stops, 'a node that stops gives its session up while an append of it is on its way'],
	['AGENTS_WITHOUT_A_GUARD', leases, 'agents of a paused node go on'],
	['LATE_RENEWALS_GO_BACK', leases, 'an old renewal that comes late shortens the lease'],
];

for (const { name, defines } of Object.values(scenes)) {
	test(`the protocol holds: ${name}`, async (t) => {
		const { states, broken } = await explore(defines, '-O1');
		t.diagnostic(`${states} states`);
		assert.equal(broken, null);
		assert.ok(states > 10_000, `${states} states`);
	});
}

for (const [rule, scene, why] of partOf(mutants)) {
	test(`it breaks where ${why}`, async () => {
		const { broken } = await explore([...scene.defines, ...rule.split(' ')], '-O0'); // compiling takes longer than searching
		assert.match(broken ?? 'nothing', /^assertion violated/);
	});
}
