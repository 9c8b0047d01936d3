// Who gets in: every endpoint and every frame, for every role, with right tokens and with wrong ones of every kind, over each way to connect.

import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { join } from 'node:path';
import { test } from 'node:test';
import { trustOf } from '../support/auth.mjs';
import { partOf } from '../support/part.mjs';
import { chatFrames, editorMethods, frames, namedPaths, routes, sockets } from '../support/routes.mjs';
import { protoDir } from '../support/schema.mjs';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { makeCert, withTls } from '../support/tls.mjs';
import { bearer, claims, makeToken, ownToken, secretOf } from '../support/tokens.mjs';
import { eventually, within } from '../support/wait.mjs';

const ROLES = ['observer', 'controller', 'producer', 'admin'];
const message = { type: 'agent_message_chunk', data: { text: 'x' } };

const doors = JSON.parse(readFileSync(`${protoDir}doors.json`, 'utf8'));
/** Sockets that speak our protocol, and the one of the AI SDK. */
const OURS = doors.sockets.filter(({ protocol }) => !protocol);
const [CHATS, EDITORS] = doors.sockets.filter(({ protocol }) => protocol);
const rolesOf = (right) => doors.rights[right];

/** A file, which is JSON because all requests here are. */
const FILE = { a: 'file' };

/** What is asked of an endpoint: by method and path as in the table, the paths and bodies. Those without a right are tested below. */
const ASKED = {
	'GET /api/login': [['/api/login']],
	'GET /api/push': [['/api/push']],
	'POST /api/tokens/revoke': [['/api/tokens/revoke', { jti: 'nobody' }]],
	'GET /metrics': [['/metrics']],
	'GET /api/sessions': [['/api/sessions']],
	'POST /api/sessions': [['/api/sessions', { id: 'team-new' }]],
	'GET /api/sessions/{id}': [['/api/sessions/team-one']],
	'PATCH /api/sessions/{id}': [['/api/sessions/team-one', { pinned: true }]],
	'DELETE /api/sessions/{id}': [['/api/sessions/team-two']],
	'GET /api/sessions/{id}/events': [['/api/sessions/team-one/events']],
	'GET /api/sessions/{id}/events text/event-stream': [['/api/sessions/team-one/events']],
	'GET /api/events text/event-stream': [['/api/events']],
	'GET /ds/sessions/{id}': [['/ds/sessions/team-one'], ['/ds/sessions/team-one?offset=-1&live=long-poll']],
	'POST /api/ai/{id}': [['/api/ai/team-one', { messages: [{ role: 'assistant', parts: [{ state: 'approval-responded', approval: { id: 'nobody', approved: true } }] }] }]],
	'GET /api/ai/{id}/stream': [['/api/ai/team-one/stream']],
	'GET /api/ai/{id}/{chat}/stream': [['/api/ai/team-one/a%20chat/stream']],
	'POST /api/sessions/{id}/events': [['/api/sessions/team-one/events', [message]], ['/api/sessions/team-made/events?create=1', [message]]],
	'POST /api/sessions/{id}/snapshot': [['/api/sessions/team-one/snapshot', { messages: [] }]],
	'GET /api/sessions/{id}/queue': [['/api/sessions/team-one/queue']],
	'GET /api/sessions/{id}/search': [['/api/sessions/team-one/search?q=x']],
	'GET /api/sessions/{id}/files': [['/api/sessions/team-one/files?prefix=x']],
	'GET /api/search': [['/api/search?q=x']],
	'POST /api/sessions/{id}/blobs': [['/api/sessions/team-one/blobs', FILE]],
	'GET /api/sessions/{id}/blobs/{blob}': [[`/api/sessions/team-one/blobs/${createHash('sha256').update(JSON.stringify(FILE)).digest('hex')}`]],
	'GET /api/agents': [['/api/agents']],
	'GET /api/directories': [['/api/directories']],
	'GET /api/files': [['/api/files?prefix=x']],
	'GET /v1/stream/{name}': [['/v1/stream/one'], ['/v1/stream/one?offset=now&live=long-poll']],
	'PUT /v1/stream/{name}': [['/v1/stream/made', FILE], ['/v1/stream/one', FILE]],
	'POST /v1/stream/{name}': [['/v1/stream/one', FILE]],
	'DELETE /v1/stream/{name}': [['/v1/stream/two']],
};

/** Method, path, body, the roles that may, whether it is about a session, whether it needs all of them, and what is accepted. */
const ENDPOINTS = doors.endpoints.filter(({ right }) => right !== null).flatMap(({ method, path, right, accept, all_sessions: needsAll = false }) =>
	ASKED[[method, path, accept].filter(Boolean).join(' ')].map(([asked, body]) => [method, asked, body, rolesOf(right), path.includes('{id}'), needsAll, accept]));

