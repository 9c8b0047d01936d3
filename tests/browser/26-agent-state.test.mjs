// What the agent offers, on the page: its slash commands above the prompt, its mode and options below.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { post } from '../support/producer.mjs';
import { agentState, byTestId, openPage, say, sessionUrl, startServer, waitForStatus } from './page.mjs';

const AGENT = `exec ${process.execPath} ${fileURLToPath(new URL('../support/settings_agent.mjs', import.meta.url))}`;

/** A page of a session whose agent has said what it offers, long before the events that are loaded. */
async function openSession(t, options) {
	const server = await startServer(t, { rate: 4000 });
	const { id } = await server.createSession();
	const page = (count) => Array.from({ length: count }, (_, i) => ({ type: 'x-note', data: { i } }));
	await post(server, id, [...agentState(), ...page(200)]);
	return { server, id, page: await openPage(t, sessionUrl(server.url, id), options) };
}

const offered = (page) => page.locator('#commands [role="option"]').allTextContents();
const active = (page) =>
	page.evaluate(() => {
		const box = document.querySelector('#prompt');
		return document.getElementById(box.getAttribute('aria-activedescendant'))?.querySelector('.command-name').textContent ?? null;
	});

test('commands are offered while the prompt begins with a slash, and chosen by keyboard', async (t) => {
	const { page, server, id } = await openSession(t);
	await byTestId(page, 'agent-settings').waitFor();
	const box = byTestId(page, 'prompt');
	await box.focus();
	await page.keyboard.type('/');
	await byTestId(page, 'commands').waitFor();
	assert.equal((await offered(page)).length, 3);
	assert.equal(await active(page), '/plan');
	await page.keyboard.press('ArrowUp');
	assert.equal(await active(page), '/preview');
	await page.keyboard.type('re');
	assert.deepEqual(
		(await offered(page)).map((text) => text.split(' ')[0].slice(0, 8)),
		['/reviewR', '/preview'],
		'those that begin so are first',
	);
	await page.keyboard.press('Escape');
	assert.equal(await byTestId(page, 'commands').isHidden(), true);
	await page.keyboard.type('v');
	assert.equal(await byTestId(page, 'commands').isHidden(), true, 'it stays closed for this text');
	await box.fill('');
	await page.keyboard.type('/re');
	assert.equal(await active(page), '/review');
	await page.keyboard.press('Enter');
	assert.equal(await box.inputValue(), '/review ');
	assert.equal(await byTestId(page, 'commands').isHidden(), true);
	await page.keyboard.type('all');
	await page.keyboard.press('Enter');
	assert.equal(await box.inputValue(), '');
	await page.waitForSelector('[data-type="user_prompt"]');
	assert.match(await page.locator('[data-type="user_prompt"]').textContent(), /\/review all/);
	// The Enter that accepts a word of an input method is that method's own; Safari marks it by its key code alone.
	await box.fill('日本');
	for (const mark of [{ keyCode: 229 }, { isComposing: true }]) {
		const isLeft = await box.evaluate((element, init) => element.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true, ...init })), mark);
		assert.deepEqual([isLeft, await box.inputValue()], [true, '日本'], JSON.stringify(mark));
	}
	await box.fill('');
	// A command that is there as a whole is sent.
	await page.keyboard.type('/plan');
	await page.keyboard.press('Enter');
	await page.waitForFunction(() => document.querySelectorAll('[data-type="user_prompt"]').length === 2);
	const { body } = await server.request('GET', `/api/sessions/${id}/events`);
	assert.ok(body.events.some(({ data }) => data.message === '/plan'));
});

test('a command is chosen by a click, and the prompt keeps the focus', async (t) => {
	const { page } = await openSession(t);
	await byTestId(page, 'agent-settings').waitFor();
	await byTestId(page, 'prompt').focus();
	await page.keyboard.type('/pl');
	await page.locator('#commands [role="option"]').first().click();
	assert.equal(await byTestId(page, 'prompt').inputValue(), '/plan ');
	assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
	await page.keyboard.press('Control+A');
	await page.keyboard.type('/');
	await page.locator('#title').click();
	assert.equal(await byTestId(page, 'commands').isHidden(), true);
	await byTestId(page, 'prompt').fill('no / command');
	assert.equal(await byTestId(page, 'commands').isHidden(), true);
});

