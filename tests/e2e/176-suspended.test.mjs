// A server that is stopped for longer than its limits (SIGSTOP; a machine that sleeps, a virtual one that is paused) blames nobody
// for it when it goes on: it reads what came meanwhile, and its own absence counts against nobody.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startNodes } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { RawSocket, head, upgrade } from '../support/raw_socket.mjs';
import { Server, scratchDir } from '../support/server.mjs';
import { EventStream } from '../support/sse.mjs';
import { SHORT, limits, suspend } from '../support/suspend.mjs';
import { bearer } from '../support/tokens.mjs';

test('who has sent meanwhile, and who was to answer a ping, stays', async (t) => {
	const server = await Server.start(t, { args: limits(['ping_ms', 'pong_ms', 'receive_ms', 'head_ms', 'token_ms', 'keepalive_ms', 'comment_ms']) });
	await server.createSession({ id: 's' });
	const observers = await Promise.all(Array.from({ length: 20 }, () => Observer.connect(t, server, 's')));
	await Promise.all(observers.map((observer) => observer.loadAll()));
	const producer = await Producer.connect(t, server, 's');
	const stream = await EventStream.session(t, server, 's');
	const body = JSON.stringify(input.note({ n: 1 }));
	const halves = {
		head: await RawSocket.connect(t, server),
		body: await RawSocket.connect(t, server),
		upgrade: await RawSocket.connect(t, server),
		idle: await RawSocket.connect(t, server),
	};
	const request = head('GET', '/healthz');
	const append = head('POST', '/api/sessions/s/events', { ...bearer(server.token), 'Content-Type': 'application/json', 'Content-Length': body.length });
	const handshake = upgrade('/api/sessions/s/ws', bearer(server.token));
	await halves.idle.send(request);
	await halves.idle.answer();
	await halves.head.send(request.slice(0, 20));
	await halves.body.send(append + body.slice(0, 9));
	await halves.upgrade.send(handshake.slice(0, 20));
	await server.request('GET', '/healthz'); // they have been read
	let acked;
	await suspend(server.pid, async () => {
		acked = producer.append(input.note({ n: 2 }));
		await Promise.all([halves.head.send(request.slice(20)), halves.body.send(body.slice(9)), halves.upgrade.send(handshake.slice(20)), halves.idle.send(request)]);
	});
	await acked;
	assert.deepEqual(await Promise.all(['head', 'body', 'idle', 'upgrade'].map(async (name) => (await halves[name].answer({ bodyless: name === 'upgrade' })).status)), [200, 200, 200, 101]);
	await sleep(1.5 * SHORT); // all sweeps have judged
	assert.deepEqual([...observers, producer].map(({ closed }) => closed), Array(21).fill(null));
	const { acks } = await post(server, 's', input.note({ n: 100 }));
	await Promise.all(observers.map((observer) => observer.waitForSeq(acks[0].seq)));
	await stream.waitForSeq(acks[0].seq);
});

test('an agent whose answer lies there is not given up', async (t) => {
	const file = join(scratchDir(t), 'agent.mjs');
	const go = join(file, '../go');
	writeFileSync(file, `import { existsSync } from 'node:fs';
		import { createInterface } from 'node:readline';
		let prompt;
		for await (const line of createInterface({ input: process.stdin })) {
			const { id, method } = JSON.parse(line);
			const say = (to, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id: to, result }));
			if (method === 'initialize') say(id, { protocolVersion: 1, agentCapabilities: {} });
			else if (method === 'session/new') say(id, { sessionId: 'a' });
			else if (method === 'session/prompt') prompt = id;
			else if (method === 'session/cancel') {
				while (!existsSync(${JSON.stringify(go)})) await new Promise((done) => setTimeout(done, 20));
				say(prompt, { stopReason: 'cancelled' });
			}
		}`);
	const server = await Server.start(t, { agent: `${process.execPath} ${file}` });
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	const { seq } = await observer.prompt('hello');
	await observer.waitForEvent('turn_begin', { after: 0 }).catch(() => {});
	observer.send('cancel');
	await server.request('GET', '/healthz'); // the server has read it
	await suspend(server.pid, () => writeFileSync(go, ''), 12_000); // it waits for 10 s
	const end = await observer.waitForEvent((e) => ['turn_end', 'agent_stopped'].includes(e.type), { after: seq });
	assert.deepEqual([end.type, end.data.stop_reason], ['turn_end', 'cancelled'], JSON.stringify(end));
	assert.ok(!observer.events().some(({ type }) => type === 'agent_stopped'));
});

test('what a node has asked another is answered, and who watches there stays', async (t) => {
	const postgres = Postgres.start(t);
	const [a, b] = await startNodes(t, postgres, 2, { args: limits(['node_silence_ms']) });
	await a.createSession({ id: 's' });
	const observer = await Observer.connect(t, b, 's');
	await observer.loadAll();
	await suspend(b.pid, () => post(a, 's', input.note({ n: 1 })));
	await observer.waitForSeq(1);
	await sleep(1.5 * SHORT);
	await post(a, 's', input.note({ n: 2 }));
	await observer.waitForSeq(2);
	assert.equal(observer.closed, null);
});
