#include "remote.h"

#include "holdfast/command.h"

#include "holdfast/access.h"
#include "holdfast/diag.h"
#include "holdfast/requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int take_url(struct remote *remote, const char *const values[])
{
	char *noted = values[REMOTE_URL] ? NULL : access_read_command_url(values[REMOTE_DATA]);
	const char *url = values[REMOTE_URL] ? values[REMOTE_URL] : noted;
	int r = 0;
	if (!url) {
		diag(DIAG_ERROR,
			"no server runs with the data directory %s: give its --data, or --url",
			values[REMOTE_DATA]);
		r = -EINVAL;
	} else if (http_parse_url(url, &remote->url) < 0) {
		diag(DIAG_ERROR,
			"\"%s\" is not the address of a server; expected http://, https:// or unix:PATH",
			url);
		r = -EINVAL;
	}
	remote->url.is_own = noted != NULL;
	free(noted);
	return r;
}

int remote_open(struct remote *remote, const char *const values[])
{
	*remote = (struct remote){0};
	int r = take_url(remote, values);
	if (r < 0) {
		return r;
	}
	/* The token in the data directory is for its own server only. */
	const char *env = getenv("HOLDFAST_TOKEN");
	bool uses_data = remote->url.is_own && !(env && *env);
	r = tool_find_token(
		values[REMOTE_TOKEN_FILE], uses_data ? values[REMOTE_DATA] : NULL, &remote->token);
	remote->url.token = remote->token;
	return r;
}

void remote_finish(struct remote *remote)
{
	free(remote->token);
}

bool remote_check_id(const char *id)
{
	bool is_good = session_id_is_valid(id, strlen(id));
	if (!is_good) {
		diag(DIAG_ERROR, "\"%s\" is not a valid session id", id);
	}
	return is_good;
}

static void tell_refusal(int status, const json_t *answer)
{
	const json_t *error = json_object_get(answer, "error");
	const char *code = json_string_value(json_object_get(error, "code"));
	const char *message = json_string_value(json_object_get(error, "message"));
	diag(DIAG_ERROR, "%s (%s, status %d)", message ? message : "the server refused the request",
		code ? code : "no code", status);
}

int remote_request(const struct remote *remote, const char *method, const char *path,
	const char *content_type, const char *body, size_t len, json_t **ret_answer)
{
	int status = 0;
	struct buffer answer = {0};
	char *why = NULL;
	int r = http_request(
		&remote->url, method, path, content_type, body, len, &status, &answer, &why);
	*ret_answer = NULL;
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why);
	} else {
		*ret_answer = json_read(answer.data ? answer.data : "", answer.len, 0, NULL, NULL);
	}
	if (r == 0 && (status < 200 || status > 299 || !*ret_answer)) {
		tell_refusal(status, *ret_answer);
		json_decref(*ret_answer);
		*ret_answer = NULL;
		r = -EPROTO;
	}
	free(why);
	buffer_finish(&answer);
	return r;
}

int remote_make_session(const struct remote *remote, const char *id)
{
	int status = 0;
	struct buffer answer = {0};
	char *why = NULL;
	char *body = xprintf("{\"id\":\"%s\"}", id);
	int r = http_request(&remote->url, "POST", "/api/sessions", "application/json", body,
		strlen(body), &status, &answer, &why);
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why);
	} else if (status != 201 && status != 409) {
		json_t *json = json_read(answer.data ? answer.data : "", answer.len, 0, NULL, NULL);
		tell_refusal(status, json);
		json_decref(json);
		r = -EPROTO;
	}
	free(body);
	free(why);
	buffer_finish(&answer);
	return r;
}
