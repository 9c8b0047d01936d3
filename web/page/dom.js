/** Small tools for building and changing the page's elements. */

const SVG = 'http://www.w3.org/2000/svg';

/** 16 by 16, drawn with a line of 1.5. @type {Record<string, string>} */
const ICONS = {
	menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
	plus: 'M8 3.25v9.5M3.25 8h9.5',
	close: 'M4 4l8 8M12 4l-8 8',
	user: 'M8 8a2.75 2.75 0 100-5.5A2.75 2.75 0 008 8zM2.75 13.5c.6-2.4 2.6-3.75 5.25-3.75s4.65 1.35 5.25 3.75',
	more: 'M3.5 8h.1M8 8h.1M12.5 8h.1',
	pin: 'M6 2.5h4l-.5 4L12 9H4l2.5-2.5zM8 9v4.5',
	folder: 'M2.25 4h4.25l1.5 1.75h5.75v6.75H2.25z',
	up: 'M8 13V3.25M3.75 7.25L8 3l4.25 4.25',
	archive: 'M2.5 3h11v3h-11zM3.5 6v7h9V6M6.5 8.75h3',
	trash: 'M2.75 4.25h10.5M6.25 4V2.75h3.5V4M4 4.5l.6 8.75h6.8L12 4.5M6.75 7v3.75M9.25 7v3.75',
	clip: 'M12.5 7.25L7.6 12.1a2.6 2.6 0 01-3.7-3.7l5.4-5.3a1.75 1.75 0 012.5 2.5l-5.2 5.1a.85.85 0 01-1.2-1.2l4.5-4.5',
	send: 'M8 13V3.25M3.75 7.25L8 3l4.25 4.25',
	stop: 'M4.5 4.5h7v7h-7z',
	down: 'M8 3v9.75M3.75 8.75L8 13l4.25-4.25',
	chevron: 'M6 4l4 4-4 4',
	copy: 'M5.75 5.75v-3h7.5v7.5h-3M2.75 5.75h7.5v7.5h-7.5z',
	check: 'M3 8.5l3.25 3.25L13 4.75',
	unplug: 'M9.5 6.5l3.75-3.75M2.75 13.25L5 11M4 7.75l4.25 4.25-1 1a2.75 2.75 0 01-4-4zM12 8.25L7.75 4l1-1a2.75 2.75 0 014 4z',
	inspect: 'M5.25 4.25L1.75 8l3.5 3.75M10.75 4.25L14.25 8l-3.5 3.75M9 3L7 13',
	wall: 'M2.5 2.5h4.5v6h-4.5zM9 2.5h4.5v3.5h-4.5zM2.5 10.5h4.5v3h-4.5zM9 8h4.5v5.5h-4.5z',
	bell: 'M3.5 11.5h9c-1-1-1.25-2-1.25-4.25a3.25 3.25 0 00-6.5 0c0 2.25-.25 3.25-1.25 4.25zM6.75 13.25a1.3 1.3 0 002.5 0',
	theme: 'M8 14A6 6 0 108 2a6 6 0 000 12zM8 2.25v11.5M8 5.5h4.9M8 8h5.75M8 10.5h4.9',
	open: 'M6.5 3.25h-3.5v9.75h9.75v-3.5M9.25 2.75h4v4M13 3L7.5 8.5',
	alert: 'M8 2.5l6 10.75H2zM8 6.5v3M8 11.4v.1',
	info: 'M8 14A6 6 0 108 2a6 6 0 000 12zM8 7.25v3.5M8 5.1v.1',
	thought: 'M8 2.5a4.25 4.25 0 012.25 7.85V12h-4.5v-1.65A4.25 4.25 0 018 2.5zM6.5 14h3',
	plan: 'M2.5 4l1 1 1.75-1.75M2.5 8.25l1 1L5.25 7.5M2.5 12.5l1 1 1.75-1.75M8 4.25h5.5M8 8.5h5.5M8 12.75h5.5',
	read: 'M4 2.5h5l3 3v8H4zM9 2.5v3h3M6 8.5h4M6 11h4',
	edit: 'M3 13l.6-2.9 7.2-7.2 2.3 2.3-7.2 7.2zM9.3 4.4l2.3 2.3',
	delete: 'M2.75 4.25h10.5M6.25 4V2.75h3.5V4M4 4.5l.6 8.75h6.8L12 4.5',
	move: 'M2.75 8h10M9 4.25L12.75 8 9 11.75',
	search: 'M7 11.5a4.5 4.5 0 100-9 4.5 4.5 0 000 9zM10.25 10.25l3.25 3.25',
	execute: 'M2.5 3h11v10h-11zM5 6.25L7 8l-2 1.75M8.5 10.25H11',
	think: 'M8 2.5a4.25 4.25 0 012.25 7.85V12h-4.5v-1.65A4.25 4.25 0 018 2.5zM6.5 14h3',
	fetch: 'M8 14A6 6 0 108 2a6 6 0 000 12zM2 8h12M8 2c3.5 3.5 3.5 8.5 0 12M8 2c-3.5 3.5-3.5 8.5 0 12',
	switch_mode: 'M3 5.25h9M9.5 2.75L12 5.25l-2.5 2.5M13 10.75H4M6.5 8.25L4 10.75l2.5 2.5',
	other: 'M10.2 2.8a3.2 3.2 0 00-3.9 4.1L2.6 10.6a1.6 1.6 0 002.3 2.3l3.9-3.7a3.2 3.2 0 004.1-3.9l-1.9 1.9-1.9-.5-.5-1.9z',
};

