// Several nodes on one PostgreSQL.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Server } from './server.mjs';
import { defer, patience } from './wait.mjs';

/* What is usual, as long as the machine is slow: a node that renews late would have no sessions for a while. */
export const NODE_TIMES = ['--limit', `node_lease_ms=${10_000 * patience},node_connect_ms=${2000 * patience}`];

let made = 0;

/** Where a node listens for others: an address of this machine's that nobody else has, so that its port is free. */
export function nodeAddress() {
	made += 1;
	return `127.${100 + (process.pid % 100)}.${1 + (Math.floor(process.pid / 100) % 250)}.${made}:7000`;
}

/** Starts so many nodes on a database, by default a new one; each has `address`, where the others reach it. `options`: those of Server.start(). */
export async function startNodes(t, postgres, count, { database = `d${(made += 1)}`, args = [], ...options } = {}) {
	const nodes = [];
	for (let n = 0; n < count; n++) {
		const address = nodeAddress();
		const node = await Server.start(t, { ...options, args: ['--store', postgres.address(database), '--node-listen', address, ...NODE_TIMES, ...args] });
		nodes.push(Object.assign(node, { address }));
	}
	return nodes;
}

/** What `scripts/test nodes` does, given these options: its output. It ends with the test, and what it has started with it. */
export async function runStory(t, options) {
	const child = spawn(process.execPath, [fileURLToPath(new URL('../nodes/run.mjs', import.meta.url)), ...options], { stdio: ['pipe', 'pipe', 'pipe'] });
	defer(t, () => child.stdin.end());
	let out = '';
	child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
	child.stderr.setEncoding('utf8').on('data', (text) => (out += text));
	const [code] = await once(child, 'close');
	assert.equal(code, 0, out);
	assert.match(out, /\n12 passed, 0 failed\n$/);
	return out;
}
