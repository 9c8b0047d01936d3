// Sessions in PostgreSQL: what is acknowledged stays, once, whatever dies; one server at a time; what the options refuse.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { input } from '../support/producer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

async function start(t) {
	const postgres = Postgres.start(t);
	const server = await Server.start(t, { args: ['--store', postgres.address('relay')] });
	return { postgres, server };
}

/** Appends notes one by one, each again with its key until it is acknowledged, until `isOver()`; returns how many. */
async function produce(server, id, isOver) {
	let n = 0;
	for (; !isOver(); n++) {
		for (let good = false; !good;) {
			try {
				const { status, body } = await server.request('POST', `/api/sessions/${id}/events`, { json: [{ ...input.note({ n }), key: `k${n}` }, input.text(`text ${n}\n\n`, `m${n}`)] });
				assert.ok(status === 200 || status >= 500 || status === 429, JSON.stringify([status, body]));
				good = status === 200;
			} catch (error) {
				assert.notEqual(error.code, 'ERR_ASSERTION', error.message);
			}
			await sleep(good ? 0 : 20); // it is down
		}
	}
	return n;
}

test('what is acknowledged is there once, whatever is killed meanwhile: the server, the database, a connection', async (t) => {
	const { postgres, server } = await start(t);
	const ids = ['a', 'b', 'c'];
	for (const id of ids) {
		await server.createSession({ id });
	}
	let isOver = false;
	const producers = ids.map((id) => produce(server, id, () => isOver));
	const count = () => Number(postgres.ask('relay', 'SELECT count(*) FROM holdfast_event'));
	const faults = [
		async () => server.kill9().then(() => server.up()),
		async () => {
			postgres.kill9();
			postgres.up();
		},
		async () => postgres.ask('relay', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'"),
		async () => server.stop().then(() => server.up()),
	];
	try {
		for (const fault of [...faults, ...faults]) {
			const before = count();
			await eventually(() => count() > before + 5, 'events to come');
			await fault();
		}
	} finally {
		isOver = true;
	}
	const counts = await Promise.all(producers);
	await server.stop();
	await server.up();
	for (const [at, id] of ids.entries()) {
		const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
		await observer.loadAll();
		const events = observer.events();
		assert.deepEqual(events.map((e) => e.seq), events.map((_, i) => i + 1));
		assert.deepEqual(events.filter((e) => e.type === 'x-note').map((e) => e.data.n), Array.from({ length: counts[at] }, (_, n) => n));
		assert.ok(counts[at] > 8);
	}
});

test('the text of an append that is sent again is not there twice', async (t) => {
	const { server } = await start(t);
	await server.createSession({ id: 's' });
	const events = [{ ...input.note({}), key: 'once' }];
	for (let n = 0; n < 3; n++) {
		const { status, body } = await server.request('POST', '/api/sessions/s/events', { json: events });
		assert.deepEqual([status, body.acks[0].seq, body.acks[0].duplicate ?? false], [200, 1, n > 0]);
		await server.kill9();
		await server.up();
	}
});

test('while the database is down, appends wait and what is in memory is read; then all goes on', async (t) => {
	const { postgres, server } = await start(t);
	await server.createSession({ id: 's' });
	const observer = await Observer.connect(t, server, 's');
	await observer.loadAll();
	await server.request('POST', '/api/sessions/s/events', { json: [input.note({ n: 1 })] });
	await observer.waitForSeq(1);
	postgres.kill9();
	const waiting = server.request('POST', '/api/sessions/s/events', { json: [input.note({ n: 2 })] });
	await eventually(() => /the database cannot be used/.test(server.stderr), 'the server to say so');
	const { body } = await server.request('GET', '/api/sessions/s/events?after_seq=0');
	assert.deepEqual(body.events.map((e) => e.data.n), [1], 'what is not durable is not shown');
	assert.equal(observer.events().length, 1);
	postgres.up();
	assert.equal((await waiting).status, 200);
	await observer.waitForSeq(2);
	await eventually(() => /the database can be used again/.test(server.stderr), 'the server to say so');
});

test('a server whose database is down stops in time', async (t) => {
	const { postgres, server } = await start(t);
	await server.createSession({ id: 's' });
	postgres.kill9();
	const refused = server.request('POST', '/api/sessions/s/events', { json: [input.note({})] }).catch(() => ({ status: 0 }));
	await eventually(() => /the database cannot be used/.test(server.stderr), 'the server to say so');
	await server.stop();
	assert.notEqual((await refused).status, 200);
	postgres.up();
	await server.up();
	assert.equal((await server.request('GET', '/api/sessions/s')).body.max_seq, 0);
});

test('a second server is sent away, and does not hurt the first', async (t) => {
	const { postgres, server } = await start(t);
	await server.createSession({ id: 's' });
	const { code, stderr } = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', scratchDir(t), '--store', postgres.address('relay')]);
	assert.equal(code, 1);
	assert.match(stderr, /cannot use the database: another holdfast uses it/);
	assert.equal((await server.request('POST', '/api/sessions/s/events', { json: [input.note({})] })).status, 200);
	await server.stop();
	const next = await Server.start(t, { args: ['--store', postgres.address('relay')] });
	assert.equal((await next.request('GET', '/api/sessions/s')).body.max_seq, 1);
});

test('a deleted session leaves nothing in the database, and its name is free', async (t) => {
	const { postgres, server } = await start(t);
	await server.createSession({ id: 's' });
	await server.request('POST', '/api/sessions/s/events', { json: [{ ...input.note({}), key: 'k' }, input.text('text\n\n')] });
	assert.equal((await server.request('DELETE', '/api/sessions/s')).status, 204);
	await eventually(() => postgres.ask('relay', 'SELECT (SELECT count(*) FROM holdfast_event) + (SELECT count(*) FROM holdfast_record) + (SELECT count(*) FROM holdfast_garbage)') === '0', 'the rows to go');
	await server.createSession({ id: 's' });
	const { body } = await server.request('POST', '/api/sessions/s/events', { json: [{ ...input.note({}), key: 'k' }] });
	assert.equal(body.acks[0].seq, 1);
});

test('streams of its own it has none: every request for one is refused as such, and nothing is made', async (t) => {
	const { server } = await start(t);
	for (const [method, path] of [['GET', 'x'], ['GET', 'x?offset=-1&live=sse'], ['PUT', 'x'], ['POST', 'x'], ['DELETE', 'x'], ['PUT', 'a//b']]) {
		const { status, body } = await server.request(method, `/v1/stream/${path}`, ['PUT', 'POST'].includes(method) ? { json: { a: 1 } } : {});
		assert.deepEqual([status, body.error.code], [501, 'not_implemented'], `${method} ${path}`);
		assert.match(body.error.message, /--store .*\/ds\/sessions\//);
	}
	assert.equal((await server.request('PUT', '/v1/stream/x', { json: {}, headers: { authorization: undefined } })).status, 401);
	assert.ok(!existsSync(join(server.dataDir, 'streams')));
	await server.createSession({ id: 'one' });
	assert.equal((await server.request('GET', '/ds/sessions/one?offset=-1')).status, 200);
});

test('what cannot be is said at the start', async (t) => {
	const postgres = Postgres.start(t);
	const data = scratchDir(t);
	const said = async (...args) => {
		const { code, stderr } = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', data, ...args]);
		assert.notEqual(code, 0, stderr);
		return stderr;
	};
	assert.match(await said('--store', 'postgresql://me:secret@nowhere.invalid/x'), /it has a password, .*PGPASSWORD/);
	assert.match(await said('--store', 'what'), /--store: .*"what"/);
	assert.match(await said('--store', postgres.address('x'), '--max-disk', '5M'), /--max-disk cannot be used with --store/);
	assert.match(await said('--store', postgres.address('x'), '--durability', 'write'), /--durability cannot be used with --store/);
	assert.match(await said('--store', `host=${postgres.host} user=holdfast dbname=missing`), /cannot use the database: .*"missing" does not exist/);
	postgres.ask('postgres', "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
	assert.match(await said('--store', `host=${postgres.host} user=holdfast dbname=latin`), /createdb --encoding UTF8/);
});
