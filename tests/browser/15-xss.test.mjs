// The strings of xss-strings.mjs are inert wherever they can come out: as the HTML of an event and of a preview in
// a page that has no policy to help it, and in our own page at every place where it shows a text.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Observer } from '../support/observer.mjs';
import { partOf } from '../support/part.mjs';
import { Producer, input, post } from '../support/producer.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { Server } from '../support/server.mjs';
import { byTestId, openPage, sessionUrl, startServer, waitForStatus, walk } from './page.mjs';
import { KINDS, STRINGS } from './xss-strings.mjs';
import { asSections, checkSections, installWatch, openBare } from './xss-watch.mjs';

const BATCH = 5000;
const PREVIEWING_SESSIONS = 8;
const PIECES_AT_ONCE = 24;

const texts = STRINGS.map(({ text }) => text);
const isLinkKind = (kind) => kind.startsWith('links ');

/** The HTML of each text, as the server sends it: {texts, htmls}, those that come out as nothing left out. */
async function renderAll(server, all) {
	const htmls = new Map();
	for (let from = 0; from < all.length; from += BATCH) {
		const { id } = await server.createSession();
		const batch = all.slice(from, from + BATCH);
		const { max_seq: last } = await post(server, id, [...batch.map((text, i) => input.text(text, `m${i}`)), input.end()]);
		for (let seq = 0; seq < last; ) {
			const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=${seq}&limit=5000`);
			for (const { message_id, data } of body.events.filter(({ type }) => type === 'agent_message')) {
				const text = batch[Number(message_id.slice(1))];
				htmls.set(text, (htmls.get(text) ?? '') + data.html);
			}
			seq = body.last_seq;
		}
	}
	return { texts: [...htmls.keys()], htmls: [...htmls.values()] };
}

/** What is wrong, told with the text that it came from; nothing if all is well. */
const tell = (wrong, from) => wrong.slice(0, 20).map(([no, what]) => `${JSON.stringify(from[no])}: ${what}`);

async function assertInert(bare, wrong, from) {
	assert.deepEqual(tell(wrong, from), []);
	await bare.page.evaluate(() => window.hostile.settled());
	assert.deepEqual(bare.happened(), []);
}

/** Puts the HTML into the page as a careless program does, and asserts that nothing comes of it. */
async function assertInertInDom(bare, htmls, from) {
	await bare.page.evaluate((html) => (document.body.innerHTML = html), asSections(htmls));
	await assertInert(bare, await checkSections(bare.page, htmls), from);
}

test('the watch sees what these strings do where nobody cares', async (t) => {
	const bare = await openBare(t);
	// Not those that lead the page itself away.
	const careless = STRINGS.filter(({ kind, text }) => !isLinkKind(kind) && !/<(?:meta|base)/i.test(text));
	const strange = await bare.page.evaluate(async (all) => {
		const kinds = {};
		for (const { kind, text } of all) {
			const place = document.createElement('div');
			document.body.append(place);
			place.innerHTML = text;
			kinds[kind] = (kinds[kind] ?? 0) + (window.hostile.strangers(place).length > 0);
		}
		await window.hostile.settled();
		return kinds;
	}, careless);
	const blind = Object.keys(strange).filter((kind) => strange[kind] === 0);
	assert.deepEqual(blind, []);
	const happened = bare.happened();
	assert.ok(happened.filter((what) => what.startsWith('ran: ')).length >= 60, happened.join('\n'));
	assert.ok(happened.some((what) => what.startsWith('request: stylesheet https://evil.invalid')));
	assert.ok(happened.some((what) => what.startsWith('frame: ')));
});

test('the watch tells the addresses that may be from those that may not', async (t) => {
	const { page, happened } = await openBare(t);
	const good = ['x', 'x/y:z', '/x', '?x:y', '#x', '../x', 'http://x', 'HTTPS://x', 'mailto:x@y', 'http://[', './/x'];
	const bad = ['javascript:1', ' javascript:1', 'java\tscript:1', '\u0001javascript:1', 'data:,x', '//x', '/\\x', '\\\\x', '/\t/x', 'x:y', ' //x'];
	const judged = (list) => page.evaluate((all) => all.filter((address) => window.hostile.isAddress(address)), list);
	assert.deepEqual(await judged([...good, ...bad]), good);
	await page.evaluate(() => {
		document.body.innerHTML =
			'<a href="javascript:alert(1)">x</a><p onmouseover="alert(2)">y</p><p onfocus="alert(3)" tabindex="0">z</p>';
		return window.hostile.use('body *');
	});
	assert.deepEqual(happened().sort(), ['ran: alert(1)', 'ran: alert(2)', 'ran: alert(3)']);
});

test('the HTML of an event is inert in a page without a policy, however it is put there', async (t) => {
	const server = await Server.start(t);
	const { texts: from, htmls } = await renderAll(server, texts);
	assert.ok(htmls.length > 1800 && Object.keys(KINDS).length > 15, `${htmls.length} texts came out`);

	const bare = await openBare(t);
	await assertInertInDom(bare, htmls, from);
	assert.ok((await bare.page.evaluate(() => window.hostile.use('body *'))) > htmls.length);
	assert.deepEqual(bare.happened(), []);

	await bare.page.evaluate((html) => {
		document.open();
		document.write(`<!doctype html><title>bare</title><body>${html}`);
		document.close();
	}, asSections(htmls));
	await assertInert(bare, await checkSections(bare.page, htmls), from);

	const parsed = await openBare(t, asSections(htmls));
	await assertInert(parsed, await checkSections(parsed.page, htmls), from);
});

test('a text that is cut at any character, and left there, is inert', async (t) => {
	const server = await Server.start(t);
	const short = STRINGS.filter(({ kind, text }) => text.length <= 64 && (!isLinkKind(kind) || /^(?:!\[|<)/.test(text)));
	const cuts = new Set(short.flatMap(({ text }) => [...text].map((_, i, all) => all.slice(0, i + 1).join(''))));
	assert.ok(cuts.size > 20_000, `${cuts.size} texts`);
	const { texts: from, htmls } = await renderAll(server, partOf([...cuts]));
	assert.ok(htmls.length > partOf([...cuts]).length * 0.9, `${htmls.length} texts came out`);
	const bare = await openBare(t);
	for (let at = 0; at < htmls.length; at += BATCH) {
		await assertInertInDom(bare, htmls.slice(at, at + BATCH), from.slice(at, at + BATCH));
	}
});

/** Cuts a text after a few of the characters that mean something. */
function cut(text, random) {
	const places = [...text.matchAll(/[^\p{L}\p{N}]/gu)].map(({ index, 0: character }) => index + character.length);
	const chosen = new Set(Array.from({ length: Math.min(places.length, 2) }, () => places[random(places.length)]));
	const at = [0, ...[...chosen].sort((a, b) => a - b).filter((place) => place < text.length), text.length];
	return at.slice(1).map((end, i) => text.slice(at[i], end));
}

/** Streams the texts into a session of its own, in pieces; gives what an observer was shown of each in between. */
async function previewAll(t, server, all, random) {
	const { id } = await server.createSession();
	const observer = await Observer.connect(t, server, id, { query: { deltas: 'html' } });
	const producer = await Producer.connect(t, server, id);
	for (const [i, text] of all.entries()) {
		for (const piece of cut(text, random)) {
			await producer.append(input.text(piece, `m${i}`));
			await observer.load({ after_seq: observer.last, epoch: observer.epoch }); // who joins is shown what is open at once
		}
	}
	await producer.append(input.end());
	await observer.waitForEvent('turn_end');
	return observer.frames.filter(({ type }) => type === 'preview').map(({ data }) => data.html);
}

test('what is shown of a text while it grows is inert', async (t) => {
	const server = await Server.start(t, { args: ['--limit', 'preview_ms=10'] });
	const shares = Array.from({ length: PREVIEWING_SESSIONS }, (_, n) => texts.filter((__, i) => i % PREVIEWING_SESSIONS === n));
	const shown = (await Promise.all(shares.map((share, n) => previewAll(t, server, share, randomNumbers(n + 1))))).flat();
	const htmls = [...new Set(shown)];
	assert.ok(htmls.length > texts.length, `${htmls.length} previews`);
	await assertInertInDom(await openBare(t), htmls, htmls);
});

/** Those that are not made for markdown, and a few of the kinds whose strings differ in one word. */
function plainTexts() {
	const kinds = Object.entries(KINDS).filter(([kind]) => !isLinkKind(kind) && kind !== 'inside markdown');
	const isAlike = (kind) => /^handlers (?:of|on) every/.test(kind);
	return [...new Set(kinds.flatMap(([kind, all]) => all.filter((_, i) => !isAlike(kind) || i % 8 === 0)))];
}

/** Every event with a place in it where the page shows a text. */
function eventsOf(text, no) {
	const tool = { tool_call_id: `${text} ${no}`, title: text, kind: text, status: text };
	const content = [
		{ type: 'content', content: { type: 'text', text: `> ${text}` } },
		{ type: 'diff', path: text, old_text: text, new_text: `+ ${text}` },
		{ type: 'terminal', terminal_id: text },
		{ type: 'content', content: { type: text, uri: text } },
	];
	const question = questionOf(text, no);
	const answer = { request_id: question.data.request_id, outcome: 'selected', option_id: text, by: text };
	return [
		{ type: 'user_prompt', data: { message: text, prompt_id: `p${no}`, client_id: 'c' } },
		input.thought(text),
		{ type: 'tool_call', data: { ...tool, content, locations: [{ path: `@ ${text}` }], raw_input: { [text]: text } } },
		{ type: 'tool_call', data: { ...tool, tool_call_id: `${text} ${no} raw`, raw_output: text } },
		{ type: 'file_read', data: { path: text, size: 1 } },
		...(isAnswered(no) ? [question, { type: 'permission_resolved', data: answer }] : []),
		{ type: 'usage', data: { mode: 'delta', used: 1, size: 2, tokens: 3, ...(isModel(text, no) && { model: text }) } },
		{ type: 'x-note', data: { [text]: text } },
		{ type: 'agent_started', data: { name: text, version: text, protocol_version: 1 } },
		{ type: 'turn_end', data: { stop_reason: text, message: text } },
		{ type: 'agent_stopped', data: { reason: text, detail: text } },
	];
}

/** A session counts so many models, with names that are not longer. */
const isModel = (text, no) => no < 64 && text !== '' && Buffer.byteLength(text) <= 128;

/** A question is open until its turn ends: half of them are asked, and answered, in a turn, and half after all turns. */
const isAnswered = (no) => no % 2 === 1;

const questionOf = (text, no) => ({
	type: 'permission_request',
	data: {
		request_id: `${text} ${no}`,
		tool_call: { tool_call_id: text, title: text },
		options: [{ option_id: text, name: text, kind: text }],
	},
});

/** As the cards show it: what makes a line run the other way is named. */
const named = (text) =>
	text.replace(/[\u202a-\u202e\u2066-\u2069]/g, (c) => `\u2039U+${c.codePointAt(0).toString(16).toUpperCase()}\u203a`);

/** What a tool has printed stands there without the colours it had on a terminal. */
const printed = (text) => text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, '');

/** Where the page shows a text of eventsOf(), and as what. */
const PLACES = {
	'.plan-entries li > span:last-child': (text) => [text],
	'.prompt-text': (text) => [`You: ${text}`],
	'.thought-text': (text) => [text],
	'.tool .card-title': (text) => [text, text],
	'.tool .chip': (text) => [text, text],
	'.tool .locations li': (text) => [`@ ${text}`],
	'.tool .diff-path': (text) => [text],
	'.tool .muted': (text) => [`Terminal ${text}`, `${text}: ${text}`],
	'.tool .card-body > .output': (text) => [printed(`> ${text}`), printed(text)],
	'.tool .raw .output': (text) => [JSON.stringify({ [text]: text }, null, 2)],
	'.line-item:not(.permission) > span > code': (text) => [text],
	'.permission-what > span': (text, no) => (isAnswered(no) ? [] : [text]),
	'[data-testid="permission-option"]': (text, no) => (isAnswered(no) ? [] : [text]),
	'.permission[data-resolved] b': (text, no) => (isAnswered(no) ? [text] : []),
	'[data-type="x-note"] .output': (text) => [JSON.stringify({ [text]: text }, null, 2)],
	'[data-type="agent_started"]': (text) => [`${text} ${text} started`],
	'[data-type="agent_stopped"] .failure-reason': (text) => [text.replaceAll('_', ' ')],
	'.failure-words': (text) => [text],
	'.rule > span': (text) => [`Ended: ${text}: ${text}`],
};

/** A page that shows a session, live, and is watched; whatever happens that must not fails the test at its end. */
async function openWatched(t, server, id, options) {
	const page = await openPage(t, sessionUrl(server.url, id), options);
	const asked = [];
	page.on('request', (request) => !request.url().startsWith(server.url) && asked.push(request.url()));
	page.on('frameattached', (frame) => asked.push(`frame: ${frame.url()}`));
	page.context().on('page', (other) => asked.push(`window: ${other.url()}`));
	await page.evaluate(installWatch);
	await waitForStatus(page, 'live');
	return { page, asked };
}

/** From now on, looks at every open block each time that it has changed; gives the function that tells. */
async function watchOpenBlocks(page) {
	await page.evaluate(() => {
		window.grown = { seen: 0, strange: [] };
		new MutationObserver(() =>
			document.querySelectorAll('[data-open-seq]').forEach((block) => {
				window.grown.seen++;
				window.grown.strange.push(...window.hostile.strangersInOurs(block));
			}),
		).observe(document.querySelector('#transcript'), { childList: true, subtree: true, characterData: true, attributes: true });
	});
	return () => page.evaluate(() => window.grown);
}

const strangersOn = (page, selector) =>
	page.$$eval(selector, (roots) => roots.flatMap((root) => window.hostile.strangersInOurs(root)).slice(0, 20));

/** What no text may have brought: ids, names and handlers; and the number of elements with a style of their own but the tag at the pointer. */
const marksOn = (page) =>
	page.evaluate(() => ({
		ids: [...document.querySelectorAll('[id]')].map(({ id }) => id).sort(),
		named: document.querySelectorAll('body [name], body iframe, body style, body script, body base, body meta, body link').length,
		styled: document.querySelectorAll('body [style]:not(.event-tag)').length,
	}));

/** Nothing sticks out at the side, however long its words are. */
async function assertTidy(page) {
	const out = await page.$$eval('#scroller, #sidebar, html', (boxes) =>
		boxes.filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.id || box.localName),
	);
	assert.deepEqual(out, []);
}

/** In the page: the texts at these places, by the number of their item; a question's changes when older events are loaded. */
function textsAt(selectors) {
	const at = (selector) => {
		const texts = new Map();
		for (const element of document.querySelectorAll(`#transcript ${selector}`)) {
			const { no, requestId = no } = element.closest('.item').dataset;
			texts.set(requestId, [...(texts.get(requestId) ?? []), element.textContent]);
		}
		return [...texts];
	};
	return Object.fromEntries(selectors.map((selector) => [selector, at(selector)]));
}

