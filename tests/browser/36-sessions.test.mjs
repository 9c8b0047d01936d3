// Sessions as things: renamed, pinned, archived, filtered and grouped in the sidebar, deleted with undo, each with a draft.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../support/wait.mjs';
import { byTestId, openPage, sessionUrl, startServer } from './page.mjs';
import { assertNoFault } from './axe.mjs';

const row = (page, id) => page.locator(`[data-testid="session"][data-session-id="${id}"]`);
const sessionAt = async (server, id) => (await server.request('GET', `/api/sessions/${id}`)).body;

/** Takes an entry of the session's menu. */
async function choose(page, id, action) {
	await row(page, id).locator('[data-testid="session-menu"]').focus();
	await page.keyboard.press('Enter');
	await byTestId(page, `${action}-session`).click();
}

/** The headings of the list, each with the ids below it. */
const groups = (page) =>
	page.$$eval('#sessions > li', (all) => all.map((e) => e.dataset.sessionId ?? `# ${e.textContent}`));

const waitForGroups = (page, wanted) =>
	page.waitForFunction(
		(text) =>
			JSON.stringify([...document.querySelectorAll('#sessions > li')].map((e) => e.dataset.sessionId ?? `# ${e.textContent}`)) === text,
		JSON.stringify(wanted),
	);

async function start(t, count = 3) {
	const server = await startServer(t);
	for (let i = 0; i < count; i++) {
		await server.createSession({ id: `s${i}`, title: `Session ${i}` });
		await new Promise((resolve) => setTimeout(resolve, 2)); // another time, so that the order is certain
	}
	const page = await openPage(t, server.url);
	await row(page, 's0').waitFor();
	return { server, page };
}

test('a session is renamed, pinned and archived, on all pages and for good', async (t) => {
	const { server, page } = await start(t);
	const other = await openPage(t, sessionUrl(server.url, 's2'));
	await choose(page, 's0', 'rename');
	await byTestId(page, 'rename-box').fill('<b>Mine</b> \u202e');
	await page.keyboard.press('Enter');
	await choose(page, 's1', 'pin');
	await choose(page, 's2', 'archive');
	for (const one of [page, other]) {
		const kept = one === other ? ['s2'] : []; // the one that it shows
		await waitForGroups(one, ['# Pinned', 's1', '# Today', 's0', '# Archive (1)', ...kept]);
		assert.equal(await row(one, 's0').locator('.session-title').textContent(), '<b>Mine</b> \u2039U+202E\u203a');
	}
	await byTestId(page, 'show-archive').click();
	await row(page, 's2').waitFor();
	await choose(page, 's2', 'archive');
	await choose(page, 's1', 'pin');
	await choose(page, 's0', 'rename');
	await byTestId(page, 'rename-box').fill('');
	await byTestId(page, 'confirm-rename').click();
	await waitForGroups(page, ['# Today', 's2', 's1', 's0']);
	await page.waitForFunction(() => document.querySelector('[data-session-id="s0"] .session-title').textContent === 'Session 0');
	await assertNoFault(page, 'the list of sessions');
	assert.equal((await sessionAt(server, 's1')).pinned, false);
});

test('a deletion can be undone; if it is not, the session goes; if the page is closed, it stays in the archive', async (t) => {
	const { server, page } = await start(t);
	await choose(page, 's0', 'delete');
	await row(page, 's0').waitFor({ state: 'detached' });
	await byTestId(page, 'undo-delete').locator('button').click();
	await row(page, 's0').waitFor();
	await waitForGroups(page, ['# Today', 's2', 's1', 's0']);
	await eventually(async () => !(await sessionAt(server, 's0')).archived, 'the server to have it back');

	const closing = await openPage(t, sessionUrl(server.url, 's1'));
	await row(closing, 's1').waitFor();
	await choose(closing, 's1', 'delete');
	await waitForGroups(page, ['# Today', 's2', 's0', '# Archive (1)']);
	await closing.waitForFunction(() => location.hash === '#/', null, { polling: 50 });
	await closing.close();

	await choose(page, 's2', 'delete');
	await byTestId(page, 'undo-delete').waitFor();
	await byTestId(page, 'undo-delete').waitFor({ state: 'detached' });
	await waitForGroups(page, ['# Today', 's0', '# Archive (1)']);
	const left = async () => (await server.request('GET', '/api/sessions')).body.sessions.map(({ id, archived }) => [id, archived]).sort();
	await eventually(async () => (await left()).every(([id]) => id !== 's2'), 'the server to have deleted it'); // the page asks for it when the time is up
	assert.deepEqual(await left(), [['s0', false], ['s1', true]]);
});

