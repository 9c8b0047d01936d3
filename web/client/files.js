/** The files of a session's directory, for those who type a path. */
import { placeOf, request } from './http.js';

/**
 * Files and directories (with a slash at their end) that somebody may mean who types `prefix`, the best ones first.
 * @param {string} sessionId @param {string} [prefix] @param {{limit?: number, signal?: AbortSignal}} [options]
 * @param {string | URL | import('./http.js').PlaceOptions} [where]
 * @returns {Promise<{cwd?: string, files: string[], has_more: boolean}>}
 */
export function completeFiles(sessionId, prefix = '', { limit, signal } = {}, where) {
	const query = new URLSearchParams({ prefix, ...(limit && { limit: String(limit) }) });
	return request(placeOf(where), 'GET', `/api/sessions/${encodeURIComponent(sessionId)}/files?${query}`, undefined, signal);
}
