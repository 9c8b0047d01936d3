// Forks of a raw stream that is not on disk yet: for others it does not exist until then, so it cannot be forked at a wrong place.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FaultyDisk, hasFaultyDisk } from '../support/faulty_disk.mjs';
import { RawSocket } from '../support/raw_socket.mjs';
import { JSON_TYPE, ask, offsetOf, readAll } from '../support/raw_streams.mjs';
import { Server, scratchDir } from '../support/server.mjs';

const can = hasFaultyDisk();
if (!can) {
	console.log('the tests in C are not built here: no disk is slow');
	test('no disk can be slow here', () => assert.equal(hasFaultyDisk(), false));
}

can && test('a fork at an offset, of a stream that is being created', async (t) => {
	const disk = new FaultyDisk(scratchDir(t));
	const server = await Server.start(t, { env: disk.env });
	assert.equal((await ask(server, 'PUT', 'other', { type: JSON_TYPE })).status, 201);
	const socket = await RawSocket.connect(t, server);
	disk.hold();
	const made = ask(server, 'PUT', 'source', { type: JSON_TYPE, body: '[1,2,3]' });
	await disk.isHolding();
	const body = '[ 9 ]';
	await socket.send(`PUT /v1/stream/fork HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.token}\r\nConnection: close\r\n` +
		`Stream-Forked-From: /v1/stream/source\r\nStream-Fork-Offset: ${offsetOf(4)}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
	for (let i = 0; i < 3; i++) { // answered behind the request above, which came before
		assert.equal((await ask(server, 'HEAD', 'source')).status, 404);
	}
	disk.pass();
	assert.equal((await made).status, 201);
	await socket.until(() => socket.ended, 'the end of the answer');
	const fork = await ask(server, 'GET', 'fork', { query: { offset: '-1' } });
	if (fork.status === 200) {
		assert.equal(fork.body, '[1,2,9]');
	} else {
		assert.equal(fork.status, 404);
	}
	assert.equal(String(await readAll(server, 'source')), '[1,2,3]');
	await server.stop();
});
