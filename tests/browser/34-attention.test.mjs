// What the page says while nobody looks at it, and what it shows while the server is down.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { input, post } from '../support/producer.mjs';
import { eventually } from '../support/wait.mjs';
import { assertNoFault } from './axe.mjs';
import { allowOnce, byTestId, openPage, say, sessionOf, sessionUrl, startInstalled, startServer, waitForStatus, waitForTurns, wholeBrowser } from './page.mjs';

wholeBrowser();

const isDown = (text) => /ERR_CONNECTION_REFUSED|WebSocket|Failed to fetch|Failed to load resource/.test(text);

/** In the page: notifications that tell what they were asked, and a page that is behind another one if the test says so. */
function fakeNotifications(permission) {
	window.notes = [];
	window.asked = 0;
	window.Notification = class {
		static permission = permission;
		static async requestPermission() {
			window.asked += 1;
			window.Notification.permission = 'granted';
			return 'granted';
		}
		constructor(title, options) {
			Object.assign(this, { title, ...options });
			window.notes.push(this);
		}
		close() {}
	};
	window.badges = [];
	navigator.setAppBadge = async (count) => void window.badges.push(count);
	navigator.clearAppBadge = async () => void window.badges.push(0);
	Object.defineProperty(document, 'hidden', { get: () => window.isBehind === true });
}

async function newSession(page, server, prompt) {
	await page.goto(`${server.url}/#/`);
	await byTestId(page, 'tour').waitFor();
	await say(page, prompt);
	return sessionOf(page);
}

test('the title, the icon and the badge tell how many sessions wait', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const page = await openPage(t, 'about:blank', { mayReport: (text) => text.includes('401') });
	await page.addInitScript(fakeNotifications, 'denied');
	await newSession(page, server, 'permission');
	await page.waitForFunction(() => document.title.startsWith('(1) Waiting for you: '));
	await newSession(page, server, 'permission');
	await page.waitForFunction(() => document.title.startsWith('(2) Waiting for you: '));
	assert.match(await page.getAttribute('link[rel="icon"]', 'href'), /^data:image\/svg/);
	assert.equal(await page.evaluate(() => window.badges.at(-1)), 2);
	await allowOnce(page);
	await page.waitForFunction(() => document.title.startsWith('(1) ') && !document.title.includes('Waiting'));
	assert.equal(await page.evaluate(() => window.badges.at(-1)), 1);
	await byTestId(page, 'sign-out').click();
	await page.waitForFunction(() => document.title.startsWith('Sign in') && window.badges.at(-1) === 0);
	assert.match(await page.getAttribute('link[rel="icon"]', 'href'), /^(page|assets)\/icon[\w-]*\.svg$/);
});

test('notifications are offered with the first prompt, once, and lead to the question', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const page = await openPage(t, 'about:blank');
	await page.addInitScript(fakeNotifications, 'default');
	await page.goto(server.url);
	await byTestId(page, 'tour').waitFor();
	assert.equal(await byTestId(page, 'notify').isVisible(), false);
	const quiet = await newSession(page, server, 'list');
	await byTestId(page, 'notify-yes').click();
	assert.equal(await page.evaluate(() => window.asked), 1);
	assert.equal(await byTestId(page, 'notify').isVisible(), false);
	await waitForTurns(page);
	assert.deepEqual(await page.evaluate(() => window.notes), [], 'the page is in front');

	const asks = await newSession(page, server, 'permission');
	await byTestId(page, 'permission-option').first().waitFor();
	await page.evaluate((hash) => (location.hash = hash), `#/s/${quiet}`);
	await waitForTurns(page);
	await page.evaluate(() => (window.isBehind = true));
	const other = await openPage(t, sessionUrl(server.url, asks));
	await allowOnce(other);
	await waitForTurns(other);
	await page.waitForFunction((id) => window.notes.some(({ data, title }) => data.session === id && title.endsWith('has finished')), asks);
	await say(other, 'permission');
	await page.waitForFunction((id) => window.notes.some(({ data, title }) => data.session === id && title.endsWith('is waiting for you')), asks);
	await page.evaluate(() => window.notes.at(-1).onclick());
	assert.equal(await sessionOf(page), asks);
	await page.locator('[data-testid="permission-option"][data-kind="allow_once"]').last().waitFor();

	await page.evaluate(() => (window.Notification.permission = 'default'));
	await newSession(page, server, 'list');
	assert.equal(await byTestId(page, 'notify').isVisible(), false, 'nobody is asked twice');
});

const noted = (page) => page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).map(({ title, data, renotify }) => ({ title, kind: data.kind, question: data.question, renotify })));
const ask = (id) => ({ type: 'permission_request', data: { request_id: id, tool_call: { tool_call_id: id }, options: [{ option_id: 'a', name: 'A', kind: 'allow_once' }] } });
const resolve = (id) => ({ type: 'permission_resolved', data: { request_id: id, outcome: 'selected', option_id: 'a' } });

