/** Parses the address: `#/s/<id>` is a session, `?seq=` after it one of its events. */

/** @param {string} id @param {number} [seq] */
export const addressOf = (id, seq) => `#/s/${encodeURIComponent(id)}${seq === undefined ? '' : `?seq=${seq}`}`;

/** The session that the address names; null for a new one. */
export function selectedId() {
	const written = location.hash.match(/^#\/s\/([^?]+)/)?.[1] ?? null;
	try {
		return written && decodeURIComponent(written);
	} catch {
		return written; // not a valid id: shown as not found
	}
}

/** The event that the address names. */
export function soughtSeq() {
	const written = location.hash.match(/^#\/s\/[^?]+\?seq=(\d{1,15})$/)?.[1];
	return written === undefined ? null : Number(written);
}

/** The ids that the server accepts; no others are requested. @param {string} id */
export function isSessionId(id) {
	return /^(?!\.)[A-Za-z0-9._-]{1,128}$/.test(id);
}
