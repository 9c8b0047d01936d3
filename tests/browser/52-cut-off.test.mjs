// What a turn leaves behind that was cut off: calls that never say how they ended, why a call failed, and all of it in a saved transcript.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { input, post } from '../support/producer.mjs';
import { scratchDir } from '../support/server.mjs';
import { assertNoFault } from './axe.mjs';
import { byTestId, openPage, say, sessionUrl, startServer, waitForSeq, waitForStatus, waitForTurns } from './page.mjs';
import { Proxy } from './proxy.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const LONG = 'x'.repeat(600);

/** An agent that begins a call with a command and never says how it ended; "die" ends the agent, a cancellation its turn. */
const AGENT = `
const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
let turn = null;
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
	const { id, method, params, result } = JSON.parse(line);
	const update = (update) => say({ method: 'session/update', params: { sessionId: 's', update } });
	if (method === 'initialize') {
		say({ id, result: { protocolVersion: 1, agentCapabilities: {} } });
	} else if (method === 'session/new') {
		say({ id, result: { sessionId: 's' } });
	} else if (method === 'session/prompt') {
		turn = { id, text: params.prompt[0].text };
		update({ sessionUpdate: 'tool_call', toolCallId: 'a' + id, title: 'read', kind: 'read', status: 'in_progress', locations: [{ path: process.cwd() + '/one.txt' }] });
		say({ id: 'terminal', method: 'terminal/create', params: { sessionId: 's', command: 'sleep', args: ['600'] } });
	} else if (id === 'terminal') {
		update({ sessionUpdate: 'tool_call', toolCallId: 'b' + turn.id, title: 'sleep 600', kind: 'execute', status: 'in_progress', content: [{ type: 'terminal', terminalId: result.terminalId }] });
		if (turn.text === 'die') {
			setTimeout(() => process.exit(3), 200);
		}
	} else if (method === 'session/cancel') {
		say({ id: turn.id, result: { stopReason: 'cancelled' } });
	}
});`;

async function start(t) {
	const file = join(scratchDir(t), 'agent.cjs');
	writeFileSync(file, AGENT);
	return startServer(t, { agent: `exec ${process.execPath} ${file}` });
}

const chips = (page) => page.locator('.tool > summary .chip').allInnerTexts();
const waitForChips = (page, wanted) =>
	page.waitForFunction((text) => JSON.stringify([...document.querySelectorAll('.tool > summary .chip')].map((one) => one.textContent)) === text, JSON.stringify(wanted));

test('a call of a turn that was stopped is not finished: at once, on the wall and after a reload', async (t) => {
	const server = await start(t);
	const page = await openPage(t, server.url);
	await say(page, 'Go');
	await waitForChips(page, ['Running', 'Running']);
	const wall = await openPage(t, `${server.url}/observe.html`);
	await waitForChips(wall, ['Running', 'Running']);
	await byTestId(page, 'cancel').click();
	await waitForTurns(page);
	for (const each of [page, wall]) {
		await waitForChips(each, ['Not finished', 'Not finished']);
	}
	await assertNoFault(page, 'calls that are not finished');
	await page.reload();
	await waitForChips(page, ['Not finished', 'Not finished']);
	await say(page, 'Go on');
	await waitForChips(page, ['Not finished', 'Not finished', 'Running', 'Running']);
});

test('a call of an agent that has died is not finished, nor is one of a server that was killed', async (t) => {
	const server = await start(t);
	const proxy = await Proxy.start(t, server);
	const page = await openPage(t, proxy.url, { mayReport: () => true });
	await say(page, 'die');
	await waitForTurns(page);
	await waitForChips(page, ['Not finished', 'Not finished']);
	assert.notEqual(await page.locator('.terminal-line .chip').innerText(), 'Running');

	await say(page, 'Go');
	await waitForChips(page, ['Not finished', 'Not finished', 'Running', 'Running']);
	await server.kill9();
	await server.restart();
	await byTestId(page, 'connection').click();
	await waitForStatus(page, 'live');
	await waitForTurns(page, 2);
	await waitForChips(page, ['Not finished', 'Not finished', 'Not finished', 'Not finished']);
	assert.equal(await byTestId(page, 'again').filter({ visible: true }).count(), 1, 'of the newest turn');
	assert.deepEqual((await page.locator('.terminal-line .chip').allInnerTexts()).filter((words) => words === 'Running'), []);
});

test('what comes of a call behind the end of its turn counts', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const { id } = await server.createSession();
	const page = await openPage(t, sessionUrl(server.url, id));
	await post(server, id, [input.tool('a'), input.tool('b'), input.toolDone('b'), { type: 'tool_call_update', data: { tool_call_id: 'b', title: 'b, done' } }, input.end()]);
	await waitForChips(page, ['Not finished', 'Done']);
	await post(server, id, { type: 'tool_call_update', data: { tool_call_id: 'a', status: 'in_progress' } });
	await waitForChips(page, ['Running', 'Done']);
	await post(server, id, input.toolDone('a'));
	await waitForChips(page, ['Done', 'Done']);
	await page.reload();
	await waitForSeq(page, 7);
	assert.deepEqual(await chips(page), ['Done', 'Done']);
});

