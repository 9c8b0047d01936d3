// Feeds a session: by HTTP and over the produce socket.

import assert from 'node:assert/strict';
import { assertValid, check } from './schema.mjs';
import { TestSocket } from './socket.mjs';

const appendedBody = check.rest('appended');

/** Input events in short. */
export const input = {
	text: (text, messageId) => withMessage({ type: 'agent_message_chunk', data: { text } }, messageId),
	thought: (text) => ({ type: 'agent_thought_chunk', data: { text } }),
	tool: (id, title = id) => ({ type: 'tool_call', data: { tool_call_id: id, title, kind: 'other', status: 'pending' } }),
	toolDone: (id) => ({ type: 'tool_call_update', data: { tool_call_id: id, status: 'completed' } }),
	plan: (...contents) => ({
		type: 'plan',
		data: { entries: contents.map((content) => ({ content, priority: 'medium', status: 'pending' })) },
	}),
	end: () => ({ type: 'turn_end', data: { stop_reason: 'end_turn' } }),
	textComplete: () => ({ type: 'text_complete', data: {} }),
	sessionIdle: () => ({ type: 'session_idle', data: {} }),
	runStart: (runId) => ({ type: 'run_start', data: { run_id: runId } }),
	runEnd: (runId) => ({ type: 'run_end', data: { run_id: runId } }),
	note: (data) => ({ type: 'x-note', data }),
};

function withMessage(event, messageId) {
	return messageId === undefined ? event : { ...event, message_id: messageId };
}

/** POSTs one event or an array; resolves with {epoch, max_seq, acks} when they are on disk. */
export async function post(server, sessionId, events) {
	const answer = await server.request('POST', `/api/sessions/${sessionId}/events`, { json: events });
	assert.equal(answer.status, 200, JSON.stringify(answer.body));
	assertValid(appendedBody(answer.body));
	assert.equal(answer.body.acks.length, Array.isArray(events) ? events.length : 1);
	return answer.body;
}

export class Producer extends TestSocket {
	#ref = 0;

	/** Connects; resolves when `connected` is here. */
	static async connect(t, server, sessionId, { query = {}, ...options } = {}) {
		const path = `/api/sessions/${encodeURIComponent(sessionId)}/produce?${new URLSearchParams(query)}`;
		const producer = new Producer(t, server.ws(path), check.toProducer, options);
		await producer.waitUntil(() => producer.frames.length > 0, 'the first frame');
		return producer;
	}

	/** Sends an append and does not wait; gives its ref, for acked(). */
	async push(...events) {
		const ref = `r-${++this.#ref}`;
		await this.send('append', { events, ref });
		return ref;
	}

	/** Waits for the `appended` of a ref; resolves with its data. */
	async acked(ref) {
		const frame = await this.waitFor((f) => f.data.ref === ref);
		assert.equal(frame.type, 'appended', JSON.stringify(frame));
		return frame.data;
	}

	/** Hands a whole state over; resolves with the `appended`, which says what of it was known. */
	async handOver(messages, options = {}) {
		const ref = `r-${++this.#ref}`;
		await this.send('append_snapshot', { messages, ref, ...options });
		const data = await this.acked(ref);
		assert.equal(data.known + data.added, messages.length);
		return data;
	}

	/** Sends a frame that must be refused; resolves with the data of the error. */
	async refused(type, data) {
		const ref = `r-${++this.#ref}`;
		await this.send(type, { ...data, ref });
		const frame = await this.waitFor((f) => f.data.ref === ref);
		assert.equal(frame.type, 'error', JSON.stringify(frame));
		assert.equal(frame.data.request, type);
		return frame.data;
	}

	/** Sends an append and waits until it is on disk. */
	async append(...events) {
		const data = await this.acked(await this.push(...events));
		assert.equal(data.acks.length, events.length);
		return data;
	}
}
