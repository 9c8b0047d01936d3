// Who is here: names, counts, roles; who is told, how often, and what is refused.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import WebSocket from 'ws';
import { HoldfastClient } from '../../web/client/holdfast-client.js';
import { Observer } from '../support/observer.mjs';
import { Server, demoAgent, runToEnd } from '../support/server.mjs';
import { claims, makeToken, secretOf } from '../support/tokens.mjs';
import { defer, eventually } from '../support/wait.mjs';

function headers(server, role, sub, hide) {
	const { holdfast, ...rest } = claims(role, ['*'], { sub });
	return { authorization: `Bearer ${makeToken({ ...rest, holdfast: { ...holdfast, ...(hide && { hide }) } }, secretOf(server))}` };
}

const connect = (t, server, clientId, options = {}) => Observer.connect(t, server, 's', { query: { client_id: clientId }, ...options });
const told = (observer) => observer.frames.filter(({ type }) => type === 'presence').map(({ data }) => data);
const waitFor = (observer, isIt, what) => observer.waitUntil(() => told(observer).findLast(isIt), what);
const errors = (observer) => observer.frames.filter(({ type }) => type === 'error').map(({ data }) => data);

async function start(t) {
	const server = await Server.start(t, { agent: null });
	await server.createSession({ id: 's' });
	return server;
}

test('those who ask are told who is here, and of each change; others are told nothing', async (t) => {
	const server = await start(t);
	const ann = await connect(t, server, 'ann-1');
	const quiet = await connect(t, server, 'quiet');
	await ann.send('presence', { name: 'Ann', watch: true });
	const first = await waitFor(ann, () => true, 'the answer');
	assert.deepEqual(first, {
		count: 2, roles: { admin: 2 }, people: [{ role: 'admin', client_id: 'ann-1', name: 'Ann' }, { role: 'admin', client_id: 'quiet' }], more: false,
	});
	const bob = await connect(t, server, 'bob-1', { headers: headers(server, 'observer', 'bob') });
	const three = await waitFor(ann, ({ count }) => count === 3, 'the third one');
	assert.deepEqual(three.roles, { admin: 2, observer: 1 });
	assert.deepEqual(three.people.at(-1), { role: 'observer', client_id: 'bob-1', sub: 'bob' });
	await bob.send('presence', { name: 'Bobby 👩‍🚀' });
	await waitFor(ann, ({ people }) => people.some(({ name }) => name === 'Bobby 👩‍🚀'), 'the name');
	const again = await connect(t, server, 'bob-1', { headers: headers(server, 'observer', 'bob') });
	const four = await waitFor(ann, ({ count }) => count === 4, 'the second connection');
	assert.equal(four.people.length, 3, 'the same client is named once');
	await again.close();
	await bob.send('presence', { name: null });
	await waitFor(ann, ({ count, people }) => count === 3 && people.length === 3 && people[2].name === undefined, 'nobody has that name');
	await bob.close();
	await waitFor(ann, ({ count }) => count === 2, 'that he has gone');
	assert.deepEqual([told(quiet), told(bob)], [[], []]);

	await ann.send('presence', { watch: false });
	await ann.send('keepalive', {});
	await ann.waitFor('keepalive_ack');
	const before = told(ann).length;
	await quiet.send('presence', { name: 'Quiet', watch: true });
	await waitFor(quiet, ({ people }) => people[1].name === 'Quiet', 'what has changed while nobody asked');
	assert.equal(told(ann).length, before);
});

test('a token that hides something sees how many, and no names', async (t) => {
	const server = await start(t);
	const ann = await connect(t, server, 'ann-1');
	await ann.send('presence', { name: 'Ann' });
	const hiding = await connect(t, server, 'h', { headers: headers(server, 'observer', 'guest', ['thoughts']) });
	await hiding.send('presence', { name: 'Guest', watch: true });
	assert.deepEqual(await waitFor(hiding, () => true, 'the answer'), { count: 2, roles: { admin: 1, observer: 1 }, people: [], more: true });
	assert.doesNotMatch(JSON.stringify(hiding.frames), /Ann|ann-1/);
});

test('a name that is too long, cannot be seen or turns text round is refused, and changes nothing', async (t) => {
	const server = await start(t);
	const ann = await connect(t, server, 'ann-1');
	await ann.send('presence', { name: 'Ann', watch: true });
	await waitFor(ann, () => true, 'the answer');
	const bad = ['', ' ', ' Ann', 'Ann ', '\u00a0x', 'a\nb', 'a\u0000b', 'a\u007f', 'a\u0085', 'a\u200bb', '\u202eAnn', 'a\u2066b', '\ufeffAnn', '\u200d', 'é'.repeat(33), 7, ['Ann'], {}];
	for (const name of bad) {
		const seen = errors(ann).length;
		await ann.send('presence', { name });
		await ann.waitUntil(() => errors(ann).length > seen, `the refusal of ${JSON.stringify(name)}`);
		assert.ok(['bad_request', 'bad_json'].includes(errors(ann).at(-1).code), JSON.stringify(errors(ann).at(-1)));
	}
	for (const data of [{ watch: 1 }, { watch: null }, { nane: 'x' }]) {
		const seen = errors(ann).length;
		await ann.send('presence', data);
		await ann.waitUntil(() => errors(ann).length > seen, `the refusal of ${JSON.stringify(data)}`);
	}
	await ann.send('presence', { name: 'é'.repeat(32) });
	await waitFor(ann, ({ people }) => people[0].name === 'é'.repeat(32), 'the longest name');
	assert.ok(told(ann).every(({ people }) => ['Ann', 'é'.repeat(32)].includes(people[0].name)));
});

