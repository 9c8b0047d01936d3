/*
 * The table of facts: what each is called and where it is kept. Saving, loading, comparing and
 * freeing them follow from the table.
 */
#include "state_internal.h"

#include "holdfast/json_text.h"

#include <stdlib.h>
#include <string.h>

enum kind {
	NUMBER,
	FLAG,
	TEXT,
	OTHER_TEXT, /* the state machine has it in another form, and does not compare or copy it */
};

enum place {
	IN_SNAPSHOT = 1, /* the state machine has it */
	IN_LOG = 2, /* the log has it, from its events or its owner; kept in metadata.json */
	IN_BOTH = IN_SNAPSHOT | IN_LOG,
	IS_NEEDED = 4, /* metadata.json must have it */
};

#define AT(member) offsetof(struct session_facts, member)

/* In their order in a snapshot. */
static const struct fact {
	const char *name; /* in metadata.json */
	enum kind kind;
	size_t at;
	unsigned places;
	unsigned since; /* the first SNAPSHOT_VERSION that has it; 0: all that can be read */
} table[] = {
	{"title", TEXT, AT(title), IN_LOG | IS_NEEDED, 0},
	{"turn", NUMBER, AT(turn), IN_BOTH | IS_NEEDED, 0},
	{"in_turn", FLAG, AT(in_turn), IN_BOTH, 0},
	{"turn_of_prompt", FLAG, AT(turn_of_prompt), IN_SNAPSHOT, 0},
	{"agent_running", FLAG, AT(agent_running), IN_BOTH, 0},
	{"turn_end_seq", NUMBER, AT(turn_end_seq), IN_BOTH | IS_NEEDED, 0},
	{"prompt_seq", NUMBER, AT(prompt_seq), IN_BOTH, 0},
	{"prompt_id", TEXT, AT(prompt_id), IN_BOTH, 0},
	{"usage", OTHER_TEXT, AT(usage), IN_BOTH, 0},
	{"run_id", TEXT, AT(run_id), IN_BOTH, 0},
	{"last_message_id", TEXT, AT(last_message_id), IN_SNAPSHOT, 0},
	{"input_names", NUMBER, AT(input_names), IN_SNAPSHOT, 0},
	{"agent_session_id", TEXT, AT(agent_session_id), IN_LOG, 0},
	{"agent_session_seq", NUMBER, AT(agent_session_seq), IN_LOG, 0},
	{"agent_title", TEXT, AT(agent_title), IN_LOG, 0},
	{"made_by", TEXT, AT(made_by), IN_LOG, 0},
	{"agent", TEXT, AT(agent), IN_LOG, 0},
	{"cwd", TEXT, AT(cwd), IN_LOG, 0},
	{"name", TEXT, AT(name), IN_LOG, 0},
	{"archived", FLAG, AT(archived), IN_LOG, 0},
	{"pinned", FLAG, AT(pinned), IN_LOG, 0},
};

#define TABLE_END (table + sizeof(table) / sizeof(table[0]))
/** Iterates over the facts that are in all places of the set `where`. */
#define for_each_fact(fact, where)                                      \
	for (const struct fact *fact = table; fact < TABLE_END; fact++) \
		if ((fact->places & (where)) == (where))

static bool is_text(const struct fact *fact)
{
	return fact->kind == TEXT || fact->kind == OTHER_TEXT;
}

static char **text_at(const struct session_facts *facts, const struct fact *fact)
{
	return (char **)((char *)facts + fact->at);
}

/** The value of a number or flag; a flag is 0 or 1. */
static uint64_t number_of(const struct session_facts *facts, const struct fact *fact)
{
	const char *at = (const char *)facts + fact->at;
	return fact->kind == FLAG ? *(const bool *)at : *(const uint64_t *)at;
}

static void set_number(struct session_facts *facts, const struct fact *fact, uint64_t number)
{
	char *at = (char *)facts + fact->at;
	if (fact->kind == FLAG) {
		*(bool *)at = number != 0;
	} else {
		*(uint64_t *)at = number;
	}
}

void session_facts_finish(struct session_facts *facts)
{
	for_each_fact(fact, 0) {
		if (is_text(fact)) {
			free(*text_at(facts, fact));
		}
	}
	*facts = (struct session_facts){0};
}

