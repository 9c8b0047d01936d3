/** Who is logged in, and what that allows. The server decides; the page just does not offer what it would refuse. */

/** @typedef {{role: string, sub: string, expires_at: number | null, login?: string | null, hide?: readonly string[], share?: boolean}} Who */

/** @type {Record<string, string[]>} */
const ROLES = {
	prompt: ['controller', 'admin'],
	create: ['controller', 'producer', 'admin'],
	label: ['controller', 'admin'],
	delete: ['admin'],
};

const ROLE_WORDS = { observer: 'Observer', controller: 'Controller', producer: 'Producer', admin: 'Admin' };

/** @type {Who} */
let who = { role: 'observer', sub: '', expires_at: null };

/** @param {Who} next */
export function setWho(next) {
	who = next;
}

/** Takes the exact rights in this session. True if they have changed. @param {string | null} role @param {readonly string[]} hide */
export function setRole(role, hide) {
	const isNews = role !== null && (role !== who.role || hide.join() !== hidden().join());
	who = isNews ? { ...who, role, hide } : who;
	return isNews;
}

const HIDE_WORDS = { thoughts: 'thoughts', tools: 'tool calls, files and questions' };

/** What is not shown, as a sentence, or empty. */
export function hiddenWords() {
	const words = hidden().map((one) => HIDE_WORDS[/** @type {'tools'} */ (one)] ?? one).join(' and ');
	return words && `${words.charAt(0).toUpperCase()}${words.slice(1)} are hidden.`;
}

/** What the login hides. */
function hidden() {
	return who.hide ?? [];
}

/** Whose login it is; empty: nobody's in particular. */
export function loginName() {
	return who.sub;
}

/** The role, as the subject of a sentence. */
export function nameMe() {
	const word = roleWord(who.role).toLowerCase();
	return `${/^[aeiou]/.test(word) ? 'An' : 'A'} ${word}`;
}

/** @param {string} role */
export function roleWord(role) {
	return Object.hasOwn(ROLE_WORDS, role) ? ROLE_WORDS[/** @type {'admin'} */ (role)] : role;
}

/** Answers, prompts and settings are one right. @param {'prompt' | 'create' | 'label' | 'delete'} what */
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

/** The name of this browser's own person, which people.js keeps. */
let myName = '';

/** @param {string} name */
export function setMyName(name) {
	myName = name;
}

/**
 * Who wrote a prompt; empty if it is one's own, or cannot be told from one's own, which other tabs and days may have sent.
 * @param {{client_id?: string, sub?: string, name?: string}} prompt @param {string} here the tab's client id
 */
export function authorOf({ client_id: client, sub, name }, here) {
	if (client === undefined || isUs(client, sub, here)) {
		return '';
	}
	const isMine = (sub ?? '') === who.sub;
	const known = name ?? knownNames().get(keyOf(client, sub));
	return isMine && (known === undefined || known === myName) ? '' : nameOf(client, sub, known);
}

/** The unverified names that people have given themselves, by client and sub, as this tab knows them, also from before a reload. */
const NAMES = 'holdfast-names';
const NAMES_MAX = 200;
/** @type {Map<string, string> | null} */
let names = null;

/** @param {string} client @param {string} [sub] */
const keyOf = (client, sub = '') => `${client} ${sub}`;

function knownNames() {
	try {
		names ??= new Map(JSON.parse(sessionStorage.getItem(NAMES) ?? '[]'));
	} catch {
		names ??= new Map(); // some browsers have storage disabled
	}
	return names;
}

/** True if one was not known. @param {readonly {client_id: string, sub?: string, name?: string}[]} people */
export function noteNames(people) {
	const known = knownNames();
	const news = people.filter(({ client_id: client, sub, name }) => name && known.get(keyOf(client, sub)) !== name);
	for (const { client_id: client, sub, name } of news) {
		known.delete(keyOf(client, sub));
		known.set(keyOf(client, sub), name ?? '');
	}
	[...known.keys()].slice(0, -NAMES_MAX).forEach((key) => known.delete(key));
	if (news.length > 0) {
		try {
			sessionStorage.setItem(NAMES, JSON.stringify([...known]));
		} catch {
			// they are known until the page is loaded again
		}
	}
	return news.length > 0;
}

/** A person's own name, with the one in the token. @param {string} client @param {string} [sub] @param {string} [said] what they were called then */
export function nameOf(client, sub, said) {
	const name = said ?? knownNames().get(keyOf(client, sub));
	if (sub) {
		return name && name !== sub ? `${name} (${sub})` : sub;
	}
	return name ?? `client ${client.slice(0, 8)}`;
}

/** @param {{role: string, sub: string, share?: boolean}} [of] */
export function whoWords({ role, sub, share } = who) {
	if (share) {
		return `Shared link (${roleWord(role).toLowerCase()})`;
	}
	return sub ? `${sub} (${roleWord(role).toLowerCase()})` : roleWord(role);
}
