#include "acp_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Settings that clients change: the agent's mode, its model, and its options. They are sent
 * independently of prompts, and changes are reported as if the agent had made them itself. Until
 * the session has begun a setting waits; it takes effect before the next prompt.
 *
 * A login is sent the same way, but the agent is started for it, because without a login it may not
 * begin a session; authenticate is sent as soon as the agent has announced its login methods.
 */

#define SETTINGS_MAX 16

struct setting {
	struct list link; /* acp_agent.settings */
	struct acp_setting what; /* its strings are owned */
	json_int_t id; /* of our request; 0: not sent yet */
};

static void setting_free(struct acp_agent *agent, struct setting *setting)
{
	list_remove(&setting->link);
	agent->settings.count--;
	free((char *)setting->what.id);
	free((char *)setting->what.by);
	free((char *)setting->what.sub);
	json_decref((json_t *)setting->what.value);
	free(setting);
}

static bool is_same_setting(const struct acp_setting *a, const struct acp_setting *b)
{
	return a->kind == b->kind && (a->kind != ACP_SET_OPTION || strcmp(a->id, b->id) == 0);
}

/** Drops unsent settings that the new one replaces. */
static void drop_unsent(struct acp_agent *agent, const struct acp_setting *what)
{
	list_for_each_safe(link, tmp, &agent->settings.list) {
		struct setting *setting = list_entry(link, struct setting, link);
		if (!setting->id && is_same_setting(&setting->what, what)) {
			setting_free(agent, setting);
		}
	}
}

static void send_setting(struct acp_agent *agent, struct setting *setting)
{
	static const struct {
		const char *method;
		const char *name;
	} of[] = {
		[ACP_SET_MODE] = {"session/set_mode", "modeId"},
		[ACP_SET_MODEL] = {"session/set_model", "modelId"},
		[ACP_SET_OPTION] = {"session/set_config_option", "configId"},
		[ACP_LOG_IN] = {"authenticate", "methodId"},
	};
	const struct acp_setting *what = &setting->what;
	json_t *params = json_object();
	if (what->kind != ACP_LOG_IN) {
		json_object_set_new(params, "sessionId", json_string(agent->session.id));
	}
	json_object_set_new(params, of[what->kind].name, json_string(what->id));
	if (what->kind == ACP_SET_OPTION) {
		json_object_set(params, "value", (json_t *)what->value);
	}
	if (json_is_boolean(what->value)) {
		json_object_set_new(params, "type", json_string("boolean"));
	}
	struct buffer out = {0};
	setting->id = ++agent->session.last_id;
	json_rpc_request(&out, setting->id, of[what->kind].method, params);
	acp_agent_send(agent, &out);
}

/** Finds the pending login that was sent, or was not; NULL: none. */
static struct setting *find_login(const struct acp_agent *agent, bool sent)
{
	list_for_each(link, &agent->settings.list) {
		struct setting *setting = list_entry(link, struct setting, link);
		if (setting->what.kind == ACP_LOG_IN && (setting->id != 0) == sent) {
			return setting;
		}
	}
	return NULL;
}

bool acp_agent_wants_login(const struct acp_agent *agent)
{
	return find_login(agent, false) != NULL;
}

bool acp_agent_log_in(struct acp_agent *agent)
{
	struct setting *login = find_login(agent, false);
	if (login) {
		agent->session.stage = ACP_LOGGING_IN;
		acp_agent_await(agent, agent->config.login_ms);
		send_setting(agent, login);
	}
	return login != NULL;
}

int acp_agent_set(struct acp_agent *agent, const struct acp_setting *what)
{
	if (what->kind == ACP_LOG_IN && (find_login(agent, true) || find_login(agent, false))) {
		return -EBUSY;
	}
	drop_unsent(agent, what);
	if (agent->settings.count == SETTINGS_MAX) {
		return -ENOBUFS;
	}
	struct setting *setting = xcalloc(1, sizeof(*setting));
	setting->what = (struct acp_setting){.kind = what->kind,
		.id = xstrdup(what->id),
		.value = what->value ? json_deep_copy(what->value) : NULL,
		.by = xstrdup(what->by),
		.sub = xstrdup(what->sub)};
	list_append(&agent->settings.list, &setting->link);
	agent->settings.count++;
	if (agent->session.stage == ACP_READY) {
		send_setting(agent, setting);
	} else if (agent->session.stage == ACP_IDLE && what->kind == ACP_LOG_IN) {
		acp_process_start(agent);
	}
	return 0;
}

