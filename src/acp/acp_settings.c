#include "acp_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Settings that clients wish for: the agent's mode, and its options. They are asked for beside the
 * prompt, and what comes of them is told as if the agent had said it by itself. While its session
 * has not begun a wish waits, so that it is set when the next prompt comes.
 */

#define WISHES_MAX 16

struct wish {
	struct list link; /* acp_agent.wishes */
	struct acp_wish what; /* its strings are ours */
	json_int_t id; /* of our request; 0: it was not sent */
};

static void wish_free(struct acp_agent *agent, struct wish *wish)
{
	list_remove(&wish->link);
	agent->wishes.count--;
	free((char *)wish->what.mode_id);
	free((char *)wish->what.config_id);
	free((char *)wish->what.by);
	json_decref((json_t *)wish->what.value);
	free(wish);
}

static char *copy(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static bool is_same_setting(const struct acp_wish *a, const struct acp_wish *b)
{
	return a->mode_id ? b->mode_id != NULL
			  : b->config_id && !strcmp(a->config_id, b->config_id);
}

/** Of what was not sent yet, the newest wish counts. */
static void drop_unsent(struct acp_agent *agent, const struct acp_wish *what)
{
	list_for_each_safe(link, tmp, &agent->wishes.list) {
		struct wish *wish = list_entry(link, struct wish, link);
		if (!wish->id && is_same_setting(&wish->what, what)) {
			wish_free(agent, wish);
		}
	}
}

static void send_wish(struct acp_agent *agent, struct wish *wish)
{
	const struct acp_wish *what = &wish->what;
	json_t *params = json_pack("{s:s}", "sessionId", agent->session.id);
	if (what->mode_id) {
		json_object_set_new(params, "modeId", json_string(what->mode_id));
	} else {
		json_object_set_new(params, "configId", json_string(what->config_id));
		json_object_set(params, "value", (json_t *)what->value);
	}
	if (json_is_boolean(what->value)) {
		json_object_set_new(params, "type", json_string("boolean"));
	}
	struct buffer out = {0};
	wish->id = ++agent->session.last_id;
	json_rpc_request(&out, wish->id,
		what->mode_id ? "session/set_mode" : "session/set_config_option", params);
	acp_agent_send(agent, &out);
}

int acp_agent_set(struct acp_agent *agent, const struct acp_wish *what)
{
	drop_unsent(agent, what);
	if (agent->wishes.count == WISHES_MAX) {
		return -ENOBUFS;
	}
	struct wish *wish = xcalloc(1, sizeof(*wish));
	wish->what = (struct acp_wish){.mode_id = copy(what->mode_id),
		.config_id = copy(what->config_id),
		.value = what->value ? json_deep_copy(what->value) : NULL,
		.by = xstrdup(what->by)};
	list_append(&agent->wishes.list, &wish->link);
	agent->wishes.count++;
	if (agent->session.stage == ACP_READY) {
		send_wish(agent, wish);
	}
	return 0;
}

void acp_agent_send_wishes(struct acp_agent *agent)
{
	list_for_each(link, &agent->wishes.list) {
		struct wish *wish = list_entry(link, struct wish, link);
		if (!wish->id) {
			send_wish(agent, wish);
		}
	}
}

/** Gives the wish up, and tells whose it was. */
static void refuse(struct acp_agent *agent, struct wish *wish, const char *why)
{
	agent->ops->refused(agent->owner, &wish->what, why);
	wish_free(agent, wish);
}

void acp_agent_drop_wishes(struct acp_agent *agent)
{
	list_for_each_safe(link, tmp, &agent->wishes.list) {
		struct wish *wish = list_entry(link, struct wish, link);
		if (agent->destroying) {
			wish_free(agent, wish);
		} else if (wish->id) {
			refuse(agent, wish, "the agent stopped before it had answered");
		}
	}
}

/** Agents tell a new mode by a notification, or by this answer alone, or both. */
static void tell_mode(struct acp_agent *agent, const char *mode_id)
{
	static const char type[] = "x-acp-current_mode_update";
	json_t *data = json_pack("{s:s}", "current_mode_id", mode_id);
	if (!acp_agent_is_known_state(agent, type, data)) {
		agent->ops->event(agent->owner, type, data);
	}
	json_decref(data);
}

bool acp_agent_handle_set(struct acp_agent *agent, const json_t *message)
{
	const json_t *id = json_object_get(message, "id");
	const json_t *error = json_object_get(message, "error");
	list_for_each(link, &agent->wishes.list) {
		struct wish *wish = list_entry(link, struct wish, link);
		if (!wish->id || !json_is_integer(id) || json_integer_value(id) != wish->id) {
			continue;
		}
		if (error && !json_is_null(error)) {
			struct buffer words = {0};
			json_rpc_describe_error(&words, error);
			refuse(agent, wish, buffer_cstr(&words));
			buffer_finish(&words);
			return true;
		}
		if (wish->what.mode_id) {
			tell_mode(agent, wish->what.mode_id);
		}
		acp_agent_tell_options(agent, json_object_get(message, "result"));
		wish_free(agent, wish);
		return true;
	}
	return false;
}
