#include "holdfast/elicitation.h"

#include "holdfast/json_text.h"
#include "holdfast/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096 /* longest title, description, name or choice, in bytes */

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static bool is_text(const json_t *value, size_t most)
{
	return json_is_string(value) && json_string_length(value) <= most;
}

/* --- questions --- */

bool elicitation_url_is_good(const char *url)
{
	const char *rest = strncmp(url, "https://", 8) == 0  ? url + 8
			   : strncmp(url, "http://", 7) == 0 ? url + 7
							     : NULL;
	if (!rest || strlen(url) > ELICITATION_URL_MAX) {
		return false;
	}
	size_t host =
		strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");
	const char *end = rest + host;
	if (*end == ':') {
		size_t port = strspn(end + 1, "0123456789");
		if (!port || port > 5 || atoi(end + 1) > 65535) {
			return false;
		}
		end += 1 + port;
	}
	/* No credentials before the host, and only printable characters. */
	if (!host || *rest == '.' || *rest == '-' || strstr(rest, "..") == rest ||
		(*end && !strchr("/?#", *end))) {
		return false;
	}
	for (; *end; end++) {
		if (*end <= ' ' || *end > '~' || strchr("\"<>\\^`{|}", *end)) {
			return false;
		}
	}
	return true;
}

static void keep_text(json_t *out, const json_t *from, const char *name)
{
	if (is_text(json_object_get(from, name), TEXT_MAX)) {
		json_object_set(out, name, json_object_get(from, name));
	}
}

static void keep_number(json_t *out, const json_t *from, const char *name)
{
	if (json_is_number(json_object_get(from, name))) {
		json_object_set(out, name, json_object_get(from, name));
	}
}

/**
 * Copies a list of choices: strings, or objects `{const, title}`. Returns false if the list is
 * malformed; a missing list is fine.
 */
static bool keep_choices(json_t *out, const json_t *from, const char *name, bool is_titled)
{
	size_t i;
	json_t *choice;
	const json_t *list = json_object_get(from, name);
	if (!list || json_is_null(list)) {
		return true;
	}
	if (!json_is_array(list) || !json_array_size(list) ||
		json_array_size(list) > ELICITATION_CHOICES_MAX) {
		return false;
	}
	json_t *kept = json_array();
	json_array_foreach((json_t *)list, i, choice) {
		const json_t *value = is_titled ? json_object_get(choice, "const") : choice;
		if (!is_text(value, TEXT_MAX)) {
			json_decref(kept);
			return false;
		}
		json_t *item = is_titled ? json_object() : json_incref(choice);
		if (is_titled) {
			json_object_set(item, "const", (json_t *)value);
			keep_text(item, choice, "title");
		}
		json_array_append_new(kept, item);
	}
	json_object_set_new(out, name, kept);
	return true;
}

static bool keep_items(json_t *out, const json_t *field)
{
	const json_t *items = json_object_get(field, "items");
	json_t *kept = json_object();
	bool is_good = keep_choices(kept, items, "enum", false) &&
		       keep_choices(kept, items, "anyOf", true) && json_object_size(kept) == 1;
	json_object_set_new(kept, "type", json_string("string"));
	json_object_set_new(out, "items", kept);
	return is_good;
}

static bool is_one_of(const char *text, const char *const names[])
{
	while (*names && (!text || strcmp(*names, text) != 0)) {
		names++;
	}
	return *names != NULL;
}

/** Returns the sanitised field, or NULL if it cannot be filled in. */
static json_t *read_field(const json_t *field)
{
	static const char *const types[] = {
		"string", "number", "integer", "boolean", "array", NULL};
	static const char *const numbers[] = {
		"minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", NULL};
	const char *type = text_of(field, "type");
	const json_t *fallback = json_object_get(field, "default");
	if (!is_one_of(type, types)) {
		return NULL;
	}
	json_t *out = json_pack("{s:s}", "type", type);
	keep_text(out, field, "title");
	keep_text(out, field, "description");
	keep_text(out, field, "format");
	for (const char *const *name = numbers; *name; name++) {
		keep_number(out, field, *name);
	}
	bool is_good = strcmp(type, "array") == 0
			       ? keep_items(out, field)
			       : strcmp(type, "string") != 0 ||
					 (keep_choices(out, field, "enum", false) &&
						 keep_choices(out, field, "oneOf", true));
	if (fallback && !json_is_null(fallback) && !json_is_object(fallback)) {
		json_object_set(out, "default", (json_t *)fallback);
	}
	if (!is_good) {
		json_decref(out);
		return NULL;
	}
	return out;
}

