/**
 * Tracks which tool calls and commands will not report their end: their turn is over, or their agent is gone. A late update still
 * counts. Follows the items of one transcript.
 */

/** @typedef {import('../client/holdfast-client.js').Item} Item */
/** @typedef {import('../client/holdfast-client.js').HoldfastEvent} HoldfastEvent */

const OPEN = ['pending', 'in_progress', 'running']; // agents have other words too, for what is over
/** Events that end a call. A command can outlive its turn, but not its agent. */
const ENDS = {
	tool: ['turn_end', 'agent_stopped', 'agent_started', 'session_end'],
	terminal: ['agent_stopped', 'agent_started', 'session_end'],
};

export class PendingTools {
	/** @type {Set<Item>} */
	#open = new Set();
	/** @type {WeakSet<Item>} */
	#cut = new WeakSet();

	/**
	 * @param {Item} item @param {HoldfastEvent} event its newest
	 * @returns {Item[]} other items that look different now
	 */
	add(item, event) {
		if (item.kind === 'tool' || item.kind === 'terminal') {
			this.#note(item, event.data.status);
			return [];
		}
		const ended = [...this.#open].filter(({ kind }) => ENDS[/** @type {'tool' | 'terminal'} */ (kind)].includes(event.type));
		for (const one of ended) {
			this.#open.delete(one);
			this.#cut.add(one);
		}
		return ended;
	}

	/** @param {Item} item @param {unknown} status */
	#note(item, status) {
		if (status === undefined && item.events.length > 1) {
			return; // unchanged
		}
		this.#cut.delete(item);
		OPEN.includes(String(status ?? 'pending')) ? this.#open.add(item) : this.#open.delete(item);
	}

	/** @param {Item} item */
	isCut(item) {
		return this.#cut.has(item);
	}
}
