/**
 * Finding: Ctrl+K lists commands, sessions and what the server finds in their logs; `?seq=` in the address leads to an event, whose
 * older pages are loaded first; times and links of events under the pointer; the keys to the start and the end of a session.
 */
import { search } from '../client/holdfast-client.js';
import { $, h, icon, visible, writeClipboard } from './dom.js';
import { filterSessions, sessionTitle } from './session-groups.js';

const WAIT_MS = 250; // after the last key
const LEAST = 2; // characters that are worth asking the server for
const HITS_MAX = 40;
const ANSWERS_MAX = 50; // of one search: about 400 MiB of events
const SESSIONS_MAX = 6;
const OLDER_PAGE = 1_000;

/** @typedef {{icon: string, text: string, meta?: string, words?: string, run: () => void}} Entry */
/**
 * @typedef {object} Page
 * @property {() => import('../client/holdfast-client.js').HoldfastClient | null} client
 * @property {() => readonly any[]} sessions
 * @property {import('./transcript.js').Transcript} transcript
 * @property {() => void} route
 * @property {(message: string) => void} tell
 */

/** @param {string} id @param {number} [seq] */
const addressOf = (id, seq) => `#/s/${encodeURIComponent(id)}${seq === undefined ? '' : `?seq=${seq}`}`;

