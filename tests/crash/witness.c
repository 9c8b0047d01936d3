/* Watching the server while it runs. What is made of it is in witness_check.c. */
#include "witness_internal.h"

#include "point.h"
#include "core/session/session_internal.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

size_t witness_now(const struct witness *w)
{
	return w->power ? power_disk_count(w->power) : 0;
}

__attribute__((format(printf, 2, 3))) static void say_wrong(struct life *life, const char *fmt, ...)
{
	char text[200];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	buffer_printf(&life->witness->wrong, "session %s: %s; ", life->id, text);
}

/* --- states --- */

/** An idle session writes no snapshot: what counts is what its log tells, too. */
static void save_idle(const struct session_state *state, struct buffer *out)
{
	const struct session_facts *facts = &state->facts;
	char *usage = session_usage_save(state);
	buffer_printf(out, "idle %llu %llu %d %llu %llu %s %s %llu",
		(unsigned long long)facts->input_names, (unsigned long long)facts->turn,
		facts->agent_running, (unsigned long long)facts->turn_end_seq,
		(unsigned long long)facts->prompt_seq, facts->prompt_id ? facts->prompt_id : "-",
		usage ? usage : "-", (unsigned long long)stream_buffer_emitted_seq(state->stream));
	free(usage);
}

uint64_t witness_hash(struct session *session)
{
	struct buffer bytes = {0};
	if (session_state_is_idle(&session->state)) {
		save_idle(&session->state, &bytes);
	} else {
		session_state_save(&session->state, &bytes);
	}
	uint64_t hash = XXH3_64bits(bytes.data, bytes.len);
	buffer_finish(&bytes);
	return hash;
}

struct note {
	struct durable_wait wait;
	struct life *life;
	size_t state;
};

static void handle_durable(struct durable_wait *wait, int status)
{
	struct note *note = (struct note *)wait;
	struct life *life = note->life;
	struct witness_state *state = &life->states[note->state];
	if (status == 0 && state->is_refused) {
		say_wrong(life, "an input was refused, and one after it acknowledged");
	}
	for (size_t i = note->state; status < 0 && i < life->state_count; i++) {
		life->witness->refused += !life->states[i].is_refused;
		life->states[i].is_refused = true;
		life->states[i].refused = witness_now(life->witness);
	}
	state->is_in_doubt = status == DURABLE_IN_DOUBT;
	if (status == 0) {
		state->acked = witness_now(life->witness);
	}
	free(note);
}

void witness_add_state(struct life *life, size_t sent)
{
	struct session *session = life->session;
	life->states = xrealloc(life->states, (life->state_count + 1) * sizeof(*life->states));
	life->states[life->state_count] = (struct witness_state){
		.hash = witness_hash(session),
		.emitted_seq = stream_buffer_emitted_seq(session->state.stream),
		.sent = sent,
		.acked = NEVER,
	};
	struct note *note = xcalloc(1, sizeof(*note));
	note->wait.done = handle_durable;
	note->life = life;
	note->state = life->state_count++;
	session_wait_durable(session, &note->wait);
}

/** Of the last input that was not refused. */
static uint64_t last_hash(const struct life *life)
{
	size_t i = life->state_count - 1;
	while (i && life->states[i].is_refused) {
		i--;
	}
	return life->states[i].hash;
}

void witness_check_taken_back(struct life *life)
{
	bool was_refused = life->states[life->state_count - 1].is_refused;
	if (life->session && !list_empty(&life->session->table->lost)) {
		return; /* the journal cannot be read either: it is taken back once it can */
	}
	if ((!was_refused || life->witness->takes_back) && life->session &&
		witness_hash(life->session) != last_hash(life)) {
		say_wrong(life, "an input was refused, and has changed something");
	}
}

/* --- the observer --- */

static void add_line(struct life *life, struct event *event)
{
	if (event->seq == life->line_count + 1) {
		event_append_line(event, &life->lines);
		life->line_count++;
		life->shown = xrealloc(life->shown, life->line_count * sizeof(*life->shown));
		life->shown[life->line_count - 1] = NEVER;
	}
}

/** Takes down the events that are in the log by now; they have been in memory since they came. */
static void pull_lines(struct life *life)
{
	struct event *events[64];
	size_t count;
	do {
		struct session_log *log = life->session->log;
		uint64_t last = session_log_last_seq(log);
		uint64_t from = life->line_count + 1;
		count = session_log_get_hot(log,
			&(struct log_page){.from = from,
				.to = last < from + 63 ? last : from + 63,
				.max_bytes = 1 << 20},
			events);
		for (size_t i = 0; i < count; i++) {
			add_line(life, events[i]);
			event_unref(events[i]);
		}
	} while (count);
}

