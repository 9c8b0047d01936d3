// A directory that never answers, as a dead NFS server's: agents that read there stop nobody else.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { Server, canHang, scratchDir } from '../support/server.mjs';

const hangs = canHang();
if (!hangs) {
	console.log('FUSE cannot be mounted here: a hung mount is not tested');
	test('no mount can hang here', () => assert.equal(canHang(), false));
}

const readingAgent = `${process.execPath} ${fileURLToPath(new URL('../support/reading_agent.mjs', import.meta.url))}`;

hangs && test('file reads that never end stop no append, and SIGTERM ends the server', async (t) => {
	const cwd = scratchDir(t);
	const hungDir = join(cwd, 'hung');
	mkdirSync(hungDir);
	const args = ['--limit', 'agent_stop_ms=500', '--limit', 'stop_wait_ms=500'];
	const server = await Server.start(t, { agent: readingAgent, cwd, hungDir, args });
	// One more than libuv has threads.
	for (let i = 0; i < 5; i++) {
		const { id } = await server.createSession();
		const observer = await Observer.connect(t, server, id, { query: { format: 'markdown' } });
		await observer.loadAll();
		await observer.prompt('hung/file');
		await observer.waitForEvent('agent_message');
	}
	const { id } = await server.createSession();
	for (let seq = 1; seq <= 10; seq++) {
		const { acks } = await post(server, id, [input.note({ seq })]);
		assert.equal(acks[0].seq, seq);
	}
	await server.stop();
});
