/*
 * A mirror is an observer on behalf of viewers of its own, to whom it shows the session in another
 * place. It is a cursor like any observer, but its encoder says all that serving them needs, and
 * nothing is hidden from it.
 */
#include "observer_internal.h"

void channel_count_live(struct observer *o)
{
	struct channel *channel = o->channel;
	size_t change = o->is_live ? 1 : (size_t)-1;
	channel->delta_observers[o->deltas] += change;
	channel->delta_observers[DELTAS_HTML] += o->has_previews ? change : 0;
	channel->mirrors += o->encoder->is_mirror ? change : 0;
}

void observer_want_previews(struct observer *mirror, bool wanted)
{
	struct channel *channel = mirror->channel;
	if (mirror->is_dismissed) {
		return;
	}
	if (mirror->has_previews != wanted) {
		mirror->has_previews = wanted;
		channel->delta_observers[DELTAS_HTML] += wanted ? 1 : (size_t)-1;
	}
	if (wanted && channel->joined) {
		channel->joined(channel->joined_arg);
	}
}

void channel_tell_about(struct channel *channel)
{
	if (!channel->mirrors) {
		return;
	}
	list_for_each_safe(link, tmp, &channel->observers) {
		struct observer *mirror = list_entry(link, struct observer, link);
		if (mirror->encoder->is_mirror) {
			mirror->about_due = true;
			observer_pump(mirror);
		}
	}
}
