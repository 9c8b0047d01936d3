#include "memory_internal.h"

#include "holdfast/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- a store in it --- */

/** A page or names (read NULL) that are asked for. */
struct request {
	struct list link;
	struct log_read *read;
	char *id;
	uint64_t epoch;
};

struct state {
	struct memory *memory;
	struct list gathered; /* struct part */
	struct list flight;
	uint64_t gather_lsn;
	uint64_t flight_lsn;
	size_t bytes; /* that are gathered */
	bool in_flight;
	bool is_rewinding;
	struct list requests;
	uv_async_t *answer; /* of what was asked for, in the next turn of the loop */
	uv_timer_t *retry;
};

static void handle_answer(uv_async_t *async);
static void handle_retry(uv_timer_t *timer);

static struct state *state_of(const struct store *store)
{
	return store->engine_state;
}

static struct kept_session *session_of(const struct store *store, const char *id)
{
	return hash_get(state_of(store)->memory->sessions, id, strlen(id));
}

static struct part *part_in(struct list *link)
{
	return list_entry(link, struct part, part.link);
}

static struct part *find_part(struct list *parts, const struct session_log *log)
{
	list_for_each(link, parts) {
		if (part_in(link)->part.log == log) {
			return part_in(link);
		}
	}
	return NULL;
}

static struct part *part_of(struct session_log *log)
{
	struct state *state = state_of(log->store);
	struct part *part = find_part(&state->gathered, log);
	if (!part) {
		part = xcalloc(1, sizeof(*part));
		part->part.log = log;
		part->fence = log->fence;
		part->after = log->last_record;
		list_init(&part->records);
		list_append(&state->gathered, &part->part.link);
	}
	return part;
}

static void free_part(struct part *part)
{
	list_remove(&part->part.link);
	log_part_forget(&part->part);
	memory_forget_records(&part->records);
	free(part);
}

static struct log_part *get_part(struct session_log *log)
{
	return &part_of(log)->part;
}

static int64_t append(struct session_log *log, const struct record *record)
{
	struct kept *kept = xmalloc(sizeof(*kept) + record->data_len + 1);
	memcpy(kept->bytes, record->data_len ? record->data : "", record->data_len);
	kept->record = *record;
	kept->record.data = kept->bytes;
	kept->record.id = NULL;
	list_append(&part_of(log)->records, &kept->link);
	state_of(log->store)->bytes += record->data_len + 1;
	return (int64_t)state_of(log->store)->gather_lsn;
}

/* --- a group becomes durable --- */

static void apply(struct state *state)
{
	list_for_each(link, &state->flight) {
		memory_apply(state->memory, part_in(link));
	}
}

/** The log has what is durable, and its names' lines are where the others are. */
static void land(struct part *part)
{
	struct session_log *log = part->part.log;
	struct kept_session *kept = session_of(log->store, log->id);
	log_part_land(&part->part);
	log->written = log->size;
	session_log_trim(log);
	if (kept) {
		buffer_append(&kept->names, log->keys.unwritten.data, log->keys.unwritten.len);
		kept->input_names = log->keys.input_names;
		log->keys.size = kept->names.len;
	}
	buffer_finish(&log->keys.unwritten);
}

static void succeed(struct store *store)
{
	struct state *state = state_of(store);
	while (!list_empty(&state->flight)) {
		struct part *part = part_in(state->flight.next);
		struct session_log *log = part->part.log;
		bool is_fenced = part->is_fenced;
		if (!is_fenced) {
			land(part);
		}
		free_part(part);
		if (is_fenced) {
			store_fenced(log); /* first: the others hear that all is well */
		}
	}
	store_synced(store, state->flight_lsn);
}

static void refuse_all(struct list *parts)
{
	while (!list_empty(parts)) {
		struct part *part = part_in(parts->next);
		part->part.log->last_record = part->after;
		free_part(part);
	}
}

static void fail(struct store *store)
{
	struct state *state = state_of(store);
	refuse_all(&state->gathered);
	refuse_all(&state->flight);
	state->gather_lsn++;
	state->bytes = 0;
	store_failed(store, -EIO, 0);
	if (server_may(store->life, MAY_KEEP_UP)) {
		uv_timer_start(
			state->retry, handle_retry, (uint64_t)store->limits->journal_retry_ms, 0);
	}
}

/**
 * Nobody has said what became of the group. Once the fences are raised, an attempt that is still
 * under way changes nothing; then what the sessions have tells.
 */
static bool settle(struct store *store)
{
	struct state *state = state_of(store);
	bool is_there = false;
	list_for_each(link, &state->flight) {
		struct session_log *log = part_in(link)->part.log;
		struct kept_session *kept = session_of(store, log->id);
		if (kept) {
			log->fence = ++kept->fence;
			is_there = kept->last_record > part_in(link)->after;
		}
	}
	list_for_each(link, &state->gathered) {
		part_in(link)->fence = part_in(link)->part.log->fence;
	}
	return is_there;
}

