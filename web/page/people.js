/** The people in the session: how many, who, and what they may do; and the name of this browser's person. Asks only while the page is visible. */
import { h, icon, visible } from './dom.js';
import { isUs, loginName, nameOf, noteNames, roleWord, setMyName } from './rights.js';

const NAME = 'holdfast-name ';
const NAME_BYTES = 64;
/** What the server refuses in a name. */
const REFUSED = /[\p{Cc}\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb\u034f\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0\u{e0000}-\u{e0fff}]/gu;

/** @typedef {import('../client/holdfast-client.js').HoldfastClient} HoldfastClient */

/** A name as the server accepts it; empty: none. @param {string} text */
function cleanName(text) {
	let name = text.replace(/\s+/gu, ' ').replace(REFUSED, '').trim();
	while (new TextEncoder().encode(name).length > NAME_BYTES) {
		name = [...name].slice(0, -1).join('').trim();
	}
	return /[^\s\u200c\u200d]/u.test(name) ? name.replace(/^[\u200c\u200d]+|[\u200c\u200d]+$/gu, '') : '';
}

/** The name for this login: another person at this browser has another. */
function readName() {
	try {
		return localStorage.getItem(NAME + loginName()) ?? '';
	} catch {
		return ''; // some browsers have storage disabled
	}
}

/** @param {string} name */
function keepName(name) {
	try {
		if (name) {
			localStorage.setItem(NAME + loginName(), name);
		} else {
			localStorage.removeItem(NAME + loginName());
		}
	} catch {
		// it counts until the page is loaded again
	}
}

export class People {
	#button;
	#count = h('span', {});
	#list = h('ul', { class: 'people', 'data-testid': 'people-list' });
	#head = h('h2', {});
	#box = h('input', { id: 'my-name', class: 'rename-box', maxlength: NAME_BYTES, autocomplete: 'off', dir: 'auto', 'data-testid': 'my-name' });
	#changed;
	/** @type {HoldfastClient | null} */
	#client = null;
	#name = '';

	/** @param {{button: HTMLElement, panel: HTMLElement}} elements @param {() => void} changed somebody's name is known now */
	constructor({ button, panel }, changed) {
		this.#button = button;
		this.#changed = changed;
		button.append(icon('user'), this.#count);
		const form = h('form', { autocomplete: 'off' }, h('label', { for: 'my-name' }, 'Your name, for the others here'), this.#box, h('button', { class: 'button small', 'data-testid': 'keep-name' }, 'Keep'));
		panel.append(this.#head, this.#list, form);
		form.addEventListener('submit', (/** @type {Event} */ event) => {
			event.preventDefault();
			this.#rename(cleanName(this.#box.value));
			/** @type {any} */ (panel).hidePopover();
		});
		panel.addEventListener('toggle', () => this.#render());
		document.addEventListener('visibilitychange', () => this.#client?.watchPresence(!document.hidden));
	}

	/** The session that is shown from now on. @param {HoldfastClient | null} client */
	open(client) {
		this.#client = client;
		this.#name = readName();
		setMyName(this.#name);
		if (client) {
			client.setName(this.#name || null);
			client.watchPresence(!document.hidden);
			client.on('presence', () => client === this.#client && this.#render());
		}
		this.#render();
	}

	/** @param {string} name */
	#rename(name) {
		this.#name = name;
		setMyName(name);
		keepName(name);
		this.#client?.setName(name || null);
	}

	#render() {
		const presence = this.#client?.presence ?? null;
		const people = presence?.people ?? [];
		const isNews = noteNames(people);
		const count = presence?.more ? presence.count : people.length;
		this.#button.hidden = presence === null;
		this.#button.classList.toggle('alone', count < 2);
		this.#count.textContent = String(count);
		this.#button.setAttribute('aria-label', `${count} here`);
		this.#button.title = people.length > 0 ? people.slice(0, 5).map((one) => this.#nameOf(one)).join(', ') : `${count} here`;
		this.#head.textContent = `${count} here`;
		const others = presence ? presence.count - people.length : 0;
		this.#list.replaceChildren(
			...people.map((one) => h('li', {}, h('bdi', { title: one.client_id }, this.#nameOf(one)), h('span', { class: 'muted' }, roleWord(one.role)))),
			...(presence?.more ? [h('li', { class: 'muted' }, people.length === 0 ? 'Your token does not show who.' : `and ${others} more connections`)] : []),
		);
		if (document.activeElement !== this.#box) {
			this.#box.value = this.#name;
		}
		if (isNews) {
			this.#changed();
		}
	}

	/** @param {import('../client/holdfast-client.js').Person} person */
	#nameOf({ client_id: client, sub, name }) {
		const isMe = isUs(client, sub, this.#client?.clientId ?? '');
		const words = visible(nameOf(client, sub));
		return isMe ? (name || sub ? `${words} (you)` : 'You') : words;
	}
}
