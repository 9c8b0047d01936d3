/** The agent's slash commands, offered while a prompt begins with "/". It only reads the text of the prompt box. */
import { h, visible } from './dom.js';
import { PromptMenu, putText } from './prompt-menu.js';

const SHOWN_MAX = 50;
const WORDS_MAX = 200;

/** Commands whose name begins with the text, then those that contain it. @param {readonly any[]} commands @param {string} typed */
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
	#menu;

	/** @param {HTMLFormElement} form with the prompt box @param {() => readonly any[]} commands */
	constructor(form, commands) {
		this.#commands = commands;
		this.#box = /** @type {HTMLTextAreaElement} */ (form.querySelector('textarea'));
		this.#menu = new PromptMenu(form, {
			name: 'commands',
			label: 'Agent commands',
			count: (count) => `${count} ${count === 1 ? 'command' : 'commands'}`,
			optionOf,
			take: ({ name }) => putText(this.#box, 0, this.#box.value.length, `/${name} `),
			isWhole: ({ name }) => this.#box.value === `/${name}`,
		});
		this.#box.addEventListener('input', () => this.update());
		this.#box.addEventListener('focus', () => this.update());
	}

	/** Offers the commands that match the text. */
	update() {
		const typed = /^\/(\S*)$/.exec(this.#box.value)?.[1];
		if (this.#menu.begin(typed === undefined ? null : '/')) {
			this.#menu.offer(matching(this.#commands(), typed ?? ''));
		}
	}
}

/** @param {any} command @param {string} id */
function optionOf({ name, description, input }, id) {
	const hint = typeof input?.hint === 'string' ? visible(input.hint).slice(0, WORDS_MAX) : '';
	return h(
		'div',
		{ id, role: 'option', 'aria-selected': 'false' },
		h('span', { class: 'command-name' }, `/${visible(name)}`),
		hint && h('span', { class: 'command-hint' }, hint),
		h('span', { class: 'command-words' }, visible(description ?? '').slice(0, WORDS_MAX)),
	);
}
