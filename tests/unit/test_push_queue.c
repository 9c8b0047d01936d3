/* The queue of push messages: its order, and one message for each login and session. */
#include "notify/push/push_queue.h"

#include "holdfast/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct push_message *put(
	struct push_queue *queue, const char *session, unsigned attempts, int64_t due_ms)
{
	struct push_message *message = xcalloc(1, sizeof(*message));
	snprintf(message->login, sizeof(message->login), "login");
	message->session = xstrdup(session);
	message->attempts = attempts;
	message->due_ms = due_ms;
	push_queue_put(queue, message);
	return message;
}

/** Checks the order of the sessions, and takes out each named in `taken` on the way. */
static void expect(struct push_queue *queue, const char *sessions, const char *taken)
{
	char got[64] = "";
	struct push_message *message;
	struct push_place place = push_queue_begin(queue);
	while ((message = push_queue_next(queue, &place))) {
		strcat(got, message->session);
		if (strstr(taken, message->session)) {
			push_queue_take(queue, message);
			push_message_destroy(message);
		}
	}
	assert_string_equal(got, sessions);
}

static void order(void **state)
{
	struct push_queue queue;
	push_queue_init(&queue);
	expect(&queue, "", "");
	put(&queue, "c", 0, 30);
	put(&queue, "e", 1, 50);
	put(&queue, "a", 1, 10);
	put(&queue, "d", 0, 40);
	put(&queue, "b", 2, 20);
	put(&queue, "f", 0, 60);
	assert_int_equal(push_queue_count(&queue), 6);
	expect(&queue, "abcdef", "acf");
	expect(&queue, "bde", "");
	assert_int_equal(push_queue_count(&queue), 3);
	put(&queue, "g", 1, 20);
	put(&queue, "h", 0, 20);
	expect(&queue, "bghde", "bghde");
	expect(&queue, "", "");
	push_queue_finish(&queue);
}

static void find(void **state)
{
	struct push_queue queue;
	push_queue_init(&queue);
	struct push_message *one = put(&queue, "one", 0, 1);
	struct push_message *two = put(&queue, "two", 1, 2);
	assert_ptr_equal(push_queue_find(&queue, "login", "one"), one);
	assert_ptr_equal(push_queue_find(&queue, "login", "two"), two);
	assert_null(push_queue_find(&queue, "other", "one"));
	assert_null(push_queue_find(&queue, "login", "on"));
	push_queue_take(&queue, one);
	assert_null(push_queue_find(&queue, "login", "one"));
	one->attempts = 1;
	push_queue_put(&queue, one);
	assert_ptr_equal(push_queue_find(&queue, "login", "one"), one);
	push_queue_finish(&queue); /* with both, which the sanitizers see */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(order), cmocka_unit_test(find)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
