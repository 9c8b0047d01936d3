// HTTP/1.1 on the real server (RFC 9110, RFC 9112), octet by octet: requests behind each other on one connection, bodies and their
// framing, header sections, request targets, hosts and origins. What is answered is answered in order and done once; what cannot be
// understood is refused, and nothing behind it is taken for a request.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { Server } from '../support/server.mjs';
import { runCases } from '../support/standing.mjs';

const EVENTS = '/api/sessions/one/events';
const JSON_TYPE = { 'Content-Type': 'application/json' };
const note = (n) => JSON.stringify({ type: 'x-note', data: { n } });
const get = (target, fields) => head('GET', target, fields);
const LAST = get('/healthz', { Connection: 'close' });

/** A POST with a Content-Length; with one in chunks. */
function post(body, fields = {}, target = EVENTS) {
	return head('POST', target, { ...JSON_TYPE, 'Content-Length': Buffer.byteLength(body), ...fields }) + body;
}

function chunked(body, fields = {}) {
	return head('POST', EVENTS, { ...JSON_TYPE, 'Transfer-Encoding': 'chunked', ...fields }) + body;
}

const chunk = (text, extension = '') => `${text.length.toString(16)}${extension}\r\n${text}\r\n`;

async function start(t, options) {
	const server = await Server.start(t, { auth: false, ...options });
	await server.createSession({ id: 'one' });
	server.taken = 0;
	return server;
}

/** What of `n` the session has in its x-note events beyond what earlier cases left there. */
async function takenSince(server) {
	const numbers = [];
	for (;;) {
		const { body } = await server.request('GET', `${EVENTS}?after_seq=${server.taken}&limit=5000`);
		numbers.push(...body.events.map((e) => e.data.n));
		server.taken += body.events.length;
		if (!body.has_more) {
			return numbers;
		}
	}
}

/**
 * Sends `send` and holds the answers against `answers`: each a status, several that are right, or a function of the answer. Then the
 * connection must be over; a `send` of which all is understood ends with a request that says `Connection: close`. `taken`: the notes
 * that are in the log afterwards, in order.
 */
async function runHttpCase(t, server, { send, answers, taken = [] }, step) {
	const socket = await RawSocket.connect(t, server);
	await socket.send(send, step);
	for (const [n, wanted] of answers.entries()) {
		const answer = await socket.answer();
		if (typeof wanted === 'function') {
			wanted(answer);
		} else {
			assert.ok([wanted].flat().includes(answer.status), `answer ${n}: ${answer.status} ${answer.body}, not ${wanted}`);
		}
		if (answer.status >= 400) {
			assert.match(JSON.parse(answer.body).error.code, /^[a-z_]+$/);
		}
	}
	assert.equal(await socket.waitEnd(), '', 'there are more answers than requests');
	assert.deepEqual(await takenSince(server), taken);
}

const both = (cases, step = 1) => cases.flatMap((one) => [{ ...one, step: 0 }, { ...one, name: `${one.name}, in pieces`, step: one.step ?? step }]);
const run = (t, server, cases) => runCases(t, server, cases, (sub, alive, one) => runHttpCase(sub, alive, one, one.step));
const times = (n, make) => Array.from({ length: n }, (_, i) => make(i + 1));
const seqs = (...wanted) => ({ status, body }) => {
	assert.equal(status, 200, body);
	assert.equal(JSON.parse(body).acks.length, wanted.length);
};

