// The server comes back with other data: an older copy of them, or new ones under the old names. The page shows what
// the server has.

import assert from 'node:assert/strict';
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { partOf } from '../support/part.mjs';
import { input, post } from '../support/producer.mjs';
import { runToEnd, scratchDir } from '../support/server.mjs';
import {
	assertSameAfterReload,
	assertShowsLog,
	byTestId,
	openPage,
	sessionUrl,
	showAll,
	startServer,
	waitForSeq,
	waitForStatus,
} from './page.mjs';
import { Proxy } from './proxy.mjs';

const mayReport = (text) => /WebSocket connection to .* failed|Failed to load resource: (net::|.*status of 503)/.test(text);

/** Paragraphs of one story; two of them differ at every number. */
const story = (name, count) =>
	Array.from({ length: count }, (_, i) => input.text(`${name} ${i}.\n\n`, `${name}-${i}`));

/** A page that has seen 10 events of "then" and the end of its turn, and a copy of the server's data as they are now. */
async function openAndCopy(t) {
	const server = await startServer(t);
	const proxy = await Proxy.start(t, server);
	const { id } = await server.createSession({ id: 'same' });
	const { max_seq: last } = await post(server, id, [...story('Then', 10), input.end()]);
	const page = await openPage(t, sessionUrl(proxy.url, id), { mayReport });
	await waitForSeq(page, last);
	const copy = join(scratchDir(t), 'copy');
	await server.stop();
	cpSync(server.dataDir, copy, { recursive: true });
	await server.restart();
	await byTestId(page, 'connection').click();
	await waitForStatus(page, 'live');
	return { server, proxy, page, id, copy };
}

/** The server is killed and comes back with what `replace` puts in the place of its data; the page hears of it last. */
async function comeBackWith({ server, proxy, page }, replace, sayMore) {
	proxy.isDown = true;
	await server.kill9();
	await waitForStatus(page, 'retrying');
	rmSync(server.dataDir, { recursive: true });
	await replace();
	await server.restart();
	await sayMore();
	proxy.isDown = false;
	await byTestId(page, 'connection').click();
	await waitForStatus(page, 'live');
}

async function assertShowsTruth({ server, page, id }, lost) {
	await showAll(page);
	await assertShowsLog(page, server, id);
	assert.equal(await page.getByText(lost).count(), 0);
	await assertSameAfterReload(page); // and nothing of it is in what the browser has kept
}

for (const { isTold, more, words } of partOf([
	{ isTold: false, more: 0, words: /The server has an older history/ },
	{ isTold: false, more: 3, words: /The server has an older history/ },
	{ isTold: true, more: 0, words: /The session has another history now/ },
	{ isTold: true, more: 3, words: /The session has another history now/ },
	{ isTold: true, more: 40, words: /The session has another history now/ },
])) {
	const how = `${isTold ? 'with' : 'without'} new-epoch, ${more} events later`;
	test(`an older copy of the server's data, ${how}: the page shows what the server has`, async (t) => {
		const all = await openAndCopy(t);
		const { server, page, id, copy } = all;
		const { max_seq: last } = await post(server, id, [...story('Lost', 5), input.end()]);
		await waitForSeq(page, last);
		await page.waitForFunction(() => document.querySelector('#spoken').textContent !== '');
		await comeBackWith(
			all,
			async () => {
				cpSync(copy, server.dataDir, { recursive: true });
				if (isTold) {
					const { code, stderr } = await runToEnd(['new-epoch', server.dataDir]);
					assert.equal(code, 0, stderr);
				}
			},
			() => more > 0 && post(server, id, [...story('Now', more - 1), input.end()]),
		);
		assert.match(await page.locator('#toasts').innerText(), words);
		assert.equal(await byTestId(page, 'spoken').textContent(), '');
		await assertShowsTruth(all, /^Lost \d/);
	});
}

for (const count of partOf([4, 40])) {
	test(`new data with ${count} events in a session of the same name`, async (t) => {
		const all = await openAndCopy(t);
		const { server, page, id, copy } = all;
		await comeBackWith(
			all,
			() => {
				mkdirSync(server.dataDir);
				['access-token', 'token-secret', 'access.jsonl'].forEach((name) =>
					cpSync(join(copy, name), join(server.dataDir, name)),
				);
			},
			async () => {
				await server.createSession({ id });
				await post(server, id, [...story('New', count - 1), input.end()]);
			},
		);
		assert.match(await page.locator('#toasts').innerText(), /The session has another history now/);
		await assertShowsTruth(all, /^Then \d/);
	});
}

test('a session that is deleted and made again under its name, longer than it was', async (t) => {
	const all = await openAndCopy(t);
	const { server, proxy, page, id } = all;
	proxy.isDown = true;
	proxy.break();
	await waitForStatus(page, 'retrying');
	await server.request('DELETE', `/api/sessions/${id}`);
	await server.createSession({ id });
	await post(server, id, [...story('New', 40), input.end()]);
	proxy.isDown = false;
	await byTestId(page, 'connection').click();
	await waitForStatus(page, 'live');
	assert.match(await page.locator('#toasts').innerText(), /The session has another history now/);
	await assertShowsTruth(all, /^Then \d/);
});
