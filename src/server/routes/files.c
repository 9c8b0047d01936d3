/*
 * Serves the page's files from two directories, and opened files, such as a session's images. Links
 * and dot files in those directories are not served. Files are read on the thread pool.
 */
#include "server/http_internal.h"
#include "routes.h"

#include "holdfast/beneath.h"
#include "holdfast/deflate.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Most bytes of a file in memory at a time. */
#define PIECE_MAX ((size_t)256 * 1024)

/* Digits of the hash in file names made by scripts/bundle. */
#define HASH_DIGITS 16

static const char highlight_path[] = "/javascript/highlight.js/";

static const char page_headers[] =
	"content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; media-src blob:; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; manifest-src 'self'\r\n";

struct file_job {
	uv_work_t work;
	uv_loop_t *loop;
	struct answer answer;
	char *dir;
	char *path; /* relative to `dir` */
	char etag[72];
	int fd; /* -1: not open */
	uint64_t at; /* offset of the next piece */
	uint64_t size;
	uint64_t left; /* bytes not read yet */
	char *headers; /* of a file that the caller opened; NULL: one of the page's files */
	unsigned status;
	struct buffer bytes; /* the piece that was read */
	bool takes_gzip; /* compress it, if it is text of one piece */
	bool is_packed; /* it was compressed */
	bool is_working; /* on the thread pool */
	int error; /* a negative errno */
};

static const char *type_of(const char *path)
{
	static const struct {
		const char *end;
		const char *type;
	} table[] = {
		{".html", "text/html; charset=utf-8"},
		{".css", "text/css; charset=utf-8"},
		{".js", "text/javascript; charset=utf-8"},
		{".mjs", "text/javascript; charset=utf-8"},
		{".json", "application/json"},
		{".map", "application/json"},
		{".webmanifest", "application/manifest+json"},
		{".svg", "image/svg+xml"},
		{".png", "image/png"},
		{".ico", "image/x-icon"},
		{".woff2", "font/woff2"},
		{".txt", "text/plain; charset=utf-8"},
		{".md", "text/plain; charset=utf-8"},
	};
	size_t len = strlen(path);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		size_t n = strlen(table[i].end);
		if (len > n && strcasecmp(path + len - n, table[i].end) == 0) {
			return table[i].type;
		}
	}
	return "application/octet-stream";
}

/**
 * What a browser may do with a file: pages and scripts, of which some are workers, have the page's
 * rules. What else is opened by itself, such as an image with a script in it, may do nothing.
 */
static const char *rules_of(const char *type)
{
	bool is_page =
		strncmp(type, "text/html", 9) == 0 || strncmp(type, "text/javascript", 15) == 0;
	return is_page ? page_headers : CONTENT_OF_OTHERS;
}

/* --- on the thread pool --- */

/** Does not follow links, which could lead out of the directory or to hidden files in it. */
static int open_file(struct file_job *job)
{
	struct stat st;
	int root = open(job->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		return -errno;
	}
	job->fd = open_by_steps(root, job->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	int error = job->fd < 0 ? -errno : 0;
	close(root);
	if (error || fstat(job->fd, &st) < 0) {
		return error ? error : -errno;
	}
	if (!S_ISREG(st.st_mode)) {
		return -ENOENT;
	}
	job->size = job->left = (uint64_t)st.st_size;
	snprintf(job->etag, sizeof(job->etag), "\"%llx-%llx-%llx\"", (unsigned long long)st.st_ino,
		(unsigned long long)st.st_size,
		(unsigned long long)st.st_mtim.tv_sec * 1000000000ULL +
			(unsigned long long)st.st_mtim.tv_nsec);
	return 0;
}

static int read_piece(struct file_job *job)
{
	size_t want = job->left < PIECE_MAX ? (size_t)job->left : PIECE_MAX;
	buffer_clear(&job->bytes);
	buffer_reserve(&job->bytes, want);
	while (job->bytes.len < want) {
		ssize_t n = pread(job->fd, job->bytes.data + job->bytes.len, want - job->bytes.len,
			(off_t)(job->at + job->bytes.len));
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : -EIO;
		}
		job->bytes.len += (size_t)n;
	}
	job->left -= want;
	job->at += want;
	return 0;
}

