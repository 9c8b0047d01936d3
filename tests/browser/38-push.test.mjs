// The switch for push messages with a mocked PushManager, and what the worker makes of a message that it gets.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { post } from '../support/producer.mjs';
import { PushService } from '../support/push_service.mjs';
import { eventually } from '../support/wait.mjs';
import { byTestId, openPage, say, sessionOf, startServer, wholeBrowser } from './page.mjs';

wholeBrowser();

/** In the page: a browser whose push service the test is. `made`: what subscriptions there were. */
function fakePush({ permission, json }) {
	Object.assign(window, { made: [], ended: 0, current: null, asked: 0 });
	Object.defineProperty(Notification, 'permission', { get: () => (window.asked ? permission : sessionStorage.getItem('allowed') ?? 'default') });
	Notification.requestPermission = async () => {
		window.asked += 1;
		sessionStorage.setItem('allowed', permission);
		return permission;
	};
	const subscriptionOf = (options) => ({
		endpoint: json.endpoint, options, toJSON: () => ({ ...json, expirationTime: null }),
		unsubscribe: async () => {
			window.ended += 1;
			window.current = null;
			sessionStorage.removeItem('push');
			return true;
		},
	});
	if (sessionStorage.getItem('push')) {
		window.current = subscriptionOf({ applicationServerKey: new Uint8Array(JSON.parse(sessionStorage.getItem('push'))).buffer });
	}
	const manager = {
		getSubscription: async () => window.current,
		subscribe: async ({ userVisibleOnly, applicationServerKey }) => {
			sessionStorage.setItem('push', JSON.stringify([...applicationServerKey]));
			window.current = subscriptionOf({ userVisibleOnly, applicationServerKey: applicationServerKey.buffer });
			window.made.push({ userVisibleOnly, key: [...applicationServerKey] });
			return window.current;
		},
	};
	Object.defineProperty(ServiceWorkerRegistration.prototype, 'pushManager', { get: () => manager });
}

const ask = { type: 'permission_request', data: { request_id: 'q', tool_call: { tool_call_id: 'q' }, options: [{ option_id: 'a', name: 'A' }] } };

async function start(t, { permission = 'granted', args = [] } = {}) {
	const service = await PushService.start(t);
	const subscription = service.subscribe();
	const server = await startServer(t, { rate: 4000, args: [...service.args(), '--limit', 'push_delay_ms=0', ...args] });
	const page = await openPage(t, 'about:blank', { serviceWorkers: 'allow', mayReport: (text) => text.includes('401') });
	await page.addInitScript(fakePush, { permission, json: subscription.json });
	await page.goto(server.url);
	await byTestId(page, 'tour').waitFor();
	return { service, subscription, server, page, toggle: byTestId(page, 'push') };
}

test('push messages are off until they are switched on, and end with the switch and with the login', async (t) => {
	const { service, server, page, toggle } = await start(t);
	await toggle.getByText('Push notifications: off').waitFor();
	assert.equal(await toggle.innerText(), 'Push notifications: off');
	assert.deepEqual(await page.evaluate(() => [window.made.length, window.asked]), [0, 0]);
	await toggle.click();
	await toggle.getByText('Push notifications: on').waitFor();
	assert.equal(await toggle.innerText(), 'Push notifications: on');
	const [{ userVisibleOnly, key }] = await page.evaluate(() => window.made);
	assert.equal(userVisibleOnly, true);
	assert.equal(Buffer.from(key).toString('base64url'), (await server.request('GET', '/api/push')).body.key);

	await say(page, 'permission');
	const id = await sessionOf(page);
	assert.deepEqual(await service.messages(1), [{ session: id, kind: 'waiting', question: (await server.request('GET', `/api/sessions/${id}`)).body.waiting_for }]);
	await page.reload();
	await toggle.getByText('Push notifications: on').waitFor();
	assert.equal(await page.evaluate(() => window.made.length), 0, 'the browser has its subscription still');

	await toggle.click();
	await toggle.getByText('Push notifications: off').waitFor();
	assert.equal(await page.evaluate(() => window.ended), 1);
	const before = service.requests.length;
	await server.createSession({ id: 'quiet' });
	await post(server, 'quiet', [{ type: 'agent_message_chunk', data: { text: 'x\n\n' } }, ask]);

	await toggle.click();
	await toggle.getByText('Push notifications: on').waitFor();
	await byTestId(page, 'sign-out').click();
	await page.waitForFunction(() => document.title.startsWith('Sign in'));
	const subscriptions = async () => /holdfast_push_subscriptions (\d+)/.exec((await server.request('GET', '/metrics')).body)[1];
	assert.equal(await subscriptions(), '0');
	assert.equal(service.requests.length, before);
});

test('where notifications are denied it stays off and says why', async (t) => {
	const { page, toggle, server } = await start(t, { permission: 'denied' });
	await toggle.click();
	await page.getByText('This browser does not allow notifications from this page.').waitFor();
	assert.equal(await toggle.innerText(), 'Push notifications: off');
	assert.equal((await server.request('GET', '/api/push')).body.subscribed, false);
});

