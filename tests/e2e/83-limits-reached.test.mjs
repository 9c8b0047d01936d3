// Each limit that a client can reach (holdfast limits): somebody reaches it, is told its code, it is counted, and another client goes on.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { readMetrics } from '../support/metrics.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { Subscription } from '../support/push_service.mjs';
import { CLOSE, PING, PONG, RawSocket, TEXT, frame, head, upgrade } from '../support/raw_socket.mjs';
import { Server, binary, demoAgent } from '../support/server.mjs';
import { TestSocket } from '../support/socket.mjs';
import { ownToken } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';

const JSON_TYPE = { 'Content-Type': 'application/json' };
const EVENTS = '/api/sessions/one/events';
const BLOBS = '/api/sessions/one/blobs';
const filler = (size) => 'x'.repeat(size);
const note = (size) => input.note({ text: filler(size) });
const auth = (server) => ({ Authorization: `Bearer ${server.token}` });

/** The code of an answer over HTTP, or of what a raw connection is told. */
const codeOf = ({ body }) => (typeof body === 'string' ? JSON.parse(body) : body).error.code;

async function raw(t, server, text) {
	const socket = await RawSocket.connect(t, server);
	await socket.send(text);
	return socket;
}

const postRaw = (t, server, size) => raw(t, server, head('POST', EVENTS, { ...auth(server), ...JSON_TYPE, 'Content-Length': size }));

/** A raw WebSocket that is open; `path` of the session's two. */
async function rawSocket(t, server, path = '/api/sessions/one/ws') {
	const socket = await raw(t, server, upgrade(path, { ...auth(server) }));
	assert.equal((await socket.answer()).status, 101);
	await socket.frame();
	return socket;
}

/** The next frame of this opcode. */
async function nextOf(socket, opcode) {
	for (;;) {
		const got = await socket.frame();
		if (got.opcode === opcode) {
			return got.payload;
		}
	}
}

/** Connections that say nothing, until one is told to go. */
async function untilTurnedAway(t, server) {
	const living = [];
	for (;;) {
		const socket = await RawSocket.connect(t, server);
		const answer = await Promise.race([socket.answer().catch(() => null), new Promise((resolve) => setTimeout(resolve, 50))]);
		if (answer) {
			living.forEach((s) => s.drop());
			return codeOf(answer);
		}
		living.push(socket);
	}
}

/** Bytes that a directory takes on the disk. */
const sizeOf = (dir) => Number(spawnSync('du', ['-s', '--block-size=1', dir]).stdout.toString().split('\t')[0]);

/** Sends more than is served in a second; all of it is served, later. */
async function flood(count, send, seen) {
	for (let n = 0; n < count; n++) {
		await send(n);
	}
	await seen(count);
	return 'waits';
}

