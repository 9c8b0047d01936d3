// holdfast verify and export of a database, as of a data directory.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { mustUpload, png } from '../support/blobs.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

const postgres = Postgres.start({ after });

async function run(code, ...args) {
	const done = await runToEnd(args, { timeoutMs: 60_000 });
	assert.equal(done.signal ?? done.code, code, `holdfast ${args.join(' ')}\n${done.stdout}${done.stderr}`);
	return done;
}

const events = (text) => text.trim().split('\n').map((line) => JSON.parse(line));

test('verify and export know a database, also while its server writes there', async (t) => {
	const server = await Server.start(t, { args: ['--store', postgres.address('relay'), '--limit', 'idle_flush_ms=3600000'] }); // what is open stays so
	const address = postgres.url('relay');
	assert.match((await run(0, 'verify', address)).stdout, /^0 sessions with 0 events, 0 records: clean\n$/);
	for (const id of ['one', 'two']) {
		await server.createSession({ id });
	}
	await mustUpload(server, 'one', png());
	for (let n = 0; n < 30; n++) {
		await post(server, 'one', [{ ...input.note({ n, text: 'ü'.repeat(100) }), key: `k${n}` }, input.text(`text ${n}\n\n`, `m${n}`), input.tool(`t${n}`)]);
	}
	await post(server, 'two', [input.text('# A title\n\n'), input.text('not yet at its end')]);
	const busy = await run(0, 'verify', address);
	assert.match(busy.stdout, /^2 sessions with \d+ events and 1 blob, \d+ records: clean\n$/);
	const shown = (await server.request('GET', '/api/sessions/one/events?limit=1000&format=markdown')).body.events;
	const exported = await run(0, 'export', address, 'one');
	assert.deepEqual(events(exported.stdout), shown.map(({ html, ...event }) => event));
	assert.equal(exported.stderr, '');
	assert.deepEqual(events((await run(0, 'export', address, 'one', '--after', '40')).stdout).map(({ seq }) => seq), shown.slice(40).map(({ seq }) => seq));
	await server.stop();
	const before = await run(0, 'verify', address, 'two');
	assert.match(before.stdout, /^1 session with 1 event, \d records: clean\n$/);
	assert.match((await run(0, 'export', address, 'two', '--format', 'markdown')).stdout, /# A title/);
	assert.equal((await run(0, 'export', address, 'one')).stdout, exported.stdout);
	assert.match((await run(2, 'verify', address, 'three')).stderr, /there is no session three/);
	assert.match((await run(2, 'export', address, 'three')).stderr, /there is no log of a session three/);
	assert.match((await run(2, 'verify', postgres.url('nothing'))).stderr, /cannot use the database: /);
	await server.restart();
	await post(server, 'two', [input.text(' and more\n\n')]);
	await run(0, 'verify', address);
});

test('what is damaged in a database is told, and export goes on behind it', async (t) => {
	const server = await Server.start(t, { args: ['--store', postgres.address('damaged')] });
	const address = postgres.url('damaged');
	const ids = ['line', 'hole', 'names', 'metadata', 'blob', 'records', 'good'];
	for (const id of ids) {
		await server.createSession({ id });
		await post(server, id, [...Array(6).keys()].map((n) => ({ ...input.note({ n }), key: `k${n}` })));
		await mustUpload(server, id, png());
		await post(server, id, [input.text('# A title\n\n'), input.text('open')]);
	}
	await server.stop();
	await run(0, 'verify', address);
	const of = (id) => `FROM holdfast_session AS s WHERE s.sid = x.sid AND s.id = '${id}'`;
	const change = (sql) => postgres.ask('damaged', sql);
	change(`UPDATE holdfast_event AS x SET line = replace(line, '"n":3', '"n":4') ${of('line')}`);
	change("DELETE FROM holdfast_event AS x USING holdfast_session AS s WHERE s.sid = x.sid AND s.id = 'hole' AND x.seq = 3");
	change(`UPDATE holdfast_name AS x SET lines = replace(lines, 'k3', 'k9') ${of('names')}`);
	change("UPDATE holdfast_session SET metadata = replace(metadata, '\"max_seq\":', '\"max_seq\":1') WHERE id = 'metadata'");
	change(`UPDATE holdfast_blob AS x SET bytes = bytes || '\\x00' ${of('blob')}`);
	change(`UPDATE holdfast_record AS x SET kind = 99 ${of('records')}`);
	const done = await run(1, 'verify', address);
	const told = Object.fromEntries(ids.map((id) => [id, done.stdout.split('\n').filter((text) => text.startsWith(`session ${id}, `))]));
	assert.deepEqual(told.good, []);
	assert.match(told.line[0], /event 4: the checksum is wrong, or it is not an event/);
	assert.match(told.hole[0], /event 4: expected seq 3, found 4/);
	assert.match(told.names[0], /names: line \d+, byte \d+: the checksum is wrong, or it is not a name/);
	assert.match(told.metadata[0], /metadata: its checksum is wrong/);
	assert.match(told.blob[0], /blob [0-9a-f]{64}: its contents do not match the hash in its name/);
	assert.match(told.records[0], /record \d+: it has a record of kind 99/);
	assert.match(done.stdout, /: 14 problems\n$/);
	assert.match((await run(0, 'verify', address, 'good')).stdout, /clean/);
	const rest = await run(1, 'export', address, 'line');
	assert.deepEqual(events(rest.stdout).slice(0, 4).map(({ seq }) => seq), [1, 2, 3, 5]);
	assert.match(rest.stderr, /line 4 of the log is damaged and left out/);
});

test('a database of a later version, or of somebody else, is refused', async () => {
	postgres.address('other');
	assert.match((await run(2, 'verify', postgres.url('other'))).stderr, /cannot use the database: no holdfast has ever used it/);
	postgres.ask('other', 'CREATE TABLE holdfast_schema (version bigint NOT NULL); INSERT INTO holdfast_schema VALUES (1000)');
	assert.match((await run(2, 'export', postgres.url('other'), 'one')).stderr, /have version 1000, and this program knows versions up to/);
	assert.match((await run(2, 'verify', 'postgresql://me:secret@localhost/x')).stderr, /it has a password/);
});

test('a database is named by a URL or by keywords of libpq, and never taken for a directory', async (t) => {
	const keywords = postgres.address('named');
	assert.match(keywords, /^\w+=/);
	const server = await Server.start(t, { args: ['--store', keywords] });
	await server.createSession({ id: 'one' });
	await post(server, 'one', [input.note({ n: 1 })]);
	await server.stop();
	for (const address of [keywords, postgres.url('named')]) {
		assert.match((await run(0, 'verify', address)).stdout, /^1 session with 1 event, /);
		assert.equal(events((await run(0, 'export', address, 'one')).stdout).length, 1);
		await run(0, 'new-epoch', address, 'one');
		const target = join(scratchDir(t), 'moved');
		await run(0, 'migrate', address, target);
		assert.match((await run(0, 'verify', target)).stdout, /^1 session with 1 event, /);
		for (const words of [['repair', address], ['upgrade', address], ['backup', address, target]]) {
			const { stderr } = await run(2, ...words);
			assert.match(stderr, /the address of a database, and the command is for data directories/, words.join(' '));
			assert.ok(!stderr.includes('No such file'), stderr);
		}
	}
	for (const command of ['verify', 'new-epoch']) {
		const { stderr } = await run(2, command, 'host=127.0.0.1 port=1 dbname=x password=geheim');
		assert.match(stderr, /it has a password/);
		assert.ok(!stderr.includes('geheim'), stderr);
	}
});
