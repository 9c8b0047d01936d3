// A machine of Debian with nothing on it: systemd in a root of its own (scripts/machine), in which a test installs packages.

import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defer, eventually } from './wait.mjs';

export const repository = fileURLToPath(new URL('../..', import.meta.url));

export class DebianMachine {
	/** `prepare(share)` puts files where the machine has them in /share; gives the package file there whose dependencies are fetched. */
	static async start(t, debian, prepare) {
		const machine = new DebianMachine();
		machine.share = mkdtempSync(join(tmpdir(), 'holdfast-machine-'));
		defer(t, () => rmSync(machine.share, { recursive: true, force: true }));
		const file = prepare(machine.share);
		const program = join(repository, 'scripts/machine');
		const fetched = spawnSync(program, ['--fetch', debian, machine.share, file], { encoding: 'utf8' });
		if (fetched.status !== 0) {
			throw new Error(fetched.stderr + fetched.stdout);
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
		return spawnSync('nsenter', ['--target', this.pid, '--all', 'env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root', 'LANG=C.UTF-8',
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

	/** Starts a command whose output grows: {text(), kill()}. */
	start(t, command) {
		const child = spawn('nsenter', ['--target', this.pid, '--all', 'env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root', 'LANG=C.UTF-8',
			'bash', '-c', `cd /root; ${command}`], { stdio: ['ignore', 'pipe', 'inherit'] });
		let text = '';
		child.stdout.setEncoding('utf8').on('data', (more) => (text += more));
		const ended = new Promise((resolve) => child.on('close', resolve));
		defer(t, async () => {
			child.kill('SIGKILL');
			await ended;
		});
		return { text: () => text, ended };
	}

	/** Every file of the system, and the people it knows; not what runs or is made anew. */
	list() {
		return this.run('find / -xdev \\( -path /var/cache -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/log -o -path /share -o -path /root \\) -prune -o -print | sort; cut -d: -f1 /etc/passwd /etc/group').split('\n');
	}
}
