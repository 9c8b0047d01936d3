// What a producer may get wrong, once over each way in: every mistake has its code and words that say what to do,
// nothing of it is stored, no number is spent, and the connection goes on.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Producer, input, post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server } from '../support/server.mjs';

const errorBody = check.rest('error');
const MIB = 1 << 20;
const LARGE = 1.4 * MIB | 0;
const GOOD = JSON.stringify(input.note({}));
const noteOf = (size) => JSON.stringify(input.note({ text: 'x'.repeat(size) }));

/** name, the text (or bytes) of one event, the code, and what the message must say. */
const WRONG = [
	['JSON that ends too early', '{"type":"x-note","data":{', 'bad_json', /not valid JSON/],
	['single quotes', "{'type':'x-note','data':{}}", 'bad_json', /not valid JSON/],
	['a comma too many', '{"type":"x-note","data":{},}', 'bad_json', /not valid JSON/],
	['a member twice', '{"type":"x-note","type":"x-note","data":{}}', 'bad_json', /duplicate/],
	['65 levels', `{"type":"x-note","data":{"a":${'['.repeat(63)}${']'.repeat(63)}}}`, 'bad_json', /64 levels/],
	['a NUL in a string', '{"type":"agent_message_chunk","data":{"text":"a\\u0000b"}}', 'bad_json', /\\u0000|NUL/i],
	['a NUL byte', '{"type":"x-note","data":{"a":"\0"}}', 'bad_json', /not valid JSON/],
	['half a surrogate pair', '{"type":"x-note","data":{"a":"\\ud800"}}', 'bad_json', /not valid JSON/],
	['bytes that are no UTF-8', Buffer.from('{"type":"x-note","data":{"a":"\xff"}}', 'latin1'), 'bad_utf8', /UTF-8/],
	['half a character', Buffer.from('{"type":"x-note","data":{"a":"\xc3"}}', 'latin1'), 'bad_utf8', /UTF-8/],
	['a number', '7', 'bad_request', /object/],
	['a string', '"x-note"', 'bad_request', /object/],
	['no type', '{"data":{}}', 'bad_request', /type/],
	['a type that is a number', '{"type":7,"data":{}}', 'bad_request', /type/],
	['no data', '{"type":"x-note"}', 'bad_request', /data/],
	['data that is text', '{"type":"x-note","data":"text"}', 'bad_request', /data/],
	['a type that does not exist', '{"type":"agent_mesage_chunk","data":{"text":"x"}}', 'unknown_type', /agent_mesage_chunk.*agent_message_chunk/],
	['a type of the server', '{"type":"agent_message","data":{"markdown":"x"}}', 'unknown_type', /agent_message_chunk/],
	['an x- type that is too long', `{"type":"x-${'n'.repeat(63)}","data":{}}`, 'unknown_type', /x-/],
	['a chunk without text', '{"type":"agent_message_chunk","data":{}}', 'bad_request', /"text"/],
	['empty text', '{"type":"agent_message_chunk","data":{"text":""}}', 'bad_request', /"text".*non-empty/],
	['text that is a number', '{"type":"agent_thought_chunk","data":{"text":7}}', 'bad_request', /"text"/],
	['a tool call in camelCase', '{"type":"tool_call","data":{"toolCallId":"call_1","title":"Reading"}}', 'bad_request', /"tool_call_id"/],
	['a plan without entries', '{"type":"plan","data":{}}', 'bad_request', /"entries"/],
	['an answer to a question that nobody asked', '{"type":"permission_resolved","data":{"request_id":"p-1","outcome":"cancelled"}}', 'unknown_request', /p-1/],
	['a seq', '{"type":"x-note","data":{},"seq":4}', 'bad_request', /"seq".*server.*leave it out/],
	['a time', '{"type":"x-note","data":{},"ts":4}', 'bad_request', /"ts".*leave it out/],
	['a member that does not exist', '{"type":"x-note","data":{},"messageId":"m"}', 'bad_request', /messageId/],
	['a message_id that is a number', '{"type":"x-note","data":{},"message_id":7}', 'bad_request', /message_id/],
	['a message_id that is too long', `{"type":"x-note","data":{},"message_id":"${'m'.repeat(257)}"}`, 'bad_request', /message_id.*256/],
	['an event of 2 MiB', noteOf(2 * MIB), 'too_large', /1572864/],
	['a key of 10 KiB', `{"type":"x-note","data":{},"key":"${'k'.repeat(10 << 10)}"}`, 'bad_key', /key.*256/],
];
const STATUS = { too_large: 413, unknown_request: 409 };

function assertRefusal({ code, message }, [name, , wantedCode, words]) {
	assert.equal(code, wantedCode, `${name}: ${message}`);
	assert.match(message, words, name);
}

async function startServer(t) {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	return { server, id, path: `/api/sessions/${id}/events` };
}

async function assertNothingStored(server, id, count = 0) {
	const { acks } = await post(server, id, input.note({}));
	assert.deepEqual(acks, [{ seq: count + 1, duplicate: false }], 'no number was spent');
}

