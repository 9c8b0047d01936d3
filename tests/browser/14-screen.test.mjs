// Long sessions and small screens.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import {
	assertSameRendering,
	assertShowsLog,
	byTestId,
	openPage,
	rendered,
	say,
	sessionOf,
	sessionUrl,
	shownEvents,
	showAll,
	startServer,
	waitForEnd,
	waitForSeq,
	waitForStatus,
	waitForTurns,
} from './page.mjs';

const PHONE = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

/** 300 events: texts, and in each tenth place a tool whose update comes a few events later. */
function longStory() {
	const events = [];
	for (let n = 1; events.length < 300; n++) {
		events.push(
			input.text(
				`${n}. On the ${n}th day the log says: ${'nothing was lost. '.repeat((n % 7) + 1)}\n\n`,
				`m${n}`,
			),
		);
		if (n % 10 === 0) {
			events.push(input.tool(`call-${n}`, `Look it up, ${n}`));
		} else if (n % 10 === 4 && n > 10) {
			events.push(input.toolDone(`call-${n - 4}`));
		}
	}
	return events.slice(0, 300);
}

/**
 * Where the first element stands that can be seen, and what it is; after scrolling, if `below` says how far below the
 * first one that is on the page.
 */
function firstSeen(page, below = null) {
	return page.evaluate((px) => {
		const scroller = document.querySelector('#scroller');
		const list = document.querySelector('[data-testid="transcript"]');
		const edge = scroller.getBoundingClientRect().top;
		scroller.scrollTop += px === null ? 0 : list.getBoundingClientRect().top - edge + px;
		const first = [...list.children].find((e) => e.getBoundingClientRect().bottom > edge);
		return { no: first.dataset.no, top: first.getBoundingClientRect().top };
	}, below);
}

test('scrolling up loads what is older, page by page, and moves nothing that is on the screen', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession();
	const { max_seq: last } = await post(server, id, [...longStory(), input.end()]);
	assert.ok(last >= 300);
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForStatus(page, 'live');
	await waitForSeq(page, last);
	assert.equal((await shownEvents(page)).length, 50, 'the newest page, not all');
	let steps = 0;
	for (;;) {
		const [{ seq: oldest }] = await shownEvents(page);
		if (oldest === 1) {
			break;
		}
		// As far up as makes the page ask, and not to the very top, where there is nothing to hold on to.
		const before = await firstSeen(page, 100);
		await page.waitForSelector(`[data-seq="${oldest - 1}"]`, { state: 'attached' });
		const after = await page.evaluate(
			(no) =>
				document.querySelector(`[data-testid="transcript"] > [data-no="${no}"]`).getBoundingClientRect().top,
			before.no,
		);
		assert.ok(Math.abs(after - before.top) <= 1, `event ${before.no} moved from ${before.top} to ${after}`);
		steps += 1;
	}
	assert.ok(steps >= 5, `all in ${steps} steps`);
	await assertShowsLog(page, server, id);

	// Held against a page that was there while it all came in.
	const other = await server.createSession();
	const live = await openPage(t, sessionUrl(server.url, other.id));
	await waitForStatus(live, 'live');
	await post(server, other.id, [...longStory(), input.end()]);
	await waitForSeq(live, last);
	await showAll(live);
	assertSameRendering(await rendered(page), await rendered(live));
});

test('a tool whose call was on an older page is put together with it, and no other element is touched', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession();
	const { max_seq: last } = await post(server, id, [
		...Array.from({ length: 20 }, (_, n) => input.text(`Before, ${n}.\n\n`, `a${n}`)),
		input.tool('call', 'Look it up'),
		...Array.from({ length: 30 }, (_, n) => input.text(`Between, ${n}.\n\n`, `b${n}`)),
		input.toolDone('call'),
		...Array.from({ length: 48 }, (_, n) => input.text(`After, ${n}.\n\n`, `c${n}`)),
		input.end(),
	]);
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForSeq(page, last);
	const first = await page.locator('#transcript > *').first().getAttribute('data-type');
	assert.equal(first, 'tool_call_update', 'the newest page begins with the answer to a call that is not on it');
	await page.evaluate(() => (window.shown = [...document.querySelectorAll('#transcript > .message')]));
	await page.evaluate(() => {
		window.moved = 0;
		new MutationObserver((records) =>
			records.forEach(
				({ removedNodes }) =>
					(window.moved += [...removedNodes].filter((e) => window.shown.includes(e)).length),
			),
		).observe(document.querySelector('#transcript'), { childList: true });
	});
	await showAll(page);
	assert.equal(await page.locator('.tool').count(), 1);
	assert.equal(await page.locator('.tool').getAttribute('data-status'), 'completed');
	assert.equal(await page.evaluate(() => window.moved), 0);
	await assertShowsLog(page, server, id);
});

test('a reader who has scrolled up stays there while text comes in, and can go back to the end', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession();
	await post(server, id, longStory().slice(0, 40));
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForStatus(page, 'live');
	await showAll(page);
	assert.equal(await byTestId(page, 'jump').isVisible(), false);
	const before = await firstSeen(page, 600);
	await byTestId(page, 'jump').waitFor();
	const { max_seq: last } = await post(server, id, [input.text('And then?\n\n'.repeat(40)), input.end()]);
	await waitForSeq(page, last);
	assert.deepEqual(await firstSeen(page), before);
	await byTestId(page, 'jump').click();
	await byTestId(page, 'jump').waitFor({ state: 'hidden' });
	const { max_seq: end } = await post(server, id, [input.text('The end.'), input.end()]);
	await waitForSeq(page, end);
	await waitForEnd(page);
});

