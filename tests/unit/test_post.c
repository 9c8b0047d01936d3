/* post_send(): what it does while a name server does not answer. */
#include "holdfast/post.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

static sem_t asked;
static sem_t answered;
static sem_t left;

/* In place of that of the C library: the name server answers when the test says so. */
int getaddrinfo(const char *restrict host, const char *restrict port,
	const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
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
	sending->result = post_send(&(struct post){.url = &sending->url,
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stop_does_not_wait_for_a_name_server),
		cmocka_unit_test(a_name_that_is_not_found),
	};
	sem_init(&asked, 0, 0);
	sem_init(&answered, 0, 0);
	sem_init(&left, 0, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
