// holdfast backup beside a running server, and holdfast restore.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, binary, runToEnd, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

async function run(code, ...args) {
	const done = await runToEnd(args, { timeoutMs: 120_000 });
	assert.equal(done.signal ?? done.code, code, `holdfast ${args.join(' ')}\n${done.stdout}${done.stderr}`);
	return done;
}

const backups = (target) => readdirSync(target).sort();
const newest = (target) => join(target, backups(target).at(-1));

/** A session with a turn that has ended, and so is certain. */
async function fill(server, id, count = 3) {
	await server.createSession({ id, title: `The ${id}` });
	await post(server, id, [{ type: 'user_prompt', data: { prompt_id: `p-${id}`, message: 'go' } }]);
	for (let i = 0; i < count; i++) {
		await post(server, id, [{ type: 'x-step', data: { i } }]);
	}
	await post(server, id, [input.end()]);
	const meta = join(server.dataDir, 'sessions', id, 'metadata.json');
	await eventually(() => existsSync(meta) && JSON.parse(readFileSync(meta)).max_seq === count + 2);
}

async function eventsOf(server, id) {
	const { status, body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000&format=markdown`);
	assert.equal(status, 200, JSON.stringify(body));
	return body;
}

/** A server on a data directory that was restored. */
async function startOn(t, dataDir, options = {}) {
	return Server.start(t, { dataDir, cwd: scratchDir(t), ...options });
}

test('a backup beside the server has every session, also what is open; restored, all have new epochs', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'hold_ms=600s'] });
	const dir = scratchDir(t);
	await fill(server, 'one');
	await fill(server, 'two');
	await server.createSession({ id: 'open' });
	await post(server, 'open', [input.text('Whole.\n\n- not yet')]);
	const blob = await server.request('POST', '/api/sessions/one/blobs', { body: Buffer.from('some bytes'), headers: { 'content-type': 'application/octet-stream' } });
	assert.equal(blob.status, 201, JSON.stringify(blob.body));
	const { stdout } = await run(0, 'backup', server.dataDir, join(dir, 'backups'));
	assert.match(stdout, /3 sessions with .*: clean\n.*: 3 sessions, 0 of them as in the last backup; \d+ bytes written\n$/s);
	const made = newest(join(dir, 'backups'));
	assert.equal(statSync(made).mode & 0o777, 0o700);
	for (const secret of ['access-token', 'token-secret', 'push-key', 'access.jsonl']) {
		assert.ok(!existsSync(join(made, secret)), secret);
	}
	const refused = await run(1, 'serve', '--data', made, '--listen', '127.0.0.1:0');
	assert.match(refused.stderr, /is a backup/);

	const before = { one: await eventsOf(server, 'one'), two: await eventsOf(server, 'two'), open: await eventsOf(server, 'open') };
	await post(server, 'one', [{ type: 'x-later', data: {} }]);
	const restored = join(dir, 'restored');
	assert.match((await run(0, 'restore', join(dir, 'backups'), `${restored}/`)).stdout, /3 sessions from .*, each with a new epoch\n$/);
	assert.deepEqual(readdirSync(dir).sort(), ['backups', 'restored']);
	await run(0, 'verify', restored);
	const other = await startOn(t, restored);
	assert.notEqual(other.token, server.token);
	for (const [id, { events, epoch }] of Object.entries(before)) {
		const now = await eventsOf(other, id);
		assert.deepEqual(now.events, events);
		assert.notEqual(now.epoch, epoch);
	}
	await post(other, 'open', [input.end()]);
	assert.equal((await eventsOf(other, 'open')).events.at(1).data.markdown, '- not yet');
	const found = await other.request('GET', `/api/sessions/one/blobs/${blob.body.blob}`);
	assert.deepEqual([found.status, found.body], [200, 'some bytes']);
	// A client that has seen what came after the backup starts over.
	const observer = await Observer.connect(t, other, 'one');
	observer.send('load_events', { after_seq: before.one.max_seq + 1, epoch: before.one.epoch });
	assert.equal((await observer.waitFor('events_loaded')).data.reset.reason, 'epoch');
});

test('the next backup links what has not changed, and --keep deletes old ones', async (t) => {
	const server = await Server.start(t);
	const target = join(scratchDir(t), 'backups');
	await fill(server, 'same');
	await fill(server, 'other');
	await fill(server, 'gone');
	await run(0, 'backup', server.dataDir, target);
	await post(server, 'other', [{ type: 'user_prompt', data: { prompt_id: 'p2', message: 'more' } }, input.end()]);
	await eventually(() => JSON.parse(readFileSync(join(server.dataDir, 'sessions/other/metadata.json'))).max_seq === 7);
	assert.equal((await server.request('DELETE', '/api/sessions/gone')).status, 204);
	await eventually(() => !existsSync(join(server.dataDir, 'sessions/gone')));
	assert.match((await run(0, 'backup', server.dataDir, target)).stdout, /2 sessions, 1 of them as in the last backup/);
	const [first, second] = backups(target);
	const log = (name, id) => statSync(join(target, name, 'sessions', id, 'events.jsonl')).ino;
	assert.equal(log(first, 'same'), log(second, 'same'));
	assert.notEqual(log(first, 'other'), log(second, 'other'));
	assert.ok(existsSync(join(target, first, 'sessions/gone')) && !existsSync(join(target, second, 'sessions/gone')));
	// In the same second or not, the newest is the last.
	await run(0, 'backup', server.dataDir, target, '--keep', '2');
	const left = backups(target);
	assert.equal(left.length, 2);
	assert.ok(left.includes(second) && !left.includes(first), left.join());
	await run(0, 'verify', join(target, second));
	assert.match((await run(2, 'backup', server.dataDir, target, '--keep', '0')).stderr, /--keep/);
});

test('with its secrets, tokens go on; push subscriptions do not', async (t) => {
	const server = await Server.start(t);
	const dir = scratchDir(t);
	await fill(server, 'one');
	const token = (await run(0, 'token', 'create', '--data', server.dataDir, '--role', 'observer', '--session', '*', '--sub', 'me')).stdout.trim();
	const gone = (await run(0, 'token', 'create', '--data', server.dataDir, '--role', 'observer', '--session', '*', '--sub', 'you')).stdout.trim();
	await run(0, 'token', 'revoke', '--sub', 'you', '--data', server.dataDir);
	await run(0, 'backup', server.dataDir, join(dir, 'bare'));
	await run(0, 'backup', server.dataDir, join(dir, 'full'), '--secrets');
	assert.match((await run(2, 'restore', join(dir, 'bare'), join(dir, 'r0'), '--keep-secrets')).stderr, /made without --secrets/);
	const lines = readFileSync(join(newest(join(dir, 'full')), 'access.jsonl'), 'utf8');
	writeFileSync(join(newest(join(dir, 'full')), 'access.jsonl'), `${lines}{"push":{"login":"x"},"xxh":"0"}\n`); // would stop the server
	await run(0, 'restore', join(dir, 'full'), join(dir, 'r1'), '--keep-secrets');
	const other = await startOn(t, join(dir, 'r1'));
	assert.equal(other.token, server.token);
	const status = async (text) => (await fetch(`${other.url}/api/sessions/one`, { headers: { authorization: `Bearer ${text}` } })).status;
	other.url.startsWith('http:') && assert.deepEqual([await status(token), await status(gone)], [200, 401]);
});

test('under load, with a journal that rotates: what was acknowledged before the backup began is in it', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'segment_size=64K', '--limit', 'hold_ms=600s'] });
	const dir = scratchDir(t);
	const ids = ['a', 'b', 'c', 'd'];
	const acked = {};
	let stop = false;
	await Promise.all(ids.map((id) => server.createSession({ id })));
	const load = Promise.all(ids.map(async (id) => {
		for (let n = 0; !stop; n++) {
			const more = n % 20 === 0 ? [input.end(), { type: 'user_prompt', data: { prompt_id: `${id}${n}`, message: 'x' } }] : [];
			await post(server, id, [...more, input.text(`Paragraph ${n} of ${id}. ${'words '.repeat(30)}\n\n- open ${n}`), { type: 'x-n', data: { n } }]);
			acked[id] = n;
		}
	}));
	await eventually(() => ids.every((id) => acked[id] >= 40));
	for (let round = 0; round < 3; round++) {
		const before = { ...acked };
		await run(0, 'backup', server.dataDir, join(dir, 'backups'));
		const to = join(dir, `restored${round}`);
		await run(0, 'restore', join(dir, 'backups'), to);
		await run(0, 'verify', to);
		const other = await startOn(t, to, { args: ['--limit', 'hold_ms=600s'] });
		for (const id of ids) {
			await post(other, id, [input.end()]); // what is held behind open text is there too
			const { events, max_seq: max } = await eventsOf(other, id);
			assert.deepEqual(events.map((e) => e.seq), events.map((e, i) => i + 1));
			const ns = events.filter((e) => e.type === 'x-n').map((e) => e.data.n);
			assert.ok(ns.length >= before[id], `${id}: ${ns.length} of ${before[id]}`);
			assert.deepEqual(ns, ns.map((n, i) => i));
			assert.equal(max, events.length);
		}
		await other.stop();
	}
	stop = true;
	await load;
});

test('killed in the middle, a backup leaves the earlier ones, and a restore can be run again', async (t) => {
	const server = await Server.start(t);
	const dir = scratchDir(t);
	const target = join(dir, 'backups');
	for (let i = 0; i < 30; i++) {
		await server.createSession({ id: `s${i}` });
		await post(server, `s${i}`, [input.text('x'.repeat(20_000)), input.end()]);
	}
	await run(0, 'backup', server.dataDir, target);
	const good = newest(target);
	const halfway = async (args, isHalfway) => {
		const child = spawn(binary(), args, { stdio: 'ignore' });
		const ended = once(child, 'exit');
		await eventually(isHalfway);
		child.kill('SIGKILL');
		return ended;
	};
	await post(server, 's1', [input.text('more'), input.end()]);
	await halfway(['backup', server.dataDir, target], () => readdirSync(target).some((name) => name.endsWith('.partial')));
	await run(0, 'verify', good);
	assert.match((await run(0, 'backup', server.dataDir, target)).stdout, /30 sessions/);
	assert.ok(backups(target).every((name) => !name.endsWith('.partial')));
	const to = join(dir, 'restored');
	await halfway(['restore', target, to], () => existsSync(`${to}.restoring/sessions`));
	await run(0, 'restore', target, to);
	assert.deepEqual(readdirSync(dir).sort(), ['backups', 'restored']);
	assert.match((await run(2, 'restore', target, to)).stderr, /is not empty/);
	assert.match((await run(2, 'restore', join(dir, 'none'), join(dir, 'x'))).stderr, /is not a backup/);
	const other = await startOn(t, to);
	assert.ok((await eventsOf(other, 's1')).events.some((event) => event.data.markdown === 'more'));
});

test('a damaged session does not stop the backup of the others', async (t) => {
	const server = await Server.start(t);
	const dir = scratchDir(t);
	await fill(server, 'good');
	await fill(server, 'bad');
	await server.stop();
	const log = join(server.dataDir, 'sessions/bad/events.jsonl');
	writeFileSync(log, readFileSync(log, 'utf8').replace('"i":1', '"i":7'));
	await server.restart();
	const { stdout } = await run(1, 'backup', server.dataDir, join(dir, 'backups'));
	assert.match(stdout, /sessions\/bad\/events\.jsonl: line 3, .*checksum/);
	await run(1, 'restore', join(dir, 'backups'), join(dir, 'restored'));
	const other = await startOn(t, join(dir, 'restored'));
	assert.equal((await eventsOf(other, 'good')).events.length, 5);
});
