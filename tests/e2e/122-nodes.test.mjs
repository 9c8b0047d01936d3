// Several nodes on one PostgreSQL: a session that one of them has is there at every other, whatever a client does with it.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { download, mustUpload, png } from '../support/blobs.mjs';
import { Chat, transportOf } from '../support/ai_chat.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { nodeAddress, startNodes as startOn } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { demoAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { EventStream } from '../support/sse.mjs';
import { check } from '../support/schema.mjs';
import { TestSocket } from '../support/socket.mjs';
import { bearer, claims, makeToken, ownToken, secretOf } from '../support/tokens.mjs';
import { defer, eventually, patience } from '../support/wait.mjs';

const postgres = Postgres.start({ after });
const startNodes = (t, count, options) => startOn(t, postgres, count, options);
const notes = (count, from = 0) => Array.from({ length: count }, (_, n) => input.note({ n: n + from }));
const SHORT_LEASE = ['--limit', `node_lease_ms=${1000 * patience},node_silence_ms=${300 * patience}`]; // a machine that is slow renews late

/** Appends a note again and again, with its key, until it is acknowledged; gives its seq. */
async function insist(node, id, n) {
	for (;;) {
		const { status, body } = await node.request('POST', `/api/sessions/${id}/events`, { json: [{ ...input.note({ n }), key: `k${n}` }] });
		if (status === 200) {
			return body.acks[0].seq;
		}
		assert.ok(status === 503, JSON.stringify([status, body]));
		await sleep(50);
	}
}

/** The events of a session, as they are at a node, which may take it over for that. */
async function eventsAt(t, node, id) {
	for (;;) {
		try {
			return await (await Observer.connect(t, node, id)).loadAll();
		} catch (error) {
			assert.match(error.message, /closed \((1001|1011)/); // it goes to another node meanwhile
		}
		await sleep(50);
	}
}

const codeOf = ({ body }) => (typeof body === 'string' ? JSON.parse(body) : body)?.error?.code;

test('all of the REST side is there at a node that has not the session', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's', title: 'one' });
	const appended = await post(b, 's', [{ ...input.note({ n: 0 }), key: 'k' }, input.text('# hello\n\n')]);
	assert.deepEqual(appended.acks.map(({ seq }) => seq), [1, 2]);
	const again = await post(b, 's', [{ ...input.note({ n: 0 }), key: 'k' }]);
	assert.deepEqual([again.acks[0].seq, again.acks[0].duplicate], [1, true]);
	for (const path of ['', '/events', '/events?after_seq=0&format=markdown', '/queue', '/search?q=hello', '/events?after_seq=x', '/nothing']) {
		const [there, here] = await Promise.all([a, b].map((node) => node.request('GET', `/api/sessions/s${path}`)));
		assert.deepEqual([here.status, here.body], [there.status, there.body], path);
	}
	const head = await b.rawRequest('HEAD', '/api/sessions/s');
	assert.deepEqual([head.status, head.body], [200, '']);
	assert.equal((await b.request('PATCH', '/api/sessions/s', { json: { title: 'two' } })).body.title, 'two');
	assert.equal((await a.request('GET', '/api/sessions/s')).body.title, 'two');
	const { status, body } = await b.request('POST', '/api/sessions/s/snapshot', { json: { messages: [] } });
	assert.equal(status, 200, JSON.stringify(body));
	assert.equal((await b.request('DELETE', '/api/sessions/s')).status, 204);
	assert.equal((await a.request('GET', '/api/sessions/s')).status, 404);
	assert.equal((await b.request('GET', '/api/sessions/s')).status, 404);
});

test('a connection goes on after a request that was passed on', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const { hostname, port } = new URL(b.url);
	const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
	const ports = new Set();
	for (const path of ['/api/sessions/s', '/api/sessions/s/events', '/healthz', '/api/sessions/s']) {
		await new Promise((resolve, reject) => {
			http.get({ hostname, port, path, agent, headers: bearer(b.token) }, (response) => {
				assert.equal(response.statusCode, 200);
				ports.add(response.socket.localPort);
				response.resume().on('end', resolve);
			}).on('error', reject);
		});
	}
	agent.destroy();
	assert.equal(ports.size, 1);
});

