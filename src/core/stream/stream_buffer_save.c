/*
 * Saves and loads the stream buffer's state, for the journal's snapshots. Loaded bytes are not
 * trusted. Times on the session's clock (`..._at`) are not saved: the timestamps of the inputs, of
 * the snapshot and of the records after it tell how long each timer had been running.
 */
#include "stream_buffer_internal.h"

#include <errno.h>

static void code_held(struct codec *c, struct held *held)
{
	CODE(c, held->seq, 8);
	CODE(c, held->type, 1);
	CODE(c, held->ts, 8);
	CODE(c, held->turn, 8);
	CODE(c, held->has_message_id, 1);
	code_buffer(c, &held->type_name);
	code_buffer(c, &held->message_id);
	code_buffer(c, &held->data);
	if (held->type >= EVENT_UNKNOWN) {
		c->in.failed = true;
	}
}

static struct held *load_held(struct codec *c)
{
	struct held *held = xcalloc(1, sizeof(*held));
	list_init(&held->link);
	code_held(c, held);
	return held;
}

static void code_open(struct codec *c, struct open_text *open)
{
	CODE(c, open->seq, 8);
	CODE(c, open->ts, 8);
	CODE(c, open->last_ts, 8);
	CODE(c, open->turn, 8);
	CODE(c, open->continues, 8);
	CODE(c, open->guard_checked, 8);
	CODE(c, open->lead, 8);
	CODE(c, open->has_message_id, 1);
	code_buffer(c, &open->text);
	code_buffer(c, &open->message_id);
}

static void code_scanner(struct codec *c, struct block_scanner *scanner)
{
	struct buffer bytes = {0};
	if (c->out) {
		block_scanner_save(scanner, &bytes);
	}
	code_buffer(c, &bytes);
	if (!c->out && !c->in.failed && block_scanner_load(scanner, bytes.data, bytes.len) < 0) {
		c->in.failed = true;
	}
	buffer_finish(&bytes);
}

static void code_state(struct codec *c, struct stream_buffer *sb, enum stream_format format)
{
	CODE(c, sb->sizes.paragraph, 8);
	CODE(c, sb->sizes.thought, 8);
	CODE(c, sb->sizes.block, 8);
	if (format > STREAM_FORMAT_WAITS) {
		CODE(c, sb->sizes.waits, 1);
		CODE(c, sb->completed_seq, 8);
	} else {
		sb->sizes.waits = true;
	}
	if (format > STREAM_FORMAT_ENDS) {
		CODE(c, sb->sizes.ends, 1);
	} else {
		sb->sizes.ends = true;
	}
	CODE(c, sb->next_seq, 8);
	CODE(c, sb->emitted_seq, 8);
	code_open(c, &sb->open);
	CODE(c, sb->has_message_id, 1);
	code_buffer(c, &sb->message_id);
	code_scanner(c, sb->scanner);
	CODE(c, sb->held_ts, 8);
	CODE(c, sb->thought_ts, 8);
	CODE(c, sb->thought_is_newest, 1);
}

void stream_buffer_save(const struct stream_buffer *sb, struct buffer *out)
{
	struct codec c = {.out = out};
	code_state(&c, (struct stream_buffer *)sb, STREAM_FORMAT_NOW);
	pack_le(out, sb->thought != NULL, 1);
	if (sb->thought) {
		code_held(&c, sb->thought);
	}
	uint64_t count = 0;
	list_for_each(link, &sb->held) {
		count++;
	}
	pack_le(out, count, 4);
	list_for_each(link, &sb->held) {
		code_held(&c, list_entry(link, struct held, link));
	}
}

bool stream_buffer_is_fresh(const struct stream_buffer *sb)
{
	return block_scanner_is_fresh(sb->scanner) && stream_buffer_is_idle(sb) &&
	       !sb->thought_is_newest && sb->next_seq == sb->emitted_seq + 1;
}

/** Whether a timeout can be added to a time without overflow. */
static bool time_fits(int64_t ts)
{
	return ts >= 0 && ts <= INT64_MAX / 2;
}

/** Whether an input can be held: text of messages never is, and thoughts are kept as chunks. */
static bool held_fits(const struct held *held)
{
	return held->type != EVENT_MESSAGE_CHUNK && held->type != EVENT_AGENT_MESSAGE &&
	       held->type != EVENT_AGENT_THOUGHT && time_fits(held->ts) &&
	       (held->type == EVENT_CUSTOM) ==
		       (event_type_of(held->type_name.data, held->type_name.len) == EVENT_CUSTOM);
}

static bool open_fits(const struct open_text *open, const struct block_scanner *scanner)
{
	return open->lead <= open->text.len && text_is_blank(open->text.data, open->lead) &&
	       open->lead + block_scanner_length(scanner) == open->text.len &&
	       (open->seq != 0) == open->has_ink && time_fits(open->ts) && time_fits(open->last_ts);
}

/** While a thought is open, no text is open and nothing is held. */
static bool thoughts_fit(const struct stream_buffer *sb)
{
	if (sb->thought) {
		return sb->thought->type == EVENT_THOUGHT_CHUNK && !sb->open.seq &&
		       list_empty(&sb->held);
	}
	return !sb->thought_is_newest ||
	       (!list_empty(&sb->held) &&
		       list_entry(sb->held.prev, struct held, link)->type == EVENT_THOUGHT_CHUNK);
}

/** Checks the state: the emitted, open, thought and held seqs must lead up to next_seq. */
static bool state_fits(const struct stream_buffer *sb)
{
	uint64_t seq = sb->emitted_seq;
	bool fits = sb->sizes.block > 0 && seq < UINT64_MAX / 2 &&
		    open_fits(&sb->open, sb->scanner) && thoughts_fit(sb) &&
		    time_fits(sb->held_ts) && time_fits(sb->thought_ts) &&
		    (list_empty(&sb->held) || sb->open.seq);
	if (sb->open.seq) {
		fits = fits && sb->open.seq == ++seq;
	}
	if (sb->thought) {
		fits = fits && held_fits(sb->thought) && sb->thought->seq == ++seq;
	}
	list_for_each(link, &sb->held) {
		const struct held *held = list_entry(link, struct held, link);
		fits = fits && held_fits(held) && held->seq == ++seq;
	}
	return fits && sb->next_seq == seq + 1 && sb->completed_seq <= sb->emitted_seq;
}

int stream_buffer_load(struct stream_buffer *sb, struct unpack *in, enum stream_format format)
{
	struct sizes before = sb->sizes;
	struct codec c = {.in = *in};
	stream_buffer_drop_all(sb);
	code_state(&c, sb, format);
	sb->open.last_at = sb->open.last_ts;
	sb->open.has_ink = !text_is_blank(sb->open.text.data, sb->open.text.len);
	sb->held_at = sb->held_ts;
	sb->thought_at = sb->thought_ts;
	if (unpack_le(&c.in, 1)) {
		sb->thought = load_held(&c);
	}
	for (uint64_t count = unpack_le(&c.in, 4); count && !c.in.failed; count--) {
		struct held *held = load_held(&c);
		list_append(&sb->held, &held->link);
	}
	*in = c.in;
	if (in->failed || !state_fits(sb)) {
		stream_buffer_drop_all(sb);
		sb->sizes = before;
		return -EBADMSG;
	}
	return 0;
}
