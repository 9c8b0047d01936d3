#include "replay.h"

#include "relay.h"
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define FILL_WINDOW 256
#define BEHIND      100
#define DEADLINE    (60 * NS_PER_SECOND)

struct replay {
	const struct replay_options *options;
	int epoll;
	char name[24];
	struct wire producer;
	struct wire *list;
	size_t done; /* clients that have everything */
	uint64_t taken; /* events in all */
	uint64_t acked;
	uint64_t rss_most;
	struct histogram waits; /* from the start until a client had everything */
	uint64_t start;
	struct buffer texts; /* that clients must get, one after the other */
	size_t *text_ends;
};

static void take_ack(struct wire *wire, uint64_t seq, uint64_t when)
{
	((struct replay *)wire->owner)->acked++;
}

/** What event n says, as markdown or HTML in JSON. */
static int make_text(char *out, size_t size, const struct wire *wire, uint64_t n, bool is_html)
{
	const char *format =
		is_html ? "<p>Paragraph %llu of a <strong>long</strong> answer, which says %016llx.</p>"
			: "Paragraph %llu of a **long** answer, which says %016llx.";
	return snprintf(out, size, format, (unsigned long long)n,
		(unsigned long long)relay_sum(wire->session, n));
}

/** What clients must get: made once, so that what is measured is the server and not printf(). */
static void make_texts(struct replay *r)
{
	char text[200];
	r->text_ends = xcalloc(r->options->events + 1, sizeof(*r->text_ends));
	for (uint64_t n = 1; n <= r->options->events; n++) {
		int len = make_text(text, sizeof(text), &r->producer, n, r->options->is_html);
		buffer_append(&r->texts, text, (size_t)len);
		r->text_ends[n] = r->texts.len;
	}
}

static bool scan_text(struct replay *r, struct scan *scan, uint64_t n)
{
	if (n > r->options->events) {
		return false;
	}
	size_t start = r->text_ends[n - 1];
	size_t len = r->text_ends[n] - start;
	if ((size_t)(scan->end - scan->at) < len ||
		memcmp(scan->at, r->texts.data + start, len) != 0) {
		return false;
	}
	scan->at += len;
	return true;
}

static void take_event(struct wire *wire, uint64_t seq, struct scan *scan, uint64_t when)
{
	struct replay *r = wire->owner;
	const char *from = scan->at;
	uint64_t n = wire->after + wire->taken;
	bool ok = !seq || seq == n || wire->peer != WIRE_HOLDFAST;
	ok = ok && scan_literal(scan, r->options->is_html ? "{\"html\":\"" : "{\"markdown\":\"") &&
	     scan_text(r, scan, n);
	while (scan_literal(scan, "\\n")) { /* the end of the block, as it was written */
	}
	if (!ok || !scan_literal(scan, "\"}")) {
		die("event %llu came with number %llu and as %.*s", (unsigned long long)n,
			(unsigned long long)seq,
			scan->end - from < 200 ? (int)(scan->end - from) : 200, from);
	}
	r->taken++;
	if (n == r->options->events) {
		r->done++;
		histogram_add(&r->waits, when - r->start);
	}
}

static void wire_up(struct replay *r, struct wire *wire, unsigned index)
{
	wire->peer = r->options->peer;
	wire->index = index;
	wire->event = take_event;
	wire->acked = take_ack;
	wire->owner = r;
	wire->query = r->options->is_html ? "format=html" : "format=markdown";
	snprintf(wire->session, sizeof(wire->session), "%s", r->name);
}

static void wait_until(struct replay *r, const bool *is_true)
{
	uint64_t deadline = now_ns() + DEADLINE;
	while (!*is_true) {
		if (now_ns() > deadline) {
			die("a connection was not ready in time");
		}
		client_wait(r->epoll, deadline);
	}
}

static void replay_init(struct replay *r, const struct replay_options *options)
{
	static unsigned count;
	*r = (struct replay){.options = options, .epoll = epoll_create1(EPOLL_CLOEXEC)};
	snprintf(r->name, sizeof(r->name), "replay%d-%u", (int)getpid(), count++);
	need_descriptors(options->clients + 64);
	wire_up(r, &r->producer, 0);
	wire_produce(&r->producer, r->epoll, options->port);
	wait_until(r, &r->producer.is_ready);
	r->list = xcalloc(options->clients + 1, sizeof(*r->list));
	make_texts(r);
}

static void replay_finish(struct replay *r, size_t opened)
{
	for (size_t i = 0; i < opened; i++) {
		client_close(&r->list[i].client);
	}
	client_close(&r->producer.client);
	free(r->list);
	buffer_finish(&r->texts);
	free(r->text_ends);
	close(r->epoll);
}

