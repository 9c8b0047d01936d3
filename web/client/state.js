/** What is true of a session now and is not worth an event. */

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
	};

	get all() {
		return { ...this.#values };
	}

	/** @returns {QueuedPrompt[]} */
	get queue() {
		return this.#values.queue.map((/** @type {QueuedPrompt} */ prompt) => ({ ...prompt }));
	}

	/** The server names the first ones only. */
	get hasWholeQueue() {
		return this.#values.queue.length === this.#values.queue_length;
	}

	/** Takes what a frame says of it. Gives the names of what is new. */
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
