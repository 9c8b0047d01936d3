// The quick half of the conformance kit of Durable Streams, unchanged, against raw streams. What waits for times to live, and what
// tries random histories, is left to the whole kit (tests/doors/10-durable-streams.test.mjs).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failuresIn, runKit } from '../support/durable_streams_kit.mjs';

/** How many tests each group of the kit 0.3.6 has. */
const GROUPS = {
	'Basic Stream Operations': 5,
	'Append Operations': 3,
	'Read Operations': 3,
	'Long-Poll Operations': 2,
	'HTTP Protocol': 15,
	'Read-Your-Writes Consistency': 3,
	'SSE Mode': 31,
	'JSON Mode': 16,
	'Idempotent Producer Operations': 29,
	'Stream Closure': 34,
	'Fork - Creation': 34,
	'Fork - Reading': 6,
	'Fork - Appending': 5,
	'Fork - Live Modes': 4,
};

test('190 tests of the kit 0.3.6 pass: all of fourteen of its groups', async (t) => {
	const results = await runKit(t, Object.keys(GROUPS));
	assert.deepEqual(failuresIn(results), []);
	const passed = {};
	for (const { group } of results.filter(({ status }) => status === 'passed')) {
		passed[group] = (passed[group] ?? 0) + 1;
	}
	assert.deepEqual(passed, GROUPS);
});
