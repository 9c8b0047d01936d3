// The door for chats of the AI SDK: npm ai, unchanged, is the client, over its WebSocket transport and over HTTP. A page that reloads in the middle of an answer
// gets all of it; stop, tools, questions, thoughts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { cancelChat, openChat, textOf, transportOf } from '../support/ai_chat.mjs';
import { markdownOf, servedLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { bearer, claims, makeToken, ownToken, secretOf } from '../support/tokens.mjs';
import { eventually, patience } from '../support/wait.mjs';

const CONTENT_AGENT = `exec ${process.execPath} ${fileURLToPath(new URL('../support/content_agent.mjs', import.meta.url))} image`;
const KINDS = ['websocket', 'http'];

async function start(t, { agent = demoAgent('--rate 400'), ...options } = {}) {
	const server = await Server.start(t, { agent, ...options });
	await server.createSession({ id: 's' });
	return server;
}

const prompts = (events) => events.filter(({ type }) => type === 'user_prompt');
const isReady = (chat) => () => ['ready', 'error'].includes(chat.status);

for (const kind of KINDS) {
	test(`${kind}: a chat asks, and its message is what the log has`, async (t) => {
		const server = await start(t);
		const chat = openChat(t, server, 's', { kind });
		for (const [turn, text] of [[1, 'markdown'], [2, 'list']]) {
			await chat.sendMessage({ text });
			await chat.until(isReady(chat));
			assert.deepEqual(chat.errors, []);
			const events = await servedLog(server);
			assert.equal(prompts(events)[turn - 1].data.message, text);
			assert.equal(chat.text, markdownOf(events, turn));
			assert.equal(chat.messages.length, 2 * turn);
			assert.match(chat.messages.at(-1).id, new RegExp(`^turn-[0-9a-f]{16}-${turn}$`));
			assert.ok(chat.messages.at(-1).parts.filter(({ type }) => type === 'text').every(({ state }) => state === 'done'));
		}
		assert.equal(prompts(await servedLog(server)).length, 2, 'what was said before is not asked again');
	});

	test(`${kind}: a page that reloads in the middle of an answer gets all of it, as often as it does; when the turn is over there is nothing to resume`, async (t) => {
		const server = await start(t, { agent: demoAgent(`--rate ${Math.ceil(200 / patience)}`) });
		const first = openChat(t, server, 's', { kind });
		first.sendMessage({ text: 'markdown list' });
		await first.until(() => first.status === 'streaming' && first.messages.length === 2 && first.text.length > 40);
		const kept = structuredClone(first.messages);
		first.transport_.close?.();
		const seen = [];
		for (let reload = 0; reload < 3; reload++) {
			const messages = reload === 1 ? kept.slice(0, 1) : structuredClone(kept); // an application may have kept a part of the answer, or none
			const chat = openChat(t, server, 's', { kind, messages });
			chat.resumeStream();
			await chat.until(() => chat.status === 'streaming' && chat.text.length > 60);
			if (reload === 2) {
				await chat.until(isReady(chat));
			}
			seen.push(chat);
		}
		for (const chat of seen) {
			await chat.until(isReady(chat));
			assert.deepEqual(chat.errors, []);
			assert.equal(chat.messages.length, 2);
			assert.equal(chat.text, markdownOf(await servedLog(server), 1));
		}
		const late = openChat(t, server, 's', { kind, messages: seen[2].messages });
		await late.resumeStream();
		assert.equal(late.status, 'ready');
		assert.deepEqual(late.messages, seen[2].messages);
		assert.equal(prompts(await servedLog(server)).length, 1);
	});

	test(`${kind}: the server is killed in the middle of an answer, and the chat resumes what there is of it`, async (t) => {
		const server = await start(t, { agent: demoAgent('--rate 100') });
		const first = openChat(t, server, 's', { kind });
		first.sendMessage({ text: 'long 30' });
		await first.until(() => first.messages.length === 2 && first.text.length > 40);
		await server.kill9();
		await first.until(isReady(first));
		await server.restart();
		await eventually(async () => !(await server.request('GET', '/api/sessions/s')).body.is_prompting, 'the turn ends with its agent');
		const after = openChat(t, server, 's', { kind, messages: first.messages.slice(0, 1) });
		await after.resumeStream();
		assert.equal(after.status, 'ready');
		await after.sendMessage({ text: 'list' });
		await after.until(isReady(after));
		assert.deepEqual(after.errors, []);
		assert.equal(after.text, markdownOf(await servedLog(server), 2));
	});

	test(`${kind}: a question ends the message, the answer goes on with it, and so does a page that reloads meanwhile`, async (t) => {
		const server = await start(t);
		for (const approved of [true, false]) {
			const chat = openChat(t, server, 's', { kind });
			await chat.sendMessage({ text: 'permission' });
			await chat.until(() => isReady(chat)() && chat.messages.at(-1).parts.some(({ state }) => state === 'approval-requested'));
			const asked = chat.messages.at(-1).parts.find(({ state }) => state === 'approval-requested');
			assert.equal(asked.type, 'dynamic-tool');
			assert.ok(asked.approval.descriptor.options.length >= 2);

			const reloaded = openChat(t, server, 's', { kind, messages: structuredClone(chat.messages.slice(0, 1)) });
			await reloaded.resumeStream();
			await reloaded.until(isReady(reloaded));
			assert.deepEqual(reloaded.messages.at(-1).parts.find(({ state }) => state === 'approval-requested').approval, asked.approval);

			await reloaded.addToolApprovalResponse({ id: asked.approval.id, approved });
			await reloaded.until(() => reloaded.messages.at(-1).parts.some(({ approval }) => approval?.approved === approved) && isReady(reloaded)());
			const events = await servedLog(server);
			const resolved = events.findLast(({ type }) => type === 'permission_resolved');
			const request = events.findLast(({ type }) => type === 'permission_request');
			assert.equal(request.data.request_id, asked.approval.id);
			const { kind: chosen } = request.data.options.find(({ option_id }) => option_id === resolved.data.option_id);
			assert.match(chosen, approved ? /^allow_/ : /^reject_/);
			await reloaded.until(() => isReady(reloaded)() && reloaded.text === markdownOf(events, events.at(-1).turn), 'the rest of the answer').catch(async (error) => {
				assert.equal(reloaded.text, markdownOf(await servedLog(server), request.turn), error.message);
			});
			assert.deepEqual(reloaded.errors, []);
			assert.equal(reloaded.messages.length, 2, 'one message for one turn');
			const all = await servedLog(server);
			assert.equal(all.at(-1).type, 'turn_end');
			assert.equal(prompts(all).length, approved ? 1 : 2);
		}
	});

	test(`${kind}: a question that is answered elsewhere is no question any more`, async (t) => {
		const server = await start(t);
		const chat = openChat(t, server, 's', { kind });
		await chat.sendMessage({ text: 'permission' });
		await chat.until(() => isReady(chat)() && chat.messages.at(-1).parts.some(({ state }) => state === 'approval-requested'));
		const other = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
		const { data } = (await other.loadAll()).findLast(({ type }) => type === 'permission_request');
		await other.send('permission_answer', { request_id: data.request_id, option_id: data.options.find(({ kind: k }) => k === 'allow_once').option_id });
		await other.waitForEvent('turn_end');
		const { approval } = chat.messages.at(-1).parts.find(({ state }) => state === 'approval-requested');
		await chat.addToolApprovalResponse({ id: approval.id, approved: false }); // too late: the other one's counts
		await chat.until(() => isReady(chat)() && chat.text === markdownOf(other.events(), 1));
		assert.equal(chat.messages.at(-1).parts.find((part) => part.approval?.id === approval.id).approval.approved, true);
		assert.deepEqual(chat.errors, []);
	});

	test(`${kind}: tools and thoughts are parts of the message`, async (t) => {
		const server = await start(t);
		const chat = openChat(t, server, 's', { kind });
		await chat.sendMessage({ text: 'tools thoughts' });
		await chat.until(isReady(chat));
		assert.deepEqual(chat.errors, []);
		const events = await servedLog(server);
		const calls = new Set(events.filter(({ type }) => type === 'tool_call').map(({ data }) => data.tool_call_id));
		const parts = chat.messages.at(-1).parts;
		const tools = parts.filter(({ type }) => type === 'dynamic-tool');
		assert.ok(tools.length > 0);
		assert.deepEqual(new Set(tools.map(({ toolCallId }) => toolCallId)), calls);
		assert.equal(tools.length, calls.size, 'one part for each call');
		const thoughts = events.filter(({ type }) => type === 'agent_thought').map(({ data }) => data.text).join('');
		assert.equal(parts.filter(({ type }) => type === 'reasoning').map(({ text }) => text).join(''), thoughts);
		assert.equal(chat.text, markdownOf(events, 1));
	});
}

test('an answer to a question of a turn that is over is refused, and answers nothing', async (t) => {
	const server = await start(t);
	const chat = openChat(t, server, 's', { approves: false });
	await chat.sendMessage({ text: 'permission' });
	await chat.until(() => isReady(chat)() && chat.messages.at(-1).parts.some(({ state }) => state === 'approval-requested'));
	const kept = structuredClone(chat.messages);
	const observer = await Observer.connect(t, server, 's');
	await observer.loadAll();
	await observer.send('cancel');
	await observer.waitForEvent('turn_end');
	const late = openChat(t, server, 's', { messages: structuredClone(kept) });
	const { approval } = kept.at(-1).parts.find(({ state }) => state === 'approval-requested');
	await late.addToolApprovalResponse({ id: approval.id, approved: true }); // it was cancelled: the chat learns that
	await late.until(() => isReady(late)() && late.messages.at(-1).parts.some(({ state }) => state === 'output-denied'));
	await observer.prompt('list');
	await observer.waitForEvent((event) => event.type === 'turn_end' && event.turn === 2);
	const later = openChat(t, server, 's', { messages: structuredClone(kept) });
	await later.addToolApprovalResponse({ id: approval.id, approved: true });
	await later.until(() => later.status === 'error');
	assert.match(later.error.message, /is over/);
});

for (const kind of KINDS) {
	test(`${kind}: stop ends the answer and not the turn, which can be resumed; cancel ends the turn, for a chat that watches too`, async (t) => {
		const server = await start(t, { agent: demoAgent('--rate 100') });
		const [chat, watch] = [openChat(t, server, 's', { kind }), openChat(t, server, 's', { kind })];
		const observer = await Observer.connect(t, server, 's');
		await observer.loadAll();
		chat.sendMessage({ text: 'list' });
		await chat.until(() => chat.messages.length === 2 && chat.text.length > 20);
		watch.resumeStream();
		await watch.until(() => watch.status === 'streaming');
		await Promise.all([chat.stop(), watch.stop()]);
		assert.equal(chat.status, 'ready');
		const again = openChat(t, server, 's', { kind, messages: structuredClone(chat.messages.slice(0, 1)) });
		again.resumeStream();
		await again.until(() => again.messages.length === 2 && isReady(again)());
		assert.equal((await observer.waitForEvent('turn_end')).data.stop_reason, 'end_turn');
		assert.equal(again.text, markdownOf(await servedLog(server), 1));

		assert.equal(await cancelChat(t, server, 's', again.messages), false, 'it is over');
		assert.equal(await cancelChat(t, server, 's'), false, 'no turn is running');
		again.sendMessage({ text: 'long 200' });
		await again.until(() => again.messages.length === 4 && again.text.length > 20);
		assert.equal(await cancelChat(t, server, 's', again.messages.slice(0, 2)), false, 'another turn');
		await assert.rejects(cancelChat(t, server, 's', again.messages, { headers: bearer(ownToken(server, 'observer', ['s'])) }), /role/);
		assert.equal(await cancelChat(t, server, 's', again.messages), true);
		const { data } = await observer.waitForEvent((event) => event.type === 'turn_end' && event.turn === 2);
		assert.equal(data.stop_reason, 'cancelled');
		await again.until(isReady(again));
		again.sendMessage({ text: 'long 200' });
		await again.until(() => again.status === 'streaming');
		assert.equal(await cancelChat(t, server, 's'), true, 'whatever is running');
		await again.until(isReady(again));
		await assert.rejects(cancelChat(t, server, 's', [{ id: 'x', role: 'assistant', parts: [] }]), /turn-EPOCH-NUMBER/);
	});
}

test('a message that waits for another turn is answered when its own comes; cancelled before, or removed, it is not asked', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 100') });
	const [busy, waits, stops, removed] = [0, 1, 2, 3].map(() => openChat(t, server, 's'));
	busy.sendMessage({ text: 'markdown list' });
	await busy.until(() => busy.messages.length === 2);
	waits.sendMessage({ text: 'list' });
	stops.sendMessage({ text: 'never one' });
	removed.sendMessage({ text: 'never two' });
	const observer = await Observer.connect(t, server, 's');
	await observer.loadAll();
	const { data: { queue } } = await observer.waitFor((f) => f.type === 'state' && f.data.queue_length === 3);
	await stops.stop();
	assert.equal(await cancelChat(t, server, 's', stops.messages), true);
	await observer.waitFor((f) => f.type === 'state' && f.data.queue_length === 2);
	await observer.send('list_prompts');
	const { data: { prompts: waiting } } = await observer.waitFor('prompts');
	await observer.send('remove_prompt', { prompt_id: waiting.find(({ message }) => message === 'never two').prompt_id });
	await removed.until(() => removed.status === 'error');
	assert.match(removed.error.message, /taken out of the queue/);
	await waits.until(() => waits.status === 'ready' && waits.messages.length === 2);
	const events = await servedLog(server);
	assert.deepEqual(prompts(events).map(({ data }) => data.message), ['markdown list', 'list']);
	assert.equal(waits.text, markdownOf(events, 2));
	assert.ok(queue.length === 3);
});

