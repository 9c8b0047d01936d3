/** One element for each item of the transcript. Everything but the server's HTML is set as text. */
import {
	changeCount,
	chevron,
	diffLine,
	fold,
	hooks,
	marks,
	moreButton,
	output,
	rawText,
	titleParts,
} from './card-parts.js';
import { hunkLines } from './diff.js';
import { againButton, failure, failureCard, isFailure } from './failure.js';
import { formatBytes, h, icon, lookUp, renderHtml, visible } from './dom.js';
import { mediaPart, promptMedia } from './media.js';
import { renderElicitation } from './elicitation-card.js';
import { renderPermission } from './permission-card.js';
import { authorOf, isUs, nameOf } from './rights.js';
import { renderTerminal } from './terminal-card.js';
import { renderTool } from './tool-card.js';

/** @typedef {import('../client/holdfast-client.js').Item} Item */
/** @typedef {import('../client/holdfast-client.js').HoldfastEvent} HoldfastEvent */
/**
 * @typedef {object} CardContext
 * @property {string} clientId
 * @property {Map<string, string>} answering request_id to option_id, or to the action of an elicitation: answers being sent
 * @property {Map<string, object[]>} typed request_id to the values in its form, by control
 * @property {(requestId: string) => void} redraw draws the card of a question once more
 * @property {string | null} loggingIn the way to log in to the agent that was asked for
 * @property {import('./terminal-links.js').TerminalLinks} links
 * @property {import('./pending-tools.js').PendingTools} pending
 * @property {(requestId: string, action: string, content?: object) => void} elicit answers what the agent asks for
 * @property {(item: Item) => Item | null} before the item shown right before this one
 */

const STOP_WORDS = {
	cancelled: 'Stopped',
	max_tokens: 'The answer reached its length limit',
	max_turn_requests: 'The turn reached its limit of requests',
	refusal: 'The agent declined to continue',
	error: 'The turn ended with an error',
	agent_stopped: 'The agent stopped before the turn ended',
};

/** Stop reasons that cut a turn short. */
const CUT = ['error', 'agent_stopped'];

/** @type {Record<Item['kind'], (item: Item, context: CardContext) => HTMLElement>} */
const RENDER = {
	prompt: renderPrompt,
	message: renderMessage,
	thought: renderThought,
	tool: renderTool,
	terminal: renderTerminal,
	plan: renderPlan,
	file: renderFile,
	permission: renderPermission,
	elicitation: renderElicitation,
	content: renderContent,
	turn_end: renderTurnEnd,
	notice: renderNotice,
	hidden: renderHidden,
	silent: renderSilent,
	other: renderOther,
};

/** @param {Item} item @param {CardContext} context */
export function renderItem(item, context) {
	const element = draw(item, context);
	element.dataset.no = String(item.events[0].seq);
	if (isRecovered(item)) {
		markRecovered(element, item, context);
	}
	return element;
}

/** @param {Item | null} item */
function isRecovered(item) {
	return item?.events[0].data.recovered === true;
}

/**
 * Marks an item that the agent reported only after a restart: it happened earlier than its place shows.
 * @param {HTMLElement} element @param {Item} item @param {CardContext} context
 */
function markRecovered(element, item, context) {
	element.classList.add('recovered');
	if (!isRecovered(context.before(item))) {
		const words = h('span', { class: 'recovered-mark' }, 'Recovered from before the restart');
		(element.querySelector(':scope > summary') ?? element).prepend(words);
	}
}

/** @param {Item} item @param {CardContext} context */
function draw(item, context) {
	try {
		return RENDER[item.kind](item, context);
	} catch {
		return renderOther(item); // agents invent shapes: one that cannot be rendered must not stop the page
	}
}

/** @param {Item} item @param {CardContext} context */
function renderPrompt({ events: [event], isWhole }, { clientId }) {
	const { message, content, client_id: client } = event.data;
	const folded = isWhole ? null : fold(message);
	const author = visible(authorOf(event.data, clientId));
	return promptElement(
		folded ? `${folded.start}\n…` : message,
		{ ...hooks(event), 'data-author': author || null },
		author ? h('div', { class: 'prompt-author', title: client, 'data-testid': 'author' }, h('bdi', {}, author), h('span', { class: 'sr-only' }, ':')) : null,
		folded && moreButton(folded.words),
		promptMedia(content),
	);
}

