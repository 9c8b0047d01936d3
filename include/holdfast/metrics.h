/*
 * The server's metrics, which GET /metrics shows (docs/metrics.md): counters, gauges and
 * histograms, in base units, all in one table. Only the loop's thread updates them, so that
 * counting costs an addition; other threads hand over what they measure with the results of their
 * work. No name or label comes from outside, so their number does not grow with clients or
 * sessions.
 */
#ifndef HOLDFAST_METRICS_H
#define HOLDFAST_METRICS_H

#include "holdfast/buffer.h"
#include "holdfast/limits.h"

#include <stdint.h>

/* METRIC(id, kind, name, labels, help); rows of the same name must be adjacent. */
#define METRICS_TABLE(METRIC)                                                                    \
	METRIC(SESSIONS, gauge, "sessions", "", "Sessions, in memory or not")                    \
	METRIC(SESSIONS_LOADED, gauge, "sessions_loaded", "", "Sessions that are in memory")     \
	METRIC(SESSIONS_DAMAGED, gauge, "sessions_damaged", "",                                  \
		"Sessions that are set aside, or whose log has been found damaged")              \
	METRIC(STREAMS_DAMAGED, gauge, "streams_damaged", "",                                    \
		"Raw streams that are refused because they are damaged")                         \
	METRIC(BLOBS_DAMAGED, counter, "blobs_damaged_total", "",                                \
		"Times that somebody asked for an image or file that is damaged")                \
	METRIC(CONNECTIONS, gauge, "connections", "", "Connections that are open")               \
	METRIC(OBSERVERS, gauge, "observers", "{transport=\"websocket\"}",                       \
		"Observers that are connected, by transport")                                    \
	METRIC(OBSERVERS_ACP, gauge, "observers", "{transport=\"acp\"}", "")                     \
	METRIC(OBSERVERS_AI, gauge, "observers", "{transport=\"ai\"}", "")                       \
	METRIC(OBSERVERS_DS, gauge, "observers", "{transport=\"durable-streams\"}", "")          \
	METRIC(OBSERVERS_SSE, gauge, "observers", "{transport=\"sse\"}", "")                     \
	METRIC(OBSERVERS_BEHIND, gauge, "observers_behind", "",                                  \
		"Observers that have not been sent the newest events yet")                       \
	METRIC(PRODUCERS, gauge, "producers", "", "Sockets and streams that append")             \
	METRIC(EVENTS_APPENDED, counter, "events_appended_total", "",                            \
		"Events that have become durable")                                               \
	METRIC(EVENTS_DELIVERED, counter, "events_delivered_total", "",                          \
		"Events that were sent to observers, live and in pages; an event counts once "   \
		"for each observer")                                                             \
	METRIC(EVENTS_RENDERED, counter, "events_rendered_total", "",                            \
		"Messages that were rendered to HTML, for pages and for events.html")            \
	METRIC(BYTES_SENT, counter, "bytes_sent_total", "", "Bytes sent over all connections")   \
	METRIC(BYTES_RECEIVED, counter, "bytes_received_total", "",                              \
		"Bytes received over all connections")                                           \
	METRIC(LOADS_NEWEST, counter, "loads_total", "{kind=\"newest\"}",                        \
		"Loads, by where they begin")                                                    \
	METRIC(LOADS_AFTER, counter, "loads_total", "{kind=\"after\"}", "")                      \
	METRIC(LOADS_BEFORE, counter, "loads_total", "{kind=\"before\"}", "")                    \
	METRIC(RESETS_EPOCH, counter, "resets_total", "{reason=\"epoch\"}",                      \
		"Loads whose position was not valid, by reason")                                 \
	METRIC(RESETS_AHEAD, counter, "resets_total", "{reason=\"ahead\"}", "")                  \
	METRIC(RESETS_PRUNED, counter, "resets_total", "{reason=\"pruned\"}", "")                \
	METRIC(BACKLOG_BYTES, gauge, "store_backlog_bytes", "", "Bytes that wait for the disk")  \
	METRIC(STORE_FAILED, gauge, "store_failed", "",                                          \
		"1 while the journal, or the database, cannot be written")                       \
	METRIC(RECEIVING_BYTES, gauge, "receiving_bytes", "",                                    \
		"Memory of messages and bodies that are incomplete")                             \
	METRIC(SENDING_BYTES, gauge, "sending_bytes", "",                                        \
		"Memory of data that connections have not taken yet")                            \
	METRIC(NODE_REQUESTS, counter, "node_requests_total", "",                                \
		"Requests over HTTP that were forwarded to the node that has the session")       \
	METRIC(NODE_SOCKETS, gauge, "node_sockets", "",                                          \
		"WebSockets to other nodes, for sessions that clients use here")                 \
	METRIC(NODE_FAILURES, counter, "node_failures_total", "",                                \
		"Requests and WebSockets for which another node could not be reached, or was "   \
		"lost")                                                                          \
	METRIC(AGENTS_RUNNING, gauge, "agents_running", "", "Agents whose process is up")        \
	METRIC(AGENT_STARTS, counter, "agent_starts_total", "{result=\"started\"}",              \
		"Agents that were started, by whether they came to answer")                      \
	METRIC(AGENT_STARTS_FAILED, counter, "agent_starts_total", "{result=\"failed\"}", "")    \
	METRIC(PROMPTS_WAITING, gauge, "prompts_waiting", "",                                    \
		"Prompts that wait for the turn before them to end")                             \
	METRIC(PERMISSIONS_PENDING, gauge, "permissions_pending", "",                            \
		"Permission requests that wait for an answer")                                   \
	METRIC(PUSH_SUBSCRIPTIONS, gauge, "push_subscriptions", "",                              \
		"Browsers that want push messages")                                              \
	METRIC(PUSH_QUEUE, gauge, "push_queue", "", "Push messages that wait to be sent")        \
	METRIC(PUSH_SENT, counter, "push_messages_total", "{result=\"sent\"}",                   \
		"Push messages, by what became of them; retried: an attempt that failed")        \
	METRIC(PUSH_RETRIED, counter, "push_messages_total", "{result=\"retried\"}", "")         \
	METRIC(PUSH_GONE, counter, "push_messages_total", "{result=\"gone\"}", "")               \
	METRIC(PUSH_FAILED, counter, "push_messages_total", "{result=\"failed\"}", "")           \
	METRIC(PUSH_DROPPED, counter, "push_messages_total", "{result=\"dropped\"}", "")         \
	METRIC(WEBHOOK_BEHIND, gauge, "webhook_sessions_behind", "",                             \
		"Sessions with events that a webhook has not been told of, over all webhooks")   \
	METRIC(WEBHOOKS_SENT, counter, "webhook_messages_total", "{result=\"sent\"}",            \
		"Messages of webhooks, by what became of them; retried: an attempt that failed") \
	METRIC(WEBHOOKS_RETRIED, counter, "webhook_messages_total", "{result=\"retried\"}", "")  \
	METRIC(WEBHOOKS_GIVEN_UP, counter, "webhook_messages_total", "{result=\"given_up\"}", "")

