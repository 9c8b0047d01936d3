// Whether a page can be used: what axe-core says about it, and what it does not look at: nothing is wider than the screen, what is pressed is large
// enough for a finger and is reached by the keyboard. On a desk and on a phone, light and dark, in both directions: the page that is there is
// changed for each of these and back again, since another visit for each would take hours.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { partOf } from '../support/part.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core'), 'utf8');

const PHONE = { width: 360, height: 740 };
/** A phone stays a phone. */
const MODES = [
	{ name: 'light' },
	{ name: 'dark', dark: true },
	{ name: 'from right to left', rtl: true },
	{ name: 'a phone', phone: true },
	{ name: 'a phone in the dark, from right to left', phone: true, dark: true, rtl: true },
];

/** In the page: what is wrong with where things are. */
function layoutFaults(isTouch) {
	const PRESSED = 'a[href], button, input, select, textarea, summary, [role="button"], [role="option"], [role="menuitem"], [role="switch"], [tabindex="0"]';
	const FINGER = 43.5; // px, of 44
	const faults = [];
	const nameOf = (e) => `${e.localName}${e.id && `#${e.id}`}${[...e.classList].map((name) => `.${name}`).join('')}`;
	const wordsOf = (e) => `${nameOf(e)} "${(e.getAttribute('aria-label') ?? e.textContent ?? '').trim().slice(0, 40)}"`;
	const isShown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !e.closest('[inert], .sr-only') && e.getBoundingClientRect().bottom > 0;
	const clips = (e) => getComputedStyle(e).overflowX !== 'visible';
	const isClipped = (e) => e !== document.body && e !== document.documentElement && e !== null && (clips(e) || isClipped(e.parentElement));
	if (document.documentElement.scrollWidth > innerWidth + 1) {
		faults.push(`the page is ${document.documentElement.scrollWidth} px wide, the screen ${innerWidth}`);
	}
	for (const e of document.body.querySelectorAll('*')) {
		const { left, right, width, height } = e.getBoundingClientRect();
		if (width > 1 && height > 1 && (left < -1 || right > innerWidth + 1) && isShown(e) && !isClipped(e.parentElement)) {
			faults.push(`${wordsOf(e)} goes from ${Math.round(left)} to ${Math.round(right)} px, the screen to ${innerWidth}`);
		}
	}
	for (const e of document.querySelectorAll('dialog[open], :popover-open, [role="menu"], [role="listbox"]')) {
		const { top, bottom } = e.getBoundingClientRect();
		if (isShown(e) && !isClipped(e.parentElement) && (top < -1 || bottom > innerHeight + 1)) {
			faults.push(`${wordsOf(e)} goes from ${Math.round(top)} to ${Math.round(bottom)} px, the screen to ${innerHeight}`);
		}
	}
	for (const e of document.querySelectorAll(PRESSED)) {
		if (!isShown(e) || e.disabled || e.type === 'hidden') {
			continue;
		}
		// The search, which has keys, also leads to the address of an event.
		const isOneOf = e.closest('[role="listbox"], [role="menu"], #sessions, .event-tag');
		if (e.tabIndex < 0 && !isOneOf && !e.matches('[type="file"]')) {
			faults.push(`${wordsOf(e)} is not reached by the keyboard`);
		}
		const { width, height } = (e.closest('label') ?? e).getBoundingClientRect();
		const isInText = e.matches('.prose a, p a'); // as in any text
		const isArea = e.matches('[tabindex="0"]:not(button, a)'); // is scrolled, not pressed
		if (isTouch && !isInText && !isArea && width > 1 && (height < FINGER || (width < FINGER && e.textContent.trim() === ''))) {
			faults.push(`${wordsOf(e)} is ${Math.round(width)} × ${Math.round(height)} px, too small for a finger`);
		}
	}
	return [...new Set(faults)].slice(0, 12);
}

/** What axe-core finds that is serious, with the elements it says it of. */
async function axeFaults(session, page) {
	// As a debugger does it: the page's own policy would not let it in, and must not.
	if (!(await page.evaluate(() => 'axe' in window))) {
		await session.send('Runtime.evaluate', { expression: AXE });
	}
	const { checked, serious } = await page.evaluate(async () => {
		const { violations, passes } = await window.axe.run(document, { resultTypes: ['violations'] });
		return {
			checked: passes.length,
			serious: violations
				.filter(({ impact }) => impact === 'serious' || impact === 'critical')
				.map(
					({ id, nodes }) =>
						`${id}: ${nodes.map(({ html, any }) => `${html.slice(0, 160)} ${any[0]?.message ?? ''}`).join('\n  ')}`,
				),
		};
	});
	assert.ok(checked > 10, `${checked} rules were checked`);
	return serious;
}

/** One for each page, and never left: what it has set would go with it, and a phone be none any more. */
const sessions = new WeakMap();

async function sessionOf(page) {
	if (!sessions.has(page)) {
		sessions.set(page, await page.context().newCDPSession(page));
	}
	return sessions.get(page);
}

/** The page as it would be in this mode. */
async function enter(session, page, { phone, dark, rtl, reducedMotion = 'reduce' }, was) {
	const { width, height } = phone && !was.isPhone ? PHONE : was;
	const isPhone = phone === true || was.isPhone;
	await session.send('Emulation.setTouchEmulationEnabled', { enabled: isPhone, maxTouchPoints: 1 });
	await session.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: was.scale, mobile: isPhone });
	await page.emulateMedia({ colorScheme: (dark ?? was.dark) ? 'dark' : 'light', reducedMotion });
	await page.evaluate(async (dir) => {
		const frame = () => new Promise((done) => requestAnimationFrame(done));
		document.documentElement.dir = dir;
		await frame();
		await frame();
	}, (rtl ?? was.rtl) ? 'rtl' : 'ltr');
}

/** Nothing is wrong with what the page shows: each commit looks at it in one of the modes. */
export async function assertNoFault(page, where) {
	const session = await sessionOf(page);
	const was = await page.evaluate(() => ({
		width: innerWidth, height: innerHeight, scale: devicePixelRatio, isPhone: matchMedia('(pointer: coarse)').matches,
		motion: matchMedia('(prefers-reduced-motion)').matches ? 'reduce' : 'no-preference',
		dark: matchMedia('(prefers-color-scheme: dark)').matches, rtl: document.documentElement.dir === 'rtl',
	}));
	const faults = [];
	for (const mode of partOf(MODES.filter(({ phone }) => phone || !was.isPhone))) {
		await enter(session, page, mode, was);
		const found = await page.evaluate(layoutFaults, mode.phone === true);
		faults.push(...[...found, ...(await axeFaults(session, page))].map((words) => `${mode.name}: ${words}`));
	}
	await enter(session, page, { reducedMotion: was.motion }, was);
	assert.deepEqual(faults, [], where);
}
