/** Keeps a draft for each session: the text of the prompt box, until the session is opened again. For this tab only. */
import { readTab, writeTab } from './tab.js';

const PREFIX = 'holdfast draft ';
const LENGTH_MAX = 100_000;

export class Drafts {
	#box;
	/** undefined: none was opened yet. @type {string | null | undefined} */
	#session = undefined;

	/** @param {HTMLTextAreaElement} box */
	constructor(box) {
		this.#box = box;
		box.addEventListener('input', () => this.save());
	}

	/** The session whose draft the box shows from now on; null: that of a new one. @param {string | null} id */
	open(id) {
		if (this.#session !== id) {
			this.save();
			this.#session = id;
			this.#box.value = readTab(this.#key) ?? '';
			this.#box.dispatchEvent(new Event('input'));
		}
	}

	/** The new session has got this id: the box stays as it is. @param {string} id */
	adopt(id) {
		const text = this.#box.value;
		this.#box.value = '';
		this.save(); // the new session has no draft now
		this.#session = id;
		this.#box.value = text;
		this.save();
	}

	/** A text for a session that is not the one shown, unless there is a draft. @param {string} id @param {string} text */
	leave(id, text) {
		if (!readTab(PREFIX + id)) {
			writeTab(PREFIX + id, text);
		}
	}

	save() {
		const text = this.#box.value;
		if (this.#session !== undefined) {
			writeTab(this.#key, text && text.length <= LENGTH_MAX ? text : null);
		}
	}

	get #key() {
		return `${PREFIX}${this.#session ?? ''}`;
	}
}
