// The commands that know a PostgreSQL with sessions: new-epoch.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { after, test } from 'node:test';
import { startNodes } from '../support/nodes.mjs';
import { Observer } from '../support/observer.mjs';
import { Postgres } from '../support/postgres.mjs';
import { input, post } from '../support/producer.mjs';
import { runToEnd, scratchDir } from '../support/server.mjs';

const postgres = Postgres.start({ after });

test('sessions in a database get new epochs, and clients of the old ones start over', async (t) => {
	const [a, b] = await startNodes(t, postgres, 2, { database: 'epochs' });
	const address = `postgresql://holdfast@/epochs?host=${encodeURIComponent(postgres.host)}`;
	const tmp = scratchDir(t);
	const run = (...args) => runToEnd(['new-epoch', address, ...args], { env: { ...process.env, TMPDIR: tmp } });
	for (const id of ['one', 'two']) {
		await a.createSession({ id });
		await post(a, id, [input.note({ n: 1 }), input.text('text\n\n')]);
	}
	const observer = await Observer.connect(t, a, 'one');
	await observer.loadAll();
	const { epoch } = observer;
	await observer.close();
	const busy = await run();
	assert.equal(busy.code, 2);
	assert.match(busy.stderr, /another holdfast uses it/);
	await Promise.all([a.stop(), b.stop()]);
	const done = await run('one');
	assert.equal(done.code, 0, done.stderr);
	const [id, before, fresh] = done.stdout.trim().split(' ');
	assert.deepEqual([id, before], ['one', epoch]);
	assert.notEqual(fresh, epoch);
	assert.match((await run('none')).stderr, /there is no session none/);
	assert.deepEqual(readdirSync(tmp), []);
	await b.restart();
	const later = await Observer.connect(t, b, 'one', { held: observer.events(), epoch });
	await later.loadAll();
	assert.equal(later.epoch, fresh);
	assert.deepEqual(later.resets.map((reset) => reset.reason ?? reset), ['epoch']);
	assert.deepEqual(later.events().map(({ seq }) => seq), observer.events().map(({ seq }) => seq));
	const all = await run();
	assert.equal(all.code, 2, 'a node uses it');
	await b.stop();
	assert.equal((await run()).stdout.trim().split('\n').length, 2);
});
