// The inspector: what it shows is what went over the wire, and what it breaks heals.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import {
	assertNothingLost,
	assertShowsLog,
	byTestId,
	openPage,
	sessionUrl,
	startServer,
	waitForSeq,
	waitForStatus,
	watchForLoss,
} from './page.mjs';

const figure = (page, name) => page.locator(`[data-figure="${name}"]`);

const waitForFigure = (page, name, text) =>
	page.waitForFunction(
		([of, wanted]) => document.querySelector(`[data-figure="${of}"]`)?.textContent === wanted,
		[name, text],
	);

/** The clock runs until the connection is live again. */
async function runUntilLive(page) {
	for (
		let seconds = 0;
		seconds < 60 && !(await page.locator('[data-testid="connection"][data-status="live"]').count());
		seconds += 1
	) {
		await page.clock.runFor(1_000);
		await page.evaluate(() => fetch('/healthz')); // what happens on the network takes real time
	}
	await waitForStatus(page, 'live');
}

/** A page with the inspector open, on a session with a text in it. */
async function openInspector(t, options) {
	const server = await startServer(t);
	const { id, epoch } = await server.createSession();
	const { max_seq: last } = await post(server, id, [
		input.text('One.\n\n', 'm1'),
		input.text('Two.\n\n', 'm2'),
		input.end(),
	]);
	const page = await openPage(t, 'about:blank', options);
	await page.clock.install();
	await page.goto(sessionUrl(server.url, id));
	await waitForSeq(page, last);
	await byTestId(page, 'inspect').click();
	await page.locator('.frame').first().waitFor(); // it is loaded now
	return { server, id, epoch, last, page };
}

test('frames are shown as they went over the wire, newest first, with the figures that follow from them', async (t) => {
	const { server, id, epoch, last, page } = await openInspector(t);
	const types = () => page.$$eval('.frame', (all) => all.map((e) => `${e.dataset.way} ${e.dataset.frameType}`));
	assert.deepEqual(
		(await types()).filter((type) => !/state|presence/.test(type)),
		['in events_loaded', 'out load_events', 'in connected', 'out token'],
	);
	await page.locator('[data-frame-type="token"] summary').click();
	assert.deepEqual(JSON.parse(await page.locator('[data-frame-type="token"] pre').textContent()), { type: 'token', data: {} });
	await page.locator('[data-frame-type="events_loaded"] summary').click();
	const loaded = JSON.parse(await page.locator('[data-frame-type="events_loaded"] pre').textContent());
	assert.deepEqual(
		loaded.data.events.map(({ seq }) => seq),
		[1, 2, 3],
	);
	assert.equal(await figure(page, 'epoch').textContent(), epoch);
	assert.equal(await figure(page, 'seq').textContent(), String(last));
	assert.equal(await figure(page, 'max_seq').textContent(), String(last));
	assert.equal(await figure(page, 'lag').textContent(), 'none');

	const { max_seq: next } = await post(server, id, [input.text('Three.'), input.end()]);
	await waitForSeq(page, next);
	await page.locator('[data-frame-type="events"]').first().waitFor();
	await page.clock.runFor(11_000);
	await waitForFigure(page, 'seq', String(next));
	await page.waitForFunction(() => /^\d+ ms$/.test(document.querySelector('[data-figure="round_trip"]')?.textContent));
	assert.equal(await page.locator('[data-frame-type="keepalive"]').count(), 0, 'left out unless asked for');
	await page.getByLabel('Hide previews').uncheck();
	assert.ok((await page.locator('[data-frame-type="keepalive"]').count()) > 0);
	await page.getByRole('button', { name: 'Clear' }).click();
	assert.equal(await page.locator('.frame').count(), 0);
	await page.keyboard.press('Escape');
	await byTestId(page, 'inspector').waitFor({ state: 'hidden' });
	assert.equal(await page.evaluate(() => document.activeElement.id), 'inspect');
});

test('a socket that is dropped is opened again', async (t) => {
	const { server, id, page } = await openInspector(t);
	await watchForLoss(page);
	await byTestId(page, 'inspect-drop').click();
	await waitForStatus(page, 'retrying');
	await runUntilLive(page);
	await page.clock.runFor(1_000);
	await waitForFigure(page, 'reconnects', '1');
	await assertShowsLog(page, server, id);
	await assertNothingLost(page);
});

test('a socket that is frozen lets nothing through, until the keepalive finds out', async (t) => {
	const { server, id, last, page } = await openInspector(t);
	await watchForLoss(page);
	await byTestId(page, 'inspect-freeze').click();
	await page.clock.runFor(1_000);
	await waitForFigure(page, 'status', 'live, frozen');
	const { max_seq: next } = await post(server, id, [input.text('Unheard.'), input.end()]);
	await page.clock.runFor(5_000);
	assert.equal(await figure(page, 'seq').textContent(), String(last));
	await page.clock.runFor(60_000);
	await waitForSeq(page, next);
	await page.locator('.frame.marked').first().waitFor();
	await assertShowsLog(page, server, id);
	await assertNothingLost(page);
});

test('a stale epoch is answered with a reset, and the page loads all anew', async (t) => {
	const { server, id, page } = await openInspector(t);
	await byTestId(page, 'inspect-stale').click();
	await waitForStatus(page, 'retrying');
	await runUntilLive(page);
	assert.match(await page.locator('#toasts').innerText(), /another history/);
	assert.match(await page.locator('.frame.marked').first().innerText(), /load_events/);
	await assertShowsLog(page, server, id);
});

test('a frame that is lost leaves a gap, which is seen and filled', async (t) => {
	const { server, id, page } = await openInspector(t);
	await byTestId(page, 'inspect-lose').click();
	const { max_seq: lost } = await post(server, id, [input.text('Lost.\n\n', 'm3'), input.end()]);
	await page.locator('.frame.marked[data-frame-type="events"]').waitFor();
	assert.equal(await page.locator(`[data-seq="${lost}"]`).count(), 0);
	const { max_seq: next } = await post(server, id, [input.text('Not lost.\n\n', 'm4'), input.end()]);
	await waitForSeq(page, next);
	await assertShowsLog(page, server, id);
});
