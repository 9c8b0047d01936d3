#include "relay.h"

#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define CONNECTING_MAX 64
#define GATHER_SECONDS 60
#define DRAIN_SECONDS  30
#define DATA_MAX       160
#define PAD            "abcdefghijklmnopqrstuvwxyz012345"

uint64_t relay_sum(const char *session, uint64_t n)
{
	return XXH3_64bits_withSeed(session, strlen(session), n);
}

/** An event in flight. */
struct flight {
	uint64_t sent;
	size_t missing; /* observers that do not have it */
	size_t len;
	char data[DATA_MAX];
};

struct room {
	struct wire producer;
	struct wire *observers;
	struct flight *ring; /* event n is at n % cap */
	uint64_t sent;
	uint64_t acked;
	uint64_t done;
};

struct relay {
	const struct relay_options *options;
	struct relay_result *result;
	int epoll;
	struct room *rooms;
	size_t cap; /* events of one session in flight, at most */
	size_t *turns; /* sessions that may publish, a ring of rooms × cap */
	size_t turns_size;
	size_t turns_first;
	size_t turns_count;
	size_t in_flight;
	uint64_t published;
	uint64_t done;
	uint64_t first_due;
	uint64_t from;
	struct room **dirty; /* to be flushed */
	size_t dirty_count;
};

static struct flight *flight_at(struct relay *r, struct room *room, uint64_t n)
{
	return &room->ring[n % r->cap];
}

static void add_turn(struct relay *r, size_t room)
{
	r->turns[(r->turns_first + r->turns_count++) % r->turns_size] = room;
}

/* --- what comes back --- */

static void settle(struct relay *r, struct room *room)
{
	bool has_acks = wire_has_acks(r->options->peer);
	while (room->done < room->sent && flight_at(r, room, room->done + 1)->missing == 0 &&
		(!has_acks || room->done < room->acked)) {
		room->done++;
		r->done++;
		r->in_flight--;
		add_turn(r, (size_t)(room - r->rooms));
	}
}

static struct room *room_of(struct wire *wire)
{
	return &((struct relay *)wire->owner)->rooms[wire->room];
}

static void take_event(struct wire *wire, uint64_t seq, struct scan *scan, uint64_t when)
{
	struct relay *r = wire->owner;
	struct room *room = room_of(wire);
	uint64_t n = wire->taken;
	struct flight *flight = flight_at(r, room, n);
	if (n > room->sent || (seq && seq != n) || flight->len > (size_t)(scan->end - scan->at) ||
		memcmp(scan->at, flight->data, flight->len) != 0) {
		die("session %s: event %llu came with number %llu and as %.*s", wire->session,
			(unsigned long long)n, (unsigned long long)seq, (int)(scan->end - scan->at),
			scan->at);
	}
	scan->at += flight->len;
	if (flight->sent >= r->from) {
		histogram_add(&r->result->latency, when > flight->sent ? when - flight->sent : 0);
	}
	if (--flight->missing == 0) {
		settle(r, room);
	}
}

static void take_ack(struct wire *wire, uint64_t seq, uint64_t when)
{
	struct relay *r = wire->owner;
	struct room *room = room_of(wire);
	/* JetStream has one stream for all sessions, and its numbers are of that. */
	bool is_numbered = seq && wire->peer == WIRE_HOLDFAST;
	if (room->acked == room->sent || (is_numbered && seq != room->acked + 1)) {
		die("session %s: acknowledgement %llu is of event %llu", wire->session,
			(unsigned long long)room->acked + 1, (unsigned long long)seq);
	}
	struct flight *flight = flight_at(r, room, ++room->acked);
	if (flight->sent >= r->from) {
		histogram_add(&r->result->ack, when > flight->sent ? when - flight->sent : 0);
	}
	settle(r, room);
}

/* --- publishing --- */

