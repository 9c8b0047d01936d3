/*
 * clock.json: keeps corrections of the wall clock (ages.h) across restarts. Decides whether the
 * wall clock is trusted enough to prune events by age.
 */
#include "store_internal.h"

#include "holdfast/diag.h"

#include "holdfast/beneath.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME       "clock.json"
#define LENGTH_MAX ((size_t)1 << 16)

static const struct clock *clock_of(const struct store *store)
{
	return store->ops->clock(store->owner);
}

/* --- the file --- */

int store_clock_read(int dir_fd, struct ages *ret)
{
	struct buffer bytes = {0};
	int r = disk_read_file(dir_fd, NAME, LENGTH_MAX, &bytes);
	if (r == 0) {
		r = ages_parse(bytes.data, bytes.len, ret);
	}
	buffer_finish(&bytes);
	return r;
}

static void take_written(struct store *store, int r)
{
	store->clock.is_unwritten = store->clock.is_unwritten || r < 0;
	if (r < 0) {
		diag(DIAG_WARN,
			"clock.json cannot be written: %s; no events are pruned by age until it can",
			file_error(-r));
	}
}

/** Blocks. */
static void write_now(struct store *store)
{
	struct buffer bytes = {0};
	ages_append(&store->clock.ages, &bytes);
	store->clock.is_unwritten = false;
	take_written(store, disk_replace(store->dir_fd, NAME, &bytes, true));
	buffer_finish(&bytes);
}

void store_clock_begin(struct store *store)
{
	int r = store_clock_read(store->dir_fd, &store->clock.ages);
	bool changed = true;
	if (r == 0) {
		changed = ages_resume(&store->clock.ages, clock_of(store));
	} else {
		ages_init(&store->clock.ages, clock_of(store));
	}
	/* A file that cannot be read, or has the format of a newer program, is not overwritten. */
	store->clock.is_unknown = r < 0 && r != -ENOENT && r != -EBADMSG;
	if (r == -EBADMSG) {
		diag(DIAG_WARN, "clock.json is damaged: " CLOCK_DAMAGED);
	} else if (store->clock.is_unknown) {
		diag(DIAG_WARN, "clock.json cannot be read: %s; " CLOCK_UNREAD, file_error(-r));
	}
	store->clock.is_unwritten = changed;
}

void store_clock_write(struct store *store)
{
	if (store->clock.is_unwritten && !store->clock.is_unknown) {
		write_now(store);
	}
}

/* --- while the server runs --- */

struct clock_job {
	uv_work_t work;
	struct store *store;
	struct buffer bytes;
	int result;
};

static void job_work(uv_work_t *work)
{
	struct clock_job *job = work->data;
	job->result = disk_replace(job->store->dir_fd, NAME, &job->bytes, true);
}

static void write_if_due(struct store *store);

static void job_done(uv_work_t *work, int status)
{
	struct clock_job *job = work->data;
	struct store *store = job->store;
	store->jobs--;
	store->clock.is_writing = false;
	take_written(store, job->result);
	if (job->result == 0) {
		write_if_due(store);
	}
	buffer_finish(&job->bytes);
	free(job);
}

static void write_if_due(struct store *store)
{
	if (!store->clock.is_unwritten || store->clock.is_writing || store->clock.is_unknown ||
		store->opening || !server_may(store->life, MAY_KEEP_UP)) {
		return;
	}
	struct clock_job *job = xcalloc(1, sizeof(*job));
	job->work.data = job;
	job->store = store;
	ages_append(&store->clock.ages, &job->bytes);
	store->clock.is_unwritten = false;
	store->clock.is_writing = true;
	store->jobs++;
	int r = uv_queue_work(store->loop, &job->work, job_work, job_done);
	assert(r == 0);
}

int64_t store_clock_now(struct store *store)
{
	const struct clock *clock = clock_of(store);
	int64_t now = clock_now_ms(clock);
	int64_t shift = ages_see(&store->clock.ages, now, clock_elapsed_ms(clock));
	if (shift) {
		diag(DIAG_INFO, "the wall clock was set by %lld seconds", (long long)shift / 1000);
		store->clock.is_unwritten = true;
		write_if_due(store);
	}
	return now;
}

bool store_clock_is_trusted(struct store *store)
{
	const struct clock *clock = clock_of(store);
	store_clock_now(store);
	write_if_due(store);
	int64_t agreed = clock_elapsed_ms(clock) - store->clock.ages.agreed_at;
	return !store->clock.is_unknown && !store->clock.is_unwritten && !store->clock.is_writing &&
	       (agreed >= store->limits->clock_trust_ms || clock_is_synchronised(clock));
}
