/*
 * A tap is an observer that is another node, on behalf of all who watch the session there
 * (proto/nodes.md). It is a cursor like any observer, but gets frames of its own
 * (holdfast/mirror.h): nothing is hidden from it, and the frames contain all that the node needs to
 * serve its viewers.
 */
#ifndef HOLDFAST_TAP_H
#define HOLDFAST_TAP_H

#include "holdfast/mirror.h"
#include "holdfast/observer.h"

/** Updates the channel's counts for a tap that has become live, or has ceased to be. */
void tap_count(struct observer *tap);
/** Offers the frame to all taps, see observer_offer(). Takes over the reference. */
void tap_offer(struct channel *channel, enum deltas deltas, uint64_t seq, struct frame *frame);
/** Sends the frame at once. Takes over the reference. */
void tap_write(struct observer *tap, struct frame *frame);

/* The frames of taps; each call returns a new reference. */
struct frame *tap_welcome(const struct channel *channel);
struct frame *tap_events(const struct channel *channel, struct event **events, size_t count);
struct frame *tap_state(const struct channel *channel);
struct frame *tap_about(const struct channel *channel);

#endif
