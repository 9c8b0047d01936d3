/*
 * The writer's thread: takes the steps of pg_write.c until the group is settled, or is given up
 * because the server stops. Then the loop also breaks the writer's connection: the database may not
 * answer for as long as somebody holds a lock there, or while a synchronous standby is missing.
 */
#include "pg.h"
#include "pg_nodes.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long to wait before trying the database again. */
#define RETRY_US 100000
/* So many steps put a group right after failures that come one by one; beyond, each step waits. */
#define STEPS_AT_ONCE 20
/* How often the loop looks whether to give up while it waits for the writer. */
#define LOOK_MS 100

/* --- the connection --- */

/** Replaces pg->writer_fd by a duplicate, which stays valid whatever libpq does, or by -1. */
static void note_socket(struct pg *pg, int fd)
{
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_lock(&pg->lock);
	int old = pg->writer_fd;
	pg->writer_fd = copy;
	pthread_mutex_unlock(&pg->lock);
	if (old >= 0) {
		close(old);
	}
}

void pg_writer_use(struct pg *pg, const struct pg_conn *conn)
{
	pg->conn = *conn;
	pg_note_warnings(&pg->conn);
	note_socket(pg, PQsocket(pg->conn.conn));
}

int pg_writer_connect(struct pg *pg, char **ret_why)
{
	struct pg_conn conn = {0};
	int r = pg_connect(&conn, pg->address, PG_WRITABLE, ret_why);
	if (r == 0) {
		pg_writer_use(pg, &conn);
	}
	return r;
}

void pg_writer_disconnect(struct pg *pg)
{
	pg_disconnect(&pg->conn);
	note_socket(pg, -1);
}

/** Makes the writer's thread return from a statement that the database does not answer. */
static void break_connection(struct pg *pg)
{
	pthread_mutex_lock(&pg->lock);
	if (pg->writer_fd >= 0) {
		(void)shutdown(pg->writer_fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&pg->lock);
}

/* --- writing --- */

static bool is_over(const struct pg *pg)
{
	uint64_t at = atomic_load(&pg->give_up_at);
	return at && uv_hrtime() > at;
}

/** Logs why the group waits, unless that was logged last. */
static void tell_waiting(struct pg *pg, int reason, const char *why, int *told)
{
	bool is_told = *told == reason ||
		       (reason == -ESTALE && atomic_exchange(&pg->nodes->is_older, true));
	if (!is_told) {
		pg_say_unusable(why);
	}
	*told = reason;
}

void pg_write(struct pg *pg)
{
	int told = 0; /* the reason for waiting that was logged last */
	for (unsigned steps = 1;; steps++) {
		char *why = NULL;
		int r = pg_write_step(pg, &why);
		bool waits = r == -ENOTCONN || r == -ESTALE;
		bool fails_again = r == 1 && steps > STEPS_AT_ONCE;
		if ((waits || fails_again) && !is_over(pg)) {
			if (waits || why) {
				tell_waiting(pg, waits ? r : -ENOTCONN, why, &told);
			}
			free(why);
			usleep(RETRY_US);
			continue;
		}
		if (r < 0 && !waits) {
			diag(DIAG_ERROR, "the database refuses to write: %s",
				why ? why : "it does not say why");
		} else if (r == 0 && told) {
			diag(DIAG_INFO, "the database can be used again");
		}
		free(why);
		if (r == 1 && is_over(pg)) {
			r = -ENOTCONN;
		}
		if (r <= 0) {
			pg->flight.status = r;
			return;
		}
	}
}

void pg_writer_wait(struct pg *pg)
{
	while (!worker_wait_for(pg->writer, LOOK_MS)) {
		if (is_over(pg) && !pg->store->opening) {
			break_connection(pg);
		}
	}
}
