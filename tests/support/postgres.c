#include "postgres.h"

#include "holdfast/buffer.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
	char *dir;
	char *address;
	PGconn *admin;
	PGconn *locker; /* holds a lock while a transaction is to wait */
	enum postgres_fault fault;
	atomic_bool is_armed;
	pthread_t releaser;
	bool has_releaser;
} postgres;

static void die(const char *what)
{
	fprintf(stderr, "postgres: %s\n", what);
	abort();
}

static void script(const char *verb)
{
	char *command = xprintf("%s %s %s", POSTGRES_SH, verb, postgres.dir);
	if (system(command) != 0) {
		die(command);
	}
	free(command);
}

static PGconn *connect_to(void)
{
	PGconn *conn = PQconnectdb(postgres.address);
	if (PQstatus(conn) != CONNECTION_OK) {
		die(PQerrorMessage(conn));
	}
	PQclear(PQexec(conn, "SET client_min_messages = error"));
	return conn;
}

static long ask(PGconn *conn, const char *sql)
{
	PGresult *result = PQexec(conn, sql);
	if (PQresultStatus(result) != PGRES_COMMAND_OK &&
		PQresultStatus(result) != PGRES_TUPLES_OK) {
		die(PQresultErrorMessage(result));
	}
	long number = PQntuples(result) ? strtol(PQgetvalue(result, 0, 0), NULL, 10) : 0;
	PQclear(result);
	return number;
}

long postgres_ask(const char *sql)
{
	return ask(postgres.admin, sql);
}

const char *postgres_start(void)
{
	const char *parent = getenv("TMPDIR");
	postgres.dir = xprintf("%s/holdfast-pg-%d", parent ? parent : "/tmp", (int)getpid());
	script("start");
	postgres.address = xprintf("host=%s user=holdfast dbname=postgres", postgres.dir);
	postgres.admin = connect_to();
	postgres.locker = connect_to();
	return postgres.address;
}

void postgres_stop(void)
{
	PQfinish(postgres.admin);
	PQfinish(postgres.locker);
	script("stop");
	free(postgres.address);
	free(postgres.dir);
}

const char *postgres_address(void)
{
	return postgres.address;
}

int postgres_set_up(void **state)
{
	postgres_start();
	return 0;
}

int postgres_tear_down(void **state)
{
	postgres_stop();
	return 0;
}

const char *postgres_dir(void)
{
	return postgres.dir;
}

void postgres_read_file(const char *id, const char *name, struct buffer *out)
{
	bool is_log = strcmp(name, "events.jsonl") == 0;
	char *sql = xprintf(
		is_log ? "SELECT line || chr(10) FROM holdfast_event JOIN holdfast_session USING (sid)"
			 " WHERE id = '%s' ORDER BY seq"
		       : "SELECT lines FROM holdfast_name JOIN holdfast_session USING (sid)"
			 " WHERE id = '%s' ORDER BY at",
		id);
	PGresult *result = PQexec(postgres.admin, sql);
	if (PQresultStatus(result) != PGRES_TUPLES_OK) {
		die(PQresultErrorMessage(result));
	}
	for (int row = 0; row < PQntuples(result); row++) {
		buffer_append_str(out, PQgetvalue(result, row, 0));
	}
	PQclear(result);
	free(sql);
}

static void end_fault(void)
{
	if (postgres.has_releaser) {
		pthread_join(postgres.releaser, NULL);
		postgres.has_releaser = false;
	}
}

void postgres_clear(void)
{
	end_fault();
	postgres_ask("DROP SCHEMA public CASCADE");
	postgres_ask("CREATE SCHEMA public");
}

void postgres_refuse(bool refuses)
{
	postgres_ask(
		refuses ? "ALTER TABLE holdfast_record ADD CONSTRAINT refused CHECK (false) NOT VALID"
			: "ALTER TABLE holdfast_record DROP CONSTRAINT IF EXISTS refused");
}

void postgres_take_over(const char *id)
{
	char *sql = xprintf(
		"UPDATE holdfast_session SET fence = fence + 1, owner = 'another' WHERE id = '%s'",
		id);
	postgres_ask(sql);
	free(sql);
}

int postgres_count_events(const char *id)
{
	char *sql = xprintf(
		"SELECT CASE WHEN EXISTS (SELECT FROM holdfast_session WHERE id = '%s') THEN (SELECT count(*) FROM holdfast_event JOIN holdfast_session USING (sid) WHERE id = '%s') ELSE -1 END",
		id, id);
	int count = (int)postgres_ask(sql);
	free(sql);
	return count;
}

/* --- lost answers --- */

/* What a group changes: records, or, if events are pruned, those. */
#define LAST_RECORDS                                                                             \
	"SELECT coalesce(sum(last_record), 0) * 1000000 + (SELECT count(*) FROM holdfast_event)" \
	" FROM holdfast_session"
#define WAITING "SELECT count(*) FROM pg_locks WHERE NOT granted"

static long records_before;

void postgres_fault(enum postgres_fault fault)
{
	postgres.fault = fault;
	records_before = postgres_ask(LAST_RECORDS);
	if (fault == POSTGRES_IS_LATE) {
		ask(postgres.locker, "BEGIN");
		ask(postgres.locker, "UPDATE holdfast_session SET owner = owner");
	}
	atomic_store(&postgres.is_armed, true);
}

/** Lets the lock go once the old transaction and the one that settles it wait for it. */
static void *release(void *arg)
{
	PGconn *conn = connect_to();
	while (ask(conn, WAITING) < 2) {
		usleep(1000);
	}
	PQfinish(conn);
	ask(postgres.locker, "ROLLBACK");
	return NULL;
}

static void break_connection(PGconn *conn)
{
	PGconn *other = connect_to();
	bool is_late = postgres.fault == POSTGRES_IS_LATE;
	while (is_late ? ask(other, WAITING) < 1 : ask(other, LAST_RECORDS) == records_before) {
		usleep(1000);
	}
	PQfinish(other);
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		die("there is no socket");
	}
	dup2(ends[0], PQsocket(conn));
	close(ends[0]);
	close(ends[1]);
	if (is_late) {
		pthread_create(&postgres.releaser, NULL, release, NULL);
		postgres.has_releaser = true;
	}
}

PGresult *__real_PQgetResult(PGconn *conn);
PGresult *__wrap_PQgetResult(PGconn *conn);

PGresult *__wrap_PQgetResult(PGconn *conn)
{
	if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF &&
		atomic_exchange(&postgres.is_armed, false)) {
		break_connection(conn);
	}
	return __real_PQgetResult(conn);
}
