/** Hooks for React 18 and later. The client's getters are stable between changes, so each hook is a few lines. */
import { useEffect, useMemo, useSyncExternalStore } from 'react';
import { HoldfastClient, HoldfastFeed } from '../holdfast-client.js';

/**
 * A connected client of a session, for as long as the component is there. It is another one when the session, the
 * server or the format changes; other options count as they were then.
 * @param {import('../base.js').Surroundings & import('../base.js').ClientOptions} options
 */
export function useSession(options) {
	const { sessionId, base, format, deltas } = options;
	const client = useMemo(() => new HoldfastClient(options), [sessionId, String(base), format, deltas]);
	useConnection(client);
	return client;
}

/**
 * What a client or feed shows by one of its getters, new with each change of it.
 * @param {any} source @param {string} name
 */
export function useSnapshot(source, name) {
	const read = () => source[name];
	return useSyncExternalStore(source.subscribe, read, read);
}

/**
 * The list of sessions, live; the newest update first.
 * @param {import('../base.js').Surroundings} [options]
 */
export function useSessions(options = {}) {
	const feed = useMemo(() => new HoldfastFeed(options), [String(options.base)]);
	useConnection(feed);
	return useSnapshot(feed, 'sessions');
}

/** @param {any} client */
function useConnection(client) {
	useEffect(() => {
		client.connect();
		return () => client.close();
	}, [client]);
}
