// Who gets in, with what, and what is left of it in the browser.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { runToEnd } from '../support/server.mjs';
import { eventually } from '../support/wait.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, loginLink, openPage, say, sessionOf, sessionUrl, startServer, waitForSeq, waitForStatus, waitForTurns } from './page.mjs';

/** A refused request is in the browser's console, with its status. */
const mayReport = (text) => /status of 4(01|29)|WebSocket connection to .* failed/.test(text);

const base64 = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token as an application makes it, for `seconds`. */
function tokenFor(server, { role = 'controller', sub = 'ann', sessions = ['*'], seconds = 3600, hide } = {}) {
	const key = readFileSync(join(server.dataDir, 'token-secret'), 'utf8').trim();
	const exp = Math.floor(Date.now() / 1000) + seconds;
	const text = `${base64({ alg: 'HS256', typ: 'JWT' })}.${base64({ sub, exp, holdfast: { role, sessions, hide } })}`;
	return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`;
}

/** A page before anybody has logged in. */
async function openBlank(t, options = {}) {
	return openPage(t, 'about:blank', { mayReport, login: false, ...options });
}

const screen = (page) => byTestId(page, 'sign-in-screen');

async function addSession(server, id) {
	await server.createSession({ id });
	await post(server, id, [input.text('Only for those who may see it.\n\n'), input.end()]);
}

/** All text that the browser keeps for this origin, and the names of what is cached. */
function kept(page) {
	return page.evaluate(async () => {
		const open = indexedDB.open('holdfast', 1);
		const keys = await new Promise((resolve) => {
			open.onupgradeneeded = () => open.transaction.abort(); // there is none
			open.onerror = () => resolve([]);
			open.onsuccess = () => {
				const all = open.result.transaction('sessions').objectStore('sessions').getAllKeys();
				all.onsuccess = () => {
					open.result.close();
					resolve(all.result);
				};
			};
		});
		return { storage: JSON.stringify({ ...localStorage, ...sessionStorage }), keys, visible: document.body.innerText };
	});
}

test('a link logs in, and the token is nowhere in the browser', async (t) => {
	const server = await startServer(t);
	await addSession(server, 'first');
	const page = await openBlank(t);
	const addresses = [];
	page.on('framenavigated', (frame) => addresses.push(frame.url()));
	await page.goto(loginLink(sessionUrl(server.url, 'first'), server.token));
	await waitForSeq(page, 1);
	assert.equal(page.url(), sessionUrl(server.url, 'first'));
	assert.equal(addresses.at(-1), page.url());
	assert.equal(await byTestId(page, 'who').innerText(), 'Admin');

	const { storage } = await kept(page);
	assert.ok(!storage.includes(server.token), 'in localStorage');
	const cookies = await page.context().cookies();
	const { port } = new URL(server.url);
	assert.deepEqual(
		cookies.map(({ name, httpOnly, sameSite }) => ({ name, httpOnly, sameSite })),
		[{ name: `holdfast_${port}`, httpOnly: true, sameSite: 'Strict' }],
	);
	assert.ok(!cookies[0].value.includes(server.token));
	assert.equal(await page.evaluate(() => document.cookie), '');
	assert.ok(!storage.includes(cookies[0].value), 'the two halves are not in one place');

	await byTestId(page, 'inspect').click();
	await byTestId(page, 'inspector').waitFor();
	assert.ok(!(await page.content()).includes(JSON.parse(JSON.parse(storage)['holdfast-login']).login), 'in the inspector');

	await page.goto('about:blank');
	await page.goBack();
	await waitForSeq(page, 1);
	assert.equal(page.url(), sessionUrl(server.url, 'first'), 'in the history');
	await page.reload();
	await waitForStatus(page, 'live');
});

test('the token leaves the address even if the page does not work', async (t) => {
	const server = await startServer(t);
	const page = await openBlank(t, { mayReport: () => true });
	await page.route('**/app.js', (route) => route.abort());
	await page.goto(loginLink(server.url, server.token));
	assert.equal(page.url(), `${server.url}/`);
});

test('the sign-in screen', async (t) => {
	const server = await startServer(t);
	const page = await openBlank(t, { reducedMotion: 'reduce' });
	await page.goto(server.url);
	await screen(page).waitFor();
	await page.setViewportSize({ width: 1280, height: 800 });
	await assertNoFault(page, 'nobody is signed in');
	assert.equal(await page.locator('#sidebar').isVisible(), false);
	assert.match((await kept(page)).visible, /holdfast url --data/);

	await byTestId(page, 'token').fill('wrong');
	await byTestId(page, 'sign-in').click();
	await page.locator('.sign-in-fault', { hasText: 'not valid' }).waitFor();
	await assertNoFault(page, 'a wrong token');

	await byTestId(page, 'token').fill(loginLink(server.url, server.token)); // a whole link is as good
	await byTestId(page, 'token').press('Enter');
	await byTestId(page, 'tour').waitFor();
	assert.equal(await screen(page).isVisible(), false);
	await say(page, 'list');
	await waitForTurns(page);
});

test('sign out: sockets end, nothing is kept, other tabs are signed out too', async (t) => {
	const server = await startServer(t);
	await addSession(server, 'first');
	const page = await openPage(t, sessionUrl(server.url, 'first'), { mayReport });
	await waitForSeq(page, 1);
	const other = await page.context().newPage();
	await other.goto(sessionUrl(server.url, 'first'));
	await waitForSeq(other, 1);
	const wall = await page.context().newPage();
	await wall.goto(`${server.url}/observe.html`);
	await wall.locator('.tile .item').first().waitFor();
	await eventually(async () => (await kept(page)).keys.length > 0, 'the cache');
	const { login } = JSON.parse(await page.evaluate(() => localStorage['holdfast-login']));
	const [cookie] = await page.context().cookies();

	await byTestId(page, 'sign-out').click();
	for (const tab of [page, other, wall]) {
		await screen(tab).waitFor();
		const { storage, keys, visible } = await kept(tab);
		assert.equal(JSON.parse(storage)['holdfast-login'], undefined);
		assert.deepEqual(keys, []);
		assert.doesNotMatch(visible, /Only for those/);
	}
	assert.match((await kept(page)).visible, /You are signed out/);
	assert.equal(page.url(), `${server.url}/`);
	assert.deepEqual(await page.context().cookies(), []);
	const headers = { cookie: `${cookie.name}=${cookie.value}`, 'holdfast-login': login };
	const answer = await fetch(`${server.url}/api/login`, { headers });
	assert.equal(answer.status, 401, 'the login has ended on the server');
});

test('a token that ends covers the page; the same one goes on, with what was written', async (t) => {
	const server = await startServer(t);
	await addSession(server, 'first');
	const page = await openBlank(t);
	await page.goto(loginLink(sessionUrl(server.url, 'first'), tokenFor(server, { seconds: 5 })));
	await waitForSeq(page, 1);
	await byTestId(page, 'prompt').fill('not sent yet');
	await screen(page).waitFor();
	const { visible, keys } = await kept(page);
	assert.match(visible, /Your access has expired/);
	assert.doesNotMatch(visible, /Only for those/);
	assert.ok(keys.length > 0, 'the cache is kept for the next login');
	const attempts = await page.evaluate(() => performance.getEntriesByType('resource').length);

	await page.reload();
	await screen(page).waitFor();
	assert.doesNotMatch((await kept(page)).visible, /Only for those/);
	assert.ok(attempts < 200);

	const again = await openBlank(t);
	await again.goto(loginLink(sessionUrl(server.url, 'first'), tokenFor(server, { seconds: 5 })));
	await waitForSeq(again, 1);
	await byTestId(again, 'prompt').fill('not sent yet');
	await screen(again).waitFor();
	await byTestId(again, 'token').fill(tokenFor(server));
	await byTestId(again, 'sign-in').click();
	await waitForStatus(again, 'live');
	assert.equal(await byTestId(again, 'prompt').inputValue(), 'not sent yet');
	await byTestId(again, 'prompt').press('Enter');
	await waitForTurns(again, 2);
});

test('somebody else on the same browser does not see what was cached', async (t) => {
	const server = await startServer(t);
	await addSession(server, 'hers');
	const page = await openBlank(t);
	await page.goto(loginLink(sessionUrl(server.url, 'hers'), tokenFor(server, { seconds: 4 })));
	await waitForSeq(page, 1);
	await eventually(async () => (await kept(page)).keys.length > 0, 'the cache');
	await screen(page).waitFor();
	await byTestId(page, 'token').fill(tokenFor(server, { sub: 'bob', sessions: ['his.*'] }));
	await byTestId(page, 'sign-in').click();
	await waitForStatus(page, 'gone');
	assert.doesNotMatch((await kept(page)).visible, /Only for those/);
	assert.equal(await byTestId(page, 'session').count(), 0);
	assert.match((await kept(page)).keys.join(), /^sub:ann /);
});

test('a revoked token: a screen that says so, no cache, no attempts', async (t) => {
	const server = await startServer(t);
	await addSession(server, 'first');
	const page = await openBlank(t);
	let sockets = 0;
	page.on('websocket', () => (sockets += 1));
	await page.goto(loginLink(sessionUrl(server.url, 'first'), tokenFor(server)));
	await waitForSeq(page, 1);
	await eventually(async () => (await kept(page)).keys.length > 0, 'the cache');
	await runToEnd(['token', 'revoke', '--sub', 'ann', '--data', server.dataDir]);
	await screen(page).waitFor();
	await page.getByText('Your access was revoked').waitFor();
	assert.deepEqual((await kept(page)).keys, []);
	const before = sockets;
	await page.waitForTimeout(3_000);
	assert.equal(sockets, before, 'attempts to connect');
});

test('a second link asks before it replaces a login', async (t) => {
	const server = await startServer(t);
	await addSession(server, 'first');
	const page = await openPage(t, sessionUrl(server.url, 'first'), { mayReport });
	await waitForSeq(page, 1);
	await page.goto(loginLink(sessionUrl(server.url, 'first'), server.token));
	await waitForStatus(page, 'live');
	assert.equal(await byTestId(page, 'replace-login').count(), 0, 'the same link does not ask');

	const hers = loginLink(sessionUrl(server.url, 'first'), tokenFor(server, { role: 'observer' }));
	await page.goto(hers);
	await byTestId(page, 'replace-login').waitFor();
	assert.match(await byTestId(page, 'replace-login').innerText(), /signed in as Admin\. .* as ann \(observer\) instead/);
	await assertNoFault(page, 'the question');
	await byTestId(page, 'keep-login').click();
	assert.equal(await byTestId(page, 'who').innerText(), 'Admin');
	assert.equal(page.url(), sessionUrl(server.url, 'first'));

	const fresh = await page.context().newPage();
	await fresh.goto(hers);
	await byTestId(fresh, 'new-login').click();
	await waitForSeq(fresh, 1);
	assert.equal(await byTestId(fresh, 'who').innerText(), 'ann (observer)');
	await page.locator('#who', { hasText: 'ann (observer)' }).waitFor(); // the other tab follows
	await waitForSeq(page, 1);

	await fresh.goto(loginLink(server.url, 'wrong'));
	await fresh.getByText('You are signed in as before.').waitFor();
});

const shareLink = (url, token) => loginLink(url, token).replace('#token=', '#share=');

test('a share link stands beside the login of the browser, in its tab, for its sessions, and keeps nothing', async (t) => {
	const server = await startServer(t);
	await addSession(server, 'mine');
	await addSession(server, 'shared');
	const own = await openPage(t, sessionUrl(server.url, 'mine'), { mayReport });
	await waitForSeq(own, 1);
	await eventually(async () => (await kept(own)).keys.length === 2, 'the cache: the session, and the list');
	const { keys } = await kept(own);

	const { stdout } = await runToEnd(['token', 'create', '--role', 'observer', '--session', 'shared', '--link', '--data', server.dataDir]);
	const link = stdout.trim();
	assert.ok(link.startsWith(`${server.url}/#share=`), link);
	const shared = await own.context().newPage();
	await shared.goto(link);
	await waitForSeq(shared, 1);
	assert.equal(shared.url(), sessionUrl(server.url, 'shared'));
	assert.equal(await byTestId(shared, 'replace-login').count(), 0, 'it replaces nothing, and does not ask');
	assert.equal(await byTestId(shared, 'who').innerText(), 'Shared link (observer)');
	assert.match(await byTestId(shared, 'watching').innerText(), /^You are watching\. An observer cannot send prompts\.$/);
	assert.deepEqual(await shared.locator('[data-testid="session"]').evaluateAll((all) => all.length), 1);
	await assertNoFault(shared, 'a shared session');
	await shared.reload();
	await waitForSeq(shared, 1);
	assert.deepEqual((await kept(shared)).keys, keys, 'nothing of it is cached');
	const { localStorage: local, sessionStorage: tab } = await shared.evaluate(() => ({ localStorage: JSON.stringify(localStorage), sessionStorage: JSON.stringify(sessionStorage) }));
	assert.ok(!local.includes('share') && tab.includes('holdfast-share'));
	assert.ok(!(local + tab).includes(new URLSearchParams(new URL(link).hash.slice(1)).get('share')), 'the token');
	assert.equal((await own.context().cookies()).filter(({ expires }) => expires === -1).length, 1, 'it ends with the browser');

	// Another session of the server is not there for it; the first tab has noticed nothing.
	await shared.goto(sessionUrl(server.url, 'mine'));
	await waitForStatus(shared, 'gone');
	assert.doesNotMatch((await kept(shared)).visible, /Only for those/);
	assert.equal(await byTestId(own, 'who').innerText(), 'Admin');
	await own.reload();
	await waitForSeq(own, 1);

	// The same link again, in a tab of its own and in the same one; then it is left.
	const again = await own.context().newPage();
	await again.goto(link);
	await waitForSeq(again, 1);
	await shared.goto(link);
	await waitForSeq(shared, 1);
	assert.equal(await byTestId(shared, 'sign-out').innerText(), 'Leave');
	await byTestId(shared, 'sign-out').click();
	await shared.locator('#who', { hasText: 'Admin' }).waitFor();
	await byTestId(shared, 'session').nth(1).waitFor();
	await waitForStatus(again, 'live');
	assert.equal(await byTestId(again, 'who').innerText(), 'Shared link (observer)');
	assert.deepEqual((await kept(own)).keys.length, keys.length);
});

