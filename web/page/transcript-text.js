/** A session as markdown: one answer, or all of it. */
import { currentLogin } from '../client/holdfast-client.js';
import { h } from './dom.js';

const PAGE = 1000; // events of one request

/** @typedef {{seq: number, turn: number, type: string, data: any}} Event */

/**
 * The events of a session from the one after `after` to `last`, with the markdown they were made of.
 * @param {string} id @param {number} after @param {number} last @returns {Promise<Event[]>}
 */
async function eventsOf(id, after, last) {
	const login = currentLogin()?.login;
	/** @type {Event[]} */
	const events = [];
	for (let at = after; at < last; ) {
		const query = `after_seq=${at}&limit=${PAGE}&format=markdown`;
		const answer = await fetch(`api/sessions/${encodeURIComponent(id)}/events?${query}`, {
			headers: login ? { 'holdfast-login': login } : {},
		});
		const body = await answer.json();
		if (!answer.ok) {
			throw new Error(body.error?.message ?? 'the server refused');
		}
		if (body.events.length === 0) {
			break;
		}
		events.push(...body.events);
		at = events[events.length - 1].seq;
	}
	return events.filter(({ seq }) => seq <= last);
}

/** @param {Event[]} events */
function answerText(events) {
	let text = '';
	let id;
	for (const { type, data } of events) {
		if (type === 'agent_message' && typeof data.markdown === 'string') {
			text += text && id !== data.message_id ? `\n\n${data.markdown}` : data.markdown;
			id = data.message_id;
		}
	}
	return text.trim();
}

/** @param {Event} event @param {Map<string, string>} states the last one of each tool call */
function lineOf({ type, data }, states) {
	switch (type) {
		case 'user_prompt':
			return `## Prompt\n\n${data.message}`;
		case 'tool_call':
			return `**Tool:** ${data.title ?? 'a call'}: ${states.get(data.tool_call_id) ?? 'no status'}`;
		case 'file_write':
			return `**File:** wrote ${data.path}`;
		case 'turn_end':
			return data.stop_reason === 'end_turn' ? '' : `**The turn ended:** ${data.stop_reason}`;
		default:
			return '';
	}
}

/** @param {string} title @param {Event[]} events */
function transcriptText(title, events) {
	const states = new Map(
		events
			.filter(({ type, data }) => type.startsWith('tool_call') && data.status)
			.map(({ data }) => [data.tool_call_id, data.status]),
	);
	const parts = [`# ${title}`];
	/** @type {Event[]} */
	let said = [];
	const flush = () => {
		parts.push(answerText(said));
		said = [];
	};
	for (const event of events) {
		if (event.type === 'agent_message') {
			said.push(event);
		} else if (lineOf(event, states)) {
			flush();
			parts.push(lineOf(event, states));
		}
	}
	flush();
	return `${parts.filter(Boolean).join('\n\n')}\n`;
}

/** The answer in these events. @param {string} id @param {number} first @param {number} last */
export async function copyText(id, first, last) {
	return answerText(await eventsOf(id, first - 1, last));
}

/** Saves all of a session as a file. @param {import('../client/holdfast-client.js').HoldfastClient} from @param {string} title */
export async function saveTranscript(from, title) {
	const events = await eventsOf(from.sessionId, 0, from.position.seq);
	save(`${title.replace(/[^\p{L}\p{N}._ -]/gu, '_').slice(0, 80)}.md`, transcriptText(title, events));
}

/** @param {string} name @param {string} text */
function save(name, text) {
	const url = URL.createObjectURL(new Blob([text], { type: 'text/markdown' }));
	h('a', { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