/** In a page: it is behind another one if the test says so, and counts how often it rings. */
function countRings() {
	window.rings = 0;
	Object.defineProperty(document, 'hidden', { get: () => sessionStorage.getItem('behind') === '1' });
	const { showNotification } = ServiceWorkerRegistration.prototype;
	ServiceWorkerRegistration.prototype.showNotification = function (...args) {
		window.rings += 1;
		return showNotification.apply(this, args);
	};
}

const putBehind = (page, isBehind = true) => page.evaluate((is) => {
	sessionStorage.setItem('behind', is ? '1' : '0');
	document.dispatchEvent(new Event('visibilitychange'));
}, isBehind);

test('one tab rings; a second question rings again; what is answered, deleted or looked at disappears', async (t) => {
	const server = await startServer(t);
	for (const id of ['one', 'two']) {
		await server.createSession({ id, title: id });
	}
	const first = await openPage(t, 'about:blank', { serviceWorkers: 'allow', permissions: ['notifications'] });
	await first.addInitScript(countRings);
	await first.goto(`${server.url}/#/`);
	const second = await first.context().newPage();
	await second.addInitScript(countRings);
	await second.goto(`${server.url}/#/`);
	const tabs = [first, second];
	for (const tab of tabs) {
		await tab.evaluate(() => navigator.serviceWorker.ready);
		await tab.getByText('two').first().waitFor();
		await putBehind(tab);
	}
	const until = async (expected, why) => {
		await eventually(async () => JSON.stringify((await noted(first)).map(({ title, question = '' }) => `${title} ${question}`).sort()) === JSON.stringify(expected), why);
	};
	const rings = async () => (await Promise.all(tabs.map((tab) => tab.evaluate(() => window.rings)))).reduce((a, b) => a + b);

	await post(server, 'one', [{ type: 'agent_message_chunk', data: { text: 'x\n\n' } }, ask('q1')]);
	await until(['one is waiting for you q1'], 'the first question');
	await post(server, 'one', ask('q2'));
	await until(['one is waiting for you q2'], 'the second question, in the place of the first');
	assert.deepEqual((await noted(first)).map(({ renotify }) => renotify), [true], 'it rings again');
	await post(server, 'one', resolve('q2'));
	await eventually(async () => (await server.request('GET', '/api/sessions/one')).body.waiting_for === 'q1', 'the first to be the newest that is open');
	await post(server, 'two', [{ type: 'agent_message_chunk', data: { text: 'x\n\n' } }, ask('q3')]);
	await until(['one is waiting for you q2', 'two is waiting for you q3'], 'another session');
	assert.equal(await rings(), 3, 'an answer rings nowhere, and each question in one tab');
	await post(server, 'one', resolve('q1'));
	await until(['two is waiting for you q3'], 'the answered one to be gone');
	await post(server, 'one', input.end());
	await until(['one has finished ', 'two is waiting for you q3'], 'the end of the turn');
	assert.equal((await server.request('DELETE', '/api/sessions/two')).status, 204);
	await until(['one has finished '], 'the deleted one to be gone');
	await first.evaluate(() => (location.hash = '#/s/one'));
	await putBehind(first, false);
	await until([], 'what somebody looks at to be gone');

	// While a tab is in front nothing rings, and without the first one the second does.
	const before = await rings();
	await post(server, 'one', [{ type: 'agent_message_chunk', data: { text: 'y\n\n' } }, ask('q4')]);
	await second.waitForFunction(() => document.title.startsWith('(1)'));
	assert.deepEqual([await rings(), await noted(first)], [before, []]);
	await first.close();
	await eventually(async () => second.evaluate(async () => !(await navigator.locks.query()).pending.some(({ name }) => name === 'holdfast-rings')), 'the second tab to take over');
	await post(server, 'one', ask('q5'));
	await eventually(async () => (await noted(second)).some(({ question }) => question === 'q5'), 'the second tab to ring');
});

test('through the service worker, a notification leads to its session', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const page = await openPage(t, server.url, { serviceWorkers: 'allow', permissions: ['notifications'] });
	await page.evaluate(() => navigator.serviceWorker.ready);
	await page.evaluate(() => Object.defineProperty(document, 'hidden', { get: () => true }));
	await page.getByText('No sessions yet.').waitFor(); // what waits already when the list comes first is no news
	const id = await newSession(page, server, 'permission');
	const shown = () => page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).map(({ title, data }) => ({ title, session: data.session, kind: data.kind })));
	await eventually(async () => (await shown()).length === 1, 'a notification');
	assert.deepEqual(await shown(), [{ title: 'Demo: permission is waiting for you', session: id, kind: 'waiting' }]);
	await page.evaluate(() => (location.hash = '#/'));
	const [worker] = page.context().serviceWorkers();
	await worker.evaluate(async () => {
		const [notification] = await self.registration.getNotifications();
		self.dispatchEvent(new NotificationEvent('notificationclick', { notification }));
	});
	assert.equal(await sessionOf(page), id);
});

