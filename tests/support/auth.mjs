// Which token lets a test in: each server that is started says it here, and whoever talks to it asks.

const tokens = new Map();
const roots = new Map();

/** The server at `url` (http://…) wants this token; null: none. */
export function noteToken(url, token) {
	if (!url.startsWith('unix:')) {
		tokens.set(new URL(url).host, token);
	}
}

/** The server at `url` (https://…) has this certificate. */
export function noteCa(url, ca) {
	roots.set(new URL(url).host, ca);
}

/** What TLS to `url` trusts: an option for node's clients. */
export function trustOf(url) {
	const ca = url.startsWith('ws+unix:') || url.startsWith('unix:') ? undefined : roots.get(new URL(url).host);
	return ca ? { ca } : {};
}

/** The token for a server, by any URL of it; null: none is needed, or nobody knows. */
export function tokenOf(url) {
	return tokens.get(new URL(url).host) ?? null;
}

/** Headers for a request: with the server's token, unless they say otherwise; those that are undefined are left out. */
export function withAuth(url, headers = {}) {
	return Object.fromEntries(Object.entries({ ...authOf(url), ...headers }).filter(([, value]) => value !== undefined));
}

/** The header for it. */
export function authOf(url) {
	const token = tokenOf(url);
	return token ? { authorization: `Bearer ${token}` } : {};
}
