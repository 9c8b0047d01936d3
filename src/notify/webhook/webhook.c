#include "webhook_internal.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* --- startup --- */

static struct hook *find_hook(const struct webhooks *webhooks, const char *name)
{
	for (size_t i = 0; i < webhooks->hook_count; i++) {
		if (strcmp(webhooks->hooks[i]->name, name) == 0) {
			return webhooks->hooks[i];
		}
	}
	return NULL;
}

/** Takes a line of the file. Lines of hooks that no longer exist are ignored. */
static void take_line(void *arg, const struct cursor_line *line)
{
	struct hook *hook = find_hook(arg, line->hook);
	if (hook && !line->session) {
		hook->is_known = true;
	} else if (hook) {
		struct track *track = hook_add_track(hook, line->session);
		track->epoch = line->epoch;
		track->seq = track->stored = line->seq;
	}
}

/**
 * Starts a new hook at the end of a session's log, and a known hook that lacks a cursor at its
 * start. A hook that is not known although it has cursors has lost its line: it keeps them.
 */
static void take_session(const struct session_object *object, void *arg)
{
	const struct webhooks *webhooks = arg;
	for (size_t i = 0; i < webhooks->hook_count; i++) {
		struct hook *hook = webhooks->hooks[i];
		if (!hook->is_known && !hash_get(hook->tracks, object->id, strlen(object->id))) {
			struct track *track = hook_add_track(hook, object->id);
			track->epoch = object->epoch;
			track->seq = track->stored = object->max_seq;
		}
		hook_note_head(hook, object->id, object->epoch, object->max_seq);
	}
}

struct keeping {
	const struct webhooks *webhooks;
	struct buffer *lines;
};

static bool keep_track(void *value, void *arg)
{
	struct track *track = value;
	const struct keeping *keeping = arg;
	struct session_table *sessions = keeping->webhooks->config.sessions;
	struct session_object object;
	size_t len = strlen(track->session);
	if (!session_table_get_object(sessions, track->session, len, &object) &&
		session_table_absence(sessions, track->session, len) == STORE_PRESENT) {
		free(track->session); /* the session was deleted while the server was down */
		free(track);
		return false;
	}
	if (track->stored) {
		cursors_append(keeping->lines, &(struct cursor_line){.hook = track->hook->name,
						       .session = track->session,
						       .epoch = track->epoch,
						       .seq = track->stored});
	}
	return true;
}

/** Rewrites the file with the current cursors. */
static void write_file(struct webhooks *webhooks)
{
	struct buffer lines = {0};
	struct keeping keeping = {webhooks, &lines};
	for (size_t i = 0; i < webhooks->hook_count; i++) {
		struct hook *hook = webhooks->hooks[i];
		cursors_append(&lines, &(struct cursor_line){.hook = hook->name});
		hash_filter(hook->tracks, keep_track, &keeping);
	}
	int r = cursors_begin(webhooks->cursors, &lines);
	if (r < 0) {
		diag(DIAG_WARN,
			"%s/webhooks.jsonl cannot be written: %s. After the next start, webhooks may get messages twice, and new URLs start over",
			webhooks->config.data_dir, strerror(-r));
	}
	buffer_finish(&lines);
}

static void add_hook(struct webhooks *webhooks, const char *url)
{
	struct hook *hook = xcalloc(1, sizeof(*hook));
	webhook_name(url, hook->name);
	webhook_url_read(
		webhooks->config.rules, url, &hook->url, &hook->addresses, &hook->address_count);
	hook_init(hook, webhooks);
	webhooks->hooks[webhooks->hook_count++] = hook;
}

/** Opens all that can fail, before anything is on the loop. */
static int open_files(struct webhooks *webhooks, char **ret_why)
{
	const struct webhook_rules *rules = webhooks->config.rules;
	int r = webhook_secrets_read(rules->secret_file, &webhooks->secrets, ret_why);
	if (r < 0) {
		return r;
	}
	webhooks->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	webhooks->tls = webhooks->stop_fd >= 0 ? post_tls_create(rules->ca_file) : NULL;
	if (!webhooks->tls) {
		*ret_why = xprintf("--webhook-ca: %s cannot be read, or has no certificates",
			rules->ca_file ? rules->ca_file : "the system's file");
		return -EINVAL;
	}
	return 0;
}

static void free_webhooks(struct webhooks *webhooks)
{
	for (size_t i = 0; i < webhooks->hook_count; i++) {
		hook_finish(webhooks->hooks[i]);
	}
	cursors_destroy(webhooks->cursors);
	SSL_CTX_free(webhooks->tls);
	if (webhooks->stop_fd >= 0) {
		close(webhooks->stop_fd);
	}
	OPENSSL_cleanse(&webhooks->secrets, sizeof(webhooks->secrets));
	free(webhooks);
}

int webhooks_create(
	const struct webhooks_config *config, struct webhooks **ret_webhooks, char **ret_why)
{
	struct webhooks *webhooks = xcalloc(1, sizeof(*webhooks));
	webhooks->config = *config;
	webhooks->stop_fd = -1;
	int r = open_files(webhooks, ret_why);
	if (r < 0) {
		free_webhooks(webhooks);
		return r;
	}
	for (char *const *url = config->rules->urls; *url; url++) {
		add_hook(webhooks, *url);
	}
	r = cursors_open(config->life, config->loop, config->data_dir, take_line, webhooks,
		&webhooks->cursors, ret_why);
	*ret_webhooks = webhooks; /* even if it fails: its handles on the loop have to be closed */
	if (r < 0) {
		return r;
	}
	session_table_each_object(config->sessions, take_session, webhooks);
	write_file(webhooks);
	for (size_t i = 0; i < webhooks->hook_count; i++) {
		hook_send_due(webhooks->hooks[i]);
	}
	return 0;
}

/* --- news --- */

void webhooks_set_secrets(struct webhooks *webhooks, const struct webhook_secrets *secrets)
{
	if (webhooks) {
		webhooks->secrets = *secrets;
	}
}

void webhooks_session_changed(struct webhooks *webhooks, const struct session *session)
{
	struct session_object object;
	if (!webhooks || !server_may(webhooks->config.life, MAY_TELL)) {
		return;
	}
	session_get_object(session, &object);
	for (size_t i = 0; i < webhooks->hook_count; i++) {
		hook_note_head(webhooks->hooks[i], object.id, object.epoch, object.max_seq);
		hook_send_due(webhooks->hooks[i]);
	}
}

void webhooks_session_deleted(struct webhooks *webhooks, const char *session_id)
{
	if (!webhooks || !server_may(webhooks->config.life, MAY_TELL)) {
		return;
	}
	for (size_t i = 0; i < webhooks->hook_count; i++) {
		hook_forget(webhooks->hooks[i], session_id);
		hook_send_due(webhooks->hooks[i]);
	}
	cursors_forget(webhooks->cursors, session_id);
}

/* --- shutdown --- */

void webhooks_stop(struct webhooks *webhooks)
{
	if (!webhooks) {
		return;
	}
	eventfd_write(webhooks->stop_fd, 1);
	for (size_t i = 0; i < webhooks->hook_count; i++) {
		hook_stop(webhooks->hooks[i]);
	}
	if (webhooks->cursors) {
		cursors_stop(webhooks->cursors);
	}
}

void webhooks_destroy(struct webhooks *webhooks)
{
	if (webhooks) {
		free_webhooks(webhooks);
	}
}
