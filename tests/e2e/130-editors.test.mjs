// The door for editors at /acp: the client of npm @agentclientprotocol/sdk, unchanged, lists, makes, loads and resumes sessions, prompts, answers and cancels;
// two of them at once, and others beside them. All that they are sent fits the SDK's schema.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Editor } from '../support/editor.mjs';
import { markdownOf, servedLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';

async function start(t, { agent = demoAgent('--rate 400'), ...options } = {}) {
	const server = await Server.start(t, { agent, ...options });
	await server.createSession({ id: 's' });
	return server;
}

const select = (question, kind) => ({ outcome: { outcome: 'selected', optionId: question.params.options.find((option) => option.kind.startsWith(kind)).optionId } });

test('an editor makes a session, prompts, and gets what the log has: text, thoughts, tools, plans', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server);
	assert.equal(editor.initialized.protocolVersion, 1);
	assert.equal(editor.initialized.agentCapabilities.loadSession, true);
	const { sessionId } = await editor.request('session/new', { cwd: '/nowhere/at/all', mcpServers: [] });
	for (const text of ['markdown', 'list', 'plan', 'thoughts']) {
		assert.deepEqual(await editor.prompt(sessionId, text), { stopReason: 'end_turn' });
	}
	const events = await servedLog(server, sessionId);
	assert.equal(editor.said(sessionId), markdownOf(events));
	assert.equal(editor.of(sessionId, 'user_message_chunk').length, 0, 'it shows its own prompts itself');
	assert.equal(editor.of(sessionId, 'tool_call').length, events.filter(({ type }) => type === 'tool_call').length);
	assert.deepEqual(editor.of(sessionId, 'plan').at(-1).update.entries, events.findLast(({ type }) => type === 'plan').data.entries);
	for (const { _meta: { holdfast } } of editor.of(sessionId)) {
		assert.ok(holdfast.seq > 0 && /^[0-9a-f]{16}$/.test(holdfast.epoch) && (holdfast.ts > 0 || holdfast.open > 0), JSON.stringify(holdfast));
	}
	editor.assertGood();
});

test('a load tells everything from the beginning, with the prompts, the modes and the options; a resume tells what is new', async (t) => {
	const server = await start(t);
	const first = await Editor.open(t, server);
	await first.load('s');
	await first.prompt('s', 'markdown');
	await first.prompt('s', 'list');
	const events = await servedLog(server);
	const second = await Editor.open(t, server);
	const loaded = await second.load('s');
	assert.equal(second.said('s'), markdownOf(events));
	assert.deepEqual(second.of('s', 'user_message_chunk').map(({ update }) => update.content.text), ['markdown', 'list']);
	assert.equal(loaded._meta.holdfast.seq, events.at(-1).seq);
	assert.equal(loaded.modes.currentModeId, 'talk');
	assert.ok(loaded.modes.availableModes.length >= 2);
	assert.equal(loaded.configOptions[0].currentValue, 'shown');
	second.assertGood();

	for (const at of [3, events.length - 2]) {
		const third = await Editor.open(t, server);
		const answer = await third.resume('s', { after_seq: events[at].seq, epoch: loaded._meta.holdfast.epoch });
		assert.equal(answer._meta.holdfast.reset, undefined);
		assert.equal(third.said('s'), markdownOf(events.slice(at + 1)));
		third.assertGood();
	}
	const fresh = await Editor.open(t, server);
	await fresh.resume('s');
	assert.deepEqual(fresh.of('s'), [], 'without a position it is told what comes');
	const prompt = first.prompt('s', 'list');
	await fresh.until(() => fresh.of('s', 'user_message_chunk').length === 1);
	await prompt;
	await fresh.until(() => fresh.said('s') === first.said('s').slice(markdownOf(events).length));
});

