// The table of damage in proto/store-format.md, for a database: bytes of each column that are another, cut, or of another session, and rows
// that are gone, each in a session of its own. The server starts, no other session is harmed, nothing wrong is served, no key is taken for
// a new one, and what a server refuses and what verify calls a problem are the same.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { download, mustUpload, png } from '../support/blobs.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, runToEnd } from '../support/server.mjs';

const postgres = Postgres.start({ after });
const path = (id, rest = '') => `/api/sessions/${id}${rest}`;
const PIXELS = png();
const KEYS = [1, 2, 3, 4, 5, 6];
const keyed = (n) => ({ ...input.note({ n, text: 'x'.repeat(50) }), key: `k${n}` });
const SID = "(SELECT sid FROM holdfast_session WHERE id = '$ID')";
const LAST = (column, table) => `(SELECT max(${column}) FROM ${table} WHERE sid = ${SID})`;

const eventsOf = (server, id) => server.request('GET', path(id, '/events?after_seq=0&limit=1000&format=markdown'));

/** Changes a text or bytea column of a row at a part of its length. */
const flipText = (column, part) => `${column} = overlay(${column} placing chr(ascii(substr(${column}, 1 + (length(${column}) * ${part})::int, 1)) # 1) from 1 + (length(${column}) * ${part})::int for 1)`;
const flipBytes = (column, part) => `${column} = set_byte(${column}, (length(${column}) * ${part})::int, get_byte(${column}, (length(${column}) * ${part})::int) # 4)`;
const cut = (column, part) => `${column} = substr(${column}, 1, (length(${column}) * ${part})::int)`;

/** What is damaged in which row; $ID stands for the session. */
function casesOf() {
	const cases = [];
	const add = (table, what, sql) => cases.push({ id: `hurt-${cases.length}`, table, what, sql });
	const of = (table, rest = '') => `FROM holdfast_${table} WHERE sid = ${SID}${rest}`;
	for (const part of [0.01, 0.2, 0.4, 0.6, 0.8, 0.97]) {
		for (const [kind, spoil] of [['flipped', flipText], ['cut', cut]]) {
			add('session', `metadata ${kind} at ${part}`, `UPDATE holdfast_session SET ${spoil('metadata', part)} WHERE id = '$ID'`);
			add('name', `${kind} at ${part}`, `UPDATE holdfast_name SET ${spoil('lines', part)} WHERE sid = ${SID}`);
			for (const seq of [1, 4, LAST('seq', 'holdfast_event')]) {
				add('event', `${seq > 0 ? seq : 'the last'} ${kind} at ${part}`, `UPDATE holdfast_event SET ${spoil('line', part)} WHERE sid = ${SID} AND seq = ${seq}`);
			}
		}
		add('record', `snapshot flipped at ${part}`, `UPDATE holdfast_record SET ${flipBytes('data', part)} WHERE sid = ${SID} AND kind = 6`);
		add('record', `snapshot cut at ${part}`, `UPDATE holdfast_record SET ${cut('data', part)} WHERE sid = ${SID} AND kind = 6`);
	}
	add('session', 'metadata of another', "UPDATE holdfast_session SET metadata = (SELECT metadata FROM holdfast_session WHERE id = 'fine') WHERE id = '$ID'");
	add('session', 'no metadata', "UPDATE holdfast_session SET metadata = NULL WHERE id = '$ID'");
	add('session', 'another number of the last record', "UPDATE holdfast_session SET last_record = last_record + 1 WHERE id = '$ID'");
	add('record', 'the first is gone', `DELETE ${of('record', ` AND n = (SELECT min(n) ${of('record')})`)}`);
	add('record', 'the last is gone', `DELETE ${of('record', ` AND n = ${LAST('n', 'holdfast_record')}`)}`);
	add('record', 'one is there twice', `UPDATE holdfast_record SET n = n + 1 WHERE sid = ${SID} AND n = ${LAST('n', 'holdfast_record')}; INSERT INTO holdfast_record (sid, n, kind, ts, data) SELECT sid, n - 1, kind, ts, data ${of('record', ` AND n = ${LAST('n', 'holdfast_record')}`)}`);
	for (const kind of [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 99, 32767]) {
		add('record', `the snapshot has kind ${kind}`, `UPDATE holdfast_record SET kind = ${kind} WHERE sid = ${SID} AND kind = 6`);
	}
	add('record', 'the snapshot of another', `UPDATE holdfast_record AS x SET data = y.data FROM holdfast_record AS y, holdfast_session AS s WHERE x.sid = ${SID} AND x.kind = 6 AND y.sid = s.sid AND y.kind = 6 AND s.id = 'fine'`);
	add('event', 'one is gone', `DELETE ${of('event', ' AND seq = 3')}`);
	add('event', 'the last is gone', `DELETE ${of('event', ` AND seq = ${LAST('seq', 'holdfast_event')}`)}`);
	add('event', 'one is another one of it', `UPDATE holdfast_event SET line = (SELECT line ${of('event', ' AND seq = 2')}) WHERE sid = ${SID} AND seq = 3`);
	add('name', 'gone', `DELETE ${of('name')}`);
	add('blob', 'flipped', `UPDATE holdfast_blob SET ${flipBytes('bytes', 0.5)} WHERE sid = ${SID}`);
	add('blob', 'cut', `UPDATE holdfast_blob SET ${cut('bytes', 0.5)} WHERE sid = ${SID}`);
	return cases;
}

