// What programs build on: snapshots, promises and the transcript of the client library, and its hooks for React.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { act, createElement, Fragment, StrictMode } from 'react';
import renderer from 'react-test-renderer';
import WebSocket from 'ws';
import { HoldfastClient } from '../../web/client/holdfast-client.js';
import { makeProject } from '../support/package.mjs';
import { input, post } from '../support/producer.mjs';
import { demoAgent, scratchDir, Server } from '../support/server.mjs';
import { defer, eventually, within } from '../support/wait.mjs';

const SNAPSHOTS = ['agent', 'events', 'hasOlder', 'open', 'permissions', 'position', 'prompts', 'queue', 'state', 'stats', 'status', 'transcript'];

function optionsOf(server, sessionId, rest = {}) {
	return { base: server.url, sessionId, getToken: () => server.token, format: 'markdown', WebSocket, ...rest };
}

function open(t, server, sessionId, rest) {
	const client = new HoldfastClient(optionsOf(server, sessionId, rest));
	defer(t, () => client.close());
	return client.connect();
}

const isDeeplyFrozen = (value) =>
	typeof value !== 'object' || value === null || (Object.isFrozen(value) && Object.values(value).every(isDeeplyFrozen));

test('every snapshot is frozen, and the same object until something is said', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const { id } = await server.createSession();
	const client = open(t, server, id, { deltas: 'text' });
	const take = () => Object.fromEntries(SNAPSHOTS.map((name) => [name, client[name]]));
	let told = 0;
	const faults = new Set();
	client.subscribe(() => {
		told += 1;
		const [one, two] = [take(), take()];
		SNAPSHOTS.filter((name) => one[name] !== two[name]).forEach((name) => faults.add(`${name} is another`));
		SNAPSHOTS.filter((name) => !isDeeplyFrozen(one[name])).forEach((name) => faults.add(`${name} is not frozen`));
	});
	await client.ready();
	const before = take();
	const frozen = JSON.stringify(before.events);
	for (const word of ['hello', 'plan', 'list', 'table']) {
		client.prompt(word);
	}
	await eventually(() => client.events.filter(({ type }) => type === 'turn_end').length === 4, 'four turns');
	assert.deepEqual([...faults], []);
	assert.ok(told > 4);
	assert.notEqual(client.events, before.events);
	assert.equal(JSON.stringify(before.events), frozen, 'what was given away does not change');
	// What did not change is the same after something else did.
	const { turns } = client.transcript;
	client.prompt('hello');
	await eventually(() => client.transcript.turns.length > turns.length, 'the next turn');
	assert.equal(client.transcript.turns[turns.length - 2], turns.at(-2));
});

test('prompt() and ready() resolve, or reject with the server\'s code', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const { id } = await server.createSession();
	const client = open(t, server, id);
	assert.equal(await client.ready(), client);
	const sent = client.prompt('permission');
	assert.match(sent.id, /^[0-9a-f]{32}$/);
	assert.deepEqual(await sent, { prompt_id: sent.id, seq: client.events.find(({ type }) => type === 'user_prompt')?.seq ?? (await sent).seq });
	assert.equal((await client.prompt('list')).seq, null, 'it is queued');
	await assert.rejects(client.prompt('x'.repeat(600_000)), { code: 'too_large' });
	await eventually(() => client.permissions.length === 1, 'the question');
	const [{ request_id, options }] = client.permissions;
	client.answerPermission(request_id, options[0].option_id);
	await eventually(() => client.permissions.length === 0, 'the answer');
	const nobody = open(t, server, 'no-such-session');
	await assert.rejects(nobody.ready(), { code: 'not_found' });
	await assert.rejects(nobody.ready(), { code: 'not_found' });
	const closed = new HoldfastClient(optionsOf(server, id));
	const waiting = [closed.ready(), closed.prompt('never')].map((promise) => promise.catch(({ code }) => code));
	closed.connect();
	closed.close();
	assert.deepEqual(await Promise.all(waiting), ['closed', 'closed']);
});

test('the transcript merges tools, plans and turns, also when older events come', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	const turn = (n) => [input.tool(`c${n}`, 'Looking'), input.toolDone(`c${n}`), input.plan('one'), input.plan('one', 'two'), input.text(`Answer ${n}\n`), input.end()];
	await post(server, id, Array.from({ length: 20 }, (_, n) => turn(n)).flat());
	const client = open(t, server, id);
	await client.ready();
	const newest = client.transcript.turns.at(-1);
	assert.deepEqual(newest.items.filter(({ kind }) => kind !== 'silent').map(({ kind, events }) => `${kind} ${events.length}`), ['tool 2', 'plan 2', 'message 1']);
	assert.equal(newest.items[0].state.status, 'completed');
	assert.equal(newest.items[0].state.title, 'Looking');
	assert.equal(newest.stop_reason, 'end_turn');
	assert.deepEqual(client.transcript.plan.map(({ content }) => content), ['one', 'two']);
	while (client.hasOlder) {
		const first = client.events[0].seq;
		client.loadOlder();
		await eventually(() => client.events[0].seq < first, 'older events');
	}
	assert.equal(client.transcript.turns.length, 20);
	assert.equal(client.transcript.turns.at(-1), newest);
});

