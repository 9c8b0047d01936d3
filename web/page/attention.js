/**
 * Shows that sessions wait for an answer while another page is in front: in the icons of the tab and of the installed page, and by
 * notifications, once the reader has allowed them.
 */
import { $, h, icon, lookUp } from './dom.js';
import { sessionTitle } from './sessions.js';

const ASKED = 'holdfast-notify-asked';
const PLAIN = 'page/icon.svg';
const DOTTED = `data:image/svg+xml,${encodeURIComponent(
	'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#4b4fd1"/>' +
		'<path d="M10 8.5v15M22 8.5v15M10 16h12" fill="none" stroke="#fff" stroke-width="3.2" stroke-linecap="round"/>' +
		'<circle cx="25" cy="7" r="7" fill="#e5484d" stroke="#fff" stroke-width="1.5"/></svg>',
)}`;

/** The words when a session has gone from one status to another. @type {Record<string, string>} */
const NEWS = { waiting: 'is waiting for you', idle: 'has finished' };

export class Attention {
	/** @type {Map<string, string> | null} the status of each session; null before the first list */
	#known = null;
	#open;
	/** How many sessions wait for an answer. */
	count = 0;

	/** @param {(sessionId: string) => void} open shows the question of a session */
	constructor(open) {
		this.#open = open;
		this.clear(); // the badge of an installed page outlives the page
		navigator.serviceWorker?.addEventListener('message', ({ data }) => {
			if (typeof data?.open === 'string') {
				open(data.open);
			}
		});
	}

	/** @param {any[]} sessions all of them */
	show(sessions) {
		const before = this.#known;
		this.#known = new Map(sessions.map(({ id, status }) => [id, status]));
		this.#mark(sessions.filter(({ status }) => status === 'waiting').length);
		for (const session of before && document.hidden ? sessions : []) {
			const words = lookUp(NEWS, session.status, '');
			const was = before?.get(session.id);
			if (words && was !== session.status && (was !== undefined || session.status === 'waiting')) {
				void this.#notify(session, words);
			}
		}
	}

	/** Nobody is logged in any more: removes all traces of the sessions. */
	clear() {
		this.#known = null;
		this.#mark(0);
	}

	/** Asks once whether notifications are wanted, now that something is waited for. */
	offer() {
		const place = $('#notify');
		if (!('Notification' in window) || Notification.permission !== 'default' || !takeFirst()) {
			return;
		}
		const end = (/** @type {boolean} */ isWanted) => {
			place.hidden = true;
			place.replaceChildren();
			$('#prompt').focus();
			if (isWanted) {
				void Notification.requestPermission();
			}
		};
		const button = (/** @type {string} */ words, /** @type {boolean} */ isWanted) =>
			h('button', { type: 'button', class: 'button small', 'data-testid': isWanted ? 'notify-yes' : 'notify-no', onclick: () => end(isWanted) }, words);
		place.replaceChildren(
			icon('info'),
			h('span', {}, 'Do you want a notification when the agent waits for you or has finished, and this page is not in front?'),
			h('span', { class: 'notify-buttons' }, button('Notify me', true), button('No', false)),
		);
		place.hidden = false;
	}

	/** @param {number} count */
	#mark(count) {
		this.count = count;
		const link = $('link[rel="icon"]');
		const href = count > 0 ? DOTTED : PLAIN;
		if (link.getAttribute('href') !== href) {
			link.setAttribute('href', href);
		}
		const { setAppBadge, clearAppBadge } = navigator;
		(count > 0 ? setAppBadge?.call(navigator, count) : clearAppBadge?.call(navigator))?.catch(() => {});
	}

	/** @param {any} session @param {string} words */
	async #notify(session, words) {
		if (!('Notification' in window) || Notification.permission !== 'granted') {
			return;
		}
		const title = `${sessionTitle(session)} ${words}`;
		// One tag for all tabs: they say it once together.
		const options = { tag: `${session.id} ${session.status}`, icon: 'page/icon-512.png', data: { session: session.id } };
		try {
			const worker = await navigator.serviceWorker?.getRegistration();
			if (worker?.active) {
				await worker.showNotification(title, options); // phones have no other way
				return;
			}
			const note = new Notification(title, options);
			note.onclick = () => {
				window.focus();
				note.close();
				this.#open(session.id);
			};
		} catch {
			// some systems have none
		}
	}
}

/** True the first time in this browser. */
function takeFirst() {
	try {
		const isFirst = localStorage.getItem(ASKED) === null;
		localStorage.setItem(ASKED, '1');
		return isFirst;
	} catch {
		return false; // it would be asked with each visit
	}
}

/** The page can be installed, and opens while the server is down. */
export function registerWorker() {
	navigator.serviceWorker?.register('sw.js').catch(() => {});
}
