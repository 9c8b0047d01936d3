// PostgreSQL for tests (postgres.sh): one of its own for a test file, and databases in it.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defer } from './wait.mjs';

const SCRIPT = fileURLToPath(new URL('postgres.sh', import.meta.url));
/** Not the one in the path: Debian's is a script in Perl that looks for it, and takes five times as long. */
export const PSQL = newestPsql();

function newestPsql() {
	const versions = existsSync('/usr/lib/postgresql') ? readdirSync('/usr/lib/postgresql').sort((a, b) => a - b) : [];
	const paths = versions.map((version) => `/usr/lib/postgresql/${version}/bin/psql`).filter(existsSync);
	return paths.at(-1) ?? 'psql';
}

/** Runs statements; returns the rows as lines, with | between columns. */
export function ask(host, database, sql) {
	return execFileSync(PSQL, ['-h', host, '-U', 'holdfast', '-d', database, '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-c', sql], { encoding: 'utf8', maxBuffer: Infinity, stdio: ['ignore', 'pipe', 'pipe'] }).trim();
}

/** With HOLDFAST_TEST_STORE, the database in which sessions are that would be in this data directory. */
export function databaseOf(dataDir) {
	return `d${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`;
}

/** Makes a database unless it is there. */
export function makeDatabase(host, name) {
	if (ask(host, 'postgres', `SELECT 1 FROM pg_database WHERE datname = '${name}'`) === '') {
		ask(host, 'postgres', `CREATE DATABASE ${name}`);
	}
}

let started = 0;

export class Postgres {
	/** The directory of its socket. */
	host;

	/** Starts one that ends with the test. */
	static start(t) {
		const postgres = new Postgres();
		postgres.host = join(tmpdir(), `holdfast-pg-${process.pid}-${(started += 1)}`); // its user has to get there
		execFileSync(SCRIPT, ['start', postgres.host], { stdio: ['ignore', 'ignore', 'inherit'] });
		defer(t, () => execFileSync(SCRIPT, ['stop', postgres.host], { stdio: 'ignore' }));
		return postgres;
	}

	/** A standby of it, which is to be promoted one day. `isSynchronous`: commits wait for it. */
	standby(t, { isSynchronous }) {
		const standby = new Postgres();
		standby.host = `${this.host}-standby`;
		execFileSync(SCRIPT, ['standby', standby.host, this.host], { stdio: ['ignore', 'ignore', 'inherit'] });
		defer(t, () => execFileSync(SCRIPT, ['stop', standby.host], { stdio: 'ignore' }));
		if (isSynchronous) {
			this.ask('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'standby'");
			this.ask('postgres', 'SELECT pg_reload_conf()');
			for (let asked = 0; this.ask('postgres', 'SHOW synchronous_standby_names') !== 'standby'; asked += 1) {
				assert.ok(asked < 1000, 'commits wait for the standby');
			}
		}
		return standby;
	}

	promote() {
		execFileSync(SCRIPT, ['promote', this.host], { stdio: ['ignore', 'ignore', 'inherit'] });
	}

	/** Ends it without a warning, as a power cut does; up() starts it again. */
	kill9() {
		const file = join(this.host, 'data/postmaster.pid');
		const pid = Number(readFileSync(file, 'utf8').split('\n')[0]);
		process.kill(pid, 'SIGSTOP'); // else it would begin others
		const all = [pid, ...readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)];
		all.reverse().forEach((one) => process.kill(one, 'SIGKILL'));
		// As long as one of them has its memory, no other begins there.
		while (all.some((one) => existsSync(`/proc/${one}/exe`))) {
			Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
		}
		[file, join(this.host, '.s.PGSQL.5432.lock')].forEach((lock) => rmSync(lock));
	}

	up() {
		execFileSync(SCRIPT, ['up', this.host], { stdio: ['ignore', 'ignore', 'inherit'] });
	}

	address(name) {
		makeDatabase(this.host, name);
		return `host=${this.host} user=holdfast dbname=${name}`;
	}

	/** The address of a database as commands take it. */
	url(name) {
		return `postgresql://holdfast@/${name}?host=${encodeURIComponent(this.host)}`;
	}

	/** Where a server finds the one of both that takes writes. */
	addressWith(standby, name) {
		makeDatabase(this.host, name);
		return `host=${this.host},${standby.host} user=holdfast dbname=${name} target_session_attrs=read-write`;
	}

	ask(name, sql) {
		return ask(this.host, name, sql);
	}

	/** A transaction that holds what `sql` locks, until the function that is returned is called, or the test is over. */
	async hold(t, name, sql) {
		const psql = spawn(PSQL, ['-h', this.host, '-U', 'holdfast', '-d', name, '-X', '-q', '-A', '-t'], { stdio: ['pipe', 'pipe', 'inherit'] });
		const end = async () => {
			if (psql.exitCode === null) {
				psql.stdin.end('ROLLBACK;\n');
				await once(psql, 'exit');
			}
		};
		defer(t, end);
		psql.stdin.write(`BEGIN; ${sql}; SELECT 'held';\n`);
		await once(psql.stdout, 'data');
		return end;
	}
}