/** The types of frames that a schema knows. */
function typesOf(schema) {
	const [file, pointer = ''] = schema.split('#/');
	const read = (name) => JSON.parse(readFileSync(`${protoDir}schema/${name}`, 'utf8'));
	const follow = (root, path) => path.split('/').filter(Boolean).reduce((at, name) => at[name], root);
	const whole = read(file);
	return follow(whole, pointer).oneOf.map(({ $ref }) => {
		const [other, path] = $ref.split('#/');
		const found = follow(other ? read(other) : whole, path);
		return found.properties.type.const;
	}).sort();
}

const nameOf = ({ method, path }) => `${method} ${path}`;

test('the table of doors has every address and every frame of the sources, and these have every row of it', () => {
	const rows = doors.endpoints.map(nameOf);
	const open = doors.open.map((path) => `GET ${path}`);
	const upgrades = doors.sockets.map(({ path }) => `GET ${path}`);
	const served = routes().map(nameOf);
	assert.ok(served.length > 30);
	assert.deepEqual(served.filter((one) => ![...rows, ...open, ...upgrades].includes(one)), []);
	assert.deepEqual([...rows, ...open].filter((one) => !served.includes(one)), []);
	assert.deepEqual(sockets().sort(), doors.sockets.map(({ path }) => path).sort());

	const { names, sides } = frames();
	const framesOf = (end) => Object.keys(OURS.find(({ path }) => path.endsWith(end)).frames).sort();
	assert.deepEqual({ OBSERVER: framesOf('/ws'), PRODUCER: framesOf('/produce'), FEED: framesOf('/events') }, sides);
	assert.deepEqual([...new Set(Object.values(sides).flat())].sort(), names);
	assert.deepEqual(chatFrames().sort(), Object.keys(CHATS.frames).sort());
	assert.deepEqual(editorMethods().sort(), Object.keys(EDITORS.frames).sort());
});

test('no address in the code of the wings that serve something is outside of the table of doors, and none of the pages', () => {
	/* What is below the page's own address: files, open to all; the beginning of most addresses, which is none; and what nodes alone ask each other. */
	const others = ['/javascript/highlight.js/', '/api', '/api/sessions/{id}/acp'];
	const paths = [...doors.open, ...[...doors.endpoints, ...doors.sockets].map(({ path }) => path)];
	const isPart = (one, path) => one.endsWith('/') ? path.startsWith(one) : path === one || (one.indexOf('/', 1) < 0 && path.endsWith(one));
	const named = namedPaths().map((path) => path.replace(/\?.*/, '').replace('{name...}', '{name}').replace('%s', '{id}').replace(/^\/v1\/stream$/, '$&/'));
	assert.ok(named.length > 30);
	assert.deepEqual(named.filter((one) => !others.includes(one) && !paths.some((path) => isPart(one, path))), []);
	const page = readFileSync(`${protoDir}protocol.md`, 'utf8') + readFileSync(`${protoDir}access.md`, 'utf8');
	const told = [...page.matchAll(/`(GET|POST|PUT|PATCH|DELETE) (\/(?:api|ds|v1|metrics|healthz)[^`? ]*)/g)].map(([, method, path]) => `${method} ${path}`);
	const known = [...doors.endpoints, ...[...doors.sockets.map(({ path }) => path), ...doors.open].map((path) => ({ method: 'GET', path }))].map(nameOf);
	assert.deepEqual(told.filter((one) => !known.includes(one)), []);
});

test('the table of doors has every frame of the schemas', () => {
	for (const { schema, frames: known } of OURS) {
		assert.deepEqual(Object.keys(known).sort(), typesOf(schema), schema);
	}
});

test('each path has the methods of the table and no others', async (t) => {
	const server = await start(t);
	const paths = new Map();
	doors.endpoints.forEach(({ method, path }) => paths.set(path, [...new Set([...(paths.get(path) ?? []), method])]));
	for (const [path, methods] of paths) {
		const other = methods.includes('PUT') ? 'PATCH' : 'PUT';
		const { status, headers } = await server.request(other, path.replace('{id}', 'team-one').replace('{blob}', '0'.repeat(64)).replace('{name}', 'one'));
		assert.equal(status, 405, path);
		const allowed = headers.get('allow').split(', ').filter((method) => method !== 'HEAD'); // as GET
		assert.deepEqual(allowed.sort(), methods.sort(), path);
	}
});

const application = generateKeyPairSync('rsa', { modulusLength: 2048, publicKeyEncoding: { type: 'spki', format: 'pem' }, privateKeyEncoding: { type: 'pkcs8', format: 'pem' } });

