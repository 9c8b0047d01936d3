// A session of 20,000 events (5,000 with each commit): what is on the page stays small, wherever the reader is, and nothing is left out.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventOf, makeLongSession } from '../support/long_session.mjs';
import { isWhole } from '../support/part.mjs';
import { input, post } from '../support/producer.mjs';
import { byTestId, openPage, sessionUrl, startServer, waitForEnd, waitForSeq, waitForStatus, walkOn } from './page.mjs';

const COUNT = isWhole ? 20_000 : 5_000;
const MOUNTED_MAX = 480; // elements of items: what the page keeps, and one batch before it is trimmed
const NODES_MAX = 12_000; // of the whole page
const JUMPS = [0.5, 0.1, 0.9, 0.33, 0.02, 0.71];

/** A session with so many events, which has ended; gives its id and the number of the last one. */
async function longSession(server, count) {
	const { id } = await makeLongSession(server, count);
	const { max_seq: last } = await post(server, id, input.end());
	return { id, last };
}

/** In the page, see standing(). */
async function standingHere() {
	const frame = () => new Promise((done) => requestAnimationFrame(done));
	await frame();
	await frame();
	const scroller = document.querySelector('#scroller').getBoundingClientRect();
	const list = document.querySelector('#transcript');
	const { top, bottom } = list.getBoundingClientRect();
	const numbers = [...list.children].map((e) => Number(e.dataset.no));
	return {
		mounted: numbers.length,
		nodes: document.querySelectorAll('*').length,
		first: numbers[0],
		last: numbers.at(-1),
		isInOrder: numbers.every((no, i) => i === 0 || no > numbers[i - 1]),
		isFull: top <= scroller.top + 30 && bottom >= scroller.bottom - 60,
		seqs: [...list.querySelectorAll('[data-seq]'), ...list.children]
			.map((e) => Number(e.dataset.seq))
			.filter(Boolean),
	};
}

/** What stands on the page: how much, from where to where, whether in order, and whether it fills the view. */
const standing = (page) => page.evaluate(standingHere);

function assertBounded({ mounted, nodes, isInOrder, isFull, first, last }) {
	const where = `from ${first} to ${last}`;
	assert.ok(mounted <= MOUNTED_MAX, `${mounted} items are on the page, ${where}`);
	assert.ok(nodes <= NODES_MAX, `${nodes} elements are on the page, ${where}`);
	assert.ok(isInOrder, `not in order, ${where}`);
	assert.ok(isFull, `the view is not filled, ${where}`);
}

/** Scrolls so that what stands on the page begins at the view's top, or, with `down`, ends at its bottom. */
const scrollOn = (page, down = false) =>
	page.evaluate((isDown) => {
		const scroller = document.querySelector('#scroller');
		const view = scroller.getBoundingClientRect();
		const list = document.querySelector('#transcript').getBoundingClientRect();
		scroller.scrollTop += isDown ? list.bottom - view.bottom : list.top - view.top;
	}, down);

test(`${COUNT} events: bounded at every place, from the end to the beginning and back`, async (t) => {
	const server = await startServer(t);
	const { id, last } = await longSession(server, COUNT);
	assert.ok(last >= COUNT);
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForSeq(page, last);
	await waitForEnd(page);
	const start = await standing(page);
	assertBounded(start);
	assert.ok(start.mounted <= 50, `${start.mounted}: the newest page is what an opened session begins with`);

	// Up to the beginning: every event is there on the way, and what was on the screen stays where it was.
	const stops = await walkOn(page, standingHere);
	stops.forEach(assertBounded);
	assert.equal(stops[0].first, 1);
	assert.equal(new Set(stops.flatMap(({ seqs }) => seqs)).size, last, 'every event was on the page');

	// Dragging the scrollbar to anywhere finds something there.
	for (const share of JUMPS) {
		await page.evaluate((at) => {
			const scroller = document.querySelector('#scroller');
			scroller.scrollTop = at * scroller.scrollHeight;
		}, share);
		const now = await standing(page);
		assertBounded(now);
		assert.ok(
			now.first <= (share + 0.1) * last && now.last >= (share - 0.1) * last,
			`${share}: ${now.first} to ${now.last}`,
		);
	}

	// And down again from the middle, without a gap between what stood there and what comes.
	for (let step = 0, before = await standing(page); step < 20; step += 1) {
		await scrollOn(page, true);
		const now = await standing(page);
		assertBounded(now);
		assert.ok(now.first <= before.last && now.last > before.last, `${now.first} follows on ${before.last}`);
		before = now;
	}

	await byTestId(page, 'jump').click();
	await waitForEnd(page);
	const end = await standing(page);
	assertBounded(end);
	assert.equal(Math.max(...end.seqs), last);
	const { max_seq: newest } = await post(server, id, [input.text('And one more.'), input.end()]);
	await waitForSeq(page, newest);
	await waitForEnd(page);
});

test('a page that watches thousands of events come in keeps no more than those at the end', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession();
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForStatus(page, 'live');
	let last = 0;
	for (let n = 1; n <= 3_000; n += 100) {
		({ max_seq: last } = await post(
			server,
			id,
			Array.from({ length: 100 }, (_, i) => eventOf(n + i)),
		));
		await waitForSeq(page, last - 1);
	}
	({ max_seq: last } = await post(server, id, input.end()));
	await waitForSeq(page, last);
	await waitForEnd(page);
	const end = await standing(page);
	assertBounded(end);
	assert.ok(end.mounted >= 200, `${end.mounted}: those that were seen come are kept for a while`);
});

test('a reader far up is left alone by what comes in at the end, and by what is trimmed there', async (t) => {
	const server = await startServer(t);
	const { id, last } = await longSession(server, 1_200);
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForSeq(page, last);
	for (let first = Infinity; first > 300;) {
		({ first } = await standing(page));
		await scrollOn(page);
	}
	const place = () =>
		page.evaluate(() => {
			const edge = document.querySelector('#scroller').getBoundingClientRect().top;
			const element = [...document.querySelectorAll('#transcript > *')].find(
				(e) => e.getBoundingClientRect().bottom > edge,
			);
			return { no: element.dataset.no, top: Math.round(element.getBoundingClientRect().top) };
		});
	await standing(page);
	const before = await place();
	// An answer to what is above the view changes its height: the tool's card, and the end of the list.
	const { max_seq: end } = await post(server, id, [
		{
			type: 'tool_call_update',
			data: {
				tool_call_id: 'call-20',
				content: [{ type: 'content', content: { type: 'text', text: 'x\n'.repeat(20) } }],
			},
		},
		...Array.from({ length: 600 }, (_, i) => input.text(`New, ${i}.\n\n`, `new-${i}`)),
		input.end(),
	]);
	await byTestId(page, 'inspect').click();
	await page.waitForFunction((seq) => document.querySelector('[data-figure="seq"]')?.textContent === String(seq), end);
	await standing(page);
	assert.equal((await place()).no, before.no, 'narrower: all lines break elsewhere, and the reader is where he was');
	await byTestId(page, 'inspect').click();
	assertBounded(await standing(page));
	assert.deepEqual(await place(), before);
	await byTestId(page, 'jump').click();
	await waitForSeq(page, end);
	await waitForEnd(page);
});
