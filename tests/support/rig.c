#include "rig.h"

#include "core/store/embedded/embedded.h"
#include "memory_engine.h"
#include "core/session/session_internal.h"
#include "holdfast/session_elsewhere.h"
#include "holdfast/store_postgres.h"

#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* A test that waits for something that does not come fails after this, instead of hanging. */
#define GUARD_MS 20000
#define BEAT_MS  10

/* --- directories --- */

static char *make_dir(void)
{
	const char *parent = getenv("TMPDIR");
	struct buffer path = {0};
	buffer_printf(&path, "%s/holdfast-test-XXXXXX", parent ? parent : "/tmp");
	char *dir = xstrdup(buffer_cstr(&path));
	buffer_finish(&path);
	if (!mkdtemp(dir)) {
		fail_msg("cannot make a directory for the test");
	}
	return dir;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void rig_remove_dir(const char *dir)
{
	nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* nftw() has no room for an argument: one copy at a time. */
static struct {
	size_t from_len;
	const char *to;
} copy;

static void copy_file(const char *from, const char *to)
{
	char bytes[65536];
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n;
	while ((n = read(in, bytes, sizeof(bytes))) > 0) {
		assert_int_equal(write(out, bytes, (size_t)n), n);
	}
	assert_int_equal(n, 0);
	close(in);
	close(out);
}

static int copy_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	struct buffer to = {0};
	buffer_printf(&to, "%s%s", copy.to, path + copy.from_len);
	if (type == FTW_D) {
		mkdir(buffer_cstr(&to), 0700);
	} else {
		copy_file(path, buffer_cstr(&to));
	}
	buffer_finish(&to);
	return 0;
}

char *rig_copy_dir(const char *from)
{
	char *to = make_dir();
	copy.from_len = strlen(from);
	copy.to = to;
	nftw(from, copy_entry, 16, FTW_PHYS);
	return to;
}

/* --- what the table tells --- */

__attribute__((format(printf, 2, 3))) static void tell(struct rig *rig, const char *fmt, ...)
{
	char text[200];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	buffer_printf(&rig->told, "%s%s", rig->told.len ? "; " : "", text);
}

static void handle_prompt_due(void *owner, struct session *session, uint64_t seq,
	const char *message, size_t len, const struct json_t *content)
{
	tell(owner, "prompt %s %llu %.*s", session_id(session), (unsigned long long)seq, (int)len,
		message);
}

static void handle_answered(
	void *owner, struct session *session, const char *request_id, const char *option_id)
{
	tell(owner, "answered %s %s", request_id, option_id ? option_id : "-");
}

static void handle_changed(void *owner, struct session *session)
{
}

static void handle_deleted(void *owner, struct session *session)
{
	tell(owner, "deleted %s", session_id(session));
}

static void handle_moved(void *owner, struct session *session)
{
	tell(owner, "moved %s", session_id(session));
}

static void handle_store_failed(void *owner, int error)
{
	((struct rig *)owner)->is_failing = true;
	tell(owner, "store failed: %s", strerror(-error));
}

static void handle_store_revived(void *owner)
{
	((struct rig *)owner)->is_failing = false;
	tell(owner, "store revived");
}

static void handle_returned(void *owner, struct session *session)
{
	tell(owner, "returned %s", session_id(session));
}

static void handle_beat(uv_timer_t *timer)
{
}

/**
 * uv_run() runs timers and then waits for more, also if they were what the test waits for: it does
 * not wait long.
 */
static void run_once(struct rig *rig)
{
	uv_timer_start(&rig->beat, handle_beat, BEAT_MS, 0);
	uv_run(&rig->loop, UV_RUN_ONCE);
	uv_timer_stop(&rig->beat);
}

void rig_wait_for_store(struct rig *rig)
{
	uv_timer_again(&rig->guard);
	while (rig->is_failing) {
		run_once(rig);
	}
}

void rig_expect_told(struct rig *rig, const char *what)
{
	assert_string_equal(buffer_cstr(&rig->told), what);
	buffer_clear(&rig->told);
}

/* --- life --- */

static void handle_prepare(uv_prepare_t *prepare)
{
	struct rig *rig = prepare->data;
	if (rig->table) {
		session_table_end_tick(rig->table);
	}
}

static void handle_guard(uv_timer_t *timer)
{
	fail_msg("the test waits for something that does not come");
}

void rig_init_on(struct rig *rig, const char *dir)
{
	*rig = (struct rig){.limits = *limits_default(), .dir = xstrdup(dir)};
	rig->limits.journal_ahead = 100; /* so that every byte of it can be spoilt */
	rig_set_timeouts(rig, RIG_NEVER);
	clock_init(&rig->clock);
	rig->clock.sync = CLOCK_SYNC_YES;
	assert_int_equal(uv_loop_init(&rig->loop), 0);
	uv_prepare_init(&rig->loop, &rig->prepare);
	uv_timer_init(&rig->loop, &rig->guard);
	uv_timer_init(&rig->loop, &rig->beat);
	rig->prepare.data = rig;
	uv_prepare_start(&rig->prepare, handle_prepare);
	uv_timer_start(&rig->guard, handle_guard, GUARD_MS, GUARD_MS);
}

void rig_init(struct rig *rig)
{
	char *dir = make_dir();
	rig_init_on(rig, dir);
	free(dir);
	rig->owns_dir = true;
}

void rig_init_in_memory(struct rig *rig)
{
	rig_init_on(rig, "");
	rig->memory = memory_create();
}

void rig_init_in_postgres(struct rig *rig, const char *address)
{
	rig_init(rig);
	rig->database = address;
}

void rig_finish(struct rig *rig)
{
	rig_close(rig);
	memory_destroy(rig->memory);
	uv_close((uv_handle_t *)&rig->prepare, NULL);
	uv_close((uv_handle_t *)&rig->guard, NULL);
	uv_close((uv_handle_t *)&rig->beat, NULL);
	uv_run(&rig->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&rig->loop), 0);
	if (rig->owns_dir) {
		rig_remove_dir(rig->dir);
	}
	buffer_finish(&rig->told);
	free(rig->why);
	free(rig->dir);
}

