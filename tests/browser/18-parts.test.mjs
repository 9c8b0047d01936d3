// The parts of a transcript: code in colours, tables, diffs, titles that lie; and the page around it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Observer } from '../support/observer.mjs';
import { input, post } from '../support/producer.mjs';
import {
	ENTRY,
	assertNothingLost,
	assertSameAfterReload,
	assertShowsLog,
	byTestId,
	openPage,
	sessionUrl,
	startFromSources,
	startServer,
	waitForSeq,
	waitForStatus,
	watchForLoss,
} from './page.mjs';

const CODE = '```js\nconst answer = 42; // why\nreturn "text" + answer;\n```\n\n';

/** A page on a session with these events in it. */
async function openWith(t, events, { args, ...options } = {}) {
	const server = await startServer(t, { args });
	const { id } = await server.createSession({ title: 'Parts' });
	const { max_seq: last } = await post(server, id, events);
	const page = await openPage(t, sessionUrl(server.url, id), options);
	await waitForSeq(page, last);
	return { server, id, page };
}

/** The coloured pieces of code, by colour, as they stand in the text. */
const coloured = (page) =>
	page.evaluate(() =>
		Object.fromEntries(
			[...CSS.highlights].map(([name, ranges]) => [
				name,
				[...ranges].map((r) => r.startContainer.data.slice(r.startOffset, r.endOffset)),
			]),
		),
	);

const tool = (data) => ({
	type: 'tool_call',
	data: { tool_call_id: 'a', title: 'A tool', kind: 'edit', status: 'completed', ...data },
});

test('code is coloured where it stands, without an element more, and again after it has grown', async (t) => {
	const { server, id, page } = await openWith(t, [input.text(CODE, 'm1'), input.end()]);
	await page.waitForFunction(() => CSS.highlights.size >= 4);
	assert.deepEqual(await coloured(page), {
		'code-keyword': ['const', 'return'],
		'code-number': ['42'],
		'code-comment': ['// why'],
		'code-string': ['"text"'],
	});
	assert.equal(await page.locator('pre code *').count(), 0);

	await watchForLoss(page);
	await post(server, id, input.text('```python\ndef f():\n', 'm2'));
	await page.waitForFunction(() =>
		[...(CSS.highlights.get('code-keyword') ?? [])].some(
			(r) => r.toString() === '' || r.startContainer.data.startsWith('def'),
		),
	);
	await post(server, id, [input.text('    return None\n```\n\n', 'm2'), input.end()]);
	await page.waitForFunction(() =>
		[...CSS.highlights.get('code-number')].some(
			(r) => r.startContainer.data.slice(r.startOffset, r.endOffset) === 'None',
		),
	);
	assert.ok((await coloured(page))['code-keyword'].includes('def'));
	await assertNothingLost(page);

	// What leaves the page leaves nothing behind.
	await byTestId(page, 'new-session').click();
	await post(server, id, [input.text('The end.'), input.end()]);
	await page.goBack();
	await page.waitForFunction(() =>
		[...CSS.highlights.values()].every((ranges) => [...ranges].every((r) => r.startContainer.isConnected)),
	);
});

test('where the server has no highlight.js, code is plain, and nothing is amiss', async (t) => {
	const { page } = await openWith(t, [input.text(CODE, 'm1'), input.end()], {
		args: ['--highlight', ''],
		mayReport: (text) => /highlight\.min\.js|404/.test(text),
	});
	const answered = page.waitForEvent('console', { predicate: () => true, timeout: 2_000 }).catch(() => null);
	await answered;
	assert.equal(await page.locator('pre code').textContent(), 'const answer = 42; // why\nreturn "text" + answer;\n');
	assert.equal(await page.evaluate(() => CSS.highlights.size), 0);
});