test('a command with hundreds of lines costs as much for the last as for the first, and has all its events', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const { id } = await server.createSession();
	const page = await openPage(t, sessionUrl(server.url, id));
	const line = (text) => ({ type: 'tool_call_update', data: { tool_call_id: 'a', content: [{ type: 'content', content: { type: 'text', text } }] } });
	const made = async (seq, event) => {
		await page.evaluate(() => (window.made = 0));
		await post(server, id, event);
		await waitForSeq(page, seq);
		return page.evaluate(() => window.made);
	};
	await post(server, id, input.tool('a'));
	await waitForSeq(page, 1);
	await page.evaluate(() => {
		const create = document.createElement.bind(document);
		document.createElement = (...args) => {
			window.made += 1;
			return create(...args);
		};
	});
	const first = await made(2, line('one'));
	await post(server, id, Array.from({ length: 250 }, (_, i) => line(`line ${i}`)));
	await waitForSeq(page, 252);
	// The page may draw something else meanwhile, but not 250 lines anew.
	const last = await made(253, line('last'));
	assert.ok(last < first + 125, `${first} elements for the first, ${last} for the last`);
	const numbers = () => page.$$eval('.tool [data-seq], .tool', (all) => all.map((one) => Number(one.dataset.seq)).sort((a, b) => a - b));
	assert.deepEqual(await numbers(), Array.from({ length: 253 }, (_, i) => i + 1));
	await page.reload();
	await waitForSeq(page, 253);
	assert.deepEqual(await numbers(), Array.from({ length: 253 }, (_, i) => i + 1));
	assert.equal(await page.locator('.output').innerText(), 'last');
});

test('why something failed is read without scrolling, also on a phone, and whatever it is stays in its box', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const { id } = await server.createSession({ title: LONG });
	const words = `The file could not be read, because ${'it is in a directory that nobody may enter, '.repeat(8)}${LONG}`;
	const text = (said) => ({ content: [{ type: 'content', content: { type: 'text', text: said } }] });
	await post(server, id, [
		{ type: 'tool_call', data: { tool_call_id: 'a', title: `Read ${LONG}`, kind: 'read', status: 'failed', locations: [{ path: `/${LONG}` }], ...text(words) } },
		{ type: 'tool_call', data: { tool_call_id: 'b', title: 'Fold', kind: 'read', status: 'failed', ...text(`${words}\n`.repeat(40)) } },
		{ type: 'tool_call', data: { tool_call_id: 'c', title: 'Raw', kind: 'other', status: 'failed', raw_output: { error: words } } },
		{ type: 'turn_end', data: { stop_reason: 'error', message: words } },
	]);
	const wall = await openPage(t, `${server.url}/observe.html`);
	await waitForSeq(wall, 4);
	assert.equal(await byTestId(wall, 'again').filter({ visible: true }).count(), 0, 'a wall is not for that');
	for (const options of [{}, { ...PHONE, colorScheme: 'dark' }]) {
		const page = await openPage(t, sessionUrl(server.url, id), options);
		await waitForSeq(page, 4);
		assert.equal(await page.locator('.output').filter({ visible: true }).count(), 3);
		const wide = await page.$$eval('.output', (all) => all.filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth).length);
		assert.equal(wide, 0, 'nothing is scrolled to be read');
		const out = await page.$$eval('.item', (items) => items.flatMap((item) => {
			const box = item.getBoundingClientRect();
			const isOut = (one) => one.checkVisibility() && one.getBoundingClientRect().width > 1 && (one.getBoundingClientRect().right > box.right + 1 || one.getBoundingClientRect().left < box.left - 1);
			return [...item.querySelectorAll('*')].filter(isOut).map((one) => one.outerHTML.slice(0, 100));
		}));
		assert.deepEqual(out, []);
		await assertNoFault(page, 'long errors');
	}
});

test('a turn that ended with an error can be sent again, and once it was there is no button', async (t) => {
	const server = await startServer(t);
	const page = await openPage(t, server.url);
	await say(page, 'error');
	await waitForTurns(page);
	await page.locator('.rule .again').click();
	await waitForTurns(page, 2);
	assert.equal(await page.locator('.prompt-text').filter({ hasText: 'error' }).count(), 2);
	assert.equal(await byTestId(page, 'again').filter({ visible: true }).count(), 1, 'of the newest turn');
	await assertNoFault(page, 'a turn that ended with an error');
	await say(page, 'hello');
	await waitForTurns(page, 3);
	assert.equal(await byTestId(page, 'again').filter({ visible: true }).count(), 0);
});

test('a saved transcript says which file was read, how a call ended and why a turn did', async (t) => {
	const server = await startServer(t, { rate: 4000 });
	const { id } = await server.createSession({ title: 'Saved' });
	await post(server, id, [
		{ type: 'tool_call', data: { tool_call_id: 'a', title: 'read', kind: 'read', status: 'pending' } },
		{ type: 'tool_call_update', data: { tool_call_id: 'a', title: 'one.txt', status: 'completed', locations: [{ path: '/srv/app/one.txt' }, { path: '/srv/app/one.txt', line: 3 }] } },
		input.text('Read it.\n\n'),
		{ type: 'tool_call', data: { tool_call_id: 'b', title: 'Edit `/srv/a`\n# no heading', kind: 'edit', status: 'failed', content: [{ type: 'diff', path: '/srv/a`b', old_text: 'a', new_text: 'b' }] } },
		{ type: 'tool_call', data: { tool_call_id: 'c', title: 'ls -la', kind: 'execute', status: 'in_progress' } },
		{ type: 'turn_end', data: { stop_reason: 'error', message: 'no money' } },
	]);
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForSeq(page, 6);
	const [download] = await Promise.all([page.waitForEvent('download'), byTestId(page, 'export').click()]);
	assert.equal(readFileSync(await download.path(), 'utf8'), [
		'# Saved', '**Tool:** read: one.txt (`/srv/app/one.txt`): completed', 'Read it.', '**Tool:** Edit `/srv/a` # no heading (`` /srv/a`b ``): failed',
		'**Tool:** execute: ls -la: not finished', '**The turn ended:** error: no money\n',
	].join('\n\n'));
});
