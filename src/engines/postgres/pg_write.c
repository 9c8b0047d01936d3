/* The steps of the writer's thread: commits a group as one transaction, in one round trip. */
#include "pg.h"
#include "pg_nodes.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* New sessions. If the id is taken by now, no row is inserted, and the session is fenced. */
static const char create_sql[] =
	"INSERT INTO holdfast_session"
	" (sid, id, epoch, fence, owner, created_at, created, last_record)"
	" SELECT c.sid, c.id, c.epoch, c.fence, $7, c.created_at, c.created, 0"
	" FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])"
	" AS c(sid, id, epoch, fence, created_at, created)"
	" ON CONFLICT (id) DO NOTHING";

/* Everything else, for the sessions whose fence and last record are as this server knows them. */
static const char append_sql[] =
	"WITH won AS ("
	"UPDATE holdfast_session AS s"
	" SET last_record = w.last, metadata = coalesce(w.metadata, s.metadata)"
	" FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])"
	" WITH ORDINALITY AS w(sid, fence, after, last, metadata, place)"
	" WHERE s.sid = w.sid AND s.fence = w.fence AND s.last_record = w.after"
	" RETURNING s.sid, w.place"
	"), records AS ("
	"INSERT INTO holdfast_record (sid, n, kind, ts, data) SELECT r.sid, r.n, r.kind, r.ts, r.data"
	" FROM unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[])"
	" AS r(sid, n, kind, ts, data) JOIN won USING (sid)"
	"), events AS ("
	"INSERT INTO holdfast_event (sid, seq, ts, line) SELECT e.sid, e.seq, e.ts, e.line"
	" FROM unnest($11::bigint[], $12::bigint[], $13::bigint[], $14::text[])"
	" AS e(sid, seq, ts, line) JOIN won USING (sid)"
	"), names AS ("
	"INSERT INTO holdfast_name (sid, at, lines) SELECT n.sid, n.at, n.lines"
	" FROM unnest($15::bigint[], $16::bigint[], $17::text[]) AS n(sid, at, lines) JOIN won USING (sid)"
	" ON CONFLICT (sid, at) DO UPDATE SET lines = excluded.lines"
	"), trimmed AS ("
	"DELETE FROM holdfast_record AS r"
	" USING unnest($18::bigint[], $19::bigint[]) AS t(sid, before), won"
	" WHERE r.sid = t.sid AND r.n < t.before AND won.sid = t.sid"
	") SELECT place FROM won";

/* Rows of pruned events, for the sessions whose new metadata append_sql has just saved. */
static const char prune_sql[] =
	"DELETE FROM holdfast_event AS e"
	" USING unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])"
	" AS p(sid, fence, last, first, before), holdfast_session AS s"
	" WHERE s.sid = p.sid AND s.fence = p.fence AND s.last_record = p.last"
	" AND e.sid = p.sid AND e.seq >= p.first AND e.seq < p.before";

static const char delete_sql[] =
	"WITH gone AS ("
	"DELETE FROM holdfast_session AS s"
	" USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS g(sid, fence, last)"
	" WHERE s.sid = g.sid AND s.fence = g.fence AND s.last_record = g.last RETURNING s.sid"
	") INSERT INTO holdfast_garbage (sid) SELECT sid FROM gone";

static const char lock_shown_sql[] = PG_SHOWN_LOCK;

/* Tells other nodes of deletions. show() in pg_shelf.c has the same lock, so cannot undo this. */
static const char unshow_sql[] =
	"UPDATE holdfast_shown AS o SET object = NULL, n = nextval('holdfast_shown_n'), at = now()"
	" WHERE o.sid = ANY($1) AND NOT EXISTS (SELECT FROM holdfast_session AS s WHERE s.sid = o.sid)";

/*
 * Waits until the old connection is done with these rows, or makes void what it will do. As the
 * answer to this statement may be lost as well, each try raises the fence to another number. So an
 * earlier try that comes late changes nothing, and one that did succeed is recognized as ours.
 */
