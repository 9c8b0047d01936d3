/** The results of the search dialog (find.js): sessions, commands, and hits in their logs. */
import { search } from '../client/holdfast-client.js';
import { $, h, icon, visible } from './dom.js';
import { filterSessions, sessionTitle } from './session-groups.js';

const WAIT_MS = 250; // after the last key
const LEAST = 2; // characters that are worth asking the server for
const HITS_MAX = 40;
const ANSWERS_MAX = 50; // of one search: about 400 MiB of events
const SESSIONS_MAX = 6;

/** @typedef {{icon: string, text: string, meta?: string, words?: string, run: () => void}} Entry */
/**
 * @typedef {object} Places
 * @property {HTMLDialogElement} dialog @property {HTMLInputElement} box @property {HTMLElement} list @property {HTMLElement} status
 */

/** The text with what was looked for marked. @param {string} text @param {string} words */
function marked(text, words) {
	const [low, wanted] = [text.toLowerCase(), words.trim().toLowerCase()];
	const at = low.length === text.length && wanted ? low.indexOf(wanted) : -1;
	return at < 0 ? [text] : [text.slice(0, at), h('mark', {}, text.slice(at, at + wanted.length)), text.slice(at + wanted.length)];
}

export class FindResults {
	#page;
	#places;
	/** @type {Entry[]} */
	#entries = [];
	/** Hits of the server: in this session, and in the others. @type {[any[], any[]]} */
	#hits = [[], []];
	#at = 0;
	/** @type {AbortController | null} */
	#asking = null;
	#timer = 0;

	/**
	 * @param {Places} places
	 * @param {import('./find.js').Page & {go: (id: string, seq?: number) => void, toStart: () => void, timeOf: (ts: number) => string}} page
	 */
	constructor(places, page) {
		this.#places = places;
		this.#page = page;
		const { dialog, box, list } = places;
		box.addEventListener('input', () => this.ask());
		box.addEventListener('keydown', (event) => this.#handleKey(event));
		list.addEventListener('click', (/** @type {any} */ { target }) => {
			const row = target.closest('[data-at]');
			if (row) {
				this.#choose(Number(row.dataset.at));
			}
		});
		dialog.addEventListener('close', () => this.#stop());
	}

	/** @param {KeyboardEvent} event */
	#handleKey(event) {
		const count = this.#entries.length;
		const to = { ArrowDown: this.#at + 1, ArrowUp: this.#at - 1 }[event.key];
		if (to !== undefined && count > 0) {
			event.preventDefault();
			this.#at = (to + count) % count;
			this.#mark();
		} else if (event.key === 'Enter') {
			event.preventDefault();
			this.#choose(this.#at);
		}
	}

	/** @param {number} at */
	#choose(at) {
		const entry = this.#entries[at];
		if (entry) {
			this.#places.dialog.close();
			entry.run();
		}
	}

	#stop() {
		this.#asking?.abort();
		this.#asking = null;
		clearTimeout(this.#timer);
	}

	/** Lists what matches the words in the box. */
	ask() {
		this.#stop();
		this.#hits = [[], []];
		this.#at = 0;
		const words = this.#places.box.value.trim();
		this.#places.status.textContent = words.length < LEAST ? '' : 'Searching…';
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
			this.#places.status.textContent = this.#entries.length === 0 ? 'Nothing found.' : '';
		} catch (error) {
			if (!asking.signal.aborted) {
				this.#places.status.textContent = `The search did not work. ${error instanceof Error ? error.message : ''}`;
			}
		}
	}

	/** @param {0 | 1} where @param {string} words @param {object} options @param {(hit: any) => boolean} wanted */
	async #collect(where, words, options, wanted = () => true) {
		let answers = 0;
		for await (const hits of search(words, options)) {
			const kept = this.#hits[where];
			for (const hit of hits.filter(wanted)) {
				if (kept.length < HITS_MAX && !kept.some((one) => isSame(one, hit))) {
					kept.push(hit);
				}
			}
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
			this.#page.client() !== null && { icon: 'chevron', text: 'Go to the start of this session', meta: 'Home', run: () => this.#page.toStart() },
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
		const words = this.#places.box.value.trim();
		const sessions = this.#page.sessions();
		const titles = new Map(sessions.map((session) => [session.id, sessionTitle(session)]));
		const here = this.#page.client()?.sessionId ?? '';
		const hit = (/** @type {any} */ { session_id: id = here, seq, ts, snippet }) => ({
			icon: 'search', text: visible(snippet), words, meta: id === here ? this.#page.timeOf(ts) : `${titles.get(id) ?? id} · ${this.#page.timeOf(ts)}`, run: () => this.#page.go(id, seq),
		});
		/** @type {[string, Entry[]][]} */
		const sections = [
			['Sessions', filterSessions(sessions, words).slice(0, SESSIONS_MAX).map((session) => ({ icon: 'open', text: sessionTitle(session), words, run: () => this.#page.go(session.id) }))],
			['Commands', this.#commands(words)],
			['In this session', this.#hits[0].map(hit)],
			['In other sessions', this.#hits[1].map(hit)],
		];
		this.#entries = sections.flatMap(([, entries]) => entries);
		let at = 0;
		this.#places.list.replaceChildren(
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
		if (this.#entries.length === 0) {
			this.#places.box.removeAttribute('aria-activedescendant');
		}
		for (const element of this.#places.list.querySelectorAll('[data-at]')) {
			const isIt = element.dataset.at === String(this.#at);
			element.setAttribute('aria-selected', String(isIt));
			if (isIt) {
				this.#places.box.setAttribute('aria-activedescendant', element.id);
				element.scrollIntoView({ block: 'nearest' });
			}
		}
	}}

/** The same words of the same session: some agents send all output of a call again with each line. @param {any} one @param {any} other */
const isSame = (one, other) =>
	[one, other].every(({ type }) => type === 'tool_call_update') && one.session_id === other.session_id && one.snippet === other.snippet;

/** @param {Entry} entry @param {number} at */
function row({ icon: picture, text, meta, words }, at) {
	return h(
		'li',
		{ id: `found-${at}`, role: 'option', 'data-at': at, 'data-testid': 'found', 'aria-selected': 'false' },
		icon(picture),
		h('span', { class: 'found-text', dir: 'auto' }, ...(words ? marked(text, words) : [text])),
		meta && h('bdi', { class: 'found-meta' }, meta),
	);
}
