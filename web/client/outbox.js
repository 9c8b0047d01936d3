/**
 * What this client has said and must not lose: prompts until their event is held, answers until they
 * show in the log.
 */

/**
 * @typedef {object} PendingPrompt
 * @property {string} prompt_id
 * @property {string} message
 * @property {'sending' | 'queued' | 'received'} state queued: on the server's disk, and waits for the
 *   turn to end; received: has a seq, its event is on the way
 * @property {number | null} seq
 */

export class Outbox {
	/** @type {PendingPrompt[]} */
	#prompts = [];
	/** @type {Map<string, string>} request_id to option_id: answers not yet confirmed */
	#answers = new Map();
	/** @type {Set<string>} request_ids of answers that the server could not store, and shall hear again */
	#refused = new Set();
	/** @type {Set<string>} queued ones whose event may be among those that we have not loaded */
	#doubted = new Set();
	#changed;

	/** @param {() => void} changed the prompts are others now */
	constructor(changed) {
		this.#changed = changed;
	}

	/** @returns {PendingPrompt[]} */
	get prompts() {
		return this.#prompts.map((prompt) => ({ ...prompt }));
	}

	/** What the server must be asked about, with each connection until it answers. */
	get unsent() {
		return this.prompts.filter(
			({ prompt_id, state }) => state === 'sending' || this.#doubted.has(prompt_id),
		);
	}

	get longestUnsent() {
		return this.unsent.sort((a, b) => b.message.length - a.message.length)[0];
	}

	get answers() {
		return [...this.#answers];
	}

	/** False if a prompt with this id is pending already. */
	addPrompt(/** @type {string} */ promptId, /** @type {string} */ message) {
		if (this.#prompts.some(({ prompt_id }) => prompt_id === promptId)) {
			return false;
		}
		this.#prompts.push({ prompt_id: promptId, message, state: 'sending', seq: null });
		this.#changed();
		return true;
	}

	addAnswer(/** @type {string} */ requestId, /** @type {string} */ optionId) {
		this.#answers.set(requestId, optionId);
		this.#refused.delete(requestId);
	}

	/**
	 * The server could not store an answer, which is not to be forgotten for that. True if this is new.
	 * @param {string | undefined} requestId all of them, if the server did not say
	 */
	keepAnswer(requestId) {
		const ids = requestId === undefined ? [...this.#answers.keys()] : [requestId];
		const fresh = ids.filter((id) => this.#answers.has(id) && !this.#refused.has(id));
		fresh.forEach((id) => this.#refused.add(id));
		return fresh.length > 0;
	}

	/**
	 * The server has it on disk; with a seq if its turn has come.
	 * @param {string} promptId @param {number | null} seq @param {boolean} [isRemoved]
	 */
	confirmPrompt(promptId, seq, isRemoved = false) {
		if (isRemoved) {
			this.dropPrompt(promptId);
			return;
		}
		const prompt = this.#prompts.find(({ prompt_id }) => prompt_id === promptId);
		this.#doubted.delete(promptId);
		if (prompt) {
			prompt.seq = seq;
			prompt.state = seq === null ? 'queued' : 'received';
			this.#changed();
		}
	}

	/** It was taken out of the queue and will not run: nothing is to be waited for. */
	dropPrompt(/** @type {string} */ promptId) {
		this.#keep(({ prompt_id }) => prompt_id !== promptId);
	}

	/**
	 * Queued ones that may have begun, or have been removed, without our knowledge: all, or those that the
	 * queue does not have. Gives those that were not in doubt before.
	 * @param {{prompt_id: string}[]} [queue]
	 */
	doubt(queue = []) {
		const waiting = new Set(queue.map(({ prompt_id }) => prompt_id));
		const fresh = this.prompts.filter(
			({ prompt_id, state }) =>
				state === 'queued' && !waiting.has(prompt_id) && !this.#doubted.has(prompt_id),
		);
		fresh.forEach(({ prompt_id }) => this.#doubted.add(prompt_id));
		return fresh;
	}

	/**
	 * A refused prompt must not be sent again by itself: its text goes back to the user.
	 * @param {string | undefined} promptId the oldest unconfirmed one, if the server did not say
	 * @returns {PendingPrompt | null}
	 */
	takeBack(promptId) {
		const index = this.#prompts.findIndex(({ prompt_id, state }) =>
			promptId ? prompt_id === promptId : state === 'sending',
		);
		const prompt = index >= 0 ? this.#prompts.splice(index, 1)[0] : null;
		this.#changed();
		return prompt;
	}

	endAnswer(/** @type {string | undefined} */ requestId) {
		if (requestId) {
			this.#answers.delete(requestId);
			this.#refused.delete(requestId);
		} else {
			this.#answers.clear(); // refused, and we do not know which: none may come back for ever
		}
	}

	/** These events are held now: what they confirm is over. */
	settle(/** @type {import('./log.js').HoldfastEvent[]} */ events) {
		for (const { type, data } of events) {
			if (type === 'permission_resolved') {
				this.endAnswer(data?.request_id);
			}
		}
		const shown = new Set(
			events.filter(({ type }) => type === 'user_prompt').map(({ data }) => data?.prompt_id),
		);
		this.#keep(({ prompt_id }) => !shown.has(prompt_id));
	}

	/** A prompt is shown as pending until its event is held: never both, and never neither. */
	settleUpTo(/** @type {number} */ last) {
		this.#keep(({ seq }) => seq === null || seq > last);
	}

	/** Another history: what the old one had confirmed is gone with it. */
	reset() {
		this.#answers.clear();
		this.#keep(({ state }) => state === 'sending');
	}

	#keep(/** @type {(prompt: PendingPrompt) => boolean} */ wanted) {
		const left = this.#prompts.filter(wanted);
		const ids = new Set(left.map(({ prompt_id }) => prompt_id));
		this.#doubted = new Set([...this.#doubted].filter((promptId) => ids.has(promptId)));
		if (left.length !== this.#prompts.length) {
			this.#prompts = left;
			this.#changed();
		}
	}
}
