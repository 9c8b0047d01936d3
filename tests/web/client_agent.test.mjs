/** The client library: what the agent says of itself, however long ago, and asking it for a change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IDBFactory, IDBKeyRange } from 'fake-indexeddb';

import { FakeServer } from './fake_server.mjs';
import { observe } from './observe.mjs';

const MODES = { current_mode_id: 'ask', available_modes: [{ id: 'ask', name: 'Ask' }, { id: 'code', name: 'Code' }, { name: 'none' }, 7] };
const COMMANDS = { available_commands: [{ name: 'plan', description: 'Make a plan' }] };
const OPTIONS = { config_options: [{ id: 'model', name: 'Model', type: 'select', current_value: 'a', options: [] }] };
const NOTHING = { modes: [], current_mode: null, models: null, config_options: [], commands: [], info: null };

/** A log whose agent told all of it long before the newest page. */
function toldLongAgo() {
	const server = new FakeServer();
	server.record({ type: 'agent_started', data: { name: 'a' } });
	server.record({ type: 'x-acp-modes', data: MODES });
	server.record({ type: 'x-acp-models', data: { current_model_id: 'm' } });
	server.record({ type: 'x-acp-available_commands_update', data: COMMANDS });
	server.record({ type: 'x-acp-config_option_update', data: OPTIONS });
	server.record({ type: 'x-acp-session_info_update', data: { title: 'T' } });
	return server.fill(200);
}

function told(client) {
	const { modes, current_mode, models, config_options, commands, info } = client.agent;
	return { modes: modes.map(({ id }) => id), current_mode, model: models?.current_model_id, options: config_options.length, commands: commands.map(({ name }) => name), title: info?.title };
}

const ALL = { modes: ['ask', 'code'], current_mode: 'ask', model: 'm', options: 1, commands: ['plan'], title: 'T' };

/** Lets what is under way come to its end; IndexedDB takes some turns for a row. */
async function settle(server) {
	for (let i = 0; i < 500; i += 1) {
		await new Promise((resolve) => setImmediate(resolve));
		server.pump();
	}
}

function watch(server, options) {
	const seen = observe(server, options);
	seen.agents = [];
	seen.client.on('agent', ({ agent }) => seen.agents.push(agent));
	return seen;
}

test('what the agent told before the events that are held is loaded, each piece once', async () => {
	const server = toldLongAgo();
	const { client, agents } = watch(server);
	assert.deepEqual(client.agent, NOTHING);
	server.pump();
	assert.equal(client.status.status, 'live');
	await settle(server);
	assert.deepEqual(told(client), ALL);
	assert.deepEqual(server.fetched.sort(), [2, 3, 4, 5, 6]);
	assert.equal(agents.at(-1), client.agent);
	assert.ok(Object.isFrozen(client.agent) && Object.isFrozen(client.agent.modes[0]));
	server.socket.break();
	server.advance(1000);
	await settle(server);
	assert.equal(server.fetched.length, 5);
	assert.deepEqual(told(client), ALL);
});

test('what is in the loaded page is not loaded again', async () => {
	const server = toldLongAgo();
	server.emit({ type: 'x-acp-current_mode_update', data: { current_mode_id: 'code' } });
	server.emit({ type: 'x-acp-available_commands_update', data: { available_commands: [] } });
	const { client } = watch(server);
	server.pump();
	await settle(server);
	assert.deepEqual(told(client), { ...ALL, current_mode: 'code', commands: [] });
	assert.deepEqual(server.fetched.sort(), [2, 3, 5, 6]);
});

