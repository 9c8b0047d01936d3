// What is left of agents: nothing, however they or the server end; also of those that do not want to.

import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync, readdirSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Server, demoAgent, runToEnd, scratchDir } from '../support/server.mjs';

const CASES = fileURLToPath(new URL('../unit/acp_agent_cases.sh', import.meta.url));
const STORM_S = Number(process.env.HOLDFAST_STORM_S ?? 6);
const SOON = ['--limit', 'agent_stop_ms=200'];

/** [pid, command line] of the processes that have `marker` in their command line, but for the server. */
function processesWith(marker) {
	return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
		try {
			const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
			return line.includes(marker) && !line.includes(' --data ') ? [[Number(pid), line]] : [];
		} catch {
			return []; // gone meanwhile
		}
	});
}

/** Waits for what has no event that a test could wait for. */
async function eventually(what, holds) {
	for (const end = Date.now() + 20_000; !holds();) {
		assert.ok(Date.now() < end, what());
		await new Promise((resolve) => setTimeout(resolve, 20));
	}
}

const untilGone = (marker) => eventually(() => `still there: ${processesWith(marker)}`, () => processesWith(marker).length === 0);

/**
 * An agent that stays when its stdin ends and on SIGTERM, with a child in its process group and one that has left
 * it, both as stubborn. All four processes have the marker in their command line.
 */
function stubbornAgent(t) {
	const dir = scratchDir(t);
	const marker = join(dir, 'stubborn');
	symlinkSync('/bin/sh', marker);
	const wait = 'trap \\"\\" TERM HUP INT; while :; do sleep 1000; done';
	writeFileSync(`${marker}.sh`, `trap "" TERM HUP INT
${marker} -c "${wait}" &
setsid ${marker} -c "${wait}" &
${marker} -c "exec ${demoAgent('--rate 0')}"
status=$?
[ $status -ne 3 ] || exit 3
while :; do sleep 1000; done
`);
	chmodSync(`${marker}.sh`, 0o700);
	return { marker, agent: `exec ${marker} ${marker}.sh` };
}

async function start(t, options) {
	const server = await Server.start(t, { args: SOON, ...options });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	return { server, id, observer };
}

for (const [how, end] of [
	['a server that is killed', ({ server }) => server.kill9()],
	['a server that is stopped', ({ server }) => server.stop()],
	['a session that is deleted', ({ server, id }) => server.request('DELETE', `/api/sessions/${id}`)],
	['an agent that crashes', async ({ observer }) => {
		await observer.send('cancel');
		await observer.waitForEvent('turn_end');
		await observer.prompt('crash');
		const { data } = await observer.waitForEvent('agent_stopped');
		assert.match(data.detail, /^exit status 3/);
	}],
]) {
	test(`${how} leaves nothing of a stubborn agent`, async (t) => {
		const { marker, agent } = stubbornAgent(t);
		const started = await start(t, { agent });
		await started.observer.prompt('hang');
		await started.observer.waitForEvent('agent_started');
		await eventually(() => `only ${processesWith(marker)}`, () => processesWith(marker).length >= 3);
		await end(started);
		await untilGone(marker);
	});
}

test('a command that an agent has us run ends with a server that is killed', async (t) => {
	const cwd = scratchDir(t);
	const marker = join(cwd, 'command');
	symlinkSync('/bin/sh', marker);
	const command = `echo begun; trap '' TERM HUP; ${marker} -c 'while :; do sleep 1000; done'`;
	writeFileSync(join(cwd, 'requests'), `${JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'terminal/create', params: { command } })}\n`);
	const { server, observer } = await start(t, { cwd, agent: `exec sh ${CASES} terminal` });
	await observer.prompt('go');
	await observer.waitForEvent((e) => e.type === 'x-acp-terminal' && e.data.output === 'begun\n');
	await observer.waitForEvent('turn_end');
	await eventually(() => 'it has not begun', () => processesWith(marker).length > 0);
	await server.kill9();
	await untilGone(marker);
});

