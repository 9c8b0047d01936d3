// Makes web/screenshots/tour.png anew, from the real page on the real server. By hand:
//
//   node --test tests/browser/screenshots.mjs
//
// It is drawn with the fonts of this machine; fonts-inter and fonts-noto-color-emoji become it. `pngquant --force
// --ext .png` makes a third of it.

import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { byTestId, openPage, say, sessionUrl, startServer, waitForTurns } from './page.mjs';

const TOUR = fileURLToPath(new URL('../../web/screenshots/tour.png', import.meta.url));

test('tour.png', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const page = await openPage(t, server.url, { deviceScaleFactor: 2, reducedMotion: 'reduce' });
	for (const prompt of ['code', 'table', 'permission']) {
		await byTestId(page, 'new-session').click();
		await page.locator(`[data-prompt="${prompt}"]`).click();
		await (prompt === 'permission' ? byTestId(page, 'permission-option').first().waitFor() : waitForTurns(page));
	}
	const { id } = await server.createSession({ title: 'A short tour' });
	await page.goto(sessionUrl(server.url, id));
	await say(page, 'tour rate=60');
	// A tool call has begun in the middle of the list, and waits for it to end.
	await page.waitForFunction(() => /torn this/.test(document.querySelector('[data-open-seq]')?.textContent));
	await page.locator('#title').click(); // takes the focus out of the prompt
	await page.screenshot({ path: TOUR });
	await byTestId(page, 'cancel').click();
	await waitForTurns(page);
});
