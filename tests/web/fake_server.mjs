/**
 * The server's half of the observer protocol, in memory: no sockets, no time that passes by itself.
 * Frames queue up in both directions until pump() delivers them, so a test decides what is in flight
 * when a connection breaks.
 */

/** Timers that fire when a test says so. */
export class FakeTimers {
	#now = 1_000_000;
	#next = 1;
	#timers = new Map();
	setTimeout = (fn, ms) => {
		this.#timers.set(this.#next, { fn, at: this.#now + ms });
		return this.#next++;
	};
	clearTimeout = (id) => this.#timers.delete(id);
	now = () => this.#now;

	get pending() {
		return this.#timers.size;
	}

	/** The machine sleeps: the clock goes on, and nothing happens until advance(). */
	sleep(ms) {
		this.#now += ms;
	}

	/** Runs what is due in the next `ms`, in order of time; `after` runs behind each. */
	advance(ms, after = () => {}) {
		const end = this.#now + ms;
		for (;;) {
			const [id, timer] = [...this.#timers].sort((a, b) => a[1].at - b[1].at)[0] ?? [];
			if (!timer || timer.at > end) {
				break;
			}
			this.#timers.delete(id);
			this.#now = Math.max(this.#now, timer.at);
			timer.fn();
			after();
		}
		this.#now = end;
	}
}

/** What the client sees of a browser window. */
export class FakePage extends EventTarget {
	listeners = 0;
	navigator = { onLine: true };
	document = Object.assign(new EventTarget(), { visibilityState: 'visible' });

	addEventListener(type, listener) {
		this.listeners += 1;
		super.addEventListener(type, listener);
	}

	removeEventListener(type, listener) {
		this.listeners -= 1;
		super.removeEventListener(type, listener);
	}
}

const AGENT_KINDS = {
	'x-acp-modes': 'modes',
	'x-acp-models': 'models',
	'x-acp-current_mode_update': 'mode',
	'x-acp-config_option_update': 'config_options',
	'x-acp-available_commands_update': 'commands',
	'x-acp-session_info_update': 'info',
};

let epochs = 0;

export class FakeServer {
	log = [];
	epoch = `epoch${++epochs}`;
	sockets = [];
	/** Every frame a client sent, as {type, data}. */
	received = [];
	prompts = new Map();
	fetched = [];
	beforeFetch = null;
	open = null;
	reachable = true; // false: connections fail
	silent = false; // true: nothing is answered, as on a dead network path
	pageMax = 5_000;
	/** Who gets in: {expires_at, role} of each token or half of a login; null: everybody. @type {Map<string, any> | null} */
	accepts = null;
	/** The headers of the requests over HTTP. */
	headers = [];
	timers = new FakeTimers();
	page = new FakePage();

	/** What a client needs to talk to this server instead of a real one. */
	get surroundings() {
		const server = this;
		class WebSocket extends FakeSocket {
			constructor(url, protocols) {
				super(url, server, protocols);
			}
		}
		return {
			WebSocket,
			base: 'http://test/',
			timers: this.timers,
			page: this.page,
			random: () => 0,
			fetch: (url, init) => {
				server.headers.push(init.headers);
				return server.#fetch(new URL(url));
			},
		};
	}

	/** Where the agent's state stands in the log, as the real server folds it. */
	get agentState() {
		let state = {};
		for (const { type, seq, data } of this.log) {
			if (type === 'agent_started' && data.resumed !== true) {
				state = {};
			}
			if (AGENT_KINDS[type]) {
				state[AGENT_KINDS[type]] = seq;
			}
		}
		return state;
	}

	/** GET …/events of one event; `fetched` has the seqs that were asked for. */
	async #fetch({ searchParams: query }) {
		const seq = Number(query.get('after_seq')) + 1;
		this.fetched.push(seq);
		await this.beforeFetch?.(seq);
		const reset = query.get('epoch') !== this.epoch && { reset: { reason: 'epoch' } };
		return {
			ok: this.reachable,
			json: async () => ({ events: [this.log[seq - 1]], ...reset }),
		};
	}

	get socket() {
		return this.sockets.at(-1);
	}

	/** Frames of one type that clients sent, oldest first. */
	sent(type) {
		return this.received.filter((frame) => frame.type === type).map(({ data }) => data);
	}

	/** Adds events to the log and sends them to the live observers, in one frame. */
	emit(...events) {
		const added = events.map((event) => this.record(event));
		this.toAll('events', { events: added, max_seq: this.log.length, is_prompting: false });
		return added;
	}

	/** Adds an event to the log and tells nobody. */
	record({ type = 'agent_message', data = {}, ...rest } = {}) {
		const event = { seq: this.log.length + 1, type, ts: 1, turn: 1, data, ...rest };
		this.log.push(event);
		return event;
	}

	fill(count) {
		for (let i = 0; i < count; i += 1) {
			this.record({ data: { html: `<p>${this.log.length + 1}</p>` } });
		}
		return this;
	}

	toAll(type, data) {
		this.sockets.filter((socket) => socket.live).forEach((socket) => socket.queue(type, data));
	}

	/** Delivers what is in flight until nothing is. */
	pump() {
		for (let busy = true; busy;) {
			busy = this.sockets.map((socket) => socket.step()).some(Boolean);
		}
	}

	/** Lets time pass, with a network that delivers at once. */
	advance(ms) {
		this.timers.advance(ms, () => this.pump());
		this.pump();
	}

