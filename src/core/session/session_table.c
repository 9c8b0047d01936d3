/* The table of all sessions: the store and its callbacks; creates, finds and deletes sessions. */
#include "session_internal.h"

#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* --- callbacks of the store --- */

static void handle_synced(void *owner, uint64_t lsn)
{
	struct session_table *table = owner;
	/* A commit may make other sessions dirty again, but only by inputs of the next batch. */
	struct list due;
	list_init(&due);
	list_move_all(&due, &table->dirty);
	while (!list_empty(&due)) {
		struct session *session = list_entry(due.next, struct session, dirty_link);
		list_remove(&session->dirty_link);
		list_append(&table->dirty, &session->dirty_link);
		session_commit(session, lsn);
	}
}

/** The creation of a session is among the lost records: it never existed. */
static void forget(struct session *session)
{
	struct session_table *table = session->table;
	struct session_log *log = session->log;
	channel_taken_back(&session->channel);
	if (server_may(table->life, MAY_TELL)) {
		table->ops->deleted(table->owner, session);
	}
	session_free(session);
	session_room_uncount(table, log);
	store_remove_session(log);
}

/**
 * Returns lost sessions to their durable state; their inputs since then were refused. -EBUSY while
 * some remain in table.lost, because their records must be read from the journal first.
 */
static int take_back(struct session_table *table)
{
	bool must_read = false;
	list_for_each_safe(link, tmp, &table->lost) {
		struct session *session = list_entry(link, struct session, dirty_link);
		if ((uint64_t)session->created_lsn > store_synced_lsn(table->store)) {
			forget(session);
		} else if (session_rewind_begin(session)) {
			session_log_rewind(session->log);
			must_read = true;
		} else {
			list_remove(&session->dirty_link);
			session_rewind_end(session);
		}
	}
	return must_read ? -EBUSY : 0;
}

static void handle_rewound(void *owner, int status)
{
	struct session_table *table = owner;
	if (status < 0) {
		diag(DIAG_ERROR, "the %s cannot be read either: %s",
			store_storage(table->store) == STORAGE_DATABASE ? "database" : "journal",
			strerror(-status));
		return;
	}
	while (!list_empty(&table->lost)) {
		struct session *session = list_entry(table->lost.next, struct session, dirty_link);
		list_remove(&session->dirty_link);
		session_rewind_end(session);
	}
}

static void handle_failed(void *owner, int error, uint64_t in_doubt_lsn)
{
	struct session_table *table = owner;
	list_for_each_safe(link, tmp, &table->dirty) {
		struct session *session = list_entry(link, struct session, dirty_link);
		session_fail(session, error, in_doubt_lsn);
		list_append(&table->lost, &session->dirty_link);
	}
	take_back(table);
	table->ops->store_failed(table->owner, error);
}

static int handle_rewind(void *owner)
{
	return take_back(owner);
}

static void touch(struct session *session, void *arg)
{
	session_touch(session);
}

static void handle_revived(void *owner)
{
	struct session_table *table = owner;
	session_table_each(table, touch, NULL); /* refused flushes become due again */
	table->ops->store_revived(table->owner);
}

/**
 * Completes the recovery of a session. If the journal had no snapshot of it, or ends before its
 * log, it continues from the end of the log. The latter happens without fdatasync: a power cut can
 * lose the end of the journal and keep that of the log.
 */
static void settle(struct session *session, void *arg)
{
	uint64_t last = session_log_last_seq(session->log);
	if (!session->has_snapshot || stream_buffer_emitted_seq(session->state.stream) < last) {
		if (session->has_snapshot) {
			diag(DIAG_WARN,
				"session %s: its records end before seq %llu, where its log ends; what was open or held there is lost",
				session_id(session), (unsigned long long)last);
		}
		session_follow_log(session);
	}
	/* Else the log would take the next names for some that it has. */
	uint64_t names = session_log_input_names(session->log);
	if (session->state.facts.input_names < names) {
		session->state.facts.input_names = names;
	}
	session_log_load_names(session->log, NULL); /* its agent's inputs cannot wait for them */
	session_show_recovered(session);
}

static void *handle_found(void *owner, struct session_log *log)
{
	return session_new(owner, log);
}

