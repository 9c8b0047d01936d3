/**
 * Which items have an element on the page: those that can be seen and some on both sides, however many
 * there are in all. Empty space above and below has the height of the rest, or a guess at it.
 *
 * Nothing that the reader sees moves: a change above the view is compensated in the space above,
 * and only where that cannot be, by scrolling.
 */
import { h } from './dom.js';
import { highlightIn } from './highlight.js';

const MOUNTED_MAX = 400;
const MOUNTED_KEPT = 280;
const BATCH = 40;
const AHEAD_PX = 1_200;
const GUESS_PX = 48; // an item's height, before one has been seen
const LEAST_PX = 8;
const SEEN_MAX = 8; // elements to hold on to, should the first of them go

/** @typedef {import('../client/holdfast-client.js').Item} Item */

export class ItemWindow {
	#scroller;
	#list;
	#above = h('div', { class: 'room', 'aria-hidden': 'true' });
	#below = h('div', { class: 'room', 'aria-hidden': 'true' });
	#abovePx = 0;
	#belowPx = 0;
	/** @type {Item[]} all there are; the model's own list */
	#items = [];
	#from = 0;
	#to = 0;
	/** @type {Map<Item, HTMLElement>} */
	#elements = new Map();
	#render;
	#end;
	/** @type {{element: Element, top: number} | undefined} */
	#place;

