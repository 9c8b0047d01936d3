// All who watch a session at a node that does not have it share one connection to its owner, and see what they would see there.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { readMetrics } from '../support/metrics.mjs';
import { NODE_TIMES, nodeAddress, startNodes as startOn } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { bearer, claims, makeToken, secretOf } from '../support/tokens.mjs';
import { defer, eventually, patience, Waiters } from '../support/wait.mjs';

const postgres = Postgres.start({ after });
const startNodes = (t, count, options) => startOn(t, postgres, count, options);
const notes = (count, from = 0) => Array.from({ length: count }, (_, n) => input.note({ n: n + from }));
const SHORT_LEASE = ['--limit', `node_lease_ms=${1000 * patience},node_silence_ms=${300 * patience}`]; // a machine that is slow renews late
/* What all who watch a session are told, whoever they are. */
const SHARED = /^\{"type":"(events|delta|preview|activity|state)"/;

const numbers = (observer) => observer.events().map(({ data }) => data.n);
const numbersTo = (end) => Array.from({ length: end }, (_, n) => n);
const hiding = (node, hide) => bearer(makeToken({ ...claims('observer'), sub: 'ann', holdfast: { role: 'observer', sessions: ['*'], hide } }, secretOf(node)));

/** A client that keeps the texts of its frames as they come. */
class Texts {
	#waiters = new Waiters();
	all = [];

	constructor(t, node, query, headers = bearer(node.token)) {
		this.ws = new WebSocket(node.ws(`/api/sessions/s/ws?${new URLSearchParams(query)}`), { headers, perMessageDeflate: false });
		this.ws.on('message', (data) => {
			this.all.push(data.toString());
			this.#waiters.wake();
		});
		this.ws.on('open', () => this.ws.send('{"type":"load_events","data":{"after_seq":0,"follow":true}}'));
		defer(t, () => this.ws.terminate());
	}

	waitFor(isIt, what) {
		return this.#waiters.until(() => this.all.some(isIt), 20_000, () => `${what}; ${this.all.length} frames, the last: ${this.all.at(-1)}`);
	}

	get pages() {
		return this.all.filter((text) => text.startsWith('{"type":"events_loaded"'));
	}
}

test('two who watch at a node share a connection to the owner, and each event leaves it once', async (t) => {
	const [a, b, c] = await startNodes(t, 3);
	await a.createSession({ id: 's' });
	const CROWD = 150;
	const watch = (node) => Promise.all(Array.from({ length: CROWD }, async () => {
		const observer = await Observer.connect(t, node, 's', { query: { format: 'markdown' } });
		await observer.loadAll();
		return observer;
	}));
	const crowd = (await Promise.all([b, c].map(watch))).flat();
	for (const node of [b, c]) {
		const metrics = await readMetrics(node);
		assert.deepEqual([metrics('node_sockets'), metrics('observers{transport="websocket"}')], [1, CROWD]);
	}
	const before = await readMetrics(a);
	for (let n = 0; n < 20; n++) {
		await post(a, 's', notes(1, n));
	}
	await Promise.all(crowd.map((observer) => observer.waitForSeq(20)));
	crowd.forEach((observer) => assert.deepEqual(numbers(observer), numbersTo(20)));
	const now = await readMetrics(a);
	assert.equal(now('events_delivered_total') - before('events_delivered_total'), 2 * 20, 'once for each node');
	// What nobody watches any more is not followed.
	await Promise.all(crowd.map((observer) => observer.close()));
	await eventually(async () => (await readMetrics(b))('node_sockets') === 0, 'the connection to go');
	const again = await Observer.connect(t, b, 's');
	assert.equal((await again.loadAll()).length, 20);
});

test('at another node everybody is told, byte for byte, what the owner tells', async (t) => {
	const [a, b] = await startNodes(t, 2, { args: ['--limit', 'preview_ms=10'] });
	await a.createSession({ id: 's' });
	await post(a, 's', [input.text('# before\n\n[r]: http://r.example\n\n'), ...notes(3)]);
	const shapes = ['html', 'markdown', 'both'].flatMap((format) => [undefined, 'text', 'html'].map((deltas) => ({ format, ...(deltas && { deltas }) })));
	const watchers = shapes.flatMap((query) => [null, ['thoughts'], ['tools'], ['thoughts', 'tools']].map((hide) => ({
		name: JSON.stringify({ ...query, hide }),
		pair: [a, b].map((node) => new Texts(t, node, query, hide ? hiding(node, hide) : undefined)),
	})));
	const each = watchers.flatMap(({ pair }) => pair);
	await Promise.all(each.map((one) => one.waitFor((text) => text.startsWith('{"type":"state"'), 'it to be live')));
	// What is asked of the owner behind that comes when it knows who wants previews.
	each[1].ws.send('{"type":"list_prompts","data":{}}');
	await each[1].waitFor((text) => text.startsWith('{"type":"prompts"'), 'the owner to know all');
	const starts = new Map(each.map((one) => [one, one.all.length]));
	const producer = await Producer.connect(t, a, 's');
	const pieces = [input.thought('a thought'), input.thought(' goes on\n\n'), input.text('a *piece'), input.tool('t1'), input.text('* of [text][r]'), input.text(' with "quotes",\ttabs and ä€😀\n'),
		input.text('```\ncode\n'), input.toolDone('t1'), input.text('```\n\nend'), input.plan('one', 'two'), input.note({ x: 'y' }), input.end()];
	for (const piece of pieces) {
		await producer.append(piece);
		await sleep(20); // so that there are deltas and previews of its own
	}
	const { acks: [{ seq }] } = await producer.append(input.note({ last: true }));
	await Promise.all(each.map((one) => one.waitFor((text) => text.includes(`"max_seq":${seq},`) && text.startsWith('{"type":"events"'), 'the last event')));
	const kinds = new Set();
	for (const { name, pair } of watchers) {
		const [there, here] = pair.map((one) => one.all.slice(starts.get(one)).filter((text) => SHARED.test(text)));
		assert.deepEqual(here, there, name);
		there.forEach((text) => kinds.add(SHARED.exec(text)[1]));
	}
	assert.deepEqual([...kinds].sort(), ['activity', 'delta', 'events', 'preview', 'state']);
	// Whoever comes in the middle of a block is told the same, too.
	await producer.append(input.text('half a **line'));
	for (const deltas of ['text', 'html']) {
		const { pair } = watchers.find(({ name }) => name.includes(`"deltas":"${deltas}","hide":null`));
		await Promise.all(pair.map((one) => one.waitFor((text) => text.includes('half a') && text.includes('line'), 'the open block')));
	}
	for (const deltas of ['text', 'html']) {
		const pair = [a, b].map((node) => new Texts(t, node, { client_id: 'me', deltas }));
		await Promise.all(pair.map((one) => one.waitFor((text) => text.startsWith('{"type":"state"'), 'it to be live')));
		const [there, here] = pair.map((one) => one.all.slice(0, 2));
		assert.deepEqual(here, there);
		assert.ok(there[1].includes('"open":{'), there[1]);
	}
});

test('pages of events, new and old, are those of the owner', async (t) => {
	const [a, b] = await startNodes(t, 2, { args: ['--limit', 'hot_tail_size=20000'] });
	await a.createSession({ id: 's' });
	await post(a, 's', notes(1500));
	const early = await Observer.connect(t, b, 's', { query: { format: 'both' } });
	await early.loadAll();
	await post(a, 's', notes(1500, 1500));
	await early.waitForSeq(3000);
	const loads = [{}, { limit: 7 }, { after_seq: 0, limit: 20 }, { after_seq: 1490, limit: 20 }, { before_seq: 1510, limit: 20 }, { before_seq: 2, limit: 9 }, { after_seq: 2999 },
		{ after_seq: 9999 }, { after_seq: 5, epoch: '0123456789abcdef' }];
	for (const format of ['html', 'markdown', 'both']) {
		const pair = [a, b].map((node) => new Texts(t, node, { format }));
		const pages = await Promise.all(pair.map(async (one) => {
			await one.waitFor((text) => text.startsWith('{"type":"state"'), 'it to be live');
			const from = one.pages.length;
			for (const [at, load] of loads.entries()) {
				one.ws.send(JSON.stringify({ type: 'load_events', data: load }));
				await one.waitFor(() => one.pages.length > from + at, `the page of ${JSON.stringify(load)}`);
			}
			return one.pages;
		}));
		assert.ok(pages[0].length > loads.length);
		assert.deepEqual(pages[1], pages[0], format);
	}
	const resumed = await Observer.connect(t, b, 's', { held: early.events().slice(0, 1700), epoch: early.epoch, query: { format: 'both' } });
	await resumed.loadAll();
	assert.deepEqual(numbers(resumed), numbersTo(3000));
	assert.deepEqual(resumed.resets, []);
});

test('prompts and answers from another node count once, and are answered to whoever asked', async (t) => {
	const [a, b] = await startNodes(t, 2, { agent: demoAgent() });
	await a.createSession({ id: 's' });
	const [ann, bob] = await Promise.all(['ann', 'bob'].map((name) => Observer.connect(t, b, 's', { query: { client_id: name } })));
	await Promise.all([ann, bob].map((observer) => observer.loadAll()));
	const first = await ann.prompt('/permission', 'p1');
	assert.equal(first.duplicate, false);
	assert.equal((await ann.prompt('/permission', 'p1')).duplicate, true);
	const request = await bob.waitForEvent('permission_request');
	await ann.waitForEvent('permission_request');
	const answer = { request_id: request.data.request_id, option_id: request.data.options[0].option_id };
	await Promise.all([ann, bob].map((observer) => observer.send('permission_answer', answer)));
	const resolved = await ann.waitForEvent('permission_resolved');
	await Promise.all([ann, bob].map((observer) => observer.waitForEvent('turn_end')));
	const [winner, loser] = resolved.data.by === 'ann' ? [ann, bob] : [bob, ann];
	const error = await loser.waitFor('error');
	assert.deepEqual([error.data.code, error.data.seq], ['already_resolved', resolved.seq]);
	for (const observer of [ann, bob]) {
		assert.equal(observer.events().filter(({ type }) => type === 'permission_resolved').length, 1);
		assert.equal(observer.events().filter(({ type }) => type === 'user_prompt').length, 1);
	}
	assert.ok(!winner.frames.some(({ type }) => type === 'error'));
	assert.ok(!bob.frames.some(({ type }) => type === 'prompt_received'), 'an answer is for one');
	assert.equal((await bob.refused('cancel', {})).code, 'not_prompting');
	await bob.send('list_prompts');
	assert.deepEqual((await bob.waitFor('prompts')).data.prompts, []);
	// It is called something else, and who comes later is told so.
	assert.equal((await a.request('PATCH', '/api/sessions/s', { json: { title: 'new', pinned: true } })).status, 200);
	await eventually(async () => (await Observer.connect(t, b, 's')).hello.title === 'new', 'the new title');
	const [there, here] = await Promise.all([a, b].map((node) => Observer.connect(t, node, 's', { query: { client_id: 'me' } })));
	assert.deepEqual(here.hello, there.hello);
});

test('who is here is the same at all nodes', async (t) => {
	const [a, b, c] = await startNodes(t, 3);
	await a.createSession({ id: 's' });
	const [ann, bob, cleo] = await Promise.all([[a, 'ann'], [b, 'bob'], [c, 'cleo']].map(([node, name]) => Observer.connect(t, node, 's', { query: { client_id: name } })));
	const told = (observer) => observer.frames.filter(({ type }) => type === 'presence').map(({ data }) => data);
	const isTold = (observer, isIt, what) => observer.waitUntil(() => told(observer).findLast(isIt), what);
	await ann.send('presence', { watch: true });
	await bob.send('presence', { name: 'Bob', watch: true });
	for (const observer of [ann, bob]) {
		const { people } = await isTold(observer, ({ count, people: those }) => count === 3 && those.some(({ name }) => name === 'Bob'), 'all three');
		assert.deepEqual(people.map(({ client_id: id }) => id).sort(), ['ann', 'bob', 'cleo']);
	}
	assert.deepEqual(told(cleo), []);
	cleo.drop();
	for (const observer of [ann, bob]) {
		await isTold(observer, ({ count }) => count === 2, 'that one has gone');
	}
});

test('the owner is killed, stopped and paused while many watch elsewhere: nothing is lost, repeated or given another number', async (t) => {
	const nodes = await startNodes(t, 3, { args: SHORT_LEASE });
	const [a] = nodes;
	await a.createSession({ id: 's' });
	let last = 0;
	let isOver = false;
	const produce = async () => {
		for (let n = 0; !isOver; n++) {
			for (let at = n; ; at++) {
				const { status, body } = await nodes[at % 3].request('POST', '/api/sessions/s/events', { json: [{ ...input.note({ n }), key: `k${n}` }] }).catch(() => ({}));
				if (status === 200) {
					assert.equal(body.acks[0].seq, n + 1);
					last = n + 1;
					break;
				}
				await sleep(20);
			}
		}
	};
	/** Watches until all is over, at one node after the other. */
	const watch = async (at) => {
		let held = [];
		let epoch = null;
		for (let round = at; ; round++) {
			const observer = await Observer.connect(t, nodes[round % 3], 's', { held, epoch, query: { format: 'markdown' } }).catch(() => null);
			try {
				await observer.loadAll();
				await observer.waitUntil(() => isOver && observer.last >= last, 'the end', 60_000);
				assert.deepEqual(observer.resets, []);
				return observer;
			} catch (error) {
				assert.ok(observer === null || observer.closed || /is not open/.test(error.message), error.stack); // or it was just closing
				if (observer && observer.frames[0]?.type === 'connected') {
					held = observer.events();
					epoch = observer.epoch;
				}
				await sleep(20);
			}
		}
	};
	const producing = produce();
	const watching = Array.from({ length: 12 }, (_, at) => watch(at));
	const grown = async (by) => {
		const had = last;
		await eventually(() => last >= had + by, `${by} more events`);
	};
	await grown(20);
	for (const node of nodes) {
		await node.kill9();
		await grown(20);
		await node.restart();
		await grown(20);
	}
	process.kill(nodes[1].pid, 'SIGSTOP');
	await grown(5).catch(() => {});
	await sleep(1500 * patience); // longer than the lease
	process.kill(nodes[1].pid, 'SIGCONT');
	await grown(20);
	await nodes[2].stop();
	await grown(20);
	await nodes[2].restart();
	await grown(20);
	isOver = true;
	await producing;
	for (const observer of await Promise.all(watching)) {
		await observer.waitUntil(() => observer.last >= last, 'what was on its way when all was over');
		assert.deepEqual(numbers(observer).slice(0, last), numbersTo(last));
	}
});

test('one that does not read delays nobody else at its node', async (t) => {
	const [a, b] = await startNodes(t, 2, { args: ['--limit', 'ping_ms=3600000'] }); // who does not read answers no ping
	await a.createSession({ id: 's' });
	const [slow, quick] = await Promise.all([1, 2].map(() => Observer.connect(t, b, 's', { query: { format: 'markdown' } })));
	await Promise.all([slow, quick].map((observer) => observer.loadAll()));
	slow.pause();
	const text = 'x'.repeat(400_000);
	for (let n = 0; n < 60; n++) {
		await post(a, 's', [input.note({ n, text })]);
		await quick.waitForSeq(n + 1);
	}
	assert.ok(slow.last < 60, 'the slow one has all: it was not slow');
	assert.ok((await readMetrics(b))('sending_bytes') < 8 << 20);
	slow.resume();
	await slow.waitForSeq(60);
	assert.deepEqual(numbers(slow), numbersTo(60));
});

test('a node of the same store alone may follow a session, and what makes no sense ends it', async (t) => {
	const [a] = await startNodes(t, 1);
	await a.createSession({ id: 's' });
	const ws = new WebSocket(a.ws('/api/sessions/s/ws'), ['holdfast-node.v1', 'holdfast.v1'], { headers: bearer(a.token) });
	defer(t, () => ws.terminate());
	const first = await new Promise((resolve, reject) => ws.on('message', (data) => resolve(JSON.parse(data))).on('error', reject));
	assert.deepEqual([ws.protocol, first.type], ['holdfast.v1', 'connected'], 'on the listener for clients it means nothing');
	const outside = new WebSocket(`ws://${a.address}/api/sessions/s/ws`, ['holdfast-node.v1'], { headers: bearer(a.token) });
	defer(t, () => outside.terminate());
	const status = await new Promise((resolve) => outside.on('unexpected-response', (_, response) => resolve(response.statusCode)).on('error', () => {}));
	assert.equal(status, 421);
});

/** A line to the owner, on which the first read of an answer ends after `sizes.shift()` bytes. The rest comes when `isRead()` is fulfilled. */
async function lineThatCuts(t, listen, connect, sizes, isRead) {
	const line = net.createServer((near) => {
		const size = sizes.shift();
		const far = net.connect(connect);
		let held = Buffer.alloc(0);
		const gather = async (piece) => {
			held = Buffer.concat([held, piece]);
			if (held.length >= size) {
				far.off('data', gather).pause();
				near.write(held.subarray(0, size));
				await isRead();
				near.write(held.subarray(size));
				far.pipe(near);
			}
		};
		far.on('data', gather);
		near.pipe(far);
		for (const [one, other] of [[near, far], [far, near]]) {
			one.on('error', () => {});
			one.on('close', () => other.destroy());
			defer(t, () => one.destroy());
		}
	});
	line.listen(listen);
	await once(line, 'listening');
	defer(t, () => line.close());
}

test('the answer to a handshake, and what came with it, may end where the memory for it ends', async (t) => {
	const place = (address) => ({ host: address.split(':')[0], port: Number(address.split(':')[1]) });
	const limits = [...NODE_TIMES, '--limit', 'idle_block_flush_ms=600000,idle_flush_ms=600000'];
	const open = `\`\`\`\n${'a line of code\n'.repeat(1500)}`; // so long is the first message
	const database = postgres.address('cut');
	const [own, told] = [nodeAddress(), nodeAddress()];
	const sizes = [512, 1024, 2048, 4096];
	let b;
	await lineThatCuts(t, place(told), place(own), sizes, () => b.request('GET', '/readyz')); // b has read by the time it answers
	const a = await Server.start(t, { args: ['--store', database, '--node-listen', own, '--node-address', told, ...limits] });
	b = await Server.start(t, { args: ['--store', database, '--node-listen', nodeAddress(), ...limits] });
	await a.createSession({ id: 's' });
	await post(a, 's', input.text(open));
	while (sizes.length > 0) {
		const what = `an answer that is cut after ${sizes[0]} bytes`;
		const texts = new Texts(t, b, { deltas: 'text' });
		await texts.waitFor((text) => text.includes('a line of code'), what);
		assert.ok(texts.all[0].startsWith('{"type":"connected"'), what);
		texts.ws.terminate();
		await eventually(async () => (await readMetrics(b))('node_sockets') === 0, 'the connection to go');
	}
});