test('a share link without any login, and what becomes of it when it ends', async (t) => {
	const server = await startServer(t);
	await addSession(server, 'shared');
	const page = await openBlank(t);
	await page.goto(shareLink(sessionUrl(server.url, 'shared'), tokenFor(server, { role: 'observer', sessions: ['shared'], seconds: 5 })));
	await waitForSeq(page, 1);
	await screen(page).waitFor();
	assert.doesNotMatch((await kept(page)).visible, /Only for those/);
	const { storage, keys } = await kept(page);
	assert.ok(!storage.includes('holdfast-share'));
	assert.deepEqual(keys, []);
	await page.goto(shareLink(sessionUrl(server.url, 'shared'), tokenFor(server, { role: 'observer', sessions: ['shared'] })));
	await waitForSeq(page, 1);
	await byTestId(page, 'sign-out').click();
	await page.getByText('You have left the shared session').waitFor();
});

test('what a token hides is a quiet line, and another login of the same person does not see the cache of the first', async (t) => {
	const server = await startServer(t);
	await server.createSession({ id: 'one' });
	const tool = { type: 'tool_call', data: { tool_call_id: 'c', title: 'secret-title' } };
	const thought = { type: 'agent_thought_chunk', data: { text: 'secret-thought' } };
	await post(server, 'one', [input.text('Before.\n\n'), thought, tool, { type: 'plan', data: { entries: [{ content: 'secret-plan', priority: 'high', status: 'pending' }] } },
		{ type: 'agent_stopped', data: { reason: 'exit', detail: 'secret-detail' } }, input.text('After.\n\n'), input.end()]);
	const page = await openBlank(t);
	await page.goto(loginLink(sessionUrl(server.url, 'one'), tokenFor(server, { seconds: 6 })));
	await page.getByText('secret-title').first().waitFor();
	await eventually(async () => (await kept(page)).keys.length > 0, 'the cache');
	await screen(page).waitFor();
	const hide = ['thoughts', 'tools'];
	await page.goto('about:blank');
	await page.goto(loginLink(sessionUrl(server.url, 'one'), tokenFor(server, { hide })));
	await page.getByText('After.').waitFor();
	await waitForStatus(page, 'live');
	assert.equal(await page.locator('.hidden-note').allInnerTexts().then((all) => all.join()), '1 thought and 2 steps are hidden');
	assert.doesNotMatch(await page.content(), /secret-/);
	assert.equal(await byTestId(page, 'watching').innerText(), 'Thoughts and tool calls, files and questions are hidden.');
	await eventually(async () => (await kept(page)).keys.some((key) => key.includes(';hide=thoughts,tools')), 'a cache of its own');
	await byTestId(page, 'inspect').click();
	await page.locator('[data-testid="inspector"]').getByText('redacted').first().waitFor();
	await assertNoFault(page, 'hidden events');
	assert.doesNotMatch(await page.content(), /secret-/);
	const wall = await page.context().newPage();
	await wall.goto(`${server.url}/observe.html`);
	await wall.locator('.hidden-note').first().waitFor();
});

