/*
 * Raw streams when the power goes after every single change to the disk, with any part of what was
 * not synced, and when any call to the disk fails: all that was acknowledged is there again, in
 * order, and what was not is there as a whole batch or not at all.
 */
#include "fault_disk.h"
#include "part.h"
#include "power_disk.h"
#include "rig.h"

#include "holdfast/diag.h"
#include "holdfast/loop.h"
#include "holdfast/raw.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define WAIT_MS  20000
#define NAMES    5
#define STEPS    60
#define IMAGES   40000
#define EACH_MAX 4 /* operations of one batch */

static const char *const names[NAMES] = {"a", "b", "c/d", "fork", "forked again"};

struct life {
	const char *dir;
	bool is_relaxed;
	uv_loop_t loop;
	uv_timer_t beat; /* timers of the store keep no loop alive */
	struct limits limits;
	struct clock clock;
	struct raw_store *store;
};

static void handle_beat(uv_timer_t *timer)
{
}

static void open_store(struct life *life, const char *dir)
{
	life->dir = dir;
	uv_loop_init(&life->loop);
	uv_timer_init(&life->loop, &life->beat);
	uv_timer_start(&life->beat, handle_beat, 20, 20);
	life->limits = *limits_default();
	life->limits.segment_size = 4096;
	life->limits.journal_retry_ms = 10;
	clock_init(&life->clock);
	life->store = raw_open(&(struct raw_config){.loop = &life->loop,
		.limits = &life->limits,
		.clock = &life->clock,
		.dir = dir,
		.is_relaxed = life->is_relaxed});
}

static void close_store(struct life *life)
{
	raw_close(life->store);
	uv_close((uv_handle_t *)&life->beat, NULL);
	uv_run(&life->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&life->loop), 0);
}

/* --- what is there --- */

struct reading {
	struct buffer *out;
	uint64_t to;
	int status;
	bool is_done;
};

static void handle_page(void *arg, struct raw_page *page, int status)
{
	struct reading *reading = arg;
	reading->is_done = true;
	reading->status = status;
	if (page) {
		buffer_append(reading->out, page->bytes.data, page->bytes.len);
		reading->to = page->to;
		raw_page_unref(page);
	}
}

static bool is_read(void *arg)
{
	return ((struct reading *)arg)->is_done;
}

static const char *const result_names[] = {[RAW_NOT_FOUND] = "none",
	[RAW_GONE] = "gone",
	[RAW_FAILED] = "unreadable",
	[RAW_DAMAGED] = "damaged"};

/** A stream in words: its bytes, and whether it is closed. */
static void tell_stream(struct life *life, const char *name, struct buffer *out)
{
	struct raw_view view;
	enum raw_result result = raw_look(life->store, name, false, &view);
	if (result != RAW_DONE) {
		buffer_printf(out, "%s: %s\n", name, result_names[result]);
		return;
	}
	bool is_closed = view.is_closed;
	uint64_t tail = view.tail;
	buffer_printf(
		out, "%s%s%s: ", name, view.is_json ? " json" : "", is_closed ? " closed" : "");
	for (uint64_t at = 0; at < tail;) {
		struct reading reading = {.out = out};
		raw_read(life->store, name, at, false, handle_page, &reading);
		loop_run_until(&life->loop, is_read, &reading, WAIT_MS);
		assert_true(reading.is_done);
		if (reading.status < 0) {
			buffer_printf(out, "unreadable (%s)", strerror(-reading.status));
			break;
		}
		at = reading.to;
	}
	buffer_append_char(out, '\n');
}

static void tell_all(struct life *life, struct buffer *out)
{
	for (size_t i = 0; i < NAMES; i++) {
		tell_stream(life, names[i], out);
	}
}

/* --- a life --- */

static void do_create(struct life *life, unsigned step, const char *name, const char *source)
{
	struct raw_answer answer;
	char text[64];
	int len = snprintf(text, sizeof(text), "\"begin %u\"\n", step);
	raw_create(life->store,
		&(struct raw_create){.name = name,
			.type = source ? NULL : "application/json",
			.is_json = true,
			.has_ttl = step % 3 == 0,
			.ttl_s = 3600,
			.source = source,
			.bytes = text,
			.len = (size_t)len},
		&answer);
}

