/* post_send(): a name server that does not answer, and what comes before an answer. */
#include "holdfast/post.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

static sem_t asked;
static sem_t answered;
static sem_t left;

/*
 * In place of that of the C library: for names, the name server answers when the test says so.
 */
int getaddrinfo(const char *restrict host, const char *restrict port,
	const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
	if (strcmp(host, "127.0.0.1") == 0) {
		int (*real)(const char *, const char *, const struct addrinfo *,
			struct addrinfo **) = NULL;
		*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
		return real(host, port, hints, ret);
	}
	sem_post(&asked);
	sem_wait(&answered);
	sem_post(&left);
	return EAI_AGAIN;
}

struct sending {
	struct post_url url;
	int stop_fd;
	int result;
};

static void *send_one(void *arg)
{
	struct sending *sending = arg;
	struct buffer body = {0};
	int64_t retry_s;
	const struct address_range loopback = {
		.address = {.bytes = {[10] = 0xff, [11] = 0xff, [12] = 127}}, .bits = 104};
	sending->result = post_send(&(struct post){.addresses = &loopback,
					    .address_count = 1,
					    .url = &sending->url,
					    .headers = "",
					    .body = &body,
					    .timeout_ms = 60000,
					    .stop_fd = sending->stop_fd},
		0, &retry_s);
	return NULL;
}

static void begin(struct sending *sending, pthread_t *ret_thread)
{
	assert_true(post_url_parse("http://example.org/x", POST_URL_PLAIN, &sending->url));
	sending->stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(ret_thread, NULL, send_one, sending), 0);
	sem_wait(&asked);
}

static void a_stop_does_not_wait_for_a_name_server(void **state)
{
	pthread_t thread;
	struct sending sending;
	begin(&sending, &thread);
	eventfd_write(sending.stop_fd, 1);
	pthread_join(thread, NULL);
	assert_int_equal(sending.result, -ECANCELED);
	sem_post(&answered);
	sem_wait(&left);
	close(sending.stop_fd);
}

static void a_name_that_is_not_found(void **state)
{
	pthread_t thread;
	struct sending sending;
	begin(&sending, &thread);
	sem_post(&answered);
	pthread_join(thread, NULL);
	assert_int_equal(sending.result, -EHOSTUNREACH);
	sem_wait(&left);
	close(sending.stop_fd);
}

/** Sends a request to a server that gives this answer. Returns the result. */
static int send_to(const char *answer)
{
	char text[64];
	char request[1024];
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	struct sending sending = {.stop_fd = eventfd(0, EFD_CLOEXEC)};
	pthread_t thread;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	snprintf(text, sizeof(text), "http://127.0.0.1:%d/x", ntohs(at.sin_port));
	assert_true(post_url_parse(text, POST_URL_PLAIN | POST_URL_ADDRESS, &sending.url));
	assert_int_equal(pthread_create(&thread, NULL, send_one, &sending), 0);
	int peer = accept(listener, NULL, NULL);
	assert_true(read(peer, request, sizeof(request)) > 0);
	assert_int_equal(write(peer, answer, strlen(answer)), strlen(answer));
	close(peer);
	pthread_join(thread, NULL);
	close(listener);
	close(sending.stop_fd);
	return sending.result;
}

static void interim_answers_come_before_the_answer(void **state)
{
	assert_int_equal(send_to("HTTP/1.1 204 No Content\r\n\r\n"), 204);
	assert_int_equal(send_to("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n\r\n"), 201);
	assert_int_equal(
		send_to("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 500 No\r\n\r\n"),
		500);
	assert_int_equal(send_to("HTTP/1.1 100 Continue\r\n\r\n"), -ECONNRESET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stop_does_not_wait_for_a_name_server),
		cmocka_unit_test(a_name_that_is_not_found),
		cmocka_unit_test(interim_answers_come_before_the_answer),
	};
	sem_init(&asked, 0, 0);
	sem_init(&answered, 0, 0);
	sem_init(&left, 0, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
