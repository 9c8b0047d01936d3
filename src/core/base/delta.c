/*
 * The delta format: a sequence of steps, each being the number of new bytes, those bytes, how far
 * to skip in the base, and how many bytes to copy from there. The last step can end after its new
 * bytes. Numbers are little-endian base-128 (LEB128); the high bit marks that more follow.
 */
#include "delta.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Shortest match that is worth a copy. */
#define COPY_LEAST 6
/* How far ahead of the last copy, in the base, a match is searched for. */
#define REACH 256

static void append_number(struct buffer *out, size_t number)
{
	while (number >= 0x80) {
		buffer_append_char(out, (char)(0x80 | (number & 0x7f)));
		number >>= 7;
	}
	buffer_append_char(out, (char)number);
}

static size_t same_len(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t most = a_len < b_len ? a_len : b_len;
	size_t len = 0;
	while (len < most && a[len] == b[len]) {
		len++;
	}
	return len;
}

void delta_make(
	const char *base, size_t base_len, const char *bytes, size_t len, struct buffer *out)
{
	const char *from = base;
	const char *base_end = base + base_len;
	size_t fresh = 0; /* start of the bytes not yet written */
	size_t at = 0;
	while (len - at >= COPY_LEAST) {
		size_t left = (size_t)(base_end - from);
		const char *found =
			memmem(from, left < REACH ? left : REACH, bytes + at, COPY_LEAST);
		if (!found) {
			at++;
			continue;
		}
		size_t copied = same_len(found, (size_t)(base_end - found), bytes + at, len - at);
		append_number(out, at - fresh);
		buffer_append(out, bytes + fresh, at - fresh);
		append_number(out, (size_t)(found - from));
		append_number(out, copied);
		from = found + copied;
		at += copied;
		fresh = at;
	}
	if (fresh < len) {
		append_number(out, len - fresh);
		buffer_append(out, bytes + fresh, len - fresh);
	}
}

/** Reads a number that must not exceed `most`; returns false otherwise. */
static bool take_number(const char **at, const char *end, size_t most, size_t *ret)
{
	uint64_t number = 0;
	for (unsigned shift = 0; *at < end && shift < 63; shift += 7) {
		unsigned char group = (unsigned char)*(*at)++;
		number |= (uint64_t)(group & 0x7f) << shift;
		if (group < 0x80) {
			*ret = (size_t)number;
			return number <= most;
		}
	}
	return false;
}

int delta_apply(const char *base, size_t base_len, const char *delta, size_t len, char *out,
	size_t *ret_len)
{
	const char *at = delta;
	const char *end = delta + len;
	const char *start = out;
	while (at < end) {
		size_t fresh;
		size_t skipped;
		size_t copied;
		if (!take_number(&at, end, len, &fresh) || fresh > (size_t)(end - at)) {
			return -EBADMSG;
		}
		memcpy(out, at, fresh);
		out += fresh;
		at += fresh;
		if (at == end) {
			break;
		}
		if (!take_number(&at, end, base_len, &skipped) ||
			!take_number(&at, end, base_len - skipped, &copied)) {
			return -EBADMSG;
		}
		memcpy(out, base + skipped, copied);
		out += copied;
		base += skipped + copied;
		base_len -= skipped + copied;
	}
	*ret_len = (size_t)(out - start);
	return 0;
}
