// An ACP agent that keeps its sessions on disk and goes on with them: node remembering_agent.mjs DIR [seed]. It says
// words that it never says twice, writes down each message before or after it has said it, and is made to be killed
// at any moment. What it tells of its history comes in one piece or in many, and at times behind the answer,
// with pauses, unless there is a file `at-once`. On a busy machine a pause may last longer than a server has to wait
// (proto/protocol.md, "How a replay is compared"): it then ends, as if it were killed.

import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { randomNumbers } from './recording.mjs';

const [dir, seed = '1'] = process.argv.slice(2);
const random = randomNumbers(Number(seed) + process.pid);
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const PAUSE_MAX_MS = 1200; // the server waits 1500
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const fileOf = (sessionId) => join(dir, `${sessionId}.jsonl`);
const words = join(dir, 'words');
let cancelled = false;

/** A number that no process of this agent has had; no two of them run at once. */
function next(sessionId) {
	const path = `${words}-${sessionId}`;
	const n = existsSync(path) ? Number(readFileSync(path, 'utf8')) + 1 : 1;
	writeFileSync(`${path}.new`, `${n}`);
	renameSync(`${path}.new`, path); // whoever is killed here leaves the old number or the new one
	return n;
}

function update(sessionId, sessionUpdate, data) {
	send({ method: 'session/update', params: { sessionId, update: { sessionUpdate, ...data } } });
}

const chunk = (sessionId, kind, text, messageId) => update(sessionId, kind, { content: { type: 'text', text }, ...messageId && { messageId } });

async function say(sessionId, entry) {
	const remember = () => appendFileSync(fileOf(sessionId), `${JSON.stringify(entry)}\n`);
	const first = random(2) === 0;
	if (first) {
		remember();
	}
	for (const word of entry.text.split(/(?<=\s)/)) {
		chunk(sessionId, entry.kind, word, entry.messageId);
		if (random(3) === 0) {
			await pause(random(12));
		}
	}
	if (!first) {
		remember();
	}
}

function callTool(sessionId, toolCallId) {
	update(sessionId, 'tool_call', { toolCallId, title: 'Looking', kind: 'read', status: 'pending' });
	appendFileSync(fileOf(sessionId), `${JSON.stringify({ toolCallId })}\n`);
	update(sessionId, 'tool_call_update', { toolCallId, status: 'completed' });
}

async function prompt(id, { sessionId, prompt: blocks }) {
	cancelled = false;
	appendFileSync(fileOf(sessionId), `${JSON.stringify({ kind: 'user_message_chunk', text: blocks.map((b) => b.text).join('') })}\n`);
	for (let count = 1 + random(4); count > 0 && !cancelled; count--) {
		const n = next(sessionId);
		const text = Array.from({ length: 1 + random(15) }, (_, i) => `w${n}.${i}`).join(' ');
		const kind = random(4) === 0 ? 'agent_thought_chunk' : 'agent_message_chunk';
		await say(sessionId, { kind, text: `${text}\n\n`, messageId: Number(seed) % 2 === 0 ? `m${n}` : undefined });
		if (random(2) === 0) {
			callTool(sessionId, `t${n}`);
		}
	}
	send({ id, result: { stopReason: cancelled ? 'cancelled' : 'end_turn' } });
}

async function load(id, { sessionId }) {
	if (!existsSync(fileOf(sessionId))) {
		send({ id, error: { code: -32002, message: 'no such session' } });
		return;
	}
	const entries = readFileSync(fileOf(sessionId), 'utf8').split('\n').filter(Boolean).map(JSON.parse);
	const isLate = !existsSync(join(dir, 'at-once')) && random(2) === 0;
	const answerAt = isLate ? random(entries.length + 1) : entries.length;
	let told = Date.now();
	for (const [i, { kind, text, messageId, toolCallId }] of entries.entries()) {
		if (i === answerAt) {
			send({ id, result: null });
		}
		if (i >= answerAt && random(4) === 0) {
			await pause([120, 600][random(2)]);
		}
		if (i >= answerAt && Date.now() - told > PAUSE_MAX_MS) {
			process.exit(1);
		}
		told = Date.now();
		if (toolCallId) {
			update(sessionId, 'tool_call', { toolCallId, title: 'Looking', status: 'completed' });
			continue;
		}
		const trimmed = random(2) === 0 ? text.trimEnd() : text;
		// Without names only whole messages can be told from each other.
		const pieces = messageId && random(3) === 0 ? trimmed.split(/(?<=\s)/) : [trimmed];
		pieces.forEach((piece) => chunk(sessionId, kind, piece, messageId));
	}
	if (answerAt === entries.length) {
		send({ id, result: null });
	}
}

for await (const line of createInterface({ input: process.stdin })) {
	const { id, method, params } = JSON.parse(line);
	if (method === 'initialize') {
		send({ id, result: { protocolVersion: 1, agentCapabilities: { loadSession: true }, agentInfo: { name: 'remembering', version: '1' } } });
	} else if (method === 'session/new') {
		const sessionId = `s${process.pid}-${Date.now()}`;
		writeFileSync(fileOf(sessionId), '');
		send({ id, result: { sessionId } });
	} else if (method === 'session/load') {
		load(id, params);
	} else if (method === 'session/prompt') {
		prompt(id, params);
	} else if (method === 'session/cancel') {
		cancelled = true;
	} else if (id !== undefined) {
		send({ id, error: { code: -32601, message: 'Method not found' } });
	}
}
