/** Images and files of a session: sent once, then named in prompts and events. */
import { bodyOf, fetchAs, placeOf } from './http.js';

/** @typedef {string | URL | import('./http.js').PlaceOptions} Where */

const pathOf = (/** @type {string} */ sessionId) => `/api/sessions/${encodeURIComponent(sessionId)}/blobs`;

/**
 * Sends an image or a file; it is on the server's disk when the promise is kept.
 * @param {string} sessionId @param {BodyInit} bytes
 * @param {{signal?: AbortSignal}} [options] @param {Where} [where]
 * @returns {Promise<{blob: string, size: number, mime_type: string}>}
 */
export async function uploadBlob(sessionId, bytes, { signal } = {}, where) {
	const init = { method: 'POST', body: bytes, signal, headers: { 'content-type': 'application/octet-stream' } };
	return bodyOf(await fetchAs(placeOf(where), pathOf(sessionId), init));
}

/**
 * The bytes of one, with the type that the server found in them.
 * @param {string} sessionId @param {string} blob @param {{signal?: AbortSignal}} [options] @param {Where} [where]
 * @returns {Promise<Blob>}
 */
export async function fetchBlob(sessionId, blob, { signal } = {}, where) {
	const response = await fetchAs(placeOf(where), `${pathOf(sessionId)}/${blob}`, { signal });
	if (!response.ok) {
		await bodyOf(response); // throws
	}
	return response.blob();
}