/** Loads a session that has a turn or agent running, even if the journal has no records of it. */
static void find_busy(struct session_log *log, void *arg)
{
	const struct session_facts *facts = session_facts(log);
	if (!session_log_owner(log) && (facts->in_turn || facts->agent_running)) {
		session_log_set_owner(log, handle_found(arg, log));
	}
}

static void handle_snapshot(void *owner)
{
	struct session *session = owner;
	if (!session_usage_give_log(session) || !session_state_is_idle(&session->state)) {
		session_journal_snapshot(session);
	}
}

static struct session *wake(struct session_table *table, struct session_log *log);

/** A left-out session can be read again, and is treated as if it had been read at the start. */
static void handle_returned(void *owner, struct session_log *log)
{
	struct session_table *table = owner;
	session_room_count(log, table);
	find_busy(log, table);
	struct session *session = session_log_owner(log);
	if (!session) {
		session = wake(table, log);
	} else {
		settle(session, NULL);
		handle_snapshot(session);
	}
	session_log_save(log);
	session->object_changed = true;
	session_elsewhere_note(table, session_id(session));
	table->ops->returned(table->owner, session);
}

static void handle_recovered(void *owner)
{
	struct session_table *table = owner;
	table->recovering = false;
	store_each_session(table->store, find_busy, table);
	session_table_each(table, settle, NULL);
}

static const struct clock *handle_clock(void *owner)
{
	return ((struct session_table *)owner)->clock;
}

/** An open permission request must remain in the log for those who may answer it. */
static bool handle_may_prune(void *owner)
{
	const struct session *session = owner;
	return !session_state_count_asked(&session->state);
}

static void handle_append_waiting(void *owner, struct buffer *out)
{
	const struct session *session = owner;
	prompt_queue_append_list(out, session->state.queue, 0);
}

static int handle_replay(void *owner, const struct record *record)
{
	struct session *session = owner;
	if (record->kind == RECORD_SNAPSHOT) {
		session->has_snapshot = true;
	} else if (!session->has_snapshot) {
		return -EBADMSG;
	}
	bool was_recovering = session->table->recovering;
	session->table->recovering = true;
	uint64_t seq;
	int r = session_apply(session, record, NULL, &seq);
	session->table->recovering = was_recovering;
	return r;
}

static void handle_fenced(struct session_log *log, void *owner)
{
	struct session_table *table = owner;
	struct session *session = session_log_owner(log);
	session_room_uncount(table, log);
	if (!session) {
		return;
	}
	session_fail(session, -EIO, UINT64_MAX); /* the next owner may have found these inputs */
	channel_moved(&session->channel);
	if (server_may(table->life, MAY_TELL)) {
		table->ops->moved(table->owner, session);
	}
	session_free(session);
}

static void handle_lost(void *owner)
{
	session_free(owner);
}

/* --- life --- */

int session_table_open(
	const struct session_table_config *config, struct session_table **ret_table, char **ret_why)
{
	static const struct store_ops store_ops = {
		.facts = &session_facts_ops,
		.synced = handle_synced,
		.failed = handle_failed,
		.rewind = handle_rewind,
		.rewound = handle_rewound,
		.revived = handle_revived,
		.snapshot = handle_snapshot,
		.clock = handle_clock,
		.may_prune = handle_may_prune,
		.pruned = session_handle_pruned,
		.append_waiting = handle_append_waiting,
		.is_foreign = session_snapshot_is_foreign,
		.found = handle_found,
		.replay = handle_replay,
		.returned = handle_returned,
		.lost = handle_lost,
		.fenced = handle_fenced,
		.recovered = handle_recovered,
	};
	struct session_table *table = xcalloc(1, sizeof(*table));
	*table = (struct session_table){.loop = config->loop,
		.life = config->place.life,
		.limits = config->limits,
		.clock = config->clock,
		.metrics = config->metrics,
		.turns = config->turns,
		.ops = config->ops,
		.owner = config->owner,
		.recovering = true};
	list_init(&table->live);
	list_init(&table->dirty);
	list_init(&table->lost);
	list_init(&table->touched);
	list_init(&table->ready);
	table->numbers = json_numbers_create();
	table->makers = hash_create();
	table->evict_timer = loop_timer(config->loop, table);
	int r = store_open(config->loop, &config->place, config->limits, &store_ops, table,
		&table->store, ret_why);
	if (r < 0) {
		session_table_close(table);
		return r;
	}
	store_count(table->store, config->metrics);
	store_each_session(table->store, session_room_count, table);
	session_watch_clock(table);
	session_elsewhere_begin(table, config);
	*ret_table = table;
	return 0;
}

