/*
 * GET /api/sessions/{id}/search and /api/search: searches the logs for text, newest events first.
 *
 * A search goes page by page: a page is read and searched on the thread pool, and then the search
 * queues behind the others, so that all make progress. One request searches a bounded part of the
 * logs; its `next` says where another request continues.
 *
 * Sessions of other nodes are read from the store, as far as the session list shows them. Their
 * owners are not asked, so that the sessions of a dead node are found as well.
 */
#include "server/http_internal.h"

#include "holdfast/event_search.h"
#include "holdfast/loop.h"
#include "holdfast/session_list.h"
#include "holdfast/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define HITS_DEFAULT ((size_t)50)
#define HITS_OF_ONE  ((size_t)5) /* most hits of each session when all are searched */
#define LISTED       ((size_t)64) /* sessions taken from the session list at once */
#define PAGE_COST    ((size_t)16 * 1024) /* least bytes of search_size that a page costs */

struct listed {
	char id[129];
	int64_t updated_at;
	uint64_t max_seq;
};

struct search {
	uv_work_t work; /* first */
	struct list link; /* server.searches, or .searches_waiting */
	struct server *server; /* NULL: it is gone */
	/* Without a connection the search is freed when its work is done. */
	struct answer answer;
	atomic_bool is_unwanted; /* tells the thread pool that the connection is gone */
	struct needle *needle;
	unsigned hide;
	size_t most; /* most hits in the answer */
	size_t left; /* bytes that may still be searched */

	/* Only if all sessions are searched. */
	bool is_all;
	bool is_listed; /* no session is left to search */
	char id[129]; /* the session that is being searched; "": the next one of the list */
	struct session_cursor cursor;
	struct listed *listed;
	size_t listed_at;
	size_t listed_count;
	struct session_log *elsewhere; /* log of a session of another node; NULL: it is here */
	uv_timer_t *timer; /* ends the wait for a read that takes too long */
	uint64_t waited_ms; /* time spent waiting for reads so far */
	uint64_t begun_ms; /* when the read began, on the loop's clock */
	struct buffer unread; /* the ids of sessions that could not be read, as JSON */

	uint64_t to; /* the newest seq still to be searched in this session; 0: none is left */
	size_t found_here; /* hits in this session */
	struct log_read *read;
	struct event **events; /* the page that is being searched */
	size_t count;
	size_t hit_count;
	struct buffer hits;
};

static void go_on(struct conn *conn);
static void start_waiting(struct server *server);

/* --- on the thread pool --- */

static void append_hit(struct search *search, const struct event_view *view, struct buffer *snippet)
{
	struct buffer *out = &search->hits;
	buffer_append_str(out, search->hit_count++ ? ",{" : "{");
	if (search->is_all) {
		buffer_append_member(out, "session_id", search->id);
		buffer_append_char(out, ',');
	}
	bool is_named = view->type == EVENT_CUSTOM || view->type == EVENT_UNKNOWN;
	const char *type = is_named ? view->type_name : event_type_name(view->type);
	size_t type_len = is_named ? view->type_len : strlen(type);
	buffer_printf(out, "\"seq\":%" PRIu64 ",\"type\":", view->seq);
	buffer_append_json(out, type, type_len);
	buffer_printf(out, ",\"ts\":%" PRId64 ",\"snippet\":", view->ts);
	buffer_append_json(out, snippet->data, snippet->len);
	buffer_append_char(out, '}');
	search->found_here++;
	buffer_clear(snippet);
}

static bool has_all(const struct search *search)
{
	return search->hit_count >= search->most ||
	       (search->is_all && search->found_here >= HITS_OF_ONE);
}

static void work(uv_work_t *work)
{
	struct search *search = (struct search *)work;
	struct buffer snippet = {0};
	for (size_t i = search->count; i-- > 0 && !has_all(search);) {
		struct event_view view;
		if (atomic_load(&search->is_unwanted)) {
			break;
		}
		event_get_view(search->events[i], &view);
		search->to = view.seq - 1;
		if (!(search->hide & event_view_hides(&view)) &&
			event_search(&view, search->needle, &snippet)) {
			append_hit(search, &view, &snippet);
		}
	}
	buffer_finish(&snippet);
}