/** value, what reaches it (gives the code that came of it), and other limits that have to be out of the way. */
const CASES = {
	connections: [12, untilTurnedAway],
	address_connections: [12, untilTurnedAway],
	session_connections: [3, async (t, server) => {
		const { id } = await server.createSession();
		const sockets = [await Observer.connect(t, server, id), await Producer.connect(t, server, id), await Observer.connect(t, server, id)];
		const next = await Observer.connect(t, server, id);
		assert.equal((await next.waitClosed()).code, 1013);
		const lines = await server.request('POST', `/api/sessions/${id}/events`, { body: '{"type":"x-a","data":{}}\n', headers: { 'content-type': 'application/x-ndjson' } });
		assert.deepEqual([lines.status, codeOf(lines)], [503, 'too_many_connections']);
		await sockets[0].close();
		await eventually(async () => (await Observer.connect(t, server, id)).frames[0].type === 'connected', 'room again');
		return next.frames[0].data.code;
	}],
	half_open: [4, async (t, server) => {
		const oldest = await raw(t, server, 'GET /healthz HT');
		await readMetrics(server); // what came before it has been read
		const others = await Promise.all(Array.from({ length: 3 }, () => RawSocket.connect(t, server)));
		await eventually(async () => oldest.ended || others.push(await RawSocket.connect(t, server)) > 9, 'the oldest to go');
		const answer = await oldest.answer();
		const living = others.at(-1);
		await living.send(head('GET', '/healthz', {}));
		assert.equal((await living.answer()).status, 200);
		// So is a WebSocket that has not said its token.
		const socket = await raw(t, server, upgrade('/api/sessions/one/ws', { 'Sec-WebSocket-Protocol': 'holdfast.v1' }));
		assert.equal((await socket.answer()).status, 101);
		for (let n = 0; n < 4; n++) {
			others.push(await RawSocket.connect(t, server));
		}
		assert.equal(JSON.parse(await nextOf(socket, TEXT)).data.code, 'too_many_connections');
		assert.equal((await nextOf(socket, CLOSE)).readUInt16BE(), 1013);
		return codeOf(answer);
	}],
	client_requests: [20, async (t, server) => {
		const socket = await rawSocket(t, server);
		let pongs = 0;
		return flood(60, (n) => socket.send(frame(PING, String(n))), async (count) => {
			for (; pongs < count; pongs++) {
				assert.equal(String(await nextOf(socket, PONG)), String(pongs));
			}
		});
	}],
	producer_messages: [20, async (t, server) => {
		const producer = await Producer.connect(t, server, 'one');
		const refs = [];
		return flood(60, async (n) => refs.push(await producer.push(input.note({ n }))), async () => {
			const seqs = [];
			for (const ref of refs) {
				seqs.push((await producer.acked(ref)).acks[0].seq);
			}
			assert.deepEqual(seqs, seqs.map((_, i) => seqs[0] + i));
		});
	}],
	producer_bytes: ['64K', async (t, server) => {
		const producer = await Producer.connect(t, server, 'one');
		await producer.append(note(100_000), note(100_000));
		return 'waits';
	}],
	searches: [1, async (t, server) => {
		for (let n = 0; n < 10; n++) {
			await post(server, 'one', Array.from({ length: 100 }, () => ({ type: 'x-log', data: { text: filler(2000) } })));
		}
		await eventually(async () => {
			const answers = await Promise.all(Array.from({ length: 8 }, () => server.request('GET', '/api/sessions/one/search?q=y')));
			answers.forEach(({ body }) => assert.deepEqual(body, { hits: [], next: null }));
			return (await readMetrics(server))('limit_reached_total{limit="searches"}') > 0;
		}, 'a search to wait');
		return 'waits';
	}],
	search_query_size: [10, async (t, server) => {
		assert.equal((await server.request('GET', '/api/search?q=1234567890')).status, 200);
		return codeOf(await server.request('GET', '/api/search?q=1234567890a'));
	}],
	pages_ms: [1, async (t, server) => {
		await post(server, 'one', Array.from({ length: 100 }, () => note(8_000)));
		const sockets = await Promise.all(Array.from({ length: 8 }, () => Observer.connect(t, server, 'one')));
		await Promise.all(sockets.map((socket) => socket.loadAll()));
		await eventually(async () => { // until several come in one turn of the loop
			await Promise.all(Array.from({ length: 8 }, async () => {
				assert.equal((await server.request('GET', `${EVENTS}?after_seq=0&limit=100`)).body.events.length, 100);
			}));
			return (await readMetrics(server))('limit_reached_total{limit="pages_ms"}') > 0;
		}, 'a page to wait');
		return 'waits';
	}],
	head_size: ['1K', async (t, server) => codeOf(await (await raw(t, server, `GET / HTTP/1.1\r\nA: ${filler(2000)}`)).answer())],
	head_ms: [300, async (t, server) => codeOf(await (await raw(t, server, 'GET /healthz HTTP/1.1\r\nHo')).answer())],
	token_ms: [300, async (t, server) => {
		const socket = new TestSocket(t, server.ws('/api/sessions/one/ws'), () => null, { protocols: ['holdfast.v1'], headers: { authorization: undefined } });
		assert.equal((await socket.waitClosed()).code, 4401);
		return socket.frames[0].data.code;
	}],
	wrong_tokens: [2, async (t, server) => {
		const ask = () => server.request('GET', '/api/sessions', { headers: { authorization: 'Bearer wrong' } });
		await ask();
		await ask();
		const last = await ask();
		assert.deepEqual([last.status, last.headers.get('retry-after')], [429, '60']);
		return codeOf(last);
	}],
	receive_ms: [300, async (t, server) => {
		const socket = await postRaw(t, server, 100);
		await socket.send('{');
		return codeOf(await socket.answer());
	}],
	receive_size: ['1M', async (t, server) => {
		const held = await postRaw(t, server, 2_000_000);
		await held.send(filler(900_000));
		const refused = await postRaw(t, server, 2_000_000);
		await refused.send(filler(900_000));
		const code = codeOf(await Promise.race([held.answer(), refused.answer()]));
		held.drop();
		refused.drop();
		return code;
	}],
	send_size: ['1M', async (t, server) => {
		await post(server, 'one', Array.from({ length: 100 }, () => note(9_000)));
		// For a client that does not read, the server keeps the part of one page that the kernel did not take. With pages of one size
		// these parts are equal, and those of a few sockets can stay below the limit for good. Hence many sockets, and many sizes.
		const loads = Array.from({ length: 16 }, (_, i) => frame(TEXT, JSON.stringify({ type: 'load_events', data: { limit: 100 - i } })));
		const sockets = await Promise.all(loads.map(() => rawSocket(t, server)));
		sockets.forEach((socket) => socket.pause());
		const before = (await readMetrics(server))('closes_total{code="1006"}') ?? 0;
		await eventually(async () => {
			await Promise.all(sockets.map((socket, i) => Promise.race([socket.send(loads[i]), new Promise((resolve) => setTimeout(resolve, 50))])));
			return (await readMetrics(server))('closes_total{code="1006"}') > before;
		}, 'a socket to be cut off');
		return '1006';
	}],
	frame_size: ['1K', async (t, server) => {
		const observer = await Observer.connect(t, server, 'one');
		await observer.send('keepalive', { client_time: null, pad: filler(2000) });
		assert.equal((await observer.waitClosed()).code, 1009);
		return observer.frames.at(-1).data.code;
	}],
	body_size: ['64K', async (t, server) => codeOf(await server.request('POST', EVENTS, { json: note(70_000) }))],
	blob_size: ['1K', async (t, server) => codeOf(await server.request('POST', BLOBS, { body: filler(1025) }))],
	session_blobs: ['8K', async (t, server) => {
		assert.equal((await server.request('POST', BLOBS, { body: filler(4097) })).status, 201);
		return codeOf(await server.request('POST', BLOBS, { body: 'x' }));
	}],
	blobs: ['8K', async (t, server) => {
		assert.equal((await server.request('POST', BLOBS, { body: filler(4097) })).status, 201);
		const { id } = await server.createSession();
		return codeOf(await server.request('POST', `/api/sessions/${id}/blobs`, { body: 'x' }));
	}],
	event_size: ['1K', async (t, server) => codeOf(await server.request('POST', EVENTS, { json: [note(10), note(2000)] }))],
	batch_events: [10, async (t, server) => codeOf(await server.request('POST', EVENTS, { json: Array.from({ length: 11 }, () => note(1)) }))],
	prompt_size: ['1K', async (t, server) => {
		const observer = await Observer.connect(t, server, 'one');
		return (await observer.refused('prompt', { message: filler(2000), prompt_id: 'p' })).code;
	}],
	prompt_blocks: [1, async (t, server) => {
		const observer = await Observer.connect(t, server, 'one');
		const link = { type: 'resource_link', uri: 'file:///a', name: 'a' };
		return (await observer.refused('prompt', { message: 'x', prompt_id: 'p', content: [link, link] })).code;
	}],
	prompt_blobs: ['1K', async (t, server) => {
		const observer = await Observer.connect(t, server, 'one');
		const { body } = await server.request('POST', BLOBS, { body: filler(1025) });
		return (await observer.refused('prompt', { message: 'x', prompt_id: 'p', content: [{ type: 'resource', blob: body.blob }] })).code;
	}],
	prompt_queue: [1, async (t, server) => {
		const observer = await Observer.connect(t, server, 'one');
		await observer.prompt('permission');
		await observer.prompt('waits');
		return (await observer.refused('prompt', { message: 'too many', prompt_id: 'p' })).code;
	}],
	open_permissions: [1, async (t, server) => {
		const ask = (id) => ({ type: 'permission_request', data: { request_id: id, tool_call: { tool_call_id: id }, options: [{ option_id: 'a', name: 'A' }] } });
		await post(server, 'one', ask('first'));
		return codeOf(await server.request('POST', EVENTS, { json: ask('second') }));
	}],
	title_size: [20, async (t, server) => codeOf(await server.request('POST', '/api/sessions', { json: { title: filler(21) } }))],
	sessions: [4, async (t, server) => {
		for (const id of ['three', 'four']) {
			await server.createSession({ id });
		}
		assert.equal(codeOf(await server.request('POST', '/api/sessions/five/events?create=1', { json: note(1) })), 'too_many_sessions');
		const last = await server.request('POST', '/api/sessions', { json: { id: 'five' } });
		assert.equal(last.status, 429);
		assert.equal((await server.request('DELETE', '/api/sessions/four')).status, 204);
		await server.createSession({ id: 'five' });
		return codeOf(last);
	}],
	push_subscriptions: [1, async (t, server) => {
		const subscribe = async () => {
			const { headers, body: { login } } = await server.request('POST', '/api/login', { json: { token: server.token }, headers: { origin: server.url, authorization: undefined } });
			const { json } = new Subscription('https://fcm.googleapis.com/fcm/send/x' + login);
			return server.request('POST', '/api/push', { json, headers: { authorization: undefined, cookie: headers.get('set-cookie').split(';')[0], 'holdfast-login': login } });
		};
		assert.equal((await subscribe()).status, 204);
		return codeOf(await subscribe());
	}],
	sub_sessions: [2, async (t, server) => {
		const make = (id, sub) => server.request('POST', '/api/sessions', { json: { id }, headers: { authorization: `Bearer ${ownToken(server, 'producer', ['*'], { sub })}` } });
		assert.deepEqual([(await make('a', 'ann')).status, (await make('b', 'ann')).status, (await make('c', 'bob')).status], [201, 201, 201]);
		assert.equal((await server.request('DELETE', '/api/sessions/b')).status, 204);
		assert.equal((await make('d', 'ann')).status, 201);
		const last = await make('e', 'ann');
		assert.equal((await make('f', 'bob')).status, 201);
		return codeOf(last);
	}],
	open_blocks: [2, async (t, server) => {
		for (const id of ['a', 'b', 'c']) {
			await server.createSession({ id });
		}
		await post(server, 'a', input.text('not a whole bl'));
		await post(server, 'b', input.text('not a whole bl'));
		const third = await server.request('POST', '/api/sessions/c/events', { json: input.text('not a whole bl') });
		await post(server, 'a', input.text('ock'));
		await post(server, 'b', input.end());
		await post(server, 'c', input.text('not a whole bl'));
		return codeOf(third);
	}],
	names: [3, async (t, server) => {
		for (const key of ['a', 'b', 'c']) {
			await post(server, 'one', { ...note(1), key });
		}
		const last = await server.request('POST', EVENTS, { json: { ...note(1), key: 'd' } });
		assert.deepEqual((await post(server, 'one', { ...note(1), key: 'c' })).acks, [{ seq: 3, duplicate: true }]);
		await post(server, 'one', note(1));
		return codeOf(last);
	}],
	agents: [1, async (t, server) => {
		await server.createSession({ id: 'two' });
		const first = await Observer.connect(t, server, 'one');
		await first.loadAll();
		await first.prompt('permission');
		await first.waitForEvent('permission_request');
		const second = await Observer.connect(t, server, 'two');
		const { code, prompt_id: id } = await second.refused('prompt', { message: 'hello', prompt_id: 'p' });
		assert.equal(id, 'p');
		await first.prompt('waits for its own agent');
		await server.request('DELETE', '/api/sessions/one');
		await eventually(async () => (await readMetrics(server))('agents_running') === 0, 'the agent to be gone');
		await second.prompt('hello', 'p');
		return code;
	}],
	max_disk: ['6M', async (t, server) => {
		await server.createSession({ id: 'large' });
		let code = '';
		const fill = async () => {
			for (let n = 0, full = false; n < 400 && !full; n++) {
				const { status, body } = await server.request('POST', '/api/sessions/large/events', { json: note(50_000) });
				full = status !== 200;
				assert.ok(status === 200 || status === 507, JSON.stringify(body));
				code = full ? codeOf({ body }) : '';
			}
		};
		// What was reckoned full may have room for a little more once it is measured.
		let answer = { status: 201 };
		for (let n = 0; n < 50 && answer.status === 201; n++) {
			await fill();
			answer = await server.request('POST', '/api/sessions', { json: { id: `another-${n}` } });
		}
		assert.ok(sizeOf(server.dataDir) < 6 << 20, `${sizeOf(server.dataDir)}`);
		assert.equal(codeOf(answer), 'disk_full');
		assert.ok((await server.request('GET', '/api/sessions/large/events?after_seq=0&limit=5')).body.events.length > 0, 'all can be read');
		assert.equal((await server.request('DELETE', '/api/sessions/large')).status, 204);
		await eventually(async () => (await server.request('POST', EVENTS, { json: note(1) })).status === 200, 'room again');
		return code;
	}, 'segment_size=64K,journal_ahead=0'],
	streams: [2, async (t, server) => {
		await stream(server, 'PUT', 'a');
		await stream(server, 'PUT', 'b');
		return codeOf(await stream(server, 'PUT', 'c'));
	}],
	stream_size: ['2K', async (t, server) => {
		await stream(server, 'PUT', 'a', filler(2048));
		return codeOf(await stream(server, 'POST', 'a', 'x'));
	}],
	stream_producers: [2, async (t, server) => {
		await stream(server, 'PUT', 'a');
		for (const id of ['p1', 'p2']) {
			assert.equal((await stream(server, 'POST', 'a', 'x', firstOf(id))).status, 200);
		}
		return codeOf(await stream(server, 'POST', 'a', 'x', firstOf('p3')));
	}],
	outbox_frames: [8, neverReads, 'client_requests=100000'],
	outbox_size: ['64K', neverReads, 'client_requests=100000,outbox_frames=100000'],
	journal_backlog: ['64K', async (t, server) => {
		await post(server, 'one', Array.from({ length: 40 }, () => note(50_000)));
		return 'waits';
	}],
};

