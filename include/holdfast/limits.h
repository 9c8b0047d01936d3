/*
 * Every number that bounds something, in one table, with its default and the range it may be set to
 * (`holdfast serve --limit NAME=VALUE`; `holdfast limits` prints the table).
 */
#ifndef HOLDFAST_LIMITS_H
#define HOLDFAST_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#define LIMIT_KIB ((int64_t)1024)
#define LIMIT_MIB (1024 * LIMIT_KIB)
#define LIMIT_GIB (1024 * LIMIT_MIB)

/*
 * LIMIT(type, name, unit, default, least, most, code, what it bounds). The code is what a client is
 * told that reaches it: one of proto/protocol.md#error-codes, a close code, "limit": the
 * reason why an agent was stopped, or "waits": nothing is refused, but read later. NULL: it is no limit that a client reaches.
 */
#define LIMITS_TABLE(LIMIT)                                                                        \
	/* The stream buffer (docs/blocks.md). */                                                  \
	LIMIT(int64_t, soft_flush_ms, MS, 200, 1, 60000, NULL,                                     \
		"a paragraph at the end of a line, or any block that is complete, goes out when "  \
		"no text came for so long")                                                        \
	LIMIT(int64_t, idle_flush_ms, MS, 10000, 1, 3600000, NULL,                                 \
		"a paragraph goes out when no text came for so long, wherever it stands")          \
	LIMIT(int64_t, idle_block_flush_ms, MS, 30000, 1, 3600000, NULL,                           \
		"the same for an open list, table, fence or quote")                                \
	LIMIT(int64_t, hold_ms, MS, 500, 1, 600000, NULL,                                          \
		"an open block is cut when something is held behind it and no text came for so "   \
		"long")                                                                            \
	LIMIT(int64_t, hold_fence_ms, MS, 2000, 1, 600000, NULL, "the same inside a fence")        \
	LIMIT(int64_t, thought_flush_ms, MS, 500, 1, 60000, NULL,                                  \
		"a thought goes out when no more of it came for so long")                          \
	LIMIT(size_t, paragraph_flush_size, BYTES, 4 * LIMIT_KIB, 64, 16 * LIMIT_MIB, NULL,        \
		"a paragraph of this size goes out at the end of a line")                          \
	LIMIT(size_t, thought_size, BYTES, 4 * LIMIT_KIB, 64, 1 * LIMIT_MIB, NULL,                 \
		"a thought of this size goes out")                                                 \
	LIMIT(size_t, block_size, BYTES, 64 * LIMIT_KIB, 256, 16 * LIMIT_MIB, NULL,                \
		"any block of this size is cut")                                                   \
	LIMIT(int64_t, preview_ms, MS, 80, 10, 60000, NULL,                                        \
		"least time between two previews of one session")                                  \
	/* Connections. */                                                                         \
	LIMIT(size_t, connections, COUNT, 50000, 1, 10000000, "too_many_connections",              \
		"connections at once; fewer if the system's limit of open files says so")          \
	LIMIT(size_t, address_connections, COUNT, 10000, 1, 10000000, "too_many_connections",      \
		"connections of one address (of IPv6, one /64)")                                   \
	LIMIT(size_t, session_connections, COUNT, 20000, 1, 10000000, "too_many_connections",      \
		"connections that watch or feed one session")                                      \
	LIMIT(size_t, half_open, COUNT, 4096, 1, 10000000, "too_many_connections",                 \
		"connections that have not sent a request, or their token, yet; beyond it "        \
		"the oldest goes")                                                                 \
	LIMIT(size_t, client_requests, COUNT, 200, 1, 100000000, "waits",                          \
		"requests, frames and small pieces of them that one connection is served "         \
		"in a second")                                                                     \
	LIMIT(size_t, producer_messages, COUNT, 100000, 1, 100000000, "waits",                     \
		"the same of messages with which a producer appends")                              \
	LIMIT(size_t, producer_bytes, BYTES, 64 * LIMIT_MIB, 1 * LIMIT_KIB, 64 * LIMIT_GIB,        \
		"waits", "and bytes that it appends in a second")                                  \
	LIMIT(int64_t, pages_ms, MS, 2, 1, 1000, "waits",                                          \
		"time for pages of events and of the list in one turn of the loop, for all "       \
		"clients; who comes later waits for the next one")                                 \
	LIMIT(size_t, descriptor_reserve, COUNT, 256, 0, 1000000, NULL,                            \
		"open files that connections leave to the store and the agents")                   \
	LIMIT(size_t, head_size, BYTES, 16 * LIMIT_KIB, 1 * LIMIT_KIB, 1 * LIMIT_MIB,              \
		"bad_request", "the head of one HTTP request")                                     \
	LIMIT(int64_t, head_ms, MS, 10000, 100, 3600000, "timeout",                                \
		"the head of a request comes within this")                                         \
	LIMIT(int64_t, token_ms, MS, 5000, 100, 3600000, "unauthorized",                           \
		"a WebSocket that was opened without a token says it within this")                 \
	LIMIT(size_t, wrong_tokens, COUNT, 10, 1, 1000000, "too_many_tokens",                      \
		"wrong tokens of one address in a minute; the next ones are told to wait")         \
	LIMIT(int64_t, keepalive_ms, MS, 60000, 100, 86400000, NULL,                               \
		"a connection without a request is closed after this")                             \
	LIMIT(int64_t, receive_ms, MS, 30000, 100, 3600000, "timeout",                             \
		"an unfinished body or message may pause for so long, and may take so long")       \
	LIMIT(size_t, receive_rate, BYTES, 1 * LIMIT_KIB, 1, 1024 * LIMIT_MIB, NULL,               \
		"and a second more for each so many bytes of it")                                  \
	LIMIT(size_t, receive_size, BYTES, 256 * LIMIT_MIB, 1 * LIMIT_MIB, 65536 * LIMIT_MIB,      \
		"server_busy", "unfinished bodies and messages of all connections together")       \
	LIMIT(int64_t, ping_ms, MS, 25000, 100, 86400000, NULL,                                    \
		"a WebSocket that was silent for so long is sent a ping")                          \
	LIMIT(int64_t, pong_ms, MS, 20000, 100, 86400000, NULL,                                    \
		"and is closed if nothing comes for so long after it")                             \
	/* What comes from outside. */                                                             \
	LIMIT(size_t, frame_size, BYTES, 1 * LIMIT_MIB, 1 * LIMIT_KIB, 64 * LIMIT_MIB,             \
		"too_large", "one WebSocket message of a client")                                  \
	/* A batch of the largest events of an agent fits; more is several requests. */            \
	LIMIT(size_t, body_size, BYTES, 8 * LIMIT_MIB, 1 * LIMIT_KIB, 256 * LIMIT_MIB,             \
		"too_large", "one HTTP request body")                                              \
	/* Agents send whole files in one tool call: 1.24 MB was seen. */                          \
	LIMIT(size_t, event_size, BYTES, 1536 * LIMIT_KIB, 1 * LIMIT_KIB, 64 * LIMIT_MIB,          \
		"too_large", "the data of one input event")                                        \
	LIMIT(size_t, batch_events, COUNT, 10000, 1, 1000000, "too_large",                         \
		"input events in one append")                                                      \
	LIMIT(size_t, prompt_size, BYTES, 512 * LIMIT_KIB, 1 * LIMIT_KIB, 16 * LIMIT_MIB,          \
		"too_large", "one prompt")                                                         \
	LIMIT(size_t, prompt_queue, COUNT, 100, 1, 10000, "queue_full",                            \
		"prompts waiting in one session")                                                  \
	LIMIT(size_t, open_permissions, COUNT, 64, 1, 100000, "permissions_full",                  \
		"permission requests that wait for an answer in one session")                      \
	LIMIT(size_t, sessions, COUNT, 1000000, 1, 100000000, "too_many_sessions",                 \
		"sessions that there are")                                                         \
	LIMIT(size_t, sub_sessions, COUNT, 10000, 1, 100000000, "too_many_sessions",               \
		"sessions that the tokens of one sub have made")                                   \
	LIMIT(size_t, open_blocks, COUNT, 20000, 1, 100000000, "server_busy",                      \
		"sessions in which a producer's text is not a whole block yet")                    \
	LIMIT(size_t, names, COUNT, 5000000, 1, 1000000000, "names_full",                          \
		"keys, ids of messages, of tool calls and of runs that one session knows")         \
	LIMIT(size_t, agents, COUNT, 100, 1, 100000, "too_many_agents", "agents that run at once") \
	LIMIT(size_t, agent_line_size, BYTES, 16 * LIMIT_MIB, 64 * LIMIT_KIB, 256 * LIMIT_MIB,     \
		NULL, "one JSON-RPC line of an agent")                                             \
	LIMIT(size_t, agent_file_size, BYTES, 8 * LIMIT_MIB, 1 * LIMIT_KIB, 256 * LIMIT_MIB, NULL, \
		"one file read or written for an agent")                                           \
	LIMIT(size_t, agent_file_names, COUNT, 1, 1, 1000000, NULL,                                \
		"names (hard links) of such a file, of which some may be elsewhere")               \
	LIMIT(int, agent_file_ms, MS, 20000, 10, 3600000, NULL,                                    \
		"a file that does not answer an agent's request is given up after this")           \
	LIMIT(size_t, agent_terminals, COUNT, 16, 0, 1024, NULL,                                   \
		"commands that one agent may have the server run at once; 0: none")                \
	/* Not by default: what an agent needs depends on its work. */                             \
	LIMIT(size_t, agent_memory, BYTES, 0, 0, 16384 * LIMIT_GIB, "limit",                       \
		"memory of an agent and all that it and its commands have started; 0: any")        \
	LIMIT(size_t, agent_processes, COUNT, 4096, 0, 4194304, "limit",                           \
		"processes and threads of the same; 0: any")                                       \
	LIMIT(int, agent_stop_ms, MS, 3000, 1, 60000, NULL,                                        \
		"an agent that was asked to stop is killed after this")                            \
	/* Not by default: what an agent has in mind of the conversation is lost with it. */       \
	LIMIT(int, agent_idle_ms, MS, 0, 0, 86400000, NULL,                                        \
		"an agent without anything to do is stopped after this; 0: never")                 \
	LIMIT(int, agent_resumable_idle_ms, MS, 1800000, 0, 86400000, NULL,                        \
		"the same for an agent that goes on with its session when it is started again")    \
	/* Loading. */                                                                             \
	LIMIT(size_t, load_default, COUNT, 50, 1, 5000, NULL,                                      \
		"events in a page when the client names no limit")                                 \
	LIMIT(size_t, load_max, COUNT, 5000, 1, 100000, NULL, "events in a page at most")          \
	LIMIT(size_t, list_max, COUNT, 1000, 1, 100000, NULL, "sessions in a page of the list")    \
	LIMIT(size_t, page_size, BYTES, 1 * LIMIT_MIB, 4 * LIMIT_KIB, 64 * LIMIT_MIB, NULL,        \
		"a page of events or sessions is cut at about this size")                          \
	LIMIT(size_t, hot_tail_size, BYTES, 256 * LIMIT_KIB, 1 * LIMIT_KIB, 256 * LIMIT_MIB, NULL, \
		"newest events of a session kept in memory")                                       \
	LIMIT(int64_t, evict_ms, MS, 30000, 1, 86400000, NULL,                                     \
		"an idle session that nobody watches or feeds leaves memory after this")           \
	/* The store. */                                                                           \
	LIMIT(size_t, segment_size, BYTES, 64 * LIMIT_MIB, 4 * LIMIT_KIB, 1024 * LIMIT_MIB, NULL,  \
		"the journal is rotated beyond this")                                              \
	LIMIT(size_t, journal_ahead, BYTES, 1 * LIMIT_MIB, 0, 64 * LIMIT_MIB, NULL,                \
		"room on disk that is taken ahead of the journal's end")                           \
	LIMIT(int64_t, journal_retry_ms, MS, 1000, 1, 600000, NULL,                                \
		"after a failed write, the journal is tried again after so long")                  \
	LIMIT(int64_t, stop_wait_ms, MS, 5000, 1, 600000, NULL,                                    \
		"a stop waits so long for work on the disk that does not come back")               \
	LIMIT(int64_t, keep_events, COUNT, 0, 0, INT64_MAX, NULL,                                  \
		"events kept in a session at least; older ones are pruned; 0: all")                \
	LIMIT(int64_t, keep_days, COUNT, 0, 0, 36500, NULL,                                        \
		"days that events are kept; older ones are pruned; 0: for ever")                   \
	LIMIT(int64_t, clock_trust_ms, MS, 3600000, 0, 86400000, NULL,                             \
		"nothing is pruned by age until the wall clock was not set for so long")           \
	LIMIT(int64_t, prune_ms, MS, 60000, 10, 86400000, NULL,                                    \
		"so often it is looked for events to prune")                                       \
	LIMIT(size_t, prune_size, BYTES, 64 * LIMIT_KIB, 1, 1024 * LIMIT_MIB, NULL,                \
		"a log is written anew when so much of it, and half of it, is pruned events")      \
	LIMIT(size_t, max_disk, BYTES, 0, 0, 1048576 * LIMIT_GIB, "disk_full",                     \
		"bytes of the data directory; beyond it nothing is taken, and all can be "         \
		"read; 0: any")                                                                    \
	LIMIT(size_t, journal_backlog, BYTES, 16 * LIMIT_MIB, 64 * LIMIT_KIB, 1024 * LIMIT_MIB,    \
		"waits", "producers are paused while so much waits for the disk")                  \
	/* Observers. */                                                                           \
	LIMIT(size_t, outbox_frames, COUNT, 256, 8, 100000, "1008",                                \
		"answers waiting for a socket that does not drain")                                \
	LIMIT(size_t, outbox_size, BYTES, 8 * LIMIT_MIB, 64 * LIMIT_KIB, 1 * LIMIT_GIB, "1008",    \
		"the same, in bytes")                                                              \
	LIMIT(size_t, title_size, BYTES, 1 * LIMIT_KIB, 16, 64 * LIMIT_KIB, "too_large",           \
		"a session's title")

#define LIMIT_FIELD(type, name, unit, fallback, least, most, code, help) type name;
struct limits {
	LIMITS_TABLE(LIMIT_FIELD)
};
#undef LIMIT_FIELD

/** Which one: for whoever counts how often each is reached. */
#define LIMIT_ID(type, name, unit, fallback, least, most, code, help) LIMIT_##name,
enum limit { LIMIT_NONE, LIMITS_TABLE(LIMIT_ID) LIMIT_COUNT };
#undef LIMIT_ID

const char *limit_name(enum limit limit);
/** NULL: clients do not reach it. */
const char *limit_code(enum limit limit);

/** The defaults. */
const struct limits *limits_default(void);
/**
 * Sets one by a text `NAME=VALUE`. The value is a whole number; of sizes also with K, M or G for
 * KiB, MiB or GiB, of times with s for seconds. Returns 0; -ENOENT if there is no such limit, -EINVAL if the
 * value is none, -ERANGE if it is out of range; *ret_why says what to do then (caller frees).
 */
int limits_set(struct limits *limits, const char *text, char **ret_why);
/** Prints the table to stdout: name, value, range, code, meaning. */
void limits_print(const struct limits *limits);

#endif