test('images and files go up and come down through another node', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const large = Buffer.alloc(9_000_001, 'holdfast');
	for (const bytes of [png(), large]) {
		const { blob } = await mustUpload(b, 's', bytes);
		for (const node of [a, b]) {
			const answer = await download(node, 's', blob);
			assert.equal(answer.status, 200);
			assert.ok(answer.bytes.equals(bytes));
		}
		const part = await download(b, 's', blob, { headers: { range: 'bytes=10-19' } });
		assert.deepEqual([part.status, part.bytes], [206, bytes.subarray(10, 20)]);
	}
	const chunked = await fetch(`${b.url}/api/sessions/s/blobs`, { method: 'POST', headers: bearer(b.token), duplex: 'half', body: new ReadableStream({
		start(controller) {
			for (let n = 0; n < 40; n++) {
				controller.enqueue(large.subarray(n * 100_000, (n + 1) * 100_000));
			}
			controller.close();
		},
	}) });
	assert.deepEqual([chunked.status, (await chunked.json()).size], [201, 4_000_000]);
	const tooLarge = await b.request('POST', '/api/sessions/s/blobs', { body: Buffer.alloc(17 << 20), headers: { expect: undefined } }).catch((error) => ({ status: error.cause?.code }));
	assert.ok([413, 'ECONNRESET', 'EPIPE'].includes(tooLarge.status), String(tooLarge.status));
});

test('an endless body of lines goes on as it comes', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const { hostname, port } = new URL(b.url);
	const request = http.request({ method: 'POST', hostname, port, path: '/api/sessions/s/events', headers: { ...bearer(b.token), 'content-type': 'application/x-ndjson' } });
	const answer = new Promise((resolve, reject) => {
		request.on('error', reject);
		request.on('response', (response) => {
			let text = '';
			response.on('data', (d) => (text += d)).on('end', () => resolve({ status: response.statusCode, body: JSON.parse(text) }));
		});
	});
	const observer = await Observer.connect(t, a, 's');
	await observer.loadAll();
	for (const event of notes(20)) {
		request.write(`${JSON.stringify(event)}\n`);
		await observer.waitForSeq(event.data.n + 1);
	}
	const many = notes(20_000, 20).map((event) => `${JSON.stringify(event)}\n`);
	request.write(many.join(''));
	request.end('{"type":"nothing"}\n');
	const { status, body } = await answer;
	assert.deepEqual([status, body.error.code, body.error.stored], [400, 'unknown_type', 20_020], JSON.stringify(body));
	await observer.waitForSeq(20_020);
	const events = observer.events();
	assert.deepEqual(events.map(({ data }) => data.n), events.map((_, n) => n));
});

test('an observer sees at any node what it sees at the owner', async (t) => {
	const [a, b, c] = await startNodes(t, 3, { agent: demoAgent() });
	await a.createSession({ id: 's', title: 'x' });
	await post(a, 's', [input.text('before\n\n'), ...notes(2500)]);
	const observers = await Promise.all([a, b, c].map((node) => Observer.connect(t, node, 's', { query: { client_id: 'me', deltas: 'text' }, compressed: node === c })));
	const [there, ...elsewhere] = observers;
	elsewhere.forEach((observer) => assert.deepEqual(observer.hello, there.hello));
	await Promise.all(observers.map((observer) => observer.loadAll()));
	const producer = await Producer.connect(t, c, 's');
	const ref = await producer.push(input.text('a line of text\n\n'), input.text('ä'.repeat(100_000)), input.text('\n\nend\n\n'));
	const { max_seq: last } = await producer.acked(ref);
	await Promise.all(observers.map((observer) => observer.waitForSeq(last)));
	elsewhere.forEach((observer) => assert.deepEqual(observer.events(), there.events()));
	// It resumes elsewhere where it was.
	await elsewhere[0].close();
	await post(c, 's', notes(3));
	const resumed = await Observer.connect(t, a, 's', { held: elsewhere[0].events(), epoch: elsewhere[0].epoch });
	await resumed.loadAll();
	await resumed.waitForSeq(last + 3);
	assert.deepEqual(resumed.resets, []);
		assert.equal((await b.request('DELETE', '/api/sessions/s')).status, 204);
	assert.deepEqual(await elsewhere[1].waitClosed(), { code: 4404, reason: 'deleted' });
	assert.equal(elsewhere[1].frames.at(-1).data.reason, 'deleted');
});