test('code that takes the library for ever is left plain, and the next code is coloured all the same', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession();
	const page = await openPage(t, 'about:blank');
	await page.route('**/highlight.min.js', (route) =>
		route.fulfill({
			contentType: 'text/javascript',
			body: `self.hljs = { getLanguage: () => true, highlight(language, code) {
				while (code.includes('slow')) {}
				return { value: '<span class="hljs-keyword">' + code + '</span>' };
			} };`,
		}),
	);
	await page.goto(sessionUrl(server.url, id));
	await waitForStatus(page, 'live');
	await post(server, id, [
		input.text('```js\nslow\n```\n\n', 'm1'),
		input.text('```js\nquick\n```\n\n', 'm2'),
		input.end(),
	]);
	await page.waitForFunction(() => CSS.highlights.get('code-keyword')?.size === 1);
	assert.deepEqual(await coloured(page), { 'code-keyword': ['quick\n'] });
});

test('code is copied as it is', async (t) => {
	const { page } = await openWith(t, [input.text(CODE, 'm1'), input.end()], {
		permissions: ['clipboard-read', 'clipboard-write'],
	});
	await page.locator('.copy').click();
	await page.getByText('Copied').waitFor();
	assert.equal(
		await page.evaluate(() => navigator.clipboard.readText()),
		'const answer = 42; // why\nreturn "text" + answer;\n',
	);
});

test('a wide table scrolls by itself, by mouse and by keyboard, and the page does not', async (t) => {
	const cells = Array.from({ length: 20 }, (_, i) => `column_number_${i}`);
	const row = (all) => `| ${all.join(' | ')} |\n`;
	const { page } = await openWith(t, [
		input.text(`${row(cells)}${row(cells.map(() => '---'))}${row(cells)}\n`, 'm1'),
		input.end(),
	]);
	const scrolled = () => page.$eval('.table', (e) => [e.scrollLeft > 0, e.scrollWidth > e.clientWidth]);
	assert.deepEqual(await scrolled(), [false, true]);
	await page.locator('.table').focus();
	await page.keyboard.press('ArrowRight');
	await page.waitForFunction(() => document.querySelector('.table').scrollLeft > 0);
	assert.equal(await page.$eval('#scroller', (e) => e.scrollWidth - e.clientWidth), 0);
});

test('a long diff is shown in part, and whole when asked; what follows does not fold it again', async (t) => {
	const text = (word) => Array.from({ length: 900 }, (_, i) => `${word} ${i}`).join('\n');
	const content = [{ type: 'diff', path: '/a', old_text: text('old'), new_text: text('new') }];
	const { server, id, page } = await openWith(t, [tool({ content })]);
	const lines = page.locator('.diff .line');
	assert.equal(await lines.count(), 400);
	await page.getByRole('button', { name: 'Show 1400 more lines' }).click();
	assert.equal(await lines.count(), 1_800);
	await post(server, id, [{ type: 'tool_call_update', data: { tool_call_id: 'a', status: 'failed' } }, input.end()]);
	await page.waitForSelector('.tool[data-status="failed"]');
	assert.equal(await lines.count(), 1_800);
	assert.match(await page.locator('.diff-count').innerText(), /^\+900\s*−900$/);
});

test('a title, a path or a command that would run backwards is shown as it is written', async (t) => {
	const turned = 'photo_\u202egnp.exe';
	const named = 'photo_‹U+202E›gnp.exe';
	const { page } = await openWith(t, [
		tool({
			title: turned,
			locations: [{ path: turned }],
			raw_input: turned,
			content: [{ type: 'diff', path: turned, old_text: turned, new_text: `${turned}\u2066` }],
		}),
		{ type: 'file_write', data: { path: turned, size: 1 } },
		{
			type: 'permission_request',
			data: {
				request_id: 'r',
				tool_call: { tool_call_id: 'b', title: turned },
				options: [{ option_id: 'o', name: turned, kind: 'allow_once' }],
			},
		},
	]);
	const shown = await page.$eval('#transcript', (list) => list.textContent);
	assert.doesNotMatch(shown, /[\u202a-\u202e\u2066-\u2069]/);
	for (const place of [
		'.card-title',
		'.diff-path',
		'.line-item code',
		'.permission-what span',
		'.permission-options button',
	]) {
		assert.equal(await page.locator(place).first().textContent(), named, place);
	}
	assert.ok(shown.includes('‹U+2066›'));
});

