/** A tool call: title, status and result. */
import {
	changeCount,
	chevron,
	diffLine,
	foldedOutput,
	hooks,
	marks,
	moreButton,
	output,
	rawText,
	statusChip,
	titleParts,
} from './card-parts.js';
import { diffLines } from './diff.js';
import { h, icon, visible } from './dom.js';
import { mediaPart } from './media.js';
import { terminalPart } from './terminal-card.js';
import { toolState } from '../client/holdfast-client.js';

/** @typedef {import('../client/holdfast-client.js').Item} Item */

const LINES_MAX = 400; // of a diff, before the reader asks for the rest

/** @typedef {import('./cards.js').CardContext} CardContext */

/** @param {Item} item @param {CardContext} context */
export function renderTool(item, context) {
	const state = toolState(item);
	const status = context.pending.isCut(item) ? 'unfinished' : (state.status ?? 'pending');
	const body = toolBody(state, item.isWhole, {
		folds: true,
		terminal: (id) => {
			const terminal = context.links?.terminalOf(item, id);
			return terminal ? terminalPart(terminal, context, item.isWhole) : null;
		},
	});
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
			h('span', { class: 'card-title', dir: 'auto' }, ...titleParts(state.title ?? 'Tool call')),
			diffCount(state.content),
			statusChip(status),
			chevron(),
		),
		h('div', { class: 'card-body' }, ...body),
		...marks(item),
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
	return changeCount(sum('added'), sum('removed'));
}

/**
 * @typedef {object} BodyOptions
 * @property {boolean} [folds] whether only the first lines of long output are shown
 * @property {(id: string) => HTMLElement | null} [terminal] a terminal that is shown here
 */

/**
 * @param {Record<string, any>} state @param {boolean} [isWhole] show long output in full @param {BodyOptions} [options]
 * @returns {HTMLElement[]}
 */
export function toolBody(state, isWhole = false, { folds = false, terminal = () => null } = {}) {
	const said = (/** @type {string} */ text) => (folds ? foldedOutput(text, isWhole) : output(text));
	const parts = Array.isArray(state.content) ? state.content : [];
	const diffed = new Set(diffsOf(parts).map((part) => part.path));
	/** Whether the title names a path; some agents omit the first slash. @param {{path: unknown, line?: unknown}} location */
	const isNamed = ({ path, line }) => !line && String(state.title ?? '').includes(String(path).replace(/^\//, ''));
	const locations = (Array.isArray(state.locations) ? state.locations : []).filter(
		(location) => !diffed.has(location.path) && !isNamed(location),
	);
	const body = [];
	if (locations.length > 0) {
		body.push(
			h(
				'ul',
				{ class: 'locations' },
				...locations.map(({ path, line }) =>
					h('li', {}, visible(line ? `${path}:${line}` : path)),
				),
			),
		);
	}
	body.push(...parts.map((part) => contentPart(part, isWhole, said, terminal)).filter(Boolean));
	if (parts.length === 0 && state.raw_output !== undefined) {
		body.push(said(rawText(state.raw_output)));
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

/**
 * @param {any} part @param {boolean} isWhole @param {(text: string) => HTMLElement} said
 * @param {(id: string) => HTMLElement | null} terminal
 */
function contentPart(part, isWhole, said, terminal) {
	if (part?.type === 'diff') {
		return diffView(part, isWhole);
	}
	if (part?.type === 'terminal') {
		return (
			terminal(part.terminal_id) ??
			h('p', { class: 'muted' }, visible(`Terminal ${part.terminal_id}`))
		);
	}
	const content = part?.content;
	if (content?.type === 'text') {
		return said(stripFence(content.text ?? ''));
	}
	const media = mediaPart(content);
	if (media) {
		return media;
	}
	const name = content?.uri ?? content?.resource?.uri ?? content?.name;
	return content
		? h('p', { class: 'muted' }, visible(name ? `${content.type}: ${name}` : content.type))
		: null;
}

/** Agents put a tool's output into a fence; here it is already in a frame. @param {string} text */
function stripFence(text) {
	return text.match(/^\s*(`{3,})[^\n`]*\n([\s\S]*?)\n?\1\s*$/)?.[2] ?? text;
}

/** @param {any} part @param {boolean} isWhole */
function diffView({ path, old_text, new_text }, isWhole) {
	const { lines } = diffLines(old_text, new_text);
	const shown = isWhole ? lines : lines.slice(0, LINES_MAX);
	return h(
		'div',
		{ class: 'diff' },
		h(
			'div',
			{ class: 'diff-path' },
			visible(path ?? ''),
			old_text === null || old_text === undefined
				? h('span', { class: 'muted' }, 'new file')
				: null,
		),
		h('pre', { tabindex: '0' }, ...shown.map(diffLine)),
		lines.length > shown.length &&
			moreButton(`Show ${lines.length - shown.length} more lines`),
	);
}
