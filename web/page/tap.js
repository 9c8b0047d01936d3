/**
 * A WebSocket for the inspector: it keeps the newest frames and can fail as networks do. The client does
 * not know about it, so it recovers here exactly as it would from a real failure.
 */

const FRAMES_MAX = 300;
const TEXT_MAX = 64 * 1024; // characters kept of one frame
const ALL_MAX = 4 * 1024 * 1024; // and of all
const NOWHERE = '0000000000000000';
const TOKEN = /^(\{"type":"token","data":).*$/;

/** @typedef {{no: number, at: number, isOut: boolean, text: string, size: number, note?: string}} Frame */

export class Tap {
	/** @type {Frame[]} */
	frames = [];
	counts = { in: 0, out: 0, bytesIn: 0, bytesOut: 0 };
	/** @type {(frame: Frame) => void} */
	onframe = () => {};
	/** The one that is in use; another may be opened beside it. @type {WebSocket | null} */
	#current = null;
	/** @type {WeakSet<WebSocket>} */
	#frozen = new WeakSet();
	#kept = 0;
	#isStale = false;
	#loses = false;
	/** @type {typeof WebSocket} */
	WebSocket;

	constructor() {
		const tap = this;
		this.WebSocket = class extends WebSocket {
			/** @param {string | URL} url @param {string | string[]} [protocols] */
			constructor(url, protocols) {
				super(url, protocols);
				tap.#open(this);
			}

			/** @param {any} data */
			send(data) {
				const text = tap.#sent(this, String(data));
				if (text !== null) {
					super.send(text);
				}
			}
		};
	}

	get isFrozen() {
		return this.#current !== null && this.#frozen.has(this.#current);
	}

	/** A dead network: no more frames in either direction, and no error. */
	freeze() {
		if (this.#current) {
			this.#frozen.add(this.#current);
			this.#note('frozen: no more frames in either direction');
		}
	}

	/** The next load of events names an epoch that does not exist, as after a restore of the server's data. */
	goStale() {
		this.#isStale = true;
		this.#current?.close();
	}

	/** The next frame of live events does not arrive. */
	loseOne() {
		this.#loses = true;
	}

	clear() {
		this.frames = [];
		this.#kept = 0;
	}

	#open(/** @type {WebSocket} */ socket) {
		if (!this.#current || this.#current.readyState >= WebSocket.CLOSING) {
			this.#current = socket;
		}
		// Before the client's own listener, which is set later.
		socket.addEventListener('message', (event) => {
			if (this.#frozen.has(socket) || this.#isLost(event.data)) {
				event.stopImmediatePropagation();
				return;
			}
			this.#keep(false, event.data);
		});
		socket.addEventListener('close', ({ code, reason }) =>
			this.#note(`closed ${code} ${reason}`.trim()),
		);
	}

	#isLost(/** @type {string} */ text) {
		if (!this.#loses || !/^\{\s*"type":\s*"events"/.test(text)) {
			return false;
		}
		this.#loses = false;
		this.#keep(false, text, 'lost on purpose');
		return true;
	}

	/** @returns {string | null} the text to send; null: none */
	#sent(/** @type {WebSocket} */ socket, /** @type {string} */ text) {
		this.#current = socket;
		if (this.#frozen.has(socket)) {
			this.#keep(true, text.replace(TOKEN, '$1{}}'), 'frozen: not sent');
			return null;
		}
		const frame = this.#isStale ? JSON.parse(text) : null;
		if (frame?.type === 'load_events' && frame.data.after_seq !== undefined) {
			this.#isStale = false;
			frame.data.epoch = NOWHERE;
			const changed = JSON.stringify(frame);
			this.#keep(true, changed, 'epoch changed on purpose');
			return changed;
		}
		this.#keep(true, text.replace(TOKEN, '$1{}}')); // credentials are not shown
		return text;
	}

	#note(/** @type {string} */ note) {
		this.#push({ isOut: false, text: '', size: 0, note });
	}

	#keep(
		/** @type {boolean} */ isOut,
		/** @type {string} */ text,
		/** @type {string | undefined} */ note = undefined,
	) {
		this.counts[isOut ? 'out' : 'in'] += 1;
		this.counts[isOut ? 'bytesOut' : 'bytesIn'] += text.length;
		this.#push({ isOut, text: text.slice(0, TEXT_MAX), size: text.length, note });
	}

	#push(/** @type {Omit<Frame, 'no' | 'at'>} */ rest) {
		const frame = { no: (this.frames.at(-1)?.no ?? 0) + 1, at: Date.now(), ...rest };
		this.frames.push(frame);
		this.#kept += frame.text.length;
		while (this.frames.length > FRAMES_MAX || this.#kept > ALL_MAX) {
			this.#kept -= this.frames.shift()?.text.length ?? 0;
		}
		this.onframe(frame);
	}
}