test('an answer that was given before the agent was restarted is shown as such', async (t) => {
	const ask = (request_id) => ({
		type: 'permission_request',
		data: {
			request_id,
			tool_call: { tool_call_id: request_id, title: 'Make', raw_input: { command: 'make' } },
			options: [{ option_id: 'o', name: 'Allow', kind: 'allow_once' }],
		},
	});
	const answer = { request_id: 'first', outcome: 'selected', option_id: 'o', by: 'anna' };
	const { page } = await openWith(t, [
		ask('first'),
		{ type: 'permission_resolved', data: answer },
		{ type: 'agent_stopped', data: { reason: 'exit' } },
		ask('again'),
	]);
	const words = (id) => page.locator(`[data-request-id="${id}"]`).textContent();
	assert.equal(await words('first'), 'Make: Allow, answered by client anna');
	assert.equal(
		await words('again'),
		'Make: Allow, answered by client anna before the agent was restarted',
	);
});

test('why an agent failed is behind "Details"', async (t) => {
	const stderr = 'Error: no key\nrun `agent login` <b>first</b>';
	const { page } = await openWith(t, [
		{ type: 'agent_stopped', data: { reason: 'exit', detail: 'exit status 1', stderr } },
		{ type: 'agent_stopped', data: { reason: 'exit' } },
	]);
	assert.equal(await byTestId(page, 'failure').count(), 1);
	const words = byTestId(page, 'failure').locator('pre');
	assert.equal(await words.isVisible(), false);
	await byTestId(page, 'failure').locator('summary').click();
	assert.equal(await words.innerText(), stderr);
});

test('what a program has printed is shown without its terminal codes', async (t) => {
	const { page } = await openWith(t, [
		tool({ content: [{ type: 'content', content: { type: 'text', text: '\u001b[1;31merror\u001b[0m: no' } }] }),
	]);
	assert.equal(await page.locator('.output').textContent(), 'error: no');
});

test('an address with an id that no session can have says that there is none, and asks nobody', async (t) => {
	const server = await startServer(t);
	const page = await openPage(t, server.url);
	const sockets = [];
	page.on('websocket', (socket) => sockets.push(socket.url()));
	for (const bad of ['%20', 'a%2Fb', '.hidden', 'x'.repeat(129), '%E0%A4%A', 'ü']) {
		await page.evaluate((hash) => (location.hash = `#/s/${hash}`), bad);
		await waitForStatus(page, 'gone');
		assert.match(await page.locator('#empty').innerText(), /does not exist/, bad);
		assert.equal(await byTestId(page, 'prompt').isDisabled(), true, bad);
		await page.evaluate(() => (location.hash = '#/'));
		await byTestId(page, 'tour').waitFor();
	}
	assert.deepEqual(
		sockets.filter((url) => url.includes('/sessions/')),
		[],
	);
});

test('the meter says how full the context is, and warns', async (t) => {
	const usage = (used) => ({ type: 'usage', data: { mode: 'cumulative', used, size: 1000 } });
	const { server, id, page } = await openWith(t, [usage(250), input.end()]);
	const meter = page.locator('#meter');
	assert.equal(await meter.evaluate((e) => e.value), 0.25);
	assert.equal(await byTestId(page, 'usage').textContent(), '250 of 1K tokens');
	await post(server, id, usage(900));
	await page.waitForFunction(() => document.querySelector('#meter').value === 0.9);
	assert.match(await meter.getAttribute('class'), /full/);
});

test('light, dark, or as the system: kept, and there before anything is painted', async (t) => {
	const server = await startServer(t);
	const page = await openPage(t, server.url, { colorScheme: 'dark' });
	const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
	const dark = await background();
	await page.getByRole('button', { name: 'Colours: system' }).click();
	const light = await background();
	assert.notEqual(light, dark);
	await page.reload();
	assert.equal(await background(), light);
	await page.getByRole('button', { name: 'Colours: light' }).click();
	await page.emulateMedia({ colorScheme: 'light' });
	assert.equal(await background(), dark);
});