test('a position of another epoch, ahead or of a session that was made again is of no use: everything is told', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server);
	await editor.load('s');
	await editor.prompt('s', 'markdown');
	const { epoch, after_seq: seq } = editor.position('s');
	const events = await servedLog(server);
	for (const [place, reset] of [[{ after_seq: 1, epoch: '0123456789abcdef' }, 'epoch'], [{ after_seq: seq + 1000, epoch }, 'ahead']]) {
		const other = await Editor.open(t, server);
		const answer = await other.resume('s', place);
		assert.equal(answer._meta.holdfast.reset, reset);
		assert.equal(other.said('s'), markdownOf(events));
		assert.deepEqual(other.of('s', 'user_message_chunk').map(({ update }) => update.content.text), ['markdown']);
	}
	await server.request('DELETE', '/api/sessions/s');
	await server.createSession({ id: 's' });
	await post(server, 's', [input.text('anew\n\n'), input.end()]);
	const late = await Editor.open(t, server);
	assert.equal((await late.resume('s', { after_seq: 2, epoch }))._meta.holdfast.reset, 'epoch');
	assert.equal(late.said('s'), markdownOf(await servedLog(server)));
	for (const place of [{ after_seq: -1, epoch }, { after_seq: 1 }, { after_seq: 1, epoch: '"}]\\' }, { after_seq: 1, epoch: 'ABCDEF0123456789' }, { after_seq: 1, epoch, open: 'x' }]) {
		await assert.rejects(late.resume('s', place), ({ code }) => code === -32602, JSON.stringify(place));
	}
	late.assertGood();
});

test('who resumes in the middle of a block gets the rest of it, once', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 150') });
	const first = await Editor.open(t, server);
	await first.load('s');
	const end = first.prompt('s', 'long 3');
	await first.until(() => first.of('s').length > 0);
	let said = '';
	let place;
	for (let i = 0; i < 4; i++) {
		const editor = await Editor.open(t, server);
		await editor.resume('s', place ?? { after_seq: 0, epoch: first.position('s').epoch });
		await editor.until(() => editor.said('s').length > 30 && editor.position('s').open);
		const updates = [...editor.of('s')];
		place = editor.position('s');
		said += updates.filter(({ update }) => update.sessionUpdate === 'agent_message_chunk').map(({ update }) => update.content.text).join('');
		editor.close();
	}
	await end;
	const last = await Editor.open(t, server);
	await last.resume('s', place);
	assert.equal(said + last.said('s'), markdownOf(await servedLog(server)));
});

test('two editors and an observer see the same; a question that one answers is taken back from the other', async (t) => {
	const server = await start(t);
	const [one, two] = [await Editor.open(t, server), await Editor.open(t, server)];
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
	await observer.loadAll();
	await one.load('s');
	await two.load('s');
	const end = one.prompt('s', 'permission');
	const [first, second] = [await one.question(), await two.question()];
	assert.deepEqual(first.params.options, second.params.options);
	assert.equal(two.of('s', 'user_message_chunk')[0].update.content.text, 'permission');
	second.isAnswered = true;
	second.answer(select(second, 'allow'));
	await one.until(() => first.isTakenBack, 'the dialog closes');
	assert.deepEqual(await end, { stopReason: 'end_turn' });
	assert.equal(second.isTakenBack, false);
	const events = await servedLog(server);
	await two.until(() => two.said('s') === markdownOf(events));
	assert.equal(one.said('s'), two.said('s'));
	assert.equal(events.find(({ type }) => type === 'permission_resolved').data.outcome, 'selected');

	const again = two.prompt('s', 'permission');
	const third = await one.question();
	observer.send('permission_answer', { request_id: third.params._meta.holdfast.request_id, option_id: third.params.options.find(({ kind }) => kind.startsWith('reject')).optionId });
	await one.until(() => third.isTakenBack);
	await two.until(() => two.questions.at(-1).isTakenBack);
	await again;
	one.assertGood();
	two.assertGood();
});

