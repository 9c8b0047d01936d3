// Files and prompts: "@" completes files of the session's directory; files are dropped, sent with progress, taken back; the queue shows them.

import assert from 'node:assert/strict';
import { mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readLog } from '../support/log.mjs';
import { scratchDir } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, openPage, say, sessionOf, sessionUrl, startServer, waitForStatus, waitForTurns } from './page.mjs';

const PHONE = { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true };
const AGENT = `exec ${process.execPath} ${fileURLToPath(new URL('../support/content_agent.mjs', import.meta.url))} image audio embeddedContext`;
const shot = (page, name) => process.env.HOLDFAST_SHOTS && page.screenshot({ path: `${process.env.HOLDFAST_SHOTS}/${name}.png` });

/** A server whose agent works in a directory with files in it. */
async function start(t, options = {}) {
	const dir = realpathSync(scratchDir(t));
	for (const name of ['src/api', 'src/app', 'docs']) {
		mkdirSync(join(dir, name), { recursive: true });
	}
	for (const name of ['README.md', 'src/main.c', 'src/api/maps.js', 'src/api/a b.txt', 'docs/<img src=x onerror=alert(1)>.md', 'docs/Größe.md', '.hidden']) {
		writeFileSync(join(dir, name), `${name}\n`);
	}
	const server = await startServer(t, { agent: AGENT, cwd: dir, ...options });
	await server.createSession({ id: 'files', title: 'Files' });
	return { server, dir };
}

async function openFiles(t, server, options) {
	const page = await openPage(t, sessionUrl(server.url, 'files'), options);
	await waitForStatus(page, 'live');
	await byTestId(page, 'prompt').focus();
	return page;
}

const waitForFiles = (page, wanted) =>
	page.waitForFunction((text) => JSON.stringify([...document.querySelectorAll('#files [role="option"]')].map((one) => one.title)) === text, JSON.stringify(wanted));
const active = (page) => page.$eval('#prompt', (box) => document.getElementById(box.getAttribute('aria-activedescendant') ?? '')?.title ?? null);

test('with the keys alone, files are completed and go with the prompt as links', async (t) => {
	const { server, dir } = await start(t);
	const page = await openFiles(t, server);
	const box = byTestId(page, 'prompt');
	await page.keyboard.type('mail me@example.org: compare @');
	await waitForFiles(page, ['README.md', 'docs/', 'src/']);
	assert.equal(await active(page), 'README.md');
	await assertNoFault(page, 'files');
	await page.keyboard.press('ArrowUp');
	await page.keyboard.press('Enter');
	assert.equal(await box.inputValue(), 'mail me@example.org: compare @src/');
	await waitForFiles(page, ['src/api/', 'src/app/', 'src/main.c']);
	await shot(page, 'files-desktop');
	await page.keyboard.type('ma');
	await page.waitForFunction(() => document.querySelector('#files [aria-selected="true"]')?.title === 'src/main.c');
	await page.keyboard.press('Tab');
	assert.equal(await box.inputValue(), 'mail me@example.org: compare @src/main.c ');
	assert.equal(await byTestId(page, 'files').isVisible(), false);
	await page.keyboard.type('with @a b');
	assert.equal(await byTestId(page, 'files').isVisible(), false, 'a space ends the word');
	await page.keyboard.press('Backspace');
	await page.keyboard.press('Backspace');
	await page.waitForFunction(() => document.querySelector('#files [title="src/api/a b.txt"]'));
	await page.locator('#files [title="src/api/a b.txt"]').click();
	assert.equal(await box.inputValue(), 'mail me@example.org: compare @src/main.c with @src/api/a b.txt ');
	await page.keyboard.type('@gr');
	await waitForFiles(page, ['docs/Größe.md']);
	await page.keyboard.press('Escape');
	assert.equal(await byTestId(page, 'files').isVisible(), false);
	await page.keyboard.type('ö');
	await page.evaluate(() => fetch('/healthz'));
	assert.equal(await byTestId(page, 'files').isVisible(), false, 'it was closed');
	await page.keyboard.press('Enter');
	await waitForTurns(page);
	const { data } = readLog(server, 'files').find(({ type }) => type === 'user_prompt');
	assert.equal(data.message, 'mail me@example.org: compare @src/main.c with @src/api/a b.txt @grö');
	assert.deepEqual(data.content, [
		{ type: 'resource_link', name: 'main.c', uri: `file://${dir}/src/main.c` },
		{ type: 'resource_link', name: 'a b.txt', uri: `file://${dir}/src/api/a%20b.txt` },
	]);
	await page.locator('.prompt .media-link').first().waitFor();
	await shot(page, 'files-sent');
});

