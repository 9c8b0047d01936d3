// Images and files of sessions over REST: bytes in, bytes out.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as zlib from 'node:zlib';
import { patience } from './wait.mjs';

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

function crc32(bytes) {
	if (zlib.crc32) { // not in Debian 12's Node
		return zlib.crc32(bytes);
	}
	let crc = ~0;
	for (const byte of bytes) {
		crc ^= byte;
		for (let bit = 0; bit < 8; bit++) {
			crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
		}
	}
	return ~crc >>> 0;
}

function chunk(type, data) {
	const body = Buffer.concat([Buffer.from(type), data]);
	const out = Buffer.alloc(8);
	out.writeUInt32BE(data.length, 0);
	out.writeUInt32BE(crc32(body), 4);
	return Buffer.concat([out.subarray(0, 4), body, out.subarray(4)]);
}

/** A PNG of one colour that decoders take; `[r, g, b]` make it another file. */
export function png(width = 4, height = 3, [r, g, b] = [200, 40, 90]) {
	const header = Buffer.alloc(13);
	header.writeUInt32BE(width, 0);
	header.writeUInt32BE(height, 4);
	header.set([8, 2, 0, 0, 0], 8);
	const line = Buffer.concat([Buffer.from([0]), ...Array.from({ length: width }, () => Buffer.from([r, g, b]))]);
	const rows = Buffer.concat(Array.from({ length: height }, () => line));
	return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', header), chunk('IDAT', zlib.deflateSync(rows)), chunk('IEND', Buffer.alloc(0))]);
}

const send = async (server, method, path, { headers = {}, body } = {}) => {
	const answer = await fetch(server.url + path, { method, body, headers: { authorization: `Bearer ${server.token}`, ...headers }, signal: AbortSignal.timeout(30_000 * patience) });
	const bytes = Buffer.from(await answer.arrayBuffer());
	const isJson = bytes.length > 0 && (answer.headers.get('content-type') ?? '').startsWith('application/json');
	return { status: answer.status, headers: answer.headers, bytes, body: isJson ? JSON.parse(bytes) : null };
};

/** POSTs bytes; gives {status, headers, body}. */
export const upload = (server, id, body, options = {}) => send(server, 'POST', `/api/sessions/${id}/blobs`, { body, ...options });

/** The same, which must be taken; gives {blob, size, mime_type}. */
export async function mustUpload(server, id, bytes, options) {
	const { status, body } = await upload(server, id, bytes, options);
	assert.equal(status, 201, JSON.stringify(body));
	assert.deepEqual([body.blob, body.size], [sha256(bytes), bytes.length]);
	return body;
}

/** GETs one; gives {status, headers, bytes}. */
export const download = (server, id, blob, { method = 'GET', headers } = {}) => send(server, method, `/api/sessions/${id}/blobs/${blob}`, { headers });
