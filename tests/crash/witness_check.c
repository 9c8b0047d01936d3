/* Holding a recovered server against what the witness saw. */
#include "witness.h"

#include "point.h"
#include "reading.h"
#include "core/session/session_internal.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

struct check {
	const struct witness *witness;
	size_t cut;
	struct rig *rig;
	struct buffer *why;
	size_t refused_events; /* as damaged */
};

__attribute__((format(printf, 3, 4))) static void find_fault(
	struct check *check, const char *id, const char *fmt, ...)
{
	char text[300];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	buffer_printf(check->why, "session %s: %s; ", id, text);
}

/* --- logs --- */

void witness_read_file(const struct rig *rig, const char *id, const char *name, struct buffer *out)
{
	struct buffer path = {0};
	if (rig->read_file) {
		rig->read_file(id, name, out);
		return;
	}
	log_path(&path, rig->dir, id, name);
	file_read(path.data, out);
	buffer_finish(&path);
}

static void read_log(const struct rig *rig, const char *id, struct buffer *out)
{
	witness_read_file(rig, id, "events.jsonl", out);
}

/**
 * The seqs of a log's first and last line. UINT64_MAX if they are not all good and one by one; 0 if
 * there are none.
 */
static uint64_t last_line(const struct buffer *log, uint64_t *ret_first)
{
	uint64_t last = 0;
	*ret_first = 0;
	const char *end = log->data + log->len;
	const char *newline;
	for (const char *at = log->data; at < end; at = newline + 1) {
		struct event_view view;
		newline = memchr(at, '\n', (size_t)(end - at));
		if (!newline || event_parse_line(at, (size_t)(newline - at), &view) < 0 ||
			(last && view.seq != last + 1)) {
			return UINT64_MAX;
		}
		last = view.seq;
		*ret_first = *ret_first ? *ret_first : last;
	}
	return last;
}

/** Where the line of `seq` stands in what the witness has; its end if it has not that one. */
static size_t known_place(const struct life *life, uint64_t seq)
{
	const char *line = life->lines.data;
	if (seq > life->line_count) {
		return life->lines.len;
	}
	for (uint64_t i = 1; i < seq; i++) {
		line = strchr(line, '\n') + 1;
	}
	return (size_t)(line - life->lines.data);
}

/** Where files are damaged, an event is as it was, or it is refused. */
static void check_events(struct check *check, const struct life *life, struct session *session)
{
	struct buffer text = {0};
	const char *line = life->lines.data;
	uint64_t max_seq = session_channel(session)->max_seq;
	for (uint64_t seq = 1; seq <= max_seq && seq <= life->line_count; seq++) {
		size_t len = (size_t)(strchr(line, '\n') + 1 - line);
		buffer_clear(&text);
		int r = reading_page(check->rig, session, seq, seq, &text);
		bool same = r == 1 && text.len == len && memcmp(text.data, line, len) == 0;
		if (r == -EBADMSG) {
			check->refused_events++;
		} else if (!same) {
			find_fault(check, life->id, "event %llu is shown with other bytes (%d)",
				(unsigned long long)seq, r);
		}
		line += len;
	}
	buffer_finish(&text);
}

/** No more may be pruned than limits.keep_events allows; `first` is where the file begins. */
static void check_start(
	struct check *check, const struct life *life, struct session *session, uint64_t first)
{
	uint64_t keep = (uint64_t)check->witness->rig->limits.keep_events;
	uint64_t max_seq = session_channel(session)->max_seq;
	uint64_t first_seq = session_log_first_seq(session->log);
	uint64_t latest = keep && max_seq > keep ? max_seq - keep + 1 : 1;
	if (first_seq > latest || first > first_seq) {
		find_fault(check, life->id, "first_seq is %llu of %llu, its file begins with %llu",
			(unsigned long long)first_seq, (unsigned long long)max_seq,
			(unsigned long long)first);
	}
}

/** The events behind `last_known` may be others than those that the witness has. */
static void check_log(
	struct check *check, const struct life *life, struct session *session, uint64_t last_known)
{
	struct buffer log = {0};
	uint64_t first;
	uint64_t max_seq = session_channel(session)->max_seq;
	read_log(check->rig, life->id, &log);
	uint64_t last = last_line(&log, &first);
	size_t at = known_place(life, first);
	size_t end =
		last_known < life->line_count ? known_place(life, last_known + 1) : life->lines.len;
	size_t known = end < at ? 0 : log.len < end - at ? log.len : end - at;
	if (last != max_seq) {
		find_fault(check, life->id, "max_seq is %llu, its log has good lines to %lld",
			(unsigned long long)max_seq, (long long)last);
	} else if (last) {
		check_start(check, life, session, first);
	}
	if (known && memcmp(log.data, life->lines.data + at, known) != 0) {
		find_fault(check, life->id, "its log has other bytes");
	}
	buffer_finish(&log);
}

