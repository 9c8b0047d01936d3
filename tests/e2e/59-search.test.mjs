// Search in the whole log of a session, and in all sessions (proto/protocol.md#rest).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readMetrics } from '../support/metrics.mjs';
import { post } from '../support/producer.mjs';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { assertValid, check } from '../support/schema.mjs';
import { Server } from '../support/server.mjs';
import { bearer, ownToken } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';

const shape = check.rest('search');
const say = (text) => [{ type: 'agent_message_chunk', data: { text } }, { type: 'text_complete', data: {} }];

async function ask(server, path, query = {}, headers = {}) {
	return server.request('GET', `${path}?${new URLSearchParams(query)}`, { headers });
}

async function find(server, path, query, headers) {
	const { status, body } = await ask(server, path, query, headers);
	assert.equal(status, 200, JSON.stringify(body));
	assertValid(shape(body));
	return body;
}

const inSession = (server, id, q, more = {}) => find(server, `/api/sessions/${id}/search`, { q, ...more });

/** All hits of a search, and how many answers they came in. */
async function findAll(server, path, query) {
	const hits = [];
	let answers = 0;
	for (let cursor = {}; cursor; answers++) {
		const page = await find(server, path, { ...query, ...cursor });
		hits.push(...page.hits);
		cursor = page.next && { cursor: page.next };
	}
	return { hits, answers };
}

test('what people see is found, in any case and script; what they do not see is not', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 's' });
	await post(server, 's', [
		...say('The **Build** failed.'),
		{ type: 'agent_thought_chunk', data: { text: 'Grüße aus Köln, ПРИВЕТ мир 🦀 краб' } },
		{ type: 'tool_call', data: { tool_call_id: 'hidden-word', title: 'Run make', kind: 'execute', status: 'pending' } },
		{ type: 'tool_call_update', data: { tool_call_id: 'hidden-word', status: 'completed', content: [{ type: 'content', content: { type: 'text', text: 'one\nlinker\terror "quoted"\nend' } }] } },
		{ type: 'plan', data: { entries: [{ content: 'Fix the linker', priority: 'high', status: 'pending' }] } },
	]);
	const seqs = async (q) => (await inSession(server, 's', q)).hits.map(({ seq }) => seq);
	assert.deepEqual((await inSession(server, 's', 'BUILD')).hits.map(({ seq, type, snippet }) => ({ seq, type, snippet })), [
		{ seq: 1, type: 'agent_message', snippet: 'The **Build** failed.' }]);
	assert.deepEqual(await seqs('GRÜSSE'), [], 'a letter is a letter');
	assert.deepEqual(await seqs('grÜße AUS köln'), [3]);
	assert.deepEqual(await seqs('привет'), [3]);
	assert.deepEqual(await seqs('🦀 КРАБ'), [3]);
	assert.deepEqual(await seqs('linker'), [6, 5], 'the newest first');
	assert.deepEqual(await seqs('linker error "quoted" end'), [5], 'white space is a space');
	assert.deepEqual(await seqs('RUN MAKE'), [4]);
	for (const q of ['hidden-word', 'execute', 'agent_message', 'pending', 'nothing like it', '\\n']) {
		assert.deepEqual(await seqs(q), [], q);
	}
});

test('a snippet is short, on one line, of whole characters, and has what was found', async (t) => {
	const server = await Server.start(t);
	await server.createSession({ id: 's' });
	await post(server, 's', [{ type: 'x-log', data: { text: `${'日本語'.repeat(300)}\n\n\u0007needle 🦀${'ё'.repeat(500)}` } }]);
	const { hits: [{ snippet }] } = await inSession(server, 's', 'NEEDLE');
	assert.match(snippet, /^…[日本語]+ needle 🦀ё+…$/u);
	assert.ok(Buffer.byteLength(snippet) < 400);
});

test('a long log is looked through in several answers, each bounded; nothing is missed or found twice', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'search_size=64K', '--limit', 'page_size=16K', '--limit', 'hot_tail_size=8K', '--limit', 'load_max=40'] });
	await server.createSession({ id: 's' });
	const wanted = [];
	for (let n = 0; n < 40; n++) {
		await post(server, 's', Array.from({ length: 25 }, (_, i) => ({ type: 'x-log', data: { text: `${i % 10 === 3 ? 'Needle' : 'straw'} ${'x'.repeat(200)}` } })));
	}
	for (let seq = 1; seq <= 1000; seq++) {
		(seq - 1) % 25 % 10 === 3 && wanted.unshift(seq);
	}
	for (const limit of [7, 200]) {
		const { hits, answers } = await findAll(server, '/api/sessions/s/search', { q: 'needle', limit });
		assert.deepEqual(hits.map(({ seq }) => seq), wanted);
		assert.ok(answers >= (limit === 7 ? wanted.length / 7 : 4), `${answers} answers`);
	}
	const none = await findAll(server, '/api/sessions/s/search', { q: 'no such thing' });
	assert.deepEqual(none.hits, []);
	assert.ok(none.answers >= 4, `${none.answers} answers`);
});