/* HISTOGRAM(id, bounds, name, help) */
#define HISTOGRAMS_TABLE(HISTOGRAM)                                                            \
	HISTOGRAM(APPEND_SECONDS, seconds, "append_duration_seconds",                          \
		"From the receipt of an append until it is durable")                           \
	HISTOGRAM(SYNC_SECONDS, seconds, "sync_duration_seconds",                              \
		"Writing and syncing one batch of the journal")                                \
	HISTOGRAM(SYNC_RECORDS, counts, "sync_records", "Records in one batch of the journal") \
	HISTOGRAM(PERMISSION_WAIT_SECONDS, hours, "permission_wait_seconds",                   \
		"How long permission requests waited for their answer, or to be cancelled")    \
	HISTOGRAM(LOOP_LAG_SECONDS, seconds, "loop_lag_seconds",                               \
		"How long one turn of the event loop took; what came meanwhile had to wait")

/*
 * WORD(id, name, label, help): one value for each word. Words that can be counted are there from the
 * start, with 0: an increase from nothing to 1 is none for Prometheus.
 */
#define WORDS_TABLE(WORD)                    \
	WORD(CLOSES, "closes_total", "code", \
		"WebSockets that have ended, by the close code; 1006: without one")

#define METRIC_ID(id, ...)    METRIC_##id,
#define HISTOGRAM_ID(id, ...) HISTOGRAM_##id,
#define WORD_ID(id, ...)      WORDS_##id,
enum metric { METRICS_TABLE(METRIC_ID) METRIC_COUNT };
enum histogram_id { HISTOGRAMS_TABLE(HISTOGRAM_ID) HISTOGRAM_COUNT };
enum words { WORDS_TABLE(WORD_ID) WORDS_COUNT };
#undef METRIC_ID
#undef HISTOGRAM_ID
#undef WORD_ID

#define HISTOGRAM_BUCKETS 15

struct histogram {
	uint64_t buckets[HISTOGRAM_BUCKETS + 1]; /* not cumulative; the last is above all bounds */
	double sum;
};

struct word_count;

/** The functions that count accept NULL. */
struct metrics {
	uint64_t values[METRIC_COUNT];
	uint64_t refusals[ERROR_COUNT]; /* sent to clients */
	uint64_t limits[LIMIT_COUNT]; /* how often each was reached */
	struct histogram histograms[HISTOGRAM_COUNT];
	struct word_count *words[WORDS_COUNT];
};

/** The caller frees it with metrics_destroy(). */
struct metrics *metrics_create(void);
/** Accepts NULL. */
void metrics_destroy(struct metrics *metrics);

static inline void metrics_add(struct metrics *metrics, enum metric id, uint64_t count)
{
	if (metrics) {
		metrics->values[id] += count;
	}
}

/** Sets a gauge. */
static inline void metrics_set(struct metrics *metrics, enum metric id, uint64_t value)
{
	if (metrics) {
		metrics->values[id] = value;
	}
}

/** Counts that a limit was reached; LIMIT_NONE is not shown. */
static inline void metrics_limit(struct metrics *metrics, enum limit limit)
{
	if (metrics) {
		metrics->limits[limit]++;
	}
}

/** Adds a value to a histogram. */
void metrics_observe(struct metrics *metrics, enum histogram_id id, double value);
/** Adds `count` to a word, which must be one of the program's own; copies it. 0: shows it as 0. */
void metrics_add_word(struct metrics *metrics, enum words id, const char *word, uint64_t count);
/** Counts a refusal that is sent to a client, and the limit that caused it (or LIMIT_NONE). */
void metrics_refused(struct metrics *metrics, enum error_code code, enum limit limit);
/** Appends all metrics in Prometheus' text format 0.0.4. `metrics` must not be NULL. */
void metrics_write(const struct metrics *metrics, struct buffer *out);
/**
 * Appends the metrics of the process. Reads /proc, which takes long if many files are open, so it
 * is not for the loop's thread.
 */
void metrics_write_process(struct buffer *out);

#endif