test('a question waits for who comes later, and is asked once', async (t) => {
	const server = await start(t);
	const first = await Editor.open(t, server);
	await first.load('s');
	const end = first.prompt('s', 'permission').catch((error) => error);
	await first.question();
	const place = first.position('s');
	for (const open of [(editor) => editor.load('s'), (editor) => editor.resume('s', place), (editor) => editor.resume('s')]) {
		const late = await Editor.open(t, server);
		await open(late);
		await late.question();
		assert.equal(late.questions.length, 1);
		late.close();
	}
	const last = await Editor.open(t, server);
	await last.resume('s', place);
	const question = await last.question();
	question.answer(select(question, 'allow'));
	assert.deepEqual(await end, { stopReason: 'end_turn' });
	const never = await Editor.open(t, server);
	await never.load('s');
	assert.deepEqual(never.questions, []);
});

test('a cancel ends the turn, takes what waits out of the queue, and closes the question', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server);
	await editor.load('s');
	const running = editor.prompt('s', 'permission');
	const question = await editor.question();
	const waiting = [editor.prompt('s', 'list'), editor.prompt('s', 'plan')];
	await eventually(async () => (await server.request('GET', '/api/sessions/s/queue')).body.prompts.length === 2);
	await editor.notify('session/cancel', { sessionId: 's' });
	assert.deepEqual(await running, { stopReason: 'cancelled' });
	for (const prompt of waiting) {
		assert.deepEqual(await prompt, { stopReason: 'cancelled' });
	}
	await editor.until(() => question.isTakenBack);
	assert.deepEqual((await server.request('GET', '/api/sessions/s/queue')).body.prompts, []);
	editor.assertGood();
});

test('modes and options are set, and a refusal of the agent has its words', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server);
	await editor.load('s');
	await editor.prompt('s', 'list');
	assert.deepEqual(await editor.request('session/set_mode', { sessionId: 's', modeId: 'quick' }), {});
	await editor.until(() => editor.of('s', 'current_mode_update').some(({ update }) => update.currentModeId === 'quick'));
	assert.deepEqual(await editor.request('session/set_mode', { sessionId: 's', modeId: 'quick' }), {}, 'it is set already');
	const { configOptions } = await editor.request('session/set_config_option', { sessionId: 's', configId: 'thoughts', value: 'hidden' });
	assert.equal(configOptions[0].currentValue, 'hidden');
	await assert.rejects(editor.request('session/set_mode', { sessionId: 's', modeId: 'never' }), (error) => error.data.code === 'setting_refused');
	editor.assertGood();
});

const SETTINGS = `exec ${process.execPath} ${fileURLToPath(new URL('../support/settings_agent.mjs', import.meta.url))}`;

test('a model is set while the agent runs, and before it does; a refusal of the agent has its words', async (t) => {
	const server = await start(t, { agent: `export MODELS=1; ${SETTINGS}` });
	const editor = await Editor.open(t, server);
	await editor.load('s');
	const set = (modelId) => editor.request('session/set_model', { sessionId: 's', modelId });
	const models = async () => (await servedLog(server)).filter(({ type }) => type === 'x-acp-models').map(({ data }) => data.current_model_id);
	assert.deepEqual(await set('large'), {}, 'it counts from the next prompt on');
	await editor.prompt('s', 'x');
	assert.deepEqual((await models()).at(-1), 'large');
	assert.deepEqual(await set('small'), {});
	assert.deepEqual((await models()).at(-1), 'small', 'the agent has it when the editor is told');
	assert.deepEqual(await set('small'), {}, 'it is set already');
	await assert.rejects(set('huge'), (error) => error.code === -32603 && error.data.code === 'setting_refused' && /there is no model "huge"/.test(error.message));
	assert.deepEqual((await models()).at(-1), 'small');
	for (const params of [{ sessionId: 's' }, { sessionId: 's', modelId: 7 }, { modelId: 'small' }]) {
		await assert.rejects(editor.request('session/set_model', params), ({ code }) => code === -32602, JSON.stringify(params));
	}
	editor.assertGood();
});

/** A prompt that can be taken back, as the SDK does it: by `$/cancel_request`. */
function prompting(editor, text) {
	const controller = new AbortController();
	const params = { sessionId: 's', prompt: [{ type: 'text', text }] };
	return { answer: editor.request('session/prompt', params, { cancellationSignal: controller.signal }), takeBack: () => controller.abort() };
}

