// What goes wrong: each fault takes its time, and all is whole again in the end.

import { setTimeout as sleep } from 'node:timers/promises';
import { CUTS } from './link.mjs';

/** Each: [weight, how(world, random)], which resolves with what it was, in words, when it is over. */
export const FAULTS = {
	kill: [3, async (world, random) => {
		const node = world.pickNode(random);
		const ms = Math.floor(random.next() * 1.5 * world.leaseMs);
		await world.down(node, () => node.kill9(), ms);
		return `${node.name} killed, away for ${ms} ms`;
	}],
	pause: [3, async (world, random) => {
		const node = world.pickNode(random);
		const ms = Math.floor((1.1 + random.next()) * world.leaseMs);
		const { pid } = node;
		process.kill(pid, 'SIGSTOP');
		await sleep(ms);
		process.kill(pid, 'SIGCONT');
		return `${node.name} stood still for ${ms} ms`;
	}],
	term: [3, async (world, random) => {
		const node = world.pickNode(random);
		const ms = Math.floor(random.next() * 1.5 * world.leaseMs);
		await world.down(node, () => node.stop(), ms);
		return `${node.name} stopped, away for ${ms} ms`;
	}],
	failover: [3, async (world, random) => {
		const { databases } = world;
		const ms = Math.floor(random.next() * world.leaseMs);
		const waits = random.oneIn(2);
		await databases.killPrimary();
		await sleep(ms);
		await databases.promote({ waits });
		await sleep(random.below(500));
		await databases.join();
		return `primary killed, standby promoted after ${ms} ms${waits ? ', which waits for its own' : ''}`;
	}],
	nodes: [4, async (world, random) => {
		const node = world.pickNode(random);
		return cut(world, random, [node.inward], `line into ${node.name}`);
	}],
	database: [4, async (world, random) => {
		const node = world.pickNode(random);
		return cut(world, random, node.toDatabase, `line from ${node.name} to the database`);
	}],
};

async function cut(world, random, links, what) {
	const how = random.pick(CUTS);
	const ms = random.oneIn(4) ? random.below(200) : Math.floor(random.next() * 2 * world.leaseMs);
	const isLost = random.oneIn(2);
	links.forEach((link) => link.cut(how));
	await sleep(ms);
	links.forEach((link) => link.heal({ isLost }));
	return `${what} cut (${how}${how === 'reset' ? '' : isLost ? ', all of it lost' : ', all of it late'}) for ${ms} ms`;
}
