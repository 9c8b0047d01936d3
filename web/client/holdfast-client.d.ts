/** The public surface of the Holdfast client library; README.md in this folder explains the behaviour. */

/** One numbered event of the log; deeply frozen. */
export interface HoldfastEvent {
	readonly seq: number;
	readonly type: EventType;
	/** Milliseconds since 1970. */
	readonly ts: number;
	readonly turn?: number;
	readonly message_id?: string;
	/** The token hides what this is: `data` is empty, or has what may be seen of it. */
	readonly redacted?: true;
	/** Depends on the type; see proto/protocol.md. */
	readonly data: Readonly<Record<string, any>>;
}

/** A newer server may have more types, and producers have their own, `x-…`. */
export type EventType =
	| 'user_prompt'
	| 'agent_message'
	| 'agent_thought'
	| 'tool_call'
	| 'tool_call_update'
	| 'plan'
	| 'file_read'
	| 'file_write'
	| 'permission_request'
	| 'permission_resolved'
	| 'usage'
	| 'turn_end'
	| 'agent_started'
	| 'agent_stopped'
	| 'session_end'
	| (string & {});

/** Only from the iterator: the events before it are void, a new history follows. */
export interface ResetNotice {
	readonly type: 'reset';
	readonly seq: 0;
	readonly reason: ResetReason;
}

/** `behind`: too much was missed (`catchUpMax`); `access`: the token hides something else now; the others are the server's. */
export type ResetReason = 'epoch' | 'ahead' | 'pruned' | 'behind' | 'access' | (string & {});

/** A client's position in a session. */
export interface Position {
	readonly epoch: string | null;
	/** The seq of the last event held; 0 if there is none. */
	readonly seq: number;
}

/** The provisional content of an event that does not exist yet. */
export interface OpenBlock {
	seq: number;
	type: string;
	/** With `deltas: 'html'`. */
	html?: string;
	/** With `deltas: 'text'`. */
	text?: string;
}

/** An input held until the open block ends; its event will have this seq. */
export interface Activity {
	seq: number;
	type: string;
	redacted?: true;
	data: any;
}

export interface PendingPrompt {
	prompt_id: string;
	message: string;
	/** queued: on the server's disk, waits for the turn to end; received: its event is on the way. */
	state: 'sending' | 'queued' | 'received';
	seq: number | null;
}

/** A queued prompt of any client. */
export interface QueuedPrompt {
	prompt_id: string;
	/** The client that sent it, and whose token that client had. */
	client_id: string;
	sub?: string;
	message: string;
	/** Whether its message was edited. */
	edited?: true;
	/** The message is only the beginning; `listPrompts({ promptId })` gives the whole. */
	truncated?: true;
}

export type Status =
	| 'closed'
	| 'connecting'
	| 'loading'
	| 'live'
	| 'retrying'
	| 'offline'
	| 'gone'
	| 'unauthorized';

export interface StatusDetail {
	readonly status: Status;
	/** retrying, offline: the length of the wait. */
	readonly delayMs?: number;
	/** retrying, offline: when it is over, in milliseconds since 1970. */
	readonly retryAt?: number;
	/**
	 * Why the connection was lost, or why the session is gone. unauthorized: `unauthorized`, `token_expired`,
	 * `token_revoked` or `too_many_tokens`.
	 */
	readonly reason?: string;
}

/** See proto/access.md. */
export type Role = 'observer' | 'controller' | 'producer' | 'admin' | (string & {});

/** The session's current state, which has no events of its own. */
export interface SessionState {
	is_prompting: boolean;
	is_running: boolean;
	queue_length: number;
	/** The queued prompts: the first 100. */
	queue: QueuedPrompt[];
	usage: Record<string, any> | null;
	status: 'idle' | 'running' | 'waiting' | (string & {});
	/** What this client may do; null before there was a connection. */
	role: Role | null;
	/** What its token does not show: `thoughts`, `tools`. */
	hide: readonly string[];
}

/** The agent's state: ACP's modes, options and commands, in snake_case. Frozen. */
export interface Agent {
	readonly modes: readonly { id: string; name: string; description?: string | null }[];
	readonly current_mode: string | null;
	/** `current_model_id`, `available_models`. */
	readonly models: Readonly<Record<string, any>> | null;
	readonly config_options: readonly ConfigOption[];
	/** Slash commands, without the slash. */
	readonly commands: readonly {
		name: string;
		description?: string;
		input?: { hint?: string } | null;
	}[];
	/** The newest information about its session: `title`, `updated_at`. */
	readonly info: Readonly<Record<string, any>> | null;
}

export interface ConfigOption {
	id: string;
	name: string;
	description?: string | null;
	category?: string | null;
	type: 'select' | 'boolean' | (string & {});
	current_value: any;
	/** Of a select: values, or groups of them. */
	options?: any[];
}

/** Figures about the connection, for monitoring. */
export interface ConnectionStats {
	/** Attempts to connect, and connections and attempts that ended. */
	connects: number;
	losses: number;
	framesIn: number;
	framesOut: number;
	/** Of the last keepalive that was answered. */
	roundTripMs: number;
	/** The highest seq reported by the server, and how far the events held are behind it. */
	maxSeq: number;
	lag: number;
	/** Why IndexedDB is not used; null if it is. */
	cacheFailure: string | null;
}