const PIPELINED = [
	{ name: 'two GETs', send: get('/healthz') + get('/api/sessions/one') + LAST, answers: [200, ({ body }) => assert.equal(JSON.parse(body).id, 'one'), 200] },
	{ name: 'fifty GETs, each with its own answer', send: times(50, (n) => get(`/api/sessions/nobody-${n}`)).join('') + LAST, answers: [...times(50, () => 404), 200] },
	{ name: 'two POSTs', send: post(note(1)) + post(note(2)) + LAST, answers: [seqs(1), seqs(2), 200], taken: [1, 2] },
	{ name: 'fifty POSTs', send: times(50, (n) => post(note(n))).join('') + LAST, answers: [...times(50, () => 200), 200], taken: times(50, (n) => n), step: 97 },
	{
		name: 'a POST, then a GET that sees it', send: post(note(7)) + get('/api/sessions/one') + LAST,
		answers: [200, ({ body }) => assert.ok(JSON.parse(body).max_seq > 0), 200], taken: [7],
	},
	{ name: 'a GET, then a POST', send: get('/healthz') + post(note(1)) + LAST, answers: [200, 200, 200], taken: [1] },
	{ name: 'a POST that is refused, then one that is not', send: post('{}') + post(note(1)) + LAST, answers: [400, 200, 200], taken: [1] },
	{ name: 'a POST to nowhere, then one that is right', send: post(note(1), {}, '/api/nowhere') + post(note(2)) + LAST, answers: [404, 200, 200], taken: [2] },
	{ name: 'a POST to a session that is not there', send: post(note(1), {}, '/api/sessions/nobody/events') + post(note(2)) + LAST, answers: [404, 200, 200], taken: [2] },
	{ name: 'a GET with a body', send: head('GET', '/healthz', { 'Content-Length': 5 }) + 'GET /' + LAST, answers: [200, 200] },
	{ name: 'a body that looks like a request', send: post(get('/healthz')) + LAST, answers: [400, 200] },
	{ name: 'a body of lines that looks like two requests', send: post(`${note(1)}\n${note(2)}\n`, { 'Content-Type': 'application/x-ndjson' }) + LAST, answers: [200, 200], taken: [1, 2] },
	{ name: 'an empty body', send: post('') + LAST, answers: [400, 200] },
	{ name: 'a POST without a length', send: head('POST', EVENTS, JSON_TYPE) + LAST, answers: [[400, 411], 200] },
	{ name: 'empty lines between requests', send: `\r\n${get('/healthz')}\r\n\r\n${post(note(1))}\r\n${LAST}`, answers: [200, 200, 200], taken: [1] },
	{ name: 'a CRLF behind a body', send: `${post(note(1), { Connection: 'close' })}\r\n`, answers: [200], taken: [1] },
	{ name: 'a CRLF behind a body, and nothing said of closing', send: `${post(note(1))}\r\n${LAST}`, answers: [200, 200], taken: [1] },
	{ name: 'junk behind a body', send: `${post(note(1))}\0\x01junk\r\n\r\n`, answers: [200, 400], taken: [1] },
	{ name: 'junk behind the last request', send: `${post(note(1), { Connection: 'close' })}${post(note(2))}`, answers: [200], taken: [1] },
	{ name: 'a session made and filled', send: post('{"id":"ID"}', {}, '/api/sessions') + post(note(1), {}, '/api/sessions/ID/events') + head('DELETE', '/api/sessions/ID') + get('/api/sessions/ID') + LAST, answers: [201, 200, 204, 404, 200] },
];

test('requests behind each other', async (t) => run(t, await start(t), both(PIPELINED)));

test('requests are answered while the connection is kept, one by one', async (t) => {
	const server = await start(t);
	const socket = await RawSocket.connect(t, server);
	for (let n = 1; n <= 20; n++) {
		await socket.send(n % 2 ? post(note(n)) : get('/healthz'));
		const { status, headers } = await socket.answer();
		assert.equal(status, 200);
		assert.doesNotMatch(headers.connection ?? '', /close/i);
	}
	assert.equal(socket.ended, false);
	assert.deepEqual(await takenSince(server), times(10, (n) => 2 * n - 1));
});

test('a client that sends requests and does not read', async (t) => {
	const server = await start(t);
	const socket = await RawSocket.connect(t, server);
	socket.pause();
	await socket.send(times(500, (n) => post(note(n))).join(''));
	socket.resume();
	for (let n = 1; n <= 500; n++) {
		assert.equal((await socket.answer()).status, 200);
	}
	assert.deepEqual(await takenSince(server), times(500, (n) => n));
});

