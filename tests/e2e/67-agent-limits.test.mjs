// The box of an agent: what it and its commands use together is limited, and an agent that is over its limit ends, all of it.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readMetrics } from '../support/metrics.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const CASES = fileURLToPath(new URL('../unit/acp_agent_cases.sh', import.meta.url));

/** The processes that have `marker` in their command line. */
const processesWith = (marker) => readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((pid) => {
	try {
		return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(marker);
	} catch {
		return false; // gone meanwhile
	}
});

/** An agent that has the server run these commands, and ends its turn. */
function order(cwd, commands) {
	writeFileSync(join(cwd, 'requests'), [
		...commands.map((command) => JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/create', params: { command } })), '',
	].join('\n') + '\n');
}

async function start(t, commands, args) {
	const cwd = scratchDir(t);
	order(cwd, commands.map((command) => command.replaceAll('MARK', `${cwd}-mark`)));
	const server = await Server.start(t, { cwd, args, agent: `exec /bin/sh ${CASES} terminal` });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	return { cwd, server, observer, marker: `${cwd}-mark` };
}

/** It goes over its limit, nothing of it is left, and the next prompt starts it again. */
async function assertLimited({ cwd, server, observer, marker }, detail) {
	await observer.prompt('go');
	const { data } = await observer.waitForEvent('agent_stopped');
	assert.equal(data.reason, 'limit');
	assert.match(data.detail, detail);
	await eventually(() => processesWith(marker).length === 0, `nothing with ${marker}`);
	const [, option] = /--agent-(\w+)/.exec(data.detail);
	assert.equal((await readMetrics(server))(`limit_reached_total{limit="agent_${option}"}`), 1);
	order(cwd, []);
	await observer.prompt('again');
	const prompt = await observer.waitForEvent((e) => e.type === 'user_prompt' && e.data.message === 'again');
	const { data: end } = await observer.waitForEvent((e) => e.type === 'turn_end' && e.seq > prompt.seq);
	assert.equal(end.stop_reason, 'end_turn');
}

const take = (mib) => `${process.execPath} -e 'const taken = Buffer.alloc(${mib} << 20, 1); setInterval(() => taken, 1000)' MARK`;
const sleepers = (count) => `i=0; while [ $i -lt ${count} ]; do setsid sh -c 'sleep 1000; :' MARK & i=$((i + 1)); done; wait`;

test('an agent whose command takes too much memory ends, with all it has started', async (t) => {
	await assertLimited(await start(t, [`(setsid ${take(500)} &); sleep 1000`], ['--agent-memory', '400M']), /used more than the 400 MiB of memory that --agent-memory allows/);
});

test('an agent with too many processes ends, also those that have left its group', async (t) => {
	await assertLimited(await start(t, [sleepers(60)], ['--agent-processes', '50']), /had more than the 50 processes and threads that --agent-processes allows/);
});

test('commands count together', async (t) => {
	const run = await start(t, [sleepers(20), sleepers(20)], ['--agent-processes', '70']);
	await assertLimited(run, /more than the 70 processes and threads that --agent-processes/);
});

test('what several processes share counts once', async (t) => {
	const forks = `perl -e '$taken = "x" x (100 << 20); for (1..7) { fork or sleep 1000 } print "begun\\n"; $| = 1; print "."; sleep 1000' MARK`;
	const { observer, marker } = await start(t, [forks, `sleep 3; echo over`], ['--agent-memory', '400M']);
	await observer.prompt('go');
	await observer.waitForEvent((e) => /over/.test(e.data.output)); // the guards have looked meanwhile
	assert.equal(processesWith(marker).length, 8 + 1); // and the shell
	assert.deepEqual(observer.events().filter(({ type }) => type === 'agent_stopped'), []);
});

test('limits of agents that are none are refused', async (t) => {
	const data = join(scratchDir(t), 'data');
	for (const [option, value] of [['--agent-memory', 'much'], ['--agent-memory', '-1'], ['--agent-processes', '1K'], ['--agent-processes', '']]) {
		const { code, stderr } = await runToEnd(['serve', '--data', data, '--listen', '127.0.0.1:0', option, value]);
		assert.equal(code, 2, `${option} ${value}`);
		assert.match(stderr, /--agent-(memory|processes) "/);
	}
});

// No kernel stands behind these groups: they are a folder, in which the test plays the kernel. What is seen is what the server writes, reads and does.

/** A server whose agent and a command of it have been started, in groups below `groups`. */
async function startInGroups(t) {
	const groups = scratchDir(t);
	writeFileSync(join(groups, 'cgroup.controllers'), 'cpu memory pids\n');
	const args = ['--agent-cgroup', groups, '--agent-memory', '400M', '--agent-processes', '50'];
	const run = await start(t, ['echo begun; exec sleep 1000'], args);
	await run.observer.prompt('go');
	await run.observer.waitForEvent((e) => e.data.output === 'begun\n');
	await run.observer.waitForEvent('turn_end');
	const [group] = readdirSync(groups).filter((name) => name.startsWith('agent-')).map((name) => join(groups, name));
	const parts = readdirSync(group).map((name) => join(group, name)).filter((path) => statSync(path).isDirectory());
	return { ...run, groups, group, parts, read: (...path) => readFileSync(join(...path), 'utf8') };
}

async function assertStopped({ observer, parts, read }, detail) {
	const { data } = await observer.waitForEvent('agent_stopped');
	assert.equal(data.reason, 'limit');
	assert.match(data.detail, detail);
	assert.equal(parts.length, 2);
	await eventually(() => parts.every((part) => readdirSync(part).includes('cgroup.kill') && read(part, 'cgroup.kill') === '1'), 'the groups to be killed');
}

test('with --agent-cgroup an agent and its commands are in groups with its limits (faked)', async (t) => {
	const { server, groups, group, parts, read } = await startInGroups(t);
	assert.match(server.stderr, /agents get control groups in /);
	assert.equal(read(groups, 'cgroup.subtree_control'), '+memory +pids');
	assert.deepEqual(['memory.max', 'memory.swap.max', 'memory.oom.group', 'pids.max'].map((file) => read(group, file)), [String(400 << 20), '0', '1', '50']);
	const lines = parts.map((part) => read('/proc', read(part, 'cgroup.procs'), 'cmdline').replaceAll('\0', ' ').trim());
	assert.match(lines.sort().join('\n'), /^\/bin\/sh \S+acp_agent_cases.sh terminal\nsleep 1000$/);
});

test('an agent that the kernel had to keep to its memory ends (faked)', async (t) => {
	const run = await startInGroups(t);
	writeFileSync(join(run.group, 'memory.events'), 'low 0\noom 1\noom_kill 1\n');
	await assertStopped(run, /more than the 400 MiB of memory/);
});

test('an agent that the kernel has killed for it is not said to have died of a signal (faked)', async (t) => {
	const run = await startInGroups(t);
	writeFileSync(join(run.group, 'memory.events'), 'oom_kill 2\n');
	const pidsOf = () => run.parts.map((part) => Number(run.read(part, 'cgroup.procs')));
	await eventually(() => pidsOf().every((pid) => pid > 1), 'the guards to say whom they have started'); // 0 would be ourselves
	const [first, second] = pidsOf();
	process.kill(first, 'SIGKILL');
	try {
		process.kill(second, 'SIGKILL');
	} catch (error) {
		assert.equal(error.code, 'ESRCH'); // the server was quicker: the rest of a dead agent goes at once
	}
	await assertStopped(run, /more than the 400 MiB of memory/);
});

test('an agent that the kernel had to keep to its processes ends (faked)', async (t) => {
	const run = await startInGroups(t);
	writeFileSync(join(run.group, 'pids.events'), 'max 3\n');
	await assertStopped(run, /more than the 50 processes/);
});

test('groups that cannot be used are refused, or not used, as it was asked for', async (t) => {
	const dir = scratchDir(t);
	const refused = async (why, ...args) => {
		const { code, stderr } = await runToEnd(['serve', '--data', join(dir, 'data'), '--listen', '127.0.0.1:0', ...args]);
		assert.ok(code > 0);
		assert.match(stderr, why);
	};
	await refused(/--agent-cgroup: \S+ has no controller "pids"/, '--agent-cgroup', join(dir, 'nowhere'));
	writeFileSync(join(dir, 'cgroup.controllers'), 'cpu pids\n');
	await refused(/has no controller "memory"/, '--agent-cgroup', dir, '--agent-memory', '1G');
	mkdirSync(join(dir, 'cgroup.subtree_control'));
	await refused(/cgroup.subtree_control: Is a directory/, '--agent-cgroup', dir);
	const server = await Server.start(t, { args: ['--agent-cgroup', 'off'] });
	await server.stop();
});