static void do_append(struct life *life, unsigned step, const char *name)
{
	struct raw_answer answer;
	char text[400];
	int len = snprintf(text, sizeof(text), "\"%u %0*u\"\n", step, (int)(step * 37 % 300), step);
	raw_append(life->store,
		&(struct raw_append){.name = name,
			.type = "application/json",
			.producer = step % 2 ? "p" : NULL,
			.producer_epoch = step,
			.closes = step % 17 == 16,
			.bytes = text,
			.len = (size_t)len},
		&answer);
}

/** One operation of those that a number stands for; some are refused, which is as good. */
static void do_step(struct life *life, unsigned step)
{
	struct raw_answer answer;
	const char *name = names[step * 7 % NAMES];
	switch (step * 11 % 13) {
	case 0:
	case 1:
		do_create(life, step, names[step % 3], NULL);
		break;
	case 2:
		do_create(life, step, "fork", "a");
		break;
	case 3:
		do_create(life, step, "forked again", "fork");
		break;
	case 4:
		raw_delete(life->store, name, &answer);
		break;
	default:
		do_append(life, step, name);
	}
}

static bool is_on_disk(void *arg)
{
	struct life *life = arg;
	raw_end_tick(life->store);
	return raw_backlog(life->store) == 0;
}

/** What was there after each batch, and how many changes the disk had seen when it was acknowledged. */
struct witness {
	bool is_relaxed;
	struct buffer told[STEPS + 1];
	size_t changes[STEPS + 1];
	size_t segments[STEPS + 1]; /* number of the newest one */
	size_t count;
};

static size_t newest_segment(const char *dir)
{
	char *path = xprintf("%s/streams/journal", dir);
	DIR *journal = opendir(path);
	size_t number = 0;
	assert_non_null(journal);
	for (struct dirent *entry; (entry = readdir(journal));) {
		size_t n = strtoull(entry->d_name, NULL, 16);
		number = n > number ? n : number;
	}
	closedir(journal);
	free(path);
	return number;
}

static bool works(void *arg)
{
	struct life *life = arg;
	struct raw_view view;
	return raw_look(life->store, "a", false, &view) != RAW_FAILED;
}

static void note(struct life *life, struct witness *witness, const struct power_disk *power)
{
	struct buffer *told = &witness->told[witness->count];
	do { /* again if a sync fails meanwhile */
		buffer_clear(told);
		assert_true(loop_run_until(&life->loop, works, life, WAIT_MS));
		tell_all(life, told);
	} while (strstr(buffer_cstr(told), "unreadable"));
	witness->segments[witness->count] = newest_segment(life->dir);
	witness->changes[witness->count++] = power ? power_disk_count(power) : 0;
}

static void live(struct life *life, struct witness *witness, const struct power_disk *power)
{
	unsigned step = 0;
	note(life, witness, power);
	for (unsigned batch = 0; batch < STEPS; batch++) {
		for (unsigned i = 0; i <= batch % EACH_MAX; i++) {
			do_step(life, step++);
		}
		assert_true(loop_run_until(&life->loop, is_on_disk, life, WAIT_MS));
		note(life, witness, power);
	}
}

static void finish_witness(struct witness *witness)
{
	for (size_t i = 0; i < witness->count; i++) {
		buffer_finish(&witness->told[i]);
	}
}

