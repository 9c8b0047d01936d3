// Nothing secret is told: tokens, halves of logins, keys and an agent's own secrets are planted at every door, in every place where a client may
// put one by mistake, and looked for in all that the server says and writes but the files that are there to keep them.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { RawSocket, head, upgrade } from '../support/raw_socket.mjs';
import { Server, binary, demoAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { claims, makeToken, ownToken, secretOf } from '../support/tokens.mjs';

/** Long enough that nothing has it by chance. */
const planted = (name) => `${name}-4f9c2e7ab81d603c55e1`;

/** Every file below a directory. */
function filesOf(dir) {
	return readdirSync(dir).flatMap((name) => {
		const path = join(dir, name);
		return statSync(path).isDirectory() ? filesOf(path) : [path];
	});
}

/** What was told: texts by where they come from. */
class Told {
	texts = [];

	add(where, text) {
		this.texts.push([where, typeof text === 'string' ? text : JSON.stringify(text)]);
		return text;
	}

	/** No text has a secret, nor a half of a long one. */
	assertWithout(secrets) {
		for (const [name, secret] of Object.entries(secrets)) {
			const piece = secret.slice(-20);
			for (const [where, text] of this.texts) {
				assert.ok(!text.includes(piece), `${name} is in ${where}: …${text.slice(Math.max(0, text.indexOf(piece) - 200), text.indexOf(piece) + 40)}`);
			}
		}
	}
}

/** A request with a secret in each place of it; what comes back is told. */
async function plantInRequests(t, server, told, secret) {
	const bearer = { Authorization: `Bearer ${secret}` };
	const requests = [
		head('GET', `/api/sessions?token=${secret}`), head('GET', `/api/sessions/${secret}`), head('GET', `/${secret}`), head(secret, '/'), head('GET', secret),
		head('GET', '/api/sessions', bearer), head('GET', '/api/sessions', { Authorization: secret }), head('GET', '/api/sessions', { Authorization: `Basic ${secret}` }),
		head('GET', '/api/sessions', { ...bearer, 'holdfast-login': secret }), head('GET', '/api/sessions', { 'holdfast-login': secret, Cookie: `holdfast_80=${secret}` }),
		head('GET', '/api/sessions', { Host: secret }), head('GET', '/', { Origin: `http://${secret}` }), head('GET', '/api/sessions', { [secret]: 'x' }),
		head('GET', '/metrics', bearer), `GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nbad ${secret}\r\n\r\n`,
		upgrade('/api/sessions/one/ws', bearer), upgrade(`/api/sessions/one/ws?token=${secret}`), upgrade(`/api/sessions/${secret}/ws`),
		upgrade('/api/sessions/one/ws', { 'Sec-WebSocket-Protocol': `holdfast.v1, bearer.${secret}` }),
		...['/api/events', '/api/sessions/one/events'].map((path) => head('GET', `${path}?token=${secret}`, { Accept: 'text/event-stream', 'Last-Event-ID': secret })),
		head('GET', `/api/sessions/one/events?after_seq=${secret}`, { ...bearer, Accept: 'text/event-stream' }),
		head('POST', '/api/ai/one', { ...bearer, 'Content-Length': 2 + secret.length }) + `{"${secret}`, head('GET', `/api/ai/one/${secret}/stream`, bearer),
		upgrade('/api/ai/one', { 'Sec-WebSocket-Protocol': `holdfast.v1, bearer.${secret}` }), upgrade(`/api/ai/${secret}`, bearer),
	];
	for (const request of requests) {
		const socket = await RawSocket.connect(t, server);
		await socket.send(request);
		const { status, headers, body } = await socket.answer();
		told.add(`the answer to ${request.split('\r\n')[0].replaceAll(secret, 'SECRET')}`, [status, headers, body]);
		socket.drop();
	}
	for (const body of [{ token: secret }, { token: secret, more: secret }, { [secret]: 1 }, `{"token": "${secret}"`]) {
		const json = typeof body === 'string' ? body : JSON.stringify(body);
		const answer = await server.request('POST', '/api/login', { body: json, headers: { origin: server.url, authorization: undefined, 'content-type': 'application/json' } });
		told.add('the answer to a login', answer.status === 200 ? '' : [answer.status, answer.body]);
	}
	for (const first of [{ type: 'token', data: { token: secret } }, { type: 'token', data: { login: secret } }, { type: 'token', data: { token: secret, more: 1 } }, secret]) {
		const socket = new TestSocket(t, server.ws('/api/sessions/one/ws'), () => null, { protocols: ['holdfast.v1'], headers: { authorization: undefined } });
		await socket.sendRaw(typeof first === 'string' ? first : JSON.stringify(first));
		await socket.waitUntil(() => socket.frames.length > 0, 'an answer');
		told.add('the answer to a first frame', [...socket.frames, socket.closed]);
		socket.drop();
	}
}

test('no secret is in any log line, answer, metric, file or recording', async (t) => {
	const dir = scratchDir(t);
	const key = planted('application-key-which-is-long-enough');
	writeFileSync(join(dir, 'key'), `${key}\n`);
	const recording = join(dir, 'recording.jsonl');
	const server = await Server.start(t, {
		agent: `${binary()} acp-record --out ${recording} -- ${demoAgent('--rate 0')}`, env: { AGENT_KEY: planted('agent-key') },
		args: ['--log-level', 'debug', '--auth-secret', join(dir, 'key'), '--agent-env', 'AGENT_KEY'],
	});
	const told = new Told();
	await server.createSession({ id: 'one' });
	const login = await server.request('POST', '/api/login', { json: { token: server.token }, headers: { origin: server.url, authorization: undefined } });
	const secrets = {
		'the access token': server.token, 'the server\'s secret': secretOf(server), 'the application\'s key': key, 'the agent\'s key': planted('agent-key'),
		'the half in the cookie': /=([\w-]+);/.exec(login.headers.get('set-cookie'))[1], 'the half in the header': login.body.login,
		'a token of the server\'s own': ownToken(server, 'controller'), 'a token of the application': makeToken(claims('observer', ['*']), key),
		'an expired token': makeToken(claims('admin', ['*'], { exp: 1 }), key), 'a wrong token': planted('wrong'),
	};
	for (const secret of Object.values(secrets)) {
		await plantInRequests(t, server, told, secret);
	}
	// A turn of the agent, which has a secret in its environment; and a token that is made and taken back.
	const observer = await Observer.connect(t, server, 'one');
	await observer.loadAll();
	await observer.prompt('tool');
	await observer.waitForEvent('turn_end');
	told.add('what observers see', observer.frames);
	const made = await runToEnd(['token', 'create', '--data', server.dataDir, '--role', 'observer', '--session', '*', '--expires', '1h']);
	assert.equal(made.code, 0, made.stderr);
	secrets['a token that was made'] = made.stdout.trim();
	told.add('what token create says beside it', made.stderr);
	told.add('the list of tokens', (await runToEnd(['token', 'list', '--data', server.dataDir])).stdout);
	await post(server, 'one', [input.note({ n: 1 })]);
	told.add('/metrics', (await server.request('GET', '/metrics')).body);
	assert.match(readFileSync(`/proc/${server.pid}/limits`, 'utf8'), /^Max core file size +0 /m, 'a core file would have them all');
	await server.stop();
	told.add('the server\'s messages', server.stderr);
	told.add('the recording', readFileSync(recording, 'utf8'));
	for (const file of filesOf(server.dataDir).filter((path) => !/\/(access-token|token-secret)$/.test(path))) {
		told.add(file.slice(server.dataDir.length), readFileSync(file, 'latin1'));
	}
	assert.ok(told.texts.length > 200);
	told.assertWithout(secrets);
});
