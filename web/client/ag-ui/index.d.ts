/** A session as AG-UI events; docs/ag-ui.md of the repository says what becomes what. */
import type { HoldfastClient, HoldfastEvent, OpenBlock } from '../holdfast-client.js';

interface Base {
	/** Of the event of the session that it comes from, ms since 1970. */
	timestamp?: number;
}

/** As npm @ag-ui/core has them. */
export type AgUiEvent = Base &
	(
		| { type: 'RUN_STARTED'; threadId: string; runId: string }
		| { type: 'RUN_FINISHED'; threadId: string; runId: string; result: { stop_reason: string } }
		| { type: 'RUN_ERROR'; message: string; code: string }
		| { type: 'TEXT_MESSAGE_START'; messageId: string; role: 'assistant' | 'user' }
		| { type: 'TEXT_MESSAGE_CONTENT'; messageId: string; delta: string }
		| { type: 'TEXT_MESSAGE_END'; messageId: string }
		| { type: 'REASONING_START' | 'REASONING_MESSAGE_END' | 'REASONING_END'; messageId: string }
		| { type: 'REASONING_MESSAGE_START'; messageId: string; role: 'reasoning' }
		| { type: 'REASONING_MESSAGE_CONTENT'; messageId: string; delta: string }
		| { type: 'TOOL_CALL_START'; toolCallId: string; toolCallName: string }
		| { type: 'TOOL_CALL_ARGS'; toolCallId: string; delta: string }
		| { type: 'TOOL_CALL_END'; toolCallId: string }
		| { type: 'TOOL_CALL_RESULT'; messageId: string; toolCallId: string; role: 'tool'; content: string }
		| { type: 'STATE_SNAPSHOT'; snapshot: AgUiState }
		| { type: 'STATE_DELTA'; delta: { op: 'add' | 'replace' | 'remove'; path: string; value?: unknown }[] }
		| { type: 'CUSTOM'; name: string; value: unknown }
	);

export interface AgUiState {
	plan: unknown;
	usage: unknown;
	/** Questions that wait for an answer, by their request_id. */
	permissions: Record<string, unknown>;
}

/**
 * The runs of a session, from the first one that the server gives on and for as long as the client is there. A run that is under way comes from its
 * beginning. `afterRun`: the id of the newest run that you have whole; what follows it comes. The client needs `format: 'markdown'`.
 */
export function agUiEvents(client: HoldfastClient, options?: { afterRun?: string }): AsyncGenerator<AgUiEvent, void, void>;

/** The same without a client: events of a session in, in their order, AG-UI events out. */
export class AgUiFold {
	constructor(options: { threadId: string; epoch?: string | null });
	readonly state: AgUiState;
	runIdOf(turn: number): string;
	take(event: HoldfastEvent): AgUiEvent[];
	/** Text that still grows: all of it so far. */
	takeOpen(block: OpenBlock): AgUiEvent[];
	reset(reason: string, epoch?: string | null): AgUiEvent[];
}
