// Tabs that sleep, and networks that die without a word: what the page shows then is the log, and what it had shown before has not moved.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { input, post } from '../support/producer.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { eventually } from '../support/wait.mjs';
import {
	allowOnce,
	assertNothingLost,
	assertSameAfterReload,
	assertShowsLog,
	byTestId,
	openPage,
	say,
	sessionUrl,
	showAll,
	startServer,
	waitForSeq,
	waitForStatus,
	waitForTurns,
	walk,
	watchForLoss,
} from './page.mjs';
import { Proxy } from './proxy.mjs';

const mayReport = (text) => /WebSocket connection to .* failed|Failed to load resource: net::/.test(text);
const BREAKS = 50;

/** The browser tells the page that nobody sees it, or that somebody does again. */
function setVisible(page, visible) {
	return page.evaluate(
		(state) => {
			Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
			Object.defineProperty(document, 'hidden', { value: state === 'hidden', configurable: true });
			document.dispatchEvent(new Event('visibilitychange'));
		},
		visible ? 'visible' : 'hidden',
	);
}

const paragraphs = (from, count) =>
	Array.from({ length: count }, (_, i) => input.text(`Paragraph ${from + i}.\n\n`, `m${from + i}`));

/** A page on a session in which something has been said already, through a proxy. */
async function openThrough(t, { rate = 1000, ...options } = {}) {
	const server = await startServer(t, { rate });
	const proxy = await Proxy.start(t, server);
	const { id } = await server.createSession();
	const { max_seq: last } = await post(server, id, [...paragraphs(1, 10), input.end()]);
	const page = await openPage(t, sessionUrl(proxy.url, id), { mayReport, ...options });
	await waitForSeq(page, last);
	return { server, proxy, page, id };
}

/** As a user in a hurry: does not wait for the pause before a new attempt. */
function hurry(page) {
	return page.evaluate(() => {
		const pill = document.querySelector('[data-testid="connection"]');
		new MutationObserver(
			() => ['retrying', 'offline'].includes(pill.dataset.status) && requestAnimationFrame(() => pill.click()),
		).observe(pill, { attributeFilter: ['data-status'] });
	});
}

test('asleep with a socket that is dead and does not say so: 200 events later all is there, and nothing has moved', async (t) => {
	const { server, proxy, page, id } = await openThrough(t);
	await watchForLoss(page);
	await post(server, id, input.text('- it was in the middle of\n- a list'));
	await page.waitForSelector('[data-open-seq]');
	proxy.cut();
	await setVisible(page, false);
	await post(server, id, [input.text(' when it slept\n\n'), ...paragraphs(100, 200), input.end()]);
	await setVisible(page, true);
	await waitForSeq(page, readLog(server, id).at(-1).seq);
	await waitForStatus(page, 'live');
	assert.match(await byTestId(page, 'banner').innerText(), /^Reconnected\. \d+ events arrived in the meantime\.$/);
	await showAll(page);
	await assertShowsLog(page, server, id);
	await assertNothingLost(page);
});

test('a second after it is looked at again a page has the 500 events that came while it slept', async (t) => {
	const server = await startServer(t, { rate: 1000 });
	const proxy = await Proxy.start(t, server);
	const { id } = await server.createSession();
	const page = await openPage(t, 'about:blank', { mayReport });
	await page.clock.install();
	await page.goto(sessionUrl(proxy.url, id));
	const { max_seq: last } = await post(server, id, [...paragraphs(1, 10), input.end()]);
	await waitForSeq(page, last);
	await post(server, id, input.text('- it was in the middle of\n- a list'));
	await page.waitForSelector('[data-open-seq]');
	proxy.cut();
	await page.clock.pauseAt((await page.evaluate(() => Date.now())) + 1_000);
	await setVisible(page, false);
	await post(server, id, [input.text(' when it slept\n\n'), ...paragraphs(100, 500), input.end()]);
	await setVisible(page, true);
	// The second is counted on the page's own clock, which stands still while this machine is busy.
	await page.clock.runFor(400);
	await waitForStatus(page, 'live');
	await page.clock.runFor(600);
	const log = readLog(server, id);
	await waitForSeq(page, log.length);
	await page.clock.resume();
	const found = await walk(page, () =>
		[...document.querySelectorAll('[data-seq]')].map(({ dataset }) => [Number(dataset.seq), dataset.type]),
	);
	assert.deepEqual(
		[...new Map(found.flat())].sort(([a], [b]) => a - b),
		log.map(({ seq, type }) => [seq, type]),
	);
});

