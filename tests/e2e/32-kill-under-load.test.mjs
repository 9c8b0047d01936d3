// kill -9 at random moments, while four producers append and four observers watch. HOLDFAST_KILL_ROUNDS sets how often;
// the random moments are made from HOLDFAST_KILL_SEED.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../support/log.mjs';
import { Observer } from '../support/observer.mjs';
import { Producer, input } from '../support/producer.mjs';
import { randomNumbers } from '../support/recording.mjs';
import { Server } from '../support/server.mjs';
import { eventually, patience } from '../support/wait.mjs';

const ROUNDS = Number(process.env.HOLDFAST_KILL_ROUNDS ?? 15);
const SESSIONS = 2;

/** What one producer says: notes that are told apart, text that only joins, and batches of both. */
function inputsOf(producer, n, random) {
	const note = () => input.note({ producer, n: n.next++, text: 'x'.repeat(random(300)) });
	const kind = random(6);
	return kind === 0 ? [input.text(`- item ${n.next}\n`)]
		: kind === 1 ? [note(), input.text(`\nA line of text.\n\n`), note()]
			: kind === 2 ? Array.from({ length: 1 + random(20) }, note)
				: [note()];
}

/** Waits until so many more inputs have been acknowledged: however fast the machine is, the server is killed in the middle of work. */
function worked(producers, count) {
	const sum = () => producers.reduce((n, { acked }) => n + acked.length, 0);
	const goal = sum() + count;
	return eventually(() => sum() >= goal, `${count} inputs to be acknowledged`);
}

/** Appends without waiting for the answers, until its socket is gone. */
async function produce(producer, state, random) {
	const waiting = new Map();
	const take = () => {
		for (const frame of producer.frames.splice(0)) {
			const events = waiting.get(frame.data.ref);
			if (events) {
				assert.equal(frame.type, 'appended', JSON.stringify(frame));
				waiting.delete(frame.data.ref);
				events.forEach((event, i) => state.acked.push({ event, seq: frame.data.acks[i].seq }));
			}
		}
	};
	while (!producer.closed) {
		if (waiting.size < 16) {
			const events = inputsOf(state.name, state.n, random);
			// What cannot be sent any more is not waited for.
			await producer.push(...events).then((ref) => waiting.set(ref, events), () => producer.waitClosed());
		}
		take();
		await new Promise((resolve) => setImmediate(resolve));
	}
	take();
}

const isNote = (event) => event.type === 'x-note';

test(`nothing is lost, doubled or renumbered in ${ROUNDS} kills under load`, { timeout: 1000 * (60 + ROUNDS * 5) * patience }, async (t) => {
	const random = randomNumbers(Number(process.env.HOLDFAST_KILL_SEED ?? 1));
	const server = await Server.start(t, { args: ['--limit', 'segment_size=64K'] });
	const ids = [];
	for (let i = 0; i < SESSIONS; i++) {
		ids.push((await server.createSession()).id);
	}
	const producers = [0, 1, 2, 3].map((name) => ({ name, id: ids[name % SESSIONS], n: { next: 0 }, acked: [] }));
	const observers = [0, 1, 2, 3].map((i) => ({ id: ids[i % SESSIONS], held: [], epoch: null, query: { format: 'markdown', ...(i > 1 && { deltas: 'text' }) } }));
	let killed = 0;
	for (; killed < ROUNDS; killed++) {
		const watching = await Promise.all(observers.map(async (o) => {
			const observer = await Observer.connect(t, server, o.id, o);
			await observer.loadAll();
			assert.deepEqual(observer.resets, []);
			return observer;
		}));
		const sockets = await Promise.all(producers.map((p) => Producer.connect(t, server, p.id)));
		const producing = producers.map((p, i) => produce(sockets[i], p, random));
		await worked(producers, random(400));
		await new Promise((resolve) => setTimeout(resolve, random(30)));
		await server.kill9();
		await Promise.all([...producing, ...watching.map((o) => o.waitClosed())]);
		watching.forEach((observer, i) => {
			observers[i].held = observer.events();
			observers[i].epoch = observer.epoch;
		});
		await server.restart();
	}
	const logs = Object.fromEntries(ids.map((id) => [id, readLog(server, id)]));
	for (const { id, held } of observers) {
		assert.deepEqual(logs[id].slice(0, held.length), held, 'what was shown stands in the log as it was shown');
		assert.ok(held.length > ROUNDS, `${held.length} events were shown`);
	}
	for (const { name, id, acked, n } of producers) {
		const notes = acked.filter(({ event }) => isNote(event));
		assert.ok(notes.length > ROUNDS, `${notes.length} notes of producer ${name} were acknowledged`);
		for (const { event, seq } of notes) {
			// A note behind an open list is in the log once the list ends; then it has this number.
			const logged = logs[id][seq - 1];
			assert.deepEqual(logged ? { type: logged.type, data: logged.data } : event, event, `seq ${seq}`);
		}
		const seen = logs[id].filter((e) => isNote(e) && e.data.producer === name).map((e) => e.data.n);
		assert.deepEqual(seen, [...new Set(seen)].sort((a, b) => a - b), 'each once, in its order');
		assert.ok(seen.at(-1) < n.next);
	}
	// What is still open or held comes out in the end, under the numbers that were acknowledged.
	for (const id of ids) {
		await (await Producer.connect(t, server, id)).append(input.end());
		const log = readLog(server, id);
		for (const { event, seq } of producers.filter((p) => p.id === id).flatMap((p) => p.acked).filter((a) => isNote(a.event))) {
			assert.deepEqual(log[seq - 1].data, event.data, `seq ${seq}`);
		}
	}
	t.diagnostic(`${killed} kills; ${producers.map((p) => p.acked.length).join(', ')} inputs acknowledged; ${observers.map((o) => o.held.length).join(', ')} events shown`);
});