test('a prompt, its permission and its answer go through another node', async (t) => {
	const [a, b] = await startNodes(t, 2, { agent: demoAgent() });
	await a.createSession({ id: 's' });
	const observer = await Observer.connect(t, b, 's', { query: { client_id: 'me' } });
	await observer.loadAll();
	await observer.send('prompt', { message: '/permission', prompt_id: 'p1' });
	const request = await observer.waitForEvent((e) => e.type === 'permission_request');
	await observer.send('permission_answer', { request_id: request.data.request_id, option_id: request.data.options[0].option_id });
	const resolved = await observer.waitForEvent((e) => e.type === 'permission_resolved');
	assert.equal(resolved.data.by, 'me');
	await observer.waitForEvent((e) => e.type === 'turn_end');
	await observer.send('permission_answer', { request_id: request.data.request_id, option_id: request.data.options[0].option_id });
	const error = await observer.waitFor((f) => f.type === 'error');
	assert.equal(error.data.code, 'already_resolved');
});

test('server-sent events come through another node, and go on after the id that was seen last', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	await post(a, 's', notes(10));
	const stream = await EventStream.session(t, b, 's');
	await stream.waitForSeq(10);
	await post(b, 's', notes(5, 10));
	await stream.waitForSeq(15);
	const { lastId } = stream;
	stream.abort();
	await eventually(async () => (await readMetrics(a))('observers{transport="sse"}') === 0, 'the owner to see that it has gone');
	await post(a, 's', notes(5, 15));
	const next = await EventStream.session(t, b, 's', { lastId });
	await next.waitForSeq(20);
	assert.deepEqual(next.events.map(({ seq }) => seq), [16, 17, 18, 19, 20]);
	assert.equal((await b.request('DELETE', '/api/sessions/s')).status, 204);
	await next.waitEnd();
});

test('the AI SDK chats with a session of another node', async (t) => {
	const [a, b] = await startNodes(t, 2, { agent: demoAgent() });
	for (const kind of ['websocket', 'http']) {
		await a.createSession({ id: kind });
		const chat = new Chat({ id: kind, transport: transportOf(b, kind, kind) });
		await chat.sendMessage({ text: 'hello' });
		await chat.until(() => chat.status === 'ready' && chat.messages.length === 2);
		assert.ok(chat.text.length > 0);
		assert.deepEqual(chat.errors, []);
	}
	// As at the owner, a chat gets no frame that its protocol does not have.
	const socket = new TestSocket(t, b.ws('/api/ai/websocket'), () => null);
	await socket.sendRaw(JSON.stringify({ type: 'resume', requestId: 'r', id: 'c', headers: {}, body: {} }));
	await socket.waitFor(({ requestId }) => requestId === 'r');
	await b.stop();
	await socket.waitClosed();
	assert.deepEqual([socket.closed.code, socket.frames.map(({ type }) => type)], [1001, ['no-active']]);
});

