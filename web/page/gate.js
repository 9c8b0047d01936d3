/** Uncovers and starts the page, which is covered at first, once somebody is logged in; covers it again after that. */
import {
	checkLogin,
	currentLogin,
	forgetLogin,
	isLoginWith,
	login,
	logout,
} from '../client/holdfast-client.js';
import { $, handleCopies, visible } from './dom.js';
import { setWho, whoWords } from './rights.js';
import { SignIn, askToReplace, faultText } from './sign-in.js';

/** @typedef {import('./rights.js').Who} Who */

const REASON = 'holdfast-signed-out'; // why the page was loaded again
/** What a page keeps for the person logged in: see new-session.js and session-changes.js. */
const REMEMBERED = /^holdfast (new session$|going )/;
const LOOK_MS = 15_000;
const AGAIN_MS = 2_000;

/** The token that fragment.js has taken out of the address. */
function takeLink() {
	const scope = /** @type {any} */ (window);
	const { holdfastToken: token, holdfastIsShared: share } = scope;
	delete scope.holdfastToken;
	return typeof token === 'string' && token !== '' ? { token, share: share === true } : null;
}

/** @param {Who | null} who */
function hasEnded(who) {
	return typeof who?.expires_at === 'number' && who.expires_at <= Date.now();
}

/** @param {Who} who */
function hides({ hide = [] }) {
	return hide.join();
}

export class Gate {
	#page;
	#screen = new SignIn((token) => this.#signIn(token));
	/** Whose page it is, once there was somebody. @type {Who | null} */
	#who = null;
	#isCovered = true;
	#isLeaving = false;
	#title = document.title;

	/**
	 * @param {{start: () => void, resume: () => void, isLive: () => boolean, tell: (message: string) => void}} page
	 *   `resume`: the same one is logged in again · `isLive`: the server has not said that the login has ended
	 */
	constructor(page) {
		this.#page = page;
		document.body.classList.remove('starting');
		handleCopies(document.body);
		window.addEventListener('storage', () => this.#follow());
		window.addEventListener('hashchange', () => void this.#useLink());
		$('#sign-out').addEventListener('click', () => void this.#signOut());
		setInterval(() => {
			if (!this.#isCovered && hasEnded(this.#who) && !page.isLive()) {
				void this.lock('token_expired');
			}
		}, LOOK_MS);
		void this.#enter();
	}

	/** The server no longer accepts the login. @param {string} [reason] */
	async lock(reason = '') {
		if (this.#isLeaving || this.#isCovered) {
			return;
		}
		this.#cover(noteOf(reason));
		const now = currentLogin();
		if (now && now.login !== this.#who?.login) {
			this.#follow(); // another tab has logged in
		} else if (reason === 'token_revoked') {
			await forgetLogin();
			this.#reload(reason);
		} else {
			await forgetLogin({ keepCache: true });
		}
	}

	async #enter() {
		const kept = currentLogin();
		if (await this.#useLink()) {
			return;
		}
		if (kept && !hasEnded(kept)) {
			this.#open(kept); // sockets will say if it has ended
		} else {
			await this.#ask(kept);
		}
	}

	/** Checks whether the server accepts this login. @param {Who | null} kept */
	async #ask(kept) {
		try {
			const found = await checkLogin();
			this.#open({ ...found, login: kept?.login });
		} catch (/** @type {any} */ error) {
			if (currentLogin()?.login !== kept?.login) {
				return; // another tab has logged in meanwhile
			}
			if (error?.code === undefined) {
				this.#cover(kept ? 'token_expired' : 'unreachable');
				if (!kept) {
					setTimeout(() => this.#isCovered && void this.#ask(currentLogin()), AGAIN_MS);
				}
				return;
			}
			this.#cover(kept ? noteOf(error.code) : takeReason());
			if (kept) {
				await forgetLogin({ keepCache: error.code !== 'token_revoked' });
			}
		}
	}

	/** False: the page was not opened with a token. */
	async #useLink() {
		const link = takeLink();
		if (link === null) {
			return false;
		}
		let kept = currentLogin();
		if (kept?.share && !link.share) {
			this.#isLeaving = this.#who !== null; // then the page is loaded again
			await logout(); // a link of one's own ends the shared view of this tab
			kept = currentLogin();
		}
		try {
			const keeps = link.share ? this.#isSame(kept, link.token) : kept && this.#keeps(kept, link.token);
			if (kept && (await keeps)) {
				this.#open(kept);
			} else {
				await this.#signIn(link.token, link.share);
			}
		} catch (error) {
			if (currentLogin()) {
				this.#open(/** @type {Who} */ (currentLogin()));
				this.#page.tell(`You are signed in as before. ${faultText(error)}`);
			} else {
				this.#cover('', faultText(error));
			}
		}
		return true;
	}

	/** Whether the login is that of this share link, and still valid. @param {Who | null} kept @param {string} token */
	async #isSame(kept, token) {
		return kept?.share === true && (await isLoginWith(token)) && Boolean(await checkLogin().catch(() => null));
	}

