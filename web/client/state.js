/** The session's current state, which has no events of its own. */

/** @typedef {import('./requests.js').QueuedPrompt} QueuedPrompt */

export class SessionState {
	/** @type {Record<string, any>} */
	#values = {
		is_prompting: false,
		is_running: false,
		queue_length: 0,
		queue: [],
		usage: null,
		status: 'idle',
		role: null,
		hide: [],
	};

	get all() {
		return { ...this.#values };
	}

	/** @returns {QueuedPrompt[]} */
	get queue() {
		return this.#values.queue.map((/** @type {QueuedPrompt} */ prompt) => ({ ...prompt }));
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
		changed.forEach((name) => {
			this.#values[name] = data[name];
		});
		return changed;
	}
}
