/* Lines, JSON-RPC parsing and the translation of updates: bytes in, calls out, no process. */
#include "agents/acp/acp_updates.h"
#include "holdfast/diag.h"
#include "holdfast/json_rpc.h"
#include "holdfast/utf8.h"
#include "corpus.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Everything that is reported, one line a call. */
struct record {
	struct buffer lines;
	struct buffer text; /* of messages and thoughts, joined */
	size_t texts;
	size_t events;
};

static void record_text(
	void *owner, bool thought, const char *text, size_t len, const char *message_id)
{
	struct record *r = owner;
	assert_true(len > 0);
	assert_int_equal(utf8_prefix(text, len, len), len);
	buffer_printf(&r->lines, "%s[%s] %.*s\n", thought ? "thought" : "text",
		message_id ? message_id : "", (int)len, text);
	buffer_append(&r->text, text, len);
	r->texts++;
}

static void record_event(void *owner, const char *type, const json_t *data)
{
	struct record *r = owner;
	char *json = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS);
	assert_non_null(json);
	buffer_printf(&r->lines, "%s %s\n", type, json);
	free(json);
	r->events++;
}

static const struct acp_agent_ops record_ops = {.text = record_text, .event = record_event};

static void record_finish(struct record *r)
{
	buffer_finish(&r->lines);
	buffer_finish(&r->text);
}

static json_t *parse(const char *text)
{
	char *line = strdup(text);
	json_error_t error;
	json_t *value = json_rpc_parse(line, strlen(line), NULL, &error);
	free(line);
	return value;
}

static int report(const char *update, struct record *r)
{
	json_t *value = parse(update);
	assert_non_null(value);
	const char *why = NULL;
	int err = acp_update_report(value, &record_ops, r, &why);
	assert_int_equal(err < 0, why != NULL);
	json_decref(value);
	return err;
}

static void expect_report(const char *update, const char *expected)
{
	struct record r = {0};
	assert_int_equal(report(update, &r), 0);
	assert_string_equal(buffer_cstr(&r.lines), expected);
	record_finish(&r);
}

static void expect_nothing(const char *update, int result)
{
	struct record r = {0};
	assert_int_equal(report(update, &r), result);
	assert_int_equal(r.lines.len, 0);
	record_finish(&r);
}

static void test_chunks(void **state)
{
	expect_report("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\","
		      "\"text\":\"hi\"}}",
		"text[] hi\n");
	expect_report("{\"sessionUpdate\":\"agent_thought_chunk\",\"messageId\":\"m1\",\"content\":"
		      "{\"type\":\"text\",\"text\":\"hm\"}}",
		"thought[m1] hm\n");
	expect_report("{\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":7,\"content\":"
		      "{\"type\":\"text\",\"text\":\"x\"}}",
		"text[] x\n");
	expect_nothing("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\","
		       "\"text\":\"\"}}",
		1);
	expect_nothing("{\"sessionUpdate\":\"user_message_chunk\",\"content\":{\"type\":\"text\","
		       "\"text\":\"q\"}}",
		1);
	expect_report("{\"sessionUpdate\":\"agent_thought_chunk\",\"messageId\":\"m\",\"content\":"
		      "{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"AA==\"}}",
		"x-acp-content {\"content\":{\"data\":\"AA==\",\"mime_type\":\"image/png\",\"type\":\"image\"},"
		"\"message_id\":\"m\",\"thought\":true}\n");
}

