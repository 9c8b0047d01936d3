// The worst network that TCP allows, between a client and the server. Each connection meets one fault, drawn
// from a seed, until so many have had theirs; then the network is a good one. No byte is changed, left out in
// the middle or put in another order: TCP would not. But a stream may end at any byte, stand still, come in
// crumbs, and what was sent into it may arrive long after the next connection has taken over.

import { once } from 'node:events';
import net from 'node:net';
import { FrameMeter } from './frame_meter.mjs';

const END = null;

/**
 * Ends a socket with a TCP reset. Not one that is being shut down: Node 20 then loses the request, and
 * waits for it for ever when it ends.
 */
function reset(socket) {
	if (socket.connecting || socket.writableEnded) {
		socket.destroy();
	} else {
		socket.resetAndDestroy();
	}
}

/** One direction of a connection. */
class Pipe {
	#to;
	#queue = [];
	#isBusy = false;
	#sent = 0;
	#meter = new FrameMeter();
	#pace;
	#stop;
	isHeld = false;

	/**
	 * @param {{pieces: number, bytes: number, ms: () => number} | null} pace at first it comes in so many pieces, no
	 *   larger than so many bytes, so far apart
	 * @param {{place: (meter: FrameMeter) => number, then: () => void} | null} stop what happens behind which byte
	 */
	constructor(from, to, pace, stop) {
		this.#to = to;
		this.#pace = pace && { ...pace };
		this.#stop = stop;
		from.on('data', (bytes) => this.#push(bytes));
		from.on('error', () => {}); // a close always follows
		from.on('close', () => this.#push(END));
	}

	release() {
		this.isHeld = false;
		void this.#pump();
	}

	#push(bytes) {
		if (bytes !== END) {
			this.#meter.feed(bytes);
		}
		this.#queue.push(bytes);
		void this.#pump();
	}

	async #pump() {
		if (this.#isBusy) {
			return;
		}
		this.#isBusy = true;
		while (this.#queue.length > 0 && !this.isHeld) {
			const bytes = this.#queue.shift();
			if (bytes === END) {
				this.#to.end();
			} else {
				await this.#send(bytes);
			}
		}
		this.#isBusy = false;
	}

