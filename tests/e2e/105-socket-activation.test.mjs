// Sockets that systemd keeps open while the server restarts: who comes meanwhile is served by the next process.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { inDirectory } from '../support/parts.mjs';
import { binary, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

/** Listens as systemd does, and starts what it is told by a line; Node would accept connections itself. */
const MANAGER = `import json, os, signal, socket, sys
kind, where = sys.argv[1], sys.argv[2]
s = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
s.bind(where if kind == "unix" else ("127.0.0.1", 0))
s.listen(64)
print(where if kind == "unix" else s.getsockname()[1], flush=True)
child = 0
for line in sys.stdin:
    args = json.loads(line)
    if args:
        child = os.fork()
        if child == 0:
            fd = os.dup(s.fileno())
            fd = s.fileno() if fd == 3 else fd
            os.dup2(fd, 3)
            os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
            os.execv(args[0], args)
        print("started", child, flush=True)
    else:
        os.kill(child, signal.SIGTERM)
        print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
`;

async function startManager(t, kind, where) {
	const child = spawn('python3', ['-c', MANAGER, kind, where], { stdio: ['pipe', 'pipe', 'pipe'] });
	let out = '';
	let err = '';
	let pid = 0;
	child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
	child.stderr.setEncoding('utf8').on('data', (text) => (err += text));
	defer(t, async () => {
		child.kill('SIGKILL');
		try {
			process.kill(pid, 'SIGKILL');
		} catch { /* it has ended */ }
		if (child.exitCode === null && child.signalCode === null) {
			await once(child, 'exit');
		}
	});
	let said = 0;
	const next = async () => {
		await eventually(() => out.split('\n').length > said + 1, () => `the manager\n${err}`);
		return out.split('\n')[said++];
	};
	const at = await next();
	return {
		at,
		stderr: () => err,
		async start(args) {
			const before = err.length;
			child.stdin.write(`${JSON.stringify([binary(), 'serve', ...args])}\n`);
			pid = Number((await next()).split(' ')[1]);
			await eventually(() => /listening on|error:/.test(err.slice(before)), 'it to listen');
		},
		async stop() {
			child.stdin.write('null\n');
			return (await next()).split(' ')[1];
		},
	};
}

/** The status of a request, whenever the answer comes. */
const ask = (options) => new Promise((resolve, reject) => {
	http.get({ path: '/healthz', agent: false, host: '127.0.0.1', ...options }, (answer) => answer.resume().on('end', () => resolve(answer.statusCode))).on('error', reject);
});

test('nobody is refused while the server restarts', async (t) => {
	const manager = await startManager(t, 'tcp', '');
	const dir = scratchDir(t);
	const args = ['--listen', `127.0.0.1:${manager.at}`, '--data', join(dir, 'data'), ...inDirectory(dir)];
	await manager.start(args);
	assert.equal(await ask({ port: manager.at }), 200);
	for (let round = 0; round < 3; round++) {
		assert.equal(await manager.stop(), '0');
		const waiting = Array.from({ length: 5 }, () => ask({ port: manager.at }));
		await manager.start(args);
		assert.deepEqual(await Promise.all(waiting), [200, 200, 200, 200, 200]);
	}
	// The same while requests come all the time, also into the drain of the server that goes.
	let going = true;
	const statuses = [];
	const come = async () => {
		while (going) {
			statuses.push(await ask({ port: manager.at }));
		}
	};
	const clients = [come(), come(), come()];
	for (let round = 0; round < 3; round++) {
		const had = statuses.length;
		await eventually(() => statuses.length > had + 5, 'requests to be answered');
		assert.equal(await manager.stop(), '0');
		await manager.start(args);
	}
	going = false;
	await Promise.all(clients);
	assert.deepEqual(statuses.filter((status) => status !== 200), []);
});

test('a unix socket of the manager is used, and stays when the server stops', async (t) => {
	const dir = scratchDir(t);
	const path = join(dir, 'socket');
	const manager = await startManager(t, 'unix', path);
	await manager.start(['--listen', `unix:${path}`, '--data', join(dir, 'data'), ...inDirectory(dir)]);
	assert.equal(await ask({ socketPath: path }), 200);
	assert.equal(await manager.stop(), '0');
	assert.ok(existsSync(path));
});

test('a socket that no --listen names is refused by name', async (t) => {
	const manager = await startManager(t, 'tcp', '');
	const dir = scratchDir(t);
	await manager.start(['--listen', '127.0.0.1:0', '--data', join(dir, 'data'), ...inDirectory(dir)]);
	assert.match(manager.stderr(), new RegExp(`passes a socket for 127\\.0\\.0\\.1:${manager.at}, which no --listen names`));
});
