// A connection of which a test decides every octet: plain HTTP/1.1 and WebSocket frames (RFC 9112, RFC 6455), with no library between.

import { createHash } from 'node:crypto';
import net from 'node:net';
import tls from 'node:tls';
import { trustOf } from './auth.mjs';
import { Waiters, defer } from './wait.mjs';

const DEFAULT_MS = 10_000;
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const ACCEPT = createHash('sha1').update(`${KEY}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');

export const TEXT = 1, BINARY = 2, CONTINUATION = 0, CLOSE = 8, PING = 9, PONG = 10;

export class RawSocket {
	#waiters = new Waiters();
	#socket;
	#plain; // the same without TLS
	#parts = [];
	#size = 0;
	/** Whether the server has ended its side (or all of it, with `error`). */
	ended = false;
	error = null;

	constructor(socket) {
		this.#socket = socket.setNoDelay(true);
		socket.on('connect', () => this.#waiters.wake());
		socket.on('secureConnect', () => this.#waiters.wake());
		socket.on('drain', () => this.#waiters.wake());
		socket.on('data', (d) => this.#wake(() => {
			this.#parts.push(d);
			this.#size += d.length;
		}));
		socket.on('end', () => this.#wake(() => (this.ended = true)));
		socket.on('close', () => this.#wake(() => (this.ended = true)));
		socket.on('error', (e) => this.#wake(() => (this.error = e)));
	}

	/** What came and was not read. */
	get #unread() {
		this.#parts = this.#parts.length > 1 ? [Buffer.concat(this.#parts)] : this.#parts;
		return this.#parts[0] ?? Buffer.alloc(0);
	}

	#wake(change) {
		change();
		this.#waiters.wake();
	}

	/** Connects to the server (`url` http://…); the socket is gone when `t` is over. */
	static async connect(t, { url }) {
		const { hostname, port } = new URL(url);
		const at = { host: hostname.replace(/^\[|\]$/g, ''), port, allowHalfOpen: true };
		const plain = net.connect(at);
		const socket = url.startsWith('https:') ? tls.connect({ socket: plain, host: 'localhost', ...trustOf(url) }) : plain;
		defer(t, () => socket.destroy());
		const raw = new RawSocket(socket);
		raw.#plain = plain.on('error', () => {}); // the other one tells
		await raw.until(() => (plain.readyState !== 'opening' && !socket.secureConnecting) || raw.error, 'the connection');
		return raw;
	}

	until(probe, what) {
		return this.#waiters.until(probe, DEFAULT_MS, () => `${what}; ${this.#heard()}`);
	}

	#heard() {
		return `${this.ended ? `the server ended (${this.error?.code ?? 'FIN'})` : 'open'}, unread: ${JSON.stringify(this.#unread.toString('latin1').slice(0, 400))}`;
	}

	/** Sends everything, in pieces of `step` octets (0: in one), each on its own; stops where the server has ended. */
	async send(data, step = 0) {
		const bytes = Buffer.from(data);
		for (let at = 0; at < bytes.length; at += step || bytes.length) {
			if (this.ended || this.#socket.destroyed) {
				return;
			}
			const rest = this.#socket.write(bytes.subarray(at, step ? at + step : bytes.length));
			await (rest ? new Promise(setImmediate) : this.#drained());
		}
	}

	#drained() {
		return this.until(() => !this.#socket.writableNeedDrain || this.#socket.destroyed || this.ended, 'the server to read');
	}

	/** Ends our side; `drop()` breaks the connection. */
	finish() {
		this.#socket.end();
	}

	drop() {
		if (this.#plain === this.#socket) {
			this.#plain.resetAndDestroy();
		} else {
			this.#socket.destroy(); // node cannot reset what carries TLS
		}
	}

	/** Stops and goes on reading. */
	pause() {
		this.#socket.pause();
	}

	resume() {
		this.#socket.resume();
	}

	/** Waits for the server to end its side; gives what came and was not read. */
	async waitEnd() {
		await this.until(() => this.ended, 'the end of the connection');
		return this.#unread.toString('latin1');
	}

	/**
	 * What `parse` makes of the unread octets: {value, used}; as long as it needs more (`atEnd`: no more will come), null or how
	 * many there must be in all.
	 */
	async read(parse, what) {
		let found;
		let least = 0;
		await this.until(() => {
			if (this.#size < least && !this.ended) {
				return false;
			}
			found = parse(this.#unread, this.ended);
			if (typeof found !== 'object' || !found) {
				if (this.ended) {
					throw new Error(`the connection ended (${this.error?.code ?? 'FIN'}) before ${what}; ${this.#heard()}`);
				}
				least = found ?? 0;
				return false;
			}
			return true;
		}, what);
		this.#parts = [this.#unread.subarray(found.used)];
		this.#size -= found.used;
		return found.value;
	}

	/** The next answer: {status, version, headers (names in lower case), raw (the lines), body, bytes}. `bodyless`: to HEAD. */
	answer({ bodyless = false } = {}) {
		return this.read((bytes, atEnd) => parseAnswer(bytes, atEnd, bodyless), 'an HTTP answer');
	}

	/** The next frame: {fin, rsv, opcode, masked, payload}. */
	frame() {
		return this.read(parseFrame, 'a frame');
	}
}

function parseAnswer(bytes, atEnd, bodyless) {
	const end = bytes.indexOf('\r\n\r\n');
	if (end < 0) {
		return null;
	}
	const [first, ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
	const [, version, code] = /^HTTP\/(1\.[01]) (\d{3})(?: |$)/.exec(first) ?? [];
	if (!version) {
		throw new Error(`no status line: ${JSON.stringify(first)}`);
	}
	const headers = {};
	for (const line of lines) {
		const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
		if (!name) {
			throw new Error(`no header line: ${JSON.stringify(line)}`);
		}
		headers[name.toLowerCase()] = name.toLowerCase() in headers ? `${headers[name.toLowerCase()]}, ${value}` : value;
	}
	const status = Number(code);
	const value = (body, used) => ({ value: { status, version, headers, raw: lines, body: body.toString(), bytes: body }, used });
	const from = end + 4;
	if (bodyless || status < 200 || status === 204 || status === 304) {
		return value(Buffer.alloc(0), from);
	}
	if (/chunked/i.test(headers['transfer-encoding'] ?? '')) {
		return parseChunks(bytes, from, value);
	}
	if (headers['content-length'] === undefined) {
		return atEnd ? value(bytes.subarray(from), bytes.length) : null;
	}
	const to = from + Number(headers['content-length']);
	return bytes.length < to ? to : value(bytes.subarray(from, to), to);
}

function parseChunks(bytes, from, value) {
	const parts = [];
	for (let at = from; ;) {
		const eol = bytes.indexOf('\r\n', at);
		const size = eol < 0 ? NaN : parseInt(bytes.toString('latin1', at, eol), 16);
		if (eol < 0 || bytes.length < eol + 2 + size + 2) {
			return null;
		}
		parts.push(bytes.subarray(eol + 2, eol + 2 + size));
		at = eol + 2 + size + 2;
		if (size === 0) {
			return value(Buffer.concat(parts), at);
		}
	}
}

function parseFrame(bytes) {
	if (bytes.length < 2) {
		return null;
	}
	const short = bytes[1] & 127;
	const from = { 126: 4, 127: 10 }[short] ?? 2;
	if (bytes.length < from) {
		return null;
	}
	const size = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
	if (bytes.length < from + size) {
		return from + size;
	}
	const payload = Buffer.from(bytes.subarray(from, from + size));
	return { value: { fin: bytes[0] >> 7 === 1, rsv: (bytes[0] >> 4) & 7, opcode: bytes[0] & 15, masked: bytes[1] > 127, payload }, used: from + size };
}

/** How a length is written: its octets behind the first two, by the form (7, 16 or 64; without one the shortest). */
function lengthOf(size, form = size < 126 ? 7 : size < 65536 ? 16 : 64) {
	const extended = Buffer.alloc({ 7: 0, 16: 2, 64: 8 }[form]);
	if (form === 16) {
		extended.writeUInt16BE(size);
	} else if (form === 64) {
		extended.writeBigUInt64BE(BigInt(size));
	}
	return [{ 7: Number(size), 16: 126, 64: 127 }[form], extended];
}

/** The octets of one frame of a client. `size` announces another length than the payload has; `mask: null`: unmasked. */
export function frame(opcode, payload = '', { fin = true, rsv = 0, mask = 0x5a3c9617, form, size } = {}) {
	const body = Buffer.from(payload);
	const [short, extended] = lengthOf(size ?? body.length, form);
	const head = Buffer.from([(fin ? 128 : 0) | (rsv << 4) | opcode, (mask === null ? 0 : 128) | short]);
	if (mask === null) {
		return Buffer.concat([head, extended, body]);
	}
	const key = Buffer.alloc(4);
	key.writeUInt32BE(mask);
	return Buffer.concat([head, extended, key, body.map((octet, n) => octet ^ key[n & 3])]);
}

/** The payload of a close frame. */
export function closing(code, reason = '') {
	return Buffer.concat([Buffer.from([code >> 8, code & 255]), Buffer.from(reason)]);
}

/** The head of a request: `fields` by name; undefined leaves one out, an array repeats it. */
export function head(method, target, fields = {}, version = 'HTTP/1.1') {
	const lines = Object.entries({ Host: '127.0.0.1', ...fields })
		.flatMap(([name, value]) => [value].flat().filter((v) => v !== undefined).map((v) => `${name}: ${v}\r\n`));
	return `${method} ${target} ${version}\r\n${lines.join('')}\r\n`;
}

/** The head of an upgrade; `fields` replace or add. */
export function upgrade(target, fields = {}, { method = 'GET', version } = {}) {
	return head(method, target, {
		Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': KEY, ...fields,
	}, version);
}

/** Whether the answer agrees to the upgrade, as RFC 6455, section 4.2.2, has it; else what is wrong. */
export function upgradeFault({ status, headers }) {
	const wanted = { status: 101, upgrade: 'websocket', connection: 'upgrade', 'sec-websocket-accept': ACCEPT, 'sec-websocket-extensions': undefined, 'sec-websocket-protocol': undefined };
	const found = { ...headers, status, upgrade: headers.upgrade?.toLowerCase(), connection: headers.connection?.toLowerCase() };
	const wrong = Object.keys(wanted).filter((name) => found[name] !== wanted[name]);
	return wrong.length === 0 ? null : wrong.map((name) => `${name} is ${found[name]}`).join(', ');
}
