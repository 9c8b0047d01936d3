// The commands beside `serve`: verify, export, new-epoch and replay, each on what a real server has written.

import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { corpusFiles, makeRecording } from '../support/recording.mjs';
import { Server, binary, runToEnd, scratchDir } from '../support/server.mjs';

const COMMANDS = ['verify', 'export', 'new-epoch', 'replay'];

/** Runs a command; asserts how it ends. Gives {stdout, stderr}. */
async function run(code, ...args) {
	const done = await runToEnd(args);
	assert.equal(done.signal ?? done.code, code, `holdfast ${args.join(' ')}\n${done.stdout}${done.stderr}`);
	return done;
}

const lines = (text) => text.split('\n').filter(Boolean);

/** A log without its times. */
const untimed = (log) => log.map(({ ts, ...event }) => event);

test('every command tells what it does, and refuses what it does not know', async () => {
	const { stdout } = await run(0, '--help');
	for (const command of ['serve', 'limits', ...COMMANDS]) {
		assert.match(stdout, new RegExp(`^ {2}${command} `, 'm'));
	}
	for (const command of COMMANDS) {
		assert.match((await run(0, command, '--help')).stdout, new RegExp(`^Usage: holdfast ${command} `));
		assert.match((await run(2, command)).stderr, /an argument is missing; usage: /);
		assert.match((await run(2, command, 'a', 'b', 'c')).stderr, /unexpected argument [bc]; usage: /);
		assert.match((await run(2, command, '--colour')).stderr, /unknown option --colour; usage: /);
	}
	assert.match((await run(2, 'replay', 'x', '--url')).stderr, /--url needs a value/);
});

// --- verify ---

/**
 * A data directory as kill -9 leaves it: `done` has ended its turn, `open` stands in the middle of a list with a
 * tool held behind it.
 */
async function crashedDir(t) {
	const server = await Server.start(t, { args: ['--limit', 'hold_ms=600s'] });
	await server.createSession({ id: 'done' });
	await post(server, 'done', [input.text('One.\n\nTwo.\n\n'), { type: 'user_prompt', data: { prompt_id: 'p1', message: 'more' } }, input.end()]);
	// All of that is certain now, and the journal begins anew.
	await server.stop();
	await server.restart();
	await server.createSession({ id: 'open' });
	await post(server, 'open', [input.text('First.\n\n- a\n- b')]);
	await post(server, 'open', [input.tool('t1')]);
	await server.kill9();
	return server.dataDir;
}

const segmentOf = (dir) => join('journal', readdirSync(join(dir, 'journal')).sort().at(-1));

/** Where the zeros begin that a running server has behind the journal's last batch. */
const endOf = (bytes) => bytes.findLastIndex((byte) => byte !== 0) + 1;

/** Changes a file: `change` is given its bytes, and gives others or changes them. */
function edit(dir, file, change) {
	const bytes = readFileSync(join(dir, file));
	writeFileSync(join(dir, file), change(bytes) ?? bytes);
}

const LOG = 'sessions/done/events.jsonl';
const META = 'sessions/done/metadata.json';
const at = (bytes, text) => {
	const place = bytes.indexOf(text);
	assert.notEqual(place, -1, `${text} is in the file`);
	return place;
};

