// Damaged sessions: what is told of them, gaps=1, and holdfast repair.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readMetrics } from '../support/metrics.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server, runToEnd } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const path = (id, rest = '') => `/api/sessions/${id}${rest}`;
const COUNT = 12;

async function repair(code, ...args) {
	const done = await runToEnd(['repair', ...args]);
	assert.equal(done.signal ?? done.code, code, `${done.stdout}${done.stderr}`);
	return done;
}

async function isClean(dir) {
	const { code, stdout, stderr } = await runToEnd(['verify', dir]);
	assert.equal(code, 0, stdout + stderr);
}

/** A session with COUNT events that are in no journal any more. */
async function start(t, id = 'hurt', args = []) {
	const server = await Server.start(t, { args });
	await server.createSession({ id, title: 'Before' });
	await post(server, id, [{ type: 'user_prompt', data: { prompt_id: 'p1', message: 'go' } }]);
	for (let i = 2; i < COUNT; i++) {
		await post(server, id, [{ type: 'x-step', data: { i } }]);
	}
	await post(server, id, [input.end()]);
	await untilInLog(server, id, COUNT);
	return server;
}

/** At the end of a turn the log itself is made durable. */
async function untilInLog(server, id, seq) {
	const meta = join(server.dataDir, 'sessions', id, 'metadata.json');
	await eventually(() => existsSync(meta) && JSON.parse(readFileSync(meta)).max_seq === seq);
}

const logOf = (server, id) => join(server.dataDir, 'sessions', id, 'events.jsonl');

/** Changes lines of a log, given by their numbers from 1. */
function spoil(file, from, to = from) {
	const lines = readFileSync(file, 'utf8').split('\n');
	for (let n = from; n <= to; n++) {
		lines[n - 1] = lines[n - 1].replace('"data"', '"dada"');
	}
	writeFileSync(file, lines.join('\n'));
}

async function events(server, id, query = '') {
	const { status, body } = await server.request('GET', path(id, `/events?after_seq=0&limit=1000&format=markdown${query}`));
	assert.equal(status, 200, JSON.stringify(body));
	return body;
}

const gap = (seq, from, to, ts) => ({ seq, type: 'x-holdfast-gap', ts, data: { from, to, why: 'damaged' } });

test('a damaged log: the range is told, gaps=1 shows the rest, repair keeps the numbers in a new epoch', async (t) => {
	const server = await start(t);
	const { events: whole, epoch } = await events(server, 'hurt');
	await server.stop();
	spoil(logOf(server, 'hurt'), 4, 6);
	spoil(logOf(server, 'hurt'), 9);
	await server.restart();

	const refused = await server.request('GET', path('hurt', '/events?after_seq=0&limit=1000'));
	assert.equal(refused.status, 503);
	assertValid(check.rest('error')(refused.body));
	const { code, from, to, message } = refused.body.error;
	assert.deepEqual([code, from, to], ['storage_failed', 4, 6]);
	assert.match(message, /events 4 to 6 are damaged/);
	assert.equal((await readMetrics(server))('sessions_damaged'), 1);
	const ready = await server.request('GET', '/readyz');
	assertValid(check.rest('readiness')(ready.body));
	assert.deepEqual([ready.status, ready.body], [200, { status: 'ready', damaged_sessions: 1 }]);

	const expected = whole.map((event) => {
		const range = [[4, 6], [9, 9]].find(([a, b]) => event.seq >= a && event.seq <= b);
		return range ? gap(event.seq, ...range, whole[range[0] - 2].ts) : event;
	});
	assert.deepEqual((await events(server, 'hurt', '&gaps=1')).events, expected);
	// A page that begins and ends inside the range says the same.
	const middle = await server.request('GET', path('hurt', '/events?after_seq=4&limit=1&format=markdown&gaps=1'));
	assert.deepEqual(middle.body.events, [expected[4]]);
	for (const query of ['before_seq=8&limit=3', 'limit=5']) {
		const { body } = await server.request('GET', path('hurt', `/events?${query}&format=markdown&gaps=1`));
		assert.deepEqual(body.events, expected.slice(body.first_seq - 1, body.last_seq));
	}
	const observer = await Observer.connect(t, server, 'hurt', { query: { format: 'markdown' } });
	observer.send('load_events', { after_seq: 0, limit: 1000 });
	const error = await observer.waitFor('error');
	assert.deepEqual([error.data.code, error.data.from, error.data.to], ['storage_failed', 4, 6]);
	observer.send('load_events', { after_seq: 0, limit: 1000, gaps: true });
	assert.deepEqual((await observer.waitFor('events_loaded')).data.events, expected);
	// Nothing of that is stored.
	assert.equal((await server.request('GET', path('hurt', '/events?after_seq=3&limit=1'))).status, 503);
	await server.stop();

	const { stdout } = await repair(1, server.dataDir);
	assert.match(stdout, /^hurt: its log is damaged; 4 lost, 0 from the journal; new epoch [0-9a-f]{16}\n$/);
	await isClean(server.dataDir);
	assert.equal(readdirSync(join(server.dataDir, 'set-aside')).length, 2);
	assert.match((await repair(0, server.dataDir)).stdout, /nothing is damaged/);

	await server.restart();
	const after = await events(server, 'hurt');
	assert.notEqual(after.epoch, epoch);
	assert.deepEqual(after.events, expected);
	assert.equal((await readMetrics(server))('sessions_damaged'), 0);
	assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready' });
	await post(server, 'hurt', [{ type: 'x-step', data: { i: 'more' } }]);
	assert.equal((await events(server, 'hurt')).events.length, COUNT + 1);
	const faked = await server.request('POST', path('hurt', '/events'), { json: { type: 'x-holdfast-gap', data: {} } });
	assert.equal(faked.body.error.code, 'unknown_type');
});

