// A server that starts while its database is down, is starting, or is a standby: it waits. What will not pass by itself it says at once, and commands do not wait.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { test } from 'node:test';
import { Postgres } from '../support/postgres.mjs';
import { input } from '../support/producer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

/** One that has been started, and may wait; `up` is its start. */
function begin(t, address, more = [], options = {}) {
	const dir = scratchDir(t);
	const server = new Server({ dataDir: `${dir}/data`, cwd: dir, agent: null, args: ['--store', address, ...more], ...options });
	const up = server.up();
	up.catch(() => {}); // who waits for it is told
	defer(t, () => server.stop());
	return { server, up };
}

const waits = (server, why) => eventually(() => new RegExp(`the database cannot be used yet: .*${why}.*; waiting for it, up to \\d+ s\\n`).test(server.stderr), () => `the server to say that it waits: ${server.stderr}`);
const append = (server) => server.request('POST', '/api/sessions/s/events', { json: [input.note({})] });

/** A machine that takes connections and says nothing. */
async function startSilent(t) {
	const sockets = new Set();
	const silent = net.createServer((socket) => sockets.add(socket.on('error', () => {}))).listen(0, '127.0.0.1');
	await once(silent, 'listening');
	defer(t, () => {
		sockets.forEach((socket) => socket.destroy());
		silent.close();
	});
	return { port: silent.address().port, has: () => sockets.size };
}

test('a server that starts while the database is down serves when it is back, with all that was there', async (t) => {
	const postgres = Postgres.start(t);
	const address = postgres.address('relay');
	const first = begin(t, address);
	await first.up;
	await first.server.createSession({ id: 's' });
	assert.equal((await append(first.server)).status, 200);
	await first.server.stop();
	postgres.kill9();
	const { server, up } = begin(t, address);
	await waits(server, 'No such file|Connection refused');
	assert.doesNotMatch(server.stderr, /listening on/);
	postgres.up();
	await up;
	assert.match(server.stderr, /the database can be used\n/);
	assert.equal((await append(server)).status, 200);
	assert.equal((await server.request('GET', '/api/sessions/s')).body.max_seq, 2);
});

test('a server that finds only a standby serves when that is promoted; of several hosts it takes the one that takes writes', async (t) => {
	const primary = Postgres.start(t);
	const standby = primary.standby(t, { isSynchronous: true });
	const address = primary.address('relay');
	await eventually(() => standby.ask('postgres', "SELECT 1 FROM pg_database WHERE datname = 'relay'") === '1', 'the standby to have it');
	const both = begin(t, address.replace(primary.host, `${standby.host},${primary.host}`));
	await both.up;
	assert.doesNotMatch(both.server.stderr, /cannot be used yet/);
	await both.server.createSession({ id: 's' });
	assert.equal((await append(both.server)).status, 200);
	await both.server.stop();
	const { server, up } = begin(t, address.replace(primary.host, standby.host));
	await waits(server, 'read-only');
	const { stderr } = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', scratchDir(t), '--store', primary.addressWith(standby, 'relay').replace('dbname=relay', 'dbname=other')]);
	assert.match(stderr, /cannot use the database: .*"other" does not exist/);
	primary.kill9();
	standby.promote();
	standby.ask('postgres', "ALTER SYSTEM SET synchronous_standby_names = ''");
	standby.ask('postgres', 'SELECT pg_reload_conf()');
	await up;
	assert.equal((await append(server)).status, 200);
	assert.equal((await server.request('GET', '/api/sessions/s')).body.max_seq, 2);
});

test('what does not pass by itself is said at once, and a command never waits', async (t) => {
	const postgres = Postgres.start(t);
	const said = async (...args) => {
		const { code, stderr } = await runToEnd(args);
		assert.notEqual(code, 0, stderr);
		assert.doesNotMatch(stderr, /waiting for it/);
		return stderr;
	};
	const serve = (...args) => said('serve', '--listen', '127.0.0.1:0', '--data', scratchDir(t), '--store', ...args);
	assert.match(await serve(`host=${postgres.host} user=holdfast dbname=missing`), /cannot use the database: .*"missing" does not exist/);
	assert.match(await serve(`host=${postgres.host} user=nobody-here dbname=postgres`), /cannot use the database: .*role "nobody-here" does not exist/);
	postgres.ask('postgres', 'CREATE DATABASE closed ALLOW_CONNECTIONS false');
	assert.match(await serve(`host=${postgres.host} user=holdfast dbname=closed`), /cannot use the database: .*not currently accepting/);
	postgres.ask('postgres', 'CREATE DATABASE newer');
	postgres.ask('newer', 'CREATE TABLE holdfast_schema (version bigint NOT NULL)');
	postgres.ask('newer', 'INSERT INTO holdfast_schema VALUES (1000)');
	assert.match(await serve(`host=${postgres.host} user=holdfast dbname=newer`), /version 1000, .*install a newer holdfast/);
	const away = `host=${scratchDir(t)} user=holdfast dbname=relay`;
	const dir = scratchDir(t);
	for (const args of [['verify', away], ['export', away, 's'], ['new-epoch', away], ['doctor', '--store', away], ['migrate', away, `${dir}/to`]]) {
		assert.match(await said(...args), /No such file/, args[0]);
	}
});

test('the wait ends when its time is up, with the reason', async (t) => {
	const { code, stderr } = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', scratchDir(t), '--store', `host=${scratchDir(t)} user=holdfast dbname=relay`, '--limit', 'database_wait_ms=1500']);
	assert.equal(code, 1);
	assert.match(stderr, /waiting for it, up to 2 s\n/);
	assert.match(stderr, /cannot use the database: .*No such file/);
	const none = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', scratchDir(t), '--store', `host=${scratchDir(t)} user=holdfast dbname=relay`, '--limit', 'database_wait_ms=0']);
	assert.equal(none.code, 1);
	assert.doesNotMatch(none.stderr, /waiting for it/);
});

for (const [name, agent] of [['', null], [', with an agent,', 'cat']]) {
	test(`a server that waits${name} ends with 0 when it is told to, also while a machine does not answer`, async (t) => {
		const silent = await startSilent(t);
		for (const [address, signal] of [[`host=${scratchDir(t)} user=holdfast dbname=relay`, 'SIGTERM'], [`host=${scratchDir(t)} user=holdfast dbname=relay`, 'SIGINT'], [`host=${scratchDir(t)},127.0.0.1 port=5432,${silent.port} user=holdfast dbname=relay`, 'SIGTERM']]) {
			const { server, up } = begin(t, address, [], { agent });
			if (!address.includes('127.0.0.1')) {
				await waits(server, 'No such file');
			} else {
				await eventually(() => silent.has(), 'it to connect');
			}
			const ended = assert.rejects(up, /holdfast ended \(0\) before it listened/);
			process.kill(server.pid, signal);
			await ended;
			assert.match(server.stderr, new RegExp(`stopping \\(${signal}\\)`));
			assert.doesNotMatch(server.stderr, /cannot use the database|cannot start/);
		}
	});
}
