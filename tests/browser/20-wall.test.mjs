// The wall: all sessions at once, live, and only as much of them as can be seen.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { input, post } from '../support/producer.mjs';
import { byTestId, openPage, say, sessionOf, startServer, waitForTurns } from './page.mjs';

const tile = (page, id) => page.locator(`[data-testid="tile"][data-session-id="${id}"]`);

const waitForText = (page, id, text) => tile(page, id).getByText(text).first().waitFor();

/** Sessions with a text each, and the wall. */
async function openWall(t, titles, options) {
	const server = await startServer(t, { rate: 2000 });
	const ids = [];
	for (const title of titles) {
		const { id } = await server.createSession({ title });
		await post(server, id, [input.text(`This is ${title}.`), input.end()]);
		ids.push(id);
	}
	const sockets = new Set();
	const closed = new Map();
	// A tile that goes while its socket is still on its way up closes it, which Chromium remarks on.
	const mayReport = (text) => /WebSocket is closed before the connection is established/.test(text);
	const page = await openPage(t, 'about:blank', { mayReport, ...options });
	page.on('websocket', (socket) => {
		const id = socket.url().match(/\/sessions\/([^/]+)\//)?.[1];
		if (id) {
			sockets.add(id);
			closed.set(id, new Promise((done) => socket.on('close', done)));
			socket.on('close', () => sockets.delete(id));
		}
	});
	await page.goto(`${server.url}/observe.html`);
	return { server, ids, page, sockets, closed };
}

test('each session has a tile, live, and one that is made or deleted comes or goes', async (t) => {
	const { server, ids, page } = await openWall(t, ['Ahab', 'Bligh']);
	await waitForText(page, ids[0], 'This is Ahab.');
	await waitForText(page, ids[1], 'This is Bligh.');
	assert.equal(await byTestId(page, 'count').textContent(), '2 sessions, 0 running');
	await tile(page, ids[0])
		.locator('.tile-scroller')
		.evaluate((e) => (window.kept = e));

	await post(server, ids[0], input.text('- still\n- open'));
	await tile(page, ids[0]).locator('[data-open-seq]').waitFor();
	await page.waitForSelector(`[data-session-id="${ids[0]}"][data-status="running"]`);
	await post(server, ids[0], input.end());

	const { id } = await server.createSession({ title: 'Cook' });
	await tile(page, id).waitFor();
	await tile(page, id).locator('xpath=self::*[contains(@class,"empty")]').waitFor();
	const order = await page.$$eval('[data-testid="tile"] h2', (all) => all.map((e) => e.textContent));
	assert.deepEqual(order, ['Cook', 'Bligh', 'Ahab'], 'the newest first, whatever happens in the others');
	await server.request('DELETE', `/api/sessions/${ids[1]}`);
	await tile(page, ids[1]).waitFor({ state: 'detached' });
	assert.ok(await page.evaluate(() => window.kept.isConnected), 'a tile is kept as it is');
});

test('only what can be seen is connected', async (t) => {
	const titles = Array.from({ length: 24 }, (_, i) => `Session ${i}`);
	const { ids, page, sockets, closed } = await openWall(t, titles);
	await waitForText(page, ids.at(-1), 'This is Session 23.');
	await page.waitForFunction(() => document.querySelectorAll('[data-link="live"]').length >= 6);
	assert.ok(sockets.size < 20 && sockets.size >= 6, `${sockets.size} sockets`);
	assert.ok(!sockets.has(ids[0]));
	await tile(page, ids[0]).scrollIntoViewIfNeeded();
	await waitForText(page, ids[0], 'This is Session 0.');
	await page.waitForFunction(
		(id) => document.querySelector(`[data-session-id="${id}"]`).dataset.link === 'closed',
		ids.at(-1),
	);
	await closed.get(ids.at(-1));
	assert.equal(await tile(page, ids.at(-1)).locator('.item').count(), 0);
});

test('found by name, and by what they are doing', async (t) => {
	const { server, ids, page } = await openWall(t, ['Ahab', 'Bligh', 'Cook']);
	await tile(page, ids[2]).waitFor();
	const shown = () => page.$$eval('[data-testid="tile"]', (all) => all.map((e) => e.dataset.sessionId));
	await byTestId(page, 'filter-words').fill('LIG');
	assert.deepEqual(await shown(), [ids[1]]);
	await byTestId(page, 'filter-words').fill('nobody');
	assert.equal(await page.locator('#nothing').innerText(), 'No matching sessions.');
	await byTestId(page, 'filter-words').fill('');
	await page.getByLabel('Busy').check();
	await page.waitForFunction(() => document.querySelectorAll('[data-testid="tile"]').length === 0);
	await post(server, ids[0], input.text('- at it'));
	await tile(page, ids[0]).waitFor();
	assert.deepEqual(await shown(), [ids[0]]);
});

test('a question is answered on the wall, and everybody sees it', async (t) => {
	const server = await startServer(t, { rate: 2000 });
	const page = await openPage(t, server.url);
	await say(page, 'permission');
	const id = await sessionOf(page);
	const wall = await openPage(t, `${server.url}/observe.html`);
	await wall.waitForSelector(`[data-session-id="${id}"][data-status="waiting"]`);
	// The tile knows it from its session, the line above from the feed.
	await byTestId(wall, 'count').filter({ hasText: /^One session, 0 running, 1 waiting for an answer$/ }).waitFor();
	await wall.waitForFunction(() => document.title === '1 waiting · Holdfast');
	await wall.locator('[data-kind="allow_once"]').click();
	await waitForTurns(page);
	assert.equal(
		await wall.locator('[data-resolved="selected"]').innerText(),
		'Write holdfast-demo.txt: Allow once, answered by you',
	);
	const { by } = readLog(server, id).find((e) => e.type === 'permission_resolved').data;
	assert.match(
		await page.locator('[data-resolved="selected"]').innerText(),
		new RegExp(`answered by client ${by.slice(0, 8)}$`),
	);
	await wall.getByRole('link', { name: 'permission' }).click();
	await waitForTurns(wall);
	assert.equal(await sessionOf(wall), id);
});

test('a tile follows the end, leaves the reader alone who has scrolled up, and loads what is older', async (t) => {
	const { server, ids, page } = await openWall(t, ['Ahab']);
	const paragraphs = (from, count) =>
		Array.from({ length: count }, (_, i) => input.text(`Paragraph ${from + i}.\n\n`, `m${from + i}`));
	await post(server, ids[0], [...paragraphs(1, 300), input.end()]);
	await waitForText(page, ids[0], 'Paragraph 300.');
	await page.reload();
	await waitForText(page, ids[0], 'Paragraph 300.');
	const first = () => page.$eval('.tile .transcript > *', (e) => Number(e.dataset.no));
	assert.ok((await first()) > 200);
	await page.waitForFunction(() => {
		const scroller = document.querySelector('.tile-scroller');
		scroller.scrollTop = 0;
		return document.querySelector('.tile [data-seq="1"]') !== null;
	});
	await tile(page, ids[0]).locator('.jump').click();
	await page.waitForFunction(() => document.querySelector('.tile [data-seq="303"]'));
});

test('the wall at 360 px: nothing sticks out', async (t) => {
	const long = 'a_name_that_has_no_end_'.repeat(12);
	const { server, ids, page } = await openWall(t, [long, 'Bligh'], {
		viewport: { width: 360, height: 740 },
		isMobile: true,
		hasTouch: true,
	});
	await post(server, ids[1], [
		input.text(`${long}\n\n\`\`\`\n${long}${long}\n\`\`\`\n\n| ${long} | b |\n|---|---|\n| a | b |\n\n`),
		input.end(),
	]);
	await waitForText(page, ids[1], 'This is Bligh.');
	await page.waitForSelector('.tile .table');
	const wide = await page.evaluate(() => [
		document.documentElement.scrollWidth,
		...[...document.querySelectorAll('.wall, .tile-scroller')].map((e) => e.scrollWidth - e.clientWidth),
	]);
	assert.deepEqual(wide, [360, 0, 0, 0]);
});