	/** Whether the current login stays, despite a link with this token. @param {Who} kept @param {string} token */
	async #keeps(kept, token) {
		const known = await checkLogin().catch((error) => {
			if (error.code === undefined) {
				throw error;
			}
			return null;
		});
		if (!known || (await isLoginWith(token))) {
			return Boolean(known);
		}
		const other = await checkLogin({ token });
		if (!(await askToReplace(kept, other))) {
			return true;
		}
		this.#isLeaving = true; // the sockets of the old login are told that it has ended
		await logout();
		return false;
	}

	/** @param {string} token @param {boolean} [share] */
	async #signIn(token, share = false) {
		try {
			this.#open(await login(token, { share }));
		} finally {
			this.#isLeaving = false;
		}
	}

	async #signOut() {
		const reason = this.#who?.share ? 'left_share' : 'signed_out';
		this.#isLeaving = true;
		await logout();
		history.replaceState(null, '', location.pathname);
		this.#reload(reason);
	}

	/** Another tab has logged in or out. */
	#follow() {
		const now = currentLogin();
		if (this.#isLeaving || (now?.login ?? null) === (this.#who?.login ?? null)) {
			return;
		}
		if (now) {
			this.#open(now);
		} else if (this.#who?.login) {
			// Our own connections, if any, know the reason better.
			setTimeout(() => !this.#isCovered && !currentLogin() && this.#reload('signed_out'), AGAIN_MS);
		}
	}

	/** @param {Who} who */
	#open(who) {
		const before = this.#who;
		const goesOn = (before?.login ?? null) === (who.login ?? null) || (before?.login && who.login && this.#isCovered);
		const isSame =
			before?.sub === who.sub && before.role === who.role && hides(before) === hides(who);
		if (before && !(goesOn && isSame)) {
			location.reload(); // removes everything of the other login
			return;
		}
		takeReason();
		this.#who = who;
		setWho(who);
		$('#who').textContent = visible(whoWords(who));
		$('#account').hidden = !who.login;
		$('#sign-out').textContent = who.share ? 'Leave' : 'Sign out';
		if (!this.#isCovered) {
			return;
		}
		this.#isCovered = false;
		document.body.classList.remove('locked');
		document.title = this.#title;
		this.#screen.hide();
		if (before) {
			this.#page.resume();
		} else {
			this.#page.start();
		}
	}

	/** @param {string} reason @param {string} [fault] */
	#cover(reason, fault) {
		if (!this.#isCovered) {
			this.#title = document.title;
		}
		this.#isCovered = true;
		document.body.classList.add('locked');
		this.#screen.show(reason, fault);
	}

	/** Leaves nothing of the page. @param {string} reason */
	#reload(reason) {
		this.#isLeaving = true;
		try {
			if (!this.#who?.share) {
				Object.keys(localStorage).filter((key) => REMEMBERED.test(key)).forEach((key) => localStorage.removeItem(key));
			}
			sessionStorage.setItem(REASON, reason);
		} catch {
			// then the page does not say why
		}
		location.reload();
	}
}

/** @param {string} code */
function noteOf(code) {
	return code === 'unauthorized' ? 'refused' : code;
}

/** Why the page was loaded again, once. */
function takeReason() {
	try {
		const reason = sessionStorage.getItem(REASON) ?? '';
		sessionStorage.removeItem(REASON);
		return reason;
	} catch {
		return '';
	}
}