static const char settle_sql[] =
	"UPDATE holdfast_session AS s SET fence = w.target"
	" FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS w(sid, target, place)"
	" WHERE s.sid = w.sid AND s.owner = $3 AND s.fence < w.target"
	" RETURNING w.place, s.last_record";

/* Which of the sessions exist, and belong to another server. */
static const char others_sql[] =
	"SELECT w.place FROM unnest($1::bigint[]) WITH ORDINALITY AS w(sid, place)"
	" JOIN holdfast_session AS s USING (sid) WHERE s.owner <> $2";

/*
 * Deletions that have happened were only read, and a read does not wait for the standby. The commit
 * of this row, which comes after the deletion, has reached the standby only if that has, too.
 */
static const char confirm_sql[] =
	"INSERT INTO holdfast_garbage (sid) SELECT g.sid FROM unnest($1::bigint[]) AS g(sid)"
	" WHERE NOT EXISTS (SELECT FROM holdfast_session AS s WHERE s.sid = g.sid)"
	" ON CONFLICT (sid) DO UPDATE SET sid = excluded.sid";

static struct pg_part *part_in(struct list *link)
{
	return list_entry(link, struct pg_part, part.link);
}

static bool is_open(const struct pg_part *part)
{
	return !part->is_there && !part->is_fenced;
}

/** The parts whose outcome is open, in their order; the caller frees the array. */
static struct pg_part **take_open(struct pg *pg, size_t *ret_count)
{
	size_t count = 0;
	size_t room = 16;
	struct pg_part **parts = xcalloc(room, sizeof(*parts));
	list_for_each(link, &pg->flight.parts) {
		if (is_open(part_in(link))) {
			if (count == room) {
				room *= 2;
				parts = xrealloc(parts, room * sizeof(*parts));
			}
			parts[count++] = part_in(link);
		}
	}
	*ret_count = count;
	return parts;
}

/** The part that a row is about: the column has its place, from 1 on. NULL if there is none. */
static struct pg_part *part_of_row(
	struct pg_part **parts, size_t count, const PGresult *result, int row, int column)
{
	int64_t place = pg_get_bigint(result, row, column);
	return place > 0 && (size_t)place <= count ? parts[place - 1] : NULL;
}

/* --- the statements --- */

static const struct pg_record *creation_of(const struct pg_part *part)
{
	return list_entry(part->records.next, struct pg_record, link);
}

static bool put_creations(
	struct pg_part **parts, size_t count, const char *owner, struct pg_params *params)
{
	int sid = pg_add_array(params, PG_BIGINT_ARRAY);
	int id = pg_add_array(params, PG_TEXT_ARRAY);
	int epoch = pg_add_array(params, PG_BIGINT_ARRAY);
	int fence = pg_add_array(params, PG_BIGINT_ARRAY);
	int created_at = pg_add_array(params, PG_BIGINT_ARRAY);
	int created = pg_add_array(params, PG_BYTEA_ARRAY);
	bool found = false;
	for (size_t i = 0; i < count; i++) {
		const struct pg_part *part = parts[i];
		if (part->is_new) {
			const struct pg_record *record = creation_of(part);
			pg_put_bigint(params, sid, part->sid);
			pg_put_bytes(params, id, part->id, strlen(part->id));
			pg_put_bigint(params, epoch, (int64_t)part->epoch);
			pg_put_bigint(params, fence, (int64_t)part->fence_now);
			pg_put_bigint(params, created_at, record->ts);
			pg_put_bytes(params, created, record->data, record->len);
			found = true;
		}
	}
	pg_add_text(params, owner, strlen(owner));
	return found;
}

