/** Texts below the transcript, in toasts and for screen readers. */
import { lookUp } from './dom.js';

const SAID_MAX = 600;

const HELD = {
	tool_call: 'A tool call',
	tool_call_update: 'A tool update',
	plan: 'A plan',
	agent_thought: 'A thought',
	file_read: 'Reading a file',
	file_write: 'Writing a file',
};

/** @param {{code: string, message: string}} error */
export function errorText({ code, message }) {
	if (code === 'already_resolved') {
		return 'The question has already been answered.';
	}
	const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}`;
	return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

/** @param {number} seq the last event that is held */
export function lostText(seq) {
	return seq > 0 ? `Connection lost. After reconnecting, the session continues after event ${seq}.` : '';
}

/** @param {readonly any[]} held inputs that wait for a block to end @param {string} what the kind of block */
export function hintText(held, what) {
	/** All notices about one tool call count as one. @type {Map<any, any>} */
	const waiting = new Map();
	for (const notice of held) {
		const key = notice.data?.tool_call_id ?? notice.seq;
		waiting.set(key, waiting.get(key) ?? notice);
	}
	if (waiting.size === 0) {
		return '';
	}
	if (waiting.size > 1) {
		return `${waiting.size} things are waiting for the ${what} to end`;
	}
	const [{ type, data }] = waiting.values();
	const detail = data?.title ?? data?.path;
	return `${lookUp(HELD, type, 'Something')} is waiting for the ${what} to end${detail ? `: ${detail}` : ''}`;
}

/** @param {string} html */
function textOf(html) {
	const { body } = new DOMParser().parseFromString(html, 'text/html');
	return (body.textContent ?? '').trim();
}

/** The text that a screen reader speaks for a new event; empty for most. @param {any} event */
export function spokenText({ type, data, redacted }) {
	if (redacted) {
		return '';
	}
	switch (type) {
		case 'agent_message':
			return (
				data.html === undefined ? String(data.markdown ?? '') : textOf(data.html)
			).slice(0, SAID_MAX);
		case 'permission_request':
			return `The agent asks for permission: ${data.tool_call?.title ?? 'a tool call'}`;
		case 'permission_resolved':
			if (data.outcome !== 'selected') {
				return 'The question was withdrawn';
			}
			return data.bound_to === undefined
				? 'The question was answered'
				: 'The question got the same answer as before';
		case 'elicitation_request':
			return `The agent asks: ${data.message}`;
		case 'tool_call':
			return `Tool: ${data.title ?? 'a call'}`;
		case 'turn_end':
			return data.stop_reason === 'end_turn' ? 'The agent has finished' : 'The turn has ended';
		default:
			return '';
	}
}
