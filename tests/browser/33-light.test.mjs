// The page as it is installed: few requests, few bytes, and files that a browser keeps.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byTestId, loginLink, openPage, say, sessionOf, sessionUrl, startInstalled, waitForStatus, waitForTurns } from './page.mjs';

const REQUESTS_MAX = 10;
const BYTES_MAX = 80 * 1024;

/** Notes what comes over the network from now on: a line for each answer, and its bytes. */
async function noteNetwork(page) {
	const network = await page.context().newCDPSession(page);
	const answers = new Map();
	network.on('Network.responseReceived', ({ requestId, response: { url, headers, fromDiskCache } }) => answers.set(requestId, { url, fromDiskCache, kept: headers['cache-control'], bytes: 0 }));
	network.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => answers.has(requestId) && (answers.get(requestId).bytes = encodedDataLength));
	await network.send('Network.enable');
	return () => [...answers.values()].filter(({ url }) => url.startsWith('http'));
}

for (const path of ['', 'observe.html']) {
	test(`a first load of /${path} is small`, async (t) => {
		const server = await startInstalled(t);
		const page = await openPage(t, 'about:blank', { login: false });
		const answers = await noteNetwork(page);
		await page.goto(loginLink(`${server.url}/${path}`, server.token), { waitUntil: 'networkidle' });
		await page.waitForFunction(() => !document.body.classList.contains('locked'));
		const all = answers().filter(({ fromDiskCache }) => !fromDiskCache); // an icon is shown in several places
		const words = JSON.stringify(all, null, 1);
		assert.ok(all.length > 3, words);
		assert.ok(all.length <= REQUESTS_MAX, words);
		const bytes = all.reduce((sum, one) => sum + one.bytes, 0);
		assert.ok(bytes > 10_000 && bytes <= BYTES_MAX, words);
		for (const { url, kept } of all) {
			assert.equal(kept, /\/assets\//.test(url) ? 'public, max-age=31536000, immutable' : /\/api\//.test(url) ? 'no-store' : 'no-cache', url);
		}
	});
}

test('what few visits need is loaded when it is needed, once, and kept', async (t) => {
	const server = await startInstalled(t);
	const page = await openPage(t, server.url);
	await page.waitForLoadState('networkidle');
	const answers = await noteNetwork(page);
	await byTestId(page, 'inspect').click();
	await page.locator('[data-figure="status"]').waitFor();
	await page.keyboard.press('Control+k');
	await byTestId(page, 'found').first().waitFor();
	const loaded = answers().filter(({ url }) => /\/assets\//.test(url));
	assert.equal(loaded.length, 1, JSON.stringify(loaded));
	assert.match(loaded[0].kept, /immutable/);
});

test('a part that cannot be loaded is told, and had with the next try', async (t) => {
	const server = await startInstalled(t);
	const page = await openPage(t, server.url, { mayReport: (text) => /Failed to load resource|extras/.test(text) });
	await page.route(/index-extras/, (route) => route.abort(), { times: 1 });
	await byTestId(page, 'inspect').click();
	await page.getByText('This part of the page could not be loaded.').waitFor();
	await byTestId(page, 'inspect').click();
	await page.locator('[data-figure="status"]').waitFor();
});

test('the installed page works, and its second load asks for none of the kept files', async (t) => {
	const server = await startInstalled(t);
	const page = await openPage(t, server.url);
	await say(page, 'markdown');
	await waitForTurns(page);
	const id = await sessionOf(page);
	const answers = await noteNetwork(page);
	await page.goto('about:blank');
	await page.goto(sessionUrl(server.url, id));
	await waitForStatus(page, 'live');
	await waitForTurns(page);
	const kept = answers().filter(({ url }) => /\/assets\//.test(url));
	assert.ok(kept.length >= 3, JSON.stringify(answers()));
	assert.deepEqual(kept.filter(({ fromDiskCache, bytes }) => !fromDiskCache && bytes > 0), []);
});
