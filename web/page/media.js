/**
 * Images, sounds, files and links of agents and prompts. Their bytes are fetched with the login, so elements contain no address
 * of the server. Only types that cannot run are shown; everything else is saved as a file.
 */
import { output } from './card-parts.js';
import { formatBytes, h, icon, visible } from './dom.js';
import { fetchBlob } from '../client/holdfast-client.js';

const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif'];
const SOUNDS = ['audio/wav', 'audio/mpeg', 'audio/ogg', 'audio/flac', 'audio/mp4'];
const KEPT_MAX = 60; // files in memory

const OMITTED = {
	too_large: 'it is too large',
	blobs_full: 'there is no room for it',
	disk_full: 'there is no room for it',
	storage_failed: 'the server could not store it',
	bad_base64: 'it could not be read',
};

/** Files of the current session, by name. @type {Map<string, Promise<Blob>>} */
const kept = new Map();
/** @type {string | null} */
let session = null;

/** Names belong to this session from now on. @param {string | null} id */
export function openMedia(id) {
	session = id;
	kept.clear();
}

/** @param {string} name @returns {Promise<Blob>} */
function load(name) {
	const known = kept.get(name);
	const bytes = known ?? fetchBlob(session ?? '', name);
	kept.delete(name);
	kept.set(name, bytes); // the newest last
	if (!known) {
		bytes.catch(() => kept.delete(name));
		for (const oldest of [...kept.keys()].slice(0, Math.max(0, kept.size - KEPT_MAX))) {
			kept.delete(oldest);
		}
	}
	return bytes;
}

/** @param {string} base64 @param {string} type @returns {Blob} */
function decode(base64, type) {
	return new Blob([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], { type });
}

/** The bytes of a block, with the type given by the server or the block. @param {any} block @returns {Promise<Blob>} */
async function bytesOf(block) {
	if (typeof block.blob === 'string') {
		return load(block.blob);
	}
	const { data, mime_type, resource } = block;
	return resource?.text === undefined
		? decode(data ?? resource?.blob ?? '', mime_type ?? resource?.mime_type ?? '')
		: new Blob([resource.text], { type: 'text/plain' });
}

/** One block of content; null if its kind is unknown. @param {any} block @returns {HTMLElement | null} */
export function mediaPart(block) {
	const { type, omitted, uri, name } = block ?? {};
	if (omitted !== undefined) {
		const why = Object.hasOwn(OMITTED, omitted) ? OMITTED[/** @type {keyof OMITTED} */ (omitted)] : omitted;
		return h('p', { class: 'muted' }, visible(`${wordOf(block)} is left out: ${why}`));
	}
	if (type === 'resource_link') {
		return linkPart(uri, name);
	}
	if (type === 'image' && session !== null) {
		return imagePart(block);
	}
	return type === 'image' || type === 'audio' || type === 'resource' ? filePart(block) : null;
}

/** @param {any} block */
function wordOf({ type }) {
	return { image: 'An image', audio: 'A sound' }[/** @type {'image' | 'audio'} */ (type)] ?? 'A file';
}

/** @param {any} block */
function nameOf({ type, name, uri, resource }) {
	const path = resource?.uri ?? uri ?? '';
	return name ?? (decodeSafe(path.split(/[\\/]/).pop()) || { image: 'Image', audio: 'Sound' }[/** @type {'image'} */ (type)] || 'File');
}

