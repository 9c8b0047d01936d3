/** The elements of blocks that still grow, behind the last event. Each becomes its event's element. */
import { thoughtElement } from './cards.js';
import { h, lookUp, morph, renderHtml } from './dom.js';
import { highlightIn } from './highlight.js';

/** @typedef {import('../client/holdfast-client.js').OpenBlock} OpenBlock */

export class OpenBlocks {
	#list;
	/** @type {Map<number, HTMLElement>} */
	#elements = new Map();
	/** @type {OpenBlock[]} */
	#blocks = [];

	/** @param {HTMLElement} list */
	constructor(list) {
		this.#list = list;
	}

	get count() {
		return this.#blocks.length;
	}

	/** The kind of block that is growing, for the hint below the transcript. */
	get kind() {
		const names = { UL: 'list', OL: 'list', TABLE: 'table', PRE: 'code block' };
		const last = [...this.#elements.values()].at(-1)?.querySelector('pre, table, ul, ol');
		return lookUp(names, last?.nodeName, 'block');
	}

	/** The first element after all events; null at the end. @returns {Element | null} */
	get first() {
		const items = [...this.#elements.values()].map((element) => element.closest('.item'));
		return items.find((item) => item && !isHeld(item)) ?? null;
	}

	/** @param {OpenBlock[]} blocks all that are open @param {boolean} show whether they are on the page */
	set(blocks, show) {
		this.#blocks = blocks;
		for (const seq of [...this.#elements.keys()]) {
			if (!show || !blocks.some((block) => block.seq === seq)) {
				this.discard(this.take(seq));
			}
		}
		if (show) {
			blocks.forEach((block) => this.#fill(block));
		}
	}

	/** The end of the transcript is on the page again, with its open blocks. */
	show() {
		this.set(this.#blocks, true);
	}

	/** The end of the transcript has left the page. */
	hide() {
		this.set(this.#blocks, false);
	}

	/** The element of a block whose event has come: it is the caller's now. @param {number} seq */
	take(seq) {
		const element = this.#elements.get(seq) ?? null;
		this.#elements.delete(seq);
		return element;
	}

	/** An event has come: what was open up to it is no more. @param {number} seq */
	forgetUpTo(seq) {
		this.#blocks = this.#blocks.filter((block) => block.seq > seq);
		const over = [...this.#elements.keys()].filter((open) => open <= seq);
		over.forEach((open) => this.discard(this.take(open)));
	}

	clear() {
		this.#elements.clear();
		this.#blocks = [];
	}

	/** @param {HTMLElement | null} element */
	discard(element) {
		const whole = element?.closest('.item');
		element?.remove();
		if (whole && !isHeld(whole) && !whole.querySelector('[data-open-seq]')) {
			whole.remove();
		}
	}

	#fill(/** @type {OpenBlock} */ block) {
		const element = this.#elements.get(block.seq) ?? this.#make(block);
		if (block.html === undefined) {
			element.textContent = block.text ?? '';
		} else {
			morph(element, renderHtml(block.html));
			highlightIn(element);
		}
	}

	#make(/** @type {OpenBlock} */ { seq, type }) {
		const attributes = { 'data-open-seq': seq, 'data-type': type };
		if (type !== 'agent_thought') {
			const element = h('div', {
				class: 'item message prose open',
				...attributes,
				'data-no': seq,
			});
			this.#list.append(element);
			this.#elements.set(seq, element);
			return element;
		}
		const last = this.#list.lastElementChild;
		const whole = last?.classList.contains('thought') ? last : thoughtElement('Thinking');
		whole.dataset.no ??= String(seq);
		const element = h('div', { class: 'thought-text', ...attributes });
		whole.querySelector('.thought-body').append(element);
		this.#list.append(whole);
		this.#elements.set(seq, element);
		return element;
	}
}

/** True for an item that is in the model already; a thought's may have an open text at its end. @param {Element} element */
export function isHeld(element) {
	return element.querySelector('[data-seq]') !== null || element.hasAttribute('data-seq');
}
