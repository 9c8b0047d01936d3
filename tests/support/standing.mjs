// One server for many cases that may kill it: the case fails, the next one has a server again.

import assert from 'node:assert/strict';
import { RawSocket, head } from './raw_socket.mjs';

/**
 * Runs each case as a subtest `name`: `run(t, server, case)`. Behind each of them the server must answer on a new connection; one
 * that does not is ended and started again.
 */
export async function runCases(t, server, cases, run) {
	for (const one of cases) {
		await t.test(one.name, async (sub) => {
			try {
				await run(sub, server, one);
			} finally {
				await assertAlive(sub, server, one.name);
			}
		});
	}
}

async function assertAlive(t, server, name) {
	try {
		const socket = await RawSocket.connect(t, server);
		await socket.send(head('GET', '/healthz', { Connection: 'close' }));
		assert.equal((await socket.answer()).status, 200);
	} catch (error) {
		await server.kill9().catch(() => {});
		await server.restart();
		throw new Error(`the server does not live after "${name}": ${error.message}\n${server.stderr.slice(-1500)}`);
	}
}

