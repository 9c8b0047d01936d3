// Damaged names of a session (keys.jsonl, or rows of a database): what follows from events is there again at once, and
// nothing is stored twice for a key that is lost.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readMetrics } from '../support/metrics.mjs';
import { startNodes } from '../support/nodes.mjs';
import { Postgres } from '../support/postgres.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server, runToEnd } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const postgres = Postgres.start({ after });
const path = (id, rest = '') => `/api/sessions/${id}${rest}`;
const keysOf = (server) => join(server.dataDir, 'sessions/s/keys.jsonl');

const note = (key) => ({ ...input.note({ key }), key });
const usage = { type: 'usage', key: 'u1', data: { mode: 'delta', input_tokens: 5 } };

async function repair(code, ...args) {
	const done = await runToEnd(['repair', ...args]);
	assert.equal(done.signal ?? done.code, code, `${done.stdout}${done.stderr}`);
	return done.stdout;
}

async function verify(code, dir) {
	const done = await runToEnd(['verify', dir]);
	assert.equal(done.code, code, done.stdout + done.stderr);
	return done.stdout;
}

/** A session whose names are no longer in a journal. The server is stopped. */
async function start(t, args = []) {
	const server = await Server.start(t, { args });
	await server.createSession({ id: 's' });
	await post(server, 's', [input.runStart('run-1'), { ...note('k1'), run_id: 'run-1' }, input.runEnd('run-1'), note('k2'), usage,
		input.text('One.\n\n', 'm-1'), input.tool('t-1'), input.toolDone('t-1'), input.text('Two.\n\n', 'm-2'), input.end()]);
	await server.stop();
	await server.restart();
	await server.stop();
	return server;
}

/** Flips a bit in the lines that have these texts. */
function flip(server, ...texts) {
	const bytes = readFileSync(keysOf(server));
	for (const text of texts) {
		bytes[bytes.indexOf(text) + 1] ^= 1;
	}
	writeFileSync(keysOf(server), bytes);
}

const append = (server, events) => server.request('POST', path('s', '/events'), { json: events });

async function isRefused(server, events) {
	const { status, body } = await append(server, events);
	assert.equal(status, 503, JSON.stringify(body));
	assertValid(check.rest('error')(body));
	assert.equal(body.error.code, 'keys_damaged');
}

async function isKnown(server, events) {
	const { acks } = await post(server, 's', events);
	assert.ok(acks.every((ack) => ack.duplicate), JSON.stringify(acks));
}

async function typesOf(server) {
	const { body } = await server.request('GET', path('s', '/events?after_seq=0&limit=1000'));
	return body.events.map((e) => e.type);
}

/** What goes on, and what does not, when `k2`, `u1` and `run-1` are lost. */
async function onlyTheLostAreRefused(t, server) {
	await isKnown(server, [note('k1')]);
	await isRefused(server, [note('k2')]);
	await isRefused(server, [usage]);
	await isRefused(server, [input.note({}), note('never')]);
	await isRefused(server, [input.runStart('run-1')]);
	await isRefused(server, [{ ...input.note({}), run_id: 'run-1' }]);
	await post(server, 's', [input.note({ goes: 'on' }), input.text('Three.\n\n', 'm-3'), { type: 'user_prompt', data: { prompt_id: 'p-1', message: 'go' } }, input.end()]);
	const producer = await Producer.connect(t, server, 's');
	assert.equal((await producer.refused('append', { events: [note('k2')] })).code, 'keys_damaged');
	await producer.append(input.note({ goes: 'on' }));
	const { status, body } = await server.request('POST', path('s', '/snapshot'), { json: { messages: [
		{ message_id: 'm-1', role: 'assistant', content: [{ type: 'text', text: 'One.\n\n' }] }] } });
	assert.deepEqual([status, body.added], [200, 0], JSON.stringify(body));
	assert.equal((await server.request('GET', '/readyz')).body.damaged_sessions, 1);
	assert.equal((await readMetrics(server))('sessions_damaged'), 1);
	const { body: log } = await server.request('GET', path('s', '/events?after_seq=0&limit=1000'));
	assert.equal(log.events.findLast(({ type }) => type === 'usage').data.total.input_tokens, 5);
}

