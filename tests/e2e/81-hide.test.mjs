// What a token hides: no byte of it comes out of any door, and all the rest comes as it is.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { check, protoDir } from '../support/schema.mjs';
import { Server, replayAgent, runToEnd } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { EventStream } from '../support/sse.mjs';
import { claims, makeToken, secretOf } from '../support/tokens.mjs';

const AGENT = `exec ${process.execPath} ${fileURLToPath(new URL('../support/secret_agent.mjs', import.meta.url))}`;
const HIDES = [['thoughts'], ['tools'], ['thoughts', 'tools']];
const SHAPES = ['html', 'markdown', 'both'].flatMap((format) => [undefined, 'text', 'html'].map((deltas) => ({ format, ...(deltas && { deltas }) })));
/** What a word in the stream begins with, if a token that hides this must not see it. */
const WORDS = { thoughts: /thought-[a-z]+|dGhvdWdodC1/g, tools: /tool-[a-z]+/g };

function headers(server, hide, role = 'observer', sub = 'ann') {
	const { holdfast, ...rest } = claims(role, ['*'], { sub });
	return { authorization: `Bearer ${makeToken({ ...rest, holdfast: { ...holdfast, hide } }, secretOf(server))}` };
}

/** Asserts that nothing of what is hidden is in it. */
function assertHidden(what, hide, where) {
	const text = typeof what === 'string' ? what : JSON.stringify(what);
	for (const kind of hide) {
		// A type of its own is no secret: it stays.
		const found = text.replaceAll(/"type":"[^"]*"/g, '').match(WORDS[kind]);
		assert.equal(found, null, `${where}, hide ${hide}: ${found}`);
	}
}

/** Which tokens do not see an event, as proto/access.md says; its detail is looked at by itself. */
function hiddenBy({ type, data }) {
	if (type === 'agent_thought' || (type === 'x-acp-content' && data.thought) || (type === 'x-acp-meta' && data.of === 'agent_thought_chunk')) {
		return ['thoughts'];
	}
	if (['x-acp-thing_nobody_knows', 'x-acp-notification'].includes(type)) {
		return ['thoughts', 'tools'];
	}
	const tools = ['tool_call', 'tool_call_update', 'plan', 'file_read', 'file_write', 'permission_request', 'permission_resolved', 'x-acp-terminal'];
	return tools.includes(type) ? ['tools'] : [];
}

/** What a token that hides these is shown of the event. */
function shown(event, hide) {
	const { message_id: _, data, ...rest } = event;
	const { seq, type, ts, turn } = rest;
	const redacted = { seq, type, ts, ...(turn && { turn }), redacted: true };
	if (hiddenBy(event).some((kind) => hide.includes(kind))) {
		return { ...redacted, data: {} };
	}
	if (type === 'agent_stopped' && (data.detail ?? data.stderr ?? data.login) !== undefined && hide.includes('tools')) {
		const { detail: __, stderr: ___, login: ____, ...more } = data;
		return { ...redacted, data: more };
	}
	return event;
}

const assertShown = (events, all, hide, where) =>
	assert.deepEqual(events.map((e) => JSON.stringify(e)), all.slice(0, events.length).map((e) => JSON.stringify(shown(e, hide))), `${where}, hide ${hide}`);

/** Everything that can be read over HTTP, as text. */
async function readAll(server, id, auth) {
	const paths = [`/api/sessions/${id}`, '/api/sessions', `/api/sessions/${id}/queue`, '/api/login',
		...['html', 'markdown', 'both'].flatMap((format) => [`after_seq=0&limit=5000`, 'before_seq=40', 'limit=20'].map((q) => `/api/sessions/${id}/events?format=${format}&${q}`))];
	const answers = await Promise.all(paths.map((path) => server.rawRequest('GET', path, auth)));
	answers.forEach(({ status, body }) => assert.equal(status, 200, body));
	return answers.map(({ headers: head, body }) => JSON.stringify(head) + body).join('\n');
}

