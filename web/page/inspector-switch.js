/** The button that opens the inspector, which is loaded then. */
import { extras } from './lazy.js';

/** @typedef {import('./tap.js').Tap} Tap */

export class InspectorSwitch {
	#tap;
	/** @type {import('./inspector.js').Inspector | null} */
	#inspector = null;

	/**
	 * @param {{pane: HTMLElement, button: HTMLElement}} places @param {Tap} tap
	 * @param {{facts: () => Record<string, string>, drop: () => void, tell: (message: string) => void}} page
	 */
	constructor(places, tap, { facts, drop, tell }) {
		this.#tap = tap;
		places.button.addEventListener('click', async () => {
			try {
				const { Inspector } = await extras();
				this.#inspector ??= new Inspector(places, tap, facts, drop);
				this.#inspector.toggle(!this.#inspector.isOpen);
			} catch (/** @type {any} */ error) {
				tell(error.message);
			}
		});
	}

	/** Another session: the figures start again. */
	reset() {
		this.#tap.clear();
		this.#inspector?.reset();
	}
}