test('all sessions that the token sees: five hits of each, the newest change first; hidden ones and hidden content are not there', async (t) => {
	const server = await Server.start(t);
	for (const id of ['team-a', 'other', 'team-b', 'team-empty']) {
		await server.createSession({ id });
	}
	for (const id of ['team-a', 'other', 'team-b']) {
		await post(server, id, Array.from({ length: 7 }, (_, n) => ({ type: 'x-log', data: { text: `needle ${n} of ${id}` } })));
		await post(server, id, [{ type: 'tool_call', data: { tool_call_id: 'c', title: `secret in ${id}`, status: 'pending' } }]);
	}
	const as = (rights) => bearer(ownToken(server, 'observer', [], { holdfast: { role: 'observer', ...rights } }));
	const ids = ({ hits }) => hits.map(({ session_id, seq }) => `${session_id} ${seq}`);
	const newest = (id) => [7, 6, 5, 4, 3].map((seq) => `${id} ${seq}`);
	assert.deepEqual(ids(await find(server, '/api/search', { q: 'needle' })), ['team-b', 'other', 'team-a'].flatMap(newest));
	assert.deepEqual(ids(await findAll(server, '/api/search', { q: 'NEEDLE', limit: 2 })).sort(), ['team-a', 'other', 'team-b'].flatMap((id) => [7, 6, 5, 4, 3, 2, 1].map((seq) => `${id} ${seq}`)).sort(), 'page by page nothing is lost');
	const team = as({ sessions: ['team-*'] });
	assert.deepEqual(ids(await find(server, '/api/search', { q: 'needle' }, team)), ['team-b', 'team-a'].flatMap(newest));
	assert.equal((await ask(server, '/api/sessions/other/search', { q: 'needle' }, team)).status, 404);
	const { next } = await find(server, '/api/search', { q: 'needle', limit: 1 });
	const stolen = await find(server, '/api/search', { q: 'needle', cursor: next.replace(/team-b/g, 'other') }, team);
	assert.ok(stolen.hits.every(({ session_id }) => session_id !== 'other'), 'a cursor opens nothing');
	assert.deepEqual(ids(await find(server, '/api/search', { q: 'secret' }, team)), ['team-b 8', 'team-a 8']);
	const blind = as({ sessions: ['*'], hide: ['tools'] });
	assert.deepEqual(ids(await find(server, '/api/search', { q: 'secret' }, blind)), []);
});

test('requests that make no sense are refused', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'search_query_size=20'] });
	await server.createSession({ id: 's' });
	for (const path of ['/api/sessions/s/search', '/api/search']) {
		for (const query of ['', '?q=', '?q=%20%0a', '?q=%ff', '?q=a&q=b', '?q=a&limit=0', '?q=a&limit=201', '?q=a&limit=x', '?q=a&cursor=', '?q=a&cursor=x', '?q=a&cursor=0', '?q=a&cursor=99999999999999999999', '?q=a&cursor=1!!', '?q=a&cursor=1!..!x', '?q=a&what=1']) {
			const { status, body } = await server.request('GET', path + query);
			assert.deepEqual([status, body.error?.code], [400, 'bad_request'], path + query);
		}
		assert.deepEqual((await server.request('GET', `${path}?q=${'x'.repeat(21)}`)).body.error.code, 'too_large');
		assert.equal((await server.request('POST', `${path}?q=a`)).status, 405);
		assert.deepEqual((await find(server, path, { q: 'x' })), { hits: [], next: null });
	}
	assert.equal((await ask(server, '/api/sessions/none/search', { q: 'x' })).status, 404);
});

test('many searches wait for their turn, those whose client goes are given up, and a deleted session ends one', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'searches=1', '--limit', 'search_size=1G', '--limit', 'page_size=16K', '--limit', 'hot_tail_size=8K'] });
	await server.createSession({ id: 's' });
	for (let n = 0; n < 10; n++) {
		await post(server, 's', Array.from({ length: 100 }, () => ({ type: 'x-log', data: { text: `${'aA'.repeat(400)}b` } })));
	}
	const q = `${'a'.repeat(200)}c`;
	const path = `/api/sessions/s/search?q=${q}`;
	const gone = await Promise.all(Array.from({ length: 20 }, () => RawSocket.connect(t, server)));
	await Promise.all(gone.map((socket) => socket.send(head('GET', path, { Authorization: `Bearer ${server.token}` }))));
	await eventually(async () => (await readMetrics(server))('limit_reached_total{limit="searches"}') > 0, 'some to wait');
	gone.forEach((socket) => socket.drop());
	const mine = await Promise.all(Array.from({ length: 4 }, () => inSession(server, 's', q)));
	mine.forEach((found) => assert.deepEqual(found, { hits: [], next: null }));
	const last = ask(server, '/api/sessions/s/search', { q });
	await server.request('DELETE', '/api/sessions/s');
	assert.ok([200, 404].includes((await last).status));
	await eventually(async () => (await readMetrics(server))('connections') <= 3, 'the dropped ones to be gone');
});
