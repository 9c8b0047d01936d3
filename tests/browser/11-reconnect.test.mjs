// The connection breaks while text comes in. What was shown stays as it is, the very same elements, and
// what follows is what was missing: nothing twice, nothing left out, nothing in another order.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import {
	allowOnce,
	assertNothingLost,
	assertSameAfterReload,
	assertShowsLog,
	byTestId,
	openPage,
	say,
	sessionOf,
	sessionUrl,
	startServer,
	waitForSeq,
	waitForStatus,
	waitForTurns,
	watchForLoss,
} from './page.mjs';
import { Proxy } from './proxy.mjs';

const mayReport = (text) => /WebSocket connection to .* failed|Failed to load resource: net::/.test(text);

/** Does not wait for the pause before a new attempt, as a user in a hurry. */
function hurry(page) {
	return page.evaluate(() => {
		const pill = document.querySelector('[data-testid="connection"]');
		new MutationObserver(
			() => ['retrying', 'offline'].includes(pill.dataset.status) && requestAnimationFrame(() => pill.click()),
		).observe(pill, { attributeFilter: ['data-status'] });
	});
}

/** Waits until a block grows that has this number or a later one. */
function waitForOpen(page, seq) {
	return page.waitForFunction(
		(wanted) => [...document.querySelectorAll('[data-open-seq]')].some((e) => Number(e.dataset.openSeq) >= wanted),
		seq,
	);
}

test('"drop the connection", again and again in the middle of a turn', async (t) => {
	const server = await startServer(t, { rate: 250 });
	const page = await openPage(t, server.url);
	await byTestId(page, 'tour').click();
	const id = await sessionOf(page);
	await watchForLoss(page);
	for (const seq of [6, 9, 16, 21]) {
		await waitForOpen(page, seq);
		await byTestId(page, 'drop').click();
		await page.waitForFunction(() => {
			const lost = document.querySelector('[data-testid="lost"]');
			return (
				document.querySelector('[data-status="retrying"]') && /continues after event \d+/.test(lost?.textContent)
			);
		});
		if (seq !== 9) {
			// once it comes back all by itself
			await byTestId(page, 'connection').click();
		}
		await waitForStatus(page, 'live');
		assert.equal(await byTestId(page, 'lost').count(), 0);
	}
	await allowOnce(page);
	await waitForTurns(page);
	await assertShowsLog(page, server, id);
	await assertNothingLost(page);
	await assertSameAfterReload(page);
});

test('the network breaks behind any byte, in the middle of frames', async (t) => {
	const server = await startServer(t, { rate: 1200 });
	const proxy = await Proxy.start(t, server);
	const page = await openPage(t, proxy.url, { mayReport });
	// Of bytes as they are sent, which are compressed. The first page is to come while the session has few events.
	const places = [2500, 40, 300, 900, 1500, 700, 1100, 400, 600, 500, 900];
	proxy.breakAfter(...places);
	await byTestId(page, 'tour').click();
	const id = await sessionOf(page);
	await watchForLoss(page);
	await hurry(page);
	await allowOnce(page);
	await waitForTurns(page);
	assert.equal(proxy.broken, places.length, 'it broke in all places');
	await waitForStatus(page, 'live');
	await assertShowsLog(page, server, id);
	await assertNothingLost(page);
});

test('kill -9 of the server and a new start, in the middle of a turn', async (t) => {
	const server = await startServer(t, { rate: 300 });
	const proxy = await Proxy.start(t, server);
	const page = await openPage(t, proxy.url, { mayReport });
	await byTestId(page, 'tour').click();
	const id = await sessionOf(page);
	await watchForLoss(page, '[data-seq]'); // what was only a preview may be gone with the server
	await hurry(page);
	await waitForOpen(page, 9);
	await server.kill9();
	await page.waitForSelector('[data-testid="connection"]:not([data-status="live"])');
	await server.restart();
	await waitForStatus(page, 'live');
	await say(page, 'list');
	await page.waitForFunction(() => document.querySelectorAll('[data-type="user_prompt"]').length === 2);
	const second = readLog(server, id).findLast((e) => e.type === 'user_prompt');
	assert.equal(second.data.message, 'list');
	await page.waitForFunction(
		(seq) => [...document.querySelectorAll('[data-type="turn_end"]')].some((e) => Number(e.dataset.seq) > seq),
		second.seq,
	);
	await assertShowsLog(page, server, id);
	await assertNothingLost(page);
	await assertSameAfterReload(page);
});

test('a prompt that is typed while the connection is down is sent once it is back, and once only', async (t) => {
	const server = await startServer(t, { rate: 2000 });
	const proxy = await Proxy.start(t, server);
	const page = await openPage(t, proxy.url, { mayReport });
	await say(page, 'thought');
	const id = await sessionOf(page);
	await waitForTurns(page);
	proxy.isDown = true;
	proxy.break();
	await waitForStatus(page, 'retrying');
	await say(page, 'plan');
	await page.waitForSelector('[data-prompt-id][data-state="sending"]');
	proxy.isDown = false;
	await byTestId(page, 'connection').click();
	await waitForTurns(page, 2);
	await waitForStatus(page, 'live');
	assert.deepEqual(
		readLog(server, id)
			.filter((e) => e.type === 'user_prompt')
			.map((e) => e.data.message),
		['thought', 'plan'],
	);
	assert.equal(await page.locator('[data-prompt-id]').count(), 0);
	await assertShowsLog(page, server, id);
});

test('another history under the same id: the page drops what it had before it shows the new one', async (t) => {
	const server = await startServer(t, { rate: 2000 });
	const proxy = await Proxy.start(t, server);
	const page = await openPage(t, proxy.url, { mayReport });
	await say(page, 'list');
	const id = await sessionOf(page);
	await waitForTurns(page);
	proxy.isDown = true;
	proxy.break();
	await waitForStatus(page, 'retrying');
	await server.request('DELETE', `/api/sessions/${id}`);
	await server.createSession({ id, title: 'Another one' });
	await server.request('POST', `/api/sessions/${id}/events`, {
		json: [
			{ type: 'agent_message_chunk', data: { text: 'Another story.' } },
			{ type: 'turn_end', data: { stop_reason: 'end_turn' } },
		],
	});
	proxy.isDown = false;
	await byTestId(page, 'connection').click();
	await waitForStatus(page, 'live');
	await assertShowsLog(page, server, id);
	assert.equal((await byTestId(page, 'transcript').innerText()).replace('Copy answer', '').trim(), 'Another story.');
	assert.match(await page.locator('#toasts').innerText(), /another history/);
});

test('a page that was opened in the middle of a turn shows what one shows that was there from the start', async (t) => {
	const server = await startServer(t, { rate: 600 });
	const page = await openPage(t, server.url);
	await say(page, 'list table code');
	const id = await sessionOf(page);
	await waitForSeq(page, 5);
	const late = await openPage(t, sessionUrl(server.url, id));
	await watchForLoss(late);
	await Promise.all([page, late].map((each) => waitForTurns(each)));
	await assertShowsLog(page, server, id);
	await assertShowsLog(late, server, id);
	await assertNothingLost(late);
});
