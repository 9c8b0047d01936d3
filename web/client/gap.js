/** Notices that events after the newest one held are missing. */

const BEHIND_MS = 1_000; // max_seq may be ahead of events that are still on their way

export class Gap {
	#timer = null;
	#maxSeq = 0;
	#timers;
	#seq;
	#load;

	/**
	 * @param {NonNullable<import('./base.js').Surroundings['timers']>} timers
	 * @param {() => number} seq of the newest event held @param {() => void} load the missing events
	 */
	constructor(timers, seq, load) {
		this.#timers = timers;
		this.#seq = seq;
		this.#load = load;
	}

	/** The server has this event: it is held, about to arrive, or missing. */
	check(/** @type {number} */ maxSeq) {
		const seq = this.#seq();
		this.#maxSeq = maxSeq;
		if (!(maxSeq > seq)) {
			this.stop();
		} else if (this.#timer === null) {
			this.#timer = this.#timers.setTimeout(() => {
				this.#timer = null;
				if (this.#seq() > seq) {
					this.check(this.#maxSeq); // events are arriving
				} else {
					this.#load();
				}
			}, BEHIND_MS);
		}
	}

	stop() {
		this.#timers.clearTimeout(this.#timer);
		this.#timer = null;
	}
}
