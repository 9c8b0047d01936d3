/**
 * Changes to sessions of the list: rename, pin, archive, and delete, which can be undone for a while. A session that is
 * being deleted is archived at once and deleted when that time is over. A reload meanwhile continues this; if the page is
 * closed, the session stays in the archive, and the next page of this browser says so.
 */
import { deleteSession, labelSession } from '../client/holdfast-client.js';
import { h, icon } from './dom.js';
import { sessionTitle } from './session-groups.js';
import { tabKey } from './tab.js';

const UNDO_MS = 10_000;
const LATE_MS = 5_000; // a tab in the background may be as late as this
const LEAVING_MS = 500;
const KEPT = 'holdfast going ';

/** @typedef {{id: string, title: string, archived: boolean, until: number, tab: string}} Going archived: before it was deleted */

export class SessionChanges {
	#toasts;
	#tell;
	#changed;
	#dialog;
	/** Sessions being deleted, and how to keep each. @type {Map<string, () => void>} */
	#going = new Map();

	/**
	 * @param {{toasts: HTMLElement, dialog: HTMLDialogElement}} elements
	 * @param {{tell: (message: string) => void, changed: () => void}} handlers changed: which sessions are going
	 */
	constructor({ toasts, dialog }, { tell, changed }) {
		this.#toasts = toasts;
		this.#dialog = dialog;
		this.#tell = tell;
		this.#changed = changed;
	}

	/** Whether it is being deleted, so that the list does not show it. @param {string} id */
	isGoing(id) {
		return this.#going.has(id);
	}

	/** @param {'rename' | 'pin' | 'archive' | 'delete'} action @param {any} session */
	take(action, session) {
		if (action === 'rename') {
			this.#rename(session);
		} else if (action === 'pin') {
			void this.#label(session, { pinned: !session.pinned });
		} else if (action === 'archive') {
			void this.#label(session, { archived: !session.archived });
		} else {
			void this.#delete(session);
		}
	}

	/** @param {any} session @param {{title?: string | null, archived?: boolean, pinned?: boolean}} labels @returns {Promise<boolean>} */
	async #label({ id }, labels) {
		try {
			await labelSession(id, labels);
			return true;
		} catch (error) {
			this.#tell(`The session could not be changed. ${wordsOf(error)}`);
			return false;
		}
	}

	#rename(/** @type {any} */ session) {
		const dialog = this.#dialog;
		const box = /** @type {HTMLInputElement} */ (dialog.querySelector('input'));
		box.value = session.title;
		dialog.returnValue = 'cancel';
		dialog.onclose = () => {
			if (dialog.returnValue === 'rename' && box.value.trim() !== session.title) {
				void this.#label(session, { title: box.value.trim() || null });
			}
		};
		dialog.showModal();
		box.select();
	}

	/** Deletions that were pending when the page was left: continues those of this tab, and tells where sessions of closed tabs are. */
	resume() {
		for (const session of readAll()) {
			if (session.tab === tabKey()) {
				void this.#delete(session);
			} else if (session.until + LATE_MS < Date.now()) {
				forget(session.id);
				const put = () => void this.#delete(session);
				this.#offer(sessionTitle(session), ' is in the archive: the page was closed before it was deleted.', 'left-delete', [['Delete', put], ['Keep', () => {}]]);
			}
		}
	}

	/** @param {string} title of a session @param {string} words about it @param {string} testId @param {[string, () => void][]} ways */
	#offer(title, words, testId, ways) {
		const toast = h(
			'div',
			{ class: 'toast keeps', 'data-testid': testId },
			icon('trash'),
			h('span', {}, h('bdi', {}, title), words),
			...ways.map(([name, take]) => h('button', { type: 'button', class: 'button small', onclick: () => [toast.remove(), take()] }, name)),
		);
		this.#toasts.append(toast);
		return toast;
	}

	async #delete(/** @type {any} */ session) {
		const { id } = session;
		let isKept = false;
		const end = (/** @type {boolean} */ keep) => {
			isKept = keep;
			toast.remove();
			clearTimeout(timer);
			forget(id);
			void (keep ? this.#keep(session) : this.#finish(session));
		};
		const toast = this.#offer(sessionTitle(session), ' was deleted.', 'undo-delete', [['Undo', () => end(true)]]);
		const timer = setTimeout(() => end(false), UNDO_MS);
		keep({ id, title: session.title, archived: session.archived, until: Date.now() + UNDO_MS, tab: tabKey() });
		this.#going.set(id, () => end(true));
		this.#changed();
		const isArchived = session.archived || session.until !== undefined || (await this.#label(session, { archived: true }));
		if (!isArchived) {
			// What cannot be archived is kept. A page being left drops its requests: then this does not run, and the deletion stays noted.
			setTimeout(() => isKept || end(true), LEAVING_MS);
		}
	}

	async #keep(/** @type {any} */ session) {
		this.#going.delete(session.id);
		this.#changed();
		if (!session.archived) {
			await this.#label(session, { archived: false });
		}
	}

	async #finish(/** @type {any} */ session) {
		try {
			await deleteSession(session.id);
		} catch (error) {
			if (/** @type {any} */ (error).code !== 'not_found') {
				this.#tell(`The session could not be deleted; it is in the archive. ${wordsOf(error)}`);
			}
		}
		this.#going.delete(session.id);
		this.#changed();
	}
}

/** @param {Going} going */
function keep(going) {
	try {
		localStorage.setItem(KEPT + going.id, JSON.stringify(going));
	} catch {
		// then it stays in the archive if the page is closed, and nobody says so
	}
}

/** @param {string} id */
function forget(id) {
	try {
		localStorage.removeItem(KEPT + id);
	} catch {
		// there is none
	}
}

/** @returns {Going[]} */
function readAll() {
	try {
		return Object.keys(localStorage).filter((key) => key.startsWith(KEPT)).map((key) => JSON.parse(localStorage.getItem(key) ?? ''));
	} catch {
		return [];
	}
}

function wordsOf(/** @type {unknown} */ error) {
	return error instanceof Error ? error.message : '';
}
