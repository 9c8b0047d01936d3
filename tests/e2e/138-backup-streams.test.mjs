// holdfast backup, restore and verify of raw streams (/v1/stream/), beside a server that writes and deletes them.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { JSON_TYPE, TEXT, ask, producer, readAll } from '../support/raw_streams.mjs';
import { Server, binary, runToEnd, scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

async function run(code, ...args) {
	const done = await runToEnd(args, { timeoutMs: 120_000 });
	assert.equal(done.signal ?? done.code, code, `holdfast ${args.join(' ')}\n${done.stdout}${done.stderr}`);
	return done;
}

const backups = (target) => readdirSync(target).sort();
const newest = (target) => join(target, backups(target).at(-1));

async function put(server, name, { type = TEXT, status = 201, ...more } = {}) {
	const answer = await ask(server, 'PUT', name, { type, ...more });
	assert.equal(answer.status, status, answer.body);
}

async function post(server, name, body, { type = TEXT, ...more } = {}) {
	const answer = await ask(server, 'POST', name, { type, body, ...more });
	assert.ok(answer.status === 200 || answer.status === 204, `${answer.status} ${answer.body}`);
	return answer;
}

const textOf = async (server, name) => (await readAll(server, name)).toString();

/** Each file with its bytes. */
function filesBelow(dir) {
	return Object.fromEntries(readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
		.map(({ parentPath, path, name }) => [join(parentPath ?? path, name), readFileSync(join(parentPath ?? path, name), 'latin1')]));
}

test('streams are in a backup with all that is known of them; those that have not changed are links', async (t) => {
	const server = await Server.start(t);
	const dir = scratchDir(t);
	const target = join(dir, 'backups');
	await run(0, 'backup', server.dataDir, target); // before there is any
	await put(server, 'text', { body: 'one,' });
	await post(server, 'text', 'two,', { headers: producer('p', 3, 0) });
	await put(server, 'json', { type: JSON_TYPE, headers: { 'stream-ttl': '3600' } });
	await post(server, 'json', '[{"a":1},{"b":2}]', { type: JSON_TYPE, headers: { 'stream-closed': 'true' } });
	await put(server, 'fork', { headers: { 'stream-forked-from': '/v1/stream/text' } });
	await post(server, 'fork', 'forked');
	await put(server, 'empty');
	assert.match((await run(0, 'backup', server.dataDir, target)).stdout, /0 sessions with 0 events, 4 streams, .*: clean\n/);
	await post(server, 'text', 'three', { headers: producer('p', 3, 1) });
	await run(0, 'backup', server.dataDir, target);
	assert.match((await run(0, 'verify', server.dataDir)).stdout, /4 streams, .*: clean\n/);

	const [, second, third] = backups(target).map((name) => join(target, name, 'streams/data'));
	const same = readdirSync(second).filter((name) => statSync(join(second, name)).ino === statSync(join(third, name)).ino);
	assert.deepEqual(readdirSync(third).filter((name) => !same.includes(name)).map((name) => readFileSync(join(third, name), 'utf8')), ['one,two,three']);
	assert.equal(same.length, 2);
	assert.ok(readdirSync(second).some((name) => readFileSync(join(second, name), 'utf8') === 'one,two,'));

	const before = filesBelow(target);
	await run(0, 'restore', target, join(dir, 'restored'));
	const other = await Server.start(t, { dataDir: join(dir, 'restored'), cwd: scratchDir(t) });
	assert.equal(await textOf(other, 'text'), 'one,two,three');
	assert.equal(await textOf(other, 'fork'), 'one,two,forked');
	assert.deepEqual(JSON.parse(await textOf(other, 'json')), [{ a: 1 }, { b: 2 }]);
	const { headers } = await ask(other, 'HEAD', 'json');
	assert.deepEqual([headers['stream-closed'], headers['stream-ttl']], ['true', '3600']);
	assert.equal((await post(other, 'text', 'three', { headers: producer('p', 3, 1) })).status, 204); // it is stored
	await post(other, 'text', ',four', { headers: producer('p', 3, 2) });
	assert.equal(await textOf(other, 'text'), 'one,two,three,four');
	assert.equal(await textOf(other, 'empty'), '');
	assert.deepEqual(filesBelow(target), before);
});

test('under load, with a journal that rotates and streams that are made and deleted: all that was acknowledged before is there', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'segment_size=64K'] });
	const dir = scratchDir(t);
	const ids = ['a', 'b', 'c'];
	const acked = { a: 0, b: 0, c: 0 };
	const filler = 'x'.repeat(2000);
	const line = (id, n) => `${id} ${n} ${filler}\n`;
	const whole = (id, count) => Array.from({ length: count }, (_, n) => line(id, n)).join('');
	let stop = false;
	const gone = [];
	const doomed = 'to be deleted '.repeat(2000);
	await Promise.all(ids.map((id) => put(server, id)));
	const load = Promise.all(ids.map(async (id) => {
		for (let n = 0; !stop; n++) {
			await post(server, id, line(id, n), { headers: producer('p', 0, n) });
			acked[id] = n + 1;
		}
	}));
	// Some forty are there at any time; the oldest goes.
	const churn = (async () => {
		for (let n = 0; !stop; n++) {
			await put(server, `gone-${n}`, { body: doomed });
			if (n >= 40) {
				assert.equal((await ask(server, 'DELETE', `gone-${n - 40}`)).status, 204);
				gone.push(n - 40);
			}
		}
	})();
	await eventually(() => gone.length && ids.every((id) => acked[id] >= 40));
	let during = 0;
	for (let round = 0; round < 3; round++) {
		const before = { ...acked };
		const deleted = gone.length;
		await run(0, 'backup', server.dataDir, join(dir, 'backups'));
		during += gone.length - deleted;
		const to = join(dir, `restored${round}`);
		await run(0, 'verify', server.dataDir);
		await run(0, 'restore', join(dir, 'backups'), to);
		const other = await Server.start(t, { dataDir: to, cwd: scratchDir(t) });
		for (const id of ids) {
			const text = await textOf(other, id);
			const count = text.split('\n').length - 1;
			assert.ok(count >= before[id], `${id}: ${count} of ${before[id]}`);
			assert.ok(text === whole(id, count), `${id} is as it was`);
			assert.equal((await post(other, id, line(id, count), { headers: producer('p', 0, count) })).status, 200);
		}
		for (let n = 0; n < deleted; n++) {
			assert.equal((await ask(other, 'HEAD', `gone-${n}`)).status, 404, `gone-${n}`);
		}
		const left = [];
		for (let n = deleted; n < deleted + 40; n++) {
			const { status, body } = await ask(other, 'GET', `gone-${n}`, { query: { offset: '-1' } });
			assert.ok(status === 404 || (status === 200 && body === doomed), `gone-${n}: ${status}`);
			left.push(status);
		}
		assert.deepEqual(left, [...left].sort((x, y) => y - x), 'those that went first are gone');
		assert.ok(!readdirSync(join(to, 'streams/data')).some((name) => !statSync(join(to, 'streams/data', name)).size));
		await run(0, 'verify', to);
		await other.stop();
	}
	stop = true;
	await Promise.all([load, churn]);
	assert.ok(during > 0, 'streams were deleted during backups');
});

