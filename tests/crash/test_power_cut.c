/*
 * The power goes: after every single change that a server makes to its disk, with any part of what
 * was not synced. What was acknowledged or shown before is there again, and nothing was made up.
 * The disks of the first failures are kept. HOLDFAST_CRASH_STORMS: how many servers' lives.
 */
#include "fault_disk.h"
#include "part.h"
#include "point.h"
#include "core/session/session_internal.h"
#include "storm.h"

#include "holdfast/diag.h"
#include "holdfast/store_check.h"

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
#define STORMS       1
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
	size_t moment; /* witness_moment() of the cut */
	uint64_t *seen; /* hashes of the disks since then; of the same one no more could be told */
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
	rig->limits.prune_ms = RIG_NEVER;
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
		rig_remove_dir(buffer_cstr(&dir)); /* another test's */
		power_disk_write_image(image, buffer_cstr(&dir));
		fprintf(stderr, "%s fails, after \"%s\": %.*s\n    (the disk: %s)\n", name,
			buffer_cstr(&text), (int)why->len, why->data, buffer_cstr(&dir));
	}
	buffer_finish(&text);
	buffer_finish(&dir);
}

static void handle_problem(void *owner, const char *place, const char *what)
{
	buffer_printf(owner, "verify: %s: %s; ", place, what);
}

/**
 * An index that does not fit is as good as one that is missing: it is made again when it is needed.
 */
static void handle_note(void *owner, const char *place, const char *what)
{
	if (strstr(place, "/events.index")) {
		return;
	}
	buffer_printf(owner, "verify notes: %s: %s; ", place, what);
}

static void handle_progress(void *owner, uint64_t bytes)
{
}

/**
 * What `holdfast verify` finds, notes too: recovery leaves nothing over. It does not hear of the
 * server, if one runs: what that one has still to write is not forgiven.
 */
static void verify(const char *dir, struct buffer *why)
{
	static const struct store_check_ops ops = {
		handle_problem, handle_note, handle_progress, NULL, &session_facts_ops};
	struct store_check_counts counts;
	struct store_files files;
	char *no;
	assert_int_equal(store_files_open(dir, &files, &no), 0);
	assert_int_equal(store_check(&files, NULL, &ops, why, &counts), 0);
	store_files_close(&files);
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
	} else if (cut < w->certain_from) {
		rig_close(&rig); /* what is there, nobody has promised */
	} else if (witness_check(w, cut, &rig, why)) {
		verify(dir, why);
		witness_goes_on(w, cut, &rig, why);
		verify(dir, why);
		rig_close(&rig);
		verify(dir, why);
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
	cutter->seen = xrealloc(cutter->seen, (cutter->seen_count + 1) * sizeof(*cutter->seen));
	cutter->seen[cutter->seen_count++] = hash;
	return true;
}

