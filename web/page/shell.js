/** The parts around the transcript: toasts, the sidebar, the prompt's place. */
import { $, h, icon } from './dom.js';

const TOAST_MS = 7_000;
const NARROW = matchMedia('(max-width: 760px)');

/** Shows a toast. @param {string} message */
export function toast(message) {
	const element = h('div', { class: 'toast' }, icon('alert'), h('span', {}, message));
	$('#toasts').querySelectorAll('.toast:not(.keeps)').forEach((one) => one.remove());
	$('#toasts').append(element);
	setTimeout(() => element.remove(), TOAST_MS);
}

/** @param {boolean} show has an effect only where the sidebar is a drawer */
export function showSidebar(show) {
	const narrow = NARROW.matches;
	const hadFocus = $('#sidebar').contains(document.activeElement);
	document.body.classList.toggle('sidebar-open', show && narrow);
	$('#sidebar').inert = narrow && !show;
	$('main').inert = narrow && show;
	const opener = $('[data-action="open-sidebar"]');
	opener.setAttribute('aria-expanded', String(show && narrow));
	if (narrow && !show && hadFocus) {
		opener.focus();
	}
}

/** Shows, while the list is closed, how many other sessions wait for an answer. @param {number} count */
export function showWaiting(count) {
	const opener = $('[data-action="open-sidebar"]');
	const badge = opener.querySelector('.badge');
	const words = count === 1 ? ': another session waits for you' : `: ${count} other sessions wait for you`;
	badge.hidden = count === 0;
	badge.textContent = count > 9 ? '9+' : String(count);
	opener.setAttribute('aria-label', `Show the list of sessions${count > 0 ? words : ''}`);
}

export function handleSidebar() {
	$('[data-action="open-sidebar"]').addEventListener('click', () => {
		showSidebar(true);
		$('#sidebar [data-action="close-sidebar"]').focus();
	});
	document
		.querySelectorAll('[data-action="close-sidebar"]')
		.forEach((element) => element.addEventListener('click', () => showSidebar(false)));
	document.addEventListener('keydown', (event) => event.key === 'Escape' && showSidebar(false));
	NARROW.addEventListener('change', () => showSidebar(false));
	$('#sidebar').addEventListener(
		'click',
		(/** @type {any} */ event) => event.target.closest('a') && showSidebar(false),
	);
}

/** Aligns the prompt with the transcript, which has a scrollbar. */
export function watchScrollbar() {
	new ResizeObserver(([{ target }]) => {
		const { offsetWidth, clientWidth } = /** @type {HTMLElement} */ (target);
		const sides = 2; // scrollbar-gutter reserves space on both
		document.documentElement.style.setProperty(
			'--scrollbar',
			`${(offsetWidth - clientWidth) / sides}px`,
		);
	}).observe($('#scroller'));
}
