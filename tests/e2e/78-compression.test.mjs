// Compression of messages (permessage-deflate, RFC 7692) and of pages over HTTP (gzip): what is agreed on, that it changes nothing but
// the size, and that nobody can make the server unpack more than it would take unpacked.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { constants, deflateRawSync, inflateRawSync } from 'node:zlib';
import { Observer } from '../support/observer.mjs';
import { Producer, input } from '../support/producer.mjs';
import { CONTINUATION, RawSocket, upgrade } from '../support/raw_socket.mjs';
import { BINARY, CLOSE, PING, SOCKETS, TEXT, closing, frame, keepalive } from '../support/raw_ws.mjs';
import { Server } from '../support/server.mjs';
import { runCases } from '../support/standing.mjs';

const WEB = fileURLToPath(new URL('../../web', import.meta.url));
const EXTENSIONS = 'Sec-WebSocket-Extensions';
const AGREED = 'permessage-deflate; server_no_context_takeover; client_no_context_takeover';
const TAIL = Buffer.from([0, 0, 255, 255]);

/** As RFC 7692, section 7.2.1, has it. */
function deflated(bytes, options = {}) {
	const packed = deflateRawSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH, ...options });
	assert.deepEqual(packed.subarray(-4), TAIL);
	return packed.subarray(0, -4);
}

async function start(t, options = {}) {
	const server = await Server.start(t, { auth: false, ...options });
	await server.createSession({ id: 'one' });
	return server;
}

async function handshake(t, server, path, offers) {
	const socket = await RawSocket.connect(t, server);
	await socket.send(upgrade(path, { [EXTENSIONS]: offers }));
	const { status, headers } = await socket.answer();
	assert.equal(status, 101);
	return { socket, agreed: headers['sec-websocket-extensions'] };
}

/** With the size of our window, which a client that offers it gets to hear. */
const SIZED = `${AGREED}; server_max_window_bits=15`;

/** What is offered, and whether it is agreed on. */
const OFFERS = [
	[undefined, false],
	['permessage-deflate', true],
	['Permessage-Deflate', true],
	['permessage-deflate; client_max_window_bits', true],
	['permessage-deflate;client_max_window_bits=9', true],
	['permessage-deflate; client_max_window_bits="10"', true],
	['permessage-deflate; server_max_window_bits=15', SIZED],
	['permessage-deflate; Server_Max_Window_Bits = "15"; client_max_window_bits', SIZED],
	['permessage-deflate; client_max_window_bits=8; server_max_window_bits=15; server_no_context_takeover; client_no_context_takeover', SIZED],
	['permessage-deflate; server_max_window_bits=14, permessage-deflate; server_max_window_bits=15', SIZED],
	['permessage-deflate, permessage-deflate; server_max_window_bits=15', true],
	[['permessage-deflate; unknown', 'permessage-deflate; server_max_window_bits=15'], SIZED],
	['permessage-deflate; server_max_window_bits=15; server_max_window_bits=15', false],
	['permessage-deflate; server_max_window_bits=015', false],
	['permessage-deflate; server_max_window_bits=" 15"', false],
	['permessage-deflate; client_max_window_bits=', false],
	['permessage-deflate;', false],
	['permessage-deflate; client_max_window_bits;', false],
	[', permessage-deflate', true],
	['permessage-deflate ; server_no_context_takeover ;\tclient_no_context_takeover', true],
	['x-other, permessage-deflate', true],
	['x-other; a="b, permessage-deflate; c"', false],
	['x-other; a="b\\", c", permessage-deflate', true],
	[['x-other', 'permessage-deflate'], true],
	['permessage-deflate; server_max_window_bits=10, permessage-deflate', true],
	['permessage-deflate; server_max_window_bits=10', false],
	['permessage-deflate; server_max_window_bits', false],
	['permessage-deflate; server_max_window_bits=16', false],
	['permessage-deflate; client_max_window_bits=7', false],
	['permessage-deflate; client_max_window_bits=016', false],
	['permessage-deflate; client_max_window_bits; client_max_window_bits', false],
	['permessage-deflate; server_no_context_takeover=1', false],
	['permessage-deflate; unknown', false],
	['permessage-deflate; =', false],
	['permessage-deflate-x', false],
	['x-webkit-deflate-frame', false],
	['"permessage-deflate"', false],
	[',;="', false],
	['', false],
];

test('what is agreed on', async (t) => {
	const cases = SOCKETS.flatMap(({ name, path }) => OFFERS.map(([offers, wanted]) => ({ name: `${name}: ${offers}`, path, offers, wanted })));
	await runCases(t, await start(t), cases, async (sub, server, { path, offers, wanted }) => {
		const { agreed } = await handshake(sub, server, path, offers);
		assert.equal(agreed, wanted === true ? AGREED : wanted || undefined);
	});
});

