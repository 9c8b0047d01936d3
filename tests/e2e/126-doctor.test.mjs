// holdfast doctor: what it says of a database, and its exit code.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Postgres } from '../support/postgres.mjs';
import { runToEnd } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';

const postgres = Postgres.start({ after });

async function doctor(...args) {
	const { code, stdout, stderr } = await runToEnd(['doctor', ...args]);
	return { code, stderr, lines: stdout.trim().split('\n') };
}

/** Changes a setting, and waits until new connections have it. */
async function set(name, value) {
	postgres.ask('postgres', `ALTER SYSTEM SET ${name} = ${value}`);
	postgres.ask('postgres', 'SELECT pg_reload_conf()');
	await eventually(() => postgres.ask('postgres', `SHOW ${name}`) === value.replaceAll("'", ''), `${name} to be ${value}`);
}

test('a database is asked what it promises, and is left as it was', async () => {
	const address = postgres.address('asked');
	const first = await doctor('--store', address);
	assert.equal(first.code, 2, 'the tests have theirs without fsync');
	for (const wanted of [/^ok {7}PostgreSQL \d+/, /^bad {6}fsync is off: /, /^bad {6}full_page_writes is off: /, /^ok {7}synchronous_commit is on$/, /^warning {2}no standby: /, /^ok {7}its clock is \d+ ms /, /a commit takes \d+\.\d ms, the slowest of 21 took \d+\.\d ms$/]) {
		assert.ok(first.lines.some((line) => wanted.test(line)), `${wanted}\n${first.lines.join('\n')}`);
	}
	assert.equal(postgres.ask('asked', "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), '0');
	await set('synchronous_commit', 'off');
	const third = await doctor('--store', address);
	assert.ok(third.lines.some((line) => line.startsWith('warning  synchronous_commit is off')), third.lines.join('\n'));
	await set('synchronous_standby_names', "'nobody'");
	const fourth = await doctor('--store', address);
	assert.equal(fourth.code, 2);
	assert.ok(fourth.lines.some((line) => line.startsWith('bad      no synchronous standby is connected')), fourth.lines.join('\n'));
});

test('connections of others count, for a role that may not see what they do', async (t) => {
	const address = postgres.address('shared');
	postgres.ask('shared', 'CREATE ROLE plain LOGIN');
	const left = async () => Number(/^warning {2}(\d+) connections are left/m.exec((await doctor('--store', address.replace('user=holdfast', 'user=plain'))).lines.join('\n'))?.[1]);
	await Promise.all(Array.from({ length: 38 }, () => postgres.hold(t, 'shared', 'SELECT 1')));
	const before = await left();
	assert.ok(before <= 9, `${before}`);
	await postgres.hold(t, 'shared', 'SELECT 1');
	assert.equal(await left(), before - 1);
});

test('what cannot be asked is said', async () => {
	const away = await doctor('--store', 'postgresql://nobody@127.0.0.1:1/none');
	assert.equal(away.code, 2);
	assert.match(away.stderr, /the database cannot be queried: .*127\.0\.0\.1/);
	assert.match((await doctor('--store', 'postgresql://a:secret@h/n')).stderr, /it has a password/);
	assert.match((await doctor()).stderr, /--store is missing/);
});
