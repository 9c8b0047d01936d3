// What comes in at /acp from somebody who means no good, or does not know better: each message has an answer with a code, or none; the server stays, and so
// does the socket, unless what comes is no WebSocket message for it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Editor } from '../support/editor.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { eventually } from '../support/wait.mjs';

async function start(t, options = {}) {
	const server = await Server.start(t, { agent: demoAgent('--rate 0'), ...options });
	await server.createSession({ id: 's' });
	return server;
}

const rpc = (id, method, params = {}) => ({ jsonrpc: '2.0', id, method, params });
const hello = rpc('hello', 'initialize', { protocolVersion: 1 });
const open = rpc('open', 'session/load', { sessionId: 's', cwd: '/', mcpServers: [] });
const prompt = (id, blocks, meta) => rpc(id, 'session/prompt', { sessionId: 's', prompt: blocks, ...(meta && { _meta: { holdfast: meta } }) });

async function connect(t, server, ...first) {
	const socket = new TestSocket(t, server.ws('/acp'), () => null);
	for (const message of first) {
		await socket.sendRaw(JSON.stringify(message));
		await socket.waitFor(({ id, method }) => !method && id === message.id);
	}
	return socket;
}

test('what is no message of JSON-RPC is answered with its code; the socket stays', async (t) => {
	const server = await start(t);
	const socket = await connect(t, server, hello, open);
	const bad = [
		['{', -32700], ['', -32700], ['nothing', -32700], ['[]', -32600], [JSON.stringify([rpc(1, 'session/list')]), -32600], ['7', -32600], ['null', -32600], ['{}', -32600], ['{"jsonrpc":"2.0","id":1}', -32600],
		['{"id":{},"method":"session/list"}', -32600], ['{"id":1.5,"method":"session/list"}', -32600], [`{"id":"${'x'.repeat(300)}","method":"session/list"}`, -32600], ['{"id":null,"method":"session/list"}', -32600],
		['{"a":1,"a":2}', -32700], ['['.repeat(100) + ']'.repeat(100), -32700], ['{"method":"session/list","id":"\\u0000"}', -32700], ['{"method":"session/load","params":{"sessionId":"s"}}', -32600], ['{"id":1,"method":7}', -32600],
	];
	for (const [text, code] of bad) {
		const from = socket.frames.length;
		await socket.sendRaw(text);
		const { error } = await socket.waitFor((frame) => frame.error, { from });
		assert.equal(error.code, code, text.slice(0, 60));
		assert.ok(error.data.code && error.message);
	}
	for (const silent of ['{"method":"x/unknown"}', '{"method":"session/cancel","params":{}}', '{"id":"question-x","result":{}}', '{"id":7,"result":{}}', '{"id":"a","error":{}}', '{"method":"$/cancel_request","params":{"requestId":[]}}', '{"method":"$/cancel_request","params":{"requestId":"no"}}']) {
		const from = socket.frames.length;
		await socket.sendRaw(silent);
		await socket.sendRaw(JSON.stringify(rpc(`after ${from}`, 'session/list')));
		assert.equal((await socket.waitFor(({ id }) => id, { from })).id, `after ${from}`, silent);
	}
	assert.equal(socket.closed, null);
});