/** A raw stream of Durable Streams. */
function stream(server, method, name, body, headers = {}) {
	return server.request(method, `/v1/stream/${name}`, { body, headers: { 'content-type': 'text/plain', ...headers } });
}

function firstOf(producer) {
	return { 'producer-id': producer, 'producer-epoch': '0', 'producer-seq': '0' };
}

/** Asks for pages and takes none of them: what it asks for behind the one that fills its socket waits, up to the limit. */
async function neverReads(t, server) {
	await post(server, 'one', Array.from({ length: 100 }, () => note(9_000)));
	const socket = await rawSocket(t, server);
	socket.pause();
	const ask = [frame(TEXT, '{"type":"load_events","data":{"limit":20}}')];
	for (let n = 0; n < 600; n++) {
		ask.push(frame(TEXT, '{"type":"keepalive","data":{}}'));
	}
	await eventually(async () => {
		socket.send(Buffer.concat(ask)).catch(() => {});
		const now = await readMetrics(server);
		return now('limit_reached_total{limit="outbox_frames"}') + now('limit_reached_total{limit="outbox_size"}') > 0;
	}, 'the socket to be cut off');
	return '1008';
}

const table = new Map(spawnSync(binary(), ['limits']).stdout.toString().trim().split('\n').slice(1)
	.map((row) => /^(\S+) .*? to \d+[KM]?(?: ms)? +(-|[a-z_]+|\d{4}) +\S/.exec(row).slice(1, 3)).filter(([, code]) => code !== '-' && code !== 'limit') // which agents reach
	.filter(([name]) => !name.startsWith('node_'))); // 122 has those