const ready = WRONG.filter((wrong) => !wrong[4]);
const pending = WRONG.filter((wrong) => wrong[4]);

async function overHttp(t, table) {
	const { server, id, path } = await startServer(t);
	const bytes = (...parts) => Buffer.concat(parts.map((part) => Buffer.from(part)));
	for (const wrong of table) {
		const [, event, code] = wrong;
		for (const [type, body, index] of [
			['application/json', bytes(event)],
			['application/json', bytes('[', GOOD, ',', event, ',', GOOD, ']'), 1],
			['application/x-ndjson', bytes('\n', event, '\n', GOOD, '\n'), 0],
		]) {
			const answer = await server.request('POST', path, { body, headers: { 'content-type': type } });
			assert.equal(answer.status, STATUS[code] ?? 400, JSON.stringify(answer.body));
			assertValid(errorBody(answer.body));
			assertRefusal(answer.body.error, wrong);
			// Where the text as a whole is none, nobody can say which event it was.
			const named = type !== 'application/json' || !/^bad_(json|utf8)$/.test(code);
			assert.equal(answer.body.error.index, named ? index : undefined, wrong[0]);
			assert.notEqual(answer.headers.get('connection'), 'close', wrong[0]);
		}
	}
	await assertNothingStored(server, id);
}

async function overSocket(t, table) {
	const { server, id } = await startServer(t);
	let producer = await Producer.connect(t, server, id);
	for (const wrong of table) {
		const [name, event, code] = wrong;
		const from = producer.frames.length;
		const frame = Buffer.concat([`{"type":"append","data":{"ref":"r","events":[${GOOD},`, event, ']}}'].map((part) => Buffer.from(part)));
		await producer.sendRaw(frame, { binary: false });
		if (code === 'bad_utf8') {
			// The library that carries the frames may have noticed first; RFC 6455 has it close then.
			await producer.waitUntil(() => producer.closed?.code === 1007 || producer.frames.length > from, name);
			producer = producer.closed ? await Producer.connect(t, server, id) : producer;
			continue;
		}
		const { type, data } = await producer.waitFor(() => true, { from });
		assert.equal(type, 'error', name);
		assertRefusal(data, wrong);
		if (code !== 'bad_json') {
			assert.deepEqual([data.request, data.ref, data.index], ['append', 'r', 1], name);
		}
	}
	assert.deepEqual((await producer.append(input.note({}))).acks, [{ seq: 1, duplicate: false }], 'no number was spent');
}

test('wrong events over HTTP: alone, in an array, as a line', (t) => overHttp(t, ready));
test('wrong events over the produce socket', (t) => overSocket(t, ready));
for (const wrong of pending) {
	test(`${wrong[0]} over HTTP`, (t) => overHttp(t, [wrong]));
	test(`${wrong[0]} over the produce socket`, (t) => overSocket(t, [wrong]));
}

test('bodies that are no events at all', async (t) => {
	const { server, id, path } = await startServer(t);
	for (const [type, body, code, words, status = 400] of [
		['application/json', '', 'bad_request', /no body/],
		['application/json', '[]', 'bad_request', /empty/],
		['application/json', ' ', 'bad_json', /not valid JSON/],
		['application/json', `${GOOD}\n${GOOD}\n`, 'bad_json', /application\/x-ndjson/],
		['application/json', `[${Array(10_001).fill('{}')}]`, 'too_large', /10000.*application\/x-ndjson/, 413],
		['application/x-ndjson', '\n \r\n\n', 'bad_request', /no event/],
		['application/x-ndjson', 'x'.repeat((8 << 20) + 1), 'too_large', /line 1.*8388608/, 413],
	]) {
		const answer = await server.request('POST', path, { body, headers: { 'content-type': type } });
		assert.equal(answer.status, status, JSON.stringify(answer.body));
		assertRefusal(answer.body.error, [body.slice(0, 40), , code, words]);
	}
	await assertNothingStored(server, id);
});

test('an event of 1.4 MiB, as agents send them, is taken whole, over every way in', async (t) => {
	const { server, id, path } = await startServer(t);
	const producer = await Producer.connect(t, server, id);
	await post(server, id, input.note({ text: 'x'.repeat(LARGE) }));
	await producer.append(input.note({ text: 'x'.repeat(LARGE) }));
	const { status } = await server.request('POST', path, { body: noteOf(LARGE), headers: { 'content-type': 'application/x-ndjson' } });
	assert.equal(status, 200);
	const { body } = await server.request('GET', `${path}?after_seq=0`);
	assert.deepEqual(body.events.map((e) => e.data.text.length), body.events.map(() => LARGE));
	await assertNothingStored(server, id, 3);
});

test('a snapshot in which two messages have one id', async (t) => {
	const { server, id } = await startServer(t);
	const producer = await Producer.connect(t, server, id);
	const message = { message_id: 'm-1', role: 'assistant', content: 'Hello.' };
	await producer.send('append_snapshot', { ref: 's', messages: [message, message] });
	const { data } = await producer.waitFor('error');
	assert.equal(data.code, 'duplicate_message_id', data.message);
	await assertNothingStored(server, id);
});
