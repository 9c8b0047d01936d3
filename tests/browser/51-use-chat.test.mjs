// useChat() of the AI SDK in a page of its own, with the code of docs/ai-sdk.md: it asks the demo agent, is loaded again in the middle of an answer,
// loses its network, stops, and answers a question.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Server, demoAgent, scratchDir } from '../support/server.mjs';
import { ownToken } from '../support/tokens.mjs';
import { eventually } from '../support/wait.mjs';
import { openPage } from './page.mjs';
import { Proxy } from './proxy.mjs';

/** zod looks whether it may compile its schemas, and does without. */
const PROBE = 'policy: script-src eval';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const docs = readFileSync(here('../../docs/ai-sdk.md'), 'utf8');
const codeOf = (heading) => /^```js\n([\s\S]*?)^```$/m.exec(docs.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)))[1];

/** The application, bundled as one would deploy it, or as one develops it; `heading` says which transport of the docs it uses. */
function bundle(t, heading, mode) {
	const [dir, web] = [scratchDir(t), scratchDir(t)];
	writeFileSync(join(dir, 'package.json'), '{"type":"module"}');
	writeFileSync(join(dir, 'options.js'), codeOf(heading).replace('http://127.0.0.1:8080', '${location.origin}'));
	writeFileSync(join(dir, 'chat.js'), codeOf('In React'));
	writeFileSync(join(dir, 'cancel.js'), codeOf('Stopping').replace('ws://127.0.0.1:8080', "${location.origin.replace('http', 'ws')}"));
	copyFileSync(here('chat_app.mjs'), join(dir, 'app.js'));
	symlinkSync(here('../node_modules'), join(dir, 'node_modules'));
	const { status, stderr } = spawnSync('esbuild', ['app.js', '--bundle', '--format=esm', '--target=es2022', `--define:process.env.NODE_ENV="${mode}"`, `--outfile=${join(web, 'app.js')}`], { cwd: dir, encoding: 'utf8' });
	assert.equal(status, 0, stderr);
	writeFileSync(join(web, 'index.html'), '<!doctype html><title>chat</title><link rel=icon href=data:,><div id=app></div><script type=module src=app.js></script>');
	return web;
}

/** The server and its chat in a page, behind a network that can break. */
async function open(t, { heading = 'With a WebSocket', rate = 200, mode = 'production' } = {}) {
	const server = await Server.start(t, { agent: demoAgent(`--rate ${rate}`), args: ['--web', bundle(t, heading, mode)] });
	await server.createSession({ id: 's' });
	await server.createSession({ id: 'other' });
	const proxy = await Proxy.start(t, server);
	const url = `${proxy.url}/#session=s&token=${ownToken(server, 'controller', ['s', 'other'])}`;
	const page = await openPage(t, url, { login: false, mayReport: (text) => /Failed to load|net::ERR_|WebSocket connection/.test(text) || text === PROBE });
	await waitFor(page, 'ready');
	return { server, proxy, page };
}

const waitFor = (page, status) => page.waitForSelector(`main[data-status="${status}"]`);
const grown = (page, length) => page.waitForFunction((least) => document.querySelector('article[data-role="assistant"]:last-of-type')?.textContent.length > least, length);

async function ask(page, text) {
	await page.fill('input', text);
	await page.press('input', 'Enter');
}

async function logOf(server) {
	const { body: { events } } = await server.request('GET', '/api/sessions/s/events?after_seq=0&limit=5000&format=markdown');
	return events;
}

/** What the page shows is what was asked, and what the log has as the answers; each was asked once. */
async function assertShowsLog(page, server) {
	const events = await logOf(server);
	const wanted = events.filter(({ type }) => type === 'user_prompt').flatMap(({ data, turn }) => [
		['user', data.message],
		['assistant', events.filter((event) => event.turn === turn && event.type === 'agent_message').map((event) => event.data.markdown).join('')],
	]);
	const shown = await page.$$eval('article', (all) => all.map((each) => [each.dataset.role, [...each.querySelectorAll('[data-part="text"]')].map(({ textContent }) => textContent).join('')]));
	assert.deepEqual(shown, wanted);
	assert.equal(await page.getAttribute('main', 'data-error'), null);
	return events;
}

