/*
 * Every configurable limit, in one table, with its default and allowed range (`holdfast serve
 * --limit NAME=VALUE`; `holdfast limits` prints the table).
 */
#ifndef HOLDFAST_LIMITS_H
#define HOLDFAST_LIMITS_H

#include "holdfast/error_codes.h"

#include <stddef.h>
#include <stdint.h>

#define LIMIT_KIB ((int64_t)1024)
#define LIMIT_MIB (1024 * LIMIT_KIB)
#define LIMIT_GIB (1024 * LIMIT_MIB)

/* The text of an error code; one that is unknown does not compile. */
#define REFUSES(code) (ERROR_##code ? #code : NULL)

/*
 * LIMIT(type, name, unit, default, least, most, code, meaning). `code` is what a client that
 * reaches the limit gets: an error code, REFUSES(code); a close code (1006: disconnected without a
 * close frame); "limit", the reason why an agent was stopped; or "waits":
 * nothing is refused, but read later. NULL: clients do not reach this limit.
 */
#define LIMITS_TABLE(LIMIT)                                                                                                             \
	/* The stream buffer (docs/blocks.md). */                                                                                       \
	LIMIT(int64_t, soft_flush_ms, MS, 200, 1, 60000, NULL,                                                                          \
		"a complete block, or a paragraph whose text ends a line, is emitted after this time without text")                     \
	LIMIT(int64_t, idle_flush_ms, MS, 10000, 1, 3600000, NULL,                                                                      \
		"a paragraph is emitted after this time without text, even in the middle of a line")                                    \
	LIMIT(int64_t, idle_block_flush_ms, MS, 30000, 1, 3600000, NULL,                                                                \
		"an open list, table, fence or quote is emitted after this time without text")                                          \
	LIMIT(int64_t, hold_ms, MS, 500, 1, 600000, NULL,                                                                               \
		"an open block is cut after this time without text if other inputs are held behind it")                                 \
	LIMIT(int64_t, hold_fence_ms, MS, 2000, 1, 600000, NULL, "the same inside a fence")                                             \
	LIMIT(int64_t, thought_flush_ms, MS, 500, 1, 60000, NULL,                                                                       \
		"a thought is emitted after this time without more of it")                                                              \
	LIMIT(size_t, paragraph_flush_size, BYTES, 4 * LIMIT_KIB, 64, 16 * LIMIT_MIB, NULL,                                             \
		"a paragraph of this size is emitted at the end of a line")                                                             \
	LIMIT(size_t, thought_size, BYTES, 4 * LIMIT_KIB, 64, 1 * LIMIT_MIB, NULL,                                                      \
		"a thought of this size is emitted")                                                                                    \
	LIMIT(size_t, block_size, BYTES, 64 * LIMIT_KIB, 256, 16 * LIMIT_MIB, NULL,                                                     \
		"a block of this size is cut")                                                                                          \
	LIMIT(int64_t, preview_ms, MS, 80, 10, 60000, NULL,                                                                             \
		"minimum time between two previews of a session")                                                                       \
	/* Connections. */                                                                                                              \
	LIMIT(size_t, connections, COUNT, 50000, 1, 10000000, REFUSES(too_many_connections),                                            \
		"open connections; fewer if the system's limit of open files is lower")                                                 \
	LIMIT(size_t, address_connections, COUNT, 10000, 1, 10000000,                                                                   \
		REFUSES(too_many_connections),                                                                                          \
		"open connections from one address (IPv6: one /64)")                                                                    \
	LIMIT(size_t, session_connections, COUNT, 20000, 1, 10000000,                                                                   \
		REFUSES(too_many_connections), "open connections to one session")                                                       \
	LIMIT(size_t, half_open, COUNT, 4096, 1, 10000000, REFUSES(too_many_connections),                                               \
		"connections that have not sent a request or token yet; beyond it the oldest is closed")                                \
	LIMIT(size_t, client_requests, COUNT, 200, 1, 100000000, "waits",                                                               \
		"requests and frames of one connection served per second")                                                              \
	LIMIT(size_t, producer_messages, COUNT, 100000, 1, 100000000, "waits",                                                          \
		"messages with events accepted from one producer connection per second")                                                \
	LIMIT(size_t, producer_bytes, BYTES, 64 * LIMIT_MIB, 1 * LIMIT_KIB, 64 * LIMIT_GIB,                                             \
		"waits", "bytes of events accepted from one producer connection per second")                                            \
	LIMIT(int64_t, pages_ms, MS, 2, 1, 1000, "waits",                                                                               \
		"time per turn of the event loop for pages of events and sessions, for all clients; the rest waits for the next turn")  \
	LIMIT(size_t, descriptor_reserve, COUNT, 256, 0, 1000000, NULL,                                                                 \
		"open files reserved for the store and the agents")                                                                     \
	LIMIT(size_t, head_size, BYTES, 16 * LIMIT_KIB, 1 * LIMIT_KIB, 1 * LIMIT_MIB,                                                   \
		REFUSES(bad_request), "size of the head of an HTTP request")                                                            \
	LIMIT(int64_t, head_ms, MS, 10000, 100, 3600000, REFUSES(timeout),                                                              \
		"time for the head of a request to arrive")                                                                             \
	LIMIT(int64_t, token_ms, MS, 5000, 100, 3600000, REFUSES(unauthorized),                                                         \
		"time for a WebSocket opened without a token to send one")                                                              \
	LIMIT(size_t, wrong_tokens, COUNT, 10, 1, 1000000, REFUSES(too_many_tokens),                                                    \
		"wrong tokens from one address per minute; further attempts must wait")                                                 \
	LIMIT(int64_t, keepalive_ms, MS, 60000, 100, 86400000, NULL,                                                                    \
		"a connection without a request is closed after this time")                                                             \
	LIMIT(int64_t, receive_ms, MS, 30000, 100, 3600000, REFUSES(timeout),                                                           \
		"longest pause within a body or message, and base of the time in which it must arrive")                                 \
	LIMIT(size_t, receive_rate, BYTES, 1 * LIMIT_KIB, 1, 1024 * LIMIT_MIB, NULL,                                                    \
		"bytes of a body or message for which another second is allowed (see receive_ms)")                                      \
	LIMIT(size_t, receive_size, BYTES, 256 * LIMIT_MIB, 1 * LIMIT_MIB, 65536 * LIMIT_MIB,                                           \
		REFUSES(server_busy),                                                                                                   \
		"memory for the unfinished bodies and messages of all connections")                                                     \
	LIMIT(size_t, send_size, BYTES, 256 * LIMIT_MIB, 1 * LIMIT_MIB, 65536 * LIMIT_MIB, "1006",                                      \
		"memory for data that clients have not read yet; beyond it those that have not read for longest are disconnected")      \
	LIMIT(size_t, send_threads, COUNT, 0, 0, 64, NULL,                                                                              \
		"threads that send to observers, including the loop's; 0: one per processor, at most 4")                                \
	LIMIT(int64_t, ping_ms, MS, 25000, 100, 86400000, NULL,                                                                         \
		"a WebSocket that has been silent for this time is sent a ping")                                                        \
	LIMIT(int64_t, pong_ms, MS, 20000, 100, 86400000, NULL,                                                                         \
		"time to answer a ping before the connection is closed")                                                                \
	LIMIT(int64_t, comment_ms, MS, 15000, 100, 3600000, NULL,                                                                       \
		"a stream of server-sent events that has been silent for this time is sent a comment")                                  \
	LIMIT(int64_t, poll_ms, MS, 20000, 100, 3600000, NULL,                                                                          \
		"a long poll of Durable Streams ends after this time without data")                                                     \
	LIMIT(size_t, node_sockets, COUNT, 20000, 1, 10000000, REFUSES(too_many_connections),                                           \
		"connections to other nodes for forwarding")                                                                            \
	LIMIT(int64_t, node_connect_ms, MS, 2000, 100, 600000, REFUSES(owner_unreachable),                                              \
		"time to connect to another node")                                                                                      \
	LIMIT(int64_t, node_silence_ms, MS, 5000, 100, 600000, NULL,                                                                    \
		"a silent node is pinged after this time, and considered lost after the same time again")                               \
	/* Input from outside. */                                                                                                       \
	LIMIT(size_t, frame_size, BYTES, 1 * LIMIT_MIB, 1 * LIMIT_KIB, 64 * LIMIT_MIB,                                                  \
		REFUSES(too_large), "size of a WebSocket message from a client")                                                        \
	/* Holds a batch of an agent's largest events; more takes several requests. */                                                  \
	LIMIT(size_t, body_size, BYTES, 8 * LIMIT_MIB, 1 * LIMIT_KIB, 256 * LIMIT_MIB,                                                  \
		REFUSES(too_large), "size of an HTTP request body")                                                                     \
	/* Agents send whole files in one tool call: 1.24 MB has been seen. */                                                          \
	LIMIT(size_t, event_size, BYTES, 1536 * LIMIT_KIB, 1 * LIMIT_KIB, 64 * LIMIT_MIB,                                               \
		REFUSES(too_large), "size of the data of an input event")                                                               \
	LIMIT(size_t, batch_events, COUNT, 10000, 1, 1000000, REFUSES(too_large),                                                       \
		"input events in one append")                                                                                           \
	LIMIT(size_t, prompt_size, BYTES, 512 * LIMIT_KIB, 1 * LIMIT_KIB, 16 * LIMIT_MIB,                                               \
		REFUSES(too_large), "size of a prompt")                                                                                 \
	LIMIT(size_t, prompt_blocks, COUNT, 20, 1, 1000, REFUSES(too_large),                                                            \
		"images and files in one prompt")                                                                                       \
	LIMIT(size_t, prompt_blobs, BYTES, 32 * LIMIT_MIB, 1 * LIMIT_KIB, 256 * LIMIT_MIB,                                              \
		REFUSES(too_large), "total size of the images and files in one prompt")                                                 \
	LIMIT(size_t, prompt_queue, COUNT, 100, 1, 10000, REFUSES(queue_full),                                                          \
		"queued prompts in one session")                                                                                        \
	LIMIT(size_t, open_permissions, COUNT, 64, 1, 100000, REFUSES(permissions_full),                                                \
		"unanswered permission requests in one session")                                                                        \
	LIMIT(size_t, sessions, COUNT, 1000000, 1, 100000000, REFUSES(too_many_sessions),                                               \
		"sessions")                                                                                                             \
	LIMIT(size_t, sub_sessions, COUNT, 10000, 1, 100000000, REFUSES(too_many_sessions),                                             \
		"sessions created with tokens of one sub")                                                                              \
	LIMIT(size_t, open_blocks, COUNT, 20000, 1, 100000000, REFUSES(server_busy),                                                    \
		"sessions in which a producer's text is not a complete block yet")                                                      \
	LIMIT(size_t, names, COUNT, 5000000, 1, 1000000000, REFUSES(names_full),                                                        \
		"keys and ids of messages, tool calls and runs that one session remembers")                                             \
	LIMIT(size_t, blob_size, BYTES, 16 * LIMIT_MIB, 1 * LIMIT_KIB, 1 * LIMIT_GIB,                                                   \
		REFUSES(too_large), "size of an image or file that belongs to a session")                                               \
	LIMIT(size_t, session_blobs, BYTES, 256 * LIMIT_MIB, 4 * LIMIT_KIB, 1024 * LIMIT_GIB,                                           \
		REFUSES(blobs_full),                                                                                                    \
		"images and files of one session; each counts in whole 4 KiB")                                                          \
	LIMIT(size_t, blobs, BYTES, 16 * LIMIT_GIB, 4 * LIMIT_KIB, 1048576 * LIMIT_GIB,                                                 \
		REFUSES(blobs_full),                                                                                                    \
		"images and files of all sessions; each counts in whole 4 KiB")                                                         \
	LIMIT(size_t, streams, COUNT, 10000, 1, 1000000, REFUSES(too_many_streams),                                                     \
		"streams of Durable Streams at /v1/stream/")                                                                            \
	LIMIT(size_t, stream_size, BYTES, 1 * LIMIT_GIB, 1 * LIMIT_KIB, 1024 * LIMIT_GIB,                                               \
		REFUSES(stream_full),                                                                                                   \
		"size of one such stream, including what it inherits from the stream it was forked from")                               \
	LIMIT(size_t, stream_producers, COUNT, 1000, 1, 1000000, REFUSES(stream_full),                                                  \
		"producers that one such stream remembers; after seven days of silence one makes room for another")                     \
	LIMIT(size_t, agents, COUNT, 100, 1, 100000, REFUSES(too_many_agents), "running agents")                                        \
	LIMIT(size_t, agent_line_size, BYTES, 16 * LIMIT_MIB, 64 * LIMIT_KIB, 256 * LIMIT_MIB,                                          \
		NULL, "size of one JSON-RPC line of an agent")                                                                          \
	LIMIT(size_t, agent_file_size, BYTES, 8 * LIMIT_MIB, 1 * LIMIT_KIB, 256 * LIMIT_MIB, NULL,                                      \
		"size of a file read or written for an agent")                                                                          \
	LIMIT(size_t, agent_file_names, COUNT, 1, 1, 1000000, NULL,                                                                     \
		"hard links that such a file can have; others may lie outside --cwd")                                                   \
	LIMIT(int, agent_file_ms, MS, 20000, 10, 3600000, NULL,                                                                         \
		"an agent's request for a file fails after this time without an answer from the file system")                           \
	LIMIT(int, self_turn_ms, MS, 3600000, 100, 86400000, NULL,                                                                      \
		"a turn that an agent began by itself ends after this time without a sign of it")                                       \
	LIMIT(size_t, agent_terminals, COUNT, 16, 0, 1024, NULL,                                                                        \
		"commands that the server runs for one agent at once; 0: none")                                                         \
	/* Off by default: the right value depends on the agent's work. */                                                              \
	LIMIT(size_t, agent_memory, BYTES, 0, 0, 16384 * LIMIT_GIB, "limit",                                                            \
		"memory of an agent and everything it has started; 0: no limit")                                                        \
	LIMIT(size_t, agent_processes, COUNT, 4096, 0, 4194304, "limit",                                                                \
		"processes and threads of an agent and everything it has started; 0: no limit")                                         \
	LIMIT(int, agent_stop_ms, MS, 3000, 1, 60000, NULL,                                                                             \
		"an agent that was asked to stop is killed after this time")                                                            \
	LIMIT(int, agent_hand_over_ms, MS, 100, 1, 60000, NULL,                                                                         \
		"the same on a node that stops (--node-listen), so that another can take its sessions sooner; capped by agent_stop_ms") \
	LIMIT(int64_t, drain_ms, MS, 10000, 100, 3600000, NULL, "time for the server to stop")                                          \
	LIMIT(int64_t, drain_retry_ms, MS, 500, 0, 600000, NULL,                                                                        \
		"how long clients are asked to wait before they reconnect when the server stops")                                       \
	/* Off by default: stopping an agent loses its memory of the conversation. */                                                   \
	LIMIT(int, agent_idle_ms, MS, 0, 0, 86400000, NULL,                                                                             \
		"an idle agent is stopped after this time; 0: never")                                                                   \
	LIMIT(int, agent_resumable_idle_ms, MS, 1800000, 0, 86400000, NULL,                                                             \
		"the same for an agent that can resume its session; 0: never")                                                          \
	/* Loading. */                                                                                                                  \
	LIMIT(size_t, load_default, COUNT, 50, 1, 5000, NULL,                                                                           \
		"events in a page if the client gives no limit")                                                                        \
	LIMIT(size_t, load_max, COUNT, 5000, 1, 100000, NULL, "most events in a page")                                                  \
	LIMIT(size_t, list_max, COUNT, 1000, 1, 100000, NULL,                                                                           \
		"most sessions in a page of the list")                                                                                  \
	LIMIT(size_t, page_size, BYTES, 1 * LIMIT_MIB, 4 * LIMIT_KIB, 64 * LIMIT_MIB, NULL,                                             \
		"a page of events or sessions is cut at about this size")                                                               \
	LIMIT(size_t, searches, COUNT, 2, 1, 64, "waits",                                                                               \
		"searches that work at the same time; others wait")                                                                     \
	LIMIT(size_t, search_size, BYTES, 8 * LIMIT_MIB, 4 * LIMIT_KIB, 1 * LIMIT_GIB, NULL,                                            \
		"size of the events that one search request looks through, approximately")                                              \
	LIMIT(int64_t, search_wait_ms, MS, 5000, 1, 600000, NULL,                                                                       \
		"time that a search in all sessions waits for the store; the answer lists sessions that were not read in time")         \
	LIMIT(size_t, search_hits, COUNT, 200, 1, 5000, NULL, "most hits in an answer")                                                 \
	LIMIT(size_t, search_query_size, BYTES, 256, 1, 4 * LIMIT_KIB, REFUSES(too_large),                                              \
		"size of the search text")                                                                                              \
	LIMIT(size_t, hot_tail_size, BYTES, 256 * LIMIT_KIB, 1 * LIMIT_KIB, 256 * LIMIT_MIB, NULL,                                      \
		"newest events of a session kept in memory")                                                                            \
	LIMIT(int64_t, evict_ms, MS, 30000, 1, 86400000, NULL,                                                                          \
		"an idle session without observers and producers leaves memory after this time")                                        \
	/* Push messages (proto/access.md#push-messages). */                                                                            \
	LIMIT(size_t, push_subscriptions, COUNT, 1000, 1, 1000000,                                                                      \
		REFUSES(too_many_subscriptions), "browsers that are sent push messages")                                                \
	LIMIT(size_t, push_queue, COUNT, 10000, 1, 1000000, NULL,                                                                       \
		"queued push messages; beyond it the one that is due first is dropped")                                                 \
	LIMIT(int64_t, push_delay_ms, MS, 1000, 0, 600000, NULL,                                                                        \
		"delay before a push message is sent; it is dropped if outdated by then")                                               \
	LIMIT(int64_t, push_ms, MS, 10000, 10, 600000, NULL,                                                                            \
		"time for a push service to accept a message")                                                                          \
	LIMIT(int64_t, push_retry_ms, MS, 5000, 1, 3600000, NULL,                                                                       \
		"time before the second attempt to send a push message; it doubles with each of the six attempts")                      \
	/* Webhooks (docs/webhooks.md). */                                                                                              \
	LIMIT(int64_t, webhook_ms, MS, 10000, 10, 600000, NULL,                                                                         \
		"time for a webhook to accept a message")                                                                               \
	LIMIT(int64_t, webhook_retry_ms, MS, 1000, 1, 3600000, NULL,                                                                    \
		"time before the second attempt to send a message to a webhook; it doubles with each attempt")                          \
	LIMIT(int64_t, webhook_retry_max_ms, MS, 600000, 1, 86400000, NULL,                                                             \
		"the longest time between two attempts")                                                                                \
	LIMIT(int64_t, webhook_keep_ms, MS, 259200000, 0, INT64_MAX, NULL,                                                              \
		"a message is dropped when its event is older than this and eight attempts have failed")                                \
	/* The store. */                                                                                                                \
	LIMIT(size_t, segment_size, BYTES, 64 * LIMIT_MIB, 4 * LIMIT_KIB, 1024 * LIMIT_MIB, NULL,                                       \
		"the journal starts a new segment beyond this size")                                                                    \
	LIMIT(size_t, journal_ahead, BYTES, 1 * LIMIT_MIB, 0, 64 * LIMIT_MIB, NULL,                                                     \
		"disk space allocated ahead of the journal's end")                                                                      \
	LIMIT(int64_t, journal_retry_ms, MS, 1000, 1, 600000, NULL,                                                                     \
		"time between attempts to write the journal after a failure")                                                           \
	LIMIT(int64_t, node_lease_ms, MS, 10000, 200, 600000, NULL,                                                                     \
		"time before the sessions of a node that died can be taken over by another node (--store)")                             \
	LIMIT(int64_t, database_wait_ms, MS, 120000, 0, 86400000, NULL,                                                                 \
		"how long a server that starts waits for its database (--store)")                                                       \
	LIMIT(int64_t, stop_wait_ms, MS, 5000, 1, 600000, NULL,                                                                         \
		"how long a stop waits for disk operations that hang")                                                                  \
	LIMIT(int64_t, keep_events, COUNT, 0, 0, INT64_MAX, NULL,                                                                       \
		"newest events kept in each session; 0: all")                                                                           \
	LIMIT(size_t, keep_bytes, BYTES, 0, 0, 1048576 * LIMIT_GIB, NULL,                                                               \
		"newest bytes of the log kept in each session, at least one event; 0: all")                                             \
	LIMIT(int64_t, keep_days, COUNT, 0, 0, 36500, NULL,                                                                             \
		"days that events are kept; 0: for ever")                                                                               \
	LIMIT(int64_t, clock_trust_ms, MS, 3600000, 0, 86400000, NULL,                                                                  \
		"nothing is pruned by age until the wall clock has not been set for this time")                                         \
	LIMIT(int64_t, prune_ms, MS, 60000, 10, 86400000, NULL,                                                                         \
		"time between checks for events to prune")                                                                              \
	LIMIT(size_t, prune_size, BYTES, 64 * LIMIT_KIB, 1, 1024 * LIMIT_MIB, NULL,                                                     \
		"a log is rewritten when this much of it, and at least half, is pruned events")                                         \
	LIMIT(size_t, max_disk, BYTES, 0, 0, 1048576 * LIMIT_GIB, REFUSES(disk_full),                                                   \
		"size of the data directory; beyond it new input is refused, while reading still works; 0: no limit")                   \
	LIMIT(size_t, journal_backlog, BYTES, 16 * LIMIT_MIB, 64 * LIMIT_KIB, 1024 * LIMIT_MIB,                                         \
		"waits", "producers are paused while this much waits for the disk")                                                     \
	/* Observers. */                                                                                                                \
	LIMIT(size_t, outbox_frames, COUNT, 256, 8, 100000, "1008",                                                                     \
		"responses queued for a socket that does not drain")                                                                    \
	LIMIT(size_t, outbox_size, BYTES, 8 * LIMIT_MIB, 64 * LIMIT_KIB, 1 * LIMIT_GIB, "1008",                                         \
		"the same, in bytes")                                                                                                   \
	LIMIT(size_t, title_size, BYTES, 1 * LIMIT_KIB, 16, 64 * LIMIT_KIB, REFUSES(too_large),                                         \
		"size of a session's title")

