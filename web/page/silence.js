/** Tells how long nothing has come while somebody waits, once that is long. */

const FIRST_MS = 30_000;
const MINUTE_MS = 60_000;

export class Silence {
	#key = '';
	#since = 0;
	#timer = 0;
	#changed;

	/** @param {() => void} changed the words are others now */
	constructor(changed) {
		this.#changed = changed;
	}

	/**
	 * Returns the words to show for `words`. Reconnecting does not end the silence, which is the agent's.
	 * @param {string | null} words empty while nobody waits; null while that is not known, because there is no connection
	 * @param {string} key changes with everything that comes
	 */
	say(words, key) {
		const now = performance.now();
		clearTimeout(this.#timer);
		if (words === '' || key !== this.#key) {
			this.#key = words === '' ? '' : key;
			this.#since = now;
		}
		if (!words) {
			return '';
		}
		const silent = now - this.#since;
		const next = silent < FIRST_MS ? FIRST_MS : (Math.floor(silent / MINUTE_MS) + 1) * MINUTE_MS;
		this.#timer = window.setTimeout(this.#changed, next - silent + 1);
		if (silent < FIRST_MS) {
			return words;
		}
		const long = silent < MINUTE_MS ? '30 s' : `${Math.floor(silent / MINUTE_MS)} min`;
		return `${words.replace(/…$/, '')}. Nothing has come for ${long}`;
	}
}
