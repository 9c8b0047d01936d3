// Damage to one session: its id stays taken, everybody else goes on, on both engines.

import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { download, mustUpload, png } from '../support/blobs.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { Observer } from '../support/observer.mjs';
import { leftOut } from '../support/parts.mjs';
import { Postgres } from '../support/postgres.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server, runToEnd } from '../support/server.mjs';

const postgres = Postgres.start({ after });
const path = (id, rest = '') => `/api/sessions/${id}${rest}`;
const notes = [1, 2, 3].map((n) => ({ ...input.note({ n }), key: `k${n}` }));

async function refused(server, method, url, options = {}) {
	const { status, body } = await server.request(method, url, options);
	assert.equal(status, 503, `${url} ${JSON.stringify(body)}`);
	assertValid(check.rest('error')(body));
	return body.error.code;
}

async function eventsOf(server, id) {
	const { status, body } = await server.request('GET', path(id, '/events?after_seq=0&limit=1000&format=markdown'));
	assert.equal(status, 200, JSON.stringify(body));
	return body;
}

/** Two sessions, of which `hurt` is then spoilt; the server runs again. */
async function start(t, spoil, args = []) {
	const server = await Server.start(t, { args });
	for (const id of ['hurt', 'fine']) {
		await server.createSession({ id });
		await post(server, id, [...notes, input.text('Whole.\n\n'), input.end()]);
	}
	const whole = await eventsOf(server, 'hurt');
	await server.stop();
	await server.restart(); // so that no journal has all of it
	await server.stop();
	spoil(server);
	await server.restart();
	return { server, whole };
}

function flipMetadata(server) {
	const file = join(server.dataDir, 'sessions/hurt/metadata.json');
	const bytes = readFileSync(file);
	bytes[40] ^= 1;
	writeFileSync(file, bytes);
}

/** Every door refuses the damaged session, and only that. */
async function isTaken(t, server) {
	for (const [method, rest, json] of [['GET', ''], ['GET', '/events'], ['POST', '/events', notes], ['POST', '/events?create=1', notes],
		['POST', '/snapshot?create=1', { messages: [] }], ['PATCH', '', { title: 'x' }], ['GET', '/queue'], ['GET', '/search?q=x']]) {
		assert.equal(await refused(server, method, path('hurt', rest), json && { json }), 'session_damaged', `${method} ${rest}`);
	}
	if (!('durable_streams' in leftOut)) {
		assert.equal(await refused(server, 'GET', '/ds/sessions/hurt'), 'session_damaged');
	}
	assert.equal(await refused(server, 'POST', '/api/sessions', { json: { id: 'hurt' } }), 'session_damaged');
	for (const socket of [await Observer.connect(t, server, 'hurt'), await Producer.connect(t, server, 'hurt', { query: { create: '1' } })]) {
		await socket.waitUntil(() => socket.closed, 'the socket to be closed');
		assert.deepEqual(socket.frames.map((f) => [f.type, f.data.code]), [['error', 'session_damaged']]);
		assert.equal(socket.closed.code, 1011);
	}
	const { body } = await server.request('GET', '/api/sessions');
	assert.deepEqual(body.sessions.map((s) => s.id), ['fine']);
	assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready', damaged_sessions: 1 });
	assert.equal((await readMetrics(server))('sessions_damaged'), 1);
	assert.equal((await post(server, 'fine', notes)).acks.every((a) => a.duplicate), true);
	await post(server, 'fine', [input.note({ n: 'more' })]);
}

test('the id of a session that was set aside stays taken, until it is repaired', async (t) => {
	const { server, whole } = await start(t, flipMetadata);
	await isTaken(t, server);
	await server.stop();
	await server.restart();
	await isTaken(t, server);
	await server.stop();
	const verify = await runToEnd(['verify', server.dataDir]);
	assert.equal(verify.code, 1, verify.stdout);
	assert.match(verify.stdout, /set-aside\/hurt\.1: session hurt is damaged/);
	assert.equal((await runToEnd(['repair', server.dataDir])).code, 0);
	assert.equal((await runToEnd(['verify', server.dataDir])).code, 0);
	await server.restart();
	const now = await eventsOf(server, 'hurt');
	assert.deepEqual(now.events, whole.events);
	assert.notEqual(now.epoch, whole.epoch);
	assert.deepEqual((await post(server, 'hurt', notes)).acks.map((a) => a.duplicate), [true, true, true]);
	assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready' });
});

