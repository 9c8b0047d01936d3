// A first hour with an agent, from the page alone: what goes wrong says what to do, and the prompt is sent again when it is done.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { scratchDir } from '../support/server.mjs';
import { claims, makeToken, secretOf } from '../support/tokens.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, loginLink, openPage, say, sessionOf, sessionUrl, startServer, waitForTurns } from './page.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const shot = (page, name) => process.env.HOLDFAST_SHOTS && page.screenshot({ path: `${process.env.HOLDFAST_SHOTS}/${name}.png` });

/** An agent that wants a login until the file is there; with "here" it can be asked for one, which works at the second try. */
const AGENT = `
const { existsSync, writeFileSync } = require('node:fs');
const [, , done, way] = process.argv;
const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
const authMethods = [
	{ id: 'login', name: 'Log in with Example', description: 'Run \`example /login\` in a terminal <b>', type: 'terminal', args: ['login', '--device'] },
	{ id: 'key', name: 'An API key', type: 'env_var', vars: [{ name: 'EXAMPLE_API_KEY' }] },
	...(way ? [{ id: 'here', name: 'Example account <i>', description: 'Opens \`example.org\`' }] : []),
];
const tried = done + '-tried';
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method, params } = JSON.parse(line);
	if (method === 'initialize') {
		say({ id, result: { protocolVersion: 1, agentCapabilities: {}, authMethods } });
	} else if (method === 'session/new') {
		say(existsSync(done) ? { id, result: { sessionId: 's' } } : { id, error: { code: -32000, message: 'Authentication required' } });
	} else if (method === 'authenticate' && !existsSync(tried)) {
		writeFileSync(tried, '');
		setTimeout(() => say({ id, error: { code: -32603, message: 'The account is not known' } }), 300);
	} else if (method === 'authenticate') {
		const wait = setInterval(() => {
			if (existsSync(done)) {
				clearInterval(wait);
				say({ id, result: {} });
			}
		}, 5);
	} else if (method === 'session/prompt') {
		say({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'Now I am in: ' + params.prompt[0].text } } } });
		say({ id, result: { stopReason: 'end_turn' } });
	}
});`;

async function start(t, way = '') {
	const dir = scratchDir(t);
	const file = join(dir, 'agent.cjs');
	writeFileSync(file, AGENT);
	const done = join(dir, 'logged-in');
	const server = await startServer(t, { agent: `exec ${process.execPath} ${file} ${done} ${way}` });
	return { server, logIn: () => writeFileSync(done, '') };
}

test('an agent that wants a login says which ways there are; then one key sends the prompt again', async (t) => {
	const { server, logIn } = await start(t);
	const page = await openPage(t, server.url);
	await say(page, 'Hello agent');
	await waitForTurns(page);
	const card = page.locator('.agent-failure');
	assert.match(await card.innerText(), /^The agent wants a login\s+session\/new: Authentication required\s+Log in with the agent's own program, as the user that runs the server, in one of these ways\. Then send the prompt again\./);
	const ways = await byTestId(page, 'login-ways').locator('li').allInnerTexts();
	assert.deepEqual(ways, ['Log in with Example\nRun example /login in a terminal <b>\nIn a terminal: the agent’s command with login --device', 'An API key\nStart the server with --agent-env EXAMPLE_API_KEY, and with the value in its environment']);
	await assertNoFault(page, 'an agent that wants a login');
	await shot(page, 'login-card');
	logIn();
	await byTestId(page, 'again').focus();
	await page.keyboard.press('Enter');
	await waitForTurns(page, 2);
	assert.match(await page.locator('.message').last().innerText(), /Now I am in: Hello agent/);
	assert.equal(await byTestId(page, 'again').isVisible(), false, 'that is the past');
	const prompts = readLog(server, await sessionOf(page)).filter(({ type }) => type === 'user_prompt');
	assert.deepEqual(prompts.map(({ data }) => data.message), ['Hello agent', 'Hello agent']);
});

test('on a phone in the dark, from right to left; who watches is offered no button', async (t) => {
	const { server } = await start(t);
	const page = await openPage(t, server.url, { ...PHONE, colorScheme: 'dark' });
	await page.evaluate(() => (document.documentElement.dir = 'rtl'));
	await say(page, 'Hello agent');
	await waitForTurns(page);
	await page.locator('.agent-failure').waitFor();
	await assertNoFault(page, 'a login on a phone');
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the screen');
	assert.ok((await byTestId(page, 'again').boundingBox()).height >= 44, 'large enough for a finger');
	await shot(page, 'login-card-phone');

	const link = loginLink(sessionUrl(server.url, await sessionOf(page)), makeToken(claims('observer', ['*'], { sub: 'ann' }), secretOf(server)));
	const watching = await openPage(t, link, { login: false });
	await byTestId(watching, 'login-ways').waitFor();
	assert.equal(await byTestId(watching, 'again').count(), 0);
});

test('what the agent can be asked for is a button: a refusal is said, a login reaches everybody, and the prompt goes out again', async (t) => {
	const { server, logIn } = await start(t, 'here');
	const page = await openPage(t, server.url, { ...PHONE, colorScheme: 'dark' });
	await say(page, 'Hello agent');
	await waitForTurns(page);
	const id = await sessionOf(page);
	const other = await openPage(t, sessionUrl(server.url, id));
	const watcher = await openPage(t, loginLink(sessionUrl(server.url, id), makeToken(claims('observer', ['*'], { sub: 'ann' }), secretOf(server))), { login: false });
	const button = page.getByRole('button', { name: 'Log in: Example account <i>' });
	await button.waitFor();
	assert.ok((await button.boundingBox()).height >= 44, 'large enough for a finger');
	await assertNoFault(page, 'a login here, on a phone');
	await shot(page, 'login-here-phone');
	await shot(other, 'login-here');
	await watcher.locator('.login-ways').waitFor();
	assert.equal(await byTestId(watcher, 'log-in').count(), 0, 'who watches logs nobody in');

	await button.tap();
	await byTestId(page, 'working').filter({ hasText: 'Logging in to the agent' }).waitFor();
	assert.equal(await button.isDisabled(), true);
	await page.locator('.toast').filter({ hasText: 'The account is not known' }).waitFor();
	await page.locator('.agent-failure').nth(1).waitFor();
	const again = button.filter({ visible: true });
	await again.waitFor();
	assert.equal(await again.count(), 1, 'the newest card has it');
	await shot(page, 'login-refused-phone');

	await other.getByRole('button', { name: 'Log in: Example account <i>' }).filter({ visible: true }).focus();
	await other.keyboard.press('Enter');
	await byTestId(other, 'working').waitFor();
	await shot(other, 'login-under-way');
	logIn();
	for (const each of [page, other, watcher]) {
		await each.locator('[data-type="x-acp-authenticated"]').filter({ hasText: /logged in to the agent: Example account <i>/ }).waitFor();
		assert.equal(await byTestId(each, 'log-in').filter({ visible: true }).count(), 0, 'it is done');
	}
	await byTestId(other, 'again').filter({ visible: true }).click();
	await waitForTurns(page, 2);
	await shot(other, 'login-done');
	assert.match(await page.locator('.message').last().innerText(), /Now I am in: Hello agent/);
});
