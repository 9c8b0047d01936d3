// The table of damage in proto/store-format.md, walked: each file of a data directory with a bit turned over, cut, gone,
// doubled, or replaced by bytes of another one. Whatever is damaged: nothing wrong is served, nothing acknowledged is
// missing without a word, keys are never taken for new ones, others are as they were, and verify and repair agree.

import assert from 'node:assert/strict';
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { partOf } from '../support/part.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

const path = (id, rest = '') => `/api/sessions/${id}${rest}`;
const keyed = (n) => ({ ...input.note({ n, text: 'x'.repeat(50) }), key: `k${n}` });
const IDS = ['hurt', 'busy', 'fine'];

const scratch = scratchDir({ after });
let whole; // the directory that is copied for each case
let known; // of each session: its events, with those that are only in the journal

async function eventsOf(server, id, query = '') {
	return server.request('GET', path(id, `/events?after_seq=0&limit=1000&format=markdown${query}`));
}

before(async () => {
	const context = { after };
	const server = await Server.start(context, { args: ['--limit', 'segment_size=64K', '--limit', 'idle_flush_ms=3600000', '--limit', 'hold_ms=600000'] });
	for (const id of IDS) {
		await server.createSession({ id, title: id });
		await post(server, id, [input.runStart('run-1'), input.runEnd('run-1'), ...[1, 2, 3, 4, 5, 6].map(keyed), input.text(id === 'fine' ? 'One of another length.\n\n' : 'One.\n\n', 'm-1'), input.tool('t-1'), input.toolDone('t-1'),
			{ type: 'user_prompt', data: { prompt_id: 'p-1', message: 'go' } }, { type: 'usage', key: 'u-1', data: { mode: 'delta', input_tokens: 5 } }, input.end()]);
	}
	await server.stop();
	await server.restart();
	// What follows is in the journal.
	await post(server, 'busy', [keyed(7), input.text('- a list\n- that is open')]);
	await post(server, 'fine', [keyed(7)]);
	await post(server, 'busy', [keyed(8)]);
	known = Object.fromEntries(await Promise.all(IDS.map(async (id) => [id, (await eventsOf(server, id)).body.events])));
	await server.kill9();
	whole = join(scratch, 'whole');
	cpSync(server.dataDir, whole, { recursive: true });
});

/* --- damage --- */

const damages = {
	bit: (bytes, at) => {
		bytes[at] ^= 1 << (at % 8);
		return bytes;
	},
	cut: (bytes, at) => bytes.subarray(0, at),
	doubled: (bytes, at) => { // the line, or the bytes, behind the place
		const from = bytes.lastIndexOf(10, at) + 1;
		const to = bytes.indexOf(10, at) + 1 || bytes.length;
		return Buffer.concat([bytes.subarray(0, to), bytes.subarray(from)]);
	},
};

/** The header of a segment, and that of its first batch: what is behind them can only be searched for. */
const headless = (bytes) => bytes.fill(0xff, 0, 80);

/** The same file of another session, which is good by itself. */
function foreign(file) {
	const other = file.includes('/hurt/') ? file.replace('/hurt/', '/fine/') : file.replace('/busy/', '/fine/');
	return other !== file && existsSync(join(whole, other)) ? readFileSync(join(whole, other)) : null;
}

/** The files of the directory that this test walks; those of images and raw streams have their own tests. */
function files(dir, below = '') {
	return readdirSync(join(dir, below), { withFileTypes: true }).flatMap((entry) => {
		const name = join(below, entry.name);
		return entry.isDirectory() ? (['streams', 'blobs', 'fine'].includes(entry.name) ? [] : files(dir, name)) : [name];
	}).filter((name) => statSync(join(dir, name)).size);
}

function* casesOf(file) {
	const size = statSync(join(whole, file)).size;
	const places = size < 32 ? [...Array(size).keys()] : [...new Set([0, 7, 20, 40, 60, ...Array.from({ length: 10 }, (_, i) => Math.floor((i + 0.5) * size / 10)), size - 2, size - 1])];
	for (const kind of Object.keys(damages)) {
		for (const at of places.filter((_, i) => kind === 'bit' || i % 3 === 0)) {
			yield { file, kind, at };
		}
	}
	// Nobody can know of a newest segment that is gone: a journal whose inputs are all in the logs has none.
	yield { file, kind: file.startsWith('journal/') ? 'headless' : 'gone' };
	if (foreign(file)) {
		yield { file, kind: 'foreign' };
	}
}

function spoil(dir, { file, kind, at }) {
	const to = join(dir, file);
	if (kind === 'gone') {
		rmSync(to);
		return;
	}
	const bytes = readFileSync(to);
	writeFileSync(to, kind === 'foreign' ? foreign(file) : kind === 'headless' ? headless(bytes) : damages[kind](bytes, at));
}

/* --- what must hold --- */

async function run(command, ...args) {
	const done = await runToEnd([command, ...args], { timeoutMs: 60_000 });
	assert.ok(done.code >= 0 && done.code <= 2, `${command} ended with ${done.signal ?? done.code}\n${done.stderr}`);
	return done;
}

/** The events that are shown are those that were, in their places. Returns whether all of them are. */
function areTrue(events, id, mayEndEarly) {
	const had = known[id];
	assert.ok(events.length <= had.length || mayEndEarly || id === 'busy', `${id}: there are more events than there were`);
	for (const [i, event] of events.entries()) {
		if (event.type !== 'x-holdfast-gap' && event.type !== 'x-holdfast-keys-forgotten' && had[i]) {
			assert.deepEqual(event, had[i], `${id}: event ${i + 1}`);
		}
	}
	return events.length >= had.length && events.every((event) => event.type !== 'x-holdfast-gap');
}