static bool try_group(struct store *store)
{
	struct state *state = state_of(store);
	enum memory_fault fault = state->memory->fault;
	bool is_there;
	state->memory->fault = MEMORY_WORKS;
	switch (fault) {
	case MEMORY_FAILS:
		return false;
	case MEMORY_ANSWER_IS_LOST:
		apply(state);
		return settle(store);
	case MEMORY_IS_LATE:
		is_there = settle(store);
		apply(state); /* with old fences */
		return is_there;
	default:
		apply(state);
		return true;
	}
}

static void take_flight(struct state *state)
{
	list_move_all(&state->flight, &state->gathered);
	state->flight_lsn = state->gather_lsn++;
	state->bytes = 0;
	state->in_flight = true;
}

static void end_flight(struct store *store)
{
	struct state *state = state_of(store);
	state->in_flight = false;
	if (try_group(store)) {
		succeed(store);
	} else {
		fail(store);
	}
}

/* --- reads --- */

static void answer_read(const struct kept_session *kept, struct log_read *read)
{
	size_t from = (size_t)read->page.from - 1;
	size_t to = (size_t)read->page.to;
	size_t bytes = 0;
	if (!kept || kept->epoch != read->epoch || to > kept->count) {
		read->status = -ENOENT;
		log_read_end(read);
		return;
	}
	if (read->page.is_fixed_at_end) {
		size_t first = to;
		while (first > from &&
			(bytes += event_line_len(kept->events[first - 1])) <= read->max_bytes) {
			first--;
		}
		from = first == to && !read->hot_count ? to - 1 : first;
	}
	for (read->bytes = 0; from < to; from++) {
		size_t len = event_line_len(kept->events[from]);
		if (read->got && !read->page.is_fixed_at_end &&
			read->bytes + len > read->max_bytes) {
			break;
		}
		read->bytes += len;
		read->events[read->got++] = event_ref(kept->events[from]);
	}
	log_read_end(read);
}

static int answer_names(struct session_log *log)
{
	const struct store_facts *facts = log->store->ops->facts;
	const struct kept_session *kept = session_of(log->store, log->id);
	struct name_table names;
	name_table_begin(&names, facts->name_kinds, log->store->by_id.seed);
	int r = kept ? name_lines_take(facts, &names, kept->names.data, kept->names.len) : 0;
	log_keys_loaded(log, &names, r);
	return r;
}

static void answer_requests(struct store *store)
{
	struct list due;
	list_init(&due);
	list_move_all(&due, &state_of(store)->requests);
	while (!list_empty(&due)) {
		struct request *request = list_entry(due.next, struct request, link);
		struct session_log *log = session_log_of(store, request->id, request->epoch);
		list_remove(&request->link);
		store->jobs--;
		if (request->read) {
			answer_read(session_of(store, request->id), request->read);
		} else if (log) {
			answer_names(log);
		}
		free(request->id);
		free(request);
	}
}

static void ask(struct session_log *log, struct log_read *read)
{
	struct request *request = xcalloc(1, sizeof(*request));
	*request = (struct request){.read = read, .id = xstrdup(log->id), .epoch = log->epoch};
	list_append(&state_of(log->store)->requests, &request->link);
	log->store->jobs++;
	uv_async_send(state_of(log->store)->answer);
}

static int load_names(struct session_log *log, bool now)
{
	if (now) {
		return answer_names(log);
	}
	ask(log, NULL);
	return 0;
}

/* --- the loop --- */

static void launch(struct store *store)
{
	struct state *state = state_of(store);
	if (!state->in_flight && !list_empty(&state->gathered)) {
		take_flight(state);
		uv_async_send(state->answer);
	}
}

static int replay_session(struct session_log *log, struct list *records)
{
	int r = 0;
	list_for_each(link, records) {
		struct record record = list_entry(link, struct kept, link)->record;
		record.id = log->id;
		r = r < 0 ? r : store_replay(log, &record);
	}
	return r;
}

static void rewind_logs(struct store *store)
{
	int r = 0;
	state_of(store)->is_rewinding = false;
	store->jobs--;
	list_for_each(link, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		struct kept_session *kept = session_of(store, log->id);
		if (r == 0 && log->rewind && kept) {
			r = replay_session(log, &kept->records);
		}
	}
	store_rewound(store, r);
}

static void begin_rewind(struct store *store)
{
	state_of(store)->is_rewinding = true;
	store->jobs++;
	uv_async_send(state_of(store)->answer);
}