test('the owner applies the rights of whoever asks at another node', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 'team.s' });
	await post(a, 'team.s', [input.tool('t1'), ...notes(1)]);
	const get = (token, path = '') => b.request('GET', `/api/sessions/team.s${path}`, { headers: bearer(token) });
	const observer = ownToken(b, 'observer', ['team.*'], { sub: 'ann', holdfast: { role: 'observer', sessions: ['team.*'], hide: ['tools'] } });
	assert.equal((await get(observer)).status, 200);
	assert.deepEqual((await get(observer, '/events')).body.events.map((e) => e.redacted ?? false), [true, false]);
	const refused = await b.request('POST', '/api/sessions/team.s/events', { json: notes(1), headers: bearer(observer) });
	assert.deepEqual([refused.status, codeOf(refused)], [403, 'forbidden']);
	assert.equal((await b.request('DELETE', '/api/sessions/team.s', { headers: bearer(observer) })).status, 403);
	assert.equal((await get(ownToken(b, 'observer', ['other.*']))).status, 404);
	assert.equal((await get('wrong')).status, 401);
	assert.equal((await b.rawRequest('GET', '/api/sessions/team.s', { authorization: undefined })).status, 401);
	const socket = await Observer.connect(t, b, 'team.s', { headers: bearer(observer) });
	assert.deepEqual([socket.hello.role, socket.hello.hide], ['observer', ['tools']]);
	await socket.send('prompt', { message: 'x', prompt_id: 'p' });
	assert.equal((await socket.waitFor((f) => f.type === 'error')).data.code, 'forbidden');
});

test('a token is renewed and ends at the node that the client reached', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const make = (seconds, role = 'controller', sub = 'ann') => makeToken({ ...claims(role), sub, exp: Math.floor(Date.now() / 1000) + seconds }, secretOf(b));
	const first = make(60 * patience);
	const late = new Observer(t, b.ws('/api/sessions/s/ws'), check.server, { headers: { authorization: undefined }, protocols: ['holdfast.v1'] });
	await late.send('token', { token: first });
	assert.equal((await late.waitFor('connected')).data.role, 'controller');
	const socket = await Observer.connect(t, b, 's', { headers: bearer(first) });
	await socket.send('token', { token: make(600, 'observer') });
	const renewed = await socket.waitFor((f) => f.type === 'token_renewed');
	assert.equal(renewed.data.role, 'observer');
	await socket.send('prompt', { message: 'x', prompt_id: 'p' });
	assert.equal((await socket.waitFor((f) => f.type === 'error')).data.code, 'forbidden');
	await socket.send('token', { token: make(600, 'observer', 'eve') });
	assert.equal((await socket.waitClosed()).code, 4401);
	const short = await Observer.connect(t, b, 's', { headers: bearer(make(2 * patience)) }); // it has to come in before
	assert.equal((await short.waitClosed()).code, 4401);
});

test('the listener for nodes lets nobody in who is none, and no other listener believes in one', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const url = `http://${a.address}`;
	for (const [path, headers] of [['/healthz', {}], ['/', {}], ['/api/sessions', bearer(a.token)], ['/api/sessions/s', bearer(a.token)], ['/api/sessions/s', { 'holdfast-node': 'e30.e30' }], ['/metrics', bearer(a.token)]]) {
		const answer = await fetch(url + path, { headers });
		assert.equal(answer.status, 421, path);
	}
	const answer = await b.rawRequest('GET', '/api/sessions/s', { authorization: undefined, 'holdfast-node': 'e30.e30' });
	assert.equal(answer.status, 401);
});

test('a session that another node has is not made a second time', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const refused = await b.request('POST', '/api/sessions', { json: { id: 's' } });
	assert.deepEqual([refused.status, codeOf(refused)], [409, 'session_exists']);
	const answer = await b.request('POST', '/api/sessions/s/events?create=1', { json: notes(1) });
	assert.deepEqual([answer.status, answer.body.acks[0].seq], [200, 1]);
	assert.equal((await b.request('GET', '/api/sessions/none')).status, 404);
});

test('the owner is killed, or stopped: what was acknowledged through another node is there once, at every node', async (t) => {
	const [a, b, c] = await startNodes(t, 3, { args: SHORT_LEASE });
	await a.createSession({ id: 's' });
	let n = 0;
	const more = async (node, count) => {
		for (const end = n + count; n < end; n++) {
			assert.equal(await insist(node, 's', n), n + 1);
		}
	};
	await more(b, 20);
	await a.kill9();
	await more(b, 20);
	await a.restart();
	await more(a, 20);
	await b.stop(); // it has it now
	await more(a, 20);
	await b.restart();
	for (const node of [a, b, c]) {
		await more(node, 5);
		const events = await eventsAt(t, node, 's');
		assert.deepEqual(events.map(({ data }) => data.n), Array.from({ length: n }, (_, at) => at));
	}
});

