/** The queued prompts, above the prompt box. Their senders, and admins, may edit and remove them. */
import { h, icon, morph, visible } from './dom.js';
import { attachedNames } from './media.js';
import { isUs, mayChange, nameOf } from './rights.js';

const NAME_MAX = 60;

/** @typedef {import('../client/holdfast-client.js').QueuedPrompt} QueuedPrompt */

/**
 * @typedef {object} Draft The one prompt that is being edited here.
 * @property {string} promptId @property {string} before its message when that began
 * @property {HTMLElement} form @property {HTMLTextAreaElement} box
 */

export class PromptQueue {
	#section;
	#head;
	#list;
	#handlers;
	#clientId = '';
	/** @type {Map<string, HTMLElement>} */
	#rows = new Map();
	/** @type {QueuedPrompt[]} */
	#prompts = [];
	/** @type {Draft | null} */
	#draft = null;
	#shown = '';

	/**
	 * @param {HTMLElement} section
	 * @param {{whole: (promptId: string) => Promise<string>, edit: (promptId: string, message: string) => Promise<void>,
	 *   remove: (promptId: string) => Promise<void>, orphaned: (message: string) => void, leave: () => void}} handlers
	 *   `whole` gives the uncut message; `orphaned` takes the text written for a prompt that is no longer queued;
	 *   `leave` takes the focus when nothing is left here to have it
	 */
	constructor(section, handlers) {
		this.#section = section;
		this.#handlers = handlers;
		this.#head = h('p', { class: 'queue-head', role: 'status', 'data-testid': 'queue-head' });
		this.#list = h('ol', { 'data-testid': 'queue' });
		section.append(this.#head, this.#list);
		section.addEventListener('click', (event) => this.#handleClick(event));
	}

	/** Another session: drops the draft. @param {string} clientId */
	clear(clientId) {
		this.#clientId = clientId;
		this.#draft = null;
		this.#shown = '';
		this.show([], 0);
	}

	/** @param {QueuedPrompt[]} prompts @param {number} length how many wait in all */
	show(prompts, length) {
		const key = JSON.stringify([length, prompts]);
		if (key === this.#shown) {
			return;
		}
		this.#shown = key;
		const focused = this.#focusedPlace();
		this.#prompts = prompts;
		this.#closeOrphan();
		const ids = new Set(prompts.map(({ prompt_id }) => prompt_id));
		for (const [id, row] of this.#rows) {
			if (!ids.has(id)) {
				row.remove();
				this.#rows.delete(id);
			}
		}
		prompts.forEach((prompt, i) => {
			const row = this.#rowOf(prompt);
			if (this.#list.children[i] !== row) {
				this.#list.insertBefore(row, this.#list.children[i] ?? null);
			}
		});
		this.#tell(prompts.length, length);
		if (focused !== null && !this.#section.contains(document.activeElement)) {
			this.#focusAt(focused);
		}
	}

	#tell(/** @type {number} */ shown, /** @type {number} */ length) {
		this.#section.hidden = shown === 0;
		const words =
			length === 1 ? '1 prompt waiting' : `${length} prompts waiting, the next one first`;
		const text = shown === 0 ? '' : shown < length ? `${words}; the first ${shown}` : words;
		if (this.#head.textContent !== text) {
			this.#head.textContent = text;
		}
	}

	/** @param {QueuedPrompt} prompt */
	#rowOf(prompt) {
		const id = prompt.prompt_id;
		const row = this.#rows.get(id) ?? h('li', { 'data-prompt-id': id, 'data-testid': 'queued' });
		this.#rows.set(id, row);
		if (this.#draft?.promptId !== id) {
			morph(row, this.#render(prompt));
		}
		return row;
	}

	/** @param {QueuedPrompt} prompt */
	#render({ prompt_id: id, message, client_id: client, sub, name: said, edited, truncated, content = [] }) {
		const text = visible(message) + (truncated ? '…' : '');
		const name = text.length > NAME_MAX ? `${text.slice(0, NAME_MAX)}…` : text;
		const isOurs = isUs(client, sub, this.#clientId);
		const canChange = mayChange({ client_id: client, sub }, this.#clientId);
		return h(
			'li',
			{},
			h('span', { class: 'queue-text', dir: 'auto' }, text),
			content.length > 0 && attachedNames(content),
			edited ? h('span', { class: 'queue-note' }, 'edited') : null,
			isOurs
				? null
				: h(
						'span',
						{ class: 'queue-note queue-client', title: client },
						visible(nameOf(client, sub, said)),
					),
			canChange && button('edit', 'edit', `Edit: ${name}`, 'edit-queued', id),
			canChange && button('remove', 'close', `Remove: ${name}`, 'remove-queued', id),
		);
	}

	#handleClick(/** @type {Event} */ event) {
		const target = /** @type {HTMLElement} */ (event.target).closest('button');
		const id = target?.closest('li')?.dataset.promptId;
		const prompt = this.#prompts.find(({ prompt_id }) => prompt_id === id);
		if (!prompt) {
			return;
		}
		if (target?.dataset.action === 'edit') {
			void this.#begin(prompt);
		} else if (target?.dataset.action === 'remove') {
			void this.#busy(prompt.prompt_id, this.#handlers.remove(prompt.prompt_id));
		} else if (target?.dataset.action === 'cancel-edit') {
			this.#close(prompt.prompt_id);
		}
	}

	/** @param {QueuedPrompt} prompt */
	async #begin({ prompt_id: promptId, message, truncated }) {
		const whole = truncated ? this.#handlers.whole(promptId) : Promise.resolve(message);
		const before = await this.#busy(promptId, whole);
		const row = this.#rows.get(promptId);
		if (before === null || !row) {
			return; // it has started or was removed: the user was told
		}
		if (this.#draft) {
			this.#close(this.#draft.promptId);
		}
		const box = h('textarea', {
			rows: 1,
			dir: 'auto',
			'aria-label': 'New text of the prompt',
			'data-testid': 'queued-text',
		});
		const form = h(
			'form',
			{ class: 'queue-form', autocomplete: 'off' },
			box,
			formButton('Save', { type: 'submit', 'data-testid': 'save-queued' }),
			formButton('Cancel', { type: 'button', 'data-action': 'cancel-edit' }),
		);
		box.value = before;
		this.#draft = { promptId, before, form, box };
		form.addEventListener('submit', (/** @type {Event} */ event) => {
			event.preventDefault();
			void this.#save();
		});
		form.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => this.#handleKey(event));
		box.addEventListener('input', () => fit(box));
		row.replaceChildren(form);
		fit(box);
		box.focus();
		box.setSelectionRange(before.length, before.length);
	}

