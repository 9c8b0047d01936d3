/*
 * The listed state of other nodes' sessions. Each node shows the objects of its sessions on the
 * shelf (shelf.h) when they have changed, and reads there what the others show, both several times
 * a second and not for each event. Sessions whose node has died remain listed in their last state.
 */
#include "holdfast/session_elsewhere.h"

#include "holdfast/hash.h"
#include "holdfast/json_text.h"
#include "holdfast/loop.h"
#include "holdfast/shelf.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 400
/* The most sessions shown in one round. */
#define SHOWN_MOST 500
/*
 * Notes of deletions are removed after a day. A node that could not read for this time (ms) reads
 * everything again.
 */
#define ANEW_MS ((int64_t)12 * 3600 * 1000)

struct session_elsewhere {
	struct session_elsewhere_place place;
	const struct shelf *shelf;
	uv_timer_t *timer;
	uv_work_t work;
	bool is_working;
	struct hash *objects; /* struct shown, by id; may include sessions that are here */
	struct hash *changed; /* ids of this node's sessions to be shown; owned */
	uint64_t at; /* the number of the last line read from the shelf */
	bool is_anew; /* this round reads everything again */
	int64_t seen_ms; /* start of the last round that could read, in ms of CLOCK_BOOTTIME */
	int64_t begun_ms; /* start of the current round */
	/* Used by the thread pool during a round. */
	char owner[SHELF_OWNER_SIZE];
	struct buffer out; /* lines, see shelf.h */
	struct buffer in;
	int out_status;
	int in_status;
};

/** The object of a session, with the JSON that its strings are borrowed from. */
struct shown {
	struct session_object object;
	uint64_t number; /* of its log in the store */
	json_t *json;
	bool is_old; /* while everything is read again: it was not read yet */
};

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void free_shown(struct shown *shown)
{
	if (shown) {
		json_decref(shown->json);
		free(shown);
	}
}

/* --- reading what others show --- */

static uint64_t number_of(const json_t *json, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(json, name));
}

static const char *text_of(const json_t *json, const char *name)
{
	return json_string_value(json_object_get(json, name));
}

static const char *status_of(const json_t *json)
{
	static const char *const known[] = {"idle", "running", "waiting"};
	const char *status = text_of(json, "status");
	for (size_t i = 0; status && i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(status, known[i]) == 0) {
			return known[i];
		}
	}
	return known[0];
}

/** Makes a struct shown of an object, taking over the reference; NULL if it is not a session's. */
static struct shown *read_object(json_t *json)
{
	const char *id = text_of(json, "id");
	const char *title = text_of(json, "title");
	const char *epoch = text_of(json, "epoch");
	if (!id || !title || !epoch) {
		json_decref(json);
		return NULL;
	}
	struct shown *shown = xcalloc(1, sizeof(*shown));
	shown->json = json;
	shown->object = (struct session_object){.id = id,
		.labels = {.title = title,
			.archived = json_is_true(json_object_get(json, "archived")),
			.pinned = json_is_true(json_object_get(json, "pinned"))},
		.agent = text_of(json, "agent"),
		.cwd = text_of(json, "cwd"),
		.epoch = strtoull(epoch, NULL, 16),
		.first_seq = number_of(json, "first_seq"),
		.max_seq = number_of(json, "max_seq"),
		.created_at = (int64_t)number_of(json, "created_at"),
		.updated_at = (int64_t)number_of(json, "updated_at"),
		.status = status_of(json),
		.questions = (size_t)number_of(json, "questions"),
		.waiting_for = text_of(json, "waiting_for"),
		.is_prompting = json_is_true(json_object_get(json, "is_prompting"))};
	const json_t *state = json_object_get(json, "agent_state");
	for (size_t i = 0; i < AGENT_STATE_COUNT; i++) {
		shown->object.agent_state.seqs[i] = number_of(state, agent_state_name(i));
	}
	return shown;
}

static bool is_here(const struct session_elsewhere *elsewhere, const char *id)
{
	return store_get_session(elsewhere->place.store, id, strlen(id)) != NULL;
}

static void tell(const struct session_elsewhere *elsewhere, const char *id,
	const struct session_object *object, bool is_new)
{
	const struct session_elsewhere_place *place = &elsewhere->place;
	if (place->tell && server_may(place->life, MAY_TELL) && !is_here(elsewhere, id)) {
		place->tell(place->owner, id, object, is_new);
	}
}