test('a node that waits to take a session over keeps its lease', async (t) => {
	const leaseMs = 3000 * patience; // a node that the machine keeps waiting for a second has not failed
	const [a, b] = await startNodes(t, 2, { database: 'slow', args: ['--limit', `node_lease_ms=${leaseMs}`] });
	await a.createSession({ id: 'gone' });
	await b.createSession({ id: 'kept' });
	const release = await postgres.hold(t, 'slow', "SELECT FROM holdfast_session WHERE id = 'gone' FOR UPDATE");
	await a.kill9();
	const isWaiting = () => postgres.ask('slow', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") !== '0';
	await eventually(isWaiting, 'the other node to take what is free now');
	const leaseEnd = () => Number(postgres.ask('slow', 'SELECT max(extract(epoch FROM lease_until)) * 1000 FROM holdfast_node'));
	const end = leaseEnd();
	await eventually(() => leaseEnd() > end + 3 * leaseMs, 'its lease to be renewed for the time of three');
	assert.equal(await insist(b, 'kept', 1), 1);
	assert.doesNotMatch(b.stderr, /lets go of/);
	await release();
	assert.equal(await insist(b, 'gone', 1), 1);
});

test('an observer of an owner that sleeps is sent to reconnect, and goes on elsewhere', async (t) => {
	const [a, b] = await startNodes(t, 2, { args: SHORT_LEASE });
	await a.createSession({ id: 's' });
	await post(a, 's', notes(5));
	const observer = await Observer.connect(t, b, 's');
	await observer.loadAll();
	const { pid } = a;
	process.kill(pid, 'SIGSTOP');
	try {
		const early = insist(b, 's', 5); // which its kernel takes
		assert.deepEqual(await observer.waitClosed(), { code: 1001, reason: 'owner gone' });
		assert.equal(await early, 6);
	} finally {
		process.kill(pid, 'SIGCONT');
	}
	const resumed = await Observer.connect(t, b, 's', { held: observer.events(), epoch: observer.epoch });
	await resumed.loadAll();
	await resumed.waitForSeq(6);
	assert.deepEqual(resumed.resets, []);
	await eventually(async () => (await a.request('GET', '/api/sessions/s')).body.max_seq === 6, 'the one that slept to see that it has the session no more');
});

test('a client that does not read costs no memory at the node that passes on, and gets all', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const text = 'x'.repeat(500_000);
	for (let n = 0; n < 40; n++) {
		await post(a, 's', [input.note({ n, text }), input.note({ n, text })]);
	}
	const observer = await Observer.connect(t, b, 's', { query: { format: 'markdown' } });
	observer.pause();
	await observer.send('load_events', { after_seq: 0, follow: true, limit: 80 });
	await eventually(async () => (await readMetrics(b))('sending_bytes') > 0, 'it to be behind');
	let most = 0;
	for (let n = 0; n < 20; n++) {
		most = Math.max(most, (await readMetrics(b))('sending_bytes'));
		await sleep(50);
	}
	assert.ok(most < 8 << 20, `${most} bytes are kept of 40 MB`);
	const { hostname, port } = new URL(b.url);
	const response = await new Promise((resolve, reject) => {
		const request = http.get({ hostname, port, path: '/api/sessions/s/events?after=0&format=markdown', headers: { ...bearer(b.token), accept: 'text/event-stream' } }, resolve).on('error', reject);
		defer(t, () => request.destroy());
	});
	observer.resume();
	await observer.waitUntil(() => observer.last === 80, 'all of it');
	let size = 0;
	response.on('data', (bytes) => (size += bytes.length));
	await eventually(() => size > 80 * text.length, 'all of the stream');
});

