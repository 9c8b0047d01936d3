// RFC 6455 on all three sockets of the real server, case by case, each whole and octet by octet: framing, control frames, reserved
// bits and opcodes, fragments, masking, UTF-8, closing, limits (the areas of Autobahn's sections 1 to 7 and 9). There is no echo: a
// `keepalive` has its number in the answer, and a text that is no JSON is refused with `bad_json` if it is UTF-8. Whatever comes, the
// server closes with the right code, lives, and takes the next connection.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONTINUATION, RawSocket, upgrade } from '../support/raw_socket.mjs';
import { BINARY, CLOSE, PING, PONG, SOCKETS, TEXT, closing, frame, keepalive, open, runWsCase, transcript } from '../support/raw_ws.mjs';
import { Server } from '../support/server.mjs';
import { runCases } from '../support/standing.mjs';

const hex = (text) => Buffer.from(text.replace(/ /g, ''), 'hex');
const ask = (n, options) => frame(TEXT, keepalive(n), options);
const part = (payload, options) => frame(TEXT, payload, { fin: false, ...options });
const more = (payload, options) => frame(CONTINUATION, payload, { fin: false, ...options });
const last = (payload, options) => frame(CONTINUATION, payload, options);
const close = (code, reason) => frame(CLOSE, closing(code, reason));

/** A text in frames of `size` octets. */
function fragments(text, size, opcode = TEXT) {
	const bytes = Buffer.from(text);
	return Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
		frame(n === 0 ? opcode : CONTINUATION, bytes.subarray(n * size, (n + 1) * size), { fin: (n + 1) * size >= bytes.length }));
}

const SIZES = [125, 126, 127, 128, 65_535, 65_536, 65_537];
const FRAMING = [
	{ name: 'the shortest message', send: [ask(1)], data: ['ack 1'] },
	{ name: 'an empty text', send: [frame(TEXT)], data: ['error bad_json'] },
	...SIZES.map((size) => ({ name: `a text of ${size} octets`, send: [frame(TEXT, keepalive(1, size))], data: ['ack 1'] })),
	...[0, ...SIZES].map((size) => ({ name: `a binary message of ${size} octets`, send: [frame(BINARY, Buffer.alloc(size, 0xfe))], data: ['error bad_request'] })),
	{ name: 'several messages in a row', send: [1, 2, 3].map((n) => ask(n)), data: ['ack 1', 'ack 2', 'ack 3'] },
	...[[60, 16], [60, 64], [125, 16], [126, 64], [65_535, 64]].map(([size, form]) =>
		({ name: `${size} octets with a length of ${form} bits`, send: [frame(TEXT, keepalive(1, size), { form })], close: 1002 })),
	{ name: 'a ping with a length of 16 bits', send: [frame(PING, 'x', { form: 16 })], close: 1002 },
	{ name: 'a length with its highest bit', send: [frame(TEXT, '', { form: 64, size: 1n << 63n })], close: 1002 },
	{ name: 'a length of all ones', send: [frame(TEXT, '', { form: 64, size: (1n << 64n) - 1n })], close: 1002 },
];

const CONTROL = [
	{ name: 'an empty ping', send: [frame(PING)], pongs: [''] },
	{ name: 'a ping with text', send: [frame(PING, 'Hello')], pongs: ['Hello'] },
	{ name: 'a ping with octets that are no text', send: [frame(PING, hex('00fffefdfcfb00ff'))], pongs: ['\0ÿþýüû\0ÿ'] },
	{ name: 'a ping of 125 octets', send: [frame(PING, 'x'.repeat(125))], pongs: ['x'.repeat(125)] },
	{ name: 'a ping of 126 octets', send: [frame(PING, 'x'.repeat(126))], close: 1002 },
	{ name: 'a ping of 65,536 octets', send: [frame(PING, 'x'.repeat(65_536))], close: 1002 },
	{ name: 'a pong of 126 octets', send: [frame(PONG, 'x'.repeat(126))], close: 1002 },
	{ name: 'a pong that nobody asked for', send: [frame(PONG), frame(PONG, 'x'), ask(1)], data: ['ack 1'] },
	{ name: 'a pong, then a ping', send: [frame(PONG, 'a'), frame(PING, 'b')], pongs: ['b'] },
	{ name: 'ten pings', send: Array.from({ length: 10 }, (_, n) => frame(PING, `${n}`)), pongs: Array.from({ length: 10 }, (_, n) => `${n}`) },
	{
		name: 'pings between messages', send: [frame(PING, 'a'), ask(1), frame(PING, 'b'), frame(PING, 'c'), ask(2)],
		data: ['ack 1', 'ack 2'], pongs: ['a', 'b', 'c'],
	},
];

