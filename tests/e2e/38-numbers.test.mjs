// Numbers come out as they came in: in the log, over HTTP and over a socket, in every format, also after a restart.

import assert from 'node:assert/strict';
import { on, once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import WebSocket from 'ws';
import { Observer } from '../support/observer.mjs';
import { logText } from '../support/log.mjs';
import { Producer } from '../support/producer.mjs';
import { authOf } from '../support/auth.mjs';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';

const NUMBERS = [
	'0', '-0', '1', '-1', '0.1', '-0.1', '0.10', '1.0', '1.50', '-0.0', '100.0', '1e3', '1E3', '1e+3', '1.0e-3', '0.001', '1e-7', '1e21', '1e-400', '0e0',
	'3.14159265358979323846264338327950288', '0.30000000000000004', '2.2250738585072011e-308', '1.7976931348623157e308', '1e400', '-1e999999',
	'9007199254740993', '9223372036854775807', '9223372036854775808', '-9223372036854775808', '-9223372036854775809',
	'12345678901234567890', '12345678901234567891', `1${'0'.repeat(400)}`, `0.${'1'.repeat(100)}`,
];
const ARRAY = `[${NUMBERS}]`;
const DATA = `{"list":${ARRAY},"deep":{"0.10":[[{"a":1.50,"b":"1.50 \\"2e0"}],1.5,"\\\\",2.0e0]},"end":-0}`;

/** Every text in which observers can get the session's events. */
async function textsOf(t, server, id) {
	const texts = [logText(server, id)];
	for (const format of ['html', 'markdown', 'both']) {
		texts.push((await server.rawRequest('GET', `/api/sessions/${id}/events?after_seq=0&format=${format}`)).body);
		const ws = new WebSocket(server.ws(`/api/sessions/${id}/ws?format=${format}`), { headers: authOf(server.url) });
		t.after(() => ws.terminate());
		const frames = on(ws, 'message');
		await once(ws, 'open');
		ws.send('{"type":"load_events","data":{"after_seq":0}}');
		for (;;) {
			const text = String((await frames.next()).value[0]);
			if (text.startsWith('{"type":"events_loaded"')) {
				texts.push(text);
				break;
			}
		}
		ws.terminate();
	}
	return texts;
}

async function assertHas(t, server, id, ...parts) {
	for (const text of await textsOf(t, server, id)) {
		for (const part of parts) {
			assert.ok(text.includes(part), `${part} in ${text}`);
		}
	}
}

async function postRaw(server, id, body, type = 'application/json') {
	const answer = await server.rawRequest('POST', `/api/sessions/${id}/events`, { 'content-type': type, 'content-length': String(Buffer.byteLength(body)) }, body);
	assert.equal(answer.status, 200, answer.body);
	return JSON.parse(answer.body);
}

test('a producer\'s numbers', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	await postRaw(server, id, `{"type": "x-one", "data": ${DATA}}`);
	await postRaw(server, id, ` [ {"type":"x-two","data": {"n" : 1.10 }} , {"data":{"n":1.100},"type":"x-three"},
		{"type":"tool_call","data":{"tool_call_id":"t","title":"T","raw_input":${DATA}}}]`);
	await postRaw(server, id, '{"type":"x-line","data":{"n":1.10}}\n{"type":"x-line","data":{"n":110e-2}}\n', 'application/x-ndjson');
	const producer = await Producer.connect(t, server, id);
	await producer.sendRaw(`{"type":"append","data":{"ref":1,"events":[{"type":"x-sent","data":${DATA}},{"type":"turn_end","data":{"cost":1.20}}]}}`);
	await producer.acked(1);
	const parts = [`"type":"x-one"`, `"data":${DATA}`, '"data":{"n":1.10}', '"data":{"n":1.100}', `"raw_input":${DATA}`, '"data":{"n":110e-2}',
		'"data":{"cost":1.20,"stop_reason":"end_turn"}'];
	await assertHas(t, server, id, ...parts);
	for (const end of [() => server.kill9(), () => server.stop()]) {
		await end();
		await server.restart();
		await assertHas(t, server, id, ...parts);
	}
	const { code, stdout } = await runToEnd(['verify', server.store]);
	assert.equal(code, 0, stdout);
});

test('numbers go through export and replay', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	await postRaw(server, id, `{"type":"x-one","data":${DATA}}`);
	const { stdout } = await runToEnd(['export', server.store, id]);
	assert.ok(stdout.includes(`"data":${DATA}`), stdout);
	const file = join(scratchDir(t), 'exported.jsonl');
	writeFileSync(file, stdout);
	const { stdout: played } = await runToEnd(['replay', file, '--url', server.url, '--data', server.dataDir, '--create', '--speed', 'max']);
	await assertHas(t, server, played.trim(), `"data":${DATA}`);
});

test('a snapshot\'s numbers', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const producer = await Producer.connect(t, server, id);
	await producer.sendRaw(`{"type":"append_snapshot","data":{"ref":1,"messages":[{"role":"user","message_id":"u","content":"Go"},
		{"role":"assistant","message_id":"a","content":[{"type":"tool_use","id":"t","name":"n","input":${DATA}}]}]}}`);
	await producer.acked(1);
	await assertHas(t, server, id, `"raw_input":${DATA}`);
});