/**
 * @param {string} name @param {Record<string, any>} [attributes] null and false leave one out
 * @param {...(Node | string | null | undefined | false)} children @returns {any}
 */
export function h(name, attributes = {}, ...children) {
	const element = document.createElement(name);
	for (const [key, value] of Object.entries(attributes)) {
		if (key.startsWith('on')) {
			element.addEventListener(key.slice(2), value);
		} else if (value !== null && value !== undefined && value !== false) {
			element.setAttribute(key, value === true ? '' : String(value));
		}
	}
	element.append(
		...children.filter((child) => child || child === '').map((child) => child || ''),
	);
	return element;
}

/**
 * Looks up a word from outside: finds only the table's own keys.
 * @template T @param {Record<string, T>} table @param {unknown} key @param {T} fallback @returns {T}
 */
export function lookUp(table, key, fallback) {
	return typeof key === 'string' && Object.hasOwn(table, key) ? table[key] : fallback;
}

const REORDERING = /[\u202a-\u202e\u2066-\u2069]/g;

/**
 * A text with nothing hidden: characters that reverse the direction of a line are shown by name, so
 * that paths and commands read as they are. @param {unknown} text
 */
export function visible(text) {
	return String(text).replace(
		REORDERING,
		(character) =>
			`\u2039U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase()}\u203a`,
	);
}

/** A picture for something that is also said in words. @param {string} name */
export function icon(name) {
	const svg = document.createElementNS(SVG, 'svg');
	svg.setAttribute('viewBox', '0 0 16 16');
	svg.setAttribute('class', 'icon');
	svg.setAttribute('aria-hidden', 'true');
	const path = document.createElementNS(SVG, 'path');
	path.setAttribute('d', lookUp(ICONS, name, ICONS.other));
	svg.append(path);
	return svg;
}

/** Draws the icons that the page's markup names. */
export function drawIcons() {
	document
		.querySelectorAll('[data-icon]')
		.forEach((element) =>
			element.prepend(icon(/** @type {HTMLElement} */ (element).dataset.icon ?? '')),
		);
}

/** Code that other pages draw. @type {Record<string, string>} */
const SOURCES = {
	mermaid: 'Mermaid diagram, as its source',
	math: 'Formula, as its source',
	latex: 'LaTeX, as its source',
	tex: 'TeX, as its source',
};

/**
 * The server's HTML, made readable: code can be copied, wide tables scroll by themselves,
 * links leave the page alone, and no image is fetched. @param {string} html safe by the server's construction
 */
