/*
 * Decides which push messages are sent, and when.
 *
 * Messages wait in a queue, with at most one for each login and session: the newest. Senders
 * (sender.h) get those that are due, but never two of the same login and session at once, so that
 * the newer one arrives last. A message that is no longer true by then, or whose login has ended,
 * is dropped. One that a push service refuses for the moment goes back into the queue.
 */
#include "push_internal.h"
#include "push_queue.h"
#include "push_shown.h"

#include "holdfast/base64url.h"
#include "holdfast/beneath.h"
#include "holdfast/diag.h"
#include "holdfast/hash.h"
#include "holdfast/hide.h"
#include "holdfast/sender.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ATTEMPTS_MAX 6
/* How long a push service keeps a message for a device that is off (RFC 8030, section 5.2). */
#define TTL_S 86400
/* How long the signed Authorization header is valid. */
#define PROOF_S     (12 * 3600)
#define TOPIC_BYTES 24 /* 32 characters: RFC 8030, section 5.4 */

/** The values of a session's `status`, and `over`; they are also sent to the page. */
static const char *const news_names[] = {[NEWS_RUNNING] = "running",
	[NEWS_WAITING] = "waiting",
	[NEWS_IDLE] = "idle",
	[NEWS_OVER] = "over"};

/** A message that a sender has. */
struct sending {
	struct push_message *message;
	struct push_target target;
	char *topic;
};

struct push {
	struct push_config config;
	struct push_key *key;
	SSL_CTX *tls;
	struct hash *busy; /* sessions that are not idle: struct busy */
	struct push_shown shown;
	struct push_queue queue;
	struct senders senders;
	int stop_fd;
};

/** A session that is not idle. */
struct busy {
	enum push_news news;
	size_t questions;
	char *question; /* the id of the newest open request, or NULL */
};

/** Once this is false, push_stop() has been called, or is about to be. */
static bool may_send(const struct push *push)
{
	return server_may(push->config.life, MAY_TELL);
}

static enum push_news news_of(const char *status)
{
	for (enum push_news news = NEWS_RUNNING; news <= NEWS_IDLE; news++) {
		if (strcmp(news_names[news], status) == 0) {
			return news;
		}
	}
	return NEWS_NONE;
}

static struct busy busy_now(const struct push *push, const char *session)
{
	const struct busy *busy = hash_get(push->busy, session, strlen(session));
	return busy ? *busy : (struct busy){.news = NEWS_IDLE};
}

void push_count(struct push *push)
{
	metrics_set(push->config.metrics, METRIC_PUSH_SUBSCRIPTIONS,
		access_subscriptions(push->config.access));
	metrics_set(push->config.metrics, METRIC_PUSH_QUEUE, push_queue_count(&push->queue));
}

static void drop(struct push *push, struct push_message *message)
{
	metrics_add(push->config.metrics, METRIC_PUSH_DROPPED, 1);
	if (message->news == NEWS_OVER) {
		push_shown_remove(&push->shown, message->session, message->login);
	}
	push_message_destroy(message);
}

static bool is_same(const struct push_message *message, const char *login, const char *session)
{
	return strcmp(message->session, session) == 0 && strcmp(message->login, login) == 0;
}

/** Drops the queued message that a newer one replaces; at the push service, Topic does the same. */
static void drop_older(struct push *push, const char *login, const char *session)
{
	struct push_message *message = push_queue_find(&push->queue, login, session);
	if (message) {
		push_queue_take(&push->queue, message);
		drop(push, message);
	}
}

/* --- on a sender's thread --- */

static int seal(const struct sending *sending, struct buffer *body)
{
	struct push_seed seed;
	struct buffer text = {0};
	const struct push_message *message = sending->message;
	buffer_printf(&text, "{\"session\":\"%s\",\"kind\":\"%s\"", message->session,
		news_names[message->news]);
	if (message->question) {
		buffer_append_member(&text, "question", message->question);
	}
	buffer_append_char(&text, '}');
	int r = RAND_bytes((unsigned char *)&seed, sizeof(seed)) == 1 ? 0 : -EIO;
	r = r < 0 ? r : push_encrypt(&sending->target, &seed, text.data, text.len, body);
	OPENSSL_cleanse(&seed, sizeof(seed));
	buffer_finish(&text);
	return r;
}

