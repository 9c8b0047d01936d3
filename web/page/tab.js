/** Values that a tab keeps over a reload. They are lost if storage is disabled or full. */

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

/** A key of this tab, the same after a reload. */
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
