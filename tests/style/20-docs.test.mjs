// What comments and pages cite is there: files, headings, functions. The pages on the code are short.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { test } from 'node:test';

import { filesIn, root } from './files.mjs';

const folders = ['.ci', 'bench', 'docs', 'examples', 'include', 'proto', 'scripts', 'src', 'tests', 'web'].filter((folder) => existsSync(join(root, folder)));
const rootFiles = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isFile()).map((entry) => entry.name);
const allFiles = [...rootFiles, ...filesIn(folders, [''])];
const names = new Set(allFiles.map((file) => basename(file)));
const read = (file) => readFileSync(join(root, file), 'utf8');

/** Cited, but not ours: what the build makes, what readers of the README write, and the header of a library. */
const elsewhere = new Set(['bench/holdfast-bench', 'bench/holdfast-bench-produce', 'watch.mjs', 'libwebsockets.h']);

/** Texts that are input for tests or for the examples are no pages. */
const pages = allFiles.filter((file) => file.endsWith('.md') && !/^tests\/(corpus\/markdown|fuzz\/seeds)\//.test(file) && file !== 'examples/answer.md');
const code = allFiles.filter((file) => /\.(c|h|mjs|js|ts|css|py|build|sh|awk)$/.test(file) || /^(scripts|\.ci)\//.test(file));

/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf(page) {
	const outside = read(page).replace(/^ *```[^]*?^ *```$/gm, '');
	return new Set([...outside.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').trim().replace(/\s/g, '-')));
}

const cache = new Map();
function hasAnchor(page, anchor) {
	if (!cache.has(page)) {
		cache.set(page, anchorsOf(page));
	}
	return cache.get(page).has(anchor);
}

/** The comments of a source file, one text each; what stands in one row of lines is one. */
function commentsOf(file) {
	const marks = /\.(c|h|mjs|js|ts|css)$/.test(file) ? /^\s*(?:\/\/|\/\*+|\*(?=[\s/]|$))(.*)$/ : /^\s*#(.*)$/;
	const found = [];
	let open = '';
	for (const line of read(file).split('\n')) {
		const own = marks.exec(line)?.[1];
		const trailing = /\s(?:\/\/|\/\*)\s(.*)$/.exec(line)?.[1];
		if (own === undefined && open) {
			found.push(open);
			open = '';
		}
		if (own !== undefined) {
			open += ` ${own.trim()}`;
		} else if (trailing && marks.source.includes('\\/\\/')) {
			found.push(trailing);
		}
	}
	return open ? [...found, open] : found;
}

/** What a text cites that is not there. `base` is the folder that relative paths start in; `page`: the text is that of a page, with links. */
function missingIn(text, base, page) {
	const missing = [];
	const rooted = new RegExp(`(?<![\\w./-])((?:${folders.join('|').replace('.', '\\.')})/[\\w./-]*\\w)(?:#([\\w-]+))?`, 'g');
	for (const [cited, path, anchor] of text.matchAll(rooted)) {
		const found = [path, join(base, path)].find((at) => existsSync(join(root, at)));
		if (!elsewhere.has(path) && (!found || (anchor && !hasAnchor(found, anchor)))) {
			missing.push(cited);
		}
	}
	for (const [, name] of text.matchAll(/(?<![\w./*{}<>@-])([a-z][\w-]+\.(?:c|h|mjs|md))\b(?![\w(/])/g)) {
		if (!names.has(name) && !elsewhere.has(name)) {
			missing.push(name);
		}
	}
	for (const [, link, anchor] of page ? text.matchAll(/\]\(([^)#\s]*)(?:#([^)\s]*))?\)/g) : []) {
		const path = link ? normalize(join(base, link)) : page;
		if (!/^\w+:/.test(link) && (!existsSync(join(root, path)) || (anchor && !hasAnchor(path, anchor)))) {
			missing.push(`(${link}${anchor ? `#${anchor}` : ''})`);
		}
	}
	return missing;
}

test('every file and heading that a page cites is there', () => {
	assert.ok(pages.length >= 10, 'the pages were found');
	const wrong = [];
	for (const page of pages) {
		const links = read(page).replace(/^ *```[^]*?^ *```$/gm, '');
		const prose = [...links.matchAll(/`([^`\n]+)`/g)].map(([, quoted]) => quoted).join('\n');
		const base = dirname(page) === '.' ? '' : dirname(page);
		for (const cited of [...missingIn(prose, base), ...missingIn(links.replace(/`[^`\n]+`/g, ''), base, page)]) {
			wrong.push(`${page}: ${cited}`);
		}
	}
	assert.deepEqual(wrong, []);
});

test('every file and heading that a comment cites is there', () => {
	assert.ok(code.length > 300, 'the source files were found');
	const wrong = [];
	for (const file of code) {
		for (const cited of commentsOf(file).flatMap((comment) => missingIn(comment, dirname(file)))) {
			wrong.push(`${file}: ${cited}`);
		}
	}
	assert.deepEqual(wrong, []);
});

test('nothing cites a page that is not in the repository', () => {
	const left = [...pages, ...code].filter((file) => !file.startsWith(join('tests', 'style')) && /\b(CONTRACT|ARCHITECTURE|STYLE|ASKS)(-\d)?(\.md)?\b/.test(read(file)));
	assert.deepEqual(left, []);
});

test('docs/architecture.md and docs/changing.md are short, and name functions and folders that exist', () => {
	const sources = filesIn(['src', 'include'], ['.c', '.h']).map(read).join('\n');
	const [map, changing] = ['docs/architecture.md', 'docs/changing.md'].map(read);
	for (const page of [map, changing]) {
		assert.ok(countWords(page) <= 2000, `${countWords(page)} words`);
	}
	const functions = [...new Set([...`${map}${changing}`.matchAll(/`(\w+)\(\)`/g)].map(([, name]) => name))];
	assert.ok(functions.length > 30, 'the functions were found');
	assert.deepEqual(functions.filter((name) => !new RegExp(`\\b${name}\\(`).test(sources)), []);
	const rooms = readdirSync(join(root, 'src'), { withFileTypes: true }).filter((entry) => entry.isDirectory()).map((entry) => `src/${entry.name}`);
	assert.deepEqual(rooms.filter((room) => !map.includes(`\`${room}\``)), [], 'folders that the tree does not name');
});

test('SECURITY.md has each system call that the filters refuse', () => {
	const [, table] = /^## System calls of agents\n([^]*?)^Known/m.exec(read('SECURITY.md'));
	const calls = ['src/core/base/call_filter.c', 'src/agents/process/sandbox_filter.c'].flatMap((file) => [...read(file).matchAll(/\bSCMP_SYS\((\w+)\)|\bREFUSE_IF\(&?filter, (\w+),/g)].map(([, a, b]) => a ?? b)).filter((name) => name !== 'call');
	assert.ok(calls.length > 80, `${calls.length} were found`);
	assert.deepEqual(calls.filter((name) => !table.includes(`\`${name}\``)), []);
});

test('docs/install.md and the Debian package name the packages that scripts/lib.sh installs for a build', () => {
	const [, list] = /^build_packages=\(\n([^]*?)^\)/m.exec(read('scripts/lib.sh'));
	const packages = list.replace(/#.*$/gm, '').trim().split(/\s+/);
	assert.ok(packages.length > 15);
	const [, command] = /^apt-get install ([^]*?)\n```/m.exec(read('docs/install.md'));
	assert.deepEqual(command.replaceAll('\\\n', ' ').trim().split(/\s+/).sort(), packages.sort());
	assert.match(read('dist/debian/control.in'), /^Build-Depends: debhelper-compat \(= 13\), @BUILD_PACKAGES@$/m);
});

/* --- the wings' own pages --- */

const wings = ['core', 'engines', 'server', 'agents', 'doors', 'nodes', 'notify', 'cli', 'admin'];
const PAGE_LINES = 60;
const PAGE_WORDS = 400;

/** The rows of the spine's table, in the page of core. */
const spineOf = (text) => [...text.matchAll(/^\| `((?:src|include)\/[^`]+\.[ch])` \|.*\n/gm)];
const countWords = (text) => text.split(/[\s|]+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;

test('each wing has a README of at most a page', () => {
	const folders = readdirSync(join(root, 'src'), { withFileTypes: true }).filter((entry) => entry.isDirectory()).map((entry) => entry.name);
	assert.deepEqual(folders.sort(), [...wings].sort());
	for (const wing of wings) {
		const text = read(`src/${wing}/README.md`).replace(/^\| `(?:src|include)\/.*\n/gm, '');
		const [lines, words] = [text.trimEnd().split('\n').length, countWords(text)];
		assert.ok(lines <= PAGE_LINES && words <= PAGE_WORDS, `src/${wing}/README.md has ${lines} lines and ${words} words`);
	}
});

test('what a wing\'s README names is there: files, folders and functions', () => {
	const sources = filesIn(['src', 'include'], ['.c', '.h']).map(read).join('\n');
	const places = (wing) => ['', 'include', 'src', `src/${wing}`, ...readdirSync(join(root, 'src', wing), { withFileTypes: true }).filter((entry) => entry.isDirectory()).map((entry) => `src/${wing}/${entry.name}`)];
	const wrong = [];
	for (const wing of wings) {
		const quoted = [...read(`src/${wing}/README.md`).matchAll(/`([^`\n]+)`/g)].map(([, name]) => name);
		const paths = quoted.filter((name) => /^[\w./-]+(?:\/|\.[ch])$/.test(name) && !name.startsWith('/'));
		wrong.push(...paths.filter((path) => !places(wing).some((place) => existsSync(join(root, place, path))) && !names.has(path)).map((path) => `src/${wing}/README.md: ${path}`));
		const rows = [...read(`src/${wing}/README.md`).matchAll(/^\|.*/gm)].flatMap(([row]) => [...row.matchAll(/`([\w-]+\.[ch])`/g)].map(([, name]) => name));
		const own = new Set(filesIn([`src/${wing}`], ['.c', '.h']).map((file) => basename(file)));
		wrong.push(...rows.filter((name) => !own.has(name)).map((name) => `src/${wing}/README.md lists ${name}, which is in another wing`));
		const functions = quoted.map((name) => /^(\w+)\(\)$/.exec(name)?.[1]).filter(Boolean);
		wrong.push(...functions.filter((name) => !new RegExp(`\\b${name}\\(`).test(sources)).map((name) => `src/${wing}/README.md: ${name}()`));
	}
	assert.deepEqual(wrong, []);
});

test('the spine of core can be read in an afternoon', () => {
	const spine = spineOf(read('src/core/README.md')).map(([, file]) => file);
	const lines = spine.map((file) => read(file).split('\n').length - 1).reduce((a, b) => a + b, 0);
	assert.ok(spine.length >= 20 && spine.length <= 30, `${spine.length} files`);
	assert.ok(lines >= 6000 && lines <= 8000, `${lines} lines`);
	assert.deepEqual(spine.filter((file) => !/^(src\/core\/|include\/holdfast\/)/.test(file)), []);
});
