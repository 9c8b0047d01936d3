// Several nodes on one PostgreSQL: editors open the sessions of any node at any node, over /acp and with `holdfast attach`, and go on when the owner dies.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import WebSocket from 'ws';
import { Editor } from '../support/editor.mjs';
import { markdownOf, servedLog } from '../support/log.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { startNodes as startOn } from '../support/nodes.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { demoAgent } from '../support/server.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { defer, eventually, patience } from '../support/wait.mjs';

const postgres = Postgres.start({ after });
const startNodes = (t, count, { agent = demoAgent('--rate 400'), ...options } = {}) => startOn(t, postgres, count, { agent, ...options });
const SHORT_LEASE = ['--limit', `node_lease_ms=${Math.ceil(1500 * patience)},node_silence_ms=${300 * patience}`]; // a machine that is slow renews late

const select = (question, kind) => ({ outcome: { outcome: 'selected', optionId: question.params.options.find((option) => option.kind.startsWith(kind)).optionId } });
const lines = async (node) => (await readMetrics(node))('node_sockets');

test('an editor at another node lists, loads, prompts, answers, sets, cancels, leaves and deletes as at the owner', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's', title: 'far' });
	const editors = await Promise.all([a, b].map((node) => Editor.open(t, node)));
	const [near, far] = editors;
	await eventually(async () => (await far.request('session/list', {})).sessions.some(({ sessionId, title }) => sessionId === 's' && title === 'far'), 'it to be listed');
	await near.load('s');
	await far.load('s');
	assert.deepEqual(await far.prompt('s', 'markdown'), { stopReason: 'end_turn' });
	assert.equal(far.said('s'), markdownOf(await servedLog(a)));
	await near.until(() => near.said('s') === far.said('s'));
	assert.equal(await lines(b), 1, 'to the owner');

	// A question that one of them answers is taken back from the other.
	const end = near.prompt('s', 'permission');
	const asked = await near.question();
	const question = await far.question();
	question.isAnswered = true;
	question.answer(select(question, 'allow'));
	assert.deepEqual(await end, { stopReason: 'end_turn' });
	await near.until(() => asked.isTakenBack);
	const other = far.prompt('s', 'permission');
	const second = await far.question();
	far.notify('session/cancel', { sessionId: 's' });
	assert.deepEqual(await other, { stopReason: 'cancelled' });
	await far.until(() => second.isTakenBack);
	assert.deepEqual(await far.request('session/set_mode', { sessionId: 's', modeId: 'quick' }), {});
	await near.until(() => near.of('s', 'current_mode_update').some(({ update }) => update.currentModeId === 'quick'));

	// All of it again, at both nodes: the same messages.
	const loads = await Promise.all([a, b].map(async (node) => {
		const editor = await Editor.open(t, node);
		await editor.load('s');
		editor.close();
		return editor.messages.slice(1);
	}));
	assert.ok(loads[0].length > 10);
	assert.deepEqual(loads[1].map((message) => JSON.stringify(message)), loads[0].map((message) => JSON.stringify(message)));
	await assert.rejects(far.prompt('none', 'x'), (error) => error.data.code === 'bad_request');
	await assert.rejects(far.load('none'), (error) => error.data.code === 'not_found');
	await far.request('session/close', { sessionId: 's' });
	await eventually(async () => (await lines(b)) === 0, 'what nobody has open is not followed');
	await assert.rejects(far.prompt('s', 'x'), (error) => error.data.code === 'bad_request');
	await far.resume('s', { after_seq: 1, epoch: near.position('s').epoch });
	await far.request('session/delete', { sessionId: 's' });
	assert.equal((await a.request('GET', '/api/sessions/s')).status, 404);
	await assert.rejects(far.load('s'), (error) => error.data.code === 'not_found');
	editors.forEach((editor) => editor.assertGood());
});

test('at another node tokens count as at the owner: who only watches is asked nothing, and what is not for it is not there', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	await a.createSession({ id: 'other' });
	const as = (role, sessions, more = {}) => bearer(ownToken(b, role, sessions, { holdfast: { role, sessions, ...more } }));
	const watcher = await Editor.open(t, b, { headers: as('observer', ['s']) });
	const reader = await Editor.open(t, b, { meta: { read_only: true } });
	const near = await Editor.open(t, a);
	await Promise.all([watcher, reader, near].map((editor) => editor.load('s')));
	await assert.rejects(watcher.load('other'), (error) => error.data.code === 'not_found');
	for (const editor of [watcher, reader]) {
		await assert.rejects(editor.prompt('s', 'x'), (error) => error.data.code === 'forbidden');
		await assert.rejects(editor.request('session/delete', { sessionId: 's' }), (error) => error.data.code === 'forbidden');
	}
	const end = near.prompt('s', 'permission');
	(await near.question()).answer(select(near.questions[0], 'allow'));
	await end;
	await watcher.until(() => watcher.said('s') === near.said('s') && reader.said('s') === near.said('s'));
	assert.deepEqual([watcher.questions.length, reader.questions.length], [0, 0]);
});

