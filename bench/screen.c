#include "screen.h"

#include "relay.h"
#include "tool.h"
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#define RATE       100 /* chunks a second */
#define CHUNKS     16 /* of a block */
#define CHUNK_SIZE 12
#define BLOCK_SIZE ((size_t)CHUNKS * CHUNK_SIZE)
#define KEPT       64 /* blocks whose times are known */
#define DEADLINE   (20 * NS_PER_SECOND)

struct watcher {
	struct wire wire; /* first */
	uint64_t block; /* that it sees grow, from 1 */
	size_t seen; /* bytes of it */
};

struct screen {
	int epoll;
	struct wire producer;
	struct watcher *watchers;
	size_t count;
	uint64_t sent; /* chunks */
	uint64_t when[KEPT][CHUNKS]; /* each was */
	uint64_t from;
	struct histogram chunks;
	struct histogram blocks;
	uint64_t ended; /* blocks, of all watchers */
};

/** Block n is as long as its chunks, which begin with a blank but for the first. */
static void make_block(const struct screen *s, uint64_t block, char text[BLOCK_SIZE + 1])
{
	for (unsigned i = 0; i < CHUNKS; i++) {
		char chunk[CHUNK_SIZE + 1];
		unsigned sum = (unsigned)relay_sum(s->producer.session, block * CHUNKS + i);
		snprintf(chunk, sizeof(chunk), "%sw%010x", i ? " " : "T", sum & 0xfffffff);
		memcpy(text + (size_t)i * CHUNK_SIZE, chunk, CHUNK_SIZE);
	}
	text[BLOCK_SIZE] = '\0';
}

static void note(struct histogram *h, const struct screen *s, uint64_t sent, uint64_t when)
{
	if (sent >= s->from) {
		histogram_add(h, when > sent ? when - sent : 0);
	}
}

/** The text is now so long: the chunks that are whole with that have come. */
static void see(struct watcher *watcher, size_t seen, uint64_t when)
{
	struct screen *s = watcher->wire.owner;
	for (size_t i = watcher->seen / CHUNK_SIZE; i < seen / CHUNK_SIZE; i++) {
		if (i + 1 < CHUNKS) { /* the last comes with the event */
			note(&s->chunks, s, s->when[watcher->block % KEPT][i], when);
		}
	}
	watcher->seen = seen;
}

static void take_delta(struct wire *wire, struct scan *scan, uint64_t when)
{
	char text[BLOCK_SIZE + 1];
	uint64_t seq;
	uint64_t offset;
	struct watcher *watcher = (struct watcher *)wire;
	const char *from = scan->at;
	make_block(wire->owner, watcher->block, text);
	bool ok = scan_literal(scan, "{\"seq\":") && scan_number(scan, &seq) &&
		  seq == watcher->block &&
		  scan_literal(scan, ",\"type\":\"agent_message\",\"offset\":") &&
		  scan_number(scan, &offset) && offset == watcher->seen &&
		  scan_literal(scan, ",\"text\":\"");
	size_t len = ok ? strcspn(scan->at, "\"\\") : 0;
	if (!ok || offset + len > BLOCK_SIZE || memcmp(scan->at, text + offset, len) != 0) {
		die("block %llu, of which %zu bytes are known, has grown like this: %.*s",
			(unsigned long long)watcher->block, watcher->seen, (int)(scan->end - from),
			from);
	}
	see(watcher, (size_t)offset + len, when);
}

static void take_event(struct wire *wire, uint64_t seq, struct scan *scan, uint64_t when)
{
	char text[BLOCK_SIZE + 1];
	struct watcher *watcher = (struct watcher *)wire;
	struct screen *s = wire->owner;
	make_block(s, watcher->block, text);
	bool ok = seq == watcher->block && scan_literal(scan, "{\"markdown\":\"") &&
		  scan_literal(scan, text);
	while (scan_literal(scan, "\\n")) { /* the end of the block, as it was written */
	}
	if (!ok || !scan_literal(scan, "\"}")) {
		die("block %llu came as number %llu: %.*s", (unsigned long long)watcher->block,
			(unsigned long long)seq, (int)(scan->end - scan->at), scan->at);
	}
	note(&s->blocks, s, s->when[watcher->block % KEPT][CHUNKS - 1], when);
	watcher->block++;
	watcher->seen = 0;
	s->ended++;
}

