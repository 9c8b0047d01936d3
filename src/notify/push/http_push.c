/* The push subscription of a login (proto/access.md#push-messages). */
#include "holdfast/http_exchange.h"
#include "holdfast/door_push.h"

#include "holdfast/push.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void get_push(struct conn *conn)
{
	char cookie[LOGIN_HALF_SIZE];
	char half[LOGIN_HALF_SIZE];
	struct buffer body = {0};
	struct push *push = http_door_state(conn);
	bool has = push && http_login_halves(conn, cookie, half) &&
		   access_is_subscribed(conn_access(conn), cookie, half);
	if (push) {
		buffer_printf(&body, "{\"key\":\"%s\",\"subscribed\":%s}", push_public_key_of(push),
			has ? "true" : "false");
	} else {
		buffer_append_str(&body, "{\"key\":null,\"subscribed\":false}");
	}
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

/**
 * Reads a browser's subscription; its strings are borrowed from `json`. Returns NULL if the body
 * is something else. It is what PushSubscription.toJSON() gives (Push API, section 8), which has
 * expirationTime, too: it is ignored, as the push service answers 410 once a subscription has ended.
 */
static const char *read_subscription(const json_t *json, struct push_subscription *ret)
{
	const json_t *keys = json_object_get(json, "keys");
	const json_t *ends = json_object_get(json, "expirationTime");
	*ret = (struct push_subscription){
		.endpoint = (char *)json_string_value(json_object_get(json, "endpoint")),
		.p256dh = (char *)json_string_value(json_object_get(keys, "p256dh")),
		.auth = (char *)json_string_value(json_object_get(keys, "auth")),
	};
	bool is_whole = json_object_size(json) == (ends ? 3 : 2) && json_object_size(keys) == 2 &&
			(!ends || json_is_null(ends) || json_is_number(ends));
	return is_whole && ret->endpoint && ret->p256dh ? ret->auth : NULL;
}

/** Stores the subscription of the login, or removes it if `subscription` is NULL. */
static void set_push(struct conn *conn, const struct push_subscription *subscription)
{
	char cookie[LOGIN_HALF_SIZE];
	char half[LOGIN_HALF_SIZE];
	if (!http_login_halves(conn, cookie, half)) {
		http_refuse(conn, ERROR_bad_request,
			"push messages belong to the login of a browser; log in first");
		return;
	}
	struct login_answer *answer = http_await(conn);
	int r = access_subscribe(conn_access(conn), cookie, half, subscription,
		conn_limits(conn)->push_subscriptions, http_answer_kept, answer);
	if (r < 0) {
		http_await_nothing(answer);
	}
	if (r == -ENOSPC) {
		http_refuse_limit(conn, LIMIT_push_subscriptions,
			"no more browsers can have push messages until one switches them off");
	} else if (r < 0) {
		http_refuse(conn, ERROR_bad_request, "the login has ended");
	}
}

static void post_push(struct conn *conn)
{
	struct push_subscription subscription;
	json_t *json = json_loadb(http_body(conn)->data ? http_body(conn)->data : "",
		http_body(conn)->len, JSON_REJECT_DUPLICATES, NULL);
	const char *fault =
		read_subscription(json, &subscription)
			? push_fault(http_door_state(conn), &subscription)
			: "the body must be {\"endpoint\": string, \"keys\": {\"p256dh\": string, \"auth\": string}}";
	if (fault) {
		http_refuse(conn, ERROR_bad_request, fault);
	} else {
		set_push(conn, &subscription);
	}
	json_decref(json);
}

static void serve(struct conn *conn)
{
	bool is_get = http_method_of(conn) == HTTP_GET || http_method_of(conn) == HTTP_HEAD;
	if (is_get) {
		get_push(conn);
	} else if (!http_door_state(conn)) {
		http_refuse(conn, ERROR_bad_request,
			"this server sends no push messages (--push-host off, or --auth off)");
	} else if (http_method_of(conn) == HTTP_POST) {
		post_push(conn);
	} else {
		set_push(conn, NULL);
	}
}

static const struct route routes[] = {
	{"/api/push", "GET, POST, DELETE", .body = BODY_JSON, .serve = serve},
	{0},
};

static void set_gauges(void *state)
{
	if (state) {
		push_count(state);
	}
}

const struct door door_push = {.routes = routes, .set_gauges = set_gauges};
