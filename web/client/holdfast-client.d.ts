/** The public surface of the Holdfast client library; README.md in this folder explains the behaviour. */

import type { ElicitationData, FileList, LoginWay, OpenElicitation, OpenPermission, PermissionOption } from './sessions.js';

/** What every event has; deeply frozen. */
interface EventOf<T extends string, D> {
	readonly seq: number;
	readonly type: T;
	/** Milliseconds since 1970. */
	readonly ts: number;
	readonly turn?: number;
	readonly message_id?: string;
	/** The token hides what this is: `data` is empty, or has what may be seen of it. */
	readonly redacted?: true;
	readonly data: Readonly<D> & { readonly [member: string]: any };
}

/** What a tool call or its update says; an update has only what is new. */
export interface ToolData {
	title?: string;
	name?: string;
	kind?: string;
	status?: 'pending' | 'in_progress' | 'completed' | 'failed' | (string & {});
	content?: readonly any[];
	locations?: readonly any[];
	raw_input?: any;
	raw_output?: any;
}

export interface PlanEntry {
	readonly content: string;
	readonly priority: 'high' | 'medium' | 'low' | (string & {});
	readonly status: 'pending' | 'in_progress' | 'completed' | (string & {});
}

interface FileData {
	path: string;
	size: number;
	created?: boolean;
	diff?: string;
	diff_truncated?: boolean;
}

/** The types of events and their data; see proto/protocol.md. */
export interface EventData {
	user_prompt: { message: string; prompt_id?: string; client_id?: string; sub?: string; name?: string; edited?: true; content?: PromptBlock[] };
	agent_message: { html?: string; markdown?: string; continues?: number; context?: string; start?: number };
	agent_thought: { text: string };
	tool_call: ToolData & { tool_call_id: string; title: string };
	tool_call_update: ToolData & { tool_call_id: string };
	plan: { entries: readonly PlanEntry[] };
	file_read: FileData;
	file_write: FileData;
	permission_request: {
		request_id: string;
		tool_call: Readonly<Record<string, any>>;
		options: readonly PermissionOption[];
	};
	permission_resolved: {
		request_id: string;
		outcome: 'selected' | 'cancelled';
		option_id?: string;
		by?: string;
		sub?: string;
		/** What the client called itself then; nobody has checked it. */
		name?: string;
		bound_to?: number;
	};
	elicitation_request: ElicitationData;
	elicitation_resolved: { request_id: string; action: 'accept' | 'decline' | 'cancel'; by?: string; sub?: string; name?: string };
	usage: { mode?: string; message_id?: string; model?: string; total: Readonly<Record<string, any>> };
	turn_end: {
		stop_reason: 'end_turn' | 'cancelled' | 'refusal' | 'max_tokens' | 'max_turn_requests' | 'error' | (string & {});
		message?: string;
	};
	agent_started: { name?: string; title?: string; version?: string; resumed?: boolean; resume_error?: string };
	agent_stopped: { reason: string; detail?: string; stderr?: string; login?: readonly LoginWay[]; cancelled?: boolean; between_turns?: boolean };
	session_end: {};
}

/**
 * One numbered event of the log: `if (event.type === 'plan')` narrows `data`. With a token that hides (`hide`), look at
 * `redacted` first. A newer server may have more types: let a `switch` have a default.
 */
export type HoldfastEvent =
	| { [T in keyof EventData]: EventOf<T, EventData[T]> }[keyof EventData]
	| EventOf<`x-${string}`, {}>;

export type EventType = HoldfastEvent['type'];

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
	readonly seq: number;
	readonly type: string;
	/** With `deltas: 'html'`. */
	readonly html?: string;
	/** With `deltas: 'text'`. */
	readonly text?: string;
}

/** An input held until the open block ends; its event will have this seq. */
export interface Activity {
	seq: number;
	type: string;
	redacted?: true;
	data: any;
}

export interface PendingPrompt {
	readonly prompt_id: string;
	readonly message: string;
	/** queued: on the server's disk, waits for the turn to end; received: its event is on the way. */
	readonly state: 'sending' | 'queued' | 'received';
	readonly seq: number | null;
	readonly content?: readonly PromptBlock[];
}