static void take_ack(struct wire *wire, uint64_t seq, uint64_t when)
{
}

static void wait_ready(struct screen *s, const struct wire *wire)
{
	uint64_t deadline = now_ns() + DEADLINE;
	while (!wire->is_ready) {
		if (now_ns() > deadline) {
			die("a connection was not ready in time");
		}
		client_wait(s->epoll, deadline);
	}
}

static void connect_all(struct screen *s, unsigned port)
{
	s->producer = (struct wire){.acked = take_ack, .owner = s};
	snprintf(s->producer.session, sizeof(s->producer.session), "screen%d", (int)getpid());
	wire_produce(&s->producer, s->epoll, port);
	wait_ready(s, &s->producer);
	for (size_t i = 0; i < s->count; i++) {
		struct watcher *watcher = &s->watchers[i];
		watcher->block = 1;
		watcher->wire = (struct wire){.query = "format=markdown&deltas=text",
			.index = (unsigned)i + 1,
			.event = take_event,
			.delta = take_delta,
			.owner = s};
		snprintf(watcher->wire.session, sizeof(watcher->wire.session), "%s",
			s->producer.session);
		wire_observe(&watcher->wire, s->epoll, port);
		wait_ready(s, &watcher->wire);
	}
}

static void publish(struct screen *s, uint64_t due)
{
	char text[BLOCK_SIZE + 1];
	char event[160];
	uint64_t block = s->sent / CHUNKS + 1;
	size_t i = s->sent % CHUNKS;
	make_block(s, block, text);
	int len = snprintf(event, sizeof(event),
		"{\"type\":\"agent_message_chunk\",\"data\":{\"text\":\"%.*s%s\"}}", CHUNK_SIZE,
		text + i * CHUNK_SIZE, i + 1 == CHUNKS ? "\\n\\n" : "");
	s->when[block % KEPT][i] = due;
	s->sent++;
	wire_publish(&s->producer, event, (size_t)len);
	client_flush(&s->producer.client);
}

void screen_run(unsigned port, size_t observers, uint64_t duration)
{
	static struct screen s;
	s.epoll = epoll_create1(EPOLL_CLOEXEC);
	s.count = observers;
	s.watchers = xcalloc(observers, sizeof(*s.watchers));
	need_descriptors(observers + 64);
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	connect_all(&s, port);
	struct bystander *bystander = bystander_start(WIRE_HOLDFAST, port);
	uint64_t first = now_ns();
	s.from = first + NS_PER_SECOND / 2;
	bystander_measure(bystander, UINT64_MAX);
	/* The last block is a whole one. */
	for (uint64_t due = first; due < s.from + duration || s.sent % CHUNKS;
		due = first + s.sent * NS_PER_SECOND / RATE) {
		while (now_ns() < due) {
			client_wait(s.epoll, due);
		}
		publish(&s, due);
	}
	uint64_t deadline = now_ns() + DEADLINE;
	while (s.ended < s.sent / CHUNKS * observers) {
		if (now_ns() > deadline) {
			die("a block did not come to all");
		}
		client_wait(s.epoll, deadline);
	}
	printf("mode=screen observers=%zu", observers);
	relay_print_times("chunk", &s.chunks);
	relay_print_times("block", &s.blocks);
	bystander_print(bystander);
	printf("\n");
	for (size_t i = 0; i < observers; i++) {
		client_close(&s.watchers[i].wire.client);
	}
	client_close(&s.producer.client);
	free(s.watchers);
	close(s.epoll);
}