/** How one connects: options of the server for it. */
const WAYS = {
	'plain': () => ({ listen: ['127.0.0.1:0'] }),
	'TLS': (t) => withTls(makeCert(t)),
	'a unix socket': (t) => ({ listen: [`unix:${join(scratchDir(t), 'sock')}`] }),
};

async function start(t, { way = 'plain', ...options } = {}) {
	const file = join(scratchDir(t), 'key.pem');
	writeFileSync(file, application.publicKey);
	const { args = [], ...connect } = WAYS[way](t);
	const server = await Server.start(t, { agent: demoAgent(), args: ['--auth-public-key', file, '--limit', 'wrong_tokens=100000', '--limit', 'poll_ms=100', ...args], ...connect, ...options });
	for (const id of ['team-one', 'team-two']) {
		await server.createSession({ id });
	}
	assert.equal((await server.request('POST', '/api/sessions/team-one/blobs', { json: FILE })).status, 201);
	assert.equal((await server.request('POST', '/api/tokens/revoke', { json: { jti: 'taken-back' } })).status, 204);
	for (const name of ['one', 'two']) {
		assert.equal((await server.request('PUT', `/v1/stream/${name}`, { json: FILE })).status, 201);
	}
	return server;
}

/** Headers of somebody without a token. Whoever may open the file of a unix socket needs none, but for what others pass on (77). */
const nobody = (server, headers = {}) => ({ authorization: undefined, ...(server.url.startsWith('unix:') && { 'x-real-ip': '192.0.2.1' }), ...headers });

/** How a token may be wrong: a name, the token for a role, and the code of the refusal. */
function wrongTokens(server, role) {
	const secret = secretOf(server);
	const now = Math.floor(Date.now() / 1000);
	const good = claims(role, ['team-*']);
	return {
		'expired': [makeToken({ ...good, exp: now - 1 }, secret), 'token_expired'],
		'not yet valid': [makeToken({ ...good, nbf: now + 30 }, secret), 'unauthorized'],
		'wrong signature': [makeToken(good, 'x'.repeat(43)), 'unauthorized'],
		'alg none': [makeToken(good, null, { alg: 'none' }), 'unauthorized'],
		'alg nOnE': [makeToken(good, null, { alg: 'nOnE' }), 'unauthorized'],
		'alg none with a signature': [makeToken(good, secret, { header: { alg: 'none' } }), 'unauthorized'],
		'a signature cut off': [makeToken(good, null), 'unauthorized'],
		'HS256 with the public key': [makeToken(good, application.publicKey), 'unauthorized'],
		'RS256 in the header, HS256 in truth': [makeToken(good, secret, { header: { alg: 'RS256' } }), 'unauthorized'],
		'a kid that is a path': [makeToken(good, '', { header: { kid: '/dev/null' } }), 'unauthorized'],
		'a kid that is a statement': [makeToken(good, 'k', { header: { kid: "x' UNION SELECT 'k" } }), 'unauthorized'],
		'a kid of the other key': [makeToken(good, application.publicKey, { header: { kid: 'application' } }), 'unauthorized'],
		'a kid that is no text': [makeToken(good, '', { header: { kid: ['../../dev/null'] } }), 'unauthorized'],
		'an address of a key in the header': [makeToken(good, 'k'.repeat(32), { header: { jku: 'http://127.0.0.1:9/keys', x5u: 'http://127.0.0.1:9/cert' } }), 'unauthorized'],
		'crit in the header': [makeToken(good, secret, { header: { crit: ['exp'] } }), 'unauthorized'],
		'a key in the header': [makeToken(good, 'k'.repeat(32), { header: { jwk: { kty: 'oct', k: 'a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s' } } }), 'unauthorized'],
		'revoked': [makeToken({ ...good, jti: 'taken-back' }, secret), 'token_revoked'],
		'no exp': [makeToken({ ...good, exp: undefined }, secret), 'unauthorized'],
		'no role': [makeToken({ ...good, holdfast: { sessions: ['*'] } }, secret), 'unauthorized'],
		'no token at all': ['x', 'unauthorized'],
	};
}

/** An answer that does not end is read as far as its head. */
async function askForStream(server, method, path, headers) {
	const { hostname, port } = new URL(server.url.startsWith('unix:') ? 'http://localhost' : server.url);
	const where = server.url.startsWith('unix:') ? { socketPath: server.url.slice('unix:'.length) } : { hostname, port };
	const { request: send } = server.url.startsWith('https:') ? https : http;
	const all = Object.fromEntries(Object.entries({ host: port ? `${hostname}:${port}` : 'localhost', ...headers }).filter(([, value]) => value !== undefined));
	const request = send({ ...where, ...trustOf(server.url), agent: false, method, path, headers: all }).end();
	const [response] = await within(once(request, 'response'), 20_000, () => `the answer to ${method} ${path}`);
	const head = { status: response.statusCode, headers: new Headers(Object.entries(response.headers).map(([name, value]) => [name, [value].flat().join(', ')])) };
	if (head.status === 200) {
		request.destroy();
		return { ...head, body: '' };
	}
	const text = await response.setEncoding('utf8').toArray();
	return { ...head, body: JSON.parse(text.join('')) };
}

