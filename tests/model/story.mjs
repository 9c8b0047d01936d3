// One story: producers feed a few sessions in all the ways of proto/protocol.md, observers come and go, the server is killed, ended,
// its disk is full, sessions are deleted and made again. The log that must be there in the end is predicted by what was acknowledged.

import { checkSession } from './check.mjs';
import { Observer, Shown } from './observer.mjs';
import { Producer } from './producer.mjs';
import { Finding, Lost, Machine, Random, pause, until } from './rig.mjs';
import { Session } from './session.mjs';

const NDJSON = 'application/x-ndjson';
export class Story {
	#random;
	#tokens = 0;
	#under = new Set(); // what is under way
	#error = null;
	#texts = new Map(); // session -> the promise of its last text: they go out one after the other
	shown = new Shown();
	observers = [];
	log = [];

	constructor(binary, seed, { kinds }) {
		this.#random = this.random = new Random(seed);
		this.seed = seed;
		this.kinds = kinds;
		const random = this.#random;
		const limits = [
			['soft_flush_ms', random.pick([5, 50, 200])], ['hold_ms', random.pick([20, 500])], ['thought_flush_ms', random.pick([10, 500])], ['idle_block_flush_ms', random.pick([100, 30_000])], ['segment_size', random.pick(['4K', '64K', '64M'])],
			['hot_tail_size', random.pick(['1K', '256K'])], ['evict_ms', random.pick([1, 100, 30_000])], ['page_size', random.pick(['4K', '1M'])], ['journal_ahead', random.pick(['0', '16K', '1M'])], ['block_size', random.pick(['256', '64K'])],
			['journal_retry_ms', '100'], ['paragraph_flush_size', random.pick(['64', '4K'])],
		];
		this.machine = new Machine(binary, {
			disk: kinds.includes('disk') ? '12m' : null,
			args: limits.flatMap(([name, value]) => ['--limit', `${name}=${value}`]),
		});
		this.sessions = Array.from({ length: 1 + random.below(3) }, (_, n) => new Session(`s${n}`, random, () => `t${++this.#tokens}.`));
	}

	/** What happened in it, in short. */
	get told() {
		return `${this.sessions.reduce((sum, s) => sum + s.inputs.length, 0)} inputs at the end, ${this.observers.length} observers, ${this.machine.changes} ends of the server`;
	}

	/** Anything that finds a broken promise while frames come in. */
	fail(error) {
		this.#error ??= error;
	}

