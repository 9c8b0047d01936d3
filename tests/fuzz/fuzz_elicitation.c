/*
 * What agents ask people for, and what they are answered: the first line is the params of elicitation/create, each of the others
 * the content of an answer. What is accepted is small, has a good address or a form, and is read again as it is.
 */
#include "fuzz.h"

#include "holdfast/elicitation.h"
#include "holdfast/requests.h"

static void check_question(const json_t *question)
{
	const char *why = NULL;
	const char *url = json_string_value(json_object_get(question, "url"));
	const json_t *schema = json_object_get(question, "requested_schema");
	char *text = json_dumps(question, JSON_COMPACT);
	fuzz_check(text && strlen(text) <= ELICITATION_SIZE_MAX, "a question is small");
	fuzz_check((url != NULL) != (schema != NULL), "it is a form or an address");
	fuzz_check(!url || elicitation_url_is_good(url), "the address is good");
	fuzz_check(!url || !strpbrk(url, " \t\r\n\"<>\\"), "and has nothing to hide behind");
	if (schema) {
		json_t *params = json_pack("{s:s, s:s, s:O}", "mode", "form", "message", "m",
			"requestedSchema", schema);
		json_t *again = elicitation_read(params, "r", &why);
		fuzz_check(json_equal(json_object_get(again, "requested_schema"), schema),
			"a form that was read is read as it is");
		json_decref(again);
		json_decref(params);
	}
	free(text);
}

static void check_answer(const json_t *question, const json_t *content)
{
	static const char *const actions[] = {"accept", "decline", "cancel", "agree"};
	for (size_t i = 0; i < 4; i++) {
		struct refusal refusal = {0};
		int r = elicitation_check(question, actions[i], content, &refusal);
		fuzz_check(r == 0 || refusal.code, "a refusal has a code");
		fuzz_check(r < 0 || i == 0 || (!content && i < 3), "content belongs to accept");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = size ? (const char *)data : "";
	const char *end = at + size;
	json_t *question = NULL;
	for (bool is_first = true; at < end; is_first = false) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((newline ? newline : end) - at);
		struct refusal refusal = {0};
		json_t *json = json_parse(at, len, NULL, &refusal);
		const char *why = NULL;
		if (is_first) {
			question = json ? elicitation_read(json, "r", &why) : NULL;
			fuzz_check(question || !json || why, "who is refused is told why");
		} else if (question && json) {
			check_answer(question, json);
		}
		json_decref(json);
		at += len + (newline != NULL);
	}
	if (question) {
		check_question(question);
		check_answer(question, NULL);
	}
	json_decref(question);
	return 0;
}
