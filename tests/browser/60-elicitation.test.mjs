// What agents ask for in forms and with addresses, on the page; an editor beside it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Editor } from '../support/editor.mjs';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, openPage, say, sessionOf, sessionUrl, showAll, startServer, waitForStatus, waitForTurns } from './page.mjs';
import { Proxy } from './proxy.mjs';

const AGENT = `exec ${process.execPath} ${fileURLToPath(new URL('../support/elicitation_agent.mjs', import.meta.url))}`;
const card = (page) => page.locator('.item.card.permission');
const field = (page, name) => card(page).locator(`[data-field="${name}"]`);

test('a form is filled in and sent: fields of each type, what is needed, and the answer goes to the agent', async (t) => {
	const server = await startServer(t, { agent: AGENT });
	const page = await openPage(t, server.url);
	await say(page, 'form');
	await card(page).waitFor();
	await assertNoFault(page, 'a form');
	await byTestId(page, 'elicitation-accept').click();
	assert.equal(await card(page).count(), 1, 'what is needed is missing: nothing is sent');
	await field(page, 'name').locator('input').fill('Ann');
	await field(page, 'age').locator('input').fill('41');
	await field(page, 'loud').locator('input').check();
	await field(page, 'colour').locator('select').selectOption({ label: 'Red' });
	await field(page, 'days').getByLabel('tue').check();
	await byTestId(page, 'elicitation-accept').click();
	await waitForTurns(page);
	const text = await page.locator('.item.message').innerText();
	assert.deepEqual(JSON.parse(text.slice(text.indexOf('{'))), { action: 'accept', content: { name: 'Ann', age: 41, loud: true, colour: 'r', days: ['tue'] } });
	assert.match(await page.locator('.item.line-item.permission').innerText(), /answered by you/);
});

test('an address is shown whole, as a link of its own; an editor that answers first closes the question', async (t) => {
	const server = await startServer(t, { agent: AGENT });
	const page = await openPage(t, server.url);
	await say(page, 'url');
	const link = byTestId(page, 'elicitation-link');
	await link.waitFor();
	await assertNoFault(page, 'an address');
	assert.equal(await link.innerText(), 'https://example.com/sign-in?x=1');
	assert.deepEqual([await link.getAttribute('href'), await link.getAttribute('rel')], ['https://example.com/sign-in?x=1', 'noopener noreferrer']);
	const editors = [await Editor.open(t, server, { attach: [] }), await Editor.open(t, server)];
	const id = await sessionOf(page);
	for (const editor of editors) {
		await editor.load(id);
	}
	const [first, second] = [await editors[0].question(), await editors[1].question()];
	first.isAnswered = true;
	first.answer({ action: 'decline' });
	await waitForTurns(page);
	assert.match(await page.locator('.item.line-item.permission').innerText(), /declined by/);
	await editors[1].until(() => second.isTakenBack);
	await say(page, 'form');
	const third = await editors[0].question();
	await byTestId(page, 'elicitation-decline').click();
	await editors[0].until(() => third.isTakenBack, 'the page closes the dialog of the editor');
	const both = 'answer {"action":"decline"}\n\n'.repeat(2);
	for (const editor of editors) {
		await editor.until(() => editor.said(id) === both, 'what the agent has said of both answers');
	}
	editors.forEach((editor) => editor.assertGood());
});

/** What stands in the form, where the caret is, and whether the field is the very one that was marked. */
const written = (page) => page.evaluate(() => {
	const form = document.querySelector('.item.card.permission form');
	const values = [...form.querySelectorAll('input, select')].map(({ type, checked, value }) => (type === 'checkbox' ? checked : value));
	const here = document.activeElement;
	return { values, field: here.closest('[data-field]')?.dataset.field, caret: here.selectionStart, isSame: here.isMarked === true };
});

const FILLED = ['Ann', '41', '', true, '=r', '', false, true, false];

async function fill(page) {
	await field(page, 'age').locator('input').fill('41');
	await field(page, 'loud').locator('input').check();
	await field(page, 'colour').locator('select').selectOption({ label: 'Red' });
	await field(page, 'days').getByLabel('tue').check();
	const name = field(page, 'name').locator('input');
	await name.fill('An');
	await name.press('ArrowLeft');
	await name.press('ArrowRight');
	await name.press('n');
	await name.press('ArrowLeft');
	await name.evaluate((input) => (input.isMarked = true));
}

