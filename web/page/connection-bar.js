/** The state of the connection: always as a word, and as a banner while it is lost. */
import { icon } from './dom.js';

/** @typedef {import('../client/holdfast-client.js').StatusDetail} StatusDetail */

const STATUS_WORDS = {
	closed: 'Not connected',
	connecting: 'Connecting',
	loading: 'Catching up',
	live: 'Live',
	retrying: 'Reconnecting',
	offline: 'Offline',
	gone: 'Deleted',
	unauthorized: 'Signed out',
};
const SAID = ['live', 'retrying', 'offline', 'gone', 'unauthorized'];
const BACK_MS = 4_000;

/** @param {StatusDetail} detail */
function wordOf({ status, reason }) {
	return status === 'gone' && reason === 'not_found' ? 'Not found' : STATUS_WORDS[status];
}

/** @param {number} [retryAt] */
const secondsLeft = (retryAt) => Math.max(0, Math.ceil(((retryAt ?? 0) - Date.now()) / 1000));

export class ConnectionBar {
	#pill;
	#banner;
	#drop;
	#announcement;
	#countdown = 0;
	#back = 0;
	/** @type {number | null} the newest event held when the connection broke */
	#lostAt = null;
	/** @type {number | undefined} */
	#copyOf;

	/**
	 * @param {{pill: HTMLElement, banner: HTMLElement, drop: HTMLButtonElement, announcement: HTMLElement}} places
	 * @param {{retry: () => void, drop: () => void}} handlers
	 */
	constructor({ pill, banner, drop, announcement }, handlers) {
		this.#pill = pill;
		this.#banner = banner;
		this.#drop = drop;
		this.#announcement = announcement;
		banner.prepend(icon('unplug'));
		pill.addEventListener('click', handlers.retry);
		drop.addEventListener('click', handlers.drop);
		banner.querySelector('button')?.addEventListener('click', handlers.retry);
	}

	/** Another session, or none. */
	reset() {
		this.#lostAt = null;
		this.#hideBanner();
	}

	/**
	 * @param {StatusDetail | null} detail null: there is no session @param {number} seq the newest event held
	 * @param {number} [copyOf] when the newest event was made, if this is only the browser's copy so far
	 */
	show(detail, seq, copyOf) {
		this.#copyOf = copyOf;
		this.#pill.hidden = this.#drop.hidden = !detail;
		clearInterval(this.#countdown);
		if (!detail) {
			return;
		}
		const { status, retryAt } = detail;
		this.#pill.dataset.status = status;
		this.#pill.title = status === 'live' ? 'Check the connection' : 'Connect now';
		this.#drop.disabled = status !== 'live';
		this.#say(detail);
		if (retryAt) {
			this.#countdown = window.setInterval(() => this.#say(detail), 250);
		}
		if (SAID.includes(status)) {
			this.#announcement.textContent = `Connection: ${wordOf(detail)}`; // once, not with every second
		}
		this.#note(status, seq);
	}

	#say(/** @type {StatusDetail} */ detail) {
		/** @type {HTMLElement} */ (this.#pill.querySelector('.pill-text')).textContent =
			wordOf(detail);
		if (detail.status === 'retrying' || detail.status === 'offline') {
			const lost =
				detail.status === 'offline'
					? 'You are offline.'
					: this.#copyOf === undefined
						? 'Connection lost.'
						: 'The server cannot be reached.';
			const copy =
				this.#copyOf === undefined
					? ''
					: ` This is the copy that this browser keeps, up to ${new Date(this.#copyOf).toLocaleString()}.`;
			this.#showBanner(
				'lost',
				`${lost}${copy} Trying again in ${secondsLeft(detail.retryAt)}\u00a0s.`,
			);
		}
	}

	#note(/** @type {string} */ status, /** @type {number} */ seq) {
		if (status === 'retrying' || status === 'offline') {
			this.#lostAt ??= seq;
		} else if (status === 'live' && this.#lostAt !== null) {
			const missed = seq - this.#lostAt;
			this.#lostAt = null;
			const what = missed === 1 ? 'One event' : `${missed} events`;
			this.#showBanner(
				'back',
				missed > 0
					? `Reconnected. ${what} arrived in the meantime.`
					: 'Reconnected. Nothing was missed.',
			);
			this.#back = window.setTimeout(() => this.#hideBanner(), BACK_MS);
		} else if (status === 'gone' || status === 'closed') {
			this.reset();
		}
	}

	#showBanner(/** @type {'lost' | 'back'} */ kind, /** @type {string} */ words) {
		clearTimeout(this.#back);
		this.#banner.hidden = false;
		this.#banner.dataset.kind = kind;
		/** @type {HTMLElement} */ (this.#banner.querySelector('span')).textContent = words;
	}

	#hideBanner() {
		clearTimeout(this.#back);
		this.#banner.hidden = true;
	}
}
