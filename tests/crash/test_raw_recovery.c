/*
 * Raw streams after a restart: damage that recovery must not take for a torn write, a TTL that
 * restarts do not prolong, and a read that nobody waits for any more.
 */
#include "rig.h"

#include "holdfast/diag.h"
#include "core/store/disk.h"
#include "holdfast/loop.h"
#include "holdfast/raw.h"

#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define WAIT_MS 20000

struct life {
	uv_loop_t loop;
	uv_timer_t beat; /* timers of the store keep no loop alive */
	struct limits limits;
	struct clock clock;
	bool is_relaxed;
	struct raw_store *store;
};

static void handle_beat(uv_timer_t *timer)
{
}

static void open_store(struct life *life, const char *dir)
{
	uv_loop_init(&life->loop);
	uv_timer_init(&life->loop, &life->beat);
	uv_timer_start(&life->beat, handle_beat, 20, 20);
	life->limits = *limits_default();
	life->limits.segment_size = 4096;
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

static bool is_on_disk(void *arg)
{
	struct life *life = arg;
	raw_end_tick(life->store);
	return raw_backlog(life->store) == 0;
}

static void settle(struct life *life)
{
	assert_true(loop_run_until(&life->loop, is_on_disk, life, WAIT_MS));
}

static void create(struct life *life, const char *name, int64_t ttl_s)
{
	struct raw_answer answer;
	raw_create(life->store,
		&(struct raw_create){.name = name,
			.type = "application/json",
			.is_json = true,
			.has_ttl = ttl_s > 0,
			.ttl_s = ttl_s},
		&answer);
	assert_int_equal(answer.result, RAW_DONE);
	settle(life);
}

/** Appends lines of 8 bytes as one batch. */
static void append(struct life *life, const char *name, size_t lines)
{
	struct raw_answer answer;
	struct buffer bytes = {0};
	for (size_t i = 0; i < lines; i++) {
		buffer_append_str(&bytes, "\"12345\"\n");
	}
	raw_append(life->store,
		&(struct raw_append){.name = name,
			.type = "application/json",
			.bytes = bytes.data,
			.len = bytes.len},
		&answer);
	assert_int_equal(answer.result, RAW_DONE);
	settle(life);
	buffer_finish(&bytes);
}

static enum raw_result look(struct life *life, const char *name, uint64_t *ret_tail)
{
	struct raw_view view = {0};
	enum raw_result result = raw_look(life->store, name, false, &view);
	*ret_tail = view.tail;
	return result;
}

/* --- files --- */

static char *only_file(const char *dir, const char *folder)
{
	char *path = xprintf("%s/streams/%s", dir, folder);
	char *file = NULL;
	DIR *list = opendir(path);
	assert_non_null(list);
	for (struct dirent *entry; (entry = readdir(list));) {
		if (entry->d_name[0] != '.') {
			assert_null(file);
			file = xprintf("%s/%s", path, entry->d_name);
		}
	}
	closedir(list);
	free(path);
	assert_non_null(file);
	return file;
}

static void flip(const char *path, off_t at)
{
	char byte;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte = (char)(byte ^ 0x10);
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

/* --- tests --- */

/** After an idle start the journal has one batch. If it is damaged, no file may be deleted. */
static void damaged_beginning(void **state)
{
	const char *dir = *state;
	struct life life = {0};
	uint64_t tail;
	struct stat st;
	open_store(&life, dir);
	create(&life, "a", 0);
	append(&life, "a", 3);
	close_store(&life);
	open_store(&life, dir);
	close_store(&life);
	char *segment = only_file(dir, "journal");
	char *data = only_file(dir, "data");
	flip(segment, 50);
	open_store(&life, dir);
	assert_int_equal(look(&life, "a", &tail), RAW_DAMAGED);
	close_store(&life);
	assert_int_equal(stat(data, &st), 0);
	assert_int_equal(st.st_size, 24);
	flip(segment, 50);
	open_store(&life, dir);
	assert_int_equal(look(&life, "a", &tail), RAW_DONE);
	assert_int_equal(tail, 24);
	close_store(&life);
	free(segment);
	free(data);
}

/** A start allows for a use that is not in the journal; many starts allow for no more. */
static void ttl_and_restarts(void **state)
{
	const char *dir = *state;
	struct life life = {0};
	uint64_t tail;
	open_store(&life, dir);
	create(&life, "used", 80000);
	create(&life, "b", 0);
	for (int i = 0; i < 12; i++) {
		append(&life, "b", 600); /* the next batch begins a segment */
		append(&life, "b", 600);
		close_store(&life);
		open_store(&life, dir);
	}
	assert_int_equal(look(&life, "used", &tail), RAW_DONE);
	life.clock.wall_shift_ms = 89000 * 1000;
	assert_int_equal(look(&life, "used", &tail), RAW_DONE);
	life.clock.wall_shift_ms = 95000 * 1000;
	assert_int_equal(look(&life, "used", &tail), RAW_NOT_FOUND);
	close_store(&life);
}

static sem_t entered;
static sem_t released;
static atomic_size_t reads;

static ssize_t held_pread(int fd, void *bytes, size_t len, off_t offset)
{
	if (reads++ == 0) {
		sem_post(&entered);
		sem_wait(&released);
	}
	return disk_kernel.pread(fd, bytes, len, offset);
}

static void handle_never(void *arg, struct raw_page *page, int status)
{
	fail_msg("a cancelled read is told");
}

/** A scan of a long stream ends soon after its client has gone. */
static void cancelled_scan(void **state)
{
	struct life life = {0};
	struct disk_ops held = disk_kernel;
	open_store(&life, *state);
	create(&life, "long", 0);
	for (int i = 0; i < 8; i++) {
		append(&life, "long", 128 * 1024);
	}
	sem_init(&entered, 0, 0);
	sem_init(&released, 0, 0);
	held.pread = held_pread;
	disk = &held;
	struct raw_read *read =
		raw_find(life.store, "long", 0, 100 * 1000 * 1000, handle_never, NULL);
	sem_wait(&entered);
	raw_read_cancel(read);
	sem_post(&released);
	close_store(&life);
	disk = &disk_kernel;
	assert_int_equal(reads, 1);
	sem_destroy(&entered);
	sem_destroy(&released);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			damaged_beginning, rig_dir_set_up, rig_dir_tear_down),
		cmocka_unit_test_setup_teardown(
			ttl_and_restarts, rig_dir_set_up, rig_dir_tear_down),
		cmocka_unit_test_setup_teardown(cancelled_scan, rig_dir_set_up, rig_dir_tear_down),
	};
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
