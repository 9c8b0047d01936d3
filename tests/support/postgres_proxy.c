#include "postgres_proxy.h"

#include "postgres.h"

#include "holdfast/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PAIRS_MAX 32

/* A connection: both ends, and what has come of a message that is not whole yet. */
struct pair {
	int client; /* -1: it is gone; what the database still says is for nobody */
	int server; /* -1: there is no pair */
	bool has_begun; /* its first message has no type */
	bool swallows; /* the answer that comes is for nobody */
	bool cuts_answer; /* after its first byte */
	bool is_late; /* the database gets its request when so many round trips have been counted: */
	size_t due;
	char status; /* of its transaction, as the last answer had it */
	struct buffer request;
	struct buffer answer;
};

static struct {
	char *dir;
	char *path;
	char *upstream;
	char *address;
	int listener;
	int wake[2];
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	bool has_plan;
	struct proxy_plan plan;
	size_t count;
	size_t hits;
	/* The thread's. */
	struct pair pairs[PAIRS_MAX];
} proxy = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void die(const char *what)
{
	fprintf(stderr, "postgres_proxy: %s: %s\n", what, strerror(errno));
	abort();
}

static struct sockaddr_un name_of(const char *path)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
	return name;
}

static void close_end(int *fd)
{
	if (*fd >= 0) {
		close(*fd);
		*fd = -1;
	}
}

static void end_pair(struct pair *pair)
{
	close_end(&pair->client);
	close_end(&pair->server);
	buffer_finish(&pair->request);
	buffer_finish(&pair->answer);
	*pair = (struct pair){.client = -1, .server = -1};
}

/** All of it: what tests send is small, and whoever does not read is gone. */
static void put(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
		if (n < 0) {
			return;
		}
		bytes += n;
		len -= (size_t)n;
	}
}

