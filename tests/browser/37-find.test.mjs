// Finding: the search dialog, links to an event, the keys to the start and the end of a session, the time and the link of an event.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { post } from '../support/producer.mjs';
import { WallClock } from '../support/wall_clock.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, openPage, sessionUrl, startServer } from './page.mjs';

const DAY_MS = 24 * 60 * 60 * 1000;
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const found = (page, text) => byTestId(page, 'found').filter({ hasText: text });
const waitForItem = (page, seq) => page.waitForFunction((no) => {
	const rect = document.querySelector(`.found-item[data-no="${no}"]`)?.getBoundingClientRect();
	return rect && rect.top >= 0 && rect.bottom <= innerHeight;
}, seq);

/** Two sessions; the first has 600 prompts of a producer, and a few words far from its end. */
async function start(t) {
	const server = await startServer(t);
	await server.createSession({ id: 'long', title: 'The long one' });
	await server.createSession({ id: 'other', title: 'Another' });
	const line = (n) => ({ type: 'tool_call', data: { tool_call_id: `c${n}`, title: n === 40 ? 'Grüße an die Nadel <b>' : `Step ${n}`, kind: 'read', status: 'completed' } });
	for (let n = 1; n <= 600; n += 100) {
		await post(server, 'long', Array.from({ length: 100 }, (_, i) => line(n + i)));
	}
	await post(server, 'other', [{ type: 'tool_call', data: { tool_call_id: 'x', title: 'Die NADEL im anderen', kind: 'read', status: 'completed' } }]);
	return server;
}

async function openAt(t, server, id, options) {
	const page = await openPage(t, sessionUrl(server.url, id), { reducedMotion: 'reduce', ...options });
	await page.waitForFunction(() => document.querySelector('#connection')?.dataset.status === 'live' && document.querySelector('.item'));
	return page;
}

async function search(page, words) {
	await page.keyboard.press('Control+k');
	await byTestId(page, 'find-box').fill(words);
}

test('a call that sends all of its output with each line is found once; two prompts with the same words are two', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession({ title: 'Output' });
	const update = (text) => ({ type: 'tool_call_update', data: { tool_call_id: 'c', content: [{ type: 'content', content: { type: 'text', text } }] } });
	const lines = Array.from({ length: 30 }, (_, i) => `wanted line ${i} with words enough to fill what a search shows of a text`).join('\n');
	await post(server, id, [{ type: 'tool_call', data: { tool_call_id: 'c', title: 'Run', kind: 'execute', status: 'in_progress' } }, ...[1, 2, 3, 4].map((n) => update(`${lines}\nend ${n}`))]);
	await post(server, id, [{ type: 'agent_message_chunk', data: { text: 'wanted twice\n\n' } }, { type: 'turn_end', data: { stop_reason: 'end_turn' } }, { type: 'agent_message_chunk', data: { text: 'wanted twice\n\n' } }, { type: 'turn_end', data: { stop_reason: 'end_turn' } }]);
	const page = await openAt(t, server, id);
	await search(page, 'wanted');
	await found(page, 'wanted line 0').waitFor();
	assert.equal(await found(page, 'wanted line 0').count(), 1);
	assert.equal(await found(page, 'wanted twice').count(), 2);
});

test('what is far back is found, in this session and in others, and the page goes there', async (t) => {
	const server = await start(t);
	const page = await openAt(t, server, 'long');
	assert.equal(await page.locator('[data-no="40"]').count(), 0, 'it is not loaded');
	await search(page, 'nadel');
	await found(page, 'Die NADEL im anderen').waitFor();
	assert.deepEqual(await byTestId(page, 'found').locator('mark').allTextContents(), ['Nadel', 'NADEL'], 'this session first');
	assert.equal(await found(page, 'Grüße').locator('.found-text').textContent(), 'Grüße an die Nadel <b>');
	await assertNoFault(page, 'the search');
	await page.keyboard.press('Enter');
	await waitForItem(page, 40);
	assert.equal(await page.evaluate(() => location.hash), '#/s/long?seq=40');
	await page.keyboard.press('End');
	await page.waitForFunction(() => document.querySelector('[data-no="600"]')?.getBoundingClientRect().bottom <= innerHeight);
	await search(page, 'nadel');
	await found(page, 'Die NADEL im anderen').click();
	await waitForItem(page, 1);
	assert.equal(await page.locator('#title').textContent(), 'Another');
});

