/* Publishing at the end of a loop tick: deltas, previews, and the timer that flushes open text. */
#include "session_internal.h"

#include "core/stream/inline_guard.h"
#include "holdfast/loop.h"
#include "holdfast/markdown_html.h"

static void publish_delta(struct session *session, const struct stream_open *open)
{
	struct channel *channel = &session->channel;
	size_t told = channel->open_seq == open->seq ? channel->open_text.len : 0;
	if (open->len > told) {
		channel_delta(channel, open->seq, open->type, open->text + told, open->len - told);
	}
}

/**
 * Renders the open block for observers with previews, at most every preview_ms. Returns when the
 * next preview is due, INT64_MAX if none is.
 */
static int64_t publish_preview(struct session *session, const struct stream_open *open, int64_t now)
{
	struct channel *channel = &session->channel;
	bool is_new = session->preview_seq != open->seq || session->preview_len != open->len;
	if (!channel->delta_observers[DELTAS_HTML] || !open->len ||
		(!is_new && !session->preview_wanted)) {
		return INT64_MAX;
	}
	int64_t due = session->preview_ts + session->table->limits->preview_ms;
	if (now < due && !session->preview_wanted) {
		return due;
	}
	struct buffer whole = {0};
	struct buffer healed = {0};
	struct buffer html = {0};
	buffer_append(&whole, open->context, open->context_len);
	buffer_append(&whole, open->text, open->len);
	inline_guard_heal(whole.data, whole.len, &healed);
	/* Closing open inline markup may have changed the context of a short text, too. */
	bool whole_context = healed.len >= open->context_len && open->context_len &&
			     memcmp(healed.data, open->context, open->context_len) == 0;
	size_t kept = whole_context ? open->context_len : 0;
	const char *shown = buffer_cstr(&healed);
	markdown_to_html(&(struct markdown){.context = shown,
				 .context_len = kept,
				 .text = shown + kept,
				 .len = healed.len - kept,
				 .start = kept == open->context_len ? open->start : 0},
		&html);
	buffer_finish(&whole);
	channel_preview(channel, open->seq, open->type, html.data ? html.data : "", html.len);
	buffer_finish(&healed);
	buffer_finish(&html);
	session->preview_ts = now;
	session->preview_seq = open->seq;
	session->preview_len = open->len;
	session->preview_wanted = false;
	return INT64_MAX;
}

static void handle_timer(uv_timer_t *timer)
{
	struct session *session = timer->data;
	session->timer_at = INT64_MAX;
	if (session->is_deleted) {
		return;
	}
	if (!server_may(session->table->life, MAY_RUN_TIMERS)) {
		return; /* the next owner's timer does it */
	}
	if (loop_missed_ms(timer->loop)) {
		session->timer_at = clock_elapsed_ms(session->table->clock);
		uv_timer_start(timer, handle_timer, 1, 0); /* text that goes on may lie unread */
		return;
	}
	char flush = (char)stream_buffer_due(session->state.stream, session_time(session));
	uint64_t seq;
	if (flush != STREAM_FLUSH_NONE &&
		session_journal(session, RECORD_FLUSH, &flush, 1, NULL, &seq) < 0) {
		return; /* the store has failed: the text stays open until it is revived */
	}
	session_touch(session);
}

/** Arms the timer for `at`. If it is armed for an earlier time, it is armed again when it fires. */
static void arm_timer(struct session *session, int64_t at, int64_t now)
{
	if (at == INT64_MAX || at >= session->timer_at) {
		return;
	}
	session->timer_at = at;
	uv_timer_start(&session->timer, handle_timer, at > now ? (uint64_t)(at - now) : 1, 0);
}

void session_rearm(struct session *session)
{
	int64_t at = session->timer_at;
	session->timer_at = INT64_MAX;
	arm_timer(session, at, clock_elapsed_ms(session->table->clock));
}

void session_publish(struct session *session)
{
	struct session_table *table = session->table;
	struct stream_open open;
	int64_t now = clock_elapsed_ms(table->clock);
	int64_t time = session_time(session);
	stream_buffer_get_open(session->state.stream, &open);
	int64_t preview_at = INT64_MAX;
	/* Like events, text is shown once it is durable. */
	const struct open_mark *shown = &session->shown_open;
	open.len = open.seq != shown->seq ? 0 : open.len < shown->len ? open.len : shown->len;
	if (open.len && !session->is_deleted) {
		publish_delta(session, &open);
		preview_at = publish_preview(session, &open, now);
	}
	int64_t flush_at = stream_buffer_deadline(session->state.stream);
	if (flush_at <= time &&
		stream_buffer_due(session->state.stream, time) == STREAM_FLUSH_NONE) {
		flush_at = INT64_MAX; /* an unmatched marker: only more text can change that */
	}
	flush_at -= flush_at == INT64_MAX ? 0 : session->time_shift;
	arm_timer(session, flush_at < preview_at ? flush_at : preview_at, now);
	channel_end_tick(&session->channel);
	if (session->object_changed) {
		session->object_changed = false;
		session_elsewhere_note(table, session_id(session));
		table->ops->changed(table->owner, session);
	}
}

/** Tells other nodes that show the session, so that they do not request pruned events. */
void session_handle_pruned(void *owner)
{
	struct session *session = owner;
	channel_tell_about(&session->channel);
	session->object_changed = true;
	session_touch(session);
}

/** An observer has become live: if it wants previews, it must not wait for more text. */
void session_handle_joined(void *arg)
{
	struct session *session = arg;
	session->preview_wanted = true;
	session_touch(session);
}
