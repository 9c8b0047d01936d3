// A network that breaks: stands between the browser and the server under an address that stays the same
// when the server is started again elsewhere.

import { once } from 'node:events';
import net from 'node:net';
import { noteToken, tokenOf } from '../support/auth.mjs';
import { defer } from '../support/wait.mjs';

export class Proxy {
	#server;
	#listener = net.createServer((socket) => this.#accept(socket));
	#sockets = new Set();
	/** @type {number[]} after how many bytes of the session's socket it breaks; each time the next one */
	#places = [];
	/** How often it broke. */
	broken = 0;
	/** As long as it is true, no connection gets through. */
	isDown = false;
	/** @type {Set<net.Socket>} whose bytes go nowhere */
	#cut = new Set();

	static async start(t, server) {
		const proxy = new Proxy();
		proxy.#server = server;
		proxy.#listener.listen(0, '127.0.0.1');
		await once(proxy.#listener, 'listening');
		noteToken(proxy.url, tokenOf(server.url));
		defer(t, () => {
			proxy.break();
			proxy.#listener.close();
		});
		return proxy;
	}

	get url() {
		return `http://127.0.0.1:${this.#listener.address().port}`;
	}

	/** Every connection is gone, whatever is under way. */
	break() {
		this.broken += 1;
		this.#sockets.forEach((socket) => socket.destroy());
	}

	/**
	 * The network is cut: what comes on the connections that there are goes nowhere, and nobody is told. `ways` says
	 * which: 'down' is what the server says, 'both' is the browser's, too. New connections get through.
	 */
	cut(ways = 'both') {
		const isCut = (socket) => ways === 'both' || socket.isServer;
		this.#cut = new Set([...this.#sockets].filter(isCut));
	}

	/** Breaks once for each of these numbers: after so many bytes of the session's socket, be it inside a frame. */
	breakAfter(...places) {
		this.#places = places;
	}

	#accept(browser) {
		if (this.isDown) {
			browser.destroy();
			return;
		}
		const server = net.connect(new URL(this.#server.url).port, '127.0.0.1');
		server.isServer = true;
		let isSession = false;
		for (const [from, to] of [
			[browser, server],
			[server, browser],
		]) {
			this.#sockets.add(from);
			from.on('error', () => {}); // a close always follows
			from.on('close', () => {
				this.#sockets.delete(from);
				to.destroy();
			});
		}
		browser.on('data', (bytes) => {
			isSession ||= /^GET \/api\/sessions\/[^ ]*\/ws/.test(bytes.subarray(0, 200).toString('latin1'));
			if (!this.#cut.has(browser)) {
				server.write(bytes);
			}
		});
		server.on('data', (bytes) => {
			if (this.#cut.has(server)) {
				return;
			}
			const left = (isSession && this.#places[0]) || Infinity;
			browser.write(bytes.subarray(0, left));
			if (bytes.length >= left) {
				this.#places.shift();
				server.pause();
				browser.end(() => this.break());
			} else if (left < Infinity) {
				this.#places[0] = left - bytes.length;
			}
		});
	}
}
