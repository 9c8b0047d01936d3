/* The sessions that an editor has open, with its position in each. */
#include "attach_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

struct open_session *attach_find_session(struct attach *attach, const char *id)
{
	list_for_each(link, &attach->sessions) {
		struct open_session *session = list_entry(link, struct open_session, link);
		if (id && strcmp(session->id, id) == 0) {
			return session;
		}
	}
	return NULL;
}

void attach_drop_session(struct open_session *session)
{
	if (session) {
		list_remove(&session->link);
		free(session->id);
		free(session->epoch);
		free(session);
	}
}

struct open_session *attach_make_session(struct attach *attach, const char *id)
{
	struct open_session *session = attach_find_session(attach, id);
	if (!session) {
		session = xcalloc(1, sizeof(*session));
		session->id = xstrdup(id);
		list_append(&attach->sessions, &session->link);
	}
	return session;
}

void attach_note_place(struct open_session *session, const json_t *place)
{
	const char *epoch = text_of(place, "epoch");
	const json_t *open = json_object_get(place, "open");
	json_int_t seq = json_integer_value(json_object_get(place, "seq"));
	if (!epoch) {
		return;
	}
	if (!session->epoch || strcmp(session->epoch, epoch) != 0) {
		free(session->epoch);
		session->epoch = xstrdup(epoch);
		session->seq = 0;
		session->open = 0;
	}
	if (open) {
		session->seq = seq - 1;
		session->open = json_integer_value(open);
	} else if (seq > session->seq) {
		session->seq = seq;
		session->open = 0;
	}
}

json_t *attach_place_of(const struct open_session *session)
{
	json_t *place = json_pack("{s:I, s:s}", "after_seq", session->seq, "epoch", session->epoch);
	if (session->open) {
		json_object_set_new(place, "open", json_integer(session->open));
	}
	return json_pack("{s:o}", "holdfast", place);
}
