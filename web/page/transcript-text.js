/** A session as markdown: one answer, or all of it. */
import { TranscriptModel, currentLogin, toolState } from '../client/holdfast-client.js';
import { h, lookUp } from './dom.js';
import { PendingTools } from './pending-tools.js';

const PAGE = 1000; // events of one request

/** @typedef {import('../client/holdfast-client.js').HoldfastEvent} Event */
/** @typedef {import('../client/holdfast-client.js').Item} Item */

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

/** A text on one line. @param {unknown} text */
const inLine = (text) => String(text).replace(/\s+/g, ' ').trim();

/** A path as code. One with backticks gets a longer fence. @param {unknown} path */
function asCode(path) {
	const text = inLine(path);
	const fence = '`'.repeat(1 + Math.max(0, ...(text.match(/`+/g) ?? []).map(({ length }) => length)));
	return fence === '`' ? `\`${text}\`` : `${fence} ${text} ${fence}`;
}

const STATUS_WORDS = { in_progress: 'running' };

/** A tool call: its title, files and end. @param {Item} item @param {PendingTools} pending */
function toolLine(item, pending) {
	const { title = 'a call', kind = 'other', status = 'no status', locations, content } = toolState(item);
	const name = inLine(title);
	const isKnown = kind === 'other' || name.toLowerCase().includes(kind);
	const places = [locations, content].flatMap((list) => (Array.isArray(list) ? list : [])).map((place) => place?.path);
	const paths = [...new Set(places.filter((path) => typeof path === 'string' && !name.includes(path)))];
	const words = `${isKnown ? '' : `${inLine(kind)}: `}${name}${paths.length > 0 ? ` (${paths.map(asCode).join(', ')})` : ''}`;
	return `**Tool:** ${words}: ${pending.isCut(item) ? 'not finished' : lookUp(STATUS_WORDS, status, inLine(status))}`;
}

/** @param {Item} item @param {PendingTools} pending */
function lineOf(item, pending) {
	const { type, data } = item.events[0];
	switch (item.kind) {
		case 'prompt':
			return `## Prompt\n\n${data.message}`;
		case 'tool':
			return toolLine(item, pending);
		case 'file':
			return type === 'file_write' ? `**File:** wrote ${asCode(data.path)}` : '';
		case 'turn_end':
			return `**The turn ended:** ${data.stop_reason}${data.message ? `: ${inLine(data.message)}` : ''}`;
		default:
			return '';
	}
}

/** @param {string} title @param {Event[]} events */
function transcriptText(title, events) {
	const model = new TranscriptModel();
	const pending = new PendingTools();
	for (const event of events) {
		pending.add(model.add(event).item, event);
	}
	const parts = [`# ${title}`];
	/** @type {Event[]} */
	let said = [];
	const flush = () => {
		parts.push(answerText(said));
		said = [];
	};
	for (const item of model.items) {
		const line = lineOf(item, pending);
		if (item.kind === 'message') {
			said.push(...item.events);
		} else if (line) {
			flush();
			parts.push(line);
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