static void fill(struct replay *r)
{
	char text[200];
	char event[300];
	const char *format =
		r->options->peer == WIRE_HOLDFAST
			? "{\"type\":\"agent_message_chunk\",\"data\":{\"text\":\"%s\\n\\n\"}}"
			: "{\"type\":\"agent_message\",\"data\":{\"markdown\":\"%s\"}}";
	uint64_t deadline = now_ns() + 2 * DEADLINE;
	for (uint64_t n = 1; r->acked < r->options->events;) {
		for (; n <= r->options->events && n - r->acked <= FILL_WINDOW; n++) {
			make_text(text, sizeof(text), &r->producer, n, false);
			int len = snprintf(event, sizeof(event), format, text);
			wire_publish(&r->producer, event, (size_t)len);
		}
		client_flush(&r->producer.client);
		if (now_ns() > deadline) {
			die("the events were not acknowledged in time");
		}
		client_wait(r->epoll, now_ns() + NS_PER_SECOND);
	}
	usleep(400000); /* the last block has gone out by then */
}

static void open_all(struct replay *r, uint64_t after)
{
	r->start = now_ns();
	for (size_t i = 0; i < r->options->clients; i++) {
		wire_up(r, &r->list[i], (unsigned)i + 1);
		r->list[i].after = after;
		wire_observe(&r->list[i], r->epoll, r->options->port);
		client_wait(r->epoll, 0); /* those that are connected send their requests */
	}
}

/** Until all have everything, or `limit` is over. */
static void take_all(struct replay *r, uint64_t limit)
{
	uint64_t next = 0;
	for (uint64_t now = now_ns(); r->done < r->options->clients && now < r->start + limit;
		now = now_ns()) {
		if (now >= next && r->options->pid) {
			uint64_t rss = process_rss(r->options->pid);
			r->rss_most = rss > r->rss_most ? rss : r->rss_most;
			next = now + NS_PER_SECOND / 50;
		}
		client_wait(r->epoll, now + NS_PER_SECOND / 20);
	}
}

static void close_all(struct replay *r)
{
	for (size_t i = 0; i < r->options->clients; i++) {
		client_close(&r->list[i].client);
		r->list[i] = (struct wire){0};
	}
}

/** One client before those that are measured: what a server makes once, when events are new, it has made then. */
static void load_first(struct replay *r)
{
	open_all(r, 0);
	take_all(r, DEADLINE);
	close_all(r);
	sleep(3); /* it may still write that down */
}

void replay_catch_up(const struct replay_options *options)
{
	struct replay r;
	struct replay_options one = *options;
	replay_init(&r, options);
	fill(&r);
	one.clients = 1;
	r.options = &one;
	load_first(&r);
	struct bystander *bystander = bystander_start(options->peer, options->port);
	for (size_t clients = 1; clients <= options->clients; clients *= 10) {
		one.clients = clients;
		r.taken = r.done = r.rss_most = 0;
		uint64_t before = options->pid ? process_rss(options->pid) : 0;
		bystander_measure(bystander, UINT64_MAX);
		open_all(&r, 0);
		take_all(&r, options->limit);
		double seconds = (double)(now_ns() - r.start) / (double)NS_PER_SECOND;
		printf("mode=catchup clients=%zu format=%s events_per_s=%.0f seconds=%.2f complete=%d rss_before=%llu rss_most=%llu",
			clients, options->is_html ? "html" : "markdown", (double)r.taken / seconds,
			seconds, r.done == clients, (unsigned long long)before,
			(unsigned long long)r.rss_most);
		close_all(&r);
		bystander_print(bystander);
		printf("\n");
		fflush(stdout);
		bystander = clients * 10 <= options->clients
				    ? bystander_start(options->peer, options->port)
				    : NULL;
	}
	replay_finish(&r, 0);
}

void replay_reconnect(const struct replay_options *options)
{
	struct replay r;
	replay_init(&r, options);
	fill(&r);
	struct bystander *bystander = bystander_start(options->peer, options->port);
	bystander_measure(bystander, UINT64_MAX);
	open_all(&r, options->events - BEHIND);
	take_all(&r, DEADLINE);
	if (r.done < options->clients) {
		die("%zu of %zu clients have everything", r.done, options->clients);
	}
	printf("mode=reconnect clients=%zu seconds=%.3f", options->clients,
		(double)(now_ns() - r.start) / (double)NS_PER_SECOND);
	relay_print_times("wait", &r.waits);
	bystander_print(bystander);
	printf("\n");
	replay_finish(&r, options->clients);
}

void replay_idle(const struct replay_options *options)
{
	struct replay r;
	replay_init(&r, options);
	uint64_t before = 0;
	/* The first one shows what is there once, however many follow. */
	for (size_t i = 0; i <= options->clients; i++) {
		wire_up(&r, &r.list[i], (unsigned)i + 1);
		wire_observe(&r.list[i], r.epoll, options->port);
		wait_until(&r, &r.list[i].is_ready);
		before = i ? before : process_rss(options->pid);
	}
	usleep(200000);
	double more = (double)process_rss(options->pid) - (double)before;
	printf("mode=idle clients=%zu rss_before=%llu bytes_per_observer=%.0f\n", options->clients,
		(unsigned long long)before, more / (double)options->clients);
	replay_finish(&r, options->clients + 1);
}
