/**
 * Who this client is to the server: a token of the application's (`getToken`), or the login of the page, whose
 * second half is in localStorage and whose first half is a cookie.
 */

/** The subprotocol of clients whose first frame says who they are. */
export const PROTOCOLS = ['holdfast.v1'];

const KEY = 'holdfast-login';
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
		const kept = JSON.parse(storage?.getItem(KEY) ?? 'null') ?? inMemory;
		const isLogin = typeof kept?.login === 'string' && typeof kept.sub === 'string';
		return isLogin && kept.login !== storage?.getItem(ENDED) ? kept : null;
	} catch {
		return inMemory;
	}
}

/** @param {Login | null} login null: none @param {AccessOptions} options */
export function keepLogin(login, options) {
	inMemory = options.storage ? null : login;
	try {
		const storage = storageOf(options);
		if (login) {
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

	/** Whose events a cache keeps: nobody else sees them. @param {string} [given] */
	identity(given) {
		if (given !== undefined) {
			return identityOf(given);
		}
		if (this.canRenew) {
			throw new TypeError('`cache` with `getToken` needs `identity`: whose the token is');
		}
		const login = readLogin(this.#options);
		return login ? identityOf(login.sub) : 'open';
	}

	/** Whether the page's login has ended by its clock. */
	hasEnded(/** @type {number} */ now) {
		const end = this.#options.getToken ? null : readLogin(this.#options)?.expires_at;
		return typeof end === 'number' && end <= now;
	}
}

/** @param {string} sub */
export function identityOf(sub) {
	return `sub:${encodeURIComponent(sub)}`;
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