/** @param {string} message @param {Record<string, any>} attributes @param {Element | null} author null: whoever looks at it @param {...any} after */
export function promptElement(message, attributes, author, ...after) {
	const you = author ? null : h('span', { class: 'sr-only', dir: 'ltr' }, 'You: '); // its own direction, so that the message decides about the rest
	return h(
		'div',
		{ class: 'item prompt', ...attributes },
		author,
		h('div', { class: 'prompt-text', dir: 'auto' }, you, message),
		...after,
	);
}

/** An image, a sound or a file that the agent shows. @param {Item} item */
function renderContent(item) {
	const [event] = item.events;
	const part = mediaPart(event.data.content);
	return part ? h('div', { class: 'item media', ...hooks(event) }, part) : renderOther(item);
}

/** @param {Item} item */
function renderMessage({ events: [event] }) {
	const { html, markdown, continues } = event.data;
	const element = h('div', {
		class: `item message prose${continues ? ' continues' : ''}`,
		...hooks(event),
		'data-continues': continues,
	});
	element.append(html === undefined ? h('p', {}, markdown ?? '') : renderHtml(html));
	return element;
}

/** @param {Item} item */
function renderThought({ events }) {
	const element = thoughtElement('Thought');
	element.lastChild.append(
		...events.map((event) =>
			h('div', { class: 'thought-text', dir: 'auto', ...hooks(event) }, event.data.text),
		),
	);
	return element;
}

/** @param {string} words */
export function thoughtElement(words) {
	return h(
		'details',
		{ class: 'item thought' },
		h('summary', {}, icon('thought'), h('span', {}, words), chevron()),
		h('div', { class: 'thought-body' }),
	);
}

/** Something that the token hides. @param {Item} item */
function renderHidden({ events }) {
	const thoughts = events.filter(({ type }) => type === 'agent_thought').length;
	const steps = events.length - thoughts;
	const words = [thoughts && countOf(thoughts, 'thought'), steps && countOf(steps, 'step')];
	const verb = events.length === 1 ? 'is' : 'are';
	return h(
		'div',
		{ class: 'item hidden-note', ...hooks(events[0]) },
		h('span', {}, `${words.filter(Boolean).join(' and ')} ${verb} hidden`),
	);
}

/** @param {number} count @param {string} name */
function countOf(count, name) {
	return `${count} ${name}${count === 1 ? '' : 's'}`;
}

/** An item without text; a turn's end offers its answer. @param {Item} item */
function renderSilent({ events: [event] }) {
	const isEnd = event.type === 'turn_end';
	return h(
		'div',
		{ class: `item silent${isEnd ? ' answer-end' : ''}`, hidden: !isEnd, ...hooks(event) },
		isEnd &&
			h(
				'button',
				{ type: 'button', class: 'copy-answer', 'data-action': 'copy-answer', 'data-turn': event.turn, title: 'Copy the answer as markdown' },
				icon('copy'),
				h('span', {}, 'Copy answer'),
			),
	);
}

/** @param {Item} item */
function renderPlan(item) {
	const entries = item.events.at(-1)?.data.entries ?? [];
	const done = entries.filter((/** @type {any} */ { status }) => status === 'completed').length;
	const words = { completed: 'done: ', in_progress: 'in progress: ', pending: 'to do: ' };
	return h(
		'div',
		{ class: 'item card plan', ...hooks(item.events[0]) },
		h(
			'div',
			{ class: 'card-head' },
			icon('plan'),
			h('span', { class: 'card-title' }, 'Plan'),
			h('span', { class: 'muted' }, `${done} of ${entries.length}`),
		),
		h(
			'ol',
			{ class: 'plan-entries' },
			...entries.map((/** @type {any} */ entry) =>
				h(
					'li',
					{ 'data-status': entry.status, 'data-priority': entry.priority },
					h(
						'span',
						{ class: 'plan-mark', 'aria-hidden': 'true' },
						entry.status === 'completed' ? icon('check') : null,
					),
					h(
						'span',
						{},
						h('span', { class: 'sr-only' }, lookUp(words, entry.status, '')),
						h('bdi', {}, visible(entry.content)),
					),
				),
			),
		),
		...marks(item),
	);
}