test('what is typed, the focus and the caret stay when the card is drawn again, and what is typed when it has left the page and comes back', async (t) => {
	const server = await startServer(t, { agent: AGENT });
	await server.createSession({ id: 's' });
	for (let i = 0; i < 6; i++) {
		await post(server, 's', Array.from({ length: 80 }, (_, k) => [input.text(`${i} ${k}\n\n`), input.end()]).flat());
	}
	const ann = await Observer.connect(t, server, 's', { query: { client_id: 'ann-1' } });
	const page = await openPage(t, sessionUrl(server.url, 's'));
	ann.send('prompt', { message: 'form', prompt_id: 'p-1' });
	await field(page, 'name').waitFor();
	await fill(page);
	const filled = { values: FILLED, field: 'name', caret: 2, isSame: true };
	assert.deepEqual(await written(page), filled);
	ann.send('presence', { name: 'Ann of the tests' });
	await page.locator('.item.prompt[data-author="Ann of the tests"]').last().waitFor(); // with it all questions are drawn again
	assert.deepEqual(await written(page), filled);
	await showAll(page);
	assert.equal(await card(page).count(), 0, 'it is too far away to be on the page');
	await page.locator('#jump').click();
	await field(page, 'name').waitFor();
	assert.deepEqual((await written(page)).values, FILLED);
});

test('an answer on its way says so, is sent once over lost connections, and a refused one can be sent again', async (t) => {
	const server = await startServer(t, { agent: AGENT });
	const proxy = await Proxy.start(t, server);
	const page = await openPage(t, proxy.url, { mayReport: (text) => /WebSocket connection to .* failed|Failed to load resource: net::/.test(text) });
	const going = byTestId(page, 'elicitation-going');
	const controls = card(page).locator('input, select, button');
	const enabled = () => controls.evaluateAll((all) => all.filter(({ disabled }) => !disabled).length);
	await say(page, 'form');
	await field(page, 'name').waitFor();
	assert.equal(await going.innerText(), '');
	await fill(page);
	await field(page, 'days').getByLabel('mon').check();
	await field(page, 'days').getByLabel('wed').check();
	await byTestId(page, 'elicitation-accept').click();
	await page.locator('.toast').waitFor();
	await page.waitForFunction(() => document.querySelector('[data-testid="elicitation-going"]').textContent === '');
	assert.equal(await enabled(), await controls.count(), 'three days are too many: it is asked again, with all that was typed');
	await field(page, 'days').getByLabel('mon').uncheck();
	await field(page, 'days').getByLabel('wed').uncheck();
	assert.deepEqual((await written(page)).values, FILLED);

	proxy.cut();
	await byTestId(page, 'elicitation-accept').click();
	await page.waitForFunction(() => document.querySelector('[data-testid="elicitation-going"]').textContent === 'Your answer is on its way.');
	assert.equal(await enabled(), 0, 'it cannot be sent twice');
	assert.equal(await byTestId(page, 'elicitation-accept').getAttribute('aria-busy'), 'true');
	await assertNoFault(page, 'an answer on its way');
	proxy.isDown = true;
	proxy.break();
	await waitForStatus(page, 'retrying');
	assert.equal(await enabled(), 0, 'nor while there is no connection');
	assert.deepEqual((await written(page)).values, FILLED);
	proxy.isDown = false;
	await byTestId(page, 'connection').click();
	await waitForTurns(page);
	const text = await page.locator('.item.message').innerText();
	assert.deepEqual(JSON.parse(text.slice(text.indexOf('{'))).content, { name: 'Ann', age: 41, loud: true, colour: 'r', days: ['tue'] });
	assert.match(await page.locator('.item.line-item.permission').innerText(), /answered by you/);
	const { body: { events } } = await server.request('GET', `/api/sessions/${await sessionOf(page)}/events?after_seq=0&limit=100`);
	assert.equal(events.filter(({ type }) => type === 'elicitation_resolved').length, 1);
});

test('a form whose code cannot be loaded says so, and is there with the next try', async (t) => {
	const server = await startServer(t, { agent: AGENT });
	const page = await openPage(t, server.url, { mayReport: (text) => /Failed to load resource|extras/.test(text) });
	await page.route(/extras/, (route) => route.abort(), { times: 1 });
	await say(page, 'form');
	await card(page).getByText('This part of the page could not be loaded.').waitFor();
	await card(page).getByRole('button', { name: 'Try again' }).click();
	await field(page, 'name').waitFor();
});