/* --- on the loop --- */

static void drop_events(struct search *search)
{
	for (size_t i = 0; i < search->count; i++) {
		event_unref(search->events[i]);
	}
	free(search->events);
	search->events = NULL;
	search->count = 0;
}

static void leave_elsewhere(struct search *search)
{
	if (search->elsewhere) {
		session_log_mirror_free(search->elsewhere);
		search->elsewhere = NULL;
	}
}

static void free_search(struct search *search)
{
	drop_events(search);
	leave_elsewhere(search);
	if (search->timer) {
		loop_close(search->timer);
	}
	list_remove(&search->link);
	needle_destroy(search->needle);
	buffer_finish(&search->hits);
	buffer_finish(&search->unread);
	free(search->listed);
	free(search);
}

static void search_drop(struct answer *answer)
{
	struct search *search = list_entry(answer, struct search, answer);
	struct server *server = search->server;
	answer->conn = NULL;
	leave_elsewhere(search);
	atomic_store(&search->is_unwanted, true);
	if (search->read) {
		log_read_cancel(search->read);
		free_search(search);
		start_waiting(server);
	} else if (!search->events) {
		free_search(search);
	}
}

static const struct answer_ops search_ops = {.drop = search_drop};

void server_forget_searches(struct server *server)
{
	list_for_each_safe(link, tmp, &server->searches) {
		struct search *search = list_entry(link, struct search, link);
		list_remove(&search->link);
		search->server = NULL;
	}
}

static void charge(struct search *search, size_t bytes)
{
	size_t cost = bytes > PAGE_COST ? bytes : PAGE_COST;
	search->left = cost < search->left ? search->left - cost : 0;
}

static void end_session(struct search *search)
{
	search->to = 0;
	search->found_here = 0;
	if (search->is_all) {
		leave_elsewhere(search);
		search->id[0] = '\0';
	}
}

/** Ends the search of a session whose remaining events cannot be read, and reports its id. */
static void end_unread(struct search *search)
{
	buffer_append_str(&search->unread, search->unread.len ? "," : "");
	buffer_append_json(&search->unread, search->id, strlen(search->id));
	end_session(search);
}

/* --- pages --- */

static void done(uv_work_t *work, int status)
{
	struct search *search = (struct search *)work;
	size_t bytes = 0;
	for (size_t i = 0; i < search->count; i++) {
		bytes += search->events[i]->json_len[FORMAT_MARKDOWN];
	}
	charge(search, bytes);
	drop_events(search);
	list_remove(&search->link);
	if (search->server) {
		start_waiting(search->server);
	}
	if (search->answer.conn) {
		http_in_turn(search->answer.conn, go_on);
	} else {
		free_search(search);
	}
}

/**
 * Searches a page on the thread pool. Takes a reference to each event; an empty page is allowed.
 */
static void look_through(struct search *search, struct event **events, size_t count)
{
	search->events = xcalloc(count + 1, sizeof(*search->events));
	search->count = count;
	if (count) {
		memcpy(search->events, events, count * sizeof(struct event *));
	}
	uv_queue_work(search->server->loop, &search->work, work, done);
}

/** Ends a search, which will be refused, so that another one can begin. */
static void end_search(struct search *search)
{
	struct server *server = search->server;
	http_detach_answer(&search->answer);
	free_search(search);
	start_waiting(server);
}

static void refuse_search(struct search *search, enum error_code code, const char *message)
{
	struct conn *conn = search->answer.conn;
	end_search(search);
	http_refuse(conn, code, message);
}

