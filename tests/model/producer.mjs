// A produce socket: many appends under way at once, each of which ends as acked, refused, or unknown.

import WebSocket from 'ws';
import { Finding } from './rig.mjs';

export class Producer {
	#machine;
	#path;
	#fail;
	#ws = null;
	#current = null;
	#waiting = new Map(); // ref -> resolve
	#ref = 0;

	constructor(machine, path, fail) {
		this.#machine = machine;
		this.#path = path;
		this.#fail = fail;
	}

	/** Sends a frame of this type; resolves with {appended}, {error}, or {lost: true}. */
	async send(type, data) {
		const opening = this.#open();
		const ws = await opening;
		if (ws?.refusal) {
			return ws.refusal;
		}
		if (!ws || this.#ws !== opening || ws.readyState !== WebSocket.OPEN) {
			return { lost: true };
		}
		const ref = ++this.#ref;
		return new Promise((resolve) => {
			const late = setTimeout(() => {
				this.#fail(new Finding(`no answer to ${type} in 40 s: ${JSON.stringify(data).slice(0, 300)}\n${this.#machine.stderr.slice(-1500)}`));
				resolve({ lost: true });
			}, 40_000);
			this.#waiting.set(ref, (answer) => {
				clearTimeout(late);
				resolve(answer);
			});
			ws.send(JSON.stringify({ type, data: { ref, ...data } }));
		});
	}

	/** Breaks the connection, with what is under way. */
	drop() {
		const ws = this.#ws;
		this.#ws = this.#current = null;
		ws?.then((socket) => socket?.terminate());
		this.#loseAll();
	}

	#open() {
		this.#ws ??= this.#connect();
		return this.#ws;
	}

	#connect() {
		const machine = this.#machine;
		if (!machine.running) {
			return null;
		}
		const since = machine.changes;
		const ws = new WebSocket(machine.url.replace('http', 'ws') + this.#path, { perMessageDeflate: false, headers: machine.auth });
		const opened = new Promise((resolve) => {
			ws.on('error', () => {});
			ws.on('message', (data) => {
				const frame = JSON.parse(data);
				if (frame.type === 'connected') {
					this.epoch = frame.data.epoch;
					resolve(ws);
				} else if (frame.type === 'session_gone') {
					ws.refusal = { error: { code: 'not_found' } };
					resolve(ws);
					this.#settleAll({ error: { code: 'not_found' } });
				} else {
					ws.isRefused ||= frame.type === 'error'; // behind a refusal the socket may end
					this.#answer(frame);
				}
			});
			ws.on('close', (code) => {
				resolve(null);
				if (this.#current === opened) {
					this.#ws = null;
					if (machine.changes === since && machine.running && !machine.crashed && code !== 4404 && !(code === 1013 && ws.isRefused)) {
						this.#fail(new Finding(`the produce socket ${this.#path} was closed with ${code}, and nobody has ended anything`));
					}
					this.#loseAll();
				}
			});
		});
		this.#current = opened;
		return opened;
	}

	#answer({ type, data }) {
		if (type === 'draining') {
			return; // a close follows
		}
		const settle = this.#waiting.get(data.ref);
		if (!settle) {
			this.#fail(new Finding(`an answer to nothing: ${type} ${JSON.stringify(data).slice(0, 500)}`));
			return;
		}
		this.#waiting.delete(data.ref);
		settle(type === 'appended' ? { appended: data } : { error: data });
	}

	#loseAll() {
		this.#settleAll({ lost: true });
	}

	#settleAll(answer) {
		const waiting = [...this.#waiting.values()];
		this.#waiting.clear();
		waiting.forEach((settle) => settle(answer));
	}
}