/** What a client sees of a session. Returns 'whole', 'shorter', or the code of the refusal. */
async function look(server, id) {
	const { status, body } = await eventsOf(server, id);
	if (status !== 200) {
		assert.ok(['session_damaged', 'storage_failed'].includes(body.error.code), `${id}: ${JSON.stringify(body)}`);
		if (body.error.code === 'storage_failed') {
			const gaps = await eventsOf(server, id, '&gaps=1');
			assert.equal(gaps.status, 200, JSON.stringify(gaps.body));
			areTrue(gaps.body.events, id);
			assert.equal(gaps.body.events.length, known[id].length);
		}
		return body.error.code;
	}
	return areTrue(body.events, id, true) ? 'whole' : 'shorter';
}

/** A key is known, or it is refused; it is never taken for a new one. Returns whether it is known. */
async function sendsAgain(server, id, n) {
	const { status, body } = await server.request('POST', path(id, '/events?create=1'), { json: keyed(n) });
	if (status !== 200) {
		assert.ok(['keys_damaged', 'session_damaged', 'storage_failed'].includes(body.error.code), `${id}: k${n}: ${JSON.stringify(body)}`);
		return false;
	}
	assert.equal(body.acks[0].duplicate, true, `${id}: k${n} was stored again`);
	return true;
}

/** In the last batch damage cannot be told from a torn one: what was in it may be gone, and `verify` says so. */
const mayBeTorn = (damage) => damage.file.startsWith('journal/') && damage.kind !== 'headless';

async function noticedBy(server, damage) {
	const noticed = [];
	for (const id of IDS) {
		const seen = await look(server, id);
		const isKnown = [];
		for (const n of [1, 2, 3, 4, 5, 6, ...(id === 'hurt' || mayBeTorn(damage) ? [] : [7])]) {
			isKnown.push(await sendsAgain(server, id, n));
		}
		if (seen !== 'whole' || isKnown.includes(false)) {
			noticed.push(`${id}: ${seen} ${isKnown.includes(false) ? 'keys' : ''}`);
		}
		if (!damage.file.startsWith('journal/') && !damage.file.includes(`/${id}/`)) {
			assert.deepEqual(noticed.filter((text) => text.startsWith(id)), [], 'another session is harmed');
		}
		assert.ok(seen !== 'shorter' || mayBeTorn(damage), `${id}: acknowledged events are gone without a word`);
	}
	return noticed.join('; ');
}

/** Runs the server on what is damaged. Returns what was noticed: nothing, or a text. */
async function serves(dir, damage) {
	const server = new Server({ dataDir: dir, cwd: scratch, agent: null, listen: ['127.0.0.1:0'], args: ['--limit', 'idle_flush_ms=3600000', '--limit', 'hold_ms=600000'] });
	try {
		await server.up();
	} catch (error) {
		assert.match(error.message, /repair|remove|move the file away|cannot be/, error.message);
		return 'refused';
	}
	try {
		return await noticedBy(server, damage);
	} finally {
		await server.stop();
	}
}

async function repairs(dir, problems) {
	const done = await run('repair', dir);
	assert.notEqual(done.code, 2, done.stderr);
	if (/nothing is damaged/.test(done.stdout)) {
		assert.equal(problems, '', `repair says that nothing is damaged; verify says:\n${problems}`);
	}
	let verified = await run('verify', dir);
	if (verified.code === 1 && /names that inputs gave are lost/.test(verified.stdout)) {
		await run('repair', dir, '--forget-keys');
		verified = await run('verify', dir);
	}
	assert.equal(verified.code, 0, `after the repair, which said:\n${done.stdout}${done.stderr}\nverify says:\n${verified.stdout}`);
	return done.stdout;
}

async function walk(damage) {
	const dir = join(scratch, 'case');
	const again = join(scratch, 'again');
	for (const to of [dir, again]) {
		rmSync(to, { recursive: true, force: true });
		cpSync(whole, to, { recursive: true });
		spoil(to, damage);
	}
	const found = await run('verify', dir);
	assert.ok(found.code === 0 || found.code === 1, found.stderr);
	const problems = found.stdout.split('\n').filter((line) => line && !line.startsWith('note: ') && !/(clean|problems?)$/.test(line)).join('\n');
	// At once, as an operator does who trusts verify; and behind a server that has run.
	await repairs(again, problems);
	const noticed = await serves(dir, damage);
	if (noticed) {
		assert.equal(found.code, 1, `the server: ${noticed}; verify:\n${found.stdout}`);
	}
	const left = await run('verify', dir);
	if (left.code === 1) {
		await repairs(dir, left.stdout);
	}
}

// The names of the files are known only once the server has run: the cases are made in the test.
test('each file, each damage', { timeout: 3_600_000 }, async () => {
	const all = files(whole).filter((file) => !/^(lock|access-token|token-secret|push-key)$/.test(file)).flatMap((file) => [...casesOf(file)]);
	const wrong = [];
	for (const damage of partOf(all)) {
		const name = `${damage.file}: ${damage.kind}${damage.at === undefined ? '' : ` at ${damage.at}`}`;
		try {
			await walk(damage);
		} catch (error) {
			wrong.push(`${name}: ${error.message}`);
			if (process.env.HOLDFAST_WALK) {
				console.log(`${name}: ${error.message.slice(0, 1500)}`);
			}
		}
	}
	assert.equal(wrong.length, 0, `${wrong.length} of ${all.length}\n${wrong.slice(0, 10).join('\n\n')}`);
});
