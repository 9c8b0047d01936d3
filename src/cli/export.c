/* holdfast export: writes a session's log as JSON lines for programs, or as a transcript. */
#include "holdfast/command.h"

#include "transcript.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/session.h"
#include "holdfast/store_database.h"
#include "holdfast/store_files.h"
#include "holdfast/store_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT, AFTER };

static const struct option options[] = {
	[FORMAT] = {"--format", "jsonl|markdown", NULL, "jsonl",
		"jsonl: one event per line, as in the protocol with format=markdown; markdown: a readable transcript. Default: jsonl"},
	[AFTER] = {"--after", "SEQ", NULL, "0", "only the events after this seq"},
	{0},
};

static const struct command command = {
	.usage = "export DIR|ADDRESS SESSION [OPTIONS]",
	.help = "Writes the events of a session to stdout. It reads only the session's log, which contains everything that\n"
		"observers have been shown; a server may be running meanwhile. After a crash the journal may contain\n"
		"acknowledged events that are not in the log yet: the server moves them there when it starts.\n\n"
		"ADDRESS is that of a database, as for serve --store: postgresql://USER@HOST/NAME, or keywords of libpq.\n\n"
		"In a transcript, each tool call and plan appears where it began, in its final state.\n\n"
		"Exit codes: 0 complete, 1 damaged lines were left out, 2 failed.\n",
	.options = options,
	.words_min = 2,
	.words_max = 2,
};

struct export
{
	const struct store_files *files;
	struct store_database *database; /* NULL: the session is in `files` */
	const char *id;
	uint64_t after;
	uint64_t last; /* the second pass ends where the first did, though the log may have grown */
	uint64_t damaged;
	struct transcript *transcript; /* NULL: jsonl */
	struct buffer json; /* an event as it is written */
};

typedef void (*visit_event)(struct export *ex, const char *line, const struct event_view *view);

/** A pass over the events. */
struct going {
	struct export *ex;
	visit_event visit;
	bool is_first;
	uint64_t number; /* of the line, from 1 */
};

static void tell_damaged(const struct going *going)
{
	going->ex->damaged++;
	diag(DIAG_WARN,
		"line %" PRIu64 " of the log is damaged and left out (holdfast verify tells more)",
		going->number);
}

/** Returns 1 to end the pass. */
static int see_line(void *arg, const char *line, size_t len)
{
	struct going *going = arg;
	struct export *ex = going->ex;
	struct event_view view;
	going->number++;
	if (event_parse_line(line, len, &view) < 0) {
		if (going->is_first) {
			tell_damaged(going);
		}
		return 0;
	}
	if (going->is_first) {
		ex->last = view.seq;
	} else if (view.seq > ex->last) {
		return 1;
	}
	if (view.seq > ex->after) {
		going->visit(ex, line, &view);
	}
	return 0;
}

static int each_line_of_files(struct going *going)
{
	struct log_lines lines;
	const char *line;
	size_t len;
	int r = log_lines_open(going->ex->files, going->ex->id, &lines);
	while (r >= 0 && (r = log_lines_next(&lines, &line, &len)) > 0) {
		if (see_line(going, line, len)) {
			break;
		}
	}
	log_lines_close(&lines);
	return r;
}

/** Visits the events that are to be exported. Returns 0 or a negative errno. */
static int each_event(struct export *ex, visit_event visit, bool is_first)
{
	struct going going = {.ex = ex, .visit = visit, .is_first = is_first};
	int r = !ex->database ? each_line_of_files(&going)
			      : ex->database->ops->each_line(
					ex->database, ex->id, ex->after, see_line, &going);
	return r < 0 ? r : 0;
}

/** Writes the line without its last member, the checksum. */
static void write_json(struct export *ex, const char *line, const struct event_view *view)
{
	buffer_clear(&ex->json);
	buffer_append(&ex->json, line, (size_t)(view->data - line) + view->data_len);
	buffer_append_char(&ex->json, '}');
	diag_print_json(ex->json.data, ex->json.len);
}

static void look(struct export *ex, const char *line, const struct event_view *view)
{
	transcript_look(ex->transcript, view);
}

static void write_block(struct export *ex, const char *line, const struct event_view *view)
{
	transcript_add(ex->transcript, view);
}

static void write_bytes(void *owner, const char *bytes, size_t len)
{
	diag_print_bytes(bytes, len);
}