/** NULL for an empty text, which then needs no memory. */
static const char *or_none(const char *text)
{
	return text && *text ? text : NULL;
}

void *session_facts_create(const char *data, size_t len)
{
	struct session_facts *facts = xcalloc(1, sizeof(*facts));
	json_t *json = json_loadb(data, len, 0, NULL);
	session_facts_set(&facts->title, or_none(session_text_of(json, "title")));
	session_facts_set(&facts->made_by, or_none(session_text_of(json, "sub")));
	session_facts_set(&facts->agent, or_none(session_text_of(json, "agent")));
	session_facts_set(&facts->cwd, or_none(session_text_of(json, "cwd")));
	json_decref(json);
	return facts;
}

void session_facts_destroy(void *facts)
{
	session_facts_finish(facts);
	free(facts);
}

void session_facts_set(char **fact, const char *text)
{
	char *copy = text ? xstrdup(text) : NULL;
	free(*fact);
	*fact = copy;
}

/* --- the facts of the state machine and those of the log --- */

void session_facts_follow(struct session_facts *facts, const struct session_facts *log)
{
	for_each_fact(fact, IN_BOTH) {
		if (!is_text(fact)) {
			set_number(facts, fact, number_of(log, fact));
		} else if (fact->kind == TEXT) {
			session_facts_set(text_at(facts, fact), *text_at(log, fact));
		}
	}
}

static bool same_text(const char *a, const char *b)
{
	return a ? b && strcmp(a, b) == 0 : !b;
}

bool session_facts_agree(const struct session_facts *facts, const struct session_facts *log)
{
	for_each_fact(fact, IN_BOTH) {
		bool same = is_text(fact) ? same_text(*text_at(facts, fact), *text_at(log, fact))
					  : number_of(facts, fact) == number_of(log, fact);
		if (!same && fact->kind != OTHER_TEXT) {
			return false;
		}
	}
	return true;
}

/* --- snapshots --- */

void session_facts_save_text(const char *text, struct buffer *out)
{
	pack_le(out, text != NULL, 1);
	pack_bytes(out, text, text ? strlen(text) : 0);
}

char *session_facts_load_text(struct unpack *in)
{
	bool is_set = unpack_le(in, 1) != 0;
	size_t len;
	const char *bytes = unpack_bytes(in, &len);
	return is_set ? xstrndup(bytes, len) : NULL;
}

void session_facts_save(const struct session_facts *facts, struct buffer *out)
{
	for_each_fact(fact, IN_SNAPSHOT) {
		if (is_text(fact)) {
			session_facts_save_text(*text_at(facts, fact), out);
		} else {
			pack_le(out, number_of(facts, fact), fact->kind == FLAG ? 1 : 8);
		}
	}
}

void session_facts_load(struct session_facts *facts, unsigned version, struct unpack *in)
{
	for_each_fact(fact, IN_SNAPSHOT) {
		if (is_text(fact) && fact->since <= version) {
			*text_at(facts, fact) = session_facts_load_text(in);
		} else if (fact->since <= version) {
			set_number(facts, fact, unpack_le(in, fact->kind == FLAG ? 1 : 8));
		}
	}
}

/* --- events --- */

bool session_facts_needs_data(enum event_type type)
{
	return type == EVENT_USER_PROMPT || agent_state_needs_data(type);
}

static void see_prompt(struct session_facts *facts, const struct event_view *view)
{
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	const char *prompt_id = session_text_of(json, "prompt_id");
	if (*prompt_id) {
		session_facts_set(&facts->prompt_id, prompt_id);
		facts->prompt_seq = view->seq;
	}
	json_decref(json);
}

static void see_agent_state(struct session_facts *facts, const struct event_view *view)
{
	char *title;
	agent_state_see(&facts->agent_state, view);
	if (agent_state_title(view, &title)) {
		free(facts->agent_title);
		facts->agent_title = title;
	}
}