test('sent twice a message is asked once; to be answered again it is asked again', async (t) => {
	const server = await start(t);
	const chat = openChat(t, server, 's');
	await chat.sendMessage({ text: 'list' });
	await chat.until(isReady(chat));
	const again = openChat(t, server, 's', { messages: chat.messages.slice(0, 1) });
	await again.sendMessage(undefined); // as after a reload between the request and its answer
	await again.until(() => again.status === 'ready' && again.messages.length === 2);
	assert.deepEqual(again.messages.at(-1).id, chat.messages.at(-1).id);
	assert.equal(prompts(await servedLog(server)).length, 1);
	await again.regenerate();
	await again.until(() => again.status === 'ready' && again.messages.length === 2);
	assert.equal(prompts(await servedLog(server)).length, 2);
	assert.notEqual(again.messages.at(-1).id, chat.messages.at(-1).id);
	assert.deepEqual(again.errors, []);
});

test('a turn of a producer can be resumed, too', async (t) => {
	const server = await start(t, { agent: null });
	await post(server, 's', [input.text('Hello, '), input.thought('hm')]);
	for (const kind of KINDS) {
		const chat = openChat(t, server, 's', { kind });
		chat.resumeStream();
		await chat.until(() => chat.messages.length === 1 && chat.text === 'Hello, ');
		await chat.stop();
	}
	const chat = openChat(t, server, 's');
	chat.resumeStream();
	await chat.until(() => chat.messages.length === 1);
	await post(server, 's', [input.text('world.'), input.end()]);
	await chat.until(isReady(chat));
	assert.equal(chat.text, 'Hello, world.');
	await chat.sendMessage({ text: 'anybody?' });
	assert.equal(chat.status, 'error');
	assert.match(chat.error.message, /agent/);
});

