// What agents ask a person for in forms and with addresses: asked once, like a permission, in clients, editors and the log; answered once; what was answered reaches
// the agent and nobody else.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Editor } from '../support/editor.mjs';
import { servedLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { post } from '../support/producer.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';

const AGENT = `exec ${process.execPath} ${fileURLToPath(new URL('../support/elicitation_agent.mjs', import.meta.url))}`;
const CONTENT = { name: 'Ann-the-secret', age: 41, share: 0.5, loud: true, colour: 'r', size: 'large', days: ['mon', 'wed'] };

async function start(t, options = {}) {
	const server = await Server.start(t, { agent: AGENT, ...options });
	await server.createSession({ id: 's' });
	return server;
}

async function watch(t, server, prompt) {
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
	await observer.loadAll();
	if (prompt) {
		observer.send('prompt', { message: prompt, prompt_id: `p-${Math.random().toString(36).slice(2)}` });
	}
	return observer;
}

const asked = (observer, n = 1) => observer.waitUntil(() => observer.events().filter(({ type }) => type === 'elicitation_request').length >= n, 'a question').then(() => observer.events().filter(({ type }) => type === 'elicitation_request').at(-1));
const said = async (server) => (await servedLog(server)).filter(({ type }) => type === 'agent_message').map(({ data }) => data.markdown);
const ended = (server, turns = 1) => eventually(async () => (await servedLog(server)).filter(({ type }) => type === 'turn_end').length === turns, 'the turn to end');

test('a form is asked for, answered once, and what was answered is the agent\'s alone: no byte of it is in the log, the journal or a frame', async (t) => {
	const server = await start(t);
	const observer = await watch(t, server, 'form');
	const other = await watch(t, server);
	const { data } = await asked(observer);
	assert.equal(data.mode, 'form');
	assert.equal(data.message, 'Who are you, and what may I do?');
	assert.deepEqual(Object.keys(data.requested_schema.properties), ['name', 'age', 'share', 'loud', 'colour', 'size', 'days']);
	assert.equal((await server.request('GET', '/api/sessions/s')).body.status, 'waiting');
	observer.send('elicitation_answer', { request_id: data.request_id, action: 'accept', content: CONTENT });
	await ended(server);
	const events = await servedLog(server);
	const resolved = events.find(({ type }) => type === 'elicitation_resolved');
	assert.deepEqual(Object.keys(resolved.data).sort(), ['action', 'by', 'request_id']);
	assert.equal(resolved.data.action, 'accept');
	assert.deepEqual(JSON.parse((await said(server))[0].slice('answer '.length)), { action: 'accept', content: CONTENT });
	const words = events.filter(({ type }) => type !== 'agent_message');
	assert.doesNotMatch(JSON.stringify(words) + JSON.stringify(other.frames.filter(({ type }) => !['events', 'delta'].includes(type))), /the-secret/);
	other.send('elicitation_answer', { request_id: data.request_id, action: 'decline' });
	const { data: refused } = await other.waitFor(({ type }) => type === 'error');
	assert.deepEqual([refused.code, refused.request, refused.request_id, refused.seq], ['already_resolved', 'elicitation_answer', data.request_id, resolved.seq]);
});

test('nothing of an answer is on the disk', async (t) => {
	const server = await start(t);
	const observer = await watch(t, server, 'url');
	const { data } = await asked(observer);
	assert.deepEqual([data.mode, data.url, data.elicitation_id], ['url', 'https://example.com/sign-in?x=1', 'e-1']);
	observer.send('elicitation_answer', { request_id: data.request_id, action: 'accept' });
	await ended(server);
	assert.equal((await said(server))[0].trim(), 'answer {"action":"accept"}');
	assert.equal((await servedLog(server)).find(({ type }) => type === 'x-acp-elicitation_complete').data.elicitation_id, 'e-1');
	const again = await watch(t, server, 'form');
	const question = await asked(again, 2);
	again.send('elicitation_answer', { request_id: question.data.request_id, action: 'decline' });
	await ended(server, 2);
	const third = await watch(t, server, 'many');
	const forms = await third.waitUntil(() => third.events().filter(({ type }) => type === 'elicitation_request').length === 5).then(() => third.events().filter(({ type }) => type === 'elicitation_request').slice(-3));
	third.send('elicitation_answer', { request_id: forms[0].data.request_id, action: 'accept', content: { name: 'never-on-disk', age: 3 } });
	await eventually(async () => (await servedLog(server)).filter(({ type }) => type === 'elicitation_resolved').length === 3);
	await server.stop();
	const files = readdirSync(server.dataDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
	assert.ok(files.length > 3, 'there are files');
	for (const entry of files) {
		assert.equal(readFileSync(join(entry.path ?? entry.parentPath, entry.name)).includes('never-on-disk'), false, entry.name);
	}
});

test('an answer that the form does not take is refused, and the question stays', async (t) => {
	const server = await start(t);
	const observer = await watch(t, server, 'form');
	const { data: { request_id } } = await asked(observer);
	const good = { name: 'Ann', age: 1 };
	const bad = [
		{ action: 'accept' , content: {} }, { action: 'accept', content: { name: 'Ann' } }, { action: 'accept', content: { ...good, name: 'A' } }, { action: 'accept', content: { ...good, name: 7 } }, { action: 'accept', content: { ...good, age: 1.5 } },
		{ action: 'accept', content: { ...good, age: 151 } }, { action: 'accept', content: { ...good, age: '1' } }, { action: 'accept', content: { ...good, share: 2 } }, { action: 'accept', content: { ...good, loud: 'yes' } }, { action: 'accept', content: { ...good, colour: 'g' } },
		{ action: 'accept', content: { ...good, size: 'huge' } }, { action: 'accept', content: { ...good, days: ['sun'] } }, { action: 'accept', content: { ...good, days: ['mon', 'tue', 'wed'] } }, { action: 'accept', content: { ...good, days: 'mon' } }, { action: 'accept', content: { ...good, more: 1 } },
		{ action: 'accept', content: [] }, { action: 'accept', content: 'x' }, { action: 'decline', content: good }, { action: 'cancel', content: {} }, { action: 'agree' }, { action: 7 }, {}, { action: 'accept', content: good, extra: 1 },
	];
	for (const data of bad) {
		const from = observer.frames.length;
		observer.send('elicitation_answer', { request_id, ...data });
		const frame = await observer.waitFor(({ type }) => type === 'error', { from });
		assert.equal(frame.data.code, 'bad_request', JSON.stringify(data));
	}
	const from = observer.frames.length;
	observer.send('permission_answer', { request_id, option_id: 'accept' });
	assert.equal((await observer.waitFor(({ type }) => type === 'error', { from })).data.code, 'bad_request');
	observer.send('elicitation_answer', { request_id: 'nobody', action: 'accept' });
	await observer.waitFor(({ type, data }) => type === 'error' && data.code === 'unknown_request');
	observer.send('elicitation_answer', { request_id, action: 'accept', content: good });
	await ended(server);
	assert.deepEqual(JSON.parse((await said(server))[0].slice(7)).content, good);
});

test('a whole number of a form may be written as a fraction, as JSON Schema has it (draft 6 on), and as nothing else', async (t) => {
	const server = await start(t);
	const observer = await watch(t, server, 'form');
	const { data: { request_id } } = await asked(observer);
	const answer = (age) => observer.sendRaw(`{"type":"elicitation_answer","data":{"request_id":"${request_id}","action":"accept","content":{"name":"Ann","age":${age}}}}`);
	for (const age of ['3.5', '"3"', '"3.0"', 'null', 'true', '[3]', '150.5', '151.0', '-1.0', '1e400', '9007199254740993.0', '1e30']) {
		const from = observer.frames.length;
		await answer(age);
		assert.match((await observer.waitFor(({ type }) => type === 'error', { from })).data.code, /^bad_(request|json)$/, age);
	}
	await answer('3.0');
	await ended(server);
	assert.deepEqual(JSON.parse((await said(server))[0].slice(7)).content, { name: 'Ann', age: 3 });
});

test('what nobody can be asked is refused to the agent; producers ask for no forms', async (t) => {
	const server = await start(t);
	await watch(t, server, 'bad');
	await ended(server);
	const answers = (await said(server)).join('').trim().split('\n\n');
	assert.equal(answers.length, 13);
	answers.forEach((answer) => assert.match(answer, /\{"error":-32602\}$/));
	assert.equal((await servedLog(server)).some(({ type }) => type === 'elicitation_request'), false);
	for (const type of ['elicitation_request', 'elicitation_resolved']) {
		const { status, body } = await server.request('POST', '/api/sessions/s/events', { json: [{ type, data: { request_id: 'x', mode: 'form', message: 'm', action: 'accept' } }] });
		assert.deepEqual([status, body.error.code], [400, 'unknown_type']);
	}
	await post(server, 's', [{ type: 'x-note', data: {} }]);
});

test('a cancel of the turn, the agent\'s own, and a restart of the server close the question', async (t) => {
	const server = await start(t);
	const observer = await watch(t, server, 'form');
	await asked(observer);
	observer.send('cancel', {});
	await ended(server);
	const resolutions = async () => (await servedLog(server)).filter(({ type }) => type === 'elicitation_resolved').map(({ data }) => data.action);
	assert.deepEqual(await resolutions(), ['cancel']);
	observer.send('prompt', { message: 'withdraw', prompt_id: 'w' });
	await ended(server, 2);
	assert.deepEqual(await resolutions(), ['cancel', 'cancel']);
	observer.send('prompt', { message: 'form', prompt_id: 'f' });
	const { data } = await asked(observer, 3);
	await server.kill9();
	await server.restart();
	await ended(server, 3);
	assert.deepEqual(await resolutions(), ['cancel', 'cancel', 'cancel']);
	const late = await watch(t, server);
	late.send('elicitation_answer', { request_id: data.request_id, action: 'accept', content: { name: 'Ann', age: 1 } });
	assert.equal((await late.waitFor(({ type }) => type === 'error')).data.code, 'already_resolved');
});

test('editors are asked the same, once; an editor that shows no forms is not asked; tokens that hide tools are not told', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server);
	const other = await Editor.open(t, server, { attach: [] });
	const plain = await Editor.open(t, server, { capabilities: {} });
	for (const each of [editor, other, plain]) {
		await each.load('s');
	}
	const hidden = await Observer.connect(t, server, 's', { query: { format: 'markdown' }, headers: bearer(ownToken(server, 'controller', ['s'], { holdfast: { role: 'controller', sessions: ['s'], hide: ['tools'] } })) });
	await hidden.loadAll();
	const end = editor.prompt('s', 'form');
	const [first, second] = [await editor.question(), await other.question()];
	assert.equal(first.method, 'elicitation/create');
	assert.equal(first.params.requestedSchema.properties.name.title, 'Your name');
	hidden.send('elicitation_answer', { request_id: first.params._meta.holdfast.request_id, action: 'cancel' });
	assert.equal((await hidden.waitFor(({ type }) => type === 'error')).data.code, 'forbidden');
	second.isAnswered = true;
	second.answer({ action: 'accept', content: { name: 'Bob', age: 7 } });
	await editor.until(() => first.isTakenBack);
	assert.deepEqual(await end, { stopReason: 'end_turn' });
	assert.deepEqual(JSON.parse((await said(server))[0].slice(7)), { action: 'accept', content: { name: 'Bob', age: 7 } });
	const url = editor.prompt('s', 'url');
	const question = await editor.question();
	assert.equal(question.params.url, 'https://example.com/sign-in?x=1');
	question.isAnswered = true;
	question.answer({ action: 'decline' });
	await url;
	await editor.until(() => editor.completed.includes('e-1'));
	assert.deepEqual(plain.questions, []);
	assert.equal(hidden.events().filter(({ type, redacted }) => type.startsWith('elicitation') && !redacted).length, 0);
	[editor, other, plain].forEach((each) => each.assertGood());
});

