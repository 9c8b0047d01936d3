// Text that is made to break a relay, a MiB of each, through the real server, with observers of every kind: all
// of it arrives, what it is shown as stays bounded, nobody else waits for it, and it is there after a restart.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertSameText, readLog, withoutText } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { partOf } from '../support/part.mjs';
import { Producer, input } from '../support/producer.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { Server, replayAgent, scratchDir } from '../support/server.mjs';

const MIB = 1 << 20;
const LONG_MS = 120_000; // with sanitizers, on a busy machine
const BLOCK_MAX = 64 << 10; // the cap of one event's text; a last character may reach over it
const HTML_MAX = 4 * MIB; // of one event, or one preview
const GROWTH_MAX_KB = 64 << 10; // of the server's memory, whatever it was fed

const filled = (unit, size = MIB) => unit.repeat(Math.ceil(size / Buffer.byteLength(unit)));
const random = randomNumbers(7);
const controls = String.fromCharCode(...Array.from({ length: 31 }, (_, i) => i + 1), 0x7f, 0x85, 0x2028, 0x2029, 0xfeff, 0x202e);

const table = (columns) => `${'|a'.repeat(columns)}|\n${'|-'.repeat(columns)}|\n${filled(`${'|b'.repeat(columns)}|\n`)}`;

const TEXTS = {
	'opening brackets': filled('['),
	'stars': filled('*'),
	'quote marks': filled('>'),
	'backticks': filled('`'),
	'images that never end': filled('!['),
	'angle brackets': filled('<'),
	'ampersands': filled('&'),
	'pipes': filled('|'),
	'underscores and words': filled('_a '),
	'links in links': filled('[a](') ,
	'backtick runs of every length': Array.from({ length: 1400 }, (_, i) => '`'.repeat(i + 1)).join(' '),
	'lists nested 10,000 deep in a line': filled(`${'- '.repeat(10_000)}x\n`),
	'lists nested deeper with every line': filled(Array.from({ length: 1000 }, (_, i) => `${' '.repeat(2 * i)}- x\n`).join('')),
	'quotes nested 10,000 deep': filled(`${'> '.repeat(10_000)}x\n\n`),
	'quotes and lists in turn': filled(`${'> - '.repeat(5000)}x\n`),
	'a fence that never closes': `\`\`\`js\n${filled('let x = "``";\n')}`,
	'a table 100 columns wide': table(100),
	'a table 10,000 columns wide': table(10_000),
	'a wide table of short rows': `${'|a'.repeat(900)}|\n${'|-'.repeat(900)}|\n${filled('|x|\n')}`,
	'one line': filled('word '),
	'one word': filled('x'),
	'lone carriage returns': filled('a\r'),
	'carriage returns and newlines': filled('- a\r\n\r'),
	'control characters': filled(`${controls}x`),
	'combining characters': filled(`e${'\u0301'.repeat(500)} `),
	'emoji with joiners': filled('👩‍👩‍👧‍👦\u200d🏳️‍🌈👋🏽 '),
	'blank lines': filled(`${filled('\n', 30_000)}${filled(' \t\n', 30_000)}x`),
	'reference definitions': filled('[a]: /u "t"\n[a] [b][a]\n'),
	'html that never ends': filled('<!--<div><script><?<![CDATA['),
	'anything at all': Array.from({ length: MIB / 2 }, () => '*_`[]()!<>&|#-+~\\:\n\t 1.ax='[random(27)]).join(''),
};

const isText = (event) => event.type === 'agent_message';
const markdownOf = (events) => events.filter(isText).map((e) => e.data.markdown).join('');

/** Pieces as tokens and bursts come: of 1 to 4,000 characters, none inside a character. */
function cut(text) {
	const pieces = [];
	for (let at = 0; at < text.length;) {
		let end = Math.min(text.length, at + 1 + random([8, 200, 4000][random(3)]));
		end += text.codePointAt(end - 1) > 0xffff ? 1 : 0;
		pieces.push(text.slice(at, end));
		at = end;
	}
	return pieces;
}

