/**
 * Shows that sessions wait for an answer while another page is in front: in the icons of the tab and of the installed page, and by
 * notifications, once the reader has allowed them.
 */
import { currentLogin } from '../client/holdfast-client.js';
import { $, h, icon, lookUp } from './dom.js';
import { sessionTitle } from './sessions.js';
import { Tabs } from './tabs.js';

const ASKED = 'holdfast-notify-asked';
const PLAIN = 'page/icon.svg';
const DOTTED = `data:image/svg+xml,${encodeURIComponent(
	'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#4b4fd1"/>' +
		'<path d="M10 8.5v15M22 8.5v15M10 16h12" fill="none" stroke="#fff" stroke-width="3.2" stroke-linecap="round"/>' +
		'<circle cx="25" cy="7" r="7" fill="#e5484d" stroke="#fff" stroke-width="1.5"/></svg>',
)}`;

/** The words when a session has gone from one status to another. @type {Record<string, string>} */
const NEWS = { waiting: 'is waiting for you', idle: 'has finished' };

/**
 * A notification that is shown: by the worker, or by this page.
 * @typedef {{data: {session: string, kind: string, question?: string}, close: () => void}} Shown
 */

/** Whether a session that was `was` in the last list has something new to say. @param {any} was @param {any} session */
function isNews(was, session) {
	if (!was || was.status !== session.status) {
		return Boolean(lookUp(NEWS, session.status, '')) && Boolean(was || session.status === 'waiting');
	}
	// The newest question also changes when it is answered, and an older one is open still.
	return session.status === 'waiting' && was.waiting_for !== session.waiting_for && session.questions >= was.questions;
}

export class Attention {
	/** @type {Map<string, any> | null} the sessions of the last list; null before the first one */
	#known = null;
	#open;
	/** @type {Tabs | null} made with the first list, when the login is known */
	#tabs = null;
	/** Notifications of a browser without a worker, by session. @type {Map<string, Notification>} */
	#own = new Map();
	/** What is done with notifications, in order. */
	#last = Promise.resolve();
	/** How many sessions wait for an answer. */
	count = 0;

	/** @param {(sessionId: string) => void} open shows the question of a session */
	constructor(open) {
		this.#open = open;
		this.#mark(0); // the badge of an installed page outlives the page
		navigator.serviceWorker?.addEventListener('message', ({ data }) => {
			if (typeof data?.open === 'string') {
				open(data.open);
			}
		});
	}

	/** @param {any[]} sessions all of them */
	show(sessions) {
		const before = this.#known;
		this.#tabs ??= new Tabs(currentLogin()?.share === true);
		this.#known = new Map(sessions.map((session) => [session.id, session]));
		this.#mark(sessions.filter(({ status }) => status === 'waiting').length);
		const news = before ? sessions.filter((session) => isNews(before.get(session.id), session)) : [];
		this.#takeBack(({ data }) => this.#isOver(data, before));
		news.forEach((session) => this.#do(() => this.#notify(session)));
	}

	/** Somebody looks at a session: what was said of it is no news any more. @param {string | null} id */
	see(id) {
		if (id !== null && !document.hidden) {
			this.#takeBack(({ data }) => data?.session === id);
		}
	}

	/** Nobody is logged in any more: removes all traces of the sessions. */
	clear() {
		this.#known = null;
		this.#mark(0);
		this.#takeBack(() => true);
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

	/** Whether what a notification says is not so any more. @param {Shown['data']} data @param {Map<string, any> | null} before */
	#isOver(data, before) {
		const session = this.#known?.get(data?.session);
		return session ? data.kind !== session.status : before?.has(data?.session) === true;
	}

	/** @returns {Promise<Shown[]>} */
	async #shown() {
		const worker = await navigator.serviceWorker?.getRegistration();
		return [...((await worker?.getNotifications?.()) ?? []), ...this.#own.values()];
	}

	/** Closes notifications, whichever tab or push message has shown them. @param {(shown: Shown) => boolean} isOver */
	#takeBack(isOver) {
		this.#do(async () => (await this.#shown()).filter(isOver).forEach((shown) => shown.close()));
	}

	/** One after the other: a notification that is closed late would take the new one of its session along. @param {() => Promise<void>} step */
	#do(step) {
		this.#last = this.#last.then(step).catch(() => {}); // some systems have no notifications
	}

	/** @param {any} session */
	async #notify(session) {
		if (!('Notification' in window) || Notification.permission !== 'granted' || !this.#tabs?.rings || (await this.#tabs.areSeen())) {
			return;
		}
		const { id, status, waiting_for: question } = session;
		const title = `${sessionTitle(session)} ${NEWS[status]}`;
		const earlier = (await this.#shown()).find(({ data }) => data?.session === id);
		if (earlier?.data.kind === status && earlier.data.question === question) {
			return; // a push message was faster
		}
		// One for each session. Without `renotify` a second question would take the first one's place in silence.
		const options = { tag: id, renotify: Boolean(earlier), icon: 'page/icon-512.png', data: { session: id, kind: status, question } };
		const worker = await navigator.serviceWorker?.getRegistration();
		if (worker?.active) {
			await worker.showNotification(title, options); // phones have no other way
			return;
		}
		const note = new Notification(title, options);
		this.#own.set(id, note);
		note.onclose = () => this.#own.get(id) === note && this.#own.delete(id);
		note.onclick = () => {
			window.focus();
			note.close();
			this.#open(id);
		};
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