static void test_content_kinds(void **state)
{
	static const struct {
		const char *content;
		const char *expected;
	} kinds[] = {
		{"{\"type\":\"audio\",\"mimeType\":\"audio/wav\",\"data\":\"AA==\"}",
			"{\"data\":\"AA==\",\"mime_type\":\"audio/wav\",\"type\":\"audio\"}"},
		{"{\"type\":\"resource\",\"resource\":{\"uri\":\"file:///a\",\"mimeType\":\"text/"
		 "x\","
		 "\"text\":\"t\"},\"annotations\":{\"lastModified\":\"now\",\"priority\":1}}",
			"{\"annotations\":{\"last_modified\":\"now\",\"priority\":1},\"resource\":"
			"{\"mime_type\":\"text/x\",\"text\":\"t\",\"uri\":\"file:///a\"},\"type\":"
			"\"resource\"}"},
		{"{\"type\":\"resource\",\"resource\":{\"uri\":\"b\",\"blob\":\"AA==\"}}",
			"{\"resource\":{\"blob\":\"AA==\",\"uri\":\"b\"},\"type\":\"resource\"}"},
		{"{\"type\":\"resource_link\",\"uri\":\"b\",\"name\":\"n\",\"size\":5}",
			"{\"name\":\"n\",\"size\":5,\"type\":\"resource_link\",\"uri\":\"b\"}"},
		{"{\"type\":\"hologram\",\"x\":[1]}", "{\"type\":\"hologram\",\"x\":[1]}"},
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		char update[512];
		char expected[512];
		snprintf(update, sizeof(update),
			"{\"sessionUpdate\":\"agent_message_chunk\",\"content\":%s}",
			kinds[i].content);
		snprintf(expected, sizeof(expected), "x-acp-content {\"content\":%s}\n",
			kinds[i].expected);
		expect_report(update, expected);
		/* In a tool call too. */
		snprintf(update, sizeof(update),
			"{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c\",\"content\":"
			"[{\"type\":\"content\",\"content\":%s}]}",
			kinds[i].content);
		snprintf(expected, sizeof(expected),
			"tool_call_update {\"content\":[{\"content\":%s,\"type\":\"content\"}],"
			"\"tool_call_id\":\"c\"}\n",
			kinds[i].expected);
		expect_report(update, expected);
	}
}

static void test_tool_calls(void **state)
{
	expect_report(
		"{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\",\"title\":\"T\",\"kind\":"
		"\"edit\","
		"\"status\":\"pending\",\"rawInput\":{\"oldText\":1,\"mimeType\":{\"toolCallId\":2}"
		"},"
		"\"_meta\":{\"toolCallId\":{\"rawInput\":3}},\"content\":[{\"type\":\"diff\","
		"\"path\":\"/p\","
		"\"oldText\":null,\"newText\":\"n\"},{\"type\":\"terminal\",\"terminalId\":\"t\"}],"
		"\"locations\":[{\"path\":\"/p\",\"line\":3}]}",
		"tool_call {\"_meta\":{\"toolCallId\":{\"rawInput\":3}},\"content\":[{\"new_text\":\"n\","
		"\"old_text\":null,\"path\":\"/"
		"p\",\"type\":\"diff\"},{\"terminal_id\":\"t\",\"type\":\"terminal\"}],"
		"\"kind\":\"edit\",\"locations\":[{\"line\":3,\"path\":\"/p\"}],"
		"\"raw_input\":{\"mimeType\":{\"toolCallId\":2},\"oldText\":1},\"status\":"
		"\"pending\","
		"\"title\":\"T\",\"tool_call_id\":\"c\"}\n");
	/* A call without a title has its kind for one. */
	expect_report("{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\",\"kind\":\"read\"}",
		"tool_call {\"kind\":\"read\",\"title\":\"read\",\"tool_call_id\":\"c\"}\n");
	expect_report("{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\",\"title\":null}",
		"tool_call {\"title\":\"tool call\",\"tool_call_id\":\"c\"}\n");
	/* An update without its call, and with nulls, which mean "unchanged". */
	expect_report("{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c\",\"title\":null,"
		      "\"rawOutput\":null,\"status\":\"completed\"}",
		"tool_call_update {\"status\":\"completed\",\"tool_call_id\":\"c\"}\n");
	/* Optional fields of another type and list items that do not fit are left out. */
	expect_report(
		"{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\",\"title\":\"T\",\"kind\":5,"
		"\"content\":[7,{\"type\":\"diff\"},{\"type\":\"content\",\"content\":{\"type\":"
		"\"text\","
		"\"text\":\"x\"}},{\"type\":\"new\"}],\"locations\":{},\"tool_call_id\":{}}",
		"tool_call {\"content\":[{\"content\":{\"text\":\"x\",\"type\":\"text\"},\"type\":"
		"\"content\"},"
		"{\"type\":\"new\"}],\"title\":\"T\",\"tool_call_id\":\"c\"}\n");
}