	async #send(bytes) {
		const left = this.#stop ? Math.max(0, this.#stop.place(this.#meter) - this.#sent) : Infinity;
		const count = Math.min(bytes.length, left, this.#pace?.bytes ?? Infinity);
		if (count < bytes.length) {
			this.#queue.unshift(bytes.subarray(count));
		}
		if (count > 0) {
			this.#to.write(bytes.subarray(0, count));
			this.#sent += count;
		}
		if (count === left) {
			const { then } = this.#stop;
			this.#stop = null;
			then();
		} else if (this.#pace && --this.#pace.pieces > 0) {
			await new Promise((resolve) => setTimeout(resolve, this.#pace.ms()));
		} else {
			this.#pace = null;
		}
	}
}

/** A place in a stream: behind so many bytes, or in a frame (part 0: behind it; 1, 2, 3: inside). */
function placeOf({ bytes, frame, part }) {
	if (bytes !== undefined) {
		return () => bytes;
	}
	return ({ frames }) => {
		const found = frames[frame];
		if (!found) {
			return Infinity;
		}
		const inside = { 0: found.length, 1: 1, 2: Math.ceil(found.length / 2), 3: found.length - 1 };
		return found.start + inside[part];
	};
}

export class HostileProxy {
	#target;
	#random;
	#faultsLeft;
	#firstPlace;
	#sockets = new Set();
	/** Pipes that stand still until a later connection works. */
	#stale = [];
	#listener = net.createServer((socket) => this.#accept(socket));
	/** What happened, in words, for whoever looks into a seed. */
	story = [];
	/** Called with a fault's name when it strikes, and with 'accepted' for each connection. */
	onEvent = () => {};

	/**
	 * @param {() => string} target the server's URL, asked for each connection
	 * @param {(n: number) => number} random @param {number} faults how many connections are bad
	 * @param {{frame: number, part: number}} firstPlace where the first one is cut
	 */
	constructor(target, random, faults, firstPlace) {
		this.#target = target;
		this.#random = random;
		this.#faultsLeft = faults;
		this.#firstPlace = firstPlace;
	}

	async listen() {
		this.#listener.listen(0, '127.0.0.1');
		await once(this.#listener, 'listening');
		return `http://127.0.0.1:${this.#listener.address().port}`;
	}

	close() {
		this.onEvent = () => {};
		this.#listener.close();
		this.break();
	}

	/** Every connection is gone, whatever is under way. */
	break() {
		this.#sockets.forEach((socket) => socket.destroy());
	}

	get isGood() {
		return this.#faultsLeft <= 0;
	}

	/** From now on the network is a good one; what stands still is let go. */
	heal() {
		this.#faultsLeft = 0;
		this.#releaseStale('healed');
	}

	#say(event) {
		this.story.push(event);
		this.onEvent(event.split(' ')[0]);
	}

	#drawPlace() {
		if (this.#firstPlace) {
			const place = this.#firstPlace;
			this.#firstPlace = null;
			return place;
		}
		const random = this.#random;
		return [
			() => ({ bytes: random(2 ** (3 + random(11))) }), // small numbers are as likely as large ones
			() => ({ frame: random(8), part: random(4) }),
		][random(2)]();
	}

	#accept(client) {
		this.#sockets.add(client);
		client.on('error', () => {});
		client.on('close', () => this.#sockets.delete(client));
		client.setNoDelay(true);
		const isBad = this.#faultsLeft > 0;
		this.#faultsLeft -= 1;
		if (isBad && !this.#firstPlace && this.#random(8) === 0) {
			this.#turnAway(client);
			return;
		}
		const server = net.connect(new URL(this.#target()).port, '127.0.0.1');
		this.#sockets.add(server);
		server.on('close', () => this.#sockets.delete(server));
		server.setNoDelay(true);
		if (isBad) {
			this.#joinBadly(client, server);
		} else {
			this.#join(client, server, null, null);
		}
		this.#say(isBad ? 'accepted' : 'accepted well');
	}

	/** It never gets as far as the server. */
	#turnAway(client) {
		const [name, act] = [
			['refused', () => reset(client)],
			['hung', () => client.resume()],
			['unavailable', () => client.end('HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n')],
		][this.#random(3)];
		act();
		this.#say(name);
	}

	#join(client, server, pace, stop) {
		const up = new Pipe(client, server, pace, stop?.isUp ? stop : null);
		const down = new Pipe(server, client, pace, stop && !stop.isUp ? stop : null);
		if (this.#stale.length > 0) {
			// Something that comes back is proof that this connection is in use, and the older one is stale.
			server.once('data', () => this.#random(2) && this.#releaseStale('released'));
		}
		return { up, down };
	}

	#joinBadly(client, server) {
		const random = this.#random;
		const pace = random(4) === 0 ? { pieces: 40, bytes: 1 + random(2 ** random(9)), ms: () => random(3) } : null;
		const place = this.#drawPlace();
		const isUp = place.bytes !== undefined && random(3) === 0;
		const [name, act] = [
			['closed', () => [client, server].forEach((socket) => socket.end())],
			['reset', () => [client, server].forEach(reset)],
			['half-dead', () => reset(client)], // the server is not told
			['stalled', () => this.#hold(up, down)],
			['deaf', () => this.#hold(down)], // what the client says arrives; it is not told
			['mute', () => this.#hold(up)],
		][random(6)];
		const then = () => {
			this.#say(`${name} ${isUp ? 'up' : 'down'} ${JSON.stringify(place)}`);
			act();
		};
		const { up, down } = this.#join(client, server, pace, { isUp, place: placeOf(place), then });
	}

	#hold(...pipes) {
		pipes.forEach((pipe) => (pipe.isHeld = true));
		this.#stale.push(...pipes);
	}

	#releaseStale(why) {
		if (this.#stale.length > 0) {
			this.#say(why);
			this.#stale.splice(0).forEach((pipe) => pipe.release());
		}
	}
}
