// What agents write in other ways than the schema: text that is cut in the middle of a character, and numbers that are spelled as fractions or
// strings, or are null. None of it costs a message, or a member that was good.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { scriptedAgent } from '../support/scripted_agent.mjs';
import { Server } from '../support/server.mjs';

async function run(t, code, files = {}) {
	const server = await Server.start(t, { agent: scriptedAgent(t, code) });
	for (const [name, text] of Object.entries(files)) {
		writeFileSync(join(server.dataDir, '..', name), text);
	}
	await server.createSession({ id: 's' });
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
	await observer.loadAll();
	const { seq } = await observer.prompt('go');
	await observer.waitForEvent('turn_end', { after: seq });
	return { server, events: observer.events().slice(seq) };
}

const joined = (events, type, member) => events.filter((e) => e.type === type).map((e) => e.data[member]).join('');

// Writes a chunk whose text is these bytes, as they are, or these characters, escaped.
const CHUNKS = `
	const chunk = (text, kind = 'agent_message_chunk', more = '') => raw(Buffer.concat([
		Buffer.from('{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"' + kind + '",' + more + '"content":{"type":"text","text":"'),
		typeof text === 'string' ? Buffer.from([...text].map((c) => c.length === 1 && c >= '\\ud800' && c <= '\\udfff' ? '\\\\u' + c.charCodeAt(0).toString(16) : c).join('')) : text,
		Buffer.from('"}}}}\\n')]));
	const thought = (text) => chunk(text, 'agent_thought_chunk');
`;

test('the halves of a character meet, wherever it is cut', async (t) => {
	const { events } = await run(t, `${CHUNKS}
		on['session/prompt'] = ({ id }) => {
			for (const character of ['é', '€', '😀']) {
				const bytes = Buffer.from(character);
				for (let at = 1; at < bytes.length; at++) {
					chunk(Buffer.concat([Buffer.from('<'), bytes.subarray(0, at)]));
					chunk(Buffer.concat([bytes.subarray(at), Buffer.from('>')]));
					chunk(bytes.subarray(0, at));
					chunk(Buffer.concat([bytes.subarray(at), bytes.subarray(0, at)]));
					chunk('');
					chunk(bytes.subarray(at));
				}
			}
			chunk('[\\ud83d'); chunk('\\ude00]');
			chunk('\\ud83d'); chunk('\\ude00\\ud83d'); chunk('\\ude00');
			thought('\\ud83d'); thought('\\ude00 thought');
			answer(id, { stopReason: 'end_turn' });
		};`);
	const twice = (c, times) => `<${c}>${c}${c}`.repeat(times);
	assert.equal(joined(events, 'agent_message', 'markdown'), `${twice('é', 1)}${twice('€', 2)}${twice('😀', 3)}[😀]😀😀`);
	assert.equal(joined(events, 'agent_thought', 'text'), '😀 thought');
});

test('where the other half does not come, U+FFFD is there, and nothing waits', async (t) => {
	const { events } = await run(t, `${CHUNKS}
		on['session/prompt'] = ({ id }) => {
			chunk('a\\ud83d'); chunk('b ');
			chunk('\\ude00c ');
			chunk('d\\ud83d'); update({ sessionUpdate: 'tool_call', toolCallId: 't', title: 'T' });
			chunk('\\ude00e ');
			chunk('f\\ud83d', 'agent_message_chunk', '"messageId":"1",'); chunk('\\ude00g ', 'agent_message_chunk', '"messageId":"2",');
			chunk(Buffer.from([0x68, 0xf0, 0x9f])); chunk(Buffer.from([0x80, 0x69]));
			chunk('j\\ud83d'); thought('\\ude00 k');
			chunk('l\\ud83d');
			answer(id, { stopReason: 'end_turn' });
		};`);
	assert.equal(joined(events, 'agent_message', 'markdown'), 'a\ufffdb \ufffdc d\ufffd\ufffde f\ufffd\ufffdg h\ufffd\ufffdij\ufffdl\ufffd');
	assert.equal(joined(events, 'agent_thought', 'text'), '\ufffd k');
	assert.equal(events.at(-1).type, 'turn_end');
});