const KINDS = [['text', TEXT], ['binary', BINARY], ['ping', PING], ['pong', PONG], ['close', CLOSE]];
const RESERVED = [
	...[1, 2, 3, 4, 5, 6, 7].map((rsv) => ({ name: `reserved bits ${rsv}`, send: [ask(1), frame(TEXT, keepalive(2), { rsv })], data: ['ack 1'], close: 1002 })),
	...KINDS.map(([name, opcode]) => ({ name: `a reserved bit in an empty ${name} frame`, send: [frame(opcode, '', { rsv: 4 })], close: 1002 })),
	{ name: 'a reserved bit in a continuation', send: [part('{'), last('}', { rsv: 1 })], close: 1002 },
	...[3, 4, 5, 6, 7, 11, 12, 13, 14, 15].flatMap((opcode) => [
		{ name: `opcode ${opcode}, empty`, send: [frame(opcode)], close: 1002 },
		{ name: `opcode ${opcode} behind a message and before a ping`, send: [ask(1), frame(opcode, 'x'), frame(PING)], data: ['ack 1'], close: 1002 },
		{ name: `opcode ${opcode}, not the last fragment`, send: [frame(opcode, 'x', { fin: false })], close: 1002 },
	]),
];

const FRAGMENTS = [
	{ name: 'a fragmented ping', send: [frame(PING, 'a', { fin: false }), last('b')], close: 1002 },
	{ name: 'a fragmented pong', send: [frame(PONG, 'a', { fin: false }), last('b')], close: 1002 },
	{ name: 'a fragmented close', send: [frame(CLOSE, closing(1000), { fin: false }), last('b')], close: 1002 },
	...[2, 20, 44].map((size) => ({ name: `a text in fragments of ${size}`, send: fragments(keepalive(1), size), data: ['ack 1'] })),
	{ name: 'a text in fragments of one octet', send: fragments(keepalive(1), 1), data: ['ack 1'] },
	{ name: 'empty fragments around a text', send: [part(''), more(''), more(keepalive(1)), last('')], data: ['ack 1'] },
	{ name: 'three empty fragments', send: [part(''), more(''), last('')], data: ['error bad_json'] },
	{ name: 'a binary message in fragments', send: fragments(keepalive(1), 10, BINARY), data: ['error bad_request'] },
	{ name: 'fragments with pings between them', send: fragments(keepalive(1), 9).flatMap((f, n) => [f, frame(PING, `${n}`)]), data: ['ack 1'], pongs: ['0', '1', '2', '3', '4'] },
	{ name: 'fragments with ten pings between two of them', send: [part(keepalive(1)), ...Array.from({ length: 10 }, (_, n) => frame(PING, `${n}`)), last('')], data: ['ack 1'], pongs: Array.from({ length: 10 }, (_, n) => `${n}`) },
	{ name: 'fragments with a pong between them', send: [part('{'), frame(PONG, 'x'), last('"')], data: ['error bad_json'] },
	{ name: 'two fragmented messages in a row', send: [...fragments(keepalive(1), 7), ...fragments(keepalive(2), 11)], data: ['ack 1', 'ack 2'] },
	{ name: 'a continuation of nothing', send: [last(keepalive(1))], close: 1002 },
	{ name: 'a continuation of nothing, with more to come', send: [more(keepalive(1))], close: 1002 },
	{ name: 'an empty continuation of nothing', send: [last('')], close: 1002 },
	{ name: 'a continuation behind a whole message', send: [ask(1), last('x'), ask(2)], data: ['ack 1'], close: 1002 },
	{ name: 'a continuation behind a fragmented message', send: [...fragments(keepalive(1), 9), last('x')], data: ['ack 1'], close: 1002 },
	{ name: 'a text inside a fragmented message', send: [part('{'), ask(1)], close: 1002 },
	{ name: 'a binary frame inside a fragmented message', send: [part('{'), frame(BINARY, 'x')], close: 1002 },
	{ name: 'a text begun inside a fragmented message', send: [part('{'), part('{')], close: 1002 },
	{ name: 'a close inside a fragmented message', send: [part('{'), close(1000)], answers: 'close 1000' },
];