/* --- sessions --- */

static uint64_t shown_before(const struct life *life, size_t cut)
{
	uint64_t seq = life->line_count;
	while (seq && (life->shown[seq - 1] == NEVER || life->shown[seq - 1] > cut)) {
		seq--;
	}
	return seq;
}

/** The last state that was acknowledged before the cut; NEVER: not even its creation. */
static size_t acked_before(const struct life *life, size_t cut)
{
	size_t i = life->state_count;
	while (i && (life->states[i - 1].acked == NEVER || life->states[i - 1].acked > cut)) {
		i--;
	}
	return i ? i - 1 : NEVER;
}

/**
 * Whatever was refused may be there if the disk did not let it be undone. Before the refusal was
 * told, an input was on its way like any other.
 */
static bool may_be_left(const struct life *life, const struct witness_state *state, size_t cut)
{
	const struct witness *w = life->witness;
	return !state->is_refused || cut <= state->refused || w->is_helpless || state->is_in_doubt;
}

/** Its state is one that an input led to: acknowledged or later, and sent by then. */
static const struct witness_state *match_state(
	const struct life *life, size_t cut, struct session *session)
{
	size_t acked = acked_before(life, cut);
	uint64_t hash = witness_hash(session);
	for (size_t i = acked == NEVER ? 0 : acked; i < life->state_count; i++) {
		const struct witness_state *state = &life->states[i];
		if (state->hash == hash && state->sent <= cut && may_be_left(life, state, cut)) {
			return state;
		}
	}
	return NULL;
}

static size_t any_state(const struct life *life, struct session *session)
{
	uint64_t hash = witness_hash(session);
	for (size_t i = 0; i < life->state_count; i++) {
		if (life->states[i].hash == hash) {
			return i;
		}
	}
	return NEVER;
}

static void check_keys(
	struct check *check, const struct life *life, struct session *session, size_t last)
{
	size_t state;
	const char *wrong = witness_check_keys(life, check->cut, last, check->rig, session, &state);
	if (wrong) {
		find_fault(check, life->id, "the key of input %zu of %zu %s", state, last, wrong);
	}
}

static void check_state(struct check *check, const struct life *life, struct session *session,
	const struct witness_state *state)
{
	uint64_t max_seq = session_channel(session)->max_seq;
	if (!state && check->witness->is_killed && any_state(life, session) == NEVER) {
		return; /* what a timer decided came back with a batch that is in doubt */
	}
	if (!state) {
		find_fault(check, life->id,
			"max_seq %llu, its state is that after input %zd; %zd of %zu were acknowledged",
			(unsigned long long)max_seq, (ssize_t)any_state(life, session),
			(ssize_t)acked_before(life, check->cut), life->state_count);
	} else if (state->emitted_seq != max_seq) {
		find_fault(check, life->id, "max_seq is %llu, and should be %llu",
			(unsigned long long)max_seq, (unsigned long long)state->emitted_seq);
	} else if (!check->witness->is_rotten) {
		check_keys(check, life, session, (size_t)(state - life->states));
	}
}

static void check_life(struct check *check, const struct life *life, struct session *session)
{
	const struct witness *w = check->witness;
	uint64_t max_seq = session_channel(session)->max_seq;
	uint64_t shown = shown_before(life, check->cut);
	bool is_in_doubt = life->delete_sent == NEVER && life->states[0].is_in_doubt;
	if (life->delete_acked != NEVER && life->delete_acked <= check->cut && !is_in_doubt) {
		if (!w->may_end_early) {
			find_fault(check, life->id, "%s, and is back",
				life->delete_sent == NEVER ? "its creation was refused"
							   : "it was deleted");
		}
		return;
	}
	if (max_seq < shown) {
		find_fault(check, life->id, "event %llu was shown, and max_seq is %llu",
			(unsigned long long)shown, (unsigned long long)max_seq);
	}
	const struct witness_state *state = match_state(life, check->cut, session);
	if (!w->may_end_early) {
		check_state(check, life, session, state);
	}
	if (strcmp(session_facts(session->log)->title, life->id) != 0 ||
		session_log_created_at(session->log) != life->created_at) {
		find_fault(check, life->id, "its title or its birthday is another");
	}
	if (w->is_rotten) {
		check_events(check, life, session);
	} else {
		/*
		 * The power went before a refusal was told: what the refused input gave is there,
		 * and in the life that went on others have its numbers.
		 */
		check_log(check, life, session, state && state->is_refused ? shown : UINT64_MAX);
	}
}

