// Tokens as an application makes them, and as those make them who may not.

import { createHmac, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const part = (object) => Buffer.from(JSON.stringify(object)).toString('base64url');

/** A JWT. `key`: a secret (HS256), or a private key in PEM (RS256, or ES256 for `alg`); null: no signature. */
export function makeToken(claims, key, { alg = 'HS256', header = {} } = {}) {
	const text = `${part({ alg, typ: 'JWT', ...header })}.${part(claims)}`;
	if (key === null) {
		return `${text}.`;
	}
	const signature = alg === 'HS256' ? createHmac('sha256', key).update(text).digest()
		: sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' });
	return `${text}.${signature.toString('base64url')}`;
}

/** Claims for these sessions that count from now for a minute. */
export function claims(role, sessions = ['*'], more = {}) {
	const now = Math.floor(Date.now() / 1000);
	return { sub: role, exp: now + 60, iat: now, holdfast: { role, sessions }, ...more };
}

/** The secret that a server signs its own tokens with. */
export function secretOf(server) {
	return readFileSync(join(server.dataDir, 'token-secret'), 'utf8').trim();
}

/** A token of the server's own. */
export function ownToken(server, role, sessions = ['*'], more = {}) {
	return makeToken(claims(role, sessions, more), secretOf(server));
}

/** The header for a token. */
export const bearer = (token) => ({ authorization: `Bearer ${token}` });