const DAMAGE = {
	'a changed byte in a line of the log': [
		(dir) => edit(dir, LOG, (b) => void (b[at(b, 'Two.')] ^= 1)),
		[/^sessions\/done\/events\.jsonl: line 2, byte \d+: the checksum is wrong, .*expected seq 2$/],
	],
	'a line that is missing': [
		(dir) => edit(dir, LOG, (b) => b.toString().split('\n').filter((_, i) => i !== 1).join('\n')),
		[/^sessions\/done\/events\.jsonl: line 2, byte \d+: expected seq 2, found 3$/],
	],
	'a line that is there twice': [
		(dir) => edit(dir, LOG, (b) => b.toString().split('\n').flatMap((l, i) => (i === 1 ? [l, l] : [l])).join('\n')),
		[/^sessions\/done\/events\.jsonl: line 3, byte \d+: expected seq 3, found 2$/],
	],
	'a log that ends before what is certain': [
		(dir) => truncateSync(join(dir, LOG), at(readFileSync(join(dir, LOG)), '{"seq":4')),
		[/^sessions\/done\/events\.jsonl: it ends with seq 3; metadata\.json says that 4 is certain$/],
	],
	'a log that is gone': [(dir) => rmSync(join(dir, LOG)), [/^sessions\/done\/events\.jsonl: it ends with seq 0; /]],
	'metadata.json that is gone': [
		(dir) => rmSync(join(dir, META)),
		[/^sessions\/done\/metadata\.json: No such file or directory$/],
	],
	'metadata.json with another title': [
		(dir) => edit(dir, META, (bytes) => bytes.toString().replace('"title":"', '"title":"x')),
		[/^sessions\/done\/metadata\.json: its checksum is wrong$/],
	],
	'a changed byte in the index': [
		(dir) => edit(dir, 'sessions/done/events.index', (b) => void (b[32 + 8] ^= 1)),
		[/^sessions\/done\/events\.index: the entry of seq 2 says that its line starts at byte \d+, but it starts at byte \d+$/],
	],
	'names that are gone': [
		(dir) => rmSync(join(dir, 'sessions/done/keys.jsonl')),
		[/^sessions\/done\/keys\.jsonl: it has 0 bytes; metadata\.json says that \d+ are certain$/],
	],
	'a changed byte in a record of the journal': [
		(dir) => edit(dir, segmentOf(dir), (b) => void (b[at(b, '- a')] ^= 1)),
		[/^journal\/[0-9a-f]{16}\.journal: byte \d+: the checksum of a record of session open is wrong; /],
	],
	'a changed byte in the header of a batch': [
		(dir) => edit(dir, segmentOf(dir), (b) => void (b[48 + 5] ^= 1)),
		[/^journal\/[0-9a-f]{16}\.journal: byte 48: the checksum of a batch's header or trailer is wrong; /],
	],
	'a changed byte in the trailer of a batch': [
		(dir) => edit(dir, segmentOf(dir), (b) => void (b[b.indexOf('HFBT', 60) - 3] ^= 1)),
		[/^journal\/[0-9a-f]{16}\.journal: byte 48: the checksum of a batch's header or trailer is wrong; /],
	],
	'the header of the only segment': [
		(dir) => edit(dir, segmentOf(dir), (b) => void (b[30] ^= 1)),
		[/^journal\/[0-9a-f]{16}\.journal: its header is damaged$/],
	],
	'a changed byte in the last batch': [
		(dir) => edit(dir, segmentOf(dir), (b) => void (b[endOf(b) - 1] ^= 1)),
		[/^journal\/[0-9a-f]{16}\.journal: byte \d+: the last batch is damaged\. /],
	],
};

for (const [name, [spoil, expected]] of Object.entries(DAMAGE)) {
	test(`verify: ${name}`, async (t) => {
		const dir = await crashedDir(t);
		spoil(dir);
		const { stdout } = await run(1, 'verify', dir);
		const told = lines(stdout).filter((line) => !line.startsWith('note: ')).slice(0, -1);
		assert.equal(told.length, expected.length, stdout);
		expected.forEach((pattern, i) => assert.match(told[i], pattern));
		assert.match(lines(stdout).at(-1), /: 1 problem$/);
	});
}

test('verify: what a crash leaves is told as a note', async (t) => {
	const dir = await crashedDir(t);
	assert.match((await run(0, 'verify', dir)).stdout, /^2 sessions with 5 events, 1 journal segment with \d+ records: clean\n$/);
	appendFileSync(join(dir, LOG), '{"seq":5,"type"');
	const segment = join(dir, segmentOf(dir));
	truncateSync(segment, endOf(readFileSync(segment)) - 1);
	rmSync(join(dir, 'sessions/open'), { recursive: true });
	mkdirSync(join(dir, 'sessions/half'));
	writeFileSync(join(dir, 'sessions/half/events.jsonl'), '');
	const before = snapshotOf(dir);
	const { stdout } = await run(0, 'verify', dir);
	assert.match(stdout, /^note: journal\/\S+: byte \d+: an incomplete batch/m);
	assert.match(stdout, /^note: sessions\/half\/metadata\.json: an incomplete session/m);
	assert.match(stdout, /^note: sessions\/done\/events\.jsonl: the last line is incomplete; .* these 15 bytes$/m);
	assert.match(stdout, /^note: journal\/\S+: byte \d+: session open has no folder; the next start of the server makes it from the journal$/m);
	assert.match(stdout, /: clean\n$/);
	assert.deepEqual(snapshotOf(dir), before, 'nothing is changed');
});

test('verify: a session that only the journal speaks of', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'open' });
	await post(server, 'open', [input.text('- a\n- b')]);
	// After a restart the journal has the state of the session, and no longer that it was made.
	await server.stop();
	await server.restart();
	await server.stop();
	rmSync(join(server.dataDir, 'sessions/open'), { recursive: true });
	const { stdout } = await run(1, 'verify', server.dataDir);
	assert.match(stdout, /^journal\/\S+: byte \d+: the record is of session open, which does not exist\n0 sessions .*: 1 problem\n$/);
});