test('what comes live is said to those who hear the page; what is loaded or scrolled to is not', async (t) => {
	const { server, id, page } = await openWith(t, [input.text('Old.', 'm1'), input.end()]);
	assert.equal(await byTestId(page, 'spoken').textContent(), '');
	await post(server, id, [input.text('**New** things.', 'm2'), input.end()]);
	await page.waitForFunction(() => document.querySelector('#spoken').textContent.includes('New things.'));
	assert.equal(await byTestId(page, 'transcript').getAttribute('aria-live'), 'off');
});

test('the policy allows nothing but our own files, and the page has no script or style of its own', async (t) => {
	const server = await startFromSources(t);
	for (const path of ['/', '/observe.html', '/page/app.js', '/javascript/highlight.js/highlight.min.js']) {
		const { status, headers } = await server.request('GET', path);
		assert.equal(status, 200, path);
		const policy = headers.get('content-security-policy');
		assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/, path);
		assert.doesNotMatch(policy, /unsafe|\*|https?:/, path);
	}
	for (const path of ['/', '/observe.html']) {
		const { body } = await server.request('GET', path);
		assert.doesNotMatch(body, /<style|<script(?![^>]* src=)|\son\w+=|\sstyle=|(?:src|href)="(?:https?:)?\/\//);
	}
	assert.equal((await server.request('GET', '/javascript/jquery/jquery.min.js')).status, 404);
});

test('the first paint waits for no module', async (t) => {
	const server = await startServer(t);
	for (const path of ['/', '/observe.html']) {
		const page = await openPage(t, 'about:blank');
		let release;
		const released = new Promise((resolve) => (release = resolve));
		await page.route(ENTRY, (route) => released.then(() => route.continue()));
		await page.goto(`${server.url}${path}`, { waitUntil: 'commit' });
		await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
		assert.equal(await page.locator('[data-icon] svg').count(), 0, 'no module has run');
		release();
		await page.locator('[data-icon] svg').first().waitFor({ state: 'attached' });
	}
});

test('what was used is counted: in one line, and for each model where one looks closer', async (t) => {
	const usage = (model, input_tokens, output_tokens, amount) => ({
		type: 'usage',
		data: { mode: 'delta', model, input_tokens, output_tokens, cost: { amount, currency: 'USD' } },
	});
	const { server, id, page } = await openWith(t, [usage('large-1', 1200, 85, 0.02), input.end()]);
	const line = byTestId(page, 'usage');
	await page.waitForFunction(() => /0\.0200 USD/.test(document.querySelector('#usage').textContent));
	assert.equal(await line.textContent(), '1.2K tokens in, 85 out · 0.0200 USD');
	await post(server, id, [usage('small-1', 300, 15, 0.5), input.end()]);
	await page.waitForFunction(() => document.querySelector('#usage').textContent === '1.5K tokens in, 100 out · 0.52 USD');
	await line.click();
	const detail = byTestId(page, 'usage-detail');
	await detail.waitFor();
	const rows = await detail.locator('section').evaluateAll((all) =>
		all.map((one) => [
			one.querySelector('h3').textContent,
			Object.fromEntries([...one.querySelectorAll('dl > div')].map((row) => [...row.children].map((e) => e.textContent))),
		]),
	);
	assert.deepEqual(rows, [
		['This session', { 'input tokens': '1,500', 'output tokens': '100', cost: '0.52 USD' }],
		['large-1', { 'input tokens': '1,200', 'output tokens': '85' }],
		['small-1', { 'input tokens': '300', 'output tokens': '15' }],
	]);
	await page.keyboard.press('Escape');
	await detail.waitFor({ state: 'hidden' });
});

