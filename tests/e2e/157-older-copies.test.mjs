// A database that is an older copy: a standby that lacked the newest commits, a dump or files that were restored. No number of an epoch is
// given twice: nobody writes to it until `holdfast new-epoch` was run, and clients start over. A standby that commits waited for is no older copy.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { startNodes } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input } from '../support/producer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { eventually, patience } from '../support/wait.mjs';

async function append(server, id, n) {
	const { status, body } = await server.request('POST', `/api/sessions/${id}/events`, { json: [{ ...input.note({ n }), key: `k${n}` }] });
	return status === 200 ? body.acks[0].seq : { status, body };
}

async function eventuallyAppend(server, id, n) {
	let seq;
	await eventually(async () => {
		seq = await append(server, id, n).catch(() => null); // its connection may be closed meanwhile
		return Number.isInteger(seq);
	}, `event ${n} to be taken`);
	return seq;
}

const epochOf = async (server, id) => (await server.request('GET', `/api/sessions/${id}`)).body.epoch;

/** The standby gets nothing any more. */
function cut(standby) {
	standby.ask('postgres', "ALTER SYSTEM SET primary_conninfo = 'host=nowhere.invalid'");
	standby.ask('postgres', 'SELECT pg_reload_conf()');
	return eventually(() => standby.ask('postgres', 'SELECT count(*) FROM pg_stat_wal_receiver') === '0', 'the standby to be on its own');
}

function hasAll(primary, standby) {
	const at = primary.ask('postgres', 'SELECT pg_current_wal_lsn()');
	return eventually(() => standby.ask('postgres', `SELECT pg_last_wal_replay_lsn() >= '${at}'`) === 't', 'the standby to have all');
}

/** Nobody has seen a number of one epoch with two meanings. */
function assertOneMeaning(...observers) {
	const seen = new Map();
	for (const { frames } of observers) {
		let epoch = null;
		for (const { type, data } of frames) {
			epoch = type === 'connected' || type === 'events_loaded' ? data.epoch : epoch;
			for (const event of data?.events ?? []) {
				const name = `${epoch} ${event.seq}`;
				const text = JSON.stringify(event.data);
				assert.equal(seen.get(name) ?? text, text, name);
				seen.set(name, text);
			}
		}
	}
	return seen;
}

/** Nobody starts on it before `holdfast new-epoch`, which says each session's new epoch. */
async function goOnWith(postgres, starts) {
	let code, stderr;
	await eventually(async () => {
		({ code, stderr } = await starts());
		return !stderr.includes('another holdfast uses it');
	}, 'the leases of those that were killed to be over');
	assert.equal(code, 1);
	assert.match(stderr, /it is an older copy \(restored, or .*\)\. If you want to go on with it, run: holdfast new-epoch ADDRESS/);
	const done = await runToEnd(['new-epoch', postgres.url('relay')]);
	assert.equal(done.code, 0, done.stderr);
	return done.stdout;
}

