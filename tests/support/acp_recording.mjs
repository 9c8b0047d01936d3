// The recordings of real agents in the corpus, and what of one a client gets to see that opens one session and
// sends one prompt after the other (as the server does) while holdfast-replay-agent plays it.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { corpusFiles } from './recording.mjs';

/** A line of a recording: {by: 'client' | 'agent' | null, message, event}. */
function readEntry(text) {
	const { dir, line, event, proc } = JSON.parse(text);
	let message = null;
	try {
		message = line === undefined ? null : JSON.parse(line);
	} catch {
		// No message: some recorded clients sent half a line.
	}
	return { proc, by: { c2a: 'client', a2c: 'agent' }[dir] ?? null, message: message ?? {}, event };
}

/** A directory that goes with this process. */
function ownDir() {
	const dir = mkdtempSync(join(tmpdir(), 'holdfast-recordings-'));
	process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
	return dir;
}

/** Every recorded process: {name, path, proc, entries}. The recording at `path` is not compressed. */
export function recordedAgents() {
	const dir = ownDir();
	return corpusFiles('acp', '.jsonl').flatMap(([file, text]) => {
		const all = text.trim().split('\n').map(readEntry);
		const path = join(dir, file);
		writeFileSync(path, text);
		return [...new Set(all.map((e) => e.proc))].map((proc) => ({
			name: `${file.replace('.jsonl', '')}, process ${proc}`,
			path,
			proc,
			entries: all.filter((e) => e.proc === proc),
		}));
	});
}

const isRequest = ({ by, message }, method) => by === 'client' && message.method === method && message.id !== undefined;
const isAnswer = ({ by, message }) => by === 'agent' && message.method === undefined && message.id !== undefined;

/** The session that the client gets: the first that was made, or the one that was prompted first. */
function sessionOf(entries) {
	const made = entries.find((e) => isRequest(e, 'session/new'));
	const answer = made && entries.find((e) => isAnswer(e) && e.message.id === made.message.id);
	return answer?.message.result.sessionId ?? entries.find((e) => isRequest(e, 'session/prompt')).message.params.sessionId;
}

/**
 * What should come of it: {turns, late}. A turn is {text, thoughts, calls, end, hangs}: the joined chunks, and
 * [type, id, status] of each call, update, plan and question, in their order. `end` is its stop reason,
 * `error`, or `stopped` where the agent died. `hangs`: the recorded agent never answered. `late` is the text
 * after the last turn's end.
 */
export function expectedOf({ entries }) {
	if (!entries.some((entry) => isRequest(entry, 'session/prompt'))) {
		return { turns: [{ ...newTurn(), end: 'error' }], late: '' }; // it has no answer to a prompt
	}
	const session = sessionOf(entries);
	const turns = [];
	const open = []; // the prompts that are played and not answered: {id, end, isAnswered}
	let turn = newTurn();
	let inLoad = false;
	for (const entry of entries) {
		const { message } = entry;
		inLoad = entry.by === 'client' && message.id !== undefined && message.method
			? ['session/load', 'session/resume'].includes(message.method) : inLoad;
		if (isRequest(entry, 'session/prompt') && message.params.sessionId === session) {
			const prompt = { id: message.id, isAnswered: entries.some((e) => isAnswer(e) && e.message.id === message.id) };
			if (open.length > 0 && !open.some((p) => p.isAnswered)) {
				return { turns: [...turns, { ...turn, hangs: true }], late: '' };
			}
			if (open.length === 0 || prompt.isAnswered) {
				open.push(prompt);
			}
		} else if (isAnswer(entry) && open.some((p) => p.id === message.id)) {
			open.find((p) => p.id === message.id).end = message.error ? 'error' : message.result.stopReason;
			// A later prompt's answer that came first waits until that prompt has been sent.
			while (open[0]?.end) {
				turns.push({ ...turn, end: open.shift().end });
				turn = newTurn();
			}
		} else if (entry.event === 'exit' && open.length > 0) {
			return { turns: [...turns, { ...turn, end: 'stopped' }], late: '' };
		} else if (entry.by === 'agent' && message.params?.sessionId === session && !inLoad) {
			addTo(turn, message);
		}
	}
	return { turns, late: turn.text };
}

/** As the server takes it: what neither a C string nor UTF-8 can hold is U+FFFD. */
const asText = (text) => Buffer.from(text.replaceAll('\0', '\ufffd')).toString();

/** Halves of a character in two chunks meet, so the text is read as a whole. */
const newTurn = () => ({
	said: '', thought: '', calls: [],
	get text() {
		return asText(this.said);
	},
	get thoughts() {
		return asText(this.thought);
	},
});

function addTo(turn, { method, params }) {
	const { update } = params;
	if (method === 'session/request_permission') {
		turn.calls.push(['permission_request', params.toolCall.toolCallId, null]);
	} else if (update?.sessionUpdate === 'agent_message_chunk' && update.content.type === 'text') {
		turn.said += update.content.text;
	} else if (update?.sessionUpdate === 'agent_thought_chunk') {
		turn.thought += update.content.text;
	} else if (update && ['tool_call', 'tool_call_update', 'plan'].includes(update.sessionUpdate)) {
		turn.calls.push([update.sessionUpdate, update.toolCallId ?? null, update.status ?? null]);
	}
}