/** The next text of the server, unpacked, without what it says by itself. */
async function nextAnswer(socket) {
	for (;;) {
		const { opcode, rsv, payload } = await socket.frame();
		if (opcode === CLOSE) {
			return `close ${payload.readUInt16BE()}`;
		}
		if (opcode === TEXT) {
			const text = rsv === 4 ? inflateRawSync(Buffer.concat([payload, TAIL]), { finishFlush: constants.Z_SYNC_FLUSH }) : payload;
			const { type, data } = JSON.parse(text);
			if (type === 'keepalive_ack' || type === 'error') {
				return type === 'error' ? `error ${data.code}` : `ack ${data.client_time}`;
			}
		}
	}
}

const packed = (n, size) => deflated(keepalive(n, size));
const half = (bytes) => [bytes.subarray(0, bytes.length >> 1), bytes.subarray(bytes.length >> 1)];
const [begin, rest] = half(packed(1, 300));
const one = (payload, options) => [frame(TEXT, payload, { rsv: 4, ...options })];

/** Sent after a good handshake; what comes back. */
const MESSAGES = [
	['a short message', one(packed(1)), 'ack 1'],
	['a long one', one(packed(1, 900_000)), 'ack 1'],
	['one that is not compressed', [frame(TEXT, keepalive(1))], 'ack 1'],
	['two frames', [frame(TEXT, begin, { rsv: 4, fin: false }), frame(CONTINUATION, rest)], 'ack 1'],
	['two frames and an empty one', [frame(TEXT, begin, { rsv: 4, fin: false }), frame(CONTINUATION, rest, { fin: false }), frame(CONTINUATION)], 'ack 1'],
	['a ping between two frames', [frame(TEXT, begin, { rsv: 4, fin: false }), frame(PING, 'x'), frame(CONTINUATION, rest)], 'ack 1'],
	['blocks that are stored', one(deflated(keepalive(1, 500), { level: 0 })), 'ack 1'],
	['a block for each few bytes', one(Buffer.concat([...keepalive(1, 40).matchAll(/.{1,7}/g)].map(([part]) => deflateRawSync(part, { finishFlush: constants.Z_SYNC_FLUSH }))).subarray(0, -4)), 'ack 1'],
	['a last block (section 7.2.3.4)', one(Buffer.concat([deflateRawSync(keepalive(1, 50)), Buffer.from([0])])), 'ack 1'],
	['the message before it is no context', [...one(packed(9, 2000)), ...one(packed(1, 2000))], 'ack 9'],
	['a text that is no JSON', one(deflated('x'.repeat(2000))), 'error bad_json'],
	['an empty text', one(Buffer.from([0])), 'error bad_json'],
	['a compressed binary message', [frame(BINARY, packed(1), { rsv: 4 })], 'error bad_request'],
	['a bad block', one(Buffer.from([0x07, 1, 2, 3])), 'close 1007'],
	['a distance in front of the text', one(Buffer.from([0x4b, 0x04, 0x13, 0x00])), 'close 1007'],
	['a text that is not UTF-8', one(deflated(Buffer.from([0x22, 0xc3, 0x28, 0x22]))), 'close 1007'],
	['the bit on a continuation', [frame(TEXT, begin, { rsv: 4, fin: false }), frame(CONTINUATION, rest, { rsv: 4 })], 'close 1002'],
	['the bit on a ping', [frame(PING, '', { rsv: 4 })], 'close 1002'],
	['another bit', [frame(TEXT, packed(1), { rsv: 6 })], 'close 1002'],
];

test('compressed messages, whole and octet by octet', async (t) => {
	const cases = SOCKETS.flatMap(({ name, path }) => MESSAGES.map(([what, send, wanted]) => ({ name: `${name}: ${what}`, path, send, wanted })));
	await runCases(t, await start(t), cases, async (sub, server, { path, send, wanted }) => {
		const bytes = Buffer.concat(send);
		for (const step of bytes.length < 1000 ? [0, 1] : [0]) {
			const { socket } = await handshake(sub, server, path, 'permessage-deflate');
			await socket.send(bytes, step);
			assert.equal(await nextAnswer(socket), wanted);
			if (!wanted.startsWith('close')) {
				await socket.send(Buffer.concat([frame(TEXT, keepalive(77)), frame(CLOSE, closing(1000))]));
				let answer;
				do {
					answer = await nextAnswer(socket);
				} while (answer === 'ack 1' || answer.startsWith('error'));
				assert.equal(answer, 'ack 77');
			}
		}
	});
});

test('without the extension the bit is a mistake', async (t) => {
	const server = await start(t);
	const { socket } = await handshake(t, server, SOCKETS[0].path, undefined);
	await socket.send(one(packed(1))[0]);
	assert.equal(await nextAnswer(socket), 'close 1002');
});

