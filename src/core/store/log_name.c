/* Writes and parses the lines of keys.jsonl. Pure. */
#include "store_internal.h"

#include "holdfast/json_text.h"
#include "holdfast/sealed_line.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/** The number of a kind; 0 if this version does not know it. */
static unsigned find_kind(const struct store_facts *facts, const char *name, size_t len)
{
	for (unsigned i = 1; i < facts->name_kind_count; i++) {
		const char *known = facts->name_kinds[i].name;
		if (known && strlen(known) == len && memcmp(known, name, len) == 0) {
			return i;
		}
	}
	return 0;
}

int log_name_parse(const struct store_facts *facts, const char *line, size_t len,
	struct log_name *ret_name, json_t **ret_json)
{
	size_t body;
	*ret_json = NULL;
	if (!sealed_line_check(line, len, &body)) {
		return -EBADMSG;
	}
	json_t *json = json_loadb(line, len, 0, NULL);
	const char *kind = json_string_value(json_object_get(json, "kind"));
	const char *key = json_string_value(json_object_get(json, "key"));
	const char *by = json_string_value(json_object_get(json, "by"));
	const char *sum = json_string_value(json_object_get(json, "sum"));
	json_int_t rule = json_integer_value(json_object_get(json, "rule"));
	json_int_t seq = json_integer_value(json_object_get(json, "seq"));
	*ret_name = (struct log_name){.kind = kind ? find_kind(facts, kind, strlen(kind)) : 0,
		.seq = (uint64_t)seq,
		.key = key,
		.by = by ? by : "",
		.sum = {.value = sum ? strtoull(sum, NULL, 16) : 0, .rule = (unsigned)rule}};
	bool has_event = facts->name_kinds[ret_name->kind].is_of_event;
	if (!kind || (ret_name->kind && !key) || seq < has_event) {
		json_decref(json);
		return -EBADMSG;
	}
	*ret_json = json;
	return 0;
}

static bool skip(const char **at, const char *end, const char *text)
{
	size_t len = strlen(text);
	if ((size_t)(end - *at) < len || memcmp(*at, text, len) != 0) {
		return false;
	}
	*at += len;
	return true;
}

/** Skips the rest of a JSON string and its closing quote; false if that is missing. */
static bool skip_string(const char **at, const char *end, size_t *ret_len)
{
	const char *start = *at;
	while (*at < end && **at != '"') {
		*at += **at == '\\' ? 2 : 1;
	}
	*ret_len = (size_t)(*at - start);
	return *at < end && skip(at, end, "\"");
}

/** Reads the optional members after the key. */
static void scan_rest(const char *at, const char *end, struct raw_name *ret)
{
	if (skip(&at, end, ",\"by\":\"")) {
		ret->by = at;
		if (!skip_string(&at, end, &ret->by_len)) {
			ret->by_len = 0;
			return;
		}
	}
	/* No bounds check is needed: the line's seal follows, and ends every number. */
	if (skip(&at, end, ",\"sum\":\"")) {
		ret->sum.value = strtoull(at, NULL, 16);
		at += strspn(at, "0123456789abcdef");
		skip(&at, end, "\"");
	}
	if (skip(&at, end, ",\"rule\":")) {
		ret->sum.rule = (unsigned)strtoul(at, NULL, 10);
	}
}

int log_name_scan(
	const struct store_facts *facts, const char *line, size_t len, struct raw_name *ret)
{
	size_t body;
	const char *end = line + len;
	*ret = (struct raw_name){.by = ""};
	if (!sealed_line_check(line, len, &body)) {
		return -EBADMSG;
	}
	const char *at = line;
	size_t kind_len = skip(&at, end, "{\"kind\":\"") ? strcspn(at, "\"\n") : 0;
	const char *kind = at;
	if (!kind_len) {
		return 0; /* from a later version */
	}
	at += kind_len;
	if (!skip(&at, end, "\",\"seq\":")) {
		return 0;
	}
	ret->seq = strtoull(at, NULL, 10);
	at += strspn(at, "0123456789");
	if (!skip(&at, end, ",\"key\":\"")) {
		return 0;
	}
	ret->key = at;
	if (skip_string(&at, end, &ret->key_len)) {
		ret->kind = find_kind(facts, kind, kind_len);
		scan_rest(at, end, ret);
	}
	return 0;
}

void name_line_append(struct buffer *out, const struct name_kind *kinds,
	const struct log_name *name, struct raw_name *ret)
{
	const struct name_kind *kind = &kinds[name->kind];
	size_t start = out->len;
	buffer_printf(out, "{\"kind\":\"%s\",\"seq\":%llu,\"key\":", kind->name,
		(unsigned long long)name->seq);
	size_t key = out->len;
	buffer_append_json(out, name->key, strlen(name->key));
	size_t key_end = out->len;
	size_t by = 0;
	if (*name->by) {
		buffer_append_str(out, ",\"by\":");
		by = out->len;
		buffer_append_json(out, name->by, strlen(name->by));
	}
	size_t by_end = out->len;
	if (kind->has_sum) {
		buffer_printf(out, ",\"sum\":\"%016llx\"", (unsigned long long)name->sum.value);
	}
	if (name->sum.rule) {
		buffer_printf(out, ",\"rule\":%u", name->sum.rule);
	}
	sealed_line_end(out, start);
	*ret = (struct raw_name){.kind = name->kind,
		.key = out->data + key + 1,
		.key_len = key_end - key - 2,
		.by = by ? out->data + by + 1 : "",
		.by_len = by ? by_end - by - 2 : 0,
		.seq = name->seq,
		.sum = name->sum};
}