test('a request that is taken back is that one prompt: out of the queue, or its turn ends; others go on, and nobody else can take it back', async (t) => {
	const server = await start(t);
	const [editor, other] = [await Editor.open(t, server), await Editor.open(t, server)];
	await editor.load('s');
	await other.load('s');
	const running = prompting(editor, 'permission');
	await editor.question();
	const waiting = prompting(editor, 'plan');
	const stays = editor.prompt('s', 'list');
	const queue = async () => (await server.request('GET', '/api/sessions/s/queue')).body.prompts.map(({ message }) => message);
	await eventually(async () => (await queue()).length === 2);

	for (let id = 0; id < 20; id++) { // those of the first editor, for the other one
		await other.notify('$/cancel_request', { requestId: id });
		await other.notify('$/cancel_request', { requestId: String(id) });
	}
	await editor.notify('$/cancel_request', { requestId: 4711 });
	await assert.rejects(other.request('session/load', { sessionId: 'nobody', cwd: '/', mcpServers: [] })); // all of it has been read
	assert.deepEqual(await queue(), ['plan', 'list']);

	waiting.takeBack();
	assert.deepEqual(await waiting.answer, { stopReason: 'cancelled' });
	assert.deepEqual(await queue(), ['list']);
	assert.equal((await server.request('GET', '/api/sessions/s')).body.status, 'waiting', 'the turn goes on');
	running.takeBack();
	assert.deepEqual(await running.answer, { stopReason: 'cancelled' });
	assert.deepEqual(await stays, { stopReason: 'end_turn' });
	for (let id = 0; id < 20; id++) {
		await editor.notify('$/cancel_request', { requestId: id }); // too late, or not of a prompt
	}
	assert.deepEqual(await editor.prompt('s', 'list'), { stopReason: 'end_turn' });
	const events = await servedLog(server);
	assert.deepEqual(events.filter(({ type }) => type === 'user_prompt').map(({ data }) => data.message), ['permission', 'list', 'list']);
	editor.assertGood();
	other.assertGood();
});

test('the list has pages, and the titles, directories and positions of sessions', async (t) => {
	const server = await start(t, { args: ['--limit', 'list_max=2'] });
	await server.createSession({ id: 'b', title: 'A "title"' });
	await server.createSession({ id: 'c' });
	const editor = await Editor.open(t, server);
	const found = [];
	for (let cursor; ;) {
		const page = await editor.request('session/list', cursor ? { cursor } : {});
		found.push(...page.sessions);
		cursor = page.nextCursor;
		if (!cursor) {
			break;
		}
	}
	assert.deepEqual([...new Set(found.map(({ sessionId }) => sessionId))].sort(), ['b', 'c', 's']);
	const b = found.find(({ sessionId }) => sessionId === 'b');
	assert.equal(b.title, 'A "title"');
	assert.match(b.updatedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
	assert.ok(b.cwd.startsWith('/'));
	assert.deepEqual((await editor.request('session/list', { cwd: '/not/there' })).sessions, []);
	await assert.rejects(editor.request('session/list', { cursor: 'no cursor' }), ({ code }) => code === -32602);
	editor.assertGood();
});

test('close only leaves the session; delete is for those who may; both are told', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server);
	await editor.load('s');
	const prompt = editor.prompt('s', 'long 3').catch((error) => error);
	await editor.until(() => editor.said('s').length > 5);
	await editor.request('session/close', { sessionId: 's' });
	assert.equal((await prompt).data.code, 'cancelled');
	await assert.rejects(editor.prompt('s', 'list'), ({ code }) => code === -32602);
	await eventually(async () => !(await server.request('GET', '/api/sessions/s')).body.is_prompting, 'the turn goes on and ends');
	assert.equal((await servedLog(server)).at(-1).data.stop_reason, 'end_turn');
	await editor.load('s');
	const controller = await Editor.open(t, server, { headers: bearer(ownToken(server, 'controller', ['*'])) });
	assert.equal(controller.initialized.agentCapabilities.sessionCapabilities.delete, undefined);
	await assert.rejects(controller.request('session/delete', { sessionId: 's' }), (error) => error.data.code === 'forbidden');
	await editor.request('session/delete', { sessionId: 's' });
	await assert.rejects(editor.load('s'), ({ code }) => code === -32002);
});