/** Whether a file is worth compressing; images and fonts already are compressed. */
static bool is_text(const char *path)
{
	const char *type = type_of(path);
	return strncmp(type, "text/", 5) == 0 || strncmp(type, "application/json", 16) == 0 ||
	       strcmp(type, "application/manifest+json") == 0 || strcmp(type, "image/svg+xml") == 0;
}

/** Compresses the piece. The compressed form has an ETag of its own. */
static void pack(struct file_job *job)
{
	struct buffer packed = {0};
	struct deflater *deflater = deflater_create_small();
	deflate_gzip(deflater, job->bytes.data, job->bytes.len, &packed);
	deflater_destroy(deflater);
	buffer_finish(&job->bytes);
	job->bytes = packed;
	job->size = packed.len;
	job->is_packed = true;
	memcpy(job->etag + strlen(job->etag) - 1, "-gz\"", 5);
}

static void work(uv_work_t *req)
{
	struct file_job *job = req->data;
	bool begins = job->fd < 0 && !job->headers;
	job->error = begins ? open_file(job) : 0;
	if (!job->error) {
		job->error = read_piece(job);
	}
	if (!job->left && job->headers) {
		close(job->fd);
		job->fd = -1;
	}
	if (!job->error && begins && !job->left && job->takes_gzip && job->size >= DEFLATE_MIN) {
		pack(job);
	}
}

/* --- on the loop --- */

static void free_job(struct file_job *job)
{
	if (job->fd >= 0) {
		loop_close_file(job->loop, job->fd);
	}
	buffer_finish(&job->bytes);
	free(job->headers);
	free(job->dir);
	free(job->path);
	free(job);
}

static void refuse_missing(struct conn *conn)
{
	http_refuse(conn, ERROR_not_found, NOTHING_HERE);
}

static struct file_job *job_of(struct answer *answer)
{
	return list_entry(answer, struct file_job, answer);
}

static void file_drop(struct answer *answer)
{
	struct file_job *job = job_of(answer);
	answer->conn = NULL;
	if (!job->is_working) {
		free_job(job);
	}
}

/**
 * Whether a file's name contains "-", 16 hexadecimal digits of its content's hash and an extension:
 * its content never changes.
 */
static bool has_hash(const char *path)
{
	const char *name = strrchr(path, '/');
	const char *dash = strrchr(name ? name : path, '-');
	return dash && strspn(dash + 1, "0123456789abcdef") == HASH_DIGITS &&
	       dash[1 + HASH_DIGITS] == '.';
}

static void begin_opened(struct file_job *job)
{
	struct conn *conn = job->answer.conn;
	http_respond_file(
		conn, job->status, job->headers, job->bytes.data, job->bytes.len, job->size);
	if (!job->left || conn->http->method == HTTP_HEAD) {
		http_drop_answer(conn);
	}
}

static void begin_answer(struct file_job *job)
{
	struct conn *conn = job->answer.conn;
	struct buffer headers = {0};
	bool is_known = http_has_etag(conn, job->etag);
	buffer_printf(&headers, "%scache-control: %s\r\netag: %s\r\nvary: accept-encoding\r\n%s",
		rules_of(type_of(job->path)),
		has_hash(job->path) ? "public, max-age=31536000, immutable" : "no-cache", job->etag,
		job->is_packed && !is_known ? "content-encoding: gzip\r\n" : "");
	if (!is_known) {
		buffer_printf(&headers, "content-type: %s\r\n", type_of(job->path));
	}
	http_respond_file(conn, is_known ? 304 : 200, buffer_cstr(&headers), job->bytes.data,
		job->bytes.len, job->size);
	buffer_finish(&headers);
	if (is_known || !job->left || conn->http->method == HTTP_HEAD) {
		http_drop_answer(conn);
	}
}

