// Which wing calls which, as the linker sees it: a symbol that an object lacks, and whose object has it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readCalls } from '../support/calls.mjs';

const WINGS = ['core', 'engines', 'server', 'agents', 'doors', 'nodes', 'notify', 'cli', 'admin'];
/** Rooms of core that use neither store nor session: bytes in, values out. */
const PURE = ['base', 'json', 'wire', 'stream', 'state', 'render'];

/** What each may call besides itself and the pure part of core. What connects them all, src/server/relay, may call anything. */
const MAY = {
	pure: [],
	core: [],
	server: ['core'],
	agents: ['core'],
	engines: ['core'],
	nodes: ['core', 'server'],
	'doors/acp': ['core', 'server'],
	'doors/ai': ['core', 'server'],
	'doors/durable_streams': ['core', 'server'],
	'notify/sender': ['core', 'server'],
	'notify/push': ['core', 'server', 'notify/sender'],
	'notify/webhook': ['core', 'server', 'notify/sender'],
	cli: ['core'],
	admin: ['core', 'cli'],
};

/** Calls that still break this: how many functions and tables a file names. Take a row away with its last call. */
const OPEN = {};

function wingOf(path) {
	const [, wing, room] = /^src\/(\w+)\/(\w+)/.exec(path);
	if (wing === 'core') {
		return PURE.includes(room) ? 'pure' : 'core';
	}
	return wing === 'server' && room === 'relay' ? 'relay' : ['doors', 'notify'].includes(wing) ? `${wing}/${room}` : wing;
}

test('a wing calls only what it may use', () => {
	const calls = readCalls(WINGS, (path) => path);
	const found = {};
	for (const [file, others] of calls) {
		const from = wingOf(file);
		for (const [other, names] of others) {
			const to = wingOf(other);
			if (from !== 'relay' && to !== from && to !== 'pure' && !MAY[from].includes(to)) {
				const row = `${file}: ${to}`;
				found[row] = (found[row] ?? 0) + new Set(names).size;
			}
		}
	}
	assert.ok(calls.size > 300, 'the objects were found');
	assert.deepEqual(found, OPEN);
});