test('there is a case for each limit with a code', () => {
	assert.deepEqual(Object.keys(CASES).sort(), [...table.keys()].sort());
});

for (const [name, [value, reach, others = `${name}=${value}`]] of Object.entries(CASES)) {
	test(`${name}: its code, its metric, and nobody else is hurt`, async (t) => {
		const server = await Server.start(t, { agent: demoAgent('--rate 0'), args: ['--limit', `${name}=${value}`, '--limit', others] });
		await server.createSession({ id: 'one' });
		await server.createSession({ id: 'calm' });
		const feeder = await Producer.connect(t, server, 'calm');
		const watcher = await Observer.connect(t, server, 'calm');
		await watcher.loadAll();
		const before = await readMetrics(server);
		const code = await reach(t, server);
		assert.equal(code, table.get(name));
		const { acks } = await feeder.append(input.note({ n: 1 }));
		await watcher.waitForSeq(acks[0].seq);
		await eventually(async () => (await server.request('GET', '/healthz')).status === 200, 'room for a request');
		const after = await readMetrics(server);
		assert.ok(after(`limit_reached_total{limit="${name}"}`) > before(`limit_reached_total{limit="${name}"}`), 'it is counted');
		if (!/^(waits|\d+)$/.test(code)) {
			assert.ok(after(`refusals_total{code="${code}"}`) > before(`refusals_total{code="${code}"}`), `${code} is counted`);
		}
	});
}

