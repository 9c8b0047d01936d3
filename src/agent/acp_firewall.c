#include "acp_firewall.h"

#include "acp_internal.h"

#include <stdlib.h>
#include <string.h>

/* What an update takes of memory besides its text, about; and a new event. */
#define UPDATE_SIZE ((size_t)200)
#define FRESH_SIZE  ((size_t)512)

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
	size_t slack; /* so many later turns have the same prompt, and are not told by others */
	bool has_met; /* something that the log has was told */
	bool has_prompts; /* a prompt was told */
	/* What was told, until it is all there. */
	json_t *updates;
	size_t told_size;
	bool is_full; /* there was more */
	struct hash *told_prompts; /* how often each is still to come, as a pointer */
	/* What is new. */
	json_t *fresh;
	size_t fresh_size;
	bool is_cut; /* there was too much of it */
};

static const json_t *text_of(const json_t *update)
{
	return json_object_get(json_object_get(update, "content"), "text");
}

struct acp_firewall *acp_firewall_create(size_t size_max)
{
	struct acp_firewall *fw = xcalloc(1, sizeof(*fw));
	fw->size_max = size_max;
	fw->fresh = json_array();
	fw->updates = json_array();
	fw->told_prompts = hash_create();
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
	json_decref(fw->updates);
	hash_destroy(fw->told_prompts);
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
	fw->is_cut = fw->is_cut || acp_known_is_exhausted(&fw->known) ||
		     fw->fresh_size + size + FRESH_SIZE > fw->size_max;
	if (is_older || fw->is_cut) {
		json_decref(data);
		return;
	}
	fw->fresh_size += size + FRESH_SIZE;
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
	if (turn == ACP_NO_TURN || (fw->is_placed && turn <= fw->turn)) {
		return; /* something late */
	}
	fw->turn = turn;
	fw->slack = 0;
	fw->is_placed = true;
	for (int said = 0; said < ACP_SAID_COUNT; said++) {
		if (fw->at[said] < fw->known.turns[turn].begin[said]) {
			fw->at[said] = fw->known.turns[turn].begin[said];
		}
	}
}

static bool was_recovered(struct acp_firewall *fw, enum acp_said said, const struct buffer *text)
{
	const struct buffer *in = &fw->known.recovered[said];
	return acp_known_find(&fw->known, in, 0, in->len, text) != SIZE_MAX;
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
	if (!fw->is_placed && text->len < ACP_TELLING_LEN && fw->has_prompts) {
		return was_recovered(fw, said, text);
	}
	size_t from = fw->at[said] > begin && fw->at[said] <= end ? fw->at[said] : begin;
	size_t found = acp_known_find(&fw->known, in, from, end, text);
	if (found != SIZE_MAX) {
		fw->at[said] = found + text->len;
		fw->has_met = fw->has_met || text->len >= ACP_TELLING_LEN;
		return true;
	}
	return acp_known_find(&fw->known, in, begin, end, text) != SIZE_MAX ||
	       was_recovered(fw, said, text);
}

/**
 * Who asks again what a crash has left unanswered gives several turns the same prompt, of which the
 * agent may have kept the last one only: the turn is the first that has the text.
 */
static bool is_in_equal_turn(struct acp_firewall *fw, enum acp_said said, const struct buffer *text)
{
	const struct buffer *in = &fw->known.texts[said];
	size_t left = fw->slack;
	for (size_t turn = fw->turn + 1;
		left && turn < fw->known.turn_count && !acp_known_is_exhausted(&fw->known);
		turn++) {
		if (!acp_known_has_same_prompt(&fw->known, fw->turn, turn)) {
			continue;
		}
		left--;
		size_t end = acp_known_turn_end(&fw->known, turn, said);
		size_t begin = fw->known.turns[turn].begin[said];
		size_t found = acp_known_find(&fw->known, in, begin, end, text);
		if (found != SIZE_MAX) {
			go_to_turn(fw, turn);
			fw->slack = left;
			fw->at[said] = found + text->len;
			return true;
		}
	}
	return false;
}

