/**
 * `for await (const event of client)`: the events held, then each that comes, in order, once.
 *
 * A reset comes as `{ type: 'reset', seq: 0, reason }`: the events before it are void, and a
 * new history follows. It ends when the client is closed or the session is gone.
 * @param {any} client
 */
export function iterate(client) {
	/** @type {any[]} */
	let queue = [...client.events];
	/** @type {((result: {value: any, done: boolean}) => void)[]} */
	const waiting = [];
	let isOver = client.status.status === 'gone';

	const serve = () => {
		while (waiting.length > 0 && (queue.length > 0 || isOver)) {
			const done = queue.length === 0;
			waiting.shift()?.({ value: queue.shift(), done });
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
		client.on('status', (/** @type {any} */ { status }) => {
			if (status === 'closed' || status === 'gone') {
				end();
			}
		}),
	];
	return {
		next: () =>
			new Promise((resolve) => {
				waiting.push(resolve);
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
