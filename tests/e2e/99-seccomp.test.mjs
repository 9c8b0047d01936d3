// The server itself goes without the system calls that it does not need; its agents do not. A build with sanitizers needs them, and says so:
// scripts/test all, and scripts/test e2e 99, have one without (HOLDFAST_PLAIN_BIN).

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

if (process.env.HOLDFAST_PLAIN_BIN) {
	process.env.HOLDFAST_BIN = process.env.HOLDFAST_PLAIN_BIN;
}
const CASES = fileURLToPath(new URL('../unit/acp_agent_cases.sh', import.meta.url));
const ON = /^holdfast: info: the server itself is under seccomp: it starts no program, and signals no other process$/m;
const OFF = /^holdfast: info: the server itself is not under seccomp: (.*)$/m;

/** How many filters a thread is under; a container may have one for all. */
const filtersOf = (path) => Number(/^Seccomp_filters:\s*(\d+)$/m.exec(readFileSync(join('/proc', path, 'status'), 'utf8'))[1]);
const before = filtersOf('self');
const threadsOf = (pid) => readdirSync(`/proc/${pid}/task`).map((id) => filtersOf(`${pid}/task/${id}`));

/** All that come from a process: [pid, command line]. */
function descendantsOf(pid) {
	const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
	return children.flatMap((child) => [[child, readFileSync(`/proc/${child}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()], ...descendantsOf(child)]);
}

/** A server at work: its threads have begun, an agent and a command of it run. */
async function work(t, args) {
	const cwd = scratchDir(t);
	const request = (method, params) => JSON.stringify({ jsonrpc: '2.0', id: 7, method, params });
	writeFileSync(join(cwd, 'requests'), [
		request('fs/read_text_file', { path: join(cwd, 'requests') }), request('terminal/create', { command: 'echo begun; exec sleep 1000' }), '',
	].join('\n'));
	const server = await Server.start(t, { cwd, args: ['--limit', 'hot_tail_size=1K', ...args], agent: `exec /bin/sh ${CASES} terminal` });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.prompt('go');
	await observer.waitForEvent((e) => e.data.output === 'begun\n');
	await observer.waitForEvent('turn_end');
	for (let i = 0; i < 4; i++) {
		const json = [{ type: 'agent_message_chunk', data: { text: `${'text '.repeat(400)}\n\n` } }, { type: 'text_complete', data: {} }];
		assert.equal((await server.request('POST', `/api/sessions/${id}/events`, { json })).status, 200);
	}
	assert.equal((await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5`)).status, 200); // read from the disk
	return server;
}

test('all threads of the server are under its filter, and nothing that it starts is', async (t) => {
	const server = await work(t, []);
	const off = OFF.exec(server.stderr);
	assert.equal(ON.test(server.stderr), !off, server.stderr);
	if (off) {
		assert.match(off[1], /^this build has sanitizers|^this kernel does not have it$/);
		t.diagnostic(`only its absence was tested: ${off[1]}`);
	}
	const threads = threadsOf(server.pid);
	assert.ok(threads.length >= 3, `${threads.length} threads`);
	assert.deepEqual(threads, threads.map(() => before + (off ? 0 : 1)));
	const others = descendantsOf(server.pid);
	const found = ['agent-spawner', 'agent-guard', 'agent-files', 'acp_agent_cases', 'sleep 1000'].filter((name) => others.some(([, line]) => line.includes(name)));
	assert.equal(found.length, 5, others.join('\n'));
	assert.deepEqual(others.filter(([pid]) => existsSync(`/proc/${pid}`) && filtersOf(String(pid)) !== before), []);
});

test('--seccomp off leaves it out, on insists on it', async (t) => {
	const server = await work(t, ['--seccomp', 'off']);
	assert.equal(OFF.exec(server.stderr)[1], '--seccomp off');
	assert.deepEqual([...new Set(threadsOf(server.pid))], [before]);
	const plain = await Server.start(t);
	const lack = OFF.exec(plain.stderr)?.[1];
	if (lack && process.env.HOLDFAST_TEST_UNDER) {
		t.diagnostic('valgrind has no such filter, and what runToEnd() starts is not under it');
	} else if (lack) {
		const { code, stderr } = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', join(scratchDir(t), 'data'), '--seccomp', 'on']);
		assert.equal(code, 1);
		assert.ok(stderr.includes(`error: --seccomp on: ${lack}`), stderr);
	} else {
		const insisting = await Server.start(t, { args: ['--seccomp', 'on'] });
		assert.match(insisting.stderr, ON);
	}
	assert.equal((await runToEnd(['serve', '--seccomp', 'maybe'])).code, 2);
});