test('React 19 renders what the client has, and the hooks open and close it', async (t) => {
	globalThis.IS_REACT_ACT_ENVIRONMENT = true;
	const { dir } = makeProject(t);
	symlinkSync(fileURLToPath(new URL('../node_modules/react', import.meta.url)), join(dir, 'node_modules/react'));
	const hooks = join(dir, 'node_modules/holdfast-client/react/index.js');
	const { useSession, useSessions, useSnapshot } = await import(pathToFileURL(hooks));
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	const { id } = await server.createSession({ title: 'One' });
	let client;
	function Session() {
		client = useSession(optionsOf(server, id));
		const { items } = useSnapshot(client, 'transcript');
		const { status } = useSnapshot(client, 'status');
		const permissions = useSnapshot(client, 'permissions');
		return createElement(Fragment, null, `${status};`, `${permissions.length};`, ...items.map(({ key, kind }) => createElement('p', { key }, kind)));
	}
	function List() {
		const sessions = useSessions({ base: server.url, getToken: () => server.token, WebSocket });
		return createElement('ul', null, sessions.map(({ id: one, title }) => createElement('li', { key: one }, title)));
	}
	let root;
	await act(async () => {
		root = renderer.create(createElement(StrictMode, null, createElement(Session), createElement(List)));
	});
	const shown = () => JSON.stringify(root.toJSON());
	const until = (probe, what) => eventually(async () => (await act(async () => {}), probe()), what);
	await until(() => shown().includes('live;') && shown().includes('One'), 'the session and the list');
	await act(async () => client.prompt('permission'));
	await until(() => shown().includes('1;'), 'the question');
	await act(async () => client.answerPermission(client.permissions[0].request_id, client.permissions[0].options[0].option_id));
	await until(() => client.transcript.turns[0]?.stop_reason && shown().includes('"0;"') && shown().includes('"message"'), 'the end of the turn');
	await act(async () => root.unmount());
	assert.equal(client.status.status, 'closed');
});

/** What somebody has who followed the words of an older Node: the files, and `npm install ws`. */
function withWs(t) {
	const dir = scratchDir(t);
	const root = fileURLToPath(new URL('../..', import.meta.url));
	for (const path of ['examples/watch.mjs', 'web/client']) {
		cpSync(join(root, path), join(dir, path), { recursive: true });
	}
	mkdirSync(join(dir, 'node_modules'));
	symlinkSync(join(root, 'tests/node_modules/ws'), join(dir, 'node_modules/ws'));
	return dir;
}

test('examples/watch.mjs shows a session, and fails for one that does not exist', async (t) => {
	const server = await Server.start(t);
	const { id } = await server.createSession();
	await post(server, id, [input.text('Hello, **world**.\n'), input.end(), { type: 'session_end', data: {} }]);
	const run = async (session, dir = fileURLToPath(new URL('../..', import.meta.url))) => {
		const child = spawn(process.execPath, [...process.execArgv, join(dir, 'examples/watch.mjs'), session], {
			env: { ...process.env, HOLDFAST_TOKEN: server.token, HOLDFAST_URL: server.url },
			stdio: ['ignore', 'pipe', 'pipe'],
		});
		defer(t, () => child.kill('SIGKILL'));
		let output = '';
		child.stdout.on('data', (d) => (output += d));
		child.stderr.on('data', (d) => (output += d));
		const [code] = await within(once(child, 'close'), 30_000, () => `watch.mjs to end; so far ${output}`);
		return { code, output };
	};
	if (typeof globalThis.WebSocket !== 'function') {
		const { code, output } = await run(id);
		assert.equal(code, 1);
		assert.match(output, /Node 22|npm install ws/);
	}
	const dir = withWs(t);
	const shown = await run(id, dir);
	assert.equal(shown.code, 0, shown.output);
	assert.match(shown.output, /^1 agent_message Hello, \*\*world\*\*\.$/m);
	const missing = await run('no-such-session', dir);
	assert.equal(missing.code, 1, missing.output);
	assert.match(missing.output, /not_found/);
});
