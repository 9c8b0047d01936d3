/**
 * Folds events into items. Pure: an item is a list of events that are shown as one thing. Most items have one
 * event; a tool's updates, a turn's plans, a question's answer and adjacent thoughts join the item they belong
 * to, and so do adjacent events that the token hides.
 */

/** @typedef {import('./log.js').HoldfastEvent} HoldfastEvent */
/**
 * @typedef {object} Item
 * @property {'prompt' | 'message' | 'thought' | 'tool' | 'terminal' | 'plan' | 'file' | 'permission' | 'elicitation' | 'turn_end' |
 *   'content' | 'notice' | 'silent' | 'hidden' | 'other'} kind
 * @property {HoldfastEvent[]} events in order of seq, never empty
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
	elicitation_request: 'elicitation',
	elicitation_resolved: 'elicitation',
	turn_end: 'turn_end',
	agent_started: 'notice',
	agent_stopped: 'notice',
	session_end: 'notice',
	'x-acp-authenticated': 'notice',
	'x-acp-line_too_long': 'notice',
	'x-acp-line_unread': 'notice',
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
	if (event.type === 'x-acp-content' && !event.data.thought) {
		return 'content';
	}
	const otherwise = event.type.startsWith('x-acp-') ? 'silent' : 'other';
	return Object.hasOwn(KINDS, event.type) ? KINDS[event.type] : otherwise;
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
			case 'elicitation':
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

/** Cached results of toolState(), with the number of events they cover: a command's output can be thousands. @type {WeakMap<Item, {count: number, state: Record<string, any>}>} */
const states = new WeakMap();

/**
 * The tool's state after all its events: an update replaces the fields it has.
 * @param {Item} item @returns {Record<string, any>}
 */
export function toolState(item) {
	const known = states.get(item) ?? { count: 0, state: {} };
	const given = item.events.slice(known.count).flatMap(({ data }) => Object.entries(data));
	const news = Object.fromEntries(given.filter(([, value]) => value !== null && value !== undefined));
	const state = { ...known.state, ...news };
	states.set(item, { count: item.events.length, state });
	return { ...state };
}

/**
 * @typedef {object} ItemView An item as it is now; frozen, and the same object until it changes.
 * @property {number} key the seq of its first event: it stays the same while the item grows
 * @property {Item['kind']} kind
 * @property {number} [turn]
 * @property {readonly HoldfastEvent[]} events
 * @property {Record<string, any>} state the members of all its events' data; the newest value of each
 *
 * @typedef {object} Turn
 * @property {number | null} turn null: events outside a turn
 * @property {HoldfastEvent | null} prompt
 * @property {readonly ItemView[]} items
 * @property {string | null} stop_reason null: it is not over
 *
 * @typedef {object} Transcript
 * @property {readonly ItemView[]} items
 * @property {readonly Turn[]} turns
 * @property {readonly any[] | null} plan the entries of the newest one
 */

/** @param {readonly unknown[]} a @param {readonly unknown[]} b */
function areSame(a, b) {
	return a.length === b.length && a.every((one, i) => one === b[i]);
}

/** Folds the events of a client, and returns the same objects for what has not changed. */
export class TranscriptSnapshots {
	/** @type {readonly HoldfastEvent[]} */
	#events = [];
	#model = new TranscriptModel();
	/** @type {Map<number, ItemView>} by key */
	#views = new Map();
	/** @type {Map<number, Turn>} by the key of their first item */
	#turns = new Map();
	/** @type {Transcript} */
	#value = Object.freeze({ items: Object.freeze([]), turns: Object.freeze([]), plan: null });

	/** @param {readonly HoldfastEvent[]} events the same array as long as they are the same @returns {Transcript} */
	of(events) {
		if (events !== this.#events) {
			this.#follow(events);
			this.#value = this.#fold();
		}
		return this.#value;
	}

	/** @param {readonly HoldfastEvent[]} events */
	#follow(events) {
		const had = this.#events.length;
		const goesOn = had > 0 && events[0] === this.#events[0] && events[had - 1] === this.#events[had - 1];
		this.#model = goesOn ? this.#model : new TranscriptModel();
		events.slice(goesOn ? had : 0).forEach((event) => this.#model.add(event));
		this.#events = events;
	}

	/** @returns {Transcript} */
	#fold() {
		const items = Object.freeze(this.#model.items.map((item) => this.#view(item)));
		this.#views = new Map(items.map((view) => [view.key, view]));
		const turns = Object.freeze(this.#fillTurns(items));
		this.#turns = new Map(turns.map((turn) => [turn.items[0].key, turn]));
		const plan = items.findLast(({ kind }) => kind === 'plan')?.state.entries ?? null;
		return Object.freeze({ items, turns, plan });
	}

	/** @param {Item} item @returns {ItemView} */
	#view(item) {
		const [{ seq: key, turn }] = item.events;
		const known = this.#views.get(key);
		if (known && known.kind === item.kind && areSame(known.events, item.events)) {
			return known;
		}
		const events = Object.freeze([...item.events]);
		return Object.freeze({ key, kind: item.kind, turn, events, state: Object.freeze(toolState(item)) });
	}

	/** @param {readonly ItemView[]} items @returns {Turn[]} */
	#fillTurns(items) {
		/** @type {{turn: number | null, items: ItemView[]}[]} */
		const turns = [];
		for (const item of items) {
			const turn = item.turn ?? null;
			if (turns.at(-1)?.turn !== turn) {
				turns.push({ turn, items: [] });
			}
			turns.at(-1)?.items.push(item);
		}
		return turns.map(({ turn, items: own }) => {
			const known = this.#turns.get(own[0].key);
			if (known && areSame(known.items, own)) {
				return known;
			}
			const find = (/** @type {string} */ type) =>
				own.flatMap(({ events }) => events).findLast((event) => event.type === type) ?? null;
			return Object.freeze({
				turn,
				prompt: find('user_prompt'),
				items: Object.freeze(own),
				stop_reason: find('turn_end')?.data.stop_reason ?? null,
			});
		});
	}
}

/**
 * The questions that wait for an answer.
 * @param {Transcript} transcript
 */
export function openPermissions({ items }) {
	const open = items.filter(
		({ kind, events }) =>
			kind === 'permission' &&
			events[0].type === 'permission_request' &&
			!events.some(({ type }) => type === 'permission_resolved'),
	);
	return open.map(({ events: [{ seq, turn, data }] }) =>
		Object.freeze({ seq, turn, request_id: data.request_id, tool_call: data.tool_call, options: data.options }),
	);
}

/**
 * The forms and addresses that wait for an answer.
 * @param {Transcript} transcript
 */
export function openElicitations({ items }) {
	const open = items.filter(({ kind, events }) => kind === 'elicitation' && events.every(({ type }) => type === 'elicitation_request'));
	return open.map(({ events: [{ seq, turn, data }] }) => Object.freeze({ seq, turn, ...data }));
}