void acp_agent_send_settings(struct acp_agent *agent)
{
	list_for_each(link, &agent->settings.list) {
		struct setting *setting = list_entry(link, struct setting, link);
		if (!setting->id) {
			send_setting(agent, setting);
		}
	}
}

/** Drops a setting and tells the client why. */
static void refuse(struct acp_agent *agent, struct setting *setting, const char *why)
{
	agent->ops->refused(agent->owner, &setting->what, why);
	setting_free(agent, setting);
}

void acp_agent_drop_settings(struct acp_agent *agent)
{
	list_for_each_safe(link, tmp, &agent->settings.list) {
		struct setting *setting = list_entry(link, struct setting, link);
		if (agent->destroying) {
			setting_free(agent, setting);
		} else if (setting->id || setting->what.kind == ACP_LOG_IN) {
			refuse(agent, setting, "the agent stopped before it had answered");
		}
	}
}

/** Reports a new mode. Agents announce it by a notification, by this answer alone, or both. */
static void tell_mode(struct acp_agent *agent, const char *mode_id)
{
	static const char type[] = "x-acp-current_mode_update";
	json_t *data = json_pack("{s:s}", "current_mode_id", mode_id);
	if (!acp_agent_is_known_state(agent, type, data)) {
		agent->ops->event(agent->owner, type, data);
	}
	json_decref(data);
}

static void handle_refusal(struct acp_agent *agent, struct setting *setting, const json_t *error)
{
	struct buffer words = {0};
	bool was_login = setting->what.kind == ACP_LOG_IN;
	json_rpc_describe_error(&words, error);
	refuse(agent, setting, buffer_cstr(&words));
	if (was_login && agent->session.stage == ACP_LOGGING_IN) {
		struct buffer why = {0};
		buffer_printf(&why, "authenticate: %s", buffer_cstr(&words));
		acp_agent_stop_for_login(agent, true, buffer_cstr(&why));
		buffer_finish(&why);
	}
	buffer_finish(&words);
}

/** Whether the agent has accepted a value for an option, and says itself that it is another one. */
static bool has_kept_another(const struct setting *setting, const json_t *result)
{
	size_t i;
	json_t *option;
	if (setting->what.kind != ACP_SET_OPTION) {
		return false;
	}
	json_array_foreach(json_object_get(result, "configOptions"), i, option) {
		const char *id = json_string_value(json_object_get(option, "id"));
		const json_t *value = json_object_get(option, "currentValue");
		if (id && value && strcmp(id, setting->what.id) == 0) {
			return !json_equal(value, setting->what.value);
		}
	}
	return false;
}

/** Reports what is set now. Who waits for a change that will not come hears that instead. */
static void handle_success(struct acp_agent *agent, struct setting *setting, const json_t *result)
{
	if (setting->what.kind == ACP_SET_MODE) {
		tell_mode(agent, setting->what.id);
	} else if (setting->what.kind == ACP_SET_MODEL) {
		acp_agent_tell_model(agent, setting->what.id);
	}
	acp_agent_tell_options(agent, result);
	if (setting->what.kind == ACP_LOG_IN) {
		acp_agent_tell_login(agent, &setting->what);
	}
	if (has_kept_another(setting, result)) {
		refuse(agent, setting, "the agent has accepted this, but kept another value");
	} else {
		setting_free(agent, setting);
	}
}

bool acp_agent_handle_set(struct acp_agent *agent, const json_t *message)
{
	const json_t *id = json_object_get(message, "id");
	const json_t *error = json_object_get(message, "error");
	list_for_each(link, &agent->settings.list) {
		struct setting *setting = list_entry(link, struct setting, link);
		if (!setting->id || !json_rpc_is_id(id, setting->id)) {
			continue;
		}
		if (error && !json_is_null(error)) {
			handle_refusal(agent, setting, error);
			return true;
		}
		handle_success(agent, setting, json_object_get(message, "result"));
		if (agent->session.stage == ACP_LOGGING_IN) {
			acp_agent_await(agent, agent->config.start_timeout_ms);
			acp_resume_begin(agent);
		}
		return true;
	}
	return false;
}