static void test_other_kinds(void **state)
{
	expect_report(
		"{\"sessionUpdate\":\"plan\",\"entries\":[{\"content\":\"a\",\"priority\":\"high\","
		"\"status\":\"pending\"},{\"content\":1}]}",
		"plan {\"entries\":[{\"content\":\"a\",\"priority\":\"high\",\"status\":\"pending\"}]}"
		"\n");
	expect_report("{\"sessionUpdate\":\"usage_update\",\"used\":5,\"size\":9,"
		      "\"cost\":{\"amount\":0.5,\"currency\":\"USD\"}}",
		"usage {\"cost\":{\"amount\":0.5,\"currency\":\"USD\"},\"mode\":\"cumulative\",\"size\":"
		"9,\"used\":5}\n");
	expect_report("{\"sessionUpdate\":\"current_mode_update\",\"currentModeId\":\"code\"}",
		"x-acp-current_mode_update {\"current_mode_id\":\"code\"}\n");
	expect_report(
		"{\"sessionUpdate\":\"brand_new\",\"someKey\":{\"messageId\":1,\"message_id\":2},"
		"\"_meta\":{\"planId\":3}}",
		"x-acp-brand_new {\"_meta\":{\"planId\":3},\"someKey\":{\"message_id\":1}}\n");
}

static void test_malformed(void **state)
{
	static const char *const updates[] = {
		"{}",
		"[]",
		"{\"sessionUpdate\":1}",
		"{\"sessionUpdate\":\"\"}",
		"{\"sessionUpdate\":\"a kind\\nof\"}",
		"{\"sessionUpdate\":"
		"\"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\"}",
		"{\"sessionUpdate\":\"agent_message_chunk\"}",
		"{\"sessionUpdate\":\"agent_message_chunk\",\"content\":[]}",
		"{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\"}}",
		"{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\","
		"\"text\":5}}",
		"{\"sessionUpdate\":\"tool_call\",\"title\":\"T\"}",
		"{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"\",\"title\":\"T\"}",
		"{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":9}",
		"{\"sessionUpdate\":\"plan\",\"entries\":{}}",
		"{\"sessionUpdate\":\"usage_update\",\"used\":-1,\"size\":1}",
		"{\"sessionUpdate\":\"usage_update\",\"used\":1}",
	};
	for (size_t i = 0; i < sizeof(updates) / sizeof(updates[0]); i++) {
		expect_nothing(updates[i], -EINVAL);
	}
}

static void test_permission(void **state)
{
	json_t *params = parse(
		"{\"toolCall\":{\"toolCallId\":\"c\",\"rawInput\":{\"optionId\":1}},\"options\":"
		"[{\"optionId\":\"o\",\"name\":\"N\",\"kind\":\"allow_once\"},{\"optionId\":\"\"}]"
		"}");
	const char *why = NULL;
	json_t *data = acp_update_permission(params, "p-1", &why);
	char *json = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(json,
		"{\"options\":[{\"kind\":\"allow_once\",\"name\":\"N\",\"option_id\":\"o\"}],"
		"\"request_id\":\"p-1\","
		"\"tool_call\":{\"raw_input\":{\"optionId\":1},\"tool_call_id\":\"c\"}}");
	free(json);
	json_decref(data);
	json_object_set_new(params, "options", json_array());
	assert_null(acp_update_permission(params, "p-1", &why));
	assert_non_null(why);
	json_object_del(params, "toolCall");
	assert_null(acp_update_permission(params, "p-1", &why));
	json_decref(params);
	assert_null(acp_update_permission(NULL, "p-1", &why));
}

static void expect_usages(const char *result, const char *expected)
{
	json_t *value = parse(result);
	json_t *data = acp_update_usages(value);
	char *json = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(json, expected);
	free(json);
	json_decref(data);
	json_decref(value);
}