test('behind a trusted proxy, connections count for its clients and not for the proxy', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'address_connections=3', '--trust-proxy', '127.0.0.0/8'] });
	const open = async (address) => {
		const socket = await raw(t, server, head('GET', '/healthz', { 'X-Forwarded-For': address }));
		return (await socket.answer()).status;
	};
	assert.deepEqual([await open('192.0.2.1'), await open('192.0.2.1'), await open('192.0.2.1'), await open('192.0.2.1')], [200, 200, 200, 503]);
	assert.deepEqual([await open('192.0.2.2'), await open('192.0.2.1'), await open('192.0.2.2')], [200, 503, 200]);
	const counted = await readMetrics(server);
	assert.equal(counted('limit_reached_total{limit="address_connections"}'), 2);
});

test('whose a session is, is known after a crash and after a restart', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'sub_sessions=2'] });
	const make = async (id, sub) => {
		const { status } = await server.request('POST', '/api/sessions', { json: { id }, headers: { authorization: `Bearer ${ownToken(server, 'producer', ['*'], { sub })}` } });
		return status;
	};
	assert.deepEqual([await make('a', 'ann'), await make('b', 'bob')], [201, 201]);
	await server.kill9();
	await server.restart();
	assert.deepEqual([await make('c', 'ann'), await make('d', 'ann'), await make('e', 'bob')], [201, 429, 201]);
	await server.stop();
	await server.restart();
	assert.deepEqual([await make('f', 'ann'), await make('g', 'bob'), await make('h', 'eve')], [429, 429, 201]);
});