/** An image, sound or file that goes with a prompt, by its name (see `uploadBlob()`), or a link. */
export type PromptBlock =
	| {
			readonly type: 'image' | 'audio' | 'resource';
			readonly blob: string;
			readonly name?: string;
			readonly mime_type?: string;
			/** Set by the server. */
			readonly size?: number;
	  }
	| { readonly type: 'resource_link'; readonly uri: string; readonly name: string };

/** Kept when the server has the prompt on disk; `seq` is null while it is queued. */
export interface PromptPromise extends Promise<{ readonly prompt_id: string; readonly seq: number | null }> {
	/** The prompt_id. */
	readonly id: string;
}

/** A queued prompt of any client. */
export interface QueuedPrompt {
	readonly prompt_id: string;
	/** The client that sent it, and whose token that client had. */
	readonly client_id: string;
	readonly sub?: string;
	/** What that client called itself; nobody has checked it. */
	readonly name?: string;
	readonly message: string;
	/** Whether its message was edited. */
	readonly edited?: true;
	readonly content?: readonly PromptBlock[];
	/** The message is only the beginning; `listPrompts({ promptId })` gives the whole. */
	readonly truncated?: true;
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

/** Somebody who is connected to the session. */
export interface Person {
	readonly role: Role;
	readonly client_id: string;
	/** Whose token it is. */
	readonly sub?: string;
	/** What they call themselves: nobody has checked that. */
	readonly name?: string;
}

/** Who is connected to the session. */
export interface Presence {
	/** Connections, this client's included. */
	readonly count: number;
	readonly roles: Readonly<Record<string, number>>;
	/** At most 50; none if the token hides something. */
	readonly people: readonly Person[];
	/** There are others than those in `people`. */
	readonly more: boolean;
}

/** The session's current state, which has no events of its own. */
export interface SessionState {
	readonly is_prompting: boolean;
	readonly is_running: boolean;
	readonly queue_length: number;
	/** The queued prompts: the first 100. */
	readonly queue: readonly QueuedPrompt[];
	readonly usage: Readonly<Record<string, any>> | null;
	readonly status: 'idle' | 'running' | 'waiting' | (string & {});
	/** What this client may do; null before there was a connection. */
	readonly role: Role | null;
	/** What its token does not show: `thoughts`, `tools`. */
	readonly hide: readonly string[];
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
	open: { blocks: readonly OpenBlock[] };
	activity: { held: Activity[] };
	/** The agent's state has changed. */
	agent: { agent: Agent };
	/** Who is here, after watchPresence(); null: not known any more. */
	presence: { presence: Presence | null };
	state: SessionState;
	/** All prompts of this client without an event yet. */
	prompts: { prompts: readonly PendingPrompt[] };
	/** The queued prompts of all clients. */
	queue: { queue: readonly QueuedPrompt[] };
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

/**
 * One session. What its getters give is frozen, and the same object until it changes.
 * Observes it and takes part in it, over a connection that may break at any byte.
 */
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
	readonly open: readonly OpenBlock[];
	/** The events held as a page shows them. */
	readonly transcript: Transcript;
	/** The permission requests, among the events held, that wait for an answer. */
	readonly permissions: readonly OpenPermission[];
	/** The forms and addresses, among the events held, that wait for an answer. */
	readonly elicitations: readonly OpenElicitation[];
	readonly prompts: readonly PendingPrompt[];
	/** The agent's newest state, even if its events are no longer held. */
	readonly agent: Agent;
	readonly queue: readonly QueuedPrompt[];
	readonly state: SessionState;
	readonly status: StatusDetail;
	readonly stats: ConnectionStats;
	/** Like addEventListener, but passes the detail; returns a function that removes the listener. */
	on<K extends keyof ClientEvents>(
		type: K,
		listener: (detail: ClientEvents[K]) => void,
	): () => void;
	/** The same, for the next event of the type only. */
	once<K extends keyof ClientEvents>(
		type: K,
		listener: (detail: ClientEvents[K]) => void,
	): () => void;
	/** Calls the listener after every event, whatever its type: for useSyncExternalStore. Bound to the client. */
	subscribe: (listener: () => void) => () => void;
	/**
	 * Kept when everything has been loaded and the client is live. Rejects with a HoldfastError if it is closed first, the
	 * session is gone (`not_found`, `deleted`), or the token is not accepted. Does not connect.
	 */
	ready(): Promise<this>;
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
	/**
	 * Sends a prompt until it is confirmed, always under the same id (`id` of the promise), so that it runs once. Rejects if
	 * it is refused, removed from the queue before it was confirmed (`removed`), or the client is closed first (`closed`: it may
	 * have arrived, and is sent again after connect()). You need not wait for it: `error` says a refusal, too.
	 */
	prompt(message: string, options?: { promptId?: string; content?: readonly PromptBlock[] }): PromptPromise;
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
	/** The same with its model, for agents that have `models` and no option of the category `model`. */
	setModel(modelId: string): boolean;
	/** The same with one of its options. */
	setConfigOption(configId: string, value: string | boolean): boolean;
	/** Logs in to the agent; the result comes as an event `x-acp-authenticated` or as `error`. False if there is no connection. */
	authenticate(methodId: string): boolean;
	/** Answers a permission request; sent again until it is in the log, also while the server cannot store it (`error` has `retrying` then). */
	answerPermission(requestId: string, optionId: string): void;
	/** Answers a form or an address; what is in `content` goes to the agent alone. Sent again until the log shows an answer, as one to a permission request is. */
	answerElicitation(requestId: string, action: 'accept' | 'decline' | 'cancel', content?: object): void;
	/** What this client is called, for all who watch the session; null: nothing. Said again on each connection. */
	setName(name: string | null): void;
	/** Whether to be told who is here. Ask only while somebody looks. */
	watchPresence(watch?: boolean): void;
	/** Who is here; null: not known, or not asked for. */
	readonly presence: Presence | null;
	/** Files of the session's directory that somebody may mean who types `prefix`, the best ones first. */
	completeFiles(prefix?: string, options?: { limit?: number; signal?: AbortSignal }): Promise<FileList>;
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

/** What is shown as one thing: a tool's updates, a turn's plans, a question and its answer, adjacent thoughts. */
export interface Item {
	kind:
		| 'prompt'
		| 'message'
		| 'thought'
		| 'tool'
		| 'terminal'
		| 'plan'
		| 'file'
		| 'permission'
		| 'elicitation'
		| 'content'
		| 'turn_end'
		| 'notice'
		| 'silent'
		| 'hidden'
		| 'other';
	/** In order of seq, never empty. */
	events: HoldfastEvent[];
}

/** Folds events into items. */
export class TranscriptModel {
	constructor(events?: readonly HoldfastEvent[]);
	items: Item[];
	/** Events in order of seq. The item that the event is in: a new one, or one that it joins. */
	add(event: HoldfastEvent): { item: Item; created: boolean };
	/** The item shown right before this one. */
	before(item: Item): Item | null;
}

/** An item as it is now; frozen, and the same object until it changes. */
export interface ItemView {
	/** The seq of its first event: it stays the same while the item grows. */
	readonly key: number;
	readonly kind: Item['kind'];
	readonly turn?: number;
	readonly events: readonly HoldfastEvent[];
	/** The members of its events' data, of each the newest value: of a tool, what it is now. */
	readonly state: Readonly<Record<string, any>>;
}

export interface Turn {
	/** Null: outside a turn. */
	readonly turn: number | null;
	readonly prompt: HoldfastEvent | null;
	readonly items: readonly ItemView[];
	/** Null: it is not over. */
	readonly stop_reason: string | null;
}

/** The events held as a page shows them: updates are merged into their tools, answers into their questions. */
export interface Transcript {
	readonly items: readonly ItemView[];
	readonly turns: readonly Turn[];
	/** The newest plan. */
	readonly plan: readonly PlanEntry[] | null;
}

/** A tool's state after all its events: an update replaces the members it has. */
export function toolState(item: { readonly events: readonly HoldfastEvent[] }): Record<string, any>;

export * from './sessions.js';

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

/** The `applicationServerKey` for push messages (null: the server sends none), and whether the login has a subscription. */
export function getPush(options?: LoginOptions): Promise<{ key: string | null; subscribed: boolean }>;
/** Gives this browser's login a push subscription, in place of any other; null: it has none. */
export function setPush(subscription: PushSubscription | null, options?: LoginOptions): Promise<void>;
