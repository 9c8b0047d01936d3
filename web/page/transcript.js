/**
 * The transcript's elements, kept in step with the events: an item's element is made once and changed
 * in place. Scrolling follows the end only while the reader is there.
 */
import { settleMarks } from './card-parts.js';
import { promptElement, renderItem } from './cards.js';
import { h, icon, lookUp, morph, morphAttributes } from './dom.js';
import { highlightIn } from './highlight.js';
import { ItemWindow } from './item-window.js';
import { attachedNames } from './media.js';
import { OpenBlocks, isHeld } from './open-blocks.js';
import { PendingTools } from './pending-tools.js';
import { TerminalLinks } from './terminal-links.js';
import { TranscriptModel } from '../client/holdfast-client.js';

/** @typedef {import('../client/holdfast-client.js').HoldfastEvent} HoldfastEvent */
/** @typedef {import('../client/holdfast-client.js').OpenBlock} OpenBlock */
/** @typedef {import('../client/holdfast-client.js').Item} Item */

const AT_END_PX = 56;
const BURST = 280; // events that come at once and are more than the page keeps elements of

export class Transcript {
	#scroller;
	#tail;
	#jump;
	#model = new TranscriptModel();
	#window;
	#open;
	#following = true;
	#lastTop = 0;
	#hasOlder = false;
	#first = 0; // the seq of the oldest event at the last replacement
	#wantOlder;
	/** @type {import('./cards.js').CardContext} */
	#context;