/** The event that the address names. */
function soughtSeq() {
	const written = location.hash.match(/^#\/s\/[^?]+\?seq=(\d{1,15})$/)?.[1];
	return written === undefined ? null : Number(written);
}

/** @param {number} ts */
function timeOf(ts) {
	const at = new Date(ts);
	const isToday = at.toDateString() === new Date().toDateString();
	return at.toLocaleString([], isToday ? { timeStyle: 'short' } : { dateStyle: 'medium', timeStyle: 'short' });
}

/** The text with what was looked for marked. @param {string} text @param {string} words */
function marked(text, words) {
	const [low, wanted] = [text.toLowerCase(), words.trim().toLowerCase()];
	const at = low.length === text.length && wanted ? low.indexOf(wanted) : -1;
	return at < 0 ? [text] : [text.slice(0, at), h('mark', {}, text.slice(at, at + wanted.length)), text.slice(at + wanted.length)];
}

export class Find {
	#page;
	#box = h('input', {
		class: 'find-box', type: 'text', enterkeyhint: 'go', 'data-testid': 'find-box', placeholder: 'Search sessions, messages and commands', 'aria-label': 'Search',
		role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'found', 'aria-autocomplete': 'list', autocomplete: 'off', maxlength: 100,
	});
	#list = h('ul', { id: 'found', class: 'found', role: 'listbox', 'aria-label': 'Results' });
	#status = h('p', { class: 'find-status muted', role: 'status' });
	#dialog = h('dialog', { class: 'find', 'aria-label': 'Search', 'data-testid': 'find' }, this.#box, this.#list, this.#status);
	/** @type {Entry[]} */
	#entries = [];
	/** What the server has found: in this session, and in the others. @type {[any[], any[]]} */
	#hits = [[], []];
	#at = 0;
	/** @type {AbortController | null} */
	#asking = null;
	#timer = 0;
	/** The place in the address that has been shown. @type {string | null} */
	#shown = null;
	#isSeeking = false;

	/** @param {Page} page */
	constructor(page) {
		this.#page = page;
		document.body.append(this.#dialog);
		this.#box.addEventListener('input', () => this.#ask());
		this.#box.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => this.#handleKey(event));
		this.#list.addEventListener('click', (/** @type {any} */ { target }) => {
			const row = target.closest('[data-at]');
			if (row) {
				this.#choose(Number(row.dataset.at));
			}
		});
		this.#dialog.addEventListener('click', ({ target }) => target === this.#dialog && this.#dialog.close());
		this.#dialog.addEventListener('close', () => this.#stop());
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
		this.#ask();
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
		while (from.hasOlder && (from.events[0]?.seq ?? 0) > seq && this.#page.client() === from) {
			const answered = new Promise((done) => {
				const off = [from.on('older', () => end()), from.on('status', () => end())];
				const end = () => done(off.forEach((each) => each()));
			});
			from.loadOlder(OLDER_PAGE);
			await answered;
			if (from.status.status !== 'live') {
				this.#shown = null; // goes on with the next connection
				break;
			}
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

	/** @param {KeyboardEvent} event */
	#handleKey(event) {
		const count = this.#entries.length;
		const to = { ArrowDown: this.#at + 1, ArrowUp: this.#at - 1 }[event.key];
		if (to !== undefined && count > 0) {
			event.preventDefault();
			this.#at = (to + count) % count;
			this.#mark();
		} else if (event.key === 'Enter' && !event.isComposing) {
			event.preventDefault();
			this.#choose(this.#at);
		}
	}

	/** @param {number} at */
	#choose(at) {
		const entry = this.#entries[at];
		if (entry) {
			this.#dialog.close();
			entry.run();
		}
	}

	#stop() {
		this.#asking?.abort();
		this.#asking = null;
		clearTimeout(this.#timer);
	}

	#ask() {
		this.#stop();
		this.#hits = [[], []];
		this.#at = 0;
		const words = this.#box.value.trim();
		this.#status.textContent = words.length < LEAST ? '' : 'Searching…';
		if (words.length >= LEAST) {
			this.#timer = window.setTimeout(() => void this.#search(words), WAIT_MS);
		}
		this.#render();
	}

	/** @param {string} words */
	async #search(words) {
		const asking = new AbortController();
		this.#asking = asking;
		const id = this.#page.client()?.sessionId;
		try {
			if (id !== undefined) {
				await this.#collect(0, words, { sessionId: id, signal: asking.signal });
			}
			await this.#collect(1, words, { signal: asking.signal }, (hit) => hit.session_id !== id);
			this.#status.textContent = this.#entries.length === 0 ? 'Nothing found.' : '';
		} catch (error) {
			if (!asking.signal.aborted) {
				this.#status.textContent = `The search did not work. ${error instanceof Error ? error.message : ''}`;
			}
		}
	}

	/** @param {0 | 1} where @param {string} words @param {object} options @param {(hit: any) => boolean} wanted */
	async #collect(where, words, options, wanted = () => true) {
		let answers = 0;
		for await (const hits of search(words, options)) {
			const kept = this.#hits[where];
			kept.push(...hits.filter(wanted).slice(0, HITS_MAX - kept.length));
			this.#render();
			answers += 1;
			if (kept.length >= HITS_MAX || answers >= ANSWERS_MAX) {
				return;
			}
		}
	}

	/** @param {string} words @returns {Entry[]} */
	#commands(words) {
		const press = (/** @type {string} */ selector) => () => $(selector).click();
		/** @type {(Entry | false)[]} */
		const all = [
			!$('#new-session').hidden && { icon: 'plus', text: 'New session', run: press('#new-session') },
			this.#page.client() !== null && { icon: 'chevron', text: 'Go to the start of this session', meta: 'Home', run: () => this.#toStart() },
			this.#page.client() !== null && { icon: 'down', text: 'Go to the end of this session', meta: 'End', run: () => this.#page.transcript.scrollToEnd() },
			!$('#export').hidden && { icon: 'down', text: 'Save the transcript as markdown', run: press('#export') },
			!$('#people').hidden && { icon: 'user', text: 'Who is here, and your name', run: () => /** @type {any} */ ($('#people-panel')).showPopover() },
			{ icon: 'wall', text: 'All sessions at once', run: press('#sidebar a[href="observe.html"]') },
			{ icon: 'inspect', text: 'Inspector', run: press('#inspect') },
			{ icon: 'theme', text: 'Change the colours', run: press('[data-action="theme"]') },
			{ icon: 'info', text: 'Keyboard shortcuts', meta: '?', run: press('#shortcuts') },
		];
		const wanted = words.toLowerCase().split(/\s+/);
		return all.filter((entry) => entry !== false).filter(({ text }) => wanted.every((word) => text.toLowerCase().includes(word)));
	}

	#render() {
		const words = this.#box.value.trim();
		const sessions = this.#page.sessions();
		const titles = new Map(sessions.map((session) => [session.id, sessionTitle(session)]));
		const here = this.#page.client()?.sessionId ?? '';
		const hit = (/** @type {any} */ { session_id: id = here, seq, ts, snippet }) => ({
			icon: 'search', text: visible(snippet), words, meta: id === here ? timeOf(ts) : `${titles.get(id) ?? id} · ${timeOf(ts)}`, run: () => this.#go(id, seq),
		});
		/** @type {[string, Entry[]][]} */
		const sections = [
			['Sessions', filterSessions(sessions, words).slice(0, SESSIONS_MAX).map((session) => ({ icon: 'open', text: sessionTitle(session), words, run: () => this.#go(session.id) }))],
			['Commands', this.#commands(words)],
			['In this session', this.#hits[0].map(hit)],
			['In other sessions', this.#hits[1].map(hit)],
		];
		this.#entries = sections.flatMap(([, entries]) => entries);
		let at = 0;
		this.#list.replaceChildren(
			...sections.filter(([, entries]) => entries.length > 0).flatMap(([name, entries]) => [
				h('li', { class: 'found-head', role: 'presentation' }, name),
				...entries.map((entry) => row(entry, at++)),
			]),
		);
		this.#mark();
	}

	/** Shows which one Enter takes. */
	#mark() {
		this.#at = Math.max(0, Math.min(this.#at, this.#entries.length - 1));
		for (const element of this.#list.querySelectorAll('[data-at]')) {
			const isIt = element.dataset.at === String(this.#at);
			element.setAttribute('aria-selected', String(isIt));
			if (isIt) {
				this.#box.setAttribute('aria-activedescendant', element.id);
				element.scrollIntoView({ block: 'nearest' });
			}
		}
	}
}

/** @param {Entry} entry @param {number} at */
function row({ icon: picture, text, meta, words }, at) {
	return h(
		'li',
		{ id: `found-${at}`, role: 'option', 'data-at': at, 'data-testid': 'found', 'aria-selected': 'false' },
		icon(picture),
		h('span', { class: 'found-text', dir: 'auto' }, ...(words ? marked(text, words) : [text])),
		meta && h('span', { class: 'found-meta' }, meta),
	);
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
