/*
 * Labels: the name that people give a session, and whether it is archived or pinned. They are not
 * part of the state machine: a change is in the journal until it is in the log's facts, and later
 * records do not depend on it.
 */
#include "session_internal.h"

#include "holdfast/requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct pending_change {
	struct pending pending;
	json_t *json; /* of its record */
};

static void put(struct buffer *out, const char *name, const char *json)
{
	buffer_printf(out, "%s\"%s\":%s", out->len > 1 ? "," : "", name, json);
}

int session_label(struct session *session, const struct labels_change *change)
{
	struct buffer data = {0};
	uint64_t seq;
	buffer_append_char(&data, '{');
	if (change->archived >= 0) {
		put(&data, "archived", change->archived ? "true" : "false");
	}
	if (change->pinned >= 0) {
		put(&data, "pinned", change->pinned ? "true" : "false");
	}
	if (change->has_title) {
		put(&data, "title", change->title ? "" : "null");
	}
	if (change->title) {
		buffer_append_json(&data, change->title, strlen(change->title));
	}
	buffer_append_char(&data, '}');
	int r = session_journal(session, RECORD_LABELS, data.data, data.len, NULL, &seq);
	buffer_finish(&data);
	return r;
}

static void set_flag(const json_t *json, const char *name, bool *flag)
{
	const json_t *value = json_object_get(json, name);
	*flag = value ? json_is_true(value) : *flag;
}

static void follow(struct session *session, const json_t *json)
{
	struct session_facts *facts = session_facts(session->log);
	const json_t *title = json_object_get(json, "title");
	if (title) {
		session_facts_set(&facts->name, json_string_value(title));
	}
	set_flag(json, "archived", &facts->archived);
	set_flag(json, "pinned", &facts->pinned);
	session_log_facts_changed(session->log);
}

int session_labels_apply(struct session *session, const struct record *record)
{
	json_t *json = json_loadb(record->data, record->data_len, 0, NULL);
	if (!json_is_object(json)) {
		json_decref(json);
		return -EBADMSG;
	}
	if (session->table->recovering) { /* from disk */
		follow(session, json);
		json_decref(json);
		return 0;
	}
	struct pending_change *change = xcalloc(1, sizeof(*change));
	change->pending.lsn = session->applying_lsn;
	change->json = json;
	list_append(&session->pending_labels, &change->pending.link);
	return 0;
}

static void drop(struct pending_change *change)
{
	json_decref(change->json);
	free(change);
}

bool session_labels_commit(struct session *session, uint64_t lsn)
{
	bool any = false;
	struct pending_change *change;
	while ((change = session_take_pending(&session->pending_labels, lsn))) {
		follow(session, change->json);
		drop(change);
		any = true;
	}
	return any;
}

void session_labels_drop(struct session *session)
{
	struct pending_change *change;
	while ((change = session_take_pending(&session->pending_labels, UINT64_MAX))) {
		drop(change);
	}
}
