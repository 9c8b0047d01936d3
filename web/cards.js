/** One element for each item of the transcript. Everything but the server's HTML is set as text. */
import { diffLines } from './diff.js';
import { h, icon, lookUp, renderHtml } from './dom.js';
import { toolState } from './transcript-model.js';

/** @typedef {import('./transcript-model.js').Item} Item */
/** @typedef {import('./holdfast-client.js').HoldfastEvent} HoldfastEvent */
/**
 * @typedef {object} CardContext
 * @property {string} clientId
 * @property {Map<string, string>} answering request_id to option_id: answers that are on their way
 * @property {(item: Item) => Item | null} before what is shown right before an item
 */

const STATUS_WORDS = {
	pending: 'Pending',
	in_progress: 'Running',
	completed: 'Done',
	failed: 'Failed',
	cancelled: 'Cancelled',
};

const STOP_WORDS = {
	cancelled: 'Stopped',
	max_tokens: 'The answer reached its length limit',
	max_turn_requests: 'The turn reached its limit of requests',
	refusal: 'The agent declined to go on',
	error: 'The turn ended with an error',
	agent_stopped: 'The agent stopped before the turn was over',
};

/** @param {HoldfastEvent} event */
const hooks = ({ seq, type }) => ({ 'data-seq': seq, 'data-type': type });

/** Events that changed an item instead of adding one leave a mark, so that each can be found. */
function marks(/** @type {Item} */ { events }) {
	return events.slice(1).map((event) => h('i', { hidden: true, ...hooks(event) }));
}

/** @type {Record<Item['kind'], (item: Item, context: CardContext) => HTMLElement>} */
const RENDER = {
	prompt: renderPrompt,
	message: renderMessage,
	thought: renderThought,
	tool: renderTool,
	plan: renderPlan,
	file: renderFile,
	permission: renderPermission,
	turn_end: renderTurnEnd,
	notice: renderNotice,
	silent: ({ events }) => h('div', { class: 'item silent', hidden: true, ...hooks(events[0]) }),
	other: renderOther,
};

/** @param {Item} item @param {CardContext} context */
export function renderItem(item, context) {
	const element = draw(item, context);
	element.dataset.no = String(item.events[0].seq);
	return element;
}

/** @param {Item} item @param {CardContext} context */
function draw(item, context) {
	try {
		return RENDER[item.kind](item, context);
	} catch {
		return renderOther(item); // agents invent shapes: one that we cannot draw must not stop the page
	}
}

/** @param {Item} item */
function renderPrompt({ events: [event] }) {
	return promptElement(event.data.message, hooks(event));
}

