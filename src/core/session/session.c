/*
 * The path of an input through a session: journaled, applied, committed, or undone after a failure.
 * session_table.c calls session_commit() for each session with new records when the store says that
 * they are durable, session_fail() when they are lost, and session_publish() at the end of a tick.
 */
#include "session_internal.h"

#include "holdfast/json_text.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* --- effects of the state machine --- */

/** A user_prompt for the session's agent, withheld until it is durable. */
struct pending_prompt {
	struct pending pending;
	struct event *event;
};

void *session_take_pending(struct list *list, uint64_t lsn)
{
	if (list_empty(list)) {
		return NULL;
	}
	struct pending *first = list_entry(list->next, struct pending, link);
	if ((uint64_t)first->lsn > lsn) {
		return NULL;
	}
	list_remove(&first->link);
	return first;
}

static void handle_emit(void *owner, const struct event_view *view, bool is_due)
{
	struct session *session = owner;
	bool recovering = session->table->recovering;
	if (recovering && view->seq != session_log_last_seq(session->log) + 1) {
		session_log_again(session->log, view);
		return;
	}
	struct event *event = event_create(view);
	session_log_complete(session->log, event, view->ts);
	if (!recovering && is_due) {
		struct pending_prompt *pending = xcalloc(1, sizeof(*pending));
		pending->pending.lsn = session->applying_lsn;
		pending->event = event_ref(event);
		list_append(&session->pending_prompts, &pending->pending.link);
	}
	event_unref(event);
}

static bool handle_find(void *owner, enum log_key_kind kind, const char *key, uint64_t *ret_seq)
{
	struct log_key answer = {0};
	struct prompt_view prompt;
	if (kind == LOG_KEY_ANSWER) {
		bool found = session_find_answer(owner, key, &answer);
		*ret_seq = answer.seq;
		return found;
	}
	int r = session_find_prompt(owner, key, &prompt);
	*ret_seq = prompt.seq;
	return r == 0 && (prompt.place == PROMPT_BEGUN || prompt.place == PROMPT_REMOVED);
}

static const struct session_state_ops state_ops = {
	.emit = handle_emit,
	.held = session_activity_note,
	.name = session_names_add,
	.answer = session_take_answer,
	.find = handle_find,
};

int session_apply(struct session *session, const struct record *record,
	const struct input_event *input, uint64_t *ret_seq)
{
	session_note_ts(session, record->ts);
	int64_t at = session->table->recovering ? session->last_ts : session_time(session);
	if (record->kind == RECORD_LABELS) { /* labels are not part of the state machine */
		*ret_seq = 0;
		return session_labels_apply(session, record);
	}
	int r = session_state_apply(&session->state, record, at, input, ret_seq);
	/* Events before a snapshot must be in the log: no other record can restore them. */
	bool is_lost = record->kind == RECORD_SNAPSHOT &&
		       stream_buffer_emitted_seq(session->state.stream) >
			       session_log_last_seq(session->log);
	return r == 0 && is_lost ? -EBADMSG : r;
}

/* --- journaling --- */

static void mark_dirty(struct session *session)
{
	if (list_empty(&session->dirty_link)) {
		list_append(&session->table->dirty, &session->dirty_link);
	}
}

void session_touch(struct session *session)
{
	session_note_activity(session);
	if (list_empty(&session->touched_link)) {
		list_append(&session->table->touched, &session->touched_link);
	}
}

void session_save_state(struct session *session, struct buffer *out)
{
	/* Records after this snapshot are replayed with the size limits of this run. */
	stream_buffer_take_sizes(session->state.stream);
	session_state_save(&session->state, out);
}

int session_journal_snapshot(struct session *session)
{
	struct session_table *table = session->table;
	if (!session_log_wants_snapshot(session->log)) {
		return 0;
	}
	struct buffer data = {0};
	session_save_state(session, &data);
	/*
	 * If only the creation is not durable the snapshot counts as clean, too: a session without
	 * its creation is forgotten, not rewound.
	 */
	bool is_clean = (uint64_t)session->last_lsn <= store_synced_lsn(table->store) ||
			session->last_lsn == session->created_lsn;
	int64_t lsn = session_log_append(
		session->log, RECORD_SNAPSHOT, session_next_ts(session), data.data, data.len);
	if (lsn >= 0 && is_clean) {
		buffer_clear(&session->base);
		buffer_append(&session->base, data.data, data.len);
		session->base_lsn = lsn;
	}
	buffer_finish(&data);
	return lsn < 0 ? -EIO : 0;
}

