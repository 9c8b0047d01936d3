/**
 * Files below the session's directory, offered while a word after "@" is typed. A chosen file goes with the prompt as a link if its
 * text still has it when sent; the agent reads the file itself.
 */
import { completeFiles } from '../client/holdfast-client.js';
import { h, icon, visible } from './dom.js';
import { PromptMenu, putText } from './prompt-menu.js';

const SHOWN_MAX = 50;
const LINKS_MAX = 20; // of one prompt
const TAKEN_MAX = 200;

/** The word with "@" before the caret, and where it begins. @param {HTMLTextAreaElement} box */
function wordAt({ value, selectionStart: at, selectionEnd }) {
	const typed = at === selectionEnd ? /(?:^|\s)@([^\s@]*)$/.exec(value.slice(0, at))?.[1] : undefined;
	return typed === undefined ? null : { typed, from: at - typed.length - 1 };
}

export class FileMenu {
	/** @type {HTMLTextAreaElement} */
	#box;
	#menu;
	#session;
	/** @type {AbortController | null} */
	#asking = null;
	/** Chosen files by their words in the text: their session, and the address of each. @type {Map<string, {place: string, name: string, uri: string}>} */
	#taken = new Map();
	#cwd = '';

	/** @param {HTMLFormElement} form with the prompt box @param {() => string | {agent?: string, cwd?: string} | null} session whose files are meant, also one to be made; null: of none */
	constructor(form, session) {
		this.#session = session;
		this.#box = /** @type {HTMLTextAreaElement} */ (form.querySelector('textarea'));
		this.#menu = new PromptMenu(form, {
			name: 'files',
			label: 'Files',
			count: (count) => `${count} ${count === 1 ? 'file' : 'files'}`,
			optionOf,
			take: (path) => this.#take(path),
			isWhole: () => false, // choosing it makes it a link
		});
		this.#box.addEventListener('input', () => void this.#update());
		this.#box.addEventListener('blur', () => this.#asking?.abort());
	}

	/** The files that a text names, as prompt blocks. @param {string} message @returns {any[]} */
	linksIn(message) {
		const here = JSON.stringify(this.#session());
		const words = [...this.#taken].filter(([text, { place }]) => place === here && message.includes(text));
		// Of "@a" and "@a.c", only the longer one counts.
		const stands = (/** @type {string} */ text) => words.filter(([other]) => other !== text && other.startsWith(text)).reduce((left, [other]) => left.replaceAll(other, ''), message).includes(text);
		return words.filter(([text]) => stands(text)).slice(0, LINKS_MAX).map(([, { name, uri }]) => ({ type: 'resource_link', name, uri }));
	}

	async #update() {
		this.#asking?.abort();
		const [session, word] = [this.#session(), wordAt(this.#box)];
		if (!this.#menu.begin(word && session && `${JSON.stringify(session)} ${word.from}`) || !session || !word) {
			return;
		}
		const asking = new AbortController();
		this.#asking = asking;
		try {
			const { cwd = '', files } = await completeFiles(session, word.typed, { limit: SHOWN_MAX, signal: asking.signal });
			if (!asking.signal.aborted) {
				this.#cwd = cwd;
				this.#menu.offer(files);
			}
		} catch {
			if (!asking.signal.aborted) {
				this.#menu.close(); // a session without files, or no connection: what is typed is text
			}
		}
	}

	/** Taking a directory offers its contents next. @param {string} path */
	#take(path) {
		const { from } = wordAt(this.#box) ?? { from: this.#box.selectionStart };
		const isDirectory = path.endsWith('/');
		if (!isDirectory && this.#cwd) {
			const whole = `${this.#cwd === '/' ? '' : this.#cwd}/${path}`;
			this.#taken.delete(`@${path}`);
			this.#taken.set(`@${path}`, { place: JSON.stringify(this.#session()), name: path.split('/').pop() ?? path, uri: `file://${whole.split('/').map(encodeURIComponent).join('/')}` });
			[...this.#taken.keys()].slice(0, -TAKEN_MAX).forEach((oldest) => this.#taken.delete(oldest));
		}
		putText(this.#box, from, this.#box.selectionEnd, `@${path}${isDirectory ? '' : ' '}`);
	}
}

/** @param {string} path @param {string} id */
function optionOf(path, id) {
	const isDirectory = path.endsWith('/');
	const at = path.lastIndexOf('/', path.length - 2) + 1;
	return h(
		'div',
		{ id, role: 'option', 'aria-selected': 'false', title: visible(path) },
		icon(isDirectory ? 'folder' : 'read'),
		h('span', { class: 'file-name', dir: 'ltr' }, h('bdi', {}, visible(path.slice(at)))),
		h('span', { class: 'file-place', dir: 'ltr' }, h('bdi', {}, visible(path.slice(0, at)))),
	);
}