test('a prompt_id that is sent again asks once, and its answer comes, also when the turn was over long ago', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server);
	await editor.load('s');
	const meta = { prompt_id: 'mine-1' };
	const answers = await Promise.all([editor.prompt('s', 'list', meta), editor.prompt('s', 'list', meta)]);
	assert.deepEqual(answers, [{ stopReason: 'end_turn' }, { stopReason: 'end_turn' }]);
	await editor.prompt('s', 'plan');
	const said = editor.said('s');
	assert.deepEqual(await editor.prompt('s', 'list', meta), { stopReason: 'end_turn' });
	assert.equal(editor.said('s'), said, 'nothing is told twice');
	assert.equal((await servedLog(server)).filter(({ type }) => type === 'user_prompt').length, 2);
	const many = await Promise.allSettled(Array.from({ length: 200 }, () => editor.prompt('s', 'list', { prompt_id: 'mine-2' })));
	const refused = many.filter(({ reason }) => reason?.data?.code === 'queue_full');
	assert.ok(refused.length > 0 && refused.length < 200, `${refused.length} were refused`);
	assert.ok(many.every(({ status, reason }) => status === 'fulfilled' || reason.data.code === 'queue_full'));
});

test('who only watches, or hides tools, is asked nothing and may do nothing', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server);
	await editor.load('s');
	const watchers = {
		observer: await Editor.open(t, server, { headers: bearer(ownToken(server, 'observer', ['s'])) }),
		'read-only': await Editor.open(t, server, { meta: { read_only: true } }),
		'without tools': await Editor.open(t, server, { headers: bearer(ownToken(server, 'observer', ['s'], { holdfast: { role: 'observer', sessions: ['s'], hide: ['tools'] } })) }),
	};
	for (const watcher of Object.values(watchers)) {
		await watcher.load('s');
	}
	const end = editor.prompt('s', 'permission');
	const question = await editor.question();
	question.answer(select(question, 'allow'));
	await end;
	const events = await servedLog(server);
	for (const [name, watcher] of Object.entries(watchers)) {
		await watcher.until(() => watcher.said('s') === markdownOf(events));
		assert.deepEqual(watcher.questions, [], name);
		for (const request of [() => watcher.prompt('s', 'x'), () => watcher.request('session/set_mode', { sessionId: 's', modeId: 'quick' }), () => watcher.request('session/new', { cwd: '/', mcpServers: [] }), () => watcher.request('session/delete', { sessionId: 's' })]) {
			await assert.rejects(request(), (error) => error.data.code === 'forbidden', name);
		}
		watcher.assertGood();
	}
	assert.deepEqual(watchers['without tools'].of('s', 'tool_call'), []);
	const stranger = await Editor.open(t, server, { headers: bearer(ownToken(server, 'observer', ['other-*'])) });
	assert.deepEqual((await stranger.request('session/list', {})).sessions, []);
	await assert.rejects(stranger.load('s'), ({ code }) => code === -32002);
});

test('additional directories are those that the operator has named, and no others', async (t) => {
	const server = await start(t);
	const editor = await Editor.open(t, server);
	const { sessions: [{ cwd }] } = await editor.request('session/list', {});
	const make = (additionalDirectories) => editor.request('session/new', { cwd, mcpServers: [], additionalDirectories });
	await make([]);
	await make([cwd]);
	for (const bad of [['/etc'], [cwd, '/'], [`${cwd}/..`], [7], '/etc']) {
		await assert.rejects(make(bad), ({ code }) => code === -32602, JSON.stringify(bad));
	}
	await assert.rejects(editor.load('s', { additionalDirectories: ['/etc'] }), ({ code }) => code === -32602);
});
