// Clients that want to hurt: as many of each kind as is said, against one server, until they are stopped. Each that the server gets rid of
// comes back. Run as a program, it does so until its stdin ends: hostile_clients.mjs URL TOKEN SESSION COUNT.

import net from 'node:net';
import { pathToFileURL } from 'node:url';

const PAUSE_MS = 50;

const mask = Buffer.from([1, 2, 3, 4]);

/** A masked frame; `size`: what its header claims. */
function frame(opcode, text, size = text.length) {
	const payload = Buffer.from(text).map((byte, i) => byte ^ mask[i % 4]);
	const head = size < 126 ? Buffer.from([0x80 | opcode, 0x80 | size]) : Buffer.alloc(10);
	if (size >= 126) {
		head[0] = 0x80 | opcode;
		head[1] = 0x80 | 127;
		head.writeBigUInt64BE(BigInt(size), 2);
	}
	return Buffer.concat([head, mask, payload]);
}

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const json = (type, data = {}) => JSON.stringify({ type, data });

class Hostile {
	constructor(target) {
		this.target = target;
	}

	/** Connects, does its worst, and comes back when it has been got rid of. */
	async run() {
		while (!this.target.stopped) {
			const { hostname, port } = new URL(this.target.url);
			this.socket = net.connect({ host: hostname, port, noDelay: true });
			this.socket.on('error', () => {});
			this.socket.on('data', (data) => (this.target.received += data.length));
			this.gone = new Promise((resolve) => this.socket.once('close', resolve));
			this.isGone = false;
			this.gone.then(() => (this.isGone = true));
			await this.worst().catch(() => {});
			this.socket.destroy();
			await wait(PAUSE_MS);
		}
		this.socket?.destroy();
	}

	get goesOn() {
		return !this.isGone && !this.target.stopped;
	}

	/** Sends, and waits while the server takes nothing. */
	async send(data) {
		if (!this.socket.write(data)) {
			await Promise.race([new Promise((resolve) => this.socket.once('drain', resolve)), this.gone, wait(1000)]);
		}
	}

	head(method, path, fields = {}) {
		const all = { Host: '127.0.0.1', Authorization: `Bearer ${this.target.token}`, ...fields };
		return `${method} ${path} HTTP/1.1\r\n${Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
	}

	upgrade(path) {
		return this.send(this.head('GET', path, {
			Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
		}));
	}

	async again(what, pauseMs = 0) {
		for (let n = 0; this.goesOn; n++) {
			await this.send(what(n));
			await (pauseMs ? wait(pauseMs) : new Promise(setImmediate));
		}
	}
}

const path = ({ session }, door) => `/api/sessions/${session}/${door}`;

/** What each kind does with its connection. */
export const KINDS = {
	'slow heads': async (h) => {
		await h.send('GET / HTTP/1.1\r\n');
		await h.again((n) => `A${n}: b\r\n`, 300);
	},
	'slow bodies': async (h) => {
		await h.send(h.head('POST', path(h.target, 'events'), { 'Content-Type': 'application/json', 'Content-Length': 8_000_000 }));
		await h.again(() => 'x', 300);
	},
	'giant frames': async (h) => {
		await h.upgrade(path(h.target, 'ws'));
		await h.send(frame(1, 'x'.repeat(100), 0xffffffffff));
		await h.gone;
	},
	'a byte at a time': async (h) => {
		await h.upgrade(path(h.target, 'ws'));
		const bytes = frame(1, json('keepalive'));
		await h.again((n) => bytes.subarray(n % bytes.length, n % bytes.length + 1));
	},
	'ping floods': async (h) => {
		await h.upgrade(path(h.target, 'ws'));
		const many = Buffer.concat(Array.from({ length: 500 }, () => frame(9, 'x')));
		await h.again(() => many);
	},
	'half open': async (h) => h.gone,
	'wrong tokens': async (h) => h.again((n) => h.head('GET', '/api/sessions', { Authorization: `Bearer wrong${n}` })),
	'loads in a loop': async (h) => {
		await h.upgrade(`${path(h.target, 'ws')}?format=both`);
		const load = frame(1, json('load_events', { after_seq: 0, limit: 5000 }));
		await h.again(() => load);
	},
	'pages in a loop': async (h) => h.again(() => h.head('GET', `${path(h.target, 'events')}?after_seq=0&limit=5000`)),
	'never reading': async (h) => {
		await h.upgrade(path(h.target, 'ws'));
		h.socket.pause();
		await h.send(frame(1, json('load_events', { after_seq: 0, limit: 5000, follow: true })));
		await h.again(() => frame(1, json('keepalive')), 100);
	},
};

/** `count` of them, of all kinds in turn; gives {received, stop()}. */
export function startHostile({ url, token, session, count }) {
	const target = { url, token, session, stopped: false, received: 0 };
	const kinds = Object.values(KINDS);
	const all = Array.from({ length: count }, (_, n) => {
		const hostile = new Hostile(target);
		hostile.worst = () => kinds[n % kinds.length](hostile);
		return { hostile, ended: hostile.run() };
	});
	return {
		get received() {
			return target.received;
		},
		async stop() {
			target.stopped = true;
			all.forEach(({ hostile }) => hostile.socket?.destroy());
			await Promise.all(all.map(({ ended }) => ended));
		},
	};
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
	const [url, token, session, count] = process.argv.slice(2);
	startHostile({ url, token, session, count: Number(count) });
	process.stdin.resume().on('end', () => process.exit(0));
}