static bool put_deletions(struct pg_part **parts, size_t count, struct pg_params *params)
{
	int sid = pg_add_array(params, PG_BIGINT_ARRAY);
	int fence = pg_add_array(params, PG_BIGINT_ARRAY);
	int last = pg_add_array(params, PG_BIGINT_ARRAY);
	bool found = false;
	for (size_t i = 0; i < count; i++) {
		const struct pg_part *part = parts[i];
		if (part->is_deletion) {
			pg_put_bigint(params, sid, part->sid);
			pg_put_bigint(params, fence, (int64_t)part->fence_now);
			pg_put_bigint(params, last, (int64_t)part->last);
			found = true;
		}
	}
	return found;
}

static void put_deleted(struct pg_part **parts, size_t count, struct pg_params *params)
{
	int sid = pg_add_array(params, PG_BIGINT_ARRAY);
	for (size_t i = 0; i < count; i++) {
		if (parts[i]->is_deletion) {
			pg_put_bigint(params, sid, parts[i]->sid);
		}
	}
}

static bool put_pruned(struct pg_part **parts, size_t count, struct pg_params *params)
{
	int sid = pg_add_array(params, PG_BIGINT_ARRAY);
	int fence = pg_add_array(params, PG_BIGINT_ARRAY);
	int last = pg_add_array(params, PG_BIGINT_ARRAY);
	int first = pg_add_array(params, PG_BIGINT_ARRAY);
	int before = pg_add_array(params, PG_BIGINT_ARRAY);
	bool found = false;
	for (size_t i = 0; i < count; i++) {
		const struct pg_part *part = parts[i];
		if (part->prune_before) {
			pg_put_bigint(params, sid, part->sid);
			pg_put_bigint(params, fence, (int64_t)part->fence_now);
			pg_put_bigint(params, last, (int64_t)part->last);
			pg_put_bigint(params, first, (int64_t)part->prune_from);
			pg_put_bigint(params, before, (int64_t)part->prune_before);
			found = true;
		}
	}
	return found;
}

/* Indexes of the parameters of append_sql. */
struct append_places {
	int sid, fence, after, last, metadata;
	int record_sid, record_n, record_kind, record_ts, record_data;
	int event_sid, event_seq, event_ts, event_line;
	int names_sid, names_at, names_lines;
	int trim_sid, trim_before;
};

static struct append_places begin_append(struct pg_params *params)
{
	struct append_places at;
	at.sid = pg_add_array(params, PG_BIGINT_ARRAY);
	at.fence = pg_add_array(params, PG_BIGINT_ARRAY);
	at.after = pg_add_array(params, PG_BIGINT_ARRAY);
	at.last = pg_add_array(params, PG_BIGINT_ARRAY);
	at.metadata = pg_add_array(params, PG_TEXT_ARRAY);
	at.record_sid = pg_add_array(params, PG_BIGINT_ARRAY);
	at.record_n = pg_add_array(params, PG_BIGINT_ARRAY);
	at.record_kind = pg_add_array(params, PG_BIGINT_ARRAY);
	at.record_ts = pg_add_array(params, PG_BIGINT_ARRAY);
	at.record_data = pg_add_array(params, PG_BYTEA_ARRAY);
	at.event_sid = pg_add_array(params, PG_BIGINT_ARRAY);
	at.event_seq = pg_add_array(params, PG_BIGINT_ARRAY);
	at.event_ts = pg_add_array(params, PG_BIGINT_ARRAY);
	at.event_line = pg_add_array(params, PG_TEXT_ARRAY);
	at.names_sid = pg_add_array(params, PG_BIGINT_ARRAY);
	at.names_at = pg_add_array(params, PG_BIGINT_ARRAY);
	at.names_lines = pg_add_array(params, PG_TEXT_ARRAY);
	at.trim_sid = pg_add_array(params, PG_BIGINT_ARRAY);
	at.trim_before = pg_add_array(params, PG_BIGINT_ARRAY);
	return at;
}

