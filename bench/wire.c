#include "wire.h"

#include "tool.h"
#include "ws.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const peer_names[WIRE_PEERS] = {
	[WIRE_HOLDFAST] = "holdfast",
	[WIRE_EPOLL] = "epoll",
	[WIRE_NATS] = "nats",
	[WIRE_JETSTREAM] = "jetstream",
	[WIRE_NCHAN] = "nchan",
};

enum wire_peer wire_parse_peer(const char *name)
{
	for (enum wire_peer peer = 0; peer < WIRE_PEERS; peer++) {
		if (strcmp(name, peer_names[peer]) == 0) {
			return peer;
		}
	}
	die("there is no peer \"%s\"", name);
}

bool wire_has_acks(enum wire_peer peer)
{
	return peer != WIRE_NATS;
}

__attribute__((noreturn)) static void die_of(struct wire *wire, const char *text, size_t len)
{
	die("%s, session %s: this was not to come: %.*s", peer_names[wire->peer], wire->session,
		len < 400 ? (int)len : 400, text);
}

static void be_ready(struct client *client)
{
	((struct wire *)client)->is_ready = true;
}

static void take_ack(struct wire *wire, uint64_t seq, uint64_t when)
{
	wire->taken++;
	wire->acked(wire, seq, when);
}

/* --- events --- */

/** Goes behind the next `mark`; false if there is none. */
static bool skip_behind(struct scan *scan, const char *mark)
{
	char *at = memmem(scan->at, (size_t)(scan->end - scan->at), mark, strlen(mark));
	if (at) {
		scan->at = at + strlen(mark);
	}
	return at;
}

/** An event as a producer wrote it; the peers pass it on like that. */
static void take_plain_event(struct wire *wire, uint64_t seq, struct scan *scan, uint64_t when)
{
	const char *text = scan->at;
	if (!scan_literal(scan, "{\"type\":\"") || !skip_behind(scan, "\",\"data\":")) {
		die_of(wire, text, (size_t)(scan->end - text));
	}
	wire->taken++;
	wire->event(wire, seq, scan, when);
	if (!scan_literal(scan, "}")) {
		die_of(wire, text, (size_t)(scan->end - text));
	}
}

/** An event as Holdfast made it. */
static void take_numbered_event(struct wire *wire, struct scan *scan, uint64_t when)
{
	uint64_t seq;
	uint64_t number;
	const char *text = scan->at;
	bool ok = scan_literal(scan, "{\"seq\":") && scan_number(scan, &seq) &&
		  skip_behind(scan, "\"ts\":") && scan_number(scan, &number);
	if (ok && scan_literal(scan, ",\"turn\":")) {
		ok = scan_number(scan, &number);
	}
	if (!ok || !scan_literal(scan, ",\"data\":")) {
		die_of(wire, text, (size_t)(scan->end - text));
	}
	wire->taken++;
	wire->event(wire, seq, scan, when);
	if (!scan_literal(scan, "}")) {
		die_of(wire, text, (size_t)(scan->end - text));
	}
}

static void take_events(struct wire *wire, bool has_seq, struct scan *scan, uint64_t when)
{
	if (scan_literal(scan, "]")) {
		return;
	}
	do {
		if (has_seq) {
			take_numbered_event(wire, scan, when);
		} else {
			take_plain_event(wire, 0, scan, when);
		}
	} while (scan_literal(scan, ","));
	if (!scan_literal(scan, "]")) {
		die_of(wire, scan->at, (size_t)(scan->end - scan->at));
	}
}

/* --- Holdfast, and the floor, which speaks as much of it as it takes --- */

static void ask_for_events(struct wire *wire)
{
	char text[160];
	int len = snprintf(text, sizeof(text),
		"{\"type\":\"load_events\",\"data\":{\"after_seq\":%llu,\"limit\":5000,\"follow\":true}}",
		(unsigned long long)wire->after);
	client_send(&wire->client, text, (size_t)len);
}