test('what waits for an answer comes first, and the filter finds by words', async (t) => {
	const { server, page } = await start(t, 8);
	await server.request('PATCH', '/api/sessions/s3', { json: { title: 'Größe des Imports' } });
	await server.request('PATCH', '/api/sessions/s4', { json: { title: 'An import', archived: true } });
	await server.request('POST', '/api/sessions/s5/events', {
		json: [{ type: 'permission_request', data: { request_id: 'q', tool_call: { tool_call_id: 'c', title: 'Write' }, options: [{ option_id: 'a', name: 'Allow' }] } }],
	});
	await page.waitForFunction(() => document.querySelector('#sessions > li')?.textContent === 'Waiting for you');
	assert.deepEqual((await groups(page)).slice(0, 2), ['# Waiting for you', 's5']);
	await byTestId(page, 'session-filter').fill('IMPORT');
	await waitForGroups(page, ['# Today', 's3', '# Archive (1)', 's4']);
	await byTestId(page, 'session-filter').fill('imports grosse');
	await waitForGroups(page, []);
	await byTestId(page, 'session-filter').fill('imports groß');
	await waitForGroups(page, ['# Today', 's3']);
	await byTestId(page, 'session-filter').fill('');
	await row(page, 's7').waitFor();
});

test('each session has its draft, over a reload too; what was sent is none', async (t) => {
	const { page } = await start(t);
	const box = byTestId(page, 'prompt');
	const open = async (id) => {
		await row(page, id).locator('a').click();
		await row(page, id).locator('a[aria-current]').waitFor(); // the address changes before the page does
	};
	await box.fill('for a new one');
	await open('s0');
	assert.equal(await box.inputValue(), '');
	await box.fill('for the first');
	await open('s1');
	assert.equal(await box.inputValue(), '');
	await open('s0');
	assert.equal(await box.inputValue(), 'for the first');
	await page.reload();
	await page.waitForFunction(() => document.querySelector('#prompt').value === 'for the first');
	await page.locator('[data-status="live"]').first().waitFor();
	await box.fill('list');
	await box.press('Enter');
	await open('s1');
	await open('s0');
	assert.equal(await box.inputValue(), '');
	await byTestId(page, 'new-session').click();
	await page.waitForFunction(() => document.querySelector('#prompt').value === 'for a new one');
});

test('rows stay under the pointer while others change them; they are sorted when it has left, and one’s own changes are seen at once', async (t) => {
	const { server, page } = await start(t, 4);
	const shown = ['# Today', 's3', 's2', 's1', 's0'];
	await waitForGroups(page, shown);
	await row(page, 's1').locator('a').hover();
	await server.request('PATCH', '/api/sessions/s0', { json: { pinned: true } });
	await server.request('PATCH', '/api/sessions/s1', { json: { title: 'Another name' } });
	await server.request('DELETE', '/api/sessions/s3');
	await server.createSession({ id: 's4', title: 'Session 4' });
	await row(page, 's4').waitFor();
	await row(page, 's3').waitFor({ state: 'hidden' });
	await row(page, 's1').getByText('Another name', { exact: true }).waitFor();
	assert.deepEqual(await groups(page), [...shown, 's4'], 'what is new is behind them, what is gone has left its place');
	await page.locator('#sessions h2').first().hover(); // a link would be dragged
	await page.mouse.down();
	await page.mouse.move(900, 400);
	await server.request('PATCH', '/api/sessions/s2', { json: { title: 'Two' } });
	await row(page, 's2').getByText('Two', { exact: true }).waitFor();
	assert.deepEqual(await groups(page), [...shown, 's4'], 'a press is under way');
	await page.mouse.up();
	await waitForGroups(page, ['# Pinned', 's0', '# Today', 's4', 's2', 's1']);

	await row(page, 's4').hover();
	await row(page, 's4').locator('[data-testid="session-menu"]').click();
	await byTestId(page, 'pin-session').click();
	await waitForGroups(page, ['# Pinned', 's4', 's0', '# Today', 's2', 's1']);

	// Who has come by the keyboard keeps the focus when the row moves.
	await page.mouse.move(900, 400);
	await row(page, 's1').locator('a').focus();
	await server.request('PATCH', '/api/sessions/s1', { json: { pinned: true } });
	await waitForGroups(page, ['# Pinned', 's4', 's1', 's0', '# Today', 's2']);
	assert.equal(await page.evaluate(() => document.activeElement.closest('li')?.dataset.sessionId), 's1');
});