/** The log that is being searched, and the newest seq to be shown; NULL if it is gone. */
static struct session_log *log_of(const struct search *search, uint64_t *ret_max_seq)
{
	struct session *session = search->answer.conn->session;
	struct session_log *log = session ? session_channel(session)->log : search->elsewhere;
	*ret_max_seq = session ? session_channel(session)->max_seq
		       : log   ? session_log_last_seq(log)
			       : 0;
	return log;
}

static uint64_t now_ms(const struct search *search)
{
	return (uint64_t)loop_now_ms(search->server->loop);
}

static void handle_read(void *arg, int status, struct event **events, size_t count)
{
	struct search *search = arg;
	uint64_t max_seq;
	const struct session_log *log = log_of(search, &max_seq);
	bool is_there = log && search->to >= session_log_first_seq(log);
	search->read = NULL;
	if (search->timer) {
		uv_timer_stop(search->timer);
	}
	search->waited_ms += now_ms(search) - search->begun_ms;
	if (status == 0 && count) {
		look_through(search, events, count);
		return;
	}
	if (is_there && status < 0 && !search->is_all) {
		refuse_search(search, ERROR_storage_failed,
			storage_text(session_log_storage(log), STORAGE_EVENTS));
		return;
	}
	if (is_there && status < 0) {
		end_unread(search);
	} else {
		end_session(search); /* the rest was pruned or deleted meanwhile */
	}
	look_through(search, NULL, 0);
}

/**
 * Gives up on a slow read: the answer lists the session as unread, and `next` continues after it.
 */
static void handle_timer(uv_timer_t *timer)
{
	struct search *search = timer->data;
	if (loop_put_off(timer, handle_timer)) {
		return;
	}
	log_read_cancel(search->read);
	handle_read(search, -ETIMEDOUT, NULL, 0);
}

static void begin_read(struct search *search, struct session_log *log, const struct log_page *page)
{
	uint64_t most = (uint64_t)search->server->limits->search_wait_ms;
	search->begun_ms = now_ms(search);
	search->read = session_log_read(log, page, handle_read, search);
	if (!search->read) {
		handle_read(search, -EBADMSG, NULL, 0);
	} else if (search->is_all) {
		search->timer =
			search->timer ? search->timer : loop_timer(search->server->loop, search);
		uv_timer_start(search->timer, handle_timer,
			most > search->waited_ms ? most - search->waited_ms : 0, 0);
	}
}

/** Reads the next page: the newest events that are still to be searched. */
static void read_page(struct search *search)
{
	uint64_t max_seq;
	struct session_log *log = log_of(search, &max_seq);
	uint64_t first = log ? session_log_first_seq(log) : 1;
	uint64_t to = log && search->to > max_seq ? max_seq : search->to;
	uint64_t most = search->server->limits->load_max;
	if (!log || to < first || !to) {
		end_session(search);
		look_through(search, NULL, 0);
		return;
	}
	struct log_page page = {.from = to - first >= most ? to - most + 1 : first,
		.to = to,
		.max_bytes = search->server->limits->page_size,
		.is_fixed_at_end = true,
		.format = FORMAT_MARKDOWN};
	struct event **hot = xcalloc((size_t)(page.to - page.from + 1), sizeof(struct event *));
	size_t n = session_log_get_hot(log, &page, hot);
	if (n) {
		look_through(search, hot, n);
	} else {
		begin_read(search, log, &page);
	}
	free(hot);
}

static size_t count_running(const struct server *server)
{
	size_t count = 0;
	list_for_each(link, &server->searches) {
		count++;
	}
	return count;
}

static void start_waiting(struct server *server)
{
	while (!list_empty(&server->searches_waiting) &&
		count_running(server) < server->limits->searches) {
		struct search *search =
			list_entry(server->searches_waiting.next, struct search, link);
		list_remove(&search->link);
		list_append(&server->searches, &search->link);
		read_page(search);
	}
}

/* --- choosing the session --- */

