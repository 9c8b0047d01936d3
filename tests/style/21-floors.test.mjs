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
const sources = filesIn(['src', 'include'], ['.c', '.h']);
const text = new Map(sources.map((file) => [file, readFileSync(join(root, file), 'utf8')]));

/** The room of a file below src/: the folder with the longest name in the table. */
function roomOfSource(file) {
	for (let folder = dirname(file).slice('src/'.length); folder && folder !== '.'; folder = dirname(folder)) {
		if (table.rooms.has(folder)) {
			return folder;
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

/** A header that is not public: beside the file, or below one of the folders above it. */
function findPrivate(file, name) {
	for (let folder = dirname(file); folder !== '.'; folder = dirname(folder)) {
		const found = sources.find((path) => path === join(folder, name)) ?? sources.find((path) => path.startsWith(`${folder}/`) && folder !== 'src' && path.endsWith(`/${name}`));
		if (found) {
			return found;
		}
	}
	return join(dirname(file), name);
}

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

test('a room includes only its own headers and those of the rooms that the table gives it', () => {
	const wrong = [];
	for (const file of sources) {
		for (const header of includesOf(file)) {
			const [from, to] = [roomOf(file), text.has(header) ? roomOf(header) : `(no such file: ${header})`];
			if (from !== to && !table.rooms.get(from)?.includes(to)) {
				wrong.push(`${file} (${from}) includes ${header} (${to})`);
			} else if (from !== to && !header.startsWith('include/')) {
				wrong.push(`${file} (${from}) includes ${header}, which is of another room (${to}) and not public`);
			}
		}
	}
	assert.deepEqual(wrong, []);
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

test('the build has the rooms in their order, from below', () => {
	const order = [...readFileSync(join(root, 'src/meson.build'), 'utf8').matchAll(/^(?:subdir\('([^']+)'\)|core_files \+= files\(\s*'([^/']+)\/)/gm)].map(([, folder, first]) => folder ?? first);
	const wrong = [];
	for (const [name, uses] of table.rooms) {
		for (const other of order.includes(name) ? uses : []) {
			if (order.indexOf(other) > order.indexOf(name)) {
				wrong.push(`${other} comes after ${name}, which uses it`);
			}
		}
	}
	assert.ok(order.length > 10 && order.every((name) => table.rooms.has(name)), order.join(' '));
	assert.deepEqual(wrong, []);
});

test('libwebsockets is included by one file, and linked by the rooms outside of the core library only', () => {
	const including = sources.filter((file) => /^\s*#\s*include\s+<libwebsockets\.h>/m.test(text.get(file)));
	assert.deepEqual(including, table.others.get('libwebsockets.h'));

	const outside = new Set(['main']); // src/main.c is named in the first meson.build
	// Lists of files that end up in no library are programs of their own, whatever their names are.
	for (const file of filesIn(['src'], ['meson.build'])) {
		for (const [, list, files] of readFileSync(join(root, file), 'utf8').matchAll(/^(\w+)\s*\+?=\s*files\(([^)]*)\)/gm)) {
			for (const [, name] of list.startsWith('core_') ? [] : files.matchAll(/'([^']+)'/g)) {
				outside.add(roomOfSource(join(dirname(file), name)));
			}
		}
	}
	assert.deepEqual([...outside].sort(), [...table.others.get('outside the core library')].sort());
});

test('what only several nodes need is included by its own files, and by the relay, which gives it to the others', () => {
	// tests/unit/test_without_nodes.c links a server without these files: the lists in meson.build are the same.
	const own = new Set();
	for (const file of filesIn(['src'], ['meson.build'])) {
		for (const [, files] of readFileSync(join(root, file), 'utf8').matchAll(/^(?:core|net)_node_files\s*\+=\s*files\(([^)]*)\)/gm)) {
			for (const [, name] of files.matchAll(/'([^']+)'/g)) {
				own.add(join(dirname(file), name));
			}
		}
	}
	assert.ok(own.size > 10, [...own].join(' '));
	const names = new Set([...own].map((file) => `${basename(file, '.c')}.h`).concat('node_internal.h', 'mirror_internal.h'));
	// The header of the placement has the type of the sockets that an editor's door opens by it.
	const may = (file) => own.has(file) || names.has(basename(file)) || roomOf(file) === 'relay' || file === 'include/holdfast/placement.h';
	const wrong = [];
	for (const file of sources.filter((name) => !may(name))) {
		for (const [, header] of text.get(file).matchAll(/^\s*#\s*include\s+"(?:[^"]*\/)?([^"/]+)"/gm)) {
			if (names.has(header)) {
				wrong.push(`${file}: ${header}`);
			}
		}
	}
	assert.deepEqual(wrong, []);
});

test('files of our own are opened by one function, which follows no link and waits for nothing (holdfast/beneath.h)', () => {
	// disk->openat() is open_plain(). What follows a link is open_named() alone, for what the operator named.
	const rooms = new Set(['store', 'tools', 'access', 'push', 'webhook', 'relay', 'post']);
	const wrong = [];
	for (const file of sources.filter((name) => rooms.has(roomOf(name)) && name.endsWith('.c'))) {
		for (const [, call] of text.get(file).matchAll(/(?<![\w.>])((?:open|openat|open64|creat|fopen|freopen|truncate|json_load_file|uv_fs_open)\()/g)) {
			wrong.push(`${file}: ${call}…)`);
		}
	}
	for (const [, call] of text.get('src/core/base/line_file.c').matchAll(/(?<![\w.>])((?:open|openat|fopen)\()/g)) {
		wrong.push(`src/core/base/line_file.c: ${call}…)`);
	}
	assert.deepEqual(wrong, []);
});