	answer(socket, { type, data }) {
		if (this.silent) {
			return;
		}
		this.received.push({ type, data });
		if (type === 'token' || (this.accepts && !socket.grant)) {
			this.#admit(socket, type === 'token' ? (data.token ?? data.login) : null);
		} else if (type === 'load_events') {
			this.#load(socket, data);
		} else if (type === 'keepalive') {
			socket.queue('keepalive_ack', {
				client_time: data.client_time,
				max_seq: this.log.length,
				epoch: this.epoch,
				is_prompting: false,
				is_running: false,
				queue_length: 0,
				status: 'idle',
			});
		} else if (type === 'prompt') {
			const duplicate = this.prompts.has(data.prompt_id);
			this.prompts.set(data.prompt_id, data.message);
			socket.queue('prompt_received', { prompt_id: data.prompt_id, seq: null, duplicate });
		}
	}

	/** What the server says of a token frame: access.md. */
	#admit(socket, token) {
		const grant = this.accepts ? this.accepts.get(token) : { role: 'admin', expires_at: null };
		if (!grant || grant.refused) {
			socket.refuse(grant?.refused ?? 'unauthorized');
		} else if (socket.grant) {
			socket.queue('token_renewed', { role: grant.role, expires_at: grant.expires_at, ...(grant.hide && { hide: grant.hide }) });
		} else {
			socket.grant = grant;
			socket.welcome();
		}
	}

	#load(socket, { after_seq, before_seq, epoch, limit = 50, follow }) {
		const page = (events, more) =>
			socket.queue('events_loaded', {
				events,
				first_seq: events[0]?.seq ?? 0,
				last_seq: events.at(-1)?.seq ?? 0,
				max_seq: this.log.length,
				total_count: this.log.length,
				epoch: this.epoch,
				prepend: false,
				is_prompting: false,
				has_more: false,
				...more,
			});
		const size = Math.min(limit, this.pageMax);
		if (before_seq !== undefined) {
			const events = this.log.slice(Math.max(0, before_seq - 1 - size), before_seq - 1);
			page(events, { prepend: true, has_more: (events[0]?.seq ?? 1) > 1 });
			return;
		}
		const open = this.open ? { open: this.open } : {};
		const reason =
			epoch !== undefined && epoch !== this.epoch
				? 'epoch'
				: after_seq > this.log.length
					? 'ahead'
					: null;
		if (after_seq === undefined || reason) {
			const events = this.log.slice(-size);
			page(events, {
				has_more: (events[0]?.seq ?? 1) > 1,
				...open,
				...(reason && { reset: { reason } }),
			});
			socket.live = true;
			return;
		}
		let at = after_seq;
		do {
			const events = this.log.slice(at, at + size);
			at += events.length;
			const more = at < this.log.length;
			page(events, { has_more: more, ...(more ? {} : open) });
		} while (follow && at < this.log.length);
		socket.live = true;
	}
}

class FakeSocket {
	readyState = 0;
	live = false;
	#server;
	#toClient = [];
	#toServer = [];

	constructor(url, server, protocols) {
		this.url = url;
		this.protocols = protocols;
		this.#server = server;
		server.sockets.push(this);
	}

	send(text) {
		this.#toServer.push(text);
	}

	/** The client closes: as with a real socket, it hears of it later. */
	close() {
		if (this.readyState < 2) {
			this.readyState = 2;
		}
	}

	/** The network breaks: what is in flight in either direction is gone. */
	break(code = 1006) {
		this.readyState = 3;
		this.live = false;
		this.onclose?.({ code, reason: '' });
	}

	queue(type, data) {
		this.#toClient.push(JSON.stringify({ type, data }));
	}

	/** The token is wrong, or no longer right. */
	refuse(code) {
		this.queue('error', { code, message: 'no' });
		this.#toClient.push(code === 'token_revoked' ? 4403 : 4401);
	}

	/** Delivers the next frame to the client, if there is one. */
	deliver() {
		const text = this.#toClient.shift();
		if (typeof text === 'number') {
			this.break(text);
			return true;
		}
		if (text !== undefined && this.readyState === 1) {
			this.onmessage?.({ data: text });
		}
		return text !== undefined;
	}

	/** One thing happens; false if there is nothing to happen. */
	step() {
		if (this.readyState === 0) {
			this.#connect();
			return true;
		}
		if (this.readyState === 2) {
			this.break(1005);
			return true;
		}
		if (this.readyState === 1 && this.#toServer.length > 0) {
			this.#server.answer(this, JSON.parse(this.#toServer.shift()));
			return true;
		}
		return this.readyState === 1 && this.deliver();
	}

	#connect() {
		const server = this.#server;
		if (!server.reachable) {
			this.break();
			return;
		}
		this.readyState = 1;
		this.onopen?.({});
		if (!server.silent && !server.accepts) {
			this.grant = { role: 'controller', expires_at: null };
			this.welcome();
		}
	}

	welcome() {
		const server = this.#server;
		this.queue('connected', {
			protocol: 1,
			session_id: 's',
			client_id: new URL(this.url).searchParams.get('client_id'),
			role: this.grant.role,
			expires_at: this.grant.expires_at,
			...(this.grant?.hide && { hide: this.grant.hide }),
			epoch: server.epoch,
			max_seq: server.log.length,
			is_running: false,
			is_prompting: false,
			last_user_prompt_id: null,
			last_user_prompt_seq: null,
			agent_state: server.agentState,
		});
	}
}
