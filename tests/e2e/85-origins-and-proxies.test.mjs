// Names, pages of other origins and proxies: what the operator lets in (--allow-host, --allow-origin, --trust-proxy), and nothing beyond.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Server, runToEnd, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';

const anything = () => null;
const NOBODY = { authorization: undefined };

test('a server on loopback is asked for by the names of loopback and those of --allow-host, and by no others', async (t) => {
	const server = await Server.start(t, { args: ['--allow-host', 'holdfast.example.org', '--allow-host', '[2001:db8::1]'] });
	const { port } = new URL(server.url);
	const status = async (host) => (await server.rawRequest('GET', '/api/sessions', { host })).status;
	for (const host of ['holdfast.example.org', 'HOLDFAST.example.org', `holdfast.example.org:${port}`, 'holdfast.example.org:443', '[2001:db8::1]', 'localhost', `127.0.0.1:${port}`, '[::1]']) {
		assert.equal(await status(host), 200, host);
	}
	for (const host of ['example.org', 'x.holdfast.example.org', 'holdfast.example.org.evil', 'holdfast.example.org:x', 'holdfast.example.orgx', '2001:db8::1', '[2001:db8::2]', 'holdfast.example.org:123456']) {
		const { status: got, body } = await server.rawRequest('GET', '/api/sessions', { host });
		assert.ok(got === 403 || got === 400, `${host}: ${got} ${body}`);
	}
});

const APP = 'https://app.example.org', EVIL = 'https://evil.example';

