// Sends that several threads share: each of many observers gets every event, once and in order, beside some that stop reading, break off, or come in the middle.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { authOf } from '../support/auth.mjs';
import { PING, RawSocket, TEXT, frame, upgrade, upgradeFault } from '../support/raw_socket.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, unsynced } from '../support/server.mjs';
import { makeCert, withTls } from '../support/tls.mjs';

const OBSERVERS = 200; // so many that threads are woken, and the last of them wait for the loop
const APPENDS = 45;
const LOAD = JSON.stringify({ type: 'load_events', data: { after_seq: 0, follow: true } });

/** A WebSocket that loads all and follows; it is live when its page has come. */
async function follow(t, server) {
	const socket = await RawSocket.connect(t, server);
	await socket.send(Buffer.concat([Buffer.from(upgrade('/api/sessions/s/ws?format=markdown', authOf(server.url))), frame(TEXT, LOAD)]));
	assert.equal(upgradeFault(await socket.answer()), null);
	return { socket, events: [] };
}

/** Reads until the observer has the event with this text. */
async function readUntil({ socket, events }, last) {
	while (events.at(-1)?.data.markdown !== last) {
		const { opcode, payload } = await socket.frame();
		if (opcode === PING) {
			continue;
		}
		const { type, data } = JSON.parse(payload);
		if (type === 'events' || type === 'events_loaded') {
			events.push(...data.events);
		}
	}
}

async function check(t, server) {
	await server.createSession({ id: 's' });
	await post(server, 's', input.text('It begins.\n\n'));
	const crowd = await Promise.all(Array.from({ length: OBSERVERS }, () => follow(t, server)));
	await Promise.all(crowd.map((observer) => readUntil(observer, 'It begins.\n\n')));
	const [deaf, broken, rest] = [crowd.slice(0, 10), crowd.slice(10, 25), crowd.slice(25)];
	deaf.forEach(({ socket }) => socket.pause());
	for (let i = 0; i < APPENDS; i++) {
		const posted = post(server, 's', Array.from({ length: 4 }, (_, n) => input.text(`Paragraph ${n} of append ${i}: ${'word '.repeat(60)}end.\n\n`)));
		if (i % 3 === 0) {
			broken[i / 3].socket.drop(); // while the others are told
		}
		await posted;
		if (i % 3 === 0) {
			rest.push(await follow(t, server));
		}
	}
	await post(server, 's', input.text('The end.\n\n'));
	await Promise.all(rest.map((observer) => readUntil(observer, 'The end.\n\n')));
	deaf.forEach(({ socket }) => socket.resume());
	await Promise.all(deaf.map((observer) => readUntil(observer, 'The end.\n\n')));
	const { body } = await server.request('GET', '/api/sessions/s/events?after_seq=0&limit=5000&format=markdown');
	assert.equal(body.events.length, 2 + 4 * APPENDS);
	for (const { events } of [...rest, ...deaf]) {
		assert.deepEqual(events, body.events);
	}
}

test('observers that several threads send to get what is in the log', async (t) => {
	await check(t, await Server.start(t, { args: [...unsynced, '--limit', 'send_threads=3'] }));
});

test('over TLS as well', async (t) => {
	await check(t, await Server.start(t, withTls(makeCert(t), { args: [...unsynced, '--limit', 'send_threads=3'] })));
});
