import { HoldfastError } from './base.js';

/**
 * `for await (const event of client)`: the events held, then each that comes, in order, once.
 *
 * A reset comes as `{ type: 'reset', seq: 0, reason }`: the events before it are void, and a
 * new history follows. It ends when the client is closed or the session is gone, and throws if the server no
 * longer accepts the token.
 * @param {any} client
 */
export function iterate(client) {
	/** @type {any[]} */
	let queue = [...client.events];
	/** @type {{resolve: (result: {value: any, done: boolean}) => void, reject: (error: Error) => void}[]} */
	const waiting = [];
	let isOver = client.status.status === 'gone';
	/** @type {HoldfastError | null} */
	let failure = null;

	const serve = () => {
		while (waiting.length > 0 && (queue.length > 0 || isOver)) {
			const done = queue.length === 0;
			const next = waiting.shift();
			if (done && failure) {
				next?.reject(failure);
				failure = null;
			} else {
				next?.resolve({ value: queue.shift(), done });
			}
		}
	};
	const add = (/** @type {any[]} */ items) => {
		items.forEach((item) => queue.push(item));
		serve();
	};
	const end = () => {
		isOver = true;
		ends.forEach((stop) => stop());
		serve();
	};
	const ends = [
		client.on('events', (/** @type {any} */ { events }) => add(events)),
		client.on('reset', (/** @type {any} */ { reason }) => {
			queue = [];
			add([Object.freeze({ type: 'reset', seq: 0, reason })]);
		}),
		client.on('status', (/** @type {any} */ { status, reason }) => {
			if (status === 'unauthorized') {
				failure = new HoldfastError(reason, 'The server does not accept the token.');
				end();
			} else if (status === 'closed' || status === 'gone') {
				end();
			}
		}),
	];
	return {
		next: () =>
			new Promise((resolve, reject) => {
				waiting.push({ resolve, reject });
				serve();
			}),
		return: async () => {
			queue = [];
			end();
			return { value: undefined, done: true };
		},
		[Symbol.asyncIterator]() {
			return this;
		},
	};
}
