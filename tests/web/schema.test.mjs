// Every golden example is as its schema says, every counter-example is refused, and the examples cover
// all that the schemas name.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { check, protoDir } from '../support/schema.mjs';

const golden = `${protoDir}golden/`;

// The folder of an example says what it is an example of.
const checks = {
	server: () => check.server,
	client: () => check.client,
	'from-producer': () => check.fromProducer,
	'to-producer': () => check.toProducer,
	feed: () => check.feed,
	stream: () => check.stream,
	event: () => check.event,
	input: () => check.input,
	rest: (name) => check.rest(name.split('.')[0]),
};

function examples(dir) {
	return readdirSync(dir).filter((folder) => folder !== 'invalid').flatMap((folder) =>
		readdirSync(dir + folder).map((file) => ({
			folder,
			name: file.replace(/\.json$/, ''),
			value: JSON.parse(readFileSync(`${dir}${folder}/${file}`, 'utf8')),
		})));
}

const valid = examples(golden);
const invalid = examples(`${golden}invalid/`);

for (const { folder, name, value } of valid) {
	test(`golden ${folder}/${name} is valid`, () => {
		assert.equal(checks[folder](name)(value), null);
	});
}

for (const { folder, name, value } of invalid) {
	test(`golden invalid/${folder}/${name} is refused`, () => {
		assert.notEqual(checks[folder](name)(value), null);
	});
}

// The names of `enum`s and `oneOf`s in a schema file, each of which must have an example.
function schema(file) {
	return JSON.parse(readFileSync(`${protoDir}schema/${file}.schema.json`, 'utf8'));
}

function refNames(oneOf) {
	return oneOf.map((branch) => branch.$ref.split('/').pop());
}

const producer = schema('producer-frames').$defs;
const named = {
	server: refNames(schema('server-frames').oneOf),
	client: refNames(schema('client-frames').oneOf),
	'from-producer': refNames(producer.to_server.oneOf),
	'to-producer': refNames(producer.to_producer.oneOf),
	feed: refNames(schema('feed-frames').$defs.to_client.oneOf),
	stream: refNames(schema('stream-events').oneOf),
	event: schema('common').$defs.event.properties.type.anyOf[0].enum,
	input: schema('input-event').properties.type.anyOf[0].enum,
	rest: Object.keys(schema('rest').$defs),
};

for (const [folder, names] of Object.entries(named)) {
	test(`every ${folder} type has a golden example under its name`, () => {
		const seen = new Set(valid.filter((e) => e.folder === folder).map((e) => e.name.split('.')[0]));
		assert.deepEqual(names.filter((name) => !seen.has(name)), []);
		for (const { name, value } of valid.filter((e) => e.folder === folder && e.value.type)) {
			if (folder !== 'rest') {
				assert.equal(value.type, name.split('.')[0]);
			}
		}
	});
}

test('every error code of the schema stands in protocol.md with what to do, and no other', () => {
	const text = readFileSync(`${protoDir}protocol.md`, 'utf8');
	const table = text.slice(text.indexOf('## Error codes'));
	const rows = [...table.matchAll(/^\| `([a-z0-9_]+)` \|/gm)].map((m) => m[1]);
	assert.deepEqual(rows.sort(), [...schema('common').$defs.error_code.enum].sort());
});

test('the server has the codes of protocol.md, with the same status, and closes sockets as it says', () => {
	const text = readFileSync(`${protoDir}protocol.md`, 'utf8');
	const rows = [...text.slice(text.indexOf('## Error codes')).matchAll(/^\| `([a-z0-9_]+)` \| (\d+|–) \|(.*)$/gm)];
	const header = readFileSync(new URL('../../include/holdfast/error_codes.h', import.meta.url), 'utf8');
	const codes = new Map([...header.matchAll(/(?:CODE|PASSING)\(([a-z0-9_]+), (\d+), (\d+)\)/g)].map(([, code, status, close]) => [code, { status, close }]));
	for (const [, code, status, words] of rows) {
		assert.ok(codes.has(code), code);
		assert.ok(status === '–' || status === codes.get(code).status, `${code} is ${codes.get(code).status}, and ${status} in protocol.md`);
		assert.equal(words.match(/closes with (\d+)/)?.[1] ?? '0', codes.get(code).close, `the close code of ${code}`);
	}
	const others = [...codes.keys()].filter((code) => !rows.some(([, row]) => row === code));
	assert.deepEqual(others, ['bad_message', 'unknown_method', 'agent_error', 'cancelled'], 'of editors alone');
});

test('every frame shown in protocol.md is as the schemas say', () => {
	const text = readFileSync(`${protoDir}protocol.md`, 'utf8');
	// A block that opens with ```json <folder> holds one JSON value a line, each an example of that folder.
	const blocks = [...text.matchAll(/^```json ([a-z-]+)\n([\s\S]*?)^```$/gm)];
	assert.ok(blocks.length > 10, 'the page has lost its examples');
	for (const [, folder, body] of blocks) {
		for (const line of body.trim().split('\n')) {
			const [, name, json] = /^(?:([a-z_]+): )?(.*)$/.exec(line);
			assert.equal(checks[folder](name ?? '')(JSON.parse(json)), null, line);
		}
	}
});