/** The parts of a WebSocket that are used; those of browsers, Node and `ws` have them. */
export interface WebSocketLike {
	readonly readyState: number;
	readonly bufferedAmount?: number;
	onopen: ((event: any) => void) | null;
	onmessage: ((event: any) => void) | null;
	onerror: ((event: any) => void) | null;
	onclose: ((event: any) => void) | null;
	send(text: string): void;
	close(): void;
}

/** The client's environment; replace parts for tests, or where something is missing. */
export interface Surroundings {
	/** Needed in Node before version 22. */
	WebSocket?: new (url: string, protocols: string[]) => WebSocketLike;
	/** The server's address; in a browser the page's own by default. */
	base?: string | URL;
	timers?: {
		setTimeout(fn: () => void, ms: number): any;
		clearTimeout(id: any): void;
		now(): number;
	};
	/** For requests over HTTP; by default the global one. */
	fetch?: typeof fetch;
	/**
	 * Gives a token: asked for each connection and request, before the token of a living connection ends, and once
	 * more if the server refuses one. Without it, the login of the page counts (see `login()`).
	 */
	getToken?: () => string | Promise<string>;
	/** `currentLogin().login` of the page, for a client in a worker, which has no localStorage. */
	login?: string;
	/** In place of localStorage. */
	storage?: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;
	random?: () => number;
	/** The `window` or a worker's `self`, whose events wake the client. */
	page?: any;
	/** Called with every frame; of a `token` frame it sees no token. */
	inspect?: ((direction: 'in' | 'out', text: string) => void) | null;
}

export interface CacheOptions {
	/** Of the database; default `holdfast`. */
	name?: string;
	/** Of one session; default 1,000. */
	maxEvents?: number;
	/** Of one session, as JSON; default 4,000,000. */
	maxChars?: number;
	/** Default 20; the least recently used are dropped. */
	maxSessions?: number;
}

export interface ClientOptions extends Surroundings {
	sessionId: string;
	/** What `agent_message` events carry; default `html`. */
	format?: 'html' | 'markdown' | 'both';
	/** Whether, and how, to receive text that is still growing; by default not. */
	deltas?: 'text' | 'html';
	/** 1 to 64 of `A-Z a-z 0-9 _ -`; random by default. Keep it for a tab, not for a user. */
	clientId?: string;
	/** How many events to hold in memory at most; by default all that were loaded. */
	maxEvents?: number;
	/** Further behind than this it does not catch up but starts over; by default never, with a cache 2,000. */
	catchUpMax?: number;
	/** Keep the newest events in IndexedDB; by default not. */
	cache?: boolean | CacheOptions;
	/** Whose the token is, by its `sub`: needed for `cache` with `getToken`. A login has it. */
	identity?: string;
	indexedDB?: any;
	IDBKeyRange?: any;
}

export interface ClientEvents {
	/** Appended, in order, each once. `cached`: from the cache, before there is a connection. */
	events: { events: readonly HoldfastEvent[]; cached?: true };
	/** Prepended. */
	older: { events: readonly HoldfastEvent[]; hasOlder: boolean };
	/** This many of the oldest are no longer held. */
	trimmed: { count: number };
	/** Everything held is void; the new history follows as `events`. */
	reset: { reason: ResetReason };
	/** All provisional blocks. Dispatched when one grows or is void, not when its event replaces it. */
	open: { blocks: OpenBlock[] };
	activity: { held: Activity[] };
	/** The agent's state has changed. */
	agent: { agent: Agent };
	state: SessionState;
	/** All prompts of this client without an event yet. */
	prompts: { prompts: PendingPrompt[] };
	/** The queued prompts of all clients. */
	queue: { queue: QueuedPrompt[] };
	status: StatusDetail;
	/** `error.detail.prompt` is a refused prompt: it is not sent again automatically. */
	error: { error: HoldfastError };
}

/** An error reported by the server. */
export class HoldfastError extends Error {
	constructor(code: string, message: string, detail?: Record<string, any>);
	/** Stable; see "Error codes" in proto/protocol.md. */
	code: string;
	detail: Record<string, any>;
}