for (const [name, leave] of [['killed', (node) => node.kill9()], ['stopped', (node) => node.stop()]]) {
	test(`the owner is ${name} in the middle of a turn: the editor on stdio goes on at the node that it uses`, async (t) => {
		const [a, b] = await startNodes(t, 2, { agent: demoAgent('--rate 100'), args: name === 'killed' ? SHORT_LEASE : [] });
		await a.createSession({ id: 's' });
		const editor = await Editor.open(t, b, { attach: ['--session', 's'] });
		assert.equal((await editor.request('session/new', { cwd: '/', mcpServers: [] })).sessionId, 's');
		const held = editor.prompt('s', 'long 30').catch((error) => error);
		await editor.until(() => editor.said('s').length > 50);
		await leave(a);
		const waits = editor.prompt('s', 'list');
		assert.equal((await held).data?.code, 'agent_error');
		assert.deepEqual(await waits, { stopReason: 'end_turn' });
		const events = await servedLog(b);
		assert.equal(events.filter(({ type }) => type === 'user_prompt').length, 2);
		const last = markdownOf(events.filter(({ turn }) => turn === 2));
		assert.equal(editor.said('s').slice(-last.length), last);
		assert.equal(await lines(b), 0, 'it is here now');
		editor.assertGood();
		await (name === 'killed' ? a.restart() : null);
	});
}

test('a session that an editor at another node may not delete does not stay open there', async (t) => {
	const [a, b] = await startNodes(t, 2);
	const editor = await Editor.open(t, b, { headers: bearer(ownToken(b, 'controller')) });
	for (const id of ['s1', 's2']) {
		await a.createSession({ id });
		await assert.rejects(editor.request('session/delete', { sessionId: id }), (error) => error.data.code === 'forbidden');
	}
	await editor.load('s2');
	await eventually(async () => (await lines(b)) === 1, 'the line of what is not open to end');
	assert.deepEqual(await editor.prompt('s2', 'list'), { stopReason: 'end_turn' });
	await assert.rejects(editor.request('session/delete', { sessionId: 's2' }), (error) => error.data.code === 'forbidden');
	assert.deepEqual(await editor.prompt('s2', 'list'), { stopReason: 'end_turn' });
});

test('a question that is open when the owner dies is taken back; the next prompt asks at the next node, and is answered there', async (t) => {
	const [a, b] = await startNodes(t, 2, { args: SHORT_LEASE });
	await a.createSession({ id: 's' });
	const editor = await Editor.open(t, b, { attach: [] });
	await editor.load('s');
	const end = editor.prompt('s', 'permission').catch((error) => error);
	const question = await editor.question();
	await a.kill9();
	const error = await end;
	assert.ok(error.data?.code === 'agent_error' || error.stopReason, JSON.stringify(error));
	await editor.until(() => question.isTakenBack, 'the dialog closes');
	const next = editor.prompt('s', 'permission');
	const again = await editor.question();
	again.answer(select(again, 'allow'));
	assert.deepEqual(await next, { stopReason: 'end_turn' });
	await a.restart();
});

test('a session whose node lives and cannot be reached is refused; others go on', async (t) => {
	const database = 'unreachable';
	const [a] = await startNodes(t, 1, { database, args: ['--node-address', '127.0.0.1:9'] });
	const [b] = await startNodes(t, 1, { database });
	await a.createSession({ id: 's' });
	await b.createSession({ id: 'here' });
	const editor = await Editor.open(t, b);
	await editor.load('here');
	await assert.rejects(editor.load('s'), (error) => error.data.code === 'owner_unreachable');
	assert.deepEqual(await editor.prompt('here', 'list'), { stopReason: 'end_turn' });
	editor.assertGood();
});

test('an editor that does not read is behind alone, and gets all of it', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const SIZE = 60_000;
	const COUNT = 300;
	for (let n = 0; n < COUNT; n += 20) {
		await post(a, 's', Array.from({ length: 20 }, (_, i) => input.text(`${String(n + i).padEnd(SIZE, 'x')}\n\n`)));
	}
	const socket = new WebSocket(b.ws('/acp'), { headers: bearer(b.token), perMessageDeflate: false });
	defer(t, () => socket.terminate());
	const told = [];
	let loaded = false;
	let closed = null;
	socket.on('close', (code) => (closed = code));
	socket.on('message', (data) => {
		const message = JSON.parse(data);
		message.method === 'session/update' && told.push(message.params.update.content?.text ?? '');
		loaded ||= message.id === 2;
	});
	await new Promise((opened) => socket.once('open', opened));
	socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: 1 } }));
	socket.send(JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'session/load', params: { sessionId: 's', cwd: '/', mcpServers: [] } }));
	await eventually(() => told.length > 0, 'it to begin');
	socket.pause();
	// Another one gets all of it meanwhile.
	const quick = await Editor.open(t, b);
	await quick.load('s');
	assert.ok(quick.said('s').length >= COUNT * SIZE);
	const had = told.length;
	assert.ok(had < COUNT / 2, `${had} came before it stood still`);
	socket.resume();
	await eventually(() => loaded || closed !== null, 'the rest');
	assert.deepEqual([closed, told.join('') === quick.said('s')], [null, true]);
});
