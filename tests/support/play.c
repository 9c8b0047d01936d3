#include "play.h"

#include "output.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void play_read(struct play *play, const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;
	assert(file);
	*play = (struct play){.epoch = 0x9f2c41d07ab3e865};
	while ((len = getline(&line, &cap, file)) > 0) {
		struct event *event = output_event(line, (size_t)len);
		assert(event);
		play->events = xrealloc(play->events, (play->count + 1) * sizeof(struct event *));
		play->events[play->count++] = event;
	}
	free(line);
	fclose(file);
}

void play_finish(struct play *play)
{
	for (size_t i = 0; i < play->count; i++) {
		event_unref(play->events[i]);
	}
	free(play->events);
}

static unsigned next(unsigned *seed)
{
	*seed = *seed * 1103515245U + 12345U;
	return *seed >> 8;
}

/** The text of a block that grows; NULL: it is no such event. The caller's. */
static char *text_of(const struct event *event)
{
	struct event_view view;
	bool is_message = event->type == EVENT_AGENT_MESSAGE;
	if (!is_message && event->type != EVENT_AGENT_THOUGHT) {
		return NULL;
	}
	event_get_view(event, &view);
	json_t *data = json_loadb(view.data, view.data_len, 0, NULL);
	const char *text =
		json_string_value(json_object_get(data, is_message ? "markdown" : "text"));
	char *copy = text ? xstrdup(text) : NULL;
	json_decref(data);
	return copy;
}

/** The next place from `at` on that is not inside a character. */
static size_t whole(const char *text, size_t at)
{
	while (((unsigned char)text[at] & 0xc0) == 0x80) {
		at++;
	}
	return at;
}

static void play_pages(const struct play *play, const struct connected_frame *now, unsigned *seed,
	play_taker take, void *arg)
{
	size_t at = play->from;
	bool is_last;
	do {
		size_t left = play->live - at;
		size_t count = left < play->page_size ? left : play->page_size;
		is_last = count == left;
		struct loaded_frame page = {.events = play->events + at,
			.count = count,
			.hide = play->hide,
			.has_more = !is_last,
			.max_seq = now->max_seq,
			.first_kept_seq = play->events[0]->seq,
			.epoch = play->epoch,
			.reset = play->reset};
		struct event *open =
			is_last && play->live < play->count ? play->events[play->live] : NULL;
		char *text = open ? text_of(open) : NULL;
		if (text && *text && next(seed) % 2 && !event_hides(open, play->hide)) {
			page.open = (struct open_part){.seq = open->seq,
				.type = open->type,
				.text = text,
				.len = whole(text, 1 + next(seed) % strlen(text))};
		}
		take(arg, "page", &page);
		free(text);
		at += count;
	} while (!is_last);
}

static void play_text(
	const struct event *event, const char *text, unsigned *seed, play_taker take, void *arg)
{
	size_t len = strlen(text);
	for (size_t at = 0, end; at < len && next(seed) % 30; at = end) {
		size_t most = at + 1 + next(seed) % 40;
		end = whole(text, most < len ? most : len);
		if (next(seed) % 12) {
			take(arg, "delta",
				&(struct open_part){.seq = event->seq,
					.type = event->type,
					.offset = at,
					.text = text + at,
					.len = end - at});
		}
	}
}

static void play_live(const struct play *play, struct connected_frame *now, unsigned *seed,
	play_taker take, void *arg)
{
	for (size_t at = play->live, count; at < play->count; at += count) {
		struct event *event = play->events[at];
		char *text = text_of(event);
		if (text && !event_hides(event, play->hide) && next(seed) % 3) {
			play_text(event, text, seed, take, arg);
		}
		free(text);
		count = 1 + (next(seed) % 4 ? 0 : next(seed) % 5);
		count = count < play->count - at ? count : play->count - at;
		bool has_more = at + count < play->count && next(seed) % 5 == 0;
		now->max_seq = play->events[at + count - 1]->seq + has_more;
		take(arg, "events",
			&(struct live_events){
				play->events + at, count, FORMAT_MARKDOWN, play->hide, now});
	}
}

void play_session(const struct play *play, play_taker take, void *arg)
{
	static const struct error_notice errors[] = {
		{ERROR_storage_failed, "it \"failed\"", "load_events", NULL},
		{ERROR_setting_refused, "it may not", "set_mode", NULL},
		{ERROR_storage_failed, "no more of it", NULL, NULL},
	};
	unsigned seed = play->seed;
	struct connected_frame now = {.session_id = "s",
		.labels.title = "",
		.client_id = "c",
		.role = "admin",
		.epoch = play->epoch,
		.max_seq =
			play->live ? play->events[play->live - 1]->seq : play->events[0]->seq - 1,
		.first_seq = play->events[0]->seq,
		.status = {.is_prompting = true, .status = "running"}};
	take(arg, "connected", &now);
	play_pages(play, &now, &seed, take, arg);
	play_live(play, &now, &seed, take, arg);
	if (play->seed % 2) {
		take(arg, "error", &errors[next(&seed) % 3]);
	}
	take(arg, "gone", NULL);
}

struct frame *play_encode(
	const struct encoder *encoder, void *reader, const char *what, const void *in)
{
	if (strcmp(what, "connected") == 0) {
		return encoder->connected ? encoder->connected(reader, in) : NULL;
	}
	return strcmp(what, "page") == 0     ? encoder->page(reader, in)
	       : strcmp(what, "events") == 0 ? encoder->events(reader, in)
	       : strcmp(what, "delta") == 0  ? encoder->delta(reader, in)
	       : strcmp(what, "error") == 0  ? encoder->error(reader, in)
					     : encoder->gone(reader, "s", "deleted");
}
