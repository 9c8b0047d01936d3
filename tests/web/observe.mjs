/** A client and what it has said: the view a page would have. */
import { HoldfastClient } from '../../web/client/holdfast-client.js';

/** A client of this server, with a view that follows its events as a page would. */
export function observe(server, options = {}) {
	const client = new HoldfastClient({ sessionId: 's', ...server.surroundings, ...options });
	const view = {
		events: [],
		statuses: [],
		resets: [],
		errors: [],
		order: [],
		open: [],
		activity: [],
	};
	client.on('events', ({ events }) => {
		view.events.push(...events);
		view.order.push('events');
	});
	client.on('older', ({ events }) => view.events.unshift(...events));
	client.on('reset', ({ reason }) => {
		view.events = [];
		view.resets.push(reason);
		view.order.push('reset');
	});
	client.on('status', ({ status }) => view.statuses.push(status));
	client.on('open', ({ blocks }) => {
		view.open = blocks;
	});
	client.on('activity', ({ held }) => {
		view.activity = held.map(({ seq }) => seq);
	});
	client.on('error', ({ error }) => view.errors.push(error));
	client.connect();
	return { client, view };
}

export const seqs = (events) => events.map(({ seq }) => seq);
export const range = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => first + i);
