/** The promises of prompts: each resolves when the server has the prompt on disk, or rejects if it is refused. */
import { HoldfastError } from './base.js';

/**
 * @typedef {{prompt_id: string, seq: number | null}} Receipt seq: of its event; null: it is queued
 * @typedef {Promise<Receipt> & {readonly id: string}} PromptPromise
 * @typedef {{promise: PromptPromise, resolve: (receipt: Receipt) => void, reject: (error: HoldfastError) => void}} Expected
 */

export class Receipts {
	/** @type {Map<string, Expected>} */
	#expected = new Map();

	/** @param {string} promptId @returns {PromptPromise} the same for the same prompt */
	expect(promptId) {
		const known = this.#expected.get(promptId);
		if (known) {
			return known.promise;
		}
		let settle = {};
		const promise = new Promise((resolve, reject) => (settle = { resolve, reject }));
		promise.catch(() => {}); // the event `error` says it, too: nobody needs to wait for this
		Object.defineProperty(promise, 'id', { value: promptId, enumerable: true });
		const expected = /** @type {Expected} */ ({ promise, ...settle });
		this.#expected.set(promptId, expected);
		return expected.promise;
	}

	/** @param {{prompt_id: string, seq?: number | null, removed?: boolean}} answer */
	take({ prompt_id, seq = null, removed }) {
		if (removed) {
			this.refuse(prompt_id, new HoldfastError('removed', 'The prompt was removed from the queue.', { prompt_id }));
			return;
		}
		this.#expected.get(prompt_id)?.resolve(Object.freeze({ prompt_id, seq }));
		this.#expected.delete(prompt_id);
	}

	/** @param {import('./log.js').HoldfastEvent[]} events */
	settle(events) {
		for (const { type, seq, data } of events) {
			if (type === 'user_prompt' && this.#expected.size > 0) {
				this.take({ prompt_id: data?.prompt_id, seq });
			}
		}
	}

	/** @param {string | undefined} promptId @param {HoldfastError} error */
	refuse(promptId, error) {
		if (promptId !== undefined) {
			this.#expected.get(promptId)?.reject(error);
			this.#expected.delete(promptId);
		}
	}

	/** No more answers will come. */
	end() {
		const words = 'The client was closed, or the session was deleted, before the server had the prompt.';
		for (const prompt_id of [...this.#expected.keys()]) {
			this.refuse(prompt_id, new HoldfastError('closed', words, { prompt_id }));
		}
	}
}