/** What /proc says of the server's memory, in kB; null under a sanitizer, whose shadow is a thousand times that, and under valgrind, which keeps what was freed. */
function memoryOf(server) {
	const status = readFileSync(`/proc/${server.pid}/status`, 'utf8');
	const figure = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)[1]);
	return figure('VmSize') > 2 ** 32 || process.env.HOLDFAST_TEST_UNDER ? null : figure('VmRSS');
}

function assertGrowth(server, before) {
	const now = memoryOf(server);
	assert.ok(now === null || now < before + GROWTH_MAX_KB, `${before} kB before, ${now} kB after it`);
}

/** After a power cut the log is what it was. */
async function assertKept(t, server, id, log) {
	await server.kill9();
	await server.restart();
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
	assert.deepEqual((await observer.loadAll({ limit: 5000 })).slice(0, log.length), log);
}

/** Observers of every kind, live. */
async function watch(t, server, id) {
	const queries = [{ deltas: 'html' }, { format: 'markdown', deltas: 'text' }, { format: 'both' }, { format: 'markdown' }];
	const observers = await Promise.all(queries.map((query) => Observer.connect(t, server, id, { query })));
	await Promise.all(observers.map((observer) => observer.loadAll()));
	return observers;
}

/** Somebody else's session, which is asked for an answer all the time; the result stops that and says how often. */
async function keepAsking(t, server) {
	const { id } = await server.createSession();
	const other = await Observer.connect(t, server, id);
	let asking = true;
	const asked = (async () => {
		let n = 0;
		for (; asking; n++) {
			const from = other.frames.length;
			await other.send('keepalive', { client_time: n });
			await other.waitFor((f) => f.type === 'keepalive_ack' && f.data.client_time === n, { from });
		}
		return n;
	})();
	asked.catch(() => {}); // told by whoever stops it
	return () => {
		asking = false;
		return asked;
	};
}

function assertShown([html, deltas, both, markdown], log) {
	assert.deepEqual(markdown.events(), log);
	assert.deepEqual(deltas.events(), log);
	assert.deepEqual(withoutText(html.events()), withoutText(log));
	assert.deepEqual(both.events().filter(isText).map((e) => e.data.html), html.events().filter(isText).map((e) => e.data.html));
	const shown = [...html.events().filter(isText), ...html.frames.filter((f) => f.type === 'preview')].map((e) => e.data.html);
	assert.ok(shown.every((text) => text.length <= HTML_MAX), `HTML of ${Math.max(...shown.map((text) => text.length))} characters`);
	assert.ok(log.filter(isText).every((e) => Buffer.byteLength(e.data.markdown) <= BLOCK_MAX + 3), 'an event beyond the cap');
}

/** The text of the deltas is what the events have. */
function assertDeltas(observer) {
	const texts = new Map();
	for (const { data } of observer.frames.filter((f) => f.type === 'delta')) {
		assert.equal(data.offset, Buffer.byteLength(texts.get(data.seq) ?? ''));
		texts.set(data.seq, (texts.get(data.seq) ?? '') + data.text);
	}
	for (const event of observer.events().filter((e) => texts.has(e.seq))) {
		assert.ok(event.data.markdown.startsWith(texts.get(event.seq)), `the deltas of seq ${event.seq}`);
	}
}

