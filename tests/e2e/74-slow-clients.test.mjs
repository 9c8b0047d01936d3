// Clients that begin something and do not go on. Each is ended after its limit, which is short here; whoever does go on, however
// slowly, within what proto/ allows, is not.

import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import tls from 'node:tls';
import { trustOf } from '../support/auth.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post as append } from '../support/producer.mjs';
import { RawSocket, head, upgrade } from '../support/raw_socket.mjs';
import { SOCKETS, TEXT, frame, keepalive, open } from '../support/raw_ws.mjs';
import { Server } from '../support/server.mjs';
import { defer, eventually, patience } from '../support/wait.mjs';

const EVENTS = '/api/sessions/one/events';
const NOTE = '{"type":"x-note","data":{}}';

let pace; // how long a server on this machine takes for as many requests as come at once here, with their connections (ms)

async function measurePace(t) {
	const server = await Server.start(t, { auth: false });
	const since = performance.now();
	await Promise.all(UNFINISHED.map(() => server.rawRequest('GET', '/healthz', { connection: 'close' })));
	return performance.now() - since;
}

/** With short limits of time for what a client has begun, but not so short that an honest one could not keep them. */
async function start(t) {
	pace ??= await measurePace(t);
	const ms = Math.ceil(Math.max(300 * patience, 4 * pace));
	const server = await Server.start(t, { auth: false, args: ['head_ms', 'keepalive_ms', 'receive_ms'].flatMap((name) => ['--limit', `${name}=${ms}`]) });
	await server.createSession({ id: 'one' });
	return server;
}

const post = (fields, body = '') => head('POST', EVENTS, { 'Content-Type': 'application/json', ...fields }) + body;
/** name, what comes before the silence; the answer may be 408 or none. */
const UNFINISHED = [
	['nothing at all', ''],
	['half a method', 'GE'],
	['half a request line', 'GET /healthz HTT'],
	['half a head', 'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n'],
	['all but the last octet of a head', head('GET', '/healthz').slice(0, -1)],
	['half a body', post({ 'Content-Length': NOTE.length }, NOTE.slice(0, 9))],
	['a body that does not begin', post({ 'Content-Length': NOTE.length })],
	['half a chunk', post({ 'Transfer-Encoding': 'chunked' }, 'ff\r\n{')],
	['chunks without an end', post({ 'Transfer-Encoding': 'chunked' }, '1\r\n{\r\n')],
	['half a trailer', post({ 'Transfer-Encoding': 'chunked' }, `${NOTE.length.toString(16)}\r\n${NOTE}\r\n0\r\nX-A: b\r\n`)],
	['half an upgrade', upgrade(SOCKETS[0].path).slice(0, -9)],
];

test('what is begun over HTTP and does not go on is ended', async (t) => {
	const server = await start(t);
	await Promise.all(UNFINISHED.map(async ([name, bytes]) => {
		const socket = await RawSocket.connect(t, server);
		await socket.send(bytes);
		const rest = await socket.waitEnd();
		assert.match(rest, /^($|HTTP\/1\.1 408 )/, name);
	}));
	// Not fetch(): it would use a connection that has rested and may be ended just now.
	const { body } = await server.rawRequest('GET', '/api/sessions/one', { connection: 'close' });
	assert.equal(JSON.parse(body).max_seq, 0);
});

test('a head that comes an octet at a time for ever is ended', async (t) => {
	const server = await start(t);
	const socket = await RawSocket.connect(t, server);
	await socket.send('GET /healthz HTTP/1.1\r\n');
	while (!socket.ended) {
		await socket.send('X');
		await new Promise((resolve) => setTimeout(resolve, 20));
	}
	assert.match(await socket.waitEnd(), /^($|HTTP\/1\.1 408 )/);
});

test('a frame that is begun and does not go on is ended, a message between two fragments too', async (t) => {
	const server = await start(t);
	await Promise.all(SOCKETS.flatMap(({ path }) => [frame(TEXT, keepalive(1)).subarray(0, 1), frame(TEXT, keepalive(1)).subarray(0, 20), frame(TEXT, '{', { fin: false })].map(async (bytes) => {
		const socket = await open(t, server, path);
		await socket.send(bytes);
		await socket.waitEnd();
	})));
});

test('who reads and writes nothing, between requests or messages, may wait', async (t) => {
	const server = await start(t);
	const sockets = await Promise.all(SOCKETS.map(({ path }) => open(t, server, path)));
	const busy = await RawSocket.connect(t, server); // all limits of the others have passed when its own, of a whole request, has
	await busy.send('GE');
	await busy.waitEnd();
	const again = await RawSocket.connect(t, server);
	await again.send('GE');
	await again.waitEnd();
	for (const socket of sockets) {
		await socket.send(frame(TEXT, keepalive(5)));
		const ack = () => socket.frame().then(({ opcode, payload }) => (opcode === TEXT ? JSON.parse(payload).data.client_time : ack()));
		assert.equal(await ack(), 5);
	}
});

