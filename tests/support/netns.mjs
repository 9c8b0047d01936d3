// Network namespaces of a test's own: two machines with a cable between them, of which one runs the server.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { defer } from './wait.mjs';

export const HERE = '10.211.77.1', THERE = '10.211.77.2', HERE6 = 'fd77:211::1', THERE6 = 'fd77:211::2';

function ip(...args) {
	const { status, stderr } = spawnSync('ip', args, { encoding: 'utf8' });
	assert.equal(status, 0, `ip ${args.join(' ')}: ${stderr}`);
}

/** Whether this machine lets us make namespaces; if not, why. */
export function netnsFault() {
	const name = `hf-try-${process.pid}`;
	const made = spawnSync('ip', ['netns', 'add', name], { encoding: 'utf8' });
	if (made.status !== 0) {
		return made.error?.message ?? made.stderr.trim();
	}
	ip('netns', 'del', name);
	return null;
}

/** Two namespaces, gone when `t` is over: {here, there}, each a name for `ip netns exec`. `ipv6: false`: the kernel has none in `here`. */
export function makePair(t, { ipv6 = true } = {}) {
	const tag = randomBytes(3).toString('hex');
	const [here, there] = [`hf-${tag}-a`, `hf-${tag}-b`];
	for (const name of [here, there]) {
		ip('netns', 'add', name);
		defer(t, () => ip('netns', 'del', name));
		ip('-n', name, 'link', 'set', 'lo', 'up');
	}
	ip('-n', here, 'link', 'add', 'cable', 'type', 'veth', 'peer', 'name', 'cable', 'netns', there);
	for (const [name, address, address6] of [[here, HERE, HERE6], [there, THERE, THERE6]]) {
		ip('-n', name, 'address', 'add', `${address}/24`, 'dev', 'cable');
		ip('-n', name, 'address', 'add', `${address6}/64`, 'dev', 'cable', 'nodad');
		ip('-n', name, 'link', 'set', 'cable', 'addrgenmode', 'none'); // an address that comes later is a change of the network: Chromium drops its requests
		ip('-n', name, 'link', 'set', 'cable', 'up');
	}
	if (!ipv6) {
		ip('netns', 'exec', here, 'sh', '-c', 'for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 >$f; done');
	}
	return { here, there };
}

/** The addresses on which the process `pid` listens, as `address:port`, sorted; from /proc/PID/net, which is of its namespace. */
export function listening(pid) {
	const own = new Set(readdirSync(`/proc/${pid}/fd`).map((fd) => {
		try {
			return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1];
		} catch {
			return undefined; // closed meanwhile
		}
	}));
	return ['tcp', 'tcp6'].flatMap((table) => {
		let lines = [];
		try {
			lines = readFileSync(`/proc/${pid}/net/${table}`, 'utf8').trim().split('\n').slice(1);
		} catch {
			// a kernel without IPv6
		}
		return lines.map((line) => line.trim().split(/\s+/)).filter((f) => f[3] === '0A' && own.has(f[9])).map((f) => addressOf(f[1]));
	}).sort();
}

/** `0100007F:1F90` (words of the host's byte order, which is little-endian) as `127.0.0.1:8080`. */
function addressOf(text) {
	const [words, port] = text.split(':');
	const octets = words.match(/.{8}/g).flatMap((word) => word.match(/../g).reverse().map((octet) => parseInt(octet, 16)));
	if (octets.length === 4) {
		return `${octets.join('.')}:${parseInt(port, 16)}`;
	}
	const groups = Array.from({ length: 8 }, (_, n) => ((octets[2 * n] << 8) | octets[2 * n + 1]).toString(16)).join(':');
	return `${new URL(`http://[${groups}]`).hostname}:${parseInt(port, 16)}`;
}