const MASKING = [
	...KINDS.map(([name, opcode]) => ({ name: `an unmasked ${name} frame`, send: [frame(opcode, opcode === TEXT ? keepalive(1) : '', { mask: null })], close: 1002 })),
	{ name: 'an unmasked continuation', send: [part('{'), last('}', { mask: null })], close: 1002 },
	{ name: 'an unmasked frame behind a good one', send: [ask(1), ask(2, { mask: null })], data: ['ack 1'], close: 1002 },
	{ name: 'a mask of zeros', send: [ask(1, { mask: 0 })], data: ['ack 1'] },
	{ name: 'another mask in each fragment', send: [part('{"type":"keepalive",', { mask: 0x01020304 }), more('"data":{"client', { mask: 0xffffffff }), last('_time":1}}', { mask: 0x80000001 })], data: ['ack 1'] },
];

const VALID = ['κόσμε', 'Hello-µ@ßöäüàá-UTF-8!!', '\x7f', '\u0080', '\u07ff', '\u0800', '\ud7ff', '\ue000', '\ufeff', '\ufffd', '\ufffe', '\uffff', '\u{10000}', '\u{1fffe}', '\u{10ffff}', '\0'];
const INVALID = {
	'a continuation octet alone': ['80', 'bf', '80bf80bfbf'],
	'a first octet alone': ['c2 20', 'df 20', 'e1 20', 'ef 20', 'f1 20', 'f4 20'],
	'a character that is cut': ['ce', 'e1 80', 'ef bf', 'f1 80 80', 'f4 8f bf'],
	'a character that is cut before another': ['e1 80 e1 80', 'f0 90 80 41'],
	'impossible octets': ['c0', 'c1', 'f5', 'f8', 'fc', 'fe', 'ff', 'fefeffff'],
	'a longer form than needed': ['c0 80', 'c0 af', 'c1 bf', 'e0 80 af', 'e0 9f bf', 'f0 80 80 af', 'f0 8f bf bf', 'f8 80 80 80 af', 'fc 80 80 80 80 af'],
	'a surrogate': ['ed a0 80', 'ed ad bf', 'ed bf bf', 'ed a0 80 ed b0 80', 'ed af bf ed bf bf'],
	'beyond U+10FFFF': ['f4 90 80 80', 'f7 bf bf bf', 'f8 88 80 80 80', 'fc 84 80 80 80 80'],
};
const GOOD = Buffer.from('κόσμε');
const BAD = hex('cebae1bdb9cf83cebcceb5 eda080 656469746564'); // a surrogate between good text
const UTF8 = [
	...VALID.flatMap((text) => {
		const name = [...text].length > 1 ? JSON.stringify(text) : `U+${text.codePointAt(0).toString(16)}`;
		return [
			{ name: `${name}, valid`, send: [frame(TEXT, text)], data: ['error bad_json'] },
			{ name: `${name}, valid, an octet in each fragment`, send: fragments(text, 1), data: ['error bad_json'] },
		];
	}),
	...Object.entries(INVALID).flatMap(([name, all]) => all.flatMap((octets) => [
		{ name: `${name}: ${octets}`, send: [frame(TEXT, hex(octets))], close: 1007 },
		{ name: `${name}: ${octets}, at the end of text`, send: [frame(TEXT, Buffer.concat([GOOD, hex(octets)]))], close: 1007 },
		{ name: `${name}: ${octets}, an octet in each fragment`, send: fragments(hex(octets), 1), close: 1007 },
	])),
	{ name: 'invalid in JSON', send: [frame(TEXT, hex(Buffer.from(keepalive(1).replace('1', '"\xff"'), 'latin1').toString('hex')))], close: 1007 },
	{ name: 'invalid behind a good message', send: [ask(1), frame(TEXT, BAD)], data: ['ack 1'], close: 1007 },
	{ name: 'invalid in the first fragment, before the rest has come', send: [part(BAD)], close: 1007 },
	{ name: 'invalid in the second fragment, before the rest has come', send: [part(GOOD), more(BAD)], close: 1007 },
	{ name: 'impossible over the end of a fragment, before the rest has come', send: [part(hex('41 ed')), more(hex('a0'))], close: 1007 },
	{ name: 'a character cut at the end of a fragment by one that is none', send: [part(hex('41 e1 80')), more('B')], close: 1007 },
	{ name: 'invalid before the rest of the frame has come', send: [frame(TEXT, BAD, { size: 1000 })], close: 1007 },
	{ name: 'invalid at its last octet before the rest of the frame has come', send: [frame(TEXT, hex('41 f4 90'), { size: 1000 })], close: 1007 },
	{ name: 'a character that goes on in the next fragment, with a ping between', send: [part(hex('ce')), frame(PING, 'x'), last(hex('ba'))], data: ['error bad_json'], pongs: ['x'] },
	{ name: 'binary octets need be no UTF-8', send: [frame(BINARY, BAD)], data: ['error bad_request'] },
	{ name: 'text that is none between binary fragments', send: [...fragments(BAD, 3, BINARY), ask(1)], data: ['error bad_request', 'ack 1'] },
];

