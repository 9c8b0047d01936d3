/*
 * A tap: the observer that is another node, for all who watch the session there (proto/nodes.md). It is
 * a cursor as any observer is, and only what is said to it differs (holdfast/mirror.h): nothing is left out, and what is
 * needed to serve others is in it.
 */
#ifndef HOLDFAST_TAP_H
#define HOLDFAST_TAP_H

#include "holdfast/mirror.h"
#include "holdfast/observer.h"

/** Of one that has become live, or is not any more. */
void tap_count(struct observer *tap);
/** Takes the reference, and offers the frame to all taps: see observer_offer(). */
void tap_offer(struct channel *channel, enum deltas deltas, uint64_t seq, struct frame *frame);
/** Takes the reference, and sends the frame at once. */
void tap_write(struct observer *tap, struct frame *frame);

/* What they are told; one reference. */
struct frame *tap_welcome(const struct channel *channel);
struct frame *tap_events(const struct channel *channel, struct event **events, size_t count);
struct frame *tap_state(const struct channel *channel);
struct frame *tap_about(const struct channel *channel);

#endif
