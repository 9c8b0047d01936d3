// The server keeps only the newest events of a session: the page takes what there is, and says where it begins.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { eventually } from '../support/wait.mjs';
import { byTestId, openPage, sessionUrl, shownEvents, startServer, waitForSeq, waitForStatus } from './page.mjs';
import { Proxy } from './proxy.mjs';

const KEPT = 300;
const NOT_KEPT = 'Earlier events are no longer kept';
const mayReport = (text) => /WebSocket connection to .* failed|Failed to load resource: net::/.test(text);

const paragraphs = (from, count) =>
	Array.from({ length: count }, (_, i) => input.text(`Paragraph ${from + i}.\n\n`, `m${from + i}`));

/** Waits until the session begins with this event. */
function waitForFirst(server, id, seq) {
	return eventually(
		async () => (await server.request('GET', `/api/sessions/${id}`)).body.first_seq === seq,
		`${seq} is the first`,
	);
}

/** A page, through a proxy, on a session of which the newest KEPT events are kept. */
async function openPruned(t, { isOpenedFirst }) {
	const server = await startServer(t, {
		args: ['--keep-events', String(KEPT), '--limit', 'prune_ms=10', '--limit', 'prune_size=1'],
	});
	const proxy = await Proxy.start(t, server);
	const { id } = await server.createSession();
	const page = await openPage(t, 'about:blank', { mayReport });
	if (isOpenedFirst) {
		const { max_seq: last } = await post(server, id, [...paragraphs(1, 20), input.end()]);
		await page.goto(sessionUrl(proxy.url, id));
		await waitForSeq(page, last);
		proxy.isDown = true;
		proxy.break();
		await waitForStatus(page, 'retrying');
	}
	const { max_seq: last } = await post(server, id, [...paragraphs(100, 799), input.end()]);
	const first = last - KEPT + 1;
	await waitForFirst(server, id, first);
	return { server, proxy, page, id, first, last };
}

/** What stands above the first item, once all older ones have been loaded. */
async function readToTheBeginning(page, first) {
	await page.waitForFunction((seq) => {
		const list = document.querySelector('[data-testid="transcript"]');
		const scroller = document.querySelector('#scroller');
		scroller.scrollTop += list.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
		return list.querySelector(`[data-seq="${seq}"]`) !== null;
	}, first);
	await page.locator('#older').getByText(NOT_KEPT).waitFor();
}

test('"load older" ends at the first event that is kept, and the page says so', async (t) => {
	const { server, page, id, first, last } = await openPruned(t, { isOpenedFirst: false });
	await page.goto(sessionUrl(server.url, id));
	await waitForSeq(page, last);
	assert.equal(await page.getByText(NOT_KEPT).isVisible(), false, 'not before it is certain');
	await readToTheBeginning(page, first);
	const seqs = (await shownEvents(page)).map(({ seq }) => seq);
	assert.equal(seqs[0], first);
	await byTestId(page, 'inspect').click();
	await page.waitForFunction((n) => document.querySelector('[data-figure="held"]')?.textContent === n, String(KEPT));
});

test('what a page missed is not kept any more: it begins anew, and says so', async (t) => {
	const { server, proxy, page, id, first, last } = await openPruned(t, { isOpenedFirst: true });
	proxy.isDown = false;
	await byTestId(page, 'connection').click();
	await waitForSeq(page, last);
	await waitForStatus(page, 'live');
	assert.match(await page.locator('#toasts').innerText(), /^The events that you missed are no longer kept/);
	assert.equal(await page.getByText('Paragraph 1.', { exact: true }).count(), 0);
	await readToTheBeginning(page, first);
	const { max_seq: next } = await post(server, id, [input.text('One more.'), input.end()]);
	await waitForSeq(page, next);
	await page.reload();
	await waitForStatus(page, 'live');
	await page.evaluate(() => document.querySelector('#jump').click()); // the reader was where the log begins
	await waitForSeq(page, next);
	await waitForFirst(server, id, next - KEPT + 1);
});