test('what many send faster than they are served is bounded over all of them', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'receive_size=1M,client_requests=5'] });
	await server.createSession({ id: 'one' });
	const calm = await Observer.connect(t, server, 'one');
	await calm.loadAll();
	const pings = Buffer.concat(Array.from({ length: 12_000 }, () => frame(PING, 'x')));
	const sockets = await Promise.all(Array.from({ length: 60 }, () => rawSocket(t, server)));
	await Promise.all(sockets.map((socket) => Promise.race([socket.send(pings).catch(() => {}), new Promise((resolve) => setTimeout(resolve, 500))])));
	await eventually(async () => (await readMetrics(server))('limit_reached_total{limit="receive_size"}') > 0, 'some to be cut off');
	assert.ok((await readMetrics(server))('receiving_bytes') < 2 << 20);
	await post(server, 'one', note(1));
	await calm.waitForSeq(1);
});

test('before a token, a body and a message have 16 KiB and take no room from others', async (t) => {
	const server = await Server.start(t);
	const most = 16 << 10;
	for (const path of ['/api/login', '/index.html', '/healthz', '/api/../x']) {
		const declared = await raw(t, server, head('POST', path, { 'Content-Length': most + 1 }));
		const chunked = await raw(t, server, `${head('POST', path, { 'Transfer-Encoding': 'chunked' })}${(most + 1).toString(16)}\r\n`);
		for (const socket of [declared, chunked]) {
			const answer = await socket.answer();
			assert.deepEqual([answer.status, codeOf(answer)], [413, 'too_large'], path);
		}
	}
	for (const path of ['/api/events', '/api/sessions/one/ws', '/api/sessions/one/produce']) {
		const socket = await raw(t, server, upgrade(path, { 'Sec-WebSocket-Protocol': 'holdfast.v1' }));
		assert.equal((await socket.answer()).status, 101);
		await socket.send(frame(TEXT, filler(most + 1)));
		assert.equal(JSON.parse(await nextOf(socket, TEXT)).data.code, 'too_large', path);
		assert.equal((await nextOf(socket, CLOSE)).readUInt16BE(), 1009, path);
	}
	// With the token in the first message, the next one has all its room, although it comes in the same piece.
	const { id } = await server.createSession();
	const producer = await raw(t, server, upgrade(`/api/sessions/${id}/produce`, { 'Sec-WebSocket-Protocol': 'holdfast.v1' }));
	assert.equal((await producer.answer()).status, 101);
	const append = { type: 'append', data: { events: [note(2 * most)], ref: 'large' } };
	await producer.send(Buffer.concat([{ type: 'token', data: { token: server.token } }, append].map((message) => frame(TEXT, JSON.stringify(message)))));
	assert.equal(JSON.parse(await nextOf(producer, TEXT)).type, 'connected');
	assert.equal(JSON.parse(await nextOf(producer, TEXT)).data.ref, 'large');
});