test('a server without push messages offers none', async (t) => {
	const server = await startServer(t, { args: ['--push-host', 'off'] });
	const page = await openPage(t, 'about:blank', { serviceWorkers: 'allow' });
	const asked = page.waitForResponse((response) => response.url().endsWith('/api/push'));
	await page.goto(server.url);
	assert.deepEqual(await (await asked).json(), { key: null, subscribed: false });
	assert.equal(await byTestId(page, 'push').isVisible(), false);
});

/** The browser as its push service would wake it. */
async function pusherOf(page, origin) {
	const cdp = await page.context().newCDPSession(page);
	const registrations = [];
	cdp.on('ServiceWorker.workerRegistrationUpdated', ({ registrations: news }) => registrations.push(...news));
	await cdp.send('ServiceWorker.enable');
	await eventually(() => registrations.length > 0, 'the worker to be registered');
	const registrationId = registrations[0].registrationId;
	return (data) => cdp.send('ServiceWorker.deliverPushMessage', { origin, registrationId, data: typeof data === 'string' ? data : JSON.stringify(data) });
}

const shown = (page) => page.evaluate(async () => {
	const notes = await (await navigator.serviceWorker.ready).getNotifications();
	return notes.map(({ title, tag, data: { session, kind, question }, renotify, silent }) => ({ title, tag, renotify, silent: silent === true, data: { session, kind, ...(question && { question }) } }));
});

test('the worker shows a message in the words of the page, once, and not while the page is in front', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const page = await openPage(t, 'about:blank', { serviceWorkers: 'allow', permissions: ['notifications'] });
	await page.goto(server.url);
	await page.evaluate(() => navigator.serviceWorker.ready);
	await server.createSession({ id: 'named', title: 'Deploy the site' });
	await page.getByText('Deploy the site').waitFor();
	await eventually(() => page.evaluate(async () => {
		const settled = (request) => new Promise((done) => Object.assign(request, { onsuccess: ({ target }) => done(target.result) }));
		const database = await settled(indexedDB.open('holdfast'));
		const rows = await settled(database.transaction('sessions').objectStore('sessions').getAll());
		database.close();
		return rows.some(({ list }) => list?.includes('Deploy'));
	}), 'the list to be kept');
	const deliver = await pusherOf(page, server.url);
	await deliver({ session: 'one', kind: 'idle' });
	await page.goto('about:blank'); // nobody has the page open now
	for (const data of [{ session: 'one', kind: 'waiting' }, { session: 'one', kind: 'waiting' }, 'no JSON', {}, { session: '<b>', kind: 'waiting' }, { session: 'one', kind: 'toString' }, { session: 'two', kind: 'idle' }, { session: 'named', kind: 'idle' }]) {
		await deliver(data);
	}
	await page.goto(server.url);
	await page.evaluate(() => navigator.serviceWorker.ready);
	await eventually(async () => (await shown(page)).length >= 3, 'three notifications');
	assert.deepEqual((await shown(page)).sort((a, b) => a.tag.localeCompare(b.tag)), [
		{ title: 'Deploy the site has finished', tag: 'named', renotify: false, silent: false, data: { session: 'named', kind: 'idle' } },
		{ title: 'Session one is waiting for you', tag: 'one', renotify: false, silent: false, data: { session: 'one', kind: 'waiting' } },
		{ title: 'Session two has finished', tag: 'two', renotify: false, silent: false, data: { session: 'two', kind: 'idle' } },
	]);
});

test('a second question rings again, and one that has its answer is shown in silence and disappears', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const page = await openPage(t, server.url, { serviceWorkers: 'allow', permissions: ['notifications'] });
	await page.evaluate(() => navigator.serviceWorker.ready);
	const deliver = await pusherOf(page, server.url);
	const worker = page.context().serviceWorkers()[0];
	const shownBy = () => worker.evaluate(async () => (await self.registration.getNotifications()).map(({ title, data, renotify, silent }) => ({ title, question: data.question, renotify, silent: silent === true })));
	await page.goto('about:blank');
	await deliver({ session: 'one', kind: 'waiting', question: 'q1' });
	await eventually(async () => (await shownBy()).length === 1, 'the first question');
	await deliver({ session: 'one', kind: 'waiting', question: 'q2' });
	await eventually(async () => (await shownBy())[0].question === 'q2', 'the second');
	assert.deepEqual(await shownBy(), [{ title: 'Session one is waiting for you', question: 'q2', renotify: true, silent: false }]);
	await worker.evaluate(() => {
		self.seen = [];
		const { showNotification } = self.registration;
		self.registration.showNotification = function (title, options) {
			self.seen.push([title, options.silent]);
			return showNotification.call(this, title, options);
		};
	});
	await deliver({ session: 'one', kind: 'over' });
	await eventually(async () => (await shownBy()).length === 0, 'it to be gone');
	assert.deepEqual(await worker.evaluate(() => self.seen), [['Session one has its answer', true]]);
});

test('the words of the page and of the worker are the same', () => {
	const wordsOf = (file) => /const NEWS = (\{.*\});/.exec(readFileSync(new URL(`../../web/${file}`, import.meta.url), 'utf8'))[1];
	assert.equal(wordsOf('sw.js'), wordsOf('page/attention.js'));
});