static void list_more(struct search *search)
{
	struct session_page page;
	struct session_filter filter = conn_filter(search->answer.conn);
	session_list_page(search->server->sessions, SESSIONS_BY_CHANGE, &search->cursor, &filter,
		LISTED, &page);
	search->listed = xrealloc(search->listed, (page.count + 1) * sizeof(*search->listed));
	for (size_t i = 0; i < page.count; i++) {
		struct listed *one = &search->listed[i];
		snprintf(one->id, sizeof(one->id), "%s", page.objects[i].id);
		one->updated_at = page.objects[i].updated_at;
		one->max_seq = page.objects[i].max_seq;
	}
	search->listed_at = 0;
	search->listed_count = page.count;
	search->is_listed = !page.count;
	session_page_finish(&page);
}

/** Begins with a session at seq `to`. Returns false if it is gone, unreadable, hidden or empty. */
static bool open_session(struct search *search, const char *id, uint64_t to)
{
	struct session_table *sessions = search->server->sessions;
	size_t len = strlen(id);
	if (!to || !conn_sees(search->answer.conn, id)) {
		return false;
	}
	memmove(search->id, id, len + 1);
	if (session_table_absence(sessions, id, len) != STORE_PRESENT) {
		end_unread(search);
		return false;
	}
	struct session *session = session_table_get(sessions, id, len);
	search->elsewhere = session ? NULL : session_table_shown_log(sessions, id);
	if (session && session_is_there(session)) {
		conn_hold_session(search->answer.conn, session);
	} else if (!search->elsewhere) {
		return false;
	}
	search->to = to;
	return true;
}

/** Goes on to the next session with events; sets is_listed if no session is left. */
static void next_session(struct search *search)
{
	conn_drop_session(search->answer.conn);
	end_session(search);
	if (search->listed_at == search->listed_count) {
		list_more(search);
		charge(search, 0);
	}
	while (search->listed_at < search->listed_count) {
		const struct listed *one = &search->listed[search->listed_at++];
		const struct session_object object = {.id = one->id, .updated_at = one->updated_at};
		session_cursor_move(&search->cursor, SESSIONS_BY_CHANGE, &object);
		search->is_listed = search->cursor.is_again; /* it was searched before */
		if (search->is_listed || open_session(search, one->id, one->max_seq)) {
			return;
		}
	}
}

/* --- the answer --- */

static void answer(struct search *search)
{
	struct conn *conn = search->answer.conn;
	bool is_over = search->is_all ? search->is_listed : !search->to;
	struct buffer body = {0};
	buffer_append_str(&body, "{\"hits\":[");
	buffer_append(&body, search->hits.data, search->hits.len);
	if (is_over) {
		buffer_append_str(&body, "],\"next\":null");
	} else {
		buffer_printf(&body, "],\"next\":\"%" PRIu64, search->to);
		if (search->is_all) {
			buffer_printf(&body, "!%s!", search->id);
			session_cursor_write(&search->cursor, &body);
		}
		buffer_append_char(&body, '"');
	}
	if (search->unread.len) {
		buffer_append_str(&body, ",\"unread\":[");
		buffer_append(&body, search->unread.data, search->unread.len);
		buffer_append_char(&body, ']');
	}
	buffer_append_char(&body, '}');
	http_detach_answer(&search->answer);
	free_search(search);
	http_respond_page(conn, &body);
	buffer_finish(&body);
}

static void go_on(struct conn *conn)
{
	struct search *search = list_entry(conn->http->answer, struct search, answer);
	if (!search->is_all && !conn->session) {
		end_search(search);
		http_refuse_lost(conn);
		return;
	}
	uint64_t max_seq;
	const struct session_log *log = log_of(search, &max_seq);
	if (search->to && log && search->to < session_log_first_seq(log)) {
		end_session(search);
	}
	if (search->is_all && search->found_here >= HITS_OF_ONE) {
		end_session(search);
	}
	bool is_full = search->hit_count >= search->most || !search->left ||
		       search->waited_ms >= (uint64_t)search->server->limits->search_wait_ms;
	if (search->is_all && !is_full && (!search->to || !log)) {
		next_session(search);
	}
	if (is_full || (search->is_all ? search->is_listed : !search->to)) {
		answer(search);
		return;
	}
	struct server *server = conn->server;
	list_append(&server->searches_waiting, &search->link);
	if (count_running(server) >= server->limits->searches) {
		metrics_limit(server->metrics, LIMIT_searches);
	}
	start_waiting(server); /* can free the search */
}