test('rights: who may only watch resumes and asks nothing; no token, nothing; a hidden thought stays hidden', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 200') });
	const as = (claim) => bearer(makeToken(claim, secretOf(server)));
	for (const kind of KINDS) {
		for (const role of ['observer', 'producer']) {
			const chat = openChat(t, server, 's', { kind, headers: bearer(ownToken(server, role, ['s'])) });
			await chat.sendMessage({ text: 'list' });
			assert.equal(chat.status, 'error', role);
			assert.match(chat.error.message, /role/);
		}
		for (const headers of [{}, bearer('x'), bearer(ownToken(server, 'admin', ['other']))]) {
			const chat = openChat(t, server, 's', { kind, headers });
			await chat.sendMessage({ text: 'list' });
			assert.equal(chat.status, 'error');
		}
	}
	assert.deepEqual(prompts(await servedLog(server)), []);
	const asker = openChat(t, server, 's', { headers: bearer(ownToken(server, 'controller', ['s'])) });
	asker.sendMessage({ text: 'thoughts tools list' });
	await asker.until(() => asker.messages.length === 2);
	const { holdfast, ...rest } = claims('observer', ['s']);
	const watch = openChat(t, server, 's', { headers: as({ ...rest, holdfast: { ...holdfast, hide: ['thoughts', 'tools'] } }) });
	watch.resumeStream();
	await watch.until(() => watch.status === 'streaming');
	await watch.stop(); // it may not stop the turn
	const again = openChat(t, server, 's', { headers: as({ ...rest, holdfast: { ...holdfast, hide: ['thoughts', 'tools'] } }) });
	again.resumeStream();
	await again.until(() => again.messages.length === 1 && isReady(again)());
	await asker.until(isReady(asker));
	assert.deepEqual(again.messages[0].parts.filter(({ type }) => ['reasoning', 'dynamic-tool'].includes(type)), []);
	assert.equal(again.text, asker.text);
	assert.equal((await servedLog(server)).at(-1).data.stop_reason, 'end_turn');
});