test('parameters that make no sense are refused with -32602, unknown methods with -32601, and nothing has happened', async (t) => {
	const server = await start(t);
	const socket = await connect(t, server, hello, open);
	const text = [{ type: 'text', text: 'x' }];
	const bad = [
		['initialize', {}], ['initialize', { protocolVersion: '1' }], ['session/new', {}], ['session/new', { cwd: 'relative' }], ['session/new', { cwd: 7 }], ['session/new', { cwd: '/', additionalDirectories: [{}] }],
		['session/load', {}], ['session/load', { sessionId: '../x' }], ['session/load', { sessionId: '.x' }], ['session/load', { sessionId: 'x'.repeat(200) }], ['session/load', { sessionId: ['s'] }],
		['session/prompt', { sessionId: 's' }], ['session/prompt', { sessionId: 's', prompt: {} }], ['session/prompt', { sessionId: 's', prompt: [] }], ['session/prompt', { sessionId: 's', prompt: [{ type: 'text', text: '' }] }],
		['session/prompt', { sessionId: 's', prompt: text, _meta: { holdfast: { prompt_id: 'a b' } } }], ['session/prompt', { sessionId: 's', prompt: text, _meta: { holdfast: { prompt_id: 7 } } }], ['session/prompt', { sessionId: 's', prompt: text, _meta: { holdfast: { prompt_id: 'x'.repeat(129) } } }],
		['session/prompt', { sessionId: 's', prompt: [{ type: 'resource_link', uri: 'x' }] }], ['session/prompt', { sessionId: 's', prompt: [{ type: 'resource_link', uri: 'u'.repeat(5000), name: 'n' }] }],
		['session/prompt', { sessionId: 'other', prompt: text }], ['session/set_mode', { sessionId: 's' }], ['session/set_mode', { sessionId: 's', modeId: '' }], ['session/set_mode', { sessionId: 's', modeId: 'm'.repeat(2000) }],
		['session/set_config_option', { sessionId: 's', configId: 'c' }], ['session/set_config_option', { sessionId: 's', configId: 'c', value: {} }], ['session/set_config_option', { sessionId: 's', configId: 'c', value: 7 }], ['session/list', { cursor: '"' }],
	];
	for (const [i, [method, params]] of bad.entries()) {
		await socket.sendRaw(JSON.stringify(rpc(`bad ${i}`, method, params)));
		const { error } = await socket.waitFor(({ id }) => id === `bad ${i}`);
		assert.equal(error.code, -32602, `${method} ${JSON.stringify(params).slice(0, 80)}: ${JSON.stringify(error)}`);
	}
	for (const [i, method] of ['session/fork', 'fs/read_text_file', 'logout', 'providers/list', 'mcp/message', '', '__proto__', 'x'.repeat(10_000)].entries()) {
		await socket.sendRaw(JSON.stringify(rpc(`unknown ${i}`, method, {})));
		assert.equal((await socket.waitFor(({ id }) => id === `unknown ${i}`)).error.code, -32601, method);
	}
	const { body } = await server.request('GET', '/api/sessions');
	assert.deepEqual(body.sessions.map(({ id, max_seq: seq }) => [id, seq]), [['s', 0]]);
});

test('ids, texts and names with everything in them that JSON has to escape come back as they were', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server);
	await editor.load('s');
	const socket = await connect(t, server, hello, open);
	for (const id of ['"\\', '\u2028\u0001\t\n', '\u{1f600}', '</script>', -5, Number.MAX_SAFE_INTEGER, '']) {
		await socket.sendRaw(JSON.stringify(rpc(id, 'session/list')));
		await socket.waitFor((frame) => frame.id === id && frame.result);
	}
	const text = 'say "this" \\ and \u0001\u2028 \u{1f600}';
	await socket.sendRaw(JSON.stringify(prompt('"', [{ type: 'text', text }, { type: 'resource_link', uri: 'file:///"\\', name: '"\u0007' }])));
	await editor.until(() => editor.of('s', 'user_message_chunk').length === 2);
	const [said, link] = editor.of('s', 'user_message_chunk').map(({ update }) => update.content);
	assert.equal(said.text, text);
	assert.deepEqual(link, { type: 'resource_link', uri: 'file:///"\\', name: '"\u0007' });
	await socket.waitFor(({ id, result }) => id === '"' && result);
	editor.assertGood();
});

test('nothing but initialize is taken first, and there is an end to everything', async (t) => {
	const server = await start(t, { args: ['--limit', 'session_connections=3', '--limit', 'prompt_size=1024'] });
	const early = await connect(t, server);
	await early.sendRaw(JSON.stringify(open));
	assert.equal((await early.waitFor(({ id }) => id === 'open')).error.code, -32600);
	const large = await connect(t, server, hello, open);
	await large.sendRaw(JSON.stringify(prompt('large', [{ type: 'text', text: 'x'.repeat(2000) }])));
	assert.equal((await large.waitFor(({ id }) => id === 'large')).error.data.code, 'too_large');
	await connect(t, server, hello, open);
	await connect(t, server, hello, open);
	const fourth = await connect(t, server, hello);
	await fourth.sendRaw(JSON.stringify(open));
	assert.equal((await fourth.waitFor(({ id }) => id === 'open')).error.data.code, 'too_many_connections');

	const many = await connect(t, server, hello);
	for (let i = 0; i < 70; i++) {
		await many.sendRaw(JSON.stringify(rpc(`new ${i}`, 'session/new', { cwd: '/', mcpServers: [] })));
		await many.waitFor(({ id }) => id === `new ${i}`);
	}
	const refused = many.frames.filter(({ error }) => error);
	assert.equal(refused.length, 6);
	assert.ok(refused.every(({ error }) => error.data.code === 'server_busy'));
});

