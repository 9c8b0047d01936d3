#include "crowd.h"

#include "payload.h"
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Handshakes under way at a time: the queue of a listening socket is not endless. */
#define CONNECTING_MAX 64
#define GATHER_SECONDS 60

void crowd_init(
	struct crowd *crowd, int epoll, unsigned port, const char *session, size_t pad, size_t size)
{
	*crowd = (struct crowd){
		.epoll = epoll, .port = port, .session = session, .pad = pad, .size = size};
	crowd->members = xcalloc(size, sizeof(*crowd->members));
}

void crowd_finish(struct crowd *crowd)
{
	for (size_t i = 0; i < crowd->opened; i++) {
		client_close(&crowd->members[i].client);
	}
	free(crowd->members);
}

static void take_event(
	struct crowd *crowd, struct member *member, const struct payload *event, uint64_t when)
{
	if (event->n != member->last + 1) {
		die("observer %zu got event %llu after event %llu",
			(size_t)(member - crowd->members), (unsigned long long)event->n,
			(unsigned long long)member->last);
	}
	member->last = event->n;
	if (event->sent >= crowd->measure_from) {
		histogram_add(member->is_elsewhere ? &crowd->latency_elsewhere : &crowd->latency,
			when > event->sent ? when - event->sent : 0);
	}
	if (crowd->delivered) {
		crowd->delivered(crowd->owner, event->n);
	}
}

static bool take_events(struct member *member, struct scan *scan, bool has_seq, uint64_t when)
{
	struct crowd *crowd = member->client.owner;
	struct payload event;
	do {
		if (!payload_scan(scan, has_seq, crowd->pad, &event)) {
			return false;
		}
		take_event(crowd, member, &event, when);
	} while (scan_literal(scan, ","));
	return scan_literal(scan, "]");
}

/** The peer passes appends on as they are. */
static bool take_append(struct member *member, struct scan *scan, uint64_t when)
{
	uint64_t ref;
	return scan_literal(scan, "\"append\",\"data\":{\"ref\":") && scan_number(scan, &ref) &&
	       scan_literal(scan, ",\"events\":[") && take_events(member, scan, false, when);
}

static bool take_loaded(struct member *member, struct scan *scan)
{
	struct crowd *crowd = member->client.owner;
	if (member->is_live ||
		!scan_literal(
			scan, "\"events_loaded\",\"data\":{\"events\":[],\"has_more\":false")) {
		return false;
	}
	member->is_live = true;
	crowd->live++;
	return true;
}

static bool take_connected(struct member *member, struct scan *scan)
{
	static const char load[] =
		"{\"type\":\"load_events\",\"data\":{\"after_seq\":0,\"follow\":true}}";
	if (!scan_literal(scan, "\"connected\"")) {
		return false;
	}
	client_send(&member->client, load, sizeof(load) - 1);
	return true;
}

static void take_text(struct client *client, const char *text, size_t len, uint64_t when)
{
	struct member *member = (struct member *)client;
	struct scan scan = {.at = text, .end = text + len};
	bool ok = scan_literal(&scan, "{\"type\":");
	if (ok && scan_literal(&scan, "\"events\",\"data\":{\"events\":[")) {
		ok = take_events(member, &scan, true, when);
	} else if (ok && !scan_literal(&scan, "\"state\"")) {
		ok = take_append(member, &scan, when) || take_loaded(member, &scan) ||
		     take_connected(member, &scan);
	}
	if (!ok) {
		die("an observer got a frame that was not to come: %.*s",
			len < 400 ? (int)len : 400, text);
	}
}

/* --- server-sent events --- */

/** One event of a stream, without the empty line at its end. */
static void take_block(struct member *member, const char *text, size_t len, uint64_t when)
{
	struct crowd *crowd = member->client.owner;
	static const char data[] = "\ndata: ";
	struct payload event;
	if (len > 4 && memcmp(text, "id: ", 4) == 0) {
		const char *at = memmem(text, len, data, sizeof(data) - 1);
		struct scan scan = {.at = at ? at + sizeof(data) - 1 : text, .end = text + len};
		if (!at || !payload_scan(&scan, true, crowd->pad, &event)) {
			die("an observer got an event that was not to come: %.*s",
				len < 400 ? (int)len : 400, text);
		}
		take_event(crowd, member, &event, when);
	} else if (len > 11 && memcmp(text, "event: live", 11) == 0) {
		member->is_live = true;
		crowd->live++;
	}
}

static size_t take_stream(struct client *client, char *bytes, size_t len, uint64_t when)
{
	size_t used = 0;
	char *end;
	while ((end = memmem(bytes + used, len - used, "\n\n", 2))) {
		take_block(
			(struct member *)client, bytes + used, (size_t)(end - bytes) - used, when);
		used = (size_t)(end - bytes) + 2;
	}
	return used;
}

static void open_stream(struct crowd *crowd, struct member *member, unsigned port)
{
	struct buffer request = {0};
	buffer_printf(&request,
		"GET /api/sessions/%s/events?format=markdown&after=0 HTTP/1.0\r\n" /* without chunks */
		"Host: 127.0.0.1:%u\r\nAccept: text/event-stream\r\n\r\n",
		crowd->session, port);
	member->client.take = take_stream;
	client_open_plain(&member->client, crowd->epoll, port, (unsigned)crowd->opened);
	client_queue(&member->client, request.data, request.len);
	buffer_finish(&request);
}

static void open_member(struct crowd *crowd)
{
	char path[160];
	struct member *member = &crowd->members[crowd->opened];
	size_t turn = crowd->opened % (crowd->elsewhere_count + 1);
	unsigned port = turn ? crowd->elsewhere[turn - 1] : crowd->port;
	member->client.owner = crowd;
	member->is_elsewhere = turn > 0;
	if (crowd->door == DOOR_SSE || (crowd->door == DOOR_BOTH && crowd->opened % 2)) {
		open_stream(crowd, member, port);
		crowd->opened++;
		return;
	}
	snprintf(path, sizeof(path), "/api/sessions/%s/ws?format=markdown", crowd->session);
	member->client.text = take_text;
	client_open(&member->client, crowd->epoll, port, (unsigned)crowd->opened, path);
	crowd->opened++;
}

void crowd_gather(struct crowd *crowd, size_t count)
{
	uint64_t deadline = now_ns() + GATHER_SECONDS * NS_PER_SECOND;
	while (crowd->live < count) {
		while (crowd->opened < count && crowd->opened - crowd->live < CONNECTING_MAX) {
			open_member(crowd);
		}
		client_wait(crowd->epoll, deadline);
		if (now_ns() >= deadline) {
			die("only %zu of %zu observers were live after %d s", crowd->live, count,
				GATHER_SECONDS);
		}
	}
}
