/**
 * Content shown before its event exists: blocks that are still growing, and notices of held inputs. None
 * of it counts for the position; the event with the same seq replaces it.
 */

import { deepFreeze } from './base.js';

/**
 * @typedef {object} OpenBlock The provisional content of an event that is not there yet.
 * @property {number} seq
 * @property {string} type
 * @property {string} [html] with `deltas: 'html'`
 * @property {string} [text] with `deltas: 'text'`
 *
 * @typedef {{seq: number, type: string, data: any}} Activity
 */

/** @template {{seq: number}} T @param {Map<number, T>} map @returns {T[]} */
function inOrder(map) {
	return [...map.values()].sort((a, b) => a.seq - b.seq);
}

export class Provisional {
	/** @type {Map<number, OpenBlock>} */
	#blocks = new Map();
	/** @type {Map<number, Activity>} */
	#held = new Map();

	/** The array last returned; null: it has changed since. @type {readonly OpenBlock[] | null} */
	#snapshot = null;

	/** Frozen, and the same until it changes. */
	get blocks() {
		this.#snapshot ??= deepFreeze(inOrder(this.#blocks));
		return this.#snapshot;
	}

	get held() {
		return inOrder(this.#held);
	}

	setBlock(/** @type {OpenBlock} */ block) {
		this.#blocks.set(block.seq, block);
		this.#snapshot = null;
	}

	/**
	 * The block with this piece of text inserted; null if the text before the piece is missing.
	 * @param {{seq: number, type: string, offset: number, text: string}} delta
	 * @returns {OpenBlock | null}
	 */
	grown({ seq, type, offset, text }) {
		const have = this.#blocks.get(seq)?.text ?? '';
		const haveBytes = new TextEncoder().encode(have);
		if (offset > haveBytes.length) {
			return null;
		}
		const add = new TextEncoder().encode(text).subarray(haveBytes.length - offset);
		return { seq, type, text: have + new TextDecoder('utf-8', { ignoreBOM: true }).decode(add) };
	}

	addActivity(/** @type {Activity} */ notice) {
		this.#held.set(notice.seq, notice);
	}

	/** Events up to this one are held. True if notices were removed. */
	endUpTo(/** @type {number} */ last) {
		const waiting = this.#held.size;
		for (const map of [this.#blocks, this.#held]) {
			[...map.keys()].filter((seq) => seq <= last).forEach((seq) => map.delete(seq));
		}
		if (this.#snapshot?.length !== this.#blocks.size) {
			this.#snapshot = null;
		}
		return this.#held.size !== waiting;
	}

	/**
	 * Takes the open block from the end of a load. A block that has just been closed is neither in the page
	 * nor open until it is on disk. While the turn continues its event is on the way, so it stays on
	 * screen. True if there is or was anything to show.
	 * @param {{open?: OpenBlock, is_prompting?: boolean}} page
	 */
	replace({ open, is_prompting }) {
		const before = this.#blocks.size;
		const blocks = [...(is_prompting ? this.blocks : []), ...(open ? [open] : [])];
		this.#blocks = new Map(blocks.map((block) => [block.seq, block]));
		if (before > 0 || blocks.length > 0) {
			this.#snapshot = null;
		}
		return before > 0 || blocks.length > 0;
	}

	clear() {
		this.#blocks.clear();
		this.#snapshot = null;
		this.#held.clear();
	}
}
