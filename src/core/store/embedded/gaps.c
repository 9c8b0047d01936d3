#include "gaps.h"

#include "embedded.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>

/* No line is longer than this; the distance between two good lines may be. */
#define LINE_MAX_SIZE ((uint64_t)512 << 20)

static int find_line(
	const struct gap_source *source, uint64_t seq, uint64_t *ret_from, uint64_t *ret_end)
{
	uint64_t at[2];
	size_t wanted = seq + 1 < source->first_seq + source->count ? 2 : 1;
	int r = log_index_read(source->index_fd, source->first_seq, seq, at, wanted);
	*ret_from = at[0];
	*ret_end = wanted == 2 ? at[1] : source->end;
	return r;
}

int gap_read_line(int fd, uint64_t from, uint64_t end, uint64_t seq, struct event **ret_event)
{
	*ret_event = NULL;
	if (end <= from || end - from > LINE_MAX_SIZE) {
		return 0;
	}
	size_t len = (size_t)(end - from);
	char *line = malloc(len);
	if (!line) {
		return -ENOMEM;
	}
	int r = disk_read_at(fd, from, line, len);
	if (r == 0 && line[len - 1] == '\n' && event_from_line(line, len - 1, ret_event) == 0 &&
		(*ret_event)->seq != seq) {
		event_unref(*ret_event);
		*ret_event = NULL;
	}
	free(line);
	return r == -EBADMSG ? 0 : r; /* the file is too short */
}

/** Finds out whether an event can be read, and if so its ts. */
static int look(const struct gap_source *source, uint64_t seq, int64_t *ret_ts, bool *ret_good)
{
	uint64_t from;
	uint64_t end;
	struct event *event = NULL;
	struct event_view view;
	int r = find_line(source, seq, &from, &end);
	if (r == 0) {
		r = gap_read_line(source->fd, from, end, seq, &event);
	}
	*ret_good = event != NULL;
	if (event) {
		event_get_view(event, &view);
		*ret_ts = view.ts;
		event_unref(event);
	}
	return r;
}

int gap_find(const struct gap_source *source, uint64_t seq, struct gap *ret)
{
	uint64_t last = source->first_seq + source->count - 1;
	int64_t before = 0;
	int64_t behind = 0;
	bool good = false;
	int r = 0;
	*ret = (struct gap){.from = seq, .to = seq};
	while (r == 0 && !good && ret->from > source->first_seq) {
		r = look(source, ret->from - 1, &before, &good);
		ret->from -= !good;
	}
	bool has_before = good;
	good = false;
	while (r == 0 && !good && ret->to < last) {
		r = look(source, ret->to + 1, &behind, &good);
		ret->to += !good;
	}
	ret->ts = has_before ? before : behind;
	return r;
}
