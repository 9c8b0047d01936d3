// Several nodes on one PostgreSQL.

import { Server } from './server.mjs';
import { patience } from './wait.mjs';

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