static uint32_t get_length(const char *at)
{
	const unsigned char *bytes = (const unsigned char *)at;
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

/** How long the message at `at` is; 0: it is not whole. `head`: bytes in front of its length. */
static size_t whole(const struct buffer *buffer, size_t at, size_t head)
{
	if (buffer->len < at + head + 4) {
		return 0;
	}
	size_t len = head + get_length(buffer->data + at + head);
	return buffer->len < at + len ? 0 : len;
}

/** The end of the first round trip in what has come; 0: there is none. */
static size_t find_end(const struct pair *pair)
{
	size_t at = 0;
	if (!pair->has_begun) {
		return whole(&pair->request, 0, 0);
	}
	for (;;) {
		size_t len = whole(&pair->request, at, 1);
		if (!len) {
			return 0;
		}
		char type = pair->request.data[at];
		at += len;
		if (type == 'Q' || type == 'S' || type == 'X') {
			return at;
		}
	}
}

/* --- faults --- */

/** Counts a round trip; whether the fault comes in it. */
static bool is_hit(struct proxy_plan *ret_plan)
{
	pthread_mutex_lock(&proxy.lock);
	size_t n = proxy.count++;
	*ret_plan = proxy.plan;
	size_t count = proxy.plan.fault == PROXY_IS_LATE ? 1 : proxy.plan.count;
	bool hit = proxy.has_plan && n >= proxy.plan.nth && n - proxy.plan.nth < count;
	proxy.hits += hit;
	pthread_mutex_unlock(&proxy.lock);
	return hit;
}

static void put_message(struct buffer *out, char type, const char *body, size_t len)
{
	uint32_t all = (uint32_t)len + 4;
	char head[5] = {type, (char)(all >> 24), (char)(all >> 16), (char)(all >> 8), (char)all};
	buffer_append(out, head, sizeof(head));
	buffer_append(out, body, len);
}

/** The database's word for no; the connection goes on unless the error is of those that end it. */
static void refuse(struct pair *pair, const char *sqlstate)
{
	struct buffer body = {0};
	struct buffer out = {0};
	bool is_fatal = !pair->has_begun || strncmp(sqlstate, "57P", 3) == 0;
	const char *severity = is_fatal ? "FATAL" : "ERROR";
	buffer_printf(&body, "S%s%cV%s%cC%s%cMthe proxy refuses%c", severity, 0, severity, 0,
		sqlstate, 0, 0);
	buffer_append(&body, "", 1);
	put_message(&out, 'E', body.data, body.len);
	if (!is_fatal) {
		put_message(&out, 'Z', pair->status == 'I' ? "I" : "E", 1);
	}
	put(pair->client, out.data, out.len);
	buffer_finish(&body);
	buffer_finish(&out);
	if (is_fatal) {
		end_pair(pair);
	}
}

static void forward(struct pair *pair, size_t len)
{
	pair->has_begun = true;
	put(pair->server, pair->request.data, len);
	buffer_consume(&pair->request, len);
}

static void hit(struct pair *pair, size_t len, const struct proxy_plan *plan)
{
	switch (plan->fault) {
	case PROXY_CUT_BEFORE:
		end_pair(pair);
		break;
	case PROXY_REFUSES:
		buffer_consume(&pair->request, len);
		refuse(pair, plan->sqlstate);
		break;
	case PROXY_CUT_DURING:
		forward(pair, len);
		pair->swallows = true;
		close_end(&pair->client);
		break;
	case PROXY_IS_LATE:
		pair->is_late = pair->swallows = true;
		pair->due = plan->nth + plan->count;
		close_end(&pair->client);
		break;
	case PROXY_CUT_IN_ANSWER:
		pair->cuts_answer = true;
		forward(pair, len);
		break;
	case PROXY_CUT_AFTER:
		pair->swallows = true;
		forward(pair, len);
		break;
	}
}

/** What is late goes on its way, if it is time, or there is no plan any more. */
static void send_late(void)
{
	pthread_mutex_lock(&proxy.lock);
	size_t count = proxy.has_plan ? proxy.count : SIZE_MAX;
	pthread_mutex_unlock(&proxy.lock);
	for (size_t i = 0; i < PAIRS_MAX; i++) {
		struct pair *pair = &proxy.pairs[i];
		if (pair->is_late && count > pair->due) {
			pair->is_late = false;
			forward(pair, pair->request.len);
		}
	}
}

/** Whole round trips go on; what is not whole waits. */
static void take_request(struct pair *pair)
{
	size_t len;
	struct proxy_plan plan;
	while (pair->server >= 0 && pair->client >= 0 && (len = find_end(pair))) {
		if (pair->has_begun && pair->request.data[0] == 'X') {
			end_pair(pair);
		} else if (is_hit(&plan)) {
			hit(pair, len, &plan);
		} else {
			send_late();
			forward(pair, len);
		}
	}
}

/** Looks for the end of the answer, and for what its transaction is then. */
static bool find_answer(struct pair *pair)
{
	bool is_over = false;
	size_t len;
	while ((len = whole(&pair->answer, 0, 1))) {
		if (pair->answer.data[0] == 'Z') {
			pair->status = pair->answer.data[5];
			is_over = true;
		}
		buffer_consume(&pair->answer, len);
	}
	return is_over;
}

static void take_answer(struct pair *pair, const char *bytes, size_t len)
{
	buffer_append(&pair->answer, bytes, len);
	bool is_over = find_answer(pair);
	if (pair->cuts_answer) {
		put(pair->client, bytes, 1);
		close_end(&pair->client);
		pair->swallows = true;
	} else if (!pair->swallows) {
		put(pair->client, bytes, len);
	}
	if (pair->swallows && is_over) {
		end_pair(pair);
	}
}

/* --- the thread --- */

static void take_client(void)
{
	int client = accept4(proxy.listener, NULL, NULL, SOCK_CLOEXEC);
	for (size_t i = 0; client >= 0 && i < PAIRS_MAX; i++) {
		struct pair *pair = &proxy.pairs[i];
		if (pair->server < 0) {
			struct sockaddr_un name = name_of(proxy.upstream);
			*pair = (struct pair){.client = client, .status = 'I'};
			pair->server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
			if (connect(pair->server, (struct sockaddr *)&name, sizeof(name)) < 0) {
				end_pair(pair);
			}
			return;
		}
	}
	die("there are too many connections");
}

static void handle_pair(struct pair *pair, bool client_has, bool server_has)
{
	char bytes[65536];
	if (server_has && pair->server >= 0) {
		ssize_t n = recv(pair->server, bytes, sizeof(bytes), 0);
		if (n <= 0) {
			end_pair(pair);
			return;
		}
		take_answer(pair, bytes, (size_t)n);
	}
	if (client_has && pair->client >= 0) {
		ssize_t n = recv(pair->client, bytes, sizeof(bytes), 0);
		if (n <= 0) {
			end_pair(pair);
			return;
		}
		buffer_append(&pair->request, bytes, (size_t)n);
		take_request(pair);
	}
}

static void *run(void *arg)
{
	struct pollfd fds[2 + 2 * PAIRS_MAX];
	for (;;) {
		fds[0] = (struct pollfd){.fd = proxy.wake[0], .events = POLLIN};
		fds[1] = (struct pollfd){.fd = proxy.listener, .events = POLLIN};
		for (size_t i = 0; i < PAIRS_MAX; i++) {
			fds[2 + 2 * i] = (struct pollfd){proxy.pairs[i].client, POLLIN, 0};
			fds[3 + 2 * i] = (struct pollfd){proxy.pairs[i].server, POLLIN, 0};
		}
		if (poll(fds, 2 + 2 * PAIRS_MAX, -1) < 0) {
			die("poll");
		}
		for (size_t i = 0; i < PAIRS_MAX; i++) {
			handle_pair(
				&proxy.pairs[i], fds[2 + 2 * i].revents, fds[3 + 2 * i].revents);
		}
		if (fds[1].revents) {
			take_client();
		}
		if (fds[0].revents) {
			return arg;
		}
	}
}

/* --- from outside --- */

const char *proxy_start(void)
{
	proxy.dir = xprintf("%s/proxy", postgres_dir());
	proxy.path = xprintf("%s/.s.PGSQL.5432", proxy.dir);
	proxy.upstream = xprintf("%s/.s.PGSQL.5432", postgres_dir());
	proxy.address = xprintf("host=%s user=holdfast dbname=postgres", proxy.dir);
	for (size_t i = 0; i < PAIRS_MAX; i++) {
		proxy.pairs[i] = (struct pair){.client = -1, .server = -1};
	}
	struct sockaddr_un name = name_of(proxy.path);
	proxy.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (mkdir(proxy.dir, 0700) < 0 || pipe2(proxy.wake, O_CLOEXEC) < 0 ||
		bind(proxy.listener, (struct sockaddr *)&name, sizeof(name)) < 0 ||
		listen(proxy.listener, 16) < 0) {
		die(proxy.path);
	}
	pthread_create(&proxy.thread, NULL, run, NULL);
	return proxy.address;
}

void proxy_stop(void)
{
	close(proxy.wake[1]);
	pthread_join(proxy.thread, NULL);
	for (size_t i = 0; i < PAIRS_MAX; i++) {
		end_pair(&proxy.pairs[i]);
	}
	close(proxy.wake[0]);
	close(proxy.listener);
	unlink(proxy.path);
	rmdir(proxy.dir);
	free(proxy.dir);
	free(proxy.path);
	free(proxy.upstream);
	free(proxy.address);
}

void proxy_plan(const struct proxy_plan *plan)
{
	pthread_mutex_lock(&proxy.lock);
	proxy.has_plan = plan;
	proxy.plan = plan ? *plan : (struct proxy_plan){0};
	proxy.count = proxy.hits = 0;
	pthread_mutex_unlock(&proxy.lock);
}

size_t proxy_count(void)
{
	pthread_mutex_lock(&proxy.lock);
	size_t count = proxy.count;
	pthread_mutex_unlock(&proxy.lock);
	return count;
}

size_t proxy_hits(void)
{
	pthread_mutex_lock(&proxy.lock);
	size_t hits = proxy.hits;
	pthread_mutex_unlock(&proxy.lock);
	return hits;
}
