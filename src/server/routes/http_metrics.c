/* GET /metrics: counters kept as things happen, and gauges that are read on request. */
#include "server/http_internal.h"
#include "routes.h"

#include <stdlib.h>

struct metrics_job {
	uv_work_t work; /* first */
	struct answer answer; /* its connection is NULL if nobody waits for it any more */
	struct buffer text;
};

static size_t count_producers(const struct server *server)
{
	size_t count = 0;
	list_for_each(link, &server->producers) {
		count++;
	}
	return count;
}

/** Sets the gauges that are cheap enough to read on request. */
static void look(struct server *server)
{
	struct metrics *metrics = server->metrics;
	metrics_set(metrics, METRIC_SESSIONS, session_table_count(server->sessions));
	metrics_set(metrics, METRIC_SESSIONS_LOADED, session_table_count_live(server->sessions));
	metrics_set(metrics, METRIC_PERMISSIONS_PENDING,
		session_table_count_permissions(server->sessions));
	metrics_set(metrics, METRIC_PROMPTS_WAITING, session_table_count_prompts(server->sessions));
	metrics_set(metrics, METRIC_OBSERVERS_BEHIND, session_table_count_behind(server->sessions));
	metrics_set(metrics, METRIC_BACKLOG_BYTES, session_table_backlog(server->sessions));
	metrics_set(metrics, METRIC_AGENTS_RUNNING,
		server->agents ? server->agents->ops->count_running(server->agents) : 0);
	metrics_set(metrics, METRIC_CONNECTIONS, server->conn_count);
	metrics_set(metrics, METRIC_PRODUCERS, count_producers(server));
	metrics_set(metrics, METRIC_RECEIVING_BYTES, server->received);
	metrics_set(metrics, METRIC_SENDING_BYTES, server->sending);
	metrics_set(metrics, METRIC_STREAMS_DAMAGED, server_count_damaged(server));
	for (const struct door *door = server->doors; door->routes; door++) {
		if (door->set_gauges) {
			door->set_gauges(door->state);
		}
	}
}

static void work(uv_work_t *work)
{
	metrics_write_process(&((struct metrics_job *)work)->text);
}

static void done(uv_work_t *work, int status)
{
	struct metrics_job *job = (struct metrics_job *)work;
	struct conn *conn = job->answer.conn;
	http_detach_answer(&job->answer);
	if (conn) {
		http_respond_text(conn, "text/plain; version=0.0.4; charset=utf-8", job->text.data,
			job->text.len);
	}
	buffer_finish(&job->text);
	free(job);
}

static void metrics_drop(struct answer *answer)
{
	answer->conn = NULL; /* done() frees it */
}

static const struct answer_ops metrics_ops = {.drop = metrics_drop};

static void get_metrics(struct conn *conn)
{
	if (!conn->server->metrics) {
		http_refuse(conn, ERROR_not_found, NOTHING_HERE);
		return;
	}
	if (!conn->kind.is_metrics && !http_may(conn, RIGHT_ADMINISTER)) {
		return;
	}
	struct metrics_job *job = xcalloc(1, sizeof(*job));
	http_begin_answer(conn, &job->answer, &metrics_ops);
	look(conn->server);
	metrics_write(conn->server->metrics, &job->text);
	uv_queue_work(conn->server->loop, &job->work, work, done);
}

const struct route metrics_routes[] = {
	{"/metrics", "GET", .flags = ROUTE_METRICS, .serve = get_metrics},
	{0},
};