test('a session whose folder was not on disk yet, and whose record in the journal is damaged, is named, taken and repaired', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'idle_flush_ms=3600000'] });
	for (const id of ['fine', 'hurt']) {
		await server.createSession({ id });
	}
	await post(server, 'hurt', [{ ...input.note({ n: 1 }), key: 'k1' }]);
	await post(server, 'hurt', [{ ...input.note({ n: 'needle' }), key: 'k2' }]);
	await post(server, 'fine', notes);
	await server.kill9();
	rmSync(join(server.dataDir, 'sessions/hurt'), { recursive: true }); // as if the power had failed before
	const [segment] = readdirSync(join(server.dataDir, 'journal'));
	const file = join(server.dataDir, 'journal', segment);
	const bytes = readFileSync(file);
	bytes[bytes.indexOf('needle')] ^= 1;
	writeFileSync(file, bytes);
	assert.match((await runToEnd(['verify', server.dataDir])).stdout, /a record of session hurt is wrong; the server will set that session aside/);
	for (let n = 0; n < 2; n++) {
		await server.up();
		n === 0 && assert.match(server.stderr, /error: hurt: a record of it in the journal is damaged; set aside as set-aside\/hurt\.1/);
		assert.equal(await refused(server, 'POST', path('hurt', '/events?create=1'), { json: notes }), 'session_damaged');
		assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready', damaged_sessions: 1 });
		assert.equal((await post(server, 'fine', notes)).acks.every((a) => a.duplicate), true);
		await server.stop();
	}
	assert.equal((await runToEnd(['verify', server.dataDir])).code, 1);
	assert.deepEqual(readdirSync(join(server.dataDir, 'set-aside')), ['hurt.1']);
	const repaired = await runToEnd(['repair', server.dataDir]);
	assert.match(repaired.stdout, /^hurt: a record of it in the journal is damaged/m);
	assert.equal((await runToEnd(['verify', server.dataDir])).code, 0);
	await server.up();
	const { events } = await eventsOf(server, 'hurt');
	assert.deepEqual(events[0].data, { n: 1 });
	assert.deepEqual((await post(server, 'hurt', [{ ...input.note({ n: 1 }), key: 'k1' }])).acks.map((a) => a.duplicate), [true]);
});

for (const [engine, args, spoil] of [
	['files', () => [], flipMetadata],
	['a database', () => ['--store', postgres.address('delete')], () => postgres.ask('delete', "UPDATE holdfast_session SET metadata = replace(metadata, '\"max_seq\":', '\"max_seq\":1') WHERE id = 'hurt'")],
]) {
	test(`an administrator deletes a damaged session, which frees its id: ${engine}`, async (t) => {
		const { server, whole } = await start(t, spoil, args());
		await isTaken(t, server);
		assert.equal((await server.request('DELETE', path('hurt'))).status, 204);
		assert.equal((await server.request('GET', path('hurt'))).status, 404);
		assert.equal((await server.request('DELETE', path('hurt'))).status, 404);
		assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready' });
		await server.kill9();
		await server.up();
		assert.equal((await server.request('GET', path('hurt'))).status, 404);
		const { status, body } = await server.request('POST', path('hurt', '/events?create=1'), { json: notes });
		assert.equal(status, 200);
		assert.deepEqual(body.acks.map((a) => a.duplicate), [false, false, false]);
		assert.notEqual(body.epoch, whole.epoch);
		await server.stop();
		if (engine === 'files') {
			assert.deepEqual(readdirSync(join(server.dataDir, 'set-aside')), []);
			assert.equal((await runToEnd(['verify', server.dataDir])).code, 0);
		} else {
			assert.equal((await runToEnd(['verify', postgres.url('delete')])).code, 0);
		}
	});
}