struct store_place rig_place(const struct rig *rig)
{
	return (struct store_place){.life = (struct server_life *)&rig->life,
		.dir = rig->dir,
		.durability = rig->durability,
		.engine = rig->memory     ? &memory_engine
			  : rig->database ? store_postgres.engine
					  : NULL,
		.node_address = rig->node_address,
		.takes_older = rig->takes_older,
		.engine_arg = rig->memory ? (void *)rig->memory : (void *)rig->database};
}

int rig_open_for(struct rig *rig, const struct session_ops *ops, void *owner)
{
	free(rig->why);
	rig->why = NULL;
	rig->life = (struct server_life){0};
	int r = session_table_open(&(struct session_table_config){.loop = &rig->loop,
					   .limits = &rig->limits,
					   .clock = &rig->clock,
					   .metrics = rig->metrics,
					   .place = rig_place(rig),
					   .ops = ops,
					   .owner = owner,
					   .elsewhere = &session_elsewhere_ops},
		&rig->table, &rig->why);
	if (r == 0) {
		server_reach(&rig->life, SERVER_SERVING);
	}
	return r;
}

int rig_open(struct rig *rig)
{
	static const struct session_ops ops = {
		.prompt_due = handle_prompt_due,
		.answered = handle_answered,
		.changed = handle_changed,
		.deleted = handle_deleted,
		.moved = handle_moved,
		.store_failed = handle_store_failed,
		.store_revived = handle_store_revived,
		.returned = handle_returned,
	};
	return rig_open_for(rig, &ops, rig);
}

