/** The switch for push messages, which tell this browser about sessions while the page is closed. Off by default. */
import { currentLogin, getPush, setPush } from '../client/holdfast-client.js';
import { $ } from './dom.js';

/** The endpoint last sent to the server: browsers change theirs now and then. */
const TOLD = 'holdfast-push';

/** @param {string} key in base64url */
function bytesOf(key) {
	return Uint8Array.from(atob(key.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0));
}

/** @param {ArrayBuffer | null} kept @param {Uint8Array} key */
function isSameKey(kept, key) {
	const bytes = new Uint8Array(kept ?? new ArrayBuffer(0));
	return bytes.length === key.length && bytes.every((byte, i) => byte === key[i]);
}

export class PushSwitch {
	#button = $('#push');
	#tell;
	#key = new Uint8Array();
	#isOn = false;

	/** @param {(message: string) => void} tell */
	constructor(tell) {
		this.#tell = tell;
		this.#button.addEventListener('click', () => void this.#change());
	}

	/** Somebody is logged in, or somebody else. */
	async show() {
		this.#button.hidden = true;
		const login = currentLogin();
		if (!login?.login || login.share || !('PushManager' in window) || !('Notification' in window)) {
			return;
		}
		try {
			const { key, subscribed } = await getPush();
			const worker = key && (await navigator.serviceWorker?.getRegistration());
			if (!key || !worker) {
				return;
			}
			this.#key = bytesOf(key);
			await this.#settle(subscribed && Notification.permission === 'granted');
			this.#button.hidden = false;
		} catch {
			// without the server there is nothing to switch
		}
	}

	/** Makes the server's and the browser's subscription agree. @param {boolean} isWanted */
	async #settle(isWanted) {
		const subscription = isWanted ? await this.#subscribe() : null;
		if (subscription && subscription.endpoint !== localStorage.getItem(TOLD)) {
			await this.#give(subscription);
		}
		this.#mark(isWanted);
	}

	/** The browser's subscription for this server's key; there can be only one. */
	async #subscribe() {
		const { pushManager } = await navigator.serviceWorker.ready;
		const kept = await pushManager.getSubscription();
		if (kept && isSameKey(kept.options.applicationServerKey, this.#key)) {
			return kept;
		}
		await kept?.unsubscribe();
		return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: this.#key });
	}

	/** @param {PushSubscription} subscription */
	async #give(subscription) {
		await setPush(subscription);
		localStorage.setItem(TOLD, subscription.endpoint);
	}

	async #change() {
		const button = /** @type {HTMLButtonElement} */ (this.#button);
		button.disabled = true;
		try {
			await (this.#isOn ? this.#switchOff() : this.#switchOn());
		} catch (error) {
			this.#tell(`Push notifications could not be switched ${this.#isOn ? 'off' : 'on'}. ${error instanceof Error ? error.message : ''}`);
		}
		button.disabled = false;
		button.focus();
	}

	async #switchOn() {
		if ((await Notification.requestPermission()) !== 'granted') {
			this.#tell('This browser does not allow notifications from this page. Allow them in its settings for this site.');
			return;
		}
		await this.#give(await this.#subscribe());
		this.#mark(true);
	}

	async #switchOff() {
		await setPush(null);
		localStorage.removeItem(TOLD);
		const { pushManager } = await navigator.serviceWorker.ready;
		await (await pushManager.getSubscription())?.unsubscribe();
		this.#mark(false);
	}

	/** @param {boolean} isOn */
	#mark(isOn) {
		this.#isOn = isOn;
		this.#button.querySelector('span')?.replaceChildren(`Push notifications: ${isOn ? 'on' : 'off'}`);
	}
}
