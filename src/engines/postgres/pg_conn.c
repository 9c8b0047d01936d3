/*
 * Connections to PostgreSQL. All functions block, so they are called on the writer's thread, on the
 * thread pool, and during startup.
 */
#include "pg.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* When to give up a database that does not respond: in ms and, for connecting, in seconds. */
#define SILENCE_MS "10000"
#define CONNECT_S  "5"

static char *trim(const char *text)
{
	size_t len = strlen(text);
	while (len && (text[len - 1] == '\n' || text[len - 1] == ' ')) {
		len--;
	}
	char *copy = xstrndup(text, len);
	for (char *at = copy; *at; at++) {
		*at = *at == '\n' ? ' ' : *at;
	}
	return copy;
}

static void say_why(char **ret_why, const char *text)
{
	if (ret_why) {
		free(*ret_why);
		*ret_why = trim(text);
	}
}

bool pg_is_address(const char *place)
{
	PQconninfoOption *options = strchr(place, '=') ? PQconninfoParse(place, NULL) : NULL;
	PQconninfoFree(options);
	return options || strncmp(place, "postgresql://", strlen("postgresql://")) == 0 ||
	       strncmp(place, "postgres://", strlen("postgres://")) == 0;
}

bool pg_address_check(const char *address, char **ret_why)
{
	char *error = NULL;
	bool is_good = true;
	PQconninfoOption *options = PQconninfoParse(address, &error);
	if (!options) {
		say_why(ret_why, error ? error : "it is not the address of a database");
		PQfreemem(error);
		return false;
	}
	for (const PQconninfoOption *at = options; at->keyword; at++) {
		if (strcmp(at->keyword, "password") == 0 && at->val) {
			say_why(ret_why,
				"it has a password, which others would see in the list of processes: put it into ~/.pgpass or PGPASSWORD");
			is_good = false;
		}
	}
	PQconninfoFree(options);
	return is_good;
}

/**
 * PostgreSQL warns if a commit may not have reached the standbys in synchronous_standby_names. Such
 * a commit counts as durable only once a later one has succeeded without a warning.
 */
static void handle_notice(void *arg, const PGresult *result)
{
	struct pg_conn *conn = arg;
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	if (severity && strcmp(severity, "WARNING") == 0) {
		conn->has_warned = true;
		diag(DIAG_WARN, "the database warns: %s", text ? text : "");
	}
}

/* A commit has to wait for the disk, and for the synchronous standby if one is configured. */
#define SETTINGS                                                      \
	"SELECT set_config('synchronous_commit', 'on', false) WHERE " \
	"current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')"

/* The last value of a keyword counts: the address may say which host it wants, `forced` does. */
static const char *const names[] = {"target_session_attrs", "dbname", "target_session_attrs",
	"application_name", "client_encoding", "connect_timeout", "keepalives_idle",
	"keepalives_interval", "keepalives_count", "tcp_user_timeout", NULL};
#define VALUES(wanted, address, forced)                                                            \
	{                                                                                          \
		wanted, address, forced, "holdfast", "UTF8", CONNECT_S, "5", "2", "3", SILENCE_MS, \
			NULL                                                                       \
	}

static bool answers_any(const char *address)
{
	const char *const values[] = VALUES(NULL, address, "any");
	PGconn *conn = PQconnectdbParams(names, values, 1);
	bool is_there = PQstatus(conn) == CONNECTION_OK;
	PQfinish(conn);
	return is_there;
}

bool pg_may_come(const char *address)
{
	const char *const values[] = VALUES(NULL, address, NULL);
	PGPing ping = PQpingParams(names, values, 1);
	if (ping == PQPING_OK && answers_any(address)) {
		return true; /* it takes no writes now, or has come meanwhile */
	}
	ping = ping == PQPING_OK ? PQpingParams(names, values, 1)
				 : ping; /* it may just have gone */
	return ping == PQPING_REJECT || ping == PQPING_NO_RESPONSE;
}

int pg_connect(struct pg_conn *conn, const char *address, enum pg_host host, char **ret_why)
{
	static const char *const wanted[] = {
		[PG_ANY] = NULL, [PG_PRIMARY] = "primary", [PG_WRITABLE] = "read-write"};
	const char *const values[] = VALUES(wanted[host], address, NULL);
	conn->has_warned = false;
	conn->prepared = 0;
	conn->conn = PQconnectdbParams(names, values, 1);
	if (PQstatus(conn->conn) != CONNECTION_OK) {
		say_why(ret_why, PQerrorMessage(conn->conn));
		pg_disconnect(conn);
		return -ENOTCONN;
	}
	pg_note_warnings(conn);
	int r = pg_run_all(conn, SETTINGS, ret_why);
	if (r < 0) {
		pg_disconnect(conn);
	}
	return r;
}

void pg_note_warnings(struct pg_conn *conn)
{
	PQsetNoticeReceiver(conn->conn, handle_notice, conn);
}

