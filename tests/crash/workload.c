#include "workload.h"

#include "holdfast/pack.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

const char *const workload_ids[WORKLOAD_SESSIONS] = {"a", "b", "c"};

enum verb {
	SAY,
	THINK,
	PUT, /* an event: its type, its data */
	FLUSH, /* text, and then the clock lets it out */
	PROMPT, /* its id */
	DELETE,
};

struct step {
	const char *id;
	enum verb verb;
	const char *what;
	const char *data;
};

#define TOOL "{\"tool_call_id\":\"t1\",\"title\":\"Look\"}"
#define ASK(q)                 \
	"{\"request_id\":\"" q \
	"\",\"tool_call\":{},\"options\":[{\"option_id\":\"y\",\"name\":\"Yes\"}]}"

static const struct step steps[WORKLOAD_STEPS] = {
	{"a", SAY, "Hello **world**.\n\n- one\n", NULL},
	{"a", PUT, "tool_call", TOOL},
	{"b", PROMPT, "p1", NULL},
	{"a", THINK, "hm ", NULL},
	{"b", PROMPT, "p2", NULL},
	{"a", SAY, "- zwölf\n", NULL},
	{"b", SAY, "```c\nint a;\n", NULL},
	{"a", THINK, "hm hm", NULL},
	{"c", PUT, "x-note", "{}"},
	{"b", PUT, "permission_request", ASK("q1")},
	{"a", SAY, "\nAfter the list.", NULL},
	{"c", SAY, "text of c\n\n", NULL},
	{"b", PUT, "permission_resolved",
		"{\"request_id\":\"q1\",\"outcome\":\"selected\",\"option_id\":\"y\",\"by\":"
		"\"x\"}"},
	{"a", PUT, "turn_end", "{\"stop_reason\":\"end_turn\"}"},
	{"b", SAY, "int b;\n", NULL},
	{"c", DELETE, NULL, NULL},
	{"b", SAY, "```\n", NULL},
	{"c", PUT, "x-again", "{\"n\":1}"},
	{"a", FLUSH, "A paragraph that the clock\n", NULL},
	{"a", SAY, "lets out, and goes on.\n", NULL},
	{"b", PUT, "usage", "{\"mode\":\"cumulative\",\"used\":7}"},
	{"b", PUT, "permission_request", ASK("q2")},
	{"c", SAY, "> quote of c\n", NULL},
	{"b", PUT, "turn_end", "{}"},
	{"a", PUT, "plan", "{\"entries\":[]}"},
	{"c", PUT, "tool_call", TOOL},
	{"b", SAY, "| a |\n|---|\n| 1 |\n", NULL},
	{"b", PUT, "file_write", "{\"path\":\"f\",\"size\":3}"},
	{"a", SAY, "1. one\n\n2. two\n", NULL},
	{"c", PUT, "turn_end", "{}"},
	{"b", PROMPT, "p3", NULL},
	{"a", PUT, "tool_call_update", TOOL},
	{"b", SAY, "| 2 |\n\nText", NULL},
	{"a", PUT, "turn_end", "{}"},
	{"b", PUT, "agent_stopped", "{\"reason\":\"crashed\"}"},
	{"a", PUT, "user_prompt", "{\"message\":\"more\",\"prompt_id\":\"p9\"}"},
	{"c", DELETE, NULL, NULL},
	{"a", SAY, "- last\n- of all\n", NULL},
	{"a", PUT, "x-held", "{}"},
	{"c", PUT, "x-third", "{\"n\":2}"},
	{"b", PUT, "agent_started", "{\"name\":\"agent\"}"},
	{"c", SAY, "\n\n", NULL},
	{"c", THINK, "a thought that stays open", NULL},
	{"b", SAY, "An open **paragraph", NULL},
};

static void prompt(struct rig *rig, const struct step *step)
{
	uint64_t seq;
	bool duplicate;
	assert_int_equal(session_prompt(rig_session(rig, step->id), "please", 6, step->what,
				 AUTHOR("client"), &seq, &duplicate),
		0);
	assert_false(duplicate);
}

