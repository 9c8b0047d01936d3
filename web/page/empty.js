/** What stands where there is no transcript: an invitation, or that the session is gone. */
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
	h('p', {}, 'It was deleted, or never was.'),
	h('a', { class: 'button primary', href: '#/' }, 'New session'),
];

/** @param {(prompt: string, title: string) => void} send */
const INVITATION = (send) => [
	h('img', { src: 'page/icon.svg', alt: '', width: '44', height: '44' }),
	h('h2', {}, 'What should the agent do?'),
	h(
		'p',
		{},
		'Every line is kept on the server. Drop the connection, close the page, come back on your phone: it goes on exactly where you were.',
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
 * @param {HTMLElement} empty @param {'' | 'new' | 'gone'} what nothing: there is a transcript
 * @param {(prompt: string, title: string) => void} send
 */
export function showEmpty(empty, what, send) {
	empty.hidden = what === '';
	if (what !== '' && empty.dataset.what !== what) {
		empty.dataset.what = what;
		empty.replaceChildren(...(what === 'gone' ? GONE() : INVITATION(send)));
	}
}
