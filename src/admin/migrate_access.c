#include "migrate_access.h"

#include "holdfast/buffer.h"

#include "holdfast/beneath.h"
#include "holdfast/line_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const secrets[] = {"access-token", "token-secret", "push-key"};
#define SECRET_COUNT (sizeof(secrets) / sizeof(secrets[0]))

#define LINES "access.jsonl"
/*
 * The lines of access.jsonl that `holdfast token list` shows. Servers on a database do not share
 * them, so they are kept there under this name until a migration back.
 */
#define NOTES      "access-notes"
#define NOTE_BEGIN "{\"created\":"

static int fail(char **ret_why, int error, const char *name)
{
	*ret_why = xprintf("cannot move %s: %s", name, file_error(-error));
	return error;
}

static void wipe(struct buffer *bytes)
{
	OPENSSL_cleanse(bytes->data, bytes->len);
	buffer_finish(bytes);
}

/* --- to a database --- */

/** Appends the contents of a file to `out`. -ENOENT if it does not exist. */
static int read_file(const char *dir, const char *name, struct buffer *out)
{
	char *path = xprintf("%s/%s", dir, name);
	int r = read_plain_path(path, LINE_FILE_MAX, out);
	free(path);
	return r;
}

static int put_secret(const struct moving_side *database, const char *dir, const char *name)
{
	struct buffer text = {0};
	int r = read_file(dir, name, &text);
	while (text.len && strchr("\r\n", text.data[text.len - 1])) {
		text.len--;
	}
	if (r == 0 && text.len) {
		r = database->shelf->put_secret(database->side, name, text.data, text.len);
	}
	wipe(&text);
	return r == -ENOENT ? 0 : r;
}

/** Sorts complete lines into notes and others. A last line that a crash has cut off is dropped. */
static void sort(const struct buffer *bytes, struct buffer *notes, struct buffer *lines)
{
	const char *at = bytes->data;
	const char *end = at + bytes->len;
	const char *newline;
	while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		size_t len = (size_t)(newline + 1 - at);
		bool is_note =
			len > strlen(NOTE_BEGIN) && memcmp(at, NOTE_BEGIN, strlen(NOTE_BEGIN)) == 0;
		buffer_append(is_note ? notes : lines, at, len);
		at = newline + 1;
	}
}

static int put_lines(const struct moving_side *database, const char *dir)
{
	struct buffer bytes = {0};
	struct buffer notes = {0};
	struct buffer lines = {0};
	int r = read_file(dir, LINES, &bytes);
	sort(&bytes, &notes, &lines);
	if (r == 0) {
		r = database->shelf->put_lines(database->side, lines.data, lines.len);
	}
	if (r == 0 && notes.len) {
		r = database->shelf->put_secret(database->side, NOTES, notes.data, notes.len);
	}
	wipe(&bytes);
	wipe(&notes);
	wipe(&lines);
	return r == -ENOENT ? 0 : r;
}

int migrate_access_up(const struct moving_side *database, const char *dir, char **ret_why)
{
	for (size_t i = 0; i < SECRET_COUNT; i++) {
		int r = put_secret(database, dir, secrets[i]);
		if (r < 0) {
			return fail(ret_why, r, secrets[i]);
		}
	}
	int r = put_lines(database, dir);
	return r < 0 ? fail(ret_why, r, LINES) : 0;
}

/* --- to a directory --- */

static int write_file(const char *dir, const char *name, const struct buffer *bytes)
{
	char *path = xprintf("%s/%s", dir, name);
	int fd = open_plain_path(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int r = fd < 0 ? -errno : 0;
	for (size_t at = 0; r == 0 && at < bytes->len;) {
		ssize_t n = write(fd, bytes->data + at, bytes->len - at);
		r = n < 0 && errno != EINTR ? -errno : 0;
		at += n > 0 ? (size_t)n : 0;
	}
	r = r == 0 && fsync(fd) < 0 ? -errno : r;
	if (fd >= 0) {
		close(fd);
	}
	free(path);
	return r;
}

struct taking {
	const char *dir;
	struct buffer notes;
	struct buffer lines;
};

static int take_secret(void *arg, const char *name, const char *bytes, size_t len)
{
	struct taking *taking = arg;
	struct buffer text = {0};
	int r = 0;
	if (strcmp(name, NOTES) == 0) {
		buffer_append(&taking->notes, bytes, len);
	}
	for (size_t i = 0; i < SECRET_COUNT && r == 0; i++) {
		if (strcmp(name, secrets[i]) == 0) {
			buffer_append(&text, bytes, len);
			buffer_append_char(&text, '\n');
			r = write_file(taking->dir, name, &text);
		}
	}
	wipe(&text);
	return r;
}

static int take_line(void *arg, const char *line, size_t len)
{
	struct taking *taking = arg;
	buffer_append(&taking->lines, line, len);
	buffer_append_char(&taking->lines, '\n');
	return 0;
}

int migrate_access_down(const struct moving_side *database, const char *dir, char **ret_why)
{
	struct taking taking = {.dir = dir};
	int r = database->shelf->each_secret(database->side, take_secret, &taking);
	r = r < 0 ? r : database->shelf->each_line(database->side, take_line, &taking);
	buffer_append(&taking.notes, taking.lines.data, taking.lines.len);
	if (r == 0 && taking.notes.len) {
		r = write_file(taking.dir, LINES, &taking.notes);
	}
	wipe(&taking.notes);
	wipe(&taking.lines);
	return r < 0 ? fail(ret_why, r, "the database's records of tokens and logins") : 0;
}