test('what the journal has is not lost: neither events nor what is open', async (t) => {
	const server = await start(t, 'hurt', ['--limit', 'hold_ms=600s']);
	await post(server, 'hurt', [input.text('A whole one.\n\n- a list\n- that is open')]);
	const { events: whole, epoch } = await events(server, 'hurt');
	await server.kill9();
	spoil(logOf(server, 'hurt'), 2, 5);
	// A session of another name does not matter, and neither does one that is fine.
	assert.match((await repair(2, server.dataDir, 'other')).stderr, /there is no session other/);
	const { stdout } = await repair(0, server.dataDir, 'hurt');
	assert.match(stdout, /; 0 lost, 4 from the journal; /);
	await isClean(server.dataDir);
	await server.restart();
	const after = await events(server, 'hurt');
	assert.notEqual(after.epoch, epoch);
	assert.deepEqual(after.events, whole);
	await post(server, 'hurt', [input.end()]);
	const told = (await events(server, 'hurt')).events;
	assert.equal(told.at(-2).data.markdown, '- a list\n- that is open');
});

test('a session that was set aside comes back, with what the journal had of it', async (t) => {
	const server = await start(t, 'hurt', ['--limit', 'hold_ms=600s']);
	await server.stop();
	await server.restart();
	await post(server, 'hurt', [input.text('Whole.\n\n- open')]);
	const { events: whole } = await events(server, 'hurt');
	await server.kill9();
	// Shorter than metadata.json has it: no crash leaves that.
	truncateSync(logOf(server, 'hurt'), 300);
	await server.restart();
	assert.equal((await server.request('GET', path('hurt'))).body.error.code, 'session_damaged');
	assert.equal((await readMetrics(server))('sessions_damaged'), 1);
	await server.createSession({ id: 'other' });
	await post(server, 'other', [input.text('x'), input.end()]);
	await server.stop();
	await server.restart();
	await server.stop();

	const { stdout } = await repair(1, server.dataDir);
	assert.match(stdout, /^hurt: its log .*; \d+ lost, \d+ from the journal; new epoch/);
	await isClean(server.dataDir);
	await server.restart();
	const after = await events(server, 'hurt');
	assert.equal(after.events.length, whole.length);
	assert.deepEqual(after.events.map((e) => e.seq), whole.map((e) => e.seq));
	const lost = after.events.filter((e) => e.type === 'x-holdfast-gap');
	assert.ok(lost.length > 0 && lost.length < whole.length, `${lost.length} of ${whole.length}`);
	assert.deepEqual(after.events.at(-1), whole.at(-1));
	await post(server, 'hurt', [input.end()]);
	assert.equal((await events(server, 'hurt')).events.at(-2).data.markdown, '- open');
	assert.ok(!readdirSync(join(server.dataDir, 'sessions/hurt')).some((name) => name.endsWith('.journal')));
});

test('without metadata.json a session is what its log has, and its keys still count', async (t) => {
	const server = await start(t);
	await post(server, 'hurt', [{ type: 'x-keyed', data: {}, key: 'k-1' }, input.end()]);
	const { events: whole } = await events(server, 'hurt');
	await server.stop();
	await server.restart();
	await server.stop();
	writeFileSync(join(server.dataDir, 'sessions/hurt/metadata.json'), 'nothing\n');
	await server.restart();
	assert.equal((await server.request('GET', path('hurt'))).body.error.code, 'session_damaged');
	await server.stop();
	const { stdout } = await repair(0, server.dataDir);
	assert.match(stdout, /^hurt: metadata\.json is damaged; 0 lost, 0 from the journal; new epoch/);
	await isClean(server.dataDir);
	await server.restart();
	assert.deepEqual((await events(server, 'hurt')).events, whole);
	const { body } = await server.request('POST', path('hurt', '/events'), { json: { type: 'x-keyed', data: {}, key: 'k-1' } });
	assert.equal(body.acks[0].duplicate, true);
});

test('a journal that does not tell whom its damage concerns: the server says what to do, and repair goes on without', async (t) => {
	const server = await start(t);
	await post(server, 'hurt', [input.text('One.\n\n'), input.end()]);
	const { events: whole, epoch } = await events(server, 'hurt');
	await untilInLog(server, 'hurt', whole.length); // and so are all keys: there were none
	await server.kill9();
	const journal = join(server.dataDir, 'journal');
	const segment = join(journal, readdirSync(journal).sort().at(-1));
	const bytes = readFileSync(segment);
	const at = bytes.indexOf('HFBT', 200);
	bytes.fill(0x55, at, bytes.indexOf('HFBT', at + 4)); // all of a batch that others follow
	writeFileSync(segment, bytes);
	const failed = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', server.dataDir]);
	assert.notEqual(failed.code, 0);
	assert.match(failed.stderr, /holdfast repair/);
	const { stdout, stderr } = await repair(0, server.dataDir);
	assert.match(stderr, /the rest of it is lost/);
	assert.match(stdout, /^hurt: /);
	await isClean(server.dataDir);
	assert.ok(readdirSync(join(server.dataDir, 'set-aside')).some((name) => name.includes('.journal.')));
	await server.restart();
	const after = await events(server, 'hurt');
	assert.notEqual(after.epoch, epoch);
	assert.deepEqual(after.events, whole);
});

test('repair refuses a directory that a server uses, and one that is none of ours', async (t) => {
	const server = await start(t);
	assert.match((await repair(2, server.dataDir)).stderr, /in use by another holdfast/);
	rmSync(join(server.dataDir, 'none'), { force: true });
	assert.match((await repair(2, join(server.dataDir, 'none'))).stderr, /cannot read the data directory/);
	assert.ok(!existsSync(join(server.dataDir, 'none')));
});
