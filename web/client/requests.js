/**
 * Unanswered requests about queued prompts. Each is sent again on every connection, after the prompts
 * themselves, until it is answered.
 */
import { HoldfastError } from './base.js';

/**
 * @typedef {object} QueuedPrompt A prompt waiting for its turn.
 * @property {string} prompt_id
 * @property {string} client_id who sent it @property {string} [name] what they called themselves
 * @property {string} message
 * @property {readonly object[]} [content]
 * @property {true} [edited]
 * @property {true} [truncated] the message is only the beginning
 */

/**
 * @typedef {object} Request
 * @property {'list_prompts' | 'edit_prompt' | 'remove_prompt'} type
 * @property {{prompt_id?: string, message?: string}} data
 * @property {(answer: any) => void} resolve @property {(error: HoldfastError) => void} reject
 */

const NO_ANSWER = 'The client was closed, or the session was deleted, before the answer came.';

/** The answer to each. @type {Record<string, Request['type']>} */
const ANSWERS = {
	prompts: 'list_prompts',
	prompt_edited: 'edit_prompt',
	prompt_removed: 'remove_prompt',
};

export class Requests {
	/** @type {Request[]} in the order sent, which is the order of the answers */
	#pending = [];
	#send;

	/** @param {(type: string, data: any) => boolean} send sends if it can; false: it never will again */
	constructor(send) {
		this.#send = send;
	}

	/** @param {string} promptId @param {string} message @returns {Promise<void>} */
	async edit(promptId, message) {
		await this.#ask('edit_prompt', { prompt_id: promptId, message });
	}

	/** @param {string} promptId @returns {Promise<{duplicate: boolean}>} */
	async remove(promptId) {
		const { duplicate } = await this.#ask('remove_prompt', { prompt_id: promptId });
		return { duplicate };
	}

	/** @param {string | undefined} promptId only this one @returns {Promise<QueuedPrompt[]>} */
	async list(promptId) {
		const data = promptId === undefined ? {} : { prompt_id: promptId };
		return (await this.#ask('list_prompts', data)).prompts;
	}

	/** On a new connection. */
	sendAll() {
		this.#pending.forEach(({ type, data }) => this.#send(type, data));
	}

	/** A frame that may be an answer. Returns the request, if it is one. */
	answer(/** @type {string} */ frameType, /** @type {any} */ data) {
		const type = Object.hasOwn(ANSWERS, frameType) ? ANSWERS[frameType] : null;
		const request = this.#take(
			(one) => one.type === type && (type === 'list_prompts' || isAbout(one, data.prompt_id)),
		);
		request?.resolve(data);
		return request;
	}

	/** An error frame. True if one of these was refused. */
	refuse(/** @type {any} */ data) {
		if (data.code === 'shutting_down') {
			return false; // the request is repeated with the next server
		}
		const request = this.#take((one) => one.type === data.request && isAbout(one, data.prompt_id));
		request?.reject(new HoldfastError(data.code, data.message, data));
		return Boolean(request);
	}

	/** The connection broke because a frame was too long: refuses the longest edit, if it is longer than this. */
	refuseLongerThan(/** @type {number} */ length, /** @type {string} */ message) {
		const lengthOf = (/** @type {Request} */ { data }) => data.message?.length ?? 0;
		const longest = Math.max(...this.#pending.map(lengthOf));
		const request = longest > length ? this.#take((one) => lengthOf(one) === longest) : null;
		request?.reject(new HoldfastError('too_large', message, { request: 'edit_prompt' }));
		return Boolean(request);
	}

	/** No more answers will come. */
	end() {
		const ended = this.#pending;
		this.#pending = [];
		ended.forEach(({ type, reject }) =>
			reject(new HoldfastError('closed', NO_ANSWER, { request: type })),
		);
	}

	/** @param {Request['type']} type @param {Request['data']} data @returns {Promise<any>} */
	#ask(type, data) {
		const answer = new Promise((resolve, reject) =>
			this.#pending.push({ type, data, resolve, reject }),
		);
		if (!this.#send(type, data)) {
			this.end();
		}
		return answer;
	}

	#take(/** @type {(request: Request) => boolean} */ isIt) {
		const index = this.#pending.findIndex(isIt);
		return index >= 0 ? this.#pending.splice(index, 1)[0] : null;
	}
}

function isAbout(/** @type {Request} */ request, /** @type {string | undefined} */ promptId) {
	return request.data.prompt_id === promptId;
}
