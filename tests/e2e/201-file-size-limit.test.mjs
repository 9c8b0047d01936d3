// A limit of file sizes (RLIMIT_FSIZE, `ulimit -f`, LimitFSIZE=) is a full disk for the server and its commands: the kernel's signal ends neither.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, binary, demoAgent, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

/** Sets the limit of a running server, in bytes, or takes it back. */
function limitFiles(server, size) {
	const { status, stderr } = spawnSync('prlimit', ['--pid', String(server.pid), `--fsize=${size}:unlimited`], { encoding: 'utf8' });
	assert.equal(status, 0, stderr);
}

const note = (i) => input.note({ i, text: 'x'.repeat(2000) });

test('a write that the limit refuses is storage_failed, and the server goes on when it is lifted', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'journal_ahead=16K,journal_retry_ms=10'] });
	await server.createSession({ id: 's' });
	await post(server, 's', note(0));
	limitFiles(server, 4096);
	let refused = 0;
	let taken = 1;
	for (let i = 1; i < 60 && refused < 3; i++) {
		const { status, body } = await server.request('POST', '/api/sessions/s/events', { json: note(i) });
		if (status === 200) {
			taken++;
		} else {
			assert.deepEqual([status, body.error.code], [503, 'storage_failed']);
			refused++;
		}
	}
	assert.equal(refused, 3, 'it was reached');
	limitFiles(server, 'unlimited');
	await eventually(async () => (await server.request('POST', '/api/sessions/s/events', { json: note('last') })).status === 200, 'it to take what is sent');
	assert.equal((await server.request('GET', '/api/sessions/s')).body.max_seq, taken + 1);
	await server.stop();
	assert.equal(readLog(server, 's').length, taken + 1);
	assert.match(server.stderr, /File too large/);
});

test('a server that starts under it, its commands, and its agents, which have the signal as usual', async (t) => {
	const cwd = scratchDir(t);
	const server = await Server.start(t, { cwd, args: ['--limit', 'journal_ahead=16K'], agent: `sh -c 'grep ^SigIgn /proc/self/status >signals; exec ${demoAgent('--rate 0')}'`, prefix: ['/bin/sh', '-c', 'ulimit -S -f 64; exec "$0" "$@"'] });
	await server.createSession({ id: 's' });
	let answer;
	for (let i = 0; i < 60 && answer?.status !== 503; i++) {
		answer = await server.request('POST', '/api/sessions/s/events', { json: note(i) });
	}
	assert.equal(answer.body.error?.code, 'storage_failed');
	limitFiles(server, 'unlimited');
	await eventually(async () => (await server.request('POST', '/api/sessions/s/events', { json: note('last') })).status === 200);
	const observer = await Observer.connect(t, server, 's');
	await observer.loadAll();
	await observer.prompt('hello');
	await eventually(() => statSync(join(cwd, 'signals'), { throwIfNoEntry: false })?.size > 0, 'the agent to start');
	const ignored = BigInt(`0x${/SigIgn:\s+(\w+)/.exec(readFileSync(join(cwd, 'signals'), 'utf8'))[1]}`);
	assert.equal(ignored >> 24n & 1n, 0n, 'SIGXFSZ is as usual for agents');
	await server.stop();
	const file = join(scratchDir(t), 'exported');
	const done = spawnSync('/bin/sh', ['-c', `ulimit -S -f 8; exec "$0" export "$1" s >"$2"`, binary(), server.dataDir, file], { encoding: 'utf8' });
	assert.deepEqual([done.status, done.signal], [2, null], done.stderr);
	assert.match(done.stderr, /cannot be exported/);
});