test('usage is counted, and its report is as it came', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	await postRaw(server, id, '{"type":"usage","data":{"mode":"delta","input_tokens":10,"cost":{"amount":0.10,"currency":"USD"}}}');
	await postRaw(server, id, '{"type":"usage","data":{"mode":"delta","input_tokens":10,"cost":{"amount":2e-1,"currency":"USD"}}}');
	await assertHas(t, server, id, '"cost":{"amount":0.10,"currency":"USD"}', '"cost":{"amount":2e-1,"currency":"USD"}', '"amount":0.3,');
});

test('a key is of the values, not of how their numbers are written', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const first = await postRaw(server, id, '{"type":"x-n","key":"k","data":{"n":0.10,"big":12345678901234567890}}');
	const again = await postRaw(server, id, '{"type":"x-n","key":"k","data":{"big":12345678901234567890,"n":1e-1}}');
	assert.deepEqual(again.acks, [{ seq: first.acks[0].seq, duplicate: true }]);
	const numbers = '[0.10,12345678901234567890,1e400,-100,0.0,120,1e99999999999999999999,[-0.5e-7]]';
	await postRaw(server, id, `{"type":"x-n","key":"l","data":{"n":${numbers}}}`);
	for (const end of [null, () => server.kill9(), () => server.stop()]) {
		await end?.();
		if (end) {
			await server.restart();
		}
		const same = '[1e-1,1234567890123456789e1,0.010E+402,-1.00e2,-0,12e1,1e99999999999999999999,[-5e-8]]';
		assert.deepEqual((await postRaw(server, id, `{"type":"x-n","key":"l","data":{"n":${same}}}`)).acks, [{ seq: 2, duplicate: true }]);
		for (const [was, other] of [['0.10', '0.1000000000000000055'], ['7890,', '7891,'], ['1e400', '1e401'], ['-100', '100'], ['120', '12'], ['0.0', '1e-400']]) {
			const body = `{"type":"x-n","key":"l","data":{"n":${numbers.replace(was, other)}}}`;
			const refused = await server.request('POST', `/api/sessions/${id}/events`, { body, headers: { 'content-type': 'application/json' } });
			assert.deepEqual([refused.status, refused.body.error?.code], [409, 'key_conflict'], other);
		}
	}
});

test('a number is never what it is not', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	for (const size of ['12345678901234567890', '1.0', '1e2', '-0.0', '1e400']) {
		const { status } = await server.rawRequest('POST', `/api/sessions/${id}/events`, { 'content-type': 'application/json' },
			`{"type":"file_read","data":{"path":"p","size":${size}}}`);
		assert.equal(status, 400, size);
	}
	for (const bad of ['01', '1.', '.1', '+1', '1e', '--1', '0x1', 'NaN', 'Infinity', '1e400x', '12345678901234567890x']) {
		const { status } = await server.rawRequest('POST', `/api/sessions/${id}/events`, { 'content-type': 'application/json' }, `{"type":"x-n","data":{"n":${bad}}}`);
		assert.equal(status, 400, bad);
	}
});

test('a client\'s time comes back as it was sent', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const ws = new WebSocket(server.ws(`/api/sessions/${id}/ws`), { headers: authOf(server.url) });
	t.after(() => ws.terminate());
	await once(ws, 'open');
	const frames = on(ws, 'message');
	const answer = async (time) => {
		ws.send(`{"type":"keepalive","data":{"client_time":${time}}}`);
		for (;;) {
			const text = String((await frames.next()).value[0]);
			if (text.startsWith('{"type":"keepalive_ack"')) {
				return text;
			}
		}
	};
	for (const time of ['0.1', '1763620001234.50', '1e3', '17']) {
		assert.ok((await answer(time)).includes(`"client_time":${time},`), time);
	}
});

test('an agent\'s numbers', async (t) => {
	const dir = scratchDir(t);
	const agent = join(dir, 'agent.mjs');
	writeFileSync(agent, `
import { createInterface } from 'node:readline';
const say = (text) => process.stdout.write(text + '\\n');
const update = (text) => say('{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":' + text + '}}');
const data = ${JSON.stringify(DATA)};
createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method } = JSON.parse(line);
	if (method === 'initialize') {
		say(JSON.stringify({ jsonrpc: '2.0', id, result: { protocolVersion: 1 } }));
	} else if (method === 'session/new') {
		update('{"sessionUpdate":"early_kind","n":1.70}');
		say('{"jsonrpc":"2.0","id":' + id + ',"result":{"sessionId":"s","_meta":{"n":1.30}}}');
	} else if (method === 'session/prompt') {
		update('{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","rawInput":' + data + '}');
		update('{"sessionUpdate":"some_kind","list":${ARRAY}}');
		update('{"sessionUpdate":"usage_update","used":10,"size":20,"cost":{"amount":0.10,"currency":"USD"}}');
		update('{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hi."},"_meta":{"n":1.40}}');
		say('{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","rawInput":' + data + '},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}');
		globalThis.prompt = id;
	} else if (id === 7) {
		say('{"jsonrpc":"2.0","id":' + globalThis.prompt + ',"result":{"stopReason":"end_turn"}}');
	}
});
`);
	const server = await Server.start(t, { agent: `exec '${process.execPath}' '${agent}'` });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	await observer.prompt('Go');
	const { data } = await observer.waitForEvent('permission_request');
	await observer.send('permission_answer', { request_id: data.request_id, option_id: 'y' });
	await observer.waitForEvent('turn_end');
	await assertHas(t, server, id, `"title":"T","raw_input":${DATA}`, `{"list":${ARRAY}}`, '"cost":{"amount":0.10,"currency":"USD"}',
		`"tool_call":{"tool_call_id":"t","raw_input":${DATA}`, '"_meta":{"n":1.40}', '{"n":1.70}');
});
