#include "store_load.h"

#include "client.h"
#include "payload.h"
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Longer takes nothing that goes well. */
#define DEADLINE (120 * NS_PER_SECOND)

static bool begins(const char *text, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/* --- loading --- */

struct loading {
	struct client client; /* first */
	bool is_connected;
	uint64_t next_seq;
	uint64_t end; /* now_ns() at the last answer */
};

/** Every event of an answer must be the one that follows. */
static void take_events(struct loading *loading, const char *text, size_t len)
{
	static const char mark[] = "{\"seq\":";
	const char *end = text + len;
	const char *at = text;
	while ((at = memmem(at, (size_t)(end - at), mark, sizeof(mark) - 1))) {
		struct scan scan = {.at = at + sizeof(mark) - 1, .end = end};
		uint64_t seq;
		if (!scan_number(&scan, &seq) || seq != loading->next_seq) {
			die("event %llu came where %llu should", (unsigned long long)seq,
				(unsigned long long)loading->next_seq);
		}
		loading->next_seq++;
		at = scan.at;
	}
}

static void handle_text(struct client *client, const char *text, size_t len, uint64_t when)
{
	struct loading *loading = (struct loading *)client;
	if (begins(text, len, "{\"type\":\"connected\"")) {
		loading->is_connected = true;
	} else if (begins(text, len, "{\"type\":\"events_loaded\"")) {
		take_events(loading, text, len);
		loading->end = now_ns();
	} else if (begins(text, len, "{\"type\":\"error\"")) {
		die("the server says %.*s", (int)len, text);
	}
}

void store_load(unsigned port, const char *session, uint64_t after_seq, uint64_t last_seq,
	struct load_result *ret)
{
	struct loading loading = {.client.text = handle_text, .next_seq = after_seq + 1};
	char path[200];
	char request[120];
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	uint64_t start = now_ns();
	snprintf(path, sizeof(path), "/api/sessions/%s/ws?format=markdown", session);
	client_open(&loading.client, epoll, port, 0, path);
	while (!loading.is_connected) {
		client_wait(epoll, start + DEADLINE);
	}
	uint64_t asked = now_ns();
	int len = snprintf(request, sizeof(request),
		"{\"type\":\"load_events\",\"data\":{\"after_seq\":%llu,\"limit\":5000,\"follow\":"
		"true}}",
		(unsigned long long)after_seq);
	client_send(&loading.client, request, (size_t)len);
	while (loading.next_seq <= last_seq) {
		if (now_ns() > start + DEADLINE) {
			die("event %llu does not come", (unsigned long long)loading.next_seq);
		}
		client_wait(epoll, start + DEADLINE);
	}
	*ret = (struct load_result){.open_ns = loading.end - start,
		.load_ns = loading.end - asked,
		.events = last_seq - after_seq};
	client_close(&loading.client);
	close(epoll);
}

/* --- appending --- */

struct producer {
	struct client client; /* first */
	struct appending *all;
	struct buffer frame;
	bool is_connected;
};

struct appending {
	size_t batch;
	size_t connected;
	uint64_t acked;
	bool is_over;
};

/** The same events over and over: the server's work does not depend on what is in them. */
static void make_frame(struct producer *producer, size_t batch)
{
	buffer_append_str(
		&producer->frame, "{\"type\":\"append\",\"data\":{\"ref\":1,\"events\":[");
	for (size_t i = 0; i < batch; i++) {
		buffer_append_str(&producer->frame, i ? "," : "");
		payload_append(&producer->frame, &(struct payload){.n = i + 1, .sent = 1}, 32);
	}
	buffer_append_str(&producer->frame, "]}}");
}

static void send_append(struct producer *producer)
{
	client_send(&producer->client, producer->frame.data, producer->frame.len);
}

static void handle_answer(struct client *client, const char *text, size_t len, uint64_t when)
{
	struct producer *producer = (struct producer *)client;
	if (begins(text, len, "{\"type\":\"appended\"")) {
		producer->all->acked += producer->all->batch;
		if (!producer->all->is_over) {
			send_append(producer);
		}
	} else if (begins(text, len, "{\"type\":\"connected\"")) {
		producer->all->connected++;
	} else {
		die("the server says %.*s", (int)len, text);
	}
}

static void run_for(int epoll, uint64_t ns)
{
	for (uint64_t end = now_ns() + ns; now_ns() < end;) {
		client_wait(epoll, end);
	}
}

void store_append_run(unsigned port, size_t producers, size_t batch, uint64_t duration_ns,
	struct append_result *ret)
{
	struct appending all = {.batch = batch};
	struct producer *list = xcalloc(producers, sizeof(*list));
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < producers; i++) {
		char path[120];
		snprintf(
			path, sizeof(path), "{\"id\":\"append-%zu-%zu-%zu\"}", producers, batch, i);
		client_post(port, "/api/sessions", path, 201);
		snprintf(path, sizeof(path), "/api/sessions/append-%zu-%zu-%zu/produce", producers,
			batch, i);
		list[i].client.text = handle_answer;
		list[i].all = &all;
		make_frame(&list[i], batch);
		client_open(&list[i].client, epoll, port, 0, path);
	}
	while (all.connected < producers) {
		client_wait(epoll, now_ns() + DEADLINE);
	}
	for (size_t i = 0; i < producers; i++) {
		send_append(&list[i]);
	}
	run_for(epoll, NS_PER_SECOND / 2);
	uint64_t before = all.acked;
	uint64_t start = now_ns();
	run_for(epoll, duration_ns);
	*ret = (struct append_result){.events = all.acked - before,
		.seconds = (double)(now_ns() - start) / (double)NS_PER_SECOND};
	all.is_over = true;
	for (size_t i = 0; i < producers; i++) {
		client_close(&list[i].client);
		buffer_finish(&list[i].frame);
	}
	free(list);
	close(epoll);
}
