/** A command that the agent runs through the server, with its output as it comes. */
import { chevron, foldedOutput, hooks, marks, statusChip } from './card-parts.js';
import { h, icon, visible } from './dom.js';

/** @typedef {import('../client/holdfast-client.js').Item} Item */
/** @typedef {import('./cards.js').CardContext} CardContext */

const encoder = new TextEncoder();

/**
 * The command's output. A line marks each part that was omitted.
 * @param {Item} item
 */
function outputOf({ events }) {
	let text = '';
	let end = 0;
	for (const { data } of events) {
		if (typeof data.output === 'string') {
			const offset = Number.isFinite(data.offset) ? data.offset : end;
			text += offset > end ? `\n… ${offset - end} bytes omitted …\n` : '';
			text += data.output;
			end = offset + encoder.encode(data.output).length;
		}
	}
	return text;
}

/** @param {Item} item @param {CardContext} context */
function chipOf(item, context) {
	const { status, exit_code, signal } = item.events.at(-1)?.data ?? {};
	if (status === 'running') {
		return statusChip(context.pending.isCut(item) ? 'unfinished' : 'in_progress');
	}
	if (status !== 'exited') {
		return statusChip('cancelled', 'Ended');
	}
	if (exit_code === 0) {
		return statusChip('completed');
	}
	return statusChip('failed', signal ? String(signal) : `Exit code ${exit_code ?? 'unknown'}`);
}

/** @param {Item} item */
function commandOf({ events: [{ data }] }) {
	const { command, args } = data;
	return [command ?? 'A command', ...(Array.isArray(args) ? args : [])].join(' ');
}

/** The command in the card of its tool call. @param {Item} item @param {CardContext} context @param {boolean} [isWhole] */
export function terminalPart(item, context, isWhole) {
	const said = outputOf(item);
	return h(
		'div',
		{ class: 'tool-terminal' },
		h(
			'p',
			{ class: 'terminal-line', title: item.events[0].data.cwd ? visible(item.events[0].data.cwd) : null },
			h('code', {}, visible(commandOf(item))),
			chipOf(item, context),
		),
		said ? foldedOutput(said, isWhole) : null,
	);
}

/** @param {Item} item @param {CardContext} context */
export function renderTerminal(item, context) {
	const [first] = item.events;
	const { cwd } = first.data;
	if (context.links?.isShownElsewhere(item)) {
		return h('div', { class: 'item silent', hidden: true, ...hooks(first) }, ...marks(item));
	}
	const said = outputOf(item);
	const line = commandOf(item);
	return h(
		'details',
		{
			class: `item card tool terminal${said ? ' has-body' : ''}`,
			open: true,
			...hooks(first),
			'data-terminal-id': first.data.terminal_id,
		},
		h(
			'summary',
			{ title: cwd ? visible(cwd) : null },
			icon('execute'),
			h('code', { class: 'card-title' }, visible(line)),
			chipOf(item, context),
			chevron(),
		),
		h('div', { class: 'card-body' }, said ? foldedOutput(said, item.isWhole) : null),
		...marks(item),
	);
}