for (const isShared of [false, true]) {
	const who = isShared ? 'two nodes' : 'a server';
	test(`${who}, and an asynchronous standby without the newest events is promoted`, async (t) => {
		const primary = Postgres.start(t);
		const standby = primary.standby(t, { isSynchronous: false });
		// A node that loses its lease while the standby is promoted has nothing in memory to show.
		const lease = ['--limit', `node_lease_ms=${(isShared ? 12_000 : 4000) * patience}`];
		const args = ['--store', primary.addressWith(standby, 'relay'), ...lease];
		const servers = isShared ? await startNodes(t, { address: () => primary.addressWith(standby, 'relay') }, 2, { args: lease }) : [await Server.start(t, { args })];
		const [server] = servers;
		await server.createSession({ id: 's' });
		await server.createSession({ id: 'quiet' });
		const [epoch, quiet] = [await epochOf(server, 's'), await epochOf(server, 'quiet')];
		await append(server, 's', 1);
		await hasAll(primary, standby);
		await cut(standby);
		assert.deepEqual([await append(server, 's', 2), await append(server, 's', 3)], [2, 3]);
		const before = await Observer.connect(t, server, 's');
		await before.loadAll();
		primary.kill9();
		standby.promote();
		const refused = append(server, 's', 9).catch(() => ({ status: 0 })); // it waits, as for a database that is away
		const says = ({ stderr }) => /the database cannot be used: it is an older copy .*; timeline 2, before 1\)/.test(stderr);
		await eventually(() => says(server), 'the server to say so');
		const told = await Observer.connect(t, server, 's');
		await told.loadAll();
		assert.deepEqual(told.events().map((e) => e.seq), [1, 2, 3], 'what is in memory is still shown');
		await eventually(() => servers.every(says), 'each server to say so, also one that writes nothing');
		servers.forEach((one) => one.kill9());
		assert.ok(!Number.isInteger(await refused));
		const { stdout: words } = await runToEnd(['doctor', '--store', standby.url('relay')]);
		assert.match(words, /timeline 2\b/);
		await goOnWith(standby, () => runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', join(scratchDir(t), 'data'), '--store', standby.url('relay')]));
		for (const one of servers) {
			await one.up();
		}
		const last = servers.at(-1);
		assert.equal(await eventuallyAppend(last, 's', 4), 2, 'what came behind 1 is gone');
		assert.notEqual(await epochOf(last, 's'), epoch);
		await eventually(async () => ![undefined, quiet].includes(await epochOf(last, 'quiet')), 'the other session, too, to have a new epoch');
		const after = await Observer.connect(t, last, 's', { query: { format: 'markdown' } });
		await after.loadAll();
		assert.deepEqual(after.events().map((e) => e.data.n), [1, 4]);
		const reset = (await last.request('GET', `/api/sessions/s/events?after_seq=3&epoch=${epoch}`)).body.reset;
		assert.equal(reset.reason, 'epoch');
		assertOneMeaning(before, told, after);
	});
}

test('a standby that commits waited for is promoted: the epochs stay, and so does all', async (t) => {
	const primary = Postgres.start(t);
	const standby = primary.standby(t, { isSynchronous: true });
	const [a, b] = await startNodes(t, { address: () => primary.addressWith(standby, 'relay') }, 2);
	await a.createSession({ id: 's' });
	const epoch = await epochOf(a, 's');
	const observer = await Observer.connect(t, b, 's');
	await observer.loadAll();
	assert.deepEqual([await append(a, 's', 1), await append(b, 's', 2)], [1, 2]);
	primary.kill9();
	standby.promote();
	assert.equal(await eventuallyAppend(b, 's', 3), 3);
	assert.equal(await epochOf(b, 's'), epoch);
	await eventually(() => /goes on as timeline 2; commits waited for a standby/.test(a.stderr + b.stderr), 'a node to say so');
});

test('a dump is restored under the servers that wrote what it lacks', async (t) => {
	const postgres = Postgres.start(t);
	const server = await Server.start(t, { args: ['--store', postgres.address('relay')] });
	await server.createSession({ id: 's' });
	const epoch = await epochOf(server, 's');
	await append(server, 's', 1);
	const dump = join(scratchDir(t), 'dump');
	execFileSync('pg_dump', ['-h', postgres.host, '-U', 'holdfast', '-Fc', '-f', dump, 'relay']);
	await append(server, 's', 2);
	await server.stop();
	postgres.ask('postgres', 'DROP DATABASE relay');
	postgres.ask('postgres', 'CREATE DATABASE relay');
	execFileSync('pg_restore', ['-h', postgres.host, '-U', 'holdfast', '-d', 'relay', dump]);
	const words = await goOnWith(postgres, () => runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', server.dataDir, '--store', postgres.address('relay')]));
	assert.match(words, /^s [0-9a-f]{16} [0-9a-f]{16}$/m);
	await server.up();
	assert.notEqual(await epochOf(server, 's'), epoch);
	assert.equal(await append(server, 's', 3), 2);
	await server.stop();
	const now = await server.up().then(() => epochOf(server, 's'));
	await server.stop();
	await server.up();
	assert.equal(await epochOf(server, 's'), now, 'once');
});
