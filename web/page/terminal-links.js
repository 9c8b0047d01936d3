/** Tracks which tool call shows which terminal: a command has one card, its tool's. Follows the items of one transcript. */

/** @typedef {import('../client/holdfast-client.js').Item} Item */
/** @typedef {import('../client/holdfast-client.js').HoldfastEvent} HoldfastEvent */

export class TerminalLinks {
	/** The newest item of each terminal. @type {Map<string, Item>} */
	#terminals = new Map();
	/** The newest tool call that names a terminal. @type {Map<string, Item>} */
	#tools = new Map();
	/** @type {Map<Item, Item>} the tool that shows a terminal */
	#shownBy = new Map();

	/**
	 * @param {Item} item @param {HoldfastEvent} event its newest
	 * @returns {Item[]} other items that look different now
	 */
	add(item, { data }) {
		if (item.kind === 'terminal') {
			this.#terminals.set(data.terminal_id, item);
			return this.#link(data.terminal_id).filter((other) => other !== item);
		}
		const parts = item.kind === 'tool' && Array.isArray(data.content) ? data.content : [];
		return parts
			.filter((part) => part?.type === 'terminal' && typeof part.terminal_id === 'string')
			.flatMap(({ terminal_id: id }) => {
				this.#tools.set(id, item);
				return this.#link(id).filter((other) => other !== item);
			});
	}

	/** Agents number their terminals again after a restart: another turn's is another one. @param {string} id */
	#link(id) {
		const [tool, terminal] = [this.#tools.get(id), this.#terminals.get(id)];
		const turn = terminal?.events[0].turn; // none: a producer's, before its first turn
		if (!tool || !terminal || (turn && turn !== tool.events[0].turn)) {
			return [];
		}
		this.#shownBy.set(terminal, this.#shownBy.get(terminal) ?? tool);
		return [/** @type {Item} */ (this.#shownBy.get(terminal)), terminal];
	}

	/** @param {Item} terminal */
	isShownElsewhere(terminal) {
		return this.#shownBy.has(terminal);
	}

	/** The terminal with this id, if it is this tool that shows it. @param {Item} tool @param {string} id */
	terminalOf(tool, id) {
		const terminal = this.#terminals.get(id);
		return terminal && this.#shownBy.get(terminal) === tool ? terminal : null;
	}
}