function snapshotOf(dir) {
	return readdirSync(dir, { recursive: true, withFileTypes: true }).filter((e) => e.isFile())
		.map((e) => [join(e.path, e.name), readFileSync(join(e.path, e.name), 'latin1')]).sort();
}

test('verify: one session, none, and no data directory', async (t) => {
	const dir = await crashedDir(t);
	edit(dir, LOG, (b) => void (b[at(b, 'Two.')] ^= 1));
	assert.match((await run(0, 'verify', dir, 'open')).stdout, /^1 session with 1 event, /);
	await run(1, 'verify', dir, 'done');
	assert.match((await run(2, 'verify', dir, 'other')).stderr, /there is no session other in /);
	assert.match((await run(2, 'verify', join(dir, 'journal'))).stderr, /it has no sessions\/ and journal\/ /);
	assert.match((await run(2, 'verify', join(dir, 'nowhere'))).stderr, /No such file or directory/);
	assert.ok(!existsSync(join(dir, 'nowhere')));
});

test('verify: a file that is damaged throughout is told of in a few lines', async (t) => {
	const dir = await crashedDir(t);
	edit(dir, LOG, () => 'no event\n'.repeat(5000));
	const { stdout } = await run(1, 'verify', dir);
	assert.equal(lines(stdout).length, 12);
	assert.match(lines(stdout).at(-2), /: and 4990 more problems in the same file$/);
	assert.match(lines(stdout).at(-1), /: 5000 problems$/);
});

test('verify: on a terminal a bar shows how far it is', async (t) => {
	const dir = await crashedDir(t);
	const { stdout, status } = spawnSync('script', ['-qec', `${binary()} verify ${dir}`, '/dev/null'], { encoding: 'utf8' });
	assert.equal(status, 0, stdout);
	assert.match(stdout, /\r\x1b\[K\[\.{24}\] +0% {2}0 B\/s {2}0:00 left\r/);
	assert.match(stdout, /\r\x1b\[K\[#{24}\] 100% {2}[\d.]+ [KMG]?i?B\/s {2}0:00 left\r\n/);
	assert.doesNotMatch((await run(0, 'verify', dir)).stderr, /%/);
});

test('verify beside a server that writes finds nothing wrong', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'segment_size=4K'] });
	const { appends } = makeRecording({ seed: 5, turns: 8 });
	let writing = true;
	const writers = ['a', 'b'].map(async (id) => {
		await server.createSession({ id });
		for (const events of appends) {
			await post(server, id, events);
		}
		const { status } = await server.request('DELETE', `/api/sessions/${id}`);
		assert.equal(status, 204);
	});
	const all = Promise.all(writers).finally(() => (writing = false));
	let rounds = 0;
	while (writing || rounds === 0) {
		const { stdout } = await run(0, 'verify', server.dataDir);
		assert.match(stdout, /^\d+ sessions? with \d+ events?, .*: clean\n$/);
		rounds++;
	}
	await all;
});

