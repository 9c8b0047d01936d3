// A page of somebody else, in the browser of somebody who is logged in: it can neither read, nor write, nor make the server
// work, nor see whether there is a server at all. Real requests of a real browser, with tokens and with --auth off.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, createServer as createRelay } from 'node:net';
import { test } from 'node:test';
import { authOf } from '../support/auth.mjs';
import { readLog } from '../support/log.mjs';
import { partOf } from '../support/part.mjs';
import { input, post } from '../support/producer.mjs';
import { ownToken } from '../support/tokens.mjs';
import { defer, within } from '../support/wait.mjs';
import { attack } from './attacks.mjs';
import { browser, byTestId, loginLink, sessionUrl, startServer, waitForSeq, waitForStatus } from './page.mjs';

const SERVERS = { 'with tokens': {}, 'with --auth off': { auth: false } };

/** A site of the attacker's: its pages do what the test says, and it keeps the cookies that it gets. */
async function startSite(t, address = '127.0.0.1') {
	const cookies = [];
	const site = createServer((request, response) => {
		cookies.push(request.headers.cookie);
		response.writeHead(200, { 'content-type': 'text/html', ...site.headers });
		response.end('<!doctype html><title>a nice page</title><body>');
	});
	site.headers = {};
	site.listen(0, address);
	await once(site, 'listening');
	defer(t, () => {
		site.closeAllConnections();
		site.close();
	});
	return { site, cookies, port: site.address().port };
}

/**
 * The name rebound.test at a port: first it leads to the attacker's page, then to the server at the same port. (The browser
 * knows one address for the name: connections are passed on from it, byte for byte.)
 */
async function startRebound(t, port) {
	const page = '<!doctype html><title>a nice page</title><body>';
	const name = { leadsToServer: false };
	const sockets = new Set();
	const relay = createRelay((socket) => {
		sockets.add(socket);
		socket.on('error', () => socket.destroy());
		if (!name.leadsToServer) {
			socket.once('data', () => socket.end(
				`HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: ${page.length}\r\n\r\n${page}`));
			return;
		}
		const server = connect(Number(port), '127.0.0.1');
		sockets.add(server);
		server.on('error', () => socket.destroy());
		socket.pipe(server).pipe(socket);
	});
	relay.listen(Number(port), '127.0.0.3');
	await once(relay, 'listening');
	defer(t, () => {
		sockets.forEach((socket) => socket.destroy());
		relay.close();
	});
	return name;
}

/** A port at which nobody listens. */
async function closedPort() {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address();
	server.close();
	await once(server, 'close');
	return port;
}

/** The server, a session, and a browser in which somebody watches it, logged in. */
async function victim(t, options) {
	const server = await startServer(t, options);
	await server.createSession({ id: 'secret', title: 'Only for those who may see it' });
	await post(server, 'secret', [input.text('Only for those who may see it.\n\n'), input.end()]);
	const context = await (await browser()).newContext();
	defer(t, () => context.close());
	const page = await context.newPage();
	const url = sessionUrl(server.url, 'secret');
	await page.goto(server.token ? loginLink(url, server.token) : url);
	await waitForStatus(page, 'live');
	await waitForSeq(page, 1);
	return { server, context, page };
}

/** The statuses of all answers that the browser gets from `url` for this page; the page itself may see none of them. */
async function watchAnswers(page, url) {
	const statuses = [];
	const requests = new Map();
	const client = await page.context().newCDPSession(page);
	await client.send('Network.enable');
	client.on('Network.requestWillBeSentExtraInfo', ({ requestId, headers }) => requests.set(requestId, headers.Host ?? headers.host));
	client.on('Network.responseReceivedExtraInfo', ({ requestId, statusCode }) => {
		if (requests.get(requestId) === new URL(url).host) {
			statuses.push(statusCode);
		}
	});
	return statuses;
}

/** All that an attack could have changed. */
async function stateOf({ server, context }) {
	const { body } = await server.request('GET', '/api/sessions');
	const cookies = (await context.cookies()).filter(({ name }) => name.startsWith('holdfast_'));
	return { sessions: body, log: readLog(server, 'secret'), cookies };
}

const READS = ['/', '/app.js', '/healthz', '/metrics', '/api/login', '/api/sessions', '/api/sessions/secret',
	'/api/sessions/secret/events?after_seq=0', '/api/sessions/secret/queue'];
const SOCKETS = ['/api/events', '/api/sessions/secret/ws', '/api/sessions/secret/produce'];
const POSTS = [
	{ path: '/api/sessions', body: { id: 'theirs' } },
	{ path: '/api/sessions/secret', body: {} },
	{ path: '/api/sessions/secret/events', body: [{ type: 'agent_message_chunk', data: { text: 'Theirs.\n\n' } }] },
	{ path: '/api/login', body: { token: 'x' } },
];
const what = (base) => ({ base, paths: READS, sockets: SOCKETS, posts: POSTS });

/** What an attack saw, without the address that it went to. */
function outcomes(seen, base) {
	return JSON.parse(JSON.stringify(seen).replaceAll(base, 'BASE'));
}

