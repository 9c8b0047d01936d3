// Images, sounds and files: those of agents are shown, those of people go with their prompts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { png, sha256 } from '../support/blobs.mjs';
import { assertNoFault } from './axe.mjs';
import { eventually } from '../support/wait.mjs';
import { byTestId, openPage, say, sessionOf, startServer, waitForTurns } from './page.mjs';

const AGENT = `exec ${process.execPath} ${fileURLToPath(new URL('../support/content_agent.mjs', import.meta.url))}`;
const start = (t, ...takes) => startServer(t, { agent: `${AGENT} ${takes.join(' ')}` });
const shot = (page, name) => process.env.HOLDFAST_SHOTS && page.screenshot({ path: `${process.env.HOLDFAST_SHOTS}/${name}.png` });
/** The width of an image, once it is there. */
async function loaded(locator) {
	let width = 0;
	await eventually(async () => (width = await locator.evaluate((image) => image.naturalWidth)) > 0, 'the image to be loaded');
	return width;
}
const file = (name, mimeType, buffer) => ({ name, mimeType, buffer });

test('what an agent shows is seen, enlarged, read and saved', async (t) => {
	const server = await start(t);
	const page = await openPage(t, server.url);
	await say(page, 'show');
	await waitForTurns(page);
	const images = page.locator('.item.media .media-image img');
	assert.equal(await images.count(), 2, 'a large one and a small one; that of a thought is not there');
	assert.deepEqual([await loaded(images.nth(0)), await loaded(images.nth(1))], [900, 4]);
	const tool = page.locator('.item.tool');
	assert.equal(await loaded(tool.locator('.media-image img')), 900);
	assert.deepEqual(await tool.locator('.media-file .media-name').allInnerTexts(), ['notes.txt', 'a.bin', 'Sound']);
	assert.equal(await tool.getByText('An image is left out: it could not be read').count(), 1);
	assert.equal(await tool.locator('.media-link a').getAttribute('href'), 'https://example.com/a');
	await shot(page, 'media-desktop');
	await page.locator('.item.media .media-image').first().click();
	assert.equal(await loaded(page.locator('dialog.media-large img')), 900);
	await page.keyboard.press('Escape');
	await page.locator('dialog.media-large').waitFor({ state: 'detached' });
	await tool.getByRole('button', { name: 'Show' }).click();
	await tool.locator('.media-file .output').waitFor();
	const [download] = await Promise.all([page.waitForEvent('download'), tool.getByRole('button', { name: 'Save' }).nth(1).click()]);
	assert.equal(download.suggestedFilename(), 'a.bin');
	await assertNoFault(page, 'with images and files');
});

test('files are chosen, pasted and removed; they go with the prompt, and are shown with it', async (t) => {
	const server = await start(t, 'image', 'audio', 'embeddedContext');
	const page = await openPage(t, server.url);
	await byTestId(page, 'attach-file').setInputFiles([file('look.png', 'image/png', png(60, 40)), file('notes.md', 'text/markdown', Buffer.from('# Notes\n')), file('empty.txt', 'text/plain', Buffer.alloc(0))]);
	await page.getByText('empty.txt cannot be attached: it is empty.').waitFor();
	await page.locator('#prompt').evaluate((box, bytes) => {
		const data = new DataTransfer();
		data.items.add(new File([new Uint8Array(bytes)], 'pasted.png', { type: 'image/png' }));
		box.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
	}, [...png(8, 8)]);
	assert.deepEqual(await byTestId(page, 'attached').locator('.media-name').allInnerTexts(), ['look.png', 'notes.md', 'pasted.png']);
	await byTestId(page, 'attached').nth(2).getByRole('button').click();
	await shot(page, 'attach-desktop');
	await assertNoFault(page, 'with images and files');
	await say(page, 'What is this?');
	await waitForTurns(page);
	const answer = await page.locator('.item.message').last().innerText();
	assert.ok(answer.includes(sha256(png(60, 40))), answer);
	assert.ok(answer.includes(`attachment:///notes.md`), answer);
	assert.equal(await byTestId(page, 'attached').count(), 0);
	const prompt = page.locator('.item.prompt');
	assert.equal(await loaded(prompt.locator('.media-image img')), 60);
	assert.equal(await prompt.locator('.media-file .media-name').innerText(), 'notes.md');
	// Without words, and it is there after a reload.
	await byTestId(page, 'attach-file').setInputFiles([file('again.png', 'image/png', png(30, 20))]);
	await byTestId(page, 'send').click();
	await waitForTurns(page, 2);
	await page.reload();
	await waitForTurns(page, 2);
	assert.equal(await loaded(page.locator('.item.prompt .media-image img').last()), 30);
	assert.ok(await sessionOf(page));
});

test('an agent that takes none is known after its start', async (t) => {
	const server = await start(t);
	const page = await openPage(t, server.url);
	await say(page, 'hello');
	await waitForTurns(page);
	await byTestId(page, 'attach-file').setInputFiles([file('look.png', 'image/png', png())]);
	await page.getByText('look.png cannot be attached: the agent takes no images.').waitFor();
	assert.equal(await byTestId(page, 'attached').count(), 0);
});

for (const [name, options] of [['phone', { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true }], ['dark', { colorScheme: 'dark' }]]) {
	test(`it fits: ${name}`, async (t) => {
		const server = await start(t, 'image', 'audio', 'embeddedContext');
		const page = await openPage(t, server.url, options);
		await byTestId(page, 'attach-file').setInputFiles([file('look.png', 'image/png', png(600, 400)), file('a-very-long-name-of-a-file-that-does-not-fit-anywhere.md', 'text/markdown', Buffer.from('# Notes\n'))]);
		await shot(page, `attach-${name}`);
		await say(page, 'What is this?');
		await waitForTurns(page);
		await say(page, 'show');
		await waitForTurns(page, 2);
		await loaded(page.locator('.item.tool .media-image img'));
		await shot(page, `media-${name}`);
		assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the screen');
	});
}
