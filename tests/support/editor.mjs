// An editor: the client of npm @agentclientprotocol/sdk, unchanged, over /acp or over the stdio of `holdfast attach`. Every message that comes
// is held against the schema of the SDK.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { Readable, Writable } from 'node:stream';
import { client, ndJsonStream } from '@agentclientprotocol/sdk';
import { createWebSocketStream } from '@agentclientprotocol/sdk/experimental/ws-client';
import Ajv from 'ajv/dist/2020.js';
import WebSocket from 'ws';
import { authOf, tokenOf, trustOf } from './auth.mjs';
import { binary } from './server.mjs';
import { Waiters, defer } from './wait.mjs';

const DEFAULT_MS = 30_000;
const schema = JSON.parse(readFileSync(new URL('../node_modules/@agentclientprotocol/sdk/schema/schema.json', import.meta.url), 'utf8'));
const ajv = new Ajv({ strict: false, validateFormats: false });
ajv.addSchema({ ...schema, $id: 'acp' });

/** What the params of a method are, by the SDK's schema. */
const PARAMS = {
	'session/update': 'SessionNotification', 'session/request_permission': 'RequestPermissionRequest', 'elicitation/create': 'CreateElicitationRequest',
	'elicitation/complete': 'CompleteElicitationNotification', '$/cancel_request': 'CancelRequestNotification',
};
/** And what its result is. */
const RESULTS = {
	initialize: 'InitializeResponse', 'session/new': 'NewSessionResponse', 'session/load': 'LoadSessionResponse', 'session/resume': 'ResumeSessionResponse', 'session/list': 'ListSessionsResponse',
	'session/prompt': 'PromptResponse', 'session/set_config_option': 'SetSessionConfigOptionResponse',
};

function check(name, value) {
	const validate = ajv.getSchema(`acp#/$defs/${name}`);
	assert.ok(validate(value), `${name}: ${JSON.stringify(value)}: ${ajv.errorsText(validate.errors)}`);
}

export class Editor {
	#waiters = new Waiters();
	updates = []; // params of session/update
	questions = []; // {method, params, answer(result), isTakenBack}
	messages = []; // all that came, raw
	completed = []; // ids of elicitation/complete
	faults = []; // what the schema says against them
	closed = false;