/** Notes the agent's session. An agent that resumes its session does not change where it began. */
static void see_agent(struct session_facts *facts, const struct event_view *view)
{
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	const char *id = session_text_of(json, "agent_session_id");
	bool goes_on = facts->agent_session_id && strcmp(facts->agent_session_id, id) == 0 &&
		       json_is_true(json_object_get(json, "resumed"));
	if (!goes_on) {
		session_facts_set(&facts->agent_session_id, *id ? id : NULL);
		/* The agent's session begins with the prompt that the agent was started for. */
		bool has_prompt = view->turn && facts->prompt_seq > facts->turn_end_seq;
		uint64_t begin = has_prompt ? facts->prompt_seq : view->seq;
		facts->agent_session_seq = *id ? begin : 0;
	}
	json_decref(json);
}

void session_facts_fold(void *arg, const struct event_view *view)
{
	struct session_facts *facts = arg;
	facts->turn = view->turn ? view->turn : facts->turn;
	facts->in_turn = view->type != EVENT_TURN_END && (view->turn || facts->in_turn);
	switch (view->type) {
	case EVENT_USER_PROMPT:
		see_prompt(facts, view);
		break;
	case EVENT_TURN_END:
		facts->turn_end_seq = view->seq;
		break;
	case EVENT_AGENT_STARTED:
		facts->agent_running = true;
		see_agent(facts, view);
		see_agent_state(facts, view);
		break;
	case EVENT_AGENT_STOPPED:
		facts->agent_running = false;
		break;
	case EVENT_CUSTOM:
		see_agent_state(facts, view);
		break;
	default:
		break;
	}
}

/* --- metadata.json --- */

void session_facts_write(const void *arg, struct buffer *out)
{
	const struct session_facts *facts = arg;
	for_each_fact(fact, IN_LOG) {
		const char *text = is_text(fact) ? *text_at(facts, fact) : NULL;
		uint64_t number = is_text(fact) ? 0 : number_of(facts, fact);
		if (!text && is_text(fact) && (fact->places & IS_NEEDED)) {
			text = "";
		}
		if (text) {
			buffer_printf(out, ",\"%s\":", fact->name);
			buffer_append_json(out, text, strlen(text));
		} else if (fact->kind == FLAG) {
			buffer_printf(out, ",\"%s\":%s", fact->name, number ? "true" : "false");
		} else if (number || (fact->places & IS_NEEDED)) {
			buffer_printf(out, ",\"%s\":%llu", fact->name, (unsigned long long)number);
		}
	}
	buffer_append_str(out, ",\"agent_state\":");
	agent_state_append(&facts->agent_state, 0, out);
}

/** Reads agent_state, which files of older versions lack. */
static bool take_agent_state(const json_t *json, uint64_t max_seq, struct agent_state *ret)
{
	const json_t *state = json_object_get(json, "agent_state");
	bool good = !state || json_is_object(state);
	for (size_t i = 0; good && i < AGENT_STATE_COUNT; i++) {
		uint64_t *seq = &ret->seqs[i];
		const char *name = agent_state_name(i);
		good = !json_object_get(state, name) ||
		       (json_take_number(state, name, seq) && *seq && *seq <= max_seq);
	}
	return good;
}

void *session_facts_read(const json_t *json, uint64_t max_seq, const char **ret_why)
{
	struct session_facts *facts = xcalloc(1, sizeof(*facts));
	*ret_why = NULL;
	for_each_fact(fact, IN_LOG) {
		const json_t *value = json_object_get(json, fact->name);
		uint64_t number;
		if (is_text(fact) && (fact->places & IS_NEEDED) && !json_is_string(value)) {
			*ret_why = "the title is not a string";
		} else if (is_text(fact)) {
			session_facts_set(text_at(facts, fact), or_none(json_string_value(value)));
		} else if (fact->kind == FLAG) {
			set_number(facts, fact, json_is_true(value));
		} else if (json_take_number(json, fact->name, &number)) {
			set_number(facts, fact, number);
		} else if (fact->places & IS_NEEDED) {
			*ret_why = "one of its numbers is missing or malformed";
		}
	}
	if (!*ret_why && !take_agent_state(json, max_seq, &facts->agent_state)) {
		*ret_why = "agent_state names an event that the log does not have";
	}
	if (*ret_why) {
		session_facts_destroy(facts);
		return NULL;
	}
	return facts;
}
