// A low limit of open files, and a storm of connections that are refused and do not go: sockets keep to their share, so the store opens what it needs.

import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { Observer } from '../support/observer.mjs';
import { Server } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';

const FILES = 128;
const SHARE = FILES / 2; // of sockets, whatever descriptor_reserve says

/** How many sockets a process has, and how many files of any kind. */
function count({ pid }) {
	const links = readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
		try {
			return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
		} catch {
			return []; // it has just been closed
		}
	});
	return { sockets: links.filter((link) => link.startsWith('socket:')).length, all: links.length };
}

const HALF_A_REQUEST = 'POST /api/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{';
const A_HANDSHAKE = 'GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n';

/** Clients that connect, send something, and close only when it is over. */
class Storm {
	refused = 0;
	#sockets = new Set();

	constructor(t, server) {
		this.port = Number(new URL(server.url).port);
		defer(t, () => this.end());
	}

	begin(n) {
		for (let i = 0; i < n; i++) {
			const socket = net.connect({ port: this.port, host: '127.0.0.1', allowHalfOpen: true });
			socket.on('error', () => {}).on('data', (d) => (this.refused += d.includes('too_many_connections')));
			socket.write([HALF_A_REQUEST, A_HANDSHAKE, ''][i % 3]);
			this.#sockets.add(socket);
		}
	}

	end() {
		this.#sockets.forEach((socket) => socket.destroy());
		this.#sockets.clear();
	}
}

test('refused sockets that stay take nothing of what is kept for the store: inputs, new sessions and segments of the journal go on', async (t) => {
	const server = await Server.start(t, { prefix: ['prlimit', `--nofile=${FILES}:${FILES}`], args: ['--limit', 'segment_size=16K', '--limit', 'journal_ahead=4K', '--limit', 'half_open=1000', '--limit', 'hot_tail_size=1K'] });
	const before = count(server).sockets;
	await server.createSession({ id: 's' });
	const observer = await Observer.connect(t, server, 's', { query: { format: 'markdown' } });
	await observer.loadAll();
	const segments = () => readdirSync(join(server.dataDir, 'journal')).filter((name) => name.endsWith('.journal'));
	const first = segments();
	const writer = await Promise.all(Array.from({ length: 3 }, () => server.request('GET', '/healthz'))); // their connections stay open
	assert.ok(writer.every(({ status }) => status === 200));
	const storm = new Storm(t, server);
	let most = { sockets: 0, all: 0 };
	const look = () => {
		const now = count(server);
		most = { sockets: Math.max(most.sockets, now.sockets - before), all: Math.max(most.all, now.all) };
	};
	for (let n = 0, calm = 0; n < 60 || calm < 20; n++) {
		storm.begin(10);
		await post(server, 's', [{ ...input.note({ n, text: 'x'.repeat(2000) }), key: `k${n}` }]);
		look();
		if (n % 3 === 0) {
			await server.createSession({ id: `s${n}` });
			await post(server, `s${n}`, [input.text(`text ${n}\n\n`), input.end()]);
			look();
		}
		calm = storm.refused > 100 ? calm + 1 : 0;
		assert.ok(n < 600, `only ${storm.refused} were refused`);
	}
	assert.ok(most.sockets <= SHARE + 1, `${most.sockets} sockets of ${SHARE}, ${most.all} files of ${FILES}`);
	assert.ok(segments().some((name) => !first.includes(name)), 'the journal has begun new segments');
	await eventually(() => observer.events().length >= 60, 'the observer to see all');
	assert.doesNotMatch(server.stderr, /Too many open files|cannot accept a connection|cannot be written/);
	storm.end();
	await eventually(async () => count(server).sockets < before + 20, 'the sockets to go');
});