const ask = (server, [method, path, json, , , , accept], headers) => accept
	? askForStream(server, method, path, { accept, ...headers })
	: server.request(method, path, { json, headers });

/** All tokens at once: the server is slow to answer a wrong one. */
function assertNoEntry(server, role, endpoint, name) {
	const wrong = Object.entries(wrongTokens(server, role)).map(async ([what, [token, code]]) => {
		const { status, body, headers } = await ask(server, endpoint, bearer(token));
		assert.deepEqual([status, body.error.code], [401, code], `${name}, ${what}`);
		assert.match(headers.get('www-authenticate'), /^Bearer/);
	});
	const good = ownToken(server, role, ['team-*']);
	const pairs = [[good, good], [good, 'x']].map(async (pair) => {
		const two = await ask(server, endpoint, { 'sec-websocket-protocol': `bearer.${pair[0]}`, ...bearer(pair[1]) });
		assert.deepEqual([two.status, two.body.error.code], [401, 'unauthorized'], `${name}, two tokens`);
	});
	const none = ask(server, endpoint, nobody(server)).then(({ status, body }) =>
		assert.deepEqual([status, body.error.code], [401, 'unauthorized'], name));
	return Promise.all([...wrong, ...pairs, none]);
}

/** At eight endpoints at a time, for the same reason, but for TLS, where each token has a handshake; what is asked in vain changes nothing. */
async function assertNowhereEntry(server, role, way) {
	const left = [...ENDPOINTS];
	const work = async () => {
		for (let endpoint = left.shift(); endpoint; endpoint = left.shift()) {
			await assertNoEntry(server, role, endpoint, `${role}: ${endpoint[0]} ${endpoint[1]}`);
		}
	};
	await Promise.all(Array.from({ length: way === 'TLS' ? 1 : 8 }, work));
}

for (const way of Object.keys(WAYS)) {
	for (const role of way === 'plain' ? ROLES : partOf(ROLES)) {
		test(`${way}, ${role}: each endpoint lets in the roles of its row, and nobody with a wrong token`, async (t) => {
			const server = await start(t, { way });
			await assertNowhereEntry(server, role, way);
			for (const endpoint of ENDPOINTS) {
				const [method, path, , roles, isOfSession, needsAll] = endpoint;
				const name = `${role}: ${method} ${path}`;
				const elsewhere = await ask(server, endpoint, bearer(ownToken(server, role, ['else-*', 'team'])));
				if (isOfSession) {
					assert.deepEqual([elsewhere.status, elsewhere.body.error.code], [404, 'not_found'], `${name}, of other sessions`);
				} else if (needsAll) {
					assert.deepEqual([elsewhere.status, elsewhere.body.error.code], [403, 'forbidden'], `${name}, not for all`);
				} else if (method === 'GET' && path === '/api/sessions') {
					assert.deepEqual(elsewhere.body.sessions, []);
				} else if (path === '/api/sessions') {
					assert.deepEqual([elsewhere.status, elsewhere.body.error.code], [403, 'forbidden'], name);
				}
				const patterns = needsAll ? ['team-*', '*'] : ['team-*'];
				const tokens = { own: ownToken(server, role, patterns), application: makeToken(claims(role, patterns), application.privateKey, { alg: 'RS256' }) };
				for (const [whose, token] of Object.entries(tokens)) {
					const { status, body } = await ask(server, endpoint, bearer(token));
					if (roles.includes(role)) {
						const again = method === 'DELETE' || path === '/api/sessions' ? [404, 409] : [];
						assert.ok(status < 300 || (whose === 'application' && again.includes(status)), `${name}, ${whose}: ${status} ${JSON.stringify(body)}`);
					} else {
						assert.deepEqual([status, body.error.code], [403, 'forbidden'], `${name}, ${whose}`);
					}
				}
			}
		});
	}
}

