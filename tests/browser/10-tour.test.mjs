// What the README promises first: the page, the tour and the examples, on the real server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
	allowOnce,
	assertNothingLost,
	assertSameAfterReload,
	assertShowsLog,
	byTestId,
	noteTail,
	openPage,
	say,
	sessionOf,
	startFromSources,
	startServer,
	waitForEnd,
	waitForTurns,
	watchForLoss,
} from './page.mjs';

test('the tour, live: every event once, in order, and the same after a reload', async (t) => {
	const server = await startServer(t, { rate: 200 }); // a call waits long enough to be seen on a busy machine
	const page = await openPage(t, server.url);
	await watchForLoss(page);
	const tail = await noteTail(page);
	await byTestId(page, 'tour').click();
	const id = await sessionOf(page);
	await allowOnce(page);
	await waitForTurns(page);
	await assertShowsLog(page, server, id);
	await assertNothingLost(page);
	assert.equal(await page.locator('[data-open-seq]').count(), 0);
	assert.ok(
		(await tail()).includes('A tool call is waiting for the list to end: Search for “seq” in the notes'),
		await tail(),
	);
	assert.equal(await page.locator('[data-tool-call-id][data-status="completed"]').count(), 5);
	assert.match(await byTestId(page, 'usage').innerText(), /tokens/);
	await waitForEnd(page);
	await assertSameAfterReload(page);
});

for (const prompt of ['list', 'table', 'code', 'permission', 'long']) {
	test(`the example "${prompt}"`, async (t) => {
		const server = await startServer(t, { rate: 4000 });
		const page = await openPage(t, server.url);
		await page.locator(`[data-prompt="${prompt}"]`).click();
		const id = await sessionOf(page);
		await watchForLoss(page);
		if (prompt === 'permission') {
			await allowOnce(page);
		}
		await waitForTurns(page);
		await assertShowsLog(page, server, id);
		await assertNothingLost(page);
		await assertSameAfterReload(page);
	});
}

test('a session is made by its first prompt, named after it, and found again in the list', async (t) => {
	const server = await startFromSources(t, { rate: 4000 });
	const page = await openPage(t, server.url);
	assert.equal(await byTestId(page, 'session').count(), 0);
	await say(page, 'thought\nplan');
	const id = await sessionOf(page);
	await waitForTurns(page);
	const row = page.locator(`[data-testid="session"][data-session-id="${id}"]`);
	// The first words of the prompt, until its agent gives it a title.
	await row.locator('.session-title', { hasText: /^Demo: thought/ }).waitFor();
	await page.locator('h1#title', { hasText: /^Demo: thought/ }).waitFor();

	await byTestId(page, 'new-session').click();
	await byTestId(page, 'tour').waitFor();
	assert.equal(await page.locator('[data-seq]').count(), 0);
	await row.locator('a').click();
	await waitForTurns(page);
	await assertShowsLog(page, server, id);
});
