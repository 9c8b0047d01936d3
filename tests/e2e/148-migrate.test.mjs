// holdfast migrate: a data directory becomes a database, and that a directory again, as it was.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { download, mustUpload, png } from '../support/blobs.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { TEXT, ask } from '../support/raw_streams.mjs';
import { Server, binary, runToEnd, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const postgres = Postgres.start({ after });
let made = 0;
/* What is open stays so, however long a command takes. */
const PATIENT = ['--limit', 'idle_flush_ms=3600000'];

async function run(code, ...args) {
	const done = await runToEnd(args, { timeoutMs: 120_000 });
	assert.equal(done.signal ?? done.code, code, `holdfast ${args.join(' ')}\n${done.stdout}${done.stderr}`);
	return done;
}

/** A database that no holdfast has used. */
function newDatabase() {
	const name = `m${(made += 1)}`;
	postgres.address(name);
	return { name, url: postgres.url(name), args: ['--store', postgres.address(name)] };
}

/** What export prints of each session. */
async function exportAll(place, ids) {
	const all = {};
	for (const id of ids) {
		all[id] = (await run(0, 'export', place, id)).stdout;
	}
	return all;
}

const key = (n) => ({ ...input.note({ n }), key: `key ${n}` });
const appended = (body) => body.acks.map(({ seq, duplicate }) => [seq, Boolean(duplicate)]);

test('there and back: every event, key, image, block and token is as it was, and numbers go on', async (t) => {
	const server = await Server.start(t, { args: PATIENT });
	const dir = scratchDir(t);
	const ids = ['long', 'open', 'fresh', 'asked', 'Zero.5'];
	for (const id of ids) {
		await server.createSession({ id, title: `the ${id} one` });
	}
	for (let n = 0; n < 40; n++) {
		await post(server, 'long', [key(n), input.text(`ünïcode ${'x'.repeat(n * 97)}\n\n`, `m${n}`), input.tool(`t${n}`)]);
	}
	const image = png();
	const { blob } = await mustUpload(server, 'long', image);
	await post(server, 'open', [input.text('# A title\n\n'), input.text('a block that is open')]);
	await post(server, 'asked', [{ type: 'permission_request', data: { request_id: 'q', tool_call: { tool_call_id: 'c', title: 'Run it' }, options: [{ option_id: 'yes', name: 'Yes' }] } }]);
	const observer = await Observer.connect(t, server, 'long');
	await observer.loadAll();
	const { epoch } = observer;
	const held = observer.events();
	await observer.close();
	const token = (await run(0, 'token', 'create', '--data', server.dataDir, '--sub', 'me', '--role', 'controller', '--session', '*')).stdout.trim();
	const secret = readFileSync(join(server.dataDir, 'access-token'), 'utf8');
	await server.stop();
	const before = await exportAll(server.dataDir, ids);

	const database = newDatabase();
	const there = await run(0, 'migrate', server.dataDir, database.url);
	assert.match(there.stdout, /: clean\n/);
	assert.match(there.stdout, /^long: \d+ events, moved$/m);
	assert.match(there.stdout, /5 sessions with \d+ events and 1 blobs, all read back; 0 of them were there already\n$/);
	assert.deepEqual(await exportAll(database.url, ids), before);
	assert.match((await run(0, 'verify', database.url)).stdout, /clean/);

	// A server on the database, with a directory of its own, goes on where the other one was.
	const node = await Server.start(t, { args: [...database.args, ...PATIENT] });
	assert.equal(readFileSync(join(node.dataDir, 'access-token'), 'utf8'), secret);
	const later = await Observer.connect(t, node, 'long', { held, epoch });
	await later.loadAll();
	assert.deepEqual([later.epoch, later.resets, later.events()], [epoch, [], held], 'the position counts');
	const again = await post(node, 'long', [key(3), key(40)]);
	assert.equal(again.acks[0].duplicate, true);
	assert.equal(again.acks[1].seq, JSON.parse(before.long.trim().split('\n').at(-1)).seq + 1);
	await later.close();
	assert.deepEqual((await download(node, 'long', blob)).bytes, image);
	await post(node, 'open', [input.text(' and goes on\n\n')]);
	const list = await fetch(`${node.url}/api/sessions`, { headers: { authorization: `Bearer ${token}` } });
	assert.equal(list.status, 200);
	assert.equal((await list.json()).sessions.find(({ id }) => id === 'open').title, 'the open one');
	await node.stop();
	const changed = await exportAll(database.url, ids);
	assert.match(changed.open, /a block that is open and goes on/);

	const back = join(dir, 'back');
	await run(0, 'migrate', database.url, back);
	assert.deepEqual(await exportAll(back, ids), changed);
	assert.ok(!existsSync(`${back}.migrating`) && !existsSync(join(back, 'migrating')));
	assert.equal((await run(0, 'verify', back)).stdout.split('\n').filter((line) => line.startsWith('note:')).length, 0);
	assert.equal(readFileSync(join(back, 'access-token'), 'utf8'), secret);
	assert.match((await run(0, 'token', 'list', '--data', back)).stdout, /\bme\b/);
	const last = await Server.start(t, { dataDir: back });
	const third = await post(last, 'long', [key(40), key(41)]);
	assert.deepEqual([third.epoch, third.acks[0].duplicate, third.acks[1].seq], [again.epoch, true, again.acks[1].seq + 1]);
	await post(last, 'fresh', [key(0)]);
	await last.stop();
	await run(0, 'verify', back);
});

/** A data directory with a few sessions, one of them long, and nobody at work in it. */
async function makeDirectory(t, { count = 12, events = 60 } = {}) {
	const server = await Server.start(t);
	for (let i = 0; i < count; i++) {
		await server.createSession({ id: `s${i}` });
		await post(server, `s${i}`, [...Array(i ? 5 : events).keys()].flatMap((n) => [key(n), input.text(`${'y'.repeat(i ? 20 : 9000)}\n\n`, `m${n}`)]));
		await post(server, `s${i}`, [input.text('open')]);
	}
	await mustUpload(server, 's1', png(40, 40));
	await server.stop();
	return { dir: server.dataDir, ids: [...Array(count).keys()].map((i) => `s${i}`) };
}

/** Runs it, and kills it when it has told of so many sessions. Returns its stdout until then. */
async function killAt(lines, ...args) {
	const child = spawn(binary(), ['migrate', ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
	let out = '';
	child.stdout.setEncoding('utf8').on('data', (text) => {
		out += text;
		if (out.split('\n').length - 2 >= lines) { // the first line is that of verify
			child.kill('SIGKILL');
		}
	});
	const [, signal] = await once(child, 'close');
	return { out, isKilled: signal === 'SIGKILL' };
}

const POINTS = [0, 1, 2, 5, 11, 12];
const mayEnd = (point) => point >= 11; // before a busy machine gets to the kill
const thereAlready = (out) => out.split('\n').filter((line) => line.endsWith('there already')).length - 1;

test('killed at any point and run again it goes on, and no server takes what is not whole', async (t) => {
	const { dir, ids } = await makeDirectory(t);
	const before = await exportAll(dir, ids);
	const database = newDatabase();
	for (const point of POINTS) {
		const { isKilled } = await killAt(point, dir, database.url);
		assert.ok(isKilled || mayEnd(point));
		const rows = isKilled && point ? postgres.ask(database.name, 'SELECT s.id, count(e.seq) FROM holdfast_session AS s LEFT JOIN holdfast_event AS e USING (sid) GROUP BY 1').split('\n') : [];
		assert.ok(rows.length >= point || !isKilled, rows.join());
		for (const [id, count] of rows.filter(Boolean).map((row) => row.split('|'))) {
			assert.equal(Number(count), before[id].trim().split('\n').length, `session ${id} is whole`);
		}
		assert.ok(!isKilled || !point || point === 12 || postgres.ask(database.name, 'SELECT count(*) FROM holdfast_moving') === '1');
	}
	const isOver = postgres.ask(database.name, 'SELECT count(*) FROM holdfast_moving') === '0';
	assert.ok(isOver || thereAlready((await run(0, 'migrate', dir, database.url)).stdout) === 12);
	assert.deepEqual(await exportAll(database.url, ids), before);

	const back = join(scratchDir(t), 'back');
	for (const point of POINTS) {
		const { isKilled } = await killAt(point, database.url, back);
		assert.ok(point === 12 || existsSync(join(back, 'sessions')) === !isKilled); // behind the last line it may be over
		assert.ok(isKilled || mayEnd(point));
	}
	assert.ok(existsSync(back) || thereAlready((await run(0, 'migrate', database.url, back)).stdout) === 12);
	assert.deepEqual(await exportAll(back, ids), before);
	assert.match((await run(0, 'verify', back)).stdout, /12 sessions with \d+ events and 1 blob.*: clean\n$/);
	const server = await Server.start(t, { dataDir: back });
	const { acks } = await post(server, 's0', [key(7), input.text(' more\n\n')]);
	assert.equal(acks[0].duplicate, true);
	await server.stop();
	assert.match((await run(0, 'export', back, 's0', '--after', '119')).stdout, /\bmore\b/);
});

test('what an unfinished migration has left is no place for a server, and what has changed since comes along', async (t) => {
	const { dir, ids } = await makeDirectory(t, { count: 3, events: 5 });
	const database = newDatabase();
	await run(0, 'migrate', dir, database.url);
	// As if it had been killed before its end, and two sessions had been changed since.
	postgres.ask(database.name, "INSERT INTO holdfast_moving VALUES ('x')");
	const refused = await runToEnd(['serve', '--data', scratchDir(t), '--listen', '127.0.0.1:0', ...database.args]);
	assert.match(refused.stderr, /a migration is running there, or was interrupted/);
	assert.notEqual(refused.code, 0);
	assert.match((await run(2, 'migrate', database.url, join(scratchDir(t), 'x'))).stderr, /a migration into it was interrupted/);
	postgres.ask(database.name, "UPDATE holdfast_session SET id = 'gone' WHERE id = 's1'");
	const server = await Server.start(t, { dataDir: dir });
	await post(server, 's2', [key(99)]);
	await server.kill9();
	postgres.ask(database.name, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$; CREATE TRIGGER refuse BEFORE DELETE ON holdfast_session FOR EACH ROW WHEN (OLD.id = 'gone') EXECUTE FUNCTION refuse()");
	assert.match((await run(2, 'migrate', dir, database.url)).stderr, /session gone: it was deleted since an earlier try, and cannot be removed/);
	postgres.ask(database.name, 'DROP FUNCTION refuse CASCADE');
	const again = await run(0, 'migrate', dir, database.url);
	assert.match(again.stdout, /^s1: \d+ events, moved\ns2: \d+ events, moved$/m);
	assert.deepEqual(postgres.ask(database.name, 'SELECT id FROM holdfast_session ORDER BY 1').split('\n'), ids);
	assert.deepEqual(await exportAll(database.url, ids), await exportAll(dir, ids));
	const made = join(scratchDir(t), 'made');
	mkdirSync(`${made}.migrating`);
	writeFileSync(join(`${made}.migrating`, 'migrating'), '');
	const other = await runToEnd(['serve', '--data', `${made}.migrating`, '--listen', '127.0.0.1:0']);
	assert.match(other.stderr, /is an unfinished migration/);
	await run(0, 'migrate', database.url, made);
	assert.deepEqual(await exportAll(made, ids), await exportAll(dir, ids));
});

test('what cannot be moved is refused before anything is copied, in words', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'one' });
	await post(server, 'one', [key(0), key(1), key(2)]);
	assert.equal((await ask(server, 'PUT', 'stream', { type: TEXT, body: 'bytes' })).status, 201);
	const database = newDatabase();
	const to = (code, ...more) => run(code, 'migrate', server.dataDir, database.url, ...more);
	assert.match((await to(2, '--without-streams')).stderr, /a server is at work in /);
	await server.stop();
	assert.match((await to(2)).stderr, /has raw streams, which a database cannot hold: leave them behind with --without-streams/);
	writeFileSync(join(server.dataDir, 'webhooks.jsonl'), '{}\n');
	assert.match((await to(2, '--without-streams')).stderr, /has webhooks \(webhooks.jsonl\), .*--without-webhooks/);
	assert.match((await run(2, 'migrate', server.dataDir, scratchDir(t))).stderr, /one of the two must be a directory/);
	const log = join(server.dataDir, 'sessions/one/events.jsonl');
	const good = readFileSync(log, 'utf8');
	writeFileSync(log, good.replace('"n":1', '"n":7'));
	const damaged = await to(1, '--without-streams', '--without-webhooks');
	assert.match(damaged.stdout, /sessions\/one\/events.jsonl: line 2, byte \d+: the checksum is wrong/);
	assert.match(damaged.stderr, /is damaged, and stays as it is: run holdfast repair first/);
	assert.throws(() => postgres.ask(database.name, 'SELECT FROM holdfast_session'), 'nothing was made there');
	writeFileSync(log, good);
	await to(0, '--without-streams', '--without-webhooks');
	assert.match((await to(2, '--without-streams', '--without-webhooks')).stderr, /it has sessions already/);

	const full = scratchDir(t);
	writeFileSync(join(full, 'file'), '');
	assert.match((await run(2, 'migrate', database.url, full)).stderr, /is not empty; migrate creates a new directory/);
	const node = await Server.start(t, { args: database.args });
	assert.match((await run(2, 'migrate', database.url, join(full, 'new'))).stderr, /a server uses it; stop all servers first/);
	await node.stop();
	postgres.ask(database.name, "UPDATE holdfast_event SET line = replace(line, '\"n\":1', '\"n\":7')");
	const rotten = await run(1, 'migrate', database.url, join(full, 'new'));
	assert.match(rotten.stdout, /session one, event 2: the checksum is wrong/);
	assert.deepEqual(readdirSync(full), ['file']);
});
