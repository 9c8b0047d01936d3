/*
 * The queue of push messages, ordered by when they are due, with at most one for each login and
 * session.
 */
#ifndef HOLDFAST_PUSH_QUEUE_H
#define HOLDFAST_PUSH_QUEUE_H

#include "holdfast/hash.h"
#include "holdfast/list.h"

#include <stdint.h>

#define PUSH_LOGIN_ID 65

/* NEWS_OVER takes back NEWS_WAITING, which has become untrue. It is only sent, and no status. */
enum push_news { NEWS_NONE, NEWS_RUNNING, NEWS_WAITING, NEWS_IDLE, NEWS_OVER };

struct push_message {
	struct list link;
	char login[PUSH_LOGIN_ID];
	char *session;
	enum push_news news;
	char *question; /* with NEWS_WAITING: the id of the newest request, as of the last attempt */
	unsigned attempts;
	int64_t due_ms; /* on the loop's clock */
};

void push_message_destroy(struct push_message *message);

/**
 * Two lists, each by due_ms. Messages that were not tried yet are all delayed by the same time, so
 * they go to the end of theirs at once, however many wait to be tried again.
 */
struct push_queue {
	struct list fresh;
	struct list again;
	struct hash *messages; /* struct push_message, by login and session */
};

/** A place in a queue: the next links of its two lists. */
struct push_place {
	struct list *fresh;
	struct list *again;
};

void push_queue_init(struct push_queue *queue);
/** Destroys the messages, too. */
void push_queue_finish(struct push_queue *queue);
size_t push_queue_count(const struct push_queue *queue);
/** Puts a message, which now belongs to the queue, behind those that are due no later. */
void push_queue_put(struct push_queue *queue, struct push_message *message);
/** Takes a message out; it belongs to the caller. */
void push_queue_take(struct push_queue *queue, struct push_message *message);
/** Returns the message of a login and session, or NULL. */
struct push_message *push_queue_find(
	const struct push_queue *queue, const char *login, const char *session);

/** The place of the message that is due first. */
struct push_place push_queue_begin(const struct push_queue *queue);
/**
 * Returns the message at a place, which the caller may take out, and goes on to the one that is due
 * next; NULL at the end.
 */
struct push_message *push_queue_next(const struct push_queue *queue, struct push_place *place);

#endif
