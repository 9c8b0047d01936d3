/*
 * The disk fails: every single call that a server makes, once and from then on, with every error
 * that fits. It never crashes, what it refused is not shown, what it acknowledged is there after
 * a restart. And the same while it starts.
 */
#include "fault_disk.h"
#include "fake_socket.h"
#include "part.h"
#include "point.h"
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

/*
 * Whether appends work again by themselves when the fault is over. Until they do, the store refuses
 * everything after a batch that failed, until a restart.
 */
#define STORE_RESUMES true

#define WRONG_SHOWN 8

/* There is no power disk: everything that is noted happened at 0. */
#define AFTER_ALL 1

struct outcome {
	size_t runs;
	size_t hits; /* runs in which the fault came */
	size_t wrong;
};

/** A way to fail a kind of call. */
struct way {
	enum disk_call kind;
	int error;
	bool is_short;
	bool only_once; /* no file system does it for ever */
	bool tears;
};

static const struct way ways[] = {
	{CALL_OPENAT, EMFILE, false, false, false},
	{CALL_OPENAT, ENOMEM, false, false, false},
	{CALL_OPENAT, ENOSPC, false, false, false},
	{CALL_OPENAT, EIO, false, false, false},
	{CALL_DUP, EMFILE, false, false, false},
	{CALL_READ, EIO, false, false, false},
	{CALL_READ, EINTR, false, true, false},
	{CALL_READ, 0, true, false, false},
	{CALL_PREAD, EIO, false, false, false},
	{CALL_PREAD, 0, true, false, false},
	{CALL_WRITE, ENOSPC, false, false, false},
	{CALL_WRITE, EIO, false, false, false},
	{CALL_WRITE, EDQUOT, true, false, false},
	{CALL_WRITE, EIO, false, false, true},
	{CALL_WRITE, EINTR, false, true, false},
	{CALL_WRITE, 0, true, false, false},
	{CALL_FDATASYNC, EIO, false, false, false},
	{CALL_FDATASYNC, ENOSPC, false, false, false},
	{CALL_FSYNC, EIO, false, false, false},
	{CALL_FTRUNCATE, EIO, false, false, false},
	{CALL_FALLOCATE, ENOSPC, false, false, false},
	{CALL_FALLOCATE, EOPNOTSUPP, false, false, false},
	{CALL_RENAMEAT, ENOSPC, false, false, false},
	{CALL_RENAMEAT, EIO, false, false, false},
	{CALL_UNLINKAT, EIO, false, false, false},
	{CALL_MKDIRAT, ENOSPC, false, false, false},
	{CALL_MKDIRAT, EMFILE, false, false, false},
	{CALL_ANY, EIO, false, false, false},
	{CALL_ANY, ENOSPC, true, false, false},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* The run under way, for a failure that ends the test. */
static char now[160];

static void name_run(const char *when, const struct fault *fault)
{
	snprintf(now, sizeof(now), "%s, %s %zu %s: %s%s", when, fault_disk_name(fault->kind),
		fault->nth, fault->lasts ? "and all after it" : "once",
		fault->is_short ? "cut short, then "
		: fault->tears  ? "torn, and "
				: "",
		fault->error ? strerror(fault->error) : "-");
}

static int teardown(void **state)
{
	if (now[0]) {
		fprintf(stderr, "%s fails\n", now);
	}
	return 0;
}

static void tell(struct outcome *outcome, const struct buffer *why)
{
	if (outcome->wrong++ < WRONG_SHOWN) {
		fprintf(stderr, "%s: %.*s\n", now, (int)why->len, why->data);
	}
}

static void limit(struct rig *rig)
{
	rig->limits.segment_size = 3000;
	rig->limits.hot_tail_size = 64 << 20;
	rig->limits.journal_retry_ms = 1;
	rig->limits.prune_ms = RIG_NEVER;
	rig->limits.prune_size = 1;
}

/** Everything is as it was acknowledged, and goes on, on a disk that is well again. */
static void check_restart(const struct witness *w, const char *dir, struct buffer *why)
{
	struct rig rig;
	rig_init_on(&rig, dir);
	limit(&rig);
	if (rig_open(&rig) < 0) {
		buffer_printf(why, "it does not open: %s", rig.why ? rig.why : "?");
	} else if (witness_check(w, AFTER_ALL, &rig, why)) {
		witness_goes_on(w, AFTER_ALL, &rig, why);
	}
	rig_finish(&rig);
}

/* --- while the server runs --- */

/** The disk is well again: so is the server. */
static void expect_resumed(struct witness *w, struct buffer *why)
{
	static const struct storm after = {.seed = 99, .steps = 8};
	rig_wait_for_store(w->rig);
	size_t refused = w->refused;
	storm_run(&after, w);
	if (w->refused != refused) {
		buffer_append_str(why, "appends are refused when the fault is over; ");
	}
}

/** What was refused for good does not come back, what is in doubt may. Takes over `dir`. */
static void kill_it(struct witness *w, char *dir, struct buffer *why)
{
	struct rig rig;
	w->is_killed = true;
	rig_init_on(&rig, dir);
	limit(&rig);
	if (rig_open(&rig) < 0) {
		buffer_printf(why, "killed, it does not open: %s; ", rig.why ? rig.why : "?");
	} else if (!witness_check(w, AFTER_ALL, &rig, why)) {
		buffer_append_str(why, "(when it is killed) ");
	}
	w->is_killed = false;
	rig_finish(&rig);
	rig_remove_dir(dir);
	free(dir);
}

static void run_fault(const struct storm *storm, const struct fault *fault, struct outcome *outcome)
{
	struct rig rig;
	struct witness w;
	struct buffer why = {0};
	name_run(storm->prunes ? "while it prunes" : "while it runs", fault);
	rig_init(&rig);
	limit(&rig);
	rig.limits.keep_events = storm->prunes ? 3 : 0;
	witness_init(&w, &rig, NULL);
	w.takes_back = STORE_RESUMES;
	w.is_helpless = !STORE_RESUMES && fault->kind == CALL_ANY && fault->lasts;
	assert_int_equal(witness_open(&w), 0);
	fault_disk_put(fault);
	storm_run(storm, &w);
	outcome->runs++;
	outcome->hits += fault_disk_hits() > 0;
	/* Whoever kills it now finds what the disk has of it by then. */
	fault_disk_pause();
	char *killed = fault->lasts && rig.is_failing ? rig_copy_dir(rig.dir) : NULL;
	fault_disk_go_on();
	fault_disk_mend();
	if (killed) {
		kill_it(&w, killed, &why);
	}
	witness_settle(&w);
	witness_reload(&w);
	if (STORE_RESUMES) {
		expect_resumed(&w, &why);
	}
	witness_close(&w);
	fault_disk_take_away();
	buffer_append(&why, w.wrong.data, w.wrong.len);
	check_restart(&w, rig.dir, &why);
	if (why.len) {
		tell(outcome, &why);
	}
	buffer_finish(&why);
	witness_finish(&w);
	rig_finish(&rig);
}

/** How many calls of each kind there are when nothing fails. */
static void count_calls(const struct storm *storm, size_t counts[CALL_COUNT + 1])
{
	struct rig rig;
	struct witness w;
	rig_init(&rig);
	limit(&rig);
	rig.limits.keep_events = storm->prunes ? 3 : 0;
	witness_init(&w, &rig, NULL);
	assert_int_equal(witness_open(&w), 0);
	fault_disk_put(NULL);
	storm_run(storm, &w);
	for (enum disk_call kind = 0; kind <= CALL_ANY; kind++) {
		counts[kind] = fault_disk_count(kind);
	}
	witness_close(&w);
	fault_disk_take_away();
	assert_int_equal(w.wrong.len, 0);
	witness_finish(&w);
	rig_finish(&rig);
}

static struct fault fault_of(const struct way *way, size_t nth, bool lasts)
{
	return (struct fault){.kind = way->kind,
		.nth = nth,
		.error = way->error,
		.is_short = way->is_short,
		.tears = way->tears,
		.lasts = lasts};
}

static void print_outcome(const char *what, const struct outcome *outcome)
{
	now[0] = '\0';
	print_message("%s: %zu runs, the fault came in %zu, %zu of them wrong\n", what,
		outcome->runs, outcome->hits, outcome->wrong);
}

/** Every call of every kind fails, once and from then on. */
static void fail_each_call(const struct storm *storm, const char *what)
{
	size_t counts[CALL_COUNT + 1];
	struct outcome outcome = {0};
	count_calls(storm, counts);
	for (size_t i = 0; i < WAYS; i++) {
		for (size_t nth = 0; nth < counts[ways[i].kind]; nth++) {
			struct fault fault = fault_of(&ways[i], nth, false);
			if (part_has_next()) {
				run_fault(storm, &fault, &outcome);
			}
			fault.lasts = true;
			if (!ways[i].only_once && part_has_next()) {
				run_fault(storm, &fault, &outcome);
			}
		}
	}
	print_message("%zu calls\n", counts[CALL_ANY]);
	print_outcome(what, &outcome);
	assert_int_equal(outcome.wrong, 0);
}

static void what_is_refused_is_not_shown(void **state)
{
	struct storm storm = {.seed = 4711, .steps = 50};
	fail_each_call(&storm, "while it runs");
	(void)state;
}

static void what_cannot_be_pruned_stays(void **state)
{
	struct storm storm = {.seed = 90125, .steps = 30, .prunes = true};
	fail_each_call(&storm, "while it prunes");
	(void)state;
}

/* --- while it starts --- */

/**
 * What kill -9 leaves: a copy of a running server's directory, with a batch and a line half
 * written.
 */
static char *take_copy(const struct storm *storm, struct rig *rig, struct witness *w)
{
	static const char torn[] = "{\"seq\":torn in the middle of a word";
	struct buffer path = {0};
	rig_init(rig);
	limit(rig);
	witness_init(w, rig, NULL);
	storm_run(storm, w);
	char *dir = rig_copy_dir(rig->dir);
	witness_close(w);
	assert_int_equal(w->wrong.len, 0);
	uv_timer_stop(&rig->guard); /* this loop stands still from here on */
	uint64_t number;
	size_t size;
	workload_newest_segment(dir, &number, &size, &path);
	file_put(path.data, size, torn, strlen(torn));
	log_path(&path, dir, "a", "events.jsonl");
	file_append(path.data, torn, strlen(torn));
	buffer_finish(&path);
	return dir;
}

/** Sessions that could not be read are there once they can be. */
static void check_return(const struct witness *w, struct rig *rig, struct buffer *why)
{
	uv_timer_again(&rig->guard);
	while (witness_missing(w, rig)) {
		uv_run(&rig->loop, UV_RUN_ONCE);
	}
	rig_wait_for_store(rig);
	if (!witness_check(w, AFTER_ALL, rig, why)) {
		buffer_append_str(why, "(when the disk works again) ");
	}
}

/**
 * A start either fails, and says why, or is whole, but for sessions whose files give EIO, which
 * come back later; and it has spoilt nothing for the next one.
 */
static void run_start(
	struct witness *w, const char *from, const struct fault *fault, struct outcome *outcome)
{
	struct rig rig;
	struct buffer why = {0};
	name_run("while it starts", fault);
	char *dir = rig_copy_dir(from);
	rig_init_on(&rig, dir);
	limit(&rig);
	fault_disk_put(fault);
	w->may_miss = fault->error == EIO;
	w->is_unreadable = true;
	if (rig_open(&rig) == 0) {
		witness_check(w, AFTER_ALL, &rig, &why);
		fault_disk_mend();
		w->may_miss = w->is_unreadable = false;
		check_return(w, &rig, &why);
	} else if (!rig.why || !*rig.why) {
		buffer_append_str(&why, "it does not say why; ");
	}
	rig_finish(&rig);
	outcome->runs++;
	outcome->hits += fault_disk_hits() > 0;
	fault_disk_take_away();
	w->may_miss = w->is_unreadable = false;
	check_restart(w, dir, &why);
	if (why.len) {
		tell(outcome, &why);
	}
	buffer_finish(&why);
	rig_remove_dir(dir);
	free(dir);
}

static void count_calls_of_start(const char *from, size_t counts[CALL_COUNT + 1])
{
	struct rig rig;
	char *dir = rig_copy_dir(from);
	rig_init_on(&rig, dir);
	limit(&rig);
	fault_disk_put(NULL);
	assert_int_equal(rig_open(&rig), 0);
	for (enum disk_call kind = 0; kind <= CALL_ANY; kind++) {
		counts[kind] = fault_disk_count(kind);
	}
	rig_finish(&rig);
	fault_disk_take_away();
	rig_remove_dir(dir);
	free(dir);
}

static void a_start_that_fails_spoils_nothing(void **state)
{
	struct outcome outcome = {0};
	for (size_t steps = 30; steps <= 50; steps += 10) {
		struct storm storm = {.seed = 4711, .steps = steps};
		struct rig rig;
		struct witness w;
		size_t counts[CALL_COUNT + 1];
		char *dir = take_copy(&storm, &rig, &w);
		count_calls_of_start(dir, counts);
		for (size_t i = 0; i < WAYS; i++) {
			for (size_t nth = 0; nth < counts[ways[i].kind]; nth++) {
				struct fault fault = fault_of(&ways[i], nth, false);
				if (part_has_next()) {
					run_start(&w, dir, &fault, &outcome);
				}
				fault.lasts = true;
				if (!ways[i].only_once && part_has_next()) {
					run_start(&w, dir, &fault, &outcome);
				}
			}
		}
		rig_remove_dir(dir);
		free(dir);
		witness_finish(&w);
		rig_finish(&rig);
	}
	print_outcome("while it starts", &outcome);
	assert_int_equal(outcome.wrong, 0);
	(void)state;
}

/* --- what could not be deleted --- */

static bool has_segment(const struct rig *rig, unsigned number)
{
	struct buffer path = {0};
	buffer_printf(&path, "%s/journal/%016x.journal", rig->dir, number);
	bool has = access(buffer_cstr(&path), F_OK) == 0;
	buffer_finish(&path);
	return has;
}

/** Makes the next batch go to a new segment, and waits until those before it have gone. */
static void rotate(struct rig *rig)
{
	char text[4000];
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	rig_say(rig_session(rig, "a"), text);
	rig_settle(rig);
	rig_put(rig_session(rig, "a"), "turn_end", "{}");
	rig_settle(rig);
}

static void a_segment_that_stays_goes_with_the_next_ones(void **state)
{
	struct fault fault = {.kind = CALL_UNLINKAT, .error = EIO};
	struct rig rig;
	rig_init(&rig);
	limit(&rig);
	assert_int_equal(rig_open(&rig), 0);
	fault_disk_put(&fault);
	rotate(&rig);
	assert_int_equal(fault_disk_hits(), 1);
	assert_true(has_segment(&rig, 1));
	assert_true(has_segment(&rig, 2));
	rotate(&rig);
	assert_false(has_segment(&rig, 1));
	assert_false(has_segment(&rig, 2));
	assert_true(has_segment(&rig, 3));
	fault_disk_take_away();
	rig_finish(&rig);
	(void)state;
}

/** Its making is refused, but a copy of it may be on disk: nobody hears that it is gone for good.
 */
static void a_making_that_fails_is_not_final(void **state)
{
	struct rig rig;
	struct fake_socket socket;
	rig_init(&rig);
	rig.limits.journal_retry_ms = 1;
	assert_int_equal(rig_open(&rig), 0);
	fault_disk_put(&(struct fault){.kind = CALL_FDATASYNC, .error = EIO});
	struct session *session = rig_session(&rig, "s");
	fake_socket_open(&socket, session_channel(session), DELTAS_NONE);
	rig_settle(&rig);
	rig_wait_for_store(&rig);
	fault_disk_take_away();
	fake_socket_expect(&socket, "connected; error");
	assert_int_equal(socket.closed, 1011);
	assert_int_equal(session_table_count(rig.table), 0);
	fake_socket_finish(&socket);
	rig_finish(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_making_that_fails_is_not_final),
		cmocka_unit_test(a_segment_that_stays_goes_with_the_next_ones),
		cmocka_unit_test_teardown(what_is_refused_is_not_shown, teardown),
		cmocka_unit_test_teardown(what_cannot_be_pruned_stays, teardown),
		cmocka_unit_test_teardown(a_start_that_fails_spoils_nothing, teardown),
	};
	point_use_memory();
	/* Batches and checkpoints in one order, so that a failure comes again. */
	setenv("UV_THREADPOOL_SIZE", "1", 1);
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests_name("disk fault", tests, NULL, NULL);
}
