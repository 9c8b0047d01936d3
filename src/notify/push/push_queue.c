#include "push_queue.h"

#include "holdfast/buffer.h"

#include <stdlib.h>
#include <string.h>

void push_message_destroy(struct push_message *message)
{
	free(message->session);
	free(message->question);
	free(message);
}

void push_queue_init(struct push_queue *queue)
{
	list_init(&queue->fresh);
	list_init(&queue->again);
	queue->messages = hash_create();
}

static void handle_message(void *value, void *arg)
{
	push_message_destroy(value);
}

void push_queue_finish(struct push_queue *queue)
{
	hash_each(queue->messages, handle_message, NULL);
	hash_destroy(queue->messages);
}

size_t push_queue_count(const struct push_queue *queue)
{
	return hash_count(queue->messages);
}

static char *key_of(const char *login, const char *session)
{
	return xprintf("%s %s", login, session);
}

static struct push_message *message_at(struct list *link)
{
	return list_entry(link, struct push_message, link);
}

void push_queue_put(struct push_queue *queue, struct push_message *message)
{
	char *key = key_of(message->login, message->session);
	struct list *list = message->attempts ? &queue->again : &queue->fresh;
	struct list *before = list->prev;
	while (before != list && message_at(before)->due_ms > message->due_ms) {
		before = before->prev;
	}
	list_append(before->next, &message->link);
	hash_put(queue->messages, key, strlen(key), message);
	free(key);
}

void push_queue_take(struct push_queue *queue, struct push_message *message)
{
	char *key = key_of(message->login, message->session);
	hash_remove(queue->messages, key, strlen(key));
	list_remove(&message->link);
	free(key);
}

struct push_message *push_queue_find(
	const struct push_queue *queue, const char *login, const char *session)
{
	char *key = key_of(login, session);
	struct push_message *message = hash_get(queue->messages, key, strlen(key));
	free(key);
	return message;
}

struct push_place push_queue_begin(const struct push_queue *queue)
{
	return (struct push_place){queue->fresh.next, queue->again.next};
}

struct push_message *push_queue_next(const struct push_queue *queue, struct push_place *place)
{
	bool has_fresh = place->fresh != &queue->fresh;
	bool has_again = place->again != &queue->again;
	if (!has_fresh && !has_again) {
		return NULL;
	}
	bool is_fresh = has_fresh && (!has_again || message_at(place->fresh)->due_ms <
							    message_at(place->again)->due_ms);
	struct list **at = is_fresh ? &place->fresh : &place->again;
	struct push_message *message = message_at(*at);
	*at = message->link.next;
	return message;
}