/**
 * What is long enough not to be said twice by chance is known wherever it stands, and tells where
 * the replay is: one prompt that was taken for another must not make all that follows new.
 */
static bool is_anywhere(struct acp_firewall *fw, enum acp_said said, const struct buffer *text)
{
	const struct buffer *in = &fw->known.texts[said];
	if (text->len < ACP_TELLING_LEN) {
		return false;
	}
	size_t found = acp_known_find(&fw->known, in, fw->at[said], in->len, text);
	if (found == SIZE_MAX) {
		found = acp_known_find(&fw->known, in, 0, in->len, text);
	}
	if (found == SIZE_MAX) {
		return false;
	}
	fw->turn = acp_known_turn_of(&fw->known, said, found);
	fw->is_placed = fw->has_met = true;
	fw->slack = 0;
	for (int other = 0; other < ACP_SAID_COUNT; other++) {
		fw->at[other] = fw->known.turns[fw->turn].begin[other];
	}
	fw->at[said] = found + text->len;
	return true;
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

/** The same in any turn, of what is long enough to be told apart; the replay is there then. */
static size_t find_beginning_anywhere(
	struct acp_firewall *fw, enum acp_said said, const struct buffer *text)
{
	const struct buffer *in = &fw->known.texts[said];
	struct buffer first = {.data = text->data, .len = ACP_TELLING_LEN};
	size_t at = 0;
	while (text->len > ACP_TELLING_LEN &&
		(at = acp_known_find(&fw->known, in, at, in->len, &first)) != SIZE_MAX) {
		size_t turn = acp_known_turn_of(&fw->known, said, at);
		size_t len = acp_known_turn_end(&fw->known, turn, said) - at;
		if (len < text->len && memcmp(in->data + at, text->data, len) == 0) {
			fw->turn = turn;
			fw->is_placed = fw->has_met = true;
			fw->at[said] = at;
			return len;
		}
		at++;
	}
	return 0;
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
	if (bare.len >= ACP_TELLING_LEN) {
		is_known = is_in_log(fw, said, &bare) || is_anywhere(fw, said, &bare);
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
	if (!was_recovered(fw, said, &rest) && !is_anywhere(fw, said, &rest)) {
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
	if (is_in_log(fw, open->said, bare) ||
		(fw->is_placed && is_in_equal_turn(fw, open->said, bare)) ||
		is_anywhere(fw, open->said, bare)) {
		return;
	}
	size_t count = open->ends.len / sizeof(size_t);
	size_t beginning = find_beginning(fw, open->said, bare);
	if (!beginning) {
		beginning = find_beginning_anywhere(fw, open->said, bare);
	}
	if (beginning) {
		take_rest(fw, bare, beginning);
	} else if (name.found) {
		return; /* the agent tells it in other words now */
	} else if (count > 1 && bare->len / count >= ACP_TELLING_LEN) {
		take_pieces(fw);
	} else {
		add_fresh_text(fw, open->text.data, open->text.len);
	}
}

/* --- prompts --- */

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

/** How often the prompt is still told, this time among them. */
static size_t count_told(const struct acp_firewall *fw, const struct buffer *bare)
{
	return (size_t)(uintptr_t)hash_get(fw->told_prompts, bare->data, bare->len);
}

/** How many of the turns from this one on have its prompt and are not told by any that comes. */
static size_t find_slack(struct acp_firewall *fw, size_t turn, size_t told)
{
	size_t count = 0;
	for (size_t i = turn; i < fw->known.turn_count && !acp_known_is_exhausted(&fw->known);
		i++) {
		count += acp_known_has_same_prompt(&fw->known, turn, i);
	}
	return count > told ? count - told : 0;
}

static void judge_prompt(struct acp_firewall *fw, const struct buffer *bare)
{
	fw->has_prompts = true;
	size_t told = count_told(fw, bare);
	if (told > 1) {
		hash_put(fw->told_prompts, bare->data, bare->len, (void *)(uintptr_t)(told - 1));
	}
	size_t turn = acp_known_find_prompt(&fw->known, next_turn(fw), bare);
	if (turn != SIZE_MAX) {
		go_to_turn(fw, turn);
		fw->slack = told ? find_slack(fw, turn, told) : 0;
	} else if (is_mark_of_cancel(bare) ||
		   acp_known_find_prompt(&fw->known, 1, bare) != SIZE_MAX) {
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
	if (open->is_open) {
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
	bool is =
		bare.len && (is_mark_of_cancel(&bare) || acp_known_find_whole_prompt(&fw->known,
								 next_turn(fw), &bare) != SIZE_MAX);
	buffer_finish(&bare);
	return is;
}

static void take_prompt(struct acp_firewall *fw, const json_t *update)
{
	const char *text = json_string_value(text_of(update));
	size_t len = json_string_length(text_of(update));
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

/** A call that the log has without its result may have got one that nobody heard of. */
static bool is_known_call(struct acp_firewall *fw, const char *type, const json_t *data)
{
	const char *id = json_string_value(json_object_get(data, "tool_call_id"));
	struct acp_known_name call = acp_known_tool(&fw->known, id ? id : "");
	if (!call.found) {
		return false;
	}
	go_to_turn(fw, call.turn);
	return call.is_done || !acp_known_call_is_done(data) || !strcmp(type, "tool_call");
}

static void handle_event(void *owner, const char *type, const json_t *data)
{
	struct acp_firewall *fw = owner;
	judge(fw);
	bool is_call = !strcmp(type, "tool_call") || !strcmp(type, "tool_call_update");
	bool is_known = is_call ? is_known_call(fw, type, data)
				: !strcmp(type, "usage") || acp_known_has(&fw->known, type, data);
	if (!is_known) {
		char *text = json_text(data, NULL);
		add_fresh(fw, type, json_incref((json_t *)data), strlen(text), NULL);
		free(text);
	}
}

static void take(struct acp_firewall *fw, const json_t *update)
{
	static const struct acp_agent_ops ops = {.text = handle_text, .event = handle_event};
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	const char *why;
	if (!strcmp(kind, "user_message_chunk")) {
		take_prompt(fw, update);
	} else {
		acp_update_report(update, &ops, fw, &why);
	}
}

static void count_prompt(struct acp_firewall *fw, const json_t *update)
{
	const json_t *text = text_of(update);
	struct buffer bare = {0};
	acp_known_normalize(&bare, ACP_SAID_PROMPT, json_string_value(text),
		json_string_length(text), SIZE_MAX);
	size_t told = count_told(fw, &bare);
	if (bare.len) {
		hash_put(fw->told_prompts, bare.data, bare.len, (void *)(uintptr_t)(told + 1));
	}
	buffer_finish(&bare);
}

void acp_firewall_take(struct acp_firewall *fw, const json_t *update, size_t size)
{
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	fw->is_full = fw->is_full || fw->told_size + size + UPDATE_SIZE > fw->size_max;
	if (!kind || fw->is_full) {
		return;
	}
	fw->told_size += size + UPDATE_SIZE;
	json_array_append(fw->updates, (json_t *)update);
	if (!strcmp(kind, "user_message_chunk")) {
		count_prompt(fw, update);
	}
}

json_t *acp_firewall_finish(struct acp_firewall *fw)
{
	for (size_t i = 0; i < json_array_size(fw->updates); i++) {
		take(fw, json_array_get(fw->updates, i));
	}
	judge(fw);
	json_t *fresh = fw->fresh;
	fw->fresh = json_array();
	return fresh;
}

bool acp_firewall_is_cut(const struct acp_firewall *fw)
{
	return fw->is_full || fw->is_cut || acp_known_is_exhausted(&fw->known);
}

bool acp_firewall_is_foreign(const struct acp_firewall *fw)
{
	bool log_has_prompts = fw->known.turn_count > 1;
	return log_has_prompts && fw->has_prompts && !fw->has_met && !fw->known.is_cut &&
	       !acp_known_is_exhausted(&fw->known);
}
