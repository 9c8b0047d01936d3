// The list of sessions where it is closed, and titles and texts that run from right to left.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { post } from '../support/producer.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, openPage, say, sessionUrl, startServer, waitForStatus } from './page.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const QUESTION = { type: 'permission_request', data: { request_id: 'q', tool_call: { tool_call_id: 'c', title: 'Write' }, options: [{ option_id: 'a', name: 'Allow', kind: 'allow_once' }] } };
const HEBREW = 'בדיקת main.c';
const opener = (page) => page.locator('[data-action="open-sidebar"]');

test('on a phone, the button of the list says that other sessions wait for an answer, and not that this one does', async (t) => {
	const server = await startServer(t);
	const [here, there, far] = await Promise.all(['Here', 'There', 'Far'].map((title) => server.createSession({ title })));
	const page = await openPage(t, sessionUrl(server.url, here.id), { ...PHONE, colorScheme: 'dark' });
	await waitForStatus(page, 'live');
	const badge = byTestId(page, 'others-wait');
	await post(server, here.id, QUESTION);
	await page.waitForFunction(() => document.title.startsWith('(1) Waiting for you'));
	assert.equal(await badge.isVisible(), false, 'the question is on the page');
	assert.equal(await opener(page).getAttribute('aria-label'), 'Show the list of sessions');
	await post(server, there.id, QUESTION);
	await badge.filter({ hasText: /^1$/ }).waitFor();
	assert.equal(await opener(page).getAttribute('aria-label'), 'Show the list of sessions: another session waits for you');
	await post(server, far.id, QUESTION);
	await badge.filter({ hasText: /^2$/ }).waitFor();
	assert.equal(await opener(page).getAttribute('aria-label'), 'Show the list of sessions: 2 other sessions wait for you');
	await assertNoFault(page, 'other sessions wait');

	await opener(page).tap();
	await page.locator(`[data-session-id="${there.id}"] a`).tap();
	await page.locator('[data-option-id="a"]').tap();
	await page.waitForFunction(() => document.title.startsWith('(2) ') && !document.title.includes('Waiting'));
	await badge.filter({ hasText: /^2$/ }).waitFor();
	await opener(page).tap();
	await page.locator(`[data-session-id="${here.id}"] a`).tap();
	await badge.filter({ hasText: /^1$/ }).waitFor();
});

test('a title that runs from right to left is written so, and begins where the others do: in the list, as heading, on the wall and in the search', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession({ title: HEBREW });
	await server.createSession({ title: 'Left to right' });
	const page = await openPage(t, sessionUrl(server.url, id));
	await page.waitForFunction(() => document.querySelectorAll('.session-title').length === 2);
	const wall = await openPage(t, `${server.url}/observe.html`);
	await wall.waitForFunction(() => document.querySelectorAll('.tile-title').length === 2);
	await page.keyboard.press('Control+k');
	await byTestId(page, 'found').first().waitFor();

	/** Of each such title, its direction, and how far its words are from the edge where a line of the page begins. */
	const look = (from, selector) => from.$$eval(selector, (all) => all.map((one) => {
		const range = document.createRange();
		range.selectNodeContents(one);
		const [words, box] = [range.getBoundingClientRect(), one.getBoundingClientRect()];
		const isRtl = getComputedStyle(document.body).direction === 'rtl';
		return { text: one.textContent, direction: getComputedStyle(one).direction, gap: Math.round(isRtl ? box.right - words.right : words.left - box.left) };
	}));
	for (const dir of ['ltr', 'rtl']) {
		for (const from of [page, wall]) {
			await from.evaluate((way) => (document.documentElement.dir = way), dir);
		}
		const found = [
			...(await look(page, '#title, .session-title')), ...(await look(page, '.found-text')), ...(await look(wall, '.tile h2')),
		].filter(({ text }) => [HEBREW, 'Left to right'].includes(text));
		assert.ok(found.length >= 7, JSON.stringify(found));
		for (const { text, direction, gap } of found) {
			assert.equal(direction, text === HEBREW ? 'rtl' : 'ltr', JSON.stringify(found));
			assert.ok(Math.abs(gap) <= 2, JSON.stringify(found));
		}
		await assertNoFault(page, `titles in a page that runs ${dir}`);
	}
});

test('prompts, queued ones, questions and what is typed run the way that they are written', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession({ title: 'Directions' });
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForStatus(page, 'live');
	await say(page, `hang ${HEBREW}`);
	await page.locator('.prompt-text').waitFor();
	await say(page, HEBREW);
	await byTestId(page, 'queued').waitFor();
	await post(server, id, { ...QUESTION, data: { ...QUESTION.data, tool_call: { tool_call_id: 'c', title: HEBREW } } });
	await page.locator('.permission-what').waitFor();
	const directionOf = (selector) => page.$eval(selector, (one) => getComputedStyle(one).direction);
	assert.equal(await directionOf('.queue-text'), 'rtl');
	assert.equal(await directionOf('.permission-what > span'), 'rtl');
	assert.equal(await directionOf('.prompt-text'), 'ltr', 'its first word is a Latin one');
	await byTestId(page, 'cancel').click();
	await page.locator('.prompt-text').nth(1).waitFor();
	assert.equal(await page.locator('.prompt-text').nth(1).evaluate((one) => getComputedStyle(one).direction), 'rtl', 'and not that of the words for screen readers');
	await byTestId(page, 'prompt').fill(HEBREW);
	assert.equal(await directionOf('#prompt'), 'rtl');
	await page.keyboard.press('Control+k');
	await byTestId(page, 'find-box').fill(HEBREW);
	assert.equal(await directionOf('.find-box'), 'rtl');
	await assertNoFault(page, 'texts in two directions');
});
