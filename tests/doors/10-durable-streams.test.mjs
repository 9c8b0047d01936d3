// The whole conformance kit of Durable Streams against raw streams: all but the subscriptions, which are not built, pass.
// e2e 146 runs the quick half of it with each commit.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failuresIn, runKit } from '../support/durable_streams_kit.mjs';

test('the kit 0.3.6 passes: 332 tests, and the 6 of subscriptions are left out by the kit', async (t) => {
	const results = await runKit(t);
	assert.deepEqual(failuresIn(results), []);
	assert.equal(results.filter(({ status }) => status === 'passed').length, 332);
	assert.deepEqual(results.filter(({ status }) => status !== 'passed').map(({ name }) => /subscription|webhook|pull-wake/i.test(name)), Array(6).fill(true));
});
