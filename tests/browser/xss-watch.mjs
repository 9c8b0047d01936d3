// A page without any Content-Security-Policy, in Chromium, and everything that a text in it could do, watched.

import { browser } from './page.mjs';
import { defer } from '../support/wait.mjs';

/** Not at the root, so that a relative address has something to be relative to. */
export const BARE = 'http://ours.invalid/some/page';
const PIXEL = Buffer.from('R0lGODlhAQABAAAAACwAAAAAAQABAAA=', 'base64');

/**
 * Runs in every frame before anything else does. What runs a script of a text says so on the console, as an
 * error; `hostile` looks at elements.
 */
export function installWatch() {
	for (const name of ['alert', 'confirm', 'prompt', 'print', 'open', 'msgbox']) {
		window[name] = (...args) => console.error(`ran: ${name}(${args})`);
	}
	// What may come out of the server, and nothing else: by tag, the attributes with what each may be.
	const isAddress = (value) => [document.baseURI, 'https://ours.invalid/a/b?c#d'].every((base) => {
		const isNamed = /^(?:https?|mailto):/i.test(value);
		if (!URL.canParse(value, base)) {
			return isNamed; // http://a b/ leads nowhere
		}
		const { protocol, origin } = new URL(value, base);
		return isNamed ? ['http:', 'https:', 'mailto:'].includes(protocol) : origin === new URL(base).origin;
	});
	const any = () => true;
	const empty = (value) => value === '';
	const cell = { align: (value) => ['left', 'center', 'right'].includes(value) };
	const ALLOWED = {
		a: { href: isAddress, title: any },
		img: { src: isAddress, alt: any, title: any },
		ol: { start: (value) => /^\d{1,9}$/.test(value) },
		code: { class: (value) => /^language-[\w+#.-]{1,64}$/.test(value) },
		input: { type: (value) => value === 'checkbox', checked: empty, disabled: empty },
		td: cell,
		th: cell,
	};
	for (const tag of 'p h1 h2 h3 h4 h5 h6 ul li blockquote pre em strong del br hr table thead tbody tr'.split(' ')) {
		ALLOWED[tag] = {};
	}
	const isFine = (node) =>
		node.nodeType === Node.TEXT_NODE ||
		(node.nodeType === Node.ELEMENT_NODE &&
			node.namespaceURI === 'http://www.w3.org/1999/xhtml' &&
			!node.shadowRoot &&
			Object.hasOwn(ALLOWED, node.localName) &&
			(node.localName !== 'input' || (node.disabled && node.type === 'checkbox')) &&
			[...node.attributes].every(
				({ name, value }) =>
					Object.hasOwn(ALLOWED[node.localName], name) && ALLOWED[node.localName][name](value),
			));
	// What our own page is built of, besides.
	const OWN_TAGS = 'b bdi button details div i ins path section span summary svg'.split(' ');
	const OWN_ATTRIBUTE = /^(?:aria-[a-z]+|data-[a-z-]+|class|d|disabled|hidden|href|open|rel|role|tabindex|target|title|type|viewBox)$/;
	const isOwn = (node) =>
		(OWN_TAGS.includes(node.localName) || (Object.hasOwn(ALLOWED, node.localName) && !['img', 'input'].includes(node.localName))) &&
		[...node.attributes].every(
			({ name, value }) => ALLOWED[node.localName]?.[name]?.(value) || (name === 'dir' && ['auto', 'ltr'].includes(value)) || (OWN_ATTRIBUTE.test(name) && (name !== 'href' || isAddress(value))),
		) &&
		(!node.closest('.message') || node.localName !== 'a' || (node.target === '_blank' && node.rel === 'noopener noreferrer'));
	const describe = (node) => (node.outerHTML ?? `${node.nodeName} ${node.data}`).slice(0, 200);
	const below = (root) => {
		const walker = document.createTreeWalker(root);
		const nodes = [];
		while (walker.nextNode()) {
			nodes.push(walker.currentNode);
		}
		return nodes;
	};

	window.hostile = {
		/** Everything below `root` that is not what the server may send, described. */
		strangers: (root) => below(root).filter((node) => !isFine(node)).map(describe),
		/** The same for a part of our own page. */
		strangersInOurs: (root) => below(root).filter((node) => !isFine(node) && !(node.nodeType === Node.ELEMENT_NODE && isOwn(node))).map(describe),
		isAddress,
		/** Until what has been put into the page has had its chance: images are there or not, frames were drawn. */
		settled: async () => {
			await Promise.all([...document.images].map((image) => image.complete || new Promise((done) => {
				image.addEventListener('load', done);
				image.addEventListener('error', done);
			})));
			for (let frame = 0; frame < 3; frame++) {
				await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
			}
		},
		/**
		 * Does to the elements what a reader may do; says to how many. A click on a link that may be there goes no
		 * further; one that may not is followed.
		 */
		use: async (selector) => {
			const hold = (event) => {
				const link = event.target.closest('a[href], area[href]');
				if (link && isAddress(link.getAttribute('href'))) {
					event.preventDefault();
				}
			};
			window.addEventListener('click', hold, true);
			const elements = [...document.querySelectorAll(selector)];
			for (const element of elements) {
				for (const type of ['pointerover', 'mouseover', 'mouseenter', 'mousemove', 'mousedown', 'mouseup', 'dblclick',
					'contextmenu', 'keydown', 'keyup', 'input', 'change', 'toggle', 'wheel', 'copy', 'drag', 'animationend']) {
					element.dispatchEvent(new Event(type, { bubbles: true, cancelable: true }));
				}
				element.focus?.();
				element.click?.();
			}
			await window.hostile.settled();
			window.removeEventListener('click', hold, true);
			return elements.length;
		},
	};
}

/** A context whose every request is answered here: `respond(url)` gives the bare page's HTML. */
async function newContext(t, respond, asked) {
	const context = await (await browser()).newContext({ viewport: { width: 1000, height: 700 } });
	defer(t, () => context.close());
	await context.addInitScript(installWatch);
	await context.route('**/*', async (route) => {
		const request = route.request();
		if (request.url() === BARE) {
			await route.fulfill({ contentType: 'text/html; charset=utf-8', body: respond() });
			return;
		}
		asked.push({ type: request.resourceType(), url: request.url() });
		// Some images are there and some are not: both of onload and onerror have their chance.
		await (request.url().endsWith('/y') ? route.fulfill({ contentType: 'image/gif', body: PIXEL }) : route.abort());
	});
	return context;
}

/**
 * Opens the page with `body`; gives {page, happened}, a list of what nothing but a script of a text, or
 * something that loads, can have done. Images are loaded, and are no part of it.
 */
export async function openBare(t, body = '') {
	const asked = [];
	const happened = [];
	const context = await newContext(t, () => `<!doctype html><meta charset="utf-8"><title>bare</title><body>${body}`, asked);
	const page = await context.newPage();
	page.on('console', (message) => message.text().startsWith('ran: ') && happened.push(message.text()));
	page.on('pageerror', (error) => happened.push(`error: ${error.message}`));
	page.on('dialog', (dialog) => happened.push(`dialog: ${dialog.message()}`) && dialog.dismiss());
	page.on('frameattached', (frame) => happened.push(`frame: ${frame.url()}`));
	page.on('worker', (worker) => happened.push(`worker: ${worker.url()}`));
	page.on('websocket', (socket) => happened.push(`socket: ${socket.url()}`));
	page.on('download', (download) => happened.push(`download: ${download.url()}`));
	await page.goto(BARE);
	page.on('framenavigated', (frame) => happened.push(`navigation: ${frame.url()}`));
	context.on('page', (other) => happened.push(`window: ${other.url()}`));
	return {
		page,
		/** All that was done so far, requests for anything but an image included. */
		happened: () => [
			...happened,
			...asked.filter(({ type }) => type !== 'image').map(({ type, url }) => `request: ${type} ${url}`),
		],
	};
}

/** Each HTML in an element of its own, so that what leaves its place is seen. */
export const asSections = (htmls) => htmls.map((html, i) => `<section data-no="${i}">${html}</section>`).join('\n');

/**
 * What is wrong with the sections of the page: [[no, what], ...]. Each must stand where it was put, hold only
 * what the server may send, and read the same once it was written out and read again.
 */
export function checkSections(page, htmls) {
	return page.evaluate((wanted) => {
		const sections = [...document.body.children];
		const wrong = [];
		if (sections.length !== wanted.length || document.querySelectorAll('section').length !== wanted.length) {
			wrong.push([-1, `${sections.length} sections`]);
		}
		sections.forEach((section, i) => {
			const html = wanted[i] ?? '';
			const again = section.cloneNode();
			again.innerHTML = section.innerHTML;
			const what = [
				...window.hostile.strangers(section),
				section.localName === 'section' && section.dataset.no === String(i) ? null : 'has lost its place',
				section.querySelectorAll('*').length === (html.match(/<[a-z]/g)?.length ?? 0) ? null : 'another count of tags',
				again.isEqualNode(section) ? null : 'changes when parsed again',
			];
			wrong.push(...what.filter(Boolean).map((text) => [i, text]));
		});
		return wrong;
	}, htmls);
}
