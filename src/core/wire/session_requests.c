/* Parses the requests that create and label sessions. */
#include "requests_internal.h"

#include <errno.h>
#include <string.h>

#define CWD_MAX ((size_t)4095) /* bytes; PATH_MAX without the NUL */

static int check_cwd(const json_t *cwd, struct refusal *refusal)
{
	const char *path = json_string_value(cwd);
	if (path && (*path != '/' || json_string_length(cwd) > CWD_MAX ||
			    strlen(path) != json_string_length(cwd))) {
		return refuse(refusal, ERROR_bad_directory,
			"\"cwd\" must be an absolute path of at most %zu bytes", CWD_MAX);
	}
	return 0;
}

static int check_session(const json_t *json, const struct limits *limits, struct refusal *refusal)
{
	static const char *const names[] = {"id", "title", "agent", "cwd", NULL};
	const json_t *id = json_object_get(json, "id");
	int r = json_check_names(json, "the body", names, refusal);
	bool are_strings = json_is_object(json);
	for (size_t i = 0; names[i]; i++) {
		const json_t *value = json_object_get(json, names[i]);
		are_strings = are_strings && (!value || json_is_string(value));
	}
	if (r < 0) {
		return r;
	}
	if (!are_strings) {
		return refuse(refusal, ERROR_bad_request,
			"the body must be an object with \"id\", \"title\", \"agent\" and \"cwd\", strings, all optional");
	}
	if (id && !session_id_is_valid(json_string_value(id), json_string_length(id))) {
		return refuse(refusal, ERROR_bad_session_id,
			"a session id matches [A-Za-z0-9._-]{1,128} and does not begin with a dot");
	}
	if (json_string_length(json_object_get(json, "title")) > limits->title_size) {
		return refuse_limit(refusal, LIMIT_title_size, "a title may have at most %zu bytes",
			limits->title_size);
	}
	return check_cwd(json_object_get(json, "cwd"), refusal);
}

int session_request_parse(const char *text, size_t len, const struct limits *limits,
	json_t **ret_json, struct session_request *ret, struct refusal *refusal)
{
	*refusal = (struct refusal){0};
	json_t *json = len ? json_parse(text, len, NULL, refusal) : json_object();
	if (!json) {
		return -EINVAL;
	}
	int r = check_session(json, limits, refusal);
	if (r < 0) {
		json_decref(json);
		return r;
	}
	*ret_json = json;
	*ret = (struct session_request){
		.id = json_string_value(json_object_get(json, "id")),
		.title = json_string_value(json_object_get(json, "title")),
		.agent = json_string_value(json_object_get(json, "agent")),
		.cwd = json_string_value(json_object_get(json, "cwd")),
	};
	return 0;
}

static int check_labels(const json_t *json, const struct limits *limits, struct refusal *refusal)
{
	const json_t *title = json_object_get(json, "title");
	const json_t *archived = json_object_get(json, "archived");
	const json_t *pinned = json_object_get(json, "pinned");
	bool has_any = title || archived || pinned;
	bool is_text = !title || json_is_null(title) || json_string_length(title) > 0;
	if (!has_any || !is_text || (archived && !json_is_boolean(archived)) ||
		(pinned && !json_is_boolean(pinned))) {
		return refuse(refusal, ERROR_bad_request,
			"the body must be an object with at least one of \"title\" (a non-empty string, or null), \"archived\" and \"pinned\" (true or false)");
	}
	if (json_string_length(title) > limits->title_size) {
		return refuse_limit(refusal, LIMIT_title_size, "a title may have at most %zu bytes",
			limits->title_size);
	}
	return 0;
}

static int flag_of(const json_t *json, const char *name)
{
	const json_t *value = json_object_get(json, name);
	return value ? json_is_true(value) : -1;
}

int labels_request_parse(const char *text, size_t len, const struct limits *limits,
	json_t **ret_json, struct labels_change *ret, struct refusal *refusal)
{
	*refusal = (struct refusal){0};
	json_t *json = json_parse(len ? text : "", len, NULL, refusal);
	if (!json) {
		return -EINVAL;
	}
	int r = json_check_names(json, "the body",
		(const char *const[]){"title", "archived", "pinned", NULL}, refusal);
	r = r < 0 ? r : check_labels(json, limits, refusal);
	if (r < 0) {
		json_decref(json);
		return r;
	}
	const json_t *title = json_object_get(json, "title");
	*ret_json = json;
	*ret = (struct labels_change){
		.has_title = title != NULL,
		.title = json_string_value(title),
		.archived = flag_of(json, "archived"),
		.pinned = flag_of(json, "pinned"),
	};
	return 0;
}