static bool is_same(const struct buffer *a, const struct buffer *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* --- power cuts --- */

/** If batches are not synced, those since the newest segment began may be lost, the last ones first. */
static bool is_earlier(
	const struct buffer *told, const struct witness *witness, size_t acknowledged)
{
	for (size_t i = acknowledged; witness->is_relaxed && i-- > 0;) {
		if (witness->segments[i] != witness->segments[acknowledged]) {
			return false;
		}
		if (is_same(told, &witness->told[i])) {
			return true;
		}
	}
	return false;
}

/** The batches that were acknowledged before a cut, and at most the one that was on its way. */
static void check_image(
	const struct buffer *image, const char *dir, const struct witness *witness, size_t cut)
{
	struct life life = {0};
	struct buffer told = {0};
	size_t acknowledged = 0;
	while (acknowledged + 1 < witness->count && witness->changes[acknowledged + 1] <= cut) {
		acknowledged++;
	}
	power_disk_write_image(image, dir);
	open_store(&life, dir);
	tell_all(&life, &told);
	close_store(&life);
	bool is_good = is_same(&told, &witness->told[acknowledged]) ||
		       (acknowledged + 1 < witness->count &&
			       is_same(&told, &witness->told[acknowledged + 1])) ||
		       is_earlier(&told, witness, acknowledged);
	if (!is_good) {
		fail_msg("after change %zu, batch %zu: there is\n%s\ninstead of\n%s", cut,
			acknowledged, buffer_cstr(&told),
			buffer_cstr((struct buffer *)&witness->told[acknowledged]));
	}
	buffer_finish(&told);
	rig_remove_dir(dir);
}

static bool is_new(uint64_t *seen, size_t *count, const struct buffer *image)
{
	uint64_t hash = XXH3_64bits(image->data, image->len);
	for (size_t i = 0; i < *count; i++) {
		if (seen[i] == hash) {
			return false;
		}
	}
	assert_true(*count < IMAGES);
	seen[(*count)++] = hash;
	return true;
}

static void cut_between(struct power_disk *power, const struct witness *witness, const char *dir,
	size_t from, size_t to)
{
	uint64_t *seen = xcalloc(IMAGES, sizeof(*seen));
	size_t images = 0;
	for (size_t cut = from; cut <= to; cut++) {
		size_t count = 0; /* what was acknowledged may differ for the same disk */
		power_disk_seek(power, cut);
		for (int survival = 0; survival < SURVIVE_COUNT; survival++) {
			struct buffer image = {0};
			power_disk_image(power, (enum survival)survival, cut * 31 + 7, &image);
			if (is_new(seen, &count, &image) && part_has_next()) {
				check_image(&image, dir, witness, cut);
				images++;
			}
			buffer_finish(&image);
		}
	}
	fprintf(stderr, "%zu changes, %zu places\n", power_disk_count(power), images);
	assert_true(images > 20 || !part_is_whole());
	free(seen);
}

static void cut_everywhere(struct power_disk *power, const struct witness *witness, const char *dir)
{
	cut_between(power, witness, dir, 0, power_disk_count(power));
}

/* The disk of a life in which one fdatasync() fails, and how many changes it had then. */
static struct power_disk *losing;
static size_t lost_at;

static void lose(int fd)
{
	power_disk_lose(fd);
	lost_at = power_disk_count(losing);
}

static void cut_a_life(const char *home, bool is_relaxed)
{
	struct life life = {.is_relaxed = is_relaxed};
	struct witness witness = {.is_relaxed = is_relaxed};
	struct buffer dir = {0};
	buffer_printf(&dir, "%s-cut", home);
	struct power_disk *power = power_disk_begin(home);
	open_store(&life, home);
	live(&life, &witness, power);
	power_disk_hold(true);
	close_store(&life);
	power_disk_hold(false);
	power_disk_end(power);
	assert_true(strlen(buffer_cstr(&witness.told[STEPS])) > 200);
	cut_everywhere(power, &witness, buffer_cstr(&dir));
	power_disk_destroy(power);
	finish_witness(&witness);
	buffer_finish(&dir);
}

/**
 * One fdatasync() fails, and the next one succeeds without having written what the first one lost.
 * Then the power goes, at one of the next changes. Returns whether there was such a call.
 */
static bool lose_and_cut(const char *home, bool is_relaxed, size_t nth)
{
	struct life life = {.is_relaxed = is_relaxed};
	struct witness witness = {.is_relaxed = is_relaxed};
	char *dir = xprintf("%s-cut", home);
	char *here = xprintf("%s/%zu%s", home, nth, is_relaxed ? " unsynced" : "");
	assert_int_equal(mkdir(here, 0700), 0);
	struct power_disk *power = losing = power_disk_begin(here);
	lost_at = 0;
	fault_disk_put(&(struct fault){
		.kind = CALL_FDATASYNC, .nth = nth, .error = EIO, .sync_failed = lose});
	open_store(&life, here);
	live(&life, &witness, power);
	bool has_failed = fault_disk_hits() > 0;
	fault_disk_take_away();
	power_disk_hold(true);
	close_store(&life);
	power_disk_hold(false);
	power_disk_end(power);
	size_t end = power_disk_count(power);
	if (has_failed) {
		cut_between(power, &witness, dir, lost_at, lost_at + 12 < end ? lost_at + 12 : end);
	}
	power_disk_destroy(power);
	finish_witness(&witness);
	free(here);
	free(dir);
	return has_failed;
}

static void failed_syncs(void **state)
{
	size_t syncs = 0;
	while (lose_and_cut(*state, true, syncs)) {
		syncs++;
	}
	assert_true(syncs > 10);
	for (size_t nth = 0; nth < 4; nth++) {
		assert_true(lose_and_cut(*state, false, nth));
	}
}

static void power_cuts(void **state)
{
	cut_a_life(*state, false);
}

/** --durability write: a power cut takes the last batches, and nothing that is older than the newest segment. */
static void power_cuts_unsynced(void **state)
{
	cut_a_life(*state, true);
}

/* --- failing calls --- */

struct failing_wait {
	struct raw_wait wait;
	int status;
	bool is_told;
};

static void handle_wait(struct raw_wait *wait, int status)
{
	struct failing_wait *failing = (struct failing_wait *)wait;
	failing->status = status;
	failing->is_told = true;
}

static bool is_told(void *arg)
{
	return ((struct failing_wait *)arg)->is_told;
}

/** Appends a line; 0 if it is acknowledged. */
static int put_line(struct life *life, unsigned n)
{
	struct raw_answer answer;
	char text[32];
	int len = snprintf(text, sizeof(text), "%u\n", n);
	raw_append(life->store,
		&(struct raw_append){
			.name = "a", .type = "text/plain", .bytes = text, .len = (size_t)len},
		&answer);
	struct failing_wait failing = {.wait = {.lsn = answer.lsn, .done = handle_wait}};
	if (answer.result != RAW_DONE || !raw_wait(life->store, &failing.wait)) {
		return -EIO;
	}
	raw_end_tick(life->store);
	assert_true(loop_run_until(&life->loop, is_told, &failing, WAIT_MS));
	return failing.status;
}

/** Fails the nth call of a kind; whether there was one. */
static bool fail_call(const char *dir, enum disk_call kind, size_t nth, bool tears)
{
	struct life life = {0};
	struct raw_answer answer;
	struct buffer want = {0};
	struct buffer told = {0};
	open_store(&life, dir);
	raw_create(life.store, &(struct raw_create){.name = "a", .type = "text/plain"}, &answer);
	assert_true(loop_run_until(&life.loop, is_on_disk, &life, WAIT_MS));
	fault_disk_put(&(struct fault){
		.kind = kind, .nth = nth, .error = EIO, .tears = tears, .is_short = tears});
	buffer_append_str(&want, "a: ");
	for (unsigned n = 0; n < 6; n++) {
		if (put_line(&life, n) == 0) {
			buffer_printf(&want, "%u\n", n);
		}
		assert_true(loop_run_until(&life.loop, works, &life, WAIT_MS));
	}
	bool was_hit = fault_disk_hits() > 0;
	fault_disk_take_away();
	buffer_append_char(&want, '\n');
	tell_stream(&life, "a", &told);
	assert_string_equal(buffer_cstr(&told), buffer_cstr(&want));
	close_store(&life);
	open_store(&life, dir);
	buffer_clear(&told);
	tell_stream(&life, "a", &told);
	assert_string_equal(buffer_cstr(&told), buffer_cstr(&want));
	raw_delete(life.store, "a", &answer);
	assert_true(loop_run_until(&life.loop, is_on_disk, &life, WAIT_MS));
	close_store(&life);
	buffer_finish(&told);
	buffer_finish(&want);
	return was_hit;
}

static void failing_calls(void **state)
{
	static const enum disk_call kinds[] = {CALL_OPENAT, CALL_WRITE, CALL_FDATASYNC};
	size_t hits = 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		for (size_t nth = 0; nth < 6; nth++) {
			hits += fail_call(*state, kinds[i], nth, false);
			hits += kinds[i] == CALL_WRITE && fail_call(*state, kinds[i], nth, true);
		}
	}
	assert_true(hits > 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(failed_syncs, rig_dir_set_up, rig_dir_tear_down),
		cmocka_unit_test_setup_teardown(
			power_cuts_unsynced, rig_dir_set_up, rig_dir_tear_down),
		cmocka_unit_test_setup_teardown(power_cuts, rig_dir_set_up, rig_dir_tear_down),
		cmocka_unit_test_setup_teardown(failing_calls, rig_dir_set_up, rig_dir_tear_down),
	};
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
