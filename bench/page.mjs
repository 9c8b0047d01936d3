// The page with a long session, in a real Chromium: how long until its end is on the screen, and the heap of JavaScript then; at once after
// the first visit (what the browser has kept), and after the reader has gone back to the beginning of the session.
//
//   HOLDFAST_BIN=build-release/holdfast HOLDFAST_DEMO_AGENT=build-release/holdfast-demo-agent node bench/page.mjs [EVENTS [RUNS]]
//
// Targets: 1 s, 60 MiB. Use a release build; the page is the bundled one beside the binary.

import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { chromium } from '../tests/node_modules/playwright-core/index.mjs';
import { ARGS, loginLink } from '../tests/browser/page.mjs';
import { makeLongSession } from '../tests/support/long_session.mjs';
import { Server, binary, demoAgent } from '../tests/support/server.mjs';

const [EVENTS = 20_000, RUNS = 5] = process.argv.slice(2).map(Number);
const MIB = 1024 * 1024;

/** MiB in use, without what nobody needs any more. */
async function heapOf(page) {
	const cdp = await page.context().newCDPSession(page);
	await cdp.send('HeapProfiler.collectGarbage');
	const { usedSize } = await cdp.send('Runtime.getHeapUsage');
	await cdp.detach();
	return usedSize / MIB;
}

/** Milliseconds from the navigation until the last event is painted at the end of the view and the connection is live. */
function timeToEnd(page, last) {
	return page.evaluate((seq) => new Promise((resolve) => {
		const look = () => {
			const end = document.querySelector(`#transcript [data-seq="${seq}"]`);
			const { scrollTop, clientHeight, scrollHeight } = document.querySelector('#scroller');
			const isThere = end && scrollHeight - clientHeight - scrollTop < 2 && document.querySelector('#connection').dataset.status === 'live';
			isThere ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now()))) : requestAnimationFrame(look);
		};
		look();
	}), last);
}

/** How many events the page holds, as its inspector says. */
async function heldBy(page) {
	await page.locator('#inspect').click();
	await page.waitForFunction(() => Number(document.querySelector('[data-figure="held"]')?.textContent) > 0);
	const held = await page.locator('[data-figure="held"]').textContent();
	await page.locator('#inspect').click();
	return held;
}

const table = [];
const note = (what, ms, mib) => table.push({ what, ms: ms && Math.round(ms), mib: Math.round(mib * 10) / 10 });
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

test(`a session of ${EVENTS} events`, { timeout: 600_000 }, async (t) => {
	const server = await Server.start(t, { agent: demoAgent(''), args: ['--web', join(dirname(binary()), 'web')] });
	const { id, last } = await makeLongSession(server, EVENTS);
	const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ARGS });
	t.after(() => browser.close());
	const link = loginLink(`${server.url}/#/s/${id}`, server.token);
	const cold = [];
	const warm = [];
	const heaps = [];
	for (let run = 0; run < RUNS; run++) {
		const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
		const page = await context.newPage();
		await page.goto(link);
		cold.push(await timeToEnd(page, last));
		heaps.push(await heapOf(page));
		await page.goto('about:blank');
		await page.goto(`${server.url}/#/s/${id}`);
		warm.push(await timeToEnd(page, last));
		if (run === RUNS - 1) {
			note('the first visit, in a browser that has nothing', median(cold), median(heaps));
			note('the next visit', median(warm), await heapOf(page));
			await page.keyboard.press('Home');
			await page.waitForFunction(() => document.querySelector('#transcript [data-no="1"]'), null, { timeout: 120_000 });
			const held = await heldBy(page);
			note(`after Home, with ${held} events held`, null, await heapOf(page));
			await page.keyboard.press('End');
			await page.waitForFunction((seq) => document.querySelector(`#transcript [data-seq="${seq}"]`), last);
			await page.locator('#jump').waitFor({ state: 'hidden' });
			note('after End', null, await heapOf(page));
		}
		await context.close();
	}
	console.log(['', `| ${EVENTS.toLocaleString('en')} events | ms until the end is shown | MiB of heap |`, '|---|---|---|', ...table.map(({ what, ms, mib }) => `| ${what} | ${ms ?? '–'} | ${mib} |`)].join('\n'));
});
