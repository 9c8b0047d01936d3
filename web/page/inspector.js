/** The developer pane: the client's position, every frame on the wire, and buttons that break the connection. */
import { h, icon, visible } from './dom.js';

const ROWS_MAX = 200;
const PRETTY_MAX = 20_000; // characters of one frame
const QUIET = ['keepalive', 'keepalive_ack', 'preview', 'delta'];

/** @typedef {import('./tap.js').Tap} Tap */
/** @typedef {import('./tap.js').Frame} Frame */

const FIGURES = [
	['status', 'Status'],
	['epoch', 'Epoch'],
	['seq', 'Newest event (seq)'],
	['max_seq', 'Server’s newest (max_seq)'],
	['lag', 'Lag'],
	['round_trip', 'Round trip'],
	['reconnects', 'Reconnects'],
	['held', 'Events held'],
	['on_page', 'Items, on the page'],
	['frames', 'Frames in, out'],
	['bytes', 'Bytes in, out'],
];

/** The type and seqs of a frame, without parsing all of it. @param {Frame} frame */
function summaryOf({ text }) {
	const type = text.match(/^\{\s*"type":\s*"([\w-]+)"/)?.[1] ?? '';
	const seqs = [...text.matchAll(/"seq":\s*(\d+),\s*"type"/g)].map((match) => match[1]);
	const one = text.match(/"(?:seq|after_seq|before_seq|last_seen_seq)":\s*(\d+)/)?.[1];
	const range = seqs.length > 1 ? `${seqs[0]}–${seqs.at(-1)}` : (seqs[0] ?? one ?? '');
	const redacted = text.match(/"redacted":\s*true/g)?.length ?? 0;
	return { type, range: redacted > 0 ? `${range}, ${redacted} redacted` : range };
}

/** @param {string} text */
function pretty(text) {
	try {
		return JSON.stringify(JSON.parse(text), null, 2);
	} catch {
		return text; // cut off, or not JSON at all
	}
}

export class Inspector {
	#pane;
	#button;
	#tap;
	#rows;
	#facts;
	/** @type {Map<string, HTMLElement>} */
	#figures = new Map();
	#quiet;
	#redraw = 0;
	#maxSeq = 0;
	/** @type {number | null} */
	#sentAt = null;
	/** @type {number | null} */
	#roundTrip = null;

	/**
	 * @param {{pane: HTMLElement, button: HTMLElement}} places @param {Tap} tap
	 * @param {() => Record<string, string>} facts of the page: status, epoch, seq, reconnects, held, on_page
	 * @param {() => void} drop
	 */
	constructor({ pane, button }, tap, facts, drop) {
		this.#pane = pane;
		this.#button = button;
		this.#tap = tap;
		this.#facts = facts;
		this.#rows = h('ol', { class: 'frames', 'data-testid': 'frames' });
		this.#quiet = h('input', { type: 'checkbox', checked: true });
		this.#build(drop);
		tap.frames.filter(({ text }) => text).forEach((frame) => this.#measure(frame)); // those from before there was an inspector
		tap.onframe = (frame) => this.#take(frame);
		pane.addEventListener('keydown', (event) => event.key === 'Escape' && this.toggle(false));
		setInterval(() => this.isOpen && this.#drawFigures(), 500);
	}

	get isOpen() {
		return !this.#pane.hidden;
	}

	/** @param {boolean} open */
	toggle(open) {
		if (open === this.isOpen) {
			return;
		}
		this.#pane.hidden = !open;
		document.body.classList.toggle('inspecting', open);
		this.#button.setAttribute('aria-expanded', String(open));
		if (open) {
			this.#drawAll();
			this.#pane.querySelector('button')?.focus();
		} else {
			this.#button.focus();
		}
	}

	/** Another session: the figures start again. */
	reset() {
		this.#maxSeq = 0;
		this.#roundTrip = null;
		this.#rows.replaceChildren();
	}

	#build(/** @type {() => void} */ drop) {
		/** @type {[string, string, string, () => void][]} */
		const ways = [
			['drop', 'Drop', 'Closes the socket, as a proxy would', drop],
			[
				'freeze',
				'Freeze',
				'Stops all frames without an error; the keepalive has to notice',
				() => this.#tap.freeze(),
			],
			[
				'stale',
				'Go stale',
				'Reconnects with an epoch that the server does not have',
				() => this.#tap.goStale(),
			],
			[
				'lose',
				'Lose a frame',
				'Drops the next events; the client has to notice the gap',
				() => this.#tap.loseOne(),
			],
		];
		const figures = FIGURES.map(([name, words]) => {
			const value = h('dd', { 'data-figure': name });
			this.#figures.set(name, value);
			return h('div', {}, h('dt', {}, words), value);
		});
		this.#quiet.addEventListener('change', () => this.#drawAll());
		this.#pane.append(
			h(
				'div',
				{ class: 'pane-head' },
				h('h2', {}, 'Inspector'),
				h(
					'button',
					{
						type: 'button',
						class: 'icon-button',
						'aria-label': 'Close the inspector',
						onclick: () => this.toggle(false),
					},
					icon('close'),
				),
			),
			h(
				'div',
				{ class: 'ways', role: 'group', 'aria-label': 'Break the connection' },
				...ways.map(([name, words, title, onclick]) =>
					h(
						'button',
						{
							type: 'button',
							class: 'button small',
							'data-testid': `inspect-${name}`,
							title,
							onclick,
						},
						words,
					),
				),
			),
			h('dl', { class: 'figures' }, ...figures),
			h(
				'div',
				{ class: 'frames-head' },
				h('h3', {}, 'Frames'),
				h('label', {}, this.#quiet, 'Hide previews'),
				h(
					'button',
					{ type: 'button', class: 'button small', onclick: () => this.#clear() },
					'Clear',
				),
			),
			this.#rows,
		);
	}

	#clear() {
		this.#tap.clear();
		this.#rows.replaceChildren();
	}

	#take(/** @type {Frame} */ frame) {
		if (frame.text) {
			this.#measure(frame);
		}
		if (this.isOpen) {
			this.#redraw ||= requestAnimationFrame(() => this.#drawNew());
		}
	}

	#measure(/** @type {Frame} */ { isOut, text, at }) {
		const isKeepalive = /^\{\s*"type":\s*"keepalive/.test(text);
		if (isOut && isKeepalive) {
			this.#sentAt = at;
		} else if (!isOut && isKeepalive && this.#sentAt !== null) {
			this.#roundTrip = at - this.#sentAt;
			this.#sentAt = null;
		}
		const said = isOut ? null : text.match(/"max_seq":\s*(\d+)/);
		this.#maxSeq = said ? Number(said[1]) : this.#maxSeq;
	}

	#isShown(/** @type {Frame} */ { text, note }) {
		const type = text.slice(0, 100).match(/^\{\s*"type":\s*"([\w-]+)"/)?.[1] ?? '';
		return note !== undefined || !this.#quiet.checked || !QUIET.includes(type);
	}

	#drawNew() {
		this.#redraw = 0;
		const newest = Number(
			/** @type {any} */ (this.#rows.firstElementChild)?.dataset.frame ?? 0,
		);
		for (const frame of this.#tap.frames.filter(({ no }) => no > newest)) {
			if (this.#isShown(frame)) {
				this.#rows.prepend(this.#row(frame));
			}
		}
		while (this.#rows.childElementCount > ROWS_MAX) {
			this.#rows.lastElementChild.remove();
		}
		this.#drawFigures();
	}

	#drawAll() {
		this.#rows.replaceChildren();
		this.#drawNew();
	}

	#row(/** @type {Frame} */ frame) {
		const { type, range } = summaryOf(frame);
		const time = new Date(frame.at).toISOString().slice(11, 23);
		const head = [
			h('span', { class: 'frame-time' }, time),
			h(
				'span',
				{ class: 'frame-way', title: frame.isOut ? 'sent' : 'received' },
				frame.text ? (frame.isOut ? '→' : '←') : '•',
			),
			h(
				'span',
				{ class: 'frame-type' },
				frame.note && !frame.text ? visible(frame.note) : visible(type),
			),
			h('span', { class: 'frame-range' }, range),
			h('span', { class: 'frame-size' }, frame.text ? `${frame.size} B` : ''),
		];
		const attributes = {
			'data-frame': frame.no,
			'data-frame-type': type,
			'data-way': frame.isOut ? 'out' : 'in',
		};
		if (!frame.text) {
			return h(
				'li',
				{ ...attributes, class: 'frame note' },
				h('div', { class: 'frame-head' }, ...head),
			);
		}
		const details = h('details', {}, h('summary', { class: 'frame-head' }, ...head));
		details.addEventListener('toggle', () => this.#fill(details, frame), { once: true });
		return h('li', { ...attributes, class: `frame${frame.note ? ' marked' : ''}` }, details);
	}

	#fill(/** @type {HTMLElement} */ details, /** @type {Frame} */ { text, note }) {
		const whole = pretty(text);
		const shown = whole.length > PRETTY_MAX ? `${whole.slice(0, PRETTY_MAX)}\n…` : whole;
		details.append(
			...(note ? [h('p', { class: 'frame-note' }, visible(note))] : []),
			h('pre', { class: 'output', tabindex: '0' }, visible(shown)),
		);
	}

	#drawFigures() {
		const { counts } = this.#tap;
		const facts = this.#facts();
		const behind = Math.max(0, this.#maxSeq - Number(facts.seq));
		const all = {
			...facts,
			status: this.#tap.isFrozen ? `${facts.status}, frozen` : facts.status,
			max_seq: String(this.#maxSeq),
			lag: behind === 0 ? 'none' : `${behind} ${behind === 1 ? 'event' : 'events'}`,
			round_trip: this.#roundTrip === null ? 'not yet measured' : `${this.#roundTrip} ms`,
			frames: `${counts.in}, ${counts.out}`,
			bytes: `${counts.bytesIn}, ${counts.bytesOut}`,
		};
		for (const [name, value] of Object.entries(all)) {
			const place = this.#figures.get(name);
			if (place && place.textContent !== value) {
				place.textContent = value;
			}
		}
	}
}