test('two tokens in one request are none', async (t) => {
	const server = await start(t);
	const { headers, body: { login } } = await server.request('POST', '/api/login', { json: { token: server.token }, headers: { origin: server.url, authorization: undefined } });
	const cookie = headers.get('set-cookie').split(';')[0];
	const both = { ...bearer(server.token), cookie, 'holdfast-login': login };
	assert.equal((await server.request('GET', '/api/sessions', { headers: both })).status, 401);
	const twice = await server.rawRequest('GET', '/api/sessions', { authorization: [`Bearer ${server.token}`, `Bearer ${server.token}`] });
	assert.ok([400, 401].includes(twice.status), String(twice.status));
	for (const value of [`Basic ${server.token}`, server.token, 'Bearer', `Bearer ${server.token}, Bearer x`]) {
		assert.equal((await server.request('GET', '/api/sessions', { headers: { authorization: value } })).status, 401, value);
	}
	assert.equal((await server.request('GET', `/api/sessions?token=${server.token}`, { headers: { authorization: undefined } })).status, 401);
});

/** What is in a frame of each type; the server may refuse it for other reasons than the role. */
const DATA = {
	prompt: { message: 'hello', prompt_id: 'p1' },
	edit_prompt: { message: 'hello', prompt_id: 'p2' },
	remove_prompt: { prompt_id: 'p2' },
	permission_answer: { request_id: 'r', option_id: 'o' },
	elicitation_answer: { request_id: 'r', action: 'decline' },
	set_mode: { mode_id: 'm' },
	set_model: { model_id: 'm' },
	set_config_option: { config_id: 'c', value: 'v' },
	authenticate: { method_id: 'm' },
	append: { events: [message] },
	append_snapshot: { messages: [] },
};
const dataOf = (type, token) => type === 'token' ? { token } : (DATA[type] ?? {});

for (const [way, { path, right, frames }] of Object.keys(WAYS).flatMap((one) => OURS.map((socket) => [one, socket]))) {
	const address = path.replace('{id}', 'team-one').replace('{blob}', '0'.repeat(64));

	test(`${way}, ${path}: each frame is for the roles of its right; the socket stays`, async (t) => {
		const server = await start(t, { way, agent: demoAgent('--rate 0') });
		for (const role of ROLES) {
			const token = ownToken(server, role, ['team-*']);
			const socket = new TestSocket(t, server.ws(address), () => null, { headers: bearer(token) });
			const hello = await socket.waitFor(() => true);
			if (!rolesOf(right).includes(role)) {
				assert.equal(hello.data.code, 'forbidden', role);
				assert.deepEqual(await socket.waitClosed(), { code: 1008, reason: 'forbidden' }, role);
				continue;
			}
			if (path.endsWith('/ws')) {
				assert.equal(hello.data.role, role);
				assert.ok(hello.data.expires_at > Date.now());
			}
			for (const [type, needs] of Object.entries(frames)) {
				const from = socket.frames.length;
				await socket.send(type, dataOf(type, token));
				await socket.send('keepalive', { client_time: from });
				await socket.waitFor((frame) => frame.type === 'keepalive_ack' && frame.data.client_time === from, { from });
				const refused = socket.frames.slice(from).find((frame) => frame.type === 'error' && frame.data.code === 'forbidden');
				assert.equal(refused === undefined, rolesOf(needs).includes(role), `${role}: ${type}`);
				assert.equal(refused?.data.request ?? type, type);
			}
			await socket.close();
		}
	});

	test(`${way}, ${path}: no frame does anything with a wrong token in front of it, nor without one`, async (t) => {
		const server = await start(t, { way, agent: demoAgent('--rate 0') });
		const before = await server.request('GET', '/api/sessions/team-one');
		const open = () => new TestSocket(t, server.ws(address), () => null, { headers: { origin: server.origin, authorization: undefined } });
		const good = ownToken(server, 'admin', ['team-*']);
		await Promise.all(Object.entries(wrongTokens(server, 'admin')).map(async ([what, [token, code]]) => {
			const socket = open();
			await socket.send('token', { token });
			for (const type of Object.keys(frames)) {
				await socket.send(type, dataOf(type, good)).catch(() => {}); // it may be closed by now
			}
			assert.deepEqual(await socket.waitClosed(), { code: code === 'token_revoked' ? 4403 : 4401, reason: code }, what);
			assert.deepEqual(socket.frames.map(({ type, data }) => [type, data.code]), [['error', code]], what);
		}));
		await Promise.all(Object.keys(frames).filter((type) => type !== 'token').map(async (type) => {
			const socket = open();
			await socket.send(type, dataOf(type));
			assert.deepEqual(await socket.waitClosed(), { code: 4401, reason: 'unauthorized' }, type);
			assert.deepEqual(socket.frames.map(({ data }) => data.code), ['unauthorized'], type);
		}));
		for (const two of [{ protocols: [`bearer.${good}`], headers: bearer(good) }, { headers: { ...bearer(good), 'holdfast-login': 'x' } }]) {
			assert.equal((await new TestSocket(t, server.ws(address), () => null, two).waitRefused()).status, 401, 'two tokens');
		}
		if (path.includes('{id}')) {
			for (const role of ROLES) {
				const elsewhere = new TestSocket(t, server.ws(address), () => null, { headers: bearer(ownToken(server, role, ['else-*', 'team'])) });
				for (const type of Object.keys(frames)) {
					await elsewhere.send(type, dataOf(type, good)).catch(() => {});
				}
				assert.deepEqual(await elsewhere.waitClosed(), { code: 4404, reason: 'not_found' }, role);
				assert.deepEqual(elsewhere.frames, [{ type: 'session_gone', data: { session_id: 'team-one', reason: 'not_found' } }], role);
			}
		}
		assert.deepEqual((await server.request('GET', '/api/sessions/team-one')).body, before.body, 'nothing has happened');
	});
}