static json_t *read_required(const json_t *schema, const json_t *fields)
{
	size_t i;
	json_t *name;
	json_t *out = json_array();
	json_array_foreach(json_object_get(schema, "required"), i, name) {
		if (json_is_string(name) && json_object_get(fields, json_string_value(name))) {
			json_array_append(out, name);
		}
	}
	return out;
}

static json_t *read_schema(const json_t *schema, const char **ret_why)
{
	const char *name;
	json_t *field;
	const json_t *fields = json_object_get(schema, "properties");
	json_t *kept = json_object();
	if (!json_is_object(schema) || (fields && !json_is_object(fields)) ||
		json_object_size(fields) > ELICITATION_FIELDS_MAX) {
		*ret_why =
			"an elicitation whose requestedSchema is not a form of at most 64 fields";
		json_decref(kept);
		return NULL;
	}
	json_object_foreach((json_t *)fields, name, field) {
		json_t *one = strlen(name) <= TEXT_MAX ? read_field(field) : NULL;
		if (!one) {
			*ret_why =
				"an elicitation with a field that is not a string, number, integer, boolean or choice of strings";
			json_decref(kept);
			return NULL;
		}
		json_object_set_new(kept, name, one);
	}
	json_t *out = json_pack("{s:s, s:o, s:o}", "type", "object", "properties", kept, "required",
		read_required(schema, kept));
	keep_text(out, schema, "title");
	keep_text(out, schema, "description");
	return out;
}

static json_t *read_mode(const json_t *params, json_t *out, const char **ret_why)
{
	const char *mode = text_of(params, "mode");
	const char *url = text_of(params, "url");
	const json_t *id = json_object_get(params, "elicitationId");
	if (mode && strcmp(mode, "form") == 0) {
		json_t *schema = read_schema(json_object_get(params, "requestedSchema"), ret_why);
		return schema && json_object_set_new(out, "requested_schema", schema) == 0 ? out
											   : NULL;
	}
	if (!mode || strcmp(mode, "url") != 0) {
		*ret_why = "an elicitation that is neither a form nor a URL";
		return NULL;
	}
	if (!url || !elicitation_url_is_good(url) || !is_text(id, ELICITATION_ID_MAX)) {
		*ret_why =
			"an elicitation without a valid http or https URL, or without an elicitationId";
		return NULL;
	}
	json_object_set(out, "elicitation_id", (json_t *)id);
	json_object_set_new(out, "url", json_string(url));
	return out;
}

json_t *elicitation_read(const json_t *params, const char *request_id, const char **ret_why)
{
	const json_t *message = json_object_get(params, "message");
	const char *mode = text_of(params, "mode");
	const json_t *call = json_object_get(params, "toolCallId");
	if (!json_is_string(message) || json_string_length(message) > ELICITATION_SIZE_MAX) {
		*ret_why = "an elicitation whose message is missing or too long";
		return NULL;
	}
	json_t *out = json_pack("{s:s, s:s, s:O}", "request_id", request_id, "mode",
		mode ? mode : "", "message", message);
	if (is_text(call, 1024) && json_string_length(call)) {
		json_object_set(out, "tool_call_id", (json_t *)call);
	}
	json_t *read = read_mode(params, out, ret_why);
	char *text = read ? json_dumps(read, JSON_COMPACT) : NULL;
	bool is_small = text && strlen(text) <= ELICITATION_SIZE_MAX;
	free(text);
	if (!is_small) {
		*ret_why = read ? "an elicitation that is too large" : *ret_why;
		json_decref(out);
		return NULL;
	}
	return out;
}

/* --- answers --- */

