// An observer that does what proto/protocol.md tells clients to do, in all its ways, and holds every frame against what it promises.

import { isDeepStrictEqual } from 'node:util';
import WebSocket from 'ws';
import { Finding } from './rig.mjs';

/** All events that anybody was shown, ever: an event never changes, and stays for as long as its epoch. */
export class Shown {
	#events = new Map();
	#highest = new Map();

	/** @param {string} where the session's id and epoch */
	see(where, format, event) {
		const at = `${where} ${event.seq} ${format}`;
		const before = this.#events.get(at);
		if (before && !isDeepStrictEqual(before, event)) {
			throw new Finding(`an event has changed (${where}, ${format}):\n  was ${JSON.stringify(before)}\n  is  ${JSON.stringify(event)}`);
		}
		this.#events.set(at, event);
		this.#highest.set(where, Math.max(event.seq, this.highest(where)));
	}

	/** The highest seq that anybody has seen of the session so far, by epoch. */
	count(sessionId) {
		return Object.fromEntries([...this.#highest].map(([where, seq]) => [where.split(' '), seq]).filter(([[id]]) => id === sessionId).map(([[, epoch], seq]) => [epoch, seq]));
	}

	/** The highest seq that anybody has seen there. */
	highest(where) {
		return this.#highest.get(where) ?? 0;
	}
}

export class Observer {
	#ws = null;
	#story;
	#random;
	#sent = null; // the load that has not reached its end
	#deltas = new Map();
	#notices = new Map();
	#asked = 0;
	#highestOfPages = 0;
	#before = {};
	events = [];
	epoch = null;
	live = false;
	gone = false;
	state = null;
	hello = null;

	/** @param story {machine, shown, random, fail(error), mayBeGone(sessionId, epoch)} */
	constructor(story, sessionId, name) {
		this.#story = story;
		this.#random = story.random;
		this.sessionId = sessionId;
		this.name = name;
		this.format = this.#random.pick(['html', 'markdown', 'both']);
		this.deltas = this.#random.pick([null, 'text', 'html']);
		this.clientId = `c-${name}`;
	}

	get last() {
		return this.events.at(-1)?.seq ?? 0;
	}

	get connected() {
		return this.#ws !== null;
	}

	#bad(words, frame) {
		throw new Finding(`${this.name} of ${this.sessionId} (${this.format}, deltas=${this.deltas}): ${words}${frame ? `\n  ${JSON.stringify(frame).slice(0, 1500)}` : ''}`);
	}

	/** Connects, if it is not; what happens then is up to the frames. */
	connect() {
		if (this.#ws || !this.#story.machine.running) {
			return;
		}
		const { machine } = this.#story;
		const query = new URLSearchParams({ format: this.format, client_id: this.clientId, ...(this.deltas && { deltas: this.deltas }) });
		const ws = new WebSocket(`${machine.url.replace('http', 'ws')}/api/sessions/${this.sessionId}/ws?${query}`, { perMessageDeflate: false, headers: machine.auth });
		const since = machine.changes;
		this.#before = this.#story.shown.count(this.sessionId); // what others were shown before we asked
		this.#ws = ws;
		this.live = this.gone = false;
		this.hello = this.#sent = this.state = null;
		this.#highestOfPages = 0;
		this.#deltas.clear();
		this.#notices.clear();
		ws.on('error', () => {});
		ws.on('message', (data) => {
			try {
				if (this.#ws === ws) {
					const frame = JSON.parse(data);
					ws.isRefused ||= frame.type === 'error'; // behind a refusal the socket may end
					this.#take(frame);
				}
			} catch (error) {
				this.#story.fail(error);
			}
		});
		ws.on('close', (code) => {
			if (this.#ws === ws) {
				this.#ws = null;
				this.live = false;
				if (machine.changes === since && machine.running && !machine.crashed && !(code === 4404 && this.gone) && !(code === 1011 && machine.everFull) && !(code === 1013 && ws.isRefused)) {
					this.#story.fail(new Finding(`${this.name} of ${this.sessionId}: closed with ${code}, and nobody has ended anything`));
				}
			}
		});
	}

	/** The network breaks. */
	drop() {
		const ws = this.#ws;
		this.#ws = null;
		this.live = false;
		ws?.terminate();
	}

	send(type, data) {
		if (this.#ws?.readyState !== WebSocket.OPEN) {
			return false;
		}
		this.#ws.send(JSON.stringify({ type, data }));
		return true;
	}

	#take(frame) {
		const { type, data } = frame;
		if (this.hello === null) {
			return this.#first(type, data, frame);
		}
		switch (type) {
		case 'events_loaded': return this.#page(data, frame);
		case 'events': return this.#liveEvents(data, frame);
		case 'delta': return this.#delta(data, frame);
		case 'preview': return this.#provisional(data, frame);
		case 'activity': return this.#notices.set(data.seq, data);
		case 'state': return this.#stateIs(data, frame);
		case 'keepalive_ack': return this.#acknowledged(data, frame);
		case 'draining': return undefined; // a close follows
		case 'session_gone': return this.#isGone(data, frame);
		case 'error': return this.onError ? this.onError(data) : this.#bad('an error that nothing asked for', frame);
		default: return this.onAnswer ? this.onAnswer(frame) : this.#bad('a frame that nothing asked for', frame);
		}
	}