test('a token that is revoked ends the answer', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 50') });
	for (const kind of KINDS) {
		const jti = `gone-${kind}`;
		const chat = openChat(t, server, 's', { kind, headers: bearer(makeToken({ ...claims('controller', ['s']), jti }, secretOf(server))) });
		chat.sendMessage({ text: 'long 100' });
		await chat.until(() => chat.messages.length === 2);
		assert.equal((await server.request('POST', '/api/tokens/revoke', { json: { jti } })).status, 204);
		await chat.until(() => chat.status === 'error');
		assert.match(chat.error.message, /revoked/);
		const observer = await Observer.connect(t, server, 's');
		await observer.loadAll();
		await observer.send('cancel');
		await observer.waitForEvent('turn_end');
	}
});

test('files: an uploaded image is part of the prompt by its address; one in the message itself is refused with what to do', async (t) => {
	const server = await start(t, { agent: CONTENT_AGENT });
	const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
	const { body: { blob } } = await server.request('POST', '/api/sessions/s/blobs', { body: png, headers: { 'content-type': 'image/png' } });
	for (const kind of KINDS) {
		const chat = openChat(t, server, 's', { kind });
		await chat.sendMessage({ text: `look at ${kind}`, files: [{ type: 'file', mediaType: 'image/png', filename: 'dot.png', url: `/api/sessions/s/blobs/${blob}` }] });
		await chat.until(isReady(chat));
		assert.deepEqual(chat.errors, []);
		const { data } = prompts(await servedLog(server)).at(-1);
		assert.deepEqual(data.content, [{ type: 'image', blob, name: 'dot.png', mime_type: 'image/png', size: png.length }]);
		const inline = openChat(t, server, 's', { kind });
		await inline.sendMessage({ text: 'look', files: [{ type: 'file', mediaType: 'image/png', url: `data:image/png;base64,${png.toString('base64')}` }] });
		assert.match(inline.error.message, /upload the file first/);
	}
});

