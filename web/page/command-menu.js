/**
 * The agent's slash commands, offered while a prompt begins with "/": arrows choose, Enter or Tab takes,
 * Escape closes. It reads the prompt box's text and nothing else of it.
 */
import { h, visible } from './dom.js';

const SHOWN_MAX = 50;
const WORDS_MAX = 200;

/** Those whose name begins so, then those that have it within. @param {readonly any[]} commands @param {string} typed */
function matching(commands, typed) {
	const begun = typed.toLowerCase();
	const rank = (/** @type {any} */ { name }) => name.toLowerCase().indexOf(begun);
	const found = commands.filter((command) => rank(command) >= 0);
	const first = found.filter((command) => rank(command) === 0);
	return [...first, ...found.filter((command) => rank(command) > 0)].slice(0, SHOWN_MAX);
}

export class CommandMenu {
	#commands;
	/** @type {HTMLTextAreaElement} */
	#box;
	#list = h('div', {
		id: 'commands',
		class: 'commands',
		role: 'listbox',
		'aria-label': 'Agent commands',
		'data-testid': 'commands',
		hidden: true,
	});
	#count = h('p', { class: 'sr-only', role: 'status' });
	/** @type {any[]} the commands offered */
	#offered = [];
	#active = 0;
	/** Closed by hand: until another text is begun. */
	#isDismissed = false;

	/** @param {HTMLFormElement} form with the prompt box @param {() => readonly any[]} commands */
	constructor(form, commands) {
		this.#commands = commands;
		this.#box = /** @type {HTMLTextAreaElement} */ (form.querySelector('textarea'));
		this.#box.setAttribute('aria-autocomplete', 'list');
		this.#box.setAttribute('aria-controls', 'commands');
		form.append(this.#list, this.#count);
		// Before the box's own listener, which sends with Enter.
		form.addEventListener('keydown', (event) => this.#handleKey(event), true);
		form.addEventListener('submit', () => this.#close());
		this.#box.addEventListener('input', () => this.update());
		this.#box.addEventListener('focus', () => this.update());
		this.#box.addEventListener('blur', () => this.#close());
		this.#list.addEventListener(
			'pointerdown',
			(/** @type {Event} */ event) => event.preventDefault(), // the focus stays in the box
		);
		this.#list.addEventListener('click', (/** @type {any} */ event) => {
			const index = [...this.#list.children].indexOf(event.target.closest('[role="option"]'));
			if (index >= 0) {
				this.#take(index);
			}
		});
	}

	/** Offers the commands that match the text. */
	update() {
		const typed = /^\/(\S*)$/.exec(this.#box.value)?.[1];
		this.#isDismissed = this.#isDismissed && typed !== undefined;
		const isWanted =
			typed !== undefined && !this.#isDismissed && document.activeElement === this.#box;
		const offered = isWanted ? matching(this.#commands(), typed) : [];
		if (offered.length === 0) {
			this.#close();
			return;
		}
		const isSame =
			offered.length === this.#offered.length &&
			offered.every((command, i) => command === this.#offered[i]);
		if (!isSame) {
			this.#offered = offered;
			this.#list.replaceChildren(...offered.map(optionOf));
			this.#count.textContent = `${offered.length} ${offered.length === 1 ? 'command' : 'commands'}`;
			this.#list.hidden = false;
			this.#activate(0);
		}
	}

	#close() {
		this.#offered = [];
		this.#list.hidden = true;
		this.#list.replaceChildren();
		this.#count.textContent = '';
		this.#box.removeAttribute('aria-activedescendant');
	}

	#activate(/** @type {number} */ index) {
		const count = this.#offered.length;
		this.#active = (index + count) % count;
		[...this.#list.children].forEach((option, i) =>
			option.setAttribute('aria-selected', String(i === this.#active)),
		);
		const option = this.#list.children[this.#active];
		option.scrollIntoView({ block: 'nearest' });
		this.#box.setAttribute('aria-activedescendant', option.id);
	}

	#take(/** @type {number} */ index) {
		this.#box.value = `/${this.#offered[index].name} `;
		this.#box.dispatchEvent(new Event('input', { bubbles: true }));
		this.#box.focus();
	}

	#handleKey(/** @type {KeyboardEvent} */ event) {
		const isPlain = !event.isComposing && !event.ctrlKey && !event.metaKey && !event.altKey;
		if (this.#list.hidden || event.target !== this.#box || !isPlain || event.shiftKey) {
			return;
		}
		const isWhole = this.#box.value === `/${this.#offered[this.#active].name}`;
		if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
			this.#activate(this.#active + (event.key === 'ArrowDown' ? 1 : -1));
		} else if (event.key === 'Escape') {
			this.#isDismissed = true;
			this.#close();
		} else if (event.key === 'Tab' || (event.key === 'Enter' && !isWhole)) {
			this.#take(this.#active);
		} else {
			return; // of Enter: the command is there as a whole, and is sent
		}
		event.preventDefault();
		event.stopPropagation();
	}
}

/** @param {any} command @param {number} index */
function optionOf({ name, description, input }, index) {
	const hint = typeof input?.hint === 'string' ? visible(input.hint).slice(0, WORDS_MAX) : '';
	return h(
		'div',
		{ id: `command-${index}`, role: 'option', 'aria-selected': 'false' },
		h('span', { class: 'command-name' }, `/${visible(name)}`),
		hint && h('span', { class: 'command-hint' }, hint),
		h('span', { class: 'command-words' }, visible(description ?? '').slice(0, WORDS_MAX)),
	);
}
