/**
 * A session as AG-UI events (npm @ag-ui/core): a turn is a run. `AgUiFold` is pure; `agUiEvents()` feeds it with what a
 * client holds and gets. docs/ag-ui.md says what becomes what.
 */

/** @typedef {any} AgUiEvent */

const ENDS_WITH_ERROR = ['error', 'agent_stopped'];
const PARTS = /** @type {Record<string, 'text' | 'reasoning'>} */ ({ agent_message: 'text', agent_thought: 'reasoning' });

const pointer = (/** @type {string} */ name) => name.replaceAll('~', '~0').replaceAll('/', '~1');

/** What a tool has brought, as text. */
function resultOf(/** @type {any} */ { raw_output, content, status }) {
	if (typeof raw_output === 'string') {
		return raw_output;
	}
	const texts = (content ?? []).map((/** @type {any} */ part) => part.content?.text).filter((/** @type {any} */ text) => typeof text === 'string');
	return texts.length > 0 ? texts.join('\n') : JSON.stringify(raw_output ?? content ?? { status });
}

export class AgUiFold {
	#threadId;
	#epoch;
	/** The turn that is told; 0: none. */
	#turn = 0;
	/** What is being said: its kind, and the seq of its first event. @type {{kind: 'text' | 'reasoning', seq: number} | null} */
	#part = null;
	/** How much is told of text that still grows. */
	#open = { seq: 0, told: '' };
	/** Calls of this run: whether their arguments are told. @type {Map<string, boolean>} */
	#calls = new Map();
	#state = { plan: /** @type {any} */ (null), usage: /** @type {any} */ (null), permissions: /** @type {Record<string, any>} */ ({}) };

	/** @param {{threadId: string, epoch?: string | null}} options */
	constructor({ threadId, epoch = null }) {
		this.#threadId = threadId;
		this.#epoch = epoch;
	}

