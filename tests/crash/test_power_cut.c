/*
 * The power goes: after every single change that a server makes to its disk, with any part of what
 * was not synced. What was acknowledged or shown before is there again, and nothing was made up.
 * The disks of the first failures are kept. HOLDFAST_CRASH_STORMS: how many servers' lives.
 */
#include "fault_disk.h"
#include "storm.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Of each cut, so many by chance besides those by rule. */
#define RANDOM_SURVIVALS 4
/* Of so many cuts one is followed by cuts of the recovery. */
#define AGAIN_EVERY  60
#define STORMS       2
#define FAULTS_SHOWN 8

struct outcome {
	size_t cuts;
	size_t images;
	size_t recoveries; /* of which so many were cut again while they were under way */
	size_t faults;
	char dir[64]; /* of the images */
};

struct cutter {
	const struct witness *witness;
	struct power_disk *power;
	const char *name; /* of the storm */
	struct outcome *outcome;
	size_t nested; /* 0: a cut of the server while it ran; else of a recovery after that cut */
	uint64_t *seen; /* hashes of this cut's images */
	size_t seen_count;
};

static void name_dir(struct outcome *outcome)
{
	snprintf(outcome->dir, sizeof(outcome->dir), "%s/holdfast-cut-%d",
		getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
}

static void limit(struct rig *rig)
{
	rig->limits.segment_size = 4000;
	rig->limits.journal_ahead = 1000; /* room for some batches, not for a segment of them */
	rig->limits.hot_tail_size = 64 << 20;
}

/** The first of them are told, and their disks are kept to be looked at. */
static void report(struct cutter *cutter, const char *name, size_t cut, const struct buffer *image,
	const struct buffer *why)
{
	struct buffer text = {0};
	struct buffer dir = {0};
	if (cut) {
		power_disk_tell(cutter->power, cut - 1, &text);
	}
	if (cutter->outcome->faults++ < FAULTS_SHOWN) {
		buffer_printf(&dir, "%s-%zu", cutter->outcome->dir, cutter->outcome->faults);
		power_disk_write_image(image, buffer_cstr(&dir));
		fprintf(stderr, "%s fails, after \"%s\": %.*s\n    (the disk: %s)\n", name,
			buffer_cstr(&text), (int)why->len, why->data, buffer_cstr(&dir));
	}
	buffer_finish(&text);
	buffer_finish(&dir);
}

/** One image: is recovered, held against what is known, and goes on. */
static bool check_image(const struct witness *w, const struct buffer *image, size_t cut,
	const char *dir, struct buffer *why)
{
	struct rig rig;
	power_disk_write_image(image, dir);
	rig_init_on(&rig, dir);
	rig.limits = w->rig->limits;
	rig.durability = DURABILITY_WRITE;
	if (rig_open(&rig) < 0) {
		buffer_printf(why, "it does not open: %s", rig.why ? rig.why : "?");
	} else if (witness_check(w, cut, &rig, why)) {
		witness_goes_on(w, cut, &rig, why);
	}
	rig_finish(&rig);
	return why->len == 0;
}

static bool is_new(struct cutter *cutter, const struct buffer *image)
{
	uint64_t hash = XXH3_64bits(image->data, image->len);
	for (size_t i = 0; i < cutter->seen_count; i++) {
		if (cutter->seen[i] == hash) {
			return false;
		}
	}
	cutter->seen[cutter->seen_count++] = hash;
	return true;
}

static void try_image(struct cutter *cutter, size_t cut, enum survival survival, uint64_t seed,
	struct buffer *image)
{
	struct buffer why = {0};
	char name[160];
	size_t known = cutter->nested ? cutter->nested : cut;
	snprintf(name, sizeof(name), "%s, cut at %zu.%zu, %s %llu", cutter->name, known,
		cutter->nested ? cut : 0, power_disk_survival_name(survival),
		(unsigned long long)seed);
	cutter->outcome->images++;
	if (!check_image(cutter->witness, image, known, cutter->outcome->dir, &why)) {
		report(cutter, name, cut, image, &why);
	}
	rig_remove_dir(cutter->outcome->dir);
	buffer_finish(&why);
}

/** Every survival of one cut that gives another disk. */
static void cut_at(struct cutter *cutter, size_t cut, size_t randoms, struct buffer *image)
{
	uint64_t seen[SURVIVE_COUNT + 16];
	cutter->seen = seen;
	cutter->seen_count = 0;
	cutter->outcome->cuts++;
	power_disk_seek(cutter->power, cut);
	for (enum survival survival = 0; survival < SURVIVE_COUNT; survival++) {
		bool by_chance = survival == SURVIVE_RANDOM || survival == SURVIVE_TORN ||
				 survival == SURVIVE_SECTORS;
		size_t seeds = survival == SURVIVE_RANDOM ? randoms : by_chance ? 2 : 1;
		for (uint64_t seed = 0; seed < seeds; seed++) {
			power_disk_image(cutter->power, survival, seed * 1000 + cut, image);
			if (is_new(cutter, image)) {
				try_image(cutter, cut, survival, seed * 1000 + cut, image);
			}
		}
	}
}

/** The power goes again while the server recovers from the first time. */
static void cut_recovery(struct cutter *cutter, size_t cut, struct buffer *image)
{
	struct rig rig;
	struct buffer inner_image = {0};
	struct buffer dir = {0};
	buffer_printf(&dir, "%s-again", cutter->outcome->dir);
	power_disk_image(cutter->power, SURVIVE_RANDOM, cut, image);
	power_disk_write_image(image, buffer_cstr(&dir));
	struct power_disk *power = power_disk_begin(buffer_cstr(&dir));
	rig_init_on(&rig, buffer_cstr(&dir));
	rig.limits = cutter->witness->rig->limits;
	if (rig_open(&rig) < 0) {
		struct buffer why = {0};
		buffer_printf(&why, "it does not open: %s", rig.why ? rig.why : "?");
		report(cutter, cutter->name, cut, image, &why);
		buffer_finish(&why);
	}
	rig_finish(&rig);
	power_disk_end(power);
	struct cutter inner = *cutter;
	inner.power = power;
	inner.nested = cut;
	for (size_t at = 1; at <= power_disk_count(power); at++) {
		cut_at(&inner, at, 1, &inner_image);
	}
	cutter->outcome->recoveries++;
	power_disk_destroy(power);
	rig_remove_dir(dir.data);
	buffer_finish(&inner_image);
	buffer_finish(&dir);
}

static void run_storm(const struct storm *storm, const char *name, struct outcome *outcome)
{
	struct rig rig;
	struct witness w;
	struct buffer image = {0};
	rig_init(&rig);
	limit(&rig);
	struct power_disk *power = power_disk_begin(rig.dir);
	witness_init(&w, &rig, power);
	storm_run(storm, &w);
	witness_close(&w);
	power_disk_end(power);
	assert_string_equal(buffer_cstr(&w.wrong), "");
	assert_int_equal(w.refused, 0);
	uv_timer_stop(&rig.guard); /* this loop stands still from here on */
	struct cutter cutter = {.witness = &w, .power = power, .name = name, .outcome = outcome};
	size_t count = power_disk_count(power);
	for (size_t cut = 0; cut <= count; cut++) {
		cut_at(&cutter, cut, RANDOM_SURVIVALS, &image);
		if (cut % AGAIN_EVERY == AGAIN_EVERY / 2) {
			cut_recovery(&cutter, cut, &image);
		}
	}
	print_message("%s: %zu inputs, %zu lives of sessions, %zu changes\n", name, w.inputs,
		w.life_count, count);
	buffer_finish(&image);
	power_disk_destroy(power);
	witness_finish(&w);
	rig_finish(&rig);
}

static void nothing_acknowledged_or_shown_is_lost(void **state)
{
	struct outcome outcome = {0};
	name_dir(&outcome);
	const char *more = getenv("HOLDFAST_CRASH_STORMS");
	uint64_t storms = more ? strtoull(more, NULL, 10) : STORMS;
	for (uint64_t seed = 1; seed <= storms; seed++) {
		char name[32];
		struct storm storm = {.seed = seed * 7919, .steps = 75, .restarts = true};
		snprintf(name, sizeof(name), "storm %llu", (unsigned long long)seed);
		run_storm(&storm, name, &outcome);
	}
	print_message("%zu cuts, %zu recoveries cut again, %zu disks, %zu of them wrong\n",
		outcome.cuts, outcome.recoveries, outcome.images, outcome.faults);
	assert_int_equal(outcome.faults, 0);
	(void)state;
}

/**
 * One fdatasync() fails, and with it, as kernels have it, goes what it was to write: the next one
 * succeeds and has not written it either. Then the power goes, some time later. Returns whether
 * there was such a call.
 */
static bool run_failed_sync(size_t nth, struct outcome *outcome)
{
	struct storm storm = {.seed = 271828, .steps = 60, .restarts = true};
	struct fault fault = {
		.kind = CALL_FDATASYNC, .nth = nth, .error = EIO, .sync_failed = power_disk_lose};
	struct rig rig;
	struct witness w;
	struct buffer image = {0};
	char name[32];
	rig_init(&rig);
	limit(&rig);
	struct power_disk *power = power_disk_begin(rig.dir);
	fault_disk_put(&fault);
	witness_init(&w, &rig, power);
	storm_run(&storm, &w);
	bool has_failed = fault_disk_hits() > 0;
	witness_close(&w);
	fault_disk_take_away();
	power_disk_end(power);
	assert_string_equal(buffer_cstr(&w.wrong), "");
	uv_timer_stop(&rig.guard);
	snprintf(name, sizeof(name), "sync %zu fails", nth);
	struct cutter cutter = {.witness = &w, .power = power, .name = name, .outcome = outcome};
	size_t count = power_disk_count(power);
	for (size_t left = count; left > 0; left = left > 32 ? left - 32 : 0) {
		size_t cut = count - left + 32 < count ? count - left + 32 : count;
		cut_at(&cutter, cut, 1, &image);
	}
	buffer_finish(&image);
	power_disk_destroy(power);
	witness_finish(&w);
	rig_finish(&rig);
	return has_failed;
}

static void a_failed_sync_is_not_trusted(void **state)
{
	struct outcome outcome = {0};
	name_dir(&outcome);
	size_t syncs = 0;
	while (run_failed_sync(syncs, &outcome)) {
		syncs++;
	}
	print_message("%zu syncs failed, %zu cuts, %zu disks, %zu of them wrong\n", syncs,
		outcome.cuts, outcome.images, outcome.faults);
	assert_int_equal(outcome.faults, 0);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_acknowledged_or_shown_is_lost),
		cmocka_unit_test(a_failed_sync_is_not_trusted),
	};
	/* Thousands of directories are made, and none of them has to outlive the machine. */
	if (access("/dev/shm", W_OK) == 0) {
		setenv("TMPDIR", "/dev/shm", 0);
	}
	/* Batches and checkpoints in one order, so that a failure comes again. */
	setenv("UV_THREADPOOL_SIZE", "1", 1);
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("power cut", tests, NULL, NULL);
}