/** An event in a frame: the next one, and the same bytes as those that are kept. */
static void see_event(struct life *life, const json_t *event)
{
	uint64_t seq = (uint64_t)json_integer_value(json_object_get(event, "seq"));
	if (seq != life->shown_count + 1 || seq > life->line_count) {
		say_wrong(life, "event %llu is shown after %llu, and the log has %llu",
			(unsigned long long)seq, (unsigned long long)life->shown_count,
			(unsigned long long)life->line_count);
		return;
	}
	life->shown_count = seq;
	if (life->shown[seq - 1] == NEVER) {
		life->shown[seq - 1] = witness_now(life->witness);
	}
	struct event_view view;
	const char *line = life->lines.data;
	for (uint64_t i = 1; i < seq; i++) {
		line = strchr(line, '\n') + 1;
	}
	const char *end = memchr(line, '\n', (size_t)(life->lines.data + life->lines.len - line));
	char *data = json_dumps(json_object_get(event, "data"), JSON_COMPACT);
	assert_int_equal(event_parse_line(line, (size_t)(end - line), &view), 0);
	json_t *kept = json_loadb(view.data, view.data_len, 0, NULL);
	char *kept_data = json_dumps(kept, JSON_COMPACT);
	if (view.seq != seq || strcmp(data, kept_data) != 0) {
		say_wrong(life, "event %llu was shown with other bytes", (unsigned long long)seq);
	}
	json_decref(kept);
	free(kept_data);
	free(data);
}

static bool is_writable(void *socket)
{
	return true;
}

static void write_frame(void *socket, struct frame *frame)
{
	struct life *life = socket;
	json_t *json = json_loadb(frame_text(frame), frame_len(frame), 0, NULL);
	assert_non_null(json);
	const json_t *events = json_object_get(json_object_get(json, "data"), "events");
	size_t i;
	json_t *event;
	if (events) {
		pull_lines(life);
	}
	json_array_foreach(events, i, event) {
		see_event(life, event);
	}
	json_decref(json);
}

static void want_writable(void *socket)
{
}

static void close_socket(void *socket, unsigned code, const char *reason)
{
}

void witness_watch(struct life *life)
{
	static const struct observer_socket_ops ops = {
		.is_writable = is_writable,
		.write = write_frame,
		.want_writable = want_writable,
		.close = close_socket,
	};
	struct load_request load = {
		.from = LOAD_AFTER, .seq = life->shown_count, .limit = 50, .follow = true};
	life->observer = observer_create(session_channel(life->session),
		&(struct observer_config){.encoder = &websocket_encoder,
			.format = FORMAT_MARKDOWN,
			.deltas = DELTAS_TEXT,
			.client_id = "w",
			.sub = ""},
		&ops, life);
	observer_load(life->observer, &load);
}

static void leave(struct life *life)
{
	observer_destroy(life->observer);
	life->observer = NULL;
	life->session = NULL;
}

/* --- life --- */

struct life *witness_life_of(const struct witness *w, const struct session *session)
{
	for (size_t i = 0; i < w->life_count; i++) {
		if (w->lives[i]->session == session) {
			return w->lives[i];
		}
	}
	return NULL;
}

static void handle_prompt_due(void *owner, struct session *session, uint64_t seq,
	const char *message, size_t len, const struct json_t *content)
{
}

static void handle_answered(
	void *owner, struct session *session, const char *request_id, const char *option_id)
{
}

static void handle_changed(void *owner, struct session *session)
{
}

static void handle_deleted(void *owner, struct session *session)
{
	struct life *life = witness_life_of(owner, session);
	pull_lines(life);
	life->delete_acked = witness_now(owner);
	leave(life);
}

/** There is one server: nobody else can have it. */
static void handle_moved(void *owner, struct session *session)
{
	struct life *life = witness_life_of(owner, session);
	say_wrong(life, "it has moved to another server");
	leave(life);
}

static void handle_store_failed(void *owner, int error)
{
	((struct witness *)owner)->rig->is_failing = true;
}

static void handle_store_revived(void *owner)
{
	((struct witness *)owner)->rig->is_failing = false;
}

