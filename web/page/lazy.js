/** The parts of the page that many visits do without: one file, loaded when the first of them is needed. */

/** @typedef {typeof import('./extras.js')} Extras */

/** @type {Promise<Extras> | null} */
let loading = null;

/** Throws, with words for the user, if it cannot be had. @returns {Promise<Extras>} */
export function extras() {
	loading ??= import('./extras.js').catch(() => {
		loading = null; // the next one tries again
		throw new Error('This part of the page could not be loaded. Load the page again if it is an old one.');
	});
	return loading;
}
