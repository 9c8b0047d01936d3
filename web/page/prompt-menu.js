/**
 * A menu above the prompt box, for the text being typed: arrows choose, Enter or Tab takes, Escape closes it until other text
 * is begun. Its users decide when it opens, with which entries, and what taking one does.
 */
import { h } from './dom.js';

/**
 * @typedef {object} Kind
 * @property {string} name of its elements @property {string} label
 * @property {(count: number) => string} count in words
 * @property {(entry: any, id: string) => HTMLElement} optionOf
 * @property {(entry: any) => void} take
 * @property {(entry: any) => boolean} isWhole it is typed already, and Enter sends
 */

export class PromptMenu {
	#kind;
	/** @type {HTMLTextAreaElement} */
	#box;
	#list;
	#count = h('p', { class: 'sr-only', role: 'status' });
	/** @type {readonly any[]} */
	#offered = [];
	#active = 0;
	/** Closed by hand: what was being typed. @type {string | null} */
	#dismissed = null;
	/** What is being typed. @type {string | null} */
	#begun = null;

	/** @param {HTMLFormElement} form with the prompt box @param {Kind} kind */
	constructor(form, kind) {
		this.#kind = kind;
		this.#box = /** @type {HTMLTextAreaElement} */ (form.querySelector('textarea'));
		this.#list = h('div', { id: kind.name, class: 'commands', role: 'listbox', 'aria-label': kind.label, 'data-testid': kind.name, hidden: true });
		this.#box.setAttribute('aria-autocomplete', 'list');
		form.append(this.#list, this.#count);
		// Before the box's own listener, which sends with Enter.
		form.addEventListener('keydown', (event) => this.#handleKey(event), true);
		form.addEventListener('submit', () => this.close());
		this.#box.addEventListener('blur', () => this.close());
		this.#list.addEventListener('pointerdown', (/** @type {Event} */ event) => event.preventDefault()); // the focus stays in the box
		this.#list.addEventListener('click', (/** @type {any} */ event) => {
			const index = [...this.#list.children].indexOf(event.target.closest('[role="option"]'));
			if (index >= 0) {
				this.#kind.take(this.#offered[index]);
			}
		});
	}

	/**
	 * Called while typing; null: nothing that a menu is for. `begun` tells one text from the next, for Escape.
	 * @param {string | null} begun @returns {boolean} whether a menu is wanted
	 */
	begin(begun) {
		this.#begun = begun;
		this.#dismissed = begun === this.#dismissed ? begun : null;
		const isWanted = begun !== null && this.#dismissed === null && document.activeElement === this.#box;
		if (!isWanted) {
			this.close();
		}
		return isWanted;
	}

	/** @param {readonly any[]} entries none closes it */
	offer(entries) {
		if (entries.length === 0) {
			this.close();
			return;
		}
		if (entries.length === this.#offered.length && entries.every((entry, i) => entry === this.#offered[i])) {
			return;
		}
		this.#offered = entries;
		this.#list.replaceChildren(...entries.map((entry, i) => this.#kind.optionOf(entry, `${this.#kind.name}-${i}`)));
		this.#count.textContent = this.#kind.count(entries.length);
		this.#list.hidden = false;
		this.#list.scrollTop = 0;
		this.#box.setAttribute('aria-controls', this.#kind.name);
		this.#activate(0);
	}

	close() {
		if (!this.#list.hidden) {
			this.#box.removeAttribute('aria-activedescendant');
		}
		this.#offered = [];
		this.#list.hidden = true;
		this.#list.replaceChildren();
		this.#count.textContent = '';
	}

	#activate(/** @type {number} */ index) {
		const count = this.#offered.length;
		this.#active = (index + count) % count;
		[...this.#list.children].forEach((option, i) => option.setAttribute('aria-selected', String(i === this.#active)));
		const option = this.#list.children[this.#active];
		option.scrollIntoView({ block: 'nearest' });
		this.#box.setAttribute('aria-activedescendant', option.id);
	}

	#handleKey(/** @type {KeyboardEvent} */ event) {
		const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
		if (this.#list.hidden || event.target !== this.#box || !isPlain || event.shiftKey) {
			return;
		}
		const active = this.#offered[this.#active];
		if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
			this.#activate(this.#active + (event.key === 'ArrowDown' ? 1 : -1));
		} else if (event.key === 'Escape') {
			this.#dismissed = this.#begun;
			this.close();
		} else if (event.key === 'Tab' || (event.key === 'Enter' && !this.#kind.isWhole(active))) {
			this.#kind.take(active);
		} else {
			return; // with Enter: typed in full, so it is sent
		}
		event.preventDefault();
		event.stopPropagation();
	}
}

/** Puts a text in place of a part of the box's, as if it had been typed. @param {HTMLTextAreaElement} box @param {number} from @param {number} to @param {string} text */
export function putText(box, from, to, text) {
	box.focus();
	box.setRangeText(text, from, to, 'end');
	box.dispatchEvent(new Event('input', { bubbles: true }));
}
