/** The transcript as markdown: one answer to the clipboard, all of it to a file. And printing, which needs every element. */
import { currentLogin } from '../client/holdfast-client.js';
import { $, h, icon, writeClipboard } from './dom.js';

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

/**
 * @param {{client: () => import('../client/holdfast-client.js').HoldfastClient | null, title: () => string, tell: (message: string) => void,
 *   showAll: () => void}} page
 */
export function handleReading({ client, title, tell, showAll }) {
	const attempt = async (/** @type {() => Promise<void>} */ what) => {
		try {
			await what();
		} catch (error) {
			tell(`This did not work. ${error instanceof Error ? error.message : ''}`);
		}
	};
	$('#transcript').addEventListener('click', (/** @type {any} */ { target }) => {
		const button = target.closest('[data-action="copy-answer"]');
		const from = client();
		if (button && from) {
			void attempt(() => copyAnswer(from, Number(button.dataset.turn), button));
		}
	});
	$('#export').addEventListener('click', () => {
		const from = client();
		if (from) {
			void attempt(async () => {
				const events = await eventsOf(from.sessionId, 0, from.position.seq);
				save(`${title().replace(/[^\p{L}\p{N}._ -]/gu, '_').slice(0, 80)}.md`, transcriptText(title(), events));
			});
		}
	});
	window.addEventListener('beforeprint', showAll);
	window.addEventListener('keydown', (event) => {
		const from = client();
		if (event.key?.toLowerCase() === 'p' && (event.ctrlKey || event.metaKey) && !event.shiftKey && from?.hasOlder) {
			event.preventDefault(); // paper has the whole transcript, and not only what is loaded
			void loadAll(from).then(() => window.print());
		}
	});
}

/** @param {import('../client/holdfast-client.js').HoldfastClient} from @param {number} turn @param {HTMLElement} button */
async function copyAnswer(from, turn, button) {
	const seqs = from.events.filter((event) => event.turn === turn).map(({ seq }) => seq);
	const events = await eventsOf(from.sessionId, seqs[0] - 1, seqs[seqs.length - 1]);
	await writeClipboard(answerText(events));
	button.replaceChildren(icon('check'), h('span', {}, 'Copied'));
	setTimeout(() => button.replaceChildren(icon('copy'), h('span', {}, 'Copy answer')), 1600);
}

/** @param {import('../client/holdfast-client.js').HoldfastClient} from */
async function loadAll(from) {
	while (from.hasOlder) {
		const loaded = new Promise((done) => {
			const off = [from.on('older', () => done(off.forEach((each) => each()))), from.on('status', () => done(off.forEach((each) => each())))];
		});
		from.loadOlder(PAGE);
		await loaded;
		if (from.status.status !== 'live') {
			return;
		}
	}
}

/** @param {string} name @param {string} text */
function save(name, text) {
	const url = URL.createObjectURL(new Blob([text], { type: 'text/markdown' }));
	h('a', { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