/** What is known has changed: a disk that was tried is to be held against that, too. */
static void begin_cut(struct cutter *cutter, size_t cut)
{
	size_t moment = witness_moment(cutter->witness, cutter->nested ? cutter->nested : cut);
	if (moment != cutter->moment) {
		cutter->moment = moment;
		cutter->seen_count = 0;
	}
	cutter->outcome->cuts++;
	power_disk_seek(cutter->power, cut);
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

/** Every survival of one cut that gives another disk, or one of which more is known by now. */
static void cut_at(struct cutter *cutter, size_t cut, size_t randoms, struct buffer *image)
{
	begin_cut(cutter, cut);
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
	power_disk_seek(cutter->power, cut);
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
	inner.seen = NULL;
	inner.seen_count = 0;
	for (size_t at = 1; at <= power_disk_count(power); at++) {
		if (part_has_next()) {
			cut_at(&inner, at, 1, &inner_image);
		}
	}
	cutter->outcome->recoveries++;
	free(inner.seen);
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
	rig.limits.keep_events = storm->prunes ? 3 : 0;
	rig.limits.prune_size = 1;
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
		if (cut < w.certain_from && cut % 4) {
			continue; /* all that can be asked there is that the server starts */
		}
		if (part_has_next()) {
			cut_at(&cutter, cut, RANDOM_SURVIVALS, &image);
		}
		if (cut % AGAIN_EVERY == AGAIN_EVERY / 2) {
			cut_recovery(&cutter, cut, &image);
		}
	}
	print_message("%s: %zu inputs, %zu lives of sessions, %zu changes\n", name, w.inputs,
		w.life_count, count);
	buffer_finish(&image);
	free(cutter.seen);
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

/** Logs that lose their beginning: the file that takes their place comes whole or not at all. */
static void pruning_loses_nothing_else(void **state)
{
	struct outcome outcome = {0};
	struct storm storm = {.seed = 577215, .steps = 75, .prunes = true, .restarts = true};
	name_dir(&outcome);
	run_storm(&storm, "pruning", &outcome);
	print_message("%zu cuts, %zu recoveries cut again, %zu disks, %zu of them wrong\n",
		outcome.cuts, outcome.recoveries, outcome.images, outcome.faults);
	assert_int_equal(outcome.faults, 0);
	(void)state;
}

/**
 * Servers that are killed, or do not sync, leave in the page cache what the next one finds there
 * and relies on.
 */
static void run_restarts(struct storm storm, const char *name)
{
	struct outcome outcome = {0};
	name_dir(&outcome);
	run_storm(&storm, name, &outcome);
	print_message("%zu cuts, %zu recoveries cut again, %zu disks, %zu of them wrong\n",
		outcome.cuts, outcome.recoveries, outcome.images, outcome.faults);
	assert_int_equal(outcome.faults, 0);
}

static void what_a_killed_server_left_is_relied_on_when_it_is_synced(void **state)
{
	run_restarts((struct storm){.seed = 1618033, .steps = 36, .kills = true}, "killed");
	(void)state;
}

static void so_is_what_one_wrote_that_does_not_sync(void **state)
{
	run_restarts((struct storm){.seed = 662607, .steps = 36, .restarts = true, .relaxed = true},
		"relaxed, stopped");
	run_restarts((struct storm){.seed = 299792, .steps = 36, .kills = true, .relaxed = true},
		"relaxed, killed");
	(void)state;
}

/**
 * A server's life in which one fdatasync() fails, and how far apart the power cuts after it are.
 */
struct failed_sync {
	const char *name;
	void (*live)(struct witness *w);
	size_t every;
	size_t randoms;
};

/* The disk of a server's life, and how many changes it had when the fdatasync() failed. */
static struct power_disk *losing;
static size_t lost_at;

static void lose(int fd)
{
	power_disk_lose(fd);
	lost_at = power_disk_count(losing);
}

/**
 * One fdatasync() fails, and with it, as kernels have it, goes what it was to write: the next one
 * succeeds and has not written it either. Then the power goes, some time later: what was before is
 * the same in each life, and is left to the last one, in which none fails. Returns whether there
 * was such a call.
 */
static bool run_failed_sync(const struct failed_sync *how, size_t nth, struct outcome *outcome)
{
	struct fault fault = {
		.kind = CALL_FDATASYNC, .nth = nth, .error = EIO, .sync_failed = lose};
	struct rig rig;
	struct witness w;
	struct buffer image = {0};
	char name[64];
	rig_init(&rig);
	limit(&rig);
	struct power_disk *power = power_disk_begin(rig.dir);
	losing = power;
	lost_at = 0;
	fault_disk_put(&fault);
	witness_init(&w, &rig, power);
	how->live(&w);
	bool has_failed = fault_disk_hits() > 0;
	witness_close(&w);
	fault_disk_take_away();
	power_disk_end(power);
	assert_string_equal(buffer_cstr(&w.wrong), "");
	uv_timer_stop(&rig.guard);
	snprintf(name, sizeof(name), "%s, sync %zu fails", how->name, nth);
	struct cutter cutter = {.witness = &w, .power = power, .name = name, .outcome = outcome};
	size_t count = power_disk_count(power);
	for (size_t left = count; left > 0; left = left > how->every ? left - how->every : 0) {
		size_t cut = count - left + how->every < count ? count - left + how->every : count;
		if (cut >= lost_at) {
			cut_at(&cutter, cut, how->randoms, &image);
		}
	}
	buffer_finish(&image);
	free(cutter.seen);
	power_disk_destroy(power);
	witness_finish(&w);
	rig_finish(&rig);
	return has_failed;
}

static void fail_each_sync(const struct failed_sync *how)
{
	struct outcome outcome = {0};
	name_dir(&outcome);
	size_t syncs = 0;
	while (!part_has_next() || run_failed_sync(how, syncs, &outcome)) {
		syncs++;
	}
	print_message("%zu syncs failed, %zu cuts, %zu disks, %zu of them wrong\n", syncs,
		outcome.cuts, outcome.images, outcome.faults);
	assert_int_equal(outcome.faults, 0);
}

static void live_in_a_storm(struct witness *w)
{
	storm_run(&(struct storm){.seed = 271828, .steps = 60, .restarts = true}, w);
}

static void a_failed_sync_is_not_trusted(void **state)
{
	fail_each_sync(&(struct failed_sync){
		.name = "storm", .live = live_in_a_storm, .every = 32, .randoms = 1});
	(void)state;
}

/** Runs the loop until a session's last input is on its way to the disk, and no further. */
static void wait_for_launch(struct witness *w, const char *id)
{
	struct rig *rig = w->rig;
	struct session *session = session_table_get(rig->table, id, strlen(id));
	if (session) {
		rig_wait_for_launch(rig, session->last_lsn);
	}
}

/**
 * A session is made while the journal goes on to a new segment, so that the checkpoint of all
 * sessions runs in front of the batch with its creation; then once more under the same name.
 */
static void live_and_make_sessions(struct witness *w)
{
	char text[5000];
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	w->rig->limits.journal_retry_ms = 1;
	assert_true(witness_open(w) == 0 || witness_open(w) == 0);
	witness_say(w, "a", text);
	witness_turn(w);
	witness_say(w, "a", "the first words of the next segment");
	wait_for_launch(w, "a");
	witness_put(w, "b", "x-note", "{\"n\":1}");
	witness_settle(w);
	rig_wait_for_store(w->rig);
	witness_put(w, "b", "x-note", "{\"n\":2}");
	witness_settle(w);
}

/** Its folder's way to the trash is not synced: the power may bring it back. */
static void a_refused_session_does_not_come_back(void **state)
{
	fail_each_sync(&(struct failed_sync){.name = "two sessions",
		.live = live_and_make_sessions,
		.every = 1,
		.randoms = RANDOM_SURVIVALS});
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_acknowledged_or_shown_is_lost),
		cmocka_unit_test(pruning_loses_nothing_else),
		cmocka_unit_test(what_a_killed_server_left_is_relied_on_when_it_is_synced),
		cmocka_unit_test(so_is_what_one_wrote_that_does_not_sync),
		cmocka_unit_test(a_failed_sync_is_not_trusted),
		cmocka_unit_test(a_refused_session_does_not_come_back),
	};
	point_use_memory();
	/* Batches and checkpoints in one order, so that a failure comes again. */
	setenv("UV_THREADPOOL_SIZE", "1", 1);
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("power cut", tests, NULL, NULL);
}
