/*
 * A few threads that send messages to other machines, one request at a time each (post.h). Their
 * owner keeps the messages that wait, and says which is next, what it says, and what follows from
 * the answer. All functions run on the loop's thread, except sender_ops.make.
 */
#ifndef HOLDFAST_SENDER_H
#define HOLDFAST_SENDER_H

#include "holdfast/post.h"
#include "holdfast/server_life.h"

#include <uv.h>

/* Threads of one struct senders. */
#define SENDERS 4

struct senders;

/** Sends one message at a time. */
struct sender {
	struct senders *senders;
	struct worker *worker; /* NULL: it has ended */
	void *message; /* the owner's; NULL: the sender is free */
	struct post_url url; /* where the message goes, set by the owner */
	int64_t now_s; /* when the attempt began, seconds since 1970, set by the owner */
	int result; /* of the last attempt: see post_send() */
	int64_t retry_s; /* Retry-After of the answer; 0: none */
};

/** What an owner does; each gets senders_config.owner. */
struct sender_ops {
	/**
	 * Gives the free sender the next message that is due, in sender.message, and calls
	 * sender_start() for it, or sender_release(), now or later. Returns 0; or how many ms the
	 * next message has to wait; or -1 if none can be sent.
	 */
	int64_t (*next)(void *owner, struct sender *sender);
	/**
	 * On the sender's thread: appends the header lines and the body of the request. Returns 0,
	 * or a negative errno, which becomes the result.
	 */
	int (*make)(void *owner, const struct sender *sender, struct buffer *headers,
		struct buffer *body);
	/** An attempt has ended: frees `message`, or keeps it for later. The sender is free. */
	void (*ended)(void *owner, const struct sender *sender, void *message);
};

struct senders_config {
	uv_loop_t *loop;
	const struct server_life *life; /* nothing is begun once it may not MAY_TELL */
	const struct sender_ops *ops;
	void *owner;
	const struct address_range *addresses; /* private addresses that are allowed; borrowed */
	size_t address_count;
	SSL_CTX *tls; /* borrowed */
	int64_t timeout_ms; /* of a request */
	int stop_fd; /* an eventfd that aborts requests once it is readable; borrowed */
};

struct senders {
	struct senders_config config;
	struct sender sender[SENDERS];
	uv_timer_t timer; /* for the next message that is due */
};

/** Must stay where it is until the loop has closed its timer. */
void senders_init(struct senders *senders, const struct senders_config *config);
/** Gives free senders what is due. To be called whenever a message may have become due. */
void senders_run(struct senders *senders);
/** Begins an attempt to send sender.message. */
void sender_start(struct sender *sender);
/** The message is not sent after all; the sender is free. senders_run() may follow. */
void sender_release(struct sender *sender);
/**
 * Ends the senders that are free, and the others as soon as their request has ended, which
 * `stop_fd` hastens. The loop must run until then. The owner must have released senders that have
 * a message, but no request.
 */
void senders_stop(struct senders *senders);

/* Room for what sender_describe() writes, with its NUL. */
#define SENDER_DESCRIPTION_SIZE 160
/**
 * Describes the result of an attempt that failed, without the URL, whose path may be a secret.
 * `no_address` is the description if no address of the host is allowed.
 */
void sender_describe(int result, const char *no_address, char ret[SENDER_DESCRIPTION_SIZE]);
/** The pause before the next attempt: `first_ms` doubled after each of `attempts`, up to `most_ms`. */
int64_t sender_pause_ms(unsigned attempts, int64_t first_ms, int64_t most_ms);
/** The time that an answer's Retry-After asks for, in ms, at most an hour. */
int64_t sender_wanted_ms(const struct sender *sender);

#endif
