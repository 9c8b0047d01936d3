/** Shown instead of an empty transcript: an invitation, or a note that the session is gone. */
import { h, icon, writeClipboard } from './dom.js';

const EXAMPLES = [
	['list', 'A long list'],
	['table', 'A table'],
	['code', 'Some code'],
	['permission', 'Ask for permission'],
	['long', 'A long answer'],
];

const GONE = () => [
	h('h2', {}, 'This session does not exist'),
	h('p', {}, 'It was deleted or never existed.'),
	h('a', { class: 'button primary', href: '#/' }, 'New session'),
];

const WATCHING = () => [
	h('img', { src: 'page/icon.svg', alt: '', width: '44', height: '44' }),
	h('h2', {}, 'Which session do you want to watch?'),
	h('p', {}, 'Choose one from the list. What happens in it appears here, live.'),
];

/** What to start the server with, see docs/agents.md. */
const COMMANDS = [
	['OpenCode', 'holdfast serve --agent "opencode acp"'],
	['Claude Code', 'holdfast serve --agent "npx -y @zed-industries/claude-code-acp"'],
	['Gemini', 'holdfast serve --agent "gemini --acp"'],
	['The demo, without a model', 'holdfast serve --agent holdfast-demo-agent'],
];

/** @param {string} command @param {string} name */
function copyCommand(command, name) {
	const button = h(
		'button',
		{ type: 'button', class: 'icon-button', 'aria-label': `Copy the command for ${name}`, title: 'Copy' },
		icon('copy'),
	);
	button.addEventListener('click', async () => {
		await writeClipboard(command);
		button.replaceChildren(icon('check'));
		setTimeout(() => button.replaceChildren(icon('copy')), 1600);
	});
	return button;
}

const AGENTLESS = () => [
	h('img', { src: 'page/icon.svg', alt: '', width: '44', height: '44' }),
	h('h2', {}, 'This server has no agent'),
	h('p', {}, 'It shows sessions that other programs feed. To send prompts, start it with an agent, that is any program which speaks ACP:'),
	h(
		'dl',
		{ class: 'agent-commands' },
		...COMMANDS.map(([name, command]) =>
			h('div', {}, h('dt', {}, name), h('dd', {}, h('code', {}, command), copyCommand(command, name))),
		),
	),
	h('p', {}, 'The user that runs the server logs in to the agent once, in a terminal. docs/agents.md has more agents, and how to offer several.'),
];

/** @param {(prompt: string, title: string) => void} send @param {boolean} isDemo only the demo agent knows the examples */
const INVITATION = (send, isDemo) => [
	h('img', { src: 'page/icon.svg', alt: '', width: '44', height: '44' }),
	h('h2', {}, 'What should the agent do?'),
	h(
		'p',
		{},
		'Everything is kept on the server. Drop the connection, close the page or switch to your phone: the session continues exactly where you left off.',
	),
	isDemo && h(
		'button',
		{
			type: 'button',
			class: 'button primary',
			'data-testid': 'tour',
			onclick: () => send('tour', 'A short tour'),
		},
		'Start the tour',
	),
	isDemo && h(
		'div',
		{ class: 'examples', role: 'group', 'aria-label': 'Examples' },
		...EXAMPLES.map(([prompt, words]) =>
			h(
				'button',
				{
					type: 'button',
					class: 'example',
					'data-prompt': prompt,
					onclick: () => send(prompt, words),
				},
				words,
			),
		),
	),
];

/**
 * @param {HTMLElement} empty @param {'' | 'new' | 'gone'} what empty: there is a transcript
 * @param {(prompt: string, title: string) => void} send @param {{maySend: boolean, isDemo: boolean, hasNone: boolean}} of the login and the agent
 */
export function showEmpty(empty, what, send, { maySend, isDemo, hasNone }) {
	const ready = isDemo ? 'demo' : 'new';
	const kind = what !== 'new' ? what : !maySend ? 'watching' : hasNone ? 'agentless' : ready;
	empty.hidden = kind === '';
	if (kind !== '' && empty.dataset.what !== kind) {
		empty.dataset.what = kind;
		const make = { gone: GONE, watching: WATCHING, agentless: AGENTLESS }[/** @type {'gone'} */ (kind)] ?? (() => INVITATION(send, isDemo));
		empty.replaceChildren(.../** @type {Node[]} */ (make().filter(Boolean)));
	}
}
