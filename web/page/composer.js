/** The prompt box: Enter sends, Shift+Enter makes a new line; on touch screens Enter makes one, too. It grows with its text. */
import { isTouch } from './keys.js';

export class Composer {
	#form;
	/** @type {HTMLTextAreaElement} */
	#box;
	#sendButton;
	#stopButton;
	#attached;

	/**
	 * @param {HTMLFormElement} form
	 * @param {{send: (message: string) => void, stop: () => void, attached?: () => string}} handlers `attached`: the names of
	 *   attachments; with them a prompt needs no words
	 */
	constructor(form, { send, stop, attached = () => '' }) {
		this.#attached = attached;
		this.#form = form;
		this.#box = /** @type {HTMLTextAreaElement} */ (form.querySelector('textarea'));
		this.#sendButton = /** @type {HTMLButtonElement} */ (
			form.querySelector('[data-testid="send"]')
		);
		this.#stopButton = /** @type {HTMLButtonElement} */ (
			form.querySelector('[data-testid="cancel"]')
		);
		const submit = () => {
			const message = this.#box.value.trim() || attached();
			if (message && !this.#box.disabled) {
				this.#set('');
				send(message);
			}
		};
		form.addEventListener('submit', (event) => {
			event.preventDefault();
			submit();
		});
		this.#box.addEventListener('keydown', (event) => {
			if (event.key === 'Enter' && !event.shiftKey && !isTouch()) {
				event.preventDefault();
				submit();
			}
		});
		this.#box.setAttribute('enterkeyhint', isTouch() ? 'enter' : 'send');
		this.#box.addEventListener('input', () => this.#fit());
		addEventListener('resize', () => this.#fit());
		this.#stopButton.addEventListener('click', stop);
		this.#fit();
	}

	focus() {
		this.#box.focus();
	}

	/** Restores a text that could not be sent, unless another has been begun. @param {string} message */
	restore(message) {
		if (!this.#box.value) {
			this.#set(message);
		}
	}

	/** @param {{placeholder: string, disabled: boolean, canStop: boolean, showStop: boolean}} state */
	update({ placeholder, disabled, canStop, showStop }) {
		this.#box.placeholder = placeholder;
		this.#box.disabled = disabled;
		this.#form.classList.toggle('disabled', disabled);
		if (!showStop && document.activeElement === this.#stopButton) {
			this.#box.focus(); // the focus must not fall out of the page with the button
		}
		this.#stopButton.hidden = !showStop;
		this.#stopButton.disabled = !canStop;
		this.allowSend();
	}

	#set(/** @type {string} */ text) {
		this.#box.value = text;
		this.#box.dispatchEvent(new Event('input')); // all who follow the text
	}

	/** Called also when attachments have changed. */
	allowSend() {
		this.#sendButton.disabled = this.#box.disabled || !(this.#box.value.trim() || this.#attached());
	}

	#fit() {
		this.allowSend();
		this.#box.style.height = 'auto';
		this.#box.style.height = `${this.#box.scrollHeight}px`;
	}
}