test('two chats and other observers see the same turn', async (t) => {
	const server = await start(t, { agent: demoAgent('--rate 100') });
	const chats = KINDS.map((kind) => openChat(t, server, 's', { kind }));
	chats[0].sendMessage({ text: 'markdown' });
	await chats[0].until(() => chats[0].messages.length === 2);
	chats[1].resumeStream();
	await Promise.all(chats.map((chat) => chat.until(() => chat.messages.length > 0 && isReady(chat)())));
	assert.equal(textOf(chats[0].messages.at(-1)), textOf(chats[1].messages.at(-1)));
	assert.ok(transportOf(server, 's', 'http'));
});

/** Speaks the protocol by hand; gives all frames that came until the socket has answered a last, good request. */
async function say(t, server, frames, { close = false } = {}) {
	const socket = new TestSocket(t, server.ws('/api/ai/s'), () => null);
	for (const frame of frames) {
		await socket.sendRaw(typeof frame === 'string' ? frame : JSON.stringify(frame)).catch(() => {});
	}
	if (close) {
		await socket.waitClosed();
		return socket;
	}
	await socket.sendRaw(JSON.stringify({ type: 'resume', requestId: 'last', id: 'c', headers: {}, body: {} }));
	await socket.waitFor((frame) => frame.requestId === 'last');
	await socket.close();
	return socket;
}