test('the mode and the options are shown, and follow what the agent says', async (t) => {
	const { page, server, id } = await openSession(t);
	const mode = page.locator('.setting[aria-label="Mode"]');
	const model = page.locator('.setting[aria-label="Model"]');
	const fast = page.locator('label.setting input');
	await mode.waitFor();
	assert.equal(await mode.inputValue(), 'ask');
	assert.deepEqual(await mode.locator('option').allTextContents(), ['Always ask', 'Accept edits']);
	assert.deepEqual(await model.locator('option').allTextContents(), ['Small', 'Large']);
	assert.equal(await model.inputValue(), 'large');
	assert.equal(await fast.isChecked(), true);
	await post(server, id, [{ type: 'x-acp-current_mode_update', data: { current_mode_id: 'code' } }]);
	await page.waitForFunction(() => document.querySelector('[aria-label="Mode"]').value === 'code');
	await post(server, id, [{ type: 'agent_started', data: {} }]);
	await byTestId(page, 'agent-settings').waitFor({ state: 'hidden' });
	// An agent whose options have the mode among them means that one.
	const modes = { id: 'm', name: 'Approval', type: 'select', category: 'mode', current_value: 'x', options: [{ group: 'g', name: 'G', options: [{ value: 'x', name: 'X' }] }] };
	await post(server, id, [agentState()[0], { type: 'x-acp-config_option_update', data: { config_options: [modes, { id: 'odd', name: 'Odd', type: 'slider' }] } }]);
	await page.locator('.setting[aria-label="Approval"]').waitFor();
	await page.waitForFunction(() => document.querySelectorAll('.setting').length === 1); // the agent's modes came first
	// A value alone does not say what it is of, unless it is a mode or a model.
	const effort = { ...modes, id: 'e', name: 'Effort', category: 'thought_level' };
	await post(server, id, [{ type: 'x-acp-config_option_update', data: { config_options: [modes, effort] } }]);
	await page.locator('.setting[aria-label="Effort"]').waitFor();
	assert.deepEqual(await page.locator('.setting-with-name').evaluateAll((names) => names.map((e) => e.firstChild.data)), ['Effort:']);
});

test('an agent that has models gets a picker for them, unless it has an option for its model', async (t) => {
	const server = await startServer(t, { agent: AGENT, args: ['--agent-env', 'MODELS=1'] });
	const { id } = await server.createSession();
	const page = await openPage(t, sessionUrl(server.url, id));
	const other = await openPage(t, sessionUrl(server.url, id));
	await say(page, 'Hello');
	const model = page.locator('.setting[aria-label="Model"]');
	await model.waitFor();
	assert.deepEqual(await model.locator('option').allTextContents(), ['Small', 'Large']);
	assert.equal(await model.inputValue(), 'small');
	await model.selectOption('large');
	await other.waitForFunction(() => document.querySelector('[aria-label="Model"]')?.value === 'large');
	assert.equal(await model.getAttribute('title'), 'Model: Slow');
	const option = { id: 'm', name: 'Model', type: 'select', category: 'model', current_value: 'x', options: [{ value: 'x', name: 'X' }] };
	await post(server, id, [{ type: 'x-acp-config_option_update', data: { config_options: [option] } }]);
	await page.waitForFunction(() => document.querySelector('[aria-label="Model"]')?.value === 'x');
	assert.equal(await model.count(), 1);
});

test('a mode that is chosen is the agent’s, on every page; one that it refuses is not', async (t) => {
	const server = await startServer(t, { agent: AGENT });
	const { id } = await server.createSession();
	const page = await openPage(t, sessionUrl(server.url, id));
	const other = await openPage(t, sessionUrl(server.url, id));
	await say(page, 'one');
	const mode = page.locator('.setting[aria-label="Mode"]');
	await mode.waitFor();
	await page.waitForFunction(() => document.querySelector('#title').textContent === 'About one'); // the agent's
	await mode.selectOption('code');
	await other.waitForFunction(() => document.querySelector('[aria-label="Mode"]')?.value === 'code');
	await page.locator('.setting[aria-label="Model"]').selectOption('large');
	await other.waitForFunction(() => document.querySelector('[aria-label="Model"]')?.value === 'large');
	// What the page offers and the agent does not know.
	await mode.evaluate((select) => select.append(new Option('Never', 'never')));
	await mode.selectOption('never');
	await page.waitForFunction(() => /no mode "never"/.test(document.querySelector('#toasts').textContent));
	assert.equal(await mode.inputValue(), 'code');
	await byTestId(page, 'drop').click();
	await waitForStatus(page, 'retrying');
	assert.equal(await mode.isDisabled(), true);
});
