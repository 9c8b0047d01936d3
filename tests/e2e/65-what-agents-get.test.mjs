// What agents, and the commands that they have us run, get of the server: no descriptor, and no variable, that is not for them.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

const CASES = fileURLToPath(new URL('../unit/acp_agent_cases.sh', import.meta.url));
const O_CLOEXEC = 0o2000000;
const say = (text) => ({ type: 'agent_message_chunk', data: { text } });

/** Written into `cwd`, as `fds.NAME` and `env.NAME`, by a shell about itself. */
const tellAll = (name) => `(ls -l /proc/$$/fd >fds.${name}); env >env.${name}; true`;

/** A server with sessions that have logs, whose agent looks at itself and has a command look at itself. */
async function start(t, options = {}) {
	const cwd = scratchDir(t);
	const request = (method, params) => JSON.stringify({ id: 7, method: `terminal/${method}`, params });
	writeFileSync(join(cwd, 'requests'), [
		request('create', { command: tellAll('command'), env: [{ name: 'OF_THE_AGENT', value: '1' }] }), request('wait_for_exit', { terminalId: '@' }), '',
	].join('\n'));
	const server = await Server.start(t, { cwd, agent: `${tellAll('agent')}; exec /bin/sh ${CASES} terminal`, ...options });
	return { server, cwd };
}

async function runAgent(t, { server, cwd }) {
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.prompt('go');
	await observer.waitForEvent('turn_end');
	const read = (file) => readFileSync(join(cwd, file), 'utf8').trim().split('\n');
	const look = (name) => ({
		fds: read(`fds.${name}`).flatMap((line) => /(\d+) -> (.*)$/.exec(line)?.slice(1).join(' ') ?? []),
		env: Object.fromEntries(read(`env.${name}`).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)])),
	});
	return { agent: look('agent'), command: look('command') };
}

const linkOf = (fd) => {
	try {
		return readlinkSync(`/proc/${fd}`);
	} catch {
		return null; // closed meanwhile
	}
};

/** The server's own descriptors that a program it starts would get, with their names; but those that it got from us. */
function inherited(pid) {
	const ours = readdirSync('/proc/self/fd').map((fd) => linkOf(`self/fd/${fd}`));
	return readdirSync(`/proc/${pid}/fdinfo`).filter((fd) => Number(fd) > 2).flatMap((fd) => {
		try {
			const flags = /^flags:\s*(\d+)$/m.exec(readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8'))[1];
			const link = linkOf(`${pid}/fd/${fd}`);
			return (parseInt(flags, 8) & O_CLOEXEC) === 0 && !ours.includes(link) ? [`${fd} ${link}`] : [];
		} catch {
			return []; // closed meanwhile
		}
	});
}

test('agents and their commands have their three pipes open and nothing else', async (t) => {
	const run = await start(t);
	const { agent, command } = await runAgent(t, run);
	for (const { fds } of [agent, command]) {
		assert.deepEqual(fds.map((fd) => fd.split(' ')[0]), ['0', '1', '2'], fds.join(', '));
		assert.ok(fds.every((fd) => /^\d (pipe:|socket:|\/dev\/null)/.test(fd)), fds.join(', '));
	}
});

/** All that come from a process: [{pid, line, fds: ['3 socket:…']}]. */
function descendantsOf(pid) {
	const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
	return children.flatMap((child) => [{
		pid: child,
		line: readFileSync(`/proc/${child}/cmdline`, 'utf8').replaceAll('\0', ' ').trim(),
		fds: readdirSync(`/proc/${child}/fd`).map((fd) => `${fd} ${linkOf(`${child}/fd/${fd}`)}`),
	}, ...descendantsOf(child)]);
}

test('what somebody left open for the server reaches neither guards nor agents nor commands nor the process for files', async (t) => {
	const cwd = scratchDir(t);
	const request = (method, params) => JSON.stringify({ jsonrpc: '2.0', id: 7, method, params });
	writeFileSync(join(cwd, 'requests'), [
		request('fs/read_text_file', { path: join(cwd, 'requests') }), request('terminal/create', { command: 'echo begun; exec sleep 1000' }), '',
	].join('\n'));
	const prefix = ['/bin/sh', '-c', 'exec 4</etc/passwd 9</etc/passwd; exec "$@"', 'sh'];
	const server = await Server.start(t, { cwd, prefix, agent: `exec /bin/sh ${CASES} terminal` });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.prompt('go');
	await observer.waitForEvent((e) => e.data.output === 'begun\n');
	await observer.waitForEvent('turn_end');
	assert.ok(readdirSync(`/proc/${server.pid}/fd`).some((fd) => linkOf(`${server.pid}/fd/${fd}`) === '/etc/passwd'), 'the server itself has it');
	const found = descendantsOf(server.pid);
	const openedByItself = (fd) => fd.endsWith(CASES) || fd.endsWith('/requests');
	const fdsOf = (pattern) => found.filter(({ line }) => pattern.test(line))
		.map(({ fds }) => fds.filter((fd) => !openedByItself(fd)).map((fd) => fd.replace(/:.*/, '')).join(', '));
	const pipes = '0 socket, 1 socket, 2 socket';
	assert.deepEqual(fdsOf(/acp_agent_cases/), [pipes]);
	assert.deepEqual(fdsOf(/sleep 1000/), ['0 /dev/null, 1 pipe, 2 pipe']);
	assert.deepEqual(fdsOf(/^holdfast agent-files/), [pipes]);
	assert.deepEqual(fdsOf(/^holdfast agent-guard/), Array(2).fill('0 /dev/null, 1 /dev/null, 2 /dev/null, 3 socket, 4 anon_inode'));
	const [spawner] = fdsOf(/^holdfast agent-spawner/).map((fds) => fds.split(', '));
	assert.deepEqual([spawner[0], ...spawner.slice(3)], ['0 /dev/null', '3 socket', '4 pipe', '5 anon_inode']);
	assert.equal(found.length, 6, found.map(({ line }) => line).join('\n'));
});

test('the server has no descriptor that a program would get, at whatever moment it is started', async (t) => {
	const { server } = await start(t, { args: ['--limit', 'hot_tail_size=1K,segment_size=16K,evict_ms=20'] });
	const ids = [];
	for (let i = 0; i < 4; i++) {
		ids.push((await server.createSession()).id);
	}
	const url = (id) => `/api/sessions/${id}/events`;
	let over = false;
	let looks = 0;
	const found = new Set();
	const looking = (async () => {
		for (; !over; looks++) {
			inherited(server.pid).forEach((fd) => found.add(fd));
			await new Promise(setImmediate);
		}
	})();
	for (let round = 0; round < 60 || looks < 60; round++) {
		await Promise.all(ids.flatMap((id) => [
			server.request('POST', url(id), { json: [say(`${'text '.repeat(400)}\n\n`), { type: 'text_complete', data: {} }] }),
			server.request('GET', `${url(id)}?after_seq=0&limit=5`), server.request('GET', `${url(id)}?after_seq=0&limit=5`),
		]));
	}
	over = true;
	await looking;
	assert.deepEqual([...found], []);
});

test('agents and their commands get a few variables of the server and none of its own', async (t) => {
	const env = { TZ: 'UTC', LC_TIME: 'C', API_KEY: 'secret', HOLDFAST_LOG_LEVEL: 'info', NOTIFY_SOCKET: '/nowhere', WATCHDOG_USEC: '9', LISTEN_FDS: '0' };
	const { agent, command } = await runAgent(t, await start(t, { env }));
	for (const { env: got } of [agent, command]) {
		assert.equal(got.PATH, process.env.PATH);
		assert.equal(got.TZ, 'UTC');
		assert.equal(got.LC_TIME, 'C');
		const more = Object.keys(got).filter((name) => !/^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_[A-Z]+|TZ|TERM|TMPDIR|PWD|OLDPWD|SHLVL|_|OF_THE_AGENT)$/.test(name));
		assert.deepEqual(more, []);
	}
	assert.deepEqual([agent.env.OF_THE_AGENT, command.env.OF_THE_AGENT], [undefined, '1']);
});

