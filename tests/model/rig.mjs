// What a run of the model needs of the world: numbers from a seed, findings, a server that can be killed, requests, waiting.

import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statfsSync, writeSync, closeSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Numbers from a seed: the same seed makes the same story. */
export class Random {
	#state;

	constructor(seed) {
		this.#state = (seed * 2654435761) >>> 0;
	}

	next() { // mulberry32
		this.#state = (this.#state + 0x6d2b79f5) >>> 0;
		let x = this.#state;
		x = Math.imul(x ^ (x >>> 15), x | 1);
		x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
		return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
	}

	/** 0 to n - 1. */
	below(n) {
		return Math.floor(this.next() * n);
	}

	/** true once in n times. */
	oneIn(n) {
		return this.below(n) === 0;
	}

	pick(list) {
		return list[this.below(list.length)];
	}

	/** One of the values of [[weight, value], …]. */
	weighted(table) {
		let at = this.below(table.reduce((sum, [weight]) => sum + weight, 0));
		return table.find(([weight]) => (at -= weight) < 0)[1];
	}
}

/** A promise of the contract that was broken. It ends the story. */
export class Finding extends Error {}

/** The connection went away under a request; nobody knows whether it was done. */
export class Lost extends Error {}

/** What of a server's last words tells most. */
export function lastWords(stderr) {
	const at = stderr.search(/ERROR: \w+Sanitizer|runtime error/);
	return at < 0 ? stderr.slice(-1500) : stderr.slice(at, at + 2500);
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until `probe` gives something true; a Finding that says `what` is missing after `ms`. */
export async function until(probe, what, ms = 40_000) {
	for (const end = Date.now() + ms; ;) {
		const found = await probe();
		if (found) {
			return found;
		}
		if (Date.now() > end) {
			throw new Finding(`${what}: not within ${ms / 1000} s`);
		}
		await pause(15);
	}
}

/** The server under test, its data, and the disk that they are on. */
export class Machine {
	#binary;
	#args;
	#child = null;
	#agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
	#ballast = null;
	/** How often it was told to end: what was under way over a change may be done or not. */
	changes = 0;
	running = false;
	full = false;
	everFull = false;
	stderr = '';
	url = '';

	/** `disk`: the size of a file system of its own ('4m'), if it is to be filled; `args`: more of the command line. */
	constructor(binary, { args = [], disk = null } = {}) {
		this.#binary = binary;
		this.#args = args;
		this.dir = mkdtempSync(join(tmpdir(), 'holdfast-model-'));
		this.data = join(this.dir, 'data');
		this.disk = disk;
		mkdirSync(this.data);
		if (disk) {
			const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${disk}`, 'tmpfs', this.data], { encoding: 'utf8' });
			if (status !== 0) {
				throw new Error(`cannot mount: ${stderr}`);
			}
		}
	}

	async up() {
		const argv = ['serve', '--listen', '127.0.0.1:0', '--data', this.data, '--cwd', this.dir, '--log-level', 'info', ...this.#args];
		const env = { ...process.env, ASAN_OPTIONS: 'detect_leaks=0:halt_on_error=1', UBSAN_OPTIONS: 'print_stacktrace=1:halt_on_error=1' };
		const child = spawn(this.#binary, argv, { stdio: ['ignore', 'ignore', 'pipe'], env });
		this.#child = child;
		let said = '';
		child.stderr.setEncoding('utf8');
		const closed = new Promise((resolve) => child.once('close', (code, signal) => resolve(signal ?? code)));
		child.closed = closed;
		await new Promise((resolve, reject) => {
			const late = setTimeout(() => reject(new Finding(`the server does not start\n${said.slice(-3000)}`)), 60_000);
			child.stderr.on('data', (text) => {
				said += text;
				this.stderr = (this.stderr + text).slice(-20_000);
				const url = /listening on (http:\/\/\S+)/.exec(said)?.[1];
				if (url) {
					clearTimeout(late);
					this.url = url;
					resolve();
				}
			});
			closed.then((code) => {
				clearTimeout(late);
				if (this.#child === child) {
					this.crashed = `the server ended by itself (${code})\n${lastWords(said)}`;
					this.running = false;
				}
				reject(new Finding(`the server ended (${code}) before it listened\n${lastWords(said)}`));
			});
		});
		this.running = true;
		this.auth = { authorization: `Bearer ${readFileSync(join(this.data, 'access-token'), 'utf8').trim()}` };
	}

	/** Ends it: 'SIGKILL' as a power cut of the process, 'SIGTERM' as an administrator. */
	async end(signal) {
		const child = this.#child;
		this.changes++;
		this.running = false;
		this.#child = null;
		child.kill(signal);
		const late = setTimeout(() => child.kill('SIGABRT'), 40_000);
		const code = await child.closed;
		clearTimeout(late);
		const wanted = signal === 'SIGKILL' ? 'SIGKILL' : 0;
		if (code !== wanted) {
			throw new Finding(`after ${signal} the server ended with ${code}\n${lastWords(this.stderr)}`);
		}
	}

	/** Fills its disk to the last block. */
	fill() {
		const path = join(this.data, 'ballast');
		this.full = this.everFull = true;
		this.#ballast = path;
		const file = openSync(path, 'a');
		for (let size = 65_536; size >= 512; size /= 2) {
			try {
				while (writeSync(file, Buffer.alloc(size)) === size);
			} catch (error) {
				if (error.code !== 'ENOSPC') {
					throw error;
				}
			}
		}
		closeSync(file);
		return statfsSync(this.data).bavail;
	}

	free() {
		rmSync(this.#ballast, { force: true });
		this.full = false;
	}

	/** A request; resolves with {status, body}. Throws Lost if the server was told to end meanwhile, a Finding if it was not. */
	async request(method, path, { body, type = 'application/json', chunks = null } = {}) {
		const since = this.changes;
		const lost = (error) => (this.changes === since && this.running && !this.crashed
			? new Finding(`${method} ${path}: ${error.message}, and nobody has ended the server`) : new Lost(error.message));
		if (!this.running) {
			throw new Lost('not running');
		}
		return new Promise((resolve, reject) => {
			const headers = { ...this.auth, ...(body === undefined && !chunks ? {} : { 'content-type': type }) };
			if (body !== undefined) {
				headers['content-length'] = Buffer.byteLength(body);
			}
			// A POST on a connection that the server has just ended would be lost for no fault of its own.
			const request = http.request(this.url + path, { method, headers, agent: method === 'GET' ? this.#agent : undefined });
			request.setTimeout(40_000, () => reject(new Finding(`${method} ${path}: no answer in 40 s\n${this.stderr.slice(-1500)}`)));
			request.on('error', (error) => reject(lost(error)));
			request.on('response', (response) => {
				let text = '';
				response.setEncoding('utf8').on('data', (d) => (text += d));
				response.on('aborted', () => reject(lost(new Error('half an answer'))));
				response.on('end', () => resolve({ status: response.statusCode, body: text ? JSON.parse(text) : null }));
			});
			if (chunks) {
				for (const chunk of chunks) {
					request.write(chunk);
				}
				request.end();
			} else {
				request.end(body);
			}
		});
	}

	/** What `holdfast verify` says when the server is down: null, or what is wrong. */
	verify() {
		const { status, stdout, stderr } = spawnSync(this.#binary, ['verify', this.data], { encoding: 'utf8' });
		return status === 0 ? null : `holdfast verify ended with ${status}: ${stdout}${stderr}`;
	}

	async destroy() {
		this.#agent.destroy();
		const child = this.#child;
		this.#child = null;
		if (child && child.exitCode === null && child.signalCode === null) {
			child.kill('SIGKILL');
			await child.closed;
		}
		if (this.disk) {
			spawnSync('umount', ['-l', this.data]);
		}
		rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
	}
}
