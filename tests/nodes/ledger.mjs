// What clients were told, by all nodes together: whatever one was shown or had acknowledged, nobody may be told otherwise.

import assert from 'node:assert/strict';

/** A session, as all who watch and feed it know it. */
export class Ledger {
	epoch = null;
	#shown = new Map(); // by format: the texts of the events, by seq
	#acks = new Map(); // by key: {seq, event}
	/** The highest seq that anybody was promised. */
	most = 0;

	constructor(id) {
		this.id = id;
	}

	inEpoch(epoch) {
		this.epoch ??= epoch;
		assert.equal(epoch, this.epoch, `${this.id} has another epoch`);
	}

	/** Somebody was told that there are so many events. */
	promise(seq) {
		this.most = Math.max(this.most, seq);
	}

	/** Somebody was shown an event. */
	show(format, event, where) {
		if (!this.#shown.has(format)) {
			this.#shown.set(format, []);
		}
		const texts = this.#shown.get(format);
		const text = JSON.stringify(event);
		texts[event.seq] ??= text;
		assert.equal(text, texts[event.seq], `${this.id}: event ${event.seq} is another one at ${where}`);
		this.promise(event.seq);
	}

	/** An event with a key was acknowledged. */
	acknowledge(event, { seq }, where) {
		const known = this.#acks.get(event.key);
		assert.ok(!known || known.seq === seq, `${this.id}: ${event.key} has seq ${seq} at ${where}, and had ${known?.seq}`);
		this.#acks.set(event.key, { seq, event });
	}

	get acknowledged() {
		return this.#acks.size;
	}

	/** At the end: `events` is the whole log, as markdown. Every key is there once, where it was acknowledged. */
	check(events) {
		assert.deepEqual(events.map(({ seq }) => seq), events.map((_, at) => at + 1), `${this.id}: the numbers of the log`);
		assert.ok(events.length >= this.most, `${this.id}: ${this.most} events were told of, ${events.length} are there`);
		const places = placesOf(events);
		for (const [key, { seq, event }] of this.#acks) {
			if (event.type !== 'turn_end') {
				const found = places.get(key) ?? [];
				assert.deepEqual(found.length, 1, `${this.id}: ${key} is in events ${found.join(', ') || 'nowhere'}, and should be in ${seq}`);
				if (event.type === 'x-note') {
					assert.deepEqual([found[0], events[seq - 1].data], [seq, event.data], `${this.id}: ${key}`);
				}
			}
			places.delete(key);
		}
		assert.deepEqual([...places.keys()], [], `${this.id}: keys that nobody has acknowledged`);
	}
}

/** In which events each key is: of a note as its data, of text as a word. */
function placesOf(events) {
	const places = new Map();
	const put = (key, seq) => places.set(key, [...(places.get(key) ?? []), seq]);
	for (const { seq, type, data } of events) {
		if (type === 'x-note') {
			put(data.key, seq);
		} else if (type === 'agent_message') {
			[...data.markdown.matchAll(/[\w-]+:\d+/g)].forEach(([key]) => put(key, seq));
		}
	}
	return places;
}
