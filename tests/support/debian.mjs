// A machine of Debian with nothing on it: systemd in a root of its own (scripts/machine), in which a test installs packages.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defer, eventually } from './wait.mjs';

export const repository = fileURLToPath(new URL('../..', import.meta.url));

/** The package for a version of Debian, which scripts/package has built. */
export function packageFor(debian) {
	const dir = join(repository, 'build-package');
	const files = readdirSync(dir).filter((name) => name.endsWith('.deb') && name.includes(`~deb${debian}_`)).map((name) => join(dir, name));
	assert.ok(files.length > 0, 'scripts/package builds the packages');
	return files.sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0];
}

export class DebianMachine {
	/** `prepare(share)` puts files where the machine has them in /share; gives what is to be installed: package files there, or names. They are fetched. */
	static async start(t, debian, prepare) {
		const machine = new DebianMachine();
		machine.share = mkdtempSync(join(tmpdir(), 'holdfast-machine-'));
		defer(t, () => rmSync(machine.share, { recursive: true, force: true }));
		const wanted = prepare(machine.share);
		const program = join(repository, 'scripts/machine');
		if (wanted.length > 0) {
			const { status, stdout, stderr } = spawnSync(program, ['--fetch', debian, machine.share, ...wanted], { encoding: 'utf8' });
			assert.equal(status, 0, stderr + stdout);
		}
		const child = spawn(program, [debian, machine.share], { stdio: ['ignore', 'pipe', 'inherit'] });
		const ended = new Promise((resolve) => child.on('close', resolve));
		defer(t, async () => {
			child.kill('SIGTERM');
			await ended;
		});
		let said = '';
		child.stdout.setEncoding('utf8').on('data', (text) => (said += text));
		await eventually(() => /^\d+\n/.test(said), 'systemd to be started');
		machine.pid = said.trim();
		await eventually(() => ['running', 'degraded'].includes(machine.try('systemctl is-system-running').stdout.trim()), 'the machine to be up');
		return machine;
	}

	/** Runs a shell command in there as root: {status, stdout, stderr}. */
	try(command, options = {}) {
		return spawnSync('nsenter', ['--target', this.pid, '--all', 'env', '-i', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root', 'LANG=C.UTF-8',
			'DEBIAN_FRONTEND=noninteractive', 'bash', '-c', `cd /root; ${command}`], { encoding: 'utf8', timeout: 120_000, ...options });
	}

	/** The same; what it says, if it ends with 0. */
	run(command, options) {
		const { status, stdout, stderr } = this.try(command, options);
		if (status !== 0) {
			throw new Error(`${command} ended with ${status}:\n${stdout}${stderr}`);
		}
		return stdout;
	}

	/** Starts a command whose output grows: {text()}. */
	start(t, command) {
		const child = spawn('nsenter', ['--target', this.pid, '--all', 'env', '-i', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root', 'LANG=C.UTF-8',
			'bash', '-c', `cd /root; ${command}`], { stdio: ['ignore', 'pipe', 'inherit'] });
		let text = '';
		child.stdout.setEncoding('utf8').on('data', (more) => (text += more));
		defer(t, () => child.kill('SIGKILL')); // what it started ends with the machine
		return { text: () => text };
	}

	/** Every file of the system, and the people it knows; not what runs or is made anew. */
	list() {
		return this.run('find / -xdev \\( -path /var/cache -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/log -o -path /share -o -path /root \\) -prune -o -print | sort; cut -d: -f1 /etc/passwd /etc/group').split('\n');
	}
}
