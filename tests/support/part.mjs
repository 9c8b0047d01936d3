// A part of a long series of cases, so that a run of all tests takes minutes: HOLDFAST_PART=3/8 is every eighth case, beginning
// with the third. Without it: all of them. scripts/test takes the part that tests/green names, so that each landing tries another one.

import assert from 'node:assert/strict';

const [which, of] = (process.env.HOLDFAST_PART ?? '1/1').split('/').map(Number);
assert.ok(which >= 1 && which <= of, `HOLDFAST_PART=${process.env.HOLDFAST_PART} is no part, such as 3/8`);

/** Whether all of them run. */
export const isWhole = of === 1;

/** Those of the cases that are in the part; at least one, also where there are fewer cases than parts. */
export function partOf(cases) {
	const parts = Math.min(of, cases.length);
	return cases.filter((_, i) => i % parts === (which - 1) % parts);
}
