/*
 * Reads of pages: takes the part of a page that is in memory, has the engine read the rest, and has
 * events rendered that lack the requested format.
 */
#include "store_internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* --- the end of a read --- */

void log_read_drop(struct log_read *read)
{
	while (read->got) {
		event_unref(read->events[--read->got]);
	}
}

/** Adds the events from memory after those that were read, as far as they fit. */
static void add_hot(struct log_read *read)
{
	size_t bytes = read->bytes;
	for (size_t i = 0; i < read->hot_count; i++) {
		struct event *event = read->hot[i];
		bytes += event->json_len[FORMAT_MARKDOWN];
		if (!read->page.is_fixed_at_end &&
			(read->got < read->count + i || bytes > read->page.max_bytes)) {
			break;
		}
		read->events[read->got++] = event_ref(event);
	}
}

static void tell(struct log_read *read)
{
	if (read->done && read->status == 0) {
		read->done(read->arg, 0, read->events, read->got);
	} else if (read->done) {
		read->done(read->arg, read->status, NULL, 0);
	} else {
		log_read_drop(read);
	}
	for (size_t i = 0; i < read->hot_count; i++) {
		event_unref(read->hot[i]);
	}
	free(read->hot);
	free(read->events);
	free(read->id);
	free(read);
}

static void handle_rendered(struct page_render *render)
{
	tell((struct log_read *)((char *)render - offsetof(struct log_read, render)));
}

void log_read_end(struct log_read *read)
{
	if (read->status == 0) {
		add_hot(read);
	} else {
		log_read_drop(read);
	}
	if (read->status < 0 || !read->done || read->page.format == FORMAT_MARKDOWN) {
		tell(read);
		return;
	}
	read->render = (struct page_render){.events = read->events,
		.count = read->got,
		.format = read->page.format,
		.done = handle_rendered};
	list_init(&read->render.link);
	renderer_page(read->store->renderer, &read->render);
}

/* --- the beginning of a read --- */

/** Takes the part of the page that is in memory. */
static void take_hot(struct session_log *log, struct log_read *read)
{
	uint64_t first = session_log_hot_first(log);
	read->max_bytes = read->page.max_bytes;
	if (!log->hot_count || first > read->page.to) {
		return;
	}
	struct log_page part = {.from = first, .to = read->page.to, .max_bytes = SIZE_MAX};
	read->hot = xcalloc((size_t)(part.to - part.from + 1), sizeof(struct event *));
	read->hot_count = session_log_get_hot(log, &part, read->hot);
	read->page.to = first - 1;
	for (size_t i = 0; read->page.is_fixed_at_end && i < read->hot_count; i++) {
		size_t len = read->hot[i]->json_len[FORMAT_MARKDOWN];
		read->max_bytes = read->max_bytes > len ? read->max_bytes - len : 0;
	}
}

/** The whole page is in memory, and only has to be rendered. */
static void take_all(struct session_log *log, struct log_read *read)
{
	struct log_page page = read->page;
	page.format = FORMAT_MARKDOWN;
	read->events = xcalloc((size_t)(page.to - page.from + 1), sizeof(struct event *));
	read->got = session_log_get_hot(log, &page, read->events);
	log_read_end(read);
}

struct log_read *session_log_read(
	struct session_log *log, const struct log_page *page, log_read_done done, void *arg)
{
	bool is_hot = page->from >= session_log_hot_first(log);
	if (page->from < log->first_seq || page->to > log->last_seq || page->from > page->to ||
		(is_hot && page->format == FORMAT_MARKDOWN)) {
		return NULL;
	}
	struct log_read *read = xcalloc(1, sizeof(*read));
	read->store = log->store;
	read->id = xstrdup(log->id);
	read->epoch = log->epoch;
	read->mirror = log->is_mirror ? log : NULL;
	read->page = *page;
	read->done = done;
	read->arg = arg;
	if (is_hot) {
		take_all(log, read);
		return read;
	}
	take_hot(log, read);
	read->count = (size_t)(read->page.to - read->page.from + 1);
	read->events = xcalloc(read->count + read->hot_count, sizeof(struct event *));
	log->store->engine->read(log, read);
	return read;
}

void log_read_cancel(struct log_read *read)
{
	read->done = NULL;
	atomic_store(&read->is_unwanted, true);
	renderer_cancel(&read->render); /* no effect if rendering has not begun: it will not */
}
