/** Shown instead of an empty transcript: an invitation, or a note that the session is gone. */
import { h } from './dom.js';

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

/** @param {(prompt: string, title: string) => void} send */
const INVITATION = (send) => [
	h('img', { src: 'page/icon.svg', alt: '', width: '44', height: '44' }),
	h('h2', {}, 'What should the agent do?'),
	h(
		'p',
		{},
		'Everything is kept on the server. Drop the connection, close the page or switch to your phone: the session continues exactly where you left off.',
	),
	h(
		'button',
		{
			type: 'button',
			class: 'button primary',
			'data-testid': 'tour',
			onclick: () => send('tour', 'A short tour'),
		},
		'Start the tour',
	),
	h(
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
 * @param {(prompt: string, title: string) => void} send @param {boolean} maySend
 */
export function showEmpty(empty, what, send, maySend) {
	const kind = what === 'new' && !maySend ? 'watching' : what;
	empty.hidden = what === '';
	if (what !== '' && empty.dataset.what !== kind) {
		empty.dataset.what = kind;
		empty.replaceChildren(
			...(what === 'gone' ? GONE() : maySend ? INVITATION(send) : WATCHING()),
		);
	}
}