	/** @type {any} */
	#elicit;
	/**
	 * @param {{scroller: HTMLElement, list: HTMLElement, tail: HTMLElement, jump: HTMLElement}} elements
	 * @param {{wantOlder: () => void, answer: (requestId: string, optionId: string) => void, elicit: (requestId: string, action: string, content?: object) => void}} handlers
	 */
	constructor({ scroller, list, tail, jump }, { wantOlder, answer, elicit }) {
		this.#elicit = elicit;
		this.#scroller = scroller;
		this.#tail = tail;
		this.#jump = jump;
		this.#wantOlder = wantOlder;
		this.#context = this.#makeContext('');
		this.#open = new OpenBlocks(list);
		const render = (/** @type {Item} */ item) => this.#render(item);
		this.#window = new ItemWindow({ scroller, list }, render, () => this.#open.first);
		scroller.addEventListener('scroll', () => this.#handleScroll(), { passive: true });
		jump.addEventListener('click', () => this.scrollToEnd());
		list.addEventListener('click', ({ target }) => {
			const button = /** @type {HTMLElement} */ (target).closest('button');
			if (button?.dataset.optionId !== undefined) {
				answer(button.dataset.requestId ?? '', button.dataset.optionId);
			} else if (button?.dataset.action === 'more') {
				this.#showWhole(button.closest('.item'));
			}
		});
		let width = 0;
		const observer = new ResizeObserver(() => {
			if (width !== scroller.clientWidth && !this.#following) {
				this.#window.backToPlace();
			}
			width = scroller.clientWidth;
			this.#follow();
			requestAnimationFrame(() => this.#settle()); // a change here would change the observed sizes
		});
		[scroller, list, tail].forEach((element) => observer.observe(element));
	}

	/** An empty transcript, for the client with this id. @param {string} clientId */
	clear(clientId) {
		this.#model = new TranscriptModel();
		this.#open.clear();
		this.#context = this.#makeContext(clientId);
		this.#window.clear(this.#model.items);
		this.#hasOlder = false;
		this.scrollToEnd();
	}

	/** @param {string} clientId @returns {import('./cards.js').CardContext} */
	#makeContext(clientId) {
		const [links, pending] = [new TerminalLinks(), new PendingTools()];
		return { clientId, links, pending, answering: new Map(), typed: new Map(), loggingIn: null, elicit: this.#elicit, redraw: (id) => this.#redraw(id), before: (item) => this.#model.before(item) };
	}

	get isEmpty() {
		return this.#model.items.length === 0 && this.#open.count === 0;
	}

	get openKind() {
		return this.#open.kind;
	}

	get isGrowing() {
		return this.#open.count > 0;
	}

	/** How many items there are, and how many of them have an element. */
	get size() {
		return { items: this.#model.items.length, mounted: this.#window.mounted };
	}

	/** @param {Item} item */
	#render(item) {
		const element = renderItem(item, this.#context);
		const day = dayMark(item, this.#model.before(item));
		if (day) {
			element.dataset.day = day;
		}
		return element;
	}

	/** @param {readonly HoldfastEvent[]} events */
	append(events) {
		if (events.length >= BURST && this.#following) {
			this.#appendBurst(events);
		} else {
			events.forEach((event) => this.#add(event));
		}
		this.#settle();
	}

	/** Takes all events again, after older ones were added or dropped at the front. @param {readonly HoldfastEvent[]} events */
	replace(events) {
		const unfolded = new Map(
			this.#model.items.map(({ events: [{ seq }], isOpen }) => [seq, isOpen]),
		);
		this.#model = new TranscriptModel();
		this.#context.links = new TerminalLinks();
		this.#context.pending = new PendingTools();
		events.forEach((event) => this.#take(event));
		for (const item of this.#model.items) {
			item.isOpen = unfolded.get(item.events[0].seq);
		}
		const wasFirst = this.#first;
		this.#first = this.#model.items[0]?.events[0].seq ?? 0;
		this.#window.replace(this.#model.items);
		const behind = this.#model.items.find((item) => item.kind !== 'silent' && item.events[0].seq >= wasFirst);
		if (behind) {
			this.#update(behind); // the item before it is known now: perhaps of another day
		}
		this.#settle();
	}

	/** @param {boolean} hasOlder */
	setHasOlder(hasOlder) {
		this.#hasOlder = hasOlder;
		this.#handleScroll();
	}

	/** @param {OpenBlock[]} blocks all that are open */
	setOpen(blocks) {
		this.#open.set(blocks, this.#window.isAtEnd);
		this.#settle();
	}

	/** @param {string} requestId @param {string | null} optionId or the action of an elicitation; null: it may be answered again */
	setAnswering(requestId, optionId) {
		if (optionId === null) {
			this.#context.answering.delete(requestId);
		} else {
			this.#context.answering.set(requestId, optionId);
		}
		this.#redraw(requestId);
	}

	/** A question's card. @param {string} requestId */
	#redraw(requestId) {
		const item = this.#model.items.findLast(({ kind, events }) => isQuestion(kind) && events[0].data.request_id === requestId);
		if (item) {
			this.#update(item);
		}
	}

	/** The way to log in to the agent that was asked for; null: none. */
	get loggingIn() {
		return this.#context.loggingIn;
	}

	/** @param {string | null} methodId */
	setLoggingIn(methodId) {
		if (methodId !== this.#context.loggingIn) {
			this.#context.loggingIn = methodId;
			this.#model.items.filter(({ events: [{ data }] }) => data.login).forEach((item) => this.#update(item));
		}
	}

	/**
	 * The lines below the last block.
	 * @param {{lost: string, hint: string, working: string, prompts: any[]}} content
	 */
	setTail({ lost, hint, working, prompts }) {
		const words = { sending: 'Sending', queued: 'Queued', received: 'Sent' };
		const dots = h('span', { class: 'dots', 'aria-hidden': 'true' }, h('i'), h('i'), h('i'));
		const fresh = h(
			'div',
			{},
			lost ? line('lost', 'lost', icon('unplug'), lost) : null,
			hint ? line('hint', 'activity', icon('info'), hint) : null,
			working ? line('working', 'working', dots, working) : null,
			...prompts.map((prompt) =>
				promptElement(
					prompt.message,
					{ 'data-prompt-id': prompt.prompt_id, 'data-state': prompt.state },
					null,
					prompt.content?.length > 0 && attachedNames(prompt.content),
					h('span', { class: 'prompt-state' }, lookUp(words, prompt.state, '')),
				),
			),
		);
		morph(this.#tail, fresh);
	}

	scrollToEnd() {
		this.#following = true;
		this.#window.showEnd();
		this.#settle();
		this.#jump.hidden = true;
	}

	/**
	 * Scrolls to the item with this event, or to the one before it, and points at it. False: there is none.
	 * @param {number} seq
	 */
	showSeq(seq) {
		const { items } = this.#model;
		const exact = items.findIndex(({ events }) => events.some((event) => event.seq === seq));
		let at = exact < 0 ? Math.max(0, items.findLastIndex(({ events }) => events[0].seq <= seq)) : exact;
		const first = items[0]?.events[0].seq ?? Infinity;
		if (first > seq && !(seq === 1 && items.length > 0)) {
			return false;
		}
		this.#following = false;
		let element = this.#window.show(at);
		while (at > 0 && element.clientHeight === 0) {
			at -= 1; // silent items have no place
			element = this.#window.show(at);
		}
		if (element instanceof HTMLDetailsElement && seq > 1) {
			element.open = true;
		}
		element.scrollIntoView({ block: element.clientHeight > this.#scroller.clientHeight ? 'start' : 'center' });
		this.#following = false;
		this.#settle();
		element.classList.add('found-item');
		setTimeout(() => element.classList.remove('found-item'), 3_000);
		this.#jump.hidden = this.#isAtEnd;
		return true;
	}

	get #isAtEnd() {
		const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
		return this.#window.isAtEnd && scrollHeight - scrollTop - clientHeight < AT_END_PX;
	}

	/** The first item in view, by its first event, and its distance from the view's edge; null: the reader is at the end. */
	get place() {
		const first = this.#following ? undefined : this.#window.first;
		return first ? { seq: first.item.events[0].seq, top: Math.round(first.top) } : null;
	}

	/** Returns to such a place, or near it if the item is gone. @param {{seq: number, top: number}} place */
	showPlace({ seq, top }) {
		const at = this.#model.items.findLastIndex(({ events }) => events[0].seq <= seq);
		if (this.#model.items.length === 0) {
			return;
		}
		this.#following = false;
		const element = this.#window.show(Math.max(0, at));
		const edge = this.#scroller.getBoundingClientRect().top;
		this.#scroller.scrollTop += element.getBoundingClientRect().top - edge - top;
		this.#settle();
		this.#jump.hidden = this.#isAtEnd;
	}

	/** Makes the elements of all items that are held, for paper. */
	mountAll() {
		this.#window.mountAll();
	}

	/** Names of people have changed. */
	showNames() {
		this.#model.items.filter(({ kind }) => isQuestion(kind) || kind === 'prompt').forEach((item) => this.#update(item));
	}

	#add(/** @type {HoldfastEvent} */ event) {
		const grown = this.#open.take(event.seq);
		this.#open.forgetUpTo(event.seq);
		const { item, created, touched } = this.#take(event);
		const shown = this.#window.elementOf(item);
		const adopted = grown ? this.#adopt(grown, item, event, shown) : null;
		if (grown && !adopted) {
			this.#open.discard(grown);
		}
		if (created) {
			this.#window.add(item, adopted);
		} else if (adopted) {
			this.#window.setElement(item, adopted);
		} else {
			this.#update(item);
		}
		touched.forEach((other) => this.#update(other));
	}

	/** Its item, and other items that look different now. */
	#take(/** @type {HoldfastEvent} */ event) {
		const { item, created } = this.#model.add(event);
		const { links, pending } = this.#context;
		return { item, created, touched: new Set([...links.add(item, event), ...pending.add(item, event)]) };
	}

	/** Too many events at once to be read: only the end gets elements. */
	#appendBurst(/** @type {readonly HoldfastEvent[]} */ events) {
		this.#open.set([], true);
		events.forEach((event) => this.#take(event));
		this.#window.clear(this.#model.items);
	}

	/**
	 * The open block's element becomes the event's: same place, same nodes where they are equal.
	 * @param {HTMLElement} grown @param {Item} item @param {HoldfastEvent} event
	 * @param {HTMLElement | undefined} shown the item's element, if it has one
	 */
	#adopt(grown, item, event, shown) {
		const whole = grown.closest('.item');
		if (grown.dataset.type !== event.type || !(whole instanceof HTMLElement)) {
			return null;
		}
		const fresh = this.#render(item);
		const isFree = shown ? shown === whole : !isHeld(whole);
		if (whole.nodeName !== fresh.nodeName || !isFree) {
			return null;
		}
		morphAttributes(whole, fresh);
		morph(whole, fresh);
		settleMarks(whole, item);
		highlightIn(whole);
		return whole;
	}

	#update(/** @type {Item} */ item) {
		const element = this.#window.elementOf(item);
		if (!element) {
			return;
		}
		const fresh = this.#render(item);
		const change = () => {
			if (element.nodeName === fresh.nodeName) {
				morphAttributes(element, fresh);
				morph(element, fresh);
				settleMarks(element, item);
				highlightIn(element);
			} else {
				settleMarks(fresh, item);
				element.replaceWith(fresh);
				this.#window.setElement(item, fresh);
			}
		};
		if (this.#following) {
			change();
		} else {
			this.#window.keepPlace(change);
		}
	}

	#showWhole(/** @type {Element | null} */ element) {
		const item = this.#window.itemOf(element);
		if (item) {
			item.isWhole = true;
			this.#update(item);
		}
	}

	#handleScroll() {
		const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
		const left = this.#window.isAtEnd ? scrollHeight - scrollTop - clientHeight : Infinity;
		if (left < 2 || (left < AT_END_PX && scrollTop > this.#lastTop)) {
			this.#following = true;
		} else if (scrollTop < this.#lastTop) {
			this.#following = false; // only the reader scrolls up; growth alone leaves scrollTop as it is
		}
		this.#mountNear();
		this.#jump.hidden = this.#following || left < AT_END_PX;
		if (this.#hasOlder && this.#window.isAtStart && this.#scroller.scrollTop < clientHeight) {
			this.#wantOlder();
		}
	}

	/** After every change: mounts the items near the view and follows the end. */
	#settle() {
		this.#follow();
		this.#mountNear();
		this.#follow();
		this.#window.notePlace();
		this.#lastTop = this.#scroller.scrollTop;
	}

	/** Never follows: while the reader scrolls, nothing else may. */
	#mountNear() {
		const wasAtEnd = this.#window.isAtEnd;
		this.#window.update();
		if (!wasAtEnd && this.#window.isAtEnd) {
			this.#open.show();
		} else if (wasAtEnd && !this.#window.isAtEnd) {
			this.#open.hide();
		}
		this.#window.notePlace();
		this.#lastTop = this.#scroller.scrollTop;
	}

	#follow() {
		if (this.#following) {
			this.#scroller.scrollTop = this.#scroller.scrollHeight;
		}
	}
}

/** @param {Item['kind']} kind */
function isQuestion(kind) {
	return kind === 'permission' || kind === 'elicitation';
}

/**
 * The day on which an item began, if the item before it is of another one, or if the session began with it on another day than today.
 * @param {Item} item @param {Item | null} before
 */
function dayMark({ kind, events: [{ ts, seq }] }, before) {
	const today = new Date();
	const at = new Date(ts);
	const last = before ? new Date(before.events[0].ts) : seq === 1 ? today : at;
	if (kind === 'silent' || at.toDateString() === last.toDateString()) {
		return '';
	}
	const year = at.getFullYear() === today.getFullYear() ? undefined : 'numeric';
	return at.toLocaleDateString([], { weekday: 'long', day: 'numeric', month: 'long', year });
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
