/*
 * A tap is an observer that is another node, on behalf of all who watch the session there
 * (proto/nodes.md). It is a cursor like any observer, but its encoder (holdfast/mirror.h) says all
 * that the node needs to serve its viewers, and nothing is hidden from it.
 */
#include "observer_internal.h"

void channel_count_live(struct observer *o)
{
	struct channel *channel = o->channel;
	size_t change = o->is_live ? 1 : (size_t)-1;
	channel->delta_observers[o->deltas] += change;
	channel->delta_observers[DELTAS_HTML] += o->has_previews ? change : 0;
	channel->taps += o->encoder->is_node ? change : 0;
}

void observer_want_previews(struct observer *tap, bool wanted)
{
	struct channel *channel = tap->channel;
	if (tap->is_dismissed) {
		return;
	}
	if (tap->has_previews != wanted) {
		tap->has_previews = wanted;
		channel->delta_observers[DELTAS_HTML] += wanted ? 1 : (size_t)-1;
	}
	if (wanted && channel->joined) {
		channel->joined(channel->joined_arg);
	}
}

void channel_tell_about(struct channel *channel)
{
	if (!channel->taps) {
		return;
	}
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *tap = list_entry(link, struct observer, link);
		if (tap->encoder->is_node) {
			tap->about_due = true;
			observer_pump(tap);
		}
	}
}