test('--agent-env gives them more: by name, with a value, or all', async (t) => {
	const env = { API_KEY: 'secret', OTHER: 'x', HOLDFAST_AGENT_ENV: 'OTHER,MADE=up', LISTEN_FDS: '0' };
	const byName = await runAgent(t, await start(t, { env, args: ['--agent-env', 'API_KEY', '--agent-env=LIST=a,b=c', '--agent-env', 'NOT_THERE'] }));
	for (const { env: got } of [byName.agent, byName.command]) {
		assert.deepEqual([got.API_KEY, got.OTHER, got.MADE, got.LIST, got.NOT_THERE], ['secret', 'x', 'up', 'a,b=c', undefined]);
		assert.equal(got.LISTEN_FDS, undefined);
	}
	const all = await runAgent(t, await start(t, { env: { ...env, ANYTHING: '1' }, args: ['--agent-env', '*'] }));
	for (const { env: got } of [all.agent, all.command]) {
		assert.deepEqual([got.ANYTHING, got.API_KEY, got.MADE], ['1', 'secret', 'up']);
		assert.deepEqual(Object.keys(got).filter((name) => /^(HOLDFAST_|LISTEN_|NOTIFY_SOCKET$|WATCHDOG_)/.test(name)), []);
	}
});

test('what --agent-env cannot give is refused, and what is not there is said', async (t) => {
	const data = join(scratchDir(t), 'data');
	const args = ['serve', '--data', data, '--listen', '127.0.0.1:0'];
	for (const entry of ['', '=x', 'A B', '1A', 'HOLDFAST_DATA', 'LISTEN_FDS=3', 'NOTIFY_SOCKET', '*A', 'A*B', 'LISTEN_*']) {
		const { code, stderr } = await runToEnd([...args, '--agent-env', entry]);
		assert.equal(code, 2, entry);
		assert.match(stderr, /--agent-env ".*": (give NAME, NAME=VALUE|agents never get this one)/, entry);
	}
	assert.equal((await runToEnd(args, { env: { HOLDFAST_AGENT_ENV: 'GOOD=1,1BAD' } })).code, 2);
	const { server } = await start(t, { args: ['--agent-env', 'NOT_THERE'] });
	assert.match(server.stderr, /warning: --agent-env NOT_THERE: there is no such variable in the environment/);
});