static void test_usage(void **state)
{
	expect_usages("{\"usage\":{\"totalTokens\":5,\"inputTokens\":3,\"thoughtTokens\":null,"
		      "\"outputTokens\":-2}}",
		"[{\"input_tokens\":3,\"mode\":\"delta\",\"total_tokens\":5}]");
	expect_usages("{\"usage\":{}}", "[]");
	expect_usages("{\"usage\":7}", "[]");
	/* What a result says in both ways counts once. */
	expect_usages("{\"usage\":{\"totalTokens\":5},\"_meta\":{\"quota\":{\"token_count\":"
		      "{\"input_tokens\":5}}}}",
		"[{\"mode\":\"delta\",\"total_tokens\":5}]");
}

static void test_quota(void **state)
{
	/* As in the recording gemini-middle. */
	expect_usages("{\"stopReason\":\"end_turn\",\"_meta\":{\"quota\":{\"token_count\":"
		      "{\"input_tokens\":46962,\"output_tokens\":72},\"model_usage\":["
		      "{\"model\":\"gemini-3.8-flash\",\"token_count\":{\"input_tokens\":11580,"
		      "\"output_tokens\":26}},{\"model\":\"auto\",\"token_count\":"
		      "{\"input_tokens\":35382,\"output_tokens\":46}}]}}}",
		"[{\"input_tokens\":11580,\"mode\":\"delta\",\"model\":\"gemini-3.8-flash\","
		"\"output_tokens\":26},{\"input_tokens\":35382,\"mode\":\"delta\","
		"\"model\":\"auto\",\"output_tokens\":46}]");
	/* Without models, the sum is all there is. */
	expect_usages("{\"_meta\":{\"quota\":{\"token_count\":{\"input_tokens\":5},"
		      "\"model_usage\":[{\"model\":\"m\"},7,{\"token_count\":{}}]}}}",
		"[{\"input_tokens\":5,\"mode\":\"delta\"}]");
	expect_usages("{\"_meta\":{\"quota\":{\"model_usage\":[{\"model\":7,\"token_count\":"
		      "{\"input_tokens\":-1,\"output_tokens\":3,\"other\":9}}]}}}",
		"[{\"mode\":\"delta\",\"output_tokens\":3}]");
	expect_usages("{\"_meta\":{\"quota\":5}}", "[]");
	expect_usages("{\"_meta\":{\"quota\":{\"token_count\":[]}}}", "[]");
	expect_usages("{}", "[]");
}

static void expect_parsed(const char *text, const char *expected)
{
	json_error_t error;
	struct json_numbers *numbers = json_numbers_create();
	char *line = xstrdup(text);
	json_t *value = json_rpc_parse(line, strlen(line), numbers, &error);
	assert_non_null(value);
	char *json = json_text(value, numbers);
	assert_string_equal(json, expected);
	free(json);
	free(line);
	json_decref(value);
	json_numbers_destroy(numbers);
}

static void test_odd_json(void **state)
{
	expect_parsed("[\"a\\u0000b\"]", "[\"a\xef\xbf\xbd"
					 "b\"]");
	expect_parsed("{\"k\\u0000\":1}", "{\"k\xef\xbf\xbd\":1}");
	expect_parsed("[\"\\ud83d\"]", "[\"\xef\xbf\xbd\"]");
	expect_parsed("[\"\\uDC00\\ud83d\\ud83d\\ude00\"]",
		"[\"\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80\"]");
	expect_parsed("[\"\\\\u0000\\\\\\u0000\"]", "[\"\\\\u0000\\\\\xef\xbf\xbd\"]");
	expect_parsed("[\"a\xff\xc3\"]", "[\"a\xef\xbf\xbd\xef\xbf\xbd\"]");
	expect_parsed("[\"\xed\xa0\x80\", \"\xc3\xa9\"]",
		"[\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\",\"\xc3\xa9\"]");
	expect_parsed("{\"n\":9223372036854775808,\"s\":\"9223372036854775808\",\"i\":-5}",
		"{\"n\":9223372036854775808,\"s\":\"9223372036854775808\",\"i\":-5}");
	expect_parsed("[1e999,-1e999,true,false,1.5]", "[1e999,-1e999,true,false,1.5]");
	expect_parsed("[\"\\\"\",1e999,\"\\\"1e999\"]", "[\"\\\"\",1e999,\"\\\"1e999\"]");
	expect_parsed("[1.10,\"a\xff\",1e999]", "[1.10,\"a\xef\xbf\xbd\",1e999]");
	static const char *const bad[] = {
		"", "x", "{", "\"s\"", "{\"a\":\"\\u12\"}", "[\"\\", "{}{}", "[1e", "\\u"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(parse(bad[i]));
	}
}

