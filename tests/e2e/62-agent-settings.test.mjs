// The agent's own state, through the real server: found by those who come late, set by those who ask,
// and there again after a restart.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Editor } from '../support/editor.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { check } from '../support/schema.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';

const AGENT = `exec ${process.execPath} ${fileURLToPath(new URL('../support/settings_agent.mjs', import.meta.url))}`;

async function start(t, { agent = AGENT, title, args } = {}) {
	const server = await Server.start(t, { agent, args });
	const { id } = await server.createSession({ title });
	return { server, id, observer: await watch(t, server, id) };
}

async function watch(t, server, id, client_id) {
	const observer = await Observer.connect(t, server, id, { query: { format: 'markdown', ...(client_id && { client_id }) } });
	await observer.loadAll();
	return observer;
}

async function run(observer, message) {
	const { seq } = await observer.prompt(message);
	const end = await observer.waitForEvent('turn_end', { after: seq });
	return observer.events().slice(seq - 1, end.seq);
}

const only = (events, type) => events.filter((e) => e.type === type).map(({ data }) => data);
const errors = (observer) => observer.frames.filter((f) => f.type === 'error').map(({ data }) => data);

/** The data of the events that agent_state names, as a client loads them. */
async function loadState(server, id) {
	const { body } = await server.request('GET', `/api/sessions/${id}`);
	const state = {};
	for (const [kind, seq] of Object.entries(body.agent_state)) {
		const page = await server.request('GET', `/api/sessions/${id}/events?after_seq=${seq - 1}&limit=1`);
		state[kind] = page.body.events[0];
	}
	return state;
}

test('who comes late finds the agent’s state, also after a restart', async (t) => {
	const { server, id, observer } = await start(t);
	assert.deepEqual(observer.hello.agent_state, {});
	await run(observer, 'one');
	await observer.waitForEvent('x-acp-available_commands_update');
	await post(server, id, Array.from({ length: 100 }, (_, i) => input.note({ i })));
	const find = async () => {
		const late = await watch(t, server, id);
		const found = await loadState(server, id);
		assert.deepEqual(late.hello.agent_state, Object.fromEntries(Object.entries(found).map(([kind, { seq }]) => [kind, seq])));
		return Object.fromEntries(Object.entries(found).map(([kind, { type }]) => [kind, type]));
	};
	const all = {
		modes: 'x-acp-modes',
		config_options: 'x-acp-config_option_update',
		commands: 'x-acp-available_commands_update',
		info: 'x-acp-session_info_update',
	};
	assert.deepEqual(await find(), all);
	await server.kill9();
	await server.restart();
	assert.deepEqual(await find(), all);
	await server.stop();
	await server.restart();
	assert.deepEqual(await find(), all);
});

test('a session without a title gets the agent’s, and the feed tells it', async (t) => {
	const { server, id, observer } = await start(t);
	const feed = new TestSocket(t, server.ws('/api/events'), check.feed);
	await run(observer, 'the gate');
	await feed.waitFor((f) => f.type === 'session_changed' && f.data.session.title === 'About the gate');
	await server.kill9();
	await server.restart();
	assert.equal((await server.request('GET', `/api/sessions/${id}`)).body.title, 'About the gate');
});

test('the agent’s title takes the place of the one that a session was made with, and a person’s stays', async (t) => {
	const { server, id, observer } = await start(t, { title: 'Made with' });
	const titleNow = async () => (await server.request('GET', `/api/sessions/${id}`)).body.title;
	assert.equal(await titleNow(), 'Made with');
	await run(observer, 'the gate');
	assert.equal(await titleNow(), 'About the gate');
	assert.equal((await server.request('PATCH', `/api/sessions/${id}`, { json: { title: 'Mine' } })).status, 200);
	await run(observer, 'the gate');
	assert.equal(await titleNow(), 'Mine');
});