static void observe_text(struct client *client, const char *text, size_t len, uint64_t when)
{
	uint64_t ref;
	struct wire *wire = (struct wire *)client;
	struct scan scan = {.at = text, .end = text + len};
	if (!scan_literal(&scan, "{\"type\":\"")) {
		die_of(wire, text, len);
	}
	if (scan_literal(&scan, "events\",\"data\":{\"events\":[")) {
		take_events(wire, true, &scan, when);
	} else if (scan_literal(&scan, "append\",\"data\":{\"ref\":") && scan_number(&scan, &ref)) {
		skip_behind(&scan, "[");
		take_events(wire, false, &scan, when);
	} else if (scan_literal(&scan, "events_loaded\",\"data\":{\"events\":[")) {
		take_events(wire, true, &scan, when);
		wire->is_ready = scan_literal(&scan, ",\"has_more\":false");
	} else if (scan_literal(&scan, "connected\"")) {
		ask_for_events(wire);
	} else if (scan_literal(&scan, "delta\",\"data\":")) {
		if (wire->delta) {
			wire->delta(wire, &scan, when);
		}
	} else if (!scan_literal(&scan, "state\"")) {
		die_of(wire, text, len);
	}
}

static void produce_text(struct client *client, const char *text, size_t len, uint64_t when)
{
	uint64_t seq = 0;
	struct wire *wire = (struct wire *)client;
	struct scan scan = {.at = text, .end = text + len};
	if (scan_literal(&scan, "{\"type\":\"connected\"")) {
		wire->is_ready = true;
	} else if (scan_literal(&scan, "{\"type\":\"appended\",\"data\":{")) {
		if (scan_literal(&scan, "\"acks\":[{\"seq\":")) {
			scan_number(&scan, &seq);
		}
		take_ack(wire, seq, when);
	} else {
		die_of(wire, text, len);
	}
}

/** HTTP, of Holdfast and of Nchan. */
static void produce_answer(struct client *client, const char *text, size_t len, uint64_t when)
{
	uint64_t seq = 0;
	struct wire *wire = (struct wire *)client;
	struct scan scan = {.at = text, .end = text + len};
	if (!scan_literal(&scan, "HTTP/1.1 20")) {
		die_of(wire, text, len);
	}
	if (wire->peer == WIRE_HOLDFAST &&
		!(skip_behind(&scan, "\"acks\":[{\"seq\":") && scan_number(&scan, &seq) && seq)) {
		die_of(wire, text, len);
	}
	take_ack(wire, seq, when);
}

static void queue_post(struct wire *wire, const char *path, const char *event, size_t len)
{
	char head[256];
	int head_len = snprintf(head, sizeof(head),
		"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
		"Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
		path, len);
	client_queue(&wire->client, head, (size_t)head_len);
	client_queue(&wire->client, event, len);
}

/* --- NATS --- */

static void send_plain(struct wire *wire, const char *text)
{
	client_queue(&wire->client, text, strlen(text));
	client_flush(&wire->client);
}

static void greet_nats(struct wire *wire, bool is_producer)
{
	char text[512];
	int pid = (int)getpid();
	int len = snprintf(text, sizeof(text),
		"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n"
		"SUB R.%d.%u 2\r\n",
		pid, wire->index);
	if (!is_producer && wire->peer == WIRE_JETSTREAM) {
		snprintf(text + len, sizeof(text) - (size_t)len, "SUB D.%d.%u 1\r\nPING\r\n", pid,
			wire->index);
	} else if (!is_producer) {
		snprintf(text + len, sizeof(text) - (size_t)len, "SUB b.%s 1\r\nPING\r\n",
			wire->session);
	} else {
		snprintf(text + len, sizeof(text) - (size_t)len, "PING\r\n");
	}
	send_plain(wire, text);
}

