/* What the tests of the permission ledger share: questions and answers, an agent that dies, what
 * may happen to the server between two turns, and what is to come of it. */
#ifndef HOLDFAST_TESTS_LEDGER_FIXTURE_H
#define HOLDFAST_TESTS_LEDGER_FIXTURE_H

#include "stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static inline struct session *session_of(struct stage *st)
{
	return rig_session(&st->rig, "s");
}

/* --- what happens between two turns --- */

/** As after a power cut: the directory as it is goes on under another server. */
static inline void kill_server(struct stage *st)
{
	struct limits limits = st->rig.limits;
	rig_settle(&st->rig);
	char *dir = rig_copy_dir(st->rig.dir);
	rig_finish(&st->rig);
	rig_init_on(&st->rig, dir);
	st->rig.owns_dir = true;
	st->rig.limits = limits;
	free(dir);
	assert_int_equal(rig_open(&st->rig), 0);
}

static inline void stop_server(struct stage *st)
{
	rig_settle(&st->rig);
	rig_close(&st->rig);
	assert_int_equal(rig_open(&st->rig), 0);
}

/** Until the journal's segments that have what was before are gone: its snapshots have it now. */
static inline void rotate(struct stage *st)
{
	char data[600];
	snprintf(data, sizeof(data), "{\"text\":\"%0500d\"}", 0);
	for (int i = 0; i < 30; i++) {
		rig_put(rig_session(&st->rig, "other"), "x-note", data);
		rig_settle(&st->rig);
	}
	kill_server(st);
}

static inline void nothing(struct stage *st)
{
	rig_settle(&st->rig);
}

typedef void meanwhile(struct stage *st);
static meanwhile *const meanwhiles[] = {nothing, stop_server, kill_server, rotate};
#define MEANWHILES (sizeof(meanwhiles) / sizeof(meanwhiles[0]))

static inline int setup(void **state)
{
	struct stage *st = xcalloc(1, sizeof(*st));
	rig_init(&st->rig);
	st->rig.limits.segment_size = 4096;
	st->rig.limits.evict_ms = 1;
	assert_int_equal(rig_open(&st->rig), 0);
	*state = st;
	return 0;
}

/* --- the talk --- */

#define INPUT(command) "\"raw_input\":{\"command\":\"" command "\",\"cwd\":\"/p\"}"
#define CALL(id, command) \
	"{\"tool_call_id\":\"" id "\",\"title\":\"Run it\",\"kind\":\"execute\"," INPUT(command) "}"
#define OPTION(id, kind) "{\"option_id\":\"" id "\",\"name\":\"" id "\",\"kind\":\"" kind "\"}"
#define OPTIONS          "[" OPTION("once", "allow_once") "," OPTION("no", "reject_once") "]"

static inline uint64_t ask_with(
	struct stage *st, const char *q, const char *call, const char *options)
{
	struct buffer data = {0};
	buffer_printf(
		&data, "{\"request_id\":\"%s\",\"tool_call\":%s,\"options\":%s}", q, call, options);
	uint64_t seq = rig_put(session_of(st), "permission_request", buffer_cstr(&data));
	buffer_finish(&data);
	return seq;
}

static inline uint64_t ask(struct stage *st, const char *q, const char *call)
{
	return ask_with(st, q, call, OPTIONS);
}

static inline uint64_t answer(struct stage *st, const char *q, const char *option)
{
	struct buffer data = {0};
	buffer_printf(&data,
		"{\"request_id\":\"%s\",\"outcome\":\"selected\",\"option_id\":\"%s\","
		"\"by\":\"anna\",\"sub\":\"ann\"}",
		q, option);
	uint64_t seq = rig_put(session_of(st), "permission_resolved", buffer_cstr(&data));
	buffer_finish(&data);
	return seq;
}

static inline void begin_turn(struct stage *st)
{
	rig_put(session_of(st), "user_prompt", "{\"message\":\"go\"}");
}

static inline void agent_dies(struct stage *st)
{
	rig_put(session_of(st), "agent_stopped", "{\"reason\":\"signal\"}");
	assert_false(session_is_prompting(session_of(st)));
}

static inline void end_turn(struct stage *st)
{
	rig_put(session_of(st), "turn_end", "{\"stop_reason\":\"end_turn\"}");
}

/** A turn in which this question gets this answer, and the agent dies. Returns the answer's seq. */
static inline uint64_t die_with(struct stage *st, const char *call, const char *option)
{
	begin_turn(st);
	ask(st, "q1", call);
	uint64_t seq = answer(st, "q1", option);
	agent_dies(st);
	return seq;
}

/* --- what comes of it --- */

static inline void expect_open(struct stage *st, const char *q)
{
	assert_int_equal(session_permission(session_of(st), q).state, PERMISSION_PENDING);
}

/** The data of an event, as a client that loads everything sees it; it must be of this type. */
static inline const json_t *look(struct stage *st, uint64_t seq, const char *type)
{
	struct load_request load = load_after(0, 5000, false);
	rig_settle(&st->rig);
	if (st->socket.frames) {
		fake_socket_finish(&st->socket);
	}
	st->channel = session_channel(session_of(st));
	stage_open_socket(st, DELTAS_NONE);
	fake_socket_load(&st->socket, &load);
	rig_settle(&st->rig);
	const json_t *events =
		json_object_get(fake_socket_newest(&st->socket, "events_loaded"), "events");
	const json_t *event = json_array_get(events, seq - 1);
	assert_string_equal(json_string_value(json_object_get(event, "type")), type);
	return json_object_get(event, "data");
}

/** The request `q`, which is at `seq`, was answered at once, by what is at `bound_to`. */
static inline void expect_bound(
	struct stage *st, const char *q, uint64_t seq, const char *option, uint64_t bound_to)
{
	struct permission_view view = session_permission(session_of(st), q);
	assert_int_equal(view.state, PERMISSION_RESOLVED);
	assert_string_equal(view.by, "anna\x1f"
				     "ann");
	assert_int_equal(view.seq, seq + 1);
	json_t *expected = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "request_id", q, "outcome",
		"selected", "option_id", option, "by", "anna", "sub", "ann", "bound_to",
		(json_int_t)bound_to);
	assert_true(json_equal(look(st, seq + 1, "permission_resolved"), expected));
	json_decref(expected);
	/* The client must not be what keeps the session in memory. */
	fake_socket_finish(&st->socket);
	st->socket.frames = NULL;
}

static inline void expect_told(struct stage *st, const char *what)
{
	rig_settle(&st->rig);
	rig_expect_told(&st->rig, what);
}

#endif