test('of many who watch the counts are exact and the names few; those who may take part come first', async (t) => {
	const server = await start(t);
	const many = await Promise.all(Array.from({ length: 120 }, (_, n) => connect(t, server, `w-${n}`, { headers: headers(server, 'observer', `w${n}`) })));
	const ann = await connect(t, server, 'ann-1');
	await ann.send('presence', { name: 'Ann', watch: true });
	const one = await waitFor(ann, ({ count }) => count === 121, 'all of them');
	assert.deepEqual([one.roles, one.people.length, one.more], [{ admin: 1, observer: 120 }, 50, true]);
	assert.equal(one.people[0].name, 'Ann');
	// However fast names change: each who asks hears of it at most once a second.
	const begun = Date.now();
	for (let n = 0; n < 100; n += 1) {
		await many[0].send('presence', { name: `w ${n}` });
	}
	await waitFor(ann, ({ people }) => people.some(({ name }) => name === 'w 99'), 'the last name');
	const seconds = (Date.now() - begun) / 1000;
	assert.ok(told(ann).length <= 3 + seconds, `${told(ann).length} frames in ${seconds} s`);
	await Promise.all(many.map((each) => each.close()));
	await waitFor(ann, ({ count }) => count === 1, 'that they have gone');
});

test('prompts and answers keep the name that their author had then, in the queue, in the log and in exports', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	await server.createSession({ id: 's' });
	const ann = await connect(t, server, 'ann-1');
	const bob = await connect(t, server, 'bob-1', { headers: headers(server, 'controller', 'bob@example.com') });
	await Promise.all([ann.loadAll(), bob.loadAll()]);
	await ann.send('presence', { name: 'Ann ✓' });
	await bob.send('presence', { name: 'Bobby' });
	await ann.send('prompt', { message: 'permission', prompt_id: 'p-1' });
	const asked = await ann.waitForEvent('permission_request');
	await bob.send('prompt', { message: 'hello', prompt_id: 'p-2' });
	await bob.send('presence', { name: null });
	await bob.send('prompt', { message: 'hello', prompt_id: 'p-3' });
	const { data: queue } = await ann.waitFor((f) => f.type === 'state' && f.data.queue_length === 2, 'two in the queue');
	assert.deepEqual(queue.queue.map(({ name }) => name), ['Bobby', undefined]);
	await bob.send('edit_prompt', { prompt_id: 'p-2', message: 'hello again' });
	await bob.waitFor('prompt_edited');
	await ann.send('presence', { name: 'Ann, later' });
	await ann.send('permission_answer', { request_id: asked.data.request_id, option_id: asked.data.options[0].option_id });
	const ends = (observer) => observer.events().filter(({ type }) => type === 'turn_end').length;
	await ann.waitUntil(() => ends(ann) === 3, 'three turns');

	const authors = (events) => events.filter(({ type }) => ['user_prompt', 'permission_resolved'].includes(type))
		.map(({ data }) => [data.prompt_id ?? 'answer', data.client_id ?? data.by, data.sub, data.name]);
	const wanted = [
		['p-1', 'ann-1', undefined, 'Ann ✓'],
		['answer', 'ann-1', undefined, 'Ann, later'],
		['p-2', 'bob-1', 'bob@example.com', 'Bobby'],
		['p-3', 'bob-1', 'bob@example.com', undefined],
	];
	assert.deepEqual(authors(ann.events()), wanted);
	await server.kill9();
	await server.restart();
	const { body } = await server.request('GET', '/api/sessions/s/events?after_seq=0&format=markdown');
	assert.deepEqual(authors(body.events), wanted);
	await server.stop();
	const { code, stdout } = await runToEnd(['export', server.dataDir, 's', '--format', 'markdown']);
	assert.equal(code, 0);
	assert.deepEqual(stdout.match(/, by .*/g), [', by Ann ✓', ', by Ann, later', ', by Bobby (bob@example.com)', ', by bob@example.com']);
});

test('the client library says its name before it sends the prompts that wait', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const { id } = await server.createSession();
	const client = new HoldfastClient({ base: server.url, sessionId: id, getToken: () => server.token, format: 'markdown', WebSocket });
	defer(t, () => client.close());
	client.setName('Ann');
	const waits = client.prompt('hello');
	client.connect();
	await waits;
	await eventually(() => client.events.some(({ type }) => type === 'turn_end'), 'the end');
	assert.equal(client.events.find(({ type }) => type === 'user_prompt').data.name, 'Ann');
	assert.equal(client.transcript.turns[0].prompt.data.name, 'Ann');
});