/** What a chat sends; the server may refuse it for other reasons than the role. */
const chatFrame = (type, requestId, message = 'm') => JSON.stringify(type === 'abort' ? { type, requestId }
	: type === 'cancel' ? { type, requestId, messages: [{ id: message, role: 'user', parts: [{ type: 'text', text: 'not asked' }] }] }
	: { type, requestId, id: 'c', headers: {}, body: {}, ...(type === 'send' && { trigger: 'submit-message', messages: [{ id: message, role: 'user', parts: [{ type: 'text', text: 'hello' }] }] }) });

for (const way of Object.keys(WAYS)) {
	const address = CHATS.path.replace('{id}', 'team-one');

	test(`${way}, ${CHATS.path}: each frame is for the roles of its right; the socket stays`, async (t) => {
		const server = await start(t, { way, agent: demoAgent('--rate 0') });
		for (const role of ROLES) {
			const socket = new TestSocket(t, server.ws(address), () => null, { headers: bearer(ownToken(server, role, ['team-*'])) });
			for (const [type, needs] of Object.entries(CHATS.frames)) {
				await socket.sendRaw(chatFrame(type, type, `of-${role}`));
				await socket.sendRaw(chatFrame('resume', `after ${type}`));
				await socket.waitFor((frame) => frame.requestId === `after ${type}`);
				const refused = socket.frames.find((frame) => frame.requestId === type && frame.type === 'error' && /role/.test(frame.errorText));
				assert.equal(refused === undefined, rolesOf(needs).includes(role), `${role}: ${type}`);
			}
			assert.equal(socket.closed, null);
			await socket.close();
		}
		const prompts = async () => (await server.request('GET', '/api/sessions/team-one/events')).body.events.filter(({ type }) => type === 'user_prompt');
		await eventually(async () => (await prompts()).length === rolesOf(CHATS.frames.send).length, 'what was asked to begin');
	});

	test(`${way}, ${CHATS.path}: nobody gets in with a wrong token, nor without one, nor with that of another session`, async (t) => {
		const server = await start(t, { way, agent: demoAgent('--rate 0') });
		const before = await server.request('GET', '/api/sessions/team-one');
		const good = ownToken(server, 'admin', ['team-*']);
		const open = (options) => new TestSocket(t, server.ws(address), () => null, options);
		const page = { origin: server.origin, authorization: undefined };
		const sendAll = async (socket) => {
			for (const type of Object.keys(CHATS.frames)) {
				await socket.sendRaw(chatFrame(type, type)).catch(() => {}); // it may be closed by now
			}
			return socket.waitClosed();
		};
		await Promise.all(Object.entries(wrongTokens(server, 'admin')).map(async ([what, [token, code]]) => {
			assert.equal((await open({ headers: bearer(token) }).waitRefused()).status, 401, what);
			const socket = open({ headers: page, protocols: ['holdfast.v1', `bearer.${token}`] });
			assert.deepEqual(await sendAll(socket), { code: code === 'token_revoked' ? 4403 : 4401, reason: code }, what);
			assert.deepEqual(socket.frames, [], what);
		}));
		assert.equal((await open({ headers: nobody(server) }).waitRefused()).status, 401);
		const silent = open({ headers: page });
		assert.deepEqual(await sendAll(silent), { code: 4401, reason: 'unauthorized' });
		assert.equal((await open({ protocols: [`bearer.${good}`], headers: bearer(good) }).waitRefused()).status, 401, 'two tokens');
		for (const role of ROLES) {
			const elsewhere = open({ headers: bearer(ownToken(server, role, ['else-*', 'team'])) });
			assert.deepEqual(await sendAll(elsewhere), { code: 4404, reason: 'not_found' }, role);
			assert.deepEqual(elsewhere.frames, [], role);
		}
		assert.deepEqual((await server.request('GET', '/api/sessions/team-one')).body, before.body, 'nothing has happened');
	});
}

