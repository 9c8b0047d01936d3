// Several nodes on a PostgreSQL with a synchronous standby, for benches: everything syncs, and all of it is on loopback.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, chmodSync, chownSync, mkdirSync, readdirSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function freePort() {
	const server = net.createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address();
	await new Promise((resolve) => server.close(resolve));
	return port;
}

/** PostgreSQL refuses to run as root. */
function asUser(program, ...args) {
	const isRoot = process.getuid() === 0;
	const words = isRoot ? ['setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--clear-groups', program] : [program];
	execFileSync(words[0], [...words.slice(1), ...args], { cwd: '/', stdio: ['ignore', 'ignore', 'inherit'] });
}

/** A primary and its standby, in `dir`; a commit is on both. */
export class Database {
	#bin;
	#started = [];

	constructor(dir) {
		const versions = readdirSync('/usr/lib/postgresql').sort((a, b) => Number(a) - Number(b));
		this.#bin = join('/usr/lib/postgresql', versions.at(-1), 'bin');
		this.dir = dir;
		mkdirSync(dir);
		if (process.getuid() === 0) {
			chownSync(dir, ...['-u', '-g'].map((what) => Number(execFileSync('id', [what, 'postgres']))));
		}
	}

	#start(name, port) {
		const options = `-c listen_addresses='' -c unix_socket_directories='${this.dir}' -c port=${port} -c max_connections=120`;
		asUser(join(this.#bin, 'pg_ctl'), '--pgdata', join(this.dir, name), '--log', join(this.dir, `${name}.log`), '--wait', '-s', '--options', options, 'start');
		this.#started.push(name);
	}

	ask(sql, database = 'holdfast') {
		return execFileSync('psql', ['-h', this.dir, '-U', 'holdfast', '-d', database, '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-c', sql], { encoding: 'utf8' }).trim();
	}

	async start() {
		const [primary, standby] = ['primary', 'standby'].map((name) => join(this.dir, name));
		asUser(join(this.#bin, 'initdb'), '--pgdata', primary, '--auth', 'trust', '--username', 'holdfast', '--encoding', 'UTF8', '--locale', 'C');
		this.#start('primary', 5432);
		this.ask('CREATE DATABASE holdfast', 'postgres');
		asUser(join(this.#bin, 'pg_basebackup'), '--host', this.dir, '--port', '5432', '--username', 'holdfast', '--pgdata', standby, '--write-recovery-conf', '--checkpoint', 'fast');
		appendFileSync(join(standby, 'postgresql.auto.conf'), `primary_conninfo = 'host=${this.dir} port=5432 user=holdfast application_name=standby'\n`);
		this.#start('standby', 5433);
		this.ask("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
		this.ask('SELECT pg_reload_conf()');
		while (this.ask("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") !== '1') {
			await pause(100);
		}
	}

	get address() {
		return `host=${this.dir} user=holdfast dbname=holdfast`;
	}

	stop() {
		for (const name of this.#started.reverse()) {
			asUser(join(this.#bin, 'pg_ctl'), '--pgdata', join(this.dir, name), '-s', '--mode', 'immediate', 'stop');
		}
		this.#started = [];
	}
}

/** A node, which keeps its data directory and its ports when it is started again. */
export class Node {
	#program;
	#args;
	#child = null;

	/** `args` are added to the server's own. */
	static async start(program, dir, database, args = []) {
		const node = new Node();
		const [port, nodePort] = [await freePort(), await freePort()];
		node.#program = program;
		node.port = port;
		node.nodePort = nodePort;
		node.url = `http://127.0.0.1:${port}`;
		node.#args = ['serve', '--auth', 'off', '--listen', `127.0.0.1:${port}`, '--data', dir, '--cwd', '/', '--store', database.address, '--node-listen', `127.0.0.1:${nodePort}`, ...args];
		await node.start();
		return node;
	}

	async start() {
		const child = spawn(this.#program, this.#args, { stdio: ['ignore', 'ignore', 'pipe'] });
		let said = '';
		child.stderr.setEncoding('utf8').on('data', (text) => {
			said += text;
			if (process.env.HOLDFAST_BENCH_SAY) {
				process.stderr.write(text);
			}
		});
		this.#child = child;
		this.ended = once(child, 'exit');
		while (!said.includes('listening on http')) {
			await Promise.race([once(child.stderr, 'data'), this.ended.then(() => Promise.reject(new Error(said)))]);
		}
		this.pid = child.pid;
	}

	kill(signal) {
		this.#child.kill(signal);
	}

	async request(method, path, json) {
		const answer = await fetch(this.url + path, { method, body: json && JSON.stringify(json), headers: json ? { 'content-type': 'application/json' } : {} });
		const text = await answer.text();
		if (!answer.ok) {
			throw new Error(`${method} ${path}: ${answer.status} ${text}`);
		}
		return text ? JSON.parse(text) : null;
	}

	/** A number of /metrics. */
	async metric(name) {
		const text = await (await fetch(`${this.url}/metrics`)).text();
		return Number(text.split('\n').find((line) => line.startsWith(`${name} `)).slice(name.length));
	}
}

/** Three nodes and their database in `dir`; stop() ends them. */
export async function startCluster(program, dir, args = []) {
	chmodSync(dir, 0o755);
	const database = new Database(join(dir, 'database'));
	const nodes = [];
	const stop = () => {
		nodes.forEach((node) => node.kill('SIGKILL'));
		database.stop();
	};
	try {
		await database.start();
		for (const name of ['a', 'b', 'c']) {
			nodes.push(await Node.start(program, join(dir, name), database, args));
		}
	} catch (error) {
		stop();
		throw error;
	}
	return { database, nodes, stop };
}