test('a mode that is set is told to all, one that is refused to the client that asked', async (t) => {
	const { server, id, observer } = await start(t);
	await run(observer, 'one');
	const me = await watch(t, server, id, 'me');
	await me.send('set_mode', { mode_id: 'code' });
	for (const each of [observer, me]) {
		assert.deepEqual((await each.waitForEvent('x-acp-current_mode_update')).data, { current_mode_id: 'code' });
	}
	await me.send('set_mode', { mode_id: 'never' });
	const { data } = await me.waitFor('error');
	assert.deepEqual(data, { code: 'setting_refused', message: data.message, request: 'set_mode', mode_id: 'never' });
	assert.match(data.message, /there is no mode "never"/);
	// An option is told once, though the agent says it twice.
	await me.send('set_config_option', { config_id: 'model', value: 'large' });
	const { seq } = await observer.waitForEvent('x-acp-config_option_update', { after: me.last });
	const events = await run(observer, 'two');
	assert.equal(only(events, 'agent_message')[0].markdown, 'in mode code');
	assert.deepEqual(only(observer.events().slice(seq), 'x-acp-config_option_update'), []);
	assert.deepEqual(errors(observer), []);
	assert.equal((await loadState(server, id)).config_options.data.config_options[0].current_value, 'large');
});

test('a setting for an agent that is not running waits for its next start', async (t) => {
	const { server, id, observer } = await start(t);
	await observer.send('set_mode', { mode_id: 'never' });
	await observer.send('set_mode', { mode_id: 'code' });
	const events = await run(observer, 'one');
	assert.equal(only(events, 'agent_message')[0].markdown, 'in mode code');
	assert.deepEqual(only(events, 'x-acp-current_mode_update'), [{ current_mode_id: 'code' }]);
	// It has gone, and another begins with what it begins with.
	await run(observer, 'exit');
	await observer.send('set_config_option', { config_id: 'model', value: 'large' });
	const again = await run(observer, 'two');
	assert.equal(only(again, 'agent_message')[0].markdown, 'in mode ask');
	assert.equal(only(again, 'x-acp-config_option_update').at(-1).config_options[0].current_value, 'large');
	assert.deepEqual(errors(observer), []);
	assert.ok((await loadState(server, id)).modes.seq > events.at(-1).seq);
});

test('an agent that goes on with its session keeps what it told, and says anew what it is set to', async (t) => {
	const { server, id, observer } = await start(t, { args: ['--agent-env', 'RESUME=1'] });
	await run(observer, 'one');
	const { seq: commands } = await observer.waitForEvent('x-acp-available_commands_update');
	await observer.send('set_mode', { mode_id: 'code' });
	const { seq: code } = await observer.waitForEvent('x-acp-current_mode_update');
	await run(observer, 'exit');
	const events = await run(observer, 'two');
	assert.equal(only(events, 'agent_started')[0].resumed, true);
	assert.deepEqual(only(events, 'x-acp-available_commands_update'), []);
	const state = await loadState(server, id);
	assert.equal(state.commands.seq, commands);
	assert.equal(state.mode.seq, code);
	assert.ok(state.modes.seq > code, 'it is in its first mode again');
	await observer.send('set_mode', { mode_id: 'code' });
	await observer.waitForEvent('x-acp-current_mode_update', { after: state.modes.seq });
});

test('an agent that has models instead of an option is given one of them, and all hear which, with the others to choose from', async (t) => {
	const { server, id, observer } = await start(t, { args: ['--agent-env', 'MODELS=1', '--agent-env', 'RESUME=1'] });
	await run(observer, 'one');
	const available_models = [{ model_id: 'small', name: 'Small' }, { model_id: 'large', name: 'Large', description: 'Slow' }];
	const modelsNow = async () => (await loadState(server, id)).models.data;
	assert.deepEqual(await modelsNow(), { current_model_id: 'small', available_models });
	const { seq: first } = await observer.waitForEvent('x-acp-models');
	const me = await watch(t, server, id, 'me');
	await me.send('set_model', { model_id: 'large' });
	for (const each of [observer, me]) {
		assert.deepEqual((await each.waitForEvent('x-acp-models', { after: first })).data, { current_model_id: 'large', available_models });
	}
	await me.send('set_model', { model_id: 'never' });
	const { data } = await me.waitFor('error');
	assert.deepEqual(data, { code: 'setting_refused', message: data.message, request: 'set_model', model_id: 'never' });
	assert.match(data.message, /there is no model "never"/);
	assert.deepEqual(errors(observer), []);
	assert.equal((await modelsNow()).current_model_id, 'large', 'what is refused changes nothing');
	for (const bad of [{}, { model_id: '' }, { model_id: 7 }, { model_id: 'x'.repeat(1025) }, { model_id: 'large', value: 'x' }]) {
		const had = errors(me).length;
		await me.send('set_model', bad);
		await me.waitUntil(() => errors(me).length > had, 'a refusal');
		assert.equal(errors(me).at(-1).code, 'bad_request', JSON.stringify(bad));
	}
	// Its process begins with its own model again; a choice that waits is made before the prompt.
	await run(observer, 'exit');
	await observer.send('set_model', { model_id: 'small' });
	await observer.send('set_model', { model_id: 'large' });
	const events = await run(observer, 'two');
	assert.equal(only(events, 'agent_started')[0].resumed, true);
	assert.deepEqual(only(events, 'x-acp-models'), ['small', 'large'].map((current_model_id) => ({ current_model_id, available_models })));
	assert.deepEqual(only(events, 'usage').map(({ model }) => model), ['large']);
});

