// People have names, and see who is here.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claims, makeToken, secretOf } from '../support/tokens.mjs';
import { assertNoFault } from './axe.mjs';
import { allowOnce, byTestId, loginLink, openPage, say, sessionOf, sessionUrl, startServer, waitForStatus, waitForTurns } from './page.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const waitForCount = (page, count) => page.waitForFunction((text) => document.querySelector('#people span')?.textContent === text, String(count));
/** Of the panel, once it is shown: what is not shown has its words without what is between them. */
async function people(page) {
	await byTestId(page, 'people-panel').waitFor();
	return byTestId(page, 'people-list').locator('li').allInnerTexts();
}

/** Gives this browser's person a name, by keyboard alone. */
async function callMe(page, name) {
	await byTestId(page, 'people').focus();
	await page.keyboard.press('Enter');
	await byTestId(page, 'my-name').focus();
	await page.keyboard.press('Control+a');
	await page.keyboard.type(name);
	await page.keyboard.press('Enter');
	await byTestId(page, 'people-panel').waitFor({ state: 'hidden' });
}

async function openTwo(t, server, prompt, options) {
	const first = await openPage(t, server.url);
	await say(first, prompt);
	const second = await openPage(t, sessionUrl(server.url, await sessionOf(first)), options);
	await waitForStatus(second, 'live');
	await Promise.all([first, second].map((page) => waitForCount(page, 2)));
	return { first, second };
}

test('two see each other; a name stands where the number of a client stood, also after a reload', async (t) => {
	const server = await startServer(t, { rate: 1000 });
	const { first, second } = await openTwo(t, server, 'list permission');
	await callMe(second, '  Ann\u202e  of  Green Gables ');
	await first.waitForFunction(() => /Ann of Green Gables/.test(document.querySelector('#people').title));
	await allowOnce(second);
	await waitForTurns(first);
	const words = first.locator('[data-resolved="selected"]');
	assert.match(await words.innerText(), /answered by Ann of Green Gables$/);
	await byTestId(first, 'people').click();
	assert.deepEqual((await people(first)).map((text) => text.replace(/\s+/g, ' ')).sort(), ['Ann of Green Gables Admin', 'You Admin']);
	await assertNoFault(first, 'who is here');
	await first.keyboard.press('Escape');
	await callMe(second, 'Anna');
	await first.waitForFunction(() => /Anna/.test(document.querySelector('#people').title));
	await second.reload();
	await waitForCount(second, 2);
	await second.waitForFunction(() => /Anna \(you\)/.test(document.querySelector('#people').title));
	await second.context().close();
	await waitForCount(first, 1);
	await first.reload();
	await waitForTurns(first);
	assert.match(await first.locator('[data-resolved="selected"]').innerText(), /answered by Ann of Green Gables$/, 'as they were called then');
});

/** Who wrote the prompts, as a page shows it: '' for those without a word. */
const authors = (page) => page.$$eval('#transcript .prompt', (all) => all.map((one) => one.querySelector('[data-testid="author"] bdi')?.textContent ?? ''));

test('prompts of others say who wrote them, in the transcript and in the queue; one\'s own do not', async (t) => {
	const server = await startServer(t, { rate: 1000 });
	const { first, second } = await openTwo(t, server, 'list');
	await waitForTurns(second);
	await callMe(second, 'Ann <b>');
	await say(second, 'permission');
	const { holdfast, ...rest } = claims('controller', ['*'], { sub: 'guest' });
	const bob = await openPage(t, loginLink(sessionUrl(server.url, await sessionOf(first)), makeToken({ ...rest, holdfast }, secretOf(server))), { login: false, ...PHONE, colorScheme: 'dark' });
	await waitForStatus(bob, 'live');
	await byTestId(bob, 'permission-option').first().waitFor();
	await say(bob, 'table');
	await byTestId(first, 'queued').getByText('guest').waitFor();
	await allowOnce(second);
	for (const page of [first, second, bob]) {
		await waitForTurns(page, 3);
	}
	assert.deepEqual(await authors(first), ['', 'Ann <b>', 'guest']);
	assert.deepEqual(await authors(second), ['', '', 'guest']);
	assert.match((await authors(bob))[0], /^client [0-9a-f]{8}$/, 'somebody else');
	assert.deepEqual((await authors(bob)).slice(1), ['Ann <b>', '']);
	assert.match(await bob.locator('[data-resolved="selected"]').innerText(), /answered by Ann <b>$/);
	assert.equal(await first.locator('.prompt').nth(1).locator('.prompt-text').innerText(), 'permission');
	await assertNoFault(first, 'prompts of others');
	await assertNoFault(bob, 'prompts of others, on a phone');
	if (process.env.HOLDFAST_SHOTS) {
		await first.screenshot({ path: `${process.env.HOLDFAST_SHOTS}/authors.png` });
		await bob.screenshot({ path: `${process.env.HOLDFAST_SHOTS}/authors-phone.png` });
	}
	await second.reload();
	await waitForTurns(second, 3);
	assert.deepEqual(await authors(second), ['', '', 'guest']);
});

test('what a token says comes with the name; a token that hides is told no names', async (t) => {
	const server = await startServer(t, { rate: 1000 });
	const first = await openPage(t, server.url);
	await say(first, 'list');
	const url = sessionUrl(server.url, await sessionOf(first));
	const { holdfast, ...rest } = claims('observer', ['*'], { sub: 'guest' });
	const open = async (hide) => {
		const page = await openPage(t, loginLink(url, makeToken({ ...rest, holdfast: { ...holdfast, ...(hide && { hide }) } }, secretOf(server))), { login: false });
		await waitForStatus(page, 'live');
		return page;
	};
	const guest = await open();
	await waitForCount(first, 2);
	await callMe(guest, 'Bob');
	await first.waitForFunction(() => /Bob \(guest\)/.test(document.querySelector('#people').title));
	const hiding = await open(['tools']);
	await waitForCount(hiding, 3);
	await byTestId(hiding, 'people').click();
	assert.deepEqual(await people(hiding), ['Your token does not show who.']);
});

test('nobody looks: nothing is asked for', async (t) => {
	const server = await startServer(t, { rate: 1000 });
	const { first, second } = await openTwo(t, server, 'list');
	const hide = (isHidden) => first.evaluate((value) => {
		Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
		document.dispatchEvent(new Event('visibilitychange'));
	}, isHidden);
	await hide(true);
	await first.locator('#people').waitFor({ state: 'hidden' });
	await second.context().close();
	await hide(false);
	await waitForCount(first, 1);
});

test('on a phone and in the dark', async (t) => {
	const server = await startServer(t, { rate: 1000 });
	const { first, second } = await openTwo(t, server, 'list', { ...PHONE, colorScheme: 'dark' });
	await callMe(first, 'Ann');
	await byTestId(second, 'people').click();
	await byTestId(second, 'people-list').getByText('Ann').waitFor();
	await assertNoFault(second, 'who is here, on a phone');
	assert.equal(await second.evaluate(() => document.documentElement.scrollWidth), 390, 'nothing is wider than the screen');
	if (process.env.SHOTS) {
		await second.screenshot({ path: `${process.env.SHOTS}/people-phone.png` });
		await byTestId(first, 'people').click();
		await first.screenshot({ path: `${process.env.SHOTS}/people-desk.png` });
	}
	await second.keyboard.press('Escape');
	await first.context().close();
	await byTestId(second, 'people').waitFor({ state: 'hidden' });
});
