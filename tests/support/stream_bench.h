/*
 * A stream buffer on the bench: inputs in one line each, and what came of them as one line of text,
 * which a test compares as a whole. In it a message is `1 message [- a¶]`, a held input `(2
 * tool_call)`, an emitted one `2 tool_call`, a thought `3 thought [hm]`.
 */
#ifndef HOLDFAST_TESTS_STREAM_BENCH_H
#define HOLDFAST_TESTS_STREAM_BENCH_H

#include "holdfast/stream_buffer.h"

struct stream_bench {
	struct limits limits; /* the defaults; a test may change them before its first input */
	struct stream_buffer *sb;
	struct buffer log;
	struct buffer text; /* the markdown of all messages, joined */
	uint64_t last_seq; /* emitted; each must be one more */
	int64_t now; /* ts of the inputs */
	uint64_t turn;
	/* Set by a test that wants more of an event than `log` has: called when it is in there. */
	void (*watch)(void *arg, const struct event_view *view);
	void *watch_arg;
};

void stream_bench_init(struct stream_bench *b);
void stream_bench_finish(struct stream_bench *b);
/** Fixtures of cmocka: *state is a bench. */
int stream_bench_setup(void **state);
int stream_bench_teardown(void **state);

/* Each returns the seq it got. */
uint64_t stream_bench_say(struct stream_bench *b, const char *text);
uint64_t stream_bench_say_n(struct stream_bench *b, const char *text, size_t len);
/** By the sizes and rules that the buffer has, not those of now. */
uint64_t stream_bench_say_on(struct stream_bench *b, const char *text);
uint64_t stream_bench_put_on(struct stream_bench *b, enum event_type type);
uint64_t stream_bench_say_as(struct stream_bench *b, const char *message_id, const char *text);
uint64_t stream_bench_think(struct stream_bench *b, const char *text);
uint64_t stream_bench_put(struct stream_bench *b, enum event_type type);
/** finish_turn(), then a turn_end; the next input is of the next turn. */
uint64_t stream_bench_end_turn(struct stream_bench *b);

/** Carries out what is due at `now`, which becomes the time; fails if it is not `flush`. */
void stream_bench_wait(struct stream_bench *b, int64_t now, enum stream_flush flush);
/** What has happened since the last call must be this. */
void stream_bench_expect(struct stream_bench *b, const char *what);

/** Takes the buffer's state to another one, which goes on in its place. */
void stream_bench_reload(struct stream_bench *b);

#endif