static void check_session(struct session *session, void *arg)
{
	struct check *check = arg;
	uint64_t epoch = session_log_epoch(session->log);
	for (size_t i = 0; i < check->witness->life_count; i++) {
		const struct life *life = check->witness->lives[i];
		if (life->epoch == epoch && strcmp(life->id, session_id(session)) == 0) {
			check_life(check, life, session);
			return;
		}
	}
	find_fault(check, session_id(session), "nobody made it");
}

static struct session *session_of(const struct rig *rig, const struct life *life)
{
	struct session *session = session_table_get(rig->table, life->id, strlen(life->id));
	return session && session_log_epoch(session->log) == life->epoch ? session : NULL;
}

/** Whether there is a folder of it in set-aside/. */
static bool is_aside(const struct rig *rig, const char *id)
{
	struct buffer path = {0};
	bool found = false;
	size_t len = strlen(id);
	buffer_printf(&path, "%s/set-aside", rig->dir);
	DIR *dir = opendir(buffer_cstr(&path));
	struct dirent *entry;
	while (dir && (entry = readdir(dir))) {
		found = found ||
			(strncmp(entry->d_name, id, len) == 0 && entry->d_name[len] == '.');
	}
	if (dir) {
		closedir(dir);
	}
	buffer_finish(&path);
	return found;
}

/** Whether it must be there: its creation was acknowledged, and nobody asked for its deletion. */
static bool must_be_there(const struct life *life, size_t cut)
{
	bool may_be_gone = life->delete_sent != NEVER && life->delete_sent <= cut;
	return acked_before(life, cut) != NEVER && !may_be_gone;
}

/** Nothing may be missing, and nothing set aside: a cut damages no session. */
static void check_all_there(struct check *check)
{
	const struct witness *w = check->witness;
	for (size_t i = 0; i < w->life_count; i++) {
		const struct life *life = w->lives[i];
		bool aside = is_aside(check->rig, life->id);
		if (aside && !w->is_rotten && must_be_there(life, check->cut)) {
			find_fault(check, life->id, "it was set aside");
		}
		if (must_be_there(life, check->cut) && !session_of(check->rig, life) &&
			!w->may_miss && !w->may_end_early && !(aside && w->is_rotten)) {
			find_fault(check, life->id, "it is gone");
		}
	}
}

/** The later one of a moment and a time, unless that lies behind the cut. */
static size_t later(size_t moment, size_t time, size_t cut)
{
	return time != NEVER && time <= cut && time > moment ? time : moment;
}

size_t witness_moment(const struct witness *w, size_t cut)
{
	size_t moment = 0;
	for (size_t i = 0; i < w->life_count; i++) {
		const struct life *life = w->lives[i];
		moment = later(moment, life->delete_sent, cut);
		moment = later(moment, life->delete_acked, cut);
		for (uint64_t k = 0; k < life->line_count; k++) {
			moment = later(moment, life->shown[k], cut);
		}
		for (size_t k = 0; k < life->state_count; k++) {
			const struct witness_state *state = &life->states[k];
			moment = later(moment, state->sent, cut);
			moment = later(moment, state->acked, cut);
			/* An input is as good as any other up to the cut at its refusal. */
			moment =
				state->is_refused ? later(moment, state->refused + 1, cut) : moment;
		}
	}
	return moment;
}

size_t witness_missing(const struct witness *w, const struct rig *recovered)
{
	size_t count = 0;
	for (size_t i = 0; i < w->life_count; i++) {
		count += must_be_there(w->lives[i], 0) && !session_of(recovered, w->lives[i]);
	}
	return count;
}

struct names {
	char *ids[64];
	size_t count;
};

static void take_name(const struct session_object *object, void *arg)
{
	struct names *names = arg;
	assert_true(names->count < 64);
	names->ids[names->count++] = xstrdup(object->id);
}

