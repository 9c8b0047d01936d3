/** Finds files of a session's directory while a path is typed. */
import { placeOf, request } from './http.js';

/**
 * Finds files, and directories (with a slash at their end), that match `prefix`, the best ones first.
 * A session that does not exist yet is given as the options it would be created with.
 * @param {string | {agent?: string, cwd?: string}} session @param {string} [prefix] @param {{limit?: number, signal?: AbortSignal}} [options]
 * @param {string | URL | import('./http.js').PlaceOptions} [where]
 * @returns {Promise<{cwd?: string, files: string[], has_more: boolean}>}
 */
export function completeFiles(session, prefix = '', { limit, signal } = {}, where) {
	const isThere = typeof session === 'string';
	const query = new URLSearchParams({ ...(!isThere && session), prefix, ...(limit && { limit: String(limit) }) });
	return request(placeOf(where), 'GET', `${isThere ? `/api/sessions/${encodeURIComponent(session)}` : '/api'}/files?${query}`, undefined, signal);
}
