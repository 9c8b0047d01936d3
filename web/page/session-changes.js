/**
 * Changes to sessions of the list: rename, pin, archive, and delete, which can be undone for a while. A session that is
 * being deleted is archived at once and deleted when that time is over, so if the page is closed before, it stays in the archive.
 */
import { deleteSession, labelSession } from '../client/holdfast-client.js';
import { h, icon } from './dom.js';
import { sessionTitle } from './session-groups.js';

const UNDO_MS = 10_000;

export class SessionChanges {
	#toasts;
	#tell;
	#changed;
	#dialog;
	/** Sessions that are going, and how to keep each. @type {Map<string, () => void>} */
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

	async #delete(/** @type {any} */ session) {
		const { id } = session;
		let isKept = false;
		const toast = h(
			'div',
			{ class: 'toast keeps', 'data-testid': 'undo-delete' },
			icon('trash'),
			h('span', {}, `${sessionTitle(session)} was deleted.`),
			h('button', { type: 'button', class: 'button small', onclick: () => end(true) }, 'Undo'),
		);
		const end = (/** @type {boolean} */ keep) => {
			isKept = keep;
			toast.remove();
			clearTimeout(timer);
			void (keep ? this.#keep(session) : this.#finish(session));
		};
		const timer = setTimeout(() => end(false), UNDO_MS);
		this.#going.set(id, () => end(true));
		this.#toasts.append(toast);
		this.#changed();
		const isArchived = session.archived || (await this.#label(session, { archived: true }));
		if (!isArchived && !isKept) {
			end(true); // nothing is deleted that could not be put away first
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

function wordsOf(/** @type {unknown} */ error) {
	return error instanceof Error ? error.message : '';
}