static enum json_rpc_message classify(const char *text)
{
	json_t *value = parse(text);
	enum json_rpc_message kind = json_rpc_classify(value);
	json_decref(value);
	return kind;
}

static void test_classify(void **state)
{
	assert_int_equal(classify("{\"method\":\"m\",\"id\":0}"), JSON_RPC_REQUEST);
	assert_int_equal(classify("{\"method\":\"m\",\"id\":null}"), JSON_RPC_REQUEST);
	assert_int_equal(classify("{\"method\":\"m\"}"), JSON_RPC_NOTIFICATION);
	assert_int_equal(classify("{\"result\":null,\"id\":1}"), JSON_RPC_RESPONSE);
	assert_int_equal(classify("{\"error\":{}}"), JSON_RPC_RESPONSE);
	assert_int_equal(classify("{\"id\":1}"), JSON_RPC_INVALID);
	assert_int_equal(classify("{\"method\":1,\"result\":1}"), JSON_RPC_INVALID);
	assert_int_equal(classify("[{\"method\":\"m\"}]"), JSON_RPC_INVALID);
}

static void test_encode(void **state)
{
	json_t *id = json_string("7");
	struct buffer out = {0};
	json_rpc_result(&out, id, json_pack("{s:s}", "t", "\xe2\x80\xa8\n"));
	assert_string_equal(buffer_cstr(&out),
		"{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{\"t\":\"\\u2028\\n\"}}\n");
	buffer_finish(&out);
	json_decref(id);
}

static void expect_described(const char *error, const char *expected)
{
	json_t *value = parse(error);
	struct buffer words = {0};
	json_rpc_describe_error(&words, value);
	assert_string_equal(buffer_cstr(&words), expected);
	buffer_finish(&words);
	json_decref(value);
}

static void test_describe_error(void **state)
{
	expect_described(
		"{\"code\":-32603,\"message\":\"Internal error\",\"data\":{\"details\":\"gone\"}}",
		"Internal error: gone");
	expect_described(
		"{\"message\":\"Resource not found\",\"data\":\"s\"}", "Resource not found: s");
	expect_described("{\"data\":{\"message\":\"429\"}}", "429");
	expect_described("[]", "an error without a message");
}

static void test_clean(void **state)
{
	static const char dirty[] = "a\x1b[31mred\x1b[0m\x1b]0;title\x07 b\tc\x7f\xff\xc2\x9b"
				    "d\xc3\xa9\x1b";
	struct buffer out = {0};
	diag_clean(&out, dirty, sizeof(dirty) - 1);
	assert_string_equal(buffer_cstr(&out), "ared b c ?d\xc3\xa9");
	buffer_finish(&out);
}

static void test_rate(void **state)
{
	struct diag_rate rate = {0};
	unsigned dropped = 0;
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(diag_rate_take(&rate, 3, 100000 + i, &dropped), i < 3);
		assert_int_equal(dropped, 0);
	}
	assert_true(diag_rate_take(&rate, 3, 160000, &dropped));
	assert_int_equal(dropped, 2);
}

/* The corpus */

struct corpus_sums {
	size_t files;
	size_t updates;
	size_t questions;
	size_t mutations;
};

