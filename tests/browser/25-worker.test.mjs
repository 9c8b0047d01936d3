// The client library in a module worker of a real browser: no page, no document, and a database of its own.

import assert from 'node:assert/strict';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { input, post } from '../support/producer.mjs';
import { scratchDir } from '../support/server.mjs';
import { openPage, startServer, wholeBrowser } from './page.mjs';
import { Proxy } from './proxy.mjs';

wholeBrowser();

const WEB = fileURLToPath(new URL('../../web', import.meta.url));
const mayReport = (text) => /WebSocket connection to .* failed/.test(text);

const WORKER = `
import { HoldfastClient } from './client/holdfast-client.js';
const login = self.name; // a worker has no localStorage
const client = new HoldfastClient({ sessionId: 'worked', format: 'markdown', cache: true, identity: '', login });
for (const type of ['events', 'older', 'reset']) {
	client.on(type, () => postMessage({ events: client.events }));
}
client.on('status', ({ status }) => postMessage({ status }));
client.on('prompts', ({ prompts }) => postMessage({ prompts }));
client.on('error', ({ error }) => postMessage({ error: String(error) }));
onmessage = ({ data: [method, ...args] }) => client[method](...args);
client.connect();
`;

const PAGE = `<!doctype html><title>A worker</title><link rel="icon" href="page/icon.svg"><script type="module" src="at-work.js"></script>`;

const AT_WORK = `
import { login } from './client/holdfast-client.js';
window.seen = { statuses: [] };
const { login: half } = await login(location.hash.slice('#token='.length));
window.worker = new Worker('worker.js', { type: 'module', name: half });
worker.onmessage = ({ data: { status, ...rest } }) => {
	if (status) {
		seen.statuses.push(status);
	}
	Object.assign(seen, rest);
};
worker.onerror = (error) => console.error(error.message);
`;

/** A page of our own, whose worker watches the session "worked". */
async function openWorker(t) {
	const web = join(scratchDir(t), 'web');
	cpSync(WEB, web, { recursive: true });
	writeFileSync(join(web, 'work.html'), PAGE);
	writeFileSync(join(web, 'at-work.js'), AT_WORK);
	writeFileSync(join(web, 'worker.js'), WORKER);
	const server = await startServer(t, { rate: 4000, args: ['--web', web] });
	const { id } = await server.createSession({ id: 'worked' });
	const { max_seq: last } = await post(server, id, [input.text('One.\n\n'), input.text('Two.\n\n'), input.end()]);
	const proxy = await Proxy.start(t, server);
	const page = await openPage(t, `${proxy.url}/work.html`, { mayReport });
	return { server, proxy, page, id, last };
}

const waitForSeq = (page, seq) =>
	page.waitForFunction((n) => window.seen.events?.at(-1)?.seq >= n && window.seen.statuses.at(-1) === 'live', seq);

const call = (page, ...what) => page.evaluate((data) => window.worker.postMessage(data), what);

async function assertSameAsLog(page, server, id) {
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000&format=markdown`);
	assert.deepEqual(await page.evaluate(() => window.seen.events), body.events);
}

test('in a module worker the client loads, goes on after breaks, and takes part', async (t) => {
	const { server, proxy, page, id, last } = await openWorker(t);
	await waitForSeq(page, last);
	proxy.isDown = true;
	proxy.break();
	await page.waitForFunction(() => ['retrying', 'offline'].includes(window.seen.statuses.at(-1)));
	const { max_seq: next } = await post(server, id, [input.text('Three.\n\n'), input.end()]);
	await call(page, 'prompt', 'list');
	proxy.isDown = false;
	await call(page, 'retryNow');
	await waitForSeq(page, next + 1);
	await page.waitForFunction(() => window.seen.events.filter(({ type }) => type === 'turn_end').length === 3);
	await assertSameAsLog(page, server, id);
	const { events, prompts, error } = await page.evaluate(() => window.seen);
	assert.equal(events.filter(({ type }) => type === 'user_prompt').length, 1);
	assert.deepEqual([prompts, error], [[], undefined]);
});

test('a connection that dies without a word is replaced in a worker, too', async (t) => {
	const { server, proxy, page, id, last } = await openWorker(t);
	await waitForSeq(page, last);
	proxy.cut();
	const { max_seq: next } = await post(server, id, [input.text('Into the dark.'), input.end()]);
	await call(page, 'retryNow'); // as somebody does who looks at it
	await waitForSeq(page, next);
	await assertSameAsLog(page, server, id);
	assert.equal((await page.evaluate(() => window.seen.statuses)).filter((status) => status === 'live').length, 2);
});
