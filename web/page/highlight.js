/**
 * Colours code in place: the browser paints ranges of the text (CSS Custom Highlight API), and
 * not one element is added or changed. Without that, or without the library, code is plain.
 */

const CODE_MAX = 100_000; // characters
const SLOW_MS = 2_000; // a piece of code that takes longer is left plain
const SETTLE_MS = 120; // code that still grows is coloured when it rests

/** Each colour of styles/code.css, with the library's names for it. @type {Record<string, string[]>} */
const COLOURS = {
	keyword: ['keyword', 'built_in', 'selector-tag', 'name', 'meta-keyword'],
	string: ['string', 'regexp', 'meta-string', 'symbol', 'bullet', 'link', 'code'],
	comment: ['comment', 'quote', 'doctag', 'meta'],
	number: ['number', 'literal', 'template-variable'],
	title: ['title', 'section', 'selector-id', 'selector-class', 'type', 'strong'],
	attr: ['attr', 'attribute', 'variable', 'selector-attr', 'selector-pseudo'],
	addition: ['addition'],
	deletion: ['deletion'],
};
const COLOUR_OF = new Map(
	Object.entries(COLOURS).flatMap(([colour, names]) => names.map((name) => [name, colour])),
);

/** @type {Map<string, any>} one Highlight a colour */
const highlights = new Map();
/** @type {Map<Element, {text: string, language: string, ranges: [any, any][]}>} the coloured elements */
const done = new Map();
/** @type {Map<number, {code: Element, text: string, language: string}>} */
const asked = new Map();
/** @type {Set<Element>} */
const waiting = new Set();
/** @type {Worker | null} */
let worker = null;
let lastId = 0;
let slow = 0;
let settle = 0;
let isAble = typeof Worker === 'function' && 'highlights' in CSS;

/** Colours all code below this element, now or soon. @param {ParentNode} root */
export function highlightIn(root) {
	[...done.keys()].filter((code) => !code.isConnected).forEach(forget);
	for (const code of isAble ? root.querySelectorAll('code[class*="language-"]') : []) {
		waiting.add(code);
	}
	if (waiting.size > 0 && !settle) {
		settle = window.setTimeout(ask, SETTLE_MS);
	}
}

function forget(/** @type {Element} */ code) {
	done.get(code)?.ranges.forEach(([highlight, range]) => highlight.delete(range));
	done.delete(code);
}

function ask() {
	settle = 0;
	for (const code of waiting) {
		const text = code.textContent ?? '';
		const language = code.className.match(/language-([\w+#.-]+)/)?.[1].toLowerCase() ?? '';
		const before = done.get(code);
		if (
			code.isConnected &&
			text.length <= CODE_MAX &&
			(before?.text !== text || before.language !== language)
		) {
			lastId += 1;
			asked.set(lastId, { code, text, language });
			theWorker().postMessage({ id: lastId, code: text, language });
		}
	}
	waiting.clear();
	watch();
}

function theWorker() {
	if (!worker) {
		worker = new Worker(new URL('highlight-worker.js', import.meta.url));
		worker.onmessage = ({ data }) => take(data);
		worker.onerror = () => giveUp();
	}
	return worker;
}

/** Ends the worker if code keeps the library busy for too long; that code stays plain. */
function watch() {
	clearTimeout(slow);
	if (asked.size > 0) {
		slow = window.setTimeout(() => {
			worker?.terminate();
			worker = null;
			const [, ...rest] = asked.values();
			asked.clear();
			rest.forEach(({ code }) => waiting.add(code));
			ask();
		}, SLOW_MS);
	}
}

function giveUp() {
	isAble = false;
	asked.clear();
	clearTimeout(slow);
}

/** @param {{id: number, spans: [number, number, string][], isAble: boolean}} answer */
function take({ id, spans, isAble: library }) {
	const question = asked.get(id);
	asked.delete(id);
	watch();
	if (!library) {
		giveUp();
	} else if (
		question &&
		question.code.isConnected &&
		question.code.textContent === question.text
	) {
		paint(question, spans);
	}
}

/** @param {{code: Element, text: string, language: string}} question @param {[number, number, string][]} spans */
function paint({ code, text, language }, spans) {
	forget(code);
	/** @type {[any, any][]} */
	const ranges = [];
	const node = code.firstChild;
	for (const [from, to, name] of spans) {
		const colour = COLOUR_OF.get(name);
		if (colour && node instanceof Text && to <= node.length) {
			const range = new StaticRange({
				startContainer: node,
				startOffset: from,
				endContainer: node,
				endOffset: to,
			});
			const highlight = highlightOf(colour);
			highlight.add(range);
			ranges.push([highlight, range]);
		}
	}
	done.set(code, { text, language, ranges });
}

/** @param {string} colour */
function highlightOf(colour) {
	let highlight = highlights.get(colour);
	if (!highlight) {
		const { Highlight, CSS: css } = /** @type {any} */ (window);
		highlight = new Highlight();
		highlights.set(colour, highlight);
		css.highlights.set(`code-${colour}`, highlight);
	}
	return highlight;
}
