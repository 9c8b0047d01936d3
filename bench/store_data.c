#include "store_data.h"

#include "tool.h"

#include "core/store/disk.h"
#include "holdfast/session.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- filling --- */

static void ignore_prompt(void *owner, struct session *session, uint64_t seq, const char *message,
	size_t len, const struct json_t *content)
{
}

static void ignore_session(void *owner, struct session *session)
{
}

static void die_of(void *owner, int error)
{
	die("the journal cannot be written: %s", strerror(-error));
}

static void ignore(void *owner)
{
}

static const struct session_ops ops = {
	.prompt_due = ignore_prompt,
	.changed = ignore_session,
	.deleted = ignore_session,
	.store_failed = die_of,
	.store_revived = ignore,
};

static void put(struct session *session, enum event_type type, const char *data)
{
	uint64_t seq;
	bool duplicate;
	const struct input_event in = {.type = type, .data = data, .data_len = strlen(data)};
	if (session_input(session, &in, &seq, &duplicate) < 0) {
		die("an event was not taken");
	}
}

static void put_event(struct session *session, uint64_t i, uint64_t count)
{
	static const char prompt[] = "{\"message\":\"Please.\",\"prompt_id\":\"p-1\"}";
	char text[160];
	if (i == 0) {
		put(session, EVENT_USER_PROMPT, prompt);
	} else if (i + 1 == count) {
		put(session, EVENT_TURN_END, "{\"stop_reason\":\"end_turn\"}");
	} else {
		snprintf(text, sizeof(text), "Paragraph %llu of a **long** answer.\n\n",
			(unsigned long long)i);
		put(session, EVENT_MESSAGE_CHUNK, text);
	}
}

static void settle(uv_loop_t *loop, struct session_table *table, size_t most)
{
	session_table_end_tick(table);
	while (session_table_backlog(table) > most) {
		uv_run(loop, UV_RUN_ONCE);
		session_table_end_tick(table);
	}
}

static int no_sync(int fd)
{
	return 0;
}

static void fill(const char *dir, uint64_t sessions, uint64_t events)
{
	uv_loop_t loop;
	struct clock clock;
	struct session_table *table;
	struct server_life life = {0};
	char *why = NULL;
	struct disk_ops quick = disk_kernel;
	quick.fdatasync = quick.fsync = no_sync; /* data_fill() syncs everything in the end */
	disk = &quick;
	clock_init(&clock);
	uv_loop_init(&loop);
	if (session_table_open(
		    &(struct session_table_config){.loop = &loop,
			    .limits = limits_default(),
			    .clock = &clock,
			    .place = {.life = &life, .dir = dir, .durability = DURABILITY_WRITE},
			    .ops = &ops},
		    &table, &why) < 0) {
		die("%s", why ? why : "the data directory cannot be opened");
	}
	server_reach(&life, SERVER_SERVING);
	for (uint64_t i = 0; i < sessions; i++) {
		char id[32];
		struct session *session;
		snprintf(id, sizeof(id), "s%llu", (unsigned long long)i);
		if (session_create(table, id,
			    &(struct session_wish){.title = "A session of the bench"},
			    &session) < 0) {
			die("cannot make session %s", id);
		}
		for (uint64_t k = 0; k < events; k++) {
			put_event(session, k, events);
			if (k % 1024 == 1023) {
				settle(&loop, table, 1 << 20);
			}
		}
		settle(&loop, table, 1 << 20);
	}
	settle(&loop, table, 0);
	session_table_close(table);
	uv_run(&loop, UV_RUN_DEFAULT);
}

void data_fill(const char *dir, uint64_t sessions, uint64_t events)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		fill(dir, sessions, events);
		_exit(0);
	}
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
		die("the data directory could not be filled");
	}
	sync();
}

/* --- files --- */

static int forget_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	int fd = type == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		fdatasync(fd);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
	return 0;
}

void data_make_cold(const char *dir)
{
	sync();
	nftw(dir, forget_file, 32, FTW_PHYS);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void data_remove(const char *dir)
{
	nftw(dir, remove_entry, 32, FTW_DEPTH | FTW_PHYS);
}

/* --- the server --- */

static void exec_server(const char *program, const char *dir, const char *limit, int err)
{
	dup2(err, STDERR_FILENO);
	if (limit) {
		execl(program, program, "serve", "--listen", "127.0.0.1:0", "--data", dir, "--auth",
			"off", "--log-level", "warn", "--limit", limit, NULL);
	} else {
		execl(program, program, "serve", "--listen", "127.0.0.1:0", "--data", dir, "--auth",
			"off", "--log-level", "warn", NULL);
	}
	_exit(127);
}

void server_start(struct server *server, const char *program, const char *dir, const char *limit)
{
	int ends[2];
	char line[512];
	uint64_t start = now_ns();
	if (pipe2(ends, O_CLOEXEC) < 0) {
		die("pipe: %s", strerror(errno));
	}
	server->pid = fork();
	if (server->pid == 0) {
		exec_server(program, dir, limit, ends[1]);
	}
	close(ends[1]);
	ssize_t n = read(ends[0], line, sizeof(line) - 1);
	server->start_ns = now_ns() - start;
	line[n > 0 ? n : 0] = '\0';
	const char *colon = strrchr(line, ':');
	server->port = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
	if (!server->port) {
		die("%s did not start: %s", program, line);
	}
	server->err = ends[0];
}

uint64_t server_stop(struct server *server)
{
	int status;
	uint64_t start = now_ns();
	kill(server->pid, SIGTERM);
	if (waitpid(server->pid, &status, 0) != server->pid || status != 0) {
		die("the server did not end well");
	}
	close(server->err);
	return now_ns() - start;
}
