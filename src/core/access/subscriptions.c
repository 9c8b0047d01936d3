/* Push subscriptions: at most one per login, which ends with the login. */
#include "access_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void write_line(const struct login *login, struct buffer *out)
{
	buffer_printf(out, "{\"push\":{\"login\":\"%s\"", login->cookie_sum);
	if (login->push) {
		buffer_append_str(out, ",\"endpoint\":");
		buffer_append_json(out, login->push->endpoint, strlen(login->push->endpoint));
		buffer_printf(out, ",\"p256dh\":\"%s\",\"auth\":\"%s\"", login->push->p256dh,
			login->push->auth);
	}
	buffer_append_char(out, '}');
}

static void set(struct access *access, struct login *login, const struct push_subscription *push)
{
	login_forget_push(access, login);
	if (push) {
		login->push = xcalloc(1, sizeof(*login->push));
		login->push->endpoint = xstrdup(push->endpoint);
		login->push->p256dh = xstrdup(push->p256dh);
		login->push->auth = xstrdup(push->auth);
		access->push_count++;
	}
}

static void set_durably(struct access *access, struct login *login,
	const struct push_subscription *push, void (*done)(void *arg, int status), void *arg)
{
	struct buffer line = {0};
	set(access, login, push);
	write_line(login, &line);
	access_file_append(access, &line, done, arg);
}

void login_forget_push(struct access *access, struct login *login)
{
	if (login->push) {
		free(login->push->endpoint);
		free(login->push->p256dh);
		free(login->push->auth);
		free(login->push);
		login->push = NULL;
		access->push_count--;
	}
}

void access_take_push(struct access *access, const json_t *push)
{
	const char *id = json_string_value(json_object_get(push, "login"));
	struct login *login = id ? hash_get(access->logins, id, strlen(id)) : NULL;
	const struct push_subscription given = {
		.endpoint = (char *)json_string_value(json_object_get(push, "endpoint")),
		.p256dh = (char *)json_string_value(json_object_get(push, "p256dh")),
		.auth = (char *)json_string_value(json_object_get(push, "auth")),
	};
	if (login) {
		set(access, login, given.endpoint && given.p256dh && given.auth ? &given : NULL);
	}
}

/**
 * Removes the same subscription from other logins, so that a browser that has logged in again gets
 * each message once.
 */
static void take_from_others(
	struct access *access, const struct login *keeper, const char *endpoint)
{
	list_for_each(link, &access->login_list) {
		struct login *login = list_entry(link, struct login, link);
		if (login != keeper && login->push &&
			strcmp(login->push->endpoint, endpoint) == 0) {
			set_durably(access, login, NULL, NULL, NULL);
		}
	}
}

int access_subscribe(struct access *access, const char *cookie, const char *header,
	const struct push_subscription *push, size_t most, void (*done)(void *arg, int status),
	void *arg)
{
	struct login *login = login_find(access, cookie, header);
	if (!login) {
		return -ENOENT;
	}
	if (push) {
		take_from_others(access, login, push->endpoint);
	}
	if (push && !login->push && access->push_count >= most) {
		return -ENOSPC;
	}
	set_durably(access, login, push, done, arg);
	return 0;
}

bool access_is_subscribed(const struct access *access, const char *cookie, const char *header)
{
	const struct login *login = login_find(access, cookie, header);
	return login && login->push;
}

size_t access_subscriptions(const struct access *access)
{
	return access->push_count;
}

const struct push_subscription *access_subscription(
	struct access *access, const char *login_id, const struct grant **ret_grant)
{
	struct login *login = hash_get(access->logins, login_id, strlen(login_id));
	if (!login || !login->push || access_check_grant(access, login->grant) != TOKEN_GOOD) {
		return NULL;
	}
	*ret_grant = login->grant;
	return login->push;
}

void access_unsubscribe(struct access *access, const char *login_id)
{
	struct login *login = hash_get(access->logins, login_id, strlen(login_id));
	if (login && login->push) {
		set_durably(access, login, NULL, NULL, NULL);
	}
}

void access_each_subscription(struct access *access,
	void (*visit)(void *arg, const char *login_id, const struct grant *grant), void *arg)
{
	if (!access->push_count) {
		return;
	}
	list_for_each(link, &access->login_list) {
		struct login *login = list_entry(link, struct login, link);
		if (!login->push) {
			continue;
		}
		if (access_check_grant(access, login->grant) == TOKEN_GOOD) {
			visit(arg, login->cookie_sum, login->grant);
		} else {
			set_durably(access, login, NULL, NULL, NULL);
		}
	}
}
