/** Images and files that go with the next prompt: pasted, dropped or chosen; they are sent to the server when the prompt is. */
import { formatBytes, h, icon, visible } from './dom.js';
import { uploadBlob } from '../client/holdfast-client.js';

const COUNT_MAX = 20;
const SIZE_MAX = 16 * 1024 * 1024;
const IMAGE = /^image\/(png|jpeg|gif|webp|avif)$/;

/**
 * @typedef {object} Attached
 * @property {File} file @property {HTMLElement} row @property {HTMLElement} state @property {string | null} url
 */

export class Attachments {
	#list;
	#handlers;
	/** @type {Attached[]} */
	#all = [];

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

	/** What stands for the words of a prompt that has none. */
	get names() {
		return this.#all.map(({ file }) => file.name).join(', ');
	}

	/** Sends a prompt with them; false if that failed, which is said. @param {any} client @param {string} message */
	async prompt(client, message) {
		if (this.#all.length === 0) {
			client?.prompt(message);
			return true;
		}
		try {
			client.prompt(message, { content: await this.#send(client.sessionId) });
		} catch (error) {
			this.#handlers.say(`The prompt was not sent. ${error instanceof Error ? error.message : ''}`);
			return false;
		}
		return true;
	}

	/**
	 * Sends them to the session; they are none any more. Throws what the server says if it refuses one, and keeps them.
	 * @param {string} sessionId @returns {Promise<import('../client/holdfast-client.js').PromptBlock[]>}
	 */
	async #send(sessionId) {
		const all = [...this.#all];
		const content = [];
		for (const { file, state } of all) {
			state.textContent = 'Sending…';
			try {
				const { blob, mime_type } = await uploadBlob(sessionId, file);
				const type = typeOf(mime_type);
				content.push({ type, blob, name: file.name.slice(0, 80), ...(type === 'resource' && file.type && { mime_type: file.type.slice(0, 80) }) });
				state.textContent = 'Sent';
			} catch (error) {
				state.textContent = 'Not sent';
				throw error;
			}
		}
		all.forEach((one) => this.#remove(one));
		return /** @type {import('../client/holdfast-client.js').PromptBlock[]} */ (content);
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
		const state = h('span', { class: 'muted', role: 'status' }, formatBytes(file.size));
		const remove = h('button', { type: 'button', class: 'icon-button', 'aria-label': `Remove ${visible(file.name)}`, title: 'Remove' }, icon('close'));
		const row = h('li', { class: 'attached', 'data-testid': 'attached' }, url ? h('img', { src: url, alt: '' }) : icon('read'), h('bdi', { class: 'media-name' }, visible(file.name)), state, remove);
		const one = { file, row, state, url };
		remove.addEventListener('click', () => {
			this.#remove(one);
			this.#handlers.changed();
		});
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
		one.row.remove();
		if (one.url) {
			URL.revokeObjectURL(one.url);
		}
		this.#changed();
	}

	#changed() {
		this.#list.hidden = this.#all.length === 0;
		this.#handlers.changed();
	}
}

/** @param {string} mimeType @returns {'image' | 'audio' | 'resource'} */
function typeOf(mimeType) {
	return IMAGE.test(mimeType) ? 'image' : /^audio\//.test(mimeType) ? 'audio' : 'resource';
}

/** Whether the agent takes them; before it has started nobody knows, and the server says. @param {readonly any[]} events @param {string} kind */
function takes(events, kind) {
	const started = events.findLast(({ type }) => type === 'agent_started');
	return !started || started.data.prompt_capabilities?.[kind === 'resource' ? 'embedded_context' : kind] === true;
}
