// axe-core finds no serious fault in what the page can look like; and what it cannot find: the keyboard.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { partOf } from '../support/part.mjs';
import { post } from '../support/producer.mjs';
import { assertNoFault } from './axe.mjs';
import {
	agentState,
	allowOnce,
	byTestId,
	openPage,
	say,
	sessionOf,
	sessionUrl,
	startServer,
	waitForStatus,
	waitForTurns,
} from './page.mjs';

const PHONE = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true };

for (const [name, options] of partOf(Object.entries({ light: {}, dark: { colorScheme: 'dark' }, 'a phone': PHONE }))) {
	test(`no serious fault: ${name}`, async (t) => {
		const server = await startServer(t, { rate: 4000 });
		const page = await openPage(t, server.url, { reducedMotion: 'reduce', ...options });
		await byTestId(page, 'tour').waitFor();
		await assertNoFault(page, 'nothing there yet');
		await byTestId(page, 'tour').click();
		const id = await sessionOf(page);
		await byTestId(page, 'permission-option').first().waitFor();
		await assertNoFault(page, 'a question');
		await allowOnce(page);
		await waitForTurns(page);
		await page.evaluate(() => document.querySelectorAll('details').forEach((e) => (e.open = true)));
		await assertNoFault(page, 'the tour');
		await post(server, id, agentState());
		await byTestId(page, 'agent-settings').waitFor();
		await byTestId(page, 'prompt').fill('/');
		await byTestId(page, 'commands').waitFor();
		await assertNoFault(page, 'what the agent offers');
		await byTestId(page, 'prompt').fill('');
		await byTestId(page, 'inspect').click();
		await page.locator('.frame summary').first().click();
		await assertNoFault(page, 'the inspector');
		await byTestId(page, 'inspect-drop').click();
		await waitForStatus(page, 'retrying');
		await assertNoFault(page, 'the connection lost');

		const waits = await openPage(t, server.url, { reducedMotion: 'reduce', ...options });
		await say(waits, 'hang');
		await sessionOf(waits);
		await say(waits, 'list');
		await say(waits, 'a prompt that is so long that it does not fit on one line, on a desk as little as on a phone');
		await byTestId(waits, 'queued').nth(1).waitFor();
		await assertNoFault(waits, 'prompts that wait');
		await byTestId(waits, 'edit-queued').nth(1).click();
		await byTestId(waits, 'queued-text').waitFor();
		await assertNoFault(waits, 'a waiting prompt that is edited');
		await byTestId(waits, 'cancel').click();

		const wall = await openPage(t, `${server.url}/observe.html`, { reducedMotion: 'reduce', ...options });
		await wall.locator('.tile .item').first().waitFor();
		await assertNoFault(wall, 'the wall');

		const gone = await openPage(t, sessionUrl(server.url, `no-${id}`), { reducedMotion: 'reduce', ...options });
		await waitForStatus(gone, 'gone');
		await assertNoFault(gone, 'a session that is not there');
	});
}

test('by keyboard alone: prompt, answer, scroll, inspect, delete', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const page = await openPage(t, server.url);
	const focused = () => page.evaluate(() => document.activeElement.dataset.testid ?? document.activeElement.id);
	// It comes when the page has logged in.
	await page.waitForFunction(() => document.activeElement?.dataset.testid === 'prompt');
	await page.keyboard.type('list permission');
	await page.keyboard.press('Enter');
	await sessionOf(page);
	await byTestId(page, 'permission-option').first().waitFor();
	for (let i = 0; i < 60 && (await focused()) !== 'permission-option'; i += 1) {
		await page.keyboard.press('Shift+Tab');
	}
	assert.equal(await focused(), 'permission-option');
	await page.keyboard.press('Enter');
	await waitForTurns(page);
	assert.notEqual(await page.evaluate(() => document.activeElement), null);

	await page.locator('#scroller').focus();
	await page.keyboard.press('Home');
	await page.waitForFunction(() => document.querySelector('#scroller').scrollTop === 0);
	await page.keyboard.press('End');
	await byTestId(page, 'jump').waitFor({ state: 'hidden' });

	await byTestId(page, 'session-menu').focus();
	await page.keyboard.press('Enter');
	assert.equal(await focused(), 'rename-session', 'the menu has it');
	await page.keyboard.press('ArrowUp');
	assert.equal(await focused(), 'delete-session', 'and goes round');
	await page.keyboard.press('Escape');
	assert.equal(await focused(), 'session-menu', 'the focus is where it was');
	await page.keyboard.press('Enter');
	await page.keyboard.press('Enter');
	assert.equal(await page.locator('#rename').evaluate((e) => e.open), true);
	await page.keyboard.press('Escape');
	assert.equal(await page.locator('#rename').evaluate((e) => e.open), false);
	await say(page, 'thought');
	await waitForTurns(page, 2);
});

test('on a phone the list of sessions takes the focus, and gives it back', async (t) => {
	const server = await startServer(t);
	const page = await openPage(t, server.url, PHONE);
	await page.locator('[data-action="open-sidebar"]').press('Enter');
	assert.equal(await page.evaluate(() => document.activeElement.closest('#sidebar') !== null), true);
	assert.equal(await page.locator('main').evaluate((e) => e.inert), true);
	await page.keyboard.press('Escape');
	assert.equal(await page.evaluate(() => document.activeElement.dataset.action), 'open-sidebar');
});