	#handleKey(/** @type {KeyboardEvent} */ event) {
		const isInBox = event.target === this.#draft?.box;
		if (event.key === 'Escape' && this.#draft) {
			event.stopPropagation();
			this.#close(this.#draft.promptId);
		} else if (event.key === 'Enter' && isInBox && !event.shiftKey) {
			event.preventDefault();
			void this.#save();
		}
	}

	async #save() {
		const draft = this.#draft;
		const message = draft?.box.value.trim();
		if (!draft || !message) {
			return; // removing it has a button
		}
		if (message === draft.before) {
			this.#close(draft.promptId);
			return;
		}
		const saved = await this.#busy(draft.promptId, this.#handlers.edit(draft.promptId, message));
		if (saved !== null && this.#draft === draft) {
			this.#close(draft.promptId);
		}
	}

	/** Shows the prompt as it is again. */
	#close(/** @type {string} */ promptId) {
		const hadFocus = this.#draft?.form.contains(document.activeElement);
		const prompt = this.#prompts.find(({ prompt_id }) => prompt_id === promptId);
		this.#draft = null;
		if (prompt) {
			const row = this.#rowOf(prompt);
			if (hadFocus) {
				row.querySelector('button')?.focus();
			}
		}
	}

	/** The prompt being edited has started or was removed: keeps the text. */
	#closeOrphan() {
		const draft = this.#draft;
		if (draft && !this.#prompts.some(({ prompt_id }) => prompt_id === draft.promptId)) {
			this.#draft = null;
			if (draft.box.value.trim() !== draft.before) {
				this.#handlers.orphaned(draft.box.value);
			}
		}
	}

	/**
	 * Marks the prompt while a request about it is pending. The handlers report errors.
	 * @template T @param {string} promptId @param {Promise<T>} asked @returns {Promise<T | null>} null: refused
	 */
	async #busy(promptId, asked) {
		this.#rows.get(promptId)?.setAttribute('aria-busy', 'true');
		try {
			return await asked;
		} catch {
			return null;
		} finally {
			this.#rows.get(promptId)?.removeAttribute('aria-busy');
		}
	}

	/** The place of the row that has the focus. */
	#focusedPlace() {
		const row = document.activeElement?.closest('li');
		const place = row ? [...this.#list.children].indexOf(row) : -1;
		return place >= 0 ? place : null;
	}

	/** The row that had the focus is gone: the one in its place has it, or the last. */
	#focusAt(/** @type {number} */ place) {
		const rows = this.#list.children;
		const row = rows[Math.min(place, rows.length - 1)];
		const next = row?.querySelector('[data-action="remove"], textarea');
		if (next) {
			next.focus();
		} else {
			this.#handlers.leave();
		}
	}
}

/** @param {string} action @param {string} picture @param {string} label @param {string} testId @param {string} id */
function button(action, picture, label, testId, id) {
	return h(
		'button',
		{
			type: 'button',
			class: 'icon-button',
			'data-action': action,
			'data-testid': testId,
			'data-for': id,
			'aria-label': label,
			title: action === 'edit' ? 'Edit' : 'Remove',
		},
		icon(picture),
	);
}

/** @param {string} words @param {Record<string, string>} attributes */
function formButton(words, attributes) {
	return h('button', { class: 'button small', ...attributes }, words);
}

function fit(/** @type {HTMLTextAreaElement} */ box) {
	box.style.height = 'auto';
	box.style.height = `${box.scrollHeight}px`;
}
