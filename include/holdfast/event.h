/*
 * An event: one seq, one line of events.jsonl, immutable once created and shared by reference
 * count. It is stored as the JSON object that observers with format=markdown get; the other formats
 * are derived from it on first use.
 *
 * A line of events.jsonl is that object with one more last member, "xxh": 16 hex digits, the
 * XXH3_64 of the object's bytes before its closing brace (proto/store-format.md).
 */
#ifndef HOLDFAST_EVENT_H
#define HOLDFAST_EVENT_H

#include "holdfast/buffer.h"
#include "holdfast/hide.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * TYPE(id, name in JSON, secrecy): each type of an event or input, and who may not see it
 * (event_shown.c). The numbers are stored in snapshots (stream_buffer_save.c): a new type comes
 * last, before UNKNOWN.
 */
#define EVENT_TYPES(TYPE)                                              \
	TYPE(USER_PROMPT, "user_prompt", SHOWN_TO_ALL)                 \
	TYPE(AGENT_MESSAGE, "agent_message", SHOWN_TO_ALL)             \
	TYPE(AGENT_THOUGHT, "agent_thought", OF_THOUGHTS)              \
	TYPE(TOOL_CALL, "tool_call", OF_TOOLS)                         \
	TYPE(TOOL_CALL_UPDATE, "tool_call_update", OF_TOOLS)           \
	TYPE(PLAN, "plan", OF_TOOLS)                                   \
	TYPE(FILE_READ, "file_read", OF_TOOLS)                         \
	TYPE(FILE_WRITE, "file_write", OF_TOOLS)                       \
	TYPE(PERMISSION_REQUEST, "permission_request", OF_TOOLS)       \
	TYPE(PERMISSION_RESOLVED, "permission_resolved", OF_TOOLS)     \
	TYPE(USAGE, "usage", SHOWN_TO_ALL)                             \
	TYPE(TURN_END, "turn_end", SHOWN_TO_ALL)                       \
	TYPE(AGENT_STARTED, "agent_started", SHOWN_TO_ALL)             \
	TYPE(AGENT_STOPPED, "agent_stopped", BY_OUTPUT)                \
	TYPE(SESSION_END, "session_end", SHOWN_TO_ALL)                 \
	/* x-…, defined by a producer or an agent. */                \
	TYPE(CUSTOM, "", BY_KIND)                                      \
	/* Input only: they become agent_message and agent_thought. */ \
	TYPE(MESSAGE_CHUNK, "agent_message_chunk", SHOWN_TO_ALL)       \
	TYPE(THOUGHT_CHUNK, "agent_thought_chunk", OF_THOUGHTS)        \
	/* Input only, never an event; data is the run_id. */          \
	TYPE(RUN_START, "run_start", SHOWN_TO_ALL)                     \
	TYPE(RUN_END, "run_end", SHOWN_TO_ALL)                         \
	/* Only from the server's own agents. */                       \
	TYPE(ELICITATION_REQUEST, "elicitation_request", OF_TOOLS)     \
	TYPE(ELICITATION_RESOLVED, "elicitation_resolved", OF_TOOLS)   \
	/* Of a later version. */                                      \
	TYPE(UNKNOWN, "", OF_BOTH)

#define EVENT_ID(id, ...) EVENT_##id,
enum event_type { EVENT_TYPES(EVENT_ID) };
#undef EVENT_ID

enum event_format { FORMAT_MARKDOWN, FORMAT_HTML, FORMAT_BOTH, FORMAT_COUNT };

/** The parts of an event, borrowed; input of event_create(), output of event_parse_line(). */
struct event_view {
	uint64_t seq;
	enum event_type type;
	const char *type_name; /* needed for EVENT_CUSTOM and EVENT_UNKNOWN only */
	size_t type_len;
	int64_t ts; /* ms since 1970 */
	uint64_t turn; /* from 1; 0: outside a turn */
	const char *message_id; /* NULL: none */
	size_t message_id_len;
	const char *data; /* a JSON object */
	size_t data_len;
};

struct event {
	unsigned refs;
	uint64_t seq;
	enum event_type type;
	uint64_t turn;
	size_t data_at; /* offset of the value of "data" */
	char *json[FORMAT_COUNT]; /* [FORMAT_MARKDOWN] always, others on demand */
	size_t json_len[FORMAT_COUNT];
	char *shown; /* JSON for those it is hidden from; NULL: not made yet */
	size_t shown_len;
	unsigned char hides; /* event_view_hides(), if hides_known */
	bool hides_known;
	unsigned char lent; /* bit per format: its JSON belongs to the block */
	struct event_block *block; /* that contains the event; NULL: allocated by itself */
};

