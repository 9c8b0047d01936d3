// A TCP line that can be cut: everything between a node and another node, or a node and the database, goes through one.

import { once } from 'node:events';
import net from 'node:net';

/** Ways to cut it. Up is from who connected to who listens; `hole`: bytes stop, and nobody is told. */
export const CUTS = ['reset', 'hole', 'hole up', 'hole down'];

class Connection {
	#near;
	#far = null;
	#held = { up: false, down: false };
	#isOver = false;

	constructor(near, connect, cut, forget) {
		this.#near = near;
		this.connect = connect;
		this.forget = forget;
		this.#watch(near);
		near.pause();
		if (cut === null || cut === 'hole down') {
			this.#reach();
		}
		if (cut !== null) {
			this.hold(cut);
		}
	}

	#reach() {
		this.#far = this.connect();
		this.#watch(this.#far);
		this.#flow();
	}

	/** One that ends in an error takes the other with it, unless nothing comes through; then it does so later. */
	#watch(socket) {
		socket.on('error', () => {});
		socket.on('close', (hadError) => {
			if (!this.#held.up && !this.#held.down && (hadError || this.#both((one) => one.destroyed))) {
				this.reset();
			}
		});
	}

	#both(isSo) {
		return isSo(this.#near) && (this.#far === null || isSo(this.#far));
	}

	#flow() {
		for (const [from, to, isHeld] of [[this.#near, this.#far, this.#held.up], [this.#far, this.#near, this.#held.down]]) {
			from.unpipe(to);
			if (isHeld) {
				from.pause();
			} else {
				from.pipe(to);
			}
		}
	}

	hold(cut) {
		this.#held = { up: cut !== 'hole down', down: cut !== 'hole up' };
		if (this.#far) {
			this.#flow();
		}
	}

	/** What was held back arrives, however late. */
	release() {
		this.#held = { up: false, down: false };
		if (this.#far === null) {
			this.#reach();
		} else if (this.#near.errored || this.#far.errored) {
			this.reset();
		} else {
			this.#flow();
		}
	}

	reset() {
		if (!this.#isOver) {
			this.#isOver = true;
			for (const socket of [this.#near, this.#far]) {
				if (socket && (socket.connecting || socket.writableEnded || socket.destroyed || socket.remoteFamily === undefined)) {
					socket.destroy(); // that of a database is no TCP socket
				} else {
					socket?.resetAndDestroy();
				}
			}
			this.forget();
		}
	}
}

export class Link {
	#server;
	#connections = new Set();
	#cut = null;
	/** How many have come through. */
	count = 0;

	/** `listen`, `connect`: what node:net wants to know: {host, port} or {path}. */
	static async open(listen, connect) {
		const link = new Link();
		link.#server = net.createServer({ allowHalfOpen: true }, (near) => link.#take(near, connect));
		link.#server.listen(listen);
		await once(link.#server, 'listening');
		return link;
	}

	get port() {
		return this.#server.address().port;
	}

	#take(near, connect) {
		this.count += 1;
		if (this.#cut === 'reset') {
			near.on('error', () => {});
			near.resetAndDestroy();
			return;
		}
		const connection = new Connection(near, () => net.connect({ ...connect, allowHalfOpen: true }), this.#cut, () => this.#connections.delete(connection));
		this.#connections.add(connection);
	}

	/** From now on nothing comes through. */
	cut(how) {
		this.#cut = how;
		for (const connection of [...this.#connections]) {
			if (how === 'reset') {
				connection.reset();
			} else {
				connection.hold(how);
			}
		}
	}

	/** It is whole again. What a hole has held back arrives, or all that was there is gone. */
	heal({ isLost = false } = {}) {
		this.#cut = null;
		for (const connection of [...this.#connections]) {
			if (isLost) {
				connection.reset();
			} else {
				connection.release();
			}
		}
	}

	close() {
		this.#server.close();
		[...this.#connections].forEach((connection) => connection.reset());
	}
}