static void continue_answer(struct file_job *job)
{
	struct conn *conn = job->answer.conn;
	conn_put(conn, job->bytes.data, job->bytes.len);
	http_expect_taken(conn, job->bytes.len);
	if (!job->left) {
		conn->http->is_answered = true;
		http_drop_answer(conn);
	}
	conn_at_end_of_tick(conn);
}

static void work_done(uv_work_t *req, int status)
{
	struct file_job *job = req->data;
	struct conn *conn = job->answer.conn;
	bool has_begun = job->size - job->left > job->bytes.len;
	job->is_working = false;
	if (!conn) {
		free_job(job);
	} else if (job->error && has_begun) {
		conn_kill(conn); /* the answer cannot be completed */
	} else if (job->error && job->headers) {
		http_drop_answer(conn);
		http_refuse(conn, ERROR_storage_failed,
			"the file cannot be read from disk (see the server's log)");
	} else if (job->error) {
		http_drop_answer(conn);
		refuse_missing(conn);
	} else if (has_begun) {
		continue_answer(job);
	} else if (job->headers) {
		begin_opened(job);
	} else {
		begin_answer(job);
	}
}

static void start_work(struct file_job *job)
{
	job->is_working = true;
	uv_queue_work(job->loop, &job->work, work, work_done);
}

static void file_writable(struct answer *answer)
{
	if (!job_of(answer)->is_working) {
		start_work(job_of(answer));
	}
}

static const struct answer_ops file_ops = {.writable = file_writable, .drop = file_drop};

static struct file_job *begin_job(struct conn *conn)
{
	struct file_job *job = xcalloc(1, sizeof(*job));
	job->work.data = job;
	job->loop = conn->server->loop;
	http_begin_answer(conn, &job->answer, &file_ops);
	return job;
}

/** Whether no part of a path is empty or begins with a dot. */
static bool is_plain(const char *path)
{
	for (;;) {
		size_t len = strcspn(path, "/");
		if (!len || path[0] == '.') {
			return false;
		}
		if (!path[len]) {
			return true;
		}
		path += len + 1;
	}
}

static void start(struct conn *conn, const char *dir, const char *path)
{
	struct file_job *job = begin_job(conn);
	job->dir = xstrdup(dir);
	job->path = xstrdup(path);
	job->fd = -1;
	job->takes_gzip = http_takes_gzip(conn) && is_text(path);
	start_work(job);
}

void http_send_opened(struct conn *conn, unsigned status, const char *headers, int fd,
	uint64_t from, uint64_t size)
{
	struct file_job *job = begin_job(conn);
	job->headers = xstrdup(headers);
	job->status = status;
	job->fd = fd;
	job->at = from;
	job->size = job->left = size;
	start_work(job);
}

static void get_file(struct conn *conn)
{
	const struct server *server = conn->server;
	const char *path = conn->http->path + 1;
	const char *dir = server->web_dir;
	size_t highlight_len = sizeof(highlight_path) - 1;
	if (conn->http->method != HTTP_GET && conn->http->method != HTTP_HEAD) {
		http_refuse_method(conn, "GET");
		return;
	}
	if (server->highlight_dir &&
		strncmp(conn->http->path, highlight_path, highlight_len) == 0) {
		dir = server->highlight_dir;
		path = conn->http->path + highlight_len;
	} else if (!*path) {
		path = "index.html";
	}
	if (!dir || !is_plain(path)) {
		refuse_missing(conn);
		return;
	}
	start(conn, dir, path);
}

/* Below the addresses of the API there is nothing, but who has no token is not told that. */
const struct route file_routes[] = {
	{"/api/sessions/{id...}", "", .flags = ROUTE_SESSION | ROUTE_CHECKED},
	{"/api/{rest...}", "", .flags = 0},
	{"/{file...}", "GET", .flags = ROUTE_OPEN | ROUTE_ALWAYS | ROUTE_LINKED, .serve = get_file},
	{0},
};
