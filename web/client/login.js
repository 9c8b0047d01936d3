/** The login of a page: a token becomes a cookie, which scripts cannot read, and a half that the page keeps. */
import { endLogin, headersOf, identityOf, keepLogin, readLogin } from './access.js';
import { HoldfastError } from './base.js';
import { wipeCache } from './cache.js';
import { bodyOf, fetchAs, jsonInit, placeOf, request } from './http.js';

/** @typedef {import('./access.js').Login} Login */
/** @typedef {import('./http.js').PlaceOptions & {indexedDB?: any, IDBKeyRange?: any}} LoginOptions */

/**
 * A hash of the token, to tell later whether a link is the one that was used. Null where the browser cannot compute it:
 * over plain http, except on this machine. @param {string} token
 */
async function markOf(token) {
	const bytes = new TextEncoder().encode(token);
	const sum = await globalThis.crypto?.subtle?.digest('SHA-256', bytes);
	return sum ? Array.from(new Uint8Array(sum), (byte) => byte.toString(16).padStart(2, '0')).join('') : null;
}

/** @param {Login} login */
function told({ login, role, sub, expires_at, hide = [], share = false }) {
	return Object.freeze({ login, role, sub, expires_at, hide: Object.freeze([...hide]), share });
}

/**
 * Logs in with a token; the login replaces any other. The login of a share link is for this tab only, and leaves the
 * browser's own alone. With `--auth off` no login exists: its `login` is null.
 * @param {string} token @param {LoginOptions & {share?: boolean}} [options]
 */
export async function login(token, { share = false, ...options } = {}) {
	const place = placeOf(options);
	const url = new URL('/api/login', place.base);
	const body = share ? { token, share } : { token };
	const made = await bodyOf(await place.fetch(url, jsonInit('POST', body)));
	if (made?.login === null) {
		return told(made);
	}
	if (typeof made?.login !== 'string') {
		throw new HoldfastError('http_error', 'The server did not answer with a login.');
	}
	const kept = { ...made, mark: await markOf(token), ...(share && { share }) };
	keepLogin(kept, options);
	return told(kept);
}

/** The login that this browser has, whether or not the server still accepts it. @param {LoginOptions} [options] */
export function currentLogin(options = {}) {
	const kept = readLogin(options);
	return kept && told(kept);
}

/** Whether the login was made with this token. @param {string} token @param {LoginOptions} [options] */
export async function isLoginWith(token, options = {}) {
	const { mark } = readLogin(options) ?? {};
	return Boolean(mark) && mark === (await markOf(token));
}

/**
 * Asks the server about the login, or a token: {role, sub, expires_at, hide?}. Throws if it is refused. With `--auth off`
 * everybody is an admin.
 * @param {LoginOptions & {token?: string}} [options]
 */
export async function checkLogin({ token, ...options } = {}) {
	const place = placeOf(options);
	if (token === undefined) {
		return request(place, 'GET', '/api/login');
	}
	const url = new URL('/api/login', place.base);
	return bodyOf(await place.fetch(url, { headers: headersOf({ token }) }));
}

/** The server has said that the login has ended: forgets it here, and its cached events unless `keepCache`. @param {LoginOptions & {keepCache?: boolean}} [options] */
export async function forgetLogin({ keepCache = false, ...options } = {}) {
	const kept = readLogin(options);
	if (kept) {
		endLogin(kept, options);
		await (keepCache || kept.share || wipeCache(identityOf(kept.sub, kept.hide), options));
	}
}

/** Ends the login on the server, if that can be reached, and here in any case. @param {LoginOptions} [options] */
export async function logout(options = {}) {
	const kept = readLogin(options);
	try {
		if (kept) {
			await fetchAs(placeOf(options), '/api/login', jsonInit('DELETE'));
		}
	} catch {
		// without the half that is here, the login opens nothing
	}
	keepLogin(null, options);
	if (kept && !kept.share) {
		await wipeCache(identityOf(kept.sub, kept.hide), options);
	}
}
