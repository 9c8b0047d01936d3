/**
 * A text box for a directory, with completion. It offers the directories below, and those that begin with the typed text.
 * Arrows choose; Enter or Tab takes one and opens it in turn; another Enter is done; Escape undoes everything.
 */
import { h, icon, visible } from './dom.js';

/** @typedef {{path: string, isUp: boolean}} Choice */

/** @param {string} path */
const parentOf = (path) => path.slice(0, Math.max(1, path.lastIndexOf('/')));
/** @param {string} path */
const trim = (path) => path.trim().replace(/(?!^)\/+$/, '');
/** @param {string} path */
const inside = (path) => (path === '/' ? path : `${path}/`);
/** @param {string} path */
const isWhole = (path) => /^[/~]/.test(path);

export class DirectoryBox {
	#find;
	#changed;
	#done;
	#input = h('input', {
		id: 'directory',
		class: 'directory-input',
		type: 'text',
		role: 'combobox',
		'aria-autocomplete': 'list',
		'aria-expanded': 'false',
		'aria-controls': 'directories',
		'data-testid': 'directory',
		autocomplete: 'off',
		autocapitalize: 'off',
		spellcheck: 'false',
		enterkeyhint: 'done',
	});
	#list = h('div', { id: 'directories', role: 'listbox', 'aria-label': 'Directories' });
	#words = h('p', { role: 'status' });
	#popup = h('div', { class: 'directories', 'data-testid': 'directories', hidden: true }, this.#list, this.#words);
	element = h(
		'div',
		{ class: 'directory' },
		h('label', { class: 'choice-field', title: 'The directory that the agent works in' }, icon('folder'), h('span', { class: 'sr-only' }, 'Directory'), this.#input),
		this.#popup,
	);
	/** @type {readonly string[]} */
	#roots = [];
	/** @type {Choice[]} */
	#choices = [];
	#active = -1;
	/** The text that Escape restores. */
	#before = '';
	/** How the offered paths begin; null: closed. @type {string | null} */
	#wanted = null;
	#isAsking = false;

	/**
	 * @param {{find: (path: string) => Promise<{directories: string[], has_more: boolean}>, changed: () => void, done: () => void}} handlers
	 * find: directories whose path begins so; done: Enter with nothing left to take
	 */
	constructor({ find, changed, done }) {
		this.#find = find;
		this.#changed = changed;
		this.#done = done;
		const input = this.#input;
		input.addEventListener('focus', () => this.#begin());
		input.addEventListener('click', () => this.#wanted ?? this.#open(inside(this.value)));
		input.addEventListener('input', () => this.#open(input.value.trim()));
		input.addEventListener('blur', () => this.#leave());
		input.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => this.#handleKey(event));
		this.#popup.addEventListener('pointerdown', (/** @type {Event} */ event) => event.preventDefault()); // the focus stays in the box
		this.#list.addEventListener('click', ({ target }) => {
			const at = [...this.#list.children].indexOf(target.closest('[role="option"]'));
			if (at >= 0) {
				this.#take(at);
			}
		});
	}

	get value() {
		const text = trim(this.#input.value);
		const [root = ''] = this.#roots;
		return text === '' ? root : isWhole(text) ? text : inside(root) + text;
	}

	/** Completes a text; a mere name is searched for below the previous directory, then below the roots. @param {string} text */
	async #look(text) {
		if (text === '' || isWhole(text)) {
			return this.#find(text);
		}
		let found = { directories: /** @type {string[]} */ ([]), has_more: false };
		for (const place of new Set([this.#before, ...this.#roots])) {
			found = await this.#find(inside(place) + text);
			if (found.directories.length > 0) {
				break;
			}
		}
		return found;
	}

	/** @param {readonly string[]} roots of the agent @param {string} path */
	set(roots, path) {
		this.#roots = roots;
		this.#put(path);
	}

	focus() {
		this.#input.focus();
	}

	#put(/** @type {string} */ path) {
		this.#input.value = path;
		this.#input.title = visible(path);
		this.#input.scrollLeft = this.#input.scrollWidth; // the end matters more
	}

	#begin() {
		this.#before = this.value;
		this.#input.select();
		this.#open(inside(this.value));
	}

	#leave() {
		this.#close();
		this.#put(this.value);
		this.#changed();
	}

	/** @param {string} wanted */
	#open(wanted) {
		this.#wanted = wanted;
		void this.#ask();
	}

	#close() {
		this.#wanted = null;
		this.#popup.hidden = true;
		this.#input.setAttribute('aria-expanded', 'false');
		this.#input.removeAttribute('aria-activedescendant');
		this.#choices = [];
		this.#active = -1;
	}

	/** One request at a time; what is typed meanwhile is the next. */
	async #ask() {
		if (this.#isAsking) {
			return;
		}
		this.#isAsking = true;
		let wanted;
		let found;
		do {
			wanted = this.#wanted;
			found = await this.#look(wanted ?? '').catch((error) => ({ directories: [], has_more: false, fault: String(error?.message ?? error) }));
		} while (this.#wanted !== null && this.#wanted !== wanted);
		this.#isAsking = false;
		if (this.#wanted !== null) {
			this.#show(found);
		}
	}

	/** @param {{directories: string[], has_more: boolean, fault?: string}} found */
	#show({ directories, has_more: hasMore, fault }) {
		const here = this.value;
		const isTyping = this.#wanted !== inside(here);
		const isRoot = this.#roots.includes(here);
		const others = isTyping ? [] : isRoot ? this.#roots.filter((root) => root !== here) : [parentOf(here)];
		const isBelow = isRoot || this.#roots.some((root) => here.startsWith(inside(root)));
		const above = isTyping || isBelow ? others : this.#roots;
		this.#choices = [
			...above.map((path) => ({ path, isUp: !isTyping && !isRoot && isBelow })),
			...directories.filter((path) => !above.includes(path)).map((path) => ({ path, isUp: false })),
		];
		this.#list.replaceChildren(...this.#choices.map(optionOf));
		this.#list.hidden = this.#choices.length === 0;
		const count = directories.length;
		const some = `${count}${hasMore ? ' or more' : ''} ${count === 1 && !hasMore ? 'directory' : 'directories'}`;
		const none = isTyping ? 'No directory begins so' : 'No directories below';
		this.#words.textContent = fault ?? (count === 0 ? none : hasMore ? `${some}: type to find the others` : some);
		this.#words.classList.toggle('sr-only', !fault && count > 0 && !hasMore);
		this.#popup.hidden = false;
		this.#input.setAttribute('aria-expanded', 'true');
		this.#list.scrollTop = 0;
		this.#activate(isTyping && count > 0 ? 0 : -1);
	}

	#activate(/** @type {number} */ at) {
		this.#active = at;
		[...this.#list.children].forEach((option, i) => option.setAttribute('aria-selected', String(i === at)));
		const option = this.#list.children[at];
		option?.scrollIntoView({ block: 'nearest' });
		if (option) {
			this.#input.setAttribute('aria-activedescendant', option.id);
		} else {
			this.#input.removeAttribute('aria-activedescendant');
		}
	}

	#take(/** @type {number} */ at) {
		this.#put(this.#choices[at].path);
		this.#changed();
		this.#open(inside(this.value));
	}

	#move(/** @type {number} */ by) {
		const count = this.#choices.length;
		if (this.#wanted === null) {
			this.#open(inside(this.value));
		} else if (count > 0) {
			const from = this.#active < 0 && by < 0 ? 0 : this.#active;
			this.#activate((from + by + count) % count);
		}
	}

	#handleKey(/** @type {KeyboardEvent} */ event) {
		if (event.ctrlKey || event.metaKey || event.shiftKey) {
			return;
		}
		const isOpen = this.#wanted !== null;
		if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
			this.#move(event.key === 'ArrowDown' ? 1 : -1);
		} else if ((event.key === 'Enter' || event.key === 'Tab') && this.#active >= 0) {
			this.#take(this.#active);
		} else if (event.key === 'Enter') {
			this.#done();
		} else if (event.key === 'Escape' && isOpen) {
			this.#put(this.#before);
			this.#changed();
			this.#close();
		} else {
			return;
		}
		event.preventDefault();
		event.stopPropagation();
	}
}

/** @param {Choice} choice @param {number} index */
function optionOf({ path, isUp }, index) {
	const parent = parentOf(path);
	return h(
		'div',
		{ id: `directory-${index}`, role: 'option', 'aria-selected': 'false', title: visible(path) },
		icon(isUp ? 'up' : 'folder'),
		isUp && 'Up to ',
		h('span', { class: 'directory-parent' }, h('bdi', {}, visible(path === parent ? '' : inside(parent)))),
		h('span', { class: 'directory-name' }, visible(path === parent ? path : path.slice(inside(parent).length))),
	);
}
