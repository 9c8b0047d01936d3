// Makes web/screenshots/*.png anew, from the real page on the real server. By hand:
//
//   node --test tests/browser/screenshots.mjs
//
// They are drawn with fonts-inter, fonts-jetbrains-mono and fonts-noto-color-emoji, where those are installed.
// `pngquant --force --ext .png web/screenshots/*.png` makes a third of them.

import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { allowOnce, byTestId, openPage, say, sessionOf, sessionUrl, startServer, waitForTurns } from './page.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const DESK = { deviceScaleFactor: 2 };

const place = (name) => fileURLToPath(new URL(`../../web/screenshots/${name}.png`, import.meta.url));

/** The browser has no fonts of its own, and those of this machine may be any. */
function chooseFonts() {
	const prefer = (family, font) => `<match><test name="family"><string>${family}</string></test>
		<edit name="family" mode="prepend" binding="strong"><string>${font}</string></edit></match>`;
	const file = join(mkdtempSync(join(tmpdir(), 'holdfast-fonts-')), 'fonts.conf');
	const all = [
		prefer('system-ui', 'Inter'),
		prefer('ui-sans-serif', 'Inter'),
		prefer('ui-monospace', 'JetBrains Mono'),
		prefer('monospace', 'JetBrains Mono'),
	];
	writeFileSync(
		file,
		`<?xml version="1.0"?><fontconfig><include>/etc/fonts/fonts.conf</include>${all.join('')}</fontconfig>`,
	);
	process.env.FONTCONFIG_FILE = file;
}

/** Code is coloured when it has rested for a moment. */
const waitForColours = (page) => page.waitForFunction(() => CSS.highlights.size > 2);

test('the screenshots', async (t) => {
	chooseFonts();
	const server = await startServer(t, { rate: 4000 });
	const open = (url, options) => openPage(t, url, { reducedMotion: 'reduce', ...options });
	const page = await open(server.url, DESK);
	for (const prompt of ['code', 'table', 'permission']) {
		await byTestId(page, 'new-session').click();
		await page.locator(`[data-prompt="${prompt}"]`).click();
		await (prompt === 'permission' ? byTestId(page, 'permission-option').first().waitFor() : waitForTurns(page));
	}
	const asking = await sessionOf(page);
	const { id } = await server.createSession({ title: 'A short tour' });
	await page.goto(sessionUrl(server.url, id));
	await say(page, 'tour rate=60');
	// A tool call has begun in the middle of the list, and waits for it to end.
	await page.waitForFunction(() => /torn this/.test(document.querySelector('[data-open-seq]')?.textContent));
	await page.locator('#title').click(); // takes the focus out of the prompt
	await page.screenshot({ path: place('tour') });

	const { id: long } = await server.createSession({ title: 'The ship’s log' });
	const writer = await open(sessionUrl(server.url, long), DESK);
	await say(writer, 'long rate=400');
	const wall = await open(`${server.url}/observe.html`, DESK);
	await wall.waitForFunction((count) => document.querySelectorAll('[data-link="live"]').length === count, 5);
	await waitForColours(wall);
	await wall.screenshot({ path: place('wall') });
	await byTestId(writer, 'cancel').click();
	await byTestId(page, 'cancel').click();

	const phone = await open(sessionUrl(server.url, asking), PHONE);
	await byTestId(phone, 'permission-option').first().waitFor();
	await phone.screenshot({ path: place('phone') });

	const dark = await open(server.url, { ...DESK, colorScheme: 'dark' });
	await say(dark, 'code');
	await waitForTurns(dark);
	await byTestId(dark, 'inspect').click();
	await waitForColours(dark);
	await dark.$eval('#scroller', (e) => (e.scrollTop = 0));
	await dark.locator('#title').click();
	await dark.screenshot({ path: place('dark') });
	await allowOnce(phone);
	await waitForTurns(phone);
});