	/** The state that STATE_SNAPSHOT and STATE_DELTA tell. */
	get state() {
		return structuredClone(this.#state);
	}

	/** The same for the same turn, whenever it is told. */
	runIdOf(/** @type {number} */ turn) {
		return `${this.#epoch ? `${this.#epoch}-` : ''}turn-${turn}`;
	}

	/** An event of the session becomes these. @param {any} event @returns {AgUiEvent[]} */
	take(event) {
		/** @type {AgUiEvent[]} */
		const out = [];
		const turn = event.turn ?? 0;
		if (this.#turn && turn !== this.#turn) {
			this.#close(out);
			out.push(this.#finished({ stop_reason: 'unknown' }));
			this.#turn = 0;
		}
		if (!turn) {
			this.#note(event.redacted ? {} : event, []);
			return this.#stamped(out, event);
		}
		if (!this.#turn) {
			this.#begin(turn, out);
		}
		this.#tell(event, out);
		return this.#stamped(out, event);
	}

	/** Text of an event that is not there yet, all of it so far. @param {any} block @returns {AgUiEvent[]} */
	takeOpen({ seq, type, text }) {
		/** @type {AgUiEvent[]} */
		const out = [];
		if (this.#turn && text !== undefined && Object.hasOwn(PARTS, type)) {
			const told = this.#open.seq === seq ? this.#open.told : '';
			if (text.startsWith(told)) {
				this.#say(PARTS[type], seq, text.slice(told.length), out);
				this.#open = { seq, told: text };
			}
		}
		return out;
	}

	/** The history is another one. @returns {AgUiEvent[]} */
	reset(/** @type {string} */ reason, /** @type {string | null} */ epoch = null) {
		/** @type {AgUiEvent[]} */
		const out = [];
		if (this.#turn) {
			this.#close(out);
			out.push({ type: 'RUN_ERROR', message: 'the history of the session is another one', code: `reset_${reason}` });
		}
		this.#turn = 0;
		this.#epoch = epoch ?? this.#epoch;
		this.#state = { plan: null, usage: null, permissions: {} };
		return out;
	}

	#stamped(/** @type {AgUiEvent[]} */ out, /** @type {any} */ event) {
		return out.map((each) => ({ ...each, timestamp: event.ts }));
	}

	#begin(/** @type {number} */ turn, /** @type {AgUiEvent[]} */ out) {
		this.#turn = turn;
		this.#part = null;
		this.#calls.clear();
		out.push({ type: 'RUN_STARTED', threadId: this.#threadId, runId: this.runIdOf(turn) }, { type: 'STATE_SNAPSHOT', snapshot: this.state });
	}

	#finished(/** @type {any} */ result) {
		return { type: 'RUN_FINISHED', threadId: this.#threadId, runId: this.runIdOf(this.#turn), result };
	}

	/** What is open is closed: a run must not end before. */
	#close(/** @type {AgUiEvent[]} */ out) {
		this.#endPart(out);
		for (const [toolCallId, isTold] of this.#calls) {
			if (!isTold) {
				out.push({ type: 'TOOL_CALL_END', toolCallId });
			}
		}
		this.#calls.clear();
	}

	#idOf(/** @type {number} */ seq) {
		return `${this.runIdOf(this.#turn)}-${seq}`;
	}

	#endPart(/** @type {AgUiEvent[]} */ out) {
		if (this.#part) {
			const messageId = this.#idOf(this.#part.seq);
			out.push(...(this.#part.kind === 'text' ? [{ type: 'TEXT_MESSAGE_END', messageId }] : [{ type: 'REASONING_MESSAGE_END', messageId }, { type: 'REASONING_END', messageId }]));
			this.#part = null;
		}
	}

	#say(/** @type {'text' | 'reasoning'} */ kind, /** @type {number} */ seq, /** @type {string} */ delta, /** @type {AgUiEvent[]} */ out) {
		if (this.#part?.kind !== kind) {
			this.#endPart(out);
			this.#part = { kind, seq };
			const messageId = this.#idOf(seq);
			out.push(...(kind === 'text' ? [{ type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' }]
				: [{ type: 'REASONING_START', messageId }, { type: 'REASONING_MESSAGE_START', messageId, role: 'reasoning' }]));
		}
		if (delta) {
			out.push({ type: kind === 'text' ? 'TEXT_MESSAGE_CONTENT' : 'REASONING_MESSAGE_CONTENT', messageId: this.#idOf(this.#part.seq), delta });
		}
	}

	/** A block, of which the beginning may have been told as it grew. */
	#block(/** @type {any} */ { seq, type, data }, /** @type {AgUiEvent[]} */ out) {
		const text = data.markdown ?? data.text ?? '';
		const told = this.#open.seq === seq ? this.#open.told : '';
		this.#say(PARTS[type], seq, text.startsWith(told) ? text.slice(told.length) : '', out);
	}

	#tell(/** @type {any} */ event, /** @type {AgUiEvent[]} */ out) {
		const { seq, type, data, redacted } = event;
		if (Object.hasOwn(PARTS, type) && !redacted) {
			this.#block(event, out);
			return;
		}
		this.#endPart(out);
		if (redacted) {
			return;
		}
		if (type === 'user_prompt') {
			const messageId = this.#idOf(seq);
			out.push({ type: 'TEXT_MESSAGE_START', messageId, role: 'user' });
			if (data.message) {
				out.push({ type: 'TEXT_MESSAGE_CONTENT', messageId, delta: data.message });
			}
			out.push({ type: 'TEXT_MESSAGE_END', messageId });
		} else if (type === 'tool_call' || type === 'tool_call_update') {
			this.#tool(event, out);
		} else if (type === 'turn_end') {
			this.#end(data, out);
		} else {
			this.#note(event, out);
		}
	}

	#tool(/** @type {any} */ { seq, data }, /** @type {AgUiEvent[]} */ out) {
		const toolCallId = data.tool_call_id;
		if (!this.#calls.has(toolCallId)) {
			this.#calls.set(toolCallId, false);
			out.push({ type: 'TOOL_CALL_START', toolCallId, toolCallName: data.name ?? data.kind ?? 'tool' });
		}
		const isOver = data.status === 'completed' || data.status === 'failed';
		if (!this.#calls.get(toolCallId) && (data.raw_input != null || isOver)) {
			this.#calls.set(toolCallId, true);
			out.push({ type: 'TOOL_CALL_ARGS', toolCallId, delta: JSON.stringify(data.raw_input ?? {}) }, { type: 'TOOL_CALL_END', toolCallId });
		}
		if (isOver) {
			out.push({ type: 'TOOL_CALL_RESULT', messageId: this.#idOf(seq), toolCallId, role: 'tool', content: resultOf(data) });
		}
	}

	#end(/** @type {any} */ { stop_reason, message }, /** @type {AgUiEvent[]} */ out) {
		this.#close(out);
		out.push(ENDS_WITH_ERROR.includes(stop_reason) ? { type: 'RUN_ERROR', message: message ?? 'the agent stopped', code: stop_reason } : this.#finished({ stop_reason: stop_reason ?? 'end_turn' }));
		this.#turn = 0;
	}

	#patch(/** @type {AgUiEvent[]} */ out, /** @type {any} */ operation) {
		out.push({ type: 'STATE_DELTA', delta: [operation] });
	}

	/** What changes the state, or is the application's own. */
	#note(/** @type {any} */ { type, data }, /** @type {AgUiEvent[]} */ out) {
		if (type === 'plan' || type === 'usage') {
			this.#state[/** @type {'plan' | 'usage'} */ (type)] = data;
			this.#patch(out, { op: 'replace', path: `/${type}`, value: data });
		} else if (type === 'permission_request') {
			this.#state.permissions[data.request_id] = data;
			this.#patch(out, { op: 'add', path: `/permissions/${pointer(data.request_id)}`, value: data });
		} else if (type === 'permission_resolved' && Object.hasOwn(this.#state.permissions, data.request_id)) {
			delete this.#state.permissions[data.request_id];
			this.#patch(out, { op: 'remove', path: `/permissions/${pointer(data.request_id)}` });
		}
		if (type && !['plan', 'usage'].includes(type)) {
			out.push({ type: 'CUSTOM', name: type, value: data });
		}
	}
}

/** Older events, until the run at the beginning is whole, or one that is known is there. */
async function loadBack(/** @type {any} */ client, /** @type {(event: any) => boolean} */ isEnough) {
	while (client.hasOlder && client.events.length > 0 && !isEnough(client.events[0])) {
		const came = client.once('older');
		if (!client.loadOlder()) {
			return;
		}
		await came;
	}
}

/** The number in a run's id, if it is of this history. */
function turnOf(/** @type {string | undefined} */ runId, /** @type {AgUiFold} */ fold) {
	const turn = Number(/turn-(\d+)$/.exec(runId ?? '')?.[1] ?? 0);
	return turn && fold.runIdOf(turn) === runId ? turn : 0;
}

/** @param {any} client @param {{afterRun?: string}} [options] */
export async function* agUiEvents(client, { afterRun } = {}) {
	/** @type {{kind: string, value: any}[]} */
	const queue = [];
	let wake = () => {};
	let isOver = false;
	const add = (/** @type {string} */ kind, /** @type {any} */ value) => {
		queue.push({ kind, value });
		wake();
	};
	await client.ready();
	const fold = new AgUiFold({ threadId: client.sessionId, epoch: client.position?.epoch ?? null });
	const known = turnOf(afterRun, fold);
	await loadBack(client, (first) => (known ? (first.turn ?? 0) <= known && first.turn > 0 : first.type === 'user_prompt'));
	const ends = [
		client.on('events', (/** @type {any} */ { events }) => add('events', events)),
		client.on('open', (/** @type {any} */ { blocks }) => add('open', blocks)),
		client.on('reset', (/** @type {any} */ { reason }) => add('reset', reason)),
		client.on('status', (/** @type {any} */ { status }) => {
			isOver ||= ['closed', 'gone', 'unauthorized'].includes(status);
			wake();
		}),
	];
	add('events', client.events);
	add('open', client.open);
	try {
		while (queue.length > 0 || !isOver) {
			const next = queue.shift();
			if (!next) {
				await new Promise((resolve) => (wake = () => resolve(undefined)));
			} else if (next.kind === 'reset') {
				yield* fold.reset(next.value, client.position?.epoch);
			} else if (next.kind === 'open') {
				yield* next.value.flatMap((/** @type {any} */ block) => fold.takeOpen(block));
			} else {
				yield* next.value.filter((/** @type {any} */ { turn }) => !(known && turn && turn <= known)).flatMap((/** @type {any} */ event) => fold.take(event));
			}
		}
	} finally {
		ends.forEach((stop) => stop());
	}
}