static void take_gone(struct session_elsewhere *elsewhere, const char *id)
{
	struct shown *gone = hash_remove(elsewhere->objects, id, strlen(id));
	if (gone) {
		tell(elsewhere, id, NULL, false);
	}
	free_shown(gone);
}

/** Takes a line of a session: `text` is the number of its log, and its object. */
static void take_object(struct session_elsewhere *elsewhere, const char *id, const char *text)
{
	char *rest;
	uint64_t number = strtoull(text, &rest, 10);
	struct shown *shown = read_object(json_loads(rest, 0, NULL));
	if (!shown || strcmp(shown->object.id, id) != 0) {
		free_shown(shown);
		return;
	}
	shown->number = number;
	struct shown *before = hash_put(elsewhere->objects, id, strlen(id), shown);
	/* Objects that are read again are reported only if they differ. */
	if (!before || !before->is_old || !json_equal(before->json, shown->json)) {
		tell(elsewhere, id, &shown->object, !before);
	}
	free_shown(before);
}

static void take_line(struct session_elsewhere *elsewhere, char *line)
{
	char *object = strchr(line, ' ');
	if (object) {
		*object++ = '\0';
		take_object(elsewhere, line, object);
	} else {
		take_gone(elsewhere, line);
	}
}

static void make_old(void *value, void *arg)
{
	((struct shown *)value)->is_old = true;
}

static void collect_old(void *value, void *arg)
{
	const struct shown *shown = value;
	if (shown->is_old) {
		json_array_append_new(arg, json_string(shown->object.id));
	}
}

/** Drops the sessions that were not there when everything was read again. */
static void drop_old(struct session_elsewhere *elsewhere)
{
	size_t i;
	const json_t *id;
	json_t *ids = json_array();
	hash_each(elsewhere->objects, collect_old, ids);
	json_array_foreach(ids, i, id) {
		take_gone(elsewhere, json_string_value(id));
	}
	json_decref(ids);
}

static void take_lines(struct session_elsewhere *elsewhere)
{
	char *rest = elsewhere->in.len ? (char *)buffer_cstr(&elsewhere->in) : NULL;
	if (elsewhere->is_anew) {
		hash_each(elsewhere->objects, make_old, NULL);
	}
	for (char *line; rest && (line = strsep(&rest, "\n")) && *line;) {
		take_line(elsewhere, line);
	}
	if (elsewhere->is_anew) {
		drop_old(elsewhere);
	}
	buffer_clear(&elsewhere->in);
}

/* --- showing this node's sessions --- */

static void add_changed(struct session_elsewhere *elsewhere, const char *id)
{
	free(hash_put(elsewhere->changed, id, strlen(id), xstrdup(id)));
}

static void add_log(struct session_log *log, void *arg)
{
	add_changed(arg, session_log_id(log));
}

struct showing {
	struct session_elsewhere *elsewhere;
	size_t count;
};

/** Adds a line for a changed session. Returns false, having freed the id, if that is done. */
static bool show(void *value, void *arg)
{
	struct showing *showing = arg;
	struct session_elsewhere *elsewhere = showing->elsewhere;
	char *id = value;
	struct session_object object;
	if (showing->count >= SHOWN_MOST) {
		return true;
	}
	if (session_table_get_object(elsewhere->place.table, id, strlen(id), &object)) {
		buffer_printf(&elsewhere->out, "%s ", id);
		frames_append_session(&elsewhere->out, &object, 0);
		buffer_append_char(&elsewhere->out, '\n');
		showing->count++;
	} else if (is_here(elsewhere, id)) {
		return true; /* not durable yet: later */
	}
	free(id);
	return false;
}

static void forget(struct session_elsewhere *elsewhere, const char *id)
{
	free_shown(hash_remove(elsewhere->objects, id, strlen(id)));
}

/* --- a round: several times a second --- */

static void look_work(uv_work_t *work)
{
	struct session_elsewhere *elsewhere = work->data;
	const struct shelf *shelf = elsewhere->shelf;
	uint64_t at = elsewhere->is_anew ? 0 : elsewhere->at;
	elsewhere->out_status = elsewhere->out.len
					? shelf->show(shelf->arg, elsewhere->owner,
						  elsewhere->out.data, elsewhere->out.len)
					: 0;
	elsewhere->in_status = shelf->read_shown(shelf->arg, &at, &elsewhere->in);
	elsewhere->at = elsewhere->in_status == 0 ? at : elsewhere->at;
}

