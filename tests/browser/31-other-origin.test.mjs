// A page of an application on another origin uses the client library with a token of its own (--allow-origin); the same page at
// an origin that is not allowed does not.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { ownToken } from '../support/tokens.mjs';
import { defer } from '../support/wait.mjs';
import { openPage, startServer } from './page.mjs';

/** An empty page at any name; gives its port. */
async function servePage(t) {
	const server = http.createServer((request, response) => response.setHeader('content-type', 'text/html').end('<!doctype html><title>app</title>')).listen(0, '127.0.0.1');
	await once(server, 'listening');
	defer(t, () => server.close());
	return server.address().port;
}

/** What the application does in its page: loads the library from the server, makes a session, watches it and asks for more. */
async function use({ base, token }) {
	const { HoldfastClient, createSession, listSessions } = await import(`${base}/client/holdfast-client.js`);
	const server = { base, getToken: async () => token };
	const { id } = await createSession({ id: 'app-1', title: 'made elsewhere' }, server);
	const client = new HoldfastClient({ ...server, sessionId: id, format: 'markdown' }).connect();
	client.prompt('list');
	const types = [];
	for await (const event of client) {
		types.push(event.type);
		if (event.type === 'turn_end') {
			client.close();
		}
	}
	const list = await listSessions(server);
	return { types, ids: (list.sessions ?? list).map((session) => session.id), kept: Object.keys(localStorage), cookies: document.cookie };
}

test('an application on another origin, with getToken()', async (t) => {
	const port = await servePage(t);
	const server = await startServer(t, { args: ['--allow-origin', `http://app.test:${port}`] });
	await server.createSession({ id: 'other-1' });
	await post(server, 'other-1', [input.text('for others\n\n'), input.end()]);
	const token = ownToken(server, 'controller', ['app-*']);
	// What is refused on purpose below.
	const mayReport = (text) => /status of 403|has been blocked by CORS policy.*Credentials|ERR_FAILED/.test(text);
	const page = await openPage(t, `http://app.test:${port}/`, { login: false, mayReport });
	const seen = await page.evaluate(use, { base: server.url, token });
	assert.ok(seen.types.includes('user_prompt') && seen.types.includes('agent_message'), seen.types.join(' '));
	assert.deepEqual(seen.ids, ['app-1']);
	assert.deepEqual([seen.kept, seen.cookies], [[], '']);

	// The login is of the server's own page only.
	const refused = await page.evaluate(async ([base, text]) => {
		const { status } = await fetch(`${base}/api/login`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ token: text }), credentials: 'omit' });
		const withCookies = await fetch(`${base}/api/sessions`, { credentials: 'include', headers: { authorization: `Bearer ${text}` } }).then((answer) => answer.status, (error) => error.name);
		return [status, withCookies];
	}, [server.url, token]).catch((error) => String(error));
	assert.deepEqual(refused, [403, 'TypeError'], 'no login, and nothing with cookies');
});

test('an origin that is not allowed gets nothing, not even with a right token', async (t) => {
	const port = await servePage(t);
	const server = await startServer(t, { args: ['--allow-origin', `http://app.test:${port}`] });
	const token = ownToken(server, 'admin', ['*']);
	const page = await openPage(t, `http://evil.test:${port}/`, { login: false, mayReport: () => true });
	const seen = await page.evaluate(async ([base, text]) => {
		const name = (promise) => promise.then(() => 'done', (error) => error.name);
		const socket = (path) => new Promise((resolve) => {
			const made = new WebSocket(base.replace('http', 'ws') + path, ['holdfast.v1']);
			made.onopen = () => resolve('open');
			made.onerror = () => resolve('error');
		});
		return [
			await name(import(`${base}/client/holdfast-client.js`)),
			await name(fetch(`${base}/api/sessions`, { headers: { authorization: `Bearer ${text}` } })),
			await name(fetch(`${base}/api/sessions`, { method: 'POST', headers: { authorization: `Bearer ${text}`, 'content-type': 'application/json' }, body: '{"id":"evil"}' })),
			await socket('/api/events'),
		];
	}, [server.url, token]);
	assert.deepEqual(seen, ['TypeError', 'TypeError', 'TypeError', 'error']);
	assert.equal((await server.request('GET', '/api/sessions/evil')).status, 404);
});