	/** Over a WebSocket, or with `attach` (a list of options) over the stdio of `holdfast attach`. */
	static async open(t, server, { attach, headers, query = '', capabilities = { elicitation: { form: {}, url: {} } }, meta, initialize = true, env = {} } = {}) {
		const editor = new Editor();
		editor.#connect(t, attach ? editor.#spawn(t, server, attach, env) : createWebSocketStream(server.ws(`/acp${query}`), {
			WebSocket: class extends WebSocket {
				constructor(url, protocols, options) {
					super(url, protocols, { ...options, ...trustOf(server.url) });
				}
			},
			headers: headers ?? authOf(server.url),
		}));
		if (initialize) {
			editor.initialized = await editor.request('initialize', { protocolVersion: 1, clientCapabilities: capabilities, ...(meta && { _meta: { holdfast: meta } }) });
		}
		return editor;
	}

	#spawn(t, server, options, env) {
		const child = spawn(binary(), ['attach', '--url', server.url, ...options], { env: { ...process.env, HOLDFAST_TOKEN: server.token ?? tokenOf(server.url) ?? '', ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
		this.child = child;
		this.stderr = '';
		child.stderr.on('data', (data) => (this.stderr += data));
		child.on('exit', (code) => {
			this.exitCode = code;
			this.#waiters.wake();
		});
		defer(t, () => child.kill('SIGKILL'));
		return ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
	}

	#connect(t, stream) {
		const methods = new Map();
		const readable = stream.readable.pipeThrough(new TransformStream({
			transform: (message, controller) => {
				this.#note(message, methods);
				controller.enqueue(message);
			},
		}));
		const writer = stream.writable.getWriter();
		const writable = new WritableStream({
			write: (message) => {
				if (message.method && message.id !== undefined) {
					methods.set(message.id, message.method);
				}
				return writer.write(message);
			},
			close: () => writer.close(),
			abort: (reason) => writer.abort(reason),
		});
		const ask = (method) => (ctx) => this.#ask(method, ctx);
		this.connection = client({ name: 'an editor' })
			.onNotification('session/update', ({ params }) => {
				this.updates.push(params);
				this.#waiters.wake();
			})
			.onNotification('elicitation/complete', ({ params }) => {
				this.completed.push(params.elicitationId);
				this.#waiters.wake();
			})
			.onRequest('session/request_permission', ask('session/request_permission'))
			.onRequest('elicitation/create', ask('elicitation/create'))
			.connect({ readable, writable });
		this.connection.closed.then(() => {
			this.closed = true;
			this.#waiters.wake();
		});
		defer(t, () => this.close());
	}

	#note(message, methods) {
		this.messages.push(message);
		const name = message.method ? PARAMS[message.method] : message.result && RESULTS[methods.get(message.id)];
		try {
			assert.ok(!message.method || name, `a method that nobody expects: ${message.method}`);
			if (name) {
				check(name, message.method ? message.params : message.result);
			}
		} catch (error) {
			this.faults.push(error.message);
		}
		this.#waiters.wake();
	}

	#ask(method, { params, signal }) {
		return new Promise((resolve, reject) => {
			const question = { method, params, answer: resolve, isTakenBack: false, isAnswered: false };
			this.questions.push(question);
			signal.addEventListener('abort', () => {
				question.isTakenBack = true;
				this.#waiters.wake();
				reject(new Error('taken back'));
			});
			this.#waiters.wake();
		});
	}

	/** A request of any method, with options of the SDK; an error is thrown, with its `code` and `data`. */
	request(method, params, options) {
		return this.connection.agent.request(method, params, options);
	}

	notify(method, params) {
		return this.connection.agent.notify(method, params);
	}

	load(id, more = {}) {
		return this.request('session/load', { sessionId: id, cwd: '/', mcpServers: [], ...more });
	}

	resume(id, holdfast) {
		return this.request('session/resume', { sessionId: id, cwd: '/', ...(holdfast && { _meta: { holdfast } }) });
	}

	prompt(id, text, meta) {
		const prompt = typeof text === 'string' ? [{ type: 'text', text }] : text;
		return this.request('session/prompt', { sessionId: id, prompt, ...(meta && { _meta: { holdfast: meta } }) });
	}

	/** What the agent has said in a session. */
	said(id, kind = 'agent_message_chunk') {
		return this.of(id, kind).map(({ update }) => update.content.text ?? '').join('');
	}

	of(id, kind) {
		return this.updates.filter(({ sessionId, update }) => sessionId === id && (!kind || update.sessionUpdate === kind));
	}

	/** Where it is in a session, to resume there. */
	position(id) {
		const { seq, epoch, open } = this.of(id).at(-1)._meta.holdfast;
		return open === undefined ? { after_seq: seq, epoch } : { after_seq: seq - 1, epoch, open };
	}

	/** Waits until `probe`, asked after each message, gives something true. */
	until(probe, what = String(probe), ms = DEFAULT_MS) {
		return this.#waiters.until(probe, ms, () => `${what}; last: ${JSON.stringify(this.messages.slice(-4)).slice(0, 1500)} ${this.stderr ?? ''}`);
	}

	question(probe = () => true) {
		return this.until(() => this.questions.find((question) => !question.isTakenBack && !question.isAnswered && probe(question)), 'a question');
	}

	/** Nothing that came is against the schema. */
	assertGood() {
		assert.deepEqual(this.faults, []);
	}

	close() {
		this.connection.close();
		this.child?.kill();
	}
}

/** A line to the server that can be cut: it has an address that stays, also when the server comes back at another. */
export async function openLine(t, server) {
	const sockets = new Set();
	const line = createServer((socket) => {
		const { hostname, port } = new URL(server.url);
		const upstream = connect(Number(port), hostname);
		for (const [one, other] of [[socket, upstream], [upstream, socket]]) {
			sockets.add(one);
			one.pipe(other);
			one.on('error', () => {});
			one.on('close', () => {
				sockets.delete(one);
				other.destroy();
			});
		}
	});
	line.listen(0, '127.0.0.1');
	await once(line, 'listening');
	const cut = () => sockets.forEach((socket) => socket.destroy());
	defer(t, () => new Promise((done) => {
		line.close(done);
		cut();
	}));
	return { url: `http://127.0.0.1:${line.address().port}`, token: server.token, cut, get count() { return sockets.size / 2; } };
}
