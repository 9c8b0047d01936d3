// A session to produce again and again: several turns of markdown, cut anywhere, with tools, thoughts and
// plans in the middle of it. The same on every run.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { input } from './producer.mjs';

const corpusDir = fileURLToPath(new URL('../corpus/', import.meta.url));

/** The files of a folder of tests/corpus: [name, text] of each, without the .gz of those that are compressed. */
export function corpusFiles(folder, extension) {
	const dir = join(corpusDir, folder);
	const files = readdirSync(dir).sort().map((file) => [file.replace(/\.gz$/, ''), file])
		.filter(([name]) => name.endsWith(extension))
		.map(([name, file]) => [name, readFileSync(join(dir, file)), file])
		.map(([name, bytes, file]) => [name, (name === file ? bytes : gunzipSync(bytes)).toString()]);
	assert.ok(files.length > 0, `no ${extension} files in ${dir}`);
	return files;
}

const TEXTS = [
	'# What was found\n\nThree things **matter** here, and `one` does not:\n\n1. The first, with a second\n   line to it\n2. The second\n   - with a nested\n   - list\n\n   and a paragraph\n3. The third: grüße, 中文, 👋🏽\n\nThat was the list.',
	'Compare:\n\n| what | before | after |\n|---|:-:|--:|\n| speed | slow | **fast** |\n| `a|b` | \\| | 中 |\n| memory | high | low |\n\n> A quote\n> of two lines\n\nand a [link](https://example.com "title") after it.',
	'The code:\n\n```c\nint main(void)\n{\n\tputs("```");\n\n\treturn 0; // – ende\n}\n```\n\n~~~\n```\n~~~\n\n    indented\n\nDone *that*.\n\n---\n\nNext: **bold over\ntwo lines** and `code`.',
	'- one\n\n- two, loose\n\n  its second paragraph\n\n  ```sh\n  make test\n  ```\n- three\n\nA heading\n---------\n\n<div>\nhtml\n</div>\n\nThe end of a long answer, which says the same again and again.',
];

/** Pseudo-random numbers from 0 to below n, the same on every run. */
export function randomNumbers(seed) {
	let state = seed;
	return (n) => {
		state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
		return Math.floor((state / 2 ** 32) * n);
	};
}

/** Cuts a text into pieces of 1 to 40 characters, none inside a character. */
function cut(text, random) {
	const characters = [...text];
	const pieces = [];
	while (characters.length > 0) {
		pieces.push(characters.splice(0, 1 + random(random(2) ? 8 : 40)).join(''));
	}
	return pieces;
}

/** What comes between two pieces of text. */
function between(random, name) {
	return [
		[input.tool(name), input.toolDone(name)], [input.tool(name)], [input.thought('Let me '), input.thought(`think of ${name}.`)],
		[input.plan('first', name)], [input.note({ name })], [{ type: 'file_read', data: { path: name, size: 7 } }],
	][random(6)];
}

function turnOf(text, random, n) {
	const appends = [];
	for (const [i, piece] of cut(text, random).entries()) {
		appends.push([input.text(piece)]);
		if (random(5) === 0) {
			// Alone, with the text before it, or all at once.
			const more = between(random, `t${n}-${i}`);
			[() => appends.push(more), () => appends.at(-1).push(...more), () => more.forEach((e) => appends.push([e]))][random(3)]();
		}
	}
	appends.push([input.text(`\n\nThe end of turn ${n}.`)], [input.end()]);
	return { text: `${text}\n\nThe end of turn ${n}.`, appends };
}

/** A recording as appends (arrays of input events), and the text of each of its turns. */
export function makeRecording({ seed = 1, turns = 6 } = {}) {
	const random = randomNumbers(seed);
	const texts = [...TEXTS, ...corpusFiles('markdown', '.md').map(([, text]) => text.trimEnd())];
	const made = Array.from({ length: turns }, (_, n) => turnOf(texts[n % texts.length], random, n + 1));
	return { appends: made.flatMap((turn) => turn.appends), texts: made.map((turn) => turn.text) };
}

/** The text that a log's messages hold, turn by turn. */
export function textsOf(log) {
	const texts = [];
	for (const { type, turn, data } of log) {
		if (type === 'agent_message') {
			texts[turn - 1] = (texts[turn - 1] ?? '') + data.markdown;
		}
	}
	return texts;
}
