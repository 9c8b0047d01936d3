/** Who is logged in here, and what that allows. The server decides; the page only offers nothing that it refuses. */

/** @typedef {{role: string, sub: string, expires_at: number | null, login?: string}} Who */

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

/** The server says more exactly, for this session. True: it is news. @param {string | null} role */
export function setRole(role) {
	const isNews = role !== null && role !== who.role;
	who = isNews ? { ...who, role } : who;
	return isNews;
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

/** @param {{role: string, sub: string}} [of] */
export function whoWords({ role, sub } = who) {
	return sub ? `${sub} (${roleWord(role).toLowerCase()})` : roleWord(role);
}
