/* What a witness puts into the sessions of a rig, and notes about it. */
#include "witness_internal.h"

#include "core/session/session_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct names {
	struct names_wait wait;
	bool is_done;
};

static void handle_names(struct names_wait *wait)
{
	((struct names *)wait)->is_done = true;
}

/** The doors wait for the names of a session before they take inputs for it, and so do we. */
static struct session *get_session(struct witness *w, const char *id)
{
	struct names names = {.wait = {.done = handle_names}};
	struct session *session = session_table_get(w->rig->table, id, strlen(id));
	if (session && !session_has_names(session)) {
		session_load_names(session, &names.wait);
		while (!names.is_done) {
			uv_run(&w->rig->loop, UV_RUN_ONCE);
		}
		session = session_table_get(w->rig->table, id, strlen(id));
	}
	return session;
}

static int find_life(struct witness *w, const char *id, struct life **ret_life)
{
	struct session *session = get_session(w, id);
	if (session) {
		*ret_life = witness_life_of(w, session);
		return *ret_life ? 0 : -ENOENT;
	}
	size_t sent = witness_now(w);
	int r = session_create(w->rig->table, id, &(struct session_wish){.title = id}, &session);
	if (r < 0) {
		w->refused++;
		return r;
	}
	struct life *life = xcalloc(1, sizeof(*life));
	*life = (struct life){.witness = w,
		.epoch = session_log_epoch(session->log),
		.created_at = session_log_created_at(session->log),
		.delete_sent = NEVER,
		.delete_acked = NEVER,
		.session = session};
	snprintf(life->id, sizeof(life->id), "%s", id);
	w->lives = xrealloc(w->lives, (w->life_count + 1) * sizeof(struct life *));
	w->lives[w->life_count++] = life;
	witness_add_state(life, sent);
	witness_watch(life);
	*ret_life = life;
	return 0;
}

/** Whatever the outcome: the session is what it was, or it is noted what it is. */
static int note_outcome(struct life *life, size_t sent, int r)
{
	if (r == 0) {
		life->witness->inputs++;
		witness_add_state(life, sent);
		return 0;
	}
	life->witness->refused++;
	witness_check_taken_back(life);
	return r;
}

static int input(struct witness *w, const char *id, const struct input_event *in)
{
	struct life *life;
	int r = find_life(w, id, &life);
	if (r < 0 || session_is_deleted(life->session)) {
		return r < 0 ? r : -ENOENT;
	}
	size_t sent = witness_now(w);
	uint64_t seq;
	bool duplicate;
	char name[WITNESS_KEY];
	struct input_event keyed = *in;
	keyed.sum.value = witness_key(life->state_count, name);
	keyed.key = name;
	keyed.key_len = strlen(name);
	r = session_input(life->session, &keyed, &seq, &duplicate);
	r = note_outcome(life, sent, r);
	if (r == 0) {
		life->states[life->state_count - 1].has_key = true;
		life->states[life->state_count - 1].seq = seq;
	}
	return r;
}

int witness_say(struct witness *w, const char *id, const char *text)
{
	return input(w, id,
		&(struct input_event){
			.type = EVENT_MESSAGE_CHUNK, .data = text, .data_len = strlen(text)});
}

int witness_think(struct witness *w, const char *id, const char *text)
{
	return input(w, id,
		&(struct input_event){
			.type = EVENT_THOUGHT_CHUNK, .data = text, .data_len = strlen(text)});
}

int witness_put(struct witness *w, const char *id, const char *type, const char *data)
{
	return input(w, id,
		&(struct input_event){.type = event_type_of(type, strlen(type)),
			.type_name = type,
			.type_len = strlen(type),
			.data = data,
			.data_len = strlen(data)});
}

int witness_prompt(struct witness *w, const char *id, const char *prompt_id)
{
	struct life *life;
	int r = find_life(w, id, &life);
	if (r < 0 || session_is_deleted(life->session)) {
		return r < 0 ? r : -ENOENT;
	}
	size_t sent = witness_now(w);
	uint64_t seq;
	bool duplicate;
	r = session_prompt(
		life->session, "please", 6, prompt_id, AUTHOR("client"), &seq, &duplicate);
	if (r == 0 && duplicate) {
		return 0;
	}
	r = note_outcome(life, sent, r);
	if (r == 0) {
		life->prompts =
			xrealloc(life->prompts, (life->prompt_count + 1) * sizeof(*life->prompts));
		struct witness_prompt *prompt = &life->prompts[life->prompt_count++];
		*prompt = (struct witness_prompt){.state = life->state_count - 1};
		snprintf(prompt->id, sizeof(prompt->id), "%s", prompt_id);
	}
	return r;
}

int witness_change_prompt(
	struct witness *w, const char *id, const char *prompt_id, const char *message)
{
	struct life *life;
	int r = find_life(w, id, &life);
	if (r < 0 || session_is_deleted(life->session)) {
		return r < 0 ? r : -ENOENT;
	}
	size_t sent = witness_now(w);
	struct prompt_view had;
	r = message ? session_edit_prompt(life->session, prompt_id, message, strlen(message), &had)
		    : session_remove_prompt(life->session, prompt_id, &had);
	bool changes_nothing = r == -ESRCH || (r == 0 && had.place == PROMPT_REMOVED);
	return changes_nothing ? r : note_outcome(life, sent, r);
}

int witness_delete(struct witness *w, const char *id)
{
	struct session *session = session_table_get(w->rig->table, id, strlen(id));
	struct life *life = session ? witness_life_of(w, session) : NULL;
	if (!life || session_is_deleted(session)) {
		return -ENOENT;
	}
	size_t sent = witness_now(w);
	int r = session_delete(session);
	if (r == 0) {
		life->delete_sent = sent;
	}
	return r;
}
