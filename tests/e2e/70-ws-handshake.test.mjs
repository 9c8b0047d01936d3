// The opening handshake (RFC 6455, section 4.2; RFC 9110, section 7.8) on all three sockets: what is a good one and upgrades, what is
// refused and how, and what the query may have.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RawSocket, frame, upgrade, upgradeFault } from '../support/raw_socket.mjs';
import { CLOSE, PING, SOCKETS, TEXT, closing, keepalive, open, transcript } from '../support/raw_ws.mjs';
import { Server } from '../support/server.mjs';
import { runCases } from '../support/standing.mjs';

const KEY = 'Sec-WebSocket-Key';
const VERSION = 'Sec-WebSocket-Version';
const LONG = 'x'.repeat(4000);

/** name, header fields that replace or join those of a good upgrade. */
const GOOD = [
	['nothing special', {}],
	['Upgrade: WebSocket', { Upgrade: 'WebSocket' }],
	['Upgrade: WEBSOCKET', { Upgrade: 'WEBSOCKET' }],
	['Connection: upgrade', { Connection: 'upgrade' }],
	['Connection: keep-alive, Upgrade', { Connection: 'keep-alive, Upgrade' }],
	['Connection: Upgrade,keep-alive', { Connection: 'Upgrade,keep-alive' }],
	['Connection on two lines', { Connection: ['keep-alive', 'Upgrade'] }],
	['names in lower case', { Connection: undefined, connection: 'Upgrade', Upgrade: undefined, upgrade: 'websocket' }],
	['blanks around a value', { Upgrade: ' \t websocket \t ' }],
	['subprotocols that we do not have', { 'Sec-WebSocket-Protocol': 'chat, superchat' }],
	['ten subprotocols on ten lines', { 'Sec-WebSocket-Protocol': Array.from({ length: 10 }, (_, n) => `p${n}`) }],
	['a long subprotocol', { 'Sec-WebSocket-Protocol': LONG }],
	['extensions that we do not have', { 'Sec-WebSocket-Extensions': 'x-webkit-deflate-frame, x-other; a=1' }],
	['fields that mean nothing', { 'X-Other': LONG, Cookie: 'a=b; c=d' }],
	['Content-Length: 0', { 'Content-Length': '0' }],
];

/** name, fields, the status (or several that are right), and how the request line differs. */
const REFUSED = [
	['no version', { [VERSION]: undefined }, [426]],
	['version 12', { [VERSION]: '12' }, [426]],
	['version 14', { [VERSION]: '14' }, [426]],
	['version 013', { [VERSION]: '013' }, [400, 426]],
	['version 13x', { [VERSION]: '13x' }, [400, 426]],
	['no key', { [KEY]: undefined }, [400]],
	['an empty key', { [KEY]: '' }, [400]],
	['a key of 15 octets', { [KEY]: Buffer.alloc(15).toString('base64') }, [400]],
	['a key of 17 octets', { [KEY]: Buffer.alloc(17).toString('base64') }, [400]],
	['a key of 18 octets', { [KEY]: Buffer.alloc(18).toString('base64') }, [400]],
	['a key that is no base64', { [KEY]: 'dGhlIHNhbXBsZSBub25jZ*==' }, [400]],
	['a key without its padding', { [KEY]: 'dGhlIHNhbXBsZSBub25jZQ' }, [400]],
	['a key of 4,000 octets', { [KEY]: LONG }, [400]],
	['two keys', { [KEY]: ['dGhlIHNhbXBsZSBub25jZQ==', 'dGhlIHNhbXBsZSBub25jZQ=='] }, [400]],
	['another protocol', { Upgrade: 'h2c' }, [400, 426]],
	['no Upgrade', { Upgrade: undefined }, [400, 426]],
	['no Connection', { Connection: undefined }, [400, 426]],
	['Connection: keep-alive', { Connection: 'keep-alive' }, [400, 426]],
	['Connection: Upgraded', { Connection: 'Upgraded' }, [400, 426]],
	['HTTP/1.0', {}, [400, 426, 505], { version: 'HTTP/1.0' }],
	['POST', { 'Content-Length': '0' }, [400, 405], { method: 'POST' }],
	['HEAD', {}, [400, 405, 426], { method: 'HEAD' }],
	['a foreign Origin', { Origin: 'http://evil.example' }, [403]],
	['a foreign Host', { Host: 'evil.example' }, [403]],
	['no Host', { Host: undefined }, [400]],
];

const pathsOf = (cases) => SOCKETS.flatMap(({ name, path }) => cases.map((one) => ({ ...one, name: `${name}: ${one.name}`, path })));

async function start(t) {
	const server = await Server.start(t, { auth: false });
	await server.createSession({ id: 'one' });
	return server;
}

async function closeWell(socket) {
	await socket.send(frame(CLOSE, closing(1000)));
	assert.equal((await transcript(socket, true)).close, 'close 1000');
}

test('good handshakes', async (t) => {
	const cases = pathsOf(GOOD.map(([name, fields]) => ({ name, fields })));
	await runCases(t, await start(t), cases, async (sub, server, { path, fields }) => {
		for (const step of [0, 1]) {
			const socket = await RawSocket.connect(sub, server);
			await socket.send(upgrade(path, fields), step && JSON.stringify(fields).length < 1000 ? 1 : step * 501);
			assert.equal(upgradeFault(await socket.answer()), null);
			await socket.frame();
			await closeWell(socket);
		}
	});
});

