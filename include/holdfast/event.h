/*
 * An event: one seq, one line of events.jsonl, immutable from the moment it is made and shared by
 * reference count. It is kept as the JSON object that observers of format=markdown get; the other
 * formats are made from it once, when first asked for.
 *
 * A line of events.jsonl is that object with one more member at its end, "xxh": 16 hex digits,
 * XXH3_64 over the bytes of the object before its closing brace (proto/store-format.md).
 */
#ifndef HOLDFAST_EVENT_H
#define HOLDFAST_EVENT_H

#include "holdfast/buffer.h"
#include "holdfast/hide.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_type {
	EVENT_USER_PROMPT,
	EVENT_AGENT_MESSAGE,
	EVENT_AGENT_THOUGHT,
	EVENT_TOOL_CALL,
	EVENT_TOOL_CALL_UPDATE,
	EVENT_PLAN,
	EVENT_FILE_READ,
	EVENT_FILE_WRITE,
	EVENT_PERMISSION_REQUEST,
	EVENT_PERMISSION_RESOLVED,
	EVENT_USAGE,
	EVENT_TURN_END,
	EVENT_AGENT_STARTED,
	EVENT_AGENT_STOPPED,
	EVENT_SESSION_END,
	EVENT_CUSTOM, /* a producer's own x-… */
	EVENT_MESSAGE_CHUNK, /* input only: becomes agent_message */
	EVENT_THOUGHT_CHUNK, /* input only: becomes agent_thought */
	EVENT_RUN_START, /* input only, and no event: data is the run_id */
	EVENT_RUN_END, /* the same */
	/* Numbers are in snapshots (stream_buffer_save.c): what is new comes here. */
	EVENT_ELICITATION_REQUEST, /* of the server's own agents only, as the next one */
	EVENT_ELICITATION_RESOLVED,
	EVENT_UNKNOWN,
};

enum event_format { FORMAT_MARKDOWN, FORMAT_HTML, FORMAT_BOTH, FORMAT_COUNT };

/** The parts of an event, borrowed; what event_create() writes and event_parse() finds. */
struct event_view {
	uint64_t seq;
	enum event_type type;
	const char *type_name; /* needed for EVENT_CUSTOM only */
	size_t type_len;
	int64_t ts; /* ms since 1970 */
	uint64_t turn; /* from 1; 0: in no turn */
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
	size_t data_at; /* where the value of "data" begins in json[FORMAT_MARKDOWN] */
	char *json[FORMAT_COUNT]; /* [FORMAT_MARKDOWN] always, the others once asked for */
	size_t json_len[FORMAT_COUNT];
	char *shown; /* what is shown to those it is hidden from; NULL: nobody has asked for it */
	size_t shown_len;
	unsigned char hides; /* event_view_hides(), once that is known */
	bool hides_known;
	unsigned char lent; /* the formats whose JSON is the block's, a bit each */
	struct event_block *block; /* that it is in; NULL: it has memory of its own */
};

/** The memory of events that were read together; the last of its users frees it. */
struct event_block {
	unsigned users; /* its events, and whoever made it until event_block_release() */
	size_t count;
	char *lines;
	char *html; /* for event_lend_html(); NULL: none */
	struct event events[];
};

/** The name of a type as it is in JSON; "" for EVENT_CUSTOM and EVENT_UNKNOWN. */
const char *event_type_name(enum event_type type);
/** The type of a name (input names too); EVENT_CUSTOM for x-…, else EVENT_UNKNOWN. */
enum event_type event_type_of(const char *name, size_t len);

/**
 * Appends the JSON object that an event is made of. `is_redacted`: it says that something is left
 * out.
 */
void event_append_json(const struct event_view *view, bool is_redacted, struct buffer *out);
/** Makes an event with one reference, the caller's. `data` must be a valid JSON object. */
struct event *event_create(const struct event_view *view);
/* The type of what stands for events that are lost; nobody may append it. */
#define EVENT_GAP "x-holdfast-gap"
bool event_is_gap(const struct event_view *view);
/** Makes the one for `seq`, of the lost events `from` to `to`, with one reference, the caller's. */
struct event *event_create_gap(uint64_t seq, uint64_t from, uint64_t to, int64_t ts);
struct event *event_ref(struct event *event);
/** Gives a reference back; the last one frees. Accepts NULL. */
void event_unref(struct event *event);
/** The JSON object in a format; made and kept on first use. Lent for as long as the event lives. */
const char *event_json(struct event *event, enum event_format format, size_t *ret_len);
/** Whether it has to be made first, which may take long. */
bool event_needs_rendering(const struct event *event, enum event_format format);
/** Makes it, for event_give(). Any thread, for an event that nobody frees meanwhile. */
void event_render(const struct event *event, enum event_format format, struct buffer *out);
/** The event takes over what event_render() has made, unless it has that already. */
void event_give(struct event *event, enum event_format format, struct buffer *json);
/** Names what makes HTML of markdown: another one may make other HTML. */
uint64_t event_html_version(void);

/**
 * What a token has to hide not to see what this is (proto/access.md#what-a-token-hides). Any one of the
 * bits is enough. `view->data` may be NULL for types other than x-acp-….
 */
unsigned event_view_hides(const struct event_view *view);
/** The same, among the bits of `hide`. */
unsigned event_hides(struct event *event, unsigned hide);
/** event_json(), for a token that hides these; what it hides is shown without its content. */
const char *event_json_for(
	struct event *event, enum event_format format, unsigned hide, size_t *ret_len);

/** Appends the event's line of events.jsonl, with its newline. */
void event_append_line(const struct event *event, struct buffer *out);
/** How long that line is. */
size_t event_line_len(const struct event *event);
/** Its parts, which point into the event. */
void event_get_view(const struct event *event, struct event_view *ret_view);
/**
 * Reads a line of events.jsonl (without its newline): checks its checksum and finds its parts,
 * which point into `line`. Returns -EBADMSG if the checksum or the shape is wrong.
 */
int event_parse_line(const char *line, size_t len, struct event_view *ret_view);
/** The same, and makes an event of it. */
int event_from_line(const char *line, size_t len, struct event **ret_event);

/** Room for `count` events, whose lines it takes over. */
struct event_block *event_block_create(char *lines, size_t count);
void event_block_release(struct event_block *block);
/** event_from_line(), without a copy: the line becomes the event's JSON where it is. */
int event_block_add(struct event_block *block, char *line, size_t len, struct event **ret_event);
/** Gives an event that has none its HTML, which is in its block's `html`. */
void event_lend_html(struct event *event, char *json, size_t len);

#endif
