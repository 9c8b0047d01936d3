/** The menu of a session in the list: one for each row. Arrows choose, Escape closes. */
import { h, icon } from './dom.js';
import { may } from './rights.js';

/** @typedef {'rename' | 'pin' | 'archive' | 'delete'} SessionAction */

/** @param {any} session @returns {[SessionAction, string, string, 'label' | 'delete'][]} action, icon, words, right */
const ENTRIES = ({ pinned, archived }) => [
	['rename', 'edit', 'Rename', 'label'],
	['pin', 'pin', pinned ? 'Unpin' : 'Pin', 'label'],
	['archive', 'archive', archived ? 'Take out of the archive' : 'Archive', 'label'],
	['delete', 'trash', 'Delete', 'delete'],
];

const GAP_PX = 4;

export class SessionMenu {
	#element = h('div', {
		class: 'session-menu',
		role: 'menu',
		'data-testid': 'session-menu-list',
		popover: 'auto',
	});
	#choose;
	/** @type {any} */
	#session = null;
	/** @type {HTMLElement | null} */
	#opener = null;

	/** @param {(action: SessionAction, session: any, opener: HTMLElement) => void} choose */
	constructor(choose) {
		this.#choose = choose;
		document.body.append(this.#element);
		this.#element.addEventListener('click', ({ target }) => this.#take(target));
		this.#element.addEventListener('keydown', (event) => this.#handleKey(event));
		this.#element.addEventListener('toggle', (event) => {
			const isOpen = /** @type {any} */ (event).newState === 'open';
			this.#opener?.setAttribute('aria-expanded', String(isOpen));
			if (!isOpen && this.#element.contains(document.activeElement)) {
				this.#opener?.focus();
			}
		});
	}

	/** Whether it has an entry that this login allows. */
	static get isOffered() {
		return may('label') || may('delete');
	}

	/** @param {any} session @param {HTMLElement} opener the button that it belongs to */
	show(session, opener) {
		this.#session = session;
		this.#opener = opener;
		this.#element.replaceChildren(
			...ENTRIES(session)
				.filter(([, , , right]) => may(right))
				.map(([action, picture, words]) =>
					h(
						'button',
						{
							type: 'button',
							role: 'menuitem',
							'data-action': action,
							'data-testid': `${action}-session`,
						},
						icon(picture),
						words,
					),
				),
		);
		this.#element.showPopover();
		const { right, top, bottom } = opener.getBoundingClientRect();
		const { offsetWidth: width, offsetHeight: height } = this.#element;
		const below = bottom + GAP_PX;
		this.#element.style.left = `${Math.max(GAP_PX, Math.min(right - 28, innerWidth - width - GAP_PX))}px`;
		this.#element.style.top = `${below + height > innerHeight ? Math.max(GAP_PX, top - height - GAP_PX) : below}px`;
		this.#entries[0]?.focus();
	}

	get #entries() {
		return /** @type {HTMLElement[]} */ ([...this.#element.children]);
	}

	#take(/** @type {EventTarget | null} */ target) {
		const entry = /** @type {HTMLElement} */ (target).closest('button');
		const opener = this.#opener;
		if (entry && opener) {
			this.#element.hidePopover();
			this.#choose(
				/** @type {SessionAction} */ (entry.dataset.action),
				this.#session,
				opener,
			);
		}
	}

	#handleKey(/** @type {KeyboardEvent} */ event) {
		const entries = this.#entries;
		const at = entries.indexOf(/** @type {HTMLElement} */ (document.activeElement));
		/** @type {Record<string, number>} */
		const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: entries.length - 1 };
		if (Object.hasOwn(to, event.key)) {
			event.preventDefault();
			entries.at(to[event.key] % entries.length)?.focus();
		} else if (event.key === 'Tab') {
			this.#element.hidePopover();
		}
	}
}