test("a command's output stands in one card, as it comes, and how it ended", async (t) => {
	const terminal = (data) => ({ type: 'x-acp-terminal', data: { terminal_id: 't1', ...data } });
	const { server, id, page } = await openWith(t, [
		terminal({ status: 'running', command: 'make', args: ['-j2', 'test'], cwd: '/src' }),
	]);
	const card = page.locator('[data-terminal-id="t1"]');
	await card.waitFor();
	assert.match(await card.locator('summary').innerText(), /^make -j2 test\s+Running$/);
	await page.evaluate(() => (window.card = document.querySelector('[data-terminal-id="t1"]')));
	await post(server, id, [
		terminal({ status: 'running', output: 'één\n', offset: 0 }),
		terminal({ status: 'running', output: 'two\n', offset: 6 }),
		terminal({ status: 'running', output: 'the end\n', offset: 110 }),
		terminal({ status: 'exited', exit_code: 2, signal: null, output_bytes: 118 }),
	]);
	await card.getByText('Exit code 2').waitFor();
	assert.equal(await card.locator('pre').textContent(), 'één\ntwo\n\n… 100 bytes omitted …\nthe end\n');
	assert.ok(await page.evaluate(() => window.card.isConnected), 'it is the same card');
	await post(server, id, [
		terminal({ terminal_id: 't2', status: 'running', command: 'true' }),
		terminal({ terminal_id: 't2', status: 'exited', exit_code: 0, signal: null, output_bytes: 0 }),
		input.end(),
	]);
	await page.locator('[data-terminal-id="t2"]').getByText('Done').waitFor();
	await assertShowsLog(page, server, id);
	await assertSameAfterReload(page);
});

test('what a write has changed is folded into its line', async (t) => {
	const diff = '@@ -1,2 +1,2 @@\n same\n-old\n+new\n@@ -40 +40,2 @@\n far\n+added\n\\ No newline at end of file\n';
	const { page } = await openWith(t, [
		{ type: 'file_write', data: { path: 'a.c', size: 10, diff, diff_truncated: true } },
		{ type: 'file_write', data: { path: 'b.c', size: 10, created: true } },
		input.end(),
	]);
	const [changed, made] = [page.locator('[data-seq="1"]'), page.locator('[data-seq="2"]')];
	assert.match(await changed.locator('summary').innerText(), /^Wrote a\.c\s+10 bytes\s+\+2\s*−1$/);
	assert.equal(await changed.locator('.diff').isVisible(), false);
	await changed.locator('summary').click();
	const lines = await changed.locator('.line').evaluateAll((all) =>
		all.map((e) => [e.classList[1], e.dataset.old, e.dataset.new, e.textContent.trimEnd()]),
	);
	assert.deepEqual(lines, [
		['same', '1', '1', 'same'],
		['del', '2', '', 'old'],
		['add', '', '2', 'new'],
		['skip', '', '', '…'],
		['same', '40', '40', 'far'],
		['add', '', '41', 'added'],
	]);
	assert.equal(await changed.getByText('Only the beginning of this change is kept.').isVisible(), true);
	assert.match(await made.innerText(), /new file/);
});

test('what an agent told only after it was started again is marked, and so is one that has forgotten', async (t) => {
	const cases = fileURLToPath(new URL('../unit/acp_agent_cases.sh', import.meta.url));
	const server = await startServer(t, { agent: `exec sh ${cases} remembers` });
	const { id } = await server.createSession({ title: 'Recovered' });
	const observer = await Observer.connect(t, server, id);
	await observer.loadAll();
	await observer.prompt('first question');
	await observer.waitForEvent('turn_end');
	await server.kill9();
	await server.restart();
	const page = await openPage(t, sessionUrl(server.url, id));
	await waitForSeq(page, 5); // agent_stopped
	await byTestId(page, 'prompt').fill('second question');
	await byTestId(page, 'prompt').press('Enter');
	await waitForSeq(page, 10);
	const mark = page.locator('.recovered');
	await mark.waitFor();
	assert.equal(await mark.count(), 1);
	assert.match(await mark.innerText(), /^Recovered from before the restart\n+This was said while nobody could hear it\.$/);
	assert.match(await page.locator('[data-type="agent_started"]').last().innerText(), /started again and continues the conversation$/);
	await assertSameAfterReload(page);
});
