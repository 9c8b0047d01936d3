// Six of the restarts that `scripts/test nodes --rolling 200` does to three nodes, under producers, agents and readers of every door.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runStory } from '../support/nodes.mjs';

test('nodes are restarted one after the other: nobody who reads hears that a living session is deleted or not found, and nothing is lost', async (t) => {
	const out = await runStory(t, ['--rolling', '6', '--sessions', '6', '--seed', '12', '--pace', '200']);
	const read = /^read: (.*)$/m.exec(out)[1];
	for (const door of ['REST', 'server-sent events', 'Durable Streams', 'AI SDK', '/acp', 'the feed', 'prompts']) {
		assert.match(read, new RegExp(`(^|, )${door} [1-9]`), 'each door has been read at');
	}
});
