/**
 * The transcript's elements, kept in step with the events: an item's element is made once and changed
 * in place. Scrolling follows the end only while the reader is there.
 */
import { promptElement, renderItem, thoughtElement } from './cards.js';
import { h, icon, lookUp, morph, morphAttributes, renderHtml } from './dom.js';
import { TranscriptModel } from './transcript-model.js';

/** @typedef {import('./holdfast-client.js').HoldfastEvent} HoldfastEvent */
/** @typedef {import('./holdfast-client.js').OpenBlock} OpenBlock */
/** @typedef {import('./transcript-model.js').Item} Item */

const AT_END_PX = 56;
const OLDER_PX = 320;

export class Transcript {
	#scroller;
	#list;
	#tail;
	#jump;
	#model = new TranscriptModel();
	/** @type {Map<Item, HTMLElement>} */
	#elements = new Map();
	/** @type {Map<number, HTMLElement>} elements of blocks whose event is not there yet */
	#open = new Map();
	#following = true;
	#lastTop = 0;
	#hasOlder = false;
	#wantOlder;
	/** @type {import('./cards.js').CardContext} */
	#context;

	/**
	 * @param {{scroller: HTMLElement, list: HTMLElement, tail: HTMLElement, jump: HTMLElement}} elements
	 * @param {{wantOlder: () => void, answer: (requestId: string, optionId: string) => void}} handlers
	 */
	constructor({ scroller, list, tail, jump }, { wantOlder, answer }) {
		this.#scroller = scroller;
		this.#list = list;
		this.#tail = tail;
		this.#jump = jump;
		this.#wantOlder = wantOlder;
		this.#context = this.#makeContext('');
		scroller.addEventListener('scroll', () => this.#handleScroll(), { passive: true });
		jump.addEventListener('click', () => this.scrollToEnd());
		list.addEventListener('click', (event) => {
			const button = /** @type {HTMLElement} */ (event.target).closest(
				'button[data-option-id]',
			);
			if (button instanceof HTMLButtonElement) {
				answer(button.dataset.requestId ?? '', button.dataset.optionId ?? '');
			}
		});
		const observer = new ResizeObserver(() => this.#follow());
		[scroller, list, tail].forEach((element) => observer.observe(element));
	}

	/** An empty transcript, for the client with this id. @param {string} clientId */
	clear(clientId) {
		this.#model = new TranscriptModel();
		this.#elements.clear();
		this.#open.clear();
		this.#context = this.#makeContext(clientId);
		this.#list.replaceChildren();
		this.#hasOlder = false;
		this.scrollToEnd();
	}

	/** @param {string} clientId @returns {import('./cards.js').CardContext} */
	#makeContext(clientId) {
		return { clientId, answering: new Map(), before: (item) => this.#model.before(item) };
	}

	get isEmpty() {
		return this.#model.items.length === 0 && this.#open.size === 0;
	}

	/** The kind of block that is growing, for words about what waits for it. */
	get openKind() {
		const element = [...this.#open.values()].at(-1);
		const names = { UL: 'list', OL: 'list', TABLE: 'table', PRE: 'code block' };
		const last = element?.querySelector('pre, table, ul, ol');
		return lookUp(names, last?.nodeName, 'block');
	}

	get isGrowing() {
		return this.#open.size > 0;
	}

	/** @param {readonly HoldfastEvent[]} events */
	append(events) {
		events.forEach((event) => this.#add(event));
		this.#follow();
	}

	/** All events after older ones were put in front. @param {readonly HoldfastEvent[]} events */
	prepend(events) {
		const edge = this.#scroller.getBoundingClientRect().top;
		const anchor = [...this.#list.children].find(
			(child) => child.getBoundingClientRect().bottom > edge,
		);
		const top = anchor?.getBoundingClientRect().top ?? 0;
		const height = this.#scroller.scrollHeight;
		this.#scroller.classList.add('no-anchor'); // the browser's own correction would come on top of ours
		this.#rebuild(events);
		this.#scroller.scrollTop += anchor?.isConnected
			? anchor.getBoundingClientRect().top - top
			: this.#scroller.scrollHeight - height;
		requestAnimationFrame(() => this.#scroller.classList.remove('no-anchor'));
	}

	/** @param {boolean} hasOlder */
	setHasOlder(hasOlder) {
		this.#hasOlder = hasOlder;
		this.#handleScroll();
	}

	/** @param {OpenBlock[]} blocks all that are open */
	setOpen(blocks) {
		for (const seq of [...this.#open.keys()]) {
			if (!blocks.some((block) => block.seq === seq)) {
				this.#removeOpen(seq);
			}
		}
		blocks.forEach((block) => this.#fillOpen(block));
		this.#follow();
	}

	/** @param {string} requestId @param {string | null} optionId null: it may be answered again */
	setAnswering(requestId, optionId) {
		if (optionId === null) {
			this.#context.answering.delete(requestId);
		} else {
			this.#context.answering.set(requestId, optionId);
		}
		const item = this.#model.items.findLast(
			({ kind, events }) => kind === 'permission' && events[0].data.request_id === requestId,
		);
		if (item) {
			this.#update(item);
		}
	}

	/**
	 * What stands below the last block.
	 * @param {{lost: string, hint: string, working: boolean, prompts: any[]}} content
	 */
	setTail({ lost, hint, working, prompts }) {
		const words = { sending: 'Sending', queued: 'Queued', received: 'Sent' };
		const fresh = h(
			'div',
			{},
			lost ? line('lost', 'lost', icon('unplug'), lost) : null,
			hint ? line('hint', 'activity', icon('info'), hint) : null,
			working
				? line(
						'working',
						'working',
						h('span', { class: 'dots', 'aria-hidden': 'true' }, h('i'), h('i'), h('i')),
						'Working',
					)
				: null,
			...prompts.map((prompt) =>
				promptElement(
					prompt.message,
					{ 'data-prompt-id': prompt.prompt_id, 'data-state': prompt.state },
					h('span', { class: 'prompt-state' }, lookUp(words, prompt.state, '')),
				),
			),
		);
		morph(this.#tail, fresh);
	}

	scrollToEnd() {
		this.#following = true;
		this.#scroller.scrollTop = this.#scroller.scrollHeight;
		this.#jump.hidden = true;
	}

	#add(/** @type {HoldfastEvent} */ event) {
		const grown = this.#open.get(event.seq);
		const { item, created } = this.#model.add(event);
		if (grown) {
			this.#open.delete(event.seq);
			if (this.#adopt(grown, item, event)) {
				return;
			}
			this.#discard(grown);
		}
		if (!created) {
			this.#update(item);
			return;
		}
		const element = renderItem(item, this.#context);
		this.#elements.set(item, element);
		this.#list.insertBefore(element, this.#firstOpen());
	}

	/** The open block's element becomes the event's: same place, same nodes where they are equal. */
	#adopt(
		/** @type {HTMLElement} */ grown,
		/** @type {Item} */ item,
		/** @type {HoldfastEvent} */ event,
	) {
		if (grown.dataset.type !== event.type) {
			return false;
		}
		const whole = grown.closest('.item');
		const fresh = renderItem(item, this.#context);
		const shown = this.#elements.get(item);
		const isFree = shown ? shown === whole : whole && !this.#isHeld(whole);
		if (!(whole instanceof HTMLElement) || whole.nodeName !== fresh.nodeName || !isFree) {
			return false;
		}
		morphAttributes(whole, fresh);
		morph(whole, fresh);
		this.#elements.set(item, whole);
		return true;
	}

	#update(/** @type {Item} */ item) {
		const element = this.#elements.get(item);
		const fresh = renderItem(item, this.#context);
		if (!element || element.nodeName !== fresh.nodeName) {
			element?.replaceWith(fresh);
			this.#elements.set(item, fresh);
			return;
		}
		morphAttributes(element, fresh);
		morph(element, fresh);
	}

	#rebuild(/** @type {readonly HoldfastEvent[]} */ events) {
		const before = new Map(
			[...this.#elements].map(([item, element]) => [signature(item), element]),
		);
		this.#model = new TranscriptModel(events);
		this.#elements = new Map(
			this.#model.items.map((item) => [
				item,
				before.get(signature(item)) ?? renderItem(item, this.#context),
			]),
		);
		const kept = new Set(this.#elements.values());
		before.forEach((element) => kept.has(element) || element.remove());
		let next = this.#firstOpen();
		for (const element of [...kept].reverse()) {
			if (element.nextSibling !== next || !element.isConnected) {
				this.#list.insertBefore(element, next);
			}
			next = element;
		}
	}

	/** The first element that stands behind all events; null at the end. @returns {Element | null} */
	#firstOpen() {
		return (
			[...this.#open.values()]
				.map((element) => element.closest('.item'))
				.find((item) => item && !this.#isHeld(item)) ?? null
		);
	}

	/** True for a thought's item that is in the model already and only has an open text at its end. */
	#isHeld(/** @type {Element} */ element) {
		return element.querySelector('[data-seq]') !== null || element.hasAttribute('data-seq');
	}

	#fillOpen(/** @type {OpenBlock} */ block) {
		const element = this.#open.get(block.seq) ?? this.#makeOpen(block);
		if (block.html === undefined) {
			element.textContent = block.text ?? '';
		} else {
			morph(element, renderHtml(block.html));
		}
	}

	#makeOpen(/** @type {OpenBlock} */ { seq, type }) {
		const attributes = { 'data-open-seq': seq, 'data-type': type, 'aria-live': 'off' };
		if (type !== 'agent_thought') {
			const element = h('div', {
				class: 'item message prose open',
				...attributes,
				'data-no': seq,
			});
			this.#list.append(element);
			this.#open.set(seq, element);
			return element;
		}
		const last = this.#list.lastElementChild;
		const whole = last?.classList.contains('thought') ? last : thoughtElement('Thinking');
		whole.dataset.no ??= String(seq);
		const element = h('div', { class: 'thought-text', ...attributes });
		whole.querySelector('.thought-body').append(element);
		this.#list.append(whole);
		this.#open.set(seq, element);
		return element;
	}

	#removeOpen(/** @type {number} */ seq) {
		const element = this.#open.get(seq);
		this.#open.delete(seq);
		if (element) {
			this.#discard(element);
		}
	}

	#discard(/** @type {HTMLElement} */ element) {
		const whole = element.closest('.item');
		element.remove();
		if (whole && !this.#isHeld(whole) && !whole.querySelector('[data-open-seq]')) {
			whole.remove();
		}
	}

	#handleScroll() {
		const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
		if (scrollHeight - scrollTop - clientHeight < AT_END_PX) {
			this.#following = true;
		} else if (scrollTop < this.#lastTop) {
			this.#following = false; // only the reader scrolls up; growth alone leaves scrollTop as it is
		}
		this.#lastTop = scrollTop;
		this.#jump.hidden = this.#following;
		if (this.#hasOlder && scrollTop < OLDER_PX) {
			this.#wantOlder();
		}
	}

	#follow() {
		if (this.#following) {
			this.#scroller.scrollTop = this.#scroller.scrollHeight;
		}
	}
}

/** @param {string} name @param {string} testId @param {Element} sign @param {string} words */
function line(name, testId, sign, words) {
	return h(
		'p',
		{ class: `tail-line ${name}`, 'data-testid': testId },
		sign,
		h('span', {}, words),
	);
}

/** Says whether an element made for an item before still shows it. @param {Item} item */
function signature({ kind, events }) {
	return `${kind} ${events.map(({ seq }) => seq).join(' ')}`;
}
