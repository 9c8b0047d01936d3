// The REST surface: what it gives, and what it refuses (proto/protocol.md#rest and proto/protocol.md#error-codes).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server } from '../support/server.mjs';

const rest = Object.fromEntries(['session', 'sessions', 'events', 'appended', 'health', 'error']
	.map((name) => [name, check.rest(name)]));

/** Asserts a refusal with this status and code, in words, as proto/schema says. */
function assertRefused(answer, status, code) {
	assert.equal(answer.status, status, JSON.stringify(answer.body));
	assertValid(rest.error(answer.body));
	assert.equal(answer.body.error.code, code, answer.body.error.message);
}

async function idsOf(server) {
	const { status, body } = await server.request('GET', '/api/sessions');
	assert.equal(status, 200);
	assertValid(rest.sessions(body));
	return body.sessions.map((s) => s.id);
}

test('healthz says ok and the version', async (t) => {
	const server = await Server.start(t);
	const { status, body } = await server.request('GET', '/healthz');
	assert.equal(status, 200);
	assertValid(rest.health(body));
});

test('a session is made, shown, listed and deleted', async (t) => {
	const server = await Server.start(t);
	assert.deepEqual(await idsOf(server), []);

	const made = await server.createSession({ id: 'first.one', title: 'Grüße, "first"' });
	assertValid(rest.session(made));
	assert.equal(made.id, 'first.one');
	assert.equal(made.title, 'Grüße, "first"');
	assert.equal(made.max_seq, 0);
	assert.equal(made.status, 'idle');
	assert.equal(made.is_prompting, false);
	assert.deepEqual((await server.request('GET', '/api/sessions/first.one')).body, made);

	const other = await server.createSession();
	assertValid(rest.session(other));
	assert.notEqual(other.epoch, made.epoch);
	await post(server, 'first.one', input.note({}));
	assert.deepEqual(await idsOf(server), ['first.one', other.id], 'the newest change comes first');

	assert.equal((await server.request('DELETE', '/api/sessions/first.one')).status, 204);
	assertRefused(await server.request('GET', '/api/sessions/first.one'), 404, 'not_found');
	assert.deepEqual(await idsOf(server), [other.id]);

	const again = await server.createSession({ id: 'first.one' });
	assert.notEqual(again.epoch, made.epoch, 'another history has another epoch');
	assert.equal(again.max_seq, 0);
});

test('sessions and their events outlive a stop and a kill', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession({ title: 'Stays' });
	await post(server, id, [input.text('One paragraph.\n'), input.end()]);
	const before = (await server.request('GET', `/api/sessions/${id}`)).body;
	assert.equal(before.max_seq, 2);
	for (const end of [() => server.stop(), () => server.kill9()]) {
		await end();
		await server.restart();
		assert.deepEqual((await server.request('GET', `/api/sessions/${id}`)).body, before);
	}
});

test('what cannot be a session is refused', async (t) => {
	const server = await Server.start(t);
	const create = (json) => server.request('POST', '/api/sessions', { json });
	await server.createSession({ id: 'taken' });
	assertRefused(await create({ id: 'taken' }), 409, 'session_exists');
	for (const id of ['.hidden', '..', 'a/b', '', 'x'.repeat(129), 'grüße', 'a b', 'a\n']) {
		assertRefused(await create({ id }), 400, 'bad_session_id');
	}
	for (const json of [{ id: 7 }, { title: 7 }, { name: 'x' }, [], 'x', null]) {
		assertRefused(await create(json), 400, 'bad_request');
	}
	const raw = (body) => server.request('POST', '/api/sessions', { body, headers: { 'content-type': 'application/json' } });
	assertRefused(await raw('{"id": '), 400, 'bad_json');
	assertRefused(await raw('{"id": "a"} x'), 400, 'bad_json');
	assertRefused(await raw(Buffer.from('{"title": "\xff"}', 'latin1')), 400, 'bad_utf8');
	assertRefused(await create({ title: 'x'.repeat(2000) }), 413, 'too_large');
	// The refusal comes on the length alone; a body that is on its way could break the connection before it is read.
	const large = await server.rawRequest('POST', '/api/sessions', { 'content-length': String((8 << 20) + 1) });
	assertRefused({ ...large, body: JSON.parse(large.body) }, 413, 'too_large');
	assert.deepEqual(await idsOf(server), ['taken'], 'a refusal changes nothing');
	await server.createSession({ id: 'x'.repeat(128) });
});

