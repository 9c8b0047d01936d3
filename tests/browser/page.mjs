// Opens the page in Chromium and reads what it shows.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { tokenOf } from '../support/auth.mjs';
import { readLog } from '../support/log.mjs';
import { Server, binary, demoAgent, scratchDir } from '../support/server.mjs';
import { defer, patience } from '../support/wait.mjs';

/** As the CommonJS that it is: an import looks for its exports first, which takes a quarter of the time to load it. */
export const { chromium } = createRequire(import.meta.url)('playwright-core');

const SOURCES = fileURLToPath(new URL('../../web', import.meta.url));
/** The page as it is installed, in one script, if the build could make it so; else the many files it is made of. */
const BUNDLE = join(dirname(binary()), 'web');
const WEB = existsSync(BUNDLE) ? BUNDLE : SOURCES;
/**
 * Playwright turns these off, and what is said last counts. The popups of Chromium's address bar are pages of its own, made anew for each context,
 * which take half of all processor time.
 */
const FEATURES_OFF = [
	'AvoidUnnecessaryBeforeUnloadCheckSync', 'BoundaryEventDispatchTracksNodeRemoval', 'DestroyProfileOnBrowserClose', 'DialMediaRouteProvider', 'GlobalMediaControls',
	'HttpsUpgrades', 'LensOverlay', 'MediaRouter', 'OptimizationHints', 'PaintHolding', 'RenderDocument', 'ThirdPartyStoragePartitioning', 'Translate',
	'WebUIOmniboxAimPopup', 'WebUIOmniboxFullPopup', 'WebUIOmniboxPopup',
];
export const ARGS = [
	'--headless',
	'--no-sandbox',
	'--disable-gpu',
	'--no-first-run',
	'--disable-background-networking',
	'--disable-component-update',
	'--disable-sync',
	`--disable-features=${FEATURES_OFF.join(',')}`,
	'--host-resolver-rules=MAP rebound.test 127.0.0.3, MAP *.test 127.0.0.1', // names of other sites
];
const WHOLE_CHROMIUM = '/usr/bin/chromium';
/**
 * The program that is the browser. Where it is installed, Chromium's headless shell: the same engine without the windows, the
 * tabs and the address bar around each page, which take half of the processor time. HOLDFAST_TEST_CHROMIUM names another one.
 */
export const CHROMIUM = process.env.HOLDFAST_TEST_CHROMIUM ?? ['/usr/bin/chromium-headless-shell', WHOLE_CHROMIUM].find(existsSync) ?? WHOLE_CHROMIUM;
const WAIT_MS = 30_000 * patience;
/** The script that a page begins with. */
export const ENTRY = /\/(page\/(app|observe)|assets\/(index|observe)-[0-9a-f]+)\.js$/;

let launched = null;
after(async () => (await launched)?.close());

/** One browser for all tests of a file. */
export function browser(executablePath = CHROMIUM) {
	launched ??= chromium.launch({ executablePath, args: ARGS });
	return launched;
}

/** The same for a file that is about what the shell has not, or that tries the page in the browser that users have. */
export function wholeBrowser() {
	return browser(WHOLE_CHROMIUM);
}

/** The real server with the real page, as it is installed, and the demo agent, which says `rate` tokens in a second. */
export function startServer(t, { rate = 600, args = [], ...options } = {}) {
	return Server.start(t, { agent: demoAgent(`--rate ${rate}`), args: args.includes('--web') ? args : ['--web', WEB, ...args], ...options });
}

/** The same, with the files that the page is made of, as `scripts/run` has it. */
export function startFromSources(t, { args = [], ...options } = {}) {
	return startServer(t, { args: ['--web', SOURCES, ...args], ...options });
}

/** The same, installed. */
export function startInstalled(t) {
	const dir = scratchDir(t);
	const { status, stdout, stderr } = spawnSync('meson', ['install', '-C', dirname(binary()), '--no-rebuild', '--destdir', dir], { encoding: 'utf8' });
	assert.equal(status, 0, stdout + stderr);
	return Server.start(t, { program: join(dir, 'usr/local/bin/holdfast'), agent: demoAgent('--rate 600') });
}