test('without an agent there is nothing to set', async (t) => {
	const { observer } = await start(t, { agent: null });
	await observer.send('set_mode', { mode_id: 'code' });
	assert.equal((await observer.waitFor('error')).data.code, 'no_agent');
});

test('what Gemini says that a prompt took is counted, for each model', async (t) => {
	const { observer } = await start(t);
	const events = [...await run(observer, 'one'), ...await run(observer, 'two')];
	const total = (n) => ({ input_tokens: 10 * n, output_tokens: 2 * n });
	assert.deepEqual(only(events, 'usage'), [1, 2].map((n) => ({ mode: 'delta', model: 'small', input_tokens: 10, output_tokens: 2, total: total(n) })));
	const { data } = await observer.waitFor((f) => f.type === 'state' && f.data.usage?.input_tokens === 20);
	assert.deepEqual(data.usage.models, { small: total(2) });
});

test('an option that the agent accepts, but does not set, is refused; setting what it has is not', async (t) => {
	const { server, id, observer } = await start(t);
	await run(observer, 'one');
	const editor = await Editor.open(t, server);
	await editor.request('session/load', { sessionId: id, cwd: '/', mcpServers: [] });
	const set = (value) => editor.request('session/set_config_option', { sessionId: id, configId: 'model', value });
	await assert.rejects(set('other'), ({ data, message }) => data.code === 'setting_refused' && message === 'the agent has accepted this, but kept another value');
	await observer.send('set_config_option', { config_id: 'model', value: 'small' });
	await observer.send('set_config_option', { config_id: 'model', value: 'other' });
	await observer.waitFor(({ type, data }) => type === 'error' && data.config_id === 'model');
	assert.equal(errors(observer).length, 1, 'only "other" is refused');
	assert.equal((await set('large')).configOptions[0].currentValue, 'large');
});

/** An agent that begins no session without a login. It takes "key"; "later" is answered when FILE is there; "gone" is its end. */
const LOCKED = `
const { existsSync } = require('node:fs');
const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
const authMethods = [{ id: 'key', name: 'With a key' }, { id: 'later', name: 'Later' }];
let isIn = false;
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method, params } = JSON.parse(line);
	const wait = setInterval(() => {
		if (params.methodId === 'later' && !existsSync(process.argv[2])) {
			return;
		}
		clearInterval(wait);
		if (params.methodId === 'gone') {
			process.exit(3);
		} else if (method === 'authenticate') {
			isIn = authMethods.some((one) => one.id === params.methodId);
			say(isIn ? { id, result: {} } : { id, error: { code: -32603, message: 'There is no way ' + params.methodId } });
		} else if (method === 'initialize') {
			say({ id, result: { protocolVersion: 1, agentCapabilities: {}, authMethods } });
		} else if (method === 'session/new') {
			say(isIn ? { id, result: { sessionId: 's' } } : { id, error: { code: -32000, message: 'Authentication required' } });
		} else if (method === 'session/prompt') {
			say({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'In.' } } } });
			say({ id, result: { stopReason: 'end_turn' } });
		}
	}, 1);
});`;

