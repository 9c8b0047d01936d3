// Raw streams of Durable Streams at /v1/stream/, with the access token of a server.

import { bearer } from './tokens.mjs';

export const BYTES = 'application/octet-stream';
export const TEXT = 'text/plain';
export const JSON_TYPE = 'application/json';
export const offsetOf = (at) => `${'0'.repeat(16)}_${String(at).padStart(16, '0')}`;

/** One request; {status, headers, body}, the body as text. */
export async function ask(server, method, name, { type, body, query = {}, headers = {}, token = server.token } = {}) {
	const search = new URLSearchParams(query).toString();
	const answer = await fetch(`${server.url}/v1/stream/${name}${search && `?${search}`}`, {
		method, body, headers: { ...(token ? bearer(token) : {}), ...(type ? { 'content-type': type } : {}), ...headers },
	});
	return { status: answer.status, headers: Object.fromEntries(answer.headers), body: await answer.text() };
}

/** All bytes of a stream, page by page. */
export async function readAll(server, name, { offset = '-1', token = server.token } = {}) {
	let bytes = Buffer.alloc(0);
	for (;;) {
		const answer = await fetch(`${server.url}/v1/stream/${name}?offset=${offset}`, { headers: token ? bearer(token) : {} });
		if (answer.status !== 200) {
			throw new Error(`GET ${name} from ${offset}: ${answer.status} ${await answer.text()}`);
		}
		bytes = Buffer.concat([bytes, Buffer.from(await answer.arrayBuffer())]);
		offset = answer.headers.get('stream-next-offset');
		if (answer.headers.get('stream-up-to-date')) {
			return bytes;
		}
	}
}

/** Headers of an append that may be sent again. */
export const producer = (id, epoch, seq) => ({ 'producer-id': id, 'producer-epoch': String(epoch), 'producer-seq': String(seq) });
