// A PostgreSQL with a synchronous standby. The primary can be killed, the standby promoted, and a new standby joins.

import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { appendFile, chown, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from '../support/wait.mjs';

const run = promisify(execFile);
/* It does not sync: processes are killed here, not machines. */
const OPTIONS = "-c listen_addresses='' -c fsync=off -c full_page_writes=off -c shared_buffers=16MB -c max_connections=90 -c wal_keep_size=64MB";

function programs() {
	const versions = readdirSync('/usr/lib/postgresql').sort((a, b) => Number(a) - Number(b));
	return join('/usr/lib/postgresql', versions.at(-1), 'bin');
}

/** It refuses to run as root. */
function asUser(program, ...args) {
	const words = process.getuid() === 0 ? ['setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--clear-groups', program, ...args] : [program, ...args];
	return run(words[0], words.slice(1), { cwd: '/', maxBuffer: Infinity });
}

export class Databases {
	#bin = programs();
	#made = 0;
	/** Two places; each has a directory while a server is there. */
	#slots = [null, null];
	/** The place of the primary. */
	primary = 0;

	/** `dir`: an empty directory that its user gets to. */
	constructor(dir) {
		this.dir = dir;
	}

	/** Where the socket of a place is. */
	socketDir(slot) {
		return join(this.dir, `socket${slot}`);
	}

	socket(slot) {
		return join(this.socketDir(slot), '.s.PGSQL.5432');
	}

	async start() {
		const owner = process.getuid() === 0 ? (await run('id', ['-u', 'postgres'])).stdout.trim() : null;
		for (const path of [this.dir, this.socketDir(0), this.socketDir(1)]) {
			await mkdir(path, { recursive: true });
			if (owner !== null) {
				await chown(path, Number(owner), Number(owner));
			}
		}
		const data = this.#newDir(0);
		await asUser(join(this.#bin, 'initdb'), '--pgdata', data, '--auth', 'trust', '--username', 'holdfast', '--encoding', 'UTF8', '--locale', 'C', '--no-sync');
		await this.#up(0);
		await this.ask('postgres', 'CREATE DATABASE holdfast');
		await this.join();
	}

	#newDir(slot) {
		this.#made += 1;
		this.#slots[slot] = join(this.dir, `data${this.#made}`);
		return this.#slots[slot];
	}

	async #up(slot) {
		const data = this.#slots[slot];
		await asUser(join(this.#bin, 'pg_ctl'), '--pgdata', data, '--log', `${data}.log`, '--wait', '--timeout', '120', '-s', '--options', `${OPTIONS} -c unix_socket_directories='${this.socketDir(slot)}'`, 'start');
	}

	/** The rows as lines, with | between columns. */
	async ask(database, sql) {
		const { stdout } = await run('psql', ['-h', this.socketDir(this.primary), '-U', 'holdfast', '-d', database, '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-c', sql]);
		return stdout.trim();
	}

	/** A new standby, which has all that the primary has when this is done, and without which nothing is committed any more. */
	async join() {
		const slot = 1 - this.primary;
		const data = this.#newDir(slot);
		const from = this.socketDir(this.primary);
		await asUser(join(this.#bin, 'pg_basebackup'), '--host', from, '--username', 'holdfast', '--pgdata', data, '--write-recovery-conf', '--checkpoint', 'fast', '--no-sync');
		const settings = `primary_conninfo = 'host=${from} user=holdfast application_name=standby'\n`;
		await appendFile(join(data, 'postgresql.auto.conf'), settings);
		await this.#up(slot);
		await this.ask('postgres', "ALTER SYSTEM SET synchronous_standby_names = 'standby'");
		await this.ask('postgres', 'SELECT pg_reload_conf()');
		const isSync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
		await eventually(async () => (await this.ask('postgres', isSync)) === '1', 'the standby to be a synchronous one', 60_000);
		const now = await this.ask('postgres', 'SELECT pg_current_wal_insert_lsn()');
		const hasAll = `SELECT count(*) FROM pg_stat_replication WHERE flush_lsn >= '${now}'`;
		await eventually(async () => (await this.ask('postgres', hasAll)) === '1', 'the standby to have all', 60_000);
		if ((await this.ask('holdfast', "SELECT to_regclass('holdfast_place') IS NULL")) === 'f') { // nodes have been there
			const isNoted = 'SELECT synchronous FROM holdfast_place';
			await eventually(async () => (await this.ask('holdfast', isNoted)) === '1', 'a node to know that commits wait', 60_000);
		}
	}

	#kill9(slot) {
		const pid = Number(readFileSync(join(this.#slots[slot], 'postmaster.pid'), 'utf8').split('\n')[0]);
		process.kill(pid, 'SIGSTOP'); // else it would begin others
		const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
		[...children, pid].forEach((one) => process.kill(one, 'SIGKILL'));
	}

	async killPrimary() {
		const slot = this.primary;
		this.#kill9(slot);
		await rm(this.socket(slot), { force: true });
		await rm(`${this.socket(slot)}.lock`, { force: true });
	}

	/** After killPrimary(). `waits`: it commits nothing before it has a standby of its own; else at once. */
	async promote({ waits }) {
		const [old, slot] = [this.primary, 1 - this.primary];
		const data = this.#slots[slot];
		await appendFile(join(data, 'postgresql.auto.conf'), `synchronous_standby_names = '${waits ? 'standby' : ''}'\n`);
		await asUser(join(this.#bin, 'pg_ctl'), '--pgdata', data, '-s', 'reload');
		await asUser(join(this.#bin, 'pg_ctl'), '--pgdata', data, '-s', '--wait', '--timeout', '120', 'promote');
		this.primary = slot;
		await rm(this.#slots[old], { recursive: true, force: true });
		this.#slots[old] = null;
	}

	async stop() {
		for (const data of this.#slots.filter(Boolean)) {
			await asUser(join(this.#bin, 'pg_ctl'), '--pgdata', data, '-s', '--mode', 'immediate', 'stop').catch(() => {});
		}
		await rm(this.dir, { recursive: true, force: true, maxRetries: 5 });
	}
}