test('what the role may not do is not offered', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const admin = await openPage(t, server.url);
	await say(admin, 'permission');
	const id = await sessionOf(admin);
	await byTestId(admin, 'permission-option').first().waitFor();
	await say(admin, 'list');
	await byTestId(admin, 'queued').first().waitFor();

	const observer = await openBlank(t);
	await observer.goto(loginLink(sessionUrl(server.url, id), tokenFor(server, { role: 'observer' })));
	await byTestId(observer, 'permission-waits').waitFor();
	await byTestId(observer, 'queued').first().waitFor();
	for (const name of ['permission-option', 'session-menu', 'edit-queued', 'remove-queued']) {
		assert.equal(await byTestId(observer, name).count(), 0, name);
	}
	for (const name of ['prompt', 'send', 'cancel', 'new-session']) {
		assert.equal(await byTestId(observer, name).isVisible(), false, name);
	}
	await assertNoFault(observer, 'an observer');
	const wall = await observer.context().newPage();
	await wall.goto(`${server.url}/observe.html`);
	await byTestId(wall, 'permission-waits').waitFor();
	assert.equal(await byTestId(wall, 'permission-option').count(), 0);
	await assertNoFault(wall, 'the wall of an observer');

	const controller = await openBlank(t);
	await controller.goto(loginLink(sessionUrl(server.url, id), tokenFor(server, { sub: 'bob' })));
	await byTestId(controller, 'permission-option').first().waitFor();
	await say(controller, 'table');
	await byTestId(controller, 'queued').nth(1).waitFor();
	await byTestId(controller, 'session-menu').first().focus();
	await controller.keyboard.press('Enter');
	await byTestId(controller, 'rename-session').waitFor();
	assert.equal(await byTestId(controller, 'delete-session').count(), 0);
	await controller.keyboard.press('Escape');
	assert.equal(await byTestId(controller, 'edit-queued').count(), 1, 'its own only');
	assert.equal(await byTestId(admin, 'edit-queued').count(), 2, "everybody's");
	await controller.locator('[data-testid="permission-option"][data-kind="allow_once"]').click();
	await admin.getByText(/answered by (bob|client)/).waitFor();
	await controller.getByText('answered by you').waitFor();
});

