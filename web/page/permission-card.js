/** A question to the user, its options, and, once it is answered, by whom. */
import { hooks, marks, titleParts } from './card-parts.js';
import { h, icon, visible } from './dom.js';
import { isUs, may, nameOf } from './rights.js';
import { toolBody } from './tool-card.js';
import { toolState } from '../client/holdfast-client.js';

/** @typedef {import('../client/holdfast-client.js').Item} Item */
/** @typedef {import('../client/holdfast-client.js').HoldfastEvent} HoldfastEvent */
/** @typedef {import('./cards.js').CardContext} CardContext */

/** @param {Item} item @param {CardContext} context */
export function renderPermission(item, context) {
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
					h('span', { dir: 'auto' }, ...titleParts(tool.title ?? tool.tool_call_id ?? 'Tool call')),
				),
				...(showsAll(context.before(item), tool) ? [] : toolBody(tool, item.isWhole)),
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
			...(tool.title ? [...titleParts(tool.title), ': '] : []),
			...answerWords(asked, resolved, context),
		),
		...marks(item),
	);
}

/** True if the card already shows the tool of a question. @param {Item | null} card @param {any} tool */
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
	if (!may('prompt')) {
		return h('p', { class: 'muted', 'data-testid': 'permission-waits' }, 'It waits for an answer.');
	}
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
				visible(option.name ?? option.option_id),
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
		h('b', {}, visible(chosenOption(asked, resolved)?.name ?? data.option_id)),
		by && ', answered by ',
		by &&
			h(
				'span',
				{ title: by },
				isUs(by, data.sub, clientId) ? 'you' : visible(nameOf(by, data.sub, data.name)),
			),
		data.bound_to !== undefined && ' before the agent was restarted',
	];
}
