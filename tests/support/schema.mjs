// The JSON Schemas of proto/ as validators, one for each thing that goes over a wire.

import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import Ajv2020 from 'ajv/dist/2020.js';

const BASE = 'https://holdfast.example/schema/1/';

/** Where proto/ is. */
export const protoDir = fileURLToPath(new URL('../../proto/', import.meta.url));

let ajv;
/** All schemas, which are read with the first question. */
function schemas() {
	if (!ajv) {
		ajv = new Ajv2020({ strict: true, strictRequired: false, strictTypes: false, discriminator: true });
		for (const name of readdirSync(`${protoDir}schema`)) {
			ajv.addSchema(JSON.parse(readFileSync(`${protoDir}schema/${name}`, 'utf8')));
		}
	}
	return ajv;
}

/** Asks the schema at `path` (a file of proto/schema, with a pointer after `#`), which is compiled when it is asked: most files ask few. */
function validator(path) {
	let validate;
	return (value) => {
		validate ??= schemas().getSchema(BASE + path);
		if (!validate) {
			throw new Error(`no schema ${path}`);
		}
		return validate(value) ? null : explain(validate.errors, value);
	};
}

/** The deepest complaints first: they say what is wrong, those above them only where. */
function explain(errors, value) {
	const words = errors
		.map((e) => ({ at: e.instancePath || '/', text: `${e.message} ${extra(e.params)}` }))
		.sort((a, b) => b.at.length - a.at.length)
		.slice(0, 4)
		.map((e) => `${e.at}: ${e.text.trim()}`);
	return `${words.join('; ')} in ${JSON.stringify(value)?.slice(0, 2000)}`;
}

function extra(params) {
	return params.additionalProperty ?? params.unevaluatedProperty ?? params.allowedValues?.join('|') ?? '';
}

/**
 * Each function takes a parsed value and returns null if it is as the schema says, else what is
 * wrong with it, in words.
 */
export const check = {
	server: validator('server-frames.schema.json'),
	client: validator('client-frames.schema.json'),
	toProducer: validator('producer-frames.schema.json#/$defs/to_producer'),
	fromProducer: validator('producer-frames.schema.json#/$defs/to_server'),
	feed: validator('feed-frames.schema.json#/$defs/to_client'),
	toFeed: validator('feed-frames.schema.json#/$defs/to_server'),
	stream: validator('stream-events.schema.json'),
	event: validator('common.schema.json#/$defs/event'),
	input: validator('input-event.schema.json'),
	rest: (name) => validator(`rest.schema.json#/$defs/${name}`),
};

/** Throws if `fault` (an answer of a check) is one. */
export function assertValid(fault) {
	if (fault !== null) {
		throw new Error(`not as proto/schema says: ${fault}`);
	}
}