for (const heading of ['With a WebSocket', 'With HTTP']) {
	test(`${heading}: a reload in the middle of an answer, a network that breaks, one that stays away until the answer is over`, async (t) => {
		const { server, proxy, page } = await open(t, { heading });
		await ask(page, 'markdown list');
		for (const length of [40, 120]) {
			await grown(page, length);
			await page.reload();
		}
		await grown(page, 60);
		proxy.break();
		await waitFor(page, 'error');
		await waitFor(page, 'ready');
		await assertShowsLog(page, server);

		await ask(page, 'list');
		await grown(page, 20);
		proxy.isDown = true;
		proxy.break();
		await waitFor(page, 'error');
		await eventually(async () => (await logOf(server)).filter(({ type }) => type === 'turn_end').length === 2, 'the answer to be over');
		proxy.isDown = false;
		await waitFor(page, 'ready');
		await assertShowsLog(page, server);

		await page.reload();
		await waitFor(page, 'ready');
		const events = await assertShowsLog(page, server);
		assert.equal(events.filter(({ type }) => type === 'user_prompt').length, 2);
	});
}

for (const mode of ['production', 'development']) {
	test(`${mode}, in StrictMode: the agent goes on when the chat is left, another one is shown, a tab that watches is closed, or stop is pressed`, async (t) => {
		const { server, page } = await open(t, { rate: 200, mode });
		await ask(page, 'markdown permission'); // its question keeps the turn open, however slow the machine is
		await grown(page, 20);
		const tab = await page.context().newPage();
		await tab.goto(page.url());
		await grown(tab, 20);
		for (const [leave, back] of [['#leave', '#back'], ['#other', '#back']]) {
			await tab.click(leave);
			await (leave === '#other' ? tab.waitForSelector('main[data-session="other"]') : tab.waitForSelector('main', { state: 'detached' }));
			await tab.click(back);
			await grown(tab, 20);
			await page.click(leave);
			await page.click(back);
			await grown(page, 20);
		}
		await tab.click('#stop');
		await tab.close();
		await page.click('#stop');
		await page.reload();
		await page.click('#allow');
		await eventually(async () => (await logOf(server)).at(-1).type === 'turn_end', 'the turn to end', 60_000);
		// A page that has just been loaded is ready before it has begun to follow: it shows all only then.
		await eventually(() => assertShowsLog(page, server).then(() => true, () => false), 'the page to show the log').catch(() => {});
		const events = await assertShowsLog(page, server);
		assert.equal(events.at(-1).data.stop_reason, 'end_turn');

		await ask(page, 'long 300');
		await grown(page, 40);
		await page.click('#cancel');
		await waitFor(page, 'ready');
		await eventually(async () => (await logOf(server)).at(-1).data.stop_reason === 'cancelled', 'the turn to end');
	});
}

test('cancel ends the turn; a question is answered after a reload, and the answer goes on in the same message', async (t) => {
	const { server, page } = await open(t, { rate: 100 });
	await ask(page, 'long 300');
	await grown(page, 40);
	await page.click('#cancel');
	await waitFor(page, 'ready');
	await eventually(async () => (await logOf(server)).at(-1).data.stop_reason === 'cancelled', 'the turn to end');

	await ask(page, 'permission');
	await page.waitForSelector('[data-state="approval-requested"]');
	await waitFor(page, 'ready');
	await page.reload();
	await page.waitForSelector('[data-state="approval-requested"]');
	await waitFor(page, 'ready');
	await page.click('#allow');
	await page.waitForSelector('article:last-of-type [data-state="output-available"]');
	await waitFor(page, 'ready');
	const events = await logOf(server);
	assert.equal(events.filter(({ type }) => type === 'permission_resolved').length, 1);
	assert.equal(events.at(-1).data.stop_reason, 'end_turn');
	const { turn } = events.at(-1);
	const said = events.filter((event) => event.turn === turn && event.type === 'agent_message').map(({ data }) => data.markdown).join('');
	assert.equal(await page.$$eval('article:last-of-type [data-part="text"]', (parts) => parts.map(({ textContent }) => textContent).join('')), said);
	assert.equal(await page.$$eval('article', (all) => all.length), 4);
});