test('the page opens while the server is down, and says that it shows a copy; not once the login has ended', async (t) => {
	const server = await startInstalled(t);
	const page = await openPage(t, server.url, { serviceWorkers: 'allow', mayReport: isDown });
	await say(page, 'list');
	await waitForTurns(page);
	const id = await sessionOf(page);
	await page.evaluate(() => navigator.serviceWorker.ready);
	const last = readLog(server, id).at(-1).seq;
	const isKept = () => page.evaluate(async (seq) => {
		const settled = (request) => new Promise((done) => Object.assign(request, { onsuccess: ({ target }) => done(target.result) }));
		const database = await settled(indexedDB.open('holdfast'));
		const keys = await settled(database.transaction('events').objectStore('events').getAllKeys());
		database.close();
		return keys.some((key) => key[1] === seq);
	}, last);
	await eventually(isKept, 'the transcript to be kept');
	const shown = await page.locator('#transcript').innerText();
	await server.stop();
	await page.reload();
	await waitForStatus(page, 'retrying');
	await waitForTurns(page);
	assert.equal(await page.locator('#transcript').innerText(), shown);
	await byTestId(page, 'banner').getByText('cannot be reached. This is the copy that this browser keeps, up to ').waitFor();
	await assertNoFault(page, 'a copy, without a server');
	assert.equal(new URL(page.url()).hash, `#/s/${id}`);
	await byTestId(page, 'inspect').click(); // parts that were never used before
	await page.locator('[data-figure="status"]').waitFor();
	await page.keyboard.press('Control+k');
	await byTestId(page, 'found').first().waitFor();
	await page.keyboard.press('Escape');

	await page.evaluate(() => {
		const login = JSON.parse(localStorage.getItem('holdfast-login'));
		localStorage.setItem('holdfast-login', JSON.stringify({ ...login, expires_at: Date.now() - 1000 }));
	});
	await page.reload();
	await page.locator('input[type="password"], [data-testid="token"]').first().waitFor();
	assert.equal(await page.locator('#transcript').innerText(), '');
});

/** The rows of the list that the browser keeps. */
const keptList = (page) => page.evaluate(async () => {
	const settled = (request) => new Promise((done) => Object.assign(request, { onsuccess: ({ target }) => done(target.result) }));
	const database = await settled(indexedDB.open('holdfast'));
	const rows = await settled(database.transaction('sessions').objectStore('sessions').getAll());
	database.close();
	return rows.flatMap(({ list }) => JSON.parse(list ?? '[]').map(({ title }) => title));
});

test('the list of sessions is there while the server is down, says so, and goes with the login', async (t) => {
	const server = await startInstalled(t);
	const page = await openPage(t, server.url, { serviceWorkers: 'allow', mayReport: isDown });
	await page.evaluate(() => navigator.serviceWorker.ready);
	await server.createSession({ id: 'first', title: 'First of all' });
	await say(page, 'permission');
	await page.waitForFunction(() => document.title.startsWith('(1) '));
	const asks = await page.locator('#title').innerText();
	await eventually(async () => (await keptList(page)).filter((title) => ['First of all', asks].includes(title)).length === 2, 'the list to be kept, with its titles');
	await page.goto(`${server.url}/#/`);
	await server.stop();
	await page.reload();
	await page.getByText('The server cannot be reached. This is the list that this browser keeps.').waitFor();
	const list = byTestId(page, 'sessions');
	assert.match(await list.innerText(), /First of all/);
	assert.ok((await list.innerText()).includes(asks));
	assert.doesNotMatch(await list.innerText(), /Waiting/, 'nobody knows');
	assert.doesNotMatch(await page.title(), /^\(/);
	await list.getByText(asks).click();
	await byTestId(page, 'banner').getByText('This is the copy that this browser keeps').waitFor();

	await byTestId(page, 'sign-out').click();
	await page.waitForFunction(() => document.title.startsWith('Sign in'));
	assert.deepEqual(await keptList(page), []);
	assert.equal(await list.locator('li').count(), 0);
});

test('what the worker keeps holds nothing of a session', async (t) => {
	const server = await startInstalled(t);
	const page = await openPage(t, server.url, { serviceWorkers: 'allow' });
	await page.evaluate(() => navigator.serviceWorker.ready);
	await page.reload();
	await say(page, 'list');
	await waitForTurns(page);
	const kept = await page.evaluate(async () => (await (await caches.open('holdfast-page')).keys()).map(({ url }) => new URL(url).pathname));
	assert.ok(kept.some((path) => /^\/assets\/index-.*\.js$/.test(path)), String(kept));
	assert.deepEqual(kept.filter((path) => !/^\/($|observe\.html$|assets\/|page\/[\w-]+\.(svg|png)$|holdfast\.webmanifest$)/.test(path)), []);
	const manifest = await page.evaluate(async () => (await fetch('holdfast.webmanifest')).json());
	assert.equal(manifest.display, 'standalone');
});
