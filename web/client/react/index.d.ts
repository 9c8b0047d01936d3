/** Hooks for React 18 and later; see README.md of the package. */
import type { ClientOptions, HoldfastClient, HoldfastFeed, SessionInfo, Surroundings } from '../holdfast-client.js';

/** A connected client, for as long as the component is there; another one when the session, `base`, `format` or `deltas` changes. */
export function useSession(options: ClientOptions): HoldfastClient;

/** The getters of a client that can be watched. */
export type ClientSnapshot =
	| 'agent'
	| 'events'
	| 'hasOlder'
	| 'open'
	| 'permissions'
	| 'position'
	| 'prompts'
	| 'queue'
	| 'state'
	| 'stats'
	| 'status'
	| 'transcript';

/** What a getter gives; the component renders again when it changes. */
export function useSnapshot<K extends ClientSnapshot>(client: HoldfastClient, name: K): HoldfastClient[K];
export function useSnapshot<K extends 'sessions' | 'status'>(feed: HoldfastFeed, name: K): HoldfastFeed[K];

/** All sessions, live; the newest update first. */
export function useSessions(options?: Surroundings): readonly SessionInfo[];