test('the cookie of one server opens nothing at another port of the same host', async (t) => {
	const one = await startServer(t);
	const two = await startServer(t);
	const page = await openBlank(t);
	await page.goto(loginLink(one.url, one.token));
	await byTestId(page, 'tour').waitFor();
	const half = await page.evaluate(() => localStorage['holdfast-login']);
	await page.goto(two.url);
	await screen(page).waitFor();
	const status = () =>
		page.evaluate(async () => {
			const { login } = JSON.parse(localStorage['holdfast-login'] ?? '{}');
			return (await fetch('/api/sessions', { headers: login ? { 'holdfast-login': login } : {} })).status;
		});
	assert.equal(await status(), 401, 'the cookies alone');
	await page.evaluate((login) => localStorage.setItem('holdfast-login', login), half);
	assert.equal(await status(), 401, "with the other's half, too");
});

test('with --auth off there is nothing to sign in to', async (t) => {
	const server = await startServer(t, { args: ['--auth', 'off'] });
	const page = await openPage(t, server.url);
	await byTestId(page, 'tour').waitFor();
	assert.equal(await byTestId(page, 'sign-out').isVisible(), false);
	assert.equal(await byTestId(page, 'new-session').isVisible(), true);
	await page.goto(loginLink(server.url, 'a-link-of-yesterday'));
	await byTestId(page, 'tour').waitFor();
	await say(page, 'list');
	await waitForTurns(page);
});