/** Notes how much of the open event may be shown once `lsn` is durable. */
static void mark_open(struct session *session, int64_t lsn)
{
	struct stream_open open;
	stream_buffer_get_open(session->state.stream, &open);
	session_room_note_open(session, open.len > 0);
	size_t n = session->open_mark_count;
	if (n && session->open_marks[n - 1].lsn == lsn) {
		n--; /* replace the mark of the same group */
	} else if (n == 2) {
		session->open_marks[0] = session->open_marks[1];
		n = 1;
	}
	session->open_marks[n] = (struct open_mark){lsn, open.seq, open.len};
	session->open_mark_count = n + 1;
}

static void show_open(struct session *session, uint64_t lsn)
{
	while (session->open_mark_count && (uint64_t)session->open_marks[0].lsn <= lsn) {
		session->shown_open = session->open_marks[0];
		session->open_marks[0] = session->open_marks[1];
		session->open_mark_count--;
	}
}

int session_journal(struct session *session, enum record_kind kind, const char *data, size_t len,
	const struct input_event *input, uint64_t *ret_seq)
{
	if (session->is_deleted) {
		return -ENOENT;
	}
	if (!server_may(session->table->life, MAY_INPUT)) {
		return -EIO;
	}
	int64_t ts = session_next_ts(session);
	int r = session_journal_snapshot(session);
	int64_t lsn = r < 0 ? r : session_log_append(session->log, kind, ts, data, len);
	if (lsn < 0) {
		return -EIO;
	}
	struct record record = {.kind = kind, .ts = ts, .data = data, .data_len = len};
	session->applying_lsn = lsn;
	r = session_apply(session, &record, input, ret_seq);
	assert(r == 0); /* this function made the record */
	session->last_lsn = lsn;
	session_status_note(session, lsn);
	mark_open(session, lsn);
	mark_dirty(session);
	session_touch(session);
	return 0;
}

int session_input(struct session *session, const struct input_event *input, uint64_t *ret_seq,
	bool *ret_duplicate)
{
	*ret_duplicate = session_state_is_over(&session->state, input, ret_seq);
	/* A duplicate with a key is journaled, so that the key is remembered. */
	if (*ret_duplicate && !input->key) {
		return session->is_deleted ? -ENOENT : 0;
	}
	struct buffer data = {0};
	session_input_pack(input, &data);
	enum record_kind kind = input->recovered ? RECORD_RECOVERED : RECORD_INPUT;
	int r = session_journal(session, kind, data.data, data.len, input, ret_seq);
	buffer_finish(&data);
	return r;
}

void session_wait_durable(struct session *session, struct durable_wait *wait)
{
	struct session_table *table = session->table;
	wait->lsn = session->is_lost ? WAIT_REFUSED : session->last_lsn;
	if (wait->lsn == WAIT_REFUSED || session_is_stored(session, wait->lsn)) {
		list_append(&table->ready, &wait->link);
	} else {
		list_append(&session->waits, &wait->link);
		mark_dirty(session);
	}
}

int64_t session_last_lsn(const struct session *session)
{
	return session->last_lsn;
}

bool session_is_stored(const struct session *session, int64_t lsn)
{
	return (uint64_t)lsn <= store_synced_lsn(session->table->store);
}

void durable_wait_cancel(struct durable_wait *wait)
{
	if (wait->link.next) {
		list_remove(&wait->link);
	}
}

/* --- committing --- */

static void refresh_prompt(struct session *session)
{
	struct channel *channel = &session->channel;
	const struct session_facts *facts = &session->state.facts;
	if (facts->prompt_id && facts->prompt_seq != channel->last_prompt_seq &&
		facts->prompt_seq <= channel->max_seq) {
		session_facts_set(&session->shown_prompt_id, facts->prompt_id);
		channel->last_prompt_id = session->shown_prompt_id;
		channel->last_prompt_seq = facts->prompt_seq;
	}
}

