/** Notices that events are missing behind the ones that are held. */

const BEHIND_MS = 1_000; // max_seq may run ahead of events that are on their way

export class Gap {
	#timer = null;
	#maxSeq = 0;
	#timers;
	#seq;
	#load;

	/**
	 * @param {NonNullable<import('./base.js').Surroundings['timers']>} timers
	 * @param {() => number} seq of the newest event held @param {() => void} load what is missing
	 */
	constructor(timers, seq, load) {
		this.#timers = timers;
		this.#seq = seq;
		this.#load = load;
	}

	/** The server has told of this one: it is here, or comes in a moment, or is missing. */
	check(/** @type {number} */ maxSeq) {
		const seq = this.#seq();
		this.#maxSeq = maxSeq;
		if (!(maxSeq > seq)) {
			this.stop();
		} else if (this.#timer === null) {
			this.#timer = this.#timers.setTimeout(() => {
				this.#timer = null;
				if (this.#seq() > seq) {
					this.check(this.#maxSeq); // they do come
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