/** A backup that has been stopped when it had begun with the files of streams; null: it was faster than we. */
async function haltedBackup(server, target) {
	const child = spawn(binary(), ['backup', server.dataDir, target], { stdio: ['ignore', 'pipe', 'inherit'] });
	let text = '';
	child.stdout.on('data', (bytes) => {
		text += bytes;
	});
	const ended = once(child, 'exit').then(([code, signal]) => ({ code: signal ?? code, text }));
	const partial = () => readdirSync(target).find((name) => name.endsWith('.partial'));
	const copied = () => {
		const dir = join(target, partial() ?? 'none', 'streams/data');
		return existsSync(dir) ? readdirSync(dir).length : 0;
	};
	while (child.exitCode === null && !copied()) {
		await new Promise((resolve) => { setImmediate(resolve); });
	}
	child.kill('SIGSTOP');
	await eventually(() => child.exitCode !== null || readFileSync(`/proc/${child.pid}/stat`, 'latin1').includes(') T '));
	const isCaught = child.exitCode === null && copied() === 1;
	const goOn = () => {
		child.kill('SIGCONT');
		return ended;
	};
	if (!isCaught) {
		await goOn();
	}
	return isCaught ? goOn : null;
}

for (const [what, isOver] of [
	['another segment has begun', (now, before) => now.at(-1) > before.at(-1)],
	['all segments have been replaced', (now, before) => now[0] > before.at(-1) && now.length === 1],
]) {
	test(`streams are deleted while a backup stands still and ${what}`, async (t) => {
		const server = await Server.start(t, { args: ['--limit', 'segment_size=64K'] });
		const dir = scratchDir(t);
		const target = join(dir, 'backups');
		mkdirSync(target);
		const segments = () => readdirSync(join(server.dataDir, 'streams/journal')).sort();
		await put(server, 'bulk'); // copied first
		for (let i = 0; i < 16; i++) {
			await post(server, 'bulk', 'bulk '.repeat(200_000));
		}
		for (const name of ['stays', 'goes', 'goes-later']) {
			await put(server, name, { body: name });
		}
		let goOn = null;
		for (let i = 0; !goOn && i < 50; i++) {
			goOn = await haltedBackup(server, target);
			await post(server, 'bulk', 'more'); // not a link the next time
		}
		assert.ok(goOn, 'it was halted in time');
		const before = segments();
		assert.equal((await ask(server, 'DELETE', 'goes')).status, 204);
		await put(server, 'made', { body: 'made' });
		do {
			await post(server, 'stays', 'x'.repeat(40_000));
		} while (!isOver(segments(), before));
		assert.equal((await ask(server, 'DELETE', 'goes-later')).status, 204);
		await post(server, 'made', ' later');
		const { code, text } = await goOn();
		assert.equal(code, 0, text);
		await run(0, 'restore', target, join(dir, 'restored'));
		const other = await Server.start(t, { dataDir: join(dir, 'restored'), cwd: scratchDir(t) });
		for (const name of ['bulk', 'stays', 'made']) {
			assert.ok(await textOf(other, name) === await textOf(server, name), name);
		}
		for (const name of ['goes', 'goes-later']) {
			assert.equal((await ask(other, 'HEAD', name)).status, 404, name);
		}
	});
}