/** What an editor sends, in an order in which a session is open when it has to be. */
const editorParams = (method) => ({
	'initialize': { protocolVersion: 1 },
	'session/new': { cwd: '/', mcpServers: [] },
	'session/prompt': { sessionId: 'team-one', prompt: [{ type: 'text', text: 'hello' }] },
	'session/set_mode': { sessionId: 'team-one', modeId: 'm' },
	'session/set_model': { sessionId: 'team-one', modelId: 'm' },
	'session/set_config_option': { sessionId: 'team-one', configId: 'c', value: 'v' },
	'session/delete': { sessionId: 'team-two' },
	'$/cancel_request': { requestId: 'none' },
}[method] ?? { sessionId: 'team-one', cwd: '/', mcpServers: [] });
const EDITOR_ORDER = Object.keys(EDITORS.frames).sort((a, b) => (a === 'session/close') - (b === 'session/close'));
const editorFrame = (method) => JSON.stringify({ jsonrpc: '2.0', id: method, method, params: editorParams(method) });

for (const way of Object.keys(WAYS)) {
	test(`${way}, ${EDITORS.path}: each method is for the roles of its right; the socket stays`, async (t) => {
		const server = await start(t, { way, agent: demoAgent('--rate 0') });
		for (const role of ROLES) {
			const socket = new TestSocket(t, server.ws(EDITORS.path), () => null, { headers: bearer(ownToken(server, role, ['team-*'])) });
			for (const method of EDITOR_ORDER) {
				await socket.sendRaw(editorFrame(method));
				const isNotification = method === 'session/cancel';
				if (isNotification) {
					await socket.sendRaw(JSON.stringify({ jsonrpc: '2.0', method, params: editorParams(method) }));
				}
				await socket.sendRaw(JSON.stringify({ jsonrpc: '2.0', id: `after ${method}`, method: 'session/list', params: {} }));
				await socket.waitFor(({ id }) => id === `after ${method}`);
				const mayNot = socket.frames.find(({ id, error }) => id === method && error?.data.code === 'forbidden');
				assert.equal(mayNot === undefined, rolesOf(EDITORS.frames[method]).includes(role), `${role}: ${method}`);
			}
			assert.equal(socket.closed, null);
			await socket.close();
		}
	});

	test(`${way}, ${EDITORS.path}: nobody gets in with a wrong token, nor without one; sessions of others are not there`, async (t) => {
		const server = await start(t, { way, agent: demoAgent('--rate 0') });
		const before = await server.request('GET', '/api/sessions/team-one');
		const good = ownToken(server, 'admin', ['team-*']);
		const open = (options) => new TestSocket(t, server.ws(EDITORS.path), () => null, options);
		const page = { origin: server.origin, authorization: undefined };
		const sendAll = async (socket) => {
			for (const method of EDITOR_ORDER) {
				await socket.sendRaw(editorFrame(method)).catch(() => {}); // it may be closed by now
			}
		};
		await Promise.all(Object.entries(wrongTokens(server, 'admin')).map(async ([what, [token, code]]) => {
			assert.equal((await open({ headers: bearer(token) }).waitRefused()).status, 401, what);
			const socket = open({ headers: page, protocols: ['holdfast.v1', `bearer.${token}`] });
			await sendAll(socket);
			assert.deepEqual(await socket.waitClosed(), { code: code === 'token_revoked' ? 4403 : 4401, reason: code }, what);
			assert.deepEqual(socket.frames, [], what);
		}));
		assert.equal((await open({ headers: nobody(server) }).waitRefused()).status, 401);
		const silent = open({ headers: page });
		await sendAll(silent);
		assert.deepEqual(await silent.waitClosed(), { code: 4401, reason: 'unauthorized' });
		assert.equal((await open({ protocols: [`bearer.${good}`], headers: bearer(good) }).waitRefused()).status, 401, 'two tokens');
		for (const role of ROLES) {
			const elsewhere = open({ headers: bearer(ownToken(server, role, ['else-*', 'team'])) });
			await sendAll(elsewhere);
			await elsewhere.sendRaw(JSON.stringify({ jsonrpc: '2.0', id: 'last', method: 'session/list', params: {} }));
			await elsewhere.waitFor(({ id }) => id === 'last');
			for (const { id, error, result } of elsewhere.frames.filter(({ id }) => !['initialize', 'last', 'session/new'].includes(id))) {
				assert.ok(['not_found', 'forbidden'].includes(error?.data.code) || (id === 'session/list' && result.sessions.length === 0), `${role}: ${id}: ${JSON.stringify(error ?? result)}`);
			}
			assert.ok(['session/load', 'session/resume', 'session/delete', 'session/close'].every((method) => elsewhere.frames.find(({ id }) => id === method).error.data.code === 'not_found'), role);
		}
		assert.deepEqual((await server.request('GET', '/api/sessions/team-one')).body, before.body, 'nothing has happened');
	});
}

