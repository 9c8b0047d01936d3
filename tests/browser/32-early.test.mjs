// What is typed early: before the page has begun, and before its connection is live.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { ENTRY, byTestId, loginLink, openPage, say, sessionOf, startServer, waitForTurns } from './page.mjs';

for (const path of ['', 'observe.html']) {
	test(`before its modules are there the page shows nothing that could be used: /${path}`, async (t) => {
		const server = await startServer(t);
		const page = await openPage(t, 'about:blank', { login: false });
		let release = () => {};
		const held = new Promise((resolve) => (release = resolve));
		await page.route(ENTRY, async (route) => {
			await held;
			await route.continue();
		});
		const loaded = page.goto(loginLink(`${server.url}/${path}`, server.token));
		// The last element is there, and nothing is painted before the styles are.
		await page.waitForFunction(() => document.querySelector('noscript') && [...document.querySelectorAll('link[rel="stylesheet"]')].every((link) => link.sheet));
		assert.deepEqual(await page.evaluate(() => [...document.body.children].filter((e) => e.checkVisibility()).map((e) => e.outerHTML)), []);
		release();
		await loaded;
		await page.waitForFunction(() => !document.body.classList.contains('locked'));
	});
}

/** In the page: of the sockets of a session, holds back what comes after `count` events, of which the first is `open`. */
function hold(count) {
	window.release = () => (window.isReleased = true);
	window.WebSocket = class extends WebSocket {
		constructor(url, protocols) {
			super(url, protocols);
			let left = count;
			const pass = (event) => {
				if (window.isReleased || event.isAgain || !/\/sessions\/[^/]+\/ws/.test(url) || left-- > 0) {
					return;
				}
				event.stopImmediatePropagation();
				const again = Object.assign(event.type === 'open' ? new Event('open') : new MessageEvent('message', { data: event.data }), { isAgain: true });
				const before = window.release;
				window.release = () => {
					before();
					this.dispatchEvent(again);
				};
			};
			['open', 'message'].forEach((type) => this.addEventListener(type, pass));
		}
	};
}

for (const [count, moment] of ['opens', 'has said who it is', 'has loaded the events'].entries()) {
	test(`a prompt that is sent before the connection ${moment} gets its turn, once`, async (t) => {
		const server = await startServer(t);
		const page = await openPage(t, 'about:blank', { login: false });
		await page.addInitScript(hold, count);
		const { id } = await server.createSession({});
		await page.goto(`${loginLink(server.url, server.token)}&session=${id}`);
		await byTestId(page, 'prompt').waitFor();
		await say(page, 'list');
		await page.locator('#tail [data-prompt-id]').waitFor();
		await page.evaluate(() => window.release());
		await waitForTurns(page);
		assert.equal(await sessionOf(page), id);
		assert.equal(readLog(server, id).filter(({ type }) => type === 'user_prompt').length, 1);
	});
}
