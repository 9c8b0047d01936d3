#include "fanout.h"

#include "crowd.h"
#include "payload.h"
#include "sinks.h"
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

/* How long the last events may take to arrive. */
#define DRAIN_SECONDS 20

/** One append in flight. */
struct append {
	uint64_t sent;
	size_t missing; /* observers that do not have all of it */
	bool is_acked;
};

struct fanout {
	const struct fanout_options *options;
	struct fanout_result *result;
	struct crowd crowd;
	struct client producer;
	struct buffer text;
	bool is_connected;
	struct append *ring; /* `window` of them; append k is at k % window */
	uint64_t sent; /* appends */
	uint64_t acked; /* acknowledgements come in order */
	uint64_t done;
	uint64_t first_due;
	struct sinks *sinks;
};

static size_t checkers(const struct fanout *f)
{
	return f->options->checkers && f->options->checkers < f->options->observers
		       ? f->options->checkers
		       : f->options->observers;
}

static struct append *append_at(struct fanout *f, uint64_t k)
{
	return &f->ring[k % f->options->window];
}

/* --- what comes back --- */

static void handle_delivered(void *owner, uint64_t n)
{
	struct fanout *f = owner;
	uint64_t batch = f->options->batch;
	if (n > f->sent * batch) {
		die("an observer got event %llu, which was never published", (unsigned long long)n);
	}
	if (n % batch == 0) {
		append_at(f, n / batch - 1)->missing--;
	}
}

static bool take_appended(struct fanout *f, struct scan *scan, uint64_t when)
{
	uint64_t ref;
	uint64_t seq;
	if (!scan_literal(scan, "\"appended\",\"data\":{")) {
		return false;
	}
	/* The server says which numbers it gave, the peer gives back our ref. */
	if (scan_literal(scan, "\"acks\":[{\"seq\":")) {
		if (!scan_number(scan, &seq) || seq != f->acked * f->options->batch + 1) {
			return false;
		}
	} else if (!scan_literal(scan, "\"ref\":") || !scan_number(scan, &ref) || ref != f->acked) {
		return false;
	}
	if (f->acked == f->sent) {
		return false;
	}
	struct append *append = append_at(f, f->acked++);
	append->is_acked = true;
	if (append->sent >= f->crowd.measure_from) {
		histogram_add(&f->result->ack, when > append->sent ? when - append->sent : 0);
	}
	return true;
}

static void take_text(struct client *client, const char *text, size_t len, uint64_t when)
{
	struct fanout *f = client->owner;
	struct scan scan = {.at = text, .end = text + len};
	bool ok = scan_literal(&scan, "{\"type\":");
	if (ok && scan_literal(&scan, "\"connected\"")) {
		f->is_connected = true;
	} else if (!ok || !take_appended(f, &scan, when)) {
		die("the producer got a frame that was not to come: %.*s",
			len < 400 ? (int)len : 400, text);
	}
}

/* --- observers that only count --- */

static uint64_t bytes_checked(const struct fanout *f)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < checkers(f); i++) {
		sum += f->crowd.members[i].client.received;
	}
	return sum;
}

/** An event has as many bytes for those who count as for those who look. */
static uint64_t count_sunk(uint64_t sunk, uint64_t checked, uint64_t deliveries)
{
	return checked ? (uint64_t)((double)sunk * (double)deliveries / (double)checked) : 0;
}

/** They are checked by their size: frames that lack an event are smaller, or fewer. */
static void drain_sinks(struct fanout *f)
{
	uint64_t wanted = f->crowd.members[0].client.received / 100 * 95;
	sinks_destroy(f->sinks, wanted, now_ns() + DRAIN_SECONDS * NS_PER_SECOND);
}

/* --- publishing --- */

static void publish(struct fanout *f, uint64_t when)
{
	const struct fanout_options *options = f->options;
	struct buffer *text = &f->text;
	buffer_clear(text);
	buffer_printf(text, "{\"type\":\"append\",\"data\":{\"ref\":%llu,\"events\":[",
		(unsigned long long)f->sent);
	for (uint64_t i = 0; i < options->batch; i++) {
		if (i) {
			buffer_append_char(text, ',');
		}
		struct payload event = {.n = f->sent * options->batch + i + 1, .sent = when};
		payload_append(text, &event, options->pad);
	}
	buffer_append_str(text, "]}}");
	*append_at(f, f->sent) = (struct append){.sent = when, .missing = checkers(f)};
	f->sent++;
	client_send(&f->producer, text->data, text->len);
}

static bool has_room(struct fanout *f)
{
	for (; f->done < f->acked && append_at(f, f->done)->missing == 0; f->done++) {
	}
	return f->sent - f->done < f->options->window;
}

/** When the next append is to be published: with a rate, by the timetable, however late we are. */
static uint64_t next_due(const struct fanout *f, uint64_t now)
{
	uint64_t rate = f->options->rate;
	return rate ? f->first_due + f->sent * NS_PER_SECOND / rate : now;
}

/** Publishes what is due, until a time; what is late counts as published when it was due. */
static void publish_until(struct fanout *f, uint64_t end)
{
	uint64_t now = now_ns();
	while (now < end) {
		uint64_t wake = end;
		while (has_room(f)) {
			uint64_t due = next_due(f, now_ns());
			if (due > now_ns()) {
				wake = due < end ? due : end;
				break;
			}
			publish(f, due);
		}
		client_wait(f->crowd.epoll, wake);
		now = now_ns();
	}
}

