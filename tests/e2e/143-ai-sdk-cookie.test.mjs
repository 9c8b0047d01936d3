// --ai-sdk-cookie: a login's cookie alone opens the door of the AI SDK, and nothing else does, nor without the option.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openChat } from '../support/ai_chat.mjs';
import { Server, demoAgent } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';

async function logIn(server, { token = server.token, ...more } = {}) {
	const { status, headers, body } = await server.request('POST', '/api/login', { json: { token, ...more }, headers: { origin: server.url, authorization: undefined } });
	assert.equal(status, 200);
	return { cookie: headers.get('set-cookie').split(';')[0], half: body.login };
}

async function start(t, args) {
	const server = await Server.start(t, { agent: demoAgent('--rate 400'), args });
	await server.createSession({ id: 's' });
	return server;
}

const statusOf = async (server, path, headers) => (await server.request('GET', path, { headers: { authorization: undefined, ...headers } })).status;
const ask = async (server, headers) => (await server.request('POST', '/api/ai/s', {
	headers: { authorization: undefined, ...headers },
	json: { messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'list' }] }] },
})).status;

for (const kind of ['websocket', 'http']) {
	test(`${kind}: with the option a chat of the page's own origin needs its cookie only; without it, that opens nothing`, async (t) => {
		for (const args of [['--ai-sdk-cookie'], []]) {
			const server = await start(t, args);
			const { cookie } = await logIn(server);
			const chat = openChat(t, server, 's', { kind, headers: { cookie, origin: server.url } });
			chat.sendMessage({ text: 'list' });
			await chat.until(() => (args.length ? chat.status === 'ready' && chat.messages.length === 2 : chat.status === 'error'));
			const { body } = await server.request('GET', '/api/sessions/s/events?format=markdown');
			assert.equal(body.events.filter(({ type }) => type === 'user_prompt').length, args.length);
			if (args.length) {
				assert.equal(chat.text, body.events.filter(({ type }) => type === 'agent_message').map(({ data }) => data.markdown).join(''));
			}
		}
	});
}

test('the cookie opens no other door, and not for other origins, of share links, twice, or after its end', async (t) => {
	const server = await start(t, ['--ai-sdk-cookie']);
	const { cookie, half } = await logIn(server);
	assert.equal(await statusOf(server, '/api/ai/s/stream', { cookie }), 204);
	for (const path of ['/api/sessions', '/api/sessions/s', '/api/sessions/s/events', '/ds/sessions/s', '/metrics', '/api/ai', '/api/aix/s']) {
		assert.equal(await statusOf(server, path, { cookie }), 401, path);
	}
	assert.equal(await statusOf(server, '/api/ai/s/stream', {}), 401);
	assert.equal(await statusOf(server, '/api/ai/s/stream', { cookie: `${cookie}; ${cookie}` }), 401, 'two cookies');
	assert.equal(await statusOf(server, '/api/ai/s/stream', { cookie: `${cookie.slice(0, -1)}${cookie.endsWith('A') ? 'B' : 'A'}` }), 401);
	const { port } = new URL(server.url);
	for (const headers of [{ origin: `http://127.0.0.1:${Number(port) ^ 1}` }, { 'sec-fetch-site': 'same-site' }, { 'sec-fetch-site': 'cross-site' }]) {
		assert.equal(await statusOf(server, '/api/ai/s/stream', { cookie, ...headers }), 403, JSON.stringify(headers));
		assert.equal(await ask(server, { cookie, ...headers }), 403);
	}
	const share = await logIn(server, { token: ownToken(server, 'observer', ['s']), share: true });
	assert.equal(await statusOf(server, '/api/ai/s/stream', { cookie: share.cookie }), 401);
	const observer = await logIn(server, { token: ownToken(server, 'observer', ['s']) });
	assert.equal(await ask(server, { cookie: observer.cookie, origin: server.url }), 403, 'the rights are those of the login');
	assert.equal((await server.request('DELETE', '/api/login', { headers: { authorization: undefined, cookie, 'holdfast-login': half, origin: server.url } })).status, 204);
	assert.equal(await statusOf(server, '/api/ai/s/stream', { cookie }), 401);
});
