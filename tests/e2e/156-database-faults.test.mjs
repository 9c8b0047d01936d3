// A database that fails while the server goes on: it may only be read, lets nobody in, takes too long, waits for a standby that is dead,
// or is still at work for a connection that is gone. What was acknowledged is there; what was not is there once, or not; all goes on by itself.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { nodeAddress } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input } from '../support/producer.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

const OURS = "pg_stat_activity WHERE application_name = 'holdfast' AND datname = 'relay'";

async function start(t, postgres, address = postgres.address('relay'), ...more) {
	const server = await Server.start(t, { args: ['--store', address, ...more] });
	await server.createSession({ id: 's' });
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
	await observer.loadAll();
	return { server, observer };
}

const append = (server, n) => server.request('POST', '/api/sessions/s/events', { json: [{ ...input.note({ n }), key: `k${n}` }] });
const kill = (postgres) => postgres.ask('postgres', `SELECT pg_terminate_backend(pid) FROM ${OURS}`);

/** It counts for all who connect from then on. */
async function set(postgres, name, value) {
	postgres.ask('postgres', `ALTER SYSTEM SET ${name} = '${value}'`);
	postgres.ask('postgres', 'SELECT pg_reload_conf()');
	await eventually(() => postgres.ask('postgres', `SHOW ${name}`) === value, `${name} to be ${value}`);
}

/** Appends notes, each again until it is acknowledged, until `isOver()`; gives how many. */
async function produce(server, isOver) {
	let n = 0;
	for (; !isOver(); n++) {
		for (let status = 0; status !== 200;) {
			({ status } = await append(server, n));
			assert.ok(status === 200 || status === 503 || status === 507, `${status}`);
		}
	}
	return n;
}

/** In front of the database's socket. cut(): its clients are gone, and the database does not hear of it. refuse(): each group ends its connection; refuse('and all'): and nobody connects any more. */
async function startLink(t, postgres) {
	const dir = join(scratchDir(t), 'link');
	const clients = new Set();
	let refuses = false;
	let isDown = false;
	mkdirSync(dir);
	const link = net.createServer((client) => {
		if (isDown) {
			client.destroy();
			return;
		}
		const upstream = net.connect(join(postgres.host, '.s.PGSQL.5432'));
		clients.add(client);
		client.on('data', (d) => {
			if (!refuses || !d.includes('WITH won AS')) {
				upstream.write(d);
				return;
			}
			isDown = refuses === 'and all';
			client.destroy();
		}).on('error', () => {}).on('close', () => clients.delete(client) && upstream.end());
		upstream.on('data', (d) => client.write(d)).on('error', () => {}).on('close', () => client.destroy());
		defer(t, () => upstream.destroy());
	}).listen(join(dir, '.s.PGSQL.5432'));
	await once(link, 'listening');
	defer(t, () => link.close());
	return {
		address: postgres.address('relay').replace(postgres.host, dir),
		cut() {
			for (const client of clients) {
				clients.delete(client); // its other end stays
				client.destroy();
			}
		},
		refuse(does) {
			refuses = does;
			isDown = false;
		},
	};
}

const waiting = (postgres) => Number(postgres.ask('relay', 'SELECT count(*) FROM pg_locks WHERE NOT granted'));