const user = (parts, more = {}) => ({ messages: [{ id: 'm', role: 'user', parts, ...more }] });
const send = (body, requestId = 'r') => ({ type: 'send', requestId, id: 'c', trigger: 'submit-message', headers: {}, body: {}, ...body });

test('hostile requests are refused, each with words, and the socket stays; what has no requestId ends it', async (t) => {
	const server = await start(t);
	const nested = (levels) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
	const bad = [
		{}, { messages: [] }, { messages: 'x' }, { messages: [null] }, { messages: [{}] }, { messages: [{ role: 'user' }] }, { messages: [{ role: 'user', parts: 'x' }] },
		user([]), user([{}]), user([{ type: 'text' }]), user([{ type: 'text', text: 7 }]), user([{ type: 'text', text: '' }]), user([{ type: 'tool-x' }]), user([null]), user([[]]),
		user([{ type: 'text', text: 'x' }], { role: 'system' }), user([{ type: 'text', text: 'x' }], { role: 'assistant' }), user([{ type: 'text', text: 'x'.repeat(600_000) }]),
		user([{ type: 'file', mediaType: 'image/png', url: 'http://elsewhere.example/x.png' }]), user([{ type: 'file', url: `/blobs/${'0'.repeat(64)}` }]),
		user([{ type: 'file', mediaType: 'image/png', url: `/api/sessions/s/blobs/${'0'.repeat(64)}` }]), user([{ type: 'file', mediaType: 'image/png', url: `/blobs/${'g'.repeat(64)}` }]),
		user([{ type: 'file', mediaType: 'image/png', filename: 'x'.repeat(5000), url: `/blobs/${'0'.repeat(64)}` }]), user(Array(30).fill({ type: 'file', mediaType: 'image/png', url: `/blobs/${'0'.repeat(64)}` })),
		{ messages: [{ role: 'assistant', parts: [{ type: 'dynamic-tool', state: 'approval-responded', approval: { id: 'nobody', approved: true } }] }] },
		{ messages: [{ role: 'assistant', parts: [{ state: 'approval-responded', approval: { id: 7, approved: true } }] }] },
		{ messages: [{ role: 'assistant', parts: [{ state: 'approval-responded', approval: { id: 'x', approved: 'yes' } }] }] },
	];
	const socket = await say(t, server, bad.map((body, i) => send(body, `r${i}`)));
	const errors = socket.frames.filter(({ requestId }) => requestId !== 'last');
	assert.deepEqual(errors.filter(({ type }) => type !== 'error'), []);
	assert.deepEqual(errors.map(({ requestId }) => requestId).sort(), bad.map((_, i) => `r${i}`).sort());
	assert.ok(errors.every(({ errorText }) => typeof errorText === 'string' && errorText.length > 5));
	for (const body of bad) {
		const { status, headers, body: text } = await server.rawRequest('POST', '/api/ai/s', { 'content-type': 'application/json' }, JSON.stringify(body));
		const isStream = headers['content-type'] === 'text/event-stream';
		assert.ok(isStream ? /^data: {"type":"error","errorText":"[^"]/m.test(text) && text.endsWith('data: [DONE]\n\n') : [400, 413].includes(status), `${status} ${text}`);
	}
	for (const frame of ['', '{', '[]', '7', 'null', '{"type":"send"}', '{"type":"send","requestId":""}', '{"type":"send","requestId":7}', JSON.stringify(send({}, 'x'.repeat(257))), nested(70), `{"requestId":"a","requestId":"b"}`]) {
		const ended = await say(t, server, [frame], { close: true });
		assert.deepEqual([ended.closed.code, ended.frames], [1008, []], frame.slice(0, 40));
	}
	const odd = await say(t, server, [{ type: 'other', requestId: 'o' }, { type: 'abort', requestId: 'nothing' }, { requestId: 'p' }]);
	assert.deepEqual(odd.frames.filter(({ requestId }) => requestId !== 'last').map(({ type, requestId }) => [type, requestId]), [['error', 'o'], ['error', 'p']]);
	for (const [method, path, status] of [['GET', '/api/ai/s', 426], ['PUT', '/api/ai/s', 405], ['POST', '/api/ai/s/stream', 405], ['GET', '/api/ai/s/a/b/stream', 404], ['GET', '/api/ai/none/stream', 404], ['GET', '/api/ai/s/streams', 404], ['GET', '/api/ai//stream', 404], ['GET', '/api/ai/s/stream?x=1', 400], ['GET', '/api/ai/s/stream', 204], ['GET', '/api/ai/s/a/stream', 204]]) {
		assert.equal((await server.rawRequest(method, path, {})).status, status, `${method} ${path}`);
	}
	assert.equal((await server.rawRequest('POST', '/api/ai/s', {}, '{"messages":')).status, 400);
	assert.deepEqual(prompts(await servedLog(server)), []);
});