test('limits between nodes have a code and are counted', async (t) => {
	const [a, b] = await startNodes(t, 2, { args: ['--limit', `node_sockets=1,node_connect_ms=${100 * patience}`] });
	await a.createSession({ id: 's' });
	await Observer.connect(t, b, 's');
	const refused = await b.request('GET', '/api/sessions/s');
	assert.deepEqual([refused.status, codeOf(refused)], [503, 'too_many_connections']);
	await a.createSession({ id: 'other' });
	await Observer.connect(t, b, 's'); // they share one
	const other = new Observer(t, b.ws('/api/sessions/other/ws'), () => null);
	assert.equal((await other.waitFor('error')).data.code, 'too_many_connections');
	assert.equal((await other.waitClosed()).code, 1013);
	const metrics = await readMetrics(b);
	assert.equal(metrics('limit_reached_total{limit="node_sockets"}'), 2);
	assert.equal(metrics('node_sockets'), 1);
});

test('a node that does not take a connection is given up in time', async (t) => {
	// Its kernel takes two, for a program that is stopped, and no more.
	const [host, port] = nodeAddress().split(':');
	const child = spawn(process.execPath, ['-e', `require('net').createServer().listen({ host: '${host}', port: ${port}, backlog: 1 }, () => console.log('up'))`], { stdio: ['ignore', 'pipe', 'inherit'] });
	defer(t, () => child.kill('SIGKILL'));
	await once(child.stdout, 'data');
	child.kill('SIGSTOP');
	for (let n = 0; n < 2; n++) {
		const socket = net.connect({ host, port });
		defer(t, () => socket.destroy());
		await once(socket, 'connect');
	}
	const limit = ['--limit', 'node_connect_ms=100'];
	const [a] = await startNodes(t, 1, { database: 'far', args: ['--node-address', `${host}:${port}`, ...limit] });
	const [b] = await startNodes(t, 1, { database: 'far', args: limit });
	await a.createSession({ id: 's' });
	const answer = await b.request('GET', '/api/sessions/s');
	assert.deepEqual([answer.status, codeOf(answer)], [503, 'owner_unreachable']);
	assert.equal((await readMetrics(b))('limit_reached_total{limit="node_connect_ms"}'), 1);
});

test('what goes wrong between nodes is told, counted, and over', async (t) => {
	const [a, b] = await startNodes(t, 2);
	await a.createSession({ id: 's' });
	const observer = await Observer.connect(t, b, 's');
	const stream = await EventStream.session(t, b, 's');
	await stream.waitFor('live');
	await a.kill9();
	assert.deepEqual(await observer.waitClosed(), { code: 1001, reason: 'owner gone' });
	await stream.waitEnd();
	const answer = await b.request('POST', '/api/sessions/s/events', { json: notes(1) });
	assert.deepEqual([answer.status, codeOf(answer), answer.headers.get('retry-after')], [503, 'owner_unreachable', '1']);
	const socket = await Observer.connect(t, b, 's', { query: {} }).catch((error) => error);
	assert.match(String(socket), /closed \(1001 owner gone\)/);
	const metrics = await readMetrics(b);
	assert.ok(metrics('node_failures_total') >= 3);
	assert.equal(metrics('node_sockets'), 0);
});

test('the options for nodes are refused where they make no sense', async (t) => {
	const said = async (...args) => {
		const { code, stderr } = await runToEnd(['serve', '--listen', '127.0.0.1:0', '--data', scratchDir(t), ...args]);
		assert.equal(code, 2, stderr);
		return stderr;
	};
	const store = ['--store', 'postgresql:///holdfast'];
	assert.match(await said('--node-listen', '127.0.0.1:7000'), /--node-listen "127.0.0.1:7000": it needs --store/);
	assert.match(await said(...store, '--node-address', 'here:7000'), /--node-address "here:7000": it needs --node-listen/);
	assert.match(await said(...store, '--node-listen', '0.0.0.0:7000'), /say with --node-address/);
	assert.match(await said(...store, '--node-listen', '[::]:7000'), /say with --node-address/);
	assert.match(await said(...store, '--node-listen', '127.0.0.1:0'), /name a port/);
	assert.match(await said(...store, '--node-listen', 'nonsense'), /expected ADDRESS:PORT/);
	assert.match(await said(...store, '--node-listen', '0.0.0.0:7000', '--node-address', '0.0.0.0:7000'), /other nodes cannot connect/);
});
