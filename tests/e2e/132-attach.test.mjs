// holdfast attach: an agent on stdio for editors. The SDK's client drives it; the connection behind it is cut, the server is killed and comes back, and the editor
// does not notice. Two editors and a page's client are beside each other.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Editor, openLine } from '../support/editor.mjs';
import { markdownOf, servedLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent, runToEnd } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';

async function start(t, { agent = demoAgent('--rate 400'), ...options } = {}) {
	const server = await Server.start(t, { agent, ...options });
	await server.createSession({ id: 's' });
	return server;
}

const select = (question, kind) => ({ outcome: { outcome: 'selected', optionId: question.params.options.find((option) => option.kind.startsWith(kind)).optionId } });

test('an editor on stdio makes a session, prompts, loads it and leaves', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server, { attach: [] });
	assert.equal(editor.initialized.agentInfo.name, 'holdfast');
	const { sessionId } = await editor.request('session/new', { cwd: '/nowhere', mcpServers: [] });
	assert.deepEqual(await editor.prompt(sessionId, 'markdown'), { stopReason: 'end_turn' });
	assert.equal(editor.said(sessionId), markdownOf(await servedLog(server, sessionId)));
	const other = await Editor.open(t, server, { attach: ['--new'] });
	await other.load(sessionId);
	assert.equal(other.said(sessionId), editor.said(sessionId));
	assert.deepEqual((await other.request('session/list', {})).sessions.map(({ sessionId: id }) => id).sort(), ['s', sessionId].sort());
	editor.assertGood();
	other.assertGood();
	editor.child.stdin.end();
	await editor.until(() => editor.exitCode === 0, 'it ends with its editor');
});

test('with --session a new session is that one; with --read-only nothing is changed', async (t) => {
	const server = await start(t);
	await post(server, 's', [input.text('Said before.\n\n'), input.end()]);
	const editor = await Editor.open(t, server, { attach: ['--session', 's'] });
	const made = await editor.request('session/new', { cwd: '/nowhere', mcpServers: [] });
	assert.equal(made.sessionId, 's');
	assert.equal(editor.said('s'), markdownOf(await servedLog(server)));
	const reader = await Editor.open(t, server, { attach: ['--session', 's', '--read-only'] });
	await reader.request('session/new', { cwd: '/nowhere', mcpServers: [] });
	await assert.rejects(reader.prompt('s', 'x'), (error) => error.data.code === 'forbidden');
	const end = editor.prompt('s', 'permission');
	const question = await editor.question();
	question.answer(select(question, 'allow'));
	await end;
	await reader.until(() => reader.said('s') === editor.said('s'));
	assert.deepEqual(reader.questions, []);
	reader.assertGood();
});

test('the line is cut again and again in the middle of answers, and the editor sees each byte once', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 300') });
	const line = await openLine(t, server);
	const editor = await Editor.open(t, line, { attach: [] });
	await editor.load('s');
	const ends = ['markdown', 'list', 'long 6', 'plan'].map((text) => editor.prompt('s', text));
	for (let i = 0; i < 12; i++) {
		const had = editor.of('s').length;
		await editor.until(() => editor.of('s').length >= had + 3 || editor.of('s').length > 400);
		line.cut();
	}
	assert.deepEqual(await Promise.all(ends), ends.map(() => ({ stopReason: 'end_turn' })));
	const events = await servedLog(server);
	assert.equal(editor.said('s'), markdownOf(events));
	assert.equal(events.filter(({ type }) => type === 'user_prompt').length, 4);
	assert.equal(editor.of('s', 'user_message_chunk').length, 0, 'its own prompts are not told');
	assert.deepEqual(editor.of('s', 'tool_call').map(({ update }) => update.toolCallId), events.filter(({ type }) => type === 'tool_call').map(({ data }) => data.tool_call_id));
	editor.assertGood();
});

test('the server is killed and comes back: the turn ends, and the next prompt goes on', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 100') });
	const line = await openLine(t, server);
	const editor = await Editor.open(t, line, { attach: [] });
	await editor.load('s');
	const end = editor.prompt('s', 'long 30').catch((error) => error);
	await editor.until(() => editor.said('s').length > 50);
	await server.kill9();
	const waits = editor.prompt('s', 'list');
	await server.restart();
	const error = await end;
	assert.equal(error.data?.code, 'agent_error', String(error));
	assert.deepEqual(await waits, { stopReason: 'end_turn' });
	const events = await servedLog(server);
	assert.equal(events.filter(({ type }) => type === 'user_prompt').length, 2);
	const told = editor.said('s');
	assert.equal(told.slice(-markdownOf(events.filter(({ turn }) => turn === 2)).length), markdownOf(events.filter(({ turn }) => turn === 2)));
	assert.equal(editor.closed, false);
	editor.assertGood();
});

