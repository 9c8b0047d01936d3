// axe-core finds no serious fault in what the page can look like; and what it cannot find: the keyboard.

import assert from 'node:assert/strict';
import { test } from 'node:test';
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

test('no serious fault in what the page can look like', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const page = await openPage(t, server.url, { reducedMotion: 'reduce' });
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

	const waits = await openPage(t, server.url, { reducedMotion: 'reduce' });
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

	const wall = await openPage(t, `${server.url}/observe.html`, { reducedMotion: 'reduce' });
	await wall.locator('.tile .item:visible').first().waitFor();
	await assertNoFault(wall, 'the wall');

	const gone = await openPage(t, sessionUrl(server.url, `no-${id}`), { reducedMotion: 'reduce' });
	await waitForStatus(gone, 'gone');
	await assertNoFault(gone, 'a session that is not there');
});

/** In the page: where the focus is, and whether one sees that. */
function lookAtFocus() {
	const e = document.activeElement;
	const stops = (window.stops ??= new Set());
	if (e === document.body || stops.has(e)) {
		return { isOver: stops.has(e), fault: '' };
	}
	stops.add(e);
	const around = [e, e.parentElement, e.parentElement.parentElement, e.nextElementSibling].filter(Boolean);
	const look = () => JSON.stringify(around.map((one) => {
		const { outline, boxShadow, borderColor, backgroundColor, transform } = getComputedStyle(one);
		return [outline, boxShadow, borderColor, backgroundColor, transform];
	}));
	const { top, bottom, left, right } = e.getBoundingClientRect();
	const focused = look();
	e.blur();
	const blurred = look();
	e.focus();
	const name = `${e.localName}${e.id && `#${e.id}`}.${e.className} "${(e.getAttribute('aria-label') ?? e.textContent).trim().slice(0, 40)}"`;
	const isInView = bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
	return { isOver: false, fault: !isInView ? `${name} is out of view` : focused === blurred ? `${name} does not show that it has the focus` : '' };
}

/**
 * In the page: what can be pressed, and is not among the stops. Lists have one stop, and arrows from there on; a tile of the wall shows earlier
 * items while Tab is on its way down.
 */
function notReached() {
	const PRESSED = 'a[href], button, input:not([type="file"]), select, textarea, summary, [role="button"]';
	return [...document.querySelectorAll(PRESSED)]
		.filter((e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !e.disabled)
		.filter((e) => !e.closest('[inert], [role="listbox"], [role="menu"], #sessions, .event-tag, .tile-scroller') && !window.stops.has(e))
		.filter((e) => e.type !== 'radio' || !document.querySelector(`input[name="${e.name}"]:checked`))
		.map((e) => `${e.localName}${e.id && `#${e.id}`}.${e.className} "${(e.getAttribute('aria-label') ?? e.textContent).trim().slice(0, 40)}"`);
}

/** Tab leads to all that can be pressed, and each stop is seen. */
async function assertReached(page, where) {
	await page.evaluate(() => {
		window.stops = new Set();
		document.activeElement.blur();
	});
	const faults = [];
	for (let i = 0; i < 300; i += 1) {
		await page.keyboard.press('Tab');
		const { isOver, fault } = await page.evaluate(lookAtFocus);
		if (isOver) {
			break;
		}
		faults.push(...(fault ? [fault] : []));
	}
	assert.deepEqual(faults, [], where);
	assert.deepEqual(await page.evaluate(notReached), [], `${where}: Tab does not lead there`);
	assert.ok((await page.evaluate(() => window.stops.size)) > 8, where);
}

test('by keyboard alone: Tab leads to all that can be pressed, and the focus is seen at each stop', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const page = await openPage(t, server.url, { reducedMotion: 'reduce' });
	await byTestId(page, 'tour').waitFor();
	await assertReached(page, 'a new session');
	await byTestId(page, 'tour').click();
	const id = await sessionOf(page);
	await byTestId(page, 'permission-option').first().waitFor();
	await assertReached(page, 'a question');
	await allowOnce(page);
	await waitForTurns(page);
	await post(server, id, agentState());
	await byTestId(page, 'agent-settings').waitFor();
	await byTestId(page, 'inspect').click();
	await page.locator('.frame summary').first().waitFor();
	await byTestId(page, 'inspect-freeze').waitFor();
	await assertReached(page, 'the tour, and the inspector');
	const wall = await openPage(t, `${server.url}/observe.html`, { reducedMotion: 'reduce' });
	await wall.locator('.tile .item').first().waitFor();
	await assertReached(wall, 'the wall');
});

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
