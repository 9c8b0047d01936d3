// A machine of a test's own, in a network namespace: programs run on it as root with an /etc, a /var and a /run that are theirs.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { scratchDir } from './server.mjs';
import { defer, within } from './wait.mjs';

/** What a program finds is as on the real machine, but for the files that were put there; what it writes is gone with it. */
const SCRIPT = `
	dir=$1; shift
	mount -t tmpfs tmpfs "$dir/over"
	for d in etc var; do
		mkdir -p "$dir/over/$d/up" "$dir/over/$d/work"
		mount -t overlay overlay -o "lowerdir=/$d,upperdir=$dir/over/$d/up,workdir=$dir/over/$d/work" "/$d"
	done
	mount -t tmpfs tmpfs /run
	cp -r "$dir/etc/." /etc/
	mkdir -p /var/lib/holdfast
	mount --bind "$dir/data" /var/lib/holdfast
	exec "$@"`;

export class Machine {
	#t;
	#namespace;
	#dir;

	/** `namespace`: of `ip netns`. */
	constructor(t, namespace) {
		this.#t = t;
		this.#namespace = namespace;
		this.#dir = scratchDir(t);
		for (const name of ['over', 'etc', 'data']) {
			mkdirSync(join(this.#dir, name));
		}
	}

	/** Its /var/lib/holdfast, from outside. */
	get dataDir() {
		return join(this.#dir, 'data');
	}

	/** Puts a file below /etc. */
	put(path, text) {
		const at = join(this.#dir, 'etc', path);
		mkdirSync(dirname(at), { recursive: true });
		writeFileSync(at, text);
	}

	copy(path, from) {
		const at = join(this.#dir, 'etc', path);
		mkdirSync(dirname(at), { recursive: true });
		cpSync(from, at);
	}

	/** Starts a program that ends with the test; gives {child, output}, where output() is what it has said so far. */
	start(command, args = [], { env = {} } = {}) {
		const child = spawn('ip', ['netns', 'exec', this.#namespace, 'sh', '-euc', SCRIPT, 'sh', this.#dir, command, ...args], {
			cwd: this.#dir, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'],
		});
		let text = '';
		child.stdout.on('data', (d) => (text += d));
		child.stderr.on('data', (d) => (text += d));
		const closed = once(child, 'close');
		defer(this.#t, async () => {
			child.kill('SIGTERM');
			await within(closed, 20_000, () => `${command} to end\n${text}`).finally(() => child.kill('SIGKILL'));
		});
		return { child, closed, output: () => text };
	}

	/** Runs a program to its end; gives what it has said. */
	async run(command, args = [], options = {}) {
		const { closed, output } = this.start(command, args, options);
		await within(closed, 60_000, () => `${command} to end\n${output()}`);
		return output();
	}
}