test('paths and methods that do not exist are refused', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'here' });
	for (const [method, path] of [
		['GET', '/api/sessions/nobody'], ['DELETE', '/api/sessions/nobody'], ['GET', '/api/sessions/nobody/events'],
		['GET', '/api/sessions/here/nothing'], ['GET', '/api/nothing'], ['GET', '/api'],
	]) {
		assertRefused(await server.request(method, path), 404, 'not_found');
	}
	assertRefused(await server.request('POST', '/api/sessions/nobody/events', { json: input.end() }), 404, 'not_found');
	for (const [method, path] of [
		['PUT', '/api/sessions'], ['DELETE', '/api/sessions'], ['PUT', '/api/sessions/here'],
		['POST', '/api/sessions/here'], ['DELETE', '/api/sessions/here/events'], ['POST', '/healthz'],
	]) {
		assertRefused(await server.request(method, path), 405, 'method_not_allowed');
	}
	const raw = async (path) => {
		const answer = await server.rawRequest('GET', path);
		return { ...answer, body: JSON.parse(answer.body) };
	};
	for (const id of ['.hidden', 'x'.repeat(129), 'gr%c3%bc', 'a%20b']) {
		assertRefused(await raw(`/api/sessions/${id}`), 400, 'bad_session_id');
	}
	// Dots and slashes are taken as the path that they are, escaped or not; it leads nowhere.
	for (const id of ['%2e%2e', '%2E%2E%2fmetadata', '..', 'a%2fb']) {
		assertRefused(await raw(`/api/sessions/${id}`), 404, 'not_found');
	}
	assertRefused(await raw('/api/sessions/a%00b'), 400, 'bad_request');
});

test('the server goes on after a client that broke off in a body', async (t) => {
	const server = await Server.start(t);
	await assert.rejects(server.request('POST', '/api/sessions', {
		body: new ReadableStream({ pull: (c) => { c.enqueue(Buffer.from('{"id"')); c.error(new Error('gone')); } }),
		headers: { 'content-type': 'application/json', 'content-length': '1000' },
	}));
	assert.deepEqual(await idsOf(server), []);
});

async function threeHundred(server) {
	const { id, epoch } = await server.createSession({ id: 'three-hundred' });
	const { max_seq: max } = await post(server, id, Array.from({ length: 300 }, (_, n) => input.note({ n })));
	assert.equal(max, 300);
	return { epoch, get: (query) => server.request('GET', `/api/sessions/${id}/events?${query}`) };
}

test('events are read by page, forward and backward', async (t) => {
	const server = await Server.start(t);
	const { epoch, get } = await threeHundred(server);
	const page = async (query) => {
		const { status, body } = await get(query);
		assert.equal(status, 200, JSON.stringify(body));
		assertValid(rest.events(body));
		assert.deepEqual(body.events.map((e) => e.seq), body.events.map((_, i) => body.first_seq + i));
		assert.deepEqual(body.events.map((e) => e.data.n), body.events.map((e) => e.seq - 1));
		assert.equal(body.events.at(-1)?.seq ?? 0, body.last_seq);
		assert.equal(body.epoch, epoch);
		assert.equal(body.max_seq, 300);
		assert.equal(body.total_count, 300);
		const { first_seq: first, last_seq: last, has_more: more, prepend, reset } = body;
		return { first, last, more, prepend, reset };
	};
	const at = (first, last, more, prepend = false, reset = undefined) => ({ first, last, more, prepend, reset });
	assert.deepEqual(await page(''), at(251, 300, true), 'the newest 50');
	assert.deepEqual(await page('limit=5000'), at(1, 300, false));
	assert.deepEqual(await page('after_seq=0&limit=100'), at(1, 100, true));
	assert.deepEqual(await page('after_seq=200&limit=100'), at(201, 300, false));
	assert.deepEqual(await page('after_seq=300'), at(0, 0, false));
	assert.deepEqual(await page(`after_seq=299&epoch=${epoch}`), at(300, 300, false));
	assert.deepEqual(await page('before_seq=251'), at(201, 250, true, true));
	assert.deepEqual(await page('before_seq=21&limit=20'), at(1, 20, false, true));
	assert.deepEqual(await page('before_seq=1'), at(0, 0, false, true));
	assert.deepEqual(await page('after_seq=301'), at(251, 300, true, false, { reason: 'ahead' }));
	assert.deepEqual(await page('after_seq=9007199254740991&limit=10'), at(291, 300, true, false, { reason: 'ahead' }));
	assert.deepEqual(await page('after_seq=10&epoch=0123456789abcdef'), at(251, 300, true, false, { reason: 'epoch' }));
});