test('a client that leaves behind its requests', async (t) => {
	const cases = [1, 2, 50].flatMap((n) => ['finish', 'drop'].map((how) => ({ name: `${n} POSTs, ${how}`, n, how })));
	await runCases(t, await start(t), cases, async (sub, server, { n, how }) => {
		// What a client that dropped its connection had sent may come while a later case runs: each number tells whose it is.
		const number = (i) => (how === 'finish' ? i : -1000 * n - i);
		const mine = (numbers) => numbers.filter((m) => (how === 'finish' ? m > 0 : m < -1000 * n && m >= -1001 * n));
		const socket = await RawSocket.connect(sub, server);
		await socket.send(times(n, (i) => post(note(number(i)))).join(''));
		socket[how]();
		if (how === 'finish') {
			for (let i = 0; i < n; i++) { // RFC 9112, 9.6: half of a connection may be closed, and the answers are still read
				assert.equal((await socket.answer()).status, 200);
			}
			await socket.waitEnd();
			assert.deepEqual(mine(await takenSince(server)), times(n, (i) => i));
		} else {
			const numbers = mine(await takenSince(server)); // any number of them, from the first, each once; the rest may come later
			assert.deepEqual(numbers, times(numbers.length, number));
		}
	});
});

const BAD = [400];
const framed = (fields, body = note(1)) => head('POST', EVENTS, { ...JSON_TYPE, ...fields }) + body;
/** How a body may not be framed: refused, nothing taken, and the connection over, for nobody knows where the next request begins. */
const FRAMING = [
	['Content-Length and Transfer-Encoding', framed({ 'Content-Length': 5, 'Transfer-Encoding': 'chunked' }, '0\r\n\r\n')],
	['Transfer-Encoding and Content-Length', framed({ 'Transfer-Encoding': 'chunked', 'Content-Length': 5 }, '0\r\n\r\n')],
	['two Content-Lengths that differ', framed({ 'Content-Length': [note(1).length, 3] })],
	['two Content-Lengths in one field that differ', framed({ 'Content-Length': `${note(1).length}, 3` })],
	['Content-Length: +5', framed({ 'Content-Length': `+${note(1).length}` })],
	['Content-Length: -1', framed({ 'Content-Length': '-1' })],
	['Content-Length: 0x10', framed({ 'Content-Length': '0x10' })],
	['Content-Length: 1e1', framed({ 'Content-Length': '1e1' })],
	['Content-Length: 5 5', framed({ 'Content-Length': '5 5' })],
	['an empty Content-Length', framed({ 'Content-Length': '' })],
	['Content-Length: 2^64 + 1', framed({ 'Content-Length': '18446744073709551617' }), [400, 413]],
	['Content-Length of 40 digits', framed({ 'Content-Length': '9'.repeat(40) }), [400, 413]],
	['Transfer-Encoding: gzip', framed({ 'Transfer-Encoding': 'gzip' }), [400, 501]],
	['Transfer-Encoding: identity', framed({ 'Transfer-Encoding': 'identity' }), [400, 501]],
	['Transfer-Encoding: gzip, chunked', framed({ 'Transfer-Encoding': 'gzip, chunked' }, '0\r\n\r\n'), [400, 501]],
	['Transfer-Encoding: chunked, gzip', framed({ 'Transfer-Encoding': 'chunked, gzip' }, '0\r\n\r\n'), [400, 501]],
	['Transfer-Encoding: chunked, chunked', framed({ 'Transfer-Encoding': 'chunked, chunked' }, '0\r\n\r\n'), [400, 501]],
	['Transfer-Encoding: chunked, twice', framed({ 'Transfer-Encoding': ['chunked', 'chunked'] }, '0\r\n\r\n'), [400, 501]],
	['Transfer-Encoding: xchunked', framed({ 'Transfer-Encoding': 'xchunked' }, '0\r\n\r\n'), [400, 501]],
	['Transfer-Encoding: "chunked"', framed({ 'Transfer-Encoding': '"chunked"' }, '0\r\n\r\n'), [400, 501]],
	['an empty Transfer-Encoding', framed({ 'Transfer-Encoding': '' }, '0\r\n\r\n'), [400, 501]],
	['a space before the colon of Content-Length', `POST ${EVENTS} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length : 5\r\n\r\nxxxxx`],
	['a space before the colon of Transfer-Encoding', `POST ${EVENTS} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n`],
	['Transfer-Encoding in HTTP/1.0', head('POST', EVENTS, { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' }, 'HTTP/1.0') + `${chunk(note(1))}0\r\n\r\n`],
].map(([name, send, answers = BAD]) => ({ name, send: send + get('/healthz'), answers: [answers] }));

const CHUNKS_WRONG = [
	['no size', '\r\n'], ['a size that is none', 'x\r\n'], ['-1', '-1\r\n'], ['+5', `+5\r\n`], ['0x5', '0x5\r\n12345\r\n'], [' 5', ' 5\r\n12345\r\n'], ['a size with a comma', '1,000\r\n'],
	['a size that overflows 64 bits', `1${'0'.repeat(16)}\r\n`], ['a size that overflows 32 bits', '100000005\r\n'], ['a size of 100 digits', `${'f'.repeat(100)}\r\n`], ['zeros without end', '0'.repeat(20_000)],
	['an extension of 100,000 octets', `5;${'x'.repeat(100_000)}\r\n`], ['more than the size', '5\r\n123456\r\n'], ['less than the size', '5\r\n1234\r\n0\r\n\r\n'],
	['a bare LF behind the size', '5\n12345\r\n'], ['a bare LF behind the chunk', '5\r\n12345\n0\r\n\r\n'], ['a bare CR behind the size', '5\r12345\r\n0\r\n\r\n'], ['NUL in the size', '5\0\r\n12345\r\n'],
	['NUL in an extension', '5;a=\0\r\n12345\r\n'],
	['a trailer that is none', '0\r\nno colon here\r\n\r\n'], ['a trailer with a space before its colon', '0\r\na : b\r\n\r\n'], ['a trailer of 1 MB', `0\r\na: ${'x'.repeat(1 << 20)}\r\n\r\n`],
	['trailers without end', `0\r\n${'a: b\r\n'.repeat(20_000)}\r\n`],
].map(([name, body]) => ({ name, send: chunked(body) + get('/healthz'), answers: [[400, 413, 431]] }));

const body = `[${note(1)},${note(2)}]`;
const CHUNKS = [
	['one chunk', `${chunk(body)}0\r\n\r\n`],
	['an octet in each chunk', `${[...body].map((c) => chunk(c)).join('')}0\r\n\r\n`],
	['extensions', `${chunk(body, ';a=b;c="d e;f"')}0;last\r\n\r\n`],
	['trailers', `${chunk(body)}0\r\nX-One: 1\r\nX-Two: 2\r\n\r\n`],
	['trailers that mean nothing there', `${chunk(body)}0\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n`],
	['sizes in capitals and with zeros in front', `${body.length.toString(16).toUpperCase().padStart(8, '0')}\r\n${body}\r\n000\r\n\r\n`],
].map(([name, send]) => ({ name, send: chunked(send) + post(note(9)) + LAST, answers: [200, 200, 200], taken: [1, 2, 9] }));

test('bodies whose end cannot be known', async (t) => run(t, await start(t), both(FRAMING, 3)));
test('chunks', async (t) => run(t, await start(t), both(CHUNKS)));
test('chunks that are none', async (t) => run(t, await start(t), both(CHUNKS_WRONG, 997).map((c) => (c.step && c.send.length < 2000 ? { ...c, step: 1 } : c))));

test('two Content-Lengths that are the same are one, or refused', async (t) => {
	const same = (value) => ({ send: post(note(1), { 'Content-Length': value, Connection: 'close' }) });
	const length = note(1).length;
	await runCases(t, await start(t), [{ name: 'two fields', ...same([length, length]) }, { name: 'one field', ...same(`${length}, ${length}`) }], async (sub, server, { send }) => {
		const socket = await RawSocket.connect(sub, server);
		await socket.send(send);
		const { status } = await socket.answer();
		assert.ok([200, 400].includes(status), `${status}`);
		await socket.waitEnd();
		assert.equal((await takenSince(server)).length, status === 200 ? 1 : 0);
	});
});

const line = (first, rest = 'Host: 127.0.0.1\r\nConnection: close\r\n\r\n') => `${first}\r\n${rest}`;
const field = (text) => line('GET /healthz HTTP/1.1', `Host: 127.0.0.1\r\nConnection: close\r\n${text}\r\n\r\n`);
const hostIs = (text) => line('GET /healthz HTTP/1.1', `Connection: close\r\n${text}\r\n`);
const many = (n, size = 1) => times(n, (i) => `X-${i}: ${'x'.repeat(size)}\r\n`).join('').trimEnd();
/** name, what is sent, the status (or several). Behind a refusal nothing is read any more. */
const HEADS = [
	['a bare LF behind the request line', 'GET /healthz HTTP/1.1\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n', [400]],
	['bare LFs everywhere', 'GET /healthz HTTP/1.1\nHost: 127.0.0.1\nConnection: close\n\n', [400]],
	['a bare LF in a field', field('X-A: b\nX-B: c'), [400]],
	['a bare CR in a field', field('X-A: b\rX-B: c'), [400]],
	['a bare CR in the request line', line('GET /healthz\r HTTP/1.1'), [400]],
	['a folded field', field('X-A: b\r\n folded'), [400]],
	['a folded field, first', line('GET /healthz HTTP/1.1', ' X: y\r\nHost: 127.0.0.1\r\n\r\n'), [400]],
	['a space before a colon', field('X-A : b'), [400]],
	['a tab before a colon', field('X-A\t: b'), [400]],
	['a field without a name', field(': b'), [400]],
	['a field without a colon', field('X-A'), [400]],
	['a space in a name', field('X A: b'), [400]],
	['a name that is no token', field('X(A): b'), [400]],
	['a name beyond ASCII', field('X-Ä: b'), [400]],
	['NUL in a name', field('X\0A: b'), [400]],
	['NUL in a value', field('X-A: b\0c'), [400]],
	['a control octet in a value', field('X-A: b\x01c'), [400]],
	['DEL in a value', field('X-A: b\x7fc'), [400]],
	['a tab and octets beyond ASCII in a value', field('X-A: b\tü'), [200]],
	['an empty value', field('X-A:'), [200]],
	['NUL in the target', line('GET /health\0z HTTP/1.1'), [400]],
	['NUL in the method', line('G\0ET /healthz HTTP/1.1'), [400, 501]],
	['an octet beyond ASCII in the target', line('GET /healthzü HTTP/1.1'), [400, 404]],
	['a space in the target', line('GET /health z HTTP/1.1'), [400]],
	['two spaces in front of the target', line('GET  /healthz HTTP/1.1'), [400]],
	['two spaces behind the target', line('GET /healthz  HTTP/1.1'), [400]],
	['a tab in place of a space', line('GET\t/healthz HTTP/1.1'), [400]],
	['a space in front of the method', line(' GET /healthz HTTP/1.1'), [400]],
	['a space behind the version', line('GET /healthz HTTP/1.1 '), [400]],
	['no version', line('GET /healthz'), [400, 505]],
	['no target', line('GET HTTP/1.1'), [400]],
	['a target without its slash', line('GET healthz HTTP/1.1'), [400, 404]],
	['HTTP/1.2', line('GET /healthz HTTP/1.2'), [200, 400, 505]],
	['HTTP/2.0', line('GET /healthz HTTP/2.0'), [400, 505]],
	['HTTP/0.9', line('GET /healthz HTTP/0.9'), [400, 505]],
	['http/1.1 in lower case', line('GET /healthz http/1.1'), [400, 505]],
	['HTTP/1.10', line('GET /healthz HTTP/1.10'), [400, 505]],
	['HTTP/11', line('GET /healthz HTTP/11'), [400, 505]],
	['XTTP/1.1', line('GET /healthz XTTP/1.1'), [400, 505]],
	['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04\0\0\0\0\0', [400, 405, 501, 505]],
	['a TLS hello', '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n', [400, 501]],
	['an unknown method', line('BREW /healthz HTTP/1.1'), [405, 501]],
	['a method in lower case', line('get /healthz HTTP/1.1'), [400, 405, 501]],
	['a method of 1,000 octets', line(`${'M'.repeat(1000)} /healthz HTTP/1.1`), [400, 405, 414, 431, 501]],
	['TRACE', line('TRACE /healthz HTTP/1.1'), [405, 501]],
	['CONNECT', line('CONNECT 127.0.0.1:80 HTTP/1.1'), [400, 404, 405, 501]],
	['OPTIONS *', line('OPTIONS * HTTP/1.1'), [200, 204, 400, 404, 405]],
	['GET *', line('GET * HTTP/1.1'), [400, 404]],
	['an absolute target', line('GET http://127.0.0.1/healthz HTTP/1.1'), [200]],
	['an absolute target whose host is another than Host', line('GET http://localhost/healthz HTTP/1.1'), [200, 400]],
	['an absolute target elsewhere', line('GET http://evil.example/healthz HTTP/1.1'), [400, 403]],
	['an absolute target, and Host elsewhere', line('GET http://127.0.0.1/healthz HTTP/1.1', 'Host: evil.example\r\nConnection: close\r\n\r\n'), [200, 400, 403]],
	['an absolute target of no scheme that we have', line('GET ftp://127.0.0.1/healthz HTTP/1.1'), [400, 403, 404]],
	['//evil.example/healthz', line('GET //evil.example/healthz HTTP/1.1'), [400, 404]],
	['a fragment in the target', line('GET /healthz#x HTTP/1.1'), [400, 404]],
	['a header section of 8 KiB', field(`X-A: ${'x'.repeat(8000)}`), [200, 431]],
	['a header section of 64 KiB', field(`X-A: ${'x'.repeat(65_536)}`), [431]],
	['a header section of 1 MB', field(`X-A: ${'x'.repeat(1 << 20)}`), [431]],
	['a name of 64 KiB', field(`${'x'.repeat(65_536)}: a`), [431]],
	['a header section without end', `GET /healthz HTTP/1.1\r\n${'X-A: b\r\n'.repeat(100_000)}`, [431]],
	['50 fields', field(many(50)), [200]],
	['1,000 fields', field(many(1000)), [431]],
	['1,000 fields of 60 octets', field(many(1000, 60)), [431]],
	['a target of 4,000 octets', line(`GET /${'x'.repeat(4000)} HTTP/1.1`), [404, 414]],
	['a target of 64 KiB', line(`GET /${'x'.repeat(65_536)} HTTP/1.1`), [414]],
	['a query of 64 KiB', line(`GET ${EVENTS}?after_seq=${'1'.repeat(65_536)} HTTP/1.1`), [414]],
	['a target of 1 MB', line(`GET /${'x'.repeat(1 << 20)} HTTP/1.1`), [414]],
	['a target without end', `GET /${'x'.repeat(1 << 20)}`, [414]],
	['empty lines without end', '\r\n'.repeat(100_000), [400, 431]],
	['no Host', hostIs(''), [400]],
	['two Hosts', hostIs('Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n'), [400]],
	['two Hosts that differ', hostIs('Host: 127.0.0.1\r\nHost: evil.example\r\n'), [400]],
	['no Host in HTTP/1.0', 'GET /healthz HTTP/1.0\r\n\r\n', [200, 400, 403]],
].map(([name, send, answers]) => ({ name, send, answers: [answers] }));

test('heads', async (t) => {
	// What is refused ends the connection, so a request behind it gets no answer.
	const cases = HEADS.map((one) => (one.answers[0].includes(200) || /without end/.test(one.name) ? one : { ...one, send: Buffer.concat([Buffer.from(one.send, one.name === 'a TLS hello' ? 'latin1' : 'utf8'), Buffer.from(LAST)]), refusal: true }));
	const pieces = (one) => ({ ...one, name: `${one.name}, in pieces`, step: one.send.length > 5000 ? 1021 : 1 });
	const server = await start(t);
	await runCases(t, server, cases.flatMap((one) => [{ ...one, step: 0 }, pieces(one)]), async (sub, alive, one) => {
		const socket = await RawSocket.connect(sub, alive);
		await socket.send(one.send, one.step);
		const { status, body: text } = await socket.answer();
		assert.ok(one.answers[0].includes(status), `${status} ${text}, not ${one.answers[0]}`);
		if (status >= 400) {
			assert.match(JSON.parse(text).error.code, /^[a-z_]+$/);
		}
		if (one.refusal && [400, 414, 431].includes(status)) {
			assert.equal(await socket.waitEnd(), '', 'what is behind a head that was not understood is no request');
		}
	});
});

/** On loopback, Host names loopback or is refused, and what looks like it is not it. */
const HOSTS = {
	200: ['localhost', 'LocalHost', '127.0.0.1', '[::1]', 'localhost:80', '127.0.0.1:65535', '[::1]:8080'],
	403: ['[::1]evil', '[::1]evil:80', '[::1', '::1', '[::1]:', 'localhost:evil.example', 'localhost:80:80', 'localhost:', 'localhost:80x', 'localhost:-1', 'localhost:65536', 'localhost:99999999999999999999',
		'localhost.', 'localhost.evil.example', 'evil.localhost.example', 'localhostevil', '127.0.0.1.evil.example', '127.0.0.1evil', 'evil@localhost', 'localhost@evil.example', 'localhost/evil.example',
		'localhost, evil.example', 'localhost evil.example', '0.0.0.0', '[::]', '[::ffff:10.0.0.1]', 'evil.example', 'evil.example:localhost', '[::1].evil.example', '[evil.example]', ':80', '[]', '127.1.evil.example', `${'x'.repeat(300)}.example`],
};

test('hosts', async (t) => {
	const cases = Object.entries(HOSTS).flatMap(([status, hosts]) => hosts.flatMap((host) => ['/healthz', '/api/sessions', '/'].map((target) => ({ name: `${host} for ${target}`, host, target, status: Number(status) }))));
	await runCases(t, await start(t), cases, async (sub, server, { host, target, status: wanted }) => {
		const socket = await RawSocket.connect(sub, server);
		await socket.send(head('GET', target, { Host: host, Connection: 'close' }));
		const { status, body: text } = await socket.answer();
		if (wanted === 200) {
			assert.ok(target === '/' ? [200, 404].includes(status) : status === 200, `${status} ${text}`);
		} else {
			// What can be no host at all (RFC 9112, 3.2) may be a bad request just as well.
			assert.ok(status === 403 ? JSON.parse(text).error.code === 'forbidden_host' : status === 400 && !/^[\w.-]+(:\d+)?$/.test(host), `${status} ${text}`);
		}
	});
});

test('an empty Host', async (t) => {
	const socket = await RawSocket.connect(t, await start(t));
	await socket.send(head('GET', '/healthz', { Host: '', Connection: 'close' }));
	assert.ok([400, 403].includes((await socket.answer()).status));
});

test('origins', async (t) => {
	const server = await start(t);
	const { port, protocol } = new URL(server.url);
	const otherProtocol = protocol === 'http:' ? 'https:' : 'http:';
	const origins = {
		200: [`${protocol}//127.0.0.1:${port}`],
		403: [`${otherProtocol}//127.0.0.1:${port}`, `ws://127.0.0.1:${port}`, `http://127.0.0.1`, `http://127.0.0.1:${Number(port) ^ 1}`, `http://localhost:${port}`, 'null', '', `http://127.0.0.1:${port}/`, `http://127.0.0.1:${port}.evil.example`,
			`http://evil.example`, `127.0.0.1:${port}`, `//127.0.0.1:${port}`, `http://evil@127.0.0.1:${port}`, `http://127.0.0.1:${port} http://evil.example`, `file://`, `http://127.0.0.1:0${port}`],
	};
	const cases = Object.entries(origins).flatMap(([status, all]) => all.map((origin) => ({ name: JSON.stringify(origin), origin, status: Number(status) })));
	await runCases(t, server, cases, async (sub, alive, { origin, status: wanted }) => {
		const here = new URL(alive.url);
		const socket = await RawSocket.connect(sub, alive);
		await socket.send(post(note(1), { Host: here.host, Origin: origin.replace(port, here.port), Connection: 'close' }));
		const { status, body: text } = await socket.answer();
		assert.equal(status, wanted, text);
		assert.ok(status === 200 || JSON.parse(text).error.code === 'forbidden_origin', text);
		assert.deepEqual(await takenSince(alive), wanted === 200 ? [1] : []);
	});
});

test('two Origins', async (t) => {
	const server = await start(t);
	const socket = await RawSocket.connect(t, server);
	await socket.send(post(note(1), { Host: new URL(server.url).host, Origin: [server.url, 'http://evil.example'], Connection: 'close' }));
	assert.ok([400, 403].includes((await socket.answer()).status));
});

test('HTTP/1.0', async (t) => {
	const server = await start(t);
	const old = (fields = {}) => head('GET', '/healthz', fields, 'HTTP/1.0');
	for (const [name, send, statuses] of [
		['ends the connection with its answer', old() + LAST, [200]],
		['is kept only if asked', old({ Connection: 'close' }) + LAST, [200]],
	]) {
		const socket = await RawSocket.connect(t, server);
		await socket.send(send);
		for (const wanted of statuses) {
			assert.equal((await socket.answer()).status, wanted, name);
		}
		assert.equal(await socket.waitEnd(), '', name);
	}
	const kept = await RawSocket.connect(t, server);
	await kept.send(old({ Connection: 'keep-alive' }));
	const { status, headers } = await kept.answer();
	assert.equal(status, 200);
	if (/keep-alive/i.test(headers.connection ?? '')) { // the server may decline; what it says is what it does
		await kept.send(LAST);
		assert.equal((await kept.answer()).status, 200);
	}
	await kept.waitEnd();
});

test('Expect: 100-continue', async (t) => {
	const server = await start(t);
	const expect = (fields) => post('', { Expect: '100-continue', ...fields });
	const asked = await RawSocket.connect(t, server);
	await asked.send(expect({ 'Content-Length': note(1).length }));
	assert.equal((await asked.answer()).status, 100);
	await asked.send(note(1));
	assert.equal((await asked.answer()).status, 200);
	await asked.send(expect({ 'Content-Length': note(2).length, Expect: '100-Continue' }) + note(2));
	const first = await asked.answer(); // the body is there already: 100 may be left out
	assert.equal(first.status === 100 ? (await asked.answer()).status : first.status, 200);
	assert.deepEqual(await takenSince(server), [1, 2]);
	for (const [target, fields, status] of [
		['/api/nowhere', { 'Content-Length': 5 }, 404], [EVENTS, { 'Content-Length': 1 << 30 }, 413], ['/api/sessions/nobody/events', { 'Content-Length': 5 }, 404], [EVENTS, { 'Content-Length': 5, Host: 'evil.example' }, 403],
	]) {
		const refused = await RawSocket.connect(t, server);
		await refused.send(head('POST', target, { ...JSON_TYPE, Expect: '100-continue', ...fields }));
		const answer = await refused.answer();
		assert.equal(answer.status, status, `${target} ${answer.body}`);
	}
	const unknown = await RawSocket.connect(t, server);
	await unknown.send(post(note(3), { Expect: '200-maybe', Connection: 'close' }));
	assert.ok([200, 417].includes((await unknown.answer()).status));
	await unknown.waitEnd();
	const old = await RawSocket.connect(t, server); // a client of HTTP/1.0 knows no 100 (RFC 9110, section 10.1.1)
	await old.send(head('POST', EVENTS, { ...JSON_TYPE, Expect: '100-continue', 'Content-Length': note(4).length }, 'HTTP/1.0') + note(4));
	assert.equal((await old.answer()).status, 200);
});

test('Expect: 100-continue from somebody without a token, at addresses that cannot be', async (t) => {
	const server = await Server.start(t);
	for (const [method, target] of [
		['PATCH', '/api/sessions/..'], ['POST', '/api/ai/..'], ['POST', '/v1/stream/..'], ['PUT', '/v1/stream/a%2fb'], ['POST', '/api/sessions/../events'], ['POST', '/api/sessions/a%2fb/snapshot'], ['POST', '/api/sessions/../blobs'],
	]) {
		const socket = await RawSocket.connect(t, server);
		await socket.send(head(method, target, { ...JSON_TYPE, Expect: '100-continue', 'Content-Length': 5 }));
		assert.equal((await socket.answer()).status, 404, `${method} ${target}`);
		await socket.waitEnd();
	}
});

test('a body over the limit is refused before it has come', async (t) => {
	const server = await start(t);
	for (const fields of [{ 'Content-Length': (8 << 20) + 1 }, { 'Content-Length': 2 ** 31 }, { 'Content-Length': 2 ** 32 + 5 }]) {
		const socket = await RawSocket.connect(t, server);
		await socket.send(head('POST', EVENTS, { ...JSON_TYPE, ...fields }));
		const { status, body: text } = await socket.answer();
		assert.equal(status, 413, text);
		assert.equal(JSON.parse(text).error.code, 'too_large');
		await socket.waitEnd();
	}
	const large = await RawSocket.connect(t, server); // and a client that sends it nevertheless reads why
	await large.send(head('POST', EVENTS, { ...JSON_TYPE, 'Content-Length': 9 << 20 }));
	await large.send(Buffer.alloc(1 << 20, ' '));
	assert.equal((await large.answer()).status, 413);
});
