#include "payload.h"

#include <string.h>

bool scan_literal(struct scan *scan, const char *literal)
{
	size_t len = strlen(literal);
	if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, literal, len) != 0) {
		return false;
	}
	scan->at += len;
	return true;
}

bool scan_number(struct scan *scan, uint64_t *ret_value)
{
	const char *start = scan->at;
	uint64_t value = 0;
	while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') {
		value = value * 10 + (uint64_t)(*scan->at++ - '0');
	}
	*ret_value = value;
	return scan->at > start;
}

static const char *pad_bytes(void)
{
	static char bytes[PAYLOAD_PAD_MAX];
	if (!bytes[0]) {
		for (size_t i = 0; i < sizeof(bytes); i++) {
			bytes[i] = (char)('a' + i % 26);
		}
	}
	return bytes;
}

void payload_append(struct buffer *out, const struct payload *payload, size_t pad)
{
	buffer_append_str(out, "{\"type\":\"x-bench\",\"data\":{\"n\":");
	buffer_append_u64(out, payload->n);
	buffer_append_str(out, ",\"t\":");
	buffer_append_u64(out, payload->sent);
	buffer_append_str(out, ",\"pad\":\"");
	buffer_append(out, pad_bytes(), pad);
	buffer_append_str(out, "\"}}");
}

static bool scan_pad(struct scan *scan, size_t pad)
{
	if ((size_t)(scan->end - scan->at) < pad || memcmp(scan->at, pad_bytes(), pad) != 0) {
		return false;
	}
	scan->at += pad;
	return true;
}

/** The part that the server adds; we are the only producer, so that the seq is our n. */
static bool scan_seq(struct scan *scan, uint64_t *ret_seq)
{
	uint64_t ts;
	return scan_literal(scan, "{\"seq\":") && scan_number(scan, ret_seq) &&
	       scan_literal(scan, ",\"type\":\"x-bench\",\"ts\":") && scan_number(scan, &ts);
}

bool payload_scan(struct scan *scan, bool has_seq, size_t pad, struct payload *ret_payload)
{
	uint64_t seq = 0;
	bool ok = has_seq ? scan_seq(scan, &seq) : scan_literal(scan, "{\"type\":\"x-bench\"");
	ok = ok && scan_literal(scan, ",\"data\":{\"n\":") && scan_number(scan, &ret_payload->n) &&
	     scan_literal(scan, ",\"t\":") && scan_number(scan, &ret_payload->sent) &&
	     scan_literal(scan, ",\"pad\":\"") && scan_pad(scan, pad) && scan_literal(scan, "\"}}");
	return ok && (!has_seq || seq == ret_payload->n);
}
