/**
 * Finding: Ctrl+K lists commands, sessions and hits in their logs; `?seq=` in the address leads to an event, after loading older
 * pages as needed; times and links of events under the pointer; the keys to the start and the end of a session.
 */
import { addressOf, soughtSeq } from './address.js';
import { $, h, writeClipboard } from './dom.js';
import { extras } from './lazy.js';
import { loadBackTo } from './older.js';

/**
 * @typedef {object} Page
 * @property {() => import('../client/holdfast-client.js').HoldfastClient | null} client
 * @property {() => readonly any[]} sessions
 * @property {import('./transcript.js').Transcript} transcript
 * @property {() => void} route
 * @property {(message: string) => void} tell
 */

/** @param {number} ts */
function timeOf(ts) {
	const at = new Date(ts);
	const isToday = at.toDateString() === new Date().toDateString();
	return at.toLocaleString([], isToday ? { timeStyle: 'short' } : { dateStyle: 'medium', timeStyle: 'short' });
}

export class Find {
	#page;
	#box = h('input', {
		class: 'find-box', type: 'text', dir: 'auto', enterkeyhint: 'go', 'data-testid': 'find-box', placeholder: 'Search sessions, messages and commands', 'aria-label': 'Search',
		role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'found', 'aria-autocomplete': 'list', autocomplete: 'off', maxlength: 100,
	});
	#list = h('ul', { id: 'found', class: 'found', role: 'listbox', 'aria-label': 'Results' });
	#status = h('p', { class: 'find-status muted', role: 'status' });
	#dialog = h('dialog', { class: 'find', 'aria-label': 'Search', 'data-testid': 'find' }, this.#box, this.#list, this.#status);
	/** @type {import('./find-results.js').FindResults | null} once they have been loaded */
	#results = null;
	/** The place in the address that has been shown. @type {string | null} */
	#shown = null;
	#isSeeking = false;

	/** @param {Page} page */
	constructor(page) {
		this.#page = page;
		document.body.append(this.#dialog);
		this.#dialog.addEventListener('click', ({ target }) => target === this.#dialog && this.#dialog.close());
		$('#find').addEventListener('click', () => this.open());
		document.addEventListener('keydown', (event) => this.#handlePageKey(event));
		watchPointer(() => page.client()?.sessionId ?? null, page);
	}

	open() {
		if (this.#dialog.open || document.querySelector('dialog[open]') || document.body.classList.contains('locked')) {
			return;
		}
		this.#box.value = '';
		this.#dialog.showModal();
		void this.#fill();
	}

	/** Lists the results; also of what was typed before its code was loaded. */
	async #fill() {
		try {
			const { FindResults } = await extras();
			const places = { dialog: this.#dialog, box: this.#box, list: this.#list, status: this.#status };
			const go = (/** @type {string} */ id, /** @type {number | undefined} */ seq) => this.#go(id, seq);
			this.#results ??= new FindResults(places, { ...this.#page, go, toStart: () => this.#toStart(), timeOf });
			if (this.#dialog.open) {
				this.#results.ask();
			}
		} catch (/** @type {any} */ error) {
			this.#status.textContent = error.message;
		}
	}

	/** Shows the event that the address names, once there is a connection. */
	follow() {
		const from = this.#page.client();
		const seq = soughtSeq();
		if (seq === null) {
			this.#shown = null;
		} else if (from?.status.status === 'live' && location.hash !== this.#shown && !this.#isSeeking) {
			this.#shown = location.hash;
			void this.#seek(from, seq);
		}
	}

	/** @param {import('../client/holdfast-client.js').HoldfastClient} from @param {number} seq */
	async #seek(from, seq) {
		this.#isSeeking = true;
		if (!(await loadBackTo(from, seq, () => this.#page.client() === from))) {
			this.#shown = null; // goes on with the next connection
		}
		this.#isSeeking = false;
		if (this.#page.client() !== from) {
			this.follow();
		} else if (from.status.status === 'live' && !this.#page.transcript.showSeq(seq)) {
			this.#page.tell('This event is no longer kept.');
		}
	}

	/** @param {string} id @param {number} [seq] */
	#go(id, seq) {
		this.#shown = null;
		location.hash = addressOf(id, seq);
		this.#page.route();
		this.follow();
	}

	/** The first event there is. */
	#toStart() {
		const from = this.#page.client();
		if (from?.status.status === 'live') {
			void this.#seek(from, 1);
		}
	}

	/** @param {KeyboardEvent} event */
	#handlePageKey(event) {
		const { key, ctrlKey, metaKey, altKey, shiftKey, target } = event;
		const isEmptyPrompt = target instanceof HTMLTextAreaElement && target.value === '' && !target.closest('dialog');
		const isFree = isEmptyPrompt || !(target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable], #sidebar, dialog, [popover]'));
		if (key?.toLowerCase() === 'k' && (ctrlKey || metaKey) && !altKey && !shiftKey) {
			event.preventDefault();
			this.open();
		} else if ((key === 'Home' || key === 'End') && isFree && !ctrlKey && !metaKey && !altKey && !shiftKey && this.#page.client()) {
			event.preventDefault();
			key === 'Home' ? this.#toStart() : this.#page.transcript.scrollToEnd();
		}
	}
}

/** The time and the number of the event under the pointer; a click on it copies its link. @param {() => string | null} sessionId @param {Page} page */
function watchPointer(sessionId, { client, tell }) {
	const tag = h('button', { type: 'button', class: 'event-tag', 'data-testid': 'event-tag', tabindex: '-1', title: 'Copy a link to this event', hidden: true });
	$('#scroller').append(tag);
	$('#transcript').addEventListener('pointerover', (/** @type {any} */ { target, pointerType }) => {
		const item = target.closest('.item[data-no], [data-no]');
		const event = item && client()?.events.find(({ seq }) => seq === Number(item.dataset.no));
		if (!event || pointerType === 'touch') {
			return;
		}
		tag.dataset.number = String(event.seq);
		tag.textContent = `${timeOf(event.ts)} · #${event.seq}`;
		tag.style.top = `${item.getBoundingClientRect().top - $('#scroller').getBoundingClientRect().top + $('#scroller').scrollTop}px`;
		tag.hidden = false;
	});
	$('#scroller').addEventListener('pointerleave', () => {
		tag.hidden = true;
	});
	tag.addEventListener('click', async () => {
		const id = sessionId();
		if (id !== null) {
			await writeClipboard(location.origin + location.pathname + addressOf(id, Number(tag.dataset.number)));
			tag.textContent = 'Link copied';
			tell('The link to this event has been copied.');
		}
	});
}