/** Ends the waits that were decided when they began: already durable, or lost. */
static void end_ready_waits(struct session_table *table)
{
	while (!list_empty(&table->ready)) {
		struct durable_wait *wait =
			list_entry(table->ready.next, struct durable_wait, link);
		list_remove(&wait->link);
		wait->done(wait, wait->lsn == WAIT_REFUSED ? -EIO : 0);
	}
}

static void free_session(struct session *session, void *arg)
{
	if (session->table->store) { /* else it could not be opened, and its logs are freed */
		session_log_set_owner(session->log, NULL);
	}
	session_free(session);
}

bool session_table_close(struct session_table *table)
{
	if (!table) {
		return true;
	}
	server_reach(table->life, SERVER_CLOSED);
	session_unwatch_clock(table);
	if (table->store) {
		store_sync(table->store);
		end_ready_waits(table);
	}
	session_table_each(table, free_session, NULL);
	if (!store_close(table->store)) {
		return false;
	}
	json_numbers_destroy(table->numbers);
	session_room_finish(table);
	session_elsewhere_end(table);
	loop_close(table->evict_timer);
	free(table);
	return true;
}

/** Restores an evicted session from its log. */
static struct session *wake(struct session_table *table, struct session_log *log)
{
	struct session *session = session_new(table, log);
	session_log_set_owner(log, session);
	session_follow_log(session);
	session_show_recovered(session);
	return session;
}

/**
 * Finds a log, unless this node has lost its lease. A node that was suspended may get requests
 * before it notices that; by then other nodes may have shown newer events of its sessions.
 */
static struct session_log *find_log(const struct session_table *table, const char *id, size_t len)
{
	return store_has_lease(table->store) ? store_get_session(table->store, id, len) : NULL;
}

struct session *session_table_get(struct session_table *table, const char *id, size_t len)
{
	struct session_log *log = find_log(table, id, len);
	struct session *session = log ? session_log_owner(log) : NULL;
	if (session && session->has_ended) {
		return NULL;
	}
	return session ? session : log ? wake(table, log) : NULL;
}

enum store_absence session_table_absence(
	const struct session_table *table, const char *id, size_t len)
{
	return store_has_lease(table->store) ? store_absence(table->store, id, len) : STORE_PRESENT;
}

int session_table_delete_damaged(
	struct session_table *table, const char *id, struct place_wait *wait)
{
	return store_delete_damaged(table->store, id, wait);
}

bool session_table_is_shared(const struct session_table *table)
{
	return store_is_shared(table->store);
}

void session_table_seek(struct session_table *table, const char *id, struct place_wait *wait)
{
	store_seek(table->store, id, wait);
}

const unsigned char *session_table_node_key(const struct session_table *table)
{
	return store_node_key(table->store);
}

const struct shelf *session_table_shelf(struct session_table *table)
{
	return store_shelf(table->store);
}

struct session_log *session_table_mirror(
	struct session_table *table, const char *id, const struct log_place *place, void *owner)
{
	return session_log_mirror(table->store, id, place, owner);
}

void session_table_hand_over_most(
	struct session_table *table, bool (*stays)(void *arg, const char *id), void *arg)
{
	server_reach(table->life, SERVER_DRAINING);
	store_hand_over_most(table->store, stays, arg);
}

void session_table_hand_over(struct session_table *table)
{
	server_reach(table->life, SERVER_DRAINING);
	store_hand_over(table->store);
	server_reach(table->life, SERVER_CLOSING);
}

size_t session_table_count(const struct session_table *table)
{
	return store_count_sessions(table->store);
}

size_t session_table_count_live(const struct session_table *table)
{
	return table->live_count;
}

void session_table_each(
	struct session_table *table, void (*visit)(struct session *session, void *arg), void *arg)
{
	/* A visit may move a session within the list, or free it: it has left `left` by then. */
	struct list left;
	list_init(&left);
	list_move_all(&left, &table->live);
	while (!list_empty(&left)) {
		struct session *session = list_entry(left.next, struct session, live_link);
		list_remove(&session->live_link);
		list_append(&table->live, &session->live_link);
		visit(session, arg);
	}
}

