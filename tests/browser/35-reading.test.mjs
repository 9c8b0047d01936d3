// Reading: what is long, what runs the other way, paper and markdown; and the keyboard and the finger.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, openPage, say, sessionUrl, startServer, waitForSeq, waitForStatus, waitForTurns } from './page.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const LINES = Array.from({ length: 60 }, (_, i) => `line ${i + 1}`).join('\n');

/** A session with a tool call and its terminal, in one order or the other, and texts in two directions. */
async function tell(server, first) {
	const { id } = await server.createSession({ title: 'Reading' });
	const call = { type: 'tool_call', data: { tool_call_id: 'a', title: 'Run `ls -la`', kind: 'execute', status: 'in_progress', content: [{ type: 'terminal', terminal_id: 't1' }] } };
	const terminal = { type: 'x-acp-terminal', data: { terminal_id: 't1', command: 'ls', args: ['-la'], status: 'running' } };
	await post(server, id, [
		...(first === 'tool' ? [call, terminal] : [terminal, call]),
		{ type: 'x-acp-terminal', data: { terminal_id: 't1', status: 'exited', exit_code: 0, output: LINES } },
		{ type: 'tool_call_update', data: { tool_call_id: 'a', status: 'completed' } },
		{ type: 'agent_message_chunk', data: { text: 'שלום עולם\n\n```mermaid\ngraph TD; A-->B\n```\n\nLatin text.\n\n' } },
		{ type: 'tool_call', data: { tool_call_id: 'b', title: 'srv/app/main.c', kind: 'read', status: 'completed', locations: [{ path: '/srv/app/main.c' }, { path: '/srv/app/other.c' }, { path: '/srv/app/main.c', line: 7 }] } },
		input.end(),
	]);
	return id;
}

for (const first of ['tool', 'terminal']) {
	test(`a tool's command has one card, folded, if the ${first} comes first`, async (t) => {
		const server = await startServer(t, { rate: 4000 });
		const id = await tell(server, first);
		const page = await openPage(t, sessionUrl(server.url, id));
		await waitForSeq(page, 8);
		assert.equal(await page.locator('#transcript .card').filter({ visible: true }).count(), 2);
		assert.equal(await page.locator('.card-title code').innerText(), 'ls -la');
		assert.deepEqual(await page.locator('.locations li').allInnerTexts(), ['/srv/app/other.c', '/srv/app/main.c:7'], 'what the title names is not said again');
		const shown = page.locator('.output');
		assert.ok((await shown.innerText()).endsWith('line 12'));
		await page.getByRole('button', { name: 'Show 48 more lines' }).click();
		await page.waitForFunction(() => document.querySelector('.output').innerText.trim().endsWith('line 60'));
		assert.match(await page.locator('.code-head').innerText(), /Mermaid diagram, as its source/);
		const starts = await page.$$eval('.message p', (all) => all.map((p) => [p.dir, getComputedStyle(p).direction]));
		assert.deepEqual(starts, [['auto', 'rtl'], ['auto', 'ltr']]);
		await assertNoFault(page, 'a folded card');
	});
}

test('an answer is copied and the transcript saved as markdown; a long prompt is folded; paper has the transcript alone', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const { id } = await server.createSession({ title: 'Reading' });
	const page = await openPage(t, sessionUrl(server.url, id), { permissions: ['clipboard-read', 'clipboard-write'] });
	await waitForStatus(page, 'live');
	await say(page, 'table');
	await waitForTurns(page);
	await page.locator('[data-action="copy-answer"]').click();
	await page.locator('[data-action="copy-answer"]').getByText('Copied').waitFor();
	const copied = await page.evaluate(() => navigator.clipboard.readText());
	assert.match(copied, /^\|.*\|$/m);
	const [download] = await Promise.all([page.waitForEvent('download'), byTestId(page, 'export').click()]);
	const saved = readFileSync(await download.path(), 'utf8');
	assert.ok(saved.startsWith('# Demo: table\n\n## Prompt\n\ntable\n'), saved); // the agent's title
	assert.ok(saved.includes(copied.slice(0, copied.indexOf('|', copied.indexOf('| text')))), saved);
	assert.match(saved, /^\*\*Tool:\*\* .+: completed$/m);

	await say(page, `list ${LINES}`);
	await page.locator('.prompt .more').waitFor();
	assert.doesNotMatch(await page.locator('.prompt-text').last().innerText(), /line 40/);
	await page.locator('.prompt .more').click();
	await page.waitForFunction(() => [...document.querySelectorAll('.prompt-text')].some((one) => one.innerText.includes('line 60')));

	await page.emulateMedia({ media: 'print' });
	await page.evaluate(() => window.dispatchEvent(new Event('beforeprint')));
	assert.equal(await page.locator('#sidebar').isVisible(), false);
	assert.equal(await byTestId(page, 'prompt').isVisible(), false);
	assert.equal(await page.locator('[data-seq="1"]').isVisible(), true);
	assert.ok(await page.evaluate(() => document.querySelector('#scroller').scrollHeight <= document.querySelector('#scroller').clientHeight + 1), 'nothing is cut');
});

