/** Remembers the reader's place in each session, also over a reload. For this tab only. */
import { soughtSeq } from './address.js';
import { loadBackTo } from './older.js';
import { readTab, writeTab } from './tab.js';

const PREFIX = 'holdfast place ';

/** @typedef {import('../client/holdfast-client.js').HoldfastClient} HoldfastClient */
/** @typedef {{epoch: string | null, seq: number, top: number}} Place the item that the view begins with, and where it begins */

export class Places {
	#transcript;
	/** @type {HoldfastClient | null} the session that is shown */
	#client = null;
	/** Where to go in it; null: to its end. @type {Place | null} */
	#wanted = null;
	#isLoading = false;

	/** @param {import('./transcript.js').Transcript} transcript */
	constructor(transcript) {
		this.#transcript = transcript;
		window.addEventListener('pagehide', () => this.#keep());
	}

	/** Before another session is shown. */
	leave() {
		this.#keep();
		this.#client = null;
	}

	/** @param {HoldfastClient | null} client of the session that is shown now */
	open(client) {
		this.#client = client;
		this.#wanted = client && soughtSeq() === null ? read(client.sessionId) : null;
	}

	/** Stays at the end instead. */
	forget() {
		this.#wanted = null;
	}

	/** Events have come, or a connection: goes to the place as soon as it is there. */
	async follow() {
		const [from, wanted] = [this.#client, this.#wanted];
		if (!from || !wanted || this.#isLoading || from.position.epoch === null) {
			return;
		}
		const isHere = (from.events[0]?.seq ?? Infinity) <= wanted.seq;
		if (this.#transcript.place !== null || wanted.epoch !== from.position.epoch) {
			this.#wanted = null; // the reader is reading elsewhere, or it is another history
		} else if (isHere) {
			this.#show(wanted);
		} else if (from.status.status === 'live') {
			this.#isLoading = true;
			await loadBackTo(from, wanted.seq, () => this.#wanted === wanted && this.#transcript.place === null);
			this.#isLoading = false;
			if (this.#wanted === wanted && from.status.status === 'live') {
				this.#show(wanted);
			}
		}
	}

	#show(/** @type {Place} */ place) {
		this.#wanted = null;
		if (this.#transcript.place === null) {
			this.#transcript.showPlace(place);
		}
	}

	#keep() {
		const client = this.#client;
		if (client && this.#wanted === null) {
			const place = this.#transcript.place;
			writeTab(PREFIX + client.sessionId, place && JSON.stringify({ ...place, epoch: client.position.epoch }));
		}
	}
}

/** @param {string} id @returns {Place | null} */
function read(id) {
	try {
		const place = JSON.parse(readTab(PREFIX + id) ?? 'null');
		return Number.isSafeInteger(place?.seq) && Number.isFinite(place.top) ? place : null;
	} catch {
		return null;
	}
}
