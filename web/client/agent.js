/**
 * The agent's state: its modes, models, options and commands. Each piece is an event. The server sends
 * the seq of the newest event of each kind; events that are not held are loaded.
 */
import { deepFreeze } from './base.js';
import { fetchAs } from './http.js';

/** @typedef {import('./log.js').HoldfastEvent} HoldfastEvent */

/** @type {Map<string, string>} */
const KINDS = new Map([
	['x-acp-modes', 'modes'],
	['x-acp-models', 'models'],
	['x-acp-current_mode_update', 'mode'],
	['x-acp-config_option_update', 'config_options'],
	['x-acp-available_commands_update', 'commands'],
	['x-acp-session_info_update', 'info'],
]);

/**
 * @typedef {object} Agent The known state of the agent; frozen.
 * @property {readonly any[]} modes {id, name, description?}
 * @property {string | null} current_mode
 * @property {any} models {current_model_id, available_models} or null
 * @property {readonly any[]} config_options {id, name, type, current_value, options?, …}
 * @property {readonly any[]} commands {name, description, input?}
 * @property {any} info the newest information from the agent about its session, or null
 */

/** @typedef {{seq: number, event: HoldfastEvent | null, isLoading?: boolean}} Piece event: the previous one, until `seq` is loaded */

/** The items of a list that have a name to call them by. @param {any} list @param {string} name */
function named(list, name) {
	return Array.isArray(list) ? list.filter((item) => typeof item?.[name] === 'string') : [];
}

export class AgentState {
	/** @type {string | null} the history that the seqs belong to */
	epoch = null;
	#around;
	#sessionId;
	#changed;
	/** @type {Map<string, Piece>} by kind */
	#pieces = new Map();
	/** @type {Agent | null} */
	#value = null;

	/**
	 * @param {{base: string | URL, fetch: typeof fetch | null, access: import('./access.js').Access}} around @param {string} sessionId
	 * @param {() => void} changed
	 */
	constructor(around, sessionId, changed) {
		this.#around = around;
		this.#sessionId = sessionId;
		this.#changed = changed;
	}

	/** @returns {Agent} */
	get value() {
		this.#value ??= this.#compute();
		return this.#value;
	}

	/** The events that make up the state. */
	get events() {
		return [...this.#pieces.values()].flatMap(({ event }) => event ?? []);
	}

	/** Takes the seqs of the frame that begins a connection. @param {any} connected */
	tell({ epoch, agent_state: seqs }) {
		const had = this.events.length;
		if (epoch !== this.epoch) {
			this.#pieces.clear();
			this.epoch = epoch;
		}
		if (seqs) {
			for (const kind of KINDS.values()) {
				this.#expect(kind, seqs[kind]);
			}
		}
		if (this.events.length !== had) {
			this.#touch();
		}
	}

	/** Takes events in order; those of another history are ignored. @param {string | null} epoch @param {readonly HoldfastEvent[]} events */
	take(epoch, events) {
		if (epoch !== this.epoch) {
			return;
		}
		let isNew = false;
		for (const event of events) {
			const kind = KINDS.get(event.type);
			if (event.type === 'agent_started' && event.data?.resumed !== true) {
				isNew = this.#forgetBefore(event.seq) || isNew;
			} else if (kind && this.#isNews(kind, event)) {
				this.#pieces.set(kind, { seq: event.seq, event });
				isNew = true;
			}
		}
		if (isNew) {
			this.#touch();
		}
	}

	/** Takes events from the cache, before anything has come from the server. @param {string} epoch @param {HoldfastEvent[]} events */
	restore(epoch, events) {
		if (this.epoch === null) {
			this.epoch = epoch;
			this.take(epoch, events.map(deepFreeze));
		}
	}

	/** Forgets everything: it may belong to another history with the same seqs. It is loaded again. */
	doubt() {
		for (const [kind, { seq }] of this.#pieces) {
			this.#pieces.set(kind, { seq, event: null });
		}
		this.#touch();
	}

	/** Loads the missing pieces, once the session's own events are here. */
	fill() {
		for (const piece of this.#pieces.values()) {
			if (piece.event?.seq !== piece.seq && !piece.isLoading) {
				void this.#fetch(piece);
			}
		}
	}

	async #fetch(/** @type {Piece} */ piece) {
		piece.isLoading = true;
		const event = await this.#load(piece.seq).catch(() => undefined);
		piece.isLoading = false; // the next connection tries again if it failed
		const kind = KINDS.get(event?.type ?? '');
		if (event?.seq === piece.seq && kind && this.#pieces.get(kind) === piece) {
			piece.event = deepFreeze(event);
			this.#touch();
		}
	}

	/** Loads one event; undefined if the server does not have it, or has another history. */
	async #load(/** @type {number} */ seq) {
		const path = `/api/sessions/${encodeURIComponent(this.#sessionId)}/events`;
		const query = { after_seq: String(seq - 1), limit: '1', epoch: this.epoch ?? '' };
		const { fetch } = this.#around;
		const response =
			fetch && (await fetchAs({ ...this.#around, fetch }, `${path}?${new URLSearchParams(query)}`));
		const page = response?.ok ? await response.json() : null;
		return page && !page.reset ? page.events[0] : undefined;
	}

	#expect(/** @type {string} */ kind, /** @type {any} */ seq) {
		const piece = this.#pieces.get(kind);
		if (!Number.isSafeInteger(seq)) {
			this.#pieces.delete(kind);
		} else if (piece?.seq !== seq) {
			this.#pieces.set(kind, { seq, event: piece?.event ?? null });
		}
	}

	#isNews(/** @type {string} */ kind, /** @type {HoldfastEvent} */ { seq }) {
		const piece = this.#pieces.get(kind);
		return !piece || piece.seq < seq || (piece.seq === seq && piece.event?.seq !== seq);
	}

	#forgetBefore(/** @type {number} */ seq) {
		const old = [...this.#pieces].filter(([, piece]) => piece.seq < seq);
		old.forEach(([kind]) => this.#pieces.delete(kind));
		return old.length > 0;
	}

	#touch() {
		this.#value = null;
		this.#changed();
	}

	/** @returns {Agent} */
	#compute() {
		const data = (/** @type {string} */ kind) => this.#pieces.get(kind)?.event?.data ?? null;
		const seq = (/** @type {string} */ kind) => this.#pieces.get(kind)?.event?.seq ?? 0;
		const current = data(seq('mode') > seq('modes') ? 'mode' : 'modes')?.current_mode_id;
		return Object.freeze({
			modes: Object.freeze(named(data('modes')?.available_modes, 'id')),
			current_mode: typeof current === 'string' ? current : null,
			models: data('models'),
			config_options: Object.freeze(named(data('config_options')?.config_options, 'id')),
			commands: Object.freeze(named(data('commands')?.available_commands, 'name')),
			info: data('info'),
		});
	}
}