void session_show_recovered(struct session *session)
{
	struct stream_open open;
	session_time_resume(session);
	stream_buffer_get_open(session->state.stream, &open);
	session_room_note_open(session, open.len > 0);
	session->shown_open = (struct open_mark){0, open.seq, open.len};
	session->channel.max_seq = session_log_last_seq(session->log);
	session_status_show(session);
	refresh_prompt(session);
	session_touch(session); /* shows an open block, and arms its timer */
}

/** Reports a durable user_prompt to the owner, which runs the session's agent. */
static void tell_prompt(struct session *session, struct event *event)
{
	size_t len;
	const char *text = event_json(event, FORMAT_MARKDOWN, &len);
	json_t *json = json_read(text, len, 0, NULL, NULL);
	const json_t *data = json_object_get(json, "data");
	const json_t *message = json_object_get(data, "message");
	const json_t *content = json_object_get(data, "content");
	session->table->ops->prompt_due(session->table->owner, session, event->seq,
		json_string_value(message), json_string_length(message),
		json_array_size(content) ? content : NULL);
	json_decref(json);
}

/** Takes the durable prompts; returns the newest one, with its reference, or NULL. */
static struct event *take_prompt(struct session *session, uint64_t lsn)
{
	struct event *prompt = NULL;
	struct pending_prompt *pending;
	while ((pending = session_take_pending(&session->pending_prompts, lsn))) {
		event_unref(prompt);
		prompt = pending->event;
		free(pending);
	}
	return prompt;
}

static void end_waits(struct session *session, uint64_t lsn, int status)
{
	while (!list_empty(&session->waits)) {
		struct durable_wait *wait =
			list_entry(session->waits.next, struct durable_wait, link);
		if ((uint64_t)wait->lsn > lsn) {
			break;
		}
		list_remove(&wait->link);
		wait->done(wait, status);
	}
}

void session_commit(struct session *session, uint64_t lsn)
{
	uint64_t had = session->channel.max_seq;
	struct event *prompt = take_prompt(session, lsn);
	session->channel.max_seq = session_log_last_seq(session->log);
	session->object_changed = session->object_changed || session->channel.max_seq != had;
	metrics_add(
		session->table->metrics, METRIC_EVENTS_APPENDED, session->channel.max_seq - had);
	session_names_commit(session, lsn);
	session_prompts_commit(session);
	session_answers_commit(session);
	if (session_facts(session->log)->turn_end_seq > had) {
		session_usage_give_log(session);
		session_log_save(session->log);
	}
	bool is_renamed = session_labels_commit(session, lsn);
	session->object_changed = is_renamed || session->object_changed;
	bool changed = session_status_commit(session, lsn);
	show_open(session, lsn);
	if ((uint64_t)session->base_lsn <= lsn) {
		buffer_finish(&session->base);
	}
	refresh_prompt(session);
	if (session->last_lsn <= (int64_t)lsn) {
		list_remove(&session->dirty_link);
	}
	end_waits(session, lsn, 0);
	session_activity_tell(session, lsn);
	if (session->channel.max_seq != had && !session->has_ended) {
		channel_wake(&session->channel);
	}
	if (session->has_ended) {
		struct session_log *log = session->log;
		event_unref(prompt);
		struct session_table *table = session->table;
		session_free(session);
		session_room_uncount(table, log);
		store_remove_session(log);
		return;
	}
	if (changed) {
		session->object_changed = true;
		channel_send_state(&session->channel);
	}
	if (is_renamed) {
		channel_tell_about(&session->channel);
	}
	session_touch(session);
	session_answers_tell(session, lsn);
	/* If its turn has ended meanwhile, the agent would take it for that of the next prompt. */
	bool is_current = prompt && prompt->turn == session->state.facts.turn;
	if (is_current && server_may(session->table->life, MAY_TELL)) {
		tell_prompt(session, prompt);
	}
	event_unref(prompt);
}