// --- export ---

test('export: JSON lines are the events as the protocol has them', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const { appends } = makeRecording({ seed: 2, turns: 3 });
	await post(server, id, appends.flat());
	const log = readLog(server, id);
	const exported = async (...args) => lines((await run(0, 'export', server.dataDir, id, ...args)).stdout).map((l) => JSON.parse(l));
	assert.deepEqual(await exported(), log);
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000&format=markdown`);
	assert.deepEqual(await exported('--format=jsonl'), body.events);
	assert.deepEqual(await exported('--after', '7'), log.slice(7));
	assert.deepEqual(await exported('--after', String(log.length)), []);
	await server.stop();
	assert.deepEqual(await exported(), log);
});

test('export: what it cannot do', async (t) => {
	const dir = await crashedDir(t);
	assert.match((await run(2, 'export', dir, 'other')).stderr, /there is no log of a session other/);
	assert.match((await run(2, 'export', dir, '../sessions/done')).stderr, /there is no log of a session /);
	assert.match((await run(2, 'export', dir, 'done', '--format', 'pdf')).stderr, /--format "pdf" is not jsonl\|markdown/);
	assert.match((await run(2, 'export', dir, 'done', '--after', '-1')).stderr, /--after "-1" is not SEQ/);
	edit(dir, LOG, (b) => void (b[at(b, 'Two.')] ^= 1));
	const { stdout, stderr } = await run(1, 'export', dir, 'done');
	assert.deepEqual(lines(stdout).map((l) => JSON.parse(l).seq), [1, 3, 4]);
	assert.match(stderr, /line 2 of the log is damaged and left out/);
});

const TRANSCRIPT = `# A \\*known\\* session

## Prompt, TIME, by ann

Do it.

## Answer, TIME

> Let me think.
>
> Twice, and once more.

**Plan:**

- [x] look
- [ ] write (in progress)
- [ ] rest

A paragraph.

| a | b |
|---|---|
| 1 | 2 |
| 3 | 4 |

**Tool:** Read \\*all\\* files (read): completed

**File:** read src/a.c (12 bytes)

**Permission:** Delete it: Yes, by bob

**Permission:** Sing: cancelled

The end of turn one.

**x-build:** \`{"ok":true}\`

## Answer, TIME

Bell\uFFFD and no colour\uFFFD[31m.

**The turn ended:** error: It \\*broke\\*.
`;

/** A session with one of everything, and the table cut in two with a tool held behind its first part. */
async function knownSession(t, server) {
	await server.createSession({ id: 'known', title: 'A *known* session' });
	const plan = (...entries) => ({ type: 'plan', data: { entries: entries.map(([content, status]) => ({ content, priority: 'medium', status })) } });
	const ask = (id, title) => ({
		type: 'permission_request',
		data: { request_id: id, tool_call: { tool_call_id: 'x', title }, options: [{ option_id: 'y', name: 'Yes' }, { option_id: 'n', name: 'No' }] },
	});
	await post(server, 'known', [
		{ type: 'user_prompt', data: { message: 'Do it.', client_id: 'ann' } },
		// None of these is part of what is read.
		{ type: 'x-acp-modes', data: { current_mode_id: 'ask', available_modes: [{ id: 'ask', name: 'Ask' }] } },
		{ type: 'x-acp-available_commands_update', data: { available_commands: [{ name: 'review', description: 'Review' }] } },
		{ type: 'x-acp-meta', data: { of: 'session/prompt', _meta: { a: 1 } } },
		input.thought('Let me think.\n\n'), input.thought('Twice, '),
	]);
	const observer = await Observer.connect(t, server, 'known', { query: { format: 'markdown' } });
	await observer.loadAll();
	await observer.waitForEvent('agent_thought'); // cut by its timer; the rest is another event
	await post(server, 'known', [
		input.thought('and once more.'),
		plan(['look', 'in_progress'], ['write', 'pending'], ['rest', 'pending']),
		input.text('A paragraph.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n'),
		{ type: 'tool_call', data: { tool_call_id: 'c1', title: 'Read *all* files', kind: 'read', status: 'pending' } },
	]);
	// The table is cut where something is held behind it and no text comes.
	await observer.waitForEvent('tool_call');
	await post(server, 'known', [
		input.text('| 3 | 4 |\n\n'), input.toolDone('c1'),
		plan(['look', 'completed'], ['write', 'in_progress'], ['rest', 'pending']),
		{ type: 'file_read', data: { path: 'src/a.c', size: 12 } },
		ask('p1', 'Delete it'), { type: 'permission_resolved', data: { request_id: 'p1', outcome: 'selected', option_id: 'y', by: 'bob' } },
		ask('p2', 'Sing'),
		input.text('The end of turn one.'), input.end(),
		{ type: 'x-build', data: { ok: true } },
		input.text('Bell\u0007 and no colour\u001b[31m.\n'), { type: 'turn_end', data: { stop_reason: 'error', message: 'It *broke*.' } },
	]);
}

test('export: a transcript to read', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'hold_ms=1,hold_fence_ms=1,thought_flush_ms=1'] });
	await knownSession(t, server);
	const cut = readLog(server, 'known').find((e) => e.data.continues);
	assert.ok(cut && cut.data.context, 'the table was cut in two');
	const transcript = async (...args) => (await run(0, 'export', server.dataDir, 'known', '--format', 'markdown', ...args)).stdout
		.replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/g, 'TIME');
	assert.equal(await transcript(), TRANSCRIPT);
	// Without its first part, the second one needs its context to be a table.
	assert.match(await transcript('--after', String(cut.seq - 1)), /\n\n\| a \| b \|\n\|---\|---\|\n\| 3 \| 4 \|\n\n/);
});

