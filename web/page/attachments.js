/**
 * Images and files of the next prompt: pasted, dropped or chosen. They are uploaded when the prompt is sent; removing one meanwhile
 * withdraws the prompt.
 */
import { formatBytes, h, icon, visible } from './dom.js';
import { uploadBlob } from '../client/holdfast-client.js';

const COUNT_MAX = 20;
const SIZE_MAX = 16 * 1024 * 1024;
const IMAGE = /^image\/(png|jpeg|gif|webp|avif)$/;

/**
 * @typedef {object} Attached
 * @property {File} file @property {HTMLElement} row @property {HTMLElement} state @property {string | null} url
 */

/** The promise of a prompt rejects with this when it is withdrawn. */
class TakenBack extends Error {}

export class Attachments {
	#list;
	#handlers;
	/** Those for the next prompt. @type {Attached[]} */
	#all = [];
	/** Those being uploaded, and how to withdraw their prompt. @type {{files: Attached[], abort: AbortController} | null} */
	#sending = null;

	/**
	 * @param {HTMLFormElement} form @param {HTMLElement} list
	 * @param {{changed: () => void, say: (words: string) => void, events: () => readonly any[]}} handlers `events`: those of the session
	 */
	constructor(form, list, handlers) {
		this.#list = list;
		this.#handlers = handlers;
		const picker = h('input', { type: 'file', multiple: true, hidden: true, 'data-testid': 'attach-file' });
		const button = h('button', { type: 'button', class: 'round attach', 'data-testid': 'attach', 'aria-label': 'Attach images or files', title: 'Attach images or files', onclick: () => picker.click() }, icon('plus'));
		form.append(picker, button); // behind the others for the keyboard
		picker.addEventListener('change', () => {
			this.#addAll(picker.files);
			picker.value = '';
		});
		form.addEventListener('paste', (event) => this.#take(event, event.clipboardData));
		const zone = form.closest('main') ?? form;
		zone.addEventListener('dragover', (event) => {
			if (event.dataTransfer?.types.includes('Files')) {
				event.preventDefault();
				form.classList.add('drop');
			}
		});
		zone.addEventListener('dragleave', () => form.classList.remove('drop'));
		zone.addEventListener('drop', (event) => {
			form.classList.remove('drop');
			this.#take(event, event.dataTransfer);
		});
	}

	/** Stands in for the words of a prompt without any; empty while the last prompt's files are being uploaded. */
	get names() {
		return this.#sending ? '' : this.#all.map(({ file }) => file.name).join(', ');
	}

	/** Another session is shown: withdraws a prompt whose files are still being uploaded. */
	leave() {
		this.#sending?.abort.abort(new TakenBack('The session was left while its files were being sent.'));
	}

	/**
	 * Sends a prompt with them and these links; false after saying that it was not sent.
	 * @param {any} client @param {string} message @param {any[]} links
	 */
	async prompt(client, message, links) {
		if (this.#sending) {
			this.#handlers.say('The files of the prompt before this one are still being sent.');
			return false;
		}
		try {
			const content = this.#all.length > 0 ? [...(await this.#send(client.sessionId)), ...links] : links;
			client.prompt(message, { content });
		} catch (error) {
			this.#handlers.say(`The prompt was not sent. ${error instanceof Error ? error.message : ''}`);
			return false;
		}
		return true;
	}

	/**
	 * Uploads them to the session, and removes them here. If the server refuses one, throws its error and keeps them.
	 * @param {string} sessionId @returns {Promise<import('../client/holdfast-client.js').PromptBlock[]>}
	 */
	async #send(sessionId) {
		const abort = new AbortController();
		const sending = { files: this.#all, abort };
		this.#sending = sending;
		this.#all = [];
		this.#changed();
		const content = [];
		try {
			for (const one of sending.files) {
				content.push(await this.#upload(sessionId, one, abort.signal));
			}
			abort.signal.throwIfAborted();
			sending.files.forEach((one) => this.#drop(one));
		} catch (error) {
			sending.files.forEach(({ file, state }) => (state.textContent = formatBytes(file.size)));
			this.#all = [...sending.files.filter(({ row }) => row.isConnected), ...this.#all];
			throw abort.signal.aborted ? abort.signal.reason : error;
		} finally {
			this.#sending = null;
			this.#changed();
		}
		return /** @type {import('../client/holdfast-client.js').PromptBlock[]} */ (content);
	}

	/** @param {string} sessionId @param {Attached} one @param {AbortSignal} signal */
	async #upload(sessionId, { file, state }, signal) {
		state.textContent = 'Sending';
		const onprogress = (/** @type {number} */ sent, /** @type {number} */ size) => {
			state.textContent = `Sending, ${Math.floor((100 * sent) / Math.max(1, size))} %`;
		};
		const { blob, mime_type } = await uploadBlob(sessionId, file, { signal, onprogress });
		state.textContent = 'Sent';
		const type = typeOf(mime_type);
		return { type, blob, name: file.name.slice(0, 80), ...(type === 'resource' && file.type && { mime_type: file.type.slice(0, 80) }) };
	}

	/** @param {Event} event @param {DataTransfer | null} data */
	#take(event, data) {
		if (data && data.files.length > 0) {
			event.preventDefault();
			this.#addAll(data.files);
		}
	}

	/** @param {FileList | null} files */
	#addAll(files) {
		[...(files ?? [])].forEach((file) => this.#add(file));
		this.#changed();
	}

	/** @param {File} file */
	#add(file) {
		const why = this.#fault(file);
		if (why) {
			this.#handlers.say(`${visible(file.name)} cannot be attached: ${why}.`);
			return;
		}
		const url = IMAGE.test(file.type) ? URL.createObjectURL(file) : null;
		const state = h('span', { class: 'muted attached-state' }, formatBytes(file.size));
		const remove = h('button', { type: 'button', class: 'icon-button', 'aria-label': `Remove ${visible(file.name)}`, title: 'Remove' }, icon('close'));
		const row = h('li', { class: 'attached', 'data-testid': 'attached' }, url ? h('img', { src: url, alt: '' }) : icon('read'), h('bdi', { class: 'media-name' }, visible(file.name)), state, remove);
		const one = { file, row, state, url };
		remove.addEventListener('click', () => this.#remove(one));
		this.#all.push(one);
		this.#list.append(row);
	}

	/** Why a file cannot go with a prompt; null: it can. @param {File} file */
	#fault({ size, type }) {
		const kind = typeOf(type);
		return this.#all.length >= COUNT_MAX
			? `a prompt has at most ${COUNT_MAX}`
			: size === 0
				? 'it is empty'
				: size > SIZE_MAX
					? `it has more than ${formatBytes(SIZE_MAX)}`
					: takes(this.#handlers.events(), kind)
						? null
						: `the agent takes no ${{ image: 'images', audio: 'sounds', resource: 'files' }[kind]}`;
	}

	/** @param {Attached} one */
	#remove(one) {
		this.#all = this.#all.filter((other) => other !== one);
		this.#drop(one);
		if (this.#sending?.files.includes(one)) {
			this.#sending.abort.abort(new TakenBack('A file was taken away while it was being sent.'));
		}
		this.#changed();
	}

	/** @param {Attached} one */
	#drop({ row, url }) {
		row.remove();
		if (url) {
			URL.revokeObjectURL(url);
		}
	}

	#changed() {
		this.#list.hidden = this.#all.length === 0 && this.#sending === null;
		this.#handlers.changed();
	}
}

/** @param {string} mimeType @returns {'image' | 'audio' | 'resource'} */
function typeOf(mimeType) {
	return IMAGE.test(mimeType) ? 'image' : /^audio\//.test(mimeType) ? 'audio' : 'resource';
}

/** Whether the agent accepts them; before it has started, that is left to the server. @param {readonly any[]} events @param {string} kind */
function takes(events, kind) {
	const started = events.findLast(({ type }) => type === 'agent_started');
	return !started || started.data.prompt_capabilities?.[kind === 'resource' ? 'embedded_context' : kind] === true;
}
