// A push service as browser vendors have them, and the browser that subscribes there: it reads what it is sent as RFC 8291
// and RFC 8292 have it, written from those texts.

import assert from 'node:assert/strict';
import { createDecipheriv, createECDH, createHmac, createPublicKey, randomBytes, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import https from 'node:https';
import { makeCert } from './tls.mjs';
import { defer, eventually } from './wait.mjs';

const hmac = (key, ...parts) => parts.reduce((sum, part) => sum.update(part), createHmac('sha256', key)).digest();
const number = (n) => Buffer.from([n]);

/** The browser's side of a subscription. */
export class Subscription {
	#pair = createECDH('prime256v1');
	#auth = randomBytes(16);

	/** @param {string} endpoint */
	constructor(endpoint) {
		this.#pair.generateKeys();
		this.endpoint = endpoint;
	}

	/** What a browser tells the server: PushSubscription.toJSON(), without its expirationTime. */
	get json() {
		return { endpoint: this.endpoint, keys: { p256dh: this.#pair.getPublicKey('base64url'), auth: this.#auth.toString('base64url') } };
	}

	/** RFC 8291, section 3.4, and RFC 8188, section 2. */
	decrypt(body) {
		const [salt, size, idLength] = [body.subarray(0, 16), body.readUInt32BE(16), body[20]];
		const sender = body.subarray(21, 21 + idLength);
		const record = body.subarray(21 + idLength);
		assert.ok(record.length <= size, 'one record');
		const shared = hmac(this.#auth, this.#pair.computeSecret(sender));
		const input = hmac(shared, 'WebPush: info\0', this.#pair.getPublicKey(), sender, number(1));
		const secret = hmac(salt, input);
		const key = hmac(secret, 'Content-Encoding: aes128gcm\0', number(1)).subarray(0, 16);
		const nonce = hmac(secret, 'Content-Encoding: nonce\0', number(1)).subarray(0, 12);
		const cipher = createDecipheriv('aes-128-gcm', key, nonce);
		cipher.setAuthTag(record.subarray(-16));
		const text = Buffer.concat([cipher.update(record.subarray(0, -16)), cipher.final()]);
		assert.equal(text.at(-1), 2, 'the last record');
		return JSON.parse(text.subarray(0, -1).toString());
	}
}

/** Checks `vapid t=…, k=…` (RFC 8292) and gives the claims and the key. */
export function readProof(header) {
	const { token, k } = /^vapid t=(?<token>[\w-]+\.[\w-]+\.[\w-]+), k=(?<k>[\w-]{87})$/.exec(header).groups;
	const [head, claims, signature] = token.split('.');
	const point = Buffer.from(k, 'base64url');
	const key = createPublicKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', x: point.subarray(1, 33).toString('base64url'), y: point.subarray(33).toString('base64url') } });
	assert.deepEqual(JSON.parse(Buffer.from(head, 'base64url')), { typ: 'JWT', alg: 'ES256' });
	assert.ok(verify('sha256', Buffer.from(`${head}.${claims}`), { key, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url')), 'the signature');
	return { claims: JSON.parse(Buffer.from(claims, 'base64url')), key: k };
}

export class PushService {
	/** Each request: {path, headers, message}. */
	requests = [];
	/** Answers: {status, headers} for each request, or null, which never answers. */
	answer = () => ({ status: 201 });

	/** What is waited for before the answer to so many requests. */
	hold = () => null;

	/** `name`: the host that it says it is. @returns {Promise<PushService>} */
	static async start(t, { name = 'localhost' } = {}) {
		const service = new PushService();
		const { cert, key } = makeCert(t, { names: [`DNS:${name}`] });
		Object.assign(service, { name, cert, subscriptions: new Map(), sockets: new Set() });
		const server = https.createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) => void service.take(request, response));
		server.on('connection', (socket) => service.sockets.add(socket));
		await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
		defer(t, () => {
			service.sockets.forEach((socket) => socket.destroy());
			return new Promise((resolve) => server.close(resolve));
		});
		service.port = server.address().port;
		return service;
	}

	/** Options of a server that sends to it. */
	args(address = ['--push-address', '127.0.0.1', '--push-address', '::1']) {
		return ['--push-host', `${this.name}:${this.port}`, '--push-ca', this.cert, ...address];
	}

	get origin() {
		return `https://${this.name}:${this.port}`;
	}

	/** A browser subscribes. */
	subscribe() {
		const path = `/push/${randomBytes(12).toString('base64url')}`;
		const subscription = new Subscription(this.origin + path);
		this.subscriptions.set(path, subscription);
		return subscription;
	}

	async take(request, response) {
		const parts = [];
		for await (const part of request) {
			parts.push(part);
		}
		const subscription = this.subscriptions.get(request.url);
		const seen = { method: request.method, path: request.url, headers: request.headers, subscription, message: null };
		try {
			seen.message = subscription?.decrypt(Buffer.concat(parts));
		} catch (error) {
			seen.error = error;
		}
		this.requests.push(seen);
		await this.hold(this.requests.length);
		const answer = this.answer(seen, this.requests.length);
		if (answer) {
			response.writeHead(answer.status, answer.headers).end(answer.body ?? '');
		}
	}

	/** The first `count` messages. */
	async messages(count) {
		await eventually(() => this.requests.length >= count, `${count} push messages`);
		for (const { error } of this.requests) {
			assert.ifError(error);
		}
		return this.requests.map(({ message }) => message);
	}
}
