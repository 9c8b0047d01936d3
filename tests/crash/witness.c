/* Watching the server while it runs. What is made of it is in witness_check.c. */
#include "witness.h"

#include "point.h"
#include "session_internal.h"

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

static size_t now(const struct witness *w)
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
	char *usage = session_usage_save(state);
	buffer_printf(out, "idle %llu %llu %d %llu %llu %s %s %llu",
		(unsigned long long)state->input_names, (unsigned long long)state->turn,
		state->agent_running, (unsigned long long)state->last_turn_end_seq,
		(unsigned long long)state->last_prompt_seq,
		state->last_prompt_id ? state->last_prompt_id : "-", usage ? usage : "-",
		(unsigned long long)stream_buffer_emitted_seq(state->stream));
	free(usage);
}

uint64_t witness_hash(struct session *session)
{
	struct buffer bytes = {0};
	if (session_state_is_idle(&session->state)) {
		save_idle(&session->state, &bytes);
	} else {
		session_snapshot_save(session, &bytes);
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
		life->states[i].refused = now(life->witness);
	}
	state->is_in_doubt = status == DURABLE_IN_DOUBT;
	if (status == 0) {
		state->acked = now(life->witness);
	}
	free(note);
}

/** Notes what the session has become by an input that was sent at `sent`. */
static void add_state(struct life *life, size_t sent)
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

/** What was refused is in nobody's way. */
static void check_taken_back(struct life *life)
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
		life->shown[seq - 1] = now(life->witness);
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

static void watch(struct life *life)
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
		&(struct observer_config){
			.format = FORMAT_MARKDOWN, .deltas = DELTAS_TEXT, .client_id = "w"},
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

static struct life *life_of(const struct witness *w, const struct session *session)
{
	for (size_t i = 0; i < w->life_count; i++) {
		if (w->lives[i]->session == session) {
			return w->lives[i];
		}
	}
	return NULL;
}

static void handle_prompt_due(
	void *owner, struct session *session, uint64_t seq, const char *message, size_t len)
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
	struct life *life = life_of(owner, session);
	pull_lines(life);
	life->delete_acked = now(owner);
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
		watch(life);
	}
}