test('a reader who scrolls up a little at the end is not pulled back, neither at once nor by what comes in', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession();
	const { max_seq: last } = await post(server, id, longStory().slice(0, 60));
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForSeq(page, last);
	await waitForEnd(page);
	const left = () => page.$eval('#scroller', (e) => e.scrollHeight - e.clientHeight - e.scrollTop);
	await page.locator('#scroller').hover();
	for (let i = 0; i < 3; i += 1) {
		await page.mouse.wheel(0, -13);
		await page.waitForFunction(
			(px) => {
				const e = document.querySelector('#scroller');
				return e.scrollHeight - e.clientHeight - e.scrollTop >= px;
			},
			13 * (i + 1) - 1,
		);
	}
	const { max_seq: next } = await post(server, id, [input.text('And then?\n\n', 'next'), input.end()]);
	await waitForSeq(page, next);
	assert.ok((await left()) > 39, `${await left()} px from the end`);
	await page.mouse.wheel(0, 1_000);
	await waitForEnd(page);
	const { max_seq: end } = await post(server, id, [input.text('The end.\n\n'.repeat(5), 'end'), input.end()]);
	await waitForSeq(page, end);
	await waitForEnd(page);
});

/** What is wider than the screen and does not scroll by itself. */
function tooWide(page) {
	return page.evaluate((width) => {
		/** Stands in a box that scrolls by itself, or cuts it off, inside the transcript or the header. */
		const isContained = (e) => {
			const box = e.parentElement;
			return (
				!box.matches('main, #scroller') && (getComputedStyle(box).overflowX !== 'visible' || isContained(box))
			);
		};
		const wide = [...document.querySelectorAll('main *')].filter((e) => {
			const { right, left, width: own } = e.getBoundingClientRect();
			return own > 1 && (right > width + 0.5 || left < -0.5) && !isContained(e);
		});
		return {
			layout: window.innerWidth,
			document: document.documentElement.scrollWidth,
			body: document.body.scrollWidth,
			scroller: document.querySelector('#scroller').scrollWidth - document.querySelector('#scroller').clientWidth,
			elements: wide.map((e) => e.outerHTML.slice(0, 120)),
		};
	}, PHONE.viewport.width);
}

const FITS = { layout: 360, document: 360, body: 360, scroller: 0, elements: [] };

test('360 px wide: nothing sticks out, whatever is said, and everything can be reached', async (t) => {
	const server = await startServer(t, { rate: 3000 });
	const page = await openPage(t, server.url, PHONE);
	assert.deepEqual(await tooWide(page), FITS, 'the empty page');
	const long = 'a_word_that_has_no_end_and_no_place_to_break'.repeat(5);
	await say(page, `tour ${long}`);
	const id = await sessionOf(page);
	const option = page.locator('[data-kind="allow_once"]');
	await option.waitFor();
	assert.deepEqual(await tooWide(page), FITS, 'a question');
	await option.tap();
	await waitForTurns(page);
	assert.deepEqual(await tooWide(page), FITS, 'the tour');
	await showAll(page);
	assert.deepEqual(await tooWide(page), FITS, 'all of it');

	const { max_seq: last } = await post(server, id, [
		{
			type: 'tool_call',
			data: {
				tool_call_id: 'wide',
				title: long,
				kind: 'edit',
				status: 'completed',
				locations: [{ path: `/${long}/${long}`, line: 1 }],
				content: [
					{ type: 'diff', path: `/${long}`, old_text: long, new_text: `${long}${long}` },
					{ type: 'content', content: { type: 'text', text: long } },
				],
			},
		},
		input.text(
			`# ${long}\n\n${long}\n\n- ${long}\n  - ${long}\n\n> ${long}\n\n\`${long}\`\n\n| ${long} | b |\n|---|---|\n| ${long} | ${long} |\n\n\`\`\`\n${long}${long}\n\`\`\`\n\n`,
		),
		input.thought(long),
		input.plan(long, long),
		{ type: 'file_write', data: { path: long, size: 1 } },
		{ type: 'turn_end', data: { stop_reason: 'error', message: long } },
		input.note({ [long]: long }),
	]);
	await waitForSeq(page, last);
	await page.$$eval('details', (all) => all.forEach((details) => (details.open = true)));
	assert.deepEqual(await tooWide(page), FITS, 'endless words');

	await byTestId(page, 'drop').tap();
	await waitForStatus(page, 'retrying');
	assert.deepEqual(await tooWide(page), FITS, 'the connection lost');
	await byTestId(page, 'connection').tap();
	await waitForStatus(page, 'live');
	await page.locator('[data-action="open-sidebar"]').tap();
	await byTestId(page, 'new-session').tap();
	await byTestId(page, 'tour').waitFor();
	await byTestId(page, 'sessions').waitFor({ state: 'hidden' });
});