	/**
	 * @param {{scroller: HTMLElement, list: HTMLElement}} places
	 * @param {(item: Item) => HTMLElement} render
	 * @param {() => Element | null} end the element after the last item, if there is one
	 */
	constructor({ scroller, list }, render, end) {
		this.#scroller = scroller;
		this.#list = list;
		this.#render = render;
		this.#end = end;
		list.before(this.#above);
		list.after(this.#below);
		this.clear([]);
	}

	/** @param {Item[]} items the model's own list, which grows */
	clear(items) {
		const guess = this.#guess();
		this.#items = items;
		this.#elements.clear();
		this.#from = items.length;
		this.#to = items.length;
		this.#list.replaceChildren();
		this.#setAbove(this.#from * guess);
		this.#setBelow(0);
	}

	/** True if the last item is on the page, so that open blocks may follow it. */
	get isAtEnd() {
		return this.#to === this.#items.length;
	}

	/** True if the first item that is held is on the page. */
	get isAtStart() {
		return this.#from === 0;
	}

	get mounted() {
		return this.#elements.size;
	}

	/** @param {Item} item @returns {HTMLElement | undefined} nothing if it is not on the page */
	elementOf(item) {
		return this.#elements.get(item);
	}

	/** @param {Element | null} element @returns {Item | undefined} */
	itemOf(element) {
		return [...this.#elements].find(([, candidate]) => candidate === element)?.[0];
	}

	/** @param {Item} item @param {HTMLElement} element shows the item from now on */
	setElement(item, element) {
		this.#elements.set(item, element);
	}

	/** An item was put at the end of the list. @param {Item} item @param {HTMLElement | null} element if there is one already */
	add(item, element = null) {
		if (this.#to < this.#items.length - 1) {
			element?.remove();
			this.#setBelow(this.#belowPx + this.#guess());
			return;
		}
		this.#to += 1;
		if (element) {
			this.#elements.set(item, element);
		} else {
			this.#list.insertBefore(this.#make(item), this.#end());
		}
	}

	/**
	 * Takes a new list, with older items in front. Items that were mounted keep their elements.
	 * @param {Item[]} items
	 */
	replace(items) {
		const atEnd = this.isAtEnd;
		/** @type {Map<string, HTMLElement>} */
		const before = new Map(
			[...this.#elements].map(([item, element]) => [signature(item), element]),
		);
		const stays = (/** @type {Item} */ item) => before.has(signature(item));
		const first = items.findIndex(stays);
		this.keepPlace(() => {
			this.#items = items;
			this.#from = first < 0 ? items.length : first;
			this.#to = first < 0 || atEnd ? items.length : items.findLastIndex(stays) + 1;
			this.#elements = new Map();
			this.#setAbove(this.#from * this.#guess());
			const shown = items.slice(this.#from, this.#to);
			const kept = new Set(shown.map(signature));
			before.forEach((element, shows) => kept.has(shows) || element.remove());
			let place = this.#list.firstChild;
			for (const item of shown) {
				const element = before.get(signature(item)) ?? this.#make(item);
				this.#elements.set(item, element);
				if (element === place) {
					place = place.nextSibling;
				} else {
					this.#list.insertBefore(element, place);
				}
			}
		});
	}

	/** Changes the page without moving anything that the reader sees. @param {() => void} change */
	keepPlace(change) {
		const seen = this.#firstSeen();
		change();
		const anchor = seen.find(({ element }) => element.isConnected);
		const moved = anchor ? anchor.element.getBoundingClientRect().top - anchor.top : 0;
		const room = this.#from === 0 ? 0 : this.#abovePx - moved;
		const before = this.#abovePx;
		this.#setAbove(
			this.#from > 0 && room < this.#from * LEAST_PX ? this.#from * this.#guess() : room,
		);
		const rest = anchor ? moved + this.#abovePx - before : 0;
		if (Math.abs(rest) >= 1) {
			this.#scroller.scrollTop += rest;
		}
	}

	/** Notes the first visible element, for when the page's width changes and lines break elsewhere. */
	notePlace() {
		[this.#place] = this.#firstSeen();
	}

	/** The first item that can be seen, and how far below the view's edge it begins. */
	get first() {
		const edge = this.#scroller.getBoundingClientRect().top;
		for (const { element, top } of this.#firstSeen()) {
			const item = this.itemOf(element);
			if (item) {
				return { item, top: top - edge };
			}
		}
		return undefined;
	}

	/** Scrolls back to the element noted. */
	backToPlace() {
		if (this.#place?.element.isConnected) {
			this.#scroller.scrollTop +=
				this.#place.element.getBoundingClientRect().top - this.#place.top;
		}
	}

	/** The first elements in the view, and where they are. */
	#firstSeen() {
		const edge = this.#scroller.getBoundingClientRect().top;
		const all = this.#list.children;
		let low = 0;
		let high = all.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			let shown = middle;
			while (shown < high && all[shown].clientHeight === 0) {
				shown += 1; // silent items have no place
			}
			if (shown < high && all[shown].getBoundingClientRect().bottom <= edge) {
				low = shown + 1;
			} else {
				high = middle;
			}
		}
		const seen = [];
		for (let i = low; i < all.length && seen.length < SEEN_MAX; i += 1) {
			if (all[i].clientHeight > 0) {
				seen.push({ element: all[i], top: all[i].getBoundingClientRect().top });
			}
		}
		return seen;
	}

	/** Mounts items that are near the view and unmounts those far away. */
	update() {
		const view = this.#scroller.getBoundingClientRect();
		const ahead = Math.max(AHEAD_PX, view.height);
		const list = () => this.#list.getBoundingClientRect();
		if (list().bottom < view.top - ahead || list().top > view.bottom + ahead) {
			this.#jump();
		}
		while (this.#from > 0 && view.top - list().top < ahead && this.mounted < 2 * MOUNTED_MAX) {
			this.#mountAbove();
		}
		while (
			this.#to < this.#items.length &&
			list().bottom - view.bottom < ahead &&
			this.mounted < 2 * MOUNTED_MAX
		) {
			this.#mountBelow();
		}
		this.#trim(view, ahead);
	}

	/** Mounts the end only. */
	showEnd() {
		if (!this.isAtEnd || this.mounted > MOUNTED_MAX) {
			this.clear(this.#items);
			this.#mountAbove();
		}
	}

	/** The element of the item at this index, mounted if it was not. @param {number} index @returns {HTMLElement} */
	show(index) {
		if (index < this.#from || index >= this.#to) {
			const guess = this.#guess();
			this.#dropAll(Math.max(0, Math.min(index - BATCH / 2, this.#items.length - BATCH)));
			this.#setAbove(this.#from * guess);
			this.#setBelow((this.#items.length - this.#to) * guess);
			this.#mountBelow();
		}
		return /** @type {HTMLElement} */ (this.#elements.get(this.#items[index]));
	}

	/** Mounts all, until the next scrolling. */
	mountAll() {
		while (this.#from > 0) {
			this.#mountAbove();
		}
		while (this.#to < this.#items.length) {
			this.#mountBelow();
		}
	}

	/** The reader has dragged the scrollbar to a place without elements. */
	#jump() {
		const view = this.#scroller.getBoundingClientRect();
		const list = this.#list.getBoundingClientRect();
		const start = this.#above.getBoundingClientRect().top;
		const count = this.#items.length;
		const index =
			list.top > view.top
				? (this.#from * (view.top - start)) / this.#abovePx
				: this.#to + ((count - this.#to) * (view.top - list.bottom)) / this.#belowPx;
		const height = this.#abovePx + list.height + this.#belowPx;
		const above = Math.max(0, view.top - start);
		this.#dropAll(Math.min(Math.max(Math.round(index) || 0, 0), Math.max(0, count - BATCH)));
		this.#setAbove(above);
		this.#setBelow(height - above);
		this.#mountBelow();
	}

	#dropAll(/** @type {number} */ index) {
		[...this.#elements].forEach(([item, element]) => this.#unmount(item, element));
		this.#list.replaceChildren();
		this.#from = index;
		this.#to = index;
	}

	#mountAbove() {
		const from = Math.max(0, this.#from - BATCH);
		const made = this.#items.slice(from, this.#from).map((item) => this.#make(item));
		this.keepPlace(() => {
			this.#from = from;
			this.#list.prepend(...made);
		});
	}

	#mountBelow() {
		const to = Math.min(this.#items.length, this.#to + BATCH);
		const made = this.#items.slice(this.#to, to).map((item) => this.#make(item));
		const height = this.#list.offsetHeight;
		this.#to = to;
		this.#list.append(...made);
		this.#setBelow(this.#belowPx - (this.#list.offsetHeight - height));
	}

	#trim(/** @type {DOMRect} */ view, /** @type {number} */ ahead) {
		if (this.mounted <= MOUNTED_MAX) {
			return;
		}
		const list = this.#list.getBoundingClientRect();
		const mounted = this.#items.slice(this.#from, this.#to);
		const isNear = (/** @type {Item} */ item) => {
			const rect = this.#elements.get(item)?.getBoundingClientRect() ?? view;
			return (
				rect.height > 0 && rect.bottom > view.top - ahead && rect.top < view.bottom + ahead
			);
		};
		if (view.top - list.top >= list.bottom - view.bottom) {
			const far = Math.max(mounted.findIndex(isNear), 0);
			const over = mounted.slice(0, Math.min(far, mounted.length - MOUNTED_KEPT));
			this.keepPlace(() => this.#drop(over, 1, 0));
		} else {
			const height = this.#list.offsetHeight;
			this.#drop(
				mounted.slice(Math.max(mounted.findLastIndex(isNear) + 1, MOUNTED_KEPT)),
				0,
				1,
			);
			this.#setBelow(this.#belowPx + height - this.#list.offsetHeight);
		}
	}

	#drop(/** @type {Item[]} */ items, /** @type {number} */ above, /** @type {number} */ below) {
		this.#from += above * items.length;
		this.#to -= below * items.length;
		for (const item of items) {
			this.#unmount(item, /** @type {HTMLElement} */ (this.#elements.get(item)));
		}
	}

	#make(/** @type {Item} */ item) {
		const element = this.#render(item);
		if (item.isOpen !== undefined && element instanceof HTMLDetailsElement) {
			element.open = item.isOpen;
		}
		this.#elements.set(item, element);
		highlightIn(element);
		return element;
	}

	#unmount(/** @type {Item} */ item, /** @type {HTMLElement} */ element) {
		if (element instanceof HTMLDetailsElement) {
			item.isOpen = element.open;
		}
		if (element.contains(document.activeElement)) {
			this.#scroller.focus({ preventScroll: true }); // the focus must not fall out of the page
		}
		this.#elements.delete(item);
		element.remove();
	}

	/** The height of an item, estimated from the mounted ones. */
	#guess() {
		return this.mounted > 0
			? Math.max(LEAST_PX, this.#list.offsetHeight / this.mounted)
			: GUESS_PX;
	}

	#setAbove(/** @type {number} */ px) {
		this.#abovePx = Math.max(0, px);
		this.#above.style.height = `${this.#abovePx}px`;
	}

	#setBelow(/** @type {number} */ px) {
		const left = this.#items.length - this.#to;
		this.#belowPx = left === 0 ? 0 : Math.max(left * LEAST_PX, px);
		this.#below.style.height = `${this.#belowPx}px`;
	}
}

/** Says whether an element made for an item before still shows it. @param {Item} item */
function signature({ kind, events }) {
	return `${kind} ${events.map(({ seq }) => seq).join(' ')}`;
}