static void look_done(uv_work_t *work, int status)
{
	struct session_elsewhere *elsewhere = work->data;
	const struct shelf *shelf = elsewhere->shelf;
	elsewhere->is_working = false;
	shelf->hold(shelf->arg, false);
	buffer_clear(&elsewhere->out);
	if (elsewhere->out_status < 0) { /* once the store works again, show all of them */
		store_each_session(elsewhere->place.store, add_log, elsewhere);
	}
	if (elsewhere->in_status == 0) {
		elsewhere->seen_ms = elsewhere->begun_ms;
		take_lines(elsewhere);
	}
	buffer_clear(&elsewhere->in);
}

static void handle_timer(uv_timer_t *timer)
{
	struct session_elsewhere *elsewhere = timer->data;
	const struct shelf *shelf = elsewhere->shelf;
	if (elsewhere->is_working || !server_may(elsewhere->place.life, MAY_KEEP_UP)) {
		return;
	}
	hash_filter(elsewhere->changed, show, &(struct showing){.elsewhere = elsewhere});
	strcpy(elsewhere->owner, shelf->owner(shelf->arg));
	elsewhere->begun_ms = now_ms();
	elsewhere->is_anew = elsewhere->begun_ms - elsewhere->seen_ms > ANEW_MS;
	elsewhere->work.data = elsewhere;
	elsewhere->is_working = true;
	shelf->hold(shelf->arg, true);
	uv_queue_work(elsewhere->place.loop, &elsewhere->work, look_work, look_done);
}

/* --- life --- */

static struct session_elsewhere *begin(const struct session_elsewhere_place *place)
{
	struct session_elsewhere *elsewhere = xcalloc(1, sizeof(*elsewhere));
	elsewhere->place = *place;
	elsewhere->shelf = store_shelf(place->store);
	elsewhere->objects = hash_create();
	elsewhere->changed = hash_create();
	elsewhere->seen_ms = now_ms();
	store_each_session(place->store, add_log, elsewhere);
	elsewhere->timer = loop_timer(place->loop, elsewhere);
	uv_timer_start(elsewhere->timer, handle_timer, 0, LOOK_MS);
	return elsewhere;
}

static void free_object(void *value, void *arg)
{
	free_shown(value);
}

static void end(struct session_elsewhere *elsewhere)
{
	loop_close(elsewhere->timer);
	hash_each(elsewhere->objects, free_object, NULL);
	hash_destroy(elsewhere->objects);
	hash_destroy_all(elsewhere->changed);
	buffer_finish(&elsewhere->out);
	buffer_finish(&elsewhere->in);
	free(elsewhere);
}

/* --- the lists --- */

struct visit {
	const struct session_elsewhere *elsewhere;
	void (*visit)(const struct session_object *object, void *arg);
	void *arg;
};

static void visit_shown(void *value, void *arg)
{
	const struct visit *visit = arg;
	const struct session_object *object = &((struct shown *)value)->object;
	if (!is_here(visit->elsewhere, object->id)) {
		visit->visit(object, visit->arg);
	}
}

static void each(struct session_elsewhere *elsewhere,
	void (*visit)(const struct session_object *object, void *arg), void *arg)
{
	struct visit all = {.elsewhere = elsewhere, .visit = visit, .arg = arg};
	hash_each(elsewhere->objects, visit_shown, &all);
}

static size_t count(const struct session_elsewhere *elsewhere)
{
	return hash_count(elsewhere->objects);
}

static struct session_log *log_of(struct session_elsewhere *elsewhere, const char *id)
{
	const struct shown *shown = hash_get(elsewhere->objects, id, strlen(id));
	if (!shown || is_here(elsewhere, id)) {
		return NULL;
	}
	const struct log_place place = {.number = shown->number,
		.epoch = shown->object.epoch,
		.first_seq = shown->object.first_seq,
		.max_seq = shown->object.max_seq};
	return session_log_mirror(elsewhere->place.store, id, &place, NULL);
}

const struct session_elsewhere_ops session_elsewhere_ops = {
	.begin = begin,
	.end = end,
	.changed = add_changed,
	.deleted = forget,
	.each = each,
	.count = count,
	.log = log_of,
};
