// What a tab keeps: no more events than it needs, and after a reload those that it had.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { eventually } from '../support/wait.mjs';
import {
	assertShowsLog,
	byTestId,
	openPage,
	sessionUrl,
	startServer,
	waitForEnd,
	waitForSeq,
	waitForStatus,
} from './page.mjs';

const paragraphs = (from, count) =>
	Array.from({ length: count }, (_, i) => input.text(`Paragraph ${from + i}.\n\n`, `m${from + i}`));

/** In the page: how many events are in its database. */
function countCached() {
	return new Promise((done) => {
		const opening = indexedDB.open('holdfast');
		opening.onsuccess = () => {
			const { result: database } = opening;
			const counting = database.transaction('events').objectStore('events').count();
			counting.onsuccess = () => {
				database.close();
				done(counting.result);
			};
		};
	});
}

test('events that were loaded for reading are let go of at the end, and come back when they are wanted', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession();
	for (let i = 0; i < 4; i += 1) {
		await post(server, id, paragraphs(i * 800, 800));
	}
	const { max_seq: last } = await post(server, id, input.end());
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForSeq(page, last);
	await byTestId(page, 'inspect').click();
	const held = () => page.locator('[data-figure="held"]').textContent().then(Number);
	const up = () =>
		page.waitForFunction(() => {
			const list = document.querySelector('#transcript');
			const scroller = document.querySelector('#scroller');
			scroller.scrollTop += list.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
			return list.querySelector('[data-seq="1"]') !== null;
		});
	await up();
	await page.waitForFunction((n) => document.querySelector('[data-figure="held"]')?.textContent === String(n), last);
	await byTestId(page, 'jump').click();
	await waitForEnd(page);
	await page.waitForFunction(() => Number(document.querySelector('[data-figure="held"]')?.textContent) <= 1_000);
	await up();
	assert.ok((await held()) >= 1_000);
});

test('a tab that is loaded again has what it had, and asks only for what is new', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession();
	const { max_seq: last } = await post(server, id, [...paragraphs(0, 30), input.end()]);
	const asked = [];
	const page = await openPage(t, 'about:blank');
	page.on('websocket', (socket) =>
		socket.on('framesent', ({ payload }) => {
			const { type, data } = JSON.parse(payload);
			if (type === 'load_events') {
				asked.push(data.after_seq);
			}
		}),
	);
	await page.goto(sessionUrl(server.url, id));
	await waitForSeq(page, last);
	await eventually(async () => (await page.evaluate(countCached)) === last);
	await page.goto('about:blank'); // A page that is still there would keep the new events, too.
	const { max_seq: more } = await post(server, id, [input.text('More.\n\n', 'x'), input.end()]);
	// On a busy machine the database may open too late. Then the page asks as if it had nothing, and the next load has it.
	do {
		await page.goto('about:blank');
		await page.goto(sessionUrl(server.url, id));
		await waitForSeq(page, more);
		await waitForStatus(page, 'live');
	} while (asked.at(-1) === undefined && asked.length < 4);
	assert.equal(asked.at(-1), asked.length === 2 ? last : more, asked.join(' '));
	await assertShowsLog(page, server, id);
});
