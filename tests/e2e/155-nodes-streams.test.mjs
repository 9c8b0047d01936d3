// Several nodes on one PostgreSQL: streams of a session at a node that does not have it share one connection to its owner with all who watch there, and say,
// byte for byte, what they say at the owner.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, test } from 'node:test';
import { stream } from '@durable-streams/client';
import { readMetrics } from '../support/metrics.mjs';
import { startNodes as startOn } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { EventStream } from '../support/sse.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { defer, eventually, patience, Waiters } from '../support/wait.mjs';

const postgres = Postgres.start({ after });
const startNodes = (t, count, options) => startOn(t, postgres, count, options);
const SHORT_LEASE = ['--limit', `node_lease_ms=${Math.ceil(1500 * patience)},node_silence_ms=${300 * patience}`]; // a machine that is slow renews late
const notes = (count, from = 0) => Array.from({ length: count }, (_, n) => input.note({ n: n + from }));
/* An answer may be lost while the owner changes: sent again, they are taken once. */
const keyed = (count, from) => notes(count, from).map((note) => ({ ...note, key: `key-${note.data.n}` }));
const hiding = (node, hide) => bearer(ownToken(node, 'observer', ['*'], { holdfast: { role: 'observer', sessions: ['*'], hide } }));
const sockets = async (node) => (await readMetrics(node))('node_sockets');

/** A stream as it comes; `blocks` are its events, without what is another one for each client. */
class Raw {
	#waiters = new Waiters();
	text = '';

	constructor(t, node, path, headers = bearer(node.token)) {
		this.request = http.get(node.url + path, { agent: false, headers: { accept: 'text/event-stream', ...headers } }, (response) => {
			this.status = response.statusCode;
			this.headers = response.headers;
			response.setEncoding('utf8').on('data', (text) => {
				this.text += text;
				this.#waiters.wake();
			}).on('end', () => {
				this.ended = true;
				this.#waiters.wake();
			}).on('error', () => {});
		});
		this.request.on('error', () => {});
		defer(t, () => this.request.destroy());
	}