test('wrong queries for events are refused', async (t) => {
	const server = await Server.start(t);
	const { get } = await threeHundred(server);
	for (const query of [
		'after_seq=-1', 'after_seq=x', 'after_seq=', 'after_seq=1.5', 'after_seq=1e3', 'after_seq=99999999999999999999', 'after_seq=1&before_seq=9',
		'before_seq=0', 'before_seq=-1', 'limit=0', 'limit=5001', 'limit=ten', 'format=pdf', 'format=', 'after=3',
	]) {
		const answer = await get(query);
		assert.equal(answer.status, 400, query);
		assertRefused(answer, 400, 'bad_request');
	}
});

test('events come as html, markdown or both', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	await post(server, id, [input.text('Hello, **wor'), input.text('ld** <b>x</b>.\n'), input.end()]);
	const data = async (format) => {
		const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&format=${format}`);
		assertValid(rest.events(body));
		assert.equal(body.events.length, 2);
		return body.events[0].data;
	};
	const markdown = 'Hello, **world** <b>x</b>.\n';
	assert.deepEqual(await data('markdown'), { markdown });
	const { html } = await data('html');
	assert.match(html, /^<p>Hello, <strong>world<\/strong> /);
	assert.doesNotMatch(html, /<b>/, 'raw HTML does not get through');
	assert.deepEqual(await data('both'), { markdown, html });
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0`);
	assert.deepEqual(body.events[0].data, { html }, 'html is the default');
});

test('events are appended: one, several, and as lines', async (t) => {
	const server = await Server.start(t);
	const { id, epoch } = await server.createSession();
	const ack = (seq) => ({ seq, duplicate: false });
	assert.deepEqual(await post(server, id, input.note({ n: 1 })), { epoch, max_seq: 1, acks: [ack(1)] });
	assert.deepEqual((await post(server, id, [input.note({}), input.note({})])).acks, [ack(2), ack(3)]);
	const lines = [input.note({}), input.tool('call_1'), input.toolDone('call_1')].map((e) => `${JSON.stringify(e)}\n`).join('\n');
	const answer = await server.request('POST', `/api/sessions/${id}/events`, {
		body: lines, headers: { 'content-type': 'application/x-ndjson' },
	});
	assert.equal(answer.status, 200, JSON.stringify(answer.body));
	assertValid(rest.appended(answer.body));
	assert.deepEqual(answer.body, { epoch, max_seq: 6, acks: [ack(4), ack(5), ack(6)] });
});

test('an append is taken whole or refused whole', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const append = (json) => server.request('POST', `/api/sessions/${id}/events`, { json });
	const good = input.note({});
	for (const [code, bad, status] of [
		['unknown_type', { type: 'agent_mesage_chunk', data: { text: 'x' } }],
		['unknown_type', { type: 'agent_message', data: { markdown: 'x' } }],
		['unknown_type', { type: 'x-', data: {} }],
		['bad_request', { type: 'agent_message_chunk', data: {} }],
		['bad_request', { type: 'agent_message_chunk', data: { text: '' } }],
		['bad_request', { type: 'agent_message_chunk', data: { text: 7 } }],
		['bad_request', { type: 'tool_call', data: { toolCallId: 'call_1', title: 'Reading' } }],
		['bad_request', { type: 'plan', data: {} }],
		['bad_request', { type: 'x-note', data: 'text' }],
		['bad_request', { type: 'x-note' }],
		['bad_request', { data: {} }],
		['bad_request', { type: 'x-note', data: {}, seq: 4 }],
		['bad_request', { type: 'x-note', data: {}, message_id: 7 }],
		['bad_request', { type: 'x-note', data: {}, message_id: 'x'.repeat(257) }],
		['unknown_type', { type: `x-${'n'.repeat(63)}`, data: {} }],
		['bad_request', 7],
		['bad_key', { type: 'x-note', data: {}, key: '' }],
		['bad_key', { type: 'x-note', data: {}, key: 'k'.repeat(257) }],
		['bad_request', { type: 'run_start', data: {} }],
		['unknown_run', { type: 'x-note', data: {}, run_id: 'r-1' }, 409],
	]) {
		assertRefused(await append([good, bad, good]), status ?? 400, code);
	}
	assertRefused(await append([]), 400, 'bad_request');
	assertRefused(await append('text'), 400, 'bad_request');
	assertRefused(await append(input.note({ text: 'a\0b' })), 400, 'bad_json');
	assertRefused(await append(Array(10_001).fill(good)), 413, 'too_large');
	assertRefused(await append(input.note({ big: 'x'.repeat(4 << 20) })), 413, 'too_large');
	assert.deepEqual((await append(good)).body.acks, [{ seq: 1, duplicate: false }], 'no number was spent');
});
