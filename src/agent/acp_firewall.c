#include "acp_firewall.h"

#include "acp_internal.h"

#include <stdlib.h>
#include <string.h>

/* A shorter text stands somewhere by chance. Bytes, as compared. */
#define TELLING_LEN ((size_t)16)
/* What looking for texts may cost for one replay, in bytes looked at: about a second. */
#define SEARCH_MAX  ((size_t)512 << 20)
#define SEARCH_COST ((size_t)64) /* of one search, beside that */
/* glibc's memmem() is linear only for what is longer. */
#define SHORT_MAX ((size_t)256)
/* Of each new event, beside its text. */
#define FRESH_COST ((size_t)512)

/* A text that comes in pieces. */
struct gathered {
	bool is_open;
	bool begins_whole; /* the first piece is a prompt by itself; others are what was put to it
			    */
	enum acp_said said;
	char *message_id; /* NULL: none */
	struct buffer text;
	struct buffer ends; /* size_t: where each piece ends */
};

struct acp_firewall {
	struct acp_known known;
	size_t size_max;
	struct gathered open;
	/* Where the replay is in the log. */
	size_t turn;
	bool is_placed; /* in that turn; else it is not known where */
	size_t at[ACP_SAID_COUNT];
	bool has_met; /* something that the log has was told */
	bool has_prompts; /* a prompt was told */
	/* What is new. */
	json_t *fresh;
	size_t fresh_size;
	size_t searched; /* of SEARCH_MAX */
	bool is_cut; /* the replay was too much: of the rest nothing is new */
};

struct acp_firewall *acp_firewall_create(size_t size_max)
{
	struct acp_firewall *fw = xcalloc(1, sizeof(*fw));
	fw->size_max = size_max;
	fw->fresh = json_array();
	acp_known_init(&fw->known, size_max);
	return fw;
}

void acp_firewall_destroy(struct acp_firewall *fw)
{
	if (!fw) {
		return;
	}
	acp_known_finish(&fw->known);
	free(fw->open.message_id);
	buffer_finish(&fw->open.text);
	buffer_finish(&fw->open.ends);
	json_decref(fw->fresh);
	free(fw);
}

struct acp_known *acp_firewall_known(struct acp_firewall *fw)
{
	return &fw->known;
}

/* --- what is new --- */

/** Takes over `data`. */
static void add_fresh(struct acp_firewall *fw, const char *type, json_t *data, size_t size,
	const char *message_id)
{
	/* Of a history whose beginning the log does not have, the beginning is not new. */
	bool is_older = fw->known.is_cut && !fw->has_met;
	fw->is_cut = fw->is_cut || fw->fresh_size + size + FRESH_COST > fw->size_max;
	if (is_older || fw->is_cut) {
		json_decref(data);
		return;
	}
	fw->fresh_size += size + FRESH_COST;
	json_t *item = json_pack("{s:s, s:o}", "type", type, "data", data);
	if (message_id) {
		json_object_set_new(item, "message_id", json_string(message_id));
	}
	json_array_append_new(fw->fresh, item);
}

static void add_fresh_text(struct acp_firewall *fw, const char *text, size_t len)
{
	static const struct {
		const char *type;
		const char *member;
	} forms[] = {
		[ACP_SAID_MESSAGE] = {"agent_message_chunk", "text"},
		[ACP_SAID_THOUGHT] = {"agent_thought_chunk", "text"},
		[ACP_SAID_PROMPT] = {"user_prompt", "message"},
	};
	enum acp_said said = fw->open.said;
	json_t *data = json_object();
	json_object_set_new(data, forms[said].member, json_stringn(text, len));
	add_fresh(fw, forms[said].type, data, len,
		said == ACP_SAID_PROMPT ? NULL : fw->open.message_id);
}

/* --- where the replay is --- */

static void go_to_turn(struct acp_firewall *fw, size_t turn)
{
	fw->has_met = true;
	if (fw->is_placed && turn <= fw->turn) {
		return; /* something late */
	}
	fw->turn = turn;
	fw->is_placed = true;
	for (int said = 0; said < ACP_SAID_COUNT; said++) {
		if (fw->at[said] < fw->known.turns[turn].begin[said]) {
			fw->at[said] = fw->known.turns[turn].begin[said];
		}
	}
}

