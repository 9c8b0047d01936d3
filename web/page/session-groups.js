/** The order of the list: what waits for an answer, what is pinned, then by the day of the newest change, then the archive. */
import { visible } from './dom.js';

const DAY_MS = 24 * 60 * 60 * 1000;

/** @param {any} session */
export function sessionTitle({ title, id }) {
	return visible(title || `Session ${id.slice(0, 8)}`);
}

/** @param {string} text */
function folded(text) {
	return text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
}

/** Those that have each of these words in their title or id. @param {readonly any[]} sessions @param {string} words */
export function filterSessions(sessions, words) {
	const wanted = folded(words).split(/\s+/).filter(Boolean);
	return sessions.filter(({ title, id }) => {
		const text = folded(`${title} ${id}`);
		return wanted.every((word) => text.includes(word));
	});
}

/** @param {any} session @param {number} today when it began */
function groupOf({ status, archived, pinned, updated_at: at }, today) {
	if (archived) {
		return 'Archive';
	}
	if (status === 'waiting') {
		return 'Waiting for you';
	}
	if (pinned) {
		return 'Pinned';
	}
	if (at >= today) {
		return 'Today';
	}
	if (at >= today - DAY_MS) {
		return 'Yesterday';
	}
	return at >= today - 6 * DAY_MS ? 'Last 7 days' : 'Older';
}

const ORDER = ['Waiting for you', 'Pinned', 'Today', 'Yesterday', 'Last 7 days', 'Older', 'Archive'];

/**
 * @param {readonly any[]} sessions newest first @param {number} now
 * @returns {{name: string, sessions: any[]}[]} without empty ones
 */
export function groupSessions(sessions, now) {
	const today = new Date(now).setHours(0, 0, 0, 0);
	/** @type {Map<string, any[]>} */
	const groups = new Map(ORDER.map((name) => [name, []]));
	for (const session of sessions) {
		groups.get(groupOf(session, today))?.push(session);
	}
	return [...groups]
		.map(([name, members]) => ({ name, sessions: members }))
		.filter(({ sessions: members }) => members.length > 0);
}
