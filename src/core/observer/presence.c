/*
 * Presence: who is connected to a session (proto/protocol.md#who-is-here). Its data is made when the
 * first observer that asked for it is due it, and shared. While nobody has asked, a connection
 * that comes or goes costs one comparison.
 */
#include "observer_internal.h"

#include <stdlib.h>
#include <string.h>

/* Most people that are listed by name. */
#define PEOPLE_MAX 50
/*
 * Most frames sent per session and second, and the least time between two to the same observer
 * (ms).
 */
#define FRAMES_PER_SECOND 100
#define INTERVAL_MS       1000

static const char *const roles[] = {"admin", "controller", "observer", "producer"};
#define ROLES (sizeof(roles) / sizeof(roles[0]))

void channel_presence_finish(struct channel *channel)
{
	buffer_finish(&channel->presence[0]);
	buffer_finish(&channel->presence[1]);
}

void channel_presence_changed(struct channel *channel)
{
	if (channel->presence_watchers) {
		channel->presence_version++;
		channel->presence_output = ++channel->outputs;
		channel_presence_finish(channel);
	}
}

void observer_presence_finish(struct observer *o)
{
	o->channel->presence_watchers -= o->watches_presence;
	o->watches_presence = false;
	channel_presence_changed(o->channel);
}

void observer_set_name(struct observer *o, const char *name)
{
	bool is_same = name && o->name ? strcmp(name, o->name) == 0 : name == o->name;
	if (is_same || o->is_dismissed) {
		return;
	}
	free(o->name);
	o->name = name ? xstrdup(name) : NULL;
	channel_presence_changed(o->channel);
}

const char *observer_name(const struct observer *o)
{
	return o->name;
}

void observer_watch_presence(struct observer *o, bool watches)
{
	if (watches == o->watches_presence || o->is_dismissed) {
		return;
	}
	o->watches_presence = watches;
	o->presence_seen = 0;
	o->channel->presence_watchers += watches ? 1 : (size_t)-1;
	if (watches && o->channel->presence_watchers == 1) {
		channel_presence_changed(o->channel); /* changes were not recorded until now */
	}
}

/* --- the data --- */

struct people {
	const struct observer *named[PEOPLE_MAX];
	size_t count;
	bool more;
};

static bool is_named(const struct people *people, const struct observer *o)
{
	for (size_t i = 0; i < people->count; i++) {
		if (strcmp(people->named[i]->client_id, o->client_id) == 0 &&
			strcmp(people->named[i]->sub, o->sub) == 0) {
			return true;
		}
	}
	return false;
}

/**
 * Adds the observers whose role only watches (`that_watch`), or the others, up to PEOPLE_MAX. The
 * caller adds the others first.
 */
static void find_people(const struct channel *channel, bool that_watch, struct people *people)
{
	list_for_each(link, &channel->observers) {
		const struct observer *o = list_entry(link, struct observer, link);
		if (o->encoder->is_mirror || (strcmp(o->role, "observer") == 0) != that_watch) {
			continue;
		}
		if (people->count == PEOPLE_MAX) {
			people->more = true;
			return;
		}
		if (!is_named(people, o)) {
			people->named[people->count++] = o;
		}
	}
}

static void append_roles(struct buffer *out, const struct channel *channel)
{
	size_t counts[ROLES] = {0};
	size_t all = 0;
	list_for_each(link, &channel->observers) {
		const struct observer *o = list_entry(link, struct observer, link);
		for (size_t i = 0; i < ROLES; i++) {
			counts[i] += !o->encoder->is_mirror && strcmp(roles[i], o->role) == 0;
		}
		all += !o->encoder->is_mirror;
	}
	buffer_printf(out, "{\"count\":%zu,\"roles\":{", all);
	const char *comma = "";
	for (size_t i = 0; i < ROLES; i++) {
		if (counts[i]) {
			buffer_printf(out, "%s\"%s\":%zu", comma, roles[i], counts[i]);
			comma = ",";
		}
	}
	buffer_append_char(out, '}');
}

static void append_people(struct buffer *out, const struct people *people)
{
	buffer_append_str(out, ",\"people\":[");
	for (size_t i = 0; i < people->count; i++) {
		const struct observer *o = people->named[i];
		buffer_printf(out, "%s{\"role\":\"%s\"", i ? "," : "", o->role);
		buffer_append_member(out, "client_id", o->client_id);
		if (o->sub[0]) {
			buffer_append_member(out, "sub", o->sub);
		}
		if (o->name) {
			buffer_append_member(out, "name", o->name);
		}
		buffer_append_char(out, '}');
	}
	buffer_printf(out, "],\"more\":%s}", people->more ? "true" : "false");
}

/** The data, borrowed. An observer from which something is hidden (`hide`) gets no names. */
static const struct buffer *presence_data(struct channel *channel, unsigned hide)
{
	struct buffer *data = &channel->presence[hide != 0];
	if (!data->len) {
		struct people people = {.more = hide != 0};
		append_roles(data, channel);
		if (!hide) {
			find_people(channel, false, &people);
			find_people(channel, true, &people);
		}
		append_people(data, &people);
	}
	return data;
}

static struct frame *make_presence(const struct observer *o, const void *in)
{
	const struct buffer *data = in;
	return o->encoder->presence ? o->encoder->presence(o->reader, data->data, data->len) : NULL;
}

void observer_tell_presence(struct observer *o, int64_t now_ms)
{
	if (!o->watches_presence || o->presence_seen == o->channel->presence_version ||
		now_ms < o->presence_due_ms || o->outbox_count || !o->ops->is_writable(o->socket)) {
		return;
	}
	int64_t share = (int64_t)(o->channel->presence_watchers * 1000 / FRAMES_PER_SECOND);
	o->presence_seen = o->channel->presence_version;
	o->presence_due_ms = now_ms + (share > INTERVAL_MS ? share : INTERVAL_MS);
	observer_write(o, shared_make(o, o->channel->presence_output, o->hide != 0, make_presence,
				  presence_data(o->channel, o->hide)));
}
