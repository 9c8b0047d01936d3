// Starts the real server, on a port and a data directory of its own, and sees to it that it ends.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { noteCa, noteToken, trustOf, withAuth } from './auth.mjs';
import { binary } from './binary.mjs';
import { secondCloses, watchCloses } from './close_watch.mjs';
import { inDirectory, skipWithout } from './parts.mjs';
import { databaseOf, makeDatabase } from './postgres.mjs';
import { defer, patience, within } from './wait.mjs';

export { binary };

const root = fileURLToPath(new URL('../../', import.meta.url));

/** A command line for --agent: the demo agent, with options of its own. */
export function demoAgent(args = '') {
	return `${binary('holdfast-demo-agent')} ${args}`.trim();
}

/** A command line for --agent: the agent that plays a recording; its options and the file are to follow. */
export function replayAgent() {
	return binary('holdfast-replay-agent');
}

/** A command line for --agent: the example agent that comes with the ACP SDK, written by nobody here. */
export function exampleAgent() {
	const script = join(root, 'tests/node_modules/@agentclientprotocol/sdk/dist/examples/agent.js');
	// It uses the global `crypto`, which Node 18 has behind a flag.
	const flag = Number(process.versions.node.split('.')[0]) < 20 ? '--experimental-global-webcrypto ' : '';
	return `${process.execPath} ${flag}${script}`;
}

