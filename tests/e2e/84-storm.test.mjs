// A storm of hostile clients on the real server: the others get every event once and in order, what they append is stored, and the
// server's memory stays bounded. How long they wait is measured in bench/.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KINDS, startHostile } from '../support/hostile_clients.mjs';
import { readLog } from '../support/log.mjs';
import { readMetrics } from '../support/metrics.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input } from '../support/producer.mjs';
import { Server } from '../support/server.mjs';

const OBSERVERS = 20;
const HOSTILE = 3 * Object.keys(KINDS).length;
const ROUNDS = 80;
const EARLIER = 200;
// A sanitizer keeps what was freed for a while: not so much of it that nobody sees what is not freed.
const env = { ASAN_OPTIONS: 'detect_leaks=1:abort_on_error=0:halt_on_error=1:quarantine_size_mb=16' };

test('nothing is lost in a storm, and memory stays bounded', async (t) => {
	const server = await Server.start(t, { env });
	const { id } = await server.createSession({ id: 'one' });
	const producer = await Producer.connect(t, server, id);
	for (let n = 0; n < EARLIER; n += 20) {
		await producer.append(...Array.from({ length: 20 }, (_, i) => input.note({ n: n + i, text: 'x'.repeat(2000) })));
	}
	const observers = await Promise.all(Array.from({ length: OBSERVERS }, () => Observer.connect(t, server, id)));
	await Promise.all(observers.map((observer) => observer.load({ limit: 10 })));
	const before = await readMetrics(server);
	const storm = startHostile({ url: server.url, token: server.token, session: id, count: HOSTILE });
	let most = 0;
	for (let n = 0; n < ROUNDS; n++) {
		await producer.append(input.note({ n: EARLIER + n }));
		if (n % 10 === 0) {
			const late = await Observer.connect(t, server, id); // somebody comes, and goes
			await late.load({ limit: 50 });
			assert.equal(late.last, EARLIER + n + 1);
			await late.close();
			most = Math.max(most, (await readMetrics(server))('process_resident_memory_bytes'));
		}
	}
	await Promise.all(observers.map((observer) => observer.waitForSeq(EARLIER + ROUNDS)));
	const during = await readMetrics(server);
	await storm.stop();
	for (const observer of observers) {
		assert.deepEqual(observer.events().map((e) => e.data.n), Array.from({ length: 10 + ROUNDS }, (_, i) => EARLIER - 10 + i));
		assert.equal(observer.closed, null);
	}
	assert.deepEqual(readLog(server, id).map((e) => e.data.n), Array.from({ length: EARLIER + ROUNDS }, (_, i) => i));
	const grown = most - before('process_resident_memory_bytes');
	assert.ok(grown < 256 << 20, `it took ${grown >> 20} MiB more`);
	// The storm has been one.
	for (const name of ['refusals_total{code="too_many_tokens"}', 'refusals_total{code="too_large"}', 'limit_reached_total{limit="client_requests"}', 'limit_reached_total{limit="pages_ms"}']) {
		assert.ok(during(name) > before(name), name);
	}
});
