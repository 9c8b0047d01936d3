/**
 * Finds the keywords, strings and comments in a piece of code. A worker, so that code which makes
 * the library slow makes nothing else slow; highlight.js is a script of the old kind, and so is this.
 */

const LIBRARY = '../javascript/highlight.js/highlight.min.js';
const ENTITIES = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#x27;': "'" };

let library = null;
try {
	importScripts(LIBRARY);
	library = self.hljs;
} catch {
	library = null; // the server has none: code stays plain
}

/**
 * The library's HTML as [from, to, name] in the code it was made of: each character belongs to the
 * innermost span around it. None if they do not fit.
 */
function spansOf(html, code) {
	const spans = [];
	const open = [];
	let at = 0;
	for (const [piece, name] of html.matchAll(
		/<span class="(?:hljs-)?([\w-]+)[^>]*>|<[^>]*>|&[#\w]+;|[^<&]+/g,
	)) {
		if (name) {
			open.push(name);
		} else if (piece === '</span>') {
			open.pop();
		} else if (!piece.startsWith('<')) {
			const to = at + (ENTITIES[piece] ?? piece).length;
			const last = spans.at(-1);
			if (last && last[1] === at && last[2] === open.at(-1)) {
				last[1] = to;
			} else if (open.length > 0) {
				spans.push([at, to, open.at(-1)]);
			}
			at = to;
		}
	}
	return at === code.length ? spans : [];
}

self.onmessage = ({ data: { id, code, language } }) => {
	let spans = [];
	if (library?.getLanguage(language)) {
		try {
			spans = spansOf(library.highlight(language, code, true).value, code);
		} catch {
			spans = [];
		}
	}
	self.postMessage({ id, spans, isAble: library !== null });
};