/** A directory that is removed when the test `t` is over. */
export function scratchDir(t) {
	const dir = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
	defer(t, () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
	return dir;
}

/** Whether this machine lets us mount a file system in a namespace of our own. */
export function canMount() {
	return spawnSync('unshare', ['--map-root-user', '--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0;
}

// Nobody answers what the kernel asks the file system whose device is open here.
const hang = 'exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 fuse "$0"';

/** Whether this machine lets us mount one that never answers. */
export function canHang() {
	return spawnSync('unshare', ['--map-root-user', '--mount', 'sh', '-c', hang, '/mnt']).status === 0;
}

/** Runs the binary to its end; gives {code, signal, stdout, stderr}. */
export async function runToEnd(args, { env = {}, timeoutMs = 60_000 } = {}) {
	const child = spawn(binary(), args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
	const out = { stdout: '', stderr: '' };
	for (const name of Object.keys(out)) {
		child[name].setEncoding('utf8').on('data', (text) => (out[name] += text));
	}
	try {
		const [code, signal] = await within(once(child, 'close'), timeoutMs, () => `holdfast ${args.join(' ')} to end\n${out.stderr}`);
		return { code, signal, ...out };
	} finally {
		child.kill('SIGKILL');
	}
}

/** With HOLDFAST_TEST_UNDER, a program that runs the server (support/valgrind.sh): the words in front of the server's own. */
function under() {
	return process.env.HOLDFAST_TEST_UNDER ? [process.env.HOLDFAST_TEST_UNDER] : [];
}

/** With HOLDFAST_TEST_TLS, a directory with cert.pem and key.pem, servers speak TLS unless they say how they listen. */
function overTls() {
	const dir = process.env.HOLDFAST_TEST_TLS;
	return dir ? { listen: ['https://127.0.0.1:0'], ca: readFileSync(join(dir, 'cert.pem'), 'utf8') } : { listen: ['127.0.0.1:0'] };
}

function moreOptions(listen) {
	const dir = process.env.HOLDFAST_TEST_TLS;
	return dir && !listen ? ['--tls-cert', join(dir, 'cert.pem'), '--tls-key', join(dir, 'key.pem')] : [];
}

/** Options for servers of long tests that need no disk to sync; a database decides that itself. */
export const unsynced = process.env.HOLDFAST_TEST_STORE ? [] : ['--durability', 'write'];

/** With HOLDFAST_TEST_STORE, the socket's directory of a PostgreSQL, sessions are in a database of each data directory's own. */
function inDatabase(dataDir) {
	const host = process.env.HOLDFAST_TEST_STORE;
	if (!host) {
		return [];
	}
	const name = databaseOf(dataDir);
	makeDatabase(host, name);
	return ['--store', `host=${host} user=holdfast dbname=${name}`];
}

export class Server {
	#options;
	#child = null;
	#closed = null;
	stderr = '';
	/** The first address with HTTP, or the first at all (unix:PATH). */
	url = '';
	/** All of them. */
	urls = [];
	/** The access token of the data directory; null with --auth off. */
	token = null;

	/**
	 * `agent`: the command (null: none). `cwd`: its directory. `env`, `args`: added to the server's own.
	 * `dataDir`: an existing data directory. `diskSize`: it is a file system of its own, so large, in a mount
	 * namespace of the server's (see canMount()), and gone with it. `diskFrom`: a data directory that is copied onto
	 * it first. `diskIsFull`: then `ballast` takes all of the rest. `hungDir`: a directory of which the server never
	 * gets an answer (see canHang()). `prefix`: words that run the server as their last arguments. `program`: the
	 * server's binary (default: the one that was built). `auth`: false is --auth off. `listen`: the values of --listen.
	 * `ca`: the certificate of a server with TLS.
	 */
	constructor(options) {
		this.#options = options;
		this.dataDir = options.dataDir;
	}

	/**
	 * Starts one that is stopped when the test `t` is over; the test fails if it does not end with 0. It is skipped if the program
	 * was built without what the options need.
	 * @param {import('node:test').TestContext} t
	 */
	static async start(t, options = {}) {
		skipWithout(t, [...(options.agent ? ['--agent'] : []), ...(options.args ?? [])]);
		const dir = scratchDir(t);
		const server = new Server({ dataDir: join(dir, 'data'), cwd: dir, agent: null, ...options });
		defer(t, () => server.stop());
		await server.up();
		return server;
	}

	/** Starts the process and waits until it listens. */
	async up() {
		const { agent, cwd, env = {}, args = [], auth = true, listen, ca } = { ...overTls(), ...this.#options };
		const argv = ['serve', ...moreOptions(this.#options.listen), ...listen.flatMap((address) => ['--listen', address]), '--data', this.dataDir, ...inDatabase(this.dataDir), ...inDirectory(cwd)];
		if (agent !== null) {
			argv.push('--agent', agent);
		}
		if (!auth) {
			argv.push('--auth', 'off');
		}
		const child = spawn(...this.#command([...argv, ...args]), {
			env: watchCloses({ ...sanitizerEnv(), ...process.env, ...env }, binary(), this.#closes),
			stdio: ['ignore', 'ignore', 'pipe'],
		});
		this.#child = child;
		this.#closed = once(child, 'close');
		const since = this.stderr.length;
		child.stderr.setEncoding('utf8');
		this.url = await within(new Promise((resolve, reject) => {
			child.stderr.on('data', (text) => {
				this.stderr += text;
				const urls = [...this.stderr.slice(since).matchAll(/^holdfast: listening on (\S+)$/mg)].map(([, url]) => url);
				if (urls.length === listen.length) {
					this.urls = urls;
					resolve(urls.find((url) => url.startsWith('http')) ?? urls[0]);
				}
			});
			child.once('error', reject);
			child.once('close', (code, signal) =>
				reject(new Error(`holdfast ended (${code ?? signal}) before it listened\n${this.stderr.slice(since)}`)));
		}), 30_000, () => `the server to listen\n${this.stderr.slice(since)}`);
		const path = join(this.seenDir, 'access-token');
		this.token = auth && existsSync(path) ? readFileSync(path, 'utf8').trim() : null;
		for (const url of this.urls) {
			noteToken(url, this.token);
			if (url.startsWith('https:')) {
				noteCa(url, ca);
			}
		}
	}

	/** Where it is noted what it closes twice. */
	get #closes() {
		return `${this.dataDir}.closes`;
	}

	#command(argv) {
		const { diskSize, diskFrom = '', diskIsFull = false, hungDir, prefix = [], program = binary() } = this.#options;
		const serve = [...under(), program, ...argv];
		if (hungDir) {
			return ['unshare', ['--map-root-user', '--mount', 'sh', '-c', `${hang} && exec "$@"`, hungDir, ...serve]];
		}
		if (!diskSize) {
			const [command, ...rest] = [...prefix, ...serve];
			return [command, rest];
		}
		mkdirSync(this.dataDir, { recursive: true });
		const mount = 'mount -t tmpfs -o "size=$0" tmpfs "$1" && ' +
			'{ [ -z "$2" ] || cp -a "$2/." "$1/"; } && ' +
			'{ [ -z "$3" ] || ! cat /dev/zero > "$1/ballast" 2> /dev/null; } && shift 3 && exec "$@"';
		const disk = [diskSize, this.dataDir, diskFrom, diskIsFull ? 'full' : ''];
		return ['unshare', ['--map-root-user', '--mount', 'sh', '-c', mount, ...disk, ...serve]];
	}

	/** The data directory as the server sees it. */
	get seenDir() {
		return this.#options.diskSize ? join(`/proc/${this.pid}/root`, this.dataDir) : this.dataDir;
	}

	/** Where its sessions are, as commands take it: the data directory, or with HOLDFAST_TEST_STORE the database. */
	get store() {
		const host = process.env.HOLDFAST_TEST_STORE;
		return host ? `postgresql://holdfast@/${databaseOf(this.dataDir)}?host=${encodeURIComponent(host)}` : this.dataDir;
	}

	/** The process id. */
	get pid() {
		return this.#child?.pid;
	}

	/** ws://… for a path. */
	ws(path) {
		return this.url.startsWith('unix:') ? `ws+${this.url}:${path}` : this.url.replace(/^http/, 'ws') + path;
	}

	/** The origin of its page. */
	get origin() {
		return this.url.startsWith('unix:') ? 'http://localhost' : this.url;
	}

	/** Ends it as an administrator does, and asserts that it ends well. Nothing if it is not running. */
	async stop() {
		if (this.#child) {
			this.#child.kill('SIGTERM');
			const [code, signal] = await this.#end('the server to end after SIGTERM');
			assert.equal(signal ?? code, 0, `the server ended with ${signal ?? code}:\n${this.stderr.slice(-8000)}`);
		}
	}

	/** Ends it as a power cut does. */
	async kill9() {
		assert.ok(this.#child, 'the server is not running');
		this.#child.kill('SIGKILL');
		const [code, signal] = await this.#end('the server to die');
		assert.equal(signal, 'SIGKILL', `it was gone before (${code}):\n${this.stderr.slice(-8000)}`);
	}

	/** Waits until it has ended by itself; its exit code, or the signal. */
	async ends() {
		const [code, signal] = await this.#end('the server to end by itself');
		return signal ?? code;
	}

	/** Starts it again on the same data directory (on another port). */
	async restart() {
		assert.equal(this.#child, null, 'stop() or kill9() comes first');
		await this.up();
	}

	async #end(what) {
		const child = this.#child;
		try {
			const ended = await within(this.#closed, 30_000, () => `${what}\n${this.stderr.slice(-8000)}`);
			const at = this.stderr.search(/^==\d+==/m);
			const report = at < 0 ? '' : this.stderr.slice(at, at + 8000);
			assert.equal(report, '', `a sanitizer or valgrind reports:\n${report}`);
			assert.deepEqual(secondCloses(this.#closes), [], 'descriptors that were closed twice');
			return ended;
		} finally {
			child.kill('SIGKILL');
			this.#child = null;
		}
	}

	/** A REST request, with the access token; gives {status, headers, body}, the body parsed if it is JSON. */
	async request(method, path, { json, body, headers = {} } = {}) {
		const init = { method, headers: withAuth(this.url, headers), body };
		if (json !== undefined) {
			init.body = JSON.stringify(json);
			init.headers['content-type'] ??= 'application/json';
		}
		if (!this.url.startsWith('http:')) {
			const { status, headers: told, body: text } = await this.rawRequest(method, path, { authorization: undefined, ...init.headers }, init.body); // rawRequest() would add it again
			const entries = Object.entries(told).map(([name, value]) => [name, [value].flat().join(', ')]);
			return { status, headers: new Headers(entries), body: /^application\/json/.test(told['content-type']) && text ? JSON.parse(text) : text };
		}
		const answer = await fetch(this.url + path, { ...init, signal: AbortSignal.timeout(30_000 * patience) });
		const text = await answer.text();
		const isJson = (answer.headers.get('content-type') ?? '').startsWith('application/json');
		return { status: answer.status, headers: answer.headers, body: isJson && text ? JSON.parse(text) : text };
	}

	/**
	 * The same without fetch(), which sets headers of its own and mends paths: every header, `host`
	 * included, and the path go out as given, with the access token. Gives {status, headers, body}.
	 */
	rawRequest(method, path, headers = {}, body = undefined) {
		const { hostname, port, host } = new URL(this.url);
		const { request: send } = this.url.startsWith('https:') ? https : http;
		const where = this.url.startsWith('unix:') ? { socketPath: this.url.slice('unix:'.length) } : { hostname, port };
		const request = send({ ...trustOf(this.url), ...(send === https.request && { agent: false }), method, path, ...where, setHost: false, headers: { host: host || 'localhost', ...withAuth(this.url, headers) } });
		const answer = new Promise((resolve, reject) => {
			request.on('error', reject);
			request.on('response', (response) => {
				let text = '';
				response.setEncoding('utf8');
				response.on('data', (d) => (text += d));
				response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: text }));
			});
		});
		request.end(body);
		return within(answer, 30_000, () => `the answer to ${method} ${path}`).finally(() => request.destroy());
	}

	/** Makes a session and gives its object. */
	async createSession(json = {}) {
		const { status, body } = await this.request('POST', '/api/sessions', { json });
		assert.equal(status, 201, JSON.stringify(body));
		return body;
	}
}

/** A report of a sanitizer ends the server, and so fails the test that asserts how it ended. */
function sanitizerEnv() {
	return {
		ASAN_OPTIONS: 'detect_leaks=1:abort_on_error=0:halt_on_error=1',
		UBSAN_OPTIONS: 'print_stacktrace=1:halt_on_error=1',
	};
}