test('the keyboard alone: a list of shortcuts, and one stop for many sessions', async (t) => {
	const server = await startServer(t);
	for (let i = 0; i < 12; i++) {
		await server.createSession({ title: `Session number ${i}` });
	}
	const page = await openPage(t, server.url);
	await page.waitForFunction(() => document.querySelectorAll('[data-testid="session"]').length === 12);
	assert.equal(await page.locator('#sessions a[tabindex="0"]').count(), 1);
	await page.locator('#sessions a[tabindex="0"]').focus();
	await page.keyboard.press('ArrowDown');
	await page.keyboard.press('ArrowDown');
	assert.equal(await page.evaluate(() => [...document.querySelectorAll('#sessions a')].indexOf(document.activeElement)), 2);
	await page.keyboard.press('End');
	assert.equal(await page.evaluate(() => [...document.querySelectorAll('#sessions a')].indexOf(document.activeElement)), 11);
	for (let i = 0; i < 3 && (await page.evaluate(() => document.activeElement.closest('#sessions') !== null)); i++) {
		await page.keyboard.press('Tab');
	}
	assert.equal(await page.evaluate(() => document.activeElement.closest('#sessions')), null);
	await page.keyboard.press('?');
	await byTestId(page, 'shortcuts').waitFor();
	await assertNoFault(page, 'the shortcuts');
	await page.keyboard.press('Escape');
	await byTestId(page, 'shortcuts').waitFor({ state: 'detached' });
	await byTestId(page, 'prompt').press('?');
	assert.equal(await byTestId(page, 'prompt').inputValue(), '?', 'who types gets a question mark');
});

test('a phone: Enter makes a new line, targets are large, a swipe opens the list', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const page = await openPage(t, server.url, PHONE);
	await byTestId(page, 'tour').waitFor();
	await byTestId(page, 'prompt').fill('list');
	await byTestId(page, 'prompt').press('Enter');
	assert.equal(await byTestId(page, 'prompt').inputValue(), 'list\n');
	await byTestId(page, 'send').click();
	await waitForTurns(page);
	const small = await page.$$eval('header button, .dock button', (all) =>
		all.filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44).map((e) => e.outerHTML),
	);
	assert.deepEqual(small, []);
	const swipe = (from, to) => page.evaluate(([x1, x2]) => {
		const touch = (clientX) => new Touch({ identifier: 1, target: document.body, clientX, clientY: 300 });
		document.body.dispatchEvent(new TouchEvent('touchstart', { bubbles: true, touches: [touch(x1)], changedTouches: [touch(x1)] }));
		document.body.dispatchEvent(new TouchEvent('touchend', { bubbles: true, touches: [], changedTouches: [touch(x2)] }));
	}, [from, to]);
	await swipe(100, 250);
	assert.equal(await page.evaluate(() => document.body.classList.contains('sidebar-open')), false, 'not from the middle');
	await swipe(5, 150);
	await page.waitForFunction(() => document.body.classList.contains('sidebar-open'));
	await swipe(200, 60);
	await page.waitForFunction(() => !document.body.classList.contains('sidebar-open'));
});