test('a body of lines may be silent as long as it likes', async (t) => {
	const server = await start(t);
	const lines = await RawSocket.connect(t, server);
	await lines.send(head('POST', EVENTS, { 'Content-Type': 'application/x-ndjson', 'Transfer-Encoding': 'chunked' }));
	const line = `${(NOTE.length + 1).toString(16)}\r\n${NOTE}\n\r\n`;
	await lines.send(line);
	for (let n = 0; n < 2; n++) {
		const other = await RawSocket.connect(t, server);
		await other.send('GE');
		await other.waitEnd();
	}
	await lines.send(`${line}0\r\n\r\n`);
	assert.equal(JSON.parse((await lines.answer()).body).acks.length, 2);
});

const PAGE = 400;

/** A socket that loads large pages, and takes of them only what a test asks for. */
class SlowReader {
	#pieces = [];
	#size = 0;

	static async connect(t, server) {
		const reader = new SlowReader();
		const { hostname: host, port, protocol } = new URL(server.url);
		reader.socket = protocol === 'https:' ? tls.connect({ host, port, servername: 'localhost', ...trustOf(server.url) }) : net.connect({ host, port });
		reader.socket.on('error', () => {});
		defer(t, () => reader.socket.destroy());
		reader.socket.write(upgrade(SOCKETS[0].path));
		await reader.take(1);
		return reader;
	}

	/** Loads pages until more is kept for it than before, or somebody was cut off. */
	async fill(server) {
		const look = async () => {
			const now = await readMetrics(server);
			return [now('sending_bytes'), now('limit_reached_total{limit="send_size"}')];
		};
		const [kept, cut] = await look();
		await eventually(async () => {
			this.socket.write(frame(TEXT, `{"type":"load_events","data":{"limit":${PAGE}}}`));
			const [keptNow, cutNow] = await look();
			return keptNow > kept || cutNow > cut;
		}, 'its socket to be full');
	}

	/** Takes `size` more octets, at least. */
	take(size) {
		const least = this.#size + size;
		return this.#read(least, () => this.#size >= least);
	}

	/** Takes everything, until a frame has the event `seq`. */
	takeUntil(seq) {
		return this.#read(Infinity, () => this.frames().some(({ data }) => data.events?.at(-1)?.seq === seq));
	}

	async #read(most, isEnough) {
		await eventually(() => {
			assert.ok(!this.socket.readableEnded && !this.socket.destroyed, 'it was cut off');
			for (let piece; this.#size < most && (piece = this.socket.read());) {
				this.#pieces.push(piece);
				this.#size += piece.length;
			}
			return isEnough();
		}, 'more to come');
	}

	/** The frames that it has taken: [{type, data}]. */
	frames() {
		const frames = [];
		const bytes = Buffer.concat(this.#pieces);
		for (let at = bytes.indexOf('\r\n\r\n') + 4; at + 10 <= bytes.length;) {
			const short = bytes[at + 1];
			const from = at + (short === 127 ? 10 : short === 126 ? 4 : 2);
			const to = from + (short === 127 ? Number(bytes.readBigUInt64BE(at + 2)) : short === 126 ? bytes.readUInt16BE(at + 2) : short);
			if (to > bytes.length) {
				break;
			}
			frames.push(JSON.parse(bytes.subarray(from, to)));
			at = to;
		}
		return frames;
	}
}

test('when what many do not read has used up the memory, those that read go on, however slowly', async (t) => {
	const most = 12 << 20;
	const numbers = (count, from = 1) => Array.from({ length: count }, (_, i) => i + from);
	const server = await Server.start(t, { auth: false, args: ['--limit', `send_size=${most},page_size=16M,hot_tail_size=16M,ping_ms=3600s`] });
	await server.createSession({ id: 'one' });
	for (let n = 0; n < PAGE; n += 100) {
		await append(server, 'one', numbers(100).map(() => input.note({ text: 'x'.repeat(9_000) })));
	}
	const quick = await Observer.connect(t, server, 'one');
	await quick.loadAll();
	const slow = await SlowReader.connect(t, server);
	await slow.fill(server); // the first to be behind
	for (let n = 0; n < 8; n++) {
		await (await SlowReader.connect(t, server)).fill(server);
		await slow.take(1 << 19);
		await append(server, 'one', input.note({ n }));
		assert.ok((await readMetrics(server))('sending_bytes') <= most);
	}
	assert.ok((await readMetrics(server))('closes_total{code="1006"}') >= 4, 'some were cut off');
	await quick.waitForSeq(PAGE + 8);
	assert.deepEqual(quick.events().map((e) => e.seq), numbers(PAGE + 8));
	await slow.takeUntil(PAGE + 8);
	const seqs = slow.frames().flatMap(({ data }) => data.events ?? []).map((e) => e.seq);
	const begin = seqs.lastIndexOf(1) < 0 ? 0 : seqs.lastIndexOf(1);
	assert.deepEqual(seqs.slice(begin), numbers(seqs.length - begin, seqs[begin]));
});