static void flush(struct rig *rig, const struct step *step)
{
	struct session *session = rig_session(rig, step->id);
	uint64_t seq = session_channel(session)->max_seq;
	rig_set_timeouts(rig, 1);
	rig_say(session, step->what);
	rig_wait_for_seq(rig, session, seq + 1);
	rig_set_timeouts(rig, RIG_NEVER);
}

static void do_step(struct rig *rig, const struct step *step)
{
	switch (step->verb) {
	case SAY:
		rig_say(rig_session(rig, step->id), step->what);
		break;
	case THINK:
		rig_think(rig_session(rig, step->id), step->what);
		break;
	case PUT:
		rig_put(rig_session(rig, step->id), step->what, step->data);
		break;
	case FLUSH:
		flush(rig, step);
		break;
	case PROMPT:
		prompt(rig, step);
		break;
	case DELETE:
		assert_int_equal(session_delete(rig_session(rig, step->id)), 0);
		break;
	}
	rig_settle(rig);
}

static uint64_t hash_of(const struct buffer *text)
{
	uint64_t hash = 14695981039346656037u;
	for (size_t i = 0; i < text->len; i++) {
		hash = (hash ^ (unsigned char)text->data[i]) * 1099511628211u;
	}
	return hash;
}

void workload_mark_session(struct rig *rig, const char *id, struct session_mark *ret)
{
	struct session *session = session_table_get(rig->table, id, strlen(id));
	*ret = (struct session_mark){.exists = session != NULL};
	if (!session) {
		return;
	}
	const struct channel *channel = session_channel(session);
	ret->epoch = session_log_epoch(channel->log);
	ret->max_seq = channel->max_seq;
	if (channel->open_seq > channel->max_seq) {
		ret->open_seq = channel->open_seq;
		ret->open_hash = hash_of(&channel->open_text);
	}
	ret->queue_length = channel->status.queue_length;
	ret->is_prompting = channel->status.is_prompting;
	snprintf(ret->status, sizeof(ret->status), "%s", channel->status.status);
}

void workload_assert_same(const struct session_mark *got, const struct session_mark *want)
{
	assert_int_equal(got->exists, want->exists);
	assert_true(got->epoch == want->epoch);
	assert_int_equal(got->max_seq, want->max_seq);
	assert_int_equal(got->open_seq, want->open_seq);
	assert_true(got->open_hash == want->open_hash);
	assert_int_equal(got->queue_length, want->queue_length);
	assert_int_equal(got->is_prompting, want->is_prompting);
	assert_string_equal(got->status, want->status);
}

size_t workload_segment_end(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	char header[16];
	off_t at = 48;
	while (pread(fd, header, sizeof(header), at) == sizeof(header) &&
		memcmp(header, "HFBT", 4) == 0) {
		struct unpack in = {.bytes = header + 4, .len = 12};
		uint64_t records = unpack_le(&in, 4);
		at += 32 + (off_t)unpack_le(&in, 8) + 12 * (off_t)records + 12;
	}
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return st.st_size < at ? (size_t)st.st_size : (size_t)at;
}

void workload_newest_segment(
	const char *dir, uint64_t *ret_number, size_t *ret_size, struct buffer *path)
{
	struct buffer at = {0};
	struct dirent **entries;
	buffer_printf(&at, "%s/journal", dir);
	int count = scandir(buffer_cstr(&at), &entries, NULL, alphasort);
	assert_true(count > 2);
	buffer_printf(&at, "/%s", entries[count - 1]->d_name);
	*ret_number = strtoull(entries[count - 1]->d_name, NULL, 16);
	*ret_size = workload_segment_end(buffer_cstr(&at));
	for (int i = 0; i < count; i++) {
		free(entries[i]);
	}
	free(entries);
	if (path) {
		buffer_append_str(path, buffer_cstr(&at));
		buffer_cstr(path);
	}
	buffer_finish(&at);
}

void workload_run(struct rig *rig, size_t from, size_t to, struct mark *marks)
{
	for (size_t i = from; i < to; i++) {
		do_step(rig, &steps[i]);
		if (marks) {
			struct mark *mark = &marks[i + 1];
			workload_newest_segment(rig->dir, &mark->segment, &mark->size, NULL);
			for (size_t k = 0; k < WORKLOAD_SESSIONS; k++) {
				workload_mark_session(rig, workload_ids[k], &mark->sessions[k]);
			}
		}
	}
}