const CLOSING = [
	{ name: 'a close without a code', send: [frame(CLOSE)], answers: ['close', 'close 1000'] },
	...[1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999].map((code) =>
		({ name: `code ${code}`, send: [close(code)], answers: `close ${code}` })),
	...[0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535].map((code) => ({ name: `code ${code}`, send: [close(code)], close: 1002 })),
	{ name: 'a code and a reason', send: [close(1000, 'Good bye, ελλάδα')], answers: 'close 1000' },
	{ name: 'a reason of 123 octets', send: [close(1000, 'x'.repeat(123))], answers: 'close 1000' },
	{ name: 'a reason of 124 octets', send: [close(1000, 'x'.repeat(124))], close: 1002 },
	{ name: 'a reason that is no UTF-8', send: [close(1000, BAD)], close: 1007 },
	{ name: 'a reason that is cut in a character', send: [close(1000, hex('ce'))], close: 1007 },
	{ name: 'half a code', send: [frame(CLOSE, hex('03'))], close: 1002 },
	{ name: 'a message, then a close', send: [ask(1), close(1000)], data: ['ack 1'], answers: 'close 1000' },
	{ name: 'a ping, then a close', send: [frame(PING, 'x'), close(1000)], pongs: ['x'], answers: 'close 1000' },
	{ name: 'a message behind a close', send: [close(1000), ask(1)], answers: 'close 1000' },
	{ name: 'a ping behind a close', send: [close(1000), frame(PING, 'x')], answers: 'close 1000' },
	{ name: 'a second close', send: [close(1000), close(4000)], answers: 'close 1000' },
	{ name: 'what is no frame behind a close', send: [close(1000), Buffer.alloc(300, 0xff)], answers: 'close 1000' },
	{ name: 'a fragment, then a close, then the rest', send: [part('{'), close(1000), last('}')], answers: 'close 1000' },
	{ name: '256 KiB behind a close', send: [close(1000), frame(BINARY, Buffer.alloc(256 << 10))], answers: 'close 1000' },
];

/** Those depend on the largest message of the socket. */
const limits = (limit) => [
	{ name: 'a text of as much as may be', send: [frame(TEXT, keepalive(1, limit))], data: ['ack 1'] },
	{ name: 'a text of as much as may be, in fragments of 64 KiB', send: fragments(keepalive(1, limit), 65_536), data: ['ack 1'] },
	{ name: 'a text of one octet more', send: [frame(TEXT, keepalive(1, limit + 1))], close: 1009 },
	{ name: 'a text of one octet more, in fragments of 64 KiB', send: fragments(keepalive(1, limit + 1), 65_536), close: 1009 },
	{ name: 'a binary message of one octet more', send: [frame(BINARY, Buffer.alloc(limit + 1))], close: 1009 },
	{ name: 'a length over the limit, of which nothing has come', send: [frame(TEXT, '', { size: limit + 1 })], close: 1009 },
	{ name: 'a length over the limit in the second fragment', send: [part('{'), last('', { size: limit })], close: 1009 },
	{ name: 'a length of 2^32', send: [frame(TEXT, '', { size: 2 ** 32 })], close: 1009 },
	{ name: 'a length of 2^63 - 1', send: [frame(TEXT, '', { form: 64, size: (1n << 63n) - 1n })], close: 1009 },
	{ name: 'fragments whose sum does not fit into 64 bits', send: [part('{'), last('', { form: 64, size: (1n << 63n) - 1n })], close: 1009 },
	{ name: 'a good message before one over the limit', send: [ask(1), frame(TEXT, '', { size: limit + 1 })], data: ['ack 1'], close: 1009 },
	{ name: 'pings inside a large fragmented message', send: fragments(keepalive(1, limit), limit >> 3).flatMap((f, n) => [f, frame(PING, `${n}`)]), data: ['ack 1'], pongs: ['0', '1', '2', '3', '4', '5', '6', '7'] },
];

