// The seam of the store (src/core/store/engine.h): what is above it knows no engine but by the table, and what one engine needs is in its own structs.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';

import { circlesOf, readCalls } from '../support/calls.mjs';
import { filesIn, root } from './files.mjs';

const text = new Map(filesIn(['src/core/store', 'src/engines'], ['.c', '.h']).map((file) => [basename(file), readFileSync(join(root, file), 'utf8')]));

/** The headers of the store that a file includes, directly or through others. */
function reach(file, seen = new Set()) {
	for (const [, header] of text.get(file).matchAll(/^#include "(?:[^"]*\/)?([^"/]+)"/gm)) {
		if (text.has(header) && !seen.has(header)) {
			seen.add(header);
			reach(header, seen);
		}
	}
	return seen;
}

const sources = [...text.keys()].filter((file) => file.endsWith('.c'));
const engines = ['embedded.h', 'pg.h'];
const below = new Set(sources.filter((file) => engines.some((header) => reach(file).has(header))));
const above = sources.filter((file) => reach(file).has('store_internal.h') && !below.has(file));

test('what is above the seam lies above it: core/store includes nothing of an engine but where the two meet', () => {
	const wrong = [];
	for (const file of filesIn(['src/core/store'], ['.c', '.h']).filter((path) => dirname(path) === 'src/core/store')) {
		for (const [, header] of text.get(basename(file)).matchAll(/^#include "(core\/store\/embedded\/[^"]+)"/gm)) {
			wrong.push(`${basename(file)}: ${basename(header)}`);
		}
	}
	assert.deepEqual(wrong.sort(), ['store_migrate.c: migrate_files.h'], 'a directory is one side of a migration');
});

/** How many members a struct has. */
function countMembers(header, name) {
	const [, body] = new RegExp(`^struct ${name} \\{\\n([^]*?)^\\};`, 'm').exec(text.get(header));
	return body.replaceAll(/\/\*[^]*?\*\//g, '').split(';').filter((part) => part.trim()).length;
}

test('above the seam of the store no engine is called but by the table of its functions', () => {
	for (const file of ['session_log.c', 'store.c', 'log_read.c', 'log_part.c', 'log_keys.c', 'blobs.c', 'renderer.c']) {
		assert.ok(above.includes(file), `${file} is above the seam`);
	}
	const calls = readCalls(['core/store', 'engines']);
	const wrong = above.flatMap((file) => [...calls.get(file)].filter(([other]) => below.has(other)).flatMap(([other, names]) => names.map((name) => `${file}: ${name} of ${other}`)));
	assert.deepEqual(wrong, ['store_open.c: store_embedded of embedded.c'], 'the engine of a store that names none');
});

test('the circles of calls in the store grow no larger', () => {
	const circles = circlesOf(readCalls(['core/store', 'engines']));
	const [largest] = circles;
	assert.ok(largest.length <= 14, `${largest.length} files call each other: ${largest.join(' ')}`);
	const shared = circles.find((circle) => circle.includes('session_log.c')) ?? [];
	assert.deepEqual(shared.filter((file) => below.has(file)), [], 'a circle goes through the seam');
});

test('what one engine needs of a log or a store is in its own struct', () => {
	const most = { 'store_internal.h': { session_log: 37, store: 28 }, 'embedded.h': { embedded_log: 22, embedded_store: 23 } };
	for (const [header, structs] of Object.entries(most)) {
		for (const [name, count] of Object.entries(structs)) {
			assert.ok(countMembers(header, name) <= count, `struct ${name} has ${countMembers(header, name)} members, of at most ${count}`);
		}
	}
});