test('before there is a session, files of the directory that it will have', async (t) => {
	const { server, dir } = await start(t);
	const page = await openPage(t, server.url);
	await byTestId(page, 'directory').waitFor();
	await byTestId(page, 'prompt').focus();
	await page.keyboard.type('@REA');
	await waitForFiles(page, ['README.md']);
	await page.keyboard.press('Enter');
	await byTestId(page, 'directory').fill(join(dir, 'src'));
	await byTestId(page, 'prompt').focus();
	await page.keyboard.press('End');
	await page.keyboard.type('and @ma');
	await waitForFiles(page, ['main.c', 'api/maps.js']);
	await shot(page, 'files-new-session');
	await page.keyboard.press('Tab');
	await page.keyboard.press('Enter');
	await waitForTurns(page);
	const id = await sessionOf(page);
	const { data } = readLog(server, id).find(({ type }) => type === 'user_prompt');
	assert.equal(data.message, '@README.md and @main.c');
	assert.deepEqual(data.content, [{ type: 'resource_link', name: 'main.c', uri: `file://${dir}/src/main.c` }], 'the other one is not of this directory');
});

test('names of files are text; a word that was taken out again is no link; it fits a phone in the dark, from right to left', async (t) => {
	const { server } = await start(t);
	const page = await openFiles(t, server, { ...PHONE, colorScheme: 'dark' });
	await page.evaluate(() => (document.documentElement.dir = 'rtl'));
	await page.keyboard.type('@docs/');
	await waitForFiles(page, ['docs/<img src=x onerror=alert(1)>.md', 'docs/Größe.md']);
	assert.equal(await page.locator('#files img').count(), 0);
	await assertNoFault(page, 'files on a phone');
	await shot(page, 'files-phone');
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the screen');
	await page.locator('#files [role="option"]').nth(1).tap();
	assert.equal(await byTestId(page, 'prompt').inputValue(), '@docs/Größe.md ');
	await byTestId(page, 'prompt').fill('nothing of it');
	await byTestId(page, 'send').click();
	await waitForTurns(page);
	assert.equal(readLog(server, 'files').find(({ type }) => type === 'user_prompt').data.content, undefined);
});

/** What comes from outside of the browser is dropped where the pointer is: real drag events. */
async function dropFiles(page, selector, files) {
	const { x, y, width, height } = await page.locator(selector).boundingBox();
	const at = { x: Math.round(x + width / 2), y: Math.round(y + height / 2), data: { items: [], files, dragOperationsMask: 1 } };
	const browser = await page.context().newCDPSession(page);
	for (const type of ['dragEnter', 'dragOver']) {
		await browser.send('Input.dispatchDragEvent', { type, ...at });
	}
	await page.locator('.composer.drop').waitFor();
	await shot(page, 'drop');
	await browser.send('Input.dispatchDragEvent', { type: 'drop', ...at });
	await page.locator('.composer.drop').waitFor({ state: 'detached' });
}

test('files dropped anywhere on the conversation are attached, and the page stays', async (t) => {
	const { server, dir } = await start(t);
	const page = await openFiles(t, server);
	await dropFiles(page, '#scroller', [join(dir, 'README.md'), join(dir, 'src/main.c')]);
	await byTestId(page, 'attached').nth(1).waitFor();
	assert.deepEqual(await byTestId(page, 'attached').locator('.media-name').allInnerTexts(), ['README.md', 'main.c']);
	assert.equal(page.url(), sessionUrl(server.url, 'files'));
	await say(page, 'What are these?');
	await waitForTurns(page);
	assert.deepEqual(readLog(server, 'files').find(({ type }) => type === 'user_prompt').data.content.map(({ name }) => name), ['README.md', 'main.c']);
});