/** Whether there is still something of what looking may cost. */
static bool spend(struct acp_firewall *fw, size_t cost)
{
	fw->searched += cost;
	fw->is_cut = fw->is_cut || fw->searched > SEARCH_MAX;
	return !fw->is_cut;
}

/** memmem() for at most SHORT_MAX bytes, in linear time (Knuth, Morris, Pratt). */
static const char *find_short(const char *in, size_t in_len, const char *text, size_t len)
{
	uint16_t back[SHORT_MAX + 1]; /* how much is still found when the byte there is another */
	size_t had = 0;
	back[0] = back[1] = 0;
	for (size_t i = 1; i < len; i++) {
		while (had && text[i] != text[had]) {
			had = back[had];
		}
		had += text[i] == text[had];
		back[i + 1] = (uint16_t)had;
	}
	had = 0;
	for (size_t i = 0; i < in_len; i++) {
		while (had && in[i] != text[had]) {
			had = back[had];
		}
		had += in[i] == text[had];
		if (had == len) {
			return in + i + 1 - len;
		}
	}
	return NULL;
}

/** Where in a text `len` bytes stand, from `from` to `to`; SIZE_MAX: nowhere. */
static size_t find_text(struct acp_firewall *fw, const struct buffer *in, size_t from, size_t to,
	const char *text, size_t len)
{
	if (from >= to || to - from < len || !len || !spend(fw, len + SEARCH_COST)) {
		return SIZE_MAX;
	}
	const char *begin = in->data + from;
	const char *found = len <= SHORT_MAX ? find_short(begin, to - from, text, len)
					     : memmem(begin, to - from, text, len);
	spend(fw, found ? (size_t)(found - begin) : to - from);
	return found ? (size_t)(found - in->data) : SIZE_MAX;
}

static bool was_recovered(struct acp_firewall *fw, enum acp_said said, const struct buffer *text)
{
	const struct buffer *in = &fw->known.recovered[said];
	return find_text(fw, in, 0, in->len, text->data, text->len) != SIZE_MAX;
}

/* --- texts of the agent --- */

/**
 * Whether the log has the text where the replay is: behind what was told last, or at least in the
 * same turn. One that is not placed may be anywhere, if it is not so short that it would be found
 * by chance.
 */
static bool is_in_log(struct acp_firewall *fw, enum acp_said said, const struct buffer *text)
{
	const struct buffer *in = &fw->known.texts[said];
	size_t begin = fw->is_placed ? fw->known.turns[fw->turn].begin[said] : 0;
	size_t end = fw->is_placed ? acp_known_turn_end(&fw->known, fw->turn, said) : in->len;
	if (!fw->is_placed && text->len < TELLING_LEN && fw->has_prompts) {
		return was_recovered(fw, said, text);
	}
	size_t from = fw->at[said] > begin && fw->at[said] <= end ? fw->at[said] : begin;
	size_t found = find_text(fw, in, from, end, text->data, text->len);
	if (found != SIZE_MAX) {
		fw->at[said] = found + text->len;
		fw->has_met = fw->has_met || text->len >= TELLING_LEN;
		return true;
	}
	size_t rest = text->len < end - from ? from + text->len : end;
	return find_text(fw, in, begin, rest, text->data, text->len) != SIZE_MAX ||
	       was_recovered(fw, said, text);
}

/**
 * A crash may have left the log with the beginning of a text only. Returns how many bytes of it, as
 * compared, are the last of what the log has of this turn; 0: it is not so.
 */
static size_t find_beginning(
	const struct acp_firewall *fw, enum acp_said said, const struct buffer *text)
{
	if (!fw->is_placed) {
		return 0;
	}
	size_t end = acp_known_turn_end(&fw->known, fw->turn, said);
	size_t from = fw->at[said];
	size_t len = from < end ? end - from : 0;
	bool is_beginning = len && len < text->len &&
			    memcmp(fw->known.texts[said].data + from, text->data, len) == 0;
	return is_beginning ? len : 0;
}