/** @param {string} text */
function decodeSafe(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

/** @param {any} uri @param {any} name */
function linkPart(uri, name) {
	const words = visible(name ?? uri);
	const isWeb = /^https?:\/\//i.test(String(uri));
	return h(
		'p',
		{ class: 'media-link' },
		icon(isWeb ? 'open' : 'read'),
		isWeb
			? h('a', { href: uri, target: '_blank', rel: 'noopener noreferrer', title: visible(uri) }, words)
			: h('span', { title: visible(uri) }, words),
	);
}

/** @param {any} block */
function imagePart(block) {
	const name = visible(nameOf(block));
	const image = h('img', { alt: name, decoding: 'async' });
	const frame = h('button', { type: 'button', class: 'media-image', 'aria-label': `Enlarge ${name}`, 'aria-busy': 'true' }, image);
	const fail = () => frame.replaceWith(h('p', { class: 'muted' }, `${name} cannot be shown`));
	bytesOf(block).then((bytes) => {
		if (!IMAGES.includes(bytes.type)) {
			frame.replaceWith(filePart(block));
			return;
		}
		const url = URL.createObjectURL(bytes);
		image.addEventListener('load', () => frame.removeAttribute('aria-busy'));
		image.addEventListener('error', fail);
		image.src = url;
		frame.addEventListener('click', () => enlarge(url, name));
		whenGone(frame, () => URL.revokeObjectURL(url));
	}, fail);
	return frame;
}

/** Elements come and go with the view; an address keeps its bytes in memory. @type {FinalizationRegistry<() => void>} */
const gone = new FinalizationRegistry((end) => end());
const whenGone = (/** @type {HTMLElement} */ element, /** @type {() => void} */ end) => gone.register(element, end);

/** @param {string} url @param {string} name */
function enlarge(url, name) {
	const dialog = h(
		'dialog',
		{ class: 'media-large', 'aria-label': name, onclick: () => dialog.close(), onclose: () => dialog.remove() },
		h('img', { src: url, alt: name }),
		h('button', { type: 'button', class: 'button small', autofocus: true }, 'Close'),
	);
	document.body.append(dialog);
	dialog.showModal();
}

/** A sound, or a file: its name, and what can be done with it. @param {any} block */
function filePart(block) {
	const name = nameOf(block);
	const size = Number.isFinite(block.size) ? formatBytes(block.size) : null;
	const row = h(
		'div',
		{ class: 'media-file' },
		icon(block.type === 'audio' ? 'execute' : 'read'),
		h('bdi', { class: 'media-name' }, visible(name)),
		size && h('span', { class: 'muted' }, size),
	);
	if (session === null && typeof block.blob === 'string') {
		return row;
	}
	const act = (/** @type {string} */ words, /** @type {(bytes: Blob) => void} */ take) => {
		const button = h('button', { type: 'button', class: 'button small', onclick: async () => {
			button.disabled = true;
			await bytesOf(block).then(take, () => button.replaceWith(h('span', { class: 'muted' }, 'cannot be read')));
			button.disabled = false;
		} }, words);
		row.append(button);
		return button;
	};
	if (block.type === 'audio') {
		const play = act('Play', (bytes) => play.replaceWith(player(bytes)));
	}
	if (/^text\//.test(block.resource?.mime_type ?? block.mime_type ?? '')) {
		const show = act('Show', async (bytes) => {
			show.remove();
			row.append(output(await bytes.text()));
		});
	}
	act('Save', (bytes) => save(bytes, name));
	return row;
}

/** @param {Blob} bytes */
function player(bytes) {
	if (!SOUNDS.includes(bytes.type)) {
		return h('span', { class: 'muted' }, 'cannot be played');
	}
	const url = URL.createObjectURL(bytes);
	const audio = h('audio', { controls: true, src: url });
	whenGone(audio, () => URL.revokeObjectURL(url));
	return audio;
}

/** Saves bytes without a type, so that the browser does not open them. @param {Blob} bytes @param {string} name */
function save(bytes, name) {
	const url = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
	h('a', { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** The files of a prompt, below its words. @param {any} content */
export function promptMedia(content) {
	const parts = (Array.isArray(content) ? content : []).map(mediaPart).filter(Boolean);
	return parts.length > 0 ? h('div', { class: 'prompt-media' }, ...parts) : null;
}

/** The names of files of a prompt that is not in the transcript yet. @param {readonly any[]} content */
export function attachedNames(content) {
	const names = content.map((block) => visible(nameOf(block)));
	return h('span', { class: 'attached-names', 'data-testid': 'attached-names', title: names.join('\n') }, icon('clip'), h('span', { class: 'sr-only' }, 'With '), h('bdi', {}, names.join(', ')));
}