/** Compares what those who hide something read with what all others read, through every door that is not live. */
async function compareCold(t, server, id) {
	for (const query of SHAPES) {
		const all = await (await Observer.connect(t, server, id, { query })).loadAll({ limit: 7 });
		for (const hide of HIDES) {
			const observer = await Observer.connect(t, server, id, { query, headers: headers(server, hide) });
			assert.deepEqual(observer.hello.hide, hide);
			const where = `loading ${JSON.stringify(query)}`;
			assertShown(await observer.loadAll({ limit: 7 }), all, hide, where);
			assertHidden(observer.frames, hide, where);
			await observer.close();
			for (const load of [{ before_seq: 20, limit: 100 }, { limit: 9 }]) {
				const other = await Observer.connect(t, server, id, { query, headers: headers(server, hide) });
				await other.load(load);
				assertHidden(other.frames, hide, where);
				await other.close();
			}
		}
		const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000&format=${query.format}`);
		for (const hide of HIDES) {
			const path = `/api/sessions/${id}/events?after_seq=0&limit=5000&format=${query.format}`;
			assertShown((await server.request('GET', path, { headers: headers(server, hide) })).body.events, body.events, hide, path);
			const stream = await EventStream.session(t, server, id, { query: { ...query, after: 0 }, gzip: true, headers: headers(server, hide) });
			await stream.waitFor('live');
			assertShown(stream.events, body.events, hide, `a stream of ${path}`);
			assertHidden(stream.all, hide, `a stream of ${path}`);
			stream.abort();
		}
	}
	for (const hide of HIDES) {
		assertHidden(await readAll(server, id, headers(server, hide)), hide, 'HTTP');
	}
	const seen = await readAll(server, id, {});
	for (const kind of Object.keys(WORDS)) {
		assert.ok(new Set(seen.match(WORDS[kind])).size > 2, `the log has no secrets about ${kind}`);
	}
}

test('an agent\'s hidden words come out nowhere: live, in every format, and cold after restarts', async (t) => {
	const server = await Server.start(t, { agent: AGENT, args: ['--limit', 'thought_flush_ms=60s'] });
	await server.createSession({ id: 's' });
	const plain = new Map();
	const hiding = [];
	const connect = async (options) => {
		const observer = await Observer.connect(t, server, 's', options);
		await observer.load({ limit: 1 });
		await observer.waitFor('state');
		return observer;
	};
	const feed = new TestSocket(t, server.ws('/api/events'), check.feed);
	const feeds = HIDES.map((hide) => [hide, new TestSocket(t, server.ws('/api/events'), check.feed, { headers: headers(server, hide) })]);
	for (const query of SHAPES) {
		plain.set(query, await connect({ query }));
		for (const hide of HIDES) {
			hiding.push({ query, hide, observer: await connect({ query, headers: headers(server, hide) }) });
		}
	}
	const streams = [];
	for (const [query, hide] of SHAPES.flatMap((shape) => HIDES.map((each) => [shape, each]))) {
		const stream = await EventStream.session(t, server, 's', { query: { ...query, limit: 1 }, headers: headers(server, hide) });
		await stream.waitFor('live');
		streams.push({ query, hide, stream });
	}
	const controller = plain.get(SHAPES[0]);
	await controller.prompt('ask');
	for (const [query, observer] of plain) {
		if (query.deltas) { // they see the thought grow, which the agent waits for
			await observer.waitFor(({ type, data }) => ['delta', 'preview'].includes(type) && data.type === 'agent_thought', { ms: 60_000 });
		}
	}
	writeFileSync(join(server.dataDir, '..', 'seen'), '');
	const { data: { request_id } } = await controller.waitForEvent('permission_request', { ms: 60_000 });
	await controller.waitFor((f) => f.type === 'state' && f.data.status === 'waiting');
	await feed.waitFor((f) => f.type === 'session_changed' && f.data.session.status === 'waiting');

	// While it waits: one that hides tools is not told so, and does not answer, whatever the request is.
	for (const hide of HIDES) {
		const auth = headers(server, hide);
		for (const path of ['/api/sessions/s', '/api/sessions']) {
			const { body } = await server.rawRequest('GET', path, auth);
			assert.equal(body.includes('"waiting"'), !hide.includes('tools'), `${path}, hide ${hide}`);
		}
		for (const role of ['controller', 'admin']) {
			const observer = await Observer.connect(t, server, 's', { headers: headers(server, hide, role) });
			await observer.send('keepalive');
			const ack = await observer.waitFor('keepalive_ack');
			assert.equal(ack.data.status, hide.includes('tools') ? 'running' : 'waiting');
			if (hide.includes('tools')) {
				const refusals = [];
				for (const id of [request_id, 'unknown']) {
					const { request_id: told, ...refusal } = await observer.refused('permission_answer', { request_id: id, option_id: 'tool-option' });
					assert.equal(told, id);
					refusals.push(refusal);
				}
				assert.deepEqual(refusals[0], refusals[1]);
				assert.equal(refusals[0].code, 'forbidden');
			}
			await observer.close();
		}
	}
	await controller.send('permission_answer', { request_id, option_id: 'tool-option' });
	const { seq } = await controller.waitForEvent('turn_end', { ms: 60_000 });
	await feed.waitFor(({ type, data }) => type === 'session_changed' && data.session.max_seq >= seq);

	for (const { query, hide, observer } of hiding) {
		const all = (await plain.get(query).waitForSeq(seq)).filter((e) => e.seq <= seq);
		const where = `live ${JSON.stringify(query)}`;
		assertShown((await observer.waitForSeq(seq)).filter((e) => e.seq <= seq), all, hide, where);
		assertHidden(observer.frames, hide, where);
		assert.ok(!hide.includes('tools') || !JSON.stringify(observer.frames).includes('"waiting"'), where);
		const growing = (of) => of.frames.filter(({ type, data }) => ['delta', 'preview'].includes(type) && data.type === 'agent_thought');
		if (hide.includes('thoughts')) {
			assert.deepEqual(growing(observer), []);
		}
		const notices = observer.frames.filter(({ type }) => type === 'activity');
		for (const { data } of notices) {
			const event = all.find(({ seq: number }) => number === data.seq);
			assert.equal(data.redacted, hiddenBy(event).some((kind) => hide.includes(kind)) || undefined);
		}
	}
	for (const { query, hide, stream } of streams) {
		const where = `a stream ${JSON.stringify(query)}`;
		const all = (await plain.get(query).waitForSeq(seq)).filter((e) => e.seq <= seq);
		assertShown((await stream.waitForSeq(seq)).filter((e) => e.seq <= seq), all, hide, where);
		assertHidden(stream.all, hide, where);
		assert.ok(!hide.includes('tools') || !JSON.stringify(stream.all).includes('"waiting"'), where);
	}
	const told = [...plain.values()].map(({ frames }) => JSON.stringify(frames)).join();
	assert.match(told, /"type":"activity","data":\{"seq":\d+,"type":"tool_call","data":\{"tool_call_id":"tool-held"/);
	assert.match(told, /"type":"delta","data":\{"seq":\d+,"type":"agent_thought"/);
	assert.match(told, /"type":"preview","data":\{"seq":\d+,"type":"agent_thought"/);
	for (const [hide, socket] of feeds) {
		await socket.waitFor(({ type, data }) => type === 'session_changed' && data.session.max_seq >= seq);
		assertHidden(socket.frames, hide, 'the feed');
		assert.equal(JSON.stringify(socket.frames).includes('"waiting"'), !hide.includes('tools'), `the feed, hide ${hide}`);
	}

	await compareCold(t, server, 's');
	await server.kill9();
	await server.restart();
	const late = await Observer.connect(t, server, 's');
	await late.loadAll();
	await late.waitForEvent('agent_stopped', { after: seq }); // the newest event from now on
	await compareCold(t, server, 's');
	await server.stop();
	await server.restart();
	await compareCold(t, server, 's');
});

/** Every example of an input event in proto/golden that is hidden from somebody, with a secret in each of its texts. */
function goldenInputs() {
	const dir = `${protoDir}golden/input/`;
	return readdirSync(dir).filter((name) => name.endsWith('.json')).map((name) => JSON.parse(readFileSync(dir + name, 'utf8')));
}

test('a producer\'s events of every type are hidden by what they are, whatever else is in them', async (t) => {
	const server = await Server.start(t);
	const post = (events) => server.request('POST', '/api/sessions/p/events?create=1', { body: JSON.stringify(events).replace('"ten"', '0.10'), headers: { 'content-type': 'application/json' } });
	const plant = (type, data, word) => ({ type, data: { ...data, extra: `${word}-extra`, deep: [{ [`${word}-name`]: 1.50 }] }, message_id: `${word}-id` });
	const events = [
		plant('tool_call', { tool_call_id: 'tool-call', title: 'tool-title' }, 'tool'),
		plant('tool_call_update', { tool_call_id: 'tool-call' }, 'tool'),
		plant('plan', { entries: [] }, 'tool'),
		plant('file_read', { path: 'tool-path', size: 1 }, 'tool'),
		plant('file_write', { path: 'tool-path', size: 1, diff: 'tool-diff' }, 'tool'),
		plant('permission_request', { request_id: 'tool-asks', tool_call: {}, options: [{ option_id: 'tool-yes', name: 'tool-yes' }] }, 'tool'),
		plant('permission_resolved', { request_id: 'tool-asks', outcome: 'selected', option_id: 'tool-yes', by: 'tool-by' }, 'tool'),
		plant('x-acp-terminal', { terminal_id: 'tool-terminal', output: 'tool-output' }, 'tool'),
		plant('x-acp-content', { content: { type: 'text', text: 'thought-content' }, thought: 'yes' }, 'thought'),
		plant('x-acp-meta', { of: 'agent_thought_chunk', _meta: { 'thought-key': 1 } }, 'thought'),
		plant('x-acp-thing_nobody_knows', { words: 'tool-thought-words' }, 'tool-thought'),
		plant('x-acp-notification', { method: 'tool-thought-method' }, 'tool-thought'),
		{ type: 'agent_thought_chunk', data: { text: 'thought-chunk' }, message_id: 'thought-id' },
		{ type: 'agent_stopped', data: { reason: 'exit', detail: 'tool-stderr', open: 'ten' } },
		{ type: 'agent_stopped', data: { reason: 'exit', stderr: 'tool-stderr' } },
		{ type: 'agent_stopped', data: { reason: 'protocol', login: [{ name: 'tool-stderr' }] } },
		{ type: 'agent_stopped', data: { reason: 'exit' } },
		{ type: 'x-build', data: { 'open-own': 1e3 } },
		{ type: 'x-acp-content', data: { content: {}, thought: false } },
		{ type: 'x-acp-meta', data: { of: 'agent_message_chunk', _meta: { 'open-key': 1 } } },
		{ type: 'turn_end', data: { stop_reason: 'end_turn' } },
	];
	assert.equal((await post(events)).status, 200);
	await compareCold(t, server, 'p');
	const { body } = await server.request('GET', '/api/sessions/p/events?after_seq=0', { headers: headers(server, ['tools']) });
	assert.deepEqual(body.events.filter(({ type }) => type === 'agent_stopped').map(({ redacted, data }) => [redacted, data]),
		[[true, { reason: 'exit', open: 0.1 }], [true, { reason: 'exit' }], [true, { reason: 'protocol' }], [undefined, { reason: 'exit' }]]);
	const raw = await server.rawRequest('GET', '/api/sessions/p/events?after_seq=0', headers(server, ['tools']));
	assert.match(raw.body, /"open":0\.10\}/, 'numbers stay as they were written');

	// A type of the protocol that nobody thought of here would be shown: this goes red then.
	const known = new Set([...events.map(({ type }) => type), 'agent_message_chunk', 'agent_started', 'run_start', 'run_end', 'session_end', 'session_idle', 'text_complete', 'usage', 'user_prompt']);
	assert.deepEqual(goldenInputs().map(({ type }) => type).filter((type) => !known.has(type)), []);
});

test('a load in the middle of a thought does not tell it, and in the middle of a block tells what is open of it', async (t) => {
	const server = await Server.start(t);
	const post = (events) => server.request('POST', '/api/sessions/m/events?create=1', { json: events });
	await post([{ type: 'agent_message_chunk', data: { text: 'open-first\n\n' } }]);
	for (const deltas of ['text', 'html']) {
		for (const [type, first, hide, isShown] of [
			['agent_thought_chunk', 'thought-grows', ['thoughts'], false],
			['agent_thought_chunk', 'thought-grows', ['tools'], true],
			['agent_message_chunk', '- open-grows', HIDES[2], true],
		]) {
			let page;
			let own;
			do { // until the load is there before a timer has ended the thought
				await post([{ type, data: { text: `${first} ` } }]);
				const plain = await Observer.connect(t, server, 'm', { query: { deltas } });
				const observer = await Observer.connect(t, server, 'm', { query: { deltas }, headers: headers(server, hide) });
				own = await observer.load({ limit: 1 });
				page = await plain.load({ limit: 1 });
				if (page.open && deltas === 'html') {
					assert.ok(page.open.html.includes(first.replace('- ', '')), JSON.stringify(page));
				}
				assertHidden(observer.frames, hide, 'in the middle');
				await plain.close();
				await observer.close();
			} while (!page.open || (isShown && !own.open));
			assert.equal(own.open !== undefined, isShown, `${type}, ${deltas}, hide ${hide}`);
			await post([{ type: 'turn_end', data: {} }]);
		}
	}
});

const CORPUS = fileURLToPath(new URL('../corpus/acp/', import.meta.url));
const isRecording = (name) => name.endsWith('.jsonl');

test('recordings of real agents: what is hidden is every event of its kind, and nothing else differs', async (t) => {
	for (const name of readdirSync(CORPUS).filter(isRecording)) {
		await t.test(name, async (t) => {
			const server = await Server.start(t, { agent: `${replayAgent()} --rate 0 ${join(CORPUS, name)}`, args: ['--limit', 'page_size=20000'] });
			await server.createSession({ id: 'r' });
			const live = await Promise.all(HIDES.map(async (hide) => {
				const observer = await Observer.connect(t, server, 'r', { query: { format: 'both', deltas: 'text' }, headers: headers(server, hide) });
				await observer.load();
				return [hide, observer];
			}));
			const plain = await Observer.connect(t, server, 'r', { query: { format: 'both' } });
			await plain.load();
			await plain.prompt('go');
			await plain.waitUntil(() => {
				const newest = plain.events().findLast(({ type }) => ['turn_end', 'permission_request'].includes(type));
				return newest?.type === 'turn_end' || newest?.type === 'permission_request';
			}, 'the end of a turn, or a question', 60_000);
			const all = [...plain.events()];
			for (const [hide, observer] of live) {
				assertShown((await observer.waitForSeq(all.at(-1).seq)).slice(0, all.length), all, hide, name);
			}
		});
	}
});

test('holdfast token create --hide', async (t) => {
	const server = await Server.start(t);
	await server.request('POST', '/api/sessions/c/events?create=1', { json: [{ type: 'plan', data: { entries: [], words: 'tool-plan' } }] });
	const make = (hide) => runToEnd(['token', 'create', '--role', 'observer', '--session', 'c', '--hide', hide, '--data', server.dataDir]);
	const { stdout } = await make('thoughts,tools');
	const { body } = await server.request('GET', '/api/sessions/c/events', { headers: { authorization: `Bearer ${stdout.trim()}` } });
	assert.deepEqual(body.events.map(({ redacted, data }) => [redacted, data]), [[true, {}]]);
	assert.notEqual((await make('secrets')).code, 0);
});

test('a token that hides something else takes over on a living socket, from there on', async (t) => {
	const server = await Server.start(t);
	const post = (type, data) => server.request('POST', '/api/sessions/n/events?create=1', { json: [{ type, data }] });
	await post('plan', { entries: [] });
	const observer = await Observer.connect(t, server, 'n', { headers: headers(server, []) });
	assert.equal(observer.hello.hide, undefined);
	await observer.load();
	await observer.send('token', { token: headers(server, ['tools']).authorization.slice(7) });
	assert.deepEqual((await observer.waitFor('token_renewed')).data.hide, ['tools']);
	await post('plan', { entries: [], words: 'tool-later' });
	assert.deepEqual((await observer.waitForSeq(2)).map(({ redacted }) => redacted), [undefined, true]);
	assertHidden(observer.frames.slice(2), ['tools'], 'after the renewal');
});

test('one who hides tools is not told whose answer came first, and a setting is refused to its own client alone', async (t) => {
	const agent = `exec ${process.execPath} ${fileURLToPath(new URL('../support/settings_agent.mjs', import.meta.url))}`;
	const server = await Server.start(t, { agent });
	await server.createSession({ id: 'o' });
	const query = { client_id: 'same' };
	const ann = await Observer.connect(t, server, 'o', { query, headers: headers(server, [], 'controller', 'ann') });
	const bob = await Observer.connect(t, server, 'o', { query, headers: headers(server, [], 'controller', 'bob') });
	await bob.load();
	await ann.load();
	await ann.prompt('begin');
	await ann.waitForEvent('turn_end');
	await ann.send('set_mode', { mode_id: 'never' });
	assert.equal((await ann.waitFor('error')).data.code, 'setting_refused');
	await bob.send('keepalive');
	await bob.waitFor('keepalive_ack');
	assert.deepEqual(bob.frames.filter(({ type }) => type === 'error'), []);
});