/** @param {string} message @param {Record<string, any>} attributes @param {...any} after */
export function promptElement(message, attributes, ...after) {
	return h(
		'div',
		{ class: 'item prompt', ...attributes },
		h('div', { class: 'prompt-text' }, h('span', { class: 'sr-only' }, 'You: '), message),
		...after,
	);
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
			h('div', { class: 'thought-text', ...hooks(event) }, event.data.text),
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

function chevron() {
	const arrow = icon('chevron');
	arrow.classList.add('chevron');
	return arrow;
}

/** @param {Item} item */
function renderTool(item) {
	const state = toolState(item);
	const status = state.status ?? 'pending';
	const body = toolBody(state);
	return h(
		'details',
		{
			class: `item card tool${body.length ? ' has-body' : ''}`,
			open: true,
			...hooks(item.events[0]),
			'data-tool-call-id': state.tool_call_id,
			'data-status': status,
		},
		h(
			'summary',
			{},
			icon(state.kind ?? 'other'),
			h('span', { class: 'card-title' }, state.title ?? 'Tool call'),
			diffCount(state.content),
			statusChip(status),
			chevron(),
		),
		h('div', { class: 'card-body' }, ...body),
		...marks(item),
	);
}

/** @param {string} status */
function statusChip(status) {
	return h(
		'span',
		{ class: 'chip', 'data-status': status },
		lookUp(STATUS_WORDS, status, status),
	);
}

/** @param {any} content */
function diffsOf(content) {
	return (Array.isArray(content) ? content : []).filter((part) => part?.type === 'diff');
}

/** @param {any} content */
function diffCount(content) {
	const diffs = diffsOf(content).map((part) => diffLines(part.old_text, part.new_text));
	if (diffs.length === 0) {
		return null;
	}
	const sum = (/** @type {'added' | 'removed'} */ name) =>
		diffs.reduce((total, diff) => total + diff[name], 0);
	const [added, removed] = [sum('added'), sum('removed')];
	return h(
		'span',
		{ class: 'diff-count' },
		added > 0 && h('span', { class: 'added' }, `+${added}`),
		removed > 0 && h('span', { class: 'removed' }, `−${removed}`),
	);
}

/** @param {Record<string, any>} state @returns {HTMLElement[]} */
function toolBody(state) {
	const parts = Array.isArray(state.content) ? state.content : [];
	const diffed = new Set(diffsOf(parts).map((part) => part.path));
	const locations = (Array.isArray(state.locations) ? state.locations : []).filter(
		({ path }) => !diffed.has(path),
	);
	const body = [];
	if (locations.length > 0) {
		body.push(
			h(
				'ul',
				{ class: 'locations' },
				...locations.map(({ path, line }) =>
					h('li', {}, line ? `${path}:${line}` : `${path}`),
				),
			),
		);
	}
	body.push(...parts.map(contentPart).filter(Boolean));
	if (parts.length === 0 && state.raw_output !== undefined) {
		body.push(output(rawText(state.raw_output)));
	}
	if (state.raw_input !== undefined && Object.keys(Object(state.raw_input)).length > 0) {
		body.push(
			h(
				'details',
				{ class: 'raw' },
				h('summary', {}, 'Input', chevron()),
				output(rawText(state.raw_input)),
			),
		);
	}
	return body;
}

/** @param {any} value */
function rawText(value) {
	return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

/** @param {any} part */
function contentPart(part) {
	if (part?.type === 'diff') {
		return diffView(part);
	}
	if (part?.type === 'terminal') {
		return h('p', { class: 'muted' }, `Terminal ${part.terminal_id}`);
	}
	const content = part?.content;
	if (content?.type === 'text') {
		return output(stripFence(content.text ?? ''));
	}
	const name = content?.uri ?? content?.resource?.uri ?? content?.name;
	return content
		? h('p', { class: 'muted' }, name ? `${content.type}: ${name}` : `${content.type}`)
		: null;
}

/** Agents put a tool's output into a fence; here it stands in a frame already. @param {string} text */
function stripFence(text) {
	return text.match(/^\s*(`{3,})[^\n`]*\n([\s\S]*?)\n?\1\s*$/)?.[2] ?? text;
}

/** @param {string} text */
function output(text) {
	return h('pre', { class: 'output', tabindex: '0' }, text);
}

/** @param {any} part */
function diffView({ path, old_text, new_text }) {
	const { lines } = diffLines(old_text, new_text);
	return h(
		'div',
		{ class: 'diff' },
		h(
			'div',
			{ class: 'diff-path' },
			String(path ?? ''),
			old_text === null || old_text === undefined
				? h('span', { class: 'muted' }, 'new file')
				: null,
		),
		h('pre', { tabindex: '0' }, ...lines.map(diffLine)),
	);
}

/** @param {import('./diff.js').DiffLine} line */
function diffLine({ kind, text, oldLine, newLine }) {
	const name = { add: 'ins', del: 'del', same: 'span', skip: 'span' }[kind];
	return h(
		name,
		{ class: `line ${kind}`, 'data-old': oldLine ?? '', 'data-new': newLine ?? '' },
		`${text}\n`,
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
						entry.content,
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
	const { path, size } = event.data;
	return h(
		'div',
		{ class: 'item line-item', ...hooks(event) },
		icon(wrote ? 'edit' : 'read'),
		h('span', {}, wrote ? 'Wrote ' : 'Read ', h('code', {}, String(path))),
		Number.isFinite(size) ? h('span', { class: 'muted' }, formatBytes(size)) : null,
	);
}

/** @param {number} size */
export function formatBytes(size) {
	const units = ['bytes', 'KiB', 'MiB', 'GiB'];
	let unit = 0;
	let value = size;
	while (value >= 1024 && unit < units.length - 1) {
		value /= 1024;
		unit += 1;
	}
	return `${unit === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)} ${unit === 0 && value === 1 ? 'byte' : units[unit]}`;
}

/** @param {Item} item @param {CardContext} context */
function renderPermission(item, context) {
	const asked = item.events.find(({ type }) => type === 'permission_request');
	const resolved = item.events.find(({ type }) => type === 'permission_resolved');
	const first = asked ?? item.events[0];
	const attributes = {
		...hooks(first),
		'data-request-id': first.data.request_id,
		role: 'group',
		'aria-label': 'Permission request',
	};
	const tool = asked?.data.tool_call ?? {};
	if (!resolved) {
		return h(
			'div',
			{ class: 'item card permission', ...attributes },
			h(
				'div',
				{ class: 'card-head' },
				icon('alert'),
				h('span', { class: 'card-title' }, 'The agent asks for permission'),
			),
			h(
				'div',
				{ class: 'card-body' },
				h(
					'p',
					{ class: 'permission-what' },
					icon(tool.kind ?? 'other'),
					h('span', {}, tool.title ?? tool.tool_call_id ?? 'Tool call'),
				),
				...(showsAll(context.before(item), tool) ? [] : toolBody(tool)),
				permissionOptions(first.data, context),
			),
			...marks(item),
		);
	}
	return h(
		'div',
		{
			class: 'item line-item permission',
			...attributes,
			'data-resolved': resolved.data.outcome,
		},
		icon(outcomeIcon(asked, resolved)),
		h(
			'span',
			{},
			tool.title ? `${tool.title}: ` : '',
			...answerWords(asked, resolved, context),
		),
		...marks(item),
	);
}

/** True if the card says already what the tool of a question would say once more. @param {Item | null} card @param {any} tool */
function showsAll(card, tool) {
	if (card?.kind !== 'tool') {
		return false;
	}
	const shown = toolState(card);
	return ['tool_call_id', 'content', 'locations', 'raw_input'].every(
		(name) =>
			tool[name] === undefined || JSON.stringify(tool[name]) === JSON.stringify(shown[name]),
	);
}

/** @param {any} request @param {CardContext} context */
function permissionOptions({ request_id, options = [] }, { answering }) {
	const chosen = answering.get(request_id);
	return h(
		'div',
		{ class: 'permission-options' },
		...options.map((/** @type {any} */ option) =>
			h(
				'button',
				{
					type: 'button',
					class: `button${option.kind === 'allow_once' ? ' primary' : ''}`,
					'data-testid': 'permission-option',
					'data-option-id': option.option_id,
					'data-request-id': request_id,
					'data-kind': option.kind,
					disabled: chosen !== undefined,
					'aria-busy': chosen === option.option_id ? 'true' : null,
				},
				option.name ?? option.option_id,
			),
		),
	);
}

/** @param {HoldfastEvent | undefined} asked @param {HoldfastEvent} resolved */
function chosenOption(asked, resolved) {
	return asked?.data.options?.find(
		(/** @type {any} */ { option_id }) => option_id === resolved.data.option_id,
	);
}

/** @param {HoldfastEvent | undefined} asked @param {HoldfastEvent} resolved */
function outcomeIcon(asked, resolved) {
	const kind = chosenOption(asked, resolved)?.kind ?? '';
	return resolved.data.outcome === 'selected' && !kind.startsWith('reject') ? 'check' : 'close';
}

/** @param {HoldfastEvent | undefined} asked @param {HoldfastEvent} resolved @param {CardContext} context */
function answerWords(asked, resolved, { clientId }) {
	const { data } = resolved;
	if (data.outcome !== 'selected') {
		return ['the question was withdrawn'];
	}
	const by = String(data.by ?? '');
	return [
		h('b', {}, chosenOption(asked, resolved)?.name ?? String(data.option_id)),
		by && ', answered by ',
		by && h('span', { title: by }, by === clientId ? 'you' : `client ${by.slice(0, 8)}`),
	];
}

/** @param {Item} item */
function renderTurnEnd({ events: [event] }) {
	const { stop_reason, message } = event.data;
	const words = lookUp(STOP_WORDS, stop_reason, `Ended: ${stop_reason}`);
	return h(
		'div',
		{ class: 'item rule', ...hooks(event), 'data-stop-reason': stop_reason },
		h('span', {}, message ? `${words}: ${message}` : words),
	);
}

/** @param {Item} item */
function renderNotice({ events: [event] }) {
	const { title, name, version, reason, detail } = event.data;
	const words = {
		agent_started: `${title ?? name ?? 'Agent'}${version ? ` ${version}` : ''} started`,
		agent_stopped: `Agent stopped${reason ? ` (${String(reason).replaceAll('_', ' ')})` : ''}${detail ? `: ${detail}` : ''}`,
		session_end: 'Session ended',
	}[event.type];
	return h('div', { class: 'item notice', ...hooks(event) }, words);
}

/** @param {Item} item */
function renderOther(item) {
	const [event] = item.events;
	return h(
		'details',
		{ class: 'item notice', ...hooks(event) },
		h('summary', {}, event.type, chevron()),
		output(rawText(event.data)),
		...marks(item),
	);
}