static void publish(struct relay *r, uint64_t when)
{
	char event[DATA_MAX + 64];
	struct room *room = &r->rooms[r->turns[r->turns_first]];
	r->turns_first = (r->turns_first + 1) % r->turns_size;
	r->turns_count--;
	uint64_t n = ++room->sent;
	struct flight *flight = flight_at(r, room, n);
	flight->sent = when;
	flight->missing = r->options->observers;
	int len = snprintf(flight->data, sizeof(flight->data),
		"{\"n\":%llu,\"t\":%llu,\"sum\":\"%016llx\",\"pad\":\"" PAD "\"}",
		(unsigned long long)n, (unsigned long long)when,
		(unsigned long long)relay_sum(room->producer.session, n));
	flight->len = (size_t)len;
	len = snprintf(event, sizeof(event), "{\"type\":\"x-bench\",\"data\":%s}", flight->data);
	if (!room->producer.client.tx.len) {
		r->dirty[r->dirty_count++] = room;
	}
	wire_publish(&room->producer, event, (size_t)len);
	r->published++;
	r->in_flight++;
}

static void flush_all(struct relay *r)
{
	for (size_t i = 0; i < r->dirty_count; i++) {
		client_flush(&r->dirty[i]->producer.client);
	}
	r->dirty_count = 0;
}

/** Publishes all that is due. Returns when to be awake again, at `end` at the latest. */
static uint64_t publish_due(struct relay *r, uint64_t end)
{
	const struct relay_options *options = r->options;
	while (r->turns_count && r->in_flight < options->window) {
		uint64_t now = now_ns();
		uint64_t due = options->rate
				       ? r->first_due + r->published * NS_PER_SECOND / options->rate
				       : now;
		if (due > now || r->dirty_count == options->window) {
			flush_all(r);
			return due < end ? due : end;
		}
		publish(r, due);
	}
	flush_all(r);
	return end;
}

static void run_until(struct relay *r, _Atomic uint64_t *until)
{
	for (uint64_t now = now_ns(); now < atomic_load(until); now = now_ns()) {
		/* `until` may be moved up by another process meanwhile. */
		uint64_t end = now + NS_PER_SECOND / 20;
		end = end < atomic_load(until) ? end : atomic_load(until);
		client_wait(r->epoll, publish_due(r, end));
		r->from = atomic_load(r->options->measure_from);
	}
}

/* --- a run --- */

static void wait_ready(struct relay *r, const bool *is_ready, uint64_t deadline)
{
	while (!*is_ready) {
		client_wait(r->epoll, deadline);
		if (now_ns() >= deadline) {
			die("a connection was not ready after %d s", GATHER_SECONDS);
		}
	}
}

static void wire_up(struct relay *r, struct wire *wire, size_t room, unsigned index)
{
	wire->peer = r->options->peer;
	wire->is_http = r->options->is_http;
	wire->index = index;
	wire->room = room;
	wire->event = take_event;
	wire->acked = take_ack;
	wire->owner = r;
	snprintf(wire->session, sizeof(wire->session), "%s-%zu", r->options->name, room);
}

/** Opens everything, a few at a time: the queue of a listening socket is not endless. */
static void connect_all(struct relay *r)
{
	const struct relay_options *options = r->options;
	uint64_t deadline = now_ns() + GATHER_SECONDS * NS_PER_SECOND;
	size_t each = options->observers;
	unsigned index = 0;
	for (size_t i = 0; i < options->sessions; i++) {
		struct room *room = &r->rooms[i];
		room->observers = xcalloc(each, sizeof(*room->observers));
		room->ring = xcalloc(r->cap, sizeof(*room->ring));
		wire_up(r, &room->producer, i, index++);
		wire_produce(&room->producer, r->epoll, options->port);
		wait_ready(r, &room->producer.is_ready, deadline);
		for (size_t k = 0; k < each; k++) {
			wire_up(r, &room->observers[k], i, index++);
			wire_observe(&room->observers[k], r->epoll, options->port);
			if (k >= CONNECTING_MAX) {
				wait_ready(
					r, &room->observers[k - CONNECTING_MAX].is_ready, deadline);
			}
		}
		for (size_t k = 0; k < each; k++) {
			wait_ready(r, &room->observers[k].is_ready, deadline);
		}
	}
}

static void close_all(struct relay *r)
{
	for (size_t i = 0; i < r->options->sessions; i++) {
		struct room *room = &r->rooms[i];
		for (size_t k = 0; k < r->options->observers; k++) {
			if (room->observers[k].taken != room->sent) {
				die("session %s: an observer has %llu of %llu events",
					room->producer.session,
					(unsigned long long)room->observers[k].taken,
					(unsigned long long)room->sent);
			}
			client_close(&room->observers[k].client);
		}
		client_close(&room->producer.client);
		free(room->observers);
		free(room->ring);
	}
	close(r->epoll);
	free(r->rooms);
	free(r->turns);
	free(r->dirty);
}