/**
 * One piece of what the agent said. Returns whether the log has it: one that is short enough to be
 * found by chance, only right behind a piece that it has.
 */
static bool take_piece(struct acp_firewall *fw, const char *text, size_t len, bool had_last)
{
	enum acp_said said = fw->open.said;
	const struct buffer *in = &fw->known.texts[said];
	struct buffer bare = {0};
	acp_known_normalize(&bare, said, text, len, SIZE_MAX);
	bool is_known;
	if (bare.len >= TELLING_LEN) {
		is_known = is_in_log(fw, said, &bare);
	} else {
		size_t at = fw->at[said];
		is_known = !bare.len || (had_last && in->len - at >= bare.len &&
						!memcmp(in->data + at, bare.data, bare.len));
		fw->at[said] += is_known ? bare.len : 0;
	}
	buffer_finish(&bare);
	return is_known;
}

/** Piece by piece, for an agent that gives each message in one piece, and no names. */
static void take_pieces(struct acp_firewall *fw)
{
	const size_t *ends = (const size_t *)fw->open.ends.data;
	size_t count = fw->open.ends.len / sizeof(*ends);
	size_t begin = 0;
	size_t fresh_from = 0;
	bool has = true;
	for (size_t i = 0; i < count; begin = ends[i++]) {
		has = take_piece(fw, fw->open.text.data + begin, ends[i] - begin, has);
		if (!has) {
			continue;
		}
		if (fresh_from < begin) {
			add_fresh_text(fw, fw->open.text.data + fresh_from, begin - fresh_from);
		}
		fresh_from = ends[i];
	}
	if (fresh_from < fw->open.text.len) {
		add_fresh_text(fw, fw->open.text.data + fresh_from, fw->open.text.len - fresh_from);
	}
}

/** What is behind the beginning that the log has. */
static void take_rest(struct acp_firewall *fw, const struct buffer *bare, size_t known)
{
	enum acp_said said = fw->open.said;
	const struct buffer *text = &fw->open.text;
	struct buffer skipped = {0};
	size_t skip = acp_known_normalize(&skipped, said, text->data, text->len, known);
	buffer_finish(&skipped);
	struct buffer rest = {.data = bare->data + known, .len = bare->len - known};
	fw->at[said] += known;
	if (!was_recovered(fw, said, &rest)) {
		add_fresh_text(fw, text->data + skip, text->len - skip);
	}
}

static void judge_text(struct acp_firewall *fw, const struct buffer *bare)
{
	const struct gathered *open = &fw->open;
	struct acp_known_name name = {0};
	if (open->message_id) {
		name = acp_known_message(&fw->known, open->message_id);
		if (name.found) {
			go_to_turn(fw, name.turn);
		}
	}
	if (is_in_log(fw, open->said, bare)) {
		return;
	}
	size_t count = open->ends.len / sizeof(size_t);
	size_t beginning = find_beginning(fw, open->said, bare);
	if (beginning) {
		take_rest(fw, bare, beginning);
	} else if (name.found) {
		return; /* the agent tells it in other words now */
	} else if (count > 1 && bare->len / count >= TELLING_LEN) {
		take_pieces(fw);
	} else {
		add_fresh_text(fw, open->text.data, open->text.len);
	}
}

/* --- prompts --- */