static int make(
	void *owner, const struct sender *sender, struct buffer *headers, struct buffer *body)
{
	const struct push *push = owner;
	const struct sending *sending = sender->message;
	buffer_printf(headers,
		"Content-Type: application/octet-stream\r\nContent-Encoding: aes128gcm\r\nTTL: %d\r\nUrgency: %s\r\nTopic: %s\r\nAuthorization: ",
		TTL_S, sending->message->news == NEWS_WAITING ? "high" : "normal", sending->topic);
	int r = seal(sending, body);
	r = r < 0 ? r
		  : push_authorize(push->key, sender->url.origin, push->config.contact,
			    sender->now_s + PROOF_S, headers);
	buffer_append_str(headers, "\r\n");
	return r;
}

/* --- sending --- */

static int64_t push_now_ms(const struct push *push)
{
	return (int64_t)uv_now(push->config.loop);
}

/** Whether trying again can help. */
static bool is_worth_another(int result)
{
	return result == 408 || result == 429 || result >= 500 ||
	       (result < 0 && result != -EACCES && result != -EINVAL);
}

/** The pause before the next attempt: at least what the push service asks for. */
static int64_t pause_ms(
	const struct push *push, const struct push_message *message, const struct sender *sender)
{
	int64_t pause =
		sender_pause_ms(message->attempts, push->config.limits->push_retry_ms, INT64_MAX);
	int64_t wanted = sender_wanted_ms(sender);
	return pause > wanted ? pause : wanted;
}

/** Logs a failure, without the URL and the login, which are secret. */
static void log_failure(const struct sender *sender)
{
	char why[SENDER_DESCRIPTION_SIZE];
	sender_describe(
		sender->result, "the host has no address in the internet (--push-address)", why);
	diag(DIAG_WARN, "a push message to %s failed: %s", sender->url.host, why);
}

static void handle_result(
	struct push *push, const struct sender *sender, struct push_message *message)
{
	struct metrics *metrics = push->config.metrics;
	int result = sender->result;
	if (result >= 200 && result < 300) {
		metrics_add(metrics, METRIC_PUSH_SENT, 1);
	} else if (result == 404 || result == 410) {
		metrics_add(metrics, METRIC_PUSH_GONE, 1);
		access_unsubscribe(push->config.access, message->login);
	} else if (is_worth_another(result) && message->attempts < ATTEMPTS_MAX && may_send(push)) {
		metrics_add(metrics, METRIC_PUSH_RETRIED, 1);
		if (push_queue_find(&push->queue, message->login, message->session)) {
			drop(push, message);
			return;
		}
		message->due_ms = push_now_ms(push) + pause_ms(push, message, sender);
		push_queue_put(&push->queue, message);
		return;
	} else {
		metrics_add(metrics, METRIC_PUSH_FAILED, 1);
		if (result != -ECANCELED) {
			log_failure(sender);
		}
	}
	push_message_destroy(message);
}

static void handle_ended(void *owner, const struct sender *sender, void *message)
{
	struct sending *sending = message;
	handle_result(owner, sender, sending->message);
	free(sending->topic);
	free(sending);
}

/** Makes the Topic, the same for a login and session, from which the session cannot be guessed. */
static char *make_topic(const struct push_message *message)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	char *text = xprintf("%s %s", message->login, message->session);
	struct buffer topic = {0};
	EVP_Digest(text, strlen(text), sum, NULL, EVP_sha256(), NULL);
	base64url_append(&topic, sum, TOPIC_BYTES);
	buffer_cstr(&topic);
	free(text);
	return topic.data;
}

static bool may_know(const struct grant *grant, const char *session, enum push_news news)
{
	return grant_sees(grant, session, strlen(session)) &&
	       !(news == NEWS_WAITING && (grant->hide & HIDE_TOOLS));
}

/** Whether a message says what is so now. */
static bool is_true(const struct busy *now, enum push_news news)
{
	return news == NEWS_OVER ? now->news != NEWS_WAITING : now->news == news;
}

