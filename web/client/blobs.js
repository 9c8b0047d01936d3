/** Images and files of a session: sent once, then named in prompts and events. */
import { bodyOf, fetchAs, placeOf } from './http.js';

/** @typedef {string | URL | import('./http.js').PlaceOptions} Where */

const pathOf = (/** @type {string} */ sessionId) => `/api/sessions/${encodeURIComponent(sessionId)}/blobs`;

/**
 * Sends an image or a file; it is on the server's disk when the promise is kept.
 * @param {string} sessionId @param {BodyInit} bytes
 * @param {{signal?: AbortSignal, onprogress?: (sent: number, size: number) => void}} [options] `onprogress`: where there is an
 *   XMLHttpRequest, since fetch() does not tell how far it is
 * @param {Where} [where]
 * @returns {Promise<{blob: string, size: number, mime_type: string}>}
 */
export async function uploadBlob(sessionId, bytes, { signal, onprogress } = {}, where) {
	const place = placeOf(where);
	const fetch = onprogress && globalThis.XMLHttpRequest ? fetchTelling(onprogress) : place.fetch;
	const init = { method: 'POST', body: bytes, signal, headers: { 'content-type': 'application/octet-stream' } };
	return bodyOf(await fetchAs({ ...place, fetch }, pathOf(sessionId), init));
}

/** What of fetch() an upload needs, on XMLHttpRequest. @param {(sent: number, size: number) => void} onprogress @returns {any} */
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