test('live events change it, and only they say so', async () => {
	const server = toldLongAgo();
	const { client, agents } = watch(server);
	server.pump();
	await settle(server);
	const count = agents.length;
	server.emit({}, { type: 'x-acp-meta', data: {} });
	server.pump();
	assert.equal(agents.length, count);
	server.emit({ type: 'x-acp-current_mode_update', data: { current_mode_id: 'code' } });
	server.pump();
	assert.equal(agents.length, count + 1);
	assert.equal(client.agent.current_mode, 'code');
	server.emit({ type: 'x-acp-modes', data: { ...MODES, current_mode_id: 'ask' } });
	server.pump();
	assert.equal(client.agent.current_mode, 'ask');
	server.emit({ type: 'agent_started', data: { resumed: true } });
	server.pump();
	assert.equal(client.agent.current_mode, 'ask');
	server.emit({ type: 'agent_started', data: {} });
	server.pump();
	assert.deepEqual(client.agent, NOTHING);
});

test('a piece that changed while it was being loaded is the new one', async () => {
	const server = toldLongAgo();
	let release;
	server.beforeFetch = () => new Promise((resolve) => (release = resolve));
	const { client } = watch(server);
	server.pump();
	await settle(server);
	server.emit({ type: 'x-acp-session_info_update', data: { title: 'newer' } });
	server.pump();
	assert.deepEqual(server.fetched.sort(), [2, 3, 4, 5, 6]);
	release();
	await settle(server);
	assert.equal(client.agent.info.title, 'newer');
});

for (const catchUpMax of [Infinity, 100]) {
	test(`an agent that was changed while nobody was connected is the server’s (${catchUpMax})`, () => changeMeanwhile(catchUpMax));
}

async function changeMeanwhile(catchUpMax) {
	const server = toldLongAgo();
	const { client } = watch(server, { catchUpMax });
	server.pump();
	await settle(server);
	server.socket.break();
	server.record({ type: 'agent_started', data: {} });
	server.record({ type: 'x-acp-modes', data: { ...MODES, current_mode_id: 'code' } });
	server.fill(600);
	server.advance(1000);
	await settle(server);
	assert.deepEqual(told(client), { modes: ['ask', 'code'], current_mode: 'code', model: undefined, options: 0, commands: [], title: undefined });
	// They were among the events that were missed, unless those were not worth catching up on.
	assert.equal(server.fetched.length, catchUpMax === 100 ? 6 : 5);
}

test('after a reset it is that of the other history', async () => {
	const server = toldLongAgo();
	const { client, view } = watch(server);
	server.pump();
	await settle(server);
	server.socket.break();
	server.epoch = 'another';
	server.log[1] = { ...server.log[1], data: { ...MODES, current_mode_id: 'code' } };
	server.log[2] = { ...server.log[2], type: 'x-other' };
	server.advance(1000);
	await settle(server);
	assert.deepEqual(view.resets, ['epoch']);
	assert.deepEqual(told(client), { ...ALL, current_mode: 'code', model: undefined });
	// The same numbers in an older copy of the history.
	server.socket.break();
	server.log.length = 100;
	server.log[1] = { ...server.log[1], data: MODES };
	server.advance(1000);
	await settle(server);
	assert.deepEqual(view.resets, ['epoch', 'ahead']);
	assert.deepEqual(told(client), { ...ALL, model: undefined });
});

test('what could not be loaded is asked for again with the next connection', async () => {
	const server = toldLongAgo();
	const { client } = watch(server);
	server.pump();
	server.reachable = false;
	await settle(server);
	assert.deepEqual(client.agent, NOTHING);
	server.reachable = true;
	server.socket.break();
	server.advance(1000);
	await settle(server);
	assert.deepEqual(told(client), ALL);
});

test('a tab that comes back has it from its cache, and loads only what is new', async () => {
	const server = toldLongAgo();
	const around = { cache: { maxEvents: 20 }, indexedDB: new IDBFactory(), IDBKeyRange };
	const first = watch(server, around);
	await settle(server);
	await settle(server);
	server.advance(250);
	await settle(server);
	assert.deepEqual(told(first.client), ALL);
	server.record({ type: 'x-acp-session_info_update', data: { title: 'U' } });
	server.fill(100);
	server.fetched = [];
	server.reachable = false;
	const second = watch(server, around);
	await settle(server);
	assert.deepEqual(told(second.client), ALL);
	server.reachable = true;
	server.advance(2000);
	await settle(server);
	assert.deepEqual(told(second.client), { ...ALL, title: 'U' });
	assert.deepEqual(server.fetched, []);
});