/** One session: observes it and takes part in it, over a connection that may break at any byte. */
export class HoldfastClient extends EventTarget {
	constructor(options: ClientOptions);
	readonly sessionId: string;
	readonly clientId: string;
	/** Computed from the events held. */
	readonly position: Position;
	/** The events held, in order and without a gap. */
	readonly events: readonly HoldfastEvent[];
	/** Whether loadOlder() can bring more. */
	readonly hasOlder: boolean;
	readonly open: OpenBlock[];
	readonly prompts: PendingPrompt[];
	/** The agent's newest state, even if its events are no longer held. */
	readonly agent: Agent;
	readonly queue: QueuedPrompt[];
	readonly state: SessionState;
	readonly status: StatusDetail;
	readonly stats: ConnectionStats;
	/** Like addEventListener, but passes the detail; returns a function that removes the listener. */
	on<K extends keyof ClientEvents>(
		type: K,
		listener: (detail: ClientEvents[K]) => void,
	): () => void;
	/**
	 * Connects and stays connected until close(). After close(), and after the status `unauthorized`, it continues
	 * from its position.
	 */
	connect(): this;
	close(): void;
	/** Retries at once if a retry is pending, else checks that the connection is alive. */
	retryNow(): void;
	/** For demonstrations: breaks the socket as a network would. */
	dropConnection(): void;
	/** Sends a prompt until it is confirmed, always under the same id, so that it runs once. Returns the id. */
	prompt(message: string, options?: { promptId?: string }): string;
	/**
	 * Changes the message of a queued prompt. Like the two below it is sent again on each connection until it
	 * is answered, and rejects with a HoldfastError: `not_queued` if the prompt is no longer queued
	 * (`detail.seq`: it has started), `closed` if the client is closed first.
	 */
	editPrompt(promptId: string, message: string): Promise<void>;
	/** Removes a prompt from the queue, for good. `duplicate`: it was already removed. */
	removePrompt(promptId: string): Promise<{ duplicate: boolean }>;
	/** The queued prompts with complete messages, up to about 1 MiB; with `promptId` only that one. */
	listPrompts(options?: { promptId?: string }): Promise<QueuedPrompt[]>;
	/** Stops the turn. Never stored for later: false if there is no connection. */
	cancel(): boolean;
	/** Asks the agent for another mode; the result comes as `agent` or `error`. False if there is no connection. */
	setMode(modeId: string): boolean;
	/** The same with one of its options. */
	setConfigOption(configId: string, value: string | boolean): boolean;
	/** Answers a permission request; sent again until it is in the log, also while the server cannot store it (`error` has `retrying` then). */
	answerPermission(requestId: string, optionId: string): void;
	/** Asks for the page before the first event held. True if a request went out. */
	loadOlder(limit?: number): boolean;
	/** Drops all but the newest events; loadOlder() brings the others back. Returns how many were dropped. */
	dropOlder(keepCount: number): number;
	/**
	 * The events held, then each new one. Ends when the client is closed or the session is deleted; throws if the
	 * status becomes `unauthorized`.
	 */
	[Symbol.asyncIterator](): AsyncIterableIterator<HoldfastEvent | ResetNotice>;
}

export interface SessionInfo {
	id: string;
	title: string;
	epoch: string;
	first_seq: number;
	max_seq: number;
	created_at: number;
	updated_at: number;
	status: 'idle' | 'running' | 'waiting' | (string & {});
	is_prompting: boolean;
	/** By kind, the seq of the newest event with a piece of the agent's state. */
	agent_state: Record<string, number>;
}

export interface FeedEvents {
	/** All sessions, the newest update first. First dispatched when the last page is here. */
	sessions: { sessions: SessionInfo[] };
	status: StatusDetail;
}

/** The list of sessions, live. */
export class HoldfastFeed extends EventTarget {
	constructor(options?: Surroundings);
	readonly sessions: SessionInfo[];
	readonly status: StatusDetail;
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
	session?: { id?: string; title?: string },
	where?: Where,
): Promise<SessionInfo>;
export function deleteSession(id: string, where?: Where): Promise<void>;
/** All sessions, the newest update first; loads every page. */
export function listSessions(where?: Where): Promise<SessionInfo[]>;

/** What a token or a login allows. */
export interface Access {
	role: Role;
	/** Whose it is; empty for the access token. */
	sub: string;
	/** In milliseconds since 1970; null: never. */
	expires_at: number | null;
	/** What it does not show: `thoughts`, `tools`. */
	hide?: readonly string[];
}

/** The login of a page, as this browser keeps it. */
export interface Login extends Readonly<Access> {
	/** The half that is not the cookie; null with `--auth off`, where nothing is kept. */
	readonly login: string | null;
	/** Of a share link: it is for this tab alone, and nothing is cached under it. */
	readonly share: boolean;
}

export type LoginOptions = Pick<Surroundings, 'base' | 'fetch' | 'storage'> &
	Pick<ClientOptions, 'indexedDB' | 'IDBKeyRange'>;

/**
 * Logs the page in, in place of any login before; throws a HoldfastError if the token is refused. `share`: in this tab only,
 * beside the login that the browser has.
 */
export function login(token: string, options?: LoginOptions & { share?: boolean }): Promise<Login>;
/** Ends the login and wipes what was cached under it. Never rejects. */
export function logout(options?: LoginOptions): Promise<void>;
/** The login that this browser has, whether or not the server still accepts it. */
export function currentLogin(options?: LoginOptions): Login | null;
/** Whether it was made with this token, as far as the browser can tell. */
export function isLoginWith(token: string, options?: LoginOptions): Promise<boolean>;
/** After the server has refused it: forgets the login in this browser, and what was cached under it. */
export function forgetLogin(options?: LoginOptions & { keepCache?: boolean }): Promise<void>;
/** Asks the server what the login, or a token, allows; throws the refusal. Needs neither with `--auth off`. */
export function checkLogin(options?: LoginOptions & { token?: string }): Promise<Access>;
