// A session as the model of a log has it, and inputs for it, drawn from all that proto/protocol.md takes.

const PIECES = [' word', ' and more of it', '\n', '\n', '\n\n', '\n\n\n', '\n- ', '\n- ', '\n  - ', '\n1. ', '\n\n```js\n', '\n```\n\n', '\n~~~\n', '\n| a | b |\n|---|---|\n| ', ' | ', ' |\n', ' **bold** ', ' **open', ' `code', '` ', '\n> ', '\n\n# ',
	' é€😀', ' <b>x</b>', '\n<div>\n', '\n\n</div>\n\n', ' [a](b "c") ', ' \\', '\n---\n', '\n===\n', '    ', '\n\n    ', '\t', ' &amp; ', ' http://example.org/a_b_c ', '\n[x]: /y\n', '*', '_', '\n\n1) ', '\n* * *\n'];

/** One session as the model has it. An incarnation lasts until the session is deleted. */
export class Session {
	#random;
	#nextToken;

	/** `nextToken()` gives a text that no other input of the story has. */
	constructor(id, random, nextToken) {
		this.#random = random;
		this.#nextToken = nextToken;
		this.id = id;
		this.begin(null);
	}

	begin(epoch) {
		this.epoch = epoch;
		this.exists = epoch !== null;
		/** All inputs, in the order in which they were sent: see input(). */
		this.inputs = [];
		/** Batches of which nobody knows whether they were taken: all of it or nothing. */
		this.unknown = [];
		this.run = null;
		this.pastRuns = [];
		this.messages = [];
		this.openTurn = false;
	}

	/**
	 * An input and what is known of it: `seq` once it was acknowledged, `sends` and `unknown` (sends of which the outcome is not
	 * known), `news` (acks that said that it was new).
	 */
	input(type, data, { keyed = this.#random.oneIn(3), messageId } = {}) {
		const token = this.#nextToken();
		const text = type.endsWith('_chunk');
		const event = { type, data: text ? { text: `${token}${data.text}` } : type === 'text_complete' || type === 'session_idle' ? {} : { ...data, tok: token } };
		if (keyed) {
			event.key = `k-${token}`;
		}
		if (messageId) {
			event.message_id = messageId;
		}
		const input = { token, event, sends: 0, unknown: 0, news: 0, seq: undefined, refused: false };
		this.inputs.push(input);
		return input;
	}

	/** As it goes out now: of the run that is under way. */
	event(input) {
		return this.run ? { ...input.event, run_id: this.run } : input.event;
	}

	chunks() {
		const random = this.#random;
		return Array.from({ length: 1 + random.below(4) }, () => {
			if (random.oneIn(6)) {
				return random.oneIn(2) ? this.note() : this.tool();
			}
			if (random.oneIn(8)) {
				return this.input('agent_thought_chunk', { text: random.pick([' thinking ', ' so ', ' hm\n']) });
			}
			this.messageId = random.oneIn(12) ? random.pick([undefined, `m${random.below(1000)}`]) : this.messageId;
			const text = Array.from({ length: random.below(4) }, () => random.pick(PIECES)).join('');
			return this.input('agent_message_chunk', { text }, { messageId: this.messageId });
		});
	}

	note(options) {
		const random = this.#random;
		const data = random.pick([{}, { n: random.below(1e9) }, { n: 0.1, deep: { list: [1, 'zwei', null, { '"': '\\' }] } }, { text: 'x'.repeat(random.below(3000)) }]);
		return this.input(`x-${random.pick(['note', 'a.b:c', 'N-1_2'])}`, data, options);
	}

	tool() {
		const random = this.#random;
		const id = `call-${random.below(5)}`;
		return random.oneIn(2)
			? this.input('tool_call', { tool_call_id: id, title: `Calling ${id}`, kind: 'other', status: 'pending', raw_input: { a: [1] } })
			: this.input('tool_call_update', { tool_call_id: id, status: random.pick(['in_progress', 'completed', 'failed']) });
	}

	usage() {
		const random = this.#random;
		const figures = { input_tokens: random.below(1000), output_tokens: random.below(100) };
		const how = random.oneIn(2) ? { mode: 'delta', ...figures } : { mode: 'cumulative_in_message', ...figures };
		return this.input('usage', how, { messageId: how.mode === 'delta' ? undefined : `u${random.below(4)}` });
	}
}