test('what cannot be written or read is refused in words about the database: no disk, no journal, no file', async (t) => {
	const postgres = Postgres.start(t);
	const { server } = await start(t, postgres);
	const { id: unread } = await server.createSession({ id: 'unread' });
	const said = [];
	const isRefused = async (what, method, path, options) => {
		await eventually(async () => {
			const { status, body } = await server.request(method, path, options);
			said.push([what, (body.error ?? body).message]);
			return status === 503;
		}, `${what} to be refused`);
	};
	await set(postgres, 'statement_timeout', '100ms');
	kill(postgres);
	assert.equal((await append(server, 0)).status, 200); // it has connected again
	const release = await postgres.hold(t, 'relay', 'LOCK TABLE holdfast_session IN EXCLUSIVE MODE');
	await isRefused('an append', 'POST', '/api/sessions/s/events', { json: [input.note({})] });
	await isRefused('readiness', 'GET', '/readyz');
	await isRefused('a stream', 'POST', '/api/sessions/s/events', { body: `${JSON.stringify(input.note({}))}\n`, headers: { 'content-type': 'application/x-ndjson' } });
	await isRefused('a session', 'POST', '/api/sessions', { json: { id: 'new' } });
	await isRefused('a deletion', 'DELETE', `/api/sessions/${unread}`);
	await eventually(() => /the database cannot be written: it refuses, as said above\. .*make room there, or see its log\n/.test(server.stderr), 'the server to say so');
	await release();
	await set(postgres, 'statement_timeout', '0');
	kill(postgres);
	await eventually(() => /the database can be written again\n/.test(server.stderr), 'it to be written again');
	const refused = said.filter(([, message]) => message);
	assert.ok(new Set(refused.map(([what]) => what)).size === 5, JSON.stringify(said));
	assert.deepEqual(refused.filter(([, message]) => !/database/.test(message) || /disk|journal/.test(message)), []);
	assert.doesNotMatch(server.stderr, /journal|disk/);
	assert.equal((await append(server, 1)).status, 200);
});

test('a producer goes on by itself when the database may be written again, lets us in, is quick', async (t) => {
	const postgres = Postgres.start(t);
	const { server, observer } = await start(t, postgres);
	let isOver = false;
	const producer = produce(server, () => isOver);
	const last = () => observer.events().length;
	const goesOn = async () => {
		const before = last();
		await eventually(() => last() > before + 3, 'events to come');
	};
	try {
		await goesOn();
		await set(postgres, 'default_transaction_read_only', 'on');
		await eventually(() => /the database cannot be used: .*read-only/.test(server.stderr), 'the server to say so');
		await set(postgres, 'default_transaction_read_only', 'off');
		await goesOn();
		postgres.ask('postgres', 'ALTER DATABASE relay ALLOW_CONNECTIONS false');
		kill(postgres);
		await eventually(() => /the database cannot be used: .*not currently accepting/.test(server.stderr), 'the server to say so');
		postgres.ask('postgres', 'ALTER DATABASE relay ALLOW_CONNECTIONS true');
		await goesOn();
		await set(postgres, 'statement_timeout', '100ms');
		kill(postgres);
		await goesOn(); // it has connected again
		const release = await postgres.hold(t, 'relay', 'LOCK TABLE holdfast_session IN EXCLUSIVE MODE');
		await eventually(() => /the database refuses to write: .*statement timeout/.test(server.stderr), 'the server to say so');
		await release();
		await goesOn();
		await set(postgres, 'statement_timeout', '0');
		postgres.kill9();
		postgres.up();
		await goesOn();
	} finally {
		isOver = true;
	}
	const count = await producer;
	await observer.waitForSeq(count);
	assert.deepEqual(observer.events().map((e) => [e.seq, e.data.n]), Array.from({ length: count }, (_, n) => [n + 1, n]));
});

for (const then of ['the wait is cancelled, and the connection lost', 'the server is killed']) {
	test(`a commit waits for a dead standby, and ${then}: it counts when a standby has it, and once`, async (t) => {
		const postgres = Postgres.start(t);
		const { server, observer } = await start(t, postgres);
		const stored = () => Number(postgres.ask('relay', 'SELECT count(*) FROM holdfast_event'));
		const WAITING = `${OURS} AND wait_event = 'SyncRep'`;
		const waits = (query = '') => postgres.ask('relay', `SELECT count(*) FROM ${WAITING} AND query LIKE '${query}%'`) !== '0';
		assert.equal((await append(server, 1)).status, 200);
		await observer.waitForSeq(1);
		await set(postgres, 'synchronous_standby_names', 'nobody');
		const answer = append(server, 2).catch(() => ({ status: 0 }));
		await eventually(() => waits('WITH won'), 'the commit to wait');
		let isUp = Promise.resolve();
		if (then === 'the server is killed') {
			await server.kill9();
			kill(postgres);
			await eventually(() => stored() === 2, 'the commit to become visible');
			isUp = server.up();
		} else {
			postgres.ask('relay', `SELECT pg_cancel_backend(pid) FROM ${WAITING} AND query LIKE 'WITH won%'`);
			await eventually(() => stored() === 2, 'the commit to become visible');
			await eventually(waits, 'the server to raise the fence');
			kill(postgres);
			await eventually(waits, 'the server to raise it again');
			assert.equal(observer.events().length, 1, 'what no standby has is not shown');
		}
		await set(postgres, 'synchronous_standby_names', '');
		await isUp;
		const { status } = await answer;
		assert.equal(status, then === 'the server is killed' ? 0 : 200);
		const { body } = await append(server, 2);
		assert.deepEqual([body.acks[0].seq, body.acks[0].duplicate], [2, true]);
		assert.equal((await append(server, 3)).body.acks[0].seq, 3);
		assert.equal(stored(), 3);
	});
}