/** @param {Item} item */
function renderFile({ events: [event] }) {
	const wrote = event.type === 'file_write';
	const { path, size, created, diff, diff_truncated } = event.data;
	const change = wrote && typeof diff === 'string' && diff !== '' ? hunkLines(diff) : null;
	const head = [
		icon(wrote ? 'edit' : 'read'),
		h('span', {}, wrote ? 'Wrote ' : 'Read ', h('code', {}, visible(path))),
		Number.isFinite(size) ? h('span', { class: 'muted' }, formatBytes(size)) : null,
		created ? h('span', { class: 'muted' }, 'new file') : null,
	];
	if (!change) {
		return h('div', { class: 'item line-item', ...hooks(event) }, ...head);
	}
	return h(
		'details',
		{ class: 'item file-change', ...hooks(event) },
		h(
			'summary',
			{ class: 'line-item' },
			...head,
			changeCount(change.added, change.removed),
			chevron(),
		),
		h('div', { class: 'diff' }, h('pre', { tabindex: '0' }, ...change.lines.map(diffLine))),
		diff_truncated
			? h('p', { class: 'muted' }, 'Only the beginning of this change is kept.')
			: null,
	);
}

/** @param {Item} item */
function renderTurnEnd(item, { loggingIn, before }) {
	const [event] = item.events;
	const { stop_reason, message, login } = event.data;
	const card = Array.isArray(login) ? failureCard(event, loggingIn) : null;
	if (card) {
		return card;
	}
	const words = lookUp(STOP_WORDS, stop_reason, `Ended: ${stop_reason}`);
	const last = before(item)?.events[0];
	const isCut = CUT.includes(stop_reason) && !(last?.type === 'agent_stopped' && isFailure(last)); // its card has the button
	return h(
		'div',
		{ class: `item rule${isCut ? ' offers-again' : ''}`, ...hooks(event), 'data-stop-reason': stop_reason },
		h('span', {}, h('span', { dir: 'auto' }, ...titleParts(message ? `${words}: ${message}` : words))),
		isCut && againButton(event),
	);
}

/** @param {Item} item */
function renderNotice({ events: [event] }, { clientId, loggingIn }) {
	const card = event.type === 'agent_stopped' ? failureCard(event, loggingIn) : null;
	if (card) {
		return card;
	}
	const { by, sub, method_id: method } = event.data;
	const who = by === undefined || isUs(by, sub, clientId) ? 'You' : nameOf(by, sub);
	const { title, name, version, reason, detail, stderr, resumed, resume_error, message } = event.data;
	const how = { true: ' again and continues the conversation', false: ' without the conversation above' };
	const words = {
		agent_started: `${title ?? name ?? 'Agent'}${version ? ` ${version}` : ''} started${lookUp(how, String(resumed), '')}${resume_error ? ` (${resume_error})` : ''}`,
		agent_stopped: `Agent stopped${reason ? ` (${String(reason).replaceAll('_', ' ')})` : ''}${detail ? `: ${detail}` : ''}`,
		session_end: 'Session ended',
		'x-acp-authenticated': `${who} logged in to the agent: ${name ?? method}`,
		'x-acp-line_too_long': String(message),
		'x-acp-line_unread': String(message),
	};
	const said = lookUp(words, event.type, event.type);
	const why = typeof stderr === 'string' && stderr !== '' ? [failure(stderr)] : [];
	return h('div', { class: 'item notice', ...hooks(event) }, visible(said), ...why);
}

/** @param {Item} item */
function renderOther(item) {
	const [event] = item.events;
	return h(
		'details',
		{ class: 'item notice', ...hooks(event) },
		h('summary', {}, visible(event.type), chevron()),
		output(rawText(event.data)),
		...marks(item),
	);
}
