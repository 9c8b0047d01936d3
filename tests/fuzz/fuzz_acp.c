/*
 * What an agent says. However its bytes come, they are the same lines; whatever a line holds, what
 * is reported of it can be written as JSON and read again, and its text is UTF-8 without NUL.
 */
#include "fuzz.h"

#include "agents/acp/acp_updates.h"
#include "agents/workspace/workspace_internal.h"
#include "holdfast/diag.h"
#include "holdfast/json_lines.h"
#include "holdfast/utf8.h"

#define LINE_MAX_BYTES 200
#define DIFF_MAX_BYTES 4096

/* --- reports --- */

static void check_json(const json_t *data)
{
	char *text = json_dumps(data, JSON_COMPACT | JSON_ENCODE_ANY);
	fuzz_check(text != NULL, "what is reported can be written");
	json_t *again = json_loads(text, JSON_DECODE_ANY, NULL);
	fuzz_check(again != NULL, "what was written can be read");
	json_decref(again);
	free(text);
}

static void check_text(const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t n = fuzz_utf8_length(text + at, len - at);
		fuzz_check(n > 0 && text[at], "text is UTF-8 without NUL");
		at += n;
	}
}

static void handle_text(
	void *owner, bool thought, const char *text, size_t len, const char *message_id)
{
	fuzz_check(len > 0, "no text is reported that is none");
	check_text(text, len);
	check_text(message_id ? message_id : "", message_id ? strlen(message_id) : 0);
}

static void handle_event(void *owner, const char *type, const json_t *data)
{
	fuzz_check(json_is_object(data), "an event's data is an object");
	fuzz_check(strlen(type) <= 64 + sizeof("x-acp-"), "a type has an end");
	check_json(data);
}

static const struct acp_agent_ops ops = {.text = handle_text, .event = handle_event};

static void check_message(const json_t *message)
{
	const char *why = NULL;
	const json_t *params = json_object_get(message, "params");
	int r = acp_update_report(json_object_get(params, "update"), &ops, NULL, &why);
	fuzz_check(r >= 0 || why, "what is not reported has a reason");
	json_t *question = acp_update_permission(params, "q", &why);
	if (question) {
		check_json(question);
		json_decref(question);
	}
	json_t *usages = acp_update_usages(json_object_get(message, "result"));
	check_json(usages);
	json_decref(usages);
	struct buffer words = {0};
	json_rpc_describe_error(&words, json_object_get(message, "error"));
	check_text(words.data, words.len);
	buffer_clear(&words);
	json_rpc_encode(&words, message);
	for (size_t i = 0; i < words.len; i++) {
		unsigned char c = (unsigned char)words.data[i];
		fuzz_check(c > 0x1f && c < 0x80, "a line is one, in ASCII");
	}
	buffer_finish(&words);
}

/* --- lines --- */

/** What is written is read as the same, and then written as the same, with its numbers. */
static void check_numbers(const json_t *message, struct json_numbers *numbers)
{
	char *text = json_text(message, numbers);
	json_t *again = json_read(text, strlen(text), JSON_REJECT_DUPLICATES, numbers, NULL);
	fuzz_check(again && json_equal(message, again), "JSON that is written is the same");
	char *second = json_text(again, numbers);
	fuzz_check(strcmp(text, second) == 0, "numbers stay as they are written");
	free(second);
	free(text);
	json_decref(again);
}

static void take_line(struct buffer *out, char *line, size_t len)
{
	buffer_append(out, line, len);
	buffer_append_char(out, '\n');
	json_error_t error;
	struct json_numbers *numbers = json_numbers_create();
	json_t *message = json_rpc_parse(line, len, numbers, &error);
	json_rpc_classify(message);
	if (message) {
		check_message(message);
		check_numbers(message, numbers);
	}
	json_decref(message);
	json_numbers_destroy(numbers);
}

static void take_skipped(const struct json_lines *lines)
{
	json_t *seen = json_rpc_peek(lines);
	fuzz_check(json_object_size(seen) <= 2, "of a long line its id and its method are seen");
	check_json(seen);
	json_decref(seen);
}

/** The lines of the text, given in pieces of `step` bytes, with "!" for each that is too long. */
static struct buffer cut(const struct fuzz_input *in, size_t step)
{
	struct buffer out = {0};
	struct json_lines lines;
	json_lines_init(&lines, LINE_MAX_BYTES);
	for (size_t at = 0; at < in->len; at += step) {
		json_lines_push(&lines, in->text + at, in->len - at < step ? in->len - at : step);
		fuzz_check(lines.bytes.len <= LINE_MAX_BYTES + step, "what is kept is bounded");
		char *line;
		size_t len;
		enum json_line found;
		while ((found = json_lines_next(&lines, &line, &len)) != JSON_LINE_NONE) {
			if (found == JSON_LINE_READY) {
				fuzz_check(len <= LINE_MAX_BYTES, "a line is within its limit");
				take_line(&out, line, len);
			} else if (found == JSON_LINE_SKIPPED) {
				take_skipped(&lines);
			} else {
				buffer_append_str(&out, "!\n");
			}
		}
	}
	json_lines_finish(&lines);
	return out;
}

static void check_lines(struct fuzz_input *in)
{
	struct buffer whole = cut(in, in->len + 1);
	struct buffer pieces = cut(in, 1 + fuzz_take(in) % 64);
	fuzz_check(whole.len == pieces.len &&
			   (!whole.len || memcmp(whole.data, pieces.data, whole.len) == 0),
		"the same lines, however they come");
	buffer_finish(&whole);
	buffer_finish(&pieces);
}

/* --- text of other kinds --- */

static void check_output(struct fuzz_input *in)
{
	struct buffer text = {0};
	size_t used = output_fit(&text, in->text, in->len, false);
	fuzz_check(used <= in->len && in->len - used < 4, "only a character's beginning is left");
	output_fit(&text, in->text + used, in->len - used, true);
	check_text(text.data, text.len);
	buffer_clear(&text);
	diag_clean(&text, in->text, in->len);
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];
		fuzz_check(c >= 0x20 && c != 0x7f, "a terminal is shown no control character");
	}
	buffer_finish(&text);
}

static void check_diff(struct fuzz_input *in)
{
	struct buffer old = {0};
	struct buffer new = {0};
	struct buffer diff = {0};
	size_t middle = fuzz_take_up_to(in, in->len);
	buffer_append(&old, in->text, middle);
	buffer_append(&new, in->text + middle, in->len - middle);
	diff_append(&diff, &old, &new, DIFF_MAX_BYTES);
	bool same = old.len == new.len && (!old.len || memcmp(old.data, new.data, old.len) == 0);
	fuzz_check(same == (diff.len == 0), "there is a diff where there is a difference");
	fuzz_check(diff.len <= DIFF_MAX_BYTES + 100, "a diff is bounded");
	buffer_finish(&old);
	buffer_finish(&new);
	buffer_finish(&diff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_split(data, size);
	check_lines(&in);
	check_output(&in);
	check_diff(&in);
	return 0;
}
