// Three nodes on a database with a standby, and every line between them.

import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { nodeAddress } from '../support/nodes.mjs';
import { Server } from '../support/server.mjs';
import { patience } from '../support/wait.mjs';
import { Databases } from './database.mjs';
import { Link } from './link.mjs';

const place = (address) => ({ host: address.split(':')[0], port: Number(address.split(':')[1]) });

export class World {
	nodes = [];
	isOver = false;
	appended = 0;
	/** What clients were told instead of an answer, and how often. */
	refusals = new Map();

	/** `pace`: so long (ms) a producer waits between its appends. `agent`: the command of the nodes' agents. */
	constructor(t, random, { leaseMs, pace, agent = null }) {
		Object.assign(this, { t, random, leaseMs, pace, agent });
	}

	async start(count = 3) {
		this.databases = new Databases(mkdtempSync(join(tmpdir(), 'holdfast-nodes-'))); // its user has to get there
		this.t.after(() => this.databases.stop());
		await this.databases.start();
		for (let n = 1; n <= count; n++) {
			this.nodes.push(await this.#startNode(`node ${n}`));
		}
	}

	async #startNode(name) {
		const [own, told] = [nodeAddress(), nodeAddress()];
		const inward = await Link.open(place(told), place(own)); // what other nodes say to it
		const toDatabase = [];
		for (const slot of [0, 1]) {
			toDatabase.push(await Link.open({ host: '127.0.0.1', port: 0 }, { path: this.databases.socket(slot) }));
		}
		this.t.after(() => [inward, ...toDatabase].forEach((link) => link.close()));
		const store = `host=127.0.0.1,127.0.0.1 port=${toDatabase.map(({ port }) => port).join(',')} user=holdfast dbname=holdfast target_session_attrs=read-write`;
		const limits = `node_lease_ms=${this.leaseMs},node_silence_ms=500,node_connect_ms=500`;
		const node = await Server.start(this.t, { agent: this.agent, args: ['--store', store, '--node-listen', own, '--node-address', told, '--limit', limits] });
		return Object.assign(node, { name, inward, toDatabase });
	}

	/** Starts one again, as often as it takes: its database may be away. */
	async revive(node) {
		for (const end = Date.now() + 60_000 * patience;;) {
			try {
				await node.up();
				return;
			} catch (error) {
				assert.match(error.message, /cannot use the database|the database/, error.message);
				assert.ok(Date.now() < end, error.message);
				await node.ends().catch(() => {});
				await sleep(200);
			}
		}
	}

	/** One that nothing else happens to. */
	pickNode(random) {
		const node = random.pick(this.nodes.filter(({ isBusy }) => !isBusy));
		node.isBusy = true;
		return node;
	}

	/** Ends one, and starts it again after so many ms. */
	async down(node, end, ms) {
		node.isDown = true;
		await end();
		await sleep(ms);
		await this.revive(node);
		node.isDown = false;
	}

	refused(why) {
		this.refusals.set(why, (this.refusals.get(why) ?? 0) + 1);
	}

	/** Nobody has ended by itself. */
	assertAlive() {
		for (const node of this.nodes.filter(({ isDown }) => !isDown)) {
			try {
				process.kill(node.pid, 0);
			} catch {
				assert.fail(`${node.name} has ended by itself:\n${node.stderr.slice(-8000)}`);
			}
		}
	}
}
