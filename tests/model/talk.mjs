// A story with an agent: clients prompt, edit and remove what waits, cancel, answer questions at the same time, and lose their
// connections; the server is killed in the middle. In the end each prompt that was taken has had its turn, once.

import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { script } from './agent.mjs';
import { Observer, Shown } from './observer.mjs';
import { Finding, Machine, Random, pause, until } from './rig.mjs';

const AGENT = fileURLToPath(new URL('agent.mjs', import.meta.url));

export class Talk {
	#random;
	#error = null;
	#numbers = 0;
	#prompts = [];
	#answers = []; // {request_id, option_id, by} that were sent
	#late = []; // `already_resolved` that were heard
	#replies = new Map();
	#questions = new Map(); // request_id -> options, not resolved yet as far as anybody has seen
	shown = new Shown();
	observers = [];
	log = [];

	constructor(binary, seed, { kinds }) {
		this.#random = this.random = new Random(seed);
		this.kinds = kinds;
		this.machine = new Machine(binary, { disk: kinds.includes('disk') ? '12m' : null, args: ['--agent', `exec ${process.execPath} ${AGENT}`, '--limit', `evict_ms=${this.#random.pick([1, 30_000])}`, '--limit', `hold_ms=${this.#random.pick([20, 500])}`, '--limit', `segment_size=${this.#random.pick(['4K', '64M'])}`] });
	}

	/** What happened in it, in short. */
	get told() {
		return `${this.#prompts.length} prompts, ${this.turns ?? 0} turns, ${this.#answers.length} answers of which ${this.#late.length} late`;
	}

	fail(error) {
		this.#error ??= error;
	}

	mayBeGone() {
		return false;
	}