const SITES = { 'of another site': 'evil.test', 'of another port': '127.0.0.1' };
const PAIRS = Object.entries(SERVERS).flatMap((server) => Object.entries(SITES).map((site) => [...server, ...site]));

for (const [name, options, where, host] of partOf(PAIRS)) {
	test(`${name}: a page ${where} sees no server, and changes nothing`, async (t) => {
		const v = await victim(t, options);
		const { port } = await startSite(t);
		const before = await stateOf(v);
		const page = await v.context.newPage();
		await page.goto(`http://${host}:${port}/`);
		const statuses = await watchAnswers(page, v.server.url);
		const nowhere = `http://127.0.0.1:${await closedPort()}`;
		const [wanted, seen] = [await page.evaluate(attack, what(nowhere)), await page.evaluate(attack, what(v.server.url))];
		assert.ok(Object.keys(seen).length > 200, 'attacks were made');
		assert.deepEqual(outcomes(seen, v.server.url), outcomes(wanted, nowhere));
		assert.ok(statuses.length > 150, `${statuses.length} answers`);
		assert.deepEqual([...new Set(statuses)], [403], 'the server did no work for them');
		assert.deepEqual(await stateOf(v), before);
		// Their own page goes on.
		await post(v.server, 'secret', [input.text('More.\n\n'), input.end()]);
		await waitForSeq(v.page, before.log.at(-1).seq + 1);
	});
}

for (const [name, options] of Object.entries(SERVERS)) {
	test(`${name}: a name that is pointed at the server reads and does nothing`, async (t) => {
		const v = await victim(t, options);
		const before = await stateOf(v);
		const { port } = new URL(v.server.url);
		const base = `http://rebound.test:${port}`;
		const name = await startRebound(t, port);
		const page = await v.context.newPage();
		await page.goto(`${base}/nice.html`);
		name.leadsToServer = true;
		const seen = await page.evaluate(attack, what(base));
		const answers = Object.entries(seen).filter(([attempt]) => /^(fetch|post|put|delete)/.test(attempt));
		assert.ok(answers.length > 40, 'they reached the server');
		for (const [attempt, answer] of answers) {
			assert.match(answer, /^basic 403 \{"error":\{"code":"forbidden_host"/, attempt);
		}
		for (const [attempt, answer] of Object.entries(seen).filter(([attempt]) => /^(socket|event source)/.test(attempt))) {
			assert.match(answer, /^(closed 1006 |error)$/, attempt);
		}
		assert.ok(!JSON.stringify(seen).includes('Only for those'), 'nothing of the session');
		assert.deepEqual(await stateOf(v), before);
	});

	test(`${name}: the page is in nobody's frame, and nobody holds its window`, async (t) => {
		const v = await victim(t, options);
		const { port } = await startSite(t);
		for (const host of ['evil.test', '127.0.0.1']) {
			const page = await v.context.newPage();
			await page.goto(`http://${host}:${port}/`);
			const framed = page.waitForEvent('frameattached');
			const shown = sessionUrl(v.server.url, 'secret');
			await page.evaluate((url) => {
				const frame = document.createElement('iframe');
				frame.src = url;
				document.body.append(frame);
				return new Promise((done) => (frame.onload = done));
			}, shown);
			assert.notEqual((await framed).url(), shown, 'the browser shows nothing in the frame');

			// A link to the page is allowed. Its window is out of reach from then on.
			const [popup] = await Promise.all([
				page.waitForEvent('popup'),
				page.evaluate((url) => void (window.theirs = window.open(url)), shown),
			]);
			await popup.waitForLoadState();
			assert.equal(await popup.evaluate(() => window.opener), null);
			await page.waitForFunction(() => window.theirs.closed); // so it looks to the opener: it is another group of windows
			assert.equal(popup.isClosed(), false);
		}
	});
}

test("with --auth off and streams of every origin: a stream that is a page with a form cannot prompt", async (t) => {
	const v = await victim(t, { auth: false, args: ['--allow-origin', '*'] });
	const { port } = await startSite(t);
	const before = await stateOf(v);
	const page = await v.context.newPage();
	await page.goto(`http://evil.test:${port}/`);
	const prompt = JSON.stringify({ id: 'c', trigger: 'submit-message', messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'Theirs.' }] }], more: '' });
	const form = (action, text) => `<form method=post enctype=text/plain action=${action}><input type=hidden name='${text.slice(0, -2)}' value='${text.slice(-2)}'><button>Go</button></form>`;
	const body = `<!doctype html>${form('/api/ai/secret', prompt)}${form('/api/sessions/secret/events', '{"type":"x-note","data":{"theirs":1},"key":"theirs"}')}`;
	for (const type of ['text/html', 'application/xhtml+xml', 'image/svg+xml', 'text/plain']) {
		const url = `${v.server.url}/v1/stream/${type}`;
		const status = await page.evaluate(async ([url, type, body]) => (await fetch(url, { method: 'PUT', body, headers: { 'content-type': type } })).status, [url, type, body]);
		assert.equal(status, 201, 'pages of every origin write streams');
		// The event comes once, and soon: whoever looks for it when the window is open may be late.
		const saved = new Promise((done) => v.context.once('page', (popup) => popup.on('download', () => done('saved'))));
		const [popup] = await Promise.all([page.waitForEvent('popup'), page.evaluate((url) => void window.open(url), url)]);
		const shown = popup.waitForSelector('button').then(() => 'shown', () => 'nothing');
		if (await Promise.race([saved, shown]) === 'shown') {
			for (const n of [0, 1]) {
				await popup.goto(url);
				const [answer] = await Promise.all([popup.waitForResponse((response) => response.request().method() === 'POST'), popup.locator('button').nth(n).click()]);
				await answer.finished();
			}
		}
		assert.deepEqual(await stateOf(v), before, type);
		assert.equal(await within(saved, 30_000, () => `${type} to be saved as a file`), 'saved');
	}
});