const SOCKETS = ['/api/sessions/team-one/ws', '/api/sessions/team-one/produce', '/api/events'];
const anything = () => null;

for (const way of Object.keys(WAYS)) {
	test(`${way}: a socket is opened by a token in the head, in a subprotocol or in the first frame, and by no wrong one`, async (t) => {
		const server = await start(t, { way });
		const good = ownToken(server, 'admin', ['team-*']);
		const connect = (path, options) => new TestSocket(t, server.ws(path), anything, options);
		const silent = connect(SOCKETS[0], { headers: { origin: server.origin, authorization: undefined } });
		for (const path of SOCKETS) {
			await connect(path, { headers: bearer(good) }).waitFor(() => true);
			await connect(path, { headers: nobody(server), protocols: ['holdfast.v1', `bearer.${good}`] }).waitFor(() => true);
			const patient = connect(path, { headers: nobody(server), protocols: ['holdfast.v1'] });
			await patient.send('token', { token: good });
			await patient.waitFor(() => true);

			// A program is told with the status, a browser with an error and a close.
			const program = connect(path, { headers: nobody(server) });
			assert.equal((await program.waitRefused()).status, 401);
			await Promise.all(Object.entries(wrongTokens(server, 'admin')).map(async ([what, [token, code]]) => {
				assert.equal((await connect(path, { headers: bearer(token) }).waitRefused()).status, 401, what);
				const socket = connect(path, { headers: { origin: server.origin, authorization: undefined } });
				await socket.send('token', { token });
				assert.deepEqual(await socket.waitClosed(), { code: code === 'token_revoked' ? 4403 : 4401, reason: code }, what);
				assert.deepEqual(socket.frames.map(({ type, data }) => [type, data.code]), [['error', code]], what);
			}));
			await Promise.all([['keepalive', {}], ['load_events', {}], ['token', {}], ['token', { token: good, login: 'x' }], ['token', { login: 'x' }]].map(async (first) => {
				const socket = connect(path, { headers: { origin: server.origin, authorization: undefined } });
				await socket.send(...first);
				assert.deepEqual(await socket.waitClosed(), { code: 4401, reason: 'unauthorized' }, JSON.stringify(first));
				assert.deepEqual(socket.frames.map(({ data }) => data.code), ['unauthorized']);
			}));
		}
		assert.deepEqual(await silent.waitClosed(), { code: 4401, reason: 'unauthorized' });
		const foreign = connect(SOCKETS[0], { headers: bearer(ownToken(server, 'admin', ['else'])) });
		assert.deepEqual(await foreign.waitClosed(), { code: 4404, reason: 'not_found' });
		assert.equal(foreign.frames[0].data.reason, 'not_found');
		const watcher = connect(SOCKETS[1], { headers: bearer(ownToken(server, 'controller', ['team-*'])) });
		assert.equal((await watcher.waitClosed()).code, 1008);
		assert.equal(watcher.frames[0].data.code, 'forbidden');
	});
}

for (const way of Object.keys(WAYS)) {
	test(`${way}: what is not there and what one may not see is the same, byte for byte, and one is not told of the other`, async (t) => {
		const server = await start(t, { way, agent: demoAgent('--rate 0') });
		for (const role of ROLES) {
			const headers = bearer(ownToken(server, role, ['else-*']));
			for (const [method, path, json, , isOfSession, , accept] of ENDPOINTS) {
				if (!isOfSession) {
					continue;
				}
				const body = json && JSON.stringify(json);
				for (const more of [{}, { expect: '100-continue' }, { 'content-type': 'application/x-ndjson' }]) {
					const answers = [];
					for (const id of ['team-one', 'team-six']) { // the one is there, the other is not
						const asked = path.replace(/team-\w+/, id).replace('?create=1', '');
						const answer = await server.rawRequest(method, asked, { 'content-length': String(body?.length ?? 0), ...headers, ...(accept && { accept }), ...more }, body);
						const { date: _, ...head } = answer.headers;
						answers.push({ ...answer, headers: head });
					}
					assert.equal(answers[0].status, 404, `${role}: ${method} ${path} ${JSON.stringify(more)}`);
					assert.deepEqual(answers[0], answers[1], `${role}: ${method} ${path} ${JSON.stringify(more)}`);
				}
			}
		}
		const one = bearer(ownToken(server, 'admin', ['team-*']));
		const [hidden, missing] = await Promise.all([
			server.rawRequest('POST', '/api/sessions/else-x/events', one, JSON.stringify([message])),
			server.rawRequest('POST', '/api/sessions/team-six/events', one, JSON.stringify([message])),
		]);
		assert.equal(hidden.body, missing.body);
	});
}
