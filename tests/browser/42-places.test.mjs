// Where the reader is in each session; the sidebar by directory, and with 500 sessions; a deletion over a reload and a closed page.

import assert from 'node:assert/strict';
import { mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { demoAgent, scratchDir } from '../support/server.mjs';
import { defer, eventually } from '../support/wait.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, openPage, say, sessionUrl, startServer, waitForEnd, waitForSeq, waitForTurns, walkOn } from './page.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const row = (page, id) => page.locator(`[data-testid="session"][data-session-id="${id}"]`);

/** The item at the top of the view, and where it begins. */
const place = (page) =>
	page.evaluate(async () => {
		const frame = () => new Promise((done) => requestAnimationFrame(done));
		await frame();
		await frame();
		const edge = document.querySelector('#scroller').getBoundingClientRect().top;
		const first = [...document.querySelectorAll('#transcript > *')].find((e) => e.clientHeight > 0 && e.getBoundingClientRect().bottom > edge);
		return first ? { no: Number(first.dataset.no), top: Math.round(first.getBoundingClientRect().top - edge) } : { no: null, top: 0 }; // none yet
	});

/** Waits until the reader is at this place, give or take a pixel. */
const waitForPlace = (page, wanted) =>
	eventually(async () => {
		const { no, top } = await place(page);
		return no === wanted.no && Math.abs(top - wanted.top) <= 1;
	}, `the reader to be at item ${wanted.no} again`);

async function open(page, id) {
	if (await page.locator('[data-action="open-sidebar"]').isVisible()) {
		await page.locator('[data-action="open-sidebar"]').click();
	}
	await eventually(async () => {
		await row(page, id).locator('a').click(); // the list may have another order at that moment
		return (await page.evaluate(() => location.hash)) === `#/s/${id}`;
	}, `session ${id} to be shown`);
}

/** Two sessions with much to read. */
async function startLong(t, count = 700) {
	const server = await startServer(t);
	const last = {};
	for (const id of ['one', 'two']) {
		await server.createSession({ id, title: `Session ${id}` });
		const texts = Array.from({ length: count }, (_, n) => input.text(`${n}. ${'Much to read here. '.repeat((n % 9) + 1)}\n\n`, `m${n}`));
		({ max_seq: last[id] } = await post(server, id, [...texts, input.end()]));
	}
	return { server, last };
}

for (const [name, options] of [['a desktop', {}], ['a phone', PHONE]]) {
	test(`on ${name}, who comes back to a session is where he was, and at the end if he was there`, async (t) => {
		const { server, last } = await startLong(t);
		const page = await openPage(t, sessionUrl(server.url, 'one'), options);
		await waitForSeq(page, last.one);
		await waitForEnd(page);
		await walkOn(page, () => null); // to the beginning, which is not loaded when the session is opened
		await page.evaluate(() => (document.querySelector('#scroller').scrollTop += 3_333));
		const before = await place(page);
		assert.ok(before.no < 300, `item ${before.no} is far from the end`);
		await open(page, 'two');
		await waitForSeq(page, last.two);
		await waitForEnd(page);

		// What comes meanwhile moves nobody.
		const { max_seq: newest } = await post(server, 'one', [input.text('And one more.'), input.end()]);
		await open(page, 'one');
		await waitForPlace(page, before);
		await byTestId(page, 'jump').waitFor();
		await page.reload();
		await waitForPlace(page, before);

		await byTestId(page, 'jump').click();
		await waitForSeq(page, newest);
		await waitForEnd(page);
		await open(page, 'two');
		await waitForSeq(page, last.two);
		await post(server, 'one', [input.text('The very last. '.repeat(200)), input.end()]);
		await open(page, 'one');
		await waitForSeq(page, newest + 1);
		await waitForEnd(page);
	});
}

test('a prompt, a link to an event and another history come before the place where the reader was', async (t) => {
	const { server, last } = await startLong(t, 300);
	const page = await openPage(t, sessionUrl(server.url, 'one'));
	await waitForSeq(page, last.one);
	await waitForEnd(page);
	const up = async () => {
		await page.evaluate(() => (document.querySelector('#scroller').scrollTop = 600));
		return place(page);
	};
	await up();
	await open(page, 'two');
	await waitForSeq(page, last.two);
	await page.evaluate(() => (location.hash = '#/s/one?seq=120'));
	await page.locator('.found-item[data-no="120"]').waitFor();
	await open(page, 'two');
	await waitForSeq(page, last.two);
	await open(page, 'one');
	await page.waitForFunction(() => document.querySelector(`#transcript > [data-no="120"]`));

	await up();
	await say(page, 'list');
	await waitForTurns(page, 1);
	await waitForEnd(page);

	await up();
	await open(page, 'two');
	await waitForSeq(page, last.two);
	await server.request('DELETE', '/api/sessions/one');
	await server.createSession({ id: 'one', title: 'Session one' });
	const texts = Array.from({ length: 300 }, (_, n) => input.text(`Another ${n}. ${'Much to read. '.repeat(9)}\n\n`, `m${n}`));
	const { max_seq: newest } = await post(server, 'one', [...texts, input.end()]);
	await open(page, 'one');
	await waitForSeq(page, newest);
	await waitForEnd(page);
});

/** Sessions in four directories, two of them called the same. */
async function startDirectories(t) {
	const dir = realpathSync(scratchDir(t));
	const paths = ['shop/api', 'blog/api', 'shop/web', 'x'.repeat(80)].map((name) => join(dir, name));
	paths.forEach((path) => mkdirSync(path, { recursive: true }));
	const file = join(dir, 'agents.json');
	writeFileSync(file, JSON.stringify({ agents: [{ name: 'demo', title: 'Demo', command: demoAgent('--rate 600'), roots: [dir] }] }));
	const server = await startServer(t, { agent: null, cwd: dir, args: ['--agents', file] });
	for (const [i, cwd] of [0, 1, 2, 0, 3].entries()) {
		await server.createSession({ id: `s${i}`, title: `Session ${i}`, cwd: paths[cwd] });
		await new Promise((resolve) => setTimeout(resolve, 2)); // another time, so that the order is certain
	}
	await server.request('PATCH', '/api/sessions/s2', { json: { pinned: true } });
	await server.request('PATCH', '/api/sessions/s4', { json: { title: 'The long one' } });
	return server;
}

const waitForGroups = (page, wanted) =>
	page.waitForFunction(
		(text) => JSON.stringify([...document.querySelectorAll('#sessions > li')].map((e) => e.dataset.sessionId ?? `# ${e.textContent}`)) === text,
		JSON.stringify(wanted),
	);

test('the list is grouped by directory, as this browser wants it', async (t) => {
	const server = await startDirectories(t);
	const page = await openPage(t, server.url);
	const long = 'x'.repeat(80);
	await waitForGroups(page, ['# Pinned', 's2', '# Today', 's4', 's3', 's1', 's0']);
	await byTestId(page, 'session-order').focus();
	await page.keyboard.press('Enter');
	const grouped = ['# Pinned', 's2', `# ${long}`, 's4', '# shop/api', 's3', 's0', '# blog/api', 's1'];
	await waitForGroups(page, grouped);
	assert.equal(await byTestId(page, 'session-order').getAttribute('aria-pressed'), 'true');
	await assertNoFault(page, 'the list by directory');
	await page.reload();
	await waitForGroups(page, grouped);
	const wide = await page.evaluate(() => [...document.querySelectorAll('#sessions > li, #sessions h2')].filter((e) => e.scrollWidth > e.clientWidth + 1).length);
	assert.equal(wide, 0, 'a long name is cut');
	await server.request('PATCH', '/api/sessions/s3', { json: { archived: true } });
	await waitForGroups(page, ['# Pinned', 's2', `# ${long}`, 's4', '# blog/api', 's1', '# shop/api', 's0', '# Archive (1)']);
	await byTestId(page, 'session-order').click();
	await waitForGroups(page, ['# Pinned', 's2', '# Today', 's4', 's1', 's0', '# Archive (1)']);

	const plain = await startServer(t);
	await plain.createSession({ id: 'only', title: 'The only one' });
	const other = await openPage(t, plain.url);
	await row(other, 'only').waitFor();
	assert.equal(await byTestId(other, 'session-order').isVisible(), false, 'one directory is no choice');
});

test('500 sessions are one stop of the Tab key, and the arrows go through them', async (t) => {
	const server = await startServer(t);
	await Promise.all(Array.from({ length: 500 }, (_, i) => server.createSession({ id: `s${i}`, title: `Session number ${i}` })));
	defer(t, () => server.kill9()); // a stop syncs the files of each session, one after the other
	const page = await openPage(t, server.url);
	await page.waitForFunction(() => document.querySelectorAll('[data-testid="session"]').length === 500);
	const stops = await page.evaluate(() => [...document.querySelectorAll('#sessions a, #sessions button')].filter((e) => e.tabIndex >= 0).map((e) => e.closest('li').dataset.sessionId));
	assert.equal(new Set(stops).size, 1, String(stops));
	const at = () => page.evaluate(() => [...document.querySelectorAll('#sessions a')].indexOf(document.activeElement));
	await byTestId(page, 'session-filter').focus();
	await page.keyboard.press('Tab');
	assert.equal(await at(), 0);
	await page.keyboard.press('End');
	assert.equal(await at(), 499);
	const visible = await page.evaluate(() => {
		const { top, bottom } = document.activeElement.getBoundingClientRect();
		return top >= 0 && bottom <= innerHeight;
	});
	assert.ok(visible, 'it is scrolled to');
	await page.keyboard.press('ArrowUp');
	assert.equal(await at(), 498);
	await page.keyboard.press('Enter');
	await page.waitForFunction(() => location.hash.startsWith('#/s/s'));
	await row(page, (await page.evaluate(() => location.hash)).slice('#/s/'.length)).locator('a').focus();
	await page.keyboard.press('Tab');
	await page.keyboard.press('Tab');
	assert.equal(await at(), -1, 'behind the list after the row and its menu');
	await page.keyboard.press('Shift+Tab');
	await page.keyboard.press('Shift+Tab');
	assert.equal(await at(), 498, 'and back where it was');
	await assertNoFault(page, '500 sessions');
});

/** Begins a deletion by the session's menu. */
async function remove(page, id) {
	await row(page, id).locator('[data-testid="session-menu"]').focus();
	await page.keyboard.press('Enter');
	await byTestId(page, 'delete-session').click();
	await row(page, id).waitFor({ state: 'detached' });
}

const sessionAt = async (server, id) => (await server.request('GET', `/api/sessions/${id}`)).body;

test('a deletion and its undo outlive a reload; of one that a closed page has left, the next page tells', async (t) => {
	const server = await startServer(t);
	for (const id of ['a', 'b', 'c', 'd']) {
		await server.createSession({ id, title: `Session ${id}` });
	}
	const page = await openPage(t, server.url);
	await row(page, 'a').waitFor();
	await remove(page, 'a');
	await eventually(async () => (await sessionAt(server, 'a')).archived, 'it to be archived');
	await page.reload();
	await byTestId(page, 'undo-delete').getByText('Session a was deleted.').waitFor();
	assert.equal(await row(page, 'a').count(), 0);
	await byTestId(page, 'undo-delete').locator('button').click();
	await row(page, 'a').waitFor();
	await eventually(async () => !(await sessionAt(server, 'a')).archived, 'it to be as before');

	await remove(page, 'b');
	await page.reload();
	await byTestId(page, 'undo-delete').waitFor();
	await byTestId(page, 'undo-delete').waitFor({ state: 'detached' });
	await eventually(async () => (await server.request('GET', '/api/sessions/b')).status === 404, 'it to be deleted');

	// Two that are left by a closed page: the clock of the browser says that their time is over.
	const closing = await page.context().newPage();
	await closing.goto(server.url);
	await row(closing, 'c').waitFor();
	await remove(closing, 'c');
	await remove(closing, 'd');
	await eventually(async () => (await sessionAt(server, 'd')).archived && (await sessionAt(server, 'c')).archived, 'both to be archived');
	await closing.close();
	const next = await page.context().newPage();
	await next.clock.install({ time: Date.now() + 60_000 });
	await next.goto(server.url);
	const left = (id) => byTestId(next, 'left-delete').filter({ hasText: `Session ${id}` });
	await left('c').getByText('is in the archive: the page was closed before it was deleted.').waitFor();
	await left('d').getByRole('button', { name: 'Keep' }).click();
	await left('c').getByRole('button', { name: 'Delete' }).click();
	await byTestId(next, 'undo-delete').waitFor();
	await next.clock.runFor(11_000);
	await eventually(async () => (await server.request('GET', '/api/sessions/c')).status === 404, 'it to be deleted');
	assert.equal((await sessionAt(server, 'd')).archived, true);
	await next.reload();
	await next.waitForFunction(() => document.querySelectorAll('[data-testid="session"]').length > 0);
	assert.equal(await byTestId(next, 'left-delete').count(), 0, 'it is said once');
});