test('a key that was lost is refused, not stored again, until a repair gives it up; all else goes on', async (t) => {
	const server = await start(t);
	flip(server, '"k2"', '"u1"', '"run-1"');
	assert.match(await verify(1, server.dataDir), /keys\.jsonl: line \d+.*the checksum is wrong/);
	await server.restart();
	await onlyTheLostAreRefused(t, server);
	await server.stop();
	assert.match(await verify(1, server.dataDir), /keys\.jsonl: 3 of the \d+ names that inputs gave are lost/);
	await server.restart();
	await onlyTheLostAreRefused(t, server);
	await server.stop();

	assert.match(await repair(1, server.dataDir), /^s: names were damaged; 3 lost, 0 from the journal; --forget-keys gives the lost ones up\n$/);
	await verify(1, server.dataDir);
	await server.restart();
	await isRefused(server, [note('k2')]);
	await server.stop();
	assert.match(await repair(1, server.dataDir, '--forget-keys'), /^s: names were damaged; 3 lost, .*given up\n$/);
	await verify(0, server.dataDir);
	assert.equal(await repair(0, server.dataDir), 'nothing is damaged\n');
	await server.restart();
	assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready' });
	assert.equal((await typesOf(server)).at(-1), 'x-holdfast-keys-forgotten');
	const { body } = await server.request('GET', path('s', '/events?limit=1'));
	assert.deepEqual(body.events[0].data, { count: 3 });
	await isKnown(server, [note('k1')]);
	assert.equal((await post(server, 's', [note('k2')])).acks[0].duplicate, false);
	await isKnown(server, [note('k2')]);
	assert.equal((await append(server, [{ type: 'x-holdfast-keys-forgotten', data: {} }])).body.error.code, 'unknown_type');
	await server.kill9();
	await verify(0, server.dataDir);
	await server.up();
	await isKnown(server, [note('k1'), note('k2')]);
});

test('while damaged names cannot be made anew, no try leaves anything', async (t) => {
	const server = await start(t);
	flip(server, '"k2"');
	const folder = join(server.dataDir, 'sessions/s');
	const inTheWay = join(folder, 'keys.jsonl.new');
	mkdirSync(inTheWay);
	await server.restart();
	for (let n = 0; n < 3; n++) {
		assert.equal((await append(server, [note('k1')])).body.error.code, 'storage_failed');
	}
	assert.deepEqual(readdirSync(join(server.dataDir, 'set-aside')), []);
	assert.equal(statSync(join(folder, 'keys.jsonl')).nlink, 1);
	rmSync(inTheWay, { recursive: true });
	await isKnown(server, [note('k1')]);
	assert.deepEqual(readdirSync(join(server.dataDir, 'set-aside')), ['s.keys.jsonl.1']);
});

test('names that follow from events are there again at once', async (t) => {
	const server = await start(t);
	flip(server, '"m-2"', '"t-1"');
	await verify(1, server.dataDir);
	await server.restart();
	await isKnown(server, [note('k1'), note('k2'), usage]);
	await post(server, 's', [note('k3')]);
	assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready' });
	await server.stop();
	await verify(0, server.dataDir);
	assert.equal(await repair(0, server.dataDir), 'nothing is damaged\n');
});

test('what the journal still has of lost names is taken from there', async (t) => {
	const server = await start(t);
	await server.restart();
	await post(server, 's', [note('k4'), note('k5'), input.end()]);
	await server.kill9();
	flip(server, '"k4"', '"k2"');
	await server.up();
	await isKnown(server, [note('k4'), note('k5')]);
	await isRefused(server, [note('k2')]);
});

for (const [how, spoil, isLost] of [
	['gone', (file) => rmSync(file), true],
	['empty', (file) => truncateSync(file, 0), true],
	['cut inside a line', (file) => truncateSync(file, readFileSync(file).length - 10), false],
	['cut behind its first line', (file) => truncateSync(file, readFileSync(file).indexOf('\n') + 1), true],
	['with a line twice', (file) => {
		const lines = readFileSync(file, 'utf8').split('\n');
		writeFileSync(file, [lines[0], ...lines].join('\n'));
	}, null],
	['with two keys exchanged for one twice', (file) => {
		const lines = readFileSync(file, 'utf8').split('\n');
		const one = lines.findIndex((line) => line.includes('"k1"'));
		lines[lines.findIndex((line) => line.includes('"k2"'))] = lines[one];
		writeFileSync(file, lines.join('\n'));
	}, true],
]) {
	test(`keys.jsonl ${how}`, async (t) => {
		const server = await start(t);
		spoil(keysOf(server));
		await verify(1, server.dataDir);
		await server.restart();
		const answer = await append(server, [note('k2')]);
		assert.ok(answer.status === 503 ? answer.body.error.code === 'keys_damaged' : answer.body.acks[0].duplicate, JSON.stringify(answer.body));
		if (isLost !== null) {
			assert.equal(answer.status === 503, isLost);
		}
		await post(server, 's', [input.note({ goes: 'on' })]);
		await server.stop();
		await repair(isLost === false ? 0 : 1, server.dataDir, '--forget-keys').catch((error) => {
			assert.equal(isLost, null, error.message);
		});
		await verify(0, server.dataDir);
	});
}