void pg_disconnect(struct pg_conn *conn)
{
	PQfinish(conn->conn);
	conn->conn = NULL;
}

bool pg_is_alive(const struct pg_conn *conn)
{
	return conn->conn && PQstatus(conn->conn) == CONNECTION_OK;
}

static PGresult *take(struct pg_conn *conn, PGresult *result, char **ret_why)
{
	ExecStatusType status = PQresultStatus(result);
	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
		return result;
	}
	say_why(ret_why, result ? PQresultErrorMessage(result) : PQerrorMessage(conn->conn));
	PQclear(result);
	return NULL;
}

struct given {
	int count;
	const char *values[PG_PARAMS_MAX];
	int lengths[PG_PARAMS_MAX];
	int formats[PG_PARAMS_MAX];
};

static void give(const struct pg_params *params, struct given *ret)
{
	ret->count = params->count;
	for (int i = 0; i < params->count; i++) {
		ret->values[i] = params->values[i].data;
		ret->lengths[i] = (int)params->values[i].len;
		ret->formats[i] = 1;
	}
}

PGresult *pg_run(struct pg_conn *conn, const char *sql, struct pg_params *params, char **ret_why)
{
	static const struct pg_params none;
	struct given given;
	give(params ? params : &none, &given);
	return take(conn,
		PQexecParams(conn->conn, sql, given.count, params ? params->types : NULL,
			given.values, given.lengths, given.formats, 1),
		ret_why);
}

int pg_run_all(struct pg_conn *conn, const char *sql, char **ret_why)
{
	PGresult *result = take(conn, PQexec(conn->conn, sql), ret_why);
	int r = result ? 0 : -EIO;
	PQclear(result);
	return r;
}

/* --- groups --- */

/** The errno for an error's SQLSTATE (classes: appendix A of PostgreSQL's documentation). */
static int classify(const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	if (!state || strncmp(state, "08", 2) == 0 || strncmp(state, "57P", 3) == 0 ||
		strcmp(state, "25006") == 0) {
		return -ENOTCONN; /* connection failure, shutdown, or a read-only standby */
	}
	if (strncmp(state, "40", 2) == 0) {
		return -EAGAIN;
	}
	return strcmp(state, "53100") == 0 ? -ENOSPC : -EIO;
}

static void name_statement(unsigned number, char ret[8])
{
	snprintf(ret, 8, "s%u", number);
}

static int prepare(struct pg_conn *conn, const struct pg_statement *statement, char **ret_why)
{
	char name[8];
	if (conn->prepared & 1u << statement->number) {
		return 0;
	}
	name_statement(statement->number, name);
	PGresult *result = take(conn,
		PQprepare(conn->conn, name, statement->sql, statement->params->count,
			statement->params->types),
		ret_why);
	conn->prepared |= result ? 1u << statement->number : 0;
	PQclear(result);
	return result ? 0 : pg_is_alive(conn) ? -EIO : -ENOTCONN;
}

static bool send_statement(struct pg_conn *conn, const struct pg_statement *statement)
{
	char name[8];
	struct given given;
	name_statement(statement->number, name);
	give(statement->params, &given);
	return PQsendQueryPrepared(
		conn->conn, name, given.count, given.values, given.lengths, given.formats, 1);
}

/** Receives the results of all statements, up to the one of the commit. */
static int receive(
	struct pg_conn *conn, struct pg_statement *statements, size_t count, char **ret_why)
{
	int r = 0;
	for (size_t at = 0;;) {
		PGresult *result = PQgetResult(conn->conn);
		ExecStatusType status = PQresultStatus(result);
		if (status == PGRES_PIPELINE_SYNC) {
			PQclear(result);
			return r;
		}
		if (!pg_is_alive(conn) || at > count) { /* no more results will come */
			say_why(ret_why, PQerrorMessage(conn->conn));
			PQclear(result);
			return -ENOTCONN;
		}
		at += !result;
		if ((status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) && at < count &&
			!statements[at].result) {
			statements[at].result = result;
			continue;
		}
		if (status == PGRES_FATAL_ERROR && result && r == 0) {
			say_why(ret_why, PQresultErrorMessage(result));
			r = classify(result);
		}
		PQclear(result);
	}
}

int pg_run_group(
	struct pg_conn *conn, struct pg_statement *statements, size_t count, char **ret_why)
{
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		r = prepare(conn, &statements[i], ret_why);
	}
	if (r < 0) {
		return r;
	}
	bool good = PQenterPipelineMode(conn->conn);
	for (size_t i = 0; i < count; i++) {
		good = good && send_statement(conn, &statements[i]);
	}
	if (!good || !PQpipelineSync(conn->conn)) {
		say_why(ret_why, PQerrorMessage(conn->conn));
		return -ENOTCONN;
	}
	r = receive(conn, statements, count, ret_why);
	return r != -ENOTCONN && !PQexitPipelineMode(conn->conn) ? -ENOTCONN : r;
}