export function renderHtml(html) {
	const template = document.createElement('template');
	template.innerHTML = html;
	for (const pre of template.content.querySelectorAll('pre')) {
		const language = pre.firstElementChild?.className.match(/language-([\w+#.-]+)/)?.[1] ?? '';
		const frame = h(
			'div',
			{ class: 'code' },
			h('div', { class: 'code-head' }, h('span', {}, lookUp(SOURCES, language, language || 'text')), copyButton()),
		);
		pre.replaceWith(frame);
		pre.setAttribute('tabindex', '0');
		frame.append(pre);
	}
	for (const table of template.content.querySelectorAll('table')) {
		const frame = h('div', {
			class: 'table',
			role: 'region',
			'aria-label': 'Table',
			tabindex: '0',
		});
		table.replaceWith(frame);
		frame.append(table);
	}
	template.content.querySelectorAll('img').forEach(replaceImage);
	template.content
		.querySelectorAll('p, li, ul, ol, h1, h2, h3, h4, h5, h6, td, th, blockquote')
		.forEach((block) => block.setAttribute('dir', 'auto'));
	for (const link of template.content.querySelectorAll('a[href]')) {
		link.setAttribute('target', '_blank');
		link.setAttribute('rel', 'noopener noreferrer');
	}
	return template.content;
}

/** The page loads nothing from other servers: a text must not be able to report its readers. */
function replaceImage(/** @type {HTMLImageElement} */ image) {
	const src = image.getAttribute('src') ?? ''; // `image.src` is resolved against the template, which is nowhere
	if (src.startsWith('data:')) {
		return;
	}
	const words = image.alt || src;
	image.replaceWith(image.closest('a') ? words : h('a', { href: src }, words));
}

export function copyButton() {
	return h(
		'button',
		{ type: 'button', class: 'copy', 'data-action': 'copy' },
		icon('copy'),
		h('span', {}, 'Copy'),
	);
}

/** @param {string} text */
export async function writeClipboard(text) {
	if (navigator.clipboard) {
		await navigator.clipboard.writeText(text);
		return;
	}
	// Pages on plain http have no clipboard; a selected field that is copied still works there.
	const field = h('textarea', { class: 'sr-only' });
	field.value = text;
	document.body.append(field);
	field.select();
	document.execCommand('copy');
	field.remove();
}

/** One listener for all copy buttons, those to come included. @param {HTMLElement} root */
export function handleCopies(root) {
	root.addEventListener('click', async (event) => {
		const button = /** @type {HTMLElement} */ (event.target).closest('[data-action="copy"]');
		const text = button?.closest('.code')?.querySelector('pre')?.textContent;
		if (!button || text === undefined || text === null) {
			return;
		}
		await writeClipboard(text);
		button.replaceChildren(icon('check'), h('span', {}, 'Copied'));
		setTimeout(() => button.replaceChildren(icon('copy'), h('span', {}, 'Copy')), 1600);
	});
}

/**
 * Changes `target` so that its children equal those of `source`, and keeps every node that can stay:
 * selection, focus, scroll positions and opened <details> survive. Takes the nodes of `source`.
 * @param {Node} target @param {Node} source
 */
export function morph(target, source) {
	let old = target.firstChild;
	for (const next of [...source.childNodes]) {
		const following = old?.nextSibling ?? null;
		if (!old) {
			target.appendChild(next);
		} else if (old.nodeType === next.nodeType && old.nodeName === next.nodeName) {
			morphNode(old, next);
		} else {
			target.replaceChild(next, old);
		}
		old = following;
	}
	while (old) {
		const following = old.nextSibling;
		old.parentNode?.removeChild(old);
		old = following;
	}
}

/** An element with data-stays leaves the old one of its class as it is. @param {any} old @param {any} next a node of the same kind */
function morphNode(old, next) {
	if (old.nodeType !== Node.ELEMENT_NODE) {
		if (old.data !== next.data) {
			old.data = next.data;
		}
		return;
	}
	if (next.dataset?.stays === undefined || old.className !== next.className) {
		morphAttributes(old, next);
		morph(old, next);
	}
}

/** @param {Element} old @param {Element} next */
export function morphAttributes(old, next) {
	const mayStay = (/** @type {string} */ name) => name === 'open' && old.nodeName === 'DETAILS';
	for (const { name } of [...old.attributes]) {
		if (!next.hasAttribute(name) && !mayStay(name)) {
			old.removeAttribute(name);
		}
	}
	for (const { name, value } of next.attributes) {
		if (old.getAttribute(name) !== value && !mayStay(name)) {
			old.setAttribute(name, value);
		}
	}
}

/** @param {string} selector @returns {any} */
export function $(selector) {
	return document.querySelector(selector);
}

/** @param {number} size */
export function formatBytes(size) {
	const units = ['bytes', 'KiB', 'MiB', 'GiB'];
	let unit = 0;
	let value = size;
	while (value >= 1024 && unit < units.length - 1) {
		value /= 1024;
		unit += 1;
	}
	return `${unit === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)} ${unit === 0 && value === 1 ? 'byte' : units[unit]}`;
}
