/**
 * Everything that this client sends in its session: prompts, changes to queued prompts, answers, settings.
 * Frames that must not be lost are sent again on each connection until the server has confirmed them.
 */
import { HoldfastError } from './base.js';
import { Outbox } from './outbox.js';
import { Receipts } from './receipts.js';
import { Requests } from './requests.js';

/* The delay before resending an answer that the server could not store. */
const AGAIN_MS = 2_000;

/** @typedef {import('./log.js').HoldfastEvent} HoldfastEvent */
/** @typedef {import('./outbox.js').PendingPrompt} PendingPrompt */

/**
 * @typedef {object} Link
 * @property {(type: string, data: any) => boolean} say sends now or never: false if not connected
 * @property {(type: string, data: any) => void} send does nothing before begin() was called on this connection,
 *   which sends everything pending
 * @property {NonNullable<import('./base.js').Surroundings['timers']>} timers
 * @property {() => boolean} isOver there will be no other connection
 * @property {() => void} changed called when the prompts have changed
 */

export class Participant {
	#clientId;
	#link;
	#outbox;
	#requests;
	#receipts = new Receipts();
	#again = null;

	/** @param {string} clientId @param {Link} link */
	constructor(clientId, link) {
		this.#clientId = clientId;
		this.#link = link;
		this.#outbox = new Outbox(() => link.changed());
		this.#requests = new Requests((type, data) => {
			link.send(type, data);
			return !link.isOver();
		});
	}

	/** @returns {readonly PendingPrompt[]} */
	get prompts() {
		return this.#outbox.prompts;
	}

	/** A new connection: sends everything that the server may not have. */
	begin() {
		this.#stopAgain();
		this.#outbox.unsent.forEach((prompt) => this.#sendPrompt(prompt));
		this.#requests.sendAll();
		this.#outbox.answers.forEach(({ type, data }) => this.#link.send(type, data));
	}

	/** @param {string} promptId @param {string} message @param {object[]} [content] */
	prompt(promptId, message, content = []) {
		const receipt = this.#receipts.expect(promptId);
		if (this.#outbox.addPrompt(promptId, message, content)) {
			this.#sendPrompt({ prompt_id: promptId, message, content });
		}
		return receipt;
	}

	editPrompt(/** @type {string} */ promptId, /** @type {string} */ message) {
		return this.#requests.edit(promptId, message);
	}

	removePrompt(/** @type {string} */ promptId) {
		return this.#requests.remove(promptId);
	}

	listPrompts(/** @type {string | undefined} */ promptId) {
		return this.#requests.list(promptId);
	}

	answerPermission(/** @type {string} */ requestId, /** @type {string} */ optionId) {
		this.#answer('permission_answer', { request_id: requestId, option_id: optionId });
	}

	/** @param {string} requestId @param {string} action @param {object} [content] */
	answerElicitation(requestId, action, content) {
		this.#answer('elicitation_answer', { request_id: requestId, action, ...(content && { content: structuredClone(content) }) });
	}

	/* The next five concern the present moment and are never stored for later. */

	/** @param {HoldfastEvent} [newest] its turn is the one to stop, if that is not over */
	cancel(newest) {
		const { turn, type } = newest ?? {};
		return this.#link.say('cancel', turn && type !== 'turn_end' ? { turn } : {});
	}

	setMode(/** @type {string} */ modeId) {
		return this.#link.say('set_mode', { mode_id: modeId });
	}

	setModel(/** @type {string} */ modelId) {
		return this.#link.say('set_model', { model_id: modelId });
	}

	/** @param {string} configId @param {string | boolean} value */
	setConfigOption(configId, value) {
		return this.#link.say('set_config_option', { config_id: configId, value });
	}

	authenticate(/** @type {string} */ methodId) {
		return this.#link.say('authenticate', { method_id: methodId });
	}

	/** The server has this prompt on disk. @param {any} data @param {number} last the newest event held */
	received(data, last) {
		this.#outbox.confirmPrompt(data.prompt_id, data.seq ?? null, data.removed);
		this.#outbox.settleUpTo(last);
		this.#receipts.take(data);
	}

	/** A frame that may be an answer to something asked here. */
	answered(/** @type {string} */ type, /** @type {any} */ data) {
		if (this.#requests.answer(type, data)?.type === 'remove_prompt') {
			this.#outbox.dropPrompt(data.prompt_id);
			this.#receipts.take({ ...data, removed: true });
		}
	}

	/** Prompts that wait no more have begun, or were removed: the server is asked. @param {readonly {prompt_id: string}[]} [queue] */
	doubt(queue) {
		this.#outbox.doubt(queue).forEach((prompt) => this.#sendPrompt(prompt));
	}

	/** These events are held now: everything that they confirm is done. */
	settle(/** @type {HoldfastEvent[]} */ events) {
		this.#outbox.settle(events);
		this.#receipts.settle(events);
	}

	settleUpTo(/** @type {number} */ last) {
		this.#outbox.settleUpTo(last);
	}

	/** Another history: everything confirmed in the old one is unconfirmed again. */
	reset() {
		this.#outbox.reset();
	}

	/** An error frame. Returns the error to emit; null if there is none, or if it rejects a promise. */
	refuse(/** @type {any} */ data) {
		if (data.outcome === 'unknown' && data.request === 'prompt') {
			this.#sayAgain(); // it may have been stored: the same id never counts twice
			return new HoldfastError(data.code, data.message, { ...data, retrying: true });
		}
		if (data.request === 'prompt' && data.code !== 'shutting_down') {
			return this.#refusePrompt(data.prompt_id, data.code, data.message);
		}
		if (this.#requests.refuse(data)) {
			return null;
		}
		const isAnswer = data.request === 'permission_answer' || data.request === 'elicitation_answer';
		if (isAnswer && data.code === 'storage_failed') {
			this.#sayAgain();
			const detail = { ...data, retrying: true };
			return this.#outbox.keepAnswer(data.request_id)
				? new HoldfastError(data.code, data.message, detail)
				: null;
		}
		if (isAnswer && data.code !== 'shutting_down') {
			this.#outbox.endAnswer(data.request_id);
			if (data.code === 'already_resolved' && data.by === this.#clientId) {
				return null; // the answer that was sent on an earlier connection
			}
		}
		return new HoldfastError(data.code, data.message, data);
	}

	/** The connection broke because a frame was too long: refuses the longest. Returns the error, as above. */
	refuseLongest() {
		const words = 'The message is too long for the server.';
		const longest = this.#outbox.longestUnsent;
		return this.#requests.refuseLongerThan(longest?.message.length ?? 0, words)
			? null
			: this.#refusePrompt(longest?.prompt_id, 'too_large', words);
	}

	/** No more answers will come. */
	end() {
		this.#stopAgain();
		this.#requests.end();
		this.#receipts.end();
	}

	#sayAgain() {
		this.#again ??= this.#link.timers.setTimeout(() => {
			this.#again = null;
			this.#outbox.unsent.forEach((prompt) => this.#sendPrompt(prompt));
			this.#outbox.answers.forEach(({ type, data }) => this.#link.send(type, data));
		}, AGAIN_MS);
	}

	#stopAgain() {
		this.#link.timers.clearTimeout(this.#again);
		this.#again = null;
	}

	/** @param {string | undefined} promptId @param {string} code @param {string} message */
	#refusePrompt(promptId, code, message) {
		const prompt = this.#outbox.takeBack(promptId);
		const error = new HoldfastError(code, message, { request: 'prompt', prompt });
		this.#receipts.refuse(prompt?.prompt_id ?? promptId, error);
		return error;
	}

	/** @param {{prompt_id: string, message: string, content?: readonly object[]}} prompt */
	#sendPrompt({ prompt_id, message, content }) {
		this.#link.send('prompt', { message, prompt_id, ...(content?.length && { content }) });
	}

	#answer(/** @type {string} */ type, /** @type {any} */ data) {
		this.#outbox.addAnswer({ type, data });
		this.#link.send(type, data);
	}
}
