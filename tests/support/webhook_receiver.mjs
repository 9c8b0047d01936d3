// A receiver of webhooks, which verifies each message with npm standardwebhooks, unchanged, and fails in any way it is told to.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { scratchDir } from './server.mjs';
import { makeCert } from './tls.mjs';
import { defer, eventually } from './wait.mjs';

export const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;

export class Receiver {
	/** Each request whose signature is right: {id, path, headers, message, at}. */
	requests = [];
	/** Those whose signature is wrong. */
	refused = [];
	/** What a request gets: {status, headers, body}, or a function of the socket and the response; the request is its argument. */
	answer = () => ({ status: 204 });

	/** `tls`: with a certificate of its own; `file`: where the secrets are (made if it is not given). */
	static async start(t, { tls = false, secrets = [newSecret()], port = 0, file, cert } = {}) {
		const receiver = new Receiver();
		const given = tls ? (cert ?? makeCert(t)) : {};
		receiver.file = file ?? join(scratchDir(t), 'webhook-secret');
		if (!file) {
			writeFileSync(receiver.file, secrets.map((secret) => `${secret}\n`).join(''), { mode: 0o600 });
		}
		Object.assign(receiver, { secrets, cert: given.cert, sockets: new Set() });
		const take = (request, response) => void receiver.#take(request, response);
		receiver.server = tls ? https.createServer({ cert: readFileSync(given.cert), key: readFileSync(given.key) }, take) : http.createServer(take);
		receiver.server.on('connection', (socket) => {
			receiver.sockets.add(socket);
			socket.on('error', () => {});
			socket.on('close', () => receiver.sockets.delete(socket));
		});
		receiver.server.on('tlsClientError', () => {});
		await receiver.listen(port);
		receiver.url = `${tls ? 'https://localhost' : 'http://127.0.0.1'}:${receiver.port}/hook`;
		defer(t, () => receiver.close());
		return receiver;
	}

	async listen(port = this.port) {
		await new Promise((resolve, reject) => this.server.once('error', reject).listen(port, '127.0.0.1', resolve));
		this.port = this.server.address().port;
	}

	/** Nobody listens any more, and those who are connected are not. */
	async close() {
		const closed = new Promise((resolve) => this.server.close(resolve));
		this.sockets.forEach((socket) => socket.destroy());
		await closed;
	}

	/** Options of a server that sends here. */
	args(url = this.url) {
		return ['--webhook', url, '--webhook-secret', this.file, ...(this.cert ? ['--webhook-ca', this.cert] : [])];
	}

	async #take(request, response) {
		const parts = [];
		for await (const part of request) {
			parts.push(part);
		}
		const body = Buffer.concat(parts).toString();
		const known = this.secrets.some((secret) => {
			try {
				new Webhook(secret).verify(body, request.headers);
				return true;
			} catch {
				return false;
			}
		});
		const entry = { id: request.headers['webhook-id'], path: request.url, method: request.method, headers: request.headers, body, message: JSON.parse(body), at: Date.now() };
		(known ? this.requests : this.refused).push(entry);
		const answer = this.answer(entry, this.requests.length);
		if (typeof answer === 'function') {
			answer(request.socket, response);
		} else if (answer) {
			response.writeHead(answer.status, answer.headers).end(answer.body ?? '');
			entry.taken = answer.status >= 200 && answer.status < 300;
		}
	}

	/** What has been taken, each id once, in the order in which it came first. */
	get messages() {
		const seen = new Set();
		return this.requests.filter(({ id, taken }) => taken && !seen.has(id) && seen.add(id)).map(({ message }) => message);
	}

	/** Waits for so many of them. */
	async until(count, ms) {
		await eventually(() => this.messages.length >= count, () => `${count} messages; there are ${this.messages.length} of ${this.requests.length} requests`, ms);
		return this.messages;
	}
}

/** A message in short: `one 3 waiting`. */
export const short = ({ type, data }) => `${data.session_id} ${data.position.seq} ${type.replace('session.', '')}`;

/** What the log of a session has to be told, in its order. */
export async function expected(server, id) {
	const events = [];
	for (let more = true; more;) {
		const { body } = await server.request('GET', `/api/sessions/${encodeURIComponent(id)}/events?after_seq=${events.at(-1)?.seq ?? 0}&limit=5000&format=markdown`);
		events.push(...body.events);
		more = body.events.length > 0;
	}
	const kinds = { permission_request: 'waiting', turn_end: 'turn_ended' };
	const failures = ['exit', 'signal', 'spawn_failed', 'protocol', 'limit'];
	return events.flatMap(({ seq, type, data }) => {
		const kind = kinds[type] ?? (type === 'agent_stopped' && failures.includes(data.reason) ? 'agent_failed' : null);
		return kind ? [`${id} ${seq} ${kind}`] : [];
	});
}

/** Once by id, in order for each session, and all of it. */
export function assertTold(receiver, all) {
	const got = receiver.messages.map(short);
	for (const list of all) {
		const [id] = list[0].split(' ');
		assert.deepEqual(got.filter((text) => text.startsWith(`${id} `)), list);
	}
	assert.equal(got.length, all.flat().length);
}
