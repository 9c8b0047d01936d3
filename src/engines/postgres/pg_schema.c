/* Creates and upgrades the tables in PostgreSQL. A new version appends its changes as a step. */
#include "pg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const steps[] = {
	/* 1 */
	"CREATE TABLE holdfast_session ("
	" sid bigint PRIMARY KEY, id text NOT NULL UNIQUE, epoch bigint NOT NULL,"
	" fence bigint NOT NULL, owner text NOT NULL, created_at bigint NOT NULL,"
	" created bytea NOT NULL, last_record bigint NOT NULL, metadata text);"
	"CREATE TABLE holdfast_record ("
	" sid bigint NOT NULL, n bigint NOT NULL, kind bigint NOT NULL, ts bigint NOT NULL,"
	" data bytea NOT NULL, PRIMARY KEY (sid, n));"
	"CREATE TABLE holdfast_event ("
	" sid bigint NOT NULL, seq bigint NOT NULL, ts bigint NOT NULL, line text NOT NULL,"
	" PRIMARY KEY (sid, seq));"
	"CREATE TABLE holdfast_name ("
	" sid bigint NOT NULL, at bigint NOT NULL, lines text NOT NULL, PRIMARY KEY (sid, at));"
	"CREATE TABLE holdfast_blob ("
	" sid bigint NOT NULL, name text NOT NULL, bytes bytea NOT NULL, PRIMARY KEY (sid, name));"
	"CREATE TABLE holdfast_garbage (sid bigint PRIMARY KEY);"
	"CREATE TABLE holdfast_node ("
	" name text PRIMARY KEY, holder text NOT NULL, lease_until timestamptz NOT NULL);",
	/* 2: several nodes */
	"DELETE FROM holdfast_node;"
	"ALTER TABLE holdfast_node ADD COLUMN address text NOT NULL DEFAULT '';"
	"CREATE INDEX holdfast_session_owner ON holdfast_session (owner);"
	"CREATE TABLE holdfast_secret (name text PRIMARY KEY, bytes bytea NOT NULL);",
	/* 3: logins and revocations */
	"CREATE TABLE holdfast_access ("
	" n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(),"
	" writer text NOT NULL, line text NOT NULL);"
	/* the sessions of all nodes, for lists */
	"CREATE SEQUENCE holdfast_shown_n;"
	"CREATE TABLE holdfast_shown ("
	" id text PRIMARY KEY, sid bigint NOT NULL, object text,"
	" n bigint NOT NULL DEFAULT nextval('holdfast_shown_n'),"
	" at timestamptz NOT NULL DEFAULT now());"
	"CREATE INDEX holdfast_shown_order ON holdfast_shown (n);"
	/* for rounds, which look for owners without a lease */
	"CREATE INDEX holdfast_node_holder ON holdfast_node (holder);",
	/* 4: the identity of the database, to detect an older copy */
	"CREATE TABLE holdfast_place ("
	" one boolean PRIMARY KEY DEFAULT true CHECK (one), system bigint NOT NULL,"
	" timeline bigint NOT NULL, relation bigint NOT NULL, synchronous bigint NOT NULL,"
	" noted bigint NOT NULL, n bigint NOT NULL);",
	/* 5: an unfinished migration, during which no server starts */
	"CREATE TABLE holdfast_moving (source text NOT NULL);",
	/* 6: the age of blobs, for retention */
	"ALTER TABLE holdfast_blob ADD COLUMN at timestamptz NOT NULL DEFAULT now();",
};

#define VERSION (sizeof(steps) / sizeof(steps[0]))

int pg_begin_alone(struct pg_conn *conn, char **ret_why)
{
	int r = pg_run_all(conn, "BEGIN", ret_why);
	/* The lock's number is "holdfast" in ASCII. */
	return r < 0 ? r
		     : pg_run_all(
			       conn, "SELECT pg_advisory_xact_lock(7525353829467124596)", ret_why);
}

int pg_end_alone(struct pg_conn *conn, int status, char **ret_why)
{
	if (status < 0) {
		(void)pg_run_all(conn, "ROLLBACK", NULL);
		return status;
	}
	return pg_run_all(conn, "COMMIT", ret_why);
}

static int check_encoding(struct pg_conn *conn, char **ret_why)
{
	const char *encoding = PQparameterStatus(conn->conn, "server_encoding");
	if (encoding && strcmp(encoding, "UTF8") == 0) {
		return 0;
	}
	*ret_why = xprintf(
		"this database is in %s; make one with: createdb --encoding UTF8 --template template0 NAME",
		encoding ? encoding : "an unknown encoding");
	return -ENOTSUP;
}

static int read_version(struct pg_conn *conn, size_t *ret_version, char **ret_why)
{
	PGresult *result = pg_run(conn, "SELECT version FROM holdfast_schema", NULL, ret_why);
	*ret_version = result && PQntuples(result) ? (size_t)pg_get_bigint(result, 0, 0) : 0;
	int r = result ? 0 : -EIO;
	PQclear(result);
	if (r == 0 && *ret_version > VERSION) {
		*ret_why = xprintf(
			"the tables of this database have version %zu, and this program knows versions up to %zu: install a newer holdfast",
			*ret_version, VERSION);
		r = -ENOTSUP;
	}
	return r;
}

int pg_schema_check(struct pg_conn *conn, char **ret_why)
{
	size_t version = 0;
	int r = check_encoding(conn, ret_why);
	PGresult *found =
		r < 0 ? NULL
		      : pg_run(conn, "SELECT count(to_regclass('holdfast_schema'))", NULL, ret_why);
	r = r < 0 ? r : found ? 0 : -EIO;
	if (r == 0 && pg_get_bigint(found, 0, 0)) {
		r = read_version(conn, &version, ret_why);
	}
	PQclear(found);
	if (r == 0 && !version) {
		*ret_why = xstrdup("no holdfast has ever used it");
		r = -ENOENT;
	}
	return r;
}

static int take_steps(struct pg_conn *conn, char **ret_why)
{
	size_t version;
	int r = pg_run_all(conn,
		"CREATE TABLE IF NOT EXISTS holdfast_schema (version bigint NOT NULL)", ret_why);
	r = r < 0 ? r : read_version(conn, &version, ret_why);
	bool is_new = r == 0 && version == 0;
	bool is_old = r == 0 && version < VERSION;
	while (r == 0 && version < VERSION) {
		r = pg_run_all(conn, steps[version++], ret_why);
	}
	if (r == 0 && is_old) {
		char sql[80];
		snprintf(sql, sizeof(sql),
			is_new ? "INSERT INTO holdfast_schema VALUES (%zu)"
			       : "UPDATE holdfast_schema SET version = %zu",
			VERSION);
		r = pg_run_all(conn, sql, ret_why);
	}
	return r;
}

int pg_schema_make(struct pg_conn *conn, char **ret_why)
{
	int r = check_encoding(conn, ret_why);
	r = r < 0 ? r : pg_begin_alone(conn, ret_why);
	return r < 0 ? r : pg_end_alone(conn, take_steps(conn, ret_why), ret_why);
}