const QUESTIONS = {
	form: [AGENT, () => ({ action: 'accept', content: CONTENT })],
	permission: [demoAgent('--rate 0'), ({ options }) => ({ outcome: { outcome: 'selected', optionId: options[0].optionId } })],
};

for (const [prompt, [agent, answerTo]] of Object.entries(QUESTIONS)) {
	test(`${prompt}: an editor that may not, or has another session, answers nothing, though it says the id of the question`, async (t) => {
		const server = await start(t, { agent });
		const editor = await Editor.open(t, server);
		await editor.load('s');
		const end = editor.prompt('s', prompt);
		const question = await editor.question();
		const { id } = editor.messages.find(({ method, id: of }) => of !== undefined && method === question.method);
		const roles = { observer: '*', producer: '*', controller: 'else', admin: 'else' };
		for (const [role, sessions] of Object.entries(roles)) {
			const socket = new TestSocket(t, server.ws('/acp'), () => null, { headers: bearer(ownToken(server, role, [sessions])) });
			const say = (message) => socket.sendRaw(JSON.stringify({ jsonrpc: '2.0', ...message }));
			await say({ id: 1, method: 'initialize', params: { protocolVersion: 1, clientCapabilities: { elicitation: { form: {}, url: {} } } } });
			await say({ id: 2, method: 'session/load', params: { sessionId: 's', cwd: '/', mcpServers: [] } });
			await socket.waitFor((message) => message.id === 2);
			await say({ id, result: answerTo(question.params) });
			await say({ id: 3, method: 'session/list', params: {} });
			await socket.waitFor((message) => message.id === 3);
			assert.ok(!socket.frames.some(({ method }) => method === question.method), `${role} is not asked`);
		}
		assert.equal((await server.request('GET', '/api/sessions/s')).body.status, 'waiting');
		assert.ok(!(await servedLog(server)).some(({ type }) => type.endsWith('_resolved')));
		question.answer(answerTo(question.params));
		assert.deepEqual(await end, { stopReason: 'end_turn' });
	});
}