test('a cached tab of another history forgets what its agent was', async () => {
	const server = toldLongAgo();
	const around = { cache: true, indexedDB: new IDBFactory(), IDBKeyRange };
	watch(server, around);
	await settle(server);
	server.advance(250);
	await settle(server);
	server.epoch = 'another';
	server.log.splice(0, 6, ...new FakeServer().fill(6).log);
	const { client } = watch(server, around);
	await settle(server);
	assert.equal(client.position.epoch, 'another');
	assert.deepEqual(client.agent, NOTHING);
	server.advance(250);
	await settle(server);
	server.reachable = false;
	const again = watch(server, around);
	await settle(server);
	assert.equal(again.client.position.epoch, 'another');
	assert.deepEqual(again.client.agent, NOTHING);
});

/** A tab that is live and has written what it holds. */
async function openLive(server, around) {
	const tab = watch(server, around);
	await settle(server);
	server.advance(250);
	await settle(server);
	assert.equal(tab.client.status.status, 'live');
	return tab;
}

test('a reset within the same history leaves it in the cache', async () => {
	const server = toldLongAgo();
	const around = { cache: true, catchUpMax: 100, indexedDB: new IDBFactory(), IDBKeyRange };
	await openLive(server, around);
	server.fill(500);
	server.reachable = false;
	const { client: second, view } = watch(server, around);
	await settle(server); // it has what is cached before it has a connection
	assert.deepEqual(told(second), ALL);
	server.reachable = true;
	server.advance(2000);
	await settle(server);
	assert.deepEqual(view.resets, ['behind']);
	server.advance(250);
	await settle(server);
	server.reachable = false;
	const { client } = watch(server, around);
	await settle(server);
	assert.equal(client.position.seq, server.log.length);
	assert.deepEqual(told(client), ALL);
});

test('a session that goes from the cache leaves nothing of its agent', async () => {
	const server = toldLongAgo();
	const indexedDB = new IDBFactory();
	const around = { cache: { maxSessions: 1 }, indexedDB, IDBKeyRange };
	await openLive(server, { ...around, sessionId: 'first' });
	server.timers.sleep(1000);
	await openLive(server, { ...around, sessionId: 'second' });
	const keys = await new Promise((resolve) => {
		indexedDB.open('holdfast').onsuccess = ({ target }) => {
			const rows = target.result.transaction('events').objectStore('events').getAllKeys();
			rows.onsuccess = () => resolve(rows.result.map(([key]) => key));
		};
	});
	assert.ok(keys.some((key) => key.includes('second')));
	assert.deepEqual(keys.filter((key) => key.includes('first')), []);
});

test('a setting goes out only while connected', () => {
	const server = new FakeServer();
	const { client } = watch(server);
	assert.equal(client.setMode('code'), false);
	server.pump();
	assert.equal(client.setMode('code'), true);
	assert.equal(client.setModel('opus'), true);
	assert.equal(client.setConfigOption('fast', true), true);
	assert.equal(client.authenticate('oauth'), true);
	server.pump();
	assert.deepEqual(server.sent('authenticate'), [{ method_id: 'oauth' }]);
	assert.deepEqual(server.sent('set_mode'), [{ mode_id: 'code' }]);
	assert.deepEqual(server.sent('set_model'), [{ model_id: 'opus' }]);
	assert.deepEqual(server.sent('set_config_option'), [{ config_id: 'fast', value: true }]);
	server.socket.break();
	assert.equal(client.setConfigOption('fast', false), false);
	server.advance(1000);
	assert.equal(server.sent('set_config_option').length, 1);
});
