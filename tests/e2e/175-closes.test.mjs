// No descriptor is closed twice: the number may be that of a file of the store by then. A library in front of the server's calls
// (support/close_watch.c) gives each descriptor a number that was not used for long, and notes each close of one that is not open;
// Server.stop() asserts that there was none.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { download, mustUpload, png } from '../support/blobs.mjs';
import { secondCloses, watchCloses } from '../support/close_watch.mjs';
import { nodeAddress, NODE_TIMES } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { partOf } from '../support/part.mjs';
import { Postgres } from '../support/postgres.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { RawSocket, head } from '../support/raw_socket.mjs';
import { TEXT, ask, readAll } from '../support/raw_streams.mjs';
import { rerun } from '../support/rerun.mjs';
import { Server, binary, demoAgent, runToEnd, scratchDir } from '../support/server.mjs';
import { EventStream } from '../support/sse.mjs';
import { makeCert, withTls } from '../support/tls.mjs';
import { WallClock } from '../support/wall_clock.mjs';

process.env.HOLDFAST_TEST_CLOSES = '1';
const postgres = Postgres.start({ after });
/* Other tests that come to what opens and closes. Those of HTTP and WebSocket have every way in which a connection ends. */
const FILES = ['10-rest', '33-agent-life', '71-ws-conformance', '72-http-conformance', '73-http-files', '75-listen', '92-blobs', '97-files', '102-logs', '115-durable-streams-write', '130-editors', '141-webhooks'];

/** What people do with it. */
async function live(t, server, id) {
	await server.createSession({ id });
	const producer = await Producer.connect(t, server, id);
	const observer = await Observer.connect(t, server, id, { query: { deltas: 'text' } });
	await observer.loadAll();
	await EventStream.session(t, server, id);
	await producer.append(input.text('# hello\n\n'));
	await post(server, id, [input.note({ n: 1 }), input.end()]);
	const { seq } = await observer.prompt('hello');
	await observer.waitForEvent('turn_end', { after: seq });
	if (server.url.startsWith('http:')) { // fetch() does not trust ours
		const { blob } = await mustUpload(server, id, png());
		assert.equal((await download(server, id, blob)).status, 200);
	}
	for (const path of [`/api/sessions/${id}/search?q=hello`, `/api/sessions/${id}/events?after_seq=0&format=markdown`, '/metrics', '/', '/nothing']) {
		await server.request('GET', path);
	}
	const cut = await RawSocket.connect(t, server);
	await cut.send(head('POST', `/api/sessions/${id}/events`, { 'content-length': '100' }));
	cut.drop();
	await Promise.all([producer.close(), observer.close()]);
}

test('a start and a stop, with clients and without', async (t) => {
	const server = await Server.start(t, { agent: demoAgent('--rate 0') });
	await server.stop();
	await server.restart();
	await live(t, server, 's');
	const stays = await Observer.connect(t, server, 's');
	await stays.loadAll();
	await server.stop();
});

test('over TLS', async (t) => {
	const server = await Server.start(t, withTls(makeCert(t), { agent: demoAgent('--rate 0') }));
	await live(t, server, 's');
	await server.stop();
});

test('two nodes, one of which has the session of the other', async (t) => {
	const nodes = [];
	for (let n = 0; n < 2; n++) {
		nodes.push(await Server.start(t, { agent: demoAgent('--rate 0'), args: ['--store', postgres.address('closes'), '--node-listen', nodeAddress(), ...NODE_TIMES] }));
	}
	const [a, b] = nodes;
	await live(t, a, 's');
	const there = await Observer.connect(t, b, 's');
	await there.loadAll();
	await post(b, 's', [input.note({ n: 2 })]);
	await b.stop();
	await a.stop();
});

test('a start that fails', async (t) => {
	const server = await Server.start(t);
	const closes = join(scratchDir(t), 'closes');
	const env = watchCloses({ ASAN_OPTIONS: 'detect_leaks=1' }, binary(), closes);
	const { port } = new URL(server.url);
	for (const args of [['--listen', `127.0.0.1:${port}`], ['--listen', '127.0.0.1:0', '--tls-cert', '/nothing', '--tls-key', '/nothing'], ['--listen', '0.0.0.0:0', '--auth', 'off']]) {
		const { code, stderr } = await runToEnd(['serve', '--data', join(scratchDir(t), 'data'), '--web', '', ...args], { env });
		assert.equal(code, 1, stderr);
	}
	assert.deepEqual(secondCloses(closes), []);
});

test('an hour of an ordinary life', async (t) => {
	const clock = new WallClock(t, { isWhole: true });
	const server = await Server.start(t, { agent: demoAgent('--rate 0'), env: clock.env, args: ['--limit', 'evict_ms=60000,segment_size=64K'] });
	for (let n = 0; n < 12; n++) {
		await live(t, server, `s${n}`);
		await ask(server, 'PUT', `stream${n}`, { type: TEXT, body: `text ${n}` });
		assert.equal(String(await readAll(server, `stream${n}`)), `text ${n}`);
		await server.request('DELETE', `/api/sessions/s${n - 2}`);
		clock.set(clock.shiftMs + 300_000);
	}
	await server.stop();
});

for (const name of partOf(FILES)) {
	test(`${name}, watched`, (t) => rerun(t, name, {}));
}
