// The route of a request is looked up once (src/server/http/route.c): no other file asks its path again.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';

import { filesIn, root } from './files.mjs';

/** They look up, decode and free the path; find the file or the stream that it names; offer it to doors; and log it. */
const MAY = ['files.c', 'http_offered.c', 'http_raw.c', 'http_request.c', 'route.c', 'trace.c'];

test('only a few files read the path of a request', () => {
	const reading = filesIn(['src/server', 'src/doors', 'src/nodes', 'src/notify'], ['.c']).filter((file) => /\bhttp->path\b|\bhttp_path_of\(/.test(readFileSync(join(root, file), 'utf8')));
	assert.deepEqual(reading.map((file) => basename(file)).sort(), MAY);
});

/** The .c files that name `name`. */
const naming = (name) => filesIn(['src'], ['.c']).filter((file) => new RegExp(`\\b${name}\\b`).test(readFileSync(join(root, file), 'utf8'))).map((file) => basename(file)).sort();

test('a table of routes is named by its own file and by the list of doors', () => {
	const text = readFileSync(join(root, 'src/server/routes/routes.h'), 'utf8');
	const tables = [...text.matchAll(/^extern const struct route (\w+)\[\]; \/\* (\w+\.c) \*\/$/gm)];
	assert.ok(tables.length > 8, 'the tables were found');
	for (const [, name, owner] of tables) {
		assert.deepEqual(naming(name), [owner, 'relay_doors.c'].sort(), name);
	}
});

test('a door is named by its own file and by the list of doors', () => {
	const headers = filesIn(['include'], ['.h']).filter((file) => basename(file).startsWith('door_'));
	const doors = headers.flatMap((file) => [...readFileSync(join(root, file), 'utf8').matchAll(/^extern const struct door (\w+);$/gm)].map(([, name]) => name));
	assert.ok(doors.length > 5, 'the doors were found');
	for (const name of doors) {
		assert.equal(naming(name).length, 2, name);
		assert.ok(naming(name).includes('relay_doors.c'), name);
	}
});
