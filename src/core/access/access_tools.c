/* Access to a data directory's tokens for commands, without its server. */
#include "access_internal.h"

#include "holdfast/line_file.h"

#include "holdfast/beneath.h"
#include "holdfast/sealed_line.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

__attribute__((format(printf, 3, 4))) static int fail(int r, char **ret_why, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	if (vasprintf(ret_why, fmt, args) < 0) {
		*ret_why = NULL;
	}
	va_end(args);
	return r;
}

/* --- secrets --- */

char *access_read_file(const char *path, char **ret_why)
{
	struct buffer bytes = {0};
	int r = secret_read_named(path, &bytes);
	if (r < 0) {
		fail(r, ret_why, "%s cannot be read: %s", path, strerror(-r));
		buffer_finish(&bytes);
		return NULL;
	}
	while (bytes.len && strchr("\r\n", bytes.data[bytes.len - 1])) {
		bytes.len--;
	}
	buffer_cstr(&bytes);
	return bytes.data;
}

char *access_read_token(const char *data_dir, char **ret_why)
{
	struct buffer bytes = {0};
	int r = secret_read_or_make(data_dir, "access-token", &bytes);
	if (r < 0) {
		fail(r, ret_why, "%s/access-token cannot be read: %s", data_dir, file_error(-r));
		buffer_finish(&bytes);
		return NULL;
	}
	buffer_cstr(&bytes);
	return bytes.data;
}

/* --- URL --- */

/** Whether a server holds the lock on this file. */
static bool is_locked(const char *data_dir, const char *name)
{
	struct buffer path = {0};
	buffer_printf(&path, "%s/%s", data_dir, name);
	int fd = open_plain_path(buffer_cstr(&path), O_RDONLY, 0);
	buffer_finish(&path);
	bool in_use = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	if (fd >= 0) {
		close(fd);
	}
	return in_use;
}

/** Whether a server uses the data directory, also one with --store. */
static bool is_in_use(const char *data_dir)
{
	return is_locked(data_dir, "lock") || is_locked(data_dir, "node");
}

int access_write_url(const char *data_dir, const char *people, const char *commands)
{
	struct buffer path = {0};
	struct buffer lines = {0};
	buffer_printf(&path, "%s/url", data_dir);
	buffer_printf(&lines, "%s\n%s\n", people, commands);
	int r = line_file_replace(buffer_cstr(&path), &lines);
	buffer_finish(&path);
	buffer_finish(&lines);
	return r;
}

/** Reads a line of DIR/url, which the caller frees; NULL if it is absent or empty. */
static char *read_url(const char *data_dir, int line)
{
	struct buffer path = {0};
	struct buffer bytes = {0};
	char *url = NULL;
	buffer_printf(&path, "%s/url", data_dir);
	if (secret_read(buffer_cstr(&path), &bytes) == 0) {
		const char *at = buffer_cstr(&bytes);
		while (line-- > 0 && *at) {
			at += strcspn(at, "\n");
			at += *at == '\n';
		}
		size_t len = strcspn(at, "\n");
		url = len ? xstrndup(at, len) : NULL;
	}
	buffer_finish(&path);
	buffer_finish(&bytes);
	return url;
}

char *access_read_url(const char *data_dir)
{
	return read_url(data_dir, 0);
}

char *access_read_command_url(const char *data_dir)
{
	return is_in_use(data_dir) ? read_url(data_dir, 1) : NULL;
}

/* --- access.jsonl --- */

static int append(const char *data_dir, struct buffer *object, char **ret_why)
{
	struct buffer path = {0};
	buffer_printf(&path, "%s/access.jsonl", data_dir);
	sealed_line_end(object, 0);
	int r = line_file_append(buffer_cstr(&path), object->data, object->len);
	if (r < 0) {
		fail(r, ret_why, "%s cannot be written: %s", buffer_cstr(&path), file_error(-r));
	}
	buffer_finish(&path);
	return r;
}

int access_make_token(
	const char *data_dir, json_t *claims, int64_t now_ms, char **ret_token, char **ret_why)
{
	struct buffer bytes = {0};
	struct buffer line = {0};
	const char *why = NULL;
	int r = secret_read_or_make(data_dir, "token-secret", &bytes);
	if (r < 0) {
		buffer_finish(&bytes);
		return fail(
			r, ret_why, "%s/token-secret cannot be read: %s", data_dir, file_error(-r));
	}
	struct token_key *key = token_key_secret(bytes.data, bytes.len, &why);
	buffer_finish(&bytes);
	*ret_token = key ? token_key_sign(key, claims) : NULL;
	token_key_destroy(key);
	if (!*ret_token) {
		return fail(-EINVAL, ret_why, "%s/token-secret: %s", data_dir,
			why ? why : "nothing can be signed with it");
	}
	char *text = json_dumps(claims, JSON_COMPACT);
	buffer_printf(&line, "{\"created\":%s,\"at\":%lld", text, (long long)now_ms);
	free(text);
	r = append(data_dir, &line, ret_why);
	buffer_finish(&line);
	if (r < 0) {
		free(*ret_token);
		*ret_token = NULL;
	}
	return r;
}

int access_note_revocation(
	const char *data_dir, const struct revocation *revocation, int64_t now_ms, char **ret_why)
{
	struct buffer line = {0};
	if (is_in_use(data_dir)) {
		return fail(-EBUSY, ret_why,
			"a server uses %s, but cannot be reached at the address in %s/url: stop it first, or run this where it listens",
			data_dir, data_dir);
	}
	revocation_write(revocation, now_ms, &line);
	int r = append(data_dir, &line, ret_why);
	buffer_finish(&line);
	return r;
}