test('a log that is damaged while the journal has all of the session is made anew, with its images', async (t) => {
	for (const cut of [1, 100, 1000, 'foreign']) {
		const server = await Server.start(t);
		await server.createSession({ id: 'hurt', title: 'Hurt' });
		await server.createSession({ id: 'other' });
		await post(server, 'other', [input.note({ of: 'another' }), input.note({ of: 'another' })]);
		await post(server, 'hurt', [...notes, input.text('Whole.\n\n'), input.end()]);
		const { blob } = await mustUpload(server, 'hurt', png());
		const whole = await eventsOf(server, 'hurt');
		await server.stop();
		const file = join(server.dataDir, 'sessions/hurt/events.jsonl');
		if (cut === 'foreign') {
			copyFileSync(join(server.dataDir, 'sessions/other/events.jsonl'), file);
		} else {
			truncateSync(file, Math.max(0, statSync(file).size - cut));
		}
		await server.restart();
		assert.deepEqual(await eventsOf(server, 'hurt'), whole);
		assert.equal((await server.request('GET', path('hurt'))).body.title, 'Hurt');
		assert.ok((await download(server, 'hurt', blob)).bytes.equals(png()));
		assert.deepEqual((await post(server, 'hurt', notes)).acks.map((a) => a.duplicate), [true, true, true]);
		assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready' });
		assert.deepEqual(readdirSync(join(server.dataDir, 'set-aside')), ['hurt.events.jsonl.1']);
		assert.equal((await server.request('DELETE', path('hurt'))).status, 204);
		assert.equal((await server.request('GET', path('hurt'))).status, 404);
		await server.stop();
		assert.equal((await runToEnd(['verify', server.dataDir])).code, 0);
	}
});

test('a deletion of a damaged session that failed can be tried again', async (t) => {
	const { server } = await start(t, flipMetadata);
	const trash = join(server.dataDir, 'trash');
	rmSync(trash, { recursive: true });
	writeFileSync(trash, 'in the way');
	assert.equal(await refused(server, 'DELETE', path('hurt')), 'storage_failed');
	rmSync(trash);
	mkdirSync(trash);
	assert.equal((await server.request('DELETE', path('hurt'))).status, 204);
	assert.equal((await server.request('GET', path('hurt'))).status, 404);
});

test('a repair that could not be ended leaves a log that can be written', async (t) => {
	const flipEvent = (server) => {
		const file = join(server.dataDir, 'sessions/hurt/events.jsonl');
		const bytes = readFileSync(file);
		bytes[40] ^= 1;
		writeFileSync(file, bytes);
	};
	const { server } = await start(t, flipEvent);
	await server.stop();
	const folder = join(server.dataDir, 'sessions/hurt');
	const inTheWay = join(folder, 'metadata.json.new');
	mkdirSync(inTheWay);
	assert.equal((await runToEnd(['repair', server.dataDir])).code, 2);
	rmSync(inTheWay, { recursive: true });
	await server.restart();
	await post(server, 'hurt', [input.note({ n: 'behind it' })]);
	await server.stop();
	assert.match(readFileSync(join(folder, 'events.jsonl'), 'utf8'), /behind it/);
	assert.equal(statSync(join(folder, 'events.jsonl')).nlink, 1);
	assert.equal((await runToEnd(['repair', server.dataDir])).code, 1);
	assert.equal((await runToEnd(['verify', server.dataDir])).code, 0);
	assert.ok(readdirSync(join(server.dataDir, 'set-aside')).some((name) => name.startsWith('hurt.events.jsonl.')));
});

test('a session that an earlier program made anew in place of a damaged one stays', async (t) => {
	const { server } = await start(t, flipMetadata);
	await server.stop();
	// An earlier program did not know that the id was taken.
	const aside = join(server.dataDir, 'set-aside/hurt.1');
	renameSync(aside, join(server.dataDir, 'away'));
	await server.restart();
	await server.request('POST', path('hurt', '/events?create=1'), { json: [{ ...input.note({ anew: true }), key: 'k1' }] });
	const anew = await eventsOf(server, 'hurt');
	await server.kill9();
	renameSync(join(server.dataDir, 'away'), aside);
	assert.match((await runToEnd(['verify', server.dataDir])).stdout, /note: set-aside\/hurt\.1: .*made anew/);
	const repaired = await runToEnd(['repair', server.dataDir]);
	assert.equal(repaired.code, 0, repaired.stderr);
	assert.match(repaired.stdout, /nothing is damaged/);
	await server.restart();
	assert.deepEqual(await eventsOf(server, 'hurt'), anew);
	assert.ok(existsSync(aside));
	assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready' });
});

