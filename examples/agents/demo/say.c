/* Says the text of a turn: the text of its steps, token by token. */
#include "agent.h"
#include "token.h"

#include "holdfast/utf8.h"

#include <string.h>

enum {
	QUOTE_MAX = 160,
	FILL_TEXT_TOKENS = 200, /* more than any of them has */
};

static void begin_text(struct demo_turn *turn, const char *text, size_t len)
{
	turn->text = text;
	turn->text_len = len;
	turn->text_at = 0;
}

static size_t longest_backtick_run(const char *text, size_t len)
{
	size_t longest = 0;
	size_t run = 0;
	for (size_t i = 0; i < len; i++) {
		run = text[i] == '`' ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

/*
 * Makes the quote one code span on one line, whatever it contains: it is enclosed in more backticks
 * than it contains in a row, and control characters, including newlines, become spaces.
 */
static void make_quote(struct demo_turn *turn)
{
	if (!turn->quote.len) {
		buffer_append_str(&turn->quote, "(nothing)");
	}
	size_t len = utf8_floor(turn->quote.data, turn->quote.len, QUOTE_MAX);
	size_t ticks = longest_backtick_run(turn->quote.data, len) + 1;
	struct buffer *made = &turn->made;
	buffer_clear(made);
	for (size_t i = 0; i < ticks; i++) {
		buffer_append_char(made, '`');
	}
	buffer_append_char(made, ' ');
	for (size_t i = 0; i < len; i++) {
		char c = turn->quote.data[i];
		buffer_append_char(made, (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c);
	}
	buffer_append_str(made, len < turn->quote.len ? "… " : " ");
	for (size_t i = 0; i < ticks; i++) {
		buffer_append_char(made, '`');
	}
}

/*
 * Chooses the next text to fill with. The last tokens come from a paragraph, which can end
 * anywhere.
 */
static void make_fill(struct demo_turn *turn)
{
	size_t which = turn->fill_text++ % demo_fill_text_count;
	if (turn->fill_left < FILL_TEXT_TOKENS) {
		which = demo_fill_text_count - 1;
	}
	buffer_clear(&turn->made);
	if (turn->fill_text > 1) {
		buffer_append_str(&turn->made, "\n\n");
	}
	buffer_append_str(&turn->made, demo_fill_texts[which]);
	begin_text(turn, turn->made.data, turn->made.len);
}

/* Sets the text of a step that says something; returns false if there is nothing (more) to say. */
static bool open_text(struct demo_turn *turn)
{
	const struct demo_step *step = turn->step;
	if (turn->needs_separator && step->kind != DEMO_THINK) {
		turn->needs_separator = false;
		turn->is_separator = true;
		begin_text(turn, "\n\n", 2);
		return true;
	}
	turn->is_separator = false;
	switch (step->kind) {
	case DEMO_QUOTE:
		make_quote(turn);
		begin_text(turn, turn->made.data, turn->made.len);
		return true;
	case DEMO_FILL:
		make_fill(turn);
		return turn->fill_left > 0;
	default:
		begin_text(turn, step->text, strlen(step->text));
		return turn->text_len;
	}
}

/* Ends a text after its last token; returns whether the step is over. */
static bool close_text(struct demo_turn *turn)
{
	turn->text = NULL;
	return !turn->is_separator && (turn->step->kind != DEMO_FILL || turn->fill_left <= 0);
}

bool demo_say_token(struct demo_session *session)
{
	struct demo_turn *turn = &session->turn;
	if (!turn->text && !open_text(turn)) {
		turn->text = NULL;
		turn->step++;
		return false;
	}
	size_t len = demo_token_length(turn->text, turn->text_len, turn->text_at);
	bool thought = turn->step->kind == DEMO_THINK;
	demo_put_chunk(agent_io_out(&session->agent->io), session->id, thought,
		turn->text + turn->text_at, len);
	session->token_count++;
	turn->text_at += len;
	if (turn->step->kind == DEMO_FILL && !turn->is_separator) {
		turn->fill_left--;
	}
	bool is_out = turn->step->kind == DEMO_FILL && !turn->is_separator && turn->fill_left <= 0;
	if ((turn->text_at == turn->text_len || is_out) && close_text(turn)) {
		turn->step++;
	}
	return true;
}