/** From now on the page sends at most so many bytes in a second. */
async function slowDown(page, uploadThroughput) {
	const network = await page.context().newCDPSession(page);
	await network.send('Network.enable');
	await network.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput });
}

test('what is sent tells how far it is, and can be taken back; nothing is lost of it', async (t) => {
	const { server } = await start(t);
	const page = await openFiles(t, server);
	await slowDown(page, 400_000);
	const big = { name: 'big.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(6_000_000, 7) };
	await byTestId(page, 'attach-file').setInputFiles([big, { name: 'small.txt', mimeType: 'text/plain', buffer: Buffer.from('small\n') }]);
	await say(page, 'Look at this');
	const row = byTestId(page, 'attached').filter({ hasText: 'big.bin' });
	await row.getByText(/^Sending, [1-9]\d? %$/).waitFor();
	await shot(page, 'upload');
	assert.equal(await byTestId(page, 'prompt').inputValue(), '');
	await row.getByRole('button', { name: 'Remove big.bin' }).click();
	await page.getByText('The prompt was not sent. A file was taken away while it was being sent.').waitFor();
	assert.equal(await byTestId(page, 'prompt').inputValue(), 'Look at this');
	assert.deepEqual(await byTestId(page, 'attached').locator('.media-name').allInnerTexts(), ['small.txt']);
	assert.equal(readLog(server, 'files').length, 0);
	await slowDown(page, -1);
	await page.keyboard.press('Escape');
	await byTestId(page, 'prompt').press('Enter');
	await waitForTurns(page);
	assert.equal(await byTestId(page, 'attached').count(), 0);

	// Who leaves the session meanwhile finds the text there as a draft.
	await server.createSession({ id: 'other', title: 'Another one' });
	await slowDown(page, 400_000);
	await byTestId(page, 'attach-file').setInputFiles([big]);
	await say(page, 'And this');
	await row.getByText(/^Sending, [1-9]\d? %$/).waitFor();
	await page.evaluate(() => (location.hash = '#/s/other'));
	await page.getByText('The session was left while its files were being sent.').waitFor();
	assert.equal(await byTestId(page, 'prompt').inputValue(), '');
	await page.evaluate(() => (location.hash = '#/s/files'));
	await page.waitForFunction(() => document.querySelector('#prompt').value === 'And this');
	assert.equal(await byTestId(page, 'attached').count(), 1);
});

test('the queue shows what goes with the prompts in it, to everybody', async (t) => {
	const { server } = await start(t);
	const id = 'files';
	const page = await openFiles(t, server);
	await say(page, 'wait'); // for a cancel
	await byTestId(page, 'cancel').waitFor();
	const image = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
	const { body: { blob } } = await server.request('POST', `/api/sessions/${id}/blobs`, { body: Buffer.from(image, 'base64'), headers: { 'content-type': 'application/octet-stream' } });
	const other = await openPage(t, sessionUrl(server.url, id));
	await waitForStatus(other, 'live');
	const ask = { message: 'Look', prompt_id: 'p-look', content: [{ type: 'image', blob, name: 'look <b>.png' }, { type: 'resource_link', name: 'main.c', uri: 'file:///src/main.c' }] };
	await page.evaluate(async ([session, prompt]) => {
		const { HoldfastClient } = await import('/client/holdfast-client.js');
		const client = new HoldfastClient({ sessionId: session });
		client.connect();
		client.on('prompts', ({ prompts }) => prompts[0]?.state === 'queued' && (window.queued = true));
		client.prompt(prompt.message, { promptId: prompt.prompt_id, content: prompt.content });
	}, [id, ask]);
	for (const each of [page, other]) {
		const names = byTestId(each, 'queued').locator('[data-testid="attached-names"]');
		await names.waitFor();
		assert.equal((await names.innerText()).trim().replace(/\s+/g, ' '), 'With look <b>.png, main.c');
		await assertNoFault(each, 'the queue');
	}
	await shot(page, 'queue-files');
	await byTestId(page, 'cancel').click();
	await eventually(() => readLog(server, id).filter(({ type }) => type === 'user_prompt').length === 2, 'the prompt to start');
});