test('frames in the same segment as the handshake', async (t) => {
	const behind = Buffer.concat([frame(TEXT, keepalive(1)), frame(PING, 'x'), frame(TEXT, keepalive(2, 2000))]);
	const cases = pathsOf([0, 1, 7].map((step) => ({ name: step ? `in pieces of ${step}` : 'whole', step })));
	await runCases(t, await start(t), cases, async (sub, server, { path, step }) => {
		const socket = await open(sub, server, path, { behind: Buffer.concat([behind, frame(CLOSE, closing(1000))]), step });
		assert.deepEqual(await transcript(socket, true), { data: ['ack 1', 'ack 2'], pongs: ['x'], close: 'close 1000' });
	});
});

test('handshakes that are refused', async (t) => {
	const cases = pathsOf(REFUSED.map(([name, fields, statuses, line]) => ({ name, fields, statuses, line })));
	await runCases(t, await start(t), cases, async (sub, server, { path, fields, statuses, line = {} }) => {
		const socket = await RawSocket.connect(sub, server);
		// What is behind it is a frame for nobody: it must not be taken for a request.
		await socket.send(Buffer.concat([Buffer.from(upgrade(path, fields, line)), frame(TEXT, keepalive(1))]));
		const { status, headers, body } = await socket.answer({ bodyless: line.method === 'HEAD' });
		assert.ok(statuses.includes(status), `${status} ${body}`);
		assert.equal(headers['sec-websocket-accept'], undefined);
		if (status === 426) {
			assert.equal(headers['sec-websocket-version'], '13');
			assert.match(headers.upgrade ?? '', /websocket/i);
		}
		if (line.method !== 'HEAD') {
			assert.match(JSON.parse(body).error.code, /^[a-z_]+$/);
		}
	});
});

test('an upgrade of what is no socket', async (t) => {
	const cases = [
		['/healthz', [200, 400, 404]], ['/api/sessions', [200, 400, 404]], ['/api/sessions/one', [200, 400, 404]], ['/ws', [404]], ['/api/sessions/one/ws/', [404]],
		['/api/sessions//ws', [400, 404]], ['/api/sessions/one/WS', [404]], ['/api/events/', [404]],
	].map(([name, statuses]) => ({ name, statuses }));
	await runCases(t, await start(t), cases, async (sub, server, { name, statuses }) => {
		const socket = await RawSocket.connect(sub, server);
		await socket.send(upgrade(name));
		const { status } = await socket.answer();
		assert.ok(statuses.includes(status), `${status}`);
	});
});

/** path, queries that each socket must refuse: over HTTP, or with `bad_request` and a close. Nothing is left out in silence. */
const QUERIES = [
	['/api/sessions/one/ws', [`format=${'h'.repeat(64)}`, `format=html${'%20'.repeat(200)}`, `client_id=${'x'.repeat(65)}`, `client_id=${LONG}`, `deltas=${LONG}`,
		`format=html&nonsense=1`, `nonsense=${LONG}`, 'format=html&format=markdown', 'client_id=%ff', 'client_id=a%00b', 'format', 'format=%zz', '=html', `${LONG}=1`]],
	['/api/sessions/one/produce', ['create=2', `create=${LONG}`, 'create=1&create=1', 'nonsense=1', `title=${'x'.repeat(1025)}&create=1`, `title=${LONG}&create=1`, 'create=1&title=%ff']],
	['/api/events', ['nonsense=1', 'format=pdf', `after_seq=${LONG}`, 'client_id=a']],
];

test('a query that cannot be right is refused', async (t) => {
	const cases = QUERIES.flatMap(([path, queries]) => queries.map((query) => ({ name: `${path}?${query.slice(0, 60)}`, path: `${path}?${query}` })));
	await runCases(t, await start(t), cases, async (sub, server, { path }) => {
		const socket = await RawSocket.connect(sub, server);
		await socket.send(upgrade(path));
		const { status, body } = await socket.answer();
		if (status !== 101) {
			assert.ok([400, 414].includes(status), `${status} ${body}`);
			return;
		}
		const { data } = JSON.parse((await socket.frame()).payload);
		assert.equal(data.code, 'bad_request', JSON.stringify(data));
		assert.deepEqual(await transcript(socket), { data: [], pongs: [], close: 'close 1008' });
	});
});

test('the same for reading and appending over HTTP', async (t) => {
	const queries = [`after_seq=${'1'.repeat(64)}`, `after_seq=${'0'.repeat(64)}`, `limit=${LONG}`, `before_seq=${'9'.repeat(20)}`, 'after_seq=', 'after_seq=1&after_seq=2', 'after_seq=-1', 'after_seq=1.0',
		'after_seq=+1', 'after_seq=0x1', 'limit=0', 'limit=5001', 'after_seq=1&before_seq=2', `epoch=${LONG}`, `format=${LONG}`, 'nonsense', `${LONG}=1`];
	await runCases(t, await start(t), queries.map((query) => ({ name: query.slice(0, 60), query })), async (sub, server, { query }) => {
		const { status, body } = await server.request('GET', `/api/sessions/one/events?${query}`);
		assert.ok([400, 414].includes(status), `${status} ${JSON.stringify(body)}`);
		assert.equal(body.error.code, 'bad_request');
	});
});
