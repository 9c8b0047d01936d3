/** The session's current state, which has no events of its own. */

import { deepFreeze } from './base.js';

/** @typedef {import('./requests.js').QueuedPrompt} QueuedPrompt */

export class SessionState {
	/** @type {Record<string, any>} */
	#values = deepFreeze({
		is_prompting: false,
		is_running: false,
		queue_length: 0,
		queue: [],
		usage: null,
		status: 'idle',
		role: null,
		hide: [],
	});

	/** Frozen, and the same until it changes. */
	get all() {
		return this.#values;
	}

	/** @returns {readonly QueuedPrompt[]} */
	get queue() {
		return this.#values.queue;
	}

	/** The server lists the first ones only. */
	get hasWholeQueue() {
		return this.#values.queue.length === this.#values.queue_length;
	}

	/** Takes the fields of a frame. Returns the names of those that changed. */
	take(/** @type {any} */ data) {
		const changed = Object.keys(this.#values).filter(
			(name) =>
				data[name] !== undefined &&
				JSON.stringify(data[name]) !== JSON.stringify(this.#values[name]),
		);
		if (changed.length > 0) {
			const news = Object.fromEntries(changed.map((name) => [name, data[name]]));
			this.#values = deepFreeze({ ...this.#values, ...news });
		}
		return changed;
	}
}
