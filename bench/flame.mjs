#!/usr/bin/env node
// Makes a flame graph (SVG) of what `perf script -F comm,tid,ip,sym,dso` says on stdin: bench/flame.mjs TITLE >FILE.
// The width of a frame is its share of the samples; what has less than 1 % is left out, so that the file stays small. Of less than 100 samples nothing is made.

import { readFileSync } from 'node:fs';

const WIDTH = 1200;
const ROW = 16;
const LEAST = 0.01;

const STARTS = /^(_start|__libc_start|clone3?$|start_thread|entry_SYSCALL|do_syscall)/;

const root = { name: 'all', count: 0, children: new Map() };

/** One sample: from the thread's name down to where it was. */
function add(names) {
	let node = root;
	node.count++;
	for (const name of names) {
		if (!node.children.has(name)) {
			node.children.set(name, { name, count: 0, children: new Map() });
		}
		node = node.children.get(name);
		node.count++;
	}
}

/** `7f12 uv_run (/usr/lib/libuv.so.1)` is uv_run; without a symbol it is the library. */
function nameOf(line) {
	const [, symbol, file] = /^\s*[0-9a-f]+ (.*) \((.*)\)$/.exec(line) ?? [null, line.trim(), ''];
	return symbol === '[unknown]' ? `[${file.split('/').pop().replace(/[[\]]/g, '')}]` : symbol;
}

for (const sample of readFileSync(0, 'utf8').split('\n\n')) {
	const [head, ...frames] = sample.split('\n').filter((line) => line.trim() && !line.startsWith('#'));
	if (head) {
		const names = frames.map(nameOf).reverse();
		// A library without symbols that calls itself is one box, and what starts every thread is none.
		add([head.trim().replace(/\s+\d+.*$/, ''), ...names.filter((name, i) => name !== names[i - 1] && !STARTS.test(name))]);
	}
}

if (root.count < 100) {
	process.exit(1); // too few to show anything
}

const escape = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/"/g, '&quot;');
const boxes = [];
let depthMost = 0;

function draw(node, x, depth) {
	const share = node.count / root.count;
	depthMost = Math.max(depthMost, depth);
	const hue = [...node.name].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) % 40, 7);
	const width = share * WIDTH;
	const text = width > 40 ? node.name.slice(0, Math.floor(width / 6.6)) : '';
	boxes.push({ x, width, depth, hue, text, title: `${node.name}: ${(100 * share).toFixed(1)} %` });
	let at = x;
	for (const child of [...node.children.values()].sort((a, b) => b.count - a.count)) {
		if (child.count / root.count >= LEAST) {
			draw(child, at, depth + 1);
		}
		at += (child.count / root.count) * WIDTH;
	}
}

draw(root, 0, 0);
const height = (depthMost + 3) * ROW;
const lines = boxes.map(({ x, width, depth, hue, text, title }) => {
	const y = height - (depth + 1) * ROW;
	return `<g><title>${escape(title)}</title><rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="15" fill="hsl(${hue},75%,68%)"/>` +
		(text ? `<text x="${(x + 2).toFixed(1)}" y="${y + 11}">${escape(text)}</text>` : '') + '</g>';
});
console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="monospace" font-size="11">
<rect width="100%" height="100%" fill="#fff"/><text x="4" y="14" font-size="13">${escape(process.argv[2] ?? '')} (${root.count} samples)</text>
${lines.join('\n')}
</svg>`);
