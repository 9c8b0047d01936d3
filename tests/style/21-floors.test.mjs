// The floors: which room may include which. The one table is in docs/architecture.md, and the code has to agree with it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';

import { filesIn, root } from './files.mjs';

/** The code block named `floors`: rooms in their order, headers that are exceptions, and the other lines by name. */
function readTable() {
	const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8');
	const [, block] = /^```floors\n([^]*?)^```$/m.exec(page);
	const rooms = new Map();
	const headers = new Map();
	const others = new Map();
	for (const line of block.split('\n').filter(Boolean)) {
		const [, name, value] = /^(.*?):(.*)$/.exec(line);
		const words = value.split(/\s+/).filter(Boolean);
		if (name.startsWith('header ')) {
			for (const header of name.split(/\s+/).slice(1)) {
				headers.set(`holdfast/${header}`, words[0]);
			}
		} else if (name.includes(' ') || name.endsWith('.h')) {
			others.set(name, words);
		} else {
			rooms.set(name, words);
		}
	}
	return { rooms, headers, others };
}

const table = readTable();
const sources = filesIn(['src', 'include', 'examples/agents'], ['.c', '.h']);
const text = new Map(sources.map((file) => [file, readFileSync(join(root, file), 'utf8')]));

/** The room of a file below src/: the folder with the longest name in the table. */
function roomOfSource(file) {
	for (let folder = dirname(file); folder !== '.' && folder !== 'src'; folder = dirname(folder)) {
		if (table.rooms.has(folder.replace(/^src\//, ''))) {
			return folder.replace(/^src\//, '');
		}
	}
	return dirname(file) === 'src' ? basename(file, '.c') : `(none: ${file})`;
}

/** The room of a public header: that of the .c file with its name, or what the table says. */
function roomOfHeader(header) {
	const name = basename(header, '.h');
	const rooms = [...new Set(sources.filter((file) => file.startsWith('src/') && basename(file) === `${name}.c`).map(roomOfSource))];
	return table.headers.get(header) ?? (rooms.length === 1 ? rooms[0] : `(none: ${header}, see the "header" lines of the table)`);
}

const publicHeaders = new Map(sources.filter((file) => file.startsWith('include/')).map((file) => [file.slice('include/'.length), roomOfHeader(file.slice('include/'.length))]));

function roomOf(file) {
	return file.startsWith('include/') ? publicHeaders.get(file.slice('include/'.length)) : roomOfSource(file);
}

/** What a file includes of ours: paths from the root of the repository. */
function includesOf(file) {
	return [...text.get(file).matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)].map(([, name]) => (publicHeaders.has(name) ? `include/${name}` : findPrivate(file, name)));
}

/** A header that is not public: beside the file, or by its path from src/ (or from the folder of the agents that come with the server). */
function findPrivate(file, name) {
	return [join(dirname(file), name), join('src', name), join('examples/agents', name)].find((path) => text.has(path)) ?? join(dirname(file), name);
}

const wingOf = (room) => (/^(doors|notify)\//.test(room) ? room : room.split('/')[0]);

/** Includes that still break the laws. Take a row away with the include. */
const OPEN = [
	'src/engines/postgres/pg.h: src/core/store/store_internal.h',
	'src/nodes/node_internal.h: src/server/http_internal.h',
	'src/nodes/node_mirror.c: src/server/ws_internal.h',
	'src/nodes/ws_tap.c: src/server/ws_internal.h',
	'src/nodes/ws_viewer.c: src/server/ws_internal.h',
];

/** All headers that come with a file, directly or through others. */
function reach(file, seen = new Set()) {
	for (const header of includesOf(file)) {
		if (text.has(header) && !seen.has(header)) {
			seen.add(header);
			reach(header, seen);
		}
	}
	return seen;
}

test('every source file and every public header belongs to a room of the table', () => {
	assert.ok(sources.length > 200, 'the source files were found');
	assert.deepEqual(sources.filter((file) => !table.rooms.has(roomOf(file))).map((file) => `${file}: ${roomOf(file)}`), []);
	assert.deepEqual([...table.headers.keys()].filter((header) => !publicHeaders.has(header)), [], 'exceptions for headers that do not exist');
});

test('a room includes only its own headers, and those that the table gives it; what is private stays in its wing and its folder', () => {
	const wrong = [];
	for (const file of sources) {
		for (const header of includesOf(file)) {
			const [from, to] = [roomOf(file), text.has(header) ? roomOf(header) : `(no such file: ${header})`];
			const isPrivate = !header.startsWith('include/');
			if ((from !== to && !table.rooms.get(from)?.includes(to)) || (isPrivate && (wingOf(from) !== wingOf(to) || (header.endsWith('_internal.h') && !`${dirname(file)}/`.startsWith(`${dirname(header)}/`))))) {
				wrong.push(`${file}: ${header}`);
			}
		}
	}
	assert.deepEqual(wrong.sort(), OPEN);
});

test('a public header is one that two wings use', () => {
	const users = new Map([...publicHeaders.keys()].map((header) => [`include/${header}`, new Set()]));
	for (const file of sources.filter((name) => !name.startsWith('include/'))) {
		for (const header of reach(file)) {
			users.get(header)?.add(wingOf(roomOf(file)));
		}
	}
	assert.deepEqual([...users].filter(([, wings]) => wings.size < 2).map(([header]) => header), []);
});

test('the table has no circle and nothing that the code does not need', () => {
	const names = [...table.rooms.keys()];
	const used = new Map(names.map((name) => [name, new Set()]));
	for (const file of sources) {
		for (const header of reach(file)) {
			used.get(roomOf(file)).add(roomOf(header));
		}
	}
	const wrong = [];
	for (const [name, uses] of table.rooms) {
		for (const other of uses) {
			if (names.indexOf(other) <= names.indexOf(name)) {
				wrong.push(`${name} uses ${other}, which does not stand below it`);
			} else if (!used.get(name).has(other)) {
				wrong.push(`${name} does not use ${other}`);
			}
		}
	}
	assert.deepEqual(wrong, []);
});

test('libwebsockets is included by one file', () => {
	const including = sources.filter((file) => /^\s*#\s*include\s+<libwebsockets\.h>/m.test(text.get(file)));
	assert.deepEqual(including, table.others.get('libwebsockets.h'));
});

test('files of our own are opened by one function, which follows no link and waits for nothing (holdfast/beneath.h)', () => {
	// disk->openat() is open_plain(). What follows a link is open_named() alone, for what the operator named.
	const rooms = /^(core\/(store|access)|engines\/postgres|cli|admin|agents\/record|notify\/\w+|server\/relay)$/;
	const wrong = [];
	for (const file of sources.filter((name) => rooms.test(roomOf(name)) && name.endsWith('.c'))) {
		for (const [, call] of text.get(file).matchAll(/(?<![\w.>])((?:open|openat|open64|creat|fopen|freopen|truncate|json_load_file|uv_fs_open)\()/g)) {
			wrong.push(`${file}: ${call}…)`);
		}
	}
	for (const [, call] of text.get('src/core/base/line_file.c').matchAll(/(?<![\w.>])((?:open|openat|fopen)\()/g)) {
		wrong.push(`src/core/base/line_file.c: ${call}…)`);
	}
	assert.deepEqual(wrong, []);
});
