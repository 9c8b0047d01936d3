// What lies in a data directory or a backup and is no file of ours: a link, a pipe, a device, a directory, a file of 8 GiB. Every name
// in there, every such thing in its place, and every command: nothing hangs, nothing outside is read, changed or made, and what is
// refused is refused in words.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, linkSync, lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { download, mustUpload, png } from '../support/blobs.mjs';
import { partOf } from '../support/part.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { TEXT, ask } from '../support/raw_streams.mjs';
import { Server, binary, runToEnd, scratchDir } from '../support/server.mjs';
import { patience, within } from '../support/wait.mjs';

const SECRET = 'what-only-the-operator-may-read';
const LIMIT_MS = 30_000 * patience;

/** A data directory with a file of each kind, and a backup of it. */
async function makeTemplate(t) {
	const dir = scratchDir(t);
	const server = await Server.start(t, { args: ['--limit', 'segment_size=64K'] });
	await server.createSession({ id: 's' });
	await post(server, 's', [...Array(20).keys()].map((n) => ({ ...input.note({ n, text: 'x'.repeat(900) }), key: `k${n}` })));
	await mustUpload(server, 's', png());
	await server.createSession({ id: 'other' });
	await post(server, 'other', [input.text('Well.\n\n')]);
	await ask(server, 'PUT', 'a', { type: TEXT, body: 'bytes of a stream' });
	await server.stop();
	await server.up(); // so that metadata.json and the rest say all
	await (await fetch(`${server.url}/api/sessions/s/events?limit=100`, { headers: { authorization: `Bearer ${server.token}` } })).text();
	const { code, stderr } = await runToEnd(['backup', server.dataDir, join(dir, 'backups'), '--secrets']);
	assert.equal(code, 0, stderr);
	await server.stop();
	mkdirSync(join(server.dataDir, 'uploads'), { recursive: true });
	for (const name of ['webhooks.jsonl', 'uploads/1', 'url', 'access.jsonl']) {
		existsSync(join(server.dataDir, name)) || writeFileSync(join(server.dataDir, name), '');
	}
	return { data: server.dataDir, backup: join(dir, 'backups', readdirSync(join(dir, 'backups'))[0]), token: server.token };
}

/** All paths below a directory; links are not followed. */
function walk(top, below = '') {
	return readdirSync(join(top, below), { withFileTypes: true }).flatMap((entry) => {
		const name = join(below, entry.name);
		return entry.isDirectory() ? [name, ...walk(top, name)] : [name];
	});
}

/** All names below a directory, and some that programs make there. */
function namesIn(top) {
	const names = walk(top);
	const made = names.filter((name) => /metadata\.json$|access\.jsonl$|^url$|^clock\.json$|^webhooks\.jsonl$|events\.jsonl$/.test(name)).map((name) => `${name}.new`);
	return [...names, ...made, 'trash', 'set-aside', 'repair'].filter((name, i, all) => all.indexOf(name) === i && !/^workspace/.test(name)).sort();
}

const THINGS = {
	link: (path, outside) => symlinkSync(join(outside, 'private'), path),
	'link to a directory': (path, outside) => symlinkSync(join(outside, 'folder'), path),
	dangling: (path, outside) => symlinkSync(join(outside, 'nothing'), path),
	pipe: (path) => execFileSync('mkfifo', [path]),
	directory: (path) => mkdirSync(path),
	device: (path) => execFileSync('mknod', [path, 'c', '1', '5']),
	'8 GiB': (path) => {
		writeFileSync(path, '');
		truncateSync(path, 8 * 2 ** 30);
	},
	'second name': (path, outside) => linkSync(join(outside, 'private'), path),
};

function canMakeDevices(t) {
	try {
		THINGS.device(join(scratchDir(t), 'zero'));
		return true;
	} catch {
		return false;
	}
}

/** Everything outside, as it has to stay: contents, links and times. */
function look(outside) {
	return JSON.stringify(walk(outside).sort().map((name) => {
		const path = join(outside, name);
		const st = lstatSync(path);
		return [name, st.isFile() ? [readFileSync(path, 'utf8'), st.mtimeMs, st.mode] : st.isSymbolicLink() ? readlinkSync(path) : 'folder'];
	}));
}

/** The files below a directory that have the secret. */
function leaked(top) {
	return !existsSync(top) ? [] : walk(top).filter((name) => {
		const st = lstatSync(join(top, name));
		return st.isFile() && st.size < 1 << 20 && readFileSync(join(top, name), 'latin1').includes(SECRET);
	});
}