test('a connection is gone while its backend still waits for a lock: the append is there once, and acknowledged', async (t) => {
	const postgres = Postgres.start(t);
	const link = await startLink(t, postgres);
	const { server, observer } = await start(t, postgres, link.address);
	const release = await postgres.hold(t, 'relay', 'UPDATE holdfast_session SET owner = owner');
	const answer = append(server, 1);
	await eventually(() => waiting(postgres) === 1, 'the append to wait');
	link.cut();
	await eventually(() => waiting(postgres) === 2, 'the server to wait for what became of it');
	assert.equal(observer.events().length, 0);
	await release();
	assert.equal((await answer).status, 200);
	await observer.waitForSeq(1);
	assert.equal((await append(server, 2)).body.acks[0].seq, 2);
	assert.equal(postgres.ask('relay', 'SELECT count(*) FROM holdfast_event'), '2');
});

test('a server stops when it is told to, although its append waits for a lock, waits for a dead standby, or breaks each connection', async (t) => {
	const postgres = Postgres.start(t);
	const link = await startLink(t, postgres);
	const { server } = await start(t, postgres, link.address, '--limit', 'stop_wait_ms=200');
	const begin = (n) => append(server, n).then(({ status }) => status, () => 'no answer');
	const stopsIn = async (answer) => {
		await server.stop();
		assert.notEqual(await answer, 200);
	};
	const waits = () => postgres.ask('postgres', `SELECT count(*) FROM ${OURS} AND query LIKE 'WITH won%' AND wait_event_type IN ('Lock', 'IPC')`) === '1';

	const release = await postgres.hold(t, 'relay', 'LOCK TABLE holdfast_session IN EXCLUSIVE MODE');
	const behindLock = begin(1);
	await eventually(waits, 'the append to wait for the lock');
	await stopsIn(behindLock);
	await release();
	await server.restart();
	assert.equal(await begin(1), 200);

	await set(postgres, 'synchronous_standby_names', 'nobody');
	const behindStandby = begin(2);
	await eventually(waits, 'the append to wait for the standby');
	await stopsIn(behindStandby);
	await set(postgres, 'synchronous_standby_names', '');
	await server.restart();
	assert.equal(await begin(2), 200);

	const refuse = (n) => {
		link.refuse(true);
		link.cut(); // the statement is prepared anew
		return begin(n);
	};
	const told = (times) => eventually(() => server.stderr.split('the database cannot be used').length > times, 'the server to say so');
	const first = refuse(3);
	await told(1);
	link.refuse(false);
	assert.equal(await first, 200);
	assert.match(server.stderr, /the database can be used again/);
	const second = refuse(4);
	await told(2);
	await stopsIn(second);
	assert.equal(postgres.ask('relay', 'SELECT count(*) FROM holdfast_event'), '3');
});

test('a node that stops while nobody knows whether a session was created ends well', async (t) => {
	const postgres = Postgres.start(t);
	const link = await startLink(t, postgres);
	const server = await Server.start(t, { args: ['--store', link.address, '--node-listen', nodeAddress(), '--limit', 'stop_wait_ms=200'] });
	link.refuse('and all');
	const create = () => server.request('POST', '/api/sessions', { json: { id: 's' } }).then(({ status }) => status, () => 'no answer');
	const answer = create();
	await eventually(() => /the database cannot be used/.test(server.stderr), 'the server to say so');
	await server.stop();
	assert.notEqual(await answer, 201);
	link.refuse(false);
	await server.restart();
	assert.equal(await create(), 201);
	assert.equal((await append(server, 1)).body.acks[0].seq, 1);
});
