/** Who is logged in here, and what that allows. The server decides; the page only offers nothing that it refuses. */

/** @typedef {{role: string, sub: string, expires_at: number | null, login?: string | null, hide?: readonly string[], share?: boolean}} Who */

/** @type {Record<string, string[]>} */
const ROLES = {
	prompt: ['controller', 'admin'],
	create: ['controller', 'producer', 'admin'],
	delete: ['admin'],
};

const ROLE_WORDS = { observer: 'Observer', controller: 'Controller', producer: 'Producer', admin: 'Admin' };

/** @type {Who} */
let who = { role: 'observer', sub: '', expires_at: null };

/** @param {Who} next */
export function setWho(next) {
	who = next;
}

/** The server says more exactly, for this session. True: it is news. @param {string | null} role @param {readonly string[]} hide */
export function setRole(role, hide) {
	const isNews = role !== null && (role !== who.role || hide.join() !== hidden().join());
	who = isNews ? { ...who, role, hide } : who;
	return isNews;
}

const HIDE_WORDS = { thoughts: 'thoughts', tools: 'tool calls, files and questions' };

/** What is not shown, as a sentence; empty if all is. */
export function hiddenWords() {
	const words = hidden().map((one) => HIDE_WORDS[/** @type {'tools'} */ (one)] ?? one).join(' and ');
	return words && `${words.charAt(0).toUpperCase()}${words.slice(1)} are hidden.`;
}

/** What the login hides. */
function hidden() {
	return who.hide ?? [];
}

/** The role, as the subject of a sentence. */
export function nameMe() {
	const word = roleWord(who.role).toLowerCase();
	return `${/^[aeiou]/.test(word) ? 'An' : 'A'} ${word}`;
}

/** @param {string} role */
function roleWord(role) {
	return Object.hasOwn(ROLE_WORDS, role) ? ROLE_WORDS[/** @type {'admin'} */ (role)] : role;
}

/** Answers, prompts and settings are one right. @param {'prompt' | 'create' | 'delete'} what */
export function may(what) {
	return ROLES[what].includes(who.role);
}

/** Whether this prompt in the queue may be changed. @param {{client_id: string, sub?: string}} prompt @param {string} here the tab's client id */
export function mayChange({ client_id: client, sub }, here) {
	return who.role === 'admin' || (may('prompt') && (sub === who.sub || isUs(client, sub, here)));
}

/** Whether it was this tab. @param {string} client @param {string | undefined} sub @param {string} here */
export function isUs(client, sub, here) {
	return client === here && (sub === undefined || sub === who.sub);
}

/** @param {string} client @param {string} [sub] */
export function nameOf(client, sub) {
	return sub || `client ${client.slice(0, 8)}`;
}

/** @param {{role: string, sub: string, share?: boolean}} [of] */
export function whoWords({ role, sub, share } = who) {
	if (share) {
		return `Shared link (${roleWord(role).toLowerCase()})`;
	}
	return sub ? `${sub} (${roleWord(role).toLowerCase()})` : roleWord(role);
}