static bool has_choice(const json_t *list, const char *name, const json_t *value)
{
	size_t i;
	json_t *choice;
	json_array_foreach(json_object_get(list, name), i, choice) {
		const json_t *one =
			json_is_object(choice) ? json_object_get(choice, "const") : choice;
		if (json_equal(one, value)) {
			return true;
		}
	}
	return false;
}

/** Whether a value is one of the choices, or there are none. */
static bool is_chosen(const json_t *field, const json_t *value)
{
	static const char *const names[] = {"enum", "oneOf", "anyOf", NULL};
	bool has_any = false;
	for (const char *const *name = names; *name; name++) {
		has_any = has_any || json_object_get(field, *name);
		if (has_choice(field, *name, value)) {
			return true;
		}
	}
	return !has_any;
}

static bool is_within(const json_t *field, const char *least, const char *most, double value)
{
	const json_t *from = json_object_get(field, least);
	const json_t *to = json_object_get(field, most);
	return (!from || value >= json_number_value(from)) &&
	       (!to || value <= json_number_value(to));
}

static size_t count_characters(const json_t *value)
{
	const char *text = json_string_value(value);
	size_t count = 0;
	for (size_t i = 0; i < json_string_length(value); i++) {
		count += (text[i] & 0xc0) != 0x80;
	}
	return count;
}

static bool fits_list(const json_t *field, const json_t *value)
{
	size_t i;
	json_t *item;
	if (!json_is_array(value) ||
		!is_within(field, "minItems", "maxItems", (double)json_array_size(value)) ||
		json_array_size(value) > ELICITATION_CHOICES_MAX) {
		return false;
	}
	json_array_foreach((json_t *)value, i, item) {
		if (!json_is_string(item) || !is_chosen(json_object_get(field, "items"), item)) {
			return false;
		}
	}
	return true;
}

static bool fits(const json_t *field, const json_t *value)
{
	const char *type = text_of(field, "type");
	if (strcmp(type, "boolean") == 0) {
		return json_is_boolean(value);
	}
	if (strcmp(type, "array") == 0) {
		return fits_list(field, value);
	}
	if (strcmp(type, "string") == 0) {
		return json_is_string(value) && is_chosen(field, value) &&
		       is_within(field, "minLength", "maxLength", (double)count_characters(value));
	}
	/* To JSON Schema, 3.0 is an integer (draft 6 and later). */
	json_int_t whole;
	bool is_number = json_is_number(value) &&
			 (strcmp(type, "integer") != 0 || json_whole(value, &whole));
	return is_number && isfinite(json_number_value(value)) &&
	       is_within(field, "minimum", "maximum", json_number_value(value));
}

static int check_content(const json_t *schema, const json_t *content, struct refusal *refusal)
{
	size_t i;
	json_t *needed;
	const char *name;
	json_t *value;
	const json_t *fields = json_object_get(schema, "properties");
	json_object_foreach((json_t *)content, name, value) {
		const json_t *field = json_object_get(fields, name);
		if (!field || !fits(field, value)) {
			return refuse(refusal, ERROR_bad_request,
				field ? "the value of \"%.100s\" does not fit the form"
				      : "the form has no field \"%.100s\"",
				name);
		}
	}
	json_array_foreach(json_object_get(schema, "required"), i, needed) {
		if (!json_object_get(content, json_string_value(needed))) {
			return refuse(refusal, ERROR_bad_request, "the form needs \"%.100s\"",
				json_string_value(needed));
		}
	}
	return 0;
}

int elicitation_check(
	const json_t *question, const char *action, const json_t *content, struct refusal *refusal)
{
	const json_t *schema = json_object_get(question, "requested_schema");
	bool accepts = strcmp(action, "accept") == 0;
	if (!accepts && strcmp(action, "decline") != 0 && strcmp(action, "cancel") != 0) {
		return refuse(
			refusal, ERROR_bad_request, "the action must be accept, decline or cancel");
	}
	if (content && !json_is_object(content)) {
		return refuse(refusal, ERROR_bad_request, "content must be an object");
	}
	if (content && (!accepts || !schema)) {
		return refuse(refusal, ERROR_bad_request,
			"content is only allowed when a form is accepted");
	}
	return accepts && schema ? check_content(schema, content, refusal) : 0;
}
