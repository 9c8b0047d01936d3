// The route of a request is looked up once (src/server/http/route.c): no other file asks its path again.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';

import { filesIn, root } from './files.mjs';

/** They look up, decode and free the path; find the file or the stream that it names; and log it. */
const MAY = ['files.c', 'http_raw.c', 'http_request.c', 'route.c', 'trace.c'];

test('only a few files read the path of a request', () => {
	const reading = filesIn(['src/server', 'src/doors', 'src/nodes', 'src/notify'], ['.c']).filter((file) => /\bhttp->path\b/.test(readFileSync(join(root, file), 'utf8')));
	assert.deepEqual(reading.map((file) => basename(file)).sort(), MAY);
});

test('the routes of a door are named by its own file and by the list of tables', () => {
	const text = readFileSync(join(root, 'src/server/relay/routes.h'), 'utf8');
	const tables = [...text.matchAll(/^extern const struct route (\w+)\[\]; \/\* (\w+\.c) \*\/$/gm)];
	assert.ok(tables.length > 10, 'the tables were found');
	for (const [, name, owner] of tables) {
		const naming = filesIn(['src'], ['.c']).filter((file) => new RegExp(`\\b${name}\\b`).test(readFileSync(join(root, file), 'utf8')));
		assert.deepEqual(naming.map((file) => basename(file)).sort(), [owner, 'routes.c'].sort(), name);
	}
});