/** Each key is known or refused, and events and the image are those that were, or refused. Returns the codes of what was. */
async function look(server, id, known) {
	const { status, body } = await eventsOf(server, id);
	const noticed = [];
	if (status === 200) {
		assert.deepEqual(body.events, known.events, 'what is served is what was');
	} else {
		assert.ok(['session_damaged', 'storage_failed'].includes(body.error.code), JSON.stringify(body));
		noticed.push(body.error.code);
	}
	for (const n of KEYS) {
		const sent = await server.request('POST', path(id, '/events?create=1'), { json: keyed(n) });
		if (sent.status === 200) {
			assert.equal(sent.body.acks[0].duplicate, true, `k${n} was stored again`);
		} else {
			assert.ok(['keys_damaged', 'session_damaged', 'storage_failed'].includes(sent.body.error.code), JSON.stringify(sent.body));
			noticed.push(sent.body.error.code);
		}
	}
	const image = await download(server, id, known.image);
	if (image.status === 200) {
		assert.deepEqual(image.bytes, PIXELS);
	}
	return { noticed: [...new Set(noticed)].join(), image: image.status === 200 ? 'whole' : image.body.error.code };
}

const isCounted = ({ noticed }) => noticed !== '';

/** What the server says of each; `damaged_sessions` and the metric count just those that are refused in part. */
async function lookAtAll(server, cases, known) {
	const seen = {};
	const wrong = [];
	for (const { id, table, what } of cases) {
		try {
			seen[id] = await look(server, id, known[id]);
		} catch (error) {
			wrong.push(`${table}: ${what}: ${error.message.slice(0, 300)}`);
		}
	}
	assert.deepEqual(wrong, []);
	const count = Object.values(seen).filter(isCounted).length;
	assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready', damaged_sessions: count });
	assert.equal((await readMetrics(server))('sessions_damaged'), count);
	return seen;
}

test('each column, each damage: nothing wrong is served or stored, and verify says what a server says', async (t) => {
	const server = await Server.start(t, { args: ['--store', postgres.address('rows'), '--limit', 'idle_flush_ms=3600000'] });
	const cases = casesOf();
	const known = {};
	for (const id of [...cases.map((each) => each.id), 'fine']) {
		await server.createSession({ id });
		await post(server, id, [...KEYS.slice(0, 5).map(keyed), input.text(id === 'fine' ? 'Of another length.\n\n' : 'One.\n\n', 'm-1'), input.end()]);
		known[id] = { image: (await mustUpload(server, id, PIXELS)).blob };
	}
	await server.stop();
	await server.restart(); // so that not all of it is in records
	for (const [id, of] of Object.entries(known)) {
		await post(server, id, [keyed(6)]);
		of.events = (await eventsOf(server, id)).body.events;
	}
	await server.kill9();
	assert.equal((await runToEnd(['verify', postgres.url('rows')])).code, 0);
	postgres.ask('rows', cases.map(({ id, sql }) => sql.replaceAll('$ID', id)).join(';\n'));
	const verified = await runToEnd(['verify', postgres.address('rows')]);
	assert.equal(verified.code, 1, verified.stderr);
	await server.up();
	const seen = await lookAtAll(server, cases, known);
	for (const { id, table, what } of cases) {
		const found = verified.stdout.split('\n').filter((line) => line.startsWith(`session ${id},`)).join('\n');
		const isRefused = isCounted(seen[id]) || seen[id].image !== 'whole';
		assert.equal(seen[id].image === 'blob_damaged', table === 'blob', `${table}: ${what}: ${seen[id].image}`);
		if (isRefused || table !== 'name') { // names that events have are made anew without a word
			assert.equal(found !== '', isRefused, `${table}: ${what}: the server says "${seen[id].noticed}", verify "${found}"`);
		}
	}
	assert.equal(verified.stdout.includes('session fine,'), false);
	assert.deepEqual((await eventsOf(server, 'fine')).body.events, known.fine.events);
	assert.equal((await post(server, 'fine', [keyed(2)])).acks[0].duplicate, true);
	await server.kill9();
	await server.up();
	assert.deepEqual(await lookAtAll(server, cases, known), seen, 'a second start says the same');
	const repaired = await runToEnd(['repair', postgres.address('rows')]);
	assert.equal(repaired.code, 2);
	assert.match(repaired.stderr, /database/);
});