test('a message that becomes too large is refused, as if it had come so', async (t) => {
	const server = await start(t);
	for (const { path, limit } of SOCKETS) {
		for (const size of [limit + 1, 30 * limit]) {
			const { socket } = await handshake(t, server, path, 'permessage-deflate');
			const small = deflated(Buffer.alloc(size, ' '), { level: 9 });
			assert.ok(small.length < size / 900);
			await socket.send(one(small)[0]);
			assert.equal(await nextAnswer(socket), 'error too_large');
			assert.equal(await nextAnswer(socket), 'close 1009');
		}
		const { socket } = await handshake(t, server, path, 'permessage-deflate');
		await socket.send(one(packed(1, limit))[0]);
		assert.equal(await nextAnswer(socket), 'ack 1');
	}
});

/** An event of about 3 KB and ten short ones. */
function makeEvents(n) {
	const text = Array.from({ length: 40 }, (_, i) => `Line ${i} of part ${n}, which says what **other** lines say too.`).join('\n');
	return [input.text(`${text}\n\n`), ...Array.from({ length: 10 }, (_, i) => input.text(`Short ${n}.${i}\n\n`))];
}

test('with and without compression observers get the same, live and in pages', async (t) => {
	const server = await start(t);
	const producer = await Producer.connect(t, server, 'one', { compressed: true });
	assert.match(producer.extensions, /^permessage-deflate/);
	const connect = async (compressed, format) => {
		const observer = await Observer.connect(t, server, 'one', { compressed, query: { format } });
		assert.equal(observer.extensions, compressed ? 'permessage-deflate' : '');
		await observer.loadAll();
		return observer;
	};
	const live = [];
	for (const format of ['markdown', 'html']) {
		live.push(await connect(true, format), await connect(false, format), await connect(true, format));
	}
	for (let n = 0; n < 30; n++) {
		await producer.append(...makeEvents(n));
	}
	await producer.append(input.end());
	const { max_seq: last } = (await server.request('GET', '/api/sessions/one')).body;
	assert.ok(last > 60, `${last} events`);
	for (const format of ['markdown', 'html']) {
		const late = [await connect(true, format), await connect(false, format)];
		const all = [...live.splice(0, 3), ...late];
		for (const observer of all) {
			await observer.waitUntil(() => observer.last === last, 'the last event');
		}
		for (const observer of all) {
			assert.deepEqual(observer.events(), all[0].events());
		}
		const [packedBytes, plainBytes] = late.map((observer) => observer.bytesReceived);
		assert.ok(packedBytes * 2 < plainBytes, `${packedBytes} bytes with compression, ${plainBytes} without`);
	}
});

test('pages and files over HTTP', async (t) => {
	const server = await start(t, { args: ['--web', WEB] });
	const producer = await Producer.connect(t, server, 'one');
	for (let n = 0; n < 5; n++) {
		await producer.append(...makeEvents(n));
		await server.createSession({ id: `session-with-a-long-name-${n}`, title: 'A title '.repeat(30) });
	}
	await producer.append(input.end()); // from here on nothing changes
	for (const target of ['/api/sessions/one/events?after_seq=0', '/api/sessions', '/', '/page/app.js']) {
		const answers = [];
		for (const accept of [undefined, 'gzip', 'br, GZIP', 'deflate', 'gzipped']) {
			const response = await fetch(new URL(target, server.url), { headers: { 'Accept-Encoding': accept ?? 'identity' } });
			assert.equal(response.status, 200);
			assert.match(response.headers.get('vary'), /accept-encoding/i);
			answers.push({ encoding: response.headers.get('content-encoding'), etag: response.headers.get('etag'), length: Number(response.headers.get('content-length')), text: await response.text() });
		}
		const [plain, ...others] = answers;
		assert.deepEqual(others.map(({ encoding }) => encoding), ['gzip', 'gzip', null, null], target);
		assert.equal(plain.encoding, null);
		for (const { encoding, etag, length, text } of others) {
			assert.equal(text, plain.text, target);
			assert.ok(encoding ? length * 2 < plain.length : length === plain.length, `${target}: ${length} of ${plain.length}`);
			assert.equal(etag === plain.etag, encoding === null || etag === null);
		}
		if (plain.etag !== null) {
			const again = await fetch(new URL(target, server.url), { headers: { 'Accept-Encoding': 'gzip', 'If-None-Match': others[0].etag } });
			assert.equal(again.status, 304);
			assert.equal(again.headers.get('etag'), others[0].etag);
		}
	}
});

test('--compression off: nothing is compressed', async (t) => {
	const server = await start(t, { args: ['--compression', 'off'] });
	const { agreed } = await handshake(t, server, SOCKETS[0].path, 'permessage-deflate');
	assert.equal(agreed, undefined);
	const response = await fetch(new URL('/api/sessions', server.url), { headers: { 'Accept-Encoding': 'gzip' } });
	assert.equal(response.headers.get('content-encoding'), null);
});