/** What the update must be reported as, worked out here from the raw message. */
static void check_update(const json_t *update, struct corpus_sums *sums)
{
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	const json_t *content = json_object_get(update, "content");
	const char *text = json_string_value(json_object_get(content, "text"));
	bool chunk = strstr(kind, "_chunk");
	bool silent = strcmp(kind, "user_message_chunk") == 0 || (chunk && text && !*text);
	struct record r = {0};
	const char *why = NULL;
	assert_int_equal(acp_update_report(update, &record_ops, &r, &why), silent ? 1 : 0);
	assert_int_equal(r.texts, chunk && text && !silent);
	assert_int_equal(r.events, !silent && !(chunk && text));
	if (r.texts) {
		assert_string_equal(buffer_cstr(&r.text), text);
	}
	record_finish(&r);
	sums->updates++;
}

static void check_message(const json_t *message, struct corpus_sums *sums)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *params = json_object_get(message, "params");
	assert_int_not_equal(json_rpc_classify(message), JSON_RPC_INVALID);
	if (method && strcmp(method, "session/update") == 0) {
		check_update(json_object_get(params, "update"), sums);
	} else if (method && strcmp(method, "session/request_permission") == 0) {
		const char *why = NULL;
		json_t *data = acp_update_permission(params, "p", &why);
		assert_int_equal(json_array_size(json_object_get(data, "options")),
			json_array_size(json_object_get(params, "options")));
		json_decref(data);
		sums->questions++;
	}
}

/** Damages a line in a few places (the same way each time) and only wants to survive it. */
static void check_damaged(const char *line, size_t len, uint64_t *seed, struct corpus_sums *sums)
{
	char *copy = strndup(line, len);
	for (int i = 0; i < 3; i++) {
		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		static const char bytes[] = "\"\\{}[]:,u0\xff\x80\x1f\n9e";
		copy[(*seed >> 20) % len] = bytes[(*seed >> 50) % (sizeof(bytes) - 1)];
	}
	json_error_t error;
	json_t *message = json_rpc_parse(copy, len, NULL, &error);
	const json_t *params = json_object_get(message, "params");
	struct record r = {0};
	const char *why = NULL;
	acp_update_report(json_object_get(params, "update"), &record_ops, &r, &why);
	json_decref(acp_update_permission(params, "p", &why));
	record_finish(&r);
	json_decref(message);
	free(copy);
	sums->mutations++;
}

static void check_row(const char *row, size_t len, uint64_t *seed, struct corpus_sums *sums)
{
	json_t *record = json_loadb(row, len, 0, NULL);
	const char *dir = json_string_value(json_object_get(record, "dir"));
	const char *line = json_string_value(json_object_get(record, "line"));
	if (dir && strcmp(dir, "a2c") == 0 && line && *line) {
		json_t *message = parse(line);
		assert_non_null(message);
		check_message(message, sums);
		json_decref(message);
		check_damaged(line, strlen(line), seed, sums);
	}
	json_decref(record);
}

static void check_file(void *arg, const char *name, const char *text, size_t len)
{
	struct corpus_sums *sums = arg;
	uint64_t seed = 1;
	if (!strstr(name, ".jsonl")) {
		return;
	}
	for (const char *end; len && (end = memchr(text, '\n', len));
		len -= (size_t)(end + 1 - text), text = end + 1) {
		check_row(text, (size_t)(end - text), &seed, sums);
	}
	sums->files++;
}

static void test_corpus(void **state)
{
	struct corpus_sums sums = {0};
	corpus_each("acp", check_file, &sums);
	print_message("%zu recordings, %zu updates, %zu questions, %zu damaged lines\n", sums.files,
		sums.updates, sums.questions, sums.mutations);
	assert_true(sums.files > 0);
	assert_true(sums.updates > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_content_kinds),
		cmocka_unit_test(test_tool_calls),
		cmocka_unit_test(test_other_kinds),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_permission),
		cmocka_unit_test(test_usage),
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_odd_json),
		cmocka_unit_test(test_classify),
		cmocka_unit_test(test_encode),
		cmocka_unit_test(test_describe_error),
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_corpus),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
