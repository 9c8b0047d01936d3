#include "produce_load.h"

#include "client.h"
#include "payload.h"
#include "tool.h"
#include "ws.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEADLINE (120 * NS_PER_SECOND)
#define PAD      32

struct run {
	struct histogram *acks;
	uint64_t inputs;
	size_t batch; /* inputs that are acknowledged at once */
	size_t ready;
	bool is_counting;
	bool is_over;
};

/** What a session is called that nothing else uses. */
static void make_path(char path[120], const char *kind, size_t i, const char *end)
{
	snprintf(path, 120, "/api/sessions/%s-%zu/%s?create=1", kind, i, end);
}

static void run_for(int epoll, uint64_t ns)
{
	for (uint64_t end = now_ns() + ns; now_ns() < end;) {
		client_wait(epoll, end);
	}
}

/** Warms up, and counts for as long as is asked for. */
static void measure(int epoll, struct run *run, const struct produce_options *options,
	struct produce_result *ret)
{
	run_for(epoll, NS_PER_SECOND / 2);
	run->inputs = 0;
	run->is_counting = true;
	uint64_t start = now_ns();
	run_for(epoll, options->duration_ns);
	ret->took_ns = now_ns() - start;
	ret->inputs = run->inputs;
	run->is_counting = false;
	run->is_over = true;
}

static void count(struct run *run, uint64_t sent, uint64_t when)
{
	run->inputs += run->batch;
	if (run->is_counting) {
		histogram_add(run->acks, when - sent);
	}
}

/* --- sockets --- */

struct producer {
	struct client client; /* first */
	struct run *run;
	struct buffer frame; /* of one append, masked */
	uint64_t *sent; /* when each that is in flight was, a ring */
	size_t window;
	size_t next_sent;
	size_t next_acked;
	size_t free; /* how many more may be in flight */
};

/** All that the window allows goes out with one write. */
static void fill_window(struct producer *producer)
{
	uint64_t now = now_ns();
	for (; producer->free; producer->free--) {
		producer->sent[producer->next_sent++ % producer->window] = now;
		client_queue(&producer->client, producer->frame.data, producer->frame.len);
	}
	client_flush(&producer->client);
}

static void handle_answer(struct client *client, const char *text, size_t len, uint64_t when)
{
	static const char appended[] = "{\"type\":\"appended\"";
	struct producer *producer = (struct producer *)client;
	if (len > sizeof(appended) && memcmp(text, appended, sizeof(appended) - 1) == 0) {
		count(producer->run, producer->sent[producer->next_acked++ % producer->window],
			when);
		producer->free++;
	} else if (memmem(text, len, "\"connected\"", 11)) {
		producer->run->ready++;
	} else {
		die("the server says %.*s", (int)len, text);
	}
}

static void handle_drained(struct client *client)
{
	struct producer *producer = (struct producer *)client;
	if (producer->free && !producer->run->is_over && producer->next_sent) {
		fill_window(producer);
	}
}

static void producer_init(
	struct producer *producer, struct run *run, const struct produce_options *options)
{
	struct buffer text = {0};
	buffer_append_str(&text, "{\"type\":\"append\",\"data\":{\"ref\":1,\"events\":[");
	for (size_t i = 0; i < options->batch; i++) {
		buffer_append_str(&text, i ? "," : "");
		payload_append(&text, &(struct payload){.n = 1, .sent = 1}, PAD);
	}
	buffer_append_str(&text, "]}}");
	ws_append_masked(&producer->frame, WS_TEXT, text.data, text.len);
	buffer_finish(&text);
	producer->client.text = handle_answer;
	producer->client.drained = handle_drained;
	producer->run = run;
	producer->window = producer->free = options->window;
	producer->sent = xcalloc(options->window, sizeof(*producer->sent));
}

void produce_over_sockets(const struct produce_options *options, struct produce_result *ret)
{
	struct run run = {.acks = &ret->acks, .batch = options->batch};
	struct producer *list = xcalloc(options->sockets, sizeof(*list));
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < options->sockets; i++) {
		char path[120];
		make_path(path, "socket", i, "produce");
		producer_init(&list[i], &run, options);
		client_open(&list[i].client, epoll, options->port, 0, path);
	}
	while (run.ready < options->sockets) {
		client_wait(epoll, now_ns() + DEADLINE);
	}
	for (size_t i = 0; i < options->sockets; i++) {
		fill_window(&list[i]);
	}
	measure(epoll, &run, options, ret);
	for (size_t i = 0; i < options->sockets; i++) {
		client_close(&list[i].client);
		buffer_finish(&list[i].frame);
		free(list[i].sent);
	}
	free(list);
	close(epoll);
}

