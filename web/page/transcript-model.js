/**
 * Folds events into items. Pure: an item is a list of events that are shown as one thing. Most items have one event; a tool's updates, a turn's plans, a question's answer and
 * adjacent thoughts join the item they belong to, and so do adjacent events that the token hides.
 */

/** @typedef {import('../client/holdfast-client.js').HoldfastEvent} HoldfastEvent */
/**
 * @typedef {object} Item
 * @property {'prompt' | 'message' | 'thought' | 'tool' | 'terminal' | 'plan' | 'file' | 'permission' | 'turn_end' |
 *   'notice' | 'silent' | 'hidden' | 'other'} kind
 * @property {HoldfastEvent[]} events in order of seq, never empty
 * @property {boolean} [isWhole] a long diff is shown to its end
 * @property {boolean} [isOpen] whether it was unfolded when it left the page
 */

/** @type {Record<string, Item['kind']>} */
const KINDS = {
	user_prompt: 'prompt',
	agent_message: 'message',
	agent_thought: 'thought',
	tool_call: 'tool',
	tool_call_update: 'tool',
	plan: 'plan',
	file_read: 'file',
	file_write: 'file',
	permission_request: 'permission',
	permission_resolved: 'permission',
	turn_end: 'turn_end',
	agent_started: 'notice',
	agent_stopped: 'notice',
	session_end: 'notice',
	usage: 'silent',
};

/** @param {HoldfastEvent} event @returns {Item['kind']} */
function kindOf(event) {
	if (event.redacted && event.type !== 'agent_stopped') {
		return 'hidden';
	}
	if (event.type === 'turn_end' && event.data.stop_reason === 'end_turn') {
		return 'silent';
	}
	if (event.type === 'x-acp-terminal') {
		return 'terminal';
	}
	if (event.type.startsWith('x-acp-')) {
		return 'silent';
	}
	return Object.hasOwn(KINDS, event.type) ? KINDS[event.type] : 'other';
}

export class TranscriptModel {
	/** @type {Item[]} */
	items = [];
	/** @type {Map<string, Item>} items that a later event may join */
	#joinable = new Map();

	/** @param {readonly HoldfastEvent[]} events */
	constructor(events = []) {
		events.forEach((event) => this.add(event));
	}

	/** @param {HoldfastEvent} event @returns {{item: Item, created: boolean}} */
	add(event) {
		const kind = kindOf(event);
		const key = this.#keyOf(kind, event);
		const known = this.#find(kind, key, event);
		if (known) {
			known.events.push(event);
			return { item: known, created: false };
		}
		const item = { kind, events: [event] };
		this.items.push(item);
		if (key) {
			this.#joinable.set(key, item);
		}
		return { item, created: true };
	}

	/** The item shown right before this one. @param {Item} item @returns {Item | null} */
	before(item) {
		let at = this.items.lastIndexOf(item) - 1;
		while (at >= 0 && this.items[at].kind === 'silent') {
			at -= 1;
		}
		return this.items[at] ?? null;
	}

	/** @param {Item['kind']} kind @param {HoldfastEvent} event */
	#keyOf(kind, { turn, data }) {
		switch (kind) {
			case 'tool':
				return `tool ${data.tool_call_id}`;
			case 'terminal':
				return `terminal ${data.terminal_id}`;
			case 'permission':
				return `permission ${data.request_id}`;
			case 'plan':
				return `plan ${turn}`;
			default:
				return null;
		}
	}

	/** @param {Item['kind']} kind @param {string | null} key @param {HoldfastEvent} event */
	#find(kind, key, event) {
		if (kind === 'thought') {
			const last = this.items.at(-1);
			return last?.kind === 'thought' && last.events[0].turn === event.turn ? last : null;
		}
		if (kind === 'hidden') {
			const last = this.items.findLast((item) => item.kind !== 'silent');
			return last?.kind === 'hidden' && last.events[0].turn === event.turn ? last : null;
		}
		const known = key ? this.#joinable.get(key) : null;
		// Agents number their calls again after a restart: another turn's tool_call is another call.
		const isStart = event.type === 'tool_call' || (kind === 'terminal' && 'command' in event.data);
		if (known && isStart && known.events[0].turn !== event.turn) {
			return null;
		}
		return known ?? null;
	}
}

/**
 * The tool's state after all its events: an update replaces the fields it has.
 * @param {Item} item @returns {Record<string, any>}
 */
export function toolState(item) {
	const given = item.events.flatMap(({ data }) => Object.entries(data));
	return Object.fromEntries(given.filter(([, value]) => value !== null && value !== undefined));
}