static void drain(struct relay *r)
{
	uint64_t deadline = now_ns() + DRAIN_SECONDS * NS_PER_SECOND;
	while (r->in_flight) {
		if (now_ns() >= deadline) {
			die("%zu events did not reach everybody in %d s", r->in_flight,
				DRAIN_SECONDS);
		}
		client_wait(r->epoll, deadline);
	}
}

/* --- reading back --- */

static void check_stored(struct wire *wire, uint64_t seq, struct scan *scan, uint64_t when)
{
	uint64_t n;
	uint64_t sent;
	char sum[96];
	struct scan at = *scan;
	snprintf(sum, sizeof(sum), ",\"sum\":\"%016llx\",\"pad\":\"" PAD "\"}",
		(unsigned long long)relay_sum(wire->session, wire->taken));
	if (!scan_literal(&at, "{\"n\":") || !scan_number(&at, &n) || n != wire->taken ||
		(seq && seq != n) || !scan_literal(&at, ",\"t\":") || !scan_number(&at, &sent) ||
		!scan_literal(&at, sum)) {
		die("session %s: event %llu is stored with number %llu and as %.*s", wire->session,
			(unsigned long long)wire->taken, (unsigned long long)seq,
			(int)(scan->end - scan->at), scan->at);
	}
	*scan = at;
}

/** What was acknowledged is there, as it was sent. */
static void read_back(struct relay *r)
{
	uint64_t deadline = now_ns() + DRAIN_SECONDS * NS_PER_SECOND;
	for (size_t i = 0; i < r->options->sessions; i++) {
		struct wire wire = {0};
		wire_up(r, &wire, i, (unsigned)(r->options->sessions + i));
		wire.event = check_stored;
		wire_observe(&wire, r->epoll, r->options->port);
		while (wire.taken < r->rooms[i].sent) {
			if (now_ns() >= deadline) {
				die("session %s: %llu of %llu events could be read back",
					wire.session, (unsigned long long)wire.taken,
					(unsigned long long)r->rooms[i].sent);
			}
			client_wait(r->epoll, deadline);
		}
		client_close(&wire.client);
	}
}

void relay_run(const struct relay_options *options, struct relay_result *ret)
{
	struct relay r = {.options = options, .result = ret, .from = UINT64_MAX};
	*ret = (struct relay_result){0};
	need_descriptors(options->sessions * (options->observers + 1) + 64);
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	r.epoll = epoll_create1(EPOLL_CLOEXEC);
	r.rooms = xcalloc(options->sessions, sizeof(*r.rooms));
	r.cap = options->window / options->sessions + !!(options->window % options->sessions);
	r.turns_size = options->sessions * r.cap;
	r.turns = xcalloc(r.turns_size, sizeof(*r.turns));
	r.dirty = xcalloc(options->window, sizeof(struct room *));
	for (size_t i = 0; i < r.turns_size; i++) {
		add_turn(&r, i % options->sessions);
	}
	connect_all(&r);
	if (options->live) {
		options->live(options->owner);
	}
	r.first_due = now_ns();
	run_until(&r, options->measure_from);
	uint64_t done = r.done;
	uint64_t cpu = options->pid ? process_cpu_ns(options->pid) : 0;
	uint64_t start = now_ns();
	run_until(&r, options->until);
	ret->seconds = (double)(now_ns() - start) / (double)NS_PER_SECOND;
	ret->events = r.done - done;
	ret->cpu_ns = options->pid ? process_cpu_ns(options->pid) - cpu : 0;
	drain(&r);
	if (!options->observers && wire_has_acks(options->peer)) {
		read_back(&r);
	}
	close_all(&r);
}

/* --- figures --- */

void relay_print_times(const char *name, const struct histogram *h)
{
	printf(" %s_p50=%.0f %s_p99=%.0f %s_p999=%.0f %s_max=%.0f %s_count=%llu", name,
		(double)histogram_quantile(h, 0.5) / 1e3, name,
		(double)histogram_quantile(h, 0.99) / 1e3, name,
		(double)histogram_quantile(h, 0.999) / 1e3, name, (double)h->max / 1e3, name,
		(unsigned long long)h->count);
}