test('a question survives: it is asked once, an answer without a connection counts when there is one, and one that others answered meanwhile is taken back', async (t) => {
	const server = await start(t);
	const line = await openLine(t, server);
	const editor = await Editor.open(t, line, { attach: [] });
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
	await observer.loadAll();
	await editor.load('s');
	const first = editor.prompt('s', 'permission');
	const question = await editor.question();
	line.cut();
	question.isAnswered = true;
	question.answer(select(question, 'allow'));
	assert.deepEqual(await first, { stopReason: 'end_turn' });
	assert.equal(editor.questions.length, 1);

	const second = editor.prompt('s', 'permission');
	const other = await editor.question();
	await server.request('GET', '/healthz');
	line.cut();
	observer.send('permission_answer', { request_id: other.params._meta.holdfast.request_id, option_id: other.params.options.find(({ kind }) => kind.startsWith('reject')).optionId });
	assert.deepEqual(await second, { stopReason: 'end_turn' });
	await editor.until(() => other.isTakenBack, 'the dialog closes');
	assert.equal(editor.questions.length, 2);
	editor.assertGood();
});

test('a question that is open when the server is killed is taken back when it has restarted', async (t) => {
	const server = await start(t);
	const line = await openLine(t, server);
	const editor = await Editor.open(t, line, { attach: [] });
	await editor.load('s');
	const end = editor.prompt('s', 'permission').catch((error) => error);
	const question = await editor.question();
	await server.kill9();
	await server.restart();
	assert.equal((await end).data?.code, 'agent_error');
	await editor.until(() => question.isTakenBack, 'the dialog closes');
	assert.equal(editor.questions.length, 1);
	editor.assertGood();
});

test('a load that is cut off goes on; a session that is deleted meanwhile is told of', async (t) => {
	const server = await start(t);
	await post(server, 's', Array.from({ length: 3000 }, (_, i) => input.text(`Paragraph ${i} of many.\n\n`)).concat(input.end()));
	const line = await openLine(t, server);
	const editor = await Editor.open(t, line, { attach: [] });
	const loading = editor.load('s');
	await editor.until(() => editor.of('s').length > 10);
	line.cut();
	await loading;
	assert.equal(editor.said('s'), markdownOf(await servedLog(server)));
	await server.kill9();
	await server.restart();
	await eventually(() => line.count > 0, 'it is back');
	await server.request('DELETE', '/api/sessions/s');
	await assert.rejects(editor.prompt('s', 'x'), (error) => ['not_found', 'bad_request'].includes(error.data.code));
	editor.assertGood();
});

test('two editors on stdio and another client: what one says the others see, and whoever answers first is heard', async (t) => {
	const server = await start(t);
	const editors = [await Editor.open(t, server, { attach: [] }), await Editor.open(t, server, { attach: [] })];
	for (const editor of editors) {
		await editor.load('s');
	}
	const end = editors[0].prompt('s', 'permission');
	const [first, second] = [await editors[0].question(), await editors[1].question()];
	second.isAnswered = true;
	second.answer(select(second, 'allow'));
	await editors[0].until(() => first.isTakenBack);
	await end;
	const said = markdownOf(await servedLog(server));
	await editors[1].until(() => editors[1].said('s') === said);
	assert.equal(editors[0].said('s'), said);
	assert.deepEqual(editors[1].of('s', 'user_message_chunk').map(({ update }) => update.content.text), ['permission']);
	editors.forEach((editor) => editor.assertGood());
});

test('it ends with 2 and words where it can do nothing: a wrong token, no server to be found, options that contradict; lines that are no JSON are answered', async (t) => {
	const server = await start(t);
	const wrong = await runToEnd(['attach', '--url', server.url], { env: { HOLDFAST_TOKEN: 'x' } });
	assert.equal(wrong.code, 2);
	assert.match(wrong.stderr, /401/);
	const both = await runToEnd(['attach', '--url', server.url, '--session', 's', '--new']);
	assert.equal(both.code, 2);
	assert.equal((await runToEnd(['attach', '--url', 'ftp://x'])).code, 2);
	assert.equal((await runToEnd(['attach', '--url', server.url, '--session', '../x'])).code, 2);
	assert.equal((await runToEnd(['attach', '--data', server.dataDir])).code, 0, 'without an editor it is over at once');
	const editor = await Editor.open(t, server, { attach: [] });
	editor.child.stdin.write('no json\n\n[]\n');
	await editor.until(() => editor.messages.filter(({ error }) => error).length === 2);
	assert.deepEqual(editor.messages.filter(({ error }) => error).map(({ error }) => error.code), [-32700, -32600]);
	const observer = await Editor.open(t, { url: server.url, token: ownToken(server, 'observer', ['s']) }, { attach: [] });
	await observer.load('s');
	await assert.rejects(observer.prompt('s', 'x'), (error) => error.data.code === 'forbidden');
});