/** Gets a session's object; false if the session is deleted, or not durable yet. */
static bool object_of(const struct session_log *log, struct session_object *ret)
{
	const struct session *session = session_log_owner(log);
	if (session) {
		session_get_object(session, ret);
		return session_is_there(session);
	}
	session_log_object(log, ret);
	return true;
}

bool session_table_get_object(
	struct session_table *table, const char *id, size_t len, struct session_object *ret)
{
	const struct session_log *log = find_log(table, id, len);
	return log && object_of(log, ret);
}

void session_table_end_tick(struct session_table *table)
{
	end_ready_waits(table);
	while (!list_empty(&table->touched)) {
		struct session *session =
			list_entry(table->touched.next, struct session, touched_link);
		list_remove(&session->touched_link);
		session_publish(session);
	}
	session_table_evict(table);
	json_numbers_sweep(table->numbers);
	store_kick(table->store);
}

struct json_numbers *session_table_numbers(struct session_table *table)
{
	return table->numbers;
}

size_t session_table_backlog(const struct session_table *table)
{
	return store_backlog(table->store);
}

/* --- creating and deleting --- */

int session_random(uint64_t *ret)
{
	do {
		if (getrandom(ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret)) {
			return -EIO;
		}
	} while (!*ret);
	return 0;
}

/** Appends the data of a RECORD_CREATE. */
static void append_wish(const struct session_wish *wish, struct buffer *out)
{
	const char *const members[][2] = {
		{"sub", wish->sub}, {"agent", wish->agent}, {"cwd", wish->cwd}};
	buffer_append_char(out, '{');
	buffer_append_member(out, "title", wish->title ? wish->title : "");
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		if (members[i][1] && *members[i][1]) {
			buffer_append_member(out, members[i][0], members[i][1]);
		}
	}
	buffer_append_char(out, '}');
}

int session_create(struct session_table *table, const char *id, const struct session_wish *wish,
	struct session **ret_session)
{
	uint64_t epoch;
	uint64_t name;
	char made_up[24];
	if (!server_may(table->life, MAY_CREATE)) {
		return -EIO;
	}
	if (session_random(&epoch) < 0 || session_random(&name) < 0) {
		return -EIO;
	}
	if (!id) {
		snprintf(made_up, sizeof(made_up), "s-%012llx", (unsigned long long)(name >> 16));
		id = made_up;
	}
	if (store_get_session(table->store, id, strlen(id))) {
		return -EEXIST;
	}
	int64_t ts = clock_now_ms(table->clock);
	struct session_log *log;
	struct buffer data = {0};
	append_wish(wish, &data);
	int64_t lsn = store_create_session(table->store, id, epoch, ts, data.data, data.len, &log);
	buffer_finish(&data);
	if (lsn < 0) {
		return lsn == -EEXIST ? -EEXIST : -EIO;
	}
	struct session *session = session_new(table, log);
	session_log_set_owner(log, session);
	session->created_lsn = session->last_lsn = lsn;
	session_room_count(log, table);
	list_append(&table->dirty, &session->dirty_link);
	session_elsewhere_note(table, session_id(session));
	*ret_session = session;
	return 0;
}

static void handle_delete_durable(struct durable_wait *wait, int status)
{
	struct session *session =
		(struct session *)((char *)wait - offsetof(struct session, delete_wait));
	struct session_table *table = session->table;
	if (status < 0) {
		return; /* the session is rewound to its durable state */
	}
	channel_gone(&session->channel, "deleted");
	session_elsewhere_forget(table, session_id(session));
	if (server_may(table->life, MAY_TELL)) {
		table->ops->deleted(table->owner, session);
	}
	session->has_ended = true;
}

int session_delete(struct session *session)
{
	if (session->is_deleted) {
		return -EALREADY;
	}
	if (!server_may(session->table->life, MAY_INPUT)) {
		return -EIO;
	}
	int64_t lsn =
		session_log_append(session->log, RECORD_DELETE, session_next_ts(session), NULL, 0);
	if (lsn < 0) {
		return -EIO;
	}
	session->is_deleted = true;
	session->last_lsn = lsn;
	session->delete_wait.done = handle_delete_durable;
	session_wait_durable(session, &session->delete_wait);
	return 0;
}
