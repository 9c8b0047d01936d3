// A WebSocket of a test: keeps every frame, holds each against its schema as it comes in, and waits.

import { once } from 'node:events';
import WebSocket from 'ws';
import { trustOf, withAuth } from './auth.mjs';
import { Waiters, defer, within } from './wait.mjs';

const DEFAULT_MS = 20_000;

export class TestSocket {
	#waiters = new Waiters();
	#check;
	#ws;
	/** Every frame so far, parsed: {type, data}. */
	frames = [];
	/** The first frame that was not as the schema says, as an Error; every wait fails with it. */
	fault = null;
	/** {code, reason} once it is closed. */
	closed = null;
	/** {status, headers, body} if the server refused to upgrade. */
	refusal = null;

	/**
	 * @param {import('node:test').TestContext} t ends the socket, and fails if a frame was bad
	 * @param {string} url @param {(frame: any) => string | null} check
	 */
	constructor(t, url, check, { headers = {}, protocols = [], paused = false, compressed = false } = {}) {
		this.#check = check;
		const host = url.startsWith('ws+unix:') ? { host: 'localhost' } : {};
		this.#ws = new WebSocket(url, protocols, { ...trustOf(url), headers: withAuth(url, { ...host, ...headers }), maxPayload: 64 << 20, perMessageDeflate: compressed && { threshold: 0 } });
		this.#ws.on('open', () => this.#waiters.wake());
		this.#ws.on('message', (data, isBinary) => this.#take(data, isBinary));
		this.#ws.on('close', (code, reason) => this.#end(code, String(reason)));
		// An error is always followed by a close, which is what tests wait for.
		this.#ws.on('error', (error) => (this.error = error));
		this.#ws.on('unexpected-response', (request, response) => this.#refused(request, response));
		if (paused) {
			this.#ws.on('open', () => this.#ws.pause());
		}
		defer(t, () => this.finish());
	}

	/** The extensions that were agreed on, as the header names them. */
	get extensions() {
		return this.#ws.extensions;
	}

	/** So many bytes came from the server, with the handshake. */
	get bytesReceived() {
		return this.#ws._socket.bytesRead;
	}

	#take(data, isBinary) {
		try {
			if (isBinary) {
				throw new Error('the server sent a binary frame');
			}
			const frame = JSON.parse(data.toString());
			const wrong = this.#check(frame);
			if (wrong !== null) {
				throw new Error(`a frame is not as proto/schema says: ${wrong}`);
			}
			this.frames.push(frame);
			this.onFrame(frame);
		} catch (error) {
			this.fault ??= error;
		}
		this.#waiters.wake();
	}

	/** For a subclass: every good frame, once; what it throws is a fault. */
	onFrame() {}

	#refused(request, response) {
		let body = '';
		response.setEncoding('utf8');
		response.on('data', (text) => (body += text));
		response.on('end', () => {
			this.refusal = { status: response.statusCode, headers: response.headers, body };
			request.destroy();
			this.#end(1006, '');
		});
	}

	#end(code, reason) {
		this.closed ??= { code, reason };
		this.#waiters.wake();
	}

	/** Sends a frame; resolves when it has been handed to the system. */
	send(type, data = {}) {
		return this.sendRaw(JSON.stringify({ type, data }));
	}

	/** Sends frames, [type, data] each, in one write: the server has them all before it answers the first. */
	sendTogether(...frames) {
		return this.sendRawTogether(frames.map(([type, data = {}]) => JSON.stringify({ type, data })));
	}

	/** The same of any texts. */
	async sendRawTogether(texts) {
		await this.waitUntil(() => this.#ws.readyState !== WebSocket.CONNECTING, 'the socket to open');
		this.#ws._socket.cork();
		const sent = texts.map((text) => this.sendRaw(text));
		this.#ws._socket.uncork();
		await Promise.all(sent);
	}

	/** Sends any text, or bytes as a binary frame (as a text frame with {binary: false}). */
	async sendRaw(payload, options = {}) {
		if (this.#ws.readyState === WebSocket.CONNECTING) {
			await this.waitUntil(() => this.#ws.readyState !== WebSocket.CONNECTING, 'the socket to open');
		}
		return new Promise((resolve, reject) => this.#ws.send(payload, options, (e) => (e ? reject(e) : resolve())));
	}

	/**
	 * The first frame, of those from `from` on (an index into `frames`), for which `match` is true: a
	 * type, or a function of the frame.
	 */
	waitFor(match, { from = 0, ms = DEFAULT_MS } = {}) {
		const wanted = typeof match === 'string' ? (frame) => frame.type === match : match;
		return this.waitUntil(() => this.frames.slice(from).find(wanted), `a frame ${match}`, ms);
	}

	/** Waits until `probe` (asked after every frame and at the end) gives something true. */
	waitUntil(probe, what, ms = DEFAULT_MS) {
		return this.#waiters.until(() => {
			if (this.fault) {
				throw this.fault;
			}
			const found = probe();
			if (!found && this.closed) {
				throw new Error(`closed (${this.closed.code} ${this.closed.reason}) while waiting for ${what}; ${this.#heard()}`);
			}
			return found;
		}, ms, () => `${what}; ${this.#heard()}`);
	}

	#heard() {
		const last = this.frames.slice(-3).map((f) => JSON.stringify(f).slice(0, 600));
		return `${this.frames.length} frames so far, the last: ${last.join(' ') || 'none'}`;
	}

	/** Waits for the end of the connection; gives {code, reason}. */
	waitClosed(ms = DEFAULT_MS) {
		return this.waitUntil(() => this.closed, 'the socket to close', ms);
	}

	/** Waits for the server to refuse the upgrade; gives {status, headers, body}. */
	waitRefused() {
		return this.waitUntil(() => this.refusal, 'the upgrade to be refused');
	}

	/** Breaks the connection without a closing handshake, as a lost network does. */
	drop() {
		this.#ws.terminate();
	}

	/** Stops and goes on reading: a client that does not keep up. */
	pause() {
		this.#ws.pause();
	}

	resume() {
		this.#ws.resume();
	}

	/** Closes as a client does that goes away. */
	async close(code = 1000) {
		if (!this.closed) {
			const gone = once(this.#ws, 'close');
			this.#ws.close(code);
			await within(gone, DEFAULT_MS, () => 'the closing handshake');
		}
	}

	/** At the end of a test: nothing stays open, and nothing that was wrong stays unsaid. */
	finish() {
		this.#ws.terminate();
		if (this.fault) {
			throw this.fault;
		}
	}
}
