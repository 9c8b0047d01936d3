// Two pages on one session, and what a user can do to it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import {
	allowOnce,
	assertSameRendering,
	assertShowsLog,
	byTestId,
	openPage,
	rendered,
	say,
	sessionOf,
	sessionUrl,
	showAll,
	startServer,
	waitForSeq,
	waitForStatus,
	waitForTurns,
} from './page.mjs';
import { Proxy } from './proxy.mjs';

/** Two pages on one session, the first of which has said `prompt`. */
async function openTwo(t, server, prompt) {
	const first = await openPage(t, server.url);
	await say(first, prompt);
	const id = await sessionOf(first);
	const second = await openPage(t, sessionUrl(server.url, id));
	await waitForStatus(second, 'live');
	return { first, second, id };
}

test('two pages show the same; one answers the question, and both say who', async (t) => {
	const server = await startServer(t, { rate: 1000 });
	const { first, second, id } = await openTwo(t, server, 'list permission');
	const options = (page) => page.locator('[data-testid="permission-option"]');
	await Promise.all([first, second].map((page) => options(page).first().waitFor()));
	assert.deepEqual(await options(first).allInnerTexts(), await options(second).allInnerTexts());
	await assertWaiting(second, id);
	await allowOnce(second);
	await Promise.all([first, second].map((page) => waitForTurns(page)));

	const { by } = readLog(server, id).find((e) => e.type === 'permission_resolved').data;
	const words = (page) => page.locator('[data-resolved="selected"]').innerText();
	assert.equal(await words(second), 'Write holdfast-demo.txt: Allow once, answered by you');
	assert.equal(await words(first), `Write holdfast-demo.txt: Allow once, answered by client ${by.slice(0, 8)}`);
	assert.equal((await options(first).count()) + (await options(second).count()), 0);
	await assertShowsLog(first, server, id);
	await assertShowsLog(second, server, id);
	const anonymous = (lines) => lines.map((line) => line.replace(/"(you|client [0-9a-f]{8})"/, '"someone"'));
	assertSameRendering(anonymous(await rendered(first)), anonymous(await rendered(second)));
	await second.reload();
	await waitForTurns(second);
	assert.match(await words(second), /answered by you$/, 'a reload does not make a stranger of the user');
});

/** That the agent waits for an answer is said in the list of sessions and in the title. */
async function assertWaiting(page, id) {
	await page.waitForSelector(`[data-session-id="${id}"][data-status="waiting"]`);
	await page.waitForFunction(() => document.title.startsWith('(1) Waiting for you: '));
	assert.equal(await byTestId(page, 'working').count(), 0);
}

test('an answer that comes too late, since the connection was down, leaves the first one as it is', async (t) => {
	const server = await startServer(t, { rate: 2000 });
	const proxy = await Proxy.start(t, server);
	const first = await openPage(t, server.url);
	await say(first, 'permission');
	const id = await sessionOf(first);
	const second = await openPage(t, sessionUrl(proxy.url, id), {
		mayReport: (text) => /WebSocket connection to|Failed to load resource: net::/.test(text),
	});
	const reject = second.locator('[data-kind="reject_once"]');
	await reject.waitFor();
	proxy.isDown = true;
	proxy.break();
	await waitForStatus(second, 'retrying');
	await reject.click();
	assert.equal(await reject.isDisabled(), true, 'answered, as far as this page goes');
	await allowOnce(first);
	await waitForTurns(first);
	proxy.isDown = false;
	await byTestId(second, 'connection').click();
	await waitForTurns(second);
	// The one who came too late is told so; that may come after the end of the turn.
	await second.locator('#toasts').getByText('The question has already been answered.', { exact: true }).waitFor();
	for (const page of [first, second]) {
		assert.match(await page.locator('[data-resolved="selected"]').innerText(), /: Allow once, answered by/);
		await assertShowsLog(page, server, id);
	}
});

