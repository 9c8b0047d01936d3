/**
 * The events a client holds, and the epoch they belong to. All arithmetic of positions is here:
 * the next event, repetitions, gaps.
 */
import { deepFreeze } from './base.js';

/**
 * @typedef {object} HoldfastEvent One numbered event; deeply frozen.
 * @property {number} seq
 * @property {string} type
 * @property {number} ts milliseconds since 1970
 * @property {number} [turn]
 * @property {string} [message_id]
 * @property {true} [redacted] the token hides what this is
 * @property {Record<string, any>} data
 */

/** Asserts the shape that the arithmetic depends on, and that a Holdfast server always sends. */
function checkEvents(/** @type {any} */ events) {
	const good =
		Array.isArray(events) &&
		events.every((event) => Number.isSafeInteger(event?.seq) && event.seq > 0 && event.type);
	if (!good) {
		throw new TypeError('invalid events');
	}
}

export class EventLog {
	/** @type {string | null} */
	#epoch = null;
	/** @type {HoldfastEvent[]} */
	#events = [];
	/** What was last given away; null: it has changed. @type {readonly HoldfastEvent[] | null} */
	#snapshot = null;
	/** @type {{readonly epoch: string | null, readonly seq: number}} */
	#position = Object.freeze({ epoch: null, seq: 0 });

	/** The epoch and seq of the last event held. */
	get position() {
		const seq = this.#events.at(-1)?.seq ?? 0;
		if (this.#position.epoch !== this.#epoch || this.#position.seq !== seq) {
			this.#position = Object.freeze({ epoch: this.#epoch, seq });
		}
		return this.#position;
	}

	/** Frozen, and the same until it changes. */
	get events() {
		this.#snapshot ??= Object.freeze([...this.#events]);
		return this.#snapshot;
	}

	/** @returns {HoldfastEvent | undefined} */
	get first() {
		return this.#events[0];
	}

	/** @returns {HoldfastEvent | undefined} */
	get last() {
		return this.#events.at(-1);
	}

	get size() {
		return this.#events.length;
	}

	/** Holds nothing, of this history. */
	reset(/** @type {string | null} */ epoch) {
		this.#epoch = epoch;
		this.#events = [];
		this.#snapshot = null;
	}

	/**
	 * Takes the events that follow those held and skips repetitions. If it is not whole there is a gap,
	 * and nothing after the gap was taken.
	 * @param {HoldfastEvent[]} events
	 * @param {boolean} anyStart the first one may have any seq, if nothing is held
	 */
	take(events, anyStart) {
		checkEvents(events);
		/** @type {HoldfastEvent[]} */
		const taken = [];
		let last = this.position.seq;
		let whole = true;
		for (const event of events) {
			if (event.seq === last + 1 || (anyStart && last === 0)) {
				taken.push(deepFreeze(event));
				last = event.seq;
			} else if (event.seq > last) {
				whole = false;
				break;
			}
		}
		for (const event of taken) {
			this.#events.push(event);
			this.#snapshot = null;
		}
		return { taken, whole };
	}

	/**
	 * Puts a page in front. Null: it is of another history, or does not end where the events begin,
	 * since it was asked for before a reset or before older events were dropped.
	 * @param {string} epoch @param {HoldfastEvent[]} events
	 */
	prepend(epoch, events) {
		checkEvents(events);
		const first = this.#events[0]?.seq;
		const fits =
			first !== undefined &&
			epoch === this.#epoch &&
			events.every((event, i) => event.seq === first - events.length + i);
		if (!fits) {
			return null;
		}
		events.forEach(deepFreeze);
		this.#events = [...events, ...this.#events];
		this.#snapshot = null;
		return events;
	}

	/** Drops all but the newest events; returns how many were dropped. */
	trim(/** @type {number} */ keep) {
		const count = Math.max(0, this.#events.length - Math.max(1, keep));
		if (count > 0) {
			this.#events.splice(0, count);
			this.#snapshot = null;
		}
		return count;
	}
}