int access_each_line(const char *data_dir, void (*visit)(void *arg, const json_t *line), void *arg,
	char **ret_why)
{
	struct buffer path = {0};
	struct buffer bytes = {0};
	buffer_printf(&path, "%s/access.jsonl", data_dir);
	int r = line_file_read(buffer_cstr(&path), &bytes);
	const char *at = bytes.data;
	const char *end = at + bytes.len;
	const char *newline;
	size_t body;
	while (r == 0 && at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		size_t len = (size_t)(newline - at);
		json_t *line =
			sealed_line_check(at, len, &body) ? json_loadb(at, len, 0, NULL) : NULL;
		if (line) {
			visit(arg, line);
		}
		json_decref(line);
		at = newline + 1;
	}
	if (r < 0) {
		fail(r, ret_why, "%s cannot be read: %s", buffer_cstr(&path), file_error(-r));
	}
	buffer_finish(&path);
	buffer_finish(&bytes);
	return r;
}

/* --- checking --- */

static void check_secret(
	const char *data_dir, const char *name, const char *is_short, access_tell *tell, void *arg)
{
	struct buffer bytes = {0};
	char *path = xprintf("%s/%s", data_dir, name);
	int r = secret_read(path, &bytes);
	while (r == 0 && bytes.len && strchr("\r\n", bytes.data[bytes.len - 1])) {
		bytes.len--;
	}
	if (r < 0 && r != -ENOENT) {
		tell(arg, true, name, file_error(-r));
	} else if (r == 0 && bytes.len < TOKEN_SECRET_MIN) {
		tell(arg, true, name, is_short);
	}
	if (bytes.data) {
		OPENSSL_cleanse(bytes.data, bytes.cap);
	}
	buffer_finish(&bytes);
	free(path);
}

void access_check_files(const char *data_dir, access_tell *tell, void *arg)
{
	struct buffer bytes = {0};
	char *path = xprintf("%s/access.jsonl", data_dir);
	check_secret(data_dir, "access-token", TOKEN_SHORT, tell, arg);
	check_secret(data_dir, "token-secret", SECRET_SHORT, tell, arg);
	check_secret(data_dir, "push-key", SECRET_SHORT, tell, arg);
	int r = line_file_read(path, &bytes);
	size_t line = r == 0 ? access_damaged_line(&bytes) : 0;
	if (r < 0) {
		tell(arg, true, "access.jsonl", file_error(-r));
	} else if (line) {
		char *what = xprintf("line %zu is damaged, and the server does not start: %s", line,
			ACCESS_DAMAGED);
		tell(arg, true, "access.jsonl", what);
		free(what);
	} else if (line_file_torn(&bytes)) {
		tell(arg, false, "access.jsonl", ACCESS_TORN);
	}
	buffer_finish(&bytes);
	free(path);
}

/* --- copying --- */

/**
 * Drops an incomplete last line, which the server may be writing, and if `drops_push` the lines of
 * push subscriptions.
 */
static void keep_lines(struct buffer *bytes, bool drops_push)
{
	static const char push[] = "{\"push\":";
	struct buffer kept = {0};
	const char *end = bytes->data ? memrchr(bytes->data, '\n', bytes->len) : NULL;
	const char *newline;
	for (const char *at = bytes->data; end && at <= end; at = newline + 1) {
		newline = memchr(at, '\n', (size_t)(end + 1 - at));
		size_t len = (size_t)(newline + 1 - at);
		if (!drops_push || len < sizeof(push) || memcmp(at, push, sizeof(push) - 1) != 0) {
			buffer_append(&kept, at, len);
		}
	}
	buffer_finish(bytes);
	*bytes = kept;
}

static int write_copy(const char *path, const struct buffer *bytes)
{
	int fd = open_plain_path(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0) {
		return -errno;
	}
	int r = 0;
	for (size_t at = 0; r == 0 && at < bytes->len;) {
		ssize_t n = write(fd, bytes->data + at, bytes->len - at);
		r = n < 0 ? -errno : 0;
		at += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	return r;
}

static int copy_one(const char *from_dir, const char *to_dir, const char *name, bool drops_push)
{
	struct buffer path = {0};
	struct buffer bytes = {0};
	bool is_lines = strcmp(name, "access.jsonl") == 0; /* a secret may end without a newline */
	buffer_printf(&path, "%s/%s", from_dir, name);
	int r = read_plain_path(buffer_cstr(&path), LINE_FILE_MAX, &bytes);
	if (r == 0) {
		if (is_lines) {
			line_file_mend(&bytes);
			keep_lines(&bytes, drops_push);
		}
		buffer_clear(&path);
		buffer_printf(&path, "%s/%s", to_dir, name);
		r = write_copy(buffer_cstr(&path), &bytes);
	}
	buffer_finish(&path);
	buffer_finish(&bytes);
	return r;
}

int access_copy(const char *from_dir, const char *to_dir, bool drops_push, char **ret_why)
{
	static const char *const names[] = {
		"access-token", "token-secret", "push-key", "access.jsonl"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int r = copy_one(from_dir, to_dir, names[i], drops_push);
		if (r < 0 && (r != -ENOENT || i == 0)) {
			return fail(r, ret_why, "%s/%s cannot be copied: %s", from_dir, names[i],
				file_error(-r));
		}
	}
	return 0;
}
