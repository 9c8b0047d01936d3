/**
 * Who this client is to the server: a token of the application's (`getToken`), or the login of the page, whose
 * second half is in localStorage and whose first half is a cookie.
 */

/** The subprotocol of clients whose first frame says who they are. */
export const PROTOCOLS = ['holdfast.v1'];

const KEY = 'holdfast-login';
/** The login of a share link is for one tab, and stands beside the browser's own. */
const SHARE = 'holdfast-share';
/**
 * The half that the server refused. A tab that is told so must not remove the login: what it reads may be old, and
 * another tab may have put a new one there.
 */
const ENDED = 'holdfast-login-ended';

/**
 * @typedef {{token: string} | {login: string}} Credentials
 *
 * @typedef {object} Login
 * @property {string} login the second half
 * @property {string} role @property {string} sub @property {number | null} expires_at
 * @property {string[]} [hide] what it does not show
 * @property {boolean} [share] of a share link
 * @property {string | null} [mark] a sum of the token it was made with
 *
 * @typedef {object} AccessOptions
 * @property {() => string | Promise<string>} [getToken]
 * @property {string} [login] the second half, where there is no localStorage
 * @property {string | URL} [base]
 * @property {any} [storage]
 */

/** The login of a page whose browser has no storage lasts until it is closed. @type {Login | null} */
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

/** A login is for the page's own server. @param {AccessOptions} options */
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
 * Keeps a login, or forgets the one that counts here: a share link's before the browser's own.
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

/** The server does not accept it any more. @param {Login} login @param {AccessOptions} options */
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

	/** What the first frame says: a promise only if the application is asked. @returns {Credentials | null | Promise<Credentials>} */
	get() {
		const { getToken, login } = this.#options;
		if (getToken) {
			return ask(getToken);
		}
		const half = login ?? readLogin(this.#options)?.login;
		return half === undefined ? null : { login: half };
	}

	/**
	 * Whether the server, which refused these, may accept what get() says now: an application may have another
	 * token, unless its own was revoked; another tab may have logged in.
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
	 * Whose events a cache keeps: nobody else sees them. Null: nothing is kept for a share link.
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

	/** What the login hides, as far as we know. */
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
 * What one login was shown another of the same person may hide.
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
