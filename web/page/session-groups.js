/** The order of the list: waiting for an answer, pinned, then by day of the newest change or by directory, then the archive. */
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

/** Sessions with each of these words in title or id. @param {readonly any[]} sessions @param {string} words */
export function filterSessions(sessions, words) {
	const wanted = folded(words).split(/\s+/).filter(Boolean);
	return sessions.filter(({ title, id }) => {
		const text = folded(`${title} ${id}`);
		return wanted.every((word) => text.includes(word));
	});
}

/** The group of a session in either order; '': among the others. @param {any} session */
function placeOf({ status, archived, pinned }) {
	return archived ? 'Archive' : status === 'waiting' ? 'Waiting for you' : pinned ? 'Pinned' : '';
}

/** @param {any} session @param {number} today when it began */
function dayOf({ updated_at: at }, today) {
	if (at >= today) {
		return 'Today';
	}
	if (at >= today - DAY_MS) {
		return 'Yesterday';
	}
	return at >= today - 6 * DAY_MS ? 'Last 7 days' : 'Older';
}

const DAYS = ['Today', 'Yesterday', 'Last 7 days', 'Older'];

/** @typedef {{key: string, name: string, title?: string, sessions: any[]}} Group */

/** How many directories the sessions of the list are in. @param {readonly any[]} sessions */
export function countDirectories(sessions) {
	return new Set(sessions.filter(({ archived }) => !archived).map(({ cwd }) => cwd)).size;
}

/**
 * Short names of directories: the last part, with as much before it as tells them apart.
 * @param {string[]} paths @returns {Map<string, string>}
 */
function namesOf(paths) {
	const nameOf = (/** @type {string} */ path, /** @type {number} */ parts) => path.split('/').filter(Boolean).slice(-parts).join('/') || path;
	return new Map(paths.map((path) => {
		const depth = path.split('/').length;
		let parts = 1;
		while (parts < depth && paths.some((other) => other !== path && nameOf(other, parts) === nameOf(path, parts))) {
			parts += 1;
		}
		return [path, visible(nameOf(path, parts))];
	}));
}

/** @param {readonly any[]} sessions newest first; so their directories are @returns {Group[]} */
function byDirectory(sessions) {
	/** @type {Map<string, any[]>} */
	const groups = new Map();
	for (const session of sessions) {
		const members = groups.get(session.cwd ?? '') ?? [];
		members.push(session);
		groups.set(session.cwd ?? '', members);
	}
	const names = namesOf([...groups.keys()].filter(Boolean));
	return [...groups].map(([path, members]) => ({ key: `/${path}`, name: names.get(path) ?? 'Without a directory', title: path && visible(path), sessions: members }));
}

/**
 * @param {readonly any[]} sessions newest first @param {number} now @param {boolean} [hasDirectories] by directory, not by day
 * @returns {Group[]} without empty ones
 */
export function groupSessions(sessions, now, hasDirectories = false) {
	const today = new Date(now).setHours(0, 0, 0, 0);
	const at = (/** @type {string} */ name) => ({ key: name, name, sessions: sessions.filter((session) => placeOf(session) === name) });
	const others = sessions.filter((session) => placeOf(session) === '');
	const middle = hasDirectories
		? byDirectory(others)
		: DAYS.map((name) => ({ key: name, name, sessions: others.filter((session) => dayOf(session, today) === name) }));
	return [at('Waiting for you'), at('Pinned'), ...middle, at('Archive')].filter((group) => group.sessions.length > 0);
}