// --- new-epoch ---

test('new-epoch: who knows the old history is told to start afresh, and nothing is lost', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'hold_ms=600s'] });
	const { epoch: other } = await server.createSession({ id: 'other' });
	const { epoch } = await server.createSession({ id: 'open' });
	await post(server, 'open', [input.text('First.\n\n- a\n- b'), input.tool('t1')]);
	await server.stop();
	const copy = join(scratchDir(t), 'data');
	cpSync(server.dataDir, copy, { recursive: true });
	// What clients saw after the copy was made is gone with the restore.
	await server.restart();
	await post(server, 'open', [input.text('\n\nA later one.\n\n'), input.end()]);
	const before = await Observer.connect(t, server, 'open', { query: { format: 'markdown' } });
	const held = await before.loadAll();
	await server.kill9();
	rmSync(server.dataDir, { recursive: true });
	cpSync(copy, server.dataDir, { recursive: true });
	const { stdout } = await run(0, 'new-epoch', server.dataDir);
	const told = Object.fromEntries(lines(stdout).map((line) => line.split(' ')).map(([id, ...epochs]) => [id, epochs]));
	assert.deepEqual(Object.keys(told), ['open', 'other']);
	assert.deepEqual([told.open[0], told.other[0]], [epoch, other]);
	assert.notEqual(told.open[1], epoch);
	assert.match((await run(0, 'verify', server.dataDir)).stdout, /: clean\n$/);
	await server.restart();
	// As many events as before, but others.
	await post(server, 'open', [input.text('\n- c\n\nAnother.\n\n'), input.note({}), input.end()]);
	const after = await Observer.connect(t, server, 'open', { query: { format: 'markdown' }, held, epoch });
	const page = await after.load({ after_seq: held.length, epoch, follow: true });
	assert.deepEqual(page.reset, { reason: 'epoch' });
	assert.equal(page.epoch, told.open[1]);
	assert.deepEqual(after.events(), readLog(server, 'open'));
	assert.deepEqual(after.events().map((e) => e.data.markdown ?? e.type), ['First.\n\n', '- a\n- b\n- c\n\n', 'tool_call', 'Another.\n\n', 'x-note', 'turn_end']);
});