/* --- the request --- */

/** Reads a decimal seq that is followed by `end`. */
static bool read_seq(const char *text, char end, const char **ret_rest, uint64_t *ret)
{
	size_t digits = strspn(text, "0123456789");
	*ret = digits && digits < 17 ? strtoull(text, NULL, 10) : 0;
	*ret_rest = text + digits + (end != '\0');
	return digits && digits < 17 && text[digits] == end;
}

/** Reads the `next` of an earlier request. */
static bool read_cursor(struct search *search, const char *text)
{
	const char *rest;
	if (!search->is_all) {
		return read_seq(text, '\0', &rest, &search->to) && search->to;
	}
	if (!read_seq(text, '!', &rest, &search->to)) {
		return false;
	}
	size_t len = strcspn(rest, "!");
	if (rest[len] != '!' || (len && !session_id_is_valid(rest, len)) ||
		!session_cursor_read(rest + len + 1, &search->cursor)) {
		return false;
	}
	memcpy(search->id, rest, len);
	search->id[len] = '\0';
	return true;
}

/** Reads the query; `q` has QUERY_MAX bytes. Returns NULL, or a message. */
static const char *read_query(struct conn *conn, struct search *search, char *q)
{
	char buf[QUERY_MAX];
	size_t most = conn->server->limits->search_hits;
	const char *bad = query_check(conn, (const char *const[]){"q", "limit", "cursor", NULL});
	if (bad) {
		return bad;
	}
	if (!query_get(conn, "q", q, QUERY_MAX) || strspn(q, " \t\r\n") == strlen(q)) {
		return "q is the text to look for, and must not be empty";
	}
	if (!utf8_is_valid(q, strlen(q))) {
		return "q is not valid UTF-8";
	}
	search->most = HITS_DEFAULT < most ? HITS_DEFAULT : most;
	if (!query_count(conn, "limit", most, &search->most)) {
		return "limit must be a whole number from 1 to search_hits (see holdfast limits)";
	}
	const char *cursor = query_get(conn, "cursor", buf, sizeof(buf));
	if (cursor && !read_cursor(search, cursor)) {
		return "cursor must be the \"next\" of an earlier answer";
	}
	return NULL;
}

void http_search(struct conn *conn, struct session *session)
{
	char q[QUERY_MAX];
	struct search *search = xcalloc(1, sizeof(*search));
	search->server = conn->server;
	search->is_all = !session;
	search->to = session ? UINT64_MAX : 0;
	search->left = conn->server->limits->search_size;
	search->hide = conn_hides(conn);
	list_init(&search->link);
	const char *bad = read_query(conn, search, q);
	if (bad || strlen(q) > conn->server->limits->search_query_size) {
		free_search(search);
		if (bad) {
			http_refuse(conn, ERROR_bad_request, bad);
		} else {
			http_refuse_limit(conn, LIMIT_search_query_size,
				"q is too long (search_query_size, see holdfast limits)");
		}
		return;
	}
	size_t from = strspn(q, " \t\r\n");
	size_t len = strlen(q + from);
	while (strchr(" \t\r\n", q[from + len - 1])) {
		len--;
	}
	search->needle = needle_create(q + from, len);
	http_begin_answer(conn, &search->answer, &search_ops);
	if (session) {
		conn_hold_session(conn, session);
	} else if (search->to && !open_session(search, search->id, search->to)) {
		end_session(search);
	}
	http_in_turn(conn, go_on);
}
