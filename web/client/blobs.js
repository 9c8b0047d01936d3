/** Images and files of a session: sent once, then named in prompts and events. */
import { bodyOf, fetchAs, placeOf } from './http.js';

/** @typedef {string | URL | import('./http.js').PlaceOptions} Where */

const pathOf = (/** @type {string} */ sessionId) => `/api/sessions/${encodeURIComponent(sessionId)}/blobs`;

/**
 * Uploads an image or a file. Resolves when it is on the server's disk.
 * @param {string} sessionId @param {BodyInit} bytes
 * @param {{signal?: AbortSignal, onprogress?: (sent: number, size: number) => void}} [options] `onprogress` is called
 *   where XMLHttpRequest exists, since fetch() does not report progress
 * @param {Where} [where]
 * @returns {Promise<{blob: string, size: number, mime_type: string}>}
 */
export async function uploadBlob(sessionId, bytes, { signal, onprogress } = {}, where) {
	const place = placeOf(where);
	const fetch = onprogress && globalThis.XMLHttpRequest ? fetchTelling(onprogress) : place.fetch;
	const init = { method: 'POST', body: bytes, signal, headers: { 'content-type': 'application/octet-stream' } };
	return bodyOf(await fetchAs({ ...place, fetch }, pathOf(sessionId), init));
}

/** As much of fetch() as an upload needs, by XMLHttpRequest. @param {(sent: number, size: number) => void} onprogress @returns {any} */
function fetchTelling(onprogress) {
	return (/** @type {URL} */ url, /** @type {any} */ { method, body, signal, headers }) =>
		new Promise((resolve, reject) => {
			signal?.throwIfAborted();
			const request = new XMLHttpRequest();
			const abort = () => request.abort();
			request.open(method, url);
			Object.entries(headers).forEach(([name, value]) => request.setRequestHeader(name, String(value)));
			request.upload.onprogress = ({ loaded, total }) => onprogress(loaded, total);
			request.onload = () => resolve(new Response(request.responseText, { status: request.status }));
			request.onerror = () => reject(new TypeError('The server cannot be reached.'));
			request.onabort = () => reject(signal.reason);
			request.onloadend = () => signal?.removeEventListener('abort', abort);
			signal?.addEventListener('abort', abort);
			request.send(body);
		});
}

/**
 * Downloads an image or a file, with the type that the server detected.
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