/** The first turn whose prompt begins at `at` or behind it; turn_count: none. */
static size_t first_turn_from(const struct acp_known *known, size_t at)
{
	size_t low = 1;
	size_t high = known->turn_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (known->turns[middle].begin[ACP_SAID_PROMPT] < at) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

/** The turn whose prompt has this byte. */
static size_t turn_of(const struct acp_known *known, size_t at)
{
	return first_turn_from(known, at + 1) - 1;
}

/** Whether a prompt begins there, or the last one ends. */
static bool is_between_prompts(const struct acp_known *known, size_t at)
{
	size_t turn = first_turn_from(known, at);
	return at == known->texts[ACP_SAID_PROMPT].len ||
	       (turn < known->turn_count && known->turns[turn].begin[ACP_SAID_PROMPT] == at);
}

/** The turn of the prompt, or of the last of several in a row, that is just this text. */
static size_t find_whole_prompt(struct acp_firewall *fw, size_t from, const struct buffer *text)
{
	const struct acp_known *known = &fw->known;
	const struct buffer *in = &known->texts[ACP_SAID_PROMPT];
	size_t at = from < known->turn_count ? known->turns[from].begin[ACP_SAID_PROMPT] : in->len;
	while ((at = find_text(fw, in, at, in->len, text->data, text->len)) != SIZE_MAX) {
		if (is_between_prompts(known, at) && is_between_prompts(known, at + text->len)) {
			return turn_of(known, at + text->len - 1);
		}
		at++;
	}
	return SIZE_MAX;
}

/**
 * The turn of the prompt that was told, from the turn `from` on; SIZE_MAX: none. First those that
 * are just it, then those that have it inside, or are inside of it: agents put things around a
 * prompt, or tell a part of it.
 */
static size_t find_prompt(struct acp_firewall *fw, size_t from, const struct buffer *text)
{
	const struct acp_known *known = &fw->known;
	const struct buffer *in = &known->texts[ACP_SAID_PROMPT];
	size_t found = find_whole_prompt(fw, from, text);
	if (found != SIZE_MAX || from >= known->turn_count) {
		return found;
	}
	size_t begin = known->turns[from].begin[ACP_SAID_PROMPT];
	if (text->len >= TELLING_LEN) {
		found = find_text(fw, in, begin, in->len, text->data, text->len);
		if (found != SIZE_MAX) {
			return turn_of(known, found + text->len - 1);
		}
	}
	for (size_t turn = from; turn < known->turn_count && spend(fw, 1); turn++) {
		size_t start = known->turns[turn].begin[ACP_SAID_PROMPT];
		size_t len = acp_known_turn_end(known, turn, ACP_SAID_PROMPT) - start;
		if (len >= TELLING_LEN &&
			find_text(fw, text, 0, text->len, in->data + start, len) != SIZE_MAX) {
			return turn;
		}
	}
	return SIZE_MAX;
}

/** claude-code keeps a cancel as if it were a prompt. */
static bool is_mark_of_cancel(const struct buffer *text)
{
	static const char mark[] = "[Requestinterruptedbyuser";
	return text->len >= sizeof(mark) - 1 && !memcmp(text->data, mark, sizeof(mark) - 1);
}

static size_t next_turn(const struct acp_firewall *fw)
{
	return fw->is_placed ? fw->turn + 1 : 1;
}

static void judge_prompt(struct acp_firewall *fw, const struct buffer *bare)
{
	fw->has_prompts = true;
	size_t turn = find_prompt(fw, next_turn(fw), bare);
	if (turn != SIZE_MAX) {
		go_to_turn(fw, turn);
	} else if (is_mark_of_cancel(bare) || find_prompt(fw, 1, bare) != SIZE_MAX) {
		fw->has_met = true;
	} else if (was_recovered(fw, ACP_SAID_PROMPT, bare)) {
		fw->has_met = true;
		fw->is_placed = false;
	} else {
		fw->is_placed = false;
		add_fresh_text(fw, fw->open.text.data, fw->open.text.len);
	}
}

/* --- gathering --- */

static void judge(struct acp_firewall *fw)
{
	struct gathered *open = &fw->open;
	struct buffer bare = {0};
	if (open->is_open && !fw->is_cut) {
		size_t len = open->begins_whole ? *(size_t *)open->ends.data : open->text.len;
		acp_known_normalize(&bare, open->said, open->text.data, len, SIZE_MAX);
	}
	if (bare.len && open->said == ACP_SAID_PROMPT) {
		judge_prompt(fw, &bare);
	} else if (bare.len) {
		judge_text(fw, &bare);
	}
	buffer_finish(&bare);
	open->is_open = false;
	free(open->message_id);
	open->message_id = NULL;
	buffer_clear(&open->text);
	buffer_clear(&open->ends);
}

static bool is_same(const char *a, const char *b)
{
	return a ? b && strcmp(a, b) == 0 : !b;
}

static void gather(struct acp_firewall *fw, enum acp_said said, const char *text, size_t len,
	const char *message_id)
{
	struct gathered *open = &fw->open;
	bool goes_on = open->is_open && open->said == said && is_same(open->message_id, message_id);
	if (!goes_on) {
		judge(fw);
		open->is_open = true;
		open->begins_whole = false;
		open->said = said;
		open->message_id = message_id ? xstrdup(message_id) : NULL;
	}
	if (open->text.len + open->ends.len + len > fw->size_max) {
		fw->is_cut = true; /* of what no log could have */
		return;
	}
	buffer_append(&open->text, text, len);
	size_t end = open->text.len;
	buffer_append(&open->ends, &end, sizeof(end));
}

static void handle_text(
	void *owner, bool thought, const char *text, size_t len, const char *message_id)
{
	gather(owner, thought ? ACP_SAID_THOUGHT : ACP_SAID_MESSAGE, text, len, message_id);
}

/** A piece that is a prompt by itself is one, also side by side with others. */
static bool is_prompt(struct acp_firewall *fw, const char *text, size_t len)
{
	struct buffer bare = {0};
	acp_known_normalize(&bare, ACP_SAID_PROMPT, text, len, SIZE_MAX);
	bool is = bare.len && (is_mark_of_cancel(&bare) ||
				      find_whole_prompt(fw, next_turn(fw), &bare) != SIZE_MAX);
	buffer_finish(&bare);
	return is;
}

static void take_prompt(struct acp_firewall *fw, const json_t *update)
{
	const json_t *content = json_object_get(json_object_get(update, "content"), "text");
	const char *text = json_string_value(content);
	size_t len = json_string_length(content);
	if (!len) {
		return;
	}
	bool is_whole = is_prompt(fw, text, len);
	if (is_whole) {
		judge(fw);
	}
	gather(fw, ACP_SAID_PROMPT, text, len,
		json_string_value(json_object_get(update, "messageId")));
	fw->open.begins_whole = fw->open.begins_whole || is_whole;
}

/* --- everything else --- */

static bool is_done(const json_t *data)
{
	const char *status = json_string_value(json_object_get(data, "status"));
	return status && (!strcmp(status, "completed") || !strcmp(status, "failed"));
}

/** A call that the log has without its result may have got one that nobody heard of. */
static bool is_known_call(struct acp_firewall *fw, const char *type, const json_t *data)
{
	const char *id = json_string_value(json_object_get(data, "tool_call_id"));
	struct acp_known_name call = acp_known_tool(&fw->known, id ? id : "");
	if (!call.found) {
		return false;
	}
	go_to_turn(fw, call.turn);
	return call.is_done || !is_done(data) || !strcmp(type, "tool_call");
}

static void handle_event(void *owner, const char *type, const json_t *data)
{
	struct acp_firewall *fw = owner;
	judge(fw);
	bool is_call = !strcmp(type, "tool_call") || !strcmp(type, "tool_call_update");
	bool is_known = is_call ? is_known_call(fw, type, data)
				: !strcmp(type, "usage") || acp_known_has(&fw->known, type, data);
	if (!is_known) {
		char *text = json_dumps(data, JSON_COMPACT);
		add_fresh(fw, type, json_deep_copy(data), text ? strlen(text) : 0, NULL);
		free(text);
	}
}

void acp_firewall_take(struct acp_firewall *fw, const json_t *update)
{
	static const struct acp_agent_ops ops = {.text = handle_text, .event = handle_event};
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	const char *why;
	if (kind && !strcmp(kind, "user_message_chunk")) {
		take_prompt(fw, update);
	} else {
		acp_update_report(update, &ops, fw, &why);
	}
}

json_t *acp_firewall_finish(struct acp_firewall *fw)
{
	judge(fw);
	json_t *fresh = fw->fresh;
	fw->fresh = json_array();
	return fresh;
}

bool acp_firewall_is_cut(const struct acp_firewall *fw)
{
	return fw->is_cut;
}

bool acp_firewall_is_foreign(const struct acp_firewall *fw)
{
	bool log_has_prompts = fw->known.turn_count > 1;
	return log_has_prompts && fw->has_prompts && !fw->has_met && !fw->known.is_cut;
}