/** Idle sessions come into memory when somebody asks for them. */
static void wake_all(struct session_table *table)
{
	struct names names = {0};
	session_table_each_object(table, take_name, &names);
	while (names.count) {
		char *id = names.ids[--names.count];
		session_table_get(table, id, strlen(id));
		free(id);
	}
}

bool witness_check(const struct witness *w, size_t cut, struct rig *recovered, struct buffer *why)
{
	struct check check = {.witness = w, .cut = cut, .rig = recovered, .why = why};
	wake_all(recovered->table);
	session_table_each(recovered->table, check_session, &check);
	check_all_there(&check);
	return why->len == 0;
}

/* --- going on --- */

/** What must be the same after one more start. */
struct kept {
	uint64_t hash;
	uint64_t max_seq;
	struct buffer log;
};

static void keep(const struct rig *rig, const struct life *life, struct kept *ret)
{
	struct session *session = session_of(rig, life);
	*ret = (struct kept){0};
	if (session) {
		ret->hash = witness_hash(session);
		ret->max_seq = session_channel(session)->max_seq;
		read_log(rig, life->id, &ret->log);
	}
}

static void check_prompts(struct check *check, const struct life *life, struct session *session)
{
	for (size_t i = 0; i < life->prompt_count; i++) {
		const struct witness_prompt *prompt = &life->prompts[i];
		size_t acked = life->states[prompt->state].acked;
		uint64_t seq;
		bool duplicate = true;
		if (acked != NEVER && acked <= check->cut) {
			session_prompt(session, "again", 5, prompt->id, AUTHOR("client"), &seq,
				&duplicate);
		}
		if (!duplicate) {
			find_fault(check, life->id, "prompt %s was taken twice", prompt->id);
		}
	}
}

struct ack {
	struct durable_wait wait;
	int status;
};

static void handle_ack(struct durable_wait *wait, int status)
{
	((struct ack *)wait)->status = status;
}

static void put_more(struct check *check, const struct life *life)
{
	struct session *session = session_of(check->rig, life);
	struct ack ack = {.wait = {.done = handle_ack}, .status = 1};
	struct kept before;
	if (!session) {
		return;
	}
	if (!check->witness->may_end_early) {
		check_prompts(check, life, session);
	}
	keep(check->rig, life, &before);
	rig_put(session, "turn_end", "{}");
	rig_put(session, "x-after", "{}");
	rig_say(session, "- text that\n- stays open\n");
	session_wait_durable(session, &ack.wait);
	rig_settle(check->rig);
	struct kept after;
	keep(check->rig, life, &after);
	uint64_t first;
	bool is_contiguous =
		check->witness->is_rotten || last_line(&after.log, &first) == after.max_seq;
	if (ack.status || after.max_seq <= before.max_seq || !is_contiguous ||
		after.log.len < before.log.len ||
		(before.log.len && memcmp(after.log.data, before.log.data, before.log.len) != 0)) {
		find_fault(check, life->id, "it does not go on as it was");
	}
	buffer_finish(&before.log);
	buffer_finish(&after.log);
}

bool witness_goes_on(const struct witness *w, size_t cut, struct rig *recovered, struct buffer *why)
{
	struct check check = {.witness = w, .cut = cut, .rig = recovered, .why = why};
	struct kept *kept = xcalloc(w->life_count, sizeof(*kept));
	for (size_t i = 0; i < w->life_count; i++) {
		put_more(&check, w->lives[i]);
	}
	for (size_t i = 0; i < w->life_count; i++) {
		keep(recovered, w->lives[i], &kept[i]);
	}
	rig_close(recovered);
	if (rig_open(recovered) < 0) {
		find_fault(&check, "?", "it does not open again: %s",
			recovered->why ? recovered->why : "");
	}
	for (size_t i = 0; recovered->table && i < w->life_count; i++) {
		struct kept again;
		keep(recovered, w->lives[i], &again);
		if (again.hash != kept[i].hash || again.max_seq != kept[i].max_seq ||
			again.log.len != kept[i].log.len ||
			(again.log.len &&
				memcmp(again.log.data, kept[i].log.data, again.log.len) != 0)) {
			find_fault(&check, w->lives[i]->id, "it is another after one more start");
		}
		buffer_finish(&again.log);
	}
	for (size_t i = 0; i < w->life_count; i++) {
		buffer_finish(&kept[i].log);
	}
	free(kept);
	return why->len == 0;
}