for (const [name, hostile] of partOf(Object.entries(TEXTS))) {
	test(`hostile text of a producer arrives whole, and bothers nobody: ${name}`, async (t) => {
		const text = `${hostile}\n\nz`; // so that something is open at the end, and seen to be
		const server = await Server.start(t);
		const { id } = await server.createSession();
		const observers = await watch(t, server, id);
		const producer = await Producer.connect(t, server, id);
		const stop = await keepAsking(t, server);
		const before = memoryOf(server);
		const events = cut(text).map((piece) => input.text(piece));
		let ref;
		for (let at = 0; at < events.length; at += 50) {
			ref = await producer.push(...events.slice(at, at + 50));
		}
		await producer.waitFor((f) => f.data.ref === ref, { ms: LONG_MS });
		await observers[0].waitFor('preview', { ms: LONG_MS });
		await observers[1].waitFor('delta', { ms: LONG_MS });
		const { max_seq: last } = await producer.append(input.end());
		await Promise.all(observers.map((observer) => observer.waitForSeq(last, LONG_MS)));
		assert.ok(await stop() > 0);
		const log = readLog(server, id);
		assert.equal(log.length, last);
		assertSameText(markdownOf(log), text);
		assertShown(observers, log);
		assertDeltas(observers[1]);
		assertGrowth(server, before);
		await assertKept(t, server, id, log);
	});
}

const line = (message) => ({ t: 0, dir: 'a2c', proc: 1, line: typeof message === 'string' ? message : JSON.stringify({ jsonrpc: '2.0', ...message }) });
const asked = (id, method, params = {}) => ({ t: 0, dir: 'c2a', proc: 1, line: JSON.stringify({ jsonrpc: '2.0', id, method, params }) });
const chunk = (text) => line({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } } } });

/** A recording of an agent that says these texts, one in a turn, in pieces and in one line of a MiB. */
function hostileAgent(t, texts) {
	const turns = texts.map((text, i) => [
		asked(i + 3, 'session/prompt', { sessionId: 's' }), ...(i % 2 ? [chunk(text)] : cut(text).map(chunk)),
		line('{"torn'), line(''), line(`{"jsonrpc":"2.0","method":"session/update","params":${'['.repeat(100_000)}`), line({ id: i + 3, result: { stopReason: 'end_turn' } }),
	]);
	const file = join(scratchDir(t), 'hostile.jsonl');
	writeFileSync(file, [
		asked(1, 'initialize'), line({ id: 1, result: { protocolVersion: 1 } }), asked(2, 'session/new'), line({ id: 2, result: { sessionId: 's' } }), ...turns.flat(),
	].map((entry) => `${JSON.stringify(entry)}\n`).join(''));
	return `${replayAgent()} --speed 0 ${file}`;
}

test('hostile text of an agent arrives whole, what no text can hold replaced', async (t) => {
	const names = ['opening brackets', 'stars', 'quote marks', 'images that never end', 'lists nested 10,000 deep in a line', 'a fence that never closes', 'a table 10,000 columns wide', 'emoji with joiners', 'control characters'];
	const nasty = `${'\0'.repeat(1000)}a\ud83d b\udc4b\n\n`;
	const texts = [...names.map((name) => TEXTS[name]), filled(`\0\u0001`, MIB / 2), filled('\ud83d|', MIB / 4), nasty];
	const server = await Server.start(t, { agent: hostileAgent(t, texts) });
	const { id } = await server.createSession();
	const observers = await watch(t, server, id);
	const stop = await keepAsking(t, server);
	const before = memoryOf(server);
	for (const i of texts.keys()) {
		await observers[0].prompt(`Turn ${i + 1}`);
	}
	for (let ended = 0, seq = 0; ended < texts.length; ended++) {
		({ seq } = await observers[3].waitForEvent('turn_end', { after: seq, ms: LONG_MS }));
	}
	const log = readLog(server, id);
	await Promise.all(observers.map((observer) => observer.waitForSeq(log.length, LONG_MS)));
	const expected = texts.map((text) => Buffer.from(text.replaceAll('\0', '\ufffd')).toString());
	expected.forEach((text, i) => assertSameText(markdownOf(log.filter((e) => e.turn === i + 1)), text));
	assertShown(observers, log);
	assertDeltas(observers[1]);
	assert.ok(await stop() > 0);
	assertGrowth(server, before);
	await assertKept(t, server, id, log);
});