/** What the page reported; of a request that failed also which it was. */
function said(message) {
	const { url } = message.location();
	return message.text() + (url && message.text().startsWith('Failed to load') ? ` ${url}` : '');
}

/**
 * A page in a browser context of its own. The test fails if the page reports an error, or breaks the
 * content security policy, unless `mayReport` says that it may. The first visit to a server logs in, unless `login` is
 * false. `by`: another browser than the common one. `serviceWorkers: 'allow'`: the page gets its worker, which answers before
 * page.route() does.
 */
export async function openPage(t, url, { mayReport = () => false, login = true, by = browser(), ...options } = {}) {
	const context = await (await by).newContext({ viewport: { width: 1280, height: 800 }, serviceWorkers: 'block', ...options });
	const page = await context.newPage();
	const reports = [];
	// Nor is it a fault that a page leaves a session before its socket is open.
	const isExpected = (text) => text === 'Service Worker registration blocked by Playwright' || text.endsWith('WebSocket is closed before the connection is established.');
	page.on('console', (m) => ['error', 'warning'].includes(m.type()) && !isExpected(m.text()) && reports.push(said(m)));
	page.on('pageerror', (error) => reports.push(String(error.stack ?? error)));
	page.on('dialog', (dialog) => reports.push(`a dialog: ${dialog.message()}`));
	page.setDefaultTimeout(WAIT_MS);
	await page.addInitScript(() => {
		document.addEventListener('securitypolicyviolation', (event) =>
			console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`),
		);
	});
	defer(t, async () => {
		await context.close();
		assert.deepEqual(
			reports.filter((text) => !mayReport(text)),
			[],
			'what the page reported',
		);
	});
	if (login) {
		openLoggedIn(page);
	}
	await page.goto(url);
	if (login) {
		// It has logged in, and begun: what is pressed before that has nobody to hear it.
		await page.waitForFunction(() => document.body && !document.body.classList.contains('locked'));
	}
	return page;
}

/** The link that logs in, as a user gets it: `holdfast url` prints it, and the session to show is added. */
export function loginLink(url, token) {
	const { origin, pathname, hash } = new URL(url);
	const session = hash.startsWith('#/s/') ? `&session=${hash.slice('#/s/'.length)}` : '';
	return `${origin}${pathname}#token=${token}${session}`;
}

/** The first visit to a server is by its link; from then on the browser is logged in. */
function openLoggedIn(page) {
	const goto = page.goto.bind(page);
	const known = new Set();
	page.goto = (url, options) => {
		const token = url.startsWith('http') && !url.includes('#token=') ? tokenOf(url) : null;
		const { origin } = new URL(url);
		if (token === null || known.has(origin)) {
			return goto(url, options);
		}
		known.add(origin);
		return goto(loginLink(url, token), options);
	};
}

export const byTestId = (page, name) => page.locator(`[data-testid="${name}"]`);

/** The address of a session's page. */
export const sessionUrl = (base, id) => `${base}/#/s/${encodeURIComponent(id)}`;

/** The session that the page shows; waits until there is one. */
export async function sessionOf(page) {
	await page.waitForFunction(() => location.hash.startsWith('#/s/'));
	return decodeURIComponent(await page.evaluate(() => location.hash.slice('#/s/'.length)));
}

export async function say(page, prompt) {
	await byTestId(page, 'prompt').fill(prompt);
	if (await page.evaluate(() => matchMedia('(pointer: coarse) and (hover: none)').matches)) {
		await byTestId(page, 'send').click(); // Enter makes a new line there
	} else {
		await byTestId(page, 'prompt').press('Enter');
	}
}

/** What an agent says of itself, as a producer can say it too. */
export function agentState() {
	const modes = [{ id: 'ask', name: 'Always ask' }, { id: 'code', name: 'Accept edits', description: 'without a question' }];
	const values = [{ value: 'small', name: 'Small' }, { value: 'large', name: 'Large' }];
	const options = [
		{ id: 'model', name: 'Model', type: 'select', current_value: 'large', options: values },
		{ id: 'fast', name: 'Fast answers', type: 'boolean', current_value: true },
	];
	const commands = [
		{ name: 'plan', description: 'Make a plan and wait', input: { hint: 'what for' } },
		{ name: 'review', description: 'Review the changes' },
		{ name: 'preview', description: 'Show what it would look like' },
	];
	return [
		{ type: 'x-acp-modes', data: { current_mode_id: 'ask', available_modes: modes } },
		{ type: 'x-acp-config_option_update', data: { config_options: options } },
		{ type: 'x-acp-available_commands_update', data: { available_commands: commands } },
	];
}

export function waitForStatus(page, status) {
	return page.waitForSelector(`[data-testid="connection"][data-status="${status}"]`);
}

/** Waits until the page shows the event with this number or a later one. */
export function waitForSeq(page, seq) {
	return page.waitForFunction(
		(wanted) => [...document.querySelectorAll('[data-seq]')].some((e) => Number(e.dataset.seq) >= wanted),
		seq,
	);
}

/** Waits until the page shows the end of `count` turns. */
export function waitForTurns(page, count = 1) {
	return page.waitForFunction(
		(wanted) => document.querySelectorAll('[data-type="turn_end"]').length >= wanted,
		count,
	);
}

/** Waits until the end of the text stands at the end of the screen. */
export function waitForEnd(page) {
	return page.waitForFunction(() => {
		const { scrollTop, clientHeight, scrollHeight } = document.querySelector('#scroller');
		return scrollHeight - clientHeight - scrollTop < 2;
	});
}

export async function allowOnce(page) {
	await page.locator('[data-testid="permission-option"][data-kind="allow_once"]').click();
}

/** From now on, notes the texts that stand below the transcript, however short; gives the function that tells. */
export async function noteTail(page) {
	await page.evaluate(() => {
		window.tail = new Set();
		new MutationObserver(() =>
			document.querySelectorAll('#tail [data-testid]').forEach((line) => window.tail.add(line.innerText.trim())),
		).observe(document.querySelector('#tail'), { childList: true, subtree: true, characterData: true });
	});
	return () => page.evaluate(() => [...window.tail]);
}

/** [{seq, type}] of all events on the page, by number. */
export async function shownEvents(page) {
	const events = await page.$$eval('[data-seq]', (elements) =>
		elements.map((e) => ({ seq: Number(e.dataset.seq), type: e.dataset.type })),
	);
	return events.sort((a, b) => a.seq - b.seq);
}

/** The transcript, tags and all, a line for each node; the attributes by name. */
export function rendered(page) {
	return page.$eval('[data-testid="transcript"]', (list) => {
		const walk = (node, indent) => {
			if (node.nodeType === Node.TEXT_NODE) {
				return [`${indent}${JSON.stringify(node.data)}`];
			}
			const attributes = [...node.attributes]
				.map(({ name, value }) => ` ${name}=${JSON.stringify(value)}`)
				.sort();
			return [
				`${indent}<${node.localName}${attributes.join('')}>`,
				...[...node.childNodes].flatMap((child) => walk(child, `${indent} `)),
			];
		};
		return walk(list, '');
	});
}

/** Two results of rendered() are equal; shows where they begin to differ. */
export function assertSameRendering(actual, expected) {
	const at = actual.findIndex((line, i) => line !== expected[i]);
	const from = Math.max(0, (at < 0 ? actual.length : at) - 3);
	assert.deepEqual(
		actual.slice(from, from + 8),
		expected.slice(from, from + 8),
		`they differ from line ${from + 3} on`,
	);
}

/** Scrolls up, step by step, until the beginning is on the page; all of it then, unless it is long. */
export async function showAll(page) {
	await page.waitForFunction(() => {
		const list = document.querySelector('[data-testid="transcript"]');
		const scroller = document.querySelector('#scroller');
		const isAll = list.querySelector('[data-seq="1"]') !== null || list.childElementCount === 0;
		scroller.scrollTop += isAll ? 0 : list.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
		return isAll;
	});
}

/** In the page, see walk(): all stops in one call, since a call for each of them takes longer than the stop. */
async function walkHere(look, argument) {
	const WAIT_MS = 120_000;
	const frame = () => new Promise((done) => requestAnimationFrame(done));
	const list = document.querySelector('[data-testid="transcript"]');
	const scroller = document.querySelector('#scroller');
	const first = () => Number(list.firstElementChild?.dataset.no);
	const found = [];
	for (;;) {
		await frame();
		await frame();
		const no = first();
		found.unshift(await look(argument));
		if (document.querySelector('[data-seq="1"]')) {
			return found;
		}
		for (const since = performance.now(); !(first() < no); await frame()) {
			scroller.scrollTop += list.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
			if (performance.now() - since > WAIT_MS) {
				throw new Error(`nothing comes before item ${no}`);
			}
		}
	}
}

/**
 * Goes through the whole transcript, of which the page keeps a part at a time, from its end to its beginning: calls
 * `look` in the page at each stop. Gives what it found, the beginning first; what stands on the page at two stops is
 * found twice.
 */
export async function walk(page, look, argument = null) {
	await page.evaluate(() => document.querySelector('#jump').click());
	return walkOn(page, look, argument);
}

/** The same, from where the page is. */
export function walkOn(page, look, argument = null) {
	return page.evaluate(`(${walkHere})(${look}, ${JSON.stringify(argument)})`);
}

/** Each event of the log is on the page once, as what it is, and what is shown stands in order. */
export async function assertShowsLog(page, server, id) {
	const log = readLog(server, id);
	assert.deepEqual(
		await shownEvents(page),
		log.map(({ seq, type }) => ({ seq, type })),
	);
	const order = await page.$$eval('[data-testid="transcript"] > *', (items) =>
		items.map((e) => Number(e.dataset.no)),
	);
	assert.deepEqual(
		order,
		[...order].sort((a, b) => a - b),
		'the order of the page',
	);
	await assertMessagesAsSent(page, server, id);
}

/** The text of each message is that of the HTML which the server has for it: no preview was left standing. */
async function assertMessagesAsSent(page, server, id) {
	const { body } = await server.request('GET', `/api/sessions/${id}/events?after_seq=0&limit=5000&format=html`);
	const sent = body.events.filter((e) => e.type === 'agent_message').map((e) => [e.seq, e.data.html]);
	const differing = await page.evaluate(
		(messages) =>
			messages.filter(([seq, html]) => {
				const wanted = document.createElement('template');
				wanted.innerHTML = html;
				wanted.content.querySelectorAll('img').forEach((image) => image.replaceWith(image.alt)); // the page fetches none
				const shown = document.querySelector(`[data-seq="${seq}"]`).cloneNode(true);
				shown.querySelectorAll('.code-head').forEach((head) => head.remove());
				return shown.textContent !== wanted.content.textContent;
			}),
		sent,
	);
	assert.deepEqual(differing, []);
}

/** A load of the same page from nothing shows the same, to the last tag. */
export async function assertSameAfterReload(page) {
	const before = await rendered(page);
	await page.reload();
	await waitForStatus(page, 'live');
	await showAll(page);
	assertSameRendering(await rendered(page), before);
}

/**
 * From now on, notes every element of an event, or of a block that still grows, which leaves the page or
 * becomes another's; assertNothingLost() says which.
 */
export function watchForLoss(page, events = '[data-seq], [data-open-seq]') {
	return page.evaluate((watched) => {
		window.lost = [];
		const isShown = (node) => node instanceof Element && (node.matches(watched) || node.querySelector(watched));
		new MutationObserver((records) => {
			for (const { type, target, removedNodes, oldValue } of records) {
				if (type === 'attributes' && oldValue !== null) {
					window.lost.push(`${oldValue} became ${target.getAttribute('data-seq')}`);
				}
				[...removedNodes].filter(isShown).forEach((node) => window.lost.push(node.outerHTML.slice(0, 200)));
			}
		}).observe(document.querySelector('[data-testid="transcript"]'), {
			childList: true,
			subtree: true,
			attributes: true,
			attributeFilter: ['data-seq'],
			attributeOldValue: true,
		});
	}, events);
}

export async function assertNothingLost(page) {
	assert.deepEqual(await page.evaluate(() => window.lost), []);
}