/** The stream, from a producer; or a consumer of it, which gets everything and acknowledges nothing. */
static void ask_jetstream(struct wire *wire, bool is_producer)
{
	char body[512];
	char text[768];
	char name[64];
	if (is_producer) {
		snprintf(name, sizeof(name), "STREAM.CREATE.B");
		snprintf(body, sizeof(body),
			"{\"name\":\"B\",\"subjects\":[\"b.>\"],\"storage\":\"file\","
			"\"retention\":\"limits\",\"max_msgs\":-1,\"max_bytes\":-1,\"num_replicas\":1}");
	} else {
		snprintf(name, sizeof(name), "CONSUMER.CREATE.B");
		snprintf(body, sizeof(body),
			"{\"stream_name\":\"B\",\"config\":{\"deliver_subject\":\"D.%d.%u\","
			"\"filter_subject\":\"b.%s\",\"deliver_policy\":\"all\","
			"\"ack_policy\":\"none\",\"max_deliver\":1,\"replay_policy\":\"instant\"}}",
			(int)getpid(), wire->index, wire->session);
	}
	snprintf(text, sizeof(text), "PUB $JS.API.%s R.%d.%u %zu\r\n%s\r\n", name, (int)getpid(),
		wire->index, strlen(body), body);
	send_plain(wire, text);
}

/** The number that a consumer gave: …ACK.stream.consumer.delivered.seq of the stream.HERE… */
static uint64_t number_of(const char *reply)
{
	for (int dots = 0; dots < 6; reply++) {
		if (!*reply || *reply == ' ') {
			return 0;
		}
		dots += *reply == '.';
	}
	return strtoull(reply, NULL, 10);
}

static void take_reply(struct wire *wire, const char *text, size_t len, uint64_t when)
{
	uint64_t seq;
	struct scan scan = {.at = text, .end = text + len};
	if (memmem(text, len, "\"error\":", 8)) {
		die_of(wire, text, len);
	}
	if (!wire->is_ready) {
		wire->is_ready = true;
	} else if (skip_behind(&scan, "\"seq\":") && scan_number(&scan, &seq)) {
		take_ack(wire, seq, when);
	} else {
		die_of(wire, text, len);
	}
}

/** One MSG line and its payload. Returns its length, 0 if it has not come whole. */
static size_t take_message(struct wire *wire, char *line, char *end, size_t len, uint64_t when)
{
	/* MSG subject sid [reply] length */
	char *sid = memchr(line + 4, ' ', (size_t)(end - line) - 4);
	char *last = memrchr(line, ' ', (size_t)(end - line));
	size_t size = last ? strtoul(last + 1, NULL, 10) : 0;
	size_t total = (size_t)(end - line) + 2 + size + 2;
	if (!sid || !size) {
		die_of(wire, line, (size_t)(end - line));
	}
	if (total > len) {
		return 0;
	}
	if (sid[1] == '2') {
		take_reply(wire, end + 2, size, when);
		return total;
	}
	struct scan scan = {.at = end + 2, .end = end + 2 + size};
	take_plain_event(wire, wire->peer == WIRE_JETSTREAM ? number_of(sid + 3) : 0, &scan, when);
	if (scan.at != scan.end) {
		die_of(wire, end + 2, size);
	}
	return total;
}

static size_t take_nats(
	struct client *client, char *bytes, size_t len, bool is_producer, uint64_t when)
{
	struct wire *wire = (struct wire *)client;
	size_t used = 0;
	char *end;
	while ((end = memmem(bytes + used, len - used, "\r\n", 2))) {
		char *line = bytes + used;
		if (memcmp(line, "MSG ", 4) == 0) {
			size_t size = take_message(wire, line, end, len - used, when);
			if (!size) {
				break;
			}
			used += size;
			continue;
		}
		used = (size_t)(end + 2 - bytes);
		if (memcmp(line, "PING", 4) == 0) {
			send_plain(wire, "PONG\r\n");
		} else if (memcmp(line, "PONG", 4) == 0 && wire->peer == WIRE_JETSTREAM) {
			ask_jetstream(wire, is_producer);
		} else if (memcmp(line, "PONG", 4) == 0) {
			wire->is_ready = true;
		} else if (memcmp(line, "INFO", 4) != 0) {
			die_of(wire, line, (size_t)(end - line));
		}
	}
	return used;
}

