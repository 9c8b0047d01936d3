// Six of the faults that `scripts/test nodes` does to three nodes and their database.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runStory } from '../support/nodes.mjs';
import { patience } from '../support/wait.mjs';

test('a node is killed, paused and stopped, the primary dies, lines are cut: what was acknowledged or shown is there once, at every node', async (t) => {
	const out = await runStory(t, ['--faults', '6', '--each', '--sessions', '6', '--seed', '11', '--lease', String(2500 * patience), '--pace', '100']);
	for (const what of [/node \d killed/, /node \d stood still/, /node \d stopped/, /primary killed, standby promoted/, /line into node \d cut/, /line from node \d to the database cut/]) {
		assert.match(out, what);
	}
	assert.match(out, /^at the end: \d+ events acknowledged/m);
});