	#say(...words) {
		this.log.push(words.join(' '));
	}

	mayBeGone(id, epoch) {
		const session = this.sessions.find((s) => s.id === id);
		return session.deleting || !session.exists || epoch !== session.epoch;
	}

	/** Tells the story; throws a Finding. */
	async tell(steps) {
		await this.machine.up();
		for (const session of this.sessions) {
			await this.#create(session);
			session.writer = new Producer(this.machine, `/api/sessions/${session.id}/produce`, (e) => this.fail(e));
			session.second = new Producer(this.machine, `/api/sessions/${session.id}/produce`, (e) => this.fail(e));
			for (let n = this.#random.below(4); n >= 0; n--) {
				this.observers.push(new Observer(this, session.id, `o${this.observers.length}`));
			}
		}
		for (let step = 0; step < steps; step++) {
			this.#throwIfBad();
			await this.#step();
		}
		await this.#settle();
	}

	#throwIfBad() {
		if (this.machine.crashed) {
			throw new Finding(this.machine.crashed);
		}
		if (this.#error) {
			throw this.#error;
		}
	}

	async #step() {
		const random = this.#random;
		const session = random.pick(this.sessions);
		const has = (kind, weight) => (this.kinds.includes(kind) ? weight : 0);
		const action = random.weighted([
			[30, 'text'], [16, 'others'], [6, 'retry'], [2, 'conflict'], [2, 'wrong'], [has('runs', 2), 'run'], [has('runs', 1), 'fence'], [has('snapshots', 2), 'snapshot'], [4, 'end'], [2, 'usage'],
			[8, 'observe'], [5, 'drop'], [3, 'before'], [3, 'keepalive'], [1, 'dropProducer'], [has('kills', 1), 'kill'], [has('kills', 1), 'restart'], [has('deletes', 1), 'delete'], [has('disk', 2), 'disk'], [6, 'pause'], [3, 'wait'],
		]);
		this.#say(`${session.id}: ${action}`);
		switch (action) {
		case 'text': return this.#text(session, session.chunks());
		case 'end': return this.#text(session, [session.input(random.pick(['turn_end', 'text_complete', 'session_idle']), {})]);
		case 'others': return this.#others(session);
		case 'usage': return this.#append(session, [session.usage()]);
		case 'retry': return this.#retry(session);
		case 'conflict': return this.#conflict(session);
		case 'wrong': return this.#wrong(session);
		case 'run': return this.#quiet(() => this.#changeRun(session));
		case 'fence': return this.#quiet(() => this.#fence(session));
		case 'snapshot': return this.#quiet(() => this.#snapshot(session));
		case 'observe': return this.observers.forEach((o) => !o.connected && random.oneIn(2) && o.connect());
		case 'drop': return random.pick(this.observers).drop();
		case 'before': return this.observers.forEach((o) => random.oneIn(2) && o.loadBefore());
		case 'keepalive': return this.observers.forEach((o) => o.keepalive());
		case 'dropProducer': return random.pick([session.writer, session.second]).drop();
		case 'kill': return this.#restart('SIGKILL');
		case 'restart': return this.#restart('SIGTERM');
		case 'delete': return this.#quiet(() => this.#delete(session));
		case 'disk': return this.machine.full ? this.#free() : this.#fill();
		case 'pause': return pause(random.below(random.oneIn(4) ? 400 : 30));
		case 'wait': return this.#under.size > 0 && Promise.race([...this.#under]);
		}
	}

	/** Runs it while nothing else is under way. */
	async #quiet(run) {
		await this.#all();
		this.#throwIfBad();
		return run();
	}

	async #all() {
		while (this.#under.size > 0) {
			await Promise.all([...this.#under]);
		}
	}

	/** Keeps it among what is under way. */
	#start(promise) {
		const kept = promise.catch((error) => this.fail(error)).finally(() => this.#under.delete(kept));
		this.#under.add(kept);
	}

	// Sending

	/** The session's own text, one append behind the other over its writer's socket: their order is that of `inputs`. */
	#text(session, inputs) {
		inputs.forEach((i) => (i.written = true));
		const batch = this.#begin(session, inputs, 'text');
		this.#start(this.#finish(session, batch, session.writer.send('append', { events: batch.events })));
	}

	#others(session) {
		const random = this.#random;
		const inputs = Array.from({ length: 1 + random.below(random.oneIn(10) ? 60 : 4) }, () => random.weighted([[3, () => session.note()], [1, () => session.tool()]])());
		if (random.oneIn(8)) {
			const twice = inputs.find((i) => i.event.key);
			twice && inputs.push(twice);
		}
		return this.#append(session, inputs);
	}

	/** By any way in; what is under way at the same time may come before or behind it. */
	#append(session, inputs) {
		const random = this.#random;
		const how = random.pick(['socket', 'socket', 'array', 'one', 'lines', 'chunked lines']);
		const batch = this.#begin(session, how === 'one' ? inputs.slice(0, 1) : inputs, how);
		if (how === 'one') {
			inputs.slice(1).forEach((i) => (i.refused = i.sends === 0));
		}
		const path = `/api/sessions/${session.id}/events`;
		if (how === 'socket') {
			return this.#start(this.#finish(session, batch, session.second.send('append', { events: batch.events })));
		}
		const lines = batch.events.map((e) => JSON.stringify(e));
		const body = { array: `[${lines}]`, one: lines[0] }[how] ?? `${lines.join(random.oneIn(2) ? '\n' : '\n\n')}${random.oneIn(2) ? '\n' : ''}`;
		const cut = random.below(body.length);
		const options = how === 'chunked lines' ? { chunks: [body.slice(0, cut), body.slice(cut)].filter(Boolean), type: NDJSON } : { body, type: how === 'lines' ? NDJSON : undefined };
		const answer = this.machine.request('POST', path, options).then(
			({ status, body: told }) => (status === 200 ? { appended: told } : { error: { ...told.error, status } }),
			(error) => (error instanceof Lost ? { lost: true } : Promise.reject(error)));
		this.#start(this.#finish(session, batch, answer));
	}

	#begin(session, inputs, how) {
		const batch = { inputs, how, events: inputs.map((i) => session.event(i)), incarnation: session.inputs };
		inputs.forEach((i) => i.sends++);
		return batch;
	}

	async #finish(session, batch, promise) {
		const answer = await promise;
		if (batch.incarnation !== session.inputs) {
			throw new Error('the model itself is wrong: an append over a delete');
		}
		if (answer.appended) {
			return this.#acked(session, batch, answer.appended);
		}
		if (answer.lost || answer.error.outcome === 'unknown') {
			batch.inputs.forEach((i) => i.unknown++);
			session.unknown.push(batch);
			return undefined;
		}
		return this.#refused(session, batch, answer.error);
	}

	#acked(session, { inputs, how }, { acks, epoch, max_seq: max, durable }) {
		const bad = (words) => new Finding(`${session.id}, ${how}: ${words}: ${JSON.stringify(inputs.map((i) => i.event)).slice(0, 1500)} ${JSON.stringify(acks).slice(0, 600)}`);
		if (acks?.length !== inputs.length || epoch !== session.epoch || !Number.isInteger(max) || (durable ?? true) !== true) {
			throw bad(`an answer that does not fit (epoch ${epoch}, is ${session.epoch})`);
		}
		let before = 0;
		const seen = new Set();
		acks.forEach(({ seq, duplicate }, n) => {
			const input = inputs[n];
			const isEnd = /^(turn_end|text_complete|session_idle)$/.test(input.event.type); // of a turn that has ended
			const again = input.sends > 1 || seen.has(input); // of two that are under way the later one may be the first
			seen.add(input);
			if (duplicate && !isEnd && (!again || !input.event.key)) {
				throw bad(`ack ${n} says that it is a duplicate`);
			}
			if (!duplicate) {
				input.news++;
				const text = input.event.type.endsWith('_chunk');
				if (seq !== null && !text && seq <= before) { // text goes to the block that is open
					throw bad(`ack ${n} is not behind the one before it`);
				}
				before = text ? before : seq ?? before;
			}
			if (input.seq !== undefined && input.seq !== seq) {
				throw bad(`ack ${n} is ${seq}, was ${input.seq}`);
			}
			input.seq = seq;
		});
	}

	/** Only what has a reason may be refused, and then nothing of it is there (of lines: nothing from `stored` on). */
	#refused(session, batch, error) {
		const allowed = [
			['storage_failed', this.machine.everFull && 503], ['shutting_down', this.machine.changes > 0 && 503],
		];
		const [, status] = allowed.find(([code]) => code === error.code) ?? [];
		if (!status || (error.status && error.status !== status)) {
			throw new Finding(`${session.id}, ${batch.how}: refused with ${JSON.stringify(error).slice(0, 500)}: ${JSON.stringify(batch.events).slice(0, 1500)}`);
		}
		const stored = error.stored ?? 0;
		batch.inputs.slice(0, stored).forEach((i) => (i.certain = true));
		batch.inputs.forEach((i) => (i.refused = true));
		return undefined;
	}

	/** The same again, by another way: it adds nothing. */
	#retry(session) {
		const ready = session.inputs.filter((i) => i.event.key && i.sends > 0 && (i.seq !== undefined || !i.event.type.endsWith('_chunk')) && !/^(turn_end|text_complete|session_idle|user_prompt)$/.test(i.event.type));
		if (ready.length > 0) {
			return this.#append(session, [this.#random.pick(ready), ...(this.#random.oneIn(2) ? [this.#random.pick(ready)] : [])].filter((i, n, all) => all.indexOf(i) === n));
		}
		return undefined;
	}

	/** Must be refused with `code`. */
	async #mustRefuse(session, events, code) {
		const answer = await this.machine.request('POST', `/api/sessions/${session.id}/events`, { body: JSON.stringify(events) }).catch((e) => e);
		if (answer instanceof Lost || (answer.status === 503 && (this.machine.everFull || this.machine.changes > 0))) {
			return;
		}
		if (answer instanceof Error) {
			throw answer;
		}
		if (answer.status === 200 || answer.body.error.code !== code) {
			throw new Finding(`${session.id}: not refused with ${code} but ${answer.status} ${JSON.stringify(answer.body).slice(0, 400)}: ${JSON.stringify(events).slice(0, 1000)}`);
		}
	}

	#conflict(session) {
		const known = session.inputs.filter((i) => i.event.key && i.seq !== undefined);
		if (known.length > 0) {
			const { event } = this.#random.pick(known);
			const other = this.#random.pick([{ ...event, type: 'x-other', data: {} }, { ...event, data: { ...event.data, more: 1 } }, { ...event, message_id: 'm-other' }]);
			this.#start(this.#mustRefuse(session, [{ type: 'x-never', data: {}, ...(session.run && { run_id: session.run }) }, { ...other, ...(session.run && { run_id: session.run }) }], 'key_conflict'));
		}
	}

	#wrong(session) {
		const never = { type: 'x-never', data: {}, ...(session.run && { run_id: session.run }) };
		const [events, code] = this.#random.pick([
			[[never, { type: 'nonsense', data: {} }], 'unknown_type'], [[never, { type: 'tool_call', data: {} }], 'bad_request'], [[never, { ...never, key: '' }], 'bad_key'], [[never, { ...never, key: 'k'.repeat(257) }], 'bad_key'], [[], 'bad_request'], [[never, 7], 'bad_request'],
		]);
		this.#start(this.#mustRefuse(session, events, code));
	}

	// What needs to be alone

	/** Sends an event until it has an answer; nobody else sends. Resolves with the ack. */
	async #insist(session, events) {
		let uncertain = false; // an attempt before it may have been taken
		return until(async () => {
			const answer = await session.second.send('append', { events });
			if (answer.appended) {
				return { ...answer.appended, uncertain };
			}
			uncertain ||= answer.lost || answer.error.outcome === 'unknown';
			if (answer.error && !['storage_failed', 'shutting_down'].includes(answer.error.code)) {
				throw new Finding(`${session.id}: ${JSON.stringify(events)} was refused: ${JSON.stringify(answer.error)}`);
			}
			return null;
		}, `${session.id}: ${JSON.stringify(events)} to be taken`);
	}

	async #changeRun(session) {
		if (this.machine.full) {
			return;
		}
		const random = this.#random;
		if (session.run && random.oneIn(2)) {
			await this.#insist(session, [{ type: 'run_end', data: { run_id: session.run } }]);
			session.pastRuns.push(session.run);
			session.run = null;
			return;
		}
		const id = `run-${++this.#tokens}`;
		const { acks, uncertain } = await this.#insist(session, [{ type: 'run_start', data: { run_id: id } }]);
		if (acks[0].seq !== null || (acks[0].duplicate && !uncertain)) {
			throw new Finding(`${session.id}: run_start of a new run: ${JSON.stringify(acks)}`);
		}
		session.run && session.pastRuns.push(session.run);
		session.run = id;
	}

	async #fence(session) {
		const past = this.#random.pick(session.pastRuns);
		const never = { type: 'x-never', data: {} };
		const cases = [
			past && [{ ...never, run_id: past }, 'stale_run'], [{ ...never, run_id: 'run-unknown' }, 'unknown_run'], session.run && [never, 'run_active'],
		].filter(Boolean);
		const [event, code] = this.#random.pick(cases);
		await this.#mustRefuse(session, [event], code);
	}

	/** Hands over all messages so far and some new ones. */
	async #snapshot(session) {
		if (this.machine.full || session.inputs.length === 0) {
			return;
		}
		const random = this.#random;
		const added = Array.from({ length: random.below(4) }, () => this.#message(session));
		const known = session.messages.length;
		const messages = [...session.messages.map((m) => (random.oneIn(3) ? m : { ...m })), ...added.map((a) => a.message)];
		const inputs = added.flatMap((a) => a.inputs);
		const live = session.inputs.some((i) => !i.snapshot && i.event.message_id); // then the log's first messages may be others
		const skip = !live && random.oneIn(3) && known > 0 ? { skip_first: random.below(known) + 1 } : {};
		const frame = { messages, ...skip, ...(session.run && { run_id: session.run }) };
		inputs.forEach((i) => i.sends++);
		session.inputs.push(...inputs);
		let lost = 0;
		const answer = await until(async () => {
			const told = await session.second.send('append_snapshot', frame);
			lost += told.lost || told.error?.outcome === 'unknown' ? 1 : 0;
			if (told.error && !['storage_failed', 'shutting_down'].includes(told.error.code)) {
				throw new Finding(`${session.id}: a snapshot was refused: ${JSON.stringify(told.error)} ${JSON.stringify(frame).slice(0, 2000)}`);
			}
			return told.appended;
		}, `${session.id}: a snapshot to be taken`);
		session.messages.push(...added.map((a) => a.message));
		const expected = { known, added: added.length, acks: inputs.length };
		const found = { known: answer.known, added: answer.added, acks: answer.acks.length };
		if (lost === 0 && JSON.stringify(found) !== JSON.stringify(expected)) {
			throw new Finding(`${session.id}: a snapshot was answered ${JSON.stringify(found)}, not ${JSON.stringify(expected)}: ${JSON.stringify(frame).slice(0, 2000)}`);
		}
		inputs.forEach((input, n) => {
			input.news = 1;
			if (lost === 0) {
				input.seq = answer.acks[n].seq;
			} else {
				input.certain = true;
			}
		});
	}

	/** A new message, and the inputs that it stands for. */
	#message(session) {
		const random = this.#random;
		const id = `msg-${++this.#tokens}`;
		const make = (type, data) => {
			const token = `t${++this.#tokens}.`;
			const event = { type, data: data(token) };
			return { token, event: { ...event, message_id: id }, sends: 0, unknown: 0, news: 0, seq: undefined, snapshot: true };
		};
		if (random.oneIn(3)) {
			const input = make('user_prompt', (token) => ({ message: `${token} and?` }));
			return { message: { message_id: id, role: 'user', content: random.oneIn(2) ? input.event.data.message : [{ type: 'text', text: input.event.data.message }] }, inputs: [input] };
		}
		const inputs = [];
		const content = Array.from({ length: 1 + random.below(3) }, () => {
			const kind = random.pick(['text', 'thinking', 'tool_use']);
			if (kind === 'text') {
				inputs.push(make('agent_message_chunk', (token) => ({ text: `${token} said${random.pick(['', '\n', '\n\n- a\n- b'])}` })));
				return { type: 'text', text: inputs.at(-1).event.data.text };
			}
			if (kind === 'thinking') {
				inputs.push(make('agent_thought_chunk', (token) => ({ text: `${token} thought` })));
				return { type: 'thinking', thinking: inputs.at(-1).event.data.text };
			}
			inputs.push(make('tool_call', (token) => ({ tool_call_id: `use-${token}`, title: token, raw_input: { token } })));
			return { type: 'tool_use', id: inputs.at(-1).event.data.tool_call_id, name: inputs.at(-1).token, input: inputs.at(-1).event.data.raw_input };
		});
		const message = { message_id: id, role: 'assistant', content };
		if (random.oneIn(2)) {
			message.stop_reason = 'end_turn';
			inputs.push(make('turn_end', () => ({ stop_reason: 'end_turn' })));
			inputs.at(-1).anonymous = true;
		}
		return { message, inputs };
	}

	async #create(session) {
		const { status, body } = await until(async () => {
			const answer = await this.machine.request('POST', '/api/sessions', { body: JSON.stringify({ id: session.id }) }).catch((e) => (e instanceof Lost ? null : Promise.reject(e)));
			return answer && answer.status !== 503 ? answer : null;
		}, `${session.id} to be made`);
		if (status === 409 && session.maybe) { // an attempt before it whose answer was lost
			session.begin((await this.machine.request('GET', `/api/sessions/${session.id}`)).body.epoch);
		} else if (status !== 201 || body.epoch === session.lastEpoch) {
			throw new Finding(`POST /api/sessions {id: ${session.id}}: ${status} ${JSON.stringify(body)}, the one before was ${session.lastEpoch}`);
		} else {
			session.begin(body.epoch);
		}
	}

	async #delete(session) {
		if (this.machine.full) {
			this.#free();
		}
		session.deleting = true;
		await this.#check(session);
		if (this.machine.disk && this.#random.oneIn(2)) {
			this.#fill();
		}
		const status = await until(async () => {
			const answer = await this.machine.request('DELETE', `/api/sessions/${session.id}`).catch((e) => (e instanceof Lost ? null : Promise.reject(e)));
			if (this.machine.full && answer?.status === 503 && this.#random.oneIn(5)) { // either it frees room itself or somebody does
				this.#free();
			}
			return answer && answer.status !== 503 ? answer.status : null;
		}, `${session.id} to be deleted`);
		if (status !== 204) {
			throw new Finding(`DELETE of ${session.id} was answered ${status}`);
		}
		session.lastEpoch = session.epoch;
		session.exists = false;
		[session.writer, session.second].forEach((p) => p.drop());
		if (this.#random.oneIn(3) && this.kinds.includes('kills')) {
			await this.#restart('SIGKILL');
		}
		const gone = await this.machine.request('GET', `/api/sessions/${session.id}`);
		if (gone.status !== 404) {
			throw new Finding(`${session.id} was deleted (204), and GET answers ${gone.status} ${JSON.stringify(gone.body)}`);
		}
		if (this.machine.full) {
			this.#free();
		}
		await this.#create(session);
		session.deleting = false;
	}

	#fill() {
		this.machine.fill();
	}

	#free() {
		this.machine.free();
	}

	async #restart(signal) {
		if (this.machine.full && !this.kinds.includes('full starts')) {
			this.#free();
		}
		await this.machine.end(signal);
		await this.#all();
		this.#throwIfBad();
		await this.machine.up();
	}

	// The end

	async #settle() {
		this.#say('settle');
		if (this.machine.full) {
			this.#free();
		}
		await this.#all();
		this.#throwIfBad();
		for (const session of this.sessions) {
			await this.#check(session);
		}
		await this.machine.end('SIGTERM');
		const fault = this.machine.verify();
		if (fault) {
			throw new Finding(fault);
		}
		await this.machine.up();
		for (const session of this.sessions) {
			await this.#check(session);
		}
		this.#throwIfBad();
	}

	/** Ends the turn of a session that is quiet, and holds its log and its observers against what was acknowledged. */
	async #check(session) {
		await this.#insist(session, [{ type: 'text_complete', data: {}, ...(session.run && { run_id: session.run }) }]);
		const log = await this.#readLog(session);
		checkSession(session, log);
		const watching = this.observers.filter((o) => o.sessionId === session.id);
		for (const observer of watching) {
			await until(() => {
				this.#throwIfBad();
				observer.connect();
				return observer.live && observer.last === log.length && observer.epoch === session.epoch;
			}, `${observer.name} of ${session.id} to have ${log.length} events (has ${observer.last}, live: ${observer.live})`);
		}
		this.#throwIfBad();
		await this.#isIdle(session);
	}

	async #isIdle(session) {
		const { body } = await this.machine.request('GET', `/api/sessions/${session.id}`);
		if (body.is_prompting || body.status !== 'idle' || body.epoch !== session.epoch) {
			throw new Finding(`${session.id} is not idle: ${JSON.stringify(body)}`);
		}
	}

	/** The log over REST, page by page; each format is remembered as shown. */
	async #readLog(session) {
		const log = [];
		for (const format of ['html', 'markdown']) {
			log.length = 0;
			for (let more = true; more;) {
				const { status, body } = await this.machine.request('GET', `/api/sessions/${session.id}/events?after_seq=${log.length}&limit=${this.#random.pick([3, 100, 5000])}&format=${format}&epoch=${session.epoch}`);
				if (status !== 200 || body.reset || body.epoch !== session.epoch) {
					throw new Finding(`${session.id}: the log cannot be read: ${status} ${JSON.stringify({ ...body, events: undefined })}`);
				}
				body.events.forEach((event) => {
					this.shown.see(`${session.id} ${session.epoch}`, format, event);
					log.push(event);
					if (event.seq !== log.length) {
						throw new Finding(`${session.id}: event ${event.seq} stands at ${log.length}`);
					}
				});
				more = body.has_more;
			}
		}
		const highest = this.shown.highest(`${session.id} ${session.epoch}`);
		if (highest > log.length) {
			throw new Finding(`${session.id}: ${highest} was shown, the log ends at ${log.length}`);
		}
		return log;
	}
}
