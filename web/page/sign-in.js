/** The form shown while nobody is logged in, and the question before one login replaces another. */
import { copyButton, h, icon, lookUp, visible } from './dom.js';
import { whoWords } from './rights.js';

const COMMAND = 'holdfast url --data DIR';

const NOTES = {
	left_share: 'You have left the shared session. Open the link again to come back.',
	signed_out: 'You are signed out. The transcripts stored in this browser were deleted.',
	token_expired: 'Your access has expired. Sign in again to continue where you were.',
	token_revoked: 'Your access was revoked. The transcripts stored in this browser were deleted.',
	unreachable: 'The server does not answer. Trying again.',
	refused: 'The server does not accept this sign-in any more. Sign in again.',
};

const FAULTS = {
	unauthorized: 'This token is not valid. Check that you copied all of it.',
	token_expired: 'This token has expired. Get a new link.',
	token_revoked: 'This token was revoked. Get a new link.',
	too_many_tokens: 'Too many wrong tokens. Wait a minute, then try again.',
};

/** @param {any} error */
export function faultText(error) {
	return lookUp(FAULTS, error?.code ?? '', 'The server could not be reached. Try again in a moment.');
}

/** The token in a pasted text: a link, or the token itself. @param {string} text */
function tokenOf(text) {
	const given = new URLSearchParams(text.match(/#((?:token|share)=.*)$/)?.[1] ?? '');
	return given.get('token') ?? given.get('share') ?? text;
}

export class SignIn {
	#element;
	#note;
	#fault;
	/** @type {HTMLInputElement} */
	#field;
	#button;

	/** @param {(token: string) => Promise<void>} signIn rejects if the server refuses the token */
	constructor(signIn) {
		this.#note = h('p', { class: 'sign-in-note', role: 'status', hidden: true });
		this.#fault = h('p', { class: 'sign-in-fault', id: 'token-fault', role: 'alert' });
		this.#field = h('input', {
			id: 'token',
			type: 'password',
			autocomplete: 'off',
			autocapitalize: 'off',
			spellcheck: 'false',
			required: true,
			'aria-describedby': 'token-fault',
			'data-testid': 'token',
		});
		this.#button = h('button', { class: 'button primary', 'data-testid': 'sign-in' }, 'Sign in');
		const form = h(
			'form',
			{ class: 'sign-in-form', autocomplete: 'off' },
			h('label', { for: 'token' }, 'Or paste the link or a token'),
			h('div', { class: 'sign-in-row' }, this.#field, this.#button),
			this.#fault,
		);
		form.addEventListener('submit', (/** @type {Event} */ event) => {
			event.preventDefault();
			void this.#submit(signIn);
		});
		this.#element = h(
			'main',
			{ class: 'sign-in', 'data-testid': 'sign-in-screen' },
			h(
				'div',
				{ class: 'sign-in-card' },
				h('img', { src: 'page/icon.svg', alt: '', width: '44', height: '44' }),
				h('h1', {}, 'Sign in to Holdfast'),
				this.#note,
				h('p', {}, 'On the machine where the server runs, get a link and open it in this browser:'),
				h(
					'div',
					{ class: 'code sign-in-command' },
					h('pre', { tabindex: '0', 'aria-label': 'Command' }, COMMAND),
					copyButton(),
				),
				form,
				h('p', { class: 'sign-in-help' }, 'Does somebody else run it? Ask them for a link.'),
			),
		);
	}

	/** @param {string} [reason] why the page is not shown @param {string} [fault] what is wrong with a token */
	show(reason = '', fault = '') {
		const words = lookUp(NOTES, reason, '');
		this.#note.replaceChildren(...(words ? [icon('info'), h('span', {}, words)] : []));
		this.#note.hidden = !words;
		this.#fault.textContent = fault;
		if (!this.#element.isConnected) {
			document.body.append(this.#element);
			if (matchMedia('(hover: hover)').matches) {
				this.#field.focus(); // on a phone this would open the keyboard
			}
		}
		document.title = 'Sign in · Holdfast';
	}

	hide() {
		this.#element.remove();
		this.#field.value = this.#fault.textContent = '';
	}

	/** @param {(token: string) => Promise<void>} signIn */
	async #submit(signIn) {
		const token = tokenOf(this.#field.value.trim());
		if (!token || this.#button.disabled) {
			return;
		}
		this.#button.disabled = true;
		this.#fault.textContent = '';
		try {
			await signIn(token);
		} catch (error) {
			this.#fault.textContent = faultText(error);
			this.#field.select();
		} finally {
			this.#button.disabled = false;
		}
	}
}

/** @typedef {{role: string, sub: string}} Named */

/** True: the other login is to replace the current one. @param {Named} now @param {Named} other @returns {Promise<boolean>} */
export function askToReplace(now, other) {
	const named = (/** @type {Named} */ one) => h('strong', {}, visible(whoWords(one)));
	const dialog = h(
		'dialog',
		{ 'aria-labelledby': 'replace-title', 'data-testid': 'replace-login' },
		h(
			'form',
			{ method: 'dialog' },
			h('h2', { id: 'replace-title' }, 'Sign in as somebody else?'),
			h(
				'p',
				{},
				'This browser is signed in as ',
				named(now),
				'. The link that you opened signs it in as ',
				named(other),
				' instead, in all tabs.',
			),
			h(
				'div',
				{ class: 'dialog-buttons' },
				h('button', { class: 'button', value: 'keep', 'data-testid': 'keep-login' }, 'Stay signed in'),
				h('button', { class: 'button primary', value: 'replace', 'data-testid': 'new-login' }, 'Replace'),
			),
		),
	);
	document.body.append(dialog);
	return new Promise((resolve) => {
		dialog.addEventListener('close', () => {
			dialog.remove();
			resolve(dialog.returnValue === 'replace');
		});
		dialog.showModal();
	});
}