test('two tabs and a phone: one asks, all see it; one answers, all see by whom', async (t) => {
	const server = await startServer(t, { rate: 1000 });
	const { first, second, id } = await openTwo(t, server, 'tour');
	const phone = await openPage(t, sessionUrl(server.url, id), {
		viewport: { width: 360, height: 740 },
		isMobile: true,
		hasTouch: true,
	});
	const all = [first, second, phone];
	await Promise.all(all.map((page) => byTestId(page, 'permission-option').first().waitFor()));
	await phone.locator('[data-kind="allow_once"]').tap();
	for (const page of all) {
		await waitForTurns(page);
		await showAll(page);
		await assertShowsLog(page, server, id);
		assert.match(
			await page.locator('[data-resolved="selected"]').innerText(),
			page === phone ? /Allow once, answered by you$/ : /Allow once, answered by client [0-9a-f]{8}$/,
		);
	}
	const someone = (lines) => lines.map((line) => line.replace(/"(you|client [0-9a-f]{8})"/, '"someone"'));
	assertSameRendering(someone(await rendered(phone)), someone(await rendered(first)));
	await say(phone, 'thought');
	await Promise.all(all.map((page) => waitForTurns(page, 2)));
	await Promise.all(all.map((page) => assertShowsLog(page, server, id)));
});

test('the stop button ends the turn, for all', async (t) => {
	const server = await startServer(t, { rate: 100 });
	const { first, second, id } = await openTwo(t, server, 'long');
	await waitForSeq(second, 3);
	await byTestId(second, 'cancel').click();
	for (const page of [first, second]) {
		await page.waitForSelector('[data-stop-reason="cancelled"]');
		await byTestId(page, 'cancel').waitFor({ state: 'hidden' });
		await assertShowsLog(page, server, id);
	}
	assert.equal(readLog(server, id).at(-1).data.stop_reason, 'cancelled');
});

test('stopping while the agent asks withdraws the question', async (t) => {
	const server = await startServer(t, { rate: 2000 });
	const { first, second, id } = await openTwo(t, server, 'permission');
	await second.locator('[data-testid="permission-option"]').first().waitFor();
	await byTestId(first, 'cancel').click();
	for (const page of [first, second]) {
		await waitForTurns(page);
		assert.match(await page.locator('[data-resolved="cancelled"]').innerText(), /withdrawn/);
		assert.equal(await page.locator('[data-testid="permission-option"]').count(), 0);
		await assertShowsLog(page, server, id);
	}
});

test('a prompt that waits for its turn is seen as such, by all', async (t) => {
	const server = await startServer(t, { rate: 100 });
	const { first, second, id } = await openTwo(t, server, 'long=100000');
	await waitForSeq(first, 3);
	await say(first, 'thought');
	for (const page of [first, second]) {
		await byTestId(page, 'queued').waitFor();
		assert.equal(await page.locator('[data-prompt-id]').count(), 1);
	}
	await byTestId(first, 'cancel').click();
	for (const page of [first, second]) {
		await waitForTurns(page, 2);
		assert.equal(await page.locator('[data-prompt-id]').count(), 0);
		await assertShowsLog(page, server, id);
	}
});

test('a session that is deleted is gone from all pages, and they say so', async (t) => {
	const server = await startServer(t, { rate: 2000 });
	const { first, second, id } = await openTwo(t, server, 'plan');
	await waitForTurns(second);
	const row = (page) => page.locator(`[data-testid="session"][data-session-id="${id}"]`);
	await row(first).hover();
	await row(first).locator('[data-testid="session-menu"]').click();
	await byTestId(first, 'delete-session').click();
	for (const page of [first, second]) {
		await row(page).waitFor({ state: 'detached' });
	}
	await waitForStatus(second, 'gone');
	assert.equal(await byTestId(second, 'prompt').isDisabled(), true);
	await byTestId(first, 'tour').waitFor();

	const late = await openPage(t, sessionUrl(server.url, id));
	await waitForStatus(late, 'gone');
	assert.match(await late.locator('#empty').innerText(), /does not exist/);
});