void rig_close(struct rig *rig)
{
	/*
	 * On a busy machine, work such as the renewal of a lease may outlast limits.stop_wait_ms. A
	 * server ends then, and the kernel frees what it has; here, the lock of the directory and
	 * the handles of the loop would stay, and both the next start and the end say EBUSY.
	 */
	while (!session_table_close(rig->table)) {
	}
	rig->table = NULL;
	uv_run(&rig->loop, UV_RUN_NOWAIT);
}

/* --- time --- */

void rig_pass(struct rig *rig, int64_t ms)
{
	rig->clock.wall_shift_ms += ms;
	rig->clock.elapsed_shift_ms += ms;
}

void rig_set_clock(struct rig *rig, int64_t ms)
{
	rig->clock.wall_shift_ms += ms;
}

void rig_turn(struct rig *rig)
{
	uv_timer_again(&rig->guard);
	uv_run(&rig->loop, UV_RUN_NOWAIT);
}

static bool is_at_work(const struct rig *rig)
{
	const struct store *store = rig->table->store;
	bool is_embedded = !rig->memory && !rig->database;
	const struct journal *journal = is_embedded ? &embedded_of(store)->journal : NULL;
	return session_table_backlog(rig->table) || rig->loop.active_reqs.count ||
	       (journal ? journal->in_flight || journal->wants_run : store->jobs);
}

void rig_settle(struct rig *rig)
{
	uv_timer_again(&rig->guard);
	session_table_end_tick(rig->table);
	while (is_at_work(rig)) {
		run_once(rig);
		store_kick(rig->table->store);
	}
	session_table_end_tick(rig->table);
}

void rig_wait_for_launch(struct rig *rig, int64_t lsn)
{
	uv_timer_again(&rig->guard);
	while (!rig->is_failing &&
		embedded_of(rig->table->store)->journal.flight_lsn < (uint64_t)lsn) {
		run_once(rig);
	}
}

void rig_set_timeouts(struct rig *rig, int64_t ms)
{
	struct limits *limits = &rig->limits;
	limits->soft_flush_ms = limits->idle_flush_ms = limits->idle_block_flush_ms = ms;
	limits->hold_ms = limits->hold_fence_ms = limits->thought_flush_ms = ms;
}

void rig_wait_for_seq(struct rig *rig, struct session *session, uint64_t seq)
{
	uv_timer_again(&rig->guard);
	while (session_channel(session)->max_seq < seq) {
		session_table_end_tick(rig->table);
		run_once(rig);
	}
}

/* --- sessions --- */

struct session *rig_session(struct rig *rig, const char *id)
{
	struct session *session = session_table_get(rig->table, id, strlen(id));
	if (!session) {
		assert_int_equal(session_create(rig->table, id, &(struct session_wish){.title = id},
					 &session),
			0);
	}
	return session;
}

static uint64_t input(struct session *session, const struct input_event *in)
{
	uint64_t seq;
	bool duplicate;
	assert_int_equal(session_input(session, in, &seq, &duplicate), 0);
	return seq;
}

uint64_t rig_say(struct session *session, const char *text)
{
	return input(session,
		&(struct input_event){
			.type = EVENT_MESSAGE_CHUNK, .data = text, .data_len = strlen(text)});
}

uint64_t rig_think(struct session *session, const char *text)
{
	return input(session,
		&(struct input_event){
			.type = EVENT_THOUGHT_CHUNK, .data = text, .data_len = strlen(text)});
}

uint64_t rig_put(struct session *session, const char *type, const char *data)
{
	return input(session, &(struct input_event){.type = event_type_of(type, strlen(type)),
				      .type_name = type,
				      .type_len = strlen(type),
				      .data = data,
				      .data_len = strlen(data)});
}

int rig_dir_set_up(void **state)
{
	*state = make_dir();
	return 0;
}

int rig_dir_tear_down(void **state)
{
	rig_remove_dir(*state);
	free(*state);
	return 0;
}