/* --- HTTP --- */

struct requester {
	struct client client; /* first */
	struct run *run;
	struct buffer request;
	uint64_t sent;
};

static void send_request(struct requester *requester)
{
	requester->sent = now_ns();
	client_queue(&requester->client, requester->request.data, requester->request.len);
	client_flush(&requester->client);
}

static void handle_response(struct client *client, const char *text, size_t len, uint64_t when)
{
	struct requester *requester = (struct requester *)client;
	if (len < 12 || memcmp(text, "HTTP/1.1 200", 12) != 0) {
		die("the server says %.*s", (int)len, text);
	}
	count(requester->run, requester->sent, when);
	if (!requester->run->is_over) {
		send_request(requester);
	}
}

void produce_over_http(const struct produce_options *options, struct produce_result *ret)
{
	struct run run = {.acks = &ret->acks, .batch = 1};
	struct requester *list = xcalloc(options->sockets, sizeof(*list));
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < options->sockets; i++) {
		char path[120];
		struct buffer event = {0};
		payload_append(&event, &(struct payload){.n = 1, .sent = 1}, PAD);
		make_path(path, "http", i, "events");
		buffer_printf(&list[i].request,
			"POST %s HTTP/1.1\r\n"
			"Host: 127.0.0.1:%u\r\n"
			"Content-Type: application/json\r\n"
			"Content-Length: %zu\r\n\r\n",
			path, options->port, event.len);
		buffer_append(&list[i].request, event.data, event.len);
		buffer_finish(&event);
		list[i].run = &run;
		list[i].client.text = handle_response;
		client_open_http(&list[i].client, epoll, options->port);
		send_request(&list[i]);
	}
	measure(epoll, &run, options, ret);
	for (size_t i = 0; i < options->sockets; i++) {
		client_close(&list[i].client);
		buffer_finish(&list[i].request);
	}
	free(list);
	close(epoll);
}

/* --- lines --- */

#define LINES_A_WRITE 512

struct streamer {
	struct client client; /* first */
	struct buffer lines; /* LINES_A_WRITE of them */
	uint64_t left;
	bool is_answered;
};

static void send_lines(struct client *client)
{
	struct streamer *streamer = (struct streamer *)client;
	while (streamer->left && !client->tx.len) {
		uint64_t n = streamer->left < LINES_A_WRITE ? streamer->left : LINES_A_WRITE;
		streamer->left -= n;
		client_queue(client, streamer->lines.data, streamer->lines.len / LINES_A_WRITE * n);
		client_flush(client);
	}
}

static void handle_count(struct client *client, const char *text, size_t len, uint64_t when)
{
	struct streamer *streamer = (struct streamer *)client;
	streamer->is_answered = true;
	if (len < 12 || memcmp(text, "HTTP/1.1 200", 12) != 0) {
		die("the server says %.*s", (int)len, text);
	}
}

void produce_lines(const struct produce_options *options, struct produce_result *ret)
{
	struct streamer streamer = {
		.left = options->events, .client.text = handle_count, .client.drained = send_lines};
	char path[120];
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < LINES_A_WRITE; i++) {
		payload_append(&streamer.lines, &(struct payload){.n = 1, .sent = 1}, PAD);
		buffer_append_char(&streamer.lines, '\n');
	}
	struct buffer head = {0};
	make_path(path, "lines", 0, "events");
	buffer_printf(&head,
		"POST %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Type: application/x-ndjson\r\n"
		"Content-Length: %llu\r\n\r\n",
		path, options->port,
		(unsigned long long)(streamer.lines.len / LINES_A_WRITE * options->events));
	client_open_http(&streamer.client, epoll, options->port);
	uint64_t start = now_ns();
	client_queue(&streamer.client, head.data, head.len);
	client_flush(&streamer.client);
	send_lines(&streamer.client);
	while (!streamer.is_answered) {
		if (now_ns() > start + DEADLINE) {
			die("the answer does not come");
		}
		client_wait(epoll, start + DEADLINE);
	}
	ret->took_ns = now_ns() - start;
	ret->inputs = options->events;
	client_close(&streamer.client);
	buffer_finish(&streamer.lines);
	buffer_finish(&head);
	close(epoll);
}
