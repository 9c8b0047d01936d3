/** What a tab keeps over a reload. Some browsers have storage disabled, and it may be full: then it is forgotten. */

const TAB_ID = 'holdfast-client-id';
const TAB_KEY = 'holdfast tab';

/** @param {string} key @returns {string | null} */
export function readTab(key) {
	try {
		return sessionStorage.getItem(key);
	} catch {
		return null;
	}
}

/** @param {string} key @param {string | null} text null: nothing */
export function writeTab(key, text) {
	try {
		if (text === null) {
			sessionStorage.removeItem(key);
		} else {
			sessionStorage.setItem(key, text);
		}
	} catch {
		// it is forgotten
	}
}

/** What tells this tab from others, also after a reload. */
export function tabKey() {
	const kept = readTab(TAB_KEY) ?? crypto.getRandomValues(new Uint32Array(2)).join('-');
	writeTab(TAB_KEY, kept);
	return kept;
}

/** The client id of this tab: answers given here stay marked "you" after a reload. */
export function tabId() {
	return readTab(TAB_ID) ?? undefined;
}

/** @param {string} id */
export function keepTabId(id) {
	writeTab(TAB_ID, id);
}