async function startLocked(t) {
	const dir = scratchDir(t);
	writeFileSync(join(dir, 'agent.cjs'), LOCKED);
	const started = await start(t, { agent: `exec ${process.execPath} ${join(dir, 'agent.cjs')} ${join(dir, 'now')}` });
	return { ...started, goOn: () => writeFileSync(join(dir, 'now'), '') };
}

test('a client logs in to the agent, which is started for it; everybody hears it, and the prompt goes through', async (t) => {
	const { server, id, observer } = await startLocked(t);
	const me = await watch(t, server, id, 'me');
	const before = await run(observer, 'one');
	const ways = [{ method_id: 'key', name: 'With a key' }, { method_id: 'later', name: 'Later' }];
	assert.deepEqual(only(before, 'agent_stopped')[0].login, ways);
	await me.send('authenticate', { method_id: 'key' });
	const { seq, data } = await observer.waitForEvent('x-acp-authenticated');
	assert.deepEqual(data, { method_id: 'key', name: 'With a key', by: 'me' });
	await observer.waitForEvent('agent_started', { after: seq });
	const after = await run(observer, 'two');
	assert.deepEqual(after.map(({ type }) => type), ['user_prompt', 'agent_message', 'turn_end'], 'it runs already');
	assert.deepEqual([...errors(me), ...errors(observer)], []);
	// While it has its session, a login is asked for beside it, and what is refused ends nothing.
	await me.send('authenticate', { method_id: 'none' });
	await me.waitUntil(() => errors(me).length > 0, 'a refusal');
	assert.deepEqual(errors(me), [{ code: 'setting_refused', message: errors(me)[0].message, request: 'authenticate', method_id: 'none' }]);
	assert.match(errors(me)[0].message, /There is no way none/);
	assert.deepEqual((await run(observer, 'three')).map(({ type }) => type), ['user_prompt', 'agent_message', 'turn_end']);
	for (const bad of [{}, { method_id: '' }, { method_id: 7 }, { method_id: 'x'.repeat(1025) }, { method_id: 'key', value: 'x' }]) {
		const had = errors(me).length;
		await me.send('authenticate', bad);
		await me.waitUntil(() => errors(me).length > had, 'a refusal');
		assert.equal(errors(me).at(-1).code, 'bad_request', JSON.stringify(bad));
	}
});

test('a login that fails says why to the one who asked, and the ways to everybody; one at a time; a prompt waits for it', async (t) => {
	const { server, id, observer, goOn } = await startLocked(t);
	const me = await watch(t, server, id, 'me');
	for (const [method_id, why] of [['none', /There is no way none/], ['gone', /stopped before it had answered/]]) {
		const had = errors(me).length;
		const after = observer.last;
		await me.send('authenticate', { method_id });
		await me.waitUntil(() => errors(me).length > had, 'a refusal');
		assert.equal(errors(me).at(-1).method_id, method_id);
		assert.match(errors(me).at(-1).message, why);
		const { data } = await observer.waitForEvent('agent_stopped', { after });
		assert.deepEqual([data.reason, data.login?.length], method_id === 'gone' ? ['exit', undefined] : ['protocol', 2]);
		assert.ok(method_id === 'gone' || /^authenticate: .*There is no way none/.test(data.detail), data.detail);
	}
	await me.send('authenticate', { method_id: 'later' });
	const { seq } = await observer.prompt('at last');
	await observer.waitForEvent('user_prompt', { after: seq - 1 });
	const had = errors(me).length;
	await me.send('authenticate', { method_id: 'key' });
	await me.waitUntil(() => errors(me).length > had, 'a refusal');
	assert.deepEqual([errors(me).at(-1).code, errors(me).at(-1).method_id], ['queue_full', 'key']);
	goOn();
	const end = await observer.waitForEvent('turn_end', { after: seq });
	const types = observer.events().slice(seq - 1, end.seq).map(({ type }) => type).filter((type) => type !== 'x-acp-start_delayed'); // on a busy machine
	assert.deepEqual(types, ['user_prompt', 'x-acp-authenticated', 'agent_started', 'agent_message', 'turn_end']);
});