static void put_records(
	struct pg_params *params, const struct append_places *at, const struct pg_part *part)
{
	list_for_each(link, &part->records) {
		const struct pg_record *record = list_entry(link, struct pg_record, link);
		if (record->kind != RECORD_CREATE && record->kind != RECORD_DELETE) {
			pg_put_bigint(params, at->record_sid, part->sid);
			pg_put_bigint(params, at->record_n, (int64_t)record->number);
			pg_put_bigint(params, at->record_kind, record->kind);
			pg_put_bigint(params, at->record_ts, record->ts);
			pg_put_bytes(params, at->record_data, record->data, record->len);
		}
	}
}

static void put_events(
	struct pg_params *params, const struct append_places *at, const struct pg_part *part)
{
	struct buffer line = {0};
	for (size_t i = 0; i < part->part.count; i++) {
		const struct log_coming *coming = &part->part.events[i];
		buffer_clear(&line);
		event_append_line(coming->event, &line);
		pg_put_bigint(params, at->event_sid, part->sid);
		pg_put_bigint(params, at->event_seq, (int64_t)coming->event->seq);
		pg_put_bigint(params, at->event_ts, coming->ts);
		pg_put_bytes(params, at->event_line, line.data, line.len - 1);
	}
	buffer_finish(&line);
}

static void put_save(
	struct pg_params *params, const struct append_places *at, const struct pg_part *part)
{
	if (part->names.len) {
		pg_put_bigint(params, at->names_sid, part->sid);
		pg_put_bigint(params, at->names_at, (int64_t)part->names_at);
		pg_put_bytes(params, at->names_lines, part->names.data, part->names.len);
	}
	if (part->trim_before) {
		pg_put_bigint(params, at->trim_sid, part->sid);
		pg_put_bigint(params, at->trim_before, (int64_t)part->trim_before);
	}
}

static void put_appends(struct pg_part **parts, size_t count, struct pg_params *params)
{
	struct append_places at = begin_append(params);
	for (size_t i = 0; i < count; i++) {
		const struct pg_part *part = parts[i];
		pg_put_bigint(params, at.sid, part->sid);
		pg_put_bigint(params, at.fence, (int64_t)part->fence_now);
		pg_put_bigint(params, at.after, (int64_t)part->after);
		pg_put_bigint(params, at.last, (int64_t)part->last);
		if (part->has_save) {
			pg_put_bytes(params, at.metadata, part->metadata.data, part->metadata.len);
			put_save(params, &at, part);
		} else {
			pg_put_null(params, at.metadata);
		}
		put_records(params, &at, part);
		put_events(params, &at, part);
	}
}

/* --- trying to commit --- */

/**
 * Marks the parts that append_sql has written as committed. A new session whose id is taken is
 * fenced, unless an earlier try may have created it. The others stay open: another server may have
 * them, or the database may have become an older copy. Returns whether any part is open.
 */
static bool take_winners(struct pg_part **parts, size_t count, const PGresult *won)
{
	bool is_in_doubt = false;
	for (size_t i = 0; i < count; i++) {
		parts[i]->is_fenced = parts[i]->is_new && !parts[i]->was_tried_again;
	}
	for (int row = 0; row < PQntuples(won); row++) {
		struct pg_part *part = part_of_row(parts, count, won, row, 0);
		if (part) {
			part->is_fenced = false;
			part->is_there = true;
		}
	}
	for (size_t i = 0; i < count; i++) {
		is_in_doubt = is_in_doubt || is_open(parts[i]);
	}
	return is_in_doubt;
}

#define STATEMENTS_MAX 6