static void handle_answer(uv_async_t *async)
{
	struct store *store = async->data;
	answer_requests(store);
	if (state_of(store)->is_rewinding) {
		rewind_logs(store);
	}
	if (state_of(store)->in_flight) {
		end_flight(store);
		launch(store);
	}
}

static void handle_retry(uv_timer_t *timer)
{
	struct store *store = timer->data;
	if (store_try_again(store) < 0) {
		uv_timer_start(timer, handle_retry, (uint64_t)store->limits->journal_retry_ms, 0);
		return;
	}
	store_take_snapshots(store);
	take_flight(state_of(store));
	end_flight(store);
}

static int sync_all(struct store *store)
{
	struct state *state = state_of(store);
	while (state->in_flight || !list_empty(&state->gathered)) {
		if (!state->in_flight) {
			take_flight(state);
		}
		end_flight(store);
	}
	return store->error;
}

static size_t backlog(const struct store *store)
{
	return state_of(store)->bytes + state_of(store)->in_flight;
}

/* --- sessions --- */

/** The records have all that the events do not tell. */
static void save(struct session_log *log)
{
}

static int rest(struct session_log *log)
{
	const struct state *state = state_of(log->store);
	bool is_busy = log->store->jobs || state->in_flight || !list_empty(&state->gathered);
	return is_busy ? -EBUSY : 0;
}

static void drop(struct session_log *log)
{
	struct state *state = state_of(log->store);
	struct part *part;
	while ((part = find_part(&state->gathered, log)) ||
		(part = find_part(&state->flight, log))) {
		free_part(part);
	}
}

static int change_epoch(
	struct session_log *log, uint64_t epoch, int64_t ts, const struct buffer *snapshot)
{
	struct kept_session *kept = session_of(log->store, log->id);
	log->epoch = kept->epoch = epoch;
	memory_forget_records(&kept->records);
	if (snapshot) {
		session_log_append(log, RECORD_SNAPSHOT, ts, snapshot->data, snapshot->len);
	}
	return sync_all(log->store);
}

static int64_t now_ms(struct store *store)
{
	return clock_now_ms(store->ops->clock(store->owner));
}

static void prune(struct store *store)
{
}

static bool is_left_out(const struct store *store, const char *id, size_t len)
{
	return false;
}

/** No session is ever damaged. */
static int delete_aside(struct store *store, const struct aside *aside)
{
	return -ENOENT;
}

/* --- opening --- */

static void find_session(void *value, void *arg)
{
	struct kept_session *kept = value;
	struct store *store = arg;
	struct session_log *log = session_log_new(store, kept->id, kept->epoch, kept->created_at,
		store->ops->facts->create(kept->created.data, kept->created.len));
	for (size_t i = 0; i < kept->count; i++) {
		session_log_take(log, kept->events[i], kept->times[i]);
	}
	buffer_finish(&log->keys.unwritten); /* it has them */
	log->written = log->size;
	session_log_trim(log);
	log->keys.size = kept->names.len;
	log->keys.input_names = kept->input_names;
	log->fence = ++kept->fence;
	log->last_record = kept->last_record;
	if (!list_empty(&kept->records)) {
		log->owner = store->ops->found(store->owner, log);
		replay_session(log, &kept->records);
	}
}

static int open_store(struct store *store, const struct store_place *place, char **ret_why)
{
	struct state *state = xcalloc(1, sizeof(*state));
	*state = (struct state){.memory = place->engine_arg, .gather_lsn = 1};
	list_init(&state->gathered);
	list_init(&state->flight);
	list_init(&state->requests);
	state->answer = xmalloc(sizeof(*state->answer));
	uv_async_init(store->loop, state->answer, handle_answer);
	uv_unref((uv_handle_t *)state->answer);
	state->answer->data = store;
	state->retry = loop_timer(store->loop, store);
	store->engine_state = state;
	hash_each(state->memory->sessions, find_session, store);
	store_recovered(store);
	return sync_all(store);
}

static bool close_store(struct store *store)
{
	sync_all(store);
	answer_requests(store);
	return true;
}

static void free_state(struct store *store)
{
	loop_close(state_of(store)->answer);
	loop_close(state_of(store)->retry);
	free(state_of(store));
}

static void remove_log(struct session_log *log)
{
	session_log_free(log);
}

const struct store_engine memory_engine = {
	.open = open_store,
	.close = close_store,
	.free = free_state,
	.append = append,
	.part = get_part,
	.launch = launch,
	.sync = sync_all,
	.backlog = backlog,
	.rewind = begin_rewind,
	.read = ask,
	.load_names = load_names,
	.save = save,
	.rest = rest,
	.remove = remove_log,
	.drop = drop,
	.change_epoch = change_epoch,
	.now = now_ms,
	.prune = prune,
	.is_left_out = is_left_out,
	.delete_aside = delete_aside,
};
