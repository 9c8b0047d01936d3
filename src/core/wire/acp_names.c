#include "holdfast/acp_names.h"

static const struct {
	const char *acp;
	const char *ours;
} names[] = {
	{"availableCommands", "available_commands"},
	{"availableModels", "available_models"},
	{"availableModes", "available_modes"},
	{"cachedReadTokens", "cached_read_tokens"},
	{"cachedWriteTokens", "cached_write_tokens"},
	{"compactionId", "compaction_id"},
	{"configOptions", "config_options"},
	{"currentModeId", "current_mode_id"},
	{"currentModelId", "current_model_id"},
	{"currentValue", "current_value"},
	{"inputTokens", "input_tokens"},
	{"lastModified", "last_modified"},
	{"messageId", "message_id"},
	{"mimeType", "mime_type"},
	{"modelId", "model_id"},
	{"newText", "new_text"},
	{"oldText", "old_text"},
	{"optionId", "option_id"},
	{"outputTokens", "output_tokens"},
	{"planId", "plan_id"},
	{"rawInput", "raw_input"},
	{"rawOutput", "raw_output"},
	{"recipientSessionId", "recipient_session_id"},
	{"senderSessionId", "sender_session_id"},
	{"sessionId", "session_id"},
	{"stopReason", "stop_reason"},
	{"terminalId", "terminal_id"},
	{"thoughtTokens", "thought_tokens"},
	{"toolCall", "tool_call"},
	{"toolCallId", "tool_call_id"},
	{"totalTokens", "total_tokens"},
	{"updatedAt", "updated_at"},
};

#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

const char *acp_name_ours(const char *acp)
{
	for (size_t i = 0; i < NAME_COUNT; i++) {
		if (strcmp(names[i].acp, acp) == 0) {
			return names[i].ours;
		}
	}
	return NULL;
}

const char *acp_name_theirs(const char *ours)
{
	for (size_t i = 0; i < NAME_COUNT; i++) {
		if (strcmp(names[i].ours, ours) == 0) {
			return names[i].acp;
		}
	}
	return NULL;
}

bool acp_name_is_opaque(const char *acp)
{
	return strcmp(acp, "rawInput") == 0 || strcmp(acp, "rawOutput") == 0 ||
	       strcmp(acp, "_meta") == 0;
}

/* --- writing --- */

/** Whether the value is a content block that refers to a blob of the session. */
static bool is_reference(const struct json_span *value)
{
	const char *type = json_span_string(value, "type");
	const char *blob = json_span_string(value, "blob");
	bool is_block = type && (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0 ||
					strcmp(type, "resource") == 0);
	return is_block && blob && strlen(blob) == 64 && strspn(blob, "0123456789abcdef") == 64;
}

static void write_link(struct buffer *out, const struct json_span *value, const char *session_id)
{
	uint64_t size;
	struct buffer uri = {0};
	const char *blob = json_span_string(value, "blob");
	const char *name = json_span_string(value, "name");
	const char *mime_type = json_span_string(value, "mime_type");
	buffer_printf(&uri, "/api/sessions/%s/blobs/%s", session_id, blob);
	buffer_append_str(out, "{\"type\":\"resource_link\"");
	buffer_append_member(out, "uri", buffer_cstr(&uri));
	buffer_append_member(out, "name", name ? name : json_span_string(value, "type"));
	if (mime_type) {
		buffer_append_member(out, "mimeType", mime_type);
	}
	if (json_span_count(json_span_get(value, "size"), &size)) {
		buffer_printf(out, ",\"size\":%llu", (unsigned long long)size);
	}
	buffer_append_char(out, '}');
	buffer_finish(&uri);
}

/**
 * Whether the value is a block whose bytes could not be kept. It becomes a text, because ACP has no
 * image without its bytes.
 */
static bool is_omitted(const struct json_span *value)
{
	const char *type = json_span_string(value, "type");
	return type && json_span_string(value, "omitted") &&
	       (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0 ||
		       strcmp(type, "resource") == 0);
}

static void write_omitted(struct buffer *out, const struct json_span *value)
{
	struct buffer text = {0};
	buffer_printf(&text, "[%s: %s]", json_span_string(value, "type"),
		json_span_string(value, "omitted"));
	buffer_append_str(out, "{\"type\":\"text\"");
	buffer_append_member(out, "text", buffer_cstr(&text));
	buffer_append_char(out, '}');
	buffer_finish(&text);
}

static void write_object(struct buffer *out, const struct json_span *value, const char *session_id)
{
	const char *comma = "";
	buffer_append_char(out, '{');
	json_span_each_name(name, value) {
		const char *theirs = acp_name_theirs(name->text);
		if (!theirs && acp_name_ours(name->text) &&
			json_span_get(value, acp_name_ours(name->text))) {
			continue; /* the agent sent this name and ours: write it once */
		}
		buffer_append_str(out, comma);
		comma = ",";
		buffer_append_json(
			out, theirs ? theirs : name->text, theirs ? strlen(theirs) : name->len);
		buffer_append_char(out, ':');
		if (acp_name_is_opaque(theirs ? theirs : name->text)) {
			json_span_write(out, name + 1);
		} else {
			acp_names_write(out, name + 1, session_id);
		}
	}
	buffer_append_char(out, '}');
}

void acp_names_write(struct buffer *out, const struct json_span *value, const char *session_id)
{
	if (is_reference(value)) {
		write_link(out, value, session_id);
	} else if (is_omitted(value)) {
		write_omitted(out, value);
	} else if (value->type == JSON_OBJECT) {
		write_object(out, value, session_id);
	} else if (value->type == JSON_ARRAY) {
		const char *comma = "";
		buffer_append_char(out, '[');
		json_span_each(item, value) {
			buffer_append_str(out, comma);
			comma = ",";
			acp_names_write(out, item, session_id);
		}
		buffer_append_char(out, ']');
	} else {
		json_span_write(out, value);
	}
}