test('a link leads to its event; an event under the pointer says its time and copies its link', async (t) => {
	const server = await start(t);
	const page = await openAt(t, server, 'other');
	await page.goto(`${server.url}/#/s/long?seq=40`);
	await waitForItem(page, 40);
	await page.evaluate(() => {
		navigator.clipboard.writeText = async (text) => void (window.copied = text);
	});
	await page.locator('[data-no="41"]').hover();
	const tag = byTestId(page, 'event-tag');
	assert.match(await tag.textContent(), /\d.* · #41$/);
	await tag.click();
	await page.waitForFunction(() => window.copied);
	assert.equal(await page.evaluate(() => window.copied), `${server.url}/#/s/long?seq=41`);
	await page.goto(`${server.url}/#/s/long?seq=9999999`);
	await waitForItem(page, 600);
});

test('one key leads to the start of a session; sessions and commands are chosen by keyboard alone', async (t) => {
	const server = await start(t);
	const page = await openAt(t, server, 'long');
	await page.keyboard.press('Home');
	await waitForItem(page, 1);
	await search(page, 'anoth');
	await page.keyboard.press('Enter');
	await page.waitForFunction(() => document.querySelector('#title').textContent === 'Another');
	await search(page, 'keyboard short');
	await page.keyboard.press('ArrowDown');
	await page.keyboard.press('ArrowUp');
	await page.keyboard.press('Enter');
	await byTestId(page, 'shortcuts').waitFor();
	await page.keyboard.press('Control+k');
	assert.equal(await byTestId(page, 'find').isVisible(), false, 'one dialog at a time');
	await page.keyboard.press('Escape');
	await search(page, 'nothing like it at all');
	await page.getByText('Nothing found.').waitFor();
	assert.equal(await byTestId(page, 'find-box').getAttribute('aria-activedescendant'), null, 'it names no result that is gone');
	await page.keyboard.press('Escape');
	await byTestId(page, 'find').waitFor({ state: 'hidden' });
});

test('on a phone and in the dark', async (t) => {
	const server = await start(t);
	const page = await openAt(t, server, 'long', { ...PHONE, colorScheme: 'dark' });
	await page.locator('[data-action="open-sidebar"]').click();
	await byTestId(page, 'open-find').click();
	await byTestId(page, 'find-box').fill('nadel');
	await found(page, 'Die NADEL im anderen').waitFor();
	await assertNoFault(page, 'the search on a phone');
	const width = await page.evaluate(() => document.documentElement.scrollWidth);
	assert.equal(width, 390, 'nothing is wider than the screen');
	await found(page, 'Grüße').click();
	await waitForItem(page, 40);
});

test('where a day begins, it is told', async (t) => {
	const clock = new WallClock(t);
	clock.set(-2 * DAY_MS);
	const server = await startServer(t, { env: clock.env });
	await server.createSession({ id: 'days', title: 'Days' });
	const say = (n) => post(server, 'days', [{ type: 'tool_call', data: { tool_call_id: `c${n}`, title: `Step ${n}`, kind: 'read', status: 'completed' } }]);
	for (const [n, days] of [[1, -2], [2, -2], [3, 0], [4, 0]]) {
		clock.set(days * DAY_MS);
		await say(n);
	}
	const page = await openAt(t, server, 'days', { locale: 'en-GB' });
	const nameOf = (days) => page.evaluate((ms) => new Date(Date.now() + ms).toLocaleDateString([], { weekday: 'long', day: 'numeric', month: 'long' }), days * DAY_MS);
	const marks = await page.locator('.item[data-day]').evaluateAll((all) => all.map((one) => `${one.dataset.no} ${getComputedStyle(one, '::after').content}`));
	assert.deepEqual(marks.map((mark) => mark.replace(/ \d{4}"$/, '"')), [`1 "${await nameOf(-2)}"`, `3 "${await nameOf(0)}"`]);
	await assertNoFault(page, 'days');
});
