/*
 * Pages of events of a database in which rows are damaged or missing: what gaps.c is for the files of
 * a data directory.
 */
#include "pg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/**
 * Finds the nearest event before or behind `seq` that can be read. *ret_seq is 0 if there is none.
 * Rows that are missing cost nothing; each damaged one costs a query.
 */
static int find_good(const struct pg_apart *apart, uint64_t seq, bool is_behind, uint64_t *ret_seq,
	int64_t *ret_ts)
{
	const char *sql = is_behind ? "SELECT seq, line FROM holdfast_event"
				      " WHERE sid = $1 AND seq > $2 ORDER BY seq LIMIT 1"
				    : "SELECT seq, line FROM holdfast_event"
				      " WHERE sid = $1 AND seq < $2 ORDER BY seq DESC LIMIT 1";
	int r = 0;
	for (*ret_seq = 0; r == 0 && !*ret_seq;) {
		struct pg_params params = {0};
		struct event_view view;
		pg_add_bigint(&params, apart->sid);
		pg_add_bigint(&params, (int64_t)seq);
		PGresult *rows = pg_query(apart->pg, sql, &params);
		if (!PQntuples(rows)) {
			r = rows ? 1 : -EIO;
		} else {
			seq = (uint64_t)pg_get_bigint(rows, 0, 0);
			bool is_good = event_parse_line(PQgetvalue(rows, 0, 1),
					       (size_t)PQgetlength(rows, 0, 1), &view) == 0 &&
				       view.seq == seq;
			*ret_seq = is_good ? seq : 0;
			*ret_ts = is_good ? view.ts : 0;
		}
		PQclear(rows);
		pg_params_finish(&params);
	}
	return r < 0 ? r : 0;
}

/** Finds the whole gap around an event that cannot be read; it ends with the page at the latest. */
static int find_gap(
	const struct pg_apart *apart, const struct log_read *read, uint64_t seq, struct gap *ret)
{
	uint64_t before;
	uint64_t behind;
	int64_t ts_before = 0;
	int64_t ts_behind = 0;
	int r = find_good(apart, seq, false, &before, &ts_before);
	r = r < 0 ? r : find_good(apart, seq, true, &behind, &ts_behind);
	if (r == 0) {
		*ret = (struct gap){.from = before ? before + 1 : apart->first_seq,
			.to = behind ? behind - 1 : read->page.to,
			.ts = before ? ts_before : ts_behind};
	}
	return r;
}

/** Takes the event from a row, or makes a gap in its place; -EBADMSG if the page wants no gaps. */
static int take_or_stand_in(const struct pg_apart *apart, const struct log_read *read, int row,
	uint64_t seq, struct gap *gap, struct event **ret)
{
	int r = 0;
	if (row >= 0 && event_from_line(PQgetvalue(apart->rows, row, 1),
				(size_t)PQgetlength(apart->rows, row, 1), ret) == 0) {
		if ((*ret)->seq == seq) {
			return 0;
		}
		event_unref(*ret);
	}
	*ret = NULL;
	if (!gap->from || seq < gap->from || seq > gap->to) {
		r = find_gap(apart, read, seq, gap);
	}
	if (r == 0 && !read->page.gaps) {
		return -EBADMSG;
	}
	*ret = r < 0 ? NULL : event_create_gap(seq, gap->from, gap->to, gap->ts);
	return r;
}

int pg_read_apart(const struct pg_apart *apart, struct log_read *read, struct gap *ret_gap)
{
	bool is_backward = read->page.is_fixed_at_end;
	int count = PQntuples(apart->rows);
	bool is_cut = count && count < pg_get_bigint(apart->rows, 0, 2);
	struct event **events = xcalloc(read->count, sizeof(struct event *));
	size_t got = 0;
	int used = 0; /* rows */
	int r = 0;
	log_read_drop(read);
	read->bytes = 0;
	while (r == 0 && got < read->count && (!got || read->bytes < read->max_bytes) &&
		(used < count || !is_cut)) {
		size_t i = is_backward ? read->count - 1 - got : got;
		uint64_t seq = read->page.from + i;
		int row = is_backward ? count - 1 - used : used;
		bool is_there = used < count && (uint64_t)pg_get_bigint(apart->rows, row, 0) == seq;
		r = take_or_stand_in(apart, read, is_there ? row : -1, seq, ret_gap, &events[i]);
		used += is_there;
		got += r == 0;
		read->bytes += r == 0 ? event_line_len(events[i]) : 0;
	}
	memcpy(read->events, events + (is_backward ? read->count - got : 0),
		got * sizeof(struct event *));
	read->got = got;
	free(events);
	return r;
}
