/** Push messages of this browser's login: the server's half of a subscription (proto/access.md#push-messages). */
import { placeOf, request } from './http.js';

/** @typedef {import('./http.js').PlaceOptions} PlaceOptions */

/** The key to subscribe with (null: the server sends none), and whether the login has a subscription. @param {PlaceOptions} [options] @returns {Promise<{key: string | null, subscribed: boolean}>} */
export function getPush(options = {}) {
	return request(placeOf(options), 'GET', '/api/push');
}

/** Gives the login a subscription of this browser, in place of any other; null: it has none. @param {PushSubscription | null} subscription @param {PlaceOptions} [options] */
export async function setPush(subscription, options = {}) {
	const { endpoint, keys } = subscription?.toJSON() ?? {};
	await request(placeOf(options), subscription ? 'POST' : 'DELETE', '/api/push', subscription ? { endpoint, keys } : undefined);
}
