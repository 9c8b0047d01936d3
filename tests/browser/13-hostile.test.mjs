// Whatever an agent or a producer says is text. It can neither run, nor load, nor look like the page's own.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { post } from '../support/producer.mjs';
import {
	assertSameAfterReload,
	assertShowsLog,
	openPage,
	sessionUrl,
	startServer,
	waitForSeq,
	waitForStatus,
} from './page.mjs';

const HTML = [
	'<img src=x onerror="window.owned=1">',
	'<script>window.owned=1</script>',
	'<svg><script>window.owned=1</script></svg><svg onload="window.owned=1">',
	'<iframe srcdoc="<script>parent.owned=1</script>"></iframe>',
	'<a href="javascript:window.owned=1" id="bait">x</a>',
	'<style>* { display: none !important }</style>',
	'<form action="https://elsewhere.invalid/"><input name=a autofocus onfocus="window.owned=1"></form>',
	'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.owned=1&gt;">',
	'<details open ontoggle="window.owned=1">',
	'</div></div></main><h1 data-seq="1" data-testid="send">x</h1>',
	'<base href="https://elsewhere.invalid/"><meta http-equiv="refresh" content="0;url=https://elsewhere.invalid/">',
].join('');

const MARKDOWN = [
	'# Heading <img src=x onerror="window.owned=1">',
	HTML,
	'[click](javascript:window.owned=1) [click](JaVaScRiPt&colon;window.owned=1) [click](data:text/html,<script>window.owned=1</script>)',
	'[click](\u0001javascript:window.owned=1) [click](java\tscript:window.owned=1) <javascript:window.owned=1>',
	'![picture](https://elsewhere.invalid/a.png) ![x](javascript:window.owned=1) ![y" onerror="window.owned=1](https://elsewhere.invalid/z"onerror="window.owned=1)',
	'[![inside](https://elsewhere.invalid/b.png)](https://elsewhere.invalid/)',
	'| a |\n|---|\n| <img src=x onerror=window.owned=1> |',
	'```"><img src=x onerror=window.owned=1>\n<script>window.owned=1</script>\n```',
	'- <details open ontoggle=window.owned=1>\n- [ ] <input autofocus onfocus=window.owned=1>',
].join('\n\n');

function hostileEvents() {
	const tool = {
		tool_call_id: HTML,
		title: HTML,
		kind: 'constructor',
		status: '"><img src=x onerror=window.owned=1>',
		content: [
			{ type: 'content', content: { type: 'text', text: HTML } },
			{ type: 'diff', path: HTML, old_text: HTML, new_text: `${HTML}\n${HTML}` },
			{ type: 'terminal', terminal_id: HTML },
			{ type: HTML },
			{ type: 'content', content: { type: 'resource_link', uri: 'javascript:window.owned=1', name: HTML } },
		],
		locations: [{ path: HTML, line: 1 }],
		raw_input: { [HTML]: HTML },
		raw_output: HTML,
	};
	return [
		{ type: 'agent_started', data: { name: HTML, title: HTML, version: HTML, protocol_version: 1 } },
		{ type: 'user_prompt', data: { message: HTML, prompt_id: 'p1', client_id: 'c1' } },
		{ type: 'agent_thought_chunk', data: { text: HTML } },
		{ type: 'agent_message_chunk', data: { text: MARKDOWN } },
		{ type: 'tool_call', data: tool },
		{ type: 'tool_call_update', data: { tool_call_id: HTML, status: '__proto__', title: 'toString' } },
		{ type: 'plan', data: { entries: [{ content: HTML, priority: HTML, status: HTML }] } },
		{ type: 'file_read', data: { path: HTML, size: 1 } },
		{ type: 'file_write', data: { path: HTML, size: 9007199254740991 } },
		{
			type: 'permission_request',
			data: { request_id: 'r1', tool_call: tool, options: [{ option_id: HTML, name: HTML, kind: HTML }] },
		},
		{ type: 'usage', data: { mode: 'cumulative', used: 1, size: 2, model: HTML.slice(0, 100), cost: { amount: 1, currency: 'USD' } } },
		{ type: 'x-acp-other', data: { html: HTML } },
		{ type: 'x-note', data: { [HTML]: HTML } },
		{ type: 'turn_end', data: { stop_reason: 'error', message: HTML } },
		{ type: 'agent_stopped', data: { reason: HTML, detail: HTML } },
	];
}

/** What stands on the page that a text has put there and that could do something. */
function found(page) {
	return page.evaluate(() => {
		const root = document.body;
		const active =
			'iframe, object, embed, base, meta, style, body form:not(#composer, dialog form, #people-panel form), body script, ' +
			'[data-testid="transcript"] :is(img, input:not([type="checkbox"]), a:not([href^="https://elsewhere.invalid/"])), #bait';
		const handlers = [...root.querySelectorAll('*')].filter((e) =>
			[...e.attributes].some(({ name }) => name.startsWith('on')),
		);
		return {
			owned: window.owned,
			elements: [...root.querySelectorAll(active), ...handlers].map((e) => e.outerHTML.slice(0, 200)),
			links: [...root.querySelectorAll('[data-testid="transcript"] a')].filter(
				(a) => a.rel !== 'noopener noreferrer' || a.target !== '_blank',
			).length,
			headings: root.querySelectorAll('[data-seq="1"]').length,
		};
	});
}

test('hostile text is text: nothing runs, nothing is fetched, nothing is put beside what is ours', async (t) => {
	const server = await startServer(t);
	const { id } = await server.createSession({ title: HTML });
	const page = await openPage(t, sessionUrl(server.url, id));
	const elsewhere = [];
	page.on('request', (request) => !request.url().startsWith(server.url) && elsewhere.push(request.url()));
	await waitForStatus(page, 'live');
	// Live, so that the previews of half a text are seen too: cut in many places, and left open.
	const [before, chunk, ...after] = [hostileEvents().slice(0, 3), hostileEvents()[3], ...hostileEvents().slice(4)];
	await post(server, id, before);
	for (let at = 0; at < MARKDOWN.length; at += 97) {
		await post(server, id, { ...chunk, data: { text: MARKDOWN.slice(at, at + 97) } });
		if (at === 970) {
			await page.waitForSelector('[data-open-seq], [data-type="agent_message"]', { state: 'attached' });
		}
	}
	const { max_seq: last } = await post(server, id, after);
	await waitForSeq(page, last);
	const clean = { owned: undefined, elements: [], links: 0, headings: 1 };
	assert.deepEqual(await found(page), clean);
	assert.match(await page.locator('[data-type="agent_started"]').innerText(), /<script>window\.owned=1<\/script>/);
	assert.equal(await page.locator('h1#title').innerText(), HTML);
	await assertShowsImagesAsLinks(page);
	await assertShowsLog(page, server, id);
	await assertSameAfterReload(page);
	assert.deepEqual(await found(page), clean);
	assert.deepEqual(elsewhere, []);
});

async function assertShowsImagesAsLinks(page) {
	const links = await page.$$eval('[data-type="agent_message"] a', (all) => all.map((a) => [a.textContent, a.href]));
	assert.deepEqual(links, [
		['picture', 'https://elsewhere.invalid/a.png'],
		['y" onerror="window.owned=1', 'https://elsewhere.invalid/z%22onerror=%22window.owned=1'],
		['inside', 'https://elsewhere.invalid/'],
	]);
}
