/** Requests to the server's HTTP interface, with credentials. */
import { Access } from './access.js';
import { HoldfastError } from './base.js';

/**
 * @typedef {object} Place
 * @property {string | URL | undefined} base
 * @property {typeof fetch} fetch
 * @property {Access} access
 *
 * @typedef {import('./access.js').AccessOptions & {fetch?: typeof fetch}} PlaceOptions
 */

/** @param {string | URL | PlaceOptions} [where] the server's address, or that and more @returns {Place} */
export function placeOf(where = {}) {
	const options = typeof where === 'string' || where instanceof URL ? { base: where } : where;
	return {
		base: options.base ?? globalThis.location?.href,
		fetch: options.fetch ?? globalThis.fetch.bind(globalThis),
		access: new Access(options),
	};
}

/**
 * Makes a request; if the token has just expired, asks once for another and repeats it.
 * @param {{base: string | URL | undefined, fetch: typeof fetch, access: Access}} place
 * @param {string} path @param {RequestInit & {headers?: Record<string, string>}} [init]
 */
export async function fetchAs(place, path, init = {}) {
	const url = new URL(path, place.base);
	const send = async () =>
		place.fetch(url, { ...init, headers: { ...init.headers, ...(await place.access.headers()) } });
	const response = await send();
	return response.status === 401 && place.access.canRenew ? send() : response;
}

/** The body of an answer; a refusal is thrown. @param {Response} response */
export async function bodyOf(response) {
	const answer = response.status === 204 ? null : await response.json().catch(() => null);
	if (!response.ok) {
		const { code = 'http_error', message = `The server answered ${response.status}.` } =
			answer?.error ?? {};
		throw new HoldfastError(code, message, { status: response.status });
	}
	return answer;
}

/** @param {string} method @param {object} [body] */
export function jsonInit(method, body) {
	return {
		method,
		headers: /** @type {Record<string, string>} */ (
			body ? { 'content-type': 'application/json' } : {}
		),
		body: body && JSON.stringify(body),
	};
}

/** @param {Place} place @param {string} method @param {string} path @param {object} [body] @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function request(place, method, path, body, signal) {
	return bodyOf(await fetchAs(place, path, { ...jsonInit(method, body), signal }));
}
