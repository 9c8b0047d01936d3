/*
 * The events of the bench: {"type":"x-bench","data":{"n":1,"t":123456789,"pad":"…"}}, where n
 * counts from 1, t is when the event was published (now_ns()) and the pad brings it to its size.
 */
#ifndef BENCH_PAYLOAD_H
#define BENCH_PAYLOAD_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stdint.h>

#define PAYLOAD_PAD_MAX 65536

struct payload {
	uint64_t n;
	uint64_t sent;
};

/** Where a scan is: literals and numbers are taken from the front. */
struct scan {
	const char *at;
	const char *end;
};

bool scan_literal(struct scan *scan, const char *literal);
bool scan_number(struct scan *scan, uint64_t *ret_value);

void payload_append(struct buffer *out, const struct payload *payload, size_t pad);
/**
 * Takes an event, as the server made it (has_seq) or as it was sent. False if it is not, byte for
 * byte, one of ours.
 */
bool payload_scan(struct scan *scan, bool has_seq, size_t pad, struct payload *ret_payload);

#endif
