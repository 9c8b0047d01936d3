// A new session's agent and directory, chosen on the page; what the page says without an agent.

import assert from 'node:assert/strict';
import { mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { input, post } from '../support/producer.mjs';
import { demoAgent, scratchDir } from '../support/server.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, openPage, say, sessionOf, sessionUrl, startServer, waitForStatus, waitForTurns } from './page.mjs';
import { Proxy } from './proxy.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const AGENT = `${process.execPath} ${fileURLToPath(new URL('../support/project_agent.mjs', import.meta.url))}`;

async function start(t, choose = (agents) => agents) {
	const dir = realpathSync(scratchDir(t));
	for (const name of ['src/api/tests', 'src/app', 'src/<b>x', 'more/deep']) {
		mkdirSync(join(dir, name), { recursive: true });
	}
	const agents = [
		{ name: 'first', title: 'The first', command: AGENT, roots: [join(dir, 'src'), join(dir, 'more')] },
		{ name: 'second', title: 'The <i>second', command: AGENT, roots: [join(dir, 'more')] },
		{ name: 'demo', title: 'Demo', command: demoAgent('--rate 600') },
	];
	const file = join(dir, 'agents.json');
	writeFileSync(file, JSON.stringify({ agents: choose(agents, dir) }));
	const server = await startServer(t, { agent: null, cwd: dir, args: ['--agents', file] });
	return { dir, server, file };
}

const value = (page, id) => page.$eval(`[data-testid="${id}"]`, (field) => field.value);
const waitForOptions = (page, wanted) =>
	page.waitForFunction(
		(text) => JSON.stringify([...document.querySelectorAll('#directories [role="option"]')].map((one) => one.textContent)) === text,
		JSON.stringify(wanted),
	);
const sessionAt = async (server, page) => (await server.request('GET', `/api/sessions/${await sessionOf(page)}`)).body;
const active = (page) =>
	page.$eval('#directory', (box) => document.getElementById(box.getAttribute('aria-activedescendant') ?? '')?.textContent ?? null);

test('with the keys alone: an agent and a directory are chosen, the session has them, and the next one is offered the same', async (t) => {
	const { dir, server } = await start(t);
	const page = await openPage(t, server.url, { mayReport: (text) => /401/.test(text) });
	await byTestId(page, 'agent').waitFor();
	assert.deepEqual(await page.$$eval('[data-testid="agent"] option', (all) => all.map((one) => one.textContent)), ['The first', 'The <i>second', 'Demo']);
	assert.equal(await value(page, 'directory'), join(dir, 'src'));
	await byTestId(page, 'directory').focus();
	await waitForOptions(page, ['more', 'src/<b>x', 'src/api', 'src/app'].map((name) => join(dir, name)));
	await assertNoFault(page, 'the directories');
	assert.equal(await active(page), null, 'nothing is taken before it was chosen');
	await page.keyboard.press('ArrowDown');
	await page.keyboard.press('ArrowUp');
	assert.equal(await active(page), join(dir, 'src/app'), 'round to the last');
	await page.keyboard.press('ArrowUp');
	await page.keyboard.press('Enter');
	assert.equal(await value(page, 'directory'), join(dir, 'src/api'));
	await waitForOptions(page, [`Up to ${join(dir, 'src')}`, join(dir, 'src/api/tests')]);

	await byTestId(page, 'directory').fill(join(dir, 'src/ap'));
	await waitForOptions(page, [join(dir, 'src/api'), join(dir, 'src/app')]);
	assert.equal(await active(page), join(dir, 'src/api'), 'what is typed completes');
	await page.keyboard.press('ArrowDown');
	await page.keyboard.press('Tab');
	assert.equal(await value(page, 'directory'), join(dir, 'src/app'));
	await page.waitForFunction(() => /No directories below/.test(document.querySelector('[data-testid="directories"]').textContent));
	await page.keyboard.press('Escape');
	assert.equal(await value(page, 'directory'), join(dir, 'src'), 'as it was');
	await byTestId(page, 'directory').fill(`${join(dir, 'src/app')}/`);
	await page.waitForFunction(() => /No directories below/.test(document.querySelector('[data-testid="directories"]').textContent));
	await page.keyboard.press('Enter');
	assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
	assert.equal(await byTestId(page, 'directories').isVisible(), false);
	assert.equal(await value(page, 'directory'), join(dir, 'src/app'), 'without the slash');
	await page.keyboard.type('where');
	await page.keyboard.press('Enter');
	await waitForTurns(page);
	const { agent, cwd } = await sessionAt(server, page);
	assert.deepEqual([agent, cwd], ['first', join(dir, 'src/app')]);
	assert.equal(await byTestId(page, 'place').textContent(), `The first · ${join(dir, 'src/app')}`);
	assert.equal(await byTestId(page, 'choice').isVisible(), false, 'it is made');
	assert.match(await byTestId(page, 'transcript').textContent(), new RegExp(`"in":"${join(dir, 'src/app')}"`));

	await page.goto(`${server.url}/#/`);
	await page.reload();
	await byTestId(page, 'directory').waitFor();
	assert.equal(await value(page, 'directory'), join(dir, 'src/app'), 'remembered');
	await byTestId(page, 'agent').selectOption('second');
	assert.equal(await value(page, 'directory'), join(dir, 'more'));
	await say(page, 'where');
	await waitForTurns(page);
	assert.equal((await sessionAt(server, page)).agent, 'second');

	assert.notEqual(await page.evaluate(() => localStorage.getItem('holdfast new session')), null);
	await byTestId(page, 'sign-out').click();
	await page.waitForFunction(() => document.body?.classList.contains('locked'));
	assert.equal(await page.evaluate(() => localStorage.getItem('holdfast new session')), null, 'forgotten with the login');
});

test('a name alone is looked for below the directory that is there, then below the roots', async (t) => {
	const { dir, server } = await start(t);
	const page = await openPage(t, server.url);
	await byTestId(page, 'directory').click();
	await page.keyboard.type('ap');
	await waitForOptions(page, [join(dir, 'src/api'), join(dir, 'src/app')]);
	await page.keyboard.press('Enter');
	await waitForOptions(page, [`Up to ${join(dir, 'src')}`, join(dir, 'src/api/tests')]);
	await byTestId(page, 'directory').blur();
	await byTestId(page, 'directory').click();
	await page.keyboard.type('te');
	await waitForOptions(page, [join(dir, 'src/api/tests')]);
	await page.keyboard.press('ControlOrMeta+a');
	await page.keyboard.type('dee');
	await waitForOptions(page, [join(dir, 'more/deep')]);
	await page.keyboard.press('Tab');
	await byTestId(page, 'directory').fill('app');
	await byTestId(page, 'directory').blur();
	assert.equal(await value(page, 'directory'), join(dir, 'src/app'), 'below the first root, if nothing was chosen');
});

test('on a phone: directories are opened one by one with the finger, and the examples are those of the demo alone', async (t) => {
	const { dir, server } = await start(t);
	const page = await openPage(t, server.url, PHONE);
	await byTestId(page, 'directory').tap();
	await page.locator('#directories [role="option"]', { hasText: 'api' }).tap();
	await waitForOptions(page, [`Up to ${join(dir, 'src')}`, join(dir, 'src/api/tests')]);
	const small = await page.$$eval('#directories [role="option"], .choice-field', (all) => all.filter((one) => one.getBoundingClientRect().height < 44).length);
	assert.equal(small, 0, 'each is large enough for a finger');
	await page.locator('#directories [role="option"]').nth(1).tap();
	assert.equal(await value(page, 'directory'), join(dir, 'src/api/tests'));
	await page.locator('#directories [role="option"]').first().waitFor();
	await waitForOptions(page, [`Up to ${join(dir, 'src/api')}`]);
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the screen');
	assert.equal(await page.locator('[data-prompt]').count(), 0);
	assert.equal(await byTestId(page, 'tour').count(), 0);
	await byTestId(page, 'agent').selectOption('demo');
	assert.equal(await byTestId(page, 'directory').isVisible(), false, 'it does nothing in a directory');
	await page.locator('[data-prompt="table"]').tap();
	await waitForTurns(page);
	assert.equal((await sessionAt(server, page)).agent, 'demo');
});

test('a directory that is refused is told, and the prompt is kept', async (t) => {
	const { dir, server } = await start(t);
	const page = await openPage(t, server.url, { mayReport: (text) => /400/.test(text) });
	await byTestId(page, 'directory').fill('/etc');
	await page.waitForFunction(() => /No directory begins so/.test(document.querySelector('[data-testid="directories"]').textContent));
	await page.keyboard.press('Enter');
	await say(page, 'where');
	await page.locator('.toast').waitFor();
	assert.match(await page.locator('.toast').textContent(), /could not be created.*director/);
	assert.equal(await value(page, 'prompt'), 'where');
	assert.equal(await page.evaluate(() => document.activeElement.id), 'directory');
	await byTestId(page, 'directory').fill(join(dir, 'more'));
	await say(page, 'where');
	await waitForTurns(page);
	assert.equal((await sessionAt(server, page)).cwd, join(dir, 'more'));
});

test('with one agent and one directory there is nothing to choose that must be; with the demo there is nothing at all', async (t) => {
	const demo = await openPage(t, (await startServer(t)).url);
	await byTestId(demo, 'tour').waitFor();
	assert.equal(await byTestId(demo, 'choice').isVisible(), false);

	const server = await startServer(t, { agent: AGENT });
	const page = await openPage(t, server.url);
	await byTestId(page, 'directory').waitFor();
	assert.equal(await byTestId(page, 'agent').isVisible(), false);
	assert.equal(await byTestId(page, 'tour').count(), 0);
	await say(page, 'where');
	await waitForTurns(page);
	const session = await sessionAt(server, page);
	assert.deepEqual([session.agent, session.cwd], [undefined, undefined], "the server's own");
});

test('a server without an agent says so at once, and how to get one; a session whose agent is gone says that', async (t) => {
	const { server, file } = await start(t);
	const { body } = await server.request('POST', '/api/sessions', { json: { agent: 'second' } });
	const proxy = await Proxy.start(t, server);
	const page = await openPage(t, sessionUrl(proxy.url, body.id), { mayReport: () => true });
	await waitForStatus(page, 'live');
	await server.stop();
	writeFileSync(file, JSON.stringify({ agents: [{ name: 'demo', command: demoAgent('--rate 600') }] }));
	await server.restart();
	await byTestId(page, 'connection').click();
	await page.waitForFunction(() => document.querySelector('#prompt').disabled);
	assert.match(await page.$eval('#prompt', (box) => box.placeholder), /agent of this session is no longer offered/);
	await byTestId(page, 'new-session').click();
	await byTestId(page, 'tour').waitFor();

	const bare = await openPage(t, (await startServer(t, { agent: null })).url);
	await bare.locator('.agent-commands').waitFor();
	assert.match(await bare.locator('#empty').textContent(), /This server has no agent.*holdfast serve --agent "opencode acp"/s);
	assert.equal(await bare.$eval('#prompt', (box) => box.disabled), true);
	await assertNoFault(bare, 'without an agent');
});

test('an agent that cannot be started says why before the first prompt; one that starts slowly is said to start', async (t) => {
	const { dir, server } = await start(t, (agents, top) => [
		{ name: 'missing', title: 'Missing <b>', command: 'no-such-agent acp', roots: [top] },
		{ name: 'words', title: 'Not an agent', command: 'echo Usage: tool [FILE]' },
		{ name: 'slow', title: 'Slow one', command: `until [ -e ${top}/go ]; do sleep 0.05; done; exec ${AGENT}` },
	]);
	const page = await openPage(t, server.url);
	await byTestId(page, 'agent-fault').waitFor();
	assert.match(await byTestId(page, 'agent-fault').textContent(), /Missing <b> could not be started.*the program "no-such-agent" is not in the server's PATH/);
	await assertNoFault(page, 'an agent with a fault');
	await say(page, 'Hello');
	await waitForTurns(page);
	assert.match(await byTestId(page, 'transcript').textContent(), /exit status 127; its command cannot be run: is it installed/);

	await byTestId(page, 'new-session').click();
	await byTestId(page, 'agent').selectOption('words');
	assert.equal(await byTestId(page, 'agent-fault').isVisible(), false);
	await say(page, 'Hello');
	await waitForTurns(page);
	assert.match(await byTestId(page, 'transcript').textContent(), /exit status 0; it ended before it answered: check that its command speaks ACP/);
	await byTestId(page, 'failure').locator('summary').click();
	assert.match(await byTestId(page, 'failure').textContent(), /Usage: tool \[FILE\]/);

	await byTestId(page, 'new-session').click();
	await byTestId(page, 'agent').selectOption('slow');
	await say(page, 'Hello');
	await byTestId(page, 'working').waitFor();
	assert.equal((await byTestId(page, 'working').textContent()).trim(), 'Starting Slow one…');
	writeFileSync(join(dir, 'go'), '');
	await waitForTurns(page);
});

test('an agent that says nothing for long: the page says for how long, until something comes; a connection that comes and goes is not something', async (t) => {
	const server = await startServer(t, { agent: 'exec sleep 600' });
	const { id } = await server.createSession();
	const proxy = await Proxy.start(t, server);
	const page = await openPage(t, 'about:blank', { mayReport: () => true });
	await page.clock.install();
	await page.goto(sessionUrl(proxy.url, id));
	await waitForStatus(page, 'live');
	await say(page, 'Hello');
	const working = (text) => byTestId(page, 'working').filter({ hasText: text }).waitFor();
	await working('Starting');
	assert.doesNotMatch(await byTestId(page, 'working').textContent(), /Nothing/);
	await page.clock.fastForward(31_000);
	await working('Nothing has come for 30 s');
	for (let round = 0; round < 4; round++) {
		proxy.isDown = true;
		proxy.break();
		await waitForStatus(page, 'retrying');
		assert.equal(await byTestId(page, 'working').count(), 0, 'what the agent does is not known');
		proxy.isDown = false;
		await page.clock.fastForward(31_000); // by then it has tried again
		await waitForStatus(page, 'live');
	}
	await working(/Nothing has come for [2-9] min/);
	await post(server, id, input.note({}));
	await working(/(Working|Starting.*…)$/);
});