/** Octets by themselves, but of what is long a few thousand at a time. */
const stepFor = (send) => (send.reduce((sum, f) => sum + f.length, 0) > 3000 ? 4093 : 1);

async function start(t) {
	const server = await Server.start(t, { auth: false });
	await server.createSession({ id: 'one' });
	return server;
}

const both = (cases) => cases.flatMap((one) => [{ ...one, step: 0 }, { ...one, name: `${one.name}, in pieces`, step: stepFor(one.send) }]);
const SECTIONS = { framing: FRAMING, 'control frames': CONTROL, 'reserved bits and opcodes': RESERVED, fragments: FRAGMENTS, masking: MASKING, 'UTF-8': UTF8, closing: CLOSING };

for (const { name: socket, path, limit } of SOCKETS) {
	for (const [section, cases] of Object.entries({ ...SECTIONS, limits: limits(limit) })) {
		test(`${socket}: ${section}`, async (t) => {
			await runCases(t, await start(t), both(cases), (sub, server, one) => runWsCase(sub, server, path, one, one.step));
		});
	}
}

/** What a peer leaves unfinished when it goes: nobody is told, the server lives. */
const LEFT = {
	nothing: '', 'half a header': frame(TEXT, 'x'.repeat(200)).subarray(0, 3), 'half a payload': frame(TEXT, keepalive(1)).subarray(0, 20),
	'a fragment': part('{'), 'half a ping': frame(PING, 'x'.repeat(50)).subarray(0, 30), 'a question that is not answered yet': ask(1),
	'half a close': close(1000).subarray(0, 7), 'a protocol error': frame(TEXT, '', { rsv: 7 }),
};

test('a peer that goes away', async (t) => {
	const cases = SOCKETS.flatMap(({ name: socket, path }) => Object.entries(LEFT).flatMap(([name, bytes]) =>
		['finish', 'drop'].map((how) => ({ name: `${socket}: ${name}, ${how}`, path, bytes, how }))));
	await runCases(t, await start(t), cases, async (sub, server, { path, bytes, how }) => {
		const socket = await open(sub, server, path);
		await socket.send(bytes);
		socket[how]();
		if (how === 'finish') {
			await socket.waitEnd(); // RFC 6455, 7.1.4: the connection is over, for the server too
		}
	});
});

test('a peer that goes away in the handshake', async (t) => {
	const whole = upgrade('/api/sessions/one/ws');
	const cases = [0, 1, 20, whole.length - 1, whole.length].flatMap((at) => ['finish', 'drop'].map((how) => ({ name: `at octet ${at}, ${how}`, at, how })));
	await runCases(t, await start(t), cases, async (sub, server, { at, how }) => {
		const socket = await RawSocket.connect(sub, server);
		await socket.send(whole.slice(0, at));
		socket[how]();
		if (how === 'finish') {
			await socket.waitEnd();
		}
	});
});

test('a peer that does not answer a close, and one that does not end', async (t) => {
	const server = await start(t);
	for (const { path } of SOCKETS) {
		const silent = await open(t, server, path);
		await silent.send(frame(TEXT, '', { rsv: 7 })); // closed with 1002, and left so: nothing waits for it
		assert.equal((await silent.frame()).opcode, CLOSE);
		const half = await open(t, server, path);
		await half.send(close(1000));
		assert.deepEqual(await transcript(half, true), { data: [], pongs: [], close: 'close 1000' });
	}
});
