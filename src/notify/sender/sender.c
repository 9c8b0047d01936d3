/* Threads that send what waits in a queue of their owner: see sender.h. */
#include "holdfast/sender.h"

#include "holdfast/worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RETRY_AFTER_MAX_S 3600

static bool may_send(const struct senders *senders)
{
	return server_may(senders->config.life, MAY_TELL);
}

static void handle_run(void *arg)
{
	struct sender *sender = arg;
	const struct senders_config *config = &sender->senders->config;
	struct buffer headers = {0};
	struct buffer body = {0};
	sender->retry_s = 0;
	int r = config->ops->make(config->owner, sender, &headers, &body);
	if (r == 0) {
		r = post_send(&(struct post){.addresses = config->addresses,
				      .address_count = config->address_count,
				      .tls = config->tls,
				      .url = &sender->url,
				      .headers = buffer_cstr(&headers),
				      .body = &body,
				      .timeout_ms = config->timeout_ms,
				      .stop_fd = config->stop_fd},
			sender->now_s, &sender->retry_s);
	}
	sender->result = r;
	buffer_finish(&headers);
	buffer_finish(&body);
}

static void end(struct sender *sender)
{
	if (sender->worker) {
		worker_destroy(sender->worker);
		sender->worker = NULL;
	}
}

static void handle_done(void *arg)
{
	struct sender *sender = arg;
	struct senders *senders = sender->senders;
	void *message = sender->message;
	sender->message = NULL;
	senders->config.ops->ended(senders->config.owner, sender, message);
	if (may_send(senders)) {
		senders_run(senders);
	} else {
		end(sender);
	}
}

static struct sender *find_free(struct senders *senders)
{
	for (size_t i = 0; i < SENDERS; i++) {
		if (!senders->sender[i].message) {
			return &senders->sender[i];
		}
	}
	return NULL;
}

static void handle_timer(uv_timer_t *timer)
{
	senders_run(timer->data);
}

void senders_run(struct senders *senders)
{
	struct sender *sender;
	int64_t wait = 0;
	while (!wait && may_send(senders) && (sender = find_free(senders))) {
		wait = senders->config.ops->next(senders->config.owner, sender);
	}
	if (wait > 0) {
		uv_timer_start(&senders->timer, handle_timer, (uint64_t)wait, 0);
	}
}

void sender_start(struct sender *sender)
{
	worker_start(sender->worker);
}

void sender_release(struct sender *sender)
{
	sender->message = NULL;
}

void senders_init(struct senders *senders, const struct senders_config *config)
{
	senders->config = *config;
	uv_timer_init(config->loop, &senders->timer);
	senders->timer.data = senders;
	for (size_t i = 0; i < SENDERS; i++) {
		struct sender *sender = &senders->sender[i];
		sender->senders = senders;
		sender->worker = worker_create(config->loop, handle_run, handle_done, sender);
	}
}

void senders_stop(struct senders *senders)
{
	uv_close((uv_handle_t *)&senders->timer, NULL);
	for (size_t i = 0; i < SENDERS; i++) {
		if (!senders->sender[i].message) {
			end(&senders->sender[i]);
		}
	}
}

void sender_describe(int result, const char *no_address, char ret[SENDER_DESCRIPTION_SIZE])
{
	if (result < 0) {
		snprintf(ret, SENDER_DESCRIPTION_SIZE, "%s",
			result == -EACCES ? no_address : strerror(-result));
	} else {
		snprintf(ret, SENDER_DESCRIPTION_SIZE, "answer %d", result);
	}
}

int64_t sender_pause_ms(unsigned attempts, int64_t first_ms, int64_t most_ms)
{
	int64_t pause = first_ms;
	for (unsigned i = 1; i < attempts && pause < most_ms; i++) {
		pause *= 2;
	}
	return pause < most_ms ? pause : most_ms;
}

int64_t sender_wanted_ms(const struct sender *sender)
{
	int64_t most = RETRY_AFTER_MAX_S;
	return 1000 * (sender->retry_s < most ? sender->retry_s : most);
}
