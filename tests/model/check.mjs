// The model of a log: what it must have, by what was sent and acknowledged (proto/protocol.md, docs/blocks.md).

import { isDeepStrictEqual } from 'node:util';
import { Finding } from './rig.mjs';

const TOKEN = /t\d+\./g;
const ENDS = ['turn_end', 'text_complete', 'session_idle'];

/** Which events hold which token: of text where it begins, for a block may be cut anywhere; of all else in `data.tok` or its words. */
function findTokens(log) {
	const places = new Map();
	const add = (token, event) => places.set(token, [...(places.get(token) ?? []), event]);
	for (const [type, member] of [['agent_message', 'markdown'], ['agent_thought', 'text']]) {
		const events = log.filter((e) => e.type === type);
		const starts = [];
		let joined = '';
		for (const { data } of events) {
			starts.push(joined.length);
			joined += data[member];
		}
		let n = 0;
		for (const match of joined.matchAll(TOKEN)) {
			while (starts[n + 1] <= match.index) {
				n++;
			}
			add(match[0], events[n]);
		}
	}
	for (const event of log.filter(({ type }) => type !== 'agent_message' && type !== 'agent_thought')) {
		const { type, data } = event;
		const words = { user_prompt: data.message, tool_call: data.tok ?? data.title }[type] ?? data.tok ?? '';
		(words.match(TOKEN) ?? []).forEach((token) => add(token, event));
	}
	return places;
}

/** Holds the log of a session, all of whose text has been emitted, against its inputs. Throws a Finding. */
export function checkSession(session, log) {
	const bad = (words) => {
		throw new Finding(`${session.id} (${session.epoch}): ${words}`);
	};
	const places = findTokens(log);
	const known = new Set(session.inputs.map((i) => i.token));
	for (const [token, events] of places) {
		if (!known.has(token)) {
			bad(`the log has ${token}, which is of another life: ${JSON.stringify(events[0])}`);
		}
	}
	for (const input of session.inputs) {
		checkInput(input, places.get(input.token) ?? [], log, bad);
	}
	checkBatches(session, places, bad);
	checkText(session, log, places, bad);
	checkUsage(log, bad);
	checkTurns(session, log, bad);
}

function isText(type) {
	return type === 'agent_message_chunk' || type === 'agent_thought_chunk';
}

function checkInput(input, found, log, bad) {
	const { event, token, seq, unknown, certain } = input;
	const what = `${token} (${JSON.stringify(event).slice(0, 600)}; seq ${seq}, sent ${input.sends}, unknown ${unknown})`;
	if (ENDS.includes(event.type) && !event.data.tok) {
		return;
	}
	if (found.length > 1) {
		bad(`${what} is there ${found.length} times: ${JSON.stringify(found).slice(0, 1500)}`);
	}
	const acked = seq !== undefined;
	if (event.type === 'usage') {
		if (acked && (seq === null ? found.length > 0 : found[0]?.seq !== seq)) {
			bad(`${what} is at ${found[0]?.seq}`);
		}
		return;
	}
	if (event.type === 'turn_end') { // a second end of a turn is none
		if (found.length > 0 && acked && found[0].seq !== seq) {
			bad(`${what} is at ${found[0].seq}`);
		}
		return;
	}
	if ((acked || certain) && found.length === 0) {
		bad(`${what} was acknowledged, and is lost; at its seq is ${JSON.stringify(log[seq - 1]).slice(0, 900)}`);
	}
	if (!acked && !certain && unknown === 0 && found.length > 0) {
		bad(`${what} was refused or never sent, and is there: ${JSON.stringify(found[0]).slice(0, 600)}`);
	}
	if (found.length === 0) {
		return;
	}
	if (acked && found[0].seq !== seq) {
		bad(`${what} is at ${found[0].seq}: ${JSON.stringify(log[seq - 1]).slice(0, 600)}`);
	}
	if (input.news > 1) {
		bad(`${what} was new ${input.news} times`);
	}
	checkContent(input, found[0], what, bad);
}

function checkContent({ event, snapshot }, found, what, bad) {
	const type = { agent_message_chunk: 'agent_message', agent_thought_chunk: 'agent_thought' }[event.type] ?? event.type;
	if (found.type !== type) {
		bad(`${what} has become ${found.type}`);
	}
	// A thought goes on in one that is open, whose message it may not be of.
	if (event.message_id !== undefined && found.message_id !== event.message_id && !['usage', 'agent_thought_chunk'].includes(event.type)) {
		bad(`${what} has message_id ${found.message_id}`);
	}
	const text = isText(event.type);
	const same = snapshot ? Object.keys(event.data).every((name) => isDeepStrictEqual(found.data[name], event.data[name])) : isDeepStrictEqual(found.data, event.data);
	if (!text && !same) {
		bad(`${what} has become ${JSON.stringify(found).slice(0, 900)}`);
	}
}

