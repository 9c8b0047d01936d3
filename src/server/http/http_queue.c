/* GET /api/sessions/{id}/queue: the prompts that wait for their turn. */
#include "server/http_internal.h"
#include "server/routes/routes.h"

#include <string.h>

static void refuse_not_queued(struct conn *conn, struct session *session, const char *prompt_id)
{
	struct prompt_view had;
	struct refusal refusal = {0};
	if (session_find_prompt(session, prompt_id, &had) < 0) {
		http_refuse(conn, ERROR_storage_failed,
			storage_text(conn_storage(conn), STORAGE_NAMES));
		return;
	}
	intake_refuse_not_queued(&had, &refusal);
	refusal.detail.seq = had.seq;
	http_refuse_later(conn, session, &refusal);
}

static void get_queue(struct conn *conn, struct session *session)
{
	char prompt_id[QUERY_MAX];
	const struct channel *channel = session_channel(session);
	const struct prompt_queue *queue = channel->status.queue;
	const char *bad = query_check(conn, (const char *const[]){"prompt_id", NULL});
	const char *wanted = query_get(conn, "prompt_id", prompt_id, sizeof(prompt_id));
	if (!bad && wanted && !token_is_valid(wanted, strlen(wanted), 128)) {
		bad = "prompt_id must match [A-Za-z0-9._:-]{1,128}";
	}
	if (bad) {
		http_refuse(conn, ERROR_bad_request, bad);
		return;
	}
	size_t at = wanted ? prompt_queue_find(queue, wanted) : prompt_queue_count(queue);
	if (wanted && at == prompt_queue_count(queue)) {
		refuse_not_queued(conn, session, wanted);
		return;
	}
	struct buffer body = {0};
	if (wanted) {
		prompt_queue_append_one(&body, queue, at);
	} else {
		prompt_queue_append_list(&body, queue, channel->limits->page_size);
	}
	http_respond_page(conn, &body);
	buffer_finish(&body);
}

static void serve(struct conn *conn, struct session *session)
{
	if (!conn_waits_for_names(conn, session, NULL, 0) && http_has_session(conn, session)) {
		get_queue(conn, session);
	}
}

const struct route queue_routes[] = {
	{"/api/sessions/{id}/queue", "GET", .flags = ROUTE_SESSION | ROUTE_CHECKED,
		.serve_session = serve},
	{0},
};
