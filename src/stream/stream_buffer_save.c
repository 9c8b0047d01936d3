/*
 * The stream buffer's state as bytes, for the journal's snapshots. What is read back is not
 * trusted. Times on the session's clock (..._at) are not written: by the inputs' own times, those
 * of the snapshot and of the records behind it, it is known how long each timer had run.
 */
#include "stream_buffer_internal.h"

#include <errno.h>

static void save_held(const struct held *held, struct buffer *out)
{
	pack_le(out, held->seq, 8);
	pack_le(out, (uint64_t)held->type, 1);
	pack_le(out, (uint64_t)held->ts, 8);
	pack_le(out, held->turn, 8);
	pack_le(out, held->has_message_id, 1);
	pack_bytes(out, held->type_name.data, held->type_name.len);
	pack_bytes(out, held->message_id.data, held->message_id.len);
	pack_bytes(out, held->data.data, held->data.len);
}

void stream_buffer_save(const struct stream_buffer *sb, struct buffer *out)
{
	const struct open_text *open = &sb->open;
	pack_le(out, sb->sizes.paragraph, 8);
	pack_le(out, sb->sizes.thought, 8);
	pack_le(out, sb->sizes.block, 8);
	pack_le(out, sb->next_seq, 8);
	pack_le(out, sb->emitted_seq, 8);
	pack_le(out, open->seq, 8);
	pack_le(out, (uint64_t)open->ts, 8);
	pack_le(out, (uint64_t)open->last_ts, 8);
	pack_le(out, open->turn, 8);
	pack_le(out, open->continues, 8);
	pack_le(out, open->guard_checked, 8);
	pack_le(out, open->lead, 8);
	pack_le(out, open->has_message_id, 1);
	pack_bytes(out, open->text.data, open->text.len);
	pack_bytes(out, open->message_id.data, open->message_id.len);
	pack_le(out, sb->has_message_id, 1);
	pack_bytes(out, sb->message_id.data, sb->message_id.len);
	struct buffer scanner = {0};
	block_scanner_save(sb->scanner, &scanner);
	pack_bytes(out, scanner.data, scanner.len);
	buffer_finish(&scanner);
	pack_le(out, (uint64_t)sb->held_ts, 8);
	pack_le(out, (uint64_t)sb->thought_ts, 8);
	pack_le(out, sb->thought_is_newest, 1);
	pack_le(out, sb->thought != NULL, 1);
	if (sb->thought) {
		save_held(sb->thought, out);
	}
	uint64_t count = 0;
	list_for_each(link, &sb->held) {
		count++;
	}
	pack_le(out, count, 4);
	list_for_each(link, &sb->held) {
		save_held(list_entry(link, struct held, link), out);
	}
}

bool stream_buffer_is_fresh(const struct stream_buffer *sb)
{
	struct buffer now = {0};
	struct buffer fresh = {0};
	struct block_scanner *scanner = block_scanner_create();
	block_scanner_save(sb->scanner, &now);
	block_scanner_save(scanner, &fresh);
	bool same = now.len == fresh.len && memcmp(now.data, fresh.data, now.len) == 0;
	block_scanner_destroy(scanner);
	buffer_finish(&now);
	buffer_finish(&fresh);
	return same && stream_buffer_is_idle(sb) && !sb->thought_is_newest &&
	       sb->next_seq == sb->emitted_seq + 1;
}

static void load_bytes(struct unpack *in, struct buffer *out)
{
	size_t len;
	const char *bytes = unpack_bytes(in, &len);
	out->len = 0;
	buffer_append(out, bytes, len);
}

static struct held *load_held(struct unpack *in)
{
	struct held *held = xcalloc(1, sizeof(*held));
	list_init(&held->link);
	held->seq = unpack_le(in, 8);
	held->type = (enum event_type)unpack_le(in, 1);
	held->ts = (int64_t)unpack_le(in, 8);
	held->turn = unpack_le(in, 8);
	held->has_message_id = unpack_le(in, 1) != 0;
	load_bytes(in, &held->type_name);
	load_bytes(in, &held->message_id);
	load_bytes(in, &held->data);
	if (held->type >= EVENT_UNKNOWN) {
		in->failed = true;
	}
	return held;
}

static void load_open(struct open_text *open, struct unpack *in)
{
	open->seq = unpack_le(in, 8);
	open->ts = (int64_t)unpack_le(in, 8);
	open->last_ts = open->last_at = (int64_t)unpack_le(in, 8);
	open->turn = unpack_le(in, 8);
	open->continues = unpack_le(in, 8);
	open->guard_checked = (size_t)unpack_le(in, 8);
	open->lead = (size_t)unpack_le(in, 8);
	open->has_message_id = unpack_le(in, 1) != 0;
	load_bytes(in, &open->text);
	open->has_ink = !text_is_blank(open->text.data, open->text.len);
	load_bytes(in, &open->message_id);
}

/** A time that may be added to without a thought. */
static bool time_fits(int64_t ts)
{
	return ts >= 0 && ts <= INT64_MAX / 2;
}

/** Whether an input may wait: text of messages never does, and thoughts are kept as chunks. */
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

/** An open thought stands alone: nothing is open or held beside it. */
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

/** The numbers must fit together: emitted, open, thought and held seqs run up to next_seq. */
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
	return fits && sb->next_seq == seq + 1;
}

int stream_buffer_load(struct stream_buffer *sb, struct unpack *in)
{
	struct sizes before = sb->sizes;
	stream_buffer_drop_all(sb);
	sb->sizes.paragraph = (size_t)unpack_le(in, 8);
	sb->sizes.thought = (size_t)unpack_le(in, 8);
	sb->sizes.block = (size_t)unpack_le(in, 8);
	sb->next_seq = unpack_le(in, 8);
	sb->emitted_seq = unpack_le(in, 8);
	load_open(&sb->open, in);
	sb->has_message_id = unpack_le(in, 1) != 0;
	load_bytes(in, &sb->message_id);
	size_t len;
	const char *scanner = unpack_bytes(in, &len);
	if (!in->failed && block_scanner_load(sb->scanner, scanner, len) < 0) {
		in->failed = true;
	}
	sb->held_ts = sb->held_at = (int64_t)unpack_le(in, 8);
	sb->thought_ts = sb->thought_at = (int64_t)unpack_le(in, 8);
	sb->thought_is_newest = unpack_le(in, 1) != 0;
	if (unpack_le(in, 1)) {
		sb->thought = load_held(in);
	}
	for (uint64_t count = unpack_le(in, 4); count && !in->failed; count--) {
		struct held *held = load_held(in);
		list_append(&sb->held, &held->link);
	}
	if (in->failed || !state_fits(sb)) {
		stream_buffer_drop_all(sb);
		sb->sizes = before;
		return -EBADMSG;
	}
	return 0;
}