static void drain(struct fanout *f)
{
	uint64_t deadline = now_ns() + DRAIN_SECONDS * NS_PER_SECOND;
	while (has_room(f), f->done < f->sent) {
		if (now_ns() >= deadline) {
			die("%llu of %llu appends were not acknowledged and delivered to all %d s after the last",
				(unsigned long long)(f->sent - f->done),
				(unsigned long long)f->sent, DRAIN_SECONDS);
		}
		client_wait(f->crowd.epoll, deadline);
	}
}

/* --- a run --- */

static void connect_producer(struct fanout *f, const char *session)
{
	char path[160];
	uint64_t deadline = now_ns() + DRAIN_SECONDS * NS_PER_SECOND;
	snprintf(path, sizeof(path), "/api/sessions/%s/produce", session);
	f->producer.text = take_text;
	f->producer.owner = f;
	client_open(&f->producer, f->crowd.epoll, f->options->port, (unsigned)f->options->observers,
		path);
	while (!f->is_connected) {
		if (now_ns() >= deadline) {
			die("the producer was not connected after %d s", DRAIN_SECONDS);
		}
		client_wait(f->crowd.epoll, deadline);
	}
}

/** What has been used of the CPUs so far. */
struct cpu {
	uint64_t machine;
	uint64_t server;
	uint64_t elsewhere;
	uint64_t own;
};

static struct cpu cpu_now(const struct fanout_options *options)
{
	struct cpu cpu = {.machine = machine_cpu_ns(),
		.server = options->pid ? process_cpu_ns(options->pid) : 0,
		.own = process_cpu_ns(getpid())};
	for (size_t i = 0; i < options->pids_elsewhere_count; i++) {
		cpu.elsewhere += process_cpu_ns(options->pids_elsewhere[i]);
	}
	return cpu;
}

static void put_cpu(struct fanout_result *result, const struct cpu *from, const struct cpu *to)
{
	uint64_t elsewhere = to->elsewhere - from->elsewhere;
	uint64_t ours = to->server - from->server + elsewhere + to->own - from->own;
	uint64_t machine = to->machine - from->machine;
	result->cpu_ns = to->server - from->server;
	result->own_cpu_ns = to->own - from->own;
	result->elsewhere_cpu_ns = elsewhere;
	result->other_cpu_ns = machine > ours ? machine - ours : 0;
}

static void measure(struct fanout *f)
{
	const struct fanout_options *options = f->options;
	uint64_t start = now_ns() + options->warm_up;
	f->crowd.measure_from = start;
	f->first_due = now_ns();
	publish_until(f, start);
	struct cpu from = cpu_now(options);
	uint64_t done = f->done;
	uint64_t checked = bytes_checked(f);
	uint64_t sunk = sinks_bytes(f->sinks);
	start = now_ns();
	publish_until(f, start + options->duration);
	has_room(f);
	f->result->seconds = (double)(now_ns() - start) / (double)NS_PER_SECOND;
	f->result->events = (f->done - done) * options->batch;
	checked = bytes_checked(f) - checked;
	sunk = sinks_bytes(f->sinks) - sunk;
	f->result->deliveries = f->result->events * checkers(f);
	f->result->deliveries += count_sunk(sunk, checked, f->result->deliveries);
	struct cpu to = cpu_now(options);
	put_cpu(f->result, &from, &to);
}

static void check_end(const struct fanout *f)
{
	for (size_t i = 0; i < checkers(f); i++) {
		if (f->crowd.members[i].last != f->sent * f->options->batch) {
			die("observer %zu ended with event %llu of %llu", i,
				(unsigned long long)f->crowd.members[i].last,
				(unsigned long long)(f->sent * f->options->batch));
		}
	}
}

void fanout_run(const struct fanout_options *options, struct fanout_result *ret_result)
{
	struct fanout f = {.options = options, .result = ret_result};
	char session[64];
	char body[96];
	*ret_result = (struct fanout_result){0};
	f.ring = xcalloc(options->window, sizeof(*f.ring));
	snprintf(session, sizeof(session), "bench-%d-%llu", (int)getpid(),
		(unsigned long long)now_ns());
	snprintf(body, sizeof(body), "{\"id\":\"%s\"}", session);
	need_descriptors(options->observers + 16);
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	client_post(options->port, "/api/sessions", body, 201);
	crowd_init(&f.crowd, epoll_create1(EPOLL_CLOEXEC), options->port, session, options->pad,
		options->observers);
	f.crowd.elsewhere = options->elsewhere;
	f.crowd.elsewhere_count = options->elsewhere_count;
	f.crowd.door = options->door;
	f.crowd.delivered = handle_delivered;
	f.crowd.owner = &f;
	crowd_gather(&f.crowd, options->observers);
	f.sinks = sinks_create(f.crowd.members + checkers(&f), f.crowd.opened - checkers(&f));
	connect_producer(&f, session);
	measure(&f);
	drain(&f);
	drain_sinks(&f);
	check_end(&f);
	ret_result->published = f.sent * options->batch;
	ret_result->latency = f.crowd.latency;
	ret_result->latency_elsewhere = f.crowd.latency_elsewhere;
	crowd_finish(&f.crowd);
	client_close(&f.producer);
	close(f.crowd.epoll);
	buffer_finish(&f.text);
	free(f.ring);
}
