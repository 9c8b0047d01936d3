#include "workspace_internal.h"

#include "holdfast/utf8.h"

#include <string.h>

/*
 * The output of a terminal's command: the newest part is kept for the agent, which can request it
 * at any time; the oldest part is reported to observers piece by piece.
 */

/* Most bytes reported for one command; after that, only the end of its output is. */
#define TOLD_MAX ((size_t)256 * 1024)
#define TAIL_MAX ((size_t)4 * 1024)

/** Whether the bytes are the beginning of an incomplete character. */
static bool is_cut(const char *bytes, size_t len)
{
	struct utf8_state state = {0};
	return *bytes && utf8_check(&state, bytes, len) && !utf8_is_whole(&state);
}

size_t output_fit(struct buffer *out, const char *bytes, size_t len, bool last)
{
	size_t at = 0;
	while (at < len) {
		size_t n = bytes[at] ? utf8_length(bytes + at, len - at) : 0;
		if (n > 0) {
			buffer_append(out, bytes + at, n);
		} else if (!last && is_cut(bytes + at, len - at)) {
			return at;
		} else {
			buffer_append_str(out, UTF8_REPLACEMENT);
			n = 1;
		}
		at += n;
	}
	return at;
}

static json_t *fit_string(const char *bytes, size_t len, bool last, size_t *ret_used)
{
	struct buffer text = {0};
	*ret_used = len > 0 ? output_fit(&text, bytes, len, last) : 0;
	json_t *string = json_stringn(text.len ? text.data : "", text.len);
	buffer_finish(&text);
	return string;
}

void output_init(struct output *o, size_t kept_max)
{
	*o = (struct output){.kept_max = kept_max};
}

void output_finish(struct output *o)
{
	buffer_finish(&o->kept);
	buffer_finish(&o->untold);
}

static void trim(struct output *o)
{
	if (o->kept.len > o->kept_max) {
		buffer_consume(&o->kept, o->kept.len - o->kept_max);
		o->truncated = true;
	}
}

void output_push(struct output *o, const char *bytes, size_t len)
{
	buffer_append(&o->kept, bytes, len);
	/* Only now and then: trimming moves everything that is kept. */
	if (o->kept.len / 2 > o->kept_max) {
		trim(o);
	}
	if (o->told + o->untold.len < TOLD_MAX) {
		buffer_append(&o->untold, bytes, len);
	}
	o->total += len;
}

json_t *output_kept(struct output *o)
{
	trim(o);
	size_t begin = 0;
	/* Begin at a whole character. */
	while (o->truncated && begin < 4 && begin < o->kept.len &&
		((unsigned char)o->kept.data[begin] & 0xc0) == 0x80) {
		begin++;
	}
	size_t used;
	return fit_string(
		o->kept.len ? o->kept.data + begin : "", o->kept.len - begin, true, &used);
}

json_t *output_tell(struct output *o, bool last, uint64_t *ret_offset)
{
	size_t room = TOLD_MAX - o->told;
	size_t len = o->untold.len < room ? o->untold.len : room;
	size_t used;
	json_t *text = fit_string(o->untold.data, len, last || len == room, &used);
	*ret_offset = o->told;
	o->told += used;
	if (o->told == TOLD_MAX) {
		buffer_finish(&o->untold);
	} else {
		buffer_consume(&o->untold, used);
	}
	if (used == 0) {
		json_decref(text);
		return NULL;
	}
	return text;
}

json_t *output_tail(struct output *o, uint64_t *ret_offset)
{
	uint64_t missing = o->total - o->told;
	size_t len = o->kept.len < TAIL_MAX ? o->kept.len : TAIL_MAX;
	len = missing < len ? (size_t)missing : len;
	if (len == 0) {
		return NULL;
	}
	size_t used;
	*ret_offset = o->total - len;
	o->told = (size_t)o->total;
	return fit_string(o->kept.data + o->kept.len - len, len, true, &used);
}