test('asleep for 1,500 events: the end is there, and all of them are', async (t) => {
	const { server, proxy, page, id } = await openThrough(t);
	await byTestId(page, 'inspect').click(); // its part is loaded with a connection that works
	await page.locator('[data-figure="held"]').waitFor();
	proxy.cut();
	await setVisible(page, false);
	await post(server, id, [...paragraphs(100, 1_500), input.end()]);
	const last = readLog(server, id).at(-1).seq;
	await setVisible(page, true);
	await waitForSeq(page, last);
	await page.waitForFunction(
		(seq) => document.querySelector('[data-figure="held"]')?.textContent === String(seq),
		last,
	);
	assert.equal(await page.locator('[data-figure="seq"]').textContent(), String(last));
});

test('a network that is cut without a close is found out by the keepalive, and healed', async (t) => {
	const server = await startServer(t);
	const proxy = await Proxy.start(t, server);
	const { id } = await server.createSession();
	const page = await openPage(t, 'about:blank', { mayReport });
	await page.clock.install();
	await page.goto(sessionUrl(proxy.url, id));
	await waitForStatus(page, 'live');
	proxy.cut();
	const { max_seq: last } = await post(server, id, [input.text('Said into the dark.'), input.end()]);
	for (let beats = 0; beats < 3; beats += 1) {
		await page.clock.runFor(10_000);
	}
	await page.clock.runFor(30_000); // the wait before the new attempt
	await waitForSeq(page, last);
	await waitForStatus(page, 'live');
	await assertShowsLog(page, server, id);
});

test('offline, and back: at once, without waiting for the next attempt', async (t) => {
	const { server, proxy, page, id } = await openThrough(t);
	await watchForLoss(page);
	await page.context().setOffline(true);
	proxy.isDown = true;
	proxy.break();
	await waitForStatus(page, 'offline');
	assert.match(await byTestId(page, 'banner').innerText(), /^You are offline\. Trying again in \d+\u00a0s\./);
	const { max_seq: last } = await post(server, id, [...paragraphs(50, 20), input.end()]);
	proxy.isDown = false;
	await page.context().setOffline(false);
	await waitForSeq(page, last);
	await assertShowsLog(page, server, id);
	await assertNothingLost(page);
});

test(`${BREAKS} breaks at random places of a long reply`, async (t) => {
	const { server, proxy, page, id } = await openThrough(t, { rate: 2500 });
	const random = randomNumbers(6);
	await watchForLoss(page);
	await hurry(page);
	proxy.breakAfter(...Array.from({ length: BREAKS }, () => 150 + random(700)));
	await say(page, 'tour');
	await allowOnce(page);
	await page.waitForSelector('[data-seq="11"] ~ [data-type="turn_end"]', { state: 'attached' });
	await waitForStatus(page, 'live');
	assert.equal(proxy.broken, BREAKS);
	await showAll(page);
	await assertShowsLog(page, server, id);
	await assertNothingLost(page);
	proxy.breakAfter();
	await assertSameAfterReload(page);
});

test('a prompt into a dead socket is delivered once, whether it or only its answer was lost', async (t) => {
	for (const ways of ['both', 'down']) {
		const { server, proxy, page, id } = await openThrough(t, { rate: 4000 });
		proxy.cut(ways);
		await say(page, 'thought');
		await page.waitForSelector('[data-prompt-id][data-state="sending"]');
		if (ways === 'down') {
			await eventually(() => readLog(server, id).some((event) => event.type === 'user_prompt'));
		}
		proxy.break();
		await byTestId(page, 'connection').click();
		await waitForTurns(page, 2);
		assert.equal(readLog(server, id).filter((event) => event.type === 'user_prompt').length, 1, ways);
		assert.equal(await page.locator('[data-prompt-id]').count(), 0);
		await assertShowsLog(page, server, id);
	}
});
