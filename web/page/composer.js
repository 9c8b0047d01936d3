/** The prompt box: Enter sends, Shift+Enter makes a new line. It grows with its text. */

export class Composer {
	#form;
	/** @type {HTMLTextAreaElement} */
	#box;
	#sendButton;
	#stopButton;

	/**
	 * @param {HTMLFormElement} form
	 * @param {{send: (message: string) => void, stop: () => void}} handlers
	 */
	constructor(form, { send, stop }) {
		this.#form = form;
		this.#box = /** @type {HTMLTextAreaElement} */ (form.querySelector('textarea'));
		this.#sendButton = /** @type {HTMLButtonElement} */ (
			form.querySelector('[data-testid="send"]')
		);
		this.#stopButton = /** @type {HTMLButtonElement} */ (
			form.querySelector('[data-testid="cancel"]')
		);
		const submit = () => {
			const message = this.#box.value.trim();
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
			// While an input method composes a word, Enter only accepts it.
			if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
				event.preventDefault();
				submit();
			}
		});
		this.#box.addEventListener('input', () => this.#fit());
		this.#stopButton.addEventListener('click', stop);
		this.#fit();
	}

	focus() {
		this.#box.focus();
	}

	/** Gives a text back that could not be sent, unless another one has been begun. @param {string} message */
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
		this.#allowSend();
	}

	#set(/** @type {string} */ text) {
		this.#box.value = text;
		this.#fit();
	}

	#allowSend() {
		this.#sendButton.disabled = this.#box.disabled || !this.#box.value.trim();
	}

	#fit() {
		this.#allowSend();
		this.#box.style.height = 'auto';
		this.#box.style.height = `${this.#box.scrollHeight}px`;
	}
}
