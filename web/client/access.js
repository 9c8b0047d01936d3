/**
 * The client's credentials: a token from the application (`getToken`), or the login of the page, whose first half is a
 * cookie and whose second half is in localStorage.
 */

/** The subprotocol of clients whose first frame contains their credentials. */
export const PROTOCOLS = ['holdfast.v1'];

const KEY = 'holdfast-login';
/** The login of a share link is for one tab, besides the browser's own. */
const SHARE = 'holdfast-share';
/**
 * The half of a login that the server refused. A tab that is refused must not remove the login itself: it may have read
 * an old one, which another tab has replaced meanwhile.
 */
const ENDED = 'holdfast-login-ended';

/**
 * @typedef {{token: string} | {login: string}} Credentials
 *
 * @typedef {object} Login
 * @property {string} login the second half
 * @property {string} role @property {string} sub @property {number | null} expires_at
 * @property {string[]} [hide] event types that it does not show
 * @property {boolean} [share] of a share link
 * @property {string | null} [mark] a hash of the token it was made with
 *
 * @typedef {object} AccessOptions
 * @property {() => string | Promise<string>} [getToken]
 * @property {string} [login] the second half, where there is no localStorage
 * @property {string | URL} [base]
 * @property {any} [storage]
 */

/** The login where the browser has no storage: it lasts until the page is closed. @type {Login | null} */
let inMemory = null;

/** Null in workers, in Node, and where the browser forbids it. @param {AccessOptions} options */
function storageOf({ storage }) {
	try {
		return storage ?? globalThis.window?.localStorage ?? null;
	} catch {
		return null;
	}
}

/** @param {AccessOptions} options */
function tabStorage({ storage }) {
	try {
		return storage ? null : (globalThis.window?.sessionStorage ?? null);
	} catch {
		return null;
	}
}

/** Whether a login applies: it is for the page's own server only. @param {AccessOptions} options */
function isOwnServer({ base, storage }) {
	const here = globalThis.location;
	return Boolean(storage) || !base || (here && new URL(base, here.href).origin === here.origin);
}

/** @param {AccessOptions} options @returns {Login | null} */
export function readLogin(options) {
	if (!isOwnServer(options)) {
		return null;
	}
	try {
		const storage = storageOf(options);
		const shared = tabStorage(options)?.getItem(SHARE);
		const kept = JSON.parse(shared ?? storage?.getItem(KEY) ?? 'null') ?? inMemory;
		const isLogin = typeof kept?.login === 'string' && typeof kept.sub === 'string';
		return isLogin && kept.login !== storage?.getItem(ENDED) ? kept : null;
	} catch {
		return inMemory;
	}
}

/**
 * Keeps a login; null forgets the current one: that of a share link, or else the browser's own.
 * @param {Login | null} login @param {AccessOptions} options
 */
export function keepLogin(login, options) {
	const isShare = (login ?? readLogin(options))?.share === true;
	inMemory = options.storage ? null : login;
	try {
		const storage = storageOf(options);
		if (isShare && login) {
			tabStorage(options)?.setItem(SHARE, JSON.stringify(login));
		} else if (isShare) {
			tabStorage(options)?.removeItem(SHARE);
		} else if (login) {
			storage?.setItem(KEY, JSON.stringify(login));
			storage?.removeItem(ENDED);
		} else {
			storage?.removeItem(KEY);
		}
	} catch {
		// storage is disabled, or full
	}
}

/** To be called when the server has refused a login. @param {Login} login @param {AccessOptions} options */
export function endLogin(login, options) {
	inMemory = null;
	try {
		if (login.share) {
			tabStorage(options)?.removeItem(SHARE);
			return;
		}
		storageOf(options)?.setItem(ENDED, login.login);
	} catch {
		// storage is disabled
	}
}

export class Access {
	#options;

	/** @param {AccessOptions} options */
	constructor(options) {
		this.#options = options;
	}

	/** Whether the token of a living socket can be renewed; a login ends with its token. */
	get canRenew() {
		return Boolean(this.#options.getToken);
	}

	/** The credentials for the first frame; a promise only if the application is asked for them. @returns {Credentials | null | Promise<Credentials>} */
	get() {
		const { getToken, login } = this.#options;
		if (getToken) {
			return ask(getToken);
		}
		const half = login ?? readLogin(this.#options)?.login;
		return half === undefined ? null : { login: half };
	}

	/**
	 * Whether the server, which refused these, may accept what get() returns now: an application may have another
	 * token, unless its token was revoked; another tab may have logged in.
	 * @param {Credentials | null} refused @param {boolean} isRevoked
	 */
	isWorthAnother(refused, isRevoked) {
		if (this.canRenew) {
			return !isRevoked;
		}
		const now = this.get();
		return now !== null && JSON.stringify(now) !== JSON.stringify(refused);
	}

	/** @returns {Promise<Record<string, string>>} */
	async headers() {
		return headersOf(await this.get());
	}

	/**
	 * Whom a cache keeps events for; nobody else sees them. Null for a share link, for which nothing is kept.
	 * @param {string} [given] @returns {string | null}
	 */
	identity(given) {
		if (given !== undefined) {
			return identityOf(given);
		}
		if (this.canRenew) {
			throw new TypeError('`cache` with `getToken` needs `identity`: whose the token is');
		}
		const login = readLogin(this.#options);
		if (login?.share) {
			return null;
		}
		return login ? identityOf(login.sub, login.hide) : 'open';
	}

	/** The event types that the login hides, as far as is known. */
	get hidden() {
		return (this.canRenew ? null : readLogin(this.#options)?.hide) ?? [];
	}

	/** Whether the page's login has ended by its clock. */
	hasEnded(/** @type {number} */ now) {
		const end = this.#options.getToken ? null : readLogin(this.#options)?.expires_at;
		return typeof end === 'number' && end <= now;
	}
}

/**
 * The identity that a cache belongs to. It includes what is hidden, since logins of one person may hide different events.
 * @param {string} sub @param {string[]} [hide]
 */
export function identityOf(sub, hide = []) {
	const hidden = hide.length > 0 ? `;hide=${[...hide].sort().join(',')}` : '';
	return `sub:${encodeURIComponent(sub)}${hidden}`;
}

/** @param {() => string | Promise<string>} getToken @returns {Promise<Credentials>} */
async function ask(getToken) {
	const token = await getToken();
	if (typeof token !== 'string' || token === '') {
		throw new TypeError('getToken() gave no token');
	}
	return { token };
}

/** @param {Credentials | null} credentials @returns {Record<string, string>} */
export function headersOf(credentials) {
	if (credentials === null) {
		return {};
	}
	return 'token' in credentials
		? { authorization: `Bearer ${credentials.token}` }
		: { 'holdfast-login': credentials.login };
}
