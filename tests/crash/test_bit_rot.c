/*
 * Files that are not what was written: every bit of a small data directory is turned over, and
 * every file cut off at every byte, one at a time. It is noticed or it does no harm: the server
 * does not start, or the session is set aside, or all is as it was. Nothing is shown that never
 * was. The one exception is the journal's newest segment, whose last batch may be a torn one: it is
 * cut off.
 */
#include "fault_disk.h"
#include "part.h"
#include "point.h"
#include "storm.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/*
 * Whether damage to the newest segment is noticed when good batches follow it. As long as it is
 * not, all that stands behind the damage is cut off.
 */
#define DAMAGE_IS_TOLD_FROM_TORN true

#define WRONG_SHOWN 8
/* Of larger files one bit of each byte. */
#define ALL_BITS_SIZE 200

struct outcome {
	size_t cases;
	size_t refused; /* starts */
	size_t aside; /* sessions set aside */
	size_t whole;
	size_t wrong;
};

/** Paths of the files below a directory, without its own name. */
struct files {
	char *paths[64];
	size_t sizes[64];
	size_t count;
	size_t last_batch; /* where it begins in the newest segment */
};

/* nftw() has no room for an argument. */
static struct {
	struct files *files;
	size_t root_len;
} walk;

static int see_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	struct files *files = walk.files;
	if (type == FTW_F && st->st_size) {
		assert_true(files->count < 64);
		files->paths[files->count] = xstrdup(path + walk.root_len);
		files->sizes[files->count++] = (size_t)st->st_size;
	}
	return 0;
}

static void list_files(const char *dir, struct files *files)
{
	*files = (struct files){0};
	walk.files = files;
	walk.root_len = strlen(dir);
	nftw(dir, see_file, 16, FTW_PHYS);
}

static void free_files(struct files *files)
{
	while (files->count) {
		free(files->paths[--files->count]);
	}
}

static bool is_newest_segment(const struct files *files, size_t file)
{
	if (!strstr(files->paths[file], ".journal")) {
		return false;
	}
	for (size_t i = 0; i < files->count; i++) {
		if (strstr(files->paths[i], ".journal") &&
			strcmp(files->paths[i], files->paths[file]) > 0) {
			return false;
		}
	}
	return true;
}

/** Where recovery may take a damage for the torn end of the journal. */
static bool may_be_torn(const struct files *files, size_t file, size_t at, bool is_cut)
{
	return is_newest_segment(files, file) &&
	       (is_cut || !DAMAGE_IS_TOLD_FROM_TORN || at >= files->last_batch);
}

static void limit(struct rig *rig)
{
	rig->limits.segment_size = 200;
	rig->limits.hot_tail_size = 64 << 20;
}

/** Opens what was damaged; what it shows must be what was. */
static void check_case(struct witness *w, const char *dir, const char *name, bool may_end_early,
	struct outcome *outcome)
{
	struct rig rig;
	struct buffer why = {0};
	rig_init_on(&rig, dir);
	limit(&rig);
	rig.durability = DURABILITY_WRITE;
	w->is_rotten = true;
	w->may_end_early = may_end_early;
	outcome->cases++;
	if (rig_open(&rig) < 0) {
		outcome->refused++;
		if (!rig.why || !*rig.why) {
			buffer_append_str(&why, "it does not say why");
		}
	} else if (witness_check(w, 0, &rig, &why) && witness_goes_on(w, 0, &rig, &why)) {
		size_t missing = witness_missing(w, &rig);
		outcome->aside += missing > 0;
		outcome->whole += missing == 0;
	}
	rig_finish(&rig);
	if (why.len && outcome->wrong++ < WRONG_SHOWN) {
		fprintf(stderr, "%s: %.*s\n", name, (int)why.len, why.data);
	}
	buffer_finish(&why);
}

static void flip_bit(const char *path, size_t at, unsigned bit)
{
	unsigned char byte;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= (unsigned char)(1 << bit);
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
}