	#throwIfBad() {
		if (this.machine.crashed) {
			throw new Finding(this.machine.crashed);
		}
		if (this.#error) {
			throw this.#error;
		}
	}

	async tell(steps) {
		await this.machine.up();
		const { body } = await this.machine.request('POST', '/api/sessions', { body: '{"id":"talk"}' });
		this.epoch = body.epoch;
		for (let n = 1 + this.#random.below(3); n >= 0; n--) {
			this.observers.push(this.#client(`o${n}`));
			this.observers.at(-1).connect();
		}
		for (let step = 0; step < steps / 2; step++) {
			this.#throwIfBad();
			await this.#step();
		}
		await this.#settle();
	}

	#client(name) {
		const observer = new Observer(this, 'talk', name);
		observer.onAnswer = (frame) => this.#reply(observer, frame.type, frame.data);
		observer.onError = (data) => this.#reply(observer, 'error', data);
		observer.onEvent = ({ type, data }) => {
			if (type === 'permission_request') {
				this.#questions.set(data.request_id, data.options);
			} else if (type === 'permission_resolved') {
				this.#questions.delete(data.request_id);
			}
		};
		return observer;
	}

	#reply(observer, type, data) {
		if (data.request === 'permission_answer') {
			if (this.#isDiskFull(data)) {
				return; // the question is asked again
			}
			if (!['already_resolved', 'unknown_request'].includes(data.code)) {
				throw new Finding(`an answer was refused: ${JSON.stringify(data)}`);
			}
			this.#late.push({ ...data, client: observer.clientId });
			return;
		}
		if (data.request === 'cancel') {
			if (data.code !== 'not_prompting' && !this.#isDiskFull(data)) {
				throw new Finding(`cancel was refused: ${JSON.stringify(data)}`);
			}
			return;
		}
		const request = { prompt_received: 'prompt', prompt_edited: 'edit_prompt', prompt_removed: 'remove_prompt', error: data.request }[type];
		const settle = this.#replies.get(`${observer.name} ${request} ${data.prompt_id}`);
		if (!settle) {
			throw new Finding(`${observer.name}: an answer to nothing: ${type} ${JSON.stringify(data)}`);
		}
		this.#replies.delete(`${observer.name} ${request} ${data.prompt_id}`);
		settle(type, data);
	}

	#isDiskFull({ code }) {
		return code === 'storage_failed' && this.machine.everFull;
	}

	/** Sends a request about a prompt; `settle(type, data)` hears the answer, if one comes. */
	#ask(observer, request, data, settle) {
		const name = `${observer.name} ${request} ${data.prompt_id}`;
		if (observer.live && !this.#replies.has(name) && observer.send(request, data)) {
			this.#replies.set(name, settle);
			return true;
		}
		return false;
	}

	async #step() {
		const random = this.#random;
		const observer = random.pick(this.observers);
		const kills = this.kinds.includes('kills') ? 1 : 0;
		const action = random.weighted([[6, 'prompt'], [2, 'again'], [2, 'edit'], [2, 'remove'], [2, 'cancel'], [6, 'answer'], [8, 'observe'], [3, 'drop'], [2, 'before'], [2, 'keepalive'], [kills, 'kill'], [kills, 'restart'], [this.machine.disk ? 2 : 0, 'disk'], [12, 'pause']]);
		this.log.push(action);
		switch (action) {
		case 'prompt': return observer.live && this.#prompt(observer);
		case 'again': return this.#prompts.length > 0 && this.#send(observer, random.pick(this.#prompts));
		case 'edit': return this.#prompts.length > 0 && this.#edit(observer, this.#prompts.at(-1));
		case 'remove': return this.#prompts.length > 0 && this.#remove(observer, this.#prompts.at(-1));
		case 'cancel': return observer.live && observer.send('cancel', random.oneIn(2) || observer.last === 0 ? {} : { turn: observer.events.at(-1).turn ?? 1 });
		case 'answer': return this.#answer();
		case 'observe': return this.observers.forEach((o) => !o.connected && o.connect());
		case 'drop': return this.#drop(observer);
		case 'before': return observer.loadBefore();
		case 'keepalive': return observer.keepalive();
		case 'disk': return this.machine.full ? this.machine.free() : this.machine.fill();
		case 'kill': return this.#restart('SIGKILL');
		case 'restart': return this.#restart('SIGTERM');
		default: return pause(random.below(random.oneIn(3) ? 400 : 40));
		}
	}

	#drop(observer) {
		observer.drop();
		this.#forget(observer);
	}

	/** What was asked on a connection that is gone has no answer any more. */
	#forget(observer) {
		for (const name of this.#replies.keys()) {
			if (name.startsWith(`${observer.name} `)) {
				this.#replies.delete(name);
			}
		}
	}

	#prompt(observer) {
		const n = ++this.#numbers;
		const prompt = { id: `prompt-${n}`, messages: [`say ${n}`], senders: [], refused: 0, taken: false, firsts: 0, removed: false, mayBeRemoved: false, edited: false, seq: null };
		this.#prompts.push(prompt);
		this.#send(observer, prompt);
	}

	/** The same prompt, for the first time or again, by whoever. */
	#send(observer, prompt) {
		const sent = this.#ask(observer, 'prompt', { message: prompt.messages[0], prompt_id: prompt.id }, (type, data) => {
			const bad = (words) => new Finding(`${prompt.id}: ${words}: ${JSON.stringify(data)}, was ${JSON.stringify(prompt)}`);
			if (type === 'error') {
				if (!this.#isDiskFull(data)) {
					throw bad('refused');
				}
				prompt.refused += data.outcome === 'unknown' ? 0 : 1;
				return;
			}
			if ((data.duplicate && prompt.senders.length === 1) || (data.removed && !prompt.mayBeRemoved) || (prompt.seq !== null && data.seq !== prompt.seq)) {
				throw bad('an answer that does not fit');
			}
			// On another socket the answer to a later one may be read first.
			prompt.firsts += data.duplicate ? 0 : 1;
			if (prompt.firsts > 1) {
				throw bad('taken twice');
			}
			prompt.taken = true;
			prompt.seq = data.seq ?? prompt.seq;
		});
		if (sent) {
			prompt.senders.push(observer.clientId); // whose it is is decided by the one that arrives first
		}
	}

	#edit(observer, prompt) {
		if (prompt.editing || prompt.messages.length > 3) {
			return;
		}
		const message = `say ${++this.#numbers}`;
		if (this.#ask(observer, 'edit_prompt', { prompt_id: prompt.id, message }, (type, data) => {
			if (type === 'error') {
				if (data.code !== 'not_queued' && !this.#isDiskFull(data)) {
					throw new Finding(`edit_prompt was refused: ${JSON.stringify(data)}`);
				}
				prompt.messages = prompt.messages.filter((m) => m !== message);
			} else {
				prompt.edited = message;
				prompt.taken = true;
			}
			prompt.editing = false;
		})) {
			prompt.messages.push(message);
			prompt.editing = true; // and stays so if no answer comes: the model cannot tell then which of two edits was the later one
		}
	}

	#remove(observer, prompt) {
		if (this.#ask(observer, 'remove_prompt', { prompt_id: prompt.id }, (type, data) => {
			if (type === 'error' && data.code !== 'not_queued' && !this.#isDiskFull(data)) {
				throw new Finding(`remove_prompt was refused: ${JSON.stringify(data)}`);
			}
			prompt.removed ||= type !== 'error';
		})) {
			prompt.mayBeRemoved = true;
		}
	}

	/** Several clients answer the same question, each in its way. */
	#answer(chance = 2) {
		for (const [request_id, options] of this.#questions) {
			for (const observer of this.observers.filter((o) => o.live && this.#random.oneIn(chance))) {
				const { option_id } = this.#random.pick(options);
				if (observer.send('permission_answer', { request_id, option_id })) {
					this.#answers.push({ request_id, option_id, by: observer.clientId });
				}
			}
		}
	}

	async #restart(signal) {
		if (this.machine.full && !this.kinds.includes('full starts')) {
			this.machine.free();
		}
		await this.machine.end(signal);
		this.observers.forEach((o) => this.#forget(o));
		await pause(0);
		this.#throwIfBad();
		await this.machine.up();
	}

	async #settle() {
		this.log.push('settle');
		if (this.machine.full) {
			this.machine.free();
		}
		await until(async () => {
			this.#throwIfBad();
			this.observers.forEach((o) => !o.connected && o.connect());
			this.#answer(1);
			await pause(30);
			const { body } = await this.machine.request('GET', '/api/sessions/talk');
			return body.status === 'idle' && !body.is_prompting && this.observers.every((o) => o.live && o.last === body.max_seq && (o.state?.queue_length ?? 0) === 0);
		}, 'the turns to end');
		this.#throwIfBad();
		const { body } = await this.machine.request('GET', '/api/sessions/talk/events?after_seq=0&limit=5000&format=markdown');
		if (body.has_more || body.epoch !== this.epoch) {
			throw new Finding(`the log cannot be read: ${JSON.stringify({ ...body, events: undefined })}`);
		}
		body.events.forEach((event) => this.shown.see(`talk ${this.epoch}`, 'markdown', event));
		this.#check(body.events);
		await this.machine.end('SIGTERM');
		const fault = this.machine.verify();
		if (fault) {
			throw new Finding(fault);
		}
	}

	#check(log) {
		const bad = (words) => {
			throw new Finding(`${words}\n  the log: ${log.map((e) => `${e.seq} ${e.type} ${JSON.stringify(e.data).slice(0, 160)}`).join('\n    ')}`);
		};
		for (const prompt of this.#prompts) {
			this.#checkPrompt(prompt, log.filter((e) => e.type === 'user_prompt' && e.data.prompt_id === prompt.id), bad);
		}
		const turns = [];
		for (const event of log) {
			if (event.type === 'user_prompt') {
				if (turns.length > 0 && turns.at(-1).end === null) {
					bad(`the turn of ${turns.at(-1).prompt.data.prompt_id} has no end`);
				}
				turns.push({ prompt: event, events: [], end: null });
			} else if (event.type === 'turn_end') {
				turns.at(-1)?.end === null ? (turns.at(-1).end = event) : bad(`turn_end ${event.seq} ends nothing`);
			} else if (turns.at(-1)?.end === null) {
				turns.at(-1).events.push(event);
			} else if (!['agent_started', 'agent_stopped'].includes(event.type)) {
				bad(`event ${event.seq} is of no turn`);
			}
		}
		this.turns = turns.length;
		turns.forEach((turn) => this.#checkTurn(turn, bad));
		for (const { code, request_id, by, seq } of this.#late.filter((l) => l.code === 'already_resolved')) {
			const event = log[seq - 1];
			if (event?.type !== 'permission_resolved' || event.data.request_id !== request_id || (event.data.by ?? null) !== (by ?? null)) {
				bad(`${code} ${request_id} named ${by} at ${seq}: ${JSON.stringify(event)}`);
			}
		}
	}

	#checkPrompt(prompt, events, bad) {
		const what = JSON.stringify(prompt);
		if (events.length > 1) {
			bad(`${what} has begun ${events.length} times`);
		}
		const [event] = events;
		if (event && prompt.refused === prompt.senders.length) {
			bad(`${what} was refused, and has begun`);
		}
		if (prompt.removed ? event : prompt.taken && !event && !prompt.mayBeRemoved) {
			bad(`${what} was ${prompt.removed ? 'removed, and has begun' : 'taken, and has not begun'}`);
		}
		if (event && (!prompt.messages.includes(event.data.message) || !prompt.senders.includes(event.data.client_id) || (prompt.seq !== null && prompt.seq !== event.seq))) {
			bad(`${what} has become ${JSON.stringify(event)}`);
		}
		if (event && prompt.edited && (!event.data.edited || (!prompt.editing && event.data.message !== prompt.edited))) {
			bad(`${what} was edited, and has become ${JSON.stringify(event)}`);
		}
	}

	/** The turn has what the agent's script says: all of it, or the beginning of it if it was cut short. */
	#checkTurn({ prompt, events, end }, bad) {
		if (end === null) {
			bad(`the turn of ${prompt.data.prompt_id} has no end`);
		}
		const steps = script(Number(/\d+/.exec(prompt.data.message)[0])).filter(({ kind }) => kind !== 'pause');
		const outcomes = new Map();
		for (const request of events.filter((e) => e.type === 'permission_request')) {
			const resolved = events.filter((e) => e.type === 'permission_resolved' && e.data.request_id === request.data.request_id);
			if (resolved.length !== 1) {
				bad(`${request.data.request_id} was resolved ${resolved.length} times`);
			}
			const { outcome, option_id, by, bound_to: bound } = resolved[0].data;
			if (outcome === 'selected' && !bound && !this.#answers.some((a) => isDeepStrictEqual(a, { request_id: request.data.request_id, option_id, by }))) {
				bad(`${request.data.request_id} was answered with ${option_id} by ${by}, who has not`);
			}
			outcomes.set(request.data.tool_call.title ?? '', option_id ?? outcome);
		}
		const whole = end.data.stop_reason === 'end_turn';
		if (!whole && !['cancelled', 'agent_stopped', 'error'].includes(end.data.stop_reason)) {
			bad(`a turn has ended with ${end.data.stop_reason}`);
		}
		const said = (type, member) => events.filter((e) => e.type === type).map((e) => e.data[member]).join('');
		const text = steps.filter(({ kind }) => kind === 'text' || kind === 'permission').map((s) => (s.kind === 'text' ? s.text : `${s.token}${outcomes.get(s.token) ?? 'unanswered'}; `)).join('');
		for (const [name, wanted, found] of [
			['text', text, said('agent_message', 'markdown')], ['thoughts', steps.filter((s) => s.kind === 'thought').map((s) => s.text).join(''), said('agent_thought', 'text')],
			['tool calls', steps.filter((s) => s.kind === 'tool').map((s) => s.token).join(''), said('tool_call', 'title')],
		]) {
			const rest = wanted.startsWith(found) ? wanted.slice(found.length) : null;
			// A cut turn may end inside of what was told last, and blank lines at its end may be in no event.
			if (rest === null || (whole && /\S/.test(rest))) {
				bad(`the ${name} of ${prompt.data.prompt_id} (${prompt.data.message}, ${end.data.stop_reason}) differ:\n  script ${JSON.stringify(wanted)}\n  log    ${JSON.stringify(found)}`);
			}
		}
	}
}