/** What is asked for on one connection: [the limit that counts it, method, path, body, the token's role, the answer]. */
const ASKED = {
	'events': ['producer_messages', 'POST', EVENTS, note(1), 'producer', 200],
	'a snapshot': ['producer_messages', 'POST', '/api/sessions/one/snapshot', { messages: [{ message_id: 'u', role: 'user', content: 'Hi' }] }, 'producer', 200],
	'events of somebody who may not append them': ['client_requests', 'POST', EVENTS, note(1), 'observer', 403],
	'new sessions': ['client_requests', 'POST', '/api/sessions', {}, 'controller', 201],
	'revocations': ['client_requests', 'POST', '/api/tokens/revoke', { jti: 'nobody' }, 'admin', 204],
	'pages': ['client_requests', 'GET', `${EVENTS}?after_seq=0&limit=1`, undefined, 'observer', 200],
};

test('POSTs of events and snapshots have the rates of a producer, other requests those of a client', async (t) => {
	for (const [small, rate] of [['client_requests', 4], ['producer_messages', 2]]) { // the metrics are requests, too
		const server = await Server.start(t, { args: ['--limit', `${small}=${rate}`] });
		await server.createSession({ id: 'one' });
		const reached = async () => {
			const metrics = await readMetrics(server);
			return ['client_requests', 'producer_messages', 'producer_bytes'].map((limit) => metrics(`limit_reached_total{limit="${limit}"}`));
		};
		for (const [what, [limit, method, path, json, role, status]] of Object.entries(ASKED)) {
			const [before, token, body] = [await reached(), ownToken(server, role), json === undefined ? '' : JSON.stringify(json)];
			const request = head(method, path, { Authorization: `Bearer ${token}`, ...(body && { ...JSON_TYPE, 'Content-Length': body.length }) }) + body;
			const socket = await raw(t, server, request.repeat(4 * rate)); // four seconds' worth; two may be used at once
			for (let n = 0; n < 4 * rate; n++) {
				const answer = await socket.answer();
				assert.equal(answer.status, status, `${what}: ${answer.body}`);
			}
			const waits = (await reached()).map((count, i) => count > before[i]);
			assert.deepEqual(waits, [small === limit && limit === 'client_requests', small === limit && limit === 'producer_messages', false], `${what}, with ${small}=${rate}`);
			socket.drop();
		}
	}
});