/** One damage, on a copy of the directory; `bit` 8: the file ends there. */
static void damage(struct witness *w, const char *from, const struct files *files, size_t file,
	size_t at, unsigned bit, struct outcome *outcome)
{
	struct buffer path = {0};
	char name[200];
	if (!part_has_next()) {
		return;
	}
	char *dir = rig_copy_dir(from);
	buffer_printf(&path, "%s%s", dir, files->paths[file]);
	if (bit == 8) {
		file_spoil(buffer_cstr(&path), CUT, at);
		snprintf(name, sizeof(name), "%s cut at %zu", files->paths[file], at);
	} else {
		flip_bit(buffer_cstr(&path), at, bit);
		snprintf(name, sizeof(name), "%s byte %zu bit %u", files->paths[file], at, bit);
	}
	check_case(w, dir, name, may_be_torn(files, file, at, bit == 8), outcome);
	rig_remove_dir(dir);
	free(dir);
	buffer_finish(&path);
}

/** Damages every file whose path has `what` in it. */
static void damage_all(struct witness *w, const char *dir, const char *what, size_t last_batch,
	struct outcome *outcome)
{
	struct files files;
	list_files(dir, &files);
	files.last_batch = last_batch;
	for (size_t file = 0; file < files.count; file++) {
		size_t size = strstr(files.paths[file], what) ? files.sizes[file] : 0;
		for (size_t at = 0; at < size; at++) {
			damage(w, dir, &files, file, at, 8, outcome);
			for (unsigned bit = 0; bit < 8; bit++) {
				if (size <= ALL_BITS_SIZE || bit == (at * 5) % 8) {
					damage(w, dir, &files, file, at, bit, outcome);
				}
			}
		}
	}
	free_files(&files);
}

static void print_outcome(const char *what, const struct outcome *outcome)
{
	print_message(
		"%s: %zu damages, %zu starts refused, %zu times a session set aside, %zu without harm, %zu wrong\n",
		what, outcome->cases, outcome->refused, outcome->aside, outcome->whole,
		outcome->wrong);
	assert_int_equal(outcome->wrong, 0);
}

/** A running server's directory with several segments, none of which was taken away. */
static void a_damaged_journal(void **state)
{
	struct fault fault = {.kind = CALL_UNLINKAT, .error = EIO, .lasts = true};
	struct storm storm = {.seed = 31337, .steps = 5, .is_calm = true};
	struct outcome outcome = {0};
	struct rig rig;
	struct witness w;
	uint64_t number;
	uint64_t number_then;
	size_t last_batch;
	size_t size;
	rig_init(&rig);
	limit(&rig);
	witness_init(&w, &rig, NULL);
	fault_disk_put(&fault);
	storm_run(&storm, &w);
	workload_newest_segment(rig.dir, &number, &last_batch, NULL);
	witness_say(&w, "a", "The last batch.");
	witness_settle(&w);
	workload_newest_segment(rig.dir, &number_then, &size, NULL);
	assert_true(number > 2);
	assert_true(number == number_then && size > last_batch);
	char *dir = rig_copy_dir(rig.dir);
	witness_close(&w);
	fault_disk_take_away();
	assert_int_equal(w.wrong.len, 0);
	uv_timer_stop(&rig.guard); /* this loop stands still from here on */
	damage_all(&w, dir, ".journal", last_batch, &outcome);
	print_outcome("journal", &outcome);
	assert_true(outcome.refused > 0 || !part_is_whole()); /* few of the cases are */
	rig_remove_dir(dir);
	free(dir);
	witness_finish(&w);
	rig_finish(&rig);
	(void)state;
}

/**
 * A server that was stopped in good order; its journal has only the newest state of each session.
 */
static void a_damaged_log(void **state)
{
	struct storm storm = {.seed = 4242, .steps = 6, .is_calm = true, .restarts = true};
	struct outcome outcome = {0};
	struct rig rig;
	struct witness w;
	rig_init(&rig);
	limit(&rig);
	witness_init(&w, &rig, NULL);
	storm_run(&storm, &w);
	witness_close(&w);
	assert_int_equal(w.wrong.len, 0);
	uv_timer_stop(&rig.guard);
	damage_all(&w, rig.dir, "/sessions/", 0, &outcome);
	print_outcome("logs and metadata", &outcome);
	assert_true(outcome.aside && outcome.whole);
	witness_finish(&w);
	rig_finish(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_damaged_journal),
		cmocka_unit_test(a_damaged_log),
	};
	point_use_memory();
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("bit rot", tests, NULL, NULL);
}
