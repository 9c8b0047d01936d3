// What agents ask for in forms and with addresses, on the page; an editor beside it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Editor } from '../support/editor.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, openPage, say, sessionOf, startServer, waitForTurns } from './page.mjs';

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
	assert.equal(editors[0].said(id), editors[1].said(id));
	editors.forEach((editor) => editor.assertGood());
});