/** Hands a message to a sender, or drops it if it is no longer true or no longer allowed. */
static void begin(struct push *push, struct sender *sender, struct push_message *message)
{
	const struct grant *grant;
	struct push_target target;
	struct busy now = busy_now(push, message->session);
	const struct push_subscription *subscription =
		access_subscription(push->config.access, message->login, &grant);
	if (!subscription || !may_know(grant, message->session, message->news) ||
		!is_true(&now, message->news) ||
		!post_url_parse(subscription->endpoint, 0, &sender->url) ||
		!push_rules_allow(push->config.rules, &sender->url) ||
		!push_target_read(subscription->p256dh, subscription->auth, &target)) {
		drop(push, message);
		return;
	}
	free(message->question);
	message->question = now.question ? xstrdup(now.question) : NULL;
	if (message->news == NEWS_WAITING) {
		push_shown_add(&push->shown, message->session, message->login);
	} else {
		push_shown_remove(&push->shown, message->session, message->login);
	}
	message->attempts++;
	struct sending *sending = xcalloc(1, sizeof(*sending));
	sending->message = message;
	sending->target = target;
	sending->topic = make_topic(message);
	sender->message = sending;
	sender->now_s = clock_now_ms(push->config.clock) / 1000;
	sender_start(sender);
}

/** Whether an older message of the same login and session is being sent, and could arrive later. */
static bool is_blocked(const struct push *push, const struct push_message *message)
{
	for (size_t i = 0; i < SENDERS; i++) {
		const struct sending *other = push->senders.sender[i].message;
		if (other && is_same(other->message, message->login, message->session)) {
			return true;
		}
	}
	return false;
}

static int64_t handle_next(void *owner, struct sender *sender)
{
	struct push *push = owner;
	struct push_message *message;
	struct push_place place = push_queue_begin(&push->queue);
	while ((message = push_queue_next(&push->queue, &place))) {
		int64_t wait = message->due_ms - push_now_ms(push);
		if (wait > 0) {
			return wait;
		}
		if (!is_blocked(push, message)) {
			push_queue_take(&push->queue, message);
			begin(push, sender, message);
			return 0;
		}
	}
	return -1;
}

static const struct sender_ops push_sender_ops = {
	.next = handle_next,
	.make = make,
	.ended = handle_ended,
};

/* --- news --- */

struct telling {
	struct push *push;
	const char *session;
	enum push_news news;
};

static void tell_login(void *arg, const char *login, const struct grant *grant)
{
	const struct telling *telling = arg;
	struct push *push = telling->push;
	bool is_shown = push_shown_has(&push->shown, telling->session, login);
	enum push_news news = telling->news;
	drop_older(push, login, telling->session);
	if (news == NEWS_RUNNING || news == NEWS_OVER || !may_know(grant, telling->session, news)) {
		if (!is_shown) {
			return;
		}
		news = NEWS_OVER;
	}
	if (push_queue_count(&push->queue) >= push->config.limits->push_queue) {
		struct push_place first = push_queue_begin(&push->queue);
		struct push_message *oldest = push_queue_next(&push->queue, &first);
		push_queue_take(&push->queue, oldest);
		drop(push, oldest);
	}
	struct push_message *message = xcalloc(1, sizeof(*message));
	snprintf(message->login, sizeof(message->login), "%s", login);
	message->session = xstrdup(telling->session);
	message->news = news;
	message->due_ms = push_now_ms(push) + push->config.limits->push_delay_ms;
	push_queue_put(&push->queue, message);
}

static void free_busy(void *value, void *arg)
{
	struct busy *busy = value;
	if (busy) {
		free(busy->question);
		free(busy);
	}
}

static void note(struct push *push, const char *session, enum push_news news,
	const struct push_questions *questions)
{
	size_t len = strlen(session);
	free_busy(hash_remove(push->busy, session, len), NULL);
	if (news == NEWS_IDLE) {
		return;
	}
	struct busy *busy = xcalloc(1, sizeof(*busy));
	busy->news = news;
	busy->questions = questions->count;
	busy->question = questions->newest ? xstrdup(questions->newest) : NULL;
	hash_put(push->busy, session, len, busy);
}

/** Whether there is a question that was not told: the newest changes also when it is answered. */
static bool asks_anew(const struct busy *before, const struct push_questions *questions)
{
	return before->question && questions->newest && questions->count >= before->questions &&
	       strcmp(before->question, questions->newest) != 0;
}

static void tell(struct push *push, const char *session, enum push_news news)
{
	struct telling telling = {push, session, news};
	access_each_subscription(push->config.access, tell_login, &telling);
	push_shown_tidy(&push->shown, session, push->config.access);
	senders_run(&push->senders);
}