test('new-epoch: one session, and what it cannot do', async (t) => {
	const server = await Server.start(t);
	const { epoch: a } = await server.createSession({ id: 'a' });
	const { epoch: b } = await server.createSession({ id: 'b' });
	assert.match((await run(2, 'new-epoch', server.dataDir)).stderr, /is in use by another holdfast \(process \d+\)/);
	await server.stop();
	assert.match((await run(2, 'new-epoch', server.dataDir, 'c')).stderr, /there is no session c/);
	assert.match((await run(0, 'new-epoch', server.dataDir, 'b')).stdout, new RegExp(`^b ${b} [0-9a-f]{16}\n$`));
	await server.restart();
	const epochs = (await server.request('GET', '/api/sessions')).body.sessions.map((s) => [s.id, s.epoch]).sort();
	assert.deepEqual(epochs[0], ['a', a]);
	assert.notEqual(epochs[1][1], b);
	const nowhere = join(scratchDir(t), 'nowhere');
	assert.match((await run(2, 'new-epoch', nowhere)).stderr, /cannot read the data directory /);
	assert.ok(!existsSync(nowhere));
});

// --- replay ---

/** Plays lines or a text from a file; gives the log of the session. */
async function replay(t, server, text, ...args) {
	const file = join(scratchDir(t), 'a recording.jsonl');
	writeFileSync(file, typeof text === 'string' ? text : text.map((line) => `${JSON.stringify(line)}\n`).join(''));
	const { stdout, stderr } = await run(0, 'replay', file, '--url', server.url, '--data', server.dataDir, ...args);
	const id = stdout.trim();
	return { id, stderr, log: readLog(server, id) };
}

const streams = corpusFiles('streams', '.jsonl');

test('replay: a recorded stream gives the same log as its producer', async (t) => {
	const server = await Server.start(t);
	const { appends } = makeRecording({ seed: 7, turns: 3 });
	const own = appends.flat().map((event, i) => `${JSON.stringify({ t: i * 50, ...event })}\n`).join('');
	for (const [name, text] of [['own', own], ...streams]) {
		const inputs = lines(text).map((line) => JSON.parse(line)).map(({ t: _t, ...event }) => event);
		const { id } = await server.createSession();
		await post(server, id, inputs);
		const { id: played, log, stderr } = await replay(t, server, text, '--create', '--speed', 'max');
		assert.deepEqual(untimed(log), untimed(readLog(server, id)), name);
		assert.match(stderr, new RegExp(`: played ${inputs.length} inputs; the session's max_seq is ${log.length}\n`));
		const { body } = await server.request('GET', `/api/sessions/${played}`);
		assert.equal(body.title, 'a recording.jsonl');
	}
});

test('replay: an exported log gives the same log again', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const { appends } = makeRecording({ seed: 8, turns: 4 });
	await post(server, id, [
		{ type: 'user_prompt', data: { message: 'Go', prompt_id: 'p1' } }, input.text('With an id: 中文中文中文中文中文中文中文中文中文中文.\n\n', 'm1'), ...appends.flat(),
	]);
	const log = readLog(server, id);
	const { stdout } = await run(0, 'export', server.dataDir, id);
	const { log: again, id: made } = await replay(t, server, stdout, '--create', '--session', 'again', '--speed', 'max');
	assert.equal(made, 'again');
	assert.deepEqual(untimed(again), untimed(log));
});

test('replay: a file whose name is not UTF-8 is no title, and the session has its id all the same', async (t) => {
	const server = await Server.start(t);
	const dir = scratchDir(t);
	writeFileSync(Buffer.concat([Buffer.from(join(dir, 'a')), Buffer.from([0xff])]), '{"t":0,"type":"x-a","data":{}}\n');
	const script = 'exec "$0" replay "$(printf "%s/a\\377" "$1")" --data "$2" --create --session mine';
	const { stdout } = await promisify(execFile)('/bin/sh', ['-c', script, binary(), dir, server.dataDir]);
	assert.equal(stdout, 'mine\n');
});