/** Returns 1 if the outcome is in doubt: of all parts after a warning, else of those left open. */
static int try_group(struct pg *pg, char **ret_why)
{
	struct pg_params params[STATEMENTS_MAX] = {0};
	struct pg_statement statements[STATEMENTS_MAX];
	size_t count = 0;
	size_t part_count;
	struct pg_part **parts = take_open(pg, &part_count);
	if (put_creations(parts, part_count, pg->flight.owner, &params[0])) {
		statements[count++] = (struct pg_statement){0, create_sql, &params[0], NULL};
	}
	put_appends(parts, part_count, &params[1]);
	size_t append = count;
	statements[count++] = (struct pg_statement){1, append_sql, &params[1], NULL};
	if (put_pruned(parts, part_count, &params[5])) {
		statements[count++] = (struct pg_statement){5, prune_sql, &params[5], NULL};
	}
	if (put_deletions(parts, part_count, &params[2])) {
		statements[count++] = (struct pg_statement){2, delete_sql, &params[2], NULL};
		put_deleted(parts, part_count, &params[4]);
		statements[count++] = (struct pg_statement){3, lock_shown_sql, &params[3], NULL};
		statements[count++] = (struct pg_statement){4, unshow_sql, &params[4], NULL};
	}
	int r = pg_run_group(&pg->conn, statements, count, ret_why);
	if (r == 0 && pg->conn.has_warned) {
		r = 1;
	} else if (r == 0) {
		r = take_winners(parts, part_count, statements[append].result);
	}
	for (size_t i = 0; i < STATEMENTS_MAX; i++) {
		if (i < count) {
			PQclear(statements[i].result);
		}
		pg_params_finish(&params[i]);
	}
	free(parts);
	return r;
}

/* --- settling what is in doubt --- */

/** The session is ours: its fence has been raised, and its last record has this number. */
static void settle_part(struct pg_part *part, uint64_t last_record)
{
	part->is_there = part->last > part->after && last_record == part->last;
	part->is_behind = last_record < part->after;
	part->is_new = false; /* its row exists */
	part->is_fenced = false;
}

/**
 * The session's fence was not raised, so its row does not exist or is not ours. A new session may
 * still be committed by the old connection: another try waits for that. A deleted one is gone,
 * unless another server turns out to have it.
 */
static void give_up_part(struct pg_part *part)
{
	part->is_there = part->is_deletion;
	part->is_fenced = !part->is_deletion && (!part->is_new || part->was_tried_again);
	part->was_tried_again = true;
}

static PGresult *raise_fences(struct pg *pg, struct pg_part **parts, size_t count, char **ret_why)
{
	struct pg_params params = {0};
	int sid = pg_add_array(&params, PG_BIGINT_ARRAY);
	int target = pg_add_array(&params, PG_BIGINT_ARRAY);
	for (size_t i = 0; i < count; i++) {
		pg_put_bigint(&params, sid, parts[i]->sid);
		pg_put_bigint(&params, target, (int64_t)(parts[i]->fence_now + ++parts[i]->raises));
	}
	pg_add_text(&params, pg->flight.owner, strlen(pg->flight.owner));
	PGresult *raised = pg_run(&pg->conn, settle_sql, &params, ret_why);
	pg_params_finish(&params);
	return raised;
}

static PGresult *find_others(struct pg *pg, struct pg_part **parts, size_t count, char **ret_why)
{
	struct pg_params params = {0};
	int sid = pg_add_array(&params, PG_BIGINT_ARRAY);
	for (size_t i = 0; i < count; i++) {
		pg_put_bigint(&params, sid, parts[i]->sid);
	}
	pg_add_text(&params, pg->flight.owner, strlen(pg->flight.owner));
	PGresult *others = pg_run(&pg->conn, others_sql, &params, ret_why);
	pg_params_finish(&params);
	return others;
}

/** Returns NULL if it is unknown whether the deletions among them are durable. */
static PGresult *confirm_deletions(
	struct pg *pg, struct pg_part **parts, size_t count, char **ret_why)
{
	struct pg_params params = {0};
	put_deleted(parts, count, &params);
	PGresult *confirmed = pg_run(&pg->conn, confirm_sql, &params, ret_why);
	pg_params_finish(&params);
	return confirmed;
}