/** The processes whose parent is `pid`: {pid, state}. */
function childrenOf(pid) {
	return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((name) => {
		try {
			const [state, parent] = readFileSync(`/proc/${name}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
			return Number(parent) === pid ? [{ pid: Number(name), state }] : [];
		} catch {
			return [];
		}
	});
}

/** The process that starts agents. */
const spawnerOf = (server) => childrenOf(server.pid)[0].pid;

/** How many pipes and sockets a process has: agents and clients are known by these. */
const pipesOf = (pid) => readdirSync(`/proc/${pid}/fd`).filter((fd) => {
	try {
		return /^(pipe|socket):/.test(readlinkSync(`/proc/${pid}/fd/${fd}`));
	} catch {
		return false;
	}
}).length;

test('a server whose spawner is gone says so and ends, with all it has started; and a spawner whose server is gone ends', async (t) => {
	const { marker, agent } = stubbornAgent(t);
	const { server, observer } = await start(t, { agent });
	await observer.prompt('hang');
	await observer.waitForEvent('agent_started');
	await eventually(() => `only ${processesWith(marker)}`, () => processesWith(marker).length >= 3);
	process.kill(spawnerOf(server), 'SIGTERM'); // a service or a terminal that stops all: it goes on until the server is gone
	process.kill(spawnerOf(server), 'SIGKILL');
	assert.equal(await server.ends(), 1);
	assert.match(server.stderr, /error: the process that starts agents is gone, or does not answer: the server stops/);
	await untilGone(marker);
	await server.restart();
	const spawner = spawnerOf(server);
	await server.kill9();
	await eventually(() => 'it is still there', () => !existsSync(`/proc/${spawner}`) || /^State:\tZ/m.test(readFileSync(`/proc/${spawner}/status`, 'utf8')));
});

test(`50 agents, prompted and killed at random for ${STORM_S} s: no process, descriptor or event is lost`, async (t) => {
	const marker = join(scratchDir(t), 'agent');
	symlinkSync(demoAgent(), marker);
	const server = await Server.start(t, { agent: `exec ${marker} --rate 0`, args: [...SOON, '--limit', 'agent_idle_ms=1000'] });
	const spawner = spawnerOf(server);
	// With a database, up to 4 idle connections are kept for reading; each is opened when it is first needed.
	const before = pipesOf(server.pid) + (process.env.HOLDFAST_TEST_STORE ? 4 : 0);
	const sessions = await Promise.all(Array.from({ length: 50 }, async () => {
		const { id } = await server.createSession();
		const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
		await observer.loadAll();
		return { id, observer };
	}));
	const end = Date.now() + STORM_S * 1000;
	const random = (n) => Math.floor(Math.random() * n);
	const killer = (async () => {
		let killed = 0;
		while (Date.now() < end) {
			// The agents, and now and then a guard.
			const agents = random(5) > 0 ? processesWith(marker).map(([pid]) => pid) : childrenOf(spawner).map(({ pid }) => pid);
			if (agents.length > 0) {
				try {
					// SIGABRT, not SIGSEGV: AddressSanitizer catches that one, and then may wait for ever for a lock that it interrupted.
					process.kill(agents[random(agents.length)], ['SIGKILL', 'SIGTERM', 'SIGABRT'][random(3)]);
					killed++;
				} catch {
					// It was gone already.
				}
			}
			await new Promise((resolve) => setTimeout(resolve, random(60)));
		}
		return killed;
	})();
	await Promise.all(sessions.map(async ({ observer }) => {
		while (Date.now() < end) {
			const { seq } = await observer.prompt(['list', 'table', 'hello', 'fence'][random(4)]);
			await observer.waitForEvent('turn_end', { after: seq, ms: 60_000 });
		}
	}));
	t.diagnostic(`${await killer} agents killed, ${sessions.reduce((n, s) => n + s.observer.events().length, 0)} events`);
	for (const { id, observer } of sessions) {
		const events = observer.events();
		assert.deepEqual(events.map((e) => e.seq), events.map((_, i) => i + 1));
		assert.deepEqual(readLog(server, id).slice(0, events.length), events);
		await observer.close();
	}
	// Those that are left have nothing to do, and end of that.
	await untilGone(marker);
	await eventually(() => `children: ${JSON.stringify(childrenOf(spawner))}`, () => childrenOf(spawner).length === 0);
	assert.deepEqual(childrenOf(server.pid).map(({ pid }) => pid), [spawner]);
	await eventually(() => `${pipesOf(server.pid)} pipes and sockets, at most ${before} before`, () => pipesOf(server.pid) <= before);
	await server.stop();
	const { code, stdout } = await runToEnd(['verify', server.store]);
	assert.equal(code, 0, stdout);
});

test('a session whose agent has nothing to do leaves memory, and its next prompt starts the agent again', async (t) => {
	const { server, id, observer } = await start(t, { agent: demoAgent('--rate 0'), args: [...SOON, '--limit', 'agent_idle_ms=1', '--limit', 'evict_ms=1'] });
	await observer.prompt('hello');
	const { data } = await observer.waitForEvent('agent_stopped');
	assert.equal(data.reason, 'idle');
	await observer.close();
	const filesOf = () => readdirSync(`/proc/${server.pid}/fd`).filter((fd) => {
		try {
			return readlinkSync(`/proc/${server.pid}/fd/${fd}`).includes(`/sessions/${id}/`);
		} catch {
			return false; // closed meanwhile
		}
	});
	await eventually(() => `still open: ${filesOf()}`, () => filesOf().length === 0);
	const again = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await again.loadAll();
	const { seq } = await again.prompt('hello');
	assert.equal((await again.waitForEvent('turn_end', { after: seq })).data.stop_reason, 'end_turn');
});