async function serve(dir, token, out, args = []) {
	const child = spawn(binary(), ['serve', '--listen', '127.0.0.1:0', '--data', dir, '--web', '', ...args], { cwd: dirname(dir), stdio: ['ignore', 'ignore', 'pipe'] });
	const closed = once(child, 'close');
	try {
		const url = await within(Promise.race([closed.then(() => null), new Promise((resolve) => child.stderr.on('data', (text) => {
			out.text += text;
			const [, found] = /listening on (\S+)/.exec(out.text) ?? [];
			found && resolve(found);
		}))]), LIMIT_MS, () => `the server to listen\n${out.text}`);
		if (url) {
			for (const path of ['/api/sessions', '/api/sessions/s', '/api/sessions/s/events?limit=100', `/api/sessions/s/blobs/${out.blob}`, '/v1/stream/a?offset=-1', '/readyz']) {
				const answer = await fetch(url + path, { headers: { authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(LIMIT_MS) });
				out.text += await answer.text();
			}
		}
		child.kill('SIGTERM');
		const [code, signal] = await within(closed, LIMIT_MS, () => `the server to end\n${out.text}`);
		return signal ?? code;
	} finally {
		child.kill('SIGKILL');
	}
}

const COMMANDS = {
	start: (place) => serve(place.dir, place.token, place.out),
	verify: ['verify', 'DIR'],
	repair: ['repair', 'DIR'],
	export: ['export', 'DIR', 's'],
	backup: ['backup', 'DIR', 'TO', '--secrets'],
	restore: ['restore', 'DIR', 'TO', '--keep-secrets'],
	upgrade: ['upgrade', 'DIR'],
	'new-epoch': ['new-epoch', 'DIR'],
	token: ['token', 'list', '--data', 'DIR'],
};

async function run(command, place) {
	const words = COMMANDS[command];
	if (typeof words === 'function') {
		return words(place);
	}
	const done = await runToEnd(words.map((word) => ({ DIR: place.dir, TO: place.to })[word] ?? word), { timeoutMs: LIMIT_MS });
	place.out.text += done.stdout + done.stderr;
	assert.doesNotMatch(done.stderr, /AddressSanitizer|runtime error/);
	done.code !== 0 && assert.ok(done.stderr.trim() || done.stdout.trim(), 'it says why');
	return done.signal ?? done.code;
}

async function tryOne(t, template, { name, thing, command }) {
	const top = scratchDir(t);
	const outside = join(top, 'outside');
	mkdirSync(join(outside, 'folder'), { recursive: true });
	writeFileSync(join(outside, 'private'), `${SECRET}\n`);
	writeFileSync(join(outside, 'folder', '1'), `${SECRET}\n`);
	writeFileSync(join(outside, 'folder', 'events.jsonl'), `${SECRET}\n`);
	const dir = join(top, 'data');
	cpSync(command === 'restore' ? template.backup : template.data, dir, { recursive: true, preserveTimestamps: true });
	const path = join(dir, name);
	rmSync(path, { recursive: true, force: true });
	mkdirSync(dirname(path), { recursive: true });
	THINGS[thing](path, outside);
	const before = look(outside);
	const place = { dir, to: join(top, 'to'), token: template.token, out: { text: '', blob: template.blob } };
	const what = `${command} with ${thing} at ${name}`;
	const code = await run(command, place).catch((error) => assert.fail(`${what}: ${error.stack}`));
	assert.ok(Number.isInteger(code), `${what}: ${code}\n${place.out.text}`);
	assert.equal(look(outside), before, `${what}: nothing outside changes\n${place.out.text}`);
	assert.ok(!place.out.text.includes(SECRET), `${what}: nothing outside is told\n${place.out.text}`);
	if (thing !== 'second name') { // a file with two names is inside, too: backups share files so
		assert.deepEqual(leaked(place.to), [], `${what}: nothing outside is copied`);
		assert.deepEqual(leaked(dir), [], `${what}: nothing outside is taken in`);
	}
	rmSync(top, { recursive: true });
	return [code, place.out.text];
}

test('every name, everything foreign in its place, every command', { timeout: 3_600_000 }, async (t) => {
	const template = await makeTemplate(t);
	template.blob = readdirSync(join(template.data, 'sessions/s/blobs'))[0];
	const devices = canMakeDevices(t);
	const cases = [];
	for (const command of Object.keys(COMMANDS)) {
		for (const name of namesIn(command === 'restore' ? template.backup : template.data)) {
			for (const thing of Object.keys(THINGS)) {
				(devices || thing !== 'device') && cases.push({ command, name, thing });
			}
		}
	}
	assert.ok(cases.length > 1500, String(cases.length));
	for (const each of partOf(cases)) {
		await tryOne(t, template, each);
	}
});

test('what is refused is said in words', async (t) => {
	const template = await makeTemplate(t);
	template.blob = readdirSync(join(template.data, 'sessions/s/blobs'))[0];
	const cases = [
		['start', 'lock', 'link', 1, /lock: it is a symbolic link/], ['start', 'lock', 'pipe', 1, /lock: it is neither a file nor a directory/],
		['start', 'lock', 'second name', 1, /lock: it has a second name/], ['start', 'access-token', 'link', 1, /access-token.*it is a symbolic link/],
		['start', 'access.jsonl', '8 GiB', 1, /access\.jsonl.*it is too large/], ['start', `sessions/s/blobs/${template.blob}`, 'link', 0, /"blob_damaged"/],
		['start', `sessions/s/blobs/${template.blob}`, '8 GiB', 0, /"blob_damaged"/], ['start', 'sessions', 'link to a directory', 1, /Not a directory, or a link to one/],
		['verify', `sessions/s/blobs/${template.blob}`, 'link', 1, /it cannot be read: it is a symbolic link/], ['verify', 'sessions/s/metadata.json', 'pipe', 1, /metadata\.json: .*neither a file nor a directory/],
		['repair', `sessions/s/blobs/${template.blob}`, 'link', 1, /was moved to set-aside/], ['export', 'sessions/s/events.jsonl', 'link', 2, /symbolic link/],
		['backup', 'sessions/s/events.jsonl', 'link', 2, /events\.jsonl cannot be copied: it is a symbolic link/], ['backup', `sessions/s/blobs/${template.blob}`, 'pipe', 1, /is left out of the copy: it is neither/],
		['backup', 'access.jsonl', 'link', 2, /access\.jsonl cannot be copied: it is a symbolic link/], ['restore', `sessions/s/blobs/${template.blob}`, 'link', 1, /is left out of the copy: it is a symbolic link/],
		['restore', 'sessions/s/events.jsonl', 'dangling', 2, /it is a symbolic link/], ['restore', 'streams', 'link to a directory', 2, /streams cannot be copied/],
	];
	const wrong = [];
	for (const [command, name, thing, code, words] of cases) {
		const [found, text] = await tryOne(t, template, { command, name, thing });
		if (found !== code || !words.test(text)) {
			wrong.push(`${command} with ${thing} at ${name}: ${found}, not ${code} and ${words}\n${text}`);
		}
	}
	assert.equal(wrong.join('\n'), '');
});

test('what the operator named may be a link, or a pipe', async (t) => {
	const dir = scratchDir(t);
	const server = await Server.start(t);
	await server.createSession({ id: 's' });
	const { blob } = await mustUpload(server, 's', png());
	await server.stop();
	symlinkSync(server.dataDir, join(dir, 'data'));
	mkdirSync(join(dir, 'place'));
	symlinkSync(join(dir, 'place'), join(dir, 'target'));
	assert.equal((await runToEnd(['verify', join(dir, 'data')])).code, 0);
	assert.equal((await runToEnd(['backup', join(dir, 'data'), join(dir, 'target')])).code, 0);
	symlinkSync(join(dir, 'place'), join(dir, 'from'));
	assert.equal((await runToEnd(['restore', join(dir, 'from'), join(dir, 'restored')])).code, 0);
	writeFileSync(join(dir, 'real.conf'), 'limit = sessions=3\n');
	symlinkSync('real.conf', join(dir, 'link.conf'));
	const again = await Server.start(t, { dataDir: join(dir, 'data'), args: ['--config', join(dir, 'link.conf')] });
	assert.ok((await download(again, 's', blob)).bytes.equals(png()));
});

const postgres = Postgres.start({ after });

test('a migration takes nothing from outside, and writes nothing there', { timeout: 3_600_000 }, async (t) => {
	const template = await makeTemplate(t);
	template.blob = readdirSync(join(template.data, 'sessions/s/blobs'))[0];
	rmSync(join(template.data, 'streams'), { recursive: true });
	let made = 0;
	const cases = [];
	for (const name of namesIn(template.data)) {
		for (const thing of ['link', 'dangling', 'pipe', 'link to a directory', '8 GiB']) {
			cases.push({ name, thing });
		}
	}
	for (const each of partOf(cases)) {
		const database = `foreign${(made += 1)}`;
		postgres.address(database);
		COMMANDS.migrate = ['migrate', 'DIR', postgres.url(database)];
		await tryOne(t, template, { ...each, command: 'migrate' });
		const told = postgres.ask(database, "SELECT count(*) FROM pg_tables WHERE tablename = 'holdfast_blob'") === '0' ? '0'
			: postgres.ask(database, `SELECT (SELECT count(*) FROM holdfast_blob WHERE position('${SECRET}'::bytea IN bytes) > 0) + (SELECT count(*) FROM holdfast_event WHERE line LIKE '%${SECRET}%')`);
		assert.equal(told, '0', JSON.stringify(each));
		postgres.ask('postgres', `DROP DATABASE ${database}`);
	}
});