void push_session_changed(struct push *push, const char *session, const char *status,
	const struct push_questions *questions)
{
	struct busy before = busy_now(push, session);
	enum push_news news = news_of(status);
	if (!may_send(push)) {
		return;
	}
	bool is_news = news != before.news || asks_anew(&before, questions);
	note(push, session, news, questions); /* before.question is gone */
	if (is_news) {
		tell(push, session, news);
	}
}

void push_session_deleted(struct push *push, const char *session)
{
	if (may_send(push)) {
		note(push, session, NEWS_IDLE, NULL); /* queued messages are no longer true */
		tell(push, session, NEWS_OVER);
	}
}

/* --- life --- */

const char *push_public_key_of(const struct push *push)
{
	return push_key_public(push->key);
}

const char *push_fault(const struct push *push, const struct push_subscription *subscription)
{
	struct post_url url;
	struct push_target target;
	if (!post_url_parse(subscription->endpoint, 0, &url)) {
		return "the endpoint is not an https URL of a push service";
	}
	if (!push_rules_allow(push->config.rules, &url)) {
		return "the endpoint's host is not one that this server sends to (--push-host)";
	}
	return push_target_read(subscription->p256dh, subscription->auth, &target)
		       ? NULL
		       : "\"p256dh\" is not a key or \"auth\" not a secret";
}

static void free_push(struct push *push)
{
	push_key_destroy(push->key);
	SSL_CTX_free(push->tls);
	if (push->stop_fd >= 0) {
		close(push->stop_fd);
	}
	free(push);
}

static int open_files(struct push *push, char **ret_why)
{
	struct buffer secret = {0};
	const struct push_config *config = &push->config;
	push->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int r = config->shelf ? access_share_secret(config->data_dir, "push-key", config->shelf)
			      : 0;
	r = r < 0 ? r : access_read_secret(config->data_dir, "push-key", &secret);
	if (r == 0 && secret.len < 32) {
		r = -EINVAL;
	}
	push->key = r == 0 ? push_key_create(secret.data, secret.len) : NULL;
	if (secret.data) {
		OPENSSL_cleanse(secret.data, secret.len);
	}
	buffer_finish(&secret);
	if (!push->key) {
		*ret_why = xprintf("%s/push-key: %s", config->data_dir,
			r == -EINVAL
				? "a secret has at least 32 characters; remove the file, and the next start makes another: browsers subscribe again"
			: r < 0 ? file_error(-r)
				: "OpenSSL cannot make a key of it");
		return r < 0 ? r : -EIO;
	}
	push->tls = push->stop_fd >= 0 ? post_tls_create(config->rules->ca_file) : NULL;
	if (!push->tls) {
		*ret_why = xprintf("--push-ca: %s cannot be read, or has no certificates",
			config->rules->ca_file ? config->rules->ca_file : "the system's file");
		return -EINVAL;
	}
	return 0;
}

int push_create(const struct push_config *config, struct push **ret_push, char **ret_why)
{
	struct push *push = xcalloc(1, sizeof(*push));
	push->config = *config;
	push->stop_fd = -1;
	int r = open_files(push, ret_why);
	if (r < 0) {
		free_push(push);
		return r;
	}
	push->busy = hash_create();
	push_queue_init(&push->queue);
	push_shown_init(&push->shown);
	senders_init(&push->senders, &(struct senders_config){.loop = config->loop,
					     .life = config->life,
					     .ops = &push_sender_ops,
					     .owner = push,
					     .addresses = config->rules->addresses,
					     .address_count = config->rules->address_count,
					     .tls = push->tls,
					     .timeout_ms = config->limits->push_ms,
					     .stop_fd = push->stop_fd});
	*ret_push = push;
	return 0;
}

void push_stop(struct push *push)
{
	if (!push) {
		return;
	}
	eventfd_write(push->stop_fd, 1);
	senders_stop(&push->senders);
}

void push_destroy(struct push *push)
{
	if (!push) {
		return;
	}
	push_queue_finish(&push->queue);
	push_shown_finish(&push->shown);
	hash_each(push->busy, free_busy, NULL);
	hash_destroy(push->busy);
	free_push(push);
}
