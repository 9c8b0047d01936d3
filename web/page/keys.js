/** The keyboard and the finger: the list of shortcuts, one tab stop for the list of sessions, the swipe that opens it. */
import { $, h } from './dom.js';

const EDGE_PX = 28;
const SWIPE_PX = 60;

/** Each key, and what it does. @type {[string, string][]} */
const SHORTCUTS = [
	['Enter', 'Send the prompt (on a touch screen: a new line)'],
	['Shift Enter', 'New line'],
	['Ctrl K', 'Search sessions, messages and commands'],
	['Home End', 'With an empty prompt: the start and the end of the session'],
	['/', 'In an empty prompt: what the agent offers'],
	['@', "In the prompt: files of the session's directory"],
	['Esc', 'Close the list, the menu or the dialog'],
	['↑ ↓ Home End', 'In the list of sessions: the next one, the first, the last'],
	['?', 'This list'],
];

/** On a touch screen Enter is the only way to a new line. */
export function isTouch() {
	return matchMedia('(pointer: coarse) and (hover: none)').matches;
}

function showShortcuts() {
	const dialog = h(
		'dialog',
		{ class: 'shortcuts', 'aria-labelledby': 'shortcuts-title', 'data-testid': 'shortcuts' },
		h(
			'form',
			{ method: 'dialog' },
			h('h2', { id: 'shortcuts-title' }, 'Keyboard shortcuts'),
			h(
				'dl',
				{},
				...SHORTCUTS.map(([keys, words]) =>
					h('div', {}, h('dt', {}, ...keys.split(' ').map((key) => h('kbd', {}, key))), h('dd', {}, words)),
				),
			),
			h('div', { class: 'dialog-buttons' }, h('button', { class: 'button' }, 'Close')),
		),
	);
	dialog.addEventListener('close', () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
}

/** @param {EventTarget | null} target */
function isTyping(target) {
	return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.nodeName));
}

/** The list is one stop of the Tab key, however many sessions there are; the arrows go through it. @param {HTMLElement} list */
function makeOneStop(list) {
	/** @type {HTMLElement | null} */
	let stop = null;
	const links = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll('a[href]')]);
	const set = (/** @type {Element} */ element, /** @type {boolean} */ isStop) => {
		const value = isStop ? '0' : '-1';
		if (element.getAttribute('tabindex') !== value) {
			element.setAttribute('tabindex', value);
		}
	};
	const refresh = () => {
		const all = links();
		if (!stop?.isConnected || !list.contains(document.activeElement)) {
			stop = all.find((link) => link.hasAttribute('aria-current')) ?? all[0] ?? null;
		}
		all.forEach((link) => set(link, link === stop));
		// The buttons of a row are for the row that has the focus.
		list.querySelectorAll('li button').forEach((button) => set(button, stop !== null && button.closest('li') === stop.closest('li')));
	};
	new MutationObserver(refresh).observe(list, { childList: true, subtree: true, attributes: true, attributeFilter: ['tabindex', 'aria-current'] });
	list.addEventListener('focusin', ({ target }) => {
		const link = /** @type {HTMLElement | null} */ (/** @type {HTMLElement} */ (target).closest('li')?.querySelector('a[href]') ?? null);
		stop = link ?? stop;
		refresh();
	});
	list.addEventListener('keydown', (event) => {
		const all = links();
		const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
		const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
		if (at >= 0 && to !== undefined && all[to]) {
			event.preventDefault();
			all[to].focus();
		}
	});
	refresh();
}

/** A swipe from the edge opens the sidebar, one to the edge closes it. @param {(show: boolean) => void} show */
function handleSwipes(show) {
	/** @type {{x: number, y: number, opens: boolean} | null} */
	let from = null;
	document.addEventListener(
		'touchstart',
		({ touches }) => {
			const [{ clientX: x, clientY: y }] = touches;
			const isOpen = document.body.classList.contains('sidebar-open');
			from = touches.length === 1 && (isOpen || x <= EDGE_PX) ? { x, y, opens: !isOpen } : null;
		},
		{ passive: true },
	);
	document.addEventListener(
		'touchend',
		({ changedTouches: [{ clientX, clientY }] }) => {
			const way = from ? (clientX - from.x) * (from.opens ? 1 : -1) : 0;
			if (from && way > SWIPE_PX && way > 2 * Math.abs(clientY - from.y)) {
				show(from.opens);
			}
			from = null;
		},
		{ passive: true },
	);
}

/**
 * The keys of an input method (of Chinese, Japanese, Korean …) are its own: while it composes a word, Enter accepts that word, and Escape gives it up.
 * Safari ends the composition before it tells of the key, and marks that by the key code 229 alone.
 */
function keepComposedKeys() {
	window.addEventListener('keydown', (event) => (event.isComposing || event.keyCode === 229) && event.stopImmediatePropagation(), true);
}

/** @param {{showSidebar: (show: boolean) => void}} page */
export function handleKeys({ showSidebar }) {
	keepComposedKeys();
	makeOneStop($('#sessions'));
	handleSwipes(showSidebar);
	$('#shortcuts').addEventListener('click', showShortcuts);
	document.addEventListener('keydown', (event) => {
		const isFree = !isTyping(event.target) && !document.querySelector('dialog[open]') && !document.body.classList.contains('locked');
		if (event.key === '?' && isFree && !event.ctrlKey && !event.metaKey && !event.altKey) {
			event.preventDefault();
			showShortcuts();
		}
	});
}
