// Prompts that wait for their turn, as the page shows them: to all, in order, and to be changed by anyone.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import {
	assertShowsLog,
	byTestId,
	openPage,
	say,
	sessionOf,
	sessionUrl,
	startServer,
	waitForStatus,
	waitForTurns,
} from './page.mjs';

/** Waits until these are the prompts that the page shows as waiting. */
function waitForQueue(page, texts) {
	return page.waitForFunction((wanted) => {
		const shown = [...document.querySelectorAll('[data-testid="queued"] .queue-text')].map((e) => e.textContent);
		return JSON.stringify(shown) === JSON.stringify(wanted);
	}, texts);
}

const focused = (page) =>
	page.evaluate(() => {
		const { dataset, id, ariaLabel } = document.activeElement;
		return ariaLabel ?? dataset.testid ?? id;
	});

/** A page whose session's turn runs until it is stopped, with these prompts behind it. */
async function start(t, texts, options) {
	const server = await startServer(t, { rate: 2000 });
	const page = await openPage(t, server.url, options);
	await say(page, 'hang');
	const id = await sessionOf(page);
	await page.locator('[data-type="user_prompt"]').waitFor();
	for (const [i, text] of texts.entries()) {
		await say(page, text);
		await byTestId(page, 'queued').nth(i).waitFor();
	}
	return { server, page, id };
}

const prompts = (server, id) => readLog(server, id).filter((e) => e.type === 'user_prompt').map((e) => e.data.message);

test('what waits is seen by all, in order, and changed by anyone, live', async (t) => {
	const { server, page, id } = await start(t, ['list', 'table', 'plan']);
	const other = await openPage(t, sessionUrl(server.url, id));
	for (const watcher of [page, other]) {
		await waitForQueue(watcher, ['list', 'table', 'plan']);
		assert.equal(await byTestId(watcher, 'queue-head').innerText(), '3 prompts waiting, the next one first');
		assert.equal(await watcher.locator('#tail [data-prompt-id]').count(), 0, 'each is shown once');
	}
	await byTestId(other, 'edit-queued').nth(1).click();
	assert.equal(await byTestId(other, 'queued-text').inputValue(), 'table');
	await byTestId(other, 'queued-text').fill('thought');
	await byTestId(other, 'save-queued').click();
	await byTestId(page, 'remove-queued').first().click();
	for (const watcher of [page, other]) {
		await waitForQueue(watcher, ['thought', 'plan']);
		assert.match(await byTestId(watcher, 'queued').first().innerText(), /edited/);
		assert.equal(await byTestId(watcher, 'queue-head').innerText(), '2 prompts waiting, the next one first');
	}
	await page.reload();
	await waitForQueue(page, ['thought', 'plan']);
	await byTestId(page, 'cancel').click();
	for (const watcher of [page, other]) {
		await waitForTurns(watcher, 3);
		await watcher.locator('#queue').waitFor({ state: 'hidden' });
		await assertShowsLog(watcher, server, id);
	}
	assert.deepEqual(prompts(server, id), ['hang', 'thought', 'plan']);
});

test('by keyboard alone, and with the focus where it is expected', async (t) => {
	const { server, page, id } = await start(t, ['list', 'table', 'plan']);
	await page.keyboard.press('Shift+Tab');
	assert.equal(await focused(page), 'Remove: plan');
	await page.keyboard.press('Enter');
	await waitForQueue(page, ['list', 'table']);
	assert.equal(await focused(page), 'Remove: table');
	await page.keyboard.press('Shift+Tab');
	await page.keyboard.press('Enter');
	await byTestId(page, 'queued-text').waitFor();
	assert.equal(await focused(page), 'New text of the prompt');
	await page.keyboard.type(' and a plan');
	await page.keyboard.press('Escape');
	await waitForQueue(page, ['list', 'table']);
	assert.equal(await focused(page), 'Edit: table');
	await page.keyboard.press('Enter');
	await byTestId(page, 'queued-text').waitFor();
	await page.keyboard.type(' plan');
	await page.keyboard.press('Shift+Enter');
	await page.keyboard.type('thought');
	await page.keyboard.press('Enter');
	await waitForQueue(page, ['list', 'table plan\nthought']);
	assert.equal(await byTestId(page, 'queued-text').count(), 0);
	await page.locator('[aria-label="Remove: list"]').press('Enter');
	await page.locator('[aria-label^="Remove: table"]').press('Enter');
	await page.locator('#queue').waitFor({ state: 'hidden' });
	assert.equal(await focused(page), 'prompt', 'the focus does not fall out of the page');
	await byTestId(page, 'cancel').click();
	await waitForTurns(page);
	assert.deepEqual(prompts(server, id), ['hang']);
});

test('what was written for a prompt that has begun meanwhile is not lost', async (t) => {
	const { server, page, id } = await start(t, ['list', 'hang']);
	await byTestId(page, 'edit-queued').first().click();
	await byTestId(page, 'queued-text').fill('list, and then some more');
	const other = await Observer.connect(t, server, id);
	await other.send('cancel');
	await waitForQueue(page, []);
	await page.locator('.toast').waitFor();
	assert.match(await page.locator('.toast').innerText(), /is no longer in the queue/);
	assert.equal(await byTestId(page, 'prompt').inputValue(), 'list, and then some more');
	await byTestId(page, 'cancel').click();
	await waitForTurns(page, 3);
});

test('a change that comes too late says so', async (t) => {
	const { page } = await start(t, ['hang']);
	// The page hears of it late: what the server says of the turn's end is held back.
	await page.evaluate(() => {
		window.heldBack = [];
		const { prototype } = WebSocket;
		const send = prototype.send;
		prototype.send = function (text) {
			return /edit_prompt/.test(text) ? window.heldBack.push(() => send.call(this, text)) : send.call(this, text);
		};
	});
	await byTestId(page, 'edit-queued').click();
	await byTestId(page, 'queued-text').fill('too late');
	await byTestId(page, 'save-queued').click();
	await byTestId(page, 'cancel').click();
	await page.locator('#queue').waitFor({ state: 'hidden' });
	await page.evaluate(() => window.heldBack.forEach((go) => go()));
	await page.locator('.toast', { hasText: 'its turn has begun' }).waitFor();
	await byTestId(page, 'cancel').click();
	await waitForTurns(page, 2);
});

test('a long prompt is shown on one line, and edited whole', async (t) => {
	const long = `list ${'words and words '.repeat(60)}end`;
	const { page } = await start(t, [long]);
	assert.ok((await byTestId(page, 'queued').boundingBox()).height < 50);
	assert.match(await page.locator('.queue-text').textContent(), /…$/);
	await byTestId(page, 'edit-queued').click();
	assert.equal(await byTestId(page, 'queued-text').inputValue(), long);
	await byTestId(page, 'remove-queued').waitFor({ state: 'detached' });
	await page.keyboard.press('Escape');
	await byTestId(page, 'remove-queued').waitFor();
	await byTestId(page, 'cancel').click();
	await waitForTurns(page, 2);
});

test('while the connection is lost the queue stays, and a removal is made once it is back', async (t) => {
	const { server, page, id } = await start(t, ['list', 'plan']);
	await byTestId(page, 'drop').click();
	await waitForStatus(page, 'retrying');
	await waitForQueue(page, ['list', 'plan']);
	await byTestId(page, 'remove-queued').first().click();
	await waitForStatus(page, 'live');
	await waitForQueue(page, ['plan']);
	await byTestId(page, 'cancel').click();
	await waitForTurns(page, 2);
	assert.deepEqual(prompts(server, id), ['hang', 'plan']);
});