test('a prompt that is refused because too many requests wait is not in the queue', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 20') });
	const socket = await connect(t, server, hello, open);
	const status = async () => (await server.request('GET', '/api/sessions/s')).body;
	for (let i = 0; i < 63; i++) {
		await socket.sendRaw(JSON.stringify(prompt(`first ${i}`, [{ type: 'text', text: 'markdown' }], { prompt_id: 'first' })));
	}
	await eventually(async () => (await status()).is_prompting && socket.frames.some(({ params }) => params?.update?.sessionUpdate === 'agent_message_chunk'), 'the turn');
	const set = rpc('set', 'session/set_config_option', { sessionId: 's', configId: 'thoughts', value: 'hidden' });
	await socket.sendRawTogether([set, prompt('late', [{ type: 'text', text: 'list' }], { prompt_id: 'late' })].map((message) => JSON.stringify(message)));
	assert.equal((await socket.waitFor(({ id }) => id === 'late')).error.data.code, 'queue_full');
	await socket.waitFor(({ id }) => id === 'set');
	const watcher = new TestSocket(t, server.ws('/api/sessions/s/ws'), () => null);
	await watcher.sendRaw('{"type":"keepalive","data":{}}');
	const { is_prompting, queue_length } = (await watcher.waitFor(({ type }) => type === 'keepalive_ack')).data;
	assert.deepEqual({ is_prompting, queue_length }, { is_prompting: true, queue_length: 0 });
});

test('other methods than GET, queries and binary frames are refused', async (t) => {
	const server = await start(t);
	for (const method of ['POST', 'PUT', 'DELETE']) {
		const answer = await server.request(method, '/acp', { json: hello });
		assert.deepEqual([answer.status, answer.headers.get('allow')], [405, 'GET'], method);
	}
	assert.equal((await server.request('GET', '/acp')).status, 426);
	for (const query of ['?x=1', '?client_id=a.b', '?client_id=']) {
		const socket = new TestSocket(t, server.ws(`/acp${query}`), () => null);
		assert.equal((await socket.waitClosed()).code, 1008, query);
	}
	assert.equal((await server.request('GET', '/acp/x')).status, 404);
	const socket = await connect(t, server, hello);
	await socket.sendRaw(Buffer.from(JSON.stringify(open)));
	await socket.sendRaw(JSON.stringify(rpc('after', 'session/list')));
	await socket.waitFor(({ id }) => id === 'after');
	assert.equal(socket.frames.some(({ id }) => id === 'open'), false);
});

test('an editor that asks and does not read is cut off', async (t) => {
	const server = await start(t, { args: ['--limit', 'outbox_size=65536,client_requests=100000'] });
	for (let i = 0; i < 40; i++) {
		await server.createSession({ id: `n${i}`, title: 'x'.repeat(900) });
	}
	const socket = await connect(t, server, hello);
	socket.pause();
	/* Many in one write: a server that cannot send reads no more, and counts what it has read. */
	const asked = Array.from({ length: 500 }, () => JSON.stringify(rpc('again', 'session/list')));
	await eventually(async () => {
		socket.sendRawTogether(asked).catch(() => {}); // it may be closed by now
		return (await readMetrics(server))('limit_reached_total{limit="outbox_size"}') > 0;
	}, 'the socket to be cut off');
	socket.resume();
	assert.equal((await socket.waitClosed()).code, 1008);
	assert.equal((await server.request('GET', '/healthz')).status, 200);
});