/** Memory shared by events that were read together; the last user frees it. */
struct event_block {
	unsigned users; /* its events, and its creator until event_block_release() */
	size_t count;
	char *lines;
	char *html; /* for event_lend_html(); NULL: none */
	struct event events[];
};

/** Returns the name of a type in JSON; "" for EVENT_CUSTOM and EVENT_UNKNOWN. */
const char *event_type_name(enum event_type type);
/**
 * Returns the type with this name, input types included; EVENT_CUSTOM for x-…, otherwise
 * EVENT_UNKNOWN.
 */
enum event_type event_type_of(const char *name, size_t len);

/** Appends the JSON object of an event. With `is_redacted` it has `"redacted":true`. */
void event_append_json(const struct event_view *view, bool is_redacted, struct buffer *out);
/** Creates an event with one reference, the caller's. `data` must be a valid JSON object. */
struct event *event_create(const struct event_view *view);
/* The type of placeholders for lost events; input events must not have it. */
#define EVENT_GAP "x-holdfast-gap"
/** The type of the event that tells of names that holdfast repair --forget-keys has given up. */
#define EVENT_FORGOTTEN "x-holdfast-keys-forgotten"
/** Types of events with these first letters are the server's own. */
#define EVENT_OWN_FRONT "x-holdfast-"
bool event_is_gap(const struct event_view *view);
/**
 * Creates the placeholder at `seq` for the lost events `from` to `to`, with one reference, the
 * caller's.
 */
struct event *event_create_gap(uint64_t seq, uint64_t from, uint64_t to, int64_t ts);
/** Takes another reference, and returns `event`. */
struct event *event_ref(struct event *event);
/** Drops a reference; the last one frees the event. Accepts NULL. */
void event_unref(struct event *event);
/** Returns the JSON object in a format, made on first use; valid as long as the event. */
const char *event_json(struct event *event, enum event_format format, size_t *ret_len);
/** Whether event_json() would have to render it first, which can take long. */
bool event_needs_rendering(const struct event *event, enum event_format format);
/** Renders the event for event_give(). Any thread, if the event stays alive. */
void event_render(const struct event *event, enum event_format format, struct buffer *out);
/**
 * Hands the result of event_render() to the event, which takes it over or frees it if it has one.
 */
void event_give(struct event *event, enum event_format format, struct buffer *json);
/** Identifies the markdown renderer; see markdown_html_version(). */
uint64_t event_html_version(void);

/**
 * Returns the HIDE_ bits any of which hides this event from a token
 * (proto/access.md#what-a-token-hides). `view->data` can be NULL for types other than x-acp-… and
 * agent_stopped.
 */
unsigned event_view_hides(const struct event_view *view);
/** Returns which of the bits in `hide` hide this event. */
unsigned event_hides(struct event *event, unsigned hide);
/**
 * Like event_json(), for a token that hides these kinds: a hidden event is shown without its
 * content.
 */
const char *event_json_for(
	struct event *event, enum event_format format, unsigned hide, size_t *ret_len);

/** Appends the event's line of events.jsonl, with its newline. */
void event_append_line(const struct event *event, struct buffer *out);
/** Returns the length of that line, with its newline. */
size_t event_line_len(const struct event *event);
/** Finds the parts of an event; they point into the event. */
void event_get_view(const struct event *event, struct event_view *ret_view);
/**
 * Parses a line of events.jsonl (without its newline): verifies its checksum and finds its parts,
 * which point into `line`. Returns 0, or -EBADMSG if the checksum or the structure is wrong.
 */
int event_parse_line(const char *line, size_t len, struct event_view *ret_view);
/** Like event_parse_line(), but creates an event, with one reference. */
int event_from_line(const char *line, size_t len, struct event **ret_event);

/** Creates a block for up to `count` events. Takes over `lines`, which it frees. */
struct event_block *event_block_create(char *lines, size_t count);
/** Drops the creator's use of the block. */
void event_block_release(struct event_block *block);
/**
 * Like event_from_line(), without a copy: the line, which must lie in the block's `lines`, becomes
 * the event's JSON.
 */
int event_block_add(struct event_block *block, char *line, size_t len, struct event **ret_event);
/** Sets the HTML of an event that has none yet; `json` must lie in its block's `html`. */
void event_lend_html(struct event *event, char *json, size_t len);

#endif