static size_t observe_nats(struct client *client, char *bytes, size_t len, uint64_t when)
{
	return take_nats(client, bytes, len, false, when);
}

static size_t produce_nats(struct client *client, char *bytes, size_t len, uint64_t when)
{
	return take_nats(client, bytes, len, true, when);
}

/* --- Nchan --- */

static void observe_message(struct client *client, const char *text, size_t len, uint64_t when)
{
	struct wire *wire = (struct wire *)client;
	struct scan scan = {.at = text, .end = text + len};
	take_plain_event(wire, 0, &scan, when);
	if (scan.at != scan.end) {
		die_of(wire, text, len);
	}
}

/* --- what the tool calls --- */

void wire_observe(struct wire *wire, int epoll, unsigned port)
{
	char path[160];
	struct client *client = &wire->client;
	if (wire->peer == WIRE_NATS || wire->peer == WIRE_JETSTREAM) {
		client->take = observe_nats;
		client_open_plain(client, epoll, port, wire->index);
		greet_nats(wire, false);
		return;
	}
	if (wire->peer == WIRE_NCHAN) {
		client->text = observe_message;
		client->opened = be_ready;
		snprintf(path, sizeof(path), "/%s/%s", wire->after ? "rest" : "sub", wire->session);
	} else {
		client->text = observe_text;
		snprintf(path, sizeof(path), "/api/sessions/%s/ws?%s", wire->session,
			wire->query ? wire->query : "format=markdown");
	}
	client_open(client, epoll, port, wire->index, path);
}

void wire_produce(struct wire *wire, int epoll, unsigned port)
{
	char path[160];
	struct client *client = &wire->client;
	if (wire->peer == WIRE_NATS || wire->peer == WIRE_JETSTREAM) {
		client->take = produce_nats;
		client_open_plain(client, epoll, port, wire->index);
		greet_nats(wire, true);
	} else if (wire->peer == WIRE_NCHAN || wire->is_http) {
		client->text = produce_answer;
		client_open_http(client, epoll, port);
		wire->is_ready = true;
	} else {
		client->text = produce_text;
		if (wire->peer == WIRE_HOLDFAST) {
			char body[64];
			snprintf(body, sizeof(body), "{\"id\":\"%s\"}", wire->session);
			client_post(port, "/api/sessions", body, 201);
		}
		snprintf(path, sizeof(path), "/api/sessions/%s/produce", wire->session);
		client_open(client, epoll, port, wire->index, path);
	}
}

static void queue_append(struct wire *wire, const char *event, size_t len)
{
	static struct buffer text;
	buffer_clear(&text);
	buffer_append_str(&text, "{\"type\":\"append\",\"data\":{\"ref\":1,\"events\":[");
	buffer_append(&text, event, len);
	buffer_append_str(&text, "]}}");
	ws_append_masked(&wire->client.tx, WS_TEXT, text.data, text.len);
}

void wire_publish(struct wire *wire, const char *event, size_t len)
{
	char head[160];
	if (wire->peer == WIRE_NATS || wire->peer == WIRE_JETSTREAM) {
		char reply[32] = "";
		if (wire->peer == WIRE_JETSTREAM) {
			snprintf(reply, sizeof(reply), "R.%d.%u ", (int)getpid(), wire->index);
		}
		snprintf(head, sizeof(head), "PUB b.%s %s%zu\r\n", wire->session, reply, len);
		client_queue(&wire->client, head, strlen(head));
		client_queue(&wire->client, event, len);
		client_queue(&wire->client, "\r\n", 2);
	} else if (wire->peer == WIRE_NCHAN) {
		snprintf(head, sizeof(head), "/pub/%s", wire->session);
		queue_post(wire, head, event, len);
	} else if (wire->is_http) {
		snprintf(head, sizeof(head), "/api/sessions/%s/events?create=1", wire->session);
		queue_post(wire, head, event, len);
	} else {
		queue_append(wire, event, len);
	}
}