test('a damaged session in a database does not keep the server from starting', async (t) => {
	const ids = ['metadata', 'records', 'gap', 'kind', 'fine'];
	const server = await Server.start(t, { args: ['--store', postgres.address('start'), '--limit', 'idle_flush_ms=3600000'] });
	for (const id of ids) {
		await server.createSession({ id });
		await post(server, id, [...notes, input.text('open')]);
	}
	await server.kill9();
	const where = (id) => `x.sid = (SELECT sid FROM holdfast_session WHERE id = '${id}')`;
	postgres.ask('start', "UPDATE holdfast_session SET metadata = '{}' WHERE id = 'metadata'");
	postgres.ask('start', `UPDATE holdfast_record AS x SET data = '\\x00' WHERE ${where('records')}`);
	postgres.ask('start', `DELETE FROM holdfast_record AS x WHERE ${where('gap')} AND n = (SELECT max(n) FROM holdfast_record AS y WHERE y.sid = x.sid)`);
	postgres.ask('start', `UPDATE holdfast_record AS x SET kind = 99 WHERE ${where('kind')}`);
	await server.up();
	for (const id of ids.slice(0, -1)) {
		assert.equal(await refused(server, 'POST', path(id, '/events?create=1'), { json: notes }), 'session_damaged', id);
	}
	assert.equal((await server.request('GET', '/readyz')).body.damaged_sessions, ids.length - 1);
	assert.deepEqual((await post(server, 'fine', notes)).acks.map((a) => a.duplicate), [true, true, true]);
	await post(server, 'fine', [input.text(' and more\n\n')]);
	assert.equal((await runToEnd(['verify', postgres.url('start'), 'fine'])).code, 0);
	assert.equal((await runToEnd(['verify', postgres.url('start')])).code, 1);
});

test('damaged events in a database: the range is told and counted, gaps=1 shows the rest, and all other sessions are whole', async (t) => {
	const ids = ['line', 'hole', 'front', 'other', 'end', 'fine'];
	const server = await Server.start(t, { args: ['--store', postgres.address('events')] });
	for (const id of ids) {
		await server.createSession({ id });
		await post(server, id, [1, 2, 3, 4, 5, 6, 7, 8].map((n) => input.note({ n })));
	}
	await server.stop();
	const whole = {};
	const rows = (id) => `sid = (SELECT sid FROM holdfast_session WHERE id = '${id}')`;
	const flip = (id, seq) => postgres.ask('events', `UPDATE holdfast_event SET line = overlay(line placing '#' from 20 for 1) WHERE ${rows(id)} AND seq = ${seq}`);
	const remove = (id, seqs) => postgres.ask('events', `DELETE FROM holdfast_event WHERE ${rows(id)} AND seq IN (${seqs})`);
	await server.restart();
	for (const id of ids) {
		whole[id] = (await eventsOf(server, id)).events;
	}
	await server.stop();
	flip('line', 3);
	remove('hole', '4, 5');
	flip('hole', 6);
	remove('front', '1, 2');
	postgres.ask('events', `UPDATE holdfast_event AS e SET line = (SELECT line FROM holdfast_event WHERE ${rows('other')} AND seq = 2) WHERE ${rows('other')} AND seq = 7`);
	remove('end', '8');
	await server.restart();
	assert.equal(await refused(server, 'GET', path('end', '/events')), 'session_damaged', 'a log that is shorter than its metadata says');
	let count = 1;
	for (const [id, from, to] of [['line', 3, 3], ['hole', 4, 6], ['front', 1, 2], ['other', 7, 7]]) {
		const gap = (seq) => ({ seq, type: 'x-holdfast-gap', from, to });
		const expected = whole[id].map((event) => (event.seq < from || event.seq > to ? event : gap(event.seq)));
		const look = async (query) => (await server.request('GET', path(id, `/events?${query}&format=markdown&gaps=1`))).body.events
			.map((event) => (event.type === 'x-holdfast-gap' ? { seq: event.seq, type: event.type, from: event.data.from, to: event.data.to } : event));
		const { status, body } = await server.request('GET', path(id, '/events?after_seq=0&limit=1000&format=markdown'));
		assert.deepEqual([status, body.error?.code, body.error?.from, body.error?.to], [503, 'storage_failed', from, to], `${id}: ${JSON.stringify(body)}`);
		assert.deepEqual(await look('after_seq=0&limit=1000'), expected, id);
		assert.deepEqual(await look('before_seq=9&limit=3'), expected.slice(5), id);
		assert.deepEqual(await look(`after_seq=${from}&limit=1`), expected.slice(from, from + 1), id);
		assert.equal((await server.request('GET', '/readyz')).body.damaged_sessions, (count += 1), id);
	}
	assert.deepEqual((await eventsOf(server, 'fine')).events, whole.fine);
	for (const id of ids) {
		assert.equal((await runToEnd(['verify', postgres.url('events'), id])).code, id === 'fine' ? 0 : 1, id);
	}
});