/** What was sent as one is there as one, or not at all; of lines, up to some line. */
function checkBatches(session, places, bad) {
	for (const { inputs, how } of session.unknown) {
		const alone = inputs.filter((i) => i.sends === 1 && !['usage', ...ENDS].includes(i.event.type));
		const there = alone.map((i) => places.has(i.token));
		const lines = how.endsWith('lines');
		if (lines ? there.some((is, n) => is && !there.slice(0, n).every(Boolean)) : new Set(there).size > 1) {
			bad(`an append (${how}) without an answer is there in part: ${JSON.stringify(alone.map((i, n) => [i.event, there[n]])).slice(0, 2000)}`);
		}
	}
}

/** Joined, the markdown of a turn is the text that was sent; blank lines at its end may be missing. The same of thoughts. */
function checkText(session, log, places, bad) {
	const there = (input) => input.seq !== undefined || input.certain || places.has(input.token);
	const written = session.inputs.filter(there).filter((i) => i.written || i.snapshot);
	const sent = written.filter((i) => i.event.type === 'agent_message_chunk').map((i) => i.event.data.text).join('');
	let at = 0;
	for (const { type, data, seq } of log) {
		if (type === 'agent_message') {
			if (!sent.startsWith(data.markdown, at)) {
				bad(`the text is not what was sent, from event ${seq} on:\n  sent ${JSON.stringify(sent.slice(Math.max(0, at - 100), at + 300))}\n  has  ${JSON.stringify(data.markdown.slice(0, 300))} behind ${JSON.stringify(sent.slice(Math.max(0, at - 100), at))}`);
			}
			at += data.markdown.length;
		} else if (type === 'turn_end' || type === 'user_prompt') {
			at += /^\s*/.exec(sent.slice(at))[0].length; // blank lines at the end of a turn may belong to no event
		}
	}
	if (/\S/.test(sent.slice(at))) {
		bad(`the end of the text is missing: ${JSON.stringify(sent.slice(at, at + 300))}`);
	}
	checkEnds(written, bad);
	const thoughts = session.inputs.filter(there).filter((i) => i.event.type === 'agent_thought_chunk').map((i) => i.event.data.text).join('');
	const thought = log.filter((e) => e.type === 'agent_thought').map((e) => e.data.text).join('');
	if (thoughts !== thought) {
		bad(`the thoughts differ:\n  sent ${JSON.stringify(thoughts).slice(0, 1500)}\n  has  ${JSON.stringify(thought).slice(0, 1500)}`);
	}
}

/** What was sent before an end of the turn is before it, what was sent after it is behind it. */
function checkEnds(written, bad) {
	let ended = 0;
	let highest = 0;
	for (const { event, seq, news, token } of written) {
		if (isText(event.type) && seq !== undefined) {
			if (seq <= ended) {
				bad(`${token} at ${seq} was sent behind the end of the turn at ${ended}`);
			}
			highest = Math.max(highest, seq);
		} else if (ENDS.includes(event.type) && news > 0 && Number.isInteger(seq)) {
			if (seq <= highest) {
				bad(`the end of the turn at ${seq} was sent behind text at ${highest}`);
			}
			ended = seq;
		}
	}
}

/** Each `usage` event has the total after it: the sum of deltas, and of each message its highest figure. */
function checkUsage(log, bad) {
	const sums = {};
	const messages = new Map();
	for (const event of log.filter((e) => e.type === 'usage')) {
		const { mode, total } = event.data;
		for (const name of ['input_tokens', 'output_tokens']) {
			const figure = event.data[name];
			if (mode === 'delta') {
				sums[name] = (sums[name] ?? 0) + figure;
			} else {
				const at = `${event.message_id} ${name}`;
				sums[name] = (sums[name] ?? 0) + Math.max(0, figure - (messages.get(at) ?? 0));
				messages.set(at, Math.max(figure, messages.get(at) ?? 0));
			}
			if ((total[name] ?? 0) !== sums[name]) {
				bad(`the total of ${name} at ${event.seq} is ${total[name]}, not ${sums[name]}: ${JSON.stringify(event)}`);
			}
		}
	}
}

/** Turns are numbered from 1, an end ends one, and `ts` never goes back. */
function checkTurns(session, log, bad) {
	let turn = 0;
	let ts = 0;
	let ended = false;
	for (const event of log) {
		const { type, turn: own } = event;
		if (own !== undefined && own !== turn && own !== turn + 1) {
			bad(`turn ${own} comes after ${turn}: ${JSON.stringify(event).slice(0, 400)}`);
		}
		if (own !== undefined && own === turn && ended) {
			bad(`turn ${own} goes on after its end: ${JSON.stringify(event).slice(0, 400)}`);
		}
		if (own === turn + 1) {
			ended = false;
		}
		turn = own ?? turn;
		ended ||= type === 'turn_end';
		if (event.ts < ts) {
			bad(`ts goes back at ${event.seq}: ${event.ts} after ${ts}`);
		}
		ts = event.ts;
	}
}