test('a history that is replayed with the same cuts is the one in the log: nothing of it comes twice', async (t) => {
	const { server } = await run(t, `${CHUNKS}
		const tell = () => {
			chunk('Hello, dear friend \\ud83d'); chunk('\\ude00'); chunk('x\\ud83d'); chunk('\\ude00 and then y');
			chunk(Buffer.from([0xf0, 0x9f])); chunk(Buffer.from([0x98, 0x80])); thought('A thought of some length \\ud83d'); thought('\\ude00'); chunk('the end\\ud83d');
		};
		on.initialize = ({ id }) => answer(id, { protocolVersion: 1, agentCapabilities: { loadSession: true } });
		on['session/load'] = ({ id }) => {
			update({ sessionUpdate: 'user_message_chunk', content: { type: 'text', text: 'go' } });
			tell();
			answer(id, {});
		};
		on['session/prompt'] = ({ id, params }) => {
			params.prompt[0].text === 'go' ? tell() : text('Next.');
			answer(id, { stopReason: 'end_turn' });
		};`);
	await server.stop();
	await server.up();
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
	await observer.loadAll();
	const { seq } = await observer.prompt('again');
	await observer.waitForEvent('turn_end', { after: seq });
	const events = observer.events().slice(seq);
	assert.equal(events[0].data.resumed, true);
	assert.deepEqual(events.map(({ type }) => type), ['agent_started', 'agent_message', 'turn_end'], JSON.stringify(events));
	assert.equal(joined(events, 'agent_message', 'markdown'), 'Next.');
});

test('numbers as fractions, strings or null', async (t) => {
	const { events } = await run(t, `
		on.initialize = ({ id }) => answer(id, { protocolVersion: '1' });
		on['session/prompt'] = async ({ id }) => {
			raw('{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":"12","size":3e2,"cost":null}}}\\n');
			raw('{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","locations":[{"path":"/a","line":3.0},{"path":"/b","line":"4"},{"path":"/c","line":null},{"path":"/d","line":"x"},{"path":"/e","line":-1},{"line":1}]}}}\\n');
			const read = async (params) => (await ask('r' + params, 'fs/read_text_file', { sessionId: 's', path: process.cwd() + '/f', ...JSON.parse(params) })).result?.content;
			text([await read('{"line":"2","limit":1.0}'), await read('{"line":2e0,"limit":"2"}'), await read('{"line":null,"limit":null}')].join('|').replaceAll('\\n', '/') + '\\n\\n');
			const { result } = await ask(5, 'terminal/create', { command: 'echo 1234567', outputByteLimit: '4' });
			await ask(6, 'terminal/wait_for_exit', { terminalId: result.terminalId });
			text((await ask(7, 'terminal/output', { terminalId: result.terminalId })).result.output.trim());
			raw('{"jsonrpc":"2.0","id":' + id + ',"result":{"stopReason":"end_turn","usage":{"inputTokens":5.0,"outputTokens":"6","totalTokens":null}}}\\n');
		};`, { f: 'one\ntwo\nthree\n' });
	const [first, last] = events.filter(({ type }) => type === 'usage').map(({ data }) => data);
	assert.deepEqual([first.used, first.size], [12, 300]);
	assert.deepEqual([last.input_tokens, last.output_tokens, last.total_tokens], [5, 6, undefined]);
	assert.deepEqual(events.find(({ type }) => type === 'tool_call').data.locations, [{ path: '/a', line: 3 }, { path: '/b', line: 4 }, { path: '/c' }, { path: '/d' }, { path: '/e' }]);
	assert.equal(joined(events, 'agent_message', 'markdown').trim(), 'two/|two/three/|one/two/three/\n\n567');
});