for (const [what, length] of [['a record of it is damaged', 1], ['a batch is, and what is behind it is lost', 60]]) {
	test(`a key whose event is in the log is refused where the journal has lost it: ${what}`, async (t) => {
		const server = await Server.start(t, { args: ['--limit', 'idle_flush_ms=3600000'] });
		for (const id of ['s', 'fine']) {
			await server.createSession({ id });
			await post(server, id, [note('k0')]);
		}
		await server.stop();
		await server.restart();
		for (const key of ['k1', 'k2', 'k3']) {
			await post(server, 's', [note(key)]);
		}
		await server.kill9();
		const dir = join(server.dataDir, 'journal');
		const file = readdirSync(dir).map((name) => join(dir, name)).find((name) => readFileSync(name).includes('{"key":"k2"}'));
		const bytes = readFileSync(file);
		const at = bytes.indexOf('{"key":"k2"}');
		bytes.fill(0xa5, at, at + length);
		writeFileSync(file, bytes);
		await verify(1, server.dataDir);
		const told = await repair(1, server.dataDir);
		assert.match(told, /^s: names may have been in records that cannot be used; 2 lost, 0 from the journal; --forget-keys gives the lost ones up$/m);
		if (length === 1) {
			assert.match(told, /^s: a record of it in the journal is damaged \(2 cannot be used\); 0 lost, /m);
		}
		assert.doesNotMatch(told, /^fine: names/m);
		await verify(1, server.dataDir);
		await server.restart();
		await isKnown(server, [note('k0'), note('k1')]);
		for (const key of ['k2', 'k3', 'never']) {
			await isRefused(server, [note(key)]);
		}
		await post(server, 's', [input.note({ goes: 'on' })]);
		assert.equal((await post(server, 'fine', [note('new')])).acks[0].duplicate, false);
		assert.deepEqual((await server.request('GET', '/readyz')).body, { status: 'ready', damaged_sessions: 1 });
		await server.stop();
		assert.match(await repair(1, server.dataDir, '--forget-keys'), /^s: names were damaged; 2 lost, .*given up\n$/);
		await verify(0, server.dataDir);
		await server.restart();
		assert.equal((await post(server, 's', [note('k2')])).acks[0].duplicate, false);
		await isKnown(server, [note('k0'), note('k1'), note('k2')]);
	});
}

test('damaged names in a database', async (t) => {
	const server = await start(t, ['--store', postgres.address('names')]);
	const flipAll = () => {
		for (const key of ['"k2"', '"u1"', '"run-1"']) {
			postgres.ask('names', `UPDATE holdfast_name SET lines = replace(lines, '${key}', '${key.replace(/."$/, '~"')}')`);
		}
	};
	flipAll();
	await server.restart();
	await isKnown(server, [note('k1'), note('k2'), usage]); // the records have them
	await server.stop();
	flipAll();
	postgres.ask('names', 'DELETE FROM holdfast_record');
	assert.match(await verify(1, postgres.url('names')), /names: line \d+.*the checksum is wrong/);
	await server.restart();
	await onlyTheLostAreRefused(t, server);
	await server.stop();
	await server.restart();
	await onlyTheLostAreRefused(t, server);
});

test('what the records still have of lost names, a running node takes from there, too', async (t) => {
	const [a, b] = await startNodes(t, postgres, 2, { database: 'taken' });
	await a.createSession({ id: 's' });
	await post(a, 's', [note('k1'), note('k2'), usage, input.text('One.\n\n', 'm-1'), input.end()]);
	await eventually(() => postgres.ask('taken', "SELECT count(*) FROM holdfast_name WHERE lines LIKE '%\"k2\"%'") === '1', 'the names to be saved');
	await a.kill9();
	postgres.ask('taken', "UPDATE holdfast_name SET lines = replace(replace(lines, '\"k2\"', '\"k3\"'), '\"u1\"', '\"u2\"')");
	await eventually(async () => (await b.request('GET', path('s'))).status === 200, 'the other node to take the session');
	await isKnown(b, [note('k1'), note('k2'), usage]);
	assert.equal((await post(b, 's', [note('new')])).acks[0].duplicate, false);
	assert.deepEqual((await b.request('GET', '/readyz')).body, { status: 'ready' });
});

test('names of events are made again from all events of a database, however many there are', async (t) => {
	const server = await Server.start(t, { args: ['--store', postgres.address('many')] });
	const ids = Array.from({ length: 450 }, (_, n) => `m-${n + 1}`);
	await server.createSession({ id: 's' });
	await post(server, 's', [...ids.map((id) => input.text(`${id}.\n\n`, id)), input.end()]);
	await server.stop();
	postgres.ask('many', 'DELETE FROM holdfast_name; DELETE FROM holdfast_record'); // what the records had would be taken from there
	await server.restart();
	for (const id of [ids[0], ids[249], ids[449]]) {
		const { status, body } = await server.request('POST', path('s', '/snapshot'), { json: { messages: [{ message_id: id, role: 'assistant', content: [{ type: 'text', text: `${id}.\n\n` }] }] } });
		assert.deepEqual([status, body.added], [200, 0], `${id}: ${JSON.stringify(body)}`);
	}
});
