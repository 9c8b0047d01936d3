/* Names that stand for several addresses, and names that are not found: those of listeners, and of other nodes. */
#include "server/listen/listen.h"
#include "nodes/node_internal.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* More than the thread pool has threads. */
#define LOOKUPS 50

static uv_loop_t loop;
static pthread_mutex_t dns = PTHREAD_MUTEX_INITIALIZER; /* held: no name is found */
static size_t lookups; /* that have begun; guarded by `counting` */
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static struct addrinfo *make_address(const char *host, struct addrinfo *next)
{
	struct {
		struct addrinfo info;
		struct sockaddr_in at;
	} *one = calloc(1, sizeof(*one));
	one->at.sin_family = AF_INET;
	inet_pton(AF_INET, host, &one->at.sin_addr);
	one->info = (struct addrinfo){.ai_family = AF_INET,
		.ai_socktype = SOCK_STREAM,
		.ai_addr = (struct sockaddr *)&one->at,
		.ai_addrlen = sizeof(one->at),
		.ai_next = next};
	return &one->info;
}

/** In place of the C library's: one name has two addresses, others wait for a DNS that is down. */
int getaddrinfo(
	const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
	if (strcmp(host, "both") == 0) {
		*ret = make_address("127.0.0.1", make_address("127.0.0.2", NULL));
		return 0;
	}
	if (hints->ai_flags & AI_NUMERICHOST) {
		return EAI_NONAME;
	}
	pthread_mutex_lock(&counting);
	lookups++;
	pthread_mutex_unlock(&counting);
	pthread_mutex_lock(&dns);
	pthread_mutex_unlock(&dns);
	return EAI_AGAIN;
}

void freeaddrinfo(struct addrinfo *at)
{
	while (at) {
		struct addrinfo *next = at->ai_next;
		free(at);
		at = next;
	}
}

/* --- listeners --- */

static int listen_at(const char *host, int *ret_port)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	inet_pton(AF_INET, host, &at.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

static int connect_to(const char *host, int port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	inet_pton(AF_INET, host, &at.sin_addr);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void handle_accepted(void *owner, int fd, const struct listen_kind *kind)
{
	++*(size_t *)owner;
	close(fd);
}

static bool has_room(void *owner, int fd, const struct listen_kind *kind)
{
	return true;
}

/** The next process takes over the inherited socket's queue, and of nothing else. */
static void drains_only_what_is_inherited(void **state)
{
	size_t accepted = 0;
	int port;
	char *why = NULL;
	int fd = listen_at("127.0.0.1", &port);
	struct inherited_sockets inherited = {.fds = {fd}, .count = 1};
	struct listen_address address = {
		.host = (char[]){"both"}, .port = port, .scheme = LISTEN_HTTP};
	uv_loop_init(&loop);
	struct listeners *listeners = listeners_create(&(struct listen_config){.loop = &loop,
							       .leaving_max = 1,
							       .addresses = &address,
							       .count = 1,
							       .inherited = &inherited,
							       .accepted = handle_accepted,
							       .has_room = has_room,
							       .owner = &accepted},
		&why);
	assert_non_null(listeners);
	listeners_leave_inherited(listeners);
	int left = connect_to("127.0.0.1", port);
	int own = connect_to("127.0.0.2", port);
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(accepted, 1);
	close(left);
	close(own);
	listeners_close(listeners);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

/* --- links to other nodes --- */

static void handle_nothing(void *owner)
{
}

static void handle_received(void *owner, char *bytes, size_t len)
{
}

static void handle_ended(void *owner, const char *why)
{
}

static const struct node_link_ops link_ops = {.connected = handle_nothing,
	.received = handle_received,
	.writable = handle_nothing,
	.ended = handle_ended};

static void handle_again(uv_async_t *async)
{
}

/** Lookups that nobody waits for any more are not begun. */
static void lookups_end_with_their_links(void **state)
{
	struct limits limits = {.node_sockets = LOOKUPS, .node_connect_ms = 1};
	uv_async_t again;
	struct server server = {
		.loop = &loop, .limits = &limits, .again = &again, .conn_max = LOOKUPS};
	uv_loop_init(&loop);
	uv_async_init(&loop, &again, handle_again);
	struct nodes nodes = {.server = &server};
	list_init(&nodes.links);
	list_init(&nodes.links_over);
	server.placement = &nodes.placement;
	pthread_mutex_lock(&dns);
	for (size_t i = 0; i < LOOKUPS; i++) {
		struct node_link *link =
			node_link_open(&server, "node-b.example:1", &link_ops, NULL);
		assert_non_null(link);
		node_link_leave(link);
		node_links_end_tick(&nodes);
	}
	assert_int_equal(server.link_count, 0);
	uv_close((uv_handle_t *)&again, NULL);
	pthread_mutex_unlock(&dns);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	/* The thread pool has four threads, and uses half of them for names. */
	assert_true(lookups <= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drains_only_what_is_inherited),
		cmocka_unit_test(lookups_end_with_their_links),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