	get blocks() {
		return this.text.split('\n\n').slice(0, -1).filter((block) => !/^(retry)?:/.test(block)).map((block) => block.replace(/"client_id":"[^"]*"/, '"client_id":""'));
	}

	until(probe, what) {
		return this.#waiters.until(() => probe(this), 20_000, () => `${what}; the end: ${this.text.slice(-300)}`);
	}
}

test('streams and sockets at a node share a connection to the owner, and each event leaves it once', async (t) => {
	const [a, b, c] = await startNodes(t, 3);
	await a.createSession({ id: 's' });
	const CROWD = 60;
	const streams = (await Promise.all([b, c].map((node) => Promise.all(Array.from({ length: CROWD }, () => EventStream.session(t, node, 's', { gzip: node === c })))))).flat();
	const observer = await Observer.connect(t, b, 's');
	await observer.loadAll();
	await Promise.all(streams.map((stream) => stream.waitFor('live')));
	for (const node of [b, c]) {
		const metrics = await readMetrics(node);
		assert.deepEqual([metrics('node_sockets'), metrics('observers{transport="sse"}')], [1, CROWD]);
	}
	assert.equal((await readMetrics(a))('connections'), 2 + 1, 'two nodes, and who asks');
	const before = await readMetrics(a);
	for (let n = 0; n < 20; n++) {
		await post(a, 's', notes(1, n));
	}
	await Promise.all(streams.map((stream) => stream.waitForSeq(20)));
	await observer.waitForSeq(20);
	streams.forEach(({ events }) => assert.deepEqual(events.map(({ data }) => data.n), Array.from({ length: 20 }, (_, n) => n)));
	assert.equal((await readMetrics(a))('events_delivered_total') - before('events_delivered_total'), 2 * 20, 'once for each node');
	streams.forEach((stream) => stream.abort());
	await observer.close();
	for (const node of [b, c]) {
		await eventually(async () => (await sockets(node)) === 0, 'the connection to go');
	}
});

test('at another node a stream says, byte for byte, what it says at the owner', async (t) => {
	const [a, b] = await startNodes(t, 2, { args: ['--limit', 'preview_ms=10', '--limit', 'hot_tail_size=20000'] });
	await a.createSession({ id: 's' });
	await post(a, 's', [input.text('# before\n\n'), ...notes(900)]);
	const queries = ['', '?format=markdown&deltas=text&after=0', '?format=both&deltas=html', '?format=markdown&limit=5', '?after=7'];
	const watchers = queries.flatMap((query) => [null, ['thoughts'], ['tools']].map((hide) => ({
		name: `${query} ${hide}`, pair: [a, b].map((node) => new Raw(t, node, `/api/sessions/s/events${query}`, hide ? hiding(node, hide) : undefined)),
	})));
	const each = watchers.flatMap(({ pair }) => pair);
	await Promise.all(each.map((one) => one.until(({ text }) => /^event: live$/m.test(text), 'it to be live')));
	const producer = await Producer.connect(t, a, 's');
	const said = [input.thought('a thought\n\n'), input.text('a *piece* "quoted" ä€😀\n\n'), input.tool('t1'), input.toolDone('t1'), input.plan('one'), input.end(), input.note({ last: true })];
	let seq;
	for (const one of said) {
		({ acks: [{ seq }] } = await producer.append(one));
	}
	await Promise.all(each.map((one) => one.until(({ text }) => text.includes(`-${seq}\n`), `event ${seq}`)));
	for (const { name, pair } of watchers) {
		const [there, here] = pair.map(({ blocks }) => blocks.filter((block) => /^(id|event: (connected|reset|live|session_gone))/m.test(block)));
		assert.deepEqual(here, there, name);
		assert.deepEqual({ ...pair[1].headers, date: 0 }, { ...pair[0].headers, date: 0 });
	}
	// What makes no sense is refused with the same words, and a deletion ends both.
	for (const [path, options] of [['/api/sessions/s/events?after=x', {}], ['/api/sessions/s/events?limit=1&what=2', {}], ['/api/sessions/none/events', {}]]) {
		const [there, here] = await Promise.all([a, b].map((node) => EventStream.open(t, node, path, options)));
		assert.deepEqual([here.refusal.status, here.refusal.body], [there.refusal.status, there.refusal.body]);
	}
	assert.equal((await b.request('DELETE', '/api/sessions/s')).status, 204);
	await Promise.all(each.map((one) => one.until(({ ended }) => ended, 'the end')));
	watchers.forEach(({ name, pair }) => assert.equal(pair[1].blocks.at(-1), pair[0].blocks.at(-1), name));
});

for (const [name, leave] of [['killed', (node) => node.kill9()], ['stopped', (node) => node.stop()]]) {
	test(`the owner is ${name}: the streams end, and their clients go on by the last id at the same node`, async (t) => {
		const [a, b] = await startNodes(t, 2, { args: SHORT_LEASE });
		await a.createSession({ id: 's' });
		await post(a, 's', notes(50));
		const streams = await Promise.all(Array.from({ length: 5 }, () => EventStream.session(t, b, 's')));
		await Promise.all(streams.map((stream) => stream.waitForSeq(50)));
		await leave(a);
		await Promise.all(streams.map((stream) => stream.until(() => stream.ended, 'the end')));
		await eventually(async () => (await b.request('POST', '/api/sessions/s/events', { json: keyed(10, 50) })).status === 200, 'it to be taken over');
		const next = await Promise.all(streams.map(async ({ lastId }) => {
			let stream;
			await eventually(async () => { // as clients do, who come back
				stream = await EventStream.session(t, b, 's', { lastId });
				await stream.until(() => stream.refusal || stream.ended || stream.events.length > 0, 'an answer');
				return stream.events.length > 0;
			}, 'a stream');
			return stream;
		}));
		await Promise.all(next.map((stream) => stream.waitForSeq(60)));
		next.forEach(({ all, events }) => assert.deepEqual([all.filter(({ type }) => type === 'reset'), events.map(({ data }) => data.n)], [[], Array.from({ length: 10 }, (_, n) => n + 50)]));
		assert.equal(await sockets(b), 0);
		await (name === 'killed' ? a.restart() : null);
	});
}

test('a stream that is not read is behind alone, and gets all of it; a node that cannot be reached is refused', async (t) => {
	const database = 'slow';
	const [a, b] = await startNodes(t, 2, { database, args: ['--limit', 'hot_tail_size=100000'] });
	await a.createSession({ id: 's' });
	const [slow, quick] = await Promise.all([0, 1].map(() => EventStream.session(t, b, 's', { query: { format: 'markdown' } })));
	await Promise.all([slow, quick].map((stream) => stream.waitFor('live')));
	slow.pause();
	for (let n = 0; n < 60; n++) {
		await post(a, 's', Array.from({ length: 10 }, () => input.note({ n, text: 'x'.repeat(20_000) })));
	}
	await quick.waitForSeq(600);
	assert.ok((slow.events.at(-1)?.seq ?? 0) < 400, `${slow.events.length} came before it stood still`);
	slow.resume();
	await slow.waitForSeq(600);
	assert.equal(slow.ended, false);
	const [lost] = await startNodes(t, 1, { database, args: ['--node-address', '127.0.0.1:9'] });
	await lost.createSession({ id: 'far' });
	const far = await EventStream.session(t, b, 'far');
	await far.waitEnd();
	assert.deepEqual(far.all.map(({ type, data }) => [type, data.code]), [['ended', 'owner_unreachable']]);
});

/** A reader of Durable Streams, with what it has got so far. */
async function read(t, node, live, offset = '-1') {
	const waiters = new Waiters();
	const reader = { items: [], offset, until: (count) => waiters.until(() => reader.items.length >= count, 20_000, () => `${count} events; it has ${reader.items.length}`) };
	const controller = new AbortController();
	defer(t, () => controller.abort());
	const response = await stream({ url: `${node.url}/ds/sessions/s`, params: { format: 'markdown' }, headers: bearer(node.token), json: true, live, offset, signal: controller.signal });
	response.closed.catch(() => {});
	response.subscribeJson(async (batch) => {
		reader.items.push(...batch.items);
		reader.offset = batch.offset;
		waiters.wake();
	});
	return reader;
}

test('readers of Durable Streams at another node share the connection, read what the owner has, and go on by their offsets when it dies', async (t) => {
	const [a, b] = await startNodes(t, 2, { args: SHORT_LEASE });
	await a.createSession({ id: 's' });
	await post(a, 's', notes(30));
	const readers = await Promise.all(['sse', 'sse', 'long-poll', 'long-poll'].map((live) => read(t, b, live)));
	const near = await read(t, a, 'sse');
	await Promise.all([...readers, near].map((reader) => reader.until(30)));
	await eventually(async () => (await sockets(b)) === 1, 'one connection for all who wait'); // what is read at first may come without
	await post(b, 's', notes(5, 30));
	await Promise.all([...readers, near].map((reader) => reader.until(35)));
	readers.forEach(({ items }) => assert.deepEqual(items, near.items));
	// Head and body of each answer are those of the owner, byte for byte, on a connection that goes on.
	const agents = [a, b].map(() => new http.Agent({ keepAlive: true, maxSockets: 1 }));
	defer(t, () => agents.forEach((agent) => agent.destroy()));
	const ask = (n, path) => new Promise((resolve, reject) => http.get([a, b][n].url + path, { agent: agents[n], headers: bearer([a, b][n].token) }, (response) => {
		let body = '';
		response.setEncoding('utf8').on('data', (text) => (body += text)).on('end', () => resolve({ status: response.statusCode, headers: { ...response.headers, date: 0, 'stream-cursor': 0 }, body }));
	}).on('error', reject));
	const epoch = near.offset.slice(0, 17);
	for (const query of ['offset=-1&live=long-poll', 'offset=-1&live=long-poll&format=both', `offset=${near.offset.slice(0, -2)}10&live=long-poll`, 'offset=x&live=long-poll', 'live=sse', 'offset=-1&live=never', `offset=${'0'.repeat(epoch.length)}${near.offset.slice(17)}&live=long-poll`, 'offset=-1']) {
		const [there, here] = await Promise.all([0, 1].map((n) => ask(n, `/ds/sessions/s?${query}`)));
		assert.deepEqual(here, there, query);
	}
	await a.kill9();
	await eventually(async () => (await b.request('POST', '/api/sessions/s/events', { json: keyed(5, 35) })).status === 200, 'it to be taken over');
	const next = await Promise.all(readers.map(({ offset }, n) => read(t, b, n < 2 ? 'sse' : 'long-poll', offset)));
	await Promise.all(next.map((reader) => reader.until(5)));
	next.forEach(({ items }) => assert.deepEqual(items.map(({ data }) => data.n), [35, 36, 37, 38, 39]));
	await a.restart();
});