static int read_metadata(const struct export *ex, const struct store_facts *facts,
	struct store_metadata *ret, const char **ret_why)
{
	return ex->database
		       ? ex->database->ops->read_metadata(ex->database, ex->id, facts, ret, ret_why)
		       : store_files_read_metadata(ex->files, ex->id, facts, ret, ret_why);
}

static int export_markdown(struct export *ex)
{
	struct store_metadata meta;
	const char *why;
	bool is_read = read_metadata(ex, &session_facts_ops, &meta, &why) == 0;
	const struct session_facts *facts = is_read ? meta.facts : NULL;
	ex->transcript = transcript_create(write_bytes, NULL);
	const char *given = facts && facts->title ? facts->title : "";
	transcript_begin(ex->transcript, facts && facts->name ? facts->name : given, ex->id);
	store_metadata_finish(&meta);
	int r = each_event(ex, look, true);
	if (r == 0) {
		r = each_event(ex, write_block, false);
	}
	if (r == 0) {
		transcript_end(ex->transcript);
	}
	transcript_destroy(ex->transcript);
	return r;
}

static int export(struct export *ex, bool markdown)
{
	int r = markdown ? export_markdown(ex) : each_event(ex, write_json, true);
	if (r == -ENOENT) {
		diag(DIAG_ERROR, "there is no log of a session %s", ex->id);
		return TOOL_FAILED;
	}
	r = r == 0 ? diag_flush() : r;
	if (r < 0) {
		diag(DIAG_ERROR, "session %s cannot be exported: %s", ex->id, strerror(-r));
		return TOOL_FAILED;
	}
	return ex->damaged ? 1 : 0;
}

static int take_values(struct export *ex, const char *values[], bool *ret_markdown)
{
	*ret_markdown = strcmp(values[FORMAT], "markdown") == 0;
	if (!*ret_markdown && strcmp(values[FORMAT], "jsonl") != 0) {
		return options_refuse(&options[FORMAT], values[FORMAT], NULL);
	}
	size_t digits = strspn(values[AFTER], "0123456789");
	ex->after = strtoull(values[AFTER], NULL, 10);
	if (!digits || digits > 18 || values[AFTER][digits]) {
		return options_refuse(&options[AFTER], values[AFTER], NULL);
	}
	return 0;
}

/** Skips pruned events still in the file. Without valid metadata, none are known to be pruned. */
static int skip_pruned(struct export *ex)
{
	struct store_metadata meta;
	const char *why;
	int r = read_metadata(ex, NULL, &meta, &why);
	if (r == 0 && ex->after + 1 < meta.first_seq) {
		ex->after = meta.first_seq - 1;
	}
	store_metadata_finish(&meta);
	if (r == 0 || r == -ENOENT || r == -EBADMSG) {
		return 0;
	}
	diag(DIAG_ERROR, "cannot read the metadata of session %s: %s", ex->id, why);
	return r;
}

static int run(struct export *ex, bool markdown)
{
	return skip_pruned(ex) < 0 ? TOOL_FAILED : export(ex, markdown);
}

static int run_on_database(struct export *ex, const char *address, bool markdown)
{
	char *why = NULL;
	int code = TOOL_FAILED;
	if (store_database_open(address, &ex->database, &why) == 0) {
		code = run(ex, markdown);
	} else {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	store_database_close(ex->database);
	return code;
}

static int run_on_files(struct export *ex, const char *dir, bool markdown)
{
	char *why = NULL;
	struct store_files files;
	int code = TOOL_FAILED;
	ex->files = &files;
	if (store_files_open(dir, &files, &why) == 0) {
		code = run(ex, markdown);
	} else {
		diag(DIAG_ERROR, "%s", why);
	}
	free(why);
	store_files_close(&files);
	return code;
}

int tool_export(int argc, char **argv)
{
	const char *words[2] = {0};
	const char *values[2] = {0};
	struct export ex = {0};
	bool markdown;
	int r = options_parse(&command, argc, argv, words, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	if (take_values(&ex, values, &markdown) < 0) {
		return TOOL_FAILED;
	}
	ex.id = words[1];
	int code = store_kind_of(words[0]) ? run_on_database(&ex, words[0], markdown)
					   : run_on_files(&ex, words[0], markdown);
	buffer_finish(&ex.json);
	return code;
}