/** Who the page says it is, by its own two halves. */
function whoIs(page) {
	return page.evaluate(async () => {
		const { login } = JSON.parse(localStorage['holdfast-login'] ?? '{}');
		const answer = await fetch('/api/login', { headers: login ? { 'holdfast-login': login } : {} });
		return answer.status === 200 ? (await answer.json()).sub : answer.status;
	});
}

test('a page of another port gets the cookie, which opens nothing', async (t) => {
	const v = await victim(t);
	const { site, cookies, port } = await startSite(t);
	const page = await v.context.newPage();
	await page.goto(`http://127.0.0.1:${port}/`);
	const cookie = cookies.find((sent) => sent?.includes('holdfast_'));
	assert.ok(cookie, 'cookies ignore ports');
	for (const headers of [{ cookie }, { cookie, 'holdfast-login': cookie.split('=')[1] }, { 'holdfast-login': cookie.split('=')[1] }]) {
		const { status } = await v.server.request('GET', '/api/sessions', { headers: { ...headers, authorization: undefined } });
		assert.equal(status, 401);
	}

	// It plants the cookie of a login of its own: then the two halves do not fit, and nobody types into a stranger's login.
	const mallory = ownToken(v.server, 'controller', ['*'], { sub: 'mallory' });
	const origin = v.server.url;
	const login = await v.server.request('POST', '/api/login', {
		json: { token: mallory },
		headers: { origin, authorization: undefined },
	});
	assert.equal(login.status, 200);
	site.headers = { 'set-cookie': login.headers.get('set-cookie') };
	assert.equal(await whoIs(v.page), '', 'the administrator');
	await page.reload();
	assert.equal(await whoIs(v.page), 401);
	await v.page.reload();
	await byTestId(v.page, 'sign-in-screen').waitFor();
});

test('a link with the token of a stranger asks first', async (t) => {
	const v = await victim(t);
	const { port } = await startSite(t);
	const page = await v.context.newPage();
	await page.goto(`http://evil.test:${port}/`);
	const mallory = ownToken(v.server, 'controller', ['*'], { sub: 'mallory' });
	const [popup] = await Promise.all([
		page.waitForEvent('popup'),
		page.evaluate((url) => void window.open(url), loginLink(v.server.url, mallory)),
	]);
	await byTestId(popup, 'replace-login').waitFor();
	assert.equal(await whoIs(v.page), '', 'the administrator');
	await v.page.reload();
	await waitForStatus(v.page, 'live');
});

/** The answer to a request, its headers by name. */
async function headersOf(server, path) {
	const { hostname, port } = new URL(server.url);
	const socket = connect(Number(port), hostname);
	const auth = Object.entries(authOf(server.url)).map(([key, value]) => `${key}: ${value}\r\n`).join('');
	socket.end(`GET ${path} HTTP/1.1\r\nhost: ${hostname}:${port}\r\nconnection: close\r\n${auth}\r\n`);
	const text = (await socket.setEncoding('latin1').toArray()).join('');
	const [, ...lines] = text.slice(0, text.indexOf('\r\n\r\n')).split('\r\n');
	return Object.fromEntries(lines.map((line) => line.split(/: (.*)/)));
}

for (const [name, options] of Object.entries(SERVERS)) {
	test(`${name}: every answer says what a browser may do with it`, async (t) => {
		const server = await startServer(t, options);
		await server.createSession({ id: 'secret' });
		for (const path of [...READS, '/api/nothing', '/nothing.js', '/api/events', '/index.html']) {
			const headers = await headersOf(server, path);
			assert.equal(headers['x-content-type-options'], 'nosniff', path);
			assert.equal(headers['referrer-policy'], 'no-referrer', path);
			assert.equal(headers['cross-origin-resource-policy'], 'same-origin', path);
			assert.equal(headers['cross-origin-opener-policy'], 'same-origin', path);
			assert.match(headers['content-security-policy'], /frame-ancestors 'none'/, path);
			assert.match(headers['content-security-policy'], /default-src 'none'/, path);
			assert.ok(!/unsafe/.test(headers['content-security-policy']), path);
			assert.match(headers['permissions-policy'], /camera=\(\)/, path);
			assert.ok(!('access-control-allow-origin' in headers), path);
			assert.equal(path.startsWith('/api') ? headers['cache-control'] : 'no-store', 'no-store', path);
		}
	});
}
