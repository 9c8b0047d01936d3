/*
 * Checks a data directory (store_check.h): visits its parts, and collects and reports the findings.
 */
#include "check.h"

#include "embedded.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most problems reported of files that belong together; the others are only counted. */
#define SAID_MAX 10

/* --- findings --- */

__attribute__((format(printf, 4, 0))) static void add_finding(
	struct check *check, char kind, const char *place, const char *fmt, va_list args)
{
	struct buffer *texts = &check->found.texts;
	char what[512];
	vsnprintf(what, sizeof(what), fmt, args);
	buffer_append_char(texts, kind);
	buffer_append(texts, place, strlen(place) + 1);
	buffer_append(texts, what, strlen(what) + 1);
}

void check_problem(struct check *check, const char *place, const char *fmt, ...)
{
	if (check->found.problems++ >= SAID_MAX) {
		check->found.unsaid++;
		return;
	}
	va_list args;
	va_start(args, fmt);
	add_finding(check, 'p', place, fmt, args);
	va_end(args);
}

void check_note(struct check *check, const char *place, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	add_finding(check, 'n', place, fmt, args);
	va_end(args);
}

void check_forget(struct check *check)
{
	buffer_clear(&check->found.texts);
	check->found.problems = check->found.unsaid = 0;
}

void check_tell(struct check *check)
{
	struct findings *found = &check->found;
	const char *place = "";
	for (size_t at = 0; at < found->texts.len;) {
		bool is_problem = found->texts.data[at] == 'p';
		place = found->texts.data + at + 1;
		const char *what = place + strlen(place) + 1;
		(is_problem ? check->ops->problem : check->ops->note)(check->owner, place, what);
		at = (size_t)(what + strlen(what) + 1 - found->texts.data);
	}
	if (found->unsaid) {
		char more[64];
		snprintf(more, sizeof(more), "and %llu more problems in the same file",
			(unsigned long long)found->unsaid);
		check->ops->problem(check->owner, place, more);
	}
	check->counts->problems += found->problems;
	check_forget(check);
}

/* --- traversal --- */

static uint64_t log_size(const struct store_files *files, const char *id)
{
	char path[192];
	snprintf(path, sizeof(path), "%s/events.jsonl", id);
	return store_files_size(files->sessions_fd, path);
}

uint64_t store_check_size(const struct store_files *files, const char *session)
{
	uint64_t size = session ? log_size(files, session) : check_streams_size(files);
	uint64_t *segments = NULL;
	size_t count = 0;
	store_files_list_segments(files, &segments, &count);
	for (size_t i = 0; i < count; i++) {
		char name[32];
		journal_segment_name(segments[i], name);
		size += store_files_size(files->journal_fd, name);
	}
	free(segments);
	char **ids = NULL;
	count = 0;
	store_files_list_sessions(files, &ids, &count);
	for (size_t i = 0; i < count; i++) {
		size += session ? 0 : log_size(files, ids[i]);
		free(ids[i]);
	}
	free(ids);
	return size;
}

static bool has_session(const struct check *check, const char *id)
{
	for (size_t i = 0; i < check->id_count; i++) {
		if (strcmp(check->ids[i], id) == 0) {
			return true;
		}
	}
	return false;
}

static void check_clock(struct check *check)
{
	struct ages ages;
	int r = store_clock_read(check->files->dir_fd, &ages);
	if (r == -EBADMSG) {
		check_note(check, "clock.json", "it is damaged: %s", CLOCK_DAMAGED);
	} else if (r < 0 && r != -ENOENT) {
		check_note(check, "clock.json", "it cannot be read: %s; %s", file_error(-r),
			CLOCK_UNREAD);
	}
}

/**
 * Lists the sessions before it reads the journal. So a session that a running server creates
 * meanwhile is not in the list, and the check of one that it deletes finds it gone.
 */
static int check_all(struct check *check, const char *session)
{
	int r = store_files_list_sessions(check->files, &check->ids, &check->id_count);
	if (r < 0) {
		return r;
	}
	bool is_aside = check_aside(check, session);
	if (session && !has_session(check, session)) {
		return is_aside ? 0 : -ENOENT;
	}
	r = check_journal(check);
	check_tell(check);
	for (size_t i = 0; i < check->id_count && r == 0; i++) {
		if (!session || strcmp(session, check->ids[i]) == 0) {
			check_session(check, check->ids[i]);
			check_tell(check);
		}
	}
	if (r == 0 && !check->files->in_use) {
		check_lives(check);
		check_tell(check);
	}
	if (r == 0 && !session) {
		check_streams(check);
		check_clock(check);
		check_tell(check);
	}
	return r;
}

int store_check(const struct store_files *files, const char *session,
	const struct store_check_ops *ops, void *owner, struct store_check_counts *counts)
{
	*counts = (struct store_check_counts){0};
	struct journal_view journal;
	struct check check = {
		.files = files, .ops = ops, .owner = owner, .counts = counts, .journal = &journal};
	journal_view_begin(&journal, files->journal_fd);
	int r = check_all(&check, session);
	for (size_t i = 0; i < check.id_count; i++) {
		free(check.ids[i]);
	}
	free(check.ids);
	journal_view_finish(&journal);
	buffer_finish(&check.found.texts);
	return r;
}