#define LIMIT_FIELD(type, name, unit, fallback, least, most, code, help) type name;
struct limits {
	LIMITS_TABLE(LIMIT_FIELD)
};
#undef LIMIT_FIELD

/** Identifies a limit, to count how often each is reached. */
#define LIMIT_ID(type, name, unit, fallback, least, most, code, help) LIMIT_##name,
enum limit { LIMIT_NONE, LIMITS_TABLE(LIMIT_ID) LIMIT_COUNT };
#undef LIMIT_ID

/** Returns the name of a limit, which must not be LIMIT_NONE. */
const char *limit_name(enum limit limit);
/** Returns the `code` of the table; NULL if clients do not reach this limit. */
const char *limit_outcome(enum limit limit);
/** Returns the error code that a client gets; ERROR_NONE if it gets another outcome, or none. */
enum error_code limit_code(enum limit limit);

/** Returns the defaults (static). */
const struct limits *limits_default(void);
/**
 * Sets a limit from the text `NAME=VALUE`. The value is a whole number; a size can have the suffix
 * K, M or G (KiB, MiB, GiB), a time the suffix s (seconds). Returns 0; -ENOENT for an unknown
 * limit, -EINVAL for a malformed text or value, -ERANGE for a value out of range. On error *ret_why
 * says what to do (the caller frees it).
 */
int limits_set(struct limits *limits, const char *text, char **ret_why);
/** Prints the table to stdout under a line of headings: name, value, range, code, meaning. */
void limits_print(const struct limits *limits);

#endif