static void handle_returned(void *owner, struct session *session)
{
}

void witness_init(struct witness *w, struct rig *rig, const struct power_disk *power)
{
	*w = (struct witness){.rig = rig, .power = power};
}

void witness_finish(struct witness *w)
{
	for (size_t i = 0; i < w->life_count; i++) {
		struct life *life = w->lives[i];
		free(life->states);
		free(life->prompts);
		free(life->shown);
		buffer_finish(&life->lines);
		free(life);
	}
	free(w->lives);
	buffer_finish(&w->wrong);
}

static void rejoin(struct life *life)
{
	struct session *session =
		session_table_get(life->witness->rig->table, life->id, strlen(life->id));
	if (session && session_log_epoch(session->log) == life->epoch) {
		life->session = session;
		witness_watch(life);
	}
}

int witness_open(struct witness *w)
{
	static const struct session_ops ops = {
		.prompt_due = handle_prompt_due,
		.answered = handle_answered,
		.changed = handle_changed,
		.deleted = handle_deleted,
		.moved = handle_moved,
		.store_failed = handle_store_failed,
		.store_revived = handle_store_revived,
		.returned = handle_returned,
	};
	int r = rig_open_for(w->rig, &ops, w);
	for (size_t i = 0; r == 0 && i < w->life_count; i++) {
		rejoin(w->lives[i]);
	}
	return r;
}

void witness_close(struct witness *w)
{
	/* Reads of the observers have to come to their end before. */
	witness_settle(w);
	for (size_t i = 0; i < w->life_count; i++) {
		struct life *life = w->lives[i];
		if (life->session) {
			observer_destroy(life->observer);
			life->observer = NULL;
		}
	}
	rig_close(w->rig);
	for (size_t i = 0; i < w->life_count; i++) {
		w->lives[i]->session = NULL;
	}
}

void witness_kill(struct witness *w)
{
	witness_settle(w);
	power_disk_hold(true);
	witness_close(w);
	power_disk_hold(false);
}

void witness_reload(struct witness *w)
{
	for (size_t i = 0; i < w->life_count; i++) {
		struct life *life = w->lives[i];
		uint64_t shown = life->shown_count;
		if (!life->session) {
			continue;
		}
		witness_check_taken_back(life);
		observer_destroy(life->observer);
		life->shown_count = session_log_first_seq(life->session->log) - 1;
		witness_watch(life);
		rig_settle(w->rig);
		if (life->session && life->shown_count != shown) {
			say_wrong(life, "%llu events were shown, and %llu when asked again",
				(unsigned long long)shown, (unsigned long long)life->shown_count);
		}
	}
}

/* --- time --- */

/** What a timer decided is an input, too. */
static void see_timers(struct witness *w, size_t sent)
{
	for (size_t i = 0; i < w->life_count; i++) {
		struct life *life = w->lives[i];
		/* What was refused may be in its state until that is taken back. */
		bool is_known = life->session && list_empty(&life->session->table->lost);
		if (is_known && witness_hash(life->session) != last_hash(life)) {
			witness_add_state(life, sent);
		}
	}
}

static bool is_anything_due(const struct witness *w)
{
	for (size_t i = 0; i < w->life_count; i++) {
		const struct session *session = w->lives[i]->session;
		if (session && !session->is_deleted && session->timer_at != INT64_MAX &&
			session->timer_at < clock_elapsed_ms(&w->rig->clock) + 1000) {
			return true;
		}
	}
	return false;
}

void witness_flush(struct witness *w)
{
	rig_set_timeouts(w->rig, 1);
	for (size_t i = 0; i < w->life_count; i++) {
		if (w->lives[i]->session) {
			session_touch(w->lives[i]->session);
		}
	}
	session_table_end_tick(w->rig->table);
	while (is_anything_due(w)) {
		size_t sent = witness_now(w);
		uv_timer_again(&w->rig->guard);
		uv_run(&w->rig->loop, UV_RUN_NOWAIT);
		see_timers(w, sent);
		session_table_end_tick(w->rig->table);
	}
	rig_set_timeouts(w->rig, RIG_NEVER);
	witness_settle(w);
}

void witness_prune(struct witness *w)
{
	store_prune(w->rig->table->store);
}

void witness_turn(struct witness *w)
{
	session_table_end_tick(w->rig->table);
}

void witness_settle(struct witness *w)
{
	rig_settle(w->rig);
}
