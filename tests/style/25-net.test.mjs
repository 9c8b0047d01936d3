// src/server and what lies on it: the files that own sockets, requests and memory know no door by its name, and the files that call each other in circles stay few.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';

import { filesIn, root } from './files.mjs';

/** Words of doors, nodes, agents and what is told to others. None is a part of a name in the files below. */
const OTHERS = ['acp', 'agent', 'agents', 'ai', 'ds', 'editor', 'forward', 'mirror', 'mirrors', 'node', 'nodes', 'push', 'raw', 'tap', 'viewer', 'webhook', 'webhooks'];

/** They reach a door by its operations (include/holdfast/door.h). Add a file when it has become clean. */
const CLEAN = ['absent.c', 'append.c', 'auth.c', 'client.c', 'conn.c', 'conn_wait.c', 'http_admit.c', 'http_answer.c', 'http_events.c', 'http_request.c', 'http_sse.c', 'http_stream.c', 'query.c', 'rate.c', 'refuse_later.c', 'room.c', 'route.c', 'sending.c', 'sse_stream.c', 'trace.c', 'ws_feed.c', 'ws_handshake.c', 'ws_producer.c', 'ws_socket.c'];

/** Facts of a connection and of a route: the listener for other nodes. */
const FACTS = new Set(['is_node', 'ROUTE_NODES']);

/** The most files of the server, its doors and the nodes of which each reaches each by calls. Lower it when the circle opens further. */
const LARGEST_CIRCLE = 18;

const strip = (text) => text.replace(/\/\*[^]*?\*\//g, ' ').replace(/\/\/.*$/gm, '');
const code = new Map(filesIn(['src/server', 'src/doors', 'src/nodes', 'include/holdfast'], ['.c', '.h']).filter((file) => !file.startsWith('src/server/relay/') && (!file.startsWith('include/') || /\/(door|placement)\.h$/.test(file))).map((file) => [basename(file), strip(readFileSync(join(root, file), 'utf8'))]));

test('what owns sockets, requests and memory names no door', () => {
	const words = new Set(OTHERS);
	const wrong = [];
	for (const file of CLEAN) {
		const text = code.get(file);
		assert.ok(text, `${file} does not exist`);
		const names = [...text.matchAll(/^#include "([^"]+)"/gm), ...text.replace(/"(?:\\.|[^"\\\n])*"/g, '').matchAll(/\b([A-Za-z_]\w*)/g)].map(([, name]) => name);
		wrong.push(...names.filter((name) => !FACTS.has(name) && name.split(/[^A-Za-z]+/).some((part) => words.has(part.toLowerCase()))).map((name) => `${file}: ${name}`));
	}
	assert.deepEqual([...new Set(wrong)], []);
});

/** Which file calls which: what a file defines for others (functions and tables), and who names it. */
function callsOf(files) {
	const definedIn = new Map();
	for (const [file, text] of files) {
		for (const [, name] of text.matchAll(/^(?!static\b|typedef\b|extern\b)[a-z][\w \t*]*?\b(\w+)\([^;{}]*?\)\n\{/gm)) {
			definedIn.set(name, file);
		}
		for (const [, name] of text.matchAll(/^const struct \w+ (\w+) = /gm)) {
			definedIn.set(name, file);
		}
	}
	const calls = new Map();
	for (const [file, text] of files) {
		const own = new Set([...text.matchAll(/^static [^;={]*?\b(\w+)\(/gm)].map(([, name]) => name));
		const names = [...text.matchAll(/(?<![.>\w])([a-z_]\w+)/g)].map(([, name]) => name);
		calls.set(file, new Set(names.filter((name) => !own.has(name)).map((name) => definedIn.get(name)).filter((other) => other && other !== file)));
	}
	return calls;
}

/** All files that a file reaches by calls. */
function reach(calls, file) {
	const seen = new Set();
	const due = [file];
	while (due.length) {
		for (const other of calls.get(due.pop())) {
			if (!seen.has(other)) {
				seen.add(other);
				due.push(other);
			}
		}
	}
	return seen;
}

test('the largest circle of calls does not grow', () => {
	const calls = callsOf([...code].filter(([file]) => file.endsWith('.c')).map(([file, text]) => [file, text.replace(/"(?:\\.|[^"\\\n])*"/g, '""')]));
	assert.ok(calls.size > 50 && calls.get('conn.c').has('transport.c'), 'the files and their calls were found');
	const reached = new Map([...calls.keys()].map((file) => [file, reach(calls, file)]));
	const circleOf = (file) => [...reached.get(file)].filter((other) => reached.get(other).has(file));
	const largest = [...calls.keys()].map(circleOf).sort((a, b) => b.length - a.length)[0].sort();
	assert.ok(largest.length <= LARGEST_CIRCLE, `${largest.length} files call each other in a circle: ${largest.join(' ')}`);
});
