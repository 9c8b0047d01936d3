/*
 * What the doors make of a session, byte for byte: tests/corpus/doors has a session with all that
 * they translate, and what came out of it, from several positions and for several tokens. With
 * HOLDFAST_GOLDEN=write the files are written anew.
 */
#include "doors/ai/ai_turn.h"
#include "doors/acp/editor_view.h"

#include "output.h"
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define FOLDER HOLDFAST_SOURCE_ROOT "/tests/corpus/doors/"

static void compare(const char *path, const struct buffer *made)
{
	const char *mode = getenv("HOLDFAST_GOLDEN");
	bool writes = mode && strcmp(mode, "write") == 0;
	FILE *file = fopen(path, writes ? "w" : "r");
	assert_non_null(file);
	if (writes) {
		assert_int_equal(fwrite(made->data, 1, made->len, file), made->len);
	} else {
		char *wanted = xcalloc(1, made->len + 2);
		assert_int_equal(fread(wanted, 1, made->len + 1, file), made->len);
		assert_memory_equal(wanted, made->data, made->len);
		free(wanted);
	}
	fclose(file);
}

/** Who is told a session, and by whom. */
struct listener {
	const struct encoder *encoder;
	void *reader;
	struct buffer *out;
};

static void tell(void *arg, const char *what, const void *in)
{
	struct listener *to = arg;
	struct frame *frame = play_encode(to->encoder, to->reader, what, in);
	if (frame && frame_len(frame)) {
		buffer_printf(to->out, "# %s\n", what);
		buffer_append(to->out, frame_text(frame), frame_len(frame));
	}
	frame_unref(frame);
}

/** Plays the session with the hide, the page size and the cuts that follow from the round. */
static void play_round(struct play *play, unsigned round, struct listener *to)
{
	play->hide = round % 4;
	play->seed = 7 * round + 1;
	play->page_size = round % 3 ? 500 : 4;
	play->live = play->from + (play->count - play->from) * (round % 5) / 5;
	buffer_printf(
		to->out, "## from %zu, live from %zu, round %u\n", play->from, play->live, round);
	play_session(play, tell, to);
}

/* --- chats of the AI SDK --- */

/** Tells a chat one turn, which it follows by its number or by the prompt that began it. */
static void tell_chat(struct play *play, unsigned round, struct buffer *out)
{
	char prompt[32];
	const uint64_t turn = play->events[play->from]->turn;
	snprintf(prompt, sizeof(prompt), "p-%llu", (unsigned long long)turn);
	const struct ai_turn_config config = {.prompt_id = round % 2 ? prompt : NULL,
		.turn = round % 2 ? 0 : turn,
		.session_id = "s"};
	struct ai_turn *reader = ai_turn_create(&config);
	if (round % 3 == 1) {
		ai_turn_answered(reader, turn == 1 ? "q-1" : "q-2");
	}
	struct listener to = {&ai_socket_encoder, reader, out};
	play_round(play, round, &to);
	const char *why = ai_turn_why(reader);
	buffer_printf(out, "## %s%s\n", ai_turn_is_over(reader) ? "over" : "goes on",
		why ? ", failed" : "");
	ai_turn_destroy(reader);
}

static void chats_are_told_what_they_always_were(void **state)
{
	struct play play;
	struct buffer out = {0};
	uint64_t turn = 0;
	play_read(&play, FOLDER "session.jsonl");
	for (size_t i = 0; i < play.count; i++) {
		if (play.events[i]->turn > turn) {
			turn = play.events[i]->turn;
			play.from = i;
			for (unsigned round = 0; round < (turn < 3 ? 16 : 4); round++) {
				tell_chat(&play, round, &out);
			}
		}
	}
	compare(FOLDER "chats.txt", &out);
	buffer_finish(&out);
	play_finish(&play);
}

/* --- editors --- */

/** Tells an editor the session, which it loads or resumes, with requests that wait for an answer. */
static void tell_editor(struct play *play, unsigned round, struct buffer *out)
{
	const struct editor_view_config config = {.session_id = "s",
		.client_id = round % 2 ? "c" : "other",
		.epoch = play->epoch,
		.told_seq = play->from,
		.open_told = round % 5 == 1 ? 5 : 0,
		.tells_own = round % 3 == 0,
		.load_id = round % 3 != 1 ? "\"l\"" : NULL,
		.names_session = round % 4 == 2,
		.reset = round % 8 == 5 ? "epoch" : NULL,
		.asks = round % 4 < 2,
		.takes_forms = round % 3 != 2,
		.takes_urls = round % 2};
	struct editor_view *reader = editor_view_create(&config);
	struct listener to = {&output_editor_lines, reader, out};
	assert_true(editor_view_add_prompt(reader, "11", "p-2"));
	assert_true(editor_view_add_prompt(reader, "12", round % 2 ? "p-6" : "p-7"));
	play->reset = config.reset;
	play_round(play, round, &to);
	editor_view_destroy(reader);
}

static void editors_are_told_what_they_always_were(void **state)
{
	struct play play;
	struct buffer out = {0};
	play_read(&play, FOLDER "session.jsonl");
	for (unsigned round = 0; round < 16; round++) {
		play.from = round % 4 * play.count / 5;
		tell_editor(&play, round, &out);
	}
	compare(FOLDER "editors.txt", &out);
	buffer_finish(&out);
	play_finish(&play);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chats_are_told_what_they_always_were),
		cmocka_unit_test(editors_are_told_what_they_always_were),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
