// What holdfast-client.d.ts has of the list of sessions, and of what agents ask for.
import type { ClientOptions, StatusDetail, Surroundings } from './holdfast-client.js';

export interface SessionInfo {
	id: string;
	title: string;
	archived: boolean;
	pinned: boolean;
	/** The name of its agent; missing: the server's default. */
	agent?: string;
	/** Its agent's directory. */
	cwd?: string;
	epoch: string;
	first_seq: number;
	max_seq: number;
	created_at: number;
	updated_at: number;
	status: 'idle' | 'running' | 'waiting' | (string & {});
	/** How many questions are open, and the request id of the newest; while it waits. */
	questions?: number;
	waiting_for?: string;
	is_prompting: boolean;
	/** By kind, the seq of the newest event with a piece of the agent's state. */
	agent_state: Record<string, number>;
}

export interface FeedEvents {
	/** All sessions, the newest update first. First dispatched when the last page is here. */
	sessions: {
		sessions: readonly SessionInfo[];
		/** As this browser kept them, with `cache`: the server has not been reached yet, and no status is known. */
		kept: boolean;
	};
	status: StatusDetail;
}

/** The list of sessions, live. */
export class HoldfastFeed extends EventTarget {
	/** `cache`: the newest 200 sessions are kept in IndexedDB, for this login alone, and wiped with its events. */
	constructor(options?: Surroundings & Pick<ClientOptions, 'cache' | 'identity' | 'indexedDB' | 'IDBKeyRange'>);
	readonly sessions: readonly SessionInfo[];
	readonly status: StatusDetail;
	/** Whether the list is what this browser has kept: the server has not been reached yet. */
	readonly isKept: boolean;
	/** As of a HoldfastClient. */
	subscribe: (listener: () => void) => () => void;
	once<K extends keyof FeedEvents>(type: K, listener: (detail: FeedEvents[K]) => void): () => void;
	on<K extends keyof FeedEvents>(type: K, listener: (detail: FeedEvents[K]) => void): () => void;
	connect(): void;
	close(): void;
}

/** The server's address, or that and who asks. */
export type Where =
	| string
	| URL
	| Pick<Surroundings, 'base' | 'fetch' | 'getToken' | 'login' | 'storage'>;

export function createSession(
	session?: { id?: string; title?: string; agent?: string; cwd?: string },
	where?: Where,
): Promise<SessionInfo>;

export interface AgentInfo {
	name: string;
	title: string;
	/** The demo agent that comes with Holdfast. */
	is_demo: boolean;
	/** Where its sessions can work; for those who may make sessions. */
	roots?: string[];
	/** For the same: why it cannot be started, as far as the server saw when it started. */
	fault?: string;
}

/** The agents that a session can have, the default first. */
export function listAgents(where?: Where): Promise<AgentInfo[]>;
/** Directories that a session of this agent can have and whose path begins with `path`. */
export function listDirectories(
	query?: { agent?: string; path?: string },
	where?: Where,
): Promise<{ directories: string[]; has_more: boolean }>;
export interface FileList {
	/** The session's directory; missing if the token hides something. */
	cwd?: string;
	/** Paths below it, the best ones first; those of directories end with a slash. */
	files: string[];
	/** There may be others. */
	has_more: boolean;
}

/**
 * Files of the session's directory that somebody may mean who types `prefix`; of a session that is not there yet, by what it
 * would be made with.
 */
export function completeFiles(
	session: string | { agent?: string; cwd?: string },
	prefix?: string,
	options?: { limit?: number; signal?: AbortSignal },
	where?: Where,
): Promise<FileList>;
/** Renames (`title: null`: the agent's own title again), archives or pins a session, or the reverse. */
export function labelSession(
	id: string,
	labels: { title?: string | null; archived?: boolean; pinned?: boolean },
	where?: Where,
): Promise<SessionInfo>;
export function deleteSession(id: string, where?: Where): Promise<void>;
/** All sessions, the newest update first; loads every page. */
export function listSessions(where?: Where): Promise<SessionInfo[]>;

/** An event with the text looked for; `snippet`: what is around it; `session_id`: of a search in all. */
export type SearchHit = { session_id?: string; seq: number; type: string; ts: number; snippet: string };
/** Looks for a text in a session or in all, the newest first: the hits of each answer, perhaps none. Leave the loop to end it. */
export function search(
	text: string,
	options?: { sessionId?: string; limit?: number; signal?: AbortSignal }, where?: Where): AsyncGenerator<SearchHit[], void>;

/** An image or file of a session; `mime_type` is what the server found in its first bytes. */
export interface BlobInfo {
	readonly blob: string;
	readonly size: number;
	readonly mime_type: string;
}
/** Sends an image or a file for a prompt; on the server's disk when the promise is kept. */
export function uploadBlob(
	sessionId: string,
	bytes: Blob | ArrayBuffer | Uint8Array | string,
	/** `onprogress`: in browsers. */
	options?: { signal?: AbortSignal; onprogress?: (sent: number, size: number) => void },
	where?: Where,
): Promise<BlobInfo>;
/** The bytes of an image or file that an event names. */
export function fetchBlob(
	sessionId: string,
	blob: string,
	options?: { signal?: AbortSignal },
	where?: Where,
): Promise<Blob>;

/** How an agent that wants a login can have it; `args`: what its command is given for that in a terminal, `vars`: variables to set. */
export interface LoginWay {
	name: string;
	description?: string;
	type?: string;
	args?: readonly string[];
	vars?: readonly string[];
}

/** What the agent asks for: a form (`requested_schema`), or an address to go to. */
export interface ElicitationData {
	readonly request_id: string;
	readonly mode: 'form' | 'url';
	readonly message: string;
	readonly tool_call_id?: string;
	readonly requested_schema?: { readonly type: 'object'; readonly title?: string; readonly description?: string; readonly properties: Readonly<Record<string, Readonly<Record<string, any>>>>; readonly required: readonly string[] };
	readonly elicitation_id?: string;
	readonly url?: string;
}

/** A form or an address that waits for an answer. */
export interface OpenElicitation extends ElicitationData {
	readonly seq: number;
	readonly turn?: number;
}

export interface PermissionOption {
	readonly option_id: string;
	readonly name: string;
	readonly kind?: string;
}

/** A permission request without an answer. */
export interface OpenPermission {
	readonly seq: number;
	readonly turn?: number;
	readonly request_id: string;
	readonly tool_call: Readonly<Record<string, any>>;
	readonly options: readonly PermissionOption[];
}
