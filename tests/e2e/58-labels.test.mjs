// What people call a session and where they put it: PATCH /api/sessions/{id} (proto/protocol.md#rest).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';

const shape = check.rest('session');
const labelsOf = ({ title, archived, pinned }) => ({ title, archived, pinned });

async function patch(server, id, json) {
	const { status, body } = await server.request('PATCH', `/api/sessions/${id}`, { json });
	assert.equal(status, 200, JSON.stringify(body));
	assertValid(shape(body));
	return body;
}

const get = async (server, id) => (await server.request('GET', `/api/sessions/${id}`)).body;
const agentTitle = (title) => ({ type: 'x-acp-session_info_update', data: { title } });

test('a session is renamed, archived and pinned; the list, the feed and connected say so', async (t) => {
	const server = await Server.start(t);
	const made = await server.createSession({ id: 's', title: 'Made' });
	await server.createSession({ id: 'other' });
	const feed = new TestSocket(t, server.ws('/api/events'), check.feed);
	await feed.waitFor('sessions');

	const changed = await patch(server, 's', { title: 'Grüße, "mine" <b>', archived: true, pinned: true });
	assert.deepEqual(changed, { ...made, title: 'Grüße, "mine" <b>', archived: true, pinned: true }, 'nothing else has changed');
	const told = await feed.waitFor((f) => f.type === 'session_changed' && f.data.session.pinned);
	assert.deepEqual(told.data.session, changed);
	const list = (await server.request('GET', '/api/sessions')).body.sessions;
	assert.deepEqual(list.find((one) => one.id === 's'), changed);
	const observer = await Observer.connect(t, server, 's');
	assert.deepEqual(labelsOf(observer.frames[0].data), labelsOf(changed));

	assert.deepEqual(labelsOf(await patch(server, 's', { archived: false })), { title: changed.title, archived: false, pinned: true }, 'one alone');
	assert.deepEqual(labelsOf(await get(server, 'other')), { title: '', archived: false, pinned: false });
});

test("the agent's titles count until a person renames, and again when that is taken back", async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 's', title: 'Made' });
	await post(server, 's', agentTitle("The agent's"));
	assert.equal((await get(server, 's')).title, "The agent's");
	await patch(server, 's', { title: 'Mine' });
	await post(server, 's', agentTitle('Another'));
	assert.equal((await get(server, 's')).title, 'Mine');
	assert.equal((await patch(server, 's', { title: null })).title, 'Another');
	await post(server, 's', agentTitle(null));
	assert.equal((await get(server, 's')).title, 'Made');
});

test('labels outlive a restart, kill -9, eviction and full segments', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'evict_ms=1', '--limit', 'segment_size=64K'] });
	const want = {};
	const check = async (when) => {
		for (const [id, labels] of Object.entries(want)) {
			assert.deepEqual(labelsOf(await get(server, id)), labels, `${id} ${when}`);
		}
	};
	for (let round = 0; round < 4; round++) {
		for (const id of ['a', 'b', 'c']) {
			await (want[id] ?? server.createSession({ id }));
			const labels = { title: `${id} ${round}`, archived: round % 2 === 0, pinned: round % 3 === 0 };
			// Between them the journal goes on to other segments.
			await post(server, id, ...Array.from({ length: 20 }, (_, n) => input.note({ n, text: 'x'.repeat(2000) })));
			want[id] = labelsOf(await patch(server, id, labels));
			assert.deepEqual(want[id], labels);
		}
		await check('at once');
		await server.kill9();
		await server.restart();
		await check('after a kill');
		await server.stop();
		await server.up();
		await check('after a stop');
	}
});

test('what is no change is refused, and changes nothing', async (t) => {
	const server = await Server.start(t);
	const made = await server.createSession({ id: 's', title: 'Made' });
	const refused = async (json, code, status = 400) => {
		const { status: got, body } = await server.request('PATCH', '/api/sessions/s', typeof json === 'string' ? { body: json } : { json });
		assert.deepEqual([got, body.error?.code], [status, code], JSON.stringify(json));
	};
	for (const json of [{}, [], { title: '' }, { title: 7 }, { archived: 'yes' }, { pinned: null }, { archived: 1 }, { title: 'x', id: 's' }, { title: 'x', status: 'idle' }]) {
		await refused(json, 'bad_request');
	}
	await refused('', 'bad_json');
	await refused('{"title": "x"', 'bad_json');
	await refused({ title: 'x'.repeat(1025) }, 'too_large', 413);
	assert.deepEqual(await get(server, 's'), made);
	const { status } = await server.request('PATCH', '/api/sessions/nobody', { json: { pinned: true } });
	assert.equal(status, 404);
});

test('controllers and admins may, for the sessions that they see', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 'team-a' });
	await server.createSession({ id: 'other' });
	for (const [role, wanted] of [['observer', 403], ['producer', 403], ['controller', 200], ['admin', 200]]) {
		const headers = bearer(ownToken(server, role, ['team-*']));
		const ask = async (id) => (await server.request('PATCH', `/api/sessions/${id}`, { json: { pinned: true }, headers })).status;
		assert.equal(await ask('team-a'), wanted, role);
		assert.equal(await ask('other'), 404, `${role}: it is not told of`);
	}
});