void session_fail(struct session *session, int error, uint64_t in_doubt_lsn)
{
	event_unref(take_prompt(session, UINT64_MAX));
	session_status_drop(session);
	session_names_drop(session);
	session_labels_drop(session);
	session_answers_drop(session);
	session_activity_drop(session);
	session->open_mark_count = 0;
	list_remove(&session->dirty_link);
	end_waits(session, in_doubt_lsn, DURABLE_IN_DOUBT);
	end_waits(session, UINT64_MAX, error);
}

static bool prompt_is_in_log(void *value, void *arg)
{
	const struct session *session = arg;
	uintptr_t seq = (uintptr_t)value - 1;
	return seq != 0 && seq <= session_log_last_seq(session->log);
}

bool session_rewind_begin(struct session *session)
{
	session->is_deleted = false;
	session->last_lsn = 0;
	hash_filter(session->prompt_ids, prompt_is_in_log, session);
	session_answers_rewind(session);
	bool has_base = session->base.len &&
			(uint64_t)session->base_lsn > store_synced_lsn(session->table->store);
	if (!has_base) {
		buffer_finish(&session->base);
		session->has_snapshot = false;
		session->is_lost = true;
		return true;
	}
	int r = session_state_load(&session->state, session->base.data, session->base.len);
	assert(r == 0); /* this program made the snapshot */
	buffer_finish(&session->base);
	return false;
}

void session_rewind_end(struct session *session)
{
	session->is_lost = false;
	end_waits(session, UINT64_MAX, -EIO);
	session_time_resume(session);
	struct stream_open open;
	stream_buffer_get_open(session->state.stream, &open);
	session_room_note_open(session, open.len > 0);
	session->shown_open = (struct open_mark){0, open.seq, open.len};
	session_touch(session);
}

/* --- life --- */

struct session *session_new(struct session_table *table, struct session_log *log)
{
	struct session *session = xcalloc(1, sizeof(*session));
	session->table = table;
	session->log = log;
	session->prompt_ids = hash_create();
	session->resolved = hash_create();
	session->timer_at = INT64_MAX;
	session->last_ts = session_log_updated_at(log);
	session_time_resume(session);
	list_init(&session->pending_prompts);
	list_init(&session->pending_states);
	list_init(&session->pending_answers);
	list_init(&session->pending_activity);
	list_init(&session->pending_names);
	list_init(&session->pending_labels);
	session->fresh_names = hash_create();
	list_init(&session->waits);
	list_init(&session->dirty_link);
	list_init(&session->touched_link);
	list_init(&session->live_link);
	session_note_activity(session);
	table->live_count++;
	session_state_init(&session->state, table->limits, &state_ops, session);
	channel_init(&session->channel, table->limits, log);
	session->channel.metrics = table->metrics;
	session->channel.turns = table->turns;
	session->channel.agent_state = &session_facts(log)->agent_state;
	session->channel.get_labels = session_log_labels;
	session->channel.joined = session_handle_joined;
	session->channel.joined_arg = session;
	uv_timer_init(table->loop, &session->timer);
	session->timer.data = session;
	return session;
}

static void handle_closed(uv_handle_t *handle)
{
	struct session *session = handle->data;
	session_state_finish(&session->state);
	hash_destroy(session->prompt_ids);
	session_answers_finish(session);
	hash_destroy(session->fresh_names);
	free(session->shown_usage);
	free(session->shown_question);
	prompt_queue_unref(session->shown_queue);
	free(session->shown_prompt_id);
	buffer_finish(&session->base);
	free(session);
}

void session_free(struct session *session)
{
	if (session->host) {
		session->table->ops->host_lost(session->table->owner, session);
		assert(!session->host); /* it would use the session again */
	}
	session_fail(session, -ECANCELED, 0);
	session_room_note_open(session, false);
	list_remove(&session->touched_link);
	list_remove(&session->dirty_link);
	list_remove(&session->live_link);
	session->table->live_count--;
	channel_finish(&session->channel);
	uv_close((uv_handle_t *)&session->timer, handle_closed);
}