test('a connection has at most eight answers at once, and an id is used once', async (t) => {
	const server = await start(t, { agent: null });
	await post(server, 's', input.text('Once '));
	const resume = (requestId) => ({ type: 'resume', requestId, id: 'c', headers: {}, body: {} });
	const socket = new TestSocket(t, server.ws('/api/ai/s'), () => null);
	for (const id of ['a', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']) {
		await socket.sendRaw(JSON.stringify(resume(id)));
	}
	await socket.waitFor((frame) => frame.requestId === 'i');
	assert.deepEqual(socket.frames.filter(({ type }) => type === 'error').map(({ requestId }) => requestId), ['a', 'i']);
	await post(server, 's', [input.text('more.'), input.end()]);
	await socket.waitUntil(() => socket.frames.filter(({ type }) => type === 'end').length === 8, 'all ends');
	for (const id of ['b', 'h']) {
		const own = socket.frames.filter(({ requestId }) => requestId === id);
		assert.deepEqual(own.filter(({ type }) => type === 'chunk').map(({ sequence }) => sequence), own.filter(({ type }) => type === 'chunk').map((_, i) => i));
		assert.equal(own.filter(({ chunk }) => chunk?.type === 'text-delta').map(({ chunk }) => chunk.delta).join(''), 'Once more.');
	}
});