int witness_open(struct witness *w)
{
	static const struct session_ops ops = {
		.prompt_due = handle_prompt_due,
		.answered = handle_answered,
		.changed = handle_changed,
		.deleted = handle_deleted,
		.store_failed = handle_store_failed,
		.store_revived = handle_store_revived,
		.returned = handle_returned,
	};
	struct rig *rig = w->rig;
	free(rig->why);
	rig->why = NULL;
	int r = session_table_open(&(struct session_table_config){.loop = &rig->loop,
					   .limits = &rig->limits,
					   .clock = &rig->clock,
					   .data_dir = rig->dir,
					   .durability = rig->durability,
					   .ops = &ops,
					   .owner = w},
		&rig->table, &rig->why);
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

static int find_life(struct witness *w, const char *id, struct life **ret_life)
{
	struct session *session = session_table_get(w->rig->table, id, strlen(id));
	if (session) {
		*ret_life = life_of(w, session);
		return *ret_life ? 0 : -ENOENT;
	}
	size_t sent = now(w);
	int r = session_create(w->rig->table, id, id, &session);
	if (r < 0) {
		w->refused++;
		return r;
	}
	struct life *life = xcalloc(1, sizeof(*life));
	*life = (struct life){.witness = w,
		.epoch = session_log_epoch(session->log),
		.created_at = session_log_created_at(session->log),
		.delete_sent = NEVER,
		.delete_acked = NEVER,
		.session = session};
	snprintf(life->id, sizeof(life->id), "%s", id);
	w->lives = xrealloc(w->lives, (w->life_count + 1) * sizeof(struct life *));
	w->lives[w->life_count++] = life;
	add_state(life, sent);
	watch(life);
	*ret_life = life;
	return 0;
}

/* --- inputs --- */

/** Whatever the outcome: the session is what it was, or it is noted what it is. */
static int note_outcome(struct life *life, size_t sent, int r)
{
	if (r == 0) {
		life->witness->inputs++;
		add_state(life, sent);
		return 0;
	}
	life->witness->refused++;
	check_taken_back(life);
	return r;
}

static int input(struct witness *w, const char *id, const struct input_event *in)
{
	struct life *life;
	int r = find_life(w, id, &life);
	if (r < 0 || session_is_deleted(life->session)) {
		return r < 0 ? r : -ENOENT;
	}
	size_t sent = now(w);
	uint64_t seq;
	bool duplicate;
	char name[WITNESS_KEY];
	struct input_event keyed = *in;
	keyed.sum.value = witness_key(life->state_count, name);
	keyed.key = name;
	keyed.key_len = strlen(name);
	r = session_input(life->session, &keyed, &seq, &duplicate);
	r = note_outcome(life, sent, r);
	if (r == 0) {
		life->states[life->state_count - 1].has_key = true;
		life->states[life->state_count - 1].seq = seq;
	}
	return r;
}

int witness_say(struct witness *w, const char *id, const char *text)
{
	return input(w, id,
		&(struct input_event){
			.type = EVENT_MESSAGE_CHUNK, .data = text, .data_len = strlen(text)});
}

int witness_think(struct witness *w, const char *id, const char *text)
{
	return input(w, id,
		&(struct input_event){
			.type = EVENT_THOUGHT_CHUNK, .data = text, .data_len = strlen(text)});
}

int witness_put(struct witness *w, const char *id, const char *type, const char *data)
{
	return input(w, id,
		&(struct input_event){.type = event_type_of(type, strlen(type)),
			.type_name = type,
			.type_len = strlen(type),
			.data = data,
			.data_len = strlen(data)});
}

int witness_prompt(struct witness *w, const char *id, const char *prompt_id)
{
	struct life *life;
	int r = find_life(w, id, &life);
	if (r < 0 || session_is_deleted(life->session)) {
		return r < 0 ? r : -ENOENT;
	}
	size_t sent = now(w);
	uint64_t seq;
	bool duplicate;
	r = session_prompt(life->session, "please", 6, prompt_id, "client", &seq, &duplicate);
	if (r == 0 && duplicate) {
		return 0;
	}
	r = note_outcome(life, sent, r);
	if (r == 0) {
		life->prompts =
			xrealloc(life->prompts, (life->prompt_count + 1) * sizeof(*life->prompts));
		struct witness_prompt *prompt = &life->prompts[life->prompt_count++];
		*prompt = (struct witness_prompt){.state = life->state_count - 1};
		snprintf(prompt->id, sizeof(prompt->id), "%s", prompt_id);
	}
	return r;
}

int witness_change_prompt(
	struct witness *w, const char *id, const char *prompt_id, const char *message)
{
	struct life *life;
	int r = find_life(w, id, &life);
	if (r < 0 || session_is_deleted(life->session)) {
		return r < 0 ? r : -ENOENT;
	}
	size_t sent = now(w);
	struct prompt_view had;
	r = message ? session_edit_prompt(life->session, prompt_id, message, strlen(message), &had)
		    : session_remove_prompt(life->session, prompt_id, &had);
	bool changes_nothing = r == -ESRCH || (r == 0 && had.place == PROMPT_REMOVED);
	return changes_nothing ? r : note_outcome(life, sent, r);
}

int witness_delete(struct witness *w, const char *id)
{
	struct session *session = session_table_get(w->rig->table, id, strlen(id));
	struct life *life = session ? life_of(w, session) : NULL;
	if (!life || session_is_deleted(session)) {
		return -ENOENT;
	}
	size_t sent = now(w);
	int r = session_delete(session);
	if (r == 0) {
		life->delete_sent = sent;
	}
	return r;
}

void witness_reload(struct witness *w)
{
	for (size_t i = 0; i < w->life_count; i++) {
		struct life *life = w->lives[i];
		uint64_t shown = life->shown_count;
		if (!life->session) {
			continue;
		}
		check_taken_back(life);
		observer_destroy(life->observer);
		life->shown_count = session_log_first_seq(life->session->log) - 1;
		watch(life);
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
			add_state(life, sent);
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
		size_t sent = now(w);
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