/** A text stands at each of its places, whole, and is nothing but text there. */
async function assertShownAsText(page, plain) {
	const stops = await walk(page, textsAt, Object.keys(PLACES));
	for (const [selector, expected] of Object.entries(PLACES)) {
		const items = new Map(stops.flatMap((stop) => stop[selector])); // by number: each once
		const shown = [...items.values()].flat();
		const isCard = !['.prompt-text', '.thought-text'].includes(selector);
		const isTitle = ['.tool .card-title', '.permission-what > span', '.failure-words', '.rule > span'].includes(selector); // what it has in backticks is code
		const wanted = plain.flatMap(expected).map((text) => (isCard ? named(text) : text)).map((text) => (isTitle ? text.replace(/`([^`\n]+)`/g, '$1') : text));
		const at = wanted.findIndex((text, i) => text !== shown[i]);
		assert.deepEqual(shown.slice(Math.max(at, 0)).slice(0, 2), wanted.slice(Math.max(at, 0)).slice(0, 2), selector);
		assert.equal(shown.length, wanted.length, selector);
	}
}

test('our own page shows their HTML, while it grows and whole, with nothing in it but what we know', async (t) => {
	const server = await startServer(t, { args: ['--limit', 'preview_ms=10'] });
	const { id } = await server.createSession();
	const { page, asked } = await openWatched(t, server, id);
	const before = await marksOn(page);
	const grown = await watchOpenBlocks(page);
	const producer = await Producer.connect(t, server, id);
	const random = randomNumbers(5);
	const pieces = texts.flatMap((text, i) => cut(text, random).map((piece) => input.text(piece, `m${i}`)));
	for (let i = 0; i < pieces.length; i += PIECES_AT_ONCE) {
		await producer.append(...pieces.slice(i, i + PIECES_AT_ONCE)); // the last one is open until the next one comes
	}
	const { max_seq: last } = await post(server, id, input.end());
	await page.waitForSelector(`[data-seq="${last}"]`, { state: 'attached' });
	const { seen, strange } = await grown();
	assert.deepEqual(strange, []);
	assert.ok(seen > 0);
	const stops = await walk(page, async () => ({
		strange: [...document.querySelectorAll('#transcript, #tail')].flatMap((root) => window.hostile.strangersInOurs(root)),
		wide: [...document.querySelectorAll('#scroller, #sidebar, html')].filter((e) => e.scrollWidth > e.clientWidth).length,
		messages: [...document.querySelectorAll('.message')].map((e) => e.dataset.seq),
		used: await window.hostile.use('.message a, .message [tabindex]'),
	}));
	assert.deepEqual(stops.flatMap((stop) => stop.strange).slice(0, 20), []);
	assert.equal(stops.findIndex((stop) => stop.wide > 0), -1);
	assert.ok(new Set(stops.flatMap((stop) => stop.messages)).size > texts.length);
	assert.ok(stops.reduce((sum, stop) => sum + stop.used, 0) > 200);
	assert.deepEqual(await marksOn(page), before);
	assert.deepEqual(asked, []);
});

test('our own page shows them as text at every other place', async (t) => {
	const server = await startServer(t, { args: ['--limit', 'open_permissions=1000'] });
	const { id } = await server.createSession();
	const { page, asked } = await openWatched(t, server, id);
	const before = await marksOn(page);
	const plain = partOf(plainTexts());
	const entries = plain.map((text) => ({ content: text, priority: text, status: text }));
	await post(server, id, [{ type: 'plan', data: { entries } }, ...plain.flatMap(eventsOf)]);
	const { max_seq: last } = await post(server, id, plain.map(questionOf).filter((_, no) => !isAnswered(no)));
	await page.waitForSelector(`[data-seq="${last}"]`, { state: 'attached' });
	assert.deepEqual(await strangersOn(page, '#transcript, #tail'), []);
	assert.deepEqual(await marksOn(page), before);
	await assertTidy(page);
	await assertShownAsText(page, plain);
	assert.equal(await byTestId(page, 'usage').textContent(), '1 of 2 tokens');
	const models = await page.$$eval('#usage-detail h3', (all) => all.slice(1).map((e) => e.textContent));
	assert.deepEqual(models.sort(), plain.filter(isModel).map(named).sort());
	assert.deepEqual(asked, []);
});

/** Joined, as many as a session's title may hold. */
function titlesOf(all) {
	const titles = [''];
	for (const text of all.filter((one) => Buffer.byteLength(one) < 500)) {
		const longer = `${titles.at(-1)} ${text}`.trim();
		if (Buffer.byteLength(longer) <= 1000) {
			titles[titles.length - 1] = longer;
		} else {
			titles.push(text.trim());
		}
	}
	return titles;
}

test('titles, the page\'s own address, and what waits for a block to end are text as well', async (t) => {
	const server = await startServer(t, { args: ['--limit', 'hold_ms=600s'] });
	const [polyglot] = KINDS['everywhere at once'];
	const titles = [...titlesOf(plainTexts()), polyglot];
	let id;
	for (const title of titles) {
		({ id } = await server.createSession({ title }));
	}
	const mayReport = (text) => /^WebSocket connection to .* failed/.test(text); // there is no session of that name
	const { page, asked } = await openWatched(t, server, id, { mayReport });
	await page.waitForFunction((count) => document.querySelectorAll('.session-title').length === count, titles.length);
	const shown = await page.$$eval('.session-title', (all) => all.map((e) => e.textContent));
	assert.deepEqual(shown.sort(), titles.map(named).sort());
	assert.equal(await page.locator('h1').textContent(), polyglot);
	const opener = page.locator(`[data-session-id="${id}"] [data-testid="session-menu"]`);
	assert.equal(await opener.getAttribute('aria-label'), `Actions for ${polyglot}`);
	await opener.focus();
	await page.keyboard.press('Enter');
	await page.locator('[data-testid="rename-session"]').click();
	assert.ok(await page.locator('#rename-box').inputValue());
	await page.keyboard.press('Escape');

	await post(server, id, [input.text('- x\n- y'), input.tool('t', polyglot)]);
	const hint = await byTestId(page, 'activity').textContent();
	assert.ok(hint.endsWith(polyglot), hint);

	await page.evaluate((name) => (location.hash = `#/s/${encodeURIComponent(name)}`), '<svg/onload=alert(1)>');
	await page.waitForFunction(() => document.querySelector('h1').textContent === 'Session <svg/onl');
	assert.deepEqual(await strangersOn(page, '#sessions, #transcript, #tail, h1'), []);
	assert.deepEqual(asked, []);
});

test('what the server says of a strange request is not HTML', async (t) => {
	const server = await Server.start(t);
	const script = '<script>alert(1)</script>';
	for (const path of [`/${script}`, `/api/sessions/${script}`, `/api/sessions/x/events?format=${script}`]) {
		const { status, headers } = await server.rawRequest('GET', path);
		assert.ok(status >= 400, `${path}: ${status}`);
		assert.match(headers['content-type'], /^(?:application\/json|text\/plain)/, path);
		assert.equal(headers['x-content-type-options'], 'nosniff', path);
	}
});