	#first(type, data, frame) {
		if (type === 'session_gone') {
			return this.#isGone(data, frame);
		}
		if (type !== 'connected' || data.session_id !== this.sessionId || data.client_id !== this.clientId) {
			this.#bad('the first frame is not `connected`', frame);
		}
		this.hello = data;
		const highest = this.#before[data.epoch] ?? 0;
		if (data.max_seq < highest) {
			this.#bad(`max_seq is ${data.max_seq}, but ${highest} was shown in this epoch`, frame);
		}
		this.#load();
	}

	#isGone(data, frame) {
		this.gone = true;
		if (!this.#story.mayBeGone(this.sessionId, this.hello?.epoch ?? null)) {
			this.#bad('session_gone, but nobody has deleted it', frame);
		}
	}

	/** Asks for what it does not have; at times for what cannot be. */
	#load() {
		const random = this.#random;
		const limit = random.pick([undefined, 1, 2, 7, 50, 500, 5000]);
		const lie = random.weighted([[20, null], [1, 'ahead'], [1, 'epoch']]);
		if (this.last === 0 && lie === null && random.oneIn(2)) {
			return this.#ask({ ...(limit && { limit }) });
		}
		const position = { after_seq: this.last, epoch: this.epoch ?? undefined };
		if (lie === 'ahead') {
			position.after_seq = this.hello.max_seq + 1_000_000 + random.below(1000);
			position.epoch = this.hello.epoch;
		} else if (lie === 'epoch') {
			position.epoch = '0123456789abcdef';
		}
		this.#ask({ ...position, ...(limit && { limit }), ...(random.oneIn(3) ? {} : { follow: true }) });
	}

	#ask(load) {
		this.#sent = JSON.parse(JSON.stringify(load));
		this.send('load_events', this.#sent);
	}

	/** Scrolls back, if there is something. */
	loadBefore() {
		const first = this.events[0]?.seq ?? 0;
		if (this.live && !this.#sent && first > 1) {
			this.#ask({ before_seq: first, epoch: this.epoch, limit: this.#random.pick([1, 3, 50, 5000]) });
		}
	}

	keepalive() {
		if (this.live) {
			this.send('keepalive', { client_time: ++this.#asked, last_seen_seq: this.last });
		}
	}

	#acknowledged(data, frame) {
		if (data.client_time > this.#asked || data.epoch !== this.hello.epoch || data.max_seq < this.#highestOfPages) {
			this.#bad('a keepalive_ack that does not fit', frame);
		}
	}

	#page(page, frame) {
		const asked = this.#sent ?? this.#bad('a page that nobody asked for', frame);
		const seqs = page.events.map((e) => e.seq);
		const limit = asked.limit ?? 50;
		if (!seqs.every((seq, n) => seq === page.first_seq + n) || page.last_seq !== (seqs.at(-1) ?? 0) || page.first_seq !== (seqs[0] ?? 0) || seqs.length > limit) {
			this.#bad(`a page whose numbers do not fit each other (limit ${limit})`, frame);
		}
		if (page.epoch !== this.hello.epoch || page.max_seq < page.last_seq || page.total_count !== page.max_seq || page.prepend !== (asked.before_seq !== undefined)) {
			this.#bad('a page that does not fit', frame);
		}
		this.#checkReset(asked, page, frame);
		this.#checkPlace(asked, page, limit, frame);
		page.events.forEach((event) => this.#see(event));
		if (page.prepend) {
			this.events.unshift(...page.events);
			this.#sent = null;
			return;
		}
		if (page.reset) {
			this.events = [];
		}
		this.epoch = page.epoch;
		page.events.forEach((event) => this.#append(event, frame));
		this.#goOn(asked, page);
	}

	#checkReset(asked, page, frame) {
		const wanted = asked.before_seq !== undefined ? (asked.epoch === page.epoch ? undefined : 'epoch')
			: asked.epoch !== undefined && asked.epoch !== page.epoch ? 'epoch' : asked.after_seq > page.max_seq ? 'ahead' : undefined;
		if (page.reset?.reason !== wanted) {
			this.#bad(`asked ${JSON.stringify(asked)}: reset is ${page.reset?.reason}, not ${wanted}`, { ...frame, data: { ...page, events: `${page.events.length} events` } });
		}
	}

	#checkPlace(asked, page, limit, frame) {
		const { events, first_seq: first, last_seq: last, max_seq: max } = page;
		const newest = asked.after_seq === undefined && asked.before_seq === undefined || page.reset;
		const from = newest ? null : asked.after_seq !== undefined ? asked.after_seq + 1 : null;
		const problems = [
			[newest && (last > max || page.has_more !== first > 1), 'the newest page is not the newest'], // what came since follows live
			[from !== null && events.length > 0 && first !== from, `it begins with ${first}, not ${from}`],
			[from !== null && page.has_more && (events.length === 0 || last >= max), 'has_more is wrong'],
			[asked.before_seq !== undefined && (last !== asked.before_seq - 1 || page.has_more !== first > 1), 'it does not end before what was asked'],
			[events.length === 0 && page.has_more, 'an empty page'],
		].filter(([wrong]) => wrong);
		if (problems.length > 0) {
			this.#bad(`asked ${JSON.stringify(asked)}: ${problems[0][1]} (limit ${limit})`, { ...frame, data: { ...page, events: `${events.length} events` } });
		}
	}

	/** After a page: is this the end of the load? */
	#goOn(asked, page) {
		const forward = asked.after_seq !== undefined && !page.reset;
		if (!forward || !page.has_more) {
			this.#sent = null;
			this.live = true;
			if (page.open) {
				this.#deltas.set(page.open.seq, { text: page.open.text ?? null });
			}
		} else if (asked.follow) {
			this.#sent = { ...asked, after_seq: page.last_seq };
		} else {
			this.#ask({ ...asked, after_seq: page.last_seq });
		}
	}

	#liveEvents({ events, max_seq }, frame) {
		if (!this.live) {
			this.#bad('live events before a load has reached its end', frame);
		}
		if (events.length === 0 || events.at(-1).seq > max_seq) {
			this.#bad('an event above max_seq, or none', frame);
		}
		events.forEach((event) => {
			this.#see(event);
			this.#append(event, frame);
		});
	}

	#see(event) {
		this.#highestOfPages = Math.max(this.#highestOfPages, event.seq);
		this.#story.shown.see(`${this.sessionId} ${this.hello.epoch}`, this.format, event);
	}

	#append(event, frame) {
		if (this.events.length > 0 && event.seq !== this.last + 1) {
			this.#bad(`event ${event.seq} comes after ${this.last}`, frame);
		}
		const growing = this.#deltas.get(event.seq);
		if (growing && typeof growing.text === 'string' && !growing.stopped && this.format !== 'html' && event.type === 'agent_message') {
			const [short, long] = [growing.text, event.data.markdown].sort((a, b) => a.length - b.length);
			if (!long.startsWith(short) || (growing.text === long && /\S/.test(long.slice(short.length)))) {
				this.#bad(`the deltas of ${event.seq} do not lead to its text: ${JSON.stringify(growing.text)}`, event);
			}
		}
		const notice = this.#notices.get(event.seq);
		if (notice && notice.type !== event.type && !this.#story.machine.everFull) {
			this.#bad(`an activity notice said that ${event.seq} will be ${notice.type}`, event);
		}
		this.#deltas.delete(event.seq);
		this.#notices.delete(event.seq);
		this.events.push(event);
		this.onEvent?.(event);
	}

	#provisional(data, frame) {
		if (!this.live || !this.deltas || data.seq <= this.last) {
			this.#bad(`${frame.type} of what is not open (live: ${this.live}, last: ${this.last})`, frame);
		}
	}

	#delta(data, frame) {
		this.#provisional(data, frame);
		const growing = this.#deltas.get(data.seq) ?? { text: '' };
		if (typeof growing.text !== 'string' || Buffer.byteLength(growing.text) !== data.offset) {
			this.#bad(`a delta that does not go on (has ${Buffer.byteLength(growing.text ?? '')} octets)`, frame);
		}
		growing.text += data.text;
		this.#deltas.set(data.seq, growing);
	}

	#stateIs(data, frame) {
		if (!this.live) {
			this.#bad('state before it is live', frame);
		}
		this.state = data;
	}
}