test('a page of an allowed origin uses the API with a token; no other page does, and no page with a cookie', async (t) => {
	const server = await Server.start(t, { args: ['--allow-origin', APP, '--allow-origin', 'capacitor://localhost'] });
	const ask = (method, path, headers, json) => server.request(method, path, { headers: { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty', ...headers }, json });
	const preflight = (headers) => ask('OPTIONS', '/api/sessions', { ...NOBODY, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type', ...headers });
	for (const origin of [APP, 'capacitor://localhost']) {
		const asked = await preflight({ origin });
		assert.equal(asked.status, 204);
		assert.equal(asked.headers.get('access-control-allow-origin'), origin);
		assert.match(asked.headers.get('access-control-allow-headers'), /\bAuthorization\b.*\bContent-Type\b/i);
		assert.match(asked.headers.get('access-control-allow-methods'), /\bPOST\b.*\bDELETE\b/);
		const made = await ask('POST', '/api/sessions', { origin }, { id: `s-${origin.length}` });
		assert.equal(made.status, 201);
		const seen = await ask('GET', '/api/sessions', { origin });
		assert.equal(seen.status, 200);
		for (const { headers } of [asked, made, seen]) {
			assert.equal(headers.get('access-control-allow-origin'), origin);
			assert.match(headers.get('vary'), /(^|, )Origin$/);
			assert.equal(headers.get('access-control-allow-credentials'), null, 'never');
		}
		// A page has to be able to read why it is refused.
		const refused = await ask('GET', '/api/sessions', { ...NOBODY, origin });
		assert.deepEqual([refused.status, refused.headers.get('access-control-allow-origin')], [401, origin]);
	}
	for (const origin of [EVIL, 'null', `${APP}:444`, `${APP}.evil.example`, 'http://app.example.org', `${APP}/`, 'https://APP.example.org', `${APP}, ${APP}`, '*']) {
		for (const { status, headers } of [await preflight({ origin }), await ask('GET', '/api/sessions', { origin }), await ask('POST', '/api/sessions', { origin }, {})]) {
			assert.deepEqual([status, headers.get('access-control-allow-origin')], [403, null], origin);
		}
	}
	// Without an origin a browser's request of another site may still not even be measured.
	assert.equal((await ask('GET', '/api/sessions', {})).status, 403);
	assert.equal((await preflight({ origin: server.url, 'sec-fetch-site': 'same-origin' })).status, 401, 'a page of our own needs no preflight');

	// The login is of this server's page alone: neither made nor used from elsewhere.
	const login = await server.request('POST', '/api/login', { json: { token: server.token }, headers: { ...NOBODY, origin: server.url } });
	const halves = { ...NOBODY, cookie: login.headers.get('set-cookie').split(';')[0], 'holdfast-login': login.body.login };
	assert.equal((await server.request('GET', '/api/sessions', { headers: { ...halves, origin: server.url } })).status, 200);
	assert.equal((await ask('GET', '/api/sessions', { ...halves, origin: APP })).status, 401);
	const made = await ask('POST', '/api/login', { ...NOBODY, origin: APP }, { token: server.token });
	assert.deepEqual([made.status, made.body.error.code, made.headers.get('set-cookie')], [403, 'forbidden_origin', null]);
	for (const [origin, code] of [[APP, 4401], [server.url, null]]) {
		const socket = new TestSocket(t, server.ws('/api/events'), anything, { headers: { ...NOBODY, origin, cookie: halves.cookie } });
		await socket.send('token', { login: halves['holdfast-login'] });
		if (code) {
			assert.equal((await socket.waitClosed()).code, code);
		} else {
			await socket.waitFor('sessions');
		}
	}
});

test('a WebSocket of a page of an allowed origin, by its first frame; without --allow-origin none', async (t) => {
	const server = await Server.start(t, { args: ['--allow-origin', APP] });
	const socket = new TestSocket(t, server.ws('/api/events'), anything, { headers: { ...NOBODY, origin: APP, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'websocket' } });
	await socket.send('token', { token: server.token });
	await socket.waitFor('sessions');
	const evil = new TestSocket(t, server.ws('/api/events'), anything, { headers: { origin: EVIL } });
	assert.equal((await evil.waitRefused()).status, 403);
	const strict = await Server.start(t);
	const { status, headers } = await strict.request('GET', '/api/sessions', { headers: { origin: APP } });
	assert.deepEqual([status, headers.get('access-control-allow-origin'), headers.get('vary')], [403, null, null]);
});

/** Sends `count` wrong tokens, and gives the statuses. */
async function guess(server, count, headers) {
	const statuses = [];
	for (let i = 0; i < count; i++) {
		statuses.push((await server.rawRequest('GET', '/api/sessions', { authorization: 'Bearer x', ...headers })).status);
	}
	return statuses;
}

test('wrong tokens are counted for the client behind a proxy that is trusted, else for who has connected', async (t) => {
	const server = await Server.start(t, { args: ['--trust-proxy', '127.0.0.1', '--trust-proxy', '10.0.0.0/8', '--trust-proxy', '2001:db8:ff::/48', '--limit', 'wrong_tokens=1'] });
	const from = (...value) => guess(server, 1, { 'x-forwarded-for': value.length > 1 ? value : value[0] }).then(([status]) => status);
	for (const [first, again, what] of [
		['192.0.2.1', '192.0.2.1', 'the same address'],
		['192.0.2.2', 'evil, 1.1.1.1,192.0.2.2', 'what is left of it anybody may have written'],
		['192.0.2.3, 10.1.2.3', '192.0.2.3,10.9.9.9 ,\t10.0.0.1', 'other proxies are passed over'],
		['192.0.2.4', '192.0.2.4:1234', 'with a port'],
		['2001:db8:1:2::3', '[2001:db8:1:2:9::4]:443', 'all of a /64'],
		['192.0.2.5', '::ffff:192.0.2.5', 'IPv4 in IPv6'],
		['2001:db8:2::1, 2001:db8:ff:1::1', '2001:db8:2::2', 'a proxy with IPv6'],
	]) {
		assert.equal(await from(first), 401, what);
		assert.equal(await from(again), 429, what);
	}
	assert.equal(await from('1.1.1.2', '192.0.2.6, 10.0.0.1'), 401);
	assert.equal(await from('192.0.2.6'), 429, 'two fields are one list');
	assert.equal(await from('2001:db8:1:3::3'), 401, 'another /64');
	assert.equal(await from('192.0.2.7, 10.0.0.7, unknown'), 401, 'behind what is no address nothing is believed: it is of the proxy');
	for (const nonsense of ['192.0.2.8, 256.1.1.1', '192.0.2.9,', '192.0.2.10, "192.0.2.11"', '192.0.2.12 192.0.2.13', '192.0.2.14, [::1', '192.0.2.15:x', '[192.0.2.16]', `192.0.2.17, ${'1'.repeat(5000)}`]) {
		assert.equal(await from(nonsense), 429, nonsense.slice(0, 40));
	}
	assert.equal(await from('192.0.2.18, 10.0.0.18, unknown'), 429, 'nor is what stands before it');
	assert.equal(await from('192.0.2.20, 10.0.0.20, 10.0.0.21'), 401);
	const plain = await Server.start(t, { args: ['--trust-proxy', '10.0.0.0/8', '--limit', 'wrong_tokens=2'] });
	const statuses = [];
	for (let i = 0; i < 4; i++) {
		statuses.push(...(await guess(plain, 1, { 'x-forwarded-for': `192.0.2.${i}` })));
	}
	assert.deepEqual(statuses, [401, 401, 429, 429], 'from an address that is no proxy');
});

test('behind a trusted proxy with TLS the page has an https origin and a Secure cookie; who is not trusted cannot claim it', async (t) => {
	const name = 'holdfast.example.org';
	const origin = `https://${name}`;
	const trusting = await Server.start(t, { args: ['--allow-host', name, '--trust-proxy', '127.0.0.0/8'] });
	const other = await Server.start(t, { args: ['--allow-host', name, '--trust-proxy', '10.0.0.0/8'] });
	const login = (server, headers) => server.rawRequest('POST', '/api/login', { ...NOBODY, host: name, origin, 'x-forwarded-proto': 'https', 'content-type': 'application/json', ...headers }, JSON.stringify({ token: server.token }));
	const { status, headers } = await login(trusting);
	assert.equal(status, 200);
	const [cookie] = headers['set-cookie'];
	assert.match(cookie, /^holdfast_443=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=\d+; Secure$/);
	assert.match((await login(trusting, { origin: `${origin}:443` })).headers['set-cookie'][0], /Secure$/);
	for (const proto of ['http', 'https, http', 'x', 'https https', ['https', 'https']]) {
		assert.equal((await login(trusting, { 'x-forwarded-proto': proto })).status, 403, String(proto));
	}
	assert.equal((await login(trusting, { 'x-forwarded-proto': undefined })).status, 403);
	assert.equal((await login(trusting, { origin: `http://${name}` })).status, 403, 'the plain page of the same name is another');
	assert.equal((await login(other)).status, 403, 'an address that is no proxy');
	const plain = await login(trusting, { origin: `http://${name}`, 'x-forwarded-proto': 'http' });
	assert.match(plain.headers['set-cookie'][0], /^holdfast_80=(?!.*Secure)/);
});

test('what is no name, origin or proxy is refused', async (t) => {
	const data = scratchDir(t);
	for (const [option, values] of Object.entries({
		'--allow-host': ['', 'https://x', 'x:80', 'X.example', 'a b', '*', '*.example.org', '[::1', '[x]', '[::1]:80', 'x/'],
		'--allow-origin': ['', '**', 'null', 'app.example.org', 'https://', 'https://x/', 'https://x:443', 'http://x:80', 'https://X', 'https://a b', 'https://x:', 'https://x:123456', 'https://x:65536', 'https://x:0', 'https://x:08443', 'https://x?y', '://x', 'https:/x', 'https://u@x'],
		'--trust-proxy': ['', 'x', '10.0.0.0/33', '::/129', '10.0.0.0/', '10.0.0.0/x', '10.0.0/8', '127.0.0.1:80', '10.0.0.0/-1', '/8', 'unix:/x', '10.0.0.0/8/8'],
	})) {
		for (const value of values) {
			const { code, stderr } = await runToEnd(['serve', '--data', data, option, value]);
			assert.equal(code, 2, `${option} ${JSON.stringify(value)}: ${stderr}`);
			assert.match(stderr, new RegExp(`^holdfast: error: ${option}`), value);
		}
	}
	const { code, stderr } = await runToEnd(['serve', '--data', data], { env: { HOLDFAST_ALLOW_ORIGIN: 'https://a.example,**' } });
	assert.equal(code, 2, stderr);
});