test('replay: at its own pace, into a session that is there', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'there' });
	const stream = [{ t: 0, ...input.note({ n: 1 }) }, { t: 600, ...input.note({ n: 2 }) }, { t: 600, ...input.note({ n: 3 }) }];
	const begin = Date.now();
	const { log } = await replay(t, server, stream, '--session', 'there', '--speed', '2');
	assert.ok(Date.now() - begin >= 300, 'it waited for what came later');
	assert.deepEqual(log.map((e) => e.data.n), [1, 2, 3]);
	assert.equal((await replay(t, server, [], '--session', 'there')).log.length, 3);
});

test('replay: what it cannot play', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 's' });
	const file = join(scratchDir(t), 'r.jsonl');
	const refused = async (text, ...args) => {
		writeFileSync(file, text);
		return (await run(2, 'replay', file, '--url', server.url, '--data', server.dataDir, ...args)).stderr;
	};
	const good = '{"t":0,"type":"x-a","data":{}}\n';
	assert.match(await refused(`${good}nonsense\n`, '--session', 's'), /r\.jsonl: line 2 cannot be played: it is not a JSON object/);
	assert.match(await refused(`${good}\n{"type":"x-a","data":{}}\n`, '--session', 's'), /line 3 cannot be played: it has neither "t" /);
	for (const late of ['{"t":1e300,"type":"x-a","data":{}}', '{"t":1e400,"type":"x-a","data":{}}', '{"seq":1,"ts":-9223372036854775807,"type":"x-a","data":{}}\n{"seq":2,"ts":9223372036854775807,"type":"x-a","data":{}}']) {
		assert.match(await refused(`${good}${late}\n`, '--session', 's'), /line [23] cannot be played: its time is more than 30 years after the beginning/);
	}
	assert.match(await refused('{"t":0,"data":{}}', '--session', 's'), /line 1 cannot be played: it has no "type" and "data"/);
	assert.match(await refused(`${good}{"t":0,"type":"tool","data":{}}\n`, '--session', 's'), /refused lines 1 to 2: unknown_type \(400\): /);
	assert.deepEqual(readLog(server, 's'), [], 'nothing of these was sent or taken');
	const apart = `${good}{"t":50,"type":"tool","data":{}}\n{"t":100,"type":"x-a","data":{}}\n`;
	assert.match(await refused(apart, '--session', 's'), /refused lines 2 to [23]: unknown_type \(400\): /);
	assert.equal(readLog(server, 's').length, 1, 'what was before it stays, what is behind it was not sent');
	assert.match(await refused(good, '--session', 'other'), /refused lines 1 to 1: not_found \(404\): /);
	assert.match(await refused(good, '--session', 's', '--create'), /refused the session: session_exists \(409\): /);
	assert.match(await refused(good), /--session or --create is needed/);
	assert.match(await refused(good, '--session', '..'), /--session "\.\." is not ID/);
	assert.match(await refused(good, '--session', 's', '--speed', 'fast'), /--speed "fast" is not N\|max/);
	assert.match((await run(2, 'replay', join(file, 'x'), '--url', server.url, '--create')).stderr, /r\.jsonl\/x cannot be opened: /);
	for (const url of ['ftp://localhost', 'https://', 'unix:', 'localhost:80', 'http://', 'http://u:p@h', 'http://h:x', 'http://h:8x', 'http://[::1', 'http://h:123456789']) {
		assert.match((await run(2, 'replay', file, '--url', url, '--create')).stderr, /is not URL/, url);
	}
	assert.match((await run(2, 'replay', file, '--url', 'http://127.0.0.1:1/', '--create')).stderr, /cannot connect to 127\.0\.0\.1 port 1: Connection refused/);
});