static void judge(
	struct pg_part **parts, size_t count, const PGresult *raised, const PGresult *others)
{
	for (size_t i = 0; i < count; i++) {
		give_up_part(parts[i]);
	}
	for (int row = 0; row < PQntuples(raised); row++) {
		struct pg_part *part = part_of_row(parts, count, raised, row, 0);
		if (part) {
			settle_part(part, (uint64_t)pg_get_bigint(raised, row, 1));
		}
	}
	for (int row = 0; row < PQntuples(others); row++) {
		struct pg_part *part = part_of_row(parts, count, others, row, 0);
		if (part) {
			part->is_there = false;
			part->is_fenced = true;
		}
	}
}

/** Notes the fences that are known to have been raised. */
static void note_fences(struct pg_part **parts, size_t count, const PGresult *raised)
{
	for (int row = 0; row < PQntuples(raised); row++) {
		struct pg_part *part = part_of_row(parts, count, raised, row, 0);
		if (part) {
			part->fence_now += part->raises;
			part->raises = 0;
		}
	}
}

/** -EAGAIN: after a warning, the fences may not have reached the standby; raise them again. */
static int settle(struct pg *pg, char **ret_why)
{
	size_t count;
	struct pg_part **parts = take_open(pg, &count);
	PGresult *raised = raise_fences(pg, parts, count, ret_why);
	PGresult *others = raised ? find_others(pg, parts, count, ret_why) : NULL;
	PGresult *confirmed = others ? confirm_deletions(pg, parts, count, ret_why) : NULL;
	int r = !confirmed ? -EIO : pg->conn.has_warned ? -EAGAIN : 0;
	note_fences(parts, count, raised);
	if (r == 0) {
		judge(parts, count, raised, others);
	}
	free(parts);
	PQclear(raised);
	PQclear(others);
	PQclear(confirmed);
	return r;
}

/**
 * If the database lacks committed records, it is an older copy. Once the operator has accepted
 * that, lets go of the open sessions and returns 0; until then returns a negative errno.
 */
static int give_up_older(struct pg *pg, char **ret_why)
{
	bool is_behind = false;
	list_for_each(link, &pg->flight.parts) {
		is_behind = is_behind || (is_open(part_in(link)) && part_in(link)->is_behind);
	}
	int r = is_behind ? pg_place_is_behind(pg, &pg->conn, ret_why) : 0;
	list_for_each(link, &pg->flight.parts) {
		struct pg_part *part = part_in(link);
		part->is_fenced = part->is_fenced || (is_behind && r == 0 && !part->is_there);
	}
	return r;
}

static bool is_settled(struct pg *pg)
{
	list_for_each(link, &pg->flight.parts) {
		if (is_open(part_in(link))) {
			return false;
		}
	}
	return true;
}

int pg_write_step(struct pg *pg, char **ret_why)
{
	if (!pg_is_alive(&pg->conn)) {
		pg_writer_disconnect(pg);
		int r = pg_writer_connect(pg, ret_why);
		r = r < 0 ? r : pg_place_check(pg, &pg->conn, ret_why);
		if (r < 0) {
			pg_writer_disconnect(pg);
		}
		return r == -ESTALE ? r : r < 0 ? -ENOTCONN : 1;
	}
	if (pg->is_in_doubt) {
		int r = settle(pg, ret_why);
		r = r < 0 ? r : give_up_older(pg, ret_why);
		if (r == 0) {
			pg->is_in_doubt = false;
			return is_settled(pg) ? 0 : 1;
		}
		pg_writer_disconnect(pg);
		return r == -ESTALE ? r : -ENOTCONN;
	}
	int r = try_group(pg, ret_why);
	if (r == -ENOTCONN || r == 1) {
		pg->is_in_doubt = true;
		pg_writer_disconnect(pg);
		return 1;
	}
	return r == -EAGAIN ? 1 : r;
}