test('killed in the middle, backup and restore can be run again', async (t) => {
	const server = await Server.start(t);
	const dir = scratchDir(t);
	const target = join(dir, 'backups');
	const text = 'words '.repeat(200_000);
	for (let i = 0; i < 20; i++) {
		await put(server, `s${i}`, { body: `${i} ${text}` });
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
	for (let i = 0; i < 20; i++) {
		await post(server, `s${i}`, 'more');
	}
	await halfway(['backup', server.dataDir, target],
		() => readdirSync(target).some((name) => name.endsWith('.partial') && existsSync(join(target, name, 'streams'))));
	assert.match((await run(0, 'verify', good)).stdout, /20 streams/);
	assert.match((await run(0, 'backup', server.dataDir, target)).stdout, /20 streams/);
	assert.ok(backups(target).every((name) => !name.endsWith('.partial')));
	const to = join(dir, 'restored');
	await halfway(['restore', target, to], () => existsSync(`${to}.restoring/streams`) || existsSync(to));
	if (!existsSync(to)) {
		await run(0, 'restore', target, to);
	}
	const other = await Server.start(t, { dataDir: to, cwd: scratchDir(t) });
	for (let i = 0; i < 20; i++) {
		assert.ok(await textOf(other, `s${i}`) === `${i} ${text}more`);
	}
});

test('verify tells of bytes that are missing and of a damaged journal, and changes nothing; a backup has the others', async (t) => {
	const server = await Server.start(t);
	const dir = scratchDir(t);
	const streams = join(server.dataDir, 'streams');
	await put(server, 'good', { body: 'good' });
	await put(server, 'bad', { body: 'longer than the other one' });
	await server.stop();
	await server.restart(); // the journal begins anew, and the bytes are in the files alone
	await eventually(() => readdirSync(join(streams, 'journal')).length === 1);
	await server.stop();
	const bad = readdirSync(join(streams, 'data')).find((name) => readFileSync(join(streams, 'data', name), 'utf8').startsWith('longer'));
	truncateSync(join(streams, 'data', bad), 5);
	const before = filesBelow(server.dataDir);
	const missing = new RegExp(`^streams/data/${bad}: it is too short; bytes of stream bad are missing$`, 'm');
	assert.match((await run(1, 'verify', server.dataDir)).stdout, missing);
	assert.deepEqual(filesBelow(server.dataDir), before);
	assert.match((await run(1, 'backup', server.dataDir, join(dir, 'backups'))).stdout, missing);
	await run(1, 'restore', join(dir, 'backups'), join(dir, 'restored'));
	const other = await Server.start(t, { dataDir: join(dir, 'restored'), cwd: scratchDir(t) });
	assert.equal(await textOf(other, 'good'), 'good');
	assert.equal((await ask(other, 'DELETE', 'bad')).status, 204);
	await put(other, 'new', { body: 'new' });
	await post(other, 'new', 'newer');
	await other.stop();
	await run(0, 'verify', other.dataDir);

	const journal = join(other.dataDir, 'streams/journal');
	const segment = join(journal, readdirSync(journal).sort().at(-1));
	const bytes = readFileSync(segment);
	writeFileSync(segment, bytes.subarray(0, -3)); // as a crash leaves it
	assert.match((await run(0, 'verify', other.dataDir)).stdout, /^note: streams\/journal\/.*: \d+ bytes behind the last batch do not count/m);
	const at = bytes.indexOf('new');
	writeFileSync(segment, Buffer.concat([bytes.subarray(0, at), Buffer.from('old'), bytes.subarray(at + 3)]));
	assert.match((await run(1, 'verify', other.dataDir)).stdout, /^streams: streams\/journal\/.* is damaged at byte \d+, but whole batches follow$/m);
});
