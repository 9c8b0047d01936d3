// An observer whose connection breaks again and again, and that goes on where it was each time.

import assert from 'node:assert/strict';
import { Observer } from './observer.mjs';

const LIMITS = [1, 3, 50, 500]; // events in a page

/** One connection, up to its break or, if nothing is broken any more, until it has everything. */
async function watchOnce(observer, { random, pace, over }) {
	const loading = observer.loadAll({ limit: LIMITS[random(LIMITS.length)] });
	const seen = 1 + random(2 * pace + 1);
	const moment = observer.waitUntil(() => observer.frames.length >= seen, `${seen} frames`, 60_000);
	// Whichever is not waited for any more fails with the connection.
	loading.catch(() => {});
	moment.catch(() => {});
	const isOver = await Promise.race([over.then(() => true), moment.then(() => false)]);
	return isOver ? loading.then(() => true) : false;
}

/**
 * Watches a session while it goes on, losing its connection `breaks` times: after some frames, about `pace` of them, be that
 * live or in the middle of a load. Breaks that are left when `over` settles come then: it goes on from somewhere
 * in what it has. Resolves with {observer, live}: the last connection, which stays, and how many of the breaks came while the session went on.
 */
export async function watchWithBreaks(t, server, id, { query, breaks, random, pace, over }) {
	let held = [];
	let epoch = null;
	let live = 0;
	for (let i = 0; i < breaks; i++) {
		const observer = await Observer.connect(t, server, id, { query, held, epoch });
		const isOver = await watchOnce(observer, { random, pace, over });
		observer.drop();
		assert.deepEqual(observer.resets, []);
		live += !isOver;
		epoch = observer.epoch;
		const events = observer.events();
		held = events.slice(0, isOver ? random(events.length + 1) : events.length);
	}
	const observer = await Observer.connect(t, server, id, { query, held, epoch });
	await Promise.all([observer.loadAll(), over]);
	assert.deepEqual(observer.resets, []);
	return { observer, live };
}
