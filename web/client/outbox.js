/**
 * Keeps what this client sends and must not lose: prompts until their event is held, answers until they
 * appear in the log.
 */

import { deepFreeze } from './base.js';

/**
 * @typedef {object} PendingPrompt
 * @property {string} prompt_id
 * @property {string} message
 * @property {readonly object[]} [content]
 * @property {'sending' | 'queued' | 'received'} state queued: on the server's disk, and waits for the
 *   turn to end; received: has a seq, its event is on the way
 * @property {number | null} seq
 */

export class Outbox {
	/** Frozen, and another one after each change. @type {readonly PendingPrompt[]} */
	#prompts = Object.freeze([]);
	/** @type {Map<string, {type: string, data: any}>} request_id to frame: answers not yet confirmed */
	#answers = new Map();
	/** @type {Set<string>} request_ids of answers that the server could not store, and that are sent again */
	#refused = new Set();
	/** @type {Set<string>} queued prompts whose event may not be loaded yet */
	#doubted = new Set();
	#changed;

	/** @param {() => void} changed the prompts are others now */
	constructor(changed) {
		this.#changed = changed;
	}

	get prompts() {
		return this.#prompts;
	}

	/** The prompts and answers to send on each connection until they are confirmed. */
	get unsent() {
		return this.prompts.filter(
			({ prompt_id, state }) => state === 'sending' || this.#doubted.has(prompt_id),
		);
	}

	get longestUnsent() {
		return this.unsent.sort((a, b) => b.message.length - a.message.length)[0];
	}

	get answers() {
		return [...this.#answers.values()];
	}

	/** False if a prompt with this id is pending already. */
	addPrompt(/** @type {string} */ promptId, /** @type {string} */ message, /** @type {object[]} */ content = []) {
		if (this.#prompts.some(({ prompt_id }) => prompt_id === promptId)) {
			return false;
		}
		const blocks = content.length ? { content: deepFreeze(structuredClone(content)) } : {};
		this.#put([...this.#prompts, { prompt_id: promptId, message, ...blocks, state: 'sending', seq: null }]);
		this.#changed();
		return true;
	}

	/** To a permission request or an elicitation: no two of them have the same id. @param {{type: string, data: any}} frame */
	addAnswer(frame) {
		this.#answers.set(frame.data.request_id, frame);
		this.#refused.delete(frame.data.request_id);
	}

	/**
	 * Notes that the server could not store an answer, so it is kept. Returns whether this is new.
	 * @param {string | undefined} requestId all of them, if the server did not say
	 */
	keepAnswer(requestId) {
		const ids = requestId === undefined ? [...this.#answers.keys()] : [requestId];
		const fresh = ids.filter((id) => this.#answers.has(id) && !this.#refused.has(id));
		fresh.forEach((id) => this.#refused.add(id));
		return fresh.length > 0;
	}

	/**
	 * The server has it on disk; with a seq if its turn has started.
	 * @param {string} promptId @param {number | null} seq @param {boolean} [isRemoved]
	 */
	confirmPrompt(promptId, seq, isRemoved = false) {
		if (isRemoved) {
			this.dropPrompt(promptId);
			return;
		}
		this.#doubted.delete(promptId);
		if (this.#prompts.some(({ prompt_id }) => prompt_id === promptId)) {
			const state = seq === null ? 'queued' : 'received';
			this.#put(this.#prompts.map((one) => (one.prompt_id === promptId ? { ...one, seq, state } : one)));
			this.#changed();
		}
	}

	/** It was removed from the queue and will not run: nothing more is expected. */
	dropPrompt(/** @type {string} */ promptId) {
		this.#keep(({ prompt_id }) => prompt_id !== promptId);
	}

	/**
	 * Marks queued prompts that may have started or been removed unnoticed: all, or those that are missing
	 * from the queue. Returns those that were not in doubt before.
	 * @param {readonly {prompt_id: string}[]} [queue]
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
	 * A refused prompt is not sent again automatically: its text goes back to the user.
	 * @param {string | undefined} promptId the oldest unconfirmed one, if the server did not say
	 * @returns {PendingPrompt | null}
	 */
	takeBack(promptId) {
		const index = this.#prompts.findIndex(({ prompt_id, state }) =>
			promptId ? prompt_id === promptId : state === 'sending',
		);
		const prompt = this.#prompts[index] ?? null;
		this.#put(this.#prompts.filter((one) => one !== prompt));
		this.#changed();
		return prompt;
	}

	endAnswer(/** @type {string | undefined} */ requestId) {
		if (requestId) {
			this.#answers.delete(requestId);
			this.#refused.delete(requestId);
		} else {
			this.#answers.clear(); // refused, but it is unknown which: none may be retried for ever
		}
	}

	/** These events are held now: everything that they confirm is done. */
	settle(/** @type {import('./log.js').HoldfastEvent[]} */ events) {
		for (const { type, data } of events) {
			if (type === 'permission_resolved' || type === 'elicitation_resolved') {
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

	/** Another history: everything confirmed in the old one is unconfirmed again. */
	reset() {
		this.#answers.clear();
		this.#keep(({ state }) => state === 'sending');
	}

	#put(/** @type {PendingPrompt[]} */ prompts) {
		this.#prompts = deepFreeze(prompts);
	}

	#keep(/** @type {(prompt: PendingPrompt) => boolean} */ wanted) {
		const left = this.#prompts.filter(wanted);
		const ids = new Set(left.map(({ prompt_id }) => prompt_id));
		this.#doubted = new Set([...this.#doubted].filter((promptId) => ids.has(promptId)));
		if (left.length !== this.#prompts.length) {
			this.#put(left);
			this.#changed();
		}
	}
}
